package cockroach

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/claim"
)

// Replica implements [claim.Store].
func (v *View) Replica(ctx context.Context, key claim.Key) (claim.Record, bool, error) {
	return v.replica(ofTenant(ctx, key.Tenant), "replica", []any{key.Tenant, key.Value}, func(home string) (claim.Key, string) { return key, home })
}

// ReplicaObject implements [claim.Store].
func (v *View) ReplicaObject(ctx context.Context, tenant, home, id string) (claim.Record, bool, error) {
	ctx, err := v.reach(ofTenant(ctx, tenant), home)
	if err != nil {
		return claim.Record{}, false, err
	}
	return v.replica(ctx, "replica_object", []any{home, tenant, id}, func(value string) (claim.Key, string) {
		return claim.Key{Tenant: tenant, Value: value}, home
	})
}

// replica runs a statement that returns the clock, one column more and final
// claims, and returns the first that is live. where makes key and home of the
// column.
func (v *View) replica(ctx context.Context, name string, args []any, where func(more string) (claim.Key, string)) (claim.Record, bool, error) {
	type shown struct {
		now    time.Time
		record claim.Record
	}
	rows, err := many(ctx, v.db, name, repeatable, args, func(row pgx.CollectableRow) (shown, error) {
		var s shown
		var more zeronull.Text
		var r claimRow
		if err := row.Scan(append([]any{&s.now, &more}, r.targets()...)...); err != nil {
			return s, err
		}
		key, home := where(string(more))
		if err := r.read(key, home, &v.db.policy, s.now); err != nil {
			return s, nil // not shown: its home can say what is wrong with it
		}
		s.record = r.record
		return s, nil
	})
	if err != nil {
		return claim.Record{}, false, replicaError(name, err)
	}
	for _, s := range rows {
		if s.record.State.Final() && s.record.Age(&v.db.policy, s.now) == claim.Live {
			return s.record, true, nil
		}
	}
	return claim.Record{}, false, nil
}

// replicaError forgives a refusal: a replica may be behind the tables themselves,
// just after they were made or changed, and has shown nothing then.
func replicaError(name string, err error) error {
	if refusal := (*pgconn.PgError)(nil); errors.As(err, &refusal) && !errors.Is(err, claim.ErrUnavailable) {
		return nil
	}
	return claimError(name, err)
}

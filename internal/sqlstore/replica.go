package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/claim"
)

var replicas = declare[replicaArgs]("replica")

type (
	replicaArgs struct{ Keys []lookupRow }
	lookupRow   struct {
		N int32
		keyRow
		Code int32 // of the home that a stamped key names; 0 for an opaque key
	}
)

// Replica implements [claim.Store].
func (v *View) Replica(ctx context.Context, key claim.Key) (claim.Shown, error) {
	if !claim.Livemode(key.Tenant) {
		return claim.Shown{}, nil // it may lag behind the time that has passed: only the rows themselves say that
	}
	l := &lookup{key: key}
	if code, stamped := claim.ReadStamp(key.Value); stamped {
		l.code = int32(code)
	}
	_, err := v.db.replicas.do(ofTenant(ctx, key.Tenant), "", l)
	if err != nil {
		return claim.Shown{}, replicaError(replicas.name, err) // the statement may still be read
	}
	return l.shown, nil
}

// lookup is a key that is looked up in replicas, and its result.
type lookup struct {
	key   claim.Key
	code  int32
	shown claim.Shown
}

// batchedReplica looks up the keys of many callers in one statement.
func batchedReplica(db *DB) *batched[lookup, replicaArgs] {
	key := func(l *lookup) claim.Key { return l.key }
	s := &batched[lookup, replicaArgs]{
		statement: replicas, reads: true, key: key,
		args: func(ls []*lookup) (args replicaArgs) {
			for i := 0; i < len(ls); i += sameKey(ls[i:], key) {
				args.Keys = append(args.Keys, lookupRow{int32(i), rowOf(ls[i].key), ls[i].code})
			}
			return args
		},
		read: func(rows pgx.Rows, ls []*lookup) error {
			for _, l := range ls {
				l.shown = claim.Shown{} // as a try before may have said, which then failed
			}
			for rows.Next() {
				var n int32
				var now time.Time
				var pinHome, home zeronull.Text
				var pinned zeronull.Timestamptz
				var r claimRow
				if err := rows.Scan(append([]any{&n, &now, &pinHome, &pinned, &home}, r.targets()...)...); err != nil {
					return err
				}
				l, err := at(ls, n)
				if err != nil {
					return err
				}
				l.show(claim.Pin{Key: l.key, Home: string(pinHome), CreatedAt: time.Time(pinned).UTC()}, string(home), &r, &db.policy, now)
				for _, other := range ls[n:][:sameKey(ls[n:], key)] {
					other.shown = l.shown
				}
			}
			return rows.Err()
		},
	}
	return s.open(db)
}

// show takes the result of one region's replica.
func (l *lookup) show(pin claim.Pin, home string, r *claimRow, p *claim.Policy, now time.Time) {
	// Of two pins the later one, as of [standing].
	if pin.Home != "" && pin.Settled(p, now) && (l.shown.Pin == nil || pin.CreatedAt.After(l.shown.Pin.CreatedAt)) {
		l.shown.Pin = &pin
	}
	// The statement shows final rows alone. A damaged one is not shown: its home can say what is
	// wrong with it.
	if r.present() && r.read(l.key, home, p, now) == nil && r.record.Age(p, now) == claim.Live {
		l.shown.Record = &r.record
	}
}

// replicaError ignores a refusal: a replica may not have the tables yet, just after
// they were created or changed.
func replicaError(name string, err error) error {
	if refusal := (*pgconn.PgError)(nil); errors.As(err, &refusal) && !errors.Is(err, claim.ErrUnavailable) {
		return nil
	}
	return claimError(name, err)
}

package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/claim"
)

const (
	// maxLooks bounds how often one step decides anew because the row changed between
	// reading and writing. Each time another step made progress.
	maxLooks = 8
	// decisionLife is how long after the read a decision may still be written, by the
	// store's clock: far above a statement's time, far below every window. A process
	// that slept longer reads again.
	decisionLife = 10 * time.Second
)

var (
	claimByObject = declare[ownObjectArgs]("object")
	claimsSettled = declare[keyPageArgs]("claims_settled")

	claimsReversing = declare[reversingArgs]("reversing")
)

type reversingArgs struct {
	Home, TenantID, Reverses string
	Limit                    int64
}

// Get implements [claim.Store].
func (v *View) Get(ctx context.Context, key claim.Key, home string) (claim.Record, time.Time, bool, error) {
	ctx, err := v.reach(ofTenant(ctx, key.Tenant), home)
	if err != nil {
		return claim.Record{}, time.Time{}, false, err
	}
	row, now, err := v.get(ctx, key, home)
	if err != nil || row == nil {
		return claim.Record{}, now, false, err
	}
	return row.record, now, true, nil
}

func (v *View) get(ctx context.Context, key claim.Key, home string) (*claimRow, time.Time, error) {
	got, err := v.find(ctx, home, []claim.Key{key})
	if err != nil {
		return nil, time.Time{}, claimError(claimFind.name, err)
	}
	row, now := got[0].row, got[0].now
	if row != nil {
		err = row.read(key, home, &v.db.policy, now)
	}
	return row, now, err
}

// find reads what is under some keys, in their order.
func (v *View) find(ctx context.Context, home string, keys []claim.Key) ([]present, error) {
	args := findArgs{Home: home, Keys: make([]foundKey, len(keys))}
	for i, k := range keys {
		args.Keys[i] = foundKey{int32(i), rowOf(k)}
	}
	found := make([]present, len(keys))
	_, err := many(ctx, v.db, claimFind, repeatable, args, func(row pgx.CollectableRow) (struct{}, error) {
		n, p, err := scanPresent(row)
		if err == nil {
			found[n] = p
		}
		return struct{}{}, err
	})
	return found, err
}

// object reads the claim of an object, of any tenant if that is "", without its response.
func (v *View) object(ctx context.Context, tenant, home, id string) (p present, err error) {
	p, _, _, err = one(ctx, v.db, claimByObject, repeatable, ownObjectArgs{Home: home, TenantID: tenant, ObjectID: id}, func(row pgx.CollectableRow) (p present, err error) {
		var owner, value zeronull.Text
		var r claimRow
		if err := row.Scan(append([]any{&p.now, &owner, &value}, r.targets()...)...); err != nil {
			return p, err
		}
		p.now = p.now.UTC()
		if r.present() {
			p.row = &r
			err = r.readRow(claim.Key{Tenant: string(owner), Value: string(value)}, home)
		}
		return p, err
	})
	return p, claimError(claimByObject.name, err)
}

// Object implements [claim.Store].
func (v *View) Object(ctx context.Context, tenant, home, id string) (claim.Record, time.Time, bool, error) {
	ctx, err := v.reach(ofTenant(ctx, tenant), home)
	if err != nil || tenant == "" {
		return claim.Record{}, time.Time{}, false, err
	}
	p, err := v.object(ctx, tenant, home, id)
	if err == nil && p.row != nil {
		err = claimError(claimByObject.name, p.row.readResponse(&v.db.policy, p.now))
	}
	if err != nil || p.row == nil || p.row.record.State.Final() && p.row.record.Response == nil {
		return claim.Record{}, p.now, false, err
	}
	return p.row.record, p.now, true, nil
}

// Reversing implements [claim.Store].
func (v *View) Reversing(ctx context.Context, tenant, home, id string, limit int) ([]claim.Reversing, error) {
	ctx, err := v.reach(ofTenant(ctx, tenant), home)
	if err != nil || limit <= 0 {
		return nil, err
	}
	all, err := many(ctx, v.db, claimsReversing, repeatable, reversingArgs{home, tenant, id, int64(limit)}, func(row pgx.CollectableRow) (r claim.Reversing, err error) {
		err = row.Scan(&r.ID, &r.Created, &r.Payload)
		r.Created = r.Created.UTC()
		return r, err
	})
	return all, claimError(claimsReversing.name, err)
}

// Settled returns up to limit claims of home that are not in flight, in the order of
// their keys after the given one: byte for byte on CockroachDB, in the order of the
// database's collation on PostgreSQL. It leaves out their responses.
func (v *View) Settled(ctx context.Context, home string, after claim.Key, limit int) ([]claim.Record, error) {
	ctx, err := v.reach(ctx, home)
	if err != nil || limit <= 0 {
		return nil, err
	}
	all, err := many(ctx, v.db, claimsSettled, repeatable, keyPageArgs{keyIn(home, after), int64(limit)}, scanOwned(home))
	return all, claimError(claimsSettled.name, err)
}

// ByObject reads the claim of an object of any tenant with authority, without its
// response. A row past its tombstone is returned.
func (v *View) ByObject(ctx context.Context, home, id string) (claim.Record, bool, error) {
	ctx, err := v.reach(ctx, home)
	if err != nil {
		return claim.Record{}, false, err
	}
	p, err := v.object(ctx, "", home, id)
	if err != nil || p.row == nil {
		return claim.Record{}, false, err
	}
	return p.row.record, true, nil
}

// scanOwned scans a key and a claim without its response.
func scanOwned(home string) pgx.RowToFunc[claim.Record] {
	return func(row pgx.CollectableRow) (claim.Record, error) {
		var key claim.Key
		var r claimRow
		if err := row.Scan(append([]any{&key.Tenant, &key.Value}, r.row()...)...); err != nil {
			return claim.Record{}, err
		}
		err := r.readRow(key, home)
		return r.record, err
	}
}

func restless(key claim.Key) error {
	return fmt.Errorf("%w: a claim of tenant %s keeps changing; try again", claim.ErrUnavailable, key.Tenant)
}

// claimError maps a refusal of the database to an error of the contract: the home has no
// region there, no repeat can store what the step would write, or the refusal is our own
// mistake, which a migration or a grant may end.
func claimError(name string, err error) error {
	switch {
	case err == nil, errors.Is(err, claim.ErrUnavailable), errors.Is(err, ErrTransaction), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case hasCode(err, codeInvalidText):
		return fmt.Errorf("%w: %s: %w", claim.ErrHomeUnreachable, name, &lineError{err})
	case isDataError(err):
		return fmt.Errorf("%w: %s: %w", claim.ErrUnstorable, name, &lineError{err})
	default:
		return unavailable(name, err)
	}
}

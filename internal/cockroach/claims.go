package cockroach

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

const (
	// maxLooks bounds how often one step decides anew because the row changed
	// between reading and writing. Each time somebody else made progress.
	maxLooks = 8
	// decisionLife is how long after the reading a decision may still be written,
	// by the store's clock: far above a statement's time, far below every window.
	// A process that slept longer looks again.
	decisionLife = 10 * time.Second
)

var (
	claimBegin     = declare[beginArgs]("begin")
	claimBeginNext = declare[beginAgainArgs]("begin_again")
	claimTakeOver  = declare[takeOverArgs]("take_over")
	claimDefer     = declare[deferArgs]("defer")
	claimByKey     = declare[keyArgs]("get")
	claimByOwner   = declare[ownObjectArgs]("object")
	claimByObject  = declare[objectArgs]("claim_by_object")
	claimsSettled  = declare[keyPageArgs]("claims_settled")
	claimsToRenew  = declare[renewableArgs]("renewable")
	claimsRenew    = declare[renewArgs]("renew")
)

// Begin implements [claim.Store].
func (v *View) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	asked, underWay := time.Now(), a.UnderWay
	if a.CompareOnly {
		a.Stamped, a.PinnedAt = false, time.Time{} // so that the statement makes no claim
	}
	ctx, err := v.reach(ofTenant(ctx, a.Key.Tenant), a.Home)
	if err != nil {
		return claim.Begun{}, err
	}
	// What a new claim would be. Whether there may be one is for the statement to
	// say, which knows the time.
	allowed := a
	allowed.Stamped, allowed.CompareOnly = true, false
	fresh, fx, _, err := claim.Begin(nil, &allowed, &v.db.policy, epoch)
	if err != nil {
		return claim.Begun{}, err
	}
	create := &creation{Arrival: &a, fresh: fresh, message: fx.Enqueue, audit: &fx.Audit[0], step: newStep(), entry: newEntry()}
	// Writes of ours that may be in the row without our knowing.
	mine := map[uuid.UUID]claim.Decision{create.step: claim.Won}
	for range maxLooks {
		got, err := v.begin(ctx, create)
		switch {
		case hasCode(err, codeUnique):
			continue // a twin with our minted id commits at this moment: look again
		case err != nil:
			return claim.Begun{}, err
		case got.created:
			return claim.Begun{Decision: claim.Won, Record: dated(*fresh, got.firstUse), Now: got.now}, nil
		case got.row != nil:
			if decision, ok := mine[got.row.step]; ok {
				return claim.Begun{Decision: decision, Record: got.row.record, Now: got.now}, nil
			}
		}
		var old *claim.Record
		if got.row != nil {
			old = &got.row.record
		}
		a.UnderWay = underWay + time.Since(asked)
		next, fx, decision, err := claim.Begin(old, &a, &v.db.policy, got.now)
		switch {
		case err != nil:
			return claim.Begun{}, err
		case next == nil && old == nil || decision == claim.NeedPin:
			return claim.Begun{Decision: decision, Now: got.now}, nil
		case next == nil:
			return claim.Begun{Decision: decision, Record: *old, Now: got.now}, nil
		case old == nil:
			continue // another arrival commits at this moment: look again
		}
		step := newStep()
		var done bool
		if fx.Enqueue != nil {
			done, err = v.beginAgain(ctx, got, step, next, &fx)
		} else {
			done, err = v.takeOver(ctx, got.row, step, next, &fx)
		}
		if err != nil {
			return claim.Begun{}, err
		}
		if done {
			return claim.Begun{Decision: decision, Record: *next, Now: got.now}, nil
		}
		mine[step] = decision
	}
	return claim.Begun{}, restless(a.Key)
}

func restless(key claim.Key) error {
	return fmt.Errorf("%w: a claim of tenant %s keeps changing; try again", claim.ErrUnavailable, key.Tenant)
}

// dated moves a claim that was begun at epoch to when it was made.
func dated(rec claim.Record, firstUse time.Time) claim.Record {
	late := firstUse.Sub(epoch)
	rec.LeaseUntil, rec.HeldSince, rec.FirstUse = rec.LeaseUntil.Add(late), rec.HeldSince.Add(late), rec.FirstUse.Add(late)
	rec.Minted.Created = firstUse.Truncate(time.Second)
	return rec
}

// creation is a request that arrives: the claim that it would make, and what the
// statement said of it.
type creation struct {
	*claim.Arrival
	fresh   *claim.Record
	message *outbox.Message
	audit   *claim.AuditEntry
	step    uuid.UUID
	entry   uuid.UUID

	found bool // the statement said something
	begun begun
	err   error // of this row alone
}

// begun is what the statement begin returned.
type begun struct {
	now, firstUse time.Time
	created       bool
	row           *claimRow // the row that was there, nil for none
}

type (
	beginArgs struct {
		Home   string
		Claims []newClaim
	}
	newClaim struct {
		N int32
		keyRow
		mintedRow
		Holder  string
		Lease   time.Duration
		Step    uuid.UUID
		Stamped bool
		PinEnds time.Time
		Message callRow
		Entry   placedEntry
	}
)

func beginGroup(db *DB) *group[creation, beginArgs] {
	return &group[creation, beginArgs]{
		db: db, statement: claimBegin, lines: map[line]*gathering[creation]{},
		key: func(c *creation) claim.Key { return c.Key },
		args: func(cs []*creation) beginArgs {
			args := beginArgs{Home: cs[0].Home, Claims: make([]newClaim, len(cs))}
			for i, c := range cs {
				args.Claims[i] = newClaim{
					N: int32(i), keyRow: rowOf(c.Key), mintedRow: mintedOf(c.fresh),
					Holder: c.fresh.Holder, Lease: c.fresh.LeaseUntil.Sub(epoch), Step: c.step,
					Stamped: c.Stamped, PinEnds: micros(c.PinnedAt.Add(db.policy.CreateWithin())),
					Message: callOf(c.message), Entry: placedEntryOf(c.entry, c.audit),
				}
			}
			return args
		},
		read: func(rows pgx.Rows, cs []*creation) error {
			for _, c := range cs {
				c.found = false // as a try before may have said, which then failed
			}
			for rows.Next() {
				var n int32
				var b begun
				var first zeronull.Timestamptz
				var r claimRow
				if err := rows.Scan(append([]any{&n, &b.now, &first}, r.targets()...)...); err != nil {
					return err
				}
				c, err := at(cs, n)
				if err != nil {
					return err
				}
				b.now, b.firstUse = b.now.UTC(), time.Time(first).UTC()
				b.created = !time.Time(first).IsZero()
				c.err = nil
				if r.present() {
					c.err = r.read(c.Key, c.Home, &db.policy, b.now)
					b.row = &r
				}
				c.begun, c.found = b, true
			}
			return rows.Err()
		},
	}
}

func (v *View) begin(ctx context.Context, c *creation) (begun, error) {
	_, err := v.db.begins.do(ctx, c.Home, c)
	switch {
	case err != nil:
		return begun{}, claimError(claimBegin.name, err) // the group may still be reading
	case !c.found:
		return begun{}, claimError(claimBegin.name, errors.New("no row"))
	}
	return c.begun, claimError(claimBegin.name, c.err)
}

type beginAgainArgs struct {
	heldArgs
	mintedRow
	FirstUse, Created time.Time
	Generation        int32
	ProviderRef       string
	GoodUntil         time.Time
	Message           callRow
	MessageCreatedAt  time.Time
	KeepRefusal       bool
}

func (v *View) beginAgain(ctx context.Context, got begun, step uuid.UUID, next *claim.Record, fx *claim.Effects) (bool, error) {
	_, found, _, err := one(ctx, v.db, claimBeginNext, repeatable, beginAgainArgs{
		heldArgs: heldBy(got.row, step, next, fx), mintedRow: mintedOf(next),
		FirstUse: next.FirstUse, Created: next.Minted.Created, Generation: int32(next.Generation), ProviderRef: next.ProviderRef,
		GoodUntil: got.now.Add(decisionLife), Message: callOf(fx.Enqueue), MessageCreatedAt: fx.Enqueue.CreatedAt,
		KeepRefusal: next.Refusal != nil, // which is then the row's
	}, pgx.RowTo[int64])
	return found, claimError(claimBeginNext.name, err)
}

// TakeOver implements [claim.Store].
func (v *View) TakeOver(ctx context.Context, key claim.Key, home, object, holder, region string) (claim.Record, error) {
	ctx, err := v.reach(ofClaims(ctx), home)
	if err != nil {
		return claim.Record{}, err
	}
	mine := map[uuid.UUID]bool{}
	for range maxLooks {
		row, now, err := v.get(ctx, key, home)
		if err != nil {
			return claim.Record{}, err
		}
		var old *claim.Record
		if row != nil {
			if mine[row.step] {
				return row.record, nil
			}
			old = &row.record
		}
		next, fx, err := claim.TakeOver(old, object, holder, region, &v.db.policy, now)
		if err != nil {
			return claim.Record{}, err
		}
		step := newStep()
		done, err := v.takeOver(ctx, row, step, next, &fx)
		if err != nil {
			return claim.Record{}, err
		}
		if done {
			return *next, nil
		}
		mine[step] = true
	}
	return claim.Record{}, restless(key)
}

type takeOverArgs struct {
	heldArgs
	ObjectID string
}

func (v *View) takeOver(ctx context.Context, row *claimRow, step uuid.UUID, next *claim.Record, fx *claim.Effects) (bool, error) {
	args := takeOverArgs{heldBy(row, step, next, fx), next.Minted.ID}
	_, found, _, err := one(ofClaims(ctx), v.db, claimTakeOver, repeatable, args, pgx.RowTo[int64])
	return found, claimError(claimTakeOver.name, err)
}

// heldArgs give a row that was read to a holder.
type heldArgs struct {
	keyArgs
	OldStep, Step         uuid.UUID
	Fence                 int64
	Holder                string
	LeaseUntil, HeldSince time.Time
	Attempts              int32
	Entry                 placedEntry
}

func heldBy(row *claimRow, step uuid.UUID, next *claim.Record, fx *claim.Effects) heldArgs {
	return heldArgs{
		keyArgs: keyIn(next.Home, next.Key), OldStep: row.step, Step: step,
		Fence: int64(next.Fence), Holder: next.Holder, LeaseUntil: next.LeaseUntil, HeldSince: next.HeldSince,
		Attempts: int32(next.Attempts), Entry: placedEntryOf(newEntry(), &fx.Audit[0]),
	}
}

// Settle implements [claim.Store].
func (v *View) Settle(ctx context.Context, held claim.Record, verdict claim.Verdict) (claim.Record, error) {
	if verdict.ID == uuid.Nil {
		verdict.ID = newStep()
	}
	next, fx, err := claim.Settle(&held, &held, &verdict, &v.db.policy, epoch, rand.Float64())
	if err != nil {
		return claim.Record{}, err
	}
	if next == &held {
		return held, nil
	}
	ctx, err = v.reach(ofClaims(ctx), held.Home)
	if err != nil {
		return claim.Record{}, err
	}
	if fx.Post != nil {
		if invalid := fx.Post.Validate(); invalid != nil {
			return claim.Record{}, v.unbookable(ctx, &held, &verdict, invalid)
		}
	}
	// The verdict's name is the step's, so that whoever says it again finds it.
	said := &settlement{old: &held, next: next, fx: &fx, step: verdict.ID}
	if next.State == claim.InFlight {
		err = v.putOff(ctx, said)
	} else {
		_, err = v.db.settles.do(ctx, held.Home, said)
		err = settleError(&fx, err)
	}
	switch {
	case err != nil:
		return claim.Record{}, err
	case said.done:
		next.LeaseUntil = said.lease.UTC()
		switch {
		case next.State.Final():
			next.SettledAt = said.now.UTC()
		case next.State == claim.FailedRetry:
			next.Refusal.At = said.now.UTC()
		}
		return *next, nil
	}
	// Perhaps the row has this verdict already: a try whose reply was lost did it, in
	// this call or in one before.
	row, _, err := v.get(ctx, held.Key, held.Home)
	if err != nil {
		return claim.Record{}, err
	}
	if row != nil && row.step == said.step && row.record.Minted.ID == held.Minted.ID {
		return row.record, nil
	}
	return claim.Record{}, claim.ErrFenced
}

type deferArgs struct {
	keyArgs
	ObjectID, Reason, Region, Node               string
	OldFence, Fence                              int64
	OldUnknowns, Unknowns, NotFounds, Generation int32
	Pause                                        time.Duration
	Step                                         uuid.UUID
	First, Second                                entryRow // which differ in little
}

// putOff is the step of an attempt that ended without an outcome.
func (v *View) putOff(ctx context.Context, s *settlement) error {
	old, next, first, second := s.old, s.next, &s.fx.Audit[0], &s.fx.Audit[1]
	_, found, _, err := one(ctx, v.db, claimDefer, repeatable, deferArgs{
		keyArgs: keyIn(old.Home, old.Key), ObjectID: old.Minted.ID, OldFence: int64(old.Fence), OldUnknowns: int32(old.Unknowns),
		Fence: int64(next.Fence), Reason: next.Reason, Unknowns: int32(next.Unknowns), NotFounds: int32(next.NotFounds),
		Pause: next.LeaseUntil.Sub(epoch).Truncate(time.Microsecond), Step: s.step,
		Region: first.Region, Node: first.Node, Generation: int32(first.Generation),
		First: entryOf(newEntry(), first), Second: entryOf(newEntry(), second),
	}, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, row.Scan(&s.now, &s.lease) })
	s.done = found
	return claimError(claimDefer.name, err)
}

// unbookable is why a verdict is not recorded whose posting is invalid: that, unless
// the claim is no longer the holder's anyway.
func (v *View) unbookable(ctx context.Context, held *claim.Record, verdict *claim.Verdict, invalid error) error {
	row, now, err := v.get(ctx, held.Key, held.Home)
	if err != nil {
		return err
	}
	var is *claim.Record
	if row != nil {
		is = &row.record
	}
	if _, _, err := claim.Settle(is, held, verdict, &v.db.policy, now, 0); err != nil {
		return err
	}
	return fmt.Errorf("settle: %w", invalid)
}

// Settled returns up to limit claims of home that are not in flight, in the order
// of their keys from behind after: byte for byte on CockroachDB, in the order of the
// database's collation on PostgreSQL. Their responses are left out.
func (v *View) Settled(ctx context.Context, home string, after claim.Key, limit int) ([]claim.Record, error) {
	ctx, err := v.reach(ctx, home)
	if err != nil || limit <= 0 {
		return nil, err
	}
	all, err := many(ctx, v.db, claimsSettled, repeatable, keyPageArgs{keyIn(home, after), int64(limit)}, scanOwned(home))
	return all, claimError(claimsSettled.name, err)
}

// ByObject reads the claim of an object with authority, whoever's it is, without its
// response. A row past its tombstone is returned.
func (v *View) ByObject(ctx context.Context, home, id string) (claim.Record, bool, error) {
	ctx, err := v.reach(ctx, home)
	if err != nil {
		return claim.Record{}, false, err
	}
	rec, found, _, err := one(ctx, v.db, claimByObject, repeatable, objectArgs{Home: home, ObjectID: id}, scanOwned(home))
	return rec, found, claimError(claimByObject.name, err)
}

// scanOwned scans the clock, a key and a claim without its response.
func scanOwned(home string) pgx.RowToFunc[claim.Record] {
	return func(row pgx.CollectableRow) (claim.Record, error) {
		var now time.Time
		var key claim.Key
		var r claimRow
		if err := row.Scan(append([]any{&now, &key.Tenant, &key.Value}, r.row()...)...); err != nil {
			return claim.Record{}, err
		}
		err := r.readRow(key, home)
		return r.record, err
	}
}

// Renew implements [claim.Store]. It is one step for each home, all at once, so that
// one that cannot be reached uses up nobody else's time.
func (v *View) Renew(ctx context.Context, holder string, leases []claim.Lease) ([]bool, error) {
	held := make([]bool, len(leases))
	homes := map[string][]int{}
	for i, l := range leases {
		homes[l.Home] = append(homes[l.Home], i)
	}
	var steps errgroup.Group
	for home, of := range homes {
		steps.Go(func() error { return v.renew(ctx, home, holder, leases, of, held) })
	}
	if err := steps.Wait(); err != nil {
		return nil, err
	}
	return held, nil
}

type (
	renewableArgs struct {
		Home string
		Keys []keyRow
	}
	renewArgs struct {
		Home   string
		Leases []leaseRow
		Step   uuid.UUID
	}
	leaseRow struct {
		keyRow
		Step       uuid.UUID // that was read
		LeaseUntil time.Time
	}
)

// renew renews those of leases that of names, all at home, and marks in held
// which are.
func (v *View) renew(ctx context.Context, home, holder string, leases []claim.Lease, of []int, held []bool) error {
	ctx, err := v.reach(ofClaims(ctx), home)
	if err != nil {
		return err
	}
	byKey := make(map[claim.Key][]int, len(of))
	for _, i := range of {
		byKey[leases[i].Key] = append(byKey[leases[i].Key], i)
	}
	for range maxLooks {
		// In the order of their keys, as groups write them: else the two wait for each other.
		var keys []keyRow
		for _, k := range slices.SortedFunc(maps.Keys(byKey), claim.Key.Compare) {
			keys = append(keys, rowOf(k))
		}
		rows, err := many(ctx, v.db, claimsToRenew, repeatable, renewableArgs{home, keys}, scanRenewable)
		if err != nil {
			return claimError(claimsToRenew.name, err)
		}
		slices.SortFunc(rows, func(a, b renewable) int { return a.record.Key.Compare(b.record.Key) })
		var renewals []leaseRow
		mine := map[claim.Key]int{}
		for _, r := range rows {
			k := r.record.Key
			for _, i := range byKey[k] {
				next, err := claim.Renew(&r.record, holder, leases[i].Fence, &v.db.policy, r.now)
				if err != nil {
					continue // fenced off: the only error there is
				}
				if next.LeaseUntil.Equal(r.record.LeaseUntil) {
					held[i] = true
					continue
				}
				mine[k] = i
				renewals = append(renewals, leaseRow{rowOf(k), r.step, next.LeaseUntil})
				break // two leases on one row have one fence, or one of them is stale
			}
		}
		if len(mine) == 0 {
			return nil
		}
		renewed, err := many(ctx, v.db, claimsRenew, once, renewArgs{home, renewals, newStep()},
			func(row pgx.CollectableRow) (k claim.Key, err error) {
				err = row.Scan(&k.Tenant, &k.Value)
				return k, err
			})
		if err != nil {
			return claimError(claimsRenew.name, err)
		}
		for _, k := range renewed {
			held[mine[k]] = true
			delete(mine, k)
		}
		if len(mine) == 0 {
			return nil
		}
		// These changed in between: look at them again.
		for k := range byKey {
			if _, ok := mine[k]; !ok {
				delete(byKey, k)
			}
		}
	}
	return fmt.Errorf("%w: the claims to renew keep changing", claim.ErrUnavailable)
}

type renewable struct {
	now    time.Time
	step   uuid.UUID
	record claim.Record
}

func scanRenewable(row pgx.CollectableRow) (r renewable, err error) {
	var state int16
	var fence int64
	rec := &r.record
	err = row.Scan(&r.now, &rec.Key.Tenant, &rec.Key.Value, &state, &fence, &rec.Holder, &rec.LeaseUntil, &rec.HeldSince, &r.step)
	rec.State, rec.Fence = claim.State(state), uint64(fence)
	return r, err
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
	return readClaim(ctx, v, claimByKey, home, keyIn(home, key), func(*zeronull.Text) claim.Key { return key })
}

// Object implements [claim.Store].
func (v *View) Object(ctx context.Context, tenant, home, id string) (claim.Record, time.Time, bool, error) {
	ctx, err := v.reach(ofTenant(ctx, tenant), home)
	if err != nil {
		return claim.Record{}, time.Time{}, false, err
	}
	row, now, err := readClaim(ctx, v, claimByOwner, home, ownObjectArgs{Home: home, TenantID: tenant, ObjectID: id}, func(key *zeronull.Text) claim.Key {
		return claim.Key{Tenant: tenant, Value: string(*key)}
	})
	if err != nil || row == nil || row.record.State.Final() && row.record.Response == nil {
		return claim.Record{}, now, false, err
	}
	return row.record, now, true, nil
}

// readClaim runs a statement that returns the clock, one column more and a claim.
func readClaim[A any](ctx context.Context, v *View, s statement[A], home string, args A, key func(more *zeronull.Text) claim.Key) (*claimRow, time.Time, error) {
	type answer struct {
		now time.Time
		row *claimRow
	}
	got, _, _, err := one(ctx, v.db, s, repeatable, args, func(row pgx.CollectableRow) (answer, error) {
		var a answer
		var more zeronull.Text
		var r claimRow
		if err := row.Scan(append([]any{&a.now, &more}, r.targets()...)...); err != nil {
			return a, err
		}
		if r.present() {
			a.row = &r
			return a, r.read(key(&more), home, &v.db.policy, a.now)
		}
		return a, nil
	})
	return got.row, got.now.UTC(), claimError(s.name, err)
}

// claimError turns what the database refused into an error of the contract: it
// is either a home that the database does not have or our own mistake.
func claimError(name string, err error) error {
	switch {
	case err == nil, errors.Is(err, claim.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case hasCode(err, codeInvalidText):
		return fmt.Errorf("%w: %s: %w", claim.ErrHomeUnreachable, name, &lineError{err})
	default:
		return unavailable(name, err)
	}
}

package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/claim"
)

var (
	claimBegin     = declare[beginArgs]("begin")
	claimBeginHere = declare[beginArgs]("begin_here")
	claimFind      = declare[findArgs]("find")
	claimBeginNext = declare[beginAgainArgs]("begin_again")
	claimChange    = declare[changeArgs]("change")
)

// Begin implements [claim.Store].
func (v *View) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	asked := time.Now()
	if a.PinsHere() {
		if err := claim.Pinnable(a.Key); err != nil {
			return claim.Begun{}, err
		}
	}
	ctx, err := v.reach(ofTenant(ctx, a.Key.Tenant), a.Home)
	if err != nil {
		return claim.Begun{}, err
	}
	// Only the statement, which has the time, can decide whether the claim may be created.
	create := &creation{Arrival: &a, fresh: claim.New(&a, &v.db.policy), step: newStep(), begun: newEntry()}
	// Earlier tries of ours that may have written the row without our knowledge.
	mine := map[uuid.UUID]claim.Decision{create.step: claim.Won}
	unmade := false
	for look := range maxLooks {
		got, err := v.begin(ctx, create, look == 0)
		switch {
		case hasCode(err, codeUnique) && !errors.Is(err, ErrTransaction):
			continue // a concurrent arrival commits our minted id: read again
		case err != nil:
			return claim.Begun{}, err
		case !create.firstUse.IsZero():
			rec, _ := create.fresh.At(create.firstUse)
			return claim.Begun{Decision: claim.Won, Record: *rec, Now: create.firstUse}, nil
		case got.row != nil:
			if decision, ok := mine[got.row.step]; ok {
				return claim.Begun{Decision: decision, Record: got.row.record, Now: got.now}, nil
			}
		}
		var old *claim.Record
		if got.row != nil {
			old = &got.row.record
		}
		next, fx, decision, err := claim.Begin(old, &a, time.Since(asked), &v.db.policy, got.now)
		switch {
		case err != nil:
			return claim.Begun{}, err
		case next == nil && old == nil || decision == claim.NeedPin:
			return claim.Begun{Decision: decision, Now: got.now}, nil
		case next == nil:
			return claim.Begun{Decision: decision, Record: *old, Now: got.now}, nil
		case old == nil && create.asked && unmade && !a.Stamped:
			// The clock that begin read finds the pin too old, and the one that find read does
			// not: two gateways of CockroachDB differ by a little.
			return claim.Begun{Decision: claim.NeedPin, Now: got.now}, nil
		case old == nil:
			unmade = create.asked
			continue // the row has gone since, or was not looked for: begin again
		}
		step := newStep()
		var done bool
		if fx.Enqueue != nil {
			done, err = v.beginAgain(ctx, got, step, next, &fx)
		} else {
			done, err = v.change(ctx, got.row, step, next, &fx)
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

// creation is an arriving request: the claim that it would create, and the result of
// the statement.
type creation struct {
	*claim.Arrival
	fresh *claim.Fresh
	step  uuid.UUID
	begun uuid.UUID // the line of audit

	asked    bool      // begin has answered
	firstUse time.Time // of the claim that it has made; zero if it made none
	found    bool      // find has answered
	present  present
	err      error // of this row alone
}

// present is what find returns: the clock, and the row, nil for none.
type present struct {
	now time.Time
	row *claimRow
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
		// Of the line of audit. The claim has the rest of it.
		BegunID     uuid.UUID
		BegunRegion string
	}
	findArgs struct {
		Home string
		Keys []foundKey
	}
	foundKey struct {
		N int32
		keyRow
	}
)

// makes reports whether the step may make a claim, and not only find one.
func (c *creation) makes() bool {
	return !c.CompareOnly && (c.Stamped || c.PinHere || !c.PinnedAt.IsZero())
}

// batchedBegin batches one of the two statements that make claims. They are apart so that a
// table of pins that does not answer stops no key that has its home, and since the part that
// pins costs the others.
func batchedBegin(db *DB, s statement[beginArgs]) *batched[creation, beginArgs] {
	b := &batched[creation, beginArgs]{
		statement: s,
		key:       func(c *creation) claim.Key { return c.Key },
		bytes:     func(c *creation) int { return len(c.fresh.Call.Payload) },
		args: func(cs []*creation) beginArgs {
			args := beginArgs{Home: cs[0].Home, Claims: make([]newClaim, len(cs))}
			for i, c := range cs {
				args.Claims[i] = newClaim{
					N: int32(i), keyRow: rowOf(c.Key), mintedRow: mintedOf(&c.fresh.Record),
					Holder: c.fresh.Record.Holder, Lease: c.fresh.Lease, Step: c.step,
					Stamped: c.Stamped, PinEnds: micros(c.CreateBefore(&db.policy)),
					Message: callOf(&c.fresh.Call), BegunID: c.begun, BegunRegion: c.fresh.Region,
				}
			}
			return args
		},
		read: func(rows pgx.Rows, cs []*creation) error {
			for _, c := range cs {
				// An earlier try that seemed to fail may have reported another time.
				c.asked, c.firstUse = true, time.Time{}
			}
			var n int32
			var first time.Time
			_, err := pgx.ForEachRow(rows, []any{&n, &first}, func() error {
				c, err := at(cs, n)
				if err == nil {
					c.firstUse = first.UTC()
				}
				return err
			})
			return err
		},
	}
	return b.open(db)
}

// batchedFind finds the claims under many keys.
func batchedFind(db *DB) *batched[creation, findArgs] {
	key := func(c *creation) claim.Key { return c.Key }
	s := &batched[creation, findArgs]{
		statement: claimFind, reads: true, key: key,
		args: func(cs []*creation) findArgs {
			args := findArgs{Home: cs[0].Home}
			for i := 0; i < len(cs); i += sameKey(cs[i:], key) {
				args.Keys = append(args.Keys, foundKey{int32(i), rowOf(cs[i].Key)})
			}
			return args
		},
		read: func(rows pgx.Rows, cs []*creation) error {
			for _, c := range cs {
				c.found = false // as above
			}
			for rows.Next() {
				n, p, err := scanPresent(rows)
				if err != nil {
					return err
				}
				c, err := at(cs, n)
				if err != nil {
					return err
				}
				if p.row != nil {
					err = p.row.read(c.Key, c.Home, &db.policy, p.now)
				}
				for _, c := range cs[n:][:sameKey(cs[n:], key)] {
					c.present, c.found, c.err = p, true, err
				}
			}
			return rows.Err()
		},
	}
	return s.open(db)
}

// scanPresent scans a row of find.
func scanPresent(row pgx.CollectableRow) (n int32, p present, err error) {
	var r claimRow
	err = row.Scan(append([]any{&n, &p.now}, r.targets()...)...)
	p.now = p.now.UTC()
	if r.present() {
		p.row = &r
	}
	return n, p, err
}

// errUnanswered: the statement returned no row for the call.
var errUnanswered = errors.New("the statement had no answer for the call")

// latelySlots covers some minute of a node that begins a thousand claims a second.
const latelySlots = 64 << 10

// unstorableSlots is far more than there are such keys: what providers say is cleaned.
const unstorableSlots = 1 << 10

// begin makes the claim, or returns what is there instead. A key that came here lately
// has a claim, as a rule, and is looked up at first: a look-up costs a part of what begin
// does that makes nothing. The budget of replays needs that: with begin first, a replay is a
// write that makes nothing and then a read, and not one read.
func (v *View) begin(ctx context.Context, c *creation, first bool) (present, error) {
	c.asked, c.firstUse, c.found = false, time.Time{}, false
	if c.makes() && !(first && v.db.lately.knows(c.Key)) {
		begins := v.db.begins
		if c.PinsHere() {
			begins = v.db.beginsHere
		}
		switch _, err := begins.do(ctx, c.Home, c); {
		case err != nil:
			return present{}, claimError(begins.statement.name, err)
		case !c.firstUse.IsZero():
			v.db.lately.add(c.Key)
			return present{}, nil
		}
	}
	switch _, err := v.db.finds.do(ctx, c.Home, c); {
	case err != nil:
		return present{}, claimError(claimFind.name, err) // the statement may still be read
	case !c.found:
		return present{}, claimError(claimFind.name, errUnanswered)
	case c.present.row != nil:
		v.db.lately.add(c.Key)
	default:
		v.db.lately.forget(c.Key)
	}
	return c.present, claimError(claimFind.name, c.err)
}

type beginAgainArgs struct {
	heldArgs
	OldStep uuid.UUID
	mintedRow
	FirstUse, Created time.Time
	Generation        int32
	ProviderRef       string
	GoodUntil         time.Time
	Message           callRow
	MessageCreatedAt  time.Time
	KeepRefusal       bool
	CanceledAt        zeronull.Timestamptz
}

func (v *View) beginAgain(ctx context.Context, got present, step uuid.UUID, next *claim.Record, fx *claim.Effects) (bool, error) {
	_, found, _, err := one(ctx, v.db, claimBeginNext, repeatable, beginAgainArgs{
		heldArgs: heldBy(step, next, fx), OldStep: got.row.step, mintedRow: mintedOf(next),
		FirstUse: next.FirstUse, Created: next.Minted.Created, Generation: int32(next.Generation), ProviderRef: next.ProviderRef,
		GoodUntil: got.now.Add(decisionLife), Message: callOf(fx.Enqueue), MessageCreatedAt: fx.Enqueue.CreatedAt,
		KeepRefusal: next.Refusal != nil, // which is then the row's
		CanceledAt:  zeronull.Timestamptz(next.CanceledAt),
	}, pgx.RowTo[int64])
	return found, claimError(claimBeginNext.name, err)
}

// TakeOver implements [claim.Store].
func (v *View) TakeOver(ctx context.Context, key claim.Key, home, object, holder, region string, news claim.News) (claim.Record, error) {
	ctx, err := v.reach(ends(ctx), home)
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
		next, fx, err := claim.TakeOver(old, object, holder, region, news, &v.db.policy, now)
		if err != nil {
			return claim.Record{}, err
		}
		step := newStep()
		done, err := v.change(ctx, row, step, next, &fx)
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

// changeArgs are what a step changes of a claim that stays in flight under another fence.
type changeArgs struct {
	heldArgs
	OldStep             uuid.UUID
	NotFounds           int32
	CanceledAt, CallDue zeronull.Timestamptz
	At                  time.Time
}

func (v *View) change(ctx context.Context, row *claimRow, step uuid.UUID, next *claim.Record, fx *claim.Effects) (bool, error) {
	args := changeArgs{
		heldArgs: heldBy(step, next, fx), OldStep: row.step, NotFounds: int32(next.NotFounds),
		CanceledAt: zeronull.Timestamptz(next.CanceledAt), CallDue: zeronull.Timestamptz(fx.Reschedule), At: fx.Audit[0].At,
	}
	_, found, _, err := one(ends(ctx), v.db, claimChange, repeatable, args, pgx.RowTo[int64])
	return found, claimError(claimChange.name, err)
}

// Cancel implements [claim.Store].
func (v *View) Cancel(ctx context.Context, key claim.Key, home, object string, step uuid.UUID, node, region string) (claim.Record, error) {
	ctx, err := v.reach(ends(ctx), home)
	if err != nil {
		return claim.Record{}, err
	}
	for range maxLooks {
		row, now, err := v.get(ctx, key, home)
		if err != nil {
			return claim.Record{}, err
		}
		var old *claim.Record
		if row != nil {
			old = &row.record
		}
		next, fx, err := claim.Cancel(old, object, step, node, region, now)
		if err != nil || next == old { // the mark is there, whoever made it
			return valueOf(next), err
		}
		done, err := v.change(ctx, row, step, next, &fx)
		if err != nil || done {
			return *next, err
		}
	}
	return claim.Record{}, restless(key)
}

// valueOf is the record that r points to, the zero one for nil.
func valueOf(r *claim.Record) (rec claim.Record) {
	if r != nil {
		rec = *r
	}
	return rec
}

// heldArgs assign a row to a holder, or leave it to the one that it has.
type heldArgs struct {
	keyArgs
	Step                  uuid.UUID
	Fence                 int64
	Holder                string
	LeaseUntil, HeldSince time.Time
	Attempts              int32
	Entry                 placedEntry
}

func heldBy(step uuid.UUID, next *claim.Record, fx *claim.Effects) heldArgs {
	return heldArgs{
		keyArgs: keyIn(next.Home, next.Key), Step: step, Fence: int64(next.Fence), Holder: next.Holder, LeaseUntil: next.LeaseUntil, HeldSince: next.HeldSince,
		Attempts: int32(next.Attempts), Entry: placedEntryOf(newEntry(), &fx.Audit[0]),
	}
}

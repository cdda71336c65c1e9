package sqlstore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
)

var (
	claimSettle = declare[settleArgs]("settle")
	claimDefer  = declare[deferArgs]("defer")
)

// Settle implements [claim.Store].
func (v *View) Settle(ctx context.Context, held claim.Record, verdict claim.Verdict) (claim.Record, error) {
	if verdict.ID == uuid.Nil {
		verdict.ID = newStep()
	}
	made, err := claim.Settle(&held, &verdict, &v.db.policy, rand.Float64())
	if err != nil {
		return claim.Record{}, err
	}
	ctx, err = v.reach(ends(ctx), held.Home)
	if err != nil {
		return claim.Record{}, err
	}
	s := &settlement{Settlement: made}
	if s.Record.State == claim.InFlight {
		err = v.putOff(ctx, s)
	} else {
		_, err = v.db.settles.do(ctx, held.Home, s)
		err = settleError(&s.Effects, err)
	}
	switch {
	case err != nil:
		return claim.Record{}, err
	case !s.at.IsZero():
		next, _ := s.At(s.at)
		return *next, nil
	}
	// The row may have this verdict already: a try whose reply was lost wrote it, in
	// this call or in an earlier one.
	row, _, err := v.get(ctx, held.Key, held.Home)
	if err != nil {
		return claim.Record{}, err
	}
	if row != nil && row.step == verdict.ID && row.record.Minted.ID == held.Minted.ID {
		return row.record, nil
	}
	return claim.Record{}, claim.ErrFenced
}

type deferArgs struct {
	keyArgs
	ObjectID, Reason, Region, Node               string
	OldFence, Fence                              int64
	OldUnknowns, Unknowns, NotFounds, Generation int32
	NewGeneration                                int32
	ProviderKey, ProviderRef                     string
	Pause, DuePause, EventsDue                   time.Duration
	Step                                         uuid.UUID
	Interim                                      []byte   // nil: that of the same generation stays
	First, Second                                entryRow // which differ in little
	Events                                       []eventRow
}

// putOff is the step of an attempt that ended without an outcome.
func (v *View) putOff(ctx context.Context, s *settlement) error {
	old, next, first, second := s.Held, &s.Record, &s.Effects.Audit[0], &s.Effects.Audit[1]
	args := deferArgs{
		keyArgs: keyIn(old.Home, old.Key), ObjectID: old.Minted.ID, OldFence: int64(old.Fence), OldUnknowns: int32(old.Unknowns),
		Fence: int64(next.Fence), Reason: next.Reason, Unknowns: int32(next.Unknowns), NotFounds: int32(next.NotFounds),
		Pause: s.Pause, DuePause: s.Due, EventsDue: s.EventsDue, Step: next.Verdict,
		NewGeneration: int32(next.Generation), ProviderKey: next.ProviderKey, ProviderRef: next.ProviderRef,
		Region: first.Region, Node: first.Node, Generation: int32(first.Generation),
		First: entryOf(newEntry(), first), Second: entryOf(newEntry(), second),
	}
	if next.Interim != nil {
		args.Interim = interimColumn(next)
	}
	for i := range s.Effects.Events {
		args.Events = append(args.Events, eventOf(&s.Effects.Events[i]))
	}
	at, _, _, err := one(ctx, v.db, claimDefer, repeatable, args, pgx.RowTo[time.Time])
	s.at = at.UTC()
	return claimError(claimDefer.name, err)
}

// settlement is the end of an attempt, and the result of the statement.
type settlement struct {
	*claim.Settlement
	at time.Time // when it was recorded; zero if it was not
}

// bytes is how much of it is not of a bounded size.
func (s *settlement) bytes() (n int) {
	if s.Record.Response != nil {
		n += len(s.Record.Response.Body)
	}
	if s.Record.Refusal != nil {
		n += len(s.Record.Refusal.Response.Body)
	}
	if s.Effects.Post != nil {
		n += len(s.Effects.Post.Metadata)
	}
	for i := range s.Effects.Events {
		n += len(s.Effects.Events[i].Payload)
	}
	if s.Effects.Expiry != nil {
		n += len(s.Effects.Expiry.Payload)
	}
	return n
}

// settleArgs are the settled claims and their effects: rows that name their claim by
// its N.
type (
	settleArgs struct {
		Home     string
		Claims   []settledClaim
		Postings []settledPosting
		Events   []settledEvent
		Expiries []settledExpiry
		Unpaid   []settledUnpaid
	}
	settledClaim struct {
		N int32
		keyRow
		ObjectID, Reason, ProviderRef    string
		Fence                            int64
		OldUnknowns, Unknowns, NotFounds int32
		OldState, State                  int16
		Final, Emits                     bool
		Refusal                          []byte
		// KeepUntil is the least, and Stays is [claim.Record.Stays], from when it is recorded.
		KeepUntil, CloseUntil time.Time
		Stays                 time.Duration
		EventsDue             time.Duration
		Step                  uuid.UUID
		Answer                answerRow
		Attempt               entryRow
		Entry                 placedEntry // of the same place, fence and generation
	}
	answerRow struct {
		Status       int16
		Header, Body []byte
		Blob         string
		ReplayFor    int64 // microseconds
	}
	settledPosting struct {
		N int32
		postingRow
	}
	settledEvent struct {
		N int32
		eventRow
	}
	settledExpiry struct {
		N                                int32
		ID, Kind, Operation, TraceParent string
		Payload                          []byte
		Due                              time.Time
	}
	settledUnpaid struct {
		N           int32
		RememberFor time.Duration
	}
)

func (args *settleArgs) add(s *settlement, p *claim.Policy) {
	n, old, next, fx := int32(len(args.Claims)), s.Held, &s.Record, &s.Effects
	c := settledClaim{
		N: n, keyRow: rowOf(old.Key), ObjectID: old.Minted.ID, Fence: int64(old.Fence),
		OldUnknowns: int32(old.Unknowns), OldState: int16(old.State), State: int16(next.State),
		Reason: next.Reason, Unknowns: int32(next.Unknowns), NotFounds: int32(next.NotFounds),
		ProviderRef: next.ProviderRef, Final: next.State.Final(), Emits: len(fx.Events) > 0, Refusal: refusalColumn(next.Refusal),
		// The clock that wrote FirstUse may be ahead.
		KeepUntil: old.FirstUse.Add(next.Stays(p)), Stays: next.Stays(p), CloseUntil: old.CloseUntil(p, old.FirstUse),
		EventsDue: s.EventsDue, Step: next.Verdict,
	}
	answer := &claim.Response{}
	if c.Final {
		answer = next.Response
	}
	c.Answer = answerRow{Status: int16(answer.Status), Header: headerColumn(answer.Header), Body: notNil(answer.Body), Blob: answer.Blob, ReplayFor: answer.ReplayFor.Microseconds()}
	// In this order, as ids order lines of one time.
	c.Attempt = entryOf(newEntry(), &fx.Audit[0])
	c.Entry = placedEntryOf(newEntry(), &fx.Audit[1])
	args.Claims = append(args.Claims, c)
	if m := fx.Expiry; m != nil {
		args.Expiries = append(args.Expiries, settledExpiry{
			N: n, ID: m.ID, Kind: string(m.Kind), Operation: m.Operation, TraceParent: m.TraceParent, Payload: notNil(m.Payload), Due: m.Due,
		})
	}
	if fx.Unpaid != nil {
		args.Unpaid = append(args.Unpaid, settledUnpaid{n, p.RememberFor})
	}
	if fx.Post != nil {
		args.Postings = append(args.Postings, settledPosting{n, postingOf(fx.Post)})
	}
	for i := range fx.Events {
		args.Events = append(args.Events, settledEvent{n, eventOf(&fx.Events[i])})
	}
}

func batchedSettle(db *DB) *batched[settlement, settleArgs] {
	p := &db.policy
	s := &batched[settlement, settleArgs]{
		statement: claimSettle,
		key:       func(s *settlement) claim.Key { return s.Held.Key },
		bytes:     (*settlement).bytes,
		args: func(all []*settlement) settleArgs {
			args := settleArgs{
				Home: all[0].Held.Home, Claims: make([]settledClaim, 0, len(all)),
			}
			for _, s := range all {
				args.add(s, p)
			}
			return args
		},
		read: func(rows pgx.Rows, all []*settlement) error {
			for _, s := range all {
				s.at = time.Time{} // a try before may have set it, and then failed
			}
			var n int32
			var now time.Time
			_, err := pgx.ForEachRow(rows, []any{&n, &now}, func() error {
				s, err := at(all, n)
				if err == nil {
					s.at = now.UTC()
				}
				return err
			})
			return err
		},
	}
	return s.open(db)
}

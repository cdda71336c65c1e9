package cockroach

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// settlement is how an attempt ended: the claim as the holder was given it, what it is
// to be, what goes with that, and what the statement said.
type settlement struct {
	old, next *claim.Record
	fx        *claim.Effects
	step      uuid.UUID

	done       bool
	now, lease time.Time
}

var claimSettle = declare[settleArgs]("settle")

// settleArgs are claims that are settled, and what goes with them: rows that name the
// claim's by its N.
type (
	settleArgs struct {
		Home       string
		Claims     []settledClaim
		Postings   []settledPosting
		Events     []settledEvent
		Entries    []settledEntry
		ExpiryKind string
		// PinLife is how long a row stays: until its tombstone is over and then for
		// PinGrace, see [claim.Record.FreeAt].
		PinLife, RememberFor time.Duration
	}
	settledClaim struct {
		N int32
		keyRow
		ObjectID, Reason, ProviderRef    string
		Fence                            int64
		OldUnknowns, Unknowns, NotFounds int32
		OldState, State                  int16
		Final, Unpaid                    bool
		Refusal                          []byte
		KeepUntil, FreeAt                time.Time
		Step                             uuid.UUID
		Answer                           answerRow
		Expiry                           expiryRow
	}
	answerRow struct {
		Status       int16
		Header, Body []byte
		Blob         string
	}
	expiryRow struct {
		Due         zeronull.Timestamptz
		Operation   string
		Payload     []byte
		TraceParent string
	}
	settledPosting struct {
		N int32
		postingRow
	}
	settledEvent struct {
		N int32
		eventRow
	}
	settledEntry struct {
		N int32
		placedEntry
		Generation int32
	}
)

func (args *settleArgs) add(s *settlement, p *claim.Policy) {
	n, old, next := int32(len(args.Claims)), s.old, s.next
	c := settledClaim{
		N: n, keyRow: rowOf(old.Key), ObjectID: old.Minted.ID, Fence: int64(old.Fence),
		OldUnknowns: int32(old.Unknowns), OldState: int16(old.State), State: int16(next.State),
		Reason: next.Reason, Unknowns: int32(next.Unknowns), NotFounds: int32(next.NotFounds),
		ProviderRef: next.ProviderRef, Final: next.State.Final(), Refusal: refusalColumn(next.Refusal),
		// The clock that wrote FirstUse may be ahead.
		KeepUntil: old.FirstUse.Add(p.PinLife()), FreeAt: old.FreeAt(p, old.FirstUse),
		Step: s.step, Unpaid: s.fx.Unpaid != nil,
	}
	answer := &claim.Response{}
	if c.Final {
		answer = next.Response
	}
	c.Answer = answerRow{Status: int16(answer.Status), Header: headerColumn(answer.Header), Body: notNil(answer.Body), Blob: answer.Blob}
	c.Expiry.Payload = []byte{}
	if m := s.fx.Expiry; m != nil {
		c.Expiry = expiryRow{Due: zeronull.Timestamptz(m.Due), Operation: m.Operation, Payload: notNil(m.Payload), TraceParent: m.TraceParent}
	}
	args.Claims = append(args.Claims, c)
	if s.fx.Post != nil {
		args.Postings = append(args.Postings, settledPosting{n, postingOf(s.fx.Post)})
	}
	for i := range s.fx.Events {
		args.Events = append(args.Events, settledEvent{n, eventOf(&s.fx.Events[i])})
	}
	for i := range s.fx.Audit {
		e := &s.fx.Audit[i]
		args.Entries = append(args.Entries, settledEntry{n, placedEntryOf(newEntry(), e), int32(e.Generation)})
	}
}

func settleGroup(db *DB) *group[settlement, settleArgs] {
	p := &db.policy
	return &group[settlement, settleArgs]{
		db: db, statement: claimSettle, lines: map[line]*gathering[settlement]{},
		key: func(s *settlement) claim.Key { return s.old.Key },
		args: func(all []*settlement) settleArgs {
			args := settleArgs{
				Home: all[0].old.Home, Claims: make([]settledClaim, 0, len(all)),
				ExpiryKind: string(outbox.KindExpiry), PinLife: p.PinLife(), RememberFor: p.RememberFor,
			}
			for _, s := range all {
				args.add(s, p)
			}
			return args
		},
		read: func(rows pgx.Rows, all []*settlement) error {
			for _, s := range all {
				s.done = false // as a try before may have said, which then failed
			}
			var n int32
			var now, lease time.Time
			_, err := pgx.ForEachRow(rows, []any{&n, &now, &lease}, func() error {
				s, err := at(all, n)
				if err == nil {
					s.done, s.now, s.lease = true, now, lease
				}
				return err
			})
			return err
		},
	}
}

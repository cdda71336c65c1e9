package cockroach

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
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

// of is one of the things that go with a settlement, as a row that names it.
type of[T any] struct {
	n     int32
	value *T
}

func settleGroup(db *DB) *group[settlement] {
	p := &db.policy
	return &group[settlement]{
		db: db, query: db.queries["settle"], lines: map[line]*gathering[settlement]{},
		key: func(s *settlement) claim.Key { return s.old.Key },
		args: func(all []*settlement) []any {
			var posts []*of[ledger.Transaction]
			var events []*of[outbox.Message]
			var entries []*of[claim.AuditEntry]
			for i, s := range all {
				n := int32(i)
				if s.fx.Post != nil {
					posts = append(posts, &of[ledger.Transaction]{n, s.fx.Post})
				}
				for j := range s.fx.Events {
					events = append(events, &of[outbox.Message]{n, &s.fx.Events[j]})
				}
				for j := range s.fx.Audit {
					entries = append(entries, &of[claim.AuditEntry]{n, &s.fx.Audit[j]})
				}
			}
			answers, expiries := make([]*claim.Response, len(all)), make([]*outbox.Message, len(all))
			for i, s := range all {
				if answers[i] = s.next.Response; !s.next.State.Final() {
					answers[i] = &claim.Response{}
				}
				if expiries[i] = s.fx.Expiry; expiries[i] == nil {
					expiries[i] = &outbox.Message{}
				}
			}
			return []any{
				all[0].old.Home, ordinals(len(all)),
				column(all, func(s *settlement) string { return s.old.Key.Tenant }),
				column(all, func(s *settlement) string { return s.old.Key.Value }),
				column(all, func(s *settlement) string { return s.old.Minted.ID }),
				column(all, func(s *settlement) int64 { return int64(s.old.Fence) }),
				column(all, func(s *settlement) int32 { return int32(s.old.Unknowns) }),
				column(all, func(s *settlement) int16 { return int16(s.old.State) }),
				column(all, func(s *settlement) int16 { return int16(s.next.State) }),
				column(all, func(s *settlement) string { return s.next.Reason }),
				column(all, func(s *settlement) int32 { return int32(s.next.Unknowns) }),
				column(all, func(s *settlement) int32 { return int32(s.next.NotFounds) }),
				column(all, func(s *settlement) string { return s.next.ProviderRef }),
				column(all, func(s *settlement) bool { return s.next.State.Final() }),
				column(all, func(s *settlement) []byte { return refusalColumn(s.next.Refusal) }),
				// The row stays until its tombstone is over and then for PinGrace: see
				// [claim.Record.FreeAt]. The clock that wrote FirstUse may be ahead.
				column(all, func(s *settlement) time.Time { return s.old.FirstUse.Add(p.PinLife()) }),
				column(all, func(s *settlement) time.Time { return s.old.FreeAt(p, s.old.FirstUse) }),
				column(all, func(s *settlement) uuid.UUID { return s.step }),
				column(answers, func(r *claim.Response) int16 { return int16(r.Status) }),
				column(answers, func(r *claim.Response) []byte { return headerColumn(r.Header) }),
				column(answers, func(r *claim.Response) []byte { return notNil(r.Body) }),
				column(answers, func(r *claim.Response) string { return r.Blob }),
				column(all, func(s *settlement) bool { return s.fx.Unpaid != nil }),
				column(all, func(s *settlement) zeronull.Timestamptz {
					if s.fx.Expiry == nil {
						return zeronull.Timestamptz{}
					}
					return zeronull.Timestamptz(s.fx.Expiry.Due)
				}),
				column(expiries, func(m *outbox.Message) string { return m.Operation }),
				column(expiries, func(m *outbox.Message) []byte { return notNil(m.Payload) }),
				column(expiries, func(m *outbox.Message) string { return m.TraceParent }),
				p.PinLife(),
				column(posts, func(t *of[ledger.Transaction]) int32 { return t.n }),
				column(posts, func(t *of[ledger.Transaction]) string { return t.value.ID }),
				column(posts, func(t *of[ledger.Transaction]) string { return t.value.Tenant }),
				column(posts, func(t *of[ledger.Transaction]) string { return string(t.value.Kind) }),
				column(posts, func(t *of[ledger.Transaction]) string { return string(t.value.Debit) }),
				column(posts, func(t *of[ledger.Transaction]) string { return string(t.value.Credit) }),
				column(posts, func(t *of[ledger.Transaction]) int64 { return t.value.Amount }),
				column(posts, func(t *of[ledger.Transaction]) string { return t.value.Currency }),
				column(posts, func(t *of[ledger.Transaction]) string { return t.value.Object }),
				column(posts, func(t *of[ledger.Transaction]) string { return t.value.Reverses }),
				column(posts, func(t *of[ledger.Transaction]) string { return t.value.Provider }),
				column(posts, func(t *of[ledger.Transaction]) string { return t.value.ProviderRef }),
				column(events, func(m *of[outbox.Message]) int32 { return m.n }),
				column(events, func(m *of[outbox.Message]) string { return m.value.ID }),
				column(events, func(m *of[outbox.Message]) string { return string(m.value.Kind) }),
				column(events, func(m *of[outbox.Message]) []byte { return notNil(m.value.Payload) }),
				column(events, func(m *of[outbox.Message]) string { return m.value.TraceParent }),
				string(outbox.KindExpiry),
				p.RememberFor,
				column(entries, func(e *of[claim.AuditEntry]) int32 { return e.n }),
				column(entries, func(*of[claim.AuditEntry]) uuid.UUID { return newEntry() }),
				column(entries, func(e *of[claim.AuditEntry]) string { return string(e.value.Event) }),
				column(entries, func(e *of[claim.AuditEntry]) string { return e.value.Region }),
				column(entries, func(e *of[claim.AuditEntry]) string { return e.value.Node }),
				column(entries, func(e *of[claim.AuditEntry]) int32 { return int32(e.value.Generation) }),
				column(entries, func(e *of[claim.AuditEntry]) string { return e.value.Detail }),
			}
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

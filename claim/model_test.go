package claim_test

import (
	"context"
	"testing"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// pureStore is nothing but the transitions over maps: enough of a store for the
// model to be compared with them alone. Whatever it lacks panics.
type pureStore struct {
	claim.Store
	policy claim.Policy
	now    time.Time
	rows   map[claimtest.Place]*claim.Record
	pins   map[claim.Key]*claim.Pin
	// queued and books are what effects have left, by home and id.
	queued map[outbox.Queue]map[claimtest.Ref]outbox.Message
	books  map[claimtest.Ref]ledger.Transaction
	unpaid map[claimtest.Ref]claim.Unpaid
	jitter uint64
}

func newPureStore(p claim.Policy) *pureStore {
	return &pureStore{
		policy: p, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		rows: map[claimtest.Place]*claim.Record{}, pins: map[claim.Key]*claim.Pin{},
		queued: map[outbox.Queue]map[claimtest.Ref]outbox.Message{outbox.ProviderCalls: {}, outbox.Events: {}, outbox.Expiries: {}},
		books:  map[claimtest.Ref]ledger.Transaction{}, unpaid: map[claimtest.Ref]claim.Unpaid{},
	}
}

func (s *pureStore) apply(at claimtest.Place, next *claim.Record, fx claim.Effects) {
	if next == nil {
		return
	}
	s.rows[at] = next
	put := func(q outbox.Queue, m outbox.Message) { s.queued[q][claimtest.Ref{Home: at.Home, ID: m.ID}] = m }
	own := claimtest.Ref{Home: at.Home, ID: next.Minted.ID}
	if fx.Enqueue != nil {
		put(outbox.ProviderCalls, *fx.Enqueue)
	}
	if fx.Finish {
		delete(s.queued[outbox.ProviderCalls], own)
	}
	if fx.Post != nil {
		s.books[claimtest.Ref{Home: at.Home, ID: fx.Post.ID}] = *fx.Post
	}
	if fx.Unpaid != nil {
		s.unpaid[own] = *fx.Unpaid
	}
	for _, m := range fx.Events {
		for ref, older := range s.queued[outbox.Events] {
			if m.Fence > 0 && ref.Home == at.Home && older.InLine(m) {
				m.Fence, m.Due = 0, m.CreatedAt
			}
		}
		put(outbox.Events, m)
	}
	if _, ok := s.queued[outbox.Expiries][own]; !ok && fx.Expiry != nil {
		put(outbox.Expiries, *fx.Expiry)
	}
}

func (s *pureStore) Unpaid(_ context.Context, home, id string) (claim.Unpaid, bool, error) {
	u, ok := s.unpaid[claimtest.Ref{Home: home, ID: id}]
	return u, ok, nil
}

func (s *pureStore) Begin(_ context.Context, a claim.Arrival) (claim.Begun, error) {
	at := claimtest.Place{Home: a.Home, Key: a.Key}
	next, fx, d, err := claim.Begin(s.rows[at], &a, &s.policy, s.now)
	if err != nil || d == claim.NeedPin {
		return claim.Begun{Decision: d}, err
	}
	s.apply(at, next, fx)
	return claim.Begun{Decision: d, Record: *s.rows[at], Now: s.now}, nil
}

func (s *pureStore) Settle(_ context.Context, held claim.Record, v claim.Verdict) (claim.Record, error) {
	at := claimtest.Place{Home: held.Home, Key: held.Key}
	s.jitter = s.jitter*6364136223846793005 + 1442695040888963407 // Knuth's MMIX generator
	next, fx, err := claim.Settle(s.rows[at], &held, &v, &s.policy, s.now, float64(s.jitter>>11)/(1<<53))
	if err != nil {
		return claim.Record{}, err
	}
	if fx.Post != nil {
		if _, ok := s.books[claimtest.Ref{Home: at.Home, ID: fx.Post.ID}]; ok {
			return claim.Record{}, ledger.ErrConflict
		}
	}
	s.apply(at, next, fx)
	return *next, nil
}

func (s *pureStore) TakeOver(_ context.Context, key claim.Key, home, object, holder, region string) (claim.Record, error) {
	at := claimtest.Place{Home: home, Key: key}
	next, fx, err := claim.TakeOver(s.rows[at], object, holder, region, &s.policy, s.now)
	if err != nil {
		return claim.Record{}, err
	}
	s.apply(at, next, fx)
	return *next, nil
}

func (s *pureStore) Renew(_ context.Context, holder string, leases []claim.Lease) ([]bool, error) {
	held := make([]bool, len(leases))
	for i, l := range leases {
		at := claimtest.Place{Home: l.Home, Key: l.Key}
		if next, err := claim.Renew(s.rows[at], holder, l.Fence, &s.policy, s.now); err == nil {
			s.rows[at], held[i] = next, true
		}
	}
	return held, nil
}

func (s *pureStore) Get(_ context.Context, key claim.Key, home string) (claim.Record, time.Time, bool, error) {
	if rec := s.rows[claimtest.Place{Home: home, Key: key}]; rec != nil {
		return *rec, s.now, true, nil
	}
	return claim.Record{}, s.now, false, nil
}

func (s *pureStore) Replica(context.Context, claim.Key) (claim.Shown, error) {
	return claim.Shown{}, nil // the stalest replica there is
}

func (s *pureStore) Pin(_ context.Context, key claim.Key, entry string) (claim.Pin, error) {
	old := s.pins[key]
	spokenFor := false
	if old != nil {
		rec := s.rows[claimtest.Place{Home: old.Home, Key: key}]
		spokenFor = rec != nil && rec.Age(&s.policy, s.now) != claim.Gone
	}
	pin, change := claim.PinFor(old, key, entry, spokenFor, &s.policy, s.now)
	if change != claim.PinStands {
		s.pins[key] = &pin
	}
	return pin, nil
}

type pureQueue struct {
	outbox.Store
	s *pureStore
	q outbox.Queue
}

func (o pureQueue) Depth(_ context.Context, region string) (d outbox.Depth, err error) {
	for ref := range o.s.queued[o.q] {
		if ref.Home == region {
			d.Pending++
		}
	}
	return d, nil
}

func (o pureQueue) Message(_ context.Context, region, id string) (outbox.Message, bool, error) {
	m, ok := o.s.queued[o.q][claimtest.Ref{Home: region, ID: id}]
	return m, ok, nil
}

type pureLedger struct {
	ledger.Store
	s *pureStore
}

// Transactions are in no order, and nothing here depends on it.
func (l pureLedger) Transactions(_ context.Context, region string, after ledger.Position, _ time.Time, limit int) (ts []ledger.Transaction, err error) {
	for ref, t := range l.s.books {
		if ref.Home == region && !t.At.Before(after.At) && len(ts) < limit {
			ts = append(ts, t)
		}
	}
	return ts, nil
}

// TestTransitionsAgreeWithModel runs random operations on the pure transitions
// and on the naive model, as for a store with one clock and with many.
func TestTransitionsAgreeWithModel(t *testing.T) {
	for name, offset := range map[string]time.Duration{"one clock": 0, "clocks 500 ms apart": 500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			p := claim.DefaultPolicy()
			p.ClockOffset, p.MaxUnknowns, p.MaxGenerations = offset, 4, 3
			s := newPureStore(p)
			claimtest.Random(t, claimtest.Harness{
				Regions:   []string{"us-east1", "europe-west1", "asia-northeast1"},
				Store:     func(string) claim.Store { return s },
				Outbox:    func(string) outbox.Store { return pureQueue{s: s, q: outbox.ProviderCalls} },
				Queue:     func(_ string, q outbox.Queue) outbox.Store { return pureQueue{s: s, q: q} },
				Ledger:    func(string) ledger.Store { return pureLedger{s: s} },
				Policy:    p,
				Advance:   func(d time.Duration) { s.now = s.now.Add(d) },
				PutTenant: func(testing.TB, claim.Tenant) {},
			})
		})
	}
}

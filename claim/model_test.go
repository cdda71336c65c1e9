package claim_test

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// pureStore is nothing but the transitions over maps under a mutex: enough of a store for
// the contract and the model to be compared with them alone. Whatever it lacks panics.
type pureStore struct {
	claim.Store
	mu     sync.Mutex
	policy claim.Policy
	now    time.Time
	rows   map[claimtest.Place]*claim.Record
	audit  map[claimtest.Place][]claim.AuditEntry
	pins   map[pinPlace]*claim.Pin
	// registrar keeps new pins. Those that remain at the former one count; "": there is none.
	registrar, former string
	// queued and books are what effects have left, by home and id.
	queued map[outbox.Queue]map[claimtest.Ref]outbox.Message
	books  map[claimtest.Ref]ledger.Transaction
	unpaid map[claimtest.Ref]claim.Unpaid
	jitter uint64

	restore   claim.Restore
	witnesses map[claim.Key]claim.Witness
}

// pinPlace is where a pin is: with a registrar, under its key.
type pinPlace struct {
	registrar string
	key       claim.Key
}

func newPureStore(p claim.Policy) *pureStore {
	return &pureStore{
		policy: p, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		rows: map[claimtest.Place]*claim.Record{}, pins: map[pinPlace]*claim.Pin{},
		audit: map[claimtest.Place][]claim.AuditEntry{}, witnesses: map[claim.Key]claim.Witness{},
		queued: map[outbox.Queue]map[claimtest.Ref]outbox.Message{outbox.ProviderCalls: {}, outbox.Events: {}, outbox.Expiries: {}},
		books:  map[claimtest.Ref]ledger.Transaction{}, unpaid: map[claimtest.Ref]claim.Unpaid{},
	}
}

func (s *pureStore) apply(at claimtest.Place, next *claim.Record, fx claim.Effects) {
	if next == nil {
		return
	}
	s.rows[at] = next
	s.audit[at] = append(s.audit[at], fx.Audit...)
	put := func(q outbox.Queue, m outbox.Message) { s.queued[q][claimtest.Ref{Home: at.Home, ID: m.ID}] = m }
	own := claimtest.Ref{Home: at.Home, ID: next.Minted.ID}
	if fx.Enqueue != nil {
		put(outbox.ProviderCalls, *fx.Enqueue)
	}
	if call, ok := s.queued[outbox.ProviderCalls][own]; ok && !fx.Reschedule.IsZero() {
		call.Due = fx.Reschedule
		put(outbox.ProviderCalls, call)
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
	line := maps.Clone(s.queued[outbox.Events])
	for _, m := range fx.Events {
		for ref, o := range line {
			if behind := o.CreatedAt.Add(time.Microsecond); ref.Home == at.Home && o.Tenant == m.Tenant && o.Key == m.Key && o.Kind == m.Kind && behind.After(m.CreatedAt) {
				m.CreatedAt = behind
			}
		}
		put(outbox.Events, m)
	}
	if fx.Expiry != nil {
		if _, ok := s.queued[outbox.Expiries][claimtest.Ref{Home: at.Home, ID: fx.Expiry.ID}]; !ok {
			put(outbox.Expiries, *fx.Expiry)
		}
	}
}

func (s *pureStore) Unpaid(_ context.Context, home, id string) (claim.Unpaid, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := s.unpaid[claimtest.Ref{Home: home, ID: id}]
	return u, ok, nil
}

func (s *pureStore) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	return s.decide(ctx, &a, func(rec *claim.Record) (*claim.Record, claim.Effects, claim.Decision, error) {
		return claim.Begin(rec, &a, 0, &s.policy, s.now)
	})
}

func (s *pureStore) Reattach(ctx context.Context, a claim.Arrival, w claim.Witness) (claim.Begun, error) {
	return s.decide(ctx, &a, func(rec *claim.Record) (*claim.Record, claim.Effects, claim.Decision, error) {
		return claim.Reattach(rec, &a, &w, 0, &s.policy, s.now)
	})
}

func (s *pureStore) decide(ctx context.Context, a *claim.Arrival, t func(rec *claim.Record) (*claim.Record, claim.Effects, claim.Decision, error)) (claim.Begun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return claim.Begun{}, err
	}
	at := claimtest.Place{Home: a.Home, Key: a.Key}
	next, fx, d, err := t(s.rows[at])
	if err != nil || d == claim.NeedPin {
		return claim.Begun{Decision: d, Now: s.now}, err
	}
	s.apply(at, next, fx)
	got := claim.Begun{Decision: d, Now: s.now}
	if rec := s.rows[at]; rec != nil {
		got.Record = *rec
	}
	return got, nil
}

func (s *pureStore) Settle(_ context.Context, held claim.Record, v claim.Verdict) (claim.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := claimtest.Place{Home: held.Home, Key: held.Key}
	s.jitter = s.jitter*6364136223846793005 + 1442695040888963407 // Knuth's MMIX generator
	settled, err := claim.Settle(&held, &v, &s.policy, float64(s.jitter>>11)/(1<<53))
	if err != nil {
		return claim.Record{}, err
	}
	next, fx, err := settled.On(s.rows[at], &s.policy, s.now)
	if err != nil {
		return claim.Record{}, err
	}
	if fx.Post != nil {
		if _, ok := s.books[claimtest.Ref{Home: at.Home, ID: fx.Post.ID}]; ok || s.incoming(fx.Post) {
			return claim.Record{}, ledger.ErrConflict
		}
	}
	s.apply(at, next, fx)
	return *next, nil
}

// incoming reports whether the incoming movement of t is booked in its region.
func (s *pureStore) incoming(t *ledger.Transaction) bool {
	for at, is := range s.books {
		if at.Home == t.Region && t.Incoming() && is.Incoming() && is.Provider == t.Provider && is.ProviderRef == t.ProviderRef {
			return true
		}
	}
	return false
}

func (s *pureStore) TakeOver(_ context.Context, key claim.Key, home, object, holder, region string, news claim.News) (claim.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := claimtest.Place{Home: home, Key: key}
	next, fx, err := claim.TakeOver(s.rows[at], object, holder, region, news, &s.policy, s.now)
	if err != nil {
		return claim.Record{}, err
	}
	s.apply(at, next, fx)
	return *next, nil
}

func (s *pureStore) Cancel(_ context.Context, key claim.Key, home, object string, step uuid.UUID, node, region string) (claim.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := claimtest.Place{Home: home, Key: key}
	next, fx, err := claim.Cancel(s.rows[at], object, step, node, region, s.now)
	if err != nil {
		return claim.Record{}, err
	}
	if next != s.rows[at] {
		s.apply(at, next, fx)
	}
	return *next, nil
}

func (s *pureStore) Renew(_ context.Context, holder string, leases []claim.Lease) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec := s.rows[claimtest.Place{Home: home, Key: key}]; rec != nil {
		return *rec, s.now, true, nil
	}
	return claim.Record{}, s.now, false, nil
}

func (s *pureStore) Replica(context.Context, claim.Key) (claim.Shown, error) {
	return claim.Shown{}, nil // the stalest replica there is
}

func (s *pureStore) Pin(_ context.Context, key claim.Key, entry string) (claim.Pin, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pin := s.fix(key, entry); pin != nil {
		return *pin, nil
	}
	old := s.standing(key)
	if old == nil {
		return claim.Pin{}, claim.ErrNoNewHomes
	}
	pin, change := old.next(s, entry)
	switch {
	case change == claim.PinTaken && entry == "":
		return claim.Pin{}, claim.ErrNoNewHomes
	case change != claim.PinUnchanged:
		s.rewrite(old, &pin)
	}
	return pin, nil
}

// fix pins a key without a pin to entry; nil: it has one, or is to get none.
func (s *pureStore) fix(key claim.Key, entry string) *claim.Pin {
	if s.standing(key) != nil || entry == "" {
		return nil
	}
	pin := &claim.Pin{Key: key, Home: entry, CreatedAt: s.now}
	s.pins[pinPlace{s.registrar, key}] = pin
	return pin
}

// standingPin is a pin as it was read, and where.
type standingPin struct {
	claim.Pin
	at string
}

// standing is the pin that holds for key, nil if there is none: the later one of the registrar's
// and the former registrar's, as a pin is only written anew after both were read.
func (s *pureStore) standing(key claim.Key) (standing *standingPin) {
	for _, at := range []string{s.registrar, s.former} {
		if pin := s.pins[pinPlace{at, key}]; pin != nil && (standing == nil || pin.CreatedAt.After(standing.CreatedAt)) {
			standing = &standingPin{*pin, at}
		}
	}
	return standing
}

// next is what becomes of old when a request arrives at entry.
func (old *standingPin) next(s *pureStore, entry string) (claim.Pin, claim.PinChange) {
	rec := s.rows[claimtest.Place{Home: old.Home, Key: old.Key}]
	spokenFor := rec != nil && rec.Age(&s.policy, s.now) != claim.Gone
	return claim.PinFor(&old.Pin, old.Key, entry, spokenFor, &s.policy, s.now)
}

// rewrite writes pin in the place of old, and brings it to the registrar. It reports false if old
// is not there any more.
func (s *pureStore) rewrite(old *standingPin, pin *claim.Pin) bool {
	from, to := pinPlace{old.at, old.Key}, pinPlace{s.registrar, old.Key}
	if is := s.pins[from]; is == nil || !is.CreatedAt.Equal(old.CreatedAt) || from != to && s.pins[to] != nil {
		return false
	}
	delete(s.pins, from)
	s.pins[to] = pin
	return true
}

// keeps reports whether registrar has pins.
func (s *pureStore) keeps(registrar string) bool {
	for at := range s.pins {
		if at.registrar == registrar {
			return true
		}
	}
	return false
}

func (s *pureStore) Object(_ context.Context, tenant, home, id string) (claim.Record, time.Time, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, rec := range s.rows {
		if at.Home == home && at.Key.Tenant == tenant && rec.Minted.ID == id {
			return *rec, s.now, true, nil
		}
	}
	return claim.Record{}, s.now, false, nil
}

func (s *pureStore) Reversing(_ context.Context, tenant, home, id string, limit int) (all []claim.Reversing, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, rec := range s.rows {
		if at.Home == home && at.Key.Tenant == tenant && rec.Reverses == id && rec.State == claim.InFlight {
			call := s.queued[outbox.ProviderCalls][claimtest.Ref{Home: home, ID: rec.Minted.ID}]
			all = append(all, claim.Reversing{ID: rec.Minted.ID, Created: rec.Minted.Created, Payload: call.Payload})
		}
	}
	slices.SortFunc(all, func(a, b claim.Reversing) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID))
	})
	return all[:min(limit, len(all))], nil
}

func (s *pureStore) Note(context.Context, claim.Key, string, claim.AuditEntry) {}

func (s *pureStore) Timeline(_ context.Context, key claim.Key, home string, _ int) ([]claim.AuditEntry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.audit[claimtest.Place{Home: home, Key: key}]), nil
}

func (s *pureStore) Elapse(_ context.Context, home, tenant string, by time.Duration) error {
	if claim.Livemode(tenant) {
		return claim.ErrLive
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, rec := range s.rows {
		if at.Home != home || at.Key.Tenant != tenant {
			continue
		}
		s.rows[at] = rec.Elapsed(by, &s.policy)
		ref := claimtest.Ref{Home: home, ID: rec.Minted.ID}
		for _, q := range []outbox.Queue{outbox.ProviderCalls, outbox.Expiries} {
			if m, ok := s.queued[q][ref]; ok && (rec.Holder == "" || q == outbox.Expiries) {
				m.Due = m.Due.Add(-by)
				s.queued[q][ref] = m
			}
		}
		if u, ok := s.unpaid[ref]; ok {
			u.At = u.At.Add(-by)
			s.unpaid[ref] = u
		}
	}
	for at, pin := range s.pins {
		if at.key.Tenant == tenant && (at.registrar == home || at.registrar == "" && home == "us-east1") {
			older := *pin
			older.CreatedAt = pin.CreatedAt.Add(-by)
			s.pins[at] = &older
		}
	}
	return nil
}

func (s *pureStore) Restore(context.Context) (claim.Restore, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restore, s.now, nil
}

func (s *pureStore) PutRestore(_ context.Context, r claim.Restore) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Version != s.restore.Version {
		return false, nil
	}
	r.Version++
	s.restore = r
	return true, nil
}

func (s *pureStore) Witness(_ context.Context, key claim.Key) (claim.Witness, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.witnesses[key]
	return w, ok, nil
}

func (s *pureStore) PutWitnesses(_ context.Context, all []claim.Witness) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range all {
		s.witnesses[w.Key] = w
	}
	return nil
}

func (s *pureStore) Witnesses(_ context.Context, after claim.Key, limit int) ([]claim.Witness, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.SortedFunc(maps.Values(s.witnesses), func(a, b claim.Witness) int { return a.Key.Compare(b.Key) })
	all = slices.DeleteFunc(all, func(w claim.Witness) bool { return w.Key.Compare(after) <= 0 })
	return all[:min(limit, len(all))], nil
}

func (s *pureStore) DropWitnesses(_ context.Context, version uint64, limit int) (dropped int, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.restore.Version != version {
		return 0, nil
	}
	for key := range s.witnesses {
		if dropped == limit {
			break
		}
		delete(s.witnesses, key)
		dropped++
	}
	return dropped, nil
}

type pureQueue struct {
	outbox.Store
	s *pureStore
	q outbox.Queue
}

func (o pureQueue) Depth(_ context.Context, region string) (d outbox.Depth, err error) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	for ref, m := range o.s.queued[o.q] {
		switch {
		case ref.Home != region:
		case m.Parked:
			d.Parked++
		default:
			d.Pending++
		}
	}
	return d, nil
}

func (o pureQueue) Take(_ context.Context, region string, _ int, _ time.Duration) (all []outbox.Message, _ error) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	for ref, m := range o.s.queued[o.q] {
		if ref.Home == region && !m.Parked && !m.Due.After(o.s.now) {
			all = append(all, m)
		}
	}
	return all, nil
}

func (o pureQueue) Finish(_ context.Context, region string, row outbox.Hold) error {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	delete(o.s.queued[o.q], claimtest.Ref{Home: region, ID: row.ID})
	return nil
}

func (o pureQueue) Park(_ context.Context, region string, row outbox.Hold, _ string) error {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	ref := claimtest.Ref{Home: region, ID: row.ID}
	m := o.s.queued[o.q][ref]
	m.Parked = true
	o.s.queued[o.q][ref] = m
	return nil
}

func (o pureQueue) Message(_ context.Context, region, id string) (outbox.Message, bool, error) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	m, ok := o.s.queued[o.q][claimtest.Ref{Home: region, ID: id}]
	return m, ok, nil
}

type pureLedger struct {
	ledger.Store
	s *pureStore
}

func (l pureLedger) Transaction(_ context.Context, region, id string) (ledger.Transaction, bool, error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	t, ok := l.s.books[claimtest.Ref{Home: region, ID: id}]
	return t, ok, nil
}

// Transactions are in no order, and nothing here depends on it.
func (l pureLedger) Transactions(_ context.Context, region string, after ledger.Position, _ time.Time, limit int) (ts []ledger.Transaction, err error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for ref, t := range l.s.books {
		if ref.Home == region && !t.At.Before(after.At) && len(ts) < limit {
			ts = append(ts, t)
		}
	}
	return ts, nil
}

func pureHarness(p claim.Policy) claimtest.Harness {
	s := newPureStore(p)
	return claimtest.Harness{
		Regions:   []string{"us-east1", "europe-west1", "asia-northeast1"},
		Store:     func(string) claim.Store { return s },
		Outbox:    func(string) outbox.Store { return pureQueue{s: s, q: outbox.ProviderCalls} },
		Queue:     func(_ string, q outbox.Queue) outbox.Store { return pureQueue{s: s, q: q} },
		Ledger:    func(string) ledger.Store { return pureLedger{s: s} },
		Policy:    p,
		PutTenant: func(testing.TB, claim.Tenant) {},
		Advance: func(d time.Duration) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.now = s.now.Add(d)
		},
	}
}

// TestTransitions runs the contract of both stores on the pure transitions, and
// TestTransitionsAgreeWithModel random operations on them and on the naive model, as for a
// store with one clock and with many.
func TestTransitions(t *testing.T) {
	for name, p := range purePolicies() {
		t.Run(name, func(t *testing.T) {
			claimtest.Transitions(t, func(*testing.T) claimtest.Harness { return pureHarness(p) })
		})
	}
}

func TestTransitionsAgreeWithModel(t *testing.T) {
	for name, p := range purePolicies() {
		t.Run(name, func(t *testing.T) { claimtest.Random(t, pureHarness(p)) })
	}
}

func purePolicies() map[string]claim.Policy {
	all := map[string]claim.Policy{}
	for name, offset := range map[string]time.Duration{"one clock": 0, "clocks 500 ms apart": 500 * time.Millisecond} {
		p := claim.DefaultPolicy()
		p.ClockOffset, p.MaxUnknowns, p.MaxGenerations = offset, 4, 3
		all[name] = p
	}
	return all
}

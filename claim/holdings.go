package claim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/homeward-io/homeward/internal/fault"
)

// holdings are the claims that this process is working on. Each has a trust deadline before the
// store's lease ends. When either local clock passes the deadline, the call's context ends with
// [errTrustLost]. Two clocks are needed: the monotonic clock stops while a machine is suspended,
// and the wall clock may be set back.
//
// One timer serves all holdings, as most calls end before it would fire.
type holdings struct {
	// wall replaces time.Now in tests; nil means time.Now.
	wall func() time.Time

	mu    sync.Mutex
	all   map[*holding]struct{}
	timer *time.Timer // fires at the next check; nil before the first
	rings time.Time   // when timer fires; zero while it is not armed
}

type holding struct {
	of    *holdings
	lease Lease
	// ceiling is the local time after which the holder ignores renewals.
	ceiling time.Time
	cancel  context.CancelCauseFunc
	trust   time.Time // guarded by of.mu
}

// lookEvery is how often a holder checks the wall clock, as timers do not notice that
// the machine slept. It is short against LeaseMargin.
const lookEvery = time.Second

var errTrustLost = contextError("claim: the lease can no longer be trusted")

type contextError string

func (e contextError) Error() string { return string(e) }

func (h *holdings) add(ctx context.Context, l Lease, trust, ceiling time.Time) (context.Context, *holding) {
	ctx, cancel := context.WithCancelCause(ctx)
	hold := &holding{of: h, lease: l, ceiling: ceiling, cancel: cancel, trust: trust}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = make(map[*holding]struct{})
	}
	h.all[hold] = struct{}{}
	h.watch(hold, time.Now())
	return ctx, hold
}

func (h *holdings) remove(hold *holding) {
	h.mu.Lock()
	delete(h.all, hold)
	h.mu.Unlock()
	hold.cancel(context.Canceled)
}

// byHome returns the held claims, grouped by home.
func (h *holdings) byHome() map[string][]*holding {
	h.mu.Lock()
	defer h.mu.Unlock()
	homes := map[string][]*holding{}
	for hold := range h.all {
		homes[hold.lease.Home] = append(homes[hold.lease.Home], hold)
	}
	return homes
}

// extend moves the trust deadline; lost ends the call.
func (hold *holding) extend(trust time.Time) {
	if trust.After(hold.ceiling) {
		trust = hold.ceiling
	}
	hold.of.mu.Lock()
	defer hold.of.mu.Unlock()
	// Trust is never regained, because the context has ended. Check at once: the
	// machine may have slept before the answer to a renewal arrived.
	hold.trust = trust
	hold.of.watch(hold, time.Now())
}

// watch ends the call of hold if trust has run out, and otherwise arms the timer for
// the next check. The caller holds mu.
func (h *holdings) watch(hold *holding, now time.Time) {
	rest := h.remaining(hold, now)
	if rest <= 0 {
		hold.cancel(errTrustLost)
		return
	}
	next := now.Add(min(rest, lookEvery))
	if !h.rings.IsZero() && !next.Before(h.rings) {
		return
	}
	h.rings = next
	if h.timer == nil {
		h.timer = time.AfterFunc(next.Sub(now), h.look)
	} else {
		h.timer.Reset(next.Sub(now))
	}
}

// look ends the calls that have no trust left.
func (h *holdings) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rings = time.Time{}
	now := time.Now()
	for hold := range h.all {
		h.watch(hold, now)
	}
}

// remaining returns how long trust in hold lasts, by whichever clock shows less. The caller
// holds mu.
func (h *holdings) remaining(hold *holding, now time.Time) time.Duration {
	wall := now
	if h.wall != nil {
		wall = h.wall()
	}
	return min(hold.trust.Sub(now), hold.trust.Round(0).Sub(wall.Round(0)))
}

func (hold *holding) lost() { hold.cancel(errTrustLost) }

// Start begins the heartbeat. It is idempotent.
func (s *Service) Start() {
	s.life.Lock()
	defer s.life.Unlock()
	if s.stop != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.done = stop, make(chan struct{})
	go s.heartbeat(ctx, s.done)
}

// Drain waits until all running attempts have ended or ctx is done. This includes attempts of
// disconnected callers, which the HTTP server no longer counts. It returns as soon as none runs, so
// call it when no more requests arrive.
func (s *Service) Drain(ctx context.Context) error {
	select {
	case <-s.executing.none():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("claim: attempts were still running at the drain deadline; the outbox will recover them: %w", ctx.Err())
	}
}

// running counts what runs. It is no sync.WaitGroup, which must not grow from zero while a goroutine
// waits for it: a request may arrive during a drain, over a connection that its server did not wait for.
type running struct {
	mu    sync.Mutex
	n     int
	ended chan struct{} // end closes it when n falls to 0; nil while no drain waits
}

func (r *running) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
}

func (r *running) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n--; r.n == 0 && r.ended != nil {
		close(r.ended)
		r.ended = nil
	}
}

// none returns a channel that is closed once nothing runs.
func (r *running) none() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.ended = make(chan struct{})
	}
	ended := r.ended
	if r.n == 0 {
		close(ended)
		r.ended = nil
	}
	return ended
}

// Stop ends the heartbeat and waits for it. It is idempotent.
func (s *Service) Stop() {
	s.life.Lock()
	defer s.life.Unlock()
	if s.stop == nil {
		return
	}
	s.stop()
	<-s.done
	s.stop = nil
}

func (s *Service) heartbeat(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	tick := time.NewTicker(s.c.Policy.RenewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.renew(ctx)
		}
	}
}

// renew extends the held leases, one step for each home, all homes concurrently. An
// unreachable home does not delay the others.
func (s *Service) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.c.Policy.RenewEvery)
	defer cancel()
	var homes sync.WaitGroup
	for home, holds := range s.held.byHome() {
		homes.Go(func() { s.renewHome(ctx, home, holds) })
	}
	homes.Wait()
}

// renewHome extends the leases of one home. It ignores a failure: trust runs out by
// itself.
func (s *Service) renewHome(ctx context.Context, home string, holds []*holding) {
	if caught := fault.Caught(func() { s.tryRenew(ctx, home, holds) }); caught != nil {
		s.c.Logger.Error("lease renewal panicked; running provider calls end before their leases do", "home", home, "held", len(holds), "fault", caught)
	}
}

func (s *Service) tryRenew(ctx context.Context, home string, holds []*holding) {
	leases := make([]Lease, len(holds))
	for i, hold := range holds {
		leases[i] = hold.lease
	}
	sentAt := time.Now()
	kept, err := s.c.Store.Renew(ctx, s.c.Node, leases)
	if err != nil {
		s.c.Logger.Warn("could not renew leases; running provider calls end before their leases do", "home", home, "held", len(leases), "error", err)
		return
	}
	var marked []*holding
	for i, hold := range holds {
		if kept[i] {
			hold.extend(sentAt.Add(s.c.Policy.Lease - s.c.Policy.LeaseMargin))
			continue
		}
		switch has, err := s.keeps(ctx, hold); {
		case err != nil:
			s.c.Logger.Warn("could not read a claim whose lease was not renewed; its provider call ends before its lease does", "home", home, "error", err)
		case has:
			marked = append(marked, hold)
		default:
			hold.lost()
			s.metersOf(leases[i].Key.Tenant).fenced.Add(1, "renew")
		}
	}
	if len(marked) > 0 { // a mark costs no renewal; each claim has one mark at most
		s.tryRenew(ctx, home, marked)
	}
}

// flights lets requests wait for an execution of the same key in this process instead
// of polling. It decides nothing.
type flights struct {
	mu    sync.Mutex
	m     map[flightKey]flight
	count uint64
}

type flightKey struct {
	home string
	key  Key
}

type flight struct {
	number uint64
	ended  chan struct{} // nil without a waiter
}

// watch returns a channel that closes when the execution under way ends, or nil if this
// process runs none.
func (f *flights) watch(home string, key Key) <-chan struct{} {
	k := flightKey{home, key}
	f.mu.Lock()
	defer f.mu.Unlock()
	one, under := f.m[k]
	if under && one.ended == nil {
		one.ended = make(chan struct{})
		f.m[k] = one
	}
	return one.ended
}

// begin registers an execution until end is called with the returned number. A second
// execution of the same key (a take-over after a lapsed lease) replaces the first and
// wakes its watchers.
func (f *flights) begin(home string, key Key) (number uint64) {
	k := flightKey{home, key}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.m == nil {
		f.m = make(map[flightKey]flight)
	}
	f.m[k].end()
	f.count++
	f.m[k] = flight{number: f.count}
	return f.count
}

func (f *flights) end(home string, key Key, number uint64) {
	k := flightKey{home, key}
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.m[k]; one.number == number {
		delete(f.m, k)
		one.end()
	}
}

func (one flight) end() {
	if one.ended != nil {
		close(one.ended)
	}
}

package claim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/homeward-io/homeward/fault"
)

// holdings are the claims that this process is working on. Each has a trust
// deadline, which lies before the store's lease end; when it has passed by either
// of the local clocks, the call's context ends with [errTrustLost]. The monotonic
// clock stands still while a machine is suspended; the wall clock may be set back.
type holdings struct {
	mu  sync.Mutex
	all map[*holding]struct{}
	// wall is a test's wall clock; nil means time.Now.
	wall func() time.Time
}

type holding struct {
	lease Lease
	// ceiling is the local time past which no renewal is believed.
	ceiling time.Time
	cancel  context.CancelCauseFunc
	wall    func() time.Time

	mu    sync.Mutex
	trust time.Time
	timer *time.Timer // of the next look at the clocks
}

// lookEvery is how often a holder looks at the wall clock: timers do not hear of a
// machine's sleep. It is short against LeaseMargin, and seldom against all else.
const lookEvery = time.Second

var errTrustLost = contextError("claim: the lease can no longer be trusted")

type contextError string

func (e contextError) Error() string { return string(e) }

func (h *holdings) add(ctx context.Context, l Lease, trust, ceiling time.Time) (context.Context, *holding) {
	ctx, cancel := context.WithCancelCause(ctx)
	hold := &holding{lease: l, ceiling: ceiling, cancel: cancel, wall: h.wall, trust: trust}
	if hold.wall == nil {
		hold.wall = time.Now
	}
	hold.mu.Lock() // the first look may be at once
	hold.timer = time.AfterFunc(min(hold.left(), lookEvery), hold.look)
	if hold.left() <= 0 {
		cancel(errTrustLost)
	}
	hold.mu.Unlock()
	h.mu.Lock()
	if h.all == nil {
		h.all = make(map[*holding]struct{})
	}
	h.all[hold] = struct{}{}
	h.mu.Unlock()
	return ctx, hold
}

func (h *holdings) remove(hold *holding) {
	h.mu.Lock()
	delete(h.all, hold)
	h.mu.Unlock()
	hold.cancel(context.Canceled)
	hold.mu.Lock()
	defer hold.mu.Unlock()
	hold.trust = time.Time{} // a look under way is the last
	hold.timer.Stop()
}

// byHome returns what is held now, home by home.
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
func (h *holding) extend(trust time.Time) {
	if trust.After(h.ceiling) {
		trust = h.ceiling
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	// After the last look there is no other: trust is never regained. This one is
	// at once where the answer to a renewal came after the machine had slept.
	h.trust = trust
	if h.timer.Stop() {
		h.timer.Reset(min(h.left(), lookEvery))
	}
}

// look ends the call when trust has run out.
func (h *holding) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := h.left()
	if left <= 0 {
		h.cancel(errTrustLost)
		return
	}
	h.timer.Reset(min(left, lookEvery))
}

// left is how long trust lasts, by the clock that says less; mu is held.
func (h *holding) left() time.Duration {
	return min(time.Until(h.trust), h.trust.Round(0).Sub(h.wall().Round(0)))
}

func (h *holding) lost() { h.cancel(errTrustLost) }

// Start begins the heartbeat. Starting twice is starting once.
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

// Drain waits for the attempts in hand, or for the end of ctx: also for those
// whose callers have hung up and which no server counts any more. It is called
// when no more requests come.
func (s *Service) Drain(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.executing.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("claim: attempts were still in hand when time ran out; the outbox recovers them: %w", ctx.Err())
	}
}

// Stop ends the heartbeat and waits for it. Stopping twice is stopping once.
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

// renew extends the held leases, each home's in one step, all homes at once: one
// that cannot be reached costs the others nothing.
func (s *Service) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.c.Policy.RenewEvery)
	defer cancel()
	var homes sync.WaitGroup
	for home, holds := range s.held.byHome() {
		homes.Go(func() { s.renewHome(ctx, home, holds) })
	}
	homes.Wait()
}

// renewHome extends leases of one home. A failure changes nothing: trust runs
// out by itself.
func (s *Service) renewHome(ctx context.Context, home string, holds []*holding) {
	if caught := fault.Caught(func() { s.tryRenew(ctx, home, holds) }); caught != nil {
		s.c.Logger.Error("a renewal panicked; calls under way end before their leases do", "home", home, "held", len(holds), "fault", caught)
	}
}

func (s *Service) tryRenew(ctx context.Context, home string, holds []*holding) {
	leases := make([]Lease, len(holds))
	for i, hold := range holds {
		leases[i] = hold.lease
	}
	asked := time.Now()
	kept, err := s.c.Store.Renew(ctx, s.c.Node, leases)
	if err != nil {
		s.c.Logger.Warn("leases could not be renewed; calls under way end before the leases do", "home", home, "held", len(leases), "error", err)
		return
	}
	for i, hold := range holds {
		if kept[i] {
			hold.extend(asked.Add(s.c.Policy.Lease - s.c.Policy.LeaseMargin))
		} else {
			hold.lost()
		}
	}
}

// flights lets requests for a key that this process is executing wait for the
// end instead of polling. It decides nothing.
type flights struct {
	mu sync.Mutex
	m  map[flightKey]chan struct{}
}

type flightKey struct {
	home string
	key  Key
}

// watch returns a channel that closes when the execution under way ends, or nil
// when there is none here.
func (f *flights) watch(home string, key Key) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.m[flightKey{home, key}]
}

// begin announces an execution. A second one for the same key (a take-over
// after a lapsed lease) replaces the first for new watchers.
func (f *flights) begin(home string, key Key) (end func()) {
	k, ch := flightKey{home, key}, make(chan struct{})
	f.mu.Lock()
	if f.m == nil {
		f.m = make(map[flightKey]chan struct{})
	}
	f.m[k] = ch
	f.mu.Unlock()
	return func() {
		f.mu.Lock()
		if f.m[k] == ch {
			delete(f.m, k)
		}
		f.mu.Unlock()
		close(ch)
	}
}

package claim

import (
	"context"
	"sync"
	"time"
)

// holdings are the claims that this process is working on. Each has a trust
// deadline on the local monotonic clock, which lies before the store's lease
// end; when it passes, the call's context ends with [errTrustLost].
type holdings struct {
	mu  sync.Mutex
	all map[*holding]struct{}
}

type holding struct {
	lease Lease
	// ceiling is the local time past which no renewal is believed.
	ceiling time.Time
	timer   *time.Timer
	cancel  context.CancelCauseFunc
}

var errTrustLost = contextError("claim: the lease can no longer be trusted")

type contextError string

func (e contextError) Error() string { return string(e) }

func (h *holdings) add(ctx context.Context, l Lease, trust, ceiling time.Time) (context.Context, *holding) {
	ctx, cancel := context.WithCancelCause(ctx)
	hold := &holding{lease: l, ceiling: ceiling, cancel: cancel}
	left := time.Until(trust)
	if left <= 0 {
		cancel(errTrustLost)
	}
	hold.timer = time.AfterFunc(left, func() { cancel(errTrustLost) })
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
	hold.timer.Stop()
	hold.cancel(context.Canceled)
}

// list returns the leases held now and, in the same order, their holdings.
func (h *holdings) list() ([]Lease, []*holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	leases := make([]Lease, 0, len(h.all))
	holds := make([]*holding, 0, len(h.all))
	for hold := range h.all {
		leases = append(leases, hold.lease)
		holds = append(holds, hold)
	}
	return leases, holds
}

// extend moves the trust deadline; lost ends the call.
func (h *holding) extend(trust time.Time) {
	if trust.After(h.ceiling) {
		trust = h.ceiling
	}
	// A timer that has fired has already cancelled: trust is never regained.
	if h.timer.Stop() {
		h.timer.Reset(time.Until(trust))
	}
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

// renew extends every held lease in one step. A failure changes nothing: trust
// runs out by itself.
func (s *Service) renew(ctx context.Context) {
	leases, holds := s.held.list()
	if len(leases) == 0 {
		return
	}
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.c.Policy.RenewEvery)
	defer cancel()
	kept, err := s.c.Store.Renew(ctx, s.c.Node, leases)
	if err != nil {
		s.c.Logger.Warn("leases could not be renewed; calls under way end before the leases do", "held", len(leases), "error", err)
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

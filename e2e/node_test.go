package e2e

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// watchedStore reports Begin's decisions, and may refuse to renew for a claim's first holder.
type watchedStore struct {
	deployment.Store
	decided func(a claim.Arrival, d claim.Decision)
	noRenew bool
}

func (s *watchedStore) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	got, err := s.Store.Begin(ctx, a)
	if err == nil && s.decided != nil {
		s.decided(a, got.Decision)
	}
	return got, err
}

func (s *watchedStore) Renew(ctx context.Context, holder string, leases []claim.Lease) ([]bool, error) {
	if !s.noRenew {
		return s.Store.Renew(ctx, holder, leases)
	}
	held := make([]bool, len(leases))
	for i, l := range leases {
		if l.Fence == 1 {
			continue
		}
		one, err := s.Store.Renew(ctx, holder, leases[i:i+1])
		if err != nil {
			return nil, err
		}
		held[i] = one[0]
	}
	return held, nil
}

// TestNodeDiesMidForward: the node of the home that works on a forward is cut
// off; the other node of the region answers.
func TestNodeDiesMidForward(t *testing.T) {
	t.Parallel()
	holder, busy := make(chan string, 8), make(chan string, 64)
	w := startWorld(t, nil, func(c *node.ClusterConfig) {
		lasting(c)
		c.Nodes = 2
		c.WrapStore = func(_ string, s deployment.Store) deployment.Store {
			return &watchedStore{Store: s, decided: func(a claim.Arrival, d claim.Decision) {
				switch d {
				case claim.Won:
					holder <- a.Node
				case claim.Busy:
					select {
					case busy <- a.Node:
					default: // it polls; one report is enough
					}
				}
			}}
		}
		c.Policy.WaitMax = patience
	})
	g := w.judge.hold(t)
	q := charge(stamped(t, eu), 1)
	reply := w.later(us, q)
	dying := receive(t, "the claim", holder)
	receive(t, "the provider call", g.entered)
	for _, n := range w.cluster.Nodes {
		if strings.HasPrefix(dying, n.Name()) {
			require.Equal(t, eu, n.Region())
			require.NoError(t, n.Sever())
		}
	}
	require.NotEqual(t, dying, receive(t, "a request to another node", busy))
	g.release()
	got := receive(t, "the answer", reply)
	require.NoError(t, got.Err)
	require.Equal(t, http.StatusCreated, got.Status, "%s", got.Body)
	require.Equal(t, "true", got.Header.Get("Idempotent-Replayed"))
	require.Equal(t, got.Remembered(), w.at(asia, q, http.StatusCreated).Remembered())
	w.judge.once(t, 1)
	require.EqualValues(t, 1, w.judge.Summary().Calls)
}

// TestWaitersAreWoken: rivals in one process wake at once, long before their next poll.
func TestWaitersAreWoken(t *testing.T) {
	t.Parallel()
	const rivals = 5
	waiting := make(chan struct{}, 64)
	w := startWorld(t, nil, func(c *node.ClusterConfig) {
		lasting(c)
		c.Policy.WaitPoll, c.Policy.WaitMax = time.Hour, 2*time.Hour
		c.WrapStore = func(_ string, s deployment.Store) deployment.Store {
			return &watchedStore{Store: s, decided: func(_ claim.Arrival, d claim.Decision) {
				if d == claim.Busy {
					waiting <- struct{}{}
				}
			}}
		}
	})
	g := w.judge.hold(t)
	q := charge(stamped(t, us), 1)
	first := w.later(us, q)
	receive(t, "the provider call", g.entered)
	var others []<-chan *answer.Answer
	for i := range rivals {
		others = append(others, w.later(regions[i%3], q)) // forwarded ones meet them at home
		receive(t, "a rival to wait", waiting)
	}
	g.release()
	winner := receive(t, "the winner's answer", first)
	require.Equal(t, http.StatusCreated, winner.Status, "%v", winner)
	for _, other := range others {
		got := receive(t, "a rival's answer", other)
		require.Equal(t, winner.Remembered(), got.Remembered())
		require.Equal(t, "true", got.Header.Get("Idempotent-Replayed"))
	}
	require.EqualValues(t, 1, w.judge.Summary().Calls)
}

// TestLongCallKeepsItsLease: a provider slower than the lease is called once,
// because the heartbeat holds the claim.
func TestLongCallKeepsItsLease(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, func(c *node.ClusterConfig) { c.Policy.Lease = 3 * time.Second })
	require.NoError(t, w.judge.SetFaults(simulator.Faults{Latency: 2 * w.policy.Lease}))
	q := charge(stamped(t, us), 1)
	r := w.at(us, q, http.StatusCreated)
	require.Empty(t, r.Header.Get("Idempotent-Replayed"))
	require.EqualValues(t, 1, w.judge.Summary().Calls)
	w.judge.once(t, 1)
	status, err := w.inspect(w.ctx, us, acme, q.key)
	require.NoError(t, err)
	require.Equal(t, 1, status.Attempts)
}

// stubbornProvider makes its first call longer than any time-out: it goes on though its context has
// ended.
type stubbornProvider struct {
	psp.Provider
	calls   atomic.Int32
	entered chan struct{}
	open    chan struct{}
}

func (p *stubbornProvider) Charge(ctx context.Context, call psp.Call) psp.Result {
	if p.calls.Add(1) == 1 {
		close(p.entered)
		<-p.open
		ctx = context.WithoutCancel(ctx)
	}
	return p.Provider.Charge(ctx, call)
}

// TestSlowHolderIsFenced: a holder that cannot renew and whose call goes on is
// taken over; it comes too late, is refused, and no money moves twice.
func TestSlowHolderIsFenced(t *testing.T) {
	t.Parallel()
	for _, recovery := range []string{"worker", "retry"} {
		t.Run(recovery, func(t *testing.T) {
			p := &stubbornProvider{entered: make(chan struct{}), open: make(chan struct{})}
			release := sync.OnceFunc(func() { close(p.open) })
			t.Cleanup(release)
			w := startWorld(t, nil, func(c *node.ClusterConfig) {
				p.Provider, c.Providers = c.Providers[0], psp.Providers{p}
				c.Limits.Request = 2 * patience // the slow holder's answer is its own, however late
				c.WrapStore = func(_ string, s deployment.Store) deployment.Store {
					return &pointedStore{&watchedStore{Store: s, noRenew: true}, func(point) {}, recovery == "retry", false}
				}
			})
			q := charge(stamped(t, us), 1)
			slow := w.later(us, q)
			receive(t, "the provider call", p.entered)
			var winner *answer.Answer
			if recovery == "worker" {
				until(t, "the worker has settled it", func() bool {
					status, err := w.inspect(w.ctx, us, acme, q.key)
					require.NoError(t, err)
					return status.State == "COMPLETED"
				})
				winner = w.at(us, q, http.StatusCreated)
			} else {
				winner = w.settle(w.ctx, us, q, nil)
				require.Equal(t, http.StatusCreated, winner.Status, "%v", winner)
			}
			w.judge.once(t, 1)
			release()
			late := receive(t, "the slow holder's answer", slow)
			require.NoError(t, late.Err)
			require.Equal(t, http.StatusConflict, late.Status, "%s", late.Body)
			require.Equal(t, "idempotency_key_in_use", late.Problem.Error)
			require.Equal(t, "same_key", late.Problem.Retry)
			require.Equal(t, winner.Remembered(), w.at(eu, q, http.StatusCreated).Remembered())
			w.judge.once(t, 1)
			require.EqualValues(t, 2, w.judge.Summary().Calls, "the same provider key, twice")
			status, err := w.inspect(w.ctx, us, acme, q.key)
			require.NoError(t, err)
			require.Equal(t, 2, status.Attempts)
		})
	}
}

// TestLateHolderMeetsItsHeir: the slow holder comes back while its heir is still asking the
// provider. It may not settle the claim, though it has the answer.
func TestLateHolderMeetsItsHeir(t *testing.T) {
	t.Parallel()
	p := &stubbornProvider{entered: make(chan struct{}), open: make(chan struct{})}
	release := sync.OnceFunc(func() { close(p.open) })
	t.Cleanup(release)
	w := startWorld(t, nil, func(c *node.ClusterConfig) {
		p.Provider, c.Providers = c.Providers[0], psp.Providers{p}
		c.Policy.Lease = 3 * time.Second // its heir is to keep it
		c.Limits.Request = 2 * patience  // the slow holder's answer is its own, however late
		c.WrapStore = func(_ string, s deployment.Store) deployment.Store { return &watchedStore{Store: s, noRenew: true} }
	})
	heir := newGate()
	t.Cleanup(heir.release)
	var arrivals atomic.Int32
	w.judge.SetHooks(simulator.Hooks{Before: func(ctx context.Context, call psp.Call) {
		if arrivals.Add(1) == 1 { // the heir's: the slow holder's call comes later
			heir.hold(ctx, call)
		}
	}})
	q := charge(stamped(t, us), 1)
	slow := w.later(us, q)
	receive(t, "the provider call", p.entered)
	receive(t, "the heir's call", heir.entered)
	release()
	late := receive(t, "the slow holder's answer", slow)
	require.NoError(t, late.Err)
	require.Equal(t, http.StatusConflict, late.Status, "%s", late.Body)
	w.judge.once(t, 1)
	status, err := w.inspect(w.ctx, us, acme, q.key)
	require.NoError(t, err)
	require.Equal(t, "IN_FLIGHT", status.State, "the claim is the heir's")
	require.Equal(t, 2, status.Attempts)
	heir.release()
	require.Equal(t, http.StatusCreated, w.settle(w.ctx, eu, q, nil).Status)
	w.judge.once(t, 1)
}

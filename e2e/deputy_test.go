package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// soon is a grace time for tests of deputies.
const soon = 300 * time.Millisecond

// deputised asserts that region answered q on the rows of home, by itself.
func (w *world) deputised(r *answer.Answer, region, home string) {
	w.t.Helper()
	require.NoError(w.t, r.Err)
	require.Equal(w.t, http.StatusCreated, r.Status, "%s", r.Body)
	require.Equal(w.t, home, r.Header.Get("Homeward-Home-Region"))
	require.Equal(w.t, region, r.Header.Get("Homeward-Served-By"))
}

// TestALostRegionIsServedByTheOthers cuts a region's only node off while its charge is at the
// provider. The node lives: it goes on after others have finished its work.
func TestALostRegionIsServedByTheOthers(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, func(c *node.ClusterConfig) { c.DeputyAfter = soon })
	old := charge(stamped(t, eu), 1)
	first := w.at(eu, old, http.StatusCreated)
	g := w.judge.hold(t)
	underway := charge(stamped(t, eu), 2)
	cut := w.later(eu, underway)
	receive(t, "the provider call", g.entered)
	w.judge.SetHooks(simulator.Hooks{})

	w.takeAway(eu)
	require.Error(t, receive(t, "the end of the connection", cut).Err)
	fresh := charge(stamped(t, eu), 3)
	served := w.send(w.ctx, us, fresh) // before any node notices the loss
	w.deputised(served, us, eu)
	require.Equal(t, served.Remembered(), w.settle(w.ctx, asia, fresh, nil).Remembered())
	require.Equal(t, first.Remembered(), w.at(us, old, http.StatusCreated).Remembered())
	// No retry asks for the charge under way: the deputies' workers adopt its row.
	until(t, "the charge under way is recovered", func() bool {
		s, err := w.inspect(w.ctx, us, acme, underway.key)
		return err == nil && s.State == "COMPLETED"
	})
	// That may have been us alone: asia answers once it, too, has found eu lost.
	done := w.settle(w.ctx, asia, underway, nil)
	require.Equal(t, http.StatusCreated, done.Status, "%s", done.Body)
	w.judge.once(t, 3)

	// The node that was taken away comes out of the provider's hands.
	through := make(chan psp.Call, 1)
	w.judge.SetHooks(simulator.Hooks{After: func(_ context.Context, call psp.Call) { through <- call }})
	g.release()
	receive(t, "the end of its call", through)
	w.judge.SetHooks(simulator.Hooks{})
	require.Equal(t, done.Remembered(), w.at(us, underway, http.StatusCreated).Remembered())
	w.judge.once(t, 3)
}

// TestARegionThatHasJustBecomeSlowServesItsKeys makes each round trip between two regions 0.3 s
// longer at once. The home answers, and no region acts for it.
func TestARegionThatHasJustBecomeSlowServesItsKeys(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, nil)
	w.network.SetDistance(us, eu, 64*time.Millisecond)
	w.at(us, charge(stamped(t, eu), 1), http.StatusCreated)
	w.network.SetDistance(us, eu, 400*time.Millisecond)
	slow := w.send(w.ctx, us, charge(stamped(t, eu), 2))
	require.NoError(t, slow.Err)
	require.Equal(t, http.StatusCreated, slow.Status, "%s", slow.Body)
	require.Equal(t, eu, slow.Header.Get("Homeward-Served-By"))
	w.judge.once(t, 2)
}

// wall fails forwards to a region while it is up; gossip and stores go round it.
type wall struct {
	up   atomic.Bool
	home string
	of   func(rpcAddr string) string
	next http.RoundTripper
}

func (b *wall) RoundTrip(req *http.Request) (*http.Response, error) {
	if b.up.Load() && b.of(req.URL.Host) == b.home {
		return nil, errors.New("the way is cut")
	}
	return b.next.RoundTrip(req)
}

// hole swallows what is sent to some nodes: it never ends by itself, as where a firewall
// drops SYNs. Gossip and stores go round it.
type hole struct {
	swallows func(rpcAddr string) bool
	dug      *atomic.Bool
	next     http.RoundTripper
}

func (h *hole) RoundTrip(req *http.Request) (*http.Response, error) {
	if h.dug.Load() && h.swallows(req.URL.Host) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return h.next.RoundTrip(req)
}

// TestBlackholes drops what is sent to RPC ports, while gossip passes: a node's, all of a region's,
// and those for what one region sends. Beside a healthy node nothing is refused; a region without
// one is served by its deputies, and by itself again when the ports are open.
func TestBlackholes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		from string // "": all
		node bool   // one alone
	}{"a region": {}, "one way": {from: us}, "a node": {node: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w *world
			var dug atomic.Bool
			w = startWorld(t, nil, func(c *node.ClusterConfig) {
				c.DeputyAfter, c.Nodes = soon, 2
				c.WrapTransport = func(region string, next http.RoundTripper) http.RoundTripper {
					return &hole{dug: &dug, next: next, swallows: func(addr string) bool {
						here := w.cluster.Region(us).Membership()
						return here.RegionOf(addr) == eu && (tc.from == "" || tc.from == region) && (!tc.node || addr == here.Nodes(eu)[0].RPCAddr)
					}}
				}
			})
			old := charge(stamped(t, eu), 1)
			first := w.at(us, old, http.StatusCreated)
			dug.Store(true)
			paid := 1
			if tc.node {
				var replies []<-chan *answer.Answer
				for range 16 {
					paid++
					replies = append(replies, w.later(us, charge(stamped(t, eu), paid)))
				}
				for _, reply := range replies {
					r := receive(t, "an answer", reply)
					require.Equal(t, http.StatusCreated, r.Status, "%v", r)
					require.Equal(t, eu, r.Header.Get("Homeward-Served-By"))
				}
			} else {
				for _, at := range []string{us, asia} {
					paid++
					fresh := charge(stamped(t, eu), paid)
					if tc.from != "" && tc.from != at {
						require.Equal(t, eu, w.at(at, fresh, http.StatusCreated).Header.Get("Homeward-Served-By"))
						continue
					}
					w.deputised(w.send(w.ctx, at, fresh), at, eu)
				}
				require.Equal(t, first.Remembered(), w.at(us, old, http.StatusCreated).Remembered())
				require.True(t, w.cluster.Region(us).Membership().Alive(eu), "gossip sees it")
			}
			paid++
			require.Equal(t, eu, w.at(eu, charge(stamped(t, eu), paid), http.StatusCreated).Header.Get("Homeward-Served-By"))
			w.at(eu, charge(stamped(t, us), paid+1), http.StatusCreated)
			paid++
			w.judge.once(t, paid)

			dug.Store(false)
			until(t, "us forwards again", func() bool {
				return w.at(us, charge(stamped(t, eu), 100), http.StatusCreated).Header.Get("Homeward-Served-By") == eu
			})
		})
	}
}

// TestBothSidesOfAPartitionAct cuts the requests' way to a region that is alive:
// it and its deputies act on the same rows at the same time. When the way is
// mended forwards resume by themselves.
func TestBothSidesOfAPartitionAct(t *testing.T) {
	t.Parallel()
	var w *world
	var walls []*wall
	w = startWorld(t, nil, func(c *node.ClusterConfig) {
		c.DeputyAfter = soon
		c.WrapTransport = func(region string, next http.RoundTripper) http.RoundTripper {
			b := &wall{home: eu, next: next, of: func(addr string) string { return w.cluster.Region(us).Membership().RegionOf(addr) }}
			if region != eu {
				walls = append(walls, b)
			}
			return b
		}
	})
	for _, b := range walls {
		b.up.Store(true)
	}
	until(t, "us and asia are deputies", func() bool {
		return w.send(w.ctx, us, charge(stamped(t, eu), 1)).Status == http.StatusCreated &&
			w.send(w.ctx, asia, charge(stamped(t, eu), 1)).Status == http.StatusCreated
	})
	before := w.judge.Stats().Effects

	// A provider that loses replies keeps the claims open for everybody to act on.
	require.NoError(t, w.judge.SetFaults(simulator.Faults{Latency: 5 * time.Millisecond, Jitter: 10 * time.Millisecond, ErrorAfter: 0.2, DropReply: 0.2}))
	const keys = 40
	answers := make([][3]string, keys)
	var all sync.WaitGroup
	for k := range keys {
		q := charge(stamped(t, eu), 100+k)
		for i, r := range regions {
			all.Go(func() { answers[k][i] = w.settle(w.ctx, r, q, nil).Remembered() })
		}
	}
	all.Wait()
	for k, a := range answers {
		require.Equal(t, a[0], a[1], "key %d", k)
		require.Equal(t, a[0], a[2], "key %d", k)
		require.Contains(t, a[0], fmt.Sprintf(`"amount":%d`, 100+k))
	}
	w.judge.once(t, int(before)+keys)

	// One key, from both sides at once: those who wait find the answer in the row.
	twin, twins := charge(stamped(t, eu), 999), make([]string, 200)
	for i := range twins {
		all.Go(func() { twins[i] = w.settle(w.ctx, regions[i%len(regions)], twin, nil).Remembered() })
	}
	all.Wait()
	for _, a := range twins {
		require.Equal(t, twins[0], a)
	}
	w.judge.once(t, int(before)+keys+1)

	require.NoError(t, w.judge.SetFaults(simulator.Faults{}))
	for _, b := range walls {
		b.up.Store(false)
	}
	until(t, "us forwards again", func() bool {
		// The provider may have cut the connection that the first call is sent on.
		r := w.settle(w.ctx, us, charge(stamped(t, eu), 2), nil)
		require.NoError(t, r.Err)
		require.Equal(t, http.StatusCreated, r.Status, "%s", r.Body)
		return r.Header.Get("Homeward-Served-By") == eu
	})
}

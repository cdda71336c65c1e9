package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/region/admin"
)

// drained is a world in which a test changes regions as an operator. Its nodes read the table of
// regions when they start and when an operator has them read it, and at no other time.
type drained struct {
	*world
	operator *admin.Client
	table    deployment.Deployment
}

func startDrained(t *testing.T) *drained {
	w := startWorld(t, nil, func(c *node.ClusterConfig) {
		c.Nodes, c.TopologyEvery = 2, time.Hour
		offset := c.Policy.ClockOffset
		c.Policy = claim.DefaultPolicy() // a busy machine loses no lease of 30 s
		c.Policy.ClockOffset = offset
	})
	operator, err := admin.NewClient(w.cluster.Region(us).RPCAddr(), nil)
	require.NoError(t, err)
	t.Cleanup(operator.Close)
	table := w.cluster.DB
	t.Cleanup(func() { // others may have the database after us
		for _, r := range regions {
			_, err := table.SetRegionStatus(w.ctx, r, region.Active)
			require.NoError(t, err)
		}
	})
	return &drained{w, operator, table}
}

// set changes a status as an operator does, and waits until every node has read it.
func (w *drained) set(name string, status region.Status) (epoch uint64) {
	w.t.Helper()
	epoch, err := w.operator.SetStatus(w.ctx, name, status)
	require.NoError(w.t, err)
	until(w.t, "every node has read it", func() bool { return w.steps(name, epoch)[0].Open == "" })
	return epoch
}

// behind changes a status and notifies no node.
func (w *drained) behind(name string, status region.Status) {
	w.t.Helper()
	_, err := w.table.SetRegionStatus(w.ctx, name, status)
	require.NoError(w.t, err)
}

// steps are read from a node that sees all others: on a busy machine gossip may lose one for a
// moment.
func (w *drained) steps(name string, epoch uint64) (steps []admin.DrainStep) {
	w.t.Helper()
	until(w.t, "all nodes are seen", func() bool {
		o, err := w.operator.Overview(w.ctx, admin.Question{Gather: true, Epoch: epoch})
		if err != nil {
			return false // a busy machine may lose a connection
		}
		steps = o.DrainSteps(name, epoch)
		return len(o.Members) == len(w.cluster.Nodes)
	})
	return steps
}

// open are the steps that a drain still waits for.
func (w *drained) open(name string, epoch uint64) string {
	w.t.Helper()
	var open []string
	for _, s := range w.steps(name, epoch) {
		if s.Open != "" {
			open = append(open, s.Open)
		}
	}
	return strings.Join(open, "; ")
}

// probe is the status of a GET that needs no API key.
func (w *drained) probe(n *node.Node, path string) int {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, "http://"+n.APIAddr()+path, nil)
	require.NoError(w.t, err)
	res, err := w.http.Do(req)
	require.NoError(w.t, err)
	require.NoError(w.t, res.Body.Close())
	return res.StatusCode
}

// ready reports for each region whether balancers should send it traffic; its nodes agree.
func (w *drained) ready(want map[string]int) {
	w.t.Helper()
	for _, n := range w.cluster.Nodes {
		require.Equal(w.t, want[n.Region()], w.probe(n, "/readyz"), n.Name())
		require.Equal(w.t, http.StatusOK, w.probe(n, "/livez"), n.Name())
		require.Equal(w.t, http.StatusOK, w.probe(n, "/readyz?exclude=region"), n.Name())
	}
}

// mint asks a region for a stamped key.
func (w *drained) mint(where string) (home claim.RegionCode, r *answer.Answer) {
	w.t.Helper()
	r = w.send(w.ctx, where, request{tenant: acme, path: "/v1/idempotency-keys", body: `{"count":1}`})
	require.NoError(w.t, r.Err)
	if r.Status != http.StatusOK {
		return 0, r
	}
	var answer struct{ Keys []string }
	require.NoError(w.t, json.Unmarshal(r.Body, &answer))
	home, ok := claim.ReadStamp(answer.Keys[0])
	require.True(w.t, ok)
	return home, r
}

func (w *drained) home(r *answer.Answer) string { return r.Header.Get("Homeward-Home-Region") }

// slowAmount is the amount of the charge that the provider is slow with.
const slowAmount = 777_777

// merchants send new keys to every region, and each a second time to another one,
// until they are stopped.
type merchants struct {
	w     *drained
	stop  context.CancelFunc
	done  sync.WaitGroup
	moved atomic.Int64
	// drained: keys that are sent from now on must not get their home there.
	drained atomic.Pointer[string]
	mu      sync.Mutex
	errs    []error
	fresh   map[string]int // keys that a drained region was sent, by the home they got
}

func (w *drained) merchants() *merchants {
	ctx, stop := context.WithCancel(w.ctx)
	m := &merchants{w: w, stop: stop, fresh: map[string]int{}}
	w.t.Cleanup(func() {
		stop()
		m.done.Wait()
	})
	for i := range 6 {
		m.done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := m.one(fmt.Sprintf("load-%d-%d", i, n), regions[(i+n)%3], regions[(i+n+1)%3]); err != nil {
					m.mu.Lock()
					m.errs = append(m.errs, err)
					m.mu.Unlock()
					return
				}
			}
		})
	}
	return m
}

func (m *merchants) one(key, first, again string) error {
	q := charge(key, 5)
	if len(key)%2 == 0 {
		q.tenant = globex
	}
	closed := m.drained.Load()
	r := m.w.send(m.w.ctx, first, q)
	if r.Err != nil || r.Status != http.StatusCreated {
		return fmt.Errorf("%s in %s: %v", key, first, r)
	}
	m.moved.Add(1)
	home := m.w.home(r)
	if closed != nil && home == *closed {
		return fmt.Errorf("%s in %s got its home in %s, which is drained", key, first, home)
	}
	if closed != nil && first == *closed {
		m.mu.Lock()
		m.fresh[home]++
		m.mu.Unlock()
	}
	retry := m.w.send(m.w.ctx, again, q)
	if retry.Err != nil || retry.Remembered() != r.Remembered() || m.w.home(retry) != home {
		return fmt.Errorf("%s again in %s: %v, at first in %s: %v", key, again, retry, first, r)
	}
	return nil
}

// arrived counts the keys that a drained region was sent.
func (m *merchants) arrived() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.fresh {
		n += one
	}
	return n
}

func (m *merchants) end() error {
	m.stop()
	m.done.Wait()
	return errors.Join(m.errs...)
}

func (m *merchants) failed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.errs) > 0
}

// TestDrain empties a region under load and brings it back.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := startDrained(t)
	up := map[string]int{us: http.StatusOK, eu: http.StatusOK, asia: http.StatusOK}
	w.ready(up)
	g := newGate()
	t.Cleanup(g.release)
	w.judge.SetHooks(simulator.Hooks{Before: func(ctx context.Context, call psp.Call) {
		if call.Amount == slowAmount {
			g.hold(ctx, call)
		}
	}})
	opaque, stampedCharge := charge("order-1", 1), charge(stamped(t, asia), 2)
	first, firstOurs := w.at(asia, opaque, http.StatusCreated), w.at(asia, stampedCharge, http.StatusCreated)
	require.Equal(t, asia, w.home(first))
	early := charge(stamped(t, asia), 3) // used later
	load := w.merchants()
	slow := w.later(asia, charge("slow", slowAmount))
	receive(t, "the slow provider call", g.entered)

	epoch := w.set(asia, region.Draining)
	again, err := w.operator.SetStatus(w.ctx, asia, region.Draining)
	require.NoError(t, err)
	require.Equal(t, epoch, again, "saying it twice changes nothing")
	closed := asia
	load.drained.Store(&closed)
	w.ready(map[string]int{us: http.StatusOK, eu: http.StatusOK, asia: http.StatusServiceUnavailable})
	for _, n := range w.cluster.Nodes { // by gossip the others choose them last
		until(t, n.Name()+" has seen that they drain", func() bool {
			seen := n.Membership().Nodes(asia)
			return len(seen) == 2 && seen[0].Draining && seen[1].Draining
		})
	}
	// New keys get other homes: the registrar's region is the first choice.
	for _, q := range []request{charge("order-2", 4), {globex, "/v1/charges", "order-2", charge("", 5).body, ""}} {
		r := w.at(asia, q, http.StatusCreated)
		require.Equal(t, map[string]string{acme: us, globex: eu}[q.tenant], w.home(r))
		require.Equal(t, r.Remembered(), w.at(asia, q, http.StatusCreated).Remembered())
	}
	home, _ := w.mint(asia)
	require.Contains(t, []claim.RegionCode{codes[us], codes[eu]}, home)
	// What is at home there is served there.
	for _, r := range regions {
		require.Equal(t, first.Remembered(), w.at(r, opaque, http.StatusCreated).Remembered())
		require.Equal(t, firstOurs.Remembered(), w.at(r, stampedCharge, http.StatusCreated).Remembered())
	}
	require.Equal(t, asia, w.home(w.at(eu, early, http.StatusCreated)), "a key that was stamped before keeps its home")

	until(t, "the load has met the drained region", func() bool { return load.arrived() >= 20 || load.failed() })
	require.NoError(t, load.end())
	for range 3 {
		open := w.open(asia, epoch)
		require.Contains(t, open, "claims in flight: 1")
		require.Contains(t, open, "requests in hand")
	}
	g.release()
	require.Equal(t, http.StatusCreated, receive(t, "the slow charge", slow).Status)
	until(t, "it is safe", func() bool { return w.open(asia, epoch) == "" })

	w.set(asia, region.Active)
	w.ready(up)
	back := w.at(asia, charge("order-3", 6), http.StatusCreated)
	require.Equal(t, asia, w.home(back))
	home, _ = w.mint(asia)
	require.Equal(t, codes[asia], home)
	require.Equal(t, first.Remembered(), w.at(us, opaque, http.StatusCreated).Remembered())
	w.judge.once(t, 7+int(load.moved.Load()))
}

// TestWhatANodeRemembersOfRegionsMayBeOld: no node has read the drain, and no key gets its home
// there all the same. A node that has not read its end loses nothing either.
func TestWhatANodeRemembersOfRegionsMayBeOld(t *testing.T) {
	t.Parallel()
	w := startDrained(t)
	old := charge("order-1", 1)
	first := w.at(asia, old, http.StatusCreated)
	require.Equal(t, asia, w.home(first))

	w.behind(asia, region.Draining)
	w.ready(map[string]int{us: http.StatusOK, eu: http.StatusOK, asia: http.StatusOK})
	amount := 2
	fresh := func(tenant string, want string) {
		t.Helper()
		for range 5 {
			q := charge(fmt.Sprint("order-", amount), amount)
			q.tenant = tenant
			amount++
			r := w.at(asia, q, http.StatusCreated)
			require.Equal(t, want, w.home(r))
			require.Equal(t, r.Remembered(), w.at(asia, q, http.StatusCreated).Remembered())
		}
	}
	fresh(acme, us)
	fresh(globex, eu)
	w.behind(us, region.Down)
	fresh(acme, eu)
	require.Equal(t, first.Remembered(), w.at(asia, old, http.StatusCreated).Remembered())

	w.behind(eu, region.Draining)
	w.unavailable(w.at(asia, charge("nowhere", 9), http.StatusServiceUnavailable), "home_unavailable")
	w.unavailable(w.at(us, charge("nowhere", 9), http.StatusServiceUnavailable), "home_unavailable")
	require.Equal(t, first.Remembered(), w.at(us, old, http.StatusCreated).Remembered())
	w.set(eu, region.Draining) // now every node has read it of all of them
	w.unavailable(w.at(asia, charge("nowhere", 9), http.StatusServiceUnavailable), "home_unavailable")
	_, refused := w.mint(eu)
	w.unavailable(refused, "home_unavailable")

	w.behind(eu, region.Active) // which no node has read
	w.unavailable(w.at(asia, charge("nowhere", 9), http.StatusServiceUnavailable), "home_unavailable")
	w.set(eu, region.Active)
	fresh(acme, eu)
	require.Equal(t, first.Remembered(), w.at(eu, old, http.StatusCreated).Remembered())
	w.judge.once(t, amount-1)
}

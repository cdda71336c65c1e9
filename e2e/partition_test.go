package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// unavailable asserts a 503 of this kind with Retry-After.
func (w *world) unavailable(r *answer.Answer, kind string) {
	w.t.Helper()
	require.NoError(w.t, r.Err)
	require.Equal(w.t, http.StatusServiceUnavailable, r.Status, "%s", r.Body)
	require.Equal(w.t, kind, r.Problem.Error)
	require.Equal(w.t, "same_key", r.Problem.Retry)
	require.NotEmpty(w.t, r.Header.Get("Retry-After"))
	require.Positive(w.t, r.Problem.RetryAfterMS)
}

// pinnedAnyway: a partition between nodes does not part them from a database. The
// pin is written, in the registrar's partition, and the key is at home here. The
// embedded store counts itself in: its rows are as far as their regions.
func (w *world) pinnedAnyway(r *answer.Answer, home string) {
	w.t.Helper()
	require.NoError(w.t, r.Err)
	require.Equal(w.t, http.StatusCreated, r.Status, "%s", r.Body)
	require.Equal(w.t, home, r.Header.Get("Homeward-Home-Region"))
}

// TestPartition cuts two regions apart. On the embedded store their rows are cut, too: what
// is homed beyond fails closed and succeeds once healed. On a database the entry reaches the
// rows and acts on them. All else goes on.
func TestPartition(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, lasting)
	old := charge(stamped(t, eu), 1)
	first := w.at(us, old, http.StatusCreated)
	paidHere := objectID(t, w.at(us, charge(stamped(t, us), 5), http.StatusCreated))
	backHere := objectID(t, w.at(us, refund(stamped(t, us), paidHere, 1), http.StatusCreated))
	until(t, "the replica in us has it", func() bool {
		w.network.ResetTrips()
		return w.at(us, old, http.StatusCreated).Status == http.StatusCreated && w.network.TotalTrips() == 0
	})
	// A charge that the partition finds in the provider's hands.
	g := w.judge.hold(t)
	underway := charge(stamped(t, eu), 2)
	reply := w.later(eu, underway)
	receive(t, "the provider call", g.entered)
	w.judge.SetHooks(simulator.Hooks{})

	w.network.Cut(us, eu)
	fresh := charge(stamped(t, eu), 3)
	opaque := charge("order-1", 4)
	opaque.tenant = globex // with its pins in eu
	paid := 6
	for range 2 {
		pinning, far, held := w.send(w.ctx, us, opaque), w.send(w.ctx, us, fresh), w.send(w.ctx, us, underway)
		if onSQL() {
			w.pinnedAnyway(pinning, us)
			w.deputised(far, us, eu)
			require.Equal(t, "idempotency_key_in_use", held.Problem.Error, "its holder calls the provider")
			continue
		}
		for _, r := range []*answer.Answer{pinning, far, held} {
			w.unavailable(r, "home_unavailable")
		}
	}
	if onSQL() {
		paid += 2
	}
	require.Equal(t, first.Remembered(), w.at(us, old, http.StatusCreated).Remembered(), "a final answer is read from the replica")
	w.at(us, charge(stamped(t, us), 5), http.StatusCreated)
	w.at(us, charge("order-2", 6), http.StatusCreated) // pinned here
	w.at(asia, charge(stamped(t, eu), 7), http.StatusCreated)
	w.judge.once(t, paid)
	g.release()
	done := receive(t, "the charge under way", reply)
	require.Equal(t, http.StatusCreated, done.Status, "%v", done)

	// A charge at home here may have refunds beyond, so what was refunded is not known. A refund is here.
	for path, status := range map[string]int{"/v1/charges/" + paidHere: http.StatusServiceUnavailable, "/v1/refunds/" + backHere: http.StatusOK} {
		got := w.get(us, path)
		if onSQL() || status == http.StatusOK {
			require.Equal(t, http.StatusOK, got.Status, "%s", got)
			continue
		}
		w.unavailable(got, "home_unavailable")
	}
	w.network.Heal(us, eu)
	require.Equal(t, http.StatusOK, w.get(us, "/v1/charges/"+paidHere).Status)
	require.Equal(t, done.Remembered(), w.at(us, underway, http.StatusCreated).Remembered())
	w.at(us, fresh, http.StatusCreated)
	w.at(us, opaque, http.StatusCreated)
	w.at(eu, fresh, http.StatusCreated)
	w.judge.once(t, 9)
}

// TestPartitionOneWay: eu still reaches us, but not the other way round.
func TestPartitionOneWay(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, nil)
	w.network.CutOneWay(us, eu)
	there, back := charge(stamped(t, eu), 1), charge(stamped(t, us), 2)
	paid := 0
	if r := w.send(w.ctx, us, there); onSQL() {
		w.deputised(r, us, eu)
		paid++
	} else {
		w.unavailable(r, "home_unavailable")
	}
	w.judge.once(t, paid)
	w.at(eu, back, http.StatusCreated)
	w.at(eu, charge("order-1", 3), http.StatusCreated) // the pin is in us
	w.at(asia, there, http.StatusCreated)
	w.network.Heal(us, eu)
	require.Equal(t, "true", w.at(us, there, http.StatusCreated).Header.Get("Idempotent-Replayed"))
	w.judge.once(t, 3)
}

// TestBlackhole: what never answers costs the request's own time and no more.
func TestBlackhole(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, func(c *node.ClusterConfig) { c.Limits.Request = c.Policy.Lease })
	w.network.Blackhole(us, eu)
	q := charge(stamped(t, eu), 1)
	opaque := charge("order-1", 2)
	opaque.tenant = globex
	// The test's own patience is the bound: nothing here waits for eu.
	forward, pin := w.later(us, q), w.later(us, opaque)
	forwarded := receive(t, "the answer to a forward", forward)
	if pinning := receive(t, "the answer to a look-up", pin); onSQL() {
		w.deputised(forwarded, us, eu)
		w.pinnedAnyway(pinning, us)
		w.judge.once(t, 2)
	} else {
		w.unavailable(forwarded, "home_unavailable")
		require.Equal(t, http.StatusServiceUnavailable, pinning.Status, "%v", pinning)
		require.Equal(t, "same_key", pinning.Problem.Retry)
		w.judge.once(t, 0)
	}
	// Until us has a new connection, it answers that the home is unavailable.
	w.network.Heal(us, eu)
	require.Equal(t, http.StatusCreated, w.settle(w.ctx, us, q, nil).Status)
	require.Equal(t, http.StatusCreated, w.settle(w.ctx, us, opaque, nil).Status)
	w.judge.once(t, 2)
}

// loseReply executes requests and loses their answers.
type loseReply struct {
	http.RoundTripper
	lose *atomic.Int32
}

func (l *loseReply) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(req)
	if err != nil || l.lose.Add(-1) < 0 {
		return res, err
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return nil, errors.New("the connection was lost on the way back")
}

func (l *loseReply) CloseIdleConnections() {
	l.RoundTripper.(interface{ CloseIdleConnections() }).CloseIdleConnections()
}

// TestLostReply loses the answer to a forward after the home has carried it out.
// Another node of the home answers instead, or, where there is none, the entry from the row.
func TestLostReply(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 2} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			var lose atomic.Int32
			w := startWorld(t, nil, func(c *node.ClusterConfig) {
				c.Nodes = nodes
				c.WrapTransport = func(_ string, base http.RoundTripper) http.RoundTripper { return &loseReply{base, &lose} }
			})
			q := charge(stamped(t, eu), 1)
			lose.Store(1)
			replayed := w.at(us, q, http.StatusCreated)
			require.Equal(t, "true", replayed.Header.Get("Idempotent-Replayed"), "the answer was lost")
			by := map[int]string{1: us, 2: eu}[nodes]
			require.Equal(t, by, replayed.Header.Get("Homeward-Served-By"))
			w.judge.once(t, 1)
			again := w.at(us, q, http.StatusCreated)
			require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
			require.Equal(t, again.Remembered(), w.at(eu, q, http.StatusCreated).Remembered())
			w.judge.once(t, 1)
		})
	}
}

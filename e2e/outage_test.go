package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// outage is a cluster with a database that a test can stop.
type outage struct {
	*world
	server *localdb.Server
}

// startOutage starts a database of the test's own, and nodes with the published
// patience with it.
func startOutage(t *testing.T) *outage {
	t.Helper()
	if !onSQL() {
		t.Skipf("the embedded store cannot go away; set %s=sql", storeEnv)
	}
	if dbtest.Shared(t).Kind() == localdb.CockroachDB {
		t.Skip("CockroachDB's data is in memory here and does not come back after a crash")
	}
	s := dbtest.Start(t, localdb.Config{Kind: localdb.PostgreSQL, Regions: regions})
	require.NoError(t, prepare(t.Context(), s, "e2e"))
	b := backend{Databases: map[string]string{}, Policy: unhurried(s.Kind())}
	for _, r := range regions {
		b.Databases[r] = s.URL(r, "e2e")
	}
	w := startWorldOn(t, b, nil, func(c *node.ClusterConfig) {
		c.Pool = sqlstore.DefaultPool()
		c.Pool.MaxConns = 8
	})
	return &outage{w, s}
}

// TestDatabaseOutage: without the database nothing is charged and every answer asks for a retry.
// With it back, requests under way end as they should.
func TestDatabaseOutage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		take, back func(o *outage) error
	}{
		{"killed",
			func(o *outage) error { return o.server.Kill("") },
			func(o *outage) error { return o.server.Restart(o.ctx, "") }},
		{"paused",
			func(o *outage) error { return o.server.Pause("") },
			func(o *outage) error { return o.server.Resume("") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := startOutage(t)
			old := charge("order-old", 1)
			first := o.at(us, old, http.StatusCreated)
			// Charges that the outage finds in the provider's hands.
			g := o.judge.hold(t)
			underway := []request{charge(stamped(t, us), 2), charge("order-underway", 3), charge(stamped(t, asia), 4)}
			var replies []<-chan *answer.Answer
			for _, q := range underway {
				replies = append(replies, o.later(eu, q))
				receive(t, "the provider call", g.entered)
			}
			// On a busy machine an heir may have got hold of one before the outage: its
			// call is not held.
			var called sync.Map // by amount
			o.judge.SetHooks(simulator.Hooks{Before: func(_ context.Context, call psp.Call) { called.Store(call.Amount, true) }})
			require.NoError(t, tc.take(o))

			fresh := []request{charge(stamped(t, us), 5), charge("order-fresh", 6), charge(stamped(t, asia), 7)}
			var refused []<-chan *answer.Answer
			for _, q := range append(fresh, old) {
				refused = append(refused, o.later(us, q))
			}
			for _, r := range refused {
				o.unavailable(receive(t, "the answer without a database", r), "store_unavailable")
			}
			for _, q := range fresh {
				_, ok := called.Load(int64(q.amount(t)))
				require.False(t, ok, "a call without a record")
			}
			// The provider makes the movements, and no node can record them.
			g.release()
			for _, r := range replies {
				got := receive(t, "the answer to a charge under way", r)
				require.NoError(t, got.Err)
				require.Equal(t, "same_key", got.Problem.Retry, "%s", got.Body)
			}
			until(t, "the provider has carried them out", func() bool { return len(o.judge.Effects()) == 1+len(underway) })
			o.judge.once(t, 1+len(underway))

			require.NoError(t, tc.back(o))
			for _, q := range append(fresh, underway...) {
				done := o.settle(o.ctx, asia, q, nil)
				require.NoError(t, done.Err)
				require.Equal(t, http.StatusCreated, done.Status, "%s", done.Body)
				require.Equal(t, done.Remembered(), o.at(us, q, http.StatusCreated).Remembered())
			}
			require.Equal(t, first.Remembered(), o.at(eu, old, http.StatusCreated).Remembered())
			o.judge.once(t, 1+len(fresh)+len(underway))
		})
	}
}

// TestDatabaseCrashesUnderLoad: clients go on while the database crashes, comes back, and crashes
// again. Every answer that was sent stays true.
func TestDatabaseCrashesUnderLoad(t *testing.T) {
	t.Parallel()
	const keys, rivals, crashes = 120, 3, 3
	o := startOutage(t)
	require.NoError(t, o.judge.SetFaults(simulator.Faults{
		Jitter: 10 * time.Millisecond, ErrorAfter: 0.05, DropReply: 0.05, Seed: 3,
	}))
	// The calls of the provider pace the crashes: each falls into the middle of
	// many requests.
	var calls atomic.Int32
	next := make(chan struct{}, crashes)
	o.judge.SetHooks(simulator.Hooks{Before: func(context.Context, psp.Call) {
		if n := calls.Add(1); n%(keys/(crashes+1)) == 0 && n < keys {
			next <- struct{}{}
		}
	}})
	var h history
	var all sync.WaitGroup
	rng := rand.New(rand.NewPCG(5, 5))
	queue := make(chan func(), keys*rivals)
	for i := range keys {
		key := fmt.Sprint("order-", i)
		if i%2 == 0 {
			key = stamped(t, regions[rng.IntN(3)])
		}
		for rival := range rivals {
			q, region := charge(key, 1000+i), regions[rng.IntN(3)]
			queue <- func() {
				last := o.settle(o.ctx, region, q, func(start time.Time, r *answer.Answer) { h.add(i*rivals+rival, q, start, r) })
				if last.Status != http.StatusCreated {
					t.Errorf("%s never came to an end: %v", q.key, last)
				}
			}
		}
	}
	close(queue)
	const clients = 24
	for range clients {
		all.Go(func() {
			for do := range queue {
				do()
			}
		})
	}
	for range crashes {
		receive(t, "the next crash's time", next)
		require.NoError(t, o.server.Kill(""))
		require.NoError(t, o.server.Restart(o.ctx, ""))
	}
	all.Wait()
	h.check(t)
	o.judge.once(t, keys)
}

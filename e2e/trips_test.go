package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/node"
)

// aheadClock is the system's clock, put forward.
type aheadClock struct{ ahead atomic.Int64 }

func (c *aheadClock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *aheadClock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// tripsWorld is a quiet cluster: no lease is renewed and no outbox row is due,
// so that every trip is the request's own.
type tripsWorld struct {
	*world
	clock *aheadClock
	late  atomic.Bool  // on the SQL store: the replicas have no rows yet
	pins  atomic.Int64 // and the network does not see the trips to the registrar
}

// tripsLag is how old a row must be for the replicas: older than any that a busy machine has
// not counted yet.
const tripsLag = time.Hour

func startTripsWorld(t *testing.T) *tripsWorld {
	w := &tripsWorld{clock: &aheadClock{}}
	w.late.Store(true)
	w.world = startWorld(t, nil, func(c *node.ClusterConfig) {
		offset := c.Policy.ClockOffset
		c.Policy, c.Outbox = claim.DefaultPolicy(), node.OutboxConfig{}
		c.Policy.ClockOffset = offset
		c.ReplicaLag, c.Clock = tripsLag, w.clock.now
		if onSQL() {
			c.WrapStore = func(region string, s deployment.Store) deployment.Store {
				return &lateStore{s, region != us, &w.late, &w.pins}
			}
		}
	})
	return w
}

// age lets the replicas read what has been written.
func (w *tripsWorld) age() {
	w.clock.advance(tripsLag)
	w.late.Store(false)
}

// awaitReplica waits until the replicas of a database, which has its own clock, are so recent that
// q costs no more than this.
func (w *tripsWorld) awaitReplica(region string, q request, trips int) {
	w.t.Helper()
	if onSQL() {
		until(w.t, "the replica has it", func() bool {
			_, cost := w.count(region, q)
			return cost <= trips
		})
	}
}

// count sends q and counts trips between regions of any kind.
func (w *tripsWorld) count(region string, q request) (*answer.Answer, int) {
	w.network.ResetTrips()
	w.pins.Store(0)
	r := w.send(w.ctx, region, q)
	return r, int(w.network.TotalTrips() + w.pins.Load())
}

// costs sends q and counts: trips between regions of any kind, and forwards
// among them.
func (w *tripsWorld) costs(region string, q request, status, trips, hops int) *answer.Answer {
	w.t.Helper()
	r, cost := w.count(region, q)
	require.NoError(w.t, r.Err)
	require.Equal(w.t, status, r.Status, "%s", r.Body)
	require.Equal(w.t, trips, cost, "round trips from %s", region)
	if r.Header.Get("Homeward-Hops") != "" {
		require.Equal(w.t, strconv.Itoa(hops), r.Header.Get("Homeward-Hops"), "forwards from %s", region)
	}
	return r
}

// TestTrips counts the round trips of every row of the table in DESIGN §4. The
// registrar of this tenant is us.
func TestTrips(t *testing.T) {
	t.Parallel()
	const created = http.StatusCreated
	w := startTripsWorld(t)
	atHome := charge(stamped(t, us), 1)
	sentHome := charge(stamped(t, eu), 2)
	pinnedHere := charge("order-here", 3)
	pinnedAway := charge("order-away", 4)

	w.costs(us, atHome, created, 0, 0)     // first write, stamped, at home
	w.costs(us, sentHome, created, 1, 1)   // first write, stamped, elsewhere
	w.costs(us, pinnedHere, created, 0, 0) // first write, opaque, entry = registrar
	first := w.costs(asia, pinnedAway, created, 1, 0)
	require.Equal(t, asia, first.Header.Get("Homeward-Home-Region"), "pinned elsewhere, then local")

	// Retry at home.
	w.costs(us, atHome, created, 0, 0)
	w.costs(eu, sentHome, created, 0, 0)
	w.costs(us, pinnedHere, created, 0, 0)
	w.costs(asia, pinnedAway, created, 0, 0)

	// Retry elsewhere, just finished: a forward, after a look-up where needed.
	w.costs(asia, sentHome, created, 1, 1)
	w.costs(us, pinnedAway, created, 1, 1) // the registrar has the pin
	w.costs(eu, pinnedHere, created, 2, 1)
	w.costs(eu, pinnedAway, created, 2, 1)
	hinted := pinnedAway
	hinted.hint = asia
	w.costs(eu, hinted, created, 1, 1) // the hint saves the look-up
	hinted.hint = us
	w.costs(eu, hinted, created, 3, 2) // a wrong one costs a hop
	hinted.hint = "mars"
	w.costs(eu, hinted, created, 2, 1) // no region: no hint

	// A changed request is refused by the home.
	changed := pinnedAway
	changed.body = charge("", 5).body
	w.costs(eu, changed, http.StatusUnprocessableEntity, 2, 1)

	// Finished more than a few seconds ago: nothing travels.
	w.age()
	for _, q := range []request{atHome, sentHome, pinnedHere, pinnedAway} {
		for _, region := range regions {
			w.awaitReplica(region, q, 0)
			w.costs(region, q, created, 0, 0)
		}
	}
	w.costs(eu, changed, http.StatusUnprocessableEntity, 0, 0)
	w.judge.once(t, 4)
}

// TestTripsOfTheUnfinished: the replica has an old pin, so that a retry of an unfinished request
// goes straight home.
func TestTripsOfTheUnfinished(t *testing.T) {
	t.Parallel()
	w := startTripsWorld(t)
	soft := charge("order-soft", 1)
	soft.body = strings.Replace(soft.body, "pm_card_visa", "pm_card_insufficient_funds", 1)
	w.costs(asia, soft, http.StatusPaymentRequired, 1, 0)
	w.costs(eu, soft, http.StatusPaymentRequired, 2, 1)
	w.age()
	w.awaitReplica(eu, soft, 1)
	w.costs(eu, soft, http.StatusPaymentRequired, 1, 1)
	w.judge.once(t, 0)
}

// TestUnknownRegionCode: a stamp with a code of no region here has a home all the same, and it is
// not here.
func TestUnknownRegionCode(t *testing.T) {
	t.Parallel()
	w := startTripsWorld(t)
	key, err := claim.Stamp(99, nil)
	require.NoError(t, err)
	for _, region := range regions {
		w.unavailable(w.costs(region, charge(key, 1), http.StatusServiceUnavailable, 0, 0), "home_unavailable")
	}
	w.judge.once(t, 0)
	// A key that only looks like a stamp is opaque.
	last := key[len(key)-1:]
	forged := key[:len(key)-1] + map[bool]string{true: "0", false: "1"}[last != "0"]
	r := w.costs(us, charge(forged, 1), http.StatusCreated, 0, 0)
	require.Equal(t, us, r.Header.Get("Homeward-Home-Region"))
}

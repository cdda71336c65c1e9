package alerts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/cli"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

func TestKeysThatComeAgain(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.healthy("HomewardMismatches", "HomewardReplaysHigh")
	key := w.fresh(us)
	require.Equal(t, http.StatusCreated, w.charge(us, key, 1))
	again := func(amount int) func() {
		return func() {
			for range 12 {
				w.charge(us, key, amount)
			}
		}
	}
	w.fires("HomewardMismatches", 30, again(2))
	require.True(t, w.firesFor("HomewardMismatches", "homeward_tenant", "acme"))
	w.ends("HomewardMismatches", 20, nil)
	w.fires("HomewardReplaysHigh", 45, again(1))
	w.ends("HomewardReplaysHigh", 20, nil)
}

func TestRivals(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.healthy("HomewardConflictsHigh", "HomewardWaitsLong")
	w.faults(simulator.Faults{Latency: 1500 * time.Millisecond})
	looks := 0
	rivals := func() {
		if looks++; looks%8 == 1 { // every four minutes
			w.twins(us, w.fresh(us))
		}
	}
	w.fires("HomewardConflictsHigh", 40, rivals)
	w.fires("HomewardWaitsLong", 40, rivals)
	w.faults(simulator.Faults{})
	w.ends("HomewardConflictsHigh", 30, nil)
	w.ends("HomewardWaitsLong", 30, nil)
}

func TestTheStoreGivesNoAnswer(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	expected := []string{"HomewardFailClosed", "HomewardAvailabilityBurnFast", "HomewardAvailabilityBurnSlow", "HomewardNodeDown", "HomewardSilent"}
	w.healthy(expected...)
	w.gone.Store(true)
	turnedAway := func() { require.Equal(t, http.StatusServiceUnavailable, w.charge(us, w.fresh(us), 1)) }
	for _, a := range expected[:3] {
		w.fires(a, 60, turnedAway)
	}
	require.True(t, w.firesFor("HomewardFailClosed", "homeward_code", "store_unavailable"))
	require.True(t, w.firesFor("HomewardAvailabilityBurnFast", "homeward_region", us))
	w.gone.Store(false)
	w.ends("HomewardFailClosed", 30, func() { w.charge(us, w.fresh(us), 1) })

	w.target = ""
	w.fires("HomewardNodeDown", 10, nil)
	w.fires("HomewardSilent", 30, nil)
}

func TestHomewardItselfIsSlow(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.healthy() // on a busy machine these requests may be slow as well
	// acme's pins are in us: an opaque key in asia goes there and back first.
	w.network.SetDistance(asia, us, 40*time.Millisecond)
	far := func() { w.charge(asia, w.opaque(), 1) } // the alert counts those that succeed
	w.fires("HomewardLatencyBurnFast", 60, far)
	w.fires("HomewardLatencyBurnSlow", 60, far)
}

func TestTheProviderFails(t *testing.T) {
	t.Parallel()
	w := start(t, func(_ *world, c *node.ClusterConfig) { c.Policy.MaxUnknowns = 3 })
	w.healthy("HomewardProviderUnknown", "HomewardProviderDown", "HomewardGivenUp")
	w.faults(simulator.Faults{ErrorAfter: .3, Seed: 1}) // too few in a row to open the circuit
	w.fires("HomewardProviderUnknown", 60, func() { w.charge(us, w.fresh(us), 1) })
	w.faults(simulator.Faults{ErrorBefore: 1})
	w.fires("HomewardProviderDown", 60, func() { w.charge(us, w.fresh(us), 1) })
	w.faults(simulator.Faults{})
	w.fires("HomewardGivenUp", 60, func() { time.Sleep(20 * time.Millisecond) })
}

func TestDueRowsWithoutAWorker(t *testing.T) {
	t.Parallel()
	w := start(t, func(_ *world, c *node.ClusterConfig) {
		c.Events.Log = true
		c.Policy.MaxUnknowns = 100
	})
	expected := []string{"HomewardOutboxLag", "HomewardEventsLag", "HomewardStuckInFlight", "HomewardUnknownOld"}
	w.healthy(expected...)
	w.idle.Store(true)
	require.Equal(t, http.StatusCreated, w.charge(us, w.fresh(us), 1)) // its event stays
	w.faults(simulator.Faults{ErrorAfter: 1})
	require.Equal(t, http.StatusServiceUnavailable, w.charge(us, w.fresh(us), 1))
	w.ahead.Add(int64(2 * time.Hour))
	for _, a := range expected {
		w.fires(a, 300, figures)
		w.until(a+" fires for us", 300, figures, func() bool { return w.firesFor(a, "homeward_home", us) })
	}
	require.True(t, w.firesFor("HomewardOutboxLag", "homeward_queue", "provider_calls"))
	w.faults(simulator.Faults{})
	w.idle.Store(false)
	for _, a := range expected {
		w.ends(a, 300, figures)
	}
}

func TestWhatWaitsForAPerson(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.healthy("HomewardParked", "HomewardRefundsStopped")
	w.idle.Store(true)
	w.faults(simulator.Faults{ErrorAfter: 1})
	require.Equal(t, http.StatusServiceUnavailable, w.charge(us, w.fresh(us), 1))
	store, err := w.cluster.DB.Region(us)
	require.NoError(t, err)
	queue := store.Queue(outbox.ProviderCalls)
	rows, err := queue.Waiting(t.Context(), us, 1)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.NoError(t, queue.Park(t.Context(), us, rows[0].Hold(), "parked by hand"))
	w.fires("HomewardParked", 300, figures)
	require.True(t, w.firesFor("HomewardParked", "homeward_queue", "provider_calls"))
	_, err = notice.Stop(t.Context(), w.cluster.DB, "simulator", "by hand")
	require.NoError(t, err)
	w.fires("HomewardRefundsStopped", 300, figures)
	_, err = notice.Release(t.Context(), w.cluster.DB, "simulator", nil)
	require.NoError(t, err)
	w.ends("HomewardRefundsStopped", 300, figures)
}

func TestUnreadableRows(t *testing.T) {
	t.Parallel()
	w := start(t, func(w *world, _ *node.ClusterConfig) { w.gone.Store(true) })
	w.fires("HomewardFiguresOld", 60, figures)
	w.gone.Store(false)
	w.ends("HomewardFiguresOld", 300, figures)
}

// readOnly is a store whose database takes no writes while it says so: figures are read on.
type readOnly struct {
	deployment.Store
	is *atomic.Bool
}

func (s readOnly) Ready(context.Context) error {
	if s.is.Load() {
		return errors.New("the database takes no writes")
	}
	return nil
}

// Balancers leave nodes that are not ready alone, so that no request is refused.
func TestNobodyCanRecordACharge(t *testing.T) {
	t.Parallel()
	var is atomic.Bool
	w := start(t, func(_ *world, c *node.ClusterConfig) {
		c.WrapStore = func(_ string, s deployment.Store) deployment.Store { return readOnly{s, &is} }
	})
	w.healthy("HomewardNotReady")
	is.Store(true)
	probed := func() {
		for _, n := range w.cluster.Nodes {
			res, err := http.Get("http://" + n.APIAddr() + "/readyz")
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
		}
	}
	w.fires("HomewardNotReady", 60, probed)
	w.until("in each region", 10, probed, func() bool { return len(w.firing()["HomewardNotReady"]) == 3 })
	is.Store(false)
	w.ends("HomewardNotReady", 600, probed)
}

func TestTheClockIsOff(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.healthy("HomewardClockOffset")
	w.ahead.Add(int64(time.Second))
	w.fires("HomewardClockOffset", 60, figures)
}

// figures are collected now and then; there is no signal.
func figures() { time.Sleep(20 * time.Millisecond) }

// gossip is given time to notice; it gives no signal.
func gossip() { time.Sleep(100 * time.Millisecond) }

func TestARegionIsTakenAway(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.healthy("HomewardRegionLost", "HomewardDeputising", "HomewardNodeAlone", "HomewardRegionOutOfService")
	w.takeAway(eu, 1)
	w.fires("HomewardNodeAlone", 600, gossip)
	require.True(t, w.firesFor("HomewardNodeAlone", "homeward_peer", eu))
	w.takeAway(eu, 2)
	w.fires("HomewardRegionLost", 600, gossip)
	require.True(t, w.firesFor("HomewardRegionLost", "homeward_peer", eu))
	w.fires("HomewardDeputising", 60, func() { w.charge(us, w.fresh(eu), 1) })
	_, err := w.cluster.DB.SetRegionStatus(t.Context(), eu, claim.RegionDown)
	require.NoError(t, err)
	// The nodes read the status in their own time, and looks pass faster.
	w.until("a node has read that it is down", 600, gossip, func() bool {
		return w.value(`max(homeward_region_status{homeward_peer="`+eu+`",homeward_state="down"}) == 1`) != ""
	})
	w.fires("HomewardRegionOutOfService", 700, nil)
}

func TestNodesThatCannotBeCalled(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.healthy("HomewardNodesSilent")
	w.network.Blackhole(us, eu)
	go w.charge(us, w.fresh(eu), 1) // it waits for a connection
	w.fires("HomewardNodesSilent", 600, gossip)
	require.True(t, w.firesFor("HomewardNodesSilent", "homeward_peer", eu))
	w.network.Heal(us, eu)
	w.ends("HomewardNodesSilent", 600, gossip)
}

func TestASinkThatTakesNothing(t *testing.T) {
	t.Parallel()
	w := start(t, func(_ *world, c *node.ClusterConfig) { c.Events.NATS.URL = "nats://127.0.0.1:1" }) // no server listens there
	w.fires("HomewardSinkWaiting", 600, nil)
	require.Equal(t, http.StatusCreated, w.charge(us, w.fresh(us), 1), "payments go on")
}

func TestForgedWebhooks(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.healthy("HomewardForgedWebhooks")
	w.fires("HomewardForgedWebhooks", 60, func() {
		for range 10 {
			require.Equal(t, http.StatusBadRequest, w.post(us, "/v1/webhooks/simulator", "", `{}`))
		}
	})
}

// pushes runs a command on the store that a cluster has left, and has the board read the
// metrics that it wrote, as node_exporter's textfile collector would.
func (w *world) pushes(args ...string) {
	w.t.Helper()
	w.file = filepath.Join(w.t.TempDir(), "verdict.prom")
	var out, errs bytes.Buffer
	cli.Run(w.t.Context(), append(args, "--data", w.dir, "--metrics-file", w.file), &out, &errs)
	require.FileExists(w.t, w.file, "%s%s", out.String(), errs.String())
}

func TestWhatCommandsFind(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.healthy("HomewardLedgerWrong", "HomewardSuspense", "HomewardStatementMismatch", "HomewardUnreconciled")
	w.fires("HomewardLedgerUnverified", 40, func() { w.charge(us, w.fresh(us), 1) })

	// A ghost is in the books, and a refund of what was never charged.
	store, err := w.cluster.DB.Region(us)
	require.NoError(t, err)
	for _, tx := range []ledger.Transaction{
		{ID: ledger.GhostID("simulator", "p9"), Kind: ledger.Ghost, Amount: 7, Object: "ch_9", ProviderRef: "p9", Debit: ledger.Provider("simulator"), Credit: ledger.Suspense("acme")},
		{ID: "re_1", Kind: ledger.Refund, Amount: 30, Object: "re_1", Reverses: "ch_none", ProviderRef: "r1", Debit: ledger.Merchant("acme"), Credit: ledger.Provider("simulator")},
	} {
		tx.Region, tx.Tenant, tx.Provider, tx.Currency = us, "acme", "simulator", "usd"
		posted, err := store.Post(t.Context(), tx)
		require.NoError(t, err)
		require.True(t, posted)
	}
	require.NoError(t, w.cluster.Stop(t.Context()))

	w.pushes("ledger", "verify")
	w.step = time.Hour
	w.fires("HomewardLedgerWrong", 3, nil)
	w.fires("HomewardSuspense", 30, nil)
	require.True(t, w.firesFor("HomewardSuspense", "homeward_currency", "usd"))

	statement := filepath.Join(t.TempDir(), "statement.csv")
	require.NoError(t, os.WriteFile(statement, []byte(fmt.Sprintf("id,kind,reference,amount,currency,created\np_1,charge,ch_none,100,USD,%d\n", time.Now().Unix())), 0o600))
	w.pushes("reconcile", "--statement", statement)
	w.fires("HomewardStatementMismatch", 3, nil)
	w.fires("HomewardUnreconciled", 80, nil)
}

func TestMoneyThatCannotGoBack(t *testing.T) {
	t.Parallel()
	w := start(t, func(_ *world, c *node.ClusterConfig) { c.Policy.MaxUnknowns = 2 })
	w.healthy("HomewardLimbo")
	w.sendsNotices()
	// The charge takes effect once it has been given up.
	w.faults(simulator.Faults{LateEffect: 1, LateBy: simulator.MaxLate})
	require.Equal(t, http.StatusServiceUnavailable, w.charge(us, w.fresh(us), 1))
	w.fires("HomewardGivenUp", 600, figures)
	w.idle.Store(true)
	w.faults(simulator.Faults{})
	require.Positive(t, w.provider.ReleaseLate())
	notices, rows := w.noticed()
	// A person would find this reason where a provider refuses the refund.
	require.NoError(t, notices.Park(t.Context(), us, rows[0].Hold(), "LIMBO: by hand"))
	w.fires("HomewardLimbo", 300, figures)
}

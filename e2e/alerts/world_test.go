package alerts

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/seal/sealtest"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

const (
	us   = "us-east1"
	eu   = "europe-west1"
	asia = "asia-northeast1"
	acme = "sk_acme"
	// noticeSecret signs what the provider sends.
	noticeSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	// patience bounds every wait; it is only spent when a test fails.
	patience = time.Minute
)

var codes = map[string]claim.RegionCode{us: 1, eu: 2, asia: 3}

// world is a cluster in this process, with a board that scrapes its metrics.
type world struct {
	*board
	cluster  *node.Cluster
	provider *simulator.Simulator
	adapter  psp.Provider
	network  *wan.Network
	// gone: no store answers.
	gone *atomic.Bool
	// idle: no worker gets a row or finishes one.
	idle *atomic.Bool
	// blind is a region in which no node can read the table of regions; "" for none.
	blind *atomic.Pointer[string]
	// ahead of the machine's is the stores' clock.
	ahead *atomic.Int64
	n     atomic.Int64
	dir   string
}

// cutStore answers nothing while gone.
type cutStore struct {
	deployment.Store
	region     string
	gone, idle *atomic.Bool
	blind      *atomic.Pointer[string]
}

func (s cutStore) Regions(ctx context.Context) ([]claim.Region, uint64, error) {
	if blind := s.blind.Load(); blind != nil && *blind == s.region {
		return nil, 0, fmt.Errorf("%w: it is unreachable", claim.ErrUnavailable)
	}
	return s.Store.Regions(ctx)
}

func (s cutStore) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	if s.gone.Load() {
		return claim.Begun{}, fmt.Errorf("%w: it is unreachable", claim.ErrUnavailable)
	}
	return s.Store.Begin(ctx, a)
}

func (s cutStore) Get(ctx context.Context, key claim.Key, home string) (claim.Record, time.Time, bool, error) {
	if s.gone.Load() {
		return claim.Record{}, time.Time{}, false, fmt.Errorf("%w: it is unreachable", claim.ErrUnavailable)
	}
	return s.Store.Get(ctx, key, home)
}

func (s cutStore) Unknown(ctx context.Context, home string, live bool, limit int) ([]claim.Record, error) {
	if s.gone.Load() {
		return nil, fmt.Errorf("%w: it is unreachable", claim.ErrUnavailable)
	}
	return s.Store.Unknown(ctx, home, live, limit)
}

func (s cutStore) Queue(q outbox.Queue) outbox.Store { return idleQueue{s.Store.Queue(q), s.idle} }

// idleQueue hands out no rows while its workers are idle, and finishes none: a first holder
// delivers its first events without a take.
type idleQueue struct {
	outbox.Store
	idle *atomic.Bool
}

func (q idleQueue) Take(ctx context.Context, region string, limit int, lease time.Duration) ([]outbox.Message, error) {
	if q.idle.Load() {
		return nil, nil
	}
	return q.Store.Take(ctx, region, limit, lease)
}

func (q idleQueue) FinishAll(ctx context.Context, region string, rows []outbox.Hold) error {
	if q.idle.Load() {
		return fmt.Errorf("%w: its workers are idle", claim.ErrUnavailable)
	}
	return q.Store.FinishAll(ctx, region, rows)
}

// start starts three regions of two nodes and a provider.
func start(t testing.TB, change func(*world, *node.ClusterConfig)) *world {
	t.Helper()
	sim, err := simulator.Open(simulator.Config{})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, served := sim.NewServer(""), make(chan struct{})
	go func() { defer close(served); server.Serve(l) }() // it is closed below
	provider, err := httpjson.New(httpjson.Config{
		Name: "simulator", BaseURL: "http://" + l.Addr().String(),
		Capabilities: psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true},
		Notices:      httpjson.Notices{Secret: noticeSecret},
	})
	require.NoError(t, err)

	w := &world{provider: sim, adapter: provider, network: wan.New(nil), gone: &atomic.Bool{}, idle: &atomic.Bool{}, blind: &atomic.Pointer[string]{}, ahead: &atomic.Int64{}}
	policy := claim.DefaultPolicy()
	policy.Lease, policy.RenewEvery, policy.LeaseMargin, policy.LeaseCeiling = time.Second, 300*time.Millisecond, 200*time.Millisecond, 10*time.Second
	policy.BackoffMin, policy.BackoffMax, policy.DeclinePause = 20*time.Millisecond, 200*time.Millisecond, 500*time.Millisecond
	policy.WaitPoll = 20 * time.Millisecond
	c := node.ClusterConfig{
		Dir: filepath.Join(t.TempDir(), node.StoreDir), Payments: node.Payments{Providers: psp.Providers{provider}, Notifiers: map[string]psp.Notifier{"simulator": provider}}, Seal: sealtest.Ring(1),
		Network: w.network, Logger: slog.New(slog.DiscardHandler), MetricsListen: "127.0.0.1:0", Nodes: 2,
		Tuning: node.Tuning{
			Policy: policy, Outbox: node.OutboxConfig{Poll: 50 * time.Millisecond, Lease: time.Second}, Limits: httpapi.DefaultLimits(),
			DeputyAfter: 300 * time.Millisecond, FiguresEvery: 50 * time.Millisecond, TopologyEvery: 50 * time.Millisecond,
		},
		Tenants:   []node.ClusterTenant{{Tenant: claim.Tenant{ID: "acme", Registrar: us}, APIKeys: []string{acme}}},
		Clock:     func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) },
		WrapStore: func(r string, s deployment.Store) deployment.Store { return cutStore{s, r, w.gone, w.idle, w.blind} },
	}
	c.Limits.TenantRate, c.Limits.TenantBurst = 0, 0
	for _, r := range []string{us, eu, asia} {
		c.Regions = append(c.Regions, node.ClusterRegion{Region: claim.Region{Name: r, Code: codes[r]}})
	}
	if change != nil {
		change(w, &c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	w.cluster, err = node.StartCluster(ctx, c)
	require.NoError(t, err)
	t.Cleanup(func() {
		w.gone.Store(false)
		w.idle.Store(false)
		w.cluster.Stop(ctx) // a test may have taken nodes away
		cancel()
		require.NoError(t, server.Close())
		<-served
		require.NoError(t, provider.Close())
		require.NoError(t, sim.Close())
	})
	w.board, w.dir = newBoard(t, w.cluster.MetricsAddr()), filepath.Dir(c.Dir)
	return w
}

// fresh returns an unused key, at home in a region.
func (w *world) fresh(region string) string {
	w.t.Helper()
	key, err := claim.Stamp(codes[region], nil)
	require.NoError(w.t, err)
	return key
}

// opaque is one without a home in it.
func (w *world) opaque() string { return fmt.Sprintf("order-%d", w.n.Add(1)) }

// charge sends one and returns the status; 0 is no answer.
func (w *world) charge(region, key string, amount int) int {
	w.t.Helper()
	return w.post(region, "/v1/charges", key, fmt.Sprintf(`{"amount":%d,"currency":"usd","payment_method":"pm_card_visa"}`, amount))
}

func (w *world) post(region, path, key, body string) int {
	w.t.Helper()
	return w.send(http.MethodPost, region, path, key, body)
}

// inspect asks for the state of a key.
func (w *world) inspect(region, key string) {
	w.t.Helper()
	w.send(http.MethodGet, region, "/v1/idempotency-keys/"+key, "", "")
}

func (w *world) send(method, region, path, key, body string) int {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+w.cluster.Region(region).APIAddr()+path, strings.NewReader(body))
	require.NoError(w.t, err)
	req.Header.Set("Authorization", "Bearer "+acme)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body) // only the status counts
	return res.StatusCode
}

// twins sends one request twice at once.
func (w *world) twins(region, key string) {
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { w.charge(region, key, 1) })
	}
	both.Wait()
}

// healthy is a while of ordinary traffic in which none of the test's alerts fires.
func (w *world) healthy(alerts ...string) {
	w.t.Helper()
	for range 12 {
		for _, r := range []string{us, eu, asia} {
			require.Equal(w.t, http.StatusCreated, w.charge(r, w.fresh(r), 1))
		}
		w.look()
	}
	for _, a := range alerts {
		require.NotContains(w.t, w.firing(), a)
	}
}

func (w *world) faults(f simulator.Faults) { require.NoError(w.t, w.provider.SetFaults(f)) }

// takeAway ends a region's nodes in the middle of what they do.
func (w *world) takeAway(region string, nodes int) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for _, n := range w.cluster.Nodes {
		if n.Region() == region && nodes > 0 {
			n.Stop(now) // it reports what it left open
			nodes--
		}
	}
}

// sendsNotices has the provider send notices.
func (w *world) sendsNotices() {
	w.t.Helper()
	require.NoError(w.t, w.provider.SetNotices(simulator.Notices{
		Targets: []simulator.NoticeTarget{{URL: "http://" + w.cluster.Region(us).APIAddr() + "/v1/webhooks/simulator", Secret: noticeSecret}},
	}))
}

// counts looks until all nodes together have counted to n.
func (w *world) counts(metric string, n int) {
	w.t.Helper()
	w.until(fmt.Sprint(metric, " is ", n), 600, gossip, func() bool {
		return strings.Contains(w.value("sum("+metric+")"), fmt.Sprintf("=> %d ", n))
	})
}

// noticed looks until one notice, and no other, waits for a worker in us.
func (w *world) noticed() (notices outbox.Store, rows []outbox.Message) {
	w.t.Helper()
	store, err := w.cluster.DB.Region(us)
	require.NoError(w.t, err)
	notices = store.Queue(outbox.Notices)
	w.until("the notice has come", 600, gossip, func() bool {
		rows, err = notices.Waiting(w.t.Context(), us, 2)
		require.NoError(w.t, err)
		return len(rows) == 1
	})
	return notices, rows
}

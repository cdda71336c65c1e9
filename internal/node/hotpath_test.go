package node

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/telemetry"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/breaker"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/router"
)

// The way of a request through every room, on a store and a provider that cost next to
// nothing: what is counted is what the rooms themselves add to them.

// shelf is a store in a map: the transitions, and nothing else. It serves one request
// at a time in the benchmarks.
type shelf struct {
	claim.Store
	p      claim.Policy
	mu     sync.Mutex
	claims map[claim.Key]*claim.Record
}

func (s *shelf) Begin(_ context.Context, a claim.Arrival) (claim.Begun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if a.PinHere {
		a.PinnedAt = now
	}
	rec := s.claims[a.Key]
	next, _, decision, err := claim.Begin(rec, &a, &s.p, now)
	if next != nil {
		s.claims[a.Key], rec = next, next
	}
	if rec == nil {
		rec = &claim.Record{}
	}
	return claim.Begun{Decision: decision, Record: *rec, Now: now}, err
}

func (s *shelf) Settle(_ context.Context, held claim.Record, v claim.Verdict) (claim.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, _, err := claim.Settle(s.claims[held.Key], &held, &v, &s.p, time.Now(), 0)
	if err != nil {
		return claim.Record{}, err
	}
	s.claims[held.Key] = next
	return *next, nil
}

func (s *shelf) Pin(_ context.Context, key claim.Key, entry string) (claim.Pin, error) {
	return claim.Pin{Key: key, Home: entry, CreatedAt: time.Now()}, nil
}

func (s *shelf) Registrar(context.Context, string) (string, error) { return "us-east1", nil }

func (s *shelf) Note(context.Context, claim.Key, string, claim.AuditEntry) {}

func (s *shelf) TenantByAPIKey(context.Context, string) (claim.Tenant, bool, error) {
	return claim.Tenant{ID: "acme", Registrar: "us-east1"}, true, nil
}

// generous approves everything.
type generous struct{ psp.Provider }

func (generous) Name() string { return "simulator" }

func (generous) Capabilities() psp.Capabilities {
	return psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true, Timeout: 30 * time.Second}
}

func (generous) Charge(context.Context, psp.Call) psp.Result {
	return psp.Result{Outcome: psp.Approved, ProviderRef: "psp_ch_04hkaps9le6uv093v"}
}

// noBlobs: every body fits its row.
type noBlobs struct{ claim.Blobs }

// exchange is one request on a kept-alive connection, and its reply.
type exchange struct {
	store  *shelf
	api    http.Handler
	r      *http.Request
	key    []string
	body   *strings.Reader
	header http.Header
	status int
	wrote  int
}

func (x *exchange) Header() http.Header             { return x.header }
func (x *exchange) WriteHeader(status int)          { x.status = status }
func (x *exchange) SetReadDeadline(time.Time) error { return nil }
func (x *exchange) Write(p []byte) (int, error)     { x.wrote += len(p); return len(p), nil }

const hotBody = `{"amount":1250,"currency":"usd","payment_method":"pm_card_visa","description":"Two rocket engines","order_id":"order-20260101-000017","metadata":{"cart":"c0ffee","channel":"web","customer":"cus_18"}}`

func newExchange(t testing.TB, meters *meter.Set) *exchange {
	log := slog.New(slog.DiscardHandler)
	policy := claim.DefaultPolicy()
	store := &shelf{p: policy, claims: map[claim.Key]*claim.Record{}}
	topology, err := region.NewTopology([]region.Region{{Name: "us-east1", Code: 1}})
	require.NoError(t, err)
	c := Config{Topology: topology, Meters: meters}
	guard := &claim.Guard{} // of a deployment that was never restored
	claims := guard.Claims(store, nil)
	service, err := claim.NewService(claim.Config{
		Store: claims, Executor: guard.Executor(payment.NewExecutor(c.time(psp.Providers{breaker.New(generous{}, log)}), payment.Options{Logger: log, Home: c.home})),
		Blobs: noBlobs{}, Policy: policy, Node: "n-1", Region: "us-east1", Providers: []string{"simulator"}, Code: c.code,
		Operations: payment.Operations(), Meters: meters, Logger: log,
	})
	require.NoError(t, err)
	limits := httpapi.DefaultLimits()
	limits.TenantRate, limits.TenantBurst = 0, 0
	var hand inHand
	api, err := httpapi.New(httpapi.Config{
		Tenants: store, Region: "us-east1", RegionCode: 1, HomeOf: c.home, Limits: limits, Logger: log,
		Router: measure(router.New("us-east1", service, nil, claims, topology, func(string) bool { return false }).WithMeters(meters), meters), Meters: meters,
		Answered: newTraffic("us-east1", func(string) bool { return false }).answered,
	})
	require.NoError(t, err)
	body := strings.NewReader(hotBody)
	r := httptest.NewRequest(http.MethodPost, "/v1/charges", nil)
	r.Header = http.Header{
		"Authorization": {"Bearer sk_bench_acme"}, "Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(hotBody))},
		"User-Agent": {"bench"}, "Idempotency-Key": {""},
	}
	r.Body, r.ContentLength = io.NopCloser(body), int64(len(hotBody))
	return &exchange{store: store, api: hand.counting(api), r: r, key: r.Header["Idempotency-Key"], body: body, header: http.Header{}}
}

// send makes one exchange, as net/http would: each request has a context of its own.
func (x *exchange) send(key string) {
	x.key[0], x.status, x.wrote = key, 0, 0
	x.body.Reset(hotBody)
	clear(x.header)
	ctx, cancel := context.WithCancel(context.Background())
	x.api.ServeHTTP(x, x.r.WithContext(ctx))
	cancel()
}

func (x *exchange) sent(t testing.TB, key string) {
	if x.send(key); x.status != http.StatusCreated || x.wrote == 0 {
		t.Fatalf("key %s: status %d, %d bytes", key, x.status, x.wrote)
	}
}

func BenchmarkHotPath(b *testing.B) {
	b.Run("charge", func(b *testing.B) {
		x := newExchange(b, nil)
		keys := make([]string, b.N)
		for i := range keys {
			keys[i] = hotKey(i)
		}
		b.ReportAllocs()
		b.ResetTimer()
		for i, key := range keys {
			if i%1000 == 0 {
				clear(x.store.claims) // else the collector's work on them is what is measured
			}
			x.sent(b, key)
		}
	})
	b.Run("replay", func(b *testing.B) {
		x := newExchange(b, nil)
		x.sent(b, hotKey(1))
		b.ReportAllocs()
		for b.Loop() {
			x.sent(b, hotKey(1))
		}
	})
}

func hotKey(i int) string {
	digits := strconv.Itoa(1_000_000_000 + i)
	return "3f6f0d8e-5a5c-4a5e-9a3e-00" + digits
}

// newMeters are those of a node that is scraped.
func newMeters(t testing.TB) *meter.Set {
	m, err := telemetry.OpenMetrics(t.Context(), telemetry.Process{Log: slog.New(slog.DiscardHandler)}, "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Stop(context.Background())) })
	s, err := m.Node(t.Context(), "us-east1", "n-1")
	require.NoError(t, err)
	return s
}

// TestMetricsAllocateNothing: a charge and a replay, once their labels have been seen.
func TestMetricsAllocateNothing(t *testing.T) {
	var charges, replays [2]float64
	for i, meters := range []*meter.Set{nil, newMeters(t)} {
		x := newExchange(t, meters)
		n := 0
		charges[i] = testing.AllocsPerRun(1000, func() { n++; x.sent(t, hotKey(n)) })
		replays[i] = testing.AllocsPerRun(1000, func() { x.sent(t, hotKey(1)) })
	}
	require.InDelta(t, charges[0], charges[1], 1, "a pool may drop something now and then")
	require.InDelta(t, replays[0], replays[1], 1)
}

// BenchmarkMetrics is what a charge costs without metrics and with, without its store, the
// network and the provider: the difference is theirs, whatever those cost.
func BenchmarkMetrics(b *testing.B) {
	for _, c := range []struct {
		name   string
		meters *meter.Set
	}{{"without", nil}, {"with", newMeters(b)}} {
		b.Run(c.name, func(b *testing.B) {
			x := newExchange(b, c.meters)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				x.sent(b, hotKey(n))
			}
		})
	}
}

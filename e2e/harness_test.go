package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/e2e/contract"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/seal/sealtest"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

const (
	us   = "us-east1"
	eu   = "europe-west1"
	asia = "asia-northeast1"

	// acme's pins are kept in us, globex's in eu.
	acme   = "sk_acme"
	globex = "sk_globex"
	// As in the demo.
	demoAcme   = "sk_demo_acme"
	demoGlobex = "sk_demo_globex"
)

var (
	regions = []string{us, eu, asia}
	codes   = map[string]claim.RegionCode{us: 1, eu: 2, asia: 3}
)

// patience bounds every wait of a test for something that must happen. It is
// far above what a loaded machine needs and only spent when a test fails.
const patience = 3 * time.Minute

// quick is the published policy at a thirtieth of its times.
func quick() claim.Policy {
	p := claim.DefaultPolicy()
	p.Lease, p.RenewEvery, p.LeaseMargin, p.LeaseCeiling = time.Second, 300*time.Millisecond, 200*time.Millisecond, 10*time.Second
	p.BackoffMin, p.BackoffMax = 20*time.Millisecond, 200*time.Millisecond
	p.DeclinePause = 500 * time.Millisecond
	p.WaitPoll, p.WaitMax = 20*time.Millisecond, 500*time.Millisecond
	return p
}

// lasting is for tests that keep a call in the provider's hands: its lease lasts for as long,
// however late a busy machine renews it.
func lasting(c *node.ClusterConfig) {
	c.Policy.Lease, c.Policy.LeaseCeiling = 10*patience, 20*patience
}

// smallRow is a bound of responses in rows, in bytes, that one with largeMetadata exceeds.
const smallRow = 64 << 10

// largeMetadata is the members of the largest metadata, but for escapes: 102 KB.
func largeMetadata() string {
	var members []string
	for i := range payment.MaxMetadataEntries {
		members = append(members, fmt.Sprintf(`"%0*d":%q`, payment.MaxMetadataName, i, strings.Repeat("𝄞", payment.MaxMetadataValue)))
	}
	return strings.Join(members, ",")
}

// quickOutbox looks for due rows as often as a test likes.
var quickOutbox = node.OutboxConfig{Poll: 50 * time.Millisecond, Lease: time.Second}

// clusterConfig is three regions on free ports and two tenants, each with the
// demo's API key beside its own.
func clusterConfig(dir string, p psp.Provider, b backend) node.ClusterConfig {
	c := node.ClusterConfig{
		Dir: dir, Payments: node.Payments{Providers: psp.Providers{p}}, Databases: b.Databases, Pool: patientPool(),
		Tuning: node.Tuning{
			Policy: b.Policy, Outbox: quickOutbox, Limits: httpapi.DefaultLimits(),
			DeputyAfter: time.Hour, // tests of deputies say when
		},
		ReplicaLag: 50 * time.Millisecond, Seal: sealtest.Ring(1),
		Tenants: []node.ClusterTenant{
			{Tenant: claim.Tenant{ID: "acme" + b.Tenants, Registrar: us}, APIKeys: []string{acme, demoAcme}},
			{Tenant: claim.Tenant{ID: "globex" + b.Tenants, Registrar: eu}, APIKeys: []string{globex, demoGlobex}},
		},
	}
	c.Limits.TenantRate, c.Limits.TenantBurst = 0, 0
	for _, r := range regions {
		c.Regions = append(c.Regions, node.ClusterRegion{Region: claim.Region{Name: r, Code: codes[r]}})
	}
	return c
}

func newProvider(url string) (*httpjson.Provider, error) {
	return httpjson.New(httpjson.Config{
		Name: "simulator", BaseURL: url,
		Capabilities: psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true},
	})
}

// judges are the addresses of all of them: whom they answer is not the API's.
var judges sync.Map

// judge is a simulator behind a listener, in this process.
type judge struct {
	*simulator.Simulator
	url string
}

func newJudge(t testing.TB) *judge { return newJudgeOf(t, simulator.Config{}) }

// newJudgeOf is a judge of other abilities.
func newJudgeOf(t testing.TB, c simulator.Config) *judge {
	sim, err := simulator.Open(c)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	judges.Store(l.Addr().String(), true)
	server, done := sim.NewServer(""), make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		<-done
		judges.Delete(l.Addr().String())
		require.NoError(t, sim.Close())
	})
	return &judge{sim, "http://" + l.Addr().String()}
}

// moved is how often money moved under a reference.
func (j *judge) moved(reference string) (n int) {
	for _, e := range j.Effects() {
		if e.Reference == reference {
			n++
		}
	}
	return n
}

// once asserts that money moved want times, never twice for one reference, and
// that no provider key was ever sent with other parameters.
func (j *judge) once(t testing.TB, want int) {
	t.Helper()
	s := j.Stats()
	require.EqualValues(t, want, s.Effects, "movements of money")
	require.Zero(t, s.DuplicateEffects)
	require.Zero(t, s.KeyReuses)
}

// request is what a merchant sends.
type request struct {
	tenant string // API key
	path   string // /v1/charges
	key    string
	body   string
	hint   string
}

func charge(key string, amount int) request {
	return request{acme, "/v1/charges", key, fmt.Sprintf(`{"amount":%d,"currency":"usd","payment_method":"pm_card_visa"}`, amount), ""}
}

func transfer(key string, amount int) request {
	return request{acme, "/v1/transfers", key, fmt.Sprintf(`{"amount":%d,"currency":"usd","destination":"acct_1"}`, amount), ""}
}

// amount is what the body asks for.
func (q *request) amount(t testing.TB) int {
	t.Helper()
	var b struct{ Amount int }
	require.NoError(t, json.Unmarshal([]byte(q.body), &b))
	return b.Amount
}

// objectID is that of the object that r is about.
func objectID(t testing.TB, r *answer.Answer) string {
	t.Helper()
	var o struct{ ID string }
	require.NoError(t, json.Unmarshal(r.Body, &o))
	require.NotEmpty(t, o.ID)
	return o.ID
}

// caller is a merchant with the addresses of the regions.
type caller struct {
	http *http.Client
	mu   sync.Mutex
	at   map[string]string // region → base URL
}

func newCaller(t testing.TB, bases map[string]string) *caller {
	transport := &http.Transport{MaxIdleConnsPerHost: 512, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{http: &http.Client{Transport: checked(t, transport)}, at: bases}
}

// checked holds all that passes against the OpenAPI document, and fails the test where it
// differs.
func checked(t testing.TB, next http.RoundTripper) http.RoundTripper {
	c := newContract(t)
	return c.Transport(next, func(r *http.Request) bool {
		_, judge := judges.Load(r.URL.Host)
		return judge || strings.HasPrefix(r.URL.Path, "/_sim/")
	})
}

var readContract = sync.OnceValues(func() (*contract.Checker, error) { return contract.New(httpapi.OpenAPI()) })

func newContract(t testing.TB) *contract.Checker {
	read, err := readContract()
	require.NoError(t, err)
	c := read.Another()
	t.Cleanup(func() {
		mismatches, _ := c.Mismatches()
		for _, m := range mismatches {
			t.Errorf("not as the OpenAPI document has it: %s", m)
		}
	})
	return c
}

func (c *caller) base(region string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[region]
}

// move gives the caller the addresses of a restarted cluster.
func (c *caller) move(bases map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = maps.Clone(bases)
}

// send makes one request to a region.
func (c *caller) send(ctx context.Context, region string, q request) *answer.Answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base(region)+q.path, bytes.NewReader([]byte(q.body)))
	if err != nil {
		return &answer.Answer{Err: err}
	}
	req.Header.Set("Authorization", "Bearer "+q.tenant)
	req.Header.Set("Content-Type", "application/json")
	if q.key != "" {
		req.Header.Set("Idempotency-Key", q.key)
	}
	if q.hint != "" {
		req.Header.Set("Homeward-Home-Region", q.hint)
	}
	return c.do(req)
}

func (c *caller) do(req *http.Request) *answer.Answer { return answer.To(req, c.http) }

// pauseAfter is how long a well-behaved client waits before it sends again.
func pauseAfter(r *answer.Answer) time.Duration {
	if r.Err != nil || r.Problem.RetryAfterMS == 0 {
		return 10*time.Millisecond + rand.N(40*time.Millisecond)
	}
	return time.Duration(r.Problem.RetryAfterMS)*time.Millisecond + rand.N(10*time.Millisecond)
}

// settle sends q to a region and does what the answers say, until one is final
// or ctx ends. each, if not nil, sees every attempt.
func (c *caller) settle(ctx context.Context, region string, q request, each func(began time.Time, r *answer.Answer)) *answer.Answer {
	for {
		began := time.Now()
		r := c.send(ctx, region, q)
		if each != nil {
			each(began, r)
		}
		if r.Final() {
			return r
		}
		if wait(ctx, pauseAfter(r)) != nil {
			return r
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keyStatus is the API's answer about a key. state is "" for 404.
type keyStatus struct {
	State      string `json:"state"`
	HomeRegion string `json:"home_region"`
	Attempts   int    `json:"attempts"`
	Object     string `json:"object"`
	Timeline   []struct {
		Event string `json:"event"`
		Fence uint64 `json:"fence"`
	} `json:"timeline"`
}

var errUnread = errors.New("the key's state could not be read")

// inspect asks a region for a key's state, and like a merchant asks again what is not answered
// yet, at most for patience.
func (c *caller) inspect(ctx context.Context, region, tenant, key string) (keyStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base(region)+"/v1/idempotency-keys/"+url.PathEscape(key), nil)
	if err != nil {
		return keyStatus{}, err
	}
	req.Header.Set("Authorization", "Bearer "+tenant)
	r := c.do(req)
	for r.Err == nil && r.Status == http.StatusServiceUnavailable && wait(ctx, pauseAfter(r)) == nil {
		r = c.do(req)
	}
	var s keyStatus
	switch {
	case r.Err != nil:
		return s, r.Err
	case r.Status == http.StatusNotFound:
		return s, nil
	case r.Status != http.StatusOK:
		return s, fmt.Errorf("%w: %v", errUnread, r)
	}
	return s, json.Unmarshal(r.Body, &s)
}

// until looks again and again, at most for patience, until ok.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	untilWithin(t, patience, what, ok)
}

// untilWithin is until with a patience of its own.
func untilWithin(t testing.TB, patience time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			require.FailNow(t, "gave up waiting until "+what)
		}
		_ = wait(t.Context(), 5*time.Millisecond)
	}
}

// receive waits for a signal, at most for patience.
func receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, "gave up waiting for "+what)
		panic("unreachable")
	}
}

// world is a cluster in this process.
type world struct {
	*caller
	t       testing.TB
	ctx     context.Context
	cluster *node.Cluster
	judge   *judge
	network *wan.Network
	policy  claim.Policy
	log     *testLog
	payee   string // the tenant with the API key acme
	taken   bool   // a node was taken away, so that not all can drain
}

// takeAway cuts a region's node off in the middle of what it does. The process goes on, so its work
// in progress ends later.
func (w *world) takeAway(region string) {
	now, cancel := context.WithCancel(w.ctx)
	cancel()
	w.taken = true
	_ = w.cluster.Region(region).Stop(now) // it reports what it left open
}

// startWorld starts three regions at no distance from each other, and counts their trips.
func startWorld(t testing.TB, j *judge, change func(*node.ClusterConfig)) *world {
	t.Helper()
	return startWorldOn(t, newBackend(t), j, change)
}

// startWorldOn starts it where its rows are to be kept.
func startWorldOn(t testing.TB, rows backend, j *judge, change func(*node.ClusterConfig)) *world {
	t.Helper()
	if j == nil {
		j = newJudge(t)
	}
	provider, err := newProvider(j.url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = provider.Close() })
	c := clusterConfig(t.TempDir(), provider, rows)
	c.Network = wan.New(nil)
	log := &testLog{}
	c.Logger = slog.New(slog.NewTextHandler(log, nil))
	if change != nil {
		change(&c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	cluster, err := node.StartCluster(ctx, c)
	require.NoError(t, err)
	w := &world{t: t, ctx: ctx, cluster: cluster, judge: j, network: c.Network, policy: c.Policy, log: log, payee: c.Tenants[0].ID}
	t.Cleanup(func() {
		if err := cluster.Stop(ctx); !w.taken {
			require.NoError(t, err)
		}
		cancel()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	w.caller = newCaller(t, clusterBases(cluster))
	return w
}

func clusterBases(cluster *node.Cluster) map[string]string {
	bases := map[string]string{}
	for _, r := range regions {
		bases[r] = "http://" + cluster.Region(r).APIAddr()
	}
	return bases
}

// at sends q to a region and expects this status. Like a merchant it repeats what is not answered
// yet: on a busy machine a late node looks like a dead one.
func (w *world) at(region string, q request, status int) (r *answer.Answer) {
	w.t.Helper()
	until(w.t, "there is an answer", func() bool {
		r = w.send(w.ctx, region, q)
		return r.Err != nil || r.Status == status || r.Problem.Retry != "same_key" || r.Status != http.StatusServiceUnavailable && r.Status != http.StatusConflict
	})
	require.NoError(w.t, r.Err)
	require.Equal(w.t, status, r.Status, "%s", r.Body)
	return r
}

// later is a request under way.
func (w *world) later(region string, q request) <-chan *answer.Answer {
	done := make(chan *answer.Answer, 1)
	go func() { done <- w.send(w.ctx, region, q) }()
	return done
}

func stamped(t testing.TB, region string) string {
	t.Helper()
	key, err := claim.Stamp(codes[region], nil)
	require.NoError(t, err)
	return key
}

// gate holds provider calls that reach it.
type gate struct {
	entered chan psp.Call
	open    chan struct{}
	once    sync.Once
}

func newGate() *gate { return &gate{entered: make(chan psp.Call, 64), open: make(chan struct{})} }

func (g *gate) hold(_ context.Context, call psp.Call) {
	g.entered <- call
	<-g.open
}

func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

// hold makes the judge hold every call before it decides, until released.
func (j *judge) hold(t testing.TB) *gate {
	g := newGate()
	j.SetHooks(simulator.Hooks{Before: g.hold})
	t.Cleanup(g.release)
	return g
}

// testLog keeps what a cluster logged, to be shown when a test fails.
type testLog struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

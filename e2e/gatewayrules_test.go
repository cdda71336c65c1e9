package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/node"
)

// ruled gives a gateway routes and other settings.
func ruled(change func(*gateway.Settings)) func(*node.ClusterConfig) {
	return func(c *node.ClusterConfig) {
		through := *c.Gateway
		change(&through.Settings)
		c.Gateway = &through
	}
}

// orderAPI is an API that recognises no repeat, and can be asked: GET /orders?ref= lists those of a
// reference.
type orderAPI struct {
	*httptest.Server
	mu   sync.Mutex
	made map[string]int // by reference
	// fail, if set, makes a request end without a reply, after it was done.
	fail atomic.Bool
}

func newOrderAPI(t *testing.T) *orderAPI {
	o := &orderAPI{made: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		ref := r.Header.Get("Idempotency-Key")
		o.mu.Lock()
		o.made[ref]++
		n := o.made[ref]
		o.mu.Unlock()
		if o.fail.Load() {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"ref":%q,"n":%d}`, ref, n)
	})
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, r *http.Request) {
		ref := r.URL.Query().Get("ref")
		o.mu.Lock()
		n := o.made[ref]
		o.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if n == 0 {
			_, _ = io.WriteString(w, `{"data":[]}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"data":[{"ref":%q,"n":%d}]}`, ref, n)
	})
	o.Server = httptest.NewServer(mux)
	t.Cleanup(o.Close)
	return o
}

func (o *orderAPI) of(ref string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.made[ref]
}

// asked is a route that recovers by asking. sure 0: not found is never a no.
func asked(sure time.Duration) gateway.Route {
	replies := []gateway.Reply{{Status: []string{"200"}, Member: "/data/0", Outcome: "done"}}
	if sure > 0 {
		replies = append(replies, gateway.Reply{Status: []string{"200"}, Member: "/data", Outcome: "released"})
	}
	return gateway.Route{Match: "POST /orders", Ask: gateway.Ask{Path: "/orders?ref={key}", Answers: true, SureAfter: sure, Replies: replies}}
}

// TestAGatewayAsks: a request whose reply was lost is found, and is never sent again.
func TestAGatewayAsks(t *testing.T) {
	t.Parallel()
	o := newOrderAPI(t)
	g := startGateway(t, o.URL, ruled(func(s *gateway.Settings) { s.Routes = []gateway.Route{asked(0)} }))
	for _, region := range regions {
		key := orderKey()
		o.fail.Store(true)
		first, err := post(g.ctx, g.bases[region], "/orders", key, `{"card":{"cvc":"987"}}`)
		require.NoError(t, err)
		code, _ := first.code()
		require.Equal(t, "outcome_unknown", code)
		o.fail.Store(false)
		got := final(g.ctx, t, g.bases[eu], "/orders", key, `{"card":{"cvc":"987"}}`)
		require.Equal(t, []any{200, fmt.Sprintf(`{"data":[{"ref":%q,"n":1}]}`, key)}, []any{got.status, got.body})
		require.Equal(t, got.body, final(g.ctx, t, g.bases[asia], "/orders", key, `{"card":{"cvc":"987"}}`).body)
		require.Equal(t, 1, o.of(key))
	}
}

// TestAGatewaysAskThroughACrash kills the process at each point of a recovery that asks: what was done
// is found, and what was not is sent once its absence is sure.
func TestAGatewaysAskThroughACrash(t *testing.T) {
	t.Parallel()
	for _, die := range []point{beforeWrite, begun, answered, settled} {
		t.Run(string(die), func(t *testing.T) {
			t.Parallel()
			o, key := newOrderAPI(t), orderKey()
			c := childConfig{Dir: t.TempDir(), PSP: o.URL, Gateway: o.URL, Asks: true, backend: newBackend(t), Arrivals: 1, Die: die}
			p := startChild(t, c)
			ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
			defer cancel()
			fatal(ctx, t, p.bases[eu], "/orders", key)
			p.died()
			c.Die = ""
			p = startChild(t, c)
			got := final(ctx, t, p.bases[us], "/orders", key, "{}")
			require.Contains(t, []int{200, 201}, got.status, got.body)
			require.Equal(t, got.body, final(ctx, t, p.bases[asia], "/orders", key, "{}").body)
			require.Equal(t, 1, o.of(key))
		})
	}
}

// TestAGatewaysUpstreamsThatShareNothing: each region has an API of its own, which recognises its own
// repeats alone. A deputy sends to the home's, and never to its own.
func TestAGatewaysUpstreamsThatShareNothing(t *testing.T) {
	t.Parallel()
	own := map[string]*upstream{}
	var all []string
	for _, region := range regions {
		own[region] = newUpstream(t)
		own[region].dedupe = "X-Once"
		all = append(all, region+"="+own[region].URL)
	}
	g := startGateway(t, "http://127.0.0.1:1", ruled(func(s *gateway.Settings) {
		s.Upstreams = all
		s.Dedupe("X-Once")
	}))
	for i, region := range regions {
		key := stamped(t, region)
		got := final(g.ctx, t, g.bases[regions[(i+1)%3]], "/orders", key, "{}")
		require.Equal(t, http.StatusCreated, got.status, got.body)
		require.EqualValues(t, 1, own[region].effects.Load(), region)
	}
	now, cancel := context.WithCancel(g.ctx)
	cancel()
	g.taken.Store(true)
	_ = g.Region(asia).Stop(now)
	got := final(g.ctx, t, g.bases[us], "/orders", stamped(t, asia), "{}")
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, []int64{1, 1, 2}, []int64{own[us].effects.Load(), own[eu].effects.Load(), own[asia].effects.Load()}, "its deputy sent to the home's upstream")
	own[asia].Close()
	away, err := post(g.ctx, g.bases[us], "/orders", stamped(t, asia), "{}")
	require.NoError(t, err)
	code, retry := away.code()
	require.Equal(t, []string{"upstream_unreachable", "same_key"}, []string{code, retry}, "with its region gone, nothing is sent elsewhere")
	require.Equal(t, []int64{1, 1}, []int64{own[us].effects.Load(), own[eu].effects.Load()})
}

// lostStore is a store that cannot begin claims while it is away.
type lostStore struct {
	deployment.Store
	away *atomic.Bool
}

func (s lostStore) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	if s.away.Load() {
		return claim.Begun{}, claim.ErrUnavailable
	}
	return s.Store.Begin(ctx, a)
}

// TestAGatewayWhoseStoreIsAway sends nothing.
func TestAGatewayWhoseStoreIsAway(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	var away atomic.Bool
	g := startGateway(t, u.URL, ruled(func(s *gateway.Settings) {
		s.Routes = []gateway.Route{{Match: "POST /", Profile: "stripe"}}
	}), func(c *node.ClusterConfig) {
		c.WrapStore = func(_ string, s deployment.Store) deployment.Store { return lostStore{s, &away} }
	})
	before := orderKey()
	require.Equal(t, http.StatusCreated, final(g.ctx, t, g.bases[us], "/orders", before, "{}").status)
	away.Store(true)
	closed, err := post(g.ctx, g.bases[us], "/orders", orderKey(), "{}")
	require.NoError(t, err)
	require.Equal(t, []any{503, "true"}, []any{closed.status, closed.header.Get("Stripe-Should-Retry")})
	require.Contains(t, closed.body, `{"error":{"code":"store_unavailable","message":"`)
	require.EqualValues(t, 1, u.effects.Load())
	away.Store(false)
	got := final(g.ctx, t, g.bases[us], "/orders", before, "{}")
	require.Equal(t, "true", got.header.Get("Idempotent-Replayed"))
}

// TestAGatewaysErrorsSpeakTheRoutesDialect, also those that an executor made and a store kept.
func TestAGatewaysErrorsSpeakTheRoutesDialect(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.Config.SetKeepAlivesEnabled(false) // on a kept connection a request may count as sent, although it broke
	g := startGateway(t, u.URL, ruled(func(s *gateway.Settings) {
		for _, profile := range []string{"stripe", "adyen", "acp"} {
			s.Routes = append(s.Routes, gateway.Route{Match: "POST /" + profile, Profile: profile})
		}
	}))
	for profile, says := range map[string]struct {
		mismatch int
		missing  string
		first    string
	}{
		"stripe": {400, "", `"type":"idempotency_error"`},
		"adyen":  {422, "", `"errorType":"validation"`},
		"acp":    {422, "idempotency_key_required", `"code":"idempotency_conflict"`},
	} {
		key := orderKey()
		require.Equal(t, 201, final(g.ctx, t, g.bases[us], "/"+profile, key, "{}").status)
		other, err := post(g.ctx, g.bases[eu], "/"+profile, key, `{"a":1}`)
		require.NoError(t, err)
		require.Equal(t, says.mismatch, other.status, profile)
		require.Contains(t, other.body, says.first)
		bare, err := post(g.ctx, g.bases[eu], "/"+profile, "", "{}")
		require.NoError(t, err)
		if says.missing == "" {
			require.Equal(t, 201, bare.status, "it passes")
		} else {
			require.Contains(t, bare.body, says.missing)
		}
	}
	u.Listener.Close()
	got, err := post(g.ctx, g.bases[us], "/stripe", orderKey(), "{}")
	require.NoError(t, err)
	require.Equal(t, []any{502, "application/json", "true"}, []any{got.status, got.header.Get("Content-Type"), got.header.Get("Stripe-Should-Retry")}, got.body)
	require.Contains(t, got.body, `"code":"upstream_unreachable"`)
}

// TestAGatewaysKeyIsCanceled: one that was never used takes no request any more, in any region; one
// that was is left as it is.
func TestAGatewaysKeyIsCanceled(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	u.Config.SetKeepAlivesEnabled(false) // on a kept connection a request may count as sent, although it broke
	g := startGateway(t, u.URL)
	cancel := func(region, key string) *reply {
		got, err := post(g.ctx, g.bases[region], "/_homeward/idempotency-keys/"+key+"/cancel", "", "{}")
		require.NoError(t, err)
		return got
	}
	unused := orderKey()
	got := cancel(eu, unused)
	require.Equal(t, 200, got.status, got.body)
	require.Contains(t, got.body, `"outcome":"unused"`)
	refused := final(g.ctx, t, g.bases[us], "/orders", unused, "{}")
	code, retry := refused.code()
	require.Equal(t, []any{410, "idempotency_key_canceled", "new_key"}, []any{refused.status, code, retry})
	require.Zero(t, u.effects.Load())

	used := orderKey()
	first := final(g.ctx, t, g.bases[us], "/orders", used, "{}")
	got = cancel(asia, used)
	require.Equal(t, 400, got.status, got.body)
	require.Equal(t, first.body, final(g.ctx, t, g.bases[eu], "/orders", used, "{}").body)

	u.Listener.Close()
	away := orderKey()
	unsent, err := post(g.ctx, g.bases[us], "/orders", away, "{}")
	require.NoError(t, err)
	code, _ = unsent.code()
	require.Equal(t, "upstream_unreachable", code)
	got = cancel(eu, away)
	require.Contains(t, got.body, `"outcome":"not_made"`, got.status)
	gone := final(g.ctx, t, g.bases[asia], "/orders", away, "{}")
	code, _ = gone.code()
	require.Equal(t, "idempotency_key_canceled", code)
	require.EqualValues(t, 1, u.effects.Load())
}

// TestAReplyHasItsRoutesWindow: every region says how long the key keeps its reply, which is what its row says.
func TestAReplyHasItsRoutesWindow(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	g := startGateway(t, u.URL, ruled(func(s *gateway.Settings) {
		s.Routes = []gateway.Route{{Match: "POST /orders", ReplayFor: time.Hour}}
	}))
	for target, window := range map[string]time.Duration{"/orders": time.Hour, "/others": 24 * time.Hour} {
		key, before := orderKey(), time.Now()
		var first string
		for i, region := range regions {
			got := final(g.ctx, t, g.bases[region], target, key, "{}")
			require.Equal(t, http.StatusCreated, got.status, got.body)
			until, err := time.Parse(time.RFC3339, got.header.Get("Idempotency-Expires-At"))
			require.NoError(t, err)
			require.WithinDuration(t, before.Add(window), until, window/4, target)
			if i == 0 {
				first = got.header.Get("Idempotency-Expires-At")
			}
			require.Equal(t, first, got.header.Get("Idempotency-Expires-At"), region)
		}
	}
	require.EqualValues(t, 2, u.effects.Load())
}

// TestServeAsAGateway: nodes of homeward serve on a database are a gateway, whose tenants get their rows
// by themselves.
func TestServeAsAGateway(t *testing.T) {
	t.Parallel()
	var d *served
	if onCockroach() {
		d = newServedOn(t, localdb.Config{Kind: localdb.CockroachDB, Regions: regions})
	} else {
		d = newServed(t)
	}
	u := newUpstream(t)
	d.extra = fmt.Sprintf(`
gateway:
  upstream: %s
  tenant: {from: header, name: X-Tenant}
  trusted_proxies: [127.0.0.0/8, "::1/128"]
  routes:
    - {match: POST /, timeout: 5s}
    - {match: PATCH /, timeout: 5s}
`, u.URL)
	settings := node.DefaultServeSettings()
	settings.Gateway.Upstreams, settings.Database.AllowUnverified = []string{us + "=" + u.URL, "atlantis=" + u.URL}, true
	_, err := node.CheckDatabase(d.ctx, settings, node.Secrets{DatabaseURL: d.url}, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "gateway.upstreams[1] names the region atlantis, which does not exist; write one of "+eu+", "+us)
	d.start(us)
	d.start(eu)
	send := func(region, target, tenant, key string) *reply {
		got, err := post(d.ctx, d.nodes[region].api, target, key, "{}", "X-Tenant", tenant)
		require.NoError(t, err)
		return got
	}
	key := orderKey()
	for n, tenant := range []string{"acme", "globex", "spiffe://initech"} {
		first := send(us, "/orders", tenant, key)
		require.Equal(t, http.StatusCreated, first.status, first.body)
		again := send(eu, "/orders", tenant, key)
		require.Equal(t, []any{first.body, "true"}, []any{again.body, again.header.Get("Idempotent-Replayed")})
		require.EqualValues(t, n+1, u.effects.Load())
	}
	homed := send(us, "/orders", "acme", stamped(t, eu))
	require.Equal(t, []string{eu, "1"}, []string{homed.header.Get("Homeward-Home-Region"), homed.header.Get("Homeward-Hops")}, homed.body)
	nobody, err := post(d.ctx, d.nodes[us].api, "/orders", orderKey(), "{}")
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, nobody.status)
	require.EqualValues(t, 4, u.effects.Load())

	if onCockroach() { // which does not go away all at once
		return
	}
	// Without the database it is closed.
	require.NoError(t, d.server.Kill(""))
	closed := send(us, "/orders", "acme", orderKey())
	code, retry := closed.code()
	require.Equal(t, []string{"store_unavailable", "same_key"}, []string{code, retry}, closed.body)
	require.EqualValues(t, 4, u.effects.Load())
	require.NoError(t, d.server.Restart(d.ctx, ""))
	until(t, "the gateway answers again", func() bool { return send(eu, "/orders", "acme", key).status == http.StatusCreated })
	require.EqualValues(t, 4, u.effects.Load())
}

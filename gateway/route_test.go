package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
)

// with sets the settings of a gateway.
func with(change func(*Settings)) func(*Config) { return func(c *Config) { change(&c.Settings) } }

func routes(all ...Route) func(*Config) { return with(func(s *Settings) { s.Routes = all }) }

// recovery is the attempt of a worker that follows a.
func recovery(a claim.Attempt) claim.Attempt {
	a.Recovery, a.Unstored, a.Record.ProviderKey, a.Record.FirstUse = true, nil, "provider-key", time.Now()
	a.Now = a.Record.FirstUse
	return a
}

func TestEachMistakeOfAGatewayIsNamed(t *testing.T) {
	route := func(r Route) func(*Settings) {
		return func(s *Settings) {
			if r.Match == "" {
				r.Match = "POST /orders"
			}
			s.Routes = append(s.Routes, r)
		}
	}
	for name, c := range map[string]struct {
		change func(*Settings)
		says   []string
	}{
		"no URL":                        {func(s *Settings) { s.Upstream = "localhost:9000" }, []string{"gateway.upstream", "http://127.0.0.1:9000"}},
		"a password":                    {func(s *Settings) { s.Upstream = "http://me:hunter2@api" }, []string{"gateway.upstream", "credentials"}},
		"no region":                     {func(s *Settings) { s.Upstreams = []string{"http://a"} }, []string{"gateway.upstreams[0]", "REGION=URL"}},
		"shared with nobody":            {func(s *Settings) { s.ShareKeys = true }, []string{"gateway.upstreams_share_keys"}},
		"rules of no gateway":           {func(s *Settings) { s.Upstream = ""; route(Route{})(s) }, []string{"gateway.upstream is missing"}},
		"no range":                      {func(s *Settings) { s.TrustedProxies = []string{"10.0.0.1"} }, []string{"gateway.trusted_proxies[0]", "10.0.0.7/32"}},
		"half a certificate":            {func(s *Settings) { s.TLS.Cert = "a" }, []string{"gateway.tls", "cert and key"}},
		"half a token":                  {func(s *Settings) { s.JWT.Issuer = "https://id" }, []string{"gateway.jwt", "JWKS"}},
		"keys in clear":                 {func(s *Settings) { s.JWT = JWT{Keys: "http://id/keys", Issuer: "i", Audience: "a"} }, []string{"gateway.jwt", "https://"}},
		"any caller any tenant":         {func(s *Settings) { s.Tenant = Tenant{From: "header", Name: "X-Tenant"} }, []string{"gateway.tenant from header", "any caller", "trusted_proxies"}},
		"a route's, too":                {route(Route{Tenant: Tenant{From: "header", Name: "X-Tenant"}}), []string{"gateway.routes[0] tenant.from header", "any caller"}},
		"a claim of no token":           {route(Route{Tenant: Tenant{From: "claim", Name: "sub"}}), []string{"gateway.jwt"}},
		"a certificate of no CA":        {route(Route{Tenant: Tenant{From: "certificate", Name: "cn"}}), []string{"gateway.tls.client_ca"}},
		"no part of a certificate":      {route(Route{Tenant: Tenant{From: "certificate", Name: "email"}}), []string{"uri, dns or cn"}},
		"no tenant":                     {route(Route{Tenant: Tenant{Name: "x~test"}}), []string{"x~test", "not a tenant"}},
		"no source":                     {route(Route{Tenant: Tenant{From: "cookie"}}), []string{`"cookie" is not known`}},
		"no method":                     {route(Route{Match: "/orders"}), []string{"match", "POST /v1/orders/{id}"}},
		"a method that changes none":    {route(Route{Match: "GET /orders"}), []string{"match", "change something"}},
		"no pattern":                    {route(Route{Match: "POST /orders/{"}), []string{"gateway.routes[0] match"}},
		"twice":                         {func(s *Settings) { route(Route{})(s); route(Route{})(s) }, []string{"gateway.routes[1] match", "conflicts with"}},
		"no profile":                    {route(Route{Profile: "paypal"}), []string{"profile", "rest, stripe, adyen or acp"}},
		"two keys":                      {route(Route{Key: Key{Header: "A", Member: "/b"}}), []string{"key has a header and a member"}},
		"no pointer":                    {route(Route{Key: Key{Member: "b"}}), []string{"key.member", "/reference"}},
		"no way with a missing key":     {route(Route{Key: Key{Missing: "ignore"}}), []string{"key.missing", "pass or refuse"}},
		"no body":                       {route(Route{Fingerprint: Fingerprint{Body: "xml"}}), []string{"fingerprint.body", "json, form or bytes"}},
		"too large":                     {route(Route{BodyBytes: MaxBody + 1}), []string{"body_bytes", "3145728"}},
		"too long":                      {route(Route{Timeout: time.Hour}), []string{"timeout", "1m0s"}},
		"deduped by the host":           {route(Route{Dedupe: "host"}), []string{"dedupe Host", "Idempotency-Key"}},
		"deduped by its frame":          {route(Route{Dedupe: "Content-Length"}), []string{"dedupe Content-Length"}},
		"no header":                     {route(Route{Dedupe: "a b"}), []string{"dedupe", "Idempotency-Key"}},
		"for too short":                 {route(Route{Dedupe: "X-Once", DedupeFor: time.Hour}), []string{"dedupe_for", "1h0m0s"}},
		"a repeat of nothing":           {route(Route{Recovery: "repeat"}), []string{"recovery repeat needs dedupe"}},
		"nobody to ask":                 {route(Route{Recovery: "ask"}), []string{"recovery ask needs ask.path"}},
		"an answer to no question":      {route(Route{Ask: Ask{Answers: true}}), []string{"ask has no path"}},
		"asked elsewhere":               {route(Route{Ask: Ask{Path: "http://evil/{key}"}}), []string{"ask.path", "not a path"}},
		"an unknown name":               {route(Route{Ask: Ask{Path: "/orders/{id}"}}), []string{"ask.path has {id}", "{key}, {tenant}"}},
		"a brace that is left open":     {route(Route{Ask: Ask{Path: "/orders/{key"}}), []string{"ask.path", "/orders/{key", "a brace"}},
		"a brace that opens nothing":    {route(Route{Ask: Ask{Path: "/orders/key}"}}), []string{"ask.path", "a brace"}},
		"a brace in a brace":            {route(Route{Ask: Ask{Path: "/orders/{{key}}"}}), []string{"ask.path", "a brace"}},
		"the same of all requests":      {route(Route{Ask: Ask{Path: "/order"}}), []string{"ask.path", "every request alike", "{key}"}},
		"the same of all of a tenant":   {route(Route{Ask: Ask{Path: "/orders/{tenant}"}}), []string{"ask.path", "every request alike", "{key}"}},
		"a method that nobody sends":    {route(Route{Match: "PSOT /orders"}), []string{"routes[0] match", "PSOT", "POST /v1/orders/{id}"}},
		"a host":                        {route(Route{Match: "POST orders.example/x"}), []string{"routes[0] match", "path", "begins with /"}},
		"a path without its slash":      {route(Route{Match: "POST orders"}), []string{"routes[0] match", "begins with /"}},
		"a method twice":                {route(Route{Match: "POST PUT /orders"}), []string{"routes[0] match", "begins with /"}},
		"a query":                       {route(Route{Match: "POST /orders?x=1"}), []string{"routes[0] match", "no query"}},
		"a fragment":                    {route(Route{Match: "POST /orders#x"}), []string{"routes[0] match", "no query"}},
		"a pointer that is left out":    {route(Route{Fingerprint: Fingerprint{Without: []string{"/sent_at"}}}), []string{"fingerprint.without", "/sent_at", "bare name"}},
		"a path that is left out":       {route(Route{Fingerprint: Fingerprint{Without: []string{"a.b"}}}), []string{"fingerprint.without", "a.b", "body: form"}},
		"no name that is left out":      {route(Route{Fingerprint: Fingerprint{Without: []string{""}}}), []string{"fingerprint.without", "bare name"}},
		"bytes without a member":        {route(Route{Fingerprint: Fingerprint{Body: "bytes", Without: []string{"at"}}}), []string{"fingerprint.without", "bytes"}},
		"for how long without a header": {route(Route{DedupeFor: 2 * time.Hour}), []string{"dedupe_for", "without dedupe"}},
		"for how long by no header":     {route(Route{Profile: "stripe", Dedupe: "none", DedupeFor: 2 * time.Hour}), []string{"dedupe_for", "without dedupe"}},
		"all may be stored but one":     {route(Route{NeverStore: []string{"none", "cvc"}}), []string{"never_store", "none"}},
		"no header and one":             {route(Route{Fingerprint: Fingerprint{Headers: []string{"X-A", "none"}}}), []string{"fingerprint.headers", "none"}},
		"not found, but never a no": {route(Route{Ask: Ask{Path: "/orders/{key}", Replies: []Reply{{Status: []string{"404"}, Outcome: "released"}}}}),
			[]string{"ask.replies[0]", "released", "ask.sure_after"}},
		"a rule behind all of it": {route(Route{Replies: []Reply{{Status: []string{"4xx"}, Outcome: "refused"}, {Status: []string{"404"}, Outcome: "released"}}}),
			[]string{"replies[1]", "replies[0]"}},
		"a member behind all of it": {route(Route{Ask: Ask{Path: "/orders/{key}", Replies: []Reply{{Status: []string{"200", "2xx"}, Outcome: "done"}, {Status: []string{"200"}, Member: "/gone", Outcome: "refused"}}}}),
			[]string{"ask.replies[1]", "ask.replies[0]"}},
		"a tenant's header without a name":     {func(s *Settings) { s.TrustedProxies, s.Tenant.From = []string{"10.0.0.0/8"}, "header" }, []string{"gateway.tenant name", "X-Tenant"}},
		"twice, and the other":                 {func(s *Settings) { route(Route{Match: "POST /x"})(s); route(Route{})(s); route(Route{})(s) }, []string{"gateway.routes[2] match", "gateway.routes[1]"}},
		"all that no route matches":            {route(Route{Match: "POST /{all...}"}), []string{"gateway.routes[0] match", "POST /{all...}", "write POST /"}},
		"a search":                             {route(Route{Ask: Ask{Path: "/orders?r={key}"}}), []string{"ask.path is a search", "ask.replies"}},
		"the service's answers for any caller": {route(Route{Credentials: "service", Ask: Ask{Path: "/{tenant}/orders/{key}", Answers: true}}), []string{"ask.answers", "all callers are one tenant"}},
		"a window that is too short":           {route(Route{ReplayFor: time.Minute}), []string{"replay_for", "2m0s"}},
		"the service's answers for any tenant": {func(s *Settings) {
			s.TrustedProxies = []string{"10.0.0.0/8"}
			route(Route{Tenant: Tenant{From: "header", Name: "X-Tenant"}, Credentials: "service", Ask: Ask{Path: "/orders/{/reference}", Answers: true}})(s)
		}, []string{"ask.answers", "{tenant}"}},
		"asked about what does not count": {route(Route{Fingerprint: Fingerprint{Without: []string{"reference"}}, Ask: Ask{Path: "/orders/{/reference/id}"}}), []string{"ask.path has {/reference/id}", "fingerprint.without"}},
		"asked about a card":              {route(Route{Ask: Ask{Path: "/orders/{/card/number}"}}), []string{"ask.path has {/card/number}", "never_store"}},
		"a cookie kept":                   {route(Route{KeepHeaders: []string{"set-cookie"}}), []string{"keep_headers Set-Cookie"}},
		"no outcome":                      {route(Route{Replies: []Reply{{Status: []string{"200"}, Outcome: "ok"}}}), []string{"replies[0] outcome"}},
		"no status":                       {route(Route{Replies: []Reply{{Status: []string{"2XX"}, Outcome: "done"}}}), []string{"replies[0] status", "4xx"}},
		"all replies":                     {route(Route{Replies: []Reply{{Outcome: "done"}}}), []string{"replies[0] fits every reply"}},
		"a value of nothing":              {route(Route{Replies: []Reply{{Status: []string{"2xx"}, Is: []any{"x"}, Outcome: "done"}}}), []string{"replies[0] is"}},
		"two copies of a large one":       {route(Route{Credentials: "service", BodyBytes: MaxBody}), []string{"body_bytes", "two copies"}},
		"a value that is a day":           {route(Route{Replies: []Reply{{Member: "/day", Is: []any{time.Unix(0, 0)}, Outcome: "done"}}}), []string{"replies[0] is", "in quotes"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := DefaultSettings()
			s.Upstream = "http://127.0.0.1:9000"
			c.change(&s)
			err := s.Validate()
			require.Error(t, err)
			require.Len(t, strings.Split(err.Error(), "\n"), 1, "%v", err)
			require.NotContains(t, err.Error(), "hunter2")
			for _, say := range c.says {
				require.ErrorContains(t, err, say)
			}
		})
	}
	for name, r := range map[string]Route{
		"a field's name with a dot":        {Fingerprint: Fingerprint{Body: "form", Without: []string{"order.at"}}},
		"a status before all others":       {Replies: []Reply{{Status: []string{"404"}, Outcome: "released"}, {Status: []string{"4xx"}, Outcome: "refused"}}},
		"a member before all others":       {Replies: []Reply{{Status: []string{"4xx"}, Member: "/a", Outcome: "done"}, {Status: []string{"404"}, Outcome: "released"}}},
		"the profile's header, for longer": {Profile: "stripe", DedupeFor: 2 * day},
		"a look-up by a wildcard and key":  {Ask: Ask{Path: "/orders/{id}/payments/{key}"}},
		"a window of its own":              {ReplayFor: time.Hour},
		"a look-up by a member":            {Ask: Ask{Path: "/orders/{/reference}"}},
	} {
		r.Match = "POST /orders/{id}/pay"
		s := DefaultSettings()
		s.Upstream, s.Routes = "http://127.0.0.1:9000", []Route{r}
		require.NoError(t, s.Validate(), name)
	}
	for name, c := range map[string]struct {
		match string
		ask   Ask
		says  string
	}{
		"what a PUT makes":                {"PUT /orders/{id}", Ask{Path: "/orders/{id}", Replies: []Reply{{Status: []string{"2xx"}, Member: "/paid", Outcome: "done"}}}, ""},
		"what a DELETE takes":             {"DELETE /orders/{id}", Ask{Path: "/orders/{id}", Replies: []Reply{{Status: []string{"404"}, Outcome: "done"}}}, ""},
		"what was there before":           {"PUT /orders/{id}", Ask{Path: "/orders/{id}"}, "may have been there before; say in ask.replies"},
		"what other requests are about":   {"POST /orders/{id}/pay", Ask{Path: "/orders/{id}"}, "the {id} of the path alone"},
		"the same, in a search":           {"PATCH /orders/{id}", Ask{Path: "/orders?id={id}", Replies: askReplies[:1]}, "the {id} of the path alone"},
		"the same, of a tenant":           {"POST /orders/{id...}", Ask{Path: "/{tenant}/orders/{id}"}, "the {id} of the path alone"},
		"a constant, beside its wildcard": {"POST /orders/{id}/pay", Ask{Path: "/orders/last"}, "every request alike"},
	} {
		s := DefaultSettings()
		s.Upstream, s.Routes = "http://127.0.0.1:9000", []Route{{Match: c.match, Ask: c.ask}}
		err := s.Validate()
		if c.says == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.says, name)
		require.Len(t, strings.Split(err.Error(), "\n"), 1, "%v", err)
	}
	s := DefaultSettings()
	require.NoError(t, s.Validate(), "that is none")
	_, err := New(Config{Settings: Settings{Upstreams: []string{"eu=http://a"}}, Region: "us"})
	require.ErrorContains(t, err, "none for region us")
	_, err = New(Config{Settings: Settings{Upstream: "http://a", Routes: []Route{{Match: "POST /x", Credentials: "service"}}}})
	require.ErrorContains(t, err, "HOMEWARD_GATEWAY_CREDENTIALS")
}

func TestTheHeaderOfRequestsThatNoRouteMatches(t *testing.T) {
	s := Settings{Routes: []Route{{Match: "POST /x"}, {Match: "POST /", BodyBytes: 7}}}
	s.Dedupe("")
	require.Len(t, s.Routes, 2)
	s.Dedupe("X-Once")
	require.Equal(t, []Route{{Match: "POST /x"}, {Match: "POST /", BodyBytes: 7, Dedupe: "X-Once"}, {Match: "PATCH /", Dedupe: "X-Once"}}, s.Routes)
	s.Dedupe("X-Other")
	require.Equal(t, "X-Once", s.Routes[1].Dedupe, "the settings say")
	stripe := Settings{Routes: []Route{{Match: "POST /", Profile: "stripe"}}}
	stripe.Dedupe("X-Once")
	require.Empty(t, stripe.Routes[0].Dedupe, "its profile says")
}

func TestARouteIsFoundByMethodAndPath(t *testing.T) {
	g := newGateway(t, "http://127.0.0.1:9", routes(
		Route{Match: "POST /v1/orders/{id}/pay", Key: Key{Missing: "refuse"}, BodyBytes: 1}, Route{Match: "PUT /v1/", BodyBytes: 2}, Route{Match: "POST /", BodyBytes: 3},
	))
	request := func(method, target string) *http.Request {
		r := httptest.NewRequest(method, "/", nil)
		u, err := url.ParseRequestURI(target)
		require.NoError(t, err)
		r.URL = u
		return r
	}
	for target, want := range map[string]int64{
		"/v1/orders/a%2Fb/pay": 1, "/v1//orders/7/./pay": 1, "/v1/x/../orders/7/pay": 1, "//v1/orders/7/pay": 1,
		"/v1/orders/7": 0, "/v1/orders/7/pay/": 0, // without a key, the plain rule lets it pass
	} {
		c := g.Match(request("POST", target))
		if want == 0 {
			require.Nil(t, c, target)
			continue
		}
		require.NotNil(t, c, target)
		require.Equal(t, want, c.BodyLimit(), target)
	}
	require.Equal(t, "a/b", g.Match(request("POST", "/v1/orders/a%2Fb/pay")).wild["id"])
	keyed := request("POST", "/elsewhere")
	keyed.Header.Set("Idempotency-Key", "k")
	require.Equal(t, int64(3), g.Match(keyed).BodyLimit(), "the settings have a plain rule of their own")
	patch := request("PATCH", "/elsewhere")
	patch.Header.Set("Idempotency-Key", "k")
	require.Equal(t, int64(1<<20), g.Match(patch).BodyLimit())
	put := request("PUT", "/v1/x")
	put.Header.Set("Idempotency-Key", "k")
	require.NotNil(t, g.Match(put))
	require.Nil(t, g.Match(request("GET", "/v1/orders/7/pay")))
}

// TestNoKeyPasses: whatever the routes are, a POST or PATCH with a key is guarded at every path, also at
// those that a ServeMux redirects.
func TestNoKeyPasses(t *testing.T) {
	patterns := []string{
		"/v1/orders", "/v1/orders/", "/v1/orders/{rest...}", "/v1/orders/{$}", "/v1/{kind}/", "/v1/{kind}", "/{all...}", "/{version}/orders",
		"/{version}/{kind}/", "/v1/", "/v1/{$}", "/{$}", "/",
	}
	paths := []string{
		"/", "//", "/v1", "/v1/", "/v1/orders", "/v1/orders/", "//v1/orders", "/v1//orders", "/v1/orders/7", "/v1/orders/7/", "/v1/./orders", "/v1/x/../orders",
		"/v1/orders%2F", "/v1%2Forders", "/v1/%6frders", "/v1/orders/%2e%2e", "/v1/%2e%2e/orders", "/v2/orders", "/other",
	}
	sets := 0
	for _, a := range patterns {
		for _, b := range patterns {
			s := DefaultSettings()
			s.Upstream, s.Routes = "http://127.0.0.1:9", []Route{{Match: "POST " + a}, {Match: "PATCH " + b}}
			if a != b {
				s.Routes = append(s.Routes, Route{Match: "POST " + b})
			}
			m, err := newMatcher(&s)
			if err != nil {
				continue // they conflict
			}
			sets++
			g := &Gateway{match: m}
			for _, path := range paths {
				r := post(path, "{}")
				require.NotNil(t, g.Match(r), "%s, %s: POST %s", a, b, path)
				r.Method = http.MethodPatch
				require.NotNil(t, g.Match(r), "%s, %s: PATCH %s", a, b, path)
			}
		}
	}
	require.Greater(t, sets, 100)
	for _, match := range []string{"/v1/orders/", "/v1/orders/{rest...}", "/v1/orders/{$}"} {
		g := newGateway(t, "http://127.0.0.1:9", routes(Route{Match: "POST " + match}, Route{Match: "PUT " + match}))
		for _, method := range []string{http.MethodPost, http.MethodPut} {
			r := post("/v1/orders", "{}")
			r.Method = method
			c := g.Match(r)
			require.NotNil(t, c, method+" "+match)
			require.Equal(t, method+" "+match, c.Match, "a route has the root of its paths")
		}
	}
}

func TestWhoseKeyItIs(t *testing.T) {
	verified := func(change func(*x509.Certificate)) *tls.ConnectionState {
		cert := &x509.Certificate{}
		change(cert)
		return &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{cert}}}
	}
	named := func(tenant Tenant) *Gateway {
		return newGateway(t, "http://127.0.0.1:9", func(c *Config) {
			c.Settings.Tenant, c.Settings.TLS = tenant, TLS{Cert: "a", Key: "b", ClientCA: "c"}
			c.Settings.TrustedProxies, c.Settings.JWT = []string{"10.1.2.3/8"}, JWT{Keys: "https://id/keys", Issuer: "i", Audience: "a"}
			c.Verify = func(_ context.Context, token string) (map[string]any, error) {
				if token == "away" {
					return nil, errors.New("no keys")
				}
				if token != "good" {
					return nil, NoIdentity("The token is not valid here.")
				}
				return map[string]any{"sub": "acme", "n": 1.0}, nil
			}
		})
	}
	tenantIn := func(g *Gateway, change func(*http.Request)) (string, error) {
		r := post("/", "{}")
		r.RemoteAddr = "192.0.2.1:5"
		change(r)
		id, _, err := g.Match(r).Tenant(r)
		c, _, nameErr := g.Named(r, "k")
		require.NoError(t, nameErr)
		own, _, ownErr := c.Tenant(r)
		require.Equal(t, id, own)
		require.Equal(t, err, ownErr)
		return id, err
	}
	by := named(Tenant{From: "header", Name: "X-Tenant"})
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   string
	}{
		"anybody":             {func(r *http.Request) { r.Header.Set("X-Tenant", "acme") }, ""},
		"a trusted proxy":     {func(r *http.Request) { r.Header.Set("X-Tenant", "acme"); r.RemoteAddr = "10.9.9.9:5" }, "acme"},
		"the same as IPv6":    {func(r *http.Request) { r.Header.Set("X-Tenant", "acme"); r.RemoteAddr = "[::ffff:10.9.9.9]:5" }, "acme"},
		"a certificate":       {func(r *http.Request) { r.Header.Set("X-Tenant", "acme"); r.TLS = verified(func(*x509.Certificate) {}) }, "acme"},
		"one not verified":    {func(r *http.Request) { r.Header.Set("X-Tenant", "acme"); r.TLS = &tls.ConnectionState{} }, ""},
		"a name with a zero":  {func(r *http.Request) { r.Header.Set("X-Tenant", "a\x00"); r.RemoteAddr = "10.9.9.9:5" }, ""},
		"a name of no text":   {func(r *http.Request) { r.Header.Set("X-Tenant", "a\xff"); r.RemoteAddr = "10.9.9.9:5" }, ""},
		"a name of two lines": {func(r *http.Request) { r.Header.Set("X-Tenant", "a\nb"); r.RemoteAddr = "10.9.9.9:5" }, ""},
		"a long name": {func(r *http.Request) {
			r.Header.Set("X-Tenant", strings.Repeat("a", 2049))
			r.RemoteAddr = "10.9.9.9:5"
		}, ""},
		"no header":           {func(r *http.Request) { r.RemoteAddr = "10.9.9.9:5" }, ""},
		"two headers":         {func(r *http.Request) { r.Header["X-Tenant"] = []string{"a", "b"}; r.RemoteAddr = "10.9.9.9:5" }, ""},
		"a name of no tenant": {func(r *http.Request) { r.Header.Set("X-Tenant", "acme~test"); r.RemoteAddr = "10.9.9.9:5" }, tenantOf("acme~test")},
	} {
		got, err := tenantIn(by, c.change)
		require.Equal(t, c.want, got, name)
		if c.want == "" {
			require.ErrorIs(t, err, ErrNoIdentity, name)
		}
	}
	require.Regexp(t, "^t-[0-9a-f]{32}$", tenantOf("spiffe://acme/pay"))
	require.NotEqual(t, tenantOf("spiffe://acme/pay"), tenantOf(tenantOf("spiffe://acme/pay")), "nobody can name what another name is made into")
	require.True(t, claim.Livemode(tenantOf("acme~test")))

	of := named(Tenant{From: "claim", Name: "sub"})
	bear := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	got, err := tenantIn(of, bear("good"))
	require.NoError(t, err)
	require.Equal(t, "acme", got)
	for _, no := range []func(*http.Request){bear("bad"), func(*http.Request) {}} {
		_, err = tenantIn(of, no)
		require.ErrorIs(t, err, ErrNoIdentity)
	}
	_, err = tenantIn(of, bear("away"))
	require.NotErrorIs(t, err, ErrNoIdentity, "the token may be good")
	require.Error(t, err)
	_, err = tenantIn(named(Tenant{From: "claim", Name: "n"}), bear("good"))
	require.ErrorIs(t, err, ErrNoIdentity)

	for part, change := range map[string]func(*x509.Certificate){
		"uri": func(c *x509.Certificate) { c.URIs = []*url.URL{{Scheme: "spiffe", Host: "acme"}} },
		"dns": func(c *x509.Certificate) { c.DNSNames = []string{"pay.acme"} },
		"cn":  func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "acme"} },
	} {
		g := named(Tenant{From: "certificate", Name: part})
		got, err := tenantIn(g, func(r *http.Request) { r.TLS = verified(change) })
		require.NoError(t, err)
		require.Equal(t, map[string]string{"uri": tenantOf("spiffe://acme"), "dns": "pay.acme", "cn": "acme"}[part], got)
		_, err = tenantIn(g, func(r *http.Request) { r.TLS = verified(func(*x509.Certificate) {}) })
		require.ErrorIs(t, err, ErrNoIdentity)
	}
}

func TestWhereTheKeyIs(t *testing.T) {
	keys := func(k Key, r *http.Request, body string) (sent, key string, err error) {
		c := newGateway(t, "http://127.0.0.1:9", routes(Route{Match: "POST /", Key: k})).Match(r)
		require.NotNil(t, c)
		return c.Key(r, []byte(body))
	}
	_, got, err := keys(Key{Member: "/order/reference"}, post("/", ""), `{"order":{"reference":"ref-1"}}`)
	require.NoError(t, err)
	require.Equal(t, "ref-1", got)
	_, got, err = keys(Key{Member: "/n"}, post("/", ""), `{"n":17}`)
	require.NoError(t, err)
	require.Equal(t, "17", got)
	for _, none := range []string{`{}`, `[]`, `not JSON`, `{"n":null}`, `{"n":{}}`, `{"n":" "}`} {
		_, got, err = keys(Key{Member: "/n"}, post("/", ""), none)
		require.NoError(t, err, none)
		require.Empty(t, got, none)
		_, _, err = keys(Key{Member: "/n", Missing: "refuse"}, post("/", ""), none)
		require.ErrorIs(t, err, claim.ErrKeyMissing, none)
	}
	for _, odd := range []string{`{"n":"a","n":"b"}`, `{"a":1,"a":2,"n":"a"}`, `{"n":"a"}{"n":"b"}`} {
		_, _, err = keys(Key{Member: "/n"}, post("/", ""), odd)
		require.ErrorIs(t, err, claim.ErrKeyInvalid, odd)
	}
	// The upstream may find a key in what the gateway cannot look into.
	for body, r := range map[string]*http.Request{
		"\x1f\x8b\x08":              post("/", "", "Content-Encoding", "gzip"),
		"\xef\xbb\xbf{\"n\":\"a\"}": post("/", "", "Content-Type", "application/json"),
		"\xff\xfe{\x00}\x00":        post("/", "", "Content-Type", "application/json; charset=utf-16"),
		`{"n":"a",}`:                post("/", "", "Content-Type", "application/vnd.order+json"),
	} {
		for _, missing := range []string{"pass", "refuse"} {
			_, _, err = keys(Key{Member: "/n", Missing: missing}, r, body)
			require.ErrorIs(t, err, claim.ErrKeyInvalid, "%q, %s", body, missing)
		}
	}
	for body, r := range map[string]*http.Request{
		"":    post("/", "", "Content-Type", "application/json"),
		"n=a": post("/", "", "Content-Type", "application/x-www-form-urlencoded"),
		"{}":  post("/", "", "Content-Type", "application/json", "Content-Encoding", "identity"),
	} {
		_, got, err = keys(Key{Member: "/n"}, r, body)
		require.NoError(t, err, body)
		require.Empty(t, got, body)
	}
	_, _, err = keys(Key{Member: "/n"}, post("/", ""), `{"n":"a b"}`)
	require.ErrorIs(t, err, claim.ErrKeyInvalid)
	_, got, err = keys(Key{Header: "x-order"}, post("/", "", "X-Order", "7"), "")
	require.NoError(t, err)
	require.Equal(t, "7", got)
	_, _, err = keys(Key{Header: "X-Order"}, post("/", "", "X-Order", "7", "X-Order", "8"), "")
	require.ErrorIs(t, err, claim.ErrKeyInvalid)
	_, _, err = keys(Key{Header: "X-Order", Missing: "refuse"}, post("/", ""), "")
	require.ErrorIs(t, err, claim.ErrKeyMissing)
	require.ErrorContains(t, err, "X-Order")
	bare := post("/", "")
	bare.Header.Del("Idempotency-Key")
	_, _, err = keys(Key{Missing: "refuse"}, bare, "")
	require.ErrorIs(t, err, claim.ErrKeyMissing)

	for _, one := range []string{`{"n":100}`, `{"n":1e2}`, `{"n":100.0}`} {
		sent, got, err := keys(Key{Member: "/n"}, post("/", ""), one)
		require.NoError(t, err)
		require.Equal(t, []string{"100", "100"}, []string{sent, got}, "equal bodies have one key: %s", one)
	}
	at := map[string]string{}
	for _, target := range []string{"/a_b", "//a_b", "/a%5Fb", "/./a_b", "/x/../a_b", "/a_b/", "/a_b?c=1", "/c", "/a/b", "/a%2Fb", "/", "//"} {
		_, at[target], err = keys(Key{Scope: "path"}, post("http://api"+target, ""), "")
		require.NoError(t, err)
	}
	for _, same := range []string{"//a_b", "/a%5Fb", "/./a_b", "/x/../a_b", "/a_b/", "/a_b?c=1"} {
		require.Equal(t, at["/a_b"], at[same], same)
	}
	require.Equal(t, at["/"], at["//"])
	require.NotEqual(t, at["/a_b"], at["/c"])
	require.NotEqual(t, at["/a/b"], at["/a%2Fb"])

	sent, here, err := keys(Key{Scope: "path"}, post("/a", ""), "")
	require.NoError(t, err)
	require.Equal(t, "k-1", sent)
	_, there, err := keys(Key{Scope: "path"}, post("/b", ""), "")
	require.NoError(t, err)
	require.NotEqual(t, here, there)
	require.True(t, strings.HasPrefix(here, "k-1@"))
	long := post("/a", "")
	long.Header.Set("Idempotency-Key", strings.Repeat("k", claim.MaxKeyLength))
	_, here, err = keys(Key{Scope: "path"}, long, "")
	require.NoError(t, err)
	require.LessOrEqual(t, len(here), claim.MaxKeyLength)
}

func TestWhatIdentifiesARequestOfARoute(t *testing.T) {
	const kind, form = "Content-Type", "application/x-www-form-urlencoded"
	same := func(rule Fingerprint, a, b *http.Request) bool {
		rule.Headers = append([]string{"X-None"}, rule.Headers...)
		g := newGateway(t, "http://127.0.0.1:9", routes(Route{Match: "POST /", Fingerprint: rule}))
		var prints []claim.Fingerprint
		for _, r := range []*http.Request{a, b} {
			body, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			req := requestOf(t, g, r, body)
			f, err := req.Input.Fingerprint(claim.CurrentFingerprint)
			require.NoError(t, err)
			prints = append(prints, f)
		}
		return prints[0] == prints[1]
	}
	json := func(body string, more ...string) *http.Request {
		return post("/", body, append([]string{kind, "application/json"}, more...)...)
	}
	require.True(t, same(Fingerprint{Without: []string{"at"}}, json(`{"a":1,"at":1}`), json(`{"at":2,"a":1}`)))
	require.False(t, same(Fingerprint{Without: []string{"at"}}, json(`{"a":1}`), json(`{"a":2}`)))
	require.False(t, same(Fingerprint{}, json(`{"a":1,"at":1}`), json(`{"a":1,"at":2}`)))
	require.True(t, same(Fingerprint{}, post("/", "b=2&a=1&c%5Bd%5D=3", kind, form), post("/", "a=1&c[d]=3&b=2", kind, form)))
	require.False(t, same(Fingerprint{}, post("/", "a=1&a=2", kind, form), post("/", "a=2&a=1", kind, form)), "the order of values of one name counts")
	require.False(t, same(Fingerprint{}, post("/", "i[][id]=1&i[][n]=2&i[][id]=3", kind, form), post("/", "i[][id]=1&i[][id]=3&i[][n]=2", kind, form)), "the order of a list's fields says to which of its items each belongs")
	require.False(t, same(Fingerprint{}, post("/", "a%5B%5D%5Bx%5D=1&a[][y]=2", kind, form), post("/", "a[][y]=2&a[][x]=1", kind, form)))
	require.True(t, same(Fingerprint{}, post("/", "b=1&i[][id]=1&i[][n]=2&m[x]=1&m[y]=2", kind, form), post("/", "i[][id]=1&m[y]=2&i[][n]=2&m[x]=1&b=1", kind, form)))
	require.False(t, same(Fingerprint{}, post("/", "a=1&b=2", kind, form), post("/", "a=1%26b=2", kind, form)))
	require.True(t, same(Fingerprint{Without: []string{"at"}}, post("/", "a=1&at=1", kind, form), post("/", "a=1&at=2", kind, form)))
	require.False(t, same(Fingerprint{Body: "bytes"}, json(`{"a":1}`), json(`{"a": 1}`)))
	require.True(t, same(Fingerprint{Body: "json"}, post("/", `{"a":1}`), post("/", `{"a": 1}`)))
	require.False(t, same(Fingerprint{Headers: []string{"X-Api-Key"}}, json("{}", "X-Api-Key", "a"), json("{}", "X-Api-Key", "b")))
	require.True(t, same(Fingerprint{Headers: []string{"X-Api-Key"}}, json("{}", "Authorization", "a"), json("{}", "Authorization", "b")))
	other := json("{}")
	other.Host = "api.eu.example"
	require.True(t, same(Fingerprint{}, json("{}"), other), "regions have names of their own")
	again := json("{}")
	again.Host = "api.eu.example"
	require.False(t, same(Fingerprint{Headers: []string{"Host"}}, json("{}"), again))
	require.True(t, same(Fingerprint{}, json("{}", "X-Forwarded-Host", "a"), json("{}", "X-Forwarded-Host", "b")))
}

// TestNoStoredRequestHasAVerificationCode: it is sent once, with it, and what is stored has neither it
// nor a number of a card; a worker asks, or does nothing.
func TestNoStoredRequestHasAVerificationCode(t *testing.T) {
	var bodies []string
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
	}))
	defer upstream.Close()
	g := newGateway(t, upstream.URL, plain(Route{Dedupe: "Idempotency-Key"}))
	const kind, form, js = "Content-Type", "application/x-www-form-urlencoded", "application/json"
	for body, c := range map[string]struct {
		kind   string
		stored bool
	}{
		"card[cvc][0]=987":                                  {form, false},
		"card[cvc][value]=987":                              {form, false},
		"payment_method[0][number]=987":                     {form, false},
		`{"card":{"cvc":{"value":["987"]}},"a":1}&b=2`:      {form, false},
		`payload={"card":{"cvc":"987"}}`:                    {form, false},
		`payload={"card":{"cvc":"987"}`:                     {form, false},
		`payload={"card":987,"card":{}}`:                    {form, false},
		`note=[a+{+of+987`:                                  {form, true},
		`{"payload":"{\"card\":{\"cvc\":\"987\"}}"}`:        {js, false},
		`{"payload":"\"[{\\\"card_cvc\\\":987}]\""}`:        {js, false},
		`{"payload":"{\"amount\":987}"}`:                    {js, true},
		`{"card.number":"987"}`:                             {js, false},
		`{"card[number]":"987"}`:                            {js, false},
		`{"creditCard":{"number":"987"}}`:                   {js, false},
		`{"cvn":"987"}`:                                     {js, false},
		`{"card":{"cvc":"987"}}`:                            {js, false},
		`{"card":{"\u0063vc":"987"}}`:                       {js, false},
		`[{"a":[{"CVV":"987"}]}]`:                           {js, false},
		`{"card":{"number":"4242424242424242987"}}`:         {js, false},
		`{"order":{"number":"987"}}`:                        {js, true},
		`{"paymentMethod":{"encryptedSecurityCode":"987"}}`: {js, false},
		`{"note":"\"cvc\":987"}`:                            {js, true},
		"card[cvc]=987":                                     {form, false},
		"payment_method_data%5Bcard%5D%5Bnumber%5D=987":     {form, false},
		"amount=987":                                        {form, true},
		"{not JSON, with cvc 987":                           {js, false},
		"987":                                               {"application/octet-stream", false},
		`{"a":987,"a":1}`:                                   {js, false},
	} {
		bodies = nil
		a := attemptOf(t, g, post("/charges", body, kind, c.kind))
		require.IsType(t, &claim.Done{}, g.Attempt(t.Context(), a), body)
		require.Equal(t, []string{body}, bodies, "the upstream gets it whole")
		plain, err := g.c.Seal.Open(t.Context(), row(a.Record.Key), a.Payload)
		require.NoError(t, err)
		require.Equal(t, c.stored, strings.Contains(string(plain), "987"), body)
		bodies = nil
		if got := g.Attempt(t.Context(), recovery(a)); c.stored {
			require.IsType(t, &claim.Done{}, got, body)
			require.Len(t, bodies, 1)
		} else {
			require.Equal(t, "cannot_repeat", got.(*claim.Unknown).Reason, body)
			require.Empty(t, bodies)
		}
		again := recovery(a)
		again.Unstored = a.Unstored
		require.IsType(t, &claim.Done{}, g.Attempt(t.Context(), again), "the caller's retry has it")
	}
	for target, stored := range map[string]bool{"/c?card[cvc]=987": false, "/c?q={%22cvc%22:987}": false, "/c?cvv=%987": false, "/c?amount=987": true} {
		for _, body := range []string{"", "amount=1"} {
			a := attemptOf(t, g, post(target, body, kind, form))
			plain, err := g.c.Seal.Open(t.Context(), row(a.Record.Key), a.Payload)
			require.NoError(t, err)
			require.Equal(t, stored, strings.Contains(string(plain), "987"), target)
		}
	}
	all := newGateway(t, upstream.URL, plain(Route{Dedupe: "Idempotency-Key", NeverStore: []string{"none"}}))
	a := attemptOf(t, all, post("/", `{"cvc":"987"}`, kind, js))
	require.Empty(t, a.Unstored, "the settings say that it may be stored")

	asking := newGateway(t, upstream.URL, plain(Route{Dedupe: "Idempotency-Key", Ask: Ask{Path: "/charges/{key}", Answers: true}}))
	a = attemptOf(t, asking, post("/charges", `{"cvc":"987"}`, kind, js))
	bodies = nil
	require.IsType(t, &claim.Done{}, asking.Attempt(t.Context(), recovery(a)))
	require.Equal(t, []string{""}, bodies, "that is the look-up")
}

// TestWhatIsStoredOfARequestThatIsNeverRepeated: nothing of it.
func TestWhatIsStoredOfARequestThatIsNeverRepeated(t *testing.T) {
	g := newGateway(t, "http://127.0.0.1:9")
	a := attemptOf(t, g, post("/orders?card[cvc]=987", `{"name":"Ada"}`, "Content-Type", "application/json", "Authorization", "Bearer secret"))
	plain, err := g.c.Seal.Open(t.Context(), row(a.Record.Key), a.Payload)
	require.NoError(t, err)
	require.NotContains(t, string(plain), "Ada")
	require.NotContains(t, string(plain), "987")
	require.NotContains(t, string(plain), "secret")
}

func TestHowARouteReadsReplies(t *testing.T) {
	status, header, body := 200, http.Header{}, ""
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer upstream.Close()
	rules := Route{Replies: []Reply{
		{Status: []string{"200"}, Member: "/status", Is: []any{"failed", 7}, Outcome: "refused"},
		{Status: []string{"200"}, Member: "/paid", Is: []any{false}, Outcome: "released"},
		{Member: "/error", Outcome: "unknown"},
		{Header: "X-Retry", Is: []any{"true"}, Outcome: "released"},
		{Status: []string{"404", "5xx"}, Header: "X-Never", Outcome: "refused"},
	}}
	stripe, adyen := Route{Profile: "stripe"}, Route{Profile: "adyen"}
	for _, tc := range []struct {
		route  Route
		status int
		header http.Header
		body   string
		first  claim.Outcome
		repeat claim.Outcome // nil: as the first
	}{
		{rules, 200, nil, `{"status":"failed"}`, &claim.Refused{}, &claim.Unknown{}},
		{rules, 200, nil, `{"status":7}`, &claim.Refused{}, &claim.Unknown{}},
		{rules, 200, nil, `{"status":"paid"}`, &claim.Done{}, nil},
		{rules, 200, nil, `{"paid":false}`, &claim.Released{}, &claim.Unknown{}},
		{rules, 200, nil, `{"paid":true}`, &claim.Done{}, nil},
		{rules, 201, nil, `{"error":null}`, &claim.Unknown{}, nil},
		{rules, 201, nil, `no JSON`, &claim.Unknown{}, nil},
		{rules, 201, nil, `{}`, &claim.Done{}, nil},
		{rules, 204, nil, ``, &claim.Done{}, nil},
		{rules, 503, http.Header{"X-Retry": {"true"}}, "{}", &claim.Released{}, &claim.Unknown{}},
		{rules, 503, http.Header{"X-Retry": {"false"}}, "{}", &claim.Unknown{}, nil},
		{rules, 503, http.Header{"X-Never": {""}}, "{}", &claim.Refused{}, &claim.Unknown{}},
		{stripe, 402, nil, `{"error":{}}`, &claim.Refused{}, &claim.Unknown{}},
		{stripe, 402, http.Header{"Idempotent-Replayed": {"true"}}, `{"error":{}}`, &claim.Refused{}, &claim.Refused{}},
		{stripe, 409, nil, `{"error":{}}`, &claim.Unknown{}, nil},
		{stripe, 409, http.Header{"Idempotent-Replayed": {"true"}}, `{"error":{}}`, &claim.Unknown{}, nil},
		{stripe, 500, http.Header{"Idempotent-Replayed": {"true"}}, `{"error":{}}`, &claim.Unknown{}, nil},
		{stripe, 429, nil, `{"error":{}}`, &claim.Released{}, &claim.Unknown{}},
		{adyen, 422, nil, `{"errorCode":"101"}`, &claim.Refused{}, &claim.Unknown{}},
		{adyen, 422, nil, `{"errorCode":"704"}`, &claim.Unknown{}, nil},
		{adyen, 403, nil, `{"errorCode":"010"}`, &claim.Released{}, &claim.Unknown{}},
		{adyen, 403, nil, `<html>`, &claim.Unknown{}, nil},
		{adyen, 422, http.Header{"Transient-Error": {"true"}}, `{"errorCode":"101"}`, &claim.Unknown{}, nil},
	} {
		tc.route.Dedupe = or(tc.route.Dedupe, "X-Once")
		g := newGateway(t, upstream.URL, plain(tc.route))
		status, header, body = tc.status, tc.header, tc.body
		a := attemptOf(t, g, post("/", "{}", "Content-Type", "application/json"))
		require.IsType(t, tc.first, g.Attempt(t.Context(), a), "%d %v %s", tc.status, tc.header, tc.body)
		if tc.repeat == nil {
			tc.repeat = tc.first
		}
		require.IsType(t, tc.repeat, g.Attempt(t.Context(), recovery(a)), "repeated: %d %v %s", tc.status, tc.header, tc.body)
	}
	g := newGateway(t, upstream.URL, plain(Route{KeepHeaders: []string{"x-order"}}))
	status, header, body = 201, http.Header{"X-Order": {"7"}, "X-Other": {"8"}}, ""
	done := g.Attempt(t.Context(), attemptOf(t, g, post("/", "{}"))).(*claim.Done)
	require.Equal(t, "7", done.Response.Field("X-Order"))
	require.Empty(t, done.Response.Field("X-Other"))
}

// TestAsking: what was done is found, and what is not found is a no only if that is sure.
func TestAsking(t *testing.T) {
	status, body := 200, `{"id":7}`
	var asked []string
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.RequestURI+" "+r.Header.Get("Authorization")+r.Header.Get("Idempotency-Key")+r.Header.Get("Content-Type"))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer upstream.Close()
	ask := func(route Route, notFounds uint32) claim.Outcome {
		route.Match = "POST /shops/{shop}/orders"
		g := newGateway(t, upstream.URL+"/base", routes(route))
		sent := `{"ref":"r 1"}`
		if strings.Contains(route.Ask.Path, "twice") {
			sent = `{"twice":"a","twice":"b"}`
		}
		a := recovery(attemptOf(t, g, post("/shops/a%2Fb/orders", sent, "Content-Type", "application/json", "Authorization", "Bearer t")))
		a.Record.NotFounds = notFounds
		asked = nil
		return g.Attempt(t.Context(), a)
	}
	found := ask(Route{Ask: Ask{Path: "/shops/{shop}/orders/{key}?ref={/ref}&t={tenant}", Replies: askReplies[:1]}}, 0).(*claim.Done)
	require.Equal(t, []string{"GET /base/shops/a%2Fb/orders/k-1?ref=r+1&t=gateway Bearer t"}, asked)
	require.Equal(t, claim.Response{Status: 303, Header: []claim.HeaderField{{Name: "Location", Value: "/shops/a%2Fb/orders/k-1?ref=r+1&t=gateway"}}}, found.Response)
	found = ask(Route{Ask: Ask{Path: "/orders/{key}", Answers: true}}, 0).(*claim.Done)
	require.Equal(t, []any{200, `{"id":7}`}, []any{found.Response.Status, string(found.Response.Body)})
	require.Equal(t, "cannot_repeat", ask(Route{Ask: Ask{Path: "/orders/{/gone}"}}, 0).(*claim.Unknown).Reason, "the request lacks what the look-up names")
	require.Equal(t, "cannot_repeat", ask(Route{Ask: Ask{Path: "/orders/{/twice}"}}, 0).(*claim.Unknown).Reason, "nobody knows which of them the upstream takes")
	require.Empty(t, asked)

	search := Ask{Path: "/orders?ref={key}", SureAfter: time.Minute, Replies: []Reply{
		{Status: []string{"2xx"}, Member: "/data/0/id", Outcome: "done"}, {Status: []string{"2xx"}, Member: "/data", Outcome: "released"},
	}}
	body = `{"data":[{"id":7}]}`
	require.IsType(t, &claim.Done{}, ask(Route{Ask: search}, 0))
	body = `{"data":[]}`
	first := ask(Route{Ask: search}, 0).(*claim.Unknown)
	require.Equal(t, []any{"not_found", true, time.Minute}, []any{first.Reason, first.NotFound, first.RetryIn})
	second := ask(Route{Ask: search}, 1).(*claim.Released)
	p, err := problem.Parse(second.Response.Body)
	require.NoError(t, err)
	require.Equal(t, []any{problem.Unreachable, problem.SameKey}, []any{p.Code, p.Retry})
	status, body = 404, ""
	unsure := ask(Route{Ask: Ask{Path: "/orders/{key}"}}, 5).(*claim.Unknown)
	require.Equal(t, []any{"not_found", false}, []any{unsure.Reason, unsure.NotFound}, "it may be on its way")
	for _, status = range []int{401, 404, 500} {
		require.IsType(t, &claim.Unknown{}, ask(Route{Ask: search}, 1), "%d", status)
	}
	status, body = 200, "{}"
	require.Equal(t, "cannot_repeat", ask(Route{Recovery: "none", Ask: Ask{Path: "/orders/{key}"}}, 0).(*claim.Unknown).Reason)
	require.Empty(t, asked)
	upstream.Close()
	require.Equal(t, "asked_not_sent", ask(Route{Ask: search}, 1).(*claim.Unknown).Reason)
}

// TestARepliesWindow: what the upstream said has the route's, as it was when the request came, and what a
// key ends with otherwise has the deployment's.
func TestARepliesWindow(t *testing.T) {
	status := 201
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer upstream.Close()
	sent := newGateway(t, upstream.URL, plain(Route{ReplayFor: time.Hour, Dedupe: "X-Once", Ask: Ask{Path: "/o/{key}"}}))
	a := attemptOf(t, sent, post("/orders", "{}", "Content-Type", "application/json"))
	changed := newGateway(t, upstream.URL, plain(Route{Dedupe: "X-Once"}))
	require.Equal(t, time.Hour, changed.Attempt(t.Context(), recovery(a)).(*claim.Done).Response.ReplayFor, "a repeat, by a node with other settings")
	require.Equal(t, time.Hour, sent.Attempt(t.Context(), a).(*claim.Done).Response.ReplayFor)
	asking := recovery(a)
	asking.Record.FirstUse = asking.Now.Add(-100 * time.Hour) // nothing is repeated any more
	require.Equal(t, time.Hour, sent.Attempt(t.Context(), asking).(*claim.Done).Response.ReplayFor, "a look-up")
	status = 422
	require.Equal(t, time.Hour, sent.Attempt(t.Context(), a).(*claim.Refused).Response.ReplayFor)
	status = 500
	require.Zero(t, sent.Attempt(t.Context(), a).(*claim.Unknown).GiveUp.Response.ReplayFor)
	require.Zero(t, changed.Attempt(t.Context(), attemptOf(t, changed, post("/orders", "{}"))).(*claim.Unknown).GiveUp.Response.ReplayFor)

	s := DefaultSettings()
	s.Routes = []Route{{ReplayFor: time.Hour}, {}, {ReplayFor: 2 * time.Hour}}
	require.NoError(t, s.ReplayedLonger(2*time.Hour))
	require.EqualError(t, s.ReplayedLonger(time.Hour), "settings: gateway.routes[2] replay_for is 2h0m0s, longer than claim.replay_for, which is 1h0m0s; shorten it, or lengthen that at every node")
}

// TestWhatWasNeverBegunIsSent: the row says that the first holder called nothing, and a worker without the
// body releases the key.
func TestWhatWasNeverBegunIsSent(t *testing.T) {
	sends := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sends++
		w.WriteHeader(http.StatusUnprocessableEntity) // no repeat would be believed
	}))
	defer upstream.Close()
	g := newGateway(t, upstream.URL)
	a := attemptOf(t, g, post("/orders", "{}"))
	require.NotEmpty(t, a.Unstored)
	again := recovery(a)
	again.Unstored = a.Unstored // of the retry
	require.Equal(t, reasonCannotRepeat, g.Attempt(t.Context(), again).(*claim.Unknown).Reason)
	again.Record.Generation, again.Record.Attempts, again.Record.Reason = 1, 2, "lease_ran_out"
	require.IsType(t, &claim.Refused{}, g.Attempt(t.Context(), again))
	require.Equal(t, 1, sends)
	again.Unstored = nil // of a worker
	require.IsType(t, &claim.Released{}, g.Attempt(t.Context(), again))
	require.Equal(t, 1, sends)
}

// TestAHomeWithoutAnUpstream: nothing is sent elsewhere, and nothing is said to be unknown of what was not
// sent.
func TestAHomeWithoutAnUpstream(t *testing.T) {
	sends := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sends++ }))
	defer upstream.Close()
	set := func(s *Settings) { s.Upstream, s.Upstreams = "", []string{"us-east1=" + upstream.URL} }
	g := newGateway(t, upstream.URL, plain(Route{Dedupe: "X-Once"}), with(set))
	a := attemptOf(t, g, post("/orders", "{}"))
	a.Record.Home = "eu"
	require.Equal(t, reasonNoUpstream, g.Attempt(t.Context(), a).(*claim.Released).Reason)
	require.Equal(t, reasonNoUpstream, g.Attempt(t.Context(), recovery(a)).(*claim.Unsent).Reason)
	require.Zero(t, sends)

	s := DefaultSettings()
	s.Upstreams = []string{"us=http://a", "eu=http://b"}
	require.NoError(t, s.UnknownRegions([]string{"eu", "us", "asia"}))
	require.EqualError(t, s.UnknownRegions([]string{"us", "asia"}), "settings: gateway.upstreams[1] names the region eu, which does not exist; write one of us, asia")
	require.Equal(t, []string{"asia"}, s.WithoutUpstream([]string{"eu", "us", "asia"}))
	s.ShareKeys = true
	require.Empty(t, s.WithoutUpstream([]string{"asia"}), "each region sends to its own")
}

// TestALookUpStaysAtItsPath, whatever the values of a caller are.
func TestALookUpStaysAtItsPath(t *testing.T) {
	asked := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked++ }))
	defer upstream.Close()
	for path, values := range map[string][]string{
		"/v1/orders/{/ref}/status":  {"..", ".", "../users", `..\\users`, "a/../.."},
		"/v1/orders/.{/ref}/status": {".", "./x"},
	} {
		g := newGateway(t, upstream.URL, plain(Route{Ask: Ask{Path: path}}))
		for _, value := range values {
			r := post("/v1/orders", `{"ref":"`+value+`"}`, "Content-Type", "application/json")
			got := g.Attempt(t.Context(), recovery(attemptOf(t, g, r))).(*claim.Unknown)
			require.Equal(t, []any{reasonCannotRepeat, 0}, []any{got.Reason, asked}, "%s with %s", path, value)
		}
		r := post("/v1/orders", `{"ref":"a/b..c"}`, "Content-Type", "application/json")
		require.IsType(t, &claim.Done{}, g.Attempt(t.Context(), recovery(attemptOf(t, g, r))))
		asked = 0
	}
}

// TestALookUpNamesTheKeyThatTheUpstreamGot, also where claims have another spelling of it.
func TestALookUpNamesTheKeyThatTheUpstreamGot(t *testing.T) {
	orders := map[string]bool{}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			if !orders[r.URL.Query().Get("ref")] {
				w.WriteHeader(http.StatusNotFound)
			}
			return
		}
		body, _ := io.ReadAll(r.Body)
		ref := textAt(body, "/reference")
		if ref == "" {
			ref = r.Header.Get("Idempotency-Key")
		}
		orders[ref] = true
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer upstream.Close()
	const kind, upper = "Content-Type", "F47AC10B-58CC-4372-A567-0E02B2C3D479"
	keyed := func(key string) *http.Request {
		r := post("/orders", `{}`)
		r.Header.Set("Idempotency-Key", key)
		return r
	}
	for name, one := range map[string]struct {
		route Route
		r     *http.Request
	}{
		"a member, a UUID in upper case":           {Route{Key: Key{Member: "/reference"}}, post("/orders", `{"reference":"`+upper+`"}`, kind, "application/json")},
		"a header, a UUID in upper case":           {Route{}, keyed(upper)},
		"a header, quoted":                         {Route{}, keyed(`"order-7"`)},
		"a header, quoted, and another one a path": {Route{Key: Key{Scope: "path"}}, keyed(`"order-8"`)},
		"the header for repeats":                   {Route{Dedupe: "Idempotency-Key", Recovery: "ask"}, keyed(`"order-9"`)},
	} {
		one.route.Ask = Ask{Path: "/orders?ref={key}", SureAfter: time.Second, Replies: askReplies}
		g := newGateway(t, upstream.URL, plain(one.route))
		a := attemptOf(t, g, one.r)
		require.IsType(t, &claim.Unknown{}, g.Attempt(t.Context(), a), name)
		a = recovery(a)
		a.Record.NotFounds = 1
		require.IsType(t, &claim.Done{}, g.Attempt(t.Context(), a), "%s: released, a retry would be sent", name)
	}
	// A retry in another spelling is one key, and another request: its look-up would find nothing.
	g := newGateway(t, upstream.URL)
	a, b := requestOf(t, g, keyed(upper), nil), requestOf(t, g, keyed(strings.ToLower(upper)), nil)
	require.Equal(t, a.Key, b.Key)
	require.NotEqual(t, a.Input.Canonical, b.Input.Canonical)
}

func TestWhoseCredentialsARecoveryUses(t *testing.T) {
	var got []string
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Header.Get("Authorization")+" "+r.Header.Get("Cookie")+" "+string(body))
	}))
	defer upstream.Close()
	g := newGateway(t, upstream.URL, plain(Route{Dedupe: "X-Once", Credentials: "service"}), func(c *Config) { c.Service = "authorization: Bearer service" })
	a := attemptOf(t, g, post("/", "{}", "Content-Type", "application/json", "Authorization", "Bearer caller", "Cookie", "a=b"))
	plain, err := g.c.Seal.Open(t.Context(), row(a.Record.Key), a.Payload)
	require.NoError(t, err)
	require.NotContains(t, string(plain), "Bearer")
	require.NotContains(t, string(plain), "a=b")
	require.IsType(t, &claim.Done{}, g.Attempt(t.Context(), a))
	require.IsType(t, &claim.Done{}, g.Attempt(t.Context(), recovery(a)))
	require.Equal(t, []string{"Bearer caller a=b {}", "Bearer service  {}"}, got)
	for _, bad := range []string{"Bearer hunter2", "a b: hunter2", "Authorization:", "Authorization: hunter2\nb"} {
		_, _, err := ReadService(bad)
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// TestARequestGoesToTheUpstreamOfItsHome: another one recognises no repeat of it, and would find nothing.
func TestARequestGoesToTheUpstreamOfItsHome(t *testing.T) {
	var us, eu atomic.Int64
	at := func(n *atomic.Int64) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	set := func(s *Settings) { s.Upstreams = []string{"us-east1=" + at(&us), "europe-west1=" + at(&eu)} }
	for _, share := range []bool{false, true} {
		g := newGateway(t, "http://127.0.0.1:1", plain(Route{Dedupe: "X-Once", Ask: Ask{Path: "/x/{key}"}}), with(set), with(func(s *Settings) { s.ShareKeys = share }))
		a := attemptOf(t, g, post("/", "{}", "Content-Type", "application/json")) // in us-east1
		a.Record.Home = "europe-west1"                                            // as its deputy
		us.Store(0)
		eu.Store(0)
		g.Attempt(t.Context(), a)
		g.Attempt(t.Context(), recovery(a))
		late := recovery(a)
		late.Now = late.Record.FirstUse.Add(day) // it asks
		g.Attempt(t.Context(), late)
		if share {
			require.Equal(t, []int64{3, 0}, []int64{us.Load(), eu.Load()})
		} else {
			require.Equal(t, []int64{0, 3}, []int64{us.Load(), eu.Load()})
		}
		a.Record.Home = "asia-northeast1" // without an upstream of its own, it has that of all others
		if !share {
			require.Equal(t, "not_sent", g.Attempt(t.Context(), a).(*claim.Released).Reason)
		}
	}
}

func TestDialects(t *testing.T) {
	again, never := problem.New(problem.OutcomeUnknown, "d"), problem.New(problem.OutcomeUnknown, "d")
	never.Retry = problem.Never
	is := func(code problem.Code) problem.Problem { return problem.New(code, "d") }
	for _, tc := range []struct {
		dialect Dialect
		p       problem.Problem
		status  int
		body    string
		header  string
	}{
		{"stripe", is(problem.KeyInUse), 409, `{"error":{"code":"idempotency_key_in_use","message":"d","type":"idempotency_error"}}`, "true"},
		{"stripe", is(problem.FingerprintMismatch), 400, `"type":"idempotency_error"`, "false"},
		{"stripe", is(problem.KeyExpired), 400, `"type":"idempotency_error"`, "false"},
		{"stripe", is(problem.RateLimited), 429, `"code":"rate_limit"`, "false"},
		{"stripe", again, 503, `"code":"outcome_unknown","message":"d","type":"api_error"`, "true"},
		{"stripe", is(problem.BodyTooLarge), 413, `"type":"invalid_request_error"`, "false"},
		{"adyen", is(problem.KeyInUse), 422, `{"status":422,"errorCode":"704","message":"d","errorType":"validation"}`, "true"},
		{"adyen", is(problem.FingerprintMismatch), 422, `"errorType":"validation"`, ""},
		{"adyen", again, 503, `"errorCode":"outcome_unknown","message":"d","errorType":"internal"`, "true"},
		{"adyen", is(problem.Unauthorized), 401, `"errorType":"security"`, ""},
		{"acp", is(problem.KeyMissing), 400, `{"type":"invalid_request","code":"idempotency_key_required","message":"d"}`, ""},
		{"acp", is(problem.FingerprintMismatch), 422, `"code":"idempotency_conflict"`, ""},
		{"acp", is(problem.KeyInUse), 409, `"type":"invalid_request","code":"idempotency_in_flight"`, ""},
		{"acp", again, 503, `"type":"service_unavailable","code":"outcome_unknown"`, ""},
		{"acp", never, 422, `"type":"processing_error","code":"outcome_unknown"`, ""},
		{"", again, 503, `"type":"/_homeward/errors/outcome_unknown"`, ""},
	} {
		got := tc.dialect.Spell(&tc.p, "k")
		require.Equal(t, tc.status, got.Status, "%s %s", tc.dialect, tc.p.Code)
		require.Contains(t, string(got.Body), tc.body, "%s %s", tc.dialect, tc.p.Code)
		require.Equal(t, tc.header, or(got.Header["Stripe-Should-Retry"], got.Header["Transient-Error"]), "%s %s", tc.dialect, tc.p.Code)
	}
	r := rendered(&never)
	p, own := OwnError(&r)
	require.True(t, own)
	require.Equal(t, r.Body, Dialect("").Spell(&p, "k").Body, "what is stored is what is spelled again")
	_, own = OwnError(&claim.Response{Header: r.Header, Body: []byte(`{"type":"https://upstream.example/x"}`)})
	require.False(t, own, "that is the upstream's")
}

type canceling struct {
	rec claim.Record
	err error
}

func (c canceling) Cancel(context.Context, string, *claim.Request) (claim.Record, claim.Reply, error) {
	return c.rec, claim.Reply{Replayed: true}, c.err
}

func TestWhatACancellationSays(t *testing.T) {
	for _, tc := range []struct {
		rec  claim.Record
		want int
		says string
	}{
		{claim.Record{Operation: claim.CancelKey, State: claim.FailedTerminal}, 200, `"outcome":"unused"`},
		{claim.Record{Operation: Operation, State: claim.FailedTerminal, Reason: "key_canceled"}, 200, `"outcome":"not_made"`},
		{claim.Record{Operation: Operation, State: claim.InFlight}, 202, `"outcome":"unknown"`},
		{claim.Record{Operation: Operation, State: claim.Completed}, 400, "already_made"},
		{claim.Record{Operation: Operation, State: claim.FailedTerminal, Reason: claim.ReasonOutcomeUnknown}, 503, `"retry":"never"`},
	} {
		reply, err := Cancel(t.Context(), canceling{rec: tc.rec}, "us", nil)
		require.NoError(t, err)
		require.Equal(t, tc.want, reply.Response.Status)
		require.Contains(t, string(reply.Response.Body), tc.says)
	}
	_, err := Cancel(t.Context(), canceling{err: claim.ErrUnavailable}, "us", nil)
	require.ErrorIs(t, err, claim.ErrUnavailable)
	g := newGateway(t, "http://127.0.0.1:9")
	for _, a := range []claim.Attempt{{Record: claim.Record{Operation: claim.CancelKey}, Payload: []byte("{}")}, {Closing: true, Canceled: true}} {
		require.Equal(t, "key_canceled", g.Attempt(t.Context(), a).(*claim.Refused).Reason)
	}
}

// TestTheHeadersOfALookUp: it asks as its caller, and for the whole answer as the API has it now. What the
// caller said about the request itself is no part of the question.
func TestTheHeadersOfALookUp(t *testing.T) {
	var got http.Header
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer upstream.Close()
	g := newGateway(t, upstream.URL, plain(Route{Dedupe: "X-Once", DedupeFor: 2 * time.Hour, Ask: Ask{Path: "/o/{key}"}, Recovery: "ask"}))
	r := post("/o", `{}`, "Authorization", "Bearer t", "X-Shop", "7", "Accept", "application/json", "X-Forwarded-For", "192.0.2.7",
		"Accept-Encoding", "gzip, br", "If-Match", `"1"`, "If-None-Match", "*", "If-Modified-Since", "x", "Range", "bytes=0-0", "Prefer", "return=minimal",
		"X-Http-Method-Override", "DELETE", "X-Http-Method", "DELETE", "X-Method-Override", "DELETE", "X-Original-Url", "/x", "X-Rewrite-Url", "/x",
		"Content-Type", "application/json", "Content-Language", "de", "Content-Md5", "x", "Digest", "x", "X-Once", "1", "X-Idempotency-Key", "1",
		"Cache-Control", "max-stale", "Pragma", "x")
	r.RemoteAddr, r.Host = "198.51.100.1:9", "api.example.com"
	require.IsType(t, &claim.Done{}, g.Attempt(t.Context(), recovery(attemptOf(t, g, r))))
	require.Equal(t, http.Header{
		"Authorization": {"Bearer t"}, "X-Shop": {"7"}, "Accept": {"application/json"}, "Accept-Encoding": {"identity"}, "Cache-Control": {"no-cache"},
		"X-Forwarded-For": {"192.0.2.7, 198.51.100.1"}, "X-Forwarded-Host": {"api.example.com"}, "X-Forwarded-Proto": {"http"},
	}, got)
}

// TestNobodyAsksInTheServicesPlace: without the service's credentials a recovery calls nobody. An API that
// hides what it has from strangers would say that it has nothing.
func TestNobodyAsksInTheServicesPlace(t *testing.T) {
	calls := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer upstream.Close()
	for recovers, route := range map[string]Route{
		"ask":    {Ask: Ask{Path: "/orders/{key}", SureAfter: time.Second}},
		"repeat": {Dedupe: "X-Once"},
		"none":   {},
	} {
		route.Credentials = "service"
		g := newGateway(t, upstream.URL, plain(route), func(c *Config) { c.Service = "Authorization: Bearer service" })
		a := recovery(attemptOf(t, g, post("/orders", `{}`, "Content-Type", "application/json", "Authorization", "Bearer t")))
		a.Record.NotFounds = 1
		later := newGateway(t, upstream.URL) // the settings and the service's credentials are gone
		calls = 0
		if recovers == "none" {
			require.Equal(t, "cannot_repeat", later.Attempt(t.Context(), a).(*claim.Unknown).Reason)
		} else {
			require.Equal(t, &claim.Unsent{Reason: "no_credentials"}, later.Attempt(t.Context(), a), recovers)
		}
		require.Zero(t, calls, recovers)
		if recovers != "none" {
			require.IsType(t, &claim.Done{}, g.Attempt(t.Context(), a), recovers)
		}
	}
}

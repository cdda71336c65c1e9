package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/internal/seal/sealtest"
	"github.com/homeward-io/homeward/region"
)

const gatewayFile = `
gateway:
  upstream: http://127.0.0.1:9000
  upstreams: [us-east1=http://10.0.0.1:9000]
  tenant: {from: header, name: X-Tenant}
  trusted_proxies: [10.0.0.0/8]
  routes:
    - match: POST /v1/orders/{id}
      profile: acp
      key: {member: /reference, missing: refuse}
      fingerprint: {without: [at], headers: [none]}
      timeout: 30s
      body_bytes: 4096
      dedupe: none
      never_store: [none]
      ask:
        path: /v1/orders?reference={key}
        sure_after: 1m
        replies:
          - {status: 2xx, member: /data/0, outcome: done}
          - {status: [404, "410"], member: /gone, is: [true, 7, x], outcome: released, repeat: true}
`

func TestRulesOfRoutesInAFile(t *testing.T) {
	want := gateway.Route{
		Match: "POST /v1/orders/{id}", Profile: "acp", Key: gateway.Key{Member: "/reference", Missing: "refuse"},
		Fingerprint: gateway.Fingerprint{Without: []string{"at"}, Headers: []string{"none"}}, Timeout: 30 * time.Second, BodyBytes: 4096, Dedupe: "none", NeverStore: []string{"none"},
		Ask: gateway.Ask{Path: "/v1/orders?reference={key}", SureAfter: time.Minute, Replies: []gateway.Reply{
			{Status: []string{"2xx"}, Member: "/data/0", Outcome: "done"},
			{Status: []string{"404", "410"}, Member: "/gone", Is: []any{true, 7, "x"}, Outcome: "released", Repeat: true},
		}},
	}
	path := write(t, gatewayFile)
	serve, _, err := LoadServeSettings(path, nil)
	require.NoError(t, err)
	require.Equal(t, []gateway.Route{want}, serve.Gateway.Routes)
	require.Equal(t, gateway.Tenant{From: "header", Name: "X-Tenant"}, serve.Gateway.Tenant)
	require.Empty(t, serve.providers(), "a gateway calls no provider")
	require.NotContains(t, Secrets{}.Missing(serve).Error(), "provider")
	require.EqualValues(t, gatewayGenerations, serve.policy().MaxGenerations)
	require.Zero(t, serve.policy().RememberFor)
	text, err := serve.YAML()
	require.NoError(t, err)
	again, _, err := LoadServeSettings(write(t, string(text)), nil)
	require.NoError(t, err, "what is printed can be used")
	require.Equal(t, printed(t, serve), printed(t, again))

	alone, _, err := LoadGatewaySettings(path, []string{"HOMEWARD_GATEWAY__UPSTREAM=http://127.0.0.1:9001"}, func(*gateway.Settings) {})
	require.NoError(t, err)
	require.Equal(t, []gateway.Route{want}, alone.Gateway.Routes)
	require.Equal(t, "http://127.0.0.1:9001", alone.Gateway.Upstream)

	for text, says := range map[string][]string{
		"gateway: {upstream: x}": {"gateway.upstream", "http://127.0.0.1:9000"},
		"gateway: {upstram: x}":  {"there is no setting named gateway.upstram", "gateway.upstream"},
		"gateway: {upstream: 'http://a', routes: [{match: POST /x, profil: x}]}":     {"gateway.routes[0] has no setting named profil; did you mean profile?"},
		"gateway: {upstream: 'http://a', routes: [{match: POST /x, timeout: 30}]}":   {"gateway.routes[0].timeout has no unit; write one, as in 30s"},
		"gateway: {upstream: 'http://a', routes: [{match: POST /x, ask: {pat: x}}]}": {"gateway.routes[0].ask has no setting named pat; did you mean path?"},
		"gateway: {credentials: hunter2}":                                            {"gateway.credentials is a secret", GatewayCredentials},
		"gateway: {upstream: 'http://a'}\nseal: false":                               {"seal is false"},
		"gateway: {upstream: 'http://a'}\nprovider: {kind: stripe, name: stripe}":    {"settings: provider, providers and default_provider are of the API of payments", "take them out"},
		"gateway: {upstream: 'http://a'}\nproviders: {x: {}}":                        {"this node is a gateway"},
		"gateway: {upstream: 'http://a', routes: [{match: POST /x, timeout: 50s}]}":  {"take 50s", "below 45s, which is drain"},
	} {
		_, _, err := LoadServeSettings(write(t, text), nil)
		require.Error(t, err, text)
		for _, say := range says {
			require.ErrorContains(t, err, say)
		}
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, _, err = LoadServeSettings("", []string{GatewayCredentials + "=hunter2"})
	require.ErrorContains(t, err, "credentials are no header")
	require.NotContains(t, err.Error(), "hunter2")
	for text, says := range map[string]string{
		"gateway: {upstream: 'http://a', upstreams: ['us-eest1=http://b']}": "gateway.upstreams[0] names the region us-eest1, which does not exist; write one of us-east1, ",
		"gateway: {upstream: 'http://a', upstreams: ['us-east1=http://b']}": "",
	} {
		_, _, err := LoadGatewaySettings(write(t, text), nil, func(*gateway.Settings) {})
		if says == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, says)
	}
	needy, secrets, err := LoadServeSettings(write(t, "gateway: {upstream: 'http://a', routes: [{match: POST /x, credentials: service}]}"), nil)
	require.NoError(t, err)
	require.ErrorContains(t, secrets.Missing(needy), GatewayCredentials)
}

func printed(t *testing.T, s ServeSettings) string {
	t.Helper()
	text, err := s.YAML()
	require.NoError(t, err)
	return string(text)
}

// issuer signs tokens, and shows its keys while it is up.
type issuer struct {
	*httptest.Server
	key *ecdsa.PrivateKey
	up  atomic.Bool
}

func newIssuer(t *testing.T) *issuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	i := &issuer{key: key}
	i.up.Store(true)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !i.up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) token(t *testing.T, key *ecdsa.PrivateKey, change func(claims map[string]any)) string {
	t.Helper()
	claims := map[string]any{"iss": i.URL, "aud": "orders", "sub": "acme", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix()}
	change(claims)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	require.NoError(t, err)
	body, err := json.Marshal(claims)
	require.NoError(t, err)
	signed, err := signer.Sign(body)
	require.NoError(t, err)
	text, err := signed.CompactSerialize()
	require.NoError(t, err)
	return text
}

func TestTokensAreVerified(t *testing.T) {
	i := newIssuer(t)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	verify := verifier(gateway.JWT{Keys: i.URL, Issuer: i.URL, Audience: "orders"})
	i.up.Store(false)
	_, err = verify(t.Context(), i.token(t, i.key, func(map[string]any) {}))
	require.ErrorIs(t, err, errKeys)
	require.NotErrorIs(t, err, gateway.ErrNoIdentity, "the token may be good")
	i.up.Store(true)
	var claims map[string]any
	require.Eventually(t, func() bool { // a fetch that has just failed may still answer
		claims, err = verify(t.Context(), i.token(t, i.key, func(map[string]any) {}))
		return err == nil
	}, time.Minute, time.Millisecond, "%v", err)
	require.Equal(t, "acme", claims["sub"])
	i.up.Store(false) // the keys are known by now
	_, err = verify(t.Context(), i.token(t, i.key, func(map[string]any) {}))
	require.NoError(t, err)
	i.up.Store(true)
	for name, token := range map[string]string{
		"another's key": i.token(t, other, func(map[string]any) {}),
		"an issuer":     i.token(t, i.key, func(c map[string]any) { c["iss"] = "https://evil" }),
		"an audience":   i.token(t, i.key, func(c map[string]any) { c["aud"] = "others" }),
		"expired":       i.token(t, i.key, func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() }),
		"none":          "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhY21lIn0.",
		"no token":      "acme",
	} {
		_, err := verify(t.Context(), token)
		require.ErrorIs(t, err, gateway.ErrNoIdentity, name)
	}
}

// directory is rows of tenants that may be away.
type directory struct {
	rows map[string]claim.Tenant
	puts int
	err  error
}

func (d *directory) Tenant(_ context.Context, id string) (claim.Tenant, error) {
	t, ok := d.rows[id]
	switch {
	case d.err != nil:
		return claim.Tenant{}, d.err
	case !ok:
		return claim.Tenant{}, claim.ErrUnknownTenant
	}
	return t, nil
}

func (d *directory) PutTenant(_ context.Context, t claim.Tenant, _ ...string) error {
	d.puts++
	d.rows[t.ID] = t
	return d.err
}

// TestATenantThatAppearsGetsARow: with the region that saw it as its registrar, and without a command.
func TestATenantThatAppearsGetsARow(t *testing.T) {
	d := &directory{rows: map[string]claim.Tenant{"old": {ID: "old", Registrar: "eu", RatePerSecond: 7}}}
	n := &Node{c: Config{Region: "us", Payments: Payments{Accounts: d}}}
	n.accounts = newAccounts()
	_, err := n.gatewayTenant(t.Context(), "new")
	require.ErrorIs(t, err, claim.ErrUnknownTenant)
	got, err := n.newGatewayTenant(t.Context(), "new", "New & Co")
	require.NoError(t, err)
	require.Equal(t, claim.Tenant{ID: "new", Name: "New & Co", Registrar: "us"}, got)
	got, err = n.gatewayTenant(t.Context(), "old")
	require.NoError(t, err)
	require.Equal(t, []any{"eu", 7.0, 1}, []any{got.Registrar, got.RatePerSecond, d.puts})
	d.err = claim.ErrUnavailable
	n.accounts.rows.Add("old", cachedTenant{d.rows["old"], time.Now().Add(-time.Hour)})
	got, err = n.gatewayTenant(t.Context(), "old")
	require.NoError(t, err, "as it was")
	require.Equal(t, 7.0, got.RatePerSecond)
	_, err = n.gatewayTenant(t.Context(), "third")
	require.ErrorIs(t, err, claim.ErrUnavailable)
	_, err = n.newGatewayTenant(t.Context(), "third", "third")
	require.ErrorIs(t, err, claim.ErrUnavailable)
	d.err = nil
	delete(d.rows, "old")
	n.accounts.rows.Add("old", cachedTenant{claim.Tenant{ID: "old"}, time.Now().Add(-time.Hour)})
	_, err = n.gatewayTenant(t.Context(), "old")
	require.ErrorIs(t, err, claim.ErrUnknownTenant, "it was removed")
}

// TestAnUpstreamOfARegionThatIsNone: a node does not start with it. One without that of another region does.
func TestAnUpstreamOfARegionThatIsNone(t *testing.T) {
	start := func(upstreams ...string) error {
		s := gateway.DefaultSettings()
		s.Upstreams = upstreams
		through, _, err := OpenGateway(s, "", slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		cluster, err := StartCluster(t.Context(), ClusterConfig{
			Dir: filepath.Join(t.TempDir(), "store"), Tuning: DefaultTuning(), Regions: []ClusterRegion{{Region: region.Region{Name: "us-east1", Code: 1}}},
			Payments: Payments{Gateway: through}, Seal: sealtest.Ring(1),
		})
		if err != nil {
			return err
		}
		return cluster.Stop(context.WithoutCancel(t.Context()))
	}
	require.NoError(t, start("us-east1=http://127.0.0.1:9"))
	err := start("us-east1=http://127.0.0.1:9", "europe-west1=http://127.0.0.1:9")
	require.ErrorContains(t, err, "settings: gateway.upstreams[1] names the region europe-west1, which does not exist; write one of us-east1")
	require.Contains(t, lacksUpstream(&gateway.Settings{Upstreams: []string{"us-east1=http://127.0.0.1:9"}}, []string{"europe-west1", "us-east1"}), "has none for europe-west1: this node sends no request")
	require.Empty(t, lacksUpstream(&gateway.Settings{Upstream: "http://127.0.0.1:9"}, []string{"europe-west1"}))
}

// TestAGatewayTellsTenantsApart, by tokens, with limits of each.
func TestAGatewayTellsTenantsApart(t *testing.T) {
	i := newIssuer(t)
	var effects atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		effects.Add(1)
		w.WriteHeader(http.StatusCreated)
	}))
	defer upstream.Close()
	s := gateway.DefaultSettings()
	s.Upstream, s.Tenant, s.JWT = upstream.URL, gateway.Tenant{From: "claim", Name: "sub"}, gateway.JWT{Keys: i.URL, Issuer: i.URL, Audience: "orders"}
	through, _, err := OpenGateway(s, "", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	c := ClusterConfig{Dir: filepath.Join(t.TempDir(), "store"), Tuning: DefaultTuning(), Regions: []ClusterRegion{{Region: region.Region{Name: "us-east1", Code: 1}}, {Region: region.Region{Name: "europe-west1", Code: 2}}}, Payments: Payments{Gateway: through}, Seal: sealtest.Ring(1)}
	c.Limits.TenantRate, c.Limits.TenantBurst = 1e-6, 3
	cluster, err := StartCluster(t.Context(), c)
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Stop(context.WithoutCancel(t.Context()))) }()
	send := func(region int, method, path, token string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+cluster.Nodes[region].APIAddr()+path, strings.NewReader("{}"))
		require.NoError(t, err)
		r.Header.Set("Idempotency-Key", "order-1")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp
	}
	acme := i.token(t, i.key, func(map[string]any) {})
	renewed := i.token(t, i.key, func(c map[string]any) { c["iat"] = 1 })
	globex := i.token(t, i.key, func(c map[string]any) { c["sub"] = "globex|7" })
	require.Equal(t, 201, send(0, "POST", "/orders", acme).StatusCode)
	again := send(1, "POST", "/orders", renewed)
	require.Equal(t, []any{201, "true"}, []any{again.StatusCode, again.Header.Get("Idempotent-Replayed")}, "a token that was renewed is no other request")
	require.EqualValues(t, 1, effects.Load())
	require.Equal(t, 201, send(1, "POST", "/orders", globex).StatusCode)
	require.EqualValues(t, 2, effects.Load(), "another tenant's key is another key")
	require.Equal(t, 401, send(0, "POST", "/orders", "bad").StatusCode)
	require.Equal(t, 200, send(0, "GET", "/_homeward/idempotency-keys/order-1", acme).StatusCode)
	require.Equal(t, 401, send(0, "GET", "/_homeward/idempotency-keys/order-1", "bad").StatusCode)
	require.Equal(t, 429, func() (status int) {
		for range 4 {
			status = send(0, "POST", "/orders", acme).StatusCode
		}
		return status
	}(), string(problem.RateLimited))
	require.EqualValues(t, 2, effects.Load())
}

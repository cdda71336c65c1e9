package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/region"
)

// GatewayCredentials is the variable of the header with a gateway's own credentials at its upstream, as in
// "Authorization: Bearer …", for routes whose recovery uses them; see [Secret].
const GatewayCredentials = "HOMEWARD_GATEWAY_CREDENTIALS"

// gatewayGenerations is how many releases under one key stay releases: an upstream that is away
// releases a key with each retry, and no bank counts those.
const gatewayGenerations = 1 << 20

// GatewaySettings is the configuration file of homeward gateway: that of a demo, and the gateway's.
type GatewaySettings struct {
	Settings `koanf:",flatten,squash"`
	Gateway  gateway.Settings `koanf:"gateway"`
}

// DefaultGatewaySettings has no upstream. The upstream limits its callers, and their headers.
func DefaultGatewaySettings() GatewaySettings {
	s := GatewaySettings{DefaultSettings(), gateway.DefaultSettings()}
	s.Policy.MaxGenerations = gatewayGenerations
	s.Limits.TenantRate, s.Limits.TenantBurst = 0, 0
	return s
}

// LoadGatewaySettings reads the settings of homeward gateway, as LoadSettings does for the demo, and the
// secret of [GatewayCredentials]. upstream is in the place of the file's; "": the file names it. change is
// made to what was read.
func LoadGatewaySettings(path string, environ []string, change func(*gateway.Settings)) (s GatewaySettings, credentials string, err error) {
	s = DefaultGatewaySettings()
	err = load(path, environ, &s, others{"gateway", "serve", DefaultServeSettings(), []string{"compensations", "deputy_after", "topology_every"}})
	change(&s.Gateway)
	s.Limits.HeaderBytes = http.DefaultMaxHeaderBytes
	credentials, serr := Secret(environ, GatewayCredentials)
	_, _, herr := gateway.ReadService(credentials)
	return s, credentials, errors.Join(err, s.Settings.Validate(), s.Gateway.Validate(), s.Gateway.ReplayedLonger(s.Policy.ReplayFor), s.regionMistakes(), serr, herr)
}

// regionMistakes are the upstreams of regions that are none.
func (s *GatewaySettings) regionMistakes() error {
	var names []string
	for _, r := range s.Regions {
		names = append(names, r.Name)
	}
	return s.Gateway.UnknownRegions(names)
}

// lacksUpstream is the doubt about regions without an upstream, "" for none.
func lacksUpstream(s *gateway.Settings, regions []string) string {
	lack := s.WithoutUpstream(regions)
	if len(lack) == 0 {
		return ""
	}
	return fmt.Sprintf("gateway.upstreams has none for %s: this node sends no request of a key that is at home there, also not as its deputy; add it, or set gateway.upstream for all others", strings.Join(lack, ", "))
}

// gatewayMistakes are those of a node that is a gateway.
func (s *ServeSettings) gatewayMistakes() error {
	errs := []error{s.Gateway.Validate(), s.Gateway.ReplayedLonger(s.Policy.ReplayFor)}
	if s.Gateway.On() {
		if len(s.Providers) > 0 || s.DefaultProvider != "" || !reflect.DeepEqual(s.Provider, DefaultServeSettings().Provider) {
			errs = append(errs, errors.New("settings: provider, providers and default_provider are of the API of payments, and this node is a gateway; take them out, or gateway.upstream"))
		}
		if !s.Seal {
			errs = append(errs, errors.New("settings: seal is false, and a gateway stores requests with their credentials; take it out"))
		}
	}
	return errors.Join(errs...)
}

// OpenGateway opens what the settings of a gateway name: its executor's configuration, and the TLS of its
// listener, nil for plain HTTP.
func OpenGateway(s gateway.Settings, credentials string, log *slog.Logger) (*gateway.Config, *tls.Config, error) {
	c := &gateway.Config{Settings: s, Service: credentials}
	if s.JWT != (gateway.JWT{}) {
		c.Verify = verifier(s.JWT)
	}
	config, err := listenerTLS(s.TLS, log)
	return c, config, err
}

func listenerTLS(t gateway.TLS, log *slog.Logger) (*tls.Config, error) {
	if t.Cert == "" {
		return nil, nil
	}
	const hint = "gateway.tls.cert is a server's certificate in PEM that names the host of callers, and gateway.tls.key its key"
	if err := errors.Join(fileMistake("gateway.tls.cert", t.Cert, hint), fileMistake("gateway.tls.key", t.Key, hint)); err != nil {
		return nil, err
	}
	shown, err := region.NewServerCertificate(t.Cert, t.Key, log)
	if err != nil {
		return nil, fmt.Errorf("settings: gateway.tls.cert: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: shown.Get}
	if t.ClientCA == "" {
		return config, nil
	}
	text, err := os.ReadFile(t.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("settings: gateway.tls.client_ca: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("settings: gateway.tls.client_ca: %s has no certificate in PEM", t.ClientCA)
	}
	// Routes that need none, and probes, come without.
	config.ClientAuth = tls.VerifyClientCertIfGiven
	return config, nil
}

// speakAsGateway gives a server the protocols of a gateway, and its TLS: gRPC passes, also without TLS.
func speakAsGateway(s *http.Server, config *tls.Config) {
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	s.TLSConfig = config
}

// verifier verifies tokens by the issuer's keys, which it fetches when it meets one that it has not seen.
func verifier(j gateway.JWT) gateway.Verifier {
	client := &http.Client{Timeout: keysTime, Transport: fetching{http.DefaultTransport}}
	keys := oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), client), j.Keys) // the context is of fetches alone
	verify := oidc.NewVerifier(j.Issuer, fetched{keys}, &oidc.Config{ClientID: j.Audience, SupportedSigningAlgs: []string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
	}})
	return func(ctx context.Context, text string) (map[string]any, error) {
		var away error
		token, err := verify.Verify(context.WithValue(ctx, awayKey{}, &away), text)
		switch {
		case away != nil:
			return nil, away
		case errors.As(err, new(*oidc.TokenExpiredError)):
			return nil, gateway.NoIdentity("The token has expired.")
		case err != nil:
			return nil, gateway.NoIdentity("The token is not valid here.")
		}
		claims := map[string]any{}
		return claims, token.Claims(&claims)
	}
}

// keysTime bounds a fetch of an issuer's keys: a request waits for it.
const keysTime = 5 * time.Second

// errKeys: the issuer's keys could not be fetched, which says nothing about the token.
var errKeys = errors.New("the issuer's keys cannot be fetched")

// fetching makes every failure to fetch keys an errKeys.
type fetching struct{ http.RoundTripper }

func (f fetching) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errKeys, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%w: %s answered %s", errKeys, r.URL.Redacted(), resp.Status), resp.Body.Close())
	}
	return resp, nil
}

// awayKey is of the variable in a context that takes an errKeys: the verifier wraps no error of its keys.
type awayKey struct{}

type fetched struct{ oidc.KeySet }

// VerifySignature implements [oidc.KeySet].
func (f fetched) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := f.KeySet.VerifySignature(ctx, token)
	if away, ok := ctx.Value(awayKey{}).(*error); ok && errors.Is(err, errKeys) {
		*away = err
	}
	return payload, err
}

// accounts caches the rows of a gateway's tenants. It is safe for concurrent use.
type accounts struct {
	rows *lru.Cache[string, cachedTenant]
}

type cachedTenant struct {
	claim.Tenant
	at time.Time
}

const (
	// accountFor is how long a row is cached, as that of a tenant with an API key is.
	accountFor = 5 * time.Second
	// maxAccounts is how many rows are cached: some 10 MB.
	maxAccounts = 32 << 10
)

func newAccounts() accounts {
	rows, _ := lru.New[string, cachedTenant](maxAccounts) // it fails for a size below 1 alone
	return accounts{rows}
}

// gatewayTenant reads the row of a gateway's tenant. One that cannot be read again is taken as it was.
func (n *Node) gatewayTenant(ctx context.Context, id string) (claim.Tenant, error) {
	known, ok := n.accounts.rows.Get(id)
	if ok && time.Since(known.at) < accountFor {
		return known.Tenant, nil
	}
	t, err := n.c.Accounts.Tenant(ctx, id)
	switch {
	case err == nil:
		n.accounts.rows.Add(id, cachedTenant{t, time.Now()})
	case ok && !errors.Is(err, claim.ErrUnknownTenant): // which was removed
		return known.Tenant, nil
	}
	return t, err
}

// newGatewayTenant makes the row of a tenant that has none: its registrar is the region that saw it
// first, for good. Another region may do the same, and a row that exists keeps its registrar.
func (n *Node) newGatewayTenant(ctx context.Context, id, name string) (claim.Tenant, error) {
	if err := n.c.Accounts.PutTenant(ctx, claim.Tenant{ID: id, Name: name, Registrar: n.c.Region}); err != nil {
		return claim.Tenant{}, err
	}
	return n.gatewayTenant(ctx, id)
}

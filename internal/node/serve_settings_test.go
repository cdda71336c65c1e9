package node

import (
	"encoding/base64"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp"
)

// nodeYAML is the documentation of the settings.
const nodeYAML = "../../docs/node.yaml"

func TestTheDocumentedSettingsAreTheDefaults(t *testing.T) {
	s, _, err := LoadServeSettings(nodeYAML, nil)
	require.NoError(t, err)
	require.Equal(t, DefaultServeSettings(), s)

	written, defaults := koanf.New("."), koanf.New(".")
	require.NoError(t, written.Load(file.Provider(nodeYAML), yaml.Parser()))
	require.NoError(t, defaults.Load(structs.Provider(DefaultServeSettings(), "koanf"), nil))
	require.ElementsMatch(t, defaults.Keys(), written.Keys(), "docs/node.yaml names every setting")
}

func TestServeDefaultsFitTogether(t *testing.T) {
	s := DefaultServeSettings()
	require.GreaterOrEqual(t, s.Policy.LeaseMargin, s.Policy.ClockOffset+s.Database.StatementTimeout)
	provider, err := s.providers()[0].open(ProviderSecrets{})
	require.NoError(t, err)
	require.Equal(t, psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true, Timeout: 30 * time.Second}, provider.Capabilities())
}

func TestServeSettingsAreRead(t *testing.T) {
	path := write(t, `
node: {region: europe-west1}
gossip: {seeds: ["10.0.0.1:7946"]}
database: {max_conns: 4}
provider: {dedupe: none, settle_window: 2m}
`)
	s, _, err := LoadServeSettings(path, []string{
		"HOMEWARD_NODE__REGION=asia-northeast1", "HOMEWARD_GOSSIP__SEEDS=10.0.0.2:7946,10.0.0.3:7946",
		"HOMEWARD_LOG=debug", "PATH=/bin",
	})
	require.NoError(t, err)
	want := DefaultServeSettings()
	want.Node.Region = "asia-northeast1"
	want.Gossip.Seeds = []string{"10.0.0.2:7946", "10.0.0.3:7946"}
	want.Database.MaxConns = 4
	want.Provider.Dedupe, want.Provider.SettleWindow = "none", 2*time.Minute
	want.Log = "debug"
	require.Equal(t, want, s)

	text, err := s.YAML()
	require.NoError(t, err)
	again, _, err := LoadServeSettings(write(t, string(text)), nil)
	require.NoError(t, err, "what is printed can be used")
	require.Equal(t, s, again)
}

// lines are the mistakes that an error names.
func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func TestEachMistakeIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		says []string
	}{
		"no region":                     {"node: {region: US East}", []string{"node.region", "a-z"}},
		"a name with a space":           {"node: {name: my node}", []string{"node.name"}},
		"no address":                    {"api: {listen: nowhere}", []string{"api.listen", "host:port"}},
		"no such port":                  {"rpc: {listen: '127.0.0.1:70000'}", []string{"rpc.listen", "65535"}},
		"nothing to dial":               {"rpc: {listen: '0.0.0.0:7081'}\ntls: {cert: a, key: b, ca: c}", []string{"rpc.listen", "rpc.advertise"}},
		"nobody to gossip with":         {"gossip: {listen: '0.0.0.0:7946'}", []string{"gossip.listen", "gossip.advertise"}},
		"nor with IPv6":                 {"gossip: {listen: '[::]:7946'}", []string{"gossip.listen", "gossip.advertise"}},
		"nor without a host":            {"gossip: {listen: ':7946'}", []string{"gossip.listen", "gossip.advertise"}},
		"IPv6 without brackets":         {"rpc: {advertise: '2001:db8::1:7081'}", []string{"rpc.advertise", "[host]:port, with the brackets around an IPv6 address"}},
		"nor with a port":               {"gossip: {seeds: ['2001:db8::1']}", []string{"gossip.seeds[0]", "[host]:port"}},
		"open to anybody":               {"rpc: {listen: '10.0.0.1:7081'}", []string{"rpc.listen", "any merchant", "tls.cert"}},
		"half a certificate":            {"tls: {cert: a, ca: c}", []string{"tls.key", "or none"}},
		"no trust domain":               {"tls: {trust_domain: My Bank}", []string{"tls.trust_domain"}},
		"advertised everywhere":         {"gossip: {advertise: '0.0.0.0:7946'}", []string{"gossip.advertise"}},
		"a seed without a port":         {"gossip: {seeds: ['10.0.0.1:7946', '10.0.0.1']}", []string{"gossip.seeds[1]"}},
		"the pool":                      {"database: {max_conns: 0, min_conns: 0}", []string{"max_conns"}},
		"the claims":                    {"claim: {lease_margin: 100ms}", []string{"lease_margin", "clock_offset 500ms"}},
		"the outbox":                    {"outbox: {batch: 0}", []string{"outbox.batch"}},
		"an unnamed provider":           {"provider: {name: My Bank}", []string{"provider.name"}},
		"no URL":                        {"provider: {base_url: 'bank.example'}", []string{"provider.base_url", "https"}},
		"a password in a URL":           {"provider: {name: bank, base_url: 'https://me:hunter2@bank.example'}", []string{"provider.base_url", "password"}},
		"a password for NATS":           {"events: {nats: {url: 'nats://a:4222, nats://me:hunter2@b:4222'}}", []string{"events.nats.url", "events.nats.credentials"}},
		"a token for NATS":              {"events: {nats: {url: 'nats://hunter2@b:4222'}}", []string{"events.nats.url", "events.nats.credentials"}},
		"NATS by its host":              {"events: {nats: {url: 'me:hunter2@b:4222'}}", []string{"events.nats.url", "events.nats.credentials"}},
		"no URL for NATS":               {"events: {nats: {url: 'nats://me:hunter2@b b:4222'}}", []string{"events.nats.url"}},
		"no refunds at all":             {"compensations: {per_hour: 0}", []string{"compensations.per_hour", "compensations.on"}},
		"more than a row holds":         {"compensations: {per_hour: 100000}", []string{"compensations.per_hour must be 1 to 1000"}},
		"no sum":                        {"compensations: {sum_per_hour: 0}", []string{"compensations.sum_per_hour"}},
		"a sum without amount":          {"compensations: {sums: [jpy]}", []string{"compensations.sums", "jpy=5000000"}},
		"a provider in clear":           {"provider: {base_url: 'http://bank.example'}", []string{"provider.base_url", "provider.allow_http"}},
		"anybody's console":             {"console: {listen: '127.0.0.1:9090'}", []string{"console.listen", "console.oidc.issuer", "tls.cert"}},
		"half a console's cert":         {"console: {listen: '127.0.0.1:9090', cert: a}\ntls: {cert: a, key: b, ca: c}", []string{"console.cert", "console.key"}},
		"no trace":                      {"console: {listen: '127.0.0.1:9090', trace_url: 'https://t.example'}\ntls: {cert: a, key: b, ca: c}", []string{"console.trace_url", "{trace}"}},
		"half an issuer":                {"console: {listen: '127.0.0.1:9090', oidc: {issuer: 'https://id.example', url: 'https://c.example', viewers: [eng]}}", []string{"console.oidc", "client id"}},
		"nobody may look":               {"console: {listen: '127.0.0.1:9090', oidc: {issuer: 'https://id.example', client_id: c, url: 'https://c.example'}}", []string{"console.oidc", "groups"}},
		"an issuer in clear":            {"console: {listen: '127.0.0.1:9090', oidc: {issuer: 'http://id.example', client_id: c, url: 'https://c.example', viewers: [eng]}}", []string{"console.oidc.issuer", "https"}},
		"sessions in clear":             {"console: {listen: '0.0.0.0:9090', oidc: {issuer: 'https://id.example', client_id: c, url: 'https://c.example', viewers: [eng]}}", []string{"console.listen", "console.cert"}},
		"a console's port":              {"console: {listen: '127.0.0.1:8081'}\ntls: {cert: a, key: b, ca: c}", []string{"console.listen", "api.listen", "the same port"}},
		"unknown dedupe":                {"provider: {dedupe: sometimes}", []string{"provider.dedupe", "key_and_parameters"}},
		"none without a window":         {"provider: {dedupe: none}", []string{"provider.settle_window"}},
		"no header's name":              {"provider: {key_header: 'X Key'}", []string{"provider", "X Key", "Idempotency-Key"}},
		"no webhook's header":           {"provider: {webhooks: {id_header: 'x:id'}}", []string{"provider", "x:id", "webhook-id"}},
		"events in clear":               {"events: {nats: {url: 'nats://10.0.0.1:4222'}}", []string{"events.nats", "10.0.0.1:4222 without TLS"}},
		"no stream's name":              {"events: {nats: {url: 'nats://127.0.0.1:4222', stream: a.b}}", []string{"events.nats", "leave out dots"}},
		"a webhook too long":            {"events: {webhooks: {on: true, timeout: 10m}}", []string{"events.webhooks", "at most 30s"}},
		"a webhook outlasts its lease":  {"events: {webhooks: {on: true}}\nclaim: {lease: 4s, renew_every: 1s}", []string{"events.webhooks.timeout must be at most three times claim.lease, which is 12s, is 15s"}},
		"a call too long":               {"provider: {timeout: 40s}\ndrain: 40s", []string{"provider.timeout", "drain"}},
		"outlasts the request":          {"provider: {timeout: 85s}\ndrain: 100s", []string{"provider.timeout", "two hops"}},
		"outlasts the claim":            {"provider: {timeout: 40s}\nclaim: {lease_ceiling: 35s}", []string{"provider.timeout", "lease_ceiling"}},
		"too long for all":              {"provider: {timeout: 300s}", []string{"provider.timeout must be below 45s, which is drain,"}},
		"one port for two":              {"api: {listen: '127.0.0.1:7081'}", []string{"api.listen", "rpc.listen", "the same port"}},
		"gossip's TCP":                  {"api: {listen: '0.0.0.0:7946'}", []string{"api.listen", "gossip.listen", "the same port"}},
		"no refresh":                    {"topology_every: 0s", []string{"topology_every"}},
		"no sweep":                      {"sweep_every: -1s", []string{"sweep_every"}},
		"half a rate":                   {"tenant_rate: 0", []string{"tenant_rate", "tenant_burst"}},
		"pages without a slash":         {"error_pages: 'https://example.com/errors'", []string{"error_pages", "must end with a slash"}},
		"pages nowhere":                 {"error_pages: /docs/", []string{"error_pages", "absolute URL"}},
		"an unsupported kind of bucket": {"objects: tape://library", []string{"objects", "file://"}},
		"no level":                      {"log: loud", []string{"log", "warn"}},
		"a bare number":                 {"drain: 45", []string{"drain", "write a unit"}},
		"a bare fraction":               {"drain: 45.5", []string{"drain", "write a unit"}},
		"no number":                     {"database: {max_conns: many}", []string{"database.max_conns"}},
		"an unknown setting":            {"gossip: {port: 7946}", []string{"gossip", "port"}},
		"the demo's regions":            {"regions: [{name: a, code: 1}]", []string{"regions", "homeward demo", "homeward serve"}},
		"the demo's lag":                {"replica_lag: 1s", []string{"replica_lag", "homeward demo"}},
		"a URL in the file":             {"database: {url: 'postgres://me:hunter2@db/homeward'}", []string{"database.url", "HOMEWARD_DATABASE_URL"}},
		"a key in the file":             {"gossip: {key: hunter2}", []string{"gossip.key", "HOMEWARD_GOSSIP_KEY"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := LoadServeSettings(write(t, c.text), nil)
			require.Error(t, err)
			require.Len(t, lines(err), 1, "%v", err)
			require.NotContains(t, err.Error(), "hunter2")
			for _, say := range c.says {
				require.ErrorContains(t, err, say)
			}
		})
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	_, _, err := LoadServeSettings(write(t, `
node: {region: US East}
gossip: {key: hunter2, port: 7}
database: {max_conns: many, call_timeout: 1ms}
claim: {lease: 1s, renew_every: 10}
regions: []
log: loud
`), []string{"HOMEWARD_SWEEP_EVERY=never", "HOMEWARD_GOSSIP_KEY=short"})
	for _, say := range []string{
		"node.region", "gossip.key", "port", "database.max_conns", "call_timeout", "renew_every",
		"regions is a setting of homeward demo", `log "loud"`, "sweep_every", "HOMEWARD_GOSSIP_KEY must be",
	} {
		require.ErrorContains(t, err, say)
	}
	require.NotContains(t, err.Error(), "max_conns must be", "what cannot be read is one mistake, not two")
}

func TestTheDemoRefusesWhatServeHas(t *testing.T) {
	_, err := LoadSettings(write(t, "node: {region: us-east1}\ntopology_every: 5s"), nil)
	require.Equal(t, []string{
		"settings: node is a setting of homeward serve, not of homeward demo; take it out",
		"settings: topology_every is a setting of homeward serve, not of homeward demo; take it out",
	}, lines(err))
	_, err = LoadSettings("", []string{"HOMEWARD_DATABASE_URL=postgres://x", "HOMEWARD_GOSSIP_KEY_FILE=/x"})
	require.NoError(t, err, "secrets in the environment are no settings")
}

func TestSecretsOfANode(t *testing.T) {
	key := []byte("0123456789abcdef")
	text := base64.StdEncoding.EncodeToString(key)
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))

	_, secrets, err := LoadServeSettings("", []string{"HOMEWARD_DATABASE_URL=postgres://x", "HOMEWARD_GOSSIP_KEY_FILE=" + path})
	require.NoError(t, err)
	require.Equal(t, Secrets{DatabaseURL: "postgres://x", GossipKeys: [][]byte{key}}, secrets)

	next := []byte("fedcba9876543210fedcba9876543210")
	both := base64.StdEncoding.EncodeToString(next) + ", " + text
	_, secrets, err = LoadServeSettings("", []string{"HOMEWARD_GOSSIP_KEY=" + both})
	require.NoError(t, err)
	require.Equal(t, [][]byte{next, key}, secrets.GossipKeys)

	for name, environ := range map[string][]string{
		"no base64": {"HOMEWARD_GOSSIP_KEY=****************"},
		"one empty": {"HOMEWARD_GOSSIP_KEY=" + text + ","},
		"too short": {"HOMEWARD_GOSSIP_KEY=aHVudGVyMg=="},
		"twice":     {"HOMEWARD_GOSSIP_KEY=" + text, "HOMEWARD_GOSSIP_KEY_FILE=" + path},
	} {
		_, _, err := LoadServeSettings("", environ)
		require.ErrorContains(t, err, "HOMEWARD_GOSSIP_KEY", name)
		require.Len(t, lines(err), 1, name)
	}
}

// A provider's secret that cannot be meant is a mistake of the settings, which nothing
// repeats; without an adapter there is no provider that could be called or closed.
func TestAProvidersSecretThatCannotBeMeant(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		environ []string
		says    string
	}{
		"no base64":               {"", []string{ProviderWebhooks + "=hunter2!"}, "base64"},
		"a key on two lines":      {"", []string{ProviderKey + "=hunter2\nhunter2"}, "line break"},
		"Stripe's on two lines":   {"provider: {kind: stripe, name: stripe, base_url: ''}", []string{ProviderKey + "=sk_hunter2\nhunter2"}, "white space"},
		"none of Stripe's at all": {"provider: {kind: stripe, name: stripe, base_url: ''}", []string{ProviderKey + "=hunter2"}, "sk_"},
	} {
		t.Run(name, func(t *testing.T) {
			s, secrets, err := LoadServeSettings(write(t, c.text), c.environ)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "HOMEWARD_PROVIDER_")
			require.Len(t, lines(err), 1)
			require.NotContains(t, err.Error(), "hunter2")
			one := s.providers()[0]
			provider, err := one.open(secrets.Providers[one.Name])
			require.Error(t, err)
			require.True(t, provider == nil, "a nil pointer in an interface is none") //nolint:testifylint // Nil would take that pointer
		})
	}
}

// A node without the provider's webhook secret starts, and logs a warning.
func TestANodeWithoutAWebhookSecretIsInDoubt(t *testing.T) {
	s := DefaultServeSettings()
	require.Len(t, Secrets{}.Doubts(s), 1)
	require.Contains(t, Secrets{}.Doubts(s)[0], ProviderWebhooks)
	require.Empty(t, Secrets{Providers: map[string]ProviderSecrets{s.Provider.Name: {Webhooks: "whsec_AAAA"}}}.Doubts(s))
}

func TestWhatANodeCannotStartWithout(t *testing.T) {
	s := DefaultServeSettings()
	require.Len(t, lines(Secrets{}.Missing(s)), 2)
	require.ErrorContains(t, Secrets{}.Missing(s), "HOMEWARD_DATABASE_URL")
	require.ErrorContains(t, Secrets{DatabaseURL: "postgres://x"}.Missing(s), "set HOMEWARD_SEAL_KEYS")
	inClear := s
	inClear.Seal = false
	require.NoError(t, Secrets{DatabaseURL: "postgres://x"}.Missing(inClear), "clear text is chosen")
	require.Contains(t, strings.Join(Secrets{}.Doubts(inClear), "\n"), "clear text")
	complete := Secrets{DatabaseURL: "postgres://x", SealKeys: sealKey(t)}
	for _, own := range []string{"127.0.0.1:7946", "localhost:7946", "[::1]:7946"} {
		s.Gossip.Listen = own
		require.NoError(t, complete.Missing(s), own)
	}
	for _, open := range []string{"0.0.0.0:7946", ":7946", "10.0.0.1:7946", "node-1:7946"} {
		s.Gossip.Listen = open
		require.ErrorContains(t, complete.Missing(s), "HOMEWARD_GOSSIP_KEY", open)
		complete.GossipKeys = [][]byte{[]byte("0123456789abcdef")}
		require.NoError(t, complete.Missing(s), open)
		complete.GossipKeys = nil
	}
}

func TestWithoutABucketEveryBodyStaysInItsRow(t *testing.T) {
	s := DefaultServeSettings()
	require.Equal(t, math.MaxInt, s.policy().InlineBody)
	s.Objects = "file:///bodies"
	require.NoError(t, s.Validate())
	require.Equal(t, s.Policy.InlineBody, s.policy().InlineBody)
	_, err := inRows{}.Get(t.Context(), "ref")
	require.ErrorContains(t, err, "set objects")
}

func TestANodesNameIsTheHostsAndNew(t *testing.T) {
	s := DefaultServeSettings()
	host, err := os.Hostname()
	require.NoError(t, err)
	name, err := s.name("1234")
	require.NoError(t, err)
	require.Equal(t, host+"-1234", name)
	s.Node.Name = "till"
	name, err = s.name("1234")
	require.NoError(t, err)
	require.Equal(t, "till-1234", name)
}

// A provider is met by what the settings say of it.
func TestProviderBySettings(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "node.yaml")
	require.NoError(t, os.WriteFile(path, []byte("provider:\n  base_url: "+server.URL+"/api\n  key_header: X-Key\n  paths:\n    charges: /pay\n  webhooks:\n    id_header: x-id\n"), 0o600))
	s, secrets, err := LoadServeSettings(path, []string{ProviderKey + "=sk_1", ProviderWebhooks + "=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})
	require.NoError(t, err)
	one := s.providers()[0]
	provider, err := one.open(secrets.Providers[one.Name])
	require.NoError(t, err)
	defer func() { require.NoError(t, provider.Close()) }()
	provider.Charge(t.Context(), psp.Call{Key: "k", Reference: "ch_1", Amount: 1, Currency: "usd", Source: "pm_1"})
	require.Equal(t, "/api/pay", got.URL.Path)
	require.Equal(t, "k", got.Header.Get("X-Key"))
	require.Equal(t, "Bearer sk_1", got.Header.Get("Authorization"))
	_, err = provider.Verify(http.Header{"X-Id": {"e"}}, []byte("{}"), time.Now())
	require.Error(t, err, "not signed")

	s.Provider.Kind, s.Provider.BaseURL = kindStripe, ""
	require.ErrorContains(t, Secrets{DatabaseURL: "postgres://x"}.Missing(s), ProviderKey)
	one = s.providers()[0]
	stripe, err := one.open(secrets.Providers[one.Name])
	require.NoError(t, err)
	require.NoError(t, stripe.Close())
}

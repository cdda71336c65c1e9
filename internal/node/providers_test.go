package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp"
)

const twoProviders = `
providers:
  stripe-eu: {kind: stripe, base_url: '', timeout: 31s}
  acquirer: {base_url: 'http://127.0.0.1:1', dedupe: none, settle_window: 1m}
default_provider: stripe-eu
`

// Each provider of the map has the defaults that a single one has, and is set by
// variables of its name.
func TestProvidersByName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte("sk_2\n"), 0o600))
	s, secrets, err := LoadServeSettings(write(t, twoProviders), []string{
		"HOMEWARD_PROVIDERS__STRIPE_EU__KEY_FILE=" + path, "HOMEWARD_PROVIDERS__STRIPE_EU__TIMEOUT=32s",
		"HOMEWARD_PROVIDERS__ACQUIRER__WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"HOMEWARD_PROVIDERS__ACQUIRER__PATHS__CHARGES=/pay",
	})
	require.NoError(t, err)
	require.Equal(t, []string{"stripe-eu", "acquirer"}, s.ProviderNames())
	require.Equal(t, map[string]ProviderSecrets{"stripe-eu": {Key: "sk_2"}, "acquirer": {Webhooks: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}, secrets.Providers)
	acquirer := DefaultServeSettings().Provider
	acquirer.Name, acquirer.BaseURL, acquirer.Dedupe, acquirer.SettleWindow, acquirer.Paths.Charges = "", "http://127.0.0.1:1", "none", time.Minute, "/pay"
	require.Equal(t, acquirer, s.Providers["acquirer"])
	require.Equal(t, 32*time.Second, s.Providers["stripe-eu"].Timeout)
	var opened psp.Providers
	for _, p := range s.providers() {
		adapter, err := p.open(secrets.Providers[p.Name])
		require.NoError(t, err)
		defer func() { require.NoError(t, adapter.Close()) }()
		opened = append(opened, adapter)
	}
	require.Equal(t, s.ProviderNames(), opened.Names())

	text, err := s.YAML()
	require.NoError(t, err)
	again, _, err := LoadServeSettings(write(t, string(text)), nil)
	require.NoError(t, err, "what is printed can be used")
	require.Equal(t, s, again)

	missing := Secrets{DatabaseURL: "postgres://x", SealKeys: sealKey(t)}.Missing(s)
	require.Len(t, lines(missing), 1)
	require.ErrorContains(t, missing, "HOMEWARD_PROVIDERS__STRIPE_EU__KEY")
	require.Len(t, secrets.Doubts(s), 1)
	require.Contains(t, secrets.Doubts(s)[0], "HOMEWARD_PROVIDERS__STRIPE_EU__WEBHOOK_SECRET")
}

// A webhook secret is judged where the key is missing, too.
func TestAWrongWebhookSecretWithoutAKey(t *testing.T) {
	s := DefaultServeSettings()
	p := configuredProvider{ProviderSettings: s.Provider}
	p.Kind, p.Name, p.BaseURL = kindStripe, "stripe", ""
	require.NoError(t, p.accepts(ProviderSecrets{}))
	require.NoError(t, p.accepts(ProviderSecrets{Webhooks: "whsec_1,whsec_2"}))
	require.ErrorContains(t, p.accepts(ProviderSecrets{Webhooks: "rk_live_1"}), "whsec_")
}

// A single provider of the map is the default unless the settings name another, and one by
// variables alone counts.
func TestOneProviderByName(t *testing.T) {
	s, secrets, err := LoadServeSettings("", []string{"HOMEWARD_PROVIDERS__BANK__BASE_URL=http://127.0.0.1:1", "HOMEWARD_PROVIDERS__BANK__KEY=k"})
	require.NoError(t, err)
	require.Equal(t, []string{"bank"}, s.ProviderNames())
	require.Equal(t, "k", secrets.Providers["bank"].Key)
}

// The default URL is the simulator's, which is on this machine: no other adapter's calls go
// there.
func TestProvidersWithAURLOfTheirOwn(t *testing.T) {
	const adyen = "adyen: {merchant_account: Shop, return_url: 'https://shop.example/return'}"
	for name, c := range map[string]struct {
		text    string
		environ []string
		at      string
	}{
		"stripe":                   {"provider: {kind: stripe, name: a}", nil, ""},
		"adyen":                    {"provider: {kind: adyen, name: a, " + adyen + "}", nil, ""},
		"stripe by a variable":     {"", []string{"HOMEWARD_PROVIDER__KIND=stripe", "HOMEWARD_PROVIDER__NAME=a"}, ""},
		"stripe of several":        {"providers: {a: {kind: stripe}}", nil, ""},
		"adyen of several":         {"providers: {a: {kind: adyen, " + adyen + "}}", nil, ""},
		"stripe elsewhere":         {"provider: {kind: stripe, name: a, base_url: 'https://stripe.example'}", nil, "https://stripe.example"},
		"elsewhere by a variable":  {"providers: {a: {kind: stripe}}", []string{"HOMEWARD_PROVIDERS__A__BASE_URL=https://s.example"}, "https://s.example"},
		"the simulator":            {"provider: {kind: httpjson}", nil, "http://127.0.0.1:8090"},
		"the simulator of several": {"providers: {a: {}}", nil, "http://127.0.0.1:8090"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := LoadServeSettings(write(t, c.text), c.environ)
			require.NoError(t, err)
			require.Equal(t, c.at, s.providers()[0].BaseURL)
		})
	}
}

func TestMistakesOfProviders(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		environ []string
		says    []string
	}{
		"no group":               {"providers: stripe", nil, []string{"providers is a group of settings and no value; write what is in it, as in name: …"}},
		"both ways":              {twoProviders + "provider: {name: x}", nil, []string{"provider and providers are both set"}},
		"no default":             {"providers: {a: {}, b: {}}", nil, []string{"set default_provider to one of a, b"}},
		"another default":        {"providers: {a: {}}\ndefault_provider: b", nil, []string{`default_provider "b" is not one of a`}},
		"a default of none":      {"default_provider: b", nil, []string{"default_provider"}},
		"a name of its own":      {"providers: {a: {name: b}}", nil, []string{"no setting named providers.a.name"}},
		"no such setting":        {"providers: {a: {port: 1}}", nil, []string{"providers.a.port"}},
		"no name":                {"providers: {My Bank: {}}", nil, []string{"providers.My Bank.name", "lower case"}},
		"two of one spelling":    {"providers: {a-b: {}, a_b: {}}\ndefault_provider: a-b", nil, []string{"HOMEWARD_PROVIDERS__A_B__KEY", "rename one"}},
		"no variable's name":     {"providers: {a__b: {}}", nil, []string{"a__b", "'__'"}},
		"no URL":                 {"providers: {a: {base_url: bank.example}}", nil, []string{"providers.a.base_url"}},
		"Stripe without a name":  {"provider: {kind: stripe}", nil, []string{"provider.name is missing", "name: stripe", "name: simulator"}},
		"Adyen without a name":   {"provider: {kind: adyen, adyen: {merchant_account: Shop, return_url: 'https://a.example'}}", nil, []string{"provider.name is missing", "name: adyen"}},
		"another without a name": {"", []string{"HOMEWARD_PROVIDER__BASE_URL=https://payments.example"}, []string{"provider.name is missing", "name: acquirer"}},
		"a call too long":        {"providers: {a: {timeout: 40s}}\ndrain: 40s", nil, []string{"providers.a.timeout", "drain"}},
		"a key in the file":      {"providers: {a: {key: hunter2}}", nil, []string{"providers.a.key", "HOMEWARD_PROVIDERS__A__KEY"}},
		"a webhook secret there": {"providers: {a-b: {webhook_secret: hunter2}}", nil, []string{"HOMEWARD_PROVIDERS__A_B__WEBHOOK_SECRET"}},
		"the only one's key":     {"providers: {a: {}}", []string{ProviderKey + "=hunter2"}, []string{ProviderKey, "HOMEWARD_PROVIDERS__A__KEY"}},
		"a key of nobody":        {"providers: {a: {}}", []string{"HOMEWARD_PROVIDERS__B__KEY=hunter2"}, []string{"HOMEWARD_PROVIDERS__B__KEY", "which have a"}},
		"a key that cannot be":   {"providers: {a: {kind: stripe, base_url: ''}}", []string{"HOMEWARD_PROVIDERS__A__KEY=hunter2"}, []string{"providers.a, HOMEWARD_PROVIDERS__A__KEY", "sk_"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := LoadServeSettings(write(t, c.text), c.environ)
			require.Error(t, err)
			require.Len(t, lines(err), 1, "%v", err)
			require.NotContains(t, err.Error(), "hunter2")
			for _, say := range c.says {
				require.ErrorContains(t, err, say)
			}
		})
	}
}

package node

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp"
)

const someAdyen = "{kind: adyen, base_url: '', adyen: {merchant_account: Shop, return_url: 'https://shop.example/return', live_prefix: 1797a841fbb37ca7-Shop"

// The settings reach the adapter, and each mistake is one line that says what to do.
func TestAdyenSettings(t *testing.T) {
	s, secrets, err := LoadServeSettings(write(t, "providers: {eu: "+someAdyen+", live_prefixes: [us-east1=9a-Shop, ap-south1=7b-Shop]}}}"), []string{
		"HOMEWARD_PROVIDERS__EU__KEY=AQE_hunter2", "HOMEWARD_PROVIDERS__EU__WEBHOOK_SECRET=00ff",
	})
	require.NoError(t, err)
	one := s.providers()[0]
	c := one.adyen(secrets.Providers["eu"])
	require.Equal(t, "https://1797a841fbb37ca7-Shop-checkout-live.adyenpayments.com/checkout", c.BaseURL)
	require.Equal(t, map[string]string{
		"us-east1":  "https://9a-Shop-checkout-live.adyenpayments.com/checkout",
		"ap-south1": "https://7b-Shop-checkout-live.adyenpayments.com/checkout",
	}, c.Endpoints)
	require.Equal(t, []string{"eu", "Shop", "AQE_hunter2", "00ff"}, []string{c.Name, c.MerchantAccount, c.Key, c.HMACKey})

	for name, c := range map[string]struct {
		text string
		key  string
		says string
	}{
		"no account":         {"{kind: adyen, base_url: '', adyen: {return_url: 'https://a.example'}}", "", "providers.eu.adyen.merchant_account"},
		"no return URL":      {"{kind: adyen, base_url: '', adyen: {merchant_account: Shop}}", "", "providers.eu.adyen.return_url"},
		"half a URL":         {"{kind: adyen, base_url: '', adyen: {merchant_account: Shop, return_url: shop}}", "", "return URL"},
		"two addresses":      {"{kind: adyen, base_url: 'https://a.example', adyen: {merchant_account: Shop, return_url: 'https://a.example', live_prefix: a}}", "", "keep one"},
		"a URL for a prefix": {"{kind: adyen, base_url: '', adyen: {merchant_account: Shop, return_url: 'https://a.example', live_prefix: 'https://a'}}", "", "API URLs"},
		"no region":          {someAdyen + ", live_prefixes: [9a-Shop]}}", "", "REGION=PREFIX"},
		"a region twice":     {someAdyen + ", live_prefixes: [us=a, us=b]}}", "", "twice"},
		"a key on two lines": {someAdyen + "}}", "AQE\nhunter2", "white space"},
		"another setting":    {someAdyen + ", hmac_key: 00}}", "", "adyen.hmac_key"},
	} {
		t.Run(name, func(t *testing.T) {
			var environ []string
			if c.key != "" {
				environ = []string{"HOMEWARD_PROVIDERS__EU__KEY=" + c.key}
			}
			_, _, err := LoadServeSettings(write(t, "providers: {eu: "+c.text+"}"), environ)
			require.ErrorContains(t, err, c.says)
			require.Len(t, lines(err), 1, "%v", err)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
	require.ErrorContains(t, Secrets{DatabaseURL: "postgres://x"}.Missing(s), "HOMEWARD_PROVIDERS__EU__KEY")
}

// A node's adapter calls where base_url says, for the account of the settings.
func TestTheAdapterForAdyenIsMadeOfTheSettings(t *testing.T) {
	var got *http.Request
	var body []byte
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	defer srv.Close()
	s, secrets, err := LoadServeSettings(write(t, "provider: {kind: adyen, name: adyen, base_url: "+srv.URL+", adyen: {merchant_account: Shop, return_url: 'https://a.example'}}"),
		[]string{ProviderKey + "=AQE_1"})
	require.NoError(t, err)
	one := s.providers()[0]
	p, err := one.open(secrets.Providers["adyen"])
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	p.Charge(t.Context(), psp.Call{Key: "k", Reference: "ch_1", Amount: 1, Currency: "usd", Source: "pm_1"})
	require.Equal(t, "/v71/payments", got.URL.Path)
	require.Equal(t, "AQE_1", got.Header.Get("X-API-Key"))
	require.Contains(t, string(body), `"merchantAccount":"Shop"`)
}

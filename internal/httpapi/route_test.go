package httpapi

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

// A payment goes to the provider that it names, else to that of its tenant's routes, else to its
// home's default. A refund goes to the provider of its charge.
func TestAPaymentFindsItsProvider(t *testing.T) {
	named := strings.Replace(okBody, `"currency"`, `"provider":"bank","currency"`, 1)
	for name, c := range map[string]struct{ path, body, routes, want string }{
		"no name":          {"/v1/charges", okBody, "", ""},
		"of the request":   {"/v1/charges", named, "*=stripe", "bank"},
		"of the routes":    {"/v1/charges", okBody, "*=bank", "bank"},
		"by currency":      {"/v1/charges", okBody, "eur=bank,usd=stripe", "stripe"},
		"by method":        {"/v1/charges", okBody, "*/pm_card_=bank", "bank"},
		"no route fits":    {"/v1/charges", okBody, "eur=bank", ""},
		"a transfer":       {"/v1/transfers", strings.Replace(okBody, `"payment_method":"pm_card_visa"`, `"destination":"acct_1"`, 1), "*/acct_=bank", "bank"},
		"not here, routed": {"/v1/charges", okBody, "*=elsewhere", "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.tenants["sk_acme"] = claim.Tenant{ID: "acme", Routes: c.routes}
			do := f.do
			f.do = func(ctx context.Context, req claim.Request) (claim.Reply, error) {
				require.Equal(t, c.want, req.Provider)
				require.False(t, req.CompareOnly)
				return do(ctx, req)
			}
			w := serve(newAPI(t, f, func(c *Config) { c.Providers = []string{"stripe", "bank"} }), request("POST", c.path, c.body))
			require.Equal(t, 201, w.Code, w.Body)
		})
	}
}

// A payment that names an unknown provider begins nothing. A retry of a payment that was made
// while the node had that provider gets its answer.
func TestAPaymentNamesAnUnknownProvider(t *testing.T) {
	body := strings.Replace(okBody, `"currency"`, `"provider":"old","currency"`, 1)
	for _, made := range []bool{false, true} {
		f := newFake()
		do := f.do
		f.do = func(ctx context.Context, req claim.Request) (claim.Reply, error) {
			require.True(t, req.CompareOnly)
			if !made {
				return claim.Reply{}, claim.ErrNoClaim
			}
			return do(ctx, req)
		}
		w := serve(newAPI(t, f, func(c *Config) { c.Providers = []string{"stripe", "bank"} }), request("POST", "/v1/charges", body))
		if made {
			require.Equal(t, 201, w.Code, w.Body)
			continue
		}
		require.Equal(t, 400, w.Code, w.Body)
		require.Equal(t, "provider", problemIn(t, w).Member)
		require.Equal(t, "never", problemIn(t, w).Retry)
	}
}

package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

// No POST drops a query. If a merchant's HTTP library put the parameters there, the request would
// move another amount than the merchant meant. The test covers each route of the API but notices:
// a provider's address may carry a query of its own.
func TestNoPostDropsItsQuery(t *testing.T) {
	charge, err := claim.NewObjectID("ch", 7, nil)
	require.NoError(t, err)
	f := newFake()
	h := newAPI(t, f)
	checked := 0
	for _, rt := range h.(*server).routes() {
		if rt.method != http.MethodPost || rt.path == "/v1/webhooks/{provider}" {
			continue
		}
		checked++
		id := charge
		if strings.HasPrefix(rt.path, pathPaymentIntents) {
			id = strings.Replace(id, "ch_", "pi_", 1)
		}
		path := strings.ReplaceAll(rt.path, "{id}", id)
		for query, member := range map[string]string{
			"?capture_method=manual":           "capture_method",
			"?b=1&a=":                          "a",
			"?%ff=1":                           "",
			"?;":                               "",
			"?amount=1;b":                      "",
			"?4242424242424242=x":              "(digits)",
			"?" + strings.Repeat("n", 100):     strings.Repeat("n", 64) + "…",
			"?expires_at=2030-01-01T00:00:00Z": "expires_at",
		} {
			for _, body := range []string{"", "{}"} {
				w := serve(h, request("POST", path+query, body))
				p := problemIn(t, w)
				require.Equal(t, []any{400, "invalid_request", "never", member}, []any{w.Code, p.Error, p.Retry, p.Member}, "POST %s%s: %s", path, query, w.Body)
				w = serve(h, request("POST", path+query, body, "Stripe-Version", "2026-08-26.dahlia"))
				require.Equal(t, 400, w.Code, "POST %s%s, JSON of Stripe's clients: %s", path, query, w.Body)
				require.Contains(t, stripeErrorIn(t, w).Error.Message, "query")
			}
		}
		w := serve(h, stripely("POST", path+"?colour=red", ""))
		require.Contains(t, []int{400, 415}, w.Code, "POST %s, a form: %s", path, w.Body)
		for _, empty := range []string{"?", "?&"} {
			w = serve(newAPI(t, newFake()), request("POST", path+empty, "{}"))
			require.NotContains(t, w.Body.String(), "query")
		}
	}
	require.Positive(t, checked)
	require.Empty(t, f.requests, "nothing was claimed")
}

// Stripe's API reads the query of a POST as it reads the form, and so does this one: a parameter
// has the same effect, and is compared, in either place.
func TestStripesParametersInTheQuery(t *testing.T) {
	charge, err := claim.NewObjectID("ch", 7, nil)
	require.NoError(t, err)
	for name, c := range map[string]struct{ path, form, want string }{
		"part of a refund":     {"/v1/refunds?amount=500", "charge=" + charge, `{"amount":500,"amount_units":"stripe","charge":"` + charge + `"}`},
		"a payment held":       {"/v1/charges?capture=false", okForm, `{"amount":1999,"capture_method":"manual","currency":"usd","payment_method":"pm_card_visa"}`},
		"all of it":            {"/v1/charges?" + okForm, "", `{"amount":1999,"currency":"usd","payment_method":"pm_card_visa"}`},
		"part of a capture":    {"/v1/charges/" + charge + "/capture?amount=600", "", `{"amount":600,"amount_units":"stripe","charge":"` + charge + `"}`},
		"metadata of both":     {"/v1/charges?metadata[a]=1", okForm + "&metadata[b]=2", `{"amount":1999,"currency":"usd","metadata":{"a":"1","b":"2"},"payment_method":"pm_card_visa"}`},
		"what is not compared": {"/v1/charges?expand[]=payment_intent", okForm, `{"amount":1999,"currency":"usd","payment_method":"pm_card_visa"}`},
	} {
		f := stripeFake()
		w := serve(newAPI(t, f), stripely("POST", c.path, c.form))
		require.Len(t, f.requests, 1, "%s: %s", name, w.Body)
		require.Equal(t, c.want, string(f.requests[0].Input.Canonical), name)
		require.NotContains(t, f.requests[0].Input.Path, "?")
	}
	for name, c := range map[string]struct{ path, form, code, param string }{
		"in both places":            {"/v1/charges?amount=500", okForm, "parameters_exclusive", "amount"},
		"in both places, the same":  {"/v1/charges?amount=1999", okForm, "parameters_exclusive", "amount"},
		"an entry in both places":   {"/v1/charges?metadata[a]=1", okForm + "&metadata[a]=1", "parameters_exclusive", "metadata[a]"},
		"two names of one":          {"/v1/charges?source=pm_1", okForm, "parameters_exclusive", "source"},
		"with and without brackets": {"/v1/charges?metadata=", okForm + "&metadata[a]=1", "", "metadata"},
		"unknown":                   {"/v1/charges?colour=red", okForm, "parameter_unknown", "colour"},
		"broken":                    {"/v1/charges?amount=1;2", "currency=usd", "", ""},
	} {
		f := stripeFake()
		w := serve(newAPI(t, f), stripely("POST", c.path, c.form))
		e := stripeErrorIn(t, w)
		require.Equal(t, []any{400, c.code, c.param}, []any{w.Code, e.Error.Code, e.Error.Param}, "%s: %s", name, w.Body)
		require.Empty(t, f.requests, name)
	}
}

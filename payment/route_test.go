package payment

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoutes(t *testing.T) {
	routes := Routes("eur/pm_sepa_=bank,gbp=acquirer,*/pm_wallet_=wallet,eur=other,*=rest")
	require.NoError(t, routes.Validate())
	for _, c := range []struct{ currency, source, want string }{
		{"eur", "pm_sepa_1", "bank"},
		{"eur", "pm_card", "other"},
		{"usd", "pm_sepa_1", "rest"},
		{"gbp", "pm_wallet_1", "acquirer"},
		{"eur", "pm_wallet_1", "wallet"},
		{"usd", "acct_1", "rest"},
	} {
		in := Intent{Currency: c.currency, Source: c.source}
		require.Equal(t, c.want, routes.Provider(&in), c)
	}
	require.Empty(t, Routes("").Provider(&Intent{Currency: "eur"}))
	require.Empty(t, Routes("gbp=acquirer").Provider(&Intent{Currency: "eur"}))
	for wrong, says := range map[Routes]string{
		"eur":          "names no provider",
		"eur=":         "names no provider",
		"eur=My Bank":  "lower case",
		"euro=bank":    "names no currency",
		"=bank":        "names no currency",
		"eur/=bank":    "names no payment method",
		"eur/p m=bank": "names no payment method",
		"eur=a,":       "names no provider",
		"EUR=a":        "names no currency",
		Routes(strings.Repeat("eur=a,", 1000) + "eur=a"): "leave some to the default",
	} {
		require.ErrorContains(t, wrong.Validate(), says, string(wrong))
		require.NotContains(t, wrong.Validate().Error(), "\n")
	}
}

// A charge or transfer may name its provider; nothing else does.
func TestARequestMayNameAProvider(t *testing.T) {
	for op, body := range map[Operation]string{
		Charge:   `{"amount":1,"currency":"usd","payment_method":"pm_1","provider":"bank"}`,
		Transfer: `{"amount":1,"currency":"usd","destination":"acct_1","provider":"bank"}`,
	} {
		in, err := Parse(op, []byte(body))
		require.NoError(t, err)
		require.Equal(t, "bank", in.Provider)
		for _, wrong := range []string{`""`, `"My Bank"`, `1`, `{"name":"bank"}`, `"` + strings.Repeat("a", MaxProvider+1) + `"`} {
			_, err := Parse(op, []byte(strings.Replace(body, `"bank"`, wrong, 1)))
			require.ErrorContains(t, err, "member provider: must be the name", wrong)
		}
	}
	_, err := Parse(Refund, []byte(`{"charge":"`+paid+`","provider":"bank"}`))
	require.ErrorContains(t, err, "provider")
}

package httpapi

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/router"
)

// withCard has requests with a card number, which some setting allows, by the member that a refusal
// names.
var withCard = map[string]string{
	"description":       strings.Replace(okBody, `"currency"`, `"description":"card 4242 4242 4242 4242","currency"`, 1),
	"metadata.(digits)": strings.Replace(okBody, `"currency"`, `"metadata":{"card 4242 4242 4242 4242":"x"},"currency"`, 1),
	"payment_method":    strings.Replace(okBody, "pm_card_visa", "pm_4242424242424242", 1),
}

// A retry of an accepted request with a card number reads the first answer, whichever member has
// the card number and whatever the setting is by now.
func TestARetryWithACardNumberIsReplayed(t *testing.T) {
	for member, body := range withCard {
		for _, cards := range []claim.CardNumbers{claim.RefuseCardNumbers, claim.MaskCardNumbers, claim.AllowCardNumbers} {
			f := newFake()
			f.tenants["sk_acme"] = claim.Tenant{ID: "acme", CardNumbers: cards}
			w := serve(newAPI(t, f), request("POST", "/v1/charges", body))
			require.Equal(t, 201, w.Code, "%s, %s: %s", member, cards, w.Body)
			require.Empty(t, f.keys, "the API inspected a key")
		}
	}
}

// A request with a card number that its tenant refuses begins nothing if its key has no claim. The
// API does not inspect its key, and the refusal names the member and not the number.
func TestARefusedCardNumberBeginsNothing(t *testing.T) {
	for member, body := range withCard {
		for _, cards := range []claim.CardNumbers{claim.RefuseCardNumbers, claim.MaskCardNumbers, claim.AllowCardNumbers} {
			allowed := cards == claim.AllowCardNumbers && member != "payment_method" ||
				cards == claim.MaskCardNumbers && member == "description"
			f := newFake()
			f.tenants["sk_acme"] = claim.Tenant{ID: "acme", CardNumbers: cards}
			f.inspect = func(claim.Key) (claim.Status, bool, error) { return claim.Status{}, false, router.ErrHomeUnavailable }
			do := f.do
			f.do = func(ctx context.Context, req claim.Request) (claim.Reply, error) {
				require.Equal(t, !allowed, req.CompareOnly, "%s, %s", member, cards)
				if req.CompareOnly {
					return claim.Reply{}, claim.ErrNoClaim
				}
				return do(ctx, req)
			}
			w := serve(newAPI(t, f), request("POST", "/v1/charges", body))
			if allowed {
				require.Equal(t, 201, w.Code, "%s, %s: %s", member, cards, w.Body)
				continue
			}
			require.Equal(t, 400, w.Code, "%s, %s: %s", member, cards, w.Body)
			p := problemIn(t, w)
			require.Equal(t, string(problem.InvalidRequest), p.Error)
			require.Equal(t, "never", p.Retry)
			require.Equal(t, member, p.Member)
			require.NotContains(t, w.Body.String(), "4242")
		}
	}
}

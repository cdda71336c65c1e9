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

// withCard are requests with a card number that another setting let in, by the member that a
// refusal names.
var withCard = map[string]string{
	"description":       strings.Replace(okBody, `"currency"`, `"description":"card 4242 4242 4242 4242","currency"`, 1),
	"metadata.(digits)": strings.Replace(okBody, `"currency"`, `"metadata":{"card 4242 4242 4242 4242":"x"},"currency"`, 1),
	"payment_method":    strings.Replace(okBody, "pm_card_visa", "pm_4242424242424242", 1),
}

// A request with a card number that was let in before, and charged, is replayed to its
// retry, wherever the card number stands and whatever the setting is by now.
func TestARetryWithACardNumberIsReplayed(t *testing.T) {
	for member, body := range withCard {
		for _, cards := range []claim.CardNumbers{claim.RefuseCardNumbers, claim.MaskCardNumbers, claim.AllowCardNumbers} {
			f := newFake()
			f.tenants["sk_acme"] = claim.Tenant{ID: "acme", CardNumbers: cards}
			w := serve(newAPI(t, f), request("POST", "/v1/charges", body))
			require.Equal(t, 201, w.Code, "%s, %s: %s", member, cards, w.Body)
			require.Empty(t, f.keys, "no key is looked at beside")
		}
	}
}

// A request with a card number that its tenant does not want is refused where its key
// has no claim; it begins nothing, asks no region for its key beside, and the refusal
// names the member and not the number.
func TestACardNumberThatIsNotWantedBeginsNothing(t *testing.T) {
	for member, body := range withCard {
		for _, cards := range []claim.CardNumbers{claim.RefuseCardNumbers, claim.MaskCardNumbers, claim.AllowCardNumbers} {
			wanted := cards == claim.AllowCardNumbers && member != "payment_method" ||
				cards == claim.MaskCardNumbers && member == "description"
			f := newFake()
			f.tenants["sk_acme"] = claim.Tenant{ID: "acme", CardNumbers: cards}
			f.inspect = func(claim.Key) (claim.Status, bool, error) { return claim.Status{}, false, router.ErrHomeUnavailable }
			do := f.do
			f.do = func(ctx context.Context, req claim.Request) (claim.Reply, error) {
				require.Equal(t, !wanted, req.CompareOnly, "%s, %s", member, cards)
				if req.CompareOnly {
					return claim.Reply{}, claim.ErrNoClaim
				}
				return do(ctx, req)
			}
			w := serve(newAPI(t, f), request("POST", "/v1/charges", body))
			if wanted {
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

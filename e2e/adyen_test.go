package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/adyen"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/psp/stripe"
)

// TestTwoProvidersThatDiffer serves merchants with Stripe and with Adyen in one deployment. The one
// answers a refund at once and has look-ups; the other reports it in a webhook, and has none. Each
// moves money once, whatever is lost on the way.
func TestTwoProvidersThatDiffer(t *testing.T) {
	t.Parallel()
	const whsec, hmacKey = "whsec_of_this_endpoint", "00112233445566778899aabbccddeeff"
	judges := map[string]*judge{"stripe": newJudge(t), "adyen": newJudge(t)}
	one, err := stripe.New(stripe.Config{Key: "sk_test_1", WebhookSecret: whsec, BaseURL: judges["stripe"].url + "/stripe"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = one.Close() })
	other, err := adyen.New(adyen.Config{
		Key: "AQE_1", HMACKey: hmacKey, MerchantAccount: "HomewardSimulator", BaseURL: judges["adyen"].url + "/adyen", ReturnURL: "https://shop.example/return",
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close() })
	w := startWorld(t, judges["stripe"], func(c *node.ClusterConfig) {
		c.Providers, c.Notifiers = psp.Providers{one, other}, map[string]psp.Notifier{"stripe": one, "adyen": other}
	})
	for name, target := range map[string]simulator.NoticeTarget{
		"stripe": {Secret: whsec, Stripe: true}, "adyen": {Secret: hmacKey, Adyen: true},
	} {
		target.URL = w.base(us) + "/v1/webhooks/" + name
		require.NoError(t, judges[name].SetNotices(simulator.Notices{Targets: []simulator.NoticeTarget{target}, RetryAfter: 20 * time.Millisecond}))
	}
	for name, card := range map[string]string{"stripe": "pm_card_visa", "adyen": "pm_shopper_1-card_visa"} {
		t.Run(name, func(t *testing.T) {
			j := judges[name]
			pay := func(n, amount int) request {
				return request{tenant: acme, path: "/v1/charges", key: fmt.Sprintf("%s-%d", name, n),
					body: fmt.Sprintf(`{"amount":%d,"currency":"clp","payment_method":%q,"provider":%q}`, amount, card, name)}
			}
			back := func(n int, charge string, amount int) request {
				return request{tenant: acme, path: "/v1/refunds", key: fmt.Sprintf("%s-back-%d", name, n),
					body: fmt.Sprintf(`{"charge":%q,"amount":%d}`, charge, amount)}
			}
			paid := w.at(us, pay(1, 1000), 201)
			require.Contains(t, string(paid.Body), `"name":"`+name+`"`)
			require.EqualValues(t, 1000, j.Effects()[0].Amount, "of a currency that each counts otherwise")

			// The refund, wherever it is requested, and however it is reported.
			refund := back(1, objectID(t, paid), 400)
			first := w.send(w.ctx, eu, refund)
			require.NoError(t, first.Err)
			require.Equal(t, map[string]int{"stripe": 201, "adyen": 202}[name], first.Status, "%s", first.Body)
			until(t, "the refund is made", func() bool { return w.send(w.ctx, us, refund).Status == 201 })
			require.Equal(t, w.at(us, refund, 201).Remembered(), w.at(eu, refund, 201).Remembered())

			// A retry under the same key reads a lost answer.
			require.NoError(t, j.SetFaults(simulator.Faults{DropReply: 1}))
			lost := w.send(w.ctx, us, pay(2, 500))
			require.Equal(t, 503, lost.Status, "%s", lost.Body)
			require.NoError(t, j.SetFaults(simulator.Faults{}))
			until(t, "the retry reads the lost answer", func() bool { return w.send(w.ctx, us, pay(2, 500)).Status == 201 })

			// A refund that is refused is no refund, at once or later.
			refused := back(2, objectID(t, paid), 700)
			w.send(w.ctx, us, refused)
			until(t, "the refund is refused", func() bool {
				s, err := w.inspect(w.ctx, us, acme, refused.key)
				return err == nil && strings.Contains(strings.ToLower(fmt.Sprint(s)), "failed_retry")
			})
			until(t, "all notices are sent", func() bool { s := j.NoticeStats(); return s.Sent >= 3 && s.Pending == 0 })
			j.once(t, 3)
		})
	}
	require.Zero(t, judges["stripe"].NoticeStats().Failed)
}

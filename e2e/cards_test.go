package e2e

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/node"
)

// startCards starts a world with a debug log, and a way to set the rule for acme's card numbers.
func startCards(t *testing.T) (w *world, log *testLog, set func(claim.CardNumbers)) {
	t.Helper()
	log = &testLog{}
	var tenant claim.Tenant
	w = startWorld(t, nil, func(c *node.ClusterConfig) {
		c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Pool.TenantCache = -1 // a change counts at once
		tenant = c.Tenants[0].Tenant
	})
	return w, log, func(cards claim.CardNumbers) {
		tenant.CardNumbers = cards
		require.NoError(t, w.cluster.DB.PutTenant(w.ctx, tenant))
	}
}

// paying is a charge with these members beside the required ones.
func paying(key, members string) request {
	return request{acme, "/v1/charges", key, `{"amount":100,"currency":"usd","payment_method":"pm_card_visa",` + members + `}`, ""}
}

const (
	card       = "4242424242424242"
	maskedCard = "************4242"
)

// TestCardNumbersStayOut: a card number in free text is refused, and nothing of it is
// stored, sent or logged; an identifier that looks like one is not refused, and is in no
// line of the log.
func TestCardNumbersStayOut(t *testing.T) {
	t.Parallel()
	w, log, set := startCards(t)
	for i, c := range []struct{ members, member string }{
		{`"description":"card ` + card + `"`, "description"},
		{`"description":"4242 4242 4242 4242 12/27"`, "description"},
		{`"description":"3782-822463-10005"`, "description"},
		{`"metadata":{"note":"its number is 5555.5555.5555.4444"}`, "metadata.note"},
		{`"metadata":{"n ` + card + `":"x"}`, "metadata.(digits)"},
		{`"metadata":{"card_number":"` + card + `"}`, "metadata.card_number"},
	} {
		for _, region := range regions[:2] {
			key := fmt.Sprintf("refused-%d", i)
			r := w.at(region, paying(key, c.members), 400)
			require.Equal(t, "invalid_request", r.Problem.Error)
			require.Contains(t, string(r.Body), `"member":"`+c.member+`"`)
			require.NotContains(t, string(r.Body), "4242")
			w.nothing(acme, key)
		}
	}
	w.judge.once(t, 0)
	w.at(us, paying("refused-0", `"description":"a good one"`), 201)

	const order, note, text = "order-5105105105105100", "5105105105105100", "a-line-for-the-books"
	for _, region := range regions {
		w.at(region, paying(card, `"order_id":"`+order+`","metadata":{"item-of-note":"`+note+`"},"description":"`+text+`"`), 201)
	}
	_, err := w.inspect(w.ctx, eu, acme, card)
	require.NoError(t, err)
	w.judge.once(t, 2)

	set(claim.MaskCardNumbers)
	r := w.at(eu, paying("masked", `"description":"card 4242 4242 4242 4242","metadata":{"n":"c `+card+`"}`), 201)
	require.Contains(t, string(r.Body), `"description":"card **** **** **** 4242"`)
	require.Contains(t, string(r.Body), `"n":"c `+maskedCard+`"`)
	set(claim.AllowCardNumbers)
	r = w.at(eu, paying("allowed", `"description":"card `+card+`"`), 201)
	require.Contains(t, string(r.Body), card)

	said := log.String()
	require.Contains(t, said, `level=DEBUG msg=request`)
	for _, secret := range []string{card, "4242 4242", "3782-822463", order, note, "item-of-note", text, "refused-", acme} {
		require.NotContains(t, said, secret)
	}
}

// TestARetryUnderAnotherSettingForCardNumbers: whatever a tenant's setting was at the
// first request and is at the retry, the retry reads the first one's answer: it is
// neither a second charge nor another request, and not refused.
func TestARetryUnderAnotherSettingForCardNumbers(t *testing.T) {
	t.Parallel()
	w, _, set := startCards(t)
	settings := []claim.CardNumbers{claim.RefuseCardNumbers, claim.MaskCardNumbers, claim.AllowCardNumbers}
	made := 0
	for _, first := range settings[1:] {
		for _, now := range settings {
			for _, stamp := range []bool{false, true} {
				key := fmt.Sprintf("%s-%s", first, now)
				if stamp {
					key = stamped(t, eu)
				}
				q := paying(key, `"description":"card `+card+`","order_id":"o-7"`)
				set(first)
				one := w.at(us, q, 201)
				made++
				set(now)
				for _, region := range regions {
					again := w.at(region, q, 201)
					require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"), "%s, then %s", first, now)
					require.Equal(t, one.Remembered(), again.Remembered())
				}
				other := q
				other.body = strings.Replace(q.body, "o-7", "o-8", 1)
				require.Equal(t, "idempotency_key_fingerprint_mismatch", w.at(asia, other, 422).Problem.Error)
			}
		}
	}
	w.judge.once(t, made)

	// Where no mask is possible, too.
	named := paying("named", `"metadata":{"n `+card+`":"x"}`)
	set(claim.AllowCardNumbers)
	one := w.at(us, named, 201)
	made++
	for _, now := range settings {
		set(now)
		for _, region := range regions {
			require.Equal(t, one.Remembered(), w.at(region, named, 201).Remembered())
		}
	}
	w.judge.once(t, made)

	// A request that was refused has left nothing, and is the first one afterwards.
	set(claim.RefuseCardNumbers)
	q := paying("refused-first", `"description":"card `+card+`"`)
	w.at(us, q, 400)
	set(claim.MaskCardNumbers)
	require.Contains(t, string(w.at(eu, q, 201).Body), maskedCard)
	w.judge.once(t, made+1)
}

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// present is a charge whose payer is there; more is further members.
func present(key string, amount int, method, more string) request {
	return request{acme, "/v1/charges", key,
		fmt.Sprintf(`{"amount":%d,"currency":"usd","payment_method":%q,"off_session":false%s}`, amount, method, more), ""}
}

// waits sends q to every region, twice: all read one answer for now, to the byte. It
// returns that, and the provider's id of what waits.
func (w *tale) waits(q request, status string) (first *answer.Answer, ref string) {
	w.t.Helper()
	for range 2 {
		for _, r := range regions {
			got := w.answered(r, q, http.StatusAccepted)
			if first == nil {
				first = got
			}
			require.Equal(w.t, first.Remembered(), got.Remembered())
		}
	}
	var body struct {
		Status       string
		ClientSecret string `json:"client_secret"`
		NextAction   any    `json:"next_action"`
		Provider     struct{ Reference string }
	}
	require.NoError(w.t, json.Unmarshal(first.Body, &body))
	require.Equal(w.t, status, body.Status)
	require.Equal(w.t, status == "requires_action", body.ClientSecret != "" && body.NextAction != nil)
	state, err := w.inspect(w.ctx, asia, q.tenant, q.key)
	require.NoError(w.t, err)
	require.Equal(w.t, "IN_FLIGHT", state.State)
	return first, body.Provider.Reference
}

// A dinar has a thousand fils, and Stripe takes only whole tens of them. An ariary has
// none at Stripe, and a hundred minor units in ISO 4217.
func threeDecimals(w *tale) {
	w.begin(setting{stripe: true, told: []string{us}})
	in := func(key string, amount int, currency string) request {
		return request{acme, "/v1/charges", key, fmt.Sprintf(`{"amount":%d,"currency":%q,"payment_method":"pm_card_visa"}`, amount, currency), ""}
	}
	dinar := objectID(w.t, w.everywhere(in("order-1", 12_340, "kwd"), http.StatusCreated))
	w.everywhere(refund("back-1", dinar, 2_340), http.StatusCreated)
	ariary := objectID(w.t, w.everywhere(in("order-2", 100_000, "mga"), http.StatusCreated))
	w.everywhere(refund("back-2", ariary, 0), http.StatusCreated)
	w.everywhere(in("order-3", 5, "isk"), http.StatusCreated)
	calls := w.judge.Stats().Calls
	odd := w.refusedEverywhere(in("order-4", 12_345, "kwd"), http.StatusBadRequest)
	require.Contains(w.t, string(odd.Body), "multiples of 10")
	require.Equal(w.t, calls, w.judge.Stats().Calls, "nothing was sent")
	w.close(ending{claims: "charge COMPLETED 3, charge FAILED_RETRY 1, refund COMPLETED 2", charges: 3, refunds: 2})
}

// The payer's bank asks them to authenticate. They take their time, and a merchant who
// retries meanwhile reads one answer. The webhook settles it.
func payerActs(w *tale) {
	w.begin(setting{stripe: true, told: []string{eu, asia}, notices: simulator.Notices{Duplicate: 1}})
	q := present(stampedElsewhere(w), 10_000, "pm_card_3ds", "")
	first, ref := w.waits(q, "requires_action")
	require.Contains(w.t, string(first.Body), "bank.example")
	require.Empty(w.t, w.judge.Effects())
	require.NoError(w.t, w.judge.Act(ref, simulator.ActSucceed))
	paid := w.everywhere(q, http.StatusCreated)
	require.NotContains(w.t, string(paid.Body), "client_secret")

	// Another is not let through by their bank; the merchant asks again with the same key,
	// and they try the same payment once more.
	again := present("order-2", 20_000, "pm_card_3ds", "")
	_, ref = w.waits(again, "requires_action")
	require.NoError(w.t, w.judge.Act(ref, simulator.ActFail))
	until(w.t, "the charge is declined for now", func() bool {
		s, err := w.inspect(w.ctx, us, again.tenant, again.key)
		require.NoError(w.t, err)
		return s.State == "FAILED_RETRY"
	})
	require.NoError(w.t, wait(w.ctx, 1500*time.Millisecond)) // a person asks again
	_, same := w.waits(again, "requires_action")
	require.Equal(w.t, ref, same, "the same payment at the provider")
	require.NoError(w.t, w.judge.Act(ref, simulator.ActSucceed))
	w.everywhere(again, http.StatusCreated)
	w.close(ending{claims: "charge COMPLETED 2", charges: 2})
}

func stampedElsewhere(w *tale) string { return stamped(w.t, asia) }

// Nobody ever authenticates. The charge is called off at its expires_at, at the provider
// first, so that nothing can surface later.
func payerNeverActs(w *tale) {
	w.begin(setting{stripe: true, told: []string{us}, notices: simulator.Notices{Hold: true}})
	q := present("order-1", 10_000, "pm_card_3ds", fmt.Sprintf(`,"expires_at":%q`, shortly()))
	_, ref := w.waits(q, "requires_action")
	expired := w.retrying(q)(http.StatusPaymentRequired)
	require.Equal(w.t, "expired", expired.Problem.Code)
	w.replays(q, expired)
	require.Error(w.t, w.judge.Act(ref, simulator.ActSucceed), "it cannot be paid any more")
	w.close(ending{claims: "charge FAILED_TERMINAL 1"})
}

// A bank debit takes days. It is not refunded for that, and settles when the bank does.
func bankDebit(w *tale) {
	w.begin(setting{stripe: true, told: []string{us}})
	q := present("order-1", 50_000, "pm_bank_debit", "")
	_, ref := w.waits(q, "processing")
	require.Empty(w.t, w.judge.Effects())
	require.NoError(w.t, w.judge.Act(ref, simulator.ActSucceed))
	w.everywhere(q, http.StatusCreated)
	fails := present("order-2", 60_000, "pm_bank_debit", "")
	_, ref = w.waits(fails, "processing")
	require.NoError(w.t, w.judge.Act(ref, simulator.ActFail))
	until(w.t, "the debit has failed", func() bool {
		s, err := w.inspect(w.ctx, us, fails.tenant, fails.key)
		require.NoError(w.t, err)
		return s.State == "FAILED_RETRY"
	})
	w.close(ending{claims: "charge COMPLETED 1, charge FAILED_RETRY 1", charges: 1})
}

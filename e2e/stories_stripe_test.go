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

// present is a charge with its payer present; more is further members.
func present(key string, amount int, method, more string) request {
	return request{acme, "/v1/charges", key,
		fmt.Sprintf(`{"amount":%d,"currency":"usd","payment_method":%q,"off_session":false%s}`, amount, method, more), ""}
}

// waits sends q to every region, twice: all read one answer for now, to the byte. It
// returns that, and the provider's id of what waits.
func (w *story) waits(q request, status string) (first *answer.Answer, ref string) {
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
func threeDecimals(w *story) {
	w.begin(setting{stripe: true, notified: []string{us}})
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

// The payer's bank asks them to authenticate. They take four minutes, and a merchant who
// retries meanwhile reads one answer. The webhook settles it, before anybody asks.
func payerActs(w *story) {
	w.begin(setting{stripe: true, virtual: true, notified: []string{eu, asia}, notices: simulator.Notices{Duplicate: 1}})
	q := present(stampedElsewhere(w), 10_000, "pm_card_3ds_240s", "")
	first, _ := w.waits(q, "requires_action")
	require.Contains(w.t, string(first.Body), "bank.example")
	const early = time.Minute // what is done meanwhile takes its time, on a busy machine too
	pauses := w.looks(q, 4*time.Minute-early)
	require.NotEmpty(w.t, pauses)
	require.GreaterOrEqual(w.t, pauses[0], 4*time.Second)
	require.Empty(w.t, w.judge.Effects())
	again, _ := w.waits(q, "requires_action")
	require.Equal(w.t, first.Remembered(), again.Remembered())
	w.virtual.pass(w.t, early+2*time.Second)
	paid := w.everywhere(q, http.StatusCreated)
	require.NotContains(w.t, string(paid.Body), "client_secret")
	w.note("the payment of a payer who authenticated after four minutes was looked up %d times", len(pauses))

	// Another is not let through by their bank; the merchant asks again with the same key,
	// and they try the same payment once more.
	other := present("order-2", 20_000, "pm_card_3ds", "")
	_, ref := w.waits(other, "requires_action")
	require.NoError(w.t, w.judge.Act(ref, simulator.ActFail))
	until(w.t, "the charge is declined for now", func() bool {
		s, err := w.inspect(w.ctx, us, other.tenant, other.key)
		require.NoError(w.t, err)
		return s.State == "FAILED_RETRY"
	})
	require.NoError(w.t, wait(w.ctx, 1500*time.Millisecond)) // a person asks again
	_, same := w.waits(other, "requires_action")
	require.Equal(w.t, ref, same, "the same payment at the provider")
	require.NoError(w.t, w.judge.Act(ref, simulator.ActSucceed))
	w.everywhere(other, http.StatusCreated)
	w.close(ending{claims: "charge COMPLETED 2", charges: 2})
}

func stampedElsewhere(w *story) string { return stamped(w.t, asia) }

// The payer never authenticates. The charge is called off at its expires_at, at the provider
// first, so that nothing can surface later.
func payerNeverActs(w *story) {
	w.begin(setting{stripe: true, notified: []string{us}, notices: simulator.Notices{Hold: true}})
	q := present("order-1", 10_000, "pm_card_3ds", fmt.Sprintf(`,"expires_at":%q`, shortly()))
	_, ref := w.waits(q, "requires_action")
	expired := w.retrying(q)(http.StatusPaymentRequired)
	require.Equal(w.t, "expired", expired.Problem.Code)
	w.replays(q, expired)
	require.Error(w.t, w.judge.Act(ref, simulator.ActSucceed), "it cannot be paid any more")
	w.close(ending{claims: "charge FAILED_TERMINAL 1"})
}

// A bank debit takes two days, without a notice: the bank settles when its time has come, and the
// worker finds it by look-ups. It looks up every minute at first and every hour at last, does not
// give the claim up, and refunds no payer because the bank is slow. Every retry in two days reads one
// answer. Another debit fails after a day.
func bankDebit(w *story) {
	w.begin(setting{stripe: true, virtual: true})
	q := present("order-1", 50_000, "pm_bank_debit_172800s", "")
	first, _ := w.waits(q, "processing")
	same := func() {
		w.t.Helper()
		again, _ := w.waits(q, "processing")
		require.Equal(w.t, first.Remembered(), again.Remembered())
		require.Empty(w.t, w.judge.Effects(), "nothing has moved, in either direction")
	}
	soon := w.looks(q, 2*time.Hour)
	same()
	require.Less(w.t, len(soon), 40, "looked up at a slow pace: %v", soon)
	late := w.looks(q, 46*time.Hour-time.Minute)
	same()
	require.Less(w.t, len(late), 60, "at a slower one: %v", late)
	for i, pause := range append(soon, late...) {
		require.GreaterOrEqual(w.t, pause, 50*time.Second, "look %d", i)
		require.LessOrEqual(w.t, pause, 61*time.Minute, "look %d", i)
	}
	w.looks(q, 62*time.Minute)
	s, err := w.inspect(w.ctx, us, q.tenant, q.key)
	require.NoError(w.t, err)
	require.Equal(w.t, "COMPLETED", s.State, "by a look-up, within an hour of the bank's answer")
	w.everywhere(q, http.StatusCreated)
	w.note("a bank debit of two days was looked up %d times in its first two hours, and %d times after", len(soon), len(late))

	fails := present("order-2", 60_000, "pm_bank_debit_86400s_fails", "")
	w.waits(fails, "processing")
	w.looks(fails, 26*time.Hour)
	s, err = w.inspect(w.ctx, us, fails.tenant, fails.key)
	require.NoError(w.t, err)
	require.Equal(w.t, "FAILED_RETRY", s.State)
	w.close(ending{claims: "charge COMPLETED 1, charge FAILED_RETRY 1", charges: 1})
}

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/psp/stripe"
)

// held is a charge that only holds its money; more is further members.
func held(key string, amount int, more string) request {
	return request{acme, "/v1/charges", key,
		fmt.Sprintf(`{"amount":%d,"currency":"usd","payment_method":"pm_card_visa","capture_method":"manual"%s}`, amount, more), ""}
}

// capture takes amount of a charge, all of it where that is 0.
func capture(key, charge string, amount int) request {
	body := "{}"
	if amount > 0 {
		body = fmt.Sprintf(`{"amount":%d}`, amount)
	}
	return request{acme, "/v1/charges/" + charge + "/capture", key, body, ""}
}

func cancel(key, charge string) request {
	return request{acme, "/v1/charges/" + charge + "/cancel", key, "{}", ""}
}

// chargeBody is a charge as the API renders it.
type chargeBody struct {
	ID, Status string
	Amount     int
	Captured   int `json:"amount_captured"`
	Capturable int `json:"amount_capturable"`
	Metadata   map[string]string
	Provider   struct{ Reference string }
}

func chargeOf(t testing.TB, a *answer.Answer) (c chargeBody) {
	t.Helper()
	require.NoError(t, json.Unmarshal(a.Body, &c))
	return c
}

// hold makes a charge that waits to be captured.
func (w *story) hold(q request) chargeBody {
	w.t.Helper()
	first, _ := w.waits(q, "requires_capture")
	c := chargeOf(w.t, first)
	require.Equal(w.t, c.Amount, c.Capturable)
	return c
}

// refusal waits until a key's claim is final, and returns why.
func (w *story) refusal(q request) (code string) {
	w.t.Helper()
	until(w.t, q.key+" is refused", func() bool {
		s, err := w.inspect(w.ctx, us, q.tenant, q.key)
		require.NoError(w.t, err)
		return s.State == "FAILED_TERMINAL"
	})
	return w.answered(eu, q, http.StatusPaymentRequired).Problem.Code
}

// A shop holds what a basket costs, and takes what it could deliver. Its request is repeated
// in every region, and a colleague's under another key finds it done.
func heldInPart(w *story) {
	w.begin(setting{stripe: true, notified: []string{eu, asia}, notices: simulator.Notices{Duplicate: 1}})
	q := held(stampedElsewhere(w), 10_000, `,"metadata":{"basket":"7"}`)
	c := w.hold(q)
	require.Empty(w.t, w.judge.Effects(), "what is held has not moved")
	require.Zero(w.t, w.balance(ledger.Merchant(w.payee)), "and is not booked")
	early := w.answered(us, refund("back-0", c.ID, 0), http.StatusBadRequest)
	require.Contains(w.t, string(early.Body), "cancel")
	require.Equal(w.t, "amount_too_large", w.answered(us, capture("take-0", c.ID, 10_001), http.StatusBadRequest).Problem.Code)

	take := capture("take-1", c.ID, 6_000)
	took := chargeOf(w.t, w.everywhere(take, http.StatusOK))
	require.Equal(w.t, [3]any{"succeeded", 10_000, 6_000}, [3]any{took.Status, took.Amount, took.Captured})
	require.Equal(w.t, "7", took.Metadata["basket"])
	require.EqualValues(w.t, -6_000, w.balance(ledger.Merchant(w.payee)), "booked, once that is answered")
	require.Equal(w.t, took, chargeOf(w.t, w.everywhere(q, http.StatusCreated)), "and the charge agrees")
	w.everywhere(capture("take-2", c.ID, 6_000), http.StatusOK)
	for _, other := range []request{capture("take-3", c.ID, 7_000), capture("take-4", c.ID, 0), cancel("not-1", c.ID)} {
		require.Equal(w.t, "already_captured", w.answered(eu, other, http.StatusBadRequest).Problem.Code)
	}
	require.Equal(w.t, http.StatusUnprocessableEntity, w.send(w.ctx, eu, capture("take-1", c.ID, 5_000)).Status, "the key is of another amount")
	require.Equal(w.t, "amount_too_large", w.answered(us, refund("back-1", c.ID, 6_001), http.StatusBadRequest).Problem.Code)
	w.everywhere(refund("back-2", c.ID, 1_000), http.StatusCreated)

	all := held("order-2", 20_000, "")
	whole := w.hold(all)
	// Two colleagues at once, under two keys: one capture.
	done := []func(int) *answer.Answer{w.retrying(capture("all-1", whole.ID, 0)), w.retrying(capture("all-2", whole.ID, 20_000))}
	for _, final := range done {
		require.Equal(w.t, 20_000, chargeOf(w.t, final(http.StatusOK)).Captured)
	}
	at := w.answered(asia, charge("order-3", 500), http.StatusCreated)
	require.Equal(w.t, "charge_not_capturable", w.answered(us, capture("take-5", objectID(w.t, at), 0), http.StatusBadRequest).Problem.Code)
	require.Equal(w.t, http.StatusNotFound, w.send(w.ctx, us, capture("take-6", "ch_none", 0)).Status)
	elsewhere := capture("take-7", whole.ID, 0)
	elsewhere.tenant = globex
	require.Equal(w.t, "no_such_charge", w.answered(us, elsewhere, http.StatusBadRequest).Problem.Code)
	w.close(ending{claims: "cancel FAILED_RETRY 1, capture COMPLETED 4, capture FAILED_RETRY 5, charge COMPLETED 3, refund COMPLETED 1, refund FAILED_RETRY 2", charges: 3, refunds: 1})
	require.Equal(w.t, 3, w.emitted("charge.succeeded"))
	require.Equal(w.t, 2, w.emitted("charge.requires_capture"))
	require.Zero(w.t, strings.Count(w.log.String(), "type=capture."), "the change emits an event of the charge")
}

// Nothing could be delivered. Two colleagues cancel the hold, and a third who captures it reads
// that. The charge of a payer who was sent to their bank is cancelled, too.
func holdCanceled(w *story) {
	w.begin(setting{stripe: true, notified: []string{us}, notices: simulator.Notices{Duplicate: 1}})
	q := held(stampedElsewhere(w), 10_000, "")
	c := w.hold(q)
	gone := chargeOf(w.t, w.everywhere(cancel("not-1", c.ID), http.StatusOK))
	require.Equal(w.t, [3]any{c.ID, "canceled", 10_000}, [3]any{gone.ID, gone.Status, gone.Amount})
	require.Equal(w.t, gone.Provider, chargeOf(w.t, w.everywhere(cancel("not-2", c.ID), http.StatusOK)).Provider)
	require.Equal(w.t, "canceled", w.everywhere(q, http.StatusPaymentRequired).Problem.Code)
	require.Equal(w.t, "charge_not_capturable", w.answered(eu, capture("take-1", c.ID, 0), http.StatusBadRequest).Problem.Code)

	waits := present("order-2", 20_000, "pm_card_3ds", "")
	first, ref := w.waits(waits, "requires_action")
	id := chargeOf(w.t, first).ID
	require.Contains(w.t, string(w.answered(us, capture("take-2", id, 0), http.StatusBadRequest).Body), "requires_action")
	w.everywhere(cancel("not-3", id), http.StatusOK)
	require.Error(w.t, w.judge.Act(ref, simulator.ActSucceed), "it cannot be paid any more")
	require.Equal(w.t, "canceled", w.refusal(waits))
	w.close(ending{claims: "cancel COMPLETED 3, capture FAILED_RETRY 2, charge FAILED_TERMINAL 2"})
	require.Equal(w.t, 2, w.emitted("charge.canceled"))
}

// There is no capture. The provider releases one hold, as it does after a week; Homeward releases
// the other at its expires_at.
func holdLapses(w *story) {
	w.begin(setting{stripe: true, notified: []string{us}})
	q := held("order-1", 10_000, "")
	c := w.hold(q)
	bank, err := stripe.New(stripe.Config{Name: judged, Key: "sk_test_tale", BaseURL: w.judge.url + "/stripe"})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = bank.Close() })
	lapsed := bank.Cancel(w.ctx, psp.Call{Key: "lapsed", Source: c.Provider.Reference})
	require.Equal(w.t, psp.Approved, lapsed.Outcome)
	require.Equal(w.t, "canceled", w.refusal(q), "the webhook was sent")
	w.everywhere(cancel("not-1", c.ID), http.StatusOK)

	brief := held("order-2", 20_000, fmt.Sprintf(`,"expires_at":%q`, shortly()))
	last := w.hold(brief)
	expired := w.retrying(brief)(http.StatusPaymentRequired)
	require.Equal(w.t, "expired", expired.Problem.Code)
	require.Equal(w.t, "charge_not_capturable", w.answered(eu, capture("take-1", last.ID, 0), http.StatusBadRequest).Problem.Code)
	require.Equal(w.t, psp.Declined, bank.Capture(w.ctx, psp.Call{Key: "late", Amount: 20_000, Currency: "usd", Source: last.Provider.Reference}).Outcome, "it was canceled at the provider")
	w.close(ending{claims: "cancel COMPLETED 1, capture FAILED_RETRY 1, charge FAILED_TERMINAL 2"})
}

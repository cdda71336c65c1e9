package e2e

import (
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/adyen"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// hmacSecret signs the events of a provider that speaks Adyen.
const hmacSecret = "00112233445566778899aabbccddeeff"

func atAdyen(name, url string) (*adyen.Provider, error) {
	return adyen.New(adyen.Config{
		Name: name, Key: "AQE_1", HMACKey: hmacSecret, MerchantAccount: "HomewardSimulator", BaseURL: url + "/adyen", ReturnURL: "https://shop.example/return",
	})
}

// shopper is a member that Adyen's stored cards need.
const shopper = `,"customer":"shopper_1"`

// ordered sends an order to every region: until the provider reports its result, all read one
// answer, in which the charge is processing.
func (w *story) ordered(q request) (first *answer.Answer) {
	w.t.Helper()
	first, _ = w.waits(q, "processing")
	return first
}

// A shop holds a basket's cost at a provider that answers a capture with received, has no look-ups,
// and reports later. While a capture is under way another one, and a cancellation, are refused, in
// every region. The provider's notice settles the charge, and then the order. After a failed order
// the money is still held.
func heldAtAdyen(w *story) {
	w.begin(setting{adyen: true, notified: []string{eu, asia}, notices: simulator.Notices{Hold: true, Duplicate: 1}})
	q := held(stampedElsewhere(w), 10_000, shopper)
	c := w.hold(q)
	require.Empty(w.t, w.judge.Effects(), "what is held has not moved")
	take := capture("take-1", c.ID, 6_000)
	w.ordered(take)
	require.Equal(w.t, "processing", chargeOf(w.t, w.answered(asia, q, http.StatusAccepted)).Status)
	for _, other := range []request{capture("take-2", c.ID, 6_000), cancel("not-1", c.ID)} {
		require.Equal(w.t, "order_in_progress", w.answered(us, other, http.StatusBadRequest).Problem.Code)
	}
	require.Len(w.t, w.judge.Effects(), 1)
	require.Zero(w.t, w.balance(ledger.Merchant(w.payee)), "nothing is booked before the provider's notice")
	w.quiet()
	took := chargeOf(w.t, w.everywhere(take, http.StatusOK))
	require.Equal(w.t, [3]any{"succeeded", 10_000, 6_000}, [3]any{took.Status, took.Amount, took.Captured})
	require.Equal(w.t, took, chargeOf(w.t, w.everywhere(q, http.StatusCreated)))
	require.EqualValues(w.t, -6_000, w.balance(ledger.Merchant(w.payee)))
	w.everywhere(capture("take-4", c.ID, 6_000), http.StatusOK)
	require.Equal(w.t, "already_captured", w.answered(eu, cancel("not-4", c.ID), http.StatusBadRequest).Problem.Code)

	// The answer to a capture is lost: it is repeated under its key, and moves once.
	lostly := held("order-2", 20_000, shopper)
	second := w.hold(lostly)
	w.faults(simulator.Faults{DropReply: 1})
	w.unknown(us, capture("take-3", second.ID, 0))
	w.faults(simulator.Faults{})
	done := w.retrying(capture("take-3", second.ID, 0))
	until(w.t, "the provider has reported it", func() bool {
		w.releaseNotices()
		return chargeOf(w.t, w.send(w.ctx, us, lostly)).Status == "succeeded"
	})
	require.Equal(w.t, 20_000, chargeOf(w.t, done(http.StatusOK)).Captured)

	// One that is let go; and one of which a person has taken
	// a part in the Customer Area, while our own cancellation is under way.
	third := w.hold(held("order-3", 30_000, shopper))
	w.ordered(cancel("not-2", third.ID))
	w.quiet()
	gone := chargeOf(w.t, w.everywhere(cancel("not-2", third.ID), http.StatusOK))
	require.Equal(w.t, [3]any{third.ID, "canceled", 30_000}, [3]any{gone.ID, gone.Status, gone.Amount})
	require.Equal(w.t, "canceled", w.refusal(held("order-3", 30_000, shopper)))
	bank, err := atAdyen(judged, w.judge.url)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = bank.Close() })
	fourth := held("order-4", 40_000, shopper)
	last := w.hold(fourth)
	byHand := bank.Capture(w.ctx, psp.Call{Key: "by-hand", Of: last.ID, Reference: last.ID, Amount: 15_000, Currency: "usd", Source: last.Provider.Reference})
	require.Equal(w.t, psp.Pending, byHand.Outcome)
	w.ordered(cancel("not-3", last.ID))
	w.quiet()
	require.Equal(w.t, 15_000, chargeOf(w.t, w.everywhere(fourth, http.StatusCreated)).Captured)
	// The notice of the capture, or that of the cancellation, may have come first.
	refused := map[string]string{"FAILED_RETRY": "cancel FAILED_RETRY 3", "FAILED_TERMINAL": "cancel FAILED_RETRY 2, cancel FAILED_TERMINAL 1"}
	s, err := w.inspect(w.ctx, us, acme, "not-3")
	require.NoError(w.t, err)
	w.close(ending{claims: "cancel COMPLETED 1, " + refused[s.State] + ", capture COMPLETED 3, capture FAILED_RETRY 1, charge COMPLETED 3, charge FAILED_TERMINAL 1", charges: 3})
	require.Equal(w.t, 3, w.emitted("charge.succeeded"))
	require.Equal(w.t, 1, w.emitted("charge.canceled"))
}

// Without a capture the hold is called off at its expires_at, and closed when the provider has
// released it: a later capture moves nothing.
func neverCaptured(w *story) {
	w.begin(setting{adyen: true, virtual: true, notified: []string{us}, notices: simulator.Notices{RetryAfter: 20 * time.Millisecond}})
	expires := fmt.Sprintf(`%s,"expires_at":%q`, shopper, w.virtual.storeNow().Add(90*time.Minute).UTC().Format(time.RFC3339))
	q := held("order-1", 10_000, expires)
	c := w.hold(q)
	w.looks(q, 100*time.Minute)
	require.Equal(w.t, "expired", w.everywhere(q, http.StatusPaymentRequired).Problem.Code)
	require.Equal(w.t, "charge_not_capturable", w.answered(eu, capture("take-1", c.ID, 0), http.StatusBadRequest).Problem.Code)
	bank, err := atAdyen(judged, w.judge.url)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = bank.Close() })
	require.Equal(w.t, psp.Pending, bank.Capture(w.ctx, psp.Call{Key: "late", Of: c.ID, Reference: c.ID, Amount: 10_000, Currency: "usd", Source: c.Provider.Reference}).Outcome)
	w.quiet()
	require.Empty(w.t, w.judge.Effects(), "it was canceled at the provider")
	w.close(ending{claims: "capture FAILED_RETRY 1, charge FAILED_TERMINAL 1"})
}

// A payer disputes a charge. The dispute is defended, and its money comes back; the issuer has it a
// second time. The provider reports all of it out of order.
func lostTwice(w *story) {
	w.begin(setting{adyen: true, notified: []string{us, eu}, notices: simulator.Notices{Hold: true, Duplicate: 1}})
	q := charge("order-1", 20_000)
	q.body = fmt.Sprintf(`{"amount":20000,"currency":"usd","payment_method":"pm_card_visa"%s}`, shopper)
	paid := chargeOf(w.t, w.everywhere(q, http.StatusCreated))
	w.quiet()
	dispute := w.happens(psp.KindDisputeOpened, paid.Provider.Reference, 0)
	for _, step := range []psp.Kind{psp.KindDispute, psp.KindDisputeReversal, psp.KindDispute} {
		w.happens(step, dispute, 0)
	}
	_, err := w.judge.ReleaseNotices(simulator.ReleaseReversed)
	require.NoError(w.t, err)
	w.quiet()
	require.Zero(w.t, w.balance(ledger.Disputed(w.payee)))
	require.Zero(w.t, w.balance(ledger.Withheld(judged)))
	require.Zero(w.t, w.balance(ledger.Merchant(w.payee)), "it is the merchant's loss")
	require.Zero(w.t, w.balance(ledger.Provider(judged)))
	for kind, want := range map[string]int{
		"charge.dispute.created": 1, "charge.dispute.funds_withdrawn": 2, "charge.dispute.funds_reinstated": 1, "charge.dispute.closed": 1,
	} {
		require.Equal(w.t, want, w.emitted(kind), kind)
	}
	require.Zero(w.t, w.pages("page: "))
	w.agrees()
}

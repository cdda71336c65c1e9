package e2e

import (
	"net/http"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// The merchant who gives up waiting: an order's page times out, and the shop cancels its key, in
// whatever state the payment is. Nobody is charged for what was given up, and no request reads that it
// was made once the cancellation was accepted.
func givenUpWaiting(w *story) {
	w.begin(setting{caps: capable, notified: []string{eu}})
	slow := []request{charge("order-1", 20_000), charge(stamped(w.t, asia), 20_000)}
	payout := transfer(stamped(w.t, eu), 5_000)
	g := newGate() // money has moved, and the provider's answer takes its time
	w.judge.SetHooks(simulator.Hooks{After: g.hold})
	for _, q := range append(slow, payout) {
		w.later(us, q)
		receive(w.t, "the call", g.entered)
		r, is := w.giveUp(w.ctx, asia, q)
		require.Equal(w.t, http.StatusAccepted, r.Status, "%v", r)
		require.Equal(w.t, "unknown", is.Outcome)
	}
	never := charge("order-2", 100)
	w.gaveUp(w.ctx, w.t, eu, never, "unused")
	g.release()
	w.judge.SetHooks(simulator.Hooks{})
	for _, q := range slow {
		is := w.gaveUp(w.ctx, w.t, us, q, "refunded")
		w.refusedAll(w.ctx, w.t, q)
		w.ghost(is.Charge, w.references(is.Charge)[0], 20_000)
	}
	w.refusedAll(w.ctx, w.t, never)
	w.gaveUp(w.ctx, w.t, us, payout, "already_made")
	w.everywhere(payout, http.StatusCreated)

	paid := charge("order-3", 3_000)
	first := w.answered(us, paid, http.StatusCreated)
	is := w.gaveUp(w.ctx, w.t, asia, paid, "refunded")
	require.Equal(w.t, objectID(w.t, first), is.Charge)
	w.replays(paid, first)
	w.note("%s was answered, and refunded as %s", is.Charge, is.Refund)
	w.close(ending{
		claims:  "cancel_key FAILED_TERMINAL 1, charge COMPLETED 1, charge FAILED_TERMINAL 2, compensation COMPLETED 2, refund COMPLETED 1, transfer COMPLETED 1",
		charges: 3, transfers: 1, refunds: 3,
	})
}

// A payer who is asked to authenticate, and a hold: both are called off at the provider, and no money
// moves.
func givenUpBeforeItMoved(w *story) {
	w.begin(setting{stripe: true, notified: []string{eu}})
	hold := held(stampedElsewhere(w), 10_000, "")
	c := w.hold(hold)
	is := w.gaveUp(w.ctx, w.t, us, hold, "not_made")
	require.Equal(w.t, c.ID, is.Charge)
	w.refusedAll(w.ctx, w.t, hold)
	require.Empty(w.t, w.judge.Effects())
	late := w.send(w.ctx, eu, capture("take-1", c.ID, 0))
	require.Equal(w.t, "charge_not_capturable", late.Problem.Code, "%v", late)
	require.Equal(w.t, 1, w.emitted("charge.canceled"))
	w.close(ending{claims: "capture FAILED_RETRY 1, charge FAILED_TERMINAL 1"})
}

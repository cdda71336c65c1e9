package e2e

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// TestCrashWhileHeld kills the process at the points of a capture and of a cancellation. The
// request is repeated after that, in every region, or never again: the charge then comes to
// the same end by itself.
func TestCrashWhileHeld(t *testing.T) {
	for i, die := range []point{orderBegun, orderCalled, orderReported, orderBooked, orderLearned, orderKept} {
		if testing.Short() && i%3 != 1 {
			continue
		}
		for name, tc := range map[string]struct {
			order   func(key, charge string) request
			status  int // of the charge
			moved   int
			retried bool
		}{
			"capture":              {func(k, c string) request { return capture(k, c, 6_000) }, http.StatusCreated, 1, true},
			"capture, never again": {func(k, c string) request { return capture(k, c, 6_000) }, http.StatusCreated, 1, false},
			"cancel":               {cancel, http.StatusPaymentRequired, 0, true},
		} {
			t.Run(string(die)+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := newCrashRun(t, nil)
				q := held(stamped(t, asia), 10_000, "")
				dying := r.start(childConfig{Stripe: true, Die: die, Arrivals: 1})
				hold := chargeOf(t, r.everyAnswer(q, http.StatusAccepted))
				order := tc.order("order-1", hold.ID)
				cut := make(chan *answer.Answer, 1)
				go func() { cut <- r.sendOn(context.WithoutCancel(r.ctx), us, order) }()
				dying.died()
				require.Error(t, receive(t, "the end of what was cut off", cut).Err)
				r.start(childConfig{Stripe: true})
				if tc.retried {
					got := chargeOf(t, r.everyAnswer(order, http.StatusOK))
					require.Equal(t, hold.ID, got.ID)
				}
				got := r.everyFinal(q, tc.status)
				r.judge.once(t, tc.moved)
				if tc.moved == 0 {
					require.Equal(t, "canceled", got.Problem.Code)
					return
				}
				require.Len(t, r.judge.Effects(), tc.moved)
				require.EqualValues(t, chargeOf(t, got).Captured, r.judge.Effects()[0].Amount)
			})
		}
	}
}

// TestCrashWhileHeldLater is the same at a provider that reports the result of a capture or
// cancellation later, and has no look-ups. The order has the charge from before the call until the
// provider's notice. A node that dies in between leaves one of both to the notice.
func TestCrashWhileHeldLater(t *testing.T) {
	for i, die := range []point{orderBegun, orderTakes, orderTaken, orderCalled, orderSays, orderWaits, orderReported, orderBooked, orderLearned, orderKept} {
		if testing.Short() && i%5 != 3 {
			continue
		}
		for name, tc := range map[string]struct {
			order  func(key, charge string) request
			status int // of the charge
			moved  int
		}{
			"capture": {func(k, c string) request { return capture(k, c, 6_000) }, http.StatusCreated, 1},
			"cancel":  {cancel, http.StatusPaymentRequired, 0},
		} {
			t.Run(string(die)+"/"+name, func(t *testing.T) {
				t.Parallel()
				n := newNoticed(t)
				n.notifyAs(n.front, simulator.NoticeTarget{Secret: hmacSecret, Adyen: true}, false)
				life := childConfig{Adyen: true, Notices: true}
				mortal := life
				mortal.Die, mortal.Arrivals = die, 1
				q := held(stamped(t, asia), 10_000, shopper)
				dying := n.start(mortal)
				hold := chargeOf(t, n.everyAnswer(q, http.StatusAccepted))
				order := tc.order("order-1", hold.ID)
				ended := make(chan *answer.Answer, 1)
				go func() { ended <- n.send(context.WithoutCancel(n.ctx), us, order) }()
				dying.died()
				receive(t, "the end of what was cut off, or its answer for now", ended)
				n.start(life)
				got := n.everyFinal(order, http.StatusOK)
				require.Equal(t, hold.ID, chargeOf(t, got).ID)
				final := n.everyFinal(q, tc.status)
				n.judge.once(t, tc.moved)
				if tc.moved == 0 {
					require.Equal(t, "canceled", final.Problem.Code)
					require.Equal(t, "canceled", chargeOf(t, got).Status)
					return
				}
				require.Equal(t, 6_000, chargeOf(t, final).Captured)
				require.EqualValues(t, 6_000, n.judge.Effects()[0].Amount)
			})
		}
	}
}

// everyFinal sends q to every region until each has its last answer, which has this status.
func (r *crashRun) everyFinal(q request, status int) (first *answer.Answer) {
	r.t.Helper()
	for _, region := range regions {
		got := r.send(r.ctx, region, q)
		for !got.Final() {
			require.NoError(r.t, wait(r.ctx, pauseAfter(got)))
			got = r.send(r.ctx, region, q)
		}
		require.Equal(r.t, status, got.Status, "%s", got.Body)
		if first == nil {
			first = got
		}
		require.Equal(r.t, first.Remembered(), got.Remembered(), region)
	}
	return first
}

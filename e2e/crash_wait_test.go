package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// everyAnswer sends q to every region until each answers with status, and returns the one
// answer that all of them have to give.
func (r *crashRun) everyAnswer(q request, status int) (first *answer.Answer) {
	r.t.Helper()
	for _, region := range regions {
		got := r.send(r.ctx, region, q)
		for got.Err != nil || got.Status != status {
			require.False(r.t, got.Err == nil && got.Final(), "%s: %v", region, got)
			require.NoError(r.t, wait(r.ctx, pauseAfter(got)))
			got = r.send(r.ctx, region, q)
		}
		if first == nil {
			first = got
		}
		require.Equal(r.t, first.Remembered(), got.Remembered(), region)
	}
	return first
}

// TestCrashWhileWaiting kills the process at the points of a charge that waits for its
// payer. The payer acts after that, or never does.
func TestCrashWhileWaiting(t *testing.T) {
	for i, tc := range []struct {
		die     point
		expires bool // the payer does not act, and the charge is called off
		later   bool // the process dies after it has answered
	}{
		{die: begun}, {die: waitLearned}, {die: waitKept}, {die: takenOver, later: true},
		{die: calledOff, expires: true, later: true}, {die: callEnded, expires: true, later: true},
	} {
		if testing.Short() && i%2 != 0 {
			continue
		}
		t.Run(string(tc.die), func(t *testing.T) {
			t.Parallel()
			r := newCrashRun(t, nil)
			q := present(stamped(t, asia), 10_000, "pm_card_3ds", "")
			if tc.expires {
				q = present(stamped(t, asia), 10_000, "pm_card_3ds", fmt.Sprintf(`,"expires_at":%q`, shortly()))
			}
			dying := r.start(childConfig{Stripe: true, Die: tc.die, Arrivals: 1})
			before := make(chan *answer.Answer, 1)
			go func() { before <- r.send(context.WithoutCancel(r.ctx), us, q) }()
			if tc.later {
				require.Equal(t, http.StatusAccepted, receive(t, "the answer for now", before).Status)
			}
			dying.died()
			r.start(childConfig{Stripe: true})
			if tc.expires {
				expired := r.everyAnswer(q, http.StatusPaymentRequired)
				require.Equal(t, "expired", expired.Problem.Code)
				require.Empty(t, r.judge.Waiting(), "it cannot be paid any more")
				r.judge.once(t, 0)
				return
			}
			now := r.everyAnswer(q, http.StatusAccepted)
			require.Contains(t, string(now.Body), `"status":"requires_action"`)
			ids := r.judge.Waiting()
			require.Len(t, ids, 1, "one payment at the provider, whoever requested it")
			r.judge.once(t, 0)
			require.NoError(t, r.judge.Act(ids[0], simulator.ActSucceed))
			r.everyAnswer(q, http.StatusCreated)
			r.judge.once(t, 1)
		})
	}
}

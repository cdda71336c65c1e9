package e2e

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// TestCrashThenCancel kills the process at each point of a payment. Its merchant never retries, but
// cancels the key, in two regions at once.
func TestCrashThenCancel(t *testing.T) {
	for i, tc := range []struct {
		name             string
		die              point
		charge, transfer string // what the cancellation comes to
		answers          int    // the charge's own retries
	}{
		{"A before anything is durable", beforeWrite, "unused", "unused", http.StatusGone},
		{"B after Begin, before the provider is called", begun, "not_made", "not_made", http.StatusGone},
		{"D the provider answered, before Settle", answered, "refunded", "already_made", http.StatusGone},
		{"E after Settle, before the reply", settled, "refunded", "already_made", http.StatusCreated},
	} {
		if testing.Short() && i%2 == 1 {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newCrashRun(t, ways(t, ""))
			dying := r.start(childConfig{Die: tc.die, Arrivals: int32(len(r.ways))})
			replies := r.sendAll(r.ctx)
			dying.died()
			r.unanswered(replies)
			if tc.die == begun || tc.die == answered {
				// The worker would make the call, or settle it, as soon as the lease has lapsed: then
				// the payment came first.
				waiting := r.start(childConfig{NoWorker: true})
				var all sync.WaitGroup
				for _, w := range r.ways {
					all.Go(func() {
						until(t, "the key is marked", func() bool {
							_, is := r.giveUp(r.ctx, w.entry, w.q)
							return is.Outcome == "unknown"
						})
					})
				}
				all.Wait()
				waiting.kill()
			}
			r.start(childConfig{})
			charges := 0
			for _, w := range r.ways {
				says := tc.transfer
				if w.q.path == "/v1/charges" {
					charges++
					says = tc.charge
				}
				both := make(chan canceled, 2)
				for _, region := range w.replays {
					go func() { both <- r.gaveUp(r.ctx, t, region, w.q, says) }()
				}
				is := receive(t, "what a key came to", both)
				require.Equal(t, is, receive(t, "what it came to elsewhere", both), w.name)
				switch {
				case strings.HasPrefix(says, "already"):
					require.Equal(t, http.StatusCreated, r.settle(r.ctx, us, w.q, nil).Status, w.name)
				case tc.answers == http.StatusGone || says == "not_made":
					r.refusedAll(r.ctx, t, w.q)
				default:
					require.Equal(t, tc.answers, r.settle(r.ctx, eu, w.q, nil).Status, w.name)
				}
				if says == "refunded" {
					require.Equal(t, 1, r.judge.moved(is.Charge), w.name)
					require.Equal(t, 1, r.judge.moved(is.Refund), w.name)
				}
			}
			moved := 0
			if tc.charge == "refunded" {
				moved = charges
			}
			require.Equal(t, [2]int{moved, moved}, [2]int{r.judge.byKind(psp.KindCharge), r.judge.byKind(psp.KindRefund)})
			require.Zero(t, r.judge.Stats().DuplicateEffects)
			require.Zero(t, r.judge.Stats().KeyReuses)
		})
	}
}

// TestCrashWhileCanceling kills the process at each point of a cancellation. The charge is in flight,
// or was answered before. The merchant cancels again, or never does: then the charge comes to its end,
// and its money back, by itself.
func TestCrashWhileCanceling(t *testing.T) {
	for i, tc := range []struct {
		die  point
		paid bool // the charge was answered before
	}{
		{die: cancelMarked},
		{die: cancelLearned},
		{die: cancelKept},
		{die: expiryTaken},
		{die: refundWanted},
		{die: refundIntent},
		{die: refundCall},
		{die: refundCalled},
		{die: refundLearned},
		{die: refundBooked},
		{die: expiryFinish},
		{die: cancelRefunds, paid: true},
		{die: refundCall, paid: true},
		{die: refundCalled, paid: true},
		{die: answered, paid: true},
		{die: settled, paid: true},
	} {
		if testing.Short() && i%5 != 1 {
			continue
		}
		name := string(tc.die) + ", in flight"
		if tc.paid {
			name = string(tc.die) + ", answered before"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCrashRun(t, nil)
			q := charge(stamped(t, asia), 7000)
			first := childConfig{Die: tc.die, Arrivals: 1}
			var paid *answer.Answer
			if tc.paid {
				living := r.start(childConfig{})
				paid = r.settle(r.ctx, us, q, nil)
				require.Equal(t, http.StatusCreated, paid.Status, "%v", paid)
				living.kill()
			}
			dying := r.start(first)
			gone := make(chan *answer.Answer, 1)
			g := r.judge.hold(t)
			if tc.paid {
				g.release()
				r.judge.SetHooks(simulator.Hooks{})
			} else {
				go func() { gone <- r.send(context.WithoutCancel(r.ctx), eu, q) }()
				receive(t, "the call", g.entered)
			}
			go func() { _, _ = r.giveUp(context.WithoutCancel(r.ctx), us, q) }()
			if !tc.paid && tc.die != cancelMarked {
				r.marked(t, asia, q)
				g.release()
				r.judge.SetHooks(simulator.Hooks{})
			}
			dying.died()
			g.release()
			r.judge.SetHooks(simulator.Hooks{})
			r.start(childConfig{})
			until(t, "the money is back, by itself", func() bool { return r.judge.byKind(psp.KindRefund) == 1 })
			is := r.gaveUp(r.ctx, t, eu, q, "refunded")
			require.Equal(t, 1, r.judge.moved(is.Charge))
			require.Equal(t, 1, r.judge.moved(is.Refund))
			if tc.paid {
				for _, region := range regions {
					require.Equal(t, paid.Remembered(), r.settle(r.ctx, region, q, nil).Remembered())
				}
			} else {
				r.refusedAll(r.ctx, t, q)
			}
			require.Equal(t, [2]int{1, 1}, [2]int{r.judge.byKind(psp.KindCharge), r.judge.byKind(psp.KindRefund)})
			require.Zero(t, r.judge.Stats().DuplicateEffects)
		})
	}
}

// marked waits until q's key is marked.
func (r *crashRun) marked(t *testing.T, region string, q request) {
	t.Helper()
	until(t, "the key is marked", func() bool {
		status, err := r.inspect(r.ctx, region, q.tenant, q.key)
		if err != nil {
			return false
		}
		for _, e := range status.Timeline {
			if e.Event == "canceled" {
				return true
			}
		}
		return false
	})
}

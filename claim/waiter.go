package claim

import (
	"context"
	"math/rand/v2"
	"time"
)

// waiter paces the polls of a request that waits for a rival.
type waiter struct {
	p     *Policy
	since time.Time
	total *time.Timer
	poll  *time.Timer
}

func newWaiter(p *Policy) *waiter {
	return &waiter{p: p, since: time.Now(), total: time.NewTimer(p.WaitMax), poll: time.NewTimer(0)}
}

// next waits for done, or for the poll interval if done is nil because the holder is on
// another node. It reports whether the caller should look again.
func (w *waiter) next(ctx context.Context, done <-chan struct{}) bool {
	pause := w.p.WaitPoll
	if done != nil {
		// The holder is in this process and closes done. The long poll only covers a
		// take-over by another node.
		pause *= 10
	}
	// Between half and one and a half times the interval, so that waiters spread.
	w.poll.Reset(pause/2 + rand.N(pause))
	select {
	case <-done:
		return true
	case <-w.poll.C:
		return true
	case <-w.total.C:
		return false
	case <-ctx.Done():
		return false
	}
}

func (w *waiter) close() {
	if w != nil {
		w.total.Stop()
		w.poll.Stop()
	}
}

package outbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/homeward-io/homeward/fault"
)

// hand is the rows of one home that a worker has in hand. Those that end at about the
// same time end in one step of the store, which costs it about what one of them would.
// Nobody waits for others without need: the step begins once all that are in hand have
// ended, or half of all slots have, or the first has waited for as long as gather says.
// One step is under way at once; who ends meanwhile is in the next.
type hand struct {
	w      *Worker
	region string

	mu      sync.Mutex
	rows    int // in hand, with those that wait
	waiting []*ending
	ripe    bool // the first of them has waited for long enough
	running bool // a step
}

// ending is a row that waits for its step.
type ending struct {
	ctx  context.Context // of the row
	done bool            // to be finished, and not retried
	Delay
	ended chan error // one place, so that nobody waits for who has left
}

func (h *hand) took(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rows += n
}

// left is called when a row is dealt with.
func (h *hand) left() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rows--
	h.serve()
}

func (h *hand) finish(ctx context.Context, m Message) error {
	return h.end(&ending{ctx: ctx, done: true, Delay: Delay{Hold: Hold{m.ID, m.Fence}}})
}

// retry puts the row off, and has the worker look when it is due again.
func (h *hand) retry(ctx context.Context, m Message, after time.Duration, reason string) error {
	err := h.end(&ending{ctx: ctx, Delay: Delay{Hold{m.ID, m.Fence}, after, reason}})
	h.w.Wake(h.region, after)
	return err
}

// end waits until the row's step has ended.
func (h *hand) end(e *ending) error {
	e.ended = make(chan error, 1)
	h.mu.Lock()
	h.waiting = append(h.waiting, e)
	if len(h.waiting) == 1 {
		time.AfterFunc(h.w.gather(), func() { h.ripen(e) })
	}
	h.serve()
	h.mu.Unlock()
	select {
	case err := <-e.ended:
		return err
	case <-e.ctx.Done():
		return e.ctx.Err() // the step may come yet, and compares the fence
	}
}

// ripen lets nobody wait any longer where first still does.
func (h *hand) ripen(first *ending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiting) > 0 && h.waiting[0] == first {
		h.ripe = true
		h.serve()
	}
}

// serve begins a step if there is reason to. The caller holds the lock.
func (h *hand) serve() {
	n := len(h.waiting)
	if n == 0 || h.running || n < h.rows && n < h.w.c.Batch/2 && !h.ripe {
		return
	}
	rows := h.waiting
	h.waiting, h.ripe, h.running = nil, false, true
	go h.step(rows)
}

// step ends rows, and then those that have ended meanwhile.
func (h *hand) step(rows []*ending) {
	var finish []Hold
	var retry []Delay
	for _, e := range rows {
		if e.done {
			finish = append(finish, e.Hold)
		} else {
			retry = append(retry, e.Delay)
		}
	}
	// It ends in a call's time, whatever becomes of the row that it takes its trace from.
	ctx := context.WithoutCancel(rows[0].ctx)
	var finished, retried error
	if len(finish) > 0 {
		finished = safely(func() error { return h.w.c.Store.FinishAll(ctx, h.region, finish) })
	}
	if len(retry) > 0 {
		retried = safely(func() error { return h.w.c.Store.RetryAll(ctx, h.region, retry) })
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = false
	for _, e := range rows {
		if e.done {
			e.ended <- finished
		} else {
			e.ended <- retried
		}
	}
	if h.ripe = len(h.waiting) > 0; h.ripe { // they have waited for a step
		h.serve()
	}
}

// safely returns a panic of the store as an error.
func safely(f func() error) (err error) {
	if caught := fault.Caught(func() { err = f() }); caught != nil {
		return fmt.Errorf("the store panicked: %w", caught)
	}
	return err
}

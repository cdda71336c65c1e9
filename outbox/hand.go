package outbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/homeward-io/homeward/fault"
)

// hand holds the taken rows of one home. Rows that end at about the same time end in
// one step of the store, which costs about as much as ending one. A row does not wait
// without need: the step begins once all taken rows have ended, or half of all slots
// have, or the first has waited for [Worker.gather]. One step runs at a time; rows that end
// meanwhile join the next.
type hand struct {
	w       *Worker
	region  string
	mu      sync.Mutex
	rows    int // taken rows, including those that wait
	waiting []*ending
	ripe    bool // the first of them has waited long enough
	running bool // a step
}

// ending is a row that waits for its step.
type ending struct {
	ctx  context.Context // of the row
	done bool            // to be finished, not retried
	Delay
	ended chan error // one place, so that nobody waits for a caller that left
}

func (h *hand) took(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rows += n
}

// left is called when a row is done.
func (h *hand) left() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rows--
	h.serve()
}

func (h *hand) finish(ctx context.Context, m Message) error {
	return h.end(&ending{ctx: ctx, done: true, Delay: Delay{Hold: Hold{m.ID, m.Fence}}})
}

// retry postpones the row, and schedules a look for when it is due again.
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
		return e.ctx.Err() // the step may still run; it compares the fence
	}
}

// ripen starts the step if first still waits.
func (h *hand) ripen(first *ending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiting) > 0 && h.waiting[0] == first {
		h.ripe = true
		h.serve()
	}
}

// serve begins a step if there is a reason to. The caller holds the lock.
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
	// It is bounded by the time of one call, whichever row it takes its trace from.
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
	h.ripe = len(h.waiting) > 0 // they have waited for the step
	h.serve()
}

// safely returns a panic of the store as an error.
func safely(f func() error) (err error) {
	if caught := fault.Caught(func() { err = f() }); caught != nil {
		return fmt.Errorf("the store panicked: %w", caught)
	}
	return err
}

package outbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/homeward-io/homeward/internal/fault"
)

// completer finishes and retries the taken rows of one home. Rows that end at about the
// same time share a step of the store, which costs about as much as ending one. A row does
// not wait without need: the step starts once all taken rows have ended, or half of all
// slots have, or the first has waited for [Worker.batchDelay]. One step runs at a time; rows
// that end meanwhile join the next.
type completer struct {
	w      *Worker
	region string

	mu      sync.Mutex
	rows    int // taken rows, including those that wait
	waiting []*completion
	overdue bool // the first of them has waited long enough
	running bool // a step
}

// completion is a row that waits for its step.
type completion struct {
	ctx  context.Context // of the row
	done bool            // to be finished, not retried
	Delay
	result chan error // one place, so that nobody waits for a caller that has gone
}

// add counts n more taken rows.
func (c *completer) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows += n
}

// remove is called when a row is done.
func (c *completer) remove() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows--
	c.startIfReady()
}

func (c *completer) finish(ctx context.Context, m Message) error {
	return c.complete(&completion{ctx: ctx, done: true, Delay: Delay{Hold: m.Hold()}})
}

// retry postpones the row, and schedules a take for when it is due again.
func (c *completer) retry(ctx context.Context, m Message, after time.Duration, reason string) error {
	err := c.complete(&completion{ctx: ctx, Delay: Delay{m.Hold(), after, reason}})
	c.w.Wake(c.region, after)
	return err
}

// complete waits until the row's step has ended.
func (c *completer) complete(row *completion) error {
	row.result = make(chan error, 1)
	c.mu.Lock()
	c.waiting = append(c.waiting, row)
	if len(c.waiting) == 1 {
		time.AfterFunc(c.w.batchDelay(), func() { c.waited(row) })
	}
	c.startIfReady()
	c.mu.Unlock()
	select {
	case err := <-row.result:
		return err
	case <-row.ctx.Done():
		return row.ctx.Err() // the step may still run; it compares the fence
	}
}

// waited starts the step if first still waits.
func (c *completer) waited(first *completion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 && c.waiting[0] == first {
		c.overdue = true
		c.startIfReady()
	}
}

// startIfReady starts a step if there is a reason to. The caller holds the lock.
func (c *completer) startIfReady() {
	n := len(c.waiting)
	if n == 0 || c.running || n < c.rows && n < c.w.c.Slots/2 && !c.overdue {
		return
	}
	rows := c.waiting
	c.waiting, c.overdue, c.running = nil, false, true
	go c.run(rows)
}

// run finishes and retries rows in the store, and then those that have ended meanwhile.
func (c *completer) run(rows []*completion) {
	var finish []Hold
	var retry []Delay
	for _, row := range rows {
		if row.done {
			finish = append(finish, row.Hold)
		} else {
			retry = append(retry, row.Delay)
		}
	}
	// It is bounded by the time of one call, whichever row it takes its trace from.
	ctx := context.WithoutCancel(rows[0].ctx)
	var finished, retried error
	if len(finish) > 0 {
		finished = safely(func() error { return c.w.c.Store.FinishAll(ctx, c.region, finish) })
	}
	if len(retry) > 0 {
		retried = safely(func() error { return c.w.c.Store.RetryAll(ctx, c.region, retry) })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	for _, row := range rows {
		if row.done {
			row.result <- finished
		} else {
			row.result <- retried
		}
	}
	c.overdue = len(c.waiting) > 0 // they have waited for the step
	c.startIfReady()
}

// safely returns a panic of the store as an error.
func safely(f func() error) (err error) {
	if caught := fault.Caught(func() { err = f() }); caught != nil {
		return fmt.Errorf("the store panicked: %w", caught)
	}
	return err
}

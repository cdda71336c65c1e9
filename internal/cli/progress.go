package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/homeward-io/homeward/ledger"
)

const (
	// progressShown is how often a line on a terminal is renewed, progressSaid how
	// often one is added elsewhere: the log of a night's run has some hundred.
	progressShown = 200 * time.Millisecond
	progressSaid  = 30 * time.Second
)

// progress prints the progress of long work, as line describes it, on standard error until
// stop is called: one line that is renewed on a terminal, or one line at a time elsewhere.
// Shorter work prints nothing.
func (io streams) progress(line func() string) (stop func()) {
	live, every := terminal(io.err), progressSaid
	if live {
		every = progressShown
	}
	began, end := time.Now(), make(chan struct{})
	var printing sync.WaitGroup
	printing.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			text := fmt.Sprintf("%s, %v", line(), time.Since(began).Truncate(time.Second))
			if live {
				fmt.Fprintf(steered(io.err), "\r%s\x1b[K", harmless(text))
			} else {
				fmt.Fprintln(io.err, text)
			}
		}
	})
	return func() {
		close(end)
		printing.Wait()
		if live {
			fmt.Fprint(steered(io.err), "\r\x1b[K")
		}
	}
}

// countedParts counts the parts of some work that are done.
type countedParts struct {
	what        string
	done, total atomic.Int64
}

func (c *countedParts) set(done, total int) {
	c.done.Store(int64(done))
	c.total.Store(int64(total))
}

// String describes the progress.
func (c *countedParts) String() string {
	return fmt.Sprintf("%s: %d of %d", c.what, c.done.Load(), c.total.Load())
}

// countedBooks counts the transactions that are read of books.
type countedBooks struct {
	ledger.Store
	region atomic.Pointer[string] // which is read
	rows   atomic.Int64
}

// Transactions is that of the books.
func (c *countedBooks) Transactions(ctx context.Context, region string, after ledger.Position, before time.Time, limit int) ([]ledger.Transaction, error) {
	c.region.Store(&region)
	rows, err := c.Store.Transactions(ctx, region, after, before, limit)
	c.rows.Add(int64(len(rows)))
	return rows, err
}

// String describes the progress.
func (c *countedBooks) String() string {
	var in string
	if region := c.region.Load(); region != nil {
		in = " in " + *region
	}
	return fmt.Sprintf("%d transactions read%s", c.rows.Load(), in)
}

// currentStep is what a migration is doing.
type currentStep struct {
	mu   sync.Mutex
	name string
	at   time.Time
	done int
}

// begin notes the next one.
func (c *currentStep) begin(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.name, c.at, c.done = name, time.Now(), c.done+1
}

// String describes the present step, and its duration.
func (c *currentStep) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.name == "" {
		return "looking at what there is"
	}
	name, _, _ := strings.Cut(c.name, "\n")
	return fmt.Sprintf("step %d, %s: for %v", c.done, name, time.Since(c.at).Truncate(time.Second))
}

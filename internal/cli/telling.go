package cli

import (
	"context"
	"fmt"
	"io"
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

// telling prints the progress of long work on standard error, until it is stopped: one
// line that is renewed on a terminal, or one line at a time elsewhere. Shorter work
// prints nothing.
type telling struct {
	out   io.Writer
	live  bool
	every time.Duration
	say   func() string
	began time.Time
	end   chan struct{}
	ended sync.WaitGroup
}

// tell begins to print what say returns. The caller stops it.
func tell(io streams, say func() string) *telling {
	p := &telling{out: io.err, live: terminal(io.err), every: progressSaid, say: say}
	if p.live {
		p.every = progressShown
	}
	p.start()
	return p
}

func (p *telling) start() {
	p.began, p.end = time.Now(), make(chan struct{})
	p.ended.Go(p.run)
}

func (p *telling) run() {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		select {
		case <-p.end:
			return
		case <-tick.C:
			line := fmt.Sprintf("%s, %v", p.say(), time.Since(p.began).Truncate(time.Second))
			if p.live {
				fmt.Fprintf(steered(p.out), "\r%s\x1b[K", harmless(line))
			} else {
				fmt.Fprintln(p.out, line)
			}
		}
	}
}

// stop ends it. It erases the line on a terminal.
func (p *telling) stop() {
	close(p.end)
	p.ended.Wait()
	if p.live {
		fmt.Fprint(steered(p.out), "\r\x1b[K")
	}
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

package node

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/internal/parts"
)

// background runs beside requests, as a part: later parts in the list may add to it,
// and it ends when none needs it any more.
type background struct {
	ctx  context.Context
	work sync.WaitGroup
}

func (b *background) start(context.Context) (parts.Stop, error) {
	var end context.CancelFunc
	b.ctx, end = context.WithCancel(context.Background())
	return func(context.Context) error {
		end()
		b.work.Wait()
		return nil
	}, nil
}

// run runs f in the background; its ctx ends with the part.
func (b *background) run(f func(context.Context)) { b.work.Go(func() { f(b.ctx) }) }

// every runs f periodically in the background.
func (b *background) every(log *slog.Logger, d time.Duration, f func(context.Context)) {
	b.run(func(ctx context.Context) { every(ctx, log, d, f) })
}

// every runs f about every d until ctx ends, with jitter so that nodes which were
// started together do not query the database together. A panic costs one round.
func every(ctx context.Context, log *slog.Logger, d time.Duration, f func(context.Context)) {
	pause := time.NewTimer(rand.N(d))
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
			if caught := fault.Caught(func() { f(ctx) }); caught != nil {
				log.Error("a background job panicked; the node retries it", "fault", caught)
			}
			pause.Reset(d/2 + rand.N(d))
		}
	}
}

// trouble logs the first and the last failure of a series, and nothing in between.
type trouble struct {
	log         *slog.Logger
	began, over string
	in          bool
}

func (t *trouble) note(err error) {
	switch failing := err != nil; {
	case failing && !t.in:
		t.log.Warn(t.began, "error", err)
	case !failing && t.in:
		t.log.Info(t.over)
	}
	t.in = err != nil
}

// sweepBatch bounds one housekeeping round, in rows: a few milliseconds' work.
const sweepBatch = 1000

// sweeper deletes rows past their windows, a batch at a time.
type sweeper struct {
	sweep   func(ctx context.Context, limit int) (removed int, err error)
	trouble trouble
}

// newSweeper returns a sweeper of the stores of a node, or a cluster.
func newSweeper(sweep func(context.Context, int) (int, error), log *slog.Logger) *sweeper {
	return &sweeper{sweep, trouble{
		log: log, began: "rows past their windows cannot be deleted; they count as absent all the same", over: "rows past their windows can be deleted again",
	}}
}

// round continues while batches are full, so that the rows of a busy hour are deleted
// soon after it.
func (s *sweeper) round(ctx context.Context) {
	for {
		n, err := s.sweep(ctx, sweepBatch)
		if ctx.Err() != nil {
			return
		}
		s.trouble.note(err)
		if err != nil || n < sweepBatch {
			return
		}
	}
}

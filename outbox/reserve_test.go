package outbox_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"
)

// woken is a started worker that looks only when it is woken, and has looked once.
func woken(t *testing.T, q outbox.Store, h outbox.Handler, batch int, regions ...string) *outbox.Worker {
	t.Helper()
	w, err := outbox.NewWorker(outbox.WorkerConfig{
		Store: q, Regions: func() []string { return regions }, Batch: batch, Woken: true, MaxAttempts: 3,
		Handlers: map[outbox.Kind]outbox.Handler{outbox.KindProviderCall: h},
	})
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	w.Start()
	synctest.Wait()
	return w
}

// left counts the rows.
func (q *queue) left() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.rows)
}

// leave is a step that writes rows and leaves them with whoever asked.
func (q *queue) leave(h *outbox.Handover, ids ...string) {
	q.put(ids...)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range ids {
		m := q.rows[id]
		m.Fence, m.Due = 1, time.Now().Add(h.Lease)
		h.Rows = append(h.Rows, *m)
	}
}

// Rows that a step leaves with the worker are handled at once, without a take, and end
// together.
func TestRowsThatAStepLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		handled := make(chan time.Time, 10)
		w := woken(t, q, func(context.Context, outbox.Message) outbox.Disposition {
			handled <- time.Now()
			return outbox.Done()
		}, 32, "r")
		require.Equal(t, 1, q.took("take"))
		for _, id := range ids("row", 10) {
			r := w.Reserve("r", 1)
			require.NotNil(t, r)
			require.Equal(t, time.Minute, r.Lease)
			q.leave(&r.Handover, id)
			written := time.Now()
			r.End()
			require.Equal(t, written, <-handled)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(aLook)
		require.Zero(t, q.left())
		require.Zero(t, q.took("take"))
		require.Equal(t, 1, q.took("finish"))
	})
}

// Rows that are left are no reason to look; what waits for one of them is.
func TestWhatWaitsForARowThatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newQueue(), newSlowly()
		w := woken(t, q, s.handle, 32, "r")
		q.took("take")
		r := w.Reserve("r", 1)
		q.leave(&r.Handover, "slow")
		r.End()
		w.Wake("r", 0) // for a row of its line
		time.Sleep(aLook)
		require.Equal(t, 1, q.took("take"))
		for range 5 {
			r := w.Reserve("r", 1)
			q.leave(&r.Handover, "other")
			r.End()
			time.Sleep(aLook)
		}
		require.Zero(t, q.took("take"), "nothing waits for those")
		s.release()
		time.Sleep(aLook)
		require.Equal(t, 1, q.took("take"))
	})
}

func TestReservedSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newQueue(), newSlowly()
		w := woken(t, q, s.handle, 4, "r", "far")
		reserve := func(region string, n int) *outbox.Reservation {
			r := w.Reserve(region, n)
			if r != nil {
				t.Cleanup(r.End)
			}
			return r
		}
		require.Nil(t, reserve("elsewhere", 1), "another worker's region")
		require.Nil(t, reserve("r", 4), "a slot is kept for the other region")
		one, two := reserve("r", 1), w.Reserve("r", 2)
		require.NotNil(t, one)
		require.NotNil(t, two)
		require.Nil(t, reserve("r", 1))
		require.NotNil(t, reserve("far", 1))
		two.End() // nothing was written, or nobody knows
		again := w.Reserve("r", 2)
		require.NotNil(t, again)
		q.leave(&again.Handover, "slow1") // the other one waits
		again.End()
		require.Equal(t, 1, s.inHand("r"))
		require.NotNil(t, reserve("r", 1))
		require.Nil(t, reserve("r", 1))
		s.release()
		time.Sleep(aLook)
		require.NotNil(t, reserve("r", 1))
	})
}

// Older rows go first: a worker with a backlog, or one that cannot take, takes nothing
// that is younger.
func TestNoSlotIsReservedBeforeABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newQueue().put(ids("slow", 9)...), newSlowly()
		w := woken(t, q, s.handle, 4, "r")
		require.Equal(t, 4, s.inHand("r"))
		require.Nil(t, w.Reserve("r", 1))
		s.release()
		time.Sleep(aLook)
		require.Zero(t, q.left())
		r := w.Reserve("r", 1)
		require.NotNil(t, r)
		r.End()
		q.mu.Lock()
		q.failed = context.DeadlineExceeded
		q.mu.Unlock()
		w.Wake("r", 0)
		time.Sleep(aLook)
		require.Nil(t, w.Reserve("r", 1))
	})
}

// A drain waits for steps that may leave rows, and for those rows.
func TestADrainWaitsForWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newQueue(), newSlowly()
		w := woken(t, q, s.handle, 4, "r")
		r := w.Reserve("r", 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, w.Drain(ctx))
		require.Nil(t, w.Reserve("r", 1), "it takes no more")
		q.leave(&r.Handover, "slow")
		r.End()
		require.Equal(t, 1, s.inHand("r"))
		require.Error(t, w.Drain(ctx))
		s.release()
		require.NoError(t, w.Drain(t.Context()))
		require.Zero(t, q.left())
		require.Nil(t, w.Reserve("r", 1))
	})
}

// A row that is left and fails is postponed like others, and taken when it is due.
func TestARowThatIsLeftFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		seen := make(chan string, 3)
		w := woken(t, q, func(_ context.Context, m outbox.Message) outbox.Disposition {
			if seen <- m.LastError; m.Attempts == 0 {
				return outbox.Failed("no")
			}
			return outbox.Done()
		}, 4, "r")
		r := w.Reserve("r", 1)
		q.leave(&r.Handover, "a")
		r.End()
		time.Sleep(5 * time.Second)
		require.Zero(t, q.left())
		require.Len(t, seen, 2)
		require.Empty(t, <-seen)
		require.Equal(t, "no", <-seen)
	})
}

// slowFinish is a queue whose FinishAll takes as long as a database's.
type slowFinish struct {
	*queue
	takes time.Duration
}

func (s slowFinish) FinishAll(ctx context.Context, region string, rows []outbox.Hold) error {
	time.Sleep(s.takes)
	return s.queue.FinishAll(ctx, region, rows)
}

// Rows that are left end together also where the next one comes while a step runs.
func TestRowsThatAreLeftEndTogetherAtAnyRate(t *testing.T) {
	for _, rate := range []int{50, 150, 250, 400, 800} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				w := woken(t, slowFinish{q, 5 * time.Millisecond}, func(context.Context, outbox.Message) outbox.Disposition {
					return outbox.Done()
				}, 64, "r")
				const seconds = 10
				for i := range seconds * rate {
					if r := w.Reserve("r", 1); r != nil {
						q.leave(&r.Handover, fmt.Sprint("row", i))
						r.End()
					}
					time.Sleep(time.Second / time.Duration(rate))
				}
				time.Sleep(time.Second)
				require.Zero(t, q.left())
				// Twice in a time between polls, and more only where half of the slots have ended.
				require.LessOrEqual(t, q.took("finish"), seconds*max(6, rate/20))
			})
		})
	}
}

// A drain does not wait for company that cannot come.
func TestADrainEndsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		w, err := outbox.NewWorker(outbox.WorkerConfig{
			Store: q, Regions: func() []string { return []string{"r"} }, Woken: true, Poll: time.Minute,
			Handlers: map[outbox.Kind]outbox.Handler{outbox.KindProviderCall: func(context.Context, outbox.Message) outbox.Disposition { return outbox.Done() }},
		})
		require.NoError(t, err)
		w.Start()
		synctest.Wait()
		delivered := w.Reserve("r", 1)
		q.leave(&delivered.Handover, "a")
		delivered.End()
		under := w.Reserve("r", 1) // a step that ends during the drain
		synctest.Wait()
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			q.leave(&under.Handover, "b")
			under.End()
		}()
		w.Stop()
		require.Equal(t, time.Second, time.Since(began))
		require.Zero(t, q.left())
	})
}

package outbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"
)

// queue is an outbox.Store of one region in a map.
type queue struct {
	outbox.Store
	mu     sync.Mutex
	rows   map[string]*outbox.Message
	failed error
}

func (q *queue) put(ids ...string) *queue {
	for _, id := range ids {
		q.rows[id] = &outbox.Message{ID: id, Region: "r", Kind: outbox.KindProviderCall, Due: time.Now()}
	}
	return q
}

func (q *queue) Take(_ context.Context, region string, limit int, lease time.Duration) ([]outbox.Message, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil {
		return nil, q.failed
	}
	var taken []outbox.Message
	for _, m := range q.rows {
		if len(taken) < limit && m.Region == region && !m.Parked && !time.Now().Before(m.Due) {
			m.Fence++
			m.Due = time.Now().Add(lease)
			taken = append(taken, *m)
		}
	}
	return taken, nil
}

func (q *queue) held(id string, fence uint64) (*outbox.Message, error) {
	if m := q.rows[id]; m != nil && m.Fence == fence {
		return m, nil
	}
	return nil, outbox.ErrFenced
}

func (q *queue) Finish(_ context.Context, _, id string, fence uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, err := q.held(id, fence); err != nil {
		return err
	}
	delete(q.rows, id)
	return nil
}

func (q *queue) Retry(_ context.Context, _, id string, fence uint64, after time.Duration, reason string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	m, err := q.held(id, fence)
	if err != nil {
		return err
	}
	m.Due = time.Now().Add(after)
	if reason != "" {
		m.Attempts++
		m.LastError = reason
	}
	return nil
}

func (q *queue) Park(_ context.Context, _, id string, fence uint64, reason string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	m, err := q.held(id, fence)
	if err != nil {
		return err
	}
	m.Parked, m.LastError = true, reason
	return nil
}

func (q *queue) state(id string) outbox.Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m := q.rows[id]; m != nil {
		return *m
	}
	return outbox.Message{}
}

func newQueue() *queue { return &queue{rows: map[string]*outbox.Message{}} }

func worker(t *testing.T, q *queue, h outbox.Handler) *outbox.Worker {
	t.Helper()
	w, err := outbox.NewWorker(outbox.WorkerConfig{
		Store: q, Regions: func() []string { return []string{"r"} }, MaxAttempts: 3,
		Handlers: map[outbox.Kind]outbox.Handler{outbox.KindProviderCall: h},
	})
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

func TestWorkerFinishesWhatIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue().put("a", "b")
		w := worker(t, q, func(_ context.Context, m outbox.Message) outbox.Verdict {
			if m.ID == "a" {
				return outbox.Done()
			}
			return outbox.Later(time.Hour)
		})
		require.Equal(t, 2, w.Round(t.Context()))
		require.Empty(t, q.state("a").ID)
		require.Equal(t, time.Now().Add(time.Hour), q.state("b").Due)
		require.Zero(t, q.state("b").Attempts, "postponing is no failure")
		require.Zero(t, w.Round(t.Context()))
	})
}

// A poison row is retried a bounded number of times, then parked; the rows
// behind it are handled all the while.
func TestWorkerParksAPoisonRowAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, good := newQueue().put("poison"), 0
		w := worker(t, q, func(_ context.Context, m outbox.Message) outbox.Verdict {
			if m.ID == "poison" {
				return outbox.Failed("it does not parse")
			}
			good++
			return outbox.Done()
		})
		for i := range 3 {
			q.put(fmt.Sprint("good", i))
			require.Equal(t, 2, w.Round(t.Context()))
			time.Sleep(5 * time.Minute) // past any back-off
		}
		require.Equal(t, 3, good)
		require.True(t, q.state("poison").Parked)
		require.Equal(t, "it does not parse", q.state("poison").LastError)
		require.Zero(t, w.Round(t.Context()))
	})
}

func TestWorkerStopDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, finished := newQueue().put("a"), false
		w := worker(t, q, func(ctx context.Context, _ outbox.Message) outbox.Verdict {
			time.Sleep(30 * time.Second)
			finished = ctx.Err() == nil
			return outbox.Done()
		})
		w.Start()
		w.Start()
		synctest.Wait()
		time.Sleep(time.Second)
		w.Stop()
		require.True(t, finished, "a row in hand is handled to its end")
		require.Empty(t, q.state("a").ID)
		w.Stop()
		q.put("b")
		w.Start() // and again after a stop
		for q.state("b").ID != "" {
			time.Sleep(time.Second)
		}
	})
}

// A store that fails, and a worker that dies, only delay a row.
func TestARowOutlivesItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue().put("a")
		q.failed = context.DeadlineExceeded
		w := worker(t, q, func(context.Context, outbox.Message) outbox.Verdict { return outbox.Done() })
		require.Zero(t, w.Round(t.Context()))
		q.failed = nil
		dead, err := q.Take(t.Context(), "r", 1, time.Minute)
		require.NoError(t, err)
		require.Zero(t, w.Round(t.Context()), "the dead worker's lease still runs")
		time.Sleep(time.Minute)
		require.Equal(t, 1, w.Round(t.Context()))
		require.ErrorIs(t, q.Finish(t.Context(), "r", "a", dead[0].Fence), outbox.ErrFenced)
	})
}

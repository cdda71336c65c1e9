package outbox_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"
)

// A panic in a handler is that row's failure: it is logged with its stack, counted,
// and after some tries the row is parked and somebody is woken, also in a queue whose
// rows are tried without end. The rows beside it are handled all the while.
func TestAPanicCostsOneRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		q := newQueue().put("poison")
		var good, tries atomic.Int64
		w, err := outbox.NewWorker(outbox.WorkerConfig{
			Store: q, Regions: func() []string { return []string{"r"} }, MaxAttempts: math.MaxUint32, BackoffMax: time.Minute,
			Logger: slog.New(slog.NewJSONHandler(&log, nil)),
			Handlers: map[outbox.Kind]outbox.Handler{outbox.KindProviderCall: func(_ context.Context, m outbox.Message) outbox.Disposition {
				if m.ID == "poison" {
					tries.Add(1)
					panic("no row is like this")
				}
				good.Add(1)
				return outbox.Done()
			}},
		})
		require.NoError(t, err)
		w.Start()
		polled(t, w, q, "r")
		for n := 0; !q.state("poison").Parked; n++ {
			require.Less(t, n, 100, "it is parked after some tries")
			q.put(fmt.Sprint("good", n))
			time.Sleep(time.Minute) // past any back-off
			require.EqualValues(t, n+1, good.Load(), "the rows beside it are handled")
		}
		w.Stop()
		require.Equal(t, "our code panicked: no row is like this", q.state("poison").LastError)
		require.Greater(t, tries.Load(), int64(1), "it was tried again before")
		require.Contains(t, log.String(), "TestAPanicCostsOneRow", "the stack says where")
		require.Contains(t, log.String(), `"msg":"page: our code panics on a row, which is parked; mend the code, then retry the row"`)
	})
}

// A store that panics takes no worker down, whichever of its methods it is.
func TestAPanicOfTheStoreIsSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &breaking{queue: newQueue().put("a"), left: map[string]int{"take": 2, "finish": 1}}
		w, err := outbox.NewWorker(outbox.WorkerConfig{
			Store: q, Regions: func() []string { return []string{"r"} },
			Handlers: map[outbox.Kind]outbox.Handler{outbox.KindProviderCall: func(context.Context, outbox.Message) outbox.Disposition { return outbox.Done() }},
		})
		require.NoError(t, err)
		w.Start()
		polled(t, w, q, "r")
		for n := 0; q.state("a").ID != ""; n++ {
			require.Less(t, n, 100)
			time.Sleep(time.Minute)
		}
		w.Stop()
		require.Equal(t, map[string]int{"take": 0, "finish": 0}, q.left)
	})
}

// breaking is a queue whose methods panic some times.
type breaking struct {
	*queue
	left map[string]int
}

func (q *breaking) breaks(what string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.left[what] > 0 {
		q.left[what]--
		panic(what)
	}
}

func (q *breaking) Take(ctx context.Context, region string, limit int, lease time.Duration) ([]outbox.Message, error) {
	q.breaks("take")
	return q.queue.Take(ctx, region, limit, lease)
}

func (q *breaking) FinishAll(ctx context.Context, region string, rows []outbox.Hold) error {
	q.breaks("finish")
	return q.queue.FinishAll(ctx, region, rows)
}

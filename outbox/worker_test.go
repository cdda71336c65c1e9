package outbox_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"
)

// queue is an outbox.Store in a map.
type queue struct {
	outbox.Store
	mu     sync.Mutex
	rows   map[string]*outbox.Message
	steps  map[string]int // that somebody has asked for, by sort
	failed error
	// counted guards steps where that is another queue's; nil: mu does.
	counted *sync.Mutex
}

func (q *queue) put(ids ...string) *queue { return q.putIn("r", ids...) }

func (q *queue) putIn(region string, ids ...string) *queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range ids {
		q.rows[id] = &outbox.Message{ID: id, Region: region, Kind: outbox.KindProviderCall, Due: time.Now()}
	}
	return q
}

func (q *queue) Take(_ context.Context, region string, limit int, lease time.Duration) ([]outbox.Message, error) {
	q.count("take")
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

func (q *queue) held(row outbox.Hold) (*outbox.Message, error) {
	if m := q.rows[row.ID]; m != nil && m.Fence == row.Fence {
		return m, nil
	}
	return nil, outbox.ErrFenced
}

func (q *queue) Finish(_ context.Context, _ string, row outbox.Hold) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, err := q.held(row); err != nil {
		return err
	}
	delete(q.rows, row.ID)
	return nil
}

func (q *queue) Retry(_ context.Context, _ string, row outbox.Hold, after time.Duration, reason string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	m, err := q.held(row)
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

func (q *queue) Park(_ context.Context, _ string, row outbox.Hold, reason string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	m, err := q.held(row)
	if err := cmp.Or(q.failed, err); err != nil {
		return err
	}
	m.Parked, m.LastError = true, reason
	return nil
}

func (q *queue) FinishAll(ctx context.Context, region string, rows []outbox.Hold) error {
	q.count("finish")
	for _, r := range rows {
		_ = q.Finish(ctx, region, r)
	}
	return nil
}

func (q *queue) RetryAll(ctx context.Context, region string, rows []outbox.Delay) error {
	q.count("retry")
	for _, r := range rows {
		_ = q.Retry(ctx, region, r.Hold, r.After, r.Reason)
	}
	return nil
}

func (q *queue) count(step string) {
	mu := cmp.Or(q.counted, &q.mu)
	mu.Lock()
	defer mu.Unlock()
	q.steps[step]++
}

// took is how many steps of a sort there were since it was asked last.
func (q *queue) took(step string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.steps[step]
	q.steps[step] = 0
	return n
}

func (q *queue) state(id string) outbox.Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m := q.rows[id]; m != nil {
		return *m
	}
	return outbox.Message{}
}

func newQueue() *queue { return &queue{rows: map[string]*outbox.Message{}, steps: map[string]int{}} }

func worker(t *testing.T, q *queue, h outbox.Handler) *outbox.Worker {
	t.Helper()
	return workerOf(t, q, h, 32, "r")
}

func workerOf(t *testing.T, q *queue, h outbox.Handler, batch int, regions ...string) *outbox.Worker {
	t.Helper()
	w, err := outbox.NewWorker(outbox.WorkerConfig{
		Store: q, Regions: func() []string { return regions }, Slots: batch, MaxAttempts: 3,
		Handlers: map[outbox.Kind]outbox.Handler{outbox.KindProviderCall: h},
	})
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

// polled wakes w for the rows of q, twice a second or more often.
func polled(t *testing.T, w *outbox.Worker, q outbox.Queues, regions ...string) {
	t.Helper()
	p, err := outbox.NewPoller(outbox.PollerConfig{
		Queues: q, Regions: func() []string { return regions }, Workers: map[outbox.Queue]*outbox.Worker{outbox.ProviderCalls: w}, Poll: 50 * time.Millisecond,
	})
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	p.Start()
}

func TestWorkerFinishesWhatIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue().put("a", "b")
		w := worker(t, q, func(_ context.Context, m outbox.Message) outbox.Disposition {
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
		w := worker(t, q, func(_ context.Context, m outbox.Message) outbox.Disposition {
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

// A row that cannot be parked keeps its lease, and is parked when that has run out.
func TestARowThatCannotBeParkedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue().put("a")
		away := errors.New("away")
		w := worker(t, q, func(context.Context, outbox.Message) outbox.Disposition {
			q.failed = away
			return outbox.Parked("hopeless")
		})
		require.Equal(t, 1, w.Round(t.Context()))
		require.False(t, q.state("a").Parked)
		away, q.failed = nil, nil
		require.Zero(t, w.Round(t.Context()))
		time.Sleep(time.Hour)
		require.Equal(t, 1, w.Round(t.Context()))
		require.True(t, q.state("a").Parked)
	})
}

// What a provider or a sink answers may be no text. It is stored as one.
func TestAReasonIsStorable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue().put("a")
		w := worker(t, q, func(context.Context, outbox.Message) outbox.Disposition { return outbox.Failed("it says \x00\xff") })
		require.Equal(t, 1, w.Round(t.Context()))
		require.Equal(t, "it says \uFFFD\uFFFD", q.state("a").LastError)
	})
}

func TestWorkerStopDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, finished := newQueue().put("a"), false
		w := worker(t, q, func(ctx context.Context, _ outbox.Message) outbox.Disposition {
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

// slowly handles rows whose id says so until release is called, and counts the
// rows in hand by region.
type slowly struct {
	mu      sync.Mutex
	hand    map[string]int
	most    int
	held    chan struct{}
	release func()
}

func newSlowly() *slowly {
	s := &slowly{hand: map[string]int{}, held: make(chan struct{})}
	s.release = sync.OnceFunc(func() { close(s.held) })
	return s
}

func (s *slowly) handle(_ context.Context, m outbox.Message) outbox.Disposition {
	s.add(m.Region, 1)
	defer s.add(m.Region, -1)
	if strings.HasPrefix(m.ID, "slow") {
		<-s.held
	}
	return outbox.Done()
}

func (s *slowly) add(region string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hand[region] += n
	all := 0
	for _, n := range s.hand {
		all += n
	}
	s.most = max(s.most, all)
}

// inHand waits until nothing moves any more and counts.
func (s *slowly) inHand(region string) int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hand[region]
}

func ids(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(prefix, i)
	}
	return all
}

// aPause is longer than the default pause between two takes, jitter included.
const aPause = time.Second

func TestASlowRowDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newQueue().put("slow"), newSlowly()
		w := worker(t, q, s.handle)
		defer s.release()
		w.Start()
		polled(t, w, q, "r")
		require.Equal(t, 1, s.inHand("r"))
		q.put("quick")
		time.Sleep(aPause)
		synctest.Wait()
		require.Empty(t, q.state("quick").ID, "the rows of the next take are handled while a slow one is in hand")
		require.Equal(t, 1, s.inHand("r"))
		s.release()
		require.Zero(t, s.inHand("r"))
		require.Empty(t, q.state("slow").ID)
	})
}

func TestSlotsBoundTheRowsInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newQueue().put(ids("slow", 10)...), newSlowly()
		w := workerOf(t, q, s.handle, 4, "r")
		defer s.release()
		w.Start()
		require.Equal(t, 4, s.inHand("r"))
		s.release()
		// No take is waited for: each slot that falls free is filled at once.
		began := time.Now()
		require.Zero(t, s.inHand("r"))
		require.Empty(t, q.rows)
		require.Equal(t, began, time.Now())
		require.Equal(t, 4, s.most)
	})
}

// offered puts rows as their writer does, which may handle them for a minute, and offers them.
func offered(w *outbox.Worker, q *queue, ids ...string) {
	end := time.Now().Add(time.Minute)
	q.putIn("r", ids...)
	var rows []outbox.Message
	q.mu.Lock()
	for _, id := range ids {
		q.rows[id].Due = end
		rows = append(rows, *q.rows[id])
	}
	q.mu.Unlock()
	w.Offer("r", end, rows...)
}

// A row that this process wrote costs no take, whatever homes the worker takes rows of.
func TestAnOfferedRowIsHandledWithoutATake(t *testing.T) {
	for _, takes := range [][]string{{"r"}, {"another"}, nil} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue()
			w := workerOf(t, q, func(_ context.Context, m outbox.Message) outbox.Disposition {
				if m.ID == "fails" {
					return outbox.FailedFor("down", time.Hour)
				}
				return outbox.Done()
			}, 32, takes...)
			w.Start()
			synctest.Wait()
			q.took("take")
			began := time.Now()
			offered(w, q, "a", "b", "fails")
			synctest.Wait()
			require.Empty(t, q.state("a").ID)
			require.Empty(t, q.state("b").ID)
			require.Equal(t, "down", q.state("fails").LastError)
			require.Equal(t, began.Add(time.Hour), q.state("fails").Due)
			require.Zero(t, q.took("take"))
		})
	}
}

// A quarter of the slots is for takes alone. Offered rows without a slot are due at once, and one
// that is behind an offered row is taken when that ends: also those of a home that the worker takes no
// other rows of, as a deputy's.
func TestOfferedRowsShareTheSlots(t *testing.T) {
	for takes, most := range map[string]int{"r": 8, "another": 7} { // one is kept for the other home
		synctest.Test(t, func(t *testing.T) {
			q, s := newQueue(), newSlowly()
			w := workerOf(t, q, s.handle, 8, takes)
			defer s.release()
			w.Start()
			synctest.Wait()
			offered(w, q, ids("slow offered ", 10)...)
			time.Sleep(aPause)
			require.Equal(t, most, s.inHand("r"), "six as offered, the others by a take, of %s", takes)
			s.release()
			time.Sleep(aPause)
			require.Zero(t, s.inHand("r"))
			require.Empty(t, q.rows)
			require.Equal(t, most, s.most)
		})
	}
}

// A deputy's delivery that failed is tried again by the deputy, and not by the home's workers alone.
// The worker takes nothing there before, and once more for what waits behind the row.
func TestAFailedOfferIsTakenInItsHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, tries := newQueue(), 0
		w := workerOf(t, q, func(context.Context, outbox.Message) outbox.Disposition {
			if tries++; tries == 1 {
				return outbox.FailedFor("down", time.Minute)
			}
			return outbox.Done()
		}, 8, "another")
		w.Start()
		synctest.Wait()
		q.took("take")
		offered(w, q, "a")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 2, tries)
		require.Empty(t, q.rows)
		require.Equal(t, 2, q.took("take"))
	})
}

// A worker that stops accepts no offers, and waits for those that it accepted.
func TestAStoppedWorkerRefusesOffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newQueue(), newSlowly()
		w := workerOf(t, q, s.handle, 4, "another")
		w.Start()
		offered(w, q, ids("slow ", 3)...)
		require.Equal(t, 3, s.inHand("r"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, w.Drain(ctx), "3")
		offered(w, q, "late")
		s.release()
		require.NoError(t, w.Drain(t.Context()))
		require.True(t, q.state("late").Due.After(time.Now()))
		require.Len(t, q.rows, 1)
	})
}

// A BatchHandler ends rows of a whole take. The others find slots, or are due again, and none is
// lost.
func TestABatchHandlerEndsRowsOfAWholeTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newQueue(), newSlowly()
		s.release()
		var takes, most int
		panics := true
		w, err := outbox.NewWorker(outbox.WorkerConfig{
			Store: q, Regions: func() []string { return []string{"r"} }, Slots: 4, BatchSize: 50, MaxAttempts: 3,
			Handlers: map[outbox.Kind]outbox.Handler{outbox.KindProviderCall: s.handle},
			BatchHandler: func(ctx context.Context, rows []outbox.Message) (rest []outbox.Message) {
				if panics {
					panics = false
					panic("together")
				}
				takes++
				most = max(most, len(rows))
				for _, m := range rows {
					if strings.HasPrefix(m.ID, "known") {
						require.NoError(t, q.Finish(ctx, m.Region, m.Hold()))
					} else {
						rest = append(rest, m)
					}
				}
				return rest
			},
		})
		require.NoError(t, err)
		w.Start()
		polled(t, w, q, "r")
		t.Cleanup(w.Stop)
		left := func() int {
			q.mu.Lock()
			defer q.mu.Unlock()
			return len(q.rows)
		}
		for name, n := range map[string]int{"known": 500, "other": 100} {
			q.put(ids(name, n)...)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Zero(t, left())
		require.LessOrEqual(t, s.most, 4, "as many at once as there are slots")
		require.Equal(t, 50, most)
		takes = 0
		q.put(ids("known", 500)...)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Zero(t, left())
		require.LessOrEqual(t, takes, 11)
	})
}

// The rows of one home may all be slow. They get the slots that nobody else
// needs, and never the last one of another home.
func TestASlowRegionDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newQueue().putIn("a", ids("slow", 10)...), newSlowly()
		w := workerOf(t, q, s.handle, 4, "a", "b")
		defer s.release()
		w.Start()
		polled(t, w, q, "a", "b")
		require.Equal(t, 3, s.inHand("a"))
		for i := range 3 {
			q.putIn("b", fmt.Sprint("quick", i))
			time.Sleep(aPause)
			synctest.Wait()
			require.Empty(t, q.state(fmt.Sprint("quick", i)).ID)
		}
		q.putIn("b", ids("slow in b", 2)...)
		time.Sleep(aPause)
		require.Equal(t, 1, s.inHand("b"))
		require.Equal(t, 3, s.inHand("a"))
		require.Equal(t, 4, s.most)
	})
}

// hangs is a store whose rows of some regions cannot be reached: whoever wants to
// take them waits as long as the store has patience.
type hangs struct {
	*queue
	lost     map[string]bool
	patience time.Duration
	takes    atomic.Int64 // at lost regions, that are under way
	asked    atomic.Int64 // rows, by the latest of them
}

func (h *hangs) Take(ctx context.Context, region string, limit int, lease time.Duration) ([]outbox.Message, error) {
	if !h.lost[region] {
		return h.queue.Take(ctx, region, limit, lease)
	}
	h.takes.Add(1)
	defer h.takes.Add(-1)
	h.asked.Store(int64(limit))
	select {
	case <-time.After(h.patience):
		return nil, context.DeadlineExceeded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// One slow lost region must not delay the take of another lost region's rows, nor
// keep slots from it, and a worker that is stopped does not wait for it.
func TestALostRegionDelaysNoOthersTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newQueue(), newSlowly()
		store := &hangs{queue: q, lost: map[string]bool{"a": true, "c": true}, patience: time.Hour}
		w, err := outbox.NewWorker(outbox.WorkerConfig{
			Store: store, Regions: func() []string { return []string{"a", "b", "c", "d"} }, Slots: 8,
			Handlers: map[outbox.Kind]outbox.Handler{outbox.KindProviderCall: s.handle},
		})
		require.NoError(t, err)
		defer w.Stop()
		defer s.release()
		w.Start()
		polled(t, w, q, "a", "b", "c", "d")
		for i := range 5 {
			row := fmt.Sprint("quick", i)
			q.putIn("b", row+"b")
			q.putIn("d", row+"d")
			time.Sleep(aPause)
			synctest.Wait()
			require.Empty(t, q.state(row+"b").ID)
			require.Empty(t, q.state(row+"d").ID)
			require.EqualValues(t, 2, store.takes.Load(), "one take at each lost region, which hangs")
		}
		// Once it is known that they do not answer they hold one slot each.
		time.Sleep(store.patience)
		q.putIn("b", ids("slow b", 10)...)
		q.putIn("d", ids("slow d", 10)...)
		time.Sleep(5 * aPause)
		require.Equal(t, 6, s.inHand("b")+s.inHand("d"))
		require.EqualValues(t, 2, store.takes.Load())
		require.EqualValues(t, 1, store.asked.Load())
		s.release()
		before := time.Now()
		w.Stop()
		require.Equal(t, before, time.Now(), "a take is given up")
		require.Zero(t, store.takes.Load())
		w.Start()
		time.Sleep(aPause)
		w.Stop()
	})
}

// What a worker that is drained with a take under way says is left are rows, not slots.
func TestDrainCountsNoTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newQueue().putIn("b", "slow"), newSlowly()
		store := &hangs{queue: q, lost: map[string]bool{"a": true}, patience: time.Hour}
		w, err := outbox.NewWorker(outbox.WorkerConfig{
			Store: store, Regions: func() []string { return []string{"a", "b"} },
			Handlers: map[outbox.Kind]outbox.Handler{outbox.KindProviderCall: s.handle},
		})
		require.NoError(t, err)
		defer w.Stop()
		defer s.release()
		w.Start()
		require.Equal(t, 1, s.inHand("b"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, w.Drain(ctx), "drain deadline: 1;")
		s.release()
		require.NoError(t, w.Drain(t.Context()))
	})
}

// With more homes than slots each has its turn, however much one has to do.
func TestFewSlotsGoRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue().putIn("a", ids("a", 9)...).putIn("b", "b").putIn("c", "c")
		var order []string // one slot: no two handlers at once
		w := workerOf(t, q, func(_ context.Context, m outbox.Message) outbox.Disposition {
			order = append(order, m.Region)
			return outbox.Done()
		}, 1, "a", "b", "c")
		w.Start()
		time.Sleep(aPause)
		w.Stop()
		require.Len(t, order, 11)
		require.ElementsMatch(t, []string{"a", "b", "c"}, order[:3])
	})
}

func TestWorkerDrainSaysWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newQueue().put("slow1", "slow2", "quick"), newSlowly()
		w := worker(t, q, s.handle)
		require.NoError(t, w.Drain(t.Context()), "never started")
		defer s.release()
		w.Start()
		require.Equal(t, 2, s.inHand("r"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := w.Drain(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "drain deadline: 2;")
		q.put("late")
		time.Sleep(aPause)
		require.NotEmpty(t, q.state("late").ID, "a draining worker takes no more")
		s.release()
		require.NoError(t, w.Drain(t.Context()), "draining again waits again")
		require.Empty(t, q.state("slow1").ID, "what was in hand was handled to its end")
		for range 32 { // a select of two that are ready tosses a coin
			require.NoError(t, w.Drain(ctx), "nothing is left, though the time is up")
		}
		w.Start()
		time.Sleep(aPause)
		synctest.Wait()
		require.Empty(t, q.state("late").ID)
	})
}

// A store that fails, and a worker that dies, only delay a row.
func TestARowOutlivesItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue().put("a")
		q.failed = context.DeadlineExceeded
		w := worker(t, q, func(context.Context, outbox.Message) outbox.Disposition { return outbox.Done() })
		require.Zero(t, w.Round(t.Context()))
		q.failed = nil
		dead, err := q.Take(t.Context(), "r", 1, time.Minute)
		require.NoError(t, err)
		require.Zero(t, w.Round(t.Context()), "the dead worker's lease still runs")
		time.Sleep(time.Minute)
		require.Equal(t, 1, w.Round(t.Context()))
		require.ErrorIs(t, q.Finish(t.Context(), "r", dead[0].Hold()), outbox.ErrFenced)
	})
}

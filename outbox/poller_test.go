package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"
)

// Queue implements outbox.Queues, of one queue.
func (q *queue) Queue(outbox.Queue) outbox.Store { return q }

// NextDue is that of a store with one queue.
func (q *queue) NextDue(_ context.Context, region string) (map[outbox.Queue]time.Duration, error) {
	q.count("poll")
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil {
		return nil, q.failed
	}
	next := map[outbox.Queue]time.Duration{}
	for _, m := range q.rows {
		if in, there := next[outbox.ProviderCalls]; m.Region == region && !m.Parked && (!there || time.Until(m.Due) < in) {
			next[outbox.ProviderCalls] = max(time.Until(m.Due), 0)
		}
	}
	return next, nil
}

// site is one process of several that work on one queue.
type site struct {
	worker  *outbox.Worker
	poller  *outbox.Poller
	handled atomic.Int64
}

// places says which place in line each of some sites has, as far as it knows.
type places struct {
	mu    sync.Mutex
	place func(i int) int
}

func (u *places) set(place func(i int) int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.place = place
}

// newSites starts n processes with four workers each.
func newSites(t *testing.T, q *queue, n int, h outbox.Handler) ([]*site, *places) {
	t.Helper()
	u := &places{place: func(i int) int { return i }}
	all := make([]*site, n)
	regions := func() []string { return []string{"r"} }
	for i := range all {
		s := &site{}
		workers := map[outbox.Queue]*outbox.Worker{}
		for _, name := range outbox.AllQueues() {
			store := q
			if name != outbox.ProviderCalls {
				store = newQueue() // nothing is ever in it
				store.steps = q.steps
				store.counted = &q.mu
			}
			w, err := outbox.NewWorker(outbox.WorkerConfig{
				Store: store, Regions: regions, Lease: time.Minute,
				Handlers: map[outbox.Kind]outbox.Handler{outbox.KindProviderCall: func(ctx context.Context, m outbox.Message) outbox.Disposition {
					s.handled.Add(1)
					return h(ctx, m)
				}},
			})
			require.NoError(t, err)
			t.Cleanup(w.Stop)
			w.Start()
			workers[name] = w
		}
		s.worker = workers[outbox.ProviderCalls]
		var err error
		s.poller, err = outbox.NewPoller(outbox.PollerConfig{
			Queues: q, Regions: regions, Workers: workers,
			Place: func(string) int {
				u.mu.Lock()
				defer u.mu.Unlock()
				return u.place(i)
			},
		})
		require.NoError(t, err)
		t.Cleanup(s.poller.Stop)
		s.poller.Start()
		all[i] = s
	}
	return all, u
}

func done(context.Context, outbox.Message) outbox.Disposition { return outbox.Done() }

// aMoment is more than what a row may wait for others to share a step with.
const aMoment = 300 * time.Millisecond

// settled lets starting be over: each process has polled once at everything.
func settled(q *queue) {
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	for _, step := range []string{"poll", "take"} {
		q.took(step)
	}
}

// Processes that have nothing to do ask the store about as much together as one of them
// does alone, however many they are.
func TestIdleProcessesPollAsOne(t *testing.T) {
	const minutes = 60
	polls := map[int]int{}
	for _, n := range []int{1, 2, 6, 20} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue()
			newSites(t, q, n, done)
			settled(q)
			time.Sleep(minutes * time.Minute)
			polls[n] = q.took("poll")
			require.Zero(t, q.took("take"), "nothing is due, and nobody takes")
		})
	}
	t.Log("polls in an hour, by processes:", polls)
	require.LessOrEqual(t, polls[1], minutes*60/4, "about one in five seconds")
	// The second polls four times a minute and each further one in five minutes all the same,
	// so that no home depends on who believes what.
	for _, n := range []int{2, 6, 20} {
		others := 4*minutes + (n-2)*minutes/5
		require.LessOrEqual(t, polls[n], polls[1]+others*5/4, "%d processes", n)
		require.Greater(t, polls[n], polls[1]*9/10+others*3/4, "%d processes", n)
	}
}

// The first in line may be one that does not poll: a row is found within half a minute
// nevertheless, and if the second does not poll either within seven and a half minutes. And
// all may believe that it is their turn: that costs polls and nothing else.
func TestPlacesAreHints(t *testing.T) {
	for name, c := range map[string]struct {
		place  int
		within time.Duration
	}{
		"all's":             {0, 7500 * time.Millisecond},
		"nobody's":          {1, 25 * time.Second},
		"nobody's, in line": {2, 7*time.Minute + 30*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				sites, u := newSites(t, q, 3, done)
				u.set(func(int) int { return c.place })
				settled(q)
				for i := range 20 {
					q.put(fmt.Sprint(i))
					began := time.Now()
					for q.state(fmt.Sprint(i)).ID != "" {
						require.LessOrEqual(t, time.Since(began), c.within)
						time.Sleep(time.Second)
						synctest.Wait()
					}
				}
				handled := 0
				for _, s := range sites {
					handled += int(s.handled.Load())
				}
				require.Equal(t, 20, handled, "each once")
			})
		})
	}
}

// A row that nobody was woken for, as its process died, is found by the next poll; one
// that is due later is taken when it is due, and not at the next poll after that.
func TestARowIsTakenWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		newSites(t, q, 1, done)
		settled(q)
		q.put("left")
		began := time.Now()
		for q.state("left").ID != "" {
			require.LessOrEqual(t, time.Since(began), 7500*time.Millisecond)
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		for range 10 {
			q.put("lapses")
			q.mu.Lock()
			due := time.Now().Add(8 * time.Second)
			q.rows["lapses"].Due = due
			q.mu.Unlock()
			time.Sleep(8*time.Second + aMoment)
			synctest.Wait()
			require.Empty(t, q.state("lapses").ID, "it was seen before it was due")
		}
	})
}

// Whoever enqueues wakes his own process, which takes the row without a poll; and who
// must wait for a row asks for one poll that says for how long.
func TestWhoEnqueuesWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		sites, _ := newSites(t, q, 3, done)
		settled(q)
		q.put("now")
		sites[2].worker.Wake("r", 0)
		synctest.Wait()
		require.Empty(t, q.state("now").ID)
		require.EqualValues(t, 1, sites[2].handled.Load())
		require.Zero(t, q.took("poll"))
		require.Equal(t, 1, q.took("take"))
		require.Equal(t, 1, q.took("finish"))

		q.put("later")
		q.mu.Lock()
		q.rows["later"].Due = time.Now().Add(1500 * time.Millisecond)
		q.mu.Unlock()
		sites[2].poller.Wake("r")
		time.Sleep(1500*time.Millisecond + aMoment)
		synctest.Wait()
		require.Empty(t, q.state("later").ID)
	})
}

// A row that is put off is taken again when it is due: who put it off remembers.
func TestWhoPutsOffComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, tries := newQueue(), atomic.Int64{}
		sites, u := newSites(t, q, 2, func(context.Context, outbox.Message) outbox.Disposition {
			if tries.Add(1) < 5 {
				return outbox.Later(2 * time.Second)
			}
			return outbox.Done()
		})
		u.set(func(int) int { return 1 })
		settled(q)
		q.put("a")
		sites[1].worker.Wake("r", 0)
		time.Sleep(8*time.Second + 5*aMoment)
		synctest.Wait()
		require.EqualValues(t, 5, tries.Load())
		require.Empty(t, q.state("a").ID)
	})
}

// The process whose turn it is dies with a row in hand. Another one's turn comes, or does
// not: either way the row is recovered once its lease has lapsed.
func TestADeadProcessIsReplaced(t *testing.T) {
	for name, known := range map[string]bool{"its death is known": true, "it is not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				held := make(chan struct{})
				defer close(held)
				dead := atomic.Bool{}
				sites, u := newSites(t, q, 3, func(ctx context.Context, _ outbox.Message) outbox.Disposition {
					if !dead.Load() {
						<-held // the process that dies never ends it
						return outbox.Gone()
					}
					return outbox.Done()
				})
				settled(q)
				q.put("a")
				sites[0].worker.Wake("r", 0)
				synctest.Wait()
				require.EqualValues(t, 1, sites[0].handled.Load())
				lapses := q.state("a").Due
				sites[0].poller.Stop()
				dead.Store(true)
				if known {
					u.set(func(i int) int { return max(i-1, 0) })
				}
				for q.state("a").ID != "" {
					late := time.Since(lapses)
					require.LessOrEqual(t, late, 25*time.Second)
					if known {
						require.LessOrEqual(t, late, time.Second, "whose turn it is knows when the lease lapses")
					}
					time.Sleep(100 * time.Millisecond)
					synctest.Wait()
				}
				require.False(t, time.Now().Before(lapses))
			})
		})
	}
}

// A poll that fails, or panics, is repeated; and so is a take that somebody was woken for.
func TestAPollThatFailsIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		sites, _ := newSites(t, q, 1, done)
		settled(q)
		q.mu.Lock()
		q.failed = errors.New("gone")
		q.mu.Unlock()
		q.put("a")
		sites[0].worker.Wake("r", 0)
		time.Sleep(time.Hour)
		require.NotEmpty(t, q.state("a").ID)
		q.mu.Lock()
		q.failed = nil
		q.mu.Unlock()
		time.Sleep(8 * time.Second)
		synctest.Wait()
		require.Empty(t, q.state("a").ID)
	})
}

// Rows that are enqueued one by one, fast, are taken and finished many at once.
func TestAFloodSharesSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		sites, _ := newSites(t, q, 1, func(context.Context, outbox.Message) outbox.Disposition {
			time.Sleep(30 * time.Millisecond) // somebody is told
			return outbox.Done()
		})
		settled(q)
		q.took("finish")
		const rows = 2000
		for i := range rows {
			q.put(fmt.Sprint(i))
			sites[0].worker.Wake("r", 0)
			time.Sleep(5 * time.Millisecond) // 200 a second
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, q.rows)
		takes, finishes := q.took("take"), q.took("finish")
		t.Log("takes", takes, "finishes", finishes, "for", rows)
		require.LessOrEqual(t, takes, rows/5)
		require.LessOrEqual(t, finishes, rows/5)
	})
}

// A backlog is taken many rows at once, though slots fall free one by one.
func TestABacklogSharesTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rows = 1000
		q := newQueue().put(ids("row", rows)...)
		left := atomic.Int64{}
		sites, _ := newSites(t, q, 1, func(_ context.Context, m outbox.Message) outbox.Disposition {
			time.Sleep(time.Duration(10+left.Add(1)%17) * time.Millisecond)
			return outbox.Done()
		})
		sites[0].worker.Wake("r", 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, q.rows)
		takes := q.took("take")
		t.Log("takes", takes, "for", rows)
		require.LessOrEqual(t, takes, rows/5)
	})
}

// Rows that end together end in one step, and nobody waits for others in vain.
func TestRowsEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newQueue().put(ids("quick", 20)...).put("slow"), newSlowly()
		defer s.release()
		w := worker(t, q, s.handle)
		w.Start()
		polled(t, w, q, "r")
		synctest.Wait()
		require.Equal(t, 1, s.inHand("r"))
		time.Sleep(aPause)
		synctest.Wait()
		require.Len(t, q.rows, 1, "a slow row keeps the others waiting for a moment only")
		require.LessOrEqual(t, q.took("finish"), 20/4, "they share steps; how many depends on who runs first")

		q.put(ids("later", 5)...)
		time.Sleep(aPause)
		s.release()
		synctest.Wait()
		require.Empty(t, q.rows)
	})
}

// woken is a started worker that takes only when it is woken, and has taken once.
func woken(t *testing.T, q outbox.Store, h outbox.Handler, batch int) *outbox.Worker {
	t.Helper()
	w, err := outbox.NewWorker(outbox.WorkerConfig{
		Store: q, Regions: func() []string { return []string{"r"} }, Slots: batch, MaxAttempts: 3,
		Handlers: map[outbox.Kind]outbox.Handler{outbox.KindProviderCall: h},
	})
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	w.Start()
	synctest.Wait()
	return w
}

// A row that was written while an older one of its line was in hand is taken when that one
// is done. Rows that are taken later are no reason to take again.
func TestWhatWaitsForARowInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newQueue().put("slow"), newSlowly()
		w := woken(t, q, s.handle, 32)
		require.Equal(t, 1, q.took("take"))
		time.Sleep(aPause)
		w.Wake("r", 0) // for a row of its line
		time.Sleep(aPause)
		require.Equal(t, 1, q.took("take"))
		time.Sleep(time.Minute / 2)
		require.Zero(t, q.took("take"))
		s.release()
		time.Sleep(aPause)
		require.Equal(t, 1, q.took("take"))
	})
}

// line is a queue whose rows are of one line: only the first is ready.
type line struct{ *queue }

func (l line) Take(ctx context.Context, region string, limit int, lease time.Duration) ([]outbox.Message, error) {
	l.mu.Lock()
	ids := make([]string, 0, len(l.rows))
	for id := range l.rows {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	held := map[string]*outbox.Message{}
	for _, id := range ids[min(1, len(ids)):] {
		held[id] = l.rows[id]
		delete(l.rows, id)
	}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		maps.Copy(l.rows, held)
		l.mu.Unlock()
	}()
	return l.queue.Take(ctx, region, limit, lease)
}

// Rows of one line that were written shortly after each other are taken one after the other,
// without a poll.
func TestALineIsTakenToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		w := woken(t, line{q}, done, 32)
		for _, id := range []string{"1 pending", "2 paid", "3 refunded"} {
			q.put(id)
			w.Wake("r", 0)
		}
		time.Sleep(10 * aMoment)
		synctest.Wait()
		require.Empty(t, q.rows)
		q.took("take")
		time.Sleep(time.Minute)
		require.Zero(t, q.took("take"), "and then nothing more")
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

// Rows are taken together and end together at any rate, also where the next one comes while
// a step runs.
func TestStepsAreSharedAtAnyRate(t *testing.T) {
	for _, rate := range []int{50, 150, 250, 400, 800} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				w := woken(t, slowFinish{q, 5 * time.Millisecond}, done, 64)
				q.took("take")
				const seconds = 10
				for i := range seconds * rate {
					q.put(fmt.Sprint("row", i))
					w.Wake("r", 0)
					time.Sleep(time.Second / time.Duration(rate))
				}
				time.Sleep(time.Second)
				synctest.Wait()
				require.Empty(t, q.rows)
				takes, finishes := q.took("take"), q.took("finish")
				t.Log("takes", takes, "finishes", finishes)
				// Twice in a time between polls, and more only where all slots are full. Half of
				// the slots end in one step.
				require.LessOrEqual(t, takes, seconds*max(6, rate/20))
				require.LessOrEqual(t, finishes, 2*takes)
			})
		})
	}
}

// Package outboxtest is what every outbox.Store must do, as tests that run
// unchanged on each backend.
package outboxtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/outbox"
)

// Harness is one backend under test, empty at first.
type Harness struct {
	// Regions are at least two.
	Regions []string
	// Store is the view of a node in a region.
	Store func(region string) outbox.Store
	// Insert makes one message in region the way the backend does, through the
	// Begin of a claim under key, and returns its id. It is due Lease later.
	Insert func(t testing.TB, region, key string) (id string)
	// Settle ends that claim, which removes the message.
	Settle func(t testing.TB, region, key string)
	Lease  time.Duration
	// Pass lets the store's clock go on by at least d; exactly d if Exact.
	Pass  func(t testing.TB, d time.Duration)
	Exact bool
}

// Exercise checks every promise of the contract on the backends that newHarness
// opens, one for each subtest.
func Exercise(t *testing.T, newHarness func(t *testing.T) Harness) {
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(t)
			require.GreaterOrEqual(t, len(h.Regions), 2)
			tc.run(&world{Harness: h, T: t, ctx: t.Context(), home: h.Regions[0]})
		})
	}
}

// patience bounds the wait for rows that a backend skipped.
const patience = 30 * time.Second

type world struct {
	Harness
	*testing.T
	ctx  context.Context
	home string
}

func (w *world) at() outbox.Store { return w.Store(w.home) }

// take takes at most limit rows, once.
func (w *world) take(limit int) []outbox.Message {
	w.Helper()
	got, err := w.at().Take(w.ctx, w.home, limit, w.Lease)
	require.NoError(w, err)
	require.LessOrEqual(w, len(got), limit)
	return got
}

// takeDue takes n rows that are due: at once if the backend is exact, and by
// and by if it may skip what was only just written.
func (w *world) takeDue(n int) []outbox.Message {
	w.Helper()
	got := w.take(n)
	for deadline := time.Now().Add(patience); !w.Exact && len(got) < n && time.Now().Before(deadline); {
		w.Pass(w, time.Millisecond)
		got = append(got, w.take(n-len(got))...)
	}
	require.Len(w, got, n)
	return got
}

// takeOne takes the only row that is due.
func (w *world) takeOne() outbox.Message {
	w.Helper()
	m := w.takeDue(1)[0]
	require.Empty(w, w.take(10))
	return m
}

func (w *world) depth() outbox.Depth {
	w.Helper()
	d, err := w.at().Depth(w.ctx, w.home)
	require.NoError(w, err)
	return d
}

// due inserts a message and lets it become due.
func (w *world) due(key string) string {
	w.Helper()
	id := w.Insert(w, w.home, key)
	w.Pass(w, w.Lease)
	return id
}

func (w *world) parked(after string, limit int) []string {
	w.Helper()
	got, err := w.at().Parked(w.ctx, w.home, after, limit)
	require.NoError(w, err)
	ids := []string{}
	for _, m := range got {
		require.True(w, m.Parked)
		ids = append(ids, m.ID)
	}
	return ids
}

var tests = []struct {
	name string
	run  func(w *world)
}{
	{"take: nothing before its time", func(w *world) {
		id := w.Insert(w, w.home, "k")
		require.Empty(w, w.take(10))
		w.Pass(w, w.Lease)
		require.Equal(w, id, w.takeOne().ID)
	}},
	{"take: oldest first, at most the limit", func(w *world) {
		var want []string
		for i := range 5 {
			want = append(want, w.Insert(w, w.home, fmt.Sprint("k", i)))
			w.Pass(w, time.Millisecond)
		}
		w.Pass(w, w.Lease)
		var got []string
		for _, n := range []int{2, 2, 1} {
			for _, m := range w.takeDue(n) {
				got = append(got, m.ID)
			}
		}
		require.Equal(w, want, got)
		require.Empty(w, w.take(2))
		require.Empty(w, w.take(0))
	}},
	{"take: only rows of the region", func(w *world) {
		w.Insert(w, w.Regions[1], "far")
		id := w.due("near")
		require.Equal(w, id, w.takeOne().ID)
		got, err := w.Store(w.home).Take(w.ctx, w.Regions[1], 10, w.Lease)
		require.NoError(w, err)
		require.Len(w, got, 1, "a deputy takes the rows of another region")
		require.Equal(w, w.Regions[1], got[0].Region)
	}},
	{"take: a taken row is left alone until its lease lapses", func(w *world) {
		w.due("k")
		first := w.takeOne()
		require.Empty(w, w.take(10))
		if w.Exact {
			w.Pass(w, w.Lease-time.Microsecond)
			require.Empty(w, w.take(10))
			w.Pass(w, time.Microsecond)
		} else {
			w.Pass(w, w.Lease)
		}
		again := w.takeOne()
		require.Equal(w, first.ID, again.ID)
		require.Equal(w, first.Fence+1, again.Fence)
		require.Zero(w, again.Attempts, "a worker's death is no failure of the row")
		require.True(w, again.CreatedAt.Equal(first.CreatedAt))
	}},
	{"take: among many workers each row goes to one", func(w *world) {
		const rows = 64
		for i := range rows {
			w.Insert(w, w.home, fmt.Sprint("k", i))
		}
		w.Pass(w, w.Lease)
		var mu sync.Mutex
		seen := map[string]int{}
		var g errgroup.Group
		for i := range 16 {
			g.Go(func() error {
				for range rows { // bounded: a row may be skipped while it is locked
					got, err := w.Store(w.Regions[i%2]).Take(w.ctx, w.home, 3, time.Hour)
					if err != nil {
						return err
					}
					mu.Lock()
					for _, m := range got {
						seen[m.ID]++
					}
					mu.Unlock()
				}
				return nil
			})
		}
		require.NoError(w, g.Wait())
		require.Len(w, seen, rows)
		for id, n := range seen {
			require.Equal(w, 1, n, id)
		}
	}},
	{"finish: it removes the row", func(w *world) {
		w.due("k")
		m := w.takeOne()
		require.NoError(w, w.at().Finish(w.ctx, w.home, m.ID, m.Fence))
		require.ErrorIs(w, w.at().Finish(w.ctx, w.home, m.ID, m.Fence), outbox.ErrFenced)
		w.Pass(w, 2*w.Lease)
		require.Empty(w, w.take(10))
		require.Equal(w, outbox.Depth{}, w.depth())
	}},
	{"fence: who lost the row changes nothing", func(w *world) {
		w.due("k")
		old := w.takeOne()
		w.Pass(w, w.Lease)
		m := w.takeOne()
		require.ErrorIs(w, w.at().Finish(w.ctx, w.home, old.ID, old.Fence), outbox.ErrFenced)
		require.ErrorIs(w, w.at().Retry(w.ctx, w.home, old.ID, old.Fence, 0, "late"), outbox.ErrFenced)
		require.ErrorIs(w, w.at().Park(w.ctx, w.home, old.ID, old.Fence, "late"), outbox.ErrFenced)
		require.ErrorIs(w, w.at().Finish(w.ctx, w.home, "none", 1), outbox.ErrFenced)
		require.ErrorIs(w, w.at().Retry(w.ctx, w.home, "none", 1, 0, "late"), outbox.ErrFenced)
		require.ErrorIs(w, w.at().Park(w.ctx, w.home, "none", 1, "late"), outbox.ErrFenced)
		require.Empty(w, w.take(10))
		require.NoError(w, w.at().Finish(w.ctx, w.home, m.ID, m.Fence))
	}},
	{"fence: a settled claim takes its row away from the worker", func(w *world) {
		w.due("k")
		m := w.takeOne()
		w.Settle(w, w.home, "k")
		require.ErrorIs(w, w.at().Retry(w.ctx, w.home, m.ID, m.Fence, 0, "late"), outbox.ErrFenced)
		require.Equal(w, outbox.Depth{}, w.depth())
	}},
	{"retry: a reason counts as an attempt, none only postpones", func(w *world) {
		w.due("k")
		m := w.takeOne()
		require.NoError(w, w.at().Retry(w.ctx, w.home, m.ID, m.Fence, w.Lease/2, "boom"))
		require.Empty(w, w.take(10))
		w.Pass(w, w.Lease/2)
		m2 := w.takeOne()
		require.Equal(w, uint32(1), m2.Attempts)
		require.Equal(w, "boom", m2.LastError)
		require.Equal(w, m.Fence+1, m2.Fence)
		require.NoError(w, w.at().Retry(w.ctx, w.home, m2.ID, m2.Fence, 0, ""))
		m3 := w.takeOne()
		require.Equal(w, uint32(1), m3.Attempts)
		require.Equal(w, "boom", m3.LastError)
		require.Equal(w, m.Payload, m3.Payload)
		require.Equal(w, m.Operation, m3.Operation)
	}},
	{"park: a person takes over, the rows behind go on", func(w *world) {
		w.due("k")
		m := w.takeOne()
		require.NoError(w, w.at().Retry(w.ctx, w.home, m.ID, m.Fence, 0, "once"))
		m = w.takeOne()
		require.NoError(w, w.at().Park(w.ctx, w.home, m.ID, m.Fence, "never works"))
		require.ErrorIs(w, w.at().Finish(w.ctx, w.home, m.ID, m.Fence), outbox.ErrFenced, "a parked row is nobody's")
		next := w.due("behind")
		require.Equal(w, next, w.takeOne().ID)
		require.Equal(w, 1, w.depth().Parked)
		require.Equal(w, []string{m.ID}, w.parked("", 10))

		ok, err := w.at().Unpark(w.ctx, w.home, m.ID)
		require.NoError(w, err)
		require.True(w, ok)
		require.Empty(w, w.parked("", 10))
		again := w.takeOne()
		require.Equal(w, m.ID, again.ID)
		require.Zero(w, again.Attempts)
		require.False(w, again.Parked)
		require.Equal(w, "never works", again.LastError)
		require.Equal(w, m.Fence+1, again.Fence)
	}},
	{"park: it can be done again and again", func(w *world) {
		w.due("k")
		for range 3 {
			m := w.takeOne()
			require.NoError(w, w.at().Park(w.ctx, w.home, m.ID, m.Fence, "no"))
			require.Empty(w, w.take(10))
			ok, err := w.at().Unpark(w.ctx, w.home, m.ID)
			require.NoError(w, err)
			require.True(w, ok)
		}
		require.Equal(w, 1, w.depth().Due)
	}},
	{"park: settling the claim removes the parked row", func(w *world) {
		w.due("k")
		m := w.takeOne()
		require.NoError(w, w.at().Park(w.ctx, w.home, m.ID, m.Fence, "no"))
		w.Settle(w, w.home, "k")
		require.Empty(w, w.parked("", 10))
		require.Equal(w, outbox.Depth{}, w.depth())
	}},
	{"unpark: only what is parked", func(w *world) {
		id := w.Insert(w, w.home, "k")
		for _, id := range []string{id, "none"} {
			ok, err := w.at().Unpark(w.ctx, w.home, id)
			require.NoError(w, err)
			require.False(w, ok)
		}
		require.Empty(w, w.take(10))
	}},
	{"parked: listed by id, page by page", func(w *world) {
		var want []string
		for i := range 5 {
			w.Insert(w, w.home, fmt.Sprint("k", i))
		}
		w.Pass(w, w.Lease)
		for _, m := range w.takeDue(5) {
			require.NoError(w, w.at().Park(w.ctx, w.home, m.ID, m.Fence, "no"))
			want = append(want, m.ID)
		}
		slices.Sort(want)
		require.Len(w, want, 5)
		require.Equal(w, want, w.parked("", 10))
		require.Equal(w, want[:2], w.parked("", 2))
		require.Equal(w, want[2:4], w.parked(want[1], 2))
		require.Empty(w, w.parked(want[4], 2))
		require.Empty(w, w.parked("", 0))
		far, err := w.at().Parked(w.ctx, w.Regions[1], "", 10)
		require.NoError(w, err)
		require.Empty(w, far)
	}},
	{"depth: pending, due and parked are told apart", func(w *world) {
		require.Equal(w, outbox.Depth{}, w.depth())
		for i := range 3 {
			w.Insert(w, w.home, fmt.Sprint("k", i))
		}
		d := w.depth()
		require.Equal(w, []int{3, 0, 0}, []int{d.Pending, d.Due, d.Parked})
		require.True(w, d.OldestDue.IsZero())
		w.Pass(w, w.Lease)
		d = w.depth()
		require.Equal(w, []int{3, 3, 0}, []int{d.Pending, d.Due, d.Parked})
		oldest := d.OldestDue
		m := w.takeDue(1)[0]
		require.False(w, oldest.Before(m.CreatedAt.Add(w.Lease)))
		require.NoError(w, w.at().Park(w.ctx, w.home, m.ID, m.Fence, "no"))
		d = w.depth()
		require.Equal(w, []int{2, 2, 1}, []int{d.Pending, d.Due, d.Parked})
		require.False(w, d.OldestDue.Before(oldest))
	}},
}

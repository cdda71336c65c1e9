// Package outboxtest is the conformance suite of outbox.Store. It runs unchanged on
// each backend.
package outboxtest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/outbox"
)

// Harness is one queue of one backend under test, initially empty. claimtest.Queue and
// noticetest.Queue make harnesses of the queues that claims and notices write to.
type Harness struct {
	// Regions has at least two.
	Regions []string
	// Queue names the queue; "" means ProviderCalls.
	Queue outbox.Queue
	// Store is the view of a node in a region.
	Store func(region string) outbox.Store
	// Queues are all queues of the backend, as a node in region has them.
	Queues func(region string) outbox.Queues
	// Insert makes one message in region the way the backend does, in the step that
	// causes it, and returns its id. It is due Delay later. No key is used twice.
	Insert func(t testing.TB, region, key string) (id string)
	// Settle ends the claim of a message in ProviderCalls, which removes the
	// message; nil for the other queues.
	Settle func(t testing.TB, region, key string)
	// Append makes a message of each kind, of one tenant and key, in one step, and
	// returns their ids in order; nil for queues without an order. Tenants has the
	// tenants to use. Append is called at most three times for one key.
	Append  func(t testing.TB, region, tenant, key string, kinds ...outbox.Kind) (ids []string)
	Tenants [2]string
	// Delay is how long after its insertion a message is due.
	Delay time.Duration
	// Lease is how long the tests take rows for.
	Lease time.Duration
	// Pass advances the store's clock by at least d; exactly d if Exact.
	Pass  func(t testing.TB, d time.Duration)
	Exact bool
}

// Exercise checks every promise of the contract. newHarness opens a backend for each
// subtest.
func Exercise(t *testing.T, newHarness func(t *testing.T) Harness) {
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, newHarness(t))
			switch {
			case tc.only == settles && w.Settle == nil, tc.only == ordered && w.Append == nil:
				t.Skip("not of this queue")
			}
			tc.run(w)
		})
	}
}

// patience bounds the wait for rows that a backend skipped.
const patience = 30 * time.Second

type test struct {
	name string
	run  func(w *world)
	only kind
}

// kind selects the queues that a test is for.
type kind int

const (
	all     kind = iota
	settles      // whose rows go when their claim is settled
	ordered      // that keep the order of each key
)

var tests = slices.Concat(queueTests, orderTests)

var queueTests = []test{
	{name: "take: no row before it is due", run: func(w *world) {
		id := w.Insert(w, w.home, "k")
		if w.Delay > 0 {
			w.none()
		}
		w.Pass(w, w.Delay)
		require.Equal(w, id, w.takeOne().ID)
	}},
	{name: "take: oldest first, at most the limit", run: func(w *world) {
		var want []string
		for i := range 5 {
			want = append(want, w.Insert(w, w.home, fmt.Sprint("k", i)))
			w.Pass(w, time.Millisecond)
		}
		w.Pass(w, w.Delay)
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
	{name: "waiting: rows in the order of their due times, including later ones", run: func(w *world) {
		var all []string
		for i := range 3 {
			all = append(all, w.Insert(w, w.home, fmt.Sprint("k", i)))
			w.Pass(w, time.Millisecond)
		}
		w.Insert(w, w.Regions[1], "far")
		require.Equal(w, all, w.waiting(10))
		require.Equal(w, all[:2], w.waiting(2))
		require.Empty(w, w.waiting(0))
		w.Pass(w, w.Delay)
		m := w.takeDue(1)[0]
		require.Equal(w, all[0], m.ID, "to look is not to take")
		require.Equal(w, []string{all[1], all[2], all[0]}, w.waiting(10), "one in hand is due when its lease is over")
		require.NoError(w, w.at().Retry(w.ctx, w.home, m.Hold(), 2*w.Lease+w.Delay, "down"))
		got, err := w.at().Waiting(w.ctx, w.home, 3)
		require.NoError(w, err)
		require.Equal(w, "down", got[2].LastError)
		require.EqualValues(w, 1, got[2].Attempts)
		require.Equal(w, w.home, got[2].Region)
		park := w.takeDue(1)[0]
		w.park(park)
		require.Equal(w, []string{all[2], all[0]}, w.waiting(10))
	}},
	{name: "take: only rows of the region", run: func(w *world) {
		w.Insert(w, w.Regions[1], "far")
		id := w.due("near")
		require.Equal(w, id, w.takeOne().ID)
		got, err := w.Store(w.home).Take(w.ctx, w.Regions[1], 10, w.Lease)
		require.NoError(w, err)
		require.Len(w, got, 1, "a deputy takes the rows of another region")
		require.Equal(w, w.Regions[1], got[0].Region)
	}},
	{name: "take: a taken row is left alone until its lease lapses", run: func(w *world) {
		w.due("k")
		first := w.takeOne()
		w.none()
		if w.Exact {
			w.Pass(w, w.Lease-time.Microsecond)
			w.none()
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
	{name: "take: among many workers each row is taken by one", run: func(w *world) {
		const rows = 64
		for i := range rows {
			w.Insert(w, w.home, fmt.Sprint("k", i))
		}
		w.Pass(w, w.Delay)
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
	{name: "finish: it removes the row", run: func(w *world) {
		w.due("k")
		m := w.takeOne()
		require.NoError(w, w.at().Finish(w.ctx, w.home, m.Hold()))
		require.ErrorIs(w, w.at().Finish(w.ctx, w.home, m.Hold()), outbox.ErrFenced)
		w.Pass(w, 2*w.Lease)
		w.none()
		require.Equal(w, outbox.Depth{}, w.depth())
	}},
	{name: "fence: a worker that lost the row changes nothing", run: func(w *world) {
		w.due("k")
		old := w.takeOne()
		w.Pass(w, w.Lease)
		m := w.takeOne()
		require.ErrorIs(w, w.at().Finish(w.ctx, w.home, old.Hold()), outbox.ErrFenced)
		require.ErrorIs(w, w.at().Retry(w.ctx, w.home, old.Hold(), 0, "late"), outbox.ErrFenced)
		require.ErrorIs(w, w.at().Park(w.ctx, w.home, old.Hold(), "late"), outbox.ErrFenced)
		require.ErrorIs(w, w.at().Finish(w.ctx, w.home, outbox.Hold{ID: "none", Fence: 1}), outbox.ErrFenced)
		require.ErrorIs(w, w.at().Retry(w.ctx, w.home, outbox.Hold{ID: "none", Fence: 1}, 0, "late"), outbox.ErrFenced)
		require.ErrorIs(w, w.at().Park(w.ctx, w.home, outbox.Hold{ID: "none", Fence: 1}, "late"), outbox.ErrFenced)
		w.none()
		require.NoError(w, w.at().Finish(w.ctx, w.home, m.Hold()))
	}},
	{name: "fence: settling a claim removes the row from its worker", run: func(w *world) {
		w.due("k")
		m := w.takeOne()
		w.Settle(w, w.home, "k")
		require.ErrorIs(w, w.at().Retry(w.ctx, w.home, m.Hold(), 0, "late"), outbox.ErrFenced)
		require.Equal(w, outbox.Depth{}, w.depth())
	}, only: settles},
	{name: "retry: a reason counts as an attempt, no reason only postpones", run: func(w *world) {
		w.due("k")
		m := w.takeOne()
		require.NoError(w, w.at().Retry(w.ctx, w.home, m.Hold(), w.Lease/2, "boom"))
		w.none()
		w.Pass(w, w.Lease/2)
		m2 := w.takeOne()
		require.Equal(w, uint32(1), m2.Attempts)
		require.Equal(w, "boom", m2.LastError)
		require.Equal(w, m.Fence+1, m2.Fence)
		require.NoError(w, w.at().Retry(w.ctx, w.home, m2.Hold(), 0, ""))
		m3 := w.takeOne()
		require.Equal(w, uint32(1), m3.Attempts)
		require.Equal(w, "boom", m3.LastError)
		require.Equal(w, m.Payload, m3.Payload)
		require.Equal(w, m.Operation, m3.Operation)
	}},
	{name: "finish all: each under its fence, in one step", run: func(w *world) {
		for i := range 4 {
			w.Insert(w, w.home, fmt.Sprint("k", i))
		}
		w.Pass(w, w.Delay)
		stale := w.takeDue(1)[0]
		w.Pass(w, w.Lease)
		rows := w.takeDue(4)
		again := rows[slices.IndexFunc(rows, func(m outbox.Message) bool { return m.ID == stale.ID })]
		require.Greater(w, again.Fence, stale.Fence)
		var hold []outbox.Hold
		for _, m := range rows {
			if m.ID != stale.ID {
				hold = append(hold, m.Hold())
			}
		}
		parked := hold[0]
		require.NoError(w, w.at().Park(w.ctx, w.home, parked, "no"))
		require.NoError(w, w.at().FinishAll(w.ctx, w.home, append(slices.Clone(hold), stale.Hold(), outbox.Hold{ID: "none", Fence: 1})))
		for i, h := range append(hold, outbox.Hold{ID: stale.ID}) {
			_, found := w.message(h.ID)
			require.Equal(w, i == 0 || h.ID == stale.ID, found, "only what is held under its fence, and not parked, goes: %d", i)
		}
		require.NoError(w, w.at().FinishAll(w.ctx, w.home, hold), "again")
		require.NoError(w, w.at().FinishAll(w.ctx, w.home, nil))
		w.finish(again)
		require.Equal(w, outbox.Depth{Parked: 1}, w.depth())
	}},
	{name: "retry all: each with its own pause and reason", run: func(w *world) {
		for i := range 4 {
			w.Insert(w, w.home, fmt.Sprint("k", i))
		}
		w.Pass(w, w.Delay)
		rows := w.takeDue(4)
		hold := func(i int) outbox.Hold { return rows[i].Hold() }
		stale := hold(2)
		stale.Fence--
		require.NoError(w, w.at().RetryAll(w.ctx, w.home, nil))
		require.NoError(w, w.at().RetryAll(w.ctx, w.home, []outbox.Delay{
			{Hold: hold(0), After: 0, Reason: ""},
			{Hold: hold(1), After: w.Lease / 2, Reason: "boom"},
			{Hold: stale, Reason: "late"},
			{Hold: outbox.Hold{ID: "none", Fence: 1}, Reason: "late"},
		}))
		first := w.takeOne()
		require.Equal(w, rows[0].ID, first.ID)
		require.Zero(w, first.Attempts, "postponing is no failure")
		w.finish(first)
		w.Pass(w, w.Lease/2)
		second := w.takeOne()
		require.Equal(w, rows[1].ID, second.ID)
		require.Equal(w, uint32(1), second.Attempts)
		require.Equal(w, "boom", second.LastError)
		for _, i := range []int{2, 3} {
			left, found := w.message(rows[i].ID)
			require.True(w, found)
			require.Equal(w, []any{rows[i].Fence, uint32(0), ""}, []any{left.Fence, left.Attempts, left.LastError}, "it was not touched")
		}
	}},
	{name: "look: it returns when a row is due and takes nothing", run: func(w *world) {
		in, there := w.nextDue()
		require.False(w, there, "an empty queue is not in it: %v", in)
		id := w.Insert(w, w.home, "k")
		in, there = w.nextDue()
		require.True(w, there)
		require.LessOrEqual(w, in, w.Delay)
		if w.Delay > 0 && w.Exact {
			require.Equal(w, w.Delay, in)
		}
		w.Pass(w, w.Delay)
		in, there = w.nextDue()
		require.True(w, there)
		require.Zero(w, in)
		m := w.takeOne()
		require.Equal(w, id, m.ID)
		in, there = w.nextDue()
		require.True(w, there, "a row in hand is due when its lease lapses")
		require.Positive(w, in)
		require.LessOrEqual(w, in, w.Lease)
		w.park(m)
		_, there = w.nextDue()
		require.False(w, there, "a parked row is never due")
		far, err := w.Queues(w.home).NextDue(w.ctx, w.Regions[1])
		require.NoError(w, err)
		require.Empty(w, far, "another region has rows of its own")
	}},
	{name: "park: a parked row does not block the rows behind it", run: func(w *world) {
		w.due("k")
		m := w.takeOne()
		require.NoError(w, w.at().Retry(w.ctx, w.home, m.Hold(), 0, "once"))
		m = w.takeOne()
		require.NoError(w, w.at().Park(w.ctx, w.home, m.Hold(), "never works"))
		require.ErrorIs(w, w.at().Finish(w.ctx, w.home, m.Hold()), outbox.ErrFenced, "a parked row is nobody's")
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
	{name: "park: a row can be parked repeatedly", run: func(w *world) {
		w.due("k")
		for range 3 {
			m := w.takeOne()
			require.NoError(w, w.at().Park(w.ctx, w.home, m.Hold(), "no"))
			w.none()
			ok, err := w.at().Unpark(w.ctx, w.home, m.ID)
			require.NoError(w, err)
			require.True(w, ok)
		}
		require.Equal(w, 1, w.depth().Due)
	}},
	{name: "park: settling the claim removes the parked row", run: func(w *world) {
		w.due("k")
		m := w.takeOne()
		require.NoError(w, w.at().Park(w.ctx, w.home, m.Hold(), "no"))
		w.Settle(w, w.home, "k")
		require.Empty(w, w.parked("", 10))
		require.Equal(w, outbox.Depth{}, w.depth())
	}, only: settles},
	{name: "unpark: only parked rows", run: func(w *world) {
		id := w.Insert(w, w.home, "k")
		for _, id := range []string{id, "none"} {
			ok, err := w.at().Unpark(w.ctx, w.home, id)
			require.NoError(w, err)
			require.False(w, ok)
		}
		if w.Delay > 0 {
			w.none()
		}
	}},
	{name: "parked: listed by id, page by page", run: func(w *world) {
		var want []string
		for i := range 5 {
			w.Insert(w, w.home, fmt.Sprint("k", i))
		}
		w.Pass(w, w.Delay)
		for _, m := range w.takeDue(5) {
			require.NoError(w, w.at().Park(w.ctx, w.home, m.Hold(), "no"))
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
	{name: "depth: pending, due and parked rows are counted separately", run: func(w *world) {
		require.Equal(w, outbox.Depth{}, w.depth())
		for i := range 3 {
			w.Insert(w, w.home, fmt.Sprint("k", i))
		}
		d := w.depth()
		require.Equal(w, []int{3, 0}, []int{d.Pending, d.Parked})
		if w.Delay > 0 {
			require.Zero(w, d.Due)
			require.True(w, d.OldestDue.IsZero())
		}
		w.Pass(w, w.Delay)
		d = w.depth()
		require.Equal(w, []int{3, 3, 0}, []int{d.Pending, d.Due, d.Parked})
		oldest := d.OldestDue
		m := w.takeDue(1)[0]
		if w.Exact { // elsewhere due may be a node's time, and the row be written a moment later
			require.False(w, oldest.Before(m.CreatedAt.Add(w.Delay)))
		}
		require.NoError(w, w.at().Park(w.ctx, w.home, m.Hold(), "no"))
		d = w.depth()
		require.Equal(w, []int{2, 2, 1}, []int{d.Pending, d.Due, d.Parked})
		require.False(w, d.OldestDue.Before(oldest))
	}},
	{name: "message: a row is read and not taken", run: func(w *world) {
		_, found := w.message("none")
		require.False(w, found)
		id := w.due("k")
		seen, found := w.message(id)
		require.True(w, found)
		require.Equal(w, id, seen.ID)
		require.Equal(w, w.home, seen.Region)
		_, found, err := w.at().Message(w.ctx, w.Regions[1], id)
		require.NoError(w, err)
		require.False(w, found, "another region has rows of its own")

		m := w.takeOne()
		require.Equal(w, seen.Fence+1, m.Fence, "reading took nothing")
		require.Equal(w, []any{seen.Kind, seen.Tenant, seen.Key, seen.Operation, seen.Payload, seen.TraceParent, seen.CreatedAt.UTC()},
			[]any{m.Kind, m.Tenant, m.Key, m.Operation, m.Payload, m.TraceParent, m.CreatedAt.UTC()})
		seen, _ = w.message(id)
		require.True(w, seen.Due.Equal(m.Due))
		require.Equal(w, m.Fence, seen.Fence)
		w.park(m)
		seen, _ = w.message(id)
		require.True(w, seen.Parked)
		require.Equal(w, "no", seen.LastError)
		w.unpark(id)
		w.finish(w.takeOne())
		_, found = w.message(id)
		require.False(w, found)
	}},
}

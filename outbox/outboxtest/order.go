package outboxtest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/outbox"
)

// orderTests are for a queue in which the rows of one key wait for each other.
var orderTests = []test{
	{name: "order: of one key only the oldest row can be taken", only: ordered, run: func(w *world) {
		want := w.append("k", 2)
		w.Pass(w, time.Millisecond)
		want = append(want, w.append("k", 1)...)
		require.Equal(w, 3, w.depth().Pending)
		for _, id := range want {
			m := w.takeDue(1)[0]
			require.Equal(w, id, m.ID)
			w.none("one that is being worked on holds the next back")
			w.finish(m)
		}
		w.none()
		require.Equal(w, outbox.Depth{}, w.depth())
	}},
	{name: "waiting: of one key at least the first row is listed", only: ordered, run: func(w *world) {
		rows := w.append("k", 2)
		other := w.append("k2", 1)
		w.Pass(w, w.Delay)
		got := w.waiting(10)
		require.Subset(w, got, []string{rows[0], other[0]})
		require.Subset(w, append(rows, other...), got)
	}},
	{name: "order: other keys and other tenants are not blocked", only: ordered, run: func(w *world) {
		want := []string{
			w.append("k", 3)[0], w.append("k2", 2)[0],
			w.Append(w, w.home, w.Tenants[1], "k", outbox.KindLog, outbox.KindLog)[0],
		}
		w.Append(w, w.Regions[1], w.Tenants[0], "k", outbox.KindLog, outbox.KindLog)
		w.Pass(w, w.Delay)
		got := ids(w.takeDue(3))
		slices.Sort(want)
		slices.Sort(got)
		require.Equal(w, want, got)
		w.none()
		far, err := w.at().Take(w.ctx, w.Regions[1], 10, w.Lease)
		require.NoError(w, err)
		require.Len(w, far, 1)
	}},
	{name: "order: another kind of the same key is not blocked", only: ordered, run: func(w *world) {
		// As three steps of one key write them: each for both sinks.
		nats, hook := []string{}, []string{}
		for range 3 {
			both := w.appendKinds("k", outbox.KindNATS, outbox.KindWebhook)
			nats, hook = append(nats, both[0]), append(hook, both[1])
			w.Pass(w, time.Millisecond)
		}
		taken := map[outbox.Kind]outbox.Message{}
		for _, m := range w.takeDue(2) {
			taken[m.Kind] = m
		}
		down := taken[outbox.KindNATS]
		require.Equal(w, nats[0], down.ID)
		require.Equal(w, hook[0], taken[outbox.KindWebhook].ID)
		require.NoError(w, w.at().Retry(w.ctx, w.home, down.Hold(), w.Lease, "down"))
		w.finish(taken[outbox.KindWebhook])
		for _, id := range hook[1:] { // in order, whatever the other sink does
			m := w.takeOne()
			require.Equal(w, id, m.ID)
			w.finish(m)
		}
		for _, id := range nats {
			w.Pass(w, w.Lease) // until the failed one is due, and then until those behind it are
			m := w.takeOne()
			require.Equal(w, id, m.ID)
			w.finish(m)
		}
		require.Equal(w, outbox.Depth{}, w.depth())
	}},
	{name: "order: each kind is parked and unparked in its own line", only: ordered, run: func(w *world) {
		rows := w.appendKinds("k", outbox.KindNATS, outbox.KindWebhook, outbox.KindNATS, outbox.KindWebhook)
		first := w.takeDue(2)
		require.ElementsMatch(w, rows[:2], ids(first))
		for _, m := range first {
			if m.Kind == outbox.KindNATS {
				w.park(m)
			} else {
				require.NoError(w, w.at().Retry(w.ctx, w.home, m.Hold(), w.Lease, "down"))
			}
		}
		second := w.takeOne()
		require.Equal(w, rows[2], second.ID, "one that is parked holds nothing back, one that failed its own line")
		require.Equal(w, 3, w.depth().Pending)
		w.unpark(rows[0])
		require.Equal(w, rows[0], w.takeOne().ID)
	}},
	{name: "order: waiting rows do not use up the limit", only: ordered, run: func(w *world) {
		first := w.append("long", 20)[0]
		w.Pass(w, time.Millisecond)
		second := w.append("short", 1)[0]
		require.ElementsMatch(w, []string{first, second}, ids(w.takeDue(2)))
	}},
	{name: "order: a failure blocks its key, and only that", only: ordered, run: func(w *world) {
		rows := w.append("k", 2)
		m := w.takeDue(1)[0]
		require.NoError(w, w.at().Retry(w.ctx, w.home, m.Hold(), w.Lease, "down"))
		w.none("the younger is due, but not the next")
		other := w.append("other", 1)
		w.finish(w.takeOneOf(other))
		w.Pass(w, w.Lease)
		m = w.takeOne()
		require.Equal(w, rows[0], m.ID)
		w.finish(m)
		w.Pass(w, w.Lease) // which the older one, that had failed, was held for
		require.Equal(w, rows[1], w.takeOne().ID)
	}},
	{name: "order: a row that waits for another is not due", only: ordered, run: func(w *world) {
		rows := w.append("k", 2)
		in, there := w.nextDue()
		require.True(w, there)
		require.Zero(w, in)
		m := w.takeOneOf(rows[:1])
		require.NoError(w, w.at().Retry(w.ctx, w.home, m.Hold(), w.Lease, "down"))
		w.none()
		in, there = w.nextDue()
		require.True(w, there)
		require.Positive(w, in, "the younger one is due, but not the next")
		require.LessOrEqual(w, in, w.Lease)
		w.append("other", 1)
		in, _ = w.nextDue()
		require.Zero(w, in)
	}},
	{name: "order: a worker's death blocks its key until the lease lapses", only: ordered, run: func(w *world) {
		rows := w.append("k", 2)
		require.Equal(w, rows[0], w.takeOne().ID)
		w.Pass(w, w.Lease)
		m := w.takeOne()
		require.Equal(w, rows[0], m.ID)
		w.finish(m)
		require.Equal(w, rows[1], w.takeOne().ID)
	}},
	{name: "order: a parked row blocks nothing", only: ordered, run: func(w *world) {
		rows := w.append("k", 3)
		w.park(w.takeOneOf(rows[:1]))
		m := w.takeOneOf(rows[1:2])
		w.finish(m)
		require.Equal(w, rows[:1], w.parked("", 10))
		require.Equal(w, rows[2], w.takeOne().ID)
	}},
	{name: "order: an unparked row is the oldest again", only: ordered, run: func(w *world) {
		rows := w.append("k", 3)
		w.park(w.takeOneOf(rows[:1]))
		w.unpark(rows[0])
		first := w.takeOneOf(rows[:1])
		w.park(first)
		second := w.takeOneOf(rows[1:2])
		w.unpark(rows[0]) // while the second is in hand
		first = w.takeOneOf(rows[:1])
		w.finish(second)
		w.none("the third waits for the first")
		w.finish(first)
		require.Equal(w, rows[2], w.takeOne().ID)
	}},
	{name: "order: a row that was overtaken waits when it fails", only: ordered, run: func(w *world) {
		rows := w.append("k", 2)
		w.park(w.takeOneOf(rows[:1]))
		second := w.takeOneOf(rows[1:])
		w.unpark(rows[0])
		require.NoError(w, w.at().Retry(w.ctx, w.home, second.Hold(), 0, "down"))
		first := w.takeOneOf(rows[:1])
		w.Pass(w, time.Millisecond)
		w.none()
		w.finish(first)
		again := w.takeOne()
		require.Equal(w, rows[1], again.ID)
		require.Equal(w, uint32(1), again.Attempts)
	}},
	{name: "order: a row parked behind the oldest leaves the line", only: ordered, run: func(w *world) {
		rows := w.append("k", 3)
		w.park(w.takeOneOf(rows[:1]))
		second := w.takeOneOf(rows[1:2])
		w.unpark(rows[0])
		w.park(second)
		first := w.takeOneOf(rows[:1])
		w.finish(first)
		third := w.takeOneOf(rows[2:])
		w.unpark(rows[1])
		require.Equal(w, rows[1], w.takeOne().ID)
		w.finish(third)
	}},
	{name: "order: many workers keep the order of each key", only: ordered, run: func(w *world) {
		const keys, each = 8, 6
		want := map[string][]string{}
		for i := range keys {
			key := fmt.Sprint("k", i)
			want[key] = w.append(key, each)
		}
		var mu sync.Mutex
		got, left := map[string][]string{}, keys*each
		done := func() bool { mu.Lock(); defer mu.Unlock(); return left == 0 }
		var g errgroup.Group
		for i := range 8 {
			g.Go(func() error {
				s := w.Store(w.Regions[i%2])
				for deadline := time.Now().Add(patience); !done() && time.Now().Before(deadline); {
					ms, err := s.Take(w.ctx, w.home, 3, time.Hour)
					if err != nil {
						return err
					}
					if len(ms) == 0 {
						w.Pass(w, 100*time.Millisecond)
					}
					for _, m := range ms {
						mu.Lock()
						got[m.Key] = append(got[m.Key], m.ID)
						left--
						mu.Unlock()
						if err := s.Finish(w.ctx, w.home, m.Hold()); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
		require.NoError(w, g.Wait())
		require.Equal(w, want, got)
	}},
}

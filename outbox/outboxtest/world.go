package outboxtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"
)

func newWorld(t *testing.T, h Harness) *world {
	require.GreaterOrEqual(t, len(h.Regions), 2)
	if h.Queue == "" {
		h.Queue = outbox.ProviderCalls
	}
	require.Equal(t, h.Queue == outbox.ProviderCalls, h.Settle != nil, "claims settle provider calls")
	require.Equal(t, h.Queue == outbox.Events, h.Append != nil, "events are kept in order")
	w := &world{Harness: h, T: t, ctx: t.Context(), home: h.Regions[0]}
	w.Pass = func(t testing.TB, d time.Duration) {
		h.Pass(t, d)
		if d >= w.Lease/2 {
			w.held = time.Time{}
		}
	}
	return w
}

type world struct {
	Harness
	*testing.T
	ctx  context.Context
	home string
	held time.Time // before the first row was taken whose lease may not be over; zero: none was
}

func (w *world) at() outbox.Store { return w.Store(w.home) }

// take takes at most limit rows, once.
func (w *world) take(limit int) []outbox.Message {
	w.Helper()
	asked := time.Now()
	got, err := w.at().Take(w.ctx, w.home, limit, w.Lease)
	require.NoError(w, err)
	require.LessOrEqual(w, len(got), limit)
	if len(got) > 0 && w.held.IsZero() {
		w.held = asked
	}
	return got
}

// none requires that no row is due: each is held, or waits. A clock that cannot be set may have passed
// the end of a lease by now, and then the test ends: it holds the row no more.
func (w *world) none(why ...any) {
	w.Helper()
	held := w.held
	got := w.take(10)
	if len(got) > 0 && !w.Exact && !held.IsZero() && time.Since(held) >= w.Lease {
		w.Skip("the database took longer than the lease of", w.Lease)
	}
	require.Empty(w, got, why...)
}

// takeDue takes n due rows. It retries if the backend may skip a row that was only just
// written.
func (w *world) takeDue(n int) []outbox.Message {
	w.Helper()
	got := w.take(n)
	if w.Exact && w.Append != nil && len(got) < n {
		w.Pass(w, time.Second) // so much later the next of a key may become due
		got = append(got, w.take(n-len(got))...)
	}
	for deadline := time.Now().Add(patience); !w.Exact && len(got) < n && time.Now().Before(deadline); {
		w.Pass(w, time.Millisecond)
		got = append(got, w.take(n-len(got))...)
	}
	require.Len(w, got, n)
	return got
}

// takeOne takes the only due row.
func (w *world) takeOne() outbox.Message {
	w.Helper()
	m := w.takeDue(1)[0]
	w.none()
	return m
}

// nextDue returns in how long a row of the queue can be taken, and whether there is one.
func (w *world) nextDue() (in time.Duration, there bool) {
	w.Helper()
	next, err := w.Queues(w.home).NextDue(w.ctx, w.home)
	require.NoError(w, err)
	in, there = next[w.Queue]
	return in, there
}

// waiting returns the ids of the waiting rows.
func (w *world) waiting(limit int) []string {
	w.Helper()
	all, err := w.at().Waiting(w.ctx, w.home, limit)
	require.NoError(w, err)
	return ids(all)
}

func (w *world) depth() outbox.Depth {
	w.Helper()
	d, err := w.at().Depth(w.ctx, w.home)
	require.NoError(w, err)
	return d
}

// due inserts a message and waits until it is due.
func (w *world) due(key string) string {
	w.Helper()
	id := w.Insert(w, w.home, key)
	w.Pass(w, w.Delay)
	return id
}

func (w *world) message(id string) (outbox.Message, bool) {
	w.Helper()
	m, found, err := w.at().Message(w.ctx, w.home, id)
	require.NoError(w, err)
	return m, found
}

// finish finishes a taken row.
func (w *world) finish(m outbox.Message) {
	w.Helper()
	require.NoError(w, w.at().Finish(w.ctx, w.home, m.Hold()))
}

func (w *world) park(m outbox.Message) {
	w.Helper()
	require.NoError(w, w.at().Park(w.ctx, w.home, m.Hold(), "no"))
}

func (w *world) unpark(id string) {
	w.Helper()
	ok, err := w.at().Unpark(w.ctx, w.home, id)
	require.NoError(w, err)
	require.True(w, ok)
}

// append makes n due messages of one key of the first tenant.
func (w *world) append(key string, n int) []string {
	w.Helper()
	return w.appendKinds(key, slices.Repeat([]outbox.Kind{outbox.KindLog}, n)...)
}

// appendKinds makes due rows of one key and these kinds.
func (w *world) appendKinds(key string, kinds ...outbox.Kind) []string {
	w.Helper()
	ids := w.Append(w, w.home, w.Tenants[0], key, kinds...)
	require.Len(w, ids, len(kinds))
	w.Pass(w, w.Delay)
	return ids
}

// ids returns the ids of ms.
func ids(ms []outbox.Message) []string {
	got := []string{}
	for _, m := range ms {
		got = append(got, m.ID)
	}
	return got
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

// takeOneOf takes the only due row, which is the first of ids.
func (w *world) takeOneOf(ids []string) outbox.Message {
	w.Helper()
	m := w.takeOne()
	require.Equal(w, ids[0], m.ID)
	return m
}

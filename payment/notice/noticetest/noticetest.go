// Package noticetest is the conformance suite of notice.Store. It runs unchanged on
// each backend.
package noticetest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/outboxtest"
	"github.com/homeward-io/homeward/payment/notice"
)

// Harness is one backend under test, initially without notices.
type Harness struct {
	// Regions has at least two.
	Regions []string
	// Store and Queue, of outbox.Notices, are the view of a node in a region.
	Store func(region string) notice.Store
	Queue func(region string) outbox.Store
	// Events is the queue outbox.Events, Books the ledger, as such a node sees them.
	Events func(region string) outbox.Store
	Books  func(region string) ledger.Store
	// Lease is how long the tests take rows for.
	Lease time.Duration
	// Pass advances the store's clock by at least d; exactly d if Exact.
	Pass  func(t testing.TB, d time.Duration)
	Exact bool
	// Now reads the store's clock.
	Now func(t testing.TB) time.Time
	// Sweep runs the housekeeping of a region until nothing is left to do.
	Sweep func(t testing.TB, region string)
	// Raw returns all that the store keeps, as a thief of its disk would find it.
	Raw func(t testing.TB) []byte
}

// Queue adapts h to an outboxtest harness for outbox.Notices.
func Queue(h Harness) outboxtest.Harness {
	return outboxtest.Harness{
		Regions: h.Regions, Queue: outbox.Notices, Store: h.Queue, Lease: h.Lease, Pass: h.Pass, Exact: h.Exact,
		Queues: func(region string) outbox.Queues { return h.Store(region).(outbox.Queues) },
		Insert: func(t testing.TB, region, key string) string {
			n := newNotice(key, "{}")
			fresh, err := h.Store(region).Keep(context.Background(), region, []notice.Notice{n})
			require.NoError(t, err)
			require.Equal(t, 1, fresh)
			return n.ID
		},
	}
}

// Exercise checks every promise of the contract. newHarness opens a backend for each
// subtest.
func Exercise(t *testing.T, newHarness func(t *testing.T) Harness) {
	for _, tc := range slices.Concat(tests, sealedTests) {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(t)
			require.GreaterOrEqual(t, len(h.Regions), 2)
			tc.run(&world{Harness: h, T: t, ctx: t.Context(), home: h.Regions[0]})
		})
	}
	for _, tc := range moneyTests {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(t)
			tc.run(&world{Harness: h, T: t, ctx: t.Context(), home: h.Regions[0]})
		})
	}
}

func newNotice(event, body string) notice.Notice {
	return notice.Notice{
		ID: notice.ID("sim", event), Provider: "sim", Body: []byte(body),
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
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

func (w *world) keep(notices ...notice.Notice) int {
	w.Helper()
	fresh, err := w.Store(w.home).Keep(w.ctx, w.home, notices)
	require.NoError(w, err)
	return fresh
}

func (w *world) get(id string) notice.Notice {
	w.Helper()
	n, found, err := w.Store(w.home).Notice(w.ctx, w.home, id)
	require.NoError(w, err)
	require.True(w, found)
	return n
}

func (w *world) take() []outbox.Message {
	w.Helper()
	got, err := w.Queue(w.home).Take(w.ctx, w.home, 100, w.Lease)
	require.NoError(w, err)
	return got
}

// takeOne takes the only due row.
func (w *world) takeOne() outbox.Message {
	w.Helper()
	got := w.take()
	for deadline := time.Now().Add(patience); !w.Exact && len(got) == 0 && time.Now().Before(deadline); {
		w.Pass(w, time.Millisecond)
		got = w.take()
	}
	require.Len(w, got, 1)
	return got[0]
}

func (w *world) rows() int {
	w.Helper()
	d, err := w.Queue(w.home).Depth(w.ctx, w.home)
	require.NoError(w, err)
	return d.Pending + d.Parked
}

func (w *world) close(m outbox.Message, fence uint64, s notice.Status) error {
	return w.Store(w.home).Close(w.ctx, w.home, m.ID, fence, s, "because")
}

var tests = []struct {
	name string
	run  func(w *world)
}{
	{"keep: a notice with its row, due at once", func(w *world) {
		before := w.Now(w)
		want := newNotice("evt_1", "raw \xff\x00 body")
		require.Equal(w, 1, w.keep(want))
		got := w.get(want.ID)
		require.False(w, got.ReceivedAt.Before(before) || got.ReceivedAt.After(w.Now(w)), "received by the store's clock")
		require.True(w, got.ProcessedAt.IsZero())
		want.Region, want.Status, want.ReceivedAt, want.ProcessedAt = w.home, notice.Unprocessed, got.ReceivedAt, got.ProcessedAt
		require.Equal(w, want, got)

		m := w.takeOne()
		require.Equal(w, []any{want.ID, w.home, outbox.KindNotice, "sim", string(want.Body), want.TraceParent, uint64(1)},
			[]any{m.ID, m.Region, m.Kind, m.Operation, string(m.Payload), m.TraceParent, m.Fence})
		require.True(w, m.CreatedAt.Equal(got.ReceivedAt))
	}},
	{"keep: the row of a notice that has to wait is due after that", func(w *world) {
		const after = time.Second
		wait := newNotice("evt_1", "later")
		wait.After = after
		require.Equal(w, 2, w.keep(wait, newNotice("evt_2", "now")))
		require.Equal(w, notice.ID("sim", "evt_2"), w.takeOne().ID)
		kept := w.get(wait.ID)
		require.Zero(w, kept.After)
		for due := kept.ReceivedAt.Add(after); w.Now(w).Before(due); w.Pass(w, time.Millisecond) {
			if early := w.take(); len(early) > 0 {
				require.False(w, w.Now(w).Before(due), "a worker took it before it was due")
				return
			}
		}
		require.Equal(w, wait.ID, w.takeOne().ID)
	}},
	{"keep: once for each id, as it came first", func(w *world) {
		require.Equal(w, 1, w.keep(newNotice("evt_1", "first")))
		m := w.takeOne()
		require.Equal(w, 0, w.keep(newNotice("evt_1", "again")))
		require.Equal(w, "first", string(w.get(m.ID).Body))
		require.Empty(w, w.take(), "the row is its worker's")
		require.Equal(w, 1, w.rows())
		require.NoError(w, w.close(m, m.Fence, notice.ProcessedOK))
	}},
	{"keep: duplicates within one call count once", func(w *world) {
		require.Equal(w, 1, w.keep(newNotice("evt_0", "old")))
		require.Equal(w, 2, w.keep(newNotice("evt_1", "a"), newNotice("evt_0", "late"), newNotice("evt_2", "b"), newNotice("evt_1", "late"), newNotice("evt_1", "later")))
		for event, body := range map[string]string{"evt_0": "old", "evt_1": "a", "evt_2": "b"} {
			require.Equal(w, body, string(w.get(notice.ID("sim", event)).Body))
		}
		require.Equal(w, 3, w.rows())
		require.Equal(w, 0, w.keep())
	}},
	{"keep: an unstorable notice is refused, and its batch with it", func(w *world) {
		for _, spoil := range []func(n *notice.Notice){
			func(n *notice.Notice) { n.ID += "\xff" },
			func(n *notice.Notice) { n.Provider = "sim\xff" },
			func(n *notice.Notice) { n.TraceParent = "cut \xe2\x82" },
		} {
			bad := newNotice("evt_bad", "bad")
			spoil(&bad)
			_, err := w.Store(w.home).Keep(w.ctx, w.home, []notice.Notice{newNotice("evt_1", "a"), bad, newNotice("evt_2", "b")})
			require.ErrorIs(w, err, notice.ErrRefused)
			require.Zero(w, w.rows())
		}
		_, err := w.Store(w.home).Keep(w.ctx, "atlantis", []notice.Notice{newNotice("evt_1", "a")})
		require.Error(w, err)
		require.NotErrorIs(w, err, notice.ErrRefused, "that is not the notice's fault")
		require.Equal(w, 2, w.keep(newNotice("evt_1", "a"), newNotice("evt_2", "b")))
	}},
	{"keep: ids are separate for each region and provider", func(w *world) {
		require.Equal(w, 1, w.keep(newNotice("evt_1", "here")))
		fresh, err := w.Store(w.home).Keep(w.ctx, w.Regions[1], []notice.Notice{newNotice("evt_1", "there")})
		require.NoError(w, err)
		require.Equal(w, 1, fresh)
		other := newNotice("evt_1", "theirs")
		other.ID, other.Provider = notice.ID("bank", "evt_1"), "bank"
		require.Equal(w, 1, w.keep(other))
		require.Equal(w, "here", string(w.get(notice.ID("sim", "evt_1")).Body))
		require.Equal(w, 2, w.rows())
	}},
	{"keep: concurrent notices are each stored once", func(w *world) {
		const rounds, events, racers = 20, 10, 8
		for round := range rounds {
			var kept atomic.Int64
			var g errgroup.Group
			start := make(chan struct{})
			for i := range racers {
				var batch []notice.Notice
				for j := range events {
					// In another order on every side: no two may deadlock.
					n := (j*7 + i*3) % events
					batch = append(batch, newNotice(fmt.Sprintf("evt_%d_%d", round, n), "body"))
				}
				g.Go(func() error {
					<-start
					fresh, err := w.Store(w.Regions[i%2]).Keep(w.ctx, w.home, batch)
					kept.Add(int64(fresh))
					return err
				})
			}
			close(start)
			require.NoError(w, g.Wait())
			require.EqualValues(w, events, kept.Load())
			require.Equal(w, events*(round+1), w.rows())
		}
	}},
	{"close: it sets the status and removes the row", func(w *world) {
		for i, status := range []notice.Status{notice.ProcessedOK, notice.ProcessedCompensated, notice.Ignored} {
			n := newNotice(fmt.Sprint("evt_", i), "body")
			w.keep(n)
			m := w.takeOne()
			before := w.Now(w)
			require.NoError(w, w.close(m, m.Fence, status))
			got := w.get(n.ID)
			require.Equal(w, status, got.Status)
			require.Equal(w, "because", got.Detail)
			require.Equal(w, n.Body, got.Body)
			require.False(w, got.ProcessedAt.Before(before) || got.ProcessedAt.After(w.Now(w)))
			require.Zero(w, w.rows())
		}
	}},
	{"close: many together, each under its row's fence", func(w *world) {
		w.keep(newNotice("evt_1", "a"))
		w.takeOne()
		w.Pass(w, w.Lease)
		w.keep(newNotice("evt_2", "b"), newNotice("evt_3", "c"), newNotice("evt_4", "d"))
		fences := map[string]uint64{}
		for deadline := time.Now().Add(patience); len(fences) < 4 && time.Now().Before(deadline); {
			for _, m := range w.take() {
				fences[m.ID] = m.Fence
			}
			if len(fences) < 4 {
				w.Pass(w, time.Millisecond)
			}
		}
		hold := func(event string, fence uint64) outbox.Hold {
			return outbox.Hold{ID: notice.ID("sim", event), Fence: fence}
		}
		all := func(holds ...outbox.Hold) int {
			closed, err := w.Store(w.home).CloseAll(w.ctx, w.home, holds, notice.ProcessedOK, "known")
			require.NoError(w, err)
			return closed
		}
		require.Zero(w, all())
		require.EqualValues(w, 2, fences["sim:evt_1"])
		require.Equal(w, 2, all(hold("evt_3", fences["sim:evt_3"]), hold("evt_1", 1), hold("none", 1), hold("evt_2", fences["sim:evt_2"])))
		for event, status := range map[string]notice.Status{"evt_1": notice.Unprocessed, "evt_2": notice.ProcessedOK, "evt_3": notice.ProcessedOK, "evt_4": notice.Unprocessed} {
			got := w.get(notice.ID("sim", event))
			require.Equal(w, status, got.Status, event)
			require.Equal(w, status == notice.Unprocessed, got.ProcessedAt.IsZero(), event)
			require.NotEmpty(w, got.Body)
		}
		require.Equal(w, "known", w.get("sim:evt_2").Detail)
		require.Equal(w, 2, w.rows())
		require.NoError(w, w.Queue(w.home).Park(w.ctx, w.home, hold("evt_4", fences["sim:evt_4"]), "no"))
		require.Equal(w, 1, all(hold("evt_4", fences["sim:evt_4"]), hold("evt_1", 2), hold("evt_2", fences["sim:evt_2"])), "neither parked ones nor twice")
		require.Equal(w, 1, w.rows())
	}},
	{"close: only under the row's fence, and once", func(w *world) {
		w.keep(newNotice("evt_1", "body"))
		old := w.takeOne()
		w.Pass(w, w.Lease)
		m := w.takeOne()
		require.ErrorIs(w, w.close(m, old.Fence, notice.Ignored), outbox.ErrFenced)
		require.ErrorIs(w, w.close(m, m.Fence+1, notice.Ignored), outbox.ErrFenced)
		require.ErrorIs(w, w.close(outbox.Message{ID: "sim:none"}, 1, notice.Ignored), outbox.ErrFenced)
		require.Equal(w, notice.Unprocessed, w.get(m.ID).Status)
		require.Equal(w, 1, w.rows())
		require.NoError(w, w.close(m, m.Fence, notice.ProcessedOK))
		closed := w.get(m.ID)
		require.ErrorIs(w, w.close(m, m.Fence, notice.Ignored), outbox.ErrFenced)
		require.Equal(w, closed, w.get(m.ID))
	}},
	{"close: a parked notice is not closed", func(w *world) {
		w.keep(newNotice("evt_1", "body"))
		m := w.takeOne()
		require.NoError(w, w.Queue(w.home).Park(w.ctx, w.home, m.Hold(), "unknown charge"))
		require.ErrorIs(w, w.close(m, m.Fence, notice.Ignored), outbox.ErrFenced)
		require.Equal(w, notice.Unprocessed, w.get(m.ID).Status)
		ok, err := w.Queue(w.home).Unpark(w.ctx, w.home, m.ID)
		require.NoError(w, err)
		require.True(w, ok)
		m = w.takeOne()
		require.NoError(w, w.close(m, m.Fence, notice.ProcessedOK))
	}},
	{"close: a repeated notice stays closed", func(w *world) {
		w.keep(newNotice("evt_1", "body"))
		m := w.takeOne()
		require.NoError(w, w.close(m, m.Fence, notice.ProcessedCompensated))
		closed := w.get(m.ID)
		w.Pass(w, w.Lease)
		require.Equal(w, 0, w.keep(newNotice("evt_1", "body")))
		require.Equal(w, closed, w.get(m.ID))
		require.Zero(w, w.rows())
		require.Empty(w, w.take())
	}},
	{"notice: none", func(w *world) {
		w.keep(newNotice("evt_1", "body"))
		for _, at := range []struct{ region, id string }{{w.home, "sim:evt_2"}, {w.Regions[1], "sim:evt_1"}} {
			_, found, err := w.Store(w.home).Notice(w.ctx, at.region, at.id)
			require.NoError(w, err)
			require.False(w, found)
		}
	}},
}

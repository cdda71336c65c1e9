package noticetest

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

// refund books a refund at home and returns it with the transaction of its failure.
func (w *world) refund(id string) (of, failed ledger.Transaction) {
	w.Helper()
	of = ledger.Transaction{
		ID: id, Region: w.home, Tenant: "acme", Kind: ledger.Refund, Debit: ledger.Merchant("acme"), Credit: ledger.Provider("sim"),
		Amount: 100, Currency: "usd", Object: id, Reverses: "ch_1", Provider: "sim", ProviderRef: "psp_" + id,
	}
	posted, err := w.Books(w.home).Post(w.ctx, of)
	require.NoError(w, err)
	require.True(w, posted)
	return of, ledger.FailureOf(of)
}

func (w *world) eventsOf(id string, sinks ...string) (all []outbox.Message) {
	for _, sink := range sinks {
		all = append(all, outbox.Message{
			ID: "evt_" + id + "/" + sink, Region: w.home, Kind: outbox.Kind("event_" + sink), Tenant: "acme", Key: "key of " + id,
			Operation: "refund", Payload: []byte(`{"id":"evt_` + id + `"}`),
		})
	}
	return all
}

// events takes all events, of which there are n.
func (w *world) events(n int) (all []outbox.Message) {
	w.Helper()
	for deadline := time.Now().Add(patience); ; {
		before := len(all)
		got, err := w.Events(w.home).Take(w.ctx, w.home, 100, w.Lease)
		require.NoError(w, err)
		all = append(all, got...)
		if w.Exact || before >= n || !time.Now().Before(deadline) {
			require.Len(w, all, n)
			return all
		}
	}
}

// putBrake changes a row that no other process changes.
func (w *world) putBrake(b notice.Brake) {
	w.Helper()
	changed, err := w.Store(w.home).PutBrake(w.ctx, b)
	require.NoError(w, err)
	require.True(w, changed)
}

func (w *world) brakes() []notice.Brake {
	w.Helper()
	rows, now, err := w.Store(w.Regions[1]).Brakes(w.ctx)
	require.NoError(w, err)
	require.WithinDuration(w, w.Now(w), now, time.Minute)
	return rows
}

var moneyTests = []struct {
	name string
	run  func(w *world)
}{
	{"book: booked and emitted in one step, once", func(w *world) {
		of, failed := w.refund("re_1")
		posted, err := w.Store(w.home).Book(w.ctx, failed, w.eventsOf("re_1", "nats", "log"))
		require.NoError(w, err)
		require.True(w, posted)
		for range 2 {
			posted, err = w.Store(w.Regions[1]).Book(w.ctx, failed, w.eventsOf("re_1", "nats", "log"))
			require.NoError(w, err)
			require.False(w, posted, "a movement fails once")
		}
		got, found, err := w.Books(w.home).Transaction(w.ctx, w.home, ledger.FailureID(of.ID))
		require.NoError(w, err)
		require.True(w, found && got.Same(failed))
		var ids []string
		for _, m := range w.events(2) {
			ids = append(ids, m.ID)
			require.Equal(w, []any{w.home, "acme", "key of re_1", "refund", `{"id":"evt_re_1"}`}, []any{m.Region, m.Tenant, m.Key, m.Operation, string(m.Payload)})
			require.True(w, m.CreatedAt.Equal(got.At), "with the booking")
		}
		require.ElementsMatch(w, []string{"evt_re_1/nats", "evt_re_1/log"}, ids)
	}},
	{"book: another failure under the id is a conflict, and emits nothing", func(w *world) {
		_, failed := w.refund("re_1")
		_, err := w.Store(w.home).Book(w.ctx, failed, nil)
		require.NoError(w, err)
		other := failed
		other.Amount--
		_, err = w.Store(w.home).Book(w.ctx, other, w.eventsOf("re_1", "log"))
		require.ErrorIs(w, err, ledger.ErrConflict)
		w.events(0)
	}},
	{"book: concurrent bookings emit once", func(w *world) {
		_, failed := w.refund("re_1")
		var fresh atomic.Int64
		var g errgroup.Group
		start := make(chan struct{})
		for i := range 8 {
			g.Go(func() error {
				<-start
				posted, err := w.Store(w.Regions[i%2]).Book(w.ctx, failed, w.eventsOf("re_1", "log"))
				if posted {
					fresh.Add(1)
				}
				return err
			})
		}
		close(start)
		require.NoError(w, g.Wait())
		require.EqualValues(w, 1, fresh.Load())
		w.events(1)
	}},
	{"brakes: none initially, and each as it was written", func(w *world) {
		require.Empty(w, w.brakes())
		at := w.Now(w).UTC().Truncate(time.Microsecond)
		sim := notice.Brake{
			Provider: "sim", Held: &notice.Hold{At: at, Reason: "too many: é\n\"", Paged: true}, ReleasedAt: at.Add(-time.Hour),
			Doubt:    &notice.Hold{At: at, Reason: "no such movement"},
			Admitted: []notice.Admission{{ID: "ghostre_1", At: at, Amount: math.MaxInt64, Currency: "usd"}, {ID: "ghostre_2", At: at, Amount: 1, Currency: "jpy"}},
		}
		w.putBrake(sim)
		w.putBrake(notice.Brake{Provider: notice.AllProviders})
		sim.Version = 1
		require.Equal(w, []notice.Brake{{Provider: notice.AllProviders, Version: 1}, sim}, w.brakes())
		sim.Held, sim.Admitted = nil, nil
		w.putBrake(sim)
		sim.Version = 2
		require.Equal(w, sim, w.brakes()[1])
	}},
	{"brakes: changed by compare-and-set", func(w *world) {
		put := func(version uint64) bool {
			changed, err := w.Store(w.Regions[1]).PutBrake(w.ctx, notice.Brake{Provider: "sim", Version: version})
			require.NoError(w, err)
			return changed
		}
		require.False(w, put(1), "there is no row")
		require.True(w, put(0))
		require.False(w, put(0))
		require.False(w, put(2))
		require.True(w, put(1))
		require.False(w, put(1))
		require.EqualValues(w, 2, w.brakes()[0].Version)
	}},
	{"brakes: concurrent admissions of many regions are all counted", func(w *world) {
		const limit, racers = 5, 12
		var through atomic.Int64
		var g errgroup.Group
		start := make(chan struct{})
		for i := range racers {
			b := &notice.Brakes{Store: w.Store(w.Regions[i%2]), Limits: notice.Limits{Count: limit, Sum: math.MaxInt64}}
			g.Go(func() error {
				<-start
				reason, err := b.Admit(w.ctx, "sim", notice.Admission{ID: fmt.Sprint("ghostre_", i), Amount: 1, Currency: "usd"})
				if err == nil && reason == "" {
					through.Add(1)
				}
				return err
			})
		}
		close(start)
		require.NoError(w, g.Wait())
		require.EqualValues(w, limit, through.Load())
		require.NotNil(w, w.brakes()[0].Held)
	}},
}

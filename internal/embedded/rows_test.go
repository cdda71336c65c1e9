package embedded_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

// TestARestartChangesNothing runs the same steps in two stores, of which it kills and opens one
// before each step: both must answer alike, and have the same rows.
func TestARestartChangesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	clock := newClock()
	disk := vfs.NewCrashableMem()
	long := open(t, embedded.Config{Clock: clock.now})
	short := open(t, embedded.Config{Clock: clock.now, FS: disk})
	const home = "us-east1"
	type step func(v *embedded.View) (any, error)
	both := func(s step) any {
		require.NoError(t, short.Sync()) // some steps do not sync
		disk = disk.CrashClone(vfs.CrashCloneCfg{})
		short = open(t, embedded.Config{Clock: clock.now, FS: disk})
		want, wantErr := s(view(t, short, home))
		got, err := s(view(t, long, home))
		require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(err))
		require.Equal(t, want, got)
		return got
	}
	held := map[string]claim.Record{}
	keys := []string{"a", "b", "c", "d"}
	steps := 300
	if testing.Short() {
		steps = 80
	}
	for i := range steps {
		k := keys[random.IntN(len(keys))]
		rec := held[k]
		verdict := func(outcome string) claim.Verdict {
			v := crashVerdict(rec, outcome)
			switch o := v.Outcome.(type) { // more than any jitter
			case *claim.Released:
				o.Pause = time.Hour
			case *claim.Unknown:
				o.RetryIn = time.Hour
			}
			return v
		}
		switch n := random.IntN(14); n {
		case 0, 1, 2, 3:
			a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: k}, home, "100", "n1", fmt.Sprint("ch_", i))
			if got := both(func(v *embedded.View) (any, error) { return v.Begin(t.Context(), a) }).(claim.Begun); got.Record.State == claim.InFlight {
				held[k] = got.Record
			}
		case 4, 5, 6:
			v := verdict([]string{claim.OutcomeDone, claim.OutcomeReleased, claim.OutcomeUnknown}[n-4])
			both(func(s *embedded.View) (any, error) { return s.Settle(t.Context(), rec, v) })
		case 7:
			lease := claim.Lease{Key: rec.Key, Home: home, Fence: rec.Fence}
			if rec.Key.Value != "" {
				both(func(v *embedded.View) (any, error) { return v.Renew(t.Context(), "n1", []claim.Lease{lease}) })
			}
		case 8:
			both(func(v *embedded.View) (any, error) {
				return v.Queue(outbox.ProviderCalls).Take(t.Context(), home, 1, time.Second)
			})
		case 11, 12:
			both(func(v *embedded.View) (any, error) {
				q := v.Queue(outbox.Events)
				taken, err := q.Take(t.Context(), home, 2, time.Minute)
				for i, m := range taken {
					switch (n + i) % 3 {
					case 0:
						err = errors.Join(err, q.Finish(t.Context(), home, m.Hold()))
					case 1:
						err = errors.Join(err, q.Retry(t.Context(), home, m.Hold(), time.Hour, "no"))
					default:
						err = errors.Join(err, q.Park(t.Context(), home, m.Hold(), "no"))
					}
				}
				return taken, err
			})
		case 9:
			if rec.Key.Value != "" {
				both(func(v *embedded.View) (any, error) {
					return v.TakeOver(t.Context(), rec.Key, home, rec.Minted.ID, "n2", home, claim.News{})
				})
			}
		case 10:
			if rec.Key.Value != "" {
				both(func(v *embedded.View) (any, error) {
					return nil, v.Queue(outbox.ProviderCalls).Park(t.Context(), home, claimtest.Call(rec, uint64(rec.Generation-1)<<32+1), "no")
				})
			}
		default:
			clock.advance([]time.Duration{time.Second, time.Minute, 20 * time.Hour}[random.IntN(3)])
		}
	}
	for _, k := range keys {
		both(func(v *embedded.View) (any, error) {
			return v.Timeline(t.Context(), claim.Key{Tenant: "acme", Value: k}, home, 30)
		})
	}
	want, err := short.Dump()
	require.NoError(t, err)
	got, err := long.Dump()
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestTheSizeOfACharge bounds the bytes that each charge adds to the log and its rows in the tables.
func TestTheSizeOfACharge(t *testing.T) {
	db := open(t, embedded.Config{})
	v := view(t, db, "us-east1")
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: "us-east1"}))
	const many = 100
	rows := func() int {
		all, err := db.Dump()
		require.NoError(t, err)
		return len(all)
	}
	stored, written := rows(), db.Written()
	for _, a := range opaque(many) {
		charge(t, v, a, make([]byte, 600), 0)
	}
	require.LessOrEqual(t, (db.Written()-written)/many, uint64(2400))
	require.Equal(t, 7*many, rows()-stored, "pin, claim, object, transaction, its time, its place in the merchant's list and its incoming payment")
	audit, err := db.Rows('a')
	require.NoError(t, err)
	require.Equal(t, 3*many, audit)
}

// TestBookedMeanwhile books under the id of a claim in flight: the claim's settlement must fail.
func TestBookedMeanwhile(t *testing.T) {
	db := open(t, embedded.Config{})
	v := view(t, db, "us-east1")
	for i, booked := range []bool{false, true} {
		begun, err := v.Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: fmt.Sprint("k", i)}, "us-east1", "100", "n1", fmt.Sprint("ch_", i)))
		require.NoError(t, err)
		verdict := crashVerdict(begun.Record, claim.OutcomeDone)
		if booked {
			other := *verdict.Outcome.(*claim.Done).Posting
			other.Region, other.ProviderRef = "us-east1", "psp_other"
			posted, err := v.Post(t.Context(), other)
			require.NoError(t, err)
			require.True(t, posted)
		}
		_, err = v.Settle(t.Context(), begun.Record, verdict)
		if booked {
			require.ErrorIs(t, err, ledger.ErrConflict)
		} else {
			require.NoError(t, err)
		}
	}
}

// TestEachRowIsTakenOnce takes rows of a long queue, the oldest first, while others arrive and are
// postponed.
func TestEachRowIsTakenOnce(t *testing.T) {
	const home, many = "us-east1", 2_000
	clock := newClock()
	db := open(t, embedded.Config{Clock: clock.now})
	v := view(t, db, home)
	q := v.Queue(outbox.Notices)
	n := 0
	keep := func(some int) {
		var batch []notice.Notice
		for range some {
			batch = append(batch, notice.Notice{ID: fmt.Sprintf("%06d", n), Provider: "sim", Body: []byte("x")})
			n++
		}
		_, err := v.Keep(t.Context(), home, batch)
		require.NoError(t, err)
		clock.advance(time.Millisecond)
	}
	var got, want []string
	finished := 0
	take := func(limit int) int {
		taken, err := q.Take(t.Context(), home, limit, time.Hour)
		require.NoError(t, err)
		for i, m := range taken {
			got = append(got, m.ID)
			if i%3 == 0 {
				finished++
				require.NoError(t, q.Finish(t.Context(), home, m.Hold()))
			}
		}
		return len(taken)
	}
	take(1)
	for range many / 100 {
		keep(100)
		take(20)
	}
	for take(700) > 0 {
	}
	for i := range n {
		want = append(want, fmt.Sprintf("%06d", i))
	}
	require.Equal(t, want, got)
	clock.advance(2 * time.Hour)
	got = nil
	unfinished := n - finished
	for take(5000) > 0 {
	}
	require.Len(t, got, unfinished, "the unfinished rows were due again")
	d, err := q.Depth(t.Context(), home)
	require.NoError(t, err)
	require.Equal(t, n-finished, d.Pending)
}

// TestEachCallIsTakenOnce takes provider calls, the oldest first, while claims begin and end.
func TestEachCallIsTakenOnce(t *testing.T) {
	const home, many = "us-east1", 2_000
	clock := newClock()
	db := open(t, embedded.Config{Clock: clock.now, FS: vfs.NewMem()})
	v := view(t, db, home)
	n := 0
	begin := func() claim.Record {
		a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: fmt.Sprint("k", n)}, home, "100", "n1", fmt.Sprintf("ch_%x_%d", n*7919%many, n)) // in no order
		n++
		clock.advance(time.Microsecond)
		got, err := v.Begin(t.Context(), a)
		require.NoError(t, err)
		return got.Record
	}
	var want, got []string
	for range many {
		want = append(want, begin().Minted.ID)
	}
	look := func() {
		next, err := v.NextDue(t.Context(), home)
		require.NoError(t, err)
		require.Contains(t, next, outbox.ProviderCalls)
	}
	look()
	clock.advance(time.Hour)
	for {
		taken, err := v.Queue(outbox.ProviderCalls).Take(t.Context(), home, 300, 24*time.Hour)
		require.NoError(t, err)
		for i, m := range taken {
			got = append(got, m.ID)
			if i%100 == 0 {
				require.NoError(t, v.Queue(outbox.ProviderCalls).Park(t.Context(), home, m.Hold(), "no"))
			}
		}
		if len(taken) == 0 {
			break
		}
		for range 20 { // they fall due after the rows that are taken here, and before their leases end
			rec := begin()
			_, err := v.Settle(t.Context(), rec, crashVerdict(rec, claim.OutcomeReleased))
			require.NoError(t, err)
		}
	}
	require.Equal(t, want, got)
	look()
	d, err := v.Queue(outbox.ProviderCalls).Depth(t.Context(), home)
	require.NoError(t, err)
	require.Zero(t, d.Due)
	require.Equal(t, many, d.Pending+d.Parked)
	var open []string
	for after := ""; len(open)%300 == 0; after = open[len(open)-1] { // held and parked, by id
		calls, err := v.Calls(t.Context(), home, after, 300)
		require.NoError(t, err)
		for _, c := range calls {
			open = append(open, c.ID)
		}
	}
	slices.Sort(want)
	require.Equal(t, want, open)
}

// TestClaimsWhileCallsAreTaken begins, settles and postpones claims while it takes their provider
// calls. Each object is found from its Begin on, with any outcome.
func TestClaimsWhileCallsAreTaken(t *testing.T) {
	const home = "us-east1"
	clock := newClock()
	db := open(t, embedded.Config{Clock: clock.now, FS: vfs.NewMem()})
	v := view(t, db, home)
	outcomes := []string{claim.OutcomeDone, claim.OutcomeReleased, claim.OutcomeUnknown, claim.OutcomeRefused}
	begun, stop := make(chan claim.Record, 64), make(chan struct{})
	var writers, readers sync.WaitGroup
	for g := range 4 {
		writers.Go(func() {
			for i := range 400 {
				a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: fmt.Sprint(g, "-", i)}, home, "100", "n1", fmt.Sprintf("ch_%d_%d", g, i))
				got, err := v.Begin(t.Context(), a)
				if err != nil || got.Decision != claim.Won {
					t.Error(got.Decision, err)
					return
				}
				begun <- got.Record
				if i%5 == 4 {
					continue // it stays in flight
				}
				if _, err := v.Settle(t.Context(), got.Record, crashVerdict(got.Record, outcomes[i%5])); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Go(func() {
		for rec := range begun {
			for range 20 {
				if _, _, found, err := v.Object(t.Context(), "acme", home, rec.Minted.ID); err != nil || !found {
					t.Errorf("%s: found %v: %v", rec.Minted.ID, found, err)
				}
			}
		}
	})
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			clock.advance(time.Minute)
			if _, err := v.Queue(outbox.ProviderCalls).Take(t.Context(), home, 3, time.Hour); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Wait()
	close(begun)
	close(stop)
	readers.Wait()
	d, err := v.Queue(outbox.ProviderCalls).Depth(t.Context(), home)
	require.NoError(t, err)
	require.Equal(t, 4*160, d.Pending, "in flight, or postponed")
}

// A lock shows what was committed before it was taken, whatever the call has read by then.
func TestReadsAreNoOlderThanTheirLock(t *testing.T) {
	v := view(t, open(t, embedded.Config{}), "us-east1")
	for _, held := range []bool{true, false} {
		b := ledger.Transaction{
			ID: fmt.Sprintf("ch_%v", held), Region: "us-east1", Tenant: "acme", Kind: ledger.Charge, Object: fmt.Sprintf("ch_%v", held),
			Debit: ledger.Provider("psp"), Credit: ledger.Merchant("acme"), Amount: 1, Currency: "eur", Provider: "psp", ProviderRef: fmt.Sprintf("px_%v", held),
		}
		before, after, err := v.Reread("us-east1", b.ID, held, func() {
			_, err := v.Post(t.Context(), b)
			require.NoError(t, err)
		})
		require.NoError(t, err)
		require.False(t, before)
		require.True(t, after, "held: %v", held)
	}
}

package embedded_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
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

// TestMemoryIsWhatTheRowsSay makes the same steps in two stores, one of which is killed
// and opened again before each: both must answer alike, and hold the same rows.
func TestMemoryIsWhatTheRowsSay(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	clock := newClock()
	disk := vfs.NewCrashableMem()
	long := open(t, embedded.Config{Clock: clock.now})
	short := open(t, embedded.Config{Clock: clock.now, FS: disk})
	const home = "us-east1"
	most, remembered := 0, 0
	type step func(v *embedded.View) (any, error)
	both := func(s step) any {
		require.NoError(t, short.Sync()) // not every step is
		disk = disk.CrashClone(vfs.CrashCloneCfg{})
		short = open(t, embedded.Config{Clock: clock.now, FS: disk})
		want, wantErr := s(view(t, short, home))
		got, err := s(view(t, long, home))
		require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(err))
		require.Equal(t, want, got)
		held, err := long.Flights()
		require.NoError(t, err)
		final, err := long.Answers()
		require.NoError(t, err)
		most, remembered = max(most, held), max(remembered, final)
		require.NoError(t, long.Remembered())
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
						err = errors.Join(err, q.Finish(t.Context(), home, m.ID, m.Fence))
					case 1:
						err = errors.Join(err, q.Retry(t.Context(), home, m.ID, m.Fence, time.Hour, "no"))
					default:
						err = errors.Join(err, q.Park(t.Context(), home, m.ID, m.Fence, "no"))
					}
				}
				return taken, err
			})
		case 9:
			if rec.Key.Value != "" {
				both(func(v *embedded.View) (any, error) {
					return v.TakeOver(t.Context(), rec.Key, home, rec.Minted.ID, "n2", home)
				})
			}
		case 10:
			if rec.Key.Value != "" {
				both(func(v *embedded.View) (any, error) {
					return nil, v.Queue(outbox.ProviderCalls).Park(t.Context(), home, rec.Minted.ID, uint64(rec.Generation-1)<<32+1, "no")
				})
			}
		default:
			clock.advance([]time.Duration{time.Second, time.Minute, 20 * time.Hour}[random.IntN(3)])
		}
	}
	require.Positive(t, most, "memory was used")
	require.Positive(t, remembered, "memory was used")
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

// TestAnswersAreRemembered for as long as their key is taken, the long ones never.
func TestAnswersAreRemembered(t *testing.T) {
	clock := newClock()
	db := open(t, embedded.Config{Clock: clock.now})
	v := view(t, db, "us-east1")
	answers := func(want int) {
		t.Helper()
		got, err := db.Answers()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	settle := func(a claim.Arrival, bytes int) {
		t.Helper()
		got, err := v.Begin(t.Context(), a)
		require.NoError(t, err)
		require.Equal(t, claim.Won, got.Decision)
		_, err = v.Settle(t.Context(), got.Record, claim.Verdict{Outcome: &claim.Done{
			Response: claim.Response{Status: 201, Body: make([]byte, bytes)},
		}})
		require.NoError(t, err)
	}
	a, long := arrive("k", "us-east1"), arrive("long", "us-east1")
	settle(a, 600)
	settle(long, 64<<10)
	answers(1)
	other := arrive("k", "us-east1")
	other.Print.Sum[0]++
	for _, c := range []struct {
		of   claim.Arrival
		want claim.Decision
	}{{a, claim.Replay}, {other, claim.Mismatch}, {long, claim.Replay}} {
		got, err := v.Begin(t.Context(), c.of)
		require.NoError(t, err)
		require.Equal(t, c.want, got.Decision)
	}
	clock.advance(25 * time.Hour)
	got, err := v.Begin(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, claim.TombStone, got.Decision)
	clock.advance(25 * time.Hour)
	got, err = v.Begin(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, claim.Won, got.Decision, "the key is free again")
	answers(0)
	require.NoError(t, db.Close())
	_, err = v.Begin(t.Context(), a)
	require.ErrorIs(t, err, claim.ErrUnavailable)
}

// TestManyAnswersAreRemembered, and not only those whose hashes are alone.
func TestManyAnswersAreRemembered(t *testing.T) {
	db := open(t, embedded.Config{})
	v := view(t, db, "us-east1")
	const many = 1000
	for i := range many {
		got, err := v.Begin(t.Context(), arrive(fmt.Sprint("k", i), "us-east1"))
		require.NoError(t, err)
		_, err = v.Settle(t.Context(), got.Record, claim.Verdict{Outcome: &claim.Done{Response: claim.Response{Status: 201, Body: []byte("{}")}}})
		require.NoError(t, err)
	}
	got, err := db.Answers()
	require.NoError(t, err)
	require.Greater(t, got, many*9/10, "the seed of the hash is random; some 970 are usual")
	require.LessOrEqual(t, got, many)
}

// TestMemoryIsOfOneTenant: what is remembered of a key answers for it under no other tenant.
// So many tenants use the key that each place in memory has been one's.
func TestMemoryIsOfOneTenant(t *testing.T) {
	db := open(t, embedded.Config{FS: vfs.NewMem()})
	v := view(t, db, "us-east1")
	begin := func(n int) claim.Record {
		key := claim.Key{Tenant: fmt.Sprint("tenant-", n), Value: "k"}
		got, err := v.Begin(t.Context(), claimtest.NewArrival(key, "us-east1", "100", "n1", fmt.Sprint("ch_", n)))
		require.NoError(t, err)
		require.Equal(t, claim.Won, got.Decision)
		return got.Record
	}
	const many = 2000
	var held []claim.Record
	for n := range many {
		held = append(held, begin(n))
	}
	for _, rec := range held {
		got, err := v.Settle(t.Context(), rec, claim.Verdict{Outcome: &claim.Done{
			Response: claim.Response{Status: 201, Body: []byte(rec.Minted.ID)},
		}})
		require.NoError(t, err)
		require.Equal(t, rec.Minted, got.Minted)
	}
	for n := range 100 {
		begin(many + n)
	}
}

// TestWhatAReplayCosts: nothing but time if its claim was settled lately, else one read,
// and two copies: of the row for its strings, and of the body.
func TestWhatAReplayCosts(t *testing.T) {
	disk := vfs.NewMem()
	db := open(t, embedded.Config{FS: disk})
	a := arrive("k", "us-east1")
	got, err := view(t, db, "us-east1").Begin(t.Context(), a)
	require.NoError(t, err)
	verdict := claim.Verdict{Outcome: &claim.Done{Response: claim.Response{
		Status: 201, Body: make([]byte, 600),
		Header: []claim.HeaderField{{Name: "Content-Type", Value: "application/json"}, {Name: "Location", Value: "/v1/charges/ch_1"}},
	}}}
	_, err = view(t, db, "us-east1").Settle(t.Context(), got.Record, verdict)
	require.NoError(t, err)
	allocs := func(db *embedded.DB) float64 {
		v := view(t, db, "us-east1")
		return testing.AllocsPerRun(1000, func() {
			if got, err := v.Begin(t.Context(), a); err != nil || got.Decision != claim.Replay {
				t.Fatal(got.Decision, err)
			}
		})
	}
	require.Zero(t, allocs(db))
	require.NoError(t, db.Close())
	again := allocs(open(t, embedded.Config{FS: disk}))
	t.Logf("read from its row it makes %v allocations", again)
	if !detecting { // it makes pools drop values
		require.LessOrEqual(t, again, 4.0)
	}
}

// detecting: the race detector is at work.
var detecting bool

// TestWhatAChargeCosts bounds what does not depend on the machine: allocations, the
// test's own among them, bytes in the log, and rows that stay.
func TestWhatAChargeCosts(t *testing.T) {
	db := open(t, embedded.Config{})
	v := view(t, db, "us-east1")
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: "us-east1"}))
	const many = 300
	body, arrivals := make([]byte, 600), opaque(2*many)
	rows := func() int {
		all, err := db.Dump()
		require.NoError(t, err)
		return len(all)
	}
	stored, written, i := rows(), db.Written(), 0
	allocs := testing.AllocsPerRun(many, func() {
		charge(t, v, arrivals[i], body, 0)
		i++
	})
	if !detecting {
		require.LessOrEqual(t, allocs, 35.0)
	}
	require.LessOrEqual(t, (db.Written()-written)/uint64(i), uint64(2200))
	require.Equal(t, 5*i, rows()-stored)
	audit, err := db.Rows('a')
	require.NoError(t, err)
	require.Zero(t, audit)
}

// TestBookedMeanwhile books under the id of a claim in flight: its settlement must see
// that, although it does not look for an older booking.
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

// TestDueWindow takes from a queue that is longer than what memory keeps of it, while
// rows come and are put off: each is taken once, the oldest first.
func TestDueWindow(t *testing.T) {
	const home, many = "us-east1", 5*embedded.DueWindow + 7
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
				require.NoError(t, q.Finish(t.Context(), home, m.ID, m.Fence))
			}
		}
		return len(taken)
	}
	take(1)
	for range many / 100 {
		keep(100)
		take(20)
		require.NoError(t, db.Remembered())
	}
	for take(700) > 0 {
		require.NoError(t, db.Remembered())
	}
	for i := range n {
		want = append(want, fmt.Sprintf("%06d", i))
	}
	require.Equal(t, want, got)
	clock.advance(2 * time.Hour)
	got = nil
	left := n - finished
	for take(5000) > 0 {
		require.NoError(t, db.Remembered())
	}
	require.Len(t, got, left, "what was not finished was due again")
	d, err := q.Depth(t.Context(), home)
	require.NoError(t, err)
	require.Equal(t, n-finished, d.Pending)
}

// TestLookUps writes, deletes and flushes, from several goroutines, and looks for rows
// meanwhile: what memory says of where they are must not hide one, nor show one that is
// gone.
func TestLookUps(t *testing.T) {
	fs := vfs.NewMem()
	for range 3 { // what is written before is in the log, and without a mark
		db := open(t, embedded.Config{FS: fs})
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(g), 3))
				there := map[string]bool{}
				for range 3000 {
					object := fmt.Sprintf("%d-%d", g, random.IntN(500))
					switch n := random.IntN(1000); {
					case n == 0 && g == 0:
						if err := db.Flush(); err != nil {
							t.Error(err)
						}
					case n < 400:
						there[object] = n < 250
						if err := db.PutUnpaid(object, there[object]); err != nil {
							t.Error(err)
						}
					default:
						found, really, err := db.FindUnpaid(object)
						want, known := there[object]
						if err != nil || found != really || known && found != want {
							t.Errorf("%s: found %v, is there %v, was written %v %v: %v", object, found, really, known, want, err)
						}
					}
				}
			})
		}
		all.Wait()
		require.NoError(t, db.Close())
	}
}

// TestALargeBatchIsRemembered: Pebble takes a large batch's bytes for itself, and memory
// must hear of its rows all the same. A repeated notice that is not found would be acted
// on twice.
func TestALargeBatchIsRemembered(t *testing.T) {
	db := open(t, embedded.Config{FS: vfs.NewMem()})
	v, home := view(t, db, "us-east1"), "us-east1"
	one := notice.Notice{ID: "first", Provider: "sim", Body: []byte("{}")}
	_, err := v.Keep(t.Context(), home, []notice.Notice{one})
	require.NoError(t, err)
	require.NoError(t, db.Flush()) // look-ups go by memory from here on, and so do takes:
	taken, err := v.Queue(outbox.Notices).Take(t.Context(), home, 100, time.Hour)
	require.NoError(t, err)
	require.Len(t, taken, 1)
	var many []notice.Notice
	for i := range 48 {
		many = append(many, notice.Notice{ID: fmt.Sprint("n", i), Provider: "sim", Body: make([]byte, 256<<10)})
	}
	_, err = v.Keep(t.Context(), home, many)
	require.NoError(t, err)
	require.NoError(t, db.Remembered())
	taken, err = v.Queue(outbox.Notices).Take(t.Context(), home, 100, time.Hour)
	require.NoError(t, err)
	require.Len(t, taken, len(many))
	_, err = v.Keep(t.Context(), home, many)
	require.NoError(t, err)
	again, err := v.Queue(outbox.Notices).Take(t.Context(), home, 100, time.Hour)
	require.NoError(t, err)
	require.Empty(t, again, "they are kept already, and held")
}

// TestCallsWindow has more claims in flight than memory keeps of their provider calls,
// while claims come and go: each is taken once, the oldest first.
func TestCallsWindow(t *testing.T) {
	const home, many = "us-east1", embedded.CallsKept + 3000
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
		require.NoError(t, db.Remembered())
	}
	look() // reads them
	clock.advance(time.Hour)
	for {
		taken, err := v.Queue(outbox.ProviderCalls).Take(t.Context(), home, 5000, 24*time.Hour)
		require.NoError(t, err)
		for i, m := range taken {
			got = append(got, m.ID)
			if i%100 == 0 {
				require.NoError(t, v.Queue(outbox.ProviderCalls).Park(t.Context(), home, m.ID, m.Fence, "no"))
			}
		}
		if len(taken) == 0 {
			break
		}
		for range 200 { // they are due after what is taken here, and before its leases end
			rec := begin()
			_, err := v.Settle(t.Context(), rec, crashVerdict(rec, claim.OutcomeReleased))
			require.NoError(t, err)
		}
		require.NoError(t, db.Remembered())
	}
	require.Equal(t, want, got)
	look()
	d, err := v.Queue(outbox.ProviderCalls).Depth(t.Context(), home)
	require.NoError(t, err)
	require.Zero(t, d.Due)
	require.Equal(t, many, d.Pending+d.Parked)
}

// TestReadingCalls has claims begun, settled, put off and taken while memory reads their
// provider calls anew, again and again: at the end it has what the rows say. An object is
// found from its Begin on, whatever becomes of it.
func TestReadingCalls(t *testing.T) {
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
			clock.advance(time.Minute) // after which all is read again
			if _, err := v.Queue(outbox.ProviderCalls).Take(t.Context(), home, 3, time.Hour); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Wait()
	close(begun)
	close(stop)
	readers.Wait()
	require.NoError(t, db.Remembered())
	d, err := v.Queue(outbox.ProviderCalls).Depth(t.Context(), home)
	require.NoError(t, err)
	require.Equal(t, 4*160, d.Pending, "in flight, or put off")
}

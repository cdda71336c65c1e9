package embedded_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/notice"
)

// crashes is how many ways of losing unsynced data each write path survives.
const crashes = 8

var crashKey = claim.Key{Tenant: "acme", Value: "order-1"}

// TestCrash cuts the power right after each write path has answered, in many ways, and checks that
// all of what was acknowledged is there.
func TestCrash(t *testing.T) {
	arrival := func() claim.Arrival {
		return claimtest.NewArrival(crashKey, "us-east1", "100", "n1", "ch_1")
	}
	for _, tc := range []struct {
		name string
		// do ends with the step under test; check sees the store after the crash.
		do    func(w *crashWorld) claim.Record
		check func(w *crashWorld)
	}{
		{name: "begin", do: func(w *crashWorld) claim.Record { return w.begin(arrival()) }},
		{name: "settle", do: func(w *crashWorld) claim.Record { return w.settle(w.begin(arrival()), claim.OutcomeDone) }},
		{name: "release", do: func(w *crashWorld) claim.Record { return w.settle(w.begin(arrival()), claim.OutcomeReleased) }},
		{name: "close", do: func(w *crashWorld) claim.Record {
			return w.settle(w.settle(w.begin(arrival()), claim.OutcomeReleased), claim.OutcomeRefused)
		}},
		{name: "reclaim", do: func(w *crashWorld) claim.Record {
			w.settle(w.begin(arrival()), claim.OutcomeReleased)
			w.clock.advance(2 * time.Second)
			return w.begin(arrival())
		}},
		{name: "defer", do: func(w *crashWorld) claim.Record { return w.settle(w.begin(arrival()), claim.OutcomeUnknown) }},
		{name: "take over", do: func(w *crashWorld) claim.Record {
			old := w.begin(arrival())
			w.clock.advance(time.Minute)
			rec, err := w.home.TakeOver(w.ctx, crashKey, "us-east1", old.Minted.ID, "n2", "us-east1", claim.News{})
			require.NoError(w.t, err)
			return rec
		}},
		{name: "replace", do: func(w *crashWorld) claim.Record {
			w.settle(w.begin(arrival()), claim.OutcomeDone)
			w.clock.advance(49 * time.Hour)
			a := arrival()
			a.Mint.ID = "ch_2"
			return w.begin(a)
		}},
		{name: "renew", do: func(w *crashWorld) claim.Record {
			rec := w.begin(arrival())
			w.clock.advance(10 * time.Second)
			held, err := w.home.Renew(w.ctx, "n1", []claim.Lease{{Key: crashKey, Home: "us-east1", Fence: rec.Fence}})
			require.NoError(w.t, err)
			require.Equal(w.t, []bool{true}, held)
			rec, _, _, err = w.home.Get(w.ctx, crashKey, "us-east1")
			require.NoError(w.t, err)
			return rec
		}},
		{
			name: "take a row",
			do: func(w *crashWorld) claim.Record {
				rec := w.begin(arrival())
				w.clock.advance(time.Minute)
				taken, err := w.home.Queue(outbox.ProviderCalls).Take(w.ctx, "us-east1", 10, time.Hour)
				require.NoError(w.t, err)
				require.Len(w.t, taken, 1)
				return rec
			},
			check: func(w *crashWorld) {
				taken, err := w.home.Queue(outbox.ProviderCalls).Take(w.ctx, "us-east1", 10, time.Hour)
				require.NoError(w.t, err)
				require.Empty(w.t, taken, "the worker's lease holds")
			},
		},
		{
			name: "park a row",
			do: func(w *crashWorld) claim.Record {
				rec := w.begin(arrival())
				w.clock.advance(time.Minute)
				w.park()
				return rec
			},
			check: func(w *crashWorld) {
				ok, err := w.home.Queue(outbox.ProviderCalls).Unpark(w.ctx, "us-east1", "ch_1")
				require.NoError(w.t, err)
				require.True(w.t, ok)
			},
		},
		{
			name: "unpark a row",
			do: func(w *crashWorld) claim.Record {
				rec := w.begin(arrival())
				w.clock.advance(time.Minute)
				ok, err := w.home.Queue(outbox.ProviderCalls).Unpark(w.ctx, "us-east1", w.park())
				require.NoError(w.t, err)
				require.True(w.t, ok)
				return rec
			},
			check: func(w *crashWorld) {
				d, err := w.home.Queue(outbox.ProviderCalls).Depth(w.ctx, "us-east1")
				require.NoError(w.t, err)
				require.Equal(w.t, 1, d.Due)
			},
		},
		{
			name: "move a registrar",
			do: func(w *crashWorld) claim.Record {
				rec := w.begin(arrival())
				require.NoError(w.t, w.db.MoveRegistrar(w.ctx, "acme", "asia-northeast1"))
				return rec
			},
			check: func(w *crashWorld) {
				tenant, found, err := w.db.TenantByAPIKey(w.ctx, claim.HashAPIKey("sk_acme"))
				require.NoError(w.t, err)
				require.True(w.t, found)
				require.Equal(w.t, []string{"asia-northeast1", "us-east1"}, []string{tenant.Registrar, tenant.PreviousRegistrar})
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := newCrashWorld(t)
			want := tc.do(before)
			start := before.clock.now()
			for seed := range uint64(crashes) {
				before.clock.set(start)
				after := before.crash(seed)
				if tc.check != nil {
					tc.check(after)
				}
				got, found := after.consistent()
				require.True(t, found, "acknowledged is durable")
				require.Equal(t, want, got)
			}
		})
	}
}

// TestCrashAnywhere cuts the power while writes are under way, and checks every key: what was
// acknowledged is there, what was not is whole or absent, and no claim is there without its pin.
func TestCrashAnywhere(t *testing.T) {
	w := newCrashWorld(t)
	const keys = 120
	acked := make(chan string, keys)
	go func() {
		defer close(acked)
		for i := range keys {
			key := claim.Key{Tenant: "acme", Value: fmt.Sprint("k", i)}
			a := claimtest.NewArrival(key, "us-east1", "100", "n", fmt.Sprint("ch_", i))
			a.Stamped, a.PinHere = false, i%3 > 0 // in the batch of the claim, or before it
			if !a.PinHere {
				pin, err := w.home.Pin(w.ctx, key, "us-east1")
				if err != nil {
					return
				}
				a.PinnedAt = pin.CreatedAt
			}
			got, err := w.home.Begin(w.ctx, a)
			if err != nil {
				return
			}
			acked <- key.Value
			if i%2 == 0 {
				if _, err := w.home.Settle(w.ctx, got.Record, crashVerdict(got.Record, claim.OutcomeDone)); err != nil {
					return
				}
			}
		}
	}()
	durable := map[string]bool{}
	for key := range acked {
		durable[key] = true
		if len(durable)%40 != 0 {
			continue
		}
		for seed := range uint64(crashes) {
			checkAnywhere(t, w, seed, durable, keys)
		}
	}
	require.Len(t, durable, keys)
	for seed := range uint64(crashes) {
		checkAnywhere(t, w, seed, durable, keys)
	}
}

func checkAnywhere(t *testing.T, w *crashWorld, seed uint64, durable map[string]bool, keys int) {
	after := w.crash(seed)
	defer func() { require.NoError(t, after.db.Close()) }()
	owed, paid := 0, 0
	for i := range keys {
		key := claim.Key{Tenant: "acme", Value: fmt.Sprint("k", i)}
		rec, _, found, err := after.home.Get(w.ctx, key, "us-east1")
		require.NoError(t, err)
		if durable[key.Value] {
			require.True(t, found, "%s was acknowledged", key.Value)
		}
		line, err := after.home.Timeline(w.ctx, key, "us-east1", 10)
		require.NoError(t, err)
		if !found {
			require.Empty(t, line)
			continue
		}
		byID, _, found, err := after.home.Object(w.ctx, "acme", "us-east1", rec.Minted.ID)
		require.NoError(t, err)
		require.True(t, found, "%s: the index of its object is missing", key.Value)
		require.Equal(t, rec, byID)
		_, booked, err := after.home.Transaction(w.ctx, "us-east1", rec.Minted.ID)
		require.NoError(t, err)
		require.Equal(t, rec.State == claim.Completed, booked, "%s: a final claim is booked, and no other", key.Value)
		for _, e := range claimtest.Events(rec, 2) {
			_, emitted, err := after.home.Queue(outbox.Events).Message(w.ctx, "us-east1", e.ID+"-done")
			require.NoError(t, err)
			require.Equal(t, booked, emitted, "%s: it has its booking without its events, or they without it", key.Value)
		}
		if rec.State == claim.InFlight {
			owed++
			require.Len(t, line, 1)
		} else {
			paid++
			require.Equal(t, claim.Completed, rec.State)
			require.Len(t, line, 3)
		}
		// Had the pin been lost, this would make a new one, for Europe.
		pin, err := after.home.Pin(w.ctx, key, "europe-west1")
		require.NoError(t, err)
		require.Equal(t, "us-east1", pin.Home, "the pin is older than its claim in the log")
	}
	d, err := after.home.Queue(outbox.ProviderCalls).Depth(w.ctx, "us-east1")
	require.NoError(t, err)
	require.Equal(t, outbox.Depth{Pending: owed, Due: d.Due, OldestDue: d.OldestDue}, d)
	require.Len(t, after.books(), paid)
	events := after.rows(outbox.Events)
	require.Equal(t, []int{2 * paid, paid}, []int{events.Pending, events.Due}, "one of each line can be taken")
}

// TestCrashBeyondClaims is TestCrash for steps without a claim: all of each acknowledged step is
// there.
func TestCrashBeyondClaims(t *testing.T) {
	const notices = outbox.Notices
	take := func(w *crashWorld, q outbox.Queue) outbox.Message {
		taken, err := w.home.Queue(q).Take(w.ctx, "us-east1", 1, time.Hour)
		require.NoError(w.t, err)
		require.Len(w.t, taken, 1)
		return taken[0]
	}
	keep := func(w *crashWorld, events ...string) {
		var batch []notice.Notice
		for _, e := range events {
			batch = append(batch, notice.Notice{ID: notice.ID("sim", e), Provider: "sim", Body: []byte(e)})
		}
		fresh, err := w.home.Keep(w.ctx, "us-east1", batch)
		require.NoError(w.t, err)
		require.Equal(w.t, len(events), fresh)
	}
	status := func(w *crashWorld, event string) notice.Status {
		n, found, err := w.home.Notice(w.ctx, "us-east1", notice.ID("sim", event))
		require.NoError(w.t, err)
		require.True(w.t, found)
		return n.Status
	}
	emit := func(w *crashWorld, n int) {
		t := ghost()
		t.ID, t.ProviderRef = fmt.Sprint(t.ID, n), fmt.Sprint(t.ProviderRef, n)
		posted, err := w.home.Book(w.ctx, t, []outbox.Message{{
			ID: fmt.Sprint("evt_", n), Region: "us-east1", Kind: outbox.KindLog, Tenant: "acme", Key: crashKey.Value,
		}})
		require.NoError(w.t, err)
		require.True(w.t, posted)
	}
	for _, tc := range []struct {
		name      string
		do, check func(w *crashWorld)
	}{
		{
			name: "post",
			do: func(w *crashWorld) {
				posted, err := w.home.Post(w.ctx, ghost())
				require.NoError(w.t, err)
				require.True(w.t, posted)
			},
			check: func(w *crashWorld) {
				require.Len(w.t, w.books(), 1)
				posted, err := w.home.Post(w.ctx, ghost())
				require.NoError(w.t, err)
				require.False(w.t, posted)
			},
		},
		{
			name: "keep",
			do:   func(w *crashWorld) { keep(w, "a", "b") },
			check: func(w *crashWorld) {
				require.Equal(w.t, 2, w.rows(notices).Due)
				require.Equal(w.t, notice.Unprocessed, status(w, "a"))
				require.Equal(w.t, notice.Unprocessed, status(w, "b"))
			},
		},
		{
			name: "close many",
			do: func(w *crashWorld) {
				keep(w, "a", "b")
				var holds []outbox.Hold
				for len(holds) < 2 {
					m := take(w, notices)
					holds = append(holds, m.Hold())
				}
				_, err := w.home.CloseAll(w.ctx, "us-east1", holds, notice.ProcessedOK, "")
				require.NoError(w.t, err)
			},
			check: func(w *crashWorld) {
				require.Zero(w.t, w.rows(notices))
				require.Equal(w.t, notice.ProcessedOK, status(w, "a"))
				require.Equal(w.t, notice.ProcessedOK, status(w, "b"))
			},
		},
		{
			name: "close",
			do: func(w *crashWorld) {
				keep(w, "a")
				m := take(w, notices)
				require.NoError(w.t, w.home.Close(w.ctx, "us-east1", m.ID, m.Fence, notice.ProcessedCompensated, ""))
			},
			check: func(w *crashWorld) {
				require.Zero(w.t, w.rows(notices))
				require.Equal(w.t, notice.ProcessedCompensated, status(w, "a"))
			},
		},
		{
			name: "rewrite", // as for a new sealing key: notice and row in one step
			do: func(w *crashWorld) {
				keep(w, "a")
				_, err := w.home.Rewrite(w.ctx, "us-east1", "", 10, func(string, []byte) ([]byte, error) { return []byte("again"), nil })
				require.NoError(w.t, err)
			},
			check: func(w *crashWorld) {
				n, _, err := w.home.Notice(w.ctx, "us-east1", notice.ID("sim", "a"))
				require.NoError(w.t, err)
				require.Equal(w.t, "again", string(n.Body))
				require.Equal(w.t, "again", string(take(w, notices).Payload))
			},
		},
		{
			name: "rewrite secrets",
			do: func(w *crashWorld) {
				require.NoError(w.t, w.db.PutEndpoint(w.ctx, relay.Endpoint{}, relay.Endpoint{Tenant: "acme", URL: "u", Secrets: []string{"s"}}))
				_, err := w.db.RewriteSecrets(w.ctx, "", 10, func(string, []string) ([]string, error) { return []string{"again"}, nil })
				require.NoError(w.t, err)
			},
			check: func(w *crashWorld) {
				e, _, err := w.db.Endpoint(w.ctx, "acme")
				require.NoError(w.t, err)
				require.Equal(w.t, relay.Endpoint{Tenant: "acme", URL: "u", Secrets: []string{"again"}}, e)
			},
		},
		{
			name: "the head of a line moves",
			do: func(w *crashWorld) {
				rec := w.begin(claimtest.NewArrival(crashKey, "us-east1", "100", "n1", "ch_1"))
				w.settle(rec, claim.OutcomeDone)
				m := take(w, outbox.Events)
				require.NoError(w.t, w.home.Queue(outbox.Events).Finish(w.ctx, "us-east1", m.Hold()))
			},
			check: func(w *crashWorld) {
				d := w.rows(outbox.Events)
				require.Equal(w.t, []int{1, 1}, []int{d.Pending, d.Due})
			},
		},
		{
			name: "finish an event without a sync", // it is gone, or due again when its lease has run out
			do: func(w *crashWorld) {
				emit(w, 1)
				m := take(w, outbox.Events)
				require.NoError(w.t, w.home.Queue(outbox.Events).Finish(w.ctx, "us-east1", m.Hold()))
			},
			check: func(w *crashWorld) {
				if d := w.rows(outbox.Events); d.Pending > 0 {
					w.clock.advance(time.Hour)
					require.Equal(w.t, "evt_1", take(w, outbox.Events).ID)
				}
			},
		},
		{
			name: "an event after a finished one", // which does not come back behind it
			do: func(w *crashWorld) {
				emit(w, 1)
				m := take(w, outbox.Events)
				require.NoError(w.t, w.home.Queue(outbox.Events).Finish(w.ctx, "us-east1", m.Hold()))
				emit(w, 2)
			},
			check: func(w *crashWorld) {
				require.Equal(w.t, 1, w.rows(outbox.Events).Pending)
				require.Equal(w.t, "evt_2", take(w, outbox.Events).ID)
			},
		},
		{
			name: "note a delivery",
			do: func(w *crashWorld) {
				require.NoError(w.t, w.db.PutEndpoint(w.ctx, relay.Endpoint{}, relay.Endpoint{Tenant: "acme", URL: "u", Secrets: []string{"s"}}))
				_, err := w.db.NoteDelivery(w.ctx, "acme", "u", false, time.Hour)
				require.NoError(w.t, err)
			},
			check: func(w *crashWorld) {
				e, found, err := w.db.Endpoint(w.ctx, "acme")
				require.NoError(w.t, err)
				require.True(w.t, found)
				require.False(w.t, e.FailingSince.IsZero())
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := newCrashWorld(t)
			tc.do(before)
			for seed := range uint64(crashes) {
				tc.check(before.crash(seed))
			}
		})
	}
}

// ghost returns the booking of money that no request asked for.
func ghost() ledger.Transaction {
	return ledger.Transaction{
		ID: ledger.GhostID("sim", "psp_1"), Region: "us-east1", Tenant: "acme", Kind: ledger.Ghost,
		Debit: ledger.Provider("sim"), Credit: ledger.Suspense("acme"),
		Amount: 100, Currency: "usd", Object: "ch_1", Provider: "sim", ProviderRef: "psp_1",
	}
}

// TestCrashAmongTables cuts the power after flushes, before they are synced: each answer is there,
// and no provider call of a settled claim.
func TestCrashAmongTables(t *testing.T) {
	w := newCrashWorld(t)
	arrivals, want := opaque(400), map[claim.Key]claim.Record{}
	for i, a := range arrivals {
		body := []byte(strings.Repeat(a.Key.Value, 20)) // no other key has it
		charge(t, w.home, a, body, 0)
		rec, _, found, err := w.home.Get(w.ctx, a.Key, a.Home)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, body, rec.Response.Body)
		want[a.Key] = rec
		if i%25 == 24 {
			require.NoError(t, w.db.Flush())
		}
	}
	for seed := range uint64(crashes) {
		after := w.crash(seed)
		for k, rec := range want {
			got, _, found, err := after.home.Get(w.ctx, k, rec.Home)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, rec, got)
		}
		require.Len(t, after.books(), len(arrivals))
		require.Zero(t, after.rows(outbox.ProviderCalls))
		require.NoError(t, after.db.Close())
	}
}

// TestReopen closes and opens the store several times: Close flushes notes, and the audit keeps its
// order across openings.
func TestReopen(t *testing.T) {
	disk, clock := vfs.NewCrashableMem(), newClock()
	key := claim.Key{Tenant: "acme", Value: "k"}
	var want []string
	for i := range 5 {
		db := open(t, embedded.Config{FS: disk, Clock: clock.now})
		v := view(t, db, "us-east1")
		for j := range 3 {
			detail := fmt.Sprint(i, j)
			v.Note(t.Context(), key, "us-east1", claim.AuditEntry{At: clock.now(), Event: claim.EventReplied, Detail: detail})
			want = append(want, detail)
		}
		require.NoError(t, db.Close())
		require.NoError(t, db.Close(), "the second Close")
		_, _, _, err := v.Get(t.Context(), key, "us-east1")
		require.ErrorIs(t, err, claim.ErrUnavailable)
	}
	db := open(t, embedded.Config{FS: disk, Clock: clock.now})
	line, err := view(t, db, "us-east1").Timeline(t.Context(), key, "us-east1", 100)
	require.NoError(t, err)
	var got []string
	for _, e := range line {
		got = append(got, e.Detail)
	}
	require.Equal(t, want, got)
}

package claimtest

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// Posting books a charge of rec.
func Posting(rec claim.Record, id string) *ledger.Transaction {
	return &ledger.Transaction{
		ID: id, Tenant: rec.Key.Tenant, Kind: ledger.Charge,
		Debit: ledger.Provider("sim"), Credit: ledger.Merchant(rec.Key.Tenant),
		Amount: 4200, Currency: "usd", Object: rec.Minted.ID, Provider: "sim", ProviderRef: "psp_" + id,
		Created: rec.Minted.Created,
	}
}

// Events returns n events of rec.
func Events(rec claim.Record, n int) (events []outbox.Message) {
	for i := range n {
		events = append(events, outbox.Message{
			ID: fmt.Sprintf("evt_%s_%d/%d", rec.Minted.ID, rec.Fence, i), Kind: outbox.KindLog,
			Payload: fmt.Appendf(nil, `{"type":"told","n":%d}`, i), TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		})
	}
	return events
}

// expiry closes a request at due.
// Call returns the hold of rec's provider call under a fence.
func Call(rec claim.Record, fence uint64) outbox.Hold {
	return outbox.Hold{Tenant: rec.Key.Tenant, Key: rec.Key.Value, ID: rec.Minted.ID, Fence: fence}
}

func expiry(due time.Time) *outbox.Message {
	return &outbox.Message{Operation: "charge", Payload: []byte("100"), Due: due, TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
}

// withEffects fills in every effect that v's outcome can have.
func withEffects(v claim.Verdict, rec claim.Record, due time.Time) claim.Verdict {
	switch o := v.Outcome.(type) {
	case *claim.Done:
		o.Posting = Posting(rec, rec.Minted.ID)
	case *claim.Released:
		o.Expiry = expiry(due)
	}
	return emitting(v, Events(rec, 2))
}

// posting is the booking of v, which is a [claim.Done].
func posting(v claim.Verdict) *ledger.Transaction { return v.Outcome.(*claim.Done).Posting }

// row reads a row of a queue, "" if there is none.
func (w *world) row(q outbox.Queue, id string) (outbox.Message, bool) {
	w.Helper()
	m, found, err := w.Queue(w.home, q).Message(w.ctx, w.home, id)
	require.NoError(w, err)
	return m, found
}

func (w *world) booked(id string) (ledger.Transaction, bool) {
	w.Helper()
	t, found, err := w.Ledger(w.home).Transaction(w.ctx, w.home, id)
	require.NoError(w, err)
	return t, found
}

// written checks that the home's books, events and expiries hold exactly the effects of
// a settlement of held at a time.
func (w *world) written(held claim.Record, at time.Time, post *ledger.Transaction, events []outbox.Message, expires *outbox.Message) {
	w.Helper()
	books, err := w.Ledger(w.home).Transactions(w.ctx, w.home, ledger.Position{}, time.Time{}, 100)
	require.NoError(w, err)
	if post == nil {
		require.Empty(w, books)
	} else {
		want := *post
		want.Region = w.home
		require.Len(w, books, 1)
		require.True(w, want.Same(books[0]), "booked is %+v, not %+v", books[0], want)
		require.True(w, books[0].At.Equal(at), "booked at %v, not %v", books[0].At, at)
	}
	w.holds(outbox.Events, len(events))
	for _, want := range events {
		got, found := w.row(outbox.Events, want.ID)
		require.True(w, found)
		want.Region, want.Tenant, want.Key, want.Operation = w.home, held.Key.Tenant, held.Key.Value, held.Operation
		want.CreatedAt, want.Due = at, at
		if first(&held, events) {
			want.Due = at.Add(w.Policy.EventsFor())
		}
		w.sameRow(want, got)
	}
	if expires == nil {
		w.holds(outbox.Expiries, 0)
		return
	}
	w.holds(outbox.Expiries, 1)
	got, found := w.row(outbox.Expiries, held.Minted.ID)
	require.True(w, found)
	want := *expires
	want.ID, want.Kind, want.Region, want.CreatedAt = held.Minted.ID, outbox.KindExpiry, w.home, at
	want.Tenant, want.Key = held.Key.Tenant, held.Key.Value
	w.sameRow(want, got)
}

func (w *world) holds(q outbox.Queue, want int) {
	w.Helper()
	d, err := w.Queue(w.home, q).Depth(w.ctx, w.home)
	require.NoError(w, err)
	require.Equal(w, want, d.Pending+d.Parked, "rows in %s", q)
}

func (w *world) sameRow(want, got outbox.Message) {
	w.Helper()
	for _, m := range []*outbox.Message{&want, &got} {
		m.CreatedAt, m.Due = m.CreatedAt.UTC().Round(0), m.Due.UTC().Round(0)
	}
	if placed(want.CreatedAt, got.CreatedAt) {
		got.CreatedAt = want.CreatedAt
	}
	require.Equal(w, want, got)
}

// settledAt returns when rec reached its state, by its audit.
func (w *world) settledAt(rec claim.Record) time.Time {
	w.Helper()
	line, err := w.at(rec.Home).Timeline(w.ctx, rec.Key, rec.Home, 100)
	require.NoError(w, err)
	require.NotEmpty(w, line)
	return line[len(line)-1].At
}

var effectTests = []test{
	{"effects: a success is booked and emitted in the same step", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		w.written(held, time.Time{}, nil, nil, nil)
		v := withEffects(approved("paid"), held, held.FirstUse.Add(w.Policy.ReplayFor))
		rec := w.settle(held, v)
		require.Equal(w, claim.Completed, rec.State)
		w.written(held, rec.SettledAt, posting(v), v.Events(), nil)
		require.Equal(w, 0, w.pending(w.home))
	}},
	{"effects: a refusal is emitted and not booked", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		v := withEffects(declinedHard("no"), held, held.FirstUse.Add(w.Policy.ReplayFor))
		rec := w.settle(held, v)
		w.written(held, rec.SettledAt, nil, v.Events(), nil)
	}},
	{"effects: a release is emitted and may expire", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		due := held.FirstUse.Add(w.Policy.ReplayFor)
		v := withEffects(declinedSoft("no funds"), held, due)
		rec := w.settle(held, v)
		require.Equal(w, claim.FailedRetry, rec.State)
		w.written(held, w.settledAt(rec), nil, v.Events(), v.Outcome.(*claim.Released).Expiry)
	}},
	{"effects: an existing expiry is not replaced", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		first := withEffects(declinedSoft("no funds"), held, held.FirstUse.Add(w.Policy.ReplayFor))
		rec := w.settle(held, first)
		at := w.settledAt(rec)
		before, found := w.row(outbox.Expiries, held.Minted.ID)
		require.True(w, found)

		again := w.begin(w.arrival("k", "100"), claim.Won)
		second := withEffects(declinedSoft("no funds"), again, again.HeldSince.Add(2*w.Policy.ReplayFor))
		w.settle(again, second)
		after, found := w.row(outbox.Expiries, held.Minted.ID)
		require.True(w, found)
		w.sameRow(before, after)
		require.True(w, after.CreatedAt.Equal(at))
		w.holds(outbox.Expiries, 1)
		w.holds(outbox.Events, 4)
	}},
	{"effects: the last generation's release is emitted and does not expire", func(w *world) {
		var rec claim.Record
		for range w.Policy.MaxGenerations {
			rec = w.begin(w.arrival("k", "100"), claim.Won)
			v := declinedSoft("no funds")
			if rec.Generation == w.Policy.MaxGenerations {
				v = withEffects(v, rec, rec.HeldSince.Add(w.Policy.ReplayFor))
			}
			rec = w.settle(rec, v)
		}
		require.Equal(w, claim.FailedTerminal, rec.State)
		w.written(rec, rec.SettledAt, nil, Events(rec, 2), nil)
	}},
	{"effects: nothing is written while the outcome is open", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		rec := w.settle(held, withEffects(unknown(false), held, held.FirstUse.Add(w.Policy.ReplayFor)))
		require.Equal(w, claim.InFlight, rec.State)
		w.written(held, time.Time{}, nil, nil, nil)
	}},
	{"effects: a claim that is given up is emitted and not booked", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		held := rec
		for range w.Policy.MaxUnknowns {
			rec = w.settle(rec, withEffects(unknown(false), held, held.FirstUse.Add(w.Policy.ReplayFor)))
		}
		require.Equal(w, claim.FailedTerminal, rec.State)
		w.written(held, rec.SettledAt, nil, Events(held, 2), nil)
	}},
	{"effects: a claim without a last answer is never given up", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		v := unknown(false)
		v.Outcome.(*claim.Unknown).GiveUp = nil
		for range w.Policy.MaxUnknowns + 2 {
			rec = w.settle(rec, v)
			require.Equal(w, claim.InFlight, rec.State)
		}
		require.Equal(w, w.Policy.MaxUnknowns+2, rec.Unknowns)
		require.Equal(w, 1, w.pending(w.home))
	}},
	{"effects: a provider's reference is cut alike in the books and in the claim", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		v := withEffects(approved("paid"), held, time.Time{})
		v.Outcome.(*claim.Done).ProviderRef, posting(v).ProviderRef = "a\x00b\xff", "a\x00b\xff"
		rec := w.settle(held, v)
		post, found := w.booked(held.Minted.ID)
		require.True(w, found)
		require.Equal(w, rec.ProviderRef, post.ProviderRef)
	}},
	{"effects: a booking with text that some store cannot keep is refused for good", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		for _, text := range []string{"a\x00b", "\xff"} {
			v := withEffects(approved("paid"), held, time.Time{})
			posting(v).Debit += ledger.Account(text)
			_, err := w.at(w.home).Settle(w.ctx, held, v)
			require.ErrorIs(w, err, claim.ErrUnstorable)
			require.NotErrorIs(w, err, claim.ErrUnavailable, "no repeat would do it")
			w.same(held, w.get(held))
		}
		w.written(held, time.Time{}, nil, nil, nil)
		w.settle(held, approved("paid"))
	}},
	{"effects: a fenced holder books and emits nothing", func(w *world) {
		old := w.begin(w.arrival("k", "100"), claim.Won)
		w.lapse(old)
		rec := w.begin(w.arrival("k", "100"), claim.WonUnknown)
		for _, v := range []claim.Verdict{approved("late"), declinedHard("late"), declinedSoft("late"), unknown(false)} {
			_, err := w.at(w.home).Settle(w.ctx, old, withEffects(v, old, old.FirstUse.Add(w.Policy.ReplayFor)))
			require.ErrorIs(w, err, claim.ErrFenced)
		}
		w.written(old, time.Time{}, nil, nil, nil)
		v := withEffects(approved("paid"), rec, time.Time{})
		done := w.settle(rec, v)
		_, err := w.at(w.home).Settle(w.ctx, rec, v)
		require.ErrorIs(w, err, claim.ErrFenced)
		w.written(rec, done.SettledAt, posting(v), v.Events(), nil)
	}},
	{"effects: a second booking of one event fails the step and writes nothing", func(w *world) {
		first := w.begin(w.arrival("k", "100"), claim.Won)
		v := withEffects(approved("paid"), first, time.Time{})
		done := w.settle(first, v)

		held := w.begin(w.arrival("k2", "100"), claim.Won)
		for _, post := range []*ledger.Transaction{posting(v), Posting(held, first.Minted.ID)} {
			twice := withEffects(approved("twice"), held, time.Time{})
			twice.Outcome.(*claim.Done).Posting = post
			_, err := w.at(w.home).Settle(w.ctx, held, twice)
			require.ErrorIs(w, err, ledger.ErrConflict)
			require.NotErrorIs(w, err, claim.ErrUnavailable, "the store did nothing, for certain")
			w.same(held, w.get(held))
			require.Equal(w, 1, w.pending(w.home))
			w.written(first, done.SettledAt, posting(v), v.Events(), nil)
			require.Equal(w, []claim.Event{claim.EventClaimed}, w.events(held))
		}
		w.settle(held, withEffects(approved("paid"), held, time.Time{})) // the claim is unchanged
		w.holds(outbox.Events, 4)
	}},
	{"effects: an unbalanced posting is refused and writes nothing", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		v := withEffects(approved("paid"), held, time.Time{})
		posting(v).Amount = 0
		_, err := w.at(w.home).Settle(w.ctx, held, v)
		require.Error(w, err)
		w.same(held, w.get(held))
		require.Equal(w, 1, w.pending(w.home))
		w.written(held, time.Time{}, nil, nil, nil)
	}},
	{"effects: a duplicate event id fails the step and writes nothing", func(w *world) {
		first := w.begin(w.arrival("k", "100"), claim.Won)
		v := emitting(declinedSoft("no"), Events(first, 2))
		w.settle(first, v)
		held := w.begin(w.arrival("k", "100"), claim.Won)
		twice := withEffects(approved("paid"), held, time.Time{})
		twice.Events()[1].ID = v.Events()[1].ID
		_, err := w.at(w.home).Settle(w.ctx, held, twice)
		require.Error(w, err)
		w.same(held, w.get(held))
		require.Equal(w, 1, w.pending(w.home))
		_, booked := w.booked(held.Minted.ID)
		require.False(w, booked)
		w.holds(outbox.Events, 2)
	}},
	{"effects: a cancelled context writes nothing", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		ctx, cancel := cancelled(w.ctx)
		defer cancel()
		_, err := w.at(w.home).Settle(ctx, held, withEffects(approved("paid"), held, time.Time{}))
		require.Error(w, err)
		w.same(held, w.get(held))
		w.written(held, time.Time{}, nil, nil, nil)
	}},
	{"effects: they are written at the home, whichever region settles", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		v := withEffects(approved("paid"), held, time.Time{})
		rec, err := w.at(w.Regions[1]).Settle(w.ctx, held, v)
		require.NoError(w, err)
		w.written(held, rec.SettledAt, posting(v), v.Events(), nil)
		_, found, err := w.Ledger(w.home).Transaction(w.ctx, w.Regions[1], posting(v).ID)
		require.NoError(w, err)
		require.False(w, found)
	}},
	{"effects: the events of a key are taken in order", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		first := Events(held, 2)
		w.settle(held, emitting(declinedSoft("no funds"), first))
		w.until(w.now().Add(time.Millisecond))
		again := w.begin(w.arrival("k", "100"), claim.Won)
		v := emitting(approved("paid"), Events(again, 1))
		w.settle(again, v)
		for _, want := range append(first, v.Events()...) {
			taken := w.takeOne(outbox.Events)
			require.Equal(w, want.ID, taken.ID)
			require.NoError(w, w.Queue(w.home, outbox.Events).Finish(w.ctx, w.home, taken.Hold()))
		}
	}},
	{"effects: the events of a key are taken in order when the clock was set back", func(w *world) {
		if w.Advance == nil {
			w.Skip("its clock cannot be set")
		}
		for by, emit := range map[string]func(held claim.Record, events []outbox.Message){
			"settle": func(held claim.Record, events []outbox.Message) {
				w.settle(held, emitting(approved("paid"), events))
			},
			"wait": func(held claim.Record, events []outbox.Message) {
				w.settle(held, emitting(pending("payer", 0), events))
			},
			"book": func(held claim.Record, events []outbox.Message) {
				for i := range events {
					events[i].Region, events[i].Tenant, events[i].Key, events[i].Operation = w.home, held.Key.Tenant, held.Key.Value, held.Operation
				}
				post := Posting(held, held.Minted.ID)
				post.Region = w.home
				posted, err := w.at(w.home).(booker).Book(w.ctx, *post, events)
				require.NoError(w, err)
				require.True(w, posted)
			},
		} {
			held := w.begin(w.arrival(by, "100"), claim.Won)
			first := Events(held, 2)
			w.settle(held, emitting(declinedSoft("no funds"), first))
			w.until(w.now().Add(time.Millisecond))
			again := w.begin(w.arrival(by, "100"), claim.Won)
			w.SetBack(time.Hour)
			next := Events(again, 2)
			next[0].Kind = outbox.KindWebhook // of a line of its own
			emit(again, next)
			w.until(w.now().Add(2 * time.Hour))
			queue := w.Queue(w.home, outbox.Events)
			taken, err := queue.Take(w.ctx, w.home, 10, time.Minute)
			require.NoError(w, err)
			var ids []string
			for _, m := range taken {
				ids = append(ids, m.ID)
				require.NoError(w, queue.Finish(w.ctx, w.home, m.Hold()))
			}
			require.ElementsMatch(w, []string{first[0].ID, next[0].ID}, ids, "%s: the first of each line", by)
			w.until(w.now().Add(time.Second))
			for _, want := range []string{first[1].ID, next[1].ID} {
				m := w.takeOne(outbox.Events)
				require.Equal(w, want, m.ID, by)
				require.NoError(w, queue.Finish(w.ctx, w.home, m.Hold()))
			}
		}
	}},
	{"effects: what is booked for a key without a claim comes after what waits", func(w *world) {
		if w.Advance == nil {
			w.Skip("its clock cannot be set")
		}
		of := w.begin(w.arrival("k", "100"), claim.Won)
		var want []string
		for _, id := range []string{"evt_2", "evt_1"} { // not in the order of their ids
			post := Posting(of, id)
			post.Region = w.home
			posted, err := w.at(w.home).(booker).Book(w.ctx, *post, []outbox.Message{{
				ID: id, Kind: outbox.KindLog, Region: w.home, Tenant: of.Key.Tenant, Key: "deleted", Operation: "charge", Payload: []byte("{}"),
			}})
			require.NoError(w, err)
			require.True(w, posted)
			want = append(want, id)
			w.SetBack(time.Minute) // as another gateway's, which is behind
		}
		w.until(w.now().Add(time.Hour))
		for _, id := range want {
			m := w.takeOne(outbox.Events)
			require.Equal(w, id, m.ID)
			require.NoError(w, w.Queue(w.home, outbox.Events).Finish(w.ctx, w.home, m.Hold()))
			w.until(w.now().Add(time.Second))
		}
	}},
	{"effects: the events of one step are taken in the order of their ids", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		events := Events(held, 2)
		w.settle(held, emitting(approved("paid"), []outbox.Message{events[1], events[0]}))
		w.until(w.now().Add(time.Millisecond))
		first := w.takeOne(outbox.Events)
		require.Equal(w, events[0].ID, first.ID)
		taken, err := w.Queue(w.home, outbox.Events).Take(w.ctx, w.home, 10, time.Hour)
		require.NoError(w, err)
		require.Empty(w, taken, "the second waits for the first")
		require.NoError(w, w.Queue(w.home, outbox.Events).Finish(w.ctx, w.home, first.Hold()))
		require.Equal(w, events[1].ID, w.takeOne(outbox.Events).ID)
	}},
	{"effects: an event comes before those of the key's next life", func(w *world) {
		if w.Advance == nil {
			w.Skip("the key is free again in two days")
		}
		held := w.begin(w.arrival("k", "100"), claim.Won)
		w.settle(held, emitting(approved("paid"), Events(held, 1)))
		events := w.Queue(w.home, outbox.Events)
		w.until(w.now().Add(w.Policy.EventsFor() + time.Millisecond))
		taken, err := events.Take(w.ctx, w.home, 1, 1000*time.Hour)
		require.NoError(w, err)
		require.Len(w, taken, 1)
		w.until(w.now().Add(w.Policy.ReplayFor + w.Policy.TombstoneFor + time.Hour))
		again := w.begin(w.arrival("k", "100"), claim.Won)
		next := Events(again, 1)
		next[0].ID = "evt_next"
		w.settle(again, emitting(approved("paid"), next))
		w.until(w.now().Add(time.Millisecond))
		none, err := events.Take(w.ctx, w.home, 10, time.Hour)
		require.NoError(w, err)
		require.Empty(w, none)
		w.until(taken[0].Due.Add(time.Millisecond))
		first := w.takeOne(outbox.Events)
		require.Equal(w, taken[0].ID, first.ID)
		require.NoError(w, events.Finish(w.ctx, w.home, first.Hold()))
		require.Equal(w, "evt_next", w.takeOne(outbox.Events).ID)
	}},
}

// booker is how a store books what a notice reports, with its events.
type booker interface {
	Book(ctx context.Context, t ledger.Transaction, events []outbox.Message) (posted bool, err error)
}

// takeOne takes one due row of a queue. It waits where the backend may skip a row that was only
// just written.
func (w *world) takeOne(q outbox.Queue) outbox.Message {
	w.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		got, err := w.Queue(w.home, q).Take(w.ctx, w.home, 1, time.Hour)
		require.NoError(w, err)
		if len(got) > 0 {
			return got[0]
		}
		w.until(w.now().Add(100 * time.Millisecond)) // an event may wait for a second behind another
	}
	w.Fatalf("no row of %s could be taken", q)
	return outbox.Message{}
}

var closingTests = []test{
	{"closing: a released claim becomes final and emits an event", func(w *world) {
		held := w.settle(w.begin(w.arrival("k", "100"), claim.Won), declinedSoft("no funds"))
		v := withEffects(declinedHard("too late"), held, time.Time{})
		v.Outcome.(*claim.Refused).Reason = "expired"
		rec := w.settle(held, v)
		require.Equal(w, claim.FailedTerminal, rec.State)
		require.Equal(w, "expired", rec.Reason)
		require.Equal(w, held.Fence, rec.Fence)
		require.Equal(w, held.Attempts, rec.Attempts, "no attempt was made")
		require.False(w, rec.SettledAt.IsZero())
		w.same(rec, w.get(rec))
		w.written(held, rec.SettledAt, nil, v.Events(), nil)
		require.Zero(w, w.pending(w.home))
		seen := w.begin(w.arrival("k", "100"), claim.Replay)
		require.Equal(w, answer(402, "too late"), *seen.Response)
		require.Equal(w, []claim.Event{
			claim.EventClaimed, claim.EventAttempt, claim.EventReleased, claim.EventClosed, claim.EventSettled,
		}, w.events(rec))
	}},
	{"closing: the worker deletes the expiry row", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		v := declinedSoft("no funds")
		v.Outcome.(*claim.Released).Expiry = expiry(held.HeldSince)
		rec := w.settle(held, v)
		m := w.takeOne(outbox.Expiries)
		require.Equal(w, held.Minted.ID, m.ID)
		w.settle(rec, declinedHard("too late"))
		require.NoError(w, w.Queue(w.home, outbox.Expiries).Finish(w.ctx, w.home, m.Hold()))
		w.holds(outbox.Expiries, 0)
	}},
	{"closing: only a refusal closes a claim", func(w *world) {
		held := w.settle(w.begin(w.arrival("k", "100"), claim.Won), declinedSoft("no funds"))
		for _, v := range []claim.Verdict{approved("paid"), declinedSoft("again"), unknown(false)} {
			_, err := w.at(w.home).Settle(w.ctx, held, withEffects(v, held, held.FirstUse.Add(w.Policy.ReplayFor)))
			require.ErrorIs(w, err, claim.ErrFenced)
		}
		w.same(held, w.get(held))
		w.written(held, time.Time{}, nil, nil, nil)
	}},
	{"closing: a retried claim is not closed", func(w *world) {
		held := w.settle(w.begin(w.arrival("k", "100"), claim.Won), declinedSoft("no funds"))
		again := w.begin(w.arrival("k", "100"), claim.Won)
		late := withEffects(declinedHard("too late"), held, time.Time{})
		_, err := w.at(w.home).Settle(w.ctx, held, late)
		require.ErrorIs(w, err, claim.ErrFenced)
		w.same(again, w.get(held))
		released := w.settle(again, declinedSoft("no funds"))
		_, err = w.at(w.home).Settle(w.ctx, held, late)
		require.ErrorIs(w, err, claim.ErrFenced, "another generation has been released since")
		w.same(released, w.get(held))
		w.written(held, time.Time{}, nil, nil, nil)
	}},
	{"closing: a claim is closed once", func(w *world) {
		held := w.settle(w.begin(w.arrival("k", "100"), claim.Won), declinedSoft("no funds"))
		v := withEffects(declinedHard("too late"), held, time.Time{})
		rec := w.settle(held, v)
		for _, h := range []claim.Record{held, rec} {
			_, err := w.at(w.home).Settle(w.ctx, h, v)
			require.ErrorIs(w, err, claim.ErrFenced)
		}
		w.same(rec, w.get(rec))
		w.written(held, rec.SettledAt, nil, v.Events(), nil)
	}},
	{"closing: a stale holder does not close a claim", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		rec := w.settle(held, declinedSoft("no funds"))
		_, err := w.at(w.home).Settle(w.ctx, held, declinedHard("late"))
		require.ErrorIs(w, err, claim.ErrFenced, "an attempt's verdict is no order to close")
		w.same(rec, w.get(rec))
	}},
	{"closing: a claim with a key that is about to be free is not closed", func(w *world) {
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), declinedSoft("no funds"))
		w.until(rec.CloseUntil(&w.Policy, w.now()))
		_, err := w.at(w.home).Settle(w.ctx, rec, withEffects(declinedHard("too late"), rec, time.Time{}))
		require.ErrorIs(w, err, claim.ErrFenced)
		w.same(rec, w.get(rec))
		w.written(rec, time.Time{}, nil, nil, nil)
		w.begin(w.arrival("k", "100"), claim.TombStone)
	}},
	{"closing: a tombstone may be closed, a free key may not", func(w *world) {
		held := w.settle(w.begin(w.arrival("k", "100"), claim.Won), declinedSoft("no funds"))
		gone := w.settle(w.begin(w.arrival("gone", "100"), claim.Won), declinedSoft("no funds"))
		w.expire(held)
		closed := w.settle(held, declinedHard("too late"))
		require.Nil(w, closed.Refusal)
		w.begin(w.arrival("k", "100"), claim.Replay)

		// A released claim past its tombstone must not close or emit events: another
		// region may own the key.
		w.free(gone)
		_, err := w.at(w.home).Settle(w.ctx, gone, withEffects(declinedHard("too late"), gone, time.Time{}))
		require.ErrorIs(w, err, claim.ErrFenced)
		w.same(gone, w.get(gone))
		w.written(gone, time.Time{}, nil, nil, nil)
		w.begin(w.arrival("gone", "555"), claim.Won)
	}},
}

// settledLister is the interface through which reconciliation reads claims.
type settledLister interface {
	// Settled lists up to limit claims of home that are not in flight, after a key
	// and in the order of keys: by tenant, then by value, byte for byte. Responses
	// are left out.
	Settled(ctx context.Context, home string, after claim.Key, limit int) ([]claim.Record, error)
}

// objectFinder resolves a provider's reference, which is an object's id, to its claim.
type objectFinder interface {
	// ByObject reads the claim of an object of any tenant with authority. The
	// response may be left out.
	ByObject(ctx context.Context, home, id string) (claim.Record, bool, error)
}

var settledTests = []test{
	{"by object: the claim, whoever's it is", func(w *world) {
		store, ok := w.at(w.home).(objectFinder)
		require.True(w, ok, "the store finds claims by object")
		w.PutTenant(w, claim.Tenant{ID: "globex", Registrar: w.home})
		for _, tenant := range []string{"acme", "globex"} {
			w.tenant = tenant
			rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), approved("paid"))
			got, found, err := store.ByObject(w.ctx, w.home, rec.Minted.ID)
			require.NoError(w, err)
			require.True(w, found)
			got.Response, rec.Response = nil, nil
			w.same(rec, got)
			for _, at := range []struct{ home, id string }{{w.home, "ch_none"}, {w.Regions[1], rec.Minted.ID}} {
				_, found, err = store.ByObject(w.ctx, at.home, at.id)
				require.NoError(w, err)
				require.False(w, found)
			}
			_, _, found, err = w.at(w.home).Object(w.ctx, "another", w.home, rec.Minted.ID)
			require.NoError(w, err)
			require.False(w, found, "a tenant reads only its own objects")
		}
	}},
	{"settled: it lists claims that are not in flight, in order, page by page", func(w *world) {
		store, ok := w.at(w.home).(settledLister)
		require.True(w, ok, "the store lists settled claims")
		for _, tenant := range []string{"acm", "acme-2"} {
			w.PutTenant(w, claim.Tenant{ID: tenant, Registrar: w.home})
		}
		var want []claim.Record
		for _, tenant := range []string{"acm", "acme", "acme-2"} { // in order
			w.tenant = tenant
			for i, key := range []string{"B", "a", "a-1", "a1", "b"} {
				held := w.begin(w.arrival(key, "100"), claim.Won)
				v := []claim.Verdict{approved("paid"), declinedHard("no"), declinedSoft("no"), unknown(false), approved("paid")}[i]
				if rec := w.settle(held, v); rec.State != claim.InFlight {
					rec.Response = nil
					want = append(want, rec)
				}
			}
		}
		w.begin(w.arrival("c", "100"), claim.Won)
		far := w.arrival("far", "100")
		far.Home = w.Regions[1]
		w.settle(w.begin(far, claim.Won), approved("paid"))

		var got []claim.Record
		after := claim.Key{}
		for {
			page, err := store.Settled(w.ctx, w.home, after, 5)
			require.NoError(w, err)
			require.LessOrEqual(w, len(page), 5)
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			after = page[len(page)-1].Key
		}
		require.Len(w, got, len(want))
		for i := range want {
			require.Nil(w, got[i].Response)
			w.same(want[i], got[i])
		}
		none, err := store.Settled(w.ctx, w.home, claim.Key{}, 0)
		require.NoError(w, err)
		require.Empty(w, none)
	}},
}

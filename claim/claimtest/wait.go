package claimtest

import (
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// waitTests are of claims that wait for the payer, or for a bank.
var waitTests = []test{
	{"wait: every request reads the same interim answer while the state lasts", func(w *world) {
		first := w.begin(w.arrival("k", "100"), claim.Won)
		before := w.now()
		rec := w.settle(first, emitting(pending("payer", 2*w.Policy.Lease), Events(first, 1)))
		require.Equal(w, claim.InFlight, rec.State)
		require.True(w, rec.Waits())
		require.Nil(w, rec.Response)
		require.Zero(w, rec.Unknowns, "it is no unknown")
		require.Equal(w, "psp_1", rec.ProviderRef)
		require.Greater(w, rec.Fence, first.Fence)
		require.False(w, rec.LeaseUntil.Before(before.Add(2*w.Policy.Lease)), "the worker retries it at its own interval")
		require.Equal(w, claim.Interim{Response: answer(202, "wait for the payer"), State: "payer"}, *rec.Interim)
		w.same(rec, w.get(rec))
		require.Equal(w, 1, w.withEffects(w.home))
		seen := w.begin(w.arrival("k", "100"), claim.Waiting)
		w.same(rec, seen)
		w.begin(w.arrival("k", "200"), claim.Mismatch)

		// The answer stays while an attempt runs, and after one that learned nothing.
		held, err := w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "worker", w.home, claim.News{})
		require.NoError(w, err, "a notice takes it over without waiting")
		require.Equal(w, rec.Interim, held.Interim)
		require.Equal(w, first.ProviderKey, held.ProviderKey)
		w.begin(w.arrival("k", "100"), claim.Waiting)
		again := emitting(pending("payer", w.Policy.Lease), Events(held, 2))
		again.Outcome.(*claim.Pending).Response = answer(202, "spelled otherwise")
		rec = w.settle(held, again)
		require.Equal(w, answer(202, "wait for the payer"), rec.Interim.Response, "the same state, the same bytes")
		require.Equal(w, 1, w.withEffects(w.home), "and written once")
		held, err = w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "worker", w.home, claim.News{})
		require.NoError(w, err)
		rec = w.settle(held, claim.Verdict{Outcome: &claim.Unknown{Reason: "no_answer"}})
		require.Equal(w, "payer", rec.Interim.State)
		require.Equal(w, "psp_1", rec.ProviderRef)
		w.same(rec, w.get(rec))

		// Another state has another answer, and another event.
		held, err = w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "worker", w.home, claim.News{})
		require.NoError(w, err)
		rec = w.settle(held, emitting(pending("bank", w.Policy.Lease), Events(held, 1)))
		require.Equal(w, answer(202, "wait for the bank"), rec.Interim.Response)
		require.Equal(w, 2, w.withEffects(w.home))

		// So does the same state, caused by another object; the next one that tries
		// finds it so.
		held, err = w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "worker", w.home, claim.News{})
		require.NoError(w, err)
		rec = w.settle(held, ordered("bank", "cap_1"))
		require.Equal(w, claim.Interim{Response: answer(202, "cap_1 is at it"), State: "bank", By: "cap_1"}, *rec.Interim)
		w.same(rec, w.get(rec))

		held, err = w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "worker", w.home, claim.News{})
		require.NoError(w, err)
		require.Equal(w, rec.Interim, held.Interim)
		rec = w.settle(held, approved("paid"))
		require.Nil(w, rec.Interim)
		w.same(rec, w.get(rec))
		w.begin(w.arrival("k", "100"), claim.Replay)
		require.Zero(w, w.pending(w.home))
	}},
	{"wait: the worker asks when the row is due, and only then", func(w *world) {
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), pending("bank", w.Policy.Lease))
		require.Empty(w, w.dueIDs(w.home))
		w.lapse(rec)
		w.isDue(rec)
		held := w.begin(w.arrival("k", "100"), claim.WonUnknown)
		require.Equal(w, "bank", held.Interim.State)
		require.Empty(w, w.dueIDs(w.home))
		require.Equal(w, []claim.Event{claim.EventClaimed, claim.EventAttempt, claim.EventPending, claim.EventTakenOver}, w.events(rec))
	}},
	{"wait: a holder is not interrupted", func(w *world) {
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), pending("payer", w.Policy.Lease))
		held, err := w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "worker", w.home, claim.News{})
		require.NoError(w, err)
		_, err = w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "other", w.home, claim.News{})
		require.ErrorIs(w, err, claim.ErrLeaseHeld)
		_, err = w.at(w.home).Settle(w.ctx, rec, approved("late"))
		require.ErrorIs(w, err, claim.ErrFenced, "a verdict from before the take-over does not overwrite it")
		w.settle(held, declinedHard("no"))
	}},
	{"wait: a waiting claim never ages", func(w *world) {
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), pending("bank", w.Policy.PinLife()*2))
		w.until(rec.FirstUse.Add(w.Policy.PinLife() + w.Policy.Lease))
		if w.Sweep != nil {
			w.Sweep(w)
		}
		seen := w.begin(w.arrival("k", "100"), claim.Waiting)
		require.Equal(w, rec.Interim, seen.Interim)
		w.same(rec, w.get(rec))
	}},
	{"wait: no replica shows the interim answer", func(w *world) {
		rec := w.settle(w.pinned("k", w.home), pending("payer", w.Policy.Lease))
		w.until(w.now().Add(w.ReplicaLag))
		for _, region := range w.Regions {
			shown, err := w.at(region).Replica(w.ctx, rec.Key)
			require.NoError(w, err)
			require.Nil(w, shown.Record)
		}
	}},
	{"wait: a retried verdict finds itself", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		v := emitting(pending("payer", w.Policy.Lease), Events(held, 1))
		v.ID = uuid.New()
		rec := w.settle(held, v)
		w.same(rec, w.settle(held, v))
		v.ID = uuid.New()
		_, err := w.at(w.home).Settle(w.ctx, held, v)
		require.ErrorIs(w, err, claim.ErrFenced)
		require.Equal(w, 1, w.withEffects(w.home))
	}},
	{"wait: a generation that waited is released like any other", func(w *world) {
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), pending("payer", w.Policy.Lease))
		held, err := w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "worker", w.home, claim.News{})
		require.NoError(w, err)
		v := declinedSoft("not authenticated")
		v.Outcome.(*claim.Released).ProviderRef = "psp_1"
		rec = w.settle(held, v)
		require.Equal(w, claim.FailedRetry, rec.State)
		require.Nil(w, rec.Interim)
		again := w.begin(w.arrival("k", "100"), claim.Won)
		require.Equal(w, uint32(2), again.Generation)
		require.Nil(w, again.Interim)
		require.Equal(w, "psp_1", again.ProviderRef, "the next generation may go on with it")
		w.same(again, w.get(again))
	}},
	{"wait: a generation that another one follows takes its interim answer with it", func(w *world) {
		waiting := func(key string) (claim.Arrival, claim.Record) {
			a := w.arrival(key, "100")
			a.Provider = "a"
			rec := w.settle(w.begin(a, claim.Won), pending("payer", w.Policy.Lease))
			require.NotNil(w, rec.Interim)
			return a, rec
		}

		// With another provider.
		_, rec := waiting("moved")
		held, err := w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "worker", w.home, claim.News{})
		require.NoError(w, err)
		moved := w.settle(held, claim.Verdict{Outcome: &claim.Moved{Next: "b", Reason: "busy"}, Node: "n", Region: "r"})
		require.Nil(w, moved.Interim)
		w.same(moved, w.get(moved))

		// In writes that a restore has lost.
		a, rec := waiting("restored")
		w.lapse(rec)
		witness := w.witnessOf(a, 2)
		witness.Object, witness.FirstUse = rec.Minted.ID, time.Time{}
		again := w.reattach(w.witnessed("restored", "100"), witness, claim.WonUnknown)
		require.Nil(w, again.Interim)
		w.same(again, w.get(again))
		w.reattach(w.witnessed("restored", "100"), witness, claim.Busy)
		next := emitting(pending("payer", w.Policy.Lease), Events(again, 1))
		second := answer(202, "wait for the payer's second try")
		next.Outcome.(*claim.Pending).Response = second
		count := w.withEffects(w.home)
		rec = w.settle(again, next)
		require.Equal(w, second, rec.Interim.Response, "its own answer")
		w.same(rec, w.get(rec))
		require.Equal(w, count+1, w.withEffects(w.home), "and its own event")
	}},
	{"wait: a provider's own pause holds the next generation back", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		rec := w.settle(held, declinedFor("later", 2*w.Policy.Lease))
		w.same(rec, w.get(rec))
		require.Equal(w, rec.Refusal.At.Add(2*w.Policy.Lease+w.Policy.ClockOffset), rec.Refusal.SharedUntil(&w.Policy))
		w.until(rec.Refusal.At.Add(w.Policy.Lease))
		got, err := w.at(w.home).Begin(w.ctx, w.arrival("k", "100"))
		require.NoError(w, err)
		require.Equal(w, claim.Shared, got.Decision)
		w.begin(w.arrival("k", "100"), claim.Won) // which lets the pause pass
		require.False(w, w.now().Before(rec.Refusal.At.Add(2*w.Policy.Lease)))
	}},
	{"wait: a pending verdict needs an answer", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		_, err := w.at(w.home).Settle(w.ctx, held, claim.Verdict{Outcome: &claim.Pending{State: "payer"}})
		require.ErrorIs(w, err, claim.ErrNoResponse)
	}},
}

// withEffects returns how many events wait in a region.
func (w *world) withEffects(region string) int {
	w.Helper()
	d, err := w.Queue(region, outbox.Events).Depth(w.ctx, region)
	require.NoError(w, err)
	return d.Pending + d.Parked
}

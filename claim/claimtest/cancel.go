package claimtest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

// cancelTests are of keys that their merchant gives up.
var cancelTests = []test{
	{"cancel: a key that was never used refuses whatever arrives", func(w *world) {
		giving := w.gives("k")
		rec := w.begin(giving, claim.Won)
		w.begin(w.arrival("k", "100"), claim.Busy)
		w.begin(w.gives("k"), claim.Busy)
		w.lapse(rec)
		held := w.begin(w.arrival("k", "200"), claim.WonUnknown) // which executes the cancellation, whatever it asks for
		require.Equal(w, claim.CancelKey, held.Operation)
		require.Equal(w, rec.Fingerprint, held.Fingerprint)
		rec = w.settle(held, claim.Verdict{Outcome: &claim.Refused{Response: answer(410, "canceled"), Reason: "key_canceled"}})
		for _, a := range []claim.Arrival{w.arrival("k", "100"), w.arrival("k", "200"), w.gives("k")} {
			w.same(rec, w.begin(a, claim.Replay))
		}
		_, found, err := w.at(w.home).Unpaid(w.ctx, w.home, rec.Minted.ID)
		require.NoError(w, err)
		require.False(w, found, "no provider has heard of it")
		w.expire(rec)
		w.begin(w.arrival("k", "100"), claim.TombStone)
		w.begin(w.gives("k"), claim.TombStone)
		w.free(rec)
		w.begin(w.arrival("k", "100"), claim.Won)
	}},
	{"cancel: a key that was used shows its claim", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		w.same(rec, w.begin(w.gives("k"), claim.Used))
		rec = w.settle(rec, declinedSoft("no"))
		w.same(rec, w.begin(w.gives("k"), claim.Used))
		other := w.settle(w.begin(w.arrival("paid", "100"), claim.Won), approved("yes"))
		w.same(other, w.begin(w.gives("paid"), claim.Used))
		w.expire(other)
		w.begin(w.gives("paid"), claim.TombStone)
		w.free(other)
		w.begin(w.gives("paid"), claim.Won)
	}},
	{"cancel: a holder cannot record what it found out before the mark", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		marked := w.cancel(held)
		require.True(w, marked.Canceled())
		require.Equal(w, held.Fence+1, marked.Fence)
		require.Equal(w, held.Holder, marked.Holder)
		require.True(w, held.LeaseUntil.Equal(marked.LeaseUntil))
		_, err := w.at(w.home).Settle(w.ctx, held, approved("yes"))
		require.ErrorIs(w, err, claim.ErrFenced)
		w.same(marked, w.cancel(held))
		kept, err := w.at(w.home).Renew(w.ctx, held.Holder, []claim.Lease{{Key: held.Key, Home: w.home, Fence: marked.Fence}})
		require.NoError(w, err)
		require.Equal(w, []bool{true}, kept)
		w.begin(w.arrival("k", "100"), claim.Busy)
		require.Equal(w, []claim.Event{claim.EventClaimed, claim.EventCanceled}, w.events(held))

		// Under the mark even a "not now" is final.
		rec := w.settle(w.get(held), declinedSoft("no"))
		require.Equal(w, claim.FailedTerminal, rec.State)
		require.True(w, rec.Canceled())
		w.same(rec, w.begin(w.arrival("k", "100"), claim.Replay))
		w.same(rec, w.begin(w.gives("k"), claim.Used))
		_, err = w.at(w.home).Cancel(w.ctx, rec.Key, w.home, rec.Minted.ID, uuid.New(), "n", w.home)
		require.ErrorIs(w, err, claim.ErrFenced, "it is over")
	}},
	{"cancel: the mark outlives take-overs, and what was deferred is not forgotten", func(w *world) {
		first, v := w.begin(w.arrival("k", "100"), claim.Won), unknown(true)
		v.ID = uuid.New()
		rec := w.settle(first, v)
		marked := w.cancel(rec)
		_, err := w.at(w.home).Settle(w.ctx, first, v)
		require.ErrorIs(w, err, claim.ErrFenced, "the row is the mark's since")
		require.True(w, rec.LeaseUntil.Equal(marked.LeaseUntil), "a settle window is not cut short")
		require.Equal(w, rec.NotFounds, marked.NotFounds)
		w.lapse(rec)
		held := w.begin(w.arrival("k", "100"), claim.WonUnknown)
		require.True(w, marked.CanceledAt.Equal(held.CanceledAt))
		held = w.settle(held, unsent(0))
		require.True(w, marked.CanceledAt.Equal(held.CanceledAt))
		_, err = w.at(w.home).Cancel(w.ctx, rec.Key, w.home, "ch_of_another_life", uuid.New(), "n", w.home)
		require.ErrorIs(w, err, claim.ErrFenced)
		_, err = w.at(w.home).Cancel(w.ctx, w.key("never"), w.home, rec.Minted.ID, uuid.New(), "n", w.home)
		require.ErrorIs(w, err, claim.ErrFenced)
	}},
	{"cancel: a claim that waits is due at once", func(w *world) {
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), pending("payer", 4*w.Policy.Lease))
		require.Empty(w, w.dueIDs(w.home))
		marked := w.cancel(rec)
		w.isDue(rec)
		require.Equal(w, rec.Interim, marked.Interim)
		held, err := w.at(w.home).TakeOver(w.ctx, rec.Key, w.home, rec.Minted.ID, "worker", w.home, claim.News{})
		require.NoError(w, err)
		require.True(w, held.Canceled())
	}},
	{"cancel: another life of the key has no mark", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		w.cancel(held)
		rec := w.settle(w.get(held), declinedHard("no"))
		w.free(rec)
		next := w.begin(w.arrival("k", "100"), claim.Won)
		require.False(w, next.Canceled())
	}},
}

// gives is a request that gives a stamped key up.
func (w *world) gives(key string) claim.Arrival {
	a := w.arrival(key, "{}")
	a.Operation, a.Mint.ID = claim.CancelKey, "key_"+a.Mint.ID
	return a
}

func (w *world) cancel(rec claim.Record) claim.Record {
	w.Helper()
	got, err := w.at(rec.Home).Cancel(w.ctx, rec.Key, rec.Home, rec.Minted.ID, uuid.New(), "clerk", rec.Home)
	require.NoError(w, err)
	w.same(got, w.get(rec))
	return got
}

package claimtest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// testSide makes the test side of w's tenant, and returns w as that side sees it.
func (w *world) testSide() *world {
	test := *w
	test.tenant, test.minted = claim.TestTenant(w.tenant), 1000 // its ids are others
	w.PutTenant(w, claim.Tenant{ID: test.tenant, Name: "Acme", Registrar: w.Regions[0]})
	return &test
}

// elapse lets time pass everywhere for w's tenant.
func (w *world) elapse(by time.Duration) {
	w.Helper()
	for _, home := range w.Regions {
		require.NoError(w, w.at(w.home).Elapse(w.ctx, home, w.tenant, by))
	}
}

var elapseTests = []test{
	{"elapse: a key of a test tenant expires and is free, and the same live key does not", func(w *world) {
		test := w.testSide()
		live := w.settle(w.begin(w.arrival("k", "100"), claim.Won), approved("paid"))
		rec := test.settle(test.begin(test.arrival("k", "100"), claim.Won), approved("tried"))
		within := w.Policy.ReplayFor / 4 // of seconds, where the store's clock is the world's
		test.elapse(within)
		test.same(*rec.Elapsed(within, &w.Policy), test.get(rec))
		require.Equal(w, within, func() time.Duration { aged := test.get(rec); return aged.Ahead() }())
		seen := test.begin(test.arrival("k", "100"), claim.Replay)
		require.Equal(w, answer(201, "tried"), *seen.Response)

		test.elapse(w.Policy.ReplayFor)
		test.begin(test.arrival("k", "100"), claim.TombStone)
		test.elapse(w.Policy.TombstoneFor)
		again := test.begin(test.arrival("k", "101"), claim.Won)
		require.Equal(w, rec.Fence+1, again.Fence)
		require.Zero(w, again.Ahead(), "what begins afterwards begins now")

		w.same(live, w.get(live))
		w.begin(w.arrival("k", "100"), claim.Replay)
	}},
	{"elapse: the time of a live tenant is not moved", func(w *world) {
		test := w.testSide()
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), approved("paid"))
		require.ErrorIs(w, w.at(w.home).Elapse(w.ctx, w.home, w.tenant, time.Hour), claim.ErrLive)
		test.elapse(2 * w.Policy.PinLife())
		w.same(rec, w.get(rec))
		require.Zero(w, rec.Elapsed(time.Hour, &w.Policy).Ahead(), "of a live tenant, whatever its row says")
	}},
	{"elapse: a call and an expiry are due earlier", func(w *world) {
		test := w.testSide()
		held := test.begin(test.arrival("k", "100"), claim.Won)
		v := unknown(false)
		v.Outcome.(*claim.Unknown).RetryIn = time.Hour
		test.settle(held, v)
		released := declinedSoft("no")
		released.Outcome.(*claim.Released).Expiry = &outbox.Message{Operation: "charge", Payload: []byte("100"), Due: test.now().Add(time.Hour)}
		closing := test.settle(test.begin(test.arrival("c", "100"), claim.Won), released)
		live := w.begin(w.arrival("k", "100"), claim.Won)
		w.settle(live, v)

		require.Empty(w, test.dueIDs(test.home))
		test.elapse(time.Hour)
		test.isDue(held, "and not that of the live tenant")
		require.Equal(w, closing.Minted.ID, w.takeOne(outbox.Expiries).ID)
	}},
	{"elapse: an unknown outcome is asked for as often as the time allows, but for the last two times", func(w *world) {
		test := w.testSide()
		held := test.begin(test.arrival("k", "100"), claim.Won)
		rec := test.settle(held, unknown(false))
		test.elapse(w.Policy.BackoffMax - time.Microsecond)
		require.EqualValues(w, 1, test.get(rec).Unknowns)
		test.elapse(2 * w.Policy.BackoffMax)
		require.Equal(w, min(3, max(1, w.Policy.MaxUnknowns-2)), test.get(rec).Unknowns)
		aged := test.get(rec)
		test.elapse(time.Hour)
		test.same(*aged.Elapsed(time.Hour, &w.Policy), test.get(rec))
		test.elapse(1000 * w.Policy.BackoffMax)
		for last := range 2 {
			taken, err := w.at(w.home).TakeOver(w.ctx, rec.Key, w.home, rec.Minted.ID, "heir", w.home, claim.News{})
			require.NoError(w, err)
			rec = test.settle(taken, unknown(false))
			require.Equal(w, last == 1, rec.State == claim.FailedTerminal)
			if last == 0 {
				test.elapse(w.Policy.BackoffMax + w.Policy.ClockOffset) // which a take-over waits longer
			}
		}
		other := test.begin(test.arrival("o", "100"), claim.Won)
		test.elapse(1000 * w.Policy.BackoffMax)
		require.Zero(w, test.get(other).Unknowns, "who holds it knows of none")
	}},
	{"elapse: a holder keeps its lease and its claim", func(w *world) {
		test := w.testSide()
		rec := test.begin(test.arrival("k", "100"), claim.Won)
		test.elapse(w.Policy.LeaseCeiling)
		aged := test.get(rec)
		require.True(w, rec.LeaseUntil.Equal(aged.LeaseUntil))
		test.begin(test.arrival("k", "100"), claim.Busy)
		test.settle(rec, approved("tried"))
		require.Equal(w, claim.Completed, test.get(rec).State)
	}},
	{"elapse: audit keeps its times", func(w *world) {
		test := w.testSide()
		for _, key := range []string{"open", "settled", "released"} {
			rec := test.begin(test.arrival(key, "100"), claim.Won)
			before := test.audit(rec)
			if key == "released" {
				rec = test.settle(rec, declinedSoft("no"))
				before = test.audit(rec)
			}
			require.NotEmpty(w, before)
			for range 2 {
				test.elapse(time.Hour)
				require.Equal(w, before, test.audit(rec))
			}
			if key == "settled" {
				test.settle(rec, approved("tried"))
				require.Equal(w, before, test.audit(rec)[:len(before)])
			}
		}
	}},
	{"elapse: the home of an opaque key is forgotten, and that of the same live key is not", func(w *world) {
		test := w.testSide()
		w.pin(w.home, "order", w.home)
		test.pin(w.home, "order", w.home)
		test.elapse(w.Policy.PinLife())
		require.Equal(w, w.Regions[1], test.pin(w.Regions[1], "order", w.Regions[1]).Home)
		require.Equal(w, w.home, w.pin(w.Regions[1], "order", w.Regions[1]).Home)
	}},
	{"sides: neither reads, begins or settles what the other has", func(w *world) {
		test := w.testSide()
		for _, side := range []struct{ has, sees *world }{{w, test}, {test, w}} {
			key := "only-" + side.has.tenant
			rec := side.has.settle(side.has.begin(side.has.arrival(key, "100"), claim.Won), declinedHard("no"))
			other := rec
			other.Key = side.sees.key(key)
			at := w.at(w.home)
			_, _, found, err := at.Get(w.ctx, other.Key, w.home)
			require.NoError(w, err)
			require.False(w, found, "Get")
			_, _, found, err = at.Object(w.ctx, side.sees.tenant, w.home, rec.Minted.ID)
			require.NoError(w, err)
			require.False(w, found, "Object")
			line, err := at.Timeline(w.ctx, other.Key, w.home, 100)
			require.NoError(w, err)
			require.Empty(w, line, "Timeline")
			w.until(rec.SettledAt.Add(w.ReplicaLag))
			shown, err := at.Replica(w.ctx, other.Key)
			require.NoError(w, err)
			require.Equal(w, claim.Shown{}, shown, "Replica")
			held, err := at.Renew(w.ctx, rec.Holder, []claim.Lease{{Key: other.Key, Home: w.home, Fence: rec.Fence}})
			require.NoError(w, err)
			require.Equal(w, []bool{false}, held, "Renew")
			own := side.sees.begin(side.sees.arrival(key, "other"), claim.Won) // with a request of its own
			_, err = at.TakeOver(w.ctx, own.Key, w.home, rec.Minted.ID, "thief", w.home, claim.News{})
			require.ErrorIs(w, err, claim.ErrFenced, "TakeOver")
			_, err = at.Settle(w.ctx, other, approved("stolen"))
			require.Error(w, err, "Settle")
			side.sees.settle(own, approved("own"))
			side.has.same(rec, side.has.get(rec))
		}
	}},
}

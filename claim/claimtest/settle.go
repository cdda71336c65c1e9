package claimtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

func cancelled(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	cancel()
	return ctx, cancel
}

var settleTests = []test{
	{"settle: a success is final and removes the outbox row", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		rec := w.settle(held, approved("paid"))
		require.Equal(w, claim.Completed, rec.State)
		require.Equal(w, "psp_1", rec.ProviderRef)
		require.Empty(w, rec.Holder)
		require.False(w, rec.SettledAt.IsZero())
		w.same(rec, w.get(rec))
		require.Zero(w, w.pending(w.home))
		w.until(held.LeaseUntil)
		require.Empty(w, w.dueIDs(w.home))
		require.Equal(w, []claim.Event{claim.EventClaimed, claim.EventAttempt, claim.EventSettled}, w.events(rec))
	}},
	{"settle: unstorable text of a provider does not keep an outcome from being recorded", func(w *world) {
		for i, words := range []string{"a\x00b", "cut inside \xe2\x82", strings.Repeat("ü", 5000), "\xff\xfe\x00"} {
			v := declinedHard("no")
			no := v.Outcome.(*claim.Refused)
			no.Reason, no.ProviderRef = words, words
			rec := w.settle(w.begin(w.arrival(fmt.Sprint("k", i), "100"), claim.Won), v)
			require.Equal(w, claim.FailedTerminal, rec.State)
			w.same(rec, w.get(rec))
			for _, kept := range []string{rec.Reason, rec.ProviderRef} {
				require.True(w, utf8.ValidString(kept))
				require.NotContains(w, kept, "\x00")
				require.NotEmpty(w, kept)
				require.Less(w, len(kept), 1000)
			}
			v = claim.Verdict{Outcome: &claim.Unknown{Reason: words}}
			rec = w.settle(w.begin(w.arrival(fmt.Sprint("u", i), "100"), claim.Won), v)
			require.Equal(w, uint32(1), rec.Unknowns)
			w.same(rec, w.get(rec))
		}
	}},
	{"settle: a hard decline is remembered", func(w *world) {
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), declinedHard("stolen"))
		require.Equal(w, claim.FailedTerminal, rec.State)
		require.Equal(w, "stolen_card", rec.Reason)
		seen := w.begin(w.arrival("k", "100"), claim.Replay)
		require.Equal(w, answer(402, "stolen"), *seen.Response)
	}},
	{"settle: a soft decline releases the key for a new generation", func(w *world) {
		first := w.begin(w.arrival("k", "100"), claim.Won)
		rec := w.settle(first, declinedSoft("no funds"))
		require.Equal(w, claim.FailedRetry, rec.State)
		require.Nil(w, rec.Response)
		require.Zero(w, w.pending(w.home))

		again := w.begin(w.arrival("k", "100"), claim.Won)
		require.Equal(w, first.Generation+1, again.Generation)
		require.Equal(w, first.Fence+1, again.Fence)
		require.Equal(w, first.Attempts+1, again.Attempts)
		require.NotEqual(w, first.ProviderKey, again.ProviderKey, "the old key would fetch the cached decline")
		require.Equal(w, first.Minted, again.Minted, "minted once")
		require.True(w, again.FirstUse.Equal(first.FirstUse))
		require.Empty(w, again.Reason)
		require.True(w, again.SettledAt.IsZero())
		w.same(again, w.get(again))
		require.Equal(w, 1, w.pending(w.home))

		w.settle(again, approved("paid"))
		require.Equal(w, []claim.Event{
			claim.EventClaimed, claim.EventAttempt, claim.EventReleased,
			claim.EventReclaimed, claim.EventAttempt, claim.EventSettled,
		}, w.events(rec))
	}},
	{"settle: the last generation's soft decline is final", func(w *world) {
		for g := uint32(1); ; g++ {
			rec := w.begin(w.arrival("k", "100"), claim.Won)
			require.Equal(w, g, rec.Generation)
			rec = w.settle(rec, declinedSoft("no funds"))
			if g == w.Policy.MaxGenerations {
				require.Equal(w, claim.FailedTerminal, rec.State)
				break
			}
			require.Equal(w, claim.FailedRetry, rec.State)
		}
		seen := w.begin(w.arrival("k", "100"), claim.Replay)
		require.Equal(w, answer(402, "no funds"), *seen.Response)
	}},
	{"settle: an unknown outcome stays in flight and the outbox owns it", func(w *world) {
		first := w.begin(w.arrival("k", "100"), claim.Won)
		v, wish := unknown(false), w.Policy.Lease/2
		v.Outcome.(*claim.Unknown).RetryIn = wish
		before := w.now()
		rec := w.settle(first, v)
		require.Equal(w, claim.InFlight, rec.State)
		require.Empty(w, rec.Holder)
		require.Nil(w, rec.Response)
		require.Equal(w, uint32(1), rec.Unknowns)
		require.False(w, rec.LeaseUntil.Before(before.Add(wish)), "the provider's wish is a floor")
		w.same(rec, w.get(rec))
		w.begin(w.arrival("k", "100"), claim.Busy)
		require.Empty(w, w.dueIDs(w.home))

		w.lapse(rec)
		w.isDue(first)
		next, err := w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "worker", w.home, claim.News{})
		require.NoError(w, err)
		require.Equal(w, first.ProviderKey, next.ProviderKey, "money may have moved under it")
		require.Equal(w, first.Generation, next.Generation)
		require.Equal(w, rec.Fence+1, next.Fence)
		require.Empty(w, w.dueIDs(w.home), "the row waits for the new lease")
		done := w.settle(next, approved("paid"))
		require.Equal(w, first.Minted, done.Minted)
		require.Equal(w, []claim.Event{
			claim.EventClaimed, claim.EventAttempt, claim.EventDeferred,
			claim.EventTakenOver, claim.EventAttempt, claim.EventSettled,
		}, w.events(rec))
	}},
	{"settle: who learns the outcome does not wait for the next attempt", func(w *world) {
		first := w.begin(w.arrival("k", "100"), claim.Won)
		v := unknown(false)
		v.Outcome.(*claim.Unknown).RetryIn = time.Hour
		rec := w.settle(first, v)
		w.begin(w.arrival("k", "100"), claim.Busy)
		for _, news := range []claim.News{{}, {Generation: 2}, {Provider: "other", Generation: 2}} {
			_, err := w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "worker", w.home, news)
			require.ErrorIs(w, err, claim.ErrLeaseHeld, "%v may have to ask", news)
		}
		heard, err := w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "receiver", w.home, claim.News{Generation: 1})
		require.NoError(w, err, "nobody holds it")
		require.Equal(w, rec.Fence+1, heard.Fence)
		require.True(w, heard.LeaseUntil.Before(rec.LeaseUntil))
		_, err = w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "worker", w.home, claim.News{})
		require.ErrorIs(w, err, claim.ErrLeaseHeld)
		w.settle(heard, approved("paid"))
		w.begin(w.arrival("k", "100"), claim.Replay)
		require.Zero(w, w.pending(w.home))
	}},
	{"settle: consecutive look-ups that find nothing are counted", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		for i, step := range []struct {
			notFound bool
			want     uint32
		}{{true, 1}, {true, 2}, {false, 0}, {true, 1}} {
			if uint32(i+1) >= w.Policy.MaxUnknowns {
				break
			}
			rec = w.settle(rec, unknown(step.notFound))
			require.Equal(w, step.want, rec.NotFounds)
			require.Equal(w, uint32(i+1), rec.Unknowns)
		}
	}},
	{"take over: look-ups count anew after a holder that may have called", func(w *world) {
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), unknown(true))
		require.EqualValues(w, 1, rec.NotFounds)
		for _, want := range []uint32{1, 0} { // the first holder recorded its verdict, the second records none
			w.lapse(rec)
			next, err := w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "worker", w.home, claim.News{})
			require.NoError(w, err)
			require.Equal(w, want, next.NotFounds)
			w.same(next, w.get(next))
			rec = next
		}
	}},
	{"take over: a claim that was never sent counts as not found until a holder may have called", func(w *world) {
		first := w.begin(w.arrival("k", "100"), claim.Won)
		rec := w.settle(first, claim.Verdict{Outcome: &claim.Unsent{NotFound: true, RetryIn: w.Policy.Lease}})
		require.EqualValues(w, 1, rec.NotFounds)
		w.same(rec, w.get(rec))
		for _, want := range []uint32{1, 0} { // the first holder recorded its verdict, the second records none
			w.lapse(rec)
			next, err := w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "worker", w.home, claim.News{})
			require.NoError(w, err)
			require.Equal(w, want, next.NotFounds)
			rec = next
		}
	}},
	{"settle: the last allowed unknown ends the claim", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		for range w.Policy.MaxUnknowns {
			require.Equal(w, claim.InFlight, rec.State)
			rec = w.settle(rec, unknown(false))
		}
		require.Equal(w, claim.FailedTerminal, rec.State)
		require.Equal(w, claim.ReasonOutcomeUnknown, rec.Reason)
		require.Zero(w, w.pending(w.home))
		events := w.events(rec)
		require.Equal(w, claim.EventGivenUp, events[len(events)-1])
		seen := w.begin(w.arrival("k", "100"), claim.Replay)
		require.Equal(w, answer(502, "given up"), *seen.Response)
	}},
	{"settle: an attempt that sent nothing is not counted, and is recorded once", func(w *world) {
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), unknown(true))
		require.Equal(w, []uint32{1, 1}, []uint32{rec.Unknowns, rec.NotFounds})
		for range 2 * w.Policy.MaxUnknowns { // it is never given up
			held, before := rec, w.now()
			rec = w.settle(held, unsent(w.Policy.Lease))
			require.Equal(w, claim.InFlight, rec.State)
			require.Empty(w, rec.Holder)
			require.Equal(w, held.Fence+1, rec.Fence)
			require.Equal(w, []uint32{1, 1}, []uint32{rec.Unknowns, rec.NotFounds})
			require.False(w, rec.LeaseUntil.Before(before.Add(w.Policy.Lease)), "the wish is a floor")
			w.same(rec, w.get(rec))
			_, err := w.at(w.home).Settle(w.ctx, held, unsent(0))
			require.ErrorIs(w, err, claim.ErrFenced)
			_, err = w.at(w.home).Settle(w.ctx, held, approved("paid"))
			require.ErrorIs(w, err, claim.ErrFenced, "a holder with a recorded verdict has released the lease")
		}
		require.Equal(w, 1, w.pending(w.home), "the outbox owns it")
		fences := []uint64{}
		trail, err := w.at(w.home).Timeline(w.ctx, rec.Key, rec.Home, 6)
		require.NoError(w, err)
		for _, e := range trail[len(trail)-2:] {
			fences = append(fences, e.Fence)
		}
		require.Equal(w, []uint64{rec.Fence - 1, rec.Fence}, fences, "the attempt was under the old one")
		require.Equal(w, claim.Completed, w.settle(rec, approved("paid")).State)
	}},
	{"settle: a fenced holder changes nothing", func(w *world) {
		old := w.begin(w.arrival("k", "100"), claim.Won)
		w.lapse(old)
		rec := w.begin(w.arrival("k", "100"), claim.WonUnknown)
		require.Equal(w, old.Fence+1, rec.Fence)
		for _, v := range []claim.Verdict{approved("late"), declinedHard("late"), declinedSoft("late"), unknown(false)} {
			_, err := w.at(w.home).Settle(w.ctx, old, v)
			require.ErrorIs(w, err, claim.ErrFenced)
		}
		w.same(rec, w.get(rec))
		require.Equal(w, 1, w.pending(w.home))
		done := w.settle(rec, approved("paid"))
		for _, v := range []claim.Verdict{approved("twice"), declinedHard("no"), declinedSoft("not now"), unknown(false), pending("payer", 0), unsent(0)} {
			_, err := w.at(w.home).Settle(w.ctx, rec, v)
			require.ErrorIs(w, err, claim.ErrFenced, v.Outcome.String())
			w.same(done, w.get(rec))
		}
		require.Equal(w, []claim.Event{claim.EventClaimed, claim.EventTakenOver, claim.EventAttempt, claim.EventSettled}, w.events(rec))
	}},
	{"settle: a holder with a recorded verdict has no second one", func(w *world) {
		// An unknown outcome raises no fence.
		held := w.begin(w.arrival("k", "100"), claim.Won)
		once := w.settle(held, unknown(false))
		require.Equal(w, held.Fence, once.Fence)
		for _, v := range []claim.Verdict{approved("paid"), declinedHard("no"), declinedSoft("not now"), unknown(false)} {
			_, err := w.at(w.home).Settle(w.ctx, held, v)
			require.ErrorIs(w, err, claim.ErrFenced, v.Outcome.String())
		}
		w.same(once, w.get(held))
	}},
	{"settle: a claim under a key that is used anew is another one", func(w *world) {
		first := w.arrival("k", "100")
		old := w.begin(first, claim.Won)
		w.forgotten(w.settle(old, approved("paid")))
		held := w.begin(w.arrival("k", "100"), claim.Won)
		require.Equal(w, old.Fence, held.Fence, "the new row begins as the old one did")
		for _, v := range []claim.Verdict{approved("late"), declinedHard("late"), declinedSoft("late"), unknown(false), pending("processing", time.Hour)} {
			_, err := w.at(w.home).Settle(w.ctx, old, v)
			require.ErrorIs(w, err, claim.ErrFenced, v.Outcome.String())
		}
		w.same(held, w.get(held))
	}},
	{"settle: a retried verdict returns the row that it left", func(w *world) {
		for i, v := range []claim.Verdict{approved("paid"), declinedHard("stolen"), declinedSoft("no funds"), unknown(true), unsent(0)} {
			held := w.begin(w.arrival(fmt.Sprint("k", i), "100"), claim.Won)
			require.Zero(w, held.Verdict)
			v.ID = uuid.New()
			emitting(v, Events(held, 1))
			if done, ok := v.Outcome.(*claim.Done); ok {
				done.Posting = Posting(held, held.Minted.ID)
			}
			done := w.settle(held, v)
			require.Equal(w, v.ID, done.Verdict)
			w.same(done, w.get(held))
			events := w.events(held)
			for _, region := range w.Regions {
				again, err := w.at(region).Settle(w.ctx, held, v)
				require.NoError(w, err)
				w.same(done, again)
			}
			require.Equal(w, events, w.events(held), "recorded once")
			other := v
			other.ID = uuid.New()
			_, err := w.at(w.home).Settle(w.ctx, held, other)
			require.ErrorIs(w, err, claim.ErrFenced, "a second verdict comes too late, whatever its outcome")
			w.same(done, w.get(held))
		}
	}},
	{"settle: a moved claim waits for a take-over by its new provider", func(w *world) {
		a := w.arrival("k", "100")
		a.Provider = "a"
		held := w.begin(a, claim.Won)
		v := claim.Verdict{ID: uuid.New(), Outcome: &claim.Moved{Next: "b", Reason: "busy"}, Node: "n", Region: "r"}
		moved := w.settle(held, v)
		require.Equal(w, claim.InFlight, moved.State)
		require.Empty(w, moved.Holder)
		require.Equal(w, []uint64{held.Fence + 1, 2}, []uint64{moved.Fence, uint64(moved.Generation)})
		with, ok := moved.With([]string{"a", "b"})
		require.Equal(w, []any{"b", true}, []any{with, ok})
		w.same(moved, w.get(held))
		require.Equal(w, 1, w.pending(w.home))
		again, err := w.at(w.home).Settle(w.ctx, held, v)
		require.NoError(w, err, "a repeat returns the row, and wrote nothing")
		w.same(moved, again)
		_, err = w.at(w.home).Settle(w.ctx, held, approved("of the first"))
		require.ErrorIs(w, err, claim.ErrFenced, "the first provider's generation is over")
		next, err := w.at(w.home).TakeOver(w.ctx, held.Key, held.Home, held.Minted.ID, "node", w.home, claim.News{})
		require.NoError(w, err, "at once")
		require.Equal(w, moved.Fence+1, next.Fence, "another holder had it in between")
		require.Equal(w, moved.ProviderKey, next.ProviderKey)
		done := w.settle(next, approved("paid"))
		w.same(done, w.get(held))
		require.Zero(w, w.pending(w.home))
		require.Equal(w, []claim.Event{
			claim.EventClaimed, claim.EventAttempt, claim.EventMoved, claim.EventTakenOver, claim.EventAttempt, claim.EventSettled,
		}, w.events(held))
	}},
	{"settle: a retried verdict is fenced once another holder has the claim", func(w *world) {
		for i, v := range []claim.Verdict{declinedSoft("no funds"), unknown(false), unsent(0)} {
			a := w.arrival(fmt.Sprint("k", i), "100")
			held := w.begin(a, claim.Won)
			v.ID = uuid.New()
			done := w.settle(held, v)
			want := claim.Won
			if done.State == claim.InFlight {
				w.lapse(done)
				want = claim.WonUnknown
			}
			next := w.begin(a, want)
			require.Zero(w, next.Verdict)
			_, err := w.at(w.home).Settle(w.ctx, held, v)
			require.ErrorIs(w, err, claim.ErrFenced)
			w.same(next, w.get(next))
		}
	}},
	{"settle: concurrent retries of a verdict are recorded once", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		v := withEffects(approved("paid"), held, time.Time{})
		v.ID = uuid.New()
		answers := make([]claim.Record, 6)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() {
				var err error
				answers[i], err = w.at(w.Regions[i%len(w.Regions)]).Settle(w.ctx, held, v)
				assert.NoError(w, err)
			})
		}
		all.Wait()
		for _, a := range answers {
			w.same(w.get(held), a)
		}
		require.Equal(w, []claim.Event{claim.EventClaimed, claim.EventAttempt, claim.EventSettled}, w.events(held))
	}},
	{"settle: without a claim it is fenced", func(w *world) {
		_, err := w.at(w.home).Settle(w.ctx, claim.Record{Key: w.key("none"), Home: w.home, Fence: 1, State: claim.InFlight}, approved("paid"))
		require.ErrorIs(w, err, claim.ErrFenced)
		_, err = w.at(w.home).TakeOver(w.ctx, w.key("none"), w.home, "ch_none", "node", w.home, claim.News{})
		require.ErrorIs(w, err, claim.ErrFenced)
	}},
	{"settle: a large response is stored byte for byte", func(w *world) {
		body := make([]byte, 200<<10)
		for i := range body {
			body[i] = byte(i * 7)
		}
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), approved(string(body)))
		seen := w.begin(w.arrival("k", "100"), claim.Replay)
		require.Equal(w, body, seen.Response.Body)
		w.same(rec, seen)
	}},
	{"settle: any region may settle for a home", func(w *world) {
		a := w.arrival("k", "100")
		got, err := w.at(w.Regions[1]).Begin(w.ctx, a)
		require.NoError(w, err)
		require.Equal(w, claim.Won, got.Decision)
		done, err := w.at(w.Regions[2]).Settle(w.ctx, got.Record, approved("paid"))
		require.NoError(w, err)
		w.same(done, w.get(done))
		w.begin(a, claim.Replay)
	}},
}

var answerTests = []test{
	{"answer: a verdict without a response does not end a claim", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		for g := uint32(1); ; g++ {
			for _, status := range []int{0, 100, 600} {
				none := claim.Response{Status: status}
				for _, o := range []claim.Outcome{&claim.Done{Response: none}, &claim.Refused{Response: none}, &claim.Released{Response: none}} {
					_, err := w.at(w.home).Settle(w.ctx, rec, claim.Verdict{Outcome: o, Node: "n", Region: "r"})
					require.ErrorIs(w, err, claim.ErrNoResponse)
					require.NotErrorIs(w, err, claim.ErrUnavailable, "the store did nothing, for certain")
				}
			}
			w.same(rec, w.get(rec))
			if g == w.Policy.MaxGenerations {
				break
			}
			w.settle(rec, declinedSoft("no funds"))
			rec = w.begin(w.arrival("k", "100"), claim.Won)
		}
		require.Equal(w, 1, w.pending(w.home))
		w.settle(rec, approved("paid"))
	}},
	{"answer: an unknown whose last answer cannot be sent is never given up", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		for range w.Policy.MaxUnknowns + 1 {
			rec = w.settle(rec, claim.Verdict{Outcome: &claim.Unknown{GiveUp: &claim.GivenUp{}}})
			require.Equal(w, claim.InFlight, rec.State)
		}
		rec = w.settle(rec, unknown(false))
		require.Equal(w, claim.FailedTerminal, rec.State)
	}},
	{"answer: a closing without a response closes nothing", func(w *world) {
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), declinedSoft("no funds"))
		_, err := w.at(w.home).Settle(w.ctx, rec, claim.Verdict{Outcome: &claim.Refused{Reason: "fault"}})
		require.ErrorIs(w, err, claim.ErrNoResponse)
		w.same(rec, w.get(rec))
	}},
}

var leaseTests = []test{
	{"lease: a recovery of an earlier life cannot take the new claim", func(w *world) {
		old := w.settle(w.begin(w.arrival("k", "100"), claim.Won), approved("paid"))
		w.free(old)
		rec := w.begin(w.arrival("k", "200"), claim.Won)
		w.lapse(rec)
		_, err := w.at(w.home).TakeOver(w.ctx, old.Key, old.Home, old.Minted.ID, "late worker", w.home, claim.News{})
		require.ErrorIs(w, err, claim.ErrFenced)
		w.same(rec, w.get(rec))
		_, err = w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "worker", w.home, claim.News{})
		require.NoError(w, err)
	}},
	{"lease: one further ahead than any can lie has lapsed, or begins anew", func(w *world) {
		if w.Advance == nil {
			w.Skip("its clock cannot be set back")
		}
		dead, alive := w.begin(w.arrival("k", "100"), claim.Won), w.begin(w.arrival("alive", "100"), claim.Won)
		before := w.now()
		w.Advance(-time.Hour)
		if w.now().Add(time.Hour / 2).After(before) {
			w.Skip("its clock does not go back")
		}
		held, err := w.at(w.home).Renew(w.ctx, alive.Holder, []claim.Lease{{Key: alive.Key, Home: alive.Home, Fence: alive.Fence}})
		require.NoError(w, err)
		require.Equal(w, []bool{true}, held)
		require.True(w, w.get(alive).LeaseUntil.Equal(w.now().Add(w.Policy.Lease)))
		w.begin(w.arrival("alive", "100"), claim.Busy)
		again := w.begin(w.arrival("k", "100"), claim.WonUnknown)
		require.Greater(w, again.Fence, dead.Fence)
		require.True(w, again.LeaseUntil.Equal(w.now().Add(w.Policy.Lease)))
		w.settle(again, approved("paid"))
	}},
	{"lease: renewing extends it, for the holder only", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		w.until(rec.HeldSince.Add(w.Policy.RenewEvery))
		lease := claim.Lease{Key: rec.Key, Home: rec.Home, Fence: rec.Fence}
		stale := lease
		stale.Fence++
		none := claim.Lease{Key: w.key("none"), Home: w.home, Fence: 1}
		held, err := w.at(w.home).Renew(w.ctx, rec.Holder, []claim.Lease{none, lease, stale})
		require.NoError(w, err)
		require.Equal(w, []bool{false, true, false}, held)
		renewed := w.get(rec)
		require.True(w, renewed.LeaseUntil.After(rec.LeaseUntil))
		require.Equal(w, rec.Fence, renewed.Fence)

		held, err = w.at(w.home).Renew(w.ctx, "another", []claim.Lease{lease})
		require.NoError(w, err)
		require.Equal(w, []bool{false}, held)
		w.same(renewed, w.get(rec))

		held, err = w.at(w.home).Renew(w.ctx, rec.Holder, nil)
		require.NoError(w, err)
		require.Empty(w, held)
	}},
	{"lease: leases of several homes are renewed in one step", func(w *world) {
		var leases []claim.Lease
		var recs []claim.Record
		for i, k := range []string{"a", "b", "c", "d", "e"} {
			a := w.arrival(k, "100")
			a.Home, a.Node = w.Regions[i%3], "one node"
			rec := w.begin(a, claim.Won)
			recs = append(recs, rec)
			leases = append(leases, claim.Lease{Key: rec.Key, Home: rec.Home, Fence: rec.Fence})
		}
		w.settle(recs[1], approved("paid"))
		w.until(recs[4].HeldSince.Add(w.Policy.RenewEvery))
		held, err := w.at(w.home).Renew(w.ctx, "one node", leases)
		require.NoError(w, err)
		require.Equal(w, []bool{true, false, true, true, true}, held)
	}},
	{"lease: no renewal goes beyond the ceiling", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		lease := []claim.Lease{{Key: rec.Key, Home: rec.Home, Fence: rec.Fence}}
		ceiling := rec.HeldSince.Add(w.Policy.LeaseCeiling)
		for i := 1; ; i++ {
			w.until(rec.HeldSince.Add(time.Duration(i) * w.Policy.RenewEvery))
			held, err := w.at(w.home).Renew(w.ctx, rec.Holder, lease)
			require.NoError(w, err)
			got := w.get(rec)
			require.False(w, got.LeaseUntil.After(ceiling))
			if !held[0] {
				require.True(w, got.LeaseUntil.Equal(ceiling))
				break
			}
			require.True(w, w.Advance == nil || w.now().Before(got.LeaseUntil), "held is before its end")
		}
		w.until(ceiling.Add(w.Policy.ClockOffset))
		next := w.begin(w.arrival("k", "100"), claim.WonUnknown)
		require.Equal(w, rec.Fence+1, next.Fence)
	}},
	{"lease: it is held until ClockOffset after its end", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		_, err := w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "thief", w.home, claim.News{})
		require.ErrorIs(w, err, claim.ErrLeaseHeld)
		if w.Advance != nil {
			w.until(rec.LeaseUntil.Add(w.Policy.ClockOffset - time.Microsecond))
			_, err = w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "thief", w.home, claim.News{})
			require.ErrorIs(w, err, claim.ErrLeaseHeld)
			w.begin(w.arrival("k", "100"), claim.Busy)
		}
		w.lapse(rec)
		next, err := w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "heir", w.Regions[1], claim.News{})
		require.NoError(w, err)
		require.Equal(w, rec.Fence+1, next.Fence)
		require.Equal(w, "heir", next.Holder)
		require.Equal(w, rec.Attempts+1, next.Attempts)
		require.Equal(w, rec.ProviderKey, next.ProviderKey)
		w.same(next, w.get(rec))
		held, err := w.at(w.home).Renew(w.ctx, rec.Holder, []claim.Lease{{Key: rec.Key, Home: rec.Home, Fence: rec.Fence}})
		require.NoError(w, err)
		require.Equal(w, []bool{false}, held, "the old holder is fenced")
		_, err = w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "thief", w.home, claim.News{})
		require.ErrorIs(w, err, claim.ErrLeaseHeld)
	}},
	{"lease: a settled claim cannot be taken over", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		w.settle(rec, approved("paid"))
		w.lapse(rec)
		_, err := w.at(w.home).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, "thief", w.home, claim.News{})
		require.ErrorIs(w, err, claim.ErrFenced)
	}},
}

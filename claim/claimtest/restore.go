package claimtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// witnessOf is what the exported audit shows of a claim that arrival a created and its
// store has lost.
func (w *world) witnessOf(a claim.Arrival, generation uint32) claim.Witness {
	return claim.Witness{
		Key: a.Key, Home: a.Home, Object: "ch_lost_" + a.Key.Value, FirstUse: w.now().Add(-time.Minute), Fingerprint: a.Print,
		Fence: 4, Generation: generation, Provider: "simulator", Operation: a.Operation,
	}
}

// witnessed is an arrival under a key with a lost claim.
func (w *world) witnessed(key, body string) claim.Arrival {
	a := w.arrival(key, body)
	a.Providers, a.Provider = []string{"simulator"}, "simulator"
	return a
}

// reattach sends a to its claim, with its witness.
func (w *world) reattach(a claim.Arrival, witness claim.Witness, want claim.Decision) claim.Record {
	w.Helper()
	return w.arrives(a, want, func() (claim.Begun, error) { return w.at(a.Home).Reattach(w.ctx, a, witness) })
}

var restoreTests = []test{
	{"restore: a lost claim is begun again from its witness, once", func(w *world) {
		witness := w.witnessOf(w.arrival("k", "100"), 3)
		w.reattach(w.witnessed("k", "101"), witness, claim.Mismatch)
		a := w.witnessed("k", "100")
		a.CompareOnly = true // only the witness allows it
		rec := w.reattach(a, witness, claim.WonUnknown)

		require.Equal(w, witness.Object, rec.Minted.ID)
		require.Equal(w, witness.FirstUse, rec.FirstUse)
		require.Equal(w, witness.FirstUse.Truncate(time.Second), rec.Minted.Created)
		require.Equal(w, uint64(5), rec.Fence)
		require.Equal(w, uint32(3), rec.Generation)
		require.Equal(w, a.Node, rec.Holder)
		with, ok := rec.With([]string{"other", "simulator"})
		require.True(w, ok)
		require.Equal(w, "simulator", with, "the provider key names whom the lost claim was with")
		w.same(rec, w.get(rec))
		require.Equal(w, 1, w.pending(w.home), "a crash from here on is recovered")
		require.Equal(w, []claim.Event{claim.EventRestored}, w.events(rec))

		w.reattach(w.witnessed("k", "100"), witness, claim.Busy)
		w.lapse(rec)
		rec = w.reattach(w.witnessed("k", "100"), witness, claim.WonUnknown)
		require.Equal(w, uint64(6), rec.Fence)
		rec = w.settle(rec, approved("paid"))
		require.Zero(w, w.pending(w.home))
		w.same(rec, w.reattach(w.witnessed("k", "100"), witness, claim.Replay))
		byObject, _, found, err := w.at(w.home).Object(w.ctx, w.tenant, w.home, witness.Object)
		require.NoError(w, err)
		require.True(w, found)
		w.same(rec, byObject)
	}},
	{"restore: of concurrent arrivals with a witness exactly one begins", func(w *world) {
		witness := w.witnessOf(w.arrival("k", "100"), 1)
		const many = 8
		decisions := make(chan claim.Decision, many)
		var wait sync.WaitGroup
		for range many {
			a := w.witnessed("k", "100")
			wait.Go(func() {
				if got, err := w.at(w.home).Reattach(w.ctx, a, witness); err == nil {
					decisions <- got.Decision
				}
			})
		}
		wait.Wait()
		close(decisions)
		won, all := 0, 0
		for d := range decisions {
			if all++; d == claim.WonUnknown {
				won++
			}
		}
		require.Equal(w, many, all)
		require.Equal(w, 1, won)
		require.Equal(w, 1, w.pending(w.home))
	}},
	{"restore: a witness continues a released claim of the backup", func(w *world) {
		first := w.arrival("k", "100")
		first.Provider = "simulator"
		released := w.settle(w.begin(first, claim.Won), declinedSoft("no"))
		witness := w.witnessOf(first, 2)
		witness.Object, witness.Fence, witness.FirstUse = released.Minted.ID, 9, time.Time{}

		same := witness
		same.Generation = 1
		a := w.witnessed("k", "100")
		a.CompareOnly = true
		w.reattach(a, same, claim.NeedPin) // nothing shows whether a second generation was begun
		rec := w.reattach(w.witnessed("k", "100"), witness, claim.WonUnknown)
		require.Equal(w, uint64(10), rec.Fence)
		require.Equal(w, uint32(2), rec.Generation)
		require.Equal(w, released.FirstUse, rec.FirstUse)
		require.Equal(w, released.Minted, rec.Minted)
		w.same(rec, w.get(rec))
		rec = w.settle(rec, approved("paid"))
		w.same(rec, w.begin(w.arrival("k", "100"), claim.Replay))
	}},
	{"restore: a witness continues a claim in flight of the backup", func(w *world) {
		first := w.arrival("k", "100")
		first.Provider = "other"
		old := w.begin(first, claim.Won)
		witness := w.witnessOf(first, 2)
		witness.Object, witness.FirstUse = old.Minted.ID, time.Time{}
		w.reattach(w.witnessed("k", "100"), witness, claim.Busy) // another request holds it
		w.lapse(old)

		another := witness
		another.Object = "ch_another"
		w.reattach(w.witnessed("k", "100"), another, claim.Busy)
		w.same(old, w.get(old))

		rec := w.reattach(w.witnessed("k", "100"), witness, claim.WonUnknown)
		require.Equal(w, old.Minted, rec.Minted)
		require.Equal(w, old.FirstUse, rec.FirstUse)
		require.Equal(w, uint32(2), rec.Generation)
		require.Equal(w, uint64(5), rec.Fence)
		with, ok := rec.With([]string{"other", "simulator"})
		require.True(w, ok)
		require.Equal(w, "simulator", with)
		w.same(rec, w.get(rec))
		require.Equal(w, []claim.Event{claim.EventClaimed, claim.EventRestored}, w.events(rec), "what the backup has of it stays")
		require.Equal(w, 1, w.pending(w.home))
		w.lapse(rec)
		rec = w.reattach(w.witnessed("k", "100"), witness, claim.WonUnknown)
		require.Equal(w, uint32(2), rec.Generation, "once")
		w.settle(rec, approved("paid"))
		require.Zero(w, w.pending(w.home))
	}},
	{"restore: a claim that its witness continues has one provider call", func(w *world) {
		for _, parked := range []bool{false, true} {
			first := w.arrival(fmt.Sprintf("k-%v", parked), "100")
			old := w.begin(first, claim.Won)
			w.lapse(old)
			if calls := w.Outbox(w.home); parked {
				m, _, err := calls.Message(w.ctx, w.home, old.Minted.ID)
				require.NoError(w, err)
				require.NoError(w, calls.Park(w.ctx, w.home, m.Hold(), "its provider was removed"))
			}
			depth := func(pending, parked int) {
				w.Helper()
				d, err := w.Outbox(w.home).Depth(w.ctx, w.home)
				require.NoError(w, err)
				require.Equal(w, []int{pending, parked}, []int{d.Pending, d.Parked})
			}
			if parked {
				depth(0, 1)
			}
			witness := w.witnessOf(first, 2)
			witness.Object, witness.FirstUse = old.Minted.ID, time.Time{}
			rec := w.reattach(w.witnessed(first.Key.Value, "100"), witness, claim.WonUnknown)
			depth(1, 0)
			m, found, err := w.Outbox(w.home).Message(w.ctx, w.home, rec.Minted.ID)
			require.NoError(w, err)
			require.True(w, found)
			require.WithinDuration(w, rec.LeaseUntil, m.Due, 0, "it is the new holder's")
			w.settle(rec, approved("paid"))
			if w.Flush != nil {
				w.Flush(w)
			}
			depth(0, 0)
			w.lapse(rec)
			require.Empty(w, w.dueIDs(w.home), "nothing is left to recover")
			_, found, err = w.Outbox(w.home).Message(w.ctx, w.home, rec.Minted.ID)
			require.NoError(w, err)
			require.False(w, found)
		}
	}},
	{"restore: a witness replaces only a row past its tombstone", func(w *world) {
		old := w.settle(w.begin(w.arrival("k", "100"), claim.Won), approved("paid"))
		witness := w.witnessOf(w.arrival("k", "200"), 1)
		w.reattach(w.witnessed("k", "200"), witness, claim.Mismatch)
		w.free(old)
		witness.FirstUse = w.now().Add(-time.Minute)
		rec := w.reattach(w.witnessed("k", "200"), witness, claim.WonUnknown)
		require.Equal(w, witness.Object, rec.Minted.ID)
		require.Equal(w, uint64(5), rec.Fence, "above both")
	}},
	{"restore: a witness of another home, or without a first use, begins nothing", func(w *world) {
		witness := w.witnessOf(w.arrival("k", "100"), 1)
		elsewhere, unbegun := witness, witness
		elsewhere.Home, unbegun.FirstUse = w.Regions[1], time.Time{}
		for _, one := range []claim.Witness{elsewhere, unbegun} {
			_, err := w.at(w.home).Reattach(w.ctx, w.witnessed("k", "100"), one)
			require.Error(w, err)
		}
		require.Zero(w, w.pending(w.home))
	}},
	{"restore: the row changes by compare-and-set, and witnesses stay until they are dropped", func(w *world) {
		kept := w.at(w.home).(claim.Restores)
		none, now, err := kept.Restore(w.ctx)
		require.NoError(w, err)
		require.Equal(w, claim.Restore{}, none)
		require.False(w, now.IsZero())
		r := claim.NewRestore(none, now.Add(-time.Hour), now, now, map[string]claim.Segment{w.home: {Number: 7, Digest: "d"}}, "ops", "a lost disk")
		changed, err := kept.PutRestore(w.ctx, r)
		require.NoError(w, err)
		require.True(w, changed)
		changed, err = kept.PutRestore(w.ctx, r)
		require.NoError(w, err)
		require.False(w, changed, "it has changed since it was read")
		got, _, err := w.at(w.Regions[1]).(claim.Restores).Restore(w.ctx)
		require.NoError(w, err)
		r.Version = 1
		require.Equal(w, r, got)
		got.Phase = claim.RestoreOver
		changed, err = kept.PutRestore(w.ctx, got)
		require.NoError(w, err)
		require.True(w, changed)

		var all []claim.Witness
		for i := range 5 {
			all = append(all, w.witnessOf(w.arrival(fmt.Sprintf("k%d", i), "100"), 1))
		}
		require.NoError(w, kept.PutWitnesses(w.ctx, all))
		all[2].Done = true
		require.NoError(w, kept.PutWitnesses(w.ctx, all[2:3]))
		one, found, err := kept.Witness(w.ctx, all[2].Key)
		require.NoError(w, err)
		require.True(w, found)
		require.Equal(w, all[2], one)
		_, found, err = kept.Witness(w.ctx, w.key("k"))
		require.NoError(w, err)
		require.False(w, found)
		page, err := kept.Witnesses(w.ctx, all[1].Key, 2)
		require.NoError(w, err)
		require.Equal(w, all[2:4], page)
		for _, other := range []uint64{0, 1, 3} {
			dropped, err := kept.DropWitnesses(w.ctx, other, 4)
			require.NoError(w, err)
			require.Zero(w, dropped, "the row has changed since it was read")
		}
		for _, want := range []int{4, 1, 0} {
			dropped, err := kept.DropWitnesses(w.ctx, 2, 4)
			require.NoError(w, err)
			require.Equal(w, want, dropped)
		}
		page, err = kept.Witnesses(w.ctx, claim.Key{}, 10)
		require.NoError(w, err)
		require.Empty(w, page)
	}},
	{"restore: a guard withholds keys that may be lost, and allows those with a witness", func(w *world) {
		kept := w.at(w.home).(claim.Restores)
		guard, err := claim.NewGuard(w.ctx, kept)
		require.NoError(w, err)
		require.Nil(w, guard.Standing())
		none, now, err := kept.Restore(w.ctx)
		require.NoError(w, err)
		r := claim.NewRestore(none, now.Add(-time.Hour), now, now, map[string]claim.Segment{w.home: {Number: 7, Digest: "d"}}, "ops", "a lost disk")
		_, err = kept.PutRestore(w.ctx, r)
		require.NoError(w, err)
		require.NoError(w, guard.Read(w.ctx))
		witness, blind := w.witnessOf(w.arrival("known", "100"), 1), w.witnessOf(w.arrival("blind", "100"), 1)
		blind.Object = ""
		require.NoError(w, kept.PutWitnesses(w.ctx, []claim.Witness{witness, blind}))

		minted, err := claim.Stamp(1, guard.Standing().Mints(nil))
		require.NoError(w, err)
		_, stamped := claim.ReadStamp(minted)
		require.True(w, stamped)
		before, err := claim.Stamp(1, nil)
		require.NoError(w, err)

		recall := func(key string) (*claim.Witness, error) { return guard.Recall(w.ctx, w.key(key)) }
		fresh, err := recall(minted)
		require.NoError(w, err, "it was minted since")
		require.Nil(w, fresh)
		withheld := func(keys ...string) {
			w.Helper()
			for _, key := range keys {
				_, err := recall(key)
				var held *claim.WithheldError
				require.ErrorAs(w, err, &held, key)
			}
		}
		// "known" is in flight in its witness: its next generation may be paid.
		withheld("unheard", before, "blind", "known")
		paid, refused := w.witnessOf(w.arrival("paid", "100"), 1), w.witnessOf(w.arrival("refused", "100"), 1)
		paid.Done, refused.Answered = true, true
		require.NoError(w, kept.PutWitnesses(w.ctx, []claim.Witness{paid, refused}))
		for _, final := range []*claim.Witness{&paid, &refused} {
			got, err := recall(final.Key.Value)
			require.NoError(w, err)
			require.Equal(w, final, got)
		}

		r, _, err = kept.Restore(w.ctx)
		require.NoError(w, err)
		// A person's release does not cover keys with an unfinished witness.
		r.Phase, r.Partial = claim.RestoreWitnessed, true
		_, err = kept.PutRestore(w.ctx, r)
		require.NoError(w, err)
		withheld("unheard") // until the node has read of it
		require.NoError(w, guard.Read(w.ctx))
		withheld("blind", "known")
		got, err := recall("unheard")
		require.NoError(w, err)
		require.Nil(w, got)
		// By the audit.
		r, _, err = kept.Restore(w.ctx)
		require.NoError(w, err)
		r.Partial = false
		_, err = kept.PutRestore(w.ctx, r)
		require.NoError(w, err)
		require.NoError(w, guard.Read(w.ctx))
		withheld("blind")
		got, err = recall("known")
		require.NoError(w, err)
		require.Equal(w, &witness, got)
		// A booking by an operator is not begun again.
		witness.Booked = true
		require.NoError(w, kept.PutWitnesses(w.ctx, []claim.Witness{witness}))
		withheld("known")
	}},
	{"restore: no generation is attempted while a later one may be lost", func(w *world) {
		kept := w.at(w.home).(claim.Restores)
		none, now, err := kept.Restore(w.ctx)
		require.NoError(w, err)
		r := claim.NewRestore(none, now.Add(-time.Hour), now, now, map[string]claim.Segment{w.home: {}}, "ops", "a lost disk")
		_, err = kept.PutRestore(w.ctx, r)
		require.NoError(w, err)
		guard, err := claim.NewGuard(w.ctx, kept)
		require.NoError(w, err)
		var calls attempts
		s, err := claim.NewService(claim.Config{
			Store: guard.Claims(w.at(w.home), w.Outbox(w.home), &w.Policy), Executor: guard.Executor(&calls), Blobs: noBlobs{}, Policy: w.Policy, Node: "node-after", Region: w.home,
			Providers: []string{"simulator", "other"}, Code: func(string) (claim.RegionCode, bool) { return 1, true }, Operations: claim.Operations{"charge": "ch"},
		})
		require.NoError(w, err)
		// A claim that is wholly lost, one that the backup has released, and one in flight. The
		// audit that is read has the first generation of each. The provider declined it, and
		// the other one was paid for the second: to ask the first again would charge again.
		lost, released, flying := w.arrival("lost", "100"), w.arrival("released", "100"), w.arrival("flying", "100")
		released.Provider, flying.Provider = "simulator", "simulator"
		settled := w.settle(w.begin(released, claim.Won), declinedSoft("no"))
		held := w.begin(flying, claim.Won)
		w.lapse(held)
		witnesses := []claim.Witness{w.witnessOf(lost, 1), w.witnessOf(released, 2), w.witnessOf(flying, 2)}
		witnesses[1].Object, witnesses[2].Object = settled.Minted.ID, held.Minted.ID
		require.NoError(w, kept.PutWitnesses(w.ctx, witnesses))
		try := func(a claim.Arrival) error {
			_, err := s.Do(w.ctx, w.home, &claim.Request{Key: a.Key, Operation: a.Operation, Input: a.Input, PinnedAt: w.now()})
			return err
		}
		all := []claim.Arrival{lost, released, flying}
		for _, a := range all {
			require.ErrorAs(w, try(a), new(*claim.WithheldError), a.Key.Value)
		}
		_, later := s.Recover(w.ctx, outbox.Message{
			ID: held.Minted.ID, Region: w.home, Kind: outbox.KindProviderCall, Tenant: w.tenant, Key: "flying", Operation: flying.Operation, Payload: flying.Input.Canonical,
		}).Delay()
		require.True(w, later)
		require.Empty(w, calls, "a provider was called")
		w.same(settled, w.get(settled))
		w.same(held, w.get(held))

		// The rest of the audit has the paid generation: the attempt is about that one.
		for i := range witnesses {
			witnesses[i].Generation, witnesses[i].Provider, witnesses[i].Done = 3, "other", true
		}
		require.NoError(w, kept.PutWitnesses(w.ctx, witnesses))
		for _, a := range all {
			require.ErrorAs(w, try(a), new(*claim.UnknownError), a.Key.Value)
		}
		require.Len(w, calls, len(all))
		for _, c := range calls {
			require.Equal(w, uint32(3), c.Record.Generation)
			require.Equal(w, "other", c.Provider)
			require.True(w, c.Recovery && c.Witness.Done)
		}
	}},
}

// restorePinTests need a store with pins.
var restorePinTests = []test{
	{"restore: a key without a pin gets the home of its witness, or waits", func(w *world) {
		kept, here := w.at(w.home).(claim.Restores), w.at(w.home)
		none, now, err := kept.Restore(w.ctx)
		require.NoError(w, err)
		guard, err := claim.NewGuard(w.ctx, kept)
		require.NoError(w, err)
		claims := guard.Claims(here, w.Outbox(w.home), &w.Policy)
		pinned, err := claims.Pin(w.ctx, w.key("pinned"), w.home)
		require.NoError(w, err)
		r := claim.NewRestore(none, now.Add(-time.Hour), now, now, nil, "ops", "a lost disk")
		_, err = kept.PutRestore(w.ctx, r)
		require.NoError(w, err)
		require.NoError(w, guard.Read(w.ctx))
		lost, moved := w.witnessOf(w.arrival("lost", "100"), 1), w.witnessOf(w.arrival("moved", "100"), 1)
		lost.Home, lost.Done, moved.Home, moved.Done = w.Regions[1], true, w.Regions[1], true
		require.NoError(w, kept.PutWitnesses(w.ctx, []claim.Witness{lost, moved}))

		for _, entry := range []string{w.home, w.Regions[1], ""} {
			got, err := claims.Pin(w.ctx, w.key("pinned"), entry)
			require.NoError(w, err)
			require.Equal(w, pinned.Home, got.Home)
			_, err = claims.Pin(w.ctx, w.key("unheard"), entry)
			require.ErrorAs(w, err, new(*claim.WithheldError), entry)
		}
		_, err = here.Pin(w.ctx, w.key("unheard"), "")
		require.ErrorIs(w, err, claim.ErrNoNewHomes, "nothing was written")
		got, err := claims.Pin(w.ctx, lost.Key, w.home)
		require.NoError(w, err)
		require.Equal(w, w.Regions[1], got.Home)
		_, err = here.Pin(w.ctx, moved.Key, w.home) // by a node that had not read the row
		require.NoError(w, err)
		got, err = claims.Pin(w.ctx, moved.Key, w.home)
		require.NoError(w, err, "its claim there names another home")
		require.Equal(w, w.home, got.Home)

		// With its claim, neither.
		a := w.arrival("unheard", "100")
		a.Stamped, a.PinHere = false, true
		begun, err := claims.Begin(w.ctx, a)
		require.NoError(w, err)
		require.Equal(w, claim.NeedPin, begun.Decision)
		_, err = here.Pin(w.ctx, a.Key, "")
		require.ErrorIs(w, err, claim.ErrNoNewHomes)

		r, _, err = kept.Restore(w.ctx)
		require.NoError(w, err)
		r.Phase = claim.RestoreWitnessed
		_, err = kept.PutRestore(w.ctx, r)
		require.NoError(w, err)
		require.NoError(w, guard.Read(w.ctx))
		got, err = claims.Pin(w.ctx, w.key("unheard"), w.home)
		require.NoError(w, err)
		require.Equal(w, w.home, got.Home)
	}},
}

// attempts are those that were made; each outcome is unknown.
type attempts []claim.Attempt

// Attempt implements [claim.Executor].
func (a *attempts) Attempt(_ context.Context, at claim.Attempt) claim.Outcome {
	*a = append(*a, at)
	return &claim.Unknown{Reason: "test"}
}

// noBlobs stores nothing: responses of these tests fit into their rows.
type noBlobs struct{}

// Put implements [claim.Blobs].
func (noBlobs) Put(context.Context, []byte) (string, error) { return "", nil }

// Get implements [claim.Blobs].
func (noBlobs) Get(context.Context, string) ([]byte, error) { return nil, nil }

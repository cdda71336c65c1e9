package claimtest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

var beginTests = []test{
	{"begin: a fresh key is won, with its outbox row and audit", func(w *world) {
		before := w.now()
		a := w.arrival("k", "100")
		rec := w.begin(a, claim.Won)
		after := w.now()

		require.Equal(w, claim.InFlight, rec.State)
		require.Equal(w, uint64(1), rec.Fence)
		require.Equal(w, a.Node, rec.Holder)
		require.Equal(w, a.Print, rec.Fingerprint)
		require.Equal(w, uint32(1), rec.Generation)
		require.Equal(w, uint32(1), rec.Attempts)
		require.NotEmpty(w, rec.ProviderKey)
		require.Equal(w, a.Mint.ID, rec.Minted.ID)
		require.Equal(w, a.Mint.Receipt, rec.Minted.Receipt)
		require.False(w, rec.FirstUse.Before(before) || rec.FirstUse.After(after), "first use is the store's clock")
		require.True(w, rec.Minted.Created.Equal(rec.FirstUse.Truncate(time.Second)))
		require.True(w, rec.LeaseUntil.Equal(rec.FirstUse.Add(w.Policy.Lease)))
		require.Zero(w, rec.FirstUse.Nanosecond()%1000, "times are kept in microseconds")
		w.same(rec, w.get(rec))

		require.Equal(w, 1, w.pending(w.home))
		require.Empty(w, w.dueIDs(w.home), "the inline path has the lease's time")
		w.until(rec.LeaseUntil)
		m := w.takeOne(outbox.ProviderCalls)
		require.Equal(w, outbox.KindProviderCall, m.Kind)
		require.Equal(w, []string{a.Mint.ID, w.home, w.tenant, "k", "charge", "100", a.TraceParent},
			[]string{m.ID, m.Region, m.Tenant, m.Key, m.Operation, string(m.Payload), m.TraceParent})
		require.Equal(w, []claim.Event{claim.EventClaimed}, w.events(rec))
	}},
	{"begin: the call carries the request's payload and operation, of each generation its own", func(w *world) {
		sends := func(payload string) claim.Record {
			a := w.arrival("k", "100")
			a.Payload = []byte(payload)
			a.Operation += payload[len(payload)-4:]
			rec := w.begin(a, claim.Won)
			require.Equal(w, a.Operation, rec.Operation)
			require.Equal(w, a.Operation, w.get(rec).Operation)
			m, found, err := w.Outbox(w.home).Message(w.ctx, w.home, rec.Minted.ID)
			require.NoError(w, err)
			require.True(w, found)
			require.Equal(w, payload, string(m.Payload))
			require.Equal(w, a.Operation, m.Operation)
			return rec
		}
		rec := w.settle(sends("\x00\xff one"), declinedSoft("no"))
		_, found, err := w.Outbox(w.home).Message(w.ctx, w.home, rec.Minted.ID)
		require.NoError(w, err)
		require.False(w, found, "a settled claim keeps no payload")
		require.Equal(w, rec.Generation+1, sends("and two").Generation)
	}},
	{"begin: a duplicate finds the claim busy", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		seen := w.begin(w.arrival("k", "100"), claim.Busy)
		w.same(rec, seen)
		w.same(rec, w.get(rec))
		require.Equal(w, 1, w.pending(w.home))
		require.Len(w, w.events(rec), 1, "a decision that changes nothing writes nothing")
	}},
	{"begin: a settled claim is replayed as stored", func(w *world) {
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), approved("paid"))
		seen := w.begin(w.arrival("k", "100"), claim.Replay)
		w.same(rec, seen)
		require.Equal(w, answer(201, "paid"), *seen.Response)
	}},
	{"begin: an empty body is replayed as empty", func(w *world) {
		v := approved("")
		stored := &v.Outcome.(*claim.Done).Response
		stored.Blob = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
		w.settle(w.begin(w.arrival("k", "100"), claim.Won), v)
		seen := w.begin(w.arrival("k", "100"), claim.Replay)
		require.Empty(w, seen.Response.Body)
		require.Equal(w, stored.Blob, seen.Response.Blob)
	}},
	{"begin: another request under the key is refused in every state", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		w.begin(w.arrival("k", "101"), claim.Mismatch)
		w.settle(rec, declinedSoft("no"))
		w.begin(w.arrival("k", "101"), claim.Mismatch)
		rec = w.settle(w.begin(w.arrival("k", "100"), claim.Won), approved("paid"))
		w.begin(w.arrival("k", "101"), claim.Mismatch)
		w.same(rec, w.get(rec))
	}},
	{"begin: a request in another spelling matches in every state", func(w *world) {
		// A retry after the tenant's setting for card numbers was changed.
		respelled := func() claim.Arrival {
			first, again := w.arrival("k", "100"), w.arrival("k", "1**")
			again.Also = first.Print
			return again
		}
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		w.begin(respelled(), claim.Busy)
		w.lapse(rec)
		w.begin(respelled(), claim.Busy) // the provider received the first spelling
		rec = w.begin(w.arrival("k", "100"), claim.WonUnknown)
		w.settle(rec, declinedSoft("no"))
		w.begin(w.arrival("k", "1**"), claim.Mismatch)
		rec = w.begin(respelled(), claim.Won) // from now on requests have this spelling
		w.begin(w.arrival("k", "100"), claim.Mismatch)
		w.lapse(rec)
		back := w.arrival("k", "100")
		back.Also = w.arrival("k", "1**").Print
		w.begin(back, claim.Busy)
		rec = w.begin(respelled(), claim.WonUnknown)
		rec = w.settle(rec, approved("paid"))
		w.begin(respelled(), claim.Replay)
		w.begin(back, claim.Replay)
		other := w.arrival("k", "1x*")
		other.Also = w.arrival("k", "101").Print
		w.begin(other, claim.Mismatch)
		w.same(rec, w.get(rec))
		// A new claim keeps the spelling of its request.
		fresh := w.arrival("fresh", "1**")
		fresh.Also = w.arrival("fresh", "100").Print
		w.begin(fresh, claim.Won)
		w.begin(w.arrival("fresh", "100"), claim.Mismatch)
		w.begin(w.arrival("fresh", "1**"), claim.Busy)
	}},
	{"begin: a compare-only request reads the claim and begins nothing", func(w *world) {
		// A retry of an operation that its tenant no longer begins.
		compared := func(spelling string) claim.Arrival {
			a := w.arrival("k", spelling)
			a.CompareOnly = true
			return a
		}
		nothing := func() {
			w.Helper()
			pinned := compared("100")
			pinned.Stamped, pinned.PinnedAt = false, w.now()
			for _, a := range []claim.Arrival{compared("100"), pinned} {
				w.begin(a, claim.NeedPin)
			}
		}
		nothing()
		_, _, found, err := w.at(w.home).Get(w.ctx, w.key("k"), w.home)
		require.NoError(w, err)
		require.False(w, found, "a claim was made")

		rec := w.begin(w.arrival("k", "100"), claim.Won)
		w.begin(compared("100"), claim.Busy)
		w.begin(compared("101"), claim.Mismatch)
		rec = w.settle(rec, declinedSoft("no"))
		nothing()
		w.same(rec, w.get(rec))

		rec = w.settle(w.begin(w.arrival("k", "100"), claim.Won), approved("paid"))
		w.begin(compared("100"), claim.Replay)
		w.begin(compared("101"), claim.Mismatch)
		other := compared("1**")
		other.Also = w.arrival("k", "100").Print
		w.begin(other, claim.Replay)
		w.same(rec, w.get(rec))
		w.expire(rec)
		w.begin(compared("100"), claim.TombStone)
		w.free(rec)
		nothing()
		w.begin(w.arrival("k", "100"), claim.Won)
	}},
	{"begin: past the replay window the key is a tombstone", func(w *world) {
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), approved("paid"))
		w.expire(rec)
		seen := w.begin(w.arrival("k", "100"), claim.TombStone)
		require.True(w, seen.FirstUse.Equal(rec.FirstUse), "the answer has the time of the original")
		w.begin(w.arrival("k", "101"), claim.TombStone)
	}},
	{"begin: past the tombstone the key is new, with a higher fence", func(w *world) {
		old := w.settle(w.begin(w.arrival("k", "100"), claim.Won), approved("paid"))
		w.free(old)
		rec := w.begin(w.arrival("k", "555"), claim.Won)
		require.Equal(w, old.Fence+1, rec.Fence)
		require.True(w, rec.FirstUse.After(old.FirstUse))
		require.NotEqual(w, old.Minted.ID, rec.Minted.ID)
		require.NotEqual(w, old.ProviderKey, rec.ProviderKey, "a provider may remember the old charge")
		require.Nil(w, rec.Response)
		w.same(rec, w.get(rec))
		_, _, found, err := w.at(w.home).Object(w.ctx, w.tenant, w.home, old.Minted.ID)
		require.NoError(w, err)
		require.False(w, found, "the old object is deleted with its claim")
		require.Contains(w, w.events(rec), claim.EventReplaced)
		_, err = w.at(w.home).Settle(w.ctx, old, approved("late"))
		require.ErrorIs(w, err, claim.ErrFenced)
	}},
	{"begin: a claim in flight never expires", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		w.until(rec.FirstUse.Add(w.Policy.PinLife() + w.Policy.Lease))
		taken := w.begin(w.arrival("k", "100"), claim.WonUnknown)
		require.Equal(w, rec.Minted, taken.Minted)
		require.Equal(w, rec.ProviderKey, taken.ProviderKey)
	}},
	{"begin: a late outcome keeps its full replay window", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		w.until(rec.FirstUse.Add(w.Policy.ReplayFor + w.Policy.TombstoneFor))
		rec = w.settle(rec, approved("paid"))
		require.True(w, rec.ExpiresAt(&w.Policy, w.now()).Equal(rec.SettledAt.Add(w.Policy.ReplayFor)))
		w.begin(w.arrival("k", "100"), claim.Replay) // the retry that waited for it
		w.expire(rec)
		w.begin(w.arrival("k", "100"), claim.TombStone)
		w.free(rec)
		w.begin(w.arrival("k", "100"), claim.Won)
	}},
	{"begin: an answer may be replayed for less, and never for more", func(w *world) {
		for key, own := range map[string]time.Duration{"less": w.Policy.ReplayFor / 4, "more": 2 * w.Policy.ReplayFor} {
			window := min(own, w.Policy.ReplayFor)
			p := w.pin(w.Regions[1], key, w.Regions[1])
			a := w.arrival(key, "100")
			a.Home, a.Stamped, a.PinnedAt = p.Home, false, p.CreatedAt
			v := approved("paid")
			v.Outcome.(*claim.Done).Response.ReplayFor = own
			rec := w.settle(w.begin(a, claim.Won), v)
			require.True(w, rec.ExpiresAt(&w.Policy, w.now()).Equal(later(rec.FirstUse, rec.SettledAt).Add(window)), key)
			w.same(rec, w.get(rec))
			w.begin(a, claim.Replay)
			w.expire(rec)
			w.begin(a, claim.TombStone)
			w.until(rec.FreeAt(&w.Policy, w.now()).Add(-w.Policy.TombstoneFor / 4))
			w.begin(a, claim.TombStone)
			w.free(rec)
			// The home is still that of the pin, which is confirmed, and the next answer has its own window.
			p = w.pin(w.Regions[2], key, w.Regions[2])
			require.Equal(w, a.Home, p.Home, key)
			a.PinnedAt = p.CreatedAt
			rec = w.settle(w.begin(a, claim.Won), approved("paid again"))
			require.Zero(w, w.get(rec).Response.ReplayFor)
			require.True(w, rec.ExpiresAt(&w.Policy, w.now()).Equal(later(rec.FirstUse, rec.SettledAt).Add(w.Policy.ReplayFor)), key)
		}
		// What is no final answer has no window of its own.
		v := declinedSoft("no funds")
		v.Outcome.(*claim.Released).Response.ReplayFor = w.Policy.ReplayFor / 4
		rec := w.settle(w.begin(w.arrival("released", "100"), claim.Won), v)
		require.Zero(w, rec.Refusal.Response.ReplayFor)
		w.same(rec, w.get(rec))
		require.True(w, rec.ExpiresAt(&w.Policy, w.now()).Equal(later(rec.FirstUse, rec.Refusal.At).Add(w.Policy.ReplayFor)))
	}},
	{"begin: a late answer keeps its pin", func(w *world) {
		p := w.pin(w.Regions[1], "k", w.Regions[1])
		a := w.arrival("k", "100")
		a.Home, a.Stamped, a.PinnedAt = p.Home, false, p.CreatedAt
		rec := w.begin(a, claim.Won)
		w.until(p.CreatedAt.Add(w.Policy.PinLife()))
		rec = w.settle(rec, approved("paid"))
		w.until(rec.FreeAt(&w.Policy, w.now()).Add(-w.Policy.TombstoneFor / 4))
		require.Equal(w, w.Regions[1], w.pin(w.Regions[2], "k", w.Regions[2]).Home, "its tombstone still owns the key")
	}},
	{"begin: a late release may be retried for the full window", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		w.until(rec.FirstUse.Add(w.Policy.ReplayFor + w.Policy.TombstoneFor))
		w.settle(rec, declinedSoft("no funds"))
		again := w.begin(w.arrival("k", "100"), claim.Won)
		require.Equal(w, rec.Generation+1, again.Generation)
	}},
	{"begin: a request under way at the release shares the refusal", func(w *world) {
		first := w.begin(w.arrival("k", "100"), claim.Won)
		rec := w.settle(first, declinedSoft("no funds"))
		require.Equal(w, answer(402, "no funds"), rec.Refusal.Response)
		w.same(rec, w.get(rec))
		twin := w.arrival("k", "100")
		twin.UnderWay = w.Policy.Lease
		for range 2 { // nothing is written
			seen := w.begin(twin, claim.Shared)
			w.same(rec, seen)
		}
		w.begin(w.arrival("k", "100"), claim.Won) // began after
		seen := w.begin(twin, claim.Shared)       // and is not the answer that the twin waits for
		require.Equal(w, answer(402, "no funds"), seen.Refusal.Response)
		// A request that began after the release may be a retry of the one that is being attempted:
		// it must not be refused.
		late := w.arrival("k", "100")
		late.UnderWay = w.Policy.DeclinePause / 2
		w.begin(late, claim.Busy)
		other := w.arrival("k", "101")
		other.UnderWay = twin.UnderWay
		w.begin(other, claim.Mismatch)
		paid := w.settle(seen, approved("paid"))
		require.Nil(w, paid.Refusal)
		w.begin(twin, claim.Replay)
		w.same(paid, w.get(paid))
	}},
	{"begin: a refusal ends with the key's life", func(w *world) {
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), declinedSoft("no funds"))
		w.free(rec)
		a := w.arrival("k", "200")
		a.UnderWay = 2 * (w.Policy.ReplayFor + w.Policy.TombstoneFor)
		fresh := w.begin(a, claim.Won)
		require.Nil(w, fresh.Refusal)
		w.same(fresh, w.get(fresh))
		w.begin(a, claim.Busy)
	}},
	{"begin: no claim is created without a pin", func(w *world) {
		a := w.arrival("k", "100")
		a.Stamped = false
		got, err := w.at(w.home).Begin(w.ctx, a)
		require.NoError(w, err)
		require.Equal(w, claim.NeedPin, got.Decision)
		require.Equal(w, claim.Record{}, got.Record)
		_, _, found, err := w.at(w.home).Get(w.ctx, a.Key, w.home)
		require.NoError(w, err)
		require.False(w, found)
		require.Zero(w, w.pending(w.home))

		a.PinnedAt = w.now()
		w.begin(a, claim.Won)
	}},
	{"begin: a claim that would outlive its pin is not created", func(w *world) {
		start := w.now()
		a := w.arrival("k", "100")
		a.Stamped, a.PinnedAt = false, start
		w.until(start.Add(w.Policy.CreateWithin()))
		w.begin(a, claim.NeedPin)
	}},
	{"begin: an existing claim needs no pin", func(w *world) {
		a := w.arrival("k", "100")
		rec := w.begin(a, claim.Won)
		a.Stamped = false
		w.begin(a, claim.Busy)
		w.settle(rec, approved("paid"))
		w.begin(a, claim.Replay)
	}},
	{"begin: tenants, homes and neighbouring keys do not collide", func(w *world) {
		w.PutTenant(w, claim.Tenant{ID: "acme2", Name: "Other", Registrar: w.home})
		first := w.begin(w.arrival("k", "100"), claim.Won)
		other := w.arrival("k", "200")
		other.Key.Tenant = "acme2"
		w.begin(other, claim.Won)
		// Concatenated, this is the same text as acme2's k.
		glued := w.arrival("2k", "300")
		w.begin(glued, claim.Won)
		far := w.arrival("k", "400")
		far.Home = w.Regions[1]
		w.begin(far, claim.Won)
		for _, k := range []string{"k!", "!k", "k~", "K", "k/../k", `k"\`} {
			w.begin(w.arrival(k, "500"), claim.Won)
		}
		w.same(first, w.get(first))
		require.Len(w, w.events(first), 1)
		_, _, found, err := w.at(w.home).Object(w.ctx, "acme2", w.home, first.Minted.ID)
		require.NoError(w, err)
		require.False(w, found, "another tenant reads nothing by the id")
	}},
	{"begin: a cancelled request does nothing", func(w *world) {
		ctx, cancel := cancelled(w.ctx)
		defer cancel()
		a := w.arrival("k", "100")
		_, err := w.at(w.home).Begin(ctx, a)
		require.Error(w, err)
		w.begin(a, claim.Won)
	}},
	{"begin: a claim is executed after its caller disconnects", func(w *world) {
		ctx, leave := context.WithCancel(w.ctx)
		paid := &onePayment{}
		s, err := claim.NewService(claim.Config{
			Store: leaving{w.at(w.home), leave}, Executor: paid, Blobs: noBlobs{}, Policy: w.Policy, Node: "node-left", Region: w.home,
			Code: func(string) (claim.RegionCode, bool) { return 1, true }, Operations: claim.Operations{"charge": "ch"},
		})
		require.NoError(w, err)
		a := w.arrival("k", "100")
		_, _ = s.Do(ctx, w.home, &claim.Request{Key: a.Key, Operation: a.Operation, Stamp: 1, Input: a.Input}) // its caller has disconnected
		require.NoError(w, s.Drain(w.ctx))
		rec := w.get(claim.Record{Key: a.Key, Home: w.home})
		require.Equal(w, claim.Completed, rec.State)
		require.Equal(w, []claim.Event{claim.EventClaimed, claim.EventAttempt, claim.EventSettled}, w.events(rec))
		require.Equal(w, []bool{false}, paid.recoveries)
	}},
}

// leaving is a store whose caller disconnects between the step and its answer.
type leaving struct {
	claim.Store
	leave context.CancelFunc
}

func (s leaving) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	begun, err := s.Store.Begin(ctx, a)
	s.leave()
	if ctx.Err() != nil {
		return claim.Begun{}, ctx.Err()
	}
	return begun, err
}

// onePayment approves every attempt, and notes which were recoveries.
type onePayment struct{ recoveries []bool }

func (p *onePayment) Attempt(_ context.Context, a claim.Attempt) claim.Outcome {
	p.recoveries = append(p.recoveries, a.Recovery)
	return approved("paid").Outcome
}

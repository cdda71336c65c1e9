package embedded_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

const (
	us   = "us-east1"
	eu   = "europe-west1"
	asia = "asia-northeast1"
)

// TestDistance counts the round trips of every operation: none for a row nearby or on a replica,
// one for a row far away.
func TestDistance(t *testing.T) {
	clock := newClock()
	network := wan.New(nil)
	db := open(t, embedded.Config{Clock: clock.now, Network: network})
	ctx := t.Context()
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "acme", Registrar: us}))
	near, far := view(t, db, us), view(t, db, eu)

	rec := map[string]claim.Record{}
	trips := func(want int64, name string, do func(v *embedded.View) error) {
		t.Helper()
		for _, v := range []*embedded.View{near, far} {
			network.ResetTrips()
			require.NoError(t, do(v), name)
			expect := want
			if v == near {
				expect = 0
			}
			require.Equal(t, expect, network.TotalTrips(), "%s from %s", name, v.Name())
			require.Equal(t, expect, network.Trips(v.Name(), us))
		}
	}
	trips(1, "begin", func(v *embedded.View) error {
		got, err := v.Begin(ctx, arrive("k-"+v.Name(), us))
		rec[v.Name()] = got.Record
		return err
	})
	trips(1, "renew", func(v *embedded.View) error {
		clock.advance(time.Second)
		r := rec[v.Name()]
		_, err := v.Renew(ctx, r.Holder, []claim.Lease{{Key: r.Key, Home: us, Fence: r.Fence}, {Key: r.Key, Home: us, Fence: r.Fence}})
		return err
	})
	trips(1, "get", func(v *embedded.View) error {
		_, _, _, err := v.Get(ctx, rec[us].Key, us)
		return err
	})
	trips(1, "object", func(v *embedded.View) error {
		_, _, _, err := v.Object(ctx, "acme", us, rec[us].Minted.ID)
		return err
	})
	trips(1, "take over", func(v *embedded.View) error {
		clock.advance(time.Minute)
		r := rec[v.Name()]
		got, err := v.TakeOver(ctx, r.Key, us, r.Minted.ID, "heir", us, claim.News{})
		rec[v.Name()] = got
		return err
	})
	trips(1, "settle", func(v *embedded.View) error {
		r := rec[v.Name()]
		_, err := v.Settle(ctx, r, claim.Verdict{Outcome: &claim.Done{Response: claim.Response{Status: 201}}})
		return err
	})
	trips(1, "timeline", func(v *embedded.View) error {
		_, err := v.Timeline(ctx, rec[us].Key, us, 10)
		return err
	})
	trips(1, "take", func(v *embedded.View) error {
		_, err := v.Queue(outbox.ProviderCalls).Take(ctx, us, 10, time.Second)
		return err
	})
	trips(1, "depth", func(v *embedded.View) error {
		_, err := v.Queue(outbox.ProviderCalls).Depth(ctx, us)
		return err
	})
	trips(1, "by object", func(v *embedded.View) error {
		_, found, err := v.ByObject(ctx, us, rec[us].Minted.ID)
		require.True(t, found)
		return err
	})
	trips(1, "settled", func(v *embedded.View) error {
		_, err := v.Settled(ctx, us, claim.Key{}, 10)
		return err
	})
	trips(1, "take an event", func(v *embedded.View) error {
		_, err := v.Queue(outbox.Events).Take(ctx, us, 10, time.Second)
		return err
	})
	trips(1, "post", func(v *embedded.View) error {
		post := ghost()
		post.ID, post.ProviderRef = post.ID+v.Name(), v.Name()
		_, err := v.Post(ctx, post)
		return err
	})
	trips(1, "transaction", func(v *embedded.View) error {
		_, _, err := v.Transaction(ctx, us, "none")
		return err
	})
	trips(1, "named", func(v *embedded.View) error {
		_, err := v.Named(ctx, us, []string{"none", "nor this"})
		return err
	})
	trips(1, "transactions", func(v *embedded.View) error {
		_, err := v.Transactions(ctx, us, ledger.Position{}, time.Time{}, 10)
		return err
	})
	trips(1, "balances", func(v *embedded.View) error {
		_, err := v.Balances(ctx, us, ledger.AccountKey{}, 10)
		return err
	})
	trips(1, "keep", func(v *embedded.View) error {
		_, err := v.Keep(ctx, us, []notice.Notice{{ID: "sim:" + v.Name()}, {ID: "sim:2" + v.Name()}})
		return err
	})
	trips(1, "notice", func(v *embedded.View) error {
		_, _, err := v.Notice(ctx, us, "sim:none")
		return err
	})
	trips(0, "endpoint", func(v *embedded.View) error {
		_, _, err := v.Endpoint(ctx, "acme")
		return err
	})
	trips(1, "pin", func(v *embedded.View) error {
		_, err := v.Pin(ctx, claim.Key{Tenant: "acme", Value: "pinned"}, v.Name())
		return err
	})
	clock.advance(embedded.DefaultReplicaLag)
	trips(0, "replica", func(v *embedded.View) error {
		shown, err := v.Replica(ctx, rec[us].Key)
		require.NotNil(t, shown.Record)
		return err
	})
	trips(0, "replica pin", func(v *embedded.View) error {
		shown, err := v.Replica(ctx, claim.Key{Tenant: "acme", Value: "pinned"})
		require.NotNil(t, shown.Pin)
		return err
	})
	trips(0, "registrar", func(v *embedded.View) error { _, err := v.Registrar(ctx, "acme"); return err })
	trips(0, "note", func(v *embedded.View) error {
		v.Note(ctx, rec[us].Key, us, claim.AuditEntry{Event: claim.EventReplied})
		return nil
	})

	// The reversal of a transaction may be booked in any region.
	network.ResetTrips()
	_, err := near.Reversals(ctx, "none")
	require.NoError(t, err)
	require.Equal(t, []int64{1, 1, 2}, []int64{network.Trips(us, eu), network.Trips(us, asia), network.TotalTrips()})

	// A moved registrar costs one round trip to each region far away, at once.
	require.NoError(t, db.MoveRegistrar(ctx, "acme", asia))
	network.ResetTrips()
	_, err = far.Pin(ctx, claim.Key{Tenant: "acme", Value: "other"}, eu)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 1, 2}, []int64{network.Trips(eu, us), network.Trips(eu, asia), network.TotalTrips()})

	// For a pin past its life, the step asks the old home whether it still owes an outcome.
	a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "owed"}, us, "100", "n", "ch_owed")
	_, err = near.Pin(ctx, a.Key, us)
	require.NoError(t, err)
	_, err = near.Begin(ctx, a)
	require.NoError(t, err)
	policy := testPolicy()
	clock.advance(policy.PinLife())
	network.ResetTrips()
	pin, err := far.Pin(ctx, a.Key, eu)
	require.NoError(t, err)
	require.Equal(t, us, pin.Home)
	require.Equal(t, []int64{1, 1, 2}, []int64{network.Trips(eu, us), network.Trips(eu, asia), network.TotalTrips()})
}

// TestPartition checks that a call on a region behind a partition fails with ErrHomeUnreachable and
// does nothing, and that replicas still answer.
func TestPartition(t *testing.T) {
	clock := newClock()
	network := wan.New(nil)
	db := open(t, embedded.Config{Clock: clock.now, Network: network})
	ctx := t.Context()
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "acme", Registrar: us}))
	near, far := view(t, db, us), view(t, db, eu)
	begun, err := near.Begin(ctx, arrive("done", us))
	require.NoError(t, err)
	done, err := near.Settle(ctx, begun.Record, claim.Verdict{Outcome: &claim.Done{Response: claim.Response{Status: 201}}})
	require.NoError(t, err)
	clock.advance(embedded.DefaultReplicaLag)

	network.Cut(us, eu)
	key := claim.Key{Tenant: "acme", Value: "new"}
	for name, do := range map[string]func() error{
		"begin": func() error { _, err := far.Begin(ctx, arrive("new", us)); return err },
		"settle": func() error {
			_, err := far.Settle(ctx, claim.Record{Key: key, Home: us, Fence: 1, State: claim.InFlight}, claim.Verdict{})
			return err
		},
		"take over": func() error { _, err := far.TakeOver(ctx, key, us, "ch_1", "n", eu, claim.News{}); return err },
		"renew":     func() error { _, err := far.Renew(ctx, "n", []claim.Lease{{Key: key, Home: us}}); return err },
		"get":       func() error { _, _, _, err := far.Get(ctx, key, us); return err },
		"object":    func() error { _, _, _, err := far.Object(ctx, "acme", us, "x"); return err },
		"pin":       func() error { _, err := far.Pin(ctx, key, eu); return err },
		"timeline":  func() error { _, err := far.Timeline(ctx, key, us, 1); return err },
		"take":      func() error { _, err := far.Queue(outbox.ProviderCalls).Take(ctx, us, 1, time.Second); return err },
		"events":    func() error { _, err := far.Queue(outbox.Events).Depth(ctx, us); return err },
		"post":      func() error { _, err := far.Post(ctx, ghost()); return err },
		"reversals": func() error { _, err := far.Reversals(ctx, "x"); return err },
		"balances":  func() error { _, err := far.Balances(ctx, us, ledger.AccountKey{}, 1); return err },
		"keep":      func() error { _, err := far.Keep(ctx, us, []notice.Notice{{ID: "sim:x"}}); return err },
		"close all": func() error {
			_, err := far.CloseAll(ctx, us, []outbox.Hold{{ID: "sim:x", Fence: 1}}, notice.Ignored, "")
			return err
		},
		"close":   func() error { return far.Close(ctx, us, "sim:x", 1, notice.Ignored, "") },
		"settled": func() error { _, err := far.Settled(ctx, us, claim.Key{}, 1); return err },
	} {
		err := do()
		require.ErrorIs(t, err, claim.ErrHomeUnreachable, name)
		require.ErrorIs(t, err, wan.ErrPartitioned, name)
	}
	shown, err := far.Replica(ctx, done.Key)
	require.NoError(t, err)
	require.Equal(t, &done, shown.Record)
	_, err = far.Begin(ctx, arrive("mine", eu))
	require.NoError(t, err, "rows of the view's own region")

	network.Heal(us, eu)
	got, err := far.Begin(ctx, arrive("new", us))
	require.NoError(t, err)
	require.Equal(t, claim.Won, got.Decision, "the call behind the partition did something")
}

func TestTenants(t *testing.T) {
	clock := newClock()
	cfg := embedded.Config{Clock: clock.now, Dir: t.TempDir(), FS: vfs.Default}
	ctx := context.Background()
	acme := claim.Tenant{ID: "acme", Name: "Acme", Registrar: us, RatePerSecond: 12.5, Burst: 40}
	policy := testPolicy()

	cfg.Regions, cfg.Policy = regions, policy
	db, err := embedded.Open(cfg)
	require.NoError(t, err)
	require.NoError(t, db.PutTenant(ctx, acme, "sk_1", "sk_2"))
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "globex", Registrar: eu}, "sk_3"))
	require.Error(t, db.PutTenant(ctx, claim.Tenant{ID: "globex", Registrar: eu}, "sk_1"), "another tenant's key")
	require.Error(t, db.PutTenant(ctx, claim.Tenant{ID: "globex", Registrar: eu}, ""))
	require.Error(t, db.PutTenant(ctx, claim.Tenant{ID: "new", Registrar: "mars"}))
	require.Error(t, db.PutTenant(ctx, claim.Tenant{Registrar: us}))

	require.ErrorIs(t, db.MoveRegistrar(ctx, "nobody", us), claim.ErrUnknownTenant)
	require.Error(t, db.MoveRegistrar(ctx, "acme", "mars"))
	_, err = view(t, db, us).Pin(ctx, claim.Key{Tenant: "acme", Value: "k"}, us)
	require.NoError(t, err)
	require.NoError(t, db.MoveRegistrar(ctx, "acme", eu))
	moved := acme
	moved.Registrar, moved.PreviousRegistrar, moved.RegistrarMovedAt = eu, us, clock.now().UTC().Truncate(time.Microsecond)
	require.Error(t, db.MoveRegistrar(ctx, "acme", asia), "pins in three regions would not be found")
	// A start-up writes the tenant again: it keeps the registrar, and changes rate and card numbers.
	acme.RatePerSecond, moved.RatePerSecond = 99, 99
	acme.CardNumbers, moved.CardNumbers = claim.MaskCardNumbers, claim.MaskCardNumbers
	require.NoError(t, db.PutTenant(ctx, acme, "sk_1"))
	require.NoError(t, db.Close())

	db = open(t, cfg)
	for key, want := range map[string]claim.Tenant{"sk_1": moved, "sk_2": moved, "sk_3": {ID: "globex", Registrar: eu}} {
		got, found, err := view(t, db, asia).TenantByAPIKey(ctx, claim.HashAPIKey(key))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, want, got)
	}
	_, found, err := db.TenantByAPIKey(ctx, claim.HashAPIKey("sk_none"))
	require.NoError(t, err)
	require.False(t, found)
	all, err := db.Tenants(ctx)
	require.NoError(t, err)
	require.Len(t, all, 2)
	keys, err := db.APIKeys(ctx, "globex")
	require.NoError(t, err)
	require.Equal(t, []claim.StoredAPIKey{{Hash: claim.HashAPIKey("sk_3")}}, keys)
	keys, err = db.APIKeys(ctx, "acme")
	require.NoError(t, err)
	require.Len(t, keys, 2)
	keys, err = db.APIKeys(ctx, "nobody")
	require.NoError(t, err)
	require.Empty(t, keys)

	clock.advance(policy.PinLife())
	_, err = db.Sweep(ctx, 10)
	require.NoError(t, err)
	require.NoError(t, db.MoveRegistrar(ctx, "acme", asia))
}

// Open refuses windows shorter than those with which the store was opened before: its keys were
// promised the longer ones.
func TestShorterWindowsAreRefused(t *testing.T) {
	cfg := embedded.Config{FS: vfs.NewMem(), Dir: "store", Regions: regions, Policy: testPolicy()}
	require.NoError(t, open(t, cfg).Close())
	for name, change := range map[string]func(p *claim.Policy){
		"claim.replay_for":    func(p *claim.Policy) { p.ReplayFor -= time.Second },
		"claim.tombstone_for": func(p *claim.Policy) { p.TombstoneFor -= time.Hour },
		"claim.pin_grace":     func(p *claim.Policy) { p.PinGrace /= 2 },
	} {
		shorter := cfg
		change(&shorter.Policy)
		_, err := embedded.Open(shorter)
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "\n")
	}
	cfg.Policy.ReplayFor += time.Hour
	require.NoError(t, open(t, cfg).Close())
	cfg.Policy = testPolicy()
	_, err := embedded.Open(cfg)
	require.ErrorContains(t, err, "promised 25h0m0s")
}

// TestRegistrarForgotten checks that pins at the previous registrar count for as
// long as they protect anything, however old they are, and not longer.
func TestRegistrarForgotten(t *testing.T) {
	clock := newClock()
	db := open(t, embedded.Config{Clock: clock.now})
	ctx, policy := t.Context(), testPolicy()
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "acme", Registrar: us}, "sk"))
	near := view(t, db, us)
	owed := arrive("owed", us)
	_, err := near.Pin(ctx, owed.Key, us)
	require.NoError(t, err)
	begun, err := near.Begin(ctx, owed)
	require.NoError(t, err)
	require.NoError(t, db.MoveRegistrar(ctx, "acme", eu))

	sweep := func() string {
		t.Helper()
		_, err := db.Sweep(ctx, 1000)
		require.NoError(t, err)
		tenant, _, err := db.TenantByAPIKey(ctx, claim.HashAPIKey("sk"))
		require.NoError(t, err)
		return tenant.PreviousRegistrar
	}
	clock.advance(3 * policy.PinLife()) // the claim in flight never expires
	require.Equal(t, us, sweep())
	require.Error(t, db.MoveRegistrar(ctx, "acme", asia), "the pin in the third region would not be found")
	pin, err := view(t, db, asia).Pin(ctx, owed.Key, asia)
	require.NoError(t, err)
	require.Equal(t, us, pin.Home, "an outcome is still owed there")

	_, err = near.Settle(ctx, begun.Record, claim.Verdict{Outcome: &claim.Done{Response: claim.Response{Status: 201}}})
	require.NoError(t, err)
	clock.advance(3 * policy.PinLife())
	require.Empty(t, sweep())
	require.NoError(t, db.MoveRegistrar(ctx, "acme", asia))
}

// TestSweep checks that a sweep deletes only rows without effect, and keeps their audit.
func TestSweep(t *testing.T) {
	clock := newClock()
	db := open(t, embedded.Config{Clock: clock.now})
	ctx := t.Context()
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "acme", Registrar: us}))
	v := view(t, db, us)
	sweep := func(limit, want int) {
		t.Helper()
		n, err := db.Sweep(ctx, limit)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	rows := func(table byte) int {
		n, err := db.Rows(table)
		require.NoError(t, err)
		return n
	}
	for _, k := range []string{"a", "b", "c", "owed"} {
		pin, err := v.Pin(ctx, claim.Key{Tenant: "acme", Value: k}, us)
		require.NoError(t, err)
		a := arrive(k, us)
		a.Stamped, a.PinnedAt = false, pin.CreatedAt
		got, err := v.Begin(ctx, a)
		require.NoError(t, err)
		if k != "owed" {
			_, err = v.Settle(ctx, got.Record, claim.Verdict{Outcome: &claim.Done{Response: claim.Response{Status: 201}}})
			require.NoError(t, err)
		}
	}
	line := func() []claim.AuditEntry {
		entries, err := v.Timeline(ctx, claim.Key{Tenant: "acme", Value: "a"}, us, 100)
		require.NoError(t, err)
		return entries
	}
	audit := line()
	require.Len(t, audit, 3)
	policy := testPolicy()
	clock.advance(policy.PinLife() - time.Microsecond)
	sweep(100, 0)
	require.Equal(t, 4, rows('j'))
	clock.advance(time.Microsecond)
	sweep(2, 2)
	sweep(2, 2)
	sweep(100, 2)
	sweep(100, 0)
	require.Equal(t, []int{1, 1, 1, 1}, []int{rows('c'), rows('j'), rows('p'), rows('d')}, "the rows of the claim in flight stay")
	require.Equal(t, audit, line(), "audit stays")
	pin, err := v.Pin(ctx, claim.Key{Tenant: "acme", Value: "owed"}, eu)
	require.NoError(t, err)
	require.Equal(t, us, pin.Home)
	got, err := v.Begin(ctx, arrive("a", us))
	require.NoError(t, err)
	require.Equal(t, claim.Won, got.Decision)
	require.Equal(t, audit, line()[:3], "new entries follow the old ones")
	require.Len(t, line(), 4)
}

// TestALargeBody checks that the store writes the body of a notice when it keeps the notice and
// when it closes it, and not with each change of its row.
func TestALargeBody(t *testing.T) {
	const size = 64 << 10
	db := open(t, embedded.Config{})
	ctx, v := t.Context(), view(t, db, us)
	q, id := v.Queue(outbox.Notices), notice.ID("sim", "large")
	body := bytes.Repeat([]byte("b"), size)
	before := db.Written()
	_, err := v.Keep(ctx, us, []notice.Notice{{ID: id, Provider: "sim", Body: body}})
	require.NoError(t, err)
	require.Greater(t, db.Written()-before, uint64(size))
	take := func() outbox.Message {
		taken, err := q.Take(ctx, us, 10, time.Minute)
		require.NoError(t, err)
		require.Len(t, taken, 1)
		require.Equal(t, body, taken[0].Payload)
		return taken[0]
	}
	require.NoError(t, q.Retry(ctx, us, take().Hold(), 0, "again"))
	require.NoError(t, q.Park(ctx, us, take().Hold(), "cannot be read"))
	parked, err := q.Parked(ctx, us, "", 10)
	require.NoError(t, err)
	require.Len(t, parked, 1)
	require.Equal(t, body, parked[0].Payload)
	_, err = q.Unpark(ctx, us, id)
	require.NoError(t, err)
	waiting, err := q.Waiting(ctx, us, 10)
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	require.Equal(t, body, waiting[0].Payload)
	require.NoError(t, v.Close(ctx, us, id, take().Fence, notice.ProcessedOK, "known"))
	require.Less(t, db.Written()-before, uint64(2*size+size/10))
	n, _, err := v.Notice(ctx, us, id)
	require.NoError(t, err)
	require.Equal(t, []any{body, notice.ProcessedOK, "known"}, []any{n.Body, n.Status, n.Detail})
}

// TestSweepNotices checks that a sweep deletes a notice once no provider repeats it any more,
// unless it waits for an operator, and that the books stay.
func TestSweepNotices(t *testing.T) {
	clock := newClock()
	db := open(t, embedded.Config{Clock: clock.now})
	ctx, v := t.Context(), view(t, db, us)
	for _, e := range []string{"done", "waits"} {
		_, err := v.Keep(ctx, us, []notice.Notice{{ID: notice.ID("sim", e), Provider: "sim"}})
		require.NoError(t, err)
	}
	done := notice.ID("sim", "done")
	taken, err := v.Queue(outbox.Notices).Take(ctx, us, 10, time.Minute)
	require.NoError(t, err)
	for _, m := range taken {
		if m.ID == done {
			require.NoError(t, v.Close(ctx, us, m.ID, m.Fence, notice.ProcessedOK, ""))
		}
	}
	_, err = v.Post(ctx, ghost())
	require.NoError(t, err)

	clock.advance(notice.KeepFor - time.Microsecond)
	for _, want := range []int{0, 1, 0} {
		n, err := db.Sweep(ctx, 100)
		require.NoError(t, err)
		require.Equal(t, want, n)
		clock.advance(time.Microsecond)
	}
	_, found, err := v.Notice(ctx, us, done)
	require.NoError(t, err)
	require.False(t, found)
	n, found, err := v.Notice(ctx, us, notice.ID("sim", "waits"))
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, notice.Unprocessed, n.Status)
	_, found, err = v.Transaction(ctx, us, ghost().ID)
	require.NoError(t, err)
	require.True(t, found)
}

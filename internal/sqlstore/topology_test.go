package sqlstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/outbox"
)

// activeAgain is for a database that other tests share.
func activeAgain(t *testing.T, db *sqlstore.DB) {
	t.Helper()
	t.Cleanup(func() {
		for _, r := range regions {
			_, err := db.SetRegionStatus(context.Background(), r, 0)
			require.NoError(t, err)
		}
	})
}

func TestRegionStatus(t *testing.T) {
	d := newDatabase(t)
	db, ctx := open(t, sqlstore.Config{URL: d.url}), t.Context()
	activeAgain(t, db)
	status := func(name string) (status claim.RegionStatus, newest uint64) {
		t.Helper()
		rows, newest, err := db.Regions(ctx)
		require.NoError(t, err)
		for _, r := range rows {
			if r.Name == name {
				status = r.Status
			}
		}
		return status, newest
	}
	_, before := status(regions[1])
	for range 2 { // the second time nothing changes
		epoch, err := db.SetRegionStatus(ctx, regions[1], 1)
		require.NoError(t, err)
		require.Equal(t, before+1, epoch)
	}
	is, newest := status(regions[1])
	require.EqualValues(t, 1, is)
	require.Equal(t, before+1, newest)
	is, _ = status(regions[0])
	require.Zero(t, is)

	for _, name := range []string{"mars", ""} {
		_, err := db.SetRegionStatus(ctx, name, 1)
		require.ErrorContains(t, err, "no region")
	}
	epoch, err := db.SetRegionStatus(ctx, regions[1], 0)
	require.NoError(t, err)
	require.Equal(t, before+2, epoch)
}

// TestEveryChangeOfStatusHasAnEpoch: of changes at once none shares its epoch with
// another, so that whoever has seen an epoch has seen all changes up to it.
func TestEveryChangeOfStatusHasAnEpoch(t *testing.T) {
	d := newDatabase(t)
	db, ctx := open(t, sqlstore.Config{URL: d.url}), t.Context()
	activeAgain(t, db)
	const rounds = 8
	var mu sync.Mutex
	seen := map[uint64]string{}
	var g errgroup.Group
	for _, r := range regions {
		g.Go(func() error {
			for i := range rounds {
				epoch, err := db.SetRegionStatus(ctx, r, claim.RegionStatus(1+i%2))
				if err != nil {
					return err
				}
				mu.Lock()
				other, twice := seen[epoch]
				seen[epoch] = r
				mu.Unlock()
				if twice {
					return fmt.Errorf("%s and %s both changed in epoch %d", other, r, epoch)
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	require.Len(t, seen, rounds*len(regions))
}

// TestInFlight counts what waits for an outcome, each claim once, and not what
// waits for a person.
func TestInFlight(t *testing.T) {
	d := newDatabase(t)
	policy := walkPolicy()
	db, ctx, home := open(t, sqlstore.Config{URL: d.admin, Policy: policy}), t.Context(), regions[1]
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "acme", Registrar: regions[0]}))
	v := view(t, db, home)
	is := func(want int) {
		t.Helper()
		n, err := view(t, db, regions[0]).InFlight(ctx, home)
		require.NoError(t, err)
		require.Equal(t, want, n)
		n, err = v.InFlight(ctx, regions[2])
		require.NoError(t, err)
		require.Zero(t, n)
	}
	is(0)
	var held []claim.Record
	for i := range 3 {
		key := fmt.Sprint("k", i)
		got, err := v.Begin(ctx, claimtest.NewArrival(claim.Key{Tenant: "acme", Value: key}, home, "1", "n", "ch_"+key))
		require.NoError(t, err)
		held = append(held, got.Record)
		is(i + 1)
	}
	_, err := v.Settle(ctx, held[0], claim.Verdict{Outcome: &claim.Done{Response: claim.Response{Status: 201}}})
	require.NoError(t, err)
	is(2)
	_, err = v.Settle(ctx, held[1], claim.Verdict{Outcome: &claim.Unknown{Reason: "timeout"}})
	require.NoError(t, err)
	is(2) // an unknown outcome is still to come
	_, err = v.Settle(ctx, held[2], claim.Verdict{Outcome: &claim.Unknown{Reason: "500"}})
	require.NoError(t, err)
	unknown := func(limit int) (keys []string) {
		all, err := view(t, db, regions[0]).Unknown(ctx, home, true, limit)
		require.NoError(t, err)
		for _, rec := range all {
			require.Equal(t, home, rec.Home)
			require.EqualValues(t, 1, rec.Unknowns)
			keys = append(keys, rec.Key.Value)
		}
		return keys
	}
	require.Equal(t, []string{"k1", "k2"}, unknown(10), "oldest first")
	require.Equal(t, []string{"k1"}, unknown(1))
	require.Empty(t, unknown(0))
	for parked := false; !parked; {
		due, err := v.Queue(outbox.ProviderCalls).Take(ctx, home, 1, time.Minute)
		require.NoError(t, err)
		for _, m := range due {
			require.NoError(t, v.Queue(outbox.ProviderCalls).Park(ctx, home, m.Hold(), "no"))
			parked = true
		}
		<-time.After(20 * time.Millisecond) // a lease runs out by the database's clock
	}
	is(1)
	require.Len(t, unknown(10), 1, "what is parked waits for a person")
	for _, call := range []func() error{
		func() error { _, err := v.InFlight(ctx, "mars"); return err },
		func() error { _, err := v.Unknown(ctx, "mars", true, 1); return err },
	} {
		require.ErrorIs(t, call(), claim.ErrHomeUnreachable)
	}
}

// TestUnknownOutcomesOfTestsHideNoLiveOne: a test tenant has thousands, all older and due earlier than
// the one of a live tenant.
func TestUnknownOutcomesOfTestsHideNoLiveOne(t *testing.T) {
	d := newDatabase(t)
	db, ctx, home, test := open(t, sqlstore.Config{URL: d.admin}), t.Context(), regions[0], claim.TestTenant("acme")
	v := view(t, db, home)
	d.fill(t, "claims", 19_000) // and no statistics
	d.exec(t, "UPDATE claims SET tenant_id = $1, unknowns = 1, fingerprint = decode(repeat('00', 32), 'hex') WHERE true", test)
	got, err := v.Begin(ctx, claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "k"}, home, "1", "n", "ch_1"))
	require.NoError(t, err)
	_, err = v.Settle(ctx, got.Record, claim.Verdict{Outcome: &claim.Unknown{Reason: "timeout"}})
	require.NoError(t, err)
	for tenant, live := range map[string]bool{"acme": true, test: false} {
		all, err := v.Unknown(ctx, home, live, 1)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, tenant, all[0].Key.Tenant)
	}
}

// TestALateOrderUndoesNothing sends the statements of orders again after other
// orders were given, as a network does that held them up.
func TestALateOrderUndoesNothing(t *testing.T) {
	d := newDatabase(t)
	var listener sqlstore.Listener
	db, ctx := open(t, sqlstore.Config{URL: d.url}.Listen(&listener)), t.Context()
	activeAgain(t, db)
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "acme", Registrar: regions[0]}))
	_, err := db.SetRegionStatus(ctx, regions[1], 1)
	require.NoError(t, err)
	require.NoError(t, db.MoveRegistrar(ctx, "acme", regions[1]))
	late := listener.All()
	_, err = db.SetRegionStatus(ctx, regions[1], 0)
	require.NoError(t, err)
	if d.clock != nil {
		d.clock.advance(t, time.Second)
	}
	require.NoError(t, db.MoveRegistrar(ctx, "acme", regions[0]))

	for _, name := range []string{"region_status", "registrar_move"} {
		d.exec(t, late[name].SQL, late[name].Args...)
	}
	rows, _, err := db.Regions(ctx)
	require.NoError(t, err)
	for _, r := range rows {
		require.Zero(t, r.Status, r.Name)
	}
	tenant, err := db.Tenant(ctx, "acme")
	require.NoError(t, err)
	require.Equal(t, regions[0], tenant.Registrar)
}

package embedded_test

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/embedded"
)

// TestRegionStatus checks that the store keeps each status, counts a change once, and lists the
// regions in the order of the configuration.
func TestRegionStatus(t *testing.T) {
	fs := vfs.NewMem()
	cfg := embedded.Config{Dir: "store", FS: fs, Regions: regions, Policy: testPolicy()}
	db, err := embedded.Open(cfg)
	require.NoError(t, err)
	ctx := t.Context()
	table := func(statuses ...claim.RegionStatus) (rows []claim.Region) {
		for i, r := range regions {
			rows = append(rows, claim.Region{Name: r.Name, Code: r.Code, Status: statuses[i]})
		}
		return rows
	}
	is := func(epoch uint64, statuses ...claim.RegionStatus) {
		t.Helper()
		rows, at, err := db.Regions(ctx)
		require.NoError(t, err)
		require.Equal(t, table(statuses...), rows)
		require.Equal(t, epoch, at)
	}
	is(1, 0, 0, 0)
	for range 2 { // the second time nothing changes
		epoch, err := db.SetRegionStatus(ctx, regions[1].Name, 1)
		require.NoError(t, err)
		require.EqualValues(t, 2, epoch)
	}
	_, err = db.SetRegionStatus(ctx, regions[2].Name, 2)
	require.NoError(t, err)
	_, err = db.SetRegionStatus(ctx, "mars", 1)
	require.ErrorContains(t, err, "mars")
	is(3, 0, 1, 2)

	require.NoError(t, db.Close())
	_, _, err = db.Regions(ctx)
	require.ErrorIs(t, err, claim.ErrUnavailable)
	db = open(t, cfg)
	is(3, 0, 1, 2)
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "acme", Registrar: regions[0].Name}))
	_, err = view(t, db, regions[1].Name).Pin(ctx, claim.Key{Tenant: "acme", Value: "k"}, regions[1].Name)
	require.ErrorIs(t, err, claim.ErrNoNewHomes, "also after a restart")
	epoch, err := db.SetRegionStatus(ctx, regions[1].Name, 0)
	require.NoError(t, err)
	require.EqualValues(t, 4, epoch)
}

// TestInFlight checks that each claim without an outcome is counted once.
func TestInFlight(t *testing.T) {
	db := open(t, embedded.Config{})
	ctx, home := t.Context(), regions[1].Name
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "acme", Registrar: regions[0].Name}))
	v := view(t, db, home)
	is := func(want int) {
		t.Helper()
		for _, r := range regions { // from each view
			n, err := view(t, db, r.Name).InFlight(ctx, home)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		n, err := v.InFlight(ctx, regions[2].Name)
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
	unknown := func(limit int) (keys []string) {
		all, err := view(t, db, regions[0].Name).Unknown(ctx, home, true, limit)
		require.NoError(t, err)
		for _, rec := range all {
			require.Equal(t, home, rec.Home)
			require.EqualValues(t, 1, rec.Unknowns)
			keys = append(keys, rec.Key.Value)
		}
		return keys
	}
	require.Equal(t, []string{"k1"}, unknown(10), "a claim with a holder is not unknown yet")
	_, err = v.Settle(ctx, held[2], claim.Verdict{Outcome: &claim.Unknown{Reason: "500"}})
	require.NoError(t, err)
	require.Equal(t, []string{"k1", "k2"}, unknown(10), "oldest first")
	require.Equal(t, []string{"k1"}, unknown(1))
	require.Empty(t, unknown(0))
	_, err = v.Unknown(ctx, "mars", true, 1)
	require.ErrorIs(t, err, claim.ErrHomeUnreachable)
	_, err = v.InFlight(ctx, "mars")
	require.ErrorIs(t, err, claim.ErrHomeUnreachable)
}

// TestUnknownOutcomesOfTestsHideNoLiveOne: a test tenant has thousands, all older and due earlier than
// the one of a live tenant.
func TestUnknownOutcomesOfTestsHideNoLiveOne(t *testing.T) {
	db := open(t, embedded.Config{})
	ctx, home, test := t.Context(), regions[1].Name, claim.TestTenant("acme")
	v := view(t, db, home)
	unknown := func(tenant, key string) error {
		got, err := v.Begin(ctx, claimtest.NewArrival(claim.Key{Tenant: tenant, Value: key}, home, "1", "n", tenant+key))
		if err == nil {
			_, err = v.Settle(ctx, got.Record, claim.Verdict{Outcome: &claim.Unknown{Reason: "timeout"}})
		}
		return err
	}
	var g errgroup.Group
	g.SetLimit(64)
	for i := range 5_100 {
		g.Go(func() error { return unknown(test, fmt.Sprint(i)) })
	}
	require.NoError(t, g.Wait())
	require.NoError(t, unknown("acme", "k"))
	for tenant, live := range map[string]bool{"acme": true, test: false} {
		all, err := v.Unknown(ctx, home, live, 1)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, tenant, all[0].Key.Tenant)
	}
}

package sqlstore_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// TestStoresAgree: the two stores answer random operations alike.
// -rapid.checks=1000 -rapid.steps=100 runs more of them.
func TestStoresAgree(t *testing.T) {
	h := harness(t, testPolicy)
	if h.Advance == nil {
		t.Skip("the two clocks have to show one time")
	}
	claimtest.Agree(t, h, besides(t, h))
}

// besides is the embedded store, with the clock and policy of h.
func besides(t *testing.T, h claimtest.Harness) claimtest.Harness {
	_, start, _, err := h.Store(h.Regions[0]).Get(t.Context(), claim.Key{Tenant: "acme", Value: "clock"}, h.Regions[0])
	require.NoError(t, err)
	var passed atomic.Int64
	cfg := embedded.Config{
		Dir: "store", FS: vfs.NewMem(), Policy: h.Policy,
		Clock: func() time.Time { return start.Add(time.Duration(passed.Load())) },
	}
	for i, name := range h.Regions {
		cfg.Regions = append(cfg.Regions, claim.Region{Name: name, Code: claim.RegionCode(i + 1)})
	}
	db, err := embedded.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	view := func(region string) *embedded.View {
		v, err := db.Region(region)
		require.NoError(t, err)
		return v
	}
	h.Store = func(region string) claim.Store { return view(region) }
	h.Queue = func(region string, q outbox.Queue) outbox.Store { return view(region).Queue(q) }
	h.Ledger = func(region string) ledger.Store { return view(region) }
	h.Advance = func(by time.Duration) { passed.Add(int64(by)) }
	h.Sweep = func(t testing.TB) {
		for removed := 1; removed > 0; {
			var err error
			removed, err = db.Sweep(t.Context(), 1000)
			require.NoError(t, err)
		}
	}
	h.PutTenant = func(t testing.TB, tenant claim.Tenant) { require.NoError(t, db.PutTenant(t.Context(), tenant)) }
	h.MoveRegistrar = func(t testing.TB, tenant, to string) {
		require.NoError(t, db.MoveRegistrar(t.Context(), tenant, to))
	}
	h.SetStatus = func(t testing.TB, region string, status claim.RegionStatus) {
		_, err := db.SetRegionStatus(t.Context(), region, status)
		require.NoError(t, err)
	}
	return h
}

package embedded_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/outboxtest"
)

var regions = []embedded.Region{{Name: "us-east1", Code: 1}, {Name: "europe-west1", Code: 2}, {Name: "asia-northeast1", Code: 3}}

// virtualClock is moved by the tests.
type virtualClock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *virtualClock {
	return &virtualClock{t: time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)}
}

func (c *virtualClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *virtualClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func (c *virtualClock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = t
}

func testPolicy() claim.Policy {
	p := claim.DefaultPolicy()
	p.MaxUnknowns, p.MaxGenerations = 4, 3
	return p
}

func open(t testing.TB, cfg embedded.Config) *embedded.DB {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = "store"
	}
	if cfg.FS == nil {
		cfg.FS = vfs.NewMem()
	}
	if cfg.Regions == nil {
		cfg.Regions = regions
	}
	if cfg.Policy == (claim.Policy{}) {
		cfg.Policy = testPolicy()
	}
	db, err := embedded.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func view(t testing.TB, db *embedded.DB, region string) *embedded.View {
	t.Helper()
	v, err := db.Region(region)
	require.NoError(t, err)
	return v
}

func harness(t *testing.T, policy claim.Policy) claimtest.Harness {
	clock := newClock()
	db := open(t, embedded.Config{Policy: policy, Clock: clock.now})
	return claimtest.Harness{
		Regions:    []string{"us-east1", "europe-west1", "asia-northeast1"},
		Store:      func(region string) claim.Store { return view(t, db, region) },
		Outbox:     func(region string) outbox.Store { return view(t, db, region) },
		Policy:     policy,
		ReplicaLag: embedded.DefaultReplicaLag,
		Advance:    clock.advance,
		PutTenant: func(t testing.TB, tenant claim.Tenant) {
			require.NoError(t, db.PutTenant(context.Background(), tenant))
		},
		MoveRegistrar: func(t testing.TB, tenant, to string) {
			require.NoError(t, db.MoveRegistrar(context.Background(), tenant, to))
		},
		SetStatus: func(t testing.TB, region string, status uint8) {
			_, err := db.SetRegionStatus(context.Background(), region, status)
			require.NoError(t, err)
		},
	}
}

func TestClaims(t *testing.T) {
	claimtest.Exercise(t, func(t *testing.T) claimtest.Harness { return harness(t, testPolicy()) })
}

// TestClaimsUnderClockOffset runs the suite as if the store had many clocks.
func TestClaimsUnderClockOffset(t *testing.T) {
	p := testPolicy()
	p.ClockOffset = 500 * time.Millisecond
	claimtest.Exercise(t, func(t *testing.T) claimtest.Harness { return harness(t, p) })
}

func outboxHarness(t *testing.T) outboxtest.Harness {
	h := harness(t, testPolicy())
	h.PutTenant(t, claim.Tenant{ID: "acme", Registrar: h.Regions[0]})
	held := map[string]claim.Record{}
	return outboxtest.Harness{
		Regions: h.Regions,
		Store:   h.Outbox,
		Insert: func(t testing.TB, region, key string) string {
			a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: key}, region, "100", "node", "ch_"+key)
			got, err := h.Store(region).Begin(context.Background(), a)
			require.NoError(t, err)
			require.Equal(t, claim.Won, got.Decision)
			held[key] = got.Record
			return got.Record.Minted.ID
		},
		Settle: func(t testing.TB, region, key string) {
			rec := held[key]
			_, err := h.Store(region).Settle(context.Background(), rec, claim.Verdict{Outcome: claim.OutcomeDone})
			require.NoError(t, err)
		},
		Lease: h.Policy.Lease,
		Pass:  func(_ testing.TB, d time.Duration) { h.Advance(d) },
		Exact: true,
	}
}

func TestOutbox(t *testing.T) { outboxtest.Exercise(t, outboxHarness) }

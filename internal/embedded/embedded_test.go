package embedded_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/audit/audittest"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/ledger/ledgertest"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/outboxtest"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/outbox/relay/relaytest"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/notice/noticetest"
)

var regions = []claim.Region{{Name: "us-east1", Code: 1}, {Name: "europe-west1", Code: 2}, {Name: "asia-northeast1", Code: 3}}

// virtualClock is a clock that tests move.
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
	cfg := embedded.Config{Policy: policy, Clock: clock.now, FS: vfs.NewMem()}
	db := open(t, cfg)
	return claimtest.Harness{
		Regions:    []string{"us-east1", "europe-west1", "asia-northeast1"},
		Store:      func(region string) claim.Store { return view(t, db, region) },
		Outbox:     func(region string) outbox.Store { return view(t, db, region).Queue(outbox.ProviderCalls) },
		Queue:      func(region string, q outbox.Queue) outbox.Store { return view(t, db, region).Queue(q) },
		Ledger:     func(region string) ledger.Store { return view(t, db, region) },
		Policy:     policy,
		ReplicaLag: embedded.DefaultReplicaLag,
		Advance:    clock.advance,
		SetBack: func(by time.Duration) { // of a store that runs, the clock would go at half the pace
			require.NoError(t, db.Close())
			clock.advance(-by)
			db = open(t, cfg)
		},
		Sweep: func(t testing.TB) {
			for removed := 1; removed > 0; {
				var err error
				removed, err = db.Sweep(context.Background(), 1000)
				require.NoError(t, err)
			}
		},
		Flush: func(t testing.TB) { require.NoError(t, db.Flush()) },
		PutTenant: func(t testing.TB, tenant claim.Tenant) {
			require.NoError(t, db.PutTenant(context.Background(), tenant))
		},
		MoveRegistrar: func(t testing.TB, tenant, to string) {
			require.NoError(t, db.MoveRegistrar(context.Background(), tenant, to))
		},
		SetStatus: func(t testing.TB, region string, status claim.RegionStatus) {
			_, err := db.SetRegionStatus(context.Background(), region, status)
			require.NoError(t, err)
		},
	}
}

func TestClaims(t *testing.T) {
	// With -short rapid draws a fifth of the random operations.
	claimtest.Exercise(t, func(t *testing.T) claimtest.Harness { return harness(t, testPolicy()) })
}

// TestClaimsUnderClockOffset runs the suite as if the store had many clocks.
func TestClaimsUnderClockOffset(t *testing.T) {
	p := testPolicy()
	p.ClockOffset = 500 * time.Millisecond
	claimtest.Exercise(t, func(t *testing.T) claimtest.Harness { return harness(t, p) })
}

func TestOutbox(t *testing.T) {
	for _, q := range []outbox.Queue{outbox.ProviderCalls, outbox.Events, outbox.Expiries} {
		t.Run(string(q), func(t *testing.T) {
			outboxtest.Exercise(t, func(t *testing.T) outboxtest.Harness {
				return claimtest.Queue(t, harness(t, testPolicy()), q)
			})
		})
	}
	t.Run(string(outbox.Notices), func(t *testing.T) {
		outboxtest.Exercise(t, func(t *testing.T) outboxtest.Harness { return noticetest.Queue(noticeHarness(t)) })
	})
}

func TestQueueNames(t *testing.T) {
	v := view(t, open(t, embedded.Config{}), "us-east1")
	for _, q := range outbox.AllQueues() {
		require.NotNil(t, v.Queue(q))
	}
	require.Panics(t, func() { v.Queue("no such queue") })
}

func noticeHarness(t *testing.T) noticetest.Harness {
	clock := newClock()
	fs := vfs.NewMem()
	db := open(t, embedded.Config{Clock: clock.now, FS: fs})
	return noticetest.Harness{
		Regions: names(),
		Store:   func(region string) notice.Store { return view(t, db, region) },
		Queue:   func(region string) outbox.Store { return view(t, db, region).Queue(outbox.Notices) },
		Events:  func(region string) outbox.Store { return view(t, db, region).Queue(outbox.Events) },
		Books:   func(region string) ledger.Store { return view(t, db, region) },
		Lease:   time.Minute,
		Pass:    func(_ testing.TB, d time.Duration) { clock.advance(d) },
		Exact:   true,
		Now:     func(testing.TB) time.Time { return clock.now().Truncate(time.Microsecond) },
		Raw:     func(t testing.TB) []byte { return raw(t, fs) },
		Sweep: func(t testing.TB, _ string) {
			for n := 1; n > 0; {
				var err error
				n, err = db.Sweep(context.Background(), 100)
				require.NoError(t, err)
			}
		},
	}
}

// raw returns the bytes of every file of the store. The log has the rows of a test uncompressed;
// only tables are compressed.
func raw(t testing.TB, fs vfs.FS) (all []byte) {
	t.Helper()
	files, err := fs.List("store")
	require.NoError(t, err)
	for _, name := range files {
		f, err := fs.Open(fs.PathJoin("store", name))
		require.NoError(t, err)
		content, err := io.ReadAll(f)
		require.NoError(t, errors.Join(err, f.Close()))
		all = append(all, content...)
	}
	return all
}

func TestNotices(t *testing.T) { noticetest.Exercise(t, noticeHarness) }

// TestLateSuccesses checks that a ghost is refunded however late it surfaces, and that no other
// refund takes its key.
func TestLateSuccesses(t *testing.T) {
	harness := func(t *testing.T) noticetest.LateHarness {
		clock := newClock()
		db := open(t, embedded.Config{Clock: clock.now})
		require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: us}))
		return noticetest.LateHarness{
			Home: us, Code: 1, Policy: testPolicy(), Rows: view(t, db, us),
			Pass: func(_ testing.TB, d time.Duration) { clock.advance(d) },
			Now:  func(testing.TB) time.Time { return clock.now() },
			Sweep: func(t testing.TB) {
				_, err := db.Sweep(context.Background(), 1000)
				require.NoError(t, err)
			},
		}
	}
	noticetest.ExerciseLate(t, harness)
	noticetest.ExerciseOrder(t, harness)
	noticetest.ExerciseKeys(t, harness)
	noticetest.ExerciseHeld(t, harness)
}

func TestLedger(t *testing.T) {
	ledgertest.Exercise(t, func(t *testing.T) ledgertest.Harness {
		clock := newClock()
		db := open(t, embedded.Config{Clock: clock.now})
		return ledgertest.Harness{
			Regions: names(),
			Store:   func(region string) ledger.Store { return view(t, db, region) },
			Pass:    func(_ testing.TB, d time.Duration) { clock.advance(d) },
			Exact:   true,
			Now:     func(testing.TB) time.Time { return clock.now().Truncate(time.Microsecond) },
		}
	})
}

func TestEndpoints(t *testing.T) {
	relaytest.Exercise(t, func(t *testing.T) relaytest.Harness {
		clock := newClock()
		fs := vfs.NewMem()
		db := open(t, embedded.Config{Clock: clock.now, FS: fs})
		return relaytest.Harness{
			Regions:   names(),
			Endpoints: func(region string) relay.Endpoints { return view(t, db, region) },
			Tenants:   [2]string{"acme", "globex"},
			Pass:      func(_ testing.TB, d time.Duration) { clock.advance(d) },
			Now:       func(testing.TB) time.Time { return clock.now().Truncate(time.Microsecond) },
			Patience:  72 * time.Hour,
			Raw:       func(t testing.TB) []byte { return raw(t, fs) },
		}
	})
}

func names() (all []string) {
	for _, r := range regions {
		all = append(all, r.Name)
	}
	return all
}

func TestAudit(t *testing.T) {
	audittest.Exercise(t, func(t *testing.T) audittest.Harness {
		h := harness(t, testPolicy())
		return audittest.Harness{Harness: h, Audit: func(region string) audit.Store { return h.Ledger(region).(*embedded.View) }}
	})
}

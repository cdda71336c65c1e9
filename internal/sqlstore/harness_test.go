package sqlstore_test

import (
	"context"
	"flag"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/audit/audittest"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/ledger/ledgertest"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/outboxtest"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/outbox/relay/relaytest"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/notice/noticetest"
)

var regions = []string{"us-east1", "europe-west1", "asia-northeast1"}

// TestMain runs more tests at once than there are cores, unless a flag says how many: most
// wait for the database, or for faults to be over. CockroachDB's three nodes need more of them.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	width := 3 * runtime.GOMAXPROCS(0)
	if os.Getenv("HOMEWARD_TEST_KIND") == string(localdb.CockroachDB) {
		width /= 2
	}
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(width)) // a number, and the flag takes one
	}
	os.Exit(dbtest.Main(m))
}

// database is a migrated database of one test's own.
type database struct {
	server *localdb.Server
	// url is for the store, admin for whoever looks behind it. On PostgreSQL the
	// store's clock is the test's, admin's is the server's.
	url, admin string
	clock      *clock
}

var template = dbtest.Template{Make: prepare, Keep: []string{"regions", "deployment", "homeward_schema_version"}}

func newDatabase(t testing.TB) database {
	t.Helper()
	name, s := template.Database(t), dbtest.Shared(t)
	if s.Kind() == localdb.CockroachDB {
		url := s.URL(regions[0], name)
		return database{server: s, url: url, admin: url}
	}
	d := database{server: s, admin: s.URL("", name)}
	d.url = onClock(t, d.admin)
	d.clock = &clock{d: d}
	return d
}

// prepare migrates a new database and, on PostgreSQL, gives it a clock that
// tests can move: functions that hide now() and clock_timestamp() from sessions
// which look for them in another schema first. The statements stay as they are.
func prepare(ctx context.Context, s *localdb.Server, name string) error {
	if err := s.CreateDatabase(ctx, name, ""); err != nil {
		return err
	}
	m, err := sqlstore.OpenMigrator(ctx, s.URL(regions[0], name), false)
	if err != nil {
		return err
	}
	defer func() { _ = m.Close(ctx) }()
	var specs []claim.Region
	for _, r := range regions {
		specs = append(specs, claim.Region{Name: r})
	}
	if err := m.Up(ctx, sqlstore.Migration{Regions: specs}, nil); err != nil {
		return err
	}
	if s.Kind() == localdb.CockroachDB {
		return nil
	}
	conn, err := pgx.Connect(ctx, s.URL("", name))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, `
		CREATE SCHEMA test_clock;
		CREATE TABLE test_clock.clock (t timestamptz NOT NULL);
		INSERT INTO test_clock.clock VALUES ('2026-03-01 12:00:00.123456Z');
		CREATE FUNCTION test_clock.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT t FROM test_clock.clock';
		CREATE FUNCTION test_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT t FROM test_clock.clock';
		ALTER FUNCTION forget_audit SET search_path = test_clock, public, pg_catalog;
		ALTER FUNCTION expire_audit SET search_path = test_clock, public, pg_catalog;
		ALTER FUNCTION forget_books SET search_path = test_clock, public, pg_catalog`)
	return err
}

// onClock makes sessions of a URL read the test's clock.
func onClock(t testing.TB, rawURL string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	q := u.Query()
	q.Set("search_path", "test_clock,public,pg_catalog")
	u.RawQuery = q.Encode()
	return u.String()
}

func (d database) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), d.admin)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(context.Background(), sql, args...)
	require.NoError(t, err)
}

// count returns the one number that a query yields.
func (d database) count(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), d.admin)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	require.NoError(t, conn.QueryRow(context.Background(), sql, args...).Scan(&n))
	return n
}

// withDefaults is the database as a user has it who gets what ALTER DATABASE … SET says:
// CockroachDB's root does not.
func (d database) withDefaults(t testing.TB) database {
	t.Helper()
	if d.server.Kind() != localdb.CockroachDB {
		return d
	}
	d.exec(t, "CREATE USER IF NOT EXISTS tester")
	d.exec(t, "GRANT admin TO tester")
	u, err := url.Parse(d.admin)
	require.NoError(t, err)
	u.User = url.User("tester")
	d.url, d.admin = u.String(), u.String()
	return d
}

// clock is the test's clock in the database.
type clock struct{ d database }

func (c *clock) advance(t testing.TB, by time.Duration) {
	t.Helper()
	c.d.exec(t, "UPDATE test_clock.clock SET t = t + $1::interval", by.Truncate(time.Microsecond))
}

func testPolicy() claim.Policy {
	p := claim.DefaultPolicy()
	p.MaxUnknowns, p.MaxGenerations = 4, 3
	return p
}

// livePolicy is for a database whose clock is the world's: seconds for hours.
func livePolicy() claim.Policy {
	p := testPolicy()
	p.Lease, p.RenewEvery, p.LeaseCeiling, p.LeaseMargin = 3*time.Second, time.Second, 5*time.Second, 600*time.Millisecond
	p.ClockOffset = 500 * time.Millisecond
	p.ReplayFor, p.TombstoneFor, p.PinGrace = 8*time.Second, 4*time.Second, 8*time.Second
	p.BackoffMin, p.BackoffMax = 40*time.Millisecond, 400*time.Millisecond
	return p
}

// testPool never reads a tenant from memory, and is patient with a busy machine.
func testPool() sqlstore.Pool {
	p := sqlstore.DefaultPool()
	p.TenantCache = -1
	p.StatementTimeout, p.CallTimeout, p.ConnectTimeout = 20*time.Second, 30*time.Second, 10*time.Second
	if os.Getenv("HOMEWARD_TEST_KIND") == string(localdb.CockroachDB) {
		// Beside a load of 40 its three nodes miss heartbeats, and answer nothing for as long as that.
		p.StatementTimeout, p.CallTimeout, p.ConnectTimeout = 40*time.Second, 50*time.Second, 30*time.Second
	}
	return p
}

func open(t testing.TB, c sqlstore.Config) *sqlstore.DB {
	t.Helper()
	if c.Policy == (claim.Policy{}) {
		c.Policy = testPolicy()
	}
	if c.Pool == (sqlstore.Pool{}) {
		c.Pool = testPool()
	}
	db, err := sqlstore.Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func view(t testing.TB, db *sqlstore.DB, region string) *sqlstore.View {
	t.Helper()
	v, err := db.Region(region)
	require.NoError(t, err)
	return v
}

// harness is of a database of its test's own, which runs beside the others.
func harness(t *testing.T, policy func() claim.Policy) claimtest.Harness {
	t.Parallel()
	d := newDatabase(t)
	h := claimtest.Harness{Regions: regions, Policy: policy()}
	if d.clock != nil {
		h.Advance = func(by time.Duration) { d.clock.advance(t, by) }
		h.SetBack = func(by time.Duration) { d.clock.advance(t, -by) }
	} else {
		h.Policy = livePolicy()
		h.ReplicaLag = 6 * time.Second // follower reads are 4.2 s old, and the target 4.8
	}
	db := open(t, sqlstore.Config{URL: d.url, Policy: h.Policy})
	if d.clock != nil {
		db.StopWaiting()
		h.Sweep = func(t testing.TB) {
			for _, region := range regions {
				for removed := 1; removed > 0; {
					var err error
					removed, err = view(t, db, region).Sweep(context.Background(), 1000)
					require.NoError(t, err)
				}
			}
		}
	}
	h.Store = func(region string) claim.Store { return view(t, db, region) }
	h.Outbox = func(region string) outbox.Store { return view(t, db, region).Queue(outbox.ProviderCalls) }
	h.Queue = func(region string, q outbox.Queue) outbox.Store { return view(t, db, region).Queue(q) }
	h.Ledger = func(region string) ledger.Store { return view(t, db, region) }
	h.PutTenant = func(t testing.TB, tenant claim.Tenant) {
		require.NoError(t, db.PutTenant(context.Background(), tenant))
	}
	h.MoveRegistrar = func(t testing.TB, tenant, to string) {
		require.NoError(t, db.MoveRegistrar(context.Background(), tenant, to))
	}
	h.SetStatus = func(t testing.TB, region string, status claim.RegionStatus) {
		_, err := db.SetRegionStatus(context.Background(), region, status)
		require.NoError(t, err)
	}
	return h
}

func TestClaims(t *testing.T) {
	claimtest.Exercise(t, func(t *testing.T) claimtest.Harness { return harness(t, testPolicy) })
}

// TestClaimsUnderClockOffset runs the suite as if the store had many clocks.
func TestClaimsUnderClockOffset(t *testing.T) {
	if testing.Short() {
		t.Skip("TestClaims without an offset, and the embedded store with one")
	}
	if dbtest.Shared(t).Kind() == localdb.CockroachDB {
		t.Skip("TestClaims has a clock offset there")
	}
	claimtest.Exercise(t, func(t *testing.T) claimtest.Harness {
		return harness(t, func() claim.Policy {
			p := testPolicy()
			p.ClockOffset = 500 * time.Millisecond
			return p
		})
	})
}

func TestOutbox(t *testing.T) {
	for _, q := range outbox.AllQueues() {
		t.Run(string(q), func(t *testing.T) {
			outboxtest.Exercise(t, func(t *testing.T) outboxtest.Harness {
				h := newParts(t)
				if q == outbox.Notices {
					return noticetest.Queue(h.notices())
				}
				return claimtest.Queue(t, h.Harness, q)
			})
		})
	}
}

func TestLedger(t *testing.T) {
	ledgertest.Exercise(t, func(t *testing.T) ledgertest.Harness {
		h := newParts(t)
		return ledgertest.Harness{Regions: h.Regions, Store: h.Ledger, Pass: h.pass, Exact: h.Advance != nil, Now: h.now}
	})
}

func TestNotices(t *testing.T) {
	noticetest.Exercise(t, func(t *testing.T) noticetest.Harness { return newParts(t).notices() })
}

// TestLateSuccesses: a ghost is given back however late it surfaces, and nobody spends
// the key of that.
func TestLateSuccesses(t *testing.T) {
	harness := func(t *testing.T) noticetest.LateHarness {
		h := newParts(t)
		h.PutTenant(t, claim.Tenant{ID: "acme", Registrar: regions[0]})
		return noticetest.LateHarness{
			Home: regions[0], Code: 1, Policy: h.Policy, Rows: h.view(regions[0]), Pass: h.pass, Now: h.now, Sweep: h.Sweep,
		}
	}
	noticetest.ExerciseKeys(t, harness)
	noticetest.ExerciseHeld(t, harness)
	if dbtest.Shared(t).Kind() == localdb.CockroachDB {
		t.Skip("CockroachDB's row-level TTL deletes claims, by the hour")
	}
	noticetest.ExerciseLate(t, harness)
	noticetest.ExerciseOrder(t, harness)
}

func TestEndpoints(t *testing.T) {
	relaytest.Exercise(t, func(t *testing.T) relaytest.Harness {
		h := newParts(t)
		tenants := [2]string{"acme", "globex"}
		for _, id := range tenants {
			h.PutTenant(t, claim.Tenant{ID: id, Registrar: h.Regions[0]})
		}
		return relaytest.Harness{
			Regions: h.Regions, Tenants: tenants, Pass: h.pass, Now: h.now,
			Endpoints: func(region string) relay.Endpoints { return h.view(region) },
			Patience:  10 * time.Second, // a write to a GLOBAL table takes up to one
			Raw:       h.raw,
		}
	})
}

// parts are what the suites of the other contracts need, of the same backend.
type parts struct{ claimtest.Harness }

func newParts(t *testing.T) parts { return parts{harness(t, testPolicy)} }

func (p parts) notices() noticetest.Harness {
	return noticetest.Harness{
		Regions: p.Regions, Lease: p.Policy.Lease, Pass: p.pass, Exact: p.Advance != nil, Now: p.now,
		Store: func(region string) notice.Store { return p.view(region) },
		Queue: func(region string) outbox.Store { return p.Queue(region, outbox.Notices) },
		Raw:   p.raw,
		Sweep: func(t testing.TB, region string) {
			for n := 1; n > 0; {
				var err error
				n, err = p.view(region).Sweep(context.Background(), 100)
				require.NoError(t, err)
			}
		},
		Events: func(region string) outbox.Store { return p.Queue(region, outbox.Events) },
		Books:  func(region string) ledger.Store { return p.view(region) },
	}
}

// raw is all that the database keeps.
func (p parts) raw(t testing.TB) []byte {
	t.Helper()
	raw, err := p.view(p.Regions[0]).Raw(context.Background())
	require.NoError(t, err)
	return raw
}

func (p parts) view(region string) *sqlstore.View { return p.Ledger(region).(*sqlstore.View) }

// pass moves the store's clock, or watches it.
func (p parts) pass(t testing.TB, d time.Duration) {
	t.Helper()
	if p.Advance != nil {
		p.Advance(d)
		return
	}
	passed(t, p.view(p.Regions[0]), p.now(t).Add(d))
}

func (p parts) now(t testing.TB) time.Time {
	t.Helper()
	_, now, _, err := p.Store(p.Regions[0]).Get(context.Background(), claim.Key{Tenant: "acme", Value: "clock"}, p.Regions[0])
	require.NoError(t, err)
	return now
}

func TestAudit(t *testing.T) {
	audittest.Exercise(t, func(t *testing.T) audittest.Harness {
		p := newParts(t)
		return audittest.Harness{Harness: p.Harness, Audit: func(region string) audit.Store { return p.view(region) }, Lag: p.ReplicaLag}
	})
}

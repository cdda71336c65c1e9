package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// storeEnv chooses what the clusters of this package run on: "embedded", which
// is the default, or "sql", on the database that dbtest finds.
const storeEnv = "HOMEWARD_TEST_STORE"

func testStore() string { return cmp.Or(os.Getenv(storeEnv), "embedded") }

func onSQL() bool { return testStore() == "sql" }

// embeddedOnly skips what has no meaning on the SQL store.
func embeddedOnly(t testing.TB, why string) {
	t.Helper()
	if onSQL() {
		t.Skipf("%s=sql: %s", storeEnv, why)
	}
}

// onPostgres skips what starts a PostgreSQL of its own whichever store the other tests are on:
// it has run beside those on the embedded one.
func onPostgres(t testing.TB) {
	t.Helper()
	if onSQL() {
		t.Skip("it is on PostgreSQL without " + storeEnv + "=sql, too")
	}
}

// backend is where one test's clusters keep their rows, and the times that suit
// it.
type backend struct {
	// Databases is each region's way to the database; nil is the embedded store.
	Databases map[string]string
	Policy    claim.Policy
	// Tenants ends the tenants' ids. Databases that many tests share remember the
	// keys of earlier ones for a while: a follower read shows rows deleted since.
	Tenants string
}

// newBackend is empty, and the test's own until it ends.
func newBackend(t testing.TB) backend {
	t.Helper()
	return newBackendOn(t, testStore())
}

// newBackendOn is newBackend on the given store.
func newBackendOn(t testing.TB, store string) backend {
	t.Helper()
	if store == "embedded" {
		return backend{Policy: quick()}
	}
	name, s := template.Database(t), dbtest.Shared(t)
	b := backend{Databases: map[string]string{}, Policy: unhurried(s.Kind())}
	if s.Kind() == localdb.CockroachDB {
		b.Tenants = fmt.Sprint("-", backends.Add(1))
	}
	for _, r := range regions {
		b.Databases[r] = s.URL(r, name)
	}
	return b
}

var (
	template = dbtest.Template{Make: prepare, Keep: []string{"regions", "deployment", "audit_chains", "homeward_schema_version"}}
	backends atomic.Int64
)

func prepare(ctx context.Context, s *localdb.Server, name string) error {
	if err := s.CreateDatabase(ctx, name, ""); err != nil {
		return err
	}
	m, err := sqlstore.OpenMigrator(ctx, s.URL(us, name), false)
	if err != nil {
		return err
	}
	defer func() { _ = m.Close(ctx) }()
	var specs []claim.Region
	for _, r := range regions {
		specs = append(specs, claim.Region{Name: r, Code: codes[r]})
	}
	if err := m.Up(ctx, sqlstore.Migration{Regions: specs}, nil); err != nil {
		return err
	}
	if s.Kind() == localdb.CockroachDB {
		return seenByFollowers(ctx, s.URL(us, name))
	}
	return nil
}

// seenByFollowers waits until a follower read, which looks at the database as it
// was some seconds ago, finds tables and regions there.
func seenByFollowers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for {
		var n int
		err := conn.QueryRow(ctx, "SELECT count(*) FROM regions AS OF SYSTEM TIME follower_read_timestamp()").Scan(&n)
		if err == nil && n == len(regions) {
			return nil
		}
		if wait(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("follower reads do not see the %d regions: %d, %v", len(regions), n, err)
		}
	}
}

// unhurried is quick with leases that last while a database shares a busy machine
// with several clusters.
func unhurried(k localdb.Kind) claim.Policy {
	p := quick()
	p.Lease, p.RenewEvery, p.LeaseMargin, p.LeaseCeiling = 3*time.Second, 500*time.Millisecond, 200*time.Millisecond, 40*time.Second
	if k == localdb.CockroachDB {
		// Its clocks may differ by --max-offset, 500 ms by default, and it has three
		// nodes here.
		p.ClockOffset = 500 * time.Millisecond
		p.Lease, p.RenewEvery, p.LeaseMargin = 4*time.Second, time.Second, time.Second
	}
	return p
}

// patientPool is for many clusters on one busy machine: few connections each,
// out of PostgreSQL's 200, and no promise about how soon a database that is down
// is given up, which package sqlstore tests.
func patientPool() sqlstore.Pool {
	p := sqlstore.DefaultPool()
	p.MaxConns = 8
	p.StatementTimeout, p.CallTimeout, p.ConnectTimeout = 20*time.Second, 30*time.Second, 10*time.Second
	return p
}

// lateStore hides its replicas' rows while late, as rows that were written a moment ago are hidden,
// and counts the pins that other regions read at the registrar: on the SQL store the network
// between regions does not see them.
type lateStore struct {
	deployment.Store
	remote bool // not the registrar
	late   *atomic.Bool
	pins   *atomic.Int64
}

func (s *lateStore) Pin(ctx context.Context, key claim.Key, entry string) (claim.Pin, error) {
	if s.remote {
		s.pins.Add(1)
	}
	return s.Store.Pin(ctx, key, entry)
}

func (s *lateStore) Replica(ctx context.Context, key claim.Key) (claim.Shown, error) {
	if s.late.Load() {
		return claim.Shown{}, nil
	}
	return s.Store.Replica(ctx, key)
}

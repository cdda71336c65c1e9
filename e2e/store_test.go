package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

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

// newBackendOn is newBackend on the store that the test says.
func newBackendOn(t testing.TB, store string) backend {
	t.Helper()
	if store == "embedded" {
		return backend{Policy: quick()}
	}
	s := dbtest.Shared(t)
	prepared.once.Do(func() { prepared.err = prepare(s) })
	require.NoError(t, prepared.err)
	b := backend{Databases: map[string]string{}, Policy: unhurried(s.Kind())}
	name, test := schema, prepared.tests.Add(1)
	if s.Kind() == localdb.CockroachDB {
		prepared.alone.Lock()
		t.Cleanup(prepared.alone.Unlock)
		require.NoError(t, empty(t.Context(), s))
		b.Tenants = fmt.Sprint("-", test)
	} else {
		name = fmt.Sprint(schema, "_", test)
		require.NoError(t, s.CreateDatabase(t.Context(), name, schema))
		t.Cleanup(func() { require.NoError(t, s.DropDatabase(context.Background(), name)) })
	}
	for _, r := range regions {
		b.Databases[r] = s.URL(r, name)
	}
	return b
}

// schema is the migrated database: the template of PostgreSQL's, and the one
// that all tests on CockroachDB share, in turn, because it takes long to make
// tables there.
const schema = "e2e"

var prepared struct {
	once  sync.Once
	err   error
	tests atomic.Int64
	alone sync.Mutex
}

func prepare(s *localdb.Server) error {
	ctx := context.Background() // all tests' work, not the first one's
	if err := s.CreateDatabase(ctx, schema, ""); err != nil {
		return err
	}
	m, err := sqlstore.OpenMigrator(ctx, s.URL(us, schema), false)
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
		return seenByFollowers(ctx, s)
	}
	return nil
}

// seenByFollowers waits until a follower read, which looks at the database as it
// was some seconds ago, finds tables and regions there.
func seenByFollowers(ctx context.Context, s *localdb.Server) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL(us, schema))
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

// empty deletes what earlier tests left, row by row: TRUNCATE would make tables.
func empty(ctx context.Context, s *localdb.Server) error {
	conn, err := pgx.Connect(ctx, s.URL(us, schema))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for table := range strings.FieldsSeq("windows outbox events expiries notices_due notices ledger claims responses pins audit endpoints api_keys tenants") {
		if _, err := conn.Exec(ctx, "DELETE FROM "+table+" WHERE true"); err != nil {
			return fmt.Errorf("delete from %s: %w", table, err)
		}
	}
	return nil
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

// lateStore hides what its replicas know while late, as rows that were written a
// moment ago are hidden, and counts the pins that the registrar was asked for
// from elsewhere: on the SQL store the network between regions does not see
// them.
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

func (s *lateStore) ReplicaObject(ctx context.Context, tenant, home, id string) (claim.Record, bool, error) {
	if s.late.Load() {
		return claim.Record{}, false, nil
	}
	return s.Store.ReplicaObject(ctx, tenant, home, id)
}

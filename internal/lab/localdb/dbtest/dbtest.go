// Package dbtest gives tests databases, on the software that package localdb
// finds on this machine.
//
// On a machine without any the test is skipped, with a line that says what to install.
// HOMEWARD_TEST_DATABASE=required makes that a failure, for CI. HOMEWARD_TEST_KIND is
// "postgresql" or "cockroachdb" and selects one for tests that work on both. Few
// machines have CockroachDB: a test that needs it is skipped even if a database is
// required, unless HOMEWARD_TEST_KIND is cockroachdb.
//
// A test binary that calls Shared or Database stops the shared server in its
// TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }
package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/internal/lab/localdb"
)

// patience bounds what a cleanup waits for: a server that stops in order, and is killed after
// 10 s, or CockroachDB's drop of a database, which took 40 s beside a load of 40.
const patience = 2 * time.Minute

// Start runs a server of the test's own, for tests that pause or kill it. It is stopped
// when the test ends. A given Kind overrides HOMEWARD_TEST_KIND.
func Start(t testing.TB, c localdb.Config) *localdb.Server {
	t.Helper()
	s, err := start(t.Context(), c)
	need(t, c.Kind, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("stop of the database: %v", err)
		}
	})
	return s
}

// Dir is a temporary directory for a Config. Unlike t.TempDir's, its parents can
// be entered by the user whom PostgreSQL runs as when the tests run as root.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "homeward-dbtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func start(ctx context.Context, c localdb.Config) (*localdb.Server, error) {
	if c.Kind == "" {
		c.Kind = forced()
	}
	return localdb.Start(ctx, c)
}

// forced is the kind for tests that do not care, "" for whatever is found.
func forced() localdb.Kind { return localdb.Kind(os.Getenv("HOMEWARD_TEST_KIND")) }

// need ends a test that did not get the requested kind, "" for any.
func need(t testing.TB, kind localdb.Kind, err error) {
	t.Helper()
	required := os.Getenv("HOMEWARD_TEST_DATABASE") == "required" &&
		(kind != localdb.CockroachDB || forced() == localdb.CockroachDB)
	if errors.Is(err, localdb.ErrNotFound) && !required {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Regions are those of the shared server.
var Regions = []string{"us-east1", "europe-west1", "asia-northeast1"}

// shared is the test binary's server: one start, with its result for all tests.
var shared struct {
	once   sync.Once
	server *localdb.Server
	err    error
	names  atomic.Int64
}

// Shared is the one server of this test binary, started by the first test that needs
// it, as a start takes seconds. It is not durable and is never paused or killed;
// CockroachDB's has a node in each of [Regions].
func Shared(t testing.TB) *localdb.Server {
	t.Helper()
	shared.once.Do(func() {
		// It outlives the first test.
		shared.server, shared.err = start(context.Background(), localdb.Config{Regions: Regions})
		if shared.err == nil && shared.server.Kind() == localdb.CockroachDB {
			shared.err = hurry(context.Background(), shared.server)
		}
	})
	need(t, "", shared.err)
	return shared.server
}

// hurry has each write to a GLOBAL table wait a tenth of the time, which is most of what a test on
// CockroachDB takes. The database then reads such a table abroad where its followers are behind.
func hurry(ctx context.Context, s *localdb.Server) error {
	conn, err := pgx.Connect(ctx, s.URL("", ""))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "SET CLUSTER SETTING kv.closed_timestamp.lead_for_global_reads_override = '80ms'")
	return errors.Join(err, conn.Close(ctx))
}

// Database creates an empty database on the shared server and returns its URL. It is
// dropped when the test ends, and its connections are ended.
func Database(t testing.TB) string {
	t.Helper()
	s := Shared(t)
	name := fmt.Sprintf("test_%d", shared.names.Add(1))
	if err := s.CreateDatabase(t.Context(), name, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.DropDatabase(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return s.URL("", name)
}

// Template makes databases with tables, each one test's own until that test ends. On
// PostgreSQL they are copies of the first one, made in milliseconds. CockroachDB copies none,
// and takes seconds to make tables: there a test gets a database that an earlier one is done
// with, emptied, and a new one only if all are in use. It is safe for concurrent use.
type Template struct {
	// Make creates the database with this name on the shared server.
	Make func(ctx context.Context, s *localdb.Server, name string) error
	// Keep are the tables with rows that Make has written. They stay.
	Keep []string

	mu    sync.Mutex
	made  string // PostgreSQL's first one
	err   error
	names int
	free  []string
}

// Database returns the name of a database on [Shared].
func (p *Template) Database(t testing.TB) string {
	t.Helper()
	s := Shared(t)
	if s.Kind() == localdb.CockroachDB {
		return p.reused(t, s)
	}
	p.mu.Lock()
	if p.made == "" {
		p.made = "template"
		p.err = p.Make(context.Background(), s, p.made) // all tests' work, not the first one's
	}
	p.names++
	name, err := fmt.Sprint("copy_", p.names), p.err
	p.mu.Unlock()
	if err == nil {
		err = s.CreateDatabase(t.Context(), name, p.made)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.DropDatabase(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return name
}

func (p *Template) reused(t testing.TB, s *localdb.Server) string {
	t.Helper()
	p.mu.Lock()
	name := ""
	if n := len(p.free); n > 0 {
		name, p.free = p.free[n-1], p.free[:n-1]
	} else {
		p.names++
	}
	made := fmt.Sprint("template_", p.names)
	p.mu.Unlock()
	var err error
	if name == "" {
		name = made
		err = p.Make(context.Background(), s, name)
	} else {
		err = p.empty(t.Context(), s.URL("", name))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free = append(p.free, name)
	})
	return name
}

// empty deletes all rows in one transaction, since each write to a GLOBAL table waits until
// its clock has passed: first those of tables that refer to others. TRUNCATE would make tables.
func (p *Template) empty(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var all string
	if err := conn.QueryRow(ctx, `SELECT COALESCE(string_agg(format('DELETE FROM %I.%I WHERE true;', t.table_schema, t.table_name), '' ORDER BY t.refers DESC), '')
		FROM (SELECT table_schema, table_name, (SELECT count(*) FROM information_schema.table_constraints AS c
				WHERE c.table_schema = o.table_schema AND c.table_name = o.table_name AND c.constraint_type = 'FOREIGN KEY') AS refers
			FROM information_schema.tables AS o WHERE table_schema !~ '^(pg_|crdb_internal|information_schema)' AND table_type = 'BASE TABLE') AS t
		WHERE t.table_name <> ALL($1)`, p.Keep).Scan(&all); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, all)
	return err
}

// Main runs the tests, stops the shared server, and returns the exit code. m is a
// *testing.M, or wraps one.
func Main(m interface{ Run() int }) int {
	code := m.Run()
	shared.once.Do(func() { shared.err = errors.New("the tests are over") })
	if shared.server == nil {
		return code
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := shared.server.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "stop of the shared database:", err)
		return max(code, 1)
	}
	return code
}

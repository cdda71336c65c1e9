package dbtest_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
)

// suite is the tests with the shared server's end, as goleak wants it.
type suite struct{ *testing.M }

func (s suite) Run() int { return dbtest.Main(s.M) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(suite{m}) }

// Each test has a database of its own on the one server, and takes it along.
func TestDatabase(t *testing.T) {
	s := dbtest.Shared(t)
	require.Same(t, s, dbtest.Shared(t))
	if kind := os.Getenv("HOMEWARD_TEST_KIND"); kind != "" {
		require.Equal(t, localdb.Kind(kind), s.Kind())
	}
	for range 2 {
		var dsn string
		ok := t.Run("one", func(t *testing.T) {
			dsn = dbtest.Database(t)
			conn, err := pgx.Connect(t.Context(), dsn)
			require.NoError(t, err)
			t.Cleanup(func() { conn.Close(context.Background()) })
			// It would be there already if the database were the first one's.
			_, err = conn.Exec(t.Context(), "CREATE TABLE mine (n INT PRIMARY KEY)")
			require.NoError(t, err)
		})
		require.True(t, ok)
		u, err := url.Parse(dsn)
		require.NoError(t, err)
		conn, err := pgx.Connect(t.Context(), s.URL("", ""))
		require.NoError(t, err)
		var remaining int
		err = conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname = $1", u.Path[1:]).Scan(&remaining)
		require.NoError(t, err)
		require.NoError(t, conn.Close(t.Context()))
		require.Zero(t, remaining, "the database outlives its test")
	}
}

// double records how a test ends.
type double struct {
	testing.TB
	end string
}

func (d *double) Helper()                  {}
func (d *double) Context() context.Context { return d.TB.Context() }
func (d *double) Skip(args ...any)         { d.end = "skip: " + fmt.Sprint(args...); runtime.Goexit() }
func (d *double) Fatal(args ...any)        { d.end = "fatal: " + fmt.Sprint(args...); runtime.Goexit() }

func TestMissingDatabase(t *testing.T) {
	end := func(kind localdb.Kind) string {
		d := &double{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			dbtest.Start(d, localdb.Config{Kind: kind})
		}()
		<-done
		return d.end
	}
	// There is no CockroachDB here.
	t.Setenv("PATH", t.TempDir())
	t.Setenv("COCKROACH_BINARY", "")
	t.Setenv("HOMEWARD_TEST_KIND", "cockroachdb")

	t.Setenv("HOMEWARD_TEST_DATABASE", "")
	require.Regexp(t, "^skip: .*COCKROACH_BINARY", end(""))
	t.Setenv("HOMEWARD_TEST_DATABASE", "required")
	require.Regexp(t, "^fatal: .*COCKROACH_BINARY", end(""))
	require.Regexp(t, "^fatal: ", end(localdb.CockroachDB))

	t.Setenv("HOMEWARD_TEST_KIND", "postgresql")
	require.Regexp(t, "^skip: ", end(localdb.CockroachDB), "few machines have it")
	t.Setenv("HOMEWARD_TEST_KIND", "oracle")
	require.Regexp(t, `^fatal: .*unknown kind "oracle"`, end(""))

	t.Setenv("HOMEWARD_TEST_KIND", "")
	t.Setenv("COCKROACH_BINARY", os.TempDir()+"/absent")
	require.Regexp(t, "^fatal: .*COCKROACH_BINARY", end(""), "it was set on purpose")
}

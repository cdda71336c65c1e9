//go:build linux

package localdb_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
)

// patience bounds every wait; a busy machine is slow.
const patience = time.Minute

// childEnv makes this test binary a process that runs a database: the kind of it.
const childEnv = "HOMEWARD_LOCALDB_CHILD"

func TestMain(m *testing.M) {
	if kind := os.Getenv(childEnv); kind != "" {
		os.Exit(childMain(localdb.Kind(kind)))
	}
	goleak.VerifyTestMain(m)
}

// kinds runs a test for each product; what is not installed is skipped.
func kinds(t *testing.T, test func(*testing.T, localdb.Kind)) {
	t.Parallel()
	for _, kind := range []localdb.Kind{localdb.PostgreSQL, localdb.CockroachDB} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn.Close(ctx)
	})
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := conn.Exec(ctx, sql, args...)
	require.NoError(t, err)
}

func count(t *testing.T, dsn string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var n int
	require.NoError(t, connect(t, dsn).QueryRow(ctx, "SELECT count(*) FROM kept").Scan(&n))
	return n
}

func TestStartAndStop(t *testing.T) {
	kinds(t, func(t *testing.T, kind localdb.Kind) {
		s := dbtest.Start(t, localdb.Config{Kind: kind, Regions: []string{"us-east1"}})
		require.Equal(t, kind, s.Kind())
		require.Regexp(t, `^(PostgreSQL|CockroachDB) v?\d+\.\d+`, s.Version())
		require.Equal(t, []string{"us-east1"}, s.Regions())
		require.Panics(t, func() { s.URL("atlantis", "") })
		require.ErrorContains(t, s.Kill("atlantis"), "atlantis")

		require.NoError(t, s.CreateDatabase(t.Context(), `odd "name"`, ""))
		conn := connect(t, s.URL("us-east1", `odd "name"`))
		run(t, conn, "CREATE TABLE kept (n INT PRIMARY KEY)")
		if kind == localdb.CockroachDB {
			var region string
			require.NoError(t, conn.QueryRow(t.Context(), "SELECT gateway_region()").Scan(&region))
			require.Equal(t, "us-east1", region)
		}
		// An open connection does not keep a database.
		require.NoError(t, s.DropDatabase(t.Context(), `odd "name"`))
		require.NoError(t, s.DropDatabase(t.Context(), `odd "name"`))

		require.DirExists(t, s.Path())
		require.NoError(t, s.Stop(t.Context()))
		require.NoDirExists(t, s.Path())
		for _, pid := range s.PIDs() {
			require.True(t, localdb.Gone(t, pid))
		}
		require.NoError(t, s.Stop(t.Context()))
		require.Error(t, s.Restart(t.Context(), ""))
	})
}

func TestTemplate(t *testing.T) {
	kinds(t, func(t *testing.T, kind localdb.Kind) {
		s := dbtest.Start(t, localdb.Config{Kind: kind})
		require.NoError(t, s.CreateDatabase(t.Context(), "model", ""))
		conn := connect(t, s.URL("", "model"))
		run(t, conn, "CREATE TABLE kept (n INT PRIMARY KEY)")
		run(t, conn, "INSERT INTO kept VALUES (1), (2)")
		require.NoError(t, conn.Close(t.Context()))

		err := s.CreateDatabase(t.Context(), "copy", "model")
		if kind == localdb.CockroachDB {
			require.ErrorIs(t, err, localdb.ErrUnsupported)
			return
		}
		require.NoError(t, err)
		require.Equal(t, 2, count(t, s.URL("", "copy")))
	})
}

// Everything that was acknowledged before Kill is there after Restart.
func TestKillAndRestart(t *testing.T) {
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprintf("durable=%v", durable), func(t *testing.T) {
			kinds(t, func(t *testing.T, kind localdb.Kind) {
				s := dbtest.Start(t, localdb.Config{Kind: kind, Durable: durable})
				conn := connect(t, s.URL("", ""))
				run(t, conn, "CREATE TABLE kept (n INT PRIMARY KEY)")
				if durable || kind == localdb.PostgreSQL {
					require.ErrorContains(t, s.Restart(t.Context(), ""), "is running")
				}

				acknowledged := make(chan int, 1)
				writing := make(chan struct{})
				go func() {
					n := 0
					for {
						if _, err := conn.Exec(context.Background(), "INSERT INTO kept VALUES ($1)", n); err != nil {
							acknowledged <- n
							return
						}
						if n++; n == 100 {
							close(writing)
						}
					}
				}()
				<-writing
				require.NoError(t, s.Kill(""))
				n := <-acknowledged
				require.ErrorContains(t, s.Kill(""), "not running")

				// Another process took the port: the server logs it and picks another one.
				target, err := url.Parse(s.URL("", ""))
				require.NoError(t, err)
				squatter, err := net.Listen("tcp", target.Host)
				require.NoError(t, err)
				defer squatter.Close()
				if durable || kind == localdb.PostgreSQL {
					require.ErrorContains(t, s.Restart(t.Context(), ""), "the port is taken")
				}
				require.NoError(t, squatter.Close())

				err = s.Restart(t.Context(), "")
				if kind == localdb.CockroachDB && !durable {
					require.ErrorIs(t, err, localdb.ErrUnsupported)
					return
				}
				require.NoError(t, err)
				// The last one may have been written and not acknowledged.
				require.Contains(t, []int{n, n + 1}, count(t, s.URL("", "")))
			})
		})
	}
}

func TestPauseAndResume(t *testing.T) {
	kinds(t, func(t *testing.T, kind localdb.Kind) {
		s := dbtest.Start(t, localdb.Config{Kind: kind})
		require.NoError(t, s.Resume(""), "nothing is paused")
		conn := connect(t, s.URL("", ""))
		require.NoError(t, s.Pause(""))
		for _, pid := range s.PIDs() {
			for _, child := range localdb.Children(pid) {
				// The kernel stops a process that runs when it next enters it.
				require.Eventually(t, func() bool { return localdb.State(child) == "T" }, patience, time.Millisecond, "a child goes on")
			}
		}

		answered := make(chan error, 1)
		go func() {
			_, err := conn.Exec(context.Background(), "SELECT 1")
			answered <- err
		}()
		// The port accepts, and nothing answers.
		target, err := url.Parse(s.URL("", ""))
		require.NoError(t, err)
		raw, err := net.Dial("tcp", target.Host)
		require.NoError(t, err)
		defer raw.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = pgx.Connect(ctx, s.URL("", ""))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		select {
		case err := <-answered:
			require.Fail(t, "a paused database answered", "%v", err)
		default:
		}

		require.NoError(t, s.Resume(""))
		require.NoError(t, <-answered, "what waited is answered")
		run(t, connect(t, s.URL("", "")), "SELECT 1")

		// A paused database can be killed, and stopped.
		require.NoError(t, s.Pause(""))
		require.NoError(t, s.Kill(""))
		require.True(t, localdb.Gone(t, s.PIDs()[0]))
		if kind == localdb.PostgreSQL {
			require.NoError(t, s.Restart(t.Context(), ""))
			require.NoError(t, s.Pause(""))
		}
		require.NoError(t, s.Stop(t.Context()))
	})
}

// A directory keeps its data from one Start to the next, and has one server.
func TestKeptDirectory(t *testing.T) {
	kinds(t, func(t *testing.T, kind localdb.Kind) {
		c := localdb.Config{Kind: kind, Dir: filepath.Join(dbtest.Dir(t), "made", "here"), Durable: true}
		s := dbtest.Start(t, c)
		conn := connect(t, s.URL("", ""))
		run(t, conn, "CREATE TABLE kept (n INT PRIMARY KEY)")
		run(t, conn, "INSERT INTO kept VALUES (1)")

		_, err := localdb.Start(t.Context(), c)
		require.ErrorContains(t, err, "in use")
		run(t, conn, "INSERT INTO kept VALUES (2)")

		require.NoError(t, s.Stop(t.Context()))
		require.DirExists(t, c.Dir)
		require.Equal(t, 2, count(t, dbtest.Start(t, c).URL("", "")))
	})
}

func TestThreeRegions(t *testing.T) {
	t.Parallel()
	regions := []string{"us-east1", "europe-west1", "asia-northeast1"}
	c := localdb.Config{Kind: localdb.CockroachDB, Regions: regions, Durable: true, Dir: dbtest.Dir(t)}
	s := dbtest.Start(t, c)
	for _, region := range regions {
		var gateway string
		require.NoError(t, connect(t, s.URL(region, "")).QueryRow(t.Context(), "SELECT gateway_region()").Scan(&gateway))
		require.Equal(t, region, gateway)
	}
	run(t, connect(t, s.URL("", "")), "CREATE TABLE kept (n INT PRIMARY KEY)")
	// The first node began alone: the cluster must not depend on it.
	require.NoError(t, s.Kill(regions[0]))
	run(t, connect(t, s.URL(regions[1], "")), "INSERT INTO kept VALUES (1)")
	require.NoError(t, s.Restart(t.Context(), regions[0]))
	require.Equal(t, 1, count(t, s.URL(regions[0], "")))

	// The cluster comes back as a whole, on other ports.
	require.NoError(t, s.Stop(t.Context()))
	require.Equal(t, 1, count(t, dbtest.Start(t, c).URL(regions[2], "")))
}

// story is what a child reports to its parent.
type story struct {
	PID  int
	Path string
}

// childMain runs a database, paused on request, until it is killed.
func childMain(kind localdb.Kind) int {
	s, err := localdb.Start(context.Background(), localdb.Config{Kind: kind})
	if err == nil && os.Getenv(childEnv+"_PAUSE") != "" {
		err = s.Pause("")
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(story{s.PIDs()[0], s.Path()})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // the parent kills us
	return 0
}

// A database goes with its parent, however that died, even if it was paused. The
// directory goes with the next start.
func TestParentDeath(t *testing.T) {
	for _, pause := range []string{"", "1"} {
		t.Run("pause="+pause, func(t *testing.T) {
			kinds(t, func(t *testing.T, kind localdb.Kind) {
				dbtest.Start(t, localdb.Config{Kind: kind}) // or the test is skipped
				exe, err := os.Executable()
				require.NoError(t, err)
				tmp := dbtest.Dir(t)
				start := func() (*exec.Cmd, story) {
					child := exec.Command(exe)
					child.Env = append(os.Environ(), childEnv+"="+string(kind), childEnv+"_PAUSE="+pause, "TMPDIR="+tmp)
					child.Stderr = os.Stderr
					stdin, err := child.StdinPipe()
					require.NoError(t, err)
					t.Cleanup(func() { stdin.Close() })
					stdout, err := child.StdoutPipe()
					require.NoError(t, err)
					require.NoError(t, child.Start())
					var reported story
					require.NoError(t, json.NewDecoder(stdout).Decode(&reported), "the child ended")
					return child, reported
				}
				kill := func(child *exec.Cmd, pid int) {
					require.False(t, localdb.Gone(t, pid))
					family := append(localdb.Children(pid), pid)
					require.NoError(t, child.Process.Kill())
					require.Error(t, child.Wait())
					for _, member := range family {
						require.Eventually(t, func() bool { return localdb.Gone(t, member) }, patience, 10*time.Millisecond, "%d lives on", member)
					}
				}
				first, reported := start()
				kill(first, reported.PID)
				require.DirExists(t, reported.Path)
				second, again := start()
				require.NoDirExists(t, reported.Path)
				kill(second, again.PID)
			})
		})
	}
}

// fake is a database program that is a shell script.
func fake(t *testing.T, script string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cockroach")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	t.Setenv("COCKROACH_BINARY", path)
	t.Setenv("TMPDIR", t.TempDir())
}

func TestFailedStartShowsTheLog(t *testing.T) {
	for _, regions := range [][]string{nil, {"a", "b"}} {
		fake(t, `[ "$1" = init ] && exec sleep 600; seq 100 >&2; echo "the disk is made of cheese" >&2; exit 3`)
		_, err := localdb.Start(t.Context(), localdb.Config{Kind: localdb.CockroachDB, Regions: regions})
		require.ErrorContains(t, err, "exit status 3")
		require.ErrorContains(t, err, "\n  99\n  100\n  the disk is made of cheese")
		require.NotContains(t, err.Error(), "\n50\n")
		entries, err := os.ReadDir(os.Getenv("TMPDIR"))
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

// TestABusyMachineKillsNoNode: a node has more time for a sync than CockroachDB gives it, and what is
// set for another cluster does not reach it.
func TestABusyMachineKillsNoNode(t *testing.T) {
	t.Setenv("COCKROACH_LOG_MAX_SYNC_DURATION", "1s")
	t.Setenv("COCKROACH_ENGINE_MAX_SYNC_DURATION_DEFAULT", "1s")
	fake(t, "env | grep _MAX_SYNC_DURATION | sort >&2; exit 3")
	_, err := localdb.Start(t.Context(), localdb.Config{Kind: localdb.CockroachDB})
	require.ErrorContains(t, err, "\n  COCKROACH_ENGINE_MAX_SYNC_DURATION_DEFAULT=5m0s\n  COCKROACH_LOG_MAX_SYNC_DURATION=5m0s")
}

func TestTakenPortIsNotTheEnd(t *testing.T) {
	tries := filepath.Join(t.TempDir(), "tries")
	fake(t, `echo "$*" >>`+tries+`; echo "bind: address already in use" >&2; exit 1`)
	_, err := localdb.Start(t.Context(), localdb.Config{Kind: localdb.CockroachDB})
	require.ErrorContains(t, err, "the port is taken")
	b, err := os.ReadFile(tries)
	require.NoError(t, err)
	addresses := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		_, rest, _ := strings.Cut(line, "--listen-addr=")
		address, _, _ := strings.Cut(rest, " ")
		addresses[address] = true
	}
	require.Greater(t, len(addresses), 1, "other ports are tried")
}

func TestStartObeysItsContext(t *testing.T) {
	fake(t, "exec sleep 600")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := localdb.Start(ctx, localdb.Config{Kind: localdb.CockroachDB})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestUnreachableDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root runs PostgreSQL as another user")
	}
	t.Parallel()
	closed := filepath.Join(t.TempDir(), "closed")
	require.NoError(t, os.Mkdir(closed, 0o700))
	dbtest.Start(t, localdb.Config{Kind: localdb.PostgreSQL}) // or the test is skipped
	_, err := localdb.Start(t.Context(), localdb.Config{Kind: localdb.PostgreSQL, Dir: filepath.Join(closed, "data")})
	require.ErrorContains(t, err, "cannot enter "+closed)
	require.NotContains(t, err.Error(), "\n")
	info, err := os.Stat(closed)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "permissions of other users' directories do not change")
}

// Data without a password is another program's, or half made: it is not touched.
func TestForeignData(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(dbtest.Dir(t), "d")
	dbtest.Start(t, localdb.Config{Kind: localdb.PostgreSQL}) // or the test is skipped
	precious := filepath.Join(dir, "postgresql", "data", "PG_VERSION")
	require.NoError(t, os.MkdirAll(filepath.Dir(precious), 0o755))
	require.NoError(t, os.WriteFile(precious, []byte(strconv.Itoa(15)), 0o644))
	_, err := localdb.Start(t.Context(), localdb.Config{Kind: localdb.PostgreSQL, Dir: dir})
	require.ErrorContains(t, err, "remove it or choose another")
	require.FileExists(t, precious)
}

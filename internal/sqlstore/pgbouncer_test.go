package sqlstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// bouncerEnv says what a missing PgBouncer is: "required" makes it a failure.
const bouncerEnv = "HOMEWARD_TEST_PGBOUNCER"

// bounced is rawURL through a PgBouncer of the test's own.
func bounced(t *testing.T, rawURL, poolMode string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if errors.Is(err, exec.ErrNotFound) { // Debian has it where only root's PATH leads
		program, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil {
		if os.Getenv(bouncerEnv) == "required" {
			t.Fatal(err)
		}
		t.Skip("there is no pgbouncer; apt-get install pgbouncer")
	}
	to, err := url.Parse(rawURL)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := listener.Addr().(*net.TCPAddr)
	require.NoError(t, listener.Close())
	password, _ := to.User.Password()
	ini := filepath.Join(dbtest.Dir(t), "pgbouncer.ini")
	// The server's password is the test's alone; so is the port.
	require.NoError(t, os.WriteFile(ini, []byte(fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
max_client_conn = 1000
default_pool_size = 50
`, to.Hostname(), to.Port(), to.User.Username(), password, at.Port, poolMode)), 0o644))
	args := []string{ini}
	if os.Geteuid() == 0 { // which it refuses to run as
		args = []string{"-u", "nobody", ini}
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	to.Host = at.String()
	require.Eventually(t, func() bool {
		select {
		case <-ended:
			require.Fail(t, "pgbouncer has ended", said.String())
		default:
		}
		conn, err := net.Dial("tcp", to.Host)
		return err == nil && conn.Close() == nil
	}, patience, 10*time.Millisecond)
	return to.String()
}

// A node works through a pooler that pools sessions, as docs/DATABASE.md allows, without any
// setting of the pooler's own, and its sessions have what they need.
func TestPgBouncerThatPoolsSessions(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it is tried before PostgreSQL")
	}
	at := bounced(t, d.url, "session")
	pool := testPool()
	pool.StatementTimeout = 7 * time.Second
	db := open(t, sqlstore.Config{URL: at, Pool: pool})
	require.NoError(t, db.Exec(t.Context(), "SELECT 1 / (current_setting('statement_timeout') = '7s' AND current_setting('transaction_isolation') = 'read committed' AND current_setting('enable_seqscan') = 'off')::int"))
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}, "sk_acme"))
	v := view(t, db, regions[0])
	require.NoError(t, v.Ready(t.Context()))
	key := claim.Key{Tenant: "acme", Value: "works"}
	_, err := v.Pin(t.Context(), key, regions[0])
	require.NoError(t, err)
	got, err := v.Begin(t.Context(), claimtest.NewArrival(key, regions[0], "1", "n", "ch_1"))
	require.NoError(t, err)
	require.Equal(t, claim.Won, got.Decision)
	_, err = v.Settle(t.Context(), got.Record, paid("works"))
	require.NoError(t, err)

	m := migrator(t, at)
	require.NoError(t, m.Up(t.Context(), allRegions(regions...), nil))
}

// A pooler that gives each transaction another session is refused, by nodes, tools and
// migrations, whether another client has used its sessions or none.
func TestPgBouncerThatPoolsTransactionsIsRefused(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it is tried before PostgreSQL")
	}
	at := bounced(t, d.admin, "transaction")
	refused := func() {
		t.Helper()
		// A pooler with other clients may happen to give a connection the session that it had
		// before: then one look, which is all that a far node has time for, finds nothing.
		within := func(open func() error) (err error) {
			for range 10 {
				if err = open(); err != nil {
					break
				}
			}
			return err
		}
		for _, tool := range []bool{false, true} {
			err := within(func() error {
				db, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: at, Policy: testPolicy(), Pool: testPool(), Tool: tool})
				if err == nil {
					require.NoError(t, db.Close())
				}
				return err
			})
			require.ErrorContains(t, err, "set pool_mode=session")
			require.NotErrorIs(t, err, claim.ErrUnavailable)
			require.NotContains(t, err.Error(), "\n")
		}
		err := within(func() error {
			m, err := sqlstore.OpenMigrator(t.Context(), at, false)
			if err == nil {
				require.NoError(t, m.Close(t.Context()))
			}
			return err
		})
		require.ErrorContains(t, err, "set pool_mode=session")
	}
	refused()
	// Some of its sessions are idle now, and some are in use.
	for i := range 4 * runtime.GOMAXPROCS(0) {
		conn, err := pgx.Connect(t.Context(), at)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		if i%2 == 0 {
			_, err = conn.Exec(t.Context(), "BEGIN")
			require.NoError(t, err)
		}
	}
	refused()
}

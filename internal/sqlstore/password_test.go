package sqlstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/archtest/marked"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// TestTheDatabasesPasswordIsChanged as the runbook changes it: by a second login, since a
// pool whose password is no good any more ends with its connections.
func TestTheDatabasesPasswordIsChanged(t *testing.T) {
	d := newDatabase(t)
	r := rolesOf(t, d, "vault")
	require.NoError(t, migrator(t, d.admin).MakeRoles(t.Context(), r, func(sqlstore.Step) {}))
	second := r.Node + "_2"
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), d.admin)
		require.NoError(t, err)
		_, err = conn.Exec(context.Background(), "DROP ROLE "+second)
		require.NoError(t, errors.Join(err, conn.Close(context.Background())))
	})
	d.exec(t, "ALTER ROLE "+r.Node+" PASSWORD 'secret'")
	blocks := marked.Blocks(t, "docs/RUNBOOK.md")
	require.Len(t, blocks, 2)
	require.NotContains(t, blocks[0], "IN ROLE", "CockroachDB's CREATE ROLE has no such option")
	d.exec(t, strings.NewReplacer("homeward_node", r.Node, "…", "secret").Replace(blocks[0]))
	sessions, onCockroach, _ := strings.Cut(blocks[1], "-- PostgreSQL\n")
	require.Contains(t, onCockroach, "SHOW CLUSTER SESSIONS", "CockroachDB's pg_stat_activity is always empty")
	holds := func(login string) bool {
		return d.count(t, "SELECT count(*) FROM ("+strings.TrimRight(sessions, "; ")+") AS s WHERE usename = $1", login) > 0
	}

	pool := testPool()
	pool.MaxLifetime, pool.StatementTimeout, pool.CallTimeout = 100*time.Millisecond, 2*time.Second, 3*time.Second
	before := open(t, sqlstore.Config{URL: asUser(t, d.admin, r.Node), Pool: pool})
	after := open(t, sqlstore.Config{URL: asUser(t, d.admin, second), Pool: pool})
	require.Empty(t, after.Doubts(), "it has the rights of the first one, and no more")
	works := func(db *sqlstore.DB) error {
		_, _, err := view(t, db, regions[0]).Transaction(t.Context(), regions[0], "none")
		return err
	}
	require.NoError(t, works(before))
	require.NoError(t, works(after))
	require.True(t, holds(r.Node), "it must not be disabled yet")

	// The old login ends. Its pool ends with its connections, and says that nothing is known.
	d.exec(t, "ALTER ROLE "+r.Node+" PASSWORD 'another'")
	var err error
	require.Eventually(t, func() bool { err = works(before); return err != nil }, patience, 10*time.Millisecond)
	require.ErrorIs(t, err, claim.ErrUnavailable)
	require.NoError(t, works(after))
	require.NoError(t, before.Close())
	require.Eventually(t, func() bool { return !holds(r.Node) }, patience, 10*time.Millisecond)
	require.True(t, holds(second))
	_, err = sqlstore.Open(t.Context(), sqlstore.Config{URL: asUser(t, d.admin, r.Node), Pool: testPool(), Policy: testPolicy()})
	require.ErrorContains(t, err, "refuses user")
}

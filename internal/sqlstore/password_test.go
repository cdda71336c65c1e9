package sqlstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
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
	d.exec(t, "CREATE ROLE "+second+" LOGIN PASSWORD 'secret' IN ROLE "+r.Node)

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

	// The old login ends. Its pool ends with its connections, and says that nothing is known.
	d.exec(t, "ALTER ROLE "+r.Node+" PASSWORD 'another'")
	var err error
	require.Eventually(t, func() bool { err = works(before); return err != nil }, patience, 10*time.Millisecond)
	require.ErrorIs(t, err, claim.ErrUnavailable)
	require.NoError(t, works(after))
	_, err = sqlstore.Open(t.Context(), sqlstore.Config{URL: asUser(t, d.admin, r.Node), Pool: testPool(), Policy: testPolicy()})
	require.ErrorContains(t, err, "refuses user")
}

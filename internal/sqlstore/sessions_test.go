package sqlstore_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// nodeSession opens a session that counts as a node's: CockroachDB's are told by their names.
// The caller closes it.
func nodeSession(t *testing.T, rawURL string) (running *pgx.Conn, name string) {
	t.Helper()
	config, err := pgx.ParseConfig(rawURL)
	require.NoError(t, err)
	name = "homeward of " + t.Name()
	config.RuntimeParams["application_name"] = name
	running, err = pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	return running, name
}

// Who is about to say that no node runs sees the nodes of another role, or hears that it
// cannot see them.
func TestSessionsOfAnotherRoleAreSeen(t *testing.T) {
	d := newDatabase(t)
	running, name := nodeSession(t, d.admin)
	sees := func(rawURL string) (bool, error) {
		db := open(t, sqlstore.Config{URL: rawURL, Tool: true})
		names, err := db.Sessions(t.Context())
		return strings.Contains(strings.Join(names, "\n"), name), err
	}
	seen, err := sees(d.admin)
	require.NoError(t, err)
	require.True(t, seen)

	r := rolesOf(t, d, "watch")
	require.NoError(t, migrator(t, d.admin).MakeRoles(t.Context(), r, func(sqlstore.Step) {}))
	d.exec(t, "ALTER ROLE "+r.Node+" PASSWORD 'secret'")
	seen, err = sees(asUser(t, d.admin, r.Node))
	if d.server.Kind() == localdb.PostgreSQL {
		require.NoError(t, err)
		require.True(t, seen, "a role without rights on statistics")
	} else {
		require.ErrorContains(t, err, "GRANT SYSTEM VIEWACTIVITY")
		d.exec(t, "GRANT SYSTEM VIEWACTIVITY TO "+r.Node)
		defer d.exec(t, "REVOKE SYSTEM VIEWACTIVITY FROM "+r.Node)
		seen, err = sees(asUser(t, d.admin, r.Node))
		require.NoError(t, err)
		require.True(t, seen)
	}
	require.NoError(t, running.Close(t.Context()))
}

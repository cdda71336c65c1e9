package cockroach_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/cockroach"
	"github.com/homeward-io/homeward/internal/lab/localdb"
)

// Who is about to say that no node runs sees the nodes of another role, or hears that it
// cannot see them.
func TestSessionsOfAnotherRoleAreSeen(t *testing.T) {
	d := newDatabase(t)
	node, err := pgx.ParseConfig(d.admin)
	require.NoError(t, err)
	node.RuntimeParams["application_name"] = "homeward of " + t.Name()
	running, err := pgx.ConnectConfig(t.Context(), node)
	require.NoError(t, err)
	sees := func(rawURL string) (bool, error) {
		db := open(t, cockroach.Config{URL: rawURL, Tool: true})
		names, err := db.Sessions(t.Context())
		return strings.Contains(strings.Join(names, "\n"), node.RuntimeParams["application_name"]), err
	}
	seen, err := sees(d.admin)
	require.NoError(t, err)
	require.True(t, seen)

	r := rolesOf(t, d, "watch")
	require.NoError(t, migrator(t, d.admin).MakeRoles(t.Context(), r, func(cockroach.Step) {}))
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

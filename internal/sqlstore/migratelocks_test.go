package sqlstore

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
)

// baseline is the first migration. No node uses a database before it.
const baseline = 1

// heldTables runs a migration in a transaction, which it rolls back, and returns the tables,
// of those that are there already, that it reads or rewrites: it would hold their locks, or
// those of their rows, for as long as that takes. A change of a definition does neither, and
// what is made CONCURRENTLY cannot be in a transaction.
func heldTables(t *testing.T, conn *pgx.Conn, sql string) (held []string) {
	t.Helper()
	if strings.Contains(sql, " CONCURRENTLY ") {
		return nil
	}
	ctx := context.Background()
	tx, err := conn.Begin(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(ctx)) }()
	const scans = "coalesce((SELECT coalesce(seq_scan, 0) + coalesce(idx_scan, 0) FROM pg_stat_xact_all_tables WHERE relid = oid), 0)"
	_, err = tx.Exec(ctx, `CREATE TEMP TABLE former ON COMMIT DROP AS
		SELECT oid, pg_relation_filenode(oid) AS file, `+scans+` AS scans FROM pg_class
		WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> '`+versionTable+`'`)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, sql)
	require.NoError(t, err)
	rows, err := tx.Query(ctx, "SELECT oid::regclass::text FROM former WHERE pg_relation_filenode(oid) <> file OR "+scans+" > scans ORDER BY 1")
	require.NoError(t, err)
	held, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return held
}

// No migration to come holds a table for as long as it takes to read or to rewrite it:
// charges would wait. lock_timeout bounds the wait for a lock, not how long it is held.
func TestMigrationsToComeHoldNoTable(t *testing.T) {
	url := dbtest.Database(t)
	if dbtest.Shared(t).Kind() == localdb.CockroachDB {
		t.Skip("it changes schemas beside writes")
	}
	m, err := OpenMigrator(t.Context(), url, false)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close(context.Background())) }()
	want := Migration{Regions: []claim.Region{{Name: "us-east1"}}}
	require.NoError(t, m.UpTo(t.Context(), want, baseline))
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()

	for sql, wants := range map[string][]string{
		"ALTER TABLE claims ADD COLUMN colour text NOT NULL DEFAULT ''":                              nil,
		"ALTER TABLE claims ADD CONSTRAINT plain CHECK (fence > 0) NOT VALID":                        nil,
		"CREATE TABLE colours (colour text PRIMARY KEY)":                                             nil,
		"CREATE INDEX CONCURRENTLY colours ON claims (fence)":                                        nil,
		"CREATE INDEX colours ON claims (fence)":                                                     {"claims"},
		"ALTER TABLE claims ADD COLUMN colour uuid NOT NULL DEFAULT gen_random_uuid()":               {"claims"},
		"ALTER TABLE ledger ADD COLUMN colour uuid DEFAULT gen_random_uuid()":                        {"ledger"},
		"ALTER TABLE pins ALTER COLUMN created_at DROP NOT NULL; UPDATE pins SET created_at = now()": {"pins"},
		"ALTER TABLE audit ADD CONSTRAINT plain CHECK (fence > 0)":                                   {"audit"},
		"ALTER TABLE claims ADD CONSTRAINT plain CHECK (fence > 0) NOT VALID; DELETE FROM events":    {"events"},
	} {
		require.Equal(t, wants, append([]string(nil), heldTables(t, conn, sql)...), sql)
	}

	steps, err := m.numbered()
	require.NoError(t, err)
	for i, s := range steps[baseline:] {
		require.Empty(t, heldTables(t, conn, s.SQL), "%s reads or rewrites these tables while it holds their locks: make an index CONCURRENTLY, add a constraint as NOT VALID and validate it in a migration of its own, and change rows in batches by nodes", s.Name)
		require.NoError(t, m.UpTo(t.Context(), want, baseline+i+1))
	}
}

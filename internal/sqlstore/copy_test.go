package sqlstore_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// copyOf copies the database at one URL to the one at another, once the sessions that the
// test has closed have ended: a server ends them after their clients.
func copyOf(t *testing.T, from, to string, resume bool) (tables []string, err error) {
	t.Helper()
	require.Eventually(t, func() bool {
		tables, err = copyNow(t, from, to, resume)
		return err == nil || !strings.Contains(err.Error(), "has other sessions")
	}, patience, 10*time.Millisecond, "sessions do not end")
	return tables, err
}

func copyNow(t *testing.T, from, to string, resume bool) (tables []string, err error) {
	t.Helper()
	source, err := sqlstore.OpenMigrator(t.Context(), from, false)
	require.NoError(t, err)
	defer func() { require.NoError(t, source.Close(t.Context())) }()
	target, err := sqlstore.OpenMigrator(t.Context(), to, false)
	require.NoError(t, err)
	defer func() { require.NoError(t, target.Close(t.Context())) }()
	err = target.Copy(t.Context(), source, resume, func(c sqlstore.CopiedTable) {
		if c.Rows > 0 {
			tables = append(tables, c.Name)
		}
	})
	return tables, err
}

func TestCopy(t *testing.T) {
	from, to := dbtest.Database(t), dbtest.Database(t)
	exec := func(url, sql string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(t.Context())) }()
		_, err = conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	up := func(url string, regions ...claim.Region) {
		t.Helper()
		m, err := sqlstore.OpenMigrator(t.Context(), url, false)
		require.NoError(t, err)
		require.NoError(t, m.Up(t.Context(), sqlstore.Migration{Regions: regions}, nil))
		require.NoError(t, m.Close(t.Context()))
	}
	up(from, claim.Region{Name: regions[0], Code: 7})
	_, err := copyOf(t, from, to, false)
	require.ErrorContains(t, err, "is at schema version 0")
	up(to, claim.Region{Name: regions[0], Code: 1})
	_, err = copyOf(t, from, to, false)
	require.ErrorContains(t, err, "--regions "+regions[0]+"=7")
	exec(to, "DELETE FROM regions")
	up(to, claim.Region{Name: regions[0], Code: 7})

	t.Run("rows", func(t *testing.T) { works(t, from, "acme", regions[0]) }) // which closes what it opens
	exec(from, "UPDATE regions SET status = 1, epoch = 9")
	exec(from, "INSERT INTO api_keys (hash, tenant_id, created_at) SELECT decode(rpad(lpad(to_hex(i), 2, '0'), 64, '0'), 'hex'), 'acme', now() FROM generate_series(1, 250) AS i")
	idle, _ := nodeSession(t, from)
	_, err = copyNow(t, from, to, false)
	require.ErrorContains(t, err, "has other sessions")
	require.NoError(t, idle.Close(t.Context()))

	tables, err := copyOf(t, from, to, false)
	require.NoError(t, err)
	for _, table := range []string{"regions", "documents", "tenants", "api_keys", "claims", "audit"} {
		require.Contains(t, tables, table)
	}
	_, err = copyOf(t, from, to, false)
	require.ErrorContains(t, err, "has rows")
	exec(to, "DELETE FROM audit")
	exec(to, "DELETE FROM api_keys WHERE hash < '\\x80'")
	again, err := copyOf(t, from, to, true)
	require.NoError(t, err)
	require.Equal(t, tables, again)
	of := func(url string) uuid.UUID {
		s, err := migrator(t, url).Status(t.Context())
		require.NoError(t, err)
		return s.Deployment
	}
	require.NotZero(t, of(from))
	require.Equal(t, of(from), of(to), "the copy is of the same deployment")
	exec(to, "UPDATE claims SET attempts = attempts + 1")
	_, err = copyOf(t, from, to, true)
	require.ErrorContains(t, err, "table claims")
	exec(to, "UPDATE claims SET attempts = attempts - 1")
	t.Run("replays", func(t *testing.T) {
		db := open(t, sqlstore.Config{URL: to})
		all, _, err := db.Regions(context.Background())
		require.NoError(t, err)
		require.EqualValues(t, 1, all[0].Status)
	})
}

// A table that a migration adds is copied, or nobody would notice that it is not.
func TestCopyKnowsEveryTable(t *testing.T) {
	var made []string
	files, err := os.ReadDir("migration/postgresql")
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile("migration/postgresql/" + f.Name())
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`CREATE TABLE (?:IF NOT EXISTS )?(\w+)`).FindAllStringSubmatch(string(text), -1) {
			made = append(made, strings.ToLower(m[1]))
		}
		for _, m := range regexp.MustCompile(`DROP TABLE IF EXISTS (\w+)`).FindAllStringSubmatch(string(text), -1) {
			made = slices.DeleteFunc(made, func(table string) bool { return table == m[1] })
		}
	}
	all := sqlstore.CopiedTables()
	slices.Sort(made)
	slices.Sort(all)
	require.Equal(t, made, all)
}

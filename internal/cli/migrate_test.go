package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// homeward runs the command in this process.
func homeward(t testing.TB, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, streams{&stdout, &stderr})
	return code, stdout.String(), stderr.String()
}

// does expects success and returns what was printed.
func does(t testing.TB, args ...string) string {
	t.Helper()
	code, out, errs := homeward(t, args...)
	require.Zero(t, code, "%v: %s", args, errs)
	return out
}

// refuses expects exit code 1 and one line with all of these, beside what serve logs while a busy
// database lets it wait.
func refuses(t testing.TB, says []string, args ...string) {
	t.Helper()
	code, out, errs := homeward(t, args...)
	require.Equal(t, 1, code, "%v printed %s", args, out)
	lines := strings.Split(strings.TrimSuffix(errs, "\n"), "\n")
	for len(lines) > 1 && strings.Contains(lines[0], `"msg":"waiting for the database`) {
		lines = lines[1:]
	}
	line := lines[0]
	require.Len(t, lines, 1, "more than one line")
	for _, s := range append(says, "homeward: ") {
		require.Contains(t, line, s)
	}
}

// emptyDatabase is what the command finds in its environment.
func emptyDatabase(t testing.TB) (url string) {
	t.Helper()
	url = dbtest.Database(t)
	useDatabase(t, url)
	return url
}

func useDatabase(t testing.TB, url string) {
	t.Helper()
	t.Setenv(node.DatabaseURL, url)
	t.Setenv(node.DatabaseURL+"_FILE", "")
}

func TestMigrate(t *testing.T) {
	emptyDatabase(t)
	refuses(t, []string{"no region", "migrate up --regions"}, "migrate", "status")
	refuses(t, []string{"no region", "--regions"}, "migrate", "up")

	plan := does(t, "migrate", "plan", "--regions", "us-east1,europe-west1=7")
	require.Regexp(t, `CREATE TABLE (IF NOT EXISTS )?claims \(`, plan)
	require.Contains(t, plan, "'europe-west1', 7")
	refuses(t, []string{"no region"}, "migrate", "status") // plan ran nothing

	up := does(t, "migrate", "up", "--regions", "us-east1,europe-west1=7")
	var planned []string
	for line := range strings.Lines(plan) {
		if name, isName := strings.CutPrefix(strings.TrimSpace(line), "-- "); isName {
			planned = append(planned, name)
		}
	}
	ran := strings.Split(strings.TrimSpace(up), "\n")
	last := ran[len(ran)-1]
	require.Subset(t, planned, ran[:len(ran)-1], "up runs what plan prints")
	require.GreaterOrEqual(t, len(ran)-1, sqlstore.SchemaVersion())
	require.Contains(t, last, "schema version")
	require.Contains(t, does(t, "migrate", "up"), "nothing to do")
	require.Contains(t, does(t, "migrate", "up", "--regions", "us-east1"), "nothing to do")
	require.Contains(t, does(t, "migrate", "plan"), "Nothing to do")

	status := does(t, "migrate", "status")
	require.Regexp(t, `region +europe-west1 +code 7 +active`, status)
	require.Regexp(t, `region +us-east1 +code \d+ +active`, status)

	require.Contains(t, does(t, "migrate", "up", "--regions", "asia-northeast1=9"), "region asia-northeast1")
	require.Regexp(t, `asia-northeast1 +code 9`, does(t, "migrate", "status"))
}

// A command makes the roles. It shows what it would do, prints what it did, and does it once.
func TestMigrateRoles(t *testing.T) {
	roles := []string{"migrate", "roles", "--owner", "till_owner", "--node", "till_node", "--reader", "till_reader"}
	url := emptyDatabase(t)
	refuses(t, []string{"run homeward migrate up first"}, roles...)
	refuses(t, []string{"roles: ", "must be three"}, "migrate", "roles", "--node", "till", "--reader", "till")
	does(t, "migrate", "up", "--regions", "us-east1")
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	if conn.PgConn().ParameterStatus("crdb_version") != "" {
		t.Skip("roles outlive a test's database on CockroachDB")
	}
	defer func() {
		for _, name := range []string{"till_reader", "till_node", "till_owner"} {
			_, err := conn.Exec(context.Background(), "DROP OWNED BY "+name)
			require.NoError(t, err)
			_, err = conn.Exec(context.Background(), "DROP ROLE "+name)
			require.NoError(t, err)
		}
	}()
	plan := does(t, append(roles, "--dry-run")...)
	require.Contains(t, plan, `CREATE ROLE "till_node" LOGIN;`)
	made := does(t, roles...)
	require.Contains(t, made, `CREATE ROLE "till_node" LOGIN`, "the dry run made none")
	require.Contains(t, made, "till_node is for nodes and tools")
	require.Contains(t, does(t, roles...), "nothing to do: till_owner owns the tables")
	require.Contains(t, does(t, append(roles, "--dry-run")...), "-- Nothing to do.")
}

func TestMigrateRefuses(t *testing.T) {
	emptyDatabase(t)
	for _, c := range []struct{ regions, says string }{
		{"Mars", "not a region name"},
		{"us-east1,,x", "is not a name"},
		{"us-east1=0", "from 1 to 65535"},
		{"us-east1=1,europe-west1=1", "permanently"},
	} {
		refuses(t, []string{c.says}, "migrate", "up", "--regions", c.regions)
	}
	refuses(t, []string{"--survive", "zone"}, "migrate", "plan", "--regions", "us-east1", "--survive", "war")
	refuses(t, []string{"--primary mars", "us-east1"}, "migrate", "up", "--regions", "us-east1", "--primary", "mars")
	refuses(t, []string{"--colour"}, "migrate", "up", "--colour", "red")
}

func TestNoDatabase(t *testing.T) {
	const secret = "hunter2"
	for name, c := range map[string]struct {
		url  string
		says []string
	}{
		"not said":    {"", []string{"HOMEWARD_DATABASE_URL"}},
		"not a URL":   {"postgres://u:" + secret + "@%zz/", []string{"HOMEWARD_DATABASE_URL", "postgresql://user"}},
		"a slash":     {"postgresql://hw:12/" + secret + "@127.0.0.1:1/homeward", []string{"HOMEWARD_DATABASE_URL", "percent-encode"}},
		"an at sign":  {"postgresql://hw:x@" + secret + "@127.0.0.1:1/homeward", []string{"HOMEWARD_DATABASE_URL", "percent-encode"}},
		"nobody home": {"postgres://u:" + secret + "@127.0.0.1:1/homeward?sslmode=disable", []string{"127.0.0.1:1", "cannot be reached"}},
	} {
		t.Run(name, func(t *testing.T) {
			useDatabase(t, c.url)
			for _, args := range [][]string{{"migrate", "up"}, {"migrate", "status"}, {"tenant", "list"}} {
				refuses(t, c.says, args...)
				_, _, errs := homeward(t, args...)
				require.NotContains(t, errs, secret)
			}
		})
	}
}

package sqlstore_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/archtest/marked"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// migrator connects to an empty database, or to the one at url.
func migrator(t testing.TB, url string) *sqlstore.Migrator {
	t.Helper()
	m, err := sqlstore.OpenMigrator(t.Context(), url, false)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	return m
}

func allRegions(names ...string) sqlstore.Migration {
	var want sqlstore.Migration
	for _, r := range names {
		want.Regions = append(want.Regions, claim.Region{Name: r})
	}
	return want
}

// steps are the names of what a migration did.
func steps(t testing.TB, m *sqlstore.Migrator, want sqlstore.Migration) (names []string) {
	t.Helper()
	require.NoError(t, m.Up(t.Context(), want, func(s sqlstore.Step) { names = append(names, s.Name) }))
	return names
}

// works charges once through the store, and replays.
func works(t testing.TB, url, tenant, home string) {
	t.Helper()
	db := open(t, sqlstore.Config{URL: url})
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: tenant, Registrar: home}))
	v := view(t, db, home)
	a := claimtest.NewArrival(claim.Key{Tenant: tenant, Value: "works"}, home, "1", "n", "ch_"+tenant)
	got, err := v.Begin(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, claim.Won.String(), got.Decision.String())
	_, err = v.Settle(t.Context(), got.Record, claim.Verdict{Outcome: &claim.Done{Response: claim.Response{Status: 201, Body: []byte("ok")}}})
	require.NoError(t, err)
	got, err = v.Begin(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, claim.Replay.String(), got.Decision.String())
	require.Equal(t, "ok", string(got.Record.Response.Body))
}

// TestMigrateFromEmpty goes from nothing to a store that works, does nothing the
// second time, and does what the plan said.
func TestMigrateFromEmpty(t *testing.T) {
	url := dbtest.Database(t)
	m := migrator(t, url)
	want := allRegions(regions[0], regions[1])
	_, err := m.Plan(t.Context(), sqlstore.Migration{})
	require.ErrorContains(t, err, "--regions")
	status, err := m.Status(t.Context())
	require.NoError(t, err)
	require.Zero(t, status.Have)
	require.Zero(t, status.Deployment)
	used, err := m.HasTables(t.Context())
	require.NoError(t, err)
	require.False(t, used)

	plan, err := m.Plan(t.Context(), want)
	require.NoError(t, err)
	status, err = m.Status(t.Context())
	require.NoError(t, err)
	require.Zero(t, status.Have, "a plan changes nothing")
	var planned []string
	for _, s := range plan {
		require.NotEmpty(t, s.SQL)
		planned = append(planned, s.Name)
	}
	require.Equal(t, planned, steps(t, m, want))
	works(t, url, "acme", regions[1])

	require.Empty(t, steps(t, m, want), "the second time")
	require.Empty(t, steps(t, m, sqlstore.Migration{}), "what is there stays")
	plan, err = m.Plan(t.Context(), want)
	require.NoError(t, err)
	require.Empty(t, plan)
	status, err = m.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, sqlstore.SchemaVersion(), status.Have)
	used, err = m.HasTables(t.Context())
	require.NoError(t, err)
	require.True(t, used)
	id, err := open(t, sqlstore.Config{URL: url}).DeploymentID(t.Context())
	require.NoError(t, err)
	require.NotZero(t, id)
	require.Equal(t, status.Deployment, id)
	require.Equal(t, status.Want, status.Have)
	require.Equal(t, []claim.Region{{Name: regions[1], Code: 2}, {Name: regions[0], Code: 1}}, status.Regions)

	// A copy that shall be another deployment.
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "UPDATE deployment SET id = gen_random_uuid()")
	require.NoError(t, errors.Join(err, conn.Close(t.Context())))
	status, err = m.Status(t.Context())
	require.NoError(t, err)
	require.NotZero(t, status.Deployment)
	require.NotEqual(t, id, status.Deployment)
}

// TestMigrateAddsARegion grows a deployment that runs, by one command; what is
// never possible is refused.
func TestMigrateAddsARegion(t *testing.T) {
	url := dbtest.Database(t)
	m := migrator(t, url)
	steps(t, m, allRegions(regions[0], regions[1]))
	works(t, url, "acme", regions[0])
	db := open(t, sqlstore.Config{URL: url}) // it runs on

	for name, want := range map[string]sqlstore.Migration{
		"another code":       {Regions: []claim.Region{{Name: regions[0], Code: 7}}},
		"a code that is had": {Regions: []claim.Region{{Name: regions[2], Code: 1}}},
		"survival":           {Survive: "planet"},
		"too few to survive": {Survive: sqlstore.SurviveRegion},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Plan(t.Context(), want)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "\n")
			require.Error(t, m.Up(t.Context(), want, nil))
		})
	}
	_, err := m.Plan(t.Context(), sqlstore.Migration{Survive: sqlstore.SurviveRegion})
	require.Error(t, err, "what was refused has added no region")

	want := sqlstore.Migration{Regions: []claim.Region{{Name: regions[2], Code: 9}}}
	require.Contains(t, steps(t, m, want), "region "+regions[2])
	require.Empty(t, steps(t, m, want))
	works(t, url, "globex", regions[2])
	rows, epoch, err := db.Regions(t.Context())
	require.NoError(t, err)
	require.Contains(t, rows, claim.Region{Name: regions[2], Code: 9})
	require.EqualValues(t, 3, epoch)
	_, err = view(t, db, regions[2]).Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "globex", Value: "new"}, regions[2], "1", "n", "ch_new"))
	require.NoError(t, err, "a store that was open before knows it too")
}

// TestMigrateAtOnce starts several nodes' migrations of one empty database in the
// same moment.
func TestMigrateAtOnce(t *testing.T) {
	url := dbtest.Database(t)
	n := 6
	if dbtest.Shared(t).Kind() == localdb.CockroachDB {
		n = 3 // each waits for the others' schema changes
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var g errgroup.Group
	start := make(chan struct{})
	for range n {
		m := migrator(t, url)
		g.Go(func() error {
			<-start
			return m.Up(ctx, allRegions(regions...), nil)
		})
	}
	close(start)
	require.NoError(t, g.Wait())
	status, err := migrator(t, url).Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, status.Want, status.Have)
	codes := map[claim.RegionCode]bool{}
	for _, r := range status.Regions {
		codes[r.Code] = true
	}
	require.Len(t, status.Regions, len(regions))
	require.Len(t, codes, len(regions))
	works(t, url, "acme", regions[0])
}

func TestParseRegions(t *testing.T) {
	specs, err := sqlstore.ParseRegions("us-east1, europe-west1=7")
	require.NoError(t, err)
	require.Equal(t, []claim.Region{{Name: "us-east1"}, {Name: "europe-west1", Code: 7}}, specs)
	for _, bad := range []string{"", "a,", "a=0", "a=", "a=7x", "a=-1", "a=65536", `a"b`, "a b"} {
		_, err := sqlstore.ParseRegions(bad)
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "\n")
	}
}

// The two databases have the same migrations, and each makes the same tables, with the same
// columns in the same order: the statements of query/ are the same on both.
func TestBothDatabasesHaveTheSameTables(t *testing.T) {
	read := func(kind string) (names []string, tables map[string][]string) {
		tables = map[string][]string{}
		files, err := os.ReadDir("migration/" + kind)
		require.NoError(t, err)
		for _, f := range files {
			names = append(names, f.Name())
			text, err := os.ReadFile("migration/" + kind + "/" + f.Name())
			require.NoError(t, err)
			for _, m := range regexp.MustCompile(`(?ms)^CREATE TABLE (?:IF NOT EXISTS )?(\w+) \((.*?)^\)`).FindAllStringSubmatch(string(text), -1) {
				for _, column := range regexp.MustCompile(`(?m)^    [a-z]\w+ +[a-z]\w*(?:\[\])?`).FindAllString(m[2], -1) {
					if strings.HasPrefix(column, "    shard ") {
						continue // of CockroachDB's indexes on times, and in no statement
					}
					tables[m[1]] = append(tables[m[1]], strings.Join(strings.Fields(column), " "))
				}
			}
		}
		return names, tables
	}
	names, tables := read("postgresql")
	require.Len(t, names, sqlstore.SchemaVersion())
	require.Contains(t, tables["claims"], "fence int8")
	others, same := read("cockroachdb")
	require.Equal(t, names, others)
	require.Equal(t, tables, same)
}

// A migration that waits for its lock, behind a dump, stops no charge: it stops waiting after
// a second, says who has the table, and tries again until it is done.
func TestMigrationsLetChargesGoFirst(t *testing.T) {
	url := dbtest.Database(t)
	if dbtest.Shared(t).Kind() == localdb.CockroachDB {
		t.Skip("it changes schemas beside writes")
	}
	m := migrator(t, url)
	steps(t, m, allRegions(regions...))
	m.Later(map[string]string{"002_column.sql": "-- +goose Up\nALTER TABLE claims ADD COLUMN colour text;\n"})
	dump, err := pgx.Connect(t.Context(), url+"&application_name=dump")
	require.NoError(t, err)
	defer func() { _ = dump.Close(context.Background()) }()
	_, err = dump.Exec(t.Context(), "BEGIN; LOCK TABLE claims IN ACCESS SHARE MODE")
	require.NoError(t, err)

	var ran []string
	blocked, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- m.Up(context.WithoutCancel(t.Context()), allRegions(regions...), func(s sqlstore.Step) {
			if s.Blocked == "" {
				ran = append(ran, s.Name)
				return
			}
			select {
			case blocked <- s.Name + ": " + s.Blocked:
			default:
			}
		})
	}()
	d := database{admin: url}
	waits := func() bool {
		return d.count(t, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'claims'::regclass") > 0
	}
	require.Eventually(t, func() bool { return waits() || len(done) > 0 }, patience, time.Millisecond)
	// Behind the migration, and so behind the dump, which does not end.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	charge, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { _ = charge.Close(context.Background()) }()
	_, err = charge.Exec(ctx, "UPDATE claims SET fence = fence WHERE tenant_id = ''")
	require.NoError(t, err, "a charge waits for as long as the dump runs")
	said := <-blocked
	require.Regexp(t, `^002_column: pid \d+, "dump" of \w+`, said)
	require.NotContains(t, said, "\n")
	require.Empty(t, done)

	_, err = dump.Exec(t.Context(), "COMMIT")
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Equal(t, []string{"002_column"}, ran, "a step is reported once")
	status, err := m.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, sqlstore.SchemaVersion()+1, status.Have)
	require.Equal(t, status.Want, status.Have)
}

// A migration that makes an index beside writes lifts the limit of its waits, as CONTRIBUTING.md
// says: the next one has the limit.
func TestAMigrationsSettingsAreItsOwn(t *testing.T) {
	url := dbtest.Database(t)
	if dbtest.Shared(t).Kind() == localdb.CockroachDB {
		t.Skip("it has no such limit")
	}
	m := migrator(t, url)
	m.Later(map[string]string{
		"002_index.sql": marked.Blocks(t, "CONTRIBUTING.md")[0],
		"003_limit.sql": "-- +goose Up\nCREATE TABLE limits AS SELECT current_setting('lock_timeout') AS wait;\n",
	})
	require.Contains(t, steps(t, m, allRegions(regions...)), "003_limit")
	d := database{admin: url}
	require.Equal(t, 1, d.count(t, "SELECT count(*) FROM pg_index WHERE indexrelid = 'claims_receipts'::regclass AND indisvalid"))
	require.Equal(t, 1, d.count(t, "SELECT count(*) FROM limits WHERE wait = '1s'"))
}

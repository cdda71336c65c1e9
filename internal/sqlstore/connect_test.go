package sqlstore_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// refusals are what the store and the migrator say of a URL. Each is one line.
func refusals(t *testing.T, rawURL string) (all []string) {
	t.Helper()
	_, opened := sqlstore.Open(t.Context(), sqlstore.Config{URL: rawURL, Policy: claim.DefaultPolicy()})
	_, migrated := sqlstore.OpenMigrator(t.Context(), rawURL, false)
	for _, err := range []error{opened, migrated} {
		require.Error(t, err)
		require.NotContains(t, err.Error(), "\n")
		all = append(all, err.Error())
	}
	return all
}

// A password that was not encoded ends somewhere else than was meant; what is behind
// that end looks like a host or a database, and is in no message.
func TestNoPartOfAPasswordIsShown(t *testing.T) {
	for _, password := range []string{
		"12/s3cretpw", "s3cr@etpw", "a/s3cr@etpw", "s3cret?pw", "s3cret#pw", "12?s3cret/pw", "s3cret%zzpw", "s3cret:etpw/x", "[s3cret/pw",
	} {
		for _, rest := range []string{"@127.0.0.1:1/homeward", "@127.0.0.1:1", "@/homeward", "@%zz/homeward"} {
			for _, scheme := range []string{"postgresql://", "postgres://"} {
				for _, said := range refusals(t, scheme+"hw:"+password+rest) {
					require.Contains(t, said, "HOMEWARD_DATABASE_URL", password)
					require.Contains(t, said, "postgresql://user:password@host:26257/homeward", password)
					for _, part := range []string{"s3c", "etpw", "127.0.0.1", "%zz", "hw:"} {
						require.NotContains(t, said, part, password)
					}
				}
			}
		}
	}
}

func TestAURLThatCannotBeMeant(t *testing.T) {
	const good = "postgresql://hw:s3cret@127.0.0.1:1"
	for name, c := range map[string]struct {
		url  string
		says []string
	}{
		"none":                  {"", []string{"no database is set", "HOMEWARD_DATABASE_URL=postgresql://"}},
		"no database":           {good, []string{"names no database"}},
		"no database, a slash":  {good + "/", []string{"names no database"}},
		"a number for a port":   {"postgresql://hw:s3cret@127.0.0.1:port/homeward", []string{"port", "postgresql://user"}},
		"another scheme":        {"mysql://hw:s3cret@127.0.0.1:1/homeward", []string{"cannot be read", "postgresql://user"}},
		"a slash too few":       {"postgresql:/hw:s3cret@127.0.0.1:1/homeward", []string{"cannot be read", "postgresql://user"}},
		"sslmode written wrong": {good + "/homeward?sslmodus=disable", []string{"sslmodus", "sslmode"}},
		"no such sslmode":       {good + "/homeward?sslmode=off", []string{"sslmode"}},
		"the pool":              {good + "/homeward?pool_max_conns=4", []string{"pool_max_conns", "database.max_conns"}},
		"a secret parameter":    {"postgresql://127.0.0.1:1/homeward?password=a&ssls3cret=x", []string{"sslmode"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, said := range refusals(t, c.url) {
				require.NotContains(t, said, "s3cret")
				for _, say := range c.says {
					require.Contains(t, said, say)
				}
			}
		})
	}
}

// The cause is told once, however often it was tried, and in words for a person.
func TestADatabaseThatIsNotThere(t *testing.T) {
	const nobody = "127.0.0.1:1" // listens there
	_, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: "postgresql://hw:s3cret@" + nobody + "/homeward", Policy: claim.DefaultPolicy()})
	require.ErrorIs(t, err, claim.ErrUnavailable)
	for _, said := range refusals(t, "postgresql://hw:s3cret@"+nobody+"/homeward?sslmode=prefer") {
		require.True(t, strings.HasPrefix(said, `database "homeward" at `+nobody+" cannot be reached: "), said)
		require.Equal(t, 1, strings.Count(said, "refused"), said)
		require.Contains(t, said, "HOMEWARD_DATABASE_URL")
		require.NotContains(t, said, "s3cret")
	}
}

// TestTheServerRefuses: what it says is told, with what to do.
func TestTheServerRefuses(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() != localdb.PostgreSQL {
		t.Skip("CockroachDB passes over parameters that it does not know")
	}
	with := func(name, value string) string {
		u, err := url.Parse(d.admin)
		require.NoError(t, err)
		q := u.Query()
		q.Set(name, value)
		u.RawQuery = q.Encode()
		return u.String()
	}
	for _, said := range refusals(t, with("colour", "red")) {
		require.Contains(t, said, `"colour"`)
		require.Contains(t, said, "HOMEWARD_DATABASE_URL")
	}
	if u, err := url.Parse(d.admin); err == nil && u.Query().Get("host") == "" { // a socket knows no TLS
		for _, said := range refusals(t, with("sslmode", "require")) {
			require.Contains(t, said, "TLS")
			require.Contains(t, said, "sslmode")
		}
	}
}

// role makes a user of this database, who may do nothing yet, and says how to be it.
func (d database) role(t *testing.T, name string) (url string) {
	t.Helper()
	d.exec(t, "CREATE ROLE "+name+" LOGIN PASSWORD 'secret'")
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), d.admin)
		require.NoError(t, err)
		_, err = conn.Exec(context.Background(), "DROP OWNED BY "+name)
		require.NoError(t, err)
		_, err = conn.Exec(context.Background(), "DROP ROLE "+name)
		require.NoError(t, errors.Join(err, conn.Close(context.Background())))
	})
	return asUser(t, d.admin, name)
}

func asUser(t *testing.T, rawURL, name string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	u.User = url.UserPassword(name, "secret")
	q := u.Query()
	q.Del("user")
	u.RawQuery = q.Encode()
	return u.String()
}

// TestGrants: a node that may not do what it will have to says so at its start, and
// with the rights of docs/DATABASE.md it works.
func TestGrants(t *testing.T) {
	dbtest.Shared(t)
	d := newDatabase(t)
	if d.server.Kind() != localdb.PostgreSQL {
		t.Skip("roles outlive a test's database on CockroachDB")
	}
	as := d.role(t, "till")
	start := func() error {
		db, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: as, Policy: claim.DefaultPolicy()})
		if err != nil {
			return err
		}
		return db.Close()
	}
	err := start()
	require.NotErrorIs(t, err, claim.ErrUnavailable)
	for _, say := range []string{`user "till"`, "homeward_schema_version (SELECT)", "claims (SELECT, INSERT, UPDATE, DELETE)", `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "till"`} {
		require.ErrorContains(t, err, say)
	}
	require.NotContains(t, err.Error(), "\n")

	d.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO till")
	require.NoError(t, start())
	d.exec(t, "REVOKE UPDATE ON events FROM till")
	require.ErrorContains(t, start(), "events (UPDATE);")

	// No more is asked for than is used.
	d.exec(t, "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM till")
	d.exec(t, "GRANT SELECT ON homeward_schema_version, deployment, ledger_carried, api_keys, witnesses TO till")
	d.exec(t, "GRANT SELECT, INSERT, UPDATE ON documents, audit_chains TO till")
	d.exec(t, "GRANT SELECT, UPDATE ON regions, tenants TO till")
	d.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON claims, events, expiries, notices, notices_due, pins, unpaid TO till")
	d.exec(t, "GRANT SELECT, INSERT ON ledger, audit TO till")
	require.NoError(t, open(t, sqlstore.Config{URL: d.admin}).PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}, "sk_acme"))
	db := open(t, sqlstore.Config{URL: as})
	v := view(t, db, regions[0])
	key := claim.Key{Tenant: "acme", Value: "works"}
	_, err = v.Pin(t.Context(), key, regions[0])
	require.NoError(t, err)
	got, err := v.Begin(t.Context(), claimtest.NewArrival(key, regions[0], "1", "n", "ch_1"))
	require.NoError(t, err)
	require.Equal(t, claim.Won, got.Decision)
	_, err = v.Settle(t.Context(), got.Record, claim.Verdict{Outcome: &claim.Done{
		Response: claim.Response{Status: 201, Body: []byte("ok")}, Posting: claimtest.Posting(got.Record, "ch_1"), Events: claimtest.Events(got.Record, 1),
	}})
	require.NoError(t, err)
	_, err = v.Sweep(t.Context(), 10)
	require.NoError(t, err)
	_, err = db.SetRegionStatus(t.Context(), regions[1], 1)
	require.NoError(t, err)

	// The books are appended to, by no one's leave changed.
	charge, _, err := v.Transaction(t.Context(), regions[0], "ch_1")
	require.NoError(t, err)
	posted, err := v.Post(t.Context(), charge)
	require.NoError(t, err)
	require.False(t, posted)
	for _, change := range []string{"UPDATE ledger SET debit_amount = 1", "DELETE FROM ledger", "TRUNCATE ledger"} {
		require.ErrorContains(t, db.Exec(t.Context(), change), "permission denied", change)
	}
}

// TestMigrateWithoutRights: the line says whose task it is.
func TestMigrateWithoutRights(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() != localdb.PostgreSQL {
		t.Skip("roles outlive a test's database on CockroachDB")
	}
	as := d.role(t, "clerk")
	empty := dbtest.Database(t)
	for what, rawURL := range map[string]string{"migrated": as, "empty": asUser(t, empty, "clerk")} {
		m := migrator(t, rawURL)
		err := m.Up(t.Context(), allRegions(regions[0]), nil)
		require.ErrorContains(t, err, "permission denied", what)
		require.ErrorContains(t, err, `GRANT CREATE ON SCHEMA public TO "clerk"`, what)
		require.NotContains(t, err.Error(), "\n", what)
	}
	_, err := migrator(t, as).Status(t.Context())
	require.ErrorContains(t, err, "must run as")
}

// A database on another machine proves who it is, by a certificate with its name, or it
// is not talked to, by anything that opens one, unless a setting says otherwise. A
// socket and loopback lead nowhere else.
func TestTheDatabaseProvesWhoItIs(t *testing.T) {
	nowhere, cancel := context.WithCancel(t.Context())
	cancel() // nothing is dialled: what counts is who would have been
	said := func(url string, allow bool) []string {
		pool := sqlstore.DefaultPool()
		pool.AllowUnverified = allow
		_, opened := sqlstore.Open(nowhere, sqlstore.Config{URL: url, Policy: claim.DefaultPolicy(), Pool: pool})
		_, migrated := sqlstore.OpenMigrator(nowhere, url, allow)
		require.Error(t, opened)
		require.Error(t, migrated)
		return []string{opened.Error(), migrated.Error()}
	}
	const at, refusal = "postgresql://hw:s3cret@", "does not verify the identity of"
	for _, url := range []string{
		at + "db.example/homeward", at + "10.0.0.1/homeward?sslmode=disable", at + "db.example/homeward?sslmode=allow",
		at + "db.example/homeward?sslmode=prefer", at + "db.example/homeward?sslmode=require", at + "db.example/homeward?sslmode=verify-ca",
		at + "127.0.0.1,db.example/homeward", "host=db.example dbname=homeward password=s3cret", "postgresql://[fd00::1]/homeward",
	} {
		for _, text := range said(url, false) {
			require.Contains(t, text, refusal, url)
			require.Contains(t, text, "sslmode=verify-full")
			require.Contains(t, text, "database.allow_unverified")
			require.NotContains(t, text, "s3cret")
			require.NotContains(t, text, "\n")
		}
		for _, text := range said(url, true) {
			require.NotContains(t, text, refusal, url)
		}
	}
	for _, url := range []string{
		at + "db.example/homeward?sslmode=verify-full", at + "10.0.0.1/homeward?sslmode=verify-full", at + "localhost/homeward",
		at + "127.0.0.2/homeward?sslmode=disable", at + "[::1]/homeward", "postgresql:///homeward?host=/run/postgresql", "host=/run/postgresql dbname=homeward",
	} {
		for _, text := range said(url, false) {
			require.NotContains(t, text, refusal, url)
		}
	}
}

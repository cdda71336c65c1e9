package sqlstore_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// refuseWrites makes new sessions of the database refuse writes, as those of a hot standby
// do, until the result is called.
func (d database) refuseWrites(t *testing.T) (restore func()) {
	t.Helper()
	u, err := url.Parse(d.admin)
	require.NoError(t, err)
	name := pgx.Identifier{u.Path[1:]}.Sanitize()
	alter := func(change string) {
		d.exec(t, "BEGIN READ WRITE; ALTER DATABASE "+name+" "+change+"; COMMIT")
	}
	alter("SET default_transaction_read_only = on")
	restore = func() { alter("RESET default_transaction_read_only") }
	if d.server.Kind() == localdb.CockroachDB { // where all tests share the database
		t.Cleanup(restore)
	}
	return restore
}

// A node does not start on a database that takes no writes: it could answer no charge, and
// would be the fastest to refuse them. A tool that only reads works.
func TestOpenRefusesADatabaseThatTakesNoWrites(t *testing.T) {
	d := newDatabase(t)
	restore := d.refuseWrites(t)
	d = d.withDefaults(t)
	_, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: d.url, Policy: testPolicy(), Pool: testPool()})
	require.ErrorContains(t, err, "takes no writes: default_transaction_read_only is on")
	require.ErrorContains(t, err, "target_session_attrs=read-write")
	require.NotContains(t, err.Error(), "\n")
	require.NotErrorIs(t, err, claim.ErrUnavailable)

	tool := open(t, sqlstore.Config{URL: d.url, Tool: true})
	_, _, err = tool.Regions(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, view(t, tool, regions[0]).Ready(t.Context()), "takes no writes")

	restore()
	require.NoError(t, view(t, open(t, sqlstore.Config{URL: d.url}), regions[0]).Ready(t.Context()))
}

// A server that was demoted keeps the sessions that it has, and refuses their writes. They
// are discarded with the first refusal, those that look up API keys too, so that the next
// statement goes to the server that took over.
func TestSessionsThatRefuseWritesAreDiscarded(t *testing.T) {
	d := newDatabase(t)
	pool := testPool()
	pool.MaxConns, pool.MinConns = 4, 4
	db := open(t, sqlstore.Config{URL: d.url, Pool: pool})
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}, "sk_acme"))
	v := view(t, db, regions[0])
	begin := func(value string) error {
		got, err := v.Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: value}, regions[0], "1", "n", "ch_"+value))
		if err == nil && got.Decision != claim.Won {
			err = fmt.Errorf("decision %v", got.Decision)
		}
		return err
	}
	_, found, err := v.TenantByAPIKey(t.Context(), claim.HashAPIKey("sk_acme"))
	require.NoError(t, err)
	require.True(t, found)
	require.NoError(t, begin("before"))
	require.NoError(t, db.DemoteSessions(t.Context()))
	require.NoError(t, begin("after"), "the statement that was refused has changed nothing, and is repeated on a new session")
	require.Eventually(t, func() bool { return db.DemotedSessions() == 0 }, patience, 10*time.Millisecond)

	require.NoError(t, db.DemoteSessions(t.Context()))
	require.NoError(t, v.Ready(t.Context()))
	require.Eventually(t, func() bool { return db.DemotedSessions() == 0 }, patience, 10*time.Millisecond)
}

// Ready means that a charge could be recorded now: not while the database answers and a
// table that a charge writes, or reads first, is locked.
func TestALockedTableIsNotReady(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it has no table locks")
	}
	pool := testPool()
	pool.StatementTimeout, pool.CallTimeout = 300*time.Millisecond, 500*time.Millisecond
	v := view(t, open(t, sqlstore.Config{URL: d.url, Pool: pool}), regions[0])
	require.NoError(t, v.Ready(t.Context()))
	const index, rewrite = "SHARE", "ACCESS EXCLUSIVE" // CREATE INDEX; VACUUM FULL, ALTER TABLE
	for table, mode := range map[string]string{
		"claims": index, "pins": index, "ledger": index, "audit": index,
		"api_keys": rewrite, "tenants": rewrite, "regions": rewrite,
	} {
		holder, err := pgx.Connect(t.Context(), d.admin)
		require.NoError(t, err)
		_, err = holder.Exec(t.Context(), "BEGIN; LOCK TABLE "+table+" IN "+mode+" MODE")
		require.NoError(t, err)
		require.ErrorIs(t, v.Ready(t.Context()), claim.ErrUnavailable, table)
		require.NoError(t, holder.Close(context.Background()))
		require.Eventually(t, func() bool { return v.Ready(t.Context()) == nil }, patience, 10*time.Millisecond, table)
	}
	require.Zero(t, d.count(t, "SELECT (SELECT count(*) FROM claims) + (SELECT count(*) FROM ledger) + (SELECT count(*) FROM audit)"), "it writes nothing")
}

// Ready means that a charge could be recorded now: not while the database has no space for
// writes, which the check itself, as it writes nothing, does not see. A node that gets no
// traffic then writes nothing either, and is ready again after a while.
func TestADatabaseWithoutSpaceIsNotReady(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("all tests share the database")
	}
	db := open(t, sqlstore.Config{URL: d.url})
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}, "sk_acme"))
	v := view(t, db, regions[0])
	begin := func(value string) error {
		_, err := v.Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: value}, regions[0], "1", "n", "ch_"+value))
		return err
	}
	d.exec(t, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN RAISE 'could not extend file "base/5/16384": No space left on device' USING ERRCODE = '53100'; END$$`)
	d.exec(t, "CREATE TRIGGER full_disk BEFORE INSERT ON claims FOR EACH ROW EXECUTE FUNCTION full_disk()")
	require.NoError(t, v.Ready(t.Context()), "nothing was refused yet")
	for range 2 { // the second one when the node has tried traffic again
		require.ErrorIs(t, begin("a"), claim.ErrUnavailable)
		err := v.Ready(t.Context())
		require.ErrorContains(t, err, "has no space for writes: could not extend file")
		require.ErrorContains(t, err, "free some on its disk or enlarge it")
		require.NotContains(t, err.Error(), "\n")
		db.LetSpaceBeTried()
		require.NoError(t, v.Ready(t.Context()))
	}
	d.exec(t, "DROP TRIGGER full_disk ON claims")
	require.NoError(t, begin("a"))
	require.NoError(t, v.Ready(t.Context()))
}

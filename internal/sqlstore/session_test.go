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

// TestASessionIsSetUpAtOnce counts what goes over the wire before a new connection's first
// statement.
func TestASessionIsSetUpAtOnce(t *testing.T) {
	w := newWire(t, newDatabase(t), "acme", testPool())
	require.NoError(t, view(t, w.hurt, here).Ready(t.Context()))
	before := w.proxy.Statements()
	w.proxy.CutAll()
	require.NoError(t, view(t, w.hurt, here).Ready(t.Context()))
	sent := map[string]int{}
	for name, n := range w.proxy.Statements() {
		if n > before[name] && name != "ping" {
			sent[name] = n - before[name]
		}
	}
	require.Equal(t, map[string]int{"session": 1}, sent)
}

// TestSessionsHaveTheirOwnIsolation: isolation is not assumed. Whatever the database
// has as its default, sessions have what the statements are written for.
func TestSessionsHaveTheirOwnIsolation(t *testing.T) {
	d := newDatabase(t)
	user := d.withDefaults(t)
	want, others := "read committed", []string{"repeatable read", "serializable"}
	if d.server.Kind() == localdb.CockroachDB {
		want, others = "serializable", []string{"read committed"}
	}
	u, err := url.Parse(d.admin)
	require.NoError(t, err)
	name := pgx.Identifier{u.Path[1:]}.Sanitize()
	t.Cleanup(func() { d.exec(t, "ALTER DATABASE "+name+" RESET default_transaction_isolation") })
	for _, other := range others {
		d.exec(t, "ALTER DATABASE "+name+" SET default_transaction_isolation = '"+other+"'")
		if has := user.count(t, "SELECT (current_setting('transaction_isolation') = '"+other+"')::int"); has == 0 && d.server.Kind() == localdb.CockroachDB {
			t.Skip("CockroachDB has another level only with a licence")
		} else {
			require.Equal(t, 1, has)
		}
		db := open(t, sqlstore.Config{URL: user.url})
		require.NoError(t, db.Exec(t.Context(), "SELECT 1 / (current_setting('transaction_isolation') = '"+want+"')::int"))
	}
}

// TestOpenRefusesAnotherIsolation: a node does not start where its sessions cannot
// have the isolation that statements need. The database says so by a function that
// hides the one that is asked.
func TestOpenRefusesAnotherIsolation(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("functions are not hidden there")
	}
	d.exec(t, `CREATE SCHEMA another; CREATE FUNCTION another.current_setting(text) RETURNS text LANGUAGE sql STABLE AS
		$$ SELECT CASE WHEN $1 = 'transaction_isolation' THEN 'repeatable read' ELSE pg_catalog.current_setting($1) END $$`)
	u, err := url.Parse(d.admin)
	require.NoError(t, err)
	q := u.Query()
	q.Set("search_path", "another,public,pg_catalog")
	u.RawQuery = q.Encode()
	_, err = sqlstore.Open(t.Context(), sqlstore.Config{URL: u.String(), Policy: testPolicy(), Pool: testPool()})
	require.ErrorContains(t, err, `does not keep a setting: transaction_isolation of new sessions is "repeatable read" though it was set to "read committed"`)
	require.NotContains(t, err.Error(), "\n")
}

// TestAPinIsNotMissedWhileItsRegistrarMoves holds a pin between its writing and its
// commit, moves the registrar, and asks for the key's home in another region: what
// keeps a key from two homes, and two charges, at read committed.
func TestAPinIsNotMissedWhileItsRegistrarMoves(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it watches PostgreSQL's locks; transactions are serializable there")
	}
	db := open(t, sqlstore.Config{URL: d.admin, Pool: testPool()})
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}))
	writer, err := pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	defer func() { _ = writer.Close(context.Background()) }()
	tx, err := writer.Begin(t.Context())
	require.NoError(t, err)
	statements, err := db.Statements(t.Context(), regions[0])
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), statements["pin"].SQL, regions[0], []string{"acme"}, []string{"k"})
	require.NoError(t, err)

	type answer struct {
		pin claim.Pin
		err error
	}
	homes := make(chan answer, 1)
	go func() {
		if err := db.MoveRegistrar(t.Context(), "acme", regions[1]); err != nil {
			homes <- answer{err: err}
			return
		}
		pin, err := view(t, db, regions[2]).Pin(t.Context(), claim.Key{Tenant: "acme", Value: "k"}, regions[2])
		homes <- answer{pin, err}
	}()
	waits := func() bool {
		return d.count(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
	}
	require.Eventually(t, func() bool { return len(homes) > 0 || waits() }, patience, 10*time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	got := <-homes
	require.NoError(t, got.err)
	require.Equal(t, regions[0], got.pin.Home)
	require.Equal(t, 1, d.count(t, "SELECT count(*) FROM pins"))
}

// TestSessionsKeepPlansOnceThereAreStatistics: on a new database every statement is
// planned for its run, and on one that has grown sessions that are open already are not.
func TestSessionsKeepPlansOnceThereAreStatistics(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it is about PostgreSQL's planner")
	}
	pool := testPool()
	pool.MaxConns, pool.MinConns = 1, 1
	db := open(t, sqlstore.Config{URL: d.admin, Pool: pool})
	anew := func() bool {
		return db.Exec(t.Context(), "SELECT 1 / (current_setting('plan_cache_mode') = 'force_custom_plan')::int") == nil
	}
	require.True(t, anew())
	d.others(t)
	require.True(t, anew(), "there are rows, and nobody knows")
	d.exec(t, "ANALYZE claims")
	require.Eventually(t, func() bool { return !anew() }, patience, 100*time.Millisecond)
}

// TestPlansAreKeptForWhoIsAlone: a plan that is kept is believed to be for ten rows where
// arrays go in, and one that is made anew knows that there is one: PostgreSQL would plan
// each statement of a caller who is alone for its run, which takes longer than the run.
func TestPlansAreKeptForWhoIsAlone(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it is about PostgreSQL's planner")
	}
	d.others(t)
	d.exec(t, "ANALYZE")
	pool := testPool()
	pool.MaxConns, pool.MinConns = 1, 1
	db := open(t, sqlstore.Config{URL: d.admin, Pool: pool})
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: here}))
	v := view(t, db, here)
	for i := range 15 {
		a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: fmt.Sprint("alone", i)}, here, "100", "n-1", fmt.Sprint("ch_alone", i))
		pin, err := v.Pin(t.Context(), a.Key, here)
		require.NoError(t, err)
		a.PinnedAt, a.Stamped = pin.CreatedAt, false
		begun, err := v.Begin(t.Context(), a)
		require.NoError(t, err)
		require.Equal(t, claim.Won, begun.Decision)
		rec := begun.Record
		held, err := v.Renew(t.Context(), rec.Holder, []claim.Lease{{Key: rec.Key, Home: here, Fence: rec.Fence}})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, held)
		_, err = v.Settle(t.Context(), rec, paid(a.Key.Value))
		require.NoError(t, err)
		_, err = v.Replica(t.Context(), a.Key)
		require.NoError(t, err)
		replay, err := v.Begin(t.Context(), a)
		require.NoError(t, err)
		require.Equal(t, claim.Replay, replay.Decision)
	}
	require.NoError(t, db.Exec(t.Context(), `SELECT ('planned each time: ' || string_agg(split_part(statement, E'\n', 1), ', '))::int
		FROM pg_prepared_statements WHERE custom_plans > 5`), "a number is made of the names, where there are any")
}

package sqlstore_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// TestALostRegionLeavesRoomForHome lets every statement on rows of another region
// hang, as they do while that region is lost: requests at home still find a
// connection.
func TestALostRegionLeavesRoomForHome(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it watches PostgreSQL's locks")
	}
	pool := testPool()
	pool.MaxConns, pool.MinConns = 4, 1
	db := open(t, sqlstore.Config{URL: d.admin, Pool: pool})
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}))
	v := view(t, db, regions[0])
	far := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "far"}, regions[1], "1", "n", "ch_far")
	got, err := v.Begin(t.Context(), far)
	require.NoError(t, err)

	// Somebody holds the row, and so whoever wants to write it.
	holder, err := pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	defer func() { _ = holder.Close(t.Context()) }()
	tx, err := holder.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT 1 FROM claims FOR UPDATE")
	require.NoError(t, err)
	stuck := make(chan error)
	const callers = 8
	for range callers {
		go func() {
			_, err := v.Settle(t.Context(), got.Record, paid("far"))
			stuck <- err
		}()
	}
	waiting := func() int {
		return d.count(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
	}
	for deadline := time.Now().Add(20 * time.Second); waiting() == 0; {
		require.True(t, time.Now().Before(deadline), "nobody waits for the row")
	}

	near := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "near"}, regions[0], "1", "n", "ch_near")
	got, err = v.Begin(t.Context(), near)
	require.NoError(t, err)
	_, err = v.Settle(t.Context(), got.Record, paid("near"))
	require.NoError(t, err)
	require.Equal(t, 1, waiting(), "a quarter of the connections")

	require.NoError(t, tx.Rollback(t.Context()))
	settled := 0
	for range callers {
		if err := <-stuck; err == nil {
			settled++
		} else {
			require.ErrorIs(t, err, claim.ErrFenced)
		}
	}
	require.Equal(t, 1, settled)
}

// TestRowsElsewhereHaveMoreTime holds a row of another region for longer than any
// statement at home may take, and lets it go: whoever waits for it, as for an answer
// that has a long way, is served. The session's time is then that of home again.
func TestRowsElsewhereHaveMoreTime(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it watches PostgreSQL's locks")
	}
	pool := testPool()
	pool.MaxConns, pool.MinConns = 1, 1
	pool.StatementTimeout, pool.CallTimeout = 2*time.Second, 2500*time.Millisecond
	db := open(t, sqlstore.Config{URL: d.admin, Pool: pool})
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}))
	v := view(t, db, regions[0])
	got, err := v.Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "far"}, regions[1], "1", "n", "ch_far"))
	require.NoError(t, err)

	holder, err := pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	defer func() { _ = holder.Close(t.Context()) }()
	tx, err := holder.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT 1 FROM claims FOR UPDATE")
	require.NoError(t, err)
	settled := make(chan error, 1)
	go func() {
		_, err := v.Settle(t.Context(), got.Record, paid("far"))
		settled <- err
	}()
	const waits = `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock' AND clock_timestamp() - query_start > '2500ms'`
	for d.count(t, waits) == 0 {
		select {
		case err := <-settled:
			require.FailNow(t, "nobody waits any more", "%v", err)
		default:
		}
	}
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-settled)
	require.NoError(t, db.Exec(t.Context(), "SELECT 1 / (current_setting('statement_timeout') = '2s')::int"))
}

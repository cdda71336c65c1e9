package sqlstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// TestAPinThatIsConfirmedDuringASweepStays: a sweep reads a pin past its life, and waits for a request
// that writes it anew. It deletes nothing: a claim may be created under that pin now.
func TestAPinThatIsConfirmedDuringASweepStays(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it watches PostgreSQL's locks")
	}
	db := open(t, sqlstore.Config{URL: d.admin})
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}))
	v := view(t, db, regions[0])
	pinned := claim.Key{Tenant: "acme", Value: "order-1"}
	_, err := v.Pin(t.Context(), pinned, regions[0])
	require.NoError(t, err)
	policy := testPolicy()
	conn, err := pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), "UPDATE pins SET created_at = now() - $1::interval", policy.PinLife()+time.Hour)
	require.NoError(t, err)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "UPDATE pins SET created_at = now()")
	require.NoError(t, err)

	swept := make(chan error, 1)
	go func() {
		_, err := v.Sweep(t.Context(), 100)
		swept <- err
	}()
	require.Eventually(t, func() bool {
		return d.count(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	}, patience, time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-swept)
	require.Equal(t, 1, d.count(t, "SELECT count(*) FROM pins"))
}

// TestNothingOfAFormerLifeStays: the step that begins a key anew removes the answer that its tombstone
// kept, wherever that was.
func TestNothingOfAFormerLifeStays(t *testing.T) {
	d := newDatabase(t)
	db := open(t, sqlstore.Config{URL: d.admin})
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}))
	v := view(t, db, regions[0])
	for name, response := range map[string]claim.Response{
		"in the row":          {Status: 201, Header: []claim.HeaderField{{Name: "X", Value: "1"}}, Body: []byte("paid")},
		"in the object store": {Status: 201, Header: []claim.HeaderField{{Name: "X", Value: "1"}}, Blob: "64ec88ca00b268e5ba1a35678a1b5316d212f4f366b2477232534a8aeca37f3c"},
	} {
		key := claim.Key{Tenant: "acme", Value: name}
		begun, err := v.Begin(t.Context(), claimtest.NewArrival(key, regions[0], "1", "n", "ch_former_"+name))
		require.NoError(t, err)
		_, err = v.Settle(t.Context(), begun.Record, claim.Verdict{Outcome: &claim.Done{Response: response}})
		require.NoError(t, err)
		d.exec(t, "UPDATE claims SET first_use = first_use - INTERVAL '4 days', settled_at = settled_at - INTERVAL '4 days'")
		begun, err = v.Begin(t.Context(), claimtest.NewArrival(key, regions[0], "1", "n", "ch_next_"+name))
		require.NoError(t, err)
		require.Equal(t, claim.Won, begun.Decision)
		require.Zero(t, d.count(t, `SELECT count(*) FROM claims WHERE state = 1
			AND NOT (answer_status IS NULL AND answer_header IS NULL AND answer_body IS NULL AND answer_blob IS NULL AND settled_at IS NULL AND refusal IS NULL AND interim IS NULL)`), name)
	}
}

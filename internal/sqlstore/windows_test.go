package sqlstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// TestShorterWindowsAreRefused: a node that would free keys which are promised
// longer does not start; one that promises more does, and then the others must.
func TestShorterWindowsAreRefused(t *testing.T) {
	d := newDatabase(t)
	open(t, sqlstore.Config{URL: d.url})
	for name, change := range map[string]func(p *claim.Policy){
		"claim.replay_for":    func(p *claim.Policy) { p.ReplayFor-- },
		"claim.tombstone_for": func(p *claim.Policy) { p.TombstoneFor -= time.Hour },
		"claim.pin_grace":     func(p *claim.Policy) { p.PinGrace /= 2 },
	} {
		p := testPolicy()
		change(&p)
		p.ReplayFor = p.ReplayFor.Truncate(time.Microsecond)
		_, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: d.url, Pool: testPool(), Policy: p})
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "\n")
	}
	longer := testPolicy()
	longer.ReplayFor += time.Hour
	open(t, sqlstore.Config{URL: d.url, Policy: longer})
	open(t, sqlstore.Config{URL: d.url, Policy: longer})
	_, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: d.url, Pool: testPool(), Policy: testPolicy()})
	require.ErrorContains(t, err, "promised 25h0m0s")
}

// TestWindowsThatAnotherNodeRaisesMeanwhile: of two nodes that raise the windows at once the one with
// the shorter ones is refused, and lowers nothing.
func TestWindowsThatAnotherNodeRaisesMeanwhile(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it watches PostgreSQL's locks")
	}
	open(t, sqlstore.Config{URL: d.url})
	holder, err := pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	defer func() { _ = holder.Close(context.Background()) }()
	tx, err := holder.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `UPDATE documents SET version = version + 1, step = gen_random_uuid(),
		state = convert_to((SELECT json_object_agg(key, value::bigint + $1) FROM json_each_text(convert_from(state, 'UTF8')::json))::text, 'UTF8')
		WHERE kind = 'windows'`, (2 * time.Hour).Nanoseconds())
	require.NoError(t, err)
	longer := testPolicy()
	longer.ReplayFor, longer.TombstoneFor, longer.PinGrace = longer.ReplayFor+time.Hour, longer.TombstoneFor+time.Hour, longer.PinGrace+time.Hour
	opened := make(chan error, 1)
	go func() {
		_, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: d.url, Pool: testPool(), Policy: longer})
		opened <- err
	}()
	require.Eventually(t, func() bool {
		return d.count(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	}, patience, time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	err = <-opened
	for _, name := range []string{"claim.replay_for", "claim.tombstone_for", "claim.pin_grace"} {
		require.ErrorContains(t, err, name)
	}
}

// TestWhatIsAcknowledgedIsOnDisk: a database whose default is to acknowledge
// before that does not get its way.
func TestWhatIsAcknowledgedIsOnDisk(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("CockroachDB has no such setting")
	}
	conn, err := pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	_, err = conn.Exec(t.Context(), "ALTER DATABASE "+pgx.Identifier{conn.Config().Database}.Sanitize()+" SET synchronous_commit = off")
	require.NoError(t, err)
	db := open(t, sqlstore.Config{URL: d.admin})
	require.NoError(t, db.Exec(t.Context(), "DO $$ BEGIN ASSERT current_setting('synchronous_commit') = 'on'; END $$"))
}

package e2e

import (
	"context"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/outbox"
)

// virtual is the time of a store and a provider: the world's, plus what a test has let pass. Nodes
// decide nothing by their own clocks, so a story of days takes seconds. A node's own clock, by
// which it pauses between looks, stays the world's.
type virtual struct {
	judge    *judge
	store    atomic.Int64 // how far the store's clock is ahead
	provider atomic.Int64 // and the provider's
	conn     *pgx.Conn    // to the database; nil on the embedded store
}

func (v *virtual) storeNow() time.Time    { return time.Now().Add(time.Duration(v.store.Load())) }
func (v *virtual) providerNow() time.Time { return time.Now().Add(time.Duration(v.provider.Load())) }

// onVirtualTime gives a backend, before any connection, a clock that can be set
// ahead. A database gets functions that hide its now() and clock_timestamp() from sessions
// that look for them in another schema first: the statements stay as they are.
func onVirtualTime(t testing.TB, rows backend) (backend, *virtual) {
	t.Helper()
	v := &virtual{}
	if rows.Databases == nil {
		return rows, v
	}
	if dbtest.Shared(t).Kind() == localdb.CockroachDB {
		t.Skip("CockroachDB's now() cannot be hidden; PostgreSQL plays this story")
	}
	conn, err := pgx.Connect(t.Context(), rows.Databases[us])
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), `
		CREATE SCHEMA virtual;
		CREATE TABLE virtual.ahead (by interval NOT NULL);
		INSERT INTO virtual.ahead VALUES ('0');
		CREATE FUNCTION virtual.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT pg_catalog.now() + by FROM virtual.ahead';
		CREATE FUNCTION virtual.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT pg_catalog.clock_timestamp() + by FROM virtual.ahead'`)
	require.NoError(t, err)
	v.conn = conn
	for region, at := range rows.Databases {
		u, err := url.Parse(at)
		require.NoError(t, err)
		q := u.Query()
		q.Set("search_path", "virtual,public,pg_catalog")
		u.RawQuery = q.Encode()
		rows.Databases[region] = u.String()
	}
	return rows, v
}

// pass lets time pass: first for the provider, so that its payers and banks act, and then for the
// store, so that a look-up finds the result.
func (v *virtual) pass(t testing.TB, d time.Duration) {
	t.Helper()
	d = d.Truncate(time.Microsecond)
	v.provider.Add(int64(d))
	v.judge.Elapse()
	if v.conn != nil {
		_, err := v.conn.Exec(t.Context(), "UPDATE virtual.ahead SET by = by + $1::interval", d)
		require.NoError(t, err)
	}
	v.store.Add(int64(d))
}

// looks lets time pass from one look at a charge that waits to the next, until it has
// waited for so long or does not wait any more, and returns the pauses between them.
func (w *story) looks(q request, within time.Duration) (pauses []time.Duration) {
	w.t.Helper()
	id := w.object(q)
	_, code, ok := claim.ReadObjectID(id)
	require.True(w.t, ok)
	home, _ := homeOf(code)
	calls := w.store().Queue(outbox.ProviderCalls)
	began, last := w.virtual.storeNow(), time.Time{}
	for {
		m, waits, err := calls.Message(w.ctx, home, id)
		require.NoError(w.t, err)
		if !waits {
			return pauses
		}
		if end := began.Add(within); m.Due.After(end) {
			w.virtual.pass(w.t, end.Sub(w.virtual.storeNow()))
			return pauses
		}
		before := w.record(home, id)
		w.virtual.pass(w.t, m.Due.Sub(w.virtual.storeNow()))
		if !last.IsZero() {
			pauses = append(pauses, m.Due.Sub(last))
		}
		last = m.Due
		until(w.t, "the provider got the look-up", func() bool {
			now := w.record(home, id)
			return now.State != claim.InFlight || now.Waits() && now.Fence > before.Fence
		})
	}
}

// record is an object's claim.
func (w *story) record(home, id string) claim.Record {
	w.t.Helper()
	rec, found, err := w.store().ByObject(w.ctx, home, id)
	require.NoError(w.t, err)
	require.True(w.t, found)
	return rec
}

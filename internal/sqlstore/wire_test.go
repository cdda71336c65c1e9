package sqlstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/wireproxy"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

const (
	here      = "us-east1"
	there     = "europe-west1"
	elsewhere = "asia-northeast1"

	// patience bounds the wait for something that has to happen.
	patience = time.Minute
)

// wire is one database as two nodes use it, of which the first has a proxy in
// front of it. Its clock is the server's.
type wire struct {
	database
	proxy *wireproxy.Proxy
	// hurt is the node behind the proxy, other the one past it.
	hurt, other *sqlstore.DB
	direct      *pgx.Conn
	tenant      string
}

func newWire(t *testing.T, d database, tenant string, pool sqlstore.Pool) *wire {
	t.Helper()
	u, err := url.Parse(d.admin)
	require.NoError(t, err)
	w := &wire{database: d, tenant: tenant}
	w.proxy, err = wireproxy.Start(u.Host)
	require.NoError(t, err)
	pool.MaxConns, pool.MinConns = 4, 0
	w.hurt = open(t, sqlstore.Config{URL: w.proxy.URL(d.admin), Pool: pool})
	// Before the store closes, which waits for a statement that hangs as long as a call takes.
	t.Cleanup(func() { require.NoError(t, w.proxy.Close()) })
	w.other = open(t, sqlstore.Config{URL: d.admin})
	w.direct, err = pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.direct.Close(context.WithoutCancel(t.Context()))) })
	require.NoError(t, w.other.PutTenant(t.Context(), claim.Tenant{ID: tenant, Name: "Acme", Registrar: here}))
	return w
}

// own gives a subtest a database of its own where that is cheap; then it may run
// beside the others.
func (d database) own(t *testing.T) database {
	t.Helper()
	if d.server.Kind() == localdb.CockroachDB {
		return d
	}
	t.Parallel()
	return newDatabase(t)
}

// cell is one operation under one injury, on a key of its own.
type cell struct {
	*testing.T
	*wire
	ctx context.Context
	key claim.Key
	// ours and others are the two nodes' views.
	ours, others *sqlstore.View
	// held is the claim as the operation finds it, got what the call returned.
	held claim.Record
	got  any
}

var cells atomic.Int64

func (w *wire) cell(t *testing.T) *cell {
	return &cell{
		T: t, wire: w, ctx: t.Context(),
		key:  claim.Key{Tenant: w.tenant, Value: fmt.Sprintf("k%d", cells.Add(1))},
		ours: view(t, w.hurt, here), others: view(t, w.other, here),
	}
}

// arrival is the cell's request at a node; every node mints an id of its own.
func (c *cell) arrival(node string) claim.Arrival {
	return claimtest.NewArrival(c.key, here, "100", node, c.object(node))
}

func (c *cell) object(node string) string { return "ch_" + c.key.Value + "_" + node }

// arrives is the request at the other node.
func (c *cell) arrives(node string, want claim.Decision) claim.Record {
	c.Helper()
	got, err := c.others.Begin(c.ctx, c.arrival(node))
	require.NoError(c, err)
	require.Equal(c, want.String(), got.Decision.String())
	return got.Record
}

func (c *cell) settles(held claim.Record, v claim.Verdict) claim.Record {
	c.Helper()
	got, err := c.others.Settle(c.ctx, held, v)
	require.NoError(c, err)
	return got
}

func (c *cell) pins(entry, wantHome string) {
	c.Helper()
	pin, err := c.others.Pin(c.ctx, c.key, entry)
	require.NoError(c, err)
	require.Equal(c, wantHome, pin.Home)
}

// takes leases what is due to the other node's worker: the cell's row or nothing.
func (c *cell) takes(want int) (m outbox.Message) {
	c.Helper()
	for giveUp := time.Now().Add(patience); ; {
		got, err := c.others.Queue(outbox.ProviderCalls).Take(c.ctx, here, 10, time.Minute)
		require.NoError(c, err)
		if len(got) == 0 && want == 1 && c.server.Kind() == localdb.CockroachDB && time.Now().Before(giveUp) {
			continue // it skips a row whose last write has only just been committed
		}
		require.Len(c, got, want)
		if want == 1 {
			m = got[0]
		}
		return m
	}
}

func (c *cell) sql(sql string, args ...any) {
	c.Helper()
	_, err := c.direct.Exec(c.ctx, sql, args...)
	require.NoError(c, err)
}

// lapse lets the claim's lease run out, and its call be due.
func (c *cell) lapse() {
	c.Helper()
	c.sql("UPDATE claims SET lease_until = lease_until - INTERVAL '1 day' WHERE tenant_id = $1 AND idem_key = $2", c.key.Tenant, c.key.Value)
	c.due()
}

// age puts a release long enough into the past for its request to be tried again.
func (c *cell) age() {
	c.Helper()
	c.sql("UPDATE claims SET refused_at = refused_at - INTERVAL '1 hour' WHERE tenant_id = $1 AND idem_key = $2", c.key.Tenant, c.key.Value)
}

func (c *cell) due() {
	c.Helper()
	c.sql("UPDATE claims SET call_due = call_due - INTERVAL '1 day' WHERE tenant_id = $1 AND idem_key = $2", c.key.Tenant, c.key.Value)
	// CockroachDB tidies up after a commit when somebody reads, in the index that
	// is read; until then whoever skips what is locked skips the row.
	c.sql("SELECT count(*) FROM claims WHERE home_region = $1::crdb_internal_region AND call_due IS NOT NULL AND call_due <= now()", here)
}

func (c *cell) agePin(by time.Duration) {
	c.Helper()
	c.sql("UPDATE pins SET created_at = created_at - $3::interval WHERE tenant_id = $1 AND idem_key = $2", c.key.Tenant, c.key.Value, by)
}

// stored is everything that the database has under a cell's key and tenant.
type stored struct {
	Claims    []claimRow
	Calls     []callRow
	Pins      []pinRow
	Responses int
	Audit     []string // event and fence
	Tenants   []tenantRow
	Keys      int      // API keys,
	Ending    int      // of which some have an end
	Booked    []string // id and amount
	Events    []string
	Expiries  []string
	Unpaid    []string // object and state
	Notices   []noticeRow
	Documents []documentRow // endpoints, and brakes
}

type noticeRow struct {
	ID, Status, Detail string
	Fence              *int64 // its row's in the queue, nil for none
}

// documentRow is the endpoint of a cell's tenant, or the brake of a provider of that name.
type documentRow struct {
	Kind     string `json:"-"`
	Version  int64  `json:"-"`
	URL      string
	Secrets  []string
	Failing  time.Time `json:"failing_since"`
	Disabled time.Time `json:"disabled_at"`
	Held     *notice.Hold
}

type claimRow struct {
	State                                            claim.State
	Fence, Generation, Attempts, Unknowns, NotFounds int64
	Object, Holder, Reason, Step                     string
	Lease                                            time.Time
}

type callRow struct {
	ID              string
	Due             time.Time
	Fence, Attempts int64
	LastError       string
	Parked          bool
}

type pinRow struct {
	Registrar, Home string
	CreatedAt       time.Time
}

type tenantRow struct {
	Name, Registrar, Previous string
	Rate                      float64
	Burst                     int
}

// auditLines are the lines of audit, wherever they are.
const auditLines = `(
	SELECT tenant_id, idem_key, at, id, event, fence FROM audit
	UNION ALL SELECT tenant_id, idem_key, at, attempt_id, attempt_event, fence FROM audit WHERE attempt_id IS NOT NULL
	UNION ALL SELECT tenant_id, idem_key, begun_at, begun_id, 'claimed', 1 FROM audit WHERE begun_id IS NOT NULL
	UNION ALL SELECT tenant_id, idem_key, first_use, begun_id, 'claimed', 1 FROM claims WHERE begun_id IS NOT NULL AND begun_noted IS NULL
) AS audit`

func (c *cell) stored() *stored {
	c.Helper()
	var s stored
	s.Claims = rows[claimRow](c, `SELECT state, fence, generation, attempts, unknowns, not_founds, object_id, holder, reason, step::text, lease_until
		FROM claims WHERE tenant_id = $1 AND idem_key = $2`, c.key.Tenant, c.key.Value)
	s.Calls = rows[callRow](c, `SELECT object_id, coalesce(call_due, call_parked), call_fence, coalesce(call_attempts, 0), coalesce(call_error, ''), call_parked IS NOT NULL
		FROM claims WHERE tenant_id = $1 AND idem_key = $2 AND call_created IS NOT NULL`, c.key.Tenant, c.key.Value)
	s.Pins = rows[pinRow](c, `SELECT registrar::text, home_region::text, created_at
		FROM pins WHERE tenant_id = $1 AND idem_key = $2`, c.key.Tenant, c.key.Value)
	for _, e := range rows[struct {
		Event string
		Fence int64
	}](c, `SELECT event, fence FROM `+auditLines+` WHERE tenant_id = $1 AND idem_key = $2 ORDER BY at, id`, c.key.Tenant, c.key.Value) {
		s.Audit = append(s.Audit, fmt.Sprint(e.Event, " ", e.Fence))
	}
	s.Tenants = rows[tenantRow](c, `SELECT name, registrar::text, coalesce(previous_registrar::text, ''), rate_per_second, burst FROM tenants WHERE id = $1`, c.key.Tenant)
	s.Booked = rows[string](c, `SELECT id || ' ' || debit_amount::text FROM ledger WHERE tenant_id = $1 AND object_id LIKE $2 ORDER BY id`, c.key.Tenant, c.object("%"))
	s.Events = rows[string](c, `SELECT id FROM events WHERE tenant_id = $1 AND idem_key = $2 ORDER BY id`, c.key.Tenant, c.key.Value)
	s.Expiries = rows[string](c, `SELECT id FROM expiries WHERE tenant_id = $1 AND idem_key = $2 ORDER BY id`, c.key.Tenant, c.key.Value)
	s.Unpaid = rows[string](c, `SELECT object_id || ' ' || state::text FROM unpaid WHERE tenant_id = $1 AND object_id LIKE $2 ORDER BY object_id`, c.key.Tenant, c.object("%"))
	s.Notices = rows[noticeRow](c, `SELECT n.id, n.status, n.detail, q.fence FROM notices AS n
		LEFT JOIN notices_due AS q ON q.home_region = n.home_region AND q.id = n.id WHERE n.id LIKE $1 ORDER BY n.id`, c.noticeID("%"))
	for _, found := range rows[struct {
		Kind    string
		Version int64
		State   []byte
	}](c, `SELECT kind, version, state FROM documents WHERE name = $1 ORDER BY kind`, c.key.Tenant) {
		d := documentRow{Kind: found.Kind, Version: found.Version}
		require.NoError(c, json.Unmarshal(found.State, &d))
		s.Documents = append(s.Documents, d)
	}
	require.NoError(c, c.direct.QueryRow(c.ctx,
		`SELECT count(*) FROM claims WHERE tenant_id = $1 AND object_id LIKE $2 AND answer_status IS NOT NULL`, c.key.Tenant, c.object("%")).Scan(&s.Responses))
	require.NoError(c, c.direct.QueryRow(c.ctx,
		`SELECT count(*), count(expires_at) FROM api_keys WHERE tenant_id = $1`, c.key.Tenant).Scan(&s.Keys, &s.Ending))
	return &s
}

func rows[T any](c *cell, sql string, args ...any) []T {
	c.Helper()
	found, err := c.direct.Query(c.ctx, sql, args...)
	require.NoError(c, err)
	scan := pgx.RowToStructByPos[T]
	if _, plain := any(*new(T)).(string); plain {
		scan = pgx.RowTo[T]
	}
	all, err := pgx.CollectRows(found, scan)
	require.NoError(c, err)
	if len(all) == 0 {
		return nil
	}
	return all
}

// later checks that a time was moved on, and takes it over into what is expected.
func later(t testing.TB, want *time.Time, is time.Time) {
	t.Helper()
	require.True(t, is.After(*want), "%v was not moved on, is %v", *want, is)
	*want = is
}

// renamed checks that the claim has a write's own step and lease, and takes them
// over into what is expected.
func renamed(t testing.TB, want *claimRow, is claimRow) {
	t.Helper()
	require.NotEqual(t, want.Step, is.Step, "the write left no step of its own")
	want.Step, want.Lease = is.Step, is.Lease
}

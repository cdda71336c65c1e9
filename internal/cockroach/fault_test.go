package cockroach_test

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/cockroach"
	"github.com/homeward-io/homeward/internal/cockroach/wireproxy"
	"github.com/homeward-io/homeward/internal/localdb"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/notice"
)

// Every write that the store can send, under everything that the wire can do to
// it. The package comment says what each call then answers; here the row says
// what was done, and another node what it finds.

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
	hurt, other *cockroach.DB
	direct      *pgx.Conn
	tenant      string
}

func newWire(t *testing.T, d database, tenant string, pool cockroach.Pool) *wire {
	t.Helper()
	u, err := url.Parse(d.admin)
	require.NoError(t, err)
	w := &wire{database: d, tenant: tenant}
	w.proxy, err = wireproxy.Start(u.Host)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.proxy.Close()) })
	pool.MaxConns, pool.MinConns = 4, 0
	w.hurt = open(t, cockroach.Config{URL: w.proxy.URL(d.admin), Pool: pool})
	w.other = open(t, cockroach.Config{URL: d.admin})
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
	ours, others *cockroach.View
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

// lapse lets the claim's lease run out, and its outbox row be due.
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
	c.sql("UPDATE outbox SET due = due - INTERVAL '1 day' WHERE tenant_id = $1 AND idem_key = $2", c.key.Tenant, c.key.Value)
	// CockroachDB tidies up after a commit when somebody reads, in the index that
	// is read; until then whoever skips what is locked skips the row.
	c.sql("SELECT count(*) FROM outbox WHERE home_region = $1::crdb_internal_region AND NOT parked AND due <= now()", here)
}

func (c *cell) agePin(by time.Duration) {
	c.Helper()
	c.sql("UPDATE pins SET created_at = created_at - $3::interval WHERE tenant_id = $1 AND idem_key = $2", c.key.Tenant, c.key.Value, by)
}

// stored is everything that the database has under a cell's key and tenant.
type stored struct {
	Claims    []claimRow
	Outbox    []outboxRow
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
	Endpoints []endpointRow
}

type noticeRow struct {
	ID, Status, Detail string
	Fence              *int64 // its row's in the queue, nil for none
}

type endpointRow struct {
	URL               string
	Failing, Disabled *time.Time
}

type claimRow struct {
	State                                            claim.State
	Fence, Generation, Attempts, Unknowns, NotFounds int64
	Object, Holder, Reason, Step                     string
	Lease                                            time.Time
}

type outboxRow struct {
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

func (c *cell) stored() *stored {
	c.Helper()
	var s stored
	s.Claims = rows[claimRow](c, `SELECT state, fence, generation, attempts, unknowns, not_founds, object_id, holder, reason, step::text, lease_until
		FROM claims WHERE tenant_id = $1 AND idem_key = $2`, c.key.Tenant, c.key.Value)
	s.Outbox = rows[outboxRow](c, `SELECT id, due, fence, attempts, last_error, parked
		FROM outbox WHERE tenant_id = $1 AND idem_key = $2`, c.key.Tenant, c.key.Value)
	s.Pins = rows[pinRow](c, `SELECT registrar::text, home_region::text, created_at
		FROM pins WHERE tenant_id = $1 AND idem_key = $2`, c.key.Tenant, c.key.Value)
	for _, e := range rows[struct {
		Event string
		Fence int64
	}](c, `SELECT event, fence FROM audit WHERE tenant_id = $1 AND idem_key = $2 ORDER BY at, id`, c.key.Tenant, c.key.Value) {
		s.Audit = append(s.Audit, fmt.Sprint(e.Event, " ", e.Fence))
	}
	s.Tenants = rows[tenantRow](c, `SELECT name, registrar::text, coalesce(previous_registrar::text, ''), rate_per_second, burst FROM tenants WHERE id = $1`, c.key.Tenant)
	s.Booked = rows[string](c, `SELECT id || ' ' || debit_amount::text FROM ledger WHERE tenant_id = $1 AND object_id LIKE $2 ORDER BY id`, c.key.Tenant, c.object("%"))
	s.Events = rows[string](c, `SELECT id FROM events WHERE tenant_id = $1 AND idem_key = $2 ORDER BY id`, c.key.Tenant, c.key.Value)
	s.Expiries = rows[string](c, `SELECT id FROM expiries WHERE tenant_id = $1 AND idem_key = $2 ORDER BY id`, c.key.Tenant, c.key.Value)
	s.Unpaid = rows[string](c, `SELECT object_id || ' ' || state::text FROM unpaid WHERE tenant_id = $1 AND object_id LIKE $2 ORDER BY object_id`, c.key.Tenant, c.object("%"))
	s.Notices = rows[noticeRow](c, `SELECT n.id, n.status, n.detail, q.fence FROM notices AS n
		LEFT JOIN notices_due AS q ON q.home_region = n.home_region AND q.id = n.id WHERE n.id LIKE $1 ORDER BY n.id`, c.noticeID("%"))
	s.Endpoints = rows[endpointRow](c, `SELECT url, failing_since, disabled_at FROM endpoints WHERE tenant_id = $1`, c.key.Tenant)
	require.NoError(c, c.direct.QueryRow(c.ctx,
		`SELECT count(*) FROM claims WHERE tenant_id = $1 AND object_id LIKE $2 AND answered = step`, c.key.Tenant, c.object("%")).Scan(&s.Responses))
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

// operation is one write of the store.
type operation struct {
	name string
	// statements are those that are injured, one at a time.
	statements []string
	// once: the caller is told of an unknown outcome, the store does not repeat.
	once bool
	// commit: the statements are part of a transaction that commits at its end.
	commit bool
	// latest: the statement compares nothing that another's turn changes, whoever
	// comes last is right.
	latest bool
	before func(c *cell)
	// call runs the operation at our node.
	call func(ctx context.Context, c *cell) (got any, err error)
	// right checks what a call that succeeded returned.
	right func(c *cell)
	// effect makes of what was stored what it has to be after the operation was
	// done once; is tells what cannot be known before.
	effect func(c *cell, want, is *stored)
	// next is another node's turn: what it finds, done or not. Where it was not
	// done, the turn changes what the operation compares.
	next func(c *cell, done bool)
}

var (
	approved = claim.Verdict{Outcome: claim.OutcomeDone, Response: claim.Response{Status: 201, Body: []byte("paid")}, ProviderRef: "psp_1", Node: "a", Region: here}
	refused  = claim.Verdict{Outcome: claim.OutcomeRefused, Response: claim.Response{Status: 402, Body: []byte("stolen")}, Reason: "stolen_card", Node: "b", Region: here}
	released = claim.Verdict{Outcome: claim.OutcomeReleased, Response: claim.Response{Status: 402, Body: []byte("not now")}, Reason: "insufficient_funds", Node: "a", Region: here}
	unsent   = claim.Verdict{Outcome: claim.OutcomeUnknown, Reason: "provider_open", RetryIn: time.Hour, Unsent: true, Node: "a", Region: here}
	timedOut = claim.Verdict{Outcome: claim.OutcomeUnknown, Reason: "timeout", RetryIn: time.Hour, Node: "a", Region: here}
)

func beginAt(ctx context.Context, c *cell) (any, error) { return c.ours.Begin(ctx, c.arrival("a")) }

// won checks that our node holds the claim, as the row says.
func won(decision claim.Decision, fence uint64, generation uint32) func(c *cell) {
	return func(c *cell) {
		got := c.got.(claim.Begun)
		require.Equal(c, decision.String(), got.Decision.String())
		holds(c, got.Record, fence, generation)
	}
}

func holds(c *cell, rec claim.Record, fence uint64, generation uint32) {
	c.Helper()
	require.Equal(c, "a", rec.Holder)
	require.Equal(c, fence, rec.Fence)
	require.Equal(c, generation, rec.Generation)
	row, _, found, err := c.others.Get(c.ctx, c.key, here)
	require.NoError(c, err)
	require.True(c, found)
	require.Equal(c, row, rec, "what the winner was told is not what is stored")
}

// heldByUs is a claim that our node holds.
func heldByUs(c *cell) { c.held = c.arrives("a", claim.Won) }

// lapsed is a claim whose holder is gone.
func lapsed(c *cell) {
	c.held = c.arrives("z", claim.Won)
	c.lapse()
}

// taken is an outbox row that our node's worker has.
func taken(c *cell) {
	c.sql("DELETE FROM outbox")
	lapsed(c)
	c.takes(1)
}

// takenAgain is the other worker's turn when the row is due again.
func takenAgain(c *cell) outbox.Message {
	c.due()
	return c.takes(1)
}

func noAnswer(*cell) {}

// retried is what one failed try leaves of an outbox row.
func retried(c *cell, want, is *stored) {
	want.Outbox[0].Attempts, want.Outbox[0].LastError = 1, "no answer"
	later(c, &want.Outbox[0].Due, is.Outbox[0].Due)
}

// triedBefore takes the row again, which counts the try if that was noted.
func triedBefore(c *cell, done bool) {
	attempts := 0
	if done {
		attempts = 1
	}
	require.EqualValues(c, attempts, takenAgain(c).Attempts)
}

func operations(d database) []operation {
	commit := "sql:commit"
	if d.server.Kind() == localdb.CockroachDB {
		commit = "sql:release" // where a transaction of CockroachDB's helper commits
	}
	return []operation{{
		name: "begin a new key", statements: []string{"begin"},
		before: noAnswer,
		call:   beginAt,
		right:  won(claim.Won, 1, 1),
		effect: func(c *cell, want, is *stored) {
			want.Claims = []claimRow{{State: claim.InFlight, Fence: 1, Generation: 1, Attempts: 1, Object: c.object("a"), Holder: "a"}}
			renamed(c, &want.Claims[0], is.Claims[0])
			want.Outbox = []outboxRow{{ID: c.object("a"), Due: is.Claims[0].Lease}}
			want.Audit = append(want.Audit, "claimed 1")
		},
		next: func(c *cell, done bool) {
			if !done {
				c.settles(c.arrives("b", claim.Won), approved)
				return
			}
			c.arrives("b", claim.Busy)
			if begun, ok := c.got.(claim.Begun); ok {
				c.settles(begun.Record, approved)
				c.arrives("b", claim.Replay)
			}
		},
	}, {
		name: "begin again after a soft decline", statements: []string{"begin_again"},
		before: func(c *cell) {
			c.settles(c.arrives("z", claim.Won), released)
			c.age()
		},
		call:  beginAt,
		right: won(claim.Won, 2, 2),
		effect: func(c *cell, want, is *stored) {
			row := &want.Claims[0]
			row.State, row.Fence, row.Generation, row.Attempts, row.Holder, row.Reason = claim.InFlight, 2, 2, 2, "a", ""
			renamed(c, row, is.Claims[0])
			want.Outbox = []outboxRow{{ID: c.object("z"), Due: is.Claims[0].Lease, Fence: 1 << 32}}
			want.Audit = append(want.Audit, "reclaimed 2")
		},
		next: func(c *cell, done bool) {
			if !done {
				require.EqualValues(c, 2, c.arrives("b", claim.Won).Generation)
				return
			}
			c.arrives("b", claim.Busy)
		},
	}, {
		name: "begin in place of a row past its tombstone", statements: []string{"begin_again"},
		before: func(c *cell) {
			c.settles(c.arrives("z", claim.Won), approved)
			c.sql(`UPDATE claims SET first_use = first_use - INTERVAL '9 days', settled_at = settled_at - INTERVAL '9 days'
				WHERE tenant_id = $1 AND idem_key = $2`, c.key.Tenant, c.key.Value)
		},
		call:  beginAt,
		right: won(claim.Won, 2, 1),
		effect: func(c *cell, want, is *stored) {
			want.Claims = []claimRow{{State: claim.InFlight, Fence: 2, Generation: 1, Attempts: 1, Object: c.object("a"), Holder: "a", Step: want.Claims[0].Step}}
			renamed(c, &want.Claims[0], is.Claims[0])
			want.Outbox = []outboxRow{{ID: c.object("a"), Due: is.Claims[0].Lease}}
			want.Responses = 0 // the one before had its answer in the row
			want.Audit = append(want.Audit, "replaced 2")
		},
		next: func(c *cell, done bool) {
			if done {
				c.arrives("b", claim.Busy)
				return
			}
			c.arrives("b", claim.Won)
		},
	}, {
		name: "begin takes a lapsed claim over", statements: []string{"take_over"},
		before: lapsed,
		call:   beginAt,
		right:  won(claim.WonUnknown, 2, 1),
		effect: takenOver,
		next: func(c *cell, done bool) {
			if done {
				c.arrives("b", claim.Busy)
				return
			}
			c.arrives("b", claim.WonUnknown)
		},
	}, {
		name: "take over", statements: []string{"take_over"},
		before: lapsed,
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.TakeOver(ctx, c.key, here, c.held.Minted.ID, "a", here)
		},
		right:  func(c *cell) { holds(c, c.got.(claim.Record), 2, 1) },
		effect: takenOver,
		next: func(c *cell, done bool) {
			rec, err := c.others.TakeOver(c.ctx, c.key, here, c.held.Minted.ID, "b", here)
			if done {
				require.ErrorIs(c, err, claim.ErrLeaseHeld)
				return
			}
			require.NoError(c, err)
			require.EqualValues(c, 2, rec.Fence)
		},
	}, {
		name: "renew", statements: []string{"renew"}, once: true,
		before: heldByUs,
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.Renew(ctx, "a", []claim.Lease{{Key: c.key, Home: here, Fence: 1}})
		},
		right: func(c *cell) { require.Equal(c, []bool{true}, c.got) },
		effect: func(c *cell, want, is *stored) {
			require.True(c, is.Claims[0].Lease.After(want.Claims[0].Lease))
			renamed(c, &want.Claims[0], is.Claims[0])
		},
		next: func(c *cell, _ bool) {
			_, err := c.others.TakeOver(c.ctx, c.key, here, c.held.Minted.ID, "b", here)
			require.ErrorIs(c, err, claim.ErrLeaseHeld)
			// The next heartbeat.
			held, err := c.others.Renew(c.ctx, "a", []claim.Lease{{Key: c.key, Home: here, Fence: 1}})
			require.NoError(c, err)
			require.Equal(c, []bool{true}, held)
		},
	}, {
		name: "settle for good", statements: []string{"settle"},
		before: heldByUs,
		call:   settleAll(approved),
		right: func(c *cell) {
			rec := c.got.(claim.Record)
			require.Equal(c, claim.Completed, rec.State)
			require.Equal(c, approved.Response.Body, rec.Response.Body)
		},
		effect: func(c *cell, want, is *stored) {
			row := &want.Claims[0]
			row.State, row.Holder = claim.Completed, ""
			renamed(c, row, is.Claims[0])
			want.Outbox, want.Responses = nil, 1
			want.Audit = append(want.Audit, "attempt 1", "settled 1")
			want.Booked, want.Events = []string{c.object("a") + " 4200"}, c.events("a", 1)
		},
		next: func(c *cell, done bool) {
			if !done {
				c.arrives("b", claim.Busy)
				c.settles(c.held, refused)
				require.Equal(c, refused.Response.Body, c.arrives("b", claim.Replay).Response.Body)
				return
			}
			require.Equal(c, approved.Response.Body, c.arrives("b", claim.Replay).Response.Body)
			_, err := c.others.Settle(c.ctx, c.held, refused)
			require.ErrorIs(c, err, claim.ErrFenced)
			require.Equal(c, approved.Response.Body, c.arrives("b", claim.Replay).Response.Body)
		},
	}, {
		name: "settle with not now", statements: []string{"settle"},
		before: heldByUs,
		call:   settleAll(released),
		right:  func(c *cell) { require.Equal(c, claim.FailedRetry, c.got.(claim.Record).State) },
		effect: func(c *cell, want, is *stored) {
			row := &want.Claims[0]
			row.State, row.Holder, row.Reason = claim.FailedRetry, "", released.Reason
			renamed(c, row, is.Claims[0])
			want.Outbox = nil
			want.Audit = append(want.Audit, "attempt 1", "released 1")
			want.Events, want.Expiries = c.events("a", 1), []string{c.object("a")}
			want.Unpaid = []string{c.object("a") + " 4"}
		},
		next: func(c *cell, done bool) {
			if !done {
				c.arrives("b", claim.Busy)
				c.settles(c.held, approved)
				return
			}
			_, err := c.others.Settle(c.ctx, c.held, approved)
			require.ErrorIs(c, err, claim.ErrFenced)
			c.age()
			require.EqualValues(c, 2, c.arrives("b", claim.Won).Generation)
		},
	}, {
		name: "close a released claim", statements: []string{"settle"},
		before: releasedByUs,
		call:   settleAll(refused),
		right:  func(c *cell) { require.Equal(c, claim.FailedTerminal, c.got.(claim.Record).State) },
		effect: func(c *cell, want, is *stored) {
			row := &want.Claims[0]
			row.State, row.Reason = claim.FailedTerminal, refused.Reason
			renamed(c, row, is.Claims[0])
			want.Responses = 1
			want.Audit = append(want.Audit, "closed 1", "settled 1")
			want.Events = c.events("a", 1)
			want.Unpaid = []string{c.object("a") + " 3"}
		},
		next: func(c *cell, done bool) {
			if !done {
				require.EqualValues(c, 2, c.arrives("b", claim.Won).Generation)
				return
			}
			require.Equal(c, refused.Response.Body, c.arrives("b", claim.Replay).Response.Body)
			_, err := c.others.Settle(c.ctx, c.held, refused)
			require.ErrorIs(c, err, claim.ErrFenced)
		},
	}, {
		name: "settle without an outcome", statements: []string{"defer"},
		before: heldByUs,
		call:   settleAt(timedOut),
		right: func(c *cell) {
			rec := c.got.(claim.Record)
			require.Equal(c, claim.InFlight, rec.State)
			require.EqualValues(c, 1, rec.Unknowns)
		},
		effect: func(c *cell, want, is *stored) {
			row := &want.Claims[0]
			row.Holder, row.Reason, row.Unknowns = "", timedOut.Reason, 1
			renamed(c, row, is.Claims[0])
			want.Outbox[0].Due = is.Claims[0].Lease
			want.Audit = append(want.Audit, "attempt 1", "deferred 1")
		},
		next: func(c *cell, done bool) {
			_, err := c.others.Settle(c.ctx, c.held, timedOut)
			if !done {
				require.NoError(c, err)
				return
			}
			require.ErrorIs(c, err, claim.ErrFenced)
			c.lapse()
			require.EqualValues(c, 1, c.arrives("b", claim.WonUnknown).Unknowns)
		},
	}, {
		name: "settle an attempt that sent nothing", statements: []string{"defer"},
		before: heldByUs,
		call:   settleAt(unsent),
		right: func(c *cell) {
			rec := c.got.(claim.Record)
			require.Equal(c, claim.InFlight, rec.State)
			require.EqualValues(c, 2, rec.Fence)
			require.Zero(c, rec.Unknowns)
		},
		effect: func(c *cell, want, is *stored) {
			row := &want.Claims[0]
			row.Holder, row.Reason, row.Fence = "", unsent.Reason, 2
			renamed(c, row, is.Claims[0])
			want.Outbox[0].Due = is.Claims[0].Lease
			want.Audit = append(want.Audit, "attempt 1", "deferred 2")
		},
		next: func(c *cell, done bool) {
			_, err := c.others.Settle(c.ctx, c.held, unsent)
			if !done {
				require.NoError(c, err)
				return
			}
			require.ErrorIs(c, err, claim.ErrFenced)
			c.lapse()
			rec := c.arrives("b", claim.WonUnknown)
			require.EqualValues(c, 3, rec.Fence)
			require.Zero(c, rec.Unknowns)
		},
	}, {
		name: "pin", statements: []string{"pin"},
		before: noAnswer,
		call:   pinAt,
		right:  pinned(here),
		effect: func(c *cell, want, is *stored) {
			want.Pins = []pinRow{{Registrar: here, Home: here, CreatedAt: is.Pins[0].CreatedAt}}
		},
		next: func(c *cell, done bool) {
			if done {
				c.pins(there, here)
				return
			}
			c.pins(there, there)
		},
	}, {
		name: "confirm a pin", statements: []string{"pin_write"},
		before: func(c *cell) {
			c.pins(there, there)
			c.agePin(45 * time.Minute) // past half of the hour in which it may be used
		},
		call:  pinAt,
		right: pinned(there),
		effect: func(c *cell, want, is *stored) {
			later(c, &want.Pins[0].CreatedAt, is.Pins[0].CreatedAt)
		},
		next: func(c *cell, _ bool) { c.pins(elsewhere, there) },
	}, {
		name: "take a pin over", statements: []string{"pin_write"},
		before: func(c *cell) {
			c.pins(there, there)
			c.agePin(50 * time.Hour) // past its life
		},
		call:  pinAt,
		right: pinned(here),
		effect: func(c *cell, want, is *stored) {
			want.Pins[0].Home = here
			later(c, &want.Pins[0].CreatedAt, is.Pins[0].CreatedAt)
		},
		next: func(c *cell, done bool) {
			if done {
				c.pins(elsewhere, here)
				return
			}
			c.pins(elsewhere, elsewhere)
		},
	}, {
		name: "delete a pin", statements: []string{"pins_sweep"},
		before: func(c *cell) {
			c.pins(there, there)
			c.agePin(50 * time.Hour)
		},
		call:   func(ctx context.Context, c *cell) (any, error) { return c.ours.Sweep(ctx, 1000) },
		right:  noAnswer, // a count for the log
		effect: func(_ *cell, want, _ *stored) { want.Pins = nil },
		next:   func(c *cell, _ bool) { c.pins(elsewhere, elsewhere) },
	}, {
		name: "outbox take", statements: []string{"outbox_take"}, once: true,
		before: func(c *cell) {
			c.sql("DELETE FROM outbox")
			lapsed(c)
		},
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.Queue(outbox.ProviderCalls).Take(ctx, here, 10, time.Minute)
		},
		right: func(c *cell) {
			got := c.got.([]outbox.Message)
			require.Len(c, got, 1)
			require.EqualValues(c, 1, got[0].Fence)
		},
		effect: func(c *cell, want, is *stored) {
			want.Outbox[0].Fence = 1
			later(c, &want.Outbox[0].Due, is.Outbox[0].Due)
		},
		next: func(c *cell, done bool) {
			if !done {
				require.EqualValues(c, 1, c.takes(1).Fence)
				return
			}
			c.takes(0)
			require.EqualValues(c, 2, takenAgain(c).Fence)
		},
	}, {
		name: "outbox finish", statements: []string{"outbox_finish"},
		before: taken,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.ours.Queue(outbox.ProviderCalls).Finish(ctx, here, c.held.Minted.ID, 1)
		},
		right:  noAnswer,
		effect: func(_ *cell, want, _ *stored) { want.Outbox = nil },
		next: func(c *cell, done bool) {
			if !done {
				takenAgain(c)
				return
			}
			require.ErrorIs(c, c.others.Queue(outbox.ProviderCalls).Finish(c.ctx, here, c.held.Minted.ID, 1), outbox.ErrFenced)
		},
	}, {
		name: "outbox finish together", statements: []string{"outbox_finish_all"},
		before: taken,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.ours.Queue(outbox.ProviderCalls).FinishAll(ctx, here, []outbox.Hold{{ID: c.held.Minted.ID, Fence: 1}, {ID: "none", Fence: 1}})
		},
		right:  noAnswer,
		effect: func(_ *cell, want, _ *stored) { want.Outbox = nil },
		next: func(c *cell, done bool) {
			if !done {
				takenAgain(c)
				return
			}
			require.ErrorIs(c, c.others.Queue(outbox.ProviderCalls).Finish(c.ctx, here, c.held.Minted.ID, 1), outbox.ErrFenced)
		},
	}, {
		name: "outbox retry together", statements: []string{"outbox_retry_all"}, once: true,
		before: taken,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.ours.Queue(outbox.ProviderCalls).RetryAll(ctx, here, []outbox.Delay{
				{Hold: outbox.Hold{ID: c.held.Minted.ID, Fence: 1}, After: time.Hour, Reason: "no answer"}, {Hold: outbox.Hold{ID: "none", Fence: 1}},
			})
		},
		right: noAnswer, effect: retried, next: triedBefore,
	}, {
		name: "outbox retry", statements: []string{"outbox_retry"}, once: true,
		before: taken,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.ours.Queue(outbox.ProviderCalls).Retry(ctx, here, c.held.Minted.ID, 1, time.Hour, "no answer")
		},
		right: noAnswer, effect: retried, next: triedBefore,
	}, {
		name: "outbox postpone", statements: []string{"outbox_retry"}, once: true,
		before: taken,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.ours.Queue(outbox.ProviderCalls).Retry(ctx, here, c.held.Minted.ID, 1, time.Hour, "")
		},
		right:  noAnswer,
		effect: func(c *cell, want, is *stored) { later(c, &want.Outbox[0].Due, is.Outbox[0].Due) },
		next:   func(c *cell, _ bool) { require.EqualValues(c, 0, takenAgain(c).Attempts) },
	}, {
		name: "outbox park", statements: []string{"outbox_park"}, once: true,
		before: taken,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.ours.Queue(outbox.ProviderCalls).Park(ctx, here, c.held.Minted.ID, 1, "a person must look")
		},
		right: noAnswer,
		effect: func(_ *cell, want, _ *stored) {
			want.Outbox[0].Parked, want.Outbox[0].LastError = true, "a person must look"
		},
		next: func(c *cell, done bool) {
			if !done {
				takenAgain(c)
				return
			}
			c.due()
			c.takes(0)
		},
	}, {
		name: "outbox unpark", statements: []string{"outbox_unpark"}, once: true,
		before: func(c *cell) {
			taken(c)
			require.NoError(c, c.others.Queue(outbox.ProviderCalls).Park(c.ctx, here, c.held.Minted.ID, 1, "a person must look"))
		},
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.Queue(outbox.ProviderCalls).Unpark(ctx, here, c.held.Minted.ID)
		},
		right: func(c *cell) { require.Equal(c, true, c.got) },
		effect: func(_ *cell, want, is *stored) {
			want.Outbox[0].Parked, want.Outbox[0].Due = false, is.Outbox[0].Due
		},
		next: func(c *cell, done bool) {
			ok, err := c.others.Queue(outbox.ProviderCalls).Unpark(c.ctx, here, c.held.Minted.ID)
			require.NoError(c, err)
			require.Equal(c, !done, ok)
			c.takes(1)
		},
	}, {
		name: "post to the ledger", statements: []string{"ledger_post"},
		before: noAnswer,
		call:   func(ctx context.Context, c *cell) (any, error) { return c.ours.Post(ctx, c.ghost(100)) },
		right:  noAnswer, // posted, or posted by a try of which nothing was heard
		effect: func(c *cell, want, _ *stored) { want.Booked = []string{"ghost_" + c.key.Value + " 100"} },
		next: func(c *cell, done bool) {
			posted, err := c.others.Post(c.ctx, c.ghost(200))
			if !done {
				require.NoError(c, err)
				require.True(c, posted)
				return
			}
			require.ErrorIs(c, err, ledger.ErrConflict)
			posted, err = c.others.Post(c.ctx, c.ghost(100))
			require.NoError(c, err)
			require.False(c, posted)
		},
	}, {
		name: "book a failure with its event", statements: []string{"ledger_fail"},
		before: func(c *cell) {
			posted, err := c.others.Post(c.ctx, c.ghost(100))
			require.NoError(c, err)
			require.True(c, posted)
		},
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.Fail(ctx, ledger.FailureOf(c.ghost(100)), c.toldOfFailure())
		},
		right: noAnswer, // booked, or booked by a try of which nothing was heard
		effect: func(c *cell, want, _ *stored) {
			want.Booked, want.Events = append([]string{"failed_ghost_" + c.key.Value + " 100"}, want.Booked...), []string{c.toldOfFailure()[0].ID}
		},
		next: func(c *cell, done bool) {
			posted, err := c.others.Fail(c.ctx, ledger.FailureOf(c.ghost(100)), c.toldOfFailure())
			require.NoError(c, err)
			require.Equal(c, !done, posted)
		},
	}, {
		name: "keep notices", statements: []string{"notices_keep"},
		before: noAnswer,
		call:   func(ctx context.Context, c *cell) (any, error) { return c.ours.Keep(ctx, here, c.notices()) },
		right:  noAnswer,
		effect: func(c *cell, want, _ *stored) {
			for _, n := range c.notices() {
				want.Notices = append(want.Notices, noticeRow{ID: n.ID, Status: string(notice.Unprocessed), Fence: new(int64)})
			}
		},
		next: func(c *cell, done bool) {
			fresh, err := c.others.Keep(c.ctx, here, c.notices()[:1])
			require.NoError(c, err)
			if done {
				require.Zero(c, fresh)
				return
			}
			require.Equal(c, 1, fresh)
			_, err = c.others.Keep(c.ctx, here, c.notices()[1:])
			require.NoError(c, err)
			// It is acted on before the late twin comes.
			c.closes(c.notices()[0].ID)
		},
	}, {
		name: "close a notice", statements: []string{"notices_close"},
		before: func(c *cell) {
			_, err := c.others.Keep(c.ctx, here, c.notices()[:1])
			require.NoError(c, err)
			require.EqualValues(c, 1, c.takesNotice(c.notices()[0].ID))
		},
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.ours.Close(ctx, here, c.notices()[0].ID, 1, notice.ProcessedOK, "known")
		},
		right: noAnswer,
		effect: func(_ *cell, want, _ *stored) {
			n := &want.Notices[0]
			n.Status, n.Detail, n.Fence = string(notice.ProcessedOK), "known", nil
		},
		next: func(c *cell, done bool) {
			if done {
				require.ErrorIs(c, c.others.Close(c.ctx, here, c.notices()[0].ID, 1, notice.Ignored, "late"), outbox.ErrFenced)
				return
			}
			require.EqualValues(c, 2, c.takesNotice(c.notices()[0].ID))
		},
	}, {
		name: "seal a notice anew", statements: []string{"notices_rewrite"},
		before: func(c *cell) {
			_, err := c.others.Keep(c.ctx, here, c.notices()[:1])
			require.NoError(c, err)
		},
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.Rewrite(ctx, here, "", math.MaxInt32, func(id string, _ []byte) ([]byte, error) {
				if id != c.notices()[0].ID {
					return nil, nil
				}
				return []byte("again"), nil
			})
		},
		right:  func(c *cell) { require.Empty(c, c.got) },
		effect: func(*cell, *stored, *stored) {},
		next: func(c *cell, done bool) {
			n, _, err := c.others.Notice(c.ctx, here, c.notices()[0].ID)
			require.NoError(c, err)
			require.Equal(c, done, string(n.Body) == "again")
			// The row went before it.
			m, _, err := c.others.Queue(outbox.Notices).Message(c.ctx, here, n.ID)
			require.NoError(c, err)
			require.Contains(c, []string{"again", "{}"}, string(m.Payload))
			if done {
				require.Equal(c, "again", string(m.Payload))
			}
		},
	}, {
		name: "seal an endpoint anew", statements: []string{"endpoint_rewrite"},
		before: ownEndpoint,
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.RewriteSecrets(ctx, "", math.MaxInt32, func(tenant string, _ []string) ([]string, error) {
				if tenant != c.key.Tenant {
					return nil, nil
				}
				return []string{"whsec_again"}, nil
			})
		},
		right:  func(c *cell) { require.Empty(c, c.got) },
		effect: func(*cell, *stored, *stored) {},
		next: func(c *cell, done bool) {
			e, _, err := c.others.Endpoint(c.ctx, c.key.Tenant)
			require.NoError(c, err)
			require.Equal(c, done, e.Secrets[0] == "whsec_again")
		},
	}, {
		name: "put an endpoint", statements: []string{"endpoint_put"}, latest: true,
		before: func(c *cell) { c.key.Tenant += "-" + c.key.Value },
		call:   func(ctx context.Context, c *cell) (any, error) { return nil, c.ours.PutEndpoint(ctx, c.endpoint()) },
		right:  noAnswer,
		effect: func(c *cell, want, _ *stored) { want.Endpoints = []endpointRow{{URL: c.endpoint().URL}} },
		next: func(c *cell, done bool) {
			e, found, err := c.others.Endpoint(c.ctx, c.key.Tenant)
			require.NoError(c, err)
			require.Equal(c, done, found)
			if found {
				require.Equal(c, c.endpoint(), e)
			}
		},
	}, {
		name: "remove an endpoint", statements: []string{"endpoint_remove"}, latest: true,
		before: ownEndpoint,
		call:   func(ctx context.Context, c *cell) (any, error) { return c.ours.RemoveEndpoint(ctx, c.key.Tenant) },
		right:  func(c *cell) { require.Equal(c, true, c.got) },
		effect: func(_ *cell, want, _ *stored) { want.Endpoints = nil },
		next: func(c *cell, done bool) {
			removed, err := c.others.RemoveEndpoint(c.ctx, c.key.Tenant)
			require.NoError(c, err)
			require.Equal(c, !done, removed)
		},
	}, {
		name: "note a failed delivery", statements: []string{"endpoint_note"},
		before: ownEndpoint,
		call:   noteDelivery(false, time.Hour),
		right:  func(c *cell) { require.False(c, c.got.(relay.Endpoint).FailingSince.IsZero()) },
		effect: func(c *cell, want, is *stored) {
			require.NotNil(c, is.Endpoints[0].Failing)
			want.Endpoints = []endpointRow{{URL: c.endpoint().URL, Failing: is.Endpoints[0].Failing}}
		},
		next: func(c *cell, _ bool) { c.notes(false) },
	}, {
		name: "note a delivery that disables", statements: []string{"endpoint_note"},
		before: func(c *cell) {
			ownEndpoint(c)
			c.notes(false)
		},
		call:  noteDelivery(false, 0),
		right: func(c *cell) { require.False(c, c.got.(relay.Endpoint).DisabledAt.IsZero()) },
		effect: func(c *cell, want, is *stored) {
			require.NotNil(c, is.Endpoints[0].Disabled)
			want.Endpoints = []endpointRow{{URL: c.endpoint().URL, Failing: want.Endpoints[0].Failing, Disabled: is.Endpoints[0].Disabled}}
		},
		next: func(c *cell, done bool) {
			if e := c.notes(true); done {
				require.False(c, e.DisabledAt.IsZero())
			}
		},
		latest: true, // a failure that comes late is a failure
	}, {
		name: "note a delivery again", statements: []string{"endpoint_note"},
		before: func(c *cell) {
			ownEndpoint(c)
			c.notes(false)
		},
		call:   noteDelivery(true, time.Hour),
		right:  func(c *cell) { require.Zero(c, c.got.(relay.Endpoint).FailingSince) },
		effect: func(c *cell, want, _ *stored) { want.Endpoints = []endpointRow{{URL: c.endpoint().URL}} },
		next:   func(c *cell, _ bool) { c.notes(true) },
	}, {
		name: "move a registrar", statements: []string{"registrar_move"},
		before: ownTenant,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.hurt.MoveRegistrar(ctx, c.key.Tenant, there)
		},
		right: noAnswer,
		effect: func(_ *cell, want, _ *stored) {
			want.Tenants[0].Registrar, want.Tenants[0].Previous = there, here
		},
		next: func(c *cell, _ bool) { require.NoError(c, c.other.MoveRegistrar(c.ctx, c.key.Tenant, there)) },
	}, {
		name: "put a tenant", statements: []string{"tenant_put", "api_key_put", commit}, commit: true,
		before: func(c *cell) { c.key.Tenant += "-" + c.key.Value },
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.hurt.PutTenant(ctx, claim.Tenant{ID: c.key.Tenant, Name: "Acme", Registrar: here}, "new "+c.key.Value)
		},
		right: noAnswer,
		effect: func(_ *cell, want, _ *stored) {
			want.Tenants, want.Keys = []tenantRow{{Name: "Acme", Registrar: here}}, 1
		},
		next: func(c *cell, done bool) { opens(c, "new ", done) },
	}, {
		name: "set a tenant's rate", statements: []string{"tenant_rate"}, latest: true,
		before: ownTenant,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.hurt.SetRate(ctx, c.key.Tenant, 2.5, 10)
		},
		right:  noAnswer,
		effect: func(_ *cell, want, _ *stored) { want.Tenants[0].Rate, want.Tenants[0].Burst = 2.5, 10 },
		next: func(c *cell, done bool) {
			tenant, err := c.other.Tenant(c.ctx, c.key.Tenant)
			require.NoError(c, err)
			require.Equal(c, done, tenant.Burst == 10)
		},
	}, {
		name: "rotate an API key", statements: []string{"api_key_put", "api_keys_end", commit}, commit: true,
		before: ownTenant,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.hurt.RotateKey(ctx, c.key.Tenant, "new "+c.key.Value, time.Hour)
		},
		right:  noAnswer,
		effect: func(_ *cell, want, _ *stored) { want.Keys, want.Ending = 2, 1 },
		next: func(c *cell, done bool) {
			opens(c, "old ", true)
			opens(c, "new ", done)
		},
	}}
}

func takenOver(c *cell, want, is *stored) {
	row := &want.Claims[0]
	row.Fence, row.Attempts, row.Holder = 2, 2, "a"
	renamed(c, row, is.Claims[0])
	want.Outbox[0].Due = is.Claims[0].Lease
	want.Audit = append(want.Audit, "taken_over 2")
}

func settleAt(v claim.Verdict) func(ctx context.Context, c *cell) (any, error) {
	return func(ctx context.Context, c *cell) (any, error) { return c.ours.Settle(ctx, c.held, v) }
}

// settleAll settles with everything that a verdict can carry.
func settleAll(v claim.Verdict) func(ctx context.Context, c *cell) (any, error) {
	return func(ctx context.Context, c *cell) (any, error) {
		v := v
		v.Posting, v.Events = claimtest.Posting(c.held, c.held.Minted.ID), claimtest.Events(c.held, 2)
		v.Expiry = &outbox.Message{Operation: "charge", Payload: []byte("{}"), Due: c.held.FirstUse.Add(time.Hour)}
		return c.ours.Settle(ctx, c.held, v)
	}
}

// events are the ids of what is told of a node's object under a fence.
func (c *cell) events(node string, fence int) []string {
	id := fmt.Sprintf("evt_%s_%d/", c.object(node), fence)
	return []string{id + "0", id + "1"}
}

// releasedByUs is a claim that our node released.
func releasedByUs(c *cell) {
	heldByUs(c)
	c.held = c.settles(c.held, released)
	c.age()
}

// ghost is a movement of money that the cell's claim knows nothing of.
func (c *cell) ghost(amount int64) ledger.Transaction {
	return ledger.Transaction{
		ID: "ghost_" + c.key.Value, Region: here, Tenant: c.key.Tenant, Kind: ledger.Ghost,
		Debit: ledger.Provider("sim"), Credit: ledger.Suspense(c.key.Tenant),
		Amount: amount, Currency: "usd", Object: c.object("a"), Provider: "sim", ProviderRef: "psp_" + c.key.Value,
	}
}

func (c *cell) toldOfFailure() []outbox.Message {
	return []outbox.Message{{
		ID: "evt_failed_" + c.key.Value, Region: here, Kind: outbox.KindLog, Tenant: c.key.Tenant, Key: c.key.Value, Operation: "charge", Payload: []byte("{}"),
	}}
}

func (c *cell) noticeID(event string) string {
	return notice.ID("sim", "evt_"+c.key.Value+"_"+event)
}

// notices are two that the provider sends.
func (c *cell) notices() (all []notice.Notice) {
	for _, event := range []string{"1", "2"} {
		all = append(all, notice.Notice{ID: c.noticeID(event), Provider: "sim", Body: []byte("{}")})
	}
	return all
}

// takesNotice leases a notice to the other node's worker and returns its fence.
func (c *cell) takesNotice(id string) uint64 {
	c.Helper()
	for giveUp := time.Now().Add(patience); time.Now().Before(giveUp); {
		c.sql("UPDATE notices_due SET due = due - INTERVAL '1 day' WHERE id = $1", id)
		c.sql("SELECT count(*) FROM notices_due WHERE home_region = $1::crdb_internal_region AND NOT parked AND due <= now()", here)
		got, err := c.others.Queue(outbox.Notices).Take(c.ctx, here, 10, time.Hour)
		require.NoError(c, err)
		for _, m := range got {
			if m.ID == id {
				return m.Fence
			}
		}
	}
	c.Fatal("the notice cannot be taken")
	return 0
}

// closes acts on a notice at the other node.
func (c *cell) closes(id string) {
	c.Helper()
	require.NoError(c, c.others.Close(c.ctx, here, id, c.takesNotice(id), notice.ProcessedOK, "known"))
}

func (c *cell) endpoint() relay.Endpoint {
	return relay.Endpoint{Tenant: c.key.Tenant, URL: "https://shop.example/hooks", Secrets: []string{"whsec_a"}}
}

// ownEndpoint gives the cell a tenant whose endpoint nobody else notes.
func ownEndpoint(c *cell) {
	c.key.Tenant += "-" + c.key.Value
	require.NoError(c, c.others.PutEndpoint(c.ctx, c.endpoint()))
}

func noteDelivery(ok bool, disableAfter time.Duration) func(ctx context.Context, c *cell) (any, error) {
	return func(ctx context.Context, c *cell) (any, error) {
		return c.ours.NoteDelivery(ctx, c.key.Tenant, c.endpoint().URL, ok, disableAfter)
	}
}

// notes is a delivery of the other node's.
func (c *cell) notes(ok bool) relay.Endpoint {
	c.Helper()
	e, err := c.others.NoteDelivery(c.ctx, c.key.Tenant, c.endpoint().URL, ok, time.Hour)
	require.NoError(c, err)
	return e
}

func pinAt(ctx context.Context, c *cell) (any, error) { return c.ours.Pin(ctx, c.key, here) }

func pinned(home string) func(c *cell) {
	return func(c *cell) { require.Equal(c, home, c.got.(claim.Pin).Home) }
}

// ownTenant gives the cell a tenant that nobody else has, with one API key.
func ownTenant(c *cell) {
	c.key.Tenant += "-" + c.key.Value
	require.NoError(c, c.other.PutTenant(c.ctx, claim.Tenant{ID: c.key.Tenant, Name: "Acme", Registrar: here}, "old "+c.key.Value))
}

func opens(c *cell, key string, want bool) {
	c.Helper()
	tenant, found, err := c.others.TenantByAPIKey(c.ctx, key+c.key.Value)
	require.NoError(c, err)
	require.Equal(c, want, found)
	if want {
		require.Equal(c, c.key.Tenant, tenant.ID)
	}
}

// injury is what happens to the statement.
type injury struct {
	fault wireproxy.Fault
	// lasting: to all the store's tries, not only the first.
	lasting bool
	// overtaken: what was held is passed on only after another node's turn.
	overtaken bool
}

func (i injury) String() string {
	s := i.fault.String()
	if i.lasting {
		s += ", lasting"
	}
	if i.overtaken {
		s += ", overtaken"
	}
	return s
}

var injuries = []injury{
	{fault: wireproxy.DropBefore}, {fault: wireproxy.DropBefore, lasting: true},
	{fault: wireproxy.DropAfter}, {fault: wireproxy.DropAfter, lasting: true},
	{fault: wireproxy.Refuse40001}, {fault: wireproxy.Refuse40001, lasting: true},
	{fault: wireproxy.Ambiguous40003Done}, {fault: wireproxy.Ambiguous40003Done, lasting: true},
	{fault: wireproxy.Ambiguous40003NotDone}, {fault: wireproxy.Ambiguous40003NotDone, lasting: true},
	{fault: wireproxy.LateDone}, {fault: wireproxy.LateDone, lasting: true},
	{fault: wireproxy.LateDone, overtaken: true}, {fault: wireproxy.LateDone, lasting: true, overtaken: true},
	{fault: wireproxy.StallBefore}, {fault: wireproxy.StallAfter},
}

// guarantee is what the package comment promises of an operation under an injury.
type guarantee struct {
	tries int
	// answered: the call succeeds; otherwise it says that nothing is known.
	answered bool
	// done when the call returns, and late when what was held has been passed on.
	done, late bool
}

// promise returns false where the injury is the same as a single one.
func promise(o *operation, statement string, i injury) (v guarantee, applies bool) {
	repeats := !o.once || i.fault == wireproxy.Refuse40001
	v.tries = 1
	if i.lasting {
		if v.tries = cockroach.MaxTries; !repeats {
			return v, false
		}
	}
	v.answered = repeats && !i.lasting
	v.done = v.answered
	switch i.fault {
	case wireproxy.StallBefore:
		v.answered, v.done = false, false
	case wireproxy.StallAfter:
		v.answered, v.done = false, true
	case wireproxy.DropAfter, wireproxy.Ambiguous40003Done, wireproxy.LateDone:
		v.done = v.done || i.fault != wireproxy.LateDone
	}
	v.late = v.done || i.fault == wireproxy.LateDone
	if !o.commit {
		return v, true
	}
	if !strings.HasPrefix(statement, "sql:") {
		v.done, v.late = v.answered, v.answered // the end of the connection is that of the transaction
		return v, true
	}
	v.done = v.late // see answer
	return v, true
}

func TestFaults(t *testing.T) {
	d := newDatabase(t)
	for _, o := range operations(d) {
		t.Run(o.name, func(t *testing.T) {
			w := newWire(t, d.own(t), "acme", testPool())
			for _, statement := range o.statements {
				for _, i := range injuries {
					v, applies := promise(&o, statement, i)
					if (o.commit || o.latest) && i.overtaken {
						continue // whoever writes last is right
					}
					if o.commit && i.lasting && i.fault == wireproxy.Refuse40001 && w.server.Kind() == localdb.CockroachDB {
						continue // its helper repeats on its own, more often than the store
					}
					if applies && !t.Run(statement+"/"+i.String(), func(t *testing.T) { w.cell(t).injure(&o, statement, i, v) }) {
						return // what its shot has left would hit the next
					}
				}
			}
		})
	}
}

func (c *cell) injure(o *operation, statement string, i injury, promised guarantee) {
	o.before(c)
	was := c.stored()
	shot := c.proxy.Arm(statement, i.fault, promised.tries)
	err := c.answer(o, shot, i)

	require.Equal(c, promised.tries, shot.Fired(), "tries that were injured")
	if promised.answered {
		require.NoError(c, err)
		o.right(c)
	} else {
		require.ErrorIs(c, err, claim.ErrUnavailable)
		require.NotContains(c, err.Error(), "\n")
	}
	is := c.stored()
	c.became(o, was, is, promised.done)
	if i.fault == wireproxy.LateDone && !i.overtaken {
		shot.Release()
		late := c.stored()
		if promised.done {
			require.Equal(c, is, late, "what came late was done again")
		} else {
			c.became(o, was, late, promised.late)
		}
		promised.done = promised.late
	}
	o.next(c, promised.done)
	if i.overtaken {
		turn := c.stored()
		shot.Release()
		require.Equal(c, turn, c.stored(), "what came late undid another's turn")
	}
}

// became checks that the operation was done one time, or not at all.
func (c *cell) became(o *operation, was, is *stored, done bool) {
	c.Helper()
	want := *was
	if done {
		require.GreaterOrEqual(c, len(is.Claims), len(was.Claims))
		want.Claims = append([]claimRow(nil), was.Claims...)
		want.Outbox = append([]outboxRow(nil), was.Outbox...)
		want.Pins = append([]pinRow(nil), was.Pins...)
		want.Audit = append([]string(nil), was.Audit...)
		want.Tenants = append([]tenantRow(nil), was.Tenants...)
		want.Notices = append([]noticeRow(nil), was.Notices...)
		o.effect(c, &want, is)
	}
	require.Equal(c, &want, is)
}

// answer makes the call and waits for its end. A caller that is kept waiting
// gives up as soon as it waits.
func (c *cell) answer(o *operation, shot *wireproxy.Shot, i injury) error {
	ctx, giveUp := context.WithCancel(c.ctx)
	defer giveUp()
	if o.commit && i.fault == wireproxy.LateDone {
		// A transaction that is held has locks, for which a repetition would wait: it
		// goes on as soon as its client is cut off.
		shot.Release()
	}
	answered := make(chan error, 1)
	go func() {
		got, err := o.call(ctx, c)
		if err == nil {
			c.got = got
		}
		answered <- err
	}()
	if i.fault == wireproxy.StallBefore || i.fault == wireproxy.StallAfter {
		c.await(shot)
		require.Empty(c, answered, "the call did not wait")
		giveUp()
	}
	select {
	case err := <-answered:
		return err
	case <-time.After(patience):
		c.Fatal("the call does not return")
		return nil
	}
}

func (c *cell) await(shot *wireproxy.Shot) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	require.NoError(c, shot.Wait(ctx))
}

// TestAnotherActsMeanwhile holds a call between its statement and the reply, lets
// another node act, and breaks the connection: what our node then tells its caller
// is what the row says by now. Never do two believe that they hold one claim.
func TestAnotherActsMeanwhile(t *testing.T) {
	w := newWire(t, newDatabase(t), "acme", testPool())
	all := map[string]operation{}
	for _, o := range operations(w.database) {
		all[o.name] = o
	}
	takesOver := func(c *cell) {
		c.lapse()
		rec, _, found, err := c.others.Get(c.ctx, c.key, here)
		require.NoError(c, err)
		require.True(c, found)
		_, err = c.others.TakeOver(c.ctx, c.key, here, rec.Minted.ID, "b", here)
		require.NoError(c, err)
	}
	decision := func(want claim.Decision) func(c *cell, err error) {
		return func(c *cell, err error) {
			require.NoError(c, err)
			require.Equal(c, want.String(), c.got.(claim.Begun).Decision.String())
		}
	}
	fails := func(want error) func(c *cell, err error) {
		return func(c *cell, err error) { require.ErrorIs(c, err, want) }
	}
	home := func(want string) func(c *cell, err error) {
		return func(c *cell, err error) {
			require.NoError(c, err)
			pinned(want)(c)
		}
	}
	// deaf makes the database unreachable for the statement that reads back.
	deaf := func(statement string) func(c *cell) {
		return func(c *cell) { c.proxy.Arm(statement, wireproxy.DropBefore, cockroach.MaxTries) }
	}
	const before, after = wireproxy.StallBefore, wireproxy.StallAfter
	for _, tt := range []struct {
		operation string
		hold      wireproxy.Fault
		what      string
		meanwhile func(c *cell)
		then      func(c *cell, err error)
	}{
		{"begin a new key", after, "taken over", takesOver, decision(claim.Busy)},
		{"begin a new key", after, "taken over and settled", func(c *cell) {
			c.lapse()
			c.settles(c.arrives("b", claim.WonUnknown), approved)
		}, decision(claim.Replay)},
		{"begin a new key", after, "put off", func(c *cell) {
			c.lapse()
			c.settles(c.arrives("b", claim.WonUnknown), timedOut)
		}, decision(claim.Busy)},
		{"begin a new key", before, "begun", func(c *cell) { c.arrives("b", claim.Won) }, decision(claim.Busy)},
		// Another request at the same node is another holder.
		{"begin a new key", before, "begun at our node", func(c *cell) { c.arrives("a", claim.Won) }, decision(claim.Busy)},
		{"begin a new key", before, "begun and settled", func(c *cell) {
			c.settles(c.arrives("b", claim.Won), approved)
		}, decision(claim.Replay)},
		{"begin again after a soft decline", after, "taken over", takesOver, decision(claim.Busy)},
		{"begin again after a soft decline", before, "begun", func(c *cell) { c.arrives("b", claim.Won) }, decision(claim.Busy)},
		{"begin again after a soft decline", before, "begun at our node", func(c *cell) { c.arrives("a", claim.Won) }, decision(claim.Busy)},
		{"begin again after a soft decline", after, "not readable", deaf("begin"), fails(claim.ErrUnavailable)},
		{"begin takes a lapsed claim over", after, "taken over", takesOver, decision(claim.Busy)},
		{"begin takes a lapsed claim over", before, "taken over", takesOver, decision(claim.Busy)},
		{"begin takes a lapsed claim over", after, "not readable", deaf("begin"), fails(claim.ErrUnavailable)},
		{"take over", after, "taken over", takesOver, fails(claim.ErrLeaseHeld)},
		{"take over", before, "taken over", takesOver, fails(claim.ErrLeaseHeld)},
		{"take over", before, "taken over at our node", func(c *cell) { c.arrives("a", claim.WonUnknown) }, fails(claim.ErrLeaseHeld)},
		{"take over", before, "settled", func(c *cell) { c.settles(c.held, approved) }, fails(claim.ErrFenced)},
		{"take over", after, "not readable", deaf("get"), fails(claim.ErrUnavailable)},
		{"renew", before, "taken over", takesOver, fails(claim.ErrUnavailable)},
		{"renew", after, "settled", func(c *cell) { c.settles(c.held, approved) }, fails(claim.ErrUnavailable)},
		{"settle for good", before, "taken over", takesOver, fails(claim.ErrFenced)},
		{"settle for good", before, "settled", func(c *cell) { c.settles(c.held, refused) }, fails(claim.ErrFenced)},
		{"settle for good", after, "asked for", func(c *cell) { c.arrives("b", claim.Replay) }, func(c *cell, err error) {
			require.NoError(c, err)
			require.Equal(c, claim.Completed, c.got.(claim.Record).State)
		}},
		{"settle for good", after, "not readable", deaf("get"), fails(claim.ErrUnavailable)},
		{"settle with not now", after, "begun again", func(c *cell) {
			c.age()
			c.arrives("b", claim.Won)
		}, fails(claim.ErrFenced)},
		{"settle without an outcome", after, "taken over", takesOver, fails(claim.ErrFenced)},
		{"settle without an outcome", before, "taken over", takesOver, fails(claim.ErrFenced)},
		{"settle an attempt that sent nothing", after, "taken over", takesOver, fails(claim.ErrFenced)},
		{"settle an attempt that sent nothing", before, "taken over", takesOver, fails(claim.ErrFenced)},
		{"settle an attempt that sent nothing", after, "asked for", func(c *cell) { c.arrives("b", claim.Busy) }, func(c *cell, err error) {
			require.NoError(c, err)
			require.EqualValues(c, 2, c.got.(claim.Record).Fence)
		}},
		{"settle an attempt that sent nothing", after, "not readable", deaf("get"), fails(claim.ErrUnavailable)},
		{"pin", before, "pinned", func(c *cell) { c.pins(there, there) }, home(there)},
		{"pin", after, "asked for", func(c *cell) { c.pins(there, here) }, home(here)},
		{"pin", after, "not readable", deaf("pin_read"), fails(claim.ErrUnavailable)},
		{"take a pin over", before, "taken over", func(c *cell) { c.pins(elsewhere, elsewhere) }, home(elsewhere)},
		{"take a pin over", after, "asked for", func(c *cell) { c.pins(elsewhere, here) }, home(here)},
		{"delete a pin", before, "taken over", func(c *cell) { c.pins(elsewhere, elsewhere) }, func(c *cell, err error) { require.NoError(c, err) }},
		{"close a released claim", before, "begun again", func(c *cell) { c.arrives("b", claim.Won) }, fails(claim.ErrFenced)},
		{"close a released claim", after, "asked for", func(c *cell) { c.arrives("b", claim.Replay) }, func(c *cell, err error) {
			require.NoError(c, err)
			require.Equal(c, claim.FailedTerminal, c.got.(claim.Record).State)
		}},
		{"post to the ledger", before, "posted otherwise", func(c *cell) {
			_, err := c.others.Post(c.ctx, c.ghost(200))
			require.NoError(c, err)
		}, fails(ledger.ErrConflict)},
		{"post to the ledger", before, "posted", func(c *cell) {
			_, err := c.others.Post(c.ctx, c.ghost(100))
			require.NoError(c, err)
		}, func(c *cell, err error) {
			require.NoError(c, err)
			require.Equal(c, false, c.got)
		}},
		{"post to the ledger", after, "not readable", deaf("ledger_transaction"), fails(claim.ErrUnavailable)},
		{"keep notices", after, "acted on", func(c *cell) { c.closes(c.notices()[0].ID) }, func(c *cell, err error) { require.NoError(c, err) }},
		{"close a notice", before, "taken", func(c *cell) { c.takesNotice(c.notices()[0].ID) }, fails(outbox.ErrFenced)},
		{"close a notice", before, "closed otherwise", func(c *cell) {
			require.NoError(c, c.others.Close(c.ctx, here, c.notices()[0].ID, 1, notice.Ignored, "of no concern"))
		}, fails(outbox.ErrFenced)},
		{"close a notice", after, "not readable", deaf("notice"), fails(claim.ErrUnavailable)},
		{"note a failed delivery", before, "noted", func(c *cell) { c.notes(false) }, func(c *cell, err error) {
			require.NoError(c, err)
			require.False(c, c.got.(relay.Endpoint).FailingSince.IsZero())
		}},
		{"note a failed delivery", before, "moved elsewhere", func(c *cell) {
			e := c.endpoint()
			e.URL = "https://other.example/hooks"
			require.NoError(c, c.others.PutEndpoint(c.ctx, e))
		}, fails(relay.ErrNoEndpoint)},
		{"outbox finish", before, "taken", func(c *cell) { takenAgain(c) }, fails(outbox.ErrFenced)},
		{"outbox finish", after, "not readable", deaf("outbox_row"), fails(claim.ErrUnavailable)},
		{"outbox retry", before, "taken", func(c *cell) { takenAgain(c) }, fails(claim.ErrUnavailable)},
		{"outbox park", before, "taken", func(c *cell) { takenAgain(c) }, fails(claim.ErrUnavailable)},
	} {
		o := all[tt.operation]
		ok := t.Run(fmt.Sprint(tt.operation, ", ", tt.hold, "/", tt.what), func(t *testing.T) {
			c := w.cell(t)
			o.before(c)
			shot := c.proxy.Arm(o.statements[0], tt.hold, 1)
			answered := make(chan error, 1)
			go func() {
				got, err := o.call(c.ctx, c)
				c.got = got
				answered <- err
			}()
			c.await(shot)
			tt.meanwhile(c)
			turn := c.stored()
			shot.Release()
			select {
			case err := <-answered:
				tt.then(c, err)
			case <-time.After(patience):
				c.Fatal("the call does not return")
			}
			require.Equal(c, turn, c.stored(), "the call changed what another had made")
		})
		if !ok {
			return // what its shots have left would hit the next
		}
	}
}

// TestReads: what changes nothing is asked again until it is answered.
func TestReads(t *testing.T) {
	w := newWire(t, newDatabase(t), "acme", testPool())
	setup := w.cell(t)
	held := setup.arrives("z", claim.Won)
	paid := approved
	paid.Posting, paid.Events = claimtest.Posting(held, held.Minted.ID), claimtest.Events(held, 2)
	setup.settles(held, paid)
	setup.pins(there, there)
	refund := setup.ghost(100)
	refund.ID, refund.Kind, refund.Reverses = "ghostre_1", ledger.GhostRefund, held.Minted.ID
	_, err := setup.others.Post(t.Context(), refund)
	require.NoError(t, err)
	_, err = setup.others.Keep(t.Context(), here, setup.notices())
	require.NoError(t, err)
	require.NoError(t, setup.others.PutEndpoint(t.Context(), setup.endpoint()))
	no := w.cell(t)
	no.settles(no.arrives("n", claim.Won), refused)
	refusedID := no.object("n")
	parked := w.cell(t)
	taken(parked)
	require.NoError(t, parked.others.Queue(outbox.ProviderCalls).Park(t.Context(), here, parked.held.Minted.ID, 1, "a person must look"))
	require.NoError(t, w.other.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: here}, "key"))
	key, object := setup.key, setup.object("z")
	type answer struct {
		What  any
		Found bool
	}
	for statement, read := range map[string]func(ctx context.Context, db *cockroach.DB, v *cockroach.View) (any, error){
		"ping": func(ctx context.Context, db *cockroach.DB, _ *cockroach.View) (any, error) { return nil, db.Ready(ctx) },
		"regions": func(ctx context.Context, db *cockroach.DB, _ *cockroach.View) (any, error) {
			all, _, err := db.Regions(ctx)
			return all, err
		},
		"tenant": func(ctx context.Context, db *cockroach.DB, _ *cockroach.View) (any, error) {
			return db.Tenant(ctx, "acme")
		},
		"tenants": func(ctx context.Context, db *cockroach.DB, _ *cockroach.View) (any, error) {
			return db.Tenants(ctx, "", 10)
		},
		"tenant_by_api_key": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			tenant, found, err := v.TenantByAPIKey(ctx, "key")
			return answer{tenant, found}, err
		},
		"get": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			rec, _, found, err := v.Get(ctx, key, here)
			return answer{rec, found}, err
		},
		"object": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			rec, _, found, err := v.Object(ctx, key.Tenant, here, object)
			return answer{rec, found}, err
		},
		"replica": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			return v.Replica(ctx, key)
		},
		"replica_object": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			rec, found, err := v.ReplicaObject(ctx, key.Tenant, here, object)
			return answer{rec, found}, err
		},
		"timeline": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			return v.Timeline(ctx, key, here, 10)
		},
		"claims_settled": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			return v.Settled(ctx, here, claim.Key{}, 10)
		},
		"unpaid": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			u, found, err := v.Unpaid(ctx, here, refusedID)
			return answer{u, found}, err
		},
		"ledger_transaction": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			post, found, err := v.Transaction(ctx, here, object)
			return answer{post, found}, err
		},
		"ledger_transactions": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			return v.Transactions(ctx, here, ledger.Position{}, time.Time{}, 10)
		},
		"ledger_reversals": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			return v.Reversals(ctx, object)
		},
		"ledger_balances": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			return v.Balances(ctx, here, ledger.AccountKey{}, 10)
		},
		"notice": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			n, found, err := v.Notice(ctx, here, setup.noticeID("1"))
			return answer{n, found}, err
		},
		"endpoint": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			e, found, err := v.Endpoint(ctx, "acme")
			return answer{e, found}, err
		},
		"events_message": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			m, found, err := v.Queue(outbox.Events).Message(ctx, here, setup.events("z", 1)[0])
			return answer{m, found}, err
		},
		"outbox_parked": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			return v.Queue(outbox.ProviderCalls).Parked(ctx, here, "", 10)
		},
		"outbox_depth": func(ctx context.Context, _ *cockroach.DB, v *cockroach.View) (any, error) {
			return v.Queue(outbox.ProviderCalls).Depth(ctx, here)
		},
	} {
		t.Run(statement, func(t *testing.T) {
			ours, others := view(t, w.hurt, here), view(t, w.other, here)
			want, err := read(t.Context(), w.other, others)
			require.NoError(t, err)
			for _, fault := range []wireproxy.Fault{
				wireproxy.DropBefore, wireproxy.DropAfter, wireproxy.Refuse40001,
				wireproxy.Ambiguous40003Done, wireproxy.Ambiguous40003NotDone,
			} {
				shot := w.proxy.Arm(statement, fault, 1)
				got, err := read(t.Context(), w.hurt, ours)
				require.NoError(t, err, fault)
				require.Equal(t, want, got, fault)
				require.Equal(t, 1, shot.Fired(), fault)
			}
			w.proxy.Arm(statement, wireproxy.DropBefore, cockroach.MaxTries)
			_, err = read(t.Context(), w.hurt, ours)
			require.ErrorIs(t, err, claim.ErrUnavailable)
		})
	}
}

// TestNotes: a note waits until the database has it, and a note with a time is
// written once however often it is sent.
func TestNotes(t *testing.T) {
	w := newWire(t, newDatabase(t), "acme", testPool())
	for _, fault := range []wireproxy.Fault{
		wireproxy.DropBefore, wireproxy.DropAfter, wireproxy.Refuse40001,
		wireproxy.Ambiguous40003Done, wireproxy.Ambiguous40003NotDone,
	} {
		t.Run(fault.String(), func(t *testing.T) {
			c := w.cell(t)
			shot := c.proxy.Arm("note", fault, 1)
			rec := c.arrives("a", claim.Won)
			c.ours.Note(c.ctx, c.key, here, claim.AuditEntry{At: rec.FirstUse.Add(time.Second), Event: claim.EventReplied, Fence: 1})
			for range 2 { // the first may find it waiting still
				_, err := c.ours.Timeline(c.ctx, c.key, here, 10)
				require.NoError(c, err)
			}
			require.Equal(c, 1, shot.Fired())
			require.Equal(c, []string{"claimed 1", "replied 1"}, c.stored().Audit)
		})
	}
}

// TestACallEndsInItsTime: a database that takes its time, or whose reply never
// comes, keeps a caller for CallTimeout and no longer.
func TestACallEndsInItsTime(t *testing.T) {
	d := newDatabase(t)
	pool := testPool()
	pool.StatementTimeout, pool.CallTimeout = time.Second, 2*time.Second
	settled := func(c *cell) chan error {
		answered := make(chan error, 1)
		go func() {
			_, err := c.ours.Settle(context.WithoutCancel(c.ctx), c.held, approved)
			answered <- err
		}()
		return answered
	}
	ends := func(c *cell, answered chan error) {
		c.Helper()
		select {
		case err := <-answered:
			require.ErrorIs(c, err, claim.ErrUnavailable)
		case <-time.After(patience):
			c.Fatal("the call does not return")
		}
	}
	t.Run("no reply", func(t *testing.T) {
		c := newWire(t, d.own(t), "acme", pool).cell(t)
		heldByUs(c)
		shot := c.proxy.Arm("settle", wireproxy.StallAfter, 1)
		ends(c, settled(c))
		require.Equal(c, 1, shot.Fired())
		c.arrives("b", claim.Replay)
	})
	t.Run("no progress", func(t *testing.T) {
		c := newWire(t, d.own(t), "acme", pool).cell(t)
		heldByUs(c)
		tx, err := c.direct.Begin(c.ctx)
		require.NoError(c, err)
		_, err = tx.Exec(c.ctx, "SELECT 1 FROM claims WHERE tenant_id = $1 AND idem_key = $2 FOR UPDATE", c.key.Tenant, c.key.Value)
		require.NoError(c, err)
		ends(c, settled(c))
		require.Greater(c, c.proxy.Statements()["settle"], 1, "a statement that the database gave up was not tried again")
		require.NoError(c, tx.Rollback(c.ctx))
		// The try that was waiting when the call ended is cancelled, or done late.
		if _, err := c.others.Settle(c.ctx, c.held, approved); err != nil {
			require.ErrorIs(c, err, claim.ErrFenced)
		}
		c.arrives("b", claim.Replay)
		require.Equal(c, []string{"claimed 1", "attempt 1", "settled 1"}, c.stored().Audit)
	})
}

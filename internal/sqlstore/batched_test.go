package sqlstore_test

import (
	"bytes"
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
	"github.com/homeward-io/homeward/internal/lab/wireproxy"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// crowd makes callers wait together: a statement before theirs waits for a lock.
type crowd struct {
	*testing.T
	d     database
	db    *sqlstore.DB
	proxy *wireproxy.Proxy
	view  *sqlstore.View
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it locks a table as PostgreSQL does")
	}
	u, err := url.Parse(d.admin)
	require.NoError(t, err)
	proxy, err := wireproxy.Start(u.Host)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	pool := testPool()
	pool.StatementTimeout, pool.CallTimeout = 2*time.Minute, 3*time.Minute // so that what waits does not seem to hang
	pool.TenantCache = time.Hour                                           // who is known shares the statements that pin
	db := open(t, sqlstore.Config{URL: proxy.URL(d.admin), Pool: pool})
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: here}))
	c := &crowd{t, d, db, proxy, view(t, db, here)}
	_, err = c.view.Registrar(t.Context(), "acme")
	require.NoError(t, err)
	return c
}

// together makes each of calls while one before them waits for the table, lets prepare
// act when all of them are inside, and returns their errors.
func (c *crowd) together(table string, before func() error, calls []func() error, prepare func()) []error {
	c.Helper()
	locker, err := pgx.Connect(c.Context(), c.d.admin)
	require.NoError(c, err)
	defer func() { _ = locker.Close(context.Background()) }()
	tx, err := locker.Begin(c.Context())
	require.NoError(c, err)
	_, err = tx.Exec(c.Context(), "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE")
	require.NoError(c, err)
	first, rest := make(chan error, 1), make([]chan error, len(calls))
	go func() { first <- before() }()
	require.Eventually(c, func() bool {
		return c.d.count(c.T, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	}, patience, 5*time.Millisecond)
	alone := c.db.Calls()
	for i, call := range calls {
		rest[i] = make(chan error, 1)
		go func() { rest[i] <- call() }()
	}
	require.Eventually(c, func() bool {
		inside := c.db.Calls() - alone
		for _, ended := range rest {
			inside += len(ended) // the database refuses some arguments before it waits for a lock
		}
		return inside == len(calls)
	}, patience, time.Millisecond)
	prepare()
	require.NoError(c, tx.Rollback(c.Context()))
	require.NoError(c, <-first)
	errs := make([]error, len(calls))
	for i := range rest {
		select {
		case errs[i] = <-rest[i]:
		case <-time.After(patience):
			c.Fatalf("call %d does not return", i)
		}
	}
	return errs
}

func (c *crowd) key(i int) claim.Key { return claim.Key{Tenant: "acme", Value: fmt.Sprint("k", i)} }

func (c *crowd) begin(ctx context.Context, key claim.Key, holder string) (claim.Begun, error) {
	return c.view.Begin(ctx, claimtest.NewArrival(key, here, "100", holder, "ch_"+key.Value+holder))
}

func (c *crowd) held(i int) claim.Record {
	c.Helper()
	got, err := c.begin(c.Context(), c.key(i), "n")
	require.NoError(c, err)
	require.Equal(c, claim.Won, got.Decision)
	return got.Record
}

const crowdSize = 8

// injuries of a batch's statement; zero is none.
var batchInjuries = []wireproxy.Fault{0, wireproxy.DropBefore, wireproxy.DropAfter, wireproxy.Refuse40001, wireproxy.RowsThenError}

func (c *crowd) arm(statement string, f wireproxy.Fault) (fired func() int) {
	if f == 0 {
		return func() int { return 0 }
	}
	return c.proxy.Arm(statement, f, 1).Fired
}

// TestStepsInABatch: what many send in one statement is done once for each, also where
// the statement is lost, or its reply is.
func TestStepsInABatch(t *testing.T) {
	for _, f := range batchInjuries {
		t.Run(fmt.Sprint("begin/", f), func(t *testing.T) {
			c := newCrowd(t)
			got := make([]claim.Begun, crowdSize)
			var calls []func() error
			for i := range got {
				calls = append(calls, func() (err error) {
					got[i], err = c.begin(c.Context(), c.key(i), "n")
					return err
				})
			}
			fired := func() int { return 0 }
			errs := c.together("claims", func() error { _, err := c.begin(c.Context(), c.key(99), "n"); return err }, calls,
				func() { fired = c.arm("begin", f) })
			for i, err := range errs {
				require.NoError(t, err)
				require.Equal(t, claim.Won, got[i].Decision)
				rec, _, found, err := c.view.Get(t.Context(), c.key(i), here)
				require.NoError(t, err)
				require.True(t, found)
				require.Equal(t, rec, got[i].Record)
			}
			require.Equal(t, crowdSize+1, c.d.count(t, "SELECT count(*) FROM claims WHERE fence = 1 AND lease_until = call_due"))
			require.Equal(t, crowdSize+1, c.d.count(t, "SELECT count(*) FROM "+auditLines))
			c.counted("begin", f, fired())
		})
		t.Run(fmt.Sprint("settle/", f), func(t *testing.T) {
			c := newCrowd(t)
			first, held, got := c.held(99), make([]claim.Record, crowdSize), make([]claim.Record, crowdSize)
			var calls []func() error
			for i := range held {
				held[i] = c.held(i)
				verdict := paid(c.key(i).Value)
				switch i % 3 {
				case 1:
					verdict = claim.Verdict{Outcome: &claim.Released{
						Reason: "insufficient_funds", Response: claim.Response{Status: 402, Body: []byte(c.key(i).Value)}, Expiry: &outbox.Message{Operation: "charge", Payload: []byte("{}"), Due: held[i].FirstUse.Add(time.Hour)},
					}}
				case 2:
					done := verdict.Outcome.(*claim.Done)
					done.Posting, done.Events = c.posting(i), claimtest.Events(held[i], i)
				}
				calls = append(calls, func() (err error) {
					got[i], err = c.view.Settle(c.Context(), held[i], verdict)
					return err
				})
			}
			fired := func() int { return 0 }
			errs := c.together("claims", func() error { _, err := c.view.Settle(c.Context(), first, paid("first")); return err }, calls,
				func() { fired = c.arm("settle", f) })
			for i, err := range errs {
				require.NoError(t, err)
				rec, _, found, err := c.view.Get(t.Context(), c.key(i), here)
				require.NoError(t, err)
				require.True(t, found)
				require.Equal(t, rec, got[i])
				if rec.State.Final() {
					require.Equal(t, "paid "+c.key(i).Value, string(rec.Response.Body))
				} else {
					require.Equal(t, c.key(i).Value, string(rec.Refusal.Response.Body))
				}
				require.Equal(t, 3, c.d.count(t, "SELECT count(*) FROM "+auditLines+" WHERE idem_key = $1", c.key(i).Value))
			}
			require.Zero(t, c.d.count(t, "SELECT count(*) FROM claims WHERE call_created IS NOT NULL"))
			require.Equal(t, 2, c.d.count(t, "SELECT count(*) FROM ledger"))
			require.Equal(t, 3, c.d.count(t, "SELECT count(*) FROM expiries AS e JOIN claims AS c ON c.object_id = e.id WHERE c.state = 4 AND e.due = c.first_use + INTERVAL '1 hour'"))
			require.Equal(t, 3, c.d.count(t, "SELECT count(*) FROM expiries"))
			require.Equal(t, 2+5, c.d.count(t, "SELECT count(*) FROM events AS e JOIN claims AS c ON c.idem_key = e.idem_key"))
			require.Equal(t, 3, c.d.count(t, "SELECT count(*) FROM unpaid"))
			c.counted("settle", f, fired())
		})
		t.Run(fmt.Sprint("pin/", f), func(t *testing.T) {
			c := newCrowd(t)
			_, err := c.view.Pin(t.Context(), c.key(3), regions[1])
			require.NoError(t, err)
			got := make([]claim.Pin, crowdSize)
			var calls []func() error
			for i := range got {
				calls = append(calls, func() (err error) {
					got[i], err = c.view.Pin(c.Context(), c.key(i), here)
					return err
				})
			}
			fired := func() int { return 0 }
			c.together("pins", func() error { _, err := c.view.Pin(c.Context(), c.key(99), here); return err }, calls,
				func() { fired = c.arm("pin", f) })
			if sent := c.proxy.Statements()["pin"]; f == 0 {
				require.LessOrEqual(t, sent, 3+crowdSize, "they shared one, which the conflict failed, and each was sent once more")
			} else {
				c.counted("pin", f, fired())
			}
			for i := range got {
				want := here
				if i == 3 {
					want = regions[1] // its conflict is its own
				}
				require.Equal(t, want, got[i].Home)
			}
			require.Equal(t, crowdSize+1, c.d.count(t, "SELECT count(*) FROM pins"))
		})
	}
}

// TestATenantsKeyIsItsOwn: in one batch two tenants use the same keys, of which one of them has
// used all before, at another node.
func TestATenantsKeyIsItsOwn(t *testing.T) {
	c := newCrowd(t)
	require.NoError(t, c.db.PutTenant(t.Context(), claim.Tenant{ID: "globex", Registrar: here}))
	others := view(t, open(t, sqlstore.Config{URL: c.d.admin}), here)
	arrival := func(tenant string, i int) claim.Arrival {
		return claimtest.NewArrival(claim.Key{Tenant: tenant, Value: c.key(i).Value}, here, "100", "n", fmt.Sprint("ch_", tenant, i))
	}
	got := make([]claim.Begun, crowdSize)
	var calls []func() error
	for i := range got {
		tenant := "acme"
		if i%2 != 0 {
			tenant = "globex"
			begun, err := others.Begin(t.Context(), arrival(tenant, i/2))
			require.NoError(t, err)
			require.Equal(t, claim.Won, begun.Decision)
		}
		calls = append(calls, func() (err error) {
			got[i], err = c.view.Begin(c.Context(), arrival(tenant, i/2))
			return err
		})
	}
	errs := c.together("claims", func() error { _, err := c.begin(c.Context(), c.key(99), "n"); return err }, calls, func() {})
	c.counted("begin", 0, 0)
	for i, err := range errs {
		require.NoError(t, err)
		want := claim.Won
		if i%2 != 0 {
			want = claim.Busy
		}
		require.Equal(t, want.String(), got[i].Decision.String())
	}
}

// TestAPinThatStandsIsItsOwn: another node has moved the registrar, and one key of a batch has its
// pin at the one before. That is no conflict: the statement pins the others, and not that one.
func TestAPinThatStandsIsItsOwn(t *testing.T) {
	c := newCrowd(t)
	const stands = 3
	_, err := c.view.Pin(t.Context(), c.key(stands), regions[1])
	require.NoError(t, err)
	require.NoError(t, open(t, sqlstore.Config{URL: c.d.admin}).MoveRegistrar(t.Context(), "acme", regions[2]))
	got := make([]claim.Pin, crowdSize)
	var calls []func() error
	for i := range got {
		calls = append(calls, func() (err error) {
			got[i], err = c.view.Pin(c.Context(), c.key(i), here)
			return err
		})
	}
	c.together("pins", func() error { _, err := c.view.Pin(c.Context(), c.key(99), here); return err }, calls, func() {})
	c.counted("pin", 0, 0)
	for i := range got {
		want := here
		if i == stands {
			want = regions[1]
		}
		require.Equal(t, want, got[i].Home)
	}
}

// counted checks that the steps were in one statement, which was injured.
func (c *crowd) counted(statement string, f wireproxy.Fault, fired int) {
	c.Helper()
	sent := c.proxy.Statements()[statement]
	if f == 0 {
		require.Less(c, sent, crowdSize, "they shared")
		return
	}
	require.Equal(c, 1, fired)
}

func (c *crowd) posting(i int) *ledger.Transaction {
	return &ledger.Transaction{
		ID: "charge:" + c.key(i).Value, Tenant: "acme", Region: here, Kind: ledger.Charge, Debit: "provider:sim", Credit: "tenant:acme",
		Amount: 100, Currency: "EUR", Object: "ch_" + c.key(i).Value + "n", Provider: "sim", ProviderRef: "ref_" + c.key(i).Value,
	}
}

// TestABadRowIsItsOwn: in one batch there are a verdict whose money is booked already, one
// whose holder was fenced off, one without an answer that could be sent, and a caller who
// leaves. The others are none the worse for it.
func TestABadRowIsItsOwn(t *testing.T) {
	c := newCrowd(t)
	first, held := c.held(99), make([]claim.Record, crowdSize)
	for i := range held {
		held[i] = c.held(i)
	}
	const booked, fenced, leaves, named = 1, 3, 5, 6
	c.d.exec(t, `INSERT INTO events (home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
		VALUES ($1::crdb_internal_region, 'evt_there', 'event_log', 'acme', $2, 'charge', '', '', now(), now(), 0)`, here, c.key(named).Value)
	elsewhere := c.posting(booked)
	elsewhere.Object = "ch_other"
	_, err := c.view.Post(t.Context(), *elsewhere)
	require.NoError(t, err)
	held[fenced].Fence++
	left, leave := context.WithCancel(t.Context())
	var calls []func() error
	for i := range held {
		verdict, ctx := paid(c.key(i).Value), c.Context()
		done := verdict.Outcome.(*claim.Done)
		done.Posting, done.Events = c.posting(i), claimtest.Events(held[i], 1)
		switch i {
		case leaves:
			ctx = left
		case named:
			done.Events[0].ID = "evt_there"
		}
		calls = append(calls, func() error {
			_, err := c.view.Settle(ctx, held[i], verdict)
			return err
		})
	}
	errs := c.together("claims", func() error { _, err := c.view.Settle(c.Context(), first, paid("first")); return err }, calls, leave)
	for i, err := range errs {
		rec, _, _, read := c.view.Get(t.Context(), c.key(i), here)
		require.NoError(t, read)
		switch i {
		case booked:
			require.ErrorIs(t, err, ledger.ErrConflict)
			require.Equal(t, claim.InFlight, rec.State)
		case fenced:
			require.ErrorIs(t, err, claim.ErrFenced)
			require.Equal(t, claim.InFlight, rec.State)
		case named:
			require.ErrorContains(t, err, "is queued already")
			require.NotErrorIs(t, err, claim.ErrUnavailable, "nothing was done for certain")
			require.Equal(t, claim.InFlight, rec.State)
		case leaves:
			require.Error(t, err)
		default:
			require.NoError(t, err)
			require.Equal(t, claim.Completed, rec.State)
		}
	}
	require.Equal(t, crowdSize+1, c.d.count(t, "SELECT count(*) FROM claims WHERE call_created IS NOT NULL")+c.d.count(t, "SELECT count(*) FROM claims WHERE state = 2"), "nothing is half there")
}

// TestABeginIsExecutedWhoeverLeft: a merchant hangs up while the batch's statement is under
// way, which commits.
func TestABeginIsExecutedWhoeverLeft(t *testing.T) {
	c := newCrowd(t)
	attempts := make(chan claim.Attempt, 1)
	s, err := claim.NewService(claim.Config{
		Store: c.view, Policy: testPolicy(), Node: "n1", Region: here, Code: func(string) (claim.RegionCode, bool) { return 1, true },
		Operations: claim.Operations{"charge": "ch"}, Blobs: noBlobs{}, Executor: attempt(func(a claim.Attempt) claim.Outcome {
			attempts <- a
			return paid("once").Outcome
		}),
	})
	require.NoError(t, err)
	a := claimtest.NewArrival(c.key(0), here, "100", "n1", "ch_unused")
	ctx, hangUp := context.WithCancel(t.Context())
	left := make(chan error, 1)
	c.together("claims", func() error {
		_, err := s.Do(ctx, here, &claim.Request{Key: a.Key, Operation: a.Operation, Stamp: 1, Input: a.Input})
		left <- err
		return nil
	}, nil, hangUp)
	require.NoError(t, <-left)
	rec, _, found, err := c.view.Get(t.Context(), a.Key, here)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, claim.Completed, rec.State)
	require.EqualValues(t, 1, rec.Attempts)
	require.False(t, (<-attempts).Recovery)
}

// attempt is a [claim.Executor] made of a function.
type attempt func(a claim.Attempt) claim.Outcome

func (f attempt) Attempt(_ context.Context, a claim.Attempt) claim.Outcome { return f(a) }

type noBlobs struct{}

func (noBlobs) Put(context.Context, []byte) (string, error) { return "", nil }
func (noBlobs) Get(context.Context, string) ([]byte, error) { return nil, nil }

// TestReadsForgetRowsBeforeAnError: a look-up had its rows, and then failed. What is there
// the next time counts.
func TestReadsForgetRowsBeforeAnError(t *testing.T) {
	c := newCrowd(t)
	held := c.held(0)
	c.proxy.Arm("find", wireproxy.RowsThenError, 1)
	got, err := c.begin(c.Context(), held.Key, "other")
	require.NoError(t, err)
	require.Equal(t, claim.Busy, got.Decision)

	_, err = c.view.Settle(t.Context(), held, paid("x"))
	require.NoError(t, err)
	shown, err := c.view.Replica(t.Context(), held.Key)
	require.NoError(t, err)
	require.Nil(t, shown.Record, "an opaque key is looked for where its pin says")
	_, err = c.view.Pin(t.Context(), c.key(1), here)
	require.NoError(t, err)
	a := claimtest.NewArrival(c.key(1), here, "100", "n", "ch_pinned")
	begun, err := c.view.Begin(t.Context(), a)
	require.NoError(t, err)
	done, err := c.view.Settle(t.Context(), begun.Record, paid("y"))
	require.NoError(t, err)
	shown, err = c.view.Replica(t.Context(), a.Key)
	require.NoError(t, err)
	require.NotNil(t, shown.Record)
	c.proxy.Arm("replica", wireproxy.RowsThenError, 1)
	stall := c.proxy.Arm("replica", wireproxy.StallBefore, 1)
	again := make(chan claim.Shown, 1)
	go func() {
		shown, _ := c.view.Replica(c.Context(), a.Key)
		again <- shown
	}()
	require.NoError(t, stall.Wait(t.Context()))
	c.d.exec(t, "DELETE FROM claims WHERE object_id = '"+done.Minted.ID+"'")
	c.d.exec(t, "DELETE FROM pins WHERE idem_key = '"+a.Key.Value+"'")
	stall.Release()
	require.Equal(t, claim.Shown{}, <-again)
}

// TestARefusalForGoodIsItsOwn: the database cannot keep what one settlement of a batch has
// written into it. That one is told so, and the next time it does not take the others with
// it.
func TestARefusalForGoodIsItsOwn(t *testing.T) {
	c := newCrowd(t)
	first := []claim.Record{c.held(98), c.held(99)}
	held := make([]claim.Record, 2*crowdSize)
	for i := range held {
		held[i] = c.held(i)
	}
	const bad = 3
	rounds := [][]int{{0, 1, 2, bad, 4, 5, 6, 7}, {8, 9, 10, bad, 11, 12, 13, 14}}
	for round, members := range rounds {
		started := c.proxy.Statements()["settle"]
		var calls []func() error
		for _, i := range members {
			v := paid(c.key(i).Value)
			if i == bad {
				events := claimtest.Events(held[i], 1)
				events[0].TraceParent = "\x00"
				v.Outcome.(*claim.Done).Events = events
			}
			calls = append(calls, func() error {
				_, err := c.view.Settle(c.Context(), held[i], v)
				return err
			})
		}
		errs := c.together("claims", func() error { _, err := c.view.Settle(c.Context(), first[round], paid("first")); return err }, calls, func() {})
		for n, i := range members {
			rec, _, _, err := c.view.Get(t.Context(), c.key(i), here)
			require.NoError(t, err)
			if i == bad {
				require.ErrorIs(t, errs[n], claim.ErrUnstorable)
				require.NotErrorIs(t, errs[n], claim.ErrUnavailable)
				require.Equal(t, claim.InFlight, rec.State)
				continue
			}
			require.NoError(t, errs[n])
			require.Equal(t, claim.Completed, rec.State)
		}
		want := 1 + 1 + crowdSize // the batch failed, and each went on alone
		if round == 1 {
			want = 1 + 1 + 1
		}
		require.Equal(t, want, c.proxy.Statements()["settle"]-started, "round %d", round)
	}
}

// TestLargeBodiesLeaveRoomForOthers: many callers of one tenant send large bodies. A
// statement has some of them, and all of those who send little beside them.
func TestLargeBodiesLeaveRoomForOthers(t *testing.T) {
	c := newCrowd(t)
	require.NoError(t, c.db.PutTenant(t.Context(), claim.Tenant{ID: "globex", Registrar: here}))
	got := make([]claim.Begun, crowdSize)
	held := make([]claim.Record, crowdSize)
	large := bytes.Repeat([]byte("x"), 700<<10) // two fit into a statement
	var begins, settles []func() error
	for i := range got {
		a := claimtest.NewArrival(c.key(i), here, "100", "n", fmt.Sprint("ch_", i))
		if a.Input.Canonical = large; i%2 == 0 {
			a.Input.Canonical, a.Key.Tenant = []byte("100"), "globex"
		}
		begins = append(begins, func() (err error) {
			got[i], err = c.view.Begin(c.Context(), a)
			held[i] = got[i].Record
			return err
		})
		settles = append(settles, func() error {
			v := paid("x")
			if i%2 == 1 {
				v.Outcome.(*claim.Done).Response.Body = large
			}
			_, err := c.view.Settle(c.Context(), held[i], v)
			return err
		})
	}
	first := c.held(99)
	started := c.proxy.Statements()
	for _, err := range c.together("claims", func() error { _, err := c.begin(c.Context(), c.key(98), "n"); return err }, begins, func() {}) {
		require.NoError(t, err)
	}
	for _, err := range c.together("claims", func() error { _, err := c.view.Settle(c.Context(), first, paid("first")); return err }, settles, func() {}) {
		require.NoError(t, err)
	}
	for _, statement := range []string{"begin", "settle"} {
		require.Equal(t, 1+2, c.proxy.Statements()[statement]-started[statement], statement)
	}
}

// TestHeartbeatsAreBounded: a heartbeat renews all leases, some in each statement.
func TestHeartbeatsAreBounded(t *testing.T) {
	c := newCrowd(t)
	leases := make([]claim.Lease, 130)
	for i := range leases {
		leases[i] = claim.Lease{Key: c.key(i), Home: here, Fence: c.held(i).Fence}
	}
	c.d.clock.advance(t, time.Second)
	held, err := c.view.Renew(t.Context(), "n", leases)
	require.NoError(t, err)
	require.NotContains(t, held, false)
	require.Equal(t, 3, c.proxy.Statements()["renew"], "at most 64 in each")
}

// TestTwinsInABatch: many requests for one key arrive at once, beside others.
func TestTwinsInABatch(t *testing.T) {
	c := newCrowd(t)
	got := make([]claim.Begun, 2*crowdSize)
	var calls []func() error
	for i := range got {
		calls = append(calls, func() (err error) {
			got[i], err = c.begin(c.Context(), c.key(i%2*i), fmt.Sprint("n", i)) // every second one is for key 0
			return err
		})
	}
	errs := c.together("claims", func() error { _, err := c.begin(c.Context(), c.key(99), "n"); return err }, calls, func() {})
	won := 0
	for i, err := range errs {
		require.NoError(t, err)
		switch {
		case i%2 == 1:
			require.Equal(t, claim.Won, got[i].Decision)
		case got[i].Decision == claim.Won:
			won++
		default:
			require.Equal(t, claim.Busy, got[i].Decision)
		}
	}
	require.Equal(t, 1, won)
}

// TestAHangingBatchDelaysNobodyElse: a statement hangs for longer than statements take, and
// who comes meanwhile is served by another.
func TestAHangingBatchDelaysNobodyElse(t *testing.T) {
	d := newDatabase(t)
	w := newWire(t, d, "acme", testPool())
	hung, other := w.cell(t), w.cell(t)
	shot := w.proxy.Arm("begin", wireproxy.StallBefore, 1)
	ctx, giveUp := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := hung.ours.Begin(ctx, hung.arrival("a"))
		answered <- err
	}()
	hung.await(shot)
	got, err := other.ours.Begin(t.Context(), other.arrival("a"))
	require.NoError(t, err)
	require.Equal(t, claim.Won, got.Decision)
	require.Empty(t, answered, "the first hangs still")
	giveUp()
	require.ErrorIs(t, <-answered, claim.ErrUnavailable)
}

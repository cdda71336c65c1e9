package sqlstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

// flood is a store with a pool of four, whose arrivals hang: another session has
// locked the pins.
type flood struct {
	*testing.T
	d    database
	db   *sqlstore.DB
	view *sqlstore.View
	stop func()
}

// newFlood opens the store, lets prepare use it in peace, and then sends arrivals, of
// tenants by turns, until the pool of arriving work takes no more.
func newFlood(t *testing.T, arrivals int, tenants []string, prepare func(f *flood)) *flood {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it locks a table as PostgreSQL does")
	}
	pool := testPool()
	pool.MaxConns, pool.MinConns = 4, 4
	f := &flood{T: t, d: d, db: open(t, sqlstore.Config{URL: d.url, Pool: pool})}
	f.db.StopWaiting()
	f.view = view(t, f.db, regions[0])
	for _, tenant := range tenants {
		require.NoError(t, f.db.PutTenant(t.Context(), claim.Tenant{ID: tenant, Registrar: regions[0]}))
	}
	prepare(f)

	locker, err := pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	t.Cleanup(func() { _ = locker.Close(context.Background()) })
	tx, err := locker.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE pins IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	ctx, giveUp := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var came atomic.Int64
	for i := range arrivals {
		all.Go(func() {
			key := claim.Key{Tenant: tenants[i%len(tenants)], Value: fmt.Sprint("flood-", i)}
			came.Add(1)
			_, err := f.view.Pin(ctx, key, regions[0])
			if ctx.Err() == nil {
				require.ErrorIs(t, err, claim.ErrUnavailable)
			}
		})
	}
	f.stop = sync.OnceFunc(func() {
		giveUp()
		all.Wait()
		require.NoError(t, tx.Rollback(context.Background()))
	})
	t.Cleanup(f.stop)
	stuck := func() int {
		return d.count(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
	}
	require.Eventually(t, func() bool { return int(came.Load()) == arrivals && stuck() > 0 && f.db.Calls() > 400 }, patience, 10*time.Millisecond)
	return f
}

func (f *flood) begin(tenant, key string) claim.Record {
	f.Helper()
	got, err := f.view.Begin(f.Context(), claimtest.NewArrival(claim.Key{Tenant: tenant, Value: key}, regions[0], "100", "node", "ch_"+key))
	require.NoError(f, err)
	require.Equal(f, claim.Won, got.Decision)
	return got.Record
}

// TestAFloodOfArrivalsStopsNothingThatWasBegun: 2,000 arrivals and a table that another
// session has locked fill the pool of arriving work. What finishes, keeps or recovers work
// that was begun is refused nothing.
func TestAFloodOfArrivalsStopsNothingThatWasBegun(t *testing.T) {
	const claims, renewals = 24, 10
	var lapsed claim.Record
	var held []claim.Record
	var rows []outbox.Message
	queues := []outbox.Queue{outbox.ProviderCalls, outbox.Events, outbox.Notices}
	f := newFlood(t, 2000, []string{"acme", "globex", "initech"}, func(f *flood) {
		lapsed = f.begin("acme", "lapsed")
		toRetry := f.begin("acme", "retried")
		_, err := f.view.Settle(f.Context(), f.begin("acme", "told"), claim.Verdict{Outcome: &claim.Done{
			Response: claim.Response{Status: 201}, Events: claimtest.Events(claim.Record{Minted: claim.Minted{ID: "ch_told"}}, 2),
		}})
		require.NoError(f, err)
		_, err = f.view.Keep(f.Context(), regions[0], []notice.Notice{{ID: "sim:1", Provider: "sim"}, {ID: "sim:2", Provider: "sim"}})
		require.NoError(f, err)
		f.d.clock.advance(f.T, testPolicy().Lease+testPolicy().ClockOffset)
		for _, q := range queues {
			taken, err := f.view.Queue(q).Take(f.Context(), regions[0], 10, time.Hour)
			require.NoError(f, err)
			rows = append(rows, taken...)
		}
		require.Contains(f, []string{rows[0].ID, rows[1].ID}, toRetry.Minted.ID)
		for i := range claims {
			held = append(held, f.begin("globex", fmt.Sprint("held-", i)))
		}
	})
	ctx, v := t.Context(), f.view
	leases := make([]claim.Lease, claims)
	for i, rec := range held {
		leases[i] = claim.Lease{Key: rec.Key, Home: rec.Home, Fence: rec.Fence}
	}
	for range renewals {
		kept, err := v.Renew(ctx, "node", leases)
		require.NoError(t, err)
		require.NotContains(t, kept, false)
	}
	var settles sync.WaitGroup
	for i, rec := range held {
		settles.Go(func() {
			verdict := paid(rec.Key.Value)
			if i%2 == 0 {
				verdict = claim.Verdict{Outcome: &claim.Unknown{Reason: "timeout"}}
			}
			_, err := v.Settle(ctx, rec, verdict)
			require.NoError(t, err)
		})
	}
	settles.Wait()
	_, err := v.TakeOver(ctx, lapsed.Key, lapsed.Home, lapsed.Minted.ID, "heir", regions[0], claim.News{})
	require.NoError(t, err)
	for _, q := range queues {
		_, err := v.Queue(q).Take(ctx, regions[0], 10, time.Hour)
		require.NoError(t, err)
	}
	for i, m := range rows {
		queue := v.Queue(map[outbox.Kind]outbox.Queue{outbox.KindProviderCall: outbox.ProviderCalls, outbox.KindLog: outbox.Events, outbox.KindNotice: outbox.Notices}[m.Kind])
		switch {
		case m.Kind == outbox.KindNotice && i%2 == 0:
			err = v.Close(ctx, regions[0], m.ID, m.Fence, notice.Ignored, "")
		case i%2 == 0:
			err = queue.Finish(ctx, regions[0], m.Hold())
		default:
			err = queue.Retry(ctx, regions[0], m.Hold(), time.Minute, "again")
		}
		require.NoError(t, err, "%s %s", m.Kind, m.ID)
	}
	_, err = v.Post(ctx, ledger.Transaction{
		ID: "gh_1", Region: regions[0], Tenant: "acme", Kind: ledger.Ghost, Debit: ledger.Provider("sim"), Credit: ledger.Suspense("acme"),
		Amount: 100, Currency: "usd", Object: "ch_1", Provider: "sim", ProviderRef: "psp_1",
	})
	require.NoError(t, err)
	// What an attempt or a handler reads is its work, too; it says so.
	_, _, _, err = v.Get(outbox.Begun(ctx), lapsed.Key, lapsed.Home)
	require.NoError(t, err)
	require.Greater(t, f.db.Calls(), 400, "the flood is still there")
}

// TestATenantsFloodStopsNoOther: one tenant's arrivals all hang; another's are served.
func TestATenantsFloodStopsNoOther(t *testing.T) {
	f := newFlood(t, 2000, []string{"acme"}, func(f *flood) {
		require.NoError(f, f.db.PutTenant(f.Context(), claim.Tenant{ID: "globex", Registrar: regions[0]}, "sk_live_globex"))
	})
	_, found, err := f.view.TenantByAPIKey(t.Context(), claim.HashAPIKey("sk_live_globex"))
	require.NoError(t, err)
	require.True(t, found)
	for i := range 20 {
		f.begin("globex", fmt.Sprint("calm-", i))
	}
	require.Greater(t, f.db.Calls(), 400, "the flood is still there")
}

// TestALostRegionStopsNoOtherRegionsErrands: the queues of one region hang, at which
// three workers of a deputy wait. What attempts read of the books of another region,
// which answers, is refused nothing.
func TestALostRegionStopsNoOtherRegionsErrands(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it locks a table as PostgreSQL does")
	}
	pool := sqlstore.DefaultPool()
	pool.AllowUnverified = true
	db := open(t, sqlstore.Config{URL: d.url, Pool: pool})
	v := view(t, db, regions[0])
	locker, err := pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	t.Cleanup(func() { _ = locker.Close(context.Background()) })
	tx, err := locker.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE events, expiries, notices_due IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { stop(); all.Wait(); _ = tx.Rollback(context.Background()) })
	for _, q := range []outbox.Queue{outbox.Events, outbox.Expiries, outbox.Notices} {
		all.Go(func() {
			for ctx.Err() == nil {
				_, err := v.Queue(q).Take(ctx, regions[1], 1, time.Minute)
				require.Error(t, err)
			}
		})
	}
	require.Eventually(t, func() bool { return db.Calls() == 3 }, patience, 10*time.Millisecond)
	for i := range 6 {
		read, cancel := context.WithTimeout(outbox.Begun(t.Context()), 5*time.Second)
		_, _, err := v.Transaction(read, regions[2], fmt.Sprint("ch_", i))
		cancel()
		require.NoError(t, err, "read %d of a healthy region's books", i)
	}
}

// TestDeliveriesThatHangStopNoClaim: another session has locked the documents, of which
// each delivery reads one. Claims are renewed and settled meanwhile.
func TestDeliveriesThatHangStopNoClaim(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("it locks a table as PostgreSQL does")
	}
	db := open(t, sqlstore.Config{URL: d.admin, Pool: sqlstore.DefaultPool()})
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: here}))
	v := view(t, db, here)
	begun, err := v.Begin(t.Context(), claim.Arrival{
		Content: claim.Content{
			Key: claim.Key{Tenant: "acme", Value: "k"}, Operation: "charge",
			Mint: claim.Minted{ID: "ch_k", Receipt: "R-1"}, Input: claim.FingerprintInput{Canonical: []byte("1")},
		},
		Route:  claim.Route{Home: here, Stamped: true},
		Holder: claim.Holder{Node: "node", Region: here},
	})
	require.NoError(t, err)
	locker, err := pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	defer func() { _ = locker.Close(context.Background()) }()
	tx, err := locker.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE documents")
	require.NoError(t, err)

	ctx, stop := context.WithCancel(outbox.Begun(t.Context()))
	var deliveries sync.WaitGroup
	hung := make(chan struct{}, 64)
	for range 64 {
		deliveries.Go(func() {
			for ctx.Err() == nil {
				_, _, err := v.Endpoint(ctx, "acme")
				if err != nil && ctx.Err() == nil {
					select {
					case hung <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	for range 64 {
		<-hung
	}
	for range 5 {
		held, err := v.Renew(t.Context(), "node", []claim.Lease{{Key: begun.Record.Key, Home: here, Fence: begun.Record.Fence}})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, held)
	}
	_, err = v.Settle(t.Context(), begun.Record, claim.Verdict{Outcome: &claim.Done{Response: claim.Response{Status: 201, Body: []byte("paid")}}})
	require.NoError(t, err)
	stop()
	require.NoError(t, tx.Rollback(t.Context()))
	deliveries.Wait()
}

package sqlstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/wireproxy"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
)

// TestReads: what changes nothing is asked again until it is answered.
func TestReads(t *testing.T) {
	w := newWire(t, newDatabase(t), "acme", testPool())
	setup := w.cell(t)
	held := setup.arrives("z", claim.Won)
	paid := *approved.Outcome.(*claim.Done)
	paid.Posting, paid.Events = claimtest.Posting(held, held.Minted.ID), claimtest.Events(held, 2)
	setup.settles(held, claim.Verdict{Outcome: &paid, Node: "a", Region: here})
	setup.pins(there, there)
	refund := setup.ghost(100)
	refund.ID, refund.Kind, refund.Reverses = "ghostre_1", ledger.GhostRefund, held.Minted.ID
	_, err := setup.others.Post(t.Context(), refund)
	require.NoError(t, err)
	_, err = setup.others.Keep(t.Context(), here, setup.notices())
	require.NoError(t, err)
	require.NoError(t, setup.others.PutEndpoint(t.Context(), relay.Endpoint{}, setup.endpoint()))
	no := w.cell(t)
	no.settles(no.arrives("n", claim.Won), refused)
	refusedID := no.object("n")
	parked := w.cell(t)
	taken(parked)
	require.NoError(t, parked.others.Queue(outbox.ProviderCalls).Park(t.Context(), here, claimtest.Call(parked.held, 1), "a person must look"))
	require.NoError(t, w.other.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: here}, "key"))
	key, object := setup.key, setup.object("z")
	type answer struct {
		What  any
		Found bool
	}
	for statement, read := range map[string]func(ctx context.Context, db *sqlstore.DB, v *sqlstore.View) (any, error){
		"ping": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) { return nil, v.Ready(ctx) },
		"regions": func(ctx context.Context, db *sqlstore.DB, _ *sqlstore.View) (any, error) {
			all, _, err := db.Regions(ctx)
			return all, err
		},
		"find": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			a := claimtest.NewArrival(key, here, "1", "b", "ch_other")
			a.CompareOnly = true
			got, err := v.Begin(ctx, a)
			got.Now = time.Time{}
			return got, err
		},
		"tenant": func(ctx context.Context, db *sqlstore.DB, _ *sqlstore.View) (any, error) {
			return db.Tenant(ctx, "acme")
		},
		"tenants": func(ctx context.Context, db *sqlstore.DB, _ *sqlstore.View) (any, error) {
			return db.Tenants(ctx, "", 10)
		},
		"tenant_by_api_key": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			tenant, found, err := v.TenantByAPIKey(ctx, claim.HashAPIKey("key"))
			return answer{tenant, found}, err
		},
		"object": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			rec, _, found, err := v.Object(ctx, key.Tenant, here, object)
			return answer{rec, found}, err
		},
		"replica": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			return v.Replica(ctx, key)
		},
		"timeline": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			return v.Timeline(ctx, key, here, 10)
		},
		"claims_settled": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			return v.Settled(ctx, here, claim.Key{}, 10)
		},
		"unpaid": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			u, found, err := v.Unpaid(ctx, here, refusedID)
			return answer{u, found}, err
		},
		"ledger_named": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			return v.Named(ctx, here, []string{object, "none"})
		},
		"ledger_transactions": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			return v.Transactions(ctx, here, ledger.Position{}, time.Time{}, 10)
		},
		"ledger_reversals": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			return v.ReversalsAt(ctx, here, object)
		},
		"ledger_reversed": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			return v.Reversals(ctx, object, "none")
		},
		"ledger_balances": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			return v.Balances(ctx, here, ledger.AccountKey{}, 10)
		},
		"notice": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			n, found, err := v.Notice(ctx, here, setup.noticeID("1"))
			return answer{n, found}, err
		},
		"documents": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			e, found, err := v.Endpoint(ctx, "acme")
			return answer{e, found}, err
		},
		"events_message": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			m, found, err := v.Queue(outbox.Events).Message(ctx, here, setup.events("z", 1)[0])
			return answer{m, found}, err
		},
		"calls_parked": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			return v.Queue(outbox.ProviderCalls).Parked(ctx, here, "", 10)
		},
		"calls_waiting": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			return v.Queue(outbox.ProviderCalls).Waiting(ctx, here, 10)
		},
		"claims_unknown": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
			return v.Unknown(ctx, here, true, 10)
		},
		"calls_depth": func(ctx context.Context, _ *sqlstore.DB, v *sqlstore.View) (any, error) {
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
			w.proxy.Arm(statement, wireproxy.DropBefore, sqlstore.MaxTries)
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

// TestAReplicaShowsTheLaterOfTwoPins: a key may have a pin at either registrar, if the registrar
// moved while the key was pinned.
func TestAReplicaShowsTheLaterOfTwoPins(t *testing.T) {
	d := newDatabase(t)
	db := open(t, sqlstore.Config{URL: d.url})
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: regions[0]}))
	require.NoError(t, db.MoveRegistrar(t.Context(), "acme", regions[1]))
	v := view(t, db, regions[0])
	_, now, _, err := v.Get(t.Context(), claim.Key{Tenant: "acme", Value: "k"}, regions[0])
	require.NoError(t, err)
	if d.server.Kind() == localdb.PostgreSQL { // CockroachDB's has the registrar: one without it would cost a trip
		d.exec(t, "ALTER TABLE pins DROP CONSTRAINT pins_pkey")
	}
	now = now.Add(-time.Minute) // a replica is a few seconds behind
	for later, registrar := range regions[:2] {
		key := claim.Key{Tenant: "acme", Value: "later at " + registrar}
		for i, at := range regions[:2] {
			created := now
			if i != later {
				created = now.Add(-time.Hour)
			}
			d.exec(t, "INSERT INTO pins (registrar, tenant_id, idem_key, home_region, created_at) VALUES ($1::crdb_internal_region, 'acme', $2, $1::crdb_internal_region, $3)", at, key.Value, created)
		}
		require.Eventually(t, func() bool { // CockroachDB's replicas lag
			shown, err := v.Replica(t.Context(), key)
			require.NoError(t, err)
			return shown.Pin != nil && shown.Pin.Home == registrar && shown.Pin.CreatedAt.Equal(now)
		}, patience, 10*time.Millisecond)
	}
}

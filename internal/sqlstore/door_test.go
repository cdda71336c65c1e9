package sqlstore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/wireproxy"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

const lookUp = "tenant_by_api_key"

// TestBadKeysHardlyReachTheDatabase: a key that nobody has is looked up once for as long
// as that is remembered, however many bring it and at once; a good one likewise. A key
// that is made then opens the door at once in this process, and in others soon.
func TestBadKeysHardlyReachTheDatabase(t *testing.T) {
	d := newDatabase(t)
	pool, ctx := testPool(), t.Context()
	pool.TenantCache = time.Hour
	var said sqlstore.Listener
	db := open(t, sqlstore.Config{URL: d.url, Pool: pool}.Listen(&said))
	v := view(t, db, regions[0])
	acme := claim.Tenant{ID: "acme", Registrar: regions[0]}
	require.NoError(t, db.PutTenant(ctx, acme, "sk_old", claim.NewAPIKey("acme")))

	var all sync.WaitGroup
	for range 50 {
		for i := range 10 {
			all.Go(func() {
				_, found, err := v.TenantByAPIKey(ctx, claim.HashAPIKey(fmt.Sprintf("sk_none_%d", i)))
				if err != nil || found {
					t.Errorf("found %v: %v", found, err)
				}
			})
			all.Go(func() {
				got, found, err := v.TenantByAPIKey(ctx, claim.HashAPIKey("sk_old"))
				if err != nil || !found || got.ID != "acme" {
					t.Errorf("an old key: %v %v", got, err)
				}
			})
		}
	}
	all.Wait()
	require.LessOrEqual(t, said.Times(lookUp), 10+1, "500 bad requests, and 500 good ones")

	hash := claim.HashAPIKey("sk_none_1")
	_, found, known := v.TenantInMemory(hash)
	require.True(t, known && !found, "looked up, and nobody's")
	require.NoError(t, db.PutTenant(ctx, acme, "sk_none_1"))
	_, _, known = v.TenantInMemory(hash)
	require.False(t, known, "it is somebody's now")
	_, found, err := v.TenantByAPIKey(ctx, claim.HashAPIKey("sk_none_1"))
	require.NoError(t, err)
	require.True(t, found)
	require.Error(t, db.PutTenant(ctx, acme, claim.NewAPIKey("acme")+"x"), "a key that no node would let in")

	pool.TenantCache = 20 * time.Millisecond
	other := view(t, open(t, sqlstore.Config{URL: d.url, Pool: pool}), regions[1])
	_, found, err = other.TenantByAPIKey(ctx, claim.HashAPIKey("sk_new"))
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, db.RotateKey(ctx, "acme", "sk_new", 0))
	require.Eventually(t, func() bool {
		_, found, err := other.TenantByAPIKey(ctx, claim.HashAPIKey("sk_new"))
		return err == nil && found
	}, patience, time.Millisecond)
	require.Eventually(t, func() bool { // one that was let in, and has ended
		_, found, err := other.TenantByAPIKey(ctx, claim.HashAPIKey("sk_old"))
		return err == nil && !found
	}, patience, time.Millisecond)
	require.Eventually(t, func() bool { // also from memory, which forgets it
		_, _, known := other.TenantInMemory(claim.HashAPIKey("sk_old"))
		return !known
	}, patience, time.Millisecond)
}

// TestAFloodOfStrangersHoldsNobodyBack: while the database is slow to find a key that
// nobody was seen with, a flood of such keys keeps neither charges nor known merchants
// out, sends nothing, and ends in "not known", never in "refused".
func TestAFloodOfStrangersHoldsNobodyBack(t *testing.T) {
	w := newWire(t, newDatabase(t), "acme", testPool())
	ctx, pool := t.Context(), testPool()
	pool.MaxConns, pool.MinConns = 4, 0
	pool.StatementTimeout, pool.CallTimeout = 4*time.Second, 6*time.Second
	pool.TenantCache = 1 // a merchant who was seen is looked up again, and is known
	var said sqlstore.Listener
	db := open(t, sqlstore.Config{URL: w.proxy.URL(w.admin), Pool: pool}.Listen(&said))
	v := view(t, db, here)
	require.NoError(t, w.other.PutTenant(ctx, claim.Tenant{ID: "acme", Name: "Acme", Registrar: here}, "sk_acme"))
	knownHere := func() {
		t.Helper()
		_, found, err := v.TenantByAPIKey(ctx, claim.HashAPIKey("sk_acme"))
		require.NoError(t, err)
		require.True(t, found)
	}
	knownHere()

	stalled := w.proxy.Arm(lookUp, wireproxy.StallBefore, 1)
	const flood = 400
	answers := make(chan error, flood)
	for i := range flood {
		go func() {
			_, found, err := v.TenantByAPIKey(ctx, claim.HashAPIKey(fmt.Sprint("sk_flood_", i)))
			if err == nil && !found {
				err = errors.New("said to be nobody's")
			}
			answers <- err
		}()
	}
	require.Eventually(t, func() bool { return stalled.Fired() == 1 && len(answers) >= flood-256 }, patience, time.Millisecond)
	before := said.Times(lookUp)
	for i := range 20 {
		knownHere()
		got, err := v.Begin(ctx, claimtest.NewArrival(claim.Key{Tenant: "acme", Value: fmt.Sprint("k", i)}, here, "100", "node", fmt.Sprint("ch_k", i)))
		require.NoError(t, err)
		require.Equal(t, claim.Won, got.Decision)
	}
	require.Equal(t, 20, said.Times(lookUp)-before, "the flood was looked up")
	for range flood {
		require.ErrorIs(t, <-answers, claim.ErrUnavailable)
	}
}

// A node that has cached no tenant yet, of a database that has no connection to spare, looks
// API keys up on a connection that it has.
func TestKeysAreLookedUpWithoutAConnectionToSpare(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("its connections are not limited by role")
	}
	pool, ctx := testPool(), t.Context()
	pool.MinConns = 0
	admin := open(t, sqlstore.Config{URL: d.admin})
	for i := range 40 {
		require.NoError(t, admin.PutTenant(ctx, claim.Tenant{ID: fmt.Sprint("t", i), Registrar: regions[0]}, fmt.Sprint("sk_", i)))
	}
	as := d.role(t, "cold")
	d.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO cold")
	db := open(t, sqlstore.Config{URL: as, Pool: pool})
	v := view(t, db, regions[0])
	d.exec(t, "ALTER ROLE cold CONNECTION LIMIT 1")
	require.Equal(t, 1, db.Connections(), "of those that charges use")
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			got, found, err := v.TenantByAPIKey(ctx, claim.HashAPIKey(fmt.Sprint("sk_", i)))
			if err != nil || !found || got.ID != fmt.Sprint("t", i) {
				t.Errorf("%q, %v: %v", got.ID, found, err)
			}
		})
	}
	all.Wait()
	_, found, err := v.TenantByAPIKey(ctx, claim.HashAPIKey("sk_none"))
	require.NoError(t, err)
	require.False(t, found)
}

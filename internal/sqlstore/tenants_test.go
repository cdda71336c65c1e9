package sqlstore_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// TestRegistrarForgotten checks that pins at the previous registrar count for as
// long as they protect anything, however old they are, and not longer.
func TestRegistrarForgotten(t *testing.T) {
	d := newDatabase(t)
	if d.clock == nil {
		t.Skip("it needs a clock that can be moved by days: PostgreSQL's")
	}
	us, eu, asia := regions[0], regions[1], regions[2]
	db, ctx, policy := open(t, sqlstore.Config{URL: d.url}), t.Context(), testPolicy()
	db.StopWaiting()
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "acme", Registrar: us}, "sk"))
	near := view(t, db, us)
	owed := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "owed"}, us, "100", "n", "ch_owed")
	pin, err := near.Pin(ctx, owed.Key, us)
	require.NoError(t, err)
	owed.Stamped, owed.PinnedAt = false, pin.CreatedAt
	begun, err := near.Begin(ctx, owed)
	require.NoError(t, err)
	require.Equal(t, claim.Won, begun.Decision)
	require.NoError(t, db.MoveRegistrar(ctx, "acme", eu))

	sweep := func() string {
		t.Helper()
		for _, r := range regions { // also of the one that may be lost for good
			_, err := view(t, db, asia).SweepHome(ctx, r, 1000)
			require.NoError(t, err)
		}
		tenant, err := db.Tenant(ctx, "acme")
		require.NoError(t, err)
		require.Equal(t, eu, tenant.Registrar)
		return tenant.PreviousRegistrar
	}
	d.clock.advance(t, 3*policy.PinLife()) // the claim in flight never expires
	require.Equal(t, us, sweep())
	require.Error(t, db.MoveRegistrar(ctx, "acme", asia), "the pin in the third place would not be found")
	pin, err = view(t, db, asia).Pin(ctx, owed.Key, asia)
	require.NoError(t, err)
	require.Equal(t, us, pin.Home, "an outcome is still owed there")

	_, err = near.Settle(ctx, begun.Record, claim.Verdict{Outcome: &claim.Done{Response: claim.Response{Status: 201}}})
	require.NoError(t, err)
	// The pin that was confirmed went over to the new registrar by that.
	require.Empty(t, sweep())
	require.NoError(t, db.MoveRegistrar(ctx, "acme", asia))
	require.Error(t, db.MoveRegistrar(ctx, "acme", us))

	// A pinning statement that began before a move may be about to leave a pin.
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "globex", Registrar: us}))
	require.NoError(t, db.MoveRegistrar(ctx, "globex", eu))
	require.Error(t, db.MoveRegistrar(ctx, "globex", asia))
	require.NoError(t, db.MoveRegistrar(ctx, "globex", us), "the way back is open")
	d.clock.advance(t, time.Minute)
	require.NoError(t, db.MoveRegistrar(ctx, "globex", asia))
	before := func() string {
		t.Helper()
		for _, r := range regions {
			_, err := near.SweepHome(ctx, r, 1000)
			require.NoError(t, err)
		}
		tenant, err := db.Tenant(ctx, "globex")
		require.NoError(t, err)
		return tenant.PreviousRegistrar
	}
	require.Equal(t, us, before(), "no pin is there yet")
	d.clock.advance(t, time.Hour)
	require.Empty(t, before())
}

// TestCardNumbers: what becomes of a tenant's card numbers is in its row; the default is to
// refuse them.
func TestCardNumbers(t *testing.T) {
	d := newDatabase(t)
	db, ctx := open(t, sqlstore.Config{URL: d.url}), t.Context()
	reads := func(want claim.CardNumbers) {
		t.Helper()
		tenant, found, err := view(t, db, regions[2]).TenantByAPIKey(ctx, claim.HashAPIKey("sk"))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, want, tenant.CardNumbers)
	}
	d.exec(t, "INSERT INTO tenants (id, name, registrar, created_at) VALUES ('acme', 'Acme', '"+regions[0]+"', now())")
	require.NoError(t, db.RotateKey(ctx, "acme", "sk", 0))
	reads(claim.RefuseCardNumbers)
	for _, c := range []claim.CardNumbers{claim.AllowCardNumbers, claim.MaskCardNumbers, claim.RefuseCardNumbers} {
		require.NoError(t, db.SetCardNumbers(ctx, "acme", c))
		reads(c)
	}
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "acme", Registrar: regions[0], CardNumbers: claim.MaskCardNumbers}))
	reads(claim.MaskCardNumbers)
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "acme", Registrar: regions[0]}))
	reads(claim.RefuseCardNumbers)
	require.Error(t, db.SetCardNumbers(ctx, "acme", "maybe"), "the table says what there is")
	require.ErrorIs(t, db.SetCardNumbers(ctx, "nobody", claim.MaskCardNumbers), claim.ErrUnknownTenant)
}

// TestRoutes: where a tenant's payments go is in its row; the default is nothing.
func TestRoutes(t *testing.T) {
	d := newDatabase(t)
	db, ctx := open(t, sqlstore.Config{URL: d.url}), t.Context()
	d.exec(t, "INSERT INTO tenants (id, name, registrar, created_at) VALUES ('acme', 'Acme', '"+regions[0]+"', now())")
	reads := func(want string) {
		t.Helper()
		tenant, err := db.Tenant(ctx, "acme")
		require.NoError(t, err)
		require.Equal(t, want, tenant.Routes)
	}
	reads("")
	require.NoError(t, db.SetRoutes(ctx, "acme", "eur=bank,*=stripe"))
	reads("eur=bank,*=stripe")
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "acme", Registrar: regions[0], Routes: "*=bank"}))
	reads("*=bank")
	require.NoError(t, db.SetRoutes(ctx, "acme", ""))
	reads("")
	require.ErrorIs(t, db.SetRoutes(ctx, "nobody", "*=bank"), claim.ErrUnknownTenant)
}

// TestAPIKeys checks that only hashes are stored, that a rotation leaves the old
// keys their time, and that keys belong to one tenant.
func TestAPIKeys(t *testing.T) {
	d := newDatabase(t)
	db, ctx := open(t, sqlstore.Config{URL: d.url}), t.Context()
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "acme", Name: "Acme", Registrar: regions[0]}, "sk_first"))
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "globex", Registrar: regions[1]}, "sk_other"))
	require.Error(t, db.PutTenant(ctx, claim.Tenant{ID: "globex", Registrar: regions[1]}, "sk_first"), "another tenant's key")
	require.Error(t, db.PutTenant(ctx, claim.Tenant{ID: "globex", Registrar: regions[1]}, ""))
	require.Error(t, db.PutTenant(ctx, claim.Tenant{ID: "new", Registrar: "mars"}))
	require.Error(t, db.PutTenant(ctx, claim.Tenant{Registrar: regions[0]}))

	opens := func(key string) bool {
		t.Helper()
		tenant, found, err := view(t, db, regions[2]).TenantByAPIKey(context.Background(), claim.HashAPIKey(key))
		require.NoError(t, err)
		require.True(t, !found || tenant.ID == "acme")
		return found
	}
	require.True(t, opens("sk_first"))
	require.False(t, opens("sk_none"))
	require.Zero(t, d.count(t, "SELECT count(*) FROM api_keys WHERE encode(hash, 'escape') LIKE '%sk_%'"))

	require.NoError(t, db.RotateKey(ctx, "acme", "sk_second", time.Hour))
	require.True(t, opens("sk_first"), "until its hour is over")
	require.True(t, opens("sk_second"))
	keys, err := db.APIKeys(ctx, "acme")
	require.NoError(t, err)
	byHash := map[claim.APIKeyHash]claim.StoredAPIKey{}
	for _, k := range keys {
		require.False(t, k.Ended)
		require.False(t, k.CreatedAt.IsZero())
		byHash[k.Hash] = k
	}
	require.True(t, byHash[claim.HashAPIKey("sk_second")].EndsAt.IsZero())
	require.False(t, byHash[claim.HashAPIKey("sk_first")].EndsAt.IsZero())
	require.NotContains(t, byHash, claim.HashAPIKey("sk_other"), "another tenant's")
	if d.clock != nil {
		d.clock.advance(t, time.Hour)
		require.False(t, opens("sk_first"))
		keys, err = db.APIKeys(ctx, "acme")
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(keys, func(k claim.StoredAPIKey) bool { return k.Hash == claim.HashAPIKey("sk_first") && k.Ended }))
	}
	require.NoError(t, db.RotateKey(ctx, "acme", "sk_third", 0))
	require.False(t, opens("sk_second"))
	require.True(t, opens("sk_third"))
	require.Error(t, db.RotateKey(ctx, "acme", "sk_other", 0), "another tenant's key")
	require.True(t, opens("sk_third"), "a refused rotation changes nothing")
	require.ErrorIs(t, db.RotateKey(ctx, "nobody", "sk_x", 0), claim.ErrUnknownTenant)
	require.ErrorIs(t, db.MoveRegistrar(ctx, "nobody", regions[1]), claim.ErrUnknownTenant)
	require.Error(t, db.MoveRegistrar(ctx, "acme", "mars"))
}

package sqlstore_test

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

func tenantWrites(commit string) []operation {
	return []operation{{
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
		name: "set a tenant's rate", statements: []string{"tenant_change"}, latest: true,
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
		name: "set a tenant's routes", statements: []string{"tenant_change"}, latest: true,
		before: ownTenant,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.hurt.SetRoutes(ctx, c.key.Tenant, "*=bank")
		},
		right:  noAnswer,
		effect: func(_ *cell, _, _ *stored) {},
		next: func(c *cell, done bool) {
			tenant, err := c.other.Tenant(c.ctx, c.key.Tenant)
			require.NoError(c, err)
			require.Equal(c, done, tenant.Routes == "*=bank")
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

// ownTenant gives the cell a tenant that nobody else has, with one API key.
func ownTenant(c *cell) {
	c.key.Tenant += "-" + c.key.Value
	require.NoError(c, c.other.PutTenant(c.ctx, claim.Tenant{ID: c.key.Tenant, Name: "Acme", Registrar: here}, "old "+c.key.Value))
}

func opens(c *cell, key string, want bool) {
	c.Helper()
	tenant, found, err := c.others.TenantByAPIKey(c.ctx, claim.HashAPIKey(key+c.key.Value))
	require.NoError(c, err)
	require.Equal(c, want, found)
	if want {
		require.Equal(c, c.key.Tenant, tenant.ID)
	}
}

package node

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
)

// mindful is a store that has one tenant in memory, and answers nothing else.
type mindful struct{ deployment.Store }

func (mindful) TenantInMemory(claim.APIKeyHash) (t claim.Tenant, found, known bool) {
	return claim.Tenant{ID: "acme"}, true, true
}

func (mindful) TenantByAPIKey(context.Context, claim.APIKeyHash) (claim.Tenant, bool, error) {
	return claim.Tenant{}, false, claim.ErrUnavailable
}

// TestATenantInMemoryNeedsNoStore: what a node has in memory it neither waits for nor asks of others.
func TestATenantInMemoryNeedsNoStore(t *testing.T) {
	store := mindful{}
	tenant, found, err := tenants{store, &Node{c: Config{Store: store}}}.TenantByAPIKey(t.Context(), claim.HashAPIKey("sk_acme")) // a node without a router
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "acme", tenant.ID)
}

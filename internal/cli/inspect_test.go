package cli

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/inspect"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// Commands on the database have no settings of its nodes, and say what the nodes have promised: when a
// key expires, and how long pins count.
func TestCommandsKnowThePromisedWindows(t *testing.T) {
	url := migrated(t, "us-east1,europe-west1,asia-northeast1")
	does(t, "tenant", "create", "acme", "--name", "Acme", "--registrar", "us-east1")
	promised := claim.DefaultPolicy()
	promised.ReplayFor, promised.TombstoneFor = 72*time.Hour, 48*time.Hour
	require.NoError(t, node.WithDatabase(t.Context(), url, func(db *sqlstore.DB) error { return db.Promise(t.Context(), &promised) }))
	id, err := claim.NewObjectID("ch", 2, nil)
	require.NoError(t, err)
	require.NoError(t, (&storeFlags{}).withRows(t.Context(), func(s *store) error {
		aCharge(t, s, "europe-west1", "order-1", id)
		return nil
	}))
	var h inspect.History
	require.NoError(t, json.Unmarshal([]byte(does(t, "inspect", id, "--json")), &h))
	require.Equal(t, promised.ReplayFor, h.Claim.ExpiresAt.Sub(h.Claim.SettledAt))
	require.Equal(t, promised.TombstoneFor, h.Claim.FreeAt.Sub(h.Claim.ExpiresAt))

	require.Contains(t, does(t, "tenant", "move-registrar", "acme", "--to", "europe-west1"), "121h0m0s as a rule")
	refuses(t, []string{"usually 121h0m0s after the move"}, "tenant", "move-registrar", "acme", "--to", "asia-northeast1")
}

// Commands do not know how long nodes cache tenants. Who revokes a key reads which setting decides.
func TestCommandsNameTheSettingOfNodes(t *testing.T) {
	migrated(t, "us-east1")
	does(t, "tenant", "create", "acme", "--name", "Acme", "--registrar", "us-east1")
	for _, args := range [][]string{
		{"rotate-key", "acme"}, {"keys", "acme"}, {"set", "acme", "--default"}, {"set", "acme", "--card-numbers", "mask"}, {"set", "acme", "--routes", "*=stripe"},
	} {
		require.Contains(t, does(t, append([]string{"tenant"}, args...)...), "database.tenant_cache", args)
	}
}

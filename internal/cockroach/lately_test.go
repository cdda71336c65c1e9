package cockroach_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/cockroach/wireproxy"
)

// TestARetryIsLookedUp: the node that has just had a key looks its claim up, where another
// node first tries to make one. Neither matters where the claim is gone meanwhile.
func TestARetryIsLookedUp(t *testing.T) {
	w := newWire(t, newDatabase(t), "acme", testPool())
	c := w.cell(t)
	held := c.arrives("z", claim.Won)
	again := func(decision claim.Decision) claim.Begun {
		t.Helper()
		got, err := c.ours.Begin(c.ctx, c.arrival("a"))
		require.NoError(t, err)
		require.Equal(t, decision, got.Decision)
		return got
	}
	again(claim.Busy)
	c.settles(held, approved)
	begins := c.proxy.Arm("begin", wireproxy.DropBefore, 1)
	again(claim.Replay)
	require.Zero(t, begins.Fired(), "it is known here")

	c.sql("DELETE FROM claims WHERE tenant_id = $1 AND idem_key = $2", c.key.Tenant, c.key.Value)
	got := again(claim.Won)
	require.Equal(t, 1, begins.Fired())
	row, _, found, err := c.others.Get(c.ctx, c.key, here)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, got.Record, row)
}

package sqlstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/wireproxy"
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

// TestBeginMakesNothing: begin makes no claim, find finds none, and the pin is young enough
// by find's clock. Gateways of CockroachDB differ by a little, and a pin is asked for anew;
// a stamped key needs none, and its request ends.
func TestBeginMakesNothing(t *testing.T) {
	d := newDatabase(t)
	if d.server.Kind() == localdb.CockroachDB {
		t.Skip("one gateway has one clock")
	}
	c := newWire(t, d, "acme", testPool()).cell(t)
	a := c.arrival("a")
	pin, err := c.ours.Pin(c.ctx, c.key, here)
	require.NoError(t, err)
	a.Stamped, a.PinnedAt = false, pin.CreatedAt
	d.exec(t, `CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
	d.exec(t, "CREATE TRIGGER nothing BEFORE INSERT ON claims FOR EACH ROW EXECUTE FUNCTION nothing()")
	got, err := c.ours.Begin(c.ctx, a)
	require.NoError(t, err)
	require.Equal(t, claim.NeedPin, got.Decision)
	_, err = c.ours.Begin(c.ctx, c.arrival("a"))
	require.ErrorIs(t, err, claim.ErrUnavailable)

	d.exec(t, "DROP TRIGGER nothing ON claims")
	got, err = c.ours.Begin(c.ctx, a)
	require.NoError(t, err)
	require.Equal(t, claim.Won, got.Decision)
}

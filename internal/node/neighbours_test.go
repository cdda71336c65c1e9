package node

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/router"
)

// A node whose store is silent has whoever asks it go elsewhere, whatever it is asked for.
func TestNothingWaitsForASilentStore(t *testing.T) {
	routes := router.New(router.Config{Self: "eu", Unready: func(string) bool { return true }})
	l := local{routes: routes, inHand: new(atomic.Int64)}
	_, err := l.Execute(t.Context(), "eu", claim.Request{})
	require.ErrorIs(t, err, claim.ErrUnavailable)
	_, _, err = l.Inspect(t.Context(), "eu", claim.Key{})
	require.ErrorIs(t, err, claim.ErrUnavailable)
	_, _, _, err = l.Object(t.Context(), "acme", "eu", "ch_1")
	require.ErrorIs(t, err, claim.ErrUnavailable)
	_, _, err = (&Node{routes: routes}).tenant(t.Context(), claim.APIKeyHash{})
	require.ErrorIs(t, err, claim.ErrUnavailable)
}

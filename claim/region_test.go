package claim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRegionStatus(t *testing.T) {
	for status, want := range map[RegionStatus]string{
		RegionActive: "active", RegionDraining: "draining", RegionDown: "down", 9: "status(9)",
	} {
		text, err := status.MarshalText()
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}

// A key that names its home is no key to be pinned, whatever its request says.
func TestPinnable(t *testing.T) {
	stamped, err := Stamp(2, nil)
	require.NoError(t, err)
	require.ErrorContains(t, Pinnable(Key{Tenant: "acme", Value: stamped}), "Request.Stamp")
	require.NoError(t, Pinnable(Key{Tenant: "acme", Value: "order-1"}))
}

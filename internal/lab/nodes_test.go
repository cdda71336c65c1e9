package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatTheClusterDecidesIsRefused: a variable that would be dropped in silence is named.
func TestWhatTheClusterDecidesIsRefused(t *testing.T) {
	require.NoError(t, refuseSettings([]string{"HOMEWARD_CLAIM__LEASE=20s", "HOMEWARD_DATABASE_URL=x", "PATH=/bin"}))
	err := refuseSettings([]string{"HOMEWARD_PROVIDER__KIND=stripe", "HOMEWARD_CLAIM__LEASE=20s", "HOMEWARD_PROVIDERS__A__KEY=hunter2"})
	require.ErrorContains(t, err, "HOMEWARD_PROVIDER__KIND is set")
	require.ErrorContains(t, err, "HOMEWARD_PROVIDERS__A__KEY is set")
	require.NotContains(t, err.Error(), "hunter2")
	require.NotContains(t, err.Error(), "LEASE")
}

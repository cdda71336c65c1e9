package lab

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// TestASimulatorKeepsItsSecret: webhooks that a killed process left unsent are signed with
// the secret that nodes of the next one verify.
func TestASimulatorKeepsItsSecret(t *testing.T) {
	start := func(dir string) string {
		s, err := StartSimulator("--psp-listen", "127.0.0.1:0", simulator.Config{Dir: dir})
		require.NoError(t, err)
		require.NoError(t, s.Notify("http://127.0.0.1:1"))
		require.NoError(t, s.Stop(t.Context()))
		return s.Secret()
	}
	kept := t.TempDir()
	first := start(kept)
	require.Equal(t, first, start(kept))
	require.NotEqual(t, first, start(t.TempDir()))
}

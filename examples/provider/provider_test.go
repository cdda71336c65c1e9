package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/psptest"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// The conformance suite loses replies, repeats calls, hangs up and reads the provider's
// books. Here the provider is the simulator; take your provider's sandbox, or a double with
// books that the test can read.
func TestConformance(t *testing.T) {
	psptest.Exercise(t, harness)
}

func harness(t *testing.T) psptest.Harness {
	sim, err := simulator.Open(simulator.Config{NoLookup: true})
	require.NoError(t, err)
	server := httptest.NewServer(sim.Handler())
	adapter := newGiftCards(server.URL)
	t.Cleanup(func() {
		adapter.client.CloseIdleConnections()
		server.Close()
		require.NoError(t, sim.Close())
	})
	h := psptest.Simulated(t, sim, adapter, nil)
	h.Destination, h.Unasked = "", nil // it has no transfers, and sends no notices
	return h
}

func TestRun(t *testing.T) {
	h := harness(t)
	var out strings.Builder
	run(t.Context(), &out, h.Provider)
	lines := strings.Fields(out.String())
	require.Len(t, lines, 4, out.String())
	require.Equal(t, "approved", lines[0])
	require.Equal(t, lines[1], lines[3], "both calls are one movement")
	require.Equal(t, 1, h.Effects(psp.KindCharge, "ch_example"))
}

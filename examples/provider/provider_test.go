package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/psptest"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// The conformance suite loses replies, repeats calls, hangs up and reads the provider's
// books. The simulator is the provider here; yours is its sandbox, or a double of it whose
// books the test can read.
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
	faults := func(f simulator.Faults) { require.NoError(t, sim.SetFaults(f)) }
	always := map[bool]float64{true: 1}
	return psptest.Harness{
		Provider: adapter,
		Approves: "pm_card_visa", DeclinesSoftly: "pm_card_insufficient_funds", DeclinesHard: "pm_card_stolen", Invalid: "pm_unheard_of",
		Effects: func(kind psp.Kind, reference string) (n int) {
			for _, e := range sim.Effects() {
				if e.Kind == kind && e.Reference == reference {
					n++
				}
			}
			return n
		},
		DropReplies: func(on bool) { faults(simulator.Faults{DropReply: always[on]}) },
		FailBefore:  func(on bool) { faults(simulator.Faults{ErrorBefore: always[on]}) },
		Hold: func() (<-chan struct{}, func()) {
			arrived, gate := make(chan struct{}, 64), make(chan struct{})
			sim.SetHooks(simulator.Hooks{Before: func(context.Context, psp.Call) {
				arrived <- struct{}{}
				<-gate
			}})
			return arrived, sync.OnceFunc(func() { close(gate) })
		},
		Late: func() func() {
			faults(simulator.Faults{LateEffect: 1, LateBy: time.Hour})
			return func() { faults(simulator.Faults{}); sim.ReleaseLate() }
		},
		Fail: func(ref string) { require.NoError(t, sim.Fail(ref)) },
	}
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

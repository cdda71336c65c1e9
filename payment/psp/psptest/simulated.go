package psptest

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// Simulated is the harness of an adapter in front of a simulator, but for its notices. ids converts
// the simulator's ids of unasked movements to those that the adapter reads; nil: the same.
func Simulated(t testing.TB, sim *simulator.Simulator, p psp.Provider, ids func(string) string) Harness {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	faults := func(f simulator.Faults) { must(sim.SetFaults(f)) }
	always := map[bool]float64{true: 1}
	return Harness{
		Provider: p,
		Approves: "pm_card_visa", DeclinesSoftly: "pm_card_insufficient_funds",
		DeclinesHard: "pm_card_stolen", Invalid: "pm_unheard_of", Destination: "acct_supplier",
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
		Fail: func(providerRef string) { must(sim.Fail(providerRef)) },
		Unasked: func(kind psp.Kind, of string, amount int64) string {
			u := simulator.Unasked{Kind: kind, Of: of, Amount: amount, Reason: "fraudulent"}
			if kind == psp.KindPayout {
				u.Currency = "usd"
			}
			id, err := sim.Do(u)
			must(err)
			if ids != nil {
				return ids(id)
			}
			return id
		},
	}
}

// SimulatedNotices has the simulator send its notices to a receiver, and sets its URL.
func SimulatedNotices(t testing.TB, sim *simulator.Simulator, to simulator.NoticeTarget) <-chan Delivery {
	t.Helper()
	handler, in := Receiver()
	receiver := httptest.NewServer(handler)
	t.Cleanup(func() { _ = sim.Close(); receiver.Close() })
	to.URL = receiver.URL
	if err := sim.SetNotices(simulator.Notices{Targets: []simulator.NoticeTarget{to}}); err != nil {
		t.Fatal(err)
	}
	return in
}

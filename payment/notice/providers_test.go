package notice

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// second is another provider, with movements of its own.
type second struct {
	provider
	shows map[string]psp.Movement
}

func (second) Name() string { return "other" }

func (s second) Show(_ context.Context, _ psp.Kind, _, ref string) (psp.Found, psp.Movement, error) {
	if m, ok := s.shows[ref]; ok {
		return psp.FoundYes, m, nil
	}
	return psp.FoundNo, psp.Movement{}, nil
}

// paidAt books the object's charge at a provider.
func (w *world) paidAt(id, provider string) {
	booked := w.books[id]
	booked.Provider, booked.Debit = provider, ledger.Provider(provider)
	w.books[id] = booked
}

// A movement at one provider beside a charge that was paid at another is refunded if each provider
// shows its own. It is no second notice of the charge, though both have the same reference.
func TestAMovementBesideAChargeOfAnotherProvider(t *testing.T) {
	id := objectID(t, "ch", 1)
	shown := psp.Movement{ProviderRef: "p1", Reference: id, Amount: 100, Currency: "usd", Outcome: psp.Approved}
	for name, c := range map[string]struct {
		has     bool // this node has the other provider
		shows   bool // and it shows the charge
		verdict string
	}{
		"each shows its movement": {true, true, "Gone"},
		"the other shows none":    {true, false, "Parked: not given back"},
		"the other is not here":   {false, true, "Failed: this node does not have the provider other"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.have(id, claim.Completed, "p1")
			w.paidAt(id, "other")
			p := w.processor()
			if other := (second{provider{world: w}, map[string]psp.Movement{}}); c.has {
				if c.shows {
					other.shows["p1"] = shown
				}
				p.c.Compensator.Providers = append(p.c.Compensator.Providers, other)
			}
			w.shows["p1"] = shown
			body, err := json.Marshal(charged(id, "p1"))
			require.NoError(t, err)
			require.Contains(t, fmt.Sprint(w.handle(p, body, "e")), c.verdict)
			require.Equal(t, c.verdict == "Gone", w.closed["sim:e"] == ProcessedCompensated)
			_, isGhost := w.books[ledger.GhostID("sim", "p1")]
			require.Equal(t, c.verdict == "Gone", isGhost)
		})
	}
}

// Only a node with the provider can ask whether a ghost has failed since. Another one, which found it as
// well, leaves it to that: it would have money given back that the provider has taken back itself.
func TestAGhostWaitsForANodeThatCanAsk(t *testing.T) {
	w := newWorld(t)
	id := objectID(t, "ch", 1)
	w.have(id, claim.FailedTerminal, "")
	w.shows["p1"] = psp.Movement{ProviderRef: "p1", Reference: id, Amount: 100, Currency: "usd", Outcome: psp.Declined}
	payload, err := json.Marshal(payment.Withdrawn{Object: id, Provider: "sim", ProviderRef: "p1", Amount: 100, Currency: "usd"})
	require.NoError(t, err)
	row := outbox.Message{ID: id, Region: home, Tenant: tenant, Payload: payload, CreatedAt: w.now}
	p := w.processor()
	all := p.c.Compensator.Providers
	p.c.Compensator.Providers = psp.Providers{}
	require.Contains(t, fmt.Sprint(p.Refund(t.Context(), row)), "Later")
	require.Empty(t, w.moved)
	require.Empty(t, w.begun)
	p.c.Compensator.Providers = all
	require.Contains(t, fmt.Sprint(p.Refund(t.Context(), row)), "Done")
	require.Empty(t, w.moved, "the provider shows that the movement has failed")
}

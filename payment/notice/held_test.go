package notice

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// A notice about held money settles the charge, and the order that it answers, each once and
// whatever was done before. A repeat changes neither.
func TestWordsAboutHeldMoney(t *testing.T) {
	const payload = `{"amount":100,"capture_method":"manual","currency":"usd","payment_method":"pm_1"}`
	word := func(o psp.Outcome, order string) psp.Notice {
		n := psp.Notice{ID: "e", Movement: true, Kind: psp.KindCharge, ProviderRef: "p1", Outcome: o, Held: true, Order: order, Amount: 60, Currency: "usd"}
		if o == psp.Declined {
			n.Decline = &psp.Decline{Class: psp.Soft, Code: "canceled", Message: "It was let go."}
		}
		return n
	}
	order := objectID(t, "cap", 2)
	for name, c := range map[string]struct {
		n             psp.Notice
		change        func(w *world, charge, order *claim.Record)
		charge, order claim.State
		words         int
		status        Status
		cancels       int
	}{
		"captured":                {word(psp.Approved, order), nil, claim.Completed, claim.Completed, 1, ProcessedOK, 0},
		"captured by hand":        {word(psp.Approved, ""), nil, claim.Completed, claim.InFlight, 1, ProcessedOK, 0},
		"let go":                  {word(psp.Declined, order), nil, claim.FailedTerminal, claim.Completed, 1, ProcessedOK, 0},
		"the order failed":        {word(psp.Authorized, order), nil, claim.InFlight, claim.FailedRetry, 1, ProcessedOK, 0},
		"held":                    {word(psp.Authorized, ""), nil, claim.InFlight, claim.InFlight, 1, ProcessedOK, 0},
		"another has the charge":  {word(psp.Approved, order), func(w *world, _, _ *claim.Record) { w.lease = true }, claim.InFlight, claim.InFlight, 0, "", 0},
		"of more than is held":    {func() psp.Notice { n := word(psp.Approved, order); n.Amount = 101; return n }(), nil, claim.InFlight, claim.InFlight, 0, "", 0},
		"in another currency":     {func() psp.Notice { n := word(psp.Approved, order); n.Currency = "eur"; return n }(), nil, claim.InFlight, claim.InFlight, 0, "", 0},
		"it has look-ups":         {word(psp.Authorized, order), func(w *world, charge, _ *claim.Record) { w.blind, charge.Interim = false, nil }, claim.InFlight, claim.InFlight, 0, Ignored, 0},
		"the charge was given up": {word(psp.Authorized, ""), func(_ *world, charge, _ *claim.Record) { charge.State, charge.Interim = claim.FailedTerminal, nil }, claim.FailedTerminal, claim.InFlight, 0, ProcessedOK, 1},
		"the rest of it is let go": {word(psp.Declined, ""), func(w *world, charge, _ *claim.Record) {
			w.have(charge.Minted.ID, claim.Completed, "p1")
			*charge = w.claims[charge.Minted.ID]
		}, claim.Completed, claim.InFlight, 0, ProcessedOK, 0},
		"an order that is no order": {word(psp.Authorized, objectID(t, "re", 3)), nil, claim.InFlight, claim.InFlight, 1, ProcessedOK, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.blind = true
			id := objectID(t, "ch", 1)
			w.have(id, claim.InFlight, "p1")
			w.have(order, claim.InFlight, "p1")
			charge, by := w.claims[id], w.claims[order]
			charge.Interim, charge.Generation = &claim.Interim{State: string(psp.Processing), By: order}, 1
			by.Operation, by.Interim = "capture", &claim.Interim{State: string(psp.Processing)}
			if c.change != nil {
				c.change(w, &charge, &by)
			}
			w.claims[id], w.claims[order] = charge, by
			w.calls[id] = outbox.Message{ID: id, Region: home, Tenant: tenant, Payload: []byte(payload)}
			w.calls[order] = outbox.Message{ID: order, Region: home, Tenant: tenant}
			c.n.Reference = id
			for range 2 {
				w.deliver(c.n)
			}
			require.Equal(t, [2]claim.State{c.charge, c.order}, [2]claim.State{w.claims[id].State, w.claims[order].State})
			require.Equal(t, c.status, w.closed["sim:e"])
			require.GreaterOrEqual(t, len(w.words), c.words)
			if c.words == 0 {
				require.Empty(t, w.words)
			} else {
				require.Equal(t, claim.Held{By: "sim", Ref: "p1", Order: c.n.Order, Word: wordOf(&c.n), Amount: 60, Currency: "usd"}, w.words[0])
			}
			require.Equal(t, c.cancels > 0, len(w.cancels) > 0)
			for _, call := range w.cancels {
				require.Equal(t, [3]string{id, id, "p1"}, [3]string{call.Reference, call.Of, call.Source})
			}
			require.Empty(t, w.moved)
		})
	}
}

// The authorization of a payment lapses for what was not captured of it. Its notice may come before that
// of the capture, and reports the authorized amount all the same: it decides nothing while a capture is
// under way.
func TestWhatLapsesDoesNotOvertakeACapture(t *testing.T) {
	const payload = `{"amount":100,"capture_method":"manual","currency":"usd","payment_method":"pm_1"}`
	id, order := objectID(t, "ch", 1), objectID(t, "cap", 2)
	word := func(event string, o psp.Outcome, order string, amount int64) psp.Notice {
		return psp.Notice{ID: event, Movement: true, Kind: psp.KindCharge, Reference: id, ProviderRef: "p1", Outcome: o, Held: true, Order: order, Amount: amount, Currency: "usd"}
	}
	lapsed := word("lapsed", psp.Declined, "", 100)
	lapsed.Decline = &psp.Decline{Class: psp.Soft, Code: psp.CodeLapsed, Message: "It has lapsed."}
	for name, c := range map[string]struct {
		by      string
		before  *psp.Notice
		waits   bool
		charge  claim.State
		freed   bool // the order came to nothing
		ordered claim.State
	}{
		"of a capture that succeeds":  {order, new(word("captured", psp.Approved, order, 60)), true, claim.Completed, false, claim.Completed},
		"of a capture that fails":     {order, nil, true, claim.FailedTerminal, true, claim.InFlight},
		"without a capture":           {"", nil, false, claim.FailedTerminal, false, claim.InFlight},
		"while it is being let go of": {id, nil, false, claim.FailedTerminal, false, claim.InFlight},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.blind = true
			w.have(id, claim.InFlight, "p1")
			w.have(order, claim.InFlight, "p1")
			charge, by := w.claims[id], w.claims[order]
			charge.Interim, charge.Generation = &claim.Interim{State: string(psp.Processing), By: c.by}, 1
			by.Operation, by.Interim = "capture", &claim.Interim{State: string(psp.Processing)}
			w.claims[id], w.claims[order] = charge, by
			w.calls[id] = outbox.Message{ID: id, Region: home, Tenant: tenant, Payload: []byte(payload)}
			w.calls[order] = outbox.Message{ID: order, Region: home, Tenant: tenant}

			w.deliver(lapsed)
			require.Equal(t, c.waits, w.claims[id].State == claim.InFlight, "%v", w.claims[id].State)
			if c.waits {
				require.Empty(t, w.closed)
			}
			if c.before != nil {
				w.deliver(*c.before)
			}
			if c.freed {
				charge.Interim = &claim.Interim{State: "requires_capture"}
				w.claims[id] = charge
			}
			w.deliver(lapsed)
			require.Equal(t, [2]claim.State{c.charge, c.ordered}, [2]claim.State{w.claims[id].State, w.claims[order].State})
			require.Equal(t, ProcessedOK, w.closed["sim:lapsed"])
			require.Empty(t, w.moved, "what the merchant has captured is given back")
		})
	}
}

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
		"it has look-ups":         {word(psp.Authorized, order), func(w *world, charge, _ *claim.Record) { w.blind, charge.Interim = false, nil }, claim.InFlight, claim.InFlight, 0, "", 0},
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

// A payment that held its money is canceled or refunded at the provider, as by whoever reviews payments
// there, and its one event does not say which. It is canceled unless its money was captured: that has gone
// back. While a capture is under way its own event says which comes first.
func TestAReversalThatDoesNotSayWhich(t *testing.T) {
	const payload = `{"amount":100,"capture_method":"manual","currency":"usd","payment_method":"pm_1"}`
	id, order := objectID(t, "ch", 1), objectID(t, "cap", 2)
	reversed := psp.Notice{
		ID: "reversed", Movement: true, Kind: psp.KindCharge, Reference: id, ProviderRef: "p1", Outcome: psp.Declined, Held: true, Amount: 100, Currency: "usd",
		Decline: &psp.Decline{Class: psp.Soft, Code: "canceled", Message: "It was canceled."},
		Unasked: []psp.Unasked{{Kind: psp.KindRefund, ProviderRef: "r1", Of: "p1", Reference: id, Amount: 100, Currency: "usd"}},
	}
	for name, c := range map[string]struct {
		state    claim.State
		by       string
		captured int64
		charge   claim.State
		status   Status
		balance  int64
	}{
		"not captured":           {claim.InFlight, "", 0, claim.FailedTerminal, ProcessedOK, 0},
		"being let go of":        {claim.InFlight, id, 0, claim.FailedTerminal, ProcessedOK, 0},
		"being captured":         {claim.InFlight, order, 0, claim.InFlight, "", 0},
		"captured":               {claim.Completed, "", 100, claim.Completed, ProcessedOK, 0},
		"captured in part":       {claim.Completed, "", 60, claim.Completed, "", 60}, // a person sees how much went back
		"canceled, and reported": {claim.FailedTerminal, "", 0, claim.FailedTerminal, ProcessedOK, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.blind = true
			w.have(id, c.state, "p1")
			charge := w.claims[id]
			if charge.Generation = 1; c.state == claim.InFlight {
				charge.Interim = &claim.Interim{State: string(psp.Processing), By: c.by}
			}
			w.claims[id] = charge
			w.calls[id] = outbox.Message{ID: id, Region: home, Tenant: tenant, Payload: []byte(payload)}
			if c.captured > 0 {
				booked := w.books[id]
				booked.Amount = c.captured
				w.books[id] = booked
			}
			for range 2 {
				w.deliver(reversed)
			}
			require.Equal(t, c.charge, w.claims[id].State)
			require.Equal(t, c.status, w.closed["sim:reversed"])
			require.Equal(t, c.balance, w.balances()["provider:sim"])
			require.Empty(t, w.moved)
			if c.captured == 100 {
				require.Len(t, w.events, 2, "each sink reads of the refund")
			}
		})
	}
}

// Money that a provider with look-ups holds for a charge that was refused before anybody found the hold
// is let go: its payer would wait for days until it lapses. No other hold is touched.
func TestAHoldThatNobodyWaitsForIsLetGo(t *testing.T) {
	id := objectID(t, "ch", 1)
	for name, c := range map[string]struct {
		state   claim.State
		ref     string // the claim's
		change  func(*world, *psp.Notice)
		cancels int
		status  Status
	}{
		"its charge was refused":           {claim.FailedTerminal, "", nil, 1, ProcessedOK},
		"its charge was declined for now":  {claim.FailedRetry, "", nil, 1, ProcessedOK},
		"which its charge may go on with":  {claim.FailedRetry, "p1", nil, 0, Ignored},
		"beside the payment of its charge": {claim.Completed, "p2", nil, 1, ProcessedOK},
		"which its charge has captured":    {claim.Completed, "p1", nil, 0, Ignored},
		"its charge may find it yet":       {claim.InFlight, "", nil, 0, ""},
		"there is no such charge":          {0, "", nil, 0, Ignored},
		"the notice is out of date":        {claim.FailedTerminal, "p1", shows("p1", psp.Declined), 0, Ignored},
		"another's, as the provider shows it": {claim.FailedTerminal, "", func(w *world, _ *psp.Notice) {
			w.shows["p1"] = psp.Movement{ProviderRef: "p1", Outcome: psp.Authorized}
		}, 0, Ignored},
		"the provider does not answer": {claim.FailedTerminal, "", func(w *world, _ *psp.Notice) { w.silent = true }, 0, ""},
		"in an account that was not called": {claim.FailedTerminal, "", func(w *world, n *psp.Notice) {
			n.ProviderRef = "p1@acct_1"
			shows("p1@acct_1", psp.Authorized)(w, n)
		}, 0, Ignored},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.state != 0 {
				w.have(id, c.state, c.ref)
			}
			n := psp.Notice{ID: "e", Movement: true, Kind: psp.KindCharge, Reference: id, ProviderRef: "p1", Outcome: psp.Authorized, Amount: 100, Currency: "usd"}
			shows("p1", psp.Authorized)(w, &n)
			if c.change != nil {
				c.change(w, &n)
			}
			w.deliver(n)
			require.Equal(t, c.status, w.closed["sim:e"])
			require.Len(t, w.cancels, c.cancels)
			for _, call := range w.cancels {
				require.Equal(t, "p1", call.Source)
			}
			require.Empty(t, w.moved)
		})
	}
}

func shows(ref string, o psp.Outcome) func(*world, *psp.Notice) {
	return func(w *world, n *psp.Notice) {
		w.shows[ref] = psp.Movement{ProviderRef: ref, Reference: n.Reference, Amount: n.Amount, Currency: n.Currency, Outcome: o}
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

package payment

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
)

// backBooks are books in which the charge paid and the ghost px_ghost are booked, and what
// since says of each.
func backBooks(since func(of ledger.Transaction) ledger.Transaction) *books {
	b := someBooks()
	ghost := ledger.Transaction{
		ID: ledger.GhostID("fake", "px_ghost"), Region: "europe", Tenant: "acme", Kind: ledger.Ghost,
		Debit: ledger.Provider("fake"), Credit: ledger.Suspense("acme"), Amount: 1999, Currency: "usd",
		Object: paid, Provider: "fake", ProviderRef: "px_ghost",
	}
	b.all["europe/"+ghost.ID] = ghost
	for _, of := range []ledger.Transaction{ghost, b.all["europe/"+paid]} {
		t := since(of)
		b.all["europe/"+t.ID] = t
	}
	return b
}

// The payer of a charge, or of a ghost, has the money back once it is booked as failed, as disputed, or
// as refunded at the provider: no attempt gives it back a second time. A first one is refused; a later
// one asks what became of those before it, never calls, and is refused once nothing was found often
// enough. Where the money was given back all the same, a person is called.
func TestWhatThePayerHasBackIsNotGivenBack(t *testing.T) {
	onlyDedupe := both
	onlyDedupe.Lookup = false
	onlyLookup := both
	onlyLookup.Dedupe = psp.DedupeNone
	const why = "why"
	unasked := func(kind ledger.Kind) func(ledger.Transaction) ledger.Transaction {
		return func(of ledger.Transaction) ledger.Transaction {
			return ledger.UnaskedOf(of, kind, "px_unasked_"+of.ProviderRef, of.Amount)
		}
	}
	for name, c := range map[string]struct {
		change  func(a *claim.Attempt, p *fake)
		outcome string
		reason  string
		lookups int
		pages   []string
	}{
		"a first attempt": {change: func(*claim.Attempt, *fake) {}, outcome: claim.OutcomeReleased, reason: why},
		"nothing found": {change: func(a *claim.Attempt, p *fake) { a.Recovery, p.found = true, psp.FoundNo },
			outcome: claim.OutcomeUnknown, reason: reasonNotFound, lookups: 1},
		"nothing found often enough": {change: func(a *claim.Attempt, p *fake) {
			a.Recovery, p.found, a.Record.NotFounds = true, psp.FoundNo, askBeforeCall
		}, outcome: claim.OutcomeReleased, reason: why, lookups: 1},
		"nothing found by one that does not dedupe": {change: func(a *claim.Attempt, p *fake) {
			a.Recovery, p.found, a.Record.NotFounds, p.caps = true, psp.FoundNo, askBeforeCall, onlyLookup
		}, outcome: claim.OutcomeReleased, reason: why, lookups: 1},
		"no answer": {change: func(a *claim.Attempt, _ *fake) { a.Recovery = true }, outcome: claim.OutcomeUnknown, reason: reasonNotAsked, lookups: 1},
		"a provider without look-ups": {change: func(a *claim.Attempt, p *fake) { a.Recovery, p.caps = true, onlyDedupe },
			outcome: claim.OutcomeUnknown, reason: reasonCannotAsk},
		"found refused": {change: func(a *claim.Attempt, p *fake) {
			a.Recovery, p.found, p.shown = true, psp.FoundYes, decline(psp.Hard, "x", "")
		}, outcome: claim.OutcomeRefused, reason: "x", lookups: 1},
		"waits for its notice": {change: func(a *claim.Attempt, p *fake) {
			a.Recovery, p.caps, a.Record.Interim = true, onlyDedupe, &claim.Interim{State: string(psp.Processing)}
			p.caps.Blind = true
		}, outcome: claim.OutcomePending, reason: string(psp.Processing)},
		"found made": {change: func(a *claim.Attempt, p *fake) { a.Recovery, p.found, p.shown = true, psp.FoundYes, approved },
			outcome: claim.OutcomeDone, lookups: 1, pages: []string{PageUndone}},
		"reported by the provider": {change: func(a *claim.Attempt, _ *fake) { a.Recovery, a.ReportedRef, a.ReportedBy = true, "px_1", "fake" },
			outcome: claim.OutcomeDone, pages: []string{PageUndone}},
	} {
		for what, attempt := range map[string]claim.Attempt{"charge": refundOf(`{"charge":"` + paid + `"}`), "ghost": compensationOf()} {
			for code, since := range map[string]func(ledger.Transaction) ledger.Transaction{
				codeUndone: ledger.FailureOf, codeDisputed: unasked(ledger.DisputeOpened), codeTooMuch: unasked(ledger.ProviderRefund),
			} {
				t.Run(name+", "+what+", "+code, func(t *testing.T) {
					var said []string
					a, p := attempt, &fake{caps: both, result: approved}
					c.change(&a, p)
					v := See(executorOf(p, backBooks(since), &said).Attempt(t.Context(), a))
					require.Empty(t, p.calls, "a refund of money that has come back already was sent")
					require.Equal(t, cmp.Or(c.outcome, claim.OutcomeUnknown), v.Outcome)
					reason := c.reason
					if reason == why {
						reason = code
					}
					require.Equal(t, reason, v.Reason)
					require.Equal(t, c.lookups, p.lookups)
					require.Equal(t, c.pages, said)
				})
			}
		}
	}
}

// A dispute that was won has taken the money from the payer again: it is owed.
func TestWhatADisputeDoesNotTakeIsGivenBack(t *testing.T) {
	for what, attempt := range map[string]claim.Attempt{"charge": refundOf(`{"charge":"` + paid + `"}`), "ghost": compensationOf()} {
		for _, recovery := range []bool{false, true} {
			b := backBooks(func(of ledger.Transaction) ledger.Transaction {
				return ledger.UnaskedOf(of, ledger.DisputeOpened, "dp_"+of.ProviderRef, of.Amount)
			})
			for _, of := range b.all {
				if of.Kind == ledger.Ghost || of.ID == paid {
					won := ledger.UnaskedOf(of, ledger.DisputeWon, "dp_"+of.ProviderRef, of.Amount)
					b.all["europe/"+won.ID] = won
				}
			}
			a, p := attempt, &fake{caps: both, result: approved}
			a.Recovery = recovery
			v := See(executorOf(p, b, nil).Attempt(t.Context(), a))
			require.Len(t, p.calls, 1, what)
			require.Equal(t, claim.OutcomeDone, v.Outcome, what)
		}
	}
}

// The provider may have opened a dispute of a ghost, between two attempts to refund it, that has not
// been booked: a later attempt asks for it, and does not call while it stands.
func TestALaterAttemptAsksWhetherAGhostIsDisputed(t *testing.T) {
	onlyDedupe := both
	onlyDedupe.Lookup = false
	for name, c := range map[string]struct {
		change  func(a *claim.Attempt, p *fake)
		outcome string
		reason  string
		calls   int
	}{
		"disputed":            {change: func(_ *claim.Attempt, p *fake) { p.found = psp.FoundNo }, reason: reasonNotFound},
		"disputed in part":    {change: func(_ *claim.Attempt, p *fake) { p.found, p.movement.Disputed = psp.FoundNo, 1 }, reason: reasonNotFound},
		"without look-ups":    {change: func(_ *claim.Attempt, p *fake) { p.caps = onlyDedupe }, reason: reasonCannotAsk},
		"refunded before":     {change: func(_ *claim.Attempt, p *fake) { p.found, p.shown = psp.FoundYes, approved }, outcome: claim.OutcomeDone},
		"no answer":           {change: func(_ *claim.Attempt, p *fake) { p.movement = &psp.Movement{} }, reason: reasonNoFacts},
		"not disputed":        {change: func(_ *claim.Attempt, p *fake) { p.movement.Disputed = 0 }, outcome: claim.OutcomeDone, calls: 1},
		"not shown":           {change: func(_ *claim.Attempt, p *fake) { p.movement = nil }, outcome: claim.OutcomeDone, calls: 1},
		"a blind provider":    {change: func(_ *claim.Attempt, p *fake) { p.caps.Blind = true }, outcome: claim.OutcomeDone, calls: 1},
		"the first attempt":   {change: func(a *claim.Attempt, _ *fake) { a.Recovery = false }, outcome: claim.OutcomeDone, calls: 1},
		"reported as made":    {change: func(a *claim.Attempt, _ *fake) { a.ReportedRef, a.ReportedBy = "px_1", "fake" }, outcome: claim.OutcomeDone},
		"a merchant's refund": {change: func(a *claim.Attempt, _ *fake) { *a = refundOf(`{"charge":"` + paid + `"}`); a.Recovery = true }, outcome: claim.OutcomeDone, calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := someBooks()
			ghost := ledger.Transaction{
				ID: ledger.GhostID("fake", "px_ghost"), Region: "europe", Tenant: "acme", Kind: ledger.Ghost, Amount: 1999, Currency: "usd",
				Object: paid, Provider: "fake", ProviderRef: "px_ghost",
			}
			b.all["europe/"+ghost.ID] = ghost
			a, p := compensationOf(), &fake{caps: both, result: approved}
			a.Recovery = true
			p.movement = &psp.Movement{ProviderRef: "px_ghost", Reference: paid, Amount: 1999, Currency: "usd", Outcome: psp.Approved, Disputed: 1999}
			c.change(&a, p)
			v := See(executorOf(p, b, nil).Attempt(t.Context(), a))
			require.Len(t, p.calls, c.calls)
			require.Equal(t, cmp.Or(c.outcome, claim.OutcomeUnknown), v.Outcome)
			require.Equal(t, c.reason, v.Reason)
		})
	}
}

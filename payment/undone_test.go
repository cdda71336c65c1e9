package payment

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
)

// undoneBooks are books in which the charge paid and the ghost px_ghost are booked, and
// have failed since.
func undoneBooks() *books {
	b := someBooks()
	ghost := ledger.Transaction{
		ID: ledger.GhostID("fake", "px_ghost"), Region: "europe", Tenant: "acme", Kind: ledger.Ghost,
		Debit: ledger.Provider("fake"), Credit: ledger.Suspense("acme"), Amount: 1999, Currency: "usd",
		Object: paid, Provider: "fake", ProviderRef: "px_ghost",
	}
	b.all["europe/"+ghost.ID] = ghost
	for _, of := range []ledger.Transaction{ghost, b.all["europe/"+paid]} {
		failure := ledger.FailureOf(of)
		b.all["europe/"+failure.ID] = failure
	}
	return b
}

// A charge, or a ghost, that is booked as failed since has given its money back: no
// attempt gives it back a second time. A first one is refused; a later one asks what
// became of those before it, never calls, and is refused once nothing was found often
// enough. Where the money was given back all the same, a person is called.
func TestWhatHasFailedIsNotGivenBack(t *testing.T) {
	onlyDedupe := both
	onlyDedupe.Lookup = false
	onlyLookup := both
	onlyLookup.Dedupe = psp.DedupeNone
	for name, c := range map[string]struct {
		change  func(a *claim.Attempt, p *fake)
		outcome string
		reason  string
		lookups int
		pages   []string
	}{
		"a first attempt": {change: func(*claim.Attempt, *fake) {}, outcome: claim.OutcomeReleased, reason: codeUndone},
		"nothing found": {change: func(a *claim.Attempt, p *fake) { a.Recovery, p.found = true, psp.FoundNo },
			outcome: claim.OutcomeUnknown, reason: reasonNotFound, lookups: 1},
		"nothing found often enough": {change: func(a *claim.Attempt, p *fake) {
			a.Recovery, p.found, a.Record.NotFounds = true, psp.FoundNo, askBeforeCall
		}, outcome: claim.OutcomeReleased, reason: codeUndone, lookups: 1},
		"nothing found by one that does not dedupe": {change: func(a *claim.Attempt, p *fake) {
			a.Recovery, p.found, a.Record.NotFounds, p.caps = true, psp.FoundNo, askBeforeCall, onlyLookup
		}, outcome: claim.OutcomeReleased, reason: codeUndone, lookups: 1},
		"no answer": {change: func(a *claim.Attempt, _ *fake) { a.Recovery = true }, outcome: claim.OutcomeUnknown, reason: reasonNotAsked, lookups: 1},
		"a provider without look-ups": {change: func(a *claim.Attempt, p *fake) { a.Recovery, p.caps = true, onlyDedupe },
			outcome: claim.OutcomeUnknown, reason: reasonCannotAsk},
		"found refused": {change: func(a *claim.Attempt, p *fake) {
			a.Recovery, p.found, p.shown = true, psp.FoundYes, decline(psp.Hard, "x", "")
		}, outcome: claim.OutcomeRefused, reason: "x", lookups: 1},
		"found made": {change: func(a *claim.Attempt, p *fake) { a.Recovery, p.found, p.shown = true, psp.FoundYes, approved },
			outcome: claim.OutcomeDone, lookups: 1, pages: []string{PageUndone}},
		"reported by the provider": {change: func(a *claim.Attempt, _ *fake) { a.Recovery, a.ReportedRef, a.ReportedBy = true, "px_1", "fake" },
			outcome: claim.OutcomeDone, pages: []string{PageUndone}},
	} {
		for what, attempt := range map[string]claim.Attempt{"charge": refundOf(`{"charge":"` + paid + `"}`), "ghost": compensationOf()} {
			t.Run(name+", "+what, func(t *testing.T) {
				var said []string
				a, p := attempt, &fake{caps: both, result: approved}
				c.change(&a, p)
				v := See(executorOf(p, undoneBooks(), &said).Attempt(t.Context(), a))
				require.Empty(t, p.calls, "a refund of money that has come back already was sent")
				require.Equal(t, cmp.Or(c.outcome, claim.OutcomeUnknown), v.Outcome)
				require.Equal(t, c.reason, v.Reason)
				require.Equal(t, c.lookups, p.lookups)
				require.Equal(t, c.pages, said)
			})
		}
	}
}

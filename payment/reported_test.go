package payment

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
)

// A notice of a success may be late: of a movement of an earlier generation, which was declined,
// refunded or reversed before the merchant retried. A movement that still counts settles the later
// generation, as it is the money that the merchant asks for. One that does not settles nothing: the
// attempt goes on as if there had been no notice.
func TestALateSuccessSettlesALaterGenerationOnlyIfItStillCounts(t *testing.T) {
	counts := psp.Movement{ProviderRef: "px_1", Reference: "xx_1", Amount: 1999, Currency: "usd", Outcome: psp.Approved}
	declined, waiting, another := counts, counts, counts
	declined.Outcome, declined.Decline = psp.Declined, &psp.Decline{Class: psp.Soft, Code: "bank_returned"}
	waiting.Outcome, another.Reference = psp.Unknown, "xx_2"
	ghost := func(b *books) {
		b.all["europe/"+ledger.GhostID("fake", "px_1")] = ledger.Transaction{ID: ledger.GhostID("fake", "px_1"), Kind: ledger.Ghost, Object: "xx_1"}
	}
	const asItIs = "not_found" // by the look-up that follows without a notice
	for name, c := range map[string]struct {
		generation uint32
		blind      bool
		found      psp.Found
		shows      psp.Movement
		books      func(*books)
		witness    *claim.Witness
		outcome    string
		reason     string
	}{
		"the only generation":            {generation: 1, shows: declined, found: psp.FoundYes, outcome: claim.OutcomeDone},
		"it stands":                      {generation: 2, shows: counts, found: psp.FoundYes, outcome: claim.OutcomeDone},
		"it was reversed":                {generation: 2, shows: declined, found: psp.FoundYes, reason: asItIs},
		"of another reference":           {generation: 2, shows: another, found: psp.FoundYes, reason: asItIs},
		"not shown":                      {generation: 2, found: psp.FoundNo, reason: asItIs},
		"no answer":                      {generation: 2, found: psp.FoundUnknown, reason: reasonNotAsked},
		"not decided":                    {generation: 2, shows: waiting, found: psp.FoundYes, reason: reasonNotAsked},
		"refunded as a ghost":            {generation: 2, shows: counts, found: psp.FoundYes, books: ghost, reason: asItIs},
		"books that cannot be read":      {generation: 2, shows: counts, found: psp.FoundYes, books: func(b *books) { b.err = errors.New("away") }, reason: reasonNotAsked},
		"blind":                          {generation: 2, blind: true, outcome: claim.OutcomeDone},
		"blind, and refunded as a ghost": {generation: 2, blind: true, books: ghost, reason: reasonCannotAsk},
		"witnessed as paid otherwise": {generation: 2, shows: counts, found: psp.FoundYes, reason: asItIs,
			witness: &claim.Witness{Generation: 2, Done: true, ProviderRef: "px_2"}},
		"witnessed as in flight": {generation: 2, shows: counts, found: psp.FoundYes, outcome: claim.OutcomeDone,
			witness: &claim.Witness{Generation: 2}},
		"witnessed as paid by it": {generation: 2, shows: counts, found: psp.FoundYes, outcome: claim.OutcomeDone,
			witness: &claim.Witness{Generation: 2, Done: true, ProviderRef: "px_1"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &patientProvider{fake: fake{caps: psp.Capabilities{Timeout: time.Second, Lookup: !c.blind, Blind: c.blind}}, found: c.found, shows: c.shows}
			p.fake.found = psp.FoundNo
			b := someBooks()
			if c.books != nil {
				c.books(b)
			}
			a := attemptOf(Charge)
			a.Record.Home, a.Record.Generation, a.Witness = "europe", c.generation, c.witness
			a.Recovery, a.ReportedRef, a.ReportedBy = true, "px_1", "fake"
			v := See(executorOf(p, b, nil).Attempt(t.Context(), a))
			require.Equal(t, cmp.Or(c.outcome, claim.OutcomeUnknown), v.Outcome, v.Reason)
			require.Equal(t, c.reason, v.Reason)
			require.Empty(t, p.calls)
			if v.Outcome == claim.OutcomeDone {
				require.Equal(t, "px_1", v.ProviderRef)
			}
		})
	}
}

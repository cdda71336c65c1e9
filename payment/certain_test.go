package payment

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
)

// TestNoticesOfAnotherAccountSettleNothing: the owner of an account at the provider can write our
// ids on a payment of their own, which the provider then reports.
func TestNoticesOfAnotherAccountSettleNothing(t *testing.T) {
	for ref, want := range map[string]string{"px_1": claim.OutcomeDone, "px_evil@acct_evil": claim.OutcomePending} {
		p := &patientProvider{fake: fake{caps: psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey, Lookup: true}}, found: psp.FoundYes, shows: movement(psp.Pending, payer, nil)}
		e := NewExecutor(psp.Providers{p}, Options{Logger: slog.New(slog.DiscardHandler)})
		a := waiting(psp.RequiresAction, time.Minute, false)
		a.ReportedRef, a.ReportedBy = ref, "fake"
		require.Equal(t, want, See(e.Attempt(t.Context(), a)).Outcome, ref)

		// And our own, for a charge in that account.
		a.Payload = []byte(`{"account":"acct_evil","amount":1999,"currency":"usd","off_session":false,"payment_method":"pm_1"}`)
		require.NotEqual(t, want, See(e.Attempt(t.Context(), a)).Outcome, ref)
	}
}

// TestNoFailoverOfWhatThePayerCanStillPay: a payment that was declined after its payer had been
// asked for stays open at the provider.
func TestNoFailoverOfWhatThePayerCanStillPay(t *testing.T) {
	p := &patientProvider{fake: fake{result: psp.Result{Outcome: psp.Declined, ProviderRef: "px_1", Decline: &psp.Decline{Class: psp.Soft, Code: "do_not_honor"}}, caps: psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey, Lookup: true}}}
	e := NewExecutor(psp.Providers{p, &otherFake{}}, Options{Logger: slog.New(slog.DiscardHandler), Failover: map[string]Failover{"fake": {To: "other", Codes: []string{"do_not_honor"}}}})
	a := attemptOf(Charge)
	require.Equal(t, claim.OutcomeMoved, See(e.Attempt(t.Context(), a)).Outcome, "the payer has seen nothing")
	a.Record.Generation, a.Record.ProviderRef = 2, "px_1"
	require.Equal(t, claim.OutcomeReleased, See(e.Attempt(t.Context(), a)).Outcome)
}

type otherFake struct{ fake }

func (*otherFake) Name() string { return "other" }

type oneBooking struct{ tx ledger.Transaction }

func (b oneBooking) Transaction(_ context.Context, _, id string) (ledger.Transaction, bool, error) {
	return b.tx, id == b.tx.ID, nil
}

func (oneBooking) ReversalsAt(context.Context, string, string) ([]ledger.Transaction, error) {
	return nil, nil
}

// TestAPaymentThatWasGivenBackIsNoSuccess: the payer paid it after its generation had been
// declined, and got the money back. The next generation finds it paid, and lets it go.
func TestAPaymentThatWasGivenBackIsNoSuccess(t *testing.T) {
	p := &fake{result: psp.Result{Outcome: psp.Approved, ProviderRef: "px_1"}, caps: psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey, Lookup: true}}
	id := ledger.GhostID("fake", "px_1")
	e := NewExecutor(psp.Providers{p}, Options{
		Logger: slog.New(slog.DiscardHandler), Books: oneBooking{ledger.Transaction{ID: id, Kind: ledger.Ghost, Provider: "fake", ProviderRef: "px_1", Object: "xx_1"}},
		Home: func(claim.RegionCode) (string, bool) { return "eu", true },
	})
	a := attemptOf(Charge)
	a.Record.Generation, a.Record.ProviderRef = 2, "px_1"
	for _, recovery := range []bool{false, true} {
		a.Recovery = recovery
		v := See(e.Attempt(t.Context(), a))
		require.Equal(t, claim.OutcomeReleased, v.Outcome)
		require.Empty(t, v.ProviderRef, "the next generation makes a payment of its own")
		require.Nil(t, v.Posting)
	}
}

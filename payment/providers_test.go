package payment

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
)

// another is a fake of another name.
type another struct {
	*fake
	name string
}

func (a another) Name() string { return a.name }

// two is an executor of the providers fake, the default, and old.
func two(b Books) (e *Executor, first, second *fake) {
	first, second = &fake{caps: both, result: approved}, &fake{caps: both, result: approved}
	e = executorOf(first, b, nil)
	e.callees["old"] = &callee{another{second, "old"}, "old", both}
	return e, first, second
}

// The executor calls the provider that the claim names, and books the movement there.
func TestAClaimCallsItsProvider(t *testing.T) {
	e, first, second := two(nil)
	for name, called := range map[string]*fake{"": first, "fake": first, "old": second} {
		first.calls, second.calls = nil, nil
		a := attemptOf(Charge)
		a.Provider = name
		v := See(e.Attempt(t.Context(), a))
		require.Equal(t, claim.OutcomeDone, v.Outcome)
		require.Len(t, called.calls, 1, name)
		require.Len(t, append(first.calls, second.calls...), 1, name)
		require.Equal(t, map[*fake]string{first: "fake", second: "old"}[called], v.Posting.Provider)
		require.Contains(t, string(v.Response.Body), `"provider":{"name":"`+v.Posting.Provider+`"`)
	}
	a := attemptOf(Charge)
	a.Provider = "gone"
	v := See(e.Attempt(t.Context(), a))
	require.Equal(t, claim.OutcomeUnknown, v.Outcome)
	require.True(t, v.Unsent)
}

// The executor sends a refund to the provider of its charge, whatever the default.
func TestARefundCallsItsChargesProvider(t *testing.T) {
	e, first, second := two(someBooks())
	for _, recovery := range []bool{false, true} {
		second.calls = nil
		a := refundOf(`{"charge":"` + elsewhere + `"}`)
		a.Recovery = recovery
		v := See(e.Attempt(t.Context(), a))
		require.Equal(t, claim.OutcomeDone, v.Outcome)
		require.Equal(t, "old", v.Posting.Provider)
		require.Len(t, second.calls, 1)
		require.Equal(t, "px_charge", second.calls[0].Source)
	}
	require.Empty(t, first.calls)
	// A notice of another provider settles nothing: the executor asks the one that was called.
	a := refundOf(`{"charge":"` + elsewhere + `"}`)
	a.Recovery, a.ReportedRef, a.ReportedBy = true, "px_of_another", "fake"
	second.calls = nil
	v := See(e.Attempt(t.Context(), a))
	require.Equal(t, "px_1", v.ProviderRef)
	require.Len(t, second.calls, 1)
}

// While the provider of a refund is unknown, it may be one with neither dedupe nor look-ups: the
// claim must not stay in flight for a call that was never made.
func TestARefundThatCannotFindItsProviderIsReleasedWhereNothingCouldClearIt(t *testing.T) {
	e, _, _ := two(&books{err: claim.ErrUnavailable})
	a := refundOf(`{"charge":"` + paid + `"}`)
	require.Equal(t, claim.OutcomeUnknown, See(e.Attempt(t.Context(), a)).Outcome)
	e.callees["old"].caps = psp.Capabilities{}
	require.Equal(t, claim.OutcomeReleased, See(e.Attempt(t.Context(), a)).Outcome)
}

// A compensation is with its ghost's provider from the start.
func TestACompensationCallsItsGhostsProvider(t *testing.T) {
	ghost := ledger.GhostID("old", "px_ghost")
	e, first, second := two(&books{all: map[string]ledger.Transaction{"europe/" + ghost: {ID: ghost, Region: "europe", Amount: 1999}}})
	a := compensationOf()
	a.Provider = "old"
	v := See(e.Attempt(t.Context(), a))
	require.Equal(t, claim.OutcomeDone, v.Outcome)
	require.Equal(t, ledger.GhostRefundID("old", "px_ghost"), v.Posting.ID)
	require.True(t, strings.HasSuffix(string(v.Posting.Credit), ":old"))
	require.Empty(t, first.calls)
	require.Len(t, second.calls, 1)
}

// Another provider is tried only where it is certain that no money moved, in a way that
// the settings name, in a first attempt of a request that leaves its provider open.
func TestFailover(t *testing.T) {
	busy := decline(psp.Soft, "processing_error", "")
	notSent := psp.Result{Err: &psp.NotSentError{Reason: "open", RetryIn: time.Second}}
	for name, c := range map[string]struct {
		result psp.Result
		change func(*claim.Attempt)
		moves  bool
	}{
		"not sent":              {result: notSent, moves: true},
		"declined with a code":  {result: busy, moves: true},
		"refused with a code":   {result: decline(psp.Invalid, "processing_error", ""), moves: true},
		"another code":          {result: decline(psp.Soft, "insufficient_funds", "")},
		"hard, with the code":   {result: decline(psp.Hard, "processing_error", "")},
		"unknown":               {result: lost},
		"approved":              {result: approved},
		"not sent, in recovery": {result: notSent, change: func(a *claim.Attempt) { a.Recovery = true }},
		"declined, in recovery": {result: busy, change: func(a *claim.Attempt) { a.Recovery = true }},
		"the last generation":   {result: busy, change: func(a *claim.Attempt) { a.Last = true }},
		"the request names whom": {result: busy, change: func(a *claim.Attempt) {
			a.Payload = []byte(strings.Replace(string(a.Payload), `"payment_method"`, `"provider":"fake","payment_method"`, 1))
		}},
		"the second has no third": {result: busy, change: func(a *claim.Attempt) { a.Provider = "old" }},
	} {
		t.Run(name, func(t *testing.T) {
			e, first, second := two(nil)
			e.o.Failover = map[string]Failover{"fake": {To: "old", Codes: []string{"processing_error"}}}
			first.result, second.result = c.result, c.result
			a := attemptOf(Charge)
			a.Payload = []byte(`{"amount":1999,"currency":"usd","payment_method":"pm_1"}`)
			if c.change != nil {
				c.change(&a)
			}
			v := See(e.Attempt(t.Context(), a))
			require.Equal(t, c.moves, v.Outcome == claim.OutcomeMoved, "%+v", v)
			require.Equal(t, c.moves, v.Next == "old")
			if c.moves {
				require.Empty(t, v.Events, "no event before it has ended")
			}
			e.o.Failover = nil
			require.NotEqual(t, claim.OutcomeMoved, See(e.Attempt(t.Context(), a)).Outcome, "off unless set")
		})
	}
}

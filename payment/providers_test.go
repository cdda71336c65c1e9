package payment

import (
	"strings"
	"testing"

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

// A claim goes to the provider that it names, and is booked there.
func TestAClaimGoesToItsProvider(t *testing.T) {
	e, first, second := two(nil)
	for name, called := range map[string]*fake{"": first, "fake": first, "old": second} {
		first.calls, second.calls = nil, nil
		a := attemptOf(Charge)
		a.Provider = name
		v := e.Attempt(t.Context(), a)
		require.Equal(t, claim.OutcomeDone, v.Outcome)
		require.Len(t, called.calls, 1, name)
		require.Len(t, append(first.calls, second.calls...), 1, name)
		require.Equal(t, map[*fake]string{first: "fake", second: "old"}[called], v.Posting.Provider)
		require.Contains(t, string(v.Response.Body), `"provider":{"name":"`+v.Posting.Provider+`"`)
	}
	a := attemptOf(Charge)
	a.Provider = "gone"
	v := e.Attempt(t.Context(), a)
	require.Equal(t, claim.OutcomeUnknown, v.Outcome)
	require.True(t, v.Unsent)
}

// A refund goes to the provider that its charge was made at, whatever the default.
func TestARefundGoesToItsChargesProvider(t *testing.T) {
	e, first, second := two(someBooks())
	for _, recovery := range []bool{false, true} {
		second.calls = nil
		a := refundOf(`{"charge":"` + elsewhere + `"}`)
		a.Recovery = recovery
		v := e.Attempt(t.Context(), a)
		require.Equal(t, claim.OutcomeDone, v.Outcome)
		require.Equal(t, "old", v.Posting.Provider)
		require.Len(t, second.calls, 1)
		require.Equal(t, "px_charge", second.calls[0].Source)
	}
	require.Empty(t, first.calls)
	// What another provider tells settles nothing: the one that was called is asked.
	a := refundOf(`{"charge":"` + elsewhere + `"}`)
	a.Recovery, a.Told, a.ToldBy = true, "px_of_another", "fake"
	second.calls = nil
	v := e.Attempt(t.Context(), a)
	require.Equal(t, "px_1", v.ProviderRef)
	require.Len(t, second.calls, 1)
}

// While it is not known who gives a refund, it may be one who neither dedupes nor can be
// asked: the claim must not stay in flight for a call that was never made.
func TestARefundThatCannotFindItsProviderIsReleasedWhereNothingCouldClearIt(t *testing.T) {
	e, _, _ := two(&books{err: claim.ErrUnavailable})
	a := refundOf(`{"charge":"` + paid + `"}`)
	require.Equal(t, claim.OutcomeUnknown, e.Attempt(t.Context(), a).Outcome)
	e.callees["old"].caps = psp.Capabilities{}
	require.Equal(t, claim.OutcomeReleased, e.Attempt(t.Context(), a).Outcome)
}

// A compensation is with its ghost's provider from the start.
func TestACompensationGoesToItsGhostsProvider(t *testing.T) {
	ghost := ledger.GhostID("old", "px_ghost")
	e, first, second := two(&books{all: map[string]ledger.Transaction{"europe/" + ghost: {ID: ghost}}})
	a := compensationOf()
	a.Provider = "old"
	v := e.Attempt(t.Context(), a)
	require.Equal(t, claim.OutcomeDone, v.Outcome)
	require.Equal(t, ledger.GhostRefundID("old", "px_ghost"), v.Posting.ID)
	require.True(t, strings.HasSuffix(string(v.Posting.Credit), ":old"))
	require.Empty(t, first.calls)
	require.Len(t, second.calls, 1)
}

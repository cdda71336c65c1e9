package payment

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
)

// A movement in a connected account is booked there, so that our own statement need not have it. So
// is its refund. A movement that is booked as ours is refunded from our account.
func TestMoneyIsBookedWhereItLies(t *testing.T) {
	const there = "provider:fake:acct_1"
	result := psp.Result{Outcome: psp.Approved, ProviderRef: "px_1@acct_1"}
	charge := attemptOf(Charge)
	charge.Payload = []byte(`{"account":"acct_1","amount":1999,"currency":"usd","payment_method":"pm_1"}`)
	v := See(executorOf(&fake{caps: both, result: result}, nil, nil).Attempt(t.Context(), charge))
	require.Equal(t, ledger.Account(there), v.Posting.Debit)
	require.Equal(t, ledger.Merchant(charge.Record.Key.Tenant), v.Posting.Credit)

	for booked, want := range map[ledger.Account]ledger.Account{there: there, "provider:fake": "provider:fake"} {
		b := someBooks()
		is := b.all["europe/"+paid]
		is.ProviderRef, is.Debit = "px_charge@acct_1", booked
		b.all["europe/"+paid] = is
		ghost := is
		ghost.ID, ghost.Kind, ghost.Credit, ghost.ProviderRef = ledger.GhostID("fake", "px_ghost@acct_1"), ledger.Ghost, ledger.Suspense("acme"), "px_ghost@acct_1"
		b.all["europe/"+ghost.ID] = ghost
		compensation := compensationOf()
		compensation.Payload = []byte(strings.Replace(string(compensation.Payload), "px_ghost", "px_ghost@acct_1", 1))
		for name, a := range map[string]claim.Attempt{"refund": refundOf(`{"charge":"` + paid + `"}`), "compensation": compensation} {
			v := See(executorOf(&fake{caps: both, result: result}, b, nil).Attempt(t.Context(), a))
			require.Equal(t, claim.OutcomeDone, v.Outcome, name)
			require.Equal(t, want, v.Posting.Credit, name)

			// Reported by the provider for that account, and for no other.
			for ref, outcome := range map[string]string{"px_2@acct_1": claim.OutcomeDone, "px_2@acct_2": claim.OutcomeUnknown, "px_2": claim.OutcomeUnknown} {
				a.Recovery, a.ReportedRef, a.ReportedBy = true, ref, "fake"
				v := See(executorOf(&fake{caps: both}, b, nil).Attempt(t.Context(), a))
				require.Equal(t, outcome, v.Outcome, name+" "+ref)
			}
		}
	}
}

// The books, which import no provider's contract, read an account off a reference as the contract
// does. An id that has an '@' of its own is of our account.
func TestBooksReadReferencesAsProvidersWriteThem(t *testing.T) {
	for _, ref := range []string{"", "pi_1", "pi_1@acct_1", "pi@shop", "pi@shop@acct_2", "pi@", "@acct_3"} {
		want := "p"
		if account := psp.AccountOf(ref); account != "" {
			want += ":" + account
		}
		require.Equal(t, want, ledger.Where("p", ref), ref)
	}
	require.Equal(t, []string{"pi_1", "pi_1@acct_1", ""}, []string{psp.InAccount("pi_1", ""), psp.InAccount("pi_1", "acct_1"), psp.InAccount("", "acct_1")})
}

// Text that a database cannot keep does not keep a success from being recorded: the
// reference, the accounts that follow from it and the answer agree, and are what a notice
// of the movement is compared with.
func TestAReferenceIsOneEverywhere(t *testing.T) {
	for _, raw := range []string{"px_1\x00", "px_1@acct_a\x00b", "px_1@acct_\xff", strings.Repeat("x", 600) + "@acct_1", strings.Repeat("ü", 500)} {
		a := attemptOf(Charge)
		a.Record.Key.Tenant = "acme"
		v := See(executorOf(&fake{caps: both, result: psp.Result{Outcome: psp.Approved, ProviderRef: raw}}, nil, nil).Attempt(t.Context(), a))
		require.Equal(t, claim.OutcomeDone, v.Outcome)
		require.Equal(t, psp.Ref(raw), v.ProviderRef)
		require.Equal(t, v.ProviderRef, v.Posting.ProviderRef)
		require.Equal(t, ledger.Provider(ledger.Where("fake", v.ProviderRef)), v.Posting.Debit)
		require.NoError(t, v.Posting.Validate())
		require.Contains(t, string(v.Response.Body), v.ProviderRef[:4])
	}
}

package recon

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

// there is a charge of 10.00 eur in a connected account, booked where a build that knew no
// such accounts would have, or where it lies.
func (w *stripeWorld) there(n int, account string, old bool) ledger.Transaction {
	id, ref := objectID(w.t, n), fmt.Sprintf("pi_%d@%s", n, account)
	where := ledger.Where(pspName, ref)
	if old {
		where = pspName
	}
	t := ledger.Transaction{
		ID: id, Region: home, Tenant: "acme", Kind: ledger.Charge, Debit: ledger.Provider(where), Credit: ledger.Merchant("acme"),
		Amount: 1000, Currency: "eur", Object: id, Provider: pspName, ProviderRef: ref,
	}
	w.add(t)
	w.claim(id, ref, claim.Completed, "")
	return t
}

// Stripe has a direct charge on the statement of its account and not on ours ("Understand how
// charges work in a Connect integration"). So our statement need not have it, and it agrees with
// that one ("Connect report type"), where the account's own business is ignored.
func TestStatementsOfConnectedAccounts(t *testing.T) {
	world := func() *stripeWorld {
		w := newStripeWorld(t)
		w.charge(1)
		direct, old := w.there(2, "acct_1", false), w.there(3, "acct_1", true)
		w.there(4, "acct_2", false)
		w.add(ledger.UnaskedOf(direct, ledger.ProviderRefund, "re_hand@acct_1", 400))
		w.add(ledger.UnaskedOf(direct, ledger.DisputeOpened, "du_1@acct_1", 600))
		w.add(ledger.UnaskedOf(direct, ledger.Dispute, "du_1@acct_1", 600))
		back := old
		back.ID, back.Object, back.ProviderRef, back.Kind, back.Reverses = "re_3", "re_3", "re_3@acct_1", ledger.Refund, old.ID
		back.Debit, back.Credit = old.Credit, old.Held()
		w.add(back)
		return w
	}
	w := world()
	w.line("txn_1", "eur", "10.00", "0.00", "charge", "ch_1", "10.00,eur", "pi_1")
	report, found := w.reconcile()
	require.Empty(t, found)
	require.Equal(t, 1, report.Bookings)

	w = world()
	w.c.Account, w.c.Book = "acct_1", w.post
	w.line("txn_2", "eur", "10.00", "0.50", "charge", "ch_2", "10.00,eur", "pi_2")
	w.line("txn_3", "eur", "10.00", "0.50", "charge", "ch_3", "10.00,eur", "pi_3")
	w.line("txn_4", "eur", "-4.00", "0.00", "refund", "re_hand", "4.00,eur", "pi_2")
	w.line("txn_5", "eur", "-6.00", "0.00", "dispute", "du_1", ",", "pi_2")
	w.line("txn_6", "eur", "-10.00", "0.00", "refund", "re_3", "10.00,eur", "pi_3")
	w.line("txn_7", "eur", "77.00", "0.00", "charge", "ch_own", "77.00,eur", "pi_own")
	w.line("txn_8", "eur", "-1.00", "0.00", "payout", "po_1", ",", "")
	report, found = w.reconcile()
	require.Empty(t, found)
	require.Equal(t, []int{5, 5, 1}, []int{report.Bookings, report.Agree, report.OtherAccount}, "%+v", report)
	require.EqualValues(t, 100, w.balances()["bank:sim:acct_1 eur"])
	require.EqualValues(t, 100, w.balances()["fees:sim:acct_1 eur"])
	require.EqualValues(t, -100-100, w.balances()["provider:sim:acct_1 eur"], "what was charged went back, and the fees and the payout went")

	_, found = w.reconcile()
	require.Empty(t, found, "it was booked once")

	w.lines = w.lines[1:]
	_, found = w.reconcile()
	require.Len(t, found, 1)
	require.Equal(t, NotOnStatement, found[0].Class)
	require.Equal(t, "pi_2@acct_1", found[0].ProviderRef)
}

// The owner of a connected account can write our id on a payment of their own: no statement makes
// Homeward refund it.
func TestNothingIsHealedByAnotherAccountsStatement(t *testing.T) {
	for account, refundable := range map[string]bool{"": true, "acct_evil": false} {
		w := newWorld(t)
		w.c.Account = account
		w.state("pi_evil", objectID(t, 7), 5)
		w.claim(objectID(t, 7), "", claim.FailedTerminal, "outcome_unknown")
		_, all := w.run()
		require.Len(t, all, 1)
		require.Equal(t, refundable, all[0].Refundable)

		// Beside one of our movements in that account.
		w = newWorld(t)
		w.c.Account = account
		_, ref := w.paid(7)
		if account != "" {
			ref += "@" + account
			w.books[0].ProviderRef, w.claims[0].ProviderRef = ref, ref
		}
		w.state("pi_evil", objectID(t, 7), 5)
		_, all = w.run()
		require.Len(t, all, 1)
		require.Equal(t, Duplicate, all[0].Class)
		require.Equal(t, refundable, all[0].Refundable)
	}
}

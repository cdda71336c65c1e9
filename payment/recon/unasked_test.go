package recon

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
)

const stripeHead = "balance_transaction_id,created_utc,currency,gross,fee,net,reporting_category,source_id,customer_facing_amount,customer_facing_currency,payment_intent_id\n"

// stripe is a world with Stripe's statement, without our references.
type stripeWorld struct{ *world }

func newStripeWorld(t *testing.T) *stripeWorld {
	w := &stripeWorld{newWorld(t)}
	var err error
	w.c.Mapping, err = MappingOf("stripe")
	require.NoError(t, err)
	w.c.Common = home
	return w
}

// line is one at noon; amounts in major units.
func (w *stripeWorld) line(entry, currency, gross, fee, category, source, facing, intent string) {
	w.lines = append(w.lines, strings.Join([]string{entry, noon.Format(time.DateTime), currency, gross, fee, "", category, source, facing, intent}, ","))
}

// charge is one that is booked and completed, of 10.00 eur.
func (w *stripeWorld) charge(n int) ledger.Transaction {
	id, ref := objectID(w.t, n), fmt.Sprint("pi_", n)
	t := ledger.Transaction{
		ID: id, Region: home, Tenant: "acme", Kind: ledger.Charge, Debit: ledger.Provider(pspName), Credit: ledger.Merchant("acme"),
		Amount: 1000, Currency: "eur", Object: id, Provider: pspName, ProviderRef: ref,
	}
	w.add(t)
	w.claim(id, ref, claim.Completed, "")
	return t
}

func (w *stripeWorld) add(t ledger.Transaction) {
	require.NoError(w.t, t.Validate())
	t.At = noon.Add(time.Duration(len(w.books)) * time.Microsecond)
	w.books = append(w.books, t)
}

// post is a ledger.Store's.
func (w *stripeWorld) post(_ context.Context, t ledger.Transaction) (bool, error) {
	for i := range w.books {
		if old := &w.books[i]; old.Region == t.Region && old.ID == t.ID {
			if !old.Same(t) {
				return false, fmt.Errorf("%w: %+v", ledger.ErrConflict, t)
			}
			return false, nil
		}
	}
	w.add(t)
	return true, nil
}

func (w *stripeWorld) reconcile() (*Report, []Mismatch) {
	w.t.Helper()
	var all []Mismatch
	w.c.Found = func(_ context.Context, m Mismatch) error { all = append(all, m); return nil }
	report, err := Run(w.t.Context(), w.c, strings.NewReader(stripeHead+strings.Join(w.lines, "\n")+"\n"), "stripe")
	require.NoError(w.t, err)
	return report, all
}

func (w *stripeWorld) balances() map[string]int64 {
	sums := map[string]int64{}
	for _, t := range w.books {
		sums[string(t.Debit)+" "+t.Currency] += t.Amount
		sums[string(t.Credit)+" "+t.Currency] -= t.Amount
	}
	for a, sum := range sums {
		if sum == 0 {
			delete(sums, a)
		}
	}
	return sums
}

// A statement in Stripe's format with fees, a conversion, a dispute and a payout agrees with the
// books, and movements that only it has are booked, once. Then the provider's balance in the books
// is the statement's sum.
func TestAStripeStatementInTheBooks(t *testing.T) {
	w := newStripeWorld(t)
	first, second, third := w.charge(1), w.charge(2), w.charge(3)
	w.add(ledger.UnaskedOf(first, ledger.ProviderRefund, "re_hand", 400))
	w.add(ledger.UnaskedOf(second, ledger.DisputeOpened, "du_1", 1000))
	w.add(ledger.UnaskedOf(second, ledger.Dispute, "du_1", 1000))
	w.add(ledger.PayoutOf(home, pspName, "po_1", 700, "usd"))
	w.add(ledger.UnaskedOf(third, ledger.DisputeOpened, "du_2", 1000))
	w.add(ledger.UnaskedOf(third, ledger.DisputeWon, "du_2", 1000))
	w.line("txn_1", "usd", "10.84", "0.61", "charge", "ch_1", "10.00,eur", "pi_1")
	w.line("txn_2", "usd", "10.84", "0.61", "charge", "ch_2", "10.00,eur", "pi_2")
	w.line("txn_3", "eur", "10.00", "0.00", "charge", "ch_3", "10.00,eur", "pi_3")
	w.line("txn_4", "usd", "-4.30", "0.00", "refund", "re_hand", "4.00,eur", "pi_1")
	w.line("txn_5", "usd", "-10.80", "15.00", "dispute", "du_1", ",", "pi_2")
	w.line("txn_6", "usd", "-7.00", "0.00", "payout", "po_1", ",", "")
	w.line("txn_7", "usd", "-2.00", "0.00", "payout", "po_2", ",", "")
	w.line("txn_8", "usd", "-0.30", "0.00", "fee", "fee_1", ",", "")
	w.line("txn_9", "usd", "0.10", "0.00", "fee", "fee_2", ",", "")
	w.line("txn_10", "usd", "-3.00", "0.00", "risk_reserved_funds", "rsv_1", ",", "")

	report, found := w.reconcile()
	require.Empty(t, found)
	require.Equal(t, 6, report.Agree, "%+v", report)
	require.Equal(t, map[psp.Kind]int{psp.KindFee: 4, psp.KindFeeRefund: 1, psp.KindPayout: 1, KindConversion: 4}, report.NotBooked)
	require.Equal(t, map[string]int{"risk_reserved_funds": 1}, report.Unknown)

	w.c.Book = w.post
	report, found = w.reconcile()
	require.Empty(t, found)
	require.Equal(t, map[psp.Kind]int{psp.KindFee: 4, psp.KindFeeRefund: 1, psp.KindPayout: 1, KindConversion: 4}, report.Posted)
	balances := w.balances()
	// 10.84 - 0.61, twice, less 4.30, 25.80, 7.00, 2.00 and 0.20.
	require.EqualValues(t, 2046-430-2580-700-200-20, balances["provider:sim usd"])
	require.EqualValues(t, 1000, balances["provider:sim eur"])
	require.EqualValues(t, 900, balances["bank:sim usd"])
	require.EqualValues(t, 61+61+1500+20, balances["fees:sim usd"])
	require.EqualValues(t, 1000+1000-400-1000, balances["exchange:sim eur"])
	require.EqualValues(t, -(1084 + 1084 - 430 - 1080), balances["exchange:sim usd"])
	for currency := range map[string]bool{"usd": true, "eur": true} {
		sum := int64(0)
		for account, s := range balances {
			if strings.HasSuffix(account, currency) {
				sum += s
			}
		}
		require.Zero(t, sum, currency)
	}

	report, found = w.reconcile()
	require.Empty(t, found)
	require.Empty(t, report.Posted)
	require.Empty(t, report.NotBooked)
	require.Equal(t, 6+10, report.Agree)
}

// A balance below zero is filled up from our bank, by a payout by which money came. It is
// booked as that, once, and what is booked agrees with what is stated again.
func TestMoneyFromOurBankIsBooked(t *testing.T) {
	w := newStripeWorld(t)
	w.c.Book = w.post
	w.line("txn_1", "usd", "120.00", "0.00", "payout", "po_1", ",", "")
	report, all := w.reconcile()
	require.Empty(t, all)
	require.Equal(t, map[psp.Kind]int{psp.KindTopUp: 1}, report.Posted)
	require.Equal(t, map[string]int64{"provider:" + pspName + " usd": 12000, "bank:" + pspName + " usd": -12000}, w.balances())
	report, all = w.reconcile()
	require.Empty(t, all)
	require.Empty(t, report.Posted)
	require.Equal(t, 1, report.Agree)
}

// What moved without us and is not in the books, or only there, is named.
func TestWhatMovedWithoutUsDisagrees(t *testing.T) {
	for name, c := range map[string]struct {
		have func(w *stripeWorld, of ledger.Transaction)
		want []Class
		says string
	}{
		"a dispute of which no notice has come": {func(w *stripeWorld, _ ledger.Transaction) {
			w.line("txn_2", "eur", "-10.00", "0.00", "dispute", "du_1", ",", "pi_1")
		}, []Class{UnaskedNotBooked}, "send the notice again"},
		"a refund by hand of which no notice has come": {func(w *stripeWorld, _ ledger.Transaction) {
			w.line("txn_2", "eur", "-4.00", "0.00", "refund", "re_1", "4.00,eur", "pi_1")
		}, []Class{UnaskedNotBooked}, "states a refund of pi_1"},
		"a dispute that is not stated": {func(w *stripeWorld, of ledger.Transaction) {
			w.add(ledger.UnaskedOf(of, ledger.Dispute, "du_1", 1000))
		}, []Class{NotOnStatement}, "does not state it"},
		"a refund by hand that is not stated": {func(w *stripeWorld, of ledger.Transaction) {
			w.add(ledger.UnaskedOf(of, ledger.ProviderRefund, "re_1", 1000))
		}, []Class{RefundMissing}, ""},
		"a dispute of another amount": {func(w *stripeWorld, of ledger.Transaction) {
			w.add(ledger.UnaskedOf(of, ledger.Dispute, "du_1", 900))
			w.line("txn_2", "eur", "-10.00", "0.00", "dispute", "du_1", ",", "pi_1")
		}, []Class{AmountDiffers}, "differ by 100"},
		"a fee of another amount": {func(w *stripeWorld, of ledger.Transaction) {
			w.add(ledger.FeeOf(home, "acme", of.Object, pspName, "txn_1", 62, "eur"))
		}, []Class{AmountDiffers}, "a fee of the line txn_1"},
		"a payout of another amount": {func(w *stripeWorld, _ ledger.Transaction) {
			w.add(ledger.PayoutOf(home, pspName, "po_1", 700, "eur"))
			w.line("txn_2", "eur", "-7.01", "0.00", "payout", "po_1", ",", "")
		}, []Class{AmountDiffers}, "a payout"},
		"a payout that a report with payouts has not": {func(w *stripeWorld, _ ledger.Transaction) {
			w.add(ledger.PayoutOf(home, pspName, "po_1", 700, "eur"))
			w.line("txn_2", "eur", "-7.01", "0.00", "payout", "po_2", ",", "")
		}, []Class{NotOnStatement}, ""},
		"a payout in a report without payouts": {func(w *stripeWorld, _ ledger.Transaction) {
			w.add(ledger.PayoutOf(home, pspName, "po_1", 700, "eur"))
		}, nil, ""},
		"a decision of a person": {func(w *stripeWorld, of ledger.Transaction) {
			w.add(ledger.Transaction{ID: ledger.AdjustmentID("case 1"), Region: home, Tenant: "acme", Kind: ledger.Adjustment, Debit: of.Credit, Credit: of.Debit, Amount: 5, Currency: "eur", Object: "case 1", By: "me", Why: "so"})
		}, nil, ""},
		"a dispute of another party's charge": {func(w *stripeWorld, _ ledger.Transaction) {
			w.line("txn_2", "eur", "-10.00", "0.00", "dispute", "du_1", ",", "pi_9")
		}, []Class{UnaskedNotBooked}, "a dispute of pi_9, which is not in the books"},
		"the rest of an authorization": {func(w *stripeWorld, _ ledger.Transaction) {
			w.lines[0] = strings.Replace(w.lines[0], "10.00,0.61", "12.00,0.61", 1)
			w.lines[0] = strings.Replace(w.lines[0], "10.00,eur", "12.00,eur", 1)
			w.lines = append([]string{strings.Replace(w.lines[0], "txn_1", "txn_0", 1)}, w.lines[0]) // another, which is in front
			w.lines[0] = strings.ReplaceAll(strings.ReplaceAll(w.lines[0], "pi_1", "pi_2"), "12.00", "10.00")
			other := w.charge(2)
			w.line("txn_2", "eur", "-2.00", "0.00", "partial_capture_reversal", "re_9", "2.00,eur", "pi_1")
			w.add(ledger.UnaskedOf(other, ledger.ProviderRefund, "re_2", 100))
			w.line("txn_3", "eur", "-1.00", "0.00", "refund", "re_2", "1.00,eur", "pi_2")
		}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStripeWorld(t)
			of := w.charge(1)
			w.line("txn_1", "eur", "10.00", "0.61", "charge", "ch_1", "10.00,eur", "pi_1")
			c.have(w, of)
			_, found := w.reconcile()
			var classes []Class
			for _, m := range found {
				classes = append(classes, m.Class)
				require.Contains(t, m.Detail, c.says)
				require.False(t, m.Refundable)
			}
			require.Equal(t, c.want, classes, "%+v", found)
		})
	}
}

// Movements are joined by the provider's references also where they were booked long
// before the period.
func TestWhatWasBookedBeforeIsFound(t *testing.T) {
	w := newStripeWorld(t)
	of := w.charge(1)
	own := ledger.Transaction{
		ID: "re_own", Region: home, Tenant: "acme", Kind: ledger.Refund, Debit: of.Credit, Credit: of.Debit,
		Amount: 300, Currency: "eur", Object: "re_own", Reverses: of.ID, Provider: pspName, ProviderRef: "re_own",
	}
	w.add(own)
	w.add(ledger.UnaskedOf(of, ledger.ProviderRefund, "re_hand", 400))
	w.add(ledger.UnaskedOf(of, ledger.Dispute, "du_1", 300))
	for i := range w.books {
		w.books[i].At = noon.Add(-30 * 24 * time.Hour)
	}
	w.claims = nil
	w.c.From = noon.Add(-time.Hour)
	w.line("txn_1", "eur", "10.00", "0.00", "charge", "ch_1", "10.00,eur", "pi_1")
	w.line("txn_2", "eur", "-3.00", "0.00", "refund", "re_own", "3.00,eur", "pi_1")
	w.line("txn_3", "eur", "-4.00", "0.00", "refund", "re_hand", "4.00,eur", "pi_1")
	w.line("txn_4", "eur", "-3.00", "0.00", "dispute", "du_1", ",", "pi_1")
	report, found := w.reconcile()
	require.Empty(t, found)
	require.Equal(t, 4, report.Agree)
}

// What is in flight over midnight is decided by neither day.
func TestInFlightOverMidnight(t *testing.T) {
	for lag, want := range map[time.Duration]int{time.Minute: 1, 6 * time.Hour: 0} {
		w := newStripeWorld(t)
		w.charge(1) // booked at noon, and stated the next day
		w.c.From, w.c.To, w.c.Lag = noon.Add(-20*time.Hour), noon.Add(4*time.Hour), lag
		report, found := w.reconcile()
		require.Len(t, found, want, lag)
		require.Equal(t, 1-want, report.Undecided)
	}
}

// A reversed transfer names no payment in Stripe's statement. It is booked by the provider's own id of
// it, in the period or before.
func TestWhatNamesNoPaymentIsFoundByItsOwnID(t *testing.T) {
	for name, at := range map[string]time.Duration{"in the period": 0, "before it": -48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newStripeWorld(t)
			w.c.From = noon.Add(-time.Hour)
			sent := ledger.Transaction{
				ID: "tr_x", Region: home, Tenant: "acme", Kind: ledger.Transfer, Debit: ledger.Merchant("acme"), Credit: ledger.Provider(pspName),
				Amount: 1000, Currency: "eur", Object: "tr_x", Provider: pspName, ProviderRef: "tr_1",
			}
			w.add(ledger.UnaskedOf(sent, ledger.TransferReversal, "trr_1", 400))
			w.books[0].At = noon.Add(at)
			w.line("txn_1", "eur", "4.00", "0.00", "transfer_reversal", "trr_1", ",", "")
			report, found := w.reconcile()
			require.Empty(t, found)
			require.Equal(t, 1, report.Agree)
		})
	}
}

// What was booked from one statement is booked at that time, and is not stated again: the next statement
// does not miss it.
func TestWhatOneStatementBookedIsNotMissingOnTheNext(t *testing.T) {
	w := newStripeWorld(t)
	w.c.Book = w.post // at noon
	w.charge(1)
	day, at := 24*time.Hour, noon.Add(-20*time.Hour).Format(time.DateTime)
	w.books[0].At = noon.Add(-20 * time.Hour)
	w.c.From, w.c.To = noon.Add(-day), noon
	w.lines = []string{
		"txn_1," + at + ",usd,10.84,0.61,,charge,ch_1,10.00,eur,pi_1",
		"txn_2," + at + ",usd,-2.00,0.00,,payout,po_1,,,",
		"txn_3," + at + ",usd,1.00,0.00,,payout,po_2,,,",
		"txn_4," + at + ",usd,0.10,0.00,,fee,fee_1,,,",
	}
	report, found := w.reconcile()
	require.Empty(t, found)
	require.Equal(t, map[psp.Kind]int{psp.KindFee: 1, psp.KindFeeRefund: 1, KindConversion: 1, psp.KindPayout: 1, psp.KindTopUp: 1}, report.Posted)

	at, w.claims = noon.Add(20*time.Hour).Format(time.DateTime), nil
	w.c.From, w.c.To = noon.Add(-8*time.Hour), noon.Add(day)
	w.lines = []string{
		"txn_5," + at + ",usd,-0.30,0.00,,fee,fee_2,,,",
		"txn_6," + at + ",usd,0.20,0.00,,fee,fee_3,,,",
		"txn_7," + at + ",usd,-2.00,0.00,,payout,po_3,,,",
		"txn_8," + at + ",usd,1.00,0.00,,payout,po_4,,,",
	}
	_, found = w.reconcile()
	require.Empty(t, found)
}

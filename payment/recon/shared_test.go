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

// Adyen has one reference for all lines of a dispute, of a refund and its return, and of a capture and
// what it cost later. The fees and the conversions of each line are booked.
func TestLinesThatShareAReference(t *testing.T) {
	w := newStripeWorld(t)
	var err error
	w.c.Mapping, err = MappingOf("adyen")
	require.NoError(t, err)
	w.c.Book = w.post
	first, second := w.charge(1), w.charge(2) // of 10.00 eur
	w.add(ledger.UnaskedOf(first, ledger.DisputeOpened, "MOD2", 1000))
	w.add(ledger.UnaskedOf(first, ledger.Dispute, "MOD2", 1000))
	w.add(ledger.UnaskedOf(first, ledger.DisputeReversal, "MOD2", 1000))
	w.add(ledger.UnaskedOf(first, ledger.Dispute, "MOD2/second", 1000))
	w.add(ledger.UnaskedOf(first, ledger.DisputeLost, "MOD2", 1000))
	refund := second
	refund.ID, refund.Object, refund.Kind, refund.ProviderRef, refund.Reverses = "re_2", "re_2", ledger.Refund, "MOD4", second.ID
	refund.Debit, refund.Credit = second.Credit, second.Debit
	w.add(refund)
	w.add(ledger.FailureOf(refund))
	head := "Psp Reference,Merchant Reference,Creation Date,TimeZone,Type,Modification Reference,Gross Currency,Gross Debit (GC),Gross Credit (GC),Net Currency,Net Debit (NC),Net Credit (NC),Commission (NC),Markup (NC),Scheme Fees (NC),Interchange (NC),Modification Merchant Reference\n"
	at := noon.Add(time.Minute).Format(time.DateTime) + ",Europe/London"
	line := func(payment, reference, kind, entry, gross, net, fee, own string) string {
		return strings.Join([]string{payment, reference, at, kind, entry, gross, net, fee, "", "", "", own}, ",") + "\n"
	}
	statement := head +
		line("pi_1", first.ID, "Settled", "MOD1", "EUR,,10.00", "USD,,10.70", "0.30", "") +
		line("pi_1", first.ID, "PaymentCost", "MOD1", ",,", "USD,0.05,", "", "") +
		line("pi_1", first.ID, "Chargeback", "MOD2", "EUR,10.00,", "USD,18.50,", "7.50", "") +
		line("pi_1", first.ID, "ChargebackReversed", "MOD2", "EUR,,10.00", "USD,,10.90", "0.10", "") +
		line("pi_1", first.ID, "SecondChargeback", "MOD2", "EUR,10.00,", "USD,11.10,", "", "") +
		line("pi_2", second.ID, "Settled", "MOD3", "EUR,,10.00", "USD,,10.70", "0.30", "") +
		line("pi_2", second.ID, "Refunded", "MOD4", "EUR,10.00,", "USD,11.00,", "", "re_2") +
		line("pi_2", second.ID, "RefundedReversed", "MOD4", "EUR,,10.00", "USD,,10.80", "0.20", "re_2")

	reconcile := func() (*Report, []Mismatch) {
		var all []Mismatch
		w.c.Found = func(_ context.Context, m Mismatch) error { all = append(all, m); return nil }
		report, err := Run(t.Context(), w.c, strings.NewReader(statement), "adyen")
		require.NoError(t, err)
		return report, all
	}
	report, found := reconcile()
	require.Empty(t, found)
	require.Equal(t, map[psp.Kind]int{psp.KindFee: 6, KindConversion: 7}, report.Posted)
	require.Equal(t, int64(1070-5-1850+1090-1110+1070-1100+1080), w.balances()["provider:"+pspName+" usd"])
	require.Zero(t, w.balances()["provider:"+pspName+" eur"])
	report, found = reconcile()
	require.Empty(t, found)
	require.Nil(t, report.Posted)
}

// What the books have otherwise than the statement is a mismatch of that line, and the others are
// judged and booked.
func TestAConflictIsOfItsLine(t *testing.T) {
	w := newStripeWorld(t)
	w.charge(1)
	w.charge(2)
	w.line("txn_1", "eur", "10.00", "0.30", "charge", "ch_1", "10.00,eur", "pi_1")
	w.line("txn_2", "eur", "10.00", "0.30", "charge", "ch_2", "10.00,eur", "pi_2")
	w.c.Book = func(ctx context.Context, t ledger.Transaction) (bool, error) {
		if t.ProviderRef == "txn_1" {
			return false, fmt.Errorf("%w: of 20 eur, last month", ledger.ErrConflict)
		}
		return w.post(ctx, t)
	}
	report, found := w.reconcile()
	require.Len(t, found, 1)
	require.Equal(t, AmountDiffers, found[0].Class)
	require.Equal(t, psp.KindFee, found[0].Kind)
	require.Equal(t, map[psp.Kind]int{psp.KindFee: 1}, report.Posted)
}

// A payout of no tenant is in the books of the region that came first when it was booked.
func TestAPayoutIsBookedOnceWhicheverRegionIsFirst(t *testing.T) {
	w := newStripeWorld(t)
	w.c.Regions, w.c.Common = []string{"europe-west1", home}, "europe-west1"
	w.add(ledger.PayoutOf(home, pspName, "po_1", 700, "usd"))
	w.books[0].At = noon.Add(-48 * time.Hour)
	w.c.From = noon.Add(-time.Hour)
	w.line("txn_6", "usd", "-7.00", "0.00", "payout", "po_1", ",", "")
	w.c.Book = w.post
	report, found := w.reconcile()
	require.Empty(t, found)
	require.Len(t, w.books, 1, "%+v", report)
	require.Equal(t, 1, report.Agree)
}

// The provider states that the payer of a charge, which its merchant was told had failed, has the
// money back already, or may get it by a dispute.
func TestMoneyThatIsBackIsNotGivenBackAgain(t *testing.T) {
	for name, c := range map[string]struct {
		lines      []string // # is the reference
		booked     bool
		refundable bool
	}{
		"by a dispute":                  {[]string{"dp_1,dispute,#,100,usd,%d,p"}, false, false},
		"by a dispute that names ours":  {[]string{"dp_1,dispute,#,100,usd,%d,"}, false, false},
		"by a dispute that names p":     {[]string{"dp_1,dispute,,100,usd,%d,p"}, false, false},
		"by a dispute of a part":        {[]string{"dp_1,dispute,#,40,usd,%d,p"}, false, false},
		"by a refund by hand":           {[]string{"re_hand,refund,#,100,usd,%d,p"}, false, false},
		"by a refund that names p":      {[]string{"re_hand,refund,,100,usd,%d,p"}, false, false},
		"by a dispute that was won":     {[]string{"dp_1,dispute,#,100,usd,%d,p", "dp_1,dispute_reversal,#,100,usd,%d,p"}, false, false}, // it may be lost in the end
		"by a dispute of a booked one":  {[]string{"dp_1,dispute,#,100,usd,%d,p"}, true, false},
		"by a refund of a booked one":   {[]string{"re_hand,refund,,100,usd,%d,p"}, true, false},
		"by a dispute of another":       {[]string{"dp_1,dispute,,100,usd,%d,p9"}, false, true},
		"by a dispute of one beside it": {[]string{"dp_1,dispute,#,100,usd,%d,p9"}, false, true},
		"not at all, of a booked one":   {nil, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			reference := objectID(t, 7)
			w.state("p", reference, 100)
			w.claim(reference, "", claim.FailedTerminal, "outcome_unknown")
			if c.booked {
				w.book(ledger.Ghost, ledger.GhostID(pspName, "p"), reference, "p", 100)
			}
			statement := "id,kind,reference,amount,currency,created,of\n" + w.lines[0] + ",\n"
			for _, l := range c.lines {
				statement += fmt.Sprintf(strings.Replace(l, "#", reference, 1), noon.Unix()) + "\n"
			}
			var all []Mismatch
			w.c.Found = func(_ context.Context, m Mismatch) error { all = append(all, m); return nil }
			_, err := Run(t.Context(), w.c, strings.NewReader(statement), CSV)
			require.NoError(t, err)
			refundable := false
			for _, m := range all {
				refundable = refundable || m.Refundable
			}
			require.Equal(t, c.refundable, refundable, "%+v", all)
		})
	}
}

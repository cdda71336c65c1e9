package simulator

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// stripeColumns are the relevant columns of Stripe's report
// balance_change_from_activity.itemized.3 (its page "Balance report type"), with
// payouts among the lines.
var stripeColumns = []string{
	"balance_transaction_id", "created_utc", "created", "available_on_utc", "available_on", "currency", "gross", "fee", "net",
	"reporting_category", "source_id", "description", "customer_facing_amount", "customer_facing_currency", "charge_id", "payment_intent_id",
	"payment_metadata[homeward_reference]", "refund_metadata[homeward_reference]", "transfer_metadata[homeward_reference]",
}

// withMetadata is where the columns of metadata begin.
const withMetadata = 16

// Settlement is how a statement in Stripe's format settles movements.
type Settlement struct {
	// Currency is the currency that all amounts are converted into; "": none is.
	Currency string
	// Rates are how much of Currency one unit of another is. The default is 1.
	Rates map[string]float64
	// PerMyriad and Fixed are a charge's fee: a share in ten-thousandths, and minor units.
	// Dispute is that of a dispute, returned with a reversal.
	PerMyriad, Fixed, Dispute int64
	// Anonymous omits our references, as a report without metadata does.
	Anonymous bool
}

// readSettlement parses a query:
// settle=usd&rates=eur:1.084,gbp:1.3&fee=290:30&dispute_fee=1500&metadata=no.
func readSettlement(q url.Values) (s Settlement, err error) {
	s = Settlement{Currency: q.Get("settle"), Rates: map[string]float64{}, Anonymous: q.Get("metadata") == "no"}
	for pair := range strings.SplitSeq(q.Get("rates"), ",") {
		if pair == "" {
			continue
		}
		currency, rate, _ := strings.Cut(pair, ":")
		if s.Rates[currency], err = strconv.ParseFloat(rate, 64); err != nil {
			return s, fmt.Errorf("rates: must be as eur:1.084,gbp:1.3, is %q", pair)
		}
	}
	share, fixed, _ := strings.Cut(q.Get("fee"), ":")
	for _, n := range []struct {
		name, text string
		to         *int64
	}{{"fee", share, &s.PerMyriad}, {"fee", fixed, &s.Fixed}, {"dispute_fee", q.Get("dispute_fee"), &s.Dispute}} {
		if n.text == "" {
			continue
		}
		if *n.to, err = strconv.ParseInt(n.text, 10, 64); err != nil {
			return s, fmt.Errorf("%s: must be whole numbers, as fee=290:30", n.name)
		}
	}
	return s, nil
}

// categories are Stripe's terms for kinds, and whether the money comes in (its page
// "Reporting categories and types").
var categories = map[psp.Kind]struct {
	name  string
	comes bool
}{
	psp.KindCharge: {"charge", true}, "charge_failed": {"charge_failure", false}, psp.KindRefund: {"refund", false}, "refund_failed": {"refund_failure", true},
	psp.KindTransfer: {"transfer", false}, psp.KindTransferReversal: {"transfer_reversal", true},
	psp.KindDispute: {"dispute", false}, psp.KindDisputeReversal: {"dispute_reversal", true},
	psp.KindPayout: {"payout", false}, psp.KindPayoutReversal: {"payout_reversal", true},
}

// stripeWriter writes lines as Stripe does.
type stripeWriter struct {
	enc *csv.Writer
	Settlement
}

func newStripeWriter(w io.Writer, s Settlement) (*stripeWriter, error) {
	out := &stripeWriter{csv.NewWriter(w), s}
	return out, out.write(stripeColumns)
}

func (w *stripeWriter) write(row []string) error {
	if w.Anonymous {
		row = row[:withMetadata]
	}
	return w.enc.Write(row)
}

func (w *stripeWriter) line(l StatementLine) error {
	c := categories[l.Kind]
	amount := l.Amount
	if !c.comes {
		amount = -amount
	}
	settled, gross := w.settle(l, amount)
	fee := w.fee(l.Kind, gross)
	at, facing := l.Created.Format(time.DateTime), []string{major(l.Amount, l.Currency), l.Currency}
	charge, intent, reference := "", "", [3]string{}
	switch l.Kind {
	case psp.KindCharge, "charge_failed":
		intent, reference[0] = l.ID, l.Reference
		l.ID = "ch_" + strings.TrimPrefix(l.ID, "pi_")
	case psp.KindRefund, "refund_failed":
		intent, reference[1] = l.Of, l.Reference
	case psp.KindTransfer:
		reference[2], facing = l.Reference, []string{"", ""}
	case psp.KindDispute, psp.KindDisputeReversal:
		intent, facing = l.Of, []string{"", ""}
	default:
		facing = []string{"", ""}
	}
	if intent != "" {
		charge = "ch_" + strings.TrimPrefix(intent, "pi_")
	}
	return w.write([]string{
		fmt.Sprintf("txn_%012x", l.entry+1), at, at, at, at, settled, major(gross, settled), major(fee, settled), major(gross-fee, settled),
		c.name, l.ID, "", facing[0], facing[1], charge, intent, reference[0], reference[1], reference[2],
	})
}

// settle converts what payers paid. Payouts and transfers move the balance as it is.
func (w *stripeWriter) settle(l StatementLine, amount int64) (currency string, gross int64) {
	if w.Currency == "" || w.Currency == l.Currency || l.Kind == psp.KindPayout || l.Kind == psp.KindPayoutReversal || l.Kind == psp.KindTransfer || l.Kind == psp.KindTransferReversal {
		return l.Currency, amount
	}
	rate := 1.0
	if r, ok := w.Rates[l.Currency]; ok {
		rate = r
	}
	digits := psp.MinorDigits(w.Currency) - psp.MinorDigits(l.Currency)
	return w.Currency, int64(math.Round(float64(amount) * rate * math.Pow10(digits)))
}

func (w *stripeWriter) fee(kind psp.Kind, gross int64) int64 {
	switch kind {
	case psp.KindCharge:
		if w.PerMyriad == 0 && w.Fixed == 0 {
			return 0
		}
		return (gross*w.PerMyriad+5000)/10000 + w.Fixed
	case psp.KindDispute:
		return w.Dispute
	case psp.KindDisputeReversal:
		return -w.Dispute
	default:
		return 0
	}
}

// major formats an amount in major units, as "12.50" or "1250".
func major(amount int64, currency string) string {
	sign := ""
	if amount < 0 {
		sign, amount = "-", -amount
	}
	places := psp.MinorDigits(currency)
	text := fmt.Sprintf("%0*d", places+1, amount)
	if places == 0 {
		return sign + text
	}
	return sign + text[:len(text)-places] + "." + text[len(text)-places:]
}

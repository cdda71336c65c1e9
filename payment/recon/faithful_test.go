package recon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

// movement is money that moved at a provider. at is when, booked when the books had it, stated when the
// statement says that it was.
type movement struct {
	at, booked, stated time.Time
	t                  ledger.Transaction // the zero value: only the statement has it
	kind               string
	of, id, own        string // as the provider has them: the payment, the movement, our id of a refund
	charge             string // our id of the charge
	amount, fee        int64
	in                 bool
}

// dialect writes a provider's statement.
type dialect struct {
	format string
	head   string
	lag    time.Duration
	// kinds are the provider's terms for those of movements.
	kinds map[string]string
	// suffix ends the reference of a second dispute.
	suffix string
	line   func(n int, term string, m *movement) string
}

func major(amount int64) string {
	return fmt.Sprintf("%d.%02d", amount/100, amount%100)
}

func sides(amount int64, in bool) string {
	if in {
		return "," + major(amount)
	}
	return major(amount) + ","
}

var dialects = []dialect{
	{
		format: "stripe", head: stripeHead, lag: time.Minute,
		kinds: map[string]string{
			"charge": "charge", "charge_back": "charge_failure", "refund": "refund", "refund_back": "refund_failure", "dispute": "dispute",
			"reversal": "dispute_reversal", "payout": "payout", "fee": "fee",
		},
		line: func(n int, term string, m *movement) string {
			sign, facing := "-", ","
			if m.in {
				sign = ""
			}
			if strings.HasPrefix(m.kind, "charge") || strings.HasPrefix(m.kind, "refund") {
				facing = major(m.amount) + ",eur"
			}
			return strings.Join([]string{fmt.Sprint("txn_", n), m.stated.Format(time.DateTime), "eur", sign + major(m.amount), major(m.fee), "", term, m.id, facing, m.of}, ",")
		},
	},
	{
		format: "adyen", lag: 120 * time.Hour, suffix: "/second",
		head: "Psp Reference,Merchant Reference,Creation Date,TimeZone,Type,Modification Reference,Gross Currency,Gross Debit (GC),Gross Credit (GC),Net Currency,Net Debit (NC),Net Credit (NC),Commission (NC),Markup (NC),Scheme Fees (NC),Interchange (NC),Modification Merchant Reference\n",
		kinds: map[string]string{
			"charge": "Settled", "refund": "Refunded", "refund_back": "RefundedReversed", "dispute": "Chargeback", "reversal": "ChargebackReversed",
			"dispute2": "SecondChargeback", "payout": "MerchantPayout", "fee": "Fee",
		},
		line: func(_ int, term string, m *movement) string {
			gross, net := "EUR,"+sides(m.amount, m.in), m.amount-m.fee
			if !m.in {
				net = m.amount + m.fee
			}
			if m.kind == "fee" {
				gross = ",,"
			}
			fee := ""
			if m.fee > 0 {
				fee = major(m.fee)
			}
			return strings.Join([]string{m.of, m.charge, m.stated.Format(time.DateTime), "GMT", term, m.id, gross, "EUR", sides(net, m.in), fee, "", "", "", m.own}, ",")
		},
	},
}

// days is a provider's history over some days, of which a statement is compared each day.
type days struct {
	*stripeWorld
	r    *rapid.T
	d    dialect
	all  []*movement
	now  time.Time
	from time.Time
	n    int
}

func (y *days) draw(most time.Duration, what string) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(most/time.Second)).Draw(y.r, what)) * time.Second
}

// moves makes a movement within some hours of another's, which is booked and stated after it.
func (y *days) moves(after time.Time, within time.Duration, m *movement) *movement {
	m.at = after.Add(time.Second + y.draw(within, "after"))
	m.booked = m.at.Add(y.draw(2*time.Hour, "booked after")) // a notice takes its time, half the slack at most
	m.stated = m.at
	if y.d.lag > time.Hour {
		m.stated = m.at.Add(y.draw(y.d.lag-3*time.Hour, "stated after"))
	}
	if rapid.Bool().Draw(y.r, "fee") && m.kind != "fee" && m.kind != "payout" {
		m.fee = rapid.Int64Range(1, 40).Draw(y.r, "of")
	}
	y.all = append(y.all, m)
	return m
}

func (y *days) id(prefix string) string { y.n++; return fmt.Sprint(prefix, y.n) }

func (y *days) refundID() string {
	y.n++
	id, err := claim.NewObjectID("re", 1, strings.NewReader(fmt.Sprintf("%010d", y.n)))
	require.NoError(y.r, err)
	return id
}

// pays is a charge, and what becomes of it.
func (y *days) pays() {
	y.n++
	own, ref := objectID(y.t, y.n), fmt.Sprint("pi_", y.n)
	t := ledger.Transaction{
		ID: own, Region: home, Tenant: "acme", Kind: ledger.Charge, Debit: ledger.Provider(pspName), Credit: ledger.Merchant("acme"),
		Amount: 1000, Currency: "eur", Object: own, Provider: pspName, ProviderRef: ref,
	}
	last := y.moves(y.from, 4*24*time.Hour, &movement{kind: "charge", of: ref, id: y.id("ch_"), charge: own, amount: 1000, in: true, t: t})
	then := func(kind, id, refund string, amount int64, in bool, booked ledger.Transaction) {
		last = y.moves(last.booked, 30*time.Hour, &movement{kind: kind, of: ref, id: id, own: refund, charge: own, amount: amount, in: in, t: booked})
	}
	switch rapid.SampledFrom([]string{"", "refund", "by hand", "dispute", "back"}).Draw(y.r, "then") {
	case "refund":
		r, id := t, y.refundID()
		r.ID, r.Object, r.Kind, r.ProviderRef, r.Reverses, r.Amount = id, id, ledger.Refund, id, own, 300
		r.Debit, r.Credit = t.Credit, t.Debit
		then("refund", id, id, 300, false, r)
		if rapid.Bool().Draw(y.r, "it returns") {
			then("refund_back", id, id, 300, true, ledger.FailureOf(r))
		}
	case "by hand":
		id := y.id("re_")
		then("refund", id, "", 400, false, ledger.UnaskedOf(t, ledger.ProviderRefund, id, 400))
	case "dispute":
		id := y.id("du_")
		then("dispute", id, "", 1000, false, ledger.UnaskedOf(t, ledger.Dispute, id, 1000))
		if rapid.Bool().Draw(y.r, "it is reversed") {
			then("reversal", id, "", 1000, true, ledger.UnaskedOf(t, ledger.DisputeReversal, id, 1000))
			if y.d.suffix != "" && rapid.Bool().Draw(y.r, "and disputed again") {
				then("dispute2", id, "", 1000, false, ledger.UnaskedOf(t, ledger.Dispute, id+y.d.suffix, 1000))
			}
		}
	case "back":
		if y.d.kinds["charge_back"] != "" {
			then("charge_back", y.id("py_"), "", 1000, false, ledger.FailureOf(t))
		}
	}
}

// post books as recon asks for, now.
func (y *days) post(ctx context.Context, t ledger.Transaction) (bool, error) {
	n := len(y.books)
	fresh, err := y.stripeWorld.post(ctx, t)
	if len(y.books) > n {
		y.books[n].At = y.now
	}
	return fresh, err
}

// until lets the books have what is booked by then.
func (y *days) until(to time.Time) {
	from := y.now
	slices.SortFunc(y.all, func(a, b *movement) int { return a.booked.Compare(b.booked) })
	for _, m := range y.all {
		if m.t.ID == "" || m.booked.After(to) || !m.booked.After(from) {
			continue
		}
		y.now = m.booked
		_, err := y.post(y.t.Context(), m.t) // a statement's run may have come first
		require.NoError(y.r, err)
		if m.t.Kind == ledger.Charge {
			y.claim(m.t.ID, m.t.ProviderRef, claim.Completed, "")
			y.claims[len(y.claims)-1].SettledAt = m.booked
		}
	}
	y.now = to
}

// compares each day until all is stated and judged, and returns what disagreed.
func (y *days) compares() (found []Mismatch) {
	slack := DefaultSlack
	for day := 1; day <= 16; day++ {
		to := y.from.Add(time.Duration(day) * 24 * time.Hour)
		y.until(to.Add(slack)) // a report is ready hours after its end, when notices have come
		y.c.From, y.c.To = to.Add(-24*time.Hour-2*slack-LagOf(0, y.c.Mapping, Format(y.d.format))), to
		y.lines = nil
		for n, m := range y.sorted() {
			if m.stated.Before(y.c.From) || !m.stated.Before(to) {
				continue
			}
			y.lines = append(y.lines, y.d.line(n, y.d.kinds[m.kind], m))
		}
		y.c.Found = func(_ context.Context, m Mismatch) error { found = append(found, m); return nil }
		_, err := Run(y.t.Context(), y.c, strings.NewReader(y.d.head+strings.Join(y.lines, "\n")+"\n"), Format(y.d.format))
		require.NoError(y.r, err)
	}
	return found
}

func (y *days) sorted() []*movement {
	all := slices.Clone(y.all)
	slices.SortFunc(all, func(a, b *movement) int { return cmp.Or(a.stated.Compare(b.stated), strings.Compare(a.id, b.id)) })
	return all
}

// A statement that says what the books have agrees with them, each day, whatever moved and however late
// either is. A movement that no statement has, or has otherwise, disagrees on one of them.
func TestAFaithfulStatementAgrees(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.format, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				y := &days{stripeWorld: newStripeWorld(t), r: r, d: d, from: noon, now: noon}
				var err error
				y.c.Mapping, err = MappingOf(d.format)
				require.NoError(r, err)
				y.c.Now, y.c.Parts = func() time.Time { return y.now }, 1
				if rapid.Bool().Draw(r, "book") {
					y.c.Book = y.post
				}
				for range rapid.IntRange(1, 6).Draw(r, "charges") {
					y.pays()
				}
				for range rapid.IntRange(0, 2).Draw(r, "payouts") {
					id := y.id("po_")
					y.moves(y.from, 4*24*time.Hour, &movement{kind: "payout", id: id, amount: 700, t: ledger.PayoutOf(home, pspName, id, 700, "eur")})
				}
				for range rapid.IntRange(0, 2).Draw(r, "fees") {
					y.moves(y.from, 4*24*time.Hour, &movement{kind: "fee", id: y.id("fee_"), amount: 20})
				}
				switch wrong := y.all[rapid.IntRange(0, len(y.all)-1).Draw(r, "which")]; rapid.SampledFrom([]string{"", "", "missing", "another amount"}).Draw(r, "wrong") {
				case "missing":
					wrong = y.all[0] // a charge; of others the statement may have no kind
					wrong.stated = time.Time{}
					require.NotEmpty(r, y.compares())
				case "another amount":
					if wrong.kind == "fee" { // the statement alone has it
						return
					}
					wrong.amount++
					require.NotEmpty(r, y.compares())
				default:
					require.Empty(r, y.compares())
				}
			})
		})
	}
}

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/recon"
	"github.com/homeward-io/homeward/payment/verify"
)

// happens has the provider do something by itself.
func (w *story) happens(kind psp.Kind, of string, amount int64) (id string) {
	w.t.Helper()
	u := simulator.Unasked{Kind: kind, Of: of, Amount: amount, Reason: "fraudulent"}
	if kind == psp.KindPayout {
		u.Currency = "usd"
	}
	id, err := w.judge.Do(u)
	require.NoError(w.t, err)
	return id
}

// emitted counts the log lines of events of a type, once no event is on its way.
func (w *story) emitted(kind string) int {
	w.t.Helper()
	w.quiet()
	return strings.Count(w.log.String(), "type="+kind+" ")
}

// Payers dispute two charges; one dispute is won and one lost. A person refunds a part of a third
// at the provider, and a refund of all of it is refused before it is sent. A person refunds a ghost
// at the provider while our refund waits. The provider reports all of it twice, out of order, to
// two regions.
func disputes(w *story) {
	w.begin(setting{caps: capable, notified: []string{us, eu}, notices: simulator.Notices{Hold: true, Duplicate: 1}})
	var refs, ids []string
	for i, q := range []request{charge("order-1", 20000), charge(stamped(w.t, asia), 3000), charge("order-3", 1000)} {
		ids = append(ids, objectID(w.t, w.everywhere(q, http.StatusCreated)))
		refs = append(refs, w.stated(psp.KindCharge, ids[i])[0])
	}
	w.quiet()
	won, lost := w.happens(psp.KindDisputeOpened, refs[0], 0), w.happens(psp.KindDisputeOpened, refs[1], 0)
	w.happens(psp.KindDispute, won, 0)
	w.happens(psp.KindDispute, lost, 0)
	_, err := w.judge.ReleaseNotices(simulator.ReleaseShuffled)
	require.NoError(w.t, err)
	w.quiet()
	require.EqualValues(w.t, -23000, w.balance(ledger.Disputed(w.payee)))
	require.EqualValues(w.t, 23000, w.balance(ledger.Withheld(judged)))
	require.EqualValues(w.t, -1000, w.balance(ledger.Merchant(w.payee)), "what is disputed is not owed")
	refused := w.answered(us, refund("refund-1", ids[0], 0), http.StatusBadRequest)
	require.Equal(w.t, "charge_disputed", refused.Problem.Code)

	w.happens(psp.KindDisputeReversal, won, 0)
	w.happens(psp.KindDisputeWon, won, 0)
	w.happens(psp.KindDisputeLost, lost, 0)
	w.happens(psp.KindRefund, refs[2], 400)
	_, err = w.judge.ReleaseNotices(simulator.ReleaseReversed)
	require.NoError(w.t, err)
	w.quiet()
	require.Zero(w.t, w.balance(ledger.Disputed(w.payee)))
	require.Zero(w.t, w.balance(ledger.Withheld(judged)))
	require.EqualValues(w.t, -20000-600, w.balance(ledger.Merchant(w.payee)))
	refused = w.answered(us, refund("refund-2", ids[2], 601), http.StatusBadRequest)
	require.Equal(w.t, "amount_too_large", refused.Problem.Code)
	w.everywhere(refund("refund-3", ids[2], 600), http.StatusCreated)
	w.everywhere(refund("refund-4", ids[0], 0), http.StatusCreated) // of what was won

	for kind, want := range map[string]int{
		"charge.dispute.created": 2, "charge.dispute.funds_withdrawn": 2, "charge.dispute.funds_reinstated": 1, "charge.dispute.closed": 2, "refund.created": 1,
	} {
		require.Equal(w.t, want, w.emitted(kind), "%s, in\n%s", kind, w.log)
	}
	w.quiet()
	require.Zero(w.t, w.balance(ledger.Merchant(w.payee)))
	require.Zero(w.t, w.judge.Stats().DuplicateEffects)
	require.Zero(w.t, w.pages("page: "))
	w.agrees()
}

// Charges in two currencies, refunds, one of which fails after it succeeded, a dispute that is lost
// and a payout, at a provider that speaks Stripe. Its statement has none of our references, settles
// in dollars and keeps fees. It agrees. Movements that only it has are booked, once. Then the
// provider holds the statement's sum.
func stripesStatement(w *story) {
	w.begin(setting{stripe: true, notified: []string{us, asia}})
	first := objectID(w.t, w.everywhere(charge("order-1", 20000), http.StatusCreated))
	euros := charge(stamped(w.t, asia), 3000)
	euros.body = strings.Replace(euros.body, `"usd"`, `"eur"`, 1)
	second := objectID(w.t, w.everywhere(euros, http.StatusCreated))
	back := w.everywhere(refund("refund-1", first, 500), http.StatusCreated)
	again := w.everywhere(refund("refund-2", second, 1000), http.StatusCreated)
	w.everywhere(transfer("payout-1", 700), http.StatusCreated)
	w.quiet()
	failed := w.stated(psp.KindRefund, objectID(w.t, back))
	require.NoError(w.t, w.judge.Fail(failed[0]))
	ref := w.stated(psp.KindCharge, second)[0]
	dispute := w.happens(psp.KindDisputeOpened, ref, 2000)
	w.happens(psp.KindDispute, dispute, 0)
	w.happens(psp.KindDisputeLost, dispute, 0)
	w.happens(psp.KindRefund, w.stated(psp.KindCharge, first)[0], 100)
	w.happens(psp.KindPayout, "", 5000)
	w.quiet()
	require.NotEmpty(w.t, objectID(w.t, again))

	settled := simulator.Statement{Format: "stripe", Settlement: simulator.Settlement{
		Currency: "usd", Rates: map[string]float64{"eur": 1.084}, PerMyriad: 290, Fixed: 30, Dispute: 1500, Anonymous: true,
	}}
	var statement bytes.Buffer
	require.NoError(w.t, w.judge.WriteStatement(&statement, settled))
	run := func(book func(context.Context, ledger.Transaction) (bool, error)) *recon.Report {
		w.t.Helper()
		report, err := recon.Run(w.ctx, recon.Config{
			Books: w.store(), Claims: w.store(), Provider: judged, Regions: regions, Home: homeOf, Dir: w.t.TempDir(), Common: us, Book: book,
			Found: func(_ context.Context, m recon.Mismatch) error {
				require.Fail(w.t, "they do not agree", "%+v", m)
				return nil
			},
		}, bytes.NewReader(statement.Bytes()), "stripe")
		require.NoError(w.t, err)
		return report
	}
	const movements = 9 // two charges, three refunds and a failure, a transfer, a dispute, a payout
	report := run(nil)
	require.Equal(w.t, movements, report.Lines)
	require.Equal(w.t, movements, report.Agree, "%+v", report)
	require.Equal(w.t, map[psp.Kind]int{psp.KindFee: 3, recon.KindConversion: 3}, report.NotBooked)
	require.Equal(w.t, report.NotBooked, run(w.store().Post).Posted)
	last := run(w.store().Post)
	require.Empty(w.t, last.Posted)
	require.Equal(w.t, movements+6, last.Agree)

	// 200.00 and 32.52 less their fees, 10.84, 21.68 and its fee, 7.00, 1.00 and 50.00.
	require.EqualValues(w.t, 20000-610+3252-124-1084-2168-1500-700-100-5000, w.balanceIn(ledger.Provider(judged), "usd"))
	require.Zero(w.t, w.balanceIn(ledger.Provider(judged), "eur"), "all of it is converted")
	require.EqualValues(w.t, 5000, w.balanceIn(ledger.Bank(judged), "usd"))
	require.EqualValues(w.t, 610+124+1500, w.balanceIn(ledger.Fees(judged), "usd"))
	require.Zero(w.t, w.pages("page: "))
	verified, err := verify.Books(w.ctx, w.store(), regions)
	require.NoError(w.t, err)
	require.True(w.t, verified.OK(), "%v", verified.Failures)
	w.show(fmt.Sprintf("%s: %s\n  %d lines agree, with %d fees and %d conversions; %d transactions verified; provider %d usd, bank %d usd, fees %d usd\n",
		w.on, w.title, movements, report.NotBooked[psp.KindFee], report.NotBooked[recon.KindConversion], verified.Transactions,
		w.balanceIn(ledger.Provider(judged), "usd"), w.balanceIn(ledger.Bank(judged), "usd"), w.balanceIn(ledger.Fees(judged), "usd")))
}

// balanceIn is balance in one currency.
func (w *story) balanceIn(account ledger.Account, currency string) (sum int64) {
	w.t.Helper()
	for _, r := range regions {
		all, err := w.store().Balances(w.ctx, r, ledger.AccountKey{}, 1000)
		require.NoError(w.t, err)
		for _, b := range all {
			if b.Account == account && b.Currency == currency {
				sum += b.Debits - b.Credits
			}
		}
	}
	return sum
}

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/recon"
	"github.com/homeward-io/homeward/payment/verify"
)

// moves sums movements of one kind, in minor units.
type moves struct {
	n      int
	amount int64
}

// tally is one party's account of the money that moved in one currency.
type tally map[psp.Kind]moves

func (y tally) add(k psp.Kind, amount int64) { y[k] = moves{y[k].n + 1, y[k].amount + amount} }

// net is what the provider then holds for us.
func (y tally) net() int64 {
	return y[psp.KindCharge].amount - y[psp.KindTransfer].amount - y[psp.KindRefund].amount
}

// word is one party's tallies by currency.
type word map[string]tally

func (w word) add(currency string, k psp.Kind, amount int64) {
	if w[currency] == nil {
		w[currency] = tally{}
	}
	w[currency].add(k, amount)
}

// account is one account in one currency.
type account struct {
	name     ledger.Account
	currency string
}

// books are what four parties say of the same money, one after the other.
type books struct {
	claims, ledger, simulator, statement word
	// states counts claims that are not in flight: "charge COMPLETED".
	states map[string]int
	// balances are debits less credits, in all regions.
	balances map[account]int64
	verified verify.Report
	compared *recon.Report
	// mismatches are those of the statement.
	mismatches []recon.Mismatch
}

const booksPage = 100

// read reads them all, provider being the name under which the judge is booked.
func (w *story) read(j *judge, provider string) *books {
	t, store := w.t, w.store()
	t.Helper()
	b := &books{claims: word{}, ledger: word{}, simulator: word{}, statement: word{}, states: map[string]int{}, balances: map[account]int64{}}
	for _, home := range regions {
		w.readClaims(b, store, home, provider)
		for after := (ledger.Position{}); ; {
			page, err := store.Transactions(w.ctx, home, after, time.Time{}, booksPage)
			require.NoError(t, err)
			for _, tx := range page {
				after = tx.Position()
				if tx.Provider == provider {
					b.ledger.add(tx.Currency, kinds[tx.Kind], tx.Amount)
				}
			}
			if len(page) < booksPage {
				break
			}
		}
		balances, err := store.Balances(w.ctx, home, ledger.AccountKey{}, booksPage)
		require.NoError(t, err)
		require.Less(t, len(balances), booksPage)
		for _, a := range balances {
			b.balances[account{a.Account, a.Currency}] += a.Debits - a.Credits
		}
	}
	var err error
	b.verified, err = verify.Books(w.ctx, store, regions)
	require.NoError(t, err)
	for _, e := range j.Effects() {
		b.simulator.add(e.Currency, e.Kind, e.Amount)
	}
	var statement bytes.Buffer
	require.NoError(t, j.WriteStatement(&statement, simulator.Statement{Format: "csv", Stripe: w.stripe, Adyen: w.adyen}))
	_, err = recon.Read(bytes.NewReader(statement.Bytes()), recon.CSV, func(l recon.Line) error {
		b.statement.add(l.Currency, l.Kind, l.Amount)
		return nil
	})
	require.NoError(t, err)
	b.compared, b.mismatches = w.reconcile(statement.Bytes(), provider)
	return b
}

// kinds are the movements at the provider that the books have.
var kinds = map[ledger.Kind]psp.Kind{
	ledger.Charge: psp.KindCharge, ledger.Ghost: psp.KindCharge, ledger.Transfer: psp.KindTransfer,
	ledger.Refund: psp.KindRefund, ledger.GhostRefund: psp.KindRefund,
}

// readClaims counts the claims of a home, and, of those that say that money moved at
// the provider, sums what their answers say.
func (w *story) readClaims(b *books, store deployment.Store, home, provider string) {
	w.t.Helper()
	for after := (claim.Key{}); ; {
		page, err := store.Settled(w.ctx, home, after, booksPage)
		require.NoError(w.t, err)
		for _, rec := range page {
			after = rec.Key
			if !claim.Livemode(rec.Key.Tenant) {
				continue // no money moved, and none is the provider's
			}
			b.states[rec.Operation+" "+rec.State.String()]++
			if rec.State != claim.Completed {
				continue
			}
			whole, _, found, err := store.Get(w.ctx, rec.Key, home)
			require.NoError(w.t, err)
			require.True(w.t, found)
			var o struct {
				Amount   int64
				Captured int64 `json:"amount_captured"`
				Currency string
				Provider struct{ Name string }
			}
			require.NoError(w.t, json.Unmarshal(whole.Response.Body, &o))
			if o.Captured > 0 {
				o.Amount = o.Captured
			}
			if o.Provider.Name != provider || payment.Operation(rec.Operation).Orders() { // what moved is its charge's
				continue
			}
			switch payment.Operation(rec.Operation) {
			case payment.Transfer:
				b.claims.add(o.Currency, psp.KindTransfer, o.Amount)
			case payment.Refund:
				b.claims.add(o.Currency, psp.KindRefund, o.Amount)
			case payment.Compensation:
				// It names a charge that was made without a claim, and refunded.
				b.claims.add(o.Currency, psp.KindCharge, o.Amount)
				b.claims.add(o.Currency, psp.KindRefund, o.Amount)
			default:
				b.claims.add(o.Currency, psp.KindCharge, o.Amount)
			}
		}
		if len(page) < booksPage {
			return
		}
	}
}

// reconcile compares a whole statement.
func (w *story) reconcile(statement []byte, provider string) (report *recon.Report, found []recon.Mismatch) {
	w.t.Helper()
	store := w.store()
	report, err := recon.Run(w.ctx, recon.Config{
		Books: store, Claims: store, Provider: provider, Regions: regions, Home: homeOf, Dir: w.t.TempDir(),
		Found: func(_ context.Context, m recon.Mismatch) error { found = append(found, m); return nil },
	}, bytes.NewReader(statement), recon.CSV)
	require.NoError(w.t, err)
	return report, found
}

func homeOf(code claim.RegionCode) (string, bool) {
	for r, c := range codes {
		if c == code {
			return r, true
		}
	}
	return "", false
}

// ending is how a story has to end.
type ending struct {
	// claims are all of them by operation and state, in that order.
	claims string
	// charges, transfers and refunds are how often money moved, ghosts and what was
	// given back for them included.
	charges, transfers, refunds int
}

// close waits until nothing is left to do, shows the books, and holds them against
// each other and against how the story has to end.
func (w *story) close(e ending) *books {
	w.t.Helper()
	w.quiet()
	b := w.read(w.judge, judged)
	w.show(w.shown(b))
	require.Equal(w.t, e.claims, b.statesShown())
	b.agree(w, judged)
	require.Empty(w.t, b.mismatches, "the statement is to agree")
	require.Equal(w.t, b.compared.Lines, b.compared.Agree, "%+v", b.compared)
	require.Zero(w.t, b.compared.Undecided)
	all := tally{}
	for _, y := range b.simulator {
		for k, m := range y {
			all[k] = moves{all[k].n + m.n, 0}
		}
	}
	require.Equal(w.t, [3]int{e.charges, e.transfers, e.refunds},
		[3]int{all[psp.KindCharge].n, all[psp.KindTransfer].n, all[psp.KindRefund].n}, "charges, transfers, refunds at the provider")
	require.Zero(w.t, w.judge.Stats().KeyReuses)
	return b
}

// agree asserts that all four say the same, that the books balance, and that no payer
// is owed anything.
func (b *books) agree(w *story, provider string) {
	t := w.t
	t.Helper()
	require.Equal(t, b.simulator, b.ledger, "what the provider moved, and what is booked")
	require.Equal(t, b.simulator, b.statement, "what the provider moved, and what it states")
	require.Equal(t, b.simulator, b.claims, "what the provider moved, and what the claims say")
	require.True(t, b.verified.OK(), "%v", b.verified.Failures)
	sums := map[string]int64{}
	for a, balance := range b.balances {
		sums[a.currency] += balance
		if strings.HasPrefix(string(a.name), "suspense:") {
			require.Zero(t, balance, "%s: a payer waits for money", a.name)
		}
	}
	for currency, sum := range sums {
		require.Zero(t, sum, "the balances in %s", currency)
	}
	for currency, y := range b.simulator {
		require.Equal(t, y.net(), b.balances[account{ledger.Provider(provider), currency}], "what the provider holds, in %s", currency)
	}
}

func (b *books) statesShown() string {
	var all []string
	for _, s := range slices.Sorted(maps.Keys(b.states)) {
		all = append(all, fmt.Sprint(s, " ", b.states[s]))
	}
	return strings.Join(all, ", ")
}

// shown is the books for people.
func (w *story) shown(b *books) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s\n", w.on, w.title)
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tcharges\tsum\ttransfers\tsum\trefunds\tsum\tnet\t\t")
	for _, party := range []struct {
		name string
		word word
	}{{"claims", b.claims}, {"ledger", b.ledger}, {"simulator", b.simulator}, {"statement", b.statement}} {
		if len(party.word) == 0 {
			fmt.Fprintf(table, "%s\t0\t0\t0\t0\t0\t0\t0\t\t\n", party.name)
		}
		for _, currency := range slices.Sorted(maps.Keys(party.word)) {
			y := party.word[currency]
			c, m, r := y[psp.KindCharge], y[psp.KindTransfer], y[psp.KindRefund]
			fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t\n", party.name, c.n, c.amount, m.n, m.amount, r.n, r.amount, y.net(), currency)
		}
	}
	_ = table.Flush() // a Builder takes everything
	fmt.Fprintf(&out, "claims: %s\n", b.statesShown())
	var accounts []string
	sums := map[string]int64{}
	for a, balance := range b.balances {
		accounts = append(accounts, fmt.Sprintf("%s %d %s", a.name, balance, a.currency))
		sums[a.currency] += balance
	}
	slices.Sort(accounts)
	for _, currency := range slices.Sorted(maps.Keys(sums)) {
		accounts = append(accounts, fmt.Sprintf("sum %d %s", sums[currency], currency))
	}
	fmt.Fprintf(&out, "balances: %s\n", strings.Join(accounts, ", "))
	fmt.Fprintf(&out, "ledger verify: %d transactions, %d balances proved, %d failures\n", b.verified.Transactions, b.verified.Balances, b.verified.Failed)
	fmt.Fprintf(&out, "reconcile: %d lines, %d agree, %d mismatches", b.compared.Lines, b.compared.Agree, b.compared.Total())
	for _, note := range w.notes {
		fmt.Fprintf(&out, "\n%s", note)
	}
	return out.String()
}

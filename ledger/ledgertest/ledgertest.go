// Package ledgertest is the conformance suite of ledger.Store. It runs unchanged on
// each backend.
package ledgertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/ledger"
)

// Harness is one backend under test, its books initially empty.
type Harness struct {
	// Regions has at least three.
	Regions []string
	// Store is the view of a node in a region.
	Store func(region string) ledger.Store
	// Pass advances the store's clock by at least d; exactly d if Exact, and then the clock stops
	// in between.
	Pass  func(t testing.TB, d time.Duration)
	Exact bool
	// Now reads the store's clock.
	Now func(t testing.TB) time.Time
}

// Exercise checks every promise of the contract. newHarness opens a backend for each
// subtest.
func Exercise(t *testing.T, newHarness func(t *testing.T) Harness) {
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(t)
			require.GreaterOrEqual(t, len(h.Regions), 3)
			tc.run(&world{Harness: h, T: t, ctx: t.Context(), home: h.Regions[0]})
		})
	}
}

type world struct {
	Harness
	*testing.T
	ctx  context.Context
	home string
}

func (w *world) at() ledger.Store { return w.Store(w.home) }

// charge is a charge of acme's, to be booked at home.
func (w *world) charge(id string, amount int64) ledger.Transaction {
	return ledger.Transaction{
		ID: id, Region: w.home, Tenant: "acme", Kind: ledger.Charge,
		Debit: ledger.Provider("sim"), Credit: ledger.Merchant("acme"),
		Amount: amount, Currency: "usd", Object: id, Provider: "sim", ProviderRef: "psp_" + id,
	}
}

func (w *world) refund(id string, of ledger.Transaction, amount int64) ledger.Transaction {
	t := of
	t.ID, t.Object, t.ProviderRef, t.Kind, t.Reverses = id, id, "psp_"+id, ledger.Refund, of.ID
	t.Debit, t.Credit, t.Amount = of.Credit, of.Debit, amount
	return t
}

func (w *world) post(t ledger.Transaction) ledger.Transaction {
	w.Helper()
	posted, err := w.at().Post(w.ctx, t)
	require.NoError(w, err)
	require.True(w, posted)
	return w.get(t)
}

func (w *world) get(t ledger.Transaction) ledger.Transaction {
	w.Helper()
	got, found, err := w.at().Transaction(w.ctx, t.Region, t.ID)
	require.NoError(w, err)
	require.True(w, found)
	require.False(w, got.At.IsZero())
	return got
}

// all pages through the transactions of a region.
func (w *world) all(region string, before time.Time, page int) (ts []ledger.Transaction) {
	w.Helper()
	for after := (ledger.Position{}); ; {
		got, err := w.at().Transactions(w.ctx, region, after, before, page)
		require.NoError(w, err)
		require.LessOrEqual(w, len(got), page)
		if len(got) == 0 {
			return ts
		}
		ts = append(ts, got...)
		after = got[len(got)-1].Position()
	}
}

func (w *world) balances(region string, page int) (bs []ledger.Balance) {
	w.Helper()
	for after := (ledger.AccountKey{}); ; {
		got, err := w.at().Balances(w.ctx, region, after, page)
		require.NoError(w, err)
		require.LessOrEqual(w, len(got), page)
		if len(got) == 0 {
			return bs
		}
		bs = append(bs, got...)
		last := got[len(got)-1]
		after = ledger.AccountKey{Account: last.Account, Currency: last.Currency}
	}
}

// normal makes times comparable.
func normal(t ledger.Transaction) ledger.Transaction {
	t.At = t.At.UTC().Round(0)
	return t
}

func ids(ts []ledger.Transaction) []string {
	got := []string{}
	for _, t := range ts {
		got = append(got, t.ID)
	}
	return got
}

// sum computes balances naively: in the order of account and currency.
func sum(ts []ledger.Transaction) (bs []ledger.Balance) {
	byKey := map[ledger.AccountKey]*ledger.Balance{}
	at := func(a ledger.Account, currency string) *ledger.Balance {
		k := ledger.AccountKey{Account: a, Currency: currency}
		if byKey[k] == nil {
			byKey[k] = &ledger.Balance{Account: a, Currency: currency}
		}
		return byKey[k]
	}
	for _, t := range ts {
		d, c := at(t.Debit, t.Currency), at(t.Credit, t.Currency)
		d.Debits += t.Amount
		d.Transactions++
		c.Credits += t.Amount
		c.Transactions++
	}
	for _, b := range byKey {
		bs = append(bs, *b)
	}
	slices.SortFunc(bs, func(a, b ledger.Balance) int {
		return cmp.Or(strings.Compare(string(a.Account), string(b.Account)), strings.Compare(a.Currency, b.Currency))
	})
	return bs
}

var tests = []struct {
	name string
	run  func(w *world)
}{
	{"post: an adjustment keeps who decided it and why", func(w *world) {
		want := ledger.Transaction{
			ID: ledger.AdjustmentID("case 7"), Region: w.home, Tenant: "acme", Kind: ledger.Adjustment, Debit: ledger.Suspense("acme"), Credit: ledger.Merchant("acme"),
			Amount: 5, Currency: "usd", Object: "case 7", By: "ops@example.com", Why: "the payer wrote that the payment is theirs",
		}
		require.True(w, want.Same(w.post(want)))
		require.True(w, want.Same(w.all(w.home, time.Time{}, 10)[0]))
		posted, err := w.at().Post(w.ctx, want)
		require.NoError(w, err)
		require.False(w, posted, "entered twice is one booking")
		for _, change := range []func(*ledger.Transaction){
			func(t *ledger.Transaction) { t.Amount++ }, func(t *ledger.Transaction) { t.Why = "another" }, func(t *ledger.Transaction) { t.By = "another" },
		} {
			other := want
			change(&other)
			_, err := w.at().Post(w.ctx, other)
			require.ErrorIs(w, err, ledger.ErrConflict)
		}
		want.ID, want.By = ledger.AdjustmentID("case 8"), ""
		_, err = w.at().Post(w.ctx, want)
		require.ErrorContains(w, err, "who made it and why")
	}},
	{"incoming: found by the provider's reference in every region's books", func(w *world) {
		charge := w.post(w.charge("ch_1", 4200))
		there := w.charge("ch_2", 4200)
		there.Region, there.ProviderRef = w.Regions[1], charge.ProviderRef
		w.post(there)
		other := w.charge("ch_3", 4200)
		w.post(other)
		back := w.refund("re_1", charge, 100)
		back.ProviderRef = charge.ProviderRef
		w.post(back)
		got, err := w.Store(w.Regions[2]).Incoming(w.ctx, "sim", charge.ProviderRef)
		require.NoError(w, err)
		require.ElementsMatch(w, []string{"ch_1", "ch_2"}, ids(got))
		for _, of := range [][2]string{{"other", charge.ProviderRef}, {"sim", "nobody"}, {"sim", ""}} {
			got, err := w.at().Incoming(w.ctx, of[0], of[1])
			require.NoError(w, err)
			require.Empty(w, got)
		}
	}},
	{"named: those that are booked, of one region's books", func(w *world) {
		first, second := w.post(w.charge("ch_1", 100)), w.post(w.charge("ch_2", 200))
		got, err := w.at().Named(w.ctx, w.home, []string{"ch_2", "ch_none", "ch_1"})
		require.NoError(w, err)
		require.ElementsMatch(w, []ledger.Transaction{first, second}, got)
		got, err = w.at().Named(w.ctx, w.Regions[1], []string{"ch_1"})
		require.NoError(w, err)
		require.Empty(w, got)
		got, err = w.at().Named(w.ctx, w.home, nil)
		require.NoError(w, err)
		require.Empty(w, got)
	}},
	{"reversals: those of one region's books", func(w *world) {
		charge := w.post(w.charge("ch_1", 4200))
		w.post(w.refund("re_1", charge, 100))
		there := w.refund("re_2", charge, 100)
		there.Region = w.Regions[1]
		w.post(there)
		opened := ledger.UnaskedOf(charge, ledger.DisputeOpened, "du_1", 4200)
		w.post(opened)
		w.post(ledger.FailureOf(charge))
		for region, want := range map[string][]string{w.home: {"re_1", opened.ID, ledger.FailureID("ch_1")}, w.Regions[1]: {"re_2"}, w.Regions[2]: {}} {
			got, err := w.Store(w.Regions[2]).ReversalsAt(w.ctx, region, "ch_1")
			require.NoError(w, err)
			require.ElementsMatch(w, want, ids(got), region)
		}
	}},
	{"disputes: any order and repetition have the same result", func(w *world) {
		of := w.post(w.charge("ch_1", 4200))
		kinds := []ledger.Kind{ledger.DisputeOpened, ledger.Dispute, ledger.DisputeReversal, ledger.DisputeWon}
		for i := range kinds {
			ref := fmt.Sprint("du_", i)
			for n := range 2 * len(kinds) {
				_, err := w.at().Post(w.ctx, ledger.UnaskedOf(of, kinds[(i+n)%len(kinds)], ref, 4200))
				require.NoError(w, err)
			}
		}
		for _, kind := range []ledger.Kind{ledger.DisputeLost, ledger.Dispute, ledger.DisputeOpened} {
			w.post(ledger.UnaskedOf(of, kind, "du_lost", 1000))
		}
		balances := map[ledger.Account]int64{}
		for _, b := range w.balances(w.home, 100) {
			balances[b.Account] = b.Debits - b.Credits
		}
		require.Equal(w, map[ledger.Account]int64{
			ledger.Provider("sim"): 3200, ledger.Merchant("acme"): -3200, ledger.Disputed("acme"): 0, ledger.Withheld("sim"): 0,
		}, balances)
	}},
	{"connected accounts: movements that follow from a charge are booked in its account", func(w *world) {
		there := w.charge("ch_1", 4200)
		there.ProviderRef += "@acct_1"
		there.Debit = ledger.Provider(ledger.Where("sim", there.ProviderRef))
		there = w.post(there)
		w.post(w.charge("ch_2", 100))
		w.post(ledger.UnaskedOf(there, ledger.ProviderRefund, "re_1@acct_1", 200))
		w.post(ledger.UnaskedOf(there, ledger.DisputeOpened, "du_1@acct_1", 1000))
		w.post(ledger.UnaskedOf(there, ledger.Dispute, "du_1@acct_1", 1000))
		w.post(ledger.FeeOf(w.home, "acme", "ch_1", "sim", "txn_1@acct_1", 150, "usd"))
		w.post(ledger.PayoutOf(w.home, "sim", "po_1@acct_1", 2000, "usd"))
		balances := map[ledger.Account]int64{}
		for _, b := range w.balances(w.home, 100) {
			balances[b.Account] = b.Debits - b.Credits
		}
		require.Equal(w, map[ledger.Account]int64{
			"provider:sim": 100, "provider:sim:acct_1": 4200 - 200 - 1000 - 150 - 2000, "withheld:sim:acct_1": 1000,
			"fees:sim:acct_1": 150, "bank:sim:acct_1": 2000, ledger.Merchant("acme"): -4300 + 200 + 1000, ledger.Disputed("acme"): -1000,
		}, balances)
		got, err := w.at().Incoming(w.ctx, "sim", there.ProviderRef)
		require.NoError(w, err)
		require.Equal(w, []string{"ch_1"}, ids(got))
	}},
	{"post: a transaction is stored as given, with the store's time", func(w *world) {
		before := w.Now(w)
		want := w.charge("ch_1", 4200)
		want.At = before.Add(-time.Hour) // the store sets it, not the caller
		got := w.post(want)
		require.True(w, want.Same(got), "%+v", got)
		require.False(w, got.At.Before(before) || got.At.After(w.Now(w)))
		require.Zero(w, got.At.Nanosecond()%1000, "times are kept in microseconds")
	}},
	{"post: an incoming payment is booked once, whatever its kind", func(w *world) {
		charge := w.charge("ch_1", 4200)
		ghost := charge
		ghost.ID, ghost.Kind, ghost.Credit = ledger.GhostID("sim", charge.ProviderRef), ledger.Ghost, ledger.Suspense("acme")
		w.post(charge)
		_, err := w.at().Post(w.ctx, ghost)
		require.ErrorIs(w, err, ledger.ErrConflict)
		require.Len(w, w.all(w.home, time.Time{}, 10), 1)

		// Not the other provider's, nor another movement, nor outgoing money.
		other := ghost
		other.Provider, other.ID = "other", ledger.GhostID("other", charge.ProviderRef)
		w.post(other)
		second := ghost
		second.ProviderRef, second.ID = "psp_2", ledger.GhostID("sim", "psp_2")
		w.post(second)
		back := w.refund("re_1", charge, 100)
		back.ProviderRef = charge.ProviderRef
		w.post(back)

		// And the other way round.
		late := w.charge("ch_2", 4200)
		late.ProviderRef = "psp_2"
		_, err = w.at().Post(w.ctx, late)
		require.ErrorIs(w, err, ledger.ErrConflict)
		posted, err := w.at().Post(w.ctx, second)
		require.NoError(w, err)
		require.False(w, posted)
	}},
	{"post: of concurrent events exactly one books an incoming payment", func(w *world) {
		const n = 8
		wins := make(chan string, n)
		var all errgroup.Group
		for i := range n {
			t := w.charge(fmt.Sprintf("ch_%d", i), 4200)
			t.ProviderRef = "psp_1"
			all.Go(func() error {
				switch posted, err := w.at().Post(w.ctx, t); {
				case err == nil && posted:
					wins <- t.ID
				case !errors.Is(err, ledger.ErrConflict):
					return fmt.Errorf("%s: %v, %w", t.ID, posted, err)
				}
				return nil
			})
		}
		require.NoError(w, all.Wait())
		require.Len(w, wins, 1)
	}},
	{"post: a repeated transaction changes nothing", func(w *world) {
		t := w.charge("ch_1", 4200)
		first := w.post(t)
		w.Pass(w, time.Millisecond)
		for _, again := range []ledger.Transaction{t, first} {
			posted, err := w.Store(w.Regions[1]).Post(w.ctx, again)
			require.NoError(w, err)
			require.False(w, posted)
		}
		require.Equal(w, normal(first), normal(w.get(t)))
		require.Len(w, w.all(w.home, time.Time{}, 10), 1)
	}},
	{"post: another transaction under the same id is refused", func(w *world) {
		t := w.charge("ch_1", 4200)
		first := w.post(t)
		for name, change := range map[string]func(t *ledger.Transaction){
			"amount":   func(t *ledger.Transaction) { t.Amount++ },
			"currency": func(t *ledger.Transaction) { t.Currency = "eur" },
			"account":  func(t *ledger.Transaction) { t.Credit = ledger.Merchant("globex") },
			"tenant":   func(t *ledger.Transaction) { t.Tenant = "globex" },
			"ref":      func(t *ledger.Transaction) { t.ProviderRef = "psp_other" },
			"object":   func(t *ledger.Transaction) { t.Object = "ch_2" },
		} {
			other := t
			change(&other)
			posted, err := w.at().Post(w.ctx, other)
			require.ErrorIs(w, err, ledger.ErrConflict, name)
			require.False(w, posted)
		}
		require.Equal(w, normal(first), normal(w.get(t)))
	}},
	{"post: an unbalanced or incomplete transaction is refused", func(w *world) {
		for name, change := range map[string]func(t *ledger.Transaction){
			"zero":          func(t *ledger.Transaction) { t.Amount = 0 },
			"negative":      func(t *ledger.Transaction) { t.Amount = -1 },
			"one account":   func(t *ledger.Transaction) { t.Credit = t.Debit },
			"no account":    func(t *ledger.Transaction) { t.Credit = "" },
			"no id":         func(t *ledger.Transaction) { t.ID = "" },
			"no tenant":     func(t *ledger.Transaction) { t.Tenant = "" },
			"no currency":   func(t *ledger.Transaction) { t.Currency = "" },
			"a NUL":         func(t *ledger.Transaction) { t.Debit += "\x00" },
			"not UTF-8":     func(t *ledger.Transaction) { t.ProviderRef = "\xff" },
			"reverses":      func(t *ledger.Transaction) { t.Reverses = "ch_0" },
			"a lone refund": func(t *ledger.Transaction) { t.Kind = ledger.Refund },
		} {
			t := w.charge("ch_1", 4200)
			change(&t)
			posted, err := w.at().Post(w.ctx, t)
			require.Error(w, err, name)
			require.False(w, posted)
			require.NotErrorIs(w, err, ledger.ErrConflict)
		}
		require.Empty(w, w.all(w.home, time.Time{}, 10))
		require.Empty(w, w.balances(w.home, 10))
	}},
	{"post: of concurrent transactions with one id exactly one is posted", func(w *world) {
		const rounds, racers = 20, 16
		for round := range rounds {
			var posted, refused atomic.Int32
			var g errgroup.Group
			start := make(chan struct{})
			for i := range racers {
				g.Go(func() error {
					<-start
					t := w.charge(fmt.Sprint("ch_", round), int64(1+i%2)) // two versions of one event
					fresh, err := w.Store(w.Regions[i%3]).Post(w.ctx, t)
					switch {
					case fresh:
						posted.Add(1)
					case errors.Is(err, ledger.ErrConflict):
						refused.Add(1)
					case err != nil:
						return err
					}
					return nil
				})
			}
			close(start)
			require.NoError(w, g.Wait())
			require.Equal(w, int32(1), posted.Load())
			require.Equal(w, int32(racers/2), refused.Load())
		}
		require.Len(w, w.all(w.home, time.Time{}, 100), rounds)
	}},
	{"transaction: each region has books of its own", func(w *world) {
		here := w.post(w.charge("ch_1", 1))
		there := w.charge("ch_1", 2)
		there.Region = w.Regions[1]
		there = w.post(there)
		require.Equal(w, int64(1), w.get(here).Amount)
		require.Equal(w, int64(2), w.get(there).Amount)
		require.Equal(w, []string{w.home, w.Regions[1]}, []string{here.Region, there.Region})
		_, found, err := w.at().Transaction(w.ctx, w.Regions[2], "ch_1")
		require.NoError(w, err)
		require.False(w, found)
		require.Len(w, w.all(w.home, time.Time{}, 10), 1)
		require.Empty(w, w.all(w.Regions[2], time.Time{}, 10))
	}},
	{"transactions: in the order of time and then of id, page by page", func(w *world) {
		var want []string
		for i := range 5 {
			// Not in the order of ids; three of them at the same time if the clock stops.
			batch := []string{fmt.Sprint("ch_b", 9-i), fmt.Sprint("ch_a", 9-i), fmt.Sprint("ch_c", 9-i)}
			for _, id := range batch {
				w.post(w.charge(id, 1))
			}
			if w.Exact {
				slices.Sort(batch)
			}
			want = append(want, batch...)
			w.Pass(w, time.Millisecond)
		}
		for _, page := range []int{1, 2, 4, 15, 100} {
			require.Equal(w, want, ids(w.all(w.home, time.Time{}, page)), "pages of %d", page)
		}
		none, err := w.at().Transactions(w.ctx, w.home, ledger.Position{}, time.Time{}, 0)
		require.NoError(w, err)
		require.Empty(w, none)
		for _, t := range w.all(w.home, time.Time{}, 100) {
			require.Equal(w, normal(w.get(t)), normal(t), "listed as read")
		}
	}},
	{"transactions: up to a time, which is excluded", func(w *world) {
		first := w.post(w.charge("ch_1", 1))
		w.Pass(w, time.Millisecond)
		second := w.post(w.charge("ch_2", 1))
		require.True(w, first.At.Before(second.At))
		require.Empty(w, w.all(w.home, first.At, 1))
		require.Equal(w, []string{"ch_1"}, ids(w.all(w.home, first.At.Add(time.Microsecond), 1)))
		require.Equal(w, []string{"ch_1"}, ids(w.all(w.home, second.At, 1)))
		require.Equal(w, []string{"ch_1", "ch_2"}, ids(w.all(w.home, second.At.Add(time.Microsecond), 1)))
		after, err := w.at().Transactions(w.ctx, w.home, first.Position(), second.At, 10)
		require.NoError(w, err)
		require.Empty(w, after)
	}},
	{"reversals: found in every region's books", func(w *world) {
		charge := w.post(w.charge("ch_1", 100))
		w.post(w.charge("ch_10", 100))
		w.post(w.refund("re_other", w.charge("ch_10", 100), 5))
		var want []string
		for i, region := range w.Regions[:3] {
			for j := range 2 {
				r := w.refund(fmt.Sprintf("re_%d_%d", i, j), charge, int64(10+i))
				r.Region = region
				w.post(r)
				want = append(want, r.ID)
			}
		}
		for _, region := range w.Regions[:2] {
			got, err := w.Store(region).Reversals(w.ctx, "ch_1")
			require.NoError(w, err)
			require.ElementsMatch(w, want, ids(got))
			for _, t := range got {
				require.Equal(w, normal(w.get(t)), normal(t))
			}
		}
		other := w.post(ledger.FailureOf(w.get(w.refund("re_other", w.charge("ch_10", 100), 5))))
		got, err := w.at().Reversals(w.ctx, "ch_1", "ch_2", "re_other")
		require.NoError(w, err)
		require.ElementsMatch(w, append(want, other.ID), ids(got), "of several at once")
		for _, of := range [][]string{{"ch_2"}, {"ch"}, nil} {
			none, err := w.at().Reversals(w.ctx, of...)
			require.NoError(w, err)
			require.Empty(w, none)
		}
	}},
	{"failure: a booking is reversed once, and stays", func(w *world) {
		charge := w.post(w.charge("ch_1", 100))
		refund := w.post(w.refund("re_1", charge, 60))
		for _, of := range []ledger.Transaction{charge, refund} {
			failed := ledger.FailureOf(of)
			require.NoError(w, failed.Validate())
			got := w.post(failed)
			require.Equal(w, of.ID, got.Reverses)
			posted, err := w.at().Post(w.ctx, failed)
			require.NoError(w, err)
			require.False(w, posted, "a movement fails once")
		}
		require.Equal(w, normal(charge), normal(w.get(charge)))
		all, err := w.at().Reversals(w.ctx, refund.ID)
		require.NoError(w, err)
		require.Equal(w, []string{ledger.FailureID(refund.ID)}, ids(all))
		for _, b := range w.balances(w.home, 10) {
			require.Equal(w, b.Debits, b.Credits, "%s has the same balance as before", b.Account)
		}
	}},
	{"ghost refund: found by its object, and nothing else", func(w *world) {
		ghost := w.charge(ledger.GhostID("sim", "p1"), 100)
		ghost.Kind, ghost.Object, ghost.Credit, ghost.ProviderRef = ledger.Ghost, "ch_1", ledger.Suspense("acme"), "p1"
		back := w.refund("re_1", w.post(ghost), 100)
		back.ID, back.Kind = ledger.GhostRefundID("sim", "p1"), ledger.GhostRefund
		w.post(back)
		w.post(ledger.FailureOf(w.get(back)))
		plain := w.post(w.refund("re_2", w.post(w.charge("ch_2", 100)), 100))
		for _, region := range w.Regions[:2] {
			got, found, err := w.Store(region).GhostRefund(w.ctx, w.home, "re_1")
			require.NoError(w, err)
			require.True(w, found)
			require.Equal(w, normal(w.get(back)), normal(got))
		}
		for _, none := range []struct{ region, object string }{{w.home, plain.Object}, {w.home, "ch_1"}, {w.home, "re_"}, {w.Regions[1], "re_1"}} {
			_, found, err := w.at().GhostRefund(w.ctx, none.region, none.object)
			require.NoError(w, err)
			require.False(w, found, "%v", none)
		}
	}},
	{"about an object: all that is no charge, transfer or refund of its own, and nothing else", func(w *world) {
		charge := w.post(w.charge("ch_1", 4200))
		w.post(w.charge("ch_2", 100))
		w.post(w.refund("re_own", charge, 100))
		failed := w.post(ledger.FailureOf(w.post(w.refund("re_failed", charge, 200))))
		var want []string
		for _, ref := range []string{"p1", "p2"} {
			ghost := w.charge(ledger.GhostID("sim", ref), 100)
			ghost.Kind, ghost.Object, ghost.Credit, ghost.ProviderRef = ledger.Ghost, "ch_1", ledger.Suspense("acme"), ref
			want = append(want, w.post(ghost).ID)
			if ref == "p1" {
				back := w.refund("re_1", ghost, 100)
				back.ID, back.Kind = ledger.GhostRefundID("sim", ref), ledger.GhostRefund
				w.post(back)
			}
		}
		for _, t := range []ledger.Transaction{
			ledger.UnaskedOf(charge, ledger.ProviderRefund, "re_desk", 100), ledger.UnaskedOf(charge, ledger.DisputeOpened, "du_1", 100),
			ledger.UnaskedOf(charge, ledger.Dispute, "du_1", 100), ledger.UnaskedOf(charge, ledger.DisputeLost, "du_1", 100),
			ledger.FeeOf(w.home, "acme", "ch_1", "sim", "txn_1", 5, "usd"),
		} {
			want = append(want, w.post(t).ID)
		}
		slices.Sort(want)
		for _, region := range w.Regions[:2] {
			got, err := w.Store(region).About(w.ctx, w.home, "ch_1")
			require.NoError(w, err)
			require.Equal(w, want, ids(got))
		}
		got, err := w.at().About(w.ctx, w.home, "re_failed")
		require.NoError(w, err)
		require.Equal(w, []string{failed.ID}, ids(got))
		got, err = w.at().About(w.ctx, w.home, "re_1")
		require.NoError(w, err)
		require.Equal(w, []string{ledger.GhostRefundID("sim", "p1")}, ids(got))
		for _, none := range []struct{ region, object string }{{w.home, "ch_2"}, {w.home, "re_own"}, {w.home, "ch_"}, {w.Regions[1], "ch_1"}} {
			got, err := w.at().About(w.ctx, none.region, none.object)
			require.NoError(w, err)
			require.Empty(w, got, "%v", none)
		}
		other := w.post(ledger.UnaskedOf(w.post(w.charge("ch_other", 100)), ledger.DisputeOpened, "du_other", 100))
		got, err = w.at().About(w.ctx, w.home, "ch_1", "ch_none", "ch_other")
		require.NoError(w, err)
		want = append(want, other.ID)
		slices.Sort(want)
		require.Equal(w, want, ids(got), "of several objects, by id")
		got, err = w.at().About(w.ctx, w.home)
		require.NoError(w, err)
		require.Empty(w, got)
	}},
	{"post: what the merchant sent is kept, and changes nothing of what is booked", func(w *world) {
		charge := w.charge("ch_1", 100)
		charge.Created, charge.Order, charge.Metadata = time.Unix(1_700_000_000, 0).UTC(), "order-\u00e9 \"17\"", `{"color":"red"}`
		got := w.post(charge)
		require.Equal(w, charge, normal(ledger.Transaction{
			ID: got.ID, Region: got.Region, Tenant: got.Tenant, Kind: got.Kind, Debit: got.Debit, Credit: got.Credit, Amount: got.Amount, Currency: got.Currency,
			Object: got.Object, Provider: got.Provider, ProviderRef: got.ProviderRef, Created: got.Created, Order: got.Order, Metadata: got.Metadata,
		}))
		again := w.charge("ch_1", 100)
		posted, err := w.at().Post(w.ctx, again)
		require.NoError(w, err)
		require.False(w, posted)
		require.Equal(w, got, w.get(again), "the first stays")
		bare := w.post(w.charge("ch_2", 100))
		require.Equal(w, bare.At, bare.Created, "of a charge that says no time")
		nul := w.charge("ch_3", 100)
		nul.Order = "order\x00"
		_, err = w.at().Post(w.ctx, nul)
		require.ErrorContains(w, err, "NUL")
	}},
	{"charges: those of a tenant in one region's books, between two positions, either way, a page at a time", func(w *world) {
		var all []ledger.Transaction
		for i := range 40 {
			t := w.charge(fmt.Sprintf("ch_%02d", (7*i)%40), 100)
			t.Created = time.Unix(1_700_000_000+int64(i/3), 0).UTC() // some share a second
			t.Order = []string{"", "order-1", "order-10", "order-2"}[i%4]
			if i%10 == 9 {
				t.Tenant, t.Debit, t.Credit = "acme2", ledger.Provider("sim"), ledger.Merchant("acme2")
			}
			if i == 5 {
				t.Region = w.Regions[1]
			}
			all = append(all, w.post(t))
		}
		w.post(w.refund("re_1", all[0], 100))
		w.post(ledger.UnaskedOf(all[0], ledger.DisputeOpened, "du_1", 100))
		back := w.refund("re_2", all[1], 100)
		back.Order = all[1].Order
		require.True(w, w.post(back).Created.IsZero(), "a charge's alone")
		at := func(i int) ledger.Position { return ledger.Position{At: all[i].Created, ID: all[i].ID} }
		since := func(i int) ledger.Position { return ledger.Position{At: all[i].Created} }
		for _, c := range []ledger.Charges{
			{Tenant: "acme"}, {Tenant: "acme2"}, {Tenant: "nobody"}, {Tenant: "acme", Order: "order-1"}, {Tenant: "acme", Order: "order"},
			{Tenant: "acme", After: at(7)}, {Tenant: "acme", Before: at(7)}, {Tenant: "acme", After: at(7), Before: at(22)}, {Tenant: "acme", After: at(22), Before: at(7)},
			{Tenant: "acme", After: since(12)}, {Tenant: "acme", Before: since(12)}, {Tenant: "acme", Order: "order-2", After: at(7), Before: since(30)},
		} {
			for _, latest := range []bool{false, true} {
				c.Latest = latest
				for _, region := range w.Regions {
					var want []ledger.Transaction
					for i := range all {
						if all[i].Region == region && c.Has(&all[i]) {
							want = append(want, all[i])
						}
					}
					slices.SortFunc(want, func(a, b ledger.Transaction) int { return c.Compare(&a, &b) })
					for _, limit := range []int{100, 4, 1, 0} {
						c := c
						c.Limit = limit
						got, err := w.Store(w.Regions[2]).Charges(w.ctx, region, c)
						require.NoError(w, err)
						require.Equal(w, ids(want[:min(limit, len(want))]), ids(got), "%+v of %s", c, region)
						for i := range got {
							require.Equal(w, want[i], got[i])
						}
					}
				}
			}
		}
	}},
	{"everything about a charge: its refunds, and what reverses them, to the end", func(w *world) {
		charge := w.post(w.charge("ch_1", 4200))
		w.post(w.charge("ch_2", 100))
		want := []string{"ch_1"}
		post := func(t ledger.Transaction) ledger.Transaction {
			w.Pass(w, time.Millisecond)
			want = append(want, t.ID)
			return w.post(t)
		}
		post(ledger.FailureOf(post(w.refund("re_1", charge, 600))))
		there := w.refund("re_2", charge, 1000)
		there.Region = w.Regions[1]
		post(ledger.FailureOf(post(there)))
		post(ledger.FailureOf(post(ledger.UnaskedOf(charge, ledger.ProviderRefund, "re_desk", 250))))
		post(ledger.UnaskedOf(charge, ledger.DisputeOpened, "du_1", 1000))
		post(ledger.UnaskedOf(charge, ledger.Dispute, "du_1", 1000))
		post(ledger.UnaskedOf(charge, ledger.DisputeReversal, "du_1", 1000))
		post(ledger.UnaskedOf(charge, ledger.DisputeWon, "du_1", 1000))
		post(ledger.UnaskedOf(charge, ledger.DisputeLost, "du_2", 1000))
		ghost := w.charge(ledger.GhostID("sim", "p2"), 100)
		ghost.Region, ghost.Kind, ghost.Object, ghost.Credit, ghost.ProviderRef = w.Regions[2], ledger.Ghost, "ch_1", ledger.Suspense("acme"), "p2"
		post(ghost)
		for try := range 2 {
			back := w.refund(fmt.Sprint("re_g", try), ghost, 100)
			back.ID, back.Kind = ledger.GhostRefundTryID("sim", "p2", try+1), ledger.GhostRefund
			if back = post(back); try == 0 {
				post(ledger.FailureOf(back))
			}
		}
		post(ledger.FailureOf(charge))
		for _, region := range w.Regions[:2] {
			got, missing := ledger.Everything(w.ctx, w.Store(region), w.Regions, "ch_1")
			require.Empty(w, missing)
			if w.Exact {
				require.Equal(w, want, ids(got))
			}
			require.ElementsMatch(w, want, ids(got))
		}
		for of, want := range map[string][]string{
			"re_1": {"re_1", ledger.FailureID("re_1")}, ghost.ID: {ghost.ID, ledger.GhostRefundID("sim", "p2"), ledger.FailureID(ledger.GhostRefundID("sim", "p2")), ledger.GhostRefundTryID("sim", "p2", 2)},
			"re_g0": {ledger.GhostRefundID("sim", "p2"), ledger.FailureID(ledger.GhostRefundID("sim", "p2"))}, "ch_none": {},
		} {
			got, missing := ledger.Everything(w.ctx, w.at(), w.Regions, of)
			require.Empty(w, missing)
			require.ElementsMatch(w, want, ids(got), of)
		}
	}},
	{"balances: none for empty books", func(w *world) {
		require.Empty(w, w.balances(w.home, 10))
	}},
	{"balances: the sum of all transactions from zero, and zero in each currency", func(w *world) {
		var booked []ledger.Transaction
		for i := range 40 {
			t := w.charge(fmt.Sprint("ch_", i), int64(100+i))
			t.Tenant = fmt.Sprint("t", i%7)
			t.Credit, t.Currency = ledger.Merchant(t.Tenant), []string{"usd", "eur", "jpy"}[i%3]
			if i%5 == 0 {
				t.Kind, t.Credit = ledger.Ghost, ledger.Suspense(t.Tenant)
			}
			booked = append(booked, w.post(t))
			if i%4 == 0 {
				r := w.refund(fmt.Sprint("re_", i), t, int64(1+i))
				if t.Kind == ledger.Ghost {
					r.Kind = ledger.GhostRefund
				}
				booked = append(booked, w.post(r))
			}
		}
		far := w.charge("far", 7)
		far.Region = w.Regions[1]
		w.post(far)

		want := sum(booked)
		for _, page := range []int{1, 3, 100} {
			got := w.balances(w.home, page)
			require.Equal(w, want, got, "pages of %d", page)
		}
		zero := map[string]int64{}
		for _, b := range want {
			zero[b.Currency] += b.Debits - b.Credits
		}
		require.Equal(w, map[string]int64{"usd": 0, "eur": 0, "jpy": 0}, zero)
		require.Equal(w, sum([]ledger.Transaction{far}), w.balances(w.Regions[1], 10))
		none, err := w.at().Balances(w.ctx, w.home, ledger.AccountKey{}, 0)
		require.NoError(w, err)
		require.Empty(w, none)
	}},
}

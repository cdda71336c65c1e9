package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/ledger"
)

// liar is a Store in memory that can be made to lie.
type liar struct {
	ledger.Store
	rows map[string][]ledger.Transaction // by region, as they are listed
	// balances changes what is summed up; transactions what a page is.
	balances     func(all []ledger.Balance) []ledger.Balance
	transactions func(page []ledger.Transaction) []ledger.Transaction
	reversals    func(all []ledger.Transaction) []ledger.Transaction
	fail         error
	carried      map[string]ledger.Sums
}

func (l *liar) Carried(_ context.Context, region string, after ledger.AccountKey, limit int) ([]ledger.Balance, error) {
	return l.carried[region].Page(after, limit), l.fail
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// book appends t to us, unless it names a region, with the next microsecond.
func (l *liar) book(t ledger.Transaction) {
	if t.Region == "" {
		t.Region = "us"
	}
	t.Tenant, t.Provider = "acme", "sim"
	if t.Currency == "" {
		t.Currency = "usd"
	}
	if t.Object == "" {
		t.Object = t.ID
	}
	t.Debit, t.Credit, _ = accounts(&t, ledger.Where(t.Provider, t.ProviderRef))
	t.At = noon.Add(time.Duration(len(l.rows[t.Region])) * time.Microsecond)
	l.rows[t.Region] = append(l.rows[t.Region], t)
}

func books() *liar {
	l := &liar{rows: map[string][]ledger.Transaction{}}
	l.book(ledger.Transaction{ID: "ch_1", Kind: ledger.Charge, Amount: 100})
	l.book(ledger.Transaction{ID: "ch_2", Kind: ledger.Charge, Amount: 50, Currency: "eur"})
	l.book(ledger.Transaction{ID: "tr_1", Kind: ledger.Transfer, Amount: 30})
	l.book(ledger.Transaction{ID: "re_1", Kind: ledger.Refund, Amount: 60, Reverses: "ch_1"})
	l.book(ledger.Transaction{ID: "re_2", Region: "eu", Kind: ledger.Refund, Amount: 40, Reverses: "ch_1"})
	l.book(ledger.Transaction{ID: ledger.GhostID("sim", "p9"), Kind: ledger.Ghost, Amount: 7, Object: "ch_9", ProviderRef: "p9"})
	l.book(ledger.Transaction{ID: ledger.GhostRefundID("sim", "p9"), Kind: ledger.GhostRefund, Amount: 7, Object: "re_9", Reverses: ledger.GhostID("sim", "p9")})
	return l
}

func (l *liar) Transactions(_ context.Context, region string, after ledger.Position, _ time.Time, limit int) (page []ledger.Transaction, _ error) {
	for i, t := range l.rows[region] {
		if after == (ledger.Position{}) || slices.IndexFunc(l.rows[region], func(t ledger.Transaction) bool { return t.Position() == after }) < i {
			page = append(page, t)
		}
		if len(page) == limit {
			break
		}
	}
	if l.transactions != nil {
		page = l.transactions(page)
	}
	return page, l.fail
}

func (l *liar) Transaction(_ context.Context, region, id string) (ledger.Transaction, bool, error) {
	for _, t := range l.rows[region] {
		if t.ID == id {
			return t, true, nil
		}
	}
	return ledger.Transaction{}, false, nil
}

func (l *liar) Reversals(_ context.Context, ids ...string) (all []ledger.Transaction, _ error) {
	for _, rows := range l.rows {
		for _, t := range rows {
			if slices.Contains(ids, t.Reverses) {
				all = append(all, t)
			}
		}
	}
	if l.reversals != nil {
		all = l.reversals(all)
	}
	return all, nil
}

func (l *liar) Balances(_ context.Context, region string, after ledger.AccountKey, limit int) (all []ledger.Balance, _ error) {
	s := maps.Clone(l.carried[region])
	if s == nil {
		s = ledger.Sums{}
	}
	for i := range l.rows[region] {
		s.Add(&l.rows[region][i])
	}
	for _, key := range keysOf(s, nil) {
		if compareKeys(key, after) > 0 {
			all = append(all, s[key])
		}
	}
	if l.balances != nil {
		all = l.balances(all)
	}
	return all[:min(len(all), limit)], nil
}

func TestGoodBooks(t *testing.T) {
	report, err := Books(t.Context(), books(), []string{"us", "eu"})
	require.NoError(t, err)
	require.Empty(t, report.Failures)
	require.True(t, report.OK())
	require.EqualValues(t, 7, report.Transactions)
	require.Equal(t, 7, report.Balances, "provider and merchant in usd and eur, suspense; and two in eu")
	require.Zero(t, report.Moving)
}

func TestEachLieIsNamed(t *testing.T) {
	us := func(l *liar, i int) *ledger.Transaction { return &l.rows["us"][i] }
	for name, c := range map[string]struct {
		lie    func(l *liar)
		checks []Check
		detail string
	}{
		"no amount":                    {func(l *liar) { us(l, 2).Amount = 0 }, []Check{CheckRow}, "above 0"},
		"one account":                  {func(l *liar) { us(l, 2).Debit = us(l, 2).Credit }, []Check{CheckRow}, "two accounts"},
		"another region's":             {func(l *liar) { us(l, 2).Region = "eu" }, []Check{CheckRow}, `of region "eu"`},
		"no time":                      {func(l *liar) { us(l, 0).At = time.Time{} }, []Check{CheckRow}, "no time"},
		"a kind of its own":            {func(l *liar) { us(l, 2).Kind = "gift" }, []Check{CheckRow}, `no kind "gift"`},
		"another's account":            {func(l *liar) { us(l, 2).Debit = ledger.Merchant("globex") }, []Check{CheckRow}, "debits merchant:acme"},
		"a ghost by any name":          {func(l *liar) { us(l, 4).ProviderRef = "p8" }, []Check{CheckRow, CheckReversal}, "ghost of the movement p8"},
		"listed out of order":          {func(l *liar) { us(l, 1).At = noon.Add(time.Hour) }, []Check{CheckOrder}, "listed after ch_2"},
		"an id twice":                  {func(l *liar) { l.book(ledger.Transaction{ID: "tr_1", Kind: ledger.Transfer, Amount: 30}) }, []Check{CheckUnique}, "two transactions"},
		"sums beyond 64 bits":          {func(l *liar) { us(l, 0).Amount, us(l, 3).Amount = math.MaxInt64, math.MaxInt64; l.rows["eu"] = nil }, []Check{CheckRow, CheckRow, CheckZero}, "beyond 64 bits"},
		"reverses nothing":             {func(l *liar) { us(l, 3).Reverses = "ch_0" }, []Check{CheckReversal}, "not booked"},
		"reverses a transfer":          {func(l *liar) { us(l, 3).Reverses = "tr_1" }, []Check{CheckReversal, CheckReversal}, "this one the transfer"},
		"another currency":             {func(l *liar) { us(l, 3).Reverses = "ch_2" }, []Check{CheckReversal, CheckReversal}, "it is in usd"},
		"another's charge":             {func(l *liar) { us(l, 0).Tenant, us(l, 0).Credit = "globex", ledger.Merchant("globex") }, []Check{CheckReversal, CheckReversal}, "not the opposite"},
		"more than there was":          {func(l *liar) { l.rows["eu"][0].Amount = 41 }, []Check{CheckReversal}, "101 are taken back"},
		"a ghost's refund by any name": {func(l *liar) { us(l, 5).ID = "ghostre_1" }, []Check{CheckReversal}, "has the id ghostre_"},
		"an unlisted reversal":         {func(l *liar) { l.reversals = func([]ledger.Transaction) []ledger.Transaction { return nil } }, []Check{CheckReversal, CheckReversal, CheckReversal}, "not among the reversals"},
		"too large to be a sum": {func(l *liar) {
			l.reversals = func(all []ledger.Transaction) []ledger.Transaction {
				all[0].Amount = math.MaxInt64
				return append(all, all...)
			}
		}, []Check{CheckReversal, CheckReversal}, "9223372036854775807 are taken back"},
		"another balance": {func(l *liar) {
			l.balances = func(all []ledger.Balance) []ledger.Balance { all[1].Debits++; return all }
		}, []Check{CheckBalance, CheckZero, CheckBalance, CheckZero}, "the store says"},
		"other counts": {func(l *liar) {
			l.balances = func(all []ledger.Balance) []ledger.Balance { all[0].Transactions--; return all }
		}, []Check{CheckBalance, CheckBalance}, "the store says"},
		"an account that is left out": {func(l *liar) {
			l.balances = func(all []ledger.Balance) []ledger.Balance { return all[1:] }
		}, []Check{CheckBalance, CheckZero, CheckBalance, CheckZero}, "the store says 0 - 0 in 0"},
		"an account without bookings": {func(l *liar) {
			l.balances = func(all []ledger.Balance) []ledger.Balance {
				return append(all, ledger.Balance{Account: "x", Currency: "usd", Credits: 1})
			}
		}, []Check{CheckBalance, CheckZero, CheckBalance, CheckZero}, "its rows 0 - 0 in 0"},
	} {
		t.Run(name, func(t *testing.T) {
			l := books()
			c.lie(l)
			report, err := Books(t.Context(), l, []string{"us", "eu"})
			require.NoError(t, err)
			require.False(t, report.OK())
			var checks []Check
			var lines string
			for _, f := range report.Failures {
				checks = append(checks, f.Check)
				lines += f.String() + "\n"
			}
			require.Equal(t, c.checks, checks, lines)
			require.Equal(t, len(checks), report.Failed)
			require.Contains(t, lines, c.detail)
		})
	}
}

func TestBooksThatCannotBeRead(t *testing.T) {
	l := books()
	l.fail = errors.New("down")
	_, err := Books(t.Context(), l, []string{"us", "eu"})
	require.ErrorContains(t, err, "the books of us cannot be read: down")

	l = books()
	l.transactions = func([]ledger.Transaction) []ledger.Transaction { // for ever the same page
		return slices.Repeat(l.rows["us"][:1], verifyPage)
	}
	_, err = Books(t.Context(), l, []string{"us"})
	require.ErrorContains(t, err, "does not continue")

	l = books()
	l.balances = func(all []ledger.Balance) []ledger.Balance { slices.Reverse(all); return all }
	_, err = Books(t.Context(), l, []string{"us"})
	require.ErrorContains(t, err, "is listed after")
}

// Money is booked while the books are verified.
func TestBooksThatGrowMeanwhile(t *testing.T) {
	l := books()
	n := 0
	grow := func() {
		n++
		l.book(ledger.Transaction{ID: fmt.Sprintf("ch_new%d", n), Kind: ledger.Charge, Amount: 1})
	}
	l.transactions = func(page []ledger.Transaction) []ledger.Transaction { grow(); return page }
	report, err := Books(t.Context(), l, []string{"us", "eu"})
	require.NoError(t, err)
	require.Empty(t, report.Failures)
	require.Equal(t, 2, report.Moving, "provider and merchant in usd")
	require.Equal(t, 5, report.Balances)

	// A lie is one all the same.
	l.balances = func(all []ledger.Balance) []ledger.Balance { all[1].Debits += 10; return all }
	report, err = Books(t.Context(), l, []string{"us"})
	require.NoError(t, err)
	require.Len(t, report.Failures, 1)
	require.Contains(t, report.Failures[0].Detail, "before and")
}

// Old books leave while the books are verified: after the first page is read, or after what is
// carried forward is read for the second time.
func TestBooksThatLeaveMeanwhile(t *testing.T) {
	for _, at := range []int{1, 2} {
		l := &liar{rows: map[string][]ledger.Transaction{}, carried: map[string]ledger.Sums{"us": {}}}
		l.book(ledger.Transaction{ID: "ch_1", Kind: ledger.Charge, Amount: 100})
		l.book(ledger.Transaction{ID: "re_1", Kind: ledger.Refund, Amount: 60, Reverses: "ch_1"})
		pages := 0
		l.transactions = func(page []ledger.Transaction) []ledger.Transaction {
			l.book(ledger.Transaction{ID: fmt.Sprintf("ch_new%d", pages), Kind: ledger.Charge, Amount: 1})
			l.rows["us"][len(l.rows["us"])-1].At = noon.Add(time.Duration(pages+1) * time.Second)
			if pages++; pages != at {
				return page
			}
			for i := range l.rows["us"][:2] {
				l.carried["us"].Add(&l.rows["us"][i])
			}
			l.rows["us"] = slices.Clone(l.rows["us"][2:])
			if at == 2 { // before this page was read
				return slices.Clone(l.rows["us"])
			}
			return page
		}
		report, err := Books(t.Context(), l, []string{"us"})
		require.NoError(t, err)
		require.Empty(t, report.Failures, "at page %d", at)
		require.GreaterOrEqual(t, pages, 2)
	}
}

// What is wrong with everything is counted, and not all of it kept.
func TestFailuresAreBounded(t *testing.T) {
	l := &liar{rows: map[string][]ledger.Transaction{}}
	for i := range maxFailures + 500 {
		l.book(ledger.Transaction{ID: fmt.Sprintf("ch_%05d", i), Kind: ledger.Charge, Amount: 1})
		l.rows["us"][i].Provider = "other"
	}
	report, err := Books(t.Context(), l, []string{"us"})
	require.NoError(t, err)
	require.Equal(t, maxFailures+500, report.Failed)
	require.Len(t, report.Failures, maxFailures)
}

// A refund that fails after it was booked, and a charge that does, are taken back
// whole, and what failed counts no more: the charge may be refunded again.
func TestBooksWithFailures(t *testing.T) {
	l := books()
	fail := func(region, id string) {
		for _, of := range l.rows[region] {
			if of.ID == id {
				failed := ledger.FailureOf(of)
				failed.At = noon.Add(time.Hour + time.Duration(len(l.rows[region])+1)*time.Microsecond)
				l.rows[region] = append(l.rows[region], failed)
			}
		}
	}
	later := func(of ledger.Transaction) {
		l.book(of)
		rows := l.rows["us"]
		rows[len(rows)-1].At = noon.Add(time.Hour + time.Duration(len(rows))*time.Microsecond)
	}
	fail("us", "re_1")
	later(ledger.Transaction{ID: "re_3", Kind: ledger.Refund, Amount: 60, Reverses: "ch_1"})
	fail("us", "ch_2")
	fail("us", "tr_1")
	fail("us", ledger.GhostRefundID("sim", "p9"))
	later(ledger.Transaction{ID: ledger.GhostRefundTryID("sim", "p9", 2), Kind: ledger.GhostRefund, Amount: 7, Object: "re_10", Reverses: ledger.GhostID("sim", "p9")})
	report, err := Books(t.Context(), l, []string{"us", "eu"})
	require.NoError(t, err)
	require.Empty(t, report.Failures)

	l.rows["us"][len(l.rows["us"])-1].Amount = 8
	report, err = Books(t.Context(), l, []string{"us", "eu"})
	require.NoError(t, err)
	require.Len(t, report.Failures, 1, "more is reversed than was booked")

	l = books()
	fail("us", "re_1")
	l.rows["us"][len(l.rows["us"])-1].Amount = 59
	report, err = Books(t.Context(), l, []string{"us", "eu"})
	require.NoError(t, err)
	require.Len(t, report.Failures, 1, "a failure takes back all")
	require.Equal(t, CheckReversal, report.Failures[0].Check)
}

// What the ledger books of our bank is what is expected of it.
func TestMoneyToAndFromOurBank(t *testing.T) {
	out := ledger.PayoutOf("us", "sim", "po_1", 70, "usd")
	l := books()
	for i, booked := range []ledger.Transaction{out, ledger.PayoutBackOf(out, "po_1"), ledger.TopUpOf("us", "sim", "po_2", 30, "usd")} {
		require.NoError(t, booked.Validate())
		booked.At = noon.Add(time.Hour + time.Duration(i)*time.Microsecond)
		l.rows["us"] = append(l.rows["us"], booked)
	}
	report, err := Books(t.Context(), l, []string{"us", "eu"})
	require.NoError(t, err)
	require.Empty(t, report.Failures)
	last := &l.rows["us"][len(l.rows["us"])-1]
	last.Debit, last.Credit = last.Credit, last.Debit
	report, err = Books(t.Context(), l, []string{"us", "eu"})
	require.NoError(t, err)
	require.NotEmpty(t, report.Failures)
}

// segments are the transactions of us that have left its books.
type segments struct {
	all    []ledger.Transaction
	faults []string
}

func (l *segments) Carried(_ context.Context, region string) (ledger.Sums, []string, error) {
	sums := ledger.Sums{}
	for i := range l.all {
		if l.all[i].Region == region {
			sums.Add(&l.all[i])
		}
	}
	return sums, l.faults, nil
}

func (l *segments) Transaction(_ context.Context, _, id string) (ledger.Transaction, bool, error) {
	i := slices.IndexFunc(l.all, func(t ledger.Transaction) bool { return t.ID == id })
	if i < 0 {
		return ledger.Transaction{}, false, nil
	}
	return l.all[i], true, nil
}

// What has left the books is counted as long as the store carries it forward, and proved where it
// can be read.
func TestWhatHasLeftTheBooks(t *testing.T) {
	old := books()
	has := &segments{all: old.rows["us"][1:3]} // ch_2, in eur, and tr_1
	sums, _, err := has.Carried(t.Context(), "us")
	require.NoError(t, err)
	rest := func() *liar {
		l := books()
		l.rows["us"] = slices.Delete(l.rows["us"], 1, 3)
		l.carried = map[string]ledger.Sums{"us": maps.Clone(sums)}
		return l
	}
	report, err := Books(t.Context(), rest(), []string{"us", "eu"})
	require.NoError(t, err)
	require.Empty(t, report.Failures)
	require.Equal(t, []int64{5, 2, 0}, []int64{report.Transactions, report.Left, report.Proved})
	report, err = AllBooks(t.Context(), rest(), []string{"us", "eu"}, has)
	require.NoError(t, err)
	require.Empty(t, report.Failures)
	require.Equal(t, []int64{5, 2, 2}, []int64{report.Transactions, report.Left, report.Proved})

	// One leaves while what reverses it is booked.
	l := rest()
	has.all = append(has.all, l.rows["us"][0])
	l.carried["us"].Add(&l.rows["us"][0])
	l.rows["us"] = l.rows["us"][1:]
	report, err = AllBooks(t.Context(), l, []string{"us", "eu"}, has)
	require.NoError(t, err)
	require.Empty(t, report.Failures)
	report, err = Books(t.Context(), l, []string{"us", "eu"})
	require.NoError(t, err)
	require.Len(t, report.Failures, 2, "ch_1 is missing")

	merchant := ledger.AccountKey{Account: ledger.Merchant("acme"), Currency: "usd"}
	for name, change := range map[string]func(l *liar, has *segments){
		"more is carried": func(l *liar, _ *segments) {
			b := l.carried["us"][merchant]
			b.Debits++
			l.carried["us"][merchant] = b
		},
		"nothing is carried": func(l *liar, _ *segments) { clear(l.carried["us"]) },
		"a segment is wrong": func(_ *liar, has *segments) { has.faults = []string{"changed"} },
	} {
		l, one := rest(), &segments{all: has.all[:2]}
		change(l, one)
		report, err := AllBooks(t.Context(), l, []string{"us", "eu"}, one)
		require.NoError(t, err)
		require.NotEmpty(t, report.Failures, name)
		require.Equal(t, CheckLeft, report.Failures[0].Check, name)
		require.Zero(t, report.Proved, name)
	}
}

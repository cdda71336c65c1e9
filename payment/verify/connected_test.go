package verify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/ledger"
)

// What lies in a connected account is booked there, and so is what gives it back.
func TestBooksOfConnectedAccounts(t *testing.T) {
	there := func() *liar {
		l := books()
		l.book(ledger.Transaction{ID: "ch_3", Kind: ledger.Charge, Amount: 9, ProviderRef: "p3@acct_1"})
		l.book(ledger.Transaction{ID: "re_7", Kind: ledger.Refund, Amount: 9, Reverses: "ch_3", ProviderRef: "r3@acct_1"})
		return l
	}
	last := func(l *liar, n int) *ledger.Transaction { return &l.rows["us"][len(l.rows["us"])-n] }
	for name, c := range map[string]struct {
		change func(l *liar)
		checks []Check
	}{
		"as it is":       {func(*liar) {}, nil},
		"as ours":        {func(l *liar) { last(l, 2).Debit, last(l, 1).Credit = "provider:sim", "provider:sim" }, []Check{CheckRow, CheckRow}},
		"apart":          {func(l *liar) { last(l, 1).Credit = "provider:sim" }, []Check{CheckRow, CheckReversal}},
		"elsewhere":      {func(l *liar) { last(l, 2).Debit, last(l, 1).Credit = "provider:sim:acct_2", "provider:sim:acct_2" }, []Check{CheckRow, CheckRow}},
		"ours, as there": {func(l *liar) { l.rows["us"][0].Debit = "provider:sim:acct_1" }, []Check{CheckRow, CheckReversal, CheckReversal}},
	} {
		t.Run(name, func(t *testing.T) {
			l := there()
			c.change(l)
			report, err := Books(t.Context(), l, []string{"us", "eu"})
			require.NoError(t, err)
			var checks []Check
			for _, f := range report.Failures {
				checks = append(checks, f.Check)
			}
			require.Equal(t, c.checks, checks, "%v", report.Failures)
		})
	}
}

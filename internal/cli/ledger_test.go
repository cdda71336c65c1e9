package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/verify"
)

// twoBooks runs a test on the books of both stores. flags name the store to the
// commands; open is the store itself.
func twoBooks(t *testing.T, run func(t *testing.T, flags []string, open func(do func(*store)))) {
	twoStores(t, func(t *testing.T, flags []string, _ func(do func(*store))) {
		f := storeFlags{}
		if len(flags) > 0 {
			f.Data = flags[1]
		}
		run(t, flags, func(do func(*store)) {
			require.NoError(t, f.withBooks(t.Context(), func(s *store) error { do(s); return nil }))
		})
	})
}

func post(t *testing.T, s *store, tx ledger.Transaction) {
	t.Helper()
	if tx.Tenant == "" {
		tx.Tenant = "acme"
	}
	if tx.Object == "" {
		tx.Object = tx.ID
	}
	tx.Provider, tx.Currency = "simulator", "usd"
	there, merchant := ledger.Provider(tx.Provider), ledger.Merchant(tx.Tenant)
	switch tx.Kind {
	case ledger.Charge:
		tx.Debit, tx.Credit = there, merchant
	case ledger.Refund, ledger.Transfer:
		tx.Debit, tx.Credit = merchant, there
	case ledger.Ghost:
		tx.Debit, tx.Credit = there, ledger.Suspense(tx.Tenant)
	}
	posted, err := s.rows.Post(t.Context(), tx)
	require.NoError(t, err)
	require.True(t, posted)
}

// Nobody is owed anything of a test tenant's suspense: neither a metric nor a report counts it.
func TestSuspenseIsOfLiveTenants(t *testing.T) {
	twoBooks(t, func(t *testing.T, flags []string, open func(do func(*store))) {
		open(func(s *store) {
			for i, tenant := range []string{"acme", "acme~test", "globex", "globex~test"} {
				ref := fmt.Sprintf("p%d", i)
				post(t, s, ledger.Transaction{ID: ledger.GhostID("simulator", ref), Region: "us-east1", Tenant: tenant, Kind: ledger.Ghost, Amount: 7, ProviderRef: ref})
			}
			owed, err := suspended(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, map[string]int64{"usd": 14}, owed)
		})
		balances := does(t, append([]string{"ledger", "balances"}, flags...)...)
		require.Regexp(t, `suspense:acme .*LIMBO`, balances)
		require.Regexp(t, `suspense:acme~test .*\n`, balances)
		require.NotRegexp(t, `suspense:acme~test .*LIMBO`, balances)
	})
}

// One tenant's suspense does not hide another's: a movement that was booked to the wrong tenant stays
// in sight, and what is at zero over all regions is.
func TestSuspenseThatIsBookedWrongIsSeen(t *testing.T) {
	twoBooks(t, func(t *testing.T, _ []string, open func(do func(*store))) {
		open(func(s *store) {
			ghost := func(region, tenant string, amount int64) {
				ref := region + tenant
				post(t, s, ledger.Transaction{ID: ledger.GhostID("simulator", ref), Region: region, Tenant: tenant, Kind: ledger.Ghost, Amount: amount, ProviderRef: ref})
			}
			adjust := func(region, tenant string, amount int64) {
				posted, err := s.rows.Post(t.Context(), ledger.Transaction{
					ID: ledger.AdjustmentID(tenant), Object: ledger.AdjustmentID(tenant), Region: region, Tenant: tenant, Kind: ledger.Adjustment, Amount: amount, Currency: "usd",
					Debit: ledger.Suspense(tenant), Credit: ledger.Bank("simulator"), By: "ops", Why: "paid by bank",
				})
				require.NoError(t, err)
				require.True(t, posted)
			}
			ghost("us-east1", "acme", 7)
			adjust("europe-west1", "acme", 7) // paid back
			ghost("us-east1", "globex", 5)
			adjust("us-east1", "initech", 5) // meant for globex
			off, err := suspended(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, map[string]int64{"usd": 10}, off)
		})
	})
}

func TestLedger(t *testing.T) {
	twoBooks(t, func(t *testing.T, flags []string, open func(do func(*store))) {
		with := func(args ...string) []string { return append(args, flags...) }
		open(func(s *store) {
			for i := range 5 {
				post(t, s, ledger.Transaction{ID: fmt.Sprintf("ch_%d", i), Region: "us-east1", Kind: ledger.Charge, Amount: 100, ProviderRef: fmt.Sprintf("p%d", i)})
			}
			post(t, s, ledger.Transaction{ID: "re_1", Region: "europe-west1", Kind: ledger.Refund, Amount: 30, Reverses: "ch_1", ProviderRef: "r1"})
			post(t, s, ledger.Transaction{ID: ledger.GhostID("simulator", "p9"), Region: "us-east1", Kind: ledger.Ghost, Amount: 7, Object: "ch_9", ProviderRef: "p9"})
		})
		out := does(t, with("ledger", "verify")...)
		require.Contains(t, out, "7 transactions in asia-northeast1, europe-west1, us-east1: 5 balances proved from zero, 0 more changed")
		file := filepath.Join(t.TempDir(), "books.prom")
		does(t, with("ledger", "verify", "--metrics-file", file)...)
		written, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(written), "homeward_ledger_verify_findings 0\n")
		require.Regexp(t, `homeward_ledger_verify_last_seconds [1-9]`, string(written))
		require.Contains(t, string(written), `homeward_suspense{homeward_currency="usd"} 7`)
		require.NotContains(t, string(written), "target_info")
		var report verify.Report
		require.NoError(t, json.Unmarshal([]byte(does(t, with("ledger", "verify", "--json")...)), &report))
		require.EqualValues(t, 7, report.Transactions)
		require.True(t, report.OK())

		out = does(t, with("ledger", "balances")...)
		require.Regexp(t, `us-east1 +merchant:acme +usd +0 +500 +-500 +5 *\n`, out)
		require.Regexp(t, `us-east1 +provider:simulator +usd +507 +0 +507 +6 *\n`, out)
		require.Regexp(t, `us-east1 +suspense:acme +usd +0 +7 +-7 +1 +LIMBO, or waiting`, out)
		require.Regexp(t, `europe-west1 +merchant:acme +usd +30 +0 +30 +1 *\n`, out)
		code, out, more := homeward(t, with("ledger", "balances", "--region", "us-east1", "--limit", "1")...)
		require.Zero(t, code)
		require.NotContains(t, out, "provider:")
		require.Contains(t, more, "--region us-east1 --after merchant:acme:usd")
		var list balanceList
		require.NoError(t, json.Unmarshal([]byte(does(t, with("ledger", "balances", "--region", "us-east1", "--after", "merchant:acme:usd", "--json")...)), &list))
		require.Len(t, list.Balances, 2)
		require.False(t, list.Balances[0].Waiting)
		require.True(t, list.Balances[1].Waiting)
		require.Empty(t, list.More)

		// Page by page it is the same as at once.
		var whole, paged entryList
		require.NoError(t, json.Unmarshal([]byte(does(t, with("ledger", "entries", "merchant:acme", "--json")...)), &whole))
		require.Len(t, whole.Entries, 6)
		for page := (entryList{More: ""}); ; {
			args := with("ledger", "entries", "merchant:acme", "--json", "--limit", "2")
			if page.More != "" {
				args = append(args, "--after", page.More)
			}
			page = entryList{}
			require.NoError(t, json.Unmarshal([]byte(does(t, args...)), &page))
			require.LessOrEqual(t, len(page.Entries), 2)
			paged.Entries = append(paged.Entries, page.Entries...)
			if page.More == "" {
				break
			}
		}
		require.Equal(t, whole.Entries, paged.Entries)
		code, out, more = homeward(t, with("ledger", "entries", "merchant:acme", "--limit", "1")...)
		require.Zero(t, code)
		require.Regexp(t, `re_1 +refund +merchant:acme +30 +usd`, out)
		require.Contains(t, more, "homeward ledger entries merchant:acme --after ")
		out = does(t, with("ledger", "entries", "ch_1")...)
		require.Regexp(t, `re_1 +refund +provider:simulator +30 +usd`, out, "what gave the money back is there, too")
		require.Regexp(t, `ch_1 +charge +provider:simulator +100 +usd`, out)
		require.NotContains(t, out, "ch_2")

		// The command follows a reversal to its end, and its sentence has the net amounts.
		open(func(s *store) {
			of := ledger.Transaction{ID: "re_f", Region: "europe-west1", Kind: ledger.Refund, Amount: 60, Reverses: "ch_3", ProviderRef: "rf"}
			post(t, s, of)
			post(t, s, ledger.Transaction{ID: ledger.FailureID("re_f"), Region: "europe-west1", Kind: ledger.RefundFailed, Debit: ledger.Provider("simulator"), Credit: ledger.Merchant("acme"), Amount: 60, Reverses: "re_f", Object: "re_f", ProviderRef: "rf"})
			post(t, s, ledger.Transaction{ID: "re_g", Region: "us-east1", Kind: ledger.Refund, Amount: 100, Reverses: "ch_3", ProviderRef: "rg"})
		})
		out = does(t, with("ledger", "entries", "ch_3")...)
		require.Contains(t, out, ledger.FailureID("re_f"))
		require.Contains(t, out, "\ncharged 1.00 USD; the merchant refunded 1.00 USD in one refund; one of 0.60 USD failed\n")
		var list3, part entryList
		require.NoError(t, json.Unmarshal([]byte(does(t, with("ledger", "entries", "ch_3", "--json")...)), &list3))
		require.Len(t, list3.Entries, 8)
		require.Contains(t, list3.Summary, "one of 0.60 USD failed")
		require.NoError(t, json.Unmarshal([]byte(does(t, with("ledger", "entries", "ch_3", "--json", "--limit", "2")...)), &part))
		require.Equal(t, list3.Entries[:4], part.Entries)
		rest := entryList{}
		require.NoError(t, json.Unmarshal([]byte(does(t, with("ledger", "entries", "ch_3", "--json", "--after", part.More)...)), &rest))
		require.Equal(t, list3.Entries[4:], rest.Entries)
		require.NotContains(t, does(t, with("ledger", "entries", "ch_3", "--region", "us-east1")...), "re_f")

		refuses(t, []string{"--region", `"mars"`, "us-east1"}, with("ledger", "balances", "--region", "mars")...)
		refuses(t, []string{"--after needs --region"}, with("ledger", "balances", "--after", "merchant:acme:usd")...)
		refuses(t, []string{"nosuch is neither an account"}, with("ledger", "entries", "nosuch")...)
		refuses(t, []string{"nosuch is neither an account"}, with("ledger", "entries", "nosuch", "--json")...)
		require.NotContains(t, does(t, with("ledger", "entries", "merchant:none")...), "none", "an account without entries is no mistake")
		refuses(t, []string{"--limit"}, with("ledger", "entries", "x", "--limit", "0")...)
		refuses(t, []string{"--after", "not a position"}, with("ledger", "entries", "x", "--after", "here")...)

		// A refund of more than there was: the store keeps what is posted.
		open(func(s *store) {
			post(t, s, ledger.Transaction{ID: "re_2", Region: "us-east1", Kind: ledger.Refund, Amount: 71, Reverses: "ch_1", ProviderRef: "r2"})
		})
		code, out, errs := homeward(t, with("ledger", "verify", "--metrics-file", file)...)
		require.Equal(t, exitDiffers, code)
		written, err = os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(written), "homeward_ledger_verify_findings 1\n")
		require.Contains(t, out, "reversal: ch_1 in us-east1: 100 were booked, and 101 are taken back")
		require.Contains(t, errs, "the ledger is wrong")
	})
}

func TestLedgerThatCannotBeRead(t *testing.T) {
	onlyWith(t)
	code, _, errs := homeward(t, "ledger", "verify")
	require.Equal(t, exitUnread, code)
	require.Contains(t, errs, "HOMEWARD_DATABASE_URL")
	code, _, errs = homeward(t, "ledger", "verify", "--data", t.TempDir())
	require.Equal(t, exitUnread, code)
	require.Contains(t, errs, "no store")
}

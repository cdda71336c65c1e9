package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/verify"
)

// What a person decided is booked once, with who and why, and never as anything else.
func TestAdjust(t *testing.T) {
	twoBooks(t, func(t *testing.T, flags []string, open func(do func(*store))) {
		open(func(s *store) {
			require.NoError(t, s.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: "us-east1"}))
			post(t, s, ledger.Transaction{ID: ledger.GhostID("simulator", "p9"), Region: "us-east1", Kind: ledger.Ghost, Amount: 700, Object: "ch_9", ProviderRef: "p9"})
		})
		args := []string{"ledger", "adjust", "--from", "bank:simulator", "--to", "suspense:acme", "--amount", "700", "--currency", "usd", "--reference", "case 7", "--by", "ops@example.com", "--why", "paid back by bank transfer"}
		with := func(from, to string) []string {
			changed := append([]string{}, args...)
			for i := range changed {
				if changed[i] == from {
					changed[i] = to
				}
			}
			return append(changed, flags...)
		}
		out := does(t, with("", "")...)
		require.Contains(t, out, "adjustment_case 7: booked of 700 usd from bank:simulator to suspense:acme")
		out = does(t, with("", "")...)
		require.Contains(t, out, "it was booked before, and is not again")
		for from, to := range map[string]string{"700": "701", "usd": "eur", "bank:simulator": "provider:simulator", "ops@example.com": "me", "paid back by bank transfer": "no reason"} {
			code, _, errs := homeward(t, with(from, to)...)
			require.NotZero(t, code)
			require.Contains(t, errs, "names another decision already: 700 usd from bank:simulator to suspense:acme, by ops@example.com", to)
		}
		out = does(t, append([]string{"ledger", "balances"}, flags...)...)
		require.NotContains(t, out, "payers are owed this", "suspense is cleared")
		out = does(t, append([]string{"ledger", "entries", "suspense:acme"}, flags...)...)
		require.Contains(t, out, "ops@example.com: paid back by bank transfer")
		open(func(s *store) {
			report, err := verify.Books(t.Context(), s.rows, s.regions)
			require.NoError(t, err)
			require.True(t, report.OK(), "%v", report.Failures)
		})
		code, _, errs := homeward(t, with("suspense:acme", "suspense:nobody")...)
		require.NotZero(t, code)
		require.Contains(t, errs, `there is no tenant "nobody"`)
	})
}

func TestAdjustRefuses(t *testing.T) {
	good := ledgerAdjustCommand{From: "provider:sim", To: "merchant:acme", Amount: 1, Currency: "usd", Reference: "r", By: "b", Why: "w"}
	_, err := good.adjustment("us-east1")
	require.NoError(t, err)
	for want, change := range map[string]func(*ledgerAdjustCommand){
		"--from: there is no account \"sim\"":  func(c *ledgerAdjustCommand) { c.From = "sim" },
		"the classes are bank, disputed":       func(c *ledgerAdjustCommand) { c.To = "merchants:acme" },
		"--to: there is no account":            func(c *ledgerAdjustCommand) { c.To = "merchant:" },
		"of two tenants, globex and acme":      func(c *ledgerAdjustCommand) { c.From = "merchant:acme"; c.To = "suspense:globex" },
		"are one account":                      func(c *ledgerAdjustCommand) { c.From = c.To },
		"--amount must be from 1":              func(c *ledgerAdjustCommand) { c.Amount = -1 },
		"--currency must be":                   func(c *ledgerAdjustCommand) { c.Currency = "USD" },
		"--reference must be":                  func(c *ledgerAdjustCommand) { c.Reference = " " },
		"--by must be":                         func(c *ledgerAdjustCommand) { c.By = "a\nb" },
		"--why must be 1 to 512 bytes on one ": func(c *ledgerAdjustCommand) { c.Why = strings.Repeat("x", 513) },
	} {
		c := good
		change(&c)
		_, err := c.adjustment("us-east1")
		require.ErrorContains(t, err, want)
	}
}

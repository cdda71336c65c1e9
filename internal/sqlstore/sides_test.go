package sqlstore

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ofAll are the statements that have no tenant to compare: why each may read, or write, what several
// tenants have. What they return is compared with the tenant by who asks for one ([View.Object],
// payment.Present), or goes to no merchant.
var ofAll = map[string][]string{
	"operators' lists, and what housekeeping looks at": {
		"audit_advance", "audit_chain", "calls_parked", "calls_unpark", "claims_settled", "claims_unknown", "expiries_parked",
		"expiries_unpark", "expiries_waiting", "tenants", "witnesses", "witnesses_drop",
	},
	"workers take what is due, row by row": {
		"calls_depth", "calls_message", "expiries_depth", "expiries_message", "expiries_take", "look",
	},
	"by an id that no two tenants share: the reader compares its tenant": {
		"object", "unpaid", "ledger_about", "ledger_ghosts", "ledger_incoming", "ledger_leaving", "ledger_named", "ledger_reversals", "ledger_reversed", "ledger_transactions",
		"ledger_balances", "ledger_carried", "ledger_forget",
	},
	"notices, of which nobody knows the tenant before they are read": {
		"notice", "notices_bodies", "notices_close", "notices_drop_bodies", "notices_keep", "notices_rewrite",
	},
	"of the deployment, or of the tenant that is the name: package documents compares it": {"document_put", "documents"},
	"of the deployment": {"region_status", "regions", "registrar_forget"},
	"the row itself says whose it is, or is written under its own tenant": {
		"audit_forget", "note", "reattach", "tenant_change", "tenant_put", "witnesses_put",
	},
}

// TestEachStatementIsOfOneTenant: a statement compares the tenant with its argument's, or with that of
// the row by which it comes to another, with an equals sign, so that no query of a live tenant finds a row of its test side or the reverse; or ofAll says
// why it cannot. A new statement is one or the other.
func TestEachStatementIsOfOneTenant(t *testing.T) {
	compares := regexp.MustCompile(`(?s)\b(tenant_id|t\.id|k\.tenant_id) = (@\w*tenant_id|\w+\.tenant_id)`)
	comments := regexp.MustCompile(`--[^\n]*`)
	var excused []string
	for _, some := range ofAll {
		excused = append(excused, some...)
	}
	for name, text := range texts() {
		text = comments.ReplaceAllString(text, "")
		if compares.MatchString(text) {
			continue
		}
		listed := name
		for _, table := range queueTables { // its text is that of expiries
			if rest, ok := strings.CutPrefix(name, table); ok && !slices.Contains(excused, name) {
				listed = expiriesTable + rest
			}
		}
		require.Contains(t, excused, listed, "%s compares no tenant; compare it, or say in ofAll why it need not:\n%s", name, text)
	}
	for _, name := range excused {
		require.Contains(t, texts(), name)
		require.NotRegexp(t, compares, comments.ReplaceAllString(texts()[name], ""), "%s needs no excuse", name)
	}
}

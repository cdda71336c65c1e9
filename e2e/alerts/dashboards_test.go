package alerts

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/monitoring"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// ofDatabase are metrics that an embedded store has not.
var ofDatabase = regexp.MustCompile(`\b(db_client_|homeward_db_|homeward_pool_|homeward_batch_)`)

// rare are metrics of what does not happen here, with the test that makes it happen.
var rare = map[string]string{
	"homeward_ghosts_total":                  "payment/notice",
	"homeward_compensations_total":           "payment/notice",
	"homeward_compensation_duration_seconds": "payment/notice",
	"homeward_suspense":                      "internal/node: store figures",
	"homeward_brake_held":                    "internal/node: store figures",
	"homeward_notices_closed_total":          "payment/notice",
	"homeward_reconciliation_mismatches":     "internal/node: reconciliation",
	"homeward_ledger_verify":                 "internal/node: verification",
	"homeward_audit_":                        "audit",
	"homeward_clock_offset_seconds":          "internal/sqlstore: a clock of its own",
	"homeward_outbox_lag_seconds":            "TestTheProviderFails",
}

// TestPanelsShowSomething puts load on a cluster and evaluates every expression of every
// dashboard.
func TestPanelsShowSomething(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	again := w.fresh(us)
	w.faults(simulator.Faults{Latency: 5 * time.Millisecond, ErrorAfter: .05, Seed: 1})
	for i := range 20 {
		for _, r := range []string{us, eu, asia} {
			w.charge(r, w.fresh(us), 1)
			w.charge(r, w.opaque(), 1)
			w.twins(r, w.fresh(r))
		}
		w.charge(us, again, 1+i%2) // replays and mismatches
		w.post(us, "/v1/webhooks/simulator", "", `{}`)
		w.look()
	}
	for _, d := range monitoring.Dashboards() {
		for _, expr := range d.Exprs() {
			if ofDatabase.MatchString(expr) || isRare(expr) {
				continue
			}
			for _, v := range d.Variables {
				expr = strings.ReplaceAll(expr, "$"+v.Label, ".*")
			}
			if got := w.value(expr); got == "" {
				t.Errorf("dashboard %s shows nothing for %s", d.Name, expr)
			}
		}
	}
	// The test queries each that is marked rare.
	for name := range rare {
		queried := false
		for _, d := range monitoring.Dashboards() {
			queried = queried || strings.Contains(strings.Join(d.Exprs(), "\n"), name)
		}
		require.True(t, queried, name)
	}
}

func isRare(expr string) bool {
	for name := range rare {
		if strings.Contains(expr, name) {
			return true
		}
	}
	return false
}

package cli

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/build"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/reconcile"
	"github.com/homeward-io/homeward/internal/telemetry"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/verify"
)

// verdicts are the metrics of commands that prove something: each reports its latest
// result.
type verdicts struct {
	metrics *telemetry.Metrics

	mu     sync.Mutex
	report func(*meter.Observer)
}

// metricsFlags are the flags of those commands.
type metricsFlags struct {
	MetricsFile string `type:"path" placeholder:"FILE.prom" help:"Write the verdict as metrics to this file, for node_exporter's textfile collector. With OTEL_METRICS_EXPORTER or OTEL_EXPORTER_OTLP_ENDPOINT it is pushed, too."`
}

// open prepares the push. stop pushes the remaining values.
func (f *metricsFlags) open(ctx context.Context, log *slog.Logger) (v *verdicts, stop func() error, err error) {
	v = &verdicts{}
	if v.metrics, err = telemetry.OpenBatch(ctx, telemetry.Process{Version: build.Version(), Log: log}, f.MetricsFile); err != nil {
		return nil, nil, err
	}
	set, err := v.metrics.Node(ctx, "", "")
	if err != nil {
		return nil, nil, err
	}
	stop = func() error { return v.metrics.Stop(context.WithoutCancel(ctx)) }
	return v, stop, set.Observe(func(o *meter.Observer) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.report != nil {
			v.report(o)
		}
	})
}

func (v *verdicts) export(report func(*meter.Observer)) error {
	v.mu.Lock()
	v.report = report
	v.mu.Unlock()
	return v.metrics.Write()
}

// books records the result of a verification, and how far suspense is from zero.
func (v *verdicts) books(at time.Time, r *verify.Report, suspense map[string]int64) error {
	return v.export(func(o *meter.Observer) {
		o.Is(meter.LedgerVerifyLast, float64(at.Unix()))
		o.Is(meter.LedgerVerifyFindings, float64(r.Failed))
		for currency, off := range suspense {
			o.Is(meter.Suspense, float64(off), currency)
		}
	})
}

// statement records the result of a comparison: the mismatches of each class, and in
// all those that were not healed.
func (v *verdicts) statement(at time.Time, c *reconcile.Comparison) error {
	mismatches, unhealed := maps.Clone(c.Mismatches), c.Unhealed()
	return v.export(func(o *meter.Observer) {
		o.Is(meter.ReconciliationLast, float64(at.Unix()), c.Of())
		o.Is(meter.ReconciliationMismatches, float64(unhealed), c.Of(), "all")
		for class, n := range mismatches {
			o.Is(meter.ReconciliationMismatches, float64(n), c.Of(), string(class))
		}
	})
}

// suspensePage is how many balances are read at once.
const suspensePage = 1000

// owes reports whether an account is what payers are owed: the suspense of a live tenant.
func owes(a ledger.Account) bool {
	tenant, ok := strings.CutPrefix(string(a), string(ledger.Suspense("")))
	return ok && claim.Livemode(tenant)
}

// suspended returns how far the suspense accounts that [owes] says are from zero over all regions,
// added up by currency, including currencies in which each is at zero. What one tenant's account has
// too much does not make up for what another's has too little.
func suspended(ctx context.Context, s *store) (map[string]int64, error) {
	balances := map[ledger.AccountKey]int64{}
	for _, region := range s.regions {
		for after := (ledger.AccountKey{Account: "suspense"}); ; {
			page, err := s.rows.Balances(ctx, region, after, suspensePage)
			if err != nil {
				return nil, err
			}
			for _, b := range page {
				if owes(b.Account) {
					balances[ledger.AccountKey{Account: b.Account, Currency: b.Currency}] += b.Credits - b.Debits
				}
				after = ledger.AccountKey{Account: b.Account, Currency: b.Currency}
			}
			if len(page) < suspensePage || after.Account > "suspense;" { // ';' comes after ':'
				break
			}
		}
	}
	off := map[string]int64{}
	for key, balance := range balances {
		off[key.Currency] += max(balance, -balance)
	}
	return off, nil
}

// withVerdicts runs do with the metrics of its verdict.
func (f *metricsFlags) withVerdicts(ctx context.Context, io streams, do func(*verdicts) error) error {
	v, stop, err := f.open(ctx, warnings(io))
	if err != nil {
		return err
	}
	return errors.Join(do(v), stop())
}

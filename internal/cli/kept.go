package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/internal/drill"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/reconcile"
	"github.com/homeward-io/homeward/internal/runs"
	"github.com/homeward-io/homeward/payment/recon"
)

// runsFlags select the bucket for the report of a command.
type runsFlags struct {
	Runs string `placeholder:"URL" env:"HOMEWARD_RUNS" help:"Bucket that keeps a report of this run for the console (${env}). Default: the one of --cluster, --data or the settings; without any, no report is kept."`
}

// url returns the bucket: the one that was named, or fallback.
func (f *runsFlags) url(fallback string) string {
	if f.Runs != "" {
		return f.Runs
	}
	return fallback
}

// runsOf returns the bucket of a demo's directory; "" if data is none.
func runsOf(data string) string {
	if data == "" {
		return ""
	}
	if _, err := os.Stat(filepath.Join(data, node.StoreDir)); err != nil {
		return "" // opening the store reports it
	}
	url, err := node.LocalRuns(data)
	if err != nil {
		return ""
	}
	return url
}

// kept executes a run and stores its report in a bucket; "": no report is stored.
// unkept is why the report is not in the bucket; err why there is no result.
func kept[T any](ctx context.Context, bucket string, r runs.Run, do func(*runs.Kept) (*T, error), report func(*T, *runs.Run)) (found *T, unkept, err error) {
	open, err := node.OpenRuns(ctx, bucket)
	if err != nil {
		return nil, nil, fmt.Errorf("--runs: %w", err)
	}
	defer func() { unkept = errors.Join(unkept, open.Close()) }()
	k, err := open.Book().Begin(ctx, r)
	if err != nil {
		return nil, nil, fmt.Errorf("--runs: %w", err)
	}
	if found, err = do(k); err != nil {
		return nil, nil, errors.Join(err, k.Fail(ctx, err))
	}
	return found, k.End(ctx, func(r *runs.Run) { report(found, r) }), nil
}

// judged is the verdict of a comparison or verification.
func judged(ok bool) runs.Verdict {
	if ok {
		return runs.Good
	}
	return runs.Bad
}

// counted formats a count, with a plural unless it is one.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func reportOfDrill(d *drill.Report, r *runs.Run) {
	v := &d.Verdict
	r.Verdict, r.Sentence = judged(v.OK()), v.Sentence()
	if v.Unasked != "" && v.Duplicates == 0 && v.Differing == 0 && v.Lost == 0 {
		r.Verdict = runs.Unknown // no failure was found, and not everything was read
	}
	r.Figures = []runs.Figure{{Name: "load", Value: fmt.Sprintf("%g requests a second", d.Rate)}, {Name: "how", Value: d.How}}
	for _, f := range v.Figures() {
		r.Figures = append(r.Figures, runs.Figure{Name: f.Name, Value: f.Value, Bad: f.Bad})
	}
	r.Findings = v.Examples
	r.More = max(0, v.Duplicates+v.Differing+v.Lost-len(v.Examples))
	at := func(seconds float64) time.Time { return d.Began.Add(time.Duration(seconds * float64(time.Second))) }
	for _, p := range v.Phases {
		if p.Name == "after" {
			r.Steps = append(r.Steps, runs.Step{At: at(p.From), Text: "after: everything is back"})
		}
	}
}

func reportOfBooks(b *booksFound, r *runs.Run) {
	r.Verdict, r.Sentence = judged(b.OK()), "Every balance was proved from zero."
	switch {
	case !b.OK():
		r.Sentence = fmt.Sprintf("The books are wrong in %s.", counted(b.Failed, "place"))
	case b.Unproved() > 0:
		r.Verdict, r.Sentence = runs.Unknown, fmt.Sprintf("No failure was found, but %d older transactions that have left for the audit's segments were not proved.", b.Unproved())
	}
	r.Of = "the books of " + strings.Join(b.Regions, ", ")
	r.Figures = []runs.Figure{
		{Name: "transactions", Value: fmt.Sprint(b.Transactions)}, {Name: "balances proved", Value: fmt.Sprint(b.Balances)},
		{Name: "changed during the check, within their bounds", Value: fmt.Sprint(b.Moving)}, {Name: "failures", Value: fmt.Sprint(b.Failed), Bad: b.Failed > 0},
	}
	var currencies []string
	for currency, off := range b.suspense {
		if off != 0 {
			currencies = append(currencies, currency)
		}
	}
	slices.Sort(currencies)
	for _, currency := range currencies {
		r.Figures = append(r.Figures, runs.Figure{Name: runs.Suspense + currency, Value: fmt.Sprintf("%d minor units", b.suspense[currency]), Bad: true})
	}
	for _, f := range b.Failures {
		r.Findings = append(r.Findings, f.String())
	}
	r.More = b.Failed - len(b.Failures)
}

func reportOfComparison(c *reconcile.Comparison, r *runs.Run) {
	r.Verdict, r.Sentence = judged(c.OK()), c.Sentence()
	figure := func(name string, value any, bad bool) {
		r.Figures = append(r.Figures, runs.Figure{Name: name, Value: fmt.Sprint(value), Bad: bad})
	}
	if c.From != nil {
		figure("from", c.From.UTC().Format(time.RFC3339), false)
	}
	if c.To != nil {
		figure("to", c.To.UTC().Format(time.RFC3339), false)
	}
	figure("lines", c.Lines, false)
	figure("bookings", c.Bookings, false)
	figure("claims", c.Claims, false)
	figure("movements that agree", c.Agree, false)
	figure("lines of another period", c.Outside, false)
	if c.OtherAccount > 0 {
		figure("lines of the account's own business", c.OtherAccount, false)
	}
	figure("undecided", c.Undecided, false)
	for _, class := range recon.Classes() {
		if n := c.Mismatches[class]; n > 0 {
			figure(string(class), n, true)
		}
	}
	for _, state := range reconcile.Healings {
		if n := c.Healing[state]; n > 0 {
			figure(state, n, false)
		}
	}
	for _, m := range c.First {
		r.Findings = append(r.Findings, findingOf(m))
	}
	r.More = c.Total() - len(c.First)
}

// findingOf renders a mismatch in one line.
func findingOf(m reconcile.Mismatch) string {
	parts := []string{string(m.Class) + ":"}
	for _, one := range []struct{ name, value string }{
		{"", m.Reference}, {"at the provider", m.ProviderRef}, {"of", m.Tenant},
		{"stated", money(m.Stated, m.StatedCurrency)}, {"booked", money(m.Booked, m.BookedCurrency)},
	} {
		if one.value != "" {
			parts = append(parts, strings.TrimSpace(one.name+" "+one.value)+",")
		}
	}
	parts = append(parts, m.Detail)
	if m.Healing != "" {
		parts = append(parts, "("+m.Healing+")")
	}
	return strings.Join(parts, " ")
}

// drained is the verdict of a drain.
type drained struct {
	region string
	why    error // it is not safe yet
}

func reportOfDrain(d *drained, r *runs.Run) {
	r.Verdict, r.Sentence = runs.Good, d.region+" is safe to take down."
	if d.why != nil {
		r.Verdict, r.Sentence = runs.Bad, d.why.Error()
	}
}

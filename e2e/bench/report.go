package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/homeward-io/homeward/e2e/sizing/model"
	"github.com/homeward-io/homeward/internal/lab/localdb"
)

// figures is one run, boiled down.
type figures struct {
	requests       int64
	rate           float64       // replies per second
	p50, p99, p999 time.Duration // latency
	cpu            time.Duration // of the side, per request
	mallocs        float64       // of the side, per request
	peak           float64       // MiB
	// Of a database's processes, per request and over their idle; 0 without one.
	database time.Duration
	wal      float64 // bytes per request, of PostgreSQL
	// Of a database that nobody asks for anything: cores in use, statements per second.
	idleCores, idleStatements float64
	idleNodes                 float64 // cores in use of the nodes that ask it for nothing
}

func newFigures(r loadResult) figures {
	h := hdrhistogram.Import(r.Latency)
	at := func(percent float64) time.Duration { return time.Duration(h.ValueAtQuantile(percent)) }
	return figures{
		requests: r.Requests, rate: float64(r.Requests) / r.Elapsed.Seconds(),
		p50: at(50), p99: at(99), p999: at(99.9),
		cpu: r.CPU / time.Duration(r.Requests), mallocs: float64(r.Mallocs) / float64(r.Requests),
		peak:     float64(r.PeakKiB) / 1024,
		database: r.Database / time.Duration(r.Requests), wal: float64(r.WAL) / float64(r.Requests),
	}
}

// spread is the median, the least and the greatest of some runs.
type spread struct{ median, min, max float64 }

func spreadOf[T any](runs []T, value func(T) float64) spread {
	all := make([]float64, len(runs))
	for i, r := range runs {
		all[i] = value(r)
	}
	slices.Sort(all)
	mid := all[len(all)/2]
	if len(all)%2 == 0 {
		mid = (all[len(all)/2-1] + mid) / 2
	}
	return spread{mid, all[0], all[len(all)-1]}
}

// ratios compares a side with the first one, turn by turn.
func ratios(first, other []figures, value func(figures) float64) spread {
	pairs := make([][2]float64, len(first))
	for i := range first {
		pairs[i] = [2]float64{value(first[i]), value(other[i])}
	}
	return spreadOf(pairs, func(p [2]float64) float64 { return p[1] / p[0] })
}

func rate(f figures) float64     { return f.rate }
func p50(f figures) float64      { return float64(f.p50) }
func p99(f figures) float64      { return float64(f.p99) }
func p999(f figures) float64     { return float64(f.p999) }
func cpu(f figures) float64      { return float64(f.cpu) }
func mallocs(f figures) float64  { return f.mallocs }
func peak(f figures) float64     { return f.peak }
func database(f figures) float64 { return float64(f.database) }
func wal(f figures) float64      { return f.wal }

// each is the time that a side has for one request.
func each(f figures) float64 { return 1e9 / f.rate }

// added is a latency's part beyond the provider's.
func added(value func(figures) float64) func(figures) float64 {
	return func(f figures) float64 { return value(f) - float64(pspLatency) }
}

// measure is a figure with its name and the way it is printed.
type measure struct {
	name  string
	of    func(figures) float64
	print func(float64) string
}

func inMillis(v float64) string { return millis(v) + " ms" }
func inMicros(v float64) string { return micros(v) + " µs" }
func aSecond(v float64) string  { return fmt.Sprintf("%.0f/s", v) }
func inMiB(v float64) string    { return fmt.Sprintf("%.0f MiB", v) }

var (
	rates     = measure{"rate", rate, aSecond}
	medians   = measure{"p50", p50, inMillis}
	tails     = measure{"p99", p99, inMillis}
	cpus      = measure{"CPU per charge", cpu, inMicros}
	times     = measure{"time per charge", each, inMicros}
	dbCosts   = measure{"database CPU per charge", database, inMicros}
	addedP50s = measure{"added p50", added(p50), inMillis}
	addedP99s = measure{"added p99", added(p99), inMillis}
)

// target is one line of the verdict: a side's figure over that of its floor in the same
// turns, or a figure alone.
type target struct {
	what  string
	got   spread // what is judged
	least bool   // got must be at least bound, else at most
	bound float64
	// figure and floor are the medians that got is the ratio of; "" where got is a
	// figure and print writes it.
	figure, floor string
	print         func(float64) string
}

func (t target) met() bool {
	if t.least {
		return t.got.median >= t.bound
	}
	return t.got.median <= t.bound
}

// row is what the table says of it.
func (t target) row() string {
	verdict, sign, figure, floor := "met", "≤", t.figure, t.floor
	if t.least {
		sign = "≥"
	}
	if !t.met() {
		verdict = "MISSED"
	}
	ratio, bound := fmt.Sprintf("%.2f (%.2f–%.2f)", t.got.median, t.got.min, t.got.max), fmt.Sprintf("%.4g", t.bound)
	if t.print != nil {
		figure, floor, ratio, bound = t.print(t.got.median), "–", "–", t.print(t.bound)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s %s\t%s", t.what, figure, floor, ratio, sign, bound, verdict)
}

// atLeast and atMost judge the ratio of a side to the first one, turn by turn.
func (r *report) atLeast(what string, m measure, first, other []figures, bound float64) {
	r.ratio(what, m, first, other, true, bound)
}

func (r *report) atMost(what string, m measure, first, other []figures, bound float64) {
	r.ratio(what, m, first, other, false, bound)
}

func (r *report) ratio(what string, m measure, first, other []figures, least bool, bound float64) {
	r.targets = append(r.targets, target{
		what: what + ": " + m.name, got: ratios(first, other, m.of), least: least, bound: bound,
		figure: m.print(spreadOf(other, m.of).median), floor: m.print(spreadOf(first, m.of).median),
	})
}

// alone judges a figure that has no floor.
func (r *report) alone(what string, got spread, shown func(float64) string, least bool, bound float64) {
	r.targets = append(r.targets, target{what: what, got: got, least: least, bound: bound, print: shown})
}

// What is aimed at, by the issue that asked for it: leastOfFloor is the rate over the
// floor's, mostTail the 99th percentile over the floor's, mostAdded the latency beyond
// the provider's over the floor's, mostStored the cost of a charge in a large store over
// that in a small one, maxPeak the memory of a node in MiB, and mostAway a replay's 99th
// percentile in another region, where a round trip would take 80 ms.
const (
	leastOfFloor = 0.8
	mostTail     = 1.5
	mostAdded    = 1.3
	mostStored   = 1.1
	// mostMetrics: what is measured must not be felt.
	mostMetrics = 1.02
	maxPeak     = 150
	mostAway    = 5 * time.Millisecond
)

// report gathers and prints.
type report struct {
	options
	out     io.Writer
	bench   bytes.Buffer // in the format of go test -bench
	targets []target
	peak    float64
	err     error
}

// cost keeps what docs/SIZING.md is made from, where a page is made.
func (r *report) cost(keep func(*model.Costs)) {
	if r.options.costs != nil {
		keep(r.options.costs)
	}
}

func newReport(o options, out io.Writer) *report {
	r := &report{options: o, out: out}
	fmt.Fprintf(&r.bench, "goos: %s\ngoarch: %s\npkg: github.com/homeward-io/homeward/e2e/bench\n", runtime.GOOS, runtime.GOARCH)
	r.printf("%d runs each, in turns, of %v; %d cores\n", o.runs, o.window, runtime.NumCPU())
	return r
}

// on says which database what follows is of.
func (r *report) on(s *localdb.Server) {
	r.printf("on %s\n", s.Version())
	if s.Kind() == localdb.CockroachDB {
		r.printf("Say how to repeat them where you publish figures of CockroachDB.\n")
	}
	r.cost(func(c *model.Costs) { c.Database = s.Version() })
}

func (r *report) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(r.out, format, args...); r.err == nil {
		r.err = err
	}
}

func millis(v float64) string { return fmt.Sprintf("%.2f", v/float64(time.Millisecond)) }
func micros(v float64) string { return fmt.Sprintf("%.0f", v/float64(time.Microsecond)) }

// add prints a finished case and takes its targets.
func (r *report) add(c comparison, series [][]figures) {
	r.printf("\n%s: %s, %d connections\n", c.name, c.title, c.conns)
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := "side\treq/s\tmin–max\tp50 ms\tp99 ms\tp99.9 ms\tCPU µs/req\tallocs/req\tpeak MiB\t"
	if c.probe != nil {
		head += "database CPU µs/req\tWAL B/req\t"
	}
	fmt.Fprintln(w, head)
	for i, s := range c.sides {
		runs := series[i]
		all := spreadOf(runs, rate)
		fmt.Fprintf(w, "%s\t%.0f\t%.0f–%.0f\t%s\t%s\t%s\t%s\t%.0f\t%.0f\t", s.name, all.median, all.min, all.max,
			millis(spreadOf(runs, p50).median), millis(spreadOf(runs, p99).median), millis(spreadOf(runs, p999).median),
			micros(spreadOf(runs, cpu).median), spreadOf(runs, mallocs).median, spreadOf(runs, peak).max)
		if c.probe != nil {
			db := spreadOf(runs, database)
			fmt.Fprintf(w, "%s (%s–%s)\t%.0f\t", micros(db.median), micros(db.min), micros(db.max), spreadOf(runs, wal).median)
		}
		fmt.Fprintln(w)
		if s.role == "homeward" {
			r.peak = max(r.peak, spreadOf(runs, peak).max)
		}
		for _, f := range runs {
			fmt.Fprintf(&r.bench, "Benchmark%s/conns=%d/side=%s %d %.0f ns/op %.0f req/s %d p50-ns %d p99-ns %d p999-ns %d cpu-ns/op %.1f allocs/op %.1f peak-MiB %d db-cpu-ns/op %.0f wal-B/op\n",
				strings.ReplaceAll(c.name, "/", "_"), c.conns, s.name, f.requests, 1e9/f.rate, f.rate,
				f.p50, f.p99, f.p999, f.cpu, f.mallocs, f.peak, f.database, f.wal)
		}
	}
	if err := w.Flush(); r.err == nil {
		r.err = err
	}
	for i, s := range c.sides[1:] {
		first, other := series[0], series[i+1]
		for _, m := range []struct {
			name  string
			value func(figures) float64
		}{{"rate", rate}, {"p50", p50}, {"p99", p99}, {"p99.9", p999}, {"CPU", cpu}, {"database CPU", database}} {
			if m.name == "database CPU" && c.probe == nil {
				continue
			}
			v := ratios(first, other, m.value)
			if math.IsNaN(v.median) {
				continue // neither side's was measured
			}
			r.printf("  %s / %s %s: %.2f (%.2f–%.2f)\n", s.name, c.sides[0].name, m.name, v.median, v.min, v.max)
		}
	}
	r.judge(c, series)
}

// judge compares the case with the targets that are set for it.
func (r *report) judge(c comparison, series [][]figures) {
	first := series[0]
	for i, s := range c.sides {
		side := series[i]
		of := fmt.Sprintf("%s, %s, %d connections", c.name, s.name, c.conns)
		switch {
		case i == 0:
		case c.name == "ii/charge":
			r.atLeast(of, rates, first, side, leastOfFloor)
			r.atMost(of, tails, first, side, mostTail)
		case c.name == "iii/replay":
			r.atLeast(of, rates, first, side, leastOfFloor)
		case c.name == "iv/away-paced":
			r.alone(of+": p99", spreadOf(side, p99), inMillis, false, float64(mostAway))
		case strings.HasPrefix(c.name, "v/latency"), strings.HasPrefix(c.name, "sql/latency"):
			r.atMost(of, addedP50s, first, side, mostAdded)
			r.atMost(of, addedP99s, first, side, mostAdded)
		case c.name == "viii/metrics":
			r.atMost(of, cpus, first, side, mostMetrics)
		case strings.HasPrefix(c.name, "vii/"):
			// CPU is what a charge costs; the rate also has the generator's and the
			// simulator's share in it.
			r.atMost(of, cpus, first, side, mostStored)
			r.atMost(of, times, first, side, mostStored)
		}
	}
}

// finish prints the verdict and writes the file for benchstat.
func (r *report) finish() error {
	if r.peak > 0 {
		r.alone("vi: peak memory of Homeward", spread{r.peak, r.peak, r.peak}, inMiB, false, maxPeak)
	}
	r.printf("\nTargets, medians; a ratio is of one turn, with the least and the greatest:\n")
	missed := 0
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  what\tfigure\tfloor\tratio\ttarget\t")
	for _, t := range r.targets {
		if !t.met() {
			missed++
		}
		fmt.Fprintln(w, "  "+t.row())
	}
	if r.all != nil {
		*r.all = append(*r.all, r.targets...)
	}
	err := cmp.Or(w.Flush(), r.err)
	if r.options.out != "" {
		if werr := os.WriteFile(r.options.out, r.bench.Bytes(), 0o644); err == nil {
			err = werr
		}
		r.printf("\nEvery run, for benchstat -col /side: %s\n", r.options.out)
	}
	if err == nil && missed > 0 && r.strict {
		return fmt.Errorf("%d targets missed", missed)
	}
	return err
}

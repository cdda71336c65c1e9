package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// figures is one run, boiled down.
type figures struct {
	requests       int64
	rate           float64       // replies per second
	p50, p99, p999 time.Duration // latency
	cpu            time.Duration // of the side, per request
	mallocs        float64       // of the side, per request
	peak           float64       // MiB
}

func newFigures(r loadResult) figures {
	h := hdrhistogram.Import(r.Latency)
	at := func(percent float64) time.Duration { return time.Duration(h.ValueAtQuantile(percent)) }
	return figures{
		requests: r.Requests, rate: float64(r.Requests) / r.Elapsed.Seconds(),
		p50: at(50), p99: at(99), p999: at(99.9),
		cpu: r.CPU / time.Duration(r.Requests), mallocs: float64(r.Mallocs) / float64(r.Requests),
		peak: float64(r.PeakKiB) / 1024,
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

func rate(f figures) float64    { return f.rate }
func p50(f figures) float64     { return float64(f.p50) }
func p99(f figures) float64     { return float64(f.p99) }
func p999(f figures) float64    { return float64(f.p999) }
func cpu(f figures) float64     { return float64(f.cpu) }
func mallocs(f figures) float64 { return f.mallocs }
func peak(f figures) float64    { return f.peak }

// added is a latency's part beyond the provider's.
func added(value func(figures) float64) func(figures) float64 {
	return func(f figures) float64 { return value(f) - float64(pspLatency) }
}

// target is one line of the verdict.
type target struct {
	what  string
	got   float64
	least bool // got must be at least bound, else at most
	bound float64
	unit  string
}

func (t target) met() bool {
	if t.least {
		return t.got >= t.bound
	}
	return t.got <= t.bound
}

// maxPeak is the most memory that Homeward may take, in MiB: 200 MB.
const maxPeak = 200e6 / (1 << 20)

// report gathers and prints.
type report struct {
	options
	out     io.Writer
	bench   bytes.Buffer // in the format of go test -bench
	targets []target
	peak    float64
	err     error
}

func newReport(o options, out io.Writer) *report {
	r := &report{options: o, out: out}
	fmt.Fprintf(&r.bench, "goos: %s\ngoarch: %s\npkg: github.com/homeward-io/homeward/e2e/bench\n", runtime.GOOS, runtime.GOARCH)
	r.printf("%d runs each, in turns, of %v; %d cores\n", o.runs, o.window, runtime.NumCPU())
	return r
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
	fmt.Fprintln(w, "side\treq/s\tmin–max\tp50 ms\tp99 ms\tp99.9 ms\tCPU µs/req\tallocs/req\tpeak MiB\t")
	for i, s := range c.sides {
		runs := series[i]
		all := spreadOf(runs, rate)
		fmt.Fprintf(w, "%s\t%.0f\t%.0f–%.0f\t%s\t%s\t%s\t%s\t%.0f\t%.0f\t\n", s.name, all.median, all.min, all.max,
			millis(spreadOf(runs, p50).median), millis(spreadOf(runs, p99).median), millis(spreadOf(runs, p999).median),
			micros(spreadOf(runs, cpu).median), spreadOf(runs, mallocs).median, spreadOf(runs, peak).max)
		if s.role == "homeward" {
			r.peak = max(r.peak, spreadOf(runs, peak).max)
		}
		for _, f := range runs {
			fmt.Fprintf(&r.bench, "Benchmark%s/conns=%d/side=%s %d %.0f ns/op %.0f req/s %d p50-ns %d p99-ns %d p999-ns %d cpu-ns/op %.1f allocs/op %.1f peak-MiB\n",
				strings.ReplaceAll(c.name, "/", "_"), c.conns, s.name, f.requests, 1e9/f.rate, f.rate,
				f.p50, f.p99, f.p999, f.cpu, f.mallocs, f.peak)
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
		}{{"rate", rate}, {"p50", p50}, {"p99", p99}, {"p99.9", p999}, {"CPU", cpu}} {
			v := ratios(first, other, m.value)
			r.printf("  %s / %s %s: %.2f (%.2f–%.2f)\n", s.name, c.sides[0].name, m.name, v.median, v.min, v.max)
		}
	}
	r.judge(c, series)
}

// judge compares the case with the targets that are set for it.
func (r *report) judge(c comparison, series [][]figures) {
	if c.conns != middle {
		return
	}
	first, other := series[0], series[1]
	name := func(what string) string { return c.name + ": " + what }
	switch c.name {
	case "ii/charge":
		r.targets = append(r.targets,
			target{name("rate, of the floor's"), ratios(first, other, rate).median, true, 0.7, ""},
			target{name("p99, of the floor's"), ratios(first, other, p99).median, false, 1.5, ""})
	case "iii/replay":
		r.targets = append(r.targets, target{name("rate, of one Pebble read's"), ratios(first, other, rate).median, true, 0.5, ""})
	case "iv/away-paced":
		r.targets = append(r.targets, target{name("p99 away"), spreadOf(other, p99).median / 1e6, false, 5, " ms"})
	case "v/latency":
		r.targets = append(r.targets,
			target{name("added p50, of the floor's"), ratios(first, other, added(p50)).median, false, 1.5, ""},
			target{name("added p99, of the floor's"), ratios(first, other, added(p99)).median, false, 1.5, ""})
		for i, s := range c.sides {
			r.printf("  %s adds to the provider's 80 ms: p50 %s ms, p99 %s ms\n", s.name,
				millis(spreadOf(series[i], added(p50)).median), millis(spreadOf(series[i], added(p99)).median))
		}
	case "vii/stored":
		// CPU is what a charge costs; the rate also has the generator's and the
		// simulator's share in it.
		r.targets = append(r.targets,
			target{name("CPU per charge, many to few"), ratios(first, other, cpu).median, false, 1.15, ""},
			target{name("time per charge, many to few"), 1 / ratios(first, other, rate).median, false, 1.15, ""})
	}
}

// finish prints the verdict and writes the file for benchstat.
func (r *report) finish() error {
	if r.peak > 0 {
		r.targets = append(r.targets, target{"vi: peak memory of Homeward", r.peak, false, maxPeak, " MiB"})
	}
	r.printf("\nTargets, medians:\n")
	missed := 0
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	for _, t := range r.targets {
		verdict, sign := "met", "≤"
		if t.least {
			sign = "≥"
		}
		if !t.met() {
			verdict = "MISSED"
			missed++
		}
		fmt.Fprintf(w, "  %s\t%.2f%s\t%s %.4g%s\t%s\n", t.what, t.got, t.unit, sign, t.bound, t.unit, verdict)
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

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/homeward-io/homeward/e2e/sizing/model"
	"github.com/homeward-io/homeward/internal/lab/localdb"
)

// figures is one run, boiled down.
type figures struct {
	requests int64
	rate     float64 // replies a second
	p50, p99 time.Duration
	cpu      time.Duration // of the side, a request
	peak     float64       // MiB
	// Of a database's processes: CPU a request, over their idle, and WAL bytes.
	database time.Duration
	wal      float64
	// Of a database that idle nodes use: cores, transactions a second.
	cores, commits float64
}

// newFigures takes away what the database uses when neither side runs, in cores.
func newFigures(r result, idle float64) (f figures) {
	f.peak = r.used.peak
	if r.requests == 0 {
		f.cores, f.commits = r.used.db.Seconds()/r.elapsed.Seconds(), r.used.commits/r.elapsed.Seconds()
		return f
	}
	n := float64(r.requests)
	f.requests, f.rate = r.requests, n/r.elapsed.Seconds()
	f.p50, f.p99 = time.Duration(r.latency.ValueAtQuantile(50)), time.Duration(r.latency.ValueAtQuantile(99))
	f.cpu, f.wal = time.Duration(float64(r.used.cpu)/n), r.used.wal/n
	f.database = time.Duration((float64(r.used.db) - idle*float64(r.elapsed)) / n)
	return f
}

// bench is one invocation.
type bench struct {
	options
	out   io.Writer
	dir   string // for stores of the embedded engine
	costs model.Costs
	lines bytes.Buffer // every run, in the format of go test -bench
	// series are the figures of each side by its case and name, in turns.
	series map[string]map[string][]figures
	memory []figures // runs with one node in a process
}

// newBench names what is measured.
func newBench(ctx context.Context, o options, out io.Writer) *bench {
	return &bench{options: o, out: out, series: map[string]map[string][]figures{}, costs: model.Costs{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: commit(ctx),
		Machine: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), toolchain()),
	}}
}

// run measures what the options select, and prints it. Its error says which budgets are not
// kept.
func (b *bench) run(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp(b.options.dir, "homeward-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	b.printf("%d runs of each side, in turns, of %v; %s\n", b.runs, b.window, b.costs.Machine)
	none := true
	for _, engine := range engines {
		cases := b.selected(engine)
		if len(cases) == 0 {
			continue
		}
		none = false
		if engine == embedded {
			err = b.measure(ctx, nil, nil, cases)
		} else {
			err = onDatabase(ctx, b.options, localdb.Kind(engine), func(db *database) error { return b.onDatabase(ctx, db, cases) })
		}
		if errors.Is(err, localdb.ErrNotFound) {
			b.printf("\n%s is not measured: %v\n", engine, err)
		} else if err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}
	}
	if none {
		return fmt.Errorf("no case has a name that starts with %q; go doc ./e2e/bench lists them", b.only)
	}
	return b.finish()
}

// selected are the requested cases of an engine.
func (b *bench) selected(engine string) (selection []testCase) {
	for _, c := range cases(b.options) {
		if c.engine() == engine && strings.HasPrefix(c.name, b.only) {
			selection = append(selection, c)
		}
	}
	return selection
}

func (b *bench) printf(format string, args ...any) { _, _ = fmt.Fprintf(b.out, format, args...) }

// onDatabase measures cases on a database.
func (b *bench) onDatabase(ctx context.Context, db *database, selection []testCase) (err error) {
	b.printf("\non %s\n", db.Version())
	// One, as a database that outlives a run must not get the same movement's id twice.
	sim, err := start(ctx, "", "simulator")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sim.stop()) }()
	// Each side runs once beforehand, so that each is planned as one that was used.
	for _, s := range cases(b.options)[0].sides[:2] {
		if _, err := b.once(ctx, db, sim, s, ""); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if err := db.used(ctx); err != nil {
		return err
	}
	if err := b.measure(ctx, db, sim, selection); err != nil {
		return err
	}
	return b.addCosts(ctx, db)
}

// addCosts takes what docs/SIZING.md is made from, where it was measured.
func (b *bench) addCosts(ctx context.Context, db *database) error {
	engine := string(db.Kind())
	charges, replays := b.series[engine+"/charge"]["homeward-event"], b.series[engine+"/replay"]["homeward"]
	if charges == nil || replays == nil {
		return nil
	}
	of := func(runs []figures, value func(figures) float64) float64 {
		return measure{of: value}.spread(runs).median
	}
	node := func(f figures) float64 { return float64(f.cpu) / 1e3 }
	database := func(f figures) float64 { return float64(f.database) / 1e3 }
	b.costs.Databases = append(b.costs.Databases, model.Database{
		Name:       db.Version(),
		NodeCharge: of(charges, node), NodeReplay: of(replays, node), DatabaseCharge: of(charges, database), DatabaseReplay: of(replays, database),
	})
	if db.Kind() != localdb.PostgreSQL {
		return nil
	}
	b.costs.WAL = of(charges, func(f figures) float64 { return f.wal })
	return db.storage(ctx, &b.costs)
}

// measure runs the sides of each case in turns; the order is turned round each time, so
// that no side always runs in the wake of another. db is nil without a database, and so is
// sim for a fresh one each time.
func (b *bench) measure(ctx context.Context, db *database, sim *child, cases []testCase) error {
	for _, c := range cases {
		results := make([][]result, len(c.sides))
		least := 0. // what the database uses with no side running, in cores
		for turn := range b.runs {
			if db != nil {
				idle, err := between(ctx, watch(db), time.Now(), time.Now().Add(b.window/2))
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				if cores := idle.db.Seconds() / (b.window / 2).Seconds(); turn == 0 || cores < least {
					least = cores
				}
			}
			for i := range c.sides {
				if turn%2 == 1 {
					i = len(c.sides) - 1 - i
				}
				s, profile := c.sides[i], ""
				if b.profile != "" && turn == b.runs-1 {
					profile = filepath.Join(b.profile, strings.ReplaceAll(c.name, "/", "-")+"-"+s.name+".pprof")
				}
				r, err := b.once(ctx, db, sim, s, profile)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, s.name, err)
				}
				results[i] = append(results[i], r)
			}
		}
		series := map[string][]figures{}
		for i, s := range c.sides {
			for _, r := range results[i] {
				series[s.name] = append(series[s.name], newFigures(r, least))
			}
			if s.role != "floor" && c.engine() != string(localdb.CockroachDB) {
				b.memory = append(b.memory, series[s.name]...)
			}
		}
		b.series[c.name] = series
		b.add(c, series)
	}
	return nil
}

// once measures a side once, in fresh processes.
func (b *bench) once(ctx context.Context, db *database, sim *child, s side, profile string) (r result, err error) {
	if sim == nil {
		if sim, err = start(ctx, "", "simulator"); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, sim.stop()) }()
	}
	if err := slowDown(ctx, sim, s.psp); err != nil {
		return r, err
	}
	args := append([]string{"-psp=" + sim.Serving[0]}, s.args...)
	if s.gateway {
		args = append(args, "-gateway="+sim.Serving[1])
	}
	before := 0
	if db == nil {
		store, err := os.MkdirTemp(b.dir, s.name+"-")
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(store)) }()
		args = append(args, "-dir="+store)
	} else {
		name := nodesDatabase
		if s.role == "floor" {
			name = bareDatabase
		}
		for _, region := range db.regions {
			args = append(args, "-db="+db.URL(region, name))
		}
		if before, err = db.stored(ctx, s.role); err != nil {
			return r, err
		}
	}
	if s.nodes > 0 {
		return b.watchIdle(ctx, db, s, args)
	}
	sut, err := start(ctx, profile, s.role, args...)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, sut.stop()) }()
	g := &generator{load: s.load, addrs: sut.Serving[s.entry : s.entry+1], prime: sut.Serving[0], watch: watch(db, sut.cmd.Process.Pid)}
	if s.everywhere {
		g.addrs = sut.Serving
	}
	if r, err = g.run(ctx); err != nil || db == nil {
		return r, err
	}
	after, err := db.stored(ctx, s.role)
	if err == nil && after-before != r.made {
		err = fmt.Errorf("%d charges were answered and %d are stored", r.made, after-before)
	}
	return r, err
}

// watchIdle starts a side's nodes, each a process, and watches their database after a calm.
func (b *bench) watchIdle(ctx context.Context, db *database, s side, args []string) (r result, err error) {
	var pids []int
	for range s.nodes {
		n, err := start(ctx, "", s.role, args...)
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, n.stop()) }()
		args, pids = append(args, "-seed="+n.Gossip), append(pids, n.cmd.Process.Pid)
	}
	// Vacuums of earlier work must not count for them.
	if err := db.autovacuum(ctx, false); err != nil {
		return r, err
	}
	from := time.Now().Add(b.calm)
	r.used, err = between(ctx, watch(db, pids...), from, from.Add(b.idle))
	r.elapsed = b.idle
	return r, errors.Join(err, db.autovacuum(ctx, true))
}

// slowDown makes each call of a provider take so long.
func slowDown(ctx context.Context, sim *child, latency time.Duration) (err error) {
	body := strings.NewReader(fmt.Sprintf(`{"latency_ms":%d}`, latency.Milliseconds()))
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+sim.Serving[0]+"/_sim/faults", body)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the simulator does not slow down: status %d", res.StatusCode)
	}
	return nil
}

// add prints a finished case.
func (b *bench) add(c testCase, series map[string][]figures) {
	b.printf("\n%s\n", c.name)
	w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "side\treq/s\tp50 ms\tp99 ms\tCPU µs/req\tpeak MiB\tdatabase CPU µs/req\tWAL B/req\tidle cores\ttransactions/s\t")
	for _, s := range c.sides {
		runs := series[s.name]
		of := func(value func(figures) float64) float64 { return measure{of: value}.spread(runs).median }
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\t%.3f\t%.1f\t\n", s.name, of(rates.of),
			of(func(f figures) float64 { return float64(f.p50) / 1e6 }), of(p99s.of)/1e6, of(func(f figures) float64 { return float64(f.cpu) / 1e3 }),
			peaks.spread(runs).max, of(dbCPUs.of)/1e3, of(func(f figures) float64 { return f.wal }), of(func(f figures) float64 { return f.cores }),
			of(func(f figures) float64 { return f.commits }))
		for _, f := range runs {
			fmt.Fprintf(&b.lines, "Benchmark%s/side=%s %d %.0f ns/op %.0f req/s %d p50-ns %d p99-ns %d cpu-ns/op %.1f peak-MiB %d db-cpu-ns/op %.0f wal-B/op %.4f idle-cores\n",
				strings.ReplaceAll(c.name, "/", "_"), s.name, max(1, f.requests), 1e9/max(1, f.rate), f.rate, f.p50, f.p99, f.cpu, f.peak, f.database, f.wal, f.cores)
		}
	}
	_ = w.Flush()
}

// verdicts are those of all budgets that o selects, the bound of memory last.
func (b *bench) verdicts() (all []verdict) {
	for _, c := range cases(b.options) {
		if !strings.HasPrefix(c.name, b.only) {
			continue
		}
		for _, budget := range c.budgets {
			all = append(all, budget.judge(c.name, b.series[c.name][c.sides[0].name], b.series[c.name][budget.side]))
		}
	}
	if b.only == "" || len(b.memory) > 0 {
		all = append(all, mostMemory.judge("all cases", nil, greatest(b.memory)))
	}
	return all
}

// greatest is the run with the most memory, if any.
func greatest(runs []figures) []figures {
	if len(runs) == 0 {
		return nil
	}
	return []figures{slices.MaxFunc(runs, func(a, b figures) int { return cmp.Compare(a.peak, b.peak) })}
}

// finish prints the verdict, and writes the requested files.
func (b *bench) finish() error {
	all := b.verdicts()
	b.printf("\nBudgets. Medians; a ratio is of one turn, with the least and the greatest:\n")
	w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  budget\tfigure\tfloor\tratio\tallowed\t")
	var missed, absent int
	for _, v := range all {
		fmt.Fprintln(w, "  "+v.row("\t"))
		switch {
		case !v.measured:
			absent++
		case v.missed:
			missed++
		}
	}
	err := w.Flush()
	if b.runsFile != "" {
		header := fmt.Sprintf("goos: %s\ngoarch: %s\npkg: github.com/homeward-io/homeward/e2e/bench\n", runtime.GOOS, runtime.GOARCH)
		err = errors.Join(err, os.WriteFile(b.runsFile, append([]byte(header), b.lines.Bytes()...), 0o644))
	}
	if err == nil && b.page != "" {
		if absent > 0 {
			return fmt.Errorf("%d budgets were not measured, so %s was not written", absent, b.page)
		}
		err = b.write(all)
	}
	if err == nil && !b.quick && missed+absent > 0 {
		err = fmt.Errorf("of %d budgets %d are missed and %d were not measured", len(all), missed, absent)
	}
	return err
}

// write writes the page, whole or not at all.
func (b *bench) write(all []verdict) error {
	var page bytes.Buffer
	fmt.Fprintf(&page, `# Benchmarks

`+"`make bench SUITE=report`"+` writes this page: do not edit it. The figures are of one machine on one
day. Compare sides and ratios, not milliseconds. [e2e/bench/doc.go](../e2e/bench/doc.go) says what
each case does, and what its floor is.

| | |
| --- | --- |
| date | %s |
| commit | %s |
| machine | %s |
| runs | %d of each side, in turns, of %v; of %v at a fixed rate, of %v of idle nodes; each after %v that are not measured |
| CockroachDB's settings | %s |

## Budgets

Medians; a ratio is of one turn, with the least and the greatest of them.

| budget | figure | floor | ratio | allowed | |
| --- | --- | --- | --- | --- | --- |
`, b.costs.Date, b.costs.Commit, b.costs.Machine, b.runs, b.window, b.paced, b.idle, b.warm, cmp.Or(strings.Join(b.settings, ", "), "as it has them"))
	for _, v := range all {
		fmt.Fprintf(&page, "| %s |\n", v.row(" | "))
	}
	fmt.Fprintf(&page, "\n%s", b.costs.Block())
	half := b.page + ".new"
	err := os.WriteFile(half, page.Bytes(), 0o644)
	if err == nil {
		err = os.Rename(half, b.page)
	}
	return err
}

// toolchain is Go's version, and whether this program was built with cgo: then Pebble's
// memory is not Go's.
func toolchain() string {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"}) {
		return runtime.Version() + " with cgo"
	}
	return runtime.Version() + " without cgo"
}

// commit names what was measured; it marks changes that are not committed.
func commit(ctx context.Context) string {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown (not a git checkout)"
	}
	name := strings.TrimSpace(string(head))
	if changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no").Output(); err != nil || len(changes) > 0 {
		name += ", with changes that are not committed"
	}
	return name
}

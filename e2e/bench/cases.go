package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// farRTT is the distance of case iv, pspLatency the provider's in case v.
const (
	farRTT     = 80 * time.Millisecond
	pspLatency = 80 * time.Millisecond
)

// pacedRates are the charges per second of case v, and connsAt the connections that
// they need: a provider of 80 ms holds 80 at a time of a thousand a second, and a stall
// of the machine as many again.
var pacedRates = []float64{200, 1000}

func connsAt(rate float64) int {
	if rate > 500 {
		return 4 * middle
	}
	return middle
}

// side is one of the things that a case compares.
type side struct {
	name string
	// role serves; "" means that the simulator itself is loaded.
	role string
	args []string
	spec loadSpec // Addr, PrimeAddr and Control are filled in
	// from is a store to start from; "" means an empty one.
	from string
	// entry is the region that is loaded; the first one is primed.
	entry int
	// everywhere loads all that it serves at, in equal shares, instead of entry.
	everywhere bool
	// psp is how long the provider takes. sim is the one to call, nil for a fresh one: a
	// database that outlives a run must not be told the same movement's id twice.
	psp time.Duration
	sim *child
	// tally, if set, says how many finished charges are stored; each run must leave as
	// many as were answered.
	tally func(context.Context) (int, error)
}

// comparison is a case: its sides take turns. The first one is the measure of
// the others.
type comparison struct {
	name  string // for -only and benchstat: "ii/charge"
	title string
	conns int
	sides []side
	// probe reads the database that the sides share; nil for none.
	probe *probe
}

// comparisons lists all cases. Those of case vii start from stores that have been filled
// below a directory, each named by how many keys it has.
func comparisons(o options, stores string) []comparison {
	small := filepath.Join(stores, strconv.Itoa(o.small))
	base := loadSpec{Warm: o.warm, Window: o.window}
	withConns := func(s loadSpec, n int) loadSpec { s.Conns = n; return s }
	stamped, replay := base, base
	stamped.Stamped = true
	replay.Replay = o.keys
	var all []comparison
	for _, n := range o.conns {
		all = append(all, comparison{name: "ii/charge", title: "New charges", conns: n, sides: []side{
			{name: "floor", role: "floor", spec: withConns(base, n)},
			{name: "homeward", role: "homeward", spec: withConns(base, n)},
			{name: "homeward-stamped", role: "homeward", spec: withConns(stamped, n)},
		}})
	}
	for _, n := range o.conns {
		all = append(all, comparison{name: "iii/replay", title: "Replays of finished keys", conns: n, sides: []side{
			{name: "reader", role: "reader", spec: withConns(replay, n)},
			{name: "homeward", role: "homeward", spec: withConns(replay, n)},
		}})
	}
	far := []string{"-regions=3", "-wan=" + farRTT.String(), "-lag=" + o.lag.String()}
	for _, paced := range []bool{false, true} {
		home, title := withConns(replay, middle), "Replays at home and in another region, 80 ms away"
		if paced {
			home.Rate, home.Window = o.rate, o.paced
			title += fmt.Sprintf(", %.0f requests/s", o.rate)
		}
		away := home
		// A margin over the lag covers the primed keys' own spread in time.
		away.Settle = o.lag + 100*time.Millisecond
		all = append(all, comparison{name: "iv/away" + suffix(paced), title: title, conns: middle, sides: []side{
			{name: "home", role: "homeward", args: far, spec: home},
			{name: "away", role: "homeward", args: far, spec: away, entry: 1},
		}})
	}
	for _, rate := range o.rates {
		paced := withConns(base, connsAt(rate))
		paced.Rate, paced.Window = rate, o.paced
		all = append(all, comparison{name: fmt.Sprintf("v/latency-%.0f", rate), title: fmt.Sprintf("Charges over an 80 ms provider, %.0f/s", rate), conns: paced.Conns, sides: []side{
			{name: "floor", role: "floor", spec: paced, psp: pspLatency},
			{name: "homeward", role: "homeward", spec: paced, psp: pspLatency},
		}})
	}
	// What a large store costs is compaction, which comes in rounds of some ten
	// seconds: a shorter run would see none of it.
	rounds := withConns(base, middle)
	rounds.Window = o.rounds
	sides := []side{{name: "few", role: "homeward", spec: rounds, from: small}}
	for _, keys := range o.stored {
		sides = append(sides, side{name: fmt.Sprintf("%d-stored", keys), role: "homeward", spec: rounds, from: filepath.Join(stores, strconv.Itoa(keys))})
	}
	all = append(all, comparison{name: "viii/metrics", title: "Charges with metrics, and without", conns: middle, sides: []side{
		{name: "without", role: "homeward", args: []string{"-metrics=false"}, spec: withConns(base, middle)},
		{name: "with", role: "homeward", spec: withConns(base, middle)},
	}})
	return append(all, comparison{name: "vii/stored", title: fmt.Sprintf("Charges with %d keys stored, and with more", o.small), conns: middle, sides: sides})
}

func suffix(paced bool) string {
	if paced {
		return "-paced"
	}
	return ""
}

// orchestrate runs what o selects and prints it.
func orchestrate(ctx context.Context, o options, out io.Writer) (err error) {
	dir, err := os.MkdirTemp(o.dir, "homeward-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := newReport(o, out)
	for _, c := range comparisons(o, dir) {
		if !strings.HasPrefix(c.name, o.only) {
			continue
		}
		for _, s := range c.sides {
			if s.from == "" {
				continue
			}
			if err := fill(ctx, r, s.from); err != nil {
				return err
			}
		}
		series, err := compare(ctx, o, c, dir)
		if err != nil {
			return fmt.Errorf("%s at %d connections: %w", c.name, c.conns, err)
		}
		r.add(c, series)
	}
	return r.finish()
}

// compare runs the sides of c in turns; the order is turned round each time, so
// that no side always runs in the wake of another.
func compare(ctx context.Context, o options, c comparison, dir string) ([][]figures, error) {
	results := make([][]loadResult, len(c.sides))
	var idles []usageRate
	for turn := range o.runs {
		// What the database does for nobody, with none of the sides running: what
		// Homeward asks for while it waits is a part of its charges.
		idle, err := c.probe.idle(ctx, o.window/2)
		if err != nil {
			return nil, fmt.Errorf("idle: %w", err)
		}
		idles = append(idles, idle)
		for i := range c.sides {
			if turn%2 == 1 {
				i = len(c.sides) - 1 - i
			}
			s := c.sides[i]
			s.spec.Probe = c.probe
			if o.profile != "" && turn == o.runs-1 {
				name := fmt.Sprintf("%s-%d-%s.pprof", strings.ReplaceAll(c.name, "/", "-"), c.conns, s.name)
				s.spec.Profile = filepath.Join(o.profile, name)
			}
			result, err := s.run(ctx, dir)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			results[i] = append(results[i], result)
		}
	}
	return series(results, idles), nil
}

// run measures one side once, in fresh processes.
func (s side) run(ctx context.Context, dir string) (result loadResult, err error) {
	store, err := os.MkdirTemp(dir, s.name+"-")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(store)) }()
	if s.from != "" {
		if err := cloneStore(s.from, store); err != nil {
			return result, err
		}
	}
	before := 0
	if s.tally != nil {
		if before, err = s.tally(ctx); err != nil {
			return result, err
		}
	}
	sim := s.sim
	if sim != nil {
		err = slowDown(ctx, sim, s.psp)
	} else if sim, err = start(ctx, "simulator", "-latency="+s.psp.String()); err == nil {
		defer func() { err = errors.Join(err, sim.stop()) }()
	}
	if err != nil {
		return result, err
	}
	args := append([]string{"-dir=" + store}, s.args...)
	if s.role != "reader" {
		args = append(args, "-psp="+sim.Serving[0])
	}
	sut, err := start(ctx, s.role, args...)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, sut.stop()) }()
	s.spec.Addr, s.spec.PrimeAddr, s.spec.Control = sut.Serving[s.entry], sut.Serving[0], sut.Control
	if s.everywhere {
		s.spec.Addrs = sut.Serving
	}
	result, err = load(ctx, s.spec)
	if err != nil || s.tally == nil {
		return result, err
	}
	after, err := s.tally(ctx)
	if err == nil && after-before != result.Made {
		err = fmt.Errorf("%d charges were answered and %d are stored", result.Made, after-before)
	}
	return result, err
}

// slowDown makes each call of a provider that runs take so long.
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
		text, _ := io.ReadAll(res.Body)
		return fmt.Errorf("simulator: status %d: %s", res.StatusCode, text)
	}
	return nil
}

// load runs the generator.
func load(ctx context.Context, spec loadSpec) (result loadResult, err error) {
	cmd, err := command(ctx, "load")
	if err != nil {
		return result, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return result, err
	}
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		return result, fmt.Errorf("generator: %w", err)
	}
	return result, json.Unmarshal(out, &result)
}

// fill makes a store in dir, of as many finished charges as its name says.
func fill(ctx context.Context, r *report, dir string) error {
	began, keys := time.Now(), filepath.Base(dir)
	cmd, err := command(ctx, "fill", "-dir="+dir, "-keys="+keys)
	if err != nil {
		return err
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	size, err := sizeOf(dir)
	r.printf("filled a store with %s finished charges in %.1f s: %d MiB\n", keys, time.Since(began).Seconds(), size>>20)
	return err
}

func sizeOf(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}

// cloneStore copies a closed store. Tables are never written to once they are
// whole, so a hard link will do for those; everything else is copied.
func cloneStore(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case filepath.Ext(path) == ".sst":
			return os.Link(path, target)
		default:
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(target, content, 0o644)
		}
	})
}

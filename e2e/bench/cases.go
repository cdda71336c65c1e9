package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	psp   time.Duration
}

// comparison is a case: its sides take turns. The first one is the measure of
// the others.
type comparison struct {
	name  string // for -only and benchstat: "ii/charge"
	title string
	conns int
	sides []side
}

// comparisons lists all cases but the fills of case vii, which are paths.
func comparisons(o options, small, large string) []comparison {
	base := loadSpec{Warm: o.warm, Window: o.window}
	withConns := func(s loadSpec, n int) loadSpec { s.Conns = n; return s }
	stamped, replay := base, base
	stamped.Stamped = true
	replay.Replay = o.keys
	var all []comparison
	for _, n := range o.conns {
		all = append(all, comparison{"ii/charge", "New charges", n, []side{
			{name: "floor", role: "floor", spec: withConns(base, n)},
			{name: "homeward", role: "homeward", spec: withConns(base, n)},
			{name: "homeward-stamped", role: "homeward", spec: withConns(stamped, n)},
		}})
	}
	for _, n := range o.conns {
		all = append(all, comparison{"iii/replay", "Replays of finished keys", n, []side{
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
		all = append(all, comparison{"iv/away" + suffix(paced), title, middle, []side{
			{name: "home", role: "homeward", args: far, spec: home},
			{name: "away", role: "homeward", args: far, spec: away, entry: 1},
		}})
	}
	paced := withConns(base, middle)
	paced.Rate, paced.Window = o.rate, o.paced
	all = append(all, comparison{"v/latency", fmt.Sprintf("Charges over an 80 ms provider, %.0f requests/s", o.rate), middle, []side{
		{name: "floor", role: "floor", spec: paced, psp: pspLatency},
		{name: "homeward", role: "homeward", spec: paced, psp: pspLatency},
	}})
	// What a large store costs is compaction, which comes in rounds of some ten
	// seconds: a shorter run would see none of it.
	rounds := withConns(base, middle)
	rounds.Window = o.rounds
	return append(all, comparison{"vii/stored", fmt.Sprintf("Charges with %d and with %d keys stored", o.small, o.large), middle, []side{
		{name: "few", role: "homeward", spec: rounds, from: small},
		{name: "many", role: "homeward", spec: rounds, from: large},
	}})
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
	small, large := filepath.Join(dir, "small"), filepath.Join(dir, "large")
	r := newReport(o, out)
	for _, c := range comparisons(o, small, large) {
		if !strings.HasPrefix(c.name, o.only) {
			continue
		}
		if c.sides[0].from != "" {
			if err := fill(ctx, r, small, o.small); err != nil {
				return err
			}
			if err := fill(ctx, r, large, o.large); err != nil {
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
	series := make([][]figures, len(c.sides))
	for turn := range o.runs {
		for i := range c.sides {
			if turn%2 == 1 {
				i = len(c.sides) - 1 - i
			}
			s := c.sides[i]
			if o.profile != "" && turn == o.runs-1 {
				name := fmt.Sprintf("%s-%d-%s.pprof", strings.ReplaceAll(c.name, "/", "-"), c.conns, s.name)
				s.spec.Profile = filepath.Join(o.profile, name)
			}
			result, err := s.run(ctx, dir)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			series[i] = append(series[i], newFigures(result))
		}
	}
	return series, nil
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
	sim, err := start(ctx, "simulator", "-latency="+s.psp.String())
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, sim.stop()) }()
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
	return load(ctx, s.spec)
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

// fill makes a store of finished charges in dir.
func fill(ctx context.Context, r *report, dir string, keys int) error {
	began := time.Now()
	cmd, err := command(ctx, "fill", "-dir="+dir, "-keys="+strconv.Itoa(keys))
	if err != nil {
		return err
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	size, err := sizeOf(dir)
	r.printf("filled a store with %d finished charges in %.1f s: %d MiB\n", keys, time.Since(began).Seconds(), size>>20)
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

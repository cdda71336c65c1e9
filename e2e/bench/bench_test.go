package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain lets the orchestrator start this test binary in its other roles.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "role:") {
		main()
		return
	}
	// The race detector holds every process back for a second when it ends, to
	// let others report; the children here have waited for theirs.
	if os.Getenv("GORACE") == "" {
		if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// Every case runs once, briefly. A wrong status, a replay that differs or a side
// that does not answer fails the run; no figure is judged.
func TestEveryCaseMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("starts some twenty processes")
	}
	dir := t.TempDir()
	o := options{
		runs: 1, window: 250 * time.Millisecond, warm: 50 * time.Millisecond, paced: 250 * time.Millisecond, rounds: 250 * time.Millisecond,
		conns: []int{middle}, keys: 20, small: 50, stored: []int{500}, lag: 50 * time.Millisecond, rate: 200, rates: []float64{100},
		dir: dir, out: filepath.Join(dir, "bench.txt"),
	}
	var out bytes.Buffer
	if err := orchestrate(t.Context(), o, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	lines, err := os.ReadFile(o.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range comparisons(o, dir) {
		for _, s := range c.sides {
			want := fmt.Sprintf("Benchmark%s/conns=%d/side=%s ", strings.ReplaceAll(c.name, "/", "_"), c.conns, s.name)
			if n := strings.Count(string(lines), want); n != 1 {
				t.Errorf("%d lines for %q, want 1", n, want)
			}
		}
	}
	for _, want := range []string{
		"ii/charge, homeward, 64 connections: rate ", "ii/charge, homeward-stamped, 64 connections: p99 ", "iii/replay, homeward, 64 connections: rate ",
		"iv/away-paced, away, 64 connections: p99 ", "v/latency-100, homeward, 64 connections: added p50 ", "added p99 ",
		"vii/stored, 500-stored, 64 connections: CPU per charge ", "peak memory", "figure",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the verdict does not speak of %q:\n%s", want, out.String())
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(left, func(e os.DirEntry) bool { return e.IsDir() }); i >= 0 {
		t.Errorf("a store was left behind: %s", left[i].Name())
	}
}

// A wrong reply must fail a run, or every figure could be of errors.
func TestWrongReplyFailsTheRun(t *testing.T) {
	dir := t.TempDir()
	sut, err := start(t.Context(), "reader", "-dir="+dir)
	if err != nil {
		t.Fatal(err)
	}
	spec := loadSpec{Addr: sut.Serving[0], Control: sut.Control, Conns: 2, Window: 50 * time.Millisecond}
	if _, err := load(t.Context(), spec); err != nil {
		t.Errorf("new keys: %v", err)
	}
	// Nothing listens where the keys would be made.
	spec.Replay, spec.PrimeAddr = 5, "127.0.0.1:1"
	if _, err := load(t.Context(), spec); err == nil {
		t.Error("a run without a server succeeded")
	}
	g := &generator{loadSpec: loadSpec{Replay: 1}, keys: []string{"00000000-0000-4000-8000-000000000000"}, bodies: [][]byte{nil}}
	w, err := dial(sut.Serving[0])
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	// The first request makes the reader's row, the second reads it.
	if err := g.exchange(w); err == nil {
		t.Error("a first reply passed for a replay")
	}
	if err := g.exchange(w); err == nil || !strings.Contains(err.Error(), "differs") {
		t.Errorf("a replay with other bytes passed: %v", err)
	}
	if err := sut.stop(); err != nil {
		t.Error(err)
	}
}

func TestStoppingEndsTheChild(t *testing.T) {
	c, err := start(t.Context(), "simulator")
	if err != nil {
		t.Fatal(err)
	}
	if u, err := fetchUsage(t.Context(), c.Control); err != nil || u.CPU <= 0 || u.PeakKiB <= 0 || u.Mallocs == 0 {
		t.Errorf("usage %+v, %v", u, err)
	}
	if err := c.stop(); err != nil {
		t.Error(err)
	}
	if c.cmd.ProcessState == nil {
		t.Error("the child still runs")
	}
	if _, err := start(t.Context(), "homeward", "-nonsense"); err == nil {
		t.Error("a child that cannot start did")
	}
}

func TestSpread(t *testing.T) {
	runs := []figures{{rate: 30}, {rate: 10}, {rate: 20}}
	if got, want := spreadOf(runs, rate), (spread{20, 10, 30}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := spreadOf(runs[:2], rate), (spread{20, 10, 30}); got != want {
		t.Errorf("of two: got %v, want %v", got, want)
	}
	// By turns: 15/30 and 20/10, not the ratio of the medians.
	if got, want := ratios(runs[:2], []figures{{rate: 15}, {rate: 20}}, rate), (spread{1.25, 0.5, 2}); got != want {
		t.Errorf("ratios: got %v, want %v", got, want)
	}
}

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-runs=3", "-seconds=0.5", "-conns=1,2"})
	if err != nil || o.runs != 3 || o.window != 500*time.Millisecond || !slices.Equal(o.conns, []int{1, 2}) {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-runs=0"}, {"-seconds=-1"}, {"-conns=0"}, {"-conns=x"}, {"-large=5"}, {"more"}} {
		if _, err := parseOptions(bad); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}

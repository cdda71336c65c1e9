package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/e2e/sizing/model"
)

// suites are what a page has, in its order.
var suites = []struct {
	title, command string
	set            func(o *options)
	run            func(ctx context.Context, o options, out io.Writer) error
}{
	{"Charges and replays, embedded store", "make bench", func(*options) {}, orchestrate},
	{"The SQL store against its own statements", "make bench SUITE=store", func(o *options) { o.store, o.conns = true, connsIn(*o, "-store") }, orchestrateStore},
	{"Charges beside a flood of webhooks", "make bench SUITE=webhooks", func(o *options) { o.webhooks = true }, orchestrateWebhooks},
	{"Nodes on a database, HTTP to HTTP", "make bench SUITE=sql", func(o *options) { o.sql, o.conns = true, connsIn(*o, "-sql") }, orchestrateSQL},
	{"Several nodes on one database", "make bench SUITE=scale", func(o *options) { o.scale = true }, orchestrateScale},
}

// connsIn are the connections of a suite's cases in a report.
func connsIn(o options, suite string) []int {
	if len(o.conns) == 1 {
		return o.conns // a quick run's
	}
	return connsOf[suite]
}

// toolchain is Go's version, and whether this program was built with cgo: then Pebble's
// memory is not Go's.
func toolchain() string {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"}) {
		return runtime.Version() + " with cgo"
	}
	return runtime.Version() + " without cgo"
}

// orchestratePage runs every suite and writes what they print to the page that
// o.page names, whole or not at all: a page that is half of today and half of
// another day would be a false one.
func orchestratePage(ctx context.Context, o options, out io.Writer) error {
	measured := model.Costs{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: commit(ctx),
		Machine: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), toolchain()),
	}
	began := time.Now()
	var targets []target
	var page, details bytes.Buffer
	fmt.Fprintf(&page, `# Benchmarks

Made by `+"`make bench SUITE=report`"+`, which overwrites this page: do not edit it. The figures are
of one machine on one day, which other work may have shared. Compare sides and ratios,
not milliseconds; run it on yours before you rely on any. What each case does, and what its
floor is, stands in [e2e/bench/doc.go](../e2e/bench/doc.go).

| | |
| --- | --- |
| date | %s |
| commit | %s |
| machine | %s |
| runs | %d of each side, in turns, of %v; of %v at a fixed rate, of %v on filled stores; each after %v that are not measured |
`, measured.Date, measured.Commit, measured.Machine, o.runs, o.window, o.paced, o.rounds, o.warm)
	if o.window < reportSeconds*time.Second {
		fmt.Fprintln(&page, "\n**A smoke test: these runs are too short for their figures to mean anything.**")
	}
	for _, s := range suites {
		of := o
		of.out, of.costs, of.all = "", &measured, &targets
		s.set(&of)
		if _, err := fmt.Fprintf(out, "\n== %s\n", s.title); err != nil {
			return err
		}
		var printed bytes.Buffer
		from := time.Now()
		if err := s.run(ctx, of, io.MultiWriter(out, &printed)); err != nil {
			return fmt.Errorf("%s: %w; %s was left as it is", s.command, err, o.page)
		}
		fmt.Fprintf(&details, "\n## %s\n\n`%s`, %v\n\n```\n%s\n```\n", s.title, s.command, time.Since(from).Round(time.Second), strings.TrimSpace(printed.String()))
	}
	page.WriteString("\n## Targets\n\nMedians; a ratio is of one turn, with the least and the greatest of them.\n\n| what | figure | floor | ratio | target | |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, t := range targets {
		fmt.Fprintf(&page, "| %s |\n", strings.ReplaceAll(t.row(), "\t", " | "))
	}
	page.Write(details.Bytes())
	fmt.Fprintf(&page, "\nAll suites together took %v.\n\n%s", time.Since(began).Round(time.Second), measured.Block())
	half := o.page + ".new"
	err := os.MkdirAll(filepath.Dir(o.page), 0o755)
	if err == nil {
		err = os.WriteFile(half, page.Bytes(), 0o644)
	}
	if err == nil {
		err = os.Rename(half, o.page)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(half))
	}
	_, err = fmt.Fprintf(out, "\nwritten: %s\n", o.page)
	return err
}

// commit names what was measured; with changes that are not committed it says so.
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

package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/sizing/model"
)

// quickly keeps simulations short; no figure is looked at.
var quickly = []string{"-rates=100,300", "-regions=2", "-peak=0.2", "-detect=0.05", "-spread=0.05", "-after=0.1"}

var costs = model.Costs{Date: "2026-11-22", Database: "PostgreSQL 15", NodeCharge: 300, NodeReplay: 60, DatabaseCharge: 500, DatabaseReplay: 80, Audit: 400, Books: 500}

func TestTablesAreWrittenIntoThePage(t *testing.T) {
	dir := t.TempDir()
	benchmarks, page := filepath.Join(dir, "BENCHMARKS.md"), filepath.Join(dir, "SIZING.md")
	require.NoError(t, os.WriteFile(benchmarks, []byte("# Benchmarks\n\n"+costs.Block()), 0o644))
	require.NoError(t, os.WriteFile(page, []byte("# Sizing\n\n"+model.Begin+"\n"+model.End+"\n"), 0o644))

	var printed bytes.Buffer
	require.NoError(t, run(append([]string{"-costs", benchmarks}, quickly...), &printed))
	require.Contains(t, printed.String(), "| CPU of the database | 500 µs | 80 µs |")
	require.NoError(t, run(append([]string{"-costs", benchmarks, "-write", page}, quickly...), io.Discard))
	written, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(written), strings.TrimSpace(printed.String()))

	// What is given counts, but never goes into the page.
	printed.Reset()
	require.NoError(t, run(append([]string{"-costs", benchmarks, "-database-charge=3000"}, quickly...), &printed))
	require.Contains(t, printed.String(), "| CPU of the database | 3000 µs | 80 µs |")
	require.ErrorContains(t, run(append([]string{"-costs", benchmarks, "-database-charge=3000", "-write", page}, quickly...), io.Discard), "leave out -database-charge")
}

func TestCostsMustBeKnown(t *testing.T) {
	absent := "-costs=" + filepath.Join(t.TempDir(), "absent.md")
	require.ErrorContains(t, run(append([]string{absent}, quickly...), io.Discard), "make bench SUITE=report")
	require.NoError(t, run(append([]string{absent, "-node-charge=1", "-node-replay=1", "-database-charge=1", "-database-replay=1"}, quickly...), io.Discard))
	for _, bad := range []string{"-rates=0", "-rates=x", "-busy=0", "more"} {
		require.Error(t, run([]string{absent, "-node-charge=1", "-node-replay=1", "-database-charge=1", "-database-replay=1", bad}, io.Discard), bad)
	}
}

// The page of the repository takes tables, and has none but of the benchmarks beside it.
func TestPageHasTheBenchmarksCosts(t *testing.T) {
	page, err := os.ReadFile("../../docs/SIZING.md")
	require.NoError(t, err)
	_, err = model.Renew(string(page), "tables")
	require.NoError(t, err)
	_, generated, _ := strings.Cut(string(page), model.Begin)
	generated, _, _ = strings.Cut(generated, model.End)
	c, err := read("../../docs/BENCHMARKS.md")
	if errors.Is(err, fs.ErrNotExist) {
		require.NotContains(t, generated, "## What it is made from", "tables of benchmarks that are not there")
		return
	}
	require.NoError(t, err)
	require.Contains(t, generated, "commit "+c.Commit, "run make bench SUITE=sizing")
	require.Contains(t, generated, c.Date, "run make bench SUITE=sizing")
}

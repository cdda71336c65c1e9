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

var costs = model.Costs{
	Date: "2026-11-22", Commit: "abc", Machine: "a laptop", WAL: 5000, Record: 2000, Audit: 400, Books: 500,
	Databases: []model.Database{
		{Name: "CockroachDB v26", NodeCharge: 300, NodeReplay: 60, DatabaseCharge: 3000, DatabaseReplay: 400},
		{Name: "PostgreSQL 15", NodeCharge: 200, NodeReplay: 50, DatabaseCharge: 500, DatabaseReplay: 80},
	},
}

// page writes a file with text below a directory.
func page(t *testing.T, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestTablesAreWrittenIntoThePage(t *testing.T) {
	benchmarks := page(t, "BENCHMARKS.md", "# Benchmarks\n\n"+costs.Block())
	into := page(t, "SIZING.md", "# Sizing\n\n"+begin+"\nold\n"+end+"\nbelow\n")
	var printed bytes.Buffer
	require.NoError(t, run([]string{"-costs", benchmarks}, &printed))
	require.Contains(t, printed.String(), "| CockroachDB v26 | 300 µs, 60 µs | 3000 µs, 400 µs |")
	require.Contains(t, printed.String(), "## On PostgreSQL 15")
	require.NoError(t, run([]string{"-costs", benchmarks, "-write", into}, io.Discard))
	written, err := os.ReadFile(into)
	require.NoError(t, err)
	require.Contains(t, string(written), strings.TrimSpace(printed.String()))
	require.Contains(t, string(written), end+"\nbelow\n")
	require.NotContains(t, string(written), "old")

	without := page(t, "OTHER.md", "# no marks\n")
	require.ErrorContains(t, run([]string{"-costs", benchmarks, "-write", without}, io.Discard), "marks")
}

func TestCostsMustBeMeasured(t *testing.T) {
	require.ErrorContains(t, run([]string{"-costs=" + filepath.Join(t.TempDir(), "absent.md")}, io.Discard), "make bench SUITE=report")
	for name, text := range map[string]string{
		"no block":    "# Benchmarks\n",
		"be read":     "## Costs\n\n```json\n{\"unheard\": 1}\n```\n",
		"no database": model.Costs{}.Block(),
		"for longer":  model.Costs{Databases: []model.Database{{Name: "PostgreSQL 15"}}}.Block(),
	} {
		require.ErrorContains(t, run([]string{"-costs", page(t, "BENCHMARKS.md", text)}, io.Discard), name)
	}
	of := page(t, "BENCHMARKS.md", costs.Block())
	for _, bad := range []string{"-rates=0", "-rates=x", "-regions=0", "-busy=0", "-replays=2", "-copies=0", "-average=0", "more"} {
		require.Error(t, run([]string{"-costs", of, bad}, io.Discard), bad)
	}
}

// A plan by hand.
func TestPlan(t *testing.T) {
	a := defaults()
	a.replays, a.busy = 0, 0.5
	p := newPlan(costs, costs.Databases[0], a, 12_000, 3)
	// 6,000/s in each of two that are left: 1.8 cores of nodes, 18 of databases.
	require.Equal(t, 2, p.nodes, "the least")
	require.Equal(t, 3, p.databases)
	require.InDeltaSlice(t, []float64{12. / 48, 18. / 48, 24. / 48}, p.databaseBusy[:], 1e-9, "4,000, 6,000 and 8,000 a second")
	require.InDeltaSlice(t, []float64{1.2 / 16, 1.8 / 16, 2.4 / 16}, p.nodeBusy[:], 1e-9)
	// 6,000 charges a second on average, five copies.
	require.InDelta(t, 6000*49*3600*2000*5/1e9, p.records, 1e-6)
	require.InDelta(t, 6000*400*86400*400*5/1e9, p.audit, 1e-3)
	require.InDelta(t, 6000*5*365*86400*500*5./1e9, p.books, 1e-3)
	require.InDelta(t, 3*2*8*0.045*730, p.nodeMoney, 1e-6)
	require.InDelta(t, 3*3*16*0.055*730, p.databaseMoney, 1e-6)
	require.InDelta(t, (p.records+p.audit+p.books)*0.1, p.storageMoney, 1e-6)
	require.InDelta(t, 6000*5000*2*3600*730/1e9*0.02, p.trafficMoney, 1e-6)
	require.InDelta(t, p.nodeMoney+p.databaseMoney+p.storageMoney+p.trafficMoney, p.money(), 1e-6)

	more := newPlan(costs, costs.Databases[0], a, 120_000, 3)
	require.Equal(t, 23, more.databases, "180 cores at most half busy, of 16 each")
	alone := newPlan(costs, costs.Databases[1], a, 1000, 1)
	require.Equal(t, alone.databaseBusy[0], alone.databaseBusy[2], "no other region is lost")
	require.Zero(t, alone.trafficMoney)
}

// The page of the repository takes tables, and has none but of the benchmarks beside it.
func TestPageHasTheBenchmarksCosts(t *testing.T) {
	text, err := os.ReadFile("../../docs/SIZING.md")
	require.NoError(t, err)
	_, err = renew(string(text), "tables")
	require.NoError(t, err)
	_, generated, _ := strings.Cut(string(text), begin)
	generated, _, _ = strings.Cut(generated, end)
	c, err := read("../../docs/BENCHMARKS.md")
	if errors.Is(err, fs.ErrNotExist) {
		require.NotContains(t, generated, "## What it is made from", "tables of benchmarks that are not there")
		return
	}
	require.NoError(t, err)
	require.Contains(t, generated, "commit "+c.Commit, "run make bench SUITE=sizing")
	require.Contains(t, generated, c.Date, "run make bench SUITE=sizing")
}

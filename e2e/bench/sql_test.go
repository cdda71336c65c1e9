package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/sizing/model"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
)

// briefly is a run that no figure is taken from.
func briefly(dir string) options {
	return options{
		runs: 2, window: 150 * time.Millisecond, slice: 75 * time.Millisecond, paced: 150 * time.Millisecond, warm: 20 * time.Millisecond,
		idle:  450 * time.Millisecond,
		conns: []int{1, middle}, keys: 20, small: 50, rate: 50, rates: []float64{50}, nodes: []int{1, 2},
		dir: dir, out: filepath.Join(dir, "bench.txt"), costs: &model.Costs{},
	}
}

// Every case of the database runs, briefly. A wrong reply, a charge that is not stored or
// one that was not asked for fails the run; no figure is judged.
func TestEverySQLCaseMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("starts some thirty processes")
	}
	s := dbtest.Start(t, localdb.Config{Kind: localdb.PostgreSQL, MaxConnections: manyConnections})
	o := briefly(t.TempDir())
	var out bytes.Buffer
	require.NoError(t, measureSQL(t.Context(), o, s, &out), out.String())
	lines, err := os.ReadFile(o.out)
	require.NoError(t, err)
	for _, want := range []string{
		"sql_charge/conns=1/side=floor", "sql_charge/conns=64/side=floor", "sql_charge/conns=64/side=homeward", "sql_charge/conns=64/side=homeward-stamped",
		"sql_charge/conns=64/side=homeward-told", "sql_replay/conns=64/side=reader", "sql_replay/conns=64/side=homeward", "sql_latency-50/conns=64/side=floor",
		"sql_latency-50/conns=64/side=homeward", "sql_empty/conns=64/side=analysed", "sql_empty/conns=64/side=empty", "sql_bare/conns=64/side=row",
		"sql_bare/conns=64/side=row-indexed-lease", "sql_bare/conns=64/side=claim-outbox-due", "sql_bare/conns=64/side=16-rows",
		"sql_bare/conns=64/side=16-rows-indexed-lease", "sql_single-begin/conns=1/side=bare", "sql_single-settle/conns=1/side=store",
	} {
		require.Equal(t, o.runs, strings.Count(string(lines), "Benchmark"+want+" "), "lines for %s in:\n%s", want, lines)
	}
	for _, want := range []string{
		"on " + s.Version(), "sql/charge, homeward, 64 connections: rate ", "sql/charge, homeward-stamped, 64 connections: p99 ",
		"sql/latency-50, homeward, 64 connections: added p50 ", "sql/empty: rate ", "sql/single-begin, 1 connection: p50 ", "database CPU µs/req",
		"bytes until its key is free again",
	} {
		require.Contains(t, out.String(), want)
	}
	require.Equal(t, s.Version(), o.costs.Database)
	require.Positive(t, o.costs.NodeCharge)
	require.Positive(t, o.costs.WAL)
	require.Positive(t, o.costs.Record)
	require.Positive(t, o.costs.Books)
}

func TestScaleMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("starts some ten processes")
	}
	s := dbtest.Start(t, localdb.Config{Kind: localdb.PostgreSQL, MaxConnections: manyConnections})
	o := briefly(t.TempDir())
	var out bytes.Buffer
	require.NoError(t, measureScale(t.Context(), o, s, &out), out.String())
	lines, err := os.ReadFile(o.out)
	require.NoError(t, err)
	for _, n := range o.nodes {
		require.Equal(t, o.runs, strings.Count(string(lines), fmt.Sprintf("Benchmarkscale_paced/conns=64/side=%d-nodes ", n)))
		require.Contains(t, out.String(), fmt.Sprintf("%d idle: ", n))
	}
	require.Contains(t, out.String(), "scale/paced, 2 nodes: rate ", "whether the rate was carried is a target of its own")
	for _, m := range []measure{cpus, dbCosts, idleCPUs, idleStatements} {
		require.Contains(t, out.String(), "scale/paced, 2 nodes to 1: "+m.name+" ")
	}
}

// A floor that leaves out a row, and a side whose charges are not stored, fail.
func TestFloorsMakeWholeCharges(t *testing.T) {
	s := dbtest.Start(t, localdb.Config{Kind: localdb.PostgreSQL})
	b, err := newBareBook(t.Context(), s, regionNames[:1])
	require.NoError(t, err)
	require.NoError(t, b.fill(t.Context(), 7))
	c, err := b.callers(t.Context(), 1)
	require.NoError(t, err)
	defer c.close()
	for _, of := range []struct {
		table string
		made  int
		call  func(context.Context) error
	}{
		{"bare_rows", 1, c.row(bareRow("bare_rows"))},
		{"bare_claims", 1, c.call},
		{"bare_many", inOne, c.many(bareMany("bare_many"))},
		{"bare_many_indexed", inOne, c.many(bareMany("bare_many_indexed"))},
	} {
		table := bareTable{b, of.table}
		before, err := table.count(t.Context())
		require.NoError(t, err)
		require.NoError(t, of.call(t.Context()))
		after, err := table.count(t.Context())
		require.NoError(t, err)
		require.Equal(t, of.made, after-before, of.table)
	}
	// Settled once, a row is not settled again; one that is not settled is seen.
	row := bareRow("bare_rows")
	require.NoError(t, send(t.Context(), c.pools[0], 1, row.begin, regionNames[0], tenantID, "k", "ch_k", barePrint))
	_, err = bareTable{b, "bare_rows"}.count(t.Context())
	require.ErrorContains(t, err, "not done")
	require.NoError(t, send(t.Context(), c.pools[0], 1, row.settle, regionNames[0], tenantID, "k", bareBody))
	require.ErrorContains(t, send(t.Context(), c.pools[0], 1, row.settle, regionNames[0], tenantID, "k", bareBody), "0 rows changed instead of 1")

	lost := side{
		name: "floor", role: "sqlfloor", args: []string{"-db=" + b.urls[0]}, spec: loadSpec{Conns: 2, Window: 50 * time.Millisecond}, everywhere: true,
		tally: bareTable{b, "bare_indexed"}.count, // where it writes nothing
	}
	_, err = lost.run(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "and 0 are stored")
}

func TestSuitesAreApart(t *testing.T) {
	for _, bad := range [][]string{{"-sql", "-scale"}, {"-sql", "-store"}, {"-rate=0"}, {"-report=x", "-sql"}, {"-cluster-setting=nothing"}, {"-cluster-setting=a=b;DROP"}} {
		_, err := parseOptions(bad)
		require.Error(t, err, "%v", bad)
	}
	o, err := parseOptions([]string{"-sql", "-cluster-setting=admission.kv.enabled=false"})
	require.NoError(t, err)
	require.Equal(t, []int{1, 16, 64, 256}, o.conns)
	require.Equal(t, []string{"admission.kv.enabled=false"}, o.settings)
	require.Equal(t, "homeward-bench-sql.txt", filepath.Base(o.out))
	o, err = parseOptions([]string{"-huge"})
	require.NoError(t, err)
	require.Equal(t, []int{1_000_000, hugeStore}, o.stored)
	o, err = parseOptions([]string{"-report=x"})
	require.NoError(t, err)
	require.Equal(t, reportSeconds*time.Second, o.window)
	o, err = parseOptions([]string{"-report=x", "-seconds=9"})
	require.NoError(t, err)
	require.Equal(t, 9*time.Second, o.window)
}

// Judged are ratios of one turn, or figures alone.
func TestTargets(t *testing.T) {
	r := newReport(options{}, io.Discard)
	first, other := []figures{{rate: 100}, {rate: 200}, {rate: 100}}, []figures{{rate: 80}, {rate: 100}, {rate: 90}}
	r.atLeast("case", rates, first, other, 0.8)
	r.atLeast("case", rates, first, other, 0.81)
	r.alone("memory", spread{150, 1, 150}, inMiB, false, maxPeak)
	r.alone("memory", spread{151, 1, 151}, inMiB, false, maxPeak)
	rows := []string{}
	for _, target := range r.targets {
		rows = append(rows, target.row())
	}
	require.Equal(t, []string{
		"case: rate\t90/s\t100/s\t0.80 (0.50–0.90)\t≥ 0.8\tmet",
		"case: rate\t90/s\t100/s\t0.80 (0.50–0.90)\t≥ 0.81\tMISSED",
		"memory\t150 MiB\t–\t–\t≤ 150 MiB\tmet",
		"memory\t151 MiB\t–\t–\t≤ 150 MiB\tMISSED",
	}, rows)
}

// What a database does by itself is not a charge's.
func TestIdleIsTakenAway(t *testing.T) {
	got := loadResult{Elapsed: 2 * time.Second, Database: time.Second}.over(usageRate{Cores: 0.25})
	require.Equal(t, 500*time.Millisecond, got.Database)

	// What cleaned up after one run, in the idle of the next, does not count as idle.
	h := newHistogram()
	require.NoError(t, h.RecordValue(2000))
	run := loadResult{Requests: 1, Elapsed: time.Second, Database: time.Second, Latency: h.Export()}
	all := series([][]loadResult{{run, run}}, []usageRate{{Cores: 0.9}, {Cores: 0.1}})
	require.Equal(t, []time.Duration{900 * time.Millisecond, 900 * time.Millisecond}, []time.Duration{all[0][0].database, all[0][1].database})
}

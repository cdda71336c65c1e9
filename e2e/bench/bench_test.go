package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/sizing/model"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
)

// TestMain lets the orchestrator start this test binary in its other roles.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "role:") {
		main()
		return
	}
	// The race detector holds every process back for a second when it ends, to let
	// others report; the children here have waited for theirs.
	if os.Getenv("GORACE") == "" {
		if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func quickly(t *testing.T, args ...string) options {
	o, err := parseOptions(append([]string{"-quick", "-runs=2", "-dir=" + t.TempDir()}, args...), io.Discard)
	require.NoError(t, err)
	o.runsFile, o.profile = filepath.Join(t.TempDir(), "runs.txt"), t.TempDir()
	return o
}

// measured fails unless each budget of the cases under prefix has a figure, and each run of each
// side a line.
func measured(t *testing.T, b *bench, prefix string) {
	lines, err := os.ReadFile(b.runsFile)
	require.NoError(t, err)
	for _, c := range cases(b.options) {
		if !strings.HasPrefix(c.name, prefix) {
			continue
		}
		for _, s := range c.sides {
			require.Equal(t, b.runs, strings.Count(string(lines), fmt.Sprintf("Benchmark%s/side=%s ", strings.ReplaceAll(c.name, "/", "_"), s.name)), "%s, %s:\n%s", c.name, s.name, lines)
			for _, f := range b.series[c.name][s.name] {
				require.Positive(t, f.peak, "%s, %s", c.name, s.name)
				require.True(t, s.nodes > 0 || f.rate > 0 && f.p99 >= f.p50 && f.p50 > s.psp, "%s, %s: %+v", c.name, s.name, f)
			}
		}
	}
	for _, v := range b.verdicts() {
		require.True(t, v.measured, v.what)
	}
	profiles, err := os.ReadDir(b.profile)
	require.NoError(t, err)
	require.NotEmpty(t, profiles)
	for _, p := range profiles {
		info, err := p.Info()
		require.NoError(t, err)
		require.Positive(t, info.Size(), p.Name())
	}
}

// Every case of the embedded store runs, briefly. A wrong status, a replay that differs or a
// side that does not answer fails the run; no figure is judged.
func TestEmbeddedCasesMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("starts some thirty processes")
	}
	for _, only := range []string{"embedded/", "gateway/embedded/"} {
		o := quickly(t, "-only="+only)
		b := newBench(t.Context(), o, io.Discard)
		require.NoError(t, b.run(t.Context()))
		measured(t, b, o.only)
		rest, err := os.ReadDir(o.dir)
		require.NoError(t, err)
		require.Empty(t, rest, "stores were left behind")
	}
}

// Every case of a database runs, briefly. A wrong reply, a charge that is not stored or one that
// was not requested fails the run; no figure is judged.
func TestPostgreSQLCasesMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("starts some thirty processes")
	}
	s := dbtest.Start(t, localdb.Config{Kind: localdb.PostgreSQL, MaxConnections: manyConnections})
	o := quickly(t, "-only=postgresql/")
	b := newBench(t.Context(), o, io.Discard)
	db, err := newDatabase(t.Context(), o, s, regionNames[:1])
	require.NoError(t, err)
	require.NoError(t, b.onDatabase(t.Context(), db, b.selected("postgresql")))
	require.NoError(t, b.finish())
	measured(t, b, o.only)
	require.Len(t, b.costs.Databases, 1)
	require.Equal(t, s.Version(), b.costs.Databases[0].Name)
	require.Positive(t, b.costs.Databases[0].NodeCharge)
	require.Positive(t, b.costs.WAL)
	require.Positive(t, b.costs.Record)
	require.Positive(t, b.costs.Books)

	front := quickly(t, "-only=gateway/postgresql/")
	g := newBench(t.Context(), front, io.Discard)
	require.NoError(t, g.measure(t.Context(), db, nil, g.selected("postgresql")))
	require.NoError(t, g.finish())
	measured(t, g, front.only)

	// A floor that leaves out a charge fails its run.
	lost := side{name: "floor", role: "floor", args: []string{"-replay"}, load: load{conns: 1, window: 50 * time.Millisecond}}
	require.NoError(t, db.exec(t.Context(), bareDatabase,
		"CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN DELETE FROM bare_claims WHERE state = 2 AND idem_key <> NEW.idem_key; RETURN NULL; END'",
		"CREATE TRIGGER lose AFTER UPDATE ON bare_claims FOR EACH ROW EXECUTE FUNCTION lose()"))
	_, err = b.once(t.Context(), db, nil, lost, "")
	require.ErrorContains(t, err, "are stored")
	// The check finds a charge that was begun and not settled.
	require.NoError(t, db.exec(t.Context(), bareDatabase, "DROP TRIGGER lose ON bare_claims", "UPDATE bare_claims SET state = 1"))
	_, err = db.stored(t.Context(), "floor")
	require.ErrorContains(t, err, "not done")
	pool, err := barePool(t.Context(), db.URL("", bareDatabase))
	require.NoError(t, err)
	defer pool.Close()
	require.ErrorContains(t, bareRows{pool, regionNames[0]}.settle(t.Context(), "nobody's", "ch_nobody's", nil), "0 rows changed instead of one")
}

// A wrong reply must fail a run, or every figure could be of errors.
func TestWrongReplyFailsTheRun(t *testing.T) {
	sim, err := start(t.Context(), "", "simulator")
	require.NoError(t, err)
	sut, err := start(t.Context(), "", "floor", "-replay", "-dir="+t.TempDir(), "-psp="+sim.Serving[0])
	require.NoError(t, err)
	g := &generator{load: load{conns: 2, window: 50 * time.Millisecond}, addrs: sut.Serving, watch: watch(nil, sut.cmd.Process.Pid)}
	r, err := g.run(t.Context())
	require.NoError(t, err)
	require.Positive(t, r.used.peak)
	require.Positive(t, r.requests)
	// Nothing listens where the keys would be made.
	g.replay, g.prime = 5, "127.0.0.1:1"
	_, err = g.run(t.Context())
	require.ErrorContains(t, err, "prime")

	g = &generator{load: load{replay: 1}, keys: []string{"00000000-0000-4000-8000-000000000000"}, bodies: [][]byte{nil}}
	w, err := dial(sut.Serving[0], false)
	require.NoError(t, err)
	defer w.close()
	// The first request makes the floor's row, the second reads it.
	require.ErrorContains(t, g.exchange(w), "replayed is false")
	require.ErrorContains(t, g.exchange(w), "differs")
	require.NoError(t, sut.stop())
	require.Error(t, g.exchange(w), "the server has stopped")
	require.NoError(t, sim.stop())
	require.NotNil(t, sim.cmd.ProcessState, "the child has ended")
	_, err = start(t.Context(), "", "cluster", "-nonsense")
	require.ErrorContains(t, err, "did not start")
}

// What processes use is counted, with what their children did that have ended.
func TestReadingCountsChildren(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; echo; read x")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 1)) // the inner shell has ended
	require.NoError(t, err)
	r, err := watch(nil, cmd.Process.Pid)(t.Context())
	require.NoError(t, err)
	require.Positive(t, r.cpu)
	require.Positive(t, r.peak)
	all, err := processes()
	require.NoError(t, err)
	require.GreaterOrEqual(t, all.below(os.Getpid()), r.cpu)
	require.Zero(t, all.below(1<<30))
	require.NoError(t, in.Close())
	_ = cmd.Wait() // read returns false at the end of its input
}

// What a database does when neither side runs is not a charge's.
func TestIdleIsTakenAway(t *testing.T) {
	h := hdrhistogram.New(latencyMin, latencyMax, latencyDigits)
	require.NoError(t, h.RecordValue(2000))
	f := newFigures(result{requests: 1, elapsed: 2 * time.Second, latency: h, used: reading{db: time.Second}}, 0.25)
	require.Equal(t, 500*time.Millisecond, f.database)
	f = newFigures(result{elapsed: 2 * time.Second, used: reading{db: time.Second, commits: 4}}, 0.25)
	require.Equal(t, []float64{0.5, 2}, []float64{f.cores, f.commits})
}

func TestSpread(t *testing.T) {
	require.Equal(t, spread{20, 10, 30}, spreadOf([]float64{30, 10, 20}))
	require.Equal(t, spread{20, 10, 30}, spreadOf([]float64{30, 10}), "of two")
}

// Judged are ratios of one turn, by their median, or figures alone.
func TestBudgets(t *testing.T) {
	first, other := []figures{{rate: 100}, {rate: 200}, {rate: 100}}, []figures{{rate: 80, peak: 150}, {rate: 100, peak: 150}, {rate: 90, peak: 150}}
	for want, b := range map[string]budget{
		"90/s|100/s|0.80 (0.50–0.90)|≥ 0.80|kept":        {measure: rates, bound: 0.8, least: true},
		"90/s|100/s|0.80 (0.50–0.90)|≥ 0.81|MISSED":      {measure: rates, bound: 0.81, least: true},
		"90/s|100/s|0.80 (0.50–0.90)|≤ 0.80|kept":        {measure: rates, bound: 0.8},
		"90/s|100/s|0.80 (0.50–0.90)|≤ 0.79|MISSED":      {measure: rates, bound: 0.79},
		"150 MiB (150 MiB–150 MiB)|–|–|≤ 150 MiB|kept":   {measure: peaks, bound: 150, alone: true},
		"150 MiB (150 MiB–150 MiB)|–|–|≤ 149 MiB|MISSED": {measure: peaks, bound: 149, alone: true},
	} {
		_, row, _ := strings.Cut(b.judge("case", first, other).row("|"), "|")
		require.Equal(t, want, row)
	}
	missing := budget{side: "homeward", measure: rates, bound: 1}.judge("case", first, nil)
	require.Equal(t, "case, homeward: rate|–|–|–|≤ 1.00|not measured", missing.row("|"))
	noNumber := budget{measure: dbCPUs, bound: 1}.judge("case", []figures{{}}, []figures{{}})
	require.Equal(t, "MISSED", noNumber.says(), "nothing to nothing is no ratio")
}

// The page has every budget and the costs, or is the one of before.
func TestThePageIsWholeOrUntouched(t *testing.T) {
	o, err := parseOptions([]string{"-page", filepath.Join(t.TempDir(), "BENCHMARKS.md"), "-cluster-setting", "a=1", "-cluster-setting", "b=2"}, io.Discard)
	require.NoError(t, err)
	b := newBench(t.Context(), o, io.Discard)
	good := func(c testCase) map[string][]figures {
		all := map[string][]figures{}
		for i, s := range c.sides {
			f := figures{rate: 100, p50: 81 * time.Millisecond, p99: 82 * time.Millisecond, database: 100, peak: 10}
			if i > 0 {
				f.rate, f.database = 300, 30
			}
			all[s.name] = []figures{f}
		}
		return all
	}
	for _, c := range cases(o) {
		b.series[c.name] = good(c)
	}
	b.series["embedded/away"] = map[string][]figures{"homeward": {{p99: time.Millisecond}}}
	b.memory = []figures{{peak: 10}, {peak: 20}}
	b.costs.Databases = []model.Database{{Name: "PostgreSQL 15", NodeCharge: 100}}
	require.NoError(t, b.finish())
	page, err := os.ReadFile(o.page)
	require.NoError(t, err)
	require.Contains(t, string(page), "| CockroachDB's settings | a=1, b=2 |\n")
	require.Contains(t, string(page), "| cockroachdb/charge, homeward-event: database CPU a charge | 0 µs | 0 µs | 0.30 (0.30–0.30) | ≤ 0.60 | kept |\n")
	require.Contains(t, string(page), "| all cases, homeward: peak of memory | 20 MiB (20 MiB–20 MiB) | – | – | ≤ 150 MiB | kept |\n")
	costs, err := model.ReadCosts(string(page))
	require.NoError(t, err)
	require.Equal(t, b.costs, costs)

	b.memory[0].peak = 200
	require.ErrorContains(t, b.finish(), "1 are missed and 0 were not measured")
	missed, err := os.ReadFile(o.page)
	require.NoError(t, err)
	require.Contains(t, string(missed), "| MISSED |")
	delete(b.series, "cockroachdb/charge")
	require.ErrorContains(t, b.finish(), "4 budgets were not measured, so")
	again, err := os.ReadFile(o.page)
	require.NoError(t, err)
	require.Equal(t, string(missed), string(again))
	b.page = ""
	require.ErrorContains(t, b.finish(), "1 are missed and 4 were not measured")
	rest, err := os.ReadDir(filepath.Dir(o.page))
	require.NoError(t, err)
	require.Len(t, rest, 1)
}

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-runs=3", "-seconds=0.5", "-cluster-setting=admission.kv.enabled=false"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []any{3, 500 * time.Millisecond, time.Second}, []any{o.runs, o.window, o.paced})
	require.Equal(t, []string{"admission.kv.enabled=false"}, o.settings)
	for _, bad := range [][]string{{"-runs=0"}, {"-seconds=-1"}, {"more"}, {"-page=x", "-quick"}, {"-page=x", "-only=sql"}, {"-cluster-setting=nothing"}, {"-cluster-setting=a=b;DROP"}} {
		_, err := parseOptions(bad, io.Discard)
		require.Error(t, err, "%v", bad)
	}
	var help bytes.Buffer
	require.ErrorContains(t, run(t.Context(), []string{"-help"}, nil, &help), "help")
	require.Contains(t, help.String(), "-cluster-setting")
	require.ErrorContains(t, run(t.Context(), []string{"-only=nothing"}, nil, io.Discard), "no case")
}

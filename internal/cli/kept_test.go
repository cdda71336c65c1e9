package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/drill"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/runs"
	"github.com/homeward-io/homeward/ledger"
)

// keptIn reads the newest runs of a bucket.
func keptIn(t *testing.T, url string, kind runs.Kind) []runs.Run {
	t.Helper()
	r, err := node.OpenRuns(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	all, err := r.Book().List(t.Context(), kind, 20)
	require.NoError(t, err)
	return all
}

// noBucket names what is no directory and cannot become one.
func noBucket(t *testing.T) string { return "file://" + write(t, "file", "x") + "/bucket" }

func TestProofsAreKept(t *testing.T) {
	twoBooks(t, func(t *testing.T, flags []string, open func(do func(*store))) {
		with := func(args ...string) []string { return append(args, flags...) }
		open(func(s *store) {
			post(t, s, ledger.Transaction{ID: "ch_1", Region: "us-east1", Kind: ledger.Charge, Amount: 100, ProviderRef: "p1"})
			post(t, s, ledger.Transaction{ID: ledger.GhostID("simulator", "p9"), Region: "us-east1", Kind: ledger.Ghost, Amount: 7, Object: "ch_9", ProviderRef: "p9"})
		})
		bucket := "file://" + t.TempDir()
		if len(flags) > 0 { // what is a demo's is kept beside it
			local, err := node.LocalRuns(flags[1])
			require.NoError(t, err)
			bucket = local
		} else {
			t.Setenv(node.RunsVariable, bucket)
		}
		does(t, with("ledger", "verify")...)
		proved := keptIn(t, bucket, runs.Verify)
		require.Len(t, proved, 1)
		require.Equal(t, runs.Good, proved[0].Verdict)
		require.Contains(t, proved[0].Figures, runs.Figure{Name: runs.Suspense + "usd", Value: "7 minor units", Bad: true})
		require.Contains(t, proved[0].Of, "us-east1")
		require.Positive(t, proved[0].Took())

		statement := statementHead + fmt.Sprintf("p1,charge,ch_1,101,usd,%d\n", time.Now().Unix())
		code, _, errs := homeward(t, with("reconcile", "--statement", write(t, "s.csv", statement))...)
		require.Equal(t, exitDiffers, code, errs)
		compared := keptIn(t, bucket, runs.Reconcile)
		require.Len(t, compared, 1)
		require.Equal(t, runs.Bad, compared[0].Verdict)
		require.Equal(t, "simulator", compared[0].Of)
		require.Contains(t, compared[0].Figures, runs.Figure{Name: "amount_differs", Value: "1", Bad: true})
		require.Contains(t, compared[0].Findings[0]+compared[0].Findings[len(compared[0].Findings)-1], "ch_1")

		code, _, errs = homeward(t, with("reconcile", "--statement", write(t, "s.csv", "no statement\n"))...)
		require.Equal(t, exitUnread, code, errs)
		compared = keptIn(t, bucket, runs.Reconcile)
		require.Len(t, compared, 2)
		require.Equal(t, runs.Unknown, compared[0].Verdict, "neither good nor bad")
		require.Contains(t, errs, compared[0].Sentence)

		for _, args := range [][]string{{"ledger", "verify"}, {"reconcile", "--statement", write(t, "s.csv", statement)}} {
			code, out, errs := homeward(t, with(append(args, "--runs", noBucket(t))...)...)
			require.Equal(t, exitUnread, code)
			require.Contains(t, errs, "--runs")
			require.Empty(t, out)
		}
	})
}

// Comparisons are not held up by where their reports go, nor is their log by how far they
// are.
func TestRepeatedComparisonsGoOnWithoutTheirReports(t *testing.T) {
	useDatabase(t, migrated(t, "us-east1"))
	statement := write(t, "s.csv", statementHead)
	for _, bucket := range []string{noBucket(t), "file://" + t.TempDir()} {
		ctx, stop := context.WithCancel(t.Context())
		r, w := io.Pipe()
		code := make(chan int, 1)
		go func() {
			code <- run(ctx, []string{"reconcile", "--statement", statement, "--every", "20ms", "--runs", bucket}, streams{io.Discard, w})
			_ = w.Close()
		}()
		agreed, unkept := 0, 0
		for d := json.NewDecoder(r); ; { // whatever is no JSON is an error
			var line struct{ Level, Msg string }
			if err := d.Decode(&line); err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			switch {
			case strings.Contains(line.Msg, "did not take the reconciliation report"):
				unkept++
			case strings.Contains(line.Msg, "agrees"):
				agreed++
			}
			if agreed == 3 {
				stop()
			}
		}
		stop()
		require.Zero(t, <-code)
		if strings.HasSuffix(bucket, "/bucket") {
			require.NotZero(t, unkept)
			continue
		}
		require.Zero(t, unkept)
		all := keptIn(t, bucket, runs.Reconcile)
		require.GreaterOrEqual(t, len(all), 3)
		require.Equal(t, runs.Good, all[len(all)-1].Verdict)
	}
}

func TestADrainIsKept(t *testing.T) {
	r := startRegional(t)
	held := r.begin(asia, "held")
	bucket := "file://" + t.TempDir()
	refuses(t, []string{"not safe to take down"}, "region", "drain", asia, "--timeout", "600ms", "--runs", bucket)
	r.settle(held)
	does(t, "region", "drain", asia, "--runs", bucket)
	refuses(t, []string{"mars"}, "region", "drain", "mars", "--runs", bucket)
	all := keptIn(t, bucket, runs.Drain)
	require.Len(t, all, 3)
	require.Equal(t, []runs.Verdict{runs.Unknown, runs.Good, runs.Bad}, []runs.Verdict{all[0].Verdict, all[1].Verdict, all[2].Verdict})
	require.Equal(t, asia+" is safe to take down.", all[1].Sentence)
	require.Contains(t, all[2].Sentence, "claims in flight: 1")
}

func TestADrillsReport(t *testing.T) {
	d := &drill.Report{Scenario: drill.RegionLoss, Region: us, How: "SIGKILL", Began: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Rate: 40}
	d.Verdict.Phases = []drill.Phase{{Name: "before"}, {Name: "during", From: 2}, {Name: "after", From: 8.5}}
	var r runs.Run
	reportOfDrill(d, &r)
	require.Equal(t, runs.Good, r.Verdict)
	require.Equal(t, []runs.Step{{At: d.Began.Add(8500 * time.Millisecond), Text: "after: everything is back"}}, r.Steps)
	d.Verdict.Unasked = "nobody answers"
	reportOfDrill(d, &r)
	require.Equal(t, runs.Unknown, r.Verdict, "not everything was seen")
	d.Verdict.Duplicates, d.Verdict.Examples = 3, []string{"key k: money moved 2 times"}
	reportOfDrill(d, &r)
	require.Equal(t, runs.Bad, r.Verdict)
	require.Equal(t, 2, r.More)
	require.Equal(t, d.Verdict.Examples, r.Findings)
}

func TestADirectoryThatIsNoDemosGetsNoReports(t *testing.T) {
	dir := t.TempDir()
	code, _, _ := homeward(t, "ledger", "verify", "--data", dir)
	require.Equal(t, exitUnread, code)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.Empty(t, runsOf(filepath.Join(dir, "nowhere")))
}

package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/payment/psp"
)

// shortFlood is a run that no figure is taken from.
func shortFlood(dir string) options {
	return options{
		runs: 2, window: 250 * time.Millisecond, paced: 250 * time.Millisecond, warm: 50 * time.Millisecond,
		rate: 50, notices: 200, dir: dir, out: filepath.Join(dir, "bench.txt"), webhooks: true,
	}
}

func requireFlood(t *testing.T, o options, name, printed string) {
	t.Helper()
	lines, err := os.ReadFile(o.out)
	require.NoError(t, err)
	for _, what := range []string{"/conns=64/side=quiet ", "/conns=64/side=flooded ", "/webhooks "} {
		require.Equal(t, o.runs, strings.Count(string(lines), "Benchmark"+strings.ReplaceAll(name, "/", "_")+what), "%s in:\n%s", what, lines)
	}
	for _, want := range []string{"flooded / quiet p99", "/s kept", "not acted on", name + ": webhooks kept "} {
		require.Contains(t, printed, want)
	}
}

// Both sides run, briefly. A webhook that is refused, lost or parked fails the run; no
// figure is judged.
func TestWebhookCaseMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("starts some ten processes")
	}
	o := shortFlood(t.TempDir())
	o.only = "webhooks/embedded"
	var out bytes.Buffer
	require.NoError(t, orchestrateWebhooks(t.Context(), o, &out), out.String())
	requireFlood(t, o, "webhooks/embedded", out.String())
}

func TestWebhookCaseMeasuresOnADatabase(t *testing.T) {
	if testing.Short() {
		t.Skip("starts some ten processes")
	}
	s := dbtest.Start(t, localdb.Config{Kind: localdb.PostgreSQL})
	o := shortFlood(t.TempDir())
	var out bytes.Buffer
	r := newReport(o, &out)
	require.NoError(t, floodOn(t.Context(), r, s, o.dir), out.String())
	require.NoError(t, r.finish())
	requireFlood(t, o, "webhooks/sql", out.String())
}

// A run that acknowledged what is not there must fail.
func TestLostWebhooksAreFound(t *testing.T) {
	sim, err := start(t.Context(), "simulator")
	require.NoError(t, err)
	sut, err := start(t.Context(), "homeward", "-dir="+t.TempDir(), "-psp="+sim.Serving[0])
	require.NoError(t, err)
	var f floodFigures
	err = f.drain(t.Context(), sut.Control, question{"a-run", []int64{7}})
	require.ErrorContains(t, err, "1 of 1 webhooks were acknowledged and lost, simulator:a-run-7 first")
	require.NoError(t, sut.stop())
	require.NoError(t, sim.stop())
}

// What the flood sends is what the adapter reads.
func TestFloodBodiesAreRead(t *testing.T) {
	c := told{ID: sampleID, Amount: bodyAmount, Currency: bodyCurrency}
	c.Provider.Reference = "psp_ch_1"
	body := c.body(noticeID("r", 3))
	require.Len(t, body, noticeSize)
	p, err := provider("127.0.0.1:1")
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	n, err := p.Read(body)
	require.NoError(t, err)
	require.Equal(t, psp.Approved, n.Outcome)
	require.Equal(t, []any{"r-3", sampleID, "psp_ch_1", int64(bodyAmount), bodyCurrency}, []any{n.ID, n.Reference, n.ProviderRef, n.Amount, n.Currency})
	_, err = p.Verify(http.Header{}, body, time.Now())
	require.ErrorIs(t, err, psp.ErrForged)
}

package alerts

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/rules"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/cli"
	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/runs"
)

// The nodes of a cluster are processes of the program that starts it: of this test.
func init() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
}

// startProcesses starts a cluster of processes on PostgreSQL that sees outages within a second.
func startProcesses(t *testing.T) *lab.Cluster {
	t.Helper()
	t.Setenv("HOMEWARD_DEPUTY_AFTER", "1s")
	k, err := lab.NewCluster(lab.ClusterConfig{
		Data: filepath.Join(dbtest.Dir(t), "data"), Listen: "127.0.0.1:0", NodesPerRegion: 1, TLS: true, Start: localdb.PostgreSQL,
		Say: func(string) {}, Ended: func(error) {}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		require.NoError(t, k.Stop(ctx))
	})
	err = k.Start(t.Context())
	if errors.Is(err, localdb.ErrNotFound) && os.Getenv("HOMEWARD_TEST_DATABASE") != "required" {
		t.Skip(err)
	}
	require.NoError(t, err)
	return k
}

// scraped serves the metrics of all nodes of a cluster that answer, with the region of each series.
func scraped(t *testing.T, k *lab.Cluster) (target string) {
	t.Helper()
	client := &http.Client{Timeout: 2 * time.Second}
	all := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, n := range k.Nodes {
			res, err := client.Get(n.Metrics)
			if err != nil {
				continue // it was taken away
			}
			text, err := io.ReadAll(res.Body)
			if errors.Join(err, res.Body.Close()) != nil {
				continue
			}
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, "homeward_") {
					_, _ = io.WriteString(w, line)
				}
			}
		}
	}))
	t.Cleanup(all.Close)
	return strings.TrimPrefix(all.URL, "http://")
}

// viewer looks at the console of a node with the operator's certificate.
type viewer struct {
	t      *testing.T
	client *http.Client
	base   string
}

func lookAt(t *testing.T, k *lab.Cluster, region string) viewer {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(k.Operator.Cert, k.Operator.Key)
	require.NoError(t, err)
	// The node's own certificate names no host, as in docs/node.yaml.
	transport := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}} //nolint:gosec // it is on this machine
	t.Cleanup(transport.CloseIdleConnections)
	i := slices.IndexFunc(k.Nodes, func(n *lab.Node) bool { return n.Region == region })
	return viewer{t, &http.Client{Transport: transport, Timeout: 10 * time.Second}, "https://" + k.Nodes[i].Console}
}

func (v viewer) page(path string) string {
	v.t.Helper()
	res, err := v.client.Get(v.base + path)
	require.NoError(v.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(v.t, errors.Join(err, res.Body.Close()))
	require.Equal(v.t, http.StatusOK, res.StatusCode, "%s", text)
	return string(text)
}

// scale is how fast Prometheus' clock goes here: the minute that an alert has to hold for is
// half a second.
const scale = 120

// seen is what another region saw of a region during a drill, in real time.
type seen struct {
	lost, back  time.Time // on the map
	named       bool      // the map named the drill while the region was lost
	alert, calm time.Time // since when the alert was active, and when it was no more
	firing      bool
	peers       map[string]bool // for which it fired
}

// watch looks at the map and at the alerts until what was lost is back and done is closed.
func (b *board) watch(v viewer, region string, done <-chan struct{}) seen {
	b.t.Helper()
	s := seen{peers: map[string]bool{}}
	began, zero := time.Now(), b.now
	here := func(at time.Time) time.Time { return began.Add(at.Sub(zero) / scale) }
	for until := began.Add(3 * patience); ; {
		b.step = max(time.Since(began)*scale-b.now.Sub(zero), time.Millisecond)
		b.look()
		switch since, firing := b.regionLost(region); {
		case !since.IsZero() && s.alert.IsZero():
			s.alert = here(since)
		case since.IsZero() && s.firing && s.calm.IsZero():
			s.calm = here(b.now)
		default:
			s.firing = s.firing || firing
		}
		for _, l := range b.firing()["HomewardRegionLost"] {
			s.peers[l.Get("homeward_peer")] = true
		}
		text := v.page("/")
		switch lost := strings.Contains(text, region+" is lost"); {
		case lost && s.lost.IsZero():
			s.lost = time.Now()
		case !lost && !s.lost.IsZero() && s.back.IsZero() && strings.Contains(text, "All 3 regions serve"):
			s.back = time.Now()
		case lost:
			s.named = s.named || strings.Contains(text, "A drill is under way") && strings.Contains(text, ">region-loss "+region+"<")
		}
		select {
		case <-done:
			if !s.back.IsZero() && !s.calm.IsZero() {
				return s
			}
			require.True(b.t, time.Now().Before(until), "%+v\n%s", s, text)
		case <-time.After(50 * time.Millisecond): // neither map nor metrics give a signal
		}
	}
}

// regionLost is since when HomewardRegionLost is active for a region, by Prometheus' clock,
// and whether it fires.
func (b *board) regionLost(region string) (since time.Time, firing bool) {
	for _, g := range b.groups {
		for _, r := range g.Rules() {
			a, ok := r.(*rules.AlertingRule)
			if !ok || a.Name() != "HomewardRegionLost" {
				continue
			}
			for _, one := range a.ActiveAlerts() {
				if one.Labels.Get("homeward_peer") == region && one.State != rules.StateInactive {
					if since.IsZero() || one.ActiveAt.Before(since) {
						since = one.ActiveAt
					}
					firing = firing || one.State == rules.StateFiring
				}
			}
		}
	}
	return since, firing
}

// TestADrillReportsAlikeEverywhere runs a drill on a cluster of processes, and compares the region
// and the times of another region's map, of the alert and of the stored verdict.
func TestADrillReportsAlikeEverywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("drills a cluster of processes")
	}
	k := startProcesses(t)
	b, v := newBoard(t, scraped(t, k)), lookAt(t, k, us)
	b.look()
	require.Empty(t, b.firing()["HomewardRegionLost"])
	require.Contains(t, v.page("/"), "All 3 regions serve")

	var out, errs bytes.Buffer
	done, code := make(chan struct{}), 0
	began := time.Now()
	go func() {
		defer close(done)
		code = cli.Run(t.Context(), []string{"drill", "region-loss", "--region", eu, "--cluster", k.Data, "--load", "20/s", "--for", "12s"}, &out, &errs)
	}()
	s := b.watch(v, eu, done)
	require.Zero(t, code, "%s%s", out.String(), errs.String())

	kept := lastDrill(t, k)
	require.Equal(t, runs.Good, kept.Verdict, kept.Sentence)
	require.Equal(t, eu, kept.Region)
	require.WithinRange(t, kept.Began, began, kept.Ended)
	taken, ordered, back := step(t, kept, "during: region-loss begins"), step(t, kept, "after: everything is brought back"), step(t, kept, "after: everything is back")
	t.Logf("taken away %s, brought back %s to %s; on the map lost %s, serving %s; alert from %s to %s",
		clock(taken), clock(ordered), clock(back), clock(s.lost), clock(s.back), clock(s.alert), clock(s.calm))

	require.WithinRange(t, s.lost, taken, back, "the map")
	require.True(t, s.named, "the map named the drill while the region was lost")
	require.True(t, s.firing)
	require.WithinRange(t, s.alert, taken, back, "the alert")
	require.Equal(t, map[string]bool{eu: true}, s.peers, "the alert is of the region that was taken away, and of no other")
	require.True(t, s.back.After(ordered), "the map had it back before it was brought back")
	require.True(t, s.calm.After(ordered), "the alert ended before it was brought back")

	// And the console shows the same verdict.
	require.Eventually(t, func() bool {
		text := v.page("/drills")
		return strings.Contains(text, "The last drill (region-loss "+eu) && strings.Contains(text, "Every promise was kept.") && !strings.Contains(text, "under way")
	}, patience, 100*time.Millisecond)
	text := v.page("/run?kind=drill&id=" + kept.ID)
	for _, say := range []string{"Drill: region-loss " + eu, "Every promise was kept.", clock(taken), clock(back)} {
		require.Contains(t, text, say)
	}
}

func clock(at time.Time) string { return at.UTC().Format("15:04:05") }

func lastDrill(t *testing.T, k *lab.Cluster) runs.Run {
	t.Helper()
	open, err := node.OpenRuns(t.Context(), k.Runs)
	require.NoError(t, err)
	defer func() { require.NoError(t, open.Close()) }()
	all, err := open.Book().List(t.Context(), runs.Drill, 2)
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

// step is when something happened.
func step(t *testing.T, r runs.Run, text string) time.Time {
	t.Helper()
	i := slices.IndexFunc(r.Steps, func(s runs.Step) bool { return s.Text == text })
	require.GreaterOrEqual(t, i, 0, fmt.Sprint(r.Steps))
	return r.Steps[i].At
}

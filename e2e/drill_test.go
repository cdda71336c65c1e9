package e2e

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/drill"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
)

// drillSettings are those of a cluster with outages of seconds.
var drillSettings = []string{
	"HOMEWARD_DEPUTY_AFTER=2s", "HOMEWARD_OUTBOX__LEASE=5s",
	"HOMEWARD_CLAIM__LEASE=5s", "HOMEWARD_CLAIM__RENEW_EVERY=1500ms",
}

// startDrillable starts a cluster on fixed ports, as nodes come back to theirs, and
// returns its data directory once it is ready.
func startDrillable(t *testing.T) (c *command, data string) {
	t.Helper()
	onPostgres(t)
	data = filepath.Join(dbtest.Dir(t), "data")
	args := []string{"cluster", "--start", "postgresql", "--data", data,
		"--listen", net.JoinHostPort("127.0.0.1", strconv.Itoa(ports(t)))}
	c = &command{t: t, cmd: exec.Command(buildBinary(t), args...), stdout: &testLog{}, stderr: &testLog{}, dead: make(chan struct{})}
	c.cmd.Env = drillSettings
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOMEWARD_") {
			c.cmd.Env = append(c.cmd.Env, v)
		}
	}
	c.cmd.Stdout, c.cmd.Stderr = c.stdout, c.stderr
	require.NoError(t, c.cmd.Start())
	go func() {
		defer close(c.dead)
		_ = c.cmd.Wait() // how it ended is in ProcessState
	}()
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			t.Logf("%s%s", c.stdout, c.stderr)
		}
	})
	until(t, "the cluster is ready or ended", func() bool {
		select {
		case <-c.dead:
			return true
		default:
			return strings.Contains(c.stdout.String(), "Ctrl-C drains")
		}
	})
	needDatabase(t, c)
	c.ready()
	return c, data
}

// drilled runs a drill and returns its report.
func drilled(t *testing.T, data string, more ...string) drill.Report {
	t.Helper()
	path, page := filepath.Join(t.TempDir(), "report.json"), filepath.Join(t.TempDir(), "report.html")
	args := append([]string{"drill"}, more...)
	c := runCommand(t, append(args, "--cluster", data, "--load", "40/s", "--for", "12s", "--json", path, "--html", page)...)
	select {
	case <-c.dead:
	case <-time.After(4 * patience): // as long as a drill may wait for the last answers
		c.dump()
		require.FailNow(t, "the drill does not end", "%s", c.stderr)
	}
	require.Zero(t, c.cmd.ProcessState.ExitCode(), "%s%s", c.stdout, c.stderr)
	require.Contains(t, c.stdout.String(), "Every promise was kept.")
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "<svg")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var r drill.Report
	require.NoError(t, json.Unmarshal(text, &r))
	v := r.Verdict
	t.Logf("%s\n%s", c.stderr, c.stdout)
	require.Zero(t, v.Duplicates)
	require.Zero(t, v.Differing)
	require.Zero(t, v.Lost)
	require.Zero(t, v.OpenClaims)
	require.Equal(t, v.Payments, v.Answered)
	require.Equal(t, v.Payments, v.Compared)
	require.Equal(t, v.Answered-v.Declined, v.Charges)
	return r
}

// TestDrill takes things away from a cluster of processes under load. The verdict's
// own tests are in internal/drill.
func TestDrill(t *testing.T) {
	if testing.Short() {
		t.Skip("eight drills")
	}
	t.Parallel()
	c, data := startDrillable(t)

	lost := drilled(t, data, "region-loss", "--region", eu).Verdict
	require.Positive(t, lost.Retries)
	require.NotNil(t, lost.ServedAgain, "no deputy served the region's keys")
	require.NotNil(t, lost.Back, "the region did not come back to its keys")

	// A region that gossip sees and no node can call is lost: to all regions if its ports drop
	// everything, to one if they drop only its calls, and to none beside a node that answers.
	dark := drilled(t, data, "blackhole", "--region", eu).Verdict
	require.NotNil(t, dark.ServedAgain, "no deputy served the region's keys")
	require.NotNil(t, dark.Back, "the region did not come back to its keys")
	require.NotNil(t, drilled(t, data, "blackhole", "--region", eu, "--from", us).Verdict.ServedAgain)
	beside := drilled(t, data, "blackhole", "--region", eu, "--only", eu+"-2").Verdict
	for _, p := range beside.Phases {
		for _, e := range p.Errors {
			require.NotContains(t, e.Kind, "home_unavailable", "refused beside a healthy node")
		}
	}

	cut := drilled(t, data, "database-path", "--region", eu).Verdict
	require.NotNil(t, cut.ServedAgain, "no deputy served the region's keys")
	require.NotNil(t, cut.Back, "the region did not come back to its keys")

	// Nobody waits for the end of an attempt at an entry that takes connections and answers nothing.
	frozen := drilled(t, data, "partition", "--region", eu).Verdict
	require.NotNil(t, frozen.ServedAgain, "no deputy served the region's keys")
	kinds := map[string]int{}
	for _, e := range frozen.Phases[1].Errors {
		kinds[e.Kind] = e.Count
	}
	require.Positive(t, kinds["silence"])
	require.Zero(t, kinds["timeout"], "%v", kinds)

	restarted := drilled(t, data, "rolling-restart").Verdict
	require.Zero(t, restarted.BeyondStandard, "a client with its own number of attempts would have given up")

	drained := drilled(t, data, "drain", "--region", us).Verdict
	require.Zero(t, drained.BeyondStandard)

	for name, tc := range map[string]struct{ args, says []string }{
		"no cluster":        {[]string{"drill", "region-loss", "--region", us}, []string{"--cluster", "--api"}},
		"no such cluster":   {[]string{"drill", "region-loss", "--region", us, "--cluster", t.TempDir()}, []string{"--cluster", "cluster.json"}},
		"no such region":    {[]string{"drill", "region-loss", "--region", "mars", "--cluster", data}, []string{us, eu, asia}},
		"no such drill":     {[]string{"drill", "fire", "--cluster", data}, []string{"region-loss", "psp-outage"}},
		"no load":           {[]string{"drill", "rolling-restart", "--cluster", data, "--load", "much"}, []string{"--load", "40/s"}},
		"addresses, no way": {[]string{"drill", "partition", "--region", us, "--api", us + "=http://127.0.0.1:1", "--psp", "http://127.0.0.1:1"}, []string{"partition", "--cluster"}},
		"addresses, no key": {[]string{"drill", "psp-outage", "--api", us + "=http://127.0.0.1:1", "--psp", "http://127.0.0.1:1"}, []string{"HOMEWARD_API_KEYS"}},
	} {
		t.Run(name, func(t *testing.T) {
			var env []string
			if name == "addresses, no way" {
				env = []string{"HOMEWARD_API_KEYS=k"}
			}
			refused(t, runCommandIn(t, env, tc.args...), tc.says...)
		})
	}
	control(t, filepath.Join(data, "control", "socket"))

	require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
	require.Zero(t, c.exit(), "%s", c.stderr)
	require.Empty(t, mentioning(data))
	require.NoFileExists(t, filepath.Join(data, "cluster.json"))
}

// control asks for what a cluster does not do, and checks who may ask.
func control(t *testing.T, socket string) {
	info, err := os.Stat(socket)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	info, err = os.Stat(filepath.Dir(socket))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	ask := &caller{http: &http.Client{Transport: transport}}
	for path, want := range map[string]string{
		"/nodes/" + us + "-1/start": "is running",
		"/nodes/" + us + "-1/burn":  "kill, stop, start, freeze, thaw, drop and pass",
		"/nodes/mars-1/kill":        "no node",
		"/database/mars/kill":       "no region",
		"/database/" + us + "/burn": "kill, start, cut and join",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://cluster"+path, nil)
		require.NoError(t, err)
		r := ask.do(req)
		require.Equal(t, http.StatusConflict, r.Status)
		require.Contains(t, string(r.Body), want, path)
	}
}

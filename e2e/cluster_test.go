package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// processCluster is a homeward cluster: nodes in processes of their own.
type processCluster struct {
	*caller // by region, its first node, and by node
	t       *testing.T
	ctx     context.Context
	cmd     *command
	state   clusterState
	path    string // of the state file
}

// clusterState is what drills read.
type clusterState struct {
	Database struct {
		Kind    localdb.Kind
		Version string
		Private bool
	}
	Simulator string
	APIKeys   map[string]string `json:"api_keys"` // by tenant
	Nodes     []struct {
		Name, Region, API, RPC, Gossip string
		PID                            int
	}
}

// clusterArgs start a cluster on free ports and PostgreSQL, since a machine that
// has CockroachDB too is slower with it.
func clusterArgs(more ...string) []string {
	return append([]string{"cluster", "--listen", "127.0.0.1:0", "--psp-latency", "0s", "--start", "postgresql"}, more...)
}

// startCluster returns once everything is ready. The test is skipped where there
// is no database to start.
func startCluster(t *testing.T, more ...string) *processCluster {
	t.Helper()
	onPostgres(t)
	return startClusterIn(t, nil, clusterArgs(more...)...)
}

// startClusterIn is startCluster with variables and all arguments of its own.
func startClusterIn(t *testing.T, env []string, args ...string) *processCluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	t.Cleanup(cancel)
	c := &processCluster{t: t, ctx: ctx, cmd: runCommandIn(t, env, args...)}
	until(t, "the command is ready or ended", func() bool {
		select {
		case <-c.cmd.dead:
			return true
		default:
			return strings.Contains(c.cmd.stdout.String(), "Ctrl-C drains")
		}
	})
	needDatabase(t, c.cmd)
	c.cmd.ready()
	m := regexp.MustCompile(`(?m)^ +processes +(\S+)$`).FindStringSubmatch(c.cmd.stdout.String())
	require.NotNil(t, m, "%s", c.cmd.stdout)
	c.path = m[1]
	text, err := os.ReadFile(c.path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &c.state))
	bases := map[string]string{}
	for _, n := range c.state.Nodes {
		bases[n.Name] = n.API
		if bases[n.Region] == "" {
			bases[n.Region] = n.API
		}
	}
	c.caller = newCaller(t, bases)
	return c
}

// needDatabase skips the test when the command found none and none is required.
func needDatabase(t *testing.T, c *command) {
	t.Helper()
	if strings.Contains(c.stderr.String(), localdb.ErrNotFound.Error()) && os.Getenv("HOMEWARD_TEST_DATABASE") != "required" {
		t.Skip(c.stderr.String())
	}
}

// at sends q to a region or node until the answer is final, and expects it to be
// this. The demo's keys stand for those that the cluster has minted.
func (c *processCluster) at(where string, q request, status int) *answer.Answer {
	c.t.Helper()
	switch q.tenant {
	case demoAcme:
		q.tenant = c.state.APIKeys["acme"]
	case demoGlobex:
		q.tenant = c.state.APIKeys["globex"]
	}
	r := c.settle(c.ctx, where, q, nil)
	require.NoError(c.t, r.Err)
	require.Equal(c.t, status, r.Status, "%s", r.Body)
	return r
}

// moved asserts what the simulator counted.
func (c *processCluster) moved(want int) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, c.state.Simulator+"/_sim/summary", nil)
	require.NoError(c.t, err)
	r := c.do(req)
	require.NoError(c.t, r.Err)
	var s struct{ Effects, DuplicateEffects int }
	require.NoError(c.t, json.Unmarshal(bytes.ReplaceAll(r.Body, []byte("duplicate_effects"), []byte("DuplicateEffects")), &s))
	require.Equal(c.t, want, s.Effects, "movements of money")
	require.Zero(c.t, s.DuplicateEffects)
}

// pids are all processes of the cluster: its own, its nodes' and its database's.
func (c *processCluster) pids() []int {
	pids := []int{c.cmd.cmd.Process.Pid}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, childrenOf(pids[i])...)
	}
	for _, n := range c.state.Nodes {
		pids = append(pids, n.PID)
	}
	return pids
}

// interrupt is Ctrl-C, after which only the requested directory remains.
func (c *processCluster) interrupt() {
	c.t.Helper()
	pids := c.pids()
	require.NoError(c.t, c.cmd.cmd.Process.Signal(syscall.SIGINT))
	require.Zero(c.t, c.cmd.exit(), "%s", c.cmd.stderr)
	require.Contains(c.t, c.cmd.stdout.String(), "drained")
	for _, pid := range pids {
		require.True(c.t, processGone(pid), "process %d is left", pid)
	}
	require.NoFileExists(c.t, c.path)
}

// childrenOf lists a process's children, where /proc has them.
func childrenOf(pid int) (found []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, path := range stats {
		if f := procStat(path); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))) // the pattern says digits
			found = append(found, child)
		}
	}
	return found
}

// procStat is what follows the name in a stat file: state, parent, …
func procStat(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil // it has ended
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// processGone reports whether a process has ended, reaped or not.
func processGone(pid int) bool {
	if runtime.GOOS != "linux" {
		return syscall.Kill(pid, 0) == syscall.ESRCH
	}
	f := procStat(fmt.Sprintf("/proc/%d/stat", pid))
	return f == nil || f[0] == "Z" || f[0] == "X"
}

// mentioning lists processes with text on their command line, where /proc shows that.
func mentioning(text string) (found []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well-formed
	for _, path := range lines {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), text) {
			found = append(found, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return found
}

// TestCluster pastes what the command prints, takes a node away, and ends it.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	require.Len(t, c.state.Nodes, 2*len(regions))
	require.Equal(t, localdb.PostgreSQL, c.state.Database.Kind)
	require.True(t, c.state.Database.Private)
	info, err := os.Stat(c.path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	q := demoCharge("order-1", 4200)
	first := c.at(us, q, http.StatusCreated)
	require.Equal(t, us, first.Header.Get("Homeward-Home-Region"))
	for _, n := range c.state.Nodes {
		again := c.at(n.Name, q, http.StatusCreated)
		require.Equal(t, first.Remembered(), again.Remembered(), n.Name)
		require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	}
	other := c.at(eu, demoCharge("order-1", 9900), http.StatusUnprocessableEntity)
	require.Equal(t, "idempotency_key_fingerprint_mismatch", other.Problem.Error)
	home := charge(stamped(t, eu), 1250)
	home.tenant = "sk_demo_globex"
	sentHome := c.at(asia, home, http.StatusCreated)
	require.Equal(t, eu, sentHome.Header.Get("Homeward-Home-Region"))
	require.Equal(t, "1", sentHome.Header.Get("Homeward-Hops"))
	c.moved(2)

	dead := c.state.Nodes[0]
	require.Equal(t, us, dead.Region)
	require.NoError(t, syscall.Kill(dead.PID, syscall.SIGKILL))
	until(t, "the death is reported", func() bool { return strings.Contains(c.cmd.stderr.String(), "ended") })
	require.Regexp(t, fmt.Sprintf(`(?m)^homeward: node us-east1-1 \(process %d\) ended with signal: killed`, dead.PID), c.cmd.stderr.String())
	for _, n := range c.state.Nodes[1:] {
		require.Equal(t, first.Remembered(), c.at(n.Name, q, http.StatusCreated).Remembered(), n.Name)
		// A key that is at home there, so that the region's other node has to answer.
		c.at(n.Name, demoCharge(stamped(t, us), 10), http.StatusCreated)
	}
	c.moved(2 + len(c.state.Nodes) - 1)
	c.interrupt()
	require.NoDirExists(t, filepath.Dir(c.path))
}

// TestClusterKeepsItsData: a start that fails halfway leaves nothing running, nor
// does a parent that is killed, and what was answered before is answered again.
func TestClusterKeepsItsData(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster of processes twice")
	}
	t.Parallel()
	data := filepath.Join(dbtest.Dir(t), "data")
	inTheWay := filepath.Join(data, asia+"-2.yaml")
	require.NoError(t, os.MkdirAll(inTheWay, 0o755))
	require.NoError(t, os.Chmod(data, 0o755)) // whatever the umask
	halfway := runCommand(t, clusterArgs("--data", data)...)
	code := halfway.exit()
	needDatabase(t, halfway)
	require.Equal(t, 1, code)
	require.Contains(t, halfway.stderr.String(), "homeward: node "+asia+"-2: ")
	require.Contains(t, halfway.stderr.String(), inTheWay)
	require.Contains(t, halfway.stdout.String(), "starting 6 nodes")
	require.FileExists(t, filepath.Join(data, us+"-1.log"), "others had been started")
	require.Empty(t, mentioning(data))
	require.NoError(t, os.Remove(inTheWay))

	c := startCluster(t, "--data", data)
	require.True(t, strings.HasPrefix(c.path, data), c.path)
	q := demoCharge("order-1", 1)
	first := c.at(eu, q, http.StatusCreated)
	pids := c.pids()
	c.cmd.kill()
	if runtime.GOOS != "linux" {
		return // only Linux ends the children of a killed parent
	}
	for _, pid := range pids {
		until(t, fmt.Sprintf("process %d follows its parent", pid), func() bool { return processGone(pid) })
	}

	c = startCluster(t, "--data", data)
	require.Equal(t, first.Remembered(), c.at(us, q, http.StatusCreated).Remembered())
	c.moved(1)
	c.interrupt()
	require.Empty(t, mentioning(data))
	require.DirExists(t, data)
}

// TestClusterInterrupted: Ctrl-C while it starts is no failure and leaves nothing.
func TestClusterInterrupted(t *testing.T) {
	t.Parallel()
	data := filepath.Join(dbtest.Dir(t), "data")
	c := runCommand(t, clusterArgs("--data", data)...)
	until(t, "it starts its nodes, or ended", func() bool {
		select {
		case <-c.dead:
			return true
		default:
			return strings.Contains(c.stdout.String(), "starting 6 nodes")
		}
	})
	needDatabase(t, c)
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGINT))
	require.Zero(t, c.exit(), "%s", c.stderr)
	require.Contains(t, c.stdout.String(), "drained")
	require.NotContains(t, c.stdout.String(), "Homeward is ready")
	require.Empty(t, mentioning(data))
}

// A cluster writes no region, no merchant and no key to a database that was exported for a
// deployment, and advises no one to drop it. It makes its own in an empty database, and finds it
// again by its data directory alone.
func TestClusterLeavesOtherDatabasesAlone(t *testing.T) {
	t.Parallel()
	foreign, tables, own := dbtest.Database(t), dbtest.Database(t), dbtest.Database(t)
	conn := func(url string) *pgx.Conn {
		c, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	m, err := sqlstore.OpenMigrator(t.Context(), foreign, false)
	require.NoError(t, err)
	require.NoError(t, m.Up(t.Context(), sqlstore.Migration{Regions: []claim.Region{{Name: us}}}, nil))
	require.NoError(t, m.Close(t.Context()))
	_, err = conn(tables).Exec(t.Context(), "CREATE TABLE books (title text)")
	require.NoError(t, err)

	refuses := func(url, data string) {
		t.Helper()
		c := runCommandIn(t, []string{"HOMEWARD_DATABASE_URL=" + url}, "cluster", "--listen", "127.0.0.1:0", "--data", data)
		refused(t, c, "HOMEWARD_DATABASE_URL", "did not make", "empty")
		require.NotRegexp(t, `(?i)\bdrop`, c.stderr.String())
	}
	data := filepath.Join(dbtest.Dir(t), "data")
	refuses(foreign, data)
	refuses(tables, data)
	var regions, tenants int
	require.NoError(t, conn(foreign).QueryRow(t.Context(), "SELECT (SELECT count(*) FROM regions), (SELECT count(*) FROM tenants)").Scan(&regions, &tenants))
	require.Equal(t, 1, regions)
	require.Zero(t, tenants)
	var made bool
	require.NoError(t, conn(tables).QueryRow(t.Context(), "SELECT to_regclass('regions') IS NOT NULL").Scan(&made))
	require.False(t, made)
	nowhere := runCommandIn(t, []string{"HOMEWARD_DATABASE_URL=" + own}, "cluster", "--listen", "127.0.0.1:0")
	refused(t, nowhere, "--data")

	env := []string{"HOMEWARD_DATABASE_URL=" + own}
	c := startClusterIn(t, env, "cluster", "--listen", "127.0.0.1:0", "--psp-latency", "0s", "--nodes-per-region", "1", "--data", data)
	first := c.at(us, demoCharge("order-1", 4200), http.StatusCreated)
	for _, key := range []string{demoAcme, demoGlobex} {
		q := demoCharge("order-2", 1)
		q.tenant = key
		require.Equal(t, http.StatusUnauthorized, c.caller.send(c.ctx, us, q).Status, "a published key opens nothing")
	}
	c.interrupt()
	again := startClusterIn(t, env, "cluster", "--listen", "127.0.0.1:0", "--psp-latency", "0s", "--nodes-per-region", "1", "--data", data)
	require.Equal(t, c.state.APIKeys, again.state.APIKeys)
	require.Equal(t, first.Remembered(), again.at(eu, demoCharge("order-1", 4200), http.StatusCreated).Remembered())
	again.interrupt()
	refuses(own, filepath.Join(dbtest.Dir(t), "other"))
}

// TestClusterRefuses starts the command wrongly, which it notices before it
// starts anything.
func TestClusterRefuses(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	for name, tc := range map[string]struct{ args, says []string }{
		"port in use":      {[]string{"--listen", l.Addr().String()}, []string{l.Addr().String(), "in use", "--listen"}},
		"no such address":  {[]string{"--listen", "nowhere"}, []string{"--listen", "HOST:PORT"}},
		"no nodes":         {[]string{"--nodes-per-region", "0"}, []string{"--nodes-per-region", "from 1"}},
		"latency below 0":  {[]string{"--psp-latency", "-1s"}, []string{"--psp-latency"}},
		"no such database": {[]string{"--start", "oracle"}, []string{"--start", "cockroachdb", "postgresql"}},
		"data is a file":   {[]string{"--data", plain}, []string{plain}},
	} {
		t.Run(name, func(t *testing.T) {
			c := runCommand(t, append([]string{"cluster", "--listen", "127.0.0.1:0"}, tc.args...)...)
			refused(t, c, tc.says...)
		})
	}
}

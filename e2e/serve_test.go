package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// served is several homeward serve, each a process of its own, on one
// database that a test can take away.
type served struct {
	*caller
	t      *testing.T
	ctx    context.Context
	server *localdb.Server
	url    string
	judge  *judge
	nodes  map[string]*serveNode // by name, which is the region's where it has one node
	extra  string                // of every node's settings
	env    []string              // of every node, and of commands
	log    *os.File              // what reads it is the test's; nil: every node's own
}

// serveNode is one of them.
type serveNode struct {
	*command
	api, gossip string
}

// newServed is a database with two regions and no node yet. It is PostgreSQL
// wherever tests run: CockroachDB has a node in each region, so that it does not
// go away all at once.
func newServed(t *testing.T) *served {
	t.Helper()
	onPostgres(t)
	if onCockroach() {
		t.Skip("takes a whole database away, which is PostgreSQL")
	}
	return newServedOn(t, localdb.Config{Kind: localdb.PostgreSQL})
}

// onCockroach reports whether tests are to run on CockroachDB.
func onCockroach() bool { return os.Getenv("HOMEWARD_TEST_KIND") == string(localdb.CockroachDB) }

// newServedOn is newServed on a database of its own.
func newServedOn(t *testing.T, c localdb.Config) *served {
	t.Helper()
	long := 3 * patience
	if c.Kind == localdb.CockroachDB {
		long *= 3
	}
	ctx, cancel := context.WithTimeout(context.Background(), long)
	t.Cleanup(cancel)
	s := dbtest.Start(t, c)
	d := &served{
		caller: newCaller(t, map[string]string{}), t: t, ctx: ctx, server: s, url: s.URL("", "homeward"),
		judge: newJudge(t), nodes: map[string]*serveNode{},
	}
	require.NoError(t, s.CreateDatabase(ctx, "homeward", ""))
	d.addRegions(us, eu)
	db, err := sqlstore.Open(ctx, sqlstore.Config{URL: d.url, Policy: quick(), Pool: patientPool()})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "acme", Registrar: us}, acme))
	return d
}

// addRegions does what homeward migrate up --regions does.
func (d *served) addRegions(names ...string) {
	d.t.Helper()
	m, err := sqlstore.OpenMigrator(d.ctx, d.url, false)
	require.NoError(d.t, err)
	defer func() { require.NoError(d.t, m.Close(d.ctx)) }()
	var specs []claim.Region
	for _, n := range names {
		specs = append(specs, claim.Region{Name: n, Code: codes[n]})
	}
	require.NoError(d.t, m.Up(d.ctx, sqlstore.Migration{Regions: specs}, nil))
}

// serveSettings is the quick policy for a node on free ports.
func (d *served) serveSettings(name, region string) string {
	p, offset := quick(), time.Duration(0)
	if onCockroach() {
		p = unhurried(localdb.CockroachDB)
		offset = p.ClockOffset
	}
	var seeds []string
	for _, n := range d.nodes {
		seeds = append(seeds, n.gossip)
	}
	provider := fmt.Sprintf("provider: {base_url: %q, timeout: 5s}", d.judge.url)
	if strings.Contains(d.extra, "gateway:\n") {
		provider = "" // it calls none
	}
	return fmt.Sprintf(`
node: {name: %s, region: %s}
api: {listen: "127.0.0.1:0"}
rpc: {listen: "127.0.0.1:0"}
metrics: {listen: "127.0.0.1:0"}
gossip: {listen: "127.0.0.1:0", local: true, seeds: [%s]}
%s
claim:
  clock_offset: %v
  lease: %v
  renew_every: %v
  lease_margin: %v
  lease_ceiling: %v
  wait_poll: %v
  wait_max: %v
outbox: {poll: %v, lease: %v}
topology_every: 100ms
`, name, region, strings.Join(seeds, ","), provider, offset, p.Lease, p.RenewEvery, p.LeaseMargin, p.LeaseCeiling,
		p.WaitPoll, p.WaitMax, quickOutbox.Poll, quickOutbox.Lease) + d.extra
}

// sealKeys are those of served nodes.
const sealKeys = "base64key://MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

var readyLine = regexp.MustCompile(`homeward \S+ in \S+: API (http://\S+), RPC \S+, gossip (\S+), database `)

// start starts a region's only node and waits until it reports that it is ready.
func (d *served) start(region string) {
	d.t.Helper()
	d.startNode(region, region)
}

// startNode is start for a node with a name and variables of its own.
func (d *served) startNode(name, region string, env ...string) {
	d.t.Helper()
	path := filepath.Join(d.t.TempDir(), "node.yaml")
	require.NoError(d.t, os.WriteFile(path, []byte(d.serveSettings(name, region)), 0o600))
	c := &command{
		t: d.t, cmd: exec.Command(buildBinary(d.t), "serve", "--config", path),
		stdout: &testLog{}, stderr: &testLog{}, dead: make(chan struct{}),
	}
	c.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HOMEWARD_") }),
		"HOMEWARD_DATABASE_URL="+d.url, "HOMEWARD_GOSSIP_KEY=MDEyMzQ1Njc4OWFiY2RlZg==",
		"HOMEWARD_SEAL_KEYS="+sealKeys)
	c.cmd.Env = append(append(c.cmd.Env, d.env...), env...)
	c.cmd.Stdout, c.cmd.Stderr = c.stdout, c.stderr
	if d.log != nil {
		c.cmd.Stderr = d.log
	}
	require.NoError(d.t, c.cmd.Start())
	go func() {
		defer close(c.dead)
		_ = c.cmd.Wait() // how it ended is in ProcessState
	}()
	d.t.Cleanup(func() {
		c.kill()
		if d.t.Failed() {
			d.t.Logf("homeward serve %s\n%s%s", name, c.stdout, c.stderr)
		}
	})
	var said []string
	until(d.t, name+" is ready", func() bool {
		select {
		case <-c.dead:
			require.FailNow(d.t, "the node ended", "%s", c.stderr)
		default:
		}
		said = readyLine.FindStringSubmatch(c.stdout.String())
		return said != nil
	})
	d.nodes[name] = &serveNode{command: c, api: said[1], gossip: said[2]}
	bases := map[string]string{}
	for r, n := range d.nodes {
		bases[r] = n.api
	}
	d.move(bases)
}

// ready asks a region's node whether it wants traffic.
func (d *served) ready(region string) bool {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.ctx, http.MethodGet, d.base(region)+"/readyz", nil)
	require.NoError(d.t, err)
	res, err := d.http.Do(req)
	require.NoError(d.t, err)
	require.NoError(d.t, res.Body.Close())
	require.Contains(d.t, []int{http.StatusOK, http.StatusServiceUnavailable}, res.StatusCode)
	return res.StatusCode == http.StatusOK
}

// final is the answer that a patient merchant gets.
func (d *served) final(region string, q request, status int) *answer.Answer {
	d.t.Helper()
	r := d.settle(d.ctx, region, q, nil)
	require.NoError(d.t, r.Err)
	require.Equal(d.t, status, r.Status, "%s", r.Body)
	return r
}

// TestServeWithAnUnreadLog: charges and the end of a node wait for no reader of its log, whether it
// stalls, as a container's log driver may, or has died.
func TestServeWithAnUnreadLog(t *testing.T) {
	t.Parallel()
	onPostgres(t)
	for name, end := range map[string]func(t *testing.T, reader *os.File){
		"stalls": func(*testing.T, *os.File) {},
		"died":   func(t *testing.T, reader *os.File) { require.NoError(t, reader.Close()) },
	} {
		if testing.Short() && name != "stalls" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			d := newServed(t)
			reader, writer, err := os.Pipe()
			require.NoError(t, err)
			t.Cleanup(func() { _ = reader.Close() }) // perhaps it is
			d.log, d.extra = writer, "log: debug\n"
			d.start(us)
			require.NoError(t, writer.Close())
			d.final(us, charge("order-1", 100), http.StatusCreated)
			end(t, reader)
			// More than a pipe and the node hold: each request is a line.
			ask, err := http.NewRequestWithContext(d.ctx, http.MethodGet, d.base(us)+"/v1/charges/"+strings.Repeat("x", 300), nil)
			require.NoError(t, err)
			ask.Header.Set("Authorization", "Bearer "+acme)
			for range 4500 {
				res, err := d.http.Do(ask)
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
			}
			d.final(us, charge("order-2", 200), http.StatusCreated)
			d.judge.once(t, 2)
			n := d.nodes[us]
			res, err := http.Get(regexp.MustCompile(`metrics (http://\S+),`).FindStringSubmatch(n.stdout.String())[1])
			require.NoError(t, err)
			text, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Regexp(t, `homeward_log_dropped_total\{[^}]*\} [1-9]`, string(text))
			require.NoError(t, n.cmd.Process.Signal(syscall.SIGTERM))
			require.Zero(t, n.exit(), n.stdout.String())
			require.Contains(t, n.stdout.String(), "drained")
		})
	}
}

// TestServe is one deployment's life, in which no money moves twice.
func TestServe(t *testing.T) {
	t.Parallel()
	d := newServed(t)
	d.start(us)
	d.start(eu)
	moved := 0

	// A retry elsewhere reads the same bytes, and a stamped key travels home.
	first := d.final(us, charge("order-1", 100), http.StatusCreated)
	moved++
	again := d.final(eu, charge("order-1", 100), http.StatusCreated)
	require.Equal(t, first.Remembered(), again.Remembered())
	require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	sent := d.final(eu, charge(stamped(t, us), 200), http.StatusCreated)
	moved++
	require.Equal(t, us, sent.Header.Get("Homeward-Home-Region"))
	require.Equal(t, us, sent.Header.Get("Homeward-Served-By"))
	require.Equal(t, "1", sent.Header.Get("Homeward-Hops"))
	d.judge.once(t, moved)

	// A region that is added while they run is learnt, not waited for.
	key := stamped(t, asia)
	r := d.send(d.ctx, us, charge(key, 300))
	require.NoError(t, r.Err)
	require.Equal(t, "home_unavailable", r.Problem.Error, "%s", r.Body)
	d.addRegions(asia)
	d.start(asia)
	homed := d.final(us, charge(key, 300), http.StatusCreated)
	moved++
	require.Equal(t, asia, homed.Header.Get("Homeward-Home-Region"))
	require.Equal(t, homed.Remembered(), d.final(eu, charge(key, 300), http.StatusCreated).Remembered())
	d.judge.once(t, moved)

	// Without its database a node is soon not ready, and needs no restart after it.
	require.True(t, d.ready(us))
	require.NoError(t, d.server.Kill(""))
	for _, region := range regions {
		sentAt := time.Now()
		r := d.send(d.ctx, region, charge("order-2", 400))
		require.NoError(t, r.Err)
		require.Equal(t, http.StatusServiceUnavailable, r.Status, "%s", r.Body)
		require.Equal(t, "store_unavailable", r.Problem.Error)
		require.Equal(t, "same_key", r.Problem.Retry)
		require.Less(t, time.Since(sentAt), 5*sqlstore.DefaultPool().CallTimeout)
		until(t, region+" is not ready", func() bool { return !d.ready(region) })
	}
	d.judge.once(t, moved)
	require.NoError(t, d.server.Restart(d.ctx, ""))
	for _, region := range regions {
		until(t, region+" is ready again", func() bool { return d.ready(region) })
		require.Equal(t, first.Remembered(), d.final(region, charge("order-1", 100), http.StatusCreated).Remembered())
	}
	d.final(eu, charge("order-2", 400), http.StatusCreated)
	moved++
	d.judge.once(t, moved)

	// SIGTERM: the request in hand is answered, and then the process ends with 0.
	g := d.judge.hold(t)
	done := make(chan *answer.Answer, 1)
	go func() { done <- d.send(d.ctx, us, charge("order-3", 500)) }()
	receive(t, "the provider call", g.entered)
	for _, n := range d.nodes {
		require.NoError(t, n.cmd.Process.Signal(syscall.SIGTERM))
	}
	until(t, "no new request is taken", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(d.base(us), "http://"))
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	g.release()
	last := receive(t, "the answer to the request in hand", done)
	moved++
	require.NoError(t, last.Err)
	require.Equal(t, http.StatusCreated, last.Status, "%s", last.Body)
	for region, n := range d.nodes {
		require.Zero(t, n.exit(), region)
		require.Contains(t, n.stdout.String(), "drained")
	}
	d.judge.once(t, moved)
}

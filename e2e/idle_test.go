package e2e

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/internal/lab/wireproxy"
	"github.com/homeward-io/homeward/internal/node"
)

// overheard is some nodes of one region on a database, with the statements of each.
type overheard struct {
	*served
	proxies []*wireproxy.Proxy // by node
	servers []*node.Server
}

// overhear starts n nodes in us, the first of which has the callers.
func overhear(t *testing.T, n int, adjust func(*node.ServeSettings)) *overheard {
	t.Helper()
	o := &overheard{served: newServed(t)}
	u, err := url.Parse(o.url)
	require.NoError(t, err)
	var seeds []string
	for i := range n {
		p, err := wireproxy.Start(u.Host)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		s := node.DefaultServeSettings()
		s.Node.Name = fmt.Sprint("n", i)
		s.API.Listen, s.RPC.Listen = "127.0.0.1:0", "127.0.0.1:0"
		s.Metrics.Listen = "127.0.0.1:0"
		s.Gossip.Listen, s.Gossip.Local, s.Gossip.Seeds = fmt.Sprint("127.0.0.1:", ports(t)), true, slices.Clone(seeds)
		s.Provider.BaseURL, s.Policy.ClockOffset = o.judge.url, 0
		s.Database = patientPool()
		if adjust != nil {
			adjust(&s)
		}
		server, err := node.Serve(o.ctx, s, node.Secrets{DatabaseURL: p.URL(o.url), GossipKeys: [][]byte{[]byte("0123456789abcdef")}, SealKeys: sealKeys}, nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, server.Stop(o.ctx)) })
		seeds = append(seeds, s.Gossip.Listen)
		o.proxies, o.servers = append(o.proxies, p), append(o.servers, server)
	}
	for _, s := range o.servers {
		until(t, "the nodes have met", func() bool { return len(s.Node().Membership().Members()) == n })
	}
	o.move(map[string]string{us: "http://" + o.servers[0].Node().APIAddr()})
	return o
}

// sent is what each node has sent so far, by statement.
func (o *overheard) sent() []map[string]int {
	all := make([]map[string]int, len(o.proxies))
	for i, p := range o.proxies {
		all[i] = p.Statements()
	}
	return all
}

// since is what was sent after before, by node and in all.
func (o *overheard) since(before []map[string]int) (nodes []map[string]int, all map[string]int) {
	all = map[string]int{}
	for i, now := range o.sent() {
		for name := range now {
			now[name] -= before[i][name]
			all[name] += now[name]
		}
		nodes = append(nodes, now)
	}
	return nodes, all
}

// TestIdleNodesLookAsOne: of idle nodes one often reads what its region needs, and the others
// together send a fraction of that: of each statement, and of all. No worker takes rows.
func TestIdleNodesLookAsOne(t *testing.T) {
	if testing.Short() {
		t.Skip("counts rounds for as long as a busy machine needs; package outbox tests its poller on fake time")
	}
	t.Parallel()
	onPostgres(t)
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			// Rounds in which a node reads must be short against the pauses between them:
			// the others count rounds in which they do nothing. On a busy machine pauses
			// have to be longer for that.
			alike := false
			for _, often := range []time.Duration{50 * time.Millisecond, 250 * time.Millisecond, 800 * time.Millisecond} {
				if !alike {
					t.Run(often.String(), func(t *testing.T) { alike = lookAsOne(t, n, often) })
				}
			}
			require.True(t, alike, "the nodes look as one")
		})
	}
}

// lookAsOne starts n idle nodes with so long a pause between rounds, and reports whether they
// look as one before 120 of them.
func lookAsOne(t *testing.T, n int, often time.Duration) bool {
	o := overhear(t, n, func(s *node.ServeSettings) {
		s.Outbox.Poll, s.TopologyEvery, s.FiguresEvery, s.SweepEvery = often/10, often, often, often // a poller rests for ten times outbox.poll
		s.DeputyAfter = time.Hour                                                                    // the other region has no node
	})
	// On a busy machine a node may miss the others in gossip for a while, and polls for all of
	// them.
	for began := time.Now(); time.Since(began) < 120*often; {
		before := o.sent()
		var nodes []map[string]int
		var all map[string]int
		until(t, "rounds", func() bool {
			nodes, all = o.since(before)
			return most(nodes, "look") >= 40 && most(nodes, "regions") >= 40 && most(nodes, "events_depth") >= 40
		})
		if asOne(t, nodes, all) {
			return true
		}
	}
	return false
}

// most is how often the node that sent a statement most often has sent it.
func most(nodes []map[string]int, name string) (times int) {
	for _, sent := range nodes {
		times = max(times, sent[name])
	}
	return times
}

// asOne reports whether nodes together have sent at most half more than the busiest of
// them alone, in all and of each statement that is sent in rounds, and have taken nothing.
func asOne(t *testing.T, nodes []map[string]int, all map[string]int) bool {
	t.Helper()
	sum, busiest, takes, fits := 0, 0, 0, true
	for _, sent := range nodes {
		one := 0
		for _, times := range sent {
			one += times
		}
		busiest, sum = max(busiest, one), sum+one
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		times, one := all[name], most(nodes, name)
		if one >= 20 && 2*times > 3*one {
			t.Logf("%s: %d, of which the busiest node %d", name, times, one)
			fits = false
		}
		if strings.HasSuffix(name, "_take") {
			takes += times
		}
	}
	t.Logf("%d statements, of which the busiest node %d; %d takes", sum, busiest, takes)
	return fits && 2*sum <= 3*busiest && takes == 0
}

// TestEventsShareStatements: a node takes many events in a statement, and finishes many in
// another.
func TestEventsShareStatements(t *testing.T) {
	t.Parallel()
	o := overhear(t, 2, func(s *node.ServeSettings) {
		s.Events.Log = true
		s.Outbox.Poll = 4 * time.Second // a slow machine is one with few charges a second
	})
	before := o.sent()
	const charges, atOnce = 400, 16
	var g errgroup.Group
	g.SetLimit(atOnce)
	began := time.Now()
	for i := range charges {
		g.Go(func() error {
			r := o.settle(o.ctx, us, charge(fmt.Sprint("order-", i), 100), nil)
			if r.Err != nil || r.Status != http.StatusCreated {
				return fmt.Errorf("%v", r)
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	took := time.Since(began)
	conn, err := pgx.Connect(o.ctx, o.url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(o.ctx) }()
	until(t, "all are delivered", func() bool {
		var remaining int
		require.NoError(t, conn.QueryRow(o.ctx, "SELECT count(*) FROM events").Scan(&remaining))
		return remaining == 0
	})
	_, all := o.since(before)
	statements := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, "events_") {
			t.Logf("%-18s %.3f a charge", name, float64(all[name])/charges)
			statements += all[name]
		}
	}
	t.Logf("%d charges, %.0f a second: %.3f statements for the event of a charge", charges, charges/took.Seconds(), float64(statements)/charges)
	require.Less(t, statements, charges/2, "an event costs a share of a statement")
	require.Less(t, all["events_take"], charges/10, "many events share a take")
}

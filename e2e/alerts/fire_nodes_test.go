package alerts

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/build"
	"github.com/homeward-io/homeward/internal/lab/devcerts"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/internal/telemetry"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/region"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// A region's nodes lose sight of the table of regions, which is changed meanwhile.
func TestATableThatSomeCannotRead(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.healthy("HomewardTopologySkew", "HomewardTopologyStale")
	blind := asia
	w.blind.Store(&blind)
	_, err := w.cluster.DB.SetRegionStatus(t.Context(), eu, claim.RegionDraining)
	require.NoError(t, err)
	w.fires("HomewardTopologySkew", 600, gossip)
	w.ahead.Add(int64(3 * time.Minute))
	w.fires("HomewardTopologyStale", 600, figures)
	w.until("only asia's are stale, as the others read on", 600, gossip, func() bool {
		return w.firesFor("HomewardTopologyStale", "homeward_region", asia) && !w.firesFor("HomewardTopologyStale", "homeward_region", us)
	})
	w.blind.Store(nil)
	w.ends("HomewardTopologySkew", 600, gossip)
	w.ends("HomewardTopologyStale", 600, gossip)
}

// A node of an older build joins, and stays.
func TestVersionsThatDiffer(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.healthy("HomewardVersionSkew")
	deployment, err := w.cluster.DB.DeploymentID(t.Context())
	require.NoError(t, err)
	older, err := region.NewMembership(region.MembershipConfig{
		Deployment: deployment, Node: "older", Region: us, RPCAddr: "127.0.0.1:1", Version: "v0.0.1", BindAddr: "127.0.0.1",
		Seeds: []string{w.cluster.Nodes[0].GossipAddr()}, LocalTimings: true,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, older.Close()) }()
	w.until("the nodes have met it", 600, gossip, func() bool {
		return strings.Contains(w.value(`count(count by (homeward_version) (homeward_version_nodes > 0))`), "=> 2 ")
	})
	w.step = 4 * time.Minute
	w.fires("HomewardVersionSkew", 40, nil)
}

// A node's certificate is good for eight days, which go by.
func TestACertificateRunsOut(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	now, dir := time.Now(), t.TempDir()
	authority, err := devcerts.NewAuthority(now.Add(-time.Hour), now.Add(365*24*time.Hour))
	require.NoError(t, err)
	name, err := region.Identity{Region: us, Node: "proven"}.URI("homeward")
	require.NoError(t, err)
	cert, key, err := authority.Issue(now.Add(-time.Hour), now.Add(8*24*time.Hour), name)
	require.NoError(t, err)
	path := func(file string, text []byte) string {
		p := filepath.Join(dir, file)
		require.NoError(t, os.WriteFile(p, text, 0o600))
		return p
	}
	proof, err := region.NewTLS(region.TLSConfig{
		CertFile: path("node.pem", cert), KeyFile: path("node-key.pem", key), CAFile: path("ca.pem", authority.PEM()),
		TrustDomain: "homeward", Region: us,
	})
	require.NoError(t, err)
	metrics, err := telemetry.OpenMetrics(t.Context(), telemetry.Process{Version: build.Version(), AllowPlaintext: true, Log: slog.New(slog.DiscardHandler)}, "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, metrics.Stop(t.Context())) }()
	meters, err := metrics.Node(t.Context(), us, "proven")
	require.NoError(t, err)
	store, err := w.cluster.DB.Region(us)
	require.NoError(t, err)
	topology, err := region.NewTopology([]region.Region{{Name: us, Code: 1}, {Name: eu, Code: 2}, {Name: asia, Code: 3}})
	require.NoError(t, err)
	blobs, err := node.OpenBlobs(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, blobs.Close()) }()
	n, err := node.Start(t.Context(), node.Config{
		Tuning: node.DefaultTuning(), Name: "proven", Region: us, APIListen: "127.0.0.1:0", Peering: node.Peering{RPCListen: "127.0.0.1:0", GossipListen: "127.0.0.1:0", TLS: proof},
		Topology: topology, Store: store, Blobs: blobs, Payments: node.Payments{Providers: psp.Providers{w.adapter}}, Meters: meters,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Stop(t.Context())) }()

	b := newBoard(t, metrics.Addr())
	b.step = time.Hour
	for range 4 {
		b.look()
	}
	require.NotContains(t, b.firing(), "HomewardCertificateEnds")
	b.fires("HomewardCertificateEnds", 2*24, nil)
	require.True(t, b.firesFor("HomewardCertificateEnds", "homeward_certificate", "node"))
	require.NotContains(t, b.firing(), "HomewardCertificateEndsSoon")
	b.fires("HomewardCertificateEndsSoon", 7*24, nil)
}

// A ghost waits for its refund while no worker runs: the first of its node.
func TestARefundThatTakesLong(t *testing.T) {
	t.Parallel()
	w := start(t, func(_ *world, c *node.ClusterConfig) { c.Policy.MaxUnknowns = 2 })
	w.healthy("HomewardCompensationsSlow")
	w.sendsNotices()
	w.faults(simulator.Faults{LateEffect: 1, LateBy: simulator.MaxLate})
	require.Equal(t, http.StatusServiceUnavailable, w.charge(us, w.fresh(us), 1))
	w.counts("homeward_claim_given_up_total", 1)
	w.idle.Store(true)
	w.faults(simulator.Faults{})
	require.Positive(t, w.provider.ReleaseLate())
	w.noticed()
	w.ahead.Add(int64(20 * time.Minute))
	w.until("each node has measured the clock", 600, gossip, func() bool {
		return strings.Contains(w.value("count(homeward_clock_offset_seconds < -1190)"), "=> 6 ")
	})
	w.idle.Store(false)
	w.counts("homeward_notices_closed_total", 2) // the provider reports the refund as well
	w.fires("HomewardCompensationsSlow", 120, nil)
	require.True(t, w.firesFor("HomewardCompensationsSlow", "homeward_provider", "simulator"))
}

// The bucket for the audit is unreachable for two hours.
func TestAnAuditWithoutABucket(t *testing.T) {
	t.Parallel()
	bucket := filepath.Join(t.TempDir(), "audit")
	w := start(t, func(_ *world, c *node.ClusterConfig) {
		private, err := audit.NewKey()
		require.NoError(t, err)
		c.AuditKeys, err = audit.ParseKeys(private)
		require.NoError(t, err)
		c.Audit = node.DefaultAudit()
		c.Audit.Bucket, c.Audit.Every, c.Audit.Window, c.Audit.Settle = "file://"+bucket, 20*time.Millisecond, time.Minute, 0
	})
	w.healthy("HomewardAuditLag")
	require.NoError(t, os.RemoveAll(bucket))
	require.NoError(t, os.WriteFile(bucket, nil, 0o600)) // a file where a directory was
	require.Equal(t, http.StatusCreated, w.charge(us, w.fresh(us), 1))
	w.ahead.Add(int64(2 * time.Hour))
	w.fires("HomewardAuditLag", 600, figures)
	w.until("us is behind", 600, figures, func() bool { return w.firesFor("HomewardAuditLag", "homeward_home", us) })
	require.NoError(t, os.Remove(bucket))
	w.ends("HomewardAuditLag", 600, gossip)
}

// A session locks the database's table of claims. Calls that read one have all the connections that
// they may have, and the others wait for one in vain.
func TestConnectionsThatAllWait(t *testing.T) {
	t.Parallel()
	s := dbtest.Start(t, localdb.Config{Kind: localdb.PostgreSQL, Dir: dbtest.Dir(t)})
	require.NoError(t, s.CreateDatabase(t.Context(), "homeward", ""))
	m, err := sqlstore.OpenMigrator(t.Context(), s.URL(us, "homeward"), false)
	require.NoError(t, err)
	var regions []claim.Region
	for r, code := range codes {
		regions = append(regions, claim.Region{Name: r, Code: code})
	}
	require.NoError(t, m.Up(t.Context(), sqlstore.Migration{Regions: regions}, nil))
	require.NoError(t, m.Close(t.Context()))
	w := start(t, func(_ *world, c *node.ClusterConfig) {
		c.Databases, c.Nodes, c.Clock = map[string]string{}, 1, nil
		for r := range codes {
			c.Databases[r] = s.URL(r, "homeward")
		}
		c.Pool = sqlstore.DefaultPool()
		c.Pool.MaxConns = 8
	})
	w.healthy("HomewardPoolExhausted")
	conn, err := pgx.Connect(t.Context(), s.URL(us, "homeward"))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE claims IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	looks := 0
	w.until("HomewardPoolExhausted fires for us", 60, func() {
		if looks++; looks%5 != 1 { // its rate is that of ten looks
			return
		}
		var all sync.WaitGroup
		for range 24 { // charges would share statements, and so connections
			all.Go(func() { w.inspect(us, w.fresh(us)) })
		}
		all.Wait()
	}, func() bool { return w.firesFor("HomewardPoolExhausted", "homeward_region", us) })
	require.NoError(t, tx.Rollback(t.Context()))
	w.ends("HomewardPoolExhausted", 60, nil)
}

// The reader of a node's log has stalled: lines are dropped, and one that pages may be among them.
func TestALogThatNobodyReads(t *testing.T) {
	t.Parallel()
	metrics, err := telemetry.OpenMetrics(t.Context(), telemetry.Process{Version: build.Version(), AllowPlaintext: true, Log: slog.New(slog.DiscardHandler)}, "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, metrics.Stop(t.Context())) }()
	meters, err := metrics.Node(t.Context(), us, "unread")
	require.NoError(t, err)
	stalled, out := io.Pipe()
	lines := telemetry.NewLines(out)
	defer lines.Close()
	defer stalled.Close()
	// As homeward serve does.
	require.NoError(t, meters.Observe(func(o *meter.Observer) { o.Is(meter.LogDropped, float64(lines.Dropped())) }))
	b := newBoard(t, metrics.Addr())
	b.look()
	for lines.Dropped() == 0 {
		_, err := lines.Write([]byte("page: decide by hand\n"))
		require.NoError(t, err)
	}
	b.fires("HomewardLogDropped", 3, nil)
	require.True(t, b.firesFor("HomewardLogDropped", "homeward_node", "unread"))
	b.ends("HomewardLogDropped", 130, nil)
}

package cli

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/cockroach"
	"github.com/homeward-io/homeward/internal/localdb"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/region"
)

type clusterCommand struct {
	Data           string        `type:"path" help:"Directory that keeps everything; default: a temporary one."`
	Listen         string        `default:"127.0.0.1:8081" help:"Address of the first node; the first of the other regions take the ports after it, then come the second ones. Port 0 takes free ones."`
	PSPListen      string        `name:"psp-listen" help:"Address of the simulator; default: nine ports after --listen."`
	PSPLatency     time.Duration `name:"psp-latency" default:"80ms" help:"How long the simulator takes."`
	NodesPerRegion int           `default:"2" help:"How many nodes each region has."`
	NoTLS          bool          `name:"no-tls" help:"Clear text between the nodes, for debugging."`
	Start          localdb.Kind  `placeholder:"KIND" help:"Database to start, cockroachdb or postgresql; default: CockroachDB if there is one, else PostgreSQL."`
}

// Help is what homeward cluster --help adds.
func (clusterCommand) Help() string {
	return `Each node is a "homeward serve" of its own, whose other settings come from the environment as usual: HOMEWARD_CLAIM__LEASE=10s.

With HOMEWARD_DATABASE_URL set the nodes use that database. Without it a private one is started, of the software that is found on this machine: CockroachDB in COCKROACH_BINARY or on PATH, with a node in each region, or PostgreSQL.`
}

const (
	// maxNodesPerRegion is what a big laptop carries: some 50 MB each.
	maxNodesPerRegion = 10
	// clusterConns is a node's share of the database's connections: all nodes share
	// a few processors, and PostgreSQL allows 100 unless told otherwise.
	clusterConns = 8
	// clusterStartTime bounds the start of the nodes: seconds, on a busy machine.
	clusterStartTime = 2 * time.Minute
	// killTime is what a node gets beyond its own bound of a drain.
	killTime = 5 * time.Second
	// clusterCertLife is how long the nodes' certificates are good for: longer than a
	// cluster on a laptop runs.
	clusterCertLife = 90 * 24 * time.Hour
	// databaseName is that of the private database.
	databaseName = "homeward"
	// stateFile tells drills which processes there are.
	stateFile = "cluster.json"
)

func (c *clusterCommand) Run(ctx context.Context, io streams) error {
	k, err := c.plan(io)
	if err != nil {
		return err
	}
	err = k.run(ctx)
	if ctx.Err() != nil { // Ctrl-C, before or after it was ready: what was asked for
		err = nil
		fmt.Fprintln(io.out, "\ndraining: requests in hand are finished, new ones are refused")
	}
	if err := errors.Join(err, k.stop(ctx)); err != nil {
		return err
	}
	fmt.Fprintln(io.out, "drained")
	return nil
}

// plan lays the cluster out and makes its directory. Nothing runs yet.
func (c *clusterCommand) plan(io streams) (*localCluster, error) {
	if c.PSPLatency < 0 || c.PSPLatency > simulator.MaxLatency {
		return nil, fmt.Errorf("--psp-latency must be from 0 to %v, is %v", simulator.MaxLatency, c.PSPLatency)
	}
	if c.NodesPerRegion < 1 || c.NodesPerRegion > maxNodesPerRegion {
		return nil, fmt.Errorf("--nodes-per-region must be from 1 to %d, is %d", maxNodesPerRegion, c.NodesPerRegion)
	}
	if !slices.Contains([]localdb.Kind{"", localdb.CockroachDB, localdb.PostgreSQL}, c.Start) {
		return nil, fmt.Errorf("--start must be %s or %s, is %q", localdb.CockroachDB, localdb.PostgreSQL, c.Start)
	}
	given, err := node.Secret(os.Environ(), node.DatabaseURL)
	if err != nil {
		return nil, err
	}
	if given != "" && c.Start != "" {
		return nil, fmt.Errorf("--start %s and %s exclude each other; leave one out", c.Start, node.DatabaseURL)
	}
	k := &localCluster{io: io, kind: c.Start, given: given, latency: c.PSPLatency, data: c.Data, tls: !c.NoTLS}
	for _, r := range node.DefaultSettings().Regions {
		k.regions = append(k.regions, r.Name)
	}
	listens, pspListen, err := addresses(c.Listen, c.PSPListen, len(k.regions)*c.NodesPerRegion)
	if err != nil {
		return nil, err
	}
	k.pspListen = pspListen
	for i, listen := range listens {
		region := k.regions[i%len(k.regions)]
		n := &clusterNode{Name: fmt.Sprintf("%s-%d", region, i/len(k.regions)+1), Region: region, settings: node.DefaultServeSettings()}
		n.settings.API.Listen = listen
		k.Nodes = append(k.Nodes, n)
	}
	if err := portsFree("a node's API", "--listen", listens...); err != nil {
		return nil, err
	}
	if err := portsFree("the simulator", "--psp-listen", pspListen); err != nil {
		return nil, err
	}
	return k, nil
}

// portsFree finds out what a node would find out too, but not a minute later.
func portsFree(who, flag string, addrs ...string) error {
	for _, a := range addrs {
		l, err := net.Listen("tcp", a)
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			return occupied(who, flag, a, err)
		}
	}
	return nil
}

// localCluster is a cluster of processes on this machine. What is exported is
// its state file.
type localCluster struct {
	Database  databaseState  `json:"database"`
	Simulator string         `json:"simulator"` // http://host:port
	Control   string         `json:"control"`   // Unix socket for drills; "": there is none
	Operator  *operatorState `json:"operator,omitempty"`
	Nodes     []*clusterNode `json:"nodes"`

	io        streams
	regions   []string
	kind      localdb.Kind
	given     string // database URL, "" to start one
	latency   time.Duration
	pspListen string
	tls       bool
	data      string
	temporary bool
	server    *localdb.Server   // the private database; nil if one was given
	urls      map[string]string // of the database, by region; secret
	gossipKey string            // in base64; secret
	simulator *runningSimulator
	webhooks  string // what the simulator signs with; secret
	codes     map[string]claim.RegionCode
	stops     []func(context.Context) error // of what runs, to be called backwards
}

// operatorState is what the state file says of the certificate with which a person's
// tools may ask the nodes. Files, in PEM.
type operatorState struct {
	Cert        string `json:"cert"`
	Key         string `json:"key"`
	CA          string `json:"ca"`
	TrustDomain string `json:"trust_domain"`
}

// databaseState is what the state file says of the database.
type databaseState struct {
	Kind    localdb.Kind `json:"kind"`
	Version string       `json:"version"` // as in "PostgreSQL 15.18"
	// Private: it ends with the cluster.
	Private bool `json:"private"`
	// Durable: its data is on disk, and there after a crash.
	Durable bool `json:"durable"`
}

// run starts everything in the order of its needs and returns when ctx ends.
func (k *localCluster) run(ctx context.Context) error {
	for _, start := range []func(context.Context) error{
		k.makeData, k.makeCerts, k.startSimulator, k.startDatabase, k.migrate, k.putTenants, k.startNodes, k.meet, k.writeState, k.startControl,
	} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	if err := k.welcome(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// stop ends everything that was started, last things first.
func (k *localCluster) stop(ctx context.Context) error {
	var errs []error
	for _, stop := range slices.Backward(k.stops) {
		errs = append(errs, withDrainTime(ctx, stop))
	}
	return errors.Join(errs...)
}

func (k *localCluster) onStop(stop func(context.Context) error) { k.stops = append(k.stops, stop) }

func (k *localCluster) say(format string, args ...any) { fmt.Fprintf(k.io.out, format+"\n", args...) }

func (k *localCluster) makeData(context.Context) (err error) {
	if k.data == "" {
		if k.data, err = os.MkdirTemp("", "homeward-cluster-"); err != nil {
			return fmt.Errorf("temporary directory: %w; name one with --data", err)
		}
		k.temporary = true
		k.onStop(func(context.Context) error { return os.RemoveAll(k.data) })
		return nil
	}
	// Started by root, PostgreSQL runs as somebody else, who has to pass through.
	// What is secret is in files that only we may read.
	if err := os.MkdirAll(k.data, 0o711); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	return nil
}

// makeCerts makes the nodes' certificates, new ones at every start.
func (k *localCluster) makeCerts(context.Context) error {
	if !k.tls {
		return nil
	}
	d := devCerts{dir: filepath.Join(k.data, "certs"), trustDomain: node.DefaultServeSettings().TLS.TrustDomain, life: clusterCertLife, force: true}
	operator := region.Identity{Operator: devOperator}
	who := []region.Identity{operator}
	for _, n := range k.Nodes {
		is := region.Identity{Region: n.Region, Node: n.Name}
		n.settings.TLS = d.files(is)
		who = append(who, is)
	}
	files := d.files(operator)
	k.Operator = &operatorState{Cert: files.Cert, Key: files.Key, CA: files.CA, TrustDomain: files.TrustDomain}
	return d.make(who)
}

func (k *localCluster) startSimulator(context.Context) error {
	sim, err := startSimulator("--psp-listen", k.pspListen, simulator.Config{Dir: filepath.Join(k.data, "psp"), Latency: k.latency, Logger: warnings(k.io)})
	if err != nil {
		return err
	}
	k.Simulator, k.simulator, k.webhooks = "http://"+sim.addr, sim, relay.NewSecret()
	k.onStop(sim.stop)
	return nil
}

// startDatabase finds out where each region's nodes reach the database, which it
// starts unless one was given.
func (k *localCluster) startDatabase(ctx context.Context) error {
	k.urls = map[string]string{}
	if k.given != "" {
		for _, r := range k.regions {
			k.urls[r] = k.given
		}
		k.say("database: the one that %s names", node.DatabaseURL)
		return nil
	}
	k.say("starting a private database; CockroachDB takes about half a minute, PostgreSQL a few seconds")
	config := localdb.Config{
		Kind: k.kind, Regions: k.regions, Logger: warnings(k.io),
		// Room for what HOMEWARD_DATABASE__MAX_CONNS may ask for, too.
		MaxConnections: max(200, 4*clusterConns*len(k.Nodes)),
	}
	if !k.temporary {
		config.Dir, config.Durable = filepath.Join(k.data, "database"), true
		k.Database.Durable = true
	}
	s, err := localdb.Start(ctx, config)
	if err != nil {
		return err
	}
	k.server = s
	k.onStop(s.Stop)
	k.Database.Private = true
	var exists interface{ SQLState() string }
	if err := s.CreateDatabase(ctx, databaseName, ""); err != nil && (!errors.As(err, &exists) || exists.SQLState() != duplicateDatabase) {
		return err
	}
	for _, r := range k.regions {
		k.urls[r] = s.URL(r, databaseName)
	}
	return nil
}

// duplicateDatabase: an earlier cluster has made it in the same directory.
const duplicateDatabase = "42P04"

func (k *localCluster) migrate(ctx context.Context) (err error) {
	allowUnverified, err := node.AllowUnverified(os.Environ())
	if err != nil {
		return err
	}
	opening, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	m, err := cockroach.OpenMigrator(opening, k.urls[k.regions[0]], allowUnverified)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(context.WithoutCancel(ctx))) }()
	k.Database.Version, k.Database.Kind = m.Version(), localdb.PostgreSQL
	if strings.HasPrefix(m.Version(), "CockroachDB") {
		k.Database.Kind = localdb.CockroachDB
	}
	var want cockroach.Migration
	for _, r := range k.regions {
		want.Regions = append(want.Regions, claim.Region{Name: r})
	}
	steps := 0
	if err := m.Up(ctx, want, func(s cockroach.Step) {
		if steps++; steps == 1 {
			k.say("%s: making the tables", m.Version())
		}
	}); err != nil {
		return err
	}
	s, err := m.Status(ctx)
	k.codes = map[string]claim.RegionCode{}
	for _, r := range s.Regions {
		k.codes[r.Name] = r.Code
	}
	return err
}

// putTenants makes the demo's merchants, or leaves them as they are: their rates may
// have been set since.
func (k *localCluster) putTenants(ctx context.Context) error {
	return withDatabaseAt(ctx, k.urls[k.regions[0]], func(db *cockroach.DB) error {
		for _, t := range demoTenants(k.regions) {
			switch _, err := db.Tenant(ctx, t.ID); {
			case err == nil:
				continue
			case !errors.Is(err, claim.ErrUnknownTenant):
				return err
			}
			if err := db.PutTenant(ctx, t.Tenant, t.APIKeys...); err != nil {
				return err
			}
		}
		return nil
	})
}

// startNodes starts every node and waits until all are ready: first one that the
// others can ask where everybody is.
func (k *localCluster) startNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, clusterStartTime, fmt.Errorf("no answer within %v", clusterStartTime))
	defer cancel()
	k.say("%s: starting %d nodes", k.Database.Version, len(k.Nodes))
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	k.gossipKey = base64.StdEncoding.EncodeToString(key[:])
	k.onStop(k.drainNodes)
	first := k.Nodes[0]
	if err := k.startNode(first, nil); err != nil {
		return err
	}
	if err := first.await(ctx); err != nil {
		return err
	}
	for _, n := range k.Nodes[1:] {
		if err := k.startNode(n, []string{first.Gossip}); err != nil {
			return err
		}
	}
	for _, n := range k.Nodes {
		if err := n.await(ctx); err != nil {
			return err
		}
		go k.watch(n)
	}
	return k.simulator.notify(k.Nodes[0].API, k.webhooks)
}

// startNode writes a node's settings and starts it.
func (k *localCluster) startNode(n *clusterNode, seeds []string) error {
	s := &n.settings
	s.Node = node.NodeSettings{Name: n.Name, Region: n.Region}
	s.RPC.Listen, s.Gossip = "127.0.0.1:0", node.GossipSettings{Listen: "127.0.0.1:0", Seeds: seeds, Local: true}
	if n.again { // where the others, and callers, know it
		s.API.Listen, s.RPC.Listen, s.Gossip.Listen = strings.TrimPrefix(n.API, "http://"), n.RPC, n.Gossip
	}
	s.Database.MaxConns, s.Provider.BaseURL, s.Drain = clusterConns, k.Simulator, drainTime-killTime
	text, err := s.YAML()
	if err != nil {
		return err
	}
	file := filepath.Join(k.data, n.Name+".yaml")
	n.log = filepath.Join(k.data, n.Name+".log")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return n.start(file, k.environ(n.Region))
}

// ours are the variables, or the beginnings of their names, that the cluster
// decides on; the rest of the environment is the nodes' too.
var ours = []string{
	node.DatabaseURL, node.GossipKey, node.ProviderKey, node.ProviderWebhooks,
	"HOMEWARD_NODE__", "HOMEWARD_API__", "HOMEWARD_RPC__", "HOMEWARD_TLS__", "HOMEWARD_GOSSIP__", "HOMEWARD_PROVIDER__",
}

// environ is what a region's nodes are started with. The secrets are nowhere
// else: not in a file, not on a command line.
func (k *localCluster) environ(region string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc(ours, func(name string) bool { return strings.HasPrefix(v, name) })
	})
	return append(env, node.DatabaseURL+"="+k.urls[region], node.GossipKey+"="+k.gossipKey, node.ProviderWebhooks+"="+k.webhooks)
}

// watch tells of a node that ends by itself or is killed, as drills do.
func (k *localCluster) watch(n *clusterNode) {
	<-n.proc.Done()
	if !n.proc.Expected() {
		fmt.Fprintf(k.io.err, "homeward: %v\n", n.ended())
	}
}

// drainNodes ends all nodes at once.
func (k *localCluster) drainNodes(ctx context.Context) error {
	errs := make([]error, len(k.Nodes))
	var g errgroup.Group
	for i, n := range k.Nodes {
		g.Go(func() error {
			errs[i] = n.drain(ctx)
			return nil
		})
	}
	_ = g.Wait() // each has its own error
	return errors.Join(errs...)
}

// meet waits until every node reaches every region.
func (k *localCluster) meet(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, clusterStartTime, fmt.Errorf("no answer within %v", clusterStartTime))
	defer cancel()
	for _, n := range k.Nodes {
		for _, r := range k.regions {
			key, err := claim.Stamp(k.codes[r], nil)
			if err != nil {
				return err
			}
			for !n.reaches(ctx, key) {
				select {
				case <-n.proc.Done():
					return n.ended()
				case <-ctx.Done():
					return fmt.Errorf("node %s does not reach %s: %w; see %s", n.Name, r, context.Cause(ctx), n.log)
				case <-time.After(meetEvery):
				}
			}
		}
	}
	return nil
}

// meetEvery is how often a node is asked: gossip's news takes a few rounds of
// some 100 ms, and there is no signal for it that reaches another process.
const meetEvery = 25 * time.Millisecond

// reaches asks a node for a key that nobody uses and that another region is home
// to. Only that region can say that there is nothing, and asking changes nothing.
func (n *clusterNode) reaches(ctx context.Context, key string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.API+"/v1/idempotency-keys/"+url.PathEscape(key), nil)
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer "+demoKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close()) == nil && res.StatusCode == http.StatusNotFound
}

// writeState writes the state file for as long as the cluster runs.
func (k *localCluster) writeState(context.Context) error {
	if err := k.saveState(); err != nil {
		return err
	}
	// Afterwards its processes may be anybody's.
	k.onStop(func(context.Context) error { return os.Remove(k.statePath()) })
	return nil
}

// saveState writes the state file in one step: whoever reads it reads all.
func (k *localCluster) saveState() error {
	text, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	path := k.statePath()
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (k *localCluster) statePath() string { return filepath.Join(k.data, stateFile) }

//go:embed cluster.txt
var clusterText string

// clusterTemplate shares the requests of the demo's.
var clusterTemplate = template.Must(template.Must(welcomeTemplate.Clone()).New("cluster").Parse(clusterText))

// welcome prints where everything is and what to paste.
func (k *localCluster) welcome() error {
	var regions []place
	for _, n := range k.Nodes[:len(k.regions)] {
		regions = append(regions, place{n.Region, n.API, n.RPC, k.codes[n.Region]})
	}
	say, err := requests(regions, k.Simulator)
	if err != nil {
		return err
	}
	say["Nodes"], say["Database"], say["State"] = k.Nodes, k.Database.Version, k.statePath()
	say["Data"], say["Temporary"] = k.data, k.temporary
	return clusterTemplate.Execute(k.io.out, say)
}

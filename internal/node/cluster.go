package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/build"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/internal/runs"
	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/internal/telemetry"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/region/admin"
)

// ClusterConfig describes several regions in one process on one store.
type ClusterConfig struct {
	Tuning
	Payments
	// Dir is the embedded store's directory; responses too large for a row go to
	// Dir/objects unless Objects names another bucket.
	Dir string
	// Databases has the connection string of each region's SQL database. nil means the
	// embedded store; ReplicaLag, Clock, FS, Fatal and OwnProcess apply to that store
	// only, and so does the distance that Network adds to rows homed elsewhere.
	Databases map[string]string
	// Pool bounds each region's use of its database; zero takes
	// [sqlstore.DefaultPool].
	Pool sqlstore.Pool

	Regions []ClusterRegion
	Tenants []ClusterTenant
	// Nodes is how many nodes each region has; 0 means 1. Only the first node of a
	// region listens at the region's addresses.
	Nodes int
	// Seal is as in [Config].
	Seal *seal.Ring
	// AuditKeys sign the audit, if Audit names a bucket.
	AuditKeys  *audit.Keys
	Network    *wan.Network
	ReplicaLag time.Duration
	// Clock is the clock of the store, and of the ages in metrics; nil means the
	// system's.
	Clock  func() time.Time
	Logger *slog.Logger
	// MetricsListen is the address at which the metrics of all nodes are scraped,
	// host:port; "": none.
	MetricsListen string
	// WrapStore decorates each node's view of the store, for tests that stop a
	// node at a chosen step. nil leaves it as it is.
	WrapStore func(region string, s deployment.Store) deployment.Store
	// WrapTransport decorates the transport of each node's forwards, for tests that
	// lose a reply. nil leaves it unchanged.
	WrapTransport func(region string, t http.RoundTripper) http.RoundTripper
	// FS is the store's file system, for tests of power loss. nil means the real one.
	// Set Objects, too: bodies are not kept in FS.
	FS vfs.FS
	// Fatal is called when the store can no longer be written.
	Fatal func(error)
	// OwnProcess: the process does little else, so that its memory is limited as the
	// store needs it, see [embedded.LimitMemory].
	OwnProcess bool
	// Console is served by the first node; nil: there is none.
	Console *Console
	// Commands are the commands that operators may run at each node; nil: none.
	Commands Commands
}

// Commands makes the commands that operators may run at a node.
type Commands func(Belongings) admin.Run

// Belongings are a node's resources for commands.
type Belongings struct {
	deployment.Deployment
	// Seal is as in [Config].
	Seal *seal.Ring
	// Runs is the setting: the bucket for reports of commands.
	Runs string
	// Webhooks is the setting events.webhooks.on: this node delivers events to endpoints.
	Webhooks bool
}

func (c Commands) of(b Belongings) admin.Run {
	if c == nil {
		return nil
	}
	return c(b)
}

// ClusterRegion is one region with the addresses of its first node.
type ClusterRegion struct {
	region.Region
	// Listen is the API's address, RPCListen that of the RPC listener, which has no TLS and
	// so is on this machine; "": a free port of it.
	Listen, RPCListen string
}

// ClusterTenant is a tenant to create, with its API keys.
type ClusterTenant struct {
	claim.Tenant
	APIKeys []string
}

// Cluster is a running cluster.
type Cluster struct {
	DB    deployment.Deployment
	Nodes []*Node

	c          ClusterConfig
	regions    []region.Region
	metrics    *telemetry.Metrics
	resources  *resources
	background background
	running    parts.Running
}

// StartCluster opens the store and starts every node. ctx bounds the start only. If it
// fails nothing is left running.
func StartCluster(ctx context.Context, c ClusterConfig) (*Cluster, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Payments.Gateway != nil {
		c.Policy.RememberFor = 0 // an upstream reports nothing afterwards
	}
	k := &Cluster{c: c}
	for _, r := range c.Regions {
		k.regions = append(k.regions, r.Region)
	}
	if _, err := region.NewTopology(k.regions); err != nil {
		return nil, err
	}
	if err := k.running.Start(ctx,
		k.openMetrics, k.openStore, k.putTenants, k.openResources, k.background.start, k.startNodes, k.meet, k.sweep,
	); err != nil {
		return nil, errors.Join(err, k.Stop(context.WithoutCancel(ctx)))
	}
	return k, nil
}

// Stop drains every node concurrently and closes the store last.
func (k *Cluster) Stop(ctx context.Context) error { return k.running.Stop(ctx) }

func (k *Cluster) openMetrics(ctx context.Context) (_ parts.Stop, err error) {
	k.metrics, err = openMetrics(ctx, telemetry.Process{Version: build.Version(), AllowPlaintext: true, Log: k.c.Logger}, k.c.MetricsListen)
	return k.metrics.Stop, err
}

// MetricsAddr is the address at which metrics are scraped, "" if none.
func (k *Cluster) MetricsAddr() string { return k.metrics.Addr() }

func (k *Cluster) openStore(ctx context.Context) (_ parts.Stop, err error) {
	if k.DB, err = openDeployment(ctx, &k.c, k.regions, k.metrics); err != nil {
		return nil, err
	}
	return parts.Closing(k.DB.Close), nil
}

func (k *Cluster) putTenants(ctx context.Context) (parts.Stop, error) {
	for _, t := range k.c.Tenants {
		if err := k.DB.PutTenant(ctx, t.Tenant, t.APIKeys...); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (k *Cluster) openResources(ctx context.Context) (_ parts.Stop, err error) {
	t := k.c.Tuning
	if t.Objects == "" {
		dir, err := filepath.Abs(filepath.Join(k.c.Dir, "objects"))
		if err != nil {
			return nil, err
		}
		t.Objects = "file://" + dir
	}
	if k.resources, err = openResources(ctx, &t, k.c.AuditKeys, relay.Sealed(k.DB, k.c.Seal), k.c.Logger); err != nil {
		return nil, err
	}
	return parts.Closing(k.resources.close), nil
}

// Runs stores reports of commands. Nil: none are stored.
func (k *Cluster) Runs() *runs.Book { return k.resources.runs.Book() }

// startNodes starts the first nodes of all regions, then the second ones; each joins
// those before it. If one fails it stops those that were started.
func (k *Cluster) startNodes(ctx context.Context) (parts.Stop, error) {
	start := uuid.NewString()[:8] // no node owns the leases of an earlier start
	var seeds []string
	for i := range max(1, k.c.Nodes) {
		for _, r := range k.c.Regions {
			at := r
			if i > 0 {
				at.Listen, at.RPCListen = beside(at.Listen), beside(at.RPCListen)
			}
			n, err := k.startNode(ctx, at, r.Name+"-"+strconv.Itoa(i+1), start, seeds)
			if err != nil {
				return k.stopNodes, err
			}
			k.Nodes = append(k.Nodes, n)
			seeds = append(seeds, n.GossipAddr())
		}
	}
	return k.stopNodes, nil
}

// beside takes a free port of the host of addr; "" is this machine.
func beside(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, "0")
}

func (k *Cluster) startNode(ctx context.Context, at ClusterRegion, name, start string, seeds []string) (*Node, error) {
	c, home := &k.c, at.Name
	meters, err := k.metrics.Node(ctx, home, name)
	if err != nil {
		return nil, err
	}
	store, err := k.DB.Region(home)
	if err != nil {
		return nil, err
	}
	topology, err := region.NewTopology(k.regions) // each node's own, as in separate processes
	if err != nil {
		return nil, err
	}
	if c.WrapStore != nil {
		store = c.WrapStore(home, store)
	}
	var ready, answers func(context.Context) error
	if asked, ok := store.(interface{ Ready(context.Context) error }); ok { // that of a database
		ready = newReadiness(asked.Ready, c.Logger).check
	}
	if asked, ok := store.(interface{ Answers(context.Context) error }); ok {
		answers = asked.Answers
	}
	var console *Console
	if len(k.Nodes) == 0 {
		console = c.Console
	}
	payments := c.Payments
	if payments.Gateway != nil {
		payments.Accounts = k.DB
	}
	return Start(ctx, Config{
		Console: console, Tuning: c.Tuning, Payments: payments, Name: name + "-" + start, Region: home, APIListen: cmp.Or(at.Listen, beside("")),
		Peering: Peering{
			RPCListen: cmp.Or(at.RPCListen, beside("")), GossipListen: beside(at.RPCListen), Seeds: seeds, LocalGossip: true,
			Network: c.Network, WrapTransport: c.WrapTransport,
		},
		Topology: topology, Store: store, Ready: ready, Answers: answers, Blobs: k.resources.objects,
		Seal: c.Seal, Sinks: k.resources.sinks.kinds, AuditObjects: k.resources.auditObjects(), AuditKeys: k.resources.auditKeys,
		RunsBook: k.Runs(), Run: c.Commands.of(Belongings{k.DB, c.Seal, c.Runs, c.Events.Webhooks.On}), Meters: meters, Clock: c.Clock, Logger: c.Logger,
	})
}

// stopNodes drains all nodes concurrently.
func (k *Cluster) stopNodes(ctx context.Context) error {
	errs := make([]error, len(k.Nodes))
	var all sync.WaitGroup
	for i, n := range k.Nodes {
		all.Go(func() { errs[i] = n.Stop(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// sweep deletes rows past their windows periodically.
func (k *Cluster) sweep(context.Context) (parts.Stop, error) {
	k.background.every(k.c.Logger, cmp.Or(k.c.SweepEvery, defaultSweepEvery), newSweeper(k.DB.Sweep, k.c.Logger).round)
	return nil, nil
}

// openDeployment opens the store that c describes; it is nil with every error.
func openDeployment(ctx context.Context, c *ClusterConfig, regions []region.Region, metrics *telemetry.Metrics) (deployment.Deployment, error) {
	if c.Databases != nil {
		for _, r := range regions {
			if c.Databases[r.Name] == "" {
				return nil, fmt.Errorf("cluster: region %s has no database; give Databases an entry for every region", r.Name)
			}
		}
		return deployment.OpenEach(ctx, sqlstore.Config{Policy: c.Policy, Pool: c.Pool, Trace: telemetry.Enabled(), Logger: c.Logger}, c.Databases,
			func(region string) (*meter.Set, error) { return metrics.Node(ctx, region, "") })
	}
	meters, err := metrics.Node(ctx, "", "")
	if err != nil {
		return nil, err
	}
	if c.OwnProcess {
		embedded.LimitMemory()
	}
	db, err := embedded.Open(embedded.Config{
		Dir: c.Dir, Regions: regions, Policy: c.Policy, Network: c.Network, ReplicaLag: c.ReplicaLag,
		Clock: c.Clock, FS: c.FS, Meters: meters, Logger: c.Logger, Fatal: c.Fatal,
	})
	if err != nil {
		return nil, err
	}
	return deployment.Embedded(db), nil
}

// meet waits until every node sees every other.
func (k *Cluster) meet(ctx context.Context) (parts.Stop, error) {
	for _, n := range k.Nodes {
		for {
			changed := n.membership.Changed()
			if len(n.membership.Members()) >= len(k.Nodes) {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return nil, fmt.Errorf("node %s did not discover all %d nodes in time: %w", n.c.Name, len(k.Nodes), ctx.Err())
			}
		}
	}
	return nil, nil
}

// Region returns the first node of a region, or nil.
func (k *Cluster) Region(name string) *Node {
	for _, n := range k.Nodes {
		if n.c.Region == name {
			return n
		}
	}
	return nil
}

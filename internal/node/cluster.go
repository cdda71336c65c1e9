package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/cockroach"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/telemetry"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/seal"
)

// ClusterConfig describes several regions in one process on one store.
type ClusterConfig struct {
	// Dir is the embedded store's directory; responses too large for a row go to
	// Dir/objects unless Objects names another bucket.
	Dir     string
	Objects string
	// Databases is where each region reaches the SQL database: a connection
	// string by region. nil means the embedded store; ReplicaLag, Clock, FS and
	// Fatal are that store's only, and so is what Network charges for rows that
	// are homed elsewhere.
	Databases map[string]string
	// Pool bounds each region's use of its database; zero takes
	// [cockroach.DefaultPool].
	Pool cockroach.Pool

	Regions []ClusterRegion
	Tenants []ClusterTenant
	// Nodes is how many nodes each region has; 0 means 1. Only the first node
	// of a region listens where the region says.
	Nodes    int
	Provider psp.Provider
	// Notifiers read what providers say unasked, by the name in the path.
	Notifiers map[string]psp.Notifier
	// Seal seals what is stored of secrets and persons; nil: it is stored as it is.
	Seal *seal.Ring
	// Compensations bound automatic refunds; the zero value is DefaultCompensations.
	Compensations CompensationSettings
	// Events says who is told of what happened; the zero value tells nobody.
	Events     EventsSettings
	Policy     claim.Policy
	Outbox     OutboxConfig
	Limits     httpapi.Limits
	Network    *wan.Network
	ReplicaLag time.Duration
	// DeputyAfter is how long a region must be out of reach before the others act on
	// its rows. 0 means region.DefaultGrace.
	DeputyAfter time.Duration
	// TopologyEvery is how often each node reads the table of regions. 0 means 5 s.
	TopologyEvery time.Duration
	// SweepEvery is how often rows past their windows are deleted. 0 means 1 min.
	SweepEvery time.Duration
	// Clock is the store's; nil means the system's.
	Clock  func() time.Time
	Logger *slog.Logger
	// WrapStore decorates each node's view of the store, for tests that stop a
	// node at a chosen step. nil leaves it as it is.
	WrapStore func(region string, s Store) Store
	// WrapTransport decorates what each node's forwards travel through, for tests
	// that lose a reply. nil leaves it as it is.
	WrapTransport func(region string, t http.RoundTripper) http.RoundTripper
	// FS is the store's file system, for tests that take its power away. nil
	// means the real one. Objects should be set with it: bodies are not kept there.
	FS vfs.FS
	// Fatal is told when the store cannot be written any more.
	Fatal func(error)
}

// ClusterRegion is one region and where its first node's API listens.
type ClusterRegion struct {
	Name   string
	Code   claim.RegionCode
	Listen string
}

// ClusterTenant is a tenant to have, with its API keys.
type ClusterTenant struct {
	claim.Tenant
	APIKeys []string
}

// Backend is one store under all regions of a cluster. It is safe for concurrent
// use.
type Backend interface {
	// Region is the store as the nodes of a region use it.
	Region(name string) (Store, error)
	// Table is the table of regions as the nodes of a region use it.
	Table(region string) (Table, error)
	// PutTenant writes a tenant and its API keys; one that exists is changed.
	PutTenant(ctx context.Context, t claim.Tenant, apiKeys ...string) error
	// Endpoints keeps where tenants are told of events.
	Endpoints() relay.Endpoints
	// Sweep deletes up to limit rows of each sort that are past their windows.
	Sweep(ctx context.Context, limit int) (removed int, err error)
	Close() error
}

// embeddedBackend is the embedded store, which holds every region's rows.
type embeddedBackend struct{ *embedded.DB }

func (b embeddedBackend) Region(name string) (Store, error) { return b.DB.Region(name) }

func (b embeddedBackend) Endpoints() relay.Endpoints { return b.DB }

func (b embeddedBackend) Table(region string) (Table, error) {
	v, err := b.DB.Region(region)
	return embeddedTable{b.DB, v}, err
}

// sqlBackend is one SQL database, reached by each region in its own way, as the
// region's nodes would if they were processes of their own.
type sqlBackend struct {
	regions []string // in the order of the configuration
	dbs     map[string]*cockroach.DB
}

func openSQL(ctx context.Context, c *ClusterConfig) (_ Backend, err error) {
	b := &sqlBackend{dbs: map[string]*cockroach.DB{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	for _, r := range c.Regions {
		if c.Databases[r.Name] == "" {
			return nil, fmt.Errorf("cluster: region %s has no database; give Databases an entry for every region", r.Name)
		}
		db, err := cockroach.Open(ctx, cockroach.Config{URL: c.Databases[r.Name], Policy: c.Policy, Pool: c.Pool, Trace: telemetry.Enabled(), Logger: c.Logger})
		if err != nil {
			return nil, fmt.Errorf("region %s: %w", r.Name, err)
		}
		b.regions, b.dbs[r.Name] = append(b.regions, r.Name), db
	}
	return b, nil
}

func (b *sqlBackend) view(region string) (*cockroach.View, error) {
	db, ok := b.dbs[region]
	if !ok {
		return nil, fmt.Errorf("cluster: there is no region %q; name one of %q", region, b.regions)
	}
	return db.Region(region)
}

func (b *sqlBackend) Endpoints() relay.Endpoints { return b.dbs[b.regions[0]] }

func (b *sqlBackend) Region(name string) (Store, error) { return b.view(name) }

func (b *sqlBackend) Table(region string) (Table, error) {
	v, err := b.view(region)
	return sqlTable{b.dbs[region], v}, err
}

func (b *sqlBackend) PutTenant(ctx context.Context, t claim.Tenant, apiKeys ...string) error {
	return b.dbs[b.regions[0]].PutTenant(ctx, t, apiKeys...)
}

func (b *sqlBackend) Sweep(ctx context.Context, limit int) (removed int, err error) {
	for _, r := range b.regions { // each keeps pins of its own
		v, err := b.view(r)
		if err != nil {
			return removed, err
		}
		n, err := v.Sweep(ctx, limit)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

func (b *sqlBackend) Close() error {
	var errs []error
	for _, db := range b.dbs {
		errs = append(errs, db.Close())
	}
	return errors.Join(errs...)
}

// Cluster is a running cluster.
type Cluster struct {
	DB    Backend
	Nodes []*Node
	blobs *Blobs
	sinks *Sinks
	sweep context.CancelFunc
	swept chan struct{}
}

// sweepBatch bounds one housekeeping round, in rows: a few milliseconds' work.
const sweepBatch = 1000

// StartCluster opens the store and starts every node.
func StartCluster(ctx context.Context, c ClusterConfig) (_ *Cluster, err error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	var regions []region.Region
	for _, r := range c.Regions {
		regions = append(regions, region.Region{Name: r.Name, Code: r.Code})
	}
	if _, err := region.NewTopology(regions); err != nil {
		return nil, err
	}
	k := &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.Stop(context.WithoutCancel(ctx)))
		}
	}()
	if k.DB, err = openBackend(ctx, &c); err != nil {
		return nil, err
	}
	for _, t := range c.Tenants {
		if err := k.DB.PutTenant(ctx, t.Tenant, t.APIKeys...); err != nil {
			return nil, err
		}
	}
	objects := c.Objects
	if objects == "" {
		dir, err := filepath.Abs(filepath.Join(c.Dir, "objects"))
		if err != nil {
			return nil, err
		}
		objects = "file://" + dir
	}
	if k.blobs, err = OpenBlobs(ctx, objects); err != nil {
		return nil, err
	}
	if k.sinks, err = c.Events.open(ctx, relay.Sealed(k.DB.Endpoints(), c.Seal), c.Logger); err != nil {
		return nil, err
	}
	var seeds []string
	start := uuid.NewString()[:8] // leases of an earlier start are nobody's
	for i := range max(1, c.Nodes) {
		for _, r := range c.Regions {
			store, err := k.DB.Region(r.Name)
			if err != nil {
				return nil, err
			}
			table, err := k.DB.Table(r.Name)
			if err != nil {
				return nil, err
			}
			topology, err := region.NewTopology(regions) // each node's own, as in processes of their own
			if err != nil {
				return nil, err
			}
			if c.WrapStore != nil {
				store = c.WrapStore(r.Name, store)
			}
			listen := r.Listen
			if listen == "" || i > 0 {
				listen = "127.0.0.1:0"
			}
			n, err := Start(ctx, Config{
				Name: r.Name + "-" + strconv.Itoa(i+1) + "-" + start, Region: r.Name,
				APIListen: listen, RPCListen: "127.0.0.1:0", GossipListen: "127.0.0.1:0",
				Seeds: seeds, Topology: topology, Table: table, TopologyEvery: c.TopologyEvery, Store: store, Blobs: k.blobs, Provider: c.Provider,
				Notifiers: c.Notifiers, Seal: c.Seal, Compensations: c.Compensations, Sinks: k.sinks.kinds,
				Policy: c.Policy, Outbox: c.Outbox, Limits: c.Limits, Network: c.Network,
				WrapTransport: c.WrapTransport, LocalGossip: true, DeputyAfter: c.DeputyAfter, Logger: c.Logger,
			})
			if err != nil {
				return nil, err
			}
			k.Nodes = append(k.Nodes, n)
			seeds = append(seeds, n.GossipAddr())
		}
	}
	if err := k.converge(ctx); err != nil {
		return nil, err
	}
	k.startSweep(c)
	return k, nil
}

// openBackend opens the store that c describes; nil comes with every error.
func openBackend(ctx context.Context, c *ClusterConfig) (Backend, error) {
	if c.Databases != nil {
		return openSQL(ctx, c)
	}
	var rows []embedded.Region
	for _, r := range c.Regions {
		rows = append(rows, embedded.Region{Name: r.Name, Code: r.Code})
	}
	db, err := embedded.Open(embedded.Config{
		Dir: c.Dir, Regions: rows, Policy: c.Policy, Network: c.Network, ReplicaLag: c.ReplicaLag,
		Clock: c.Clock, FS: c.FS, Logger: c.Logger, Fatal: c.Fatal,
	})
	if err != nil {
		return nil, err
	}
	return embeddedBackend{db}, nil
}

// converge waits until every node has heard of every other.
func (k *Cluster) converge(ctx context.Context) error {
	for _, n := range k.Nodes {
		for {
			changed := n.membership.Changed()
			if len(n.membership.Members()) >= len(k.Nodes) {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return fmt.Errorf("node %s has not met all %d nodes in time: %w", n.c.Name, len(k.Nodes), ctx.Err())
			}
		}
	}
	return nil
}

func (k *Cluster) startSweep(c ClusterConfig) {
	every := c.SweepEvery
	if every <= 0 {
		every = time.Minute
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.sweep, k.swept = cancel, make(chan struct{})
	go func() {
		defer close(k.swept)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if _, err := k.DB.Sweep(ctx, sweepBatch); err != nil && ctx.Err() == nil {
					c.Logger.Warn("rows past their windows could not be deleted; they count as absent all the same", "error", err)
				}
			}
		}
	}()
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

// Stop drains every node at once and closes the store last.
func (k *Cluster) Stop(ctx context.Context) error {
	errs := make([]error, len(k.Nodes))
	done := make(chan struct{}, len(k.Nodes))
	for i, n := range k.Nodes {
		go func() {
			errs[i] = n.Stop(ctx)
			done <- struct{}{}
		}()
	}
	for range k.Nodes {
		<-done
	}
	if k.sweep != nil {
		k.sweep()
		<-k.swept
		k.sweep = nil
	}
	if k.sinks != nil {
		k.sinks.Close()
		k.sinks = nil
	}
	if k.blobs != nil {
		errs = append(errs, k.blobs.Close())
		k.blobs = nil
	}
	if k.DB != nil {
		errs = append(errs, k.DB.Close())
	}
	return errors.Join(errs...)
}

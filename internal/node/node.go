// Package node assembles a regional node: one process of a deployment (Serve), or a
// whole cluster of them in one process (StartCluster). It opens the shared resources,
// and passes the domain packages their implementations.
package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/internal/runs"
	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/testmode"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/region/admin"
	"github.com/homeward-io/homeward/router"
)

// Config is what one node needs. Name, Region, APIListen, Topology, Store and Blobs are
// required, and what [Peering] and [Payments] say.
type Config struct {
	Tuning
	Peering
	Payments
	// Name is unique in the cluster and per start: it signs leases.
	Name   string
	Region string
	// APIListen is host:port; port 0 takes any.
	APIListen string
	// Topology is the node's own copy of the table of regions, which it keeps up to
	// date.
	Topology *region.Topology
	Store    deployment.Store
	Blobs    claim.Blobs
	// LeaveProviders are names that have been in use, and may have open work, and that
	// the node starts without all the same.
	LeaveProviders []string
	// Seal seals and opens stored secrets and personal data; nil: it stores none of them,
	// and answers providers' notices with an error.
	Seal *seal.Ring
	// Sinks receive events. All nodes of a deployment have the same kinds.
	Sinks map[outbox.Kind]relay.Sink
	// AuditObjects is the bucket for the region's audit segments, which AuditKeys sign;
	// nil: it is not exported.
	AuditObjects audit.Objects
	AuditKeys    *audit.Keys
	// RunsBook stores reports of commands for the console. Nil: none are stored.
	RunsBook *runs.Book
	// Ready returns, in one line for anyone, why this node should get no traffic beside
	// its own reasons; nil: there is none.
	Ready func(context.Context) error
	// Answers returns an error unless the database answers an empty statement before the context ends.
	// Nil: the store always answers.
	Answers func(context.Context) error
	// Meters count the node's work. Nil: nothing is counted. The node closes them.
	Meters *meter.Set
	// Console serves operators; nil: there is none.
	Console *Console
	// Run runs operators' commands on the store; nil: none.
	Run admin.Run
	// Clock is the clock of the ages in metrics; nil means the system's.
	Clock func() time.Time
	// Wall is this machine's clock, which may be wrong and may be set: it dates signatures of
	// notices, and is compared with the store's. Nil means the system's.
	Wall   func() time.Time
	Logger *slog.Logger

	keeper *account.Keeper // of Providers; nil: they are not kept
}

// Peering is how a node meets the others. RPCListen and GossipListen are required.
type Peering struct {
	// RPCListen and GossipListen are host:port; port 0 takes any.
	RPCListen, GossipListen string
	// RPCAdvertise and GossipAdvertise are the host:port that other nodes dial, if it
	// differs from the listen address.
	RPCAdvertise, GossipAdvertise string
	// Seeds are the gossip addresses of other nodes.
	Seeds []string
	// LocalGossip: the members share one machine, so gossip may use short intervals.
	LocalGossip bool
	// GossipKeys, each of 16, 24 or 32 bytes, encrypt gossip: the first encrypts what
	// is sent, any decrypts what is received. Empty: plain text.
	GossipKeys [][]byte
	// TLS authenticates this node to others, and others to it; nil: clear text, for
	// nodes of one machine only.
	TLS *region.TLS
	// Network simulates the distance between regions of one process; nil: none.
	Network *wan.Network
	// Sockets are where the node listens, dials other nodes and a gateway's upstreams, and gossips; nil: the machine's.
	Sockets region.Sockets
	// WrapTransport decorates the transport of forwards; nil leaves it as it is.
	WrapTransport func(region string, t http.RoundTripper) http.RoundTripper
}

// Payments is who moves the money. Providers is required, unless the node is a gateway.
type Payments struct {
	// Providers move the money; the first is the default.
	Providers psp.Providers
	// Failover names the provider to try when one has certainly moved no money. Nil: none.
	Failover map[string]payment.Failover
	// Notifiers verify and parse providers' webhooks, by the name in the path.
	Notifiers map[string]psp.Notifier
	// Gateway makes the node a gateway in front of another API, in place of the API of payments.
	// The node sets what of it is its own: all but Settings, Service and Verify. Nil: it is none.
	Gateway *gateway.Config
	// GatewayTLS is of the gateway's listener; nil: it is plain HTTP.
	GatewayTLS *tls.Config
	// Accounts has the rows of a gateway's tenants.
	Accounts Accounts
}

// Accounts reads and makes the rows of tenants; a deployment does.
type Accounts interface {
	Tenant(ctx context.Context, id string) (claim.Tenant, error)
	PutTenant(ctx context.Context, t claim.Tenant, apiKeys ...string) error
}

// Node is a running node of one region. Its parts set its fields, in their order.
type Node struct {
	c   Config
	log *slog.Logger

	deployment  uuid.UUID
	follower    *follower
	apiListener net.Listener
	rpcListener net.Listener
	conListener net.Listener // of the console; nil: there is none
	membership  *region.Membership
	leftGossip  atomic.Bool
	outages     *region.Outages
	transport   http.RoundTripper // of forwards
	peers       *region.Peers
	gateway     *gateway.Gateway // nil: the node is none
	accounts    accounts         // of the gateway
	service     *claim.Service
	routes      *router.Router
	background  background
	rpc         *http.Server
	admin       *admin.Server
	receiver    *notice.Receiver
	test        *testmode.Provider
	compensator *notice.Compensator
	workers     atomic.Pointer[[]workerSet] // nil while they are being made
	hand        inHand
	export      export
	guard       *claim.Guard
	clock       storeClock
	announced   announced
	verdict     verdict
	traffic     *traffic
	running     parts.Running
	stopping    atomic.Bool
	stopOnce    sync.Once
	stopErr     error
}

// Start starts a node. ctx bounds the start only. If it fails nothing is left running.
func Start(ctx context.Context, c Config) (*Node, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	c.Logger = slog.New(&unpaged{Handler: c.Logger.Handler()})
	n := &Node{c: c, log: c.Logger.With("region", c.Region, "node", c.Name), verdict: verdict{changed: make(chan struct{}, 1)}, announced: announced{changing: semaphore.NewWeighted(1)}}
	n.c.Store = notifying{c.Store, n}
	if err := n.running.Start(ctx, n.parts()...); err != nil {
		return nil, errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
	}
	return n, nil
}

// parts are the parts of a node, in the order of their dependencies: the store first,
// and what makes the node visible to others only when it can answer them.
//
// In reverse they are its drain. The API stops first: a request that was accepted may
// still need a forward, and so may rows in progress, while a node that has left gossip
// finds no peer. So the node leaves gossip after the work has ended, and as the RPC
// server ends: peers that have not noticed yet are served until their last request.
func (n *Node) parts() []parts.Part {
	return []parts.Part{
		n.readDeployment, // before it sends to another node, or trusts one
		n.readRegions,
		n.readRestore, // before anything can begin
		n.checkProviders,
		n.listen, // a taken port is reported before others see this node
		n.openGossip,
		n.openPeers,
		n.startReceiver, // before a test payment may report what happens later
		n.startService,
		n.background.start,
		n.serveRPC,
		n.startWork,
		n.watchRows,
		n.announceVerdict,
		n.watchAccounts,
		n.exportAudit,
		n.reportShadow,
		n.serveAPI,
		n.joinGossip,
		n.observe,
		n.serveConsole,
	}
}

// Stop drains, within ctx: readiness fails, and then the parts of the node stop, the
// API first. A second Stop does nothing.
func (n *Node) Stop(ctx context.Context) error {
	n.stopOnce.Do(func() {
		n.stopping.Store(true)
		n.stopErr = n.running.Stop(ctx)
		n.c.Meters.End()
	})
	return n.stopErr
}

func (n *Node) readDeployment(ctx context.Context) (_ parts.Stop, err error) {
	if n.deployment, err = n.c.Store.DeploymentID(ctx); err != nil {
		return nil, fmt.Errorf("the id of the deployment: %w", err)
	}
	return nil, nil
}

func (n *Node) readRegions(ctx context.Context) (parts.Stop, error) {
	c := &n.c
	n.follower = newFollower(c.Store, c.Topology, c.Region, c.Clock, n.log)
	if err := n.follower.read(ctx); err != nil {
		return nil, fmt.Errorf("the table of regions: %w", err)
	}
	if _, ok := c.code(c.Region); !ok {
		return nil, fmt.Errorf("node %s: region %q is not in the topology; add it with a code of its own", c.Name, c.Region)
	}
	return nil, nil
}

func (n *Node) startService(context.Context) (_ parts.Stop, err error) {
	if n.c.Gateway != nil {
		g := *n.c.Gateway
		g.Region, g.Seal, g.RetryAfter, g.Logger = n.c.Region, n.c.Seal, n.c.Policy.TryAgainAfter(), n.log
		if n.c.Sockets != nil {
			g.Dial = n.c.Sockets.DialContext
		}
		if n.gateway, err = gateway.New(g); err != nil {
			return nil, err
		}
		if err = g.Settings.UnknownRegions(n.c.homes()); err != nil {
			return nil, err
		}
		if lack := g.Settings.WithoutUpstream(n.c.homes()); len(lack) > 0 {
			n.log.Warn("gateway.upstreams lacks regions; this node sends no request of a key that is at home there, also not as its deputy", "regions", lack)
		}
		n.accounts = newAccounts()
	}
	if n.service, err = n.c.service(n.guard, n.gateway, n.log); err != nil {
		return nil, err
	}
	n.service.Start()
	var silent func(context.Context) bool
	if n.c.Answers != nil {
		silent = n.silent
	}
	n.routes = router.New(router.Config{
		Self: n.c.Region, Local: n.acting(), Peers: n.peers, Deputies: n.peers.Deputies(), Pins: n.c.claims(n.guard), Topology: n.c.Topology,
		Unreachable: n.outages.Unreachable, Unready: n.unready, Ready: n.records, Silent: silent, Distance: n.membership.RTT, Meters: n.c.Meters,
	})
	return func(ctx context.Context) error {
		defer n.gateway.Close()
		defer n.service.Stop()
		return n.service.Drain(ctx)
	}, nil
}

func (n *Node) serveAPI(context.Context) (parts.Stop, error) {
	c := &n.c
	code, _ := c.code(c.Region)
	of := httpapi.Config{
		Tenants: tenants{c.Store, n}, Notices: n.receiver, Region: c.Region, RegionCode: code, Limits: c.Limits,
		Providers: slices.DeleteFunc(c.Providers.Names(), func(name string) bool { return name == claim.TestProvider }),
		Elapse:    n.elapse,
		Router:    measure(n.routes, c.Meters), List: n.list, HomeOf: c.home,
		NewKeys: func() (claim.RegionCode, bool) {
			home, ok := n.routes.NewHome()
			return home.Code, ok
		},
		ErrorPages: c.ErrorPages, Random: mints{n.guard}, Ready: n.ready, Answered: n.traffic.answered, Meters: c.Meters, Logger: n.log,
	}
	var api http.Handler
	var err error
	if n.gateway != nil {
		of.Tenant, of.NewTenant = n.gatewayTenant, n.newGatewayTenant
		api, err = httpapi.NewGateway(of, n.gateway)
	} else {
		api, err = httpapi.New(of)
	}
	if err != nil {
		return nil, err
	}
	server := httpapi.NewServer(c.APIListen, n.hand.counting(api, n.gateway != nil), c.Limits, n.log)
	if n.gateway != nil {
		speakAsGateway(server, c.GatewayTLS)
	}
	n.serve("api", server, n.apiListener)
	return func(ctx context.Context) error { return shutdown(ctx, server) }, nil
}

// elapse lets time pass for a test tenant in every region.
func (n *Node) elapse(ctx context.Context, tenant string, by time.Duration) error {
	for _, home := range n.c.homes() {
		if err := n.c.Store.Elapse(ctx, home, tenant, by); err != nil {
			return err
		}
	}
	return nil
}

// APIAddr is the address of this node's API.
func (n *Node) APIAddr() string { return n.apiListener.Addr().String() }

// Name is the node's, as it signs leases.
func (n *Node) Name() string { return n.c.Name }

// Region is where it runs.
func (n *Node) Region() string { return n.c.Region }

// GossipAddr is the gossip address, which other nodes can use as a seed.
func (n *Node) GossipAddr() string { return n.membership.GossipAddr() }

// Sever closes the node's peer listener and every connection on it at once; other nodes
// see this as its death. For drills and tests.
func (n *Node) Sever() error { return n.rpc.Close() }

// Membership is this node's view of the cluster.
func (n *Node) Membership() *region.Membership { return n.membership }

// RPCAddr is the address at which other nodes dial this one.
func (n *Node) RPCAddr() string { return cmp.Or(n.c.RPCAdvertise, n.rpcListener.Addr().String()) }

// ready returns why this node should get no traffic. Not regional: whatever its region
// is.
func (n *Node) ready(ctx context.Context, regional bool) error {
	if n.stopping.Load() {
		return errors.New("this node is shutting down")
	}
	if err := n.follower.takes(); err != nil && regional {
		return err
	}
	return n.records(ctx)
}

// Package node assembles a regional node: one process of a deployment (Serve), or
// a whole cluster of them in one process (StartCluster). It is the only place that
// knows both the domain rooms and the technology rooms.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/recon"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/router"
	"github.com/homeward-io/homeward/seal"
)

// Version is this build's, told to the other nodes for people to read.
var Version = "dev"

// Store is every contract that a node keeps its truth in.
type Store interface {
	claim.Store
	outbox.Store // of provider calls
	outbox.Queues
	outbox.Looker
	ledger.Store
	notice.Store
	recon.Claims
	httpapi.Tenants
}

// Config is what one node needs. Every field but RPCAdvertise, GossipAdvertise,
// Notifiers, Seal, ReadSealed, Compensations, Sinks, Ready, Network, WrapTransport, TLS, GossipKeys and Logger is
// required.
type Config struct {
	// Name is unique in the cluster and per start: it signs leases.
	Name   string
	Region string
	// APIListen, RPCListen and GossipListen are host:port; port 0 takes any.
	APIListen, RPCListen, GossipListen string
	// RPCAdvertise and GossipAdvertise are the host:port that other nodes are told
	// to dial, where it is not the one that is listened on.
	RPCAdvertise, GossipAdvertise string
	// Seeds are the gossip addresses of other nodes.
	Seeds []string
	// Topology is the node's own copy of the table of regions, which it keeps up to
	// date.
	Topology *region.Topology
	Table    Table
	// TopologyEvery is how often it is read; 0 means 5 s.
	TopologyEvery time.Duration
	Store         Store
	Blobs         claim.Blobs
	// Provider moves the money.
	Provider psp.Provider
	// Notifiers read what providers say unasked, by the name in the path.
	Notifiers map[string]psp.Notifier
	// Seal seals what is stored of secrets and persons, and opens it; without keys it is
	// stored as it is. ReadSealed: it opens only.
	Seal       *seal.Ring
	ReadSealed bool
	// Compensations bound automatic refunds.
	Compensations CompensationSettings
	// Sinks are told of what happened; all nodes of a deployment have the same kinds.
	Sinks  map[outbox.Kind]relay.Sink
	Policy claim.Policy
	Outbox OutboxConfig
	Limits httpapi.Limits
	// Ready says in one line fit for anyone why this node should get no traffic,
	// beside what the node knows itself; nil: nothing does.
	Ready func(context.Context) error
	// Network charges the distance between regions of one process; nil: none.
	Network *wan.Network
	// WrapTransport decorates the transport of forwards; nil leaves it as it is.
	WrapTransport func(region string, t http.RoundTripper) http.RoundTripper
	// DeputyAfter is how long another region must be out of reach before this node
	// acts on its rows; 0 means region.DefaultGrace.
	DeputyAfter time.Duration
	// LocalGossip: the members share one machine, so gossip may hurry.
	LocalGossip bool
	// TLS proves to other nodes which region this one is of, and has them prove
	// theirs; nil: clear text, for nodes of one machine only.
	TLS *region.TLS
	// GossipKeys, each of 16, 24 or 32 bytes, encrypt gossip: the first what is sent,
	// all what comes in. Empty: plain text.
	GossipKeys [][]byte
	Logger     *slog.Logger
}

// OutboxConfig is the worker's part of the configuration; zero values take
// outbox.WorkerConfig's defaults.
type OutboxConfig struct {
	Poll  time.Duration `koanf:"poll"`
	Lease time.Duration `koanf:"lease"`
	Batch int           `koanf:"batch"`
}

// Node is one running process's worth of Homeward in one region.
type Node struct {
	c           Config
	service     *claim.Service
	beats       atomic.Pointer[[]beat] // nil while they are being made
	receiver    *notice.Receiver
	compensator *notice.Compensator
	outages     *region.Outages
	follower    *follower
	hand        inHand
	background  context.CancelFunc
	membership  *region.Membership
	left        atomic.Bool // gossip
	peers       *region.Peers
	handler     *region.Handler
	api, rpc    *http.Server
	apiAddr     net.Addr
	rpcAddr     string
	serving     sync.WaitGroup
	stopOnce    sync.Once
	stopErr     error

	mu       sync.Mutex
	stopping bool
}

// Start brings a node up: store first, gossip last, so that nobody is sent to a
// node that cannot answer. ctx bounds the start only.
func Start(ctx context.Context, c Config) (_ *Node, err error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	n := &Node{c: c}
	n.c.Store = waking{c.Store, n}
	c = n.c
	log := c.Logger.With("region", c.Region, "node", c.Name)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
		}
	}()

	n.follower = newFollower(c.Table, c.Topology, c.Region, log)
	if err := n.follower.read(ctx); err != nil {
		return nil, fmt.Errorf("the table of regions: %w", err)
	}
	n.service, err = claim.NewService(claim.Config{
		Store: c.Store, Executor: c.executor(log), Blobs: c.Blobs,
		Policy: c.Policy, Node: c.Name, Region: c.Region, Provider: c.Provider.Name(), Code: c.code,
		Operations: payment.Operations(), Logger: log,
	})
	if err != nil {
		return nil, err
	}

	rpcListener, err := listen("rpc.listen", c.RPCListen)
	if err != nil {
		return nil, err
	}
	n.handler, err = region.NewHandler(region.HandlerConfig{Local: local{n.service, &n.hand.forwards}, Self: c.Region, Topology: c.Topology, Logger: log})
	if err != nil {
		return nil, errors.Join(err, rpcListener.Close())
	}
	rpcMux := http.NewServeMux()
	n.handler.Mount(rpcMux)
	n.rpc = region.NewServer(rpcMux, c.TLS)
	n.serve(log, "rpc", n.rpc, rpcListener)

	apiListener, err := listen("api.listen", c.APIListen)
	if err != nil {
		return nil, err
	}
	n.apiAddr = apiListener.Addr()
	closeAPI := apiListener.Close
	defer func() {
		if err != nil && n.api == nil {
			err = errors.Join(err, closeAPI())
		}
	}()

	gossipHost, gossipPort, err := splitAddr("gossip.listen", c.GossipListen)
	if err != nil {
		return nil, err
	}
	var advertiseHost string
	var advertisePort int
	if c.GossipAdvertise != "" {
		if advertiseHost, advertisePort, err = splitAddr("gossip.advertise", c.GossipAdvertise); err != nil {
			return nil, err
		}
	}
	if n.rpcAddr = c.RPCAdvertise; n.rpcAddr == "" {
		n.rpcAddr = rpcListener.Addr().String()
	}
	n.membership, err = region.NewMembership(region.MembershipConfig{
		Node: c.Name, Region: c.Region, RPCAddr: n.rpcAddr, Version: Version,
		BindAddr: gossipHost, BindPort: gossipPort, AdvertiseAddr: advertiseHost, AdvertisePort: advertisePort,
		Seeds: c.Seeds, SecretKeys: c.GossipKeys,
		LocalTimings: c.LocalGossip, Logger: slog.New(&untilStop{log.Handler(), &n.left}),
	})
	if err != nil {
		return nil, gossipError(c.GossipListen, err)
	}
	transport := c.Network.RoundTripper(region.NewTransport(c.TLS), c.Region, n.membership.RegionOf)
	if c.WrapTransport != nil {
		transport = c.WrapTransport(c.Region, transport)
	}
	n.peers, err = region.NewPeers(region.PeersConfig{
		Directory: n.membership, Transport: transport, TLS: c.TLS != nil, Logger: log,
		Heard: func(region string, answered bool) { n.outages.Heard(region, answered) },
	})
	if err != nil {
		return nil, err
	}
	n.outages = region.NewOutages(region.OutagesConfig{
		Self: c.Region, Topology: c.Topology, Seen: n.membership.LastSeen, Ping: n.peers.Ping, Grace: c.DeputyAfter,
	})
	self, ok := c.Topology.ByName(c.Region)
	if !ok {
		return nil, fmt.Errorf("node %s: region %q is not in the topology; add it with a code of its own", c.Name, c.Region)
	}
	routes := router.New(c.Region, n.service, n.peers, c.Store, c.Topology, n.outages.Lost).WithDistances(n.membership.RTT)
	if err := n.assembleWork(routes, log); err != nil {
		return nil, err
	}
	api, err := httpapi.New(httpapi.Config{
		Tenants: c.Store, Notices: n.receiver, Region: c.Region, RegionCode: self.Code, Limits: c.Limits,
		Router: routes, HomeOf: c.home,
		NewKeys: func() (claim.RegionCode, bool) {
			home, ok := routes.NewHome()
			return home.Code, ok
		},
		Ready: n.ready, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	n.service.Start()
	for _, b := range n.allBeats() {
		for _, w := range b.workers {
			w.Start()
		}
		b.lookout.Start()
	}
	background, stop := context.WithCancel(context.Background())
	n.background = stop
	n.serving.Go(func() { n.outages.Run(background) })
	n.follower.meet(ctx, n.membership.SetDraining)
	n.newAdmin(transport, log).Mount(rpcMux)
	topologyEvery := cmp.Or(c.TopologyEvery, defaultTopologyEvery)
	mine := n.rounds()
	n.serving.Go(func() {
		every(background, log, topologyEvery, func(ctx context.Context) {
			if mine() {
				_ = n.follower.read(ctx)
			}
		})
	})
	n.api = httpapi.NewServer(c.APIListen, n.hand.counting(api), c.Limits, log)
	n.serve(log, "api", n.api, apiListener)
	if len(c.Seeds) > 0 {
		if err := n.membership.Join(ctx, c.Seeds); err != nil {
			// Not fatal: the seeds are knocked at again, and until then requests
			// for keys homed elsewhere are answered 503.
			log.Warn("no seed answered yet", "error", err)
		}
	}
	return n, nil
}

// APIAddr is where merchants reach this node.
func (n *Node) APIAddr() string { return n.apiAddr.String() }

// Name is the node's, as it signs leases.
func (n *Node) Name() string { return n.c.Name }

// Region is where it runs.
func (n *Node) Region() string { return n.c.Region }

// GossipAddr is what other nodes may be seeded with.
func (n *Node) GossipAddr() string { return n.membership.GossipAddr() }

// Sever closes the node's peer listener and every connection on it at once, as
// its death would look to the other nodes. For drills and tests.
func (n *Node) Sever() error { return n.rpc.Close() }

// Membership is this node's view of the cluster.
func (n *Node) Membership() *region.Membership { return n.membership }

// RPCAddr is where other nodes are told to reach this one.
func (n *Node) RPCAddr() string { return n.rpcAddr }

func (n *Node) ready(ctx context.Context) error {
	n.mu.Lock()
	stopping := n.stopping
	n.mu.Unlock()
	if stopping {
		return errors.New("this node is shutting down")
	}
	if err := n.follower.takes(); err != nil {
		return err
	}
	if n.c.Ready != nil {
		return n.c.Ready(ctx)
	}
	return nil
}

func (n *Node) serve(log *slog.Logger, what string, s *http.Server, l net.Listener) {
	n.serving.Go(func() {
		start := s.Serve
		if s.TLSConfig != nil {
			start = func(l net.Listener) error { return s.ServeTLS(l, "", "") } // its files are in TLSConfig
		}
		if err := start(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error("listener failed", "listener", what, "error", err)
		}
	})
}

// leaveTime bounds how long a leaving node waits for its news to go out: a few
// gossip rounds. The last nodes of a cluster have nobody left to tell.
const leaveTime = time.Second

// Stop drains, within ctx: readiness fails, the API closes and finishes its
// requests, outbox rows in hand are finished, gossip is left, and peers that have
// not heard of it yet are served until their last request. Stopping twice is
// stopping once.
func (n *Node) Stop(ctx context.Context) error {
	n.stopOnce.Do(func() { n.stopErr = n.drain(ctx) })
	return n.stopErr
}

// drain keeps to the order in Stop: a request that was accepted may still need
// a forward, and whoever left gossip finds no peer.
func (n *Node) drain(ctx context.Context) error {
	n.mu.Lock()
	n.stopping = true
	n.mu.Unlock()
	var errs []error
	if n.api != nil {
		errs = append(errs, shutdown(ctx, n.api))
	}
	if n.receiver != nil {
		n.receiver.Stop()
	}
	for _, b := range n.allBeats() {
		b.lookout.Stop()
		for _, w := range b.workers {
			errs = append(errs, w.Drain(ctx))
		}
	}
	if n.handler != nil {
		n.handler.SetServing(false)
	}
	if n.membership != nil {
		leave, cancel := context.WithTimeout(ctx, leaveTime)
		if err := n.membership.Leave(leave); err != nil {
			// The others will find out by themselves; nothing depends on the news.
			n.c.Logger.Info("left without a last word", "node", n.c.Name, "error", err)
		}
		cancel()
	}
	if n.rpc != nil {
		errs = append(errs, shutdown(ctx, n.rpc))
	}
	if n.background != nil {
		n.background()
	}
	n.serving.Wait()
	if n.service != nil {
		errs = append(errs, n.service.Drain(ctx))
		n.service.Stop()
	}
	if n.peers != nil {
		errs = append(errs, n.peers.Close())
	}
	n.left.Store(true)
	if n.membership != nil {
		errs = append(errs, n.membership.Close())
	}
	return errors.Join(errs...)
}

// shutdown finishes a server's requests, and cuts off what is left at the end of
// ctx.
func shutdown(ctx context.Context, s *http.Server) error {
	if err := s.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("requests were still open when time ran out: %w", err), s.Close())
	}
	return nil
}

// local is the executor behind the peer handler: it can only act here.
type local struct {
	*claim.Service
	inHand *atomic.Int64
}

func (l local) Execute(ctx context.Context, home string, req claim.Request) (claim.Reply, error) {
	l.inHand.Add(1)
	defer l.inHand.Add(-1)
	return l.Do(ctx, home, &req)
}

func splitAddr(what, addr string) (string, int, error) {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return "", 0, fmt.Errorf("%s address %q: %w; write host:port", what, addr, err)
	}
	if a.IP == nil { // ":7946"
		return net.IPv4zero.String(), a.Port, nil
	}
	return a.IP.String(), a.Port, nil
}

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/build"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/router"
)

// openGossip starts this node's membership. Other nodes may forward to it at once: its
// RPC listener is open, and will be served in a moment.
func (n *Node) openGossip(context.Context) (parts.Stop, error) {
	c := &n.c
	host, port, err := splitAddr("gossip.listen", c.GossipListen)
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
	n.membership, err = region.NewMembership(region.MembershipConfig{
		Deployment: n.deployment, Node: c.Name, Region: c.Region, RPCAddr: n.RPCAddr(), Version: build.Version(),
		BindAddr: host, BindPort: port, AdvertiseAddr: advertiseHost, AdvertisePort: advertisePort,
		Seeds: c.Seeds, SecretKeys: c.GossipKeys,
		Sockets: c.Sockets, LocalTimings: c.LocalGossip, Logger: slog.New(&untilStop{n.log.Handler(), &n.leftGossip}),
	})
	if err != nil {
		return nil, gossipError(c.GossipListen, err)
	}
	return func(context.Context) error {
		n.leftGossip.Store(true)
		return n.membership.Close()
	}, nil
}

// joinGossip exchanges views with the seeds.
func (n *Node) joinGossip(ctx context.Context) (parts.Stop, error) {
	if len(n.c.Seeds) > 0 {
		if err := n.membership.Join(ctx, n.c.Seeds); err != nil {
			// Not fatal: the node probes the seeds again, and until then answers
			// requests for keys homed elsewhere with 503.
			n.log.Warn("no gossip seed has answered yet", "error", err)
		}
	}
	return nil, nil
}

// leaveTime bounds the announcement of a leaving node: a few gossip rounds. The last
// nodes of a cluster have no peers left.
const leaveTime = time.Second

// leaveGossip announces the departure, so that the others send nothing more.
func (n *Node) leaveGossip(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if err := n.membership.Leave(ctx); err != nil {
		// The others will detect the departure; nothing depends on the announcement.
		n.log.Info("gossip leave timed out; peers will detect the departure", "error", err)
	}
}

// gossipError is a ListenError if memberlist, which drops the cause, could not listen.
func gossipError(addr string, err error) error {
	text := err.Error()
	if i := strings.LastIndex(text, "bind: "); i >= 0 {
		return &ListenError{"gossip.listen", addr, errors.New(text[i:])}
	}
	return fmt.Errorf("gossip.listen %s: %w", addr, err)
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

// openPeers makes the client that forwards requests, and the tracker of lost regions that follows
// its calls.
func (n *Node) openPeers(context.Context) (_ parts.Stop, err error) {
	c := &n.c
	n.outages = region.NewOutages(region.OutagesConfig{
		Self: c.Region, Topology: c.Topology, Directory: n.membership, Seen: n.membership.LastSeen, Grace: c.DeputyAfter, Logger: n.log,
	})
	n.traffic = newTraffic(c.Region, n.deputises)
	n.transport = c.Network.RoundTripper(region.NewTransport(c.TLS).Through(c.Sockets), c.Region, n.membership.RegionOf)
	if c.WrapTransport != nil {
		n.transport = c.WrapTransport(c.Region, n.transport)
	}
	if n.peers, err = region.NewPeers(region.PeersConfig{
		Directory: n.membership, Deployment: n.deployment, Transport: n.transport, TLS: c.TLS != nil, Logger: n.log, Outages: n.outages, Meters: c.Meters,
	}); err != nil {
		return nil, err
	}
	return parts.Closing(n.peers.Close), nil
}

// serveRPC answers other nodes, and operators. At the end it leaves gossip, and serves those
// that have not noticed.
func (n *Node) serveRPC(context.Context) (parts.Stop, error) {
	layer := n.c.Meters.Histogram(meter.LayerDuration)
	handler, err := region.NewHandler(region.HandlerConfig{
		Local: local{n.acting(), n.routes, &n.hand.forwards, layer}, Deputy: deputy{n.routes.Deputy(), &n.hand.forwards, layer}, Tenant: n.tenant,
		Self: n.c.Region, Topology: n.c.Topology, Deployment: n.deployment, Logger: n.log,
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	handler.Mount(mux)
	n.admin = n.newAdmin()
	n.admin.Mount(mux)
	n.rpc = region.NewServer(mux, n.c.TLS)
	n.serve("rpc", n.rpc, n.rpcListener)
	n.background.run(func(ctx context.Context) { n.outages.Run(ctx, n.peers.Ping) })
	return func(ctx context.Context) error {
		n.leaveGossip(ctx)
		return shutdown(ctx, n.rpc)
	}, nil
}

// acting is what this node does on the rows that it can reach, without a forward.
type acting struct {
	*claim.Service
	gateway  *gateway.Gateway // nil: the node is none
	present  payment.Present
	canceler notice.Canceler
}

// present reads objects as they are now.
func (n *Node) present() *payment.Present {
	return &payment.Present{Claims: n.service, Books: n.c.Store, Home: n.c.home, Homes: n.c.homes}
}

func (n *Node) acting() acting {
	c := &n.c
	do := func(ctx context.Context, req claim.Request, hint string) (claim.Reply, error) {
		return n.routes.Do(ctx, req, hint)
	}
	inspect := func(ctx context.Context, key claim.Key, hint string) (claim.Status, bool, error) {
		return n.routes.Inspect(ctx, key, hint)
	}
	present := n.present()
	return acting{
		n.service, n.gateway, *present,
		notice.Canceler{Claims: n.service, Compensator: c.compensator(do, inspect, n.log), Left: present.Left, ErrorPages: c.ErrorPages},
	}
}

// Do replaces the service's method, which does not refund the charge of a key that is given up.
func (a acting) Do(ctx context.Context, home string, req *claim.Request) (claim.Reply, error) {
	if req.Operation == claim.CancelKey && a.gateway != nil {
		return gateway.Cancel(ctx, a.Service, home, req)
	}
	if req.Operation == claim.CancelKey {
		return a.canceler.Cancel(ctx, home, req)
	}
	return a.Service.Do(ctx, home, req)
}

// Object replaces the service's method, which has the stored answer.
func (a acting) Object(ctx context.Context, tenant, home, id string) (claim.State, claim.Response, bool, error) {
	return a.present.Object(ctx, tenant, home, id)
}

// local is the executor behind the peer handler: it cannot forward. Nothing waits for a store that
// answers nothing, as the entry may reach it.
type local struct {
	acting
	routes *router.Router
	inHand *atomic.Int64
	layer  *meter.Histogram
}

func (l local) Execute(ctx context.Context, home string, req claim.Request) (claim.Reply, error) {
	l.inHand.Add(1)
	defer l.inHand.Add(-1)
	began := time.Now()
	reply, err := router.Attended(ctx, l.routes, func(ctx context.Context) (claim.Reply, error) { return l.Do(ctx, home, &req) })
	tookAtHome(ctx, l.layer, &req, time.Since(began)-reply.Away)
	return reply, err
}

// Inspect implements [region.Local].
func (l local) Inspect(ctx context.Context, home string, key claim.Key) (claim.Status, bool, error) {
	type answer struct {
		status claim.Status
		found  bool
	}
	got, err := router.Attended(ctx, l.routes, func(ctx context.Context) (a answer, err error) {
		a.status, a.found, err = l.Service.Inspect(ctx, home, key)
		return a, err
	})
	return got.status, got.found, err
}

// Object implements [region.Local].
func (l local) Object(ctx context.Context, tenant, home, id string) (claim.State, claim.Response, bool, error) {
	type answer struct {
		state claim.State
		resp  claim.Response
		found bool
	}
	got, err := router.Attended(ctx, l.routes, func(ctx context.Context) (a answer, err error) {
		a.state, a.resp, a.found, err = l.acting.Object(ctx, tenant, home, id)
		return a, err
	})
	return got.state, got.resp, got.found, err
}

// list lists charges. Nothing waits for a store that answers nothing: the merchant asks another region.
func (n *Node) list(ctx context.Context, l payment.List) ([]json.RawMessage, bool, error) {
	type answer struct {
		page []json.RawMessage
		more bool
	}
	present := n.acting().present
	got, err := router.Attended(ctx, n.routes, func(ctx context.Context) (a answer, err error) {
		a.page, a.more, err = present.Charges(ctx, l)
		return a, err
	})
	return got.page, got.more, err
}

// tenant is [region.HandlerConfig].Tenant.
func (n *Node) tenant(ctx context.Context, key claim.APIKeyHash) (claim.Tenant, bool, error) {
	type answer struct {
		tenant claim.Tenant
		found  bool
	}
	got, err := router.Attended(ctx, n.routes, func(ctx context.Context) (a answer, err error) {
		a.tenant, a.found, err = n.c.Store.TenantByAPIKey(ctx, key)
		return a, err
	})
	return got.tenant, got.found, err
}

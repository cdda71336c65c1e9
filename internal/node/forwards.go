package node

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/region"
)

// openPeers makes what forwards requests, and what learns from them which regions are
// lost.
func (n *Node) openPeers(context.Context) (err error) {
	c := &n.c
	n.outages = region.NewOutages(region.OutagesConfig{
		Self: c.Region, Topology: c.Topology, Seen: n.membership.LastSeen, Grace: c.DeputyAfter,
	})
	n.transport = c.Network.RoundTripper(region.NewTransport(c.TLS), c.Region, n.membership.RegionOf)
	if c.WrapTransport != nil {
		n.transport = c.WrapTransport(c.Region, n.transport)
	}
	n.peers, err = region.NewPeers(region.PeersConfig{
		Directory: n.membership, Transport: n.transport, TLS: c.TLS != nil, Logger: n.log, Heard: n.outages.Heard,
	})
	return err
}

func (n *Node) closePeers(context.Context) error { return n.peers.Close() }

// serveRPC answers other nodes, and operators.
func (n *Node) serveRPC(context.Context) (err error) {
	n.handler, err = region.NewHandler(region.HandlerConfig{
		Local: local{n.service, &n.hand.forwards}, Self: n.c.Region, Topology: n.c.Topology, Logger: n.log,
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	n.handler.Mount(mux)
	n.newAdmin().Mount(mux)
	n.rpc = region.NewServer(mux, n.c.TLS)
	n.serve("rpc", n.rpc, n.rpcListener)
	n.background.run(func(ctx context.Context) { n.outages.Run(ctx, n.peers.Ping) })
	return nil
}

func (n *Node) endRPC(ctx context.Context) error { return shutdown(ctx, n.rpc) }

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

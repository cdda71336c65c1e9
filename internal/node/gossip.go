package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/homeward-io/homeward/region"
)

// openGossip makes this node one that others can hear of. Whoever does may forward to it
// at once: its RPC address is taken, and served in a moment.
func (n *Node) openGossip(context.Context) error {
	c := &n.c
	host, port, err := splitAddr("gossip.listen", c.GossipListen)
	if err != nil {
		return err
	}
	var advertiseHost string
	var advertisePort int
	if c.GossipAdvertise != "" {
		if advertiseHost, advertisePort, err = splitAddr("gossip.advertise", c.GossipAdvertise); err != nil {
			return err
		}
	}
	n.membership, err = region.NewMembership(region.MembershipConfig{
		Node: c.Name, Region: c.Region, RPCAddr: n.RPCAddr(), Version: Version,
		BindAddr: host, BindPort: port, AdvertiseAddr: advertiseHost, AdvertisePort: advertisePort,
		Seeds: c.Seeds, SecretKeys: c.GossipKeys,
		LocalTimings: c.LocalGossip, Logger: slog.New(&untilStop{n.log.Handler(), &n.left}),
	})
	if err != nil {
		return gossipError(c.GossipListen, err)
	}
	return nil
}

func (n *Node) closeGossip(context.Context) error {
	n.left.Store(true)
	return n.membership.Close()
}

// joinGossip asks the seeds where everybody is.
func (n *Node) joinGossip(ctx context.Context) error {
	if len(n.c.Seeds) == 0 {
		return nil
	}
	if err := n.membership.Join(ctx, n.c.Seeds); err != nil {
		// Not fatal: the seeds are knocked at again, and until then requests
		// for keys homed elsewhere are answered 503.
		n.log.Warn("no seed answered yet", "error", err)
	}
	return nil
}

// leaveTime bounds how long a leaving node waits for its news to go out: a few
// gossip rounds. The last nodes of a cluster have nobody left to tell.
const leaveTime = time.Second

// leaveGossip tells the others to send nothing more.
func (n *Node) leaveGossip(ctx context.Context) error {
	n.handler.SetServing(false)
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if err := n.membership.Leave(ctx); err != nil {
		// The others will find out by themselves; nothing depends on the news.
		n.log.Info("left without a last word", "error", err)
	}
	return nil
}

// gossipError is a ListenError where memberlist, which keeps no causes, could not
// listen.
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

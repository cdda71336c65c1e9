package region

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/memberlist"
)

// Limits and times of membership. Gossip's own are memberlist's WAN profile
// (local profile with [MembershipConfig.LocalTimings]) but for these.
const (
	// RejoinEvery is how often the node probes the seeds that it does not see alive, so
	// that two sides of a healed partition meet again: memberlist itself gives up a
	// dead node after GossipToTheDead, a minute. RejoinEveryLocal is the same with
	// LocalTimings.
	RejoinEvery      = 30 * time.Second
	RejoinEveryLocal = time.Second
	// StreamTimeout bounds dialling a member and each read and write of a full
	// exchange. memberlist's 30 s would keep a shutdown waiting; the longest round
	// trip between regions is 0.4 s.
	StreamTimeout = 10 * time.Second
	// ReclaimAfter is how long a dead node's name is kept from a node with
	// another address. A rescheduled node comes back under its name with a new
	// address; 15 s is less than it takes to start, more than gossip's jitter.
	ReclaimAfter = 15 * time.Second
	// LeaveTimeout bounds how long Leave, SetDraining, SetReady and SetVersions wait for the change to
	// be sent if their context has no earlier deadline.
	LeaveTimeout = 5 * time.Second
	// localRetransmit and localExchangeEvery replace memberlist's local profile's 2 and 15 s. Among
	// half a dozen nodes, an update that is retransmitted so rarely often misses one of them, which
	// then gets it only in the next full exchange.
	localRetransmit    = 4
	localExchangeEvery = 5 * time.Second
	// clusterLabel keeps packets of other memberlist clusters (Consul and the like
	// share its default ports) out.
	clusterLabel = "homeward/1"
)

// ErrClosed: the membership was left or closed.
var ErrClosed = errors.New("region: membership is closed")

// MembershipConfig configures a [Membership].
type MembershipConfig struct {
	// Deployment is this node's: it believes nothing of members of another. Required.
	Deployment uuid.UUID
	// Node is this node's name, unique in the deployment. Required.
	Node string
	// Region is where it runs. Required.
	Region string
	// RPCAddr is the host:port at which the other nodes reach its Handler.
	// Required.
	RPCAddr string
	// Version is this build's version, for display. Optional, at most 64 bytes.
	Version string
	// BindAddr and BindPort are where gossip listens, TCP and UDP. Port 0 takes a
	// free one, see [Membership.GossipAddr]. Default 0.0.0.0.
	BindAddr string
	BindPort int
	// AdvertiseAddr, an IP address, and AdvertisePort are the address to
	// announce if it differs from the bound one (address translation). Default:
	// the bound address.
	AdvertiseAddr string
	AdvertisePort int
	// Seeds are gossip host:ports of others: at least one per region. A seed
	// that is not seen alive is probed every RejoinEvery.
	Seeds []string
	// SecretKeys, each of 16, 24 or 32 bytes, encrypt and authenticate all gossip
	// (AES-GCM). The first encrypts what this node sends; it accepts messages under
	// any of them, so that a deployment can rotate keys. Empty: plain text, for one
	// machine only.
	SecretKeys [][]byte
	// Sockets replaces the network, for tests. Default: UDP and TCP.
	Sockets Sockets
	// LocalTimings detects failures in seconds rather than a minute: for nodes on
	// one machine or in one zone.
	LocalTimings bool
	// Clock is the clock of LastSeen. Default time.Now.
	Clock func() time.Time
	// Logger also receives memberlist's lines. Default: discard.
	Logger *slog.Logger

	// tune changes the timings in tests.
	tune func(*memberlist.Config)
	// rejoinEvery replaces RejoinEvery in tests.
	rejoinEvery time.Duration
}

// Membership is this node's view of the live nodes: a routing hint, see the
// package documentation. All methods are safe for concurrent use. Reads never
// wait for the network.
type Membership struct {
	list        *memberlist.Memberlist
	addr        string // of its gossip; memberlist rewrites its own with each announcement
	view        *view
	seeds       []string
	rejoinEvery time.Duration
	log         *slog.Logger

	// turn orders announcements and Leave, which wait for gossip: no reader waits behind them.
	turn   chan struct{}
	mu     sync.Mutex // guards left and closed
	left   bool
	closed bool
	stop   chan struct{}
}

// NewMembership starts to listen and to answer. Its first members are this node and the seeds that
// answer its first probe. It returns a one-line error if the configuration is wrong or the address
// is in use. The caller must call Close.
func NewMembership(cfg MembershipConfig) (*Membership, error) {
	if cfg.Node == "" {
		return nil, errors.New("membership: the node has no name; set one that is unique in the deployment")
	}
	if cfg.Deployment == uuid.Nil {
		return nil, errors.New("membership: the deployment has no id")
	}
	keys, err := keyring(cfg.SecretKeys)
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	self := Node{Deployment: cfg.Deployment, Name: cfg.Node, Region: cfg.Region, RPCAddr: cfg.RPCAddr, Version: cfg.Version, Self: true}
	if _, err := encodeMeta(self); err != nil {
		return nil, fmt.Errorf("membership: %w", err)
	}

	conf := memberlist.DefaultWANConfig()
	rejoin := RejoinEvery
	if cfg.LocalTimings {
		conf, rejoin = memberlist.DefaultLocalConfig(), RejoinEveryLocal
		conf.RetransmitMult, conf.PushPullInterval = localRetransmit, localExchangeEvery
	}
	v := newView(self, cfg.Clock, cfg.Logger)
	conf.Name = cfg.Node
	conf.TCPTimeout = min(conf.TCPTimeout, StreamTimeout)
	conf.DeadNodeReclaimTime = ReclaimAfter
	conf.Label = clusterLabel
	conf.Keyring = keys
	conf.BindPort = cfg.BindPort
	if cfg.BindAddr != "" {
		conf.BindAddr = cfg.BindAddr
	}
	conf.AdvertiseAddr, conf.AdvertisePort = cfg.AdvertiseAddr, cfg.AdvertisePort
	if conf.AdvertisePort == 0 {
		conf.AdvertisePort = cfg.BindPort
	}
	conf.Logger = stdLogger(cfg.Logger)
	conf.Delegate, conf.Events, conf.Ping, conf.Alive, conf.Merge = v, v, v, v, v
	if cfg.tune != nil {
		cfg.tune(conf)
	}
	if cfg.rejoinEvery > 0 {
		rejoin = cfg.rejoinEvery
	}
	cannot := func(err error) error {
		return fmt.Errorf("membership: cannot listen for gossip on %s: %w", net.JoinHostPort(conf.BindAddr, strconv.Itoa(conf.BindPort)), err)
	}
	if cfg.Sockets != nil {
		conf.Transport, err = cfg.Sockets.Gossip(conf.BindAddr, conf.BindPort)
	} else {
		conf.Transport, err = listenGossip(conf)
	}
	if err != nil {
		return nil, cannot(err)
	}
	list, err := memberlist.Create(conf)
	if err != nil {
		_ = conf.Transport.Shutdown()
		return nil, cannot(err)
	}
	m := &Membership{
		list: list, addr: list.LocalNode().Address(), view: v, seeds: slices.Clone(cfg.Seeds), rejoinEvery: rejoin, log: cfg.Logger,
		turn: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	if len(m.seeds) > 0 {
		go m.keepJoining()
	}
	return m, nil
}

// keyring returns nil for no keys.
func keyring(keys [][]byte) (*memberlist.Keyring, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	for i, k := range keys {
		if memberlist.ValidateKey(k) != nil {
			return nil, fmt.Errorf("membership: gossip key %d of %d has %d bytes; give it 16, 24 or 32", i+1, len(keys), len(k))
		}
	}
	return memberlist.NewKeyring(keys, keys[0])
}

// GossipAddr returns the host:port of this node's gossip, which other nodes can
// use as a seed.
func (m *Membership) GossipAddr() string { return m.addr }

// Join exchanges views with seeds (nil: the configured ones). It succeeds if at
// least one answered; gossip finds the others. If ctx ends first, Join returns
// its error, and the exchange in progress ends by StreamTimeout.
func (m *Membership) Join(ctx context.Context, seeds []string) error {
	if seeds == nil {
		seeds = m.seeds
	}
	if len(seeds) == 0 {
		return nil
	}
	return m.within(ctx, func() error {
		if _, err := m.list.Join(seeds); err != nil {
			return fmt.Errorf("membership: no seed answered: %w", err)
		}
		return nil
	})
}

// SetDraining announces whether the others should choose this node last. It
// returns when at least one member has been sent the change, or at once if
// there is none.
func (m *Membership) SetDraining(ctx context.Context, draining bool) error {
	return m.announce(ctx, func() { m.view.setDraining(draining) })
}

// SetReady announces, as SetDraining does, whether this node can record a charge.
func (m *Membership) SetReady(ctx context.Context, ready bool) error {
	return m.announce(ctx, func() { m.view.setReady(ready) })
}

// SetVersions announces what this node has read, as SetDraining does. If it times out, the others
// get it all the same: the broadcast continues, and so do full exchanges.
func (m *Membership) SetVersions(ctx context.Context, k Versions) error {
	return m.announce(ctx, func() { m.view.setVersions(k) })
}

// announce announces this node as it is after change.
func (m *Membership) announce(ctx context.Context, change func()) error {
	return m.within(ctx, func() error {
		m.turn <- struct{}{}
		defer func() { <-m.turn }()
		if m.hasLeft() {
			return ErrClosed
		}
		change()
		return m.list.UpdateNode(timeoutOf(ctx))
	})
}

// Leave announces that this node leaves on purpose, so that the others drop it
// at once. The node still sees them until Close. Leave does not wait for anybody to hear it if all
// others have left, too. A second Leave does nothing.
func (m *Membership) Leave(ctx context.Context) error {
	return m.within(ctx, func() error {
		m.turn <- struct{}{}
		defer func() { <-m.turn }()
		m.mu.Lock()
		left := m.left
		m.left = true
		m.mu.Unlock()
		if left {
			return nil
		}
		heard := make(chan error, 1)
		go func() { heard <- m.list.Leave(timeoutOf(ctx)) }()
		for {
			changed := m.Changed()
			if len(m.Members()) == 0 { // this node is a member until list.Leave has begun
				return nil
			}
			select {
			case err := <-heard:
				return err
			case <-changed:
			}
		}
	})
}

func (m *Membership) hasLeft() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left
}

// Close stops listening. Without a prior Leave the others detect the departure
// by failed probes. A second Close does nothing. A probe of a seed that does not
// answer may outlive Close by StreamTimeout at most, without effect.
func (m *Membership) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.left, m.closed = true, true
	close(m.stop)
	return m.list.Shutdown()
}

// within runs f, which cannot be interrupted but ends by a time-out of its own,
// and waits for it or ctx.
func (m *Membership) within(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-m.stop:
		return ErrClosed
	default:
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// timeoutOf is LeaveTimeout, or what is left until ctx's deadline if that is
// less. memberlist takes a time-out of 0 for none, so it never is.
func timeoutOf(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(min(time.Until(deadline), LeaveTimeout), time.Millisecond)
	}
	return LeaveTimeout
}

// keepJoining probes the seeds that are not among the live members.
func (m *Membership) keepJoining() {
	ticker := time.NewTicker(m.rejoinEvery)
	defer ticker.Stop()
	for {
		if absent := m.absentSeeds(); len(absent) > 0 {
			// memberlist logs the failures, and the view whom it refuses.
			_, _ = m.list.Join(absent)
		}
		select {
		case <-ticker.C:
		case <-m.stop:
			return
		}
	}
}

// absentSeeds returns the seeds that are not the literal address of a live member. A
// seed given by host name cannot be compared and is always probed: that is one exchange
// per period, as often as memberlist exchanges anyway.
func (m *Membership) absentSeeds() []string {
	if m.hasLeft() {
		return nil
	}
	live := m.view.reachable()
	return slices.DeleteFunc(slices.Clone(m.seeds), func(seed string) bool { return live[seed] })
}

// Nodes returns region's live nodes: those that drain come after the others, and those that cannot
// record a charge last; then by name. The slice is
// shared: do not modify it. It is empty if gossip shows no live node.
func (m *Membership) Nodes(region string) []Node { return m.view.load().byRegion[region] }

// Members returns every live node, this one included, sorted by region and
// name. The slice is shared: do not modify it.
func (m *Membership) Members() []Node { return m.view.load().all }

// Alive reports whether gossip shows a live node of region, draining or not.
func (m *Membership) Alive(region string) bool { return len(m.Nodes(region)) > 0 }

// RegionOf returns the region of the live node with this RPC address, or "".
func (m *Membership) RegionOf(rpcAddr string) string { return m.view.load().byAddr[rpcAddr] }

// RTT returns the round-trip time to region's nearest live node, smoothed over
// gossip's probes. ok is false while none has been probed, and for this node
// alone in its region.
func (m *Membership) RTT(region string) (rtt time.Duration, ok bool) { return m.view.rtt(region) }

// LastSeen returns when region last had a live node, by Clock: now, if it has
// one. Zero if it never had one since this node started.
func (m *Membership) LastSeen(region string) time.Time { return m.view.lastSeen(region) }

// Changed returns a channel that is closed at the next change of what the other methods return (for
// RTT: when a node's first is measured). Take the channel before reading, and take a new one after
// it closed; then no change is missed, though several may arrive as one.
func (m *Membership) Changed() <-chan struct{} { return m.view.load().changed }

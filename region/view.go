package region

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/memberlist"
)

// rttWeight is the share of a new measurement in the smoothed round-trip time:
// 1/8, as in TCP (RFC 6298).
const rttWeight = 8

// view turns memberlist's events into the answers of Membership. memberlist calls its
// delegates from its packet loop, often with its own lock held, so nothing here blocks
// or calls back.
type view struct {
	log        *slog.Logger
	clock      func() time.Time
	deployment uuid.UUID

	mu    sync.Mutex
	self  Node
	nodes map[string]Node
	rtts  map[string]time.Duration
	// gossip is each member's gossip address. memberlist's own list of members
	// points into its state, which is written while a reader holds it.
	gossip map[string]string
	// gone is when a region's last live node left.
	gone map[string]time.Time
	// refused are the live members with metadata that did not decode, so that each is logged once.
	refused map[string]bool

	strangers strangers

	snap atomic.Pointer[snapshot]
}

// snapshot is immutable except for changed, which is closed when the snapshot is
// replaced.
type snapshot struct {
	all      []Node
	byRegion map[string][]Node
	byAddr   map[string]string
	changed  chan struct{}
}

var (
	_ memberlist.Delegate      = (*view)(nil)
	_ memberlist.EventDelegate = (*view)(nil)
	_ memberlist.PingDelegate  = (*view)(nil)
	_ memberlist.AliveDelegate = (*view)(nil)
	_ memberlist.MergeDelegate = (*view)(nil)
)

func newView(self Node, clock func() time.Time, log *slog.Logger) *view {
	v := &view{
		log: log, clock: clock, deployment: self.Deployment, self: self,
		nodes:   make(map[string]Node),
		rtts:    make(map[string]time.Duration),
		gossip:  make(map[string]string),
		gone:    make(map[string]time.Time),
		refused: make(map[string]bool),
	}
	v.snap.Store(&snapshot{changed: make(chan struct{})})
	return v
}

func (v *view) load() *snapshot { return v.snap.Load() }

// publish replaces the snapshot and wakes the waiters. The caller holds mu.
func (v *view) publish() {
	next := &snapshot{
		all:      make([]Node, 0, len(v.nodes)),
		byRegion: make(map[string][]Node),
		byAddr:   make(map[string]string, len(v.nodes)),
		changed:  make(chan struct{}),
	}
	for _, n := range v.nodes {
		next.all = append(next.all, n)
		next.byAddr[n.RPCAddr] = n.Region
	}
	slices.SortFunc(next.all, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Name, b.Name))
	})
	for _, n := range next.all {
		next.byRegion[n.Region] = append(next.byRegion[n.Region], n)
	}
	for _, nodes := range next.byRegion {
		slices.SortStableFunc(nodes, func(a, b Node) int { return cmp.Compare(a.rank(), b.rank()) })
	}
	close(v.snap.Swap(next).changed)
}

// put stores a member's new description; drop removes a member.
func (v *view) put(name string, meta []byte) {
	n, err := decodeMeta(name, meta, v.clock())
	v.mu.Lock()
	if err != nil {
		first := !v.refused[name]
		v.refused[name] = true
		v.remove(name)
		v.mu.Unlock()
		if first {
			v.log.Warn("a member's metadata cannot be decoded and is ignored; it may be of another version, or of another system", "member", name, "error", err)
		}
		return
	}
	defer v.mu.Unlock()
	delete(v.refused, name)
	n.Self = name == v.self.Name
	old, ok := v.nodes[name]
	if ok && old.Region != n.Region {
		v.remove(name)
	}
	if !n.UnreadySince.IsZero() && !old.UnreadySince.IsZero() {
		n.UnreadySince = old.UnreadySince // it says so still
	}
	v.nodes[name] = n
	delete(v.gone, n.Region)
	v.publish()
}

func (v *view) drop(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.refused, name)
	delete(v.gossip, name)
	v.remove(name)
}

// remove deletes a node, and records when its region lost its last one. The caller
// holds mu.
func (v *view) remove(name string) {
	n, ok := v.nodes[name]
	if !ok {
		return
	}
	delete(v.nodes, name)
	delete(v.rtts, name)
	for _, other := range v.nodes {
		if other.Region == n.Region {
			v.publish()
			return
		}
	}
	v.gone[n.Region] = v.clock()
	v.publish()
}

func (v *view) setDraining(draining bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.self.Draining = draining
}

func (v *view) setReady(ready bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case ready:
		v.self.UnreadySince = time.Time{}
	case v.self.UnreadySince.IsZero():
		v.self.UnreadySince = v.clock()
	}
}

func (v *view) setVersions(k Versions) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.self.Versions = k
}

func (v *view) lastSeen(region string) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, n := range v.nodes {
		if n.Region == region {
			return v.clock()
		}
	}
	return v.gone[region]
}

func (v *view) rtt(region string) (time.Duration, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var nearest time.Duration
	found := false
	for name, rtt := range v.rtts {
		if v.nodes[name].Region == region && (!found || rtt < nearest) {
			nearest, found = rtt, true
		}
	}
	return nearest, found
}

// NotifyMerge refuses the whole view of a node that has members of another deployment: the keys of
// gossip were copied, and an address was reused or mistaken.
func (v *view) NotifyMerge(peers []*memberlist.Node) error {
	for _, n := range peers {
		if err := v.NotifyAlive(n); err != nil {
			return err
		}
	}
	return nil
}

// NotifyAlive refuses a member of another deployment, which then is no member. One whose
// metadata cannot be decoded names none; put ignores it.
func (v *view) NotifyAlive(n *memberlist.Node) error {
	var refused error
	if other, err := decodeMeta(n.Name, n.Meta, v.clock()); err == nil {
		refused = sameDeployment(v.deployment, other.Deployment)
		if refused != nil && v.strangers.first(stranger{other.Deployment, n.Name}, v.clock()) {
			v.log.Warn("a member of another deployment was met, and its gossip was refused", "member", n.Name, "address", n.Address(), "error", refused)
		}
	}
	return refused
}

// NotifyJoin, NotifyUpdate and NotifyLeave are memberlist's; they copy what they
// keep, as decodeMeta does.
func (v *view) NotifyJoin(n *memberlist.Node)   { v.keepAddress(n); v.put(n.Name, n.Meta) }
func (v *view) NotifyUpdate(n *memberlist.Node) { v.keepAddress(n); v.put(n.Name, n.Meta) }
func (v *view) NotifyLeave(n *memberlist.Node)  { v.drop(n.Name) }

// keepAddress keeps a member's gossip address, whether its metadata decodes or not.
func (v *view) keepAddress(n *memberlist.Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gossip[n.Name] = n.Address()
}

// reachable returns the gossip addresses of the live members.
func (v *view) reachable() map[string]bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	live := make(map[string]bool, len(v.gossip))
	for _, addr := range v.gossip {
		live[addr] = true
	}
	return live
}

// NodeMeta returns this node's metadata.
func (v *view) NodeMeta(limit int) []byte {
	v.mu.Lock()
	self := v.self
	v.mu.Unlock()
	b, err := encodeMeta(self)
	if err != nil || len(b) > limit {
		// NewMembership encoded the same node; only parts of one size have changed.
		v.log.Error("this node's metadata cannot be encoded; the others will ignore this node", "error", err, "bytes", len(b), "limit", limit)
		return nil
	}
	return b
}

// NotifyPingComplete records one measured round trip.
func (v *view) NotifyPingComplete(other *memberlist.Node, rtt time.Duration, _ []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.nodes[other.Name]; !ok {
		return
	}
	old, measured := v.rtts[other.Name]
	if !measured {
		v.rtts[other.Name] = rtt
		v.publish()
		return
	}
	v.rtts[other.Name] = old + (rtt-old)/rttWeight
}

// Nothing but metadata is gossiped.

func (v *view) AckPayload() []byte                         { return nil }
func (v *view) NotifyMsg([]byte)                           {}
func (v *view) GetBroadcasts(overhead, limit int) [][]byte { return nil }
func (v *view) LocalState(join bool) []byte                { return nil }
func (v *view) MergeRemoteState(buf []byte, join bool)     {}

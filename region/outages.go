package region

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// DefaultGrace is how long a region must be out of reach, or of its store, before others finish its
// due rows.
// It is longer than a node takes to restart and gossip to settle, and short against a
// merchant's patience. It costs time, never safety: leases and fences stop a deputy
// that acts too early.
const DefaultGrace = 10 * time.Second

// probeEvery is how often a node is pinged that gossip sees and calls do not reach;
// probeTimeout is above the longest round trip between regions and a dial.
const (
	probeEvery   = time.Second
	probeTimeout = 3 * time.Second
)

// OutagesConfig configures an [Outages]. All but Grace, Clock and Logger are required.
type OutagesConfig struct {
	// Self is this node's region, which is never lost.
	Self     string
	Topology *Topology
	// Directory lists the nodes that gossip sees, and Seen returns when it last saw one of
	// a region; zero: never. Pass a [Membership] and its LastSeen.
	Directory Directory
	Seen      func(region string) time.Time
	// Grace; 0 means DefaultGrace.
	Grace time.Duration
	// Clock, the same as Seen's; nil means time.Now.
	Clock func() time.Time
	// Logger logs the nodes that fall silent and the regions that are lost, once each, and
	// their return. Default: discard.
	Logger *slog.Logger
}

// Outages tracks the regions that cannot be reached, or cannot reach their store, whose requests
// the other regions serve at once, and the lost ones: those of either kind for the grace time, or
// marked down by an operator. Then the others, the deputies, also serve their due outbox rows.
//
// It is a hint like all of membership. A region may be lost to one node and not
// to another, or be alive behind a partition: both sides then act on the same
// rows, and the rows decide.
//
// What gossip sees and what calls reach are kept apart, and so are both directions of a way: each
// node counts only its own calls. A region is out of reach if gossip has no live node of it, or if
// none of those that it has answers calls (a port that is closed to requests alone). A node that
// gave no answer is silent until it answers one of the pings that Run sends in packets of full
// size; a small call that it answers ends nothing. [Outages.Lost] turns true once the grace has
// passed since the first call without an answer (one that had waited long, over a connection that
// then broke, counts from shortly before that), and each node has had the time of a ping. It is
// safe for concurrent use; the methods that hear of calls do nothing on nil.
type Outages struct {
	c       OutagesConfig
	started time.Time

	mu sync.Mutex
	// quiet has the nodes that gave no answer to a call, and to no ping since, by name. Those of
	// a region of which gossip sees no node any more stay: its silence did not begin anew.
	quiet map[string]quiet
	// answered is when a node of a region last answered.
	answered map[string]time.Time
}

// quiet is a node without an answer.
type quiet struct {
	region string
	// since is when the call began that it did not answer.
	since time.Time
	// silent: it had its time. Otherwise a ping decides.
	silent bool
}

// NewOutages returns an Outages in which every region is reachable at first.
func NewOutages(c OutagesConfig) *Outages {
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Outages{c: c, started: c.Clock(), quiet: map[string]quiet{}, answered: map[string]time.Time{}}
}

// Answered records an answer of any kind to a call. It ends no silence and no doubt: the call
// may have been small, where large packets are dropped.
func (o *Outages) Answered(node Node) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.quiet[node.Name]; !ok {
		o.answered[node.Region] = o.c.Clock()
	}
}

// reached records an answer to a ping.
func (o *Outages) reached(node Node) {
	o.mu.Lock()
	q, ok := o.quiet[node.Name]
	delete(o.quiet, node.Name)
	o.answered[node.Region] = o.c.Clock()
	o.mu.Unlock()
	if ok && q.silent {
		o.c.Logger.Info("a node answers calls again", "peer", node.Region, "of", node.Name, "addr", node.RPCAddr, "after", o.c.Clock().Sub(q.since).Round(time.Millisecond))
	}
}

// Missed records that node gave no answer to a call that began then, and what failed. The
// other nodes of its region are in doubt since then and pinged: where a region's port was
// closed none has to wait for a request to find out.
func (o *Outages) Missed(node Node, began time.Time, failed string) {
	if o == nil {
		return
	}
	o.mu.Lock()
	q, ok := o.quiet[node.Name]
	if ok && q.silent {
		o.mu.Unlock()
		return
	}
	if !ok {
		q = quiet{region: node.Region, since: o.ago(began)}
	}
	q.silent = true
	o.quiet[node.Name] = q
	for _, other := range o.c.Directory.Nodes(node.Region) {
		if _, ok := o.quiet[other.Name]; !ok && !other.Self {
			o.quiet[other.Name] = quiet{region: node.Region, since: q.since}
		}
	}
	o.mu.Unlock()
	o.c.Logger.Warn("a node does not answer calls, although gossip sees it; it is tried last, and pinged until it answers",
		"peer", node.Region, "of", node.Name, "addr", node.RPCAddr, "failed", failed)
}

// Doubted records that node gave no answer to a call that began then while its caller
// waited, which may be the caller's doing: a ping decides.
func (o *Outages) Doubted(node Node, began time.Time) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.quiet[node.Name]; !ok {
		o.quiet[node.Name] = quiet{region: node.Region, since: o.ago(began)}
	}
}

// ago is when, by the Clock, a node fell silent that gave no answer to a call that began then. The
// call may have waited long for a slow answer, over a connection that was alive: one that is not
// is noticed within deadAfter, and what cannot be dialled within some more.
func (o *Outages) ago(began time.Time) time.Time {
	return o.c.Clock().Add(-min(time.Since(began), 2*deadAfter))
}

// putLast moves the silent ones of nodes to the end.
func (o *Outages) putLast(nodes []Node) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.quiet) == 0 {
		return
	}
	slices.SortStableFunc(nodes, func(a, b Node) int {
		switch x, y := o.quiet[a.Name].silent, o.quiet[b.Name].silent; {
		case x == y:
			return 0
		case x:
			return 1
		default:
			return -1
		}
	})
}

// Silent returns the nodes of region that gossip sees and calls do not reach, sorted by
// name.
func (o *Outages) Silent(region string) []string {
	var silent []string
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.c.Directory.Nodes(region) {
		if o.quiet[n.Name].silent {
			silent = append(silent, n.Name)
		}
	}
	slices.Sort(silent)
	return silent
}

// Lost reports whether other regions may act as deputies of region now.
func (o *Outages) Lost(region string) bool { return o.why(region) != "" }

// Unready reports whether each node of region that gossip sees said that it cannot record a
// charge: calls reach it, and it would answer that its store is unavailable. It turns with
// gossip. A hint, like all of this.
func (o *Outages) Unready(region string) bool {
	nodes := o.c.Directory.Nodes(region)
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n Node) bool { return n.UnreadySince.IsZero() })
}

// Unreachable reports whether a call to region would be wasted: it is lost, gossip sees no
// node of it, or each node that gossip sees is silent. It turns with the first calls and
// pings that get no answer or get one. Who finds a region so acts on its rows at once; what
// is costly when wrong waits until the region is lost. Of this node's own region: whether no
// other node of it is of use.
func (o *Outages) Unreachable(region string) bool {
	if region == o.c.Self {
		o.mu.Lock()
		defer o.mu.Unlock()
		return !slices.ContainsFunc(o.c.Directory.Nodes(region), func(n Node) bool {
			return !n.Self && n.UnreadySince.IsZero() && !o.quiet[n.Name].silent
		})
	}
	_, silent := o.silentSince(region)
	return silent || len(o.c.Directory.Nodes(region)) == 0 || o.Lost(region)
}

// The states of the circuit to a region, see [Outages.Circuit].
const (
	Closed   = "closed"
	HalfOpen = "half-open"
	Open     = "open"
)

// Circuit returns what becomes of requests for a region's keys at this node. Closed: it forwards
// them. Otherwise it acts on the rows itself: half-open while none of the region's nodes answers
// calls and those that gossip sees are pinged, the first of which to answer closes it; open while
// there is nobody to ping, or the nodes said that they cannot record a charge.
func (o *Outages) Circuit(region string) string {
	switch {
	case region == o.c.Self:
		return Closed
	case o.Unready(region), len(o.c.Directory.Nodes(region)) == 0:
		return Open
	}
	if _, silent := o.silentSince(region); silent {
		return HalfOpen
	}
	if o.Lost(region) {
		return Open
	}
	return Closed
}

// Why a region is lost.
const (
	markedDown  = "an operator marked it down"
	outOfGossip = "gossip sees none of its nodes"
	outOfCalls  = "none of its nodes answers calls"
	outOfStore  = "none of its nodes can record anything"
)

// why returns why region is lost; "": it is not.
func (o *Outages) why(region string) string {
	r, ok := o.c.Topology.ByName(region)
	if !ok || region == o.c.Self {
		return ""
	}
	if r.Status == Down {
		return markedDown
	}
	now := o.c.Clock()
	if since, silent := o.silentSince(region); silent && now.Sub(since) >= o.c.Grace {
		return outOfCalls
	}
	if since, unready := o.unreadySince(region); unready && !since.After(now.Add(-o.c.Grace)) {
		return outOfStore
	}
	seen := o.c.Seen(region)
	if seen.Before(o.started) {
		seen = o.started // unseen since the start, but not yet for the grace time
	}
	if now.Sub(seen) >= o.c.Grace {
		return outOfGossip
	}
	return ""
}

// unreadySince returns since when no node of region was any use, of those that gossip sees: it
// cannot record a charge, or is silent. A node that cannot either is no deputy for them.
func (o *Outages) unreadySince(region string) (since time.Time, unready bool) {
	if slices.ContainsFunc(o.c.Directory.Nodes(o.c.Self), func(n Node) bool { return n.Self && !n.UnreadySince.IsZero() }) {
		return time.Time{}, false
	}
	nodes := o.c.Directory.Nodes(region)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range nodes {
		from := n.UnreadySince
		if q := o.quiet[n.Name]; from.IsZero() && q.silent {
			from = q.since
		}
		if from.IsZero() {
			return time.Time{}, false
		}
		if from.After(since) {
			since = from
		}
	}
	return since, len(nodes) > 0
}

// silentSince returns since when no node of region has answered, of those that gossip sees,
// or saw last.
func (o *Outages) silentSince(region string) (since time.Time, silent bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.quiet) == 0 {
		return time.Time{}, false
	}
	nodes := o.c.Directory.Nodes(region)
	for _, n := range nodes {
		q := o.quiet[n.Name]
		if !q.silent {
			return time.Time{}, false
		}
		if q.since.After(since) {
			since = q.since
		}
	}
	if len(nodes) > 0 {
		return since, true
	}
	for _, q := range o.quiet {
		if q.region == region && q.silent {
			silent = true
			if q.since.After(since) {
				since = q.since
			}
		}
	}
	if at := o.answered[region]; at.After(since) {
		since = at
	}
	return since, silent
}

// All returns the lost regions, sorted by name.
func (o *Outages) All() []string {
	var lost []string
	for _, r := range o.c.Topology.Regions() {
		if o.Lost(r.Name) {
			lost = append(lost, r.Name)
		}
	}
	return lost
}

// Run pings the nodes that gave no answer, and logs the regions that are lost, until ctx
// ends. ping pings one node; pass [Peers.Ping].
func (o *Outages) Run(ctx context.Context, ping func(ctx context.Context, node Node) error) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	lost := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			o.probe(ctx, ping)
			o.log(lost)
		}
	}
}

// probe pings all nodes without an answer at once.
func (o *Outages) probe(ctx context.Context, ping func(ctx context.Context, node Node) error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var calls sync.WaitGroup
	for _, node := range o.silent() {
		calls.Go(func() {
			began := time.Now()
			switch err := ping(ctx, node); {
			case err == nil:
				o.reached(node)
			case ctx.Err() != context.Canceled:
				o.Missed(node, began, "ping")
			}
		})
	}
	calls.Wait()
}

// silent returns the nodes without an answer, and forgets those that gossip no longer
// sees while it sees others of their region.
func (o *Outages) silent() (nodes []Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, q := range o.quiet {
		seen := o.c.Directory.Nodes(q.region)
		if i := slices.IndexFunc(seen, func(n Node) bool { return n.Name == name }); i >= 0 {
			nodes = append(nodes, seen[i])
		} else if len(seen) > 0 {
			delete(o.quiet, name)
		}
	}
	return nodes
}

// log logs what has changed since lost.
func (o *Outages) log(lost map[string]bool) {
	for _, r := range o.c.Topology.Regions() {
		switch why := o.why(r.Name); {
		case why != "" && !lost[r.Name]:
			lost[r.Name] = true
			o.c.Logger.Warn("a region is lost; this node acts as its deputy", "peer", r.Name, "why", why, "silent", strings.Join(o.Silent(r.Name), " "))
		case why == "" && lost[r.Name]:
			delete(lost, r.Name)
			o.c.Logger.Info("a region is back", "peer", r.Name)
		}
	}
}

package region

import (
	"context"
	"maps"
	"sync"
	"time"
)

// DefaultGrace is how long a region must be out of reach before others act on its rows.
// It is longer than a node takes to restart and gossip to settle, and short against a
// merchant's patience. It costs time, never safety: leases and fences stop a deputy
// that acts too early.
const DefaultGrace = 10 * time.Second

// probeEvery is how often a region is pinged that gossip sees and no forward reaches;
// probeTimeout is above the longest round trip between regions and a dial.
const (
	probeEvery   = time.Second
	probeTimeout = 3 * time.Second
)

// OutagesConfig configures an [Outages]. All but Grace and Clock are required.
type OutagesConfig struct {
	// Self is this node's region, which is never lost.
	Self     string
	Topology *Topology
	// Seen returns when gossip last saw a live node of a region; zero: never.
	// Pass [Membership.LastSeen].
	Seen func(region string) time.Time
	// Grace; 0 means DefaultGrace.
	Grace time.Duration
	// Clock, the same as Seen's; nil means time.Now.
	Clock func() time.Time
}

// Outages tracks the lost regions: those out of reach for the grace time, or
// marked down by an operator. Then their keys' requests and due outbox rows are
// served by the other regions, the deputies.
//
// It is a hint like all of membership. A region may be lost to one node and not
// to another, or be alive behind a partition: both sides then act on the same
// rows, and the rows decide.
//
// A region is out of reach if gossip has no live node of it, or if every forward
// to it fails although gossip has one (a path that is cut for requests alone).
// In the latter case Run pings it until it answers. It is safe for concurrent
// use.
type Outages struct {
	c       OutagesConfig
	started time.Time

	mu sync.Mutex
	// silent maps a region to when forwards to it began to fail.
	silent map[string]time.Time
}

// NewOutages returns an Outages in which every region is reachable at first.
func NewOutages(c OutagesConfig) *Outages {
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return &Outages{c: c, started: c.Clock(), silent: map[string]time.Time{}}
}

// Heard records how a forward to region ended: with an answer of any kind, or
// with failures on the wire only.
func (o *Outages) Heard(region string, answered bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if answered {
		delete(o.silent, region)
	} else if _, known := o.silent[region]; !known {
		o.silent[region] = o.c.Clock()
	}
}

// Lost reports whether other regions may act as deputies of region now.
func (o *Outages) Lost(region string) bool {
	r, known := o.c.Topology.ByName(region)
	if !known || region == o.c.Self {
		return false
	}
	if r.Status == Down {
		return true
	}
	now := o.c.Clock()
	if since, silent := o.silentSince(region); silent && now.Sub(since) >= o.c.Grace {
		return true
	}
	seen := o.c.Seen(region)
	if seen.Before(o.started) {
		seen = o.started // unseen since the start, but not yet for the grace time
	}
	return now.Sub(seen) >= o.c.Grace
}

func (o *Outages) silentSince(region string) (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	since, silent := o.silent[region]
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

// Run pings regions whose forwards fail until ctx ends. ping pings one region; pass
// [Peers.Ping].
func (o *Outages) Run(ctx context.Context, ping func(ctx context.Context, region string) error) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			o.probe(ctx, ping)
		}
	}
}

// probe pings all silent regions at once.
func (o *Outages) probe(ctx context.Context, ping func(ctx context.Context, region string) error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var asked sync.WaitGroup
	for region := range o.quiet() {
		asked.Go(func() {
			if ping(ctx, region) == nil {
				o.Heard(region, true)
			}
		})
	}
	asked.Wait()
}

func (o *Outages) quiet() map[string]time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.silent)
}

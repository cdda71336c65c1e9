// Package wan models the network between the regions of one process: their distances
// and faults. It makes a process on one machine pay for each crossing between regions,
// so that a design with one crossing too many shows.
//
// A [Network] has regions by name and counts round trips. [Network.Travel] is one: it counts, waits
// for the distance, and fails if the link is cut. Every crossing between regions calls it once: the
// embedded store before it accesses a row homed elsewhere, and the HTTP transport of the peer RPC
// ([Network.RoundTripper]). Gossip is not delayed: it is only a hint, and on one machine it is not
// measured.
package wan

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrPartitioned means that the link between two regions is cut. Test with errors.Is:
// [Network.Travel] wraps it with the regions' names.
var ErrPartitioned = errors.New("wan: the regions are partitioned")

// Pair is two regions; (A, B) and (B, A) are the same pair.
type Pair struct{ A, B string }

func (p Pair) normal() Pair {
	if p.B < p.A {
		return Pair{A: p.B, B: p.A}
	}
	return p
}

// way is one direction of a link.
type way struct{ from, to string }

// A fault is the result of a round trip on a cut link.
type fault uint8

const (
	open fault = iota
	// refused: the trip fails at once, as when a router answers "no route".
	refused
	// swallowed: the trip never ends by itself, as when packets are dropped.
	swallowed
)

// Network is the regions' distances, faults and counters. A nil *Network has no
// distance, no faults and counts nothing. It is safe for concurrent use.
type Network struct {
	mu        sync.RWMutex
	distances map[Pair]time.Duration
	faults    map[way]fault

	countMu sync.Mutex
	trips   map[way]int64
	total   int64
}

// New returns a network with these round-trip times, which are copied. A pair
// that is not listed has no distance; [Defaults] and [Parse] fill every pair.
func New(distances map[Pair]time.Duration) *Network {
	n := &Network{
		distances: make(map[Pair]time.Duration, len(distances)),
		faults:    make(map[way]fault),
		trips:     make(map[way]int64),
	}
	for p, d := range distances {
		n.distances[p.normal()] = max(d, 0)
	}
	return n
}

// Travel makes one round trip from a node in from to one in to, and returns when the
// reply would be back: after the pair's round-trip time. Within a region it is free and
// not counted.
//
// A round trip needs only the link in its own direction; the reply uses the same
// connection. So a link that is cut in the direction from → to fails at once with an
// error that wraps [ErrPartitioned], and one that is cut only in the other direction
// does not: see [Network.CutOneWay]. A link in [Network.Blackhole] fails only when ctx
// ends, with an error that wraps both ErrPartitioned and the cause. A ctx that ends on
// the way returns its error; the trip still counts, since it was begun. A trip in
// progress when the link is cut still arrives.
func (n *Network) Travel(ctx context.Context, from, to string) error {
	if n == nil || from == to {
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	n.mu.RLock()
	cut := n.faults[way{from, to}]
	distance := n.distances[Pair{from, to}.normal()]
	n.mu.RUnlock()

	n.countMu.Lock()
	n.trips[way{from, to}]++
	n.total++
	n.countMu.Unlock()

	switch cut {
	case refused:
		return fmt.Errorf("%w: %s cannot reach %s", ErrPartitioned, from, to)
	case swallowed:
		<-ctx.Done()
		return fmt.Errorf("%w: %s had no answer from %s: %w", ErrPartitioned, from, to, ctx.Err())
	}
	if distance == 0 {
		return nil
	}
	timer := time.NewTimer(distance)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Cut partitions a and b in both directions: trips fail at once.
func (n *Network) Cut(a, b string) { n.set(refused, way{a, b}, way{b, a}) }

// CutOneWay makes trips from from to to fail; trips from to still succeed. It models a
// firewall that refuses new connections one way.
func (n *Network) CutOneWay(from, to string) { n.set(refused, way{from, to}) }

// Blackhole partitions a and b in both directions such that trips hang until their
// context ends: time-outs are for this kind of partition.
func (n *Network) Blackhole(a, b string) { n.set(swallowed, way{a, b}, way{b, a}) }

// Heal ends every fault between a and b. Trips that hang in a black hole are lost like
// packets, and keep hanging.
func (n *Network) Heal(a, b string) { n.set(open, way{a, b}, way{b, a}) }

func (n *Network) set(f fault, ways ...way) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range ways {
		if f == open {
			delete(n.faults, w)
		} else {
			n.faults[w] = f
		}
	}
}

// SetDistance changes a pair's round-trip time; below 0 counts as 0.
func (n *Network) SetDistance(a, b string, rtt time.Duration) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.distances[Pair{a, b}.normal()] = max(rtt, 0)
}

// Distance returns a pair's round-trip time; 0 for a pair never set.
func (n *Network) Distance(a, b string) time.Duration {
	if n == nil || a == b {
		return 0
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.distances[Pair{a, b}.normal()]
}

// Trips returns how many round trips were begun in from to to since the last
// reset, failed ones included.
func (n *Network) Trips(from, to string) int64 {
	if n == nil {
		return 0
	}
	n.countMu.Lock()
	defer n.countMu.Unlock()
	return n.trips[way{from, to}]
}

// TotalTrips returns how many round trips were begun between any two regions.
func (n *Network) TotalTrips() int64 {
	if n == nil {
		return 0
	}
	n.countMu.Lock()
	defer n.countMu.Unlock()
	return n.total
}

// ResetTrips sets every count to 0.
func (n *Network) ResetTrips() {
	if n == nil {
		return
	}
	n.countMu.Lock()
	defer n.countMu.Unlock()
	clear(n.trips)
	n.total = 0
}

package node

import (
	"context"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/region"
)

// beat is a lookout for some homes, with the workers that it wakes.
type beat struct {
	lookout *outbox.Lookout
	workers map[outbox.Queue]*outbox.Worker
}

// allBeats are this node's: one for its own region, one for lost ones.
func (n *Node) allBeats() []beat {
	if beats := n.beats.Load(); beats != nil {
		return *beats
	}
	return nil
}

// wake has this node take the row that it has just put into a queue and that will be
// due after some time.
func (n *Node) wake(q outbox.Queue, home string, in time.Duration) {
	for _, b := range n.allBeats() {
		b.workers[q].Wake(home, in)
	}
}

// lookSoon has this node look for due rows of a home soon.
func (n *Node) lookSoon(home string) {
	for _, b := range n.allBeats() {
		b.lookout.Look(home)
	}
}

// turn reports whether it is this node's turn to do something for a home often, and how
// many nodes could: the nodes of the home, or for another region's rows those of all
// others. It relies on gossip, and so is a hint.
func (n *Node) turn(home string) (mine bool, nodes int) {
	able := n.membership.Nodes(home)
	if home != n.c.Region {
		able = nil
		for _, m := range n.membership.Members() {
			if m.Region != home {
				able = append(able, m)
			}
		}
	}
	if len(able) == 0 {
		return true, 1
	}
	return region.Choose(able, claim.Key{Value: home})[0].Self, len(able)
}

// seldom bounds the interval of a node whose turn it is not, in rounds.
const seldom = 12

// rounds reports whether this node acts in a round of which one node of its region
// suffices: in all while it is its turn, else in one of as many as there are nodes, and
// in one of seldom whatever gossip says. The result is not safe for concurrent use.
func (n *Node) rounds() (now func() bool) {
	of := n.roundsOf()
	return func() bool { return of(n.c.Region) }
}

// roundsOf is [Node.rounds] for any home: for another region's, one node of all the
// others suffices.
func (n *Node) roundsOf() (now func(home string) bool) {
	left := map[string]int{}
	return func(home string) bool {
		mine, nodes := n.turn(home)
		if left[home]++; !mine && left[home] < min(nodes, seldom) {
			return false
		}
		left[home] = 0
		return true
	}
}

// kept are the homes whose housekeeping this node does: its own region, and lost ones,
// whose nodes cannot.
func (n *Node) kept() []string { return append([]string{n.c.Region}, n.outages.All()...) }

// waking is a node's store. It wakes this node's workers for the rows that it enqueues,
// as lookouts look seldom while there are none.
type waking struct {
	deployment.Store
	n *Node
}

// Settle implements [claim.Store].
func (s waking) Settle(ctx context.Context, held claim.Record, v claim.Verdict) (claim.Record, error) {
	rec, err := s.Store.Settle(ctx, held, v)
	if err == nil && rec.State == claim.InFlight {
		s.n.lookSoon(held.Home) // due when its lease ends
	}
	if len(v.Events) > 0 { // also if it is unknown whether they are there
		s.n.wake(outbox.Events, held.Home, 0)
	}
	return rec, err
}

// Keep implements [notice.Store].
func (s waking) Keep(ctx context.Context, home string, notices []notice.Notice) (int, error) {
	fresh, err := s.Store.Keep(ctx, home, notices)
	s.n.wake(outbox.Notices, home, 0)
	return fresh, err
}

// Book implements [notice.Store].
func (s waking) Book(ctx context.Context, t ledger.Transaction, events []outbox.Message) (bool, error) {
	posted, err := s.Store.Book(ctx, t, events)
	s.n.wake(outbox.Events, t.Region, 0)
	return posted, err
}

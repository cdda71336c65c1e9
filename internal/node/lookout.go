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

// beat is who looks for rows of some homes, and the workers that he wakes.
type beat struct {
	lookout *outbox.Lookout
	workers map[outbox.Queue]*outbox.Worker
}

// allBeats are this node's: one for its own region, one for those that are lost.
func (n *Node) allBeats() []beat {
	if beats := n.beats.Load(); beats != nil {
		return *beats
	}
	return nil
}

// wake has this node take what it has just put into a queue, which will be due in some
// time from now.
func (n *Node) wake(q outbox.Queue, home string, in time.Duration) {
	for _, b := range n.allBeats() {
		b.workers[q].Wake(home, in)
	}
}

// lookSoon has this node find out when something of a home is due.
func (n *Node) lookSoon(home string) {
	for _, b := range n.allBeats() {
		b.lookout.Look(home)
	}
}

// turn says whether this node is the one of its kind that is to do something for a home
// often, and how many could: the nodes of the home, or for another region's rows those
// of all others. It is what gossip says, and so a hint.
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

// seldom bounds in how many rounds a node that is one of many does a thing.
const seldom = 12

// rounds says in which rounds this node does what is enough if one node of its region does
// it: in all while it is that one, else in one of as many as there are nodes, and in one of
// seldom whatever gossip says. The result is for one goroutine.
func (n *Node) rounds() (now func() bool) {
	of := n.roundsOf()
	return func() bool { return of(n.c.Region) }
}

// roundsOf is [Node.rounds] for any home: of another region's it is enough if one node of
// all the others does it.
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

// kept are the homes that this node does housekeeping for: its own region, and those that are
// lost, whose nodes cannot.
func (n *Node) kept() []string { return append([]string{n.c.Region}, n.outages.All()...) }

// waking is a node's store. What it puts into queues is worked on by this node at once, if
// it lives: whoever looks for due rows looks seldom while there are none.
type waking struct {
	deployment.Store
	n *Node
}

// Settle implements [claim.Store].
func (s waking) Settle(ctx context.Context, held claim.Record, v claim.Verdict) (claim.Record, error) {
	rec, err := s.Store.Settle(ctx, held, v)
	if err == nil && rec.State == claim.InFlight {
		s.n.lookSoon(held.Home) // it is the provider calls' from when its lease ends
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

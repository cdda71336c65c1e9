package node

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/region"
)

// workerSet is the workers of all queues for some homes, with the poller that wakes them.
type workerSet struct {
	poller  *outbox.Poller
	workers map[outbox.Queue]*outbox.Worker
}

// allWorkers are this node's: one set for its own region, one for lost ones.
func (n *Node) allWorkers() []workerSet {
	if sets := n.workers.Load(); sets != nil {
		return *sets
	}
	return nil
}

// wake has this node take the row that it has just put into a queue and that will be
// due after some time.
func (n *Node) wake(q outbox.Queue, home string, in time.Duration) {
	for _, b := range n.allWorkers() {
		b.workers[q].Wake(home, in)
	}
}

// offer has this node deliver events that it has just recorded, whatever home they are of.
func (n *Node) offer(home string, due time.Time, events []outbox.Message) {
	if sets := n.allWorkers(); len(sets) > 0 {
		sets[0].workers[outbox.Events].Offer(home, due, events...)
	}
}

// pollSoon has this node poll the rows of a home soon.
func (n *Node) pollSoon(home string) {
	for _, b := range n.allWorkers() {
		b.poller.Wake(home)
	}
}

// place is this node's place in the line of those that can do something for a home: the
// nodes of the home, or for another region's rows those of all others. The first does it
// often; see [outbox.Rounds]. It relies on gossip, and so is a hint.
func (n *Node) place(home string) int {
	able := n.membership.Nodes(home)
	if home != n.c.Region {
		able = nil
		for _, m := range n.membership.Members() {
			if m.Region != home {
				able = append(able, m)
			}
		}
	}
	if at := slices.IndexFunc(region.Choose(able, claim.Key{Value: home}), func(m region.Node) bool { return m.Self }); at >= 0 {
		return at
	}
	return len(able) // 0: gossip shows no node, not even this one
}

// roundsOf reports whether this node acts for a home in a round of which one node
// suffices, as often as its place allows; it acts whatever gossip says in one of as many
// as [outbox.Rounds] has for the last place. The result is not safe for concurrent use.
func (n *Node) roundsOf() (now func(home string) bool) { return roundsOf(n.place, outbox.Rounds) }

func roundsOf(place func(home string) int, rounds func(place int) int) (now func(home string) bool) {
	passed := map[string]int{}
	return func(home string) bool {
		if passed[home]++; passed[home] < rounds(place(home)) {
			return false
		}
		passed[home] = 0
		return true
	}
}

// keptHomes are the homes for which this node does the housekeeping: its own region, and lost ones,
// whose nodes cannot.
func (n *Node) keptHomes() []string { return append([]string{n.c.Region}, n.outages.All()...) }

// notifying is a node's store. It wakes this node's workers for the rows that it enqueues, as
// pollers poll seldom while there are none, and measures the store's clock.
type notifying struct {
	deployment.Store
	n *Node
}

// Settle implements [claim.Store].
func (s notifying) Settle(ctx context.Context, held claim.Record, v claim.Verdict) (claim.Record, error) {
	rec, err := s.Store.Settle(ctx, held, v)
	if err == nil && rec.State == claim.InFlight {
		s.n.pollSoon(held.Home) // due when its lease ends
	}
	if refused, ok := v.Outcome.(*claim.Refused); ok && refused.Refund != nil {
		s.n.wake(outbox.Expiries, held.Home, 0)
	}
	events, within := claim.Emitted(&held, &v, &s.n.c.Policy)
	if len(events) == 0 {
		return rec, err
	}
	// They are due then or later: the store counts from when it recorded them, perhaps in an
	// earlier try. Half of the time is for a delivery, as of a take's lease. Where it is unknown
	// whether they are there, they are due then as well.
	if due := v.MadeAt.Add(within); err == nil && within > 0 && time.Until(due) > within/2 {
		s.n.offer(held.Home, due, events)
	} else {
		s.n.wake(outbox.Events, held.Home, within)
	}
	return rec, err
}

// Cancel implements [claim.Store]. A claim that waits is due at once.
func (s notifying) Cancel(ctx context.Context, key claim.Key, home, object string, step uuid.UUID, node, region string) (claim.Record, error) {
	rec, err := s.Store.Cancel(ctx, key, home, object, step, node, region)
	if err == nil && rec.Waits() {
		s.n.wake(outbox.ProviderCalls, home, 0)
	}
	return rec, err
}

// Keep implements [notice.Store].
func (s notifying) Keep(ctx context.Context, home string, notices []notice.Notice) (int, error) {
	fresh, err := s.Store.Keep(ctx, home, notices)
	s.n.wake(outbox.Notices, home, 0)
	return fresh, err
}

// Book implements [notice.Store].
func (s notifying) Book(ctx context.Context, t ledger.Transaction, events []outbox.Message) (bool, error) {
	posted, err := s.Store.Book(ctx, t, events)
	s.n.wake(outbox.Events, t.Region, 0)
	return posted, err
}

// Restore implements [claim.Restores]. Every node reads the row again and again, and
// gets the store's clock with it.
func (s notifying) Restore(ctx context.Context) (claim.Restore, time.Time, error) {
	sentAt, wall := time.Now(), s.n.c.Wall()
	r, now, err := s.Store.Restore(ctx)
	if err == nil {
		s.n.clock.measure(sentAt, wall, now)
	}
	return r, now, err
}

// storeClock is the store's clock as far as this node knows it. It goes on by the monotonic clock
// from the last measurement, so that it does not follow the machine's when that is set. It is safe
// for concurrent use.
type storeClock struct{ last atomic.Pointer[clockReading] }

// clockReading is one measurement: the store's time at a moment of this process, and how far the
// machine's clock was ahead of it.
type clockReading struct {
	at, now time.Time
	ahead   time.Duration
}

// measure compares the store's clock with ours, by a read that was sent at sentAt, when wall was
// the machine's time.
func (c *storeClock) measure(sentAt, wall, now time.Time) {
	half := time.Since(sentAt) / 2
	c.last.Store(&clockReading{sentAt.Add(half), now, wall.Add(half).Sub(now)})
}

// offset is how far this node's clock is ahead; ok is false before the first measurement.
func (c *storeClock) offset() (ahead time.Duration, ok bool) {
	if m := c.last.Load(); m != nil {
		return m.ahead, true
	}
	return 0, false
}

// now is the store's time. A node reads it before it does anything else.
func (c *storeClock) now() time.Time {
	if m := c.last.Load(); m != nil {
		return m.now.Add(time.Since(m.at))
	}
	return time.Now()
}

package node

import (
	"cmp"
	"context"
	"errors"

	"golang.org/x/sync/semaphore"

	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/region"
)

// watch follows the rows that every node needs, and that hardly ever change: the table of regions
// and the row of restores. A node reads them in its rounds, which are few unless it is the first in
// line, and as soon as another node announces that it has read another version. An announcement is
// a hint. It costs a read, and the result of that counts; without it the rounds remain.
type watch struct {
	// read reads the rows, and logs why it cannot.
	read func(context.Context) error
	// current is what this node has read.
	current func() region.Versions
	// round reports whether this node reads in this round. It is called by one goroutine.
	round func() bool

	reading *semaphore.Weighted // one at a time; it may take long, so another may give up
	// announced is what each node has announced up to the last hearing that needed no read, or
	// had one. So a disagreement costs one read, not one for each message.
	announced map[string]region.Versions
}

// hear reads if a node has announced other versions than this node has, and no read has answered
// that yet. If that fails, the next hearing tries again.
func (w *watch) hear(ctx context.Context, nodes []region.Node) {
	if w.reading.Acquire(ctx, 1) != nil {
		return
	}
	defer w.reading.Release(1)
	own, announced, changed := w.current(), map[string]region.Versions{}, false
	for _, n := range nodes {
		if !n.Self && n.Versions != (region.Versions{}) {
			announced[n.Name] = n.Versions
			changed = changed || n.Versions != own && n.Versions != w.announced[n.Name]
		}
	}
	// A node that goes and comes back announces nothing new.
	if !changed || w.read(ctx) == nil {
		w.announced = announced
	}
}

// reread reads, whatever others have announced.
func (w *watch) reread(ctx context.Context) {
	if w.reading.Acquire(ctx, 1) != nil {
		return
	}
	defer w.reading.Release(1)
	_ = w.read(ctx) // which logs why it cannot
}

// watchRows watches the rows, and announces to the other nodes what it has read and whether
// this one drains.
func (n *Node) watchRows(ctx context.Context) (parts.Stop, error) {
	n.follower.meet(ctx, n.membership.SetDraining)
	inTurn := roundsOf(n.place, watchRounds)
	bad := &trouble{log: n.log, began: "the row of restores cannot be read; what it withheld is withheld", over: "the row of restores can be read again"}
	w := &watch{
		reading: semaphore.NewWeighted(1),
		read: func(ctx context.Context) error {
			err := errors.Join(n.follower.read(ctx), n.rereadRestore(ctx, bad))
			if err != nil {
				_ = n.records(ctx) // without traffic and probes, nothing else checks it
			}
			return err
		},
		current: n.versions, round: func() bool { return inTurn(n.c.Region) },
	}
	n.background.every(n.log, cmp.Or(n.c.TopologyEvery, defaultTopologyEvery), func(ctx context.Context) {
		if w.round() {
			w.reread(ctx)
		} else {
			w.hear(ctx, n.membership.Members()) // if that has failed before
		}
		n.announce(ctx)
	})
	n.background.run(func(ctx context.Context) {
		for {
			changed := n.membership.Changed()
			if caught := fault.Caught(func() { w.hear(ctx, n.membership.Members()) }); caught != nil {
				n.log.Error("a background job panicked; the node retries it", "fault", caught)
			}
			n.announce(ctx)
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	})
	return nil, nil
}

// watchRounds is [outbox.Rounds] with every node but the first as the second in line: a minute by
// default. A restore is begun while no node runs, but a node that started meanwhile, or that a
// person did not stop, must read the row soon, whatever gossip shows. Every node measures the
// store's clock with that.
func watchRounds(place int) int { return outbox.Rounds(min(place, 1)) }

func (n *Node) versions() region.Versions {
	return region.Versions{Epoch: n.c.Topology.Epoch(), Restore: n.guard.Mark()}
}

// announced is what this node has announced.
type announced struct {
	changing *semaphore.Weighted // one announcement at a time; it waits for gossip, so another may give up
	region.Versions
}

// announce announces what this node has read, if that has changed.
func (n *Node) announce(ctx context.Context) {
	if n.announced.changing.Acquire(ctx, 1) != nil {
		return
	}
	defer n.announced.changing.Release(1)
	versions := n.versions()
	if versions == n.announced.Versions || n.membership == nil {
		return // announced once gossip is open
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if err := n.membership.SetVersions(ctx, versions); err != nil && !errors.Is(err, region.ErrClosed) {
		n.log.Debug("gossip of what this node has read takes longer", "error", err)
	}
	n.announced.Versions = versions // gossip goes on sending it even if that timed out
}

package node

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/region"
)

// watch keeps up to date with rows that every node has to know, and that hardly ever
// change: the table of regions, the row of restores. A node reads them in its rounds, which
// are few unless it is the first in line, and as soon as another node announces that it has
// read another version. What is announced is a hint. It costs a read, and what that returns
// counts; without it the rounds are left.
type watch struct {
	// read reads the rows, and logs why it cannot.
	read func(context.Context) error
	// known is the version that this node has read, of the one that a node announces.
	known func() uint64
	of    func(region.Known) uint64
	// round reports whether this node reads in this round. It is called by one goroutine.
	round func() bool

	mu sync.Mutex // one hearing at a time
	// heard is what each node has announced up to the last hearing that needed no read, or
	// had one. So a disagreement costs one read, not one for each message.
	heard map[string]uint64
}

// hear reads if a node has announced another version than this node knows, and has not been
// read for. If that fails, the next hearing tries again.
func (w *watch) hear(ctx context.Context, nodes []region.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, heard, news := w.known(), map[string]uint64{}, false
	for _, n := range nodes {
		if says := w.of(n.Known); !n.Self && says != 0 {
			heard[n.Name] = says
			news = news || says != known && says != w.heard[n.Name]
		}
	}
	// A node that goes and comes back says nothing new.
	if !news || w.read(ctx) == nil {
		w.heard = heard
	}
}

// watch starts w, and announces what it has read.
func (n *Node) watch(w *watch) {
	n.background.every(n.log, cmp.Or(n.c.TopologyEvery, defaultTopologyEvery), func(ctx context.Context) {
		if w.round() {
			_ = w.read(ctx) // logged
		} else {
			w.hear(ctx, n.membership.Members()) // if that has failed before
		}
		n.tell(ctx)
	})
	n.background.run(func(ctx context.Context) {
		for {
			changed := n.membership.Changed()
			if caught := fault.Caught(func() { w.hear(ctx, n.membership.Members()) }); caught != nil {
				n.log.Error("a background job panicked; the node retries it", "fault", caught)
			}
			n.tell(ctx)
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	})
}

// told is what this node has announced.
type told struct {
	mu sync.Mutex
	region.Known
}

// tell announces what this node has read, if that has changed.
func (n *Node) tell(ctx context.Context) {
	n.told.mu.Lock()
	defer n.told.mu.Unlock()
	known := region.Known{Epoch: n.c.Topology.Epoch(), Restore: n.guard.Mark()}
	if known == n.told.Known || n.membership == nil {
		return // what is known before gossip is open is announced then
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if err := n.membership.SetKnown(ctx, known); err != nil && !errors.Is(err, region.ErrClosed) {
		n.log.Debug("gossip of what this node has read takes longer", "error", err)
	}
	n.told.Known = known // gossip goes on with it even where that timed out
}

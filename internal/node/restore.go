package node

import (
	"cmp"
	"context"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/parts"
)

// readRestore learns whether the rows are those of a backup. Without an answer nothing is
// started: a node that does not know would begin what a restore has lost once more.
func (n *Node) readRestore(ctx context.Context) (_ parts.Stop, err error) {
	if n.guard, err = claim.NewGuard(ctx, n.c.Store); err != nil {
		return nil, err
	}
	if r := n.guard.Standing(); r != nil {
		n.log.Warn("a restore is in effect: keys that may have been used in the lost time are withheld; homeward restore show lists the remaining steps",
			"from", r.From, "until", r.Until, "phase", r.Phase)
	}
	return nil, nil
}

// watchRestore looks now and then whether a restore is over, or its witnesses complete. It
// may be late: until then the node is only stricter.
func (n *Node) watchRestore(context.Context) (parts.Stop, error) {
	if n.guard.Standing() == nil {
		return nil, nil // one begins while no node runs
	}
	bad := trouble{log: n.log, began: "the row of restores cannot be read; what it withheld is withheld", over: "the row of restores can be read again"}
	n.background.every(n.log, cmp.Or(n.c.TopologyEvery, defaultTopologyEvery), func(ctx context.Context) {
		was := n.guard.Standing()
		err := n.guard.Read(ctx)
		if bad.note(err); err == nil && was != nil && n.guard.Standing() == nil {
			n.log.Info("the restore has ended")
		}
	})
	return nil, nil
}

// mints are the random bits of keys that this node mints: while a restore stands they say so.
type mints struct{ guard *claim.Guard }

// Read implements [io.Reader].
func (m mints) Read(p []byte) (int, error) {
	return m.guard.Standing().Mints(nil).Read(p)
}

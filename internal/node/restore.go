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
		n.sayRestore(r)
	}
	return nil, nil
}

// watchRestore looks now and then whether a restore was begun, is over, or has complete
// witnesses. One is begun while no node runs, but a node that began meanwhile, or that a
// person did not stop, has to hear of it. Of the rest it may hear late: until then it is
// only stricter.
func (n *Node) watchRestore(context.Context) (parts.Stop, error) {
	bad := trouble{log: n.log, began: "the row of restores cannot be read; what it withheld is withheld", over: "the row of restores can be read again"}
	n.background.every(n.log, cmp.Or(n.c.TopologyEvery, defaultTopologyEvery), func(ctx context.Context) {
		was := n.guard.Standing()
		err := n.guard.Read(ctx)
		now := n.guard.Standing()
		switch bad.note(err); {
		case err != nil:
		case was != nil && now == nil:
			n.log.Info("the restore has ended")
		case was == nil && now != nil:
			n.sayRestore(now)
		}
	})
	return nil, nil
}

// sayRestore warns that keys are withheld.
func (n *Node) sayRestore(r *claim.Restore) {
	n.log.Warn("a restore is in effect: keys that may have been used in the lost time are withheld; homeward restore show lists the remaining steps",
		"from", r.From, "until", r.Until, "phase", r.Phase)
}

// mints are the random bits of keys that this node mints: while a restore stands they say so.
type mints struct{ guard *claim.Guard }

// Read implements [io.Reader].
func (m mints) Read(p []byte) (int, error) {
	return m.guard.Standing().Mints(nil).Read(p)
}

package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/internal/restore"
)

// readRestore reads whether the store was restored from a backup. Without an answer the
// node does not start: otherwise it would begin claims again that a restore has lost.
func (n *Node) readRestore(ctx context.Context) (_ parts.Stop, err error) {
	if n.guard, err = claim.NewGuard(ctx, n.c.Store); err != nil {
		return nil, err
	}
	if r := n.guard.Standing(); r != nil {
		n.logRestore(r)
	}
	return nil, n.compareAudit(ctx)
}

// pageForgotten: keys are withheld from here on, and a person has to say what is lost.
const pageForgotten = "page: the audit bucket is ahead of the database, so the database was restored from a backup without homeward restore begin; unknown keys are withheld from now on"

const (
	// compareTime bounds how long a start waits for the bucket: a node that cannot reach it
	// starts all the same, and compares with each export.
	compareTime = 15 * time.Second
	// compareAgain is the pause before a store that did not answer is asked again.
	compareAgain = 250 * time.Millisecond
)

// compareAudit finds by the audit bucket, which is not restored with the database, whether the
// database was restored without a restore row. A node does so before its first request, for all
// regions; a row that is in effect, and for which a region was read, may be older than the backup.
// Without a bucket it cannot find it.
func (n *Node) compareAudit(ctx context.Context) error {
	if n.c.AuditObjects == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, compareTime)
	defer cancel()
	was, _, err := n.c.Store.Restore(bounded)
	if err != nil {
		return fmt.Errorf("the restore row: %w", err)
	}
	if was.Withholds() && n.guard.Standing() == nil { // an operator or another node has begun a restore
		return n.guard.Read(ctx)
	}
	var ahead []*audit.AheadError
	for _, one := range n.c.Topology.Regions() {
		if was.Unread(one.Name) {
			continue
		}
		x, err := n.exporter(one.Name)
		if err != nil {
			return err
		}
		err = untilAnswered(bounded, func() error { return x.Compare(bounded, was.OpenedAt) })
		if found, ok := errors.AsType[*audit.AheadError](err); ok {
			ahead = append(ahead, found)
		} else if err != nil && ctx.Err() == nil {
			n.log.Warn("the audit bucket cannot be compared with the database; if the database was restored from a backup, nobody notices until it can", "home", one.Name, "error", err)
		}
	}
	return n.putBack(ctx, ahead...)
}

// untilAnswered compares until the store has answered, for as long as ctx lasts: one lost step of it
// must not let a node start that would have found what the database lacks.
func untilAnswered(ctx context.Context, compare func() error) error {
	for {
		err := compare()
		if !errors.Is(err, claim.ErrUnavailable) {
			return err
		}
		select {
		case <-time.After(compareAgain):
		case <-ctx.Done():
			return err
		}
	}
}

// putBack records that the database was put back, as the bucket proves.
func (n *Node) putBack(ctx context.Context, ahead ...*audit.AheadError) error {
	if len(ahead) == 0 {
		return nil
	}
	if _, err := restore.Detected(ctx, n.c.Store, n.c.Store, ahead, n.c.Name); err != nil {
		return fmt.Errorf("the database was restored from a backup, which cannot be recorded: %w", err)
	}
	if err := n.guard.Read(ctx); err != nil {
		return err
	}
	n.announce(ctx)
	for _, one := range ahead {
		n.log.Error(pageForgotten, "home", one.Home, "segment", one.Segment, "written", one.Written, "known", one.Stored)
	}
	return nil
}

// rereadRestore reads the row, and logs what has changed. A node's watch calls it, one call at a time.
func (n *Node) rereadRestore(ctx context.Context, bad *trouble) error {
	was := n.guard.Standing()
	err := n.guard.Read(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	now := n.guard.Standing()
	switch bad.note(err); {
	case err != nil:
	case was != nil && now == nil:
		n.log.Info("the restore has ended")
		return n.compareAudit(ctx) // who wrote the row may have taken it back, and this node has started on its word
	case was == nil && now != nil:
		n.logRestore(now)
	}
	return err
}

// logRestore warns that keys are withheld.
func (n *Node) logRestore(r *claim.Restore) {
	n.log.Warn("a restore is in effect: keys that may have been used in the lost time are withheld; homeward restore show lists the remaining steps",
		"from", r.From, "until", r.Until, "phase", r.Phase)
}

// mints is the source of random bits of keys that this node mints: while a restore is in effect
// they carry its tag.
type mints struct{ guard *claim.Guard }

// Read implements [io.Reader].
func (m mints) Read(p []byte) (int, error) {
	return m.guard.Standing().Mints(nil).Read(p)
}

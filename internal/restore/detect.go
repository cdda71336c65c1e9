package restore

import (
	"context"
	"errors"
	"slices"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/notice"
)

// Detected writes the row for a node that has found the bucket ahead of the rows: no restore row
// says that the store was restored. by names the node. What is lost is bounded from outside: it is
// after the windows that the rows have as exported, and before now. A person corrects that with
// Begin, which keeps where the audit ended.
//
//	automatic refunds are stopped | the row is written | they are stopped again
//
// A crash between the first two leaves refunds stopped, and the next node that starts detects the
// same. Of many nodes that detect it at once one writes the row. by reads the row at once and
// announces it, so that nodes that run already read it within seconds; those that hear
// nothing within a minute. What they have begun until then, without the row, is in the store.
//
// A row that is in effect stands for its own loss alone: a segment that was written after it, and
// behind what was read for it, proves another one, and the row is replaced. Otherwise it is written
// once more: a Begin that takes its own back, since it finds that nodes run, then finds it changed, and
// leaves it.
func Detected(ctx context.Context, rows DetectRows, at Region, ahead []*audit.AheadError, by string) (claim.Restore, error) {
	was, now, err := rows.Restore(ctx)
	if err != nil || len(ahead) == 0 {
		return was, err
	}
	exported, err := prepare(ctx, rows, at, &was)
	if err != nil {
		return was, err
	}
	first := slices.MinFunc(ahead, func(a, b *audit.AheadError) int { return a.From.Compare(b.From) })
	seen := was
	written, err := change(ctx, rows, func(at claim.Restore) (claim.Restore, error) {
		from := first.From
		switch {
		case slices.ContainsFunc(ahead, func(a *audit.AheadError) bool { return anotherLoss(&at, a) }):
			if from.Before(at.OpenedAt) { // the rows have this row, so they have all that is older
				from = at.OpenedAt
			}
		case at.Withholds() && at.Tag == seen.Tag && at.Version != seen.Version: // another node, or a person, was faster
			seen = at
			return at, ErrUnreleased
		case at.Withholds():
			seen = at
			return at, nil
		}
		return claim.NewRestore(at, from, now, now, exported, by, ahead[0].Error()), nil
	})
	if errors.Is(err, ErrUnreleased) {
		return seen, nil
	}
	if err != nil {
		return written, err
	}
	return written, stop(ctx, rows)
}

// anotherLoss reports whether a is of what was written after the restore at, which is in effect, was begun.
func anotherLoss(at *claim.Restore, a *audit.AheadError) bool {
	return at.Withholds() && !at.Unread(a.Home) && !a.Written.Before(at.OpenedAt)
}

// DetectRows are those of the deployment that Detected needs.
type DetectRows interface {
	claim.Regions
	claim.Restores
	notice.BrakeStore
}

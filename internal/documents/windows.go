package documents

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homeward-io/homeward/claim"
)

// promised are the times that decide when a key is free again, the longest under which claims of
// the deployment were made. A reader judges age by its own policy, so all nodes must have the same
// times, and none may have shorter ones: it would give a key to another request, and so to another
// charge, that is still promised to the first.
type promised struct {
	ReplayFor    time.Duration `json:"replay_for"` // all in nanoseconds
	TombstoneFor time.Duration `json:"tombstone_for"`
	PinGrace     time.Duration `json:"pin_grace"`
}

func windowsOf(p *claim.Policy) promised { return promised{p.ReplayFor, p.TombstoneFor, p.PinGrace} }

// Promise raises the promised windows to those of a policy under which claims are about to be
// made. It returns the error of [Contracts.Breaks] for shorter ones. Usually nothing is written.
//
// Windows only grow: a node that is not restarted yet keeps to the shorter ones for a while, under
// which every claim that there is was made. After any other error the node does not start.
func (c Contracts) Promise(ctx context.Context, p *claim.Policy) error {
	mine := windowsOf(p)
	for range maxTries {
		seen, version, err := c.promised(ctx)
		if err == nil {
			err = mine.breaks(seen)
		}
		if err != nil || mine == seen {
			return err
		}
		if changed, err := c.put(ctx, windows, "", version, mine); err != nil || changed {
			return err
		}
	}
	return fmt.Errorf("%w: the windows of claims keep changing; start the node again", claim.ErrUnavailable)
}

// Breaks returns an error that names every window of a policy that is shorter than the promised
// one, one to a line. Nodes with such a policy are refused. It promises nothing itself.
func (c Contracts) Breaks(ctx context.Context, p *claim.Policy) error {
	seen, _, err := c.promised(ctx)
	if err == nil {
		err = windowsOf(p).breaks(seen)
	}
	return err
}

// Windows returns the promised windows in a policy whose other times are the default ones.
func (c Contracts) Windows(ctx context.Context) (claim.Policy, error) {
	p := claim.DefaultPolicy()
	seen, version, err := c.promised(ctx)
	if err == nil && version > 0 {
		p.ReplayFor, p.TombstoneFor, p.PinGrace = seen.ReplayFor, seen.TombstoneFor, seen.PinGrace
		p.ClockOffset = max(p.ClockOffset, time.Second)
	}
	return p, err
}

func (c Contracts) promised(ctx context.Context) (p promised, version uint64, err error) {
	all, _, err := c.store.Documents(ctx, windows, "", 1)
	if err != nil || len(all) == 0 {
		return p, 0, err
	}
	err = decode(windows, &all[0], &p)
	return p, all[0].Version, err
}

func (p promised) breaks(seen promised) error {
	var errs []error
	for _, w := range []struct {
		name       string
		have, want time.Duration
	}{
		{"claim.replay_for", p.ReplayFor, seen.ReplayFor},
		{"claim.tombstone_for", p.TombstoneFor, seen.TombstoneFor},
		{"claim.pin_grace", p.PinGrace, seen.PinGrace},
	} {
		if w.have < w.want {
			errs = append(errs, fmt.Errorf("%s is %v, and keys in this store were promised %v; set it to at least that at every node", w.name, w.have, w.want))
		}
	}
	return errors.Join(errs...)
}

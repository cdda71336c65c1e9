package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

// View is the store for the nodes of one region: rows of that region are near, those of
// others cost a round trip, replicas are near everywhere, and so is what [DB] has itself.
// It implements [claim.Store], [outbox.Queues], [ledger.Store], [notice.Store] and
// [audit.Store], and is safe for concurrent use.
type View struct {
	*DB
	name string
}

var (
	_ claim.Store   = (*View)(nil)
	_ outbox.Queues = (*View)(nil)
	_ ledger.Store  = (*View)(nil)
	_ notice.Store  = (*View)(nil)
	_ notice.Bodies = (*View)(nil)
	_ audit.Store   = (*View)(nil)
)

// Region returns the view of a node in the region of that name.
func (db *DB) Region(name string) (*View, error) {
	if _, ok := db.regions[name]; !ok {
		return nil, fmt.Errorf("embedded store: there is no region %q; name one of those it was opened with", name)
	}
	return &View{DB: db, name: name}, nil
}

// Name returns the region of the view.
func (v *View) Name() string { return v.name }

// codeOf returns the number of a region, or an error for one that this store
// does not have.
func (db *DB) codeOf(region string) (claim.RegionCode, error) {
	code, ok := db.regions[region]
	if !ok {
		return 0, fmt.Errorf("%w: this store has no region %q", claim.ErrHomeUnreachable, region)
	}
	return code, nil
}

// on travels to a region and runs a call on its rows. If it cannot reach the region, run has not
// begun.
func (v *View) on(ctx context.Context, region string, run func(t *tx)) error {
	if err := v.reach(ctx, region); err != nil {
		return err
	}
	return v.in(ctx, region, run)
}

// reach makes a round trip to each of the regions, at once, but not to the view's own. It waits for
// at most a lease: the lease of a claim that a later step made would be over.
func (v *View) reach(ctx context.Context, regions ...string) error {
	if len(regions) == 1 && regions[0] == v.name {
		return nil // as nearly always
	}
	ctx, cancel := context.WithTimeout(ctx, v.policy.Lease)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for _, r := range slices.Compact(slices.Sorted(slices.Values(regions))) {
		if _, err := v.codeOf(r); err != nil {
			return err
		}
		if r == v.name {
			continue
		}
		g.Go(func() error {
			err := v.network.Travel(ctx, v.name, r)
			if errors.Is(err, wan.ErrPartitioned) {
				return fmt.Errorf("%w: %w", claim.ErrHomeUnreachable, err)
			}
			return err
		})
	}
	return g.Wait()
}

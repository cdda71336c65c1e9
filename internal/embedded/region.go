package embedded

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/notice"
)

// View is the store as a node of one region sees it: rows of that region are
// near, those of others cost a round trip, replicas are near everywhere. It
// implements [claim.Store], [outbox.Queues], [ledger.Store], [notice.Store],
// [relay.Endpoints] and [audit.Store], and is safe for concurrent use.
type View struct {
	db   *DB
	name string
}

var (
	_ claim.Store     = (*View)(nil)
	_ outbox.Queues   = (*View)(nil)
	_ ledger.Store    = (*View)(nil)
	_ notice.Store    = (*View)(nil)
	_ relay.Endpoints = (*View)(nil)
	_ audit.Store     = (*View)(nil)
)

// Region returns the view of a node in the region of that name.
func (db *DB) Region(name string) (*View, error) {
	if _, ok := db.regions[name]; !ok {
		return nil, fmt.Errorf("embedded store: there is no region %q; name one of those it was opened with", name)
	}
	return &View{db: db, name: name}, nil
}

// Name returns the region of the view.
func (v *View) Name() string { return v.name }

// code returns the number of a region, or an error for one that this store
// does not have.
func (v *View) code(region string) (claim.RegionCode, error) {
	code, ok := v.db.regions[region]
	if !ok {
		return 0, fmt.Errorf("%w: this store has no region %q", claim.ErrHomeUnreachable, region)
	}
	return code, nil
}

// reach travels to region: at once if it is the view's own, else by one round trip. If
// it fails, nothing has been done yet.
func (v *View) reach(ctx context.Context, region string) (claim.RegionCode, error) {
	code, err := v.code(region)
	if err != nil || region == v.name {
		return code, err
	}
	return code, v.travel(ctx, region)
}

// travel waits for the way to a region, as long as a lease at most: a claim that a later step
// made could not be trusted.
func (v *View) travel(ctx context.Context, region string) error {
	ctx, cancel := context.WithTimeout(ctx, v.db.policy.Lease)
	defer cancel()
	err := v.db.network.Travel(ctx, v.name, region)
	if errors.Is(err, wan.ErrPartitioned) {
		return fmt.Errorf("%w: %w", claim.ErrHomeUnreachable, err)
	}
	return err
}

// reachAll travels to several regions concurrently, to each that is not the view's own.
func (v *View) reachAll(ctx context.Context, regions []string) error {
	var far []string
	seen := map[string]bool{v.name: true}
	for _, r := range regions {
		if !seen[r] {
			seen[r] = true
			far = append(far, r)
		}
	}
	switch len(far) {
	case 0:
		return nil
	case 1:
		return v.travel(ctx, far[0])
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, r := range far {
		g.Go(func() error { return v.travel(ctx, r) })
	}
	return g.Wait()
}

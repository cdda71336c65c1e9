package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// The status of a region decides one thing only: whether a key without a home may get
// its home there. The statements that assign one, pin and pin_write, read the region's
// row themselves; the copies in processes save trips. Claims and existing pins never
// read it, so a status, however late it is seen, cannot move a key or stop a retry.

var (
	regionStatus  = declare[statusArgs]("region_status")
	claimsUnknown = declare[unknownArgs]("claims_unknown")
)

type statusArgs struct {
	Name   string
	Status int16
	Epoch  int64
}

// SetRegionStatus implements [claim.Regions].
func (db *DB) SetRegionStatus(ctx context.Context, name string, status claim.RegionStatus) (epoch uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	for {
		regions, newest, err := db.Regions(ctx)
		if err != nil {
			return 0, err
		}
		here := slices.IndexFunc(regions, func(r claim.Region) bool { return r.Name == name })
		switch {
		case here < 0:
			return 0, fmt.Errorf("database: there is no region %q; homeward regions shows those that there are", name)
		case regions[here].Status == status:
			return newest, nil
		}
		at, changed, _, err := one(ctx, db, regionStatus, repeatable, statusArgs{name, int16(status), int64(newest)}, pgx.RowTo[int64])
		if err != nil {
			return 0, claimError(regionStatus.name, err)
		}
		if changed {
			return uint64(at), nil
		}
		// The table has changed since it was read, perhaps by our own first try.
		if ctx.Err() != nil {
			return 0, unavailable(regionStatus.name, ctx.Err())
		}
	}
}

// InFlight counts the claims of a region without an outcome, except parked ones, up to
// 100,000. Each has its provider call, from Begin to Settle.
func (v *View) InFlight(ctx context.Context, region string) (int, error) {
	d, err := v.Queue(outbox.ProviderCalls).Depth(ctx, region)
	return d.Pending, err
}

type unknownArgs struct {
	Home         string
	Live         bool
	Test         string // how the ids of test tenants end
	Among, Limit int64
}

// unknownAmong is how many open provider calls Unknown reads, so that it costs no more
// however many an outage leaves.
const unknownAmong = 20_000

// Unknown lists up to limit claims of a region in flight that an attempt has left with
// an unknown outcome, oldest first: those of live tenants, or of test tenants. If both
// have more than 20,000 open calls, it looks at those that are due first. It leaves out
// parked ones. The records have no response.
func (v *View) Unknown(ctx context.Context, region string, live bool, limit int) ([]claim.Record, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil || limit <= 0 {
		return nil, err
	}
	all, err := many(ctx, v.db, claimsUnknown, repeatable, unknownArgs{region, live, claim.TestTenant(""), unknownAmong, int64(limit)}, scanOwned(region))
	return all, claimError(claimsUnknown.name, err)
}

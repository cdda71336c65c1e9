package cockroach

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The status of a region decides one thing only: whether a key that has no home
// may get its home there. The statements that give one, pin and pin_write, look at
// the region's row themselves; what processes remember of it saves trips. Claims
// and existing pins never look, so that a status, however late it is seen, cannot
// move a key or stop a retry.

var (
	regionStatus   = declare[statusArgs]("region_status")
	claimsInFlight = declare[homeArgs]("claims_in_flight")
)

type statusArgs struct {
	Name   string
	Status int16
	Epoch  int64
}

// SetRegionStatus sets what an operator says of a region: 0 active, 1 draining,
// 2 down, as package region numbers them. It returns the epoch of the table in
// which the region has that status, and changes nothing where it has it already.
// No statement that begins after it has returned gives a key its home in a region
// that is not active.
func (db *DB) SetRegionStatus(ctx context.Context, name string, status uint8) (epoch uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	for {
		rows, err := db.Regions(ctx)
		if err != nil {
			return 0, err
		}
		newest, here := uint64(0), -1
		for i, r := range rows {
			newest = max(newest, r.Epoch)
			if r.Name == name {
				here = i
			}
		}
		switch {
		case here < 0:
			return 0, fmt.Errorf("database: there is no region %q; homeward regions shows those that there are", name)
		case rows[here].Status == status:
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

// InFlight counts the claims of a region whose outcome is still to come, without
// those that are parked for a person. It is for operators: it looks at the
// region's outbox, row by row.
func (v *View) InFlight(ctx context.Context, region string) (int, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil {
		return 0, err
	}
	n, _, _, err := one(ctx, v.db, claimsInFlight, repeatable, homeArgs{region}, pgx.RowTo[int64])
	return int(n), claimError(claimsInFlight.name, err)
}

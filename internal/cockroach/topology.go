package cockroach

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
)

// The status of a region decides one thing only: whether a key that has no home
// may get its home there. The statements that give one, pin and pin_write, look at
// the region's row themselves; what processes remember of it saves trips. Claims
// and existing pins never look, so that a status, however late it is seen, cannot
// move a key or stop a retry.

// SetRegionStatus sets what an operator says of a region: 0 active, 1 draining,
// 2 down, as package region numbers them. It returns the epoch of the table in
// which the region has that status, and changes nothing where it has it already.
// No statement that begins after it has returned gives a key its home in a region
// that is not active.
func (db *DB) SetRegionStatus(ctx context.Context, name string, status uint8) (epoch uint64, err error) {
	at, changed, _, err := one(ctx, db, "region_status", repeatable, []any{name, int16(status)}, pgx.RowTo[int64])
	if err != nil && !hasCode(err, codeInvalidText) {
		return 0, claimError("region_status", err)
	}
	if changed {
		return uint64(at), nil
	}
	rows, err := db.Regions(ctx)
	if err != nil {
		return 0, err
	}
	found := false
	for _, r := range rows {
		found = found || r.Name == name && r.Status == status
		epoch = max(epoch, r.Epoch)
	}
	if !found {
		if _, known := (*db.regions.Load())[name]; known {
			return 0, fmt.Errorf("%w: somebody else has changed the status of region %s at the same time; look, and say it again", claim.ErrUnavailable, name)
		}
		return 0, fmt.Errorf("database: there is no region %q; homeward regions shows those that there are", name)
	}
	return epoch, nil
}

// InFlight counts the claims of a region whose outcome is still to come, without
// those that are parked for a person. It is for operators: it looks at the
// region's outbox, row by row.
func (v *View) InFlight(ctx context.Context, region string) (int, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil {
		return 0, err
	}
	n, _, _, err := one(ctx, v.db, "claims_in_flight", repeatable, []any{region}, pgx.RowTo[int64])
	return int(n), claimError("claims_in_flight", err)
}

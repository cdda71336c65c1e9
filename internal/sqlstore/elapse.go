package sqlstore

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/notice"
)

var elapse = declare[elapseArgs]("elapse")

type elapseArgs struct {
	Home, TenantID, Notices string
	By                      time.Duration
	More, Most              int32
	Step                    uuid.UUID
}

// Elapse implements [claim.Store]. It is one statement.
func (v *View) Elapse(ctx context.Context, home, tenant string, by time.Duration) error {
	if claim.Livemode(tenant) {
		return claim.ErrLive
	}
	ctx, err := v.reach(ctx, home)
	if err != nil {
		return err
	}
	more, most := v.db.policy.Asks(by)
	_, _, _, err = one(ctx, v.db, elapse, once, elapseArgs{home, tenant, notice.TestID(tenant, ""), by, int32(more), int32(most), newStep()}, pgx.RowTo[int64])
	return claimError(elapse.name, err)
}

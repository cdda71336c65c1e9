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
	keyArgs
	Notices    string
	By         time.Duration
	More, Most int32
	Limit      int64
	Step       uuid.UUID
}

// keysPerElapse bounds one statement of Elapse, some 20 ms on PostgreSQL.
const keysPerElapse = int64(1000)

// Elapse implements [claim.Store]. Each page of keys is a statement of its own: after an error in
// between, time has passed for some.
func (v *View) Elapse(ctx context.Context, home, tenant string, by time.Duration) error {
	if claim.Livemode(tenant) {
		return claim.ErrLive
	}
	ctx, err := v.reach(ctx, home)
	if err != nil {
		return err
	}
	more, most := v.db.policy.Asks(by)
	type page struct {
		Size int64
		Last string
	}
	after := claim.Key{Tenant: tenant}
	for {
		p, _, _, err := one(ctx, v.db, elapse, once, elapseArgs{
			keyIn(home, after), notice.TestID(tenant, ""), by, int32(more), int32(most), keysPerElapse, newStep(),
		}, pgx.RowToStructByPos[page])
		if err != nil {
			return claimError(elapse.name, err)
		}
		if p.Size < keysPerElapse {
			return nil
		}
		after.Value = p.Last
	}
}

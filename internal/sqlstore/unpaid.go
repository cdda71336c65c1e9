package sqlstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
)

var unpaidObject = declare[objectArgs]("unpaid")

// Unpaid reads the [claim.Unpaid] row of an object with authority.
func (v *View) Unpaid(ctx context.Context, home, id string) (claim.Unpaid, bool, error) {
	ctx, err := v.reach(ctx, home)
	if err != nil {
		return claim.Unpaid{}, false, err
	}
	u, found, _, err := one(ctx, v.db, unpaidObject, repeatable, objectArgs{Home: home, ObjectID: id}, func(row pgx.CollectableRow) (claim.Unpaid, error) {
		u := claim.Unpaid{Object: id, Home: home}
		var state int16
		err := row.Scan(&u.Tenant, &u.Operation, &state, &u.Reason, &u.At)
		u.State, u.At = claim.State(state), u.At.UTC()
		return u, err
	})
	return u, found, claimError(unpaidObject.name, err)
}

package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/payment/notice"
)

var (
	brakes   = declare[none]("brakes")
	brakePut = declare[brakeArgs]("brake_put")
)

type brakeArgs struct {
	Provider string
	Version  int64
	State    []byte
}

// Brakes implements [notice.BrakeStore].
func (db *DB) Brakes(ctx context.Context) (rows []notice.Brake, now time.Time, err error) {
	type read struct {
		provider *string
		version  *int64
		state    []byte
	}
	all, err := many(ctx, db, brakes, repeatable, none{}, func(row pgx.CollectableRow) (r read, err error) {
		err = row.Scan(&now, &r.provider, &r.version, &r.state)
		return r, err
	})
	if err != nil {
		return nil, time.Time{}, claimError(brakes.name, err)
	}
	for _, r := range all {
		if r.provider == nil || r.version == nil {
			continue
		}
		var b notice.Brake
		if err := json.Unmarshal(r.state, &b); err != nil {
			return nil, time.Time{}, fmt.Errorf("database: the row of brakes for provider %q cannot be decoded: %w", *r.provider, err)
		}
		b.Provider, b.Version = *r.provider, uint64(*r.version)
		rows = append(rows, b)
	}
	slices.SortFunc(rows, func(a, b notice.Brake) int { return strings.Compare(a.Provider, b.Provider) })
	return rows, now.UTC(), nil
}

// PutBrake implements [notice.BrakeStore].
func (db *DB) PutBrake(ctx context.Context, b notice.Brake) (changed bool, err error) {
	state, err := json.Marshal(b)
	if err != nil {
		return false, err
	}
	// A second run of a statement whose reply was lost finds its own version and changes
	// nothing, which would look as if another had been faster.
	_, changed, _, err = one(ctx, db, brakePut, once, brakeArgs{b.Provider, int64(b.Version), state}, pgx.RowTo[int64])
	return changed, claimError(brakePut.name, err)
}

// Brakes is [DB.Brakes].
func (v *View) Brakes(ctx context.Context) ([]notice.Brake, time.Time, error) {
	return v.db.Brakes(ctx)
}

// PutBrake is [DB.PutBrake].
func (v *View) PutBrake(ctx context.Context, b notice.Brake) (bool, error) {
	return v.db.PutBrake(ctx, b)
}

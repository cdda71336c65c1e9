package sqlstore

import (
	"context"
	"time"

	"github.com/homeward-io/homeward/payment/notice"
)

// Brakes implements [notice.BrakeStore].
func (db *DB) Brakes(ctx context.Context) (rows []notice.Brake, now time.Time, err error) {
	all, now, err := db.documents(ctx, brakeDocument)
	if err != nil {
		return nil, time.Time{}, err
	}
	for i := range all {
		var b notice.Brake
		if err := readDocument(brakeDocument, &all[i], &b); err != nil {
			return nil, time.Time{}, err
		}
		b.Provider, b.Version = all[i].name, all[i].version
		rows = append(rows, b)
	}
	return rows, now, nil
}

// PutBrake implements [notice.BrakeStore].
func (db *DB) PutBrake(ctx context.Context, b notice.Brake) (changed bool, err error) {
	return db.putDocument(ctx, brakeDocument, b.Provider, b.Version, b)
}

// Brakes is [DB.Brakes].
func (v *View) Brakes(ctx context.Context) ([]notice.Brake, time.Time, error) {
	return v.db.Brakes(ctx)
}

// PutBrake is [DB.PutBrake].
func (v *View) PutBrake(ctx context.Context, b notice.Brake) (bool, error) {
	return v.db.PutBrake(ctx, b)
}

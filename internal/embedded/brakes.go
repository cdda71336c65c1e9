package embedded

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

// Brakes are stored like tenants: each region has a copy of the table, so that access
// costs no trip. A row's value is its version and then the rest as JSON, as in the SQL
// store.

const brakeHead = 8 // bytes of the version

// readBrakes reads every row. brakeMu must be held.
func (db *DB) readBrakes() (rows []notice.Brake, err error) {
	prefix := []byte{tableBrake}
	err = db.scan(prefix, prefixEnd(prefix), func(k, value []byte) (bool, error) {
		b := notice.Brake{}
		if len(value) < brakeHead {
			return false, damaged("brake", string(k[1:]), errors.New("it is truncated"))
		}
		if err := json.Unmarshal(value[brakeHead:], &b); err != nil {
			return false, damaged("brake", string(k[1:]), err)
		}
		b.Provider, b.Version = string(k[1:]), binary.BigEndian.Uint64(value)
		rows = append(rows, b)
		return true, nil
	})
	slices.SortFunc(rows, func(a, b notice.Brake) int { return cmp.Compare(a.Provider, b.Provider) })
	return rows, err
}

// Brakes implements [notice.BrakeStore].
func (db *DB) Brakes(ctx context.Context) ([]notice.Brake, time.Time, error) {
	if err := db.enter(ctx); err != nil {
		return nil, time.Time{}, err
	}
	defer db.leave()
	db.brakeMu.RLock()
	defer db.brakeMu.RUnlock()
	rows, err := db.readBrakes()
	return rows, db.clock.now(), err
}

// PutBrake implements [notice.BrakeStore].
func (db *DB) PutBrake(ctx context.Context, b notice.Brake) (changed bool, err error) {
	if err := db.enter(ctx); err != nil {
		return false, err
	}
	defer db.leave()
	db.brakeMu.Lock()
	defer db.brakeMu.Unlock()
	rows, err := db.readBrakes()
	if err != nil {
		return false, err
	}
	var version uint64
	for _, row := range rows {
		if row.Provider == b.Provider {
			version = row.Version
		}
	}
	if version != b.Version {
		return false, nil
	}
	state, err := json.Marshal(b)
	if err != nil {
		return false, err
	}
	batch := db.pebble.NewBatch()
	defer func() { _ = batch.Close() }()
	key := append([]byte{tableBrake}, b.Provider...)
	if err := batch.Set(key, append(binary.BigEndian.AppendUint64(nil, version+1), state...), nil); err != nil {
		return false, err
	}
	err = db.commit(batch, pebble.Sync)
	return err == nil, err
}

// Brakes is [DB.Brakes].
func (v *View) Brakes(ctx context.Context) ([]notice.Brake, time.Time, error) {
	return v.db.Brakes(ctx)
}

// PutBrake is [DB.PutBrake].
func (v *View) PutBrake(ctx context.Context, b notice.Brake) (bool, error) {
	return v.db.PutBrake(ctx, b)
}

// Book implements [notice.Store].
func (v *View) Book(ctx context.Context, t ledger.Transaction, tell []outbox.Message) (posted bool, err error) {
	return v.post(ctx, t, tell)
}

// GhostRefund implements [ledger.Store]. It scans the region's books: a refund that
// fails after it was booked is rare, and an index would be written with each.
func (v *View) GhostRefund(ctx context.Context, region, object string) (t ledger.Transaction, found bool, err error) {
	all, err := v.booked(ctx, region, 1, func(t *ledger.Transaction) bool { return t.Kind == ledger.GhostRefund && t.Object == object })
	if err != nil || len(all) == 0 {
		return t, false, err
	}
	return all[0], true, nil
}

// About implements [ledger.Store]. It scans the region's books, for an operator.
func (v *View) About(ctx context.Context, region, object string) ([]ledger.Transaction, error) {
	return v.booked(ctx, region, math.MaxInt, func(t *ledger.Transaction) bool {
		own := t.Kind == ledger.Charge || t.Kind == ledger.Transfer || t.Kind == ledger.Refund
		return !own && t.Object == object
	})
}

// booked scans a region's books for up to limit transactions that match, by id.
func (v *View) booked(ctx context.Context, region string, limit int, match func(*ledger.Transaction) bool) (all []ledger.Transaction, err error) {
	code, err := v.reach(ctx, region)
	if err != nil {
		return nil, err
	}
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	prefix := appendRegion(nil, tableLedger, code)
	err = v.db.scan(prefix, prefixEnd(prefix), func(k, value []byte) (bool, error) {
		row, err := decodeTransaction(region, string(k[len(prefix):]), value)
		if err != nil {
			return false, err
		}
		if match(row) {
			all = append(all, *row)
		}
		return len(all) < limit, ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return all, v.db.afterScan()
}

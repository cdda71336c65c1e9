package embedded

import (
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/notice"
)

// sweepScan bounds the rows that one Sweep scans, so that it stays below some 20 ms
// however few of them can be deleted.
const sweepScan = 10_000

// The tables that Sweep scans; the index is where it stopped.
const (
	sweepsClaims = iota
	sweepsPins
	sweepsNotices
	sweepsUnpaid
	sweepTables
)

// Sweep deletes up to limit expired rows: claims that have been gone for about
// Policy.PinGrace, pins past their life that protect no claim, processed notices older
// than [notice.KeepFor], and [claim.Unpaid] rows after Policy.RememberFor. It drops the
// bodies of notices that were processed [notice.KeepBodyFor] ago, and counts them with
// the rows. Audit and books stay. Only disk space and how long bodies are kept depend
// on its being called: expiry is judged when a row is read. Each call continues where
// the last one stopped. It is safe to call at any time.
func (db *DB) Sweep(ctx context.Context, limit int) (removed int, err error) {
	if err := db.enter(ctx); err != nil {
		return 0, err
	}
	defer db.leave()
	db.sweepMu.Lock()
	defer db.sweepMu.Unlock()
	names := make(map[claim.RegionCode]string, len(db.regions))
	for name, code := range db.regions {
		names[code] = name
	}
	for i, table := range [...]struct {
		letter byte
		delete func(home string, code claim.RegionCode, key claim.Key) (bool, error)
	}{
		sweepsClaims:  {tableClaim, db.sweepClaim},
		sweepsPins:    {tablePin, db.sweepPin},
		sweepsNotices: {tableNotice, db.sweepNotice},
		sweepsUnpaid:  {tableUnpaid, db.sweepUnpaid},
	} {
		from := db.sweeps[i]
		if from == nil {
			from = []byte{table.letter}
		}
		seen := 0
		db.sweeps[i] = nil // back to the start, unless the scan is cut short
		err := db.scan(from, []byte{table.letter + 1}, func(k, _ []byte) (bool, error) {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			if seen == sweepScan || removed >= limit {
				db.sweeps[i] = append([]byte(nil), k...)
				return false, nil
			}
			seen++
			code, key, ok := readScoped(k)
			if !ok {
				return false, damaged("row", string(k), errors.New("its key is truncated"))
			}
			name, ok := names[code]
			if !ok {
				return true, nil // a region that is not configured now
			}
			gone, err := table.delete(name, code, key)
			if gone {
				removed++
			}
			return err == nil, err
		})
		if err != nil {
			return removed, err
		}
	}
	if db.sweeps[sweepsPins] == nil { // every pin has been looked at
		return removed, db.forgetRegistrars()
	}
	return removed, nil
}

// pastLife reports whether a pin of time t has expired by itself.
func (db *DB) pastLife(t time.Time) bool {
	return !db.clock.now().Before(t.Add(db.policy.PinLife()))
}

// sweepClaim deletes a claim and its object index row, but keeps its audit. Losing the
// deletion in a crash does no harm, so it is not synced.
func (db *DB) sweepClaim(home string, code claim.RegionCode, key claim.Key) (bool, error) {
	lock := db.rows.of(code, key)
	lock.Lock()
	defer lock.Unlock()
	rec, audit, err := db.lookClaim(perhaps, home, code, key)
	now := db.clock.now()
	if err != nil || rec == nil || rec.Age(&db.policy, now) != claim.Gone || now.Before(rec.FreeAt(&db.policy, now).Add(db.policy.PinGrace)) {
		return false, err
	}
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	s := scratches.Get().(*scratch)
	defer s.release()
	if err := moveAudit(b, s, code, key, audit); err != nil {
		return false, err
	}
	if err := b.Delete(appendScoped(nil, tableClaim, code, key.Tenant, key.Value), nil); err != nil {
		return false, unavailable(err)
	}
	if err := b.Delete(appendMessage(nil, tableObject, code, rec.Minted.ID), nil); err != nil {
		return false, unavailable(err)
	}
	err = db.commit(b, pebble.NoSync)
	return err == nil, err
}

// sweepPin deletes a pin of registrar code. A pin that a newer one at another
// registrar has replaced goes the same way.
func (db *DB) sweepPin(_ string, code claim.RegionCode, key claim.Key) (bool, error) {
	lock := db.pins.of(0, key)
	lock.Lock()
	defer lock.Unlock()
	pin, err := db.readPin(code, key)
	if err != nil || pin == nil || !db.pastLife(pin.CreatedAt) {
		return false, err
	}
	home, ok := db.regions[pin.Home]
	if !ok {
		return false, nil // it is not known whether a claim there still owns the key
	}
	rec, err := db.readSynced(pin.Home, home, key)
	if err != nil || rec != nil && rec.Age(&db.policy, db.clock.now()) != claim.Gone {
		return false, err
	}
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	if err := b.Delete(appendScoped(nil, tablePin, code, key.Tenant, key.Value), nil); err != nil {
		return false, unavailable(err)
	}
	err = db.commit(b, pebble.NoSync)
	return err == nil, err
}

// sweepNotice drops the body of a notice that was processed some time ago, and deletes
// one that no provider repeats any more. An unprocessed one stays, as its row does.
func (db *DB) sweepNotice(region string, code claim.RegionCode, key claim.Key) (bool, error) {
	lock := db.rows.of(code, key)
	lock.Lock()
	defer lock.Unlock()
	now := db.clock.now()
	n, err := db.readKept(region, code, key.Value)
	if err != nil || n == nil || now.Before(n.ReceivedAt.Add(notice.KeepBodyFor)) {
		return false, err
	}
	if err := db.readClosing(code, n); err != nil || n.Status == notice.Unprocessed {
		return false, err
	}
	old := !now.Before(n.ReceivedAt.Add(notice.KeepFor))
	if !old && (len(n.Body) == 0 || now.Before(n.ProcessedAt.Add(notice.KeepBodyFor))) {
		return false, nil
	}
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	if old {
		for _, table := range []byte{tableNotice, tableClosing} {
			if err := b.Delete(appendScoped(nil, table, code, "", n.ID), nil); err != nil {
				return false, unavailable(err)
			}
		}
	} else {
		n.Body = nil
		s := scratches.Get().(*scratch)
		defer s.release()
		if err := putNotice(b, s, code, n); err != nil {
			return false, err
		}
	}
	err = db.commit(b, pebble.NoSync)
	return err == nil, err
}

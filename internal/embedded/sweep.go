package embedded

import (
	"bytes"
	"context"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/notice"
)

// sweepScan bounds the rows that one Sweep scans, so that it stays below some 20 ms
// however few of them can be deleted.
const sweepScan = 10_000

// Sweep deletes up to limit expired rows: claims that have been gone for about
// Policy.PinGrace, pins past their life that protect no claim, processed notices older
// than [notice.KeepFor], and [claim.Unpaid] rows after Policy.RememberFor. It drops the
// bodies of notices that were processed [notice.KeepBodyFor] ago, and counts them with
// the rows. Audit and books stay. Only disk space and how long bodies are kept depend
// on its being called: expiry is judged when a row is read. Each call continues where
// the last one stopped. It is safe to call at any time.
func (db *DB) Sweep(ctx context.Context, limit int) (removed int, err error) {
	err = db.do(ctx, func(t *tx) {
		t.hold(&t.sweepMu)
		for _, table := range []struct {
			letter byte
			sweep  func(t *tx, row []byte) (gone bool)
		}{
			{tableClaim, (*tx).sweepClaim}, {tablePin, (*tx).sweepPin}, {tableNotice, (*tx).sweepNotice}, {tableUnpaid, (*tx).sweepUnpaid},
		} {
			from, seen := t.sweeps[table.letter], 0
			if from == nil {
				from = []byte{table.letter}
			}
			delete(t.sweeps, table.letter) // back to the start, unless the scan is cut short
			t.scan(from, []byte{table.letter + 1}, func(row, _ []byte) bool {
				if seen == sweepScan || removed >= limit {
					t.sweeps[table.letter] = bytes.Clone(row)
					return false
				}
				seen++
				at := slices.IndexFunc(t.order, func(r claim.Region) bool { return bytes.HasPrefix(row, rowKey(table.letter, r.Code)) })
				if at < 0 {
					return true // a region that is not configured now
				}
				// Each row is a step of its own. Losing it in a crash does no harm.
				gone := false
				err := t.run(ctx, func(t *tx) {
					t.opts = pebble.NoSync
					gone = table.sweep(t.of(t.order[at].Name), row)
				})
				if t.fail(err); gone && err == nil {
					removed++
				}
				return true
			})
		}
		if t.sweeps[tablePin] == nil { // the sweep has checked every pin
			t.fail(t.run(ctx, (*tx).forgetRegistrars))
		}
	})
	return removed, err
}

// sweepClaim deletes a claim and what names its object, but keeps its audit.
func (t *tx) sweepClaim(row []byte) (gone bool) {
	key, err := readPair(row[keyHead:])
	t.fail(err)
	t.lock(t.rows, t.rows.index(t.code, key))
	rec, now := t.claim(key), t.clock.now()
	if rec == nil || rec.Age(&t.policy, now) != claim.Gone || now.Before(rec.FreeAt(&t.policy, now).Add(t.policy.PinGrace)) {
		return false
	}
	t.delete(row)
	t.delete(t.key(tableObject, rec.Minted.ID))
	return true
}

// sweepPin deletes a pin of a registrar. A pin that a newer one at another registrar has
// replaced goes the same way.
func (t *tx) sweepPin(row []byte) (gone bool) {
	key, err := readPair(row[keyHead:])
	t.fail(err)
	t.lock(t.pins, t.pins.index(0, key))
	pin, now := t.pin(key), t.clock.now()
	if pin == nil || now.Before(pin.CreatedAt.Add(t.policy.PinLife())) {
		return false
	}
	if _, ok := t.regions[pin.Home]; !ok {
		return false // a claim there may still own the key
	}
	if rec := t.of(pin.Home).syncedClaim(key); rec != nil && rec.Age(&t.policy, now) != claim.Gone {
		return false
	}
	t.delete(row)
	return true
}

// sweepNotice drops the body of a notice that was processed some time ago, and deletes a notice
// that no provider repeats any more. An unprocessed one stays, as does its row.
func (t *tx) sweepNotice(row []byte) (gone bool) {
	id := string(row[keyHead:])
	t.lock(t.rows, t.rows.index(t.code, noticeOwner(id)))
	n, now := t.notice(id), t.clock.now()
	switch {
	case n == nil || n.Status == notice.Unprocessed:
		return false
	case !now.Before(n.ReceivedAt.Add(notice.KeepFor)):
		t.delete(row)
		return true
	case len(n.Body) == 0 || now.Before(n.ReceivedAt.Add(notice.KeepBodyFor)) || now.Before(n.ProcessedAt.Add(notice.KeepBodyFor)):
		return false
	}
	n.Body = nil
	t.put(row, toNotice(n))
	return true
}

// sweepUnpaid deletes the row of an object for which no money moved.
func (t *tx) sweepUnpaid(row []byte) (gone bool) {
	object := string(row[keyHead:])
	t.lock(t.books, t.books.index(t.code, bookOf(object)))
	u := t.unpaid(object)
	if u == nil || t.remembers(u) {
		return false
	}
	t.delete(row)
	return true
}

// remembers reports whether u is to be kept.
func (t *tx) remembers(u *claim.Unpaid) bool {
	return t.clock.now().Before(u.At.Add(t.policy.RememberFor))
}

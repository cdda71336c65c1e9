package embedded

import (
	"context"
	"time"

	"github.com/homeward-io/homeward/claim"
	storev1 "github.com/homeward-io/homeward/internal/gen/homeward/store/v1"
	"github.com/homeward-io/homeward/payment/notice"
)

// Elapse implements [claim.Store]. Each row is a step of its own: after a crash in between, time has
// passed for some.
func (v *View) Elapse(ctx context.Context, home, tenant string, by time.Duration) error {
	if claim.Livemode(tenant) {
		return claim.ErrLive
	}
	if err := checkName("tenant", tenant); err != nil {
		return err
	}
	return v.on(ctx, home, func(t *tx) {
		each := func(prefix []byte, step func(t *tx, row []byte)) {
			t.scan(prefix, prefixEnd(prefix), func(row, _ []byte) bool {
				name := string(row)
				t.fail(t.run(ctx, func(t *tx) { step(t.of(home), []byte(name)) }))
				return true
			})
		}
		each(append(t.key(tableClaim, tenant), nameEnd), func(t *tx, row []byte) { t.elapseClaim(row, by) })
		each(append(t.key(tablePin, tenant), nameEnd), func(t *tx, row []byte) { t.elapsePin(row, by) })
		each(t.key(notices.row, notice.TestID(tenant, "")), func(t *tx, row []byte) {
			id := string(row[keyHead:])
			t.lock(t.rows, t.rows.index(t.code, noticeOwner(id)))
			t.elapseMessage(notices, id, by)
		})
	})
}

// elapseClaim makes a claim, and what waits for its time, older.
func (t *tx) elapseClaim(row []byte, by time.Duration) {
	key, err := readPair(row[keyHead:])
	t.fail(err)
	t.lock(t.rows, t.rows.index(t.code, key))
	rec, call := t.claimed(key)
	if rec == nil {
		return
	}
	var fx claim.Effects
	if call != nil && rec.Holder == "" {
		fx.Reschedule = call.Due.Add(-by)
	}
	t.put(row, toClaim(rec.Elapsed(by, &t.policy), t.called(call, &fx)))
	t.elapseMessage(expiries, rec.Minted.ID, by)
	t.lock(t.books, t.books.index(t.code, bookOf(rec.Minted.ID)))
	if u := t.unpaid(rec.Minted.ID); u != nil {
		u.At = u.At.Add(-by)
		t.put(t.key(tableUnpaid, rec.Minted.ID), toUnpaid(u))
	}
	region := t.region
	t.then(func() { t.finals.Remove(finalKey{region, key}) })
}

func (t *tx) elapsePin(row []byte, by time.Duration) {
	key, err := readPair(row[keyHead:])
	t.fail(err)
	t.lock(t.pins, t.pins.index(0, key))
	if pin := t.pin(key); pin != nil {
		t.put(row, &storev1.Pin{Home: pin.Home, CreatedAt: micros(pin.CreatedAt.Add(-by))})
	}
}

// elapseMessage makes a row of a queue older. The lock of its owner is held.
func (t *tx) elapseMessage(q *queue, id string, by time.Duration) {
	m := t.message(q, id)
	if m == nil {
		return
	}
	older := *m
	older.Due = m.Due.Add(-by)
	if q == notices {
		older.CreatedAt = m.CreatedAt.Add(-by)
	}
	t.putMessage(q, m, &older)
}

package embedded

import (
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// depthLimit bounds what Depth counts, each of pending and parked: 100,000 rows
// take about 50 ms to scan, and beyond them the exact number changes nothing.
const depthLimit = 100_000

// An outbox row is guarded by the lock of the claim it follows from, so that a
// worker and a request never change it at once. Its due row exists exactly
// while it is not parked, its parked row exactly while it is.

// readMessage reads one row, nil if there is none.
func (db *DB) readMessage(region string, code claim.RegionCode, id string) (m *outbox.Message, err error) {
	s := scratches.Get().(*scratch)
	defer s.release()
	s.key = appendMessage(s.key[:0], tableOutbox, code, id)
	_, err = db.get(s.key, func(value []byte) error {
		m, err = decodeMessage(region, id, value)
		return err
	})
	return m, err
}

// putMessage writes next in place of old (nil for none) with its index rows.
func putMessage(b *pebble.Batch, s *scratch, code claim.RegionCode, old, next *outbox.Message) error {
	due := micros(next.Due)
	indexed := old != nil && old.Parked == next.Parked && (next.Parked || micros(old.Due) == due)
	if !indexed {
		if err := deleteIndex(b, s, code, old); err != nil {
			return err
		}
		if next.Parked {
			s.key = appendMessage(s.key[:0], tableParked, code, next.ID)
		} else {
			s.key = appendDue(s.key[:0], code, due, next.ID)
		}
		s.value = appendOwner(s.value[:0], next.Tenant, next.Key)
		if err := b.Set(s.key, s.value, nil); err != nil {
			return err
		}
	}
	s.key = appendMessage(s.key[:0], tableOutbox, code, next.ID)
	return s.set(b, s.key, messageToProto(next))
}

func deleteMessage(b *pebble.Batch, s *scratch, code claim.RegionCode, m *outbox.Message) error {
	if err := deleteIndex(b, s, code, m); err != nil {
		return err
	}
	s.key = appendMessage(s.key[:0], tableOutbox, code, m.ID)
	return b.Delete(s.key, nil)
}

// deleteIndex removes m's due or parked row; nil has none. An index row is set
// once before it is removed, which is what SingleDelete asks for: the pair then
// vanishes in the memtable's flush, and no scan for due rows wades through the
// tombstones of settled claims.
func deleteIndex(b *pebble.Batch, s *scratch, code claim.RegionCode, m *outbox.Message) error {
	if m == nil {
		return nil
	}
	if m.Parked {
		s.key = appendMessage(s.key[:0], tableParked, code, m.ID)
	} else {
		s.key = appendDue(s.key[:0], code, micros(m.Due), m.ID)
	}
	return b.SingleDelete(s.key, nil)
}

// dueRow is one candidate of Take.
type dueRow struct {
	due   int64
	id    string
	owner claim.Key
}

// Take implements [outbox.Store].
func (v *View) Take(ctx context.Context, region string, limit int, lease time.Duration) ([]outbox.Message, error) {
	code, err := v.reach(ctx, region)
	if err != nil {
		return nil, err
	}
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	if limit <= 0 {
		return nil, nil
	}
	db := v.db
	now := db.clock.now()
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	s := scratches.Get().(*scratch)
	defer s.release()
	held := map[int]bool{}
	defer func() {
		for i := range held {
			db.rows.mu[i].Unlock()
		}
	}()

	var taken []outbox.Message
	// The scan sees rows as they were when it began; each is read again under
	// its lock and skipped if it has changed since.
	from, to := appendRegion(nil, tableDue, code), appendDue(nil, code, micros(now)+1, "")
	err = db.scan(from, to, func(k, value []byte) (bool, error) {
		due, id, ok := readDue(k)
		owner, owned := readOwner(value)
		if !ok || !owned {
			return false, damaged("due row", id, errors.New("it is cut short"))
		}
		row := dueRow{due: due, id: id, owner: owner}
		i := db.rows.index(code, row.owner)
		if !held[i] {
			if !db.rows.mu[i].TryLock() {
				return true, nil // somebody is at work on it
			}
			held[i] = true
		}
		m, err := db.readMessage(region, code, row.id)
		if err != nil {
			return false, err
		}
		if m == nil || m.Parked || micros(m.Due) != row.due {
			return true, nil
		}
		next := *m
		next.Fence++
		next.Due = truncate(now.Add(lease))
		if err := putMessage(b, s, code, m, &next); err != nil {
			return false, err
		}
		taken = append(taken, next)
		return len(taken) < limit, nil
	})
	if err != nil {
		return nil, err
	}
	if err := db.commit(b, pebble.Sync); err != nil {
		return nil, err
	}
	return taken, nil
}

// errNoRow: no row, or not in the state that the caller expects.
var errNoRow = errors.New("embedded: no such outbox row")

// alter locks the row id of region, hands it to change, and makes what change
// did to it durable; a nil result of change deletes it.
func (v *View) alter(ctx context.Context, region, id string, change func(m outbox.Message, now time.Time) (*outbox.Message, error)) error {
	if err := checkName("outbox row", id); err != nil {
		return err
	}
	code, err := v.reach(ctx, region)
	if err != nil {
		return err
	}
	if err := v.db.enter(ctx); err != nil {
		return err
	}
	defer v.db.leave()
	// The row names the claim whose lock guards it, and never another one, so
	// it may be read without that lock first.
	m, err := v.db.readMessage(region, code, id)
	if err != nil {
		return err
	}
	if m == nil {
		return errNoRow
	}
	lock := v.db.rows.of(code, claim.Key{Tenant: m.Tenant, Value: m.Key})
	lock.Lock()
	defer lock.Unlock()
	if m, err = v.db.readMessage(region, code, id); err != nil {
		return err
	}
	if m == nil {
		return errNoRow
	}
	next, err := change(*m, v.db.clock.now())
	if err != nil {
		return err
	}
	b := v.db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	s := scratches.Get().(*scratch)
	defer s.release()
	if next == nil {
		err = deleteMessage(b, s, code, m)
	} else {
		err = putMessage(b, s, code, m, next)
	}
	if err != nil {
		return err
	}
	return v.db.commit(b, pebble.Sync)
}

// fenced is alter for the worker that took the row under fence.
func (v *View) fenced(ctx context.Context, region, id string, fence uint64, change func(m *outbox.Message, now time.Time) *outbox.Message) error {
	err := v.alter(ctx, region, id, func(m outbox.Message, now time.Time) (*outbox.Message, error) {
		if m.Fence != fence || m.Parked {
			return nil, outbox.ErrFenced
		}
		return change(&m, now), nil
	})
	if errors.Is(err, errNoRow) {
		return outbox.ErrFenced
	}
	return err
}

// Finish implements [outbox.Store].
func (v *View) Finish(ctx context.Context, region, id string, fence uint64) error {
	return v.fenced(ctx, region, id, fence, func(*outbox.Message, time.Time) *outbox.Message { return nil })
}

// Retry implements [outbox.Store].
func (v *View) Retry(ctx context.Context, region, id string, fence uint64, after time.Duration, reason string) error {
	return v.fenced(ctx, region, id, fence, func(m *outbox.Message, now time.Time) *outbox.Message {
		m.Due = truncate(now.Add(after))
		if reason != "" {
			m.Attempts++
			m.LastError = reason
		}
		return m
	})
}

// Park implements [outbox.Store].
func (v *View) Park(ctx context.Context, region, id string, fence uint64, reason string) error {
	return v.fenced(ctx, region, id, fence, func(m *outbox.Message, _ time.Time) *outbox.Message {
		m.Parked, m.LastError = true, reason
		return m
	})
}

// Unpark implements [outbox.Store].
func (v *View) Unpark(ctx context.Context, region, id string) (bool, error) {
	err := v.alter(ctx, region, id, func(m outbox.Message, now time.Time) (*outbox.Message, error) {
		if !m.Parked {
			return nil, errNoRow
		}
		m.Parked, m.Attempts, m.Due = false, 0, now
		return &m, nil
	})
	if errors.Is(err, errNoRow) {
		return false, nil
	}
	return err == nil, err
}

// Parked implements [outbox.Store].
func (v *View) Parked(ctx context.Context, region, after string, limit int) ([]outbox.Message, error) {
	code, err := v.reach(ctx, region)
	if err != nil {
		return nil, err
	}
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	if limit <= 0 {
		return nil, nil
	}
	var parked []outbox.Message
	prefix := appendRegion(nil, tableParked, code)
	from := prefix
	if after != "" {
		from = append(appendMessage(nil, tableParked, code, after), 0) // the next possible key
	}
	err = v.db.scan(from, prefixEnd(prefix), func(k, value []byte) (bool, error) {
		id := string(k[len(prefix):])
		owner, ok := readOwner(value)
		if !ok {
			return false, damaged("parked row", id, errors.New("it is cut short"))
		}
		lock := v.db.rows.of(code, owner)
		lock.RLock()
		m, err := v.db.readMessage(region, code, id)
		lock.RUnlock()
		if err != nil {
			return false, err
		}
		if m != nil && m.Parked {
			parked = append(parked, *m)
		}
		return len(parked) < limit, nil
	})
	return parked, err
}

// Depth implements [outbox.Store]. Beyond 100,000 rows of a sort it stops
// counting them.
func (v *View) Depth(ctx context.Context, region string) (outbox.Depth, error) {
	code, err := v.reach(ctx, region)
	if err != nil {
		return outbox.Depth{}, err
	}
	if err := v.db.enter(ctx); err != nil {
		return outbox.Depth{}, err
	}
	defer v.db.leave()
	var d outbox.Depth
	now := micros(v.db.clock.now())
	prefix := appendRegion(nil, tableDue, code)
	err = v.db.scan(prefix, prefixEnd(prefix), func(k, _ []byte) (bool, error) {
		due, id, ok := readDue(k)
		if !ok {
			return false, damaged("due row", id, errors.New("it is cut short"))
		}
		if due <= now {
			if d.Due == 0 {
				d.OldestDue = fromMicros(due)
			}
			d.Due++
		}
		d.Pending++
		return d.Pending < depthLimit, nil
	})
	if err != nil {
		return outbox.Depth{}, err
	}
	prefix = appendRegion(nil, tableParked, code)
	err = v.db.scan(prefix, prefixEnd(prefix), func(_, _ []byte) (bool, error) {
		d.Parked++
		return d.Parked < depthLimit, nil
	})
	return d, err
}

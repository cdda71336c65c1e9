package embedded

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// depthLimit bounds what Depth counts, each of pending and parked: 100,000 rows
// take about 50 ms to scan, and beyond them the exact number changes nothing.
const depthLimit = 100_000

// An outbox row is guarded by the lock of its owner, the claim that wrote it, so that a
// worker and a request never change it concurrently; a notice's row is its own owner.
// It has a due row while it is not parked and a parked row while it is. In a queue with
// lines only the first of each line has a due row, so that Take never scans rows that
// wait.

// queueView is one queue as a view sees it. It implements [outbox.Store].
type queueView struct {
	v *View
	q *queue
}

var _ outbox.Store = queueView{}

// Queue implements [outbox.Queues]. It panics for a name that is not one of
// [outbox.AllQueues].
func (v *View) Queue(name outbox.Queue) outbox.Store {
	q, ok := queues[name]
	if !ok {
		panic(fmt.Sprintf("embedded store: there is no queue %q", name))
	}
	return queueView{v: v, q: q}
}

// ownerOf returns the owner whose lock guards m.
func ownerOf(m *outbox.Message) claim.Key {
	if m.Tenant == "" {
		return claim.Key{Value: m.ID}
	}
	return claim.Key{Tenant: m.Tenant, Value: m.Key}
}

// readMessage reads one message, nil if there is none.
func (db *DB) readMessage(q *queue, region string, code claim.RegionCode, id string) (m *outbox.Message, err error) {
	m, err = db.readRow(q, region, code, id)
	if err == nil && m != nil && q == notices {
		err = db.addBody(code, m)
	}
	return m, err
}

// readRow is readMessage that leaves out what is not in the row: the body of a notice.
func (db *DB) readRow(q *queue, region string, code claim.RegionCode, id string) (m *outbox.Message, err error) {
	s := scratches.Get().(*scratch)
	defer s.release()
	s.key = appendMessage(s.key[:0], q.row, code, id)
	_, err = db.get(s.key, func(value []byte) error {
		m, err = decodeMessage(region, id, value)
		return err
	})
	return m, err
}

// others returns the first row of m's line that is not m, nil if there is none, and
// whether m is, or would be, before it. Without a line a row is always first. there
// reports whether m itself is in it. The caller holds the owner's lock.
func (db *DB) others(q *queue, code claim.RegionCode, m *outbox.Message, there bool) (other *outbox.Message, first bool, err error) {
	if q.line == 0 {
		return nil, true, nil
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	s.key = appendLine(s.key[:0], q, code, m)
	if db.lines.of(s.key).Load() == int64(bit(there)) {
		return nil, true, nil
	}
	prefix := appendLine(nil, q, code, m)
	mine := appendInLine(nil, q, code, m)
	first = true
	err = db.scan(prefix, prefixEnd(prefix), func(k, _ []byte) (bool, error) {
		switch c := bytes.Compare(k, mine); {
		case c == 0:
			return true, nil
		case c < 0:
			first = false
		}
		if len(k) < len(prefix)+8 {
			return false, damaged("line row", string(k), errors.New("it is truncated"))
		}
		other, err = db.readMessage(q, m.Region, code, string(k[len(prefix)+8:]))
		if err == nil && other == nil {
			err = damaged("line row", string(k), errors.New("its message is missing"))
		}
		return false, err
	})
	return other, first, err
}

// putMessage writes next in place of old with its index rows; either may be nil, for a
// row that is inserted or removed. One batch changes at most one row of a line. An
// index row is set once before it is removed, as SingleDelete requires: the pair then
// vanishes in the memtable's flush, and no scan for due rows steps over the tombstones
// of settled claims.
func (db *DB) putMessage(b *pebble.Batch, s *scratch, q *queue, code claim.RegionCode, old, next *outbox.Message) error {
	some := next
	if next == nil {
		some = old
	}
	had, has := old != nil && !old.Parked, next != nil && !next.Parked
	if q.due == 0 {
		// The row itself says when it is due.
	} else if other, first, err := db.others(q, code, some, had); err != nil {
		return err
	} else if first && !(had && has && micros(old.Due) == micros(next.Due)) {
		switch {
		case had:
			err = deleteDue(b, s, q, code, old)
		case has && other != nil:
			err = deleteDue(b, s, q, code, other)
		}
		switch {
		case err != nil:
		case has:
			err = setDue(b, s, q, code, next)
		case had && other != nil:
			err = setDue(b, s, q, code, other)
		}
		if err != nil {
			return err
		}
	}
	if q.line != 0 && had != has {
		s.key = appendInLine(s.key[:0], q, code, some)
		if err := setOrDelete(b, s.key, nil, has); err != nil {
			return err
		}
	}
	if was, is := old != nil && old.Parked, next != nil && next.Parked; was != is {
		s.key = appendMessage(s.key[:0], q.parked, code, some.ID)
		s.value = appendOwner(s.value[:0], ownerOf(some))
		if err := setOrDelete(b, s.key, s.value, is); err != nil {
			return err
		}
	}
	s.key = appendMessage(s.key[:0], q.row, code, some.ID)
	if next == nil {
		return b.Delete(s.key, nil)
	}
	row := *next
	if q == notices {
		row.Payload = nil // the notice has it
	}
	s.value = encodeMessage(s.value[:0], &row)
	return b.Set(s.key, s.value, nil)
}

func setDue(b *pebble.Batch, s *scratch, q *queue, code claim.RegionCode, m *outbox.Message) error {
	s.key = appendTimed(s.key[:0], q.due, code, micros(m.Due), m.ID)
	s.value = appendOwner(s.value[:0], ownerOf(m))
	return b.Set(s.key, s.value, nil)
}

func deleteDue(b *pebble.Batch, s *scratch, q *queue, code claim.RegionCode, m *outbox.Message) error {
	s.key = appendTimed(s.key[:0], q.due, code, micros(m.Due), m.ID)
	return b.SingleDelete(s.key, nil)
}

func setOrDelete(b *pebble.Batch, key, value []byte, set bool) error {
	if set {
		return b.Set(key, value, nil)
	}
	return b.SingleDelete(key, nil)
}

// appendEvents puts new rows of one key at the ends of its lines, and sorts ms. The caller
// holds the key's lock.
func (db *DB) appendEvents(b *pebble.Batch, s *scratch, code claim.RegionCode, ms []outbox.Message) error {
	slices.SortFunc(ms, func(x, y outbox.Message) int {
		return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
	})
	places := map[outbox.Kind]time.Time{} // the least ones, in lines that have an event of ms
	for i := range ms {
		m := &ms[i]
		if err := cmp.Or(checkName("event", m.ID), checkName("kind of event", string(m.Kind))); err != nil {
			return err
		}
		s.key = appendMessage(s.key[:0], events.row, code, m.ID)
		there, err := db.probe(s.key, func([]byte) error { return nil })
		if err != nil {
			return err
		}
		if there || i > 0 && m.ID == ms[i-1].ID {
			return fmt.Errorf("embedded store: the event %q is queued already; give each event an id of its own", m.ID)
		}
		place, behind := places[m.Kind]
		if !behind {
			if place, err = db.endOfLine(code, m); err != nil {
				return err
			}
			places[m.Kind] = place
		}
		if m.CreatedAt.Before(place) {
			m.CreatedAt = place
		}
		if !behind { // only it can be the first of the line
			if err := db.putMessage(b, s, events, code, nil, m); err != nil {
				return err
			}
			continue
		}
		s.key = appendInLine(s.key[:0], events, code, m)
		if err := b.Set(s.key, nil, nil); err != nil {
			return err
		}
		s.key = appendMessage(s.key[:0], events.row, code, m.ID)
		s.value = encodeMessage(s.value[:0], m)
		if err := b.Set(s.key, s.value, nil); err != nil {
			return err
		}
	}
	return nil
}

// endOfLine returns the first place behind the rows of m's line; zero: there is none. The
// caller holds the key's lock.
func (db *DB) endOfLine(code claim.RegionCode, m *outbox.Message) (place time.Time, err error) {
	prefix := appendLine(nil, events, code, m)
	if db.lines.of(prefix).Load() == 0 {
		return time.Time{}, nil
	}
	it, err := db.pebble.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return time.Time{}, unavailable(err)
	}
	if it.Last() {
		if k := it.Key(); len(k) <= len(prefix)+8 {
			err = damaged("line row", string(k), errCutShort)
		} else {
			place = fromMicros(int64(binary.BigEndian.Uint64(k[len(prefix):])) + 1)
		}
	}
	if cerr := it.Close(); err == nil && cerr != nil {
		err = unavailable(cerr)
	}
	return place, err
}

// Take implements [outbox.Store].
func (qv queueView) Take(ctx context.Context, region string, limit int, lease time.Duration) ([]outbox.Message, error) {
	code, err := qv.v.reach(ctx, region)
	if err != nil {
		return nil, err
	}
	if err := qv.v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer qv.v.db.leave()
	if limit <= 0 {
		return nil, nil
	}
	db := qv.v.db
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
	// Each due row is read again under its lock, and skipped if it has changed since.
	take := func(d due) error {
		us, id, ok := readDue(d.at)
		owner, owned := readOwner([]byte(d.owner))
		if !ok || !owned {
			return damaged("due row", id, errCutShort)
		}
		i := db.rows.index(code, owner)
		if !held[i] {
			if !db.rows.mu[i].TryLock() {
				return nil // a worker holds it
			}
			held[i] = true
			if qv.q == providerCalls {
				db.flights.forget(i)
			}
		}
		m, err := db.readRow(qv.q, region, code, id)
		if err != nil || m == nil || m.Parked || micros(m.Due) != us {
			return err
		}
		if _, first, err := db.others(qv.q, code, m, true); err != nil || !first {
			return err // an older one has been requeued meanwhile
		}
		next := *m
		next.Fence++
		next.Due = truncate(now.Add(lease))
		if err := db.putMessage(b, s, qv.q, code, m, &next); err != nil {
			return err
		}
		if qv.q == notices {
			if err := db.addBody(code, &next); err != nil {
				return err
			}
		}
		taken = append(taken, next)
		return nil
	}
	first := db.due(qv.q, code)
	to := string(appendTimed(nil, qv.q.due, code, micros(now)+1, "")[keyHead:])
	page := make([]due, 0, min(limit, dueWindow))
	for at := ""; len(taken) < limit; at = page[len(page)-1].at {
		if page, err = first.after(db, page[:0], at, to, now, len(held) > 0); err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		for _, d := range page {
			if len(taken) == limit {
				break
			}
			if err := take(d); err != nil {
				return nil, err
			}
		}
	}
	if err := db.commit(b, qv.q.takes); err != nil {
		return nil, err
	}
	return taken, nil
}

// errNoRow: no row, or not in the state that the caller expects.
var errNoRow = errors.New("embedded: no such outbox row")

// alter locks the row id of region, passes it to change, and makes the changes durable;
// a nil result of change deletes it.
func (qv queueView) alter(ctx context.Context, region, id string, change func(m outbox.Message, now time.Time) (*outbox.Message, error)) error {
	if err := checkName("outbox row", id); err != nil {
		return err
	}
	code, err := qv.v.reach(ctx, region)
	if err != nil {
		return err
	}
	if err := qv.v.db.enter(ctx); err != nil {
		return err
	}
	defer qv.v.db.leave()
	// The row names the claim whose lock guards it, and never another one, so
	// it may be read without that lock first.
	m, err := qv.v.db.readRow(qv.q, region, code, id)
	if err != nil {
		return err
	}
	if m == nil {
		return errNoRow
	}
	stripe := qv.v.db.rows.index(code, ownerOf(m))
	lock := &qv.v.db.rows.mu[stripe]
	lock.Lock()
	defer lock.Unlock()
	if qv.q == providerCalls {
		qv.v.db.flights.forget(stripe)
	}
	if m, err = qv.v.db.readRow(qv.q, region, code, id); err != nil {
		return err
	}
	if m == nil {
		return errNoRow
	}
	next, err := change(*m, qv.v.db.clock.now())
	if err != nil {
		return err
	}
	b := qv.v.db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	s := scratches.Get().(*scratch)
	defer s.release()
	if err := qv.v.db.putMessage(b, s, qv.q, code, m, next); err != nil {
		return err
	}
	sync := pebble.Sync
	if next == nil {
		other, _, err := qv.v.db.others(qv.q, code, m, !m.Parked)
		if err != nil {
			return err
		}
		if other == nil {
			// It cannot come back after one that must follow it.
			sync = qv.q.takes
		}
	}
	return qv.v.db.commit(b, sync)
}

// fenced is alter for the worker that took the row under fence.
func (qv queueView) fenced(ctx context.Context, region, id string, fence uint64, change func(m *outbox.Message, now time.Time) *outbox.Message) error {
	err := qv.alter(ctx, region, id, func(m outbox.Message, now time.Time) (*outbox.Message, error) {
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
func (qv queueView) Finish(ctx context.Context, region, id string, fence uint64) error {
	return qv.fenced(ctx, region, id, fence, func(*outbox.Message, time.Time) *outbox.Message { return nil })
}

// Retry implements [outbox.Store].
func (qv queueView) Retry(ctx context.Context, region, id string, fence uint64, after time.Duration, reason string) error {
	return qv.fenced(ctx, region, id, fence, func(m *outbox.Message, now time.Time) *outbox.Message {
		m.Due = truncate(now.Add(after))
		if reason != "" {
			m.Attempts++
			m.LastError = reason
		}
		return m
	})
}

// Park implements [outbox.Store].
func (qv queueView) Park(ctx context.Context, region, id string, fence uint64, reason string) error {
	return qv.fenced(ctx, region, id, fence, func(m *outbox.Message, _ time.Time) *outbox.Message {
		m.Parked, m.LastError = true, reason
		return m
	})
}

// Unpark implements [outbox.Store].
func (qv queueView) Unpark(ctx context.Context, region, id string) (bool, error) {
	err := qv.alter(ctx, region, id, func(m outbox.Message, now time.Time) (*outbox.Message, error) {
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
func (qv queueView) Parked(ctx context.Context, region, after string, limit int) ([]outbox.Message, error) {
	code, err := qv.v.reach(ctx, region)
	if err != nil {
		return nil, err
	}
	if err := qv.v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer qv.v.db.leave()
	if limit <= 0 {
		return nil, nil
	}
	var parked []outbox.Message
	prefix := appendRegion(nil, qv.q.parked, code)
	from := prefix
	if after != "" {
		from = append(appendMessage(nil, qv.q.parked, code, after), 0) // the next possible key
	}
	err = qv.v.db.scan(from, prefixEnd(prefix), func(k, value []byte) (bool, error) {
		id := string(k[len(prefix):])
		owner, ok := readOwner(value)
		if !ok {
			return false, damaged("parked row", id, errors.New("it is truncated"))
		}
		lock := qv.v.db.rows.of(code, owner)
		lock.RLock()
		m, err := qv.v.db.readMessage(qv.q, region, code, id)
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

// Depth implements [outbox.Store]. It stops counting rows of a sort beyond 100,000.
func (qv queueView) Depth(ctx context.Context, region string) (outbox.Depth, error) {
	code, err := qv.v.reach(ctx, region)
	if err != nil {
		return outbox.Depth{}, err
	}
	if err := qv.v.db.enter(ctx); err != nil {
		return outbox.Depth{}, err
	}
	defer qv.v.db.leave()
	d, err := qv.pending(code, qv.v.db.clock.now())
	if err != nil {
		return outbox.Depth{}, err
	}
	if qv.q.line != 0 { // only the first of each line has a due row
		d.Pending = 0
		prefix := appendRegion(nil, qv.q.line, code)
		err = qv.v.db.scan(prefix, prefixEnd(prefix), func(_, _ []byte) (bool, error) {
			d.Pending++
			return d.Pending < depthLimit, nil
		})
		if err != nil {
			return outbox.Depth{}, err
		}
	}
	prefix := appendRegion(nil, qv.q.parked, code)
	err = qv.v.db.scan(prefix, prefixEnd(prefix), func(_, _ []byte) (bool, error) {
		d.Parked++
		return d.Parked < depthLimit, nil
	})
	return d, err
}

// pending is Depth of what is not parked, of each line its first row.
func (qv queueView) pending(code claim.RegionCode, now time.Time) (d outbox.Depth, err error) {
	if qv.q == providerCalls {
		return qv.v.db.calls[code].depth(qv.v.db, now)
	}
	prefix := appendRegion(nil, qv.q.due, code)
	err = qv.v.db.scan(prefix, prefixEnd(prefix), func(k, _ []byte) (bool, error) {
		due, id, ok := readTimed(k)
		if !ok {
			return false, damaged("due row", id, errors.New("it is truncated"))
		}
		if due <= micros(now) {
			if d.Due == 0 {
				d.OldestDue = fromMicros(due)
			}
			d.Due++
		}
		d.Pending++
		return d.Pending < depthLimit, nil
	})
	return d, err
}

// Message implements [outbox.Store].
func (qv queueView) Message(ctx context.Context, region, id string) (outbox.Message, bool, error) {
	code, err := qv.v.reach(ctx, region)
	if err != nil {
		return outbox.Message{}, false, err
	}
	if err := qv.v.db.enter(ctx); err != nil {
		return outbox.Message{}, false, err
	}
	defer qv.v.db.leave()
	m, err := qv.v.db.readMessage(qv.q, region, code, id)
	if err != nil || m == nil {
		return outbox.Message{}, false, err
	}
	// Read again under its lock, so that the result is on disk.
	lock := qv.v.db.rows.of(code, ownerOf(m))
	lock.RLock()
	defer lock.RUnlock()
	if m, err = qv.v.db.readMessage(qv.q, region, code, id); err != nil || m == nil {
		return outbox.Message{}, false, err
	}
	return *m, true, nil
}

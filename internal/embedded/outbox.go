package embedded

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/homeward-io/homeward/claim"
	storev1 "github.com/homeward-io/homeward/internal/gen/homeward/store/v1"
	"github.com/homeward-io/homeward/outbox"
)

// depthLimit bounds what Depth counts, each of pending and parked: beyond it the exact
// number changes nothing.
const depthLimit = 100_000

// An outbox row is guarded by the lock of its owner, the claim that wrote it, so that a
// worker and a request never change it concurrently; a notice's row is its own owner.
// Beside it, it has a due row, which while it is parked is behind all others. An event
// that is not parked also has a row in its line: only the first of a line can be taken.

// queueView is one queue as a view sees it. It implements [outbox.Store].
type queueView struct {
	*View
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
	return queueView{View: v, q: q}
}

// ownerOf returns the key whose lock guards m.
func ownerOf(m *outbox.Message) claim.Key {
	if m.Tenant == "" {
		return claim.Key{Value: m.ID}
	}
	return claim.Key{Tenant: m.Tenant, Value: m.Key}
}

// message reads one message, nil if there is none.
func (t *tx) message(q *queue, id string) *outbox.Message {
	if q == providerCalls {
		_, call := t.claimed(t.named(id))
		return call
	}
	return row(t, t.key(q.row, id), func(m *storev1.Message) *outbox.Message { return fromMessage(t.region, id, m) })
}

// whole is message with the body of a notice, which its row leaves out.
func (t *tx) whole(q *queue, id string) *outbox.Message {
	m := t.message(q, id)
	if m != nil && q == notices {
		if n := t.notice(id); n != nil {
			m.Payload = n.Body
		}
	}
	return m
}

// putMessage writes next in place of old, with what the indexes have of it; either may be
// nil, for a row that is inserted or removed.
func (t *tx) putMessage(q *queue, old, next *outbox.Message) {
	t.index(q, old, next)
	some := cmp.Or(next, old)
	switch {
	case q == providerCalls:
		if rec, _ := t.claimed(ownerOf(some)); rec != nil {
			t.put(t.scoped(tableClaim, rec.Key), toClaim(rec, next))
		}
	case next == nil:
		t.delete(t.key(q.row, some.ID))
	default:
		row := toMessage(next)
		if q == notices {
			row.Payload = nil // the notice has it
		}
		t.put(t.key(q.row, next.ID), row)
	}
}

// index writes what the indexes have of next in place of that of old.
func (t *tx) index(q *queue, old, next *outbox.Message) {
	if was, is := t.dueKey(q, old), t.dueKey(q, next); !bytes.Equal(was, is) {
		if old != nil {
			t.setOnce(was, nil, false)
		}
		if next != nil {
			t.setOnce(is, t.place(q, next), true)
		}
	}
	if had, has := old != nil && !old.Parked, next != nil && !next.Parked; q.lines && had != has {
		t.setOnce(t.lineKey(cmp.Or(next, old)), nil, has)
	}
}

// dueKey is the key of m's due row, nil if there is no m.
func (t *tx) dueKey(q *queue, m *outbox.Message) []byte {
	switch {
	case m == nil:
		return nil
	case m.Parked:
		return t.timedKey(q.due, maxDue, m.ID)
	}
	return t.timedKey(q.due, micros(m.Due), m.ID)
}

// place is the value of m's due row: its owner's names and, for an event, the rest of its row
// in the line.
func (t *tx) place(q *queue, m *outbox.Message) []byte {
	if q.lines {
		return t.lineKey(m)[keyHead:]
	}
	return pair(ownerOf(m))
}

// due is the content of a due row: it names the row of the outbox.
type due struct {
	at    int64 // microseconds
	id    string
	owner claim.Key
	line  []byte // the key of its row in the line, without table and region
}

func readPlace(k, value []byte) (d due, err error) {
	names := bytes.SplitN(value, []byte{nameEnd}, 3)
	if len(names) < 2 {
		return d, damaged(k, errTruncated)
	}
	return due{owner: claim.Key{Tenant: string(names[0]), Value: string(names[1])}, line: bytes.Clone(value)}, nil
}

// maxDue is later than every due time: parked rows have it.
const maxDue = math.MaxInt64

// eachDue calls see for the rows of a queue that are due until then, in the order of their
// due times, until it returns false. It holds no locks: a row may have been handled
// meanwhile. In a queue with lines the row may wait for another.
func (t *tx) eachDue(q *queue, until int64, see func(due) (more bool)) {
	t.eachPlace(t.key(q.due), t.timedKey(q.due, until, ""), see)
}

func (t *tx) eachPlace(from, to []byte, see func(due) (more bool)) {
	t.scan(from, to, func(k, value []byte) bool {
		d, err := readPlace(k, value)
		t.fail(err)
		d.at, d.id, err = readTimed(k)
		t.fail(err)
		return t.err == nil && see(d)
	})
}

// eachFirst is eachDue without the rows that wait for another.
func (t *tx) eachFirst(q *queue, until int64, see func(due) (more bool)) {
	t.eachDue(q, until, func(d due) bool { return !t.first(q, &d) || see(d) })
}

// first reports whether a row is the first of its line, or has none.
func (t *tx) first(q *queue, d *due) (first bool) {
	if !q.lines {
		return true
	}
	line := append(t.key(tableLine), d.line...)
	prefix := line[:len(line)-8-len(d.id)]
	t.scan(prefix, prefixEnd(prefix), func(k, _ []byte) bool {
		first = bytes.Equal(k, line)
		return false
	})
	return first
}

// appendEvents puts new rows of one key at the ends of its lines, and sorts ms. The caller
// holds the key's lock.
func (t *tx) appendEvents(ms []outbox.Message) {
	slices.SortFunc(ms, func(x, y outbox.Message) int {
		return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
	})
	for i := range ms {
		m := &ms[i]
		t.fail(cmp.Or(checkName("event", m.ID), checkName("kind of event", string(m.Kind))))
		if t.has(t.key(events.row, m.ID)) || i > 0 && m.ID == ms[i-1].ID {
			t.fail(fmt.Errorf("embedded store: the event %q is queued already; give each event an id of its own", m.ID))
		}
		prefix := t.linePrefix(m)
		if last := t.last(prefix); len(last) > len(prefix)+8 {
			end := int64(binary.BigEndian.Uint64(last[len(prefix):]))
			m.CreatedAt = fromMicros(max(micros(m.CreatedAt), end+1))
		}
		t.putMessage(events, nil, m)
	}
}

// Take implements [outbox.Store]. Each due row is read again under its lock, and skipped if
// another has that.
func (qv queueView) Take(ctx context.Context, region string, limit int, lease time.Duration) (taken []outbox.Message, err error) {
	err = qv.on(ctx, region, func(t *tx) {
		if limit <= 0 {
			return
		}
		held, now := map[int]bool{}, t.clock.now()
		t.eachDue(qv.q, micros(now)+1, func(d due) bool {
			if i := t.rows.index(t.code, d.owner); !held[i] {
				if !t.rows.mu[i].TryLock() {
					return true
				}
				held[i] = true
				t.locks = append(t.locks, &t.rows.mu[i])
			}
			m := t.whole(qv.q, d.id)
			if m == nil || m.Parked || micros(m.Due) != d.at || !t.first(qv.q, &d) {
				return true
			}
			next := *m
			next.Fence++
			next.Due = truncate(now.Add(lease))
			t.putMessage(qv.q, m, &next)
			taken = append(taken, next)
			return len(taken) < limit
		})
	})
	if err != nil {
		return nil, err // none is taken
	}
	return taken, nil
}

// alter changes rows of a region in one step: those that are parked, or those that each are
// held under their fence. A nil result of change removes the row. It returns how many there
// were.
func (qv queueView) alter(ctx context.Context, region string, rows []outbox.Hold, parked bool, change func(i int, m *outbox.Message, now time.Time) *outbox.Message) (n int, err error) {
	err = qv.on(ctx, region, func(t *tx) {
		// A row names one claim for its life, whose lock guards it. So it may be read without
		// that lock first.
		var there, locks []int
		for i, r := range rows {
			if m := t.message(qv.q, r.ID); m != nil {
				there, locks = append(there, i), append(locks, t.rows.index(t.code, ownerOf(m)))
			}
		}
		t.lock(t.rows, locks...)
		for _, i := range there {
			m := t.message(qv.q, rows[i].ID)
			if m == nil || m.Parked != parked || !parked && m.Fence != rows[i].Fence {
				continue
			}
			old := *m
			t.putMessage(qv.q, &old, change(i, m, t.clock.now()))
			n++
		}
	})
	return n, err
}

// one is the error of a step of one row.
func one(n int, err error) error {
	if err == nil && n == 0 {
		return outbox.ErrFenced
	}
	return err
}

func finished(int, *outbox.Message, time.Time) *outbox.Message { return nil }

// Finish implements [outbox.Store].
func (qv queueView) Finish(ctx context.Context, region string, row outbox.Hold) error {
	return one(qv.alter(ctx, region, []outbox.Hold{row}, false, finished))
}

// FinishAll implements [outbox.Store].
func (qv queueView) FinishAll(ctx context.Context, region string, rows []outbox.Hold) error {
	_, err := qv.alter(ctx, region, rows, false, finished)
	return err
}

// Retry implements [outbox.Store].
func (qv queueView) Retry(ctx context.Context, region string, row outbox.Hold, after time.Duration, reason string) error {
	return one(qv.retry(ctx, region, []outbox.Delay{{Hold: row, After: after, Reason: reason}}))
}

// RetryAll implements [outbox.Store].
func (qv queueView) RetryAll(ctx context.Context, region string, rows []outbox.Delay) error {
	_, err := qv.retry(ctx, region, rows)
	return err
}

func (qv queueView) retry(ctx context.Context, region string, rows []outbox.Delay) (int, error) {
	holds := make([]outbox.Hold, len(rows))
	for i, r := range rows {
		holds[i] = r.Hold
	}
	return qv.alter(ctx, region, holds, false, func(i int, m *outbox.Message, now time.Time) *outbox.Message {
		m.Due = truncate(now.Add(rows[i].After))
		if rows[i].Reason != "" {
			m.Attempts++
			m.LastError = rows[i].Reason
		}
		return m
	})
}

// Park implements [outbox.Store].
func (qv queueView) Park(ctx context.Context, region string, row outbox.Hold, reason string) error {
	return one(qv.alter(ctx, region, []outbox.Hold{row}, false, func(_ int, m *outbox.Message, _ time.Time) *outbox.Message {
		m.Parked, m.LastError = true, reason
		return m
	}))
}

// Unpark implements [outbox.Store].
func (qv queueView) Unpark(ctx context.Context, region, id string) (bool, error) {
	n, err := qv.alter(ctx, region, []outbox.Hold{{ID: id}}, true, func(_ int, m *outbox.Message, now time.Time) *outbox.Message {
		m.Parked, m.Attempts, m.Due = false, 0, now
		return m
	})
	return n > 0 && err == nil, err
}

// Message implements [outbox.Store].
func (qv queueView) Message(ctx context.Context, region, id string) (m outbox.Message, found bool, err error) {
	err = qv.on(ctx, region, func(t *tx) {
		if row := t.message(qv.q, id); row != nil { // read again under its lock, so that the result is on disk
			m, found = valueOf(synced(t, t.rows.of(t.code, ownerOf(row)), func() *outbox.Message { return t.whole(qv.q, id) }))
		}
	})
	return m, found, err
}

// Parked implements [outbox.Store].
func (qv queueView) Parked(ctx context.Context, region, after string, limit int) ([]outbox.Message, error) {
	return page(ctx, qv.View, region, limit, func(t *tx, add func(*outbox.Message) bool) {
		t.eachPlace(behind(t.timedKey(qv.q.due, maxDue, after)), prefixEnd(t.key(qv.q.due)), func(d due) bool {
			return add(t.synced(qv.q, &d, true))
		})
	})
}

// Waiting implements [outbox.Store]. Of a line it lists the first.
func (qv queueView) Waiting(ctx context.Context, region string, limit int) ([]outbox.Message, error) {
	return page(ctx, qv.View, region, limit, func(t *tx, add func(*outbox.Message) bool) {
		t.eachFirst(qv.q, maxDue, func(d due) bool { return add(t.synced(qv.q, &d, false)) })
	})
}

// synced reads a row under the lock of its owner. It returns nil unless the row is still parked, or
// still not, as parked says.
func (t *tx) synced(q *queue, d *due, parked bool) *outbox.Message {
	m := synced(t, t.rows.of(t.code, d.owner), func() *outbox.Message { return t.whole(q, d.id) })
	if m == nil || m.Parked != parked {
		return nil
	}
	return m
}

// NextDue implements [outbox.Queues]: it reads the first due row of each queue.
func (v *View) NextDue(ctx context.Context, region string) (next map[outbox.Queue]time.Duration, err error) {
	next = map[outbox.Queue]time.Duration{}
	err = v.on(ctx, region, func(t *tx) {
		now := t.clock.now()
		for name, q := range queues {
			t.eachFirst(q, maxDue, func(d due) bool {
				next[name] = max(fromMicros(d.at).Sub(now), 0)
				return false
			})
		}
	})
	return next, err
}

// Depth implements [outbox.Store]. It counts up to 100,000 rows of each kind.
func (qv queueView) Depth(ctx context.Context, region string) (d outbox.Depth, err error) {
	err = qv.on(ctx, region, func(t *tx) {
		parked := t.timedKey(qv.q.due, maxDue, "")
		d.Pending, d.Parked = t.count(t.key(qv.q.due), parked), t.count(parked, prefixEnd(parked))
		t.eachFirst(qv.q, micros(t.clock.now())+1, func(row due) bool {
			if d.Due == 0 {
				d.OldestDue = fromMicros(row.at)
			}
			d.Due++
			return d.Due < depthLimit
		})
	})
	return d, err
}

// count counts the rows in [from, to), up to depthLimit.
func (t *tx) count(from, to []byte) (n int) {
	t.scan(from, to, func(_, _ []byte) bool {
		n++
		return n < depthLimit
	})
	return n
}

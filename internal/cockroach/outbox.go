package cockroach

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/outbox"
)

// queueTable is a table with the columns of outbox.
type queueTable struct {
	table string
	// inOrder: a row waits for those of its key and kind that came before it.
	inOrder bool
}

// queueTables are where the queues are kept.
var queueTables = map[outbox.Queue]queueTable{
	outbox.ProviderCalls: {table: "outbox"},
	outbox.Events:        {table: "events", inOrder: true},
	outbox.Expiries:      {table: "expiries"},
	outbox.Notices:       {table: "notices_due"},
}

// statement is the name under which the table has the statement of a file.
func (t queueTable) statement(file string) string {
	if rest, ok := strings.CutPrefix(file, queueFiles); ok {
		return t.table + "_" + rest
	}
	return file
}

// queue is one queue as the nodes of the view's region use it.
type queue struct {
	*View
	queueTable
}

// Queue implements [outbox.Queues].
func (v *View) Queue(q outbox.Queue) outbox.Store { return v.queue(q) }

func (v *View) queue(q outbox.Queue) queue { return queue{v, queueTables[q]} }

// work marks ctx as that of a worker. What is told to the world, or heard from it,
// does not take the place of what holds money.
func (q queue) work(ctx context.Context) context.Context {
	if q.ofCalls() {
		return ofClaims(ctx)
	}
	return outbox.Begun(ctx)
}

// ofCalls reports whether q is the queue of provider calls.
func (q queue) ofCalls() bool { return q.table == queueTables[outbox.ProviderCalls].table }

// dueMessage is a row and when it was due before it was taken.
type dueMessage struct {
	was     time.Time
	message outbox.Message
}

func scanMessage(row pgx.CollectableRow) (dueMessage, error) {
	var d dueMessage
	m := &d.message
	var fence int64
	var attempts int32
	err := row.Scan(&d.was, &m.ID, &m.Kind, &m.Tenant, &m.Key, &m.Operation, &m.Payload, &m.TraceParent,
		&m.CreatedAt, &m.Due, &fence, &attempts, &m.LastError, &m.Parked)
	m.Fence, m.Attempts = uint64(fence), uint32(attempts)
	m.CreatedAt, m.Due = m.CreatedAt.UTC(), m.Due.UTC()
	return d, err
}

func messages(rows []dueMessage, region string) []outbox.Message {
	all := make([]outbox.Message, 0, len(rows))
	for _, r := range rows {
		r.message.Region = region
		all = append(all, r.message)
	}
	return all
}

// Take implements [outbox.Store].
func (q queue) Take(ctx context.Context, region string, limit int, lease time.Duration) ([]outbox.Message, error) {
	ctx, err := q.reach(q.work(ctx), region)
	if err != nil || limit <= 0 {
		return nil, err
	}
	rows, err := many(ctx, q.db, q.statement("outbox_take"), once, []any{region, int64(limit), lease.Truncate(time.Microsecond)}, scanMessage)
	if err != nil {
		return nil, claimError(q.statement("outbox_take"), err)
	}
	slices.SortFunc(rows, func(a, b dueMessage) int {
		return cmp.Or(a.was.Compare(b.was), cmp.Compare(a.message.ID, b.message.ID))
	})
	return messages(rows, region), nil
}

// Message implements [outbox.Store].
func (q queue) Message(ctx context.Context, region, id string) (outbox.Message, bool, error) {
	ctx, err := q.reach(ctx, region)
	if err != nil {
		return outbox.Message{}, false, err
	}
	row, found, _, err := one(ctx, q.db, q.statement("outbox_message"), repeatable, []any{region, id}, scanMessage)
	row.message.Region = region
	if err != nil || !found {
		return outbox.Message{}, false, claimError(q.statement("outbox_message"), err)
	}
	return row.message, true, nil
}

// Finish implements [outbox.Store].
func (q queue) Finish(ctx context.Context, region, id string, fence uint64) error {
	lost, err := q.fenced(ctx, "outbox_finish", repeatable, region, id, fence)
	if !errors.Is(err, outbox.ErrFenced) || !lost {
		return err
	}
	// Perhaps our own first try removed it: a row that is gone is finished,
	// whoever did it.
	_, found, _, err := one(q.toward(q.work(ctx), region), q.db, q.statement("outbox_row"), repeatable, []any{region, id}, pgx.RowTo[int64])
	if err != nil {
		return claimError(q.statement("outbox_row"), err)
	}
	if found {
		return outbox.ErrFenced
	}
	return nil
}

// Retry implements [outbox.Store].
func (q queue) Retry(ctx context.Context, region, id string, fence uint64, after time.Duration, reason string) error {
	_, err := q.fenced(ctx, "outbox_retry", once, region, id, fence, after.Truncate(time.Microsecond), reason)
	return err
}

// FinishAll implements [outbox.Store]. A row of ours that a lost reply leaves open is gone
// when the statement is run again, which is no error.
func (q queue) FinishAll(ctx context.Context, region string, rows []outbox.Hold) error {
	ctx, err := q.reach(q.work(ctx), region)
	if err != nil || len(rows) == 0 {
		return err
	}
	for some := range slices.Chunk(rows, q.together(len(rows))) {
		ids, fences := make([]string, len(some)), make([]int64, len(some))
		for i, r := range some {
			ids[i], fences[i] = r.ID, int64(r.Fence)
		}
		_, _, err = affected(ctx, q.db, q.statement("outbox_finish_all"), repeatable, []any{region, ids, fences})
		if err != nil {
			return claimError(q.statement("outbox_finish_all"), err)
		}
	}
	return nil
}

// together is how many of n rows one statement ends. The rows of provider calls are also
// settled, many in a statement and in the order of their keys: two statements that each
// end several would wait for each other.
func (q queue) together(n int) int {
	if q.ofCalls() {
		return 1
	}
	return n
}

// RetryAll implements [outbox.Store].
func (q queue) RetryAll(ctx context.Context, region string, rows []outbox.Delay) error {
	ctx, err := q.reach(q.work(ctx), region)
	if err != nil || len(rows) == 0 {
		return err
	}
	var failed error
	for some := range slices.Chunk(rows, q.together(len(rows))) {
		ids, fences := make([]string, len(some)), make([]int64, len(some))
		pauses, reasons := make([]time.Duration, len(some)), make([]string, len(some))
		for i, r := range some {
			ids[i], fences[i] = r.ID, int64(r.Fence)
			pauses[i], reasons[i] = r.After.Truncate(time.Microsecond), r.Reason
		}
		_, _, err = affected(ctx, q.db, q.statement("outbox_retry_all"), once, []any{region, ids, fences, pauses, reasons})
		failed = cmp.Or(failed, claimError(q.statement("outbox_retry_all"), err))
	}
	return failed
}

// Look implements [outbox.Looker].
func (v *View) Look(ctx context.Context, region string) (outbox.Outlook, error) {
	// Among what finishes: money may wait for what it finds.
	ctx, err := v.reach(ofClaims(ctx), region)
	if err != nil {
		return nil, err
	}
	outlook, _, _, err := one(ctx, v.db, "look", repeatable, []any{region}, func(row pgx.CollectableRow) (outbox.Outlook, error) {
		var now time.Time
		var calls, expiries, notices, ready, later zeronull.Timestamptz
		err := row.Scan(&now, &calls, &expiries, &notices, &ready, &later)
		outlook := outbox.Outlook{}
		for q, due := range map[outbox.Queue]zeronull.Timestamptz{
			outbox.ProviderCalls: calls, outbox.Expiries: expiries, outbox.Notices: notices, outbox.Events: cmp.Or(ready, later),
		} {
			if due := time.Time(due); !due.IsZero() {
				outlook[q] = max(due.Sub(now), 0)
			}
		}
		return outlook, err
	})
	return outlook, claimError("look", err)
}

// Park implements [outbox.Store].
func (q queue) Park(ctx context.Context, region, id string, fence uint64, reason string) error {
	_, err := q.fenced(ctx, "outbox_park", once, region, id, fence, reason)
	return err
}

// fenced runs a statement of the worker that took row id under fence.
func (q queue) fenced(ctx context.Context, name string, again repeat, region, id string, fence uint64, more ...any) (lost bool, err error) {
	ctx, err = q.reach(q.work(ctx), region)
	if err != nil {
		return false, err
	}
	n, lost, err := affected(ctx, q.db, q.statement(name), again, append([]any{region, id, int64(fence)}, more...))
	if err == nil && n == 0 {
		return lost, outbox.ErrFenced
	}
	return lost, claimError(q.statement(name), err)
}

// Unpark implements [outbox.Store].
func (q queue) Unpark(ctx context.Context, region, id string) (bool, error) {
	ctx, err := q.reach(ctx, region)
	if err != nil {
		return false, err
	}
	n, _, err := affected(ctx, q.db, q.statement("outbox_unpark"), once, []any{region, id})
	return n > 0, claimError(q.statement("outbox_unpark"), err)
}

// Parked implements [outbox.Store].
func (q queue) Parked(ctx context.Context, region, after string, limit int) ([]outbox.Message, error) {
	ctx, err := q.reach(ctx, region)
	if err != nil || limit <= 0 {
		return nil, err
	}
	rows, err := many(ctx, q.db, q.statement("outbox_parked"), repeatable, []any{region, after, int64(limit)}, scanMessage)
	return messages(rows, region), claimError(q.statement("outbox_parked"), err)
}

// Depth implements [outbox.Store]. It counts every row of the region.
func (q queue) Depth(ctx context.Context, region string) (outbox.Depth, error) {
	ctx, err := q.reach(ctx, region)
	if err != nil {
		return outbox.Depth{}, err
	}
	d, _, _, err := one(ctx, q.db, q.statement("outbox_depth"), repeatable, []any{region}, func(row pgx.CollectableRow) (outbox.Depth, error) {
		var pending, due, parked int64
		var oldest zeronull.Timestamptz
		err := row.Scan(&pending, &due, &parked, &oldest)
		d := outbox.Depth{Pending: int(pending), Due: int(due), Parked: int(parked)}
		if t := time.Time(oldest); !t.IsZero() {
			d.OldestDue = t.UTC()
		}
		return d, err
	})
	return d, claimError(q.statement("outbox_depth"), err)
}

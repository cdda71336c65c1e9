package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/outbox"
)

// queueTables are where the queues are kept. A call is in the row of its claim. The others are
// tables with the same columns: the texts of expiries serve them, see [texts].
var queueTables = map[outbox.Queue]string{
	outbox.ProviderCalls: callsTable, outbox.Events: "events", outbox.Expiries: expiriesTable, outbox.Notices: "notices_due",
}

const (
	callsTable    = "calls"
	expiriesTable = "expiries"
)

// queueStatement is one that every queue has, under the name of its table: events_take.
type queueStatement[A any] struct{ what string }

// of returns the statement of one queue.
func (s queueStatement[A]) of(q queue) statement[A] { return statement[A]{q.table + "_" + s.what} }

func declareOfQueues[A any](what string) queueStatement[A] {
	for _, table := range queueTables {
		if name := table + "_" + what; declared[name] == nil { // that of calls may be declared with other arguments
			declare[A](name)
		}
	}
	return queueStatement[A]{what}
}

// ofQueues returns the names of some statements of all queues.
func ofQueues(what ...string) (names []string) {
	for _, table := range queueTables {
		for _, w := range what {
			names = append(names, table+"_"+w)
		}
	}
	return names
}

var (
	queueTake    = declareOfQueues[takeArgs]("take")
	queueMessage = declareOfQueues[idArgs]("message")
	callFinish   = declare[holdArgs]("calls_finish")
	callRetry    = declare[retryCallArgs]("calls_retry")
	queueFinish  = declareOfQueues[finishArgs]("finish")
	queueRetry   = declareOfQueues[retryArgs]("retry")
	queueUnpark  = declareOfQueues[idArgs]("unpark")
	queueParked  = declareOfQueues[homePageArgs]("parked")
	queueWaiting = declareOfQueues[homeLimitArgs]("waiting")
	queueDepth   = declareOfQueues[homeLimitArgs]("depth")
	look         = declare[homeArgs]("look")
)

type (
	takeArgs struct {
		Home  string
		Limit int64
		Lease time.Duration
	}
	// holdRow is a taken row.
	holdRow struct {
		keyRow
		ID    string
		Fence int64
	}
	holdArgs struct {
		Home string
		holdRow
	}
	finishArgs struct {
		Home string
		Rows []holdRow
	}
	retryArgs struct {
		Home string
		Rows []retryRow
	}
	retryRow struct {
		holdRow
		Pause  *time.Duration // nil: it is parked
		Reason string
	}
	retryCallArgs struct {
		Home string
		retryRow
	}
	homeLimitArgs struct {
		Home  string
		Limit int64
	}
)

func holdOf(h outbox.Hold) holdRow {
	return holdRow{keyRow{h.Tenant, h.Key}, h.ID, int64(h.Fence)}
}

func delayOf(d outbox.Delay) retryRow {
	pause := d.After.Truncate(time.Microsecond)
	return retryRow{holdOf(d.Hold), &pause, d.Reason}
}

// queue is one queue as the nodes of the view's region use it.
type queue struct {
	*View
	table string
}

// Queue implements [outbox.Queues].
func (v *View) Queue(q outbox.Queue) outbox.Store { return v.queue(q) }

func (v *View) queue(q outbox.Queue) queue { return queue{v, queueTables[q]} }

// work marks ctx as a worker's. Events and notices do not take the connections of provider
// calls.
func (q queue) work(ctx context.Context) context.Context {
	if q.ofCalls() {
		return ends(ctx)
	}
	return outbox.Begun(ctx)
}

// ofCalls reports whether q is the queue of provider calls.
func (q queue) ofCalls() bool { return q.table == callsTable }

// dueMessage is a row and its due time before it was taken.
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
	s := queueTake.of(q)
	var taken []dueMessage
	for len(taken) < limit {
		want := limit - len(taken)
		rows, err := many(ctx, q.db, s, once, takeArgs{region, int64(want), lease.Truncate(time.Microsecond)}, scanMessage)
		if err != nil && len(taken) == 0 {
			return nil, claimError(s.name, err)
		}
		for _, r := range rows {
			if !r.message.Parked { // it is not behind another event
				taken = append(taken, r)
			}
		}
		if len(rows) < want {
			break // no more are due
		}
	}
	slices.SortFunc(taken, func(a, b dueMessage) int {
		return cmp.Or(a.was.Compare(b.was), cmp.Compare(a.message.ID, b.message.ID))
	})
	return messages(taken, region), nil
}

// Message implements [outbox.Store].
func (q queue) Message(ctx context.Context, region, id string) (outbox.Message, bool, error) {
	ctx, err := q.reach(ctx, region)
	if err != nil {
		return outbox.Message{}, false, err
	}
	s := queueMessage.of(q)
	row, found, _, err := one(ctx, q.db, s, repeatable, idArgs{Home: region, ID: id}, scanMessage)
	row.message.Region = region
	if err != nil || !found {
		return outbox.Message{}, false, claimError(s.name, err)
	}
	return row.message, true, nil
}

// Finish implements [outbox.Store].
func (q queue) Finish(ctx context.Context, region string, row outbox.Hold) error {
	lost, err := fenced(ctx, q, region, func(ctx context.Context) (int, bool, error) {
		return q.finish(ctx, region, []holdRow{holdOf(row)})
	})
	if !errors.Is(err, outbox.ErrFenced) || !lost {
		return err
	}
	// Our own first try may have removed it: a row that is gone is finished, whoever
	// did it.
	_, found, err := q.Message(q.work(ctx), region, row.ID)
	if err == nil && found {
		return outbox.ErrFenced
	}
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
		held := make([]holdRow, len(some))
		for i, r := range some {
			held[i] = holdOf(r)
		}
		if _, _, err := q.finish(ctx, region, held); err != nil {
			return err
		}
	}
	return nil
}

// finish removes rows, as many as [queue.together] allows.
func (q queue) finish(ctx context.Context, region string, rows []holdRow) (n int, lost bool, err error) {
	s := queueFinish.of(q)
	if q.ofCalls() {
		n, lost, err = affected(ctx, q.db, callFinish, repeatable, holdArgs{region, rows[0]})
	} else {
		n, lost, err = affected(ctx, q.db, s, repeatable, finishArgs{region, rows})
	}
	return n, lost, claimError(s.name, err)
}

// together is how many of n rows one statement ends. Rows of provider calls are also
// settled, many in a statement and in the order of their keys: two statements that each
// end several could deadlock.
func (q queue) together(n int) int {
	if q.ofCalls() {
		return 1
	}
	return max(n, 1)
}

// Retry implements [outbox.Store].
func (q queue) Retry(ctx context.Context, region string, row outbox.Hold, after time.Duration, reason string) error {
	_, err := fenced(ctx, q, region, func(ctx context.Context) (int, bool, error) {
		return q.retry(ctx, region, []retryRow{delayOf(outbox.Delay{Hold: row, After: after, Reason: reason})})
	})
	return err
}

// RetryAll implements [outbox.Store].
func (q queue) RetryAll(ctx context.Context, region string, rows []outbox.Delay) error {
	ctx, err := q.reach(q.work(ctx), region)
	if err != nil || len(rows) == 0 {
		return err
	}
	var failed error
	for some := range slices.Chunk(rows, q.together(len(rows))) {
		held := make([]retryRow, len(some))
		for i, r := range some {
			held[i] = delayOf(r)
		}
		_, _, err = q.retry(ctx, region, held)
		failed = cmp.Or(failed, err)
	}
	return failed
}

// retry postpones or parks rows, as many as [queue.together] allows.
func (q queue) retry(ctx context.Context, region string, rows []retryRow) (n int, lost bool, err error) {
	s := queueRetry.of(q)
	if q.ofCalls() {
		n, lost, err = affected(ctx, q.db, callRetry, once, retryCallArgs{region, rows[0]})
	} else {
		n, lost, err = affected(ctx, q.db, s, once, retryArgs{region, rows})
	}
	return n, lost, claimError(s.name, err)
}

// NextDue implements [outbox.Queues].
func (v *View) NextDue(ctx context.Context, region string) (map[outbox.Queue]time.Duration, error) {
	// Money may wait for its result.
	ctx, err := v.reach(ends(ctx), region)
	if err != nil {
		return nil, err
	}
	type dues struct{ now, calls, expiries, notices, events zeronull.Timestamptz }
	due, _, _, err := one(ctx, v.db, look, repeatable, homeArgs{region}, func(row pgx.CollectableRow) (d dues, err error) {
		return d, row.Scan(&d.now, &d.calls, &d.expiries, &d.notices, &d.events)
	})
	if err != nil {
		return nil, claimError(look.name, err)
	}
	now := time.Time(due.now)
	next := map[outbox.Queue]time.Duration{}
	for q, due := range map[outbox.Queue]zeronull.Timestamptz{
		outbox.ProviderCalls: due.calls, outbox.Expiries: due.expiries, outbox.Notices: due.notices, outbox.Events: due.events,
	} {
		if due := time.Time(due); !due.IsZero() {
			next[q] = max(due.Sub(now), 0)
		}
	}
	return next, nil
}

// Park implements [outbox.Store].
func (q queue) Park(ctx context.Context, region string, row outbox.Hold, reason string) error {
	_, err := fenced(ctx, q, region, func(ctx context.Context) (int, bool, error) {
		return q.retry(ctx, region, []retryRow{{holdRow: holdOf(row), Reason: reason}})
	})
	return err
}

// fenced runs a statement of the worker that took a row under a fence.
func fenced(ctx context.Context, q queue, region string, run func(context.Context) (int, bool, error)) (lost bool, err error) {
	ctx, err = q.reach(q.work(ctx), region)
	if err != nil {
		return false, err
	}
	n, lost, err := run(ctx)
	if err == nil && n == 0 {
		return lost, outbox.ErrFenced
	}
	return lost, err
}

// Unpark implements [outbox.Store].
func (q queue) Unpark(ctx context.Context, region, id string) (bool, error) {
	ctx, err := q.reach(ctx, region)
	if err != nil {
		return false, err
	}
	s := queueUnpark.of(q)
	n, _, err := affected(ctx, q.db, s, once, idArgs{Home: region, ID: id})
	return n > 0, claimError(s.name, err)
}

// Parked implements [outbox.Store].
func (q queue) Parked(ctx context.Context, region, after string, limit int) ([]outbox.Message, error) {
	ctx, err := q.reach(ctx, region)
	if err != nil || limit <= 0 {
		return nil, err
	}
	s := queueParked.of(q)
	rows, err := many(ctx, q.db, s, repeatable, homePageArgs{region, pageArgs{after, int64(limit)}}, scanMessage)
	return messages(rows, region), claimError(s.name, err)
}

// Waiting implements [outbox.Store].
func (q queue) Waiting(ctx context.Context, region string, limit int) ([]outbox.Message, error) {
	ctx, err := q.reach(ctx, region)
	if err != nil || limit <= 0 {
		return nil, err
	}
	s := queueWaiting.of(q)
	rows, err := many(ctx, q.db, s, repeatable, homeLimitArgs{region, int64(limit)}, scanMessage)
	return messages(rows, region), claimError(s.name, err)
}

// depthLimit bounds what Depth counts of each sort: 100,000 index entries take some 50 ms.
const depthLimit = 100_000

// Depth implements [outbox.Store].
func (q queue) Depth(ctx context.Context, region string) (outbox.Depth, error) {
	ctx, err := q.reach(ctx, region)
	if err != nil {
		return outbox.Depth{}, err
	}
	s := queueDepth.of(q)
	d, _, _, err := one(ctx, q.db, s, repeatable, homeLimitArgs{region, depthLimit}, func(row pgx.CollectableRow) (outbox.Depth, error) {
		var pending, due, parked int64
		var oldest zeronull.Timestamptz
		err := row.Scan(&pending, &due, &parked, &oldest)
		d := outbox.Depth{Pending: int(pending), Due: int(due), Parked: int(parked)}
		if t := time.Time(oldest); !t.IsZero() {
			d.OldestDue = t.UTC()
		}
		return d, err
	})
	return d, claimError(s.name, err)
}

package cockroach

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/outbox"
)

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
func (v *View) Take(ctx context.Context, region string, limit int, lease time.Duration) ([]outbox.Message, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil || limit <= 0 {
		return nil, err
	}
	rows, err := many(ctx, v.db, "outbox_take", once, []any{region, int64(limit), lease.Truncate(time.Microsecond)}, scanMessage)
	if err != nil {
		return nil, claimError("outbox_take", err)
	}
	slices.SortFunc(rows, func(a, b dueMessage) int {
		return cmp.Or(a.was.Compare(b.was), cmp.Compare(a.message.ID, b.message.ID))
	})
	return messages(rows, region), nil
}

// Finish implements [outbox.Store].
func (v *View) Finish(ctx context.Context, region, id string, fence uint64) error {
	lost, err := v.fenced(ctx, "outbox_finish", repeatable, region, id, fence)
	if err != outbox.ErrFenced || !lost {
		return err
	}
	// Perhaps our own first try removed it: a row that is gone is finished,
	// whoever did it.
	_, found, _, err := one(ctx, v.db, "outbox_row", repeatable, []any{region, id}, pgx.RowTo[int64])
	if err != nil {
		return claimError("outbox_row", err)
	}
	if found {
		return outbox.ErrFenced
	}
	return nil
}

// Retry implements [outbox.Store].
func (v *View) Retry(ctx context.Context, region, id string, fence uint64, after time.Duration, reason string) error {
	_, err := v.fenced(ctx, "outbox_retry", once, region, id, fence, after.Truncate(time.Microsecond), reason)
	return err
}

// Park implements [outbox.Store].
func (v *View) Park(ctx context.Context, region, id string, fence uint64, reason string) error {
	_, err := v.fenced(ctx, "outbox_park", once, region, id, fence, reason)
	return err
}

// fenced runs a statement of the worker that took row id under fence.
func (v *View) fenced(ctx context.Context, name string, again repeat, region, id string, fence uint64, more ...any) (lost bool, err error) {
	ctx, err = v.reach(ctx, region)
	if err != nil {
		return false, err
	}
	n, lost, err := affected(ctx, v.db, name, again, append([]any{region, id, int64(fence)}, more...))
	if err == nil && n == 0 {
		return lost, outbox.ErrFenced
	}
	return lost, claimError(name, err)
}

// Unpark implements [outbox.Store].
func (v *View) Unpark(ctx context.Context, region, id string) (bool, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil {
		return false, err
	}
	n, _, err := affected(ctx, v.db, "outbox_unpark", once, []any{region, id})
	return n > 0, claimError("outbox_unpark", err)
}

// Parked implements [outbox.Store].
func (v *View) Parked(ctx context.Context, region, after string, limit int) ([]outbox.Message, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil || limit <= 0 {
		return nil, err
	}
	rows, err := many(ctx, v.db, "outbox_parked", repeatable, []any{region, after, int64(limit)}, scanMessage)
	return messages(rows, region), claimError("outbox_parked", err)
}

// Depth implements [outbox.Store]. It counts every row of the region.
func (v *View) Depth(ctx context.Context, region string) (outbox.Depth, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil {
		return outbox.Depth{}, err
	}
	d, _, _, err := one(ctx, v.db, "outbox_depth", repeatable, []any{region}, func(row pgx.CollectableRow) (outbox.Depth, error) {
		var pending, due, parked int64
		var oldest zeronull.Timestamptz
		err := row.Scan(&pending, &due, &parked, &oldest)
		d := outbox.Depth{Pending: int(pending), Due: int(due), Parked: int(parked)}
		if t := time.Time(oldest); !t.IsZero() {
			d.OldestDue = t.UTC()
		}
		return d, err
	})
	return d, claimError("outbox_depth", err)
}

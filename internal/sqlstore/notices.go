package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

var (
	_ notice.Store  = (*View)(nil)
	_ notice.Bodies = (*View)(nil)
)

var (
	noticesKeep    = declare[keepArgs]("notices_keep")
	noticesClose   = declare[closeArgs]("notices_close")
	noticeByID     = declare[idArgs]("notice")
	noticesBodies  = declare[homePageArgs]("notices_bodies")
	noticesRewrite = declare[rewriteArgs]("notices_rewrite")
)

type (
	keepArgs struct {
		Home         string
		Notices      []noticeRow
		Status, Kind string
	}
	noticeRow struct {
		ID, Provider string
		Body         []byte
		TraceParent  string
		After        time.Duration
	}
	// closeRow is a notice's row that a worker has taken.
	closeRow struct {
		ID    string
		Fence int64
	}
	closeArgs struct {
		Home           string
		Rows           []closeRow
		Status, Detail string
		KeepFor        time.Duration
	}
	rewriteArgs struct {
		idArgs
		OldBody, Body []byte
	}
)

// Keep implements [notice.Store]. A notice whose own insertion lost its reply counts as
// stored before.
func (v *View) Keep(ctx context.Context, region string, notices []notice.Notice) (fresh int, err error) {
	ctx, err = v.reach(ctx, region)
	if err != nil || len(notices) == 0 {
		return 0, err
	}
	// In one order, so that two batches with the same events do not deadlock; and each
	// event once.
	notices = slices.Clone(notices)
	slices.SortStableFunc(notices, func(a, b notice.Notice) int { return cmp.Compare(a.ID, b.ID) })
	notices = slices.CompactFunc(notices, func(a, b notice.Notice) bool { return a.ID == b.ID })
	args := keepArgs{Home: region, Status: string(notice.Unprocessed), Kind: string(outbox.KindNotice)}
	for i := range notices {
		n := &notices[i]
		args.Notices = append(args.Notices, noticeRow{ID: n.ID, Provider: n.Provider, Body: notNil(n.Body), TraceParent: n.TraceParent, After: n.After})
	}
	n, _, _, err := one(ctx, v.db, noticesKeep, repeatable, args, pgx.RowTo[int64])
	if isDataError(err) {
		return 0, fmt.Errorf("%w: %w", notice.ErrRefused, &lineError{err})
	}
	return int(n), claimError(noticesKeep.name, err)
}

// isDataError: the database refused the arguments of a statement, other than an unknown
// region: data exceptions, constraints, limits, and on CockroachDB a message that is too
// large.
func isDataError(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || judge(err) != refused || pg.Code == codeInvalidText {
		return false
	}
	return tooLarge(pg) || slices.Contains([]string{"22", "23", "54"}, pg.Code[:2])
}

// Close implements [notice.Store].
func (v *View) Close(ctx context.Context, region, id string, fence uint64, status notice.Status, detail string) error {
	ctx = outbox.Begun(ctx)
	within, err := v.reach(ctx, region)
	if err != nil {
		return err
	}
	closed, lost, err := v.closeNotices(within, region, []outbox.Hold{{ID: id, Fence: fence}}, status, detail)
	switch {
	case err != nil:
		return err
	case closed == 1:
		return nil
	case lost:
		// The reply to our first try may be lost. If status and detail equal what we
		// wrote, that try succeeded.
		n, found, err := v.Notice(ctx, region, id)
		if err != nil {
			return err
		}
		if found && n.Status == status && n.Detail == detail && !n.ProcessedAt.IsZero() {
			return nil
		}
	}
	return outbox.ErrFenced
}

// CloseAll implements [notice.Store]. A notice of ours that a lost reply leaves open is
// closed when the statement is run again, and one that is closed then is not counted.
func (v *View) CloseAll(ctx context.Context, region string, rows []outbox.Hold, status notice.Status, detail string) (closed int, err error) {
	ctx, err = v.reach(outbox.Begun(ctx), region)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	closed, _, err = v.closeNotices(ctx, region, rows, status, detail)
	return closed, err
}

func (v *View) closeNotices(ctx context.Context, region string, rows []outbox.Hold, status notice.Status, detail string) (closed int, lost bool, err error) {
	args := closeArgs{Home: region, Rows: make([]closeRow, len(rows)), Status: string(status), Detail: detail, KeepFor: notice.KeepFor}
	for i, r := range rows {
		args.Rows[i] = closeRow{r.ID, int64(r.Fence)}
	}
	lost, err = v.db.do(ctx, noticesClose.name, repeatable, args, func(rows pgx.Rows) error {
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		closed = len(ids)
		return err
	})
	return closed, lost, claimError(noticesClose.name, err)
}

// Notice implements [notice.Store].
func (v *View) Notice(ctx context.Context, region, id string) (notice.Notice, bool, error) {
	ctx, err := v.reach(ctx, region)
	if err != nil {
		return notice.Notice{}, false, err
	}
	n, found, _, err := one(ctx, v.db, noticeByID, repeatable, idArgs{Home: region, ID: id}, func(row pgx.CollectableRow) (notice.Notice, error) {
		n := notice.Notice{ID: id, Region: region}
		var processed zeronull.Timestamptz
		err := row.Scan(&n.Provider, &n.Body, &n.ReceivedAt, &processed, &n.Status, &n.Detail, &n.TraceParent)
		n.ReceivedAt = n.ReceivedAt.UTC()
		if at := time.Time(processed); !at.IsZero() {
			n.ProcessedAt = at.UTC()
		}
		return n, err
	})
	if err != nil || !found {
		return notice.Notice{}, false, claimError(noticeByID.name, err)
	}
	return n, true, nil
}

// Rewrite implements [notice.Bodies].
func (v *View) Rewrite(ctx context.Context, region, after string, limit int, again func(id string, body []byte) ([]byte, error)) (last string, err error) {
	ctx, err = v.reach(ctx, region)
	if err != nil {
		return "", err
	}
	type bodied struct {
		id   string
		body []byte
	}
	page, err := many(ctx, v.db, noticesBodies, repeatable, homePageArgs{region, pageArgs{after, int64(limit)}}, func(row pgx.CollectableRow) (b bodied, err error) {
		err = row.Scan(&b.id, &b.body)
		return b, err
	})
	if err != nil {
		return "", claimError(noticesBodies.name, err)
	}
	for _, b := range page {
		next, err := again(b.id, b.body)
		if err != nil {
			return "", err
		}
		if next == nil {
			continue
		}
		args := rewriteArgs{idArgs: idArgs{Home: region, ID: b.id}, OldBody: b.body, Body: next}
		if _, _, err := affected(ctx, v.db, noticesRewrite, repeatable, args); err != nil {
			return "", claimError(noticesRewrite.name, err)
		}
	}
	if len(page) < limit {
		return "", nil
	}
	return page[limit-1].id, nil
}

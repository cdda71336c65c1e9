package embedded

import (
	"bytes"
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/homeward-io/homeward/claim"
	storev1 "github.com/homeward-io/homeward/internal/gen/homeward/store/v1"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

// A notice and its outbox row are guarded by one lock, that of the row's owner. The notice
// has the body: its row leaves it out.

func noticeOwner(id string) claim.Key { return claim.Key{Value: id} }

// notice reads one notice, nil if there is none.
func (t *tx) notice(id string) *notice.Notice {
	return row(t, t.key(tableNotice, id), func(m *storev1.Notice) *notice.Notice { return fromNotice(t.region, id, m) })
}

// Keep implements [notice.Store].
func (v *View) Keep(ctx context.Context, region string, incoming []notice.Notice) (fresh int, err error) {
	for i := range incoming {
		n := &incoming[i]
		err := checkName("notice", n.ID)
		for _, text := range []string{n.ID, n.Provider, n.TraceParent} {
			if err == nil && !utf8.ValidString(text) {
				err = fmt.Errorf("embedded store: notice %q has the text %q, which is not UTF-8; reject it on receipt", n.ID, text)
			}
		}
		if err != nil {
			return 0, fmt.Errorf("%w: %w", notice.ErrRefused, err)
		}
	}
	kept := make(map[string]bool, len(incoming))
	err = v.on(ctx, region, func(t *tx) {
		var locks []int
		for i := range incoming {
			locks = append(locks, t.rows.index(t.code, noticeOwner(incoming[i].ID)))
		}
		t.lock(t.rows, locks...)
		t.share()
		now := t.clock.now()
		for _, n := range incoming {
			if kept[n.ID] || t.has(t.key(tableNotice, n.ID)) {
				continue
			}
			kept[n.ID] = true
			n.ReceivedAt, n.ProcessedAt, n.Status, n.Detail = now, time.Time{}, notice.Unprocessed, ""
			t.put(t.key(tableNotice, n.ID), toNotice(&n))
			t.putMessage(notices, nil, &outbox.Message{
				ID: n.ID, Region: region, Kind: outbox.KindNotice, Operation: n.Provider,
				TraceParent: n.TraceParent, CreatedAt: now, Due: now.Add(n.After),
			})
		}
	})
	return len(kept), err
}

// Close implements [notice.Store].
func (v *View) Close(ctx context.Context, region, id string, fence uint64, status notice.Status, detail string) error {
	return one(v.CloseAll(ctx, region, []outbox.Hold{{ID: id, Fence: fence}}, status, detail))
}

// CloseAll implements [notice.Store]. It is one batch.
func (v *View) CloseAll(ctx context.Context, region string, rows []outbox.Hold, status notice.Status, detail string) (closed int, err error) {
	err = v.on(ctx, region, func(t *tx) {
		var locks []int
		for _, r := range rows {
			locks = append(locks, t.rows.index(t.code, noticeOwner(r.ID)))
		}
		t.lock(t.rows, locks...)
		for _, r := range rows {
			row, n := t.message(notices, r.ID), t.notice(r.ID)
			if row == nil || n == nil || row.Fence != r.Fence || row.Parked {
				continue
			}
			n.Status, n.Detail, n.ProcessedAt = status, detail, t.clock.now()
			t.put(t.key(tableNotice, r.ID), toNotice(n))
			t.putMessage(notices, row, nil)
			closed++
		}
	})
	return closed, err
}

// Rewrite implements [notice.Bodies].
func (v *View) Rewrite(ctx context.Context, region, after string, limit int, again func(id string, body []byte) ([]byte, error)) (last string, err error) {
	var page []*notice.Notice
	err = v.on(ctx, region, func(t *tx) {
		prefix := t.key(tableNotice)
		each(t, behind(t.key(tableNotice, after)), prefixEnd(prefix), func(k []byte, m *storev1.Notice) bool {
			if len(m.Body) > 0 {
				page = append(page, fromNotice(region, string(k[len(prefix):]), m))
			}
			return len(page) < limit
		})
	})
	for _, seen := range page {
		var body []byte
		if err == nil {
			body, err = again(seen.ID, seen.Body)
		}
		if err == nil && body != nil {
			err = v.rewrite(ctx, region, seen, body)
		}
	}
	if err != nil || len(page) < limit {
		return "", err
	}
	return page[limit-1].ID, nil
}

// rewrite replaces the body of a notice if it is still that of seen.
func (v *View) rewrite(ctx context.Context, region string, seen *notice.Notice, body []byte) error {
	return v.in(ctx, region, func(t *tx) {
		t.lock(t.rows, t.rows.index(t.code, noticeOwner(seen.ID)))
		if n := t.notice(seen.ID); n != nil && bytes.Equal(n.Body, seen.Body) {
			n.Body = body
			t.put(t.key(tableNotice, n.ID), toNotice(n))
		}
	})
}

// Notice implements [notice.Store].
func (v *View) Notice(ctx context.Context, region, id string) (n notice.Notice, found bool, err error) {
	err = v.on(ctx, region, func(t *tx) {
		n, found = valueOf(synced(t, t.rows.of(t.code, noticeOwner(id)), func() *notice.Notice { return t.notice(id) }))
	})
	return n, found, err
}

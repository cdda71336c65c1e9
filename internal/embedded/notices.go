package embedded

import (
	"bytes"
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

var _ notice.Bodies = (*View)(nil)

// A notice and its outbox row are guarded by one lock, that of the row's owner. The body
// is written once, in the notice: the outbox row leaves it out, and what became of the
// notice is a row of its own until housekeeping drops the body.

func noticeOwner(id string) claim.Key { return claim.Key{Value: id} }

// readNotice reads one notice, nil if there is none.
func (db *DB) readNotice(region string, code claim.RegionCode, id string) (n *notice.Notice, err error) {
	if n, err = db.readKept(region, code, id); err != nil || n == nil {
		return nil, err
	}
	return n, db.readClosing(code, n)
}

// readKept reads the row of a notice, which may not say that it is closed.
func (db *DB) readKept(region string, code claim.RegionCode, id string) (n *notice.Notice, err error) {
	s := scratches.Get().(*scratch)
	defer s.release()
	s.key = appendScoped(s.key[:0], tableNotice, code, "", id)
	_, err = db.probe(s.key, func(value []byte) error {
		n, err = decodeNotice(region, id, value)
		return err
	})
	return n, err
}

// readClosing adds to the row of a notice what became of it.
func (db *DB) readClosing(code claim.RegionCode, n *notice.Notice) error {
	if n.Status != notice.Unprocessed {
		return nil
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	s.key = appendScoped(s.key[:0], tableClosing, code, "", n.ID)
	_, err := db.get(s.key, func(value []byte) error {
		closed, err := decodeNotice(n.Region, n.ID, value)
		if err == nil {
			n.Status, n.Detail, n.ProcessedAt = closed.Status, closed.Detail, closed.ProcessedAt
		}
		return err
	})
	return err
}

// putNotice writes a notice whole.
func putNotice(b *pebble.Batch, s *scratch, code claim.RegionCode, n *notice.Notice) error {
	s.key = appendScoped(s.key[:0], tableNotice, code, "", n.ID)
	if err := s.set(b, s.key, noticeToProto(n)); err != nil || n.Status == notice.Unprocessed {
		return err
	}
	s.key = appendScoped(s.key[:0], tableClosing, code, "", n.ID)
	return b.Delete(s.key, nil)
}

// addBody adds to a row of the queue of notices the body of its notice. The caller holds
// the row's lock.
func (db *DB) addBody(code claim.RegionCode, m *outbox.Message) error {
	n, err := db.readKept(m.Region, code, m.ID)
	if err == nil && n != nil {
		m.Payload = n.Body
	}
	return err
}

// Keep implements [notice.Store].
func (v *View) Keep(ctx context.Context, region string, incoming []notice.Notice) (fresh int, err error) {
	indexes := make([]int, len(incoming))
	code, err := v.code(region)
	if err != nil {
		return 0, err
	}
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
		indexes[i] = v.db.rows.index(code, noticeOwner(incoming[i].ID))
	}
	if _, err := v.reach(ctx, region); err != nil {
		return 0, err
	}
	if err := v.db.enter(ctx); err != nil {
		return 0, err
	}
	defer v.db.leave()
	defer v.db.rows.lockAll(indexes)()

	now := v.db.clock.now()
	b := v.db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	s := scratches.Get().(*scratch)
	defer s.release()
	kept := make(map[string]bool, len(incoming))
	for i := range incoming {
		n := incoming[i]
		s.key = appendScoped(s.key[:0], tableNotice, code, "", n.ID)
		there, err := v.db.probe(s.key, func([]byte) error { return nil })
		if err != nil {
			return 0, err
		}
		if there || kept[n.ID] {
			continue
		}
		kept[n.ID] = true
		n.ReceivedAt, n.ProcessedAt, n.Status, n.Detail = now, time.Time{}, notice.Unprocessed, ""
		if err := putNotice(b, s, code, &n); err != nil {
			return 0, err
		}
		err = v.db.putMessage(b, s, notices, code, nil, &outbox.Message{
			ID: n.ID, Region: region, Kind: outbox.KindNotice, Operation: n.Provider,
			TraceParent: n.TraceParent, CreatedAt: now, Due: now,
		})
		if err != nil {
			return 0, err
		}
	}
	if err := v.db.commit(b, pebble.Sync); err != nil {
		return 0, err
	}
	return len(kept), nil
}

// Close implements [notice.Store].
func (v *View) Close(ctx context.Context, region, id string, fence uint64, status notice.Status, detail string) error {
	closed, err := v.CloseAll(ctx, region, []outbox.Hold{{ID: id, Fence: fence}}, status, detail)
	if err == nil && closed == 0 {
		return outbox.ErrFenced
	}
	return err
}

// CloseAll implements [notice.Store]. It is one batch.
func (v *View) CloseAll(ctx context.Context, region string, rows []outbox.Hold, status notice.Status, detail string) (closed int, err error) {
	code, err := v.reach(ctx, region)
	if err != nil {
		return 0, err
	}
	if err := v.db.enter(ctx); err != nil {
		return 0, err
	}
	defer v.db.leave()
	indexes := make([]int, len(rows))
	for i, r := range rows {
		indexes[i] = v.db.rows.index(code, noticeOwner(r.ID))
	}
	defer v.db.rows.lockAll(indexes)()
	now := v.db.clock.now()
	b := v.db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	s := scratches.Get().(*scratch)
	defer s.release()
	for _, r := range rows {
		row, err := v.db.readRow(notices, region, code, r.ID)
		if err != nil {
			return 0, err
		}
		if row == nil || row.Fence != r.Fence || row.Parked {
			continue
		}
		s.key = appendScoped(s.key[:0], tableClosing, code, "", r.ID)
		if err := s.set(b, s.key, noticeToProto(&notice.Notice{Status: status, Detail: detail, ProcessedAt: now})); err != nil {
			return 0, err
		}
		if err := v.db.putMessage(b, s, notices, code, row, nil); err != nil {
			return 0, err
		}
		closed++
	}
	if err := v.db.commit(b, pebble.Sync); err != nil {
		return 0, err
	}
	return closed, nil
}

// Rewrite implements [notice.Bodies].
func (v *View) Rewrite(ctx context.Context, region, after string, limit int, again func(id string, body []byte) ([]byte, error)) (last string, err error) {
	code, err := v.reach(ctx, region)
	if err != nil {
		return "", err
	}
	page, err := v.bodies(ctx, region, code, after, limit)
	if err != nil {
		return "", err
	}
	for i := range page {
		next, err := again(page[i].ID, page[i].Body)
		if err == nil && next != nil {
			err = v.rewrite(ctx, region, code, &page[i], next)
		}
		if err != nil {
			return "", err
		}
	}
	if len(page) < limit {
		return "", nil
	}
	return page[limit-1].ID, nil
}

// bodies lists up to limit notices that have one.
func (v *View) bodies(ctx context.Context, region string, code claim.RegionCode, after string, limit int) (page []notice.Notice, err error) {
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	prefix := appendScoped(nil, tableNotice, code, "", "")
	from := prefix
	if after != "" {
		from = append(appendScoped(nil, tableNotice, code, "", after), 0) // the next possible key
	}
	err = v.db.scan(from, prefixEnd(prefix), func(k, value []byte) (bool, error) {
		n, err := decodeNotice(region, string(k[len(prefix):]), value)
		if err != nil {
			return false, err
		}
		if len(n.Body) > 0 {
			page = append(page, *n)
		}
		return len(page) < limit, ctx.Err()
	})
	return page, err
}

// rewrite replaces the body of a notice if it is still that of seen.
func (v *View) rewrite(ctx context.Context, region string, code claim.RegionCode, seen *notice.Notice, body []byte) error {
	if err := v.db.enter(ctx); err != nil {
		return err
	}
	defer v.db.leave()
	lock := v.db.rows.of(code, noticeOwner(seen.ID))
	lock.Lock()
	defer lock.Unlock()
	n, err := v.db.readNotice(region, code, seen.ID)
	if err != nil || n == nil || !bytes.Equal(n.Body, seen.Body) {
		return err
	}
	b := v.db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	s := scratches.Get().(*scratch)
	defer s.release()
	n.Body = body
	if err := putNotice(b, s, code, n); err != nil {
		return err
	}
	return v.db.commit(b, pebble.Sync)
}

// Notice implements [notice.Store].
func (v *View) Notice(ctx context.Context, region, id string) (notice.Notice, bool, error) {
	code, err := v.reach(ctx, region)
	if err != nil {
		return notice.Notice{}, false, err
	}
	if err := v.db.enter(ctx); err != nil {
		return notice.Notice{}, false, err
	}
	defer v.db.leave()
	lock := v.db.rows.of(code, noticeOwner(id))
	lock.RLock()
	defer lock.RUnlock()
	n, err := v.db.readNotice(region, code, id)
	if err != nil || n == nil {
		return notice.Notice{}, false, err
	}
	return *n, true, nil
}

package embedded

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// behindAll is behind every place in a table of due rows.
const behindAll = "\xff"

// NextDue implements [outbox.Queues]: it reads the first due row of each queue.
func (v *View) NextDue(ctx context.Context, region string) (map[outbox.Queue]time.Duration, error) {
	code, err := v.reach(ctx, region)
	if err != nil {
		return nil, err
	}
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	now, next := v.db.clock.now(), map[outbox.Queue]time.Duration{}
	for name, q := range queues {
		page, err := v.db.due(q, code).after(v.db, make([]due, 0, 1), "", behindAll, now, false)
		if err != nil {
			return nil, err
		}
		for _, d := range page {
			due, id, ok := readDue(d.at)
			if !ok {
				return nil, damaged("due row", id, errors.New("it is truncated"))
			}
			next[name] = time.Duration(max(due-micros(now), 0)) * time.Microsecond
		}
	}
	return next, nil
}

// Waiting implements [outbox.Store]. Of a line it lists the first.
func (qv queueView) Waiting(ctx context.Context, region string, limit int) (waiting []outbox.Message, err error) {
	code, err := qv.v.reach(ctx, region)
	if err != nil {
		return nil, err
	}
	if err := qv.v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer qv.v.db.leave()
	err = qv.v.db.eachDue(qv.q, code, limit, func(d due) error {
		id := d.id()
		owner, owned := readOwner([]byte(d.owner))
		if !owned {
			return damaged("due row", id, errCutShort)
		}
		lock := qv.v.db.rows.of(code, owner)
		lock.RLock()
		m, err := qv.v.db.readMessage(qv.q, region, code, id)
		lock.RUnlock()
		if err == nil && m != nil && !m.Parked {
			waiting = append(waiting, *m)
		}
		return err
	})
	return waiting, err
}

// eachDue calls see for up to limit due rows, in the order of their due times. A row
// may have been handled meanwhile.
func (db *DB) eachDue(q *queue, code claim.RegionCode, limit int, see func(due) error) error {
	first := db.due(q, code)
	now := db.clock.now()
	page := make([]due, 0, min(max(limit, 0), dueWindow))
	for at := ""; limit > 0; at = page[len(page)-1].at {
		var err error
		if page, err = first.after(db, page[:0], at, behindAll, now, false); err != nil || len(page) == 0 {
			return err
		}
		for _, d := range page {
			if limit--; limit < 0 {
				return nil
			}
			if err := see(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// unknownAmong is how many open provider calls Unknown looks at.
const unknownAmong = 5_000

// Unknown lists up to limit claims of a region in flight that an attempt has left with
// an unknown outcome, oldest first; if there are more than 5,000 open calls, among
// those that are due first. It leaves out parked ones. The records have no response.
func (v *View) Unknown(ctx context.Context, region string, limit int) (unknown []claim.Record, err error) {
	code, err := v.reach(ctx, region)
	if err != nil || limit <= 0 {
		return nil, err
	}
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	err = v.db.eachDue(providerCalls, code, unknownAmong, func(d due) error {
		owner, owned := readOwner([]byte(d.owner))
		if !owned {
			return damaged("due row", d.id(), errCutShort)
		}
		rec, err := v.db.readSynced(region, code, owner)
		if err == nil && rec != nil && rec.State == claim.InFlight && rec.Unknowns > 0 && rec.Minted.ID == d.id() {
			one := *rec
			one.Response, one.Refusal = nil, nil
			unknown = append(unknown, one)
		}
		return err
	})
	slices.SortFunc(unknown, func(a, b claim.Record) int {
		return cmp.Or(a.FirstUse.Compare(b.FirstUse), cmp.Compare(a.Minted.ID, b.Minted.ID))
	})
	return unknown[:min(len(unknown), limit)], err
}

// Steps of several rows commit one by one and wait for the disk together.

// FinishAll implements [outbox.Store].
func (qv queueView) FinishAll(ctx context.Context, region string, rows []outbox.Hold) error {
	var all errgroup.Group
	for _, r := range rows {
		all.Go(func() error { return unlessFenced(qv.Finish(ctx, region, r.ID, r.Fence)) })
	}
	return all.Wait()
}

// RetryAll implements [outbox.Store].
func (qv queueView) RetryAll(ctx context.Context, region string, rows []outbox.Delay) error {
	var all errgroup.Group
	for _, r := range rows {
		all.Go(func() error { return unlessFenced(qv.Retry(ctx, region, r.ID, r.Fence, r.After, r.Reason)) })
	}
	return all.Wait()
}

func unlessFenced(err error) error {
	if errors.Is(err, outbox.ErrFenced) {
		return nil
	}
	return err
}

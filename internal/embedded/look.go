package embedded

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/outbox"
)

// behindAll is behind every place in a table of due rows.
const behindAll = "\xff"

var _ outbox.Looker = (*View)(nil)

// Look implements [outbox.Looker]: it reads the first due row of each queue.
func (v *View) Look(ctx context.Context, region string) (outbox.Outlook, error) {
	code, err := v.reach(ctx, region)
	if err != nil {
		return nil, err
	}
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	now, outlook := v.db.clock.now(), outbox.Outlook{}
	for name, q := range queues {
		page, err := v.db.due(q, code).after(v.db, make([]due, 0, 1), "", behindAll, now, false)
		if err != nil {
			return nil, err
		}
		for _, d := range page {
			due, id, ok := readDue(d.at)
			if !ok {
				return nil, damaged("due row", id, errors.New("it is cut short"))
			}
			outlook[name] = time.Duration(max(due-micros(now), 0)) * time.Microsecond
		}
	}
	return outlook, nil
}

// Steps of several rows are one commit for each: they wait for the disk together.

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

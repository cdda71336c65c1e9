// Package parts starts what a process is made of in the order of its needs, and stops
// it backwards. It imports nothing of this module.
package parts

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Part is one of them. A Start that fails leaves nothing behind that its Stop would
// have to end. Either may be nil: there is nothing to do then.
type Part struct{ Start, Stop func(context.Context) error }

// Running are the parts that were started. The zero value has none. It is for one
// goroutine at a time.
type Running struct{ stops []func(context.Context) error }

// Start starts parts one after the other, and no more after the first that fails. Those
// before it run until Stop.
func (r *Running) Start(ctx context.Context, parts ...Part) error {
	for _, p := range parts {
		if p.Start != nil {
			if err := p.Start(ctx); err != nil {
				return err
			}
		}
		if p.Stop != nil {
			r.stops = append(r.stops, p.Stop)
		}
	}
	return nil
}

// Stop stops what runs, the last that was started first, whatever becomes of each, and
// returns all their errors. What was stopped runs no more: stopping again does nothing.
func (r *Running) Stop(ctx context.Context) error {
	var errs []error
	for _, stop := range slices.Backward(r.stops) {
		errs = append(errs, stop(ctx))
	}
	r.stops = nil
	return errors.Join(errs...)
}

// Within has stop end what ctx, which may have ended, was for, in the time d.
func Within(ctx context.Context, d time.Duration, stop func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	defer cancel()
	return stop(ctx)
}

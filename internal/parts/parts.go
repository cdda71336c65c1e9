// Package parts starts what a process is made of in the order of its needs, and stops
// it backwards. It imports nothing of this module.
package parts

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Part starts one of them, and says what stops it; nil: nothing needs to. It may do so
// with an error, too: then something was started all the same.
type Part func(context.Context) (Stop, error)

// Stop ends what a part has started.
type Stop func(context.Context) error

// Closing is a Stop that waits for nothing.
func Closing(end func() error) Stop {
	return func(context.Context) error { return end() }
}

// Within has stop end what ctx, which may have ended, was for, in the time d.
func Within(ctx context.Context, d time.Duration, stop Stop) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	defer cancel()
	return stop(ctx)
}

// Running are the parts that were started. The zero value has none. It is for one
// goroutine at a time.
type Running struct {
	// Each is how long each part may take to stop, also after ctx has ended; 0: what
	// ctx allows.
	Each  time.Duration
	stops []Stop
}

// Start starts parts one after the other, and no more after the first that fails. What
// was started runs until Stop.
func (r *Running) Start(ctx context.Context, parts ...Part) error {
	for _, start := range parts {
		stop, err := start(ctx)
		if stop != nil {
			r.stops = append(r.stops, stop)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Stop stops what runs, the last that was started first, whatever becomes of each, and
// returns all their errors. What was stopped runs no more: stopping again does nothing.
func (r *Running) Stop(ctx context.Context) error {
	var errs []error
	for _, stop := range slices.Backward(r.stops) {
		if r.Each > 0 {
			errs = append(errs, Within(ctx, r.Each, stop))
		} else {
			errs = append(errs, stop(ctx))
		}
	}
	r.stops = nil
	return errors.Join(errs...)
}

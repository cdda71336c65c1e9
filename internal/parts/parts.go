// Package parts starts the parts of a process in the order of their dependencies, and
// stops them in reverse. It imports nothing of this module.
package parts

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Part starts a part, and returns its Stop; nil: nothing needs to be stopped. It may
// return a Stop with an error: then something was started all the same.
type Part func(context.Context) (Stop, error)

// Stop stops a part.
type Stop func(context.Context) error

// Closing is a Stop that waits for nothing.
func Closing(end func() error) Stop {
	return func(context.Context) error { return end() }
}

// Within runs stop with the values of ctx, which may have ended, and the time-out d.
func Within(ctx context.Context, d time.Duration, stop Stop) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	defer cancel()
	return stop(ctx)
}

// Running are the started parts. The zero value has none. It is not safe for concurrent
// use.
type Running struct {
	// Each bounds the stop of each part, also after ctx has ended; 0: ctx bounds it.
	Each  time.Duration
	stops []Stop
}

// Start starts parts one after the other, and stops at the first that fails. The
// started parts run until Stop.
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

// Stop stops the running parts, the last started first, whether or not others fail, and
// returns all their errors. A second Stop does nothing.
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

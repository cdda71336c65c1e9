package console

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/region/admin"
)

// shared runs one query for all viewers: one at a time, however many wait for the
// result, which is then cached for a while.
type shared[T any] struct {
	ask func(context.Context) (T, error)
	// lasts is how long a result is cached.
	lasts time.Duration
	now   func() time.Time
	group singleflight.Group

	mu   sync.Mutex
	last T
	err  error // of the last query
	at   time.Time
}

func newShared[T any](now func() time.Time, lasts time.Duration, ask func(context.Context) (T, error)) *shared[T] {
	return &shared[T]{ask: ask, lasts: lasts, now: now}
}

// cached returns the last result, and whether it is young enough.
func (s *shared[T]) cached() (last T, err error, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.err, !s.at.IsZero() && s.now().Sub(s.at) < s.lasts
}

// look returns a result that is at most as old as lasts.
func (s *shared[T]) look(ctx context.Context) (none T, err error) {
	if last, err, fresh := s.cached(); fresh {
		return last, err
	}
	select {
	case <-s.fetch():
		last, err, _ := s.cached()
		return last, err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// glance returns the last result, however old, while a new one is fetched, for pages
// that must not wait. It is the zero value until there is one, and after a failed
// query.
func (s *shared[T]) glance() T {
	last, _, fresh := s.cached()
	if !fresh {
		s.fetch()
	}
	return last
}

// fetch is independent of any viewer's request: others wait for the result, too, so it
// has a time-out of its own.
func (s *shared[T]) fetch() <-chan singleflight.Result {
	return s.group.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), pageTime)
		defer cancel()
		var answer T
		err := func() (err error) {
			defer fault.Recover(&err)
			answer, err = s.ask(ctx)
			return err
		}()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last, s.err, s.at = answer, err, s.now()
		return nil, nil
	})
}

// watchFor is how long one overview is cached for all viewers: less than the pages'
// polling interval, so that each poll shows something new.
const watchFor = 1500 * time.Millisecond

func newWatch(d Deployment, now func() time.Time) *shared[*admin.Overview] {
	return newShared(now, watchFor, func(ctx context.Context) (*admin.Overview, error) {
		return d.Look(ctx, admin.Question{Gather: true, Arrivals: admin.MaxArrivals, WithoutBacklog: true}), nil
	})
}

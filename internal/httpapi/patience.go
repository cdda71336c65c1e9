package httpapi

import (
	"context"
	"sync"
	"time"
)

// patience is a request's context with the API's deadline. It differs from
// [context.WithDeadline] in that it creates a timer only once somebody waits for its
// end: most requests are answered before.
type patience struct {
	context.Context // the connection's
	until           time.Time

	mu    sync.Mutex
	armed context.Context // with the timer; nil until somebody waits
	stop  context.CancelFunc
	ended bool
}

// begin makes p the context of a request with that deadline. The caller must call end.
func (p *patience) begin(ctx context.Context, d time.Duration) {
	p.Context, p.until = ctx, time.Now().Add(d)
}

// end corresponds to [context.WithDeadline]'s cancel.
func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.stop != nil {
		p.stop()
	}
}

func (p *patience) Deadline() (time.Time, bool) {
	if sooner, ok := p.Context.Deadline(); ok && sooner.Before(p.until) {
		return sooner, true
	}
	return p.until, true
}

func (p *patience) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.armed != nil:
	case p.ended:
		p.armed, p.stop = context.WithCancel(p.Context)
		p.stop()
	default:
		p.armed, p.stop = context.WithDeadline(p.Context, p.until)
	}
	return p.armed.Done()
}

func (p *patience) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch err := p.Context.Err(); {
	case p.armed != nil:
		return p.armed.Err()
	case err != nil:
		return err
	case p.ended:
		return context.Canceled
	case time.Until(p.until) <= 0:
		return context.DeadlineExceeded
	}
	return nil
}

// Value passes the armed context on, so that derived contexts attach to it directly and
// need no goroutine of their own.
func (p *patience) Value(key any) any {
	p.mu.Lock()
	ctx := p.armed
	p.mu.Unlock()
	if ctx == nil {
		ctx = p.Context
	}
	return ctx.Value(key)
}

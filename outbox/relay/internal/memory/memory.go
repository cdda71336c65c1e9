// Package memory keeps the queue of events and the endpoints in maps, for tests of the
// sinks. Its clock is time.Now.
package memory

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
)

// Queue implements outbox.Events of one region in memory.
type Queue struct {
	outbox.Store // methods that no worker calls
	mu           sync.Mutex
	rows         map[string]*outbox.Message
	// Changed holds a token after each change.
	Changed chan struct{}
}

// NewQueue is empty.
func NewQueue() *Queue {
	return &Queue{rows: map[string]*outbox.Message{}, Changed: make(chan struct{}, 1)}
}

func (q *Queue) changed() {
	select {
	case q.Changed <- struct{}{}:
	default:
	}
}

// Put adds a row, due at once.
func (q *Queue) Put(m outbox.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	m.Due = time.Now()
	q.rows[m.ID] = &m
	q.changed()
}

// Row returns a copy; its ID is "" if there is none.
func (q *Queue) Row(id string) outbox.Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m := q.rows[id]; m != nil {
		return *m
	}
	return outbox.Message{}
}

// Len counts the rows that are neither done nor parked.
func (q *Queue) Len() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.rows {
		if !m.Parked {
			n++
		}
	}
	return n
}

// Queue implements outbox.Queues: it has no other queue.
func (q *Queue) Queue(outbox.Queue) outbox.Store { return q }

// NextDue implements outbox.Queues. Any row is due, as far as it knows.
func (q *Queue) NextDue(context.Context, string) (map[outbox.Queue]time.Duration, error) {
	if q.Len() == 0 {
		return nil, nil
	}
	return map[outbox.Queue]time.Duration{outbox.Events: 0}, nil
}

// Take implements outbox.Store, with the order of outbox.Events.
func (q *Queue) Take(_ context.Context, region string, limit int, lease time.Duration) (taken []outbox.Message, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []*outbox.Message
	for _, m := range q.rows {
		if m.Region == region && !m.Parked {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b *outbox.Message) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	seen := map[[2]string]bool{}
	now := time.Now()
	for _, m := range all {
		key := [2]string{m.Tenant, m.Key}
		if !seen[key] && !now.Before(m.Due) && len(taken) < limit {
			m.Fence++
			m.Due = now.Add(lease)
			taken = append(taken, *m)
		}
		seen[key] = true
	}
	return taken, nil
}

func (q *Queue) alter(row outbox.Hold, change func(m *outbox.Message)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	m := q.rows[row.ID]
	if m == nil || m.Fence != row.Fence || m.Parked {
		return outbox.ErrFenced
	}
	change(m)
	q.changed()
	return nil
}

// Finish implements outbox.Store.
func (q *Queue) Finish(_ context.Context, _ string, row outbox.Hold) error {
	return q.alter(row, func(*outbox.Message) { delete(q.rows, row.ID) })
}

// Retry implements outbox.Store.
func (q *Queue) Retry(_ context.Context, _ string, row outbox.Hold, after time.Duration, reason string) error {
	return q.alter(row, func(m *outbox.Message) {
		m.Due = time.Now().Add(after)
		if reason != "" {
			m.Attempts++
			m.LastError = reason
		}
	})
}

// FinishAll implements outbox.Store.
func (q *Queue) FinishAll(ctx context.Context, region string, rows []outbox.Hold) error {
	for _, r := range rows {
		_ = q.Finish(ctx, region, r)
	}
	return nil
}

// RetryAll implements outbox.Store.
func (q *Queue) RetryAll(ctx context.Context, region string, rows []outbox.Delay) error {
	for _, r := range rows {
		_ = q.Retry(ctx, region, r.Hold, r.After, r.Reason)
	}
	return nil
}

// Park implements outbox.Store.
func (q *Queue) Park(_ context.Context, _ string, row outbox.Hold, reason string) error {
	return q.alter(row, func(m *outbox.Message) { m.Parked, m.LastError = true, reason })
}

// Endpoints implements relay.Endpoints in a map.
type Endpoints struct {
	mu  sync.Mutex
	all map[string]relay.Endpoint
	// Err, if set, is returned by every call.
	Err error
	// Notes counts the calls of NoteDelivery.
	Notes int
}

// NewEndpoints has these.
func NewEndpoints(all ...relay.Endpoint) *Endpoints {
	e := &Endpoints{all: map[string]relay.Endpoint{}}
	for _, one := range all {
		e.all[one.Tenant] = one
	}
	return e
}

// Endpoint implements relay.Endpoints.
func (e *Endpoints) Endpoint(_ context.Context, tenant string) (relay.Endpoint, bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	one, ok := e.all[tenant]
	return one, ok && e.Err == nil, e.Err
}

// PutEndpoint implements relay.Endpoints.
func (e *Endpoints) PutEndpoint(_ context.Context, was, one relay.Endpoint) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.all[one.Tenant].Same(was) {
		return relay.ErrChanged
	}
	one.FailingSince, one.DisabledAt = time.Time{}, time.Time{}
	e.all[one.Tenant] = one
	return e.Err
}

// RemoveEndpoint implements relay.Endpoints.
func (e *Endpoints) RemoveEndpoint(_ context.Context, tenant string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.all[tenant]
	delete(e.all, tenant)
	return ok, e.Err
}

// NoteDelivery implements relay.Endpoints.
func (e *Endpoints) NoteDelivery(_ context.Context, tenant, url string, ok bool, disableAfter time.Duration) (relay.Endpoint, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Notes++
	one, found := e.all[tenant]
	if e.Err != nil || !found || one.URL != url {
		return relay.Endpoint{}, cmp.Or(e.Err, relay.ErrNoEndpoint)
	}
	one = one.After(ok, disableAfter, time.Now())
	e.all[tenant] = one
	return one, nil
}

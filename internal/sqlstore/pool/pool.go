// Package pool divides the connections of a process among its calls.
//
//	p := pool.New(16, 1024)
//	leave, err := p.Enter(call)          // refused at once if there are too many
//	defer leave()
//	release, err := p.Acquire(ctx, call) // waits for a connection
//	defer release()
//
// There are two pools over the same connections. Begun work ends, renews or takes over
// what was begun before, and is bounded by that: it may have every connection, and gets
// the next free one first. Its errands are a party, see below. Arriving work is everything
// else. It leaves a quarter of the connections free, so that no flood of requests delays the
// end of those in progress.
//
// Three rules keep one party from taking a pool. A party is a tenant among arriving work,
// among begun work all errands of workers and attempts, which many deliveries may wait for,
// and in both pools a region other than the caller's own, whose rows are far and may not
// answer.
//
//   - A party enters, or gets a further connection, only if more are free than it has.
//     So one has half at most, two have a third each, and the next always finds one.
//   - Far regions together have a quarter of the connections of each pool, at least two, and
//     never the last free one of both.
//   - A free connection goes to the parties in turn.
package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Call says who asks for a connection.
type Call struct {
	// Begun: the call belongs to work that was begun.
	Begun bool
	// Errand: it is a call of begun work that does not itself end, renew or take over a claim.
	Errand bool
	// Region is the one whose rows the call is about, "" for the caller's own.
	Region string
	// Tenant is the one for whom a request arrives, "" for none.
	Tenant string
}

// party returns who shares a bound with c.
func (c Call) party() party {
	switch {
	case c.Region != "":
		return party{region: c.Region}
	case c.Begun:
		return party{errands: c.Errand}
	}
	return party{tenant: c.Tenant}
}

// party is a far region, a tenant, or all errands. The zero party is everybody else, and has
// no bound.
type party struct {
	region, tenant string
	errands        bool
}

func (p party) String() string {
	switch {
	case p.region != "":
		return fmt.Sprintf("rows of region %q", p.region)
	case p.errands:
		return "workers and attempts"
	}
	return fmt.Sprintf("tenant %q", p.tenant)
}

// ErrFull is wrapped by the error of a call that may not enter.
var ErrFull = errors.New("the calls of this process fill its pool of database connections")

// ErrTimeout: no connection became free in time. Nothing was sent.
var ErrTimeout = errors.New("no connection became free in time; the database is overloaded or does not answer")

// Pool divides connections. It is safe for concurrent use.
type Pool struct {
	mu              sync.Mutex
	free            int // connections
	near            int // connections that calls for far rows leave free
	begun, arriving class
}

// class is one of the two pools.
type class struct {
	most    int // calls inside
	reserve int // connections that its calls leave free
	mostFar int // connections of far regions

	calls, conns, far int // inside, with a connection, with one for far rows
	shares            map[party]*share
	turn              []party // those with a waiting call, the next one first
	stats             Stats   // but for Calls
}

// share counts what a party has.
type share struct {
	calls, conns int
	waiting      []chan struct{}
}

// Stats are counts of one pool. Calls are those inside now; Waits are how many waited for
// a connection so far, and Waited for how long in total. Timeouts are the waits whose time
// ended first; those of callers that left are none.
type Stats struct {
	Calls, Waits, Timeouts int
	Waited                 time.Duration
}

// New divides conns connections. Beside those with a connection, waiting calls may be
// inside each pool.
func New(conns, waiting int) *Pool {
	part := max(2, conns/4)
	of := func(reserve int) class {
		return class{most: conns + waiting, reserve: reserve, mostFar: part, shares: map[party]*share{}}
	}
	// A pool of one connection has none to spare.
	return &Pool{free: conns, near: min(conns-1, 1), begun: of(0), arriving: of(min(conns-1, part))}
}

func (p *Pool) of(c Call) *class {
	if c.Begun {
		return &p.begun
	}
	return &p.arriving
}

// Enter counts a call as inside until it leaves. It never waits: the error wraps
// [ErrFull].
func (p *Pool) Enter(c Call) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in, who := p.of(c), c.party()
	s, free := in.shares[who], in.most-in.calls
	switch {
	case free < 1:
		return nil, fmt.Errorf("%w: %d have a connection or wait for one", ErrFull, in.most)
	case who != party{} && s != nil && s.calls >= free:
		return nil, fmt.Errorf("%w: %d for %s have a connection or wait for one; the rest of %d is for others", ErrFull, s.calls, who, in.most)
	}
	in.at(who).calls++
	in.calls++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		in.at(who).calls--
		in.calls--
		in.drop(who)
	}, nil
}

// at returns the share of a party.
func (c *class) at(who party) *share {
	s := c.shares[who]
	if s == nil {
		s = &share{}
		c.shares[who] = s
	}
	return s
}

// drop forgets a party that has nothing.
func (c *class) drop(who party) {
	if s := c.shares[who]; s != nil && s.calls == 0 && s.conns == 0 && len(s.waiting) == 0 {
		delete(c.shares, who)
	}
}

// Acquire waits for a connection until ctx ends; the error is then [ErrTimeout].
func (p *Pool) Acquire(ctx context.Context, c Call) (release func(), err error) {
	p.mu.Lock()
	in, who, got := p.of(c), c.party(), make(chan struct{})
	s := in.at(who)
	if s.waiting = append(s.waiting, got); len(s.waiting) == 1 {
		in.turn = append(in.turn, who)
	}
	p.serve()
	p.mu.Unlock()
	release = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		in.hold(who, -1)
		p.free++
		in.drop(who)
		p.serve()
	}
	select {
	case <-got:
		return release, nil
	default:
	}
	began := time.Now()
	select {
	case <-got:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	in.stats.Waits++
	in.stats.Waited += time.Since(began)
	if at := slices.Index(s.waiting, got); at >= 0 {
		if s.waiting = slices.Delete(s.waiting, at, at+1); len(s.waiting) == 0 {
			in.turn = slices.DeleteFunc(in.turn, func(other party) bool { return other == who })
			in.drop(who)
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			in.stats.Timeouts++
		}
		return nil, ErrTimeout
	}
	return release, nil
}

// hold adds n to the connections of a party.
func (c *class) hold(who party, n int) {
	c.at(who).conns += n
	c.conns += n
	if who.region != "" {
		c.far += n
	}
}

// serve hands out free connections. The caller holds the lock.
func (p *Pool) serve() {
	for _, c := range []*class{&p.begun, &p.arriving} {
		for {
			at := slices.IndexFunc(c.turn, func(who party) bool { return p.may(c, who) })
			if at < 0 {
				break
			}
			who := c.turn[at]
			s := c.at(who)
			close(s.waiting[0])
			s.waiting = s.waiting[1:]
			if c.turn = slices.Delete(c.turn, at, at+1); len(s.waiting) > 0 {
				c.turn = append(c.turn, who) // behind the others
			}
			c.hold(who, 1)
			p.free--
		}
	}
}

// may reports whether a party may have one more connection.
func (p *Pool) may(c *class, who party) bool {
	spare := p.free - c.reserve
	if who.region != "" {
		spare = min(spare, p.free-p.near, c.mostFar-c.far)
	}
	if who == (party{}) {
		return spare > 0
	}
	return spare > c.at(who).conns
}

// Stats returns the counts of begun and of arriving work.
func (p *Pool) Stats() (begun, arriving Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	begun, arriving = p.begun.stats, p.arriving.stats
	begun.Calls, arriving.Calls = p.begun.calls, p.arriving.calls
	return begun, arriving
}

// Package batch lets callers share statements.
//
//	b := batch.New(batch.Config[*step]{
//		Acquire: pool.Acquire, Send: send, Key: func(s *step) claim.Key { return s.key },
//	})
//	err := b.Do(ctx, line, &step{key: key}) // of many goroutines
//
// The fixed cost of a statement (planning, a commit, on CockroachDB a round of replication
// for each range) is paid once for all of its steps. Callers who come while a statement of
// their line runs gather, and the next statement takes them all. A lone caller waits for
// nobody.
//
// # Bounds
//
// A statement has at most [MaxSteps] steps and [MaxBytes] of what they send. Tenants take
// turns, so that one with many or large steps makes its own statements more and those of
// others no longer. A larger step has a statement of its own.
//
// # One caller's trouble is its own
//
// A batch has each key once, and no two statements of a line that run have one key: a
// statement cannot write a row twice, and one that waits for a row's lock would delay its
// other steps. A step whose key is under way is refused with [ErrUnderWay]. A caller whose ctx
// ends leaves; its step is not sent, or its statement goes on without it. If a statement
// fails, each of its callers gets the error, and cannot know whether its step was done: it
// sends its step once more, alone, and the step's id in its row answers.
//
// # Order
//
// Statements of one line and kind go one after the other. Near ones of all kinds with the
// same Turns do so, too: on CockroachDB, where a statement costs as much as some fifteen
// further steps do, begins gather while a settlement runs. Those of a far line wait for no
// other line, since most of their time is the way, but callers who came back together stay
// together there, too. The next statement does not wait for one that hangs: after
// Patience it begins beside it. See [Turns].
package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/fault"
)

// MaxSteps bounds a statement: 64 steps take some 13 ms of PostgreSQL's time, some 64 of
// CockroachDB's. MaxBytes bounds what they send: CockroachDB refuses arguments above
// 16 MiB, and a statement of 2 MiB stays far below a statement's time-out.
const (
	MaxSteps = 64
	MaxBytes = 2 << 20
)

// ErrUnderWay: a step of the same key is under way. Nothing was sent.
var ErrUnderWay = errors.New("a step of the same key is under way")

// Line identifies the callers who may share a statement: those for rows of one home, from
// one pool of connections.
type Line struct {
	// Home is the region whose rows they are. Region is the same if that is far, as
	// package pool has it.
	Home, Region string
	Begun        bool
}

// Config describes one kind of statement. Acquire, Send, Key and Patience
// are required.
type Config[S any] struct {
	// Acquire waits for a connection for a statement of the line. If it fails, so do those
	// whom the statement would have taken; nothing was sent.
	Acquire func(Line) (release func(), err error)
	// Send runs the statement for steps, which are sorted by their keys, so that no two
	// statements deadlock. ctx has the values of a caller's and never ends.
	Send func(ctx context.Context, at Line, steps []S) error
	Key  func(S) claim.Key
	// Bytes is about how many bytes a step sends beside what every step does. Nil: few.
	Bytes func(S) int
	// Reads: the statement changes nothing. Keys may be in it, and under way, repeatedly.
	Reads bool
	// Turns are shared with the kinds whose near statements go one after the other with
	// these. Nil: those of this kind wait for no other.
	Turns *Turns
	// Patience is how long the next statement of a line waits for one that runs.
	Patience func(Line) time.Duration
}

// Batcher sends steps of one kind. It is safe for concurrent use.
type Batcher[S any] struct {
	Config[S]
	mu    sync.Mutex
	lines map[Line]*gathering[S] // as many as there are homes, for each pool
}

// gathering is the callers of one line.
type gathering[S any] struct {
	served   bool // a goroutine sends statements
	waiting  []*member[S]
	underWay map[claim.Key]bool
	turn     *turn // nil: its statements wait for those of no other kind, and do not pause
}

type member[S any] struct {
	ctx  context.Context
	step S
	done chan error // one place, so that nobody waits for a caller that left
}

// New returns a batcher.
func New[S any](c Config[S]) *Batcher[S] {
	return &Batcher[S]{Config: c, lines: map[Line]*gathering[S]{}}
}

// Do returns when a statement with the step has ended, with its error; or with that of
// ctx, in which case the step may have been sent.
func (b *Batcher[S]) Do(ctx context.Context, at Line, step S) error {
	m := &member[S]{ctx: ctx, step: step, done: make(chan error, 1)}
	b.mu.Lock()
	g := b.lines[at]
	if g == nil {
		g = &gathering[S]{underWay: map[claim.Key]bool{}, turn: b.Turns.of(at)}
		b.lines[at] = g
	}
	if g.waiting = append(g.waiting, m); !g.served {
		g.served = true
		go b.serve(at, g)
	}
	b.mu.Unlock()
	select {
	case err := <-m.done:
		return err
	case <-ctx.Done():
		b.mu.Lock()
		g.waiting = slices.DeleteFunc(g.waiting, func(other *member[S]) bool { return other == m })
		b.mu.Unlock()
		return ctx.Err()
	}
}

// serve sends statements until nobody of the line waits. If one takes longer than Patience, another
// serve goes on beside it.
func (b *Batcher[S]) serve(at Line, g *gathering[S]) {
	for b.waits(g) {
		release, err := b.Acquire(at)
		if g.turn != nil {
			g.turn.take()
		}
		batch, began := b.next(g), time.Now()
		over := func() {
			if g.turn != nil {
				g.turn.end(len(batch), time.Since(began))
			}
		}
		hangs := time.AfterFunc(b.Patience(at), func() { over(); b.serve(at, g) })
		if err == nil {
			err = b.send(at, batch)
			release()
		}
		b.end(g, batch, err)
		if !hangs.Stop() {
			return
		}
		over()
	}
}

// waits reports whether a caller waits. If none does, the next one starts another serve.
func (b *Batcher[S]) waits(g *gathering[S]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	g.served = len(g.waiting) > 0
	return g.served
}

// next takes waiting callers, one tenant after the other, as many as fit into a statement.
func (b *Batcher[S]) next(g *gathering[S]) (batch []*member[S]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rounds := map[string]int{} // of each tenant
	round := make(map[*member[S]]int, len(g.waiting))
	for _, m := range g.waiting {
		tenant := b.Key(m.step).Tenant
		round[m] = rounds[tenant]
		rounds[tenant]++
	}
	slices.SortStableFunc(g.waiting, func(a, b *member[S]) int { return round[a] - round[b] })
	var rest []*member[S] // in this order, so that the first of them is in the next statement
	sent := 0
	for _, m := range g.waiting {
		size := 0
		if b.Bytes != nil {
			size = b.Bytes(m.step)
		}
		switch key := b.Key(m.step); {
		case len(batch) == MaxSteps, len(batch) > 0 && sent+size > MaxBytes:
			rest = append(rest, m)
			continue
		case b.Reads:
		case g.underWay[key]:
			m.done <- ErrUnderWay
			continue
		default:
			g.underWay[key] = true
		}
		batch, sent = append(batch, m), sent+size
	}
	g.waiting = rest
	slices.SortStableFunc(batch, func(x, y *member[S]) int { return b.Key(x.step).Compare(b.Key(y.step)) })
	return batch
}

func (b *Batcher[S]) send(at Line, batch []*member[S]) (err error) {
	defer fault.Recover(&err)
	if len(batch) == 0 {
		return nil // all have left
	}
	steps := make([]S, len(batch))
	for i, m := range batch {
		steps[i] = m.step
	}
	return b.Send(context.WithoutCancel(batch[0].ctx), at, steps)
}

// end answers the callers of a statement.
func (b *Batcher[S]) end(g *gathering[S], batch []*member[S], err error) {
	b.mu.Lock()
	for _, m := range batch {
		delete(g.underWay, b.Key(m.step))
	}
	b.mu.Unlock()
	for _, m := range batch {
		m.done <- err
	}
}

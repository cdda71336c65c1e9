package cockroach

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/fault"
)

// groupLanes bounds the concurrent statements of one line. Usually one runs: a second
// would make the groups smaller, and each charge more expensive. The others are for
// when one hangs, see [hangsAfter].
const groupLanes = 4

// groupMost bounds a group in members: some 13 ms of PostgreSQL's time, some 64 of
// CockroachDB's. groupBytes bounds what its members send, in bytes: CockroachDB refuses
// arguments above 16 MiB, and a statement of 2 MiB stays far below a statement's time-out.
const (
	groupMost  = 64
	groupBytes = 2 << 20
)

// group commits the steps of many callers in one statement. Callers that arrive while a
// statement runs gather, and the next statement takes them all. A lone caller waits for
// nobody. Statements of several groups take turns, see [turns]. The fixed cost of a
// statement (planning, a commit, on CockroachDB a round of replication for each range) is
// paid once.
//
// No caller's outcome depends on the others. The statement answers row by row. If it
// fails, each of its callers continues alone, and waits for a connection of its own:
// its own row shows whether the group's try was done, see the package comment. A
// cancelled caller leaves, and the statement continues. Each caller occupies its room
// meanwhile, and each statement waits there for its connection, so the rooms bound
// groups, too.
//
// A group has each key once, and no two concurrent groups share a key: a statement
// cannot write a row twice, and a statement that waits for a lock would block the
// others of its group. A call whose key is in progress already is sent alone.
type group[T, A any] struct {
	db        *DB
	statement statement[A]
	// other is sent instead if one of the steps needs it; it does more. nil: none does.
	other statement[A]
	needs func(*T) bool
	// args are the statement's arguments for some steps, in the order of their keys.
	args func(steps []*T) A
	// read passes each of steps its result from the rows.
	read func(rows pgx.Rows, steps []*T) error
	key  func(*T) claim.Key
	// bytes is about how many bytes a step sends beside what each of its kind does; nil: few.
	bytes func(*T) int
	// reads: the statement changes nothing, and several callers may have one key, or one
	// in progress. It has each key once.
	reads bool

	mu    sync.Mutex
	lines map[line]*gathering[T]
}

// line identifies callers that may share a statement: rows of one region, equally near
// or far, for one purpose.
type line struct {
	home, region string
	room         int
}

// gathering is the callers of one line.
type gathering[T any] struct {
	running  int // statements
	lively   int // those of them that do not seem to hang
	waiting  []*member[T]
	underWay map[claim.Key]bool
}

// hangsAfter is the part of a statement's time-out after which it may hang: 400 ms of
// 1.2 s, more than a group takes on a fully loaded database, which a second statement
// would only slow down. Later callers then no longer wait for it.
const hangsAfter = 3

type member[T any] struct {
	ctx  context.Context
	step *T
	left bool       // before its group's statement was sent
	done chan error // one place, so that nobody waits for a caller that left
}

// end tells the caller how the statement of its group ended, which it has no part in if it
// had left.
func (m *member[T]) end(err error) {
	if m.left {
		err = m.ctx.Err()
	}
	m.done <- err
}

// errAlone: the step cannot share a statement now.
var errAlone = errors.New("a step of the same key is under way")

// errLeft: every caller of a group had left before it got a connection. Nothing was
// sent.
var errLeft = errors.New("every caller has given up")

// do runs the step until its outcome is known, as [DB.call] describes: in a group, and
// alone if that failed.
func (g *group[T, A]) do(ctx context.Context, home string, step *T) (lost bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, g.db.limitsIn(errandOf(ctx).region).CallTimeout)
	defer cancel()
	if !g.reads && g.db.unstorable.Knows(g.key(step)) {
		return g.alone(ctx, step, maxTries)
	}
	leave, err := g.db.rooms.gather(ctx)
	if err != nil {
		return false, err
	}
	err = g.join(ctx, home, step)
	leave()
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, errNoTurn):
		return false, unavailable(g.statement.name, err)
	case errors.Is(err, claim.ErrUnavailable):
		return false, err // the room is full, and nothing was sent
	case errors.Is(err, errAlone), errors.As(err, new(pgx.ScanArgError)):
	default:
		what := judge(err)
		lost = what == unknown
		// The refusal may be about another call's row.
		if what != refused && !sleep(ctx, firstPause/2+rand.N(firstPause)) {
			return lost, unavailable(g.statement.name, err)
		}
	}
	again, err := g.alone(ctx, step, maxTries-1)
	return lost || again, err
}

// alone is do without a group, in at most so many tries.
func (g *group[T, A]) alone(ctx context.Context, step *T, tries int) (lost bool, err error) {
	if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
		return false, unavailable(g.statement.name, err)
	}
	lost, err = g.db.call(ctx, g.statement.name, repeatable, tries, func(ctx, turn context.Context) error {
		return g.try(ctx, turn, []*T{step})
	})
	if isDataError(err) && !hasCode(err, codeUnique) {
		g.db.unstorable.Add(g.key(step))
	}
	return lost, err
}

func (g *group[T, A]) try(ctx, turn context.Context, steps []*T) error {
	s := g.statement
	if g.needs != nil && slices.ContainsFunc(steps, g.needs) {
		s = g.other
	}
	sql, bound := s.in(g.db.queries, g.args(steps))
	return g.db.try(ctx, turn, sql, bound, func(rows pgx.Rows) error { return g.read(rows, steps) })
}

// join waits until a statement with the step has ended, or for ctx.
func (g *group[T, A]) join(ctx context.Context, home string, step *T) error {
	e := errandOf(ctx)
	at := line{home, e.region, e.room()}
	m := &member[T]{ctx: ctx, step: step, done: make(chan error, 1)}
	g.mu.Lock()
	l := g.lines[at]
	if l == nil {
		l = &gathering[T]{underWay: map[claim.Key]bool{}}
		g.lines[at] = l
	}
	if !g.reads && l.underWay[g.key(step)] {
		g.mu.Unlock()
		return errAlone
	}
	l.waiting = append(l.waiting, m)
	g.lane(at, l)
	g.mu.Unlock()
	select {
	case err := <-m.done:
		return err
	case <-ctx.Done():
		g.mu.Lock()
		l.waiting = slices.DeleteFunc(l.waiting, func(other *member[T]) bool { return other == m })
		g.mu.Unlock()
		return ctx.Err() // perhaps sent
	}
}

// lane starts a statement for waiting callers, if none runs except hanging ones. The
// caller holds the lock.
func (g *group[T, A]) lane(at line, l *gathering[T]) {
	if len(l.waiting) > 0 && l.lively < 1 && l.running < groupLanes {
		l.running++
		l.lively++
		go g.serve(at, l)
	}
}

// hangs is how long a statement of a line runs until it seems to hang.
func (g *group[T, A]) hangs(at line) time.Duration {
	return g.db.limitsIn(at.region).StatementTimeout / hangsAfter
}

// serve runs statements until nobody waits.
func (g *group[T, A]) serve(at line, l *gathering[T]) {
	stile := g.db.turns.at(at.home, at.region, g.statement.name)
	last := 0 // steps in the last statement that was answered
	for {
		// Also while nobody waits yet: with a place in the line the kinds alternate, and
		// each gathers while another is served.
		turn := stile.take(last)
		g.mu.Lock()
		batch := g.next(l)
		if len(batch) == 0 {
			turn.end(0)
			l.lively--
			if l.running--; l.running == 0 {
				delete(g.lines, at)
			}
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		turn.begin()
		var over, hung bool
		hangs := time.AfterFunc(g.hangs(at), func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			if hung = !over; hung {
				l.lively--
				g.lane(at, l)
			}
		})
		err := g.run(batch, turn)
		if err == nil {
			turn.end(len(batch))
			last = len(batch)
		} else {
			turn.end(0) // what failed does not tell what statements take
		}
		hangs.Stop()
		g.mu.Lock()
		over = true
		// If another has replaced it, one that hung is not needed any more.
		retires := hung && l.lively > 0
		switch {
		case retires:
			l.running--
		case hung:
			l.lively++
		}
		for _, m := range batch {
			delete(l.underWay, g.key(m.step))
		}
		g.mu.Unlock()
		for _, m := range batch {
			m.end(err)
		}
		if retires {
			return
		}
	}
}

// next takes waiting callers, one tenant after the other, as many as fit into one statement.
// A step that is larger than groupBytes goes in a statement of its own. It sends those
// whose key is in progress to go alone. The caller holds the lock.
func (g *group[T, A]) next(l *gathering[T]) (batch []*member[T]) {
	turns := map[string]int{} // of each tenant, so far
	turn := make(map[*member[T]]int, len(l.waiting))
	for _, m := range l.waiting {
		tenant := g.key(m.step).Tenant
		turn[m] = turns[tenant]
		turns[tenant]++
	}
	slices.SortStableFunc(l.waiting, func(a, b *member[T]) int { return turn[a] - turn[b] })
	var rest []*member[T] // in the same order, so that the first of them fits into the next one
	sent := 0
	for _, m := range l.waiting {
		size := 0
		if g.bytes != nil {
			size = g.bytes(m.step)
		}
		switch key := g.key(m.step); {
		case len(batch) == groupMost, len(batch) > 0 && sent+size > groupBytes:
			rest = append(rest, m)
			continue
		case g.reads:
		case l.underWay[key]:
			m.done <- errAlone
			continue
		default:
			l.underWay[key] = true
		}
		batch, sent = append(batch, m), sent+size
	}
	l.waiting = rest
	return batch
}

// sameKey is how many of steps have the key of the first one, in which case they follow it.
func sameKey[T any](steps []*T, key func(*T) claim.Key) int {
	n := 1
	for n < len(steps) && key(steps[n]) == key(steps[0]) {
		n++
	}
	return n
}

// run sends the statement for all of batch, as a call in their room. It is bounded by a
// call's time, independent of the callers. Rows are in the order of their keys, so that
// no two statements deadlock.
func (g *group[T, A]) run(batch []*member[T], mine *turn) (err error) {
	defer fault.Recover(&err)
	ctx, turn, cancel := g.db.bounded(ofTenant(context.WithoutCancel(batch[0].ctx), ""))
	defer cancel()
	leave, err := g.db.rooms.enterFor(turn, func() { mine.end(0) })
	if err != nil {
		return err
	}
	defer leave()
	steps := make([]*T, 0, len(batch))
	for _, m := range batch {
		// It may have left while there was no connection.
		if m.left = m.ctx.Err() != nil; !m.left {
			steps = append(steps, m.step)
		}
	}
	if len(steps) == 0 {
		return errLeft
	}
	g.db.meters.groups.Record(ctx, float64(len(steps)), g.statement.name)
	slices.SortFunc(steps, func(a, b *T) int { return g.key(a).Compare(g.key(b)) })
	return g.try(ctx, turn, steps)
}

// at returns the step that a row names.
func at[T any](steps []*T, n int32) (*T, error) {
	if n < 0 || int(n) >= len(steps) {
		return nil, fmt.Errorf("%w: a row answers step %d of %d", claim.ErrUnavailable, n, len(steps))
	}
	return steps[n], nil
}

package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/sqlstore/batch"
	"github.com/homeward-io/homeward/internal/sqlstore/pool"
)

// batched is a statement that many callers share, see package batch. Their rows are sent as
// arrays. The statement answers row by row, and each caller reads its own.
//
// If it fails, each of its callers sends its step once more, alone: its own row then shows
// whether the shared statement was done, see the package comment.
type batched[T, A any] struct {
	db        *DB
	statement statement[A]
	// args are the statement's arguments for some steps, in the order of their keys.
	args func(steps []*T) A
	// read passes each of steps its result from the rows.
	read func(rows pgx.Rows, steps []*T) error
	key  func(*T) claim.Key
	// bytes is about how many bytes a step sends beside what each of its kind does; nil: few.
	bytes func(*T) int
	// reads: the statement changes nothing. It has each key once.
	reads bool

	batch *batch.Batcher[*T]
}

// open makes s ready.
func (s *batched[T, A]) open(db *DB) *batched[T, A] {
	s.db = db
	s.batch = batch.New(batch.Config[*T]{
		Acquire: db.acquireFor, Send: s.send, Key: s.key, Bytes: s.bytes, Reads: s.reads, Turns: db.turns,
		// 400 ms of 1.2 s, more than a batch takes on a fully loaded database, which a second
		// statement would only slow down.
		Patience: func(at batch.Line) time.Duration { return db.limitsIn(at.Region).StatementTimeout / 3 },
	})
	return s
}

// acquireFor waits for a connection for a statement that callers share. It is a call of no
// tenant.
func (db *DB) acquireFor(at batch.Line) (release func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), db.limitsIn(at.Region).patience())
	defer cancel()
	return db.conns.Acquire(ctx, pool.Call{Begun: at.Begun, Region: at.Region})
}

// do runs the step until its outcome is known, as [DB.call] describes: with others, and
// alone if that failed.
func (s *batched[T, A]) do(ctx context.Context, home string, step *T) (lost bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if _, ok := foreign(ctx); ok {
		return false, s.try(ctx, ctx, []*T{step})
	}
	call := callerOf(ctx)
	ctx, cancel := context.WithTimeout(ctx, s.db.limitsIn(call.Region).CallTimeout)
	defer cancel()
	if !s.reads && s.db.unstorable.knows(s.key(step)) {
		return s.alone(ctx, step, maxTries)
	}
	leave, err := s.db.conns.Enter(call)
	if err != nil {
		return false, unavailable(s.statement.name, err)
	}
	err = s.batch.Do(ctx, batch.Line{Home: home, Region: call.Region, Begun: call.Begun}, step)
	leave()
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, pool.ErrTimeout):
		return false, unavailable(s.statement.name, err)
	case errors.Is(err, batch.ErrUnderWay), errors.As(err, new(pgx.ScanArgError)):
	default:
		what := judge(err)
		lost = what == unknown
		// The refusal may be about another call's row.
		if what != refused && !sleep(ctx, firstPause/2+rand.N(firstPause)) {
			return lost, unavailable(s.statement.name, err)
		}
	}
	again, err := s.alone(ctx, step, maxTries-1)
	return lost || again, err
}

// alone is do without others, in at most so many tries.
func (s *batched[T, A]) alone(ctx context.Context, step *T, tries int) (lost bool, err error) {
	if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
		return false, unavailable(s.statement.name, err)
	}
	lost, err = s.db.call(ctx, s.statement.name, repeatable, tries, func(ctx, turn context.Context) error {
		return s.try(ctx, turn, []*T{step})
	})
	if isDataError(err) && !hasCode(err, codeUnique) {
		s.db.unstorable.add(s.key(step))
	}
	return lost, err
}

// send runs the statement for all of steps, within a call's time.
func (s *batched[T, A]) send(ctx context.Context, _ batch.Line, steps []*T) error {
	ctx, turn, cancel := s.db.bounded(ctx)
	defer cancel()
	s.db.meters.batches.Record(ctx, float64(len(steps)), s.statement.name)
	return s.try(ctx, turn, steps)
}

func (s *batched[T, A]) try(ctx, turn context.Context, steps []*T) error {
	sql, bound := s.statement.in(s.db.dialect, s.args(steps))
	return s.db.try(ctx, turn, sql, bound, func(rows pgx.Rows) error { return s.read(rows, steps) })
}

// sameKey is how many of steps have the key of the first one, in which case they follow it.
func sameKey[T any](steps []*T, key func(*T) claim.Key) int {
	n := 1
	for n < len(steps) && key(steps[n]) == key(steps[0]) {
		n++
	}
	return n
}

// at returns the step that a row names.
func at[T any](steps []*T, n int32) (*T, error) {
	if n < 0 || int(n) >= len(steps) {
		return nil, fmt.Errorf("%w: a row answers step %d of %d", claim.ErrUnavailable, n, len(steps))
	}
	return steps[n], nil
}

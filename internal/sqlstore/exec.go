package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/sqlstore/pool"
)

const (
	// maxTries bounds how often one call runs a statement. Six pauses of 5 ms,
	// doubling, are 300 ms: contention on one row is over by then or is overload.
	maxTries   = 7
	firstPause = 5 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// repeat says whether a statement may be run again if it is not known whether it was
// done.
type repeat bool

const (
	// repeatable: once done, running it again changes nothing; see the package
	// comment.
	repeatable repeat = true
	// once: the caller gets an unknown outcome.
	once repeat = false
)

// outcome is the meaning of an error for the statement.
type outcome int

const (
	// refused: not done, and a retry would not be.
	refused outcome = iota
	// later: not done; a retry may be.
	later
	// unknown: may be done, or be done later.
	unknown
)

// SQLSTATE codes; PostgreSQL's appendix A and CockroachDB's pgcode package.
const (
	codeUnique           = "23505"
	codeSerialization    = "40001"
	codeAmbiguous        = "40003"
	codeDeadlock         = "40P01"
	codeLockNotAvailable = "55P03"
	codeCannotConnectNow = "57P03"
	codeTooMany          = "53300"
	codeDiskFull         = "53100"
	codeFeature          = "0A000" // with "cached plan": a migration ran since
	codeNoStatement      = "26000" // the session lost what was prepared: a proxy changed it
	codeInvalidText      = "22P02" // a region that the database does not have
	codeReadOnly         = "25006" // the server was demoted since the session began
	codeNoSchema         = "3F000"
	codeProtocol         = "08P01" // with "message size": CockroachDB has not read the arguments
)

// judge classifies an error of one try.
func judge(err error) outcome {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		if pgconn.SafeToRetry(err) {
			return later // nothing was sent
		}
		if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
			return later
		}
		return unknown
	}
	switch {
	case pg.Code == codeSerialization, pg.Code == codeDeadlock, pg.Code == codeLockNotAvailable,
		pg.Code == codeCannotConnectNow, pg.Code == codeTooMany, pg.Code == codeNoStatement, pg.Code == codeReadOnly:
		return later
	case pg.Code == codeFeature && strings.Contains(pg.Message, "cached plan"):
		return later
	case pg.Code == codeAmbiguous:
		return unknown
	case tooLarge(pg):
		return refused
	}
	switch pg.Code[:min(2, len(pg.Code))] {
	// Connection, transaction rollback, resources, operator's intervention, system and
	// internal errors: the statement may have been executed before.
	case "08", "40", "53", "57", "58", "XX", "":
		return unknown
	default:
		return refused
	}
}

// tooLarge: CockroachDB refused a message unread (sql.conn.max_read_buffer_message_size).
// Poolers use the code, too, for errors of any kind.
func tooLarge(pg *pgconn.PgError) bool {
	return pg.Code == codeProtocol && strings.Contains(pg.Message, "message size")
}

// one runs a statement that returns one row or none; see [DB.do].
func one[T, A any](ctx context.Context, db *DB, s statement[A], again repeat, args A, scan pgx.RowToFunc[T]) (row T, found, lost bool, err error) {
	lost, err = db.do(ctx, s.name, again, args, func(rows pgx.Rows) error {
		row, err = pgx.CollectOneRow(rows, scan)
		found = err == nil
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return row, found, lost, err
}

// many runs a statement that returns any number of rows; see [DB.do].
func many[T, A any](ctx context.Context, db *DB, s statement[A], again repeat, args A, scan pgx.RowToFunc[T]) (all []T, err error) {
	_, err = db.do(ctx, s.name, again, args, func(rows pgx.Rows) error {
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	return all, err
}

// affected runs a statement and returns how many rows it touched; see [DB.do].
func affected[A any](ctx context.Context, db *DB, s statement[A], again repeat, args A) (n int, lost bool, err error) {
	lost, err = db.do(ctx, s.name, again, args, func(rows pgx.Rows) error {
		rows.Close()
		n = int(rows.CommandTag().RowsAffected())
		return rows.Err()
	})
	return n, lost, err
}

// do runs the statement of that name until its outcome is known; see [DB.call]. Each
// try passes its rows to read, which consumes them.
func (db *DB) do(ctx context.Context, name string, again repeat, args any, read func(rows pgx.Rows) error) (lost bool, err error) {
	sql, bound, err := db.dialect.bind(name, args)
	if err != nil {
		return false, err // of an unknown queue
	}
	round := slices.Contains(inRounds, name)
	return db.call(ctx, name, again, maxTries, func(ctx, turn context.Context) error {
		if round {
			turn = context.WithValue(turn, roundKey{}, true)
		}
		return db.try(ctx, turn, sql, bound, read)
	})
}

// call tries, most times at most, until the outcome is known, within CallTimeout, or awayTimes that where
// ctx is marked by [View.toward], from the pool that ctx is marked for. lost reports
// whether a try that seemed to fail may have been done. Errors wrap
// [claim.ErrUnavailable], except the database's refusal of the statement, a
// [pgconn.PgError].
func (db *DB) call(ctx context.Context, name string, again repeat, most int, try func(ctx, turn context.Context) error) (lost bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if _, ok := foreign(ctx); ok {
		return false, try(ctx, ctx)
	}
	ctx, turn, cancel := db.bounded(ctx)
	defer cancel()
	who := callerOf(ctx)
	leave, err := db.conns.Enter(who)
	if err != nil {
		return false, unavailable(name, err)
	}
	defer leave()
	release, err := db.conns.Acquire(turn, who)
	if err != nil {
		return false, unavailable(name, err)
	}
	defer release()
	pause := firstPause
	for tries := 1; ; tries++ {
		if tries > 1 {
			db.meters.retries.Add(1, name)
		}
		err := try(ctx, turn)
		switch {
		case err == nil:
			return lost, nil
		case errors.Is(err, pool.ErrTimeout):
			return lost, unavailable(name, err)
		}
		turn = ctx // it had its turn
		db.heed(err)
		if scan := (pgx.ScanArgError{}); errors.As(err, &scan) {
			// The database answered, in a form that this build cannot read.
			return lost, fmt.Errorf("%w: %s: %s", claim.ErrUnavailable, name, oneLine(err))
		}
		what := judge(err)
		if what == refused {
			return lost, err
		}
		lost = lost || what == unknown
		if tries == most || what == unknown && again == once || !sleep(ctx, pause/2+rand.N(pause)) {
			return lost, unavailable(name, err)
		}
		pause = min(2*pause, lastPause)
	}
}

// heed acts on a refusal that is about the server and not about the statement.
//
// A server that refuses writes was demoted, and another has taken over: every session is
// discarded. Look-ups of API keys write nothing, and would read the old server for as long as
// it keeps their sessions. One that has no space makes the node not ready; see [View.Ready].
func (db *DB) heed(err error) {
	switch {
	case hasCode(err, codeReadOnly):
		db.pool.Reset()
		if db.door != nil { // while it opens there is none
			db.door.pool.Reset()
		}
	case hasCode(err, codeDiskFull):
		db.diskFull.Store(&refusal{at: time.Now(), err: err})
	}
}

// refusal is the database's latest refusal of some kind.
type refusal struct {
	at  time.Time
	err error
}

// bounded returns ctx with the time-out of a call, and turn with the part of it for the
// wait for a connection.
func (db *DB) bounded(ctx context.Context) (bounded, turn context.Context, cancel func()) {
	limits := db.limitsIn(callerOf(ctx).Region)
	bounded, end := context.WithTimeout(ctx, limits.CallTimeout)
	turn, endTurn := context.WithTimeout(bounded, limits.patience())
	return bounded, turn, func() { endTurn(); end() }
}

// limitsIn returns those of calls on rows of a region, "" for the view's own.
func (db *DB) limitsIn(region string) Pool {
	if region != "" {
		return db.limits.away()
	}
	return db.limits
}

// try runs a statement once. The wait for a connection ends with turn, so that a
// statement always has its whole time: cancelling a statement costs its connection,
// too.
func (db *DB) try(ctx, turn context.Context, sql string, bound []any, read func(rows pgx.Rows) error) (err error) {
	if tx, ok := foreign(ctx); ok {
		return db.tryIn(ctx, tx, sql, bound, read)
	}
	conn, err := db.pool.Acquire(turn)
	if err != nil {
		if turn.Err() != nil {
			return pool.ErrTimeout
		}
		return err
	}
	defer conn.Release()
	if isAway(ctx) {
		restore, err := db.patient(ctx, conn)
		if err != nil {
			return err
		}
		defer restore()
	}
	defer db.meters.statement(ctx, statementName(sql), time.Now(), &err)
	if err = query(ctx, conn, sql, bound, read); err != nil && conn.Conn().IsClosed() {
		return sentError{err}
	}
	return err
}

// query sends a statement and has read consume its rows.
func query(ctx context.Context, q querier, sql string, bound []any, read func(rows pgx.Rows) error) error {
	rows, err := q.Query(ctx, sql, bound...)
	if err != nil {
		return err
	}
	defer rows.Close()
	err = read(rows)
	rows.Close()
	if failed := rows.Err(); failed != nil {
		return failed
	}
	return err
}

// unsentError: the session could not be prepared, and the statement was not sent.
type unsentError struct{ error }

// SafeToRetry is what [pgconn.SafeToRetry] asks.
func (unsentError) SafeToRetry() bool { return true }

// sentError: the connection ended, and the statement may have been sent. Where the reply to a simple
// query is lost, pgx (5.12, 5.13) says that the connection is closed, an error that claims to be of
// before the statement.
type sentError struct{ error }

func (e sentError) Unwrap() error { return e.error }

// SafeToRetry is what [pgconn.SafeToRetry] asks.
func (sentError) SafeToRetry() bool { return false }

func unavailable(name string, err error) error {
	return fmt.Errorf("%w: %s: %w", claim.ErrUnavailable, name, &lineError{err})
}

// lineError is an error on one line that keeps its causes.
type lineError struct{ err error }

func (e *lineError) Error() string { return oneLine(e.err) }
func (e *lineError) Unwrap() error { return e.err }

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func hasCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}

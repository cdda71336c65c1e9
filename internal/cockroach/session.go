package cockroach

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// asNeeded sets a new session up.
func asNeeded(ctx context.Context, conn *pgx.Conn) error {
	if conn.PgConn().ParameterStatus("crdb_version") == "" {
		// What PostgreSQL acknowledges must be on disk, whatever the database's
		// default says: a charge that it forgets would be made again.
		err := plainly(ctx, conn, "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")
		if err != nil {
			return err
		}
		// Statements go by keys, and so are they to be run. A plan is kept for longer
		// than a table stays as small as it was, so that none may read it from end to
		// end. Where an index has the order, it is to be walked until the limit is
		// reached, and not all be read and sorted: without statistics the planner
		// believes that next to no rows of a queue are due. What is joined is looked up row
		// by row, for the same reason. What has to be done in
		// these ways all the same counts as immense, and is not to be compiled for that.
		err = plainly(ctx, conn, "SELECT set_config('enable_seqscan', 'off', false), set_config('enable_sort', 'off', false), set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false), set_config('jit', 'off', false), set_config('default_transaction_isolation', '"+readCommitted+"', false)")
		if err != nil {
			return err
		}
		// On tables that were never analysed one index is as good as another, and a plan
		// that is kept reads all claims of a tenant before long. Sessions that find them
		// so plan each statement anew, which costs half a millisecond, for their five
		// minutes; by then there are statistics.
		err = plainly(ctx, conn, `SELECT set_config('plan_cache_mode', 'force_custom_plan', false)
			WHERE EXISTS (SELECT 1 FROM pg_class WHERE oid IN (to_regclass('claims'), to_regclass('responses')) AND reltuples < 1000)`)
		if err != nil {
			return err
		}
		return isolated(ctx, conn, readCommitted)
	}
	// CockroachDB is to keep plans, but where one for the very arguments costs less:
	// statements name their region, see [query.in]. Not as the database's default, which
	// does not hold for every user.
	err := plainly(ctx, conn, "SET plan_cache_mode = 'auto'; SET default_transaction_isolation = '"+serializable+"'")
	if err != nil {
		return err
	}
	return isolated(ctx, conn, serializable)
}

// The isolation that statements are written for: docs/DATABASE.md says why, by
// statement. Sessions set it themselves, whatever the default of database or role.
const (
	serializable  = "serializable"   // on CockroachDB
	readCommitted = "read committed" // on PostgreSQL
)

// isolated checks which level the session's transactions have: a database, or what is
// between it and us, may give another one than was asked for.
func isolated(ctx context.Context, conn *pgx.Conn, want string) error {
	answers, err := conn.PgConn().Exec(ctx, "SELECT current_setting('transaction_isolation')").ReadAll()
	if err != nil {
		return err
	}
	have := ""
	for _, a := range answers {
		for _, row := range a.Rows {
			have = string(row[0])
		}
	}
	if have != want {
		return &isolationError{have: have, want: want}
	}
	return nil
}

// isolationError: transactions have another level than the statements need. Nothing
// was sent.
type isolationError struct{ have, want string }

func (e *isolationError) Error() string {
	return fmt.Sprintf("transactions of new sessions are %q though they were set to %q", e.have, e.want)
}

// SafeToRetry is what [pgconn.SafeToRetry] asks.
func (*isolationError) SafeToRetry() bool { return true }

// plainly runs SQL that is about the session and not about rows, below pgx, whose
// tracer would show it as a statement of ours.
func plainly(ctx context.Context, conn *pgx.Conn, sql string) error {
	_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// patient gives a session the statement timeout of rows elsewhere, until restore. It
// costs two round trips at home, which are nothing beside the way, and statements at
// home none.
func (db *DB) patient(ctx context.Context, conn *pgxpool.Conn) (restore func(), err error) {
	set := func(d time.Duration) error {
		return plainly(ctx, conn.Conn(), fmt.Sprintf("SET statement_timeout = %d", d.Milliseconds()))
	}
	if err := set(db.limits.away().StatementTimeout); err != nil {
		_ = conn.Conn().Close(ctx) // who knows which it has
		return nil, unsentError{err}
	}
	return func() {
		if set(db.limits.StatementTimeout) != nil {
			_ = conn.Conn().Close(ctx)
		}
	}, nil
}

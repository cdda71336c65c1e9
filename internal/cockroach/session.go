package cockroach

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// asNeeded sets up a new session in one round trip: settings are committed before they
// are read, as a transaction takes its isolation from the default when it begins.
func asNeeded(ctx context.Context, conn *pgx.Conn) error {
	bindArrays(conn.TypeMap())
	d := postgreSQL
	if conn.PgConn().ParameterStatus("crdb_version") != "" {
		d = cockroachDB
	}
	// Below pgx, whose tracer would show it as a statement of ours.
	answers, err := conn.PgConn().Exec(ctx, "-- name: session\nBEGIN; "+d.session+"; COMMIT; "+
		"SELECT current_setting('transaction_isolation'), current_setting('plan_cache_mode')").ReadAll()
	if err != nil {
		return err
	}
	have := answers[len(answers)-1].Rows[0]
	if err := d.gives(string(have[0])); err != nil {
		return err
	}
	if string(have[1]) == "force_custom_plan" {
		conn.PgConn().CustomData()[plansAnew] = true
	}
	return nil
}

// gives fails for another isolation than requested, which a database, or a proxy before
// it, may set.
func (d dialect) gives(isolation string) error {
	if isolation != d.isolation {
		return &isolationError{have: isolation, want: d.isolation}
	}
	return nil
}

const (
	// PostgreSQL must sync before it acknowledges, whatever the database's default is:
	// a charge that it loses would be made again.
	//
	// Statements go by keys, and must be executed so. A plan is kept for longer than a
	// table stays small, so no plan may scan it. If an index has the order, it must be
	// walked until the limit is reached, not read in full and sorted: without
	// statistics the planner assumes that next to no rows of a queue are due. Joins
	// must look up row by row, for the same reason. Plans that scan all the same get an
	// immense cost, and must not be compiled for that.
	//
	// On tables that were never analysed one index seems as good as another, and a kept
	// plan soon reads all claims of a tenant. Sessions that find such tables plan each
	// statement anew, until there are statistics: see [growth].
	onPostgreSQL = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'; " +
		"SELECT set_config('enable_seqscan', 'off', false), set_config('enable_sort', 'off', false), " +
		"set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false), set_config('jit', 'off', false), " +
		"set_config('default_transaction_isolation', '" + readCommitted + "', false); " +
		"SELECT set_config('plan_cache_mode', 'force_custom_plan', false)" + whileYoung
	// CockroachDB keeps plans, unless one for the very arguments costs less: statements
	// name their region, see [query.in]. Not as the database's default, which does not
	// hold for every user.
	onCockroachDB = "SET plan_cache_mode = 'auto'; SET default_transaction_isolation = '" + serializable + "'"
)

// plansAnew marks a session that plans each statement anew.
const plansAnew = "homeward plans anew"

// whileYoung returns a row if PostgreSQL has no statistics of claims, or next to none.
const whileYoung = " FROM pg_class WHERE oid = to_regclass('claims') AND reltuples < 1000"

// young reports whether there is that row.
func young(ctx context.Context, conn *pgx.Conn) (bool, error) {
	answers, err := conn.PgConn().Exec(ctx, "SELECT 1"+whileYoung).ReadAll()
	return err == nil && len(answers[0].Rows) > 0, err
}

// youngFor is how long the absence of statistics is cached. Autovacuum looks for tables
// to analyse every minute by default.
const youngFor = 10 * time.Second

// growth lets the sessions of a pool keep their plans once there are statistics.
type growth struct {
	asked atomic.Int64 // when it was last looked, in Unix nanoseconds
	known atomic.Bool
}

// prepare is called before each use of a connection. At most one session in youngFor
// checks for statistics.
func (g *growth) prepare(ctx context.Context, conn *pgx.Conn) (fit bool, err error) {
	marks := conn.PgConn().CustomData()
	if marks[plansAnew] == nil {
		return true, nil
	}
	if !g.known.Load() {
		now, last := time.Now().UnixNano(), g.asked.Load()
		if time.Duration(now-last) < youngFor || !g.asked.CompareAndSwap(last, now) {
			return true, nil
		}
		unknown, err := young(ctx, conn)
		if err != nil || unknown {
			return err == nil, nil // one that does not answer is replaced
		}
		g.known.Store(true)
	}
	if plainly(ctx, conn, "RESET plan_cache_mode") != nil {
		return false, nil // one that does not answer is replaced
	}
	delete(marks, plansAnew)
	return true, nil
}

// The isolation that statements are written for: docs/DATABASE.md gives the reason for
// each. Sessions set it themselves, whatever the default of database or role.
const (
	serializable  = "serializable"   // on CockroachDB
	readCommitted = "read committed" // on PostgreSQL
)

// isolationError: transactions have another level than the statements need. Nothing
// was sent.
type isolationError struct{ have, want string }

func (e *isolationError) Error() string {
	return fmt.Sprintf("transactions of new sessions are %q though they were set to %q", e.have, e.want)
}

// SafeToRetry is what [pgconn.SafeToRetry] asks.
func (*isolationError) SafeToRetry() bool { return true }

// plainly runs SQL about the session and not about rows, below pgx, whose tracer would
// show it as a statement of ours.
func plainly(ctx context.Context, conn *pgx.Conn, sql string) error {
	_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// patient gives a session the statement time-out of far rows, until restore. It costs
// two round trips at home, which are negligible for far rows, and statements at home
// none.
func (db *DB) patient(ctx context.Context, conn *pgxpool.Conn) (restore func(), err error) {
	set := func(d time.Duration) error {
		return plainly(ctx, conn.Conn(), fmt.Sprintf("SET statement_timeout = %d", d.Milliseconds()))
	}
	if err := set(db.limits.away().StatementTimeout); err != nil {
		_ = conn.Conn().Close(ctx) // its setting is unknown
		return nil, unsentError{err}
	}
	return func() {
		if set(db.limits.StatementTimeout) != nil {
			_ = conn.Conn().Close(ctx)
		}
	}, nil
}

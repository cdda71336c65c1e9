package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// session is what a pool's sessions set, and read back. A startup parameter would do the
// same in less, but PgBouncer refuses those that it does not know, or ignores them.
type session struct {
	// params are the URL's own.
	params  map[string]string
	timeout time.Duration
	// tool: a session that takes no writes will do.
	tool bool
	// of is the deployment of the pool's sessions.
	of *soleDeployment
}

// newSession moves to the session what c sends as startup parameters, except those that are
// no settings, and the name, which poolers pass on.
func newSession(c *pgx.ConnConfig, timeout time.Duration, tool bool) session {
	s := session{params: map[string]string{}, timeout: timeout, tool: tool}
	for name, value := range c.RuntimeParams {
		if !slices.Contains([]string{"application_name", "options", "replication"}, name) {
			s.params[name] = value
			delete(c.RuntimeParams, name)
		}
	}
	return s
}

// setParams returns the statements that set the URL's parameters; "" if there are none.
func (s session) setParams() string {
	var sql strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.params)) { // as SET does not, it reads lists
		fmt.Fprintf(&sql, "SELECT set_config(%s, %s, false); ", literal(name), literal(s.params[name]))
	}
	return sql.String()
}

// asNeeded sets up a new session in one round trip: settings are committed before they
// are read, as a transaction takes its isolation from the default when it begins.
func (s session) asNeeded(ctx context.Context, conn *pgx.Conn) error {
	d := postgreSQL
	if conn.PgConn().ParameterStatus("crdb_version") != "" {
		d = cockroachDB
	}
	// Below pgx, whose tracer would show it as a statement of ours.
	answers, err := conn.PgConn().Exec(ctx, fmt.Sprintf("-- name: session\nBEGIN; %s%s; SET statement_timeout = %d; "+
		"SELECT current_setting('statement_timeout'); COMMIT; SELECT current_setting('transaction_isolation'), "+
		"current_setting('plan_cache_mode'), current_setting('transaction_read_only'), current_setting('statement_timeout')%s",
		s.setParams(), d.session, s.timeout.Milliseconds(), s.of.ask())).ReadAll()
	if err != nil {
		return s.of.missing(err)
	}
	if answers, err = s.of.check(ctx, conn, answers); err != nil {
		return err
	}
	have, set := answers[len(answers)-1].Rows[0], answers[len(answers)-3].Rows[0]
	for _, setting := range []settingError{
		{"transaction_isolation", string(have[0]), d.isolation},
		{"statement_timeout", string(have[3]), string(set[0])},
	} {
		if setting.have != setting.want {
			return &setting
		}
	}
	if string(have[2]) == "on" && !s.tool {
		return d.whyReadOnly(ctx, conn)
	}
	if string(have[1]) == "force_custom_plan" {
		conn.PgConn().CustomData()[plansAnew] = true
	}
	return nil
}

// whyReadOnly returns a readOnlyError for a session that takes no writes.
func (d dialect) whyReadOnly(ctx context.Context, conn *pgx.Conn) error {
	if d.cockroach {
		return &readOnlyError{}
	}
	answers, err := conn.PgConn().Exec(ctx, "SELECT pg_is_in_recovery()").ReadAll()
	if err != nil {
		return err
	}
	return &readOnlyError{standby: string(answers[0].Rows[0][0]) == "t"}
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
	// CockroachDB keeps the plans of statements with arguments, see [kept]: statements name
	// their region. Left to choose ('auto') it plans many anew, which costs as much as they do.
	// Not as the database's default, which does not hold for every user.
	onCockroachDB = "SET plan_cache_mode = 'force_generic_plan'; SET default_transaction_isolation = '" + serializable + "'"

	// unhurried is for one transaction that reads much, and for whose end a person waits.
	unhurried = "SET LOCAL statement_timeout = '30s'"
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

// settingError: a session lost a setting between two transactions, or a database or a
// proxy before it changes what was set. No statement was sent.
type settingError struct{ name, have, want string }

func (e *settingError) Error() string {
	return fmt.Sprintf("%s of new sessions is %q though it was set to %q", e.name, e.have, e.want)
}

// SafeToRetry is what [pgconn.SafeToRetry] asks.
func (*settingError) SafeToRetry() bool { return true }

// readOnlyError: the session's transactions may not write. No statement was sent.
type readOnlyError struct{ standby bool }

func (e *readOnlyError) Error() string {
	if e.standby {
		return "it is a hot standby"
	}
	return "default_transaction_read_only is on"
}

// SafeToRetry is what [pgconn.SafeToRetry] asks.
func (*readOnlyError) SafeToRetry() bool { return true }

// otherDatabaseError: the session reached the database of another deployment than the
// pool's first one. No statement was sent.
type otherDatabaseError struct{ own, other uuid.UUID }

func (e *otherDatabaseError) Error() string {
	return fmt.Sprintf("it is of the deployment %v, and this process began with the database of %v", e.other, e.own)
}

// SafeToRetry is what [pgconn.SafeToRetry] asks.
func (*otherDatabaseError) SafeToRetry() bool { return true }

// soleDeployment is the deployment whose database a process uses: that of its first session.
// A name or a proxy may lead a later one to another database, such as a copy with an id of
// its own: the claims of the first are not there, and would be charged again. A nil one
// checks nothing.
type soleDeployment struct{ id atomic.Pointer[uuid.UUID] }

// readDeployment reads the id as text. While there are no tables it fails, so that only later
// sessions than the first read it in the round trip that sets them up.
const readDeployment = "SELECT id FROM deployment"

// ask returns what a session's statements end with; "" for a first one.
func (s *soleDeployment) ask() string {
	if s == nil || s.id.Load() == nil {
		return ""
	}
	return "; " + readDeployment
}

// missing returns err, or that this is another database if it has no such row to read.
func (s *soleDeployment) missing(err error) error {
	if s != nil && s.id.Load() != nil && (hasCode(err, undefinedTable) || hasCode(err, insufficientPrivilege)) {
		return &otherDatabaseError{own: *s.id.Load()}
	}
	return err
}

// check fails with an *otherDatabaseError unless conn is of the same deployment as the first
// session, and returns the other answers. A database whose row cannot be read has none:
// Open refuses it by itself.
func (s *soleDeployment) check(ctx context.Context, conn *pgx.Conn, answers []*pgconn.Result) ([]*pgconn.Result, error) {
	if s == nil {
		return answers, nil
	}
	last := answers[len(answers)-1]
	if len(last.FieldDescriptions) == 1 { // it was asked along
		answers = answers[:len(answers)-1]
	} else {
		first, err := conn.PgConn().Exec(ctx, readDeployment).ReadAll()
		switch {
		case hasCode(err, undefinedTable), hasCode(err, insufficientPrivilege):
			last = &pgconn.Result{}
		case err != nil:
			return nil, err
		default:
			last = first[0]
		}
	}
	var have uuid.UUID
	if len(last.Rows) == 1 {
		var err error
		if have, err = uuid.ParseBytes(last.Rows[0][0]); err != nil {
			return nil, err
		}
		s.id.CompareAndSwap(nil, &have)
	}
	if own := s.id.Load(); own != nil && *own != have {
		return nil, &otherDatabaseError{own: *own, other: have}
	}
	return answers, nil
}

// errPooled: two sessions, one after the other, had one of the server's.
var errPooled = errors.New("a proxy pools transactions")

// keepsSessions fails if a proxy gives each transaction another of the server's sessions:
// settings would be lost, or be those of another client. conn is between two transactions,
// so such a proxy may give its session away, and while another connection holds that one in
// a transaction, must give conn another. A proxy without a session for the other one lets it
// wait: within timeout.
func keepsSessions(ctx context.Context, conn *pgx.Conn, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	other, err := pgx.ConnectConfig(ctx, conn.Config())
	if err != nil {
		return err
	}
	defer func() { _ = other.Close(context.WithoutCancel(ctx)) }()
	const ask = "SELECT pg_backend_pid()"
	var mine, others, again int64
	if err := conn.QueryRow(ctx, ask, pgx.QueryExecModeSimpleProtocol).Scan(&mine); err != nil {
		return err
	}
	tx, err := other.Begin(ctx)
	if err != nil {
		return err
	}
	if err := tx.QueryRow(ctx, ask, pgx.QueryExecModeSimpleProtocol).Scan(&others); err != nil {
		return err
	}
	if others != mine {
		if err := conn.QueryRow(ctx, ask, pgx.QueryExecModeSimpleProtocol).Scan(&again); err != nil {
			return err
		}
	}
	if again != mine {
		return errPooled
	}
	return tx.Rollback(ctx)
}

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

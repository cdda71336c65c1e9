package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/documents"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/sqlstore/batch"
	"github.com/homeward-io/homeward/internal/sqlstore/pool"
)

// Config configures [Open]. URL and Policy are required.
type Config struct {
	// URL is a PostgreSQL connection string; it names the database.
	URL string
	// Policy must be valid. On CockroachDB its ClockOffset must be at least the
	// cluster's --max-offset.
	Policy claim.Policy
	// Tool: no claim is made or read. The windows of Policy are then ignored: they are
	// neither compared with those promised to keys, nor promised themselves.
	Tool bool
	Pool Pool
	// Trace records spans of statements, named by the statement, without arguments,
	// with OpenTelemetry's global provider; only within a span that is recorded.
	Trace bool
	// Meters count statements, batches and pools. Nil: none are counted.
	Meters *meter.Set
	Logger *slog.Logger

	of     *soleDeployment       // by Open, for both pools
	adjust func(*pgxpool.Config) // by tests
}

// Pool bounds the use of the database. Zero values take the defaults of
// [DefaultPool].
type Pool struct {
	// MaxConns is the most connections of this process, beside those that look up API
	// keys: one for each eight, at least two. CockroachDB works best with at most 4
	// active ones for each of its processors in the region, over all nodes of Homeward
	// there. Default 16.
	MaxConns int32 `koanf:"max_conns"`
	// MinConns are kept open, so that a burst does not wait for handshakes.
	// Default 2.
	MinConns int32 `koanf:"min_conns"`
	// MaxLifetime closes a connection after that long, give or take a tenth, so that
	// the load spreads when the database grows. Default 5 min.
	MaxLifetime time.Duration `koanf:"max_lifetime"`
	// MaxWaiting bounds the calls that wait for a connection: arriving requests and begun
	// work each by itself. Further calls are refused at once, and so are those of a tenant,
	// or on rows of another region, that would leave fewer places for others than it has.
	// Waiting holds a request's memory, not a connection. Default 1024.
	MaxWaiting int `koanf:"max_waiting"`
	// StatementTimeout is when the database cancels a statement. A statement takes
	// milliseconds at home; one that is stuck on a lost range would hang for a minute.
	// Statements on rows of other regions have four times as long, for the way. Default
	// 1.2 s.
	StatementTimeout time.Duration `koanf:"statement_timeout"`
	// CallTimeout bounds a whole call: waiting for a connection, the statement and its
	// repetitions. While the database is down a request waits that long for its 503,
	// which is promised within 2 s. The part above StatementTimeout is for the wait for
	// a connection. Calls on rows of other regions have four times as long. Default 1.8
	// s.
	CallTimeout time.Duration `koanf:"call_timeout"`
	// ConnectTimeout bounds one connection's handshake. Default 1 s.
	ConnectTimeout time.Duration `koanf:"connect_timeout"`
	// TenantCache is how long a tenant's row, found by its API key, is cached: how long a
	// revoked key may still be accepted. An unknown key is refused from the cache for as
	// long, at most 5 s: how long a new key that was tried too early may be refused.
	// Negative: neither. Default 5 s.
	TenantCache time.Duration `koanf:"tenant_cache"`
	// AllowUnverified allows connections to another machine without a certificate that
	// proves it to be the database, even in clear text. Default: they are refused.
	AllowUnverified bool `koanf:"allow_unverified"`
}

// DefaultPool is the pool of a node that has a database with two processors to itself.
func DefaultPool() Pool {
	return Pool{
		MaxConns: 16, MinConns: 2, MaxLifetime: 5 * time.Minute, MaxWaiting: 1024,
		StatementTimeout: 1200 * time.Millisecond, CallTimeout: 1800 * time.Millisecond,
		ConnectTimeout: time.Second, TenantCache: 5 * time.Second,
	}
}

// Validate returns an error that names every invalid setting.
func (p Pool) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("database: "+format, args...))
		}
	}
	check(p.MaxConns >= 1, "max_conns must be at least 1, is %d", p.MaxConns)
	check(p.MinConns >= 0 && p.MinConns <= p.MaxConns, "min_conns must be from 0 to max_conns %d, is %d", p.MaxConns, p.MinConns)
	check(p.MaxLifetime > 0, "max_lifetime must be above 0, is %v", p.MaxLifetime)
	check(p.MaxWaiting >= 0, "max_waiting must not be negative, is %d", p.MaxWaiting)
	check(p.StatementTimeout >= time.Millisecond, "statement_timeout must be at least 1ms, is %v", p.StatementTimeout)
	check(p.CallTimeout > p.StatementTimeout, "call_timeout must be above statement_timeout %v, is %v; the difference is how long a call waits for a connection", p.StatementTimeout, p.CallTimeout)
	check(p.ConnectTimeout > 0, "connect_timeout must be above 0, is %v", p.ConnectTimeout)
	return errors.Join(errs...)
}

// patience is how long a call waits for a connection.
func (p Pool) patience() time.Duration { return p.CallTimeout - p.StatementTimeout }

// awayTimes is how many times as long what touches rows of other regions may take.
// Settle makes up to nine round trips there, one after the other: CockroachDB reads
// what each of four or five tables has under the keys to be written, claims
// twice, then sends the writes of all with the commit, which waits for another region
// (or, before v26, writes as it goes, which is as many). Between the farthest regions in
// use, 220 ms apart, that is 2.2 s with the commit. Where the link to the rows is cut
// the database takes the detour by a third region, 150 + 220 ms for each trip: 3.6 s.
// Four times 1.2 s leaves a quarter of that for the work itself.
const awayTimes = 4

// away is p for calls that touch rows of other regions.
func (p Pool) away() Pool {
	p.StatementTimeout, p.CallTimeout = awayTimes*p.StatementTimeout, awayTimes*p.CallTimeout
	return p
}

// DB is the database as one process uses it. It is safe for concurrent use;
// nodes use it through the views that [DB.Region] returns.
type DB struct {
	documents.Contracts
	pool   *pgxpool.Pool
	of     *soleDeployment
	policy claim.Policy
	tool   bool
	limits Pool
	// searchPath is that of the URL; "" if it has none, and the database's default counts.
	searchPath string
	dialect    dialect
	version    string
	log        *slog.Logger
	meters     meters
	doubts     []string

	conns      *pool.Pool
	turns      *batch.Turns // nil: statements of one kind wait for no other
	begins     *batched[creation, beginArgs]
	beginsHere *batched[creation, beginArgs]
	finds      *batched[creation, findArgs]
	pins       *batched[pinning, pinArgs]
	settles    *batched[settlement, settleArgs]
	replicas   *batched[lookup, replicaArgs]
	lately     *recentKeys // keys that had a claim a moment ago
	// unstorable are keys whose step the database refused because of what it would write.
	// Their steps share no statement, whose others would fail with them.
	unstorable *recentKeys
	regions    atomic.Pointer[map[string]claim.RegionCode]
	byID       *memory[string]
	door       *door
	diskFull   atomic.Pointer[refusal] // the latest for want of space; nil: none
	notes      notes
	since      func(time.Time) time.Duration // how long a note has waited
	sweeps     sweeps

	closing sync.Once
	stop    context.CancelFunc
	stopped chan struct{}
}

// Open connects to the database that c names and checks that its tables are
// those of this build. An error is one line that says what to do. The caller
// must Close the DB. ctx bounds the opening only.
func Open(ctx context.Context, c Config) (*DB, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Pool == (Pool{}) {
		c.Pool = DefaultPool()
	}
	if err := errors.Join(c.Pool.Validate(), c.Policy.Validate()); err != nil {
		return nil, err
	}
	c.of = new(soleDeployment)
	conns, err := openPool(ctx, c)
	if err != nil {
		return nil, err
	}
	db := &DB{
		pool: conns, of: c.of, policy: c.Policy, tool: c.Tool, limits: c.Pool, searchPath: searchPathOf(c.URL), log: c.Logger, meters: newMeters(c.Meters),
		conns:   pool.New(int(c.Pool.MaxConns), c.Pool.MaxWaiting),
		since:   time.Since,
		stopped: make(chan struct{}),
		notes:   notes{flushing: make(chan struct{}, 1)},
		byID:    newMemory[string](c.Pool.TenantCache),
	}
	db.Contracts = documents.In(db)
	connected := conns.Config().ConnConfig
	if host := unverified(connected); host != "" {
		db.doubts = append(db.doubts, "the database at "+host+" is not verified: anybody on the network path could read and change every charge")
	}
	err = db.inspect(ctx, connected)
	if err == nil && !c.Tool {
		switch err = db.Promise(ctx, &db.policy); {
		case errors.Is(err, claim.ErrUnavailable):
			err = connectError(connected, err)
		case err != nil:
			err = fmt.Errorf("database %q: %w", connected.Database, err)
		}
	}
	if err != nil {
		conns.Close()
		return nil, err
	}
	if db.door, err = openDoor(ctx, c); err != nil {
		conns.Close()
		return nil, err
	}
	if err := db.observe(c.Meters); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if db.dialect.cockroach {
		db.turns = &batch.Turns{}
	}
	db.begins, db.beginsHere, db.finds, db.pins, db.settles, db.replicas = batchedBegin(db, claimBegin), batchedBegin(db, claimBeginHere), batchedFind(db), batchedPin(db), batchedSettle(db), batchedReplica(db)
	db.lately, db.unstorable = newRecentKeys(latelySlots), newRecentKeys(unstorableSlots)
	background, stop := context.WithCancel(context.Background())
	db.stop = stop
	go db.flushNotesEvery(background, noteFlushEvery)
	return db, nil
}

// openPool makes a pool as c says. An error is one line that says what to do.
func openPool(ctx context.Context, c Config) (*pgxpool.Pool, error) {
	pc, err := poolConfig(c)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, connectError(pc.ConnConfig, err)
	}
	return pool, nil
}

// searchPathOf is the search path that url, which has been read, sets.
func searchPathOf(url string) string {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return ""
	}
	return c.RuntimeParams["search_path"]
}

func poolConfig(c Config) (*pgxpool.Config, error) {
	if _, err := readURL(c.URL, c.Pool.AllowUnverified); err != nil {
		return nil, err
	}
	pc, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, fmt.Errorf("HOMEWARD_DATABASE_URL cannot be read: %s; write it %s", withoutSecrets(err), goodURL)
	}
	p := c.Pool
	pc.MaxConns, pc.MinConns = p.MaxConns, p.MinConns
	pc.MaxConnLifetime, pc.MaxConnLifetimeJitter = p.MaxLifetime, p.MaxLifetime/10
	pc.PingTimeout, pc.ShouldPing = p.StatementTimeout, shouldPing
	pc.ConnConfig.ConnectTimeout = p.ConnectTimeout
	params := pc.ConnConfig.RuntimeParams
	delete(params, "statement_timeout")
	switch {
	case c.Tool:
		params["application_name"] = toolName
	case params["application_name"] == "":
		params["application_name"] = "homeward"
	}
	session := newSession(pc.ConnConfig, p.StatementTimeout, c.Tool)
	session.of = c.of
	pc.AfterConnect = session.asNeeded
	pc.PrepareConn = new(growth).prepare
	if c.Trace {
		pc.ConnConfig.Tracer = otelpgx.NewTracer(
			otelpgx.WithSpanNameFunc(statementName),
			// The name selects the text. Connection details would copy the whole
			// configuration for every statement.
			otelpgx.WithDisableSQLStatementInAttributes(), otelpgx.WithDisableConnectionDetailsInAttributes(),
		)
	}
	if c.adjust != nil {
		c.adjust(pc)
	}
	return pc, nil
}

const (
	// pingAfter is how long a connection has been idle when it is asked whether it is alive
	// before a statement is sent: pgxpool's own. A statement on a dead one costs a try,
	// and if it may not be repeated its caller an unknown outcome.
	pingAfter = time.Second
	// pingRoundAfter is the same for statements in rounds. An idle node has nothing else
	// to send, and each would cost the database two. It is less than what cuts off
	// idle connections on the way usually takes.
	pingRoundAfter = 90 * time.Second
)

// roundKey marks the wait for a connection of a statement in rounds.
type roundKey struct{}

func shouldPing(ctx context.Context, p pgxpool.ShouldPingParams) bool {
	if ctx.Value(roundKey{}) != nil {
		return p.IdleDuration > pingRoundAfter
	}
	return p.IdleDuration > pingAfter
}

// statementName is the one in the first line of each file in query; of any other
// statement its first word.
func statementName(sql string) string {
	first, _, _ := strings.Cut(sql, "\n")
	if name, ok := strings.CutPrefix(first, "-- name: "); ok {
		return name
	}
	word, _, _ := strings.Cut(first, " ")
	return strings.ToLower(word)
}

// inspect finds out which database this is and whether its tables fit.
func (db *DB) inspect(ctx context.Context, c *pgx.ConnConfig) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return connectError(c, err)
	}
	defer conn.Release()
	// First, as nothing can be prepared there.
	if err := keepsSessions(ctx, conn.Conn(), db.limits.CallTimeout); err != nil {
		return connectError(c, err)
	}
	if db.dialect, db.version, err = recognise(ctx, conn.Conn()); err != nil {
		return connectError(c, err)
	}
	switch lacks, err := missingRights(ctx, conn.Conn(), c.Database); {
	case err != nil:
		return connectError(c, err)
	case lacks != "":
		return errors.New(lacks)
	}
	if err := db.inspectRights(ctx, conn.Conn()); err != nil {
		return connectError(c, err)
	}
	have, err := schemaVersion(ctx, conn.Conn())
	if err != nil {
		return connectError(c, err)
	}
	switch want := SchemaVersion(); {
	case have == 0:
		return fmt.Errorf("database %q is empty, schema version 0, and this build needs %d; run homeward migrate up --regions NAME,…", c.Database, want)
	case have < want:
		return fmt.Errorf("database %q has schema version %d and this build needs %d; run homeward migrate up", c.Database, have, want)
	case have > want:
		// Tables only grow, so an older build keeps working during a rolling upgrade.
		db.log.Warn("the database's schema is newer than this build", "have", have, "known", want)
	}
	regions, err := readRegions(ctx, conn, db.dialect)
	if err != nil {
		return connectError(c, err)
	}
	if len(regions) == 0 {
		return fmt.Errorf("database %q has no region; run homeward migrate up --regions NAME,…", c.Database)
	}
	db.keepRegions(regions)
	return nil
}

// inspectRights checks whether this process may change bookings or audit. It never does, but
// a thief of its password could.
func (db *DB) inspectRights(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `
		SELECT current_user::text, rights.name FROM unnest($1::text[]) AS rights (name)
		WHERE EXISTS (SELECT 1 FROM unnest($2::text[]) AS tables (name) WHERE has_table_privilege(to_regclass(tables.name)::oid, rights.name))`, db.dialect.changes(), appendOnly)
	if err != nil {
		return err
	}
	var user, right string
	var may []string
	if _, err := pgx.ForEachRow(rows, []any{&user, &right}, func() error { may = append(may, right); return nil }); err != nil || len(may) == 0 {
		return err
	}
	db.doubts = append(db.doubts, fmt.Sprintf("user %q of the database may %s what is booked or audited; make roles with homeward migrate roles, and let nodes be the one that is theirs", user, strings.Join(may, ", ")))
	return nil
}

// Doubts are warnings for the operator about this use of the database, which works all
// the same: a line each.
func (db *DB) Doubts() []string { return db.doubts }

// recognise identifies the database and returns the version to show.
func recognise(ctx context.Context, conn *pgx.Conn) (dialect, string, error) {
	var text string
	if err := conn.QueryRow(ctx, "SELECT version()").Scan(&text); err != nil {
		return dialect{}, "", err
	}
	words := strings.Fields(text)
	d := postgreSQL
	at := 1 // PostgreSQL 15.18 (…) on …
	if strings.HasPrefix(text, "CockroachDB") {
		d, at = cockroachDB, 2 // CockroachDB CCL v26.1.0 (…)
	}
	if at < len(words) {
		return d, d.name + " " + words[at], nil
	}
	return d, text, nil
}

// Version names the database, as in "PostgreSQL 15.18".
func (db *DB) Version() string { return db.version }

var ping = declare[homeArgs]("ping")

// notReadyFor is how long a node is not ready after the database refused a statement for
// want of space. No check that writes nothing can see the end of that, and a node without traffic
// may write nothing: after this long the next charge tries.
const notReadyFor = 10 * time.Second

// Ready returns an error unless a charge of the view's region could be recorded now: within
// a call's time, the database takes what writes one, and for 10 s no statement of this node
// was refused for want of space. It writes nothing.
func (v *View) Ready(ctx context.Context) error {
	if last := v.db.diskFull.Load(); last != nil && time.Since(last.at) < notReadyFor {
		return connectError(v.db.pool.Config().ConnConfig, last.err)
	}
	_, _, err := affected(ctx, v.db, ping, repeatable, homeArgs{v.name})
	if _, other := errors.AsType[*otherDatabaseError](err); other || hasCode(err, codeReadOnly) {
		return connectError(v.db.pool.Config().ConnConfig, err)
	}
	return err
}

// Answers returns an error unless the database answers an empty statement before ctx ends. It uses a
// connection for look-ups of API keys, which charges leave alone: waiting for room is no silence.
func (v *View) Answers(ctx context.Context) error { return v.db.door.pool.Ping(ctx) }

// Close writes the waiting notes, within a call's time, and closes every connection
// when its call is done. A second Close does nothing.
func (db *DB) Close() error {
	db.closing.Do(func() {
		db.stop()
		<-db.stopped
		db.flushNotes(context.Background())
		db.pool.Close()
		db.door.pool.Close()
	})
	return nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

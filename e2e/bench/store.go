package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/outbox"
)

// mostOfFlat is how far a hundred times the claims may slow a charge down in a database.
const mostOfFlat = 1.2

// orchestrateStore measures the SQL store on a database of its own.
func orchestrateStore(ctx context.Context, o options, out io.Writer) error {
	return onDatabase(ctx, o, regionNames[:1], func(s *localdb.Server) error { return measureStore(ctx, o, s, out) })
}

// manyConnections is room for eight nodes with their pools, and for whoever watches.
const manyConnections = 400

// onDatabase starts a durable database for as long as measure runs.
func onDatabase(ctx context.Context, o options, regions []string, measure func(*localdb.Server) error) (err error) {
	c := localdb.Config{
		Kind: localdb.Kind(os.Getenv("HOMEWARD_TEST_KIND")), Regions: regions, Durable: true, MaxConnections: manyConnections,
	}
	if o.dir != "" {
		if c.Dir, err = os.MkdirTemp(o.dir, "homeward-bench-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(c.Dir)) }()
		// PostgreSQL may run as another user, who must be able to enter.
		if err := os.Chmod(c.Dir, 0o755); err != nil {
			return err
		}
	}
	s, err := localdb.Start(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop(context.WithoutCancel(ctx))) }()
	return measure(s)
}

// measureStore runs the store's cases on s.
func measureStore(ctx context.Context, o options, s *localdb.Server, out io.Writer) error {
	r := newReport(o, out)
	r.on(s)
	if strings.HasPrefix("store/raw", o.only) {
		if err := compareRaw(ctx, r, s); err != nil {
			return fmt.Errorf("store/raw: %w", err)
		}
	}
	if strings.HasPrefix("store/stored", o.only) {
		if err := compareStored(ctx, r, s); err != nil {
			return fmt.Errorf("store/stored: %w", err)
		}
	}
	return r.finish()
}

// storeSide is one of the things that a case compares, each with rows of its own.
type storeSide struct {
	name  string
	tally tally
	// call makes per charges at once, 0 meaning one.
	call func(context.Context) error
	per  int
}

// tally counts the finished charges that are stored, and fails where one is not whole:
// figures of statements that did less would mean nothing.
type tally interface {
	count(ctx context.Context) (int, error)
}

// compareRaw measures the store against its own two statements.
func compareRaw(ctx context.Context, r *report, s *localdb.Server) error {
	var ledgers [2]*ledger
	for i, name := range []string{"bench_raw", "bench_store"} {
		var err error
		if ledgers[i], err = newLedger(ctx, s, name); err != nil {
			return err
		}
		// Enough rows that the database plans as it would for real ones.
		if err := ledgers[i].fill(ctx, r.small); err != nil {
			return err
		}
	}
	for _, n := range r.conns {
		if err := compareRawAt(ctx, r, ledgers[0], ledgers[1], n); err != nil {
			return fmt.Errorf("%d connections: %w", n, err)
		}
	}
	return nil
}

func compareRawAt(ctx context.Context, r *report, of, other *ledger, conns int) (err error) {
	pool, raw, err := of.raw(ctx, conns)
	if err != nil {
		return err
	}
	defer pool.Close()
	db, store, err := other.open(ctx, other.url, conns)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c := comparison{name: "store/raw", title: "Begin and Settle by the store, and its two statements alone", conns: conns}
	series, err := takeTurns(ctx, r, &c, []storeSide{{name: "raw", tally: of, call: raw}, {name: "store", tally: other, call: store}}, nil)
	if err != nil {
		return err
	}
	r.add(c, series)
	r.atLeast(fmt.Sprintf("%s, %d connections", c.name, conns), rates, series[0], series[1], leastOfFloor)
	return nil
}

// compareStored measures the store on few and on many claims.
func compareStored(ctx context.Context, r *report, s *localdb.Server) (err error) {
	var sides []storeSide
	var few *ledger
	for _, of := range []struct {
		name string
		keys int
	}{{"few", r.small}, {"many", r.large}} {
		l, err := newLedger(ctx, s, "bench_"+of.name)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := l.fill(ctx, of.keys); err != nil {
			return err
		}
		r.printf("filled a database with %d finished charges in %.1f s\n", of.keys, time.Since(began).Seconds())
		db, store, err := l.open(ctx, l.url, middle)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		if few == nil {
			few = l
		}
		sides = append(sides, storeSide{name: of.name, tally: l, call: store})
	}
	c := comparison{
		name: "store/stored", title: fmt.Sprintf("Begin and Settle with %d and with %d claims stored", r.small, r.large), conns: middle,
	}
	// What a run adds would soon make many of few.
	series, err := takeTurns(ctx, r, &c, sides, func(ctx context.Context) error { return few.refill(ctx, r.small) })
	if err != nil {
		return err
	}
	r.add(c, series)
	r.atMost(c.name+", many to few", times, series[0], series[1], mostOfFlat)
	return nil
}

// takeTurns runs the sides in slices that alternate, and names them in c. prepare
// comes before each run but is not measured; nil for nothing.
func takeTurns(ctx context.Context, r *report, c *comparison, sides []storeSide, prepare func(context.Context) error) ([][]figures, error) {
	for _, s := range sides {
		c.sides = append(c.sides, side{name: s.name})
	}
	results := make([][]loadResult, len(sides))
	var idles []usageRate
	for run := range r.runs {
		if prepare != nil {
			if err := prepare(ctx); err != nil {
				return nil, err
			}
		}
		slices := max(1, int(r.window/r.slice))
		// One profile is worth more than many short ones.
		profiled := r.profile != "" && run == r.runs-1
		if profiled {
			slices = 1
		}
		idle, err := c.probe.idle(ctx, r.window/2)
		if err != nil {
			return nil, err
		}
		idles = append(idles, idle)
		totals := make([]callTotal, len(sides))
		before, err := countAll(ctx, sides)
		if err != nil {
			return nil, err
		}
		for n := range slices {
			for i := range sides {
				if (run+n)%2 == 1 {
					i = len(sides) - 1 - i
				}
				how := callRun{conns: c.conns, warm: r.warm / 20, window: r.window / time.Duration(slices), per: max(1, sides[i].per), probe: c.probe}
				if n == 0 {
					how.warm = r.warm // connections are made and statements prepared
				}
				if profiled {
					how.profile = filepath.Join(r.profile, fmt.Sprintf("%s-%d-%s.pprof", strings.ReplaceAll(c.name, "/", "-"), c.conns, sides[i].name))
				}
				if err := totals[i].add(how.measure(ctx, sides[i].call)); err != nil {
					return nil, fmt.Errorf("%s: %w", sides[i].name, err)
				}
			}
		}
		after, err := countAll(ctx, sides)
		if err != nil {
			return nil, err
		}
		for i := range sides {
			if made, want := after[i]-before[i], totals[i].calls*max(1, sides[i].per); made != want {
				return nil, fmt.Errorf("%s: %d charges left %d", sides[i].name, want, made)
			}
			results[i] = append(results[i], totals[i].result())
		}
	}
	return series(results, idles), nil
}

func countAll(ctx context.Context, sides []storeSide) ([]int, error) {
	all := make([]int, len(sides))
	for i, s := range sides {
		var err error
		if all[i], err = s.tally.count(ctx); err != nil {
			return nil, fmt.Errorf("%s: count: %w", s.name, err)
		}
	}
	return all, nil
}

// ledger is one migrated database and the charges that are made in it.
type ledger struct {
	url     string
	kind    localdb.Kind
	regions []string
	charges *charges
	// last is the key of the charge that was made last in this process.
	last atomic.Pointer[claim.Key]
}

// newLedger makes the database and its one tenant, for some of the regions, the first
// one unless told otherwise.
func newLedger(ctx context.Context, s *localdb.Server, name string, regions ...string) (l *ledger, err error) {
	if err := s.CreateDatabase(ctx, name, ""); err != nil {
		return nil, err
	}
	l = &ledger{url: s.URL(regionNames[0], name), kind: s.Kind(), regions: regions}
	if len(regions) == 0 {
		l.regions = regionNames[:1]
	}
	if l.charges, err = newCharges("bench"); err != nil {
		return nil, err
	}
	m, err := sqlstore.OpenMigrator(ctx, l.url, false)
	if err != nil {
		return nil, err
	}
	var all sqlstore.Migration
	for i, r := range l.regions {
		all.Regions = append(all.Regions, claim.Region{Name: r, Code: claim.RegionCode(i + 1)})
	}
	err = m.Up(ctx, all, nil)
	return l, errors.Join(err, m.Close(ctx))
}

// poolOf is the product's pool, for as many callers as connections.
func poolOf(conns int) sqlstore.Pool {
	p := patientPool()
	p.MaxConns, p.MinConns = int32(conns), min(p.MinConns, int32(conns))
	return p
}

// open opens the store, and returns what makes one charge with it.
func (l *ledger) open(ctx context.Context, url string, conns int) (*sqlstore.DB, func(context.Context) error, error) {
	policy := claim.DefaultPolicy()
	if l.kind == localdb.CockroachDB {
		policy.ClockOffset = 500 * time.Millisecond // its --max-offset unless set
	}
	db, err := sqlstore.Open(ctx, sqlstore.Config{URL: url, Policy: policy, Pool: poolOf(conns)})
	if err != nil {
		return nil, nil, err
	}
	view, err := db.Region(regionNames[0])
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	// Rendering answers is the executor's work and not the store's.
	verdict := l.charges.done(claim.Minted{ID: sampleID, Created: time.Now(), Receipt: l.charges.arrival.Mint.Receipt})
	return db, func(ctx context.Context) error {
		a, err := l.charges.next()
		if err != nil {
			return err
		}
		a.Stamped = true // no pin to be made
		held, err := begin(ctx, view, a)
		if err != nil {
			return err
		}
		l.last.Store(&a.Key)
		_, err = view.Settle(ctx, held, verdict)
		return err
	}, nil
}

// sampleID stands in answers for the ids that are minted.
const sampleID = "ch_04hkaps9le6uv093vvvo1md9b8"

// raw overhears one charge, and returns what makes others of the same statements
// with pgx alone, in a pool with the settings of the store's own.
func (l *ledger) raw(ctx context.Context, conns int) (*pgxpool.Pool, func(context.Context) error, error) {
	pool, err := l.rawPool(ctx, poolOf(conns))
	if err != nil {
		return nil, nil, err
	}
	statements, err := l.overhear(ctx, pool)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return pool, func(ctx context.Context) error {
		a, err := l.charges.next()
		if err != nil {
			return err
		}
		for i := range statements {
			s := &statements[i]
			if err := query(ctx, pool, s.sql, s.fill(a.Key.Value, a.Mint.ID)); err != nil {
				return err
			}
		}
		l.last.Store(&a.Key)
		return nil
	}, nil
}

// query takes the one row of a statement as it comes.
func query(ctx context.Context, pool *pgxpool.Pool, sql string, args []any) error {
	rows, err := pool.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	n := 0
	for ; rows.Next(); n++ {
		_ = rows.RawValues()
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("%d rows came back instead of one: %s", n, sql)
	}
	return nil
}

// rawPool is a pool as [sqlstore.Open] makes it.
func (l *ledger) rawPool(ctx context.Context, p sqlstore.Pool) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(l.url)
	if err != nil {
		return nil, err
	}
	c.MaxConns, c.MinConns = p.MaxConns, p.MinConns
	c.MaxConnLifetime, c.MaxConnLifetimeJitter = p.MaxLifetime, p.MaxLifetime/10
	c.PingTimeout = p.StatementTimeout
	c.ConnConfig.ConnectTimeout = p.ConnectTimeout
	c.ConnConfig.RuntimeParams["statement_timeout"] = fmt.Sprint(p.StatementTimeout.Milliseconds())
	c.ConnConfig.RuntimeParams["application_name"] = "homeward-bench"
	return pgxpool.NewWithConfig(ctx, c)
}

// overhear returns the statements of one Begin and one Settle.
func (l *ledger) overhear(ctx context.Context, pool *pgxpool.Pool) (statements []rawStatement, err error) {
	t, url, err := newTap(l.url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	db, _, err := l.open(ctx, url, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	view, err := db.Region(regionNames[0])
	if err != nil {
		return nil, err
	}
	a, err := l.charges.next()
	if err != nil {
		return nil, err
	}
	a.Stamped = true
	before, err := t.executed()
	if err != nil {
		return nil, err
	}
	held, err := begin(ctx, view, a)
	if err != nil {
		return nil, err
	}
	if _, err := view.Settle(ctx, held, l.charges.done(held.Minted)); err != nil {
		return nil, err
	}
	after, err := t.executed()
	if err != nil {
		return nil, err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	for _, b := range after[len(before):] {
		s, err := newRawStatement(ctx, conn.Conn(), b, a.Key.Value, a.Mint.ID)
		if err != nil {
			return nil, err
		}
		statements = append(statements, s)
	}
	if len(statements) == 0 {
		return nil, errors.New("the store was not overheard: it sent nothing that was prepared")
	}
	return statements, nil
}

// count is of claims that are done, and fails if others are there or the last one of
// this process has no answer or no audit. Where rows keep those is the store's to decide.
func (l *ledger) count(ctx context.Context) (done int, err error) {
	var others int
	err = l.connected(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT count(*) FILTER (WHERE state = 2), count(*) FILTER (WHERE state <> 2) FROM claims").Scan(&done, &others)
	})
	if err == nil && others > 0 {
		err = fmt.Errorf("%d claims are not done", others)
	}
	key := l.last.Load()
	if err != nil || key == nil {
		return done, err
	}
	db, _, err := l.open(ctx, l.url, 2)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	view, err := db.Region(regionNames[0])
	if err != nil {
		return done, err
	}
	calls, err := view.Queue(outbox.ProviderCalls).Depth(ctx, regionNames[0])
	if err == nil && calls.Pending+calls.Parked > 0 {
		err = fmt.Errorf("%d provider calls are left", calls.Pending+calls.Parked)
	}
	return done, errors.Join(err, wholeCharge(ctx, view, *key))
}

// auditLines are those of a charge: its beginning, its attempt and its verdict.
const auditLines = 3

// wholeCharge fails unless the store has all of the charge under key.
func wholeCharge(ctx context.Context, view *sqlstore.View, key claim.Key) error {
	rec, _, found, err := view.Get(ctx, key, regionNames[0])
	switch {
	case err != nil:
		return err
	case !found || rec.Response == nil || len(rec.Response.Body) == 0:
		return fmt.Errorf("the charge of key %s has no answer", key.Value)
	}
	lines, err := view.Timeline(ctx, key, regionNames[0], 2*auditLines)
	if err == nil && len(lines) != auditLines {
		err = fmt.Errorf("the charge of key %s has %d lines of audit instead of %d", key.Value, len(lines), auditLines)
	}
	return err
}

// connected lends out a connection of its own.
func (l *ledger) connected(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, l.url)
	if err != nil {
		return err
	}
	return errors.Join(do(conn), conn.Close(context.WithoutCancel(ctx)))
}

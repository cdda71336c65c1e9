package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/procfs"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/sizing/model"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

const (
	// bareDatabase is the floors' own, nodesDatabase Homeward's.
	bareDatabase, nodesDatabase = "bench_bare", "bench_homeward"
	// manyConnections is room for several nodes with their pools, and for whoever watches.
	manyConnections = 400
	// counted is when all requested transactions are counted: a backend of PostgreSQL reports its
	// transactions 10 s after the last of them at the latest (pgstat.c, PGSTAT_IDLE_INTERVAL).
	counted = 11 * time.Second
)

// database is a private server with the databases of both sides.
type database struct {
	*localdb.Server
	regions []string
}

// onDatabase starts a durable database of a kind for as long as measure runs.
func onDatabase(ctx context.Context, o options, kind localdb.Kind, measure func(*database) error) (err error) {
	c := localdb.Config{Kind: kind, Regions: regionNames, Durable: true, MaxConnections: manyConnections}
	if kind == localdb.PostgreSQL {
		c.Regions = regionNames[:1]
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
	db, err := newDatabase(ctx, o, s, c.Regions)
	if err != nil {
		return err
	}
	return measure(db)
}

// newDatabase makes the databases of both sides on a server.
func newDatabase(ctx context.Context, o options, s *localdb.Server, regions []string) (*database, error) {
	db := &database{s, regions}
	var ddl []string
	if s.Kind() == localdb.CockroachDB {
		for _, setting := range append(slices.Clone(o.settings), "kv.allocator.min_lease_transfer_interval='0s'") {
			ddl = append(ddl, "SET CLUSTER SETTING "+setting)
		}
		for i, region := range regions {
			verb := "ADD REGION"
			if i == 0 {
				verb = "SET PRIMARY REGION"
			}
			ddl = append(ddl, "ALTER DATABASE "+bareDatabase+" "+verb+" "+pgx.Identifier{region}.Sanitize())
		}
	}
	for _, name := range []string{bareDatabase, nodesDatabase} {
		if err := s.CreateDatabase(ctx, name, ""); err != nil {
			return nil, err
		}
	}
	if err := db.exec(ctx, bareDatabase, append(ddl, bareSchema(s.Kind())...)...); err != nil {
		return nil, err
	}
	if err := db.migrate(ctx); err != nil {
		return nil, err
	}
	return db, db.PlaceLeases(ctx, bareDatabase, nodesDatabase)
}

// migrate makes Homeward's schema, and its one tenant.
func (db *database) migrate(ctx context.Context) error {
	url := db.URL("", nodesDatabase)
	m, err := sqlstore.OpenMigrator(ctx, url, false)
	if err != nil {
		return err
	}
	var want sqlstore.Migration
	for i, r := range db.regions {
		want.Regions = append(want.Regions, claim.Region{Name: r, Code: claim.RegionCode(i + 1)})
	}
	if err := errors.Join(m.Up(ctx, want, nil), m.Close(ctx)); err != nil {
		return err
	}
	policy := claim.DefaultPolicy()
	if db.Kind() == localdb.CockroachDB {
		policy.ClockOffset = 500 * time.Millisecond // its --max-offset unless set
	}
	store, err := sqlstore.Open(ctx, sqlstore.Config{URL: url, Policy: policy, Pool: patientPool()})
	if err != nil {
		return err
	}
	return errors.Join(store.PutTenant(ctx, tenant(), apiKey), store.Close())
}

// connected lends out a connection of its own.
func (db *database) connected(ctx context.Context, name string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, db.URL("", name))
	if err != nil {
		return err
	}
	return errors.Join(do(conn), conn.Close(context.WithoutCancel(ctx)))
}

func (db *database) exec(ctx context.Context, name string, statements ...string) error {
	return db.connected(ctx, name, func(conn *pgx.Conn) error {
		for _, sql := range statements {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	})
}

// used leaves the databases as ones that were used at their ease, with statistics of what
// they have. CockroachDB's schema sets those of Homeward's tables.
func (db *database) used(ctx context.Context) error {
	if db.Kind() == localdb.CockroachDB {
		return errors.Join(db.exec(ctx, bareDatabase, "ANALYZE bare_claims", "ANALYZE bare_outbox"), db.exec(ctx, nodesDatabase, "ANALYZE pins"))
	}
	return errors.Join(db.exec(ctx, bareDatabase, "VACUUM ANALYZE"), db.exec(ctx, nodesDatabase, "VACUUM ANALYZE", "CHECKPOINT"))
}

// stored counts the finished charges of a side, and fails if others are there.
func (db *database) stored(ctx context.Context, role string) (done int, err error) {
	name, sql := nodesDatabase, "SELECT count(*) FILTER (WHERE state = 2), count(*) FILTER (WHERE state <> 2) FROM claims"
	if role == "floor" {
		name, sql = bareDatabase, "SELECT count(*) FILTER (WHERE state = 2 AND body IS NOT NULL), count(*) FILTER (WHERE state <> 2) + (SELECT count(*) FROM bare_outbox) FROM bare_claims"
	}
	err = db.connected(ctx, name, func(conn *pgx.Conn) error {
		var others int
		err := conn.QueryRow(ctx, sql).Scan(&done, &others)
		if err == nil && others > 0 {
			err = fmt.Errorf("%d charges of the %s are not done", others, role)
		}
		return err
	})
	return done, err
}

// storage asks PostgreSQL what charges leave on disk, indexes included.
func (db *database) storage(ctx context.Context, c *model.Costs) error {
	return db.connected(ctx, nodesDatabase, func(conn *pgx.Conn) error {
		// What housekeeping would take away is no part of a charge.
		if _, err := conn.Exec(ctx, "VACUUM"); err != nil {
			return err
		}
		var charges, booked, total, audit, books float64
		err := conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM claims), (SELECT count(*) FROM ledger),
			(SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r')::float8,
			pg_total_relation_size('audit')::float8, pg_total_relation_size('ledger')::float8`).Scan(&charges, &booked, &total, &audit, &books)
		if err != nil || charges == 0 || booked == 0 {
			return errors.Join(err, fmt.Errorf("%.0f claims, %.0f transactions: nothing to measure", charges, booked))
		}
		c.Record, c.Audit, c.Books = (total-audit-books)/charges, audit/charges, books/booked
		return nil
	})
}

// autovacuum lets PostgreSQL vacuum by itself, or not.
func (db *database) autovacuum(ctx context.Context, on bool) error {
	return db.exec(ctx, "", fmt.Sprintf("ALTER SYSTEM SET autovacuum = %t", on), "SELECT pg_reload_conf()")
}

// reading is what processes have used since their start, with all their descendants.
type reading struct {
	cpu     time.Duration
	peak    float64 // MiB, of the largest of them: VmHWM
	db      time.Duration
	wal     float64 // bytes; PostgreSQL only
	commits float64 // transactions of Homeward's database; PostgreSQL only
}

// between is what was used from one time to another.
func between(ctx context.Context, watch func(context.Context) (reading, error), from, until time.Time) (r reading, err error) {
	if err := sleepUntil(ctx, from); err != nil {
		return r, err
	}
	before, err := watch(ctx)
	if err != nil {
		return r, err
	}
	if err := sleepUntil(ctx, until); err != nil {
		return r, err
	}
	r, err = watch(ctx)
	r.cpu, r.db, r.wal, r.commits = r.cpu-before.cpu, r.db-before.db, r.wal-before.wal, r.commits-before.commits
	return r, err
}

// watch reads sides and the database that they share, nil for none.
func watch(db *database, sides ...int) func(context.Context) (reading, error) {
	return func(ctx context.Context) (r reading, err error) {
		if db != nil && db.Kind() == localdb.PostgreSQL {
			err = db.connected(ctx, "", func(conn *pgx.Conn) error {
				return conn.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8,
					(SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1)::float8`, nodesDatabase).Scan(&r.wal, &r.commits)
			})
		}
		if err != nil {
			return r, err
		}
		all, err := processes()
		if err != nil {
			return r, err
		}
		if r.cpu = all.below(sides...); db != nil {
			if r.db = all.below(db.PIDs()...); r.db == 0 {
				return r, errors.New("the processes of the database have ended")
			}
		}
		for _, pid := range sides {
			p, err := procfs.NewProc(pid)
			if err != nil {
				return r, err
			}
			status, err := p.NewStatus()
			if err != nil {
				return r, err
			}
			r.peak = max(r.peak, float64(status.VmHWM)/(1<<20))
		}
		return r, nil
	}
}

// table is all processes by their number.
type table map[int]procfs.ProcStat

func processes() (table, error) {
	list, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	all := table{}
	for _, p := range list {
		if stat, err := p.Stat(); err == nil { // else it has ended
			all[p.PID] = stat
		}
	}
	return all, nil
}

// tick is the unit of /proc/PID/stat, the same on every Linux.
const tick = time.Second / 100

// below is the CPU of processes and all their descendants, with those that have ended, so
// that nothing is lost when a connection's process goes.
func (all table) below(roots ...int) (sum time.Duration) {
	for pid, stat := range all {
		for at := pid; at > 1; at = all[at].PPID {
			if slices.Contains(roots, at) {
				sum += time.Duration(stat.UTime+stat.STime+uint(stat.CUTime+stat.CSTime)) * tick
				break
			}
		}
	}
	return sum
}

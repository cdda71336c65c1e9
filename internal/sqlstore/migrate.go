package sqlstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/homeward-io/homeward/claim"
)

//go:embed migration
var migrationFiles embed.FS

// versionTable counts the migrations that ran, as goose keeps it.
const versionTable = "homeward_schema_version"

// On PostgreSQL a migrator that finds another at work looks every turnEvery seconds whether
// it has ended, turnTries times: five minutes, as goose has it by default, which looks every
// five seconds.
const turnEvery, turnTries = 1, 300

const (
	// lockTimeout is how long a step waits for its lock on PostgreSQL. Whoever wants the table
	// meanwhile waits behind it, so it is less than a node's statement_timeout.
	lockTimeout = time.Second
	// lockPause is the time until the step tries again: for most of it nobody waits.
	lockPause = 5 * time.Second
)

// SchemaVersion is the number of the newest migration that this build has, on each database.
func SchemaVersion() int { return len(fileNames(postgreSQL.migrations())) }

// migrations are the files of migration/ for the dialect, in goose's notation: each one is a
// version, and its name begins with the number.
func (d dialect) migrations() fs.FS {
	files, err := fs.Sub(migrationFiles, "migration/"+strings.ToLower(d.name))
	if err != nil {
		panic(err) // the path is valid, whatever there is
	}
	return files
}

// fileNames are those of migrations, in their order.
func fileNames(files fs.FS) []string {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	return names
}

// Survival is the failure that the database survives.
type Survival string

const (
	// SurviveZone: writes stay in the region; its rows are unavailable while it is
	// down. The default.
	SurviveZone Survival = "zone"
	// SurviveRegion: each write also waits for the nearest other region. It needs
	// three regions or more.
	SurviveRegion Survival = "region"
)

// Migration is the target of a migration. Zero values change nothing.
type Migration struct {
	// Regions are added if they do not exist. A region is never removed: its code is
	// part of keys that merchants hold. Code 0 takes the next free one.
	Regions []claim.Region
	// Primary is the region of tables that are not pinned to one; by default the first
	// of Regions. CockroachDB only.
	Primary string
	// Survive; by default [SurviveZone] for a new database. CockroachDB only.
	Survive Survival
}

// ParseRegions parses "us-east1,europe-west1=7": names, each with an optional code.
func ParseRegions(list string) ([]claim.Region, error) {
	var specs []claim.Region
	for part := range strings.SplitSeq(list, ",") {
		name, code, given := strings.Cut(strings.TrimSpace(part), "=")
		spec := claim.Region{Name: name}
		if given {
			n, err := strconv.ParseUint(code, 10, 16)
			if spec.Code = claim.RegionCode(n); err != nil || n == 0 {
				return nil, fmt.Errorf("regions: %q has the code %q; write a number from 1 to 65535", name, code)
			}
		}
		if name == "" || strings.ContainsAny(name, `"' `) {
			return nil, fmt.Errorf("regions: %q is not a name; write them as in us-east1,europe-west1", part)
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// Step is a part of a migration, with its purpose: a statement, or a file of them.
type Step struct {
	Name, SQL string
	// Blocked is who keeps the step from a lock, in one line, when it is reported once more
	// because it waits; "" otherwise.
	Blocked string
}

// Migrator changes one database's schema. It is not safe for concurrent use; any number
// of processes may each have one on the same database.
type Migrator struct {
	conn    *pgx.Conn
	dialect dialect
	version string
	files   fs.FS // of dialect.migrations
	step    Step  // that was reported last
	// searchPath is that of the URL; "" for none.
	searchPath string
}

// limitedWait sets for how long a session waits for a lock.
var limitedWait = fmt.Sprintf("SET lock_timeout = %d", lockTimeout.Milliseconds())

// migrateName is what a migrator's session calls itself.
const migrateName = "homeward migrate"

// OpenMigrator connects. allowUnverified is as in [Pool]. The caller must Close it.
func OpenMigrator(ctx context.Context, url string, allowUnverified bool) (*Migrator, error) {
	c, err := readURL(url, allowUnverified)
	if err != nil {
		return nil, err
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = migrateName
	}
	path := c.RuntimeParams["search_path"]
	// For the sessions that goose opens, too.
	params := newSession(c, 0, false).setParams()
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		settings := params
		if conn.ParameterStatus("crdb_version") == "" { // CockroachDB changes schemas beside writes
			settings += limitedWait
			if path != "" { // the functions' tables are found once pathSteps has run
				settings += "; SET check_function_bodies = off"
			}
		}
		_, err := conn.Exec(ctx, settings).ReadAll()
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, connectError(c, err)
	}
	m := &Migrator{conn: conn, searchPath: path}
	if err = keepsSessions(ctx, conn, turnEvery*turnTries*time.Second); err == nil {
		m.dialect, m.version, err = recognise(ctx, conn)
	}
	if err != nil {
		return nil, errors.Join(connectError(c, err), conn.Close(ctx))
	}
	m.files = m.dialect.migrations()
	return m, nil
}

// Close disconnects.
func (m *Migrator) Close(ctx context.Context) error { return m.conn.Close(ctx) }

// Version names the database, as in "PostgreSQL 15.18".
func (m *Migrator) Version() string { return m.version }

// Status is the state of a database's schema.
type Status struct {
	// Have and Want are schema versions: the database's and this build's.
	Have, Want int
	// Deployment is the id of [DB.DeploymentID]; zero before there is one.
	Deployment uuid.UUID
	Regions    []claim.Region
	// Primary and Survive are CockroachDB's; empty on PostgreSQL.
	Primary string
	Survive Survival
}

// Status reads the state of the schema.
func (m *Migrator) Status(ctx context.Context) (_ Status, err error) {
	defer func() { err = refusedMigration(m.conn.Config(), err) }()
	s := Status{Want: len(fileNames(m.files))}
	if s.Have, err = schemaVersion(ctx, m.conn); err != nil {
		return s, err
	}
	switch ok, err := tableExists(ctx, m.conn, "deployment"); {
	case err != nil:
		return s, err
	case ok:
		if err := m.conn.QueryRow(ctx, "SELECT id FROM deployment").Scan(&s.Deployment); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return s, err
		}
	}
	if ok, err := tableExists(ctx, m.conn, "regions"); err != nil || !ok {
		return s, err
	}
	if s.Regions, err = readRegions(ctx, m.conn, m.dialect); err != nil {
		return s, err
	}
	if m.dialect.cockroach {
		var place placement
		place, err = m.placement(ctx)
		s.Primary, s.Survive = place.primary, place.survive
	}
	return s, err
}

// HasTables reports whether the database has tables, of whichever schema and owner.
func (m *Migrator) HasTables(ctx context.Context) (has bool, err error) {
	err = m.conn.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
		WHERE c.relkind::text IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'crdb_internal', 'pg_extension', 'pg_toast'))`).Scan(&has)
	return has, refusedMigration(m.conn.Config(), err)
}

// Plan returns the statements that Up would run now.
func (m *Migrator) Plan(ctx context.Context, want Migration) (_ []Step, err error) {
	defer func() { err = refusedMigration(m.conn.Config(), err) }()
	place, err := m.placementSteps(ctx, want)
	if err != nil {
		return nil, err
	}
	schema, err := m.schemaSteps(ctx)
	if err != nil {
		return nil, err
	}
	tables, err := m.tableSteps(ctx)
	if err != nil {
		return nil, err
	}
	paths, err := m.pathSteps(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := m.regionSteps(ctx, want)
	if err != nil {
		return nil, err
	}
	return slices.Concat(place, schema, tables, paths, rows), nil
}

// Up runs the statements that Plan returns, and calls report before each step, and again
// each time that the step has to wait for a lock: it then lets those go first who wait
// behind it, until ctx ends. It may be stopped anywhere and run again, and several may run
// concurrently: every step may be done already.
func (m *Migrator) Up(ctx context.Context, want Migration, report func(Step)) (err error) {
	defer func() { err = refusedMigration(m.conn.Config(), err) }()
	report = m.reporting(report)
	// A region that was added to the database cannot be given another code: what is refused
	// is refused before that.
	if _, err := m.regionSteps(ctx, want); err != nil {
		return err
	}
	if err := m.place(ctx, want, report); err != nil {
		return err
	}
	if err := m.again(ctx, report, func() error { return m.tables(ctx, len(fileNames(m.files)), report) }); err != nil {
		return err
	}
	if err := m.run(ctx, report, m.pathSteps); err != nil {
		return err
	}
	return m.run(ctx, report, func(ctx context.Context) ([]Step, error) { return m.regionSteps(ctx, want) })
}

// run runs the steps of a part.
func (m *Migrator) run(ctx context.Context, report func(Step), part func(context.Context) ([]Step, error)) error {
	return m.again(ctx, report, func() error {
		steps, err := part(ctx)
		for _, s := range steps {
			report(s)
			if _, err := m.conn.Exec(ctx, s.SQL); err != nil {
				return stepError(s, err)
			}
		}
		return err
	})
}

// place assigns the database to its regions, and makes the schema.
func (m *Migrator) place(ctx context.Context, want Migration, report func(Step)) error {
	if err := m.run(ctx, report, func(ctx context.Context) ([]Step, error) { return m.placementSteps(ctx, want) }); err != nil {
		return err
	}
	return m.run(ctx, report, m.schemaSteps)
}

// schemaSteps makes the schema that the URL's search path begins with, if there is none of that
// name. Without a search path tables are made in the database's default one, which is there.
func (m *Migrator) schemaSteps(ctx context.Context) ([]Step, error) {
	first, _, _ := strings.Cut(m.searchPath, ",")
	name := strings.Trim(strings.TrimSpace(first), `"`)
	if name == "" || name == "$user" {
		return nil, nil
	}
	var has bool
	err := m.conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)", name).Scan(&has)
	if err != nil || has {
		return nil, err
	}
	return []Step{{Name: "schema " + name, SQL: "CREATE SCHEMA IF NOT EXISTS " + quote(name)}}, nil
}

// pathSteps has the functions that run with their owner's rights look for their tables in the schema
// in which they are, where that is another one than in migration/. CockroachDB has no such functions.
func (m *Migrator) pathSteps(ctx context.Context) (steps []Step, err error) {
	if m.dialect.cockroach {
		return nil, nil
	}
	rows, err := m.conn.Query(ctx, `
SELECT p.oid::regprocedure::text, current_schema()::text FROM pg_proc AS p
WHERE p.pronamespace = to_regnamespace(quote_ident(current_schema())) AND p.prosecdef AND p.proname = ANY ($1::text[])
  AND NOT coalesce(p.proconfig @> ARRAY['search_path=pg_catalog, ' || quote_ident(current_schema()) || ', pg_temp'], false)
ORDER BY 1`, routines)
	if err != nil {
		return nil, err
	}
	var name, schema string // with the types of its arguments: one of another schema may have other types
	_, err = pgx.ForEachRow(rows, []any{&name, &schema}, func() error {
		if schema != "public" { // as they are made, or as somebody has set them
			steps = append(steps, Step{Name: "search path of " + name, SQL: "ALTER FUNCTION " + name + " SET search_path = pg_catalog, " + quote(schema) + ", pg_temp"})
		}
		return nil
	})
	return steps, err
}

// reporting returns report, which may be nil, for steps that may run more than once.
func (m *Migrator) reporting(report func(Step)) func(Step) {
	return func(s Step) {
		if s == m.step {
			return // it runs again
		}
		if s.Blocked == "" {
			m.step = s
		}
		if report != nil {
			report(s)
		}
	}
}

// again retries f a few times if the database refuses it: of two concurrent migrations
// CockroachDB may refuse one, which then finds less to do. It has no lock for taking
// turns. Its advisory locks lock nothing, and a transaction that holds a row blocks
// schema changes for ever, since they wait for every user of a table of the database.
//
// A step that did not get its lock is retried for as long as ctx allows: report is called
// with who has it.
func (m *Migrator) again(ctx context.Context, report func(Step), f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if hasCode(err, codeLockNotAvailable) {
			waits := m.step
			waits.Blocked = m.blockers(ctx)
			report(waits)
			if !sleep(ctx, lockPause) {
				return err
			}
			try = 0
			continue
		}
		var refusal *pgconn.PgError
		if err == nil || !errors.As(err, &refusal) || refusal.Code == insufficientPrivilege || try == maxTries || !sleep(ctx, time.Duration(try)*lastPause) {
			return err
		}
	}
}

// blockers names, in one line, the transactions that have had a lock on a table of ours for as
// long as a step has waited for one. PostgreSQL shows a user without pg_read_all_stats neither
// how long nor from where.
func (m *Migrator) blockers(ctx context.Context) string {
	rows, err := m.conn.Query(ctx, `
SELECT DISTINCT CASE WHEN l.pid IS NULL THEN 'a prepared transaction, see pg_prepared_xacts'
    ELSE format('pid %s, %s of %s', l.pid, coalesce('"' || nullif(a.application_name, '') || '"', 'a session'), coalesce(a.usename::text, 'the server itself'))
        || coalesce(' from ' || host(a.client_addr), '') || coalesce(', for ' || date_trunc('second', clock_timestamp() - a.xact_start)::text, '')
    END
FROM pg_locks AS l
JOIN pg_class AS c ON c.oid = l.relation AND c.relnamespace = current_schema()::regnamespace
LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.pid IS DISTINCT FROM pg_backend_pid() AND coalesce(a.xact_start < clock_timestamp() - $1::interval, true)
ORDER BY 1 LIMIT 10`, lockTimeout)
	if err == nil {
		var names []string
		if names, err = pgx.CollectRows(rows, pgx.RowTo[string]); err == nil && len(names) > 0 {
			return strings.Join(names, "; ")
		}
	}
	if err != nil {
		return "a session that cannot be named: " + oneLine(err)
	}
	return "a session that has ended since"
}

func stepError(s Step, err error) error {
	return fmt.Errorf("migration %s: %w; fix the cause and run homeward migrate up again; completed steps are kept", s.Name, &lineError{err})
}

// tables runs the migrations that are missing, up to a version.
func (m *Migrator) tables(ctx context.Context, to int, report func(Step)) error {
	steps, err := m.numbered()
	for err == nil {
		var have int
		if have, err = m.next(ctx, steps[:to], report); have >= to {
			return err // never back: a newer build may have migrated already
		}
	}
	return err
}

// next runs the first of steps that the database lacks, if there is one, in a session of its own:
// what the file sets is for itself alone. It returns the version of before.
//
// goose runs a file in one transaction, or, if it says NO TRANSACTION, each statement in one: then
// a step that was done in part, or done and not yet counted, runs again.
func (m *Migrator) next(ctx context.Context, steps []Step, report func(Step)) (have int, err error) {
	db := stdlib.OpenDB(*m.conn.Config())
	defer func() { err = errors.Join(err, db.Close()) }()
	options := []goose.ProviderOption{
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true), goose.WithSlog(slog.New(slog.DiscardHandler)),
	}
	if !m.dialect.cockroach {
		turns, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(turnEvery, turnTries))
		if err != nil {
			return 0, fmt.Errorf("migration: %w", err)
		}
		options = append(options, goose.WithSessionLocker(turns))
	}
	g, err := goose.NewProvider(goose.DialectPostgres, db, m.files, options...)
	if err != nil {
		return 0, fmt.Errorf("migration: %w", err)
	}
	version, err := g.GetDBVersion(ctx)
	// On CockroachDB, which has no advisory locks, another migrator's new table of
	// versions is visible before its first row.
	for tries := 1; err != nil && tries < maxTries && strings.Contains(err.Error(), "missing zero version") && sleep(ctx, time.Second); tries++ {
		version, err = g.GetDBVersion(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("migration: the schema version cannot be read: %w", &lineError{err})
	}
	have = int(version)
	if have >= len(steps) {
		return have, nil
	}
	report(steps[have])
	if _, err := g.UpTo(ctx, version+1); err != nil {
		return have, stepError(steps[have], err)
	}
	return have, nil
}

// numbered returns the migrations in their order.
func (m *Migrator) numbered() ([]Step, error) {
	var steps []Step
	for _, name := range fileNames(m.files) {
		text, err := fs.ReadFile(m.files, name)
		if err != nil {
			return nil, fmt.Errorf("migration: %w", err)
		}
		steps = append(steps, Step{Name: strings.TrimSuffix(name, ".sql"), SQL: strings.TrimSpace(string(text))})
	}
	return steps, nil
}

// tableSteps returns the migrations that have not run.
func (m *Migrator) tableSteps(ctx context.Context) ([]Step, error) {
	have, err := schemaVersion(ctx, m.conn)
	if err != nil {
		return nil, err
	}
	steps, err := m.numbered()
	if err != nil {
		return nil, err
	}
	return steps[min(have, len(steps)):], nil
}

// regions returns the database's; none before the table exists.
func (m *Migrator) regions(ctx context.Context) ([]claim.Region, error) {
	if ok, err := tableExists(ctx, m.conn, "regions"); err != nil || !ok {
		return nil, err
	}
	return readRegions(ctx, m.conn, m.dialect)
}

// regionSteps adds the rows of missing regions, with codes that were never used.
func (m *Migrator) regionSteps(ctx context.Context, want Migration) ([]Step, error) {
	have, err := m.regions(ctx)
	if err != nil {
		return nil, err
	}
	if len(have)+len(want.Regions) == 0 {
		return nil, errors.New("migration: the database has no region yet; name them with --regions, as in --regions us-east1,europe-west1")
	}
	byName, byCode := map[string]claim.RegionCode{}, map[claim.RegionCode]string{}
	next := claim.RegionCode(1)
	for _, r := range have {
		byName[r.Name], byCode[r.Code] = r.Code, r.Name
		next = max(next, r.Code+1)
	}
	for _, r := range want.Regions {
		next = max(next, r.Code+1)
	}
	var steps []Step
	for _, r := range want.Regions {
		if code, ok := byName[r.Name]; ok {
			if r.Code != 0 && r.Code != code {
				return nil, fmt.Errorf("migration: region %s has the code %d permanently and cannot get %d", r.Name, code, r.Code)
			}
			continue
		}
		if r.Code == 0 {
			r.Code = next
			next++
		}
		if other, ok := byCode[r.Code]; ok {
			return nil, fmt.Errorf("migration: the code %d belongs to region %s permanently; give %s another one", r.Code, other, r.Name)
		}
		byName[r.Name], byCode[r.Code] = r.Code, r.Name
		steps = append(steps, Step{Name: "region " + r.Name, SQL: fmt.Sprintf(
			"INSERT INTO regions (name, code, status, epoch)\nSELECT %s, %d, 0, coalesce(max(epoch), 0) + 1 FROM regions\nON CONFLICT (name) DO NOTHING", literal(r.Name), r.Code)})
	}
	if len(steps) > 0 && !m.dialect.cockroach {
		// Autovacuum never looks at a table of so few rows. PostgreSQL would expect a thousand
		// regions, and have each look-up that joins them read all claims and pins once.
		steps = append(steps, Step{Name: "statistics of the regions", SQL: "ANALYZE regions"})
	}
	return steps, nil
}

// placement is the configuration of regions of a CockroachDB database.
type placement struct {
	regions []string
	primary string
	survive Survival
}

func (m *Migrator) placement(ctx context.Context) (placement, error) {
	var p placement
	rows, err := m.conn.Query(ctx, `SELECT region, "primary" FROM [SHOW REGIONS FROM DATABASE] ORDER BY region`)
	if err != nil {
		return p, regionsError(err)
	}
	var region string
	var primary bool
	if _, err := pgx.ForEachRow(rows, []any{&region, &primary}, func() error {
		p.regions = append(p.regions, region)
		if primary {
			p.primary = region
		}
		return nil
	}); err != nil {
		return p, regionsError(err)
	}
	if p.primary == "" {
		return p, nil
	}
	var goal string
	if err := m.conn.QueryRow(ctx, "SELECT survival_goal FROM [SHOW SURVIVAL GOAL FROM DATABASE]").Scan(&goal); err != nil {
		return p, regionsError(err)
	}
	p.survive = Survival(goal)
	return p, nil
}

func regionsError(err error) error {
	return fmt.Errorf("migration: the database's regions cannot be read: %s", oneLine(err))
}

// placementSteps configures the regions of CockroachDB. PostgreSQL has one.
func (m *Migrator) placementSteps(ctx context.Context, want Migration) ([]Step, error) {
	switch want.Survive {
	case "", SurviveZone, SurviveRegion:
	default:
		return nil, fmt.Errorf("migration: --survive %q is neither zone nor region", want.Survive)
	}
	if !m.dialect.cockroach {
		if want.Survive == SurviveRegion {
			return nil, errors.New("migration: PostgreSQL cannot survive a region; leave --survive out, or use CockroachDB")
		}
		return nil, m.primaryMistake(ctx, want)
	}
	have, err := m.placement(ctx)
	if err != nil {
		return nil, err
	}
	primary := want.Primary
	switch {
	case primary == "" && have.primary != "":
		primary = have.primary
	case primary == "" && len(want.Regions) > 0:
		primary = want.Regions[0].Name
	case len(have.regions)+len(want.Regions) == 0:
		return nil, errors.New("migration: the database has no region yet; name them with --regions, as in --regions us-east1,europe-west1")
	}
	database := pgx.Identifier{m.conn.Config().Database}.Sanitize()
	alter := func(what, rest string) Step { return Step{Name: what, SQL: "ALTER DATABASE " + database + " " + rest} }
	all := slices.Clone(have.regions)
	for _, r := range want.Regions {
		if !slices.Contains(all, r.Name) {
			all = append(all, r.Name)
		}
	}
	if !slices.Contains(all, primary) {
		return nil, fmt.Errorf("migration: --primary %s is not one of the regions %s", primary, strings.Join(all, ", "))
	}
	var steps []Step
	if have.primary == "" {
		steps = append(steps, alter("primary region "+primary, "SET PRIMARY REGION "+quote(primary)))
	}
	for _, name := range all {
		if !slices.Contains(have.regions, name) && (have.primary != "" || name != primary) {
			steps = append(steps, alter("add region "+name, "ADD REGION IF NOT EXISTS "+quote(name)))
		}
	}
	if have.primary != "" && have.primary != primary {
		steps = append(steps, alter("primary region "+primary, "SET PRIMARY REGION "+quote(primary)))
	}
	if want.Survive == SurviveRegion && len(all) < 3 {
		return nil, fmt.Errorf("migration: --survive region needs three regions or more, there are %d", len(all))
	}
	if want.Survive != "" && want.Survive != have.survive && (have.survive != "" || want.Survive != SurviveZone) {
		steps = append(steps, alter("survive "+string(want.Survive), "SURVIVE "+strings.ToUpper(string(want.Survive))+" FAILURE"))
	}
	return steps, nil
}

// primaryMistake refuses a primary that is not a region, if it has no other use.
func (m *Migrator) primaryMistake(ctx context.Context, want Migration) error {
	if want.Primary == "" {
		return nil
	}
	have, err := m.regions(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, r := range have {
		names = append(names, r.Name)
	}
	for _, r := range want.Regions {
		names = append(names, r.Name)
	}
	if !slices.Contains(names, want.Primary) {
		return fmt.Errorf("migration: --primary %s is not one of the regions %s", want.Primary, strings.Join(names, ", "))
	}
	return nil
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func tableExists(ctx context.Context, conn *pgx.Conn, table string) (ok bool, err error) {
	err = conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", table).Scan(&ok)
	return ok, err
}

// schemaVersion is the database's, 0 for an empty one.
func schemaVersion(ctx context.Context, conn *pgx.Conn) (int, error) {
	ok, err := tableExists(ctx, conn, versionTable)
	if err != nil || !ok {
		return 0, err
	}
	var v int64
	err = conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM "+versionTable+" WHERE is_applied").Scan(&v)
	return int(v), err
}

package homeward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/outbox"
)

// Store says where claims are kept: the result of [Postgres], [Cockroach] or [Embedded].
type Store struct {
	open        func(context.Context, opening) (*rows, error)
	migrate     func(ctx context.Context, regions []string) error
	clockOffset time.Duration
}

// opening is what a store is opened with.
type opening struct {
	policy claim.Policy
	pool   func(*sqlstore.Pool) // nil: as it is
	log    *slog.Logger
	meters *meter.Set
}

// rows are an open store, as the processes of one region use it.
type rows struct {
	region  string
	store   claim.Store
	queues  outbox.Queues
	regions func(context.Context) ([]claim.Region, error)
	// admit makes a tenant that is not there.
	admit func(context.Context, claim.Tenant) error
	sweep func(ctx context.Context, limit int) (removed int, err error)
	close func() error
	// sql is the store as [Homeward.DoTx] uses it; nil for an embedded one.
	sql *sqlstore.View
}

// here is the region of a store that has one. Its code is 1.
const here = "here"

// schema is that of our tables.
const schema = "homeward"

// Postgres keeps claims in a database of PostgreSQL 15 or newer: any number of processes share it.
// The tables are in the schema "homeward", unless url has a search_path. How url verifies the server
// is the caller's decision (sslmode=verify-full is the one that does).
func Postgres(url string) Store {
	url = within(url, schema)
	return Store{
		open: func(ctx context.Context, o opening) (*rows, error) { return openSQL(ctx, url, "", o) },
		migrate: func(ctx context.Context, regions []string) error {
			return migrateSQL(ctx, url, regions, here)
		},
	}
}

// maxOffset is CockroachDB's default for --max-offset.
const maxOffset = 500 * time.Millisecond

// Cockroach keeps claims in a database of CockroachDB. region is where this process runs, and one of
// those of [Migrate]. A key is at home in the region of its first call. A process of another region
// that gets a retry acts on the same row, over the distance between the two.
func Cockroach(url, region string) Store {
	url = within(url, schema+",public") // which has the type of regions
	return Store{
		clockOffset: maxOffset,
		open: func(ctx context.Context, o opening) (*rows, error) {
			if region == "" {
				return nil, errors.New("no region is named; pass the one in which this process runs to Cockroach")
			}
			return openSQL(ctx, url, region, o)
		},
		migrate: func(ctx context.Context, regions []string) error {
			return migrateSQL(ctx, url, regions, region)
		},
	}
}

// Embedded keeps claims in a directory of this process alone, which is made if it is not there. It is
// durable. A second process that opens it fails.
func Embedded(dir string) Store {
	return Store{open: func(_ context.Context, o opening) (*rows, error) {
		all := []claim.Region{{Name: here, Code: 1}}
		db, err := embedded.Open(embedded.Config{Dir: dir, Regions: all, Policy: o.policy, Meters: o.meters, Logger: o.log})
		if err != nil {
			return nil, err
		}
		view, err := db.Region(here)
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
		return &rows{
			region: here, store: view, queues: view, sweep: db.Sweep, close: db.Close,
			regions: func(context.Context) ([]claim.Region, error) { return all, nil },
			admit:   func(ctx context.Context, t claim.Tenant) error { return db.PutTenant(ctx, t) },
		}, nil
	}}
}

// within adds a search path to url, unless it has one.
func within(url, path string) string {
	path = strings.ReplaceAll(path, ",", "%2C")
	switch {
	case url == "", strings.Contains(url, "search_path"):
		return url
	case !strings.Contains(url, "://"): // keywords and values
		return url + " search_path=" + strings.ReplaceAll(path, "%2C", ",")
	case strings.Contains(url, "?"):
		return url + "&search_path=" + path
	default:
		return url + "?search_path=" + path
	}
}

// openSQL opens the database as the processes of region use it; "": of its only one.
func openSQL(ctx context.Context, url, region string, o opening) (*rows, error) {
	pool := sqlstore.DefaultPool()
	pool.MaxConns, pool.AllowUnverified = 8, true // beside the program's own
	if o.pool != nil {
		o.pool(&pool)
	}
	db, err := sqlstore.Open(ctx, sqlstore.Config{URL: url, Policy: o.policy, Pool: pool, Trace: true, Meters: o.meters, Logger: o.log})
	if err != nil {
		return nil, ofProgram(err)
	}
	view, err := viewOf(ctx, db, region)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &rows{
		region: view.Name(), store: view, queues: view, sweep: view.Sweep, close: db.Close, sql: view,
		regions: func(ctx context.Context) ([]claim.Region, error) {
			all, _, err := db.Regions(ctx)
			return all, err
		},
		admit: func(ctx context.Context, t claim.Tenant) error { return db.PutTenant(ctx, t) },
	}, nil
}

func viewOf(ctx context.Context, db *sqlstore.DB, region string) (*sqlstore.View, error) {
	all, _, err := db.Regions(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(all))
	for i, r := range all {
		names[i] = r.Name
	}
	switch {
	case region == "" && len(all) == 1:
		region = names[0]
	case region == "":
		return nil, fmt.Errorf("the database has the regions %s, and a program on PostgreSQL has one; let it have a database, or a search_path, of its own", strings.Join(names, ", "))
	case !slices.Contains(names, region):
		return nil, fmt.Errorf("the database has no region %q, but %s; add it with homeward.Migrate", region, strings.Join(names, ", "))
	}
	return db.Region(region)
}

// migrateSQL adds the regions of those names, or, to a database without any, the one called first.
func migrateSQL(ctx context.Context, url string, names []string, first string) error {
	m, err := sqlstore.OpenMigrator(ctx, url, true)
	if err != nil {
		return ofProgram(err)
	}
	defer func() { _ = m.Close(context.WithoutCancel(ctx)) }()
	if len(names) == 0 {
		have, err := m.Status(ctx)
		if err != nil {
			return ofProgram(err)
		}
		if len(have.Regions) == 0 {
			names = []string{first}
		}
	}
	want := sqlstore.Migration{}
	for _, name := range names {
		want.Regions = append(want.Regions, claim.Region{Name: name})
	}
	return ofProgram(m.Up(ctx, want, nil))
}

// programError is an error of the store in the words of this package: the store speaks of settings and
// commands of a node.
type programError struct{ err error }

var words = strings.NewReplacer(
	"run homeward migrate up --regions NAME,…", "call homeward.Migrate",
	"run homeward migrate up again", "call homeward.Migrate again",
	"run homeward migrate up", "call homeward.Migrate",
	"homeward migrate must run", "homeward.Migrate must run",
	"HOMEWARD_DATABASE_URL=", "", "HOMEWARD_DATABASE_URL", "the URL",
)

func ofProgram(err error) error {
	if err == nil {
		return nil
	}
	return &programError{err}
}

func (e *programError) Error() string { return words.Replace(e.err.Error()) }
func (e *programError) Unwrap() error { return e.err }

// noBlobs keeps no bodies: a reply that is too long for its row never gets as far.
type noBlobs struct{}

var errBlobs = errors.New("homeward: a reply is too long to be kept")

func (noBlobs) Put(context.Context, []byte) (string, error) { return "", errBlobs }
func (noBlobs) Get(context.Context, string) ([]byte, error) { return nil, errBlobs }

package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/documents"
	"github.com/homeward-io/homeward/outbox"
)

var (
	_ claim.Store   = (*View)(nil)
	_ outbox.Queues = (*View)(nil)
	_ audit.Store   = (*View)(nil)
)

// View is the database as the nodes of one region use it. It is safe for
// concurrent use.
type View struct {
	documents.Contracts
	db   *DB
	name string
}

// Region returns the view of a region, which must be in the topology.
func (db *DB) Region(name string) (*View, error) {
	if _, ok := (*db.regions.Load())[name]; !ok {
		return nil, fmt.Errorf("database: there is no region %q; add it with homeward migrate up --regions", name)
	}
	return &View{Contracts: db.Contracts, db: db, name: name}, nil
}

// Name is the view's region.
func (v *View) Name() string { return v.name }

// reach returns the ctx in which to act on rows of home. It fails if the topology has
// no such region, even after a reload.
func (v *View) reach(ctx context.Context, home string) (context.Context, error) {
	if _, ok := (*v.db.regions.Load())[home]; !ok {
		if _, _, err := v.db.Regions(ctx); err != nil {
			return ctx, err
		}
		if _, ok := (*v.db.regions.Load())[home]; !ok {
			return ctx, fmt.Errorf("%w: there is no region %q", claim.ErrHomeUnreachable, home)
		}
	}
	return v.toward(ctx, home), nil
}

// toward marks ctx if home is another region: its statements have a longer way, and if
// that region is lost each keeps a connection until it times out. So [DB.do] gives them
// more time, and a connection only to some of them at once.
func (v *View) toward(ctx context.Context, home string) context.Context {
	if home == v.name {
		return ctx
	}
	return away(ctx, home)
}

var topology = declare[none]("regions")

// Regions implements [claim.Regions]; the rows are in the order of their names.
func (db *DB) Regions(ctx context.Context) (regions []claim.Region, epoch uint64, err error) {
	_, err = db.do(ctx, topology.name, repeatable, none{}, func(rows pgx.Rows) error {
		regions, epoch, err = collectRegions(rows)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	db.keepRegions(regions)
	return regions, epoch, nil
}

// collectRegions reads the table of regions, whose version is that of its latest row.
func collectRegions(rows pgx.Rows) (regions []claim.Region, newest uint64, err error) {
	var r claim.Region
	var code, status int32
	var epoch int64
	_, err = pgx.ForEachRow(rows, []any{&r.Name, &code, &status, &epoch}, func() error {
		r.Code, r.Status = claim.RegionCode(code), claim.RegionStatus(status)
		regions, newest = append(regions, r), max(newest, uint64(epoch))
		return nil
	})
	return regions, newest, err
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func readRegions(ctx context.Context, q querier, d dialect) ([]claim.Region, error) {
	sql, _ := topology.in(d, none{})
	rows, err := q.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	regions, _, err := collectRegions(rows)
	return regions, err
}

func (db *DB) keepRegions(regions []claim.Region) {
	codes := make(map[string]claim.RegionCode, len(regions))
	for _, r := range regions {
		codes[r.Name] = r.Code
	}
	db.regions.Store(&codes)
}

// newStep identifies one write. Random and not ordered, as it is never indexed.
func newStep() uuid.UUID { return uuid.New() }

// newEntry identifies one audit entry; the ids of one process are in order.
func newEntry() uuid.UUID {
	id, err := uuid.NewV7()
	if err != nil {
		panic(err) // crypto/rand does not fail: it ends the process
	}
	return id
}

func micros(t time.Time) time.Time { return t.Truncate(time.Microsecond) }

// Regions is [DB.Regions].
func (v *View) Regions(ctx context.Context) ([]claim.Region, uint64, error) { return v.db.Regions(ctx) }

// SetRegionStatus is [DB.SetRegionStatus].
func (v *View) SetRegionStatus(ctx context.Context, name string, status claim.RegionStatus) (epoch uint64, err error) {
	return v.db.SetRegionStatus(ctx, name, status)
}

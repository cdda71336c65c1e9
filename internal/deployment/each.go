package deployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// each is one database that every region of a process reaches in a way of its own, as
// its nodes would from processes of their own. Shared access uses the first region's.
type each struct {
	ofSQL
	dbs map[string]*sqlstore.DB
}

// OpenEach opens the database of a deployment once for each region, with the connection
// string of urls and the meters of the region, if those are not nil; c's other settings
// apply to all.
func OpenEach(ctx context.Context, c sqlstore.Config, urls map[string]string, meters func(region string) (*meter.Set, error)) (_ Deployment, err error) {
	d := each{dbs: map[string]*sqlstore.DB{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	for _, region := range slices.Sorted(maps.Keys(urls)) {
		c.URL = urls[region]
		if meters != nil {
			if c.Meters, err = meters(region); err != nil {
				return nil, err
			}
		}
		db, err := sqlstore.Open(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("region %s: %w", region, err)
		}
		if d.dbs[region] = db; d.DB == nil {
			d.DB = db
		}
	}
	return d, nil
}

// regions are those that are open, by name.
func (d each) regions() []string { return slices.Sorted(maps.Keys(d.dbs)) }

func (d each) view(region string) (*sqlstore.View, error) {
	db, ok := d.dbs[region]
	if !ok {
		return nil, fmt.Errorf("deployment: there is no region %q; name one of %q", region, d.regions())
	}
	return db.Region(region)
}

func (d each) Region(name string) (Store, error) { return d.view(name) }

func (d each) Sweep(ctx context.Context, limit int) (removed int, err error) {
	return sweep(ctx, limit, d.regions(), d.view)
}

func (d each) Close() error {
	var errs []error
	for _, db := range d.dbs {
		errs = append(errs, db.Close())
	}
	return errors.Join(errs...)
}

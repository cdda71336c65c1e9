package lab

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// startDatabase starts a private database unless one was given.
func (k *Cluster) startDatabase(ctx context.Context) (_ parts.Stop, err error) {
	if k.c.Database != "" {
		k.sayf("database: the one that %s names", node.DatabaseURL)
		return nil, nil
	}
	k.sayf("starting a private database; CockroachDB takes about half a minute, PostgreSQL a few seconds")
	config := localdb.Config{
		Kind: k.c.Start, Regions: k.regions, Logger: k.c.Logger,
		// Room for HOMEWARD_DATABASE__MAX_CONNS, too.
		MaxConnections: max(200, 4*clusterConns*len(k.Nodes)),
	}
	if !k.Temporary {
		config.Dir, config.Durable = filepath.Join(k.Data, "database"), true
		k.Database.Durable = true
	}
	if k.server, err = localdb.Start(ctx, config); err != nil {
		return nil, err
	}
	return k.server.Stop, nil
}

// makeDatabase makes the database in a server that was started, and finds out where each
// region's nodes reach it.
func (k *Cluster) makeDatabase(ctx context.Context) (parts.Stop, error) {
	k.urls = map[string]string{}
	for _, r := range k.regions {
		if k.urls[r] = k.c.Database; k.server != nil {
			k.urls[r] = k.server.URL(r, databaseName)
		}
	}
	if k.server == nil {
		return nil, nil
	}
	k.Database.Private = true
	var exists interface{ SQLState() string }
	if err := k.server.CreateDatabase(ctx, databaseName, ""); err != nil && (!errors.As(err, &exists) || exists.SQLState() != duplicateDatabase) {
		return nil, err
	}
	return nil, nil
}

// duplicateDatabase: an earlier cluster has made it in the same directory.
const duplicateDatabase = "42P04"

func (k *Cluster) migrate(ctx context.Context) (parts.Stop, error) {
	return nil, node.WithMigrator(ctx, k.urls[k.regions[0]], func(m *sqlstore.Migrator) error {
		k.Database.Version, k.Database.Kind = m.Version(), localdb.PostgreSQL
		if strings.HasPrefix(m.Version(), "CockroachDB") {
			k.Database.Kind = localdb.CockroachDB
		}
		var want sqlstore.Migration
		for _, r := range k.regions {
			want.Regions = append(want.Regions, claim.Region{Name: r})
		}
		if err := k.refuseDatabase(ctx, m); err != nil {
			return err
		}
		steps := 0
		if err := m.Up(ctx, want, func(s sqlstore.Step) {
			if steps++; steps == 1 {
				k.sayf("%s: making the tables", m.Version())
			}
		}); err != nil {
			return err
		}
		s, err := m.Status(ctx)
		if err != nil {
			return err
		}
		k.Codes = map[string]claim.RegionCode{}
		for _, r := range s.Regions {
			k.Codes[r.Name] = r.Code
		}
		if slices.Contains(k.made.Deployments, s.Deployment) {
			return nil
		}
		k.made.Deployments = append(k.made.Deployments, s.Deployment)
		return k.made.write(k.Data)
	})
}

// placeLeases lets each region lead its own rows before a drill takes one away.
func (k *Cluster) placeLeases(ctx context.Context) (parts.Stop, error) {
	if k.server == nil || k.Database.Kind != localdb.CockroachDB {
		return nil, nil
	}
	k.sayf("%s: moving the leases of each region's rows there", k.Database.Version)
	return nil, k.server.PlaceLeases(ctx, databaseName)
}

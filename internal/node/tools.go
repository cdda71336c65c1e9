package node

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// ConnectTime bounds a tool's first connection: a host that drops packets would
// otherwise block it for minutes.
const ConnectTime = 15 * time.Second

// ToolPool is for one user at a time. Rows of tenants are consistent in every region,
// which makes writing one take up to a second.
func ToolPool() sqlstore.Pool {
	p := sqlstore.DefaultPool()
	p.MaxConns, p.MinConns = 2, 0
	p.StatementTimeout, p.CallTimeout, p.ConnectTimeout = 10*time.Second, 15*time.Second, ConnectTime
	return p
}

// WithDatabase opens a database for a tool while do runs.
func WithDatabase(ctx context.Context, url string, do func(*sqlstore.DB) error) error {
	pool := ToolPool()
	var err error
	if pool.AllowUnverified, err = AllowUnverified(os.Environ()); err != nil {
		return err
	}
	return WithPool(ctx, url, pool, do)
}

// WithPool is [WithDatabase] with a pool of the tool's own.
func WithPool(ctx context.Context, url string, pool sqlstore.Pool, do func(*sqlstore.DB) error) error {
	opening, cancel := context.WithTimeout(ctx, ConnectTime)
	defer cancel()
	db, err := sqlstore.Open(opening, sqlstore.Config{URL: url, Policy: claim.DefaultPolicy(), Tool: true, Pool: pool})
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

// WithMigrator connects to a database to change its tables while do runs.
func WithMigrator(ctx context.Context, url string, do func(*sqlstore.Migrator) error) error {
	allowUnverified, err := AllowUnverified(os.Environ())
	if err != nil {
		return err
	}
	opening, cancel := context.WithTimeout(ctx, ConnectTime)
	defer cancel()
	m, err := sqlstore.OpenMigrator(opening, url, allowUnverified)
	if err != nil {
		return err
	}
	return errors.Join(do(m), m.Close(context.WithoutCancel(ctx)))
}

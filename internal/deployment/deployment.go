// Package deployment is the store of a deployment: the embedded one, which holds the rows of every
// region; a database; or the store of a stopped demo. It provides every store interface of the
// packages above, so that nodes and commands need not distinguish them.
//
// It imports both stores and the packages whose interfaces they implement, the public
// API for what that needs to know of tenants, and none of their users.
package deployment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/recon"
)

// Store has every interface that the nodes of one region need of it. It is safe for
// concurrent use.
type Store interface {
	audit.Store
	claim.Store
	claim.Regions
	claim.Restores
	outbox.Queues
	ledger.Store
	notice.Store
	notice.Bodies
	account.Store
	account.Work
	recon.Claims
	httpapi.Tenants
	// TenantInMemory is TenantByAPIKey without a wait; known is false if the store has to look.
	TenantInMemory(key claim.APIKeyHash) (t claim.Tenant, found, known bool)
	// DeploymentID is that of [Deployment].
	DeploymentID(ctx context.Context) (uuid.UUID, error)
	// InFlight counts the claims at home in a region without an outcome, except parked
	// ones. It is for operators, and reads row by row.
	InFlight(ctx context.Context, home string) (int, error)
	// Unknown lists up to limit claims at home in a region that an attempt has left
	// with an unknown outcome, oldest first, without parked ones and without responses:
	// those of live tenants, or of test tenants. It is for operators: if both have more
	// than 20,000 open provider calls, it looks at those that are due first.
	Unknown(ctx context.Context, home string, live bool, limit int) ([]claim.Record, error)
}

// Deployment is what all regions share, and gives access to the rows of each. It is
// safe for concurrent use.
type Deployment interface {
	claim.Regions
	claim.Restores
	relay.Endpoints
	relay.Secrets
	notice.BrakeStore
	account.Store
	// Region returns the store as the nodes of a region use it.
	Region(name string) (Store, error)
	// Tenant reads a tenant; [claim.ErrUnknownTenant] if there is none of that id.
	Tenant(ctx context.Context, id string) (claim.Tenant, error)
	// Tenants lists up to limit tenants with ID > after, by id.
	Tenants(ctx context.Context, after string, limit int) ([]claim.Tenant, error)
	// APIKeys lists the API keys of a tenant, also those that have ended; none for a tenant
	// that does not exist. It is for operators: it may read the keys of all tenants.
	APIKeys(ctx context.Context, tenant string) ([]claim.StoredAPIKey, error)
	// PutTenant writes a tenant and its API keys; it changes one that exists.
	PutTenant(ctx context.Context, t claim.Tenant, apiKeys ...string) error
	// Sweep deletes up to limit rows of each sort that are past their windows.
	Sweep(ctx context.Context, limit int) (removed int, err error)
	// Sessions returns, in a line each, the sessions that other processes have open on
	// the rows: nodes among them. It is for restores, before which no node may run.
	Sessions(ctx context.Context) ([]string, error)
	// Windows returns the longest that nodes have kept keys for: ReplayFor,
	// TombstoneFor and PinGrace of the policy are set.
	Windows(ctx context.Context) (claim.Policy, error)
	// DeploymentID returns the random id of the rows, which no other deployment has.
	DeploymentID(ctx context.Context) (uuid.UUID, error)
	Close() error
}

// Embedded is the deployment on an embedded store.
func Embedded(db *embedded.DB) Deployment { return ofEmbedded{db} }

type ofEmbedded struct{ *embedded.DB }

func (d ofEmbedded) Region(name string) (Store, error) { return d.DB.Region(name) }

// Sessions returns none: a store that is open in one process cannot be opened by
// another.
func (ofEmbedded) Sessions(context.Context) ([]string, error) { return nil, nil }

// Windows returns those that the store was opened with: it refuses shorter ones than it
// has had.
func (d ofEmbedded) Windows(context.Context) (claim.Policy, error) { return d.DB.Policy(), nil }

func (d ofEmbedded) Tenants(ctx context.Context, after string, limit int) ([]claim.Tenant, error) {
	all, err := d.DB.Tenants(ctx)
	from := slices.IndexFunc(all, func(t claim.Tenant) bool { return t.ID > after })
	if err != nil || from < 0 {
		return nil, err
	}
	return all[from:min(len(all), from+limit)], nil
}

// ErrNoStore: a directory holds no store.
var ErrNoStore = errors.New("holds no store")

// OpenStopped opens the embedded store of a stopped process in c.Dir, for an operator's
// tools. It creates none, but returns [ErrNoStore], and fails while the store is in
// use. The caller must close it.
func OpenStopped(c embedded.Config) (Deployment, error) {
	switch info, err := os.Stat(c.Dir); {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.IsDir():
		return nil, fmt.Errorf("%s %w", c.Dir, ErrNoStore)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", filepath.Dir(c.Dir), err)
	}
	db, err := embedded.Open(c)
	if err != nil {
		return nil, err
	}
	return Embedded(db), nil
}

// SQL is the deployment on a database.
func SQL(db *sqlstore.DB) Deployment { return ofSQL{db} }

type ofSQL struct{ *sqlstore.DB }

func (d ofSQL) Region(name string) (Store, error) { return d.DB.Region(name) }

func (d ofSQL) Sweep(ctx context.Context, limit int) (removed int, err error) {
	regions, _, err := d.Regions(ctx)
	if err != nil {
		return 0, err
	}
	names := make([]string, len(regions))
	for i, r := range regions {
		names[i] = r.Name
	}
	return sweep(ctx, limit, names, d.DB.Region)
}

// sweep sweeps what each region keeps, which has pins of its own.
func sweep(ctx context.Context, limit int, regions []string, of func(region string) (*sqlstore.View, error)) (removed int, err error) {
	for _, r := range regions {
		v, err := of(r)
		if err != nil {
			return removed, err
		}
		n, err := v.Sweep(ctx, limit)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// Package deployment is the store of a deployment, whichever it is: the embedded one, which
// holds the rows of every region; a database; or what a demo that is stopped has left. It
// hands out every contract that the rooms above have of a store, so that those who act on
// one, nodes and commands alike, need not know which.
//
// It imports both stores and the rooms whose contracts they keep, of the public API what
// that asks of tenants, and nothing of what is assembled from them.
package deployment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/cockroach"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/recon"
)

// Store is every contract that the nodes of one region keep their truth in. It is safe
// for concurrent use.
type Store interface {
	audit.Store
	claim.Store
	claim.Regions
	claim.Restores
	outbox.Queues
	outbox.Looker
	ledger.Store
	notice.Store
	notice.Bodies
	account.Store
	account.Work
	recon.Claims
	httpapi.Tenants
	// InFlight counts the claims at home in a region whose outcome is to come, without
	// those that are parked for a person. It is for operators, and reads row by row.
	InFlight(ctx context.Context, home string) (int, error)
	// Unknown lists up to limit claims at home in a region that an attempt has left with
	// its outcome unknown, oldest first, without those that are parked for a person and
	// without what they answer. It is for operators: of more than 5,000 open provider calls
	// it looks at those that are due first.
	Unknown(ctx context.Context, home string, limit int) ([]claim.Record, error)
}

// Deployment is what all regions share, and the way to the rows of each. It is safe for
// concurrent use.
type Deployment interface {
	claim.Regions
	claim.Restores
	relay.Endpoints
	relay.Secrets
	notice.BrakeStore
	account.Store
	// Region is the store as the nodes of a region use it.
	Region(name string) (Store, error)
	// Tenant reads a tenant; [claim.ErrUnknownTenant] where there is none of that id.
	Tenant(ctx context.Context, id string) (claim.Tenant, error)
	// Tenants lists up to limit tenants with ID > after, by id.
	Tenants(ctx context.Context, after string, limit int) ([]claim.Tenant, error)
	// APIKeys lists the API keys of a tenant, also those that have ended; none for a tenant
	// that does not exist. It is for operators: it may read the keys of all tenants.
	APIKeys(ctx context.Context, tenant string) ([]claim.StoredAPIKey, error)
	// PutTenant writes a tenant and its API keys; one that exists is changed.
	PutTenant(ctx context.Context, t claim.Tenant, apiKeys ...string) error
	// Sweep deletes up to limit rows of each sort that are past their windows.
	Sweep(ctx context.Context, limit int) (removed int, err error)
	// Sessions names, in a line each, the sessions that others than this have open on the
	// rows: nodes among them. It is for restores, before which no node may run.
	Sessions(ctx context.Context) ([]string, error)
	// Windows are the longest that nodes have kept keys for: ReplayFor, TombstoneFor and
	// PinGrace of the policy are set.
	Windows(ctx context.Context) (claim.Policy, error)
	Close() error
}

// Embedded is the deployment whose rows an embedded store holds.
func Embedded(db *embedded.DB) Deployment { return ofEmbedded{db} }

type ofEmbedded struct{ *embedded.DB }

func (d ofEmbedded) Region(name string) (Store, error) { return d.DB.Region(name) }

// Sessions are none: a store that is open in one process opens in no other.
func (ofEmbedded) Sessions(context.Context) ([]string, error) { return nil, nil }

// Windows are those that the store was opened with: it refuses shorter ones than it has had.
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

// OpenStopped opens the embedded store that somebody who is stopped has left in c.Dir, for
// a person's tools. It makes none where there is none, which is [ErrNoStore], and fails
// while the store is in use. The caller must close it.
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

// SQL is the deployment whose rows a database holds.
func SQL(db *cockroach.DB) Deployment { return ofSQL{db} }

type ofSQL struct{ *cockroach.DB }

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
func sweep(ctx context.Context, limit int, regions []string, of func(region string) (*cockroach.View, error)) (removed int, err error) {
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

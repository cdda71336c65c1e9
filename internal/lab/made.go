package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// madeFile is the name, in a cluster's directory, of the file that keeps [made]. Only this user
// can read it.
const madeFile = "made.json"

// made is what a cluster has made and needs again when it is started in the same directory.
type made struct {
	// Deployments are the ids of the databases that it has made. It uses no other.
	Deployments []uuid.UUID `json:"deployments"`
	// APIKeys are the minted keys of its merchants, by tenant.
	APIKeys map[string]string `json:"api_keys"`
}

// readMade reads the file of a directory; one that is new has made nothing.
func readMade(dir string) (made, error) {
	m := made{APIKeys: map[string]string{}}
	text, err := os.ReadFile(filepath.Join(dir, madeFile))
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, fmt.Errorf("%s: %w", filepath.Join(dir, madeFile), err)
	}
	return m, nil
}

func (m made) write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, madeFile), append(text, '\n'), 0o600)
}

// refuseDatabase refuses a database that was given and that this cluster has not made: a
// deployment's, or any other with tables in it.
func (k *Cluster) refuseDatabase(ctx context.Context, m *sqlstore.Migrator) error {
	if k.server != nil {
		return nil // in this directory, where only this command makes one
	}
	s, err := m.Status(ctx)
	if err != nil || slices.Contains(k.made.Deployments, s.Deployment) {
		return err
	}
	if used, err := m.HasTables(ctx); err != nil || !used {
		return err
	}
	return fmt.Errorf("the cluster of %s did not make the database that %s names, and leaves it alone; name an empty database, or with --data the directory of the cluster that made this one, or unset the variable to get a private database", k.Data, node.DatabaseURL)
}

// putTenants makes the two merchants, and leaves those that exist as they are: their rates may have
// been set since. A merchant with a key that opens nothing gets another one.
func (k *Cluster) putTenants(ctx context.Context) (parts.Stop, error) {
	k.APIKeys = k.made.APIKeys
	return nil, node.WithDatabase(ctx, k.urls[k.regions[0]], func(db *sqlstore.DB) error {
		v, err := db.Region(k.regions[0])
		if err != nil {
			return err
		}
		for _, t := range merchants(k.regions) {
			if key := k.APIKeys[t.ID]; key != "" {
				if got, ok, err := v.TenantByAPIKey(ctx, claim.HashAPIKey(key)); err != nil || ok && got.ID == t.ID {
					if err != nil {
						return err
					}
					continue
				}
			}
			switch there, err := db.Tenant(ctx, t.ID); {
			case err == nil:
				t = there
			case !errors.Is(err, claim.ErrUnknownTenant):
				return err
			}
			k.APIKeys[t.ID] = claim.NewAPIKey(t.ID)
			if err := k.made.write(k.Data); err != nil { // first, so that no key is open that no person has
				return err
			}
			if err := db.PutTenant(ctx, t, k.APIKeys[t.ID]); err != nil {
				return err
			}
		}
		return nil
	})
}

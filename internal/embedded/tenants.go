package embedded

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homeward-io/homeward/claim"
	storev1 "github.com/homeward-io/homeward/internal/gen/homeward/store/v1"
)

// Tenants and the regions are rows of the deployment: each region has a
// copy of them, so that access costs no trip. Memory has the tenants as well: each request
// looks its tenant up, and the budget of replays, half the rate of one read, has no room for
// another read.

// maxTenants bounds the tenants in memory: 100,000 take about 30 MB with their API keys. A
// larger deployment has a database.
const maxTenants = 100_000

// PutTenant writes a tenant and gives it API keys, of which only the SHA-256 is stored.
// If the tenant exists, PutTenant changes name, rate, card numbers and routes, adds the
// keys, and leaves the registrar alone, since only MoveRegistrar moves it safely. It
// refuses an API key of another tenant, or of the other side, and a test side without its live
// tenant.
func (db *DB) PutTenant(ctx context.Context, tenant claim.Tenant, apiKeys ...string) error {
	if err := checkName("tenant", tenant.ID); err != nil {
		return err
	}
	return db.do(ctx, func(t *tx) {
		t.hold(&t.tenantMu)
		if old, exists := t.tenants[tenant.ID]; exists {
			tenant.Registrar, tenant.PreviousRegistrar, tenant.RegistrarMovedAt = old.Registrar, old.PreviousRegistrar, old.RegistrarMovedAt
		} else if len(t.tenants) >= maxTenants {
			t.fail(fmt.Errorf("embedded store: it has %d tenants, which is its limit; use the SQL store", maxTenants))
		}
		if _, ok := t.regions[tenant.Registrar]; !ok {
			t.fail(fmt.Errorf("embedded store: tenant %s: there is no region %q to be registrar", tenant.ID, tenant.Registrar))
		}
		if _, live := t.tenants[claim.LiveTenant(tenant.ID)]; !live && !claim.Livemode(tenant.ID) {
			t.fail(fmt.Errorf("embedded store: there is no tenant %s whose test side %s could be; make that one first", claim.LiveTenant(tenant.ID), tenant.ID))
		}
		tenant.RegistrarMovedAt = truncate(tenant.RegistrarMovedAt)
		var hashes []claim.APIKeyHash
		for _, k := range apiKeys {
			if !claim.APIKeyFits(k, tenant.ID) {
				t.fail(fmt.Errorf("embedded store: tenant %s: an API key is of the other side, live or test; mint one of this", tenant.ID))
			}
			hash := claim.HashAPIKey(k)
			if owner, ok := t.apiKeys[hash]; k == "" || ok && owner != tenant.ID {
				t.fail(fmt.Errorf("embedded store: tenant %s: an API key is empty or belongs to another tenant; mint a new one", tenant.ID))
			}
			hashes = append(hashes, hash)
		}
		t.putTenant(&tenant, hashes...)
	})
}

// putTenant writes a tenant and API keys of it, on disk first. tenantMu must be held.
func (t *tx) putTenant(tenant *claim.Tenant, hashes ...claim.APIKeyHash) {
	t.put(append([]byte{tableTenant}, tenant.ID...), toTenant(tenant))
	for _, hash := range hashes {
		t.set(append([]byte{tableAPIKey}, hash[:]...), []byte(tenant.ID))
	}
	t.then(func() {
		t.tenants[tenant.ID] = *tenant
		for _, hash := range hashes {
			t.apiKeys[hash] = tenant.ID
		}
	})
}

// loadTenants reads the copy in memory.
func (t *tx) loadTenants() {
	each(t, []byte{tableTenant}, []byte{tableTenant + 1}, func(k []byte, m *storev1.Tenant) bool {
		id := string(k[1:])
		t.tenants[id] = fromTenant(id, m)
		return true
	})
	t.scan([]byte{tableAPIKey}, []byte{tableAPIKey + 1}, func(k, value []byte) bool {
		var hash claim.APIKeyHash
		if copy(hash[:], k[1:]) != len(hash) {
			t.fail(damaged(k, errTruncated))
		}
		t.apiKeys[hash] = string(value)
		return true
	})
}

// MoveRegistrar makes region the keeper of the tenant's pins from now on. Pins at the
// old registrar count until Sweep has removed the last of them; until then only a move
// back is possible, as pins in three regions would not be found.
func (db *DB) MoveRegistrar(ctx context.Context, id, to string) error {
	if _, ok := db.regions[to]; !ok {
		return fmt.Errorf("embedded store: there is no region %q to be registrar", to)
	}
	return db.do(ctx, func(t *tx) {
		t.hold(&t.tenantMu)
		tenant, err := t.tenant(id)
		if t.fail(err); err != nil || tenant.Registrar == to {
			return
		}
		if previous := tenant.PreviousRegistrar; previous != "" && previous != to && t.keepsPins(previous, id) {
			t.fail(fmt.Errorf("embedded store: tenant %s: pins made before the last move are still at %s and count; move back, or wait until housekeeping has removed the last of them: usually %v after the move of %s, and later where an outcome is still owed",
				id, previous, t.policy.PinLife(), tenant.RegistrarMovedAt.Format("2006-01-02 15:04:05Z")))
		}
		tenant.PreviousRegistrar, tenant.Registrar, tenant.RegistrarMovedAt = tenant.Registrar, to, t.clock.now()
		t.putTenant(&tenant)
	})
}

// keepsPins reports whether a region holds pins of tenant.
func (t *tx) keepsPins(region, tenant string) bool {
	return t.last(rowKey(tablePin, t.regions[region], tenant, "")) != nil
}

// forgetRegistrars ends the search at the former registrar of a moved tenant once its
// last pin is gone, which saves a trip for each new key.
func (t *tx) forgetRegistrars() {
	t.hold(&t.tenantMu)
	for id, tenant := range t.tenants {
		if tenant.PreviousRegistrar != "" && !t.keepsPins(tenant.PreviousRegistrar, id) {
			tenant.PreviousRegistrar = ""
			t.putTenant(&tenant)
		}
	}
}

// TenantByAPIKey returns the tenant of an API key.
func (db *DB) TenantByAPIKey(_ context.Context, key claim.APIKeyHash) (claim.Tenant, bool, error) {
	tenant, found, _ := db.TenantInMemory(key)
	return tenant, found, nil
}

// TenantInMemory is TenantByAPIKey: memory has all tenants.
func (db *DB) TenantInMemory(key claim.APIKeyHash) (tenant claim.Tenant, found, known bool) {
	db.tenantMu.RLock()
	defer db.tenantMu.RUnlock()
	id, found := db.apiKeys[key]
	return db.tenants[id], found, true
}

// Tenant returns the tenant of that id, or [claim.ErrUnknownTenant].
func (db *DB) Tenant(_ context.Context, id string) (claim.Tenant, error) {
	db.tenantMu.RLock()
	defer db.tenantMu.RUnlock()
	return db.tenant(id)
}

// tenant is Tenant for a caller that holds tenantMu.
func (db *DB) tenant(id string) (claim.Tenant, error) {
	tenant, ok := db.tenants[id]
	if !ok {
		return tenant, claim.ErrUnknownTenant
	}
	return tenant, nil
}

// Tenants returns all tenants by id.
func (db *DB) Tenants(context.Context) ([]claim.Tenant, error) {
	db.tenantMu.RLock()
	defer db.tenantMu.RUnlock()
	return slices.SortedFunc(maps.Values(db.tenants), func(a, b claim.Tenant) int { return strings.Compare(a.ID, b.ID) }), nil
}

// APIKeys lists the API keys of a tenant by their hash. They have no times, and none
// ends: the keys of an embedded store are those of its settings.
func (db *DB) APIKeys(_ context.Context, tenant string) (all []claim.StoredAPIKey, err error) {
	db.tenantMu.RLock()
	defer db.tenantMu.RUnlock()
	for hash, owner := range db.apiKeys {
		if owner == tenant {
			all = append(all, claim.StoredAPIKey{Hash: hash})
		}
	}
	slices.SortFunc(all, func(a, b claim.StoredAPIKey) int { return bytes.Compare(a.Hash[:], b.Hash[:]) })
	return all, nil
}

// The status of a region decides one thing only: whether a key without a home may get
// its home there. Pin reads it in the step that assigns one. Claims and existing pins
// never read it, so a status cannot move a key or stop a retry.

// Keys of the meta table.
const (
	metaStatus   = "status/"
	metaTopology = "topology" // counts the changes
)

// status reads the status of a region. topology must be held.
func (t *tx) status(region string) claim.RegionStatus {
	n, _ := t.meta(metaStatus + region)
	return claim.RegionStatus(n)
}

// Regions implements [claim.Regions]: the regions that the store was opened with, in that
// order.
func (db *DB) Regions(ctx context.Context) (regions []claim.Region, epoch uint64, err error) {
	err = db.do(ctx, func(t *tx) {
		t.hold(t.topology.RLocker())
		epoch, _ = t.meta(metaTopology)
		regions = slices.Clone(t.order)
		for i := range regions {
			regions[i].Status = t.status(regions[i].Name)
		}
	})
	return regions, epoch + 1, err
}

// SetRegionStatus implements [claim.Regions].
func (db *DB) SetRegionStatus(ctx context.Context, name string, status claim.RegionStatus) (epoch uint64, err error) {
	if _, ok := db.regions[name]; !ok {
		return 0, fmt.Errorf("embedded store: there is no region %q; name one of those it was opened with", name)
	}
	err = db.do(ctx, func(t *tx) {
		t.hold(&t.topology)
		if epoch, _ = t.meta(metaTopology); t.status(name) != status {
			epoch++
			t.setMeta(metaStatus+name, uint64(status))
			t.setMeta(metaTopology, epoch)
		}
	})
	return epoch + 1, err
}

package embedded

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
)

// maxTenants bounds the tenant table, which is kept in memory as well: 100,000
// take about 30 MB with their API keys. A larger deployment has a database.
const maxTenants = 100_000

// PutTenant writes a tenant and gives it API keys, of which only the SHA-256 is stored.
// If the tenant exists, PutTenant changes name, rate, card numbers and routes, adds the
// keys, and leaves the registrar alone, since only MoveRegistrar moves it safely. It
// refuses an API key of another tenant.
func (db *DB) PutTenant(ctx context.Context, t claim.Tenant, apiKeys ...string) error {
	if err := checkName("tenant", t.ID); err != nil {
		return err
	}
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.leave()
	db.tenantMu.Lock()
	defer db.tenantMu.Unlock()
	old, exists := db.tenants[t.ID]
	if exists {
		t.Registrar, t.PreviousRegistrar, t.RegistrarMovedAt = old.Registrar, old.PreviousRegistrar, old.RegistrarMovedAt
	} else if len(db.tenants) >= maxTenants {
		return fmt.Errorf("embedded store: it holds %d tenants, the most it can; use the SQL store", maxTenants)
	}
	if _, ok := db.regions[t.Registrar]; !ok {
		return fmt.Errorf("embedded store: tenant %s: there is no region %q to be registrar", t.ID, t.Registrar)
	}
	t.RegistrarMovedAt = truncate(t.RegistrarMovedAt)
	hashes := make([][sha256.Size]byte, 0, len(apiKeys))
	for _, k := range apiKeys {
		h := sha256.Sum256([]byte(k))
		if owner, ok := db.apiKeys[h]; k == "" || ok && owner != t.ID {
			return fmt.Errorf("embedded store: tenant %s: an API key is empty or belongs to another tenant; mint a new one", t.ID)
		}
		hashes = append(hashes, h)
	}

	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	if err := putTenant(b, &t); err != nil {
		return err
	}
	for _, h := range hashes {
		if err := b.Set(append([]byte{tableAPIKey}, h[:]...), []byte(t.ID), nil); err != nil {
			return unavailable(err)
		}
	}
	if err := db.commit(b, pebble.Sync); err != nil {
		return err
	}
	db.tenants[t.ID] = t
	for _, h := range hashes {
		db.apiKeys[h] = t.ID
	}
	return nil
}

func putTenant(b *pebble.Batch, t *claim.Tenant) error {
	s := scratches.Get().(*scratch)
	defer s.release()
	s.key = append(append(s.key[:0], tableTenant), t.ID...)
	return s.set(b, s.key, tenantToProto(t))
}

// MoveRegistrar makes region the keeper of the tenant's pins from now on. Pins at the
// old registrar count until Sweep has removed the last of them; until then only a move
// back is possible, as pins in three regions would not be found.
func (db *DB) MoveRegistrar(ctx context.Context, tenant, to string) error {
	if _, ok := db.regions[to]; !ok {
		return fmt.Errorf("embedded store: there is no region %q to be registrar", to)
	}
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.leave()
	db.tenantMu.Lock()
	defer db.tenantMu.Unlock()
	t, ok := db.tenants[tenant]
	if !ok {
		return claim.ErrUnknownTenant
	}
	if t.Registrar == to {
		return nil
	}
	if previous := t.PreviousRegistrar; previous != "" && previous != to {
		left, err := db.keepsPins(previous, tenant)
		if err != nil {
			return err
		}
		if left {
			return fmt.Errorf("embedded store: tenant %s: pins made before the last move are still at %s and count; move back, or wait until housekeeping has removed the last of them: usually %v after the move of %s, and later where an outcome is still owed",
				tenant, previous, db.policy.PinLife(), t.RegistrarMovedAt.Format("2006-01-02 15:04:05Z"))
		}
	}
	t.PreviousRegistrar, t.Registrar, t.RegistrarMovedAt = t.Registrar, to, db.clock.now()
	return db.rewriteTenant(t)
}

// rewriteTenant replaces a tenant's row, on disk first. tenantMu must be held.
func (db *DB) rewriteTenant(t claim.Tenant) error {
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	if err := putTenant(b, &t); err != nil {
		return err
	}
	if err := db.commit(b, pebble.Sync); err != nil {
		return err
	}
	db.tenants[t.ID] = t
	return nil
}

// forgetRegistrars ends the search at the former registrar of a moved tenant once its
// last pin is gone: a trip less for each new key.
func (db *DB) forgetRegistrars() error {
	db.tenantMu.Lock()
	defer db.tenantMu.Unlock()
	for id, t := range db.tenants {
		if t.PreviousRegistrar == "" {
			continue
		}
		if left, err := db.keepsPins(t.PreviousRegistrar, id); left || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		t.PreviousRegistrar = ""
		if err := db.rewriteTenant(t); err != nil {
			return err
		}
	}
	return nil
}

// TenantByAPIKey returns the tenant of an API key, from memory.
func (db *DB) TenantByAPIKey(ctx context.Context, key string) (claim.Tenant, bool, error) {
	if err := db.enter(ctx); err != nil {
		return claim.Tenant{}, false, err
	}
	defer db.leave()
	h := sha256.Sum256([]byte(key))
	db.tenantMu.RLock()
	defer db.tenantMu.RUnlock()
	id, ok := db.apiKeys[h]
	if !ok {
		return claim.Tenant{}, false, nil
	}
	return db.tenants[id], true, nil
}

// Tenant returns the tenant of that id, or [claim.ErrUnknownTenant].
func (db *DB) Tenant(ctx context.Context, id string) (claim.Tenant, error) {
	if err := db.enter(ctx); err != nil {
		return claim.Tenant{}, err
	}
	defer db.leave()
	db.tenantMu.RLock()
	defer db.tenantMu.RUnlock()
	t, ok := db.tenants[id]
	if !ok {
		return claim.Tenant{}, claim.ErrUnknownTenant
	}
	return t, nil
}

// Tenants returns all tenants by id.
func (db *DB) Tenants(ctx context.Context) ([]claim.Tenant, error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	defer db.leave()
	db.tenantMu.RLock()
	defer db.tenantMu.RUnlock()
	all := make([]claim.Tenant, 0, len(db.tenants))
	for _, id := range slices.Sorted(maps.Keys(db.tenants)) {
		all = append(all, db.tenants[id])
	}
	return all, nil
}

// APIKeys lists the API keys of a tenant by their hash. It has kept no time of any, and none
// ends: the keys of an embedded store are those of its settings.
func (db *DB) APIKeys(ctx context.Context, tenant string) ([]claim.StoredAPIKey, error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	defer db.leave()
	db.tenantMu.RLock()
	defer db.tenantMu.RUnlock()
	var all []claim.StoredAPIKey
	for hash, owner := range db.apiKeys {
		if owner == tenant {
			all = append(all, claim.StoredAPIKey{Hash: hash})
		}
	}
	slices.SortFunc(all, func(a, b claim.StoredAPIKey) int { return bytes.Compare(a.Hash[:], b.Hash[:]) })
	return all, nil
}

// TenantByAPIKey is [DB.TenantByAPIKey].
func (v *View) TenantByAPIKey(ctx context.Context, key string) (claim.Tenant, bool, error) {
	return v.db.TenantByAPIKey(ctx, key)
}

func (db *DB) loadTenants() error {
	err := db.scan([]byte{tableTenant}, []byte{tableTenant + 1}, func(key, value []byte) (bool, error) {
		t, err := decodeTenant(string(key[1:]), value)
		db.tenants[t.ID] = t
		return err == nil, err
	})
	if err != nil {
		return err
	}
	return db.scan([]byte{tableAPIKey}, []byte{tableAPIKey + 1}, func(key, value []byte) (bool, error) {
		var h [sha256.Size]byte
		if copy(h[:], key[1:]) != len(h) {
			return false, damaged("API key", "", fmt.Errorf("hash of %d bytes", len(key)-1))
		}
		db.apiKeys[h] = string(value)
		return true, nil
	})
}

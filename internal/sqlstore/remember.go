package sqlstore

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/homeward-io/homeward/claim"
)

// tenantsRemembered bounds each memory of tenants: some 3 MB.
const tenantsRemembered = 10_000

// memory caches tenants for a while. It is safe for concurrent use; a nil one caches
// nothing.
type memory[K comparable] struct {
	life  time.Duration
	cache *lru.Cache[K, remembered]
}

type remembered struct {
	tenant claim.Tenant
	until  time.Time
}

// newMemory returns nil for a life that is not above 0.
func newMemory[K comparable](life time.Duration) *memory[K] {
	if life <= 0 {
		return nil
	}
	cache, err := lru.New[K, remembered](tenantsRemembered)
	if err != nil {
		panic(err) // only a size below 1 is refused
	}
	return &memory[K]{life, cache}
}

func (m *memory[K]) get(k K) (claim.Tenant, bool) {
	if m == nil {
		return claim.Tenant{}, false
	}
	r, ok := m.cache.Get(k)
	return r.tenant, ok && time.Now().Before(r.until)
}

// knows reports whether k was put here, however long ago, and is still cached.
func (m *memory[K]) knows(k K) bool { return m != nil && m.cache.Contains(k) }

func (m *memory[K]) put(k K, t claim.Tenant) {
	if m != nil {
		m.cache.Add(k, remembered{t, time.Now().Add(m.life)})
	}
}

func (m *memory[K]) forget(k K) {
	if m != nil {
		m.cache.Remove(k)
	}
}

// recentKeys remembers some keys of which something happened here lately. It is a hint, good
// for the order of look-ups: it may forget a key, or mistake one for another. It is safe
// for concurrent use.
type recentKeys struct {
	seed  maphash.Seed
	slots []atomic.Uint64 // the hash of a key, in the slot that it selects; 0 for none
}

// newRecentKeys returns a memory with room for so many keys, at 8 bytes each, if none of them
// share a slot. slots is above 0.
func newRecentKeys(slots int) *recentKeys {
	return &recentKeys{seed: maphash.MakeSeed(), slots: make([]atomic.Uint64, slots)}
}

func (r *recentKeys) slot(key claim.Key) (*atomic.Uint64, uint64) {
	hash := max(1, maphash.Comparable(r.seed, key))
	return &r.slots[hash%uint64(len(r.slots))], hash
}

// add remembers key, in the place of another one if need be.
func (r *recentKeys) add(key claim.Key) {
	slot, hash := r.slot(key)
	slot.Store(hash)
}

// knows reports whether key is remembered.
func (r *recentKeys) knows(key claim.Key) bool {
	slot, hash := r.slot(key)
	return slot.Load() == hash
}

// forget forgets key.
func (r *recentKeys) forget(key claim.Key) {
	slot, hash := r.slot(key)
	slot.CompareAndSwap(hash, 0)
}

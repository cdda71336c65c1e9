package claim

import (
	"hash/maphash"
	"sync/atomic"
)

// Lately remembers some keys of which something happened here lately. It is a hint, good
// for the order of look-ups: it may forget a key, or mistake one for another. It is safe
// for concurrent use.
type Lately struct {
	seed  maphash.Seed
	slots []atomic.Uint64 // the hash of a key, in the slot that it selects; 0 for none
}

// NewLately returns a Lately with room for so many keys, at 8 bytes each, if none of them
// share a slot. slots is above 0.
func NewLately(slots int) *Lately {
	return &Lately{seed: maphash.MakeSeed(), slots: make([]atomic.Uint64, slots)}
}

func (l *Lately) slot(key Key) (*atomic.Uint64, uint64) {
	hash := max(1, maphash.Comparable(l.seed, key))
	return &l.slots[hash%uint64(len(l.slots))], hash
}

// Add remembers key, in the place of another one if need be.
func (l *Lately) Add(key Key) {
	slot, hash := l.slot(key)
	slot.Store(hash)
}

// Knows reports whether key is remembered.
func (l *Lately) Knows(key Key) bool {
	slot, hash := l.slot(key)
	return slot.Load() == hash
}

// Forget forgets key.
func (l *Lately) Forget(key Key) {
	slot, hash := l.slot(key)
	slot.CompareAndSwap(hash, 0)
}

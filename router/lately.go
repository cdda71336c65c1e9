package router

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/homeward-io/homeward/claim"
)

// latelySlots bounds the remembered keys, at 8 bytes each. It covers some seconds of a
// busy node, in which most retries arrive.
const latelySlots = 32 << 10

// lately remembers which opaque keys recently got their final answer here. It only
// orders the look-ups: the router looks for a known key among this region's claims
// before it reads the pin. lately may forget a key, or mistake one for another; that
// costs a look-up.
type lately struct {
	seed  maphash.Seed
	slots []atomic.Uint64 // the hash of a key, in the slot that it selects; 0 for none
}

func newLately() *lately {
	return &lately{seed: maphash.MakeSeed(), slots: make([]atomic.Uint64, latelySlots)}
}

func (l *lately) slot(key claim.Key) (*atomic.Uint64, uint64) {
	hash := maphash.Comparable(l.seed, key)
	return &l.slots[hash%latelySlots], hash
}

func (l *lately) add(key claim.Key) {
	slot, hash := l.slot(key)
	slot.Store(hash)
}

func (l *lately) knows(key claim.Key) bool {
	slot, hash := l.slot(key)
	return slot.Load() == hash
}

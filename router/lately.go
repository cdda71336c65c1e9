package router

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/homeward-io/homeward/claim"
)

// latelySlots is how many keys are remembered at most, in 8 bytes each: some seconds of
// a busy node, in which most retries come.
const latelySlots = 32 << 10

// lately remembers which opaque keys had their final answer here a moment ago. It only
// orders the questions: a key that it knows is looked for among the claims of this
// region before its pin is. It may forget a key, or take one for another; that costs a
// look.
type lately struct {
	seed  maphash.Seed
	slots []atomic.Uint64 // the hash of a key, at the place that it names; 0 for none
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

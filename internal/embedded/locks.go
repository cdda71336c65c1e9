package embedded

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/homeward-io/homeward/claim"
)

// stripes is how many locks the rows share. A writer keeps its lock through the
// sync, so a chance collision costs a millisecond: with 64 writers at once one
// in a thousand meets one. The locks take 1.5 MB.
const stripes = 1 << 16

// rowLocks are striped locks by name. A writer holds its row's lock from the read until
// the commit is synced, so the next holder sees only what a crash cannot undo. Waiting
// is bounded by other rows' syncs.
type rowLocks struct {
	seed maphash.Seed
	mu   [stripes]sync.RWMutex
}

func newRowLocks() *rowLocks { return &rowLocks{seed: maphash.MakeSeed()} }

func (l *rowLocks) index(code claim.RegionCode, key claim.Key) int {
	var h maphash.Hash
	h.SetSeed(l.seed)
	var n [2]byte
	binary.BigEndian.PutUint16(n[:], uint16(code))
	_, _ = h.Write(n[:])
	_, _ = h.WriteString(key.Tenant)
	_ = h.WriteByte(nameEnd)
	_, _ = h.WriteString(key.Value)
	return int(h.Sum64() % stripes)
}

func (l *rowLocks) of(code claim.RegionCode, key claim.Key) *sync.RWMutex {
	return &l.mu[l.index(code, key)]
}

// lockAll takes several stripes, in one order so that two callers cannot deadlock, and
// each only once.
func (l *rowLocks) lockAll(indexes []int) (unlock func()) {
	slices.Sort(indexes)
	indexes = slices.Compact(indexes)
	for _, i := range indexes {
		l.mu[i].Lock()
	}
	return func() {
		for _, i := range indexes {
			l.mu[i].Unlock()
		}
	}
}

package audit

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/homeward-io/homeward/ledger"
)

// filter is a Bloom filter over the keys and objects of a segment, so that a search
// reads few segments. One in some hundred positive answers is wrong; a negative answer
// never is.
//
// The name of a key is 'k', its tenant, a zero byte and the key, that of an object 'o' and
// the object. Its SHA-256 gives a and b, two little-endian numbers of 64 bits; the bits
// (a + i·b) mod 8·len(filter), i from 0 to 6, are set. This is a format: it never changes.
type filter []byte

const (
	filterHashes = 7
	// filterBits for each name make one wrong positive in 120.
	filterBits = 10
)

func newFilter(names int) filter {
	return make(filter, (names*filterBits+7)/8)
}

func keyName(tenant, key string) string { return "k" + tenant + "\x00" + key }
func objectName(object string) string   { return "o" + object }

func (f filter) bits(name string, each func(at int, bit byte) bool) {
	if len(f) == 0 {
		return
	}
	sum := sha256.Sum256([]byte(name))
	a, b := binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])
	for i := range uint64(filterHashes) {
		n := (a + i*b) % uint64(8*len(f))
		if !each(int(n/8), 1<<(n%8)) {
			return
		}
	}
}

func (f filter) add(name string) {
	f.bits(name, func(at int, bit byte) bool {
		f[at] |= bit
		return true
	})
}

// has reports whether name may be in the segment.
func (f filter) has(name string) bool {
	found := len(f) > 0
	f.bits(name, func(at int, bit byte) bool {
		found = f[at]&bit != 0
		return found
	})
	return found
}

// filterOf returns the filter of a segment's entries and transactions. A transaction counts as
// an object, too.
func filterOf(entries []Entry, transactions []ledger.Transaction) filter {
	names := map[string]bool{}
	for i := range entries {
		names[keyName(entries[i].Tenant, entries[i].Key)] = true
		if o := entries[i].Object; o != "" {
			names[objectName(o)] = true
		}
	}
	for i := range transactions {
		names[objectName(transactions[i].ID)], names[objectName(transactions[i].Object)] = true, true
	}
	f := newFilter(len(names))
	for name := range names {
		f.add(name)
	}
	return f
}

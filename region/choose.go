package region

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/homeward-io/homeward/claim"
)

// Choose orders nodes by preference for key: the first is preferred, the rest
// are fallbacks in order. It is highest-random-weight (rendezvous) hashing:
// every process that sees the same nodes chooses alike, keys spread evenly, and
// a node that comes or goes moves only the keys that it takes or had. Draining
// nodes come after the others, and those that cannot record a charge last. The caller owns the
// result.
func Choose(nodes []Node, key claim.Key) []Node {
	// No part holds a zero byte, so no two hash the same bytes.
	weight := func(n Node) uint64 { return xxhash.Sum64String(key.Tenant + "\x00" + key.Value + "\x00" + n.Name) }
	return slices.SortedFunc(slices.Values(nodes), func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(weight(b), weight(a)), cmp.Compare(a.Name, b.Name))
	})
}

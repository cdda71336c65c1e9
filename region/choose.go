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
// nodes come last. The caller owns the result.
func Choose(nodes []Node, key claim.Key) []Node {
	// No part holds a zero byte, so no two hash the same bytes.
	weight := func(n Node) uint64 { return xxhash.Sum64String(key.Tenant + "\x00" + key.Value + "\x00" + n.Name) }
	draining := func(n Node) int {
		if n.Draining {
			return 1
		}
		return 0
	}
	return slices.SortedFunc(slices.Values(nodes), func(a, b Node) int {
		return cmp.Or(cmp.Compare(draining(a), draining(b)), cmp.Compare(weight(b), weight(a)), cmp.Compare(a.Name, b.Name))
	})
}

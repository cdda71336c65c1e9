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
// nodes come last.
//
// Choose does not modify nodes; the caller owns the result. One allocation.
func Choose(nodes []Node, key claim.Key) []Node {
	type weighed struct {
		weight uint64
		at     int
	}
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(key.Tenant)
	// Neither part holds a zero byte, so no two keys hash the same bytes.
	_, _ = d.Write([]byte{0})
	_, _ = d.WriteString(key.Value)
	seed := d.Sum64()

	var stack [16]weighed // more nodes than a region usually has
	order := stack[:0]
	for i := range nodes {
		d.ResetWithSeed(seed)
		_, _ = d.WriteString(nodes[i].Name)
		order = append(order, weighed{weight: d.Sum64(), at: i})
	}
	slices.SortFunc(order, func(a, b weighed) int {
		x, y := &nodes[a.at], &nodes[b.at]
		if x.Draining != y.Draining {
			if y.Draining {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(x.Name, y.Name))
	})
	out := make([]Node, len(order))
	for i, w := range order {
		out[i] = nodes[w.at]
	}
	return out
}

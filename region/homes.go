package region

import (
	"cmp"
	"slices"
	"time"
)

// Homes lists the regions that may become home to a key which has none, for a node
// in self: only those that are active, self first, then first, then by their
// distance, which rtt tells where it knows it; what is not known is far. The
// result is empty when no region is active.
//
// It goes by what this node remembers of the table. The store's step that gives a
// key its home looks at the table itself and may refuse (claim.ErrNoNewHomes); then
// the next one is as good.
func (t *Topology) Homes(self, first string, rtt func(region string) (time.Duration, bool)) []Region {
	homes := slices.DeleteFunc(t.Regions(), func(r Region) bool { return r.Status != Active })
	distance := func(r Region) time.Duration {
		switch r.Name {
		case self:
			return -2
		case first:
			return -1
		}
		if d, known := rtt(r.Name); known {
			return d
		}
		return 1<<63 - 1
	}
	slices.SortStableFunc(homes, func(a, b Region) int { return cmp.Compare(distance(a), distance(b)) })
	return homes
}

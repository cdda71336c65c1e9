package region

import (
	"cmp"
	"slices"
	"time"
)

// Homes lists the regions that may become the home of a key without one, for a
// node in self: the active ones, self first, then first, then by the distance that
// rtt returns. A region with an unknown distance comes last. The result is empty
// if no region is active.
//
// Homes uses this node's copy of the table. The store's step that gives a key its
// home reads the table itself and may refuse (claim.ErrNoNewHomes); then try the
// next region.
func (t *Topology) Homes(self, first string, rtt func(region string) (time.Duration, bool)) []Region {
	homes := slices.DeleteFunc(t.Regions(), func(r Region) bool { return r.Status != Active })
	distance := func(r Region) time.Duration {
		switch r.Name {
		case self:
			return -2
		case first:
			return -1
		}
		if d, ok := rtt(r.Name); ok {
			return d
		}
		return 1<<63 - 1
	}
	slices.SortStableFunc(homes, func(a, b Region) int { return cmp.Compare(distance(a), distance(b)) })
	return homes
}

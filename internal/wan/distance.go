package wan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// UnknownDistance is the round-trip time between two regions that this package
// has no figure for: about that of one ocean.
const UnknownDistance = 100 * time.Millisecond

// MaxDistance is the longest round-trip time that [Parse] accepts. The longest between
// two cloud regions is near 400 ms; anything above 10 s is a mistyped unit, and would
// outlast every deadline.
const MaxDistance = 10 * time.Second

// distances are round-trip times between cloud regions. The three among us-east1, us-west1
// and europe-west1 are those of the three-region cluster on which the database's
// figures were measured; the others are rounded from what the providers publish for the
// nearest pair.
var distances = map[Pair]time.Duration{
	Pair{"us-east1", "us-west1"}.normal():            66 * time.Millisecond,
	Pair{"us-east1", "europe-west1"}.normal():        64 * time.Millisecond,
	Pair{"us-west1", "europe-west1"}.normal():        146 * time.Millisecond,
	Pair{"us-east1", "asia-northeast1"}.normal():     150 * time.Millisecond,
	Pair{"us-west1", "asia-northeast1"}.normal():     90 * time.Millisecond,
	Pair{"europe-west1", "asia-northeast1"}.normal(): 220 * time.Millisecond,
	Pair{"us-east1", "us-central1"}.normal():         34 * time.Millisecond,
	Pair{"us-central1", "us-west1"}.normal():         36 * time.Millisecond,
	Pair{"us-central1", "europe-west1"}.normal():     100 * time.Millisecond,
	Pair{"us-central1", "asia-northeast1"}.normal():  125 * time.Millisecond,
}

// Defaults returns a realistic round-trip time for every pair of regions: a measured one, else
// [UnknownDistance].
func Defaults(regions []string) map[Pair]time.Duration {
	out := make(map[Pair]time.Duration, len(regions)*len(regions)/2)
	for i, a := range regions {
		for _, b := range regions[i+1:] {
			if a == b {
				continue
			}
			p := Pair{a, b}.normal()
			if rtt, ok := distances[p]; ok {
				out[p] = rtt
			} else {
				out[p] = UnknownDistance
			}
		}
	}
	return out
}

// Parse reads distances such as "us-east1:europe-west1=80ms,…" and returns them
// over a copy of defaults. White space around an item is ignored, and so is an
// empty text. A pair given twice, a region that is not among regions, a pair of
// one region with itself and a duration that is not between 0 and [MaxDistance]
// are errors of one line that say what to write.
func Parse(text string, regions []string, defaults map[Pair]time.Duration) (map[Pair]time.Duration, error) {
	out := make(map[Pair]time.Duration, len(defaults))
	for p, d := range defaults {
		out[p.normal()] = d
	}
	seen := make(map[Pair]bool)
	if strings.TrimSpace(text) == "" {
		return out, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		names, value, ok := strings.Cut(item, "=")
		a, b, two := strings.Cut(names, ":")
		a, b, value = strings.TrimSpace(a), strings.TrimSpace(b), strings.TrimSpace(value)
		if !ok || !two || a == "" || b == "" || value == "" {
			return nil, fmt.Errorf("wan: %q is not a distance; write region:region=80ms", item)
		}
		for _, name := range []string{a, b} {
			if !slices.Contains(regions, name) {
				return nil, fmt.Errorf("wan: unknown region %q in %q; the regions are %s", name, item, strings.Join(slices.Sorted(slices.Values(regions)), ", "))
			}
		}
		if a == b {
			return nil, fmt.Errorf("wan: %q names one region twice; a distance is between two", item)
		}
		rtt, err := time.ParseDuration(value)
		if err != nil || rtt < 0 || rtt > MaxDistance {
			return nil, fmt.Errorf("wan: bad round-trip time %q in %q; write one from 0s to %v, such as 80ms", value, item, MaxDistance)
		}
		p := Pair{a, b}.normal()
		if seen[p] {
			return nil, fmt.Errorf("wan: the distance of %s and %s is given twice", p.A, p.B)
		}
		seen[p] = true
		out[p] = rtt
	}
	return out, nil
}

// String lists the distances in [Parse]'s form, sorted; for start-up output.
func (n *Network) String() string {
	if n == nil {
		return ""
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	items := make([]string, 0, len(n.distances))
	for p := range maps.Keys(n.distances) {
		items = append(items, fmt.Sprintf("%s:%s=%v", p.A, p.B, n.distances[p]))
	}
	slices.Sort(items)
	return strings.Join(items, ",")
}

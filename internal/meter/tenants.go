package meter

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// TenantLabels bounds the tenants that a metric names. A series costs Prometheus
	// some kilobytes; no reader looks at more than fifty.
	TenantLabels = 50
	// candidates is how many tenants are counted to find those.
	candidates = 4 * TenantLabels
	// rankEvery is how often the names are reassigned; older traffic counts half from
	// then on.
	rankEvery = time.Minute
)

// tenants tracks the tenants with the most recent traffic in bounded memory: the
// Space-Saving sketch of Metwally, Agrawal and El Abbadi ("Efficient Computation of
// Frequent and Top-k Elements in Data Streams", 2005), with decaying counts.
type tenants struct {
	mu      sync.Mutex
	counted map[string]*tenant
	ranked  time.Time
	names   int // given
}

type tenant struct {
	// n is the upper bound, missed how much of it may belong to the tenant that was
	// replaced.
	n, missed int64
	named     bool
}

// label counts one for a tenant, and returns its name or [Other].
func (t *tenants) label(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.counted[name]
	if one == nil {
		one = t.admit(name)
	}
	one.n++
	if one.named {
		return name
	}
	return Other
}

func (t *tenants) has(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.counted[name]
	return one != nil && one.named
}

// admit begins to count a tenant, in place of the one with the least traffic if there is no
// room. The caller holds mu.
func (t *tenants) admit(name string) *tenant {
	if t.counted == nil {
		t.counted = map[string]*tenant{}
	}
	fresh := &tenant{}
	if len(t.counted) >= candidates {
		least := ""
		for other, o := range t.counted {
			if !o.named && (least == "" || o.n < t.counted[least].n) {
				least = other
			}
		}
		fresh.n, fresh.missed = t.counted[least].n, t.counted[least].n
		delete(t.counted, least)
	}
	if t.names < TenantLabels {
		t.names++
		fresh.named = true
	}
	t.counted[name] = fresh
	return fresh
}

// rank reassigns the names if that is due, and reports whether it was. The names go to the
// highest lower bounds.
func (t *tenants) rank(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.counted) == 0 || now.Sub(t.ranked) < rankEvery {
		return false
	}
	t.ranked = now
	names := slices.SortedFunc(maps.Keys(t.counted), func(a, b string) int {
		x, y := t.counted[a], t.counted[b]
		switch sure := cmp.Compare(y.n-y.missed, x.n-x.missed); {
		case sure != 0:
			return sure
		case x.named != y.named: // in a tie a tenant keeps its name
			if x.named {
				return -1
			}
			return 1
		}
		return cmp.Compare(a, b)
	})
	t.names = min(len(names), TenantLabels)
	for i, name := range names {
		one := t.counted[name]
		one.named, one.n, one.missed = i < TenantLabels, one.n/2, one.missed/2
	}
	return true
}

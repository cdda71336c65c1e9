package meter

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// TenantLabels bounds the tenants that a metric names. A series costs Prometheus
	// some kilobytes; nobody looks at more than fifty.
	TenantLabels = 50
	// candidates is how many tenants are counted to find those.
	candidates = 4 * TenantLabels
	// rankEvery is how often the names are reassigned; older traffic counts half from
	// then on.
	rankEvery = time.Minute
	// admitOne is the sampling rate for uncounted tenants, as they are many.
	admitOne = 16
)

// tenants tracks the tenants with the most recent traffic in bounded memory: the
// Space-Saving sketch of Metwally, Agrawal and El Abbadi ("Efficient Computation of
// Frequent and Top-k Elements in Data Streams", 2005), with decaying counts.
type tenants struct {
	counted atomic.Pointer[map[string]*tenant]
	mu      sync.Mutex
	ranked  time.Time
	names   int // given
}

type tenant struct {
	// n is the upper bound, missed how much of it may belong to the tenant that was
	// replaced.
	n, missed atomic.Int64
	named     atomic.Bool
}

// sure is the lower bound.
func (t *tenant) sure() int64 { return t.n.Load() - t.missed.Load() }

func (t *tenants) all() map[string]*tenant {
	if all := t.counted.Load(); all != nil {
		return *all
	}
	return nil
}

// named counts one for a tenant, and returns its name or [Other].
func (t *tenants) named(name string) string {
	one := t.all()[name]
	if one == nil {
		if one = t.admit(name); one == nil {
			return Other
		}
	}
	one.n.Add(1)
	if one.named.Load() {
		return name
	}
	return Other
}

func (t *tenants) has(name string) bool {
	one := t.all()[name]
	return one != nil && one.named.Load()
}

// admit begins to count a tenant, and replaces the one with the least traffic if there
// is no room. nil: not this time.
func (t *tenants) admit(name string) *tenant {
	if len(t.all()) >= candidates && rand.N(admitOne) != 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.all()[name]; one != nil {
		return one
	}
	next, fresh := maps.Clone(t.all()), new(tenant)
	if next == nil {
		next = map[string]*tenant{}
	}
	if len(next) >= candidates {
		least := ""
		for other, o := range next {
			if !o.named.Load() && (least == "" || o.n.Load() < next[least].n.Load()) {
				least = other
			}
		}
		fresh.n.Store(next[least].n.Load())
		fresh.missed.Store(fresh.n.Load())
		delete(next, least)
	}
	if t.names < TenantLabels {
		t.names++
		fresh.named.Store(true)
	}
	next[name] = fresh
	t.counted.Store(&next)
	return fresh
}

// rank reassigns the names if that is due, and reports whether it was.
func (t *tenants) rank(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all()) == 0 || now.Sub(t.ranked) < rankEvery {
		return false
	}
	t.ranked = now
	names := slices.SortedFunc(maps.Keys(t.all()), func(a, b string) int {
		// In a tie a tenant keeps its name.
		x, y := t.all()[a], t.all()[b]
		return cmp.Or(cmp.Compare(y.sure(), x.sure()), cmp.Compare(rankOf(x), rankOf(y)), cmp.Compare(a, b))
	})
	t.names = 0
	for i, name := range names {
		one := t.all()[name]
		if one.named.Store(i < TenantLabels); i < TenantLabels {
			t.names++
		}
		one.n.Store(one.n.Load() / 2)
		one.missed.Store(one.missed.Load() / 2)
	}
	return true
}

func rankOf(t *tenant) int {
	if t.named.Load() {
		return 0
	}
	return 1
}

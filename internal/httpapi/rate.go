package httpapi

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/homeward-io/homeward/claim"
)

// maxBuckets is how many tenants' buckets one generation keeps. 2 × 16,384 of
// them take about 6 MB.
const maxBuckets = 16 << 10

// rates holds one token bucket per recent tenant. Buckets are in two generations: a
// full young one replaces the old one, and a tenant of the discarded one starts with a
// full bucket. So memory is bounded, and an error lets too many requests through, never
// too few.
type rates struct {
	perSecond float64
	burst     int

	mu         sync.Mutex
	young, old map[string]*rate.Limiter
}

func newRates(perSecond float64, burst int) *rates {
	return &rates{perSecond: perSecond, burst: burst, young: map[string]*rate.Limiter{}}
}

// take charges one request to t. It returns 0, or how long until the next one would be
// admitted.
func (rs *rates) take(t *claim.Tenant, now time.Time) time.Duration {
	perSecond, burst := t.RatePerSecond, t.Burst
	if perSecond <= 0 {
		perSecond, burst = rs.perSecond, rs.burst
	}
	if perSecond <= 0 {
		return 0
	}
	burst = max(burst, 1) // with none, not even one request would ever pass
	l := rs.bucket(t.ID, rate.Limit(perSecond), burst)
	if l.Limit() != rate.Limit(perSecond) {
		l.SetLimitAt(now, rate.Limit(perSecond))
	}
	if l.Burst() != burst {
		l.SetBurstAt(now, burst)
	}
	if l.AllowN(now, 1) {
		return 0
	}
	r := l.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	r.CancelAt(now)
	return max(wait, time.Millisecond)
}

func (rs *rates) bucket(tenant string, limit rate.Limit, burst int) *rate.Limiter {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if l, ok := rs.young[tenant]; ok {
		return l
	}
	l, ok := rs.old[tenant]
	if !ok {
		l = rate.NewLimiter(limit, burst)
	}
	if len(rs.young) >= maxBuckets {
		rs.old, rs.young = rs.young, make(map[string]*rate.Limiter, maxBuckets)
	}
	rs.young[tenant] = l
	return l
}

package httpapi

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/homeward-io/homeward/claim"
)

// maxBuckets is how many tenants' buckets are kept: about 6 MB.
const maxBuckets = 32 << 10

// rates holds one token bucket for each recent tenant. After an eviction a tenant has a full bucket
// again, which admits too many requests and never too few.
type rates struct {
	perSecond float64
	burst     int
	buckets   *lru.Cache[string, *rate.Limiter]
}

func newRates(perSecond float64, burst int) *rates {
	buckets, _ := lru.New[string, *rate.Limiter](maxBuckets) // it fails for a size below 1 alone
	return &rates{perSecond, burst, buckets}
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
	if l, ok := rs.buckets.Get(tenant); ok {
		return l
	}
	fresh := rate.NewLimiter(limit, burst)
	if l, ok, _ := rs.buckets.PeekOrAdd(tenant, fresh); ok { // by another request, at this moment
		return l
	}
	return fresh
}

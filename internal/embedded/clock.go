package embedded

import (
	"sync/atomic"
	"time"
)

// clock is the store's clock: the configured one in whole microseconds, but
// never going back, so that a lease once seen lapsed stays lapsed.
type clock struct {
	source func() time.Time
	latest atomic.Int64 // microseconds since 1970
}

func (c *clock) now() time.Time {
	us := c.source().UnixMicro()
	for {
		latest := c.latest.Load()
		if us <= latest {
			return time.UnixMicro(latest).UTC()
		}
		if c.latest.CompareAndSwap(latest, us) {
			return time.UnixMicro(us).UTC()
		}
	}
}

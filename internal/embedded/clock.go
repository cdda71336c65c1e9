package embedded

import (
	"sync"
	"time"
)

// clock is the store's clock, in whole microseconds. It follows its source, a machine's
// clock that may be set, and never goes back, so that a lease once seen lapsed stays
// lapsed. If the source is set back, the clock continues at half the source's pace
// until the two agree. Standing still instead would freeze every lease and every due
// row for as long as the source had jumped.
type clock struct {
	source func() time.Time

	mu sync.Mutex
	// seen is the source's latest reading, and shown the time returned for it.
	seen, shown int64 // microseconds since 1970
	// turned is the reading at which the source was last set back, zero if it never was, and
	// from the time that the clock returned then.
	turned time.Time
	from   int64
}

// age returns the sure part of a request's age by the store's clock, and the part in doubt.
// underWay is the age by clocks that were not set back. After this clock was set back, it may have
// gone at half the pace meanwhile.
func (c *clock) age(underWay time.Duration) (sure, doubt time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.turned.IsZero() {
		doubt = underWay / 2
	}
	return underWay - doubt, doubt
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	reading := c.source() // under the lock: a reading that another overtakes would look set back
	us := reading.UnixMicro()
	if us < c.seen {
		c.turned, c.from = reading, c.shown
	}
	c.seen, c.shown = us, max(c.shown, us)
	if !c.turned.IsZero() && c.shown > us {
		// By the monotonic clock where there is one: the source may be set once more.
		c.shown = max(c.shown, c.from+reading.Sub(c.turned).Microseconds()/2)
	}
	return time.UnixMicro(c.shown).UTC()
}

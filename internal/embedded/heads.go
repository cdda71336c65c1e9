package embedded

import (
	"sync"
	"time"

	"github.com/homeward-io/homeward/claim"
)

// headFor is how long a head is trusted, by the store's clock: many looks of a busy
// queue, and a delay that nobody notices.
const headFor = 250 * time.Millisecond

// heads remember where the due rows of each queue and region began a moment ago.
// Rows that were worked off leave deletions behind which every look has to step over
// until compaction removes them: thousands, in a queue through which thousands of
// rows a second go. A head is a hint about where to look first. A row before it that
// was written since, or just being written, waits until there are fewer rows after
// the head than a look wants, or the head is too old: see Take. The zero value is
// ready, and safe for concurrent use.
type heads struct {
	mu sync.Mutex
	of map[headKey]head
}

type headKey struct {
	q    *queue
	code claim.RegionCode
}

type head struct {
	due   int64     // microseconds, of the first row seen
	whole time.Time // when a look last began at the very beginning
}

// at returns the due time from which to look first; 0 is the very beginning.
func (h *heads) at(q *queue, code claim.RegionCode, now time.Time) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	got := h.of[headKey{q, code}]
	if age := now.Sub(got.whole); age < 0 || age >= headFor {
		return 0
	}
	return got.due
}

// saw notes that a look that began at from found its first row at due.
func (h *heads) saw(q *queue, code claim.RegionCode, from, due int64, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[headKey]head{}
	}
	got := h.of[headKey{q, code}]
	if got.due = due; from == 0 {
		got.whole = now
	}
	h.of[headKey{q, code}] = got
}

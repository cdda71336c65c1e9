package drill

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/homeward-io/homeward/client"
)

// payment is one logical payment and its answers. It takes some 150 bytes, and its
// amount is its position in the history.
type payment struct {
	key      string
	tenant   uint8
	home     int16 // of a stamped key: the region's index in the plan; else -1
	transfer bool
	stolen   bool // the card is stolen, so the right answer is a decline

	answered bool
	answer   [16]byte // as in exchange, of the first final answer
	status   int16
	code     string // the API's name of the error, "" for a payment made
	object   string // id of what was made
	// differing counts final answers that differ from the first one.
	differing int
}

// phase is a part of a drill.
type phase int

// The phases, in order.
const (
	settling phase = iota
	outage
	recovery
	phases
)

func (p phase) String() string { return [...]string{"before", "during", "after"}[p] }

// Bounds of a recorded latency, in microseconds: an answer takes at least some and,
// with the maximum patience, at most an hour.
const (
	latencyMin = 1
	latencyMax = int64(time.Hour / time.Microsecond)
	// latencyDigits and secondDigits are significant digits: of a phase, and of a
	// second of the timeline, which is only drawn.
	latencyDigits = 3
	secondDigits  = 1
)

// second is one second of the timeline.
type second struct {
	sent, answered, failed int
	latency                *hdrhistogram.Histogram // by when the request was due
}

// history records what the load observes. It is safe for concurrent use.
type history struct {
	mu       sync.Mutex
	began    time.Time
	payments []payment
	requests int64
	retries  int64
	// beyond counts calls that took more requests than a client makes by default.
	beyond   int
	failures [phases]map[string]int
	fresh    [phases]*hdrhistogram.Histogram // new payments
	repeats  [phases]*hdrhistogram.Histogram // of old ones
	beside   *hdrhistogram.Histogram         // new payments during the outage, sent first to a region that was not hit
	waited   *hdrhistogram.Histogram         // new payments of before the outage's end that were answered after it, from its end
	seconds  []second

	// from is when the drill ordered the fault and struck when it was in effect; ordered is when
	// the drill ordered its end and mended when it had ended.
	from, struck, ordered, mended time.Time
	home                          string // the region that is hit, "" for everything
	served                        served
}

// served are times at which requests were served during the outage and after it; zero
// until then.
type served struct{ inFlight, first, refused, back time.Time }

func newHistory(began time.Time, home string) *history {
	h := &history{began: began, home: home}
	h.beside, h.waited = hdrhistogram.New(latencyMin, latencyMax, latencyDigits), hdrhistogram.New(latencyMin, latencyMax, latencyDigits)
	for p := range phases {
		h.failures[p] = map[string]int{}
		h.fresh[p] = hdrhistogram.New(latencyMin, latencyMax, latencyDigits)
		h.repeats[p] = hdrhistogram.New(latencyMin, latencyMax, latencyDigits)
	}
	return h
}

// add adds a payment that is about to be sent, and returns its position.
func (h *history) add(p payment) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.payments = append(h.payments, p)
	return len(h.payments) - 1
}

// old chooses an answered payment to repeat.
func (h *history) old(rng *rand.Rand) (int, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.payments) == 0 {
		return 0, false
	}
	// The newest may still be open: take one before the choice then.
	for i := rng.IntN(len(h.payments)); i >= 0; i-- {
		if h.payments[i].answered {
			return i, true
		}
	}
	return 0, false
}

func (h *history) get(i int) payment {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.payments[i]
}

// all returns the payments so far. The caller only reads them, after the load.
func (h *history) all() []payment {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.payments)
}

// mark records that something happens now.
func (h *history) mark(at *time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*at = time.Now()
}

func (h *history) phaseOf(at time.Time) phase {
	switch {
	case h.from.IsZero() || at.Before(h.from):
		return settling
	case h.mended.IsZero() || at.Before(h.mended):
		return outage
	default:
		return recovery
	}
}

func (h *history) secondOf(at time.Time) *second {
	n := max(0, int(at.Sub(h.began)/time.Second))
	for len(h.seconds) <= n {
		h.seconds = append(h.seconds, second{latency: hdrhistogram.New(latencyMin, latencyMax, secondDigits)})
	}
	return &h.seconds[n]
}

// sent records that a request was due at a time.
func (h *history) sent(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.secondOf(at).sent++
}

// exchanged records one request, the nth of its call. home is the name of a stamped
// key's home; fresh: the payment is a new one.
func (h *history) exchanged(n int, e *exchange, home string, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests++
	if n > 1 {
		h.retries++
	}
	if e.failure != "" {
		h.failures[h.phaseOf(e.ended)][e.failure]++
		h.secondOf(e.ended).failed++
	}
	if !fresh || h.struck.IsZero() || e.begun.Before(h.struck) {
		return
	}
	switch {
	case h.ordered.IsZero() && (h.home == "" || home == h.home && e.entry != h.home):
		if e.failure == "" {
			h.served.first = earlier(h.served.first, e.ended)
		} else if e.code != client.CodeKeyInUse { // that is a rival's lease, and not the outage
			h.served.refused = later(h.served.refused, e.ended)
		}
	case !h.ordered.IsZero() && e.begun.After(h.ordered) && e.failure == "" && (h.home == "" || e.home == h.home && e.servedBy == h.home):
		h.served.back = earlier(h.served.back, e.ended)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// answer records the response to a request for payment i, if it is an answer. A client
// that cannot parse an answer retries, so its last one is not the only one to compare.
func (h *history) answer(i int, e *exchange) {
	if e.failure != "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &h.payments[i]
	switch {
	case !p.answered:
		p.answered, p.answer, p.status, p.code, p.object = true, e.answer, int16(e.status), e.code, e.object
	case p.answer != e.answer:
		p.differing++
	}
}

// timed records the duration of a call, from when it was due. It was sent to the region entry first.
func (h *history) timed(due, done time.Time, requests int, fresh bool, entry string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if requests > client.DefaultMaxAttempts {
		h.beyond++
	}
	took := min(max(latencyMin, int64(done.Sub(due)/time.Microsecond)), latencyMax)
	to := h.repeats
	if fresh {
		to = h.fresh
	}
	if due.Before(h.struck) && done.After(h.struck) {
		h.served.inFlight = later(h.served.inFlight, done)
	}
	// Within the bounds recording cannot fail.
	_ = to[h.phaseOf(due)].RecordValue(took)
	if fresh && !h.mended.IsZero() && due.Before(h.mended) {
		_ = h.waited.RecordValue(min(max(latencyMin, int64(done.Sub(h.mended)/time.Microsecond)), latencyMax))
	}
	if fresh && entry != h.home && h.phaseOf(due) == outage {
		_ = h.beside.RecordValue(took)
	}
	_ = h.secondOf(due).latency.RecordValue(took)
	h.secondOf(done).answered++
}

// open returns how many payments have no final answer.
func (h *history) open() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.payments {
		if !h.payments[i].answered {
			n++
		}
	}
	return n
}

// errorsOf lists a phase's failures, the most frequent first.
func (h *history) errorsOf(p phase) []ErrorCount {
	var all []ErrorCount
	for kind, n := range h.failures[p] {
		all = append(all, ErrorCount{kind, n})
	}
	slices.SortFunc(all, func(a, b ErrorCount) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind)) })
	return all
}

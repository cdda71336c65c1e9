// Package pace decides when a destination may be tried, so that a slow or dead
// destination occupies neither the slots of the worker nor the store.
//
// A try that is not admitted gets an appointment. Appointments of one destination are
// spread out, so that a backlog of any length returns gradually. The state is local to
// a process and may be wrong; it saves time and decides nothing.
package pace

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// tolerated is how many consecutive failures may be chance, or one refused event.
	// After more the destination counts as down.
	tolerated = 3
	// maxPause bounds the pause between two tries of a destination that is down, and so
	// the delay until its recovery is noticed.
	maxPause = time.Minute
	// maxWait bounds an appointment, and so the delay of the longest backlog once the
	// destination is up again. A backlog of 100,000 rows then costs the store some 300
	// postponements per second, not thousands.
	maxWait = 5 * time.Minute
	// minWait is the shortest appointment, twice the worker's pause between looks.
	minWait = time.Second
	// step is the least time between two appointments.
	step = 5 * time.Millisecond
)

// Gate limits and paces the tries at one destination. It is safe for concurrent
// use.
type Gate struct {
	limit int

	mu       sync.Mutex
	inHand   int
	failures int           // in a row
	until    time.Time     // no try before
	last     time.Time     // the latest appointment
	takes    time.Duration // smoothed duration of a try
	used     time.Time
}

// NewGate returns a gate that admits limit concurrent tries.
func NewGate(limit int) *Gate { return &Gate{limit: limit, used: time.Now()} }

// Enter admits a try, which must end with Leave, Cancel or Try, or returns how long to
// wait before asking again. After a few consecutive failures it admits one try at a
// time, with growing pauses, until one succeeds.
func (g *Gate) Enter() (wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.used = now
	limit := g.limit
	if g.failures >= tolerated {
		limit = 1
	}
	if now.Before(g.until) || g.inHand >= limit {
		return g.appointment(now, g.until), false
	}
	g.inHand++
	return 0, true
}

// Leave ends an admitted try that took so long; ok reports whether the destination
// answered as it should.
func (g *Gate) Leave(took time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.used = now
	g.inHand--
	g.takes = (3*g.takes + took) / 4
	if ok {
		g.failures, g.until = 0, time.Time{}
		return
	}
	g.failures++
	if over := g.failures - tolerated; over >= 0 {
		pause := maxPause
		if over < 6 { // 2^6 s is more than maxPause
			pause = time.Second << over
		}
		g.until = now.Add(pause/2 + rand.N(pause/2+1))
	}
}

// Try makes an admitted try and ends it with its result. A panic does not count
// against the destination, and frees the try's place.
func (g *Gate) Try(try func() (ok bool)) {
	began, over := time.Now(), false
	defer func() {
		if !over {
			g.Cancel()
		}
	}()
	ok := try()
	over = true
	g.Leave(time.Since(began), ok)
}

// Hold admits no try for d, as the destination asked. It never shortens a
// pause.
func (g *Gate) Hold(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until := time.Now().Add(d); until.After(g.until) {
		g.until = until
	}
}

// Cancel ends an admitted try that was not made.
func (g *Gate) Cancel() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inHand--
}

// Postpone records that the destination is down, learned without a try, and returns
// how long to wait.
func (g *Gate) Postpone() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.used = now
	return g.appointment(now, time.Time{})
}

// appointment returns the next free appointment that is not before earliest. The caller
// holds the lock.
func (g *Gate) appointment(now, earliest time.Time) time.Duration {
	at := now.Add(max(minWait, g.takes))
	if earliest.After(at) {
		at = earliest
	}
	if next := g.last.Add(max(step, g.takes/time.Duration(g.limit))); next.After(at) {
		at = next
	}
	if at.Sub(now) > maxWait {
		return maxWait/2 + rand.N(maxWait/2) // all appointments are taken
	}
	g.last = at
	return at.Sub(now)
}

// Gates are the gates of many destinations, each made when it is first asked for.
// They are safe for concurrent use.
type Gates struct {
	limit int
	mu    sync.Mutex
	all   map[string]*Gate
	full  int // the number of gates at which unused ones are next dropped
}

// NewGates returns gates that each admit limit concurrent tries.
func NewGates(limit int) *Gates {
	return &Gates{limit: limit, all: map[string]*Gate{}, full: manyGates}
}

const (
	// manyGates is the number of gates, at some 200 bytes each, at which unused ones
	// are dropped.
	manyGates = 4096
	// lately is longer than any pause or appointment.
	lately = time.Hour
)

// To returns the gate of a destination.
func (g *Gates) To(destination string) *Gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if one, ok := g.all[destination]; ok {
		return one
	}
	if len(g.all) >= g.full {
		for d, one := range g.all {
			if one.forgotten() {
				delete(g.all, d)
			}
		}
		g.full = max(manyGates, 2*len(g.all)) // so that the scan is cheap for each gate
	}
	one := NewGate(g.limit)
	g.all[destination] = one
	return one
}

func (g *Gate) forgotten() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inHand == 0 && time.Since(g.used) > lately
}

package cockroach

import (
	"sync"
	"time"
)

// turns let the statements of all groups for one place go one after the other: begins,
// settlements, pins and look-ups of one home, and each kind again where it is far. Two at
// a time share the database's time and take longer, and each has fewer callers. One at a
// time, and the others gather meanwhile. A caller with nobody beside it waits for nobody.
//
// A turn is no lock. It ends when the statement does, or when the statement has taken
// [turnFor] times as long as they usually take, so that one that hangs does not hold up
// statements of another kind. A statement that has to wait for a connection gives its turn
// back, as calls of another room may have one.
type turns struct {
	// pause: the next statement begins a part of the last one's time later, if several
	// shared that.
	pause bool

	mu     sync.Mutex
	places map[place]*turnstile
}

// place is where the rows of a line are.
type place struct{ home, region string }

// turnstile passes the statements of one place.
type turnstile struct {
	pauses bool

	mu      sync.Mutex
	busy    bool
	waiting []chan struct{} // in the order in which they came
	usual   time.Duration   // what statements took lately
	last    int             // steps in the last one
	took    time.Duration   // by the last one
	ended   time.Time       // the last one
}

const (
	// turnFor is how many times the usual duration a turn may take.
	turnFor = 4
	// usualAtFirst is what a statement takes on a database that nobody else uses.
	usualAtFirst = 5 * time.Millisecond
	// learns is the weight of the latest duration, one part in so many. One that
	// overran its turn counts twice the usual: statements that hang, among others that do
	// not, raise it to some eight times what the others take, and not for ever.
	learns = 8
	// company is how many steps in a statement make the next one pause for more, and
	// pausePart the part of its duration for which that pauses. On CockroachDB a
	// statement costs as much as ten to twenty more steps do, on PostgreSQL less than
	// its callers lose by waiting.
	company   = 4
	pausePart = 2
)

func newTurns(pause bool) *turns { return &turns{pause: pause, places: map[place]*turnstile{}} }

// at returns the turnstile of a place.
func (t *turns) at(p place) *turnstile {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.places[p]
	if s == nil {
		s = &turnstile{pauses: t.pause, usual: usualAtFirst}
		t.places[p] = s
	}
	return s
}

// turn is one statement's.
type turn struct {
	s     *turnstile
	began time.Time
	late  *time.Timer
	once  sync.Once
}

// take waits for a turn. The caller ends it, or begins it and then ends it.
func (s *turnstile) take() *turn {
	s.mu.Lock()
	if s.busy {
		mine := make(chan struct{})
		s.waiting = append(s.waiting, mine)
		s.mu.Unlock()
		<-mine
		s.mu.Lock()
	}
	s.busy = true
	var pause time.Duration
	if s.pauses && s.last >= company {
		pause = s.took/pausePart - time.Since(s.ended)
	}
	s.mu.Unlock()
	if pause > 0 {
		<-time.After(pause)
	}
	return &turn{s: s}
}

// begin bounds the turn, from now.
func (t *turn) begin() {
	t.s.mu.Lock()
	usual := t.s.usual
	t.s.mu.Unlock()
	t.began = time.Now()
	t.late = time.AfterFunc(turnFor*usual, func() { t.over(0, 2*usual) })
}

// end ends a turn, in which a statement had so many steps; 0: none was sent. Ending it
// again does nothing.
func (t *turn) end(steps int) {
	if t.late != nil {
		t.late.Stop()
	}
	var took time.Duration
	if steps > 0 {
		took = time.Since(t.began)
	}
	t.over(steps, took)
}

// over lets the next one pass. took 0 says nothing about statements.
func (t *turn) over(steps int, took time.Duration) {
	t.once.Do(func() {
		s := t.s
		s.mu.Lock()
		defer s.mu.Unlock()
		if took > 0 {
			s.usual += (min(took, 2*s.usual) - s.usual) / learns
			s.usual = max(s.usual, time.Millisecond)
		}
		s.last, s.took, s.ended = steps, took, time.Now()
		if len(s.waiting) == 0 {
			s.busy = false
			return
		}
		close(s.waiting[0])
		s.waiting = s.waiting[1:]
	})
}

package cockroach

import (
	"sync"
	"time"
)

// turns let the statements of all groups for one home go one after the other: begins,
// settlements, pins and look-ups. Two at a time share the database's time and take
// longer, and each has fewer callers. One at a time, and the others gather meanwhile. A
// caller with nobody beside it waits for nobody. Statements for far rows take turns
// only with those of their own kind: most of what they take is the way. Where a further
// statement is cheap, as on PostgreSQL, a kind goes aside, without a turn, while few share
// its statements: its callers would wait longer than the database gains.
//
// A turn is no lock. It ends when the statement does, or when the statement has taken
// [turnFor] times as long as they usually take, so that one that hangs does not hold up
// statements of another kind. A statement that has to wait for a connection gives its turn
// back, as calls of another room may have one.
type turns struct {
	// pause: a statement is dear. Where several shared the last one, the next one begins a
	// part of its time after it ended, or after the next caller came; and none goes aside.
	pause bool

	mu     sync.Mutex
	places map[place]*turnstile
}

// place is what a turnstile is for: a home's rows that are near, or those that are in a
// far region and a kind of statement.
type place struct{ home, region, kind string }

// turnstile passes the statements for one place.
type turnstile struct {
	pauses bool

	mu      sync.Mutex
	busy    bool
	waiting []chan struct{} // in the order in which they came
	usual   time.Duration   // what statements took lately
	last    int             // steps in the last one that was answered in its turn
	took    time.Duration   // by that one
	ended   time.Time       // that one
}

const (
	// turnFor is how many times the usual duration a turn may take.
	turnFor = 4
	// usualAtFirst is what a statement takes on a database that nobody else uses.
	usualAtFirst = 5 * time.Millisecond
	// learns is the weight of the latest duration, one part in so many. It counts as
	// twice the usual at most, so that few slow statements change little.
	learns = 8
	// company is how many steps in a statement make the next one pause for more, or take a
	// turn at all where statements do not pause. pausePart is the part of its duration for
	// which the next one pauses. On CockroachDB a statement costs as much as ten to twenty
	// more steps do, on PostgreSQL less than its callers lose by waiting.
	company   = 4
	pausePart = 2
	// pauseMost bounds the pause: what a statement takes beyond twice of it is the way, or
	// a queue at the database.
	pauseMost = 25 * time.Millisecond
	// companyFor is for how long after that statement callers are expected to come together.
	// Those who shared it come back together, when the provider has answered or the merchant
	// sends the next request, and the first of them by a little: without a pause it is sent
	// alone, and stays ahead of the others by a statement of its own in every step.
	companyFor = time.Second
)

func newTurns(pause bool) *turns { return &turns{pause: pause, places: map[place]*turnstile{}} }

// at returns the turnstile of a home, and of a kind of statement where the rows are far,
// in region; "" for near ones.
func (t *turns) at(home, region, kind string) *turnstile {
	p := place{home, region, kind}
	if region == "" {
		p.kind = ""
	}
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
	mute  bool // no statement was sent, or it failed
	aside bool // it goes beside others, and none waits for it
}

// take waits for a turn. The caller ends it, or begins it and then ends it. last is how
// many steps the caller's last statement had, 0 if this is the first.
func (s *turnstile) take(last int) *turn {
	if !s.pauses && last < company {
		return &turn{s: s, aside: true}
	}
	came := time.Now()
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
	if s.pauses && s.last >= company && came.Before(s.ended.Add(companyFor)) {
		if came.Before(s.ended) {
			came = s.ended // with those who get their answers now
		}
		pause = min(s.took/pausePart, pauseMost) - time.Since(came)
	}
	s.mu.Unlock()
	if pause > 0 {
		<-time.After(pause)
	}
	return &turn{s: s}
}

// begin bounds the turn, from now.
func (t *turn) begin() {
	t.began = time.Now()
	if t.aside {
		return
	}
	t.s.mu.Lock()
	usual := t.s.usual
	t.s.mu.Unlock()
	t.late = time.AfterFunc(turnFor*usual, func() { t.over(0) })
}

// end ends a turn, in which a statement with so many steps was answered; 0: none was sent,
// or it failed. After a turn that was ended so, ending it again does nothing.
func (t *turn) end(steps int) {
	if t.late != nil {
		t.late.Stop()
	}
	if t.mute = t.mute || steps == 0; !t.mute {
		t.s.learn(time.Since(t.began))
	}
	t.over(steps)
}

// learn counts what a statement took, in its turn or longer. One that fails does not
// count: while some hang until their time-out, the turns of the others would become as
// long as that.
func (s *turnstile) learn(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usual += (min(took, 2*s.usual) - s.usual) / learns
	s.usual = max(s.usual, time.Millisecond)
}

// over lets the next one pass. steps 0: no statement was answered in the turn.
func (t *turn) over(steps int) {
	if t.aside {
		return
	}
	t.once.Do(func() {
		s := t.s
		s.mu.Lock()
		defer s.mu.Unlock()
		if steps > 0 {
			s.ended = time.Now()
			s.last, s.took = steps, s.ended.Sub(t.began)
		}
		if len(s.waiting) == 0 {
			s.busy = false
			return
		}
		close(s.waiting[0])
		s.waiting = s.waiting[1:]
	})
}

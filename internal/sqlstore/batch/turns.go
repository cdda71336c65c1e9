package batch

import (
	"sync"
	"time"
)

const (
	// shared is how many steps in a statement make the next one pause, for its duration
	// divided by pausePart, and maxPause at most: what a statement takes beyond twice of
	// that is a queue at the database.
	shared    = 4
	pausePart = 2
	maxPause  = 25 * time.Millisecond
	// sharedFor is for how long after such a statement its callers are expected to come
	// back together, when the provider has answered or the merchant sends the next request.
	sharedFor = time.Second
)

// Turns let the near statements of several kinds go one after the other, by homes. After a
// statement that several steps shared, the next one pauses, so that those who get their
// answers now gather again. Without the turns and the pause a charge costs CockroachDB half
// as much again, which its budget does not allow. A lone caller waits for nobody. The zero
// value is ready.
type Turns struct{ homes sync.Map }

// turn is that of one home, or of one far line. Who has its slot reads and writes the rest.
type turn struct {
	slot  chan struct{}
	pause time.Duration
	until time.Time // a statement pauses that begins before
}

// of returns the turn of a line: that of its home if it is near, and one of its own if it is far. nil
// Turns have none.
func (t *Turns) of(at Line) *turn {
	mine := &turn{slot: make(chan struct{}, 1)}
	switch {
	case t == nil:
		return nil
	case at.Region != "":
		return mine
	}
	of, _ := t.homes.LoadOrStore(at.Home, mine)
	return of.(*turn)
}

// take waits for the turn, in the order of those who came, and then pauses.
func (t *turn) take() {
	t.slot <- struct{}{}
	if time.Now().Before(t.until) {
		<-time.After(t.pause)
	}
}

// end ends a turn whose statement had so many steps and took so long.
func (t *turn) end(steps int, took time.Duration) {
	t.until = time.Time{}
	if steps >= shared {
		t.pause, t.until = min(took/pausePart, maxPause), time.Now().Add(sharedFor)
	}
	<-t.slot
}

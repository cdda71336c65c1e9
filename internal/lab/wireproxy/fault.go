package wireproxy

import (
	"context"
	"fmt"
	"sync"
)

// Fault is what happens to a request that executes an armed statement. "Cut" means that
// both connections, the client's and the database's, are closed without notice.
type Fault int

// The zero value is no fault.
const (
	// DropBefore cuts; the request never reaches the database.
	DropBefore Fault = iota + 1
	// DropAfter waits until the database has finished, drops its reply and cuts.
	DropAfter
	// Refuse40001 answers SQLSTATE 40001 in the database's stead. The request
	// never reaches it and the connection lives on.
	Refuse40001
	// Ambiguous40003Done waits until the database has finished and replaces the
	// reply with SQLSTATE 40003. The connection lives on.
	Ambiguous40003Done
	// Ambiguous40003NotDone answers SQLSTATE 40003; the request never reaches
	// the database. The connection lives on.
	Ambiguous40003NotDone
	// StallBefore answers nothing and never passes the request on. When the
	// client gives up, or after [Shot.Release], it cuts.
	StallBefore
	// StallAfter waits until the database has finished and holds the reply back.
	// When the client gives up, or after [Shot.Release], it cuts.
	StallAfter
	// LateDone closes the client's connection at once and keeps the database's.
	// [Shot.Release] passes the request on: a statement that commits after its
	// client has given up and read back.
	LateDone
	// RowsThenError passes the rows on that the database returns, and then SQLSTATE 40001
	// in place of their end: PostgreSQL sends rows before it commits. Nothing is
	// committed. The connection lives on. Within a transaction block it is
	// [Refuse40001].
	RowsThenError
)

var faultNames = [...]string{
	DropBefore: "DropBefore", DropAfter: "DropAfter", Refuse40001: "Refuse40001",
	Ambiguous40003Done: "Ambiguous40003Done", Ambiguous40003NotDone: "Ambiguous40003NotDone",
	StallBefore: "StallBefore", StallAfter: "StallAfter", LateDone: "LateDone", RowsThenError: "RowsThenError",
}

// String is the name of the constant.
func (f Fault) String() string {
	if f < DropBefore || int(f) >= len(faultNames) {
		return fmt.Sprintf("Fault(%d)", int(f))
	}
	return faultNames[f]
}

// Shot is one order to inject a fault into a statement; see [Proxy.Arm]. Its methods
// may be called from any goroutine.
type Shot struct {
	statement string
	fault     Fault
	spent     chan struct{} // closed when fired == times
	released  chan struct{} // closed by Release

	mu    sync.Mutex
	times int
	aimed int // requests that this shot has been given
	fired int
	free  bool           // Release has been called
	held  map[*conn]bool // connections that wait for Release
}

func newShot(statement string, fault Fault, times int) *Shot {
	s := &Shot{
		statement: statement, fault: fault, times: times,
		spent: make(chan struct{}), released: make(chan struct{}),
		held: make(map[*conn]bool),
	}
	if times < 1 {
		close(s.spent)
	}
	return s
}

// Fired returns how many requests have been hit so far. It grows before the client can
// notice: after the database has finished if the fault waits for that, and before the
// connection is cut or the error is sent.
func (s *Shot) Fired() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fired
}

// Wait blocks until the shot has fired as often as it was armed for, or ctx is
// done, which is an error. For a stall that means the request is being held.
func (s *Shot) Wait(ctx context.Context) error {
	select {
	case <-s.spent:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Errorf("wireproxy: %s fired %d of %d times at %s: execute the statement through the proxy: %w",
			s.fault, s.fired, s.times, s.statement, context.Cause(ctx))
	}
}

// Disarm lets all further requests pass. It does not end what the shot holds, as [Shot.Release]
// does.
func (s *Shot) Disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aimed >= s.times {
		return
	}
	s.times = s.aimed
	if s.fired == s.times {
		close(s.spent)
	}
}

// Release ends what the shot holds and returns when that has ended. It passes on
// requests held by [LateDone], and waits until the database has finished them; it cuts
// stalled connections. Later hits are not held any more. For other faults Release does
// nothing. It may be called twice.
func (s *Shot) Release() {
	s.mu.Lock()
	if !s.free {
		s.free = true
		close(s.released)
	}
	held := make([]*conn, 0, len(s.held))
	for c := range s.held {
		held = append(held, c)
	}
	s.mu.Unlock()
	for _, c := range held {
		if s.fault != LateDone {
			c.cut()
		}
		<-c.done
	}
}

// take claims one of the shot's times for a request.
func (s *Shot) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aimed >= s.times {
		return false
	}
	s.aimed++
	return true
}

func (s *Shot) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fireLocked()
}

func (s *Shot) fireLocked() {
	s.fired++
	if s.fired == s.times {
		close(s.spent)
	}
}

// fireHolding fires and registers c, in one step so that a Release which follows
// the shot always finds it. It reports false when Release was called before.
func (s *Shot) fireHolding(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fireLocked()
	if s.free {
		return false
	}
	s.held[c] = true
	return true
}

func (s *Shot) letGo(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, c)
}

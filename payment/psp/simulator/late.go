package simulator

import (
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// lateCall is a call that has lost its caller and not yet taken effect.
type lateCall struct {
	call   psp.Call
	decide func(psp.Call) (record, int, error)
	timer  *time.Timer
}

// decideLater lets call take effect after a while. Hooks do not see it.
func (s *Simulator) decideLater(call psp.Call, after time.Duration, decide func(psp.Call) (record, int, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.lateLast++
	n := s.lateLast
	s.late[n] = lateCall{call, decide, time.AfterFunc(after, func() { s.takeLate(n) })}
}

// takeLate decides a late call, unless it was decided already.
func (s *Simulator) takeLate(n int64) {
	s.mu.Lock()
	l, waiting := s.late[n]
	if !waiting {
		s.mu.Unlock()
		return
	}
	delete(s.late, n)
	l.timer.Stop()
	s.lateEffects++
	s.lateRunning.Add(1) // under mu, so that Close, which sets closed under it, waits
	s.mu.Unlock()
	defer s.lateRunning.Done()
	if _, _, err := l.decide(l.call); err != nil {
		s.logger.Warn("a late call took no effect", "reference", l.call.Reference, "error", err)
	}
}

// ReleaseLate lets every pending call of Faults.LateEffect take effect now, and returns
// their number once the last has.
func (s *Simulator) ReleaseLate() int {
	s.mu.Lock()
	waiting := make([]int64, 0, len(s.late))
	for n := range s.late {
		waiting = append(waiting, n)
	}
	s.mu.Unlock()
	for _, n := range waiting {
		s.takeLate(n)
	}
	return len(waiting)
}

package claim

import (
	"context"
	"errors"
	"time"

	"github.com/homeward-io/homeward/meter"
)

// meters are what a service tells.
type meters struct {
	claims, conflicts, mismatches, generations, settled, takeOvers, fenced, givenUp *meter.Counter
	waited                                                                          *meter.Histogram
}

func newMeters(s *meter.Set) meters {
	return meters{
		claims: s.Counter(meter.Claims), conflicts: s.Counter(meter.Conflicts), mismatches: s.Counter(meter.Mismatches),
		generations: s.Counter(meter.Generations), settled: s.Counter(meter.Settled), takeOvers: s.Counter(meter.TakeOvers),
		fenced: s.Counter(meter.Fenced), givenUp: s.Counter(meter.GivenUp), waited: s.Histogram(meter.WaitDuration),
	}
}

// begun tells what an arrival came to.
func (m *meters) begun(req *Request, b *Begun, err error) {
	switch {
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrHomeUnreachable):
		m.claims.Add(1, meter.Unavailable)
		return
	case err != nil:
		m.claims.Add(1, meter.Failed)
		return
	}
	m.claims.Add(1, b.Decision.String())
	switch b.Decision {
	case Won:
		if b.Record.Generation > 1 {
			m.generations.Add(1, req.Operation)
		}
	case WonUnknown:
		m.takeOvers.Add(1, byRetry)
	case Mismatch:
		m.mismatches.Add(1, req.Key.Tenant)
	default:
	}
}

// Who takes claims over.
const (
	byRetry    = "retry"
	byRecovery = "recovery"
)

// wait tells how the wait for a rival ended.
func (m *meters) wait(ctx context.Context, d Decision, took time.Duration) {
	outcome := "answered"
	switch {
	case ctx.Err() != nil:
		outcome = "gone"
	case d == Busy:
		outcome = meter.InUse
	}
	m.conflicts.Add(1, outcome)
	m.waited.Took(ctx, took)
}

// states are those of a claim as labels.
var states = map[State]string{InFlight: "in_flight", Completed: "completed", FailedTerminal: "failed_terminal", FailedRetry: "failed_retry"}

// ended tells what became of a verdict.
func (m *meters) ended(operation string, settled *Record, err error) {
	switch {
	case errors.Is(err, ErrFenced):
		m.fenced.Add(1, "settle")
	case err == nil:
		m.settled.Add(1, operation, states[settled.State])
		if settled.State == FailedTerminal && settled.Reason == ReasonOutcomeUnknown {
			m.givenUp.Add(1, operation)
		}
	}
}

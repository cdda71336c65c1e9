package claim

import (
	"context"
	"errors"
	"time"

	"github.com/homeward-io/homeward/internal/meter"
)

// meters are the metrics of a service.
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

// metersOf returns the metrics of a tenant's claims. Those of a test tenant are not counted: an
// operator has nothing to do about them.
func (s *Service) metersOf(tenant string) *meters {
	if Livemode(tenant) {
		return &s.meters
	}
	return &unmetered
}

// unmetered counts nothing.
var unmetered = newMeters(nil)

// begun counts an arrival by its outcome.
func (m *meters) begun(req *Request, b *Begun, err error) {
	switch {
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrHomeUnreachable):
		m.claims.Add(1, meter.Unavailable)
		return
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return // the caller disconnected before the step was sent
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

// Values of the label for who took a claim over.
const (
	byRetry    = "retry"
	byRecovery = "recovery"
)

// wait counts how a wait for a rival ended.
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

// states maps the states of a claim to labels.
var states = map[State]string{InFlight: "in_flight", Completed: "completed", FailedTerminal: "failed_terminal", FailedRetry: "failed_retry"}

// ended counts a verdict by its outcome.
func (m *meters) ended(operation string, settled *Record, err error) {
	switch {
	case errors.Is(err, ErrFenced):
		m.fenced.Add(1, "settle")
	case errors.Is(err, ErrUnstorable):
		m.settled.Add(1, operation, meter.Refused)
	case err == nil:
		m.settled.Add(1, operation, states[settled.State])
		if settled.State == FailedTerminal && settled.Reason == ReasonOutcomeUnknown {
			m.givenUp.Add(1, operation)
		}
	}
}

package claim

import (
	"context"
	"errors"

	"github.com/homeward-io/homeward/internal/span"
)

// Answered reports whether err, from a [Service] here or in another region, is an
// answer to the request or the caller's own fault. Spans are not marked as failed for
// such an error. The result for nil has no meaning.
func Answered(err error) bool {
	var (
		inUse   *InUseError
		unknown *UnknownError
		expired *ExpiredError
		held    *WithheldError
	)
	return errors.Is(err, ErrMismatch) || errors.Is(err, ErrNeedPin) || errors.Is(err, ErrNoClaim) || errors.Is(err, ErrNoNewHomes) ||
		errors.As(err, &inUse) || errors.As(err, &unknown) || errors.As(err, &expired) || errors.As(err, &held) ||
		errors.Is(err, ErrFenced) || errors.Is(err, ErrLeaseHeld) || errors.Is(err, context.Canceled)
}

// failed marks sp as failed unless err is an answer.
func failed(sp span.Span, err error) {
	if err != nil && !Answered(err) {
		span.Fail(sp, err)
	}
}

// traceClaim records the outcome of a step that tried to take the claim.
func (s *Service) traceClaim(sp span.Span, rec *Record, decision string, err error) {
	if !sp.IsRecording() {
		return
	}
	sp.SetAttributes(span.Region.String(s.c.Region), span.Node.String(s.c.Node))
	if err != nil {
		failed(sp, err)
		return
	}
	sp.SetAttributes(span.Decision.String(decision))
	if rec.Fence > 0 {
		sp.SetAttributes(span.HomeRegion.String(rec.Home), span.Object.String(rec.Minted.ID),
			span.State.String(rec.State.String()), span.Fence.Int64(int64(rec.Fence)))
	}
}

// traceAttempt records the outcome of an attempt.
func traceAttempt(sp span.Span, rec *Record, recovery bool, o Outcome) {
	if !sp.IsRecording() {
		return
	}
	sp.SetAttributes(span.AttemptNo.Int64(int64(rec.Attempts)), span.Generation.Int64(int64(rec.Generation)),
		span.Fence.Int64(int64(rec.Fence)), span.Recovery.Bool(recovery), span.Outcome.String(o.String()))
	if reason := o.reason(); reason != "" {
		sp.SetAttributes(span.Reason.String(reason))
	}
}

// traceSettle records what was settled.
func traceSettle(sp span.Span, rec *Record, err error) {
	if !sp.IsRecording() {
		return
	}
	if err != nil {
		failed(sp, err)
		return
	}
	sp.SetAttributes(span.State.String(rec.State.String()), span.Fence.Int64(int64(rec.Fence)))
	if rec.Reason != "" {
		sp.SetAttributes(span.Reason.String(rec.Reason))
	}
}

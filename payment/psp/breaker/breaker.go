// Package breaker protects a provider that does not answer: a circuit breaker around a
// [psp.Provider].
//
// Each call to a hanging provider holds a claim, a connection and a goroutine for the provider's
// whole time-out, and keeps the provider from recovering. Once half of the calls get no answer the
// circuit opens: for [OpenFor] nothing is sent, and every call returns at once with an Unknown
// outcome and a *[psp.NotSentError] as its Err. The caller then knows that this call moved nothing,
// and when to retry. After that [Probes] calls are let through; the circuit closes when all of them
// are answered, and opens again with the first that is not.
//
// Only missing answers count against a provider. An approval and a decline are answers,
// and so are "nothing under this reference" and [psp.ErrKeyReused]. Look-ups count like
// calls: they take the same path, and after an outage they come first.
//
// The breaker decides nothing about money. The executor handles its Unknown like any
// other; an open circuit only makes it cheaper and later.
package breaker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/homeward-io/homeward/payment/psp"
)

const (
	// Window is how far back answers count. It exceeds the usual time-out of one
	// call (30 s), so that calls that began together and hang are counted together.
	Window = time.Minute
	// bucket is the step in which the window moves on.
	bucket = 5 * time.Second
	// MinCalls is how many calls, answered or not, the window must hold before the
	// circuit may open. Fewer may fail by chance, and at such a rate hanging calls
	// block nothing.
	MinCalls = 20
	// MaxUnknownShare is the share of them that may go unanswered. Healthy providers
	// lose fewer than one in a hundred; a provider that loses half is down, not slow,
	// and needs the pause to recover.
	MaxUnknownShare = 0.5
	// OpenFor is how long nothing is sent: long enough for a provider to restart
	// without load, short enough that a merchant who retries hardly notices.
	OpenFor = 10 * time.Second
	// Probes is how many calls are let through after that, and must all be answered.
	// One could succeed by chance; more than a few would be load.
	Probes = 3
	// probeWait is when to retry while the probes are under way: an answer usually
	// takes less than a second.
	probeWait = time.Second
)

// Provider decorates a provider. It is not a psp.Notifier: the adapter behind it reads
// notices, whatever the circuit's state. It is safe for concurrent use.
type Provider struct {
	psp.Provider
	circuit *gobreaker.TwoStepCircuitBreaker[answer]
	// opened is when the circuit last opened, in nanoseconds since began: gobreaker
	// does not report it.
	began  time.Time
	opened atomic.Int64
}

// answer is the result of a call or a look-up.
type answer struct {
	found  psp.Found
	result psp.Result
}

// Outcomes of a call as the circuit sees them.
var (
	errNoAnswer = errors.New("breaker: no answer")
	// errAbandoned: the caller gave up, or our adapter panicked, which proves nothing
	// about the provider.
	errAbandoned = errors.New("breaker: abandoned")
)

// New puts a closed circuit around p. Use one for each provider and process. A nil
// logger means slog.Default.
func New(p psp.Provider, log *slog.Logger) *Provider {
	if log == nil {
		log = slog.Default()
	}
	b := &Provider{Provider: p, began: time.Now()}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[answer](gobreaker.Settings{
		Name: p.Name(), MaxRequests: Probes, Interval: Window, BucketPeriod: bucket, Timeout: OpenFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			answered := c.TotalSuccesses + c.TotalFailures // Requests includes those under way
			return answered >= MinCalls && float64(c.TotalFailures) >= MaxUnknownShare*float64(answered)
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errAbandoned) },
		OnStateChange: func(name string, from, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				b.opened.Store(int64(time.Since(b.began)))
			}
			log.Warn("provider circuit changed", "provider", name, "from", from.String(), "to", to.String())
		},
	})
	return b
}

// Charge makes one attempt, or none while the circuit is open.
func (b *Provider) Charge(ctx context.Context, call psp.Call) psp.Result {
	return b.call(ctx, call, b.Provider.Charge)
}

// Transfer is as Charge.
func (b *Provider) Transfer(ctx context.Context, call psp.Call) psp.Result {
	return b.call(ctx, call, b.Provider.Transfer)
}

// Refund is as Charge.
func (b *Provider) Refund(ctx context.Context, call psp.Call) psp.Result {
	return b.call(ctx, call, b.Provider.Refund)
}

func (b *Provider) call(ctx context.Context, call psp.Call, move func(context.Context, psp.Call) psp.Result) psp.Result {
	return b.run(ctx, func() (answer, bool) {
		r := move(ctx, call)
		return answer{result: r}, r.Outcome != psp.Unknown || errors.Is(r.Err, psp.ErrKeyReused)
	}).result
}

// Capture is as Charge.
func (b *Provider) Capture(ctx context.Context, call psp.Call) psp.Result {
	return b.call(ctx, call, b.Provider.Capture)
}

// Cancel is as Charge.
func (b *Provider) Cancel(ctx context.Context, call psp.Call) psp.Result {
	return b.call(ctx, call, b.Provider.Cancel)
}

// Lookup asks, unless the circuit is open: then the answer is FoundUnknown.
func (b *Provider) Lookup(ctx context.Context, call psp.Call) (psp.Found, psp.Result) {
	a := b.run(ctx, func() (answer, bool) {
		found, r := b.Provider.Lookup(ctx, call)
		return answer{found, r}, found != psp.FoundUnknown
	})
	return a.found, a.result
}

// run runs ask if the circuit allows it, and counts whether it was answered. A call that ask did
// not send counts for nothing, and neither does a panic of the adapter: a panic is a fault of our
// code, and the retries of one request must not open the circuit for all.
func (b *Provider) run(ctx context.Context, ask func() (answer, bool)) answer {
	done, err := b.circuit.Allow()
	switch {
	case errors.Is(err, gobreaker.ErrOpenState):
		left := OpenFor - (time.Since(b.began) - time.Duration(b.opened.Load()))
		// The circuit half-opens after its time, not at it.
		return held("the provider's circuit is open", max(left, 0)+time.Millisecond)
	case err != nil:
		return held("the provider's circuit is half open, and its probes are under way", probeWait)
	}
	outcome := errAbandoned
	defer func() { done(outcome) }()
	a, answered := ask()
	var kept *psp.NotSentError
	switch {
	case errors.As(a.result.Err, &kept):
	case answered:
		outcome = nil
	case !errors.Is(ctx.Err(), context.Canceled):
		outcome = errNoAnswer
	}
	return a
}

func held(reason string, retryIn time.Duration) answer {
	return answer{result: psp.Result{Err: &psp.NotSentError{RetryIn: retryIn, Reason: reason}}}
}

// State returns the circuit's state for people: "closed", "open" or "half-open".
func (b *Provider) State() string { return b.circuit.State().String() }

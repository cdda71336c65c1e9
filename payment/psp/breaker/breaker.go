// Package breaker spares a provider that does not answer: a circuit breaker around
// a [psp.Provider].
//
// Each call to a provider that hangs holds a claim, a connection and a goroutine for
// the provider's whole time-out, and keeps the provider from recovering. Once half
// of the answers stay away the circuit opens: for [OpenFor] nothing is sent, and
// every call is answered at once with an Unknown outcome whose Err is a
// *[psp.NotSentError]. That is the truth, and more than a call would have brought to
// light: whoever asks knows that this call moved nothing, and when to try again. Then
// [Probes] calls are let through; the circuit closes when all of them are answered,
// and opens again with the first that is not.
//
// Only silence counts against a provider. An approval and a decline are answers, and
// so are "nothing under this reference" and [psp.ErrKeyReused]. Look-ups count like calls: they go the same
// way, and after an outage they come first.
//
// The breaker decides nothing about money. What a claim may do after an Unknown is
// decided as always; an open circuit only makes it cheaper and later.
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
	// bucket is by how much the window moves on at a time.
	bucket = 5 * time.Second
	// MinCalls is how many answers, or their absence, the window must hold before
	// the circuit may open. Fewer may be one merchant's bad luck, and at such a rate
	// hanging calls hold nothing up.
	MinCalls = 20
	// MaxUnknownShare is the share of them that may stay away. Healthy providers
	// lose fewer than one in a hundred; one that loses half is not slow but down, and
	// the other half gets through once it is left alone.
	MaxUnknownShare = 0.5
	// OpenFor is how long nothing is sent: long enough that a provider which
	// restarts is not met by everything at once, short enough that a merchant who
	// retries hardly notices the difference.
	OpenFor = 10 * time.Second
	// Probes is how many calls are let through after that, and must all be answered.
	// One could be luck; more than a few would be load.
	Probes = 3
	// probeWait is when to try again while the probes are under way: an answer
	// usually takes less than a second.
	probeWait = time.Second
)

// Provider decorates a provider. It is no psp.Notifier: notices are read by the
// adapter behind it, whatever its circuit. It is safe for concurrent use.
type Provider struct {
	psp.Provider
	circuit *gobreaker.TwoStepCircuitBreaker[answer]
	// opened is when the circuit opened last, in nanoseconds since began: gobreaker
	// does not tell.
	began  time.Time
	opened atomic.Int64
}

// answer is what came of a call or a look-up.
type answer struct {
	found  psp.Found
	result psp.Result
}

// Outcomes of a call as the circuit sees them.
var (
	errNoAnswer = errors.New("breaker: no answer")
	// errAbandoned: we hung up ourselves, or our adapter panicked, which says nothing
	// about the provider.
	errAbandoned = errors.New("breaker: abandoned")
)

// New puts a closed circuit around p, of which there must be one for each provider
// and process. A nil logger means slog.Default.
func New(p psp.Provider, log *slog.Logger) *Provider {
	if log == nil {
		log = slog.Default()
	}
	b := &Provider{Provider: p, began: time.Now()}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[answer](gobreaker.Settings{
		Name: p.Name(), MaxRequests: Probes, Interval: Window, BucketPeriod: bucket, Timeout: OpenFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			answered := c.TotalSuccesses + c.TotalFailures // Requests has those under way, too
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

// run lets ask go ahead if the circuit does, and counts whether it was answered. What was
// not sent from below says nothing of the provider. An
// adapter that panics counts for nothing: the fault is ours, and a request that is sent
// again and again because of it must not stop everybody else's.
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

// State is the circuit's, for people: "closed", "open" or "half-open".
func (b *Provider) State() string { return b.circuit.State().String() }

package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// MaxLatency bounds Latency and Jitter, each: longer than any adapter waits,
// shorter than the server's write time-out.
const MaxLatency = 60 * time.Second

// Faults is how the provider misbehaves. The three probabilities are 0 to 1 and
// drawn independently for every POST that is well formed, repeats of a key
// included. The zero value is a provider in good health.
type Faults struct {
	// Latency, plus up to Jitter, passes before anything is decided. Look-ups
	// take Latency, without a draw, so that asking does not shift the sequence.
	Latency, Jitter time.Duration
	// ErrorBefore: 503, and no money moves.
	ErrorBefore float64
	// ErrorAfter: the call takes effect, and the reply is a 500.
	ErrorAfter float64
	// DropReply: the call takes effect, and the connection is cut.
	DropReply float64
	// Seed restarts the sequence of draws, each time faults are set.
	Seed uint64
}

// faultsWire is Faults as JSON. Times are in milliseconds, fractions allowed.
type faultsWire struct {
	LatencyMS   float64 `json:"latency_ms"`
	JitterMS    float64 `json:"jitter_ms"`
	ErrorBefore float64 `json:"error_before"`
	ErrorAfter  float64 `json:"error_after"`
	DropReply   float64 `json:"drop_reply"`
	Seed        uint64  `json:"seed"`
}

func (f Faults) wire() faultsWire {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return faultsWire{ms(f.Latency), ms(f.Jitter), f.ErrorBefore, f.ErrorAfter, f.DropReply, f.Seed}
}

// parseFaults reads the body of a PUT. Members left out are 0.
func parseFaults(r io.Reader) (Faults, error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	var w faultsWire
	if err := dec.Decode(&w); err != nil {
		return Faults{}, fmt.Errorf("faults: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Faults{}, errors.New("faults: more than one JSON value")
	}
	var f Faults
	for _, m := range []struct {
		name string
		ms   float64
		to   *time.Duration
	}{{"latency_ms", w.LatencyMS, &f.Latency}, {"jitter_ms", w.JitterMS, &f.Jitter}} {
		// Checked before the conversion, which is undefined out of range.
		if max := float64(MaxLatency / time.Millisecond); m.ms < 0 || m.ms > max {
			return Faults{}, fmt.Errorf("faults: %s must be 0 to %.0f", m.name, max)
		}
		*m.to = time.Duration(m.ms * float64(time.Millisecond))
	}
	f.ErrorBefore, f.ErrorAfter, f.DropReply, f.Seed = w.ErrorBefore, w.ErrorAfter, w.DropReply, w.Seed
	return f, f.validate()
}

func (f Faults) validate() error {
	for _, m := range []struct {
		name string
		d    time.Duration
	}{{"latency", f.Latency}, {"jitter", f.Jitter}} {
		if m.d < 0 || m.d > MaxLatency {
			return fmt.Errorf("faults: %s must be 0 to %s", m.name, MaxLatency)
		}
	}
	for _, m := range []struct {
		name string
		p    float64
	}{{"error_before", f.ErrorBefore}, {"error_after", f.ErrorAfter}, {"drop_reply", f.DropReply}} {
		if !(m.p >= 0 && m.p <= 1) { // so written that NaN is refused
			return fmt.Errorf("faults: %s must be a probability, 0 to 1", m.name)
		}
	}
	return nil
}

// SetFaults replaces all faults and restarts the draws from f.Seed. It changes
// nothing when a member is out of range. Calls already drawn for keep what they
// drew.
func (s *Simulator) SetFaults(f Faults) error {
	if err := f.validate(); err != nil {
		return fmt.Errorf("simulator: %w", err)
	}
	s.faults.set(f)
	return nil
}

// Faults returns what is set.
func (s *Simulator) Faults() Faults { return s.faults.get() }

// faultSource draws each call's fate.
type faultSource struct {
	mu  sync.Mutex
	now Faults
	rng *rand.Rand
}

// fate is what one call will suffer.
type fate struct {
	delay                              time.Duration
	errorBefore, errorAfter, dropReply bool
}

func (s *faultSource) set(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = f
	s.rng = rand.New(rand.NewPCG(f.Seed, 0))
}

func (s *faultSource) get() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// draw always takes the same number of draws, so that one fault's probability
// does not shift the others' sequence.
func (s *faultSource) draw() fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	jitter, before, after, drop := s.rng.Float64(), s.rng.Float64(), s.rng.Float64(), s.rng.Float64()
	return fate{
		delay:       s.now.Latency + time.Duration(jitter*float64(s.now.Jitter)),
		errorBefore: before < s.now.ErrorBefore,
		errorAfter:  after < s.now.ErrorAfter,
		dropReply:   drop < s.now.DropReply,
	}
}

// pause waits out the delay, or until the client is gone.
func (f fate) pause(ctx context.Context) error {
	if f.delay <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(f.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Hooks let a test in the same process stand at a known point of a call. Each is
// called on the call's own goroutine, which it may hold up. ctx ends when the
// client hangs up. Nil members are skipped.
type Hooks struct {
	// Before runs after the latency and before the decision. The call is decided
	// once Before returns, even if the client hung up meanwhile: it stands for a
	// call that is still on its way.
	Before func(ctx context.Context, call psp.Call)
	// After runs once the outcome is durable and before the reply is sent.
	After func(ctx context.Context, call psp.Call)
}

// SetHooks replaces the hooks, for calls that have not reached them yet.
func (s *Simulator) SetHooks(h Hooks) { s.hooks.Store(&h) }

func (s *Simulator) before(ctx context.Context, call psp.Call) {
	if h := s.hooks.Load(); h != nil && h.Before != nil {
		h.Before(ctx, call)
	}
}

func (s *Simulator) after(ctx context.Context, call psp.Call) {
	if h := s.hooks.Load(); h != nil && h.After != nil {
		h.After(ctx, call)
	}
}

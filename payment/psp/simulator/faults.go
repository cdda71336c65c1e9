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

// MaxLate bounds Faults.LateBy and the delays of notices: longer than any
// provider has been seen to take.
const MaxLate = 7 * 24 * time.Hour

// Faults is how the provider misbehaves. The probabilities are 0 to 1 and
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
	// LateEffect: the reply is a 504, or a cut connection if DropReply is drawn too,
	// and the call takes effect only LateBy after it, like one delayed in transit. So
	// money moves after its caller has given up. Drawn independently of the others; if
	// ErrorBefore is drawn too nothing moves at all. A call that has not taken effect
	// when the process ends never does.
	LateEffect float64
	LateBy     time.Duration
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
	LateEffect  float64 `json:"late_effect,omitempty"`
	LateMS      float64 `json:"late_effect_ms,omitempty"`
	Seed        uint64  `json:"seed"`
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (f Faults) wire() faultsWire {
	return faultsWire{
		LatencyMS: milliseconds(f.Latency), JitterMS: milliseconds(f.Jitter),
		ErrorBefore: f.ErrorBefore, ErrorAfter: f.ErrorAfter, DropReply: f.DropReply,
		LateEffect: f.LateEffect, LateMS: milliseconds(f.LateBy), Seed: f.Seed,
	}
}

// parseFaults reads the body of a PUT. Members left out are 0.
func parseFaults(r io.Reader) (Faults, error) {
	var w faultsWire
	if err := decodeStrictly(r, &w); err != nil {
		return Faults{}, fmt.Errorf("faults: %w", err)
	}
	f := Faults{ErrorBefore: w.ErrorBefore, ErrorAfter: w.ErrorAfter, DropReply: w.DropReply, LateEffect: w.LateEffect, Seed: w.Seed}
	for _, m := range []struct {
		name string
		ms   float64
		max  time.Duration
		to   *time.Duration
	}{
		{"latency_ms", w.LatencyMS, MaxLatency, &f.Latency}, {"jitter_ms", w.JitterMS, MaxLatency, &f.Jitter},
		{"late_effect_ms", w.LateMS, MaxLate, &f.LateBy},
	} {
		d, err := fromMilliseconds(m.name, m.ms, m.max)
		if err != nil {
			return Faults{}, fmt.Errorf("faults: %w", err)
		}
		*m.to = d
	}
	return f, f.validate()
}

// decodeStrictly reads one JSON value and nothing else.
func decodeStrictly(r io.Reader, to any) error {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// fromMilliseconds checks before it converts: the conversion is undefined out of
// range.
func fromMilliseconds(name string, ms float64, most time.Duration) (time.Duration, error) {
	if limit := milliseconds(most); !(ms >= 0 && ms <= limit) {
		return 0, fmt.Errorf("%s must be 0 to %.0f", name, limit)
	}
	return time.Duration(ms * float64(time.Millisecond)), nil
}

func (f Faults) validate() error {
	for _, m := range []struct {
		name string
		d    time.Duration
		max  time.Duration
	}{{"latency", f.Latency, MaxLatency}, {"jitter", f.Jitter, MaxLatency}, {"late_by", f.LateBy, MaxLate}} {
		if m.d < 0 || m.d > m.max {
			return fmt.Errorf("faults: %s must be 0 to %s", m.name, m.max)
		}
	}
	for _, m := range []struct {
		name string
		p    float64
	}{{"error_before", f.ErrorBefore}, {"error_after", f.ErrorAfter}, {"drop_reply", f.DropReply}, {"late_effect", f.LateEffect}} {
		if err := probability(m.name, m.p); err != nil {
			return fmt.Errorf("faults: %w", err)
		}
	}
	return nil
}

func probability(name string, p float64) error {
	if !(p >= 0 && p <= 1) { // written so that NaN is refused
		return fmt.Errorf("%s must be a probability, 0 to 1", name)
	}
	return nil
}

// SetFaults replaces all faults and restarts the draws from f.Seed. It changes nothing if a member
// is out of range. Calls with faults that are already drawn keep them.
func (s *Simulator) SetFaults(f Faults) error {
	if err := f.validate(); err != nil {
		return fmt.Errorf("simulator: %w", err)
	}
	s.faults.set(f)
	return nil
}

// Faults returns the present faults.
func (s *Simulator) Faults() Faults { return s.faults.get() }

// faultSource draws each call's faults.
type faultSource struct {
	mu  sync.Mutex
	now Faults
	rng *rand.Rand
	// late has draws of its own, so that adding LateEffect did not change the others'
	// sequence.
	late *rand.Rand
}

// fate is the faults of one call.
type fate struct {
	delay                              time.Duration
	errorBefore, errorAfter, dropReply bool
	late                               bool
	lateBy                             time.Duration
}

func (s *faultSource) set(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = f
	s.rng = rand.New(rand.NewPCG(f.Seed, 0))
	s.late = rand.New(rand.NewPCG(f.Seed, 1))
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
		late:        s.late.Float64() < s.now.LateEffect,
		lateBy:      s.now.LateBy,
	}
}

// pause waits for the delay, or until the client disconnects.
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

// Hooks let a test in the same process stop a call at a chosen point. Each runs on the call's own
// goroutine, which it may block. ctx ends when the client disconnects. Nil members are skipped.
type Hooks struct {
	// Before runs after the latency and before the decision. The call is decided once Before
	// returns, even if the client has disconnected: it acts as a call in transit.
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

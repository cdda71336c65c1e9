package breaker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp"
)

// provider gives configured answers, and counts its calls.
type provider struct {
	sent   atomic.Int32
	mu     sync.Mutex
	result psp.Result
	found  psp.Found
	hold   chan struct{} // calls wait for it where it is not nil
	panics bool
}

func (p *provider) Name() string                   { return "fake" }
func (p *provider) Capabilities() psp.Capabilities { return psp.Capabilities{Lookup: true} }

func (p *provider) answer(ctx context.Context) (psp.Found, psp.Result) {
	p.sent.Add(1)
	p.mu.Lock()
	result, found, hold, panics := p.result, p.found, p.hold, p.panics
	p.mu.Unlock()
	if panics {
		panic("adapter")
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return psp.FoundUnknown, psp.Result{Err: ctx.Err()}
		}
	}
	return found, result
}

func (p *provider) Charge(ctx context.Context, _ psp.Call) psp.Result {
	_, r := p.answer(ctx)
	return r
}
func (p *provider) Transfer(ctx context.Context, c psp.Call) psp.Result { return p.Charge(ctx, c) }
func (p *provider) Refund(ctx context.Context, c psp.Call) psp.Result   { return p.Charge(ctx, c) }
func (p *provider) Capture(ctx context.Context, c psp.Call) psp.Result  { return p.Charge(ctx, c) }
func (p *provider) Cancel(ctx context.Context, c psp.Call) psp.Result   { return p.Charge(ctx, c) }
func (p *provider) Lookup(ctx context.Context, _ psp.Call) (psp.Found, psp.Result) {
	return p.answer(ctx)
}

func (p *provider) Show(ctx context.Context, _ psp.Kind, _, _ string) (psp.Found, psp.Movement, error) {
	found, r := p.answer(ctx)
	return found, psp.Movement{ProviderRef: r.ProviderRef, Outcome: r.Outcome}, r.Err
}

func (p *provider) set(found psp.Found, r psp.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found, p.result = found, r
}

var (
	approved = psp.Result{Outcome: psp.Approved, ProviderRef: "px_1"}
	declined = psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Hard, Code: "stolen_card"}}
	lost     = psp.Result{Err: errors.New("connection reset")}
)

func open(p *provider) *Provider { return New(p, slog.New(slog.DiscardHandler)) }

// trip sends as many calls without an answer as open the circuit.
func trip(t *testing.T, p *provider, b *Provider) {
	t.Helper()
	p.set(psp.FoundUnknown, lost)
	for range MinCalls {
		require.Equal(t, lost, b.Charge(t.Context(), psp.Call{}))
	}
	require.Equal(t, "open", b.State())
	p.sent.Store(0)
}

func notSent(t *testing.T, r psp.Result) *psp.NotSentError {
	t.Helper()
	require.Equal(t, psp.Unknown, r.Outcome)
	var held *psp.NotSentError
	require.ErrorAs(t, r.Err, &held)
	return held
}

// While the circuit is open nothing is sent, and each error has the time of a retry. A call at that
// time gets through.
func TestOpenSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		b := open(p)
		trip(t, p, b)
		time.Sleep(OpenFor / 2)
		for _, r := range []psp.Result{b.Charge(t.Context(), psp.Call{}), b.Transfer(t.Context(), psp.Call{}), b.Refund(t.Context(), psp.Call{}), b.Capture(t.Context(), psp.Call{}), b.Cancel(t.Context(), psp.Call{})} {
			require.Equal(t, OpenFor/2+time.Millisecond, notSent(t, r).RetryIn)
		}
		found, r := b.Lookup(t.Context(), psp.Call{Kind: psp.KindCharge, Reference: "ch_1"})
		require.Equal(t, psp.FoundUnknown, found)
		wait := notSent(t, r).RetryIn
		require.Zero(t, p.sent.Load())

		time.Sleep(wait)
		p.set(psp.FoundYes, approved)
		require.Equal(t, approved, b.Charge(t.Context(), psp.Call{}))
		require.Equal(t, "half-open", b.State())
		found, r = b.Lookup(t.Context(), psp.Call{Kind: psp.KindCharge, Reference: "ch_1"})
		require.Equal(t, psp.FoundYes, found)
		require.Equal(t, approved, r)
		require.Equal(t, approved, b.Refund(t.Context(), psp.Call{}))
		require.Equal(t, "closed", b.State())
		require.EqualValues(t, Probes, p.sent.Load())
	})
}

// Half open, a few are let through and the others wait; one that is not answered
// opens the circuit for its full time again.
func TestHalfOpenLetsAFewThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		b := open(p)
		trip(t, p, b)
		time.Sleep(OpenFor + time.Millisecond)
		release := make(chan struct{})
		p.hold = release
		var probes sync.WaitGroup
		for range Probes {
			probes.Go(func() { b.Charge(t.Context(), psp.Call{}) })
		}
		synctest.Wait()
		require.EqualValues(t, Probes, p.sent.Load())
		require.Equal(t, probeWait, notSent(t, b.Charge(t.Context(), psp.Call{})).RetryIn)
		require.EqualValues(t, Probes, p.sent.Load())
		close(release)
		probes.Wait()
		require.Equal(t, "open", b.State())
		require.Equal(t, OpenFor+time.Millisecond, notSent(t, b.Charge(t.Context(), psp.Call{})).RetryIn)
	})
}

// What counts, and what does not.
func TestOnlySilenceOpens(t *testing.T) {
	for name, c := range map[string]struct {
		ask   func(ctx context.Context, p *provider, b *Provider, n int)
		state string
	}{
		"declines": {func(ctx context.Context, p *provider, b *Provider, _ int) {
			p.set(psp.FoundUnknown, declined)
			b.Charge(ctx, psp.Call{})
		}, "closed"},
		"keys that are reused": {func(ctx context.Context, p *provider, b *Provider, _ int) {
			p.set(psp.FoundUnknown, psp.Result{Err: fmt.Errorf("fake: %w", psp.ErrKeyReused)})
			b.Charge(ctx, psp.Call{})
		}, "closed"},
		"look-ups that find nothing": {func(ctx context.Context, p *provider, b *Provider, _ int) {
			p.set(psp.FoundNo, psp.Result{})
			b.Lookup(ctx, psp.Call{Kind: psp.KindCharge, Reference: "ch_1"})
		}, "closed"},
		"look-ups without an answer": {func(ctx context.Context, p *provider, b *Provider, _ int) {
			p.set(psp.FoundUnknown, lost)
			b.Lookup(ctx, psp.Call{Kind: psp.KindCharge, Reference: "ch_1"})
		}, "open"},
		"one in three": {func(ctx context.Context, p *provider, b *Provider, n int) {
			p.set(psp.FoundUnknown, approved)
			if n%3 == 0 {
				p.set(psp.FoundUnknown, lost)
			}
			b.Refund(ctx, psp.Call{})
		}, "closed"},
		"every other": {func(ctx context.Context, p *provider, b *Provider, n int) {
			p.set(psp.FoundUnknown, approved)
			if n%2 == 0 {
				p.set(psp.FoundUnknown, lost)
			}
			b.Transfer(ctx, psp.Call{})
		}, "open"},
		"panics": {func(ctx context.Context, p *provider, b *Provider, _ int) {
			p.mu.Lock()
			p.panics = true
			p.mu.Unlock()
			defer func() { _ = recover() }()
			b.Charge(ctx, psp.Call{})
		}, "closed"},
		"time-outs": {func(ctx context.Context, p *provider, b *Provider, _ int) {
			p.hold = make(chan struct{})
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			b.Charge(ctx, psp.Call{})
		}, "open"},
		"calls that we abandon": {func(ctx context.Context, p *provider, b *Provider, _ int) {
			p.hold = make(chan struct{})
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			b.Charge(ctx, psp.Call{})
		}, "closed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &provider{}
				b := open(p)
				for n := 1; n <= MinCalls; n++ {
					require.Equal(t, "closed", b.State(), "after %d", n-1)
					c.ask(t.Context(), p, b, n)
				}
				require.Equal(t, c.state, b.State())
			})
		})
	}
}

// Silence that is spread over more than the window is no outage.
func TestOldSilenceIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		b := open(p)
		p.set(psp.FoundUnknown, lost)
		for range 5 * MinCalls {
			b.Charge(t.Context(), psp.Call{})
			time.Sleep(Window / (MinCalls - 5))
		}
		require.Equal(t, "closed", b.State())
		require.EqualValues(t, 5*MinCalls, p.sent.Load())
	})
}

func TestDescribesItsProvider(t *testing.T) {
	b := open(&provider{})
	require.Equal(t, "fake", b.Name())
	require.True(t, b.Capabilities().Lookup)
}

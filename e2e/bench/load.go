package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
)

// loadSpec is one run of the generator.
type loadSpec struct {
	// Addr is what to load, over Conns kept-alive connections.
	Addr  string
	Conns int
	// Rate is in requests per second; 0 means that every connection sends its
	// next request as soon as it has its reply.
	Rate float64
	// Stamped keys instead of UUIDv4 ones.
	Stamped bool
	// Replay makes this many keys at PrimeAddr first, waits Settle, and then
	// only sends those; each reply must have the first one's bytes. 0: new keys.
	Replay    int
	PrimeAddr string
	Settle    time.Duration
	// Warm is sent unmeasured, then Window is measured.
	Warm, Window time.Duration
	// Control is the loaded process's control address, asked at both ends of the
	// window.
	Control string
	// Profile is the file for a CPU profile of the window; "" for none.
	Profile string
}

// loadResult is what came of it.
type loadResult struct {
	Requests int64
	Elapsed  time.Duration
	// CPU, Mallocs: the loaded process's, of the window; Own: the generator's CPU.
	CPU, Own time.Duration
	Mallocs  uint64
	PeakKiB  int64
	// Latency is in nanoseconds.
	Latency *hdrhistogram.Snapshot
}

// Bounds of a recorded latency, in nanoseconds, and its digits.
const (
	latencyMin    = 1_000
	latencyMax    = 60_000_000_000
	latencyDigits = 3
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(latencyMin, latencyMax, latencyDigits)
}

// loadRole reads a loadSpec and prints a loadResult. A single wrong reply is an
// error: figures of a run that went wrong mean nothing.
func loadRole(ctx context.Context, _ []string, in io.Reader, out io.Writer) error {
	var spec loadSpec
	if err := json.NewDecoder(in).Decode(&spec); err != nil {
		return err
	}
	uuid.EnableRandPool() // keys must differ, not be secret
	g := &generator{loadSpec: spec}
	result, err := g.run(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result)
}

type generator struct {
	loadSpec
	keys   []string
	bodies [][]byte // of keys, once primed
	begun  time.Time
	from   time.Time // the measured window
	until  time.Time
	ticket atomic.Int64 // arrivals at a fixed rate
}

func (g *generator) run(ctx context.Context) (loadResult, error) {
	if g.Replay > 0 {
		if err := g.prime(ctx); err != nil {
			return loadResult{}, fmt.Errorf("prime: %w", err)
		}
	}
	wires := make([]*wire, g.Conns)
	for i := range wires {
		w, err := dial(g.Addr)
		if err != nil {
			return loadResult{}, err
		}
		defer w.close()
		wires[i] = w
	}
	for {
		result, err := g.measure(ctx, wires)
		if err != nil || result.Requests > 0 {
			return result, err
		}
		// A machine busy with other work answered nothing: look for longer.
		if g.Window *= 2; g.Window > maxWindow {
			return loadResult{}, fmt.Errorf("no reply came within %v", maxWindow)
		}
	}
}

// maxWindow bounds how long a window grows while no reply comes: no healthy side
// is silent for a minute.
const maxWindow = time.Minute

// measure loads the wires for one warm-up and one window.
func (g *generator) measure(ctx context.Context, wires []*wire) (loadResult, error) {
	g.begun = time.Now()
	g.from = g.begun.Add(g.Warm)
	g.until = g.from.Add(g.Window)
	g.ticket.Store(0)

	var result loadResult
	total, histograms := newHistogram(), make([]*hdrhistogram.Histogram, len(wires))
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return g.watch(ctx, &result) })
	for i, w := range wires {
		histograms[i] = newHistogram()
		all.Go(func() error { return g.drive(ctx, w, histograms[i]) })
	}
	if err := all.Wait(); err != nil {
		return loadResult{}, err
	}
	for _, h := range histograms {
		total.Merge(h)
	}
	result.Requests, result.Elapsed, result.Latency = total.TotalCount(), g.Window, total.Export()
	return result, nil
}

// watch takes the loaded process's usage at both ends of the window.
func (g *generator) watch(ctx context.Context, result *loadResult) error {
	if err := sleepUntil(ctx, g.from); err != nil {
		return err
	}
	before, err := fetchUsage(ctx, g.Control)
	if err != nil {
		return err
	}
	ownBefore, err := readUsage()
	if err != nil {
		return err
	}
	if g.Profile != "" {
		if err := saveProfile(ctx, g.Control, g.Profile, int(g.Window.Seconds())); err != nil {
			return err
		}
	}
	if err := sleepUntil(ctx, g.until); err != nil {
		return err
	}
	ownAfter, err := readUsage()
	if err != nil {
		return err
	}
	after, err := fetchUsage(ctx, g.Control)
	if err != nil {
		return err
	}
	result.CPU, result.Own = after.CPU-before.CPU, ownAfter.CPU-ownBefore.CPU
	result.Mallocs, result.PeakKiB = after.Mallocs-before.Mallocs, after.PeakKiB
	return nil
}

// drive sends on one connection until the window ends.
func (g *generator) drive(ctx context.Context, w *wire, h *hdrhistogram.Histogram) error {
	for ctx.Err() == nil {
		sent, more, err := g.due(ctx)
		if err != nil || !more {
			return err
		}
		if err := g.exchange(w); err != nil {
			return err
		}
		// A reply belongs to the window in which it arrived.
		if now := time.Now(); !now.Before(g.from) && now.Before(g.until) {
			if err := h.RecordValue(int64(now.Sub(sent))); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// due waits for this connection's next turn and returns from when its latency
// counts. At a fixed rate that is the time at which the request should have gone
// when every connection was busy then, so that a stall is charged to all who
// met it; a timer that rings late is the generator's own fault and not counted.
func (g *generator) due(ctx context.Context) (from time.Time, more bool, err error) {
	if g.Rate == 0 {
		now := time.Now()
		return now, now.Before(g.until), nil
	}
	n := g.ticket.Add(1) - 1
	at := g.begun.Add(time.Duration(float64(n) / g.Rate * float64(time.Second)))
	if !at.Before(g.until) {
		return at, false, nil
	}
	if time.Until(at) <= 0 {
		return at, true, nil
	}
	err = sleepUntil(ctx, at)
	return time.Now(), err == nil, err
}

// exchange sends one request and checks the reply.
func (g *generator) exchange(w *wire) error {
	if g.Replay == 0 {
		key, err := g.newKey()
		if err != nil {
			return err
		}
		return expect(w, key, false)
	}
	i := rand.IntN(len(g.keys))
	if err := expect(w, g.keys[i], true); err != nil {
		return err
	}
	if !bytes.Equal(w.body, g.bodies[i]) {
		return fmt.Errorf("the replay of %s differs: %q, at first %q", g.keys[i], w.body, g.bodies[i])
	}
	return nil
}

func expect(w *wire, key string, replayed bool) error {
	status, again, err := w.post(key)
	switch {
	case err != nil:
		return fmt.Errorf("key %s: %w", key, err)
	case status != http.StatusCreated:
		return fmt.Errorf("key %s: status %d: %s", key, status, w.body)
	case again != replayed:
		return fmt.Errorf("key %s: replayed is %v, want %v", key, again, replayed)
	}
	return nil
}

func (g *generator) newKey() (string, error) {
	if g.Stamped {
		return claim.Stamp(1, nil)
	}
	return uuid.NewString(), nil
}

// prime makes the keys that are replayed, and keeps their first replies.
func (g *generator) prime(ctx context.Context) error {
	g.keys, g.bodies = make([]string, g.Replay), make([][]byte, g.Replay)
	var next atomic.Int64
	all, group := errgroup.WithContext(ctx)
	for range min(g.Conns, g.Replay) {
		all.Go(func() error {
			w, err := dial(g.PrimeAddr)
			if err != nil {
				return err
			}
			defer w.close()
			for group.Err() == nil {
				i := int(next.Add(1) - 1)
				if i >= g.Replay {
					return nil
				}
				if g.keys[i], err = g.newKey(); err != nil {
					return err
				}
				if err := expect(w, g.keys[i], false); err != nil {
					return err
				}
				g.bodies[i] = bytes.Clone(w.body)
			}
			return group.Err()
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	// Replicas show nothing younger than their lag: a promise in time, which only
	// time fulfils.
	return sleepUntil(ctx, time.Now().Add(g.Settle))
}

func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

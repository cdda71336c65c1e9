package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	// Addr is the address to load, over Conns kept-alive connections.
	Addr  string
	Conns int
	// Addrs, if any, are loaded instead of Addr, in equal shares. Keys that are stamped
	// are at home where they arrive, if Addrs are of the regions in their order; with
	// OneRegion all are of the first.
	Addrs     []string
	OneRegion bool
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
	// Controls are those of other processes that serve at Addrs, whose usage counts, too.
	Controls []string
	// Probe reads the database at both ends of the window; nil for none.
	Probe *probe
	// Profile is the file for a CPU profile of the window; "" for none.
	Profile string
}

// loadResult is what came of it.
type loadResult struct {
	Requests int64
	Elapsed  time.Duration
	// CPU and Mallocs are the loaded process's in the window; Own is the generator's
	// CPU.
	CPU, Own time.Duration
	Mallocs  uint64
	PeakKiB  int64
	// Made counts charges, those included that were primed or not measured.
	Made int
	// Database is the CPU of the database's processes in the window, WAL the bytes that
	// PostgreSQL wrote to it.
	Database time.Duration
	WAL      int64
	// Latency is in nanoseconds.
	Latency *hdrhistogram.Snapshot
}

// over takes away what a database uses when nobody asks for anything.
func (r loadResult) over(idle usageRate) loadResult {
	r.Database -= time.Duration(idle.Cores * float64(r.Elapsed))
	return r
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
	made   atomic.Int64 // charges
	probes *readings    // of the database; nil for none
}

func (g *generator) run(ctx context.Context) (loadResult, error) {
	if g.Replay > 0 {
		if err := g.prime(ctx); err != nil {
			return loadResult{}, fmt.Errorf("prime: %w", err)
		}
	}
	if len(g.Addrs) == 0 {
		g.Addrs = []string{g.Addr}
	}
	wires := make([]*wire, g.Conns)
	for i := range wires {
		w, err := dial(g.Addrs[i%len(g.Addrs)])
		if err != nil {
			return loadResult{}, err
		}
		defer w.close()
		if !g.OneRegion {
			w.region = i % len(g.Addrs)
		}
		wires[i] = w
	}
	probes, err := g.Probe.open(ctx)
	if err != nil {
		return loadResult{}, err
	}
	defer probes.close(ctx)
	g.probes = probes
	for {
		result, err := g.measure(ctx, wires)
		result.Made = int(g.made.Load())
		if err != nil || result.Requests > 0 {
			return result, err
		}
		// A machine busy with other work gave no answer: measure for longer.
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
	before, err := g.usage(ctx)
	if err != nil {
		return err
	}
	ownBefore, err := readUsage()
	if err != nil {
		return err
	}
	dbBefore, err := g.probes.read(ctx)
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
	dbAfter, err := g.probes.read(ctx)
	if err != nil {
		return err
	}
	ownAfter, err := readUsage()
	if err != nil {
		return err
	}
	after, err := g.usage(ctx)
	if err != nil {
		return err
	}
	result.CPU, result.Own = after.CPU-before.CPU, ownAfter.CPU-ownBefore.CPU
	result.Mallocs, result.PeakKiB = after.Mallocs-before.Mallocs, after.PeakKiB
	result.Database, result.WAL = dbAfter.CPU-dbBefore.CPU, dbAfter.WAL-dbBefore.WAL
	return nil
}

// usage is that of all that is loaded; memory is the greatest.
func (g *generator) usage(ctx context.Context) (usage, error) {
	all, err := fetchUsage(ctx, g.Control)
	for _, other := range g.Controls {
		u, uerr := fetchUsage(ctx, other)
		if err = errors.Join(err, uerr); err != nil {
			break
		}
		all.CPU, all.Mallocs, all.PeakKiB = all.CPU+u.CPU, all.Mallocs+u.Mallocs, max(all.PeakKiB, u.PeakKiB)
	}
	return all, err
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
		key, err := g.newKey(w.region)
		if err != nil {
			return err
		}
		return g.charge(w, key)
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

// charge makes a new charge and counts it.
func (g *generator) charge(w *wire, key string) error {
	err := expect(w, key, false)
	if err == nil {
		g.made.Add(1)
	}
	return err
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

// newKey is of the region that has the index, if it says of any.
func (g *generator) newKey(region int) (string, error) {
	if g.Stamped {
		return claim.Stamp(claim.RegionCode(region+1), nil)
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
				if g.keys[i], err = g.newKey(0); err != nil {
					return err
				}
				if err := g.charge(w, g.keys[i]); err != nil {
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
	// Replicas show nothing younger than their lag, so only waiting helps.
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

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"
)

// callRun is one run of calls in this process, on as many goroutines as
// connections.
type callRun struct {
	conns        int
	warm, window time.Duration
	profile      string // file for a CPU profile of the window, "" for none
	per          int    // charges that a call makes
	probe        *probe // of the database; nil for none
}

// measure repeats call and returns the window's figures and how many calls were
// made in all, the unmeasured ones included. The first call that fails ends it.
func (c callRun) measure(ctx context.Context, call func(context.Context) error) (loadResult, int, error) {
	for made := 0; ; {
		result, n, err := c.once(ctx, call)
		made += n
		if err != nil || result.Requests > 0 {
			return result, made, err
		}
		// A machine busy with other work finished nothing: look for longer.
		if c.window *= 2; c.window > maxWindow {
			return result, made, fmt.Errorf("no call was finished within %v", maxWindow)
		}
	}
}

func (c callRun) once(ctx context.Context, call func(context.Context) error) (result loadResult, made int, err error) {
	from := time.Now().Add(c.warm)
	until := from.Add(c.window)
	var calls atomic.Int64
	probes, err := c.probe.open(ctx)
	if err != nil {
		return result, 0, err
	}
	defer probes.close(ctx)
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return c.watch(ctx, from, until, probes, &result) })
	histograms := make([]*hdrhistogram.Histogram, c.conns)
	for i := range histograms {
		h := newHistogram()
		histograms[i] = h
		all.Go(func() error {
			for began := time.Now(); began.Before(until); {
				if err := call(ctx); err != nil {
					return err
				}
				calls.Add(1)
				// A call belongs to the window in which it ended.
				ended := time.Now()
				if !ended.Before(from) && ended.Before(until) {
					if err := h.RecordValue(int64(ended.Sub(began))); err != nil {
						return err
					}
				}
				began = ended
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return result, int(calls.Load()), err
	}
	total := newHistogram()
	for _, h := range histograms {
		total.Merge(h)
	}
	result.Requests, result.Elapsed, result.Latency = total.TotalCount()*int64(max(1, c.per)), c.window, total.Export()
	return result, int(calls.Load()), nil
}

// callTotal adds up the runs of one side.
type callTotal struct {
	calls   int // the unmeasured ones included
	sum     loadResult
	latency *hdrhistogram.Histogram
}

// add takes what [callRun.measure] returns.
func (t *callTotal) add(r loadResult, calls int, err error) error {
	t.calls += calls
	if err != nil {
		return err
	}
	if t.latency == nil {
		t.latency = newHistogram()
	}
	t.latency.Merge(hdrhistogram.Import(r.Latency))
	t.sum.Requests += r.Requests
	t.sum.Elapsed += r.Elapsed
	t.sum.CPU += r.CPU
	t.sum.Mallocs += r.Mallocs
	t.sum.Database += r.Database
	t.sum.WAL += r.WAL
	t.sum.PeakKiB = max(t.sum.PeakKiB, r.PeakKiB)
	return nil
}

func (t *callTotal) result() loadResult {
	r := t.sum
	r.Latency = t.latency.Export()
	return r
}

// watch takes this process's usage at both ends of the window. The database's is
// not in it.
func (c callRun) watch(ctx context.Context, from, until time.Time, probes *readings, result *loadResult) (err error) {
	if err := sleepUntil(ctx, from); err != nil {
		return err
	}
	before, err := readUsage()
	if err != nil {
		return err
	}
	dbBefore, err := probes.read(ctx)
	if err != nil {
		return err
	}
	if c.profile != "" {
		f, err := os.Create(c.profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return errors.Join(err, f.Close())
		}
		defer func() {
			pprof.StopCPUProfile()
			err = errors.Join(err, f.Close())
		}()
	}
	if err := sleepUntil(ctx, until); err != nil {
		return err
	}
	after, err := readUsage()
	if err != nil {
		return err
	}
	dbAfter, err := probes.read(ctx)
	if err != nil {
		return err
	}
	result.Database, result.WAL = dbAfter.CPU-dbBefore.CPU, dbAfter.WAL-dbBefore.WAL
	result.CPU, result.Mallocs, result.PeakKiB = after.CPU-before.CPU, after.Mallocs-before.Mallocs, after.PeakKiB
	return nil
}

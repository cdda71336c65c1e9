package node

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// record is a log that a test reads.
func record() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}

func TestASweepGoesOnWhileBatchesAreFull(t *testing.T) {
	log, said := record()
	remaining, broken := 2*sweepBatch+1, error(nil)
	s := sweeper{
		sweep: func(_ context.Context, limit int) (int, error) {
			n := min(remaining, limit)
			remaining -= n
			return n, broken
		},
		trouble: trouble{log: log, began: "cannot be deleted"},
	}
	s.round(t.Context())
	require.Zero(t, remaining)

	remaining, broken = 2*sweepBatch, errors.New("gone")
	s.round(t.Context())
	require.Equal(t, sweepBatch, remaining, "after an error the next round is soon enough")
	require.Contains(t, said.String(), "cannot be deleted")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	said.Reset()
	s.trouble.in = false
	s.round(ended)
	require.Empty(t, said.String(), "a node that stops has no trouble")
}

func TestWhatIsDoneEverySoOftenIsSpreadOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var at []time.Duration
		began := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			every(ctx, slog.New(slog.DiscardHandler), time.Minute, func(context.Context) { at = append(at, time.Since(began)) })
		}()
		time.Sleep(100 * time.Minute)
		cancel()
		<-done
		require.Less(t, at[0], time.Minute)
		require.InDelta(t, 100, len(at), 34, "about once a minute")
		pauses := map[time.Duration]bool{}
		for i := range at[1:] {
			pause := at[i+1] - at[i]
			require.GreaterOrEqual(t, pause, 30*time.Second)
			require.Less(t, pause, 90*time.Second)
			pauses[pause] = true
		}
		require.Greater(t, len(pauses), 1, "not in step")
	})
}

// A panic in what a node does now and then, or over a question of a probe, is logged
// with its stack, costs one round, and leaves the node running.
func TestAPanicCostsOneRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, said := record()
		ctx, cancel := context.WithCancel(t.Context())
		rounds, done := 0, make(chan struct{})
		go func() {
			defer close(done)
			every(ctx, log, time.Minute, func(context.Context) {
				if rounds++; rounds == 1 {
					panic("no row is like this")
				}
			})
		}()
		time.Sleep(10 * time.Minute)
		cancel()
		<-done
		require.Greater(t, rounds, 1)
		require.Contains(t, said.String(), "no row is like this")
		require.Contains(t, said.String(), "TestAPanicCostsOneRound")

		r := readiness{ask: func(context.Context) error { panic("driver") }, trouble: trouble{log: log, began: "does not answer"}}
		require.ErrorIs(t, r.check(t.Context()), errNotRecording)
		require.Contains(t, said.String(), "does not answer")
	})
}

func TestProbesShareOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, said := record()
		var checks atomic.Int64
		answers := make(chan error)
		r := readiness{
			ask: func(context.Context) error {
				checks.Add(1)
				return <-answers
			},
			trouble: trouble{log: log, began: "does not answer", over: "answers again"},
		}
		probes := func(n int) []error {
			got := make([]error, n)
			var all sync.WaitGroup
			for i := range got {
				all.Go(func() { got[i] = r.check(t.Context()) })
			}
			synctest.Wait()
			select {
			case answers <- errors.New("password of the database: hunter2"):
			default: // no probe asked
			}
			all.Wait()
			return got
		}
		for _, err := range probes(50) {
			require.ErrorIs(t, err, errNotRecording)
			require.NotContains(t, err.Error(), "hunter2")
		}
		require.EqualValues(t, 1, checks.Load())
		for _, err := range probes(50) {
			require.ErrorIs(t, err, errNotRecording)
		}
		require.EqualValues(t, 1, checks.Load(), "an answer is believed for a while")

		time.Sleep(readyFor)
		impatient, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { gone <- r.check(impatient) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-gone, errNotRecording, "a probe that leaves does not wait")
		waiting := make(chan error, 1)
		go func() { waiting <- r.check(t.Context()) }()
		synctest.Wait()
		answers <- nil
		require.NoError(t, <-waiting, "and does not end the question")
		require.EqualValues(t, 2, checks.Load())
		require.Equal(t, 1, strings.Count(said.String(), "does not answer"))
		require.Equal(t, 1, strings.Count(said.String(), "answers again"))
	})
}

func TestEveryAddressHasAName(t *testing.T) {
	for addr, want := range map[string]string{":7946": "0.0.0.0", "0.0.0.0:7946": "0.0.0.0", "127.0.0.1:7946": "127.0.0.1", "[::1]:7946": "::1"} {
		host, port, err := splitAddr("gossip", addr)
		require.NoError(t, err)
		require.Equal(t, want, host, addr)
		require.Equal(t, 7946, port, addr)
	}
}

// TestBracketsAroundIPv4: nodes can be dialled although the chart puts brackets around an address
// of either kind.
func TestBracketsAroundIPv4(t *testing.T) {
	for addr, want := range map[string]string{
		"[10.0.0.1]:7081": "10.0.0.1:7081", "10.0.0.1:7081": "10.0.0.1:7081", "[2001:db8::1]:7081": "[2001:db8::1]:7081", "node.example:7081": "node.example:7081", "": "",
	} {
		require.NoError(t, addressMistake("rpc.advertise", cmp.Or(addr, "a:1"), 1))
		require.Equal(t, want, dialable(addr))
		_, err := url.Parse("https://" + dialable(addr) + "/")
		require.NoError(t, err)
	}
}

package httpapi

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type patienceKey struct{}

// TestPatience: it is context.WithTimeout to whoever asks, in whatever order.
func TestPatience(t *testing.T) {
	const long = time.Minute
	for name, ends := range map[string]struct {
		how   func(p *patience, cancel context.CancelCauseFunc)
		err   error
		cause error
	}{
		"by time":              {func(*patience, context.CancelCauseFunc) { time.Sleep(long) }, context.DeadlineExceeded, context.DeadlineExceeded},
		"with the connection":  {func(_ *patience, cancel context.CancelCauseFunc) { cancel(errPanicked) }, context.Canceled, errPanicked},
		"by its own end":       {func(p *patience, _ context.CancelCauseFunc) { p.end() }, context.Canceled, context.Canceled},
		"not before its time":  {func(*patience, context.CancelCauseFunc) { time.Sleep(long - 1) }, nil, nil},
		"after it has ended":   {func(p *patience, _ context.CancelCauseFunc) { p.end(); time.Sleep(2 * long) }, context.Canceled, context.Canceled},
		"when nothing happens": {func(*patience, context.CancelCauseFunc) {}, nil, nil},
	} {
		for _, waited := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), patienceKey{}, 1))
					defer cancel(nil)
					var p patience
					p.begin(parent, long)
					defer p.end()
					at, ok := p.Deadline()
					require.True(t, ok)
					require.Equal(t, time.Now().Add(long), at)
					if waited {
						p.Done()
					}
					ends.how(&p, cancel)
					synctest.Wait()
					require.Equal(t, ends.err, p.Err())
					select {
					case <-p.Done():
						require.Error(t, ends.err)
					default:
						require.NoError(t, ends.err)
					}
					require.Equal(t, 1, p.Value(patienceKey{}))
					child, stop := context.WithCancel(&p)
					defer stop()
					require.Equal(t, ends.err, child.Err())
					require.Equal(t, ends.err, p.Err(), "it does not change")
					require.Equal(t, ends.cause, context.Cause(&p))
				})
			})
		}
	}
}

// What is made of it ends with it, and nobody waits for that on the side.
func TestPatienceOfChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var p patience
		p.begin(parent, time.Minute)
		defer p.end()
		at, _ := p.Deadline()
		require.Equal(t, time.Now().Add(time.Second), at, "the sooner one counts")
		before := runtime.NumGoroutine()
		child, stop := context.WithTimeout(&p, time.Hour)
		defer stop()
		require.Equal(t, before, runtime.NumGoroutine())
		apart := context.WithoutCancel(&p)
		require.NoError(t, child.Err())
		time.Sleep(time.Second)
		<-child.Done()
		require.Equal(t, context.DeadlineExceeded, child.Err())
		require.NoError(t, apart.Err())
	})
}

func TestPatienceCostsNothing(t *testing.T) {
	ctx := t.Context()
	var p patience
	require.Zero(t, testing.AllocsPerRun(100, func() {
		p = patience{}
		p.begin(ctx, time.Minute)
		if p.Err() != nil || p.Value(patienceKey{}) != nil {
			t.Error(p.Err())
		}
		p.end()
	}))
}

package batch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

type step struct {
	tenant, key string
	bytes       int
}

// database runs statements until a test ends them.
type database struct {
	*testing.T
	*Batcher[step]
	running chan *statement // those that have begun
	conns   atomic.Int64    // statements with a connection
	refuses error           // by Acquire
}

type statement struct {
	at    Line
	steps []step
	ended chan error
}

const patience = time.Second

func newDatabase(t *testing.T, turns *Turns) *database {
	d := &database{T: t, running: make(chan *statement, 100)}
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	d.Batcher = New(Config[step]{
		Acquire: func(Line) (func(), error) { d.conns.Add(1); return func() { d.conns.Add(-1) }, d.refuses },
		Send: func(_ context.Context, at Line, steps []step) error {
			s := &statement{at, steps, make(chan error)}
			d.running <- s
			select {
			case err := <-s.ended:
				return err
			case <-over:
				return nil
			}
		},
		Key:      func(s step) claim.Key { return claim.Key{Tenant: s.tenant, Value: s.key} },
		Bytes:    func(s step) int { return s.bytes },
		Turns:    turns,
		Patience: func(Line) time.Duration { return patience },
	})
	return d
}

var home = Line{Home: "home"}

// do starts a call. Its result comes through the channel.
func (d *database) do(ctx context.Context, at Line, s step) <-chan error {
	done := make(chan error, 1)
	go func() { done <- d.Do(ctx, at, s) }()
	synctest.Wait()
	return done
}

// next returns the statement that has begun, or nil if none has.
func (d *database) next() *statement {
	synctest.Wait()
	select {
	case s := <-d.running:
		return s
	default:
		return nil
	}
}

// after returns the statement that begins when that time has passed, and not before.
func (d *database) after(pause time.Duration) *statement {
	time.Sleep(pause - 1)
	require.Nil(d, d.next())
	time.Sleep(1)
	return d.next()
}

func (s *statement) end(err error) {
	s.ended <- err
	synctest.Wait()
}

// gathered returns a running statement of one step, and results of steps that wait.
func (d *database) gathered(steps ...step) (first *statement, results []<-chan error) {
	d.do(d.Context(), home, step{key: "first"})
	first = d.next()
	require.Equal(d, []step{{key: "first"}}, first.steps, "a lone caller waits for nobody")
	for _, s := range steps {
		results = append(results, d.do(d.Context(), home, s))
	}
	require.Nil(d, d.next())
	return first, results
}

func keys(n int, of step) (all []step) {
	for i := range n {
		of.key = fmt.Sprintf("%s-%03d", of.tenant, i)
		all = append(all, of)
	}
	return all
}

func TestCallersWhoWaitShareTheNextStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(t, nil)
		first, results := d.gathered(step{key: "c"}, step{key: "a"}, step{key: "b"})
		first.end(nil)
		second := d.next()
		require.Equal(t, []step{{key: "a"}, {key: "b"}, {key: "c"}}, second.steps, "in the order of their keys")
		failed := errors.New("failed")
		second.end(failed)
		for _, r := range results {
			require.Equal(t, failed, <-r)
		}
		require.Zero(t, d.conns.Load())
		d.do(t.Context(), home, step{key: "later"})
		require.NotNil(t, d.next(), "the line is served again")
	})
}

func TestAStatementIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(t, nil)
		loud := keys(100, step{tenant: "loud"})
		first, _ := d.gathered(append(loud, keys(10, step{tenant: "calm"})...)...)
		first.end(nil)
		second := d.next()
		require.Len(t, second.steps, MaxSteps)
		calm := 0
		for _, s := range second.steps {
			if s.tenant == "calm" {
				calm++
			}
		}
		require.Equal(t, 10, calm, "tenants take turns")
		second.end(nil)
		require.Len(t, d.next().steps, 110-MaxSteps)
	})
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(t, nil)
		large := keys(4, step{tenant: "large", bytes: MaxBytes/2 - 100})
		first, _ := d.gathered(append(large, append(keys(3, step{tenant: "small", bytes: 10}), step{tenant: "huge", bytes: 2 * MaxBytes})...)...)
		first.end(nil)
		of := func() (tenants map[string]int) {
			tenants = map[string]int{}
			s := d.next()
			for _, step := range s.steps {
				tenants[step.tenant]++
			}
			s.end(nil)
			return tenants
		}
		require.Equal(t, map[string]int{"large": 2, "small": 3}, of(), "all that send little are in")
		require.Equal(t, map[string]int{"huge": 1}, of(), "and a step that is larger than any is alone")
		require.Equal(t, map[string]int{"large": 2}, of())
	})
}

func TestAKeyIsUnderWayOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(t, nil)
		first, results := d.gathered(step{key: "a"}, step{key: "a"}, step{key: "b"})
		require.Equal(t, ErrUnderWay, <-d.do(t.Context(), home, step{key: "first"}))
		first.end(nil)
		require.Equal(t, ErrUnderWay, <-results[1])
		second := d.next()
		require.Equal(t, []step{{key: "a"}, {key: "b"}}, second.steps)
		time.Sleep(patience) // it hangs, and its line is idle
		require.Equal(t, ErrUnderWay, <-d.do(t.Context(), home, step{key: "b"}))
		second.end(nil)
		d.do(t.Context(), home, step{key: "b"})
		require.Equal(t, []step{{key: "b"}}, d.next().steps)
	})
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(t, nil)
		d.Reads = true
		first, _ := d.gathered(step{key: "a"}, step{key: "a"}, step{key: "first"})
		first.end(nil)
		require.Len(t, d.next().steps, 3)
	})
}

func TestACallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(t, nil)
		ctx, leave := context.WithCancel(t.Context())
		sent := d.do(ctx, home, step{key: "sent"})
		first := d.next()
		waits, stays := d.do(ctx, home, step{key: "waits"}), d.do(t.Context(), home, step{key: "stays"})
		leave()
		require.Equal(t, context.Canceled, <-sent)
		require.Equal(t, context.Canceled, <-waits)
		first.end(nil)
		second := d.next()
		require.Equal(t, []step{{key: "stays"}}, second.steps)
		second.end(nil)
		require.NoError(t, <-stays)
		require.Equal(t, context.Canceled, <-d.do(ctx, home, step{key: "gone"}))
		require.Nil(t, d.next())
		require.Zero(t, d.conns.Load())
	})
}

func TestAStatementThatHangsDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(t, &Turns{})
		hangs, results := d.gathered(step{key: "a"})
		second := d.after(patience)
		require.Equal(t, []step{{key: "a"}}, second.steps)
		second.end(nil)
		require.NoError(t, <-results[0])
		hangs.end(errors.New("timed out"))
		require.Zero(t, d.conns.Load())
	})
}

func TestAStatementThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(t, nil)
		first, results := d.gathered(step{key: "a"}, step{key: "b"})
		d.refuses = errors.New("no connection")
		first.end(nil)
		for _, r := range results {
			require.Equal(t, d.refuses, <-r)
		}
		require.Nil(t, d.next())
		d.refuses = nil
		d.Send = func(context.Context, Line, []step) error { panic("oops") }
		require.ErrorContains(t, <-d.do(t.Context(), home, step{key: "a"}), "oops")
	})
}

// TestKindsTakeTurns: near statements of two kinds for one home go one after the other.
// Those for another home, and far ones, do not.
func TestKindsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &Turns{}
		begins, settles := newDatabase(t, turns), newDatabase(t, turns)
		far := Line{Home: "far", Region: "far"}
		begins.do(t.Context(), home, step{key: "1"})
		begins.do(t.Context(), far, step{key: "2"})
		first := begins.next()
		require.NotNil(t, begins.next())
		settles.do(t.Context(), Line{Home: "home", Begun: true}, step{key: "3"})
		require.Nil(t, settles.next())
		settles.do(t.Context(), far, step{key: "4"})
		require.Equal(t, far, settles.next().at)
		settles.do(t.Context(), Line{Home: "other"}, step{key: "5"})
		require.NotNil(t, settles.next())
		begins.do(t.Context(), home, step{key: "6"})
		first.end(nil)
		second := settles.next()
		require.Equal(t, []step{{key: "3"}}, second.steps, "who came first")
		require.Nil(t, begins.next())
		second.end(nil)
		require.NotNil(t, begins.next())
	})
}

// TestASharedStatementMakesTheNextPause: those who get its answers together come back
// together, and the first of them is not sent alone.
func TestASharedStatementMakesTheNextPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &Turns{}
		begins, settles := newDatabase(t, turns), newDatabase(t, turns)
		first, _ := begins.gathered(keys(shared, step{tenant: "a"})...)
		first.end(nil)
		second := begins.next()
		time.Sleep(20 * time.Millisecond)
		second.end(nil)
		settles.do(t.Context(), home, step{key: "a"})
		require.Nil(t, settles.next())
		settles.do(t.Context(), home, step{key: "b"})
		third := settles.after(10 * time.Millisecond)
		require.Len(t, third.steps, 2)
		third.end(nil)
		settles.do(t.Context(), home, step{key: "c"})
		require.NotNil(t, settles.next(), "two are too few")
	})
}

// TestASharedStatementOfAFarLineMakesItsNextPause, and no other line's.
func TestASharedStatementOfAFarLineMakesItsNextPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(t, &Turns{})
		far := Line{Home: "home", Region: "far"}
		for _, s := range keys(shared+1, step{tenant: "a"}) { // the first goes alone
			d.do(t.Context(), far, s)
		}
		d.next().end(nil)
		second := d.next()
		time.Sleep(20 * time.Millisecond)
		second.end(nil)
		d.do(t.Context(), far, step{key: "a"})
		require.Nil(t, d.next())
		d.do(t.Context(), far, step{key: "b"})
		d.do(t.Context(), Line{Home: "home", Region: "other"}, step{key: "c"})
		d.do(t.Context(), home, step{key: "d"})
		require.Len(t, d.next().steps, 1)
		require.Len(t, d.next().steps, 1)
		require.Len(t, d.after(10*time.Millisecond).steps, 2)
	})
}

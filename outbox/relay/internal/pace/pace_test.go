package pace

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAGateBoundsWhatIsInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(2)
		for range 2 {
			_, ok := g.Enter()
			require.True(t, ok)
		}
		wait, ok := g.Enter()
		require.False(t, ok)
		require.GreaterOrEqual(t, wait, minWait)
		g.Leave(time.Second, true)
		_, ok = g.Enter()
		require.True(t, ok)
	})
}

// Tries that panic keep no place at the gate, and are no reason to spare the
// destination.
func TestATryThatPanicsLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(2)
		for range 2 * tolerated {
			_, ok := g.Enter()
			require.True(t, ok)
			require.Panics(t, func() { g.Try(func() bool { panic("our fault") }) })
		}
		_, ok := g.Enter()
		require.True(t, ok)
		g.Try(func() bool { return true })
	})
}

// A backlog comes back spread out, as fast as the destination works, and none of it
// later than the bound.
func TestAppointmentsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(4)
		for range 20 { // a try takes 8 s, lately
			_, ok := g.Enter()
			require.True(t, ok)
			g.Leave(8*time.Second, true)
		}
		for range 4 {
			g.Enter()
		}
		var before time.Duration
		for i := range 100 {
			wait, ok := g.Enter()
			require.False(t, ok)
			if i > 0 {
				require.InDelta(t, 2*time.Second, wait-before, float64(100*time.Millisecond))
			}
			before = wait
		}
		for range 1000 {
			wait, _ := g.Enter()
			require.LessOrEqual(t, wait, maxWait)
		}
		time.Sleep(maxWait)
		wait, _ := g.Enter()
		require.Less(t, wait, time.Minute, "the book of the past is closed")
	})
}

func TestADestinationThatIsDownIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(4)
		fail := func() {
			_, ok := g.Enter()
			require.True(t, ok)
			g.Leave(time.Millisecond, false)
		}
		for range tolerated {
			fail()
		}
		var pause time.Duration
		for range 10 {
			began := time.Now()
			for ok := false; !ok; {
				if _, ok = g.Enter(); !ok {
					time.Sleep(100 * time.Millisecond)
				}
			}
			pause = time.Since(began)
			_, second := g.Enter()
			require.False(t, second, "one probe at a time")
			g.Leave(time.Millisecond, false)
			require.LessOrEqual(t, pause, maxPause+time.Second)
		}
		require.GreaterOrEqual(t, pause, maxPause/2, "the pauses grow")
		time.Sleep(maxPause)
		_, ok := g.Enter()
		require.True(t, ok)
		g.Leave(time.Millisecond, true)
		for range 4 {
			_, ok := g.Enter()
			require.True(t, ok, "a success opens it")
		}
	})
}

func TestGatesForgetWhatNobodyUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGates(1)
		busy := g.To("busy")
		_, ok := busy.Enter()
		require.True(t, ok)
		for i := range manyGates - 1 {
			g.To(fmt.Sprint(i))
		}
		g.To("one more") // none is forgotten yet
		require.Len(t, g.all, manyGates+1)
		for i := range manyGates - 1 {
			g.To(fmt.Sprint("more", i))
		}
		require.Len(t, g.all, 2*manyGates)
		time.Sleep(2 * lately)
		g.To("the last")
		require.Len(t, g.all, 2)
		require.Same(t, busy, g.To("busy"))
	})
}

// TestAHeldGateAdmitsNobody: the destination has asked to be left alone, after its first
// failure.
func TestAHeldGateAdmitsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(4)
		g.Hold(time.Minute)
		wait, ok := g.Enter()
		require.False(t, ok)
		require.GreaterOrEqual(t, wait, time.Minute)
		g.Hold(time.Second) // shortens nothing
		time.Sleep(time.Minute - time.Second)
		_, ok = g.Enter()
		require.False(t, ok)
		time.Sleep(time.Second)
		_, ok = g.Enter()
		require.True(t, ok)
	})
}

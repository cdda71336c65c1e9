package cockroach

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pass takes a turn, uses it for a statement of so many steps that takes so long, and
// returns when the statement began.
func (s *turnstile) pass(steps int, takes time.Duration) (began time.Time) {
	t := s.take(company)
	t.begin()
	began = time.Now()
	time.Sleep(takes)
	t.end(steps)
	return began
}

func TestStatementsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(false).at("home", "", "begin")
		start := time.Now()
		var began []string
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				at := s.pass(1, 10*time.Millisecond).Sub(start)
				mu.Lock()
				defer mu.Unlock()
				began = append(began, fmt.Sprint(i, " ", at))
			})
			synctest.Wait() // each is in line before the next
		}
		all.Wait()
		require.Equal(t, []string{"0 0s", "1 10ms", "2 20ms", "3 30ms"}, began)
		require.Equal(t, time.Now(), s.pass(1, 0), "nobody is there")
	})
}

// TestFewGoAside: where statements do not pause, a kind whose statements few share waits
// for no other, and holds up none.
func TestFewGoAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(false).at("home", "", "begin")
		held := s.take(company)
		aside := s.take(company - 1)
		aside.begin()
		held.end(0)
		s.take(company).end(0)
		time.Sleep(time.Minute)
		aside.end(1)

		s = newTurns(true).at("home", "", "begin")
		held = s.take(0)
		passed := false
		go func() {
			s.take(0).end(0)
			passed = true
		}()
		synctest.Wait()
		require.False(t, passed, "where they pause, all take turns")
		held.end(0)
		synctest.Wait()
		require.True(t, passed)
	})
}

func TestPlacesHaveTurnsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(false)
		held := all.at("home", "", "begin").take(company)
		for _, other := range []*turnstile{all.at("other", "", "begin"), all.at("home", "far", "begin"), all.at("home", "far", "settle")} {
			began := other.take(company)
			require.Equal(t, time.Now(), all.at("third", "", "begin").pass(1, 0))
			defer began.end(0)
		}
		held.end(0)
		require.Same(t, all.at("home", "", "begin"), all.at("home", "", "settle"))
		first, again := all.at("home", "far", "begin"), all.at("home", "far", "begin")
		require.Same(t, first, again)
	})
}

// A statement that hangs holds others up for a few times what statements take, again and
// again, and not longer each time.
func TestAHangingStatementLosesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(false).at("home", "", "begin")
		for range 100 {
			s.pass(1, 2*time.Millisecond)
		}
		for range 100 {
			hung := s.take(company)
			hung.begin()
			before := time.Now()
			waited := s.pass(1, 2*time.Millisecond).Sub(before)
			require.GreaterOrEqual(t, waited, 4*time.Millisecond)
			require.LessOrEqual(t, waited, 100*time.Millisecond)
			time.Sleep(400 * time.Millisecond)
			hung.end(1) // nobody's turn is ended by that
			next := s.take(company)
			next.begin()
			hung.end(1)
			later := make(chan time.Time, 1)
			go func() { later <- s.pass(1, 0) }()
			synctest.Wait()
			require.Empty(t, later)
			next.end(1)
			<-later
		}
	})
}

// Where most statements hang, the few others wait as little.
func TestHangingStatementsAreNotTheUsual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(true).at("home", "", "begin")
		for range 100 {
			s.pass(1, 3*time.Millisecond)
		}
		usual := s.usual
		for range 60 {
			for range groupLanes - 1 {
				go func() {
					hung := s.take(company)
					hung.begin()
					time.Sleep(1200 * time.Millisecond)
					hung.end(0) // it failed
				}()
			}
			synctest.Wait()
			asked := time.Now()
			require.LessOrEqual(t, s.pass(1, 3*time.Millisecond).Sub(asked), 100*time.Millisecond)
			time.Sleep(3 * time.Second)
		}
		require.Equal(t, usual, s.usual)
	})
}

// Statements that become slower keep their turns once that is known.
func TestASlowDatabaseHasLongerTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(false).at("home", "", "begin")
		for range 60 {
			s.pass(8, 100*time.Millisecond)
		}
		slow := s.take(company)
		slow.begin()
		next := make(chan time.Time, 1)
		go func() { next <- s.pass(1, 0) }()
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, next)
		slow.end(8)
		<-next
	})
}

// Where statements cost more than steps, one that several shared makes the next wait for
// company, from its end or from when a caller comes. One that nobody shared does not, nor
// does one of long ago, and who waited for a turn has waited for company, too.
func TestStatementsWaitForCompany(t *testing.T) {
	for _, pauses := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newTurns(pauses).at("home", "", "begin")
			for range 100 {
				s.pass(1, 20*time.Millisecond)
			}
			s.pass(company-1, 20*time.Millisecond)
			ended := time.Now()
			require.Equal(t, ended, s.pass(company, 20*time.Millisecond))
			ended = time.Now()
			pause := s.pass(company, 20*time.Millisecond).Sub(ended)
			if !pauses {
				require.Zero(t, pause)
				return
			}
			require.Equal(t, 10*time.Millisecond, pause)

			time.Sleep(companyFor - time.Millisecond)
			came := time.Now()
			require.Equal(t, 10*time.Millisecond, s.pass(company, 20*time.Millisecond).Sub(came))
			usual := s.usual
			hung := s.take(company)
			hung.begin()
			came = time.Now()
			waited := s.pass(company, 20*time.Millisecond).Sub(came)
			require.Equal(t, turnFor*usual, waited, "it has waited already")
			hung.end(1)
			time.Sleep(companyFor)
			require.Equal(t, time.Now(), s.pass(1, 0), "they have not come back")

			for range 30 {
				s.pass(1, 300*time.Millisecond)
			}
			s.pass(company, 300*time.Millisecond)
			ended = time.Now()
			require.Equal(t, pauseMost, s.pass(1, 0).Sub(ended), "the way needs no company")
		})
	}
}

// A turn that is given back, as there is no connection, says nothing of the database.
func TestATurnThatIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(true).at("home", "", "begin")
		usual := s.usual
		for range 100 {
			t := s.take(company)
			t.begin()
			t.end(0)
			t.end(64)
		}
		require.Equal(t, usual, s.usual)
		require.False(t, s.busy)
		s.pass(company, usual)
		s.take(company).end(0)
		require.Equal(t, company, s.last)
	})
}

func TestAConnectionThatIsThereIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs, waited := newRooms(3, 9), 0
		waits := func() { waited++ }
		var leaves []func()
		for range 3 {
			leave, err := rs.enterFor(ofClaims(t.Context()), waits)
			require.NoError(t, err)
			leaves = append(leaves, leave)
		}
		require.Zero(t, waited)
		got := make(chan func(), 1)
		go func() {
			leave, err := rs.enterFor(ofClaims(t.Context()), waits)
			require.NoError(t, err)
			got <- leave
		}()
		synctest.Wait()
		require.Equal(t, 1, waited)
		leaves[0]()
		(<-got)()
		require.Equal(t, 1, waited)
	})
}

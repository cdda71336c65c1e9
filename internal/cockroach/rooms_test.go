package cockroach

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// crowd makes calls that enter and stay.
type crowd struct {
	*testing.T
	rooms *rooms
	ctx   context.Context // patience without an end, until the test does
}

func newCrowd(t *testing.T, conns, waiting int) *crowd {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return &crowd{t, newRooms(conns, waiting), ctx}
}

// call enters and stays until the test ends or it is told to leave. in reports whether
// it has a connection by now, out whether it was refused.
func (c *crowd) call(ctx context.Context) (in, out func() bool, leave func()) {
	entered, refused, told := make(chan struct{}), make(chan error, 1), make(chan struct{})
	go func() {
		leave, err := c.rooms.enter(ctx)
		if err != nil {
			refused <- err
			return
		}
		close(entered)
		select {
		case <-told:
		case <-c.ctx.Done():
		}
		leave()
	}()
	in = func() bool {
		synctest.Wait()
		select {
		case <-entered:
			return true
		default:
			return false
		}
	}
	out = func() bool {
		synctest.Wait()
		select {
		case err := <-refused:
			require.ErrorIs(c, err, claim.ErrUnavailable)
			return true
		default:
			return false
		}
	}
	return in, out, func() { close(told) }
}

// flood makes n calls and returns how many are inside.
func (c *crowd) flood(ctx context.Context, n int) (inside int) {
	before := c.rooms.calls()
	for range n {
		c.call(ctx)
	}
	synctest.Wait()
	return c.rooms.calls() - before
}

func (c *crowd) of(tenant string) context.Context { return ofTenant(c.ctx, tenant) }

// in marks ctx for a room; far ones are those of a region of their own.
func (c *crowd) in(room int, tenant string) context.Context { return c.at(room, tenant, "elsewhere") }

// at marks ctx for a room, and for a region where the room is far.
func (c *crowd) at(room int, tenant, region string) context.Context {
	ctx := c.of(tenant)
	switch room {
	case claimsNear, claimsFar:
		ctx = ofClaims(ctx)
	case errandsNear, errandsFar:
		ctx = outbox.Begun(ctx)
	}
	if room == claimsFar || room == errandsFar || room == arrivalsFar {
		ctx = away(ctx, region)
	}
	require.Equal(c, room, errandOf(ctx).room())
	return ctx
}

// TestNoRoomTakesAnothers fills a room with calls of many tenants that never end: the
// calls of the others still get a connection at once.
func TestNoRoomTakesAnothers(t *testing.T) {
	for full, others := range map[int][]int{
		claimsFar:    {claimsNear, errandsNear, errandsFar, arrivalsNear, arrivalsFar},
		errandsNear:  {claimsNear, claimsFar, errandsFar, arrivalsNear, arrivalsFar},
		errandsFar:   {claimsNear, claimsFar, errandsNear, arrivalsNear, arrivalsFar},
		arrivalsNear: {claimsNear, claimsFar, errandsNear, errandsFar},
		arrivalsFar:  {claimsNear, claimsFar, errandsNear, errandsFar, arrivalsNear},
	} {
		for _, conns := range []int{8, 16, 100} {
			t.Run(fmt.Sprintf("room %d of %d", full, conns), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCrowd(t, conns, 1024)
					for i := range 10 {
						c.flood(c.at(full, fmt.Sprint("tenant", i), fmt.Sprint("region", i)), 500)
					}
					for _, other := range others {
						in, _, leave := c.call(c.in(other, "acme"))
						require.True(t, in(), "room %d", other)
						leave()
						synctest.Wait()
					}
				})
			})
		}
	}
}

// TestArrivalsLeaveRoomForClaims: near and far arrivals together stop nothing of what
// finishes, in a small pool either.
func TestArrivalsLeaveRoomForClaims(t *testing.T) {
	for _, conns := range []int{4, 8, 16, 100} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t, conns, 1024)
			for i := range 10 {
				c.flood(c.in(arrivalsNear, fmt.Sprint("tenant", i)), 500)
				c.flood(c.at(arrivalsFar, fmt.Sprint("tenant", i), fmt.Sprint("region", i)), 500)
			}
			for _, room := range []int{claimsNear, claimsFar} {
				in, _, leave := c.call(c.in(room, "acme"))
				require.True(t, in(), "room %d of %d", room, conns)
				leave()
				synctest.Wait()
			}
		})
	}
}

// TestNoLostRegionTakesTheLastPlace: the calls of one far region never end, of whatever
// tenants they are; those of the next region still get a connection and a place in
// line. In a pool of sixteen a second region may be lost, too.
func TestNoLostRegionTakesTheLastPlace(t *testing.T) {
	for conns, lost := range map[int]int{4: 1, 8: 1, 16: 2, 100: 4} {
		for _, room := range []int{claimsFar, errandsFar, arrivalsFar} {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, conns, 1024)
				for i := range lost {
					for j := range 10 {
						c.flood(c.at(room, fmt.Sprint("tenant", j), fmt.Sprint("lost", i)), 500)
					}
				}
				for _, tenant := range []string{"tenant0", "acme"} {
					in, _, leave := c.call(c.at(room, tenant, "healthy"))
					require.True(t, in(), "room %d of %d, with %d regions lost, for %s", room, conns, lost, tenant)
					leave()
					synctest.Wait()
				}
				require.Positive(t, c.flood(c.at(room, "acme", "healthy"), 10), "in line")
			})
		}
	}
}

// TestNoLostRegionTakesTheLastPlaceOfAnyRoom: one lost region fills every far room, while
// arrivals at home come and go.
func TestNoLostRegionTakesTheLastPlaceOfAnyRoom(t *testing.T) {
	for _, conns := range []int{8, 16, 100} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t, conns, 1024)
			for i := range 10 {
				for _, room := range []int{claimsFar, errandsFar, arrivalsFar} {
					c.flood(c.at(room, fmt.Sprint("tenant", i), "lost"), 500)
				}
			}
			for _, room := range []int{claimsNear, claimsFar, errandsNear, errandsFar, arrivalsNear, arrivalsFar} {
				in, _, leave := c.call(c.at(room, "acme", "healthy"))
				require.True(t, in(), "room %d of %d", room, conns)
				leave()
				synctest.Wait()
			}
		})
	}
}

// TestNoTenantFillsTheRoom: one tenant alone gets half of the room of arrivals, and
// not its last connection; what it gave up goes round among those who wait.
func TestNoTenantFillsTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 16, 984) // 1,000 inside
		require.Equal(t, 500, c.flood(c.of("loud"), 2000))
		require.Equal(t, 11, c.rooms.all[arrivalsNear].placed, "of twelve")
		in, _, leave := c.call(c.of("calm"))
		require.True(t, in(), "the last one is for somebody else")
		require.InDelta(t, 250, c.flood(c.of("also loud"), 2000), 1, "half of what is left")
		_, refused, _ := c.call(c.of("loud"))
		require.True(t, refused(), "it has more than there is free")
		waits, refused, _ := c.call(c.of("new"))
		require.False(t, waits() || refused())
		leave()
		require.False(t, waits())
		of := c.rooms.all[arrivalsNear].parties
		require.Equal(t, []int{11, 1, 0}, []int{of[whose{tenant: "loud"}].placed, of[whose{tenant: "also loud"}].placed, of[whose{tenant: "new"}].placed}, "who has none goes before, in turn")
	})
}

// TestTenantsTakeTurns: of two that wait, the one with the shorter line does not wait
// behind the longer.
func TestTenantsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 1, 1000)
		_, _, leave := c.call(c.of("first"))
		synctest.Wait()
		c.flood(c.of("loud"), 100)
		in, _, _ := c.call(c.of("calm"))
		require.False(t, in())
		leave() // to loud, who was before
		require.False(t, in())
		var loud *party
		for _, p := range c.rooms.all[arrivalsNear].parties {
			if p.placed == 1 {
				loud = p
			}
		}
		require.Equal(t, "loud", loud.tenant)
		require.Equal(t, "calm", c.rooms.all[arrivalsNear].turn[0].tenant, "and calm is next")
	})
}

// TestWhoGivesUpLeavesNothing: patience that ends gives the place in the line up.
func TestWhoGivesUpLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 1, 10)
		_, _, leave := c.call(c.ctx)
		synctest.Wait()
		short, cancel := context.WithTimeout(c.of("acme"), time.Second)
		defer cancel()
		_, err := c.rooms.enter(short)
		require.ErrorIs(t, err, errNoTurn)
		require.Equal(t, 1, c.rooms.calls())
		require.Empty(t, c.rooms.all[arrivalsNear].turn)
		leave()
		synctest.Wait()
		require.Zero(t, c.rooms.calls())
		require.Equal(t, 1, c.rooms.free)
	})
}

// TestNobodyIsForgotten: whatever comes and goes, nobody waits for a connection that
// nobody else may have, and in the end all are free.
func TestNobodyIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 7, 50)
		for i := range 2000 {
			ctx := c.of(fmt.Sprint("tenant", i%5))
			switch rand.N(6) {
			case 0:
				ctx = ofClaims(ctx)
			case 1:
				ctx = outbox.Begun(ctx)
			}
			if rand.N(3) == 0 {
				ctx = away(ctx, fmt.Sprint("region", rand.N(3)))
			}
			go func() {
				time.Sleep(rand.N(time.Second))
				turn, cancel := context.WithTimeout(ctx, rand.N(50*time.Millisecond))
				defer cancel()
				if leave, err := c.rooms.enter(turn); err == nil {
					time.Sleep(rand.N(20 * time.Millisecond))
					leave()
				}
			}()
		}
		for range 100 {
			time.Sleep(11 * time.Millisecond)
			synctest.Wait()
			c.rooms.mu.Lock()
			placed := 0
			for i := range c.rooms.all {
				r := &c.rooms.all[i]
				placed += r.placed
				for _, p := range r.turn {
					require.False(t, c.rooms.may(r, p), "room %d", i)
				}
			}
			require.Equal(t, 7, c.rooms.free+placed)
			c.rooms.mu.Unlock()
		}
		time.Sleep(time.Minute)
		require.Zero(t, c.rooms.calls())
		require.Equal(t, 7, c.rooms.free)
	})
}

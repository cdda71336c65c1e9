package pool

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// crowd makes calls that enter and stay.
type crowd struct {
	*testing.T
	*Pool
	ctx context.Context // ends with the test
}

func newCrowd(t *testing.T, conns, waiting int) *crowd {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return &crowd{t, New(conns, waiting), ctx}
}

// outcome of a call.
const (
	refused = iota
	waits
	connected
)

// call enters, waits for a connection and keeps it until end.
func (c *crowd) call(of Call) (is func() int, end context.CancelFunc) {
	ctx, end := context.WithCancel(c.ctx)
	state := waits
	go func() {
		leave, err := c.Enter(of)
		if err != nil {
			require.ErrorIs(c, err, ErrFull)
			state = refused
			return
		}
		defer leave()
		release, err := c.Acquire(ctx, of)
		if err != nil {
			return
		}
		defer release()
		state = connected
		<-ctx.Done()
	}()
	return func() int { synctest.Wait(); return state }, end
}

// flood makes n calls and returns how many of them are inside.
func (c *crowd) flood(of Call, n int) int {
	before := c.inside()
	for range n {
		c.call(of)
	}
	synctest.Wait()
	return c.inside() - before
}

func (c *crowd) inside() int {
	begun, arriving := c.Stats()
	return begun.Calls + arriving.Calls
}

// served checks that a call gets a connection at once.
func (c *crowd) served(of Call) {
	c.Helper()
	is, end := c.call(of)
	require.Equal(c, connected, is(), "%+v", of)
	end()
	synctest.Wait()
}

// TestArrivingWorkLeavesConnections: requests of many tenants, on near and far rows, fill
// their pool. Begun work still gets a connection at once.
func TestArrivingWorkLeavesConnections(t *testing.T) {
	for _, conns := range []int{2, 4, 8, 16, 100} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t, conns, 1024)
			for i := range 10 {
				c.flood(Call{Tenant: fmt.Sprint("tenant", i)}, 500)
				c.flood(Call{Tenant: fmt.Sprint("tenant", i), Region: fmt.Sprint("region", i)}, 500)
			}
			c.flood(Call{}, 500)
			c.served(Call{Begun: true})
			if conns >= 4 {
				c.served(Call{Begun: true, Region: "elsewhere"})
			}
		})
	}
}

// TestALostRegionLeavesConnections: the calls on rows of one region never end. All others
// get a connection at once, in both pools, and so do those on rows of a further region.
func TestALostRegionLeavesConnections(t *testing.T) {
	for conns, lost := range map[int]int{8: 1, 16: 2, 100: 4} {
		for _, begun := range [][]bool{{true}, {false}, {true, false}} {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, conns, 1024)
				for i := range lost {
					for _, begun := range begun {
						for j := range 10 {
							c.flood(Call{Begun: begun, Region: fmt.Sprint("lost", i), Tenant: fmt.Sprint("tenant", j)}, 500)
						}
					}
				}
				for _, begun := range []bool{true, false} {
					c.served(Call{Begun: begun, Tenant: "acme"})
					c.served(Call{Begun: begun, Tenant: "acme", Region: "healthy"})
					require.Positive(t, c.flood(Call{Begun: begun, Tenant: "acme", Region: "healthy"}, 10))
				}
			})
		}
	}
}

// TestErrandsLeaveConnections: what many deliveries ask for never answers. What ends, renews
// or takes over claims still gets a connection at once, and so does an arriving request.
func TestErrandsLeaveConnections(t *testing.T) {
	for _, conns := range []int{2, 4, 16, 100} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t, conns, 1024)
			c.flood(Call{Begun: true, Errand: true}, 2000)
			c.served(Call{Begun: true})
			if conns > 2 {
				c.served(Call{Begun: true, Region: "elsewhere"})
			}
			if conns > 4 {
				c.served(Call{Tenant: "acme"})
			}
			c.flood(Call{Tenant: "acme"}, 2000)
			c.served(Call{Begun: true})
		})
	}
}

// TestALostRegionLeavesNearWorkTheLastConnection: calls on far rows that never end may fill
// both pools. What ends, renews or takes over near claims still gets a connection at once.
func TestALostRegionLeavesNearWorkTheLastConnection(t *testing.T) {
	for _, conns := range []int{2, 3, 4, 5, 6, 8} {
		for _, begun := range [][]bool{{true}, {true, false}, {false, true}} {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, conns, 1024)
				for _, begun := range begun {
					for i := range 4 {
						c.flood(Call{Begun: begun, Region: fmt.Sprint("lost", i)}, 100)
					}
				}
				c.served(Call{Begun: true})
			})
		}
	}
}

// TestOneTenantHasHalf: a tenant alone has half of the places and of the connections; a
// second one has half of the rest.
func TestOneTenantHasHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 16, 984) // 1,000 inside, 12 with a connection
		require.Equal(t, 500, c.flood(Call{Tenant: "loud"}, 2000))
		conns := func(tenant string) int { return c.arriving.shares[party{tenant: tenant}].conns }
		require.Equal(t, 6, conns("loud"))
		require.InDelta(t, 250, c.flood(Call{Tenant: "also loud"}, 2000), 1)
		require.Equal(t, 3, conns("also loud"))
		is, _ := c.call(Call{Tenant: "loud"})
		require.Equal(t, refused, is())
		c.served(Call{Tenant: "calm"})
	})
}

// TestPartiesGetConnectionsInTurn: of two that wait, the one with the shorter line does not
// wait behind the longer.
func TestPartiesGetConnectionsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 1, 1000)
		_, first := c.call(Call{Tenant: "first"})
		synctest.Wait()
		c.flood(Call{Tenant: "loud"}, 100)
		is, _ := c.call(Call{Tenant: "calm"})
		require.Equal(t, waits, is())
		first()
		require.Equal(t, waits, is(), "loud was there before")
		require.Equal(t, "calm", c.arriving.turn[0].tenant)
	})
}

// TestBegunWorkGoesFirst: a connection that becomes free goes to begun work, however many
// others came before.
func TestBegunWorkGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 1, 10)
		_, end := c.call(Call{})
		synctest.Wait()
		arriving, _ := c.call(Call{})
		begun, ended := c.call(Call{Begun: true})
		require.Equal(t, []int{waits, waits}, []int{arriving(), begun()})
		end()
		require.Equal(t, []int{waits, connected}, []int{arriving(), begun()})
		ended()
		require.Equal(t, connected, arriving())
	})
}

// TestACallThatGivesUpLeavesNothing: a call whose ctx ends has no place in the line. One whose time
// is over is a time-out, one whose caller has left is none.
func TestACallThatGivesUpLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 1, 10)
		_, end := c.call(Call{})
		synctest.Wait()
		short, cancel := context.WithTimeout(c.ctx, time.Second)
		defer cancel()
		_, err := c.Acquire(short, Call{Tenant: "acme"})
		require.ErrorIs(t, err, ErrTimeout)
		require.Empty(t, c.arriving.turn)
		_, arriving := c.Stats()
		require.Equal(t, Stats{Calls: 1, Waits: 1, Timeouts: 1, Waited: time.Second}, arriving)
		short, cancel = context.WithCancel(c.ctx)
		cancel()
		_, err = c.Acquire(short, Call{Tenant: "acme"})
		require.ErrorIs(t, err, ErrTimeout)
		_, arriving = c.Stats()
		require.Equal(t, Stats{Calls: 1, Waits: 2, Timeouts: 1, Waited: time.Second}, arriving)
		end()
		synctest.Wait()
		require.Zero(t, c.inside())
		require.Equal(t, 1, c.free)
		require.Empty(t, c.arriving.shares)
	})
}

// TestNoCallIsForgotten: whatever comes and goes, no call waits for a connection that it
// may have, and in the end all are free.
func TestNoCallIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 7, 50)
		for i := range 2000 {
			of := Call{Tenant: fmt.Sprint("tenant", i%5), Begun: rand.N(3) == 0}
			if rand.N(3) == 0 {
				of.Region = fmt.Sprint("region", rand.N(3))
			}
			go func() {
				time.Sleep(rand.N(time.Second))
				ctx, cancel := context.WithTimeout(c.ctx, rand.N(50*time.Millisecond))
				defer cancel()
				leave, err := c.Enter(of)
				if err != nil {
					return
				}
				defer leave()
				if release, err := c.Acquire(ctx, of); err == nil {
					time.Sleep(rand.N(20 * time.Millisecond))
					release()
				}
			}()
		}
		for range 100 {
			time.Sleep(11 * time.Millisecond)
			synctest.Wait()
			c.mu.Lock()
			for _, of := range []*class{&c.begun, &c.arriving} {
				for _, who := range of.turn {
					require.False(t, c.may(of, who), "%v", who)
				}
			}
			require.Equal(t, 7, c.free+c.begun.conns+c.arriving.conns)
			c.mu.Unlock()
		}
		time.Sleep(time.Minute)
		require.Zero(t, c.inside())
		require.Equal(t, 7, c.free)
		require.Empty(t, c.begun.shares)
		require.Empty(t, c.arriving.shares)
	})
}

package claim

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAMachineThatSleptTrustsNoLease: its monotonic clock and its timers have stood still. Only the
// wall clock has moved.
func TestAMachineThatSleptTrustsNoLease(t *testing.T) {
	const lease, slept = 25 * time.Second, time.Hour
	for name, c := range map[string]struct {
		sleep func(hold func() *holding, fall func())
		held  bool
	}{
		"before the store's reply that it holds the lease": {func(hold func() *holding, fall func()) { fall(); hold() }, false},
		"in the middle of the call":                        {func(hold func() *holding, fall func()) { hold(); fall() }, false},
		"while it renewed": {func(hold func() *holding, fall func()) {
			h, sentAt := hold(), time.Now()
			fall()
			h.extend(sentAt.Add(lease))
		}, false},
		"never": {func(hold func() *holding, _ func()) { hold() }, true},
		"never, and renewed": {func(hold func() *holding, _ func()) {
			h := hold()
			time.Sleep(lease - time.Second)
			h.extend(time.Now().Add(lease))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				all := holdings{wall: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }}
				var ctx context.Context
				var held *holding
				c.sleep(func() *holding {
					ctx, held = all.add(t.Context(), Lease{}, time.Now().Add(lease), time.Now().Add(time.Hour))
					return held
				}, func() { ahead.Store(int64(slept)) })
				time.Sleep(2 * lookEvery)
				require.Equal(t, c.held, ctx.Err() == nil)
				if !c.held {
					require.Equal(t, errTrustLost, context.Cause(ctx))
					held.extend(time.Now().Add(2 * slept))
					time.Sleep(2 * lookEvery)
					require.Error(t, ctx.Err(), "trust is never regained")
				} else {
					time.Sleep(lease)
					require.Equal(t, errTrustLost, context.Cause(ctx), "and it ends")
				}
				all.remove(held)
			})
		})
	}
}

// TestAWallClockThatIsSetBackProlongsNothing: the monotonic one counts then.
func TestAWallClockThatIsSetBackProlongsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := holdings{wall: func() time.Time { return time.Now().Add(-time.Hour) }}
		ctx, held := all.add(t.Context(), Lease{}, time.Now().Add(time.Minute), time.Now().Add(time.Hour))
		time.Sleep(time.Minute - time.Nanosecond)
		require.NoError(t, ctx.Err())
		time.Sleep(2 * time.Nanosecond)
		require.Equal(t, errTrustLost, context.Cause(ctx))
		all.remove(held)
	})
}

// TestEachTrustEndsInItsOwnTime, though one timer looks after all of them.
func TestEachTrustEndsInItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all holdings
		hold := func(d time.Duration) (context.Context, *holding) {
			return all.add(t.Context(), Lease{}, time.Now().Add(d), time.Now().Add(time.Hour))
		}
		long, first := hold(10 * time.Second)
		short, second := hold(300 * time.Millisecond)
		time.Sleep(100 * time.Millisecond)
		shorter, third := hold(100 * time.Millisecond)
		none, fourth := hold(0)
		require.Equal(t, errTrustLost, context.Cause(none))
		time.Sleep(100*time.Millisecond - 1)
		require.NoError(t, shorter.Err())
		time.Sleep(2)
		require.Equal(t, errTrustLost, context.Cause(shorter))
		require.NoError(t, short.Err())
		all.remove(second)
		require.Equal(t, context.Canceled, context.Cause(short))
		time.Sleep(5 * time.Second)
		first.extend(time.Now().Add(7500 * time.Millisecond))
		time.Sleep(7500*time.Millisecond - 1)
		require.NoError(t, long.Err())
		time.Sleep(2)
		require.Equal(t, errTrustLost, context.Cause(long))
		for _, h := range []*holding{first, third, fourth} {
			all.remove(h)
		}
		time.Sleep(lookEvery)
		synctest.Wait()
		require.True(t, all.rings.IsZero(), "nothing rings while nothing is held")
		later, fifth := hold(time.Minute)
		time.Sleep(time.Minute - 1)
		require.NoError(t, later.Err())
		time.Sleep(2)
		require.Equal(t, errTrustLost, context.Cause(later))
		all.remove(fifth)
	})
}

func TestWatchersOfAnExecution(t *testing.T) {
	var f flights
	key := Key{Tenant: "acme", Value: "k"}
	require.Nil(t, f.watch("eu", key))
	first := f.begin("eu", key)
	require.Nil(t, f.watch("us", key))
	watched := f.watch("eu", key)
	require.Equal(t, watched, f.watch("eu", key), "all watchers share one")
	second := f.begin("eu", key)
	<-watched // it looks again
	watched = f.watch("eu", key)
	f.end("eu", key, first)
	select {
	case <-watched:
		t.Fatal("the second is still under way")
	default:
	}
	f.end("eu", key, second)
	<-watched
	require.Nil(t, f.watch("eu", key))
	require.Empty(t, f.m)
	f.end("eu", key, f.begin("eu", key))
	require.Empty(t, f.m)
}

package claim

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAMachineThatSleptTrustsNoLease: its monotonic clock and its timers have stood
// still, and only the wall clock tells.
func TestAMachineThatSleptTrustsNoLease(t *testing.T) {
	const lease, slept = 25 * time.Second, time.Hour
	for name, c := range map[string]struct {
		sleep func(hold func() *holding, fall func())
		held  bool
	}{
		"before it heard that it holds the lease": {func(hold func() *holding, fall func()) { fall(); hold() }, false},
		"in the middle of the call":               {func(hold func() *holding, fall func()) { hold(); fall() }, false},
		"while it renewed": {func(hold func() *holding, fall func()) {
			h, asked := hold(), time.Now()
			fall()
			h.extend(asked.Add(lease))
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

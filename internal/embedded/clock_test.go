package embedded_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/outbox"
)

// storeClock reads the store's clock.
func storeClock(t testing.TB, v *embedded.View) time.Time {
	t.Helper()
	_, now, _, err := v.Get(t.Context(), claim.Key{Tenant: "acme", Value: "clock"}, us)
	require.NoError(t, err)
	return now
}

// A machine's clock that jumps an hour forward and back must not stand still for that
// hour: a lease and a due row that were written meanwhile lapse in twice their time,
// and in two hours the store's clock and the machine's agree again. It never goes back.
func TestAClockThatJumpsForwardAndBack(t *testing.T) {
	const jump = time.Hour
	clock := newClock()
	db := open(t, embedded.Config{Clock: clock.now})
	ctx, v := t.Context(), view(t, db, us)
	require.NoError(t, db.PutTenant(ctx, claim.Tenant{ID: "acme", Registrar: us}))
	last := storeClock(t, v)
	pass := func(d time.Duration) {
		t.Helper()
		clock.advance(d)
		now := storeClock(t, v)
		require.False(t, now.Before(last), "from %v back to %v", last, now)
		last = now
	}
	pass(jump)
	got, err := v.Begin(ctx, arrive("k", us))
	require.NoError(t, err)
	pass(-jump)
	_, err = v.TakeOver(ctx, got.Record.Key, us, got.Record.Minted.ID, "other", us)
	require.ErrorIs(t, err, claim.ErrLeaseHeld)

	lease := testPolicy().Lease
	for range 2 * lease / time.Second {
		pass(time.Second)
	}
	due, err := v.Queue(outbox.ProviderCalls).Take(ctx, us, 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, due, 1, "the row is due")
	_, err = v.TakeOver(ctx, got.Record.Key, us, got.Record.Minted.ID, "other", us)
	require.NoError(t, err, "the lease has lapsed")
	pass(-lease) // once more, while it is still ahead
	for range 2 * (jump + lease) / time.Minute {
		pass(time.Minute)
	}
	require.Equal(t, clock.now().Truncate(time.Microsecond), storeClock(t, v))
	pass(time.Microsecond)
	require.Equal(t, clock.now().Truncate(time.Microsecond), storeClock(t, v))
}

// Many readers of a clock that trembles see none of them go back.
func TestTheClockNeverGoesBack(t *testing.T) {
	clock := newClock()
	db := open(t, embedded.Config{Clock: clock.now})
	v := view(t, db, us)
	var readers sync.WaitGroup
	for i := range 8 {
		readers.Go(func() {
			last := storeClock(t, v)
			for range 1000 {
				clock.advance(time.Duration(i-3) * time.Millisecond)
				now := storeClock(t, v)
				if now.Before(last) {
					t.Errorf("from %v back to %v", last, now)
				}
				last = now
			}
		})
	}
	readers.Wait()
}

package embedded_test

import (
	"context"
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

// The store's clock must not stand still for an hour if the machine's jumps an hour forward and
// back: a lease and a due row that were written meanwhile lapse in twice their time, and in two
// hours the store's clock and the machine's agree again. The store's clock never goes back.
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
	_, err = v.TakeOver(ctx, got.Record.Key, us, got.Record.Minted.ID, "other", us, claim.News{})
	require.ErrorIs(t, err, claim.ErrLeaseHeld)

	lease := testPolicy().Lease
	for range 2 * lease / time.Second {
		pass(time.Second)
	}
	due, err := v.Queue(outbox.ProviderCalls).Take(ctx, us, 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, due, 1, "the row is due")
	_, err = v.TakeOver(ctx, got.Record.Key, us, got.Record.Minted.ID, "other", us, claim.News{})
	require.NoError(t, err, "the lease has lapsed")
	pass(-lease) // once more, while it is still ahead
	for range 2 * (jump + lease) / time.Minute {
		pass(time.Minute)
	}
	require.Equal(t, clock.now().Truncate(time.Microsecond), storeClock(t, v))
	pass(time.Microsecond)
	require.Equal(t, clock.now().Truncate(time.Microsecond), storeClock(t, v))
}

// After the machine's clock was set back, the store's goes at half its pace until they agree.
func TestTheClockAfterASetBack(t *testing.T) {
	clock := newClock()
	v := view(t, open(t, embedded.Config{Clock: clock.now}), us)
	first := storeClock(t, v)
	clock.advance(-time.Hour)
	require.Equal(t, first, storeClock(t, v))
	clock.advance(2 * time.Second)
	require.Equal(t, first.Add(time.Second), storeClock(t, v), "at half the pace")
	clock.advance(2 * time.Hour)
	require.Equal(t, clock.now().Truncate(time.Microsecond), storeClock(t, v), "until they agree")
}

// Many readers see no clock go back while the machine's jumps to and fro.
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

// hooked runs a hook once, when a call on the store begins and before it takes a lock.
type hooked struct {
	context.Context
	once func()
}

func (h *hooked) Err() error {
	if run := h.once; run != nil {
		h.once = nil
		run()
	}
	return h.Context.Err()
}

// After the machine's clock was set back, the store's goes at half its pace. A request's age is
// that of its entry, by a clock that was not set back.
func TestARequestsAgeAfterTheClockWasSetBack(t *testing.T) {
	clock, ctx := newClock(), t.Context()
	v := view(t, open(t, embedded.Config{Clock: clock.now}), us)
	refused := claim.Verdict{Outcome: &claim.Released{Response: claim.Response{Status: 402, Body: []byte("no")}}}
	begin := func(ctx context.Context, underWay time.Duration) claim.Begun {
		t.Helper()
		a := arrive("k", us)
		a.UnderWay = underWay
		got, err := v.Begin(ctx, a)
		require.NoError(t, err)
		return got
	}
	p := testPolicy()
	pause := 2 * (p.DeclinePause + p.ClockOffset + time.Second) // by the store's clock half of it
	first := begin(ctx, 0)
	require.Equal(t, claim.Won, first.Decision)

	// It began before the release, and is decided after the pause.
	twin := begin(&hooked{ctx, func() {
		clock.advance(-time.Hour)
		_, err := v.Settle(ctx, first.Record, refused)
		require.NoError(t, err)
		clock.advance(pause)
	}}, 0)
	require.Equal(t, claim.Shared, twin.Decision, "it began before the release")

	// It began after the pause, and retries as its outcome is unknown.
	require.Equal(t, claim.Won, begin(ctx, 0).Decision)
	age := pause + time.Second
	require.Less(t, age/2, p.Lease)
	clock.advance(age)
	require.Equal(t, claim.Busy, begin(ctx, age).Decision, "it began the attempt that is under way")
}

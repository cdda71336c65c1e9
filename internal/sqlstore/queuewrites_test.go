package sqlstore_test

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/outbox"
)

func pinWrites() []operation {
	return []operation{{
		name: "pin", statements: []string{"pin"},
		before: noAnswer,
		call:   pinAt,
		right:  pinned(here),
		effect: func(c *cell, want, is *stored) {
			want.Pins = []pinRow{{Registrar: here, Home: here, CreatedAt: is.Pins[0].CreatedAt}}
		},
		next: func(c *cell, done bool) {
			if done {
				c.pins(there, here)
				return
			}
			c.pins(there, there)
		},
	}, {
		name: "begin a new key with its pin", statements: []string{"begin_here"},
		before: noAnswer,
		call:   beginHereAt,
		right:  won(claim.Won, 1, 1),
		effect: func(c *cell, want, is *stored) {
			want.Pins = []pinRow{{Registrar: here, Home: here, CreatedAt: is.Pins[0].CreatedAt}}
			want.Claims = []claimRow{{State: claim.InFlight, Fence: 1, Generation: 1, Attempts: 1, Object: c.object("a"), Holder: "a"}}
			renamed(c, &want.Claims[0], is.Claims[0])
			want.Calls = []callRow{{ID: c.object("a"), Due: is.Claims[0].Lease}}
			want.Audit = append(want.Audit, "claimed 1")
		},
		next: func(c *cell, done bool) {
			if done {
				c.pins(there, here)
				c.arrives("b", claim.Busy)
				return
			}
			c.pins(there, there)
		},
	}, {
		name: "confirm a pin", statements: []string{"pin_write"},
		before: func(c *cell) {
			c.pins(there, there)
			c.agePin(45 * time.Minute) // past half of the hour in which it may be used
		},
		call:  pinAt,
		right: pinned(there),
		effect: func(c *cell, want, is *stored) {
			later(c, &want.Pins[0].CreatedAt, is.Pins[0].CreatedAt)
		},
		next: func(c *cell, _ bool) { c.pins(elsewhere, there) },
	}, {
		name: "take a pin over", statements: []string{"pin_write"},
		before: func(c *cell) {
			c.pins(there, there)
			c.agePin(50 * time.Hour) // past its life
		},
		call:  pinAt,
		right: pinned(here),
		effect: func(c *cell, want, is *stored) {
			want.Pins[0].Home = here
			later(c, &want.Pins[0].CreatedAt, is.Pins[0].CreatedAt)
		},
		next: func(c *cell, done bool) {
			if done {
				c.pins(elsewhere, here)
				return
			}
			c.pins(elsewhere, elsewhere)
		},
	}, {
		name: "delete a pin", statements: []string{"pins_sweep"},
		before: func(c *cell) {
			c.pins(there, there)
			c.agePin(50 * time.Hour)
		},
		call:   func(ctx context.Context, c *cell) (any, error) { return c.ours.Sweep(ctx, 1000) },
		right:  noAnswer, // a count for the log
		effect: func(_ *cell, want, _ *stored) { want.Pins = nil },
		next:   func(c *cell, _ bool) { c.pins(elsewhere, elsewhere) },
	}}
}

func queueWrites() []operation {
	return []operation{{
		name: "event finish", statements: []string{"events_finish"},
		before: eventTaken,
		call: func(ctx context.Context, c *cell) (any, error) {
			m, _ := eventOf(c)
			return nil, c.ours.Queue(outbox.Events).Finish(ctx, here, m.Hold())
		},
		right:  noAnswer,
		effect: func(_ *cell, want, _ *stored) { want.Events = nil },
		next: func(c *cell, done bool) {
			m, found := eventOf(c)
			require.Equal(c, !done, found)
			if found {
				require.NoError(c, c.others.Queue(outbox.Events).Finish(c.ctx, here, m.Hold()))
			}
		},
	}, {
		name: "event retry", statements: []string{"events_retry"}, once: true,
		before: eventTaken,
		call: func(ctx context.Context, c *cell) (any, error) {
			m, _ := eventOf(c)
			return nil, c.ours.Queue(outbox.Events).Retry(ctx, here, m.Hold(), time.Hour, "down")
		},
		right:  noAnswer,
		effect: func(*cell, *stored, *stored) {},
		next: func(c *cell, done bool) {
			m, found := eventOf(c)
			require.True(c, found)
			require.Equal(c, done, m.Attempts == 1)
			require.NoError(c, c.others.Queue(outbox.Events).Finish(c.ctx, here, m.Hold()))
		},
	}, {
		name: "call take", statements: []string{"calls_take"}, once: true,
		before: func(c *cell) {
			c.noCalls()
			lapsed(c)
		},
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.Queue(outbox.ProviderCalls).Take(ctx, here, 10, time.Minute)
		},
		right: func(c *cell) {
			got := c.got.([]outbox.Message)
			require.Len(c, got, 1)
			require.EqualValues(c, 1, got[0].Fence)
		},
		effect: func(c *cell, want, is *stored) {
			want.Calls[0].Fence = 1
			later(c, &want.Calls[0].Due, is.Calls[0].Due)
		},
		next: func(c *cell, done bool) {
			if !done {
				require.EqualValues(c, 1, c.takes(1).Fence)
				return
			}
			c.takes(0)
			require.EqualValues(c, 2, takenAgain(c).Fence)
		},
	}, {
		name: "call finish", statements: []string{"calls_finish"},
		before: taken,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.ours.Queue(outbox.ProviderCalls).Finish(ctx, here, claimtest.Call(c.held, 1))
		},
		right:  noAnswer,
		effect: func(_ *cell, want, _ *stored) { want.Calls = nil },
		next: func(c *cell, done bool) {
			if !done {
				takenAgain(c)
				return
			}
			require.ErrorIs(c, c.others.Queue(outbox.ProviderCalls).Finish(c.ctx, here, claimtest.Call(c.held, 1)), outbox.ErrFenced)
		},
	}, {
		name: "call finish together", statements: []string{"calls_finish"},
		before: taken,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.ours.Queue(outbox.ProviderCalls).FinishAll(ctx, here, []outbox.Hold{claimtest.Call(c.held, 1), {ID: "none", Fence: 1}})
		},
		right:  noAnswer,
		effect: func(_ *cell, want, _ *stored) { want.Calls = nil },
		next: func(c *cell, done bool) {
			if !done {
				takenAgain(c)
				return
			}
			require.ErrorIs(c, c.others.Queue(outbox.ProviderCalls).Finish(c.ctx, here, claimtest.Call(c.held, 1)), outbox.ErrFenced)
		},
	}, {
		name: "call retry together", statements: []string{"calls_retry"}, once: true,
		before: taken,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.ours.Queue(outbox.ProviderCalls).RetryAll(ctx, here, []outbox.Delay{
				{Hold: claimtest.Call(c.held, 1), After: time.Hour, Reason: "no answer"}, {Hold: outbox.Hold{ID: "none", Fence: 1}},
			})
		},
		right: noAnswer, effect: retried, next: triedBefore,
	}, {
		name: "call retry", statements: []string{"calls_retry"}, once: true,
		before: taken,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.ours.Queue(outbox.ProviderCalls).Retry(ctx, here, claimtest.Call(c.held, 1), time.Hour, "no answer")
		},
		right: noAnswer, effect: retried, next: triedBefore,
	}, {
		name: "call postpone", statements: []string{"calls_retry"}, once: true,
		before: taken,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.ours.Queue(outbox.ProviderCalls).Retry(ctx, here, claimtest.Call(c.held, 1), time.Hour, "")
		},
		right:  noAnswer,
		effect: func(c *cell, want, is *stored) { later(c, &want.Calls[0].Due, is.Calls[0].Due) },
		next:   func(c *cell, _ bool) { require.EqualValues(c, 0, takenAgain(c).Attempts) },
	}, {
		name: "call park", statements: []string{"calls_retry"}, once: true,
		before: taken,
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.ours.Queue(outbox.ProviderCalls).Park(ctx, here, claimtest.Call(c.held, 1), "a person must look")
		},
		right: noAnswer,
		effect: func(_ *cell, want, _ *stored) {
			want.Calls[0].Parked, want.Calls[0].LastError = true, "a person must look"
		},
		next: func(c *cell, done bool) {
			if !done {
				takenAgain(c)
				return
			}
			c.due()
			c.takes(0)
		},
	}, {
		name: "call unpark", statements: []string{"calls_unpark"}, once: true,
		before: func(c *cell) {
			taken(c)
			require.NoError(c, c.others.Queue(outbox.ProviderCalls).Park(c.ctx, here, claimtest.Call(c.held, 1), "a person must look"))
		},
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.Queue(outbox.ProviderCalls).Unpark(ctx, here, c.held.Minted.ID)
		},
		right: func(c *cell) { require.Equal(c, true, c.got) },
		effect: func(_ *cell, want, is *stored) {
			want.Calls[0].Parked, want.Calls[0].Due = false, is.Calls[0].Due
		},
		next: func(c *cell, done bool) {
			ok, err := c.others.Queue(outbox.ProviderCalls).Unpark(c.ctx, here, c.held.Minted.ID)
			require.NoError(c, err)
			require.Equal(c, !done, ok)
			c.takes(1)
		},
	}}
}

// eventTaken is an event of a claim that is final, taken by our node.
func eventTaken(c *cell) {
	heldByUs(c)
	c.held = c.settles(c.held, claim.Verdict{ID: uuid.New(), Outcome: &claim.Unsent{}, Node: "a", Region: here}) // a first holder's events are due later
	paid := *approved.Outcome.(*claim.Done)
	paid.Events = claimtest.Events(c.held, 1)
	c.settles(c.held, claim.Verdict{ID: uuid.New(), Outcome: &paid, Node: "a", Region: here})
	got, err := c.ours.Queue(outbox.Events).Take(c.ctx, here, 1, time.Hour)
	require.NoError(c, err)
	require.Len(c, got, 1)
}

// eventOf returns that event.
func eventOf(c *cell) (outbox.Message, bool) {
	c.Helper()
	m, found, err := c.others.Queue(outbox.Events).Message(c.ctx, here, claimtest.Events(c.held, 1)[0].ID)
	require.NoError(c, err)
	return m, found
}

func pinAt(ctx context.Context, c *cell) (any, error) { return c.ours.Pin(ctx, c.key, here) }

func beginHereAt(ctx context.Context, c *cell) (any, error) {
	a := c.arrival("a")
	a.Stamped, a.PinHere = false, true
	return c.ours.Begin(ctx, a)
}

func pinned(home string) func(c *cell) {
	return func(c *cell) { require.Equal(c, home, c.got.(claim.Pin).Home) }
}

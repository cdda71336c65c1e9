package sqlstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/outbox"
)

func claimWrites() []operation {
	return []operation{{
		name: "begin a new key", statements: []string{"begin"},
		before: noAnswer,
		call:   beginAt,
		right:  won(claim.Won, 1, 1),
		effect: func(c *cell, want, is *stored) {
			want.Claims = []claimRow{{State: claim.InFlight, Fence: 1, Generation: 1, Attempts: 1, Object: c.object("a"), Holder: "a"}}
			renamed(c, &want.Claims[0], is.Claims[0])
			want.Calls = []callRow{{ID: c.object("a"), Due: is.Claims[0].Lease}}
			want.Audit = append(want.Audit, "claimed 1")
		},
		next: func(c *cell, done bool) {
			if !done {
				c.settles(c.arrives("b", claim.Won), approved)
				return
			}
			c.arrives("b", claim.Busy)
			if begun, ok := c.got.(claim.Begun); ok {
				c.settles(begun.Record, approved)
				c.arrives("b", claim.Replay)
			}
		},
	}, {
		name: "begin again after a soft decline", statements: []string{"begin_again"},
		before: func(c *cell) {
			c.settles(c.arrives("z", claim.Won), released)
			c.age()
		},
		call:  beginAt,
		right: won(claim.Won, 2, 2),
		effect: func(c *cell, want, is *stored) {
			row := &want.Claims[0]
			row.State, row.Fence, row.Generation, row.Attempts, row.Holder, row.Reason = claim.InFlight, 2, 2, 2, "a", ""
			renamed(c, row, is.Claims[0])
			want.Calls = []callRow{{ID: c.object("z"), Due: is.Claims[0].Lease, Fence: 1 << 32}}
			want.Audit = append(want.Audit, "reclaimed 2")
		},
		next: func(c *cell, done bool) {
			if !done {
				require.EqualValues(c, 2, c.arrives("b", claim.Won).Generation)
				return
			}
			c.arrives("b", claim.Busy)
		},
	}, {
		name: "begin in place of a row past its tombstone", statements: []string{"begin_again"},
		before: func(c *cell) {
			c.settles(c.arrives("z", claim.Won), approved)
			c.sql(`UPDATE claims SET first_use = first_use - INTERVAL '9 days', settled_at = settled_at - INTERVAL '9 days'
				WHERE tenant_id = $1 AND idem_key = $2`, c.key.Tenant, c.key.Value)
		},
		call:  beginAt,
		right: won(claim.Won, 2, 1),
		effect: func(c *cell, want, is *stored) {
			want.Claims = []claimRow{{State: claim.InFlight, Fence: 2, Generation: 1, Attempts: 1, Object: c.object("a"), Holder: "a", Step: want.Claims[0].Step}}
			renamed(c, &want.Claims[0], is.Claims[0])
			want.Calls = []callRow{{ID: c.object("a"), Due: is.Claims[0].Lease}}
			want.Responses = 0 // the one before had its answer in the row
			want.Audit = append(want.Audit, "replaced 2")
		},
		next: func(c *cell, done bool) {
			if done {
				c.arrives("b", claim.Busy)
				return
			}
			c.arrives("b", claim.Won)
		},
	}, {
		name: "begin takes a lapsed claim over", statements: []string{"change"},
		before: lapsed,
		call:   beginAt,
		right:  won(claim.WonUnknown, 2, 1),
		effect: takenOver,
		next: func(c *cell, done bool) {
			if done {
				c.arrives("b", claim.Busy)
				return
			}
			c.arrives("b", claim.WonUnknown)
		},
	}, {
		name: "take over", statements: []string{"change"},
		before: lapsed,
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.TakeOver(ctx, c.key, here, c.held.Minted.ID, "a", here, claim.News{})
		},
		right:  func(c *cell) { holds(c, c.got.(claim.Record), 2, 1) },
		effect: takenOver,
		next: func(c *cell, done bool) {
			rec, err := c.others.TakeOver(c.ctx, c.key, here, c.held.Minted.ID, "b", here, claim.News{})
			if done {
				require.ErrorIs(c, err, claim.ErrLeaseHeld)
				return
			}
			require.NoError(c, err)
			require.EqualValues(c, 2, rec.Fence)
		},
	}, {
		name: "cancel", statements: []string{"change"},
		before: heldByUs,
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.Cancel(ctx, c.key, here, c.held.Minted.ID, uuid.New(), "clerk", here)
		},
		right: func(c *cell) {
			rec := c.got.(claim.Record)
			require.True(c, rec.Canceled())
			require.EqualValues(c, 2, rec.Fence)
			require.Equal(c, "a", rec.Holder)
		},
		effect: func(c *cell, want, is *stored) {
			row := &want.Claims[0]
			row.Fence = 2
			require.Equal(c, row.Lease, is.Claims[0].Lease)
			renamed(c, row, is.Claims[0])
			want.Audit = append(want.Audit, "canceled 2")
		},
		next: func(c *cell, done bool) {
			_, err := c.others.Settle(c.ctx, c.held, approved)
			if !done {
				require.NoError(c, err)
				return
			}
			require.ErrorIs(c, err, claim.ErrFenced)
		},
	}, {
		name: "renew", statements: []string{"renew"}, once: true,
		before: heldByUs,
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.Renew(ctx, "a", []claim.Lease{{Key: c.key, Home: here, Fence: 1}})
		},
		right: func(c *cell) { require.Equal(c, []bool{true}, c.got) },
		effect: func(c *cell, want, is *stored) {
			require.True(c, is.Claims[0].Lease.After(want.Claims[0].Lease))
			renamed(c, &want.Claims[0], is.Claims[0])
		},
		next: func(c *cell, _ bool) {
			_, err := c.others.TakeOver(c.ctx, c.key, here, c.held.Minted.ID, "b", here, claim.News{})
			require.ErrorIs(c, err, claim.ErrLeaseHeld)
			// The next heartbeat.
			held, err := c.others.Renew(c.ctx, "a", []claim.Lease{{Key: c.key, Home: here, Fence: 1}})
			require.NoError(c, err)
			require.Equal(c, []bool{true}, held)
		},
	}, {
		name: "settle for good", statements: []string{"settle"},
		before: heldByUs,
		call:   settleAll(approved),
		right: func(c *cell) {
			rec := c.got.(claim.Record)
			require.Equal(c, claim.Completed, rec.State)
			require.Equal(c, approved.Outcome.(*claim.Done).Response.Body, rec.Response.Body)
		},
		effect: func(c *cell, want, is *stored) {
			row := &want.Claims[0]
			row.State, row.Holder = claim.Completed, ""
			renamed(c, row, is.Claims[0])
			want.Calls, want.Responses = nil, 1
			want.Audit = append(want.Audit, "attempt 1", "settled 1")
			want.Booked, want.Events = []string{c.object("a") + " 4200"}, c.events("a", 1)
		},
		next: func(c *cell, done bool) {
			if !done {
				c.arrives("b", claim.Busy)
				c.settles(c.held, refused)
				require.Equal(c, refused.Outcome.(*claim.Refused).Response.Body, c.arrives("b", claim.Replay).Response.Body)
				return
			}
			require.Equal(c, approved.Outcome.(*claim.Done).Response.Body, c.arrives("b", claim.Replay).Response.Body)
			_, err := c.others.Settle(c.ctx, c.held, refused)
			require.ErrorIs(c, err, claim.ErrFenced)
			require.Equal(c, approved.Outcome.(*claim.Done).Response.Body, c.arrives("b", claim.Replay).Response.Body)
		},
	}, {
		name: "settle with not now", statements: []string{"settle"},
		before: heldByUs,
		call:   settleAll(released),
		right:  func(c *cell) { require.Equal(c, claim.FailedRetry, c.got.(claim.Record).State) },
		effect: func(c *cell, want, is *stored) {
			row := &want.Claims[0]
			row.State, row.Holder, row.Reason = claim.FailedRetry, "", released.Outcome.(*claim.Released).Reason
			renamed(c, row, is.Claims[0])
			want.Calls = nil
			want.Audit = append(want.Audit, "attempt 1", "released 1")
			want.Events, want.Expiries = c.events("a", 1), []string{c.object("a")}
			want.Unpaid = []string{c.object("a") + " 4"}
		},
		next: func(c *cell, done bool) {
			if !done {
				c.arrives("b", claim.Busy)
				c.settles(c.held, approved)
				return
			}
			_, err := c.others.Settle(c.ctx, c.held, approved)
			require.ErrorIs(c, err, claim.ErrFenced)
			c.age()
			require.EqualValues(c, 2, c.arrives("b", claim.Won).Generation)
		},
	}, {
		name: "close a released claim", statements: []string{"settle"},
		before: releasedByUs,
		call:   settleAll(refused),
		right:  func(c *cell) { require.Equal(c, claim.FailedTerminal, c.got.(claim.Record).State) },
		effect: func(c *cell, want, is *stored) {
			row := &want.Claims[0]
			row.State, row.Reason = claim.FailedTerminal, refused.Outcome.(*claim.Refused).Reason
			renamed(c, row, is.Claims[0])
			want.Responses = 1
			want.Audit = append(want.Audit, "closed 1", "settled 1")
			want.Events = c.events("a", 1)
			want.Unpaid = []string{c.object("a") + " 3"}
		},
		next: func(c *cell, done bool) {
			if !done {
				require.EqualValues(c, 2, c.arrives("b", claim.Won).Generation)
				return
			}
			require.Equal(c, refused.Outcome.(*claim.Refused).Response.Body, c.arrives("b", claim.Replay).Response.Body)
			_, err := c.others.Settle(c.ctx, c.held, refused)
			require.ErrorIs(c, err, claim.ErrFenced)
		},
	}, {
		name: "settle without an outcome", statements: []string{"defer"},
		before: heldByUs,
		call:   settleAt(timedOut),
		right: func(c *cell) {
			rec := c.got.(claim.Record)
			require.Equal(c, claim.InFlight, rec.State)
			require.EqualValues(c, 1, rec.Unknowns)
		},
		effect: func(c *cell, want, is *stored) {
			row := &want.Claims[0]
			row.Holder, row.Reason, row.Unknowns = "", timedOut.Outcome.(*claim.Unknown).Reason, 1
			renamed(c, row, is.Claims[0])
			want.Calls[0].Due = is.Claims[0].Lease
			want.Audit = append(want.Audit, "attempt 1", "deferred 1")
		},
		next: func(c *cell, done bool) {
			_, err := c.others.Settle(c.ctx, c.held, timedOut)
			if !done {
				require.NoError(c, err)
				return
			}
			require.ErrorIs(c, err, claim.ErrFenced)
			c.lapse()
			require.EqualValues(c, 1, c.arrives("b", claim.WonUnknown).Unknowns)
		},
	}, {
		name: "settle an attempt that sent nothing", statements: []string{"defer"},
		before: heldByUs,
		call:   settleAt(unsent),
		right: func(c *cell) {
			rec := c.got.(claim.Record)
			require.Equal(c, claim.InFlight, rec.State)
			require.EqualValues(c, 2, rec.Fence)
			require.Zero(c, rec.Unknowns)
		},
		effect: func(c *cell, want, is *stored) {
			row := &want.Claims[0]
			row.Holder, row.Reason, row.Fence = "", unsent.Outcome.(*claim.Unsent).Reason, 2
			renamed(c, row, is.Claims[0])
			want.Calls[0].Due = is.Claims[0].Lease
			want.Audit = append(want.Audit, "attempt 1", "deferred 2")
		},
		next: func(c *cell, done bool) {
			_, err := c.others.Settle(c.ctx, c.held, unsent)
			if !done {
				require.NoError(c, err)
				return
			}
			require.ErrorIs(c, err, claim.ErrFenced)
			c.lapse()
			rec := c.arrives("b", claim.WonUnknown)
			require.EqualValues(c, 3, rec.Fence)
			require.Zero(c, rec.Unknowns)
		},
	}}
}

func takenOver(c *cell, want, is *stored) {
	row := &want.Claims[0]
	row.Fence, row.Attempts, row.Holder = 2, 2, "a"
	renamed(c, row, is.Claims[0])
	want.Calls[0].Due = is.Claims[0].Lease
	want.Audit = append(want.Audit, "taken_over 2")
}

func settleAt(v claim.Verdict) func(ctx context.Context, c *cell) (any, error) {
	return func(ctx context.Context, c *cell) (any, error) { return c.ours.Settle(ctx, c.held, v) }
}

// settleAll settles with everything that an outcome can carry.
func settleAll(v claim.Verdict) func(ctx context.Context, c *cell) (any, error) {
	return func(ctx context.Context, c *cell) (any, error) {
		v, events := v, claimtest.Events(c.held, 2)
		switch o := v.Outcome.(type) {
		case *claim.Done:
			all := *o
			all.Posting, all.Events = claimtest.Posting(c.held, c.held.Minted.ID), events
			v.Outcome = &all
		case *claim.Refused:
			all := *o
			all.Events = events
			v.Outcome = &all
		case *claim.Released:
			all := *o
			all.Events, all.Expiry = events, &outbox.Message{Operation: "charge", Payload: []byte("{}"), Due: c.held.FirstUse.Add(time.Hour)}
			v.Outcome = &all
		}
		return c.ours.Settle(ctx, c.held, v)
	}
}

// events are the ids of what is told of a node's object under a fence.
func (c *cell) events(node string, fence int) []string {
	id := fmt.Sprintf("evt_%s_%d/", c.object(node), fence)
	return []string{id + "0", id + "1"}
}

// releasedByUs is a claim that our node released.
func releasedByUs(c *cell) {
	heldByUs(c)
	c.held = c.settles(c.held, released)
	c.age()
}

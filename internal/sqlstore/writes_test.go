package sqlstore_test

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/outbox"
)

// operation is one write of the store.
type operation struct {
	name string
	// statements are those that are injured, one at a time.
	statements []string
	// once: the caller is told of an unknown outcome, the store does not repeat.
	once bool
	// commit: the statements are part of a transaction that commits at its end.
	commit bool
	// latest: the statement compares nothing that another's turn changes, whoever
	// comes last is right.
	latest bool
	before func(c *cell)
	// call runs the operation at our node.
	call func(ctx context.Context, c *cell) (got any, err error)
	// right checks what a call that succeeded returned.
	right func(c *cell)
	// effect makes of what was stored what it has to be after the operation was
	// done once; is tells what cannot be known before.
	effect func(c *cell, want, is *stored)
	// next is another node's turn: what it finds, done or not. Where it was not
	// done, the turn changes what the operation compares.
	next func(c *cell, done bool)
}

var (
	approved = claim.Verdict{Node: "a", Region: here, Outcome: &claim.Done{
		Response: claim.Response{Status: 201, Body: []byte("paid")}, ProviderRef: "psp_1",
	}}
	refused = claim.Verdict{Node: "b", Region: here, Outcome: &claim.Refused{
		Response: claim.Response{Status: 402, Body: []byte("stolen")}, Reason: "stolen_card",
	}}
	released = claim.Verdict{Node: "a", Region: here, Outcome: &claim.Released{
		Response: claim.Response{Status: 402, Body: []byte("not now")}, Reason: "insufficient_funds",
	}}
	unsent   = claim.Verdict{Node: "a", Region: here, Outcome: &claim.Unsent{Reason: "provider_open", RetryIn: time.Hour}}
	timedOut = claim.Verdict{Node: "a", Region: here, Outcome: &claim.Unknown{Reason: "timeout", RetryIn: time.Hour}}
)

func beginAt(ctx context.Context, c *cell) (any, error) { return c.ours.Begin(ctx, c.arrival("a")) }

// won checks that our node holds the claim, as the row says.
func won(decision claim.Decision, fence uint64, generation uint32) func(c *cell) {
	return func(c *cell) {
		got := c.got.(claim.Begun)
		require.Equal(c, decision.String(), got.Decision.String())
		holds(c, got.Record, fence, generation)
	}
}

func holds(c *cell, rec claim.Record, fence uint64, generation uint32) {
	c.Helper()
	require.Equal(c, "a", rec.Holder)
	require.Equal(c, fence, rec.Fence)
	require.Equal(c, generation, rec.Generation)
	row, _, found, err := c.others.Get(c.ctx, c.key, here)
	require.NoError(c, err)
	require.True(c, found)
	require.Equal(c, row, rec, "what the winner was told is not what is stored")
}

// heldByUs is a claim that our node holds.
func heldByUs(c *cell) { c.held = c.arrives("a", claim.Won) }

// lapsed is a claim whose holder is gone.
func lapsed(c *cell) {
	c.held = c.arrives("z", claim.Won)
	c.lapse()
}

// taken is a call that our node's worker has.
func taken(c *cell) {
	c.noCalls()
	lapsed(c)
	c.takes(1)
}

// takenAgain is the other worker's turn when the row is due again.
func takenAgain(c *cell) outbox.Message {
	c.due()
	return c.takes(1)
}

func noAnswer(*cell) {}

// retried is what one failed try leaves of a call.
func retried(c *cell, want, is *stored) {
	want.Calls[0].Attempts, want.Calls[0].LastError = 1, "no answer"
	later(c, &want.Calls[0].Due, is.Calls[0].Due)
}

// triedBefore takes the row again, which counts the try if that was noted.
func triedBefore(c *cell, done bool) {
	attempts := 0
	if done {
		attempts = 1
	}
	require.EqualValues(c, attempts, takenAgain(c).Attempts)
}

// operations are all writes of the store. A transaction of CockroachDB's helper commits by
// a release.
func operations(d database) []operation {
	commit := "sql:commit"
	if d.server.Kind() == localdb.CockroachDB {
		commit = "sql:release"
	}
	return slices.Concat(claimWrites(), pinWrites(), queueWrites(), noticeWrites(), documentWrites(), tenantWrites(commit))
}

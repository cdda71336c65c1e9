package sqlstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

func (c *cell) calls() outbox.Store { return c.others.Queue(outbox.ProviderCalls) }

// noCalls ends the calls of all claims, whichever test they are of.
func (c *cell) noCalls() {
	c.Helper()
	c.sql("UPDATE claims SET call_due = NULL, call_parked = NULL, call_created = NULL WHERE call_created IS NOT NULL")
}

// arrivesAgain is the request at our node, for the next generation.
func (c *cell) arrivesAgain() claim.Decision {
	c.Helper()
	got, err := c.ours.Begin(c.ctx, c.arrival("b"))
	require.NoError(c, err)
	return got.Decision
}

// TestCallsArePaged lists calls in the order of their ids, with those that are parked.
func TestCallsArePaged(t *testing.T) {
	d := newDatabase(t)
	w := newWire(t, d, "acme", testPool())
	var want []string
	for range 5 {
		c := w.cell(t)
		heldByUs(c)
		want = append(want, c.held.Minted.ID)
	}
	c := w.cell(t)
	lapsed(c)
	want = append(want, c.held.Minted.ID)
	m := c.takes(1)
	require.NoError(t, c.calls().Park(t.Context(), here, m.Hold(), "a person must look"))
	settled := w.cell(t)
	settled.settles(settled.arrives("a", claim.Won), approved)
	var got []string
	for after := ""; ; after = got[len(got)-1] {
		page, err := c.others.Calls(t.Context(), here, after, 4)
		require.NoError(t, err)
		for _, m := range page {
			require.Equal(t, time.UTC, m.Due.Location())
			got = append(got, m.ID)
		}
		if len(page) < 4 {
			break
		}
	}
	require.ElementsMatch(t, want, got)
	require.IsIncreasing(t, got)
}

package sqlstore_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
)

// timeline is the events of c's key, in their order.
func (c *cell) timeline() (all []claim.Event) {
	c.Helper()
	line, err := c.others.Timeline(c.ctx, c.key, here, 100)
	require.NoError(c, err)
	for _, e := range line {
		all = append(all, e.Event)
	}
	return all
}

// settleNow settles the claim as it is.
func (c *cell) settleNow() {
	c.Helper()
	rec, _, found, err := c.others.Get(c.ctx, c.key, here)
	require.NoError(c, err)
	require.True(c, found)
	v := paid(c.key.Value)
	v.ID = uuid.New()
	c.settles(rec, v)
}

// TestTheFirstLineIsWrittenOnce: the line that Begin leaves in the claim is one line
// whatever becomes of the claim.
func TestTheFirstLineIsWrittenOnce(t *testing.T) {
	d := newDatabase(t)
	w := newWire(t, d, "acme", testPool())
	whole := []claim.Event{claim.EventClaimed, claim.EventAttempt, claim.EventSettled}
	inAudit := func(c *cell) int {
		return d.count(t, `SELECT count(*) FROM audit WHERE idem_key = $1 AND (event = 'claimed' OR begun_id IS NOT NULL)`, c.key.Value)
	}
	t.Run("settled", func(t *testing.T) {
		c := w.cell(t)
		c.arrives("a", claim.Won)
		require.Equal(t, whole[:1], c.timeline())
		require.Zero(t, inAudit(c))
		c.settleNow()
		require.Equal(t, whole, c.timeline())
		require.Equal(t, 1, d.count(t, "SELECT count(*) FROM audit WHERE idem_key = $1", c.key.Value))
	})
	t.Run("released, begun again, and settled", func(t *testing.T) {
		c := w.cell(t)
		held := c.arrives("a", claim.Won)
		v := claim.Verdict{ID: uuid.New(), Node: "n", Region: here, Outcome: &claim.Released{
			Reason: "insufficient_funds", Response: claim.Response{Status: 402},
		}}
		c.settles(held, v)
		require.Equal(t, 1, inAudit(c))
		c.age()
		require.Equal(t, claim.Won, c.arrivesAgain())
		c.settleNow()
		require.Equal(t, []claim.Event{claim.EventClaimed, claim.EventAttempt, claim.EventReleased, claim.EventReclaimed, claim.EventAttempt, claim.EventSettled}, c.timeline())
		require.Equal(t, 1, inAudit(c))
	})
}

// TestLinesOfClocksThatDiffer: the clock that began a claim is ahead of the one that settled
// it, at the end of a window. Each line is in the window of its own time, with its claim.
func TestLinesOfClocksThatDiffer(t *testing.T) {
	d := newDatabase(t)
	c := newWire(t, d, "acme", testPool()).cell(t)
	c.arrives("a", claim.Won)
	c.settleNow()
	const settled, midnight, begun = "2026-01-01 23:59:59Z", "2026-01-02 00:00:00Z", "2026-01-02 00:00:01Z"
	c.sql("UPDATE claims SET first_use = $2::timestamptz, settled_at = $3::timestamptz WHERE idem_key = $1", c.key.Value, begun, settled)
	c.sql("UPDATE audit SET at = $2::timestamptz, begun_at = $3::timestamptz WHERE idem_key = $1", c.key.Value, settled, begun)
	end, err := time.Parse("2006-01-02 15:04:05Z", midnight)
	require.NoError(t, err)
	// A replica has neither the lines nor, for some seconds, the database that the test has made.
	var failed error
	page := func(from, to time.Time) (all []audit.Entry) {
		for after, more := (audit.Position{}), true; more; {
			var got audit.Page
			if got, failed = c.others.AuditPage(c.ctx, here, from, to, after, 2); failed != nil {
				return nil
			}
			all, after, more = append(all, got.Entries...), got.Next, got.More
		}
		return all
	}
	if !assert.Eventually(t, func() bool { return len(page(end.Add(-time.Hour), end)) == 2 }, patience, 100*time.Millisecond, "the attempt, and the verdict") {
		t.Fatal(failed)
	}
	var after []audit.Entry
	require.Eventually(t, func() bool { after = page(end, end.Add(time.Hour)); return len(after) == 1 }, patience, 100*time.Millisecond)
	require.Equal(t, claim.EventClaimed, after[0].Event)
	require.NotNil(t, after[0].Claim, "a restore needs it")
}

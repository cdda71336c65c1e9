package cockroach_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/cockroach"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// TestEventsLeftAreLookedAt: a look knows when an event that was left with a node is to be
// moved, and does not call a row ready that waits for such an event.
func TestEventsLeftAreLookedAt(t *testing.T) {
	p := newParts(t)
	if p.Advance == nil {
		t.Skip("the clock of CockroachDB cannot be moved")
	}
	p.PutTenant(t, claim.Tenant{ID: "acme", Registrar: here})
	v, ctx := p.view(here), t.Context()
	look := func() (time.Duration, bool) {
		outlook, err := v.Look(ctx, here)
		require.NoError(t, err)
		in, found := outlook[outbox.Events]
		return in, found
	}
	_, found := look()
	require.False(t, found)

	got, err := v.Begin(ctx, claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "k"}, here, "1", "n", "ch_1"))
	require.NoError(t, err)
	verdict := paid("x")
	verdict.ID, verdict.Events, verdict.Handover = uuid.New(), claimtest.Events(got.Record, 1), &outbox.Handover{Lease: time.Hour}
	_, err = v.Settle(ctx, got.Record, verdict)
	require.NoError(t, err)
	require.Len(t, verdict.Handover.Rows, 1)
	left := verdict.Handover.Rows[0]
	in, found := look()
	require.True(t, found)
	require.Greater(t, in, 59*time.Minute)

	// What a provider tells of the charge meanwhile waits for it.
	p.Advance(time.Millisecond)
	posting := ledger.Transaction{
		ID: "charge:ch_1", Region: here, Tenant: "acme", Kind: ledger.Charge, Debit: "provider:sim", Credit: "tenant:acme",
		Amount: 5, Currency: "EUR", Object: "ch_1", Provider: "sim", ProviderRef: "ref_1",
	}
	told := left
	told.ID, told.Fence = "evt_later", 0
	booked, err := v.Book(ctx, posting, []outbox.Message{told})
	require.NoError(t, err)
	require.True(t, booked)
	in, found = look()
	require.True(t, found)
	require.Greater(t, in, 50*time.Minute, "the later one waits for the one that is left")
	events := p.Queue(here, outbox.Events)
	taken, err := events.Take(ctx, here, 10, time.Hour)
	require.NoError(t, err)
	require.Empty(t, taken)

	// Its node dies.
	p.Advance(time.Hour)
	in, found = look()
	require.True(t, found)
	require.Zero(t, in)
	depth, err := events.Depth(ctx, here)
	require.NoError(t, err)
	require.Equal(t, outbox.Depth{Pending: 2, Due: 2, OldestDue: depth.OldestDue}, depth)
	for _, want := range []string{left.ID, "evt_later"} {
		taken, err := events.Take(ctx, here, 10, time.Hour)
		require.NoError(t, err)
		require.Len(t, taken, 1)
		require.Equal(t, want, taken[0].ID)
		require.NoError(t, events.Finish(ctx, here, taken[0].ID, taken[0].Fence))
	}
	_, found = look()
	require.False(t, found)
}

// TestEventsLeftAreMovedOnce: several workers move what dead nodes have left, and each event
// is taken once.
func TestEventsLeftAreMovedOnce(t *testing.T) {
	d := newDatabase(t)
	const count, workers = 200, 4
	d.exec(t, `INSERT INTO events_left (home_region, created_at, id, kind, tenant_id, idem_key, operation, payload, trace_parent, due)
		SELECT $1::crdb_internal_region, '2026-01-01Z'::timestamptz + (i / 8) * INTERVAL '1 ms', 'evt_' || i::text, 'event_log', 'acme', 'k' || i::text, 'charge', '{}', '', '2026-01-01 00:01:00Z'
		FROM generate_series(1, $2::int8) AS g (i)`, here, count)
	db := open(t, cockroach.Config{URL: d.url})
	taken := make(chan []string, workers)
	for range workers {
		go func() {
			var mine []string
			q := view(t, db, here).Queue(outbox.Events)
			for empty := 0; empty < 3; {
				got, err := q.Take(t.Context(), here, 16, time.Hour)
				if err != nil {
					t.Error(err)
				}
				if len(got) == 0 {
					empty++
				}
				for _, m := range got {
					mine = append(mine, m.ID)
				}
			}
			taken <- mine
		}()
	}
	var all []string
	for range workers {
		all = append(all, <-taken...)
	}
	slices.Sort(all)
	var want []string
	for i := range count {
		want = append(want, fmt.Sprint("evt_", i+1))
	}
	slices.Sort(want)
	require.Equal(t, want, all)
	require.Zero(t, d.count(t, "SELECT count(*) FROM events_left"))
}

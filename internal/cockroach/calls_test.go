package cockroach_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// former puts the claim's call where nodes of before migration 067 keep it.
func (c *cell) former() {
	c.Helper()
	c.sql(`INSERT INTO outbox (home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence, attempts, last_error, parked)
		SELECT home_region, object_id, 'provider_call', tenant_id, idem_key, operation, call_payload, call_trace, call_created,
		       coalesce(call_due, call_parked), call_fence, coalesce(call_attempts, 0), coalesce(call_error, ''), call_parked IS NOT NULL
		FROM claims WHERE tenant_id = $1 AND idem_key = $2`, c.key.Tenant, c.key.Value)
	c.sql(`UPDATE claims SET call_payload = NULL, call_trace = NULL, call_created = NULL, call_due = NULL, call_parked = NULL,
		call_fence = NULL, call_attempts = NULL, call_error = NULL WHERE tenant_id = $1 AND idem_key = $2`, c.key.Tenant, c.key.Value)
}

func (c *cell) calls() outbox.Store { return c.others.Queue(outbox.ProviderCalls) }

// message is the call of c.held, if there is one.
func (c *cell) message() (outbox.Message, bool) {
	c.Helper()
	m, found, err := c.calls().Message(c.ctx, here, c.held.Minted.ID)
	require.NoError(c, err)
	return m, found
}

// noCalls ends the calls of all claims, whichever test they are of.
func (c *cell) noCalls() {
	c.Helper()
	c.sql("UPDATE claims SET call_due = NULL, call_parked = NULL, call_created = NULL WHERE call_created IS NOT NULL")
}

// settledByFormer leaves what a former node does that settles the claim.
func (c *cell) settledByFormer() {
	c.Helper()
	c.sql("UPDATE claims SET state = 2, holder = '', step = gen_random_uuid() WHERE tenant_id = $1 AND idem_key = $2", c.key.Tenant, c.key.Value)
}

// reclaimedByFormer leaves what a former node does that releases the claim and then begins
// the key's next generation, which is due.
func (c *cell) reclaimedByFormer() {
	c.Helper()
	c.sql(`UPDATE claims SET call_created = call_created - INTERVAL '1 hour', first_use = first_use - INTERVAL '1 hour',
		refused_at = now() - INTERVAL '1 minute', fence = fence + 1, generation = 2, holder = 'old', lease_until = now() - INTERVAL '1 s', step = gen_random_uuid()
		WHERE tenant_id = $1 AND idem_key = $2`, c.key.Tenant, c.key.Value)
	c.sql(`INSERT INTO outbox (home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
		SELECT home_region, object_id, 'provider_call', tenant_id, idem_key, operation, 'again', '', now(), now() - INTERVAL '1 s', 1::int8 << 32
		FROM claims WHERE tenant_id = $1 AND idem_key = $2`, c.key.Tenant, c.key.Value)
}

// arrivesAgain is the request at our node, for the next generation.
func (c *cell) arrivesAgain() claim.Decision {
	c.Helper()
	got, err := c.ours.Begin(c.ctx, c.arrival("b"))
	require.NoError(c, err)
	return got.Decision
}

// TestCallsOfTheVersionBefore has nodes of before migration 067 beside those of after it:
// what the former wrote and left is neither lost nor done twice.
func TestCallsOfTheVersionBefore(t *testing.T) {
	d := newDatabase(t)
	w := newWire(t, d, "acme", testPool())
	// adopted makes the worker look and take, which returns want rows.
	adopted := func(c *cell, want int) {
		c.Helper()
		next, err := c.others.NextDue(c.ctx, here)
		require.NoError(c, err)
		due, ok := next[outbox.ProviderCalls]
		require.True(c, ok)
		require.Zero(c, due, "a former call is adopted at once, whenever it is due")
		c.takes(want)
		require.Zero(c, c.count(c.T, "SELECT count(*) FROM outbox"))
	}
	for name, run := range map[string]func(c *cell){
		"a call that is not due": func(c *cell) {
			heldByUs(c)
			was, found := c.message()
			require.True(c, found)
			c.former()
			_, found = c.message()
			require.False(c, found)
			adopted(c, 0)
			is, found := c.message()
			require.True(c, found)
			require.Equal(c, was, is)
			c.settles(c.held, approved)
			_, found = c.message()
			require.False(c, found)
		},
		"a call that is due": func(c *cell) {
			lapsed(c)
			was, _ := c.message()
			c.former()
			next, err := c.others.NextDue(c.ctx, here)
			require.NoError(c, err)
			require.Zero(c, next[outbox.ProviderCalls])
			is := c.takes(1)
			was.Due, was.Fence = is.Due, was.Fence+1
			require.Equal(c, was, is)
		},
		"a call that is parked": func(c *cell) {
			lapsed(c)
			m := c.takes(1)
			require.NoError(c, c.calls().Park(c.ctx, here, m.ID, m.Fence, "a person must look"))
			was, _ := c.message()
			c.former()
			adopted(c, 0)
			parked, err := c.calls().Parked(c.ctx, here, "", 10)
			require.NoError(c, err)
			require.Equal(c, []outbox.Message{was}, parked)
			again, err := c.calls().Unpark(c.ctx, here, m.ID)
			require.NoError(c, err)
			require.True(c, again)
			require.Equal(c, m.Fence+1, c.takes(1).Fence)
		},
		"a call whose claim is settled": func(c *cell) {
			lapsed(c)
			c.former()
			c.settles(c.held, approved)
			adopted(c, 0)
			_, found := c.message()
			require.False(c, found)
		},
		"a call of an earlier life of the key": func(c *cell) {
			lapsed(c)
			c.former()
			c.settles(c.held, approved)
			c.sql(`UPDATE claims SET first_use = first_use - INTERVAL '9 days', settled_at = settled_at - INTERVAL '9 days'
				WHERE tenant_id = $1 AND idem_key = $2`, c.key.Tenant, c.key.Value)
			c.held = c.arrives("b", claim.Won)
			was, _ := c.message()
			adopted(c, 0)
			is, found := c.message()
			require.True(c, found)
			require.Equal(c, was, is)
		},
		"a call of an earlier generation": func(c *cell) {
			// A former node released the claim, left our call, and began the next generation.
			heldByUs(c)
			c.former()
			adopted(c, 0)
			c.reclaimedByFormer()
			adopted(c, 1)
			is, found := c.message()
			require.True(c, found)
			require.Equal(c, "again", string(is.Payload))
		},
		"a parked call of an earlier generation": func(c *cell) {
			lapsed(c)
			m := c.takes(1)
			require.NoError(c, c.calls().Park(c.ctx, here, m.ID, m.Fence, "a person must look"))
			c.reclaimedByFormer()
			_, found := c.message()
			require.False(c, found)
			adopted(c, 1)
			is, found := c.message()
			require.True(c, found)
			require.False(c, is.Parked)
			require.Equal(c, "again", string(is.Payload))
		},
		"a worker that was paused over it": func(c *cell) {
			lapsed(c)
			m := c.takes(1)
			c.reclaimedByFormer()
			adopted(c, 1)
			require.NoError(c, c.calls().FinishAll(c.ctx, here, []outbox.Hold{{ID: m.ID, Fence: m.Fence}}))
			_, found := c.message()
			require.True(c, found)
		},
		"a former generation's, begun again by us": func(c *cell) {
			heldByUs(c)
			c.former()
			c.settles(c.held, released)
			c.age()
			require.Equal(c, claim.Won.String(), c.arrivesAgain().String())
			require.Zero(c, c.count(c.T, "SELECT count(*) FROM outbox"), "no former worker makes it with the former body")
		},
		"a call whose claim is gone": func(c *cell) {
			heldByUs(c)
			c.former()
			c.sql("DELETE FROM claims WHERE tenant_id = $1 AND idem_key = $2", c.key.Tenant, c.key.Value)
			_, err := c.others.NextDue(c.ctx, here)
			require.NoError(c, err)
			c.takes(0)
			require.Zero(c, c.count(c.T, "SELECT count(*) FROM outbox"))
		},
		"calls that are not adopted yet": func(c *cell) {
			heldByUs(c)
			was, _ := c.message()
			before, err := c.others.InFlight(c.ctx, here)
			require.NoError(c, err)
			c.former()
			after, err := c.others.InFlight(c.ctx, here)
			require.NoError(c, err)
			require.Equal(c, before, after)
			open, err := c.others.Calls(c.ctx, here, "", 100)
			require.NoError(c, err)
			require.Contains(c, open, was)
			depth, err := c.calls().Depth(c.ctx, here)
			require.NoError(c, err)
			require.Positive(c, depth.Pending)
			adopted(c, 0)
		},
		"a call that both have": func(c *cell) {
			lapsed(c)
			c.former()
			c.sql(`UPDATE claims SET call_payload = 'own', call_trace = '', call_created = first_use, call_due = now() + interval '1 hour', call_fence = 7
				WHERE tenant_id = $1 AND idem_key = $2`, c.key.Tenant, c.key.Value)
			adopted(c, 0)
			is, _ := c.message()
			require.Equal(c, "own", string(is.Payload))
		},
		"a former node settled a claim of ours": func(c *cell) {
			lapsed(c)
			c.settledByFormer()
			_, found := c.message()
			require.False(c, found)
			require.ErrorIs(c, c.calls().Finish(c.ctx, here, c.held.Minted.ID, 0), outbox.ErrFenced)
			c.takes(0)
			require.Zero(c, c.count(c.T, "SELECT count(*) FROM claims WHERE idem_key = $1 AND (call_created IS NOT NULL OR call_due IS NOT NULL OR call_payload IS NOT NULL)", c.key.Value), "it is cleared")
		},
		"a former node settled it while it was parked": func(c *cell) {
			lapsed(c)
			m := c.takes(1)
			require.NoError(c, c.calls().Park(c.ctx, here, m.ID, m.Fence, "a person must look"))
			c.settledByFormer()
			parked, err := c.calls().Parked(c.ctx, here, "", 10)
			require.NoError(c, err)
			require.Empty(c, parked)
			depth, err := c.calls().Depth(c.ctx, here)
			require.NoError(c, err)
			require.Zero(c, depth.Parked)
			again, err := c.calls().Unpark(c.ctx, here, m.ID)
			require.NoError(c, err)
			require.False(c, again)
		},
		"a former node began the key anew": func(c *cell) {
			lapsed(c)
			// It left our call, whose body is another one, and has its own where it was.
			c.sql(`UPDATE claims SET object_id = 'ch_anew', first_use = now(), lease_until = now() + interval '30 s', step = gen_random_uuid()
				WHERE tenant_id = $1 AND idem_key = $2`, c.key.Tenant, c.key.Value)
			c.sql(`INSERT INTO outbox (home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
				SELECT home_region, object_id, 'provider_call', tenant_id, idem_key, operation, 'anew', '', first_use, now() - interval '1 s', 1
				FROM claims WHERE tenant_id = $1 AND idem_key = $2`, c.key.Tenant, c.key.Value)
			_, err := c.others.NextDue(c.ctx, here)
			require.NoError(c, err)
			m := c.takes(1)
			require.Equal(c, "ch_anew", m.ID)
			require.Equal(c, "anew", string(m.Payload))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := w.cell(t)
			c.noCalls()
			run(c)
		})
	}
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
	require.NoError(t, c.calls().Park(t.Context(), here, m.ID, m.Fence, "a person must look"))
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

// TestAdoptionBesideFormerNodes adopts calls while a former node releases their claims and
// begins them again: each claim ends with the call of its last generation, in one place.
func TestAdoptionBesideFormerNodes(t *testing.T) {
	d := newDatabase(t)
	w := newWire(t, d, "acme", testPool())
	c := w.cell(t)
	const claims = 400
	d.fill(t, "claims", claims)
	d.exec(t, `INSERT INTO outbox (home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
		SELECT home_region, object_id, 'provider_call', tenant_id, idem_key, operation, 'first', '', now(), now() + interval '1 hour', 0 FROM claims`)
	d.exec(t, "UPDATE claims SET call_payload = NULL, call_trace = NULL, call_created = NULL, call_due = NULL, call_fence = NULL WHERE true")
	former, err := pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	defer func() { require.NoError(t, former.Close(context.WithoutCancel(t.Context()))) }()
	// As nodes of before 067 lock: the claim, then its row in outbox.
	step := func(claim, then, key string) error {
		for {
			_, err := former.Exec(t.Context(), "WITH c AS (UPDATE claims SET "+claim+" WHERE tenant_id = 'acme' AND idem_key = $1 RETURNING home_region, object_id, tenant_id, idem_key, operation) "+then, key)
			if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "40001" {
				return err
			}
		}
	}
	releases := func() error {
		for i := range claims {
			key := fmt.Sprint("row_", i)
			if err := step("state = 4, holder = '', refused_at = now() - INTERVAL '1 ms', step = gen_random_uuid()",
				"DELETE FROM outbox AS o USING c WHERE o.home_region = c.home_region AND o.id = c.object_id", key); err != nil {
				return err
			}
			if err := step("state = 1, generation = 2, step = gen_random_uuid()",
				`INSERT INTO outbox (home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
				SELECT home_region, object_id, 'provider_call', tenant_id, idem_key, operation, 'again', '', now(), now() + interval '1 hour', 1::int8 << 32 FROM c
				ON CONFLICT (home_region, id) DO UPDATE SET payload = excluded.payload, fence = excluded.fence`, key); err != nil {
				return err
			}
		}
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- releases() }()
	for over := false; !over || d.count(t, "SELECT count(*) FROM outbox") > 0; {
		select {
		case err := <-ended:
			require.NoError(t, err)
			over = true
		default:
		}
		_, err := c.others.NextDue(t.Context(), here)
		require.NoError(t, err)
		_, err = c.calls().Take(t.Context(), here, 16, time.Minute)
		require.NoError(t, err)
	}
	require.Equal(t, claims, d.count(t, "SELECT count(*) FROM claims WHERE state = 1 AND call_created >= greatest(first_use, refused_at) AND call_payload = 'again'"))
}

package sqlstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// TestATwinSharesWhatItWaitedFor: a release is of the time at which its statement began. If that takes
// long, a request arrives after this time, and waits for the outcome of the generation all the same.
func TestATwinSharesWhatItWaitedFor(t *testing.T) {
	d := newDatabase(t)
	if d.clock == nil {
		t.Skip("it moves PostgreSQL's clock, and holds its locks")
	}
	db := open(t, sqlstore.Config{URL: d.url})
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Registrar: here}))
	looks := watched{View: view(t, db, here), busy: make(chan struct{}, 1000)}
	// Who holds the last row that the releasing statement writes, and keeps it from its end.
	holder, err := pgx.Connect(t.Context(), d.admin)
	require.NoError(t, err)
	defer func() { _ = holder.Close(t.Context()) }()
	tx, err := holder.Begin(t.Context())
	require.NoError(t, err)
	var attempts atomic.Int64
	node := func(name string) *claim.Service {
		s, err := claim.NewService(claim.Config{
			Store: looks, Policy: testPolicy(), Node: name, Region: here, Code: func(string) (claim.RegionCode, bool) { return 1, true },
			Operations: claim.Operations{"charge": "ch"}, Blobs: noBlobs{}, Executor: attempt(func(a claim.Attempt) claim.Outcome {
				if attempts.Add(1) > 1 {
					return paid("charged again").Outcome
				}
				_, err := tx.Exec(t.Context(), "INSERT INTO unpaid (home_region, object_id, tenant_id, operation, state, reason, at, removable_at) VALUES ($1, $2, '', '', 3, '', now(), now())", here, a.Record.Minted.ID)
				require.NoError(t, err)
				return &claim.Released{Response: claim.Response{Status: 402, Body: []byte("declined")}, Reason: "insufficient_funds"}
			}),
		})
		require.NoError(t, err)
		return s
	}
	a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "k"}, here, "100", "n", "ch_unused")
	type answer struct {
		reply claim.Reply
		err   error
	}
	do := func(s *claim.Service) <-chan answer {
		got := make(chan answer, 1)
		go func() {
			reply, err := s.Do(t.Context(), here, &claim.Request{Key: a.Key, Operation: a.Operation, Stamp: 1, Input: a.Input})
			got <- answer{reply, err}
		}()
		return got
	}

	first := do(node("n1"))
	require.Eventually(t, func() bool {
		return d.count(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	}, patience, 10*time.Millisecond)
	d.clock.advance(t, 2*testPolicy().DeclinePause)
	second := do(node("n2"))
	<-looks.busy
	require.NoError(t, tx.Rollback(t.Context()))
	for _, got := range []answer{<-first, <-second} {
		require.NoError(t, got.err)
		require.Equal(t, "declined", string(got.reply.Response.Body))
	}
	require.EqualValues(t, 1, attempts.Load(), "one attempt for both")
}

// watched is a view that says when an arrival has to wait.
type watched struct {
	*sqlstore.View
	busy chan struct{}
}

func (w watched) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	begun, err := w.View.Begin(ctx, a)
	if err == nil && begun.Decision == claim.Busy {
		w.busy <- struct{}{}
	}
	return begun, err
}

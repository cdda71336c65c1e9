package claim

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"
)

// A panic under a claim, of the executor or of a store, ends the call and the holding and leaves
// the outcome unknown, in the request and in its recovery, however often. The claim stays in flight
// and never fails. An attempt that learns the outcome settles it. The worker counts the panics and
// parks the row.
func TestAPanicLeavesTheOutcomeUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := DefaultPolicy()
		p.MaxUnknowns = 2
		store, broken := newRows(p), true
		var log bytes.Buffer
		s := serve(t, store, bucket{}, p, "n1", func(_ context.Context, a Attempt) Outcome {
			if broken {
				panic("adapter")
			}
			return charged(a)
		})
		s.c.Logger = slog.New(slog.NewJSONHandler(&log, nil))
		key := order("k", 100).Key
		idle := func() {
			require.NoError(t, s.Drain(t.Context()), "no attempt is in hand")
			require.Nil(t, s.flight.watch("us-east1", key), "no flight is announced")
			require.Empty(t, s.held.byHome(), "no lease is renewed")
		}
		var unknown *UnknownError
		for range 5 {
			_, err := s.Do(t.Context(), "us-east1", order("k", 100))
			require.ErrorAs(t, err, &unknown)
			idle()
			require.Equal(t, InFlight, store.row(key).State)
			require.Empty(t, store.row(key).Holder, "the lease is given up")
			require.Zero(t, store.row(key).Unknowns, "a panic uses up no attempt")
			time.Sleep(p.BackoffMax)
		}
		require.Contains(t, log.String(), "TestAPanicLeavesTheOutcomeUnknown", "the stack names the place")

		m := store.messages[store.row(key).Minted.ID]
		require.Equal(t, "Faulted: our code panicked: adapter", s.Recover(t.Context(), m).String())
		idle()
		time.Sleep(p.BackoffMax)
		require.Equal(t, "Faulted: our code panicked: adapter", s.Learn(t.Context(), m, "", "pr_1", 1).String())
		require.Equal(t, InFlight, store.row(key).State)

		time.Sleep(p.BackoffMax)
		broken = false
		store.settling = func() { panic("store") }
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.ErrorAs(t, err, &unknown)
		idle()
		require.Equal(t, "n1", store.row(key).Holder, "whether it was settled is unknown, so the lease runs out by itself")

		time.Sleep(p.BackoffMax)
		store.settling = nil
		require.Equal(t, outbox.Gone(), s.Recover(t.Context(), m))
		require.Equal(t, Completed, store.row(key).State)
	})
}

// A renewal that panics ends the calls that it was for, and no others, before their
// leases do.
func TestAPanicOfARenewalIsSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRows(DefaultPolicy())
		store.renew = func([]Lease) error { panic("store") }
		s := serve(t, store, bucket{}, store.policy, "n1", func(ctx context.Context, _ Attempt) Outcome {
			<-ctx.Done()
			return &Unknown{Reason: "cut"}
		})
		began := time.Now()
		var unknown *UnknownError
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, store.policy.Lease-store.policy.LeaseMargin, time.Since(began))
	})
}

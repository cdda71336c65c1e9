package claim

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// mirrored is rows with a replica that shows shown, and with objects.
type mirrored struct {
	*rows
	shown *Record
}

func (s *mirrored) Replica(context.Context, Key) (Shown, error) { return Shown{Record: s.shown}, nil }

func (s *mirrored) Object(_ context.Context, tenant, _, id string) (Record, time.Time, bool, error) {
	for key, rec := range s.claims {
		if key.Tenant == tenant && rec.Minted.ID == id {
			return *rec, time.Now(), true, nil
		}
	}
	return Record{}, time.Now(), false, nil
}

func (s *mirrored) Timeline(context.Context, Key, string, int) ([]AuditEntry, error) { return nil, nil }

// A replica's answer is compared as the home would compare it.
func TestWhatAReplicaAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mirrored{rows: newRows(DefaultPolicy())}
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome { return charged(a) })
		req := order("k", 100)
		first, err := s.Do(t.Context(), "us-east1", req)
		require.NoError(t, err)
		_, found, _, err := s.Replica(t.Context(), req)
		require.NoError(t, err)
		require.False(t, found, "absence proves nothing")
		rec := store.row(req.Key)
		store.shown = &rec
		reply, found, _, err := s.Replica(t.Context(), req)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, first.Response, reply.Response)

		other := order("k", 101)
		_, found, _, err = s.Replica(t.Context(), other)
		require.ErrorIs(t, err, ErrMismatch)
		require.True(t, found)
		other.Also = rec.Fingerprint
		_, found, _, err = s.Replica(t.Context(), other)
		require.NoError(t, err, "another spelling")
		require.True(t, found)

		rec.Fingerprint.Version++
		_, found, _, err = s.Replica(t.Context(), req)
		require.NoError(t, err)
		require.False(t, found, "the home can compare it")
	})
}

// An object is read with the answer that it has now, whatever a replica shows; and a key for as long
// as its row counts.
func TestObjectsAndKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mirrored{rows: newRows(DefaultPolicy())}
		s := serve(t, store, bucket{}, store.policy, "n1", func(_ context.Context, a Attempt) Outcome {
			if a.Recovery {
				return charged(a)
			}
			return &Pending{State: "processing", Response: Response{Status: 202, Body: []byte("wait")}}
		})
		key := order("k", 100).Key
		_, err := s.Do(t.Context(), "us-east1", order("k", 100))
		require.NoError(t, err)
		id := store.row(key).Minted.ID
		o, found, err := s.Object(t.Context(), "acme", "us-east1", id)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, InFlight, o.State)
		require.Equal(t, "wait", string(o.Response.Body))
		_, found, err = s.Object(t.Context(), "globex", "us-east1", id)
		require.NoError(t, err)
		require.False(t, found)

		message := store.messages[id]
		time.Sleep(time.Until(message.Due))
		s.Recover(t.Context(), message)
		rec := store.row(key)
		o, found, err = s.Object(t.Context(), "acme", "us-east1", id)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, Object{Completed, *rec.Response, time.Now()}, o)

		store.shown = &rec
		delete(store.claims, key)
		o, found, err = s.Object(t.Context(), "acme", "us-east1", id)
		require.NoError(t, err)
		require.False(t, found)
		require.Equal(t, Object{At: time.Now()}, o, "the clock is there, too")
		store.claims[key] = &rec
		for _, want := range []Age{Live, Expired} {
			status, found, err := s.Inspect(t.Context(), "us-east1", key)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, want, status.Age)
			time.Sleep(store.policy.ReplayFor)
		}
		_, found, err = s.Inspect(t.Context(), "us-east1", key)
		require.NoError(t, err)
		require.False(t, found, "its row is stored, and counts as absent")
	})
}

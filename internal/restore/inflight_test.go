package restore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/restore"
	"github.com/homeward-io/homeward/outbox"
)

type noBlobs struct{}

func (noBlobs) Put(context.Context, []byte) (string, error) { return "", nil }
func (noBlobs) Get(context.Context, string) ([]byte, error) { return nil, nil }

type attempts []claim.Attempt

func (a *attempts) Attempt(_ context.Context, at claim.Attempt) claim.Outcome {
	*a = append(*a, at)
	return &claim.Unknown{Reason: "test"}
}

// The backup has a generation in flight with provider a. In what is lost the claim went on with
// b, which was paid: a has never seen it, and must not be called, by the outbox or for a retry.
func TestAGenerationThatIsOverIsNotAttempted(t *testing.T) {
	var ahead time.Duration
	regions := []claim.Region{{Name: home, Code: 1}, {Name: away, Code: 2}}
	db, err := embedded.Open(embedded.Config{Dir: t.TempDir(), Policy: claim.DefaultPolicy(), Clock: func() time.Time { return time.Now().Add(ahead) }, Regions: regions})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	d := deployment.Embedded(db)
	require.NoError(t, d.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: home}))
	v := rows(t, d)
	var lost []claim.Arrival
	for _, key := range []string{"by-outbox", "by-retry", "unlost"} {
		a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: key}, home, "100", "node-1", "ch_"+key)
		a.Provider, a.Providers = "a", []string{"a", "b"}
		begun, err := v.Begin(t.Context(), a)
		require.NoError(t, err)
		require.Equal(t, claim.Won, begun.Decision)
		lost = append(lost, a)
	}
	_, err = restore.Begin(t.Context(), d, v, restore.Lost{From: time.Now().Add(-time.Hour), Until: time.Now(), By: "a", Why: "b"})
	require.NoError(t, err)
	ahead = time.Minute // the leases of the ended node lapse
	guard, err := claim.NewGuard(t.Context(), d)
	require.NoError(t, err)
	var calls attempts
	policy := claim.DefaultPolicy()
	s, err := claim.NewService(claim.Config{
		Store: guard.Claims(v, v.Queue(outbox.ProviderCalls), &policy), Executor: guard.Executor(&calls), Blobs: noBlobs{}, Policy: policy, Node: "node-2", Region: home, Providers: []string{"a", "b"},
		Code: func(string) (claim.RegionCode, bool) { return 1, true }, Operations: claim.Operations{lost[0].Operation: "ch"},
	})
	require.NoError(t, err)
	recovered := func(a claim.Arrival) outbox.Disposition {
		return s.Recover(t.Context(), outbox.Message{ID: a.Mint.ID, Region: home, Kind: outbox.KindProviderCall, Tenant: "acme", Key: a.Key.Value, Operation: a.Operation, Payload: a.Input.Canonical})
	}
	retry := func(a claim.Arrival) error {
		_, err := s.Do(t.Context(), home, &claim.Request{Key: a.Key, Operation: a.Operation, Input: a.Input, PinnedAt: time.Now().Add(ahead)})
		return err
	}
	for _, a := range lost { // no witness yet
		_, later := recovered(a).Delay()
		require.True(t, later)
		require.ErrorAs(t, retry(a), new(*claim.WithheldError))
	}
	require.Empty(t, calls)

	for _, a := range lost[:2] {
		require.NoError(t, d.PutWitnesses(t.Context(), []claim.Witness{{
			Key: a.Key, Home: home, Object: a.Mint.ID, FirstUse: time.Now(), Fingerprint: a.Print, Fence: 4, Generation: 2, Provider: "b", Operation: a.Operation, Done: true,
		}}))
	}
	recovered(lost[0])
	require.ErrorAs(t, retry(lost[1]), new(*claim.UnknownError))
	require.Len(t, calls, 2)
	for _, c := range calls {
		require.Equal(t, "b", c.Provider)
		require.Equal(t, uint32(2), c.Record.Generation)
		require.True(t, c.Recovery && c.Witness.Done)
	}
	_, later := recovered(lost[2]).Delay()
	require.True(t, later)
	_, err = restore.Release(t.Context(), d, "ops", "all witnesses are read")
	require.NoError(t, err)
	require.NoError(t, guard.Read(t.Context()))
	recovered(lost[2])
	require.Len(t, calls, 3)
	require.Equal(t, "a", calls[2].Provider, "nothing of it is lost")
	require.Nil(t, calls[2].Witness)
}

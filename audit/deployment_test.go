package audit_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/audit/audittest"
)

// TestSegmentsOfAnotherDeployment: production's bucket and keys were copied to staging, which has a
// region of the same name. Neither accepts the other's segments.
func TestSegmentsOfAnotherDeployment(t *testing.T) {
	otherID := uuid.MustParse("018f0000-0000-4000-8000-00000000000b")
	namesBoth := func(text string) {
		t.Helper()
		require.Contains(t, text, deploymentID.String())
		require.Contains(t, text, otherID.String())
		require.NotContains(t, text, "\n")
	}
	refused := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, audit.ErrOtherDeployment)
		namesBoth(err.Error())
	}
	production := newWorld(t)
	production.days(3, 5)
	exported := production.round()
	require.NotZero(t, exported.Segments)
	written := production.bucket.Names()

	staging := newWorld(t)
	staging.bucket, staging.keys = production.bucket, production.keys
	staging.days(3, 5)
	c := staging.config()
	c.Deployment = otherID
	x, err := audit.NewExporter(c)
	require.NoError(t, err)
	refused(x.Compare(t.Context(), time.Time{})) // and no store was put back: nothing is withheld
	_, err = x.Round(t.Context())
	refused(err)
	require.Equal(t, written, production.bucket.Names(), "a segment was written beside those of another deployment")

	// Restore: what is lost is not in these.
	_, err = (&audit.Lost{Objects: staging.bucket, Trust: staging.keys.Trust(), Deployment: otherID, Home: home, Before: staging.store.now}).Follow(t.Context(), audit.Chain{From: start})
	refused(err)

	// Search: each is named, and has no entries.
	found, doubts, err := (&audit.Archive{Objects: staging.bucket, Trust: staging.keys.Trust(), Deployment: otherID}).Find(t.Context(), audit.Wanted{Tenant: "acme", Key: "key-001"})
	require.NoError(t, err)
	require.Empty(t, found)
	require.Len(t, doubts, exported.Segments)
	namesBoth(doubts[0])

	// Verify of a bucket that has both: with the deployment and without, one is named.
	require.Empty(t, production.verify(production.bucket).Failures)
	both, apart := production.bucket.Clone(), audittest.NewBucket()
	c.Objects = apart
	x, err = audit.NewExporter(c)
	require.NoError(t, err)
	_, err = x.Round(t.Context())
	require.NoError(t, err)
	for _, name := range apart.Names() {
		data, err := apart.Get(t.Context(), name, 0)
		require.NoError(t, err)
		require.NoError(t, both.Put(t.Context(), name, data))
	}
	for name, of := range map[string]uuid.UUID{"named": deploymentID, "not named": uuid.Nil} {
		r, err := audit.Verify(t.Context(), audit.VerifyConfig{Objects: both, Trust: production.keys.Trust(), Deployment: of})
		require.NoError(t, err)
		var foreign int
		for _, f := range r.Failures {
			if f.Class == audit.Foreign {
				foreign++
				namesBoth(f.Detail)
			}
		}
		require.Equal(t, exported.Segments, foreign, "%s: %v", name, r.Failures)
	}
}

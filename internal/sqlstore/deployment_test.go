package sqlstore_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// A name or a proxy that leads to the database of another deployment, such as a copy with an
// id of its own, leads a running node there with each new session. The node uses none of
// them: what it has charged is not there.
func TestSessionsOfAnotherDeploymentAreRefused(t *testing.T) {
	d := newDatabase(t)
	db := open(t, sqlstore.Config{URL: d.url})
	v := view(t, db, regions[0])
	own, err := v.DeploymentID(t.Context())
	require.NoError(t, err)
	rename := func(to uuid.UUID) {
		d.exec(t, "UPDATE deployment SET id = $1", to)
		db.ResetSessions()
	}
	t.Cleanup(func() { d.exec(t, "UPDATE deployment SET id = $1", own) }) // CockroachDB's tests share the database
	begin := func(value string) error {
		_, err := v.Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: value}, regions[0], "1", "n", "ch_"+value))
		return err
	}
	require.NoError(t, begin("before"))

	other := uuid.New()
	rename(other)
	require.ErrorIs(t, begin("elsewhere"), claim.ErrUnavailable)
	_, _, err = v.TenantByAPIKey(t.Context(), claim.HashAPIKey("sk_acme"))
	require.ErrorIs(t, err, claim.ErrUnavailable)
	err = v.Ready(t.Context())
	require.ErrorContains(t, err, "is another database than before")
	require.ErrorContains(t, err, own.String())
	require.ErrorContains(t, err, other.String())
	require.NotContains(t, err.Error(), "\n")

	rename(own)
	require.NoError(t, v.Ready(t.Context()))
	require.NoError(t, begin("after"))
}

package node

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/region"
)

// shows is a provider that shows every movement as requested.
type shows struct{ generous }

func (shows) Show(_ context.Context, _ psp.Kind, reference, ref string) (psp.Found, psp.Movement, error) {
	return psp.FoundYes, psp.Movement{ProviderRef: ref, Reference: reference, Amount: 100, Currency: "usd", Outcome: psp.Approved}, nil
}

// After a restore, money that the statement has for a released charge may be that of a lost
// generation. A healer books no ghost then, which would be in the way of the charge.
func TestAHealerHealsNothingThatARestoreMayHaveLost(t *testing.T) {
	regions := []claim.Region{{Name: here, Code: 1}}
	db, err := embedded.Open(embedded.Config{Dir: t.TempDir(), Policy: claim.DefaultPolicy(), Regions: regions})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: here}))
	store, err := db.Region(here)
	require.NoError(t, err)
	id, err := claim.NewObjectID("ch", 1, nil)
	require.NoError(t, err)
	a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "k"}, here, "{}", "n-0", id)
	begun, err := store.Begin(t.Context(), a)
	require.NoError(t, err)
	_, err = store.Settle(t.Context(), begun.Record, claim.Verdict{Outcome: &claim.Released{
		Response: claim.Response{Status: 402, Body: []byte("{}")},
	}})
	require.NoError(t, err)
	now := time.Now()
	_, err = store.PutRestore(t.Context(), claim.NewRestore(claim.Restore{}, now.Add(-time.Hour), now, now, nil, "ops", "a lost disk"))
	require.NoError(t, err)

	topology, err := region.NewTopology(regions)
	require.NoError(t, err)
	h, err := newHealer(t.Context(), Config{
		Name: "heal", Region: here, Store: store, Blobs: noBlobs{}, Tuning: Tuning{Policy: claim.DefaultPolicy()}, Topology: topology, Payments: Payments{Providers: psp.Providers{shows{}}},
	}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Stop(context.WithoutCancel(t.Context()))) })
	g := notice.Ghost{Tenant: "acme", Object: id, Home: here, Provider: "simulator", ProviderRef: "p_1", Amount: 100, Currency: "usd"}
	_, _, err = h.Compensate(t.Context(), g)
	require.ErrorAs(t, err, new(*claim.WithheldError))
	_, booked, err := store.Transaction(t.Context(), here, ledger.GhostID("simulator", "p_1"))
	require.NoError(t, err)
	require.False(t, booked)
}

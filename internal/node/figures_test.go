package node

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/outbox"
)

// TestADeputyReportsALostRegionsFigures: while a region is lost a node of another one reports its
// queues' figures, and stops when the region's own nodes are back.
func TestADeputyReportsALostRegionsFigures(t *testing.T) {
	const here, gone = "us-east1", "europe-west1"
	db, err := embedded.Open(embedded.Config{Dir: t.TempDir(), Policy: claim.DefaultPolicy(), Regions: []claim.Region{{Name: here, Code: 1}, {Name: gone, Code: 2}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	d := deployment.Embedded(db)
	require.NoError(t, d.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: here}))
	store, err := d.Region(here)
	require.NoError(t, err)
	for _, key := range []string{"k1", "k2"} {
		begun, err := store.Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: key}, gone, "100", "node-1", "ch_"+key))
		require.NoError(t, err)
		require.Equal(t, claim.Won, begun.Decision)
	}
	var lost []string
	turn := true
	f := &figures{
		store: store, region: here, lost: func() []string { return lost }, inTurn: func(home string) bool { return home == here || turn },
		clock: &storeClock{}, failures: (*meter.Set)(nil).Counter(meter.CollectFailures), homes: map[string]counted{},
		trouble: trouble{log: slog.New(slog.DiscardHandler)}, deputy: trouble{log: slog.New(slog.DiscardHandler)},
	}
	pending := func() map[string]float64 {
		f.round(t.Context())
		reported := map[string]float64{}
		for _, home := range f.homes {
			require.WithinDuration(t, time.Now(), home.at, time.Minute)
			for _, one := range home.figures {
				if one.of == meter.OutboxPending && one.labels[1] == string(outbox.ProviderCalls) {
					reported[one.labels[0]] = one.value
				}
			}
		}
		return reported
	}
	require.Equal(t, map[string]float64{here: 0}, pending())
	lost = []string{gone}
	require.Equal(t, map[string]float64{here: 0, gone: 2}, pending())
	lost = nil
	require.Equal(t, map[string]float64{here: 0}, pending(), "its own nodes report")
	lost, turn = []string{gone}, false
	require.Equal(t, map[string]float64{here: 0}, pending(), "another node's turn")
	turn, f.homes, f.store = true, map[string]counted{}, cutOff{store, here}
	require.Equal(t, map[string]float64{gone: 2}, pending(), "its own rows cannot be read")
}

// cutOff has a region whose outcomes cannot be read.
type cutOff struct {
	deployment.Store
	region string
}

func (s cutOff) Unknown(ctx context.Context, home string, live bool, limit int) ([]claim.Record, error) {
	if home == s.region {
		return nil, claim.ErrUnavailable
	}
	return s.Store.Unknown(ctx, home, live, limit)
}

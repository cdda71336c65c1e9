package node

import (
	"context"
	"fmt"
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
	"github.com/homeward-io/homeward/payment/notice"
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
	f := figuresOf(store, here)
	f.lost, f.inTurn = func() []string { return lost }, func(home string) bool { return home == here || turn }
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

func figuresOf(store deployment.Store, here string) *figures {
	return &figures{
		store: store, region: here, lost: func() []string { return nil }, inTurn: func(string) bool { return true },
		clock: &storeClock{}, failures: (*meter.Set)(nil).Counter(meter.CollectFailures), homes: map[string]counted{},
		trouble: trouble{log: slog.New(slog.DiscardHandler)}, deputy: trouble{log: slog.New(slog.DiscardHandler)},
	}
}

// TestLimboIsOfLiveMoneyAlone: homeward_limbo pages. A test tenant's notice does not, and a live one
// does behind however many that are parked for other reasons.
func TestLimboIsOfLiveMoneyAlone(t *testing.T) {
	const here = "us-east1"
	db, err := embedded.Open(embedded.Config{Dir: t.TempDir(), Policy: claim.DefaultPolicy(), Regions: []claim.Region{{Name: here, Code: 1}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	store, err := deployment.Embedded(db).Region(here)
	require.NoError(t, err)
	park := func(reason string, ids ...string) {
		var all []notice.Notice
		for _, id := range ids {
			all = append(all, notice.Notice{ID: id, Provider: "any", Body: []byte("{}")})
		}
		_, err := store.Keep(t.Context(), here, all)
		require.NoError(t, err)
		rows, err := store.Queue(outbox.Notices).Take(t.Context(), here, len(ids), time.Minute)
		require.NoError(t, err)
		require.Len(t, rows, len(ids))
		for _, m := range rows {
			require.NoError(t, store.Queue(outbox.Notices).Park(t.Context(), here, m.Hold(), reason))
		}
	}
	f := figuresOf(store, here)
	is := func(want map[*meter.Metric]float64) {
		t.Helper()
		f.round(t.Context())
		for _, one := range f.homes[here].figures {
			if value, ok := want[one.of]; ok && (one.of == meter.Limbo || one.labels[1] == string(outbox.Notices)) {
				require.Equal(t, value, one.value, one.of.Name)
			}
		}
	}
	park("LIMBO: it failed after it was booked", notice.TestID(claim.TestTenant("acme"), "evt_1"))
	is(map[*meter.Metric]float64{meter.Limbo: 0, meter.OutboxParked: 1})
	var others []string
	for i := range figuresRows {
		others = append(others, fmt.Sprintf("adyen:%04d", i))
	}
	park("nothing is known of it", others...)
	park("LIMBO: the provider refused the refund", "stripe:evt_1")
	is(map[*meter.Metric]float64{meter.Limbo: 1, meter.OutboxParked: figuresRows})
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

package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/region/admin"
)

func TestTopShowsWhatArrivesAndWhereItGoes(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	require.NoError(t, printTop(&out, &admin.Overview{
		Node: "u1", Epoch: 7,
		Regions: []admin.RegionState{{Name: "europe-west1", RTT: 64 * time.Millisecond}, {Name: "us-east1", RTT: -1}},
		Members: []admin.Member{
			{Name: "e1", Region: "europe-west1", Unready: true},
			{Name: "u1", Region: "us-east1", Part: &admin.Part{Silent: []string{"e2", "e1"}, Traffic: &admin.Traffic{
				Total: admin.Tally{Requests: 12, Replayed: 3, Refused: 2, Failed: 1}, Lately: admin.Tally{Requests: 5},
				Flows:     []admin.Flow{{Way: admin.WayUnrouted, Total: 2}, {Home: "europe-west1", Way: admin.WayDeputy, Total: 2}, {Home: "us-east1", Way: admin.WayLocal, Total: 8}},
				DeputyFor: []string{"europe-west1"},
				Arrivals:  []admin.Arrival{{At: noon, Operation: "charge", Tenant: "acme", Key: "order\x1b[2J", Home: "us-east1", Way: admin.WayLocal, Status: 201, Replayed: true}},
			}}},
		},
	}, noon))
	lines := strings.Split(out.String(), "\n")
	require.Contains(t, lines[3], "1, 1 silent, 1 not ready")
	require.Equal(t, strings.Fields("us-east1 active 1 - 0.5 12 3 2 1 home 8, deputy 2, unrouted 2 europe-west1"), strings.Fields(lines[4]))
	require.Equal(t, "! calls from us-east1 to e1, e2 get no answer, although gossip sees them alive: is their RPC port closed to it?", lines[5])
	require.Contains(t, strings.Join(strings.Fields(out.String()), " "), "home us-east1 201 replayed", "one word for a way in both tables")
	require.NotContains(t, out.String(), "\x1b", "a key moves no cursor")
}

// Long work reports its progress every half minute if the output is no terminal.
func TestLongWorkReportsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		books := &countedBooks{Store: someBooks{}}
		stop := streams{err: &errs}.progress(books.String)
		time.Sleep(progressSaid - time.Second)
		synctest.Wait()
		require.Empty(t, errs.String(), "short work reports nothing")
		_, err := books.Transactions(t.Context(), "us-east1", ledger.Position{}, time.Time{}, 10)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		stop()
		require.Equal(t, "2 transactions read in us-east1, 30s\n", errs.String())
	})
	now := &currentStep{}
	require.Equal(t, "looking at what there is", now.String())
	now.begin("migration 12\nand more")
	require.Equal(t, "step 1, migration 12: for 0s", now.String())
}

type someBooks struct{ ledger.Store }

func (someBooks) Transactions(context.Context, string, ledger.Position, time.Time, int) ([]ledger.Transaction, error) {
	return make([]ledger.Transaction, 2), nil
}

package node

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/region"
)

// fakeTable is a table of regions in memory.
type fakeTable struct {
	regions []region.Region
	epoch   uint64
	broken  error
	reads   int
}

func (f *fakeTable) Regions(context.Context) ([]region.Region, uint64, error) {
	f.reads++
	return f.regions, f.epoch, f.broken
}

func (f *fakeTable) SetRegionStatus(_ context.Context, name string, status region.Status) (uint64, error) {
	for i := range f.regions {
		if f.regions[i].Name == name {
			f.regions[i].Status = status
		}
	}
	f.epoch++
	return f.epoch, f.broken
}

func TestTheTopologyFollowsItsTable(t *testing.T) {
	log, said := record()
	topology, err := region.NewTopology([]region.Region{{Name: "a", Code: 1}})
	require.NoError(t, err)
	table := &fakeTable{regions: []region.Region{{Name: "a", Code: 1}}, epoch: 1}
	f := newFollower(table, topology, "a", time.Now, log)
	ctx := t.Context()
	require.NoError(t, f.read(ctx))
	require.Empty(t, said.String(), "nothing has changed")

	table.regions, table.epoch = append(table.regions, region.Region{Name: "b", Code: 2, Status: region.Draining}), 2
	require.NoError(t, f.read(ctx))
	b, ok := topology.ByCode(2)
	require.True(t, ok)
	require.Equal(t, region.Region{Name: "b", Code: 2, Status: region.Draining}, b)
	require.EqualValues(t, 2, topology.Epoch())
	require.Contains(t, said.String(), "has changed")

	said.Reset()
	table.broken = errors.New("gone")
	require.Error(t, f.read(ctx))
	require.Error(t, f.read(ctx))
	require.Equal(t, 1, strings.Count(said.String(), "cannot be read"), "%s", said)
	table.broken = nil
	require.NoError(t, f.read(ctx))
	require.NoError(t, f.read(ctx))
	require.Equal(t, 1, strings.Count(said.String(), "can be read again"), "%s", said)

	table.regions = table.regions[1:] // a region that is missing is a mistake, and changes nothing
	require.Error(t, f.read(ctx))
	require.Len(t, topology.Regions(), 2)
	require.Equal(t, 2, strings.Count(said.String(), "cannot be read"), "%s", said)

	ended, cancel := context.WithCancel(ctx)
	cancel()
	said.Reset()
	f.trouble.in = false
	require.ErrorIs(t, f.read(ended), context.Canceled)
	require.Empty(t, said.String(), "a node that stops has no trouble")
}

// TestDrainingIsAnnounced: a node of a region that is not active reports it to balancers and
// announces it to the other nodes, once, and again until they were reached.
func TestDrainingIsAnnounced(t *testing.T) {
	log, _ := record()
	topology, err := region.NewTopology([]region.Region{{Name: "a", Code: 1}, {Name: "b", Code: 2}})
	require.NoError(t, err)
	table := &fakeTable{regions: topology.Regions(), epoch: 1}
	f := newFollower(table, topology, "a", time.Now, log)
	ctx := t.Context()
	var announced []bool
	var deaf error
	f.meet(ctx, func(_ context.Context, draining bool) error {
		announced = append(announced, draining)
		return deaf
	})
	read := func() {
		t.Helper()
		require.NoError(t, f.read(ctx))
	}
	read()
	require.Empty(t, announced)
	require.NoError(t, f.takes())

	set := func(name string, status region.Status) uint64 {
		t.Helper()
		epoch, err := table.SetRegionStatus(ctx, name, status)
		require.NoError(t, err)
		return epoch
	}
	set("b", region.Down)
	read()
	require.NoError(t, f.takes(), "that is another region")
	require.Empty(t, announced)

	set("a", region.Draining)
	deaf = errors.New("no node has received it")
	read()
	deaf = nil
	read()
	read()
	require.Equal(t, []bool{true, true}, announced)
	require.ErrorContains(t, f.takes(), "region a is draining")
	set("a", region.Down)
	read()
	require.ErrorContains(t, f.takes(), "region a is down")
	require.Len(t, announced, 2, "nothing new to the others")

	epoch := set("a", region.Active)
	reads := table.reads
	f.upTo(ctx, epoch-1)
	require.Equal(t, reads, table.reads, "the distance is measured")
	f.upTo(ctx, epoch)
	require.NoError(t, f.takes())
	require.Equal(t, []bool{true, true, false}, announced)
}

func TestProbesDoNotCountAsRequests(t *testing.T) {
	var h inHand
	var during int64
	for gates, paths := range map[bool]map[string]int64{
		false: {"/v1/charges": 1, "/v1/charges/ch_1": 1, "/readyz": 0, "/livez": 0},
		true:  {"/v1/charges": 1, "/orders": 1, "/readyz": 1, "/_homeward/readyz": 0, "/_homeward/livez": 0},
	} {
		api := h.counting(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { during = h.requests.Load() }), gates)
		for path, want := range paths {
			api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
			require.Equal(t, want, during, "%v %s", gates, path)
			require.Zero(t, h.requests.Load())
		}
	}
}

// Nodes of one process are next to each other, and requests between them are not.
func TestRegionsAreAsFarAsRequestsFindThem(t *testing.T) {
	n := &Node{c: Config{Region: "us-east1", Peering: Peering{Network: wan.New(map[wan.Pair]time.Duration{{A: "europe-west1", B: "us-east1"}: 64 * time.Millisecond})}}}
	rtt, ok := sight{n: n}.RTT("europe-west1")
	require.True(t, ok)
	require.Equal(t, 64*time.Millisecond, rtt)
}

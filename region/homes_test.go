package region

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

func TestHomesAreActiveAndNear(t *testing.T) {
	const west = "us-west1"
	topology := func(statuses ...Status) *Topology {
		var regions []Region
		for i, name := range []string{us, eu, as, west} {
			regions = append(regions, Region{Name: name, Code: claim.RegionCode(i + 1), Status: statuses[i]})
		}
		made, err := NewTopology(regions)
		require.NoError(t, err)
		return made
	}
	far := map[string]time.Duration{eu: 3, as: 2, west: 1}
	for name, c := range map[string]struct {
		statuses []Status
		first    string
		far      map[string]time.Duration
		want     []string
	}{
		"all":                     {[]Status{Active, Active, Active, Active}, eu, far, []string{us, eu, west, as}},
		"no region is preferred":  {[]Status{Active, Active, Active, Active}, "", far, []string{us, west, as, eu}},
		"self is first":           {[]Status{Active, Active, Active, Active}, us, far, []string{us, west, as, eu}},
		"draining":                {[]Status{Draining, Active, Active, Active}, eu, far, []string{eu, west, as}},
		"the first is down":       {[]Status{Draining, Down, Active, Active}, eu, far, []string{west, as}},
		"unknown is far":          {[]Status{Draining, Active, Active, Active}, "", map[string]time.Duration{eu: time.Second}, []string{eu, as, west}},
		"no distance is measured": {[]Status{Draining, Active, Active, Active}, "", nil, []string{as, eu, west}},
		"there is none":           {[]Status{Draining, Down, Draining, Down}, eu, far, []string{}},
		"the first is not there":  {[]Status{Active, Draining, Active, Draining}, "mars", far, []string{us, as}},
		"only the one that waits": {[]Status{Active, Draining, Draining, Draining}, eu, far, []string{us}},
	} {
		t.Run(name, func(t *testing.T) {
			got := []string{}
			for _, r := range topology(c.statuses...).Homes(us, c.first, func(r string) (time.Duration, bool) {
				d, ok := c.far[r]
				return d, ok
			}) {
				got = append(got, r.Name)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestTopologyFollowsItsStoresEpochs(t *testing.T) {
	rows := func(status Status) []Region {
		return []Region{{Name: us, Code: 1}, {Name: eu, Code: 2, Status: status}}
	}
	topology, err := NewTopology(rows(Active))
	require.NoError(t, err)
	to := func(epoch uint64, status Status, changed bool, now uint64) {
		t.Helper()
		got, err := topology.Update(epoch, rows(status))
		require.NoError(t, err)
		require.Equal(t, changed, got)
		require.Equal(t, now, topology.Epoch())
	}
	to(7, Active, false, 7)
	to(9, Draining, true, 9)
	to(8, Active, false, 9) // was read before it and arrives after it
	r, _ := topology.ByName(eu)
	require.Equal(t, Draining, r.Status)
	to(9, Draining, false, 9)
	_, err = topology.Update(10, rows(Active)[:1])
	require.ErrorContains(t, err, "gone")
	require.EqualValues(t, 9, topology.Epoch())
}

package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/region/admin"
)

func newTestTraffic() (t *traffic, pass func(time.Duration), lost map[string]bool) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	lost = map[string]bool{}
	t = newTraffic("here", func(region string) bool { return lost[region] })
	t.now = func() time.Time { return now }
	return t, func(d time.Duration) { now = now.Add(d) }, lost
}

func TestEachRequestIsCountedByItsWayAndAnswer(t *testing.T) {
	counted, _, lost := newTestTraffic()
	lost["gone"] = true
	for _, a := range []httpapi.Answer{
		{Home: "here", ServedBy: "here", Status: 201, Location: "/v1/charges/ch_1"},
		{Home: "here", ServedBy: "here", Status: 201, Replayed: true},
		{Home: "here", ServedBy: "far", Hops: 1, Status: 201}, // the store cannot be reached from here
		{Home: "far", ServedBy: "far", Hops: 1, Status: 402},
		{Home: "far", ServedBy: "here", Status: 201, Replayed: true},
		{Home: "far", ServedBy: "here", Hops: 1, Status: 503},
		{Home: "far", ServedBy: "here", Status: 400},
		{Home: "gone", ServedBy: "here", Status: 201},
		{Home: "gone", ServedBy: "here", Hops: 1, Status: 201},
		{ServedBy: "here", Status: 400},
	} {
		counted.answered(a)
	}
	got := counted.report(2, []string{"far", "gone", "here"})
	require.Equal(t, admin.Tally{Requests: 10, Replayed: 2, Refused: 3, Failed: 1}, got.Total)
	require.Equal(t, got.Total, got.Lately)
	require.Equal(t, []string{"gone"}, got.DeputyFor)
	require.Equal(t, []admin.Flow{
		{Home: "", Way: admin.WayUnrouted, Total: 1, Lately: 1},
		{Home: "far", Way: admin.WayForward, Total: 2, Lately: 2},
		{Home: "far", Way: admin.WayReplica, Total: 1, Lately: 1},
		{Home: "far", Way: admin.WayUnrouted, Total: 1, Lately: 1},
		{Home: "gone", Way: admin.WayDeputy, Total: 2, Lately: 2},
		{Home: "here", Way: admin.WayForward, Total: 1, Lately: 1},
		{Home: "here", Way: admin.WayLocal, Total: 2, Lately: 2},
	}, got.Flows)
	require.Len(t, got.Arrivals, 2)
	require.Empty(t, got.Arrivals[0].Home)
	require.Equal(t, admin.WayDeputy, got.Arrivals[1].Way)
	require.Equal(t, "ch_1", counted.report(10, nil).Arrivals[9].Object)
}

func TestRatesAreOfTheLastSeconds(t *testing.T) {
	counted, pass, _ := newTestTraffic()
	for range 25 { // longer than the seconds that are kept
		counted.answered(httpapi.Answer{Home: "here", Status: 201})
		pass(time.Second)
	}
	got := counted.report(0, nil)
	require.EqualValues(t, 25, got.Total.Requests)
	require.EqualValues(t, admin.Lately/time.Second, got.Lately.Requests)
	require.EqualValues(t, admin.Lately/time.Second, got.Flows[0].Lately)
	pass(time.Minute)
	got = counted.report(0, nil)
	require.Zero(t, got.Lately)
	require.Zero(t, got.Flows[0].Lately)
	require.EqualValues(t, 25, got.Flows[0].Total)
}

func TestWhatIsRememberedOfTrafficIsBounded(t *testing.T) {
	counted, _, _ := newTestTraffic()
	for i := range 3 * mismatchTenants {
		counted.answered(httpapi.Answer{Tenant: fmt.Sprint(i), Key: fmt.Sprint(i), Status: 422, Code: problem.FingerprintMismatch})
	}
	counted.answered(httpapi.Answer{Tenant: "7", Status: 422, Code: problem.FingerprintMismatch})
	got := counted.report(1000, nil)
	require.Len(t, got.Mismatches, mismatchTenants+1)
	require.Equal(t, admin.TenantCount{Tenant: otherTenants, Count: 2 * mismatchTenants}, got.Mismatches[0])
	require.Equal(t, admin.TenantCount{Tenant: "7", Count: 2}, got.Mismatches[1])
	require.Len(t, got.Arrivals, admin.MaxArrivals)
	require.Equal(t, "299", got.Arrivals[1].Key, "newest first")
}

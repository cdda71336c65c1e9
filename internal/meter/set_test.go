package meter

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// collect returns a set's series, by metric and labels.
func collect(t testing.TB, r sdk.Reader) map[string]map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, r.Collect(t.Context(), &all))
	series := map[string]map[string]float64{}
	put := func(name string, labels attribute.Set, v float64) {
		if series[name] == nil {
			series[name] = map[string]float64{}
		}
		series[name][labels.Encoded(attribute.DefaultEncoder())] = v
	}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes, float64(p.Count))
				}
			}
		}
	}
	return series
}

func newSet(t testing.TB) (*Set, sdk.Reader) {
	t.Helper()
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	s, err := New(provider)
	require.NoError(t, err)
	t.Cleanup(s.End)
	return s, reader
}

func TestASetCollects(t *testing.T) {
	s, reader := newSet(t)
	s.Counter(Requests).Add(1, "charge", Succeeded, "us-east1", "local")
	s.Counter(Requests).Add(2, "charge", Succeeded, "us-east1", "local")
	s.Counter(Requests).Add(1, "refund", Declined, "us-east1", "local")
	s.Histogram(HTTPDuration).Took(t.Context(), time.Second, "POST", "/v1/charges", "201")
	require.NoError(t, s.Observe(func(o *Observer) {
		o.Is(RegionLost, 1, "asia")
		o.Is(PoolWaits, 7, "main")
	}))
	require.Equal(t, map[string]map[string]float64{
		"homeward.requests": {
			"homeward.home=us-east1,homeward.operation=charge,homeward.outcome=succeeded,homeward.path=local": 3,
			"homeward.home=us-east1,homeward.operation=refund,homeward.outcome=declined,homeward.path=local":  1,
		},
		"http.server.request.duration": {"http.request.method=POST,http.response.status_code=201,http.route=/v1/charges": 1},
		"homeward.region.lost":         {"homeward.peer=asia": 1},
		"homeward.pool.waits":          {"db.client.connection.pool.name=main": 7},
	}, collect(t, reader))
	s.End()
	require.NotContains(t, collect(t, reader), "homeward.requests")
}

// TestAnEmptySetHasNoSeries: where there are no metrics, rooms need not ask.
func TestAnEmptySetHasNoSeries(t *testing.T) {
	var s *Set
	s.Counter(Requests).Add(1, "a")
	s.Histogram(HTTPDuration).Took(t.Context(), 1)
	require.NoError(t, s.Observe(func(*Observer) { t.Fail() }))
	s.End()
}

// TestKindsAreKept: a metric is exported as the catalogue's kind.
func TestKindsAreKept(t *testing.T) {
	s, _ := newSet(t)
	require.Panics(t, func() { s.Counter(HTTPDuration) })
	require.Panics(t, func() { s.Histogram(Requests) })
	require.Panics(t, func() { s.Counter(&Metric{name: "mine", kind: KindCounter}) }, "it is not in the catalogue")
}

// TestSeriesAreBounded: labels that have more values than anybody foresaw cost no memory
// without end, and lose no count.
func TestSeriesAreBounded(t *testing.T) {
	s, reader := newSet(t)
	for i := range maxSeries + 50 {
		s.Counter(Notices).Add(1, fmt.Sprint("p", i), "kept")
	}
	series := collect(t, reader)[Notices.Name()]
	require.Len(t, series, maxSeries+1)
	require.EqualValues(t, 50, series["homeward.provider=other,homeward.verdict=other"])
}

// TestTenantsAreBounded: the tenants with the most traffic have their names, however many
// others there are, and no count is lost while a name is free.
func TestTenantsAreBounded(t *testing.T) {
	s, reader := newSet(t)
	c := s.Counter(TenantRequests)
	for i := range 2 * candidates {
		c.Add(1, fmt.Sprint("small", i), Succeeded)
	}
	series := collect(t, reader)[TenantRequests.Name()]
	require.Len(t, series, TenantLabels+1)
	require.EqualValues(t, 2*candidates-TenantLabels, series["homeward.outcome=succeeded,homeward.tenant=other"])

	for range 200 {
		c.Add(1, "big", Mismatched)
	}
	c.tenants.ranked = time.Time{}
	collect(t, reader)
	c.Add(1, "big", Succeeded)
	series = collect(t, reader)[TenantRequests.Name()]
	require.EqualValues(t, 1, series["homeward.outcome=succeeded,homeward.tenant=big"])
	names := map[string]bool{}
	c.cells.each(func(v values, _ *cell) { names[v[0]] = true })
	require.LessOrEqual(t, len(names), TenantLabels+1)
	require.LessOrEqual(t, len(c.tenants.counted), candidates)
}

package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/homeward-io/homeward/internal/meter"
)

// quietEnvironment is one that asks for nothing.
func quietEnvironment(t *testing.T) {
	t.Helper()
	for _, name := range []string{"OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_SDK_DISABLED", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"} {
		t.Setenv(name, "")
	}
}

func open(t *testing.T, listen string) *Metrics {
	t.Helper()
	m, err := OpenMetrics(t.Context(), Process{Version: "v1", Log: slog.New(slog.DiscardHandler)}, listen)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Stop(context.Background())) })
	return m
}

func scrape(t *testing.T, m *Metrics, accept string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.Addr()+"/metrics", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(body))
	return string(body)
}

// TestNamesMatchTheCatalogue records every metric, by two nodes, and compares what Prometheus reads
// with the catalogue.
func TestNamesMatchTheCatalogue(t *testing.T) {
	quietEnvironment(t)
	m := open(t, "127.0.0.1:0")
	for _, node := range []string{"n-1", "n-2"} {
		s, err := m.Node(t.Context(), "us-east1", node)
		require.NoError(t, err)
		defer s.End()
		for _, metric := range meter.All() {
			values := make([]string, len(metric.Labels()))
			for i := range values {
				values[i] = "200"
			}
			switch metric.Kind() {
			case meter.KindCounter:
				s.Counter(metric).Add(1, values...)
			case meter.KindHistogram:
				s.Histogram(metric).Record(t.Context(), 1, values...)
			case meter.KindGauge:
				require.NoError(t, s.Observe(func(o *meter.Observer) { o.Is(metric, 1, values...) }))
			}
		}
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(scrape(t, m, "text/plain")))
	require.NoError(t, err)
	for _, metric := range meter.All() {
		family := families[metric.Prometheus()]
		require.NotNil(t, family, "%s is exported under another name", metric.Prometheus())
		require.Equal(t, metric.Kind().String(), strings.ToLower(family.GetType().String()))
		require.Equal(t, metric.Means(), family.GetHelp())
		require.Len(t, family.GetMetric(), 2)
		labels := map[string]bool{}
		for _, l := range family.GetMetric()[0].GetLabel() {
			labels[l.GetName()] = true
		}
		require.True(t, labels["homeward_region"] && labels["homeward_node"])
		for _, l := range metric.Labels() {
			require.True(t, labels[strings.ReplaceAll(string(l), ".", "_")], "%s has no label %s", metric.Prometheus(), l)
		}
		require.Len(t, labels, len(metric.Labels())+2)
	}
	for _, name := range []string{"go_goroutines", "process_cpu_seconds_total", "target_info"} {
		require.Contains(t, families, name)
	}
}

// TestExemplarsNameTheirTrace: what was slow leads to its trace.
func TestExemplarsNameTheirTrace(t *testing.T) {
	quietEnvironment(t)
	m := open(t, "127.0.0.1:0")
	s, err := m.Node(t.Context(), "us-east1", "n-1")
	require.NoError(t, err)
	provider := sdktrace.NewTracerProvider()
	defer func() { require.NoError(t, provider.Shutdown(context.Background())) }()
	ctx, sp := provider.Tracer("t").Start(t.Context(), "s")
	s.Histogram(meter.LayerDuration).Took(ctx, 20*time.Millisecond, "local")
	text := scrape(t, m, "application/openmetrics-text; version=1.0.0")
	require.Regexp(t, `homeward_layer_duration_seconds_bucket\{.*le="0.02"\} 1 # \{.*trace_id="`+sp.SpanContext().TraceID().String()+`".*\} 0.02`, text)
}

func TestNoListener(t *testing.T) {
	quietEnvironment(t)
	m := open(t, "")
	require.Nil(t, m)
	require.Empty(t, m.Addr())
	s, err := m.Node(t.Context(), "us-east1", "n-1")
	require.NoError(t, err)
	require.Nil(t, s)

	t.Setenv("OTEL_SDK_DISABLED", "true")
	require.Nil(t, open(t, "127.0.0.1:0"))
}

// TestMetricsArePushed: by the variables that have traces pushed.
func TestMetricsArePushed(t *testing.T) {
	quietEnvironment(t)
	var mu sync.Mutex
	var got bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got.WriteString(r.URL.Path)
		_, _ = got.ReadFrom(r.Body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	m := open(t, "")
	s, err := m.Node(t.Context(), "us-east1", "n-1")
	require.NoError(t, err)
	s.Counter(meter.Conflicts).Add(1, "answered")
	require.NoError(t, m.Stop(t.Context()))
	mu.Lock()
	defer mu.Unlock()
	for _, text := range []string{"/v1/metrics", "homeward.claim.conflicts", "answered", "us-east1", "n-1"} {
		require.Contains(t, got.String(), text)
	}
}

func TestMetricsLeaveTheMachineByTLSOnly(t *testing.T) {
	quietEnvironment(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
	p := Process{Log: slog.New(slog.DiscardHandler)}
	_, err := OpenMetrics(t.Context(), p, "127.0.0.1:0")
	require.ErrorContains(t, err, "metrics.allow_plaintext")
	require.ErrorContains(t, CheckMetrics(t.Context(), p), "metrics.allow_plaintext")
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	require.NoError(t, CheckMetrics(t.Context(), p))
	t.Setenv("OTEL_METRICS_EXPORTER", "pigeon")
	require.ErrorContains(t, CheckMetrics(t.Context(), Process{AllowPlaintext: true}), "OTEL_METRICS_EXPORTER")
}

// deaf is a collector that answers from the nth time on.
type deaf struct {
	metric.Exporter
	remaining int
}

func (d *deaf) Export(context.Context, *metricdata.ResourceMetrics) error {
	if d.remaining--; d.remaining >= 0 {
		return errors.New("no collector")
	}
	return nil
}

func TestLossOfMetricsIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	c := &calmMetrics{&deaf{remaining: 3}, calm{log: slog.New(slog.NewTextHandler(&log, nil)), what: "metrics"}}
	for range 6 {
		require.NoError(t, c.Export(t.Context(), nil))
	}
	require.Equal(t, 1, strings.Count(log.String(), "the exporter lost data"))
	require.Equal(t, 1, strings.Count(log.String(), "exported data arrives again"))
}

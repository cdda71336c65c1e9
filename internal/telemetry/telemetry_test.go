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

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/homeward-io/homeward/internal/span"
)

func TestWanted(t *testing.T) {
	for _, c := range []struct {
		environ string
		want    bool
	}{
		{"", false},
		{"OTEL_SERVICE_NAME=x", false},
		{"OTEL_TRACES_EXPORTER=otlp", true},
		{"OTEL_TRACES_EXPORTER=console", true},
		{"OTEL_TRACES_EXPORTER=none", false},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", true},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4318/v1/traces", true},
		{"OTEL_TRACES_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", false},
		{"OTEL_SDK_DISABLED=True OTEL_TRACES_EXPORTER=otlp", false},
		{"OTEL_SDK_DISABLED=false OTEL_TRACES_EXPORTER=otlp", true},
	} {
		environ := map[string]string{}
		for v := range strings.FieldsSeq(c.environ) {
			name, value, _ := strings.Cut(v, "=")
			environ[name] = value
		}
		require.Equal(t, c.want, wanted(func(name string) string { return environ[name] }, "TRACES"), c.environ)
	}
}

// TestSetup sends a span to a collector, and sets nothing where tracing is off: in
// this order, because a process sets its provider once.
func TestSetup(t *testing.T) {
	for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED", "OTEL_SERVICE_NAME"} {
		t.Setenv(name, "")
	}
	p := Process{Version: "v1", Region: "us-east1", Node: "n-1", Log: slog.New(slog.DiscardHandler)}
	stop, err := Setup(t.Context(), p)
	require.NoError(t, err)
	stop()
	require.False(t, Enabled())
	_, sp := span.Start(t.Context(), "nothing")
	require.False(t, sp.IsRecording())
	require.Empty(t, span.TraceParent(t.Context()))

	t.Setenv("OTEL_TRACES_EXPORTER", "pigeon")
	_, err = Setup(t.Context(), p)
	require.ErrorContains(t, err, "OTEL_TRACES_EXPORTER")
	require.False(t, Enabled())

	var mu sync.Mutex
	var got []byte
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.URL.Path...)
		got = append(got, body...)
	}))
	defer collector.Close()
	t.Setenv("OTEL_TRACES_EXPORTER", "")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_SERVICE_NAME", "ours")
	stop, err = Setup(t.Context(), p)
	require.NoError(t, err)
	require.True(t, Enabled())
	ctx, sp := span.Server(t.Context(), http.Header{"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}, "an answer", time.Now())
	require.Regexp(t, "^00-4bf92f3577b34da6a3ce929d0e0e4736-[0-9a-f]{16}-01$", span.TraceParent(ctx))
	sp.End()
	stop()
	mu.Lock()
	defer mu.Unlock()
	for _, text := range []string{"/v1/traces", "an answer", "ours", "us-east1", "n-1", "v1"} {
		require.Contains(t, string(got), text, "the environment's name of the service, and who made the span")
	}
}

// down is a collector that answers from the nth batch on.
type down struct{ remaining int }

func (d *down) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	if d.remaining--; d.remaining >= 0 {
		return errors.New("no collector")
	}
	return nil
}
func (*down) Shutdown(context.Context) error { return nil }

func TestLossIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	c := &calmTraces{&down{3}, calm{log: slog.New(slog.NewTextHandler(&log, nil)), what: "traces"}}
	for range 6 {
		require.NoError(t, c.ExportSpans(t.Context(), nil))
	}
	require.Equal(t, 1, strings.Count(log.String(), "the exporter lost data"))
	require.Equal(t, 1, strings.Count(log.String(), "exported data arrives again"))
	require.Equal(t, 2, strings.Count(log.String(), "\n"))
}

func TestLogsNameTheirTrace(t *testing.T) {
	var buf bytes.Buffer
	log := slog.New(Traced(slog.NewJSONHandler(&buf, nil))).With("region", "us-east1")
	log.InfoContext(t.Context(), "outside")
	require.NotContains(t, buf.String(), "trace_id")
	buf.Reset()

	provider := sdktrace.NewTracerProvider()
	defer func() { require.NoError(t, provider.Shutdown(context.Background())) }()
	ctx, sp := provider.Tracer("t").Start(t.Context(), "s")
	log.InfoContext(ctx, "inside")
	require.Contains(t, buf.String(), `"trace_id":"`+sp.SpanContext().TraceID().String()+`","span_id":"`+sp.SpanContext().SpanID().String()+`"`)
	require.Contains(t, buf.String(), `"region":"us-east1"`)
}

// TestResource: what all spans of a process of several regions have in common.
func TestResource(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "")
	p := Process{Version: "v1"}
	r, err := p.resource(t.Context())
	require.NoError(t, err)
	v, ok := r.Set().Value(attribute.Key("service.name"))
	require.True(t, ok)
	require.Equal(t, "homeward", v.AsString())
	_, ok = r.Set().Value(span.Region)
	require.False(t, ok, "a process of several regions has none")
}

// Spans name the tenant and the action, and go to another machine by TLS or not at all, unless a
// setting allows clear text.
func TestSpansLeaveTheMachineByTLSOnly(t *testing.T) {
	for environ, host := range map[string]string{
		"OTEL_TRACES_EXPORTER=otlp":                                                                        "",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318":                                                        "c:4318",
		"OTEL_EXPORTER_OTLP_ENDPOINT=HTTP://10.0.0.1:4318":                                                 "10.0.0.1:4318",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://me:hunter2@c:4318":                                             "c:4318",
		"OTEL_EXPORTER_OTLP_ENDPOINT=https://c:4318":                                                       "",
		"OTEL_EXPORTER_OTLP_ENDPOINT=https://c:4318 OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://d/v1/traces": "d",
		"OTEL_EXPORTER_OTLP_ENDPOINT=https://c:4318 OTEL_EXPORTER_OTLP_INSECURE=true":                      "c:4318",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 OTEL_EXPORTER_OTLP_INSECURE=false":                      "",
		"OTEL_EXPORTER_OTLP_ENDPOINT=c:4317 OTEL_EXPORTER_OTLP_TRACES_INSECURE=true":                       "c:4317",
		"OTEL_EXPORTER_OTLP_ENDPOINT=dns:///c:4317 OTEL_EXPORTER_OTLP_INSECURE=true":                       "c:4317",
		"OTEL_EXPORTER_OTLP_ENDPOINT=c:4317":                                                               "",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318":                                                "",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318":                                                "",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://[::1]:4318":                                                    "",
		"OTEL_EXPORTER_OTLP_ENDPOINT=unix:///run/otel OTEL_EXPORTER_OTLP_INSECURE=true":                    "",
		"OTEL_EXPORTER_OTLP_INSECURE=true OTEL_TRACES_EXPORTER=otlp":                                       "",
		"OTEL_TRACES_EXPORTER=console OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318":                           "",
	} {
		set := map[string]string{}
		for v := range strings.FieldsSeq(environ) {
			name, value, _ := strings.Cut(v, "=")
			set[name] = value
		}
		require.Equal(t, host, plaintext(func(name string) string { return set[name] }, "TRACES"), environ)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:hunter2@c:4318")
	t.Setenv("OTEL_TRACES_EXPORTER", "")
	_, err := Setup(t.Context(), Process{Log: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "traces.allow_plaintext")
	require.NotContains(t, err.Error(), "hunter2")
}

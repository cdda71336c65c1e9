package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// newExporter makes the exporter of spans that the standard variables name; the
// exporters read the other OTEL_EXPORTER_OTLP_* themselves. It replaces autoexport,
// which would link exporters of logs that this program does not use.
func newExporter(ctx context.Context, env func(string) string) (sdktrace.SpanExporter, error) {
	return choose(env, "TRACES", "otlp, console or none",
		func() (sdktrace.SpanExporter, error) { return stdouttrace.New() },
		func() (sdktrace.SpanExporter, error) { return otlptracehttp.New(ctx) },
		func() (sdktrace.SpanExporter, error) { return otlptracegrpc.New(ctx) })
}

// newMetricExporter is newExporter of metrics.
func newMetricExporter(ctx context.Context, env func(string) string) (metric.Exporter, error) {
	return choose(env, "METRICS", "otlp, console, prometheus or none",
		func() (metric.Exporter, error) { return stdoutmetric.New() },
		func() (metric.Exporter, error) { return otlpmetrichttp.New(ctx) },
		func() (metric.Exporter, error) { return otlpmetricgrpc.New(ctx) })
}

// choose makes the exporter of a signal, TRACES or METRICS, that the variables name.
func choose[T any](env func(string) string, signal, names string, console, http, grpc func() (T, error)) (none T, err error) {
	switch name := or(env("OTEL_"+signal+"_EXPORTER"), "otlp"); name {
	case "otlp":
	case "console":
		return console()
	default:
		return none, fmt.Errorf("OTEL_%s_EXPORTER is %q; use %s", signal, name, names)
	}
	switch protocol := or(env("OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL"), or(env("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")); protocol {
	case "http/protobuf":
		return http()
	case "grpc":
		return grpc()
	default:
		return none, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q; use http/protobuf or grpc", protocol)
	}
}

// calm logs once when an exporter loses what it is to send, and once when it no longer does.
type calm struct {
	log     *slog.Logger
	what    string // traces or metrics
	failing atomic.Bool
}

func (c *calm) note(err error) {
	switch {
	case err != nil && !c.failing.Swap(true):
		c.log.Warn("the exporter lost data; requests are not affected. Check OTEL_EXPORTER_OTLP_ENDPOINT and the collector", "what", c.what, "error", err)
	case err == nil && c.failing.Swap(false):
		c.log.Info("exported data arrives again", "what", c.what)
	}
}

// calmTraces is an exporter that never fails: calm logs its errors.
type calmTraces struct {
	sdktrace.SpanExporter
	calm
}

// ExportSpans implements the exporter.
func (c *calmTraces) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	c.note(c.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// calmMetrics is as calmTraces.
type calmMetrics struct {
	metric.Exporter
	calm
}

// Export implements the exporter.
func (c *calmMetrics) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	c.note(c.Exporter.Export(ctx, all))
	return nil
}

// plaintext returns the other machine to which a signal, TRACES or METRICS, would be
// sent without TLS, as the exporters read the variables; "" if there is none. Without
// an endpoint it stays on this machine.
func plaintext(env func(string) string, signal string) (host string) {
	if env("OTEL_"+signal+"_EXPORTER") == "console" {
		return ""
	}
	endpoint := or(env("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT"), or(env("OTEL_EXPORTER_OTLP_ENDPOINT"), ""))
	scheme, rest, found := strings.Cut(endpoint, "://")
	if !found { // host:port, of gRPC
		scheme, rest = "", endpoint
	}
	plain := strings.EqualFold(scheme, "http")
	if insecure := or(env("OTEL_EXPORTER_OTLP_"+signal+"_INSECURE"), or(env("OTEL_EXPORTER_OTLP_INSECURE"), "")); insecure != "" {
		plain = strings.EqualFold(insecure, "true") // decides, whatever the scheme
	}
	if endpoint == "" || !plain || strings.EqualFold(scheme, "unix") {
		return ""
	}
	u, err := url.Parse("//" + strings.TrimLeft(rest, "/")) // gRPC has dns:///host:port, too
	if err != nil {
		return "a host that cannot be read"
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return ""
	}
	return u.Host
}

func or(text, otherwise string) string {
	if text = strings.TrimSpace(text); text != "" {
		return text
	}
	return otherwise
}

package telemetry

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// newExporter makes the exporter of spans that the standard variables name; the
// exporters read the other OTEL_EXPORTER_OTLP_* themselves. It replaces autoexport,
// which would link exporters of logs that this program does not use.
func newExporter(ctx context.Context, env func(string) string) (sdktrace.SpanExporter, error) {
	switch name := or(env("OTEL_TRACES_EXPORTER"), "otlp"); name {
	case "otlp":
	case "console":
		return stdouttrace.New()
	default:
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER is %q; use otlp, console or none", name)
	}
	switch protocol := or(env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), or(env("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")); protocol {
	case "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q; use http/protobuf or grpc", protocol)
	}
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
		plain = strings.EqualFold(insecure, "true") // the last word, whatever the scheme
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

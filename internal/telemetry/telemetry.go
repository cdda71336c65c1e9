// Package telemetry sets up OpenTelemetry and slog for a process, and does nothing
// else: package span defines spans, and package meter metrics.
//
// # Traces
//
// The standard variables decide. Tracing is off, and costs nothing, until
// OTEL_TRACES_EXPORTER names an exporter (otlp, console) or OTEL_EXPORTER_OTLP_ENDPOINT
// or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT names a collector; OTEL_SDK_DISABLED=true and
// OTEL_TRACES_EXPORTER=none keep it off. OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG, OTEL_BSP_…, OTEL_SPAN_… and
// OTEL_EXPORTER_OTLP_… have their usual meanings. The default sampler obeys
// merchants who ask for a trace, and no caller without an API key; if merchants should not
// decide, choose one without "parentbased".
//
// W3C trace context is propagated, and OTEL_PROPAGATORS is not read: baggage would
// carry merchants' data through every region.
//
// # Metrics
//
// Prometheus, or a compatible scraper, scrapes them from a listener of their own.
// OTEL_METRICS_EXPORTER (otlp, console), OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_METRICS_ENDPOINT enables pushing, too, every
// OTEL_METRIC_EXPORT_INTERVAL; none or prometheus keeps that off, and
// OTEL_SDK_DISABLED=true both. Each node of a process has a provider of its own, whose
// resource identifies the node, and none of them is the global one, so that a library's
// instruments are not exported unnoticed.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/homeward-io/homeward/internal/span"
)

// Process identifies the source of spans and metrics.
type Process struct {
	Version string
	// Region, "" in a process that has several; then each span names it.
	Region string
	// Node is the node's configured name, or "".
	Node string
	// AllowPlaintext allows sending to another machine without TLS.
	AllowPlaintext bool
	Log            *slog.Logger
}

// Setup sets the process's tracer provider and propagator, or does nothing if tracing
// is off. It contacts no collector: an exporter that cannot reach its collector is
// logged when that begins and when it ends, and no request waits for it. Call it once,
// before anything is traced, and call stop at the end, which sends the remaining spans,
// for flushTime at most.
func Setup(ctx context.Context, p Process) (stop func(), err error) {
	if !wanted(os.Getenv, "TRACES") {
		return func() {}, nil
	}
	who, exporter, err := p.prepare(ctx)
	if err != nil {
		return nil, err
	}
	// The SDK's own messages, such as about a variable that does not parse.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { p.Log.Warn("tracing", "error", err) }))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&calmTraces{exporter, calm{log: p.Log, what: "traces"}}),
		sdktrace.WithResource(who),
	)
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			p.Log.Warn("the last traces could not be exported", "error", err)
		}
	}, nil
}

// Check returns the error that [Setup] would return, and sets nothing up.
func Check(ctx context.Context, p Process) error {
	if !wanted(os.Getenv, "TRACES") {
		return nil
	}
	_, exporter, err := p.prepare(ctx)
	if err != nil {
		return err
	}
	return exporter.Shutdown(ctx)
}

// prepare makes the exporter that the environment configures.
func (p *Process) prepare(ctx context.Context) (*resource.Resource, sdktrace.SpanExporter, error) {
	if host := plaintext(os.Getenv, "TRACES"); host != "" && !p.AllowPlaintext {
		return nil, nil, fmt.Errorf("traces would go to %s without TLS and expose what each tenant did and the collector's key; make OTEL_EXPORTER_OTLP_ENDPOINT https:// and unset OTEL_EXPORTER_OTLP_INSECURE, send them to a collector on this machine, or set traces.allow_plaintext if that is intended", host)
	}
	who, err := p.resource(ctx)
	if err != nil {
		return nil, nil, err
	}
	exporter, err := newExporter(ctx, os.Getenv)
	if err != nil {
		return nil, nil, fmt.Errorf("traces: %w", err)
	}
	return who, exporter, nil
}

// flushTime bounds how long an ending process waits for a collector: a healthy one
// answers at once, and one that is down must not look like a node that hangs.
const flushTime = 5 * time.Second

// wanted reports whether the environment enables a signal, TRACES or METRICS.
func wanted(env func(string) string, signal string) bool {
	switch exporter := strings.TrimSpace(env("OTEL_" + signal + "_EXPORTER")); {
	case strings.EqualFold(strings.TrimSpace(env("OTEL_SDK_DISABLED")), "true"), exporter == "none":
		return false
	case exporter == "prometheus" && signal == "METRICS":
		return false // they are scraped
	case exporter != "":
		return true
	default:
		return env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
	}
}

// resource holds the common attributes of every span and metric of the process. The
// environment overrides it.
func (p *Process) resource(ctx context.Context) (*resource.Resource, error) {
	attributes := []attribute.KeyValue{attribute.String("service.name", "homeward"), attribute.String("service.version", p.Version)}
	if p.Region != "" {
		attributes = append(attributes, span.Region.String(p.Region))
	}
	if p.Node != "" {
		attributes = append(attributes, span.Node.String(p.Node))
	}
	who, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(attributes...), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("OpenTelemetry: %w; write OTEL_RESOURCE_ATTRIBUTES as name=value,…", err)
	}
	return who, nil
}

// Enabled reports whether this process makes spans.
func Enabled() bool {
	_, ok := otel.GetTracerProvider().(*sdktrace.TracerProvider)
	return ok
}

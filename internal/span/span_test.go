package span_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/homeward-io/homeward/internal/span"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// step is what a room does around its work.
func step(ctx context.Context, header http.Header) {
	ctx, sp := span.Server(ctx, header, "POST /v1/charges", time.Now())
	if sp.IsRecording() {
		sp.SetAttributes(span.Tenant.String("acme"))
	}
	ctx, inner := span.Start(ctx, span.Claim)
	if inner.IsRecording() {
		inner.SetAttributes(span.Fence.Int64(1))
	}
	_, call := span.Client(ctx, span.Forward)
	span.Inject(ctx, header)
	call.End()
	inner.End()
	sp.End()
}

// TestSpans: off, spans leave the caller's trace as it is; on,
// they are in it. In this order, because a program sets its provider once.
func TestSpans(t *testing.T) {
	ctx := t.Context()
	header := http.Header{"Traceparent": {parent}}
	step(ctx, header)
	require.Equal(t, http.Header{"Traceparent": {parent}}, header)
	require.Empty(t, span.TraceParent(ctx))

	// A program with a span of its own, of another provider, keeps it.
	own, root := sdktrace.NewTracerProvider().Tracer("merchant").Start(ctx, "merchant")
	in, sp := span.Client(own, "POST")
	sp.End()
	require.True(t, root.IsRecording(), "not ended by us")
	span.InjectW3C(in, header)
	require.Contains(t, header.Get("Traceparent"), root.SpanContext().TraceID().String())

	recorder := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	otel.SetTextMapPropagator(propagation.TraceContext{})
	header = http.Header{"Traceparent": {parent}, "Baggage": {"secret=1"}}
	step(ctx, header)
	spans := recorder.Ended()
	require.Len(t, spans, 3)
	forward, claim, entry := spans[0], spans[1], spans[2]
	require.Equal(t, []string{span.Forward, span.Claim, "POST /v1/charges"}, []string{forward.Name(), claim.Name(), entry.Name()})
	require.Equal(t, []trace.SpanKind{trace.SpanKindClient, trace.SpanKindInternal, trace.SpanKindServer},
		[]trace.SpanKind{forward.SpanKind(), claim.SpanKind(), entry.SpanKind()})
	require.Equal(t, "00f067aa0ba902b7", entry.Parent().SpanID().String())
	require.Equal(t, entry.SpanContext().SpanID(), claim.Parent().SpanID())
	require.Equal(t, claim.SpanContext().SpanID(), forward.Parent().SpanID())
	require.Equal(t, "00-4bf92f3577b34da6a3ce929d0e0e4736-"+claim.SpanContext().SpanID().String()+"-01", header.Get("Traceparent"))

	for _, c := range []struct {
		parent string
		links  int
	}{{parent, 1}, {"", 0}, {"00-nonsense-01", 0}} {
		_, sp := span.Linked(ctx, span.Outbox+"provider_call", c.parent)
		sp.End()
		ended := recorder.Ended()
		row := ended[len(ended)-1]
		require.Len(t, row.Links(), c.links, c.parent)
		require.False(t, row.Parent().IsValid())
		require.NotEqual(t, "4bf92f3577b34da6a3ce929d0e0e4736", row.SpanContext().TraceID().String())
	}
}

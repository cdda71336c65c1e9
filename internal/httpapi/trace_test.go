package httpapi

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/homeward-io/homeward/claim"
)

// The API follows a merchant's traceparent alone: another caller could have every request traced,
// or add spans to any trace.
func TestOnlyATenantsTraceIsContinued(t *testing.T) {
	before, propagator := otel.GetTracerProvider(), otel.GetTextMapPropagator()
	recorder := tracetest.NewSpanRecorder()
	// What OTEL_TRACES_SAMPLER=parentbased_always_off makes: nothing unless the caller asks.
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample()))))
	otel.SetTextMapPropagator(propagation.TraceContext{})
	defer func() {
		otel.SetTracerProvider(before)
		otel.SetTextMapPropagator(propagator)
	}()

	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	asks := []string{"Traceparent", "00-" + trace + "-00f067aa0ba902b7-01"}
	f := newFake()
	h := newAPI(t, f)
	for _, stranger := range [][]string{{"Authorization", ""}, {"Authorization", "Bearer sk_nobody"}} {
		for _, stripes := range [][]string{nil, {"Stripe-Version", "2026-08-26.dahlia"}} {
			headers := append(append(append([]string{}, asks...), stranger...), stripes...)
			require.Equal(t, 401, serve(h, charge(headers...)).Code)
		}
	}
	serve(h, request("GET", "/readyz", "", asks...))
	serve(h, request("GET", "/nowhere", "", asks...))
	require.Empty(t, recorder.Ended(), "a stranger's requests are not traced on demand")

	do := f.do
	f.do = func(ctx context.Context, r claim.Request) (claim.Reply, error) {
		require.Contains(t, r.TraceParent, trace)
		return do(ctx, r)
	}
	require.Equal(t, 201, serve(h, charge(asks...)).Code)
	require.Len(t, recorder.Ended(), 1)
	sp := recorder.Ended()[0]
	require.Equal(t, trace, sp.SpanContext().TraceID().String())
	require.Equal(t, "POST /v1/charges", sp.Name())
}

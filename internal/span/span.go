// Package span defines the spans and attributes of Homeward's traces. One trace
// covers a request:
//
//	POST /v1/charges         one call of package client
//	  POST                   each of its requests
//	    POST /v1/charges     the entry
//	      route              where the request goes
//	        pin              the registrar reads the pin
//	        replica read     the nearest replica is read
//	        claim            the claim's own step, with the wait for a rival
//	        attempt          one try at the provider
//	          POST           the call itself
//	        settle           the outcome is recorded
//	        forward          one hop
//	          home           claim, attempt and settle there
//
// Statements of the SQL store are spans of otelpgx within these, each by its name.
//
// A worker handles an outbox row in a separate trace, which links to the one
// that wrote the row: it may begin hours later.
//
// Names and attributes are all here. Values are ids, regions, counters and codes: never
// a body, an amount, an API key, an idempotency key (merchants put order numbers and
// worse there) or a provider key, with which a reader could fetch another's answer.
// Search by the object's id.
//
// Until the program sets OpenTelemetry's provider, as internal/telemetry does if the
// environment asks for it, a span is a placeholder. Make attributes only if IsRecording.
package span

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Span is an OpenTelemetry span. The caller must end it.
type Span = trace.Span

// Names of spans. Those of HTTP requests are the method and the route.
const (
	Route       = "route"
	Pin         = "pin"
	ReplicaRead = "replica read"
	Forward     = "forward"
	Home        = "home"
	Claim       = "claim"
	Attempt     = "attempt"
	Settle      = "settle"
	// Outbox is followed by the row's kind.
	Outbox = "outbox "
)

// Attributes.
const (
	Tenant    = attribute.Key("homeward.tenant")
	Operation = attribute.Key("homeward.operation")
	// Object is the id minted for the object, which merchants see, too.
	Object = attribute.Key("homeward.object")
	// Region is where the span's work is done, Node the process that does it.
	Region = attribute.Key("homeward.region")
	Node   = attribute.Key("homeward.node")
	// HomeRegion is the key's home, Entry where the request arrived, Registrar
	// where the tenant's pins are.
	HomeRegion = attribute.Key("homeward.home")
	Entry      = attribute.Key("homeward.entry")
	Registrar  = attribute.Key("homeward.registrar")
	// Way is how a request was answered, one of the Way constants.
	Way = attribute.Key("homeward.route")
	// Hop is which forward of its request this is, from 1; Hops is how many there
	// were.
	Hop  = attribute.Key("homeward.hop")
	Hops = attribute.Key("homeward.hops")
	// Found: a replica had the final answer.
	Found = attribute.Key("homeward.found")
	// Decision is the claim's, as claim.Decision spells it, or for a row of the
	// outbox taken_over.
	Decision   = attribute.Key("homeward.decision")
	Fence      = attribute.Key("homeward.fence")
	Generation = attribute.Key("homeward.generation")
	// AttemptNo counts the attempts under a claim, from 1; at a client, the
	// requests of one call.
	AttemptNo = attribute.Key("homeward.attempt")
	// Recovery: an earlier attempt may have moved money.
	Recovery = attribute.Key("homeward.recovery")
	Provider = attribute.Key("homeward.provider")
	// Outcome is claim.Outcome's name, Reason a decline code or why it is unknown.
	Outcome = attribute.Key("homeward.outcome")
	Reason  = attribute.Key("homeward.reason")
	// State is the claim's after the step.
	State = attribute.Key("homeward.state")
	// Replayed: the answer was stored before.
	Replayed = attribute.Key("homeward.replayed")
	// OutboxID is the row's.
	OutboxID = attribute.Key("homeward.outbox.id")

	// OpenTelemetry's own, stable names.
	Method  = attribute.Key("http.request.method")
	Path    = attribute.Key("http.route")
	Status  = attribute.Key("http.response.status_code")
	URLPath = attribute.Key("url.path")
	RPC     = attribute.Key("rpc.method")
	Address = attribute.Key("server.address")
)

// Values of [Way].
const (
	// WayLocal: at home, here.
	WayLocal = "local"
	// WayRegistrar: at home, here, as a registrar in another region answered.
	WayRegistrar = "registrar"
	WayReplica   = "replica"
	WayForward   = "forward"
	// WayDeputy: here, for a lost home.
	WayDeputy = "deputy"
)

var tracer = otel.Tracer("github.com/homeward-io/homeward")

// Start begins a span within this process.
func Start(ctx context.Context, name string) (context.Context, Span) { return tracer.Start(ctx, name) }

// Client begins the span of a call to another process.
func Client(ctx context.Context, name string) (context.Context, Span) {
	return tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
}

// Server begins the span that serves a call which arrived at began, in the trace that
// header carries. Whether that trace is sampled is then the caller's decision: pass nil
// for a caller who has not shown who it is.
func Server(ctx context.Context, header http.Header, name string, began time.Time) (context.Context, Span) {
	ctx = otel.GetTextMapPropagator().Extract(ctx, propagation.HeaderCarrier(header))
	return tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(began))
}

// Linked begins a separate trace that links to the one of traceParent. If that is "" or
// malformed, there is no link.
func Linked(ctx context.Context, name, traceParent string) (context.Context, Span) {
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer)}
	from := trace.SpanContextFromContext(w3c.Extract(context.Background(), propagation.MapCarrier{headerW3C: traceParent}))
	if from.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: from}))
	}
	return tracer.Start(ctx, name, options...)
}

// Current returns the span of ctx.
func Current(ctx context.Context) Span { return trace.SpanFromContext(ctx) }

// Inject adds the trace context of ctx to header.
func Inject(ctx context.Context, header http.Header) {
	otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(header))
}

// w3c is trace context without baggage, which could contain a caller's secret.
var w3c propagation.TraceContext

const headerW3C = "traceparent"

// TraceParent returns the W3C traceparent of ctx; "" outside a trace.
func TraceParent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return carrier[headerW3C]
}

// InjectW3C is Inject for a process that has set no propagator.
func InjectW3C(ctx context.Context, header http.Header) {
	w3c.Inject(ctx, propagation.HeaderCarrier(header))
}

// Fail marks the span as failed, for faults of ours or of our dependencies, not
// for a decline or a refused request. Errors contain no secrets; they are also
// logged.
func Fail(s Span, err error) {
	if err != nil && s.IsRecording() {
		s.SetStatus(codes.Error, err.Error())
	}
}

// Event adds an event to the span.
func Event(s Span, name string, attributes ...attribute.KeyValue) {
	s.AddEvent(name, trace.WithAttributes(attributes...))
}

package meter

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/homeward-io/homeward/internal/span"
)

// Labels. Those that a span has, too, are named alike there. In the text format dots are
// underscores: homeward_home.
const (
	// Region and Node identify the reporting node. Every metric of a node has them, as
	// labels of its resource, so no metric names them.
	Region = span.Region
	Node   = span.Node

	Tenant    = span.Tenant
	Operation = span.Operation
	Outcome   = span.Outcome
	// Home is the region that is home to the key.
	Home = span.HomeRegion
	// Path is how the request was answered: a Way of package span, or [PathHome].
	Path     = attribute.Key("homeward.path")
	Provider = span.Provider
	State    = span.State
	Decision = span.Decision
	// Peer is the other region.
	Peer = attribute.Key("homeward.peer")
	// Code is the code of the problem that the caller received.
	Code = attribute.Key("homeward.code")
	// By is who did it, Step in which step of the store it happened.
	By   = attribute.Key("homeward.by")
	Step = attribute.Key("homeward.step")
	// Call is the request to a provider, or to another node.
	Call = attribute.Key("homeward.call")
	// Queue is one of the outbox's; Kind the kind of its rows: for events, the sink.
	Queue   = attribute.Key("homeward.queue")
	RowKind = attribute.Key("homeward.kind")
	Verdict = attribute.Key("homeward.verdict")
	Reason  = span.Reason
	// Currency is in lower case, as in the API.
	Currency = attribute.Key("homeward.currency")
	Class    = attribute.Key("homeward.class")
	Version  = attribute.Key("homeward.version")
	// Certificate is node or ca.
	Certificate = attribute.Key("homeward.certificate")

	// OpenTelemetry's own.
	Method    = span.Method
	Route     = span.Path
	Status    = span.Status
	DBSystem  = attribute.Key("db.system.name")
	Statement = attribute.Key("db.operation.name")
	Pool      = attribute.Key("db.client.connection.pool.name")
	PoolState = attribute.Key("db.client.connection.state")
)

// PathHome is the path of a request that another region has forwarded here.
const PathHome = "home"

// Other is the label of the tenants that have no label of their own, and of any value beyond the
// bound.
const Other = "other"

// Outcomes of [Requests].
const (
	// Succeeded, Declined and Released are outcomes of this request's own attempt:
	// done, refused for good, refused for now.
	Succeeded = "succeeded"
	Declined  = "declined"
	Released  = "released"
	// Pending: the provider, the payer or a bank has yet to decide.
	Pending = "pending"
	// Replayed is another request's answer.
	Replayed = "replayed"
	// Mismatched, InUse and Expired are answers, too.
	Mismatched = "mismatch"
	InUse      = "in_use"
	Expired    = "expired"
	// Unknown: the worker is asking the provider.
	Unknown = "unknown"
	// Unavailable and HomeUnavailable fail closed: nothing was begun.
	Unavailable     = "unavailable"
	HomeUnavailable = "home_unavailable"
	// Withheld: a restore may have lost the key's claim.
	Withheld = "withheld"
	// Refused: its tenant may not make this request.
	Refused = "refused"
	// Failed: an unexpected error.
	Failed = "error"
)

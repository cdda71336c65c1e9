package relay

import (
	"context"
	"errors"
	"time"
)

// Endpoint is a tenant's webhook endpoint.
type Endpoint struct {
	Tenant string
	URL    string
	// Secrets sign each delivery, all of them, so that a tenant can rotate
	// secrets without a gap. Each is a "whsec_…" of Standard Webhooks. At least
	// one, at most [MaxSecrets].
	Secrets []string
	// FailingSince is the first failure since the last successful delivery;
	// zero if there is none.
	FailingSince time.Time
	// DisabledAt is when the endpoint was disabled; zero while it is enabled.
	DisabledAt time.Time
}

// MaxSecrets is two: the one in use and the one being changed to.
const MaxSecrets = 2

// ErrNoEndpoint: the tenant has none.
var ErrNoEndpoint = errors.New("relay: the tenant has no webhook endpoint")

// Endpoints keeps at most one endpoint for each tenant, the same in all regions.
// Implementations are safe for concurrent use.
type Endpoints interface {
	Endpoint(ctx context.Context, tenant string) (e Endpoint, found bool, err error)
	// PutEndpoint sets the endpoint of a tenant, enabled and not failing.
	PutEndpoint(ctx context.Context, e Endpoint) error
	// RemoveEndpoint removes a tenant's endpoint and reports whether there was
	// one.
	RemoveEndpoint(ctx context.Context, tenant string) (bool, error)
	// NoteDelivery records whether a delivery to url succeeded, and returns the
	// endpoint after it; ErrNoEndpoint if there is none at url any more. The first
	// failure sets FailingSince, a success clears it; an endpoint that has been failing
	// for disableAfter, by the store's clock, is disabled. It writes only if something
	// changes.
	NoteDelivery(ctx context.Context, tenant, url string, ok bool, disableAfter time.Duration) (Endpoint, error)
}

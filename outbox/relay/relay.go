package relay

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Endpoint is a tenant's webhook endpoint.
type Endpoint struct {
	Tenant string `json:"-"`
	URL    string `json:"url,omitempty"`
	// Secrets sign each delivery, all of them, so that a tenant can rotate
	// secrets without a gap. Each is a "whsec_…" of Standard Webhooks. At least
	// one, at most [MaxSecrets].
	Secrets []string `json:"secrets,omitempty"`
	// FailingSince is the first failure since the last successful delivery;
	// zero if there is none.
	FailingSince time.Time `json:"failing_since,omitzero"`
	// DisabledAt is when the endpoint was disabled; zero while it is enabled.
	DisabledAt time.Time `json:"disabled_at,omitzero"`
}

// Same reports whether e has the URL and the secrets of other.
func (e Endpoint) Same(other Endpoint) bool {
	return e.URL == other.URL && slices.Equal(e.Secrets, other.Secrets)
}

// After returns the endpoint after a delivery at now. The first failure sets FailingSince, a
// success clears it. A failure disables an endpoint that has been failing for disableAfter. Only its
// tenant enables it again.
func (e Endpoint) After(ok bool, disableAfter time.Duration, now time.Time) Endpoint {
	switch {
	case ok:
		e.FailingSince = time.Time{}
	case e.FailingSince.IsZero():
		e.FailingSince = now
	case e.DisabledAt.IsZero() && !now.Before(e.FailingSince.Add(disableAfter)):
		e.DisabledAt = now
	}
	return e
}

// MaxSecrets is two: the one in use and the one being changed to.
const MaxSecrets = 2

// ErrNoEndpoint: the tenant has none.
var ErrNoEndpoint = errors.New("relay: the tenant has no webhook endpoint")

// ErrChanged: the endpoint is not the one that was read any more.
var ErrChanged = errors.New("relay: the webhook endpoint has been changed meanwhile")

// Endpoints keeps at most one endpoint for each tenant, the same in all regions.
// Implementations are safe for concurrent use.
type Endpoints interface {
	Endpoint(ctx context.Context, tenant string) (e Endpoint, found bool, err error)
	// PutEndpoint sets the endpoint of a tenant, enabled and not failing. was is the one that the
	// caller has read, zero for none: if another URL or other secrets are there, nothing is done,
	// and the error is [ErrChanged].
	PutEndpoint(ctx context.Context, was, e Endpoint) error
	// RemoveEndpoint removes a tenant's endpoint and reports whether there was
	// one.
	RemoveEndpoint(ctx context.Context, tenant string) (bool, error)
	// NoteDelivery records whether a delivery to url succeeded, as [Endpoint.After]
	// decides by the store's clock, and returns the endpoint after it; ErrNoEndpoint if
	// there is none at url any more. It writes only if something changes.
	NoteDelivery(ctx context.Context, tenant, url string, ok bool, disableAfter time.Duration) (Endpoint, error)
}

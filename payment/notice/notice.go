// Package notice receives the webhooks of providers, and processes them.
package notice

import (
	"context"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// Status is the outcome of a notice. Stored; values never change.
type Status string

// The statuses.
const (
	Unprocessed Status = "UNPROCESSED"
	// ProcessedOK: its report was recorded, now or before.
	ProcessedOK Status = "PROCESSED_OK"
	// ProcessedCompensated: the money that it reports has been refunded.
	ProcessedCompensated Status = "PROCESSED_COMPENSATED"
	// Ignored: it concerns no claim.
	Ignored Status = "IGNORED"
)

// Notice is one event of a provider, as received.
type Notice struct {
	// ID is [ID]: unique within Region for as long as the row is kept.
	ID       string
	Region   string
	Provider string
	// Body is the raw body as stored: sealed if there are keys. It is empty once it has
	// been dropped, see [KeepBodyFor].
	Body []byte
	// ReceivedAt and ProcessedAt are the store's clock; ProcessedAt is zero while
	// Status is Unprocessed.
	ReceivedAt, ProcessedAt time.Time
	Status                  Status
	// Detail is one line about Status, for people.
	Detail string
	// TraceParent is the W3C trace context of its request, or "".
	TraceParent string
	// After is how long after it is kept its row is due, at most microseconds exact: as of
	// [psp.Notice].After. It is not stored.
	After time.Duration
}

// ID returns the id of a provider's event in the store.
func ID(provider, eventID string) string { return provider + ":" + eventID }

// TestID is the [ID] of an event that the provider of test tenants reports about one.
func TestID(tenant, event string) string { return ID(claim.TestProvider, tenant+"/"+event) }

// OfTests reports whether id is a [TestID].
func OfTests(id string) bool { return strings.HasPrefix(id, ID(claim.TestProvider, "")) }

// KeepFor is how long a notice is kept after it was received: longer than any provider
// repeats one (Stripe: three days).
const KeepFor = 35 * 24 * time.Hour

// KeepBodyFor is how long a body is kept after its notice was processed: long enough
// for an operator to look into it after a weekend and a holiday. Then housekeeping
// drops the body, and the row keeps only that the notice came, and its result. A notice
// that waits, or is parked, keeps its body.
const KeepBodyFor = 7 * 24 * time.Hour

// Store keeps notices. Its housekeeping drops bodies after KeepBodyFor and notices
// after KeepFor. Each Unprocessed notice has a row in outbox.Notices whose ID is the
// notice's, Operation its provider and Payload its body, due at once or After.
type Store interface {
	// Keep makes notices of region durable with their rows, in one step. It changes no notice
	// with an existing ID; fresh counts the others.
	Keep(ctx context.Context, region string, notices []Notice) (fresh int, err error)
	// Close sets status and detail of a notice and removes its row, in one step.
	// outbox.ErrFenced unless fence is the row's.
	Close(ctx context.Context, region, id string, fence uint64, status Status, detail string) error
	// CloseAll is Close of many notices of one region with the same status and detail, each of
	// which is named once. A notice whose row has another fence stays as it is, which is no error;
	// closed counts the others. After an error each may be closed or not.
	CloseAll(ctx context.Context, region string, rows []outbox.Hold, status Status, detail string) (closed int, err error)
	// Notice reads one.
	Notice(ctx context.Context, region, id string) (n Notice, found bool, err error)
	// Book books t, which a provider has reported, and enqueues its events, due at once
	// and all of one tenant and key, in one step. posted is false, and nothing is done,
	// if t is booked already: its events were made with it. ledger.ErrConflict as of
	// ledger.Store.Post.
	Book(ctx context.Context, t ledger.Transaction, events []outbox.Message) (posted bool, err error)
	// Waits returns the key of the latest of a tenant's events in [outbox.Events] whose ids begin with
	// events, "" if there is none. It may read all that waits of the tenant there.
	Waits(ctx context.Context, home, tenant, events string) (key string, err error)
	BrakeStore
}

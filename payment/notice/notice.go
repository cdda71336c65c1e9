// Package notice takes in what providers say unasked, and acts on it.
package notice

import (
	"context"
	"time"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// Status is the outcome of a notice. Stored; values never change.
type Status string

// The statuses.
const (
	Unprocessed Status = "UNPROCESSED"
	// ProcessedOK: what it says was known, or has been recorded.
	ProcessedOK Status = "PROCESSED_OK"
	// ProcessedCompensated: the money it tells of has been given back.
	ProcessedCompensated Status = "PROCESSED_COMPENSATED"
	// Ignored: it tells of nothing that concerns a claim.
	Ignored Status = "IGNORED"
)

// Notice is one event of a provider, as it came.
type Notice struct {
	// ID is [ID]: unique within Region for as long as the row is kept.
	ID       string
	Region   string
	Provider string
	// Body is the raw body, as a store is given it: sealed, where there are keys. It is
	// empty once it has been dropped, see [KeepBodyFor].
	Body []byte
	// ReceivedAt and ProcessedAt are the store's clock; ProcessedAt is zero while
	// Status is Unprocessed.
	ReceivedAt, ProcessedAt time.Time
	Status                  Status
	// Detail is one line about Status, for people.
	Detail string
	// TraceParent is the W3C context in which it came, or "".
	TraceParent string
}

// ID is how a provider's event is named here.
func ID(provider, eventID string) string { return provider + ":" + eventID }

// KeepFor is how long a notice is kept after it came: longer than any provider
// repeats one (Stripe: three days).
const KeepFor = 35 * 24 * time.Hour

// KeepBodyFor is how long a body is kept after its notice was acted on: long enough for
// a person to look into what was done, over a weekend and a holiday. Then housekeeping
// drops it, and the notice says only that it came, and what became of it. What is not
// acted on, as it waits or is parked for a person, keeps its body.
const KeepBodyFor = 7 * 24 * time.Hour

// Store keeps notices, and drops bodies that were kept for KeepBodyFor, and notices that
// were for KeepFor, by housekeeping. Each Unprocessed one has a row in outbox.Notices whose ID
// is the notice's, Operation its provider and Payload its body, due at once.
type Store interface {
	// Keep makes notices of region durable with their rows, in one step. Those
	// whose ID is there already are left as they are; fresh counts the others.
	Keep(ctx context.Context, region string, notices []Notice) (fresh int, err error)
	// Close sets status and detail of a notice and removes its row, in one step.
	// outbox.ErrFenced unless fence is the row's.
	Close(ctx context.Context, region, id string, fence uint64, status Status, detail string) error
	// Notice reads one.
	Notice(ctx context.Context, region, id string) (n Notice, found bool, err error)
	// Book books t, which a provider has reported, and enqueues its events, due at once and
	// all of one tenant and key, in one step. posted is false, and nothing is done, where t
	// is booked already: its events were made with it. ledger.ErrConflict as of
	// ledger.Store.Post.
	Book(ctx context.Context, t ledger.Transaction, events []outbox.Message) (posted bool, err error)
	BrakeStore
}

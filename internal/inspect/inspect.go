// Package inspect gathers the whole history of one key or object: its claim, its audit
// in every region, the provider's answers, its bookings, its queued rows, and one
// sentence that sums it up. The console, homeward inspect and homeward audit show use
// it.
//
// It reads rows with authority and changes none. A [History] has no body, secret,
// payer's data or provider key: every operator may see it.
//
// [History].Missing names what could not be read. An incomplete history may report that
// a row was not read, never that it does not exist.
package inspect

import (
	"errors"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// Errors of [Reader.Read]. Test with errors.Is.
var (
	// ErrNotFound: everything was read, and no row has the key or object.
	ErrNotFound = errors.New("inspect: not found")
	// ErrSeveral: the key is in use by several tenants; the error names them.
	ErrSeveral = errors.New("inspect: several tenants use the key")
)

// History is the history of one key. Times are the store's clock. It is plain data:
// homeward inspect --json prints its JSON, and members are only ever added.
type History struct {
	// Verdict is one sentence for people that sums the history up.
	Verdict string `json:"verdict"`
	// Next is the next safe action of an operator; "" if none is needed.
	Next   string `json:"next,omitempty"`
	Tenant string `json:"tenant"`
	Key    string `json:"key"`
	Object string `json:"object,omitempty"`
	// Home is the region that holds the key's rows; "" if no row names it.
	Home string `json:"home,omitempty"`
	// Stamped: the key names its home itself. Otherwise PinnedAt is when it got its home, zero once
	// the pin is deleted.
	Stamped  bool      `json:"stamped"`
	PinnedAt time.Time `json:"pinned_at,omitzero"`
	// Claim is the claim's row; nil if there is none.
	Claim *Claim `json:"claim,omitempty"`
	// Timeline is the audit in order. Truncated: older entries were not read.
	Timeline  []Entry `json:"timeline"`
	Truncated bool    `json:"truncated,omitempty"`
	// Attempts are the holders' attempts to call the provider, in order.
	Attempts []Attempt `json:"attempts"`
	// Replays counts the retries that got the stored answer, and Mismatches the
	// requests that differed from the first, both by the audit: up to a second of
	// replies may be missing.
	Replays    int `json:"replays"`
	Mismatches int `json:"mismatches"`
	// Deputies are regions that acted on the key while its home was lost.
	Deputies []string `json:"deputies,omitempty"`
	// Bookings are the transactions of the object, and those that reverse them.
	Bookings []Booking `json:"bookings"`
	// Waiting are the queued rows of the object.
	Waiting []Waiting `json:"waiting"`
	// TraceID is the trace id of the request that began the latest generation, in
	// hexadecimal, while a row has it.
	TraceID string `json:"trace_id,omitempty"`
	// Missing names what could not be read, and why.
	Missing []string `json:"missing,omitempty"`
}

// Claim is the row of a key, without its response.
type Claim struct {
	Operation string `json:"operation"`
	State     string `json:"state"`
	// Age is live, expired (a tombstone) or gone.
	Age        string `json:"age"`
	Fence      uint64 `json:"fence"`
	Generation uint32 `json:"generation"`
	Attempts   uint32 `json:"attempts"`
	Unknowns   uint32 `json:"unknowns"`
	// Holder is the node that may act until LeaseUntil; "" if the outbox owns the row: then
	// its worker may act from LeaseUntil on.
	Holder     string    `json:"holder,omitempty"`
	LeaseUntil time.Time `json:"lease_until,omitzero"`
	FirstUse   time.Time `json:"first_use"`
	SettledAt  time.Time `json:"settled_at,omitzero"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"`
	FreeAt     time.Time `json:"free_at,omitzero"`
	// WaitsFor is what the provider waits for, if it accepted the call and the payer, a
	// bank or a capture is next.
	WaitsFor string `json:"waits_for,omitempty"`
	// Reason is the decline code, or outcome_unknown.
	Reason string `json:"reason,omitempty"`
	// ProviderRef is the provider's own id of the movement.
	ProviderRef string `json:"provider_ref,omitempty"`
	// Reverses is the id of the charge that a merchant's refund gives back.
	Reverses string `json:"reverses,omitempty"`
	// Status is the HTTP status that retries read; 0 if there is no answer.
	Status int `json:"status,omitempty"`

	state claim.State
}

// Entry is one line of the timeline.
type Entry struct {
	At         time.Time   `json:"at"`
	Event      claim.Event `json:"event"`
	Region     string      `json:"region"`
	Node       string      `json:"node"`
	Fence      uint64      `json:"fence"`
	Generation uint32      `json:"generation"`
	Detail     string      `json:"detail,omitempty"`
	// Home is the region of its row or segment.
	Home string `json:"home"`
	// Segment is the name of its audit segment; "" for a row.
	Segment string `json:"segment,omitempty"`
}

// Attempt is one holder's try at the operation.
type Attempt struct {
	Generation uint32 `json:"generation"`
	Fence      uint64 `json:"fence"`
	Region     string `json:"region"`
	Node       string `json:"node"`
	// Began is when the holder got the claim, Ended when it recorded a verdict; zero if
	// it recorded none.
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
	// Outcome is done, refused, released or unknown; "" if none was recorded.
	Outcome string `json:"outcome,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Provider and ProviderRef name the movement.
	Provider    string `json:"provider,omitempty"`
	ProviderRef string `json:"provider_ref,omitempty"`
}

// Booking is a transaction of the books. Amount is in minor units.
type Booking struct {
	ID          string         `json:"id"`
	Kind        ledger.Kind    `json:"kind"`
	Region      string         `json:"region"`
	At          time.Time      `json:"at"`
	Debit       ledger.Account `json:"debit"`
	Credit      ledger.Account `json:"credit"`
	Amount      int64          `json:"amount"`
	Currency    string         `json:"currency"`
	Object      string         `json:"object"`
	Reverses    string         `json:"reverses,omitempty"`
	Provider    string         `json:"provider"`
	ProviderRef string         `json:"provider_ref"`
}

func bookingsOf(all []ledger.Transaction) []Booking {
	bookings := make([]Booking, 0, len(all))
	for i := range all {
		t := &all[i]
		bookings = append(bookings, Booking{
			ID: t.ID, Kind: t.Kind, Region: t.Region, At: t.At, Debit: t.Debit, Credit: t.Credit, Amount: t.Amount,
			Currency: t.Currency, Object: t.Object, Reverses: t.Reverses, Provider: t.Provider, ProviderRef: t.ProviderRef,
		})
	}
	return bookings
}

// Waiting is a row of a queue.
type Waiting struct {
	Queue    outbox.Queue `json:"queue"`
	ID       string       `json:"id"`
	Kind     outbox.Kind  `json:"kind"`
	Due      time.Time    `json:"due"`
	Attempts uint32       `json:"attempts"`
	// Parked rows wait for an operator; LastError is the reason.
	Parked    bool   `json:"parked"`
	LastError string `json:"last_error,omitempty"`
}

package claim

import (
	"time"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// Outcome is how an attempt ended: a [*Done], [*Refused], [*Released], [*Pending], [*Moved],
// or one of the unknowns, [*Unknown], [*Unsent] and [*Fault]. nil is an Unknown.
type Outcome interface {
	// String is the outcome's name in the audit: one of the constants below.
	String() string
	// answer returns the response and the events that o carries; nil if it has none.
	answer() (*Response, []outbox.Message)
	reason() string
}

// The names of outcomes, in the audit and in traces.
const (
	OutcomeUnknown  = "unknown"
	OutcomeDone     = "done"
	OutcomeRefused  = "refused"
	OutcomeReleased = "released"
	OutcomePending  = "pending"
	OutcomeMoved    = "moved"
)

// Each event of an outcome has ID, Kind and Payload; Settle sets the rest.
type (
	// Done: money moved.
	Done struct {
		Response    Response
		ProviderRef string
		// Posting books the money. Settle sets its Region and At. nil: nothing is booked.
		Posting *ledger.Transaction
		Events  []outbox.Message
	}
	// Refused: a definitive no that the key remembers.
	Refused struct {
		Response Response
		// Reason is the decline code.
		Reason      string
		ProviderRef string
		Events      []outbox.Message
		// Posting books money that moved all the same, before the key was canceled or beside
		// that, and Refund is the row of [outbox.Expiries] whose worker gives it back. Payload
		// and Due are set; Settle sets the rest of both, as of Done and Released. nil: none moved.
		Posting *ledger.Transaction
		Refund  *outbox.Message
	}
	// Released: a definitive no that the key forgets, unless it is the last generation's.
	Released struct {
		Response    Response
		Reason      string
		ProviderRef string
		Events      []outbox.Message
		// Pause is the least pause until the next generation, if that is longer than
		// DeclinePause.
		Pause time.Duration
		// Expiry closes the claim at Expiry.Due, after which its request is no longer
		// payable. Operation and Payload are set; Settle sets the rest. nil: the claim never
		// closes by itself.
		Expiry *outbox.Message
	}
	// Pending: the provider accepted the call and waits for the payer or for a bank. No
	// money has moved yet as far as the provider reports, and it may still move.
	Pending struct {
		// Response is the interim answer. State is what the claim waits for, and By the
		// capture or cancellation under way, see [Interim]. If the claim already has both,
		// its answer does not change and no event is emitted.
		Response    Response
		State, By   string
		ProviderRef string
		Events      []outbox.Message
		// AskIn is when to ask again.
		AskIn time.Duration
	}
	// Moved: a definitive no of this provider alone; the claim moves to the provider Next.
	// Only possible while a generation remains.
	Moved struct {
		Next   string
		Reason string
	}
	// Unknown: money may have moved.
	Unknown struct {
		Reason string
		// NotFound: the provider answered the look-up with "not found".
		NotFound bool
		// RetryIn is the earliest useful next attempt; zero leaves it to the back-off.
		RetryIn time.Duration
		// GiveUp ends the claim if this unknown is the last one that MaxUnknowns allows. nil:
		// MaxUnknowns does not apply.
		GiveUp *GivenUp
	}
	// Unsent: nothing was sent to the provider, so the attempt does not count, and the
	// outcome of earlier ones stays unknown.
	Unsent struct {
		Reason string
		// NotFound: nothing was sent in any attempt of this generation, which counts as a look-up
		// that found nothing: [Record].NotFounds is then above 0 until an attempt may have called.
		NotFound bool
		RetryIn  time.Duration
	}
	// Fault: our own code failed, perhaps after it had called the provider. An earlier
	// answer of the provider may be out of date, and MaxUnknowns does not end the claim.
	Fault struct {
		Reason  string
		RetryIn time.Duration
	}
)

// GivenUp is the final answer of a claim with an outcome that stays unknown.
type GivenUp struct {
	Response Response
	Events   []outbox.Message
}

// Verdict is an outcome as Settle records it.
type Verdict struct {
	// ID identifies the verdict in retries of Settle. Zero: the verdict is never
	// retried.
	ID      uuid.UUID
	Outcome Outcome
	// MadeAt is when its holder made it, by that process's clock: before every try of Settle.
	// What a deadline counts from the first try counts from here.
	MadeAt time.Time
	// Node and Region identify the maker of the attempt, for the audit.
	Node, Region string
}

// outcome is v.Outcome, which may be nil.
func (v *Verdict) outcome() Outcome {
	if v.Outcome == nil {
		return &Unknown{}
	}
	return v.Outcome
}

// Events are those that v emits, if its outcome ends the claim or changes its interim
// answer.
func (v *Verdict) Events() []outbox.Message {
	_, events := v.outcome().answer()
	return events
}

func (*Done) String() string     { return OutcomeDone }
func (*Refused) String() string  { return OutcomeRefused }
func (*Released) String() string { return OutcomeReleased }
func (*Pending) String() string  { return OutcomePending }
func (*Moved) String() string    { return OutcomeMoved }
func (*Unknown) String() string  { return OutcomeUnknown }
func (*Unsent) String() string   { return OutcomeUnknown }
func (*Fault) String() string    { return OutcomeUnknown }

func (o *Done) answer() (*Response, []outbox.Message)     { return &o.Response, o.Events }
func (o *Refused) answer() (*Response, []outbox.Message)  { return &o.Response, o.Events }
func (o *Released) answer() (*Response, []outbox.Message) { return &o.Response, o.Events }
func (o *Pending) answer() (*Response, []outbox.Message)  { return &o.Response, o.Events }
func (*Moved) answer() (*Response, []outbox.Message)      { return nil, nil }
func (*Unsent) answer() (*Response, []outbox.Message)     { return nil, nil }
func (*Fault) answer() (*Response, []outbox.Message)      { return nil, nil }
func (o *Unknown) answer() (*Response, []outbox.Message) {
	if o.GiveUp == nil {
		return nil, nil
	}
	return &o.GiveUp.Response, o.GiveUp.Events
}

func (*Done) reason() string       { return "" }
func (o *Refused) reason() string  { return o.Reason }
func (o *Released) reason() string { return o.Reason }
func (o *Pending) reason() string  { return o.State }
func (o *Moved) reason() string    { return o.Reason }
func (o *Unknown) reason() string  { return o.Reason }
func (o *Unsent) reason() string   { return o.Reason }
func (o *Fault) reason() string    { return o.Reason }

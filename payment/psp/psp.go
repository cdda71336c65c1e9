// Package psp is the contract between Homeward and the payment providers that
// move money for it.
//
// A call to a provider has three outcomes, never two. [Approved] and
// [Declined] are things the provider said. [Unknown] is everything else: a
// time-out, a lost connection, a 5xx. The zero [Outcome] is Unknown, so an
// adapter that forgets to decide has not decided.
//
// What a provider says unasked comes as a [Notice], from one that is a [Notifier].
//
// Adapters never retry on their own. The claim above decides whether a second
// call is safe, which depends on [Capabilities]; an adapter that retried would
// hide an attempt from the audit.
package psp

import (
	"context"
	"fmt"
	"time"
)

// Outcome is what is known about a provider call.
type Outcome uint8

const (
	// Unknown: the call may or may not have moved money.
	Unknown Outcome = iota
	// Approved: the provider says that money moved.
	Approved
	// Declined: the provider says that no money moved, see [Result.Decline].
	Declined
)

func (o Outcome) String() string {
	switch o {
	case Approved:
		return "approved"
	case Declined:
		return "declined"
	default:
		return "unknown"
	}
}

// Class says what a decline means for the key that carried it.
type Class uint8

const (
	// Soft: true now, perhaps not later (insufficient funds). The key is released.
	Soft Class = iota + 1
	// Hard: true for ever (stolen card). The key remembers it.
	Hard
	// Invalid: the provider refused the request itself (unknown token). Nothing
	// happened, and the key is released, because the fault may be the provider's.
	Invalid
)

func (c Class) String() string {
	switch c {
	case Soft:
		return "soft"
	case Hard:
		return "hard"
	case Invalid:
		return "invalid"
	default:
		return fmt.Sprintf("class(%d)", uint8(c))
	}
}

// Decline is a provider's definitive no.
type Decline struct {
	Class Class
	// Code is the provider-neutral reason, lower snake case: "insufficient_funds".
	Code string
	// Message is one sentence that may be shown to the merchant.
	Message string
}

// Kind names a movement of money.
type Kind string

// The movements that a [Provider] can make.
const (
	KindCharge   Kind = "charge"
	KindTransfer Kind = "transfer"
	KindRefund   Kind = "refund"
)

// Call is one attempt to move money.
type Call struct {
	Kind Kind
	// Key is the provider key: what the provider dedupes on. The same Key is
	// only ever sent with the same parameters.
	Key string
	// Reference is our own id of the object (ch_…), stored by the provider and
	// searchable with [Provider.Lookup]. Unique per object.
	Reference string
	// Amount is in minor units of Currency, > 0.
	Amount int64
	// Currency is an ISO 4217 code in lower case.
	Currency string
	// Source is the payment method token of a charge, the destination of a
	// transfer, the provider's reference of the charge for a refund.
	Source string
	// Description is optional text for the payer's statement.
	Description string
}

// Result is what came of a [Call] or a look-up.
type Result struct {
	Outcome Outcome
	// ProviderRef is the provider's own id of the movement. Set when Approved.
	ProviderRef string
	// Decline is set when Outcome is Declined, nil otherwise.
	Decline *Decline
	// Err says why the outcome is Unknown, for the log and the audit. It is never
	// shown to the merchant and, but for a [NotSentError], never decides anything.
	Err error
}

// NotSentError is in the Err of an Unknown result, or of a look-up without an
// answer, when the request certainly never left: this call has moved no money.
// Whoever returns it is sure; a connection that broke is no proof.
type NotSentError struct {
	// RetryIn is when the next try is useful.
	RetryIn time.Duration
	// Reason is one line for the log.
	Reason string
}

func (e *NotSentError) Error() string { return "nothing was sent: " + e.Reason }

// Found is a provider's answer to "do you know this reference?".
type Found uint8

const (
	// FoundUnknown: the question itself got no answer.
	FoundUnknown Found = iota
	// FoundYes: the provider knows the reference; the Result is its outcome.
	FoundYes
	// FoundNo: the provider has nothing under the reference *now*. A call still
	// on its way may yet arrive, so this alone never permits a second call to a
	// provider that does not dedupe.
	FoundNo
)

// Dedupe is what a provider does with a key it has seen.
type Dedupe uint8

const (
	// DedupeNone: a second call moves money a second time.
	DedupeNone Dedupe = iota
	// DedupeKey: a second call with the key answers with the first result.
	DedupeKey
	// DedupeKeyAndParameters: as DedupeKey, and changed parameters are refused.
	DedupeKeyAndParameters
)

// Capabilities is what an adapter declares about its provider.
type Capabilities struct {
	Dedupe Dedupe
	// Lookup: the provider can be asked by our Reference.
	Lookup bool
	// Blind: the provider shows no movement by its own id, so that nothing can be
	// proved with [Provider.Show].
	Blind bool
	// Timeout bounds one call. It must exceed the provider's slowest healthy
	// answer: a shorter one turns healthy charges into unknown ones.
	Timeout time.Duration
	// SettleWindow is how long after a call a look-up may still miss it. Required
	// where Dedupe is DedupeNone; elsewhere 0 means Timeout.
	SettleWindow time.Duration
}

// Provider moves money. Implementations are safe for concurrent use and return
// promptly once ctx is done, with Outcome Unknown.
type Provider interface {
	// Name is a stable lower-case identifier, used in records and metrics.
	Name() string
	Capabilities() Capabilities
	// Charge, Transfer and Refund make one attempt each. call.Kind is ignored:
	// the method names the movement.
	Charge(ctx context.Context, call Call) Result
	Transfer(ctx context.Context, call Call) Result
	Refund(ctx context.Context, call Call) Result
	// Lookup asks what became of the movement with our reference. Several
	// attempts may stand under one reference, each with its own key; if any of
	// them was approved the answer is that approval, whatever declines came
	// before or after it: a decline would let the money move again.
	Lookup(ctx context.Context, kind Kind, reference string) (Found, Result)
	// Show asks for the movement that the provider knows by its own id, as it stands
	// now. reference is ours, for a provider that wants it too; whether the movement
	// has it is the caller's to look at. An error comes with FoundUnknown alone.
	Show(ctx context.Context, kind Kind, reference, providerRef string) (Found, Movement, error)
}

// Movement is what a provider shows of one.
type Movement struct {
	// ProviderRef is the provider's own id of it, Reference ours, "" for none.
	ProviderRef, Reference string
	// Amount is in minor units of Currency.
	Amount   int64
	Currency string
	// Outcome is Declined where it never succeeded, or has failed since.
	Outcome Outcome
}

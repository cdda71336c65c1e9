// Package psp is the contract between Homeward and the payment providers that
// move money for it.
//
// A call to a provider has three outcomes, never two. [Approved] and [Declined] are
// answers of the provider. [Unknown] is everything else: a time-out, a lost connection,
// a 5xx. The zero [Outcome] is Unknown, so an adapter that forgets to set an outcome
// returns Unknown.
//
// Two more answers are not final: [Pending] if the provider has the call and waits for
// the payer or for a bank, and [Authorized] if it holds the money until a capture.
//
// A provider that is a [Notifier] also reports by webhook, as a [Notice].
//
// Adapters never retry on their own. The claim above decides whether a second
// call is safe, which depends on [Capabilities]; an adapter that retried would
// hide an attempt from the audit.
package psp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Outcome is the outcome of a provider call.
type Outcome uint8

const (
	// Unknown: the call may or may not have moved money.
	Unknown Outcome = iota
	// Approved: the provider reports that money moved.
	Approved
	// Declined: the provider reports that no money moved, see [Result.Decline].
	Declined
	// Pending: the provider has the call and has not decided, see [Result.Wait]. The
	// executor asks for it under its own reference, and never sends the call anew.
	Pending
	// Authorized: the provider holds the money of a charge with Terms.Manual. None moves
	// before [Provider.Capture].
	Authorized
)

func (o Outcome) String() string {
	switch o {
	case Approved:
		return "approved"
	case Declined:
		return "declined"
	case Pending:
		return "pending"
	case Authorized:
		return "authorized"
	default:
		return "unknown"
	}
}

// Class is the meaning of a decline for its key.
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
	// Member is the member of the merchant's request that is at fault, if the provider names it:
	// "amount". Of an Invalid decline only.
	Member string
	// RetryIn is how long the provider, or the payer's bank, asks to wait before the
	// same payment is retried; 0 if it does not say. Of a Soft decline only.
	RetryIn time.Duration
}

// State is what a pending payment waits for. The values are shown to merchants.
type State string

const (
	// RequiresAction: the payer has to do something, as a rule authenticate.
	RequiresAction State = "requires_action"
	// Processing: the payment method takes its time, as bank debits do for days.
	Processing State = "processing"
)

// Wait describes what a Pending payment waits for.
type Wait struct {
	State State
	// ClientSecret is what the merchant's page needs to continue the payment; "" if the
	// provider has none.
	ClientSecret string
	// NextAction is a JSON object, in the provider's own format, of what the payer has
	// to do; nil if there is nothing to do.
	NextAction json.RawMessage
}

// Kind names a movement of money.
type Kind string

// The movements that a [Provider] can make, and what can be done to a charge that is
// authorized.
const (
	KindCharge   Kind = "charge"
	KindTransfer Kind = "transfer"
	KindRefund   Kind = "refund"
	KindCapture  Kind = "capture"
	KindCancel   Kind = "cancel"
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
	// Of is our own id of the charge that a capture, a cancellation or a merchant's refund is about.
	Of string
	// Amount is in minor units of Currency, > 0.
	Amount int64
	// Currency is an ISO 4217 code in lower case.
	Currency string
	// Source is the payment method token of a charge, the destination of a transfer, or
	// the provider's reference of the charge for all else.
	Source string
	// Description is optional text for the payer's statement.
	Description string
	// Again is the provider's own id of a charge under the same Reference that it has
	// declined for now. A provider that can retries that charge, under Key, instead of
	// making another. "": there is none.
	Again string
	// Terms is what else the merchant asks for; nil for nothing.
	Terms *Terms
	// Tenant is whose movement it is, for the provider of test tenants alone; "" for a live one, of
	// which a provider learns nothing.
	Tenant string
	// Home is the home region of the claim, the same in every attempt, whichever node makes it. A
	// provider that has a key only at the endpoint that received it is called there, see
	// [Capabilities].RegionalKeys.
	Home string
}

// Terms is what a merchant may request for a charge, and partly for a transfer, beside
// its amount. An adapter refuses, as [Invalid] and before it sends anything, what its
// provider cannot do.
type Terms struct {
	// Customer is the provider's own id of the payer who saved the method Source.
	Customer string
	// OnSession: the payer is present and can be asked to act. Without it a payment
	// that would need the payer is declined.
	OnSession bool
	// SetupFutureUsage keeps the payment method: "on_session", "off_session" or "".
	SetupFutureUsage string
	// StatementSuffix is the end of the text on the payer's statement.
	StatementSuffix string
	// ReturnURL is the page that the payer returns to.
	ReturnURL string
	// Manual: the money is held, and moves when it is captured.
	Manual bool
	// Account is the connected account that makes the call. OnBehalfOf is
	// the one that is the merchant of record, TransferTo the one that gets
	// TransferAmount of the charge, or all of it if that is 0. ApplicationFee is what
	// the platform keeps. Amounts are in minor units of the call's currency.
	Account, OnBehalfOf, TransferTo string
	TransferAmount, ApplicationFee  int64
	// OrderID and Metadata are the merchant's own, to be found at the provider: JSON, a
	// string and an object of strings, nil for none. See [Terms.Own], which reads them:
	// most providers keep neither.
	OrderID, Metadata json.RawMessage
}

// Own reads the merchant's own data. It is "" and nil if there is none.
func (t *Terms) Own() (orderID string, metadata map[string]string) {
	if t == nil {
		return "", nil
	}
	// The maker of t has checked both.
	if t.OrderID != nil {
		_ = json.Unmarshal(t.OrderID, &orderID)
	}
	if t.Metadata != nil {
		_ = json.Unmarshal(t.Metadata, &metadata)
	}
	return orderID, metadata
}

// Special returns the first member of t, as merchants spell it, that not every provider has; "" for
// none. The others can be ignored: the merchant's own data, and OnSession.
func (t *Terms) Special() string {
	switch {
	case t == nil:
		return ""
	case t.Manual:
		return "capture_method"
	case t.Customer != "":
		return "customer"
	case t.SetupFutureUsage != "":
		return "setup_future_usage"
	case t.StatementSuffix != "":
		return "statement_descriptor_suffix"
	case t.Account != "":
		return "account"
	case t.OnBehalfOf != "":
		return "on_behalf_of"
	case t.TransferTo != "":
		return "transfer_data"
	case t.ApplicationFee != 0:
		return "application_fee_amount"
	default:
		return ""
	}
}

// Result is the result of a [Call] or a look-up.
type Result struct {
	Outcome Outcome
	// ProviderRef is the provider's own id of the movement. Set when Approved,
	// Authorized or Pending. Set when Declined if the same charge can be retried, see
	// [Call.Again].
	ProviderRef string
	// Decline is set when Outcome is Declined, nil otherwise.
	Decline *Decline
	// Wait is set when Outcome is Pending, nil otherwise.
	Wait *Wait
	// Err is why the outcome is Unknown, for the log and the audit. It is never shown
	// to the merchant and, but for a [NotSentError] and [ErrKeyReused], never decides
	// anything.
	Err error
}

// NotSentError is in the Err of an Unknown result, or of a look-up without an answer,
// if the request certainly was not sent: this call has moved no money. A broken
// connection is no proof.
type NotSentError struct {
	// RetryIn is when the next try is useful.
	RetryIn time.Duration
	// Reason is one line for the log.
	Reason string
}

func (e *NotSentError) Error() string { return "nothing was sent: " + e.Reason }

// AccountPrefix is how the ids of connected accounts begin.
const AccountPrefix = "acct_"

// AccountOf returns the account at the provider, not ours, that a movement lies in; ""
// is ours. An adapter that can move money in others' accounts spells a ProviderRef as
// the movement's id, "@" and the account ([InAccount]). The books use the same spelling
// (ledger.Where).
func AccountOf(providerRef string) string {
	if i := strings.LastIndex(providerRef, "@"+AccountPrefix); i >= 0 {
		return providerRef[i+1:]
	}
	return "" // an id that has an '@' of its own
}

// InAccount returns the name of id in an account; account "" is ours.
func InAccount(id, account string) string {
	if account == "" || id == "" {
		return id
	}
	return id + "@" + account
}

// ErrKeyReused is in the Err of an Unknown result if the provider got [Call.Key] in a call with
// other parameters, as another version of this program may have sent them. This call has done
// nothing. Only a look-up finds out about the first one: the provider answers a repeat so for as
// long as it remembers the key.
var ErrKeyReused = errors.New("the provider has seen the key with other parameters")

// Found is a provider's answer to "do you have this reference?".
type Found uint8

const (
	// FoundUnknown: the look-up itself got no answer.
	FoundUnknown Found = iota
	// FoundYes: the provider has the reference; the Result is its outcome.
	FoundYes
	// FoundNo: the provider has nothing under the reference *now*. A call still
	// on its way may yet arrive, so this alone never permits a second call to a
	// provider that does not dedupe.
	FoundNo
)

// DefaultKeyLife is the shortest promise to remember a key among providers in use
// (Stripe).
const DefaultKeyLife = 24 * time.Hour

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
	// KeyLife is how long the provider remembers a key at least; 0 means [DefaultKeyLife].
	// After it a second call may move money a second time.
	KeyLife time.Duration
	// RegionalKeys: the provider has endpoints that do not share keys. The adapter sends all calls
	// of one [Call.Home] to one endpoint. So the endpoint of a home must not change while a key
	// that was sent there may be sent again.
	RegionalKeys bool
	// NoTransfers: the provider makes no transfers. [Provider.Transfer] refuses each as
	// Invalid, and sends nothing.
	NoTransfers bool
	// Lookup: the provider answers look-ups by our Reference.
	Lookup bool
	// Blind: the provider shows no movement by its own id, so that [Provider.Show]
	// proves nothing. Only a [Notice] settles what a Blind provider without Lookup
	// leaves Pending.
	Blind bool
	// Asynchronous: the provider answers each request for a refund, a capture or a
	// cancellation with Pending, and a [Notice] reports its result.
	Asynchronous bool
	// Captures: the provider has Terms.Manual, Capture and Cancel.
	Captures bool
	// Timeout bounds one call. It must exceed the provider's slowest healthy
	// answer: a shorter one turns healthy charges into unknown ones.
	Timeout time.Duration
	// SettleWindow is how long after a call a look-up may still miss it. Required if
	// Dedupe is DedupeNone; otherwise 0 means Timeout.
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
	// Capture moves the money of the authorized charge that call.Source names, as much
	// of it as call.Amount says; the provider releases the rest. Approved has the
	// charge's own ProviderRef.
	Capture(ctx context.Context, call Call) Result
	// Cancel ends the charge that call.Source names, which is authorized or pending. Approved means
	// that its money cannot move any more. Declined: the money has moved.
	Cancel(ctx context.Context, call Call) Result
	// Lookup returns the outcome of the movement with call's Kind and Reference, which
	// are set. Key, Amount, Currency, Source, Again and Terms are set if the call had
	// them. A capture or a cancellation is looked up by Source, and is FoundNo while
	// the charge is neither captured nor canceled. Several attempts may exist under one
	// reference, each with its own key. If any of them was approved, Lookup returns
	// that approval, whatever declines came before or after it: a decline would let the
	// money move again. A movement of another Amount or Currency is FoundUnknown.
	Lookup(ctx context.Context, call Call) (Found, Result)
	// Show returns the present state of the movement with the provider's own id.
	// reference is ours, for a provider that needs it too; the caller checks whether
	// the movement has it. An error comes with FoundUnknown alone.
	Show(ctx context.Context, kind Kind, reference, providerRef string) (Found, Movement, error)
}

// Movement is a movement as a provider shows it.
type Movement struct {
	// ProviderRef is the provider's own id of it, Reference ours, "" for none.
	ProviderRef, Reference string
	// Amount is in minor units of Currency.
	Amount   int64
	Currency string
	// Outcome is Declined if it never succeeded, or has failed since.
	Outcome Outcome
	// Disputed is how much of a charge its payer disputes, or has back by a dispute, from its
	// opening until it is won. A provider that refunds disputed money has to show it, or the payer
	// gets that twice where a dispute is not booked yet; one that refuses to need not.
	Disputed int64
	// Decline and Wait are as in a [Result].
	Decline *Decline
	Wait    *Wait
}

// NoCapture is embedded by providers without Capabilities.Captures.
type NoCapture struct{}

// Capture implements [Provider]. It sends nothing.
func (NoCapture) Capture(context.Context, Call) Result { return noCapture() }

// Cancel implements [Provider]. It sends nothing.
func (NoCapture) Cancel(context.Context, Call) Result { return noCapture() }

func noCapture() Result {
	return Result{Outcome: Declined, Decline: &Decline{Class: Invalid, Code: "capture_unsupported", Message: "This provider cannot hold a charge for a later capture."}}
}

package psp

import (
	"errors"
	"net/http"
	"time"
)

// Notice is what a provider reports in a webhook.
type Notice struct {
	// ID is the provider's id of the event, the same each time it is sent.
	ID string
	// Movement reports whether the event has the outcome of a movement that we
	// requested. If it is false, nothing below but At and Unasked need be set, and
	// without Unasked nothing follows from the notice.
	Movement bool
	Kind     Kind
	// Reference is our own id of the object, [Call.Reference].
	Reference string
	// ProviderRef is the provider's own id of the movement. Set when Approved or Authorized, and when
	// Declined if the event names the movement that failed: if that had succeeded
	// before, by the books, its money is back.
	ProviderRef string
	// Key is the provider key under which the movement was requested, if the event repeats it: the
	// owner of another account does not have it.
	Key string
	// Outcome is Unknown while the provider has not decided.
	Outcome Outcome
	// Never: the event reports that a Declined movement was not made, and never had been. Without
	// it the movement may have succeeded and failed since. It settles a pending movement at a
	// provider without look-ups.
	Never bool
	// Decline is set when Outcome is Declined, nil otherwise.
	Decline *Decline
	// Held: it is about a charge with Terms.Manual. Authorized means that its money is
	// held, Approved that Amount of it was captured, and Declined that it was released, with
	// [CodeLapsed] what of it was not captured. Order is our id of the capture or cancellation
	// that it answers, "" for none; with Authorized that order had no effect.
	Held  bool
	Order string
	// Amount is in minor units of Currency, an ISO 4217 code in lower case.
	Amount   int64
	Currency string
	// Unasked is the movement that we did not request; then Movement is false. Or it is what became of
	// a charge with Held that was released, if its money had been captured before.
	Unasked []Unasked
	// At is when the event happened by the provider's clock, in UTC.
	At time.Time
	// After is how long after it was kept it takes effect, and happened: a report of what is yet to
	// come, which the provider of test tenants makes, and no other.
	After time.Duration
}

// CodeLapsed is the code of a notice that an authorization has expired: what was not captured of it
// cannot be any more. If nothing was, that is all of it.
const CodeLapsed = "authorization_expired"

// Why a [Notifier] refuses a notice. Errors wrap one of them and are one line that may
// be shown to the sender: none repeats the body.
var (
	// ErrForged: it has no valid signature.
	ErrForged = errors.New("the webhook's signature does not match: check the signing secret on both sides")
	// ErrStale: it was signed too long ago, or too far ahead, and may be replayed.
	ErrStale = errors.New("the webhook was signed outside the tolerance window: check both clocks")
	// ErrMalformed: it does not parse.
	ErrMalformed = errors.New("the webhook is malformed")
	// ErrUnchecked: there is no secret to verify it with. It may be genuine, and can be
	// sent again once there is one.
	ErrUnchecked = errors.New("webhooks cannot be verified here now")
)

// NoticeTolerance is how old the signature of a notice may be, and, if the scheme
// allows, how far ahead: the five minutes that Standard Webhooks and Stripe use by
// default. Providers sign each delivery anew, so a late or repeated one is within it.
const NoticeTolerance = 5 * time.Minute

// MaxNotice bounds a notice's body in bytes: the largest known event of a provider (Stripe) has
// some tens of kilobytes.
const MaxNotice = 256 << 10

// Notifier is a [Provider] that sends notices. All methods are pure, and safe
// for concurrent use.
type Notifier interface {
	// Signed reports whether a notice with this header may be signed, before its body is
	// read: the header has what Verify needs, in its form. It is true where the signature
	// is in the body.
	Signed(header http.Header) bool
	// Verify checks that a notice received at now is the provider's, and returns the id
	// of its event. Errors wrap [ErrForged], [ErrStale], [ErrMalformed] or
	// [ErrUnchecked].
	Verify(header http.Header, body []byte, now time.Time) (eventID string, err error)
	// Read parses a verified body. An event of an unrelated kind is a Notice without
	// Movement and no error. Errors wrap [ErrMalformed].
	Read(body []byte) (Notice, error)
}

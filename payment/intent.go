package payment

import (
	"fmt"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/psp"
)

// Operation names a movement of money. The values are stored in claims and outbox
// rows and never change.
type Operation string

// The operations that a merchant can ask for.
const (
	Charge   Operation = "charge"
	Transfer Operation = "transfer"
	Refund   Operation = "refund"
)

// Capture takes the money that a charge holds, and Cancel lets it go, or ends a charge that waits
// for its payer. Each is a claim of its own, and neither books anything: the charge's own claim
// records the result.
const (
	Capture Operation = "capture"
	Cancel  Operation = "cancel"
)

// CancelKey is the operation of a key that was given up before it was used. It moves no money, and its
// object is none that can be read.
const CancelKey Operation = claim.CancelKey

// Compensation is the refund of a charge that no merchant requested, or still wants. Homeward alone
// requests it. To the merchant its object is a refund.
const Compensation Operation = "compensation"

// Limits of a request. Text is counted in characters (code points), unescaped.
const (
	// MaxAmount is the largest amount, in minor units: the 12 digits that card
	// networks carry (ISO 8583, data element 4). It is far below 2^53, so that no
	// JSON client rounds it.
	MaxAmount = 999_999_999_999
	// MaxToken is the longest payment_method or destination. Provider tokens have
	// some 30 characters; 255 is what providers reserve.
	MaxToken = 255
	// MaxDescription is the longest description: what providers keep.
	MaxDescription = 1000
	// MaxOrderID is the longest order_id, which has to fit an index entry.
	MaxOrderID = 200
	// MaxMetadataEntries, MaxMetadataName and MaxMetadataValue bound metadata as Stripe
	// does, names and values in characters: each step of a claim stores or sends a copy.
	MaxMetadataEntries = 50
	MaxMetadataName    = 40
	MaxMetadataValue   = 500
	// MaxReason is the longest reason of a refund: a sentence or two for the
	// merchant's own books.
	MaxReason = 500
	// MaxProviderRef is the longest reference of a provider, in bytes.
	MaxProviderRef = psp.MaxRef
)

// Intent is a parsed request. The zero value is invalid. It keeps slices of the
// payload it was parsed from, which must not be written to afterwards.
type Intent struct {
	Operation Operation
	// Amount is in minor units of Currency, 1 to [MaxAmount]. As parsed it is 0 for
	// a refund or capture of the whole charge, and for a cancellation.
	Amount int64
	// Currency is an ISO 4217 code in lower case. A refund has its charge's, and as
	// parsed none.
	Currency string
	// Source is the payment method of a charge, the destination of a transfer, or the
	// provider's reference of the movement that a compensation refunds. A refund has
	// its charge's reference, and as parsed none.
	Source string
	// FailedBefore counts refunds of a compensation's movement that were booked and have
	// failed since.
	FailedBefore int
	// Charge is the id of the charge to refund, compensate, capture or cancel.
	Charge string
	// Provider names the provider of a charge or transfer; "": the tenant's routes or
	// the deployment decide.
	Provider string
	// ExpiresAt is when the operation stops being payable; zero for never.
	ExpiresAt time.Time

	// The caller's own spelling of optional members, canonical JSON, nil if absent: the
	// answer repeats it byte for byte.
	description, orderID, metadata, expiresAt, reason []byte
	// ofStripe: Amount is in Stripe's units, see [InStripesUnits].
	ofStripe bool
	terms    terms
	// captured is the captured amount of a charge that held its money; 0 for any other.
	captured int64
	// test: it is of a test tenant.
	test bool
}

// Description and OrderID are "" if the caller sent none. They are decoded on demand:
// most callers never read them.
func (in *Intent) Description() string { return spelled(in.description) }
func (in *Intent) OrderID() string     { return spelled(in.orderID) }

func spelled(raw []byte) string {
	s, _ := text(raw) // an absent member is none
	return s
}

// GivesBack reports whether op refunds a charge.
func (op Operation) GivesBack() bool { return op == Refund || op == Compensation }

// Orders reports whether op acts on a charge before its money has moved.
func (op Operation) Orders() bool { return op == Capture || op == Cancel }

// Expired reports whether the intent must no longer be paid at now.
func (in *Intent) Expired(now time.Time) bool {
	return !in.ExpiresAt.IsZero() && !now.Before(in.ExpiresAt)
}

// InvalidError names the invalid member of a request. It never repeats a value: that
// might be a card number.
type InvalidError struct {
	// Member is the path of the member: "amount", "metadata.color"; empty when
	// the body as a whole is wrong.
	Member string
	// Reason is one line that says what the member must be.
	Reason string
}

func (e *InvalidError) Error() string {
	if e.Member == "" {
		return "request body: " + e.Reason
	}
	return "member " + e.Member + ": " + e.Reason
}

func invalid(member, format string, args ...any) error {
	return &InvalidError{Member: member, Reason: fmt.Sprintf(format, args...)}
}

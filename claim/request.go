package claim

import (
	"errors"
	"fmt"
	"time"
)

// Request is one merchant request, checked and canonical, on its way to its
// key's home.
type Request struct {
	Key       Key
	Operation string
	// Provider names the provider of a new claim or generation. The entry chooses it,
	// unless the request names it. "": the default of the home's nodes.
	Provider string
	// Input holds the canonical body.
	Input FingerprintInput
	// Payload is what the executor gets, in this process or when it recovers the claim; empty: the
	// canonical body.
	Payload []byte
	// Reverses is [Record.Reverses] of a new claim.
	Reverses string
	// Unstored is what the executor gets beside Payload, in the attempt that this request makes: no
	// store keeps it, and a worker that recovers the claim has Payload alone. nil: nothing.
	Unstored []byte
	// Also is the fingerprint of the same request in another spelling, which an earlier
	// try may have used; zero for none. It is only compared: a claim keeps the spelling
	// that was sent to its provider.
	Also Fingerprint
	// CompareOnly: the request may read the outcome of an earlier try but must not
	// begin anything. It makes no claim, no pin and no generation; it fails with
	// [ErrNoClaim] instead.
	CompareOnly bool
	// Stamp is the region code that [ReadStamp] returns for Key, read once, by the
	// code that makes the Request; 0 for an opaque key. For an opaque key PinnedAt is
	// the time of the pin that names the home, zero if none has been read.
	Stamp    RegionCode
	PinnedAt time.Time
	// PreferHome is the preferred home of an opaque key that has none, if that
	// region takes new homes; 0 prefers the entry region. Only the entry reads it,
	// or a deputy in its place; it is not forwarded home.
	PreferHome RegionCode
	// PinHere is [Route.PinHere]. Only the entry reads it; it is not forwarded.
	PinHere bool
	// TraceParent is the W3C trace context of the entry, or "".
	TraceParent string
	// Began is when the request arrived at its entry, by this process's clock; it
	// may be earlier, never later. Zero: now.
	Began time.Time
}

// UnderWay returns how long ago req began, by whichever local clock shows more. The monotonic
// clock stops while the machine sleeps, and a request that slept through a release must not begin
// the next generation: its caller has gone. A wall clock that is set forward makes req older than
// it is. If that is by more than DeclinePause, req may read the refusal of the last generation
// while the next is in flight; a retry reads the outcome.
func (req *Request) UnderWay() time.Duration { return req.underWay(time.Now()) }

func (req *Request) underWay(now time.Time) time.Duration {
	if req.Began.IsZero() {
		return 0
	}
	return max(now.Sub(req.Began), now.Round(0).Sub(req.Began.Round(0)))
}

// Reply is the answer to a [Request] that reached its claim. With an error, too, Home
// is set, and FirstUse and ExpiresAt if the claim was read.
type Reply struct {
	Response Response
	Home     string
	State    State
	// Replayed: the response was made by another request.
	Replayed bool
	FirstUse time.Time
	// ExpiresAt is until when the key answers as it does now: the end of the replay
	// window, see [Record.ExpiresAt], or after that the end of the tombstone.
	ExpiresAt time.Time
	// ServedBy is the region of the answering node; Hops how many forwards it took.
	ServedBy string
	Hops     int
	// Way is how the request was answered, a Way of package span, as the entry's router saw it.
	// Away is the time that it waited for others, as far as this region measured it: for the
	// provider, for a rival, or for a forward to another region. Neither is forwarded.
	Way  string
	Away time.Duration
}

// The ways in which a request that reached its claim gets no response of its
// own. Each but ErrNoClaim, which the entry makes, is carried between regions without
// loss: a new one needs a kind in peer.proto, a case in each half of region/errors.go and
// one in internal/httpapi/errors.go.
var (
	// ErrMismatch: the key belongs to another request.
	ErrMismatch = errors.New("claim: the key was first used with a different request")
	// ErrNeedPin: no claim here, and the caller showed no living pin.
	ErrNeedPin = errors.New("claim: no claim under this key here, and no pin that allows one")
	// ErrNoClaim: the request is to be compared only, and no claim has an answer for it.
	ErrNoClaim = errors.New("claim: no claim under this key answers the request, and the request may not begin one")
)

// InUseError: another request holds the claim, and the wait for it has ended.
type InUseError struct{ RetryAfter time.Duration }

func (e *InUseError) Error() string {
	return fmt.Sprintf("claim: a request with this key is in progress, retry after %v", e.RetryAfter)
}

// UnknownError: the provider may or may not have acted; the outbox worker asks the provider.
// RetryAfter is the time until it asks again, if the claim says when.
type UnknownError struct{ RetryAfter time.Duration }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("claim: the outcome is unknown so far, retry after %v", e.RetryAfter)
}

// ExpiredError: the replay window has ended, the tombstone has not.
type ExpiredError struct{ FirstUse time.Time }

func (e *ExpiredError) Error() string {
	return "claim: the key expired, it was first used at " + e.FirstUse.UTC().Format(time.RFC3339)
}

// Status is what a merchant may read of a key.
type Status struct {
	Record   Record
	Age      Age
	Timeline []AuditEntry
	// ExpiresAt ends the replay window, FreeAt the tombstone.
	ExpiresAt, FreeAt time.Time
}

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
	// Provider names whom a new claim, or a new generation of one, is for: chosen at the
	// entry, and a matter of the request's alone where it says so itself. "": the default
	// of the home's nodes.
	Provider string
	// Input holds the canonical body, which is also the operation's payload.
	Input FingerprintInput
	// Also is the fingerprint of the same request in another spelling, under which an
	// earlier try may have begun; zero for none. It is only compared: a claim keeps the
	// spelling that its provider is told.
	Also Fingerprint
	// CompareOnly: the request may be a retry, and reads what became of the first try;
	// it is nothing that its tenant wants begun. It makes no claim and no pin, and
	// begins no generation: [ErrNoClaim] where it would.
	CompareOnly bool
	// Stamp is what [ReadStamp] says of Key, read once, by whoever makes the request:
	// the code of its home, 0 of an opaque key. Then PinnedAt is the time of the pin
	// that names the home, zero if none has been read.
	Stamp    RegionCode
	PinnedAt time.Time
	// PreferHome is the region that an opaque key without a home should get as its
	// home, where that region takes new ones; 0: the one that it arrived at. It is
	// for the entry alone and does not travel.
	PreferHome RegionCode
	// PinHere is [Arrival.PinHere]. It is for the entry alone and does not travel.
	PinHere bool
	// TraceParent is the W3C trace context of the entry, or "".
	TraceParent string
	// Began is when the request arrived at its entry, by this process's clock; it
	// may be earlier, never later. Zero: now.
	Began time.Time
}

// UnderWay is how long req has been under way, by whichever local clock says more:
// the monotonic one sleeps with the machine.
func (req *Request) UnderWay() time.Duration { return req.underWay(time.Now()) }

func (req *Request) underWay(now time.Time) time.Duration {
	if req.Began.IsZero() {
		return 0
	}
	return max(now.Sub(req.Began), now.Round(0).Sub(req.Began.Round(0)))
}

// Reply is the answer to a [Request] that reached its claim. Beside an error it
// says what is known of the key all the same: Home, and once the claim was read
// FirstUse and ExpiresAt.
type Reply struct {
	Response Response
	Home     string
	State    State
	// Replayed: the response was made by another request.
	Replayed bool
	FirstUse time.Time
	// ExpiresAt is until when the key answers as it does now: the end of the replay
	// window, see [Record.ExpiresAt], and once that is over of the tombstone.
	ExpiresAt time.Time
	// ServedBy is the region whose node answered; Hops how many forwards it took.
	ServedBy string
	Hops     int
	// Way is how it was answered, a Way of package span, as the entry's router saw it. Away
	// is the part of its time that it spent waiting for others, as far as this region knows:
	// at the provider, for a rival, or on the way to another region and there. Neither
	// travels.
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
	ErrNoClaim = errors.New("claim: no claim under this key answers the request, and it may begin none")
)

// InUseError: the request is being worked on; the wait for it is over.
type InUseError struct{ RetryAfter time.Duration }

func (e *InUseError) Error() string {
	return fmt.Sprintf("claim: a request with this key is in progress, retry after %v", e.RetryAfter)
}

// UnknownError: the provider may or may not have acted; it is being asked.
type UnknownError struct{ RetryAfter time.Duration }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("claim: the outcome is not known yet, retry after %v", e.RetryAfter)
}

// ExpiredError: the replay window is over, the tombstone still stands.
type ExpiredError struct{ FirstUse time.Time }

func (e *ExpiredError) Error() string {
	return "claim: the key expired, it was first used at " + e.FirstUse.UTC().Format(time.RFC3339)
}

// Status is what a merchant may know of a key.
type Status struct {
	Record   Record
	Age      Age
	Timeline []AuditEntry
	// ExpiresAt ends the replay window, FreeAt the tombstone.
	ExpiresAt, FreeAt time.Time
}

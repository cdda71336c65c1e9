package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Retry is how a caller may continue after an error.
type Retry string

// What an error leaves to do.
const (
	// RetrySameKey: the outcome may be open; calling again with the same key and parameters is safe
	// and returns it.
	RetrySameKey Retry = "same_key"
	// RetryNewKey: the key is spent; another attempt needs a new one.
	RetryNewKey Retry = "new_key"
	// RetryNever: the request itself is wrong.
	RetryNever Retry = "never"
)

// Error is a failed call: the API's error, or the network's if no answer came.
type Error struct {
	// Status is the HTTP status; 0 when no answer came. If the context ended the call
	// and the last attempt got none, it and the next members are of the API's latest answer.
	Status int
	// Code is the API's name of the error, as in [CodeCardDeclined]; "" without an answer.
	Code string
	// Detail explains the error to a person.
	Detail string
	// DeclineCode is the reason of a decline: "insufficient_funds".
	DeclineCode string
	// Member names the member of the request that is at fault.
	Member string
	Retry  Retry
	// RetryAfter is how long the server asks to wait before a retry; 0 if it did
	// not say.
	RetryAfter time.Duration
	// OriginalRequestAt is when an expired key was first used.
	OriginalRequestAt time.Time
	// IdempotencyKey is the key of the failed call; use it to retry.
	IdempotencyKey string
	// Replayed: the server replayed the error of an earlier request.
	Replayed bool
	// HomeRegion is the key's home, if the answer named it.
	HomeRegion string
	// Attempts is how many requests the call took.
	Attempts int
	// Unknown: an attempt of this call got no answer of the API's, or the key was in use, so that money
	// may have moved, and no later answer of the key's claim has resolved it. Retry is then same_key, even
	// if the last answer, such as a 401, must be fixed first.
	Unknown bool
	// Err is the network's error; nil if the API answered the last attempt.
	Err error

	final bool // the caller must act on this answer, whatever Retry says
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("homeward: ")
	switch {
	case e.Code != "":
		b.WriteString(e.Code)
		if e.DeclineCode != "" {
			b.WriteString(" (" + e.DeclineCode + ")")
		}
	case e.Status != 0:
		fmt.Fprintf(&b, "status %d", e.Status)
	default:
		b.WriteString("no answer")
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the network's error.
func (e *Error) Unwrap() error { return e.Err }

// elsewhere reports whether another region may succeed.
func (e *Error) elsewhere() bool {
	switch {
	case e.Status == 0, e.Code == "": // unreachable, or a proxy answered instead
		return true
	default:
		return e.Code == CodeStoreUnavailable || e.Code == CodeInternal
	}
}

// unsent reports whether there was no connection to send the request on.
func (e *Error) unsent() bool {
	dial, ok := errors.AsType[*net.OpError](e.Err)
	return ok && dial.Op == "dial"
}

// silent reports whether the region was left because it answered nothing at all.
func (e *Error) silent() bool { return errors.Is(e.Err, errSilent) }

// ofClaim: the answer is that of the key's claim, and covers every attempt.
func (e *Error) ofClaim() bool {
	switch e.Code {
	case CodeCardDeclined, CodeKeyCanceled, CodeKeyExpired, CodeFingerprintMismatch:
		return true
	case CodeOutcomeUnknown:
		return e.Retry != RetrySameKey // the wait has ended
	}
	return e.Replayed || e.DeclineCode != ""
}

// leaveOpen: an earlier attempt, or another call of the key, may have moved money, and this answer does
// not resolve it.
func (e *Error) leaveOpen() {
	e.Unknown = true
	e.final = e.final || e.Retry != RetrySameKey // a retry is refused again until the cause is fixed
	e.Retry = RetrySameKey
}

// since returns e, the API's latest answer, as the error of a call whose last attempt got
// none.
func (e *Error) since(last *Error) *Error {
	both := *e
	both.Attempts, both.Unknown, both.Retry, both.final, both.Err = last.Attempts, last.Unknown, last.Retry, last.final, last.Err
	return &both
}

// wireError is a request that got no answer. The server may have executed it.
func wireError(err error) *Error { return &Error{Retry: RetrySameKey, Err: err} }

// refused parses an error response of the API.
func refused(res *http.Response, raw []byte) *Error {
	e := &Error{
		Status:     res.StatusCode,
		Replayed:   res.Header.Get("Idempotent-Replayed") == "true",
		HomeRegion: res.Header.Get("Homeward-Home-Region"),
		RetryAfter: retryAfter(res.Header.Get("Retry-After")),
	}
	var p struct {
		Error             string    `json:"error"`
		Detail            string    `json:"detail"`
		Retry             Retry     `json:"retry"`
		RetryAfterMS      int64     `json:"retry_after_ms"`
		OriginalRequestAt time.Time `json:"original_request_at"`
		Member            string    `json:"member"`
		Code              string    `json:"code"`
	}
	if err := json.Unmarshal(raw, &p); err != nil || p.Error == "" || p.Retry == "" {
		// The response is not the API's: a balancer or a proxy sent it. A retry may
		// help after a 5xx, 429 or 408, and not after any other status.
		e.Detail, e.Retry = http.StatusText(res.StatusCode), RetryNever
		if res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusRequestTimeout {
			e.Retry = RetrySameKey
		}
		return e
	}
	e.Code, e.Detail, e.Member, e.DeclineCode = p.Error, p.Detail, p.Member, p.Code
	e.OriginalRequestAt, e.Retry = p.OriginalRequestAt, p.Retry
	if p.RetryAfterMS > 0 && p.RetryAfterMS <= int64(24*time.Hour/time.Millisecond) {
		e.RetryAfter = time.Duration(p.RetryAfterMS) * time.Millisecond // more precise than the header
	}
	if e.Code == CodeCardDeclined && e.Retry == RetrySameKey {
		// A soft decline is an answer. The client does not retry the card at once; the
		// caller may, with the same key.
		e.final = true
	}
	return e
}

// retryAfter parses the header's delay in seconds. A date would need synchronised
// clocks, and the API does not send one.
func retryAfter(v string) time.Duration {
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

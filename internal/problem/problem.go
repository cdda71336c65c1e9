// Package problem is the table of the API's errors: the codes, their statuses and
// titles, and what a caller may do next. A [Problem] renders as
// application/problem+json (RFC 9457) to the same bytes every time, because some of
// them, declines above all, are stored and replayed.
//
// Each code has a page for people, and the problem's type is the page's address, see
// [Pages]. A stored answer keeps the address that it was rendered with: a deployment
// that moves its pages changes no byte of an earlier answer.
package problem

//go:generate go test . -run ^(TestThePageIsCurrent|TestTheClientsCodesAreCurrent)$ -write

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// ContentType is the media type of every rendered Problem.
const ContentType = "application/problem+json"

// Code names an error; it is the member "error". Codes are public and stable.
type Code string

// The codes of the merchant's contract, in the order of its table.
const (
	KeyMissing           Code = "idempotency_key_missing"
	KeyInvalid           Code = "idempotency_key_invalid"
	InvalidRequest       Code = "invalid_request"
	Unauthorized         Code = "unauthorized"
	Forbidden            Code = "forbidden"
	CardDeclined         Code = "card_declined"
	NotFound             Code = "not_found"
	MethodNotAllowed     Code = "method_not_allowed"
	KeyInUse             Code = "idempotency_key_in_use"
	KeyCanceled          Code = "idempotency_key_canceled"
	KeyExpired           Code = "idempotency_key_expired"
	BodyTooLarge         Code = "body_too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	FingerprintMismatch  Code = "idempotency_key_fingerprint_mismatch"
	RateLimited          Code = "rate_limited"
	StoreUnavailable     Code = "store_unavailable"
	HomeUnavailable      Code = "home_unavailable"
	// KeyWithheld: the store was restored from a backup, and the lost writes may
	// include the key.
	KeyWithheld Code = "idempotency_key_withheld"
	// OutcomeUnknown is SameKey while the worker asks the provider. If asking was given
	// up, the answer is stored and the same key would read it for ever: that answer
	// says NewKey.
	OutcomeUnknown Code = "outcome_unknown"
	// Internal is a fault of ours that no other code describes. It is outside
	// the contract's table; the same key stays safe to send, as always.
	Internal Code = "internal"
	// NotReady is the answer of /readyz to load balancers and operators. No merchant's
	// request is answered so.
	NotReady Code = "not_ready"
	// Unreachable is a gateway's, whose upstream got nothing of a request. No merchant's request to
	// the API of payments is answered so.
	Unreachable Code = "upstream_unreachable"
)

// Retry says what a caller may do next; it is the member "retry".
type Retry string

// The three kinds of advice.
const (
	// SameKey: sending the same request again is safe and useful.
	SameKey Retry = "same_key"
	// NewKey: the key is spent; a new attempt needs a new one.
	NewKey Retry = "new_key"
	// Never: fix the request first.
	Never Retry = "never"
)

// Problem is one refusal. [New] fills in the table's members. Members with zero values
// below Retry are left out.
type Problem struct {
	Code   Code
	Title  string
	Status int
	// Detail is one or two sentences for a person: what happened, what to do.
	Detail string
	Retry  Retry
	// RetryAfter is when a retry becomes useful; rendered in whole milliseconds.
	RetryAfter time.Duration
	// OriginalRequestAt is when an expired key was first used.
	OriginalRequestAt time.Time
	// Member names the member of the request that is at fault: metadata.color.
	Member string
	// DeclineCode is the provider-neutral reason of a decline.
	DeclineCode string
}

// New returns the problem of a code with the table's title, status and retry.
// A code that is not in the table becomes [Internal].
func New(code Code, detail string) Problem {
	e, ok := table[code]
	if !ok {
		e = table[Internal]
	}
	return Problem{Code: e.Code, Title: e.Title, Status: e.Status, Detail: detail, Retry: e.Retry}
}

// RetryAfterHeader returns RetryAfter as the Retry-After header spells it, in
// whole seconds rounded up, and "" when there is none.
func (p *Problem) RetryAfterHeader() string {
	if p.RetryAfter <= 0 {
		return ""
	}
	return strconv.FormatInt(int64((p.RetryAfter+time.Second-1)/time.Second), 10)
}

// wire is a problem as JSON has it. The order of members is fixed.
type wire struct {
	Type              string `json:"type"`
	Title             string `json:"title"`
	Status            int    `json:"status"`
	Detail            string `json:"detail"`
	Error             Code   `json:"error"`
	Retry             Retry  `json:"retry"`
	RetryAfterMS      int64  `json:"retry_after_ms,omitempty"`
	OriginalRequestAt string `json:"original_request_at,omitempty"`
	Member            string `json:"member,omitempty"`
	DeclineCode       string `json:"code,omitempty"`
}

// JSON renders p, followed by a newline for terminals. Its type is in pages. The order
// of members is fixed; the result is a new slice. The text is UTF-8: invalid bytes of a
// Detail become U+FFFD.
func (p *Problem) JSON(pages Pages) []byte {
	w := wire{
		Type: pages.Of(p.Code), Title: p.Title, Status: p.Status, Detail: p.Detail,
		Error: p.Code, Retry: p.Retry, Member: p.Member, DeclineCode: p.DeclineCode,
	}
	if p.RetryAfter > 0 {
		// Rounded up: a caller that gets 0 ms would not wait at all.
		w.RetryAfterMS = int64((p.RetryAfter + time.Millisecond - 1) / time.Millisecond)
	}
	if !p.OriginalRequestAt.IsZero() {
		w.OriginalRequestAt = p.OriginalRequestAt.UTC().Format(time.RFC3339)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// Strings and integers always encode, and a Buffer never refuses a write.
	_ = enc.Encode(w)
	return b.Bytes()
}

// Parse parses the result of JSON. Times come back in whole milliseconds and seconds,
// as they were rendered.
func Parse(body []byte) (Problem, error) {
	var w wire
	if err := json.Unmarshal(body, &w); err != nil {
		return Problem{}, fmt.Errorf("problem: %w", err)
	}
	p := Problem{
		Code: w.Error, Title: w.Title, Status: w.Status, Detail: w.Detail, Retry: w.Retry,
		RetryAfter: time.Duration(w.RetryAfterMS) * time.Millisecond, Member: w.Member, DeclineCode: w.DeclineCode,
	}
	if w.OriginalRequestAt != "" {
		at, err := time.Parse(time.RFC3339, w.OriginalRequestAt)
		if err != nil {
			return Problem{}, fmt.Errorf("problem: original_request_at: %w", err)
		}
		p.OriginalRequestAt = at
	}
	return p, nil
}

package payment

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
)

// renderRoom is how many bytes an object has beside the members that the caller sent.
const renderRoom = 384

// Rendered returns the answer to a payment that was made: 201 and the object. Its bytes
// follow from the arguments alone, so that every attempt and every node renders the same
// ones.
func Rendered(m claim.Minted, in *Intent, provider, reference string) claim.Response {
	return rendered(m, in, provider, reference, statusSucceeded)
}

func rendered(m claim.Minted, in *Intent, provider, reference, status string) claim.Response {
	b := make([]byte, 0, renderRoom+in.sent())
	b = appendObject(b, m, in, status)
	b = appendProvider(b, provider, reference)
	return response(http.StatusCreated, m, in, append(b, '}'))
}

func appendProvider(b []byte, name, reference string) []byte {
	b = append(b, `,"provider":{"name":`...)
	b = appendString(b, name)
	b = append(b, `,"reference":`...)
	b = appendString(b, reference)
	return append(b, '}')
}

func response(status int, m claim.Minted, in *Intent, body []byte) claim.Response {
	return claim.Response{
		Status: status,
		Header: []claim.HeaderField{
			{Name: "Content-Type", Value: "application/json"},
			{Name: "Location", Value: Path(in.Operation) + "/" + m.ID},
		},
		Body: body,
	}
}

// sent is the length of the members that are shown as they were sent.
func (in *Intent) sent() int {
	return len(in.description) + len(in.orderID) + len(in.metadata) + len(in.expiresAt) + len(in.reason) + in.terms.sent()
}

// appendObject appends an object up to its receipt number. It leaves out the amount, and what a
// refund takes from its charge, if they are unknown.
func appendObject(b []byte, m claim.Minted, in *Intent, status string) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, m.ID)
	b = append(b, `,"object":`...)
	b = appendString(b, Object(in.Operation))
	if in.Amount > 0 {
		b = append(b, `,"amount":`...)
		b = strconv.AppendInt(b, in.Amount, 10)
	}
	if in.captured > 0 {
		b = append(b, `,"amount_captured":`...)
		b = strconv.AppendInt(b, in.captured, 10)
	}
	if in.Currency != "" {
		b = append(b, `,"currency":`...)
		b = appendString(b, in.Currency)
	}
	b = append(b, `,"status":"`...)
	b = append(b, status...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, m.Created.Unix(), 10)
	b = appendLivemode(b, !in.test)
	switch {
	case in.Operation.GivesBack():
		b = append(b, `,"charge":`...)
		b = appendString(b, in.Charge)
	case in.Operation == Transfer:
		b = append(b, `,"destination":`...)
		b = appendString(b, in.Source)
	case in.Source != "": // of a canceled charge there may be only the amount
		b = append(b, `,"payment_method":`...)
		b = appendString(b, in.Source)
	}
	b = appendSent(b, "description", in.description)
	b = appendSent(b, "order_id", in.orderID)
	b = appendSent(b, "metadata", in.metadata)
	b = appendSent(b, "expires_at", in.expiresAt)
	b = appendSent(b, "reason", in.reason)
	b = appendTerms(b, &in.terms)
	b = append(b, `,"receipt_number":`...)
	return appendString(b, m.Receipt)
}

// appendLivemode appends whether money moves for the object's tenant.
func appendLivemode(b []byte, live bool) []byte {
	return strconv.AppendBool(append(b, `,"livemode":`...), live)
}

// Object is the kind of op's objects as rendered: "charge".
func Object(op Operation) string {
	if op == Compensation {
		op = Refund
	}
	return string(op)
}

// Path is the path of op's objects: /v1/charges.
func Path(op Operation) string { return "/v1/" + Object(op) + "s" }

// Prefix is how the ids of op's objects start, without the underscore.
func Prefix(op Operation) string {
	switch op {
	case Transfer:
		return "tr"
	case Refund, Compensation:
		return "re"
	case Capture:
		return "cap"
	case Cancel:
		return "can"
	case CancelKey:
		return "key"
	default:
		return "ch"
	}
}

// Public returns the operations with objects that merchants can read.
func Public() []Operation { return []Operation{Charge, Transfer, Refund} }

// Operations returns the id prefixes of each operation's objects, for a claim.Service.
func Operations() claim.Operations {
	all := claim.Operations{}
	for _, op := range []Operation{Compensation, Capture, Cancel, CancelKey} {
		all[string(op)] = Prefix(op)
	}
	for _, op := range Public() {
		all[string(op)] = Prefix(op)
	}
	return all
}

// Unbound returns the operations that find their provider through another object: a
// refund, a capture and a cancellation go to their charge's.
func Unbound() map[string]bool {
	return map[string]bool{string(Refund): true, string(Capture): true, string(Cancel): true, string(CancelKey): true}
}

// Unstopped returns the operations that go on although their key is canceled, as all that they do is
// to end another claim.
func Unstopped() map[string]bool { return map[string]bool{string(Capture): true, string(Cancel): true} }

// refusal turns a problem into a response that can be stored.
func (e *Executor) refusal(p problem.Problem) claim.Response {
	r := claim.Response{
		Status: p.Status,
		Header: []claim.HeaderField{{Name: "Content-Type", Value: problem.ContentType}},
		Body:   p.JSON(e.o.ErrorPages),
	}
	if after := p.RetryAfterHeader(); after != "" {
		r.Header = append(r.Header, claim.HeaderField{Name: "Retry-After", Value: after})
	}
	return r
}

func appendSent(b []byte, name string, raw []byte) []byte {
	if raw == nil {
		return b
	}
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return append(b, raw...)
}

// appendString appends s as a JSON string. Ids, tokens and codes need no escapes; a
// provider's reference might.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string always encodes
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
)

// Dialect is how a gateway spells its own errors: a profile. The zero value is rest.
type Dialect string

// Spelled is an error in a dialect.
type Spelled struct {
	Status      int
	ContentType string
	Body        []byte
	// Header has those that the dialect's clients read, Retry-After apart.
	Header map[string]string
}

// Spell spells p, about the request with this key. It follows from d, p and key alone, so that each
// retry reads the same bytes.
func (d Dialect) Spell(p *problem.Problem, key string) Spelled {
	out := Spelled{Status: p.Status, ContentType: "application/json"}
	var v any
	switch d {
	case "stripe":
		v = stripeError(p, key, &out)
	case "adyen":
		v = adyenError(p, &out)
	case "acp":
		v = acpError(p, &out)
	default:
		out.ContentType, out.Body = problem.ContentType, p.JSON(problem.Behind)
		return out
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // strings and numbers always encode
	out.Body = b.Bytes()
	return out
}

// stripeError is the error object of docs.stripe.com/api/errors.
func stripeError(p *problem.Problem, key string, out *Spelled) any {
	type object struct {
		Code    string `json:"code,omitempty"`
		Message string `json:"message"`
		Param   string `json:"param,omitempty"`
		Type    string `json:"type"`
	}
	o, again := object{Message: p.Detail, Param: p.Member, Type: "invalid_request_error"}, p.Retry == problem.SameKey
	switch p.Code {
	case problem.KeyInUse:
		o.Type, o.Code = "idempotency_error", "idempotency_key_in_use"
	case problem.FingerprintMismatch:
		o.Type, out.Status = "idempotency_error", http.StatusBadRequest
		o.Message = "Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '" + key + "' if you meant to execute a different request."
	case problem.KeyExpired, problem.KeyCanceled:
		o.Type, out.Status = "idempotency_error", http.StatusBadRequest
	case problem.RateLimited:
		o.Code, again = "rate_limit", false
	default:
		if p.Status >= http.StatusInternalServerError {
			o.Type, o.Code = "api_error", string(p.Code)
		}
	}
	out.Header = map[string]string{"Stripe-Should-Retry": "false"}
	if again {
		out.Header["Stripe-Should-Retry"] = "true"
	}
	return map[string]object{"error": o}
}

// adyenError is the error of docs.adyen.com/development-resources/error-codes. 704 is theirs for a
// request that is in progress.
func adyenError(p *problem.Problem, out *Spelled) any {
	o := struct {
		Status    int    `json:"status"`
		ErrorCode string `json:"errorCode"`
		Message   string `json:"message"`
		ErrorType string `json:"errorType"`
	}{ErrorCode: string(p.Code), Message: p.Detail, ErrorType: "validation"}
	switch p.Code {
	case problem.KeyInUse:
		out.Status, o.ErrorCode = http.StatusUnprocessableEntity, "704"
	case problem.Unauthorized, problem.Forbidden:
		o.ErrorType = "security"
	default:
		if p.Status >= http.StatusInternalServerError {
			o.ErrorType = "internal"
		}
	}
	if p.Retry == problem.SameKey {
		out.Header = map[string]string{"Transient-Error": "true"}
	}
	o.Status = out.Status
	return o
}

// acpError is the flat error of the agentic commerce protocol. No 5xx is stored under a key there, so
// that what stays unknown for good is a 422.
func acpError(p *problem.Problem, out *Spelled) any {
	o := struct {
		Type    string `json:"type"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}{"invalid_request", string(p.Code), p.Detail}
	switch p.Code {
	case problem.KeyMissing:
		o.Code = "idempotency_key_required"
	case problem.FingerprintMismatch:
		o.Code = "idempotency_conflict"
	case problem.KeyInUse:
		o.Code = "idempotency_in_flight"
	case problem.RateLimited:
		o.Code = "rate_limit_exceeded"
	case problem.OutcomeUnknown:
		if o.Type = "service_unavailable"; p.Retry == problem.Never {
			o.Type, out.Status = "processing_error", http.StatusUnprocessableEntity
		}
	default:
		if p.Status >= http.StatusInternalServerError {
			o.Type = "service_unavailable"
		}
	}
	return o
}

// OwnError returns the gateway's own error that a stored reply is, which an executor made; ok is false for
// a reply of the upstream.
func OwnError(r *claim.Response) (p problem.Problem, ok bool) {
	if r.Field("Content-Type") != problem.ContentType || !strings.HasPrefix(string(r.Body), `{"type":"`+string(problem.Behind)) {
		return p, false
	}
	p, err := problem.Parse(r.Body)
	return p, err == nil
}

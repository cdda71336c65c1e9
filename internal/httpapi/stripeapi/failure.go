package stripeapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/payment"
)

// Failure is an error in Stripe's format.
type Failure struct {
	Status int
	// Again is the value of Stripe-Should-Retry: whether a client should retry by
	// itself. It is false for a soft decline, which a person should retry, and for an
	// exceeded rate, which retries would only prolong.
	Again bool
	Body  []byte
}

// The types of the page "Errors".
const (
	typeAPI         = "api_error"
	typeCard        = "card_error"
	typeIdempotency = "idempotency_error"
	typeInvalid     = "invalid_request_error"
)

// failure is the error object (stripe/openapi, schema api_errors).
type failure struct {
	Code        string `json:"code,omitempty"`
	DeclineCode string `json:"decline_code,omitempty"`
	DocURL      string `json:"doc_url,omitempty"`
	Message     string `json:"message"`
	Param       string `json:"param,omitempty"`
	Type        string `json:"type"`
}

func (f *failure) as(status int, again bool) Failure {
	if slices.Contains(documented, f.Code) {
		f.DocURL = "https://stripe.com/docs/error-codes/" + strings.ReplaceAll(f.Code, "_", "-")
	}
	body, _ := json.Marshal(map[string]*failure{"error": f}) // strings always encode
	return Failure{Status: status, Again: again, Body: body}
}

// Codes of the page "Error codes" that are used here.
const (
	codeDeclined = "card_declined"
	codeInUse    = "idempotency_key_in_use"
	codeRate     = "rate_limit"
	codeExpired  = "payment_intent_payment_attempt_expired"
)

// ownCodes are the decline codes that are error codes, too: "Error codes" lists them
// beside card_declined, which stands for all others.
var ownCodes = []string{
	"authentication_required", "expired_card", "incorrect_cvc", "incorrect_number", "incorrect_zip",
	"invalid_cvc", "invalid_expiry_month", "invalid_expiry_year", "invalid_number", "processing_error",
}

// documented are the codes with a page of their own.
var documented = append([]string{
	codeEmpty, codeInteger, codeMissing, codeUnknown, codeExclusive, codeNoSuch, codeDeclined, codeInUse, codeRate, codeExpired,
	"amount_too_large", "balance_insufficient", "charge_already_refunded",
}, ownCodes...)

// refusedCodes maps codes of the merchant's API, for a refused request, to Stripe's.
var refusedCodes = map[string]string{"no_such_charge": codeNoSuch}

// expired is the merchant's API's decline code for a payment past its expires_at.
const expired = "expired"

// Failure renders a problem of the merchant's API. It follows from v and p alone.
func (v View) Failure(p problem.Problem) Failure {
	f := failure{Type: typeInvalid, Message: p.Detail, Param: v.paramOf(p.Member)}
	status, again := p.Status, p.Retry == problem.SameKey
	switch p.Code {
	case problem.CardDeclined:
		return v.declined(f, p)
	case problem.InvalidRequest:
		if f.Code = p.DeclineCode; refusedCodes[f.Code] != "" {
			f.Code = refusedCodes[f.Code]
		}
	case problem.NotFound:
		f.Code, f.Param = codeNoSuch, "id"
	case problem.MethodNotAllowed:
		f.Message = "Unrecognized request URL (" + v.Method + ": " + v.shownPath() + "). " + p.Detail
	case problem.RateLimited:
		f.Code, again = codeRate, false
	case problem.KeyInUse:
		f.Type, f.Code = typeIdempotency, codeInUse
		f.Message = "There is currently another in-progress request using this Idempotent Key (that probably means you submitted twice, and the other request is still going through): " +
			v.Key + ". Please try again later."
	case problem.FingerprintMismatch: // "Idempotent requests": an error, of status 400
		f.Type, status = typeIdempotency, http.StatusBadRequest
		f.Message = "Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '" +
			v.Key + "' if you meant to execute a different request."
	case problem.KeyExpired, problem.KeyCanceled:
		f.Type, status = typeIdempotency, http.StatusBadRequest
	case problem.StoreUnavailable, problem.HomeUnavailable, problem.KeyWithheld, problem.OutcomeUnknown:
		f.Type, f.Code = typeAPI, string(p.Code)
	case problem.Internal:
		f.Type = typeAPI
	default: // the detail suffices
	}
	return f.as(status, again)
}

// declined is a definitive no of the provider. Only a payment has a card error.
func (v View) declined(f failure, p problem.Problem) Failure {
	if v.Resource == Refund || v.Resource == Transfer {
		f.Code = p.DeclineCode
		return f.as(http.StatusBadRequest, false)
	}
	f.Type, f.Code, f.DeclineCode = typeCard, codeDeclined, p.DeclineCode
	switch {
	case p.DeclineCode == expired:
		f.Code, f.DeclineCode = codeExpired, ""
	case slices.Contains(ownCodes, p.DeclineCode):
		f.Code = p.DeclineCode
	}
	return f.as(http.StatusPaymentRequired, false)
}

// shownPath is the path without card numbers.
func (v View) shownPath() string {
	parts := strings.Split(v.Path, "/")
	for i := range parts {
		parts[i] = payment.MemberName(parts[i])
	}
	return payment.MemberName(strings.Join(parts, "/"))
}

// NoSuchURL is the answer for an unknown path.
func (v View) NoSuchURL() Failure {
	f := failure{Type: typeInvalid, Message: "Unrecognized request URL (" + v.Method + ": " + v.shownPath() + "). What is served of Stripe's API is in the documentation of this one."}
	return f.as(http.StatusNotFound, false)
}

// Failure renders an invalid parameter.
func (e *ParamError) Failure() Failure {
	f := failure{Type: typeInvalid, Code: e.Code, Message: e.Message, Param: e.Param}
	return f.as(http.StatusBadRequest, false)
}

// paramOf converts a member's path, metadata.color, to the caller's spelling:
// metadata[color].
func (v View) paramOf(member string) string {
	base, rest, nested := strings.Cut(member, ".")
	if name, ok := v.called[base]; ok {
		base = name
	}
	if nested {
		return base + "[" + rest + "]"
	}
	return base
}

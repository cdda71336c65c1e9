package httpjson

import (
	"fmt"
	"net/http"

	"github.com/homeward-io/homeward/payment/psp"
)

// The statuses of a movement, in replies and in events. Failed had succeeded before;
// declined never had.
const (
	statusSucceeded = "succeeded"
	statusDeclined  = "declined"
	statusFailed    = "failed"
)

type moveBody struct {
	Reference   string `json:"reference"`
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency"`
	Source      string `json:"source"`
	Description string `json:"description,omitempty"`
}

// reply has every member that this adapter reads. Unknown members are ignored:
// providers add them.
type reply struct {
	ID        string      `json:"id"`
	Status    string      `json:"status"`
	Reference string      `json:"reference"`
	Amount    int64       `json:"amount"`
	Currency  string      `json:"currency"`
	Disputed  int64       `json:"disputed"`
	Error     *replyError `json:"error"`
}

type replyError struct {
	Class   string `json:"class"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// result reads the reply to a movement.
func (r reply) result(status int, call psp.Call) psp.Result {
	switch status {
	case http.StatusOK:
		// The reply must be about the requested movement. Anything else approves
		// another one, or a part of it.
		if r.Status != statusSucceeded || r.ID == "" {
			return unknown(status, "an approval without id or with status %q", r.Status)
		}
		if r.Reference != call.Reference || r.Amount != call.Amount || r.Currency != call.Currency {
			return unknown(status, "an approval of %d %s for %q, where %d %s for %q was requested",
				r.Amount, r.Currency, r.Reference, call.Amount, call.Currency, call.Reference)
		}
		return psp.Result{Outcome: psp.Approved, ProviderRef: r.ID}
	case http.StatusPaymentRequired:
		return r.declined(status)
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity:
		// This requires the provider's own format: gateways answer with these codes
		// too, before or after the provider has acted.
		if r.Error == nil || r.Error.Class != classInvalid {
			return r.unread(status)
		}
		return psp.Result{Outcome: psp.Declined, Decline: r.Error.decline(psp.Invalid)}
	case http.StatusConflict:
		res := r.unread(status)
		if r.Error != nil && r.Error.Class == classKeyReuse {
			res.Err = fmt.Errorf("%w: %w", res.Err, psp.ErrKeyReused)
		}
		return res
	default:
		return r.unread(status)
	}
}

const (
	// classInvalid: the provider refused the request itself.
	classInvalid = "invalid"
	// classKeyReuse: the key was used with other parameters.
	classKeyReuse = "key_reuse"
)

// found reads the reply to a look-up. A 404 counts as no only in the provider's own
// format: that of a proxy, or of a wrong path, proves nothing.
func (r reply) found(status int, call psp.Call) (psp.Found, psp.Result) {
	switch {
	case status == http.StatusNotFound && r.Error != nil && r.Error.Class == "not_found":
		return psp.FoundNo, psp.Result{}
	case status != http.StatusOK:
		return psp.FoundUnknown, r.unread(status)
	case r.Reference != call.Reference:
		return psp.FoundUnknown, unknown(status, "a look-up of %q answered with %q", call.Reference, r.Reference)
	case r.Status == statusSucceeded && r.differs(call):
		return psp.FoundUnknown, unknown(status, "a look-up found %d %s for %q, where %d %s was requested", r.Amount, r.Currency, r.Reference, call.Amount, call.Currency)
	}
	var res psp.Result
	switch {
	case r.Status == statusSucceeded && r.ID != "":
		res = psp.Result{Outcome: psp.Approved, ProviderRef: r.ID}
	case r.Status == statusDeclined, r.Status == statusFailed:
		res = r.declined(status)
	default:
		res = unknown(status, "a look-up answered with status %q", r.Status)
	}
	if res.Outcome == psp.Unknown {
		return psp.FoundUnknown, res
	}
	return psp.FoundYes, res
}

// differs reports whether a found movement is of another amount than was requested, as far as the reply
// has it: it is a part of what was requested, or another one.
func (r reply) differs(call psp.Call) bool {
	return call.Amount != 0 && (r.Amount != 0 && r.Amount != call.Amount || r.Currency != "" && r.Currency != call.Currency)
}

// shown reads the reply to a request for one movement. The caller checks whether it is
// the right one.
func (r reply) shown(status int) (psp.Found, psp.Movement, error) {
	switch {
	case status == http.StatusNotFound && r.Error != nil && r.Error.Class == "not_found":
		return psp.FoundNo, psp.Movement{}, nil
	case status != http.StatusOK:
		return psp.FoundUnknown, psp.Movement{}, r.unread(status).Err
	case r.ID == "":
		return psp.FoundUnknown, psp.Movement{}, unknown(status, "a movement without id").Err
	}
	m := psp.Movement{ProviderRef: r.ID, Reference: r.Reference, Amount: r.Amount, Currency: r.Currency, Disputed: r.Disputed}
	switch r.Status {
	case statusSucceeded:
		m.Outcome = psp.Approved
	case statusDeclined, statusFailed:
		m.Outcome = psp.Declined
	}
	return psp.FoundYes, m, nil
}

// declined reads a decline. Its class decides what happens to the key. A decline of an unknown
// class cannot be acted on.
func (r reply) declined(status int) psp.Result {
	if r.Error == nil {
		return unknown(status, "a decline without error object")
	}
	switch r.Error.Class {
	case "soft":
		return psp.Result{Outcome: psp.Declined, Decline: r.Error.decline(psp.Soft)}
	case "hard":
		return psp.Result{Outcome: psp.Declined, Decline: r.Error.decline(psp.Hard)}
	case classInvalid:
		return psp.Result{Outcome: psp.Declined, Decline: r.Error.decline(psp.Invalid)}
	default:
		return r.unread(status)
	}
}

func (e replyError) decline(c psp.Class) *psp.Decline {
	return &psp.Decline{Class: c, Code: e.Code, Message: e.Message}
}

// unread is the Unknown for a reply that is neither an approval nor a decline.
func (r reply) unread(status int) psp.Result {
	if r.Error == nil {
		return unknown(status, "no error object")
	}
	return unknown(status, "class %q, code %q: %s", r.Error.Class, r.Error.Code, r.Error.Message)
}

func unknown(status int, format string, args ...any) psp.Result {
	return psp.Result{Err: fmt.Errorf("httpjson: status %d: %s", status, fmt.Sprintf(format, args...))}
}

package stripe

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/stripe/stripe-go/v85"

	"github.com/homeward-io/homeward/payment/psp"
)

// movement has the common members of the three kinds of objects.
type movement struct {
	id, reference, key string
	amount             int64 // in Stripe's unit, see [FromStripe]
	currency           string
	status             psp.Outcome
	decline            *psp.Decline // set when declined
	said               string       // Stripe's own word for the status
	wait               *psp.Wait    // set when pending
	account            string       // its account, "" for our own
	capture            string       // our reference of the capture
}

// in names the account that the object lies in.
func (m movement) in(account string) movement {
	m.account = account
	return m
}

// onSession returns m for call's merchant: off session no payer can act, so a payment that needs
// the payer is a decline.
func (m movement) onSession(call psp.Call) movement {
	if m.status == psp.Pending && m.wait.State == psp.RequiresAction && call.Kind != psp.KindRefund && (call.Terms == nil || !call.Terms.OnSession) {
		m.status, m.wait, m.decline = psp.Declined, nil, declineBy(string(sdk.DeclineCodeAuthenticationRequired), "")
	}
	return m
}

// differs returns how the movement differs from the requested one.
func (m movement) differs(call psp.Call, amount int64) error {
	if m.reference == call.Reference && m.amount == amount && m.currency == call.Currency {
		return nil
	}
	return fmt.Errorf("stripe: the object is of %d %s for %q instead of %d %s for %q",
		m.amount, m.currency, m.reference, amount, call.Currency, call.Reference)
}

// madeBy reports whether call may have made m. The owner of a connected account can write
// our reference on their objects: there our key and the amount must match, too.
func (m movement) madeBy(call psp.Call) bool {
	if m.account == "" || call.Key == "" {
		return true
	}
	amount, err := ToStripe(call.Amount, call.Currency)
	held := call.Terms != nil && call.Terms.Manual && m.amount < amount // captured in part
	return err == nil && m.currency == call.Currency && (m.amount == amount || held) &&
		(m.key == call.Key || call.Again != "" && ref(m.id, m.account) == call.Again)
}

// asked returns m as the answer to a look-up for call: one of another amount is neither made nor pending,
// and proves nothing about what was asked for.
func (m movement) asked(call psp.Call) movement {
	if call.Amount == 0 || m.status == psp.Declined {
		return m
	}
	amount, err := ToStripe(call.Amount, call.Currency)
	part := call.Terms != nil && call.Terms.Manual && m.amount > 0 && m.amount < amount // captured in part
	if err != nil || m.currency != call.Currency || m.amount != amount && !part {
		m.status, m.wait, m.said = psp.Unknown, nil, fmt.Sprintf("%s, of %d %s", m.said, m.amount, m.currency)
	}
	return m
}

func (m movement) canceled() bool { return m.said == string(sdk.PaymentIntentStatusCanceled) }

// undecided reports whether the object may still succeed or fail.
func (m movement) undecided() bool { return m.status == psp.Unknown || m.status == psp.Pending }

// weights are the outcomes of objects under one reference, the lightest first: of several the heaviest
// is the outcome of the movement. A decline would let the money move again.
var weights = []psp.Outcome{psp.Declined, psp.Unknown, psp.Pending, psp.Authorized, psp.Approved}

func (m movement) weight() int { return slices.Index(weights, m.status) }

func (m movement) result() psp.Result {
	switch {
	case m.status == psp.Declined:
		r := psp.Result{Outcome: psp.Declined, Decline: m.decline}
		if m.decline.Class == psp.Soft && m.said == string(sdk.PaymentIntentStatusRequiresPaymentMethod) {
			r.ProviderRef = ref(m.id, m.account) // it can be confirmed again
		}
		return r
	case m.id == "":
		return psp.Result{Err: errors.New("stripe: an object without id")}
	case m.status != psp.Unknown:
		return psp.Result{Outcome: m.status, ProviderRef: ref(m.id, m.account), Wait: m.wait}
	default:
		return psp.Result{Err: fmt.Errorf("stripe: %s has the status %q", m.id, m.said)}
	}
}

func ofPaymentIntent(pi *sdk.PaymentIntent) movement {
	if pi == nil || pi.LastResponse == nil {
		return ofIntent(pi, extras{})
	}
	return ofIntent(pi, extrasOf(pi.LastResponse.RawJSON))
}

func ofIntent(pi *sdk.PaymentIntent, more extras) movement {
	if pi == nil {
		return movement{}
	}
	m := movement{
		id: pi.ID, capture: pi.Metadata[captureMember], reference: pi.Metadata[referenceMember], key: pi.Metadata[keyMember], amount: pi.Amount, currency: string(pi.Currency), said: string(pi.Status),
	}
	switch pi.Status {
	case sdk.PaymentIntentStatusSucceeded:
		m.status = psp.Approved
		if pi.CaptureMethod == sdk.PaymentIntentCaptureMethodManual {
			m.amount = pi.AmountReceived // a capture may take less
		}
	case sdk.PaymentIntentStatusRequiresCapture:
		m.status = psp.Authorized
	case sdk.PaymentIntentStatusProcessing:
		m.status, m.wait = psp.Pending, &psp.Wait{State: psp.Processing}
	case sdk.PaymentIntentStatusRequiresPaymentMethod:
		// A confirmed one with a failed payment ends so. Without an error it was not confirmed, and
		// proves nothing.
		if pi.LastPaymentError != nil {
			m.status, m.decline = psp.Declined, more.LastPaymentError.apply(attemptFailed(pi.LastPaymentError))
		}
	case sdk.PaymentIntentStatusRequiresAction:
		m.status, m.wait = psp.Pending, &psp.Wait{State: psp.RequiresAction, ClientSecret: pi.ClientSecret, NextAction: more.NextAction}
	case sdk.PaymentIntentStatusCanceled:
		m.status, m.decline = psp.Declined, &psp.Decline{Class: psp.Soft, Code: "canceled", Message: "The payment was canceled at the provider."}
	}
	return m
}

// ofTransfer: a Transfer that exists has moved money, even if it was reversed.
func ofTransfer(tr *sdk.Transfer) movement {
	if tr == nil {
		return movement{}
	}
	m := movement{id: tr.ID, reference: tr.Metadata[referenceMember], key: tr.Metadata[keyMember], amount: tr.Amount, currency: string(tr.Currency), said: "created"}
	if tr.ID != "" {
		m.status = psp.Approved
	}
	return m
}

func ofRefund(re *sdk.Refund) movement {
	if re == nil {
		return movement{}
	}
	m := movement{id: re.ID, reference: re.Metadata[referenceMember], key: re.Metadata[keyMember], amount: re.Amount, currency: string(re.Currency), said: string(re.Status)}
	switch re.Status {
	case sdk.RefundStatusSucceeded:
		m.status = psp.Approved
	case sdk.RefundStatusPending:
		m.status, m.wait = psp.Pending, &psp.Wait{State: psp.Processing}
	case sdk.RefundStatusRequiresAction:
		m.status, m.wait = psp.Pending, &psp.Wait{State: psp.RequiresAction}
	case sdk.RefundStatusFailed, sdk.RefundStatusCanceled:
		// The money is back with us. Another refund may succeed by another route.
		m.status = psp.Declined
		m.decline = &psp.Decline{Class: psp.Soft, Code: "refund_" + string(re.Status), Message: "The refund could not be paid out."}
		if re.FailureReason != "" {
			m.decline.Code = string(re.FailureReason)
		}
	}
	return m
}

// refused reads an error of the SDK.
func refused(err error) psp.Result {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return psp.Result{Err: oneLine(err)}
	}
	switch {
	case e.HTTPStatusCode == http.StatusPaymentRequired && e.Type == sdk.ErrorTypeCard:
		return psp.Result{Outcome: psp.Declined, Decline: adviceOf(e).apply(declineOf(e))}
	case (e.HTTPStatusCode == http.StatusBadRequest || e.HTTPStatusCode == http.StatusNotFound) && e.Type == sdk.ErrorTypeInvalidRequest:
		// This requires Stripe's own format: gateways answer with these codes too.
		return psp.Result{Outcome: psp.Declined, Decline: declineOf(e)}
	case e.HTTPStatusCode == http.StatusBadRequest && e.Type == sdk.ErrorTypeIdempotency:
		return psp.Result{Err: fmt.Errorf("%w: %w", oneLine(err), psp.ErrKeyReused)}
	}
	return psp.Result{Err: oneLine(err)}
}

// declinedIntent names the PaymentIntent that err declined, "" if it cannot be
// confirmed again.
func declinedIntent(err error, account string) string {
	if e, ok := errors.AsType[*sdk.Error](err); ok && e.PaymentIntent != nil && e.PaymentIntent.Status == sdk.PaymentIntentStatusRequiresPaymentMethod {
		return ref(e.PaymentIntent.ID, account)
	}
	return ""
}

// keptFailure reports whether err is a 5xx that Stripe stored for the key's first
// request, and will repeat for as long as it keeps the key.
func keptFailure(err error) bool {
	var e *sdk.Error
	return errors.As(err, &e) && e.HTTPStatusCode >= http.StatusInternalServerError &&
		e.LastResponse != nil && e.LastResponse.Header.Get("Idempotent-Replayed") == "true"
}

// maxError bounds the stored text of an error, in bytes.
const maxError = 500

// oneLine returns the relevant part of an error of the SDK, whose own text is the whole
// reply: that may name the payer, and be long.
func oneLine(err error) error {
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		return fmt.Errorf("stripe: status %d, type %q, code %q, request %q", e.HTTPStatusCode, e.Type, e.Code, e.RequestID)
	}
	s := strings.Join(strings.Fields(err.Error()), " ")
	if len(s) > maxError {
		s = s[:maxError] + "…"
	}
	return fmt.Errorf("stripe: %s", s)
}

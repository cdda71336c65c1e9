package adyen

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// webhook is Adyen's NotificationRequest ("Webhook types", Standard webhook).
type webhook struct {
	Items []struct {
		Item *item `json:"NotificationRequestItem"`
	} `json:"notificationItems"`
}

// item is a NotificationRequestItem. Its signature covers the members that signed
// names, and nothing else: only those decide anything.
type item struct {
	PSPReference        string `json:"pspReference"`
	OriginalReference   string `json:"originalReference"`
	MerchantAccountCode string `json:"merchantAccountCode"`
	MerchantReference   string `json:"merchantReference"`
	Amount              amount `json:"amount"`
	EventCode           string `json:"eventCode"`
	Success             string `json:"success"`

	EventDate      string `json:"eventDate"`
	AdditionalData struct {
		HMACSignature string `json:"hmacSignature"`
	} `json:"additionalData"`
}

// signed returns the text that the signature covers ("Verify HMAC signatures", Standard webhooks):
// the values as they are, without any escape. [item.sane] ensures that only the merchant's
// reference contains a colon, so that one text is of one event.
func (i *item) signed() string {
	return strings.Join([]string{
		i.PSPReference, i.OriginalReference, i.MerchantAccountCode, i.MerchantReference,
		strconv.FormatInt(i.Amount.Value, 10), i.Amount.Currency, i.EventCode, i.Success,
	}, ":")
}

// sane reports whether the signed members look as Adyen sends them: short, visible, and without a
// colon. The merchant's reference may be anything: the account may have payments that we did not
// make.
func (i *item) sane() bool {
	for _, s := range []string{i.PSPReference, i.MerchantAccountCode, i.Amount.Currency, i.EventCode} {
		if !readable(s) || strings.Contains(s, ":") {
			return false
		}
	}
	if i.OriginalReference != "" && !readable(i.OriginalReference) || strings.Contains(i.OriginalReference, ":") {
		return false
	}
	return i.Success == "true" || i.Success == "false"
}

// Prefixes of our references.
const (
	chargePrefix = "ch_"
	refundPrefix = "re_"
)

// isOurs reports whether the event is about a payment that we made.
func (i *item) isOurs(account string) bool {
	ref := i.MerchantReference
	return i.MerchantAccountCode == account && (strings.HasPrefix(ref, chargePrefix) || strings.HasPrefix(ref, refundPrefix)) &&
		readable(ref) && !strings.Contains(ref, ":")
}

// id names an event, which has no id of Adyen's: "Handle webhook events" identifies
// duplicates by eventCode and pspReference. An event that comes again with the other
// outcome is another event.
func (i *item) id() string { return i.EventCode + "." + i.PSPReference + "." + i.Success }

// itemOf reads the one event that a webhook in JSON has.
func itemOf(body []byte) (*item, error) {
	if len(body) > psp.MaxNotice {
		return nil, malformed("over %d bytes", psp.MaxNotice)
	}
	var w webhook
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(&w); err != nil || dec.More() {
		return nil, malformed("not the expected JSON")
	}
	switch {
	case len(w.Items) != 1 || w.Items[0].Item == nil:
		return nil, malformed("it has %d events, where a standard webhook in JSON has one", len(w.Items))
	case !w.Items[0].Item.sane():
		return nil, malformed("its event lacks a pspReference, merchantAccountCode, amount, eventCode or success, or has one that Adyen would not send")
	}
	return w.Items[0].Item, nil
}

// Signed implements [psp.Notifier]: the signature is in the body.
func (p *Provider) Signed(http.Header) bool { return true }

// Verify implements [psp.Notifier]. The signature is in the body and covers no time: an
// event is never stale. A repeated event has the same id, and is stored once.
func (p *Provider) Verify(_ http.Header, body []byte, _ time.Time) (eventID string, err error) {
	if p.hmacKey == nil {
		return "", fmt.Errorf("adyen: %w", psp.ErrUnchecked)
	}
	forged := fmt.Errorf("adyen: %w", psp.ErrForged)
	i, err := itemOf(body)
	if err != nil {
		return "", forged // nothing in it is signed
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(i.AdditionalData.HMACSignature)
	if err != nil {
		return "", forged
	}
	mac := hmac.New(sha256.New, p.hmacKey)
	_, _ = mac.Write([]byte(i.signed())) // a hash takes everything
	if !hmac.Equal(signature, mac.Sum(nil)) {
		return "", forged
	}
	return i.id(), nil
}

// canceled is the code of a charge that was released.
const canceled = "canceled"

// Events that are processed ("Webhook types"; the pages of each modification).
const (
	eventAuthorisation    = "AUTHORISATION"
	eventCapture          = "CAPTURE"
	eventCaptureFailed    = "CAPTURE_FAILED"
	eventCancellation     = "CANCELLATION"
	eventTechnicalCancel  = "TECHNICAL_CANCEL"
	eventCancelOrRefund   = "CANCEL_OR_REFUND"
	eventExpire           = "EXPIRE"
	eventRefund           = "REFUND"
	eventRefundFailed     = "REFUND_FAILED"
	eventRefundedReversed = "REFUNDED_REVERSED"
)

// Read implements [psp.Notifier]. It ignores an event of another merchant account of
// the company, or of a payment that has no reference of ours.
//
// No signed member of a decline has its reason, so the decline is soft: the payment may
// be retried, and Adyen then answers with the reason.
func (p *Provider) Read(body []byte) (psp.Notice, error) {
	i, err := itemOf(body)
	if err != nil {
		return psp.Notice{}, err
	}
	nothing := psp.Notice{ID: i.id()}
	if at, err := time.Parse(time.RFC3339, i.EventDate); err == nil {
		nothing.At = at.UTC()
	}
	if !i.isOurs(p.account) {
		return nothing, nil
	}
	all, is, err := i.unasked()
	if err != nil {
		return psp.Notice{}, err
	}
	nothing.Unasked = all
	ref, order, held := strings.Cut(i.MerchantReference, heldMark)
	if is && (i.EventCode != eventCancelOrRefund || !held || all == nil) {
		return nothing, nil
	}
	n := nothing
	n.Kind, n.Reference, n.Held = psp.KindCharge, ref, held
	n.Order = strings.TrimPrefix(order, orderMark)
	if !i.says(&n) {
		return nothing, nil
	}
	n.Movement = true
	var ok bool
	if n.Amount, n.Currency, ok = i.Amount.minor(); !ok || n.Amount <= 0 || !readable(n.ProviderRef) {
		return psp.Notice{}, malformed("its event has no amount above 0 of a currency, or no reference of the payment")
	}
	return n, nil
}

// says records the outcome of the movement in n. false: nothing follows from it.
func (i *item) says(n *psp.Notice) bool {
	done := i.Success == "true"
	declined := func(code, message string) {
		n.Outcome, n.Decline = psp.Declined, &psp.Decline{Class: psp.Soft, Code: code, Message: message}
	}
	n.ProviderRef = i.OriginalReference // of an order about a charge, the charge's
	switch i.EventCode {
	case eventAuthorisation:
		n.ProviderRef = i.PSPReference
		switch {
		case !done:
			n.Never = true
			declined("generic_decline", "The payment was declined.")
		case n.Held:
			n.Outcome = psp.Authorized
		default:
			n.Outcome = psp.Approved
		}
	case eventCapture:
		switch {
		case done:
			n.Outcome = psp.Approved
		case n.Held:
			n.Outcome = psp.Authorized // as it was
		default:
			declined("capture_failed", "The payment was authorized, and could not be captured.")
		}
	case eventCaptureFailed: // "Failed capture": the scheme rejected what had succeeded
		n.Held = false
		declined("capture_failed", "The payment was authorized, and could not be captured.")
	case eventCancelOrRefund: // the former of one whose money was held, see unasked for the latter
		declined(canceled, "The payment was canceled.")
	case eventCancellation, eventTechnicalCancel:
		switch {
		case done:
			declined(canceled, "The payment was canceled.")
		case n.Held:
			n.Outcome = psp.Authorized // as it was
		default:
			return false
		}
	case eventExpire: // the uncaptured rest, or all of it. It may name the payment alone.
		n.ProviderRef = cmp.Or(i.OriginalReference, i.PSPReference)
		declined(psp.CodeLapsed, "The authorization has expired before it was captured.")
	case eventRefund, eventRefundFailed, eventRefundedReversed:
		n.Kind, n.ProviderRef = psp.KindRefund, i.PSPReference
		if i.EventCode == eventRefund && done {
			n.Outcome = psp.Approved
			break
		}
		n.Never = i.EventCode == eventRefund
		declined("refund_failed", "The refund could not be paid out.")
	default:
		return false
	}
	return true
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("adyen: %w: %s", psp.ErrMalformed, fmt.Sprintf(format, args...))
}

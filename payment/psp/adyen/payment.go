package adyen

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/homeward-io/homeward/payment/psp"
)

// paymentRequest is Adyen's PaymentRequest, as far as it is used.
type paymentRequest struct {
	Amount          amount       `json:"amount"`
	MerchantAccount string       `json:"merchantAccount"`
	Reference       string       `json:"reference"`
	ReturnURL       string       `json:"returnUrl"`
	PaymentMethod   storedMethod `json:"paymentMethod"`
	// ShopperReference is the owner of the stored payment method.
	ShopperReference         string `json:"shopperReference,omitempty"`
	ShopperInteraction       string `json:"shopperInteraction"`
	RecurringProcessingModel string `json:"recurringProcessingModel"`
	// CaptureDelayHours 0 captures at once, whatever the account's setting ("Capture",
	// delayed capture of an individual payment). It is omitted if the money is held.
	CaptureDelayHours      *int              `json:"captureDelayHours,omitempty"`
	AdditionalData         map[string]string `json:"additionalData,omitempty"`
	ShopperStatement       string            `json:"shopperStatement,omitempty"`
	MerchantOrderReference string            `json:"merchantOrderReference,omitempty"`
	Metadata               map[string]string `json:"metadata,omitempty"`
}

// storedMethod is CardDetails with a token.
type storedMethod struct {
	Type                  string `json:"type"`
	StoredPaymentMethodID string `json:"storedPaymentMethodId"`
}

// paymentResponse is Adyen's PaymentResponse, as far as it is read.
type paymentResponse struct {
	PSPReference      string          `json:"pspReference"`
	ResultCode        string          `json:"resultCode"`
	RefusalReasonCode string          `json:"refusalReasonCode"`
	MerchantReference string          `json:"merchantReference"`
	Amount            *amount         `json:"amount"`
	Action            json.RawMessage `json:"action"`
}

// The results of a payment ("Payment result codes").
const (
	resultAuthorised = "Authorised"
	resultRefused    = "Refused"
	resultError      = "Error"
	resultCancelled  = "Cancelled"
	resultPending    = "Pending"
	resultReceived   = "Received"
	resultRedirect   = "RedirectShopper"
	resultIdentify   = "IdentifyShopper"
	resultChallenge  = "ChallengeShopper"
	resultPresent    = "PresentToShopper"
)

// Charge implements [psp.Provider].
func (p *Provider) Charge(ctx context.Context, call psp.Call) psp.Result {
	req, no := p.payment(call)
	if no != nil {
		return psp.Result{Outcome: psp.Declined, Decline: no}
	}
	var res paymentResponse
	if refused := p.post(ctx, call, []string{"payments"}, req, &res); refused != nil {
		return *refused
	}
	return res.result(&req, call)
}

// payment builds a charge, or returns why Adyen cannot make it.
func (p *Provider) payment(call psp.Call) (req paymentRequest, no *psp.Decline) {
	var terms psp.Terms
	if call.Terms != nil {
		terms = *call.Terms
	}
	if no := unmakeable(&terms); no != nil {
		return req, no
	}
	money, ok := amountOf(call.Amount, call.Currency)
	if !ok {
		return req, indivisible(call.Currency)
	}
	order, own := terms.Own()
	token, shopper := stored(call.Source, terms.Customer)
	req = paymentRequest{
		Amount: money, MerchantAccount: p.account, Reference: reference(call.Reference, terms.Manual), ReturnURL: terms.ReturnURL,
		PaymentMethod: storedMethod{"scheme", token}, ShopperReference: shopper,
		// "Tokenization": with the payer present, a card on file; without, one that the
		// merchant charges when a payment is due.
		ShopperInteraction: "ContAuth", RecurringProcessingModel: "UnscheduledCardOnFile",
		ShopperStatement: terms.StatementSuffix, MerchantOrderReference: order, Metadata: own,
	}
	if len(req.Reference) > maxReference {
		return req, invalid("reference_too_long", "", fmt.Sprintf("Adyen takes references of %d characters.", maxReference))
	}
	if req.ReturnURL == "" {
		req.ReturnURL = p.returnURL
	}
	if terms.OnSession {
		req.RecurringProcessingModel = "CardOnFile"
	}
	if req.ShopperStatement == "" {
		req.ShopperStatement = statement(call.Description)
	}
	if terms.Manual {
		req.AdditionalData = map[string]string{"manualCapture": "true"}
	} else {
		req.CaptureDelayHours = new(int)
	}
	return req, nil
}

// stored parses a merchant's name for a stored payment method: Adyen's token, prefixed
// with pm_ as all are at Homeward, and, if no customer is named, with the shopper that
// it belongs to: pm_SHOPPER-TOKEN. Adyen's tokens have no hyphen.
func stored(source, customer string) (token, shopper string) {
	token, shopper = strings.TrimPrefix(source, "pm_"), customer
	if at := strings.LastIndexByte(token, '-'); at >= 0 && customer == "" {
		token, shopper = token[at+1:], token[:at]
	}
	return token, shopper
}

// reference is the merchant's reference of a charge at Adyen.
func reference(ours string, held bool) string {
	if held {
		return ours + heldMark
	}
	return ours
}

// Limits of "/payments".
const (
	maxMetadata      = 20
	maxMetadataKey   = 20
	maxMetadataValue = 80
	minShopper       = 3
	maxShopper       = 256
	// shownStatement is how much of a statement banks show ("/payments", shopperStatement).
	shownStatement = 22
)

// unmakeable returns the first of a merchant's terms that Adyen does not have, or does
// not accept.
func unmakeable(t *psp.Terms) *psp.Decline {
	_, own := t.Own()
	switch {
	case t.Account != "" || t.OnBehalfOf != "" || t.TransferTo != "" || t.TransferAmount != 0 || t.ApplicationFee != 0:
		return invalid("unsupported", "", "Charges for connected accounts cannot be made at this provider.")
	case t.SetupFutureUsage != "":
		return invalid("unsupported", "setup_future_usage", "Adyen keeps a payment method when the payer enters it; a stored one is kept already.")
	case t.Customer != "" && (len(t.Customer) < minShopper || len(t.Customer) > maxShopper):
		return invalid("invalid_customer", "customer", fmt.Sprintf("Adyen's shopper references have %d to %d characters.", minShopper, maxShopper))
	case t.StatementSuffix != statement(t.StatementSuffix):
		return invalid("invalid_statement", "statement_descriptor_suffix", fmt.Sprintf("Adyen takes letters, digits, spaces and . , ' _ - ? + * / on a statement, up to %d.", shownStatement))
	case len(own) > maxMetadata:
		return invalid("invalid_metadata", "metadata", fmt.Sprintf("Adyen takes %d pairs of metadata.", maxMetadata))
	}
	for k, v := range own {
		if len(k) > maxMetadataKey || len(v) > maxMetadataValue {
			return invalid("invalid_metadata", "metadata", fmt.Sprintf("Adyen takes metadata of %d characters under keys of %d.", maxMetadataValue, maxMetadataKey))
		}
	}
	return nil
}

// statement converts text to what a bank's statement can show: other characters become
// spaces, and the rest is cut ("/payments", shopperStatement).
func statement(text string) string {
	text = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(" .,'_-?+*/", r) {
			return r
		}
		return ' '
	}, text)
	return text[:min(len(text), shownStatement)]
}

func invalid(code, member, message string) *psp.Decline {
	return &psp.Decline{Class: psp.Invalid, Code: code, Member: member, Message: message}
}

func indivisible(currency string) *psp.Decline {
	return invalid("invalid_amount", "amount", fmt.Sprintf("Adyen cannot move this amount of %s, of which it has no decimals.", strings.ToUpper(currency)))
}

// result reads the answer to a payment.
func (r *paymentResponse) result(req *paymentRequest, call psp.Call) psp.Result {
	if r.MerchantReference != "" && r.MerchantReference != req.Reference {
		return unknown("a payment of %q, where one of %q was requested: %w", r.MerchantReference, req.Reference, psp.ErrKeyReused)
	}
	switch r.ResultCode {
	case resultRefused, resultError, resultCancelled:
		return psp.Result{Outcome: psp.Declined, Decline: declined(r.ResultCode, r.RefusalReasonCode)}
	case resultAuthorised:
		// The accepted amount and reference must be the requested ones.
		if r.MerchantReference == "" || r.Amount == nil {
			return unknown("an authorisation without merchantReference or amount")
		}
		if *r.Amount != req.Amount {
			return unknown("an authorisation of %v for %q, where %v for %q was requested: %w", *r.Amount, r.MerchantReference, req.Amount, req.Reference, psp.ErrKeyReused)
		}
		if r.PSPReference == "" {
			return unknown("an authorisation without pspReference")
		}
		res := psp.Result{Outcome: psp.Approved, ProviderRef: r.PSPReference}
		if req.CaptureDelayHours == nil {
			res.Outcome = psp.Authorized
		}
		return res
	case resultPending, resultReceived:
		return pending(r.PSPReference, psp.Processing, nil)
	case resultRedirect, resultIdentify, resultChallenge, resultPresent:
		if call.Terms == nil || !call.Terms.OnSession {
			// No payer sees the action, and without it no money moves.
			return psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Soft, Code: "authentication_required", Message: "The payment needs the payer to authenticate."}}
		}
		return pending(r.PSPReference, psp.RequiresAction, r.Action)
	}
	return unknown("a payment with the result code %q", r.ResultCode)
}

func pending(ref string, state psp.State, action json.RawMessage) psp.Result {
	return psp.Result{Outcome: psp.Pending, ProviderRef: ref, Wait: &psp.Wait{State: state, NextAction: action}}
}

func unknown(format string, args ...any) psp.Result {
	return psp.Result{Err: fmt.Errorf("adyen: "+format, args...)}
}

// modification has the common members of PaymentRefundRequest, PaymentCaptureRequest
// and PaymentCancelRequest.
type modification struct {
	MerchantAccount string  `json:"merchantAccount"`
	Reference       string  `json:"reference"`
	Amount          *amount `json:"amount,omitempty"` // not of a cancellation
}

// modified has the common members of their responses.
type modified struct {
	PSPReference        string  `json:"pspReference"`
	PaymentPSPReference string  `json:"paymentPspReference"`
	Reference           string  `json:"reference"`
	Status              string  `json:"status"`
	Amount              *amount `json:"amount"`
}

// statusReceived is the only status in the answer to a modification.
const statusReceived = "received"

// Refund implements [psp.Provider]. The answer is Pending: an event reports the
// outcome.
func (p *Provider) Refund(ctx context.Context, call psp.Call) psp.Result {
	return p.modify(ctx, call, "refunds", call.Reference, true)
}

// Capture implements [psp.Provider]. The answer is Pending: an event reports the
// outcome.
func (p *Provider) Capture(ctx context.Context, call psp.Call) psp.Result {
	return p.modify(ctx, call, "captures", order(call), true)
}

// Cancel implements [psp.Provider]. The answer is Pending: an event reports the
// outcome.
func (p *Provider) Cancel(ctx context.Context, call psp.Call) psp.Result {
	return p.modify(ctx, call, "cancels", order(call), false)
}

// order is Adyen's reference of a capture or cancellation, which its event repeats: the
// reference of the held charge, and behind it that of the order, if it has one.
func order(call psp.Call) string {
	of := reference(cmp.Or(call.Of, call.Reference), true)
	if call.Of == "" || call.Of == call.Reference {
		return of
	}
	return of + orderMark + call.Reference
}

func (p *Provider) modify(ctx context.Context, call psp.Call, what, reference string, money bool) psp.Result {
	req := modification{MerchantAccount: p.account, Reference: reference}
	if money {
		a, ok := amountOf(call.Amount, call.Currency)
		if !ok {
			return psp.Result{Outcome: psp.Declined, Decline: indivisible(call.Currency)}
		}
		req.Amount = &a
	}
	if !readable(call.Source) || strings.ContainsAny(call.Source, "/.") {
		return psp.Result{Outcome: psp.Declined, Decline: invalid("charge_not_found", "", "The charge does not exist at this provider.")}
	}
	var res modified
	if refused := p.post(ctx, call, []string{"payments", call.Source, what}, req, &res); refused != nil {
		return *refused
	}
	switch {
	case res.Status != statusReceived || res.PSPReference == "":
		return unknown("a modification with the status %q", res.Status)
	case res.PaymentPSPReference != call.Source, res.Reference != reference, money && (res.Amount == nil || *res.Amount != *req.Amount):
		return unknown("a modification %q of %v of %q, where %q of %v of %q was requested: %w", res.Reference, res.Amount, res.PaymentPSPReference, reference, req.Amount, call.Source, psp.ErrKeyReused)
	}
	ref := res.PSPReference
	if what != "refunds" {
		ref = call.Source // the charge's own
	}
	return pending(ref, psp.Processing, nil)
}

// noTransfers is the answer to each transfer: nothing was sent, now or before.
var noTransfers = psp.Decline{Class: psp.Invalid, Code: "transfers_unsupported", Message: "This provider makes no transfers: Adyen's payouts are another product."}

// Transfer implements [psp.Provider]. It sends nothing.
func (p *Provider) Transfer(ctx context.Context, _ psp.Call) psp.Result {
	if err := ctx.Err(); err != nil {
		return psp.Result{Err: oneLine(err)}
	}
	no := noTransfers
	return psp.Result{Outcome: psp.Declined, Decline: &no}
}

// errBlind: see "No look-up".
var errBlind = errors.New("adyen: the Checkout API has no look-up; the outcome arrives in an event or the statement")

// Lookup implements [psp.Provider]. Adyen answers no such question.
func (p *Provider) Lookup(context.Context, psp.Call) (psp.Found, psp.Result) {
	return psp.FoundUnknown, psp.Result{Err: errBlind}
}

// Show implements [psp.Provider]. Adyen answers no such question.
func (p *Provider) Show(context.Context, psp.Kind, string, string) (psp.Found, psp.Movement, error) {
	return psp.FoundUnknown, psp.Movement{}, errBlind
}

// maxID bounds ids in bytes: a pspReference has 16 characters, a reference of ours fewer
// than [maxReference].
const maxID = 255

// readable reports whether s is 1 to maxID visible ASCII characters.
func readable(s string) bool {
	return s != "" && len(s) <= maxID && !strings.ContainsFunc(s, unprintable)
}

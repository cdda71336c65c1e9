package stripe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	sdk "github.com/stripe/stripe-go/v85"

	"github.com/homeward-io/homeward/payment/psp"
)

// orderMember and captureMember are ours in a PaymentIntent's metadata, beside
// referenceMember and keyMember: the merchant's order, and which capture moved the money.
const (
	orderMember   = "order_id"
	captureMember = "homeward_capture"
	// Stripe keeps that many metadata entries, and values of that many characters ("Metadata"). Our
	// entries need room, too.
	maxMetadata      = 50 - 4
	maxMetadataValue = 500
)

// ref is our name of a Stripe object: its id, and, in a connected account, that
// account, as the object can be read in its name alone. split undoes it.
func ref(id, account string) string { return psp.InAccount(id, account) }

func split(ref string) (id, account string) {
	id, account, _ = strings.Cut(ref, "@")
	return id, account
}

func params(ctx context.Context, key, account string) sdk.Params {
	p := sdk.Params{Context: ctx, IdempotencyKey: text(key)}
	if account != "" {
		p.SetStripeAccount(account)
	}
	return p
}

func accountOf(call psp.Call) string {
	if call.Terms == nil {
		return ""
	}
	return call.Terms.Account
}

// Charge implements [psp.Provider].
func (p *Provider) Charge(ctx context.Context, call psp.Call) psp.Result {
	if refused := refuseMetadata(call.Terms); refused != nil {
		return *refused
	}
	if id, account := split(call.Again); id != "" {
		return p.move(ctx, psp.KindCharge, account, call, func(ctx context.Context, _ int64) (movement, error) {
			return p.confirm(ctx, id, account, call)
		})
	}
	account := accountOf(call)
	return p.move(ctx, psp.KindCharge, account, call, func(ctx context.Context, amount int64) (movement, error) {
		query := &sdk.PaymentIntentCreateParams{
			Params:        params(ctx, call.Key, account),
			Amount:        &amount,
			Currency:      &call.Currency,
			PaymentMethod: &call.Source,
			Description:   text(call.Description),
			Metadata:      metadata(call),
			Confirm:       new(true),
			AutomaticPaymentMethods: &sdk.PaymentIntentCreateAutomaticPaymentMethodsParams{
				Enabled: new(true), AllowRedirects: sdk.String("never"),
			},
		}
		if err := agree(query, call); err != nil {
			return movement{}, err
		}
		var pi sdk.PaymentIntent
		err := p.backend.Call(http.MethodPost, pathPaymentIntents, p.key, query, &pi)
		return ofPaymentIntent(&pi).in(account), err
	})
}

// amountError is about an amount, other than the call's own, that Stripe does not
// accept.
type amountError struct {
	member string
	err    error
}

func (e *amountError) Error() string { return e.err.Error() }

// agree adds the merchant's terms beside the amount.
func agree(query *sdk.PaymentIntentCreateParams, call psp.Call) error {
	t := call.Terms
	if t == nil || !t.OnSession {
		// The payer is not present to authenticate, or to be redirected: a payment that
		// needs either is declined.
		query.OffSession = new(true)
	}
	if t == nil {
		return nil
	}
	if t.OnSession && t.ReturnURL != "" {
		query.ReturnURL = &t.ReturnURL
		query.AutomaticPaymentMethods.AllowRedirects = sdk.String("always")
	}
	query.Customer, query.SetupFutureUsage = text(t.Customer), text(t.SetupFutureUsage)
	query.StatementDescriptorSuffix, query.OnBehalfOf = text(t.StatementSuffix), text(t.OnBehalfOf)
	if t.Manual {
		query.CaptureMethod = sdk.String(string(sdk.PaymentIntentCaptureMethodManual))
	}
	if t.TransferTo != "" {
		query.TransferData = &sdk.PaymentIntentCreateTransferDataParams{Destination: &t.TransferTo}
	}
	if t.TransferAmount > 0 {
		amount, err := ToStripe(t.TransferAmount, call.Currency)
		if err != nil {
			return &amountError{"transfer_data.amount", err}
		}
		query.TransferData.Amount = &amount
	}
	if t.ApplicationFee > 0 {
		amount, err := ToStripe(t.ApplicationFee, call.Currency)
		if err != nil {
			return &amountError{"application_fee_amount", err}
		}
		query.ApplicationFeeAmount = &amount
	}
	return nil
}

// confirm retries a PaymentIntent that was declined for now: a PaymentMethod that is
// attached to no customer may be used with one PaymentIntent alone ("The Payment
// Intents API", "Payment Methods API"). If it can no longer be confirmed, Stripe's
// error has its state.
func (p *Provider) confirm(ctx context.Context, id, account string, call psp.Call) (movement, error) {
	query := &sdk.PaymentIntentConfirmParams{Params: params(ctx, call.Key, account), PaymentMethod: &call.Source}
	if t := call.Terms; t == nil || !t.OnSession {
		query.OffSession = new(true)
	} else {
		query.ReturnURL = text(t.ReturnURL)
	}
	var pi sdk.PaymentIntent
	err := p.backend.Call(http.MethodPost, sdk.FormatURLPath(pathPaymentIntents+"/%s/confirm", id), p.key, query, &pi)
	if unexpectedState(err) {
		return p.retrieve(ctx, psp.KindCharge, ref(id, account))
	}
	return ofPaymentIntent(&pi).in(account), err
}

// confirmed returns the state of a PaymentIntent whose confirmation Stripe answers with
// a kept failure, or else that failure. A PaymentIntent that needs another payment
// method is no answer: that may be the decline before the confirmation, which may still
// take effect.
func (p *Provider) confirmed(ctx context.Context, call psp.Call, amount int64, failure psp.Result) psp.Result {
	m, err := p.retrieve(ctx, psp.KindCharge, call.Again)
	switch {
	case err != nil || m.said == string(sdk.PaymentIntentStatusRequiresPaymentMethod):
		return failure
	case m.differs(call, amount) != nil:
		return psp.Result{Err: m.differs(call, amount)}
	}
	return m.onSession(call).result()
}

// unexpectedState reports whether Stripe refused an order that the object's status does
// not allow: nothing was done.
func unexpectedState(err error) bool {
	e := (*sdk.Error)(nil)
	return errors.As(err, &e) && e.HTTPStatusCode == http.StatusBadRequest && e.Code == sdk.ErrorCodePaymentIntentUnexpectedState
}

// Capture implements [psp.Provider]. The PaymentIntent's metadata names the capture.
func (p *Provider) Capture(ctx context.Context, call psp.Call) psp.Result {
	return p.within(ctx, call, func(ctx context.Context, amount int64) psp.Result {
		id, account := split(call.Source)
		var pi sdk.PaymentIntent
		err := p.backend.Call(http.MethodPost, sdk.FormatURLPath(pathPaymentIntents+"/%s/capture", id), p.key, &sdk.PaymentIntentCaptureParams{
			Params: params(ctx, call.Key, account), AmountToCapture: &amount,
			Metadata: map[string]string{captureMember: call.Reference},
		}, &pi)
		if err != nil {
			return p.ordered(ctx, call, err, p.lookCaptured)
		}
		m := ofPaymentIntent(&pi).in(account)
		if m.status == psp.Approved && (pi.AmountReceived != amount || m.currency != call.Currency) {
			return psp.Result{Err: fmt.Errorf("stripe: %d %s were captured instead of %d %s", pi.AmountReceived, m.currency, amount, call.Currency)}
		}
		return m.result()
	})
}

// ordered maps an error of a capture or cancellation to a result. After a kept failure
// it takes what look returns. An unchanged PaymentIntent is no answer.
func (p *Provider) ordered(ctx context.Context, call psp.Call, err error, look func(context.Context, psp.Call) (psp.Found, psp.Result)) psp.Result {
	if keptFailure(err) {
		if found, r := look(ctx, call); found == psp.FoundYes {
			return r
		}
	}
	return refused(err)
}

// Cancel implements [psp.Provider].
func (p *Provider) Cancel(ctx context.Context, call psp.Call) psp.Result {
	if call.Key == "" {
		return psp.Result{Err: errNoKey}
	}
	ctx, cancel := context.WithTimeout(ctx, p.caps.Timeout)
	defer cancel()
	id, account := split(call.Source)
	var pi sdk.PaymentIntent
	err := p.backend.Call(http.MethodPost, sdk.FormatURLPath(pathPaymentIntents+"/%s/cancel", id), p.key,
		&sdk.PaymentIntentCancelParams{Params: params(ctx, call.Key, account)}, &pi)
	switch {
	case unexpectedState(err): // it may be canceled already
		if found, r := p.lookCanceled(ctx, call); found == psp.FoundYes {
			return r
		}
		return refused(err)
	case err != nil:
		return p.ordered(ctx, call, err, p.lookCanceled)
	case pi.Status != sdk.PaymentIntentStatusCanceled:
		return psp.Result{Err: fmt.Errorf("stripe: %s has the status %q after it was canceled", pi.ID, pi.Status)}
	}
	return psp.Result{Outcome: psp.Approved, ProviderRef: call.Source}
}

// lookCaptured is Lookup of a capture: a PaymentIntent is captured once.
func (p *Provider) lookCaptured(ctx context.Context, call psp.Call) (psp.Found, psp.Result) {
	m, err := p.retrieve(ctx, psp.KindCharge, call.Source)
	switch {
	case err != nil:
		return psp.FoundUnknown, psp.Result{Err: oneLine(err)}
	case m.status == psp.Approved && m.capture == call.Reference:
		return psp.FoundYes, m.result()
	case m.status == psp.Approved:
		return psp.FoundYes, psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{
			Class: psp.Invalid, Code: "already_captured", Message: "The charge was captured before.",
		}}
	case m.status == psp.Declined:
		return psp.FoundYes, m.result()
	case m.status == psp.Authorized:
		return psp.FoundNo, psp.Result{}
	default:
		return psp.FoundUnknown, m.result()
	}
}

// lookCanceled is Lookup of a cancellation, ours or another party's.
func (p *Provider) lookCanceled(ctx context.Context, call psp.Call) (psp.Found, psp.Result) {
	m, err := p.retrieve(ctx, psp.KindCharge, call.Source)
	switch {
	case err != nil:
		return psp.FoundUnknown, psp.Result{Err: oneLine(err)}
	case m.canceled():
		return psp.FoundYes, psp.Result{Outcome: psp.Approved, ProviderRef: call.Source}
	case m.status == psp.Approved:
		return psp.FoundYes, psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{
			Class: psp.Invalid, Code: "already_captured", Message: "The charge was captured; refund it instead.",
		}}
	default:
		return psp.FoundNo, psp.Result{}
	}
}

func metadata(call psp.Call) map[string]string {
	m := map[string]string{}
	order, own := call.Terms.Own()
	maps.Copy(m, own)
	if order != "" {
		m[orderMember] = order
	}
	m[referenceMember], m[keyMember] = call.Reference, call.Key
	return m
}

// refuseMetadata is the answer to metadata that Stripe would not keep; nil if it would.
func refuseMetadata(t *psp.Terms) *psp.Result {
	if t == nil {
		return nil
	}
	refuse := func(member, message string) *psp.Result {
		return &psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{
			Class: psp.Invalid, Code: "invalid_metadata", Member: member, Message: message + "; nothing was sent.",
		}}
	}
	order, own := t.Own()
	if len(own) > maxMetadata {
		return refuse("metadata", fmt.Sprintf("stripe keeps %d entries of metadata beside Homeward's", maxMetadata))
	}
	for name, value := range own {
		switch {
		case strings.ContainsAny(name, "[]"):
			return refuse("metadata", "stripe takes no square brackets in the names of metadata")
		case name == referenceMember || name == keyMember || name == captureMember || name == orderMember && order != "":
			return refuse("metadata."+name, "this name of metadata is taken")
		case len(value) > maxMetadataValue && len([]rune(value)) > maxMetadataValue:
			return refuse("metadata."+name, fmt.Sprintf("stripe keeps at most %d characters of a value of metadata", maxMetadataValue))
		}
	}
	return nil
}

package stripeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/homeward-io/homeward/payment"
)

// native is a stored object of the merchant's API.
type native struct {
	ID            string          `json:"id"`
	Object        string          `json:"object"`
	Amount        int64           `json:"amount"`
	Captured      int64           `json:"amount_captured"`
	CaptureMethod string          `json:"capture_method"`
	Currency      string          `json:"currency"`
	Status        string          `json:"status"`
	Created       int64           `json:"created"`
	Livemode      bool            `json:"livemode"`
	Charge        string          `json:"charge"`
	Destination   string          `json:"destination"`
	PaymentMethod *string         `json:"payment_method"`
	Description   *string         `json:"description"`
	Metadata      json.RawMessage `json:"metadata"`
	Reason        *string         `json:"reason"`
	ReceiptNumber *string         `json:"receipt_number"`
	// What a read has beside what was answered.
	Refunded  int64             `json:"amount_refunded"`
	Refunds   []native          `json:"refunds"`
	Disputes  []json.RawMessage `json:"disputes"`
	Reversed  int64             `json:"amount_reversed"`
	Reversals []native          `json:"reversals"`
	// Members of a payment beside its amount.
	ApplicationFee   json.RawMessage `json:"application_fee_amount"`
	Customer         json.RawMessage `json:"customer"`
	OnBehalfOf       json.RawMessage `json:"on_behalf_of"`
	SetupFutureUsage json.RawMessage `json:"setup_future_usage"`
	StatementSuffix  json.RawMessage `json:"statement_descriptor_suffix"`
	TransferData     json.RawMessage `json:"transfer_data"`
	// Members of a payment that waits for its payer.
	ClientSecret *string         `json:"client_secret"`
	NextAction   json.RawMessage `json:"next_action"`
	// Members that Stripe's objects lack follow those that they have.
	OrderID   json.RawMessage `json:"order_id"`
	ExpiresAt json.RawMessage `json:"expires_at"`
	Provider  json.RawMessage `json:"provider"`
	AsOf      json.RawMessage `json:"as_of"`
}

// The statuses of the merchant's API, which are those of a payment intent.
const (
	statusDone       = "succeeded"
	statusAction     = "requires_action"
	statusProcessing = "processing"
	statusHeld       = "requires_capture"
	statusCanceled   = "canceled"
	// statusFailed is that of a movement that was taken back after it had succeeded.
	statusFailed = "failed"
	// statusUnpaid is the intent's of a charge that failed.
	statusUnpaid = "requires_payment_method"
	// statusPending is that of a charge or refund whose outcome is open.
	statusPending = "pending"
)

func (n *native) done() bool { return n.Status == statusDone }

// intentStatus renders a status that this build does not have as processing: the payment may still
// succeed.
func (n *native) intentStatus() string {
	switch n.Status {
	case statusDone, statusAction, statusHeld, statusCanceled:
		return n.Status
	case statusFailed:
		return statusUnpaid
	default:
		return statusProcessing
	}
}

// chargeStatus: a charge that only holds its money has succeeded, and one that was
// released is refunded ("The Charge object", captured, refunded).
func (n *native) chargeStatus() string {
	switch n.Status {
	case statusDone, statusHeld, statusCanceled:
		return statusDone
	case statusFailed:
		return statusFailed
	default:
		return statusPending
	}
}

// moved is the amount that moved.
func (n *native) moved() int64 {
	switch {
	case !n.done():
		return 0
	case n.Captured > 0:
		return n.Captured
	default:
		return n.Amount
	}
}

// uncaptured is the part of a charge that was never captured; Stripe shows it as refunded.
func (n *native) uncaptured() int64 {
	switch {
	case n.Status == statusCanceled:
		return n.Amount
	case n.done() && n.Captured > 0:
		return n.Amount - n.Captured
	default:
		return 0
	}
}

// capturable is the amount that is held.
func (n *native) capturable() int64 {
	if n.Status == statusHeld {
		return n.Amount
	}
	return 0
}

func (n *native) captureMethod() string {
	if n.CaptureMethod == "" {
		return "automatic"
	}
	return n.CaptureMethod
}

// Object renders an object, the body of an answer that is not an error. It follows from v and the
// body alone. Members that a later event changes, such as amount_refunded, are those of the body: of
// an answer that is repeated, of the time when it was stored.
func (v View) Object(body []byte) ([]byte, error) {
	n, err := readNative(body)
	if err != nil {
		return nil, err
	}
	var rendered any
	switch {
	case v.Resource == PaymentIntent && n.Object == string(Charge):
		rendered = n.intent(v.expand...)
	case string(v.Resource) != n.Object:
		return nil, fmt.Errorf("stripeapi: a %s was requested, and a %s is stored", v.Resource, n.Object)
	case v.Resource == Charge:
		rendered = n.charge(v.expand...)
	case v.Resource == Refund:
		rendered = n.refund()
	default:
		rendered = n.transfer()
	}
	return json.Marshal(rendered)
}

func readNative(body []byte) (n native, err error) {
	if err := json.Unmarshal(body, &n); err != nil {
		return n, fmt.Errorf("stripeapi: the object cannot be read: %w", err)
	}
	if n.ID == "" || n.Object == "" || n.Status == "" {
		return n, errors.New("stripeapi: the object has no id, no kind or no status")
	}
	n.inUnits()
	return n, nil
}

// inUnits converts the amounts of n, and of the objects in it, to Stripe's units.
func (n *native) inUnits() {
	if n.Metadata == nil {
		n.Metadata = json.RawMessage(`{}`)
	}
	for _, amount := range []*int64{&n.Amount, &n.Captured, &n.Refunded, &n.Reversed} {
		*amount = stripeUnits(*amount, n.Currency)
	}
	if payment.OtherUnits(n.Currency) {
		n.ApplicationFee = inUnits(n.ApplicationFee, n.Currency)
		var data map[string]json.RawMessage
		if json.Unmarshal(n.TransferData, &data) == nil && data["amount"] != nil {
			data["amount"] = inUnits(data["amount"], n.Currency)
			n.TransferData, _ = json.Marshal(data) // as it was read
		}
	}
	for i := range n.Refunds {
		n.Refunds[i].inUnits()
	}
	for i := range n.Reversals {
		n.Reversals[i].inUnits()
	}
}

// inUnits converts an amount as it was stored, if there is one.
func inUnits(stored json.RawMessage, currency string) json.RawMessage {
	var amount int64
	if json.Unmarshal(stored, &amount) != nil {
		return stored
	}
	return strconv.AppendInt(nil, stripeUnits(amount, currency), 10)
}

// own are the members of the merchant's API that Stripe's lacks.
type own struct {
	OrderID   json.RawMessage `json:"order_id,omitempty"`
	ExpiresAt json.RawMessage `json:"expires_at,omitempty"`
	Provider  json.RawMessage `json:"provider,omitempty"`
	AsOf      json.RawMessage `json:"as_of,omitempty"`
}

func (n *native) own() own { return own{n.OrderID, n.ExpiresAt, n.Provider, n.AsOf} }

// null is a member that is always null.
type null struct{}

func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// none is an object without members.
type none struct{}

// charge is the schema "charge" of stripe/openapi, without its deprecated members.
type charge struct {
	ID                        string          `json:"id"`
	Object                    Resource        `json:"object"`
	Amount                    int64           `json:"amount"`
	AmountCaptured            int64           `json:"amount_captured"`
	AmountRefunded            int64           `json:"amount_refunded"`
	Application               null            `json:"application"`
	ApplicationFee            null            `json:"application_fee"`
	ApplicationFeeAmount      json.RawMessage `json:"application_fee_amount"`
	BalanceTransaction        null            `json:"balance_transaction"`
	BillingDetails            billingDetails  `json:"billing_details"`
	CalculatedDescriptor      null            `json:"calculated_statement_descriptor"`
	Captured                  bool            `json:"captured"`
	Created                   int64           `json:"created"`
	Currency                  string          `json:"currency"`
	Customer                  json.RawMessage `json:"customer"`
	Description               *string         `json:"description"`
	Disputed                  bool            `json:"disputed"`
	FailureBalanceTransaction null            `json:"failure_balance_transaction"`
	FailureCode               null            `json:"failure_code"`
	FailureMessage            null            `json:"failure_message"`
	FraudDetails              none            `json:"fraud_details"`
	Livemode                  bool            `json:"livemode"`
	Metadata                  json.RawMessage `json:"metadata"`
	OnBehalfOf                json.RawMessage `json:"on_behalf_of"`
	Outcome                   null            `json:"outcome"`
	Paid                      bool            `json:"paid"`
	PaymentIntent             any             `json:"payment_intent"` // an id, or an object
	PaymentMethod             *string         `json:"payment_method"`
	PaymentMethodDetails      null            `json:"payment_method_details"`
	ReceiptEmail              null            `json:"receipt_email"`
	ReceiptNumber             *string         `json:"receipt_number"`
	ReceiptURL                null            `json:"receipt_url"`
	Refunded                  bool            `json:"refunded"`
	Refunds                   *list           `json:"refunds,omitempty"` // with expand alone, since 2022-11-15
	Review                    null            `json:"review"`
	Shipping                  null            `json:"shipping"`
	SourceTransfer            null            `json:"source_transfer"`
	StatementDescriptor       null            `json:"statement_descriptor"`
	StatementDescriptorSuffix json.RawMessage `json:"statement_descriptor_suffix"`
	Status                    string          `json:"status"`
	TransferData              json.RawMessage `json:"transfer_data"`
	TransferGroup             null            `json:"transfer_group"`
	own
}

type billingDetails struct {
	Address address `json:"address"`
	Email   null    `json:"email"`
	Name    null    `json:"name"`
	Phone   null    `json:"phone"`
	TaxID   null    `json:"tax_id"`
}

type address struct {
	City       null `json:"city"`
	Country    null `json:"country"`
	Line1      null `json:"line1"`
	Line2      null `json:"line2"`
	PostalCode null `json:"postal_code"`
	State      null `json:"state"`
}

func (n *native) charge(expand ...string) *charge {
	c := &charge{
		ID: n.ID, Object: Charge, Amount: n.Amount, AmountCaptured: n.moved(), AmountRefunded: n.uncaptured() + n.Refunded, Captured: n.done(), Created: n.Created, Currency: n.Currency,
		Description: n.Description, Disputed: len(n.Disputes) > 0, Livemode: n.Livemode, Metadata: n.Metadata, Paid: n.chargeStatus() == statusDone, PaymentIntent: intentOf(n.ID),
		PaymentMethod: n.PaymentMethod, ReceiptNumber: n.ReceiptNumber, Status: n.chargeStatus(), own: n.own(),
		ApplicationFeeAmount: n.ApplicationFee, Customer: n.Customer, OnBehalfOf: n.OnBehalfOf, StatementDescriptorSuffix: n.StatementSuffix,
		TransferData: n.TransferData,
	}
	c.Refunded = c.AmountRefunded >= c.Amount && c.Amount > 0
	if slices.Contains(expand, expandIntent) {
		c.PaymentIntent = n.intent()
	}
	if slices.Contains(expand, expandRefunds) {
		c.Refunds = newList(n.refundsURL())
		for i := range n.Refunds[:min(len(n.Refunds), defaultPage)] {
			c.Refunds.Data = append(c.Refunds.Data, n.Refunds[i].refund())
		}
		c.Refunds.HasMore = len(n.Refunds) > defaultPage
	}
	return c
}

// refundsURL is where the refunds of a charge are listed.
func (n *native) refundsURL() string { return payment.Path(payment.Refund) + "?charge=" + n.ID }

// paymentIntent is the schema "payment_intent".
type paymentIntent struct {
	ID                        string          `json:"id"`
	Object                    Resource        `json:"object"`
	Amount                    int64           `json:"amount"`
	AmountCapturable          int64           `json:"amount_capturable"`
	AmountReceived            int64           `json:"amount_received"`
	Application               null            `json:"application"`
	ApplicationFeeAmount      json.RawMessage `json:"application_fee_amount"`
	AutomaticPaymentMethods   null            `json:"automatic_payment_methods"`
	CanceledAt                null            `json:"canceled_at"`
	CancellationReason        null            `json:"cancellation_reason"`
	CaptureMethod             string          `json:"capture_method"`
	ClientSecret              *string         `json:"client_secret"`
	ConfirmationMethod        string          `json:"confirmation_method"`
	Created                   int64           `json:"created"`
	Currency                  string          `json:"currency"`
	Customer                  json.RawMessage `json:"customer"`
	Description               *string         `json:"description"`
	LastPaymentError          null            `json:"last_payment_error"`
	LatestCharge              any             `json:"latest_charge"` // an id, or an object
	Livemode                  bool            `json:"livemode"`
	Metadata                  json.RawMessage `json:"metadata"`
	NextAction                json.RawMessage `json:"next_action"`
	OnBehalfOf                json.RawMessage `json:"on_behalf_of"`
	PaymentMethod             *string         `json:"payment_method"`
	PaymentMethodOptions      none            `json:"payment_method_options"`
	PaymentMethodTypes        []string        `json:"payment_method_types"`
	Processing                null            `json:"processing"`
	ReceiptEmail              null            `json:"receipt_email"`
	Review                    null            `json:"review"`
	SetupFutureUsage          json.RawMessage `json:"setup_future_usage"`
	Shipping                  null            `json:"shipping"`
	StatementDescriptor       null            `json:"statement_descriptor"`
	StatementDescriptorSuffix json.RawMessage `json:"statement_descriptor_suffix"`
	Status                    string          `json:"status"`
	TransferData              json.RawMessage `json:"transfer_data"`
	TransferGroup             null            `json:"transfer_group"`
	own
}

func (n *native) intent(expand ...string) *paymentIntent {
	pi := &paymentIntent{
		ID: intentOf(n.ID), Object: PaymentIntent, Amount: n.Amount, AmountCapturable: n.capturable(), AmountReceived: n.moved(), CaptureMethod: n.captureMethod(),
		ClientSecret: n.ClientSecret, NextAction: n.NextAction, ConfirmationMethod: "automatic", Created: n.Created, Currency: n.Currency, Description: n.Description, LatestCharge: n.ID,
		Livemode: n.Livemode, Metadata: n.Metadata, PaymentMethod: n.PaymentMethod, PaymentMethodTypes: []string{"card"},
		Status: n.intentStatus(), own: n.own(),
		ApplicationFeeAmount: n.ApplicationFee, Customer: n.Customer, OnBehalfOf: n.OnBehalfOf, SetupFutureUsage: n.SetupFutureUsage,
		StatementDescriptorSuffix: n.StatementSuffix, TransferData: n.TransferData,
	}
	if slices.Contains(expand, expandCharge) {
		var within []string
		if slices.Contains(expand, expandCharge+"."+expandRefunds) {
			within = []string{expandRefunds}
		}
		pi.LatestCharge = n.charge(within...)
	}
	return pi
}

// refund is the schema "refund".
type refund struct {
	ID                     string          `json:"id"`
	Object                 Resource        `json:"object"`
	Amount                 int64           `json:"amount"`
	BalanceTransaction     null            `json:"balance_transaction"`
	Charge                 string          `json:"charge"`
	Created                int64           `json:"created"`
	Currency               string          `json:"currency"`
	Metadata               json.RawMessage `json:"metadata"`
	PaymentIntent          string          `json:"payment_intent"`
	Reason                 *string         `json:"reason"`
	ReceiptNumber          *string         `json:"receipt_number"`
	SourceTransferReversal null            `json:"source_transfer_reversal"`
	Status                 string          `json:"status"`
	TransferReversal       null            `json:"transfer_reversal"`
	own
}

func (n *native) refund() *refund {
	r := &refund{
		ID: n.ID, Object: Refund, Amount: n.Amount, Charge: n.Charge, Created: n.Created, Currency: n.Currency, Metadata: n.Metadata,
		PaymentIntent: intentOf(n.Charge), Reason: n.Reason, ReceiptNumber: n.ReceiptNumber, Status: n.chargeStatus(), own: n.own(),
	}
	if r.Reason != nil && *r.Reason == payment.MadeAtProvider {
		r.Reason = nil // Stripe's has none
	}
	return r
}

// transfer is the schema "transfer".
type transfer struct {
	ID                 string          `json:"id"`
	Object             Resource        `json:"object"`
	Amount             int64           `json:"amount"`
	AmountReversed     int64           `json:"amount_reversed"`
	BalanceTransaction null            `json:"balance_transaction"`
	Created            int64           `json:"created"`
	Currency           string          `json:"currency"`
	Description        *string         `json:"description"`
	Destination        string          `json:"destination"`
	Livemode           bool            `json:"livemode"`
	Metadata           json.RawMessage `json:"metadata"`
	Reversals          *list           `json:"reversals"`
	Reversed           bool            `json:"reversed"`
	SourceTransaction  null            `json:"source_transaction"`
	TransferGroup      null            `json:"transfer_group"`
	own
}

// list is a page of objects.
type list struct {
	Object  string `json:"object"`
	Data    []any  `json:"data"`
	HasMore bool   `json:"has_more"`
	URL     string `json:"url"`
}

func newList(url string) *list { return &list{Object: "list", Data: []any{}, URL: url} }

// transferReversal is the schema "transfer_reversal".
type transferReversal struct {
	ID                       string `json:"id"`
	Object                   string `json:"object"`
	Amount                   int64  `json:"amount"`
	BalanceTransaction       null   `json:"balance_transaction"`
	Created                  int64  `json:"created"`
	Currency                 string `json:"currency"`
	DestinationPaymentRefund null   `json:"destination_payment_refund"`
	Metadata                 none   `json:"metadata"`
	SourceRefund             null   `json:"source_refund"`
	Transfer                 string `json:"transfer"`
}

// transfer: one that failed came back as a whole, and Stripe's has no status.
func (n *native) transfer() *transfer {
	t := &transfer{
		ID: n.ID, Object: Transfer, Amount: n.Amount, AmountReversed: n.Reversed, Created: n.Created, Currency: n.Currency, Description: n.Description,
		Destination: n.Destination, Livemode: n.Livemode, Metadata: n.Metadata, Reversals: newList(payment.Path(payment.Transfer) + "/" + n.ID + "/reversals"), own: n.own(),
	}
	if n.Status == statusFailed {
		t.AmountReversed = n.Amount
	}
	t.Reversed = t.AmountReversed >= t.Amount && t.Amount > 0
	for _, r := range n.Reversals {
		t.Reversals.Data = append(t.Reversals.Data, &transferReversal{ID: r.ID, Object: r.Object, Amount: r.Amount, Created: r.Created, Currency: r.Currency, Transfer: n.ID})
	}
	return t
}

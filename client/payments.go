package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/homeward-io/homeward/claim"
)

// ChargeParams are the parameters of [Client.Charge]. Amount, Currency and
// PaymentMethod must be set.
type ChargeParams struct {
	// Amount is in minor units of Currency: 1999 is 19.99 usd.
	Amount int64 `json:"amount"`
	// Currency is an ISO 4217 code in lower case.
	Currency string `json:"currency"`
	// PaymentMethod is a token (pm_…), never a card number.
	PaymentMethod string            `json:"payment_method"`
	Description   string            `json:"description,omitempty"`
	OrderID       string            `json:"order_id,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	// ExpiresAt is until when the charge is payable; zero for no limit.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Provider names the payment provider to use, one of the deployment's; "" means the
	// account's routes choose.
	Provider string `json:"provider,omitempty"`
	// CaptureMethod "manual" only holds the money, for a later [Client.Capture]; ""
	// captures it at once.
	CaptureMethod string `json:"capture_method,omitempty"`
	// OffSession false: the payer is present, and can authenticate if the bank asks. nil
	// is true: such a charge is declined.
	OffSession *bool `json:"off_session,omitempty"`
	// ReturnURL is the page to which a present payer returns.
	ReturnURL string `json:"return_url,omitempty"`
	// Customer is the provider's id of the payer who saved PaymentMethod. SetupFutureUsage
	// saves it: "on_session", "off_session", or "" for no.
	Customer         string `json:"customer,omitempty"`
	SetupFutureUsage string `json:"setup_future_usage,omitempty"`
	// StatementDescriptorSuffix ends the text on the payer's statement.
	StatementDescriptorSuffix string `json:"statement_descriptor_suffix,omitempty"`
	// Account is the connected account (acct_…) in which the charge is made, OnBehalfOf the
	// merchant of record, and TransferData names who gets the money. ApplicationFeeAmount is
	// what the platform keeps, in minor units. All are optional.
	Account              string        `json:"account,omitempty"`
	OnBehalfOf           string        `json:"on_behalf_of,omitempty"`
	TransferData         *TransferData `json:"transfer_data,omitempty"`
	ApplicationFeeAmount int64         `json:"application_fee_amount,omitempty"`

	// IdempotencyKey identifies the payment: calls with one key make one
	// payment. "" makes a new key.
	IdempotencyKey string `json:"-"`
}

// TransferData is the connected account (acct_…) that gets Amount of a charge, in minor
// units; 0 is all of it.
type TransferData struct {
	Destination string `json:"destination"`
	Amount      int64  `json:"amount,omitempty"`
}

// TransferParams are the parameters of [Client.Transfer]. Amount, Currency and
// Destination must be set; the other fields are as in [ChargeParams].
type TransferParams struct {
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	// Destination is the account to pay (acct_…).
	Destination string            `json:"destination"`
	Description string            `json:"description,omitempty"`
	OrderID     string            `json:"order_id,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	ExpiresAt   time.Time         `json:"expires_at,omitzero"`
	Provider    string            `json:"provider,omitempty"`

	IdempotencyKey string `json:"-"`
}

// RefundParams are the parameters of [Client.Refund]. Charge must be set.
type RefundParams struct {
	// Charge is the charge's id (ch_…).
	Charge string `json:"charge"`
	// Amount is in minor units of the charge's currency; 0 for the whole charge.
	Amount int64 `json:"amount,omitempty"`
	// Reason is a note of the merchant's; the payer does not see it.
	Reason   string            `json:"reason,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`

	IdempotencyKey string `json:"-"`
}

// CaptureParams are the parameters of [Client.Capture]. Charge must be set.
type CaptureParams struct {
	// Charge is the charge's id (ch_…).
	Charge string `json:"-"`
	// Amount is in minor units of the charge's currency; 0 for all that is held. A
	// charge is captured once: the provider releases the rest.
	Amount int64 `json:"amount,omitempty"`

	IdempotencyKey string `json:"-"`
}

// CancelParams are the parameters of [Client.Cancel]. Charge must be set, and be held or
// pending.
type CancelParams struct {
	Charge string `json:"-"`

	IdempotencyKey string `json:"-"`
}

// Provider names the movement at the payment provider.
type Provider struct {
	Name      string `json:"name"`
	Reference string `json:"reference"`
}

// Payment holds the common fields of charges, transfers and refunds. A refund
// has no Description, OrderID or ExpiresAt. Once the claim is deleted, some two days after the first use
// of its key, a read has of what was sent OrderID and Metadata alone, and no ReceiptNumber. Status is
// "failed" in a read of a payment that the provider took back after it had succeeded.
type Payment struct {
	ID       string `json:"id"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	Status   string `json:"status"`
	// Created is a Unix time in seconds; see [Payment.CreatedAt].
	Created       int64             `json:"created"`
	Description   string            `json:"description"`
	OrderID       string            `json:"order_id"`
	Metadata      map[string]string `json:"metadata"`
	ExpiresAt     time.Time         `json:"expires_at"`
	ReceiptNumber string            `json:"receipt_number"`
	Provider      Provider          `json:"provider"`
	// AsOf is the Unix time of a read, in seconds; 0 in the answer to a request that moves money.
	AsOf int64 `json:"as_of"`

	// Answer describes the response that carried the object.
	Answer Answer `json:"-"`
}

// CreatedAt is when the payment was first requested.
func (p *Payment) CreatedAt() time.Time { return time.Unix(p.Created, 0).UTC() }

// Charge is a charge that succeeded or waits, as its Status says: "requires_action" for the
// payer, "processing" for a bank, "requires_capture" for [Client.Capture]. The event
// or [Client.GetCharge] has its outcome; a call with the same key tries again if it was refused for now.
type Charge struct {
	Payment
	PaymentMethod string `json:"payment_method"`
	// AmountCapturable is the held amount and AmountCaptured the captured one of a charge with the
	// CaptureMethod "manual". Of any other, AmountCaptured is that of a read.
	AmountCapturable int64 `json:"amount_capturable"`
	AmountCaptured   int64 `json:"amount_captured"`
	// What [Client.GetCharge] reads beside what was answered: the sum of the refunds that have not
	// failed, all refunds, the disputes, and the money that moved though nobody asked for it. Lists
	// begin with the latest. A refund that is in flight is not among them.
	AmountRefunded int64             `json:"amount_refunded"`
	Refunds        []RefundOfCharge  `json:"refunds"`
	Disputes       []DisputeOfCharge `json:"disputes"`
	Compensations  []Compensation    `json:"compensations"`
	// ClientSecret and NextAction are set while Status is "requires_action": the
	// merchant's page needs them to let the payer continue. Their format is the
	// provider's.
	ClientSecret string          `json:"client_secret"`
	NextAction   json.RawMessage `json:"next_action"`
}

// Booked holds the common fields of what happened to a payment later. Created is the Unix time of its
// booking, in seconds.
type Booked struct {
	ID       string   `json:"id"`
	Amount   int64    `json:"amount"`
	Currency string   `json:"currency"`
	Status   string   `json:"status"`
	Created  int64    `json:"created"`
	Provider Provider `json:"provider"`
}

// RefundOfCharge is a refund in its charge; its Status is "succeeded", "failed", or "processing" while
// it is in flight: then it is in no sum, Created is when it was begun, and it has no Provider. Reason is
// "made_at_provider" for one that a person made at the provider, which has no object of its own; else
// [Client.GetRefund] has what was sent with it.
type RefundOfCharge struct {
	Booked
	Reason string `json:"reason"`
}

// DisputeOfCharge is a dispute of a charge; its Status is "open", "won" or "lost".
type DisputeOfCharge struct{ Booked }

// Compensation is money that the provider moved though nobody asked for it; its Status is "pending",
// "refunded", or "failed" if the provider took it back. It has no ID.
type Compensation struct{ Booked }

// TransferReversal is a part of a transfer that came back.
type TransferReversal struct{ Booked }

// Transfer is a completed transfer.
type Transfer struct {
	Payment
	Destination string `json:"destination"`
	// AmountReversed and Reversals are what came back, in a read.
	AmountReversed int64              `json:"amount_reversed"`
	Reversals      []TransferReversal `json:"reversals"`
}

// Refund is a completed refund of a charge or a part of it.
type Refund struct {
	Payment
	Charge string `json:"charge"`
	Reason string `json:"reason"`
}

// Answer is the metadata of the response that carried an object.
type Answer struct {
	// Raw is the response body, the same bytes for every retry.
	Raw []byte
	// IdempotencyKey is the key that the call used; empty for a GET.
	IdempotencyKey string
	// Replayed: the server replayed the answer of an earlier request.
	Replayed bool
	// HomeRegion is the key's home region, ServedBy the region that answered.
	HomeRegion, ServedBy string
	// ExpiresAt is until when retries read this answer; zero for a GET.
	ExpiresAt time.Time
	// Attempts is how many requests the call took.
	Attempts int
}

// Charge charges a payment method at most once per idempotency key. An error is
// an *[Error] unless the parameters or the configuration are at fault or ctx
// ended; even then an *Error is in its chain if an attempt was made.
func (cl *Client) Charge(ctx context.Context, p ChargeParams) (*Charge, error) {
	return create[Charge](ctx, cl, "/v1/charges", p.IdempotencyKey, p)
}

// Transfer pays out at most once per idempotency key. Errors are as in
// [Client.Charge].
func (cl *Client) Transfer(ctx context.Context, p TransferParams) (*Transfer, error) {
	return create[Transfer](ctx, cl, "/v1/transfers", p.IdempotencyKey, p)
}

// Refund refunds a charge, or a part of it, at most once per idempotency key. If the
// client stamps keys, the key that it makes names the charge's home. Errors are as in
// [Client.Charge]. DeclineCode "no_such_charge" means that no money moved for such a
// charge of this account, and "charge_failed" that the charge failed after it was
// booked, so the money has already returned.
func (cl *Client) Refund(ctx context.Context, p RefundParams) (*Refund, error) {
	key, err := cl.keyAt(p.Charge, p.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	return create[Refund](ctx, cl, "/v1/refunds", key, p)
}

// Capture captures the money that a charge holds, or a part of it. Keys and errors are as
// in [Client.Refund]; DeclineCode "already_captured" means that another amount was
// captured before, "charge_not_capturable" that the charge holds no money,
// "order_in_progress" that another capture or cancellation is in progress. If the provider
// reports the outcome later, Status is "processing": call Capture again with the same key,
// or wait for the event.
func (cl *Client) Capture(ctx context.Context, p CaptureParams) (*Charge, error) {
	key, err := cl.keyAt(p.Charge, p.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	return create[Charge](ctx, cl, "/v1/charges/"+url.PathEscape(p.Charge)+"/capture", key, p)
}

// Cancel cancels a charge before its money has moved. Keys and errors are as in [Client.Refund];
// DeclineCode "already_captured" means that its money has moved, and "charge_not_cancelable" that
// it is neither held nor pending.
func (cl *Client) Cancel(ctx context.Context, p CancelParams) (*Charge, error) {
	key, err := cl.keyAt(p.Charge, p.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	return create[Charge](ctx, cl, "/v1/charges/"+url.PathEscape(p.Charge)+"/cancel", key, p)
}

// Cancellation is what became of a key that was given up. Outcome is "unused", "not_made" or
// "refunded", and stays; or "refund_pending" or "unknown", and Homeward goes on by itself. Charge and Refund
// are ids, "" if there is none.
type Cancellation struct {
	IdempotencyKey string `json:"idempotency_key"`
	Outcome        string `json:"outcome"`
	Charge         string `json:"charge"`
	Refund         string `json:"refund"`

	// Answer describes the response.
	Answer Answer `json:"-"`
}

func (c *Cancellation) setAnswer(a Answer) { c.Answer = a }

func (c *Cancellation) whole() bool { return c.Outcome != "" }

// CancelKey gives a key up: the honest end of a wait. Whatever arrives under it later is refused, in every
// region ([CodeKeyCanceled]); what is in flight is called off, or refunded once it is known to have moved
// money. Call it again as often as you like, also for the end of a [Cancellation] that is pending. An
// [Error] with a DeclineCode ("already_made", "not_refundable", "outcome_unknown") says that money cannot be
// called back, and what a person has to do.
func (cl *Client) CancelKey(ctx context.Context, key string) (*Cancellation, error) {
	return do[Cancellation](ctx, cl, &call{method: http.MethodPost, path: "/v1/idempotency-keys/" + url.PathEscape(claim.FormatKey(key)) + "/cancel", key: key, inPath: true}, nil)
}

// keyAt returns the caller's key or, if the client stamps keys, a new key at the home
// of charge. "" leaves it to call to make one.
func (cl *Client) keyAt(charge, key string) (string, error) {
	if _, home, ok := claim.ReadObjectID(charge); ok && key == "" && cl.c.RegionCode != 0 {
		return claim.Stamp(home, nil)
	}
	return key, nil
}

// GetCharge reads a charge by its id, as it is now: later refunds, disputes and failures included. Call
// [Client.Charge] again with the same key for what was answered.
func (cl *Client) GetCharge(ctx context.Context, id string) (*Charge, error) {
	return get[Charge](ctx, cl, "/v1/charges/"+url.PathEscape(id))
}

// GetTransfer reads a transfer by its id, as it is now.
func (cl *Client) GetTransfer(ctx context.Context, id string) (*Transfer, error) {
	return get[Transfer](ctx, cl, "/v1/transfers/"+url.PathEscape(id))
}

// GetRefund reads a refund by its id, as it is now: "failed" if the provider took it back.
func (cl *Client) GetRefund(ctx context.Context, id string) (*Refund, error) {
	return get[Refund](ctx, cl, "/v1/refunds/"+url.PathEscape(id))
}

// MintKeys requests n stamped keys (1 to 1000) from the first region that
// answers, which becomes their home.
func (cl *Client) MintKeys(ctx context.Context, n int) ([]string, error) {
	var out minted
	_, err := cl.call(ctx, &call{method: http.MethodPost, path: "/v1/idempotency-keys", out: &out}, map[string]int{"count": n})
	return out.Keys, err
}

type minted struct {
	Keys []string `json:"keys"`
}

func (m *minted) whole() bool { return len(m.Keys) > 0 }

// answered sets the metadata of either object.
type answered[T any] interface {
	*T
	answer
	setAnswer(Answer)
}

func (p *Payment) setAnswer(a Answer) { p.Answer = a }

func (p *Payment) whole() bool { return p.ID != "" }

func create[T any, P answered[T]](ctx context.Context, cl *Client, path, key string, params any) (*T, error) {
	if key == "" {
		var err error
		if key, err = cl.NewKey(); err != nil {
			return nil, err
		}
	}
	return do[T, P](ctx, cl, &call{method: http.MethodPost, path: path, key: key}, params)
}

func get[T any, P answered[T]](ctx context.Context, cl *Client, path string) (*T, error) {
	return do[T, P](ctx, cl, &call{method: http.MethodGet, path: path}, nil)
}

func do[T any, P answered[T]](ctx context.Context, cl *Client, c *call, params any) (*T, error) {
	obj := new(T)
	c.out = P(obj)
	answer, err := cl.call(ctx, c, params)
	if err != nil {
		return nil, err
	}
	P(obj).setAnswer(answer)
	return obj, nil
}

func encode(params any) ([]byte, error) {
	if params == nil {
		return nil, nil
	}
	return json.Marshal(params)
}

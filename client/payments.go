package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/homeward-io/homeward/claim"
)

// ChargeParams is what to charge. Amount, Currency and PaymentMethod must be
// set.
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
	// ExpiresAt is when the charge stops being payable; zero for never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Provider names which of the deployment's payment providers is to make it; "" leaves
	// it to the account's routes.
	Provider string `json:"provider,omitempty"`
	// CaptureMethod "manual" only holds the money, for [Client.Capture]; "" takes it.
	CaptureMethod string `json:"capture_method,omitempty"`

	// IdempotencyKey makes repeated calls one payment; "" makes a new one.
	IdempotencyKey string `json:"-"`
}

// TransferParams is what to pay out. Amount, Currency and Destination must be
// set; the rest is as in [ChargeParams].
type TransferParams struct {
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	// Destination is the account that is paid (acct_…).
	Destination string            `json:"destination"`
	Description string            `json:"description,omitempty"`
	OrderID     string            `json:"order_id,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	ExpiresAt   time.Time         `json:"expires_at,omitzero"`
	Provider    string            `json:"provider,omitempty"`

	IdempotencyKey string `json:"-"`
}

// RefundParams is what to give back. Charge must be set.
type RefundParams struct {
	// Charge is the charge's id (ch_…).
	Charge string `json:"charge"`
	// Amount is in minor units of the charge's currency; 0 for the whole charge.
	Amount int64 `json:"amount,omitempty"`
	// Reason is the merchant's own; the payer does not see it.
	Reason   string            `json:"reason,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`

	IdempotencyKey string `json:"-"`
}

// CaptureParams is which held charge to capture. Charge must be set.
type CaptureParams struct {
	// Charge is the charge's id (ch_…).
	Charge string `json:"-"`
	// Amount is in minor units of the charge's currency; 0 for all that is held. What is
	// left is let go: a charge is captured once.
	Amount int64 `json:"amount,omitempty"`

	IdempotencyKey string `json:"-"`
}

// CancelParams is which charge to cancel: one that is held, or waits. Charge must be set.
type CancelParams struct {
	Charge string `json:"-"`

	IdempotencyKey string `json:"-"`
}

// Provider names the movement at the payment provider.
type Provider struct {
	Name      string `json:"name"`
	Reference string `json:"reference"`
}

// Payment is what charges, transfers and refunds have in common. A refund has no
// Description, OrderID and ExpiresAt.
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

	// Answer is how the object was answered.
	Answer Answer `json:"-"`
}

// CreatedAt is when the payment was first asked for.
func (p *Payment) CreatedAt() time.Time { return time.Unix(p.Created, 0).UTC() }

// Charge is a charge that was made, or waits, as its Status says: "requires_action" for
// the payer, "processing" for a bank, "requires_capture" for [Client.Capture]. Asking again with the same key, or [Client.GetCharge],
// tells what became of it.
type Charge struct {
	Payment
	PaymentMethod string `json:"payment_method"`
	// AmountCapturable is held, AmountCaptured has moved, of a charge whose CaptureMethod was
	// "manual"; 0 of any other.
	AmountCapturable int64 `json:"amount_capturable"`
	AmountCaptured   int64 `json:"amount_captured"`
	// ClientSecret and NextAction are of one whose Status is "requires_action": what the
	// merchant's page needs for the payer to go on, in the provider's words.
	ClientSecret string          `json:"client_secret"`
	NextAction   json.RawMessage `json:"next_action"`
}

// Transfer is a transfer that was made.
type Transfer struct {
	Payment
	Destination string `json:"destination"`
}

// Refund is a refund that was made, wholly or in part.
type Refund struct {
	Payment
	Charge string `json:"charge"`
	Reason string `json:"reason"`
}

// Answer is what came with an object.
type Answer struct {
	// Raw is the body, the same bytes for every retry.
	Raw []byte
	// IdempotencyKey is the key that the call used; empty for a GET.
	IdempotencyKey string
	// Replayed: the answer was remembered from an earlier request.
	Replayed bool
	// HomeRegion is the key's home, ServedBy the region that answered.
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

// Refund gives back a charge, or a part of it, at most once per idempotency key.
// Where the client stamps keys, the one that it makes names the charge's home. Errors
// are as in [Client.Charge]; one with the DeclineCode "no_such_charge" says that no
// money moved for such a charge of this account, and "charge_failed" that it has gone
// back by itself since.
func (cl *Client) Refund(ctx context.Context, p RefundParams) (*Refund, error) {
	key, err := cl.keyAt(p.Charge, p.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	return create[Refund](ctx, cl, "/v1/refunds", key, p)
}

// Capture takes the money that a charge holds, or a part of it. Keys and errors are as in
// [Client.Refund]; DeclineCode "already_captured" says that another amount of it was taken
// before, "charge_not_capturable" that it holds none, "order_in_progress" that another
// capture or cancellation is under way. Where the provider tells later what comes of it the
// Status is "processing": Capture again with the same key, or wait for the event.
func (cl *Client) Capture(ctx context.Context, p CaptureParams) (*Charge, error) {
	key, err := cl.keyAt(p.Charge, p.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	return create[Charge](ctx, cl, "/v1/charges/"+url.PathEscape(p.Charge)+"/capture", key, p)
}

// Cancel ends a charge whose money has not moved. Keys and errors are as in
// [Client.Refund]; DeclineCode "already_captured" says that its money has moved, and
// "charge_not_cancelable" that it waits for nothing.
func (cl *Client) Cancel(ctx context.Context, p CancelParams) (*Charge, error) {
	key, err := cl.keyAt(p.Charge, p.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	return create[Charge](ctx, cl, "/v1/charges/"+url.PathEscape(p.Charge)+"/cancel", key, p)
}

// keyAt is the caller's key or, where the client stamps keys, one that names the home of
// charge; "" leaves it to others to make one.
func (cl *Client) keyAt(charge, key string) (string, error) {
	if _, home, ok := claim.ReadObjectID(charge); ok && key == "" && cl.c.RegionCode != 0 {
		return claim.Stamp(home, nil)
	}
	return key, nil
}

// GetCharge reads a charge by its id.
func (cl *Client) GetCharge(ctx context.Context, id string) (*Charge, error) {
	return get[Charge](ctx, cl, "/v1/charges/"+url.PathEscape(id))
}

// GetTransfer reads a transfer by its id.
func (cl *Client) GetTransfer(ctx context.Context, id string) (*Transfer, error) {
	return get[Transfer](ctx, cl, "/v1/transfers/"+url.PathEscape(id))
}

// GetRefund reads a refund by its id.
func (cl *Client) GetRefund(ctx context.Context, id string) (*Refund, error) {
	return get[Refund](ctx, cl, "/v1/refunds/"+url.PathEscape(id))
}

// MintKeys asks the region that answers for n stamped keys (1 to 1000) whose
// home it is.
func (cl *Client) MintKeys(ctx context.Context, n int) ([]string, error) {
	var out struct {
		Keys []string `json:"keys"`
	}
	_, err := cl.call(ctx, &call{method: http.MethodPost, path: "/v1/idempotency-keys", out: &out}, map[string]int{"count": n})
	return out.Keys, err
}

// answered lets the answer be put into either object.
type answered[T any] interface {
	*T
	setAnswer(Answer)
}

func (p *Payment) setAnswer(a Answer) { p.Answer = a }

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
	c.out = obj
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

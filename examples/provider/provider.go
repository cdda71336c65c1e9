package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// giftCards is a provider of gift cards. By its documentation it answers a request with an
// Idempotency-Key of the last 24 hours as it answered the first one, and one with other parameters
// with 409. It shows no movement afterwards, has no transfers, and holds nothing for later.
type giftCards struct {
	psp.NoCapture // refuses Capture and Cancel, and sends nothing
	baseURL       string
	client        *http.Client
}

var _ psp.Provider = (*giftCards)(nil)

func newGiftCards(baseURL string) *giftCards {
	return &giftCards{baseURL: baseURL, client: &http.Client{Transport: &http.Transport{}}}
}

// Name is stored in records and books: it never changes.
func (*giftCards) Name() string { return "giftcards" }

// Capabilities are what the documentation promises, and nothing more: they decide
// whether a second call is safe.
func (*giftCards) Capabilities() psp.Capabilities {
	return psp.Capabilities{
		Dedupe:      psp.DedupeKeyAndParameters,
		KeyLife:     24 * time.Hour,
		NoTransfers: true,
		Blind:       true,
		Timeout:     10 * time.Second,
	}
}

func (g *giftCards) Charge(ctx context.Context, call psp.Call) psp.Result {
	if member := call.Terms.Special(); member != "" {
		return psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{
			Class: psp.Invalid, Code: "unsupported", Member: member, Message: "gift cards have no " + member,
		}}
	}
	return g.move(ctx, "/v1/charges", call)
}

func (g *giftCards) Refund(ctx context.Context, call psp.Call) psp.Result {
	return g.move(ctx, "/v1/refunds", call)
}

func (*giftCards) Transfer(context.Context, psp.Call) psp.Result {
	return psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{
		Class: psp.Invalid, Code: "unsupported", Message: "gift cards cannot be transferred to",
	}}
}

var errBlind = errors.New("the provider shows no movement")

func (*giftCards) Lookup(context.Context, psp.Call) (psp.Found, psp.Result) {
	return psp.FoundUnknown, psp.Result{Err: errBlind}
}

func (*giftCards) Show(context.Context, psp.Kind, string, string) (psp.Found, psp.Movement, error) {
	return psp.FoundUnknown, psp.Movement{}, errBlind
}

// move sends one request and never a second: the claim above decides whether that is safe.
// Without a reply of the provider's own the outcome is Unknown.
func (g *giftCards) move(ctx context.Context, path string, call psp.Call) psp.Result {
	body, err := json.Marshal(map[string]any{
		"reference": call.Reference, "amount": call.Amount, "currency": call.Currency, "source": call.Source,
	})
	if err != nil {
		return psp.Result{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, g.Capabilities().Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.baseURL+path, bytes.NewReader(body))
	if err != nil {
		return psp.Result{Err: err}
	}
	req.GetBody = nil // or net/http would repeat the request after its connection broke
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", call.Key)
	res, err := g.client.Do(req)
	if err != nil {
		return psp.Result{Err: err}
	}
	defer func() { _ = res.Body.Close() }() // its error changes nothing: the reply has been read
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return psp.Result{Err: err}
	}
	return outcome(res.StatusCode, text, call)
}

// outcome reads the provider's reply. A gateway in between sends the same status codes, so a code
// alone decides nothing.
func outcome(status int, text []byte, call psp.Call) psp.Result {
	var reply struct {
		ID, Status, Reference, Currency string
		Amount                          int64
		Error                           struct{ Class, Code, Message string }
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return psp.Result{Err: fmt.Errorf("status %d, and the reply is not the provider's: %w", status, err)}
	}
	classes := map[string]psp.Class{"soft": psp.Soft, "hard": psp.Hard, "invalid": psp.Invalid}
	class, declined := classes[reply.Error.Class]
	switch {
	case status == http.StatusOK && reply.Status == "succeeded" && reply.ID != "" &&
		reply.Reference == call.Reference && reply.Amount == call.Amount && reply.Currency == call.Currency:
		return psp.Result{Outcome: psp.Approved, ProviderRef: reply.ID}
	case declined && (status == http.StatusPaymentRequired || class == psp.Invalid && status/100 == 4):
		return psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: class, Code: reply.Error.Code, Message: reply.Error.Message}}
	case status == http.StatusConflict && reply.Error.Class == "key_reuse":
		return psp.Result{Err: psp.ErrKeyReused}
	}
	return psp.Result{Err: fmt.Errorf("status %d, class %q", status, reply.Error.Class)}
}

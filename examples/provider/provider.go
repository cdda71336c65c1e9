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

// giftCards is a provider of gift cards. Its documentation says: a request with an Idempotency-Key
// that was seen in the last 24 hours is answered as the first one was, and one with other
// parameters with 409. It shows no movement afterwards, has no transfers, and holds nothing for
// later.
type giftCards struct {
	psp.NoCapture // Capture and Cancel are refused, and nothing is sent
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
// Every way out of it that the provider's own words do not decide is Unknown.
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
	req.GetBody = nil // or net/http would repeat the request on a connection that broke
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", call.Key)
	res, err := g.client.Do(req)
	if err != nil {
		return psp.Result{Err: err}
	}
	defer func() { _ = res.Body.Close() }() // it has been read
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return psp.Result{Err: err}
	}
	return outcome(res.StatusCode, text, call)
}

// outcome reads the provider's reply. A gateway in between speaks the same status codes, so a code
// alone decides nothing.
func outcome(status int, text []byte, call psp.Call) psp.Result {
	var said struct {
		ID, Status, Reference, Currency string
		Amount                          int64
		Error                           struct{ Class, Code, Message string }
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return psp.Result{Err: fmt.Errorf("status %d without the provider's words: %w", status, err)}
	}
	classes := map[string]psp.Class{"soft": psp.Soft, "hard": psp.Hard, "invalid": psp.Invalid}
	class, declined := classes[said.Error.Class]
	switch {
	case status == http.StatusOK && said.Status == "succeeded" && said.ID != "" &&
		said.Reference == call.Reference && said.Amount == call.Amount && said.Currency == call.Currency:
		return psp.Result{Outcome: psp.Approved, ProviderRef: said.ID}
	case declined && (status == http.StatusPaymentRequired || class == psp.Invalid && status/100 == 4):
		return psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: class, Code: said.Error.Code, Message: said.Error.Message}}
	case status == http.StatusConflict && said.Error.Class == "key_reuse":
		return psp.Result{Err: psp.ErrKeyReused}
	}
	return psp.Result{Err: fmt.Errorf("status %d, class %q", status, said.Error.Class)}
}

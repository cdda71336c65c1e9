package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/homeward-io/homeward/client"
)

// A region that loses the first reply after the charge was made, as networks
// do. The client sends the same request again and reads what was remembered.
func ExampleClient_Charge() {
	lost := false
	region := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !lost {
			lost = true
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Idempotent-Replayed", "true")
		w.Header().Set("Homeward-Home-Region", "us-east1")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":"ch_1","object":"charge","amount":1999,"currency":"usd","status":"succeeded"}`)
	}))
	defer region.Close()

	c, err := client.New(client.Config{
		BaseURLs:   []string{region.URL},
		APIKey:     "sk_demo_acme",
		BackoffMin: time.Millisecond,
		BackoffMax: time.Millisecond,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	charge, err := c.Charge(context.Background(), client.ChargeParams{
		Amount: 1999, Currency: "usd", PaymentMethod: "pm_card_visa",
		IdempotencyKey: "order-7", // from the order, so that a crash here makes no second charge
	})
	var refused *client.Error
	switch {
	case errors.As(err, &refused):
		fmt.Println("not charged, or unknown:", refused.Code, refused.Retry)
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println(charge.ID, charge.Status, "replayed:", charge.Answer.Replayed, "home:", charge.Answer.HomeRegion)
	}
	// Output: ch_1 succeeded replayed: true home: us-east1
}

// An order's page times out while its charge has no answer. The shop cancels the key, also while the
// charge is still under way in another process: from then on the order is not paid, or paid back.
func ExampleClient_CancelKey() {
	region := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/charges" {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done() // no answer
			return
		}
		_, _ = io.WriteString(w, `{"object":"cancellation","idempotency_key":"order-7","outcome":"refunded","charge":"ch_1","refund":"re_1"}`)
	}))
	defer region.Close()

	c, err := client.New(client.Config{BaseURLs: []string{region.URL}, APIKey: "sk_demo_acme"})
	if err != nil {
		fmt.Println(err)
		return
	}
	page, leave := context.WithTimeout(context.Background(), 10*time.Millisecond) // a shop waits for some 20 s
	defer leave()
	if _, err = c.Charge(page, client.ChargeParams{
		Amount: 1999, Currency: "usd", PaymentMethod: "pm_card_visa", IdempotencyKey: "order-7",
	}); err == nil || page.Err() == nil {
		fmt.Println("it has an outcome:", err)
		return
	}
	gone, err := c.CancelKey(context.Background(), "order-7")
	switch {
	case err != nil: // no answer, or the money cannot be called back: a job cancels again, or a person decides
		fmt.Println(err)
	case gone.Outcome == "unknown", gone.Outcome == "refund_pending":
		fmt.Println("not paid: whatever moved is refunded, whether anybody asks again or not")
	default:
		fmt.Println("not paid:", gone.Outcome, gone.Charge, gone.Refund)
	}
	// Output: not paid: refunded ch_1 re_1
}

// Command operation pays at somebody's API, at most once for each order:
//
//	go run ./examples/operation --data ./payments-data --provider http://127.0.0.1:9000 --order order-1
//
// The provider dedupes by the header Idempotency-Key. So the function is repeatable: when it is called
// again after a crash or a time-out it sends the same call under the same key, and learns what the
// first one came to.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/homeward-io/homeward"
	"github.com/homeward-io/homeward/claim"
)

func main() {
	data := flag.String("data", "payments-data", "directory of the claims")
	provider := flag.String("provider", "http://127.0.0.1:9000", "base URL of the provider")
	order := flag.String("order", "", "id of the order")
	amount := flag.Int64("amount", 1999, "amount in cents")
	flag.Parse()
	ctx := context.Background()
	h, err := homeward.Open(ctx, homeward.Embedded(*data))
	if err != nil {
		log.Fatal(err)
	}
	reply, err := pay(ctx, h, *provider, *order, *amount)
	if err := errors.Join(err, h.Close(ctx)); err != nil {
		log.Fatal(err)
	}
	_, _ = fmt.Fprintf(os.Stdout, "%s: %s\n", reply.State, reply.Body)
}

// pay asks until the outcome is known.
func pay(ctx context.Context, h *homeward.Homeward, provider, order string, amount int64) (homeward.Reply, error) {
	request, err := json.Marshal(map[string]any{"order": order, "amount": amount})
	if err != nil {
		return homeward.Reply{}, err
	}
	op := homeward.Op{Tenant: "shop", Name: "pay", Key: order, Request: request, Repeatable: true}
	for {
		reply, err := h.Do(ctx, op, func(ctx context.Context, a homeward.Attempt) homeward.Outcome {
			return call(ctx, provider, request, a)
		})
		var unknown *claim.UnknownError
		if !errors.As(err, &unknown) {
			return reply, err
		}
		select {
		case <-time.After(unknown.RetryAfter):
		case <-ctx.Done():
			return homeward.Reply{}, ctx.Err()
		}
	}
}

// call is one attempt at the provider.
func call(ctx context.Context, provider string, request []byte, a homeward.Attempt) homeward.Outcome {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, provider+"/payments", bytes.NewReader(request))
	if err != nil {
		return homeward.Released{Reason: "bad_url"}
	}
	r.Header.Set("Idempotency-Key", a.Key) // and not the order's: the provider's keys are ours alone
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return homeward.Unknown{Reason: "no_answer"}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil || resp.StatusCode >= 500:
		return homeward.Unknown{Reason: "no_answer"}
	case resp.StatusCode < 300:
		return homeward.Done{Reply: body}
	case slices.Contains([]int{http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly}, resp.StatusCode):
		return homeward.Unknown{Reason: "under_way"} // the first call may be
	case slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}, resp.StatusCode):
		if a.Recovery {
			return homeward.Unknown{Reason: "repeat_refused"} // which says nothing about the call before
		}
		return homeward.Released{Reply: body, Reason: "not_now"}
	default:
		return homeward.Refused{Reply: body, Reason: "declined"}
	}
}

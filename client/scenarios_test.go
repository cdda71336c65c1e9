package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/sdk"
)

// instruction is what the harness asks for: see sdk/README.md.
type instruction struct {
	Wrong  string
	Client *struct {
		Bases         []string `json:"base_urls"`
		APIKey        string   `json:"api_key"`
		MaxAttempts   int      `json:"max_attempts"`
		Timeout       int      `json:"timeout_ms"`
		BackoffMin    int      `json:"backoff_min_ms"`
		BackoffMax    int      `json:"backoff_max_ms"`
		RecordsPauses bool     `json:"records_pauses"`
	}
	Call string
	Args struct {
		Key, Charge, ID, Text string
		Amount                int64
		Count                 int
		Home                  claim.RegionCode
		OrderID               string `json:"order_id"`
		CreatedFrom           int64  `json:"created_from"`
		CreatedUntil          int64  `json:"created_until"`
		After, Before         string
		Limit                 int
		Params                json.RawMessage
	}
	Times int
}

// The scenarios of every client, sdk/scenarios.json. HOMEWARD_SDK is the harness's address; without it
// those run that need no cluster. go run ./sdk/harness go test ./client runs all beside a demo.
func TestScenarios(t *testing.T) {
	at := os.Getenv("HOMEWARD_SDK")
	if at == "" {
		h, err := sdk.New(sdk.World{})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(h)
		t.Cleanup(func() {
			server.Close()
			h.Close()
		})
		at = server.URL
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	ask := func(path string, result, next any) {
		t.Helper()
		body := &bytes.Buffer{}
		if result != nil {
			if err := json.NewEncoder(body).Encode(result); err != nil {
				t.Fatal(err)
			}
		}
		method := http.MethodPost
		if path == "/" {
			method = http.MethodGet
		}
		req, err := http.NewRequestWithContext(t.Context(), method, at+path, body)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(next); err != nil {
			t.Fatal(err)
		}
	}
	var all []struct{ Name, At string }
	ask("/", nil, &all)
	if len(all) == 0 {
		t.Fatal("there are no scenarios")
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			var p player
			var step instruction
			ask(s.At, nil, &step)
			for step.Call != "" {
				var result any
				if results := p.play(t, step); len(results) > 1 {
					result = results
				} else {
					result = results[0]
				}
				step = instruction{}
				ask(s.At, result, &step)
			}
			if step.Wrong != "" {
				t.Error(step.Wrong)
			}
		})
	}
}

// player has the client of a scenario.
type player struct {
	client *Client
	mu     sync.Mutex
	pauses []float64 // in ms
}

type result map[string]any

// play makes the calls of a step at once.
func (p *player) play(t *testing.T, step instruction) []result {
	if c := step.Client; c != nil {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
		conf := Config{
			BaseURLs: c.Bases, APIKey: c.APIKey, MaxAttempts: c.MaxAttempts, HTTPClient: &http.Client{Transport: transport},
			Timeout: ms(c.Timeout), BackoffMin: ms(c.BackoffMin), BackoffMax: ms(c.BackoffMax),
		}
		if c.RecordsPauses {
			conf.Sleep = func(ctx context.Context, d time.Duration) error {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.pauses = append(p.pauses, float64(d)/float64(time.Millisecond))
				return ctx.Err()
			}
		}
		var err error
		if p.client, err = New(conf); err != nil {
			t.Fatal(err)
		}
	}
	p.pauses = nil
	results := make([]result, step.Times)
	var calls sync.WaitGroup
	for i := range results {
		calls.Go(func() { results[i] = p.call(t, step) })
	}
	calls.Wait()
	for _, r := range results {
		r["pauses"] = slices.Clone(p.pauses)
	}
	return results
}

// call makes one.
func (p *player) call(t *testing.T, step instruction) result {
	ctx, a := t.Context(), step.Args
	read := func(to any) {
		if err := json.Unmarshal(a.Params, to); err != nil {
			t.Error(err)
		}
	}
	moved := func(obj interface{ answer() *Answer }, err error) result {
		r, key := moved(obj, err), ""
		if e, ok := errors.AsType[*Error](err); ok {
			key = e.IdempotencyKey
		} else if err == nil {
			key = obj.answer().IdempotencyKey
		}
		if key != a.Key {
			t.Errorf("the key %q was reported as %q", a.Key, key)
		}
		return r
	}
	switch step.Call {
	case "charge":
		params := ChargeParams{IdempotencyKey: a.Key}
		read(&params)
		return moved(p.client.Charge(ctx, params))
	case "transfer":
		params := TransferParams{IdempotencyKey: a.Key}
		read(&params)
		return moved(p.client.Transfer(ctx, params))
	case "refund":
		params := RefundParams{IdempotencyKey: a.Key}
		read(&params)
		return moved(p.client.Refund(ctx, params))
	case "capture":
		return moved(p.client.Capture(ctx, CaptureParams{Charge: a.Charge, Amount: a.Amount, IdempotencyKey: a.Key}))
	case "cancel":
		return moved(p.client.Cancel(ctx, CancelParams{Charge: a.Charge, IdempotencyKey: a.Key}))
	case "cancel_key":
		return found(p.client.CancelKey(ctx, a.Key))
	case "get_charge":
		return found(p.client.GetCharge(ctx, a.ID))
	case "get_transfer":
		return found(p.client.GetTransfer(ctx, a.ID))
	case "get_refund":
		return found(p.client.GetRefund(ctx, a.ID))
	case "list_charges":
		params := ChargeListParams{PageParams: PageParams{a.After, a.Before, a.Limit}, OrderID: a.OrderID}
		if a.CreatedFrom != 0 {
			params.From = time.Unix(a.CreatedFrom, 0)
		}
		if a.CreatedUntil != 0 {
			params.Until = time.Unix(a.CreatedUntil, 0)
		}
		return found(p.client.ListCharges(ctx, params))
	case "list_refunds":
		return found(p.client.ListRefunds(ctx, a.Charge, PageParams{a.After, a.Before, a.Limit}))
	case "mint_keys":
		keys, err := p.client.MintKeys(ctx, a.Count)
		if err != nil {
			return failed(err)
		}
		return result{"keys": keys}
	case "new_key":
		key, err := claim.Stamp(a.Home, nil)
		if err != nil {
			t.Error(err)
		}
		return result{"key": key}
	case "home_of":
		home, ok := claim.ReadStamp(a.Text)
		if !ok {
			_, home, ok = claim.ReadObjectID(a.Text)
		}
		if !ok {
			return result{"home": nil}
		}
		return result{"home": home}
	}
	t.Errorf("this client has no %s", step.Call)
	return result{}
}

func (c *Cancellation) answer() *Answer { return &c.Answer }

func (l *List[T]) answer() *Answer { return &l.Answer }

func (p *Payment) answer() *Answer { return &p.Answer } // of a charge, a transfer or a refund

// moved is what came of a call that moves money, in the words of the harness. An outcome that waits is an
// object here, and the others are errors.
func moved(obj interface{ answer() *Answer }, err error) result {
	if err != nil {
		return failed(err)
	}
	a := obj.answer()
	r := result{
		"outcome": "succeeded", "object": json.RawMessage(a.Raw), "raw": string(a.Raw), "attempts": a.Attempts, "replayed": a.Replayed,
		"home_region": a.HomeRegion, "served_by": a.ServedBy,
	}
	if !a.ExpiresAt.IsZero() {
		r["expires_at"] = a.ExpiresAt.Unix()
	}
	var of struct{ Status string }
	_ = json.Unmarshal(a.Raw, &of)
	if of.Status == "requires_action" || of.Status == "processing" || of.Status == "requires_capture" {
		r["outcome"], r["why"], r["retry"] = "unknown", "waiting", RetrySameKey
	}
	return r
}

func found(obj interface{ answer() *Answer }, err error) result {
	if err != nil {
		r := failed(err)
		r["outcome"] = "refused"
		return r
	}
	return result{"outcome": "found", "object": json.RawMessage(obj.answer().Raw)}
}

func failed(err error) result {
	var e *Error
	if !errors.As(err, &e) {
		return result{"outcome": err.Error()}
	}
	r := result{
		"status": e.Status, "error": e.Code, "member": e.Member, "code": e.DeclineCode, "retry": e.Retry,
		"retry_after_ms": e.RetryAfter.Milliseconds(), "attempts": e.Attempts, "replayed": e.Replayed, "home_region": e.HomeRegion,
	}
	why := func(why string) { r["outcome"], r["why"] = "unknown", why }
	switch {
	case e.DeclineCode != "", e.Code == CodeKeyCanceled:
		r["outcome"] = "declined"
	case e.Code == CodeKeyExpired:
		why("expired")
	case e.Code == CodeOutcomeUnknown && e.Retry != RetrySameKey:
		why("given_up")
	case e.Retry != RetrySameKey:
		r["outcome"] = "refused"
	case e.Code == "":
		why("no_answer")
	case e.Status < http.StatusInternalServerError && e.Code != CodeKeyInUse && e.Code != CodeRateLimited:
		why("refused") // its own retry was another one
	default:
		why("in_progress")
	}
	if open := r["why"] == "no_answer" || r["why"] == "refused" || r["why"] == "in_progress" && e.Code != CodeRateLimited; e.Unknown != open {
		r["outcome"] = fmt.Sprintf("%s, and Unknown is %t", r["outcome"], e.Unknown)
	}
	return r
}

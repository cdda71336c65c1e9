package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/homeward-io/homeward/claim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// region is a server with scripted answers; the last one repeats.
type region struct {
	*httptest.Server
	mu     sync.Mutex
	script []http.HandlerFunc
	seen   []*http.Request
	bodies []string
}

func newRegion(t *testing.T, script ...http.HandlerFunc) *region {
	r := &region{script: script}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		next := r.script[min(len(r.seen), len(r.script)-1)]
		r.seen, r.bodies = append(r.seen, req.Clone(context.Background())), append(r.bodies, string(body))
		r.mu.Unlock()
		next(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// log returns what has arrived so far.
func (r *region) log() (requests []*http.Request, bodies []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen), slices.Clone(r.bodies)
}

func (r *region) requests() []*http.Request {
	seen, _ := r.log()
	return seen
}

func refuse(status int, code string, retry Retry, more string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Homeward-Home-Region", "europe-west1")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":%q,"detail":"Why.","retry":%q%s}`, code, retry, more)
	}
}

func plain(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const chargeJSON = `{"id":"ch_1","object":"charge","amount":1999,"currency":"usd","status":"succeeded","created":1893456000,` +
	`"payment_method":"pm_1","metadata":{"a":"b"},"receipt_number":"R","provider":{"name":"sim","reference":"px_1"}}`

var made = plain(201, chargeJSON, "Idempotent-Replayed", "true", "Homeward-Home-Region", "europe-west1",
	"Homeward-Served-By", "us-east1", "Idempotency-Expires-At", "2030-01-02T12:00:00Z")

// newClient returns a client that records its sleeps instead of sleeping.
func newClient(t *testing.T, slept *[]time.Duration, change func(*Config), regions ...*region) *Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := Config{
		APIKey: "sk_1", MaxAttempts: 4, HTTPClient: &http.Client{Transport: transport},
		Sleep: func(ctx context.Context, d time.Duration) error {
			*slept = append(*slept, d)
			return ctx.Err()
		},
	}
	for _, r := range regions {
		c.BaseURLs = append(c.BaseURLs, r.URL)
	}
	if change != nil {
		change(&c)
	}
	cl, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

var params = ChargeParams{Amount: 1999, Currency: "usd", PaymentMethod: "pm_1", Metadata: map[string]string{"a": "b"}}

// What a proxy answered is no part of the API's later answer.
func TestAProxysJSONLeavesNothingBehind(t *testing.T) {
	var slept []time.Duration
	r := newRegion(t, plain(200, `{"description":"We will be back soon.","metadata":{"code":"maintenance"},"refunds":[{"id":"x"}],"amount_refunded":7}`), made)
	got, err := newClient(t, &slept, nil, r).Charge(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	want, err := newClient(t, &slept, nil, newRegion(t, made)).Charge(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	got.Answer, want.Answer = Answer{}, Answer{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestChargeSucceeds(t *testing.T) {
	var slept []time.Duration
	r := newRegion(t, made)
	cl := newClient(t, &slept, nil, r)
	p := params
	p.IdempotencyKey = `order "7"`
	p.ExpiresAt = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	got, err := cl.Charge(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	want := &Charge{PaymentMethod: "pm_1", Payment: Payment{
		ID: "ch_1", Amount: 1999, Currency: "usd", Status: "succeeded", Created: 1893456000,
		Metadata: map[string]string{"a": "b"}, ReceiptNumber: "R", Provider: Provider{"sim", "px_1"},
		Answer: Answer{
			Raw: []byte(chargeJSON), IdempotencyKey: p.IdempotencyKey, Replayed: true, HomeRegion: "europe-west1", ServedBy: "us-east1",
			ExpiresAt: time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC), Attempts: 1,
		},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !got.CreatedAt().Equal(p.ExpiresAt) {
		t.Errorf("created at %v", got.CreatedAt())
	}
	seen, bodies := r.log()
	req := seen[0]
	if req.Method != "POST" || req.URL.Path != "/v1/charges" || req.Header.Get("Authorization") != "Bearer sk_1" ||
		req.Header.Get("Content-Type") != "application/json" || req.Header.Get("Idempotency-Key") != `"order \"7\""` {
		t.Errorf("got %v %v %v", req.Method, req.URL, req.Header)
	}
	if want := `{"amount":1999,"currency":"usd","payment_method":"pm_1","metadata":{"a":"b"},"expires_at":"2030-01-01T00:00:00Z"}`; bodies[0] != want {
		t.Errorf("got %s", bodies[0])
	}
	if len(slept) != 0 {
		t.Errorf("slept %v", slept)
	}
}

func TestKeys(t *testing.T) {
	var slept []time.Duration
	r := newRegion(t, made)
	opaque, err := newClient(t, &slept, nil, r).NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if id, err := uuid.Parse(opaque); err != nil || id.Version() != 4 {
		t.Errorf("%s: %v", opaque, err)
	}
	stamped, err := newClient(t, &slept, func(c *Config) { c.RegionCode = 5 }, r).NewKey()
	if code, ok := claim.ReadStamp(stamped); err != nil || !ok || code != 5 {
		t.Errorf("%s: %d, %v", stamped, code, err)
	}
}

// A read has what happened since.
func TestAChargeAsItIsNow(t *testing.T) {
	var slept []time.Duration
	now := `{"id":"ch_1","object":"charge","amount":9,"currency":"usd","status":"failed","created":1,"amount_captured":8,"amount_refunded":3,` +
		`"refunds":[{"id":"re_2","object":"refund","amount":3,"currency":"usd","status":"succeeded","created":2,"charge":"ch_1","reason":"made_at_provider","provider":{"name":"p","reference":"r"}}],` +
		`"disputes":[{"id":"dp_1","object":"dispute","amount":4,"currency":"usd","status":"lost","created":3,"provider":{"name":"p","reference":"d"}}],` +
		`"compensations":[{"object":"compensation","amount":9,"currency":"usd","status":"refunded","created":4,"provider":{"name":"p","reference":"g"}}],"as_of":5}`
	back := `{"id":"tr_1","status":"succeeded","amount_reversed":2,"reversals":[{"id":"trr_1","object":"transfer_reversal","amount":2,"currency":"usd","status":"succeeded","created":6}],"as_of":7}`
	cl := newClient(t, &slept, nil, newRegion(t, plain(200, now), plain(200, back)))
	ch, err := cl.GetCharge(t.Context(), "ch_1")
	if err != nil || ch.Status != "failed" || ch.AmountCaptured != 8 || ch.AmountRefunded != 3 || ch.AsOf != 5 ||
		!slices.Equal(ch.Refunds, []RefundOfCharge{{Booked{"re_2", 3, "usd", "succeeded", 2, Provider{"p", "r"}}, "made_at_provider"}}) ||
		!slices.Equal(ch.Disputes, []DisputeOfCharge{{Booked{"dp_1", 4, "usd", "lost", 3, Provider{"p", "d"}}}}) ||
		!slices.Equal(ch.Compensations, []Compensation{{Booked{"", 9, "usd", "refunded", 4, Provider{"p", "g"}}}}) {
		t.Errorf("got %+v, %v", ch, err)
	}
	tr, err := cl.GetTransfer(t.Context(), "tr_1")
	if err != nil || tr.AmountReversed != 2 || tr.AsOf != 7 || !slices.Equal(tr.Reversals, []TransferReversal{{Booked{"trr_1", 2, "usd", "succeeded", 6, Provider{}}}}) {
		t.Errorf("got %+v, %v", tr, err)
	}
}

// A list is asked for by what selects it, and read a page at a time.
func TestLists(t *testing.T) {
	var slept []time.Duration
	const page = `{"object":"list","data":[{"id":"ch_2","amount_refunded":3,"order_id":"o 1"}],"has_more":true,"url":"/v1/charges"}`
	const refunds = `{"object":"list","data":[{"id":"re_1","amount":3}],"has_more":false,"url":"/v1/refunds?charge=ch_2"}`
	r := newRegion(t, plain(503, "busy"), plain(200, page), plain(200, page), plain(200, refunds))
	cl := newClient(t, &slept, nil, r)
	from := time.Unix(7, 0)
	all, err := cl.ListCharges(t.Context(), ChargeListParams{OrderID: "o 1", From: from, Until: from.Add(time.Minute), PageParams: PageParams{After: "ch_3", Limit: 1}})
	if err != nil || len(all.Data) != 1 || all.Data[0].ID != "ch_2" || all.Data[0].AmountRefunded != 3 || all.Data[0].OrderID != "o 1" || !all.HasMore || all.Answer.Attempts != 2 {
		t.Errorf("got %+v, %v", all, err)
	}
	if _, err := cl.ListCharges(t.Context(), ChargeListParams{PageParams: PageParams{Before: "ch_3"}}); err != nil {
		t.Error(err)
	}
	back, err := cl.ListRefunds(t.Context(), "ch_2", PageParams{})
	if err != nil || len(back.Data) != 1 || back.Data[0].Amount != 3 || back.HasMore {
		t.Errorf("got %+v, %v", back, err)
	}
	seen, _ := r.log()
	for i, want := range []string{
		"/v1/charges?created%5Bgte%5D=7&created%5Blt%5D=67&limit=1&order_id=o+1&starting_after=ch_3", "",
		"/v1/charges?ending_before=ch_3", "/v1/refunds?charge=ch_2",
	} {
		if want != "" && seen[i].URL.String() != want {
			t.Errorf("got %s", seen[i].URL)
		}
	}
	if *seen[0].URL != *seen[1].URL {
		t.Errorf("a retry of %s asked for %s", seen[0].URL, seen[1].URL)
	}
}

func TestOtherCalls(t *testing.T) {
	var slept []time.Duration
	transfer := `{"id":"tr_1","amount":5,"destination":"acct_1"}`
	refund := `{"id":"re_1","amount":3,"charge":"ch_1","reason":"why"}`
	r := newRegion(t, plain(201, transfer), plain(200, chargeJSON), plain(200, transfer), plain(200, refund), plain(200, `{"keys":["a","b"]}`))
	cl := newClient(t, &slept, nil, r)
	tr, err := cl.Transfer(t.Context(), TransferParams{Amount: 5, Currency: "eur", Destination: "acct_1"})
	if err != nil || tr.ID != "tr_1" || tr.Destination != "acct_1" {
		t.Errorf("got %+v, %v", tr, err)
	}
	ch, err := cl.GetCharge(t.Context(), "ch_/1")
	if err != nil || ch.ID != "ch_1" || string(ch.Answer.Raw) != chargeJSON {
		t.Errorf("got %+v, %v", ch, err)
	}
	if tr, err = cl.GetTransfer(t.Context(), "tr_1"); err != nil || tr.Amount != 5 {
		t.Errorf("got %+v, %v", tr, err)
	}
	re, err := cl.GetRefund(t.Context(), "re_1")
	if err != nil || re.ID != "re_1" || re.Charge != "ch_1" || re.Reason != "why" || re.Amount != 3 {
		t.Errorf("got %+v, %v", re, err)
	}
	keys, err := cl.MintKeys(t.Context(), 2)
	if err != nil || !slices.Equal(keys, []string{"a", "b"}) {
		t.Errorf("got %v, %v", keys, err)
	}
	var got []string
	seen, bodies := r.log()
	for i, req := range seen {
		got = append(got, req.Method+" "+req.URL.EscapedPath()+" "+bodies[i])
		if (req.Header.Get("Idempotency-Key") != "") != (i == 0) {
			t.Errorf("%s: key %q", req.URL, req.Header.Get("Idempotency-Key"))
		}
	}
	want := []string{
		`POST /v1/transfers {"amount":5,"currency":"eur","destination":"acct_1"}`,
		`GET /v1/charges/ch_%2F1 `, `GET /v1/transfers/tr_1 `, `GET /v1/refunds/re_1 `, `POST /v1/idempotency-keys {"count":2}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestContextEndsTheCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var slept []time.Duration
	r := newRegion(t, refuse(503, "outcome_unknown", RetrySameKey, ""))
	cl := newClient(t, &slept, func(c *Config) {
		c.Sleep = func(ctx context.Context, _ time.Duration) error {
			cancel()
			return sleep(ctx, time.Hour)
		}
	}, r)
	_, err := cl.Charge(ctx, params)
	var e *Error
	if !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.IdempotencyKey == "" || e.Retry != RetrySameKey || len(r.requests()) != 1 {
		t.Errorf("got %v after %d requests", err, len(r.requests()))
	}
}

// The API's last answer before the context ended an attempt is not lost.
func TestAnAttemptCutOffKeepsTheLatestAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var slept []time.Duration
	r := newRegion(t, refuse(503, "outcome_unknown", RetrySameKey, ""), func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	_, err := newClient(t, &slept, nil, r).Charge(ctx, params)
	var e *Error
	if !errors.Is(err, context.Canceled) || !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if e.Status != 503 || e.Code != "outcome_unknown" || e.Retry != RetrySameKey || !e.Unknown || e.Attempts != 2 || e.IdempotencyKey == "" || e.Err == nil {
		t.Errorf("got %+v", e)
	}
}

func TestErrorText(t *testing.T) {
	for want, e := range map[string]*Error{
		"homeward: card_declined (stolen_card): No.": {Status: 402, Code: "card_declined", DeclineCode: "stolen_card", Detail: "No."},
		"homeward: status 502: Bad Gateway":          {Status: 502, Detail: "Bad Gateway"},
		"homeward: no answer: EOF":                   {Err: io.EOF},
	} {
		if e.Error() != want {
			t.Errorf("got %q, want %q", e.Error(), want)
		}
	}
	if !errors.Is(&Error{Err: io.EOF}, io.EOF) {
		t.Error("the network's error is out of reach")
	}
}

func TestRefusedCarriesEverything(t *testing.T) {
	res := &http.Response{StatusCode: 410, Header: http.Header{"Idempotent-Replayed": {"true"}, "Homeward-Home-Region": {"x"}}}
	e := refused(res, []byte(`{"error":"idempotency_key_expired","detail":"D","retry":"new_key","original_request_at":"2030-01-01T00:00:00Z","member":"m","retry_after_ms":9223372036854775807}`))
	want := &Error{Status: 410, Code: "idempotency_key_expired", Detail: "D", Member: "m", Retry: RetryNewKey, Replayed: true, HomeRegion: "x",
		OriginalRequestAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	if !reflect.DeepEqual(e, want) {
		t.Errorf("got  %+v\nwant %+v", e, want)
	}
}

func TestPause(t *testing.T) {
	cl := newClient(t, nil, func(c *Config) { c.BaseURLs, c.BackoffMin, c.BackoffMax = []string{"http://x"}, 8, 100 })
	for n, ceiling := range map[int]time.Duration{1: 8, 2: 16, 3: 32, 4: 64, 5: 100, 6: 100, 31: 100, 40: 100, 64: 100, 1 << 30: 100} {
		seen := map[bool]bool{}
		for range 500 {
			d := cl.pause(n, 0)
			if d < 0 || d > ceiling {
				t.Fatalf("attempt %d: paused %d, ceiling %d", n, d, ceiling)
			}
			seen[d > ceiling/2] = true
		}
		if !seen[true] || !seen[false] {
			t.Errorf("attempt %d: jitter is not full", n)
		}
	}
	for range 100 {
		if d := cl.pause(5, 1000); d < 1000 || d > 1100 {
			t.Fatalf("paused %d although Retry-After was 1000", d)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]Config{
		"BaseURLs":    {APIKey: "k"},
		"APIKey":      {BaseURLs: []string{"http://x"}},
		"look like":   {BaseURLs: []string{"x:80"}, APIKey: "k"},
		"MaxAttempts": {BaseURLs: []string{"http://x"}, APIKey: "k", MaxAttempts: -1},
		"BackoffMax":  {BaseURLs: []string{"http://x"}, APIKey: "k", BackoffMin: time.Hour},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for in, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "-1": 0, "x": 0, "99999999999": 0} {
		if got := retryAfter(in); got != want {
			t.Errorf("%q: got %v", in, got)
		}
	}
}

// A refund's key names the charge's home where the client stamps keys, unless the
// caller has one.
func TestRefund(t *testing.T) {
	charge, err := claim.NewObjectID("ch", 9, nil)
	if err != nil {
		t.Fatal(err)
	}
	made := `{"id":"re_1","object":"refund","amount":3,"currency":"usd","status":"succeeded","created":1893456000,"charge":"` + charge +
		`","reason":"why","receipt_number":"R","provider":{"name":"sim","reference":"px_2"}}`
	for name, c := range map[string]struct {
		code claim.RegionCode
		key  string
		home claim.RegionCode // in the key that is sent
	}{
		"stamped": {code: 5, home: 9}, "opaque": {}, "the caller's": {code: 5, key: "refund-1"},
	} {
		t.Run(name, func(t *testing.T) {
			var slept []time.Duration
			r := newRegion(t, plain(201, made))
			got, err := newClient(t, &slept, func(conf *Config) { conf.RegionCode = c.code }, r).
				Refund(t.Context(), RefundParams{Charge: charge, Amount: 3, Reason: "why", IdempotencyKey: c.key})
			if err != nil {
				t.Fatal(err)
			}
			if got.ID != "re_1" || got.Charge != charge || got.Reason != "why" || got.Amount != 3 || got.Provider.Reference != "px_2" || string(got.Answer.Raw) != made {
				t.Errorf("got %+v", got)
			}
			seen, bodies := r.log()
			if want := `{"charge":"` + charge + `","amount":3,"reason":"why"}`; seen[0].URL.Path != "/v1/refunds" || bodies[0] != want {
				t.Errorf("sent %s %s", seen[0].URL, bodies[0])
			}
			key := strings.Trim(seen[0].Header.Get("Idempotency-Key"), `"`)
			if home, _ := claim.ReadStamp(key); home != c.home || c.key != "" && key != c.key || key != got.Answer.IdempotencyKey {
				t.Errorf("key %s names %d", key, home)
			}
		})
	}
}

// A capture and a cancellation name their charge by the path, and are at its home.
func TestCaptureAndCancel(t *testing.T) {
	charge, err := claim.NewObjectID("ch", 9, nil)
	if err != nil {
		t.Fatal(err)
	}
	made := `{"id":"` + charge + `","object":"charge","amount":5,"amount_captured":3,"currency":"usd","status":"succeeded"}`
	var slept []time.Duration
	r := newRegion(t, plain(200, made))
	cl := newClient(t, &slept, func(conf *Config) { conf.RegionCode = 5 }, r)
	got, err := cl.Capture(t.Context(), CaptureParams{Charge: charge, Amount: 3})
	if err != nil || got.AmountCaptured != 3 || got.Amount != 5 {
		t.Fatalf("got %+v %v", got, err)
	}
	if _, err := cl.Cancel(t.Context(), CancelParams{Charge: charge, IdempotencyKey: "mine"}); err != nil {
		t.Fatal(err)
	}
	seen, bodies := r.log()
	for i, want := range []string{"/v1/charges/" + charge + `/capture {"amount":3}`, "/v1/charges/" + charge + "/cancel {}"} {
		if sent := seen[i].URL.Path + " " + bodies[i]; sent != want {
			t.Errorf("sent %s, want %s", sent, want)
		}
	}
	if home, _ := claim.ReadStamp(strings.Trim(seen[0].Header.Get("Idempotency-Key"), `"`)); home != 9 {
		t.Errorf("the key names %d", home)
	}
	if key := strings.Trim(seen[1].Header.Get("Idempotency-Key"), `"`); key != "mine" {
		t.Errorf("the key is %s", key)
	}
}

// Params must not lose a member on the way.
func TestParamsEncode(t *testing.T) {
	got, err := json.Marshal(TransferParams{Amount: 1, Currency: "usd", Destination: "acct_1", Description: "d", OrderID: "o", IdempotencyKey: "k",
		Metadata: map[string]string{"a": "b"}, ExpiresAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)})
	want := `{"amount":1,"currency":"usd","destination":"acct_1","description":"d","order_id":"o","metadata":{"a":"b"},"expires_at":"2030-01-01T00:00:00Z"}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

// The names of spans have no ids and no keys.
func TestRoutes(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/charges": "/v1/charges", "/v1/charges/ch_1": "/v1/charges/{id}", "/v1/charges/ch_1/capture": "/v1/charges/{id}/capture",
		"/v1/idempotency-keys": "/v1/idempotency-keys", "/v1/idempotency-keys/%22order-7%22/cancel": "/v1/idempotency-keys/{id}/cancel",
	} {
		if got := (&call{path: path}).route(); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

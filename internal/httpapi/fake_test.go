package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment"
)

var firstUse = time.Date(2030, 1, 1, 12, 0, 0, 123456000, time.UTC)

// fake stands for the packages below: it gives fixed answers and lists the requests.
type fake struct {
	mu       sync.Mutex
	requests []claim.Request
	hints    []string
	keys     []claim.Key
	objects  []string // tenant/id

	do      func(context.Context, claim.Request) (claim.Reply, error)
	inspect func(claim.Key) (claim.Status, bool, error)
	object  func(tenant, id string) (claim.State, claim.Response, bool, error)

	tenants    map[string]claim.Tenant
	tenantsErr error
	lookUps    int // of API keys
}

func (f *fake) TenantByAPIKey(_ context.Context, hash claim.APIKeyHash) (claim.Tenant, bool, error) {
	f.mu.Lock()
	f.lookUps++
	f.mu.Unlock()
	for key, t := range f.tenants {
		if claim.HashAPIKey(key) == hash {
			return t, true, f.tenantsErr
		}
	}
	return claim.Tenant{}, false, f.tenantsErr
}

func (f *fake) Do(ctx context.Context, req claim.Request, hint string) (claim.Reply, error) {
	if req.Began.IsZero() {
		panic("the request has no time at which it began")
	}
	kept := req
	kept.Began = time.Time{}
	f.mu.Lock()
	f.requests, f.hints = append(f.requests, kept), append(f.hints, hint)
	f.mu.Unlock()
	return f.do(ctx, req)
}

func (f *fake) Inspect(_ context.Context, key claim.Key, hint string) (claim.Status, bool, error) {
	f.keys, f.hints = append(f.keys, key), append(f.hints, hint)
	return f.inspect(key)
}

func (f *fake) Object(_ context.Context, tenant, id string) (claim.State, claim.Response, bool, error) {
	f.objects = append(f.objects, tenant+"/"+id)
	return f.object(tenant, id)
}

const objectBody = `{"id":"ch_1","object":"charge"}`

func newFake() *fake {
	return &fake{
		tenants: map[string]claim.Tenant{
			"sk_acme":   {ID: "acme"},
			"sk_globex": {ID: "globex"},
			"sk_slow":   {ID: "slow", RatePerSecond: 0.5, Burst: 2},
		},
		do: func(context.Context, claim.Request) (claim.Reply, error) {
			return claim.Reply{
				Response: claim.Response{
					Status: 201,
					Header: []claim.HeaderField{{Name: "Content-Type", Value: "application/json"}, {Name: "Location", Value: "/v1/charges/ch_1"}},
					Body:   []byte(objectBody),
				},
				Home: "europe-west1", State: claim.Completed, FirstUse: firstUse, ExpiresAt: firstUse.Add(24 * time.Hour),
				ServedBy: "us-east1", Hops: 1,
			}, nil
		},
		inspect: func(claim.Key) (claim.Status, bool, error) { return claim.Status{}, false, nil },
		object: func(string, string) (claim.State, claim.Response, bool, error) {
			return 0, claim.Response{}, false, nil
		},
	}
}

// answers lets the fake answer every request with resp.
func (f *fake) answers(resp claim.Response) {
	f.do = func(context.Context, claim.Request) (claim.Reply, error) {
		return claim.Reply{Response: resp, Home: "europe-west1", State: claim.Completed, FirstUse: firstUse, ExpiresAt: firstUse.Add(24 * time.Hour), ServedBy: "us-east1"}, nil
	}
}

func noList(context.Context, payment.List) ([]json.RawMessage, bool, error) { return nil, false, nil }

func newAPI(t testing.TB, f *fake, change ...func(*Config)) http.Handler {
	t.Helper()
	c := Config{
		Tenants: f, Router: f, Region: "us-east1", RegionCode: 7,
		HomeOf: func(code claim.RegionCode) (string, bool) {
			home, ok := map[claim.RegionCode]string{7: "us-east1", 8: "mars-1"}[code]
			return home, ok
		},
		List:   noList,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	for _, ch := range change {
		ch(&c)
	}
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

const okBody = `{"amount":1999,"currency":"usd","payment_method":"pm_card_visa"}`

// request builds a good charge request; headers are name, value pairs, and a
// value of "" removes the header.
func request(method, path, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer sk_acme")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "k-1")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return r
}

func charge(headers ...string) *http.Request {
	return request("POST", "/v1/charges", okBody, headers...)
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

type wireProblem struct {
	Type, Title, Detail, Error, Retry, Member, Code string
	Status                                          int
	RetryAfterMS                                    int64  `json:"retry_after_ms"`
	OriginalRequestAt                               string `json:"original_request_at"`
}

// problemIn checks what holds for every error and returns it.
func problemIn(t *testing.T, w *httptest.ResponseRecorder) wireProblem {
	t.Helper()
	var p wireProblem
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("Content-Type %q, status %d, body %s", got, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	if p.Status != w.Code || p.Type != "/errors/"+p.Error || p.Title == "" || p.Detail == "" || p.Retry == "" {
		t.Errorf("status %d with %s", w.Code, w.Body)
	}
	if link := "<" + p.Type + `>; rel="describedby"; type="text/html"`; w.Header().Get("Link") != link {
		t.Errorf("Link %q, want %q", w.Header().Get("Link"), link)
	}
	return p
}

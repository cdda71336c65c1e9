package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/router"
)

var _ Router = (*router.Router)(nil)

func TestNewNamesWhatIsMissing(t *testing.T) {
	f := newFake()
	good := Config{Tenants: f, Router: f, List: noList, Region: "us-east1", RegionCode: 1}
	for name, spoil := range map[string]func(*Config){
		"Tenants":     func(c *Config) { c.Tenants = nil },
		"Router":      func(c *Config) { c.Router = nil },
		"List":        func(c *Config) { c.List = nil },
		"Region is":   func(c *Config) { c.Region = "" },
		"RegionCode":  func(c *Config) { c.RegionCode = 0 },
		"Body":        func(c *Config) { c.Limits = DefaultLimits(); c.Limits.Body = 0 },
		"Request":     func(c *Config) { c.Limits = DefaultLimits(); c.Limits.Request = -1 },
		"AskAgain":    func(c *Config) { c.Limits = DefaultLimits(); c.Limits.AskAgain = -1 },
		"TenantBurst": func(c *Config) { c.Limits = DefaultLimits(); c.Limits.TenantBurst = 0 },
	} {
		c := good
		spoil(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

func TestSuccess(t *testing.T) {
	f := newFake()
	h := newAPI(t, f)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	w := serve(h, charge("Idempotency-Key", `"k-1"`, "Homeward-Home-Region", "europe-west1", "Traceparent", trace,
		"Content-Type", `Application/JSON; Charset="UTF-8"`))
	want := http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {"31"}, "Location": {"/v1/charges/ch_1"},
		"Idempotency-Key": {`"k-1"`}, "Idempotency-Expires-At": {"2030-01-02T12:00:00Z"},
		"Homeward-Home-Region": {"europe-west1"}, "Homeward-Served-By": {"us-east1"}, "Homeward-Hops": {"1"},
		"Traceparent": {trace},
	}
	if w.Code != 201 || w.Body.String() != objectBody || !reflect.DeepEqual(w.Header(), want) {
		t.Errorf("got %d %s\n%v\nwant %v", w.Code, w.Body, w.Header(), want)
	}
	wantReq := claim.Request{
		Key: claim.Key{Tenant: "acme", Value: "k-1"}, Operation: "charge",
		Input: claim.FingerprintInput{
			Method: "POST", Path: "/v1/charges", Tenant: "acme", ContentType: "application/json",
			Canonical: []byte(okBody),
		},
		TraceParent: trace,
	}
	if !reflect.DeepEqual(f.requests, []claim.Request{wantReq}) || !slices.Equal(f.hints, []string{"europe-west1"}) {
		t.Errorf("got %+v with hints %q", f.requests, f.hints)
	}
}

// A request begins when it arrives, before the look-up of its API key.
func TestARequestBeginsOnArrival(t *testing.T) {
	f := newFake()
	var began, looked time.Time
	do := f.do
	f.do = func(ctx context.Context, req claim.Request) (claim.Reply, error) {
		began = req.Began
		return do(ctx, req)
	}
	serve(newAPI(t, f, func(c *Config) {
		c.Tenants = tenantsFunc(func(ctx context.Context, key claim.APIKeyHash) (claim.Tenant, bool, error) {
			looked = time.Now()
			return f.TenantByAPIKey(ctx, key)
		})
	}), charge())
	if began.IsZero() || began.After(looked) {
		t.Errorf("began %v, looked up %v", began, looked)
	}
}

// tenantsFunc looks API keys up.
type tenantsFunc func(ctx context.Context, key claim.APIKeyHash) (claim.Tenant, bool, error)

func (d tenantsFunc) TenantByAPIKey(ctx context.Context, key claim.APIKeyHash) (claim.Tenant, bool, error) {
	return d(ctx, key)
}

func TestReplay(t *testing.T) {
	f := newFake()
	first := f.do
	f.do = func(ctx context.Context, r claim.Request) (claim.Reply, error) {
		reply, err := first(ctx, r)
		reply.Replayed = true
		return reply, err
	}
	w := serve(newAPI(t, f), charge())
	if w.Body.String() != objectBody || w.Header().Get("Idempotent-Replayed") != "true" ||
		w.Header().Get("Idempotency-Original-Request-At") != "2030-01-01T12:00:00Z" {
		t.Errorf("got %v", w.Header())
	}
}

// Each spelling of a request is the same request to the router.
func TestSameRequest(t *testing.T) {
	f := newFake()
	h := newAPI(t, f)
	stamp, err := claim.Stamp(9, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*http.Request{
		charge("Idempotency-Key", stamp),
		charge("Idempotency-Key", `"`+stamp+`"`),
		charge("Idempotency-Key", strings.ToUpper(stamp)),
		charge("Idempotency-Key", stamp, "Content-Type", "application/json;charset=utf-8", "User-Agent", "other"),
		request("POST", "/v1/charges?", `{ "payment_method":"pm_card_visa", "currency":"usd", "amount":19.990e2 }`, "Idempotency-Key", stamp),
		request("POST", "/v1/charges", strings.Replace(okBody, "{", `{"client_ts":17,"trace_id":"t","request_id":null,"sent_at":{"a":[]},`, 1), "Idempotency-Key", stamp),
		chunked(charge("Idempotency-Key", stamp)),
	} {
		if w := serve(h, r); w.Code != 201 {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
	}
	for _, r := range f.requests[1:] {
		r.TraceParent = f.requests[0].TraceParent
		if !reflect.DeepEqual(r, f.requests[0]) {
			t.Errorf("got %+v\nwant %+v", r, f.requests[0])
		}
	}
	if f.requests[0].Stamp == 0 {
		t.Error("a stamped key was not recognised")
	}
}

func TestTraceparent(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	seen := map[string]bool{}
	for _, sent := range []string{
		good, "", "x", strings.ToUpper(good), "01" + good[2:], good + "-x",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-00", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-00",
		"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
	} {
		got := traceparent(&http.Request{Header: http.Header{"Traceparent": {sent}}})
		if !validTraceparent(got) || (got == sent) != (sent == good) || seen[got] {
			t.Errorf("%q: got %q", sent, got)
		}
		seen[got] = true
	}
}

func TestRateLimit(t *testing.T) {
	now := firstUse
	h := newAPI(t, newFake(), func(c *Config) { c.Now = func() time.Time { return now } })
	slow := func() *httptest.ResponseRecorder { return serve(h, charge("Authorization", "Bearer sk_slow")) }
	for range 2 { // the burst
		if w := slow(); w.Code != 201 {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
	}
	for range 3 { // a refused request is not counted
		w := slow()
		if p := problemIn(t, w); w.Code != 429 || p.Error != "rate_limited" || p.Retry != "same_key" || p.RetryAfterMS != 2000 || w.Header().Get("Retry-After") != "2" {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
	}
	if w := serve(h, charge()); w.Code != 201 {
		t.Errorf("another tenant is refused: %d", w.Code)
	}
	now = now.Add(2 * time.Second)
	if w := slow(); w.Code != 201 {
		t.Errorf("got %d after the wait of Retry-After", w.Code)
	}
	if w := slow(); w.Code != 429 {
		t.Errorf("got %d, want one request per 2 s", w.Code)
	}
}

func TestRatesAreBoundedAndFollowTheTenant(t *testing.T) {
	rs := newRates(1, 1)
	for i := range 3 * maxBuckets {
		rs.take(&claim.Tenant{ID: fmt.Sprint(i)}, firstUse)
	}
	if n := rs.buckets.Len(); n > maxBuckets {
		t.Errorf("%d buckets", n)
	}
	last := claim.Tenant{ID: fmt.Sprint(3*maxBuckets - 1)}
	if rs.take(&last, firstUse) == 0 {
		t.Error("a recent tenant's bucket was lost")
	}
	last.RatePerSecond, last.Burst = 1000, 1000
	rs.take(&last, firstUse)
	if rs.take(&last, firstUse.Add(time.Second)) != 0 {
		t.Error("a raised rate is not in force")
	}
	if newRates(0, 0).take(&claim.Tenant{ID: "x"}, firstUse) != 0 {
		t.Error("0 must mean no limit")
	}
	if newRates(0, 0).take(&claim.Tenant{ID: "x", RatePerSecond: 1}, firstUse) != 0 {
		t.Error("a rate without a burst must let one request through")
	}
}

func TestObject(t *testing.T) {
	id, err := claim.NewObjectID("ch", 7, nil)
	if err != nil {
		t.Fatal(err)
	}
	refund, err := claim.NewObjectID("re", 7, nil)
	if err != nil {
		t.Fatal(err)
	}
	stored := func(state claim.State, status int, contentType, body string) func(*fake) {
		return func(f *fake) {
			f.object = func(tenant, _ string) (claim.State, claim.Response, bool, error) {
				resp := claim.Response{Status: status, Header: []claim.HeaderField{{Name: "Content-Type", Value: contentType}, {Name: "Location", Value: "/x"}, {Name: "Etag", Value: `W/"1a"`}}, Body: []byte(body)}
				return state, resp, tenant == "acme", nil
			}
		}
	}
	gaveUp := problem.New(problem.OutcomeUnknown, "Given up.")
	gaveUp.Retry = problem.NewKey
	done := stored(claim.Completed, 201, "application/json", objectBody)
	for _, c := range []struct {
		name, path, key string
		below           func(*fake)
		status          int
		code            string
		asked           bool
	}{
		{"done", "/v1/charges/" + id, "sk_acme", done, 200, "", true},
		{"another tenant's", "/v1/charges/" + id, "sk_globex", done, 404, "not_found", true},
		{"as a transfer", "/v1/transfers/" + id, "sk_acme", done, 404, "not_found", false},
		{"a refund", "/v1/refunds/" + refund, "sk_acme", done, 200, "", true},
		{"a refund as a charge", "/v1/charges/" + refund, "sk_acme", done, 404, "not_found", false},
		{"never minted", "/v1/charges/ch_1", "sk_acme", done, 404, "not_found", false},
		{"in flight", "/v1/charges/" + id, "sk_acme", stored(claim.InFlight, 0, "", ""), 503, "outcome_unknown", true},
		{"declined", "/v1/charges/" + id, "sk_acme", stored(claim.FailedTerminal, 402, problem.ContentType, "{}"), 404, "not_found", true},
		{"released", "/v1/charges/" + id, "sk_acme", stored(claim.FailedRetry, 0, "", ""), 404, "not_found", true},
		{"given up", "/v1/charges/" + id, "sk_acme", stored(claim.FailedTerminal, 503, problem.ContentType, string(gaveUp.JSON(""))), 503, "outcome_unknown", true},
		{"home down", "/v1/charges/" + id, "sk_acme", func(f *fake) {
			f.object = func(string, string) (claim.State, claim.Response, bool, error) {
				return 0, claim.Response{}, false, claim.ErrHomeUnreachable
			}
		}, 503, "home_unavailable", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			c.below(f)
			w := serve(newAPI(t, f), request("GET", c.path, "", "Authorization", "Bearer "+c.key))
			if w.Code != c.status || (len(f.objects) > 0) != c.asked {
				t.Fatalf("got %d %s, asked %v", w.Code, w.Body, f.objects)
			}
			if c.code == "" {
				if w.Body.String() != objectBody || w.Header().Get("Etag") != `W/"1a"` || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Location") != "" {
					t.Errorf("got %v %s", w.Header(), w.Body)
				}
			} else if p := problemIn(t, w); p.Error != c.code {
				t.Errorf("got %s", w.Body)
			}
		})
	}
}

// A caller that has the object as it is gets no body.
func TestAnObjectThatHasNotChanged(t *testing.T) {
	id, err := claim.NewObjectID("ch", 7, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := newFake()
	f.object = func(string, string) (claim.State, claim.Response, bool, error) {
		return claim.Completed, claim.Response{Status: 200, Header: []claim.HeaderField{{Name: "Etag", Value: `W/"1a"`}}, Body: []byte(`{"id":"` + id + `","object":"charge","status":"succeeded"}`)}, true, nil
	}
	h := newAPI(t, f)
	for _, c := range []struct {
		has    string
		status int
	}{
		{"", 200}, {`W/"1a"`, 304}, {`"1a"`, 304}, {"*", 304}, {`"x", W/"1a"`, 304}, {`W/"1"`, 200}, {"1a", 200}, {`W/"1a-charge"`, 200},
	} {
		r := request("GET", "/v1/charges/"+id, "")
		if c.has != "" {
			r.Header.Set("If-None-Match", c.has)
		}
		w := serve(h, r)
		if w.Code != c.status || w.Header().Get("Etag") != `W/"1a"` || (w.Body.Len() == 0) != (c.status == 304) {
			t.Errorf("%s: got %d %v %s", c.has, w.Code, w.Header(), w.Body)
		}
	}
	tags := map[string]bool{`W/"1a"`: true}
	for _, path := range []string{"/v1/charges/" + id, "/v1/charges/" + id + "?expand[]=payment_intent", "/v1/payment_intents/" + strings.Replace(id, "ch_", "pi_", 1)} {
		r := stripely("GET", path, "")
		w := serve(h, r)
		tag := w.Header().Get("Etag")
		if w.Code != 200 || tags[tag] || !strings.HasPrefix(tag, `W/"1a-`) || !strings.HasSuffix(tag, `"`) {
			t.Errorf("%s: got %d %s %s", path, w.Code, tag, w.Body)
		}
		tags[tag] = true
		r.Header.Set("If-None-Match", tag)
		if w := serve(h, r); w.Code != 304 {
			t.Errorf("%s: got %d", path, w.Code)
		}
	}
}

// The refunds of a charge are listed as it is read, in either dialect.
func TestRefundsOfACharge(t *testing.T) {
	id, err := claim.NewObjectID("ch", 7, nil)
	if err != nil {
		t.Fatal(err)
	}
	const back = `{"id":"re_1","object":"refund","amount":5,"currency":"usd","status":"succeeded","created":2,"charge":"ch_1","provider":{"name":"p","reference":"r"}}`
	f := newFake()
	f.object = func(tenant, of string) (claim.State, claim.Response, bool, error) {
		if of != id {
			return claim.FailedTerminal, claim.Response{}, true, nil
		}
		return claim.Completed, claim.Response{Status: 200, Body: []byte(`{"id":"` + id + `","object":"charge","status":"succeeded","refunds":[` + back + `]}`)}, tenant == "acme", nil
	}
	h := newAPI(t, f)
	w := serve(h, request("GET", "/v1/refunds?charge="+id, ""))
	if want := `{"object":"list","data":[` + back + `],"has_more":false,"url":"/v1/refunds?charge=` + id + `"}`; w.Code != 200 || w.Body.String() != want {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	w = serve(h, stripely("GET", "/v1/refunds?payment_intent="+strings.Replace(id, "ch_", "pi_", 1), ""))
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"payment_intent":"pi_1"`) {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	other, err := claim.NewObjectID("ch", 7, nil)
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]struct {
		status int
		member string
	}{
		"": {400, "charge"}, "?charge=" + id + "&limit=0": {400, "limit"}, "?charge=" + id + "&starting_after=re_2": {400, "starting_after"},
		"?charge=ch_1": {404, ""}, "?charge=" + other: {404, ""}, "?charge=" + id + "&colour=red": {400, "colour"},
	} {
		w := serve(h, request("GET", "/v1/refunds"+query, ""))
		if p := problemIn(t, w); w.Code != want.status || p.Member != want.member {
			t.Errorf("%s: got %d %s", query, w.Code, w.Body)
		}
		w = serve(h, stripely("GET", "/v1/refunds"+query, ""))
		if got := stripeErrorIn(t, w); w.Code != want.status || want.member != "" && got.Error.Param != want.member {
			t.Errorf("%s: got %d %s", query, w.Code, w.Body)
		}
	}
	if w := serve(h, request("GET", "/v1/refunds?charge="+id, "", "Authorization", "Bearer sk_globex")); w.Code != 404 {
		t.Errorf("another tenant's: got %d", w.Code)
	}
	if w := serve(h, request("DELETE", "/v1/refunds", "")); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

func TestInspect(t *testing.T) {
	f := newFake()
	h := newAPI(t, f)
	get := func(path string) *httptest.ResponseRecorder {
		return serve(h, request("GET", path, "", "Homeward-Home-Region", "us-east1"))
	}
	if w := get("/v1/idempotency-keys/k-1"); w.Code != 404 || problemIn(t, w).Error != "not_found" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	absent := get("/v1/idempotency-keys/k-1").Body.String()
	age := claim.Live
	f.inspect = func(k claim.Key) (claim.Status, bool, error) {
		return claim.Status{
			Record: claim.Record{Key: k, Home: "europe-west1", State: claim.Completed, Attempts: 2, FirstUse: firstUse, Holder: "node-7", Minted: claim.Minted{ID: "ch_1"}},
			Age:    age, ExpiresAt: firstUse.Add(24 * time.Hour), FreeAt: firstUse.Add(48 * time.Hour),
			Timeline: []claim.AuditEntry{
				{At: firstUse, Event: claim.EventClaimed, Region: "europe-west1", Node: "node-7", Fence: 1, Detail: "charge"},
				{At: firstUse.Add(time.Minute), Event: claim.EventTakenOver, Region: "us-east1", Node: "node-8", Fence: 2, Detail: "node-7"},
			},
		}, true, nil
	}
	w := get(`/v1/idempotency-keys/a%2Fb%2F%2Fc%3F%22`)
	want := `{"key":"a/b//c?\"","state":"COMPLETED","home_region":"europe-west1","attempts":2,"first_used_at":"2030-01-01T12:00:00Z",` +
		`"expires_at":"2030-01-02T12:00:00Z","free_at":"2030-01-03T12:00:00Z","object":"ch_1","timeline":[` +
		`{"at":"2030-01-01T12:00:00.123Z","event":"claimed","region":"europe-west1","fence":1,"detail":"charge"},` +
		`{"at":"2030-01-01T12:01:00.123Z","event":"taken_over","region":"us-east1","fence":2}]}`
	if w.Code != 200 || w.Body.String() != want || w.Header().Get("Homeward-Home-Region") != "europe-west1" {
		t.Errorf("got %d %s\nwant %s", w.Code, w.Body, want)
	}
	if got := f.keys[len(f.keys)-1]; got != (claim.Key{Tenant: "acme", Value: `a/b//c?"`}) || f.hints[0] != "us-east1" {
		t.Errorf("got %+v, %q", got, f.hints)
	}
	get(`/v1/idempotency-keys/%22quoted%22`)
	if got := f.keys[len(f.keys)-1].Value; got != "quoted" {
		t.Errorf("got %q", got)
	}
	if w := get(`/v1/idempotency-keys/a%20b`); w.Code != 400 || problemIn(t, w).Error != "idempotency_key_invalid" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	age = claim.Expired
	if w := get("/v1/idempotency-keys/k"); !strings.Contains(w.Body.String(), `"state":"EXPIRED"`) {
		t.Errorf("got %s", w.Body)
	}
	age = claim.Gone
	if w := get("/v1/idempotency-keys/k"); w.Code != 404 || w.Body.String() != absent {
		t.Errorf("a key that is gone can be told from one that never was: %s", w.Body)
	}
}

func TestMint(t *testing.T) {
	h := newAPI(t, newFake())
	post := func(body string) *httptest.ResponseRecorder {
		return serve(h, request("POST", "/v1/idempotency-keys", body, "Idempotency-Key", ""))
	}
	for _, n := range []int{1, 1000} {
		w := post(fmt.Sprintf(`{"count":%d}`, n))
		var got struct{ Keys []string }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || len(got.Keys) != n {
			t.Fatalf("got %d %s %v", w.Code, w.Body, err)
		}
		seen := map[string]bool{}
		for _, k := range got.Keys {
			if code, ok := claim.ReadStamp(k); !ok || code != 7 || seen[k] {
				t.Errorf("%s: code %d, %v", k, code, ok)
			}
			seen[k] = true
		}
	}
	for body, member := range map[string]string{
		`{}`: "count", `{"count":0}`: "count", `{"count":1001}`: "count", `{"count":1.5}`: "count", `{"count":"1"}`: "count",
		`{"count":-1}`: "count", `{"count":1e30}`: "count", `{"count":null}`: "count", `{"count":1,"home":"x"}`: "home", `[]`: "", `null`: "",
	} {
		if w := post(body); w.Code != 400 {
			t.Errorf("%s: got %d %s", body, w.Code, w.Body)
		} else if p := problemIn(t, w); p.Error != "invalid_request" || p.Member != member {
			t.Errorf("%s: got %s", body, w.Body)
		}
	}
	broken := newAPI(t, newFake(), func(c *Config) { c.Random = strings.NewReader("short") })
	if w := serve(broken, request("POST", "/v1/idempotency-keys", `{"count":1}`)); w.Code != 500 || problemIn(t, w).Error != "internal" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestProbes(t *testing.T) {
	draining, ofRegion := errors.New("draining"), errors.New("region is draining")
	var why error
	h := newAPI(t, newFake(), func(c *Config) {
		c.Ready = func(_ context.Context, regional bool) error {
			if !regional && errors.Is(why, ofRegion) {
				return nil
			}
			return why
		}
	})
	for _, path := range []string{"/livez", "/readyz"} {
		if w := serve(h, httptest.NewRequest("GET", path, nil)); w.Code != 200 || w.Body.String() != "ok\n" {
			t.Errorf("%s: got %d %s", path, w.Code, w.Body)
		}
	}
	why = draining
	// Not store_unavailable: no request was refused, and the store may be well.
	want := `{"type":"/errors/not_ready","title":"This node is not ready","status":503,"detail":"Draining.","error":"not_ready","retry":"same_key"}` + "\n"
	if w := serve(h, httptest.NewRequest("GET", "/readyz", nil)); w.Code != 503 || w.Body.String() != want {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	for path, status := range map[string]int{"/readyz?exclude=region": 503, "/readyz?exclude=nothing": 503} {
		if w := serve(h, httptest.NewRequest("GET", path, nil)); w.Code != status {
			t.Errorf("%s of a node that drains: got %d", path, w.Code)
		}
	}
	why = ofRegion
	for path, status := range map[string]int{"/readyz": 503, "/readyz?exclude=region": 200, "/readyz?exclude=nothing": 503} {
		if w := serve(h, httptest.NewRequest("GET", path, nil)); w.Code != status {
			t.Errorf("%s of a region that drains: got %d", path, w.Code)
		}
	}
	if w := serve(h, httptest.NewRequest("GET", "/livez", nil)); w.Code != 200 {
		t.Errorf("a draining node must stay alive, got %d", w.Code)
	}
	if w := serve(h, httptest.NewRequest("POST", "/livez", nil)); w.Code != 405 || problemIn(t, w).Error != "method_not_allowed" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestPanicIsAnsweredOnce(t *testing.T) {
	f := newFake()
	f.do = func(context.Context, claim.Request) (claim.Reply, error) { panic("secret") }
	w := serve(newAPI(t, f), charge())
	if p := problemIn(t, w); w.Code != 500 || p.Error != "internal" || p.Retry != "same_key" || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	// Once an answer has begun, the API closes the connection instead.
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("got %v", p)
		}
	}()
	newAPI(t, newFake()).ServeHTTP(&brokenWriter{httptest.NewRecorder()}, charge())
	t.Error("half an answer passed for a whole one")
}

type brokenWriter struct{ *httptest.ResponseRecorder }

func (*brokenWriter) Write([]byte) (int, error) { panic("broken") }

func TestDebugLog(t *testing.T) {
	var log bytes.Buffer
	h := newAPI(t, newFake(), func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	serve(h, charge())
	inspect := httptest.NewRequest(http.MethodGet, "/v1/idempotency-keys/k-1", nil)
	inspect.Header.Set("Authorization", "Bearer sk_acme")
	serve(h, inspect)
	if got := log.String(); !strings.Contains(got, "/v1/idempotency-keys/{key}") || !strings.Contains(got, "tenant=acme status=201") || strings.Contains(got, "sk_acme") || strings.Contains(got, "k-1") {
		t.Errorf("got %s", got)
	}
}

package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/httpapi/stripeapi"
	"github.com/homeward-io/homeward/internal/problem"
)

const (
	storedCharge = `{"id":"ch_1","object":"charge","amount":1999,"currency":"usd","status":"succeeded","created":1893499200,"payment_method":"pm_card_visa","receipt_number":"HW-1","provider":{"name":"stripe","reference":"pi_9"}}`
	okForm       = "amount=1999&currency=usd&payment_method=pm_card_visa"
)

// stripely returns a request of Stripe's clients.
func stripely(method, path, form string, headers ...string) *http.Request {
	return request(method, path, form, append([]string{"Stripe-Version", stripeapi.Version, "Content-Type", stripeapi.MediaType}, headers...)...)
}

// stripeFake answers with one charge.
func stripeFake() *fake {
	f := newFake()
	do := f.do
	f.do = func(ctx context.Context, r claim.Request) (claim.Reply, error) {
		reply, err := do(ctx, r)
		reply.Response.Body = []byte(storedCharge)
		reply.Replayed = len(f.requests) > 1
		return reply, err
	}
	f.object = func(string, string) (claim.State, claim.Response, bool, error) {
		return claim.Completed, claim.Response{Status: 201, Body: []byte(storedCharge)}, true, nil
	}
	return f
}

type stripeError struct {
	Error struct {
		Type, Code, Message, Param string
		DeclineCode                string `json:"decline_code"`
	}
}

// stripeErrorIn checks what every error in Stripe's format has, and returns the error.
func stripeErrorIn(t *testing.T, w *httptest.ResponseRecorder) (e stripeError) {
	t.Helper()
	h := w.Header()
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error.Type == "" || e.Error.Message == "" {
		t.Fatalf("%d %v in %s", w.Code, err, w.Body)
	}
	if h.Get("Content-Type") != "application/json" || !strings.HasPrefix(h.Get("Request-Id"), "req_") || h.Get("Stripe-Should-Retry") == "" {
		t.Errorf("%d with %v", w.Code, h)
	}
	return e
}

// A form is the same request as the JSON body with its meaning, at either of Stripe's endpoints:
// under one key each reads the other's answer, in its own format.
func TestAStripeFormIsTheSameRequest(t *testing.T) {
	f := stripeFake()
	h := newAPI(t, f)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	first := serve(h, stripely("POST", "/v1/charges", okForm+"&expand[]=payment_intent", "Traceparent", trace))
	again := serve(h, stripely("POST", "/v1/charges", "payment_method=pm_card_visa&currency=usd&amount=1999&expand[]=payment_intent", "Traceparent", trace))
	intent := serve(h, stripely("POST", "/v1/payment_intents", okForm+"&confirm=true&off_session=true", "Traceparent", trace))
	mixed := serve(h, request("POST", "/v1/charges", okBody, "Stripe-Version", "2015-01-01", "Traceparent", trace))
	native := serve(h, charge("Traceparent", trace))
	for _, r := range f.requests {
		if !reflect.DeepEqual(r, f.requests[0]) {
			t.Errorf("got %+v\nwant %+v", r, f.requests[0])
		}
	}
	if len(f.requests) != 5 {
		t.Fatalf("%d requests", len(f.requests))
	}
	if native.Code != 201 || native.Body.String() != storedCharge || native.Header().Get("Request-Id") != "" {
		t.Errorf("native: %d %v %s", native.Code, native.Header(), native.Body)
	}
	if first.Code != 200 || first.Body.String() != again.Body.String() || !strings.Contains(first.Body.String(), `"payment_intent":{"id":"pi_1"`) {
		t.Errorf("%d %s\n%s", first.Code, first.Body, again.Body)
	}
	if !strings.HasPrefix(intent.Body.String(), `{"id":"pi_1","object":"payment_intent"`) || !strings.HasPrefix(mixed.Body.String(), `{"id":"ch_1","object":"charge"`) {
		t.Errorf("%s\n%s", intent.Body, mixed.Body)
	}
	want := http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {first.Header().Get("Content-Length")}, "Idempotency-Key": {"k-1"},
		"Idempotency-Expires-At": {"2030-01-02T12:00:00Z"}, "Homeward-Home-Region": {"europe-west1"}, "Homeward-Served-By": {"us-east1"},
		"Homeward-Hops": {"1"}, "Traceparent": {trace}, "Request-Id": {"req_4bf92f3577b34da6a3ce929d0e0e4736"}, "Stripe-Version": {stripeapi.Version},
	}
	if !reflect.DeepEqual(first.Header(), want) {
		t.Errorf("got %v\nwant %v", first.Header(), want)
	}
	if again.Header().Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %v", again.Header())
	}
}

// Without Stripe-Version a request gets no answer in Stripe's format.
func TestWithoutStripeVersion(t *testing.T) {
	h := newAPI(t, stripeFake())
	basic := charge("Authorization", "")
	basic.SetBasicAuth("sk_acme", "")
	for name, c := range map[string]struct {
		request *http.Request
		status  int
		code    string
	}{
		"form":           {charge("Content-Type", stripeapi.MediaType), 415, "unsupported_media_type"},
		"basic":          {basic, 401, "unauthorized"},
		"payment intent": {request("POST", "/v1/payment_intents", okBody), 404, "not_found"},
		"to read one":    {request("GET", "/v1/payment_intents/pi_1", ""), 404, "not_found"},
	} {
		w := serve(h, c.request)
		if p := problemIn(t, w); w.Code != c.status || p.Error != c.code {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
		for _, name := range []string{"Request-Id", "Stripe-Should-Retry", "Stripe-Version"} {
			if w.Header().Get(name) != "" {
				t.Errorf("%s: %v", name, w.Header())
			}
		}
	}
}

// Each refusal is in Stripe's format, and no refused request reaches a claim.
func TestStripesErrors(t *testing.T) {
	key, err := claim.NewObjectID("ch", 7, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		request *http.Request
		status  int
		kind    string
		code    string
		param   string
		says    string
	}{
		"no key":             {stripely("POST", "/v1/charges", okForm, "Authorization", ""), 401, "invalid_request_error", "", "", "API key"},
		"a stranger":         {stripely("POST", "/v1/charges", okForm, "Authorization", "Basic c2tfbm9ib2R5Og=="), 401, "invalid_request_error", "", "", "not known"},
		"no version":         {stripely("POST", "/v1/charges", okForm, "Stripe-Version", "newest"), 400, "invalid_request_error", "", "", "Stripe-Version"},
		"another account":    {stripely("POST", "/v1/charges", okBody, "Stripe-Account", "acct_1", "Content-Type", "application/json"), 400, "invalid_request_error", "", "", "Stripe-Account"},
		"no account":         {stripely("POST", "/v1/charges", okForm, "Stripe-Account", "cus_1"), 400, "invalid_request_error", "", "Stripe-Account", "acct_"},
		"another's refund":   {stripely("POST", "/v1/refunds", "charge=ch_1", "Stripe-Account", "acct_1"), 400, "invalid_request_error", "", "", "Stripe-Account"},
		"another's charge":   {stripely("GET", "/v1/charges/ch_1", "", "Stripe-Account", "acct_1"), 400, "invalid_request_error", "", "", "Stripe-Account"},
		"another context":    {stripely("POST", "/v1/charges", okForm, "Stripe-Context", "acct_1"), 400, "invalid_request_error", "", "", "Stripe-Context"},
		"no Idempotency-Key": {stripely("POST", "/v1/charges", okForm, "Idempotency-Key", ""), 400, "invalid_request_error", "", "", "Idempotency-Key"},
		"text":               {stripely("POST", "/v1/charges", okForm, "Content-Type", "text/plain"), 415, "invalid_request_error", "", "", stripeapi.MediaType},
		"JSON for an intent": {stripely("POST", "/v1/payment_intents", okBody, "Content-Type", "application/json"), 415, "invalid_request_error", "", "", stripeapi.MediaType},
		"an old intent":      {stripely("POST", "/v1/payment_intents", okForm, "Stripe-Version", "2020-08-27"), 400, "invalid_request_error", "", "", "2022-11-15"},
		"unknown":            {stripely("POST", "/v1/charges", okForm+"&mandate=x"), 400, "invalid_request_error", "parameter_unknown", "mandate", "mandate"},
		"missing":            {stripely("POST", "/v1/charges", "amount=1&currency=usd"), 400, "invalid_request_error", "parameter_missing", "payment_method", ""},
		"ours to refuse":     {stripely("POST", "/v1/charges", "amount=0&currency=usd&source=pm_1"), 400, "invalid_request_error", "", "amount", "above 0"},
		"long metadata":      {stripely("POST", "/v1/charges", okForm+"&metadata[color]="+strings.Repeat("x", 501)), 400, "invalid_request_error", "", "metadata[color]", "at most 500"},
		"a token":            {stripely("POST", "/v1/charges", "amount=1&currency=usd&source=tok_visa"), 400, "invalid_request_error", "", "source", "pm_"},
		"a card":             {stripely("POST", "/v1/charges", "amount=1&currency=usd&source=4242424242424242"), 400, "invalid_request_error", "", "source", "card number"},
		"other units":        {stripely("POST", "/v1/charges", "amount=100&currency=ISK&source=pm_1"), 400, "invalid_request_error", "", "currency", "units"},
		"JSON, other units":  {stripely("POST", "/v1/charges", `{"amount":1,"currency":"mga","payment_method":"pm_1"}`, "Content-Type", "application/json"), 400, "invalid_request_error", "", "currency", "units"},
		"no such path":       {stripely("POST", "/v1/customers", ""), 404, "invalid_request_error", "", "", "Unrecognized request URL (POST: /v1/customers)"},
		"a card in a path":   {stripely("POST", "/v1/4242424242424242", ""), 404, "invalid_request_error", "", "", "(digits)"},
		"a list":             {stripely("GET", "/v1/transfers", ""), 405, "invalid_request_error", "", "", "GET: /v1/transfers"},
		"no such charge":     {stripely("GET", "/v1/charges/ch_1", ""), 404, "invalid_request_error", "resource_missing", "id", ""},
		"no such intent":     {stripely("GET", "/v1/payment_intents/"+key, ""), 404, "invalid_request_error", "resource_missing", "id", ""},
		"expand":             {stripely("GET", "/v1/charges/"+key+"?expand[]=customer", ""), 400, "invalid_request_error", "", "expand", "expanded"},
		"long":               {stripely("POST", "/v1/charges", okForm+"&description="+strings.Repeat("x", 1<<20)), 413, "invalid_request_error", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := stripeFake()
			w := serve(newAPI(t, f), c.request)
			e := stripeErrorIn(t, w).Error
			if w.Code != c.status || e.Type != c.kind || e.Code != c.code || e.Param != c.param || !strings.Contains(e.Message, c.says) || strings.Contains(w.Body.String(), "4242") {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if w.Header().Get("Stripe-Should-Retry") != "false" || (w.Code == 401) != (w.Header().Get("Www-Authenticate") != "") {
				t.Errorf("got %v", w.Header())
			}
			if len(f.requests)+len(f.objects) > 0 {
				t.Error("the request passed the checks")
			}
		})
	}
}

func TestBasicIsAPIKey(t *testing.T) {
	for _, password := range []string{"", "whatever"} {
		r := stripely("POST", "/v1/charges", okForm, "Authorization", "")
		r.SetBasicAuth("sk_acme", password)
		if w := serve(newAPI(t, stripeFake()), r); w.Code != 200 {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	}
}

// Stripe-Version does not change which declines are remembered. The answer never advises a client
// to repeat one.
func TestStripesDeclines(t *testing.T) {
	for _, retry := range []problem.Retry{problem.SameKey, problem.NewKey} {
		p := problem.New(problem.CardDeclined, "Your card has insufficient funds.")
		p.Retry, p.DeclineCode, p.RetryAfter = retry, "insufficient_funds", time.Second
		f := newFake()
		do := f.do
		f.do = func(ctx context.Context, r claim.Request) (claim.Reply, error) {
			reply, err := do(ctx, r)
			reply.Response = claim.Response{Status: 402, Header: []claim.HeaderField{{Name: "Content-Type", Value: problem.ContentType}}, Body: p.JSON("")}
			return reply, err
		}
		w := serve(newAPI(t, f), stripely("POST", "/v1/payment_intents", okForm+"&confirm=true&off_session=true"))
		e := stripeErrorIn(t, w).Error
		if w.Code != 402 || e.Type != "card_error" || e.Code != "card_declined" || e.DeclineCode != "insufficient_funds" || e.Message != p.Detail {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		if w.Header().Get("Stripe-Should-Retry") != "false" || w.Header().Get("Retry-After") != "1" || len(f.requests) != 1 {
			t.Errorf("got %v after %d requests", w.Header(), len(f.requests))
		}
	}
}

// The API repeats a request without an outcome, as the same request, up to the limit. It repeats no
// request with an outcome.
func TestAskAgain(t *testing.T) {
	for name, c := range map[string]struct {
		errs   []error
		limit  time.Duration
		native bool
		status int
		asked  int
		again  string
	}{
		"in use, then done":   {errs: []error{&claim.InUseError{}, &claim.InUseError{}}, limit: time.Minute, status: 200, asked: 3},
		"unknown, then done":  {errs: []error{&claim.UnknownError{}}, limit: time.Minute, status: 200, asked: 2},
		"down, then up":       {errs: []error{claim.ErrUnavailable, claim.ErrHomeUnreachable}, limit: time.Minute, status: 200, asked: 3},
		"no repeats":          {errs: []error{&claim.UnknownError{}}, status: 503, asked: 1, again: "true"},
		"in use for ever":     {errs: []error{&claim.InUseError{}, &claim.InUseError{}, &claim.InUseError{}}, limit: 300 * time.Millisecond, status: 409, asked: 2, again: "true"},
		"another request":     {errs: []error{claim.ErrMismatch}, limit: time.Minute, status: 400, asked: 1, again: "false"},
		"expired":             {errs: []error{&claim.ExpiredError{FirstUse: firstUse}}, limit: time.Minute, status: 400, asked: 1, again: "false"},
		"unforeseen":          {errs: []error{errors.New("x")}, limit: time.Minute, status: 500, asked: 1, again: "true"},
		"unforeseen, in turn": {errs: []error{&claim.UnknownError{}, claim.ErrMismatch}, limit: time.Minute, status: 400, asked: 2, again: "false"},
		"of another client":   {errs: []error{&claim.InUseError{}}, limit: time.Minute, native: true, status: 409, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := stripeFake()
			do, left := f.do, c.errs
			var began []time.Time
			f.do = func(ctx context.Context, r claim.Request) (claim.Reply, error) {
				began = append(began, r.Began)
				if len(left) > 0 {
					err := left[0]
					left = left[1:]
					return claim.Reply{Home: "mars-1"}, err
				}
				return do(ctx, r)
			}
			r := stripely("POST", "/v1/charges", okForm)
			if c.native {
				r = charge()
			}
			w := serve(newAPI(t, f, func(cfg *Config) { cfg.Limits = DefaultLimits(); cfg.Limits.AskAgain = c.limit }), r)
			if w.Code != c.status || len(f.requests) != c.asked || w.Header().Get("Stripe-Should-Retry") != c.again {
				t.Errorf("got %d %v after %d requests: %s", w.Code, w.Header(), len(f.requests), w.Body)
			}
			for i := range f.requests {
				if !reflect.DeepEqual(f.requests[i], f.requests[0]) || !began[i].Equal(began[0]) {
					t.Error("the API repeated another request")
				}
			}
		})
	}
}

// The API repeats no request of a client that has disconnected.
func TestAskAgainEndsWithTheClient(t *testing.T) {
	f := stripeFake()
	ctx, cancel := context.WithCancel(t.Context())
	f.do = func(context.Context, claim.Request) (claim.Reply, error) {
		cancel()
		return claim.Reply{}, &claim.UnknownError{}
	}
	if w := serve(newAPI(t, f), stripely("POST", "/v1/charges", okForm).WithContext(ctx)); w.Code != 503 || len(f.requests) != 1 {
		t.Errorf("got %d after %d requests", w.Code, len(f.requests))
	}
}

func TestStripesObjects(t *testing.T) {
	f := stripeFake()
	h := newAPI(t, f)
	id, err := claim.NewObjectID("ch", 7, nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/v1/charges/" + id: `{"id":"ch_1","object":"charge"`,
		"/v1/payment_intents/" + strings.Replace(id, "ch_", "pi_", 1) + "?expand[]=latest_charge": `{"id":"pi_1","object":"payment_intent"`,
	} {
		w := serve(h, stripely("GET", path, ""))
		if w.Code != 200 || !strings.HasPrefix(w.Body.String(), want) || strings.Contains(path, "expand") != strings.Contains(w.Body.String(), `"latest_charge":{"id":"ch_1"`) {
			t.Errorf("%s: got %d %s", path, w.Code, w.Body)
		}
	}
	for _, object := range f.objects {
		if object != "acme/"+id {
			t.Errorf("looked up %s", object)
		}
	}
	// A stored object that cannot be rendered is an internal error.
	f.object = func(string, string) (claim.State, claim.Response, bool, error) {
		return claim.Completed, claim.Response{Status: 201, Body: []byte(`{}`)}, true, nil
	}
	if w := serve(h, stripely("GET", "/v1/charges/"+id, "")); w.Code != 500 || stripeErrorIn(t, w).Error.Type != "api_error" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// A capture is one request at each of Stripe's paths and of ours, with a body or without: its
// charge is part of it.
func TestOrders(t *testing.T) {
	f := stripeFake()
	do := f.do
	f.do = func(ctx context.Context, r claim.Request) (claim.Reply, error) {
		reply, err := do(ctx, r)
		reply.Response.Status = 200
		return reply, err
	}
	h := newAPI(t, f)
	id, err := claim.NewObjectID("ch", 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	intent := strings.Replace(id, "ch_", "pi_", 1)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	bare := request("POST", "/v1/charges/"+id+"/cancel", "", "Traceparent", trace)
	bare.Header.Del("Content-Type")
	for _, r := range []*http.Request{
		request("POST", "/v1/charges/"+id+"/capture", `{"amount":600}`, "Traceparent", trace),
		stripely("POST", "/v1/charges/"+id+"/capture", "amount=600", "Traceparent", trace),
		stripely("POST", "/v1/payment_intents/"+intent+"/capture", "amount_to_capture=600", "Traceparent", trace),
		bare,
		request("POST", "/v1/charges/"+id+"/cancel", `{}`, "Traceparent", trace),
		stripely("POST", "/v1/payment_intents/"+intent+"/cancel", "cancellation_reason=abandoned", "Traceparent", trace),
	} {
		if w := serve(h, r); w.Code != 200 {
			t.Errorf("%s: got %d %s", r.URL, w.Code, w.Body)
		}
	}
	for i, want := range []string{"capture", "capture", "capture", "cancel", "cancel", "cancel"} {
		r, body := f.requests[i], `{"charge":"`+id+`"}`
		if want == "capture" {
			body = `{"amount":600,"charge":"` + id + `"}`
		}
		if want == "capture" && i > 0 { // in Stripe's units of the charge's currency
			body = `{"amount":600,"amount_units":"stripe","charge":"` + id + `"}`
		}
		if r.Operation != want || r.Input.Path != "/v1/charges/"+id+"/"+want || string(r.Input.Canonical) != body || r.PreferHome != 3 {
			t.Errorf("%d: got %+v", i, r)
		}
	}
	for path, body := range map[string]string{
		"/v1/charges/" + id + "/capture": `{"amount":"6"}`, "/v1/charges/" + id + "/cancel": `{"charge":"` + id + `"}`, "/v1/charges/re_1/capture": `{}`,
		"/v1/payment_intents/" + intent + "/capture": `{}`, "/v1/charges/" + id + "/refund": `{}`,
	} {
		if w := serve(h, request("POST", path, body)); w.Code != 400 && w.Code != 404 {
			t.Errorf("%s %s: got %d %s", path, body, w.Code, w.Body)
		}
	}
	if len(f.requests) != 6 {
		t.Errorf("%d requests reached the router", len(f.requests))
	}
}

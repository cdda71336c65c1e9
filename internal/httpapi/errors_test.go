package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/router"
)

// Every row of the contract's error table over HTTP, and whether the request reached a claim.
func TestContract(t *testing.T) {
	does := func(err error) func(*fake) {
		return func(f *fake) {
			f.do = func(context.Context, claim.Request) (claim.Reply, error) {
				return claim.Reply{}, fmt.Errorf("wrapped: %w", err)
			}
		}
	}
	stored := func(p problem.Problem) func(*fake) {
		return func(f *fake) {
			f.do = func(context.Context, claim.Request) (claim.Reply, error) {
				return claim.Reply{ServedBy: "us-east1", Response: claim.Response{
					Status: p.Status, Header: []claim.HeaderField{{Name: "Content-Type", Value: problem.ContentType}}, Body: p.JSON(""),
				}}, nil
			}
		}
	}
	declines := func(retry problem.Retry) func(*fake) {
		p := problem.New(problem.CardDeclined, "No.")
		p.Retry = retry
		return stored(p)
	}
	nothing := func(*fake) {}
	twice := func(name, value string, r *http.Request) *http.Request {
		r.Header.Add(name, value)
		return r
	}
	post := func(body string) *http.Request { return request("POST", "/v1/charges", body) }
	const mib = 1 << 20
	covered := map[problem.Code]bool{}
	for _, c := range []struct {
		name    string
		request *http.Request
		below   func(*fake)
		status  int
		code    problem.Code
		retry   problem.Retry
		member  string
		detail  string
		reaches bool
		afterMS int64
		header  [2]string
	}{
		{name: "no key", request: charge("Idempotency-Key", ""), status: 400, code: problem.KeyMissing, retry: "never"},
		{name: "blank key", request: charge("Idempotency-Key", " \t"), status: 400, code: problem.KeyMissing, retry: "never"},
		{name: "key with a space", request: charge("Idempotency-Key", "a b"), status: 400, code: problem.KeyInvalid, retry: "never"},
		{name: "key too long", request: charge("Idempotency-Key", strings.Repeat("k", 256)), status: 400, code: problem.KeyInvalid, retry: "never"},
		{name: "key unclosed", request: charge("Idempotency-Key", `"a`), status: 400, code: problem.KeyInvalid, retry: "never"},
		{name: "two keys", request: twice("Idempotency-Key", "k-1", charge()), status: 400, code: problem.KeyInvalid, retry: "never"},

		{name: "no body", request: post(""), status: 400, code: problem.InvalidRequest, retry: "never"},
		{name: "cut body", request: post(`{"amount":`), status: 400, code: problem.InvalidRequest, retry: "never", member: "amount"},
		{name: "two values", request: post(okBody + "{}"), status: 400, code: problem.InvalidRequest, retry: "never"},
		{name: "duplicate member", request: post(`{"amount":1,"metadata":{"a":"1","\u0061":"2"}}`), status: 400, code: problem.InvalidRequest, retry: "never", member: "metadata.a"},
		{name: "duplicate card number", request: post(`{"4242424242424242":1,"4242424242424242":2}`), status: 400, code: problem.InvalidRequest, retry: "never", detail: "duplicate"},
		{name: "array", request: post(`[]`), status: 400, code: problem.InvalidRequest, retry: "never", detail: "object"},
		{name: "half a cent", request: post(strings.Replace(okBody, "1999", "100.5", 1)), status: 400, code: problem.InvalidRequest, retry: "never", member: "amount"},
		{name: "unknown member", request: post(strings.Replace(okBody, "{", `{"colour":"red",`, 1)), status: 400, code: problem.InvalidRequest, retry: "never", member: "colour"},
		{name: "card number", request: post(strings.Replace(okBody, "pm_card_visa", "4242424242424242", 1)), status: 400, code: problem.InvalidRequest, retry: "never", member: "payment_method", detail: "card number"},

		{name: "no API key", request: charge("Authorization", ""), status: 401, code: problem.Unauthorized, retry: "never", header: [2]string{"Www-Authenticate", "Bearer"}},
		{name: "basic", request: charge("Authorization", "Basic c2tfYWNtZTo="), status: 401, code: problem.Unauthorized, retry: "never"},
		{name: "unknown API key", request: charge("Authorization", "Bearer sk_nobody"), status: 401, code: problem.Unauthorized, retry: "never", header: [2]string{"Www-Authenticate", "Bearer"}},
		{name: "two API keys", request: twice("Authorization", "Bearer sk_globex", charge()), status: 401, code: problem.Unauthorized, retry: "never"},
		{name: "control in API key", request: charge("Authorization", "Bearer sk_\x7facme"), status: 401, code: problem.Unauthorized, retry: "never"},
		{name: "unknown path, no API key", request: request("GET", "/v1/nothing", "", "Authorization", ""), status: 401, code: problem.Unauthorized, retry: "never"},
		{name: "unknown tenant", request: charge(), below: does(claim.ErrUnknownTenant), status: 403, code: problem.Forbidden, retry: "never", reaches: true},

		{name: "hard decline", request: charge(), below: declines(problem.NewKey), status: 402, code: problem.CardDeclined, retry: "new_key", reaches: true},
		{name: "soft decline", request: charge(), below: declines(problem.SameKey), status: 402, code: problem.CardDeclined, retry: "same_key", reaches: true},

		{name: "root of the API", request: request("POST", "/v1", okBody), status: 404, code: problem.NotFound, retry: "never"},
		{name: "root of the API, no API key", request: request("GET", "/v1", "", "Authorization", ""), status: 401, code: problem.Unauthorized, retry: "never"},
		{name: "unknown path", request: request("GET", "/v1/nothing", ""), status: 404, code: problem.NotFound, retry: "never"},
		{name: "refund of nothing", request: request("POST", "/v1/refunds", "{}"), status: 400, code: problem.InvalidRequest, retry: "never", member: "charge"},
		{name: "refund of no id", request: request("POST", "/v1/refunds", `{"charge":"ch_1"}`), status: 400, code: problem.InvalidRequest, retry: "never", member: "charge"},
		{name: "compensations", request: request("POST", "/v1/compensations", "{}"), status: 404, code: problem.NotFound, retry: "never"},
		{name: "root", request: request("GET", "/", "", "Authorization", ""), status: 404, code: problem.NotFound, retry: "never"},
		{name: "trailing slash", request: request("POST", "/v1/charges/", okBody), status: 404, code: problem.NotFound, retry: "never"},
		{name: "double slash", request: request("POST", "/v1//charges", okBody), status: 404, code: problem.NotFound, retry: "never"},
		{name: "dots", request: request("POST", "/v1/x/../charges", okBody), status: 404, code: problem.NotFound, retry: "never"},
		{name: "method", request: request("PUT", "/v1/transfers", okBody), status: 405, code: problem.MethodNotAllowed, retry: "never", header: [2]string{"Allow", "POST"}},
		{name: "method on an object", request: request("DELETE", "/v1/charges/ch_1", ""), status: 405, code: problem.MethodNotAllowed, retry: "never", header: [2]string{"Allow", "GET, HEAD"}},
		{name: "too large", request: post(okBody + strings.Repeat(" ", mib)), status: 413, code: problem.BodyTooLarge, retry: "never"},
		{name: "too large, in chunks", request: chunked(post(okBody + strings.Repeat(" ", mib))), status: 413, code: problem.BodyTooLarge, retry: "never"},
		{name: "form", request: charge("Content-Type", "application/x-www-form-urlencoded"), status: 415, code: problem.UnsupportedMediaType, retry: "never"},
		{name: "no type", request: charge("Content-Type", ""), status: 415, code: problem.UnsupportedMediaType, retry: "never"},
		{name: "two types", request: twice("Content-Type", "application/json", charge()), status: 415, code: problem.UnsupportedMediaType, retry: "never"},
		{name: "latin", request: charge("Content-Type", "application/json; charset=latin1"), status: 415, code: problem.UnsupportedMediaType, retry: "never"},
		{name: "gzip", request: charge("Content-Encoding", "gzip"), status: 415, code: problem.UnsupportedMediaType, retry: "never"},

		{name: "in use", request: charge(), below: does(&claim.InUseError{RetryAfter: 5 * time.Second}), status: 409, code: problem.KeyInUse, retry: "same_key", reaches: true, afterMS: 5000, header: [2]string{"Retry-After", "5"}},
		{name: "canceled", request: charge(), below: stored(problem.New(problem.KeyCanceled, "No.")), status: 410, code: problem.KeyCanceled, retry: "new_key", reaches: true},
		{name: "expired", request: charge(), below: does(&claim.ExpiredError{FirstUse: firstUse}), status: 410, code: problem.KeyExpired, retry: "new_key", reaches: true},
		{name: "mismatch", request: charge(), below: does(claim.ErrMismatch), status: 422, code: problem.FingerprintMismatch, retry: "never", reaches: true},
		{name: "store", request: charge(), below: does(claim.ErrUnavailable), status: 503, code: problem.StoreUnavailable, retry: "same_key", reaches: true, afterMS: 1000, header: [2]string{"Retry-After", "1"}},
		{name: "home", request: charge(), below: does(router.ErrHomeUnavailable), status: 503, code: problem.HomeUnavailable, retry: "same_key", reaches: true, afterMS: 2000, header: [2]string{"Retry-After", "2"}},
		{name: "unknown", request: charge(), below: does(&claim.UnknownError{RetryAfter: 1500 * time.Millisecond}), status: 503, code: problem.OutcomeUnknown, retry: "same_key", reaches: true, afterMS: 1500, header: [2]string{"Retry-After", "2"}},
		{name: "withheld", request: charge(), below: does(&claim.WithheldError{RetryAfter: 30 * time.Second}), status: 503, code: problem.KeyWithheld, retry: "same_key", reaches: true, afterMS: 30000, header: [2]string{"Retry-After", "30"}},
		{name: "tenants down", request: charge(), below: func(f *fake) { f.tenantsErr = claim.ErrUnavailable }, status: 503, code: problem.StoreUnavailable, retry: "same_key", afterMS: 1000},
		{name: "surprise", request: charge(), below: does(errors.New("secret: 10.0.0.7 refused")), status: 500, code: problem.Internal, retry: "same_key", reaches: true},
		{name: "no body stored", request: charge(), below: func(f *fake) {
			f.do = func(context.Context, claim.Request) (claim.Reply, error) {
				return claim.Reply{Response: claim.Response{Status: 201, Blob: "ab"}}, nil
			}
		}, status: 500, code: problem.Internal, retry: "same_key", reaches: true},
	} {
		covered[c.code] = true
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			if c.below == nil {
				c.below = nothing
			}
			c.below(f)
			w := serve(newAPI(t, f), c.request)
			p := problemIn(t, w)
			if w.Code != c.status || p.Error != string(c.code) || p.Retry != string(c.retry) || p.RetryAfterMS != c.afterMS {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if p.Member != c.member || !strings.Contains(p.Detail, c.detail) || strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), "4242") {
				t.Errorf("body %s", w.Body)
			}
			if c.header[0] != "" && w.Header().Get(c.header[0]) != c.header[1] {
				t.Errorf("%s is %q", c.header[0], w.Header().Get(c.header[0]))
			}
			if (c.afterMS > 0) != (w.Header().Get("Retry-After") != "") {
				t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
			}
			if got := w.Header().Get("Homeward-Served-By"); got != "us-east1" && admitted(f, c.request) {
				t.Errorf("served by %q", got)
			}
			if (len(f.requests) > 0) != c.reaches {
				t.Errorf("%d requests got past the checks", len(f.requests))
			}
			if c.code == problem.KeyExpired && p.OriginalRequestAt != "2030-01-01T12:00:00Z" {
				t.Errorf("original_request_at %q", p.OriginalRequestAt)
			}
		})
	}
	covered[problem.RateLimited] = true // TestRateLimit
	for _, code := range problem.Codes() {
		if !covered[code] {
			t.Errorf("no case for %s", code)
		}
	}
}

// admitted reports whether the API has the tenant of r when it answers.
func admitted(f *fake, r *http.Request) bool {
	token, ok := bearer(r)
	_, found := f.tenants[token]
	return ok && found && f.tenantsErr == nil && clean(r.URL.EscapedPath()) && strings.HasPrefix(r.URL.Path, "/v1")
}

// The headers of an error show the way to the home, as far as the router found it.
func TestErrorsShowTheRoute(t *testing.T) {
	stamp := func(code claim.RegionCode) string {
		key, err := claim.Stamp(code, nil)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	for name, c := range map[string]struct {
		key, home string
		err       error
		reply     claim.Reply
		body      string
	}{
		"stamped here":      {key: stamp(7), home: "us-east1", err: claim.ErrMismatch},
		"stamped elsewhere": {key: stamp(8), home: "mars-1", err: router.ErrHomeUnavailable},
		"stamped, unknown":  {key: stamp(9), err: router.ErrHomeUnavailable},
		"stamped, refused":  {key: stamp(8), home: "mars-1", body: `{}`},
		"opaque, no claim":  {key: "k-1", err: router.ErrHomeUnavailable},
		"in use":            {key: "k-1", home: "mars-1", err: &claim.InUseError{}, reply: claim.Reply{Home: "mars-1", ExpiresAt: firstUse}},
		"mismatch":          {key: "k-1", home: "mars-1", err: claim.ErrMismatch, reply: claim.Reply{Home: "mars-1", ExpiresAt: firstUse}},
		"unknown":           {key: "k-1", home: "mars-1", err: &claim.UnknownError{}, reply: claim.Reply{Home: "mars-1", ExpiresAt: firstUse}},
		"expired":           {key: "k-1", home: "mars-1", err: &claim.ExpiredError{FirstUse: firstUse}, reply: claim.Reply{Home: "mars-1", ExpiresAt: firstUse}},
		"unforeseen":        {key: "k-1", err: errors.New("x")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			c.reply.Hops = 2
			f.do = func(context.Context, claim.Request) (claim.Reply, error) { return c.reply, c.err }
			req, hops := charge("Idempotency-Key", c.key), "2"
			if c.body != "" { // refused before it reaches the router
				req, hops = request("POST", "/v1/charges", c.body, "Idempotency-Key", c.key), ""
			}
			w := serve(newAPI(t, f), req)
			problemIn(t, w)
			h := w.Header()
			if h.Get("Homeward-Served-By") != "us-east1" || h.Get("Homeward-Hops") != hops || h.Get("Homeward-Home-Region") != c.home {
				t.Errorf("got %v, want home %q", h, c.home)
			}
			until := ""
			if !c.reply.ExpiresAt.IsZero() {
				until = timestamp(c.reply.ExpiresAt)
			}
			if h.Get("Idempotency-Expires-At") != until {
				t.Errorf("got %v, want %q", h, until)
			}
		})
	}
	// A caller without a valid API key learns nothing of regions.
	if w := serve(newAPI(t, newFake()), charge("Authorization", "Bearer sk_nobody")); w.Code != 401 || w.Header().Get("Homeward-Served-By") != "" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

// The answer of a claim that was given up is replayed to the byte. It advises a new key, and has
// no Retry-After.
func TestGivenUpIsReplayed(t *testing.T) {
	p := problem.New(problem.OutcomeUnknown, "Given up.")
	p.Retry = problem.NewKey
	f := newFake()
	first := f.do
	f.do = func(ctx context.Context, r claim.Request) (claim.Reply, error) {
		reply, err := first(ctx, r)
		reply.State, reply.Replayed = claim.FailedTerminal, true
		reply.Response = claim.Response{Status: p.Status, Header: []claim.HeaderField{{Name: "Content-Type", Value: problem.ContentType}}, Body: p.JSON("")}
		return reply, err
	}
	w := serve(newAPI(t, f), charge())
	if got := problemIn(t, w); got.Retry != "new_key" || w.Body.String() != string(p.JSON("")) || w.Header().Get("Idempotent-Replayed") != "true" || w.Header().Get("Retry-After") != "" {
		t.Errorf("got %v %s", w.Header(), w.Body)
	}
}

// chunked hides the length of the body, as a chunked request does.
func chunked(r *http.Request) *http.Request {
	r.ContentLength = -1
	return r
}

// The errors of the packages below that no case above has.
func TestProblemOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		code problem.Code
		wait time.Duration
	}{
		{&claim.InUseError{}, problem.KeyInUse, 5 * time.Second},
		{&claim.UnknownError{}, problem.OutcomeUnknown, time.Second},
		{claim.ErrLeaseHeld, problem.KeyInUse, 5 * time.Second},
		{claim.ErrFenced, problem.OutcomeUnknown, time.Second},
		{claim.ErrNeedPin, problem.HomeUnavailable, 2 * time.Second},
		{claim.ErrHomeUnreachable, problem.HomeUnavailable, 2 * time.Second},
		{claim.ErrFingerprintVersion, problem.StoreUnavailable, time.Second},
		{context.DeadlineExceeded, problem.OutcomeUnknown, time.Second},
		{context.Canceled, problem.OutcomeUnknown, time.Second},
		// The more precise of two wins.
		{fmt.Errorf("%w: %w", claim.ErrUnavailable, context.DeadlineExceeded), problem.StoreUnavailable, time.Second},
		{errors.Join(claim.ErrUnavailable, claim.ErrHomeUnreachable), problem.HomeUnavailable, 2 * time.Second},
	} {
		p, ok := problemOf(fmt.Errorf("wrapped: %w", c.err))
		if !ok || p.Code != c.code || p.RetryAfter != c.wait {
			t.Errorf("%v: got %+v, %v", c.err, p, ok)
		}
	}
	if p, ok := problemOf(errors.New("x")); ok || p.Code != problem.Internal {
		t.Errorf("got %+v, %v", p, ok)
	}
}

func TestSentence(t *testing.T) {
	for in, want := range map[string]string{"": "", "a": "A.", "A b.": "A b.", "so?": "So?", "é": "é."} {
		if got := sentence(in); got != want {
			t.Errorf("%q: got %q", in, got)
		}
	}
}

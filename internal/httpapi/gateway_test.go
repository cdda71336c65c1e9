package httpapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/internal/seal/sealtest"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/router"
)

// newGated is a gateway in front of upstream, whose claims are f's.
func newGated(t *testing.T, upstream string, f *fake, routes ...gateway.Route) http.Handler {
	t.Helper()
	s := gateway.DefaultSettings()
	s.Upstream, s.Routes = upstream, routes
	g, err := gateway.New(gateway.Config{Settings: s, Region: "us-east1", Seal: sealtest.Ring(1)})
	require.NoError(t, err)
	t.Cleanup(g.Close)
	h, err := NewGateway(Config{
		Router: f, Region: "us-east1", RegionCode: 1, List: noList,
	}, g)
	require.NoError(t, err)
	return h
}

func ask(h http.Handler, method, target, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return serve(h, r)
}

// TestAKeyThatCannotBeReadDoesNotPass: the upstream unpacks the body, finds the key in it, and must not get
// a retry. A body that certainly has no key passes.
func TestAKeyThatCannotBeReadDoesNotPass(t *testing.T) {
	sent := 0
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent++ }))
	defer up.Close()
	h := newGated(t, up.URL, newFake(), gateway.Route{Match: "POST /orders", Key: gateway.Key{Member: "/reference"}})
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := io.WriteString(z, `{"reference":"r-1"}`)
	require.NoError(t, errors.Join(err, z.Close()))
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/orders", bytes.NewReader(packed.Bytes()))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Content-Encoding", "gzip")
		w := serve(h, r)
		require.Equal(t, 400, w.Code, w.Body)
		require.Contains(t, w.Body.String(), `"error":"idempotency_key_invalid"`)
	}
	require.Zero(t, sent)
	require.Equal(t, 200, ask(h, "POST", "/orders", "").Code) // {}
	require.Equal(t, 1, sent)
}

// TestAGatewayThatWaitsSendsNothing: it is live and not ready, and refuses also what it does not guard.
func TestAGatewayThatWaitsSendsNothing(t *testing.T) {
	sent := 0
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent++ }))
	defer up.Close()
	s := gateway.DefaultSettings()
	s.Upstream, s.Routes = up.URL, []gateway.Route{{Match: "POST /refunds", Profile: "stripe"}}
	g, err := gateway.New(gateway.Config{Settings: s, Region: "us-east1"})
	require.NoError(t, err)
	t.Cleanup(g.Close)
	h, err := NewWaitingGateway(Config{
		Router: newFake(), Region: "us-east1", RegionCode: 1, List: noList, Ready: func(context.Context, bool) error { return errors.New("it waits") },
	}, g)
	require.NoError(t, err)
	require.Equal(t, 200, ask(h, "GET", "/_homeward/livez", "").Code)
	require.Equal(t, 200, ask(h, "GET", "/_homeward/errors", "").Code)
	for _, query := range []string{"", "?exclude=region"} {
		require.Equal(t, 503, ask(h, "GET", "/_homeward/readyz"+query, "").Code)
	}
	for _, request := range []string{"GET /orders", "POST /orders", "GET /livez", "GET /_homeward/idempotency-keys/k", "POST /_homeward/idempotency-keys/k/cancel"} {
		method, path, _ := strings.Cut(request, " ")
		w := ask(h, method, path, "k")
		require.Equal(t, 503, w.Code, request)
		require.Contains(t, w.Body.String(), `"error":"store_unavailable"`, request)
		require.NotEmpty(t, w.Header().Get("Retry-After"), request)
	}
	w := ask(h, "POST", "/refunds", "k")
	require.Equal(t, 503, w.Code)
	require.Contains(t, w.Body.String(), `"type":"api_error"`, "Stripe's dialect, as of its route")
	require.Zero(t, sent, "the upstream got a request")
}

// TestAGatewaySendsNothingWithoutAClaim, whatever the error: the claim may be there, and done.
func TestAGatewaySendsNothingWithoutAClaim(t *testing.T) {
	sent := 0
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent++ }))
	defer up.Close()
	for name, failed := range map[string]error{
		"the home got it, and its answer was lost":     fmt.Errorf("%w: %w", router.ErrHomeUnavailable, region.ErrNoAnswer),
		"it is done, and its long body cannot be read": fmt.Errorf("%w: response body ab: %w", claim.ErrUnavailable, io.ErrUnexpectedEOF),
		"the commit is ambiguous":                      fmt.Errorf("%w: %w", claim.ErrUnavailable, errors.New("the connection is gone")),
	} {
		f := newFake()
		f.do = func(context.Context, claim.Request) (claim.Reply, error) {
			return claim.Reply{Home: "us-east1"}, failed
		}
		w := ask(newGated(t, up.URL, f, gateway.Route{Match: "POST /orders"}), "POST", "/orders", "k")
		require.Equal(t, http.StatusServiceUnavailable, w.Code, name)
		require.Contains(t, w.Body.String(), `"retry":"same_key"`, name)
		require.NotContains(t, w.Body.String(), "not sent", "%s: nobody knows that", name)
		require.Zero(t, sent, name)
	}
}

// TestRowsOfTenantsThatAppearAreBounded, in the route's dialect, and no tenant that has one waits for that.
func TestRowsOfTenantsThatAppearAreBounded(t *testing.T) {
	f := newFake()
	rows, now := map[string]claim.Tenant{"old": {ID: "old"}}, time.Unix(0, 0)
	s := gateway.DefaultSettings()
	s.Upstream, s.TrustedProxies, s.Tenant = "http://127.0.0.1:9", []string{"192.0.2.0/24"}, gateway.Tenant{From: "header", Name: "X-Tenant"}
	s.Routes = []gateway.Route{{Match: "POST /stripe", Profile: "stripe"}}
	g, err := gateway.New(gateway.Config{Settings: s, Region: "us-east1", Seal: sealtest.Ring(1)})
	require.NoError(t, err)
	t.Cleanup(g.Close)
	h, err := NewGateway(Config{
		Router: f, Region: "us-east1", RegionCode: 1, List: noList, Now: func() time.Time { return now },
		Tenant: func(_ context.Context, id string) (claim.Tenant, error) {
			if row, ok := rows[id]; ok {
				return row, nil
			}
			return claim.Tenant{}, claim.ErrUnknownTenant
		},
		NewTenant: func(_ context.Context, id, name string) (claim.Tenant, error) {
			rows[id] = claim.Tenant{ID: id, Name: name}
			return rows[id], nil
		},
	}, g)
	require.NoError(t, err)
	n := 0
	send := func(path, tenant string) *httptest.ResponseRecorder {
		n++
		r := httptest.NewRequest("POST", path, strings.NewReader("{}"))
		r.Header.Set("Idempotency-Key", fmt.Sprint("k-", n))
		r.Header.Set("X-Tenant", tenant)
		return serve(h, r)
	}
	for i := range appearing.Burst {
		require.Equal(t, http.StatusCreated, send("/orders", fmt.Sprint("new-", i)).Code, i)
	}
	made := len(rows)
	late := send("/orders", "late")
	require.Equal(t, http.StatusTooManyRequests, late.Code)
	require.Equal(t, "1", late.Header().Get("Retry-After"))
	require.Contains(t, late.Body.String(), `"error":"rate_limited"`)
	stripe := send("/stripe", "late")
	require.Equal(t, http.StatusTooManyRequests, stripe.Code)
	require.Contains(t, stripe.Body.String(), `"type":"invalid_request_error"`)
	for _, tenant := range []string{"old", "new-0"} {
		require.Equal(t, http.StatusCreated, send("/orders", tenant).Code, tenant)
	}
	require.Len(t, rows, made)
	now = now.Add(time.Second)
	for i := range int(appearing.RatePerSecond) {
		require.Equal(t, http.StatusCreated, send("/orders", fmt.Sprint("later-", i)).Code)
	}
	require.Equal(t, http.StatusTooManyRequests, send("/orders", "last").Code)
}

// TestAGatewaysKeyIsNamedByItsRequest: where a route has a scope or a tenant of its own, a key alone names
// no claim, and what names its request is about the claim of that.
func TestAGatewaysKeyIsNamedByItsRequest(t *testing.T) {
	for name, route := range map[string]gateway.Route{
		"scope path": {Match: "POST /orders", Profile: "acp"},
		"a tenant":   {Match: "POST /orders", Tenant: gateway.Tenant{From: "fixed", Name: "shop"}},
		"no other":   {Match: "POST /orders"},
	} {
		f := newFake()
		h := newGated(t, "http://127.0.0.1:9", f, route)
		const own, named = "/_homeward/idempotency-keys/k", "?method=POST&path=/orders"
		require.Equal(t, http.StatusCreated, ask(h, "POST", "/orders", "k").Code, name)
		key := f.requests[0].Key

		require.Equal(t, http.StatusCreated, ask(h, "POST", own+"/cancel"+named, "").Code, name)
		require.Equal(t, key, f.requests[1].Key, name)
		require.Equal(t, http.StatusNotFound, ask(h, "GET", own+named, "").Code, name)
		require.Equal(t, []claim.Key{key}, f.keys, name)

		if name == "no other" {
			require.Equal(t, http.StatusCreated, ask(h, "POST", own+"/cancel", "").Code)
			require.Equal(t, key, f.requests[2].Key)
			continue
		}
		for _, bare := range []*httptest.ResponseRecorder{ask(h, "POST", own+"/cancel", ""), ask(h, "GET", own, "")} {
			require.Equal(t, http.StatusBadRequest, bare.Code, name)
			require.Contains(t, bare.Body.String(), "method=POST", name)
		}
		for _, wrong := range []string{"?method=GET&path=/orders", "?method=POST", "?path=/orders", "?method=POST&path=orders", named + "&force=true"} {
			require.Equal(t, http.StatusBadRequest, ask(h, "POST", own+"/cancel"+wrong, "").Code, wrong)
		}
		require.Len(t, f.requests, 2)
	}
}

// TestAConnectionDropsNoHeader: what a gateway compares, and whose it takes a request for, is what the
// upstream gets.
func TestAConnectionDropsNoHeader(t *testing.T) {
	f := newFake()
	h := newGated(t, "http://127.0.0.1:9", f)
	send := func(connection ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/orders", strings.NewReader("{}"))
		for name, value := range map[string]string{"Idempotency-Key": "k", "Authorization": "Bearer a", "X-User": "ada", "Te": "trailers", "Keep-Alive": "1"} {
			r.Header.Set(name, value)
		}
		r.Header["Connection"] = connection
		return serve(h, r)
	}
	for _, connection := range [][]string{{"close, X-User"}, {"authorization"}, {"close", "te, Idempotency-Key"}} {
		w := send(connection...)
		require.Equal(t, http.StatusBadRequest, w.Code, connection)
		require.Contains(t, w.Body.String(), "Connection", connection)
	}
	require.Empty(t, f.requests)
	require.Equal(t, http.StatusCreated, send("close, TE, Keep-Alive, X-None").Code)
	require.Len(t, f.requests, 1)
}

// TestAGatewaysErrorsAreItsOwn: it refunds nothing, knows no payments, and a path outside its own is the
// upstream's.
func TestAGatewaysErrorsAreItsOwn(t *testing.T) {
	f := newFake()
	h := newGated(t, "http://127.0.0.1:9", f, gateway.Route{Match: "POST /orders"})
	const own = "/_homeward/"
	ofAGateway := func(at, text string) {
		for _, word := range []string{"refund", "charge", "payment", "payer", "provider", "money", "merchant", "account", "API key", "Bearer"} {
			require.NotContains(t, text, word, at)
		}
		for _, path := range regexp.MustCompile(`(?:GET |POST |<code>|; )(/\S*)`).FindAllStringSubmatch(text, -1) {
			require.True(t, strings.HasPrefix(path[1], own), "%s: %s", at, path[1])
		}
	}
	read := func(at string, status int) string {
		w := ask(h, "GET", at, "")
		require.Equal(t, status, w.Code, at)
		ofAGateway(at, w.Body.String())
		return w.Body.String()
	}
	index := read(own+"errors", http.StatusOK)
	for _, e := range problem.CatalogueBehind() {
		page := read(own+"errors/"+string(e.Code), http.StatusOK)
		for _, text := range []string{string(code(e.Title)), string(code(e.Means)), string(code(e.Safe)), string(code(e.Do))} {
			require.NotEmpty(t, text, e.Code)
			require.Contains(t, page, text, e.Code)
		}
		require.Contains(t, index, `"errors/`+string(e.Code)+`"`)
	}
	read(own+"errors/card_declined", http.StatusNotFound)
	read(own+"nothing", http.StatusNotFound)
	read(own+"idempotency-keys/unused", http.StatusNotFound)
	for _, failed := range []error{
		claim.ErrMismatch, claim.ErrLeaseHeld, claim.ErrFenced, router.ErrHomeUnavailable, claim.ErrUnavailable, claim.ErrUnknownTenant,
		context.DeadlineExceeded, &claim.UnknownError{}, &claim.WithheldError{}, &claim.ExpiredError{}, &claim.InUseError{}, errors.New("a fault"),
	} {
		f.do = func(context.Context, claim.Request) (claim.Reply, error) { return claim.Reply{}, failed }
		for _, at := range []string{"/orders", own + "idempotency-keys/k/cancel"} {
			w := ask(h, "POST", at, "k")
			require.GreaterOrEqual(t, w.Code, 400, failed)
			ofAGateway(at+": "+failed.Error(), w.Body.String())
			e, _ := problem.Parse(w.Body.Bytes())
			require.Contains(t, index, ">"+string(e.Code)+"<", "it has a page")
			require.Contains(t, index, string(code(e.Title)))
		}
	}
}

// TestAGatewaysStoredErrorsHaveTheirHeaders: an error of the gateway's own that a key keeps is answered
// with the headers of one that it does not keep, in each dialect.
func TestAGatewaysStoredErrorsHaveTheirHeaders(t *testing.T) {
	for _, profile := range []string{"rest", "stripe", "adyen", "acp"} {
		f := newFake()
		h := newGated(t, "http://127.0.0.1:9", f, gateway.Route{Match: "POST /orders", Profile: profile})
		p := problem.New(problem.Unreachable, "d")
		p.RetryAfter = 1500 * time.Millisecond
		f.answers(claim.Response{Status: p.Status, Header: []claim.HeaderField{{Name: "Content-Type", Value: problem.ContentType}}, Body: p.JSON(problem.Behind)})
		w := ask(h, "POST", "/orders", "k")
		require.Equal(t, http.StatusBadGateway, w.Code, profile)
		require.Equal(t, "2", w.Header().Get("Retry-After"), profile)
		require.Equal(t, `</_homeward/errors/upstream_unreachable>; rel="describedby"; type="text/html"`, w.Header().Get("Link"), profile)
	}
}

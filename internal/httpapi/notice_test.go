package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/notice"
)

// A refund prefers the home of its charge, and is the same request wherever it arrives.
func TestRefundPrefersItsChargesHome(t *testing.T) {
	f := newFake()
	id, err := claim.NewObjectID("ch", 3, nil)
	require.NoError(t, err)
	body := `{"amount":500,"charge":"` + id + `"}`
	require.Equal(t, 201, serve(newAPI(t, f), request("POST", "/v1/refunds", body)).Code)
	require.Equal(t, 201, serve(newAPI(t, f), charge()).Code)
	got := f.requests[0]
	require.EqualValues(t, 3, got.PreferHome)
	require.Equal(t, "refund", got.Operation)
	require.Equal(t, "/v1/refunds", got.Input.Path)
	require.Equal(t, body, string(got.Input.Canonical))
	require.Zero(t, f.requests[1].PreferHome)
}

// notices records the notice that it receives, and answers err.
type notices struct {
	err      error
	provider string
	header   http.Header
	body     string
	limited  bool
}

func (n *notices) Expects(provider string, header http.Header) error {
	switch {
	case provider != "stripe":
		return notice.ErrUnknownProvider
	case header.Get("Stripe-Signature") == "":
		return notice.ErrForged
	}
	return nil
}

func (n *notices) Receive(ctx context.Context, provider string, header http.Header, body []byte) error {
	n.provider, n.header, n.body = provider, header, string(body)
	_, n.limited = ctx.Deadline()
	return n.err
}

func posted(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Stripe-Signature", "t=1,v1=ab")
	return r
}

func TestNotices(t *testing.T) {
	largest := strings.Repeat(" ", notice.MaxNotice)
	for _, c := range []struct {
		name    string
		request *http.Request
		err     error
		none    bool // the API has no Notices
		status  int
		code    string
		retry   string // Retry-After
		reaches bool
	}{
		{name: "stored", request: posted("POST", "/v1/webhooks/stripe", "not JSON \xff"), status: 200, reaches: true},
		{name: "the largest", request: posted("POST", "/v1/webhooks/stripe", largest), status: 200, reaches: true},
		{name: "empty", request: posted("POST", "/v1/webhooks/stripe", ""), status: 200, reaches: true},
		{name: "too large", request: posted("POST", "/v1/webhooks/stripe", largest+" "), status: 413, code: "body_too_large"},
		{name: "too large, in chunks", request: chunked(posted("POST", "/v1/webhooks/stripe", largest+" ")), status: 413, code: "body_too_large"},
		{name: "no such provider", request: posted("POST", "/v1/webhooks/nobody", "{}"), status: 404, code: "not_found"},
		{name: "no such provider, and too large", request: posted("POST", "/v1/webhooks/nobody", largest+" "), status: 404, code: "not_found"},
		{name: "provider removed meanwhile", request: posted("POST", "/v1/webhooks/stripe", "{}"), err: notice.ErrUnknownProvider, status: 404, code: "not_found", reaches: true},
		{name: "no notices at all", request: posted("POST", "/v1/webhooks/stripe", "{}"), none: true, status: 404, code: "not_found"},
		{name: "forged", request: posted("POST", "/v1/webhooks/stripe", "{}"), err: fmt.Errorf("stripe: %w", notice.ErrForged), status: 400, code: "invalid_request", reaches: true},
		{name: "no secret to check it with", request: posted("POST", "/v1/webhooks/stripe", "{}"), err: fmt.Errorf("stripe: %w", notice.ErrUnchecked), status: 503, code: "store_unavailable", retry: "1", reaches: true},
		{name: "stale", request: posted("POST", "/v1/webhooks/stripe", "{}"), err: notice.ErrStale, status: 400, code: "invalid_request", reaches: true},
		{name: "malformed", request: posted("POST", "/v1/webhooks/stripe", "{"), err: notice.ErrMalformed, status: 400, code: "invalid_request", reaches: true},
		{name: "busy", request: posted("POST", "/v1/webhooks/stripe", "{}"), err: notice.ErrBusy, status: 503, code: "store_unavailable", retry: "1", reaches: true},
		{name: "no store", request: posted("POST", "/v1/webhooks/stripe", "{}"), err: fmt.Errorf("x: %w", claim.ErrUnavailable), status: 503, code: "store_unavailable", retry: "1", reaches: true},
		{name: "slow", request: posted("POST", "/v1/webhooks/stripe", "{}"), err: context.DeadlineExceeded, status: 503, code: "store_unavailable", retry: "1", reaches: true},
		{name: "surprise", request: posted("POST", "/v1/webhooks/stripe", "{}"), err: errors.New("hidden"), status: 500, code: "internal", reaches: true},
		{name: "method", request: posted("GET", "/v1/webhooks/stripe", ""), status: 405, code: "method_not_allowed"},
		{name: "no provider", request: posted("POST", "/v1/webhooks/", "{}"), status: 401, code: "unauthorized"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, n := newFake(), &notices{err: c.err}
			sent := c.request.ContentLength
			w := serve(newAPI(t, f, func(conf *Config) {
				if !c.none {
					conf.Notices = n
				}
				conf.Limits = DefaultLimits()
				conf.Limits.TenantRate, conf.Limits.TenantBurst = 1e-9, 1
			}), c.request)
			require.Equal(t, c.status, w.Code)
			require.Equal(t, c.reaches, n.provider != "")
			require.Empty(t, f.requests, "a notice is no claim")
			require.Equal(t, c.retry, w.Header().Get("Retry-After"))
			require.NotContains(t, w.Body.String(), "hidden")
			if c.code != "" {
				require.Equal(t, c.code, problemIn(t, w).Error)
				return
			}
			require.Zero(t, w.Body.Len())
			require.Equal(t, "stripe", n.provider)
			require.Equal(t, "t=1,v1=ab", n.header.Get("Stripe-Signature"))
			require.Len(t, n.body, int(sent))
			require.True(t, n.limited)
		})
	}
}

// unread fails the test that reads it.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func (unread) Close() error { return nil }

// The API reads no body if no provider of the path's name sends notices, or if the header has no
// signature.
func TestUnexpectedNoticesAreNotRead(t *testing.T) {
	h := newAPI(t, newFake(), func(c *Config) { c.Notices = &notices{} })
	r := posted("POST", "/v1/webhooks/nobody", "")
	r.Body, r.ContentLength = unread{t}, 1<<20
	require.Equal(t, 404, serve(h, r).Code)
	r = posted("POST", "/v1/webhooks/stripe", "")
	r.Body, r.ContentLength = unread{t}, 1<<10
	r.Header.Del("Stripe-Signature")
	w := serve(h, r)
	require.Equal(t, 400, w.Code)
	require.Equal(t, "invalid_request", problemIn(t, w).Error)
}

// The rate of a tenant does not limit notices, which have no tenant.
func TestNoticesHaveNoRate(t *testing.T) {
	h := newAPI(t, newFake(), func(c *Config) {
		c.Notices = &notices{}
		c.Limits = DefaultLimits()
		c.Limits.TenantRate, c.Limits.TenantBurst = 1e-9, 1
	})
	for range 3 {
		require.Equal(t, 200, serve(h, posted("POST", "/v1/webhooks/stripe", "{}")).Code)
	}
	require.Equal(t, 201, serve(h, charge()).Code)
	require.Equal(t, 429, serve(h, charge()).Code)
}

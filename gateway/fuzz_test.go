package gateway

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/seal/sealtest"
)

// fuzzed is a gateway whose routes use all that a rule can read of a request.
func fuzzed(f *testing.F) *Gateway {
	s := DefaultSettings()
	s.Upstream = "http://127.0.0.1:9"
	s.Routes = []Route{
		{Match: "POST /orders/{id}", Ask: Ask{Path: "/orders/{id}/by/{key}?ref={/ref}&of={tenant}", SureAfter: time.Minute, Replies: []Reply{{Status: []string{"404"}, Outcome: released}, {Status: []string{"2xx"}, Outcome: done}}}},
		{Match: "POST /members", Key: Key{Member: "/meta/key", Missing: missingPass}, Fingerprint: Fingerprint{Without: []string{"at"}}, Dedupe: "Idempotency-Key"},
		{Match: "POST /repeated/{rest...}", Key: Key{Scope: scopePath}, Dedupe: "Idempotency-Key", Fingerprint: Fingerprint{Headers: []string{"Host", "X-Of"}}, NeverStore: []string{"card.cvc", "secret"}},
	}
	g, err := New(Config{Settings: s, Region: "us-east1", Seal: sealtest.Ring(1), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(f, err)
	f.Cleanup(g.Close)
	return g
}

// FuzzRequests: a request as a server reads it is guarded alike each time. The upstream gets what came,
// what a rule never stores is not there for a repeat, and a look-up asks at no other place than its own.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		"POST /orders/7%2F8?a=1 HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"ref\": 1e2}",
		"POST /orders/.. HTTP/1.1\r\nHost: a\r\nIdempotency-Key: ..\r\nContent-Length: 0\r\n\r\n",
		"POST /members HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 33\r\n\r\n{\"meta\":{\"key\":\"k\"},\"at\":1,\"b\":[]}",
		"POST //repeated/a/../b?card[cvc]=1 HTTP/1.0\r\nIdempotency-Key: \"k\"\r\n\r\n",
		"POST /repeated/a HTTP/1.1\r\nHost: b\r\nX-Of: 1\r\nIdempotency-Key: k\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 15\r\n\r\ncard%5Bcvc%5D=1",
		"POST http://other/x HTTP/1.1\r\nHost: b\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{] \r\n0\r\n\r\n",
		"POST p:r HTTP/1.1\r\nHost: b\r\nIdempotency-Key: k\r\n\r\n",
		"PATCH /x? HTTP/1.1\r\nHost: b\r\nConnection: X-A\r\nX-A: 1\r\nIdempotency-Key: k\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
	} {
		f.Add([]byte(seed))
	}
	g := fuzzed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		read := func() (*http.Request, []byte) {
			r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
			if err != nil || r.URL.Opaque != "" { // the API refuses these
				t.Skip()
			}
			r.RemoteAddr = "127.0.0.1:1"
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Skip()
			}
			return r, body
		}
		guard := func() (c *Call, r *http.Request, body []byte, req claim.Request) {
			r, body = read()
			if c = g.Match(r); c == nil {
				t.Skip()
			}
			tenant, _, err := c.Tenant(r)
			if err != nil {
				t.Skip()
			}
			sent, value, err := c.Key(r, body)
			if err != nil || value == "" {
				t.Skip()
			}
			if _, err := claim.ParseKey(value); err != nil {
				t.Fatalf("%q is no key: %v", value, err)
			}
			req = claim.Request{Key: claim.Key{Tenant: tenant, Value: value}}
			require.NoError(t, c.Request(r, body, sent, &req))
			return c, r, body, req
		}
		c, r, body, req := guard()
		_, _, _, twin := guard()
		first, err := req.Input.Fingerprint(claim.CurrentFingerprint)
		require.NoError(t, err)
		second, err := twin.Input.Fingerprint(claim.CurrentFingerprint)
		require.NoError(t, err)
		require.Equal(t, first, second)

		a := claim.Attempt{Record: claim.Record{Key: req.Key}, Payload: req.Payload, Unstored: req.Unstored}
		with, sent, whole, err := g.open(t.Context(), &a)
		require.NoError(t, err, "the first attempt")
		require.Equal(t, r.Method, sent.Method)
		require.Equal(t, r.URL.RequestURI(), sent.URL.RequestURI())
		require.Equal(t, body, whole)
		if with.Ask != "" {
			at, err := url.Parse(with.Ask)
			require.NoError(t, err)
			require.Empty(t, at.Host+at.Scheme, with.Ask)
			require.True(t, strings.HasPrefix(at.EscapedPath(), "/orders/") && !climbs(at.Path), with.Ask)
		}
		a.Unstored = nil
		with, sent, whole, err = g.open(t.Context(), &a)
		require.NoError(t, err, "a recovery")
		switch {
		case with.Partial:
			require.Empty(t, whole)
			require.Equal(t, "/", sent.URL.RequestURI())
		case !c.storable(r, c.kind(r), body) && c.kind(r) != bodyBytes:
			t.Fatal("what is never stored is stored")
		default:
			require.Equal(t, body, whole)
		}
	})
}

// FuzzReplies: rules read any reply, and one that they cannot read is unknown, not a no.
func FuzzReplies(f *testing.F) {
	f.Add(200, "", "", []byte(`{"status":"done"}`))
	f.Add(422, "gzip", "1", []byte("\x1f\x8b\x08\x00"))
	f.Add(404, "deflate", "", []byte(`{"error":{"code":7e0}}`))
	f.Add(409, "identity", "true", []byte(`{"error":{"code":7},"error":null}`))
	rules := spelled([]Reply{
		{Status: []string{"4xx"}, Header: "Replayed", Is: []any{"true"}, Outcome: unclear},
		{Status: []string{"4xx", "200"}, Member: "/error/code", Is: []any{7, "busy"}, Outcome: released},
		{Status: []string{"2xx"}, Member: "/0/id", Outcome: done},
		{Status: []string{"422"}, Outcome: refused},
	})
	f.Fuzz(func(t *testing.T, status int, coding, replayed string, body []byte) {
		if status < 100 || status > 599 {
			t.Skip()
		}
		header := http.Header{}
		for name, value := range map[string]string{"Content-Encoding": coding, "Replayed": replayed} {
			if value != "" {
				header.Set(name, value)
			}
		}
		a := &answer{status: status, header: header, body: body}
		outcome, _ := meaning(a, rules)
		again, _ := meaning(&answer{status: status, header: header, body: body}, rules)
		require.Equal(t, outcome, again)
		_, readable := a.json()
		reads := status != http.StatusNoContent && (status/100 == 2 || status/100 == 4)
		if reads && !readable && outcome != unclear {
			t.Fatalf("a reply that cannot be read is %s", outcome)
		}
	})
}

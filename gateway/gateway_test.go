package gateway

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/internal/seal/sealtest"
)

func newGateway(t *testing.T, upstream string, change ...func(*Config)) *Gateway {
	t.Helper()
	s := DefaultSettings()
	s.Upstream = upstream
	c := Config{Settings: s, Region: "us-east1", Seal: sealtest.Ring(1), Logger: slog.New(slog.DiscardHandler)}
	for _, ch := range change {
		ch(&c)
	}
	g, err := New(c)
	require.NoError(t, err)
	t.Cleanup(g.Close)
	return g
}

var key = claim.Key{Tenant: DefaultTenant, Value: "k-1"}

// plain sets rules of the requests that no other route matches.
func plain(r Route) func(*Config) {
	return func(c *Config) {
		r.Match = "POST /"
		c.Settings.Routes = append(c.Settings.Routes, r)
	}
}

// post is a request as a server reads it.
func post(target, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key.Value)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// attempt makes the first attempt of r.
func attempt(t *testing.T, g *Gateway, r *http.Request) claim.Outcome {
	t.Helper()
	return g.Attempt(t.Context(), attemptOf(t, g, r))
}

func attemptOf(t *testing.T, g *Gateway, r *http.Request) claim.Attempt {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	req := requestOf(t, g, r, body)
	return claim.Attempt{Record: claim.Record{Key: req.Key, Home: "us-east1", Operation: req.Operation, Minted: claim.Minted{ID: "gw_1"}}, Payload: req.Payload, Unstored: req.Unstored}
}

// requestOf is the request of r's claim.
func requestOf(t *testing.T, g *Gateway, r *http.Request, body []byte) claim.Request {
	t.Helper()
	c := g.Match(r)
	require.NotNil(t, c, "it is not guarded")
	tenant, _, err := c.Tenant(r)
	require.NoError(t, err)
	sent, value, err := c.Key(r, body)
	require.NoError(t, err)
	req := claim.Request{Key: claim.Key{Tenant: tenant, Value: value}}
	require.NoError(t, c.Request(r, body, sent, &req))
	return req
}

func TestHowRepliesAreRead(t *testing.T) {
	for status, want := range map[int]claim.Outcome{
		200: &claim.Done{}, 201: &claim.Done{}, 204: &claim.Done{}, 303: &claim.Done{},
		400: &claim.Refused{}, 402: &claim.Refused{}, 404: &claim.Refused{}, 422: &claim.Refused{},
		401: &claim.Released{}, 403: &claim.Released{}, 429: &claim.Released{},
		408: &claim.Unknown{}, 409: &claim.Unknown{}, 425: &claim.Unknown{}, 500: &claim.Unknown{}, 502: &claim.Unknown{}, 503: &claim.Unknown{}, 504: &claim.Unknown{}, 599: &claim.Unknown{},
	} {
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		}))
		got := attempt(t, newGateway(t, upstream.URL), post("/orders", "{}"))
		upstream.Close()
		require.IsType(t, want, got, "%d", status)
		if done, ok := got.(*claim.Done); ok {
			require.Equal(t, status, done.Response.Status)
			require.Equal(t, "/elsewhere", done.Response.Field("Location"), "a redirect is the caller's to follow")
		}
	}
}

func TestAReplyIsKeptByteForByte(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(`{"id":7}`))
	require.NoError(t, z.Close())
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Link"] = []string{"</a>; rel=a", "</b>; rel=b"}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(packed.Bytes())
		w.Header().Set("X-Sum", "1")
	}))
	defer upstream.Close()
	got := attempt(t, newGateway(t, upstream.URL), post("/orders", "{}")).(*claim.Done)
	require.Equal(t, claim.Response{Status: 201, Body: packed.Bytes(), Header: []claim.HeaderField{
		{Name: "Content-Encoding", Value: "gzip"}, {Name: "Content-Type", Value: "application/json"}, {Name: "Link", Value: "</a>; rel=a"}, {Name: "Link", Value: "</b>; rel=b"},
	}}, got.Response)
}

func TestAReplyThatIsTooLongIsKeptWithoutItsBody(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Location", "/orders/7")
		_, _ = w.Write(make([]byte, replyBytes+1))
	}))
	defer upstream.Close()
	got := attempt(t, newGateway(t, upstream.URL), post("/orders", "{}")).(*claim.Done)
	require.Equal(t, claim.Response{Status: 200, Header: []claim.HeaderField{{Name: "Location", Value: "/orders/7"}}}, got.Response)
}

func TestWhatTheUpstreamGets(t *testing.T) {
	var got *http.Request
	var body []byte
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	defer upstream.Close()
	g := newGateway(t, upstream.URL+"/base")
	r := post("/orders/a%2Fb?x=1&x=2;y", "\x00\xffbody", "Authorization", "Bearer t", "X-Twice", "1", "X-Twice", "2", "Expect", "100-continue", "Trailer", "X-Sum",
		"Connection", "close, Http2-Settings", "Http2-Settings", "1", "Te", "trailers", "Transfer-Encoding", "chunked", "Upgrade", "h2c", "X-Forwarded-For", "192.0.2.7")
	r.RemoteAddr, r.Host, r.ContentLength = "198.51.100.1:9", "api.example.com", -1
	require.IsType(t, &claim.Done{}, attempt(t, g, r))
	require.Equal(t, "/base/orders/a%2Fb?x=1&x=2;y", got.RequestURI)
	require.Equal(t, strings.TrimPrefix(upstream.URL, "http://"), got.Host)
	require.Equal(t, "\x00\xffbody", string(body))
	require.Equal(t, http.Header{
		"Idempotency-Key": {key.Value}, "Authorization": {"Bearer t"}, "X-Twice": {"1", "2"}, "Content-Length": {"6"},
		"X-Forwarded-For": {"192.0.2.7, 198.51.100.1"}, "X-Forwarded-Host": {"api.example.com"}, "X-Forwarded-Proto": {"http"},
	}, got.Header)

	require.IsType(t, &claim.Done{}, attempt(t, g, post("/empty", "")))
	require.Equal(t, []string{key.Value, "0"}, []string{got.Header.Get("Idempotency-Key"), got.Header.Get("Content-Length")})
	require.Empty(t, got.TransferEncoding)
}

// TestAnInterimAnswerAndAContinueStayApart: the upstream sends a 103 before it asks for the body, which net/http then
// reads after a second, in another goroutine.
func TestAnInterimAnswerAndAContinueStayApart(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = upstream.Close() }()
	go func() {
		conn, err := upstream.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}()
	server := httptest.NewServer(newGateway(t, "http://"+upstream.Addr().String()))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "PUT /a HTTP/1.1\r\nHost: shop\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc")
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	for _, want := range []struct {
		status     int
		link, body string
	}{{http.StatusContinue, "", ""}, {http.StatusEarlyHints, "</a>", ""}, {http.StatusOK, "", "abc"}} {
		resp, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, struct {
			status     int
			link, body string
		}{resp.StatusCode, resp.Header.Get("Link"), string(body)})
	}
}

// scripted is an upstream that answers nothing but what its script writes, connection by
// connection; it counts the requests whose head it has read.
type scripted struct {
	net.Listener
	mu   sync.Mutex
	seen []string // request lines
}

// script reads each request whole before answer writes to the nth. The connection goes on if answer
// is true.
func script(t *testing.T, answer func(n int, conn net.Conn, r *http.Request) bool) *scripted {
	t.Helper()
	return scriptHeads(t, func(n int, conn *net.TCPConn, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		return answer(n, conn, r)
	})
}

// scriptHeads leaves the bodies of requests to answer.
func scriptHeads(t *testing.T, answer func(n int, conn *net.TCPConn, r *http.Request) bool) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &scripted{Listener: l}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = conn.Close() }()
				in := bufio.NewReader(conn)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					s.mu.Lock()
					s.seen = append(s.seen, r.Method+" "+r.URL.Path)
					n := len(s.seen)
					s.mu.Unlock()
					if !answer(n, conn.(*net.TCPConn), r) {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return s
}

func (s *scripted) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// TestAKeptConnectionThatEndsRepeatsNothing: net/http sends a request again by itself where a kept
// connection ends under it, above all one with an Idempotency-Key.
func TestAKeptConnectionThatEndsRepeatsNothing(t *testing.T) {
	for _, header := range []string{"X-Other", "X-Idempotency-Key"} {
		for _, body := range []string{"", "{}"} {
			s := script(t, func(n int, conn net.Conn, _ *http.Request) bool {
				if n == 1 {
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
				return n == 1 // the second request is read, and its connection closed
			})
			g := newGateway(t, "http://"+s.Addr().String())
			require.IsType(t, &claim.Done{}, attempt(t, g, post("/one", body, header, "1")))
			got := attempt(t, g, post("/two", body, header, "1"))
			require.IsType(t, &claim.Unknown{}, got)
			require.Equal(t, []string{"POST /one", "POST /two"}, s.requests(), "%s %q", header, body)
		}
	}
}

func TestBrokenRepliesAreUnknown(t *testing.T) {
	for name, reply := range map[string]string{
		"no reply":          "",
		"half a head":       "HTTP/1.1 200 OK\r\nContent-Le",
		"half a body":       "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
		"half a chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal",
		"no HTTP":           "SSH-2.0-OpenSSH_9.9\r\n",
		"another protocol":  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
		"a refusal, broken": "HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\nhalf",
	} {
		s := script(t, func(_ int, conn net.Conn, _ *http.Request) bool {
			_, _ = io.WriteString(conn, reply)
			return false
		})
		got := attempt(t, newGateway(t, "http://"+s.Addr().String()), post("/one", "{}"))
		require.IsType(t, &claim.Unknown{}, got, name)
		require.Len(t, s.requests(), 1, name)
	}
}

// TestALongReplyIsReadToItsEnd: it is kept without its body only if it is whole.
func TestALongReplyIsReadToItsEnd(t *testing.T) {
	s := script(t, func(_ int, conn net.Conn, _ *http.Request) bool {
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", 2*replyBytes, make([]byte, replyBytes+replyBytes/2))
		return false
	})
	got := attempt(t, newGateway(t, "http://"+s.Addr().String()), post("/one", "{}"))
	require.IsType(t, &claim.Unknown{}, got)
	require.Equal(t, "reply_broken", got.(*claim.Unknown).Reason)
}

// TestAnotherProtocolIsNotAwaited: its connection may stay open for ever.
func TestAnotherProtocolIsNotAwaited(t *testing.T) {
	held := make(chan struct{})
	s := script(t, func(_ int, conn net.Conn, _ *http.Request) bool {
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		<-held
		return false
	})
	defer close(held)
	got := attempt(t, newGateway(t, "http://"+s.Addr().String(), plain(Route{Timeout: 5 * time.Second})), post("/one", "{}"))
	require.Equal(t, "status_101", got.(*claim.Unknown).Reason)
}

// TestATimeoutIsUnknown: the route's time is the attempt's.
func TestATimeoutIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		g := newGateway(t, "http://upstream", plain(Route{Timeout: 7 * time.Second}), func(c *Config) {
			c.Dial = func(context.Context, string, string) (net.Conn, error) {
				dials++
				near, far := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, far) }() // it answers nothing
				return near, nil
			}
		})
		began := time.Now()
		got := attempt(t, g, post("/one", "{}"))
		require.Equal(t, "no_answer", got.(*claim.Unknown).Reason)
		require.Equal(t, []any{1, 7 * time.Second}, []any{dials, time.Since(began)})
	})
}

// TestWhatWasNotSentIsANo: nothing listens there, so that the key is free for the next try.
func TestWhatWasNotSentIsANo(t *testing.T) {
	got := attempt(t, newGateway(t, "http://127.0.0.1:1"), post("/one", "{}")).(*claim.Released)
	p, err := problem.Parse(got.Response.Body)
	require.NoError(t, err)
	require.Equal(t, []any{problem.Unreachable, problem.SameKey, 502}, []any{p.Code, p.Retry, got.Response.Status})
	require.Equal(t, "not_sent", got.Reason)
}

func TestARecoverySendsNothing(t *testing.T) {
	s := script(t, func(int, net.Conn, *http.Request) bool { return false })
	g := newGateway(t, "http://"+s.Addr().String())
	a := attemptOf(t, g, post("/one", "{}"))
	a.Recovery = true
	got := g.Attempt(t.Context(), a).(*claim.Unknown)
	require.Equal(t, "cannot_repeat", got.Reason)
	p, err := problem.Parse(got.GiveUp.Response.Body)
	require.NoError(t, err)
	require.Equal(t, []any{problem.OutcomeUnknown, problem.Never}, []any{p.Code, p.Retry})
	require.Empty(t, s.requests())
}

// TestARepeat: an upstream that recognises one gets it, under one value, for as long as it is sure to
// recognise it; and its answer counts if it says yes.
func TestARepeat(t *testing.T) {
	var status atomic.Int64
	var got []http.Header
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header)
		w.WriteHeader(int(status.Load()))
	}))
	defer upstream.Close()
	for header, want := range map[string]string{"idempotency-key": key.Value, "X-Request-Id": "provider-key"} {
		g := newGateway(t, upstream.URL, plain(Route{Dedupe: header}))
		for _, body := range []string{"", "{}"} {
			a := attemptOf(t, g, post("/one", body, "X-Request-Id", "the caller's"))
			a.Record.ProviderKey, a.Record.FirstUse = "provider-key", time.Now()
			a.Now = a.Record.FirstUse.Add(day - dedupeMargin - 1)
			got = nil
			status.Store(500)
			require.IsType(t, &claim.Unknown{}, g.Attempt(t.Context(), a))
			a.Recovery = true
			for _, no := range []int64{400, 401, 403, 404, 409, 422, 429, 500} {
				status.Store(no)
				require.IsType(t, &claim.Unknown{}, g.Attempt(t.Context(), a), "%d", no)
			}
			status.Store(201)
			require.IsType(t, &claim.Done{}, g.Attempt(t.Context(), a))
			require.Len(t, got, 10)
			for _, h := range got {
				require.Equal(t, []string{want}, h[http.CanonicalHeaderKey(header)])
			}
			a.Now = a.Record.FirstUse.Add(day - dedupeMargin)
			last := g.Attempt(t.Context(), a).(*claim.Unknown)
			require.Equal(t, "cannot_repeat", last.Reason)
			require.NotContains(t, string(last.GiveUp.Response.Body), "once", "it was sent ten times")
			require.Len(t, got, 10)
			a.Now, a.Record.Operation = a.Record.FirstUse, Operation
			require.Equal(t, "cannot_repeat", g.Attempt(t.Context(), a).(*claim.Unknown).Reason, "it was sent before the header was named")
			require.Len(t, got, 10)
		}
	}
	g := newGateway(t, "http://127.0.0.1:1", plain(Route{Dedupe: "Idempotency-Key"}))
	a := attemptOf(t, g, post("/one", "{}"))
	a.Recovery = true
	require.Equal(t, &claim.Unsent{Reason: "not_sent"}, g.Attempt(t.Context(), a), "the first attempt may have been sent all the same")
	a.Record.Key.Value = "k-2"
	require.Equal(t, "payload_unreadable", g.Attempt(t.Context(), a).(*claim.Unknown).Reason)
}

func TestAPayloadIsSealedForItsKey(t *testing.T) {
	s := script(t, func(int, net.Conn, *http.Request) bool { return false })
	g := newGateway(t, "http://"+s.Addr().String())
	a := attemptOf(t, g, post("/one", "{}", "Authorization", "Bearer secret"))
	require.NotContains(t, string(a.Payload), "secret")
	a.Record.Key.Value = "k-2"
	require.Equal(t, "payload_unreadable", g.Attempt(t.Context(), a).(*claim.Released).Reason)
	require.Empty(t, s.requests())

	open := newGateway(t, "http://"+s.Addr().String(), func(c *Config) { c.Seal = nil })
	r := post("/one", "{}")
	require.ErrorIs(t, open.Match(r).Request(r, nil, key.Value, &claim.Request{Key: key}), claim.ErrUnavailable)
}

// away is a sealing key that does not answer.
type away struct{}

func (away) Encrypt(context.Context, []byte) ([]byte, error) { return nil, errors.New("no route") }
func (away) Decrypt(context.Context, []byte) ([]byte, error) { return nil, errors.New("no route") }

// TestASealingKeyThatDoesNotAnswerEndsNoClaim: the upstream was not asked, so the attempt does not count.
func TestASealingKeyThatDoesNotAnswerEndsNoClaim(t *testing.T) {
	a := attemptOf(t, newGateway(t, "http://127.0.0.1:1"), post("/one", "{}"))
	a.Recovery, a.Unstored = true, nil
	under, sealed := seal.KeyOf(a.Payload)
	require.True(t, sealed)
	for ring, want := range map[*seal.Ring]claim.Outcome{
		seal.New([]seal.Key{{Name: under, Keeper: away{}}}, nil): &claim.Unsent{Reason: "payload_unreadable"},
		sealtest.Ring(7): unknown("payload_unreadable"), // gone, as far as this node knows
	} {
		g := newGateway(t, "http://127.0.0.1:1", func(c *Config) { c.Seal = ring })
		require.Equal(t, want, g.Attempt(t.Context(), a))
	}
}

func TestGuards(t *testing.T) {
	g := newGateway(t, "http://127.0.0.1:9")
	for _, tc := range []struct {
		method  string
		headers []string
		want    bool
	}{
		{"POST", []string{"Idempotency-Key", "k"}, true},
		{"PATCH", []string{"Idempotency-Key", "k"}, true},
		{"POST", []string{"Idempotency-Key", ""}, true}, // refused, not passed
		{"POST", nil, false},
		{"PUT", []string{"Idempotency-Key", "k"}, false},
		{"GET", []string{"Idempotency-Key", "k"}, false},
		{"POST", []string{"Idempotency-Key", "k", "Content-Type", "application/grpc+proto"}, false},
		{"POST", []string{"Idempotency-Key", "k", "Content-Type", "application/grpc"}, false},
		{"POST", []string{"Idempotency-Key", "k", "Content-Type", "application/grpc-web; v=1"}, false},
		{"POST", []string{"Idempotency-Key", "k", "Content-Type", "application/grpcanything"}, true},
	} {
		r := httptest.NewRequest(tc.method, "/", nil)
		for i := 0; i < len(tc.headers); i += 2 {
			r.Header.Set(tc.headers[i], tc.headers[i+1])
		}
		require.Equal(t, tc.want, g.Match(r) != nil, "%v", tc)
	}
}

func TestWhatIsTheSameRequest(t *testing.T) {
	g := newGateway(t, "http://127.0.0.1:9")
	printOf := func(r *http.Request) claim.Fingerprint {
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		req := requestOf(t, g, r, body)
		require.Equal(t, Operation, req.Operation)
		f, err := req.Input.Fingerprint(claim.CurrentFingerprint)
		require.NoError(t, err)
		return f
	}
	const kind = "Content-Type"
	first := printOf(post("/orders?a=1", `{"a":1,"b":[2.0]}`, kind, "application/json"))
	for _, same := range []*http.Request{
		post("/orders?a=1", "{ \"b\":[2], \"a\":1e0 }", kind, "application/json; charset=utf-8"),
		post("/orders?a=1", `{"a":1,"b":[2.0]}`, kind, "application/json", "User-Agent", "another", "X-Request-Id", "7", "Traceparent", "00-1"),
	} {
		require.Equal(t, first, printOf(same))
	}
	long := strings.Repeat("p", 2*maxPart)
	require.NotEqual(t, printOf(post("/", "", kind, "a/b; c="+long+"1")), printOf(post("/", "", kind, "a/b; c="+long+"2")))
	require.NotEqual(t, printOf(post("/", "", kind, "a/b", kind, "c/d")), printOf(post("/", "", kind, "a/b", kind, "e/f")))
	for _, other := range []*http.Request{
		post("/orders?a=2", `{"a":1,"b":[2.0]}`, kind, "application/json"),
		post("/order?a=1", `{"a":1,"b":[2.0]}`, kind, "application/json"),
		post("/orders?a=1", `{"a":1,"b":[3]}`, kind, "application/json"),
		post("/orders?a=1", `{"a":1,"b":[2.0]}`, kind, "text/plain"),
		post("/orders?a=1", `{"a":1,"b":[2.0]}`, kind, "application/json", "Authorization", "Bearer other"),
		post("/orders?a=1", `{"a":1,"b":[2.0]}`, kind, "application/json", "Content-Encoding", "gzip"),
		post("/"+long, "", kind, "application/json"),
	} {
		require.NotEqual(t, first, printOf(other))
	}
	require.NotEqual(t, printOf(post("/"+long+"1", "")), printOf(post("/"+long+"2", "")))
	require.NotEqual(t, printOf(post("/", "a=1")), printOf(post("/", "a=1 ")), "what is not JSON is compared byte for byte")
	require.NotEqual(t, printOf(post("/", "{]", kind, "application/json")), printOf(post("/", "{ ]", kind, "application/json")), "nor is what only says so")
}

// TestWhatPassesKeepsItsQuery: a proxy of net/http drops what it cannot parse.
func TestWhatPassesKeepsItsQuery(t *testing.T) {
	var got string
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI }))
	defer upstream.Close()
	w := httptest.NewRecorder()
	newGateway(t, upstream.URL).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/a%2Fb//c/?x=1;y&%zz&z=%2f", nil))
	require.Equal(t, []any{200, "/a%2Fb//c/?x=1;y&%zz&z=%2f"}, []any{w.Code, got})
}

func TestUpstreams(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:9000", "ftp://x", "http://", "http://u:p@x", "http://x?q=1", "http://x#f", "http://[::1"} {
		_, err := ReadUpstream(bad)
		require.Error(t, err, bad)
	}
	_, err := New(Config{})
	require.ErrorContains(t, err, "gateway.upstream is missing")
}

func TestAnAttemptEndsWithItsLease(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := script(t, func(int, net.Conn, *http.Request) bool { cancel(); return true })
	g := newGateway(t, "http://"+s.Addr().String())
	require.IsType(t, &claim.Unknown{}, g.Attempt(ctx, attemptOf(t, g, post("/one", "{}"))))
}

// TestWhatPassesIsSentOnce: whether it is sent again is its caller's decision, and net/http's only
// where a repeat is harmless by its method.
func TestWhatPassesIsSentOnce(t *testing.T) {
	for _, tc := range []struct{ method, header string }{
		{"POST", "X-Idempotency-Key"}, {"PUT", "Idempotency-Key"}, {"DELETE", "Idempotency-Key"}, {"PATCH", "X-Idempotency-Key"},
	} {
		s := script(t, func(n int, conn net.Conn, r *http.Request) bool {
			if n == 1 {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
			return n == 1 && r.Header.Get(tc.header) == "k"
		})
		g := newGateway(t, "http://"+s.Addr().String())
		var codes []int
		for _, path := range []string{"/one", "/two"} {
			r := httptest.NewRequest(tc.method, path, nil)
			r.Header.Set(tc.header, "k")
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			codes = append(codes, w.Code)
		}
		require.Equal(t, []string{tc.method + " /one", tc.method + " /two"}, s.requests(), "%v", tc)
		require.Equal(t, []int{200, 502}, codes, "%v", tc)
	}
}

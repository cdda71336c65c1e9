package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// mirror is an API that answers with what it got, and keeps it.
type mirror struct {
	*httptest.Server
	mu  sync.Mutex
	got []mirrored
}

type mirrored struct {
	target, body string
	header       http.Header
	length       int64
	encodings    []string // of the transfer
	trailer      http.Header
}

func newMirror(t *testing.T) *mirror {
	m := &mirror{}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m.mu.Lock()
	m.got = append(m.got, mirrored{r.Method + " " + r.RequestURI, string(body), r.Header, r.ContentLength, r.TransferEncoding, r.Trailer})
	n := len(m.got)
	m.mu.Unlock()
	h := w.Header()
	h.Set("Content-Type", "text/plain")
	switch r.URL.Path {
	case "/moved":
		h.Set("Location", m.URL+"/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	case "/hints":
		h.Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
	case "/packed":
		h.Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusCreated)
		z := gzip.NewWriter(w)
		_, _ = fmt.Fprint(z, n)
		_ = z.Close()
		return
	case "/trailers":
		h.Set("Trailer", "X-Sum")
		defer h.Set("X-Sum", "7")
	case "/cookies":
		h.Add("Set-Cookie", "session=1")
		h.Add("Set-Cookie2", "session=2")
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, "%d %s", n, body)
	_ = http.NewResponseController(w).Flush() // in chunks
}

// all is what it got so far.
func (m *mirror) all() []mirrored {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]mirrored(nil), m.got...)
}

// raw sends text as it stands, and reads the answers; the first may be an interim one.
func raw(t *testing.T, base, text string) (answers []*reply) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return answers
		}
		got, err := replyOf(resp)
		require.NoError(t, err)
		answers = append(answers, got)
		if resp.StatusCode >= http.StatusOK {
			return answers
		}
	}
}

// TestAGatewaysAwkwardTraffic: however a guarded request or its reply is sent, the API gets it once, whole,
// and each region answers it alike.
func TestAGatewaysAwkwardTraffic(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	g := startGateway(t, m.URL)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(`{"a":1}`))
	require.NoError(t, z.Close())
	for name, tc := range map[string]struct {
		target, head, body string // the body as it is sent
		got                string // what arrives, if it is not the body
		interim            int
		check              func(t *testing.T, got mirrored, r *reply)
	}{
		"chunked, with trailers": {
			target: "/chunks", head: "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n",
			body: "3\r\nabc\r\n4;ext=1\r\ndefg\r\n0\r\nX-Sum: 1\r\n\r\n", got: "abcdefg",
			check: func(t *testing.T, got mirrored, _ *reply) {
				require.EqualValues(t, 7, got.length)
				require.Empty(t, got.encodings)
				require.Empty(t, got.trailer)
				require.NotContains(t, got.header, "X-Sum")
			},
		},
		"expects 100": {
			target: "/expects", head: "Expect: 100-continue\r\nContent-Length: 3\r\n", body: "abc", interim: http.StatusContinue,
			check: func(t *testing.T, got mirrored, _ *reply) { require.NotContains(t, got.header, "Expect") },
		},
		"compressed": {
			target: "/packed", head: fmt.Sprintf("Content-Type: application/json\r\nContent-Encoding: gzip\r\nAccept-Encoding: gzip\r\nContent-Length: %d\r\n", packed.Len()), body: packed.String(),
			check: func(t *testing.T, got mirrored, r *reply) {
				require.Equal(t, "gzip", got.header.Get("Content-Encoding"))
				require.Equal(t, "gzip", got.header.Get("Accept-Encoding"))
				require.Equal(t, "gzip", r.header.Get("Content-Encoding"))
				unpacked, err := gzip.NewReader(strings.NewReader(r.body))
				require.NoError(t, err)
				text, err := io.ReadAll(unpacked)
				require.NoError(t, err)
				require.NotEmpty(t, text)
			},
		},
		"a redirect": {
			target: "/moved", head: "Content-Length: 3\r\n", body: "abc",
			check: func(t *testing.T, _ mirrored, r *reply) {
				require.Equal(t, http.StatusTemporaryRedirect, r.status)
				require.Equal(t, m.URL+"/elsewhere", r.header.Get("Location"))
			},
		},
		"early hints": {
			target: "/hints", head: "Content-Length: 3\r\n", body: "abc",
			check: func(t *testing.T, _ mirrored, r *reply) {
				require.Equal(t, http.StatusCreated, r.status)
				require.NotEmpty(t, r.header.Get("Link"))
			},
		},
		"trailers of the reply": {
			target: "/trailers", head: "Te: trailers\r\nConnection: Te\r\nContent-Length: 3\r\n", body: "abc",
			check: func(t *testing.T, got mirrored, r *reply) {
				require.NotContains(t, got.header, "Te")
				require.NotContains(t, r.header, "X-Sum")
				require.NotContains(t, r.header, "Trailer")
			},
		},
		"cookies": {
			target: "/cookies", head: "Cookie: session=0\r\nContent-Length: 3\r\n", body: "abc",
			check: func(t *testing.T, got mirrored, r *reply) {
				require.Equal(t, "session=0", got.header.Get("Cookie"))
				require.NotContains(t, r.header, "Set-Cookie")
				require.NotContains(t, r.header, "Set-Cookie2")
			},
		},
		"an upgrade": {
			target: "/upgrade", head: "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n", body: "abc",
			check: func(t *testing.T, got mirrored, _ *reply) {
				require.NotContains(t, got.header, "Upgrade")
				require.NotContains(t, got.header, "Connection")
			},
		},
		"nothing in it": {target: "/empty", head: "Content-Length: 0\r\n"},
		"an odd target": {target: "/a%2Fb//c?x=1;y&%zz", head: "Content-Length: 3\r\n", body: "abc"},
	} {
		before, key := len(m.all()), orderKey()
		text := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: %s\r\n%s\r\n%s", tc.target, key, tc.head, tc.body)
		var first *reply
		for _, region := range []string{eu, us, asia} {
			var got *reply
			until(t, "it is answered for good", func() bool {
				answers := raw(t, g.bases[region], text)
				require.NotEmpty(t, answers, "%s in %s", name, region)
				got = answers[len(answers)-1]
				if tc.interim > 0 {
					require.Equal(t, tc.interim, answers[0].status, name)
				} else {
					require.Len(t, answers, 1, "%s: an interim answer is of one exchange", name)
				}
				_, retry := got.code()
				return retry != "same_key"
			})
			if first == nil {
				first = got
			}
			require.Equal(t, []any{first.status, first.body, first.header.Get("Content-Type")}, []any{got.status, got.body, got.header.Get("Content-Type")}, "%s in %s", name, region)
			arrived := m.all()
			require.Len(t, arrived, before+1, "%s in %s", name, region)
			if tc.check != nil {
				tc.check(t, arrived[before], got)
			}
		}
		want := tc.body
		if tc.got != "" {
			want = tc.got
		}
		require.Equal(t, []string{"POST " + tc.target, want}, []string{m.all()[before].target, m.all()[before].body}, name)
	}

	// A caller of HTTP/2.
	only := new(http.Protocols)
	only.SetUnencryptedHTTP2(true)
	h2 := &http.Transport{Protocols: only}
	defer h2.CloseIdleConnections()
	before, key, bodies := len(m.all()), orderKey(), []string{}
	for _, region := range regions {
		r := must(http.NewRequestWithContext(g.ctx, http.MethodPost, g.bases[region]+"/h2", io.NopCloser(strings.NewReader("abc"))))
		r.Header.Set("Idempotency-Key", key)
		resp, err := h2.RoundTrip(r)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		bodies = append(bodies, string(body))
	}
	require.Equal(t, []string{bodies[0], bodies[0], bodies[0]}, bodies)
	require.Len(t, m.all(), before+1)
}

// TestAGatewayStartsNothingOfHalfARequest: a body that is not whole is neither stored nor sent, nor is
// one that is too long and does not say so beforehand.
func TestAGatewayStartsNothingOfHalfARequest(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	g := startGateway(t, m.URL)
	key := orderKey()
	for _, half := range []string{"Content-Length: 10\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n5\r\nhalf"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.bases[us], "http://"))
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "POST /orders HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: %s\r\n%s", key, half)
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite()) // and no more comes
		got, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.NotContains(t, string(got), "HTTP/1.1 2", "%s", got)
	}
	long := strings.Repeat("x", 1<<20+1)
	r := must(http.NewRequestWithContext(g.ctx, http.MethodPost, g.bases[us]+"/orders", io.NopCloser(strings.NewReader(long)))) // in chunks
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Expect", "100-continue")
	got, err := sent(r)
	if err == nil { // or it was cut off while it was still sending
		code, _ := got.code()
		require.Equal(t, "body_too_large", code, "%d %s", got.status, got.body)
	}
	for _, header := range []string{"Idempotency-Key: a\r\nIdempotency-Key: a\r\n", "Idempotency-Key: \x80\r\n"} {
		answers := raw(t, g.bases[us], "POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Length: 0\r\n"+header+"\r\n")
		require.Equal(t, http.StatusBadRequest, answers[0].status)
	}
	require.Empty(t, m.all())
	// The key is as new: another request may have it.
	status, err := sent(must(http.NewRequestWithContext(g.ctx, http.MethodGet, g.bases[us]+"/_homeward/idempotency-keys/"+key, nil)))
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, status.status, status.body)
	require.Equal(t, http.StatusCreated, final(g.ctx, t, g.bases[eu], "/orders", key, "whole").status)
	require.Len(t, m.all(), 1)
}

// TestAGatewayPassesInterimAnswers: of what is not guarded, each answer is the caller's.
func TestAGatewayPassesInterimAnswers(t *testing.T) {
	t.Parallel()
	m := newMirror(t)
	g := startGateway(t, m.URL)
	const body = "Content-Length: 3\r\n\r\nabc"
	hints := raw(t, g.bases[us], "POST /hints HTTP/1.1\r\nHost: shop\r\n"+body)
	require.Len(t, hints, 2)
	require.Equal(t, []any{http.StatusEarlyHints, "</style.css>; rel=preload"}, []any{hints[0].status, hints[0].header.Get("Link")})
	require.Equal(t, http.StatusCreated, hints[1].status)
	asked := raw(t, g.bases[us], "PUT /put HTTP/1.1\r\nHost: shop\r\nExpect: 100-continue\r\n"+body)
	require.Equal(t, []any{2, http.StatusContinue, http.StatusCreated}, []any{len(asked), asked[0].status, asked[1].status})
	cookies := raw(t, g.bases[us], "POST /cookies HTTP/1.1\r\nHost: shop\r\nCookie: session=0\r\n"+body)
	require.Equal(t, "session=1", cookies[0].header.Get("Set-Cookie"))
	moved := raw(t, g.bases[us], "POST /moved HTTP/1.1\r\nHost: shop\r\n"+body)
	require.Equal(t, []any{http.StatusTemporaryRedirect, m.URL + "/elsewhere"}, []any{moved[0].status, moved[0].header.Get("Location")})
	packed := raw(t, g.bases[us], "POST /packed HTTP/1.1\r\nHost: shop\r\n"+body)
	require.Equal(t, "gzip", packed[0].header.Get("Content-Encoding"))
	require.True(t, strings.HasPrefix(packed[0].body, "\x1f\x8b"))
	require.Len(t, m.all(), 5)
	require.Equal(t, "session=0", m.all()[2].header.Get(textproto.CanonicalMIMEHeaderKey("cookie")))

	// A caller who leaves ends what passes: the API sees it go.
	arrived, gone := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
		close(gone)
	}))
	t.Cleanup(slow.Close)
	h := startGateway(t, slow.URL)
	ctx, leave := context.WithCancel(h.ctx)
	left := make(chan error, 1)
	go func() {
		_, err := post(ctx, h.bases[us], "/slow", "", "{}")
		left <- err
	}()
	receive(t, "the request at the API", arrived)
	leave()
	require.ErrorIs(t, receive(t, "the caller's end", left), context.Canceled)
	receive(t, "the end of the request at the API", gone)
}

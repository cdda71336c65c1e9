package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

// TestAConnectionThatEndsUnderABodyRepeatsNothing: the upstream closes or resets a kept connection
// while a request is being written to it.
func TestAConnectionThatEndsUnderABodyRepeatsNothing(t *testing.T) {
	body := strings.Repeat("x", 8<<20) // more than sockets take in
	for name, end := range map[string]func(*net.TCPConn){
		"closed": func(*net.TCPConn) {},
		"reset":  func(conn *net.TCPConn) { _ = conn.SetLinger(0) },
	} {
		h := scriptHeads(t, func(_ int, conn *net.TCPConn, r *http.Request) bool {
			if r.URL.Path == "/one" {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				return true
			}
			end(conn)
			return false
		})
		g := newGateway(t, "http://"+h.Addr().String())
		require.IsType(t, &claim.Done{}, attempt(t, g, post("/one", "{}")))
		require.IsType(t, &claim.Unknown{}, attempt(t, g, post("/two", body)), name)
		require.Equal(t, []string{"POST /one", "POST /two"}, h.requests(), name)
	}
}

// TestAnAnswerToHalfARequest: the upstream refuses a body that it has not read. Its answer is one, if
// it arrives before the end of its connection does.
func TestAnAnswerToHalfARequest(t *testing.T) {
	h := scriptHeads(t, func(_ int, conn *net.TCPConn, r *http.Request) bool {
		_, _ = io.WriteString(conn, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge")
		_, _ = io.Copy(io.Discard, r.Body) // so that no reset overtakes it
		return false
	})
	got := attempt(t, newGateway(t, "http://"+h.Addr().String()), post("/one", strings.Repeat("x", 8<<20)))
	require.IsType(t, &claim.Refused{}, got)
	require.Equal(t, "large", string(got.(*claim.Refused).Response.Body))
	require.Equal(t, []string{"POST /one"}, h.requests())
}

// TestAKeptConnectionThatEndedBefore: the upstream closes an idle connection. The next request is sent
// at most once, on it or on another one.
func TestAKeptConnectionThatEndedBefore(t *testing.T) {
	ended := make(chan struct{}, 64)
	h := script(t, func(_ int, conn net.Conn, _ *http.Request) bool {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		_ = conn.Close()
		ended <- struct{}{}
		return false
	})
	g := newGateway(t, "http://"+h.Addr().String())
	want := 0
	for i := range 20 {
		path := fmt.Sprint("/", i)
		got := attempt(t, g, post(path, "{}"))
		n := 0
		for _, seen := range h.requests() {
			if seen == "POST "+path {
				n++
			}
		}
		switch got.(type) {
		case *claim.Done:
			require.Equal(t, 1, n, path)
			<-ended
			want++
		case *claim.Released: // no byte of it was sent
			require.Zero(t, n, path)
		default:
			require.LessOrEqual(t, n, 1, path)
		}
	}
	require.NotZero(t, want)
}

// TestAReplyThatDripsIsUnknown: its time is that of the whole reply.
func TestAReplyThatDripsIsUnknown(t *testing.T) {
	s := script(t, func(_ int, conn net.Conn, _ *http.Request) bool {
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
		for ; err == nil; _, err = io.WriteString(conn, "x") {
			time.Sleep(time.Millisecond) // it is slow
		}
		return false
	})
	got := attempt(t, newGateway(t, "http://"+s.Addr().String(), plain(Route{Timeout: 100 * time.Millisecond})), post("/one", "{}"))
	require.IsType(t, &claim.Unknown{}, got)
	require.Equal(t, "reply_broken", got.(*claim.Unknown).Reason)
	require.Len(t, s.requests(), 1)
}

// TestNothingSentOnAKeptConnection: what earlier requests wrote to it is not counted.
func TestNothingSentOnAKeptConnection(t *testing.T) {
	h := scriptHeads(t, func(_ int, conn *net.TCPConn, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		return true
	})
	g := newGateway(t, "http://"+h.Addr().String())
	require.IsType(t, &claim.Done{}, attempt(t, g, post("/one", "{}")))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+h.Addr().String()+"/two", strings.NewReader("half"))
	require.NoError(t, err)
	r.GetBody = nil
	r.ContentLength = 8 // so that net/http gives up, before it has sent what it had buffered
	_, sent, err := g.send(r)
	require.Error(t, err) // of the body or of the connection that was closed for it: net/http has both at once
	require.False(t, sent)
	require.Equal(t, []string{"POST /one"}, h.requests())
}

// TestWhatPassesKeepsItsTrailers: both ways.
func TestWhatPassesKeepsItsTrailers(t *testing.T) {
	var got http.Header
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Out")
		_, _ = io.Copy(io.Discard, r.Body)
		got = r.Trailer
		w.Header().Set("X-Out", "out")
	}))
	defer upstream.Close()
	front := httptest.NewServer(newGateway(t, upstream.URL))
	defer front.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL, io.NopCloser(strings.NewReader("body")))
	require.NoError(t, err)
	r.Trailer = http.Header{"X-In": {"in"}}
	resp, err := front.Client().Do(r)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, []string{"in", "out"}, []string{got.Get("X-In"), resp.Trailer.Get("X-Out")})
}

// TestOnlyJSONIsComparedAsJSON: white space may mean something in any other type.
func TestOnlyJSONIsComparedAsJSON(t *testing.T) {
	g := newGateway(t, "http://127.0.0.1:9")
	for kind, same := range map[string]bool{"application/json": true, "application/problem+json": true, "text/plain": false, "application/x-www-form-urlencoded": false} {
		of := func(body string) string {
			return string(requestOf(t, g, post("/", "", "Content-Type", kind), []byte(body)).Input.Canonical)
		}
		require.Equal(t, same, of(`{"a":1}`) == of(`{"a": 1}`), kind)
	}
}

// TestACodingBelongsToARequest: the same bytes mean something else in another one.
func TestACodingBelongsToARequest(t *testing.T) {
	g := newGateway(t, "http://127.0.0.1:9")
	of := func(headers ...string) string {
		return string(requestOf(t, g, post("/", "", append(headers, "Content-Type", "text/plain")...), []byte("x")).Input.Canonical)
	}
	require.NotEqual(t, of(), of("Content-Encoding", "gzip"))
	require.NotEqual(t, of("Content-Encoding", "br"), of("Content-Encoding", "gzip"))
}

// TestAnotherProtocolIsNoReply: whatever the route says.
func TestAnotherProtocolIsNoReply(t *testing.T) {
	s := script(t, func(_ int, conn net.Conn, _ *http.Request) bool {
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		return false
	})
	g := newGateway(t, "http://"+s.Addr().String(), plain(Route{Replies: []Reply{{Header: "Upgrade", Outcome: done}}}))
	require.IsType(t, &claim.Unknown{}, attempt(t, g, post("/one", "{}")))
}

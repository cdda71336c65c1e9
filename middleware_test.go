package homeward

import (
	"bytes"
	"context"
	"encoding/json"
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
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
)

// served is a server with one guarded handler.
type served struct {
	*httptest.Server
	runs atomic.Int32
}

func serve(t *testing.T, h *Homeward, handler http.HandlerFunc, options ...MiddlewareOption) *served {
	t.Helper()
	s := &served{}
	guarded := h.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		handler(w, r)
	}), options...)
	mux := http.NewServeMux()
	mux.Handle("/v1/{what}", guarded)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (a *answer) code(t *testing.T) problem.Code {
	t.Helper()
	require.Equal(t, problem.ContentType, a.header.Get("Content-Type"))
	var p struct {
		Error problem.Code `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &p))
	return p.Error
}

// ask sends a request; header is pairs.
func (s *served) ask(t *testing.T, method, path, key, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.Client().Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp.StatusCode, resp.Header, string(got)}
}

func TestAHandlerRunsOnce(t *testing.T) {
	onEach(t, func(t *testing.T, h *Homeward) {
		s := serve(t, h, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.EqualValues(t, len(body), r.ContentLength)
			a, ok := AttemptOf(r.Context())
			require.True(t, ok)
			h := w.Header()
			h.Set("Content-Type", "application/json")
			h.Set("Location", "/v1/orders/"+a.ID)
			h.Add("Link", "<a>")
			h.Add("Link", "<b>")
			h.Set("Set-Cookie", "s=1")
			h.Set("Date", "yesterday")
			w.WriteHeader(http.StatusCreated)
			h.Set("Late", "1")
			_, _ = fmt.Fprintf(w, `{"what":%q,"body":%q}`, r.PathValue("what"), body)
		})
		first := s.ask(t, "POST", "/v1/orders?a=1", "k1", `{"b":1,"a":1.0}`)
		require.Equal(t, 201, first.status)
		require.Equal(t, `{"what":"orders","body":"{\"b\":1,\"a\":1.0}"}`, first.body)
		require.Empty(t, first.header.Get("Idempotent-Replayed"))
		require.Equal(t, []string{"<a>", "<b>"}, first.header["Link"])
		for _, name := range []string{"Set-Cookie", "Late"} {
			require.Empty(t, first.header.Get(name), name)
		}
		require.NotEqual(t, "yesterday", first.header.Get("Date"))

		again := s.ask(t, "POST", "/v1/orders?a=1", `"k1"`, `{ "a": 1, "b": 1e0 }`) // the same JSON, and the same key
		require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
		again.header.Del("Idempotent-Replayed")
		first.header.Del("Date")
		again.header.Del("Date")
		require.Equal(t, first, again)
		require.EqualValues(t, 1, s.runs.Load())

		for name, other := range map[string]answer{
			"body":        s.ask(t, "POST", "/v1/orders?a=1", "k1", `{"b":2,"a":1}`),
			"path":        s.ask(t, "POST", "/v1/refunds?a=1", "k1", `{"b":1,"a":1}`),
			"query":       s.ask(t, "POST", "/v1/orders?a=2", "k1", `{"b":1,"a":1}`),
			"method":      s.ask(t, "PATCH", "/v1/orders?a=1", "k1", `{"b":1,"a":1}`),
			"credentials": s.ask(t, "POST", "/v1/orders?a=1", "k1", `{"b":1,"a":1}`, "Authorization", "Bearer x"),
			"type":        s.ask(t, "POST", "/v1/orders?a=1", "k1", `{"b":1,"a":1}`, "Content-Type", "text/plain"),
		} {
			require.Equal(t, 422, other.status, name)
			require.Equal(t, problem.FingerprintMismatch, other.code(t), name)
		}
		require.EqualValues(t, 1, s.runs.Load())
	})
}

func TestWhatPasses(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	s := serve(t, h, func(w http.ResponseWriter, r *http.Request) {
		_, guarded := AttemptOf(r.Context())
		_, streams := w.(http.Flusher)
		_, _ = fmt.Fprint(w, guarded, streams)
	})
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		a := s.ask(t, method, "/v1/orders", "k1", "")
		require.Equal(t, "false true", a.body, method)
	}
	require.Equal(t, "false true", s.ask(t, "POST", "/v1/orders", "", "x").body)
	require.Equal(t, "true false", s.ask(t, "PATCH", "/v1/orders", "k2", "x").body)

	required := serve(t, h, func(http.ResponseWriter, *http.Request) {}, KeyRequired())
	a := required.ask(t, "POST", "/v1/orders", "", "x")
	require.Equal(t, 400, a.status)
	require.Equal(t, problem.KeyMissing, a.code(t))
	require.Equal(t, 200, required.ask(t, "GET", "/v1/orders", "", "").status)
	require.EqualValues(t, 1, required.runs.Load())
}

func TestWhatIsRefused(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	s := serve(t, h, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	a := s.ask(t, "POST", "/v1/orders", strings.Repeat("k", 256), "x")
	require.Equal(t, 400, a.status)
	require.Equal(t, problem.KeyInvalid, a.code(t))
	a = s.ask(t, "POST", "/v1/orders", "upgrade", "x", "Connection", "Upgrade", "Upgrade", "websocket")
	require.Equal(t, problem.InvalidRequest, a.code(t))
	a = s.ask(t, "POST", "/v1/orders", "long", strings.Repeat("x", maxBody+1))
	require.Equal(t, 413, a.status)
	require.Equal(t, problem.BodyTooLarge, a.code(t))
	require.Equal(t, 200, s.ask(t, "POST", "/v1/orders", "long", strings.Repeat("x", maxBody)).status, "nothing was begun")

	// Two keys, and a body that ends early.
	for _, raw := range []string{
		"POST /v1/orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 0\r\n\r\n",
		"POST /v1/orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: half\r\nContent-Length: 10\r\n\r\nhalf",
	} {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(conn, raw)
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		got, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Contains(t, string(got), "HTTP/1.1 400")
		require.NoError(t, conn.Close())
	}
	require.EqualValues(t, 1, s.runs.Load())
}

// A status says what it means.
func TestStatuses(t *testing.T) {
	h := open(t, Embedded(t.TempDir()), quick)
	var status atomic.Int32
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(int(status.Load()))
		if bodyAllowed(int(status.Load())) {
			_, _ = fmt.Fprintf(w, "run of %s", r.Header.Get("Idempotency-Key"))
		}
	}
	once, again := serve(t, h, handler), serve(t, h, handler, RepeatableHandler())
	const replayed, released = "replayed", "runs again"
	for _, c := range []struct {
		status      int
		once, again string
	}{
		{200, replayed, replayed}, {204, replayed, replayed}, {303, replayed, replayed},
		{400, replayed, replayed}, {404, replayed, replayed}, {409, replayed, replayed}, {422, replayed, replayed},
		{401, released, released}, {403, released, released}, {429, released, released},
		{408, replayed, released}, {499, replayed, released}, {500, replayed, released}, {503, replayed, released},
	} {
		for s, want := range map[*served]string{once: c.once, again: c.again} {
			key := fmt.Sprintf("%d-%t", c.status, s == again)
			status.Store(int32(c.status))
			first := s.ask(t, "POST", "/v1/orders", key, "")
			require.Equal(t, c.status, first.status, key)
			if c.status != 204 {
				require.Equal(t, "run of "+key, first.body)
			}
			if c.once != c.again && s == again {
				require.NotEmpty(t, first.header.Get("Retry-After"))
			}
			status.Store(202) // what another run answers
			runs := s.runs.Load()
			if want == replayed {
				next := s.ask(t, "POST", "/v1/orders", key, "")
				require.Equal(t, c.status, next.status, key)
				require.Equal(t, first.body, next.body)
				require.Equal(t, runs, s.runs.Load())
				continue
			}
			require.Eventually(t, func() bool {
				return s.ask(t, "POST", "/v1/orders", key, "").status == 202
			}, 10*time.Second, 5*time.Millisecond, key)
			require.Equal(t, runs+1, s.runs.Load())
		}
	}
}

func TestAHandlerPanics(t *testing.T) {
	onEach(t, func(t *testing.T, h *Homeward) {
		boom := true
		handler := func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			if boom {
				panic("boom")
			}
		}
		once, again := serve(t, h, handler), serve(t, h, handler, RepeatableHandler())
		for range 2 {
			a := once.ask(t, "POST", "/v1/orders", "once", "")
			require.Equal(t, 503, a.status)
			require.Equal(t, problem.OutcomeUnknown, a.code(t))
			require.Contains(t, a.body, `"retry":"never"`)
			require.Equal(t, "unknown", a.header.Get("Homeward-Outcome"))
		}
		require.EqualValues(t, 1, once.runs.Load())
		a := again.ask(t, "POST", "/v1/orders", "again", "")
		require.Equal(t, 503, a.status)
		require.Contains(t, a.body, `"retry":"same_key"`)
		boom = false
		require.Eventually(t, func() bool {
			return again.ask(t, "POST", "/v1/orders", "again", "").body == "half"
		}, 20*time.Second, 20*time.Millisecond)
		require.EqualValues(t, 2, again.runs.Load())
	}, quick)
}

// A guarded handler cannot stream, and is told so.
func TestAHandlerStreams(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	s := serve(t, h, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_, flusher := w.(http.Flusher)
		_, hijacker := w.(http.Hijacker)
		_, _, hijack := c.Hijack()
		_, _ = fmt.Fprintln(w, flusher, hijacker)
		_, _ = fmt.Fprintln(w, hijack)
		_, _ = fmt.Fprintln(w, c.Flush())
		_, _ = fmt.Fprintln(w, c.EnableFullDuplex())
		w.WriteHeader(http.StatusTeapot) // too late
	})
	a := s.ask(t, "POST", "/v1/orders", "k", "x")
	require.Equal(t, fmt.Sprintf("false true\n%v\n%v\n%v\n", errHijack, errFlush, errFlush), a.body)
	require.Equal(t, 200, a.status)
}

func TestLongReplies(t *testing.T) {
	onEach(t, func(t *testing.T, h *Homeward) {
		var failed error
		s := serve(t, h, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Etag", `"1"`)
			_, failed = w.Write(make([]byte, maxReply+1))
		})
		for range 2 {
			a := s.ask(t, "POST", "/v1/orders", "k", "x")
			require.Equal(t, 200, a.status)
			require.Empty(t, a.body)
			require.Empty(t, a.header.Get("Content-Type"))
			require.Equal(t, `"1"`, a.header.Get("Etag"))
		}
		require.ErrorIs(t, failed, errTooLong)
		require.EqualValues(t, 1, s.runs.Load())
	})
}

// Tenants have keys of their own, whatever their credentials are by then.
func TestTenantsOfAHandler(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	s := serve(t, h, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("User")) },
		TenantOf(func(r *http.Request) string { return r.Header.Get("User") }))
	require.Equal(t, "a", s.ask(t, "POST", "/v1/orders", "k", "x", "User", "a", "Authorization", "1").body)
	require.Equal(t, "a", s.ask(t, "POST", "/v1/orders", "k", "x", "User", "a", "Authorization", "2").body)
	require.Equal(t, "b", s.ask(t, "POST", "/v1/orders", "k", "x", "User", "b").body)
	require.EqualValues(t, 2, s.runs.Load())
	// Who is nobody shows credentials all the same.
	require.Equal(t, 200, s.ask(t, "POST", "/v1/orders", "k", "x", "Authorization", "1").status)
	require.Equal(t, 422, s.ask(t, "POST", "/v1/orders", "k", "x", "Authorization", "2").status)
}

// A caller hangs up, and the handler goes on for its retry.
func TestACallerHangsUp(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	running, finish := make(chan struct{}), make(chan struct{})
	s := serve(t, h, func(w http.ResponseWriter, r *http.Request) {
		close(running)
		<-finish
		_, _ = fmt.Fprint(w, r.Context().Err())
	})
	ctx, hangUp := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/orders", bytes.NewReader(nil))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "k")
	gone := make(chan error, 1)
	go func() {
		_, err := s.Client().Do(req)
		gone <- err
	}()
	<-running
	hangUp()
	require.ErrorIs(t, <-gone, context.Canceled)
	close(finish)
	require.Equal(t, "<nil>", s.ask(t, "POST", "/v1/orders", "k", "", "Content-Type", "").body)
	require.EqualValues(t, 1, s.runs.Load())
}

func TestTwinsOfAHandler(t *testing.T) {
	url := database(t)
	var runs atomic.Int32
	handler := func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, runs.Add(1)) }
	servers := []*served{serve(t, open(t, sqlAt(url)), handler), serve(t, open(t, sqlAt(url)), handler)}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if a := servers[i%2].ask(t, "POST", "/v1/orders", "twin", "x"); a.body != "1" {
				t.Error(a)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, runs.Load())
}

// Without the store nothing runs.
func TestAHandlerWithoutItsStore(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	s := serve(t, h, func(http.ResponseWriter, *http.Request) {})
	require.NoError(t, h.Close(context.Background()))
	a := s.ask(t, "POST", "/v1/orders", "k", "x")
	require.Equal(t, 503, a.status)
	require.Equal(t, problem.StoreUnavailable, a.code(t))
	require.NotEmpty(t, a.header.Get("Retry-After"))
	require.Zero(t, s.runs.Load())
}

// unrecorded is a store that records no verdict while it is on.
type unrecorded struct {
	claim.Store
	on atomic.Bool
}

func (m *unrecorded) Settle(ctx context.Context, rec claim.Record, v claim.Verdict) (claim.Record, error) {
	if m.on.Load() {
		return claim.Record{}, claim.ErrUnavailable
	}
	return m.Store.Settle(ctx, rec, v)
}

// muted is a Homeward whose store records nothing while the unrecorded is on.
func unrecording(t *testing.T) (*Homeward, *unrecorded) {
	m := &unrecorded{}
	return open(t, Embedded(t.TempDir()), quick, func(s *settings) {
		s.wrapStore = func(store claim.Store) claim.Store { m.Store = store; return m }
	}), m
}

// A reply that could not be recorded is not sent: no retry would read it.
func TestAReplyIsNotRecorded(t *testing.T) {
	h, m := unrecording(t)
	for _, status := range []int{201, 401, 422, 500} {
		s := serve(t, h, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		k := fmt.Sprint(status)
		m.on.Store(true)
		first := s.ask(t, "POST", "/v1/orders", k, "{}")
		m.on.Store(false)
		require.Equal(t, 503, first.status, k)
		require.Equal(t, problem.OutcomeUnknown, first.code(t))
		require.Contains(t, first.body, `"retry":"same_key"`)
		var again answer
		require.Eventually(t, func() bool {
			again = s.ask(t, "POST", "/v1/orders", k, "{}")
			return again.status != 409
		}, 20*time.Second, 20*time.Millisecond)
		require.Equal(t, 503, again.status, k)
		require.EqualValues(t, 1, s.runs.Load())
	}
}

// A status above 599 is none of HTTP, and one below 100 makes net/http panic: both say nothing.
func TestOddStatuses(t *testing.T) {
	h := open(t, Embedded(t.TempDir()), quick)
	for _, status := range []int{0, 99, 600, 999, 1000} {
		handler := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
		once, again := serve(t, h, handler), serve(t, h, handler, RepeatableHandler())
		for range 2 {
			a := once.ask(t, "POST", "/v1/orders", fmt.Sprint("once", status), "{}")
			require.Equal(t, 503, a.status, status)
			require.Contains(t, a.body, `"retry":"never"`)
		}
		a := again.ask(t, "POST", "/v1/orders", fmt.Sprint("again", status), "{}")
		require.Equal(t, 503, a.status, status)
		require.Contains(t, a.body, `"retry":"same_key"`)
	}
}

// A handler that refuses when its time is over does not know what it refuses.
func TestAHandlerIsLate(t *testing.T) {
	h := open(t, Embedded(t.TempDir()), quick)
	for _, status := range []int{401, 408, 422, 499} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := serve(t, h, func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				w.WriteHeader(status)
			})
			k := fmt.Sprint(status)
			for range 2 {
				a := s.ask(t, "POST", "/v1/orders", k, "{}")
				require.Equal(t, 503, a.status)
				require.Equal(t, problem.OutcomeUnknown, a.code(t))
			}
			require.EqualValues(t, 1, s.runs.Load())
		})
	}
}

// logged is where a Homeward logs to.
type logged struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}

// What reads the body outside of the Middleware would make all bodies one.
func TestABodyIsReadOutside(t *testing.T) {
	var log logged
	h := open(t, Embedded(t.TempDir()), Logger(slog.New(slog.NewTextHandler(&log, nil))))
	var runs atomic.Int32
	guarded := h.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		_, _ = io.WriteString(w, "paid "+r.PostFormValue("amount"))
	}))
	s := &served{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.FormValue("csrf") // as handlers against forged requests do
		guarded.ServeHTTP(w, r)
	}))}
	defer s.Close()
	const form = "application/x-www-form-urlencoded"
	a := s.ask(t, "POST", "/v1/pay", "k", "amount=1", "Content-Type", form)
	require.Equal(t, 500, a.status)
	require.Equal(t, problem.Internal, a.code(t))
	require.Contains(t, log.String(), "put Middleware outside what reads the body")

	// A body whose length nobody said.
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/v1/pay", struct{ io.Reader }{strings.NewReader("amount=1")})
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "chunked")
	req.Header.Set("Content-Type", form)
	resp, err := s.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 500, resp.StatusCode)
	require.Zero(t, runs.Load())

	// One that is no form was left as it was.
	require.Equal(t, 200, s.ask(t, "POST", "/v1/pay", "json", "{}").status)
}

// Nobody said how long the body is, and an outer handler has read it: two requests must not be one.
func TestABodyOfUnknownLengthThatWasReadBefore(t *testing.T) {
	var log logged
	h := open(t, Embedded(t.TempDir()), Logger(slog.New(slog.NewTextHandler(&log, nil))))
	var runs atomic.Int32
	guarded := h.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		runs.Add(1)
		w.WriteHeader(http.StatusCreated)
	}))
	s := &served{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // as one that logs requests does
		guarded.ServeHTTP(w, r)
	}))}
	defer s.Close()
	for _, body := range []string{`{"amount":1}`, `{"amount":2}`} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/v1/pay", struct{ io.Reader }{strings.NewReader(body)})
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "k")
		req.Header.Set("Content-Type", "application/json")
		resp, err := s.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 500, resp.StatusCode, body)
	}
	require.Zero(t, runs.Load())
	require.Contains(t, log.String(), "put Middleware outside what reads the body")
}

// Who the caller is may be said in the body.
func TestATenantInTheBody(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	s := serve(t, h, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		_, _ = fmt.Fprintf(w, "%s %s", r.PostFormValue("who"), body)
	}, TenantOf(func(r *http.Request) string { return r.FormValue("who") }))
	const form = "application/x-www-form-urlencoded"
	for _, body := range []string{"who=a", "who=b"} {
		a := s.ask(t, "POST", "/v1/pay", "k", body, "Content-Type", form)
		require.Equal(t, strings.TrimPrefix(body, "who=")+" "+body, a.body)
	}
}

// Credentials belong to a request without a tenant: with renewed ones it is another, and does not run.
func TestCredentialsPutRight(t *testing.T) {
	h := open(t, Embedded(t.TempDir()), quick)
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	s := serve(t, h, handler)
	require.Equal(t, 401, s.ask(t, "POST", "/v1/orders", "k", "{}", "Authorization", "Bearer old").status)
	a := s.ask(t, "POST", "/v1/orders", "k", "{}", "Authorization", "Bearer right")
	require.Equal(t, 422, a.status)
	require.Contains(t, a.body, "other credentials")
	require.Equal(t, 200, s.ask(t, "POST", "/v1/orders", "new", "{}", "Authorization", "Bearer right").status)

	s = serve(t, h, handler, TenantOf(func(*http.Request) string { return "acme" }))
	require.Equal(t, 401, s.ask(t, "POST", "/v1/orders", "k", "{}", "Authorization", "Bearer old").status)
	require.Eventually(t, func() bool {
		return s.ask(t, "POST", "/v1/orders", "k", "{}", "Authorization", "Bearer right").status == 200
	}, 20*time.Second, 5*time.Millisecond)
}

// A repeat that is refused for now, as its token has run out, says nothing about the run before it: that may
// have paid, under a key that the next run must have, too. One that conflicts may conflict with that run.
func TestARepeatIsRefusedForNow(t *testing.T) {
	h := open(t, Embedded(t.TempDir()), quick)
	for _, status := range []int{401, 403, 409, 425, 429} {
		var mu sync.Mutex
		var run int
		paid := map[string]bool{} // by the provider's key
		s := serve(t, h, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			a, _ := AttemptOf(r.Context())
			switch run++; run {
			case 1:
				paid[a.Key] = true
				w.WriteHeader(http.StatusBadGateway)
			case 2:
				w.WriteHeader(status)
			default:
				paid[a.Key] = true
				require.True(t, a.Recovery, status)
			}
		}, RepeatableHandler())
		key := fmt.Sprint("for-now-", status)
		require.Equal(t, 502, s.ask(t, "POST", "/v1/pay", key, "{}").status)
		require.Eventually(t, func() bool { return s.ask(t, "POST", "/v1/pay", key, "{}").status == status }, 10*time.Second, 5*time.Millisecond)
		require.Eventually(t, func() bool { return s.ask(t, "POST", "/v1/pay", key, "{}").status == 200 }, 10*time.Second, 5*time.Millisecond)
		require.Len(t, paid, 1, status)
	}
}

// Handlers of one store are told apart by the path that the caller asked for, and by their names.
func TestMounts(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	say := func(what string, options ...MiddlewareOption) http.Handler {
		return h.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, what) }), options...)
	}
	mux := http.NewServeMux()
	mux.Handle("/a/", http.StripPrefix("/a", say("a")))
	mux.Handle("/b/", http.StripPrefix("/b", say("b")))
	mux.Handle("shop.example/c/", say("shop", HandlerName("shop")))
	mux.Handle("/c/", say("other"))
	s := &served{Server: httptest.NewServer(mux)}
	defer s.Close()
	require.Equal(t, "a", s.ask(t, "POST", "/a/v1/orders", "k", "{}").body)
	require.Equal(t, 422, s.ask(t, "POST", "/b/v1/orders", "k", "{}").status)
	require.Equal(t, "other", s.ask(t, "POST", "/c/v1/orders", "k2", "{}").body)
	req := httptest.NewRequest("POST", "/c/v1/orders", strings.NewReader("{}"))
	req.Host = "shop.example"
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "k2")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, req)
	require.Equal(t, 422, w.Code)
}

// What is in an attempt of a key is guarded already.
func TestGuardedTwice(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	var runs atomic.Int32
	s := &served{Server: httptest.NewServer(h.Middleware(h.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		_, _ = io.Copy(w, r.Body)
	}))))}
	defer s.Close()
	for range 2 {
		a := s.ask(t, "POST", "/v1/orders", "k", "{}")
		require.Equal(t, 200, a.status)
		require.Equal(t, "{}", a.body)
	}
	require.EqualValues(t, 1, runs.Load())

	guard := connect.WithInterceptors(h.Interceptor())
	rpc := connect.NewUnaryHandlerSimple(simple, func(_ context.Context, r *text) (*text, error) {
		runs.Add(1)
		return r, nil
	}, guard, guard)
	s = &served{Server: httptest.NewServer(h.Middleware(rpc))}
	defer s.Close()
	for range 2 {
		a := s.ask(t, "POST", simple, "rpc", `"v"`)
		require.Equal(t, 200, a.status)
		require.Equal(t, `"v"`, a.body)
	}
	require.EqualValues(t, 2, runs.Load())
}

// A tenant that cannot be one is a fault of the program, which its log names.
func TestABadTenant(t *testing.T) {
	var log logged
	h := open(t, Embedded(t.TempDir()), Logger(slog.New(slog.NewTextHandler(&log, nil))))
	s := serve(t, h, func(http.ResponseWriter, *http.Request) {}, TenantOf(func(*http.Request) string { return "\xff" }))
	require.Equal(t, 500, s.ask(t, "POST", "/v1/orders", "k", "{}").status)
	require.Equal(t, 1, strings.Count(log.String(), "a tenant must be UTF-8"), log.String())
	o := newOrders(t, h, CallerOf(func(context.Context, connect.AnyRequest) string { return "\xff" }))
	_, err := o.ask(t, place, "v", key("k"))
	require.Equal(t, connect.CodeInternal, connect.CodeOf(err))
	require.Equal(t, 2, strings.Count(log.String(), "a tenant must be UTF-8"), log.String())
}

// Headers are kept as net/http sends them.
func TestHeadersAsNetHTTPSendsThem(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	guarded := serve(t, h, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["set-cookie"] = []string{"s=1"}
		switch r.PathValue("what") {
		case "encoded":
			w.Header().Set("Content-Encoding", "gzip")
		case "untyped":
			w.Header()["Content-Type"] = nil
		}
		_, _ = io.WriteString(w, "<html>")
	})
	for what, kind := range map[string][]string{"encoded": nil, "untyped": nil, "plain": {"text/html; charset=utf-8"}} {
		require.Equal(t, kind, guarded.ask(t, "POST", "/v1/"+what, "", "{}", "Accept-Encoding", "gzip").header["Content-Type"], what)
		for range 2 {
			a := guarded.ask(t, "POST", "/v1/"+what, "k"+what, "{}", "Accept-Encoding", "gzip")
			require.Equal(t, kind, a.header["Content-Type"], what)
			require.Empty(t, a.header["Set-Cookie"], what)
		}
	}
}

// What a reply varies by is said by each handler that makes it so.
func TestVary(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	guarded := h.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Vary", "Accept")
		w.Header().Add("Vary", "Origin")
	}))
	s := &served{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Origin")
		guarded.ServeHTTP(w, r)
	}))}
	defer s.Close()
	for range 2 {
		require.Equal(t, []string{"Origin", "Accept"}, s.ask(t, "POST", "/v1/orders", "k", "{}").header["Vary"])
	}
}

package cli

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab/devcerts"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/node"
)

// freePort is an address of loopback without a listener. It is below the ports of outgoing connections
// (32768 up), one of which may get it meanwhile: even that of who dials it.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(10000+rand.IntN(5000)))
		if l, err := net.Listen("tcp", at); err == nil {
			require.NoError(t, l.Close())
			return at
		}
	}
}

// forward passes connections at an address on to another until the test ends.
func forward(t *testing.T, at, to string) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	require.NoError(t, err)
	var open sync.WaitGroup
	open.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer func() { _ = from.Close() }()
				server, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				open.Go(func() { _, _ = io.Copy(from, server); _ = from.Close() })
				_, _ = io.Copy(server, from)
				_ = server.Close()
			})
		}
	})
	t.Cleanup(func() { require.NoError(t, l.Close()); open.Wait() })
}

// status of a request to an API, 0 without an answer.
func statusOf(t *testing.T, method, url string) (status int, retryAfter string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(`{}`))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer sk_none")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "k")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	require.NoError(t, res.Body.Close())
	return res.StatusCode, res.Header.Get("Retry-After")
}

// signalled keeps its output, and closes said once that contains of.
type signalled struct {
	strings.Builder
	of   string
	said chan struct{}
	done bool
}

func (s *signalled) Write(p []byte) (int, error) {
	n, err := s.Builder.Write(p)
	if !s.done && strings.Contains(s.String(), s.of) {
		s.done = true
		close(s.said)
	}
	return n, err
}

// A node without its database, which is down or does not resolve, waits: it is live and not ready,
// refuses requests as one that lost its database does, and starts when it can.
func TestServeWaitsForItsDatabase(t *testing.T) {
	own, err := url.Parse(migrated(t, "us-east1"))
	require.NoError(t, err)
	through, api := *own, freePort(t)
	through.Host = freePort(t)
	onlyWith(t, node.DatabaseURL+"="+through.String())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	code := make(chan int, 1)
	errs := &signalled{of: "waiting for the database", said: make(chan struct{})}
	settings := settingsFile(t, strings.Replace(freePorts, "api: {listen: '127.0.0.1:0'}", "api: {listen: '"+api+"'}", 1))
	go func() {
		code <- run(ctx, []string{"serve", "--config", settings}, streams{w, errs})
		_ = w.Close()
	}()
	waits := func() bool {
		status, _ := statusOf(t, http.MethodGet, "http://"+api+"/livez")
		require.Empty(t, code, "it ended")
		return status == http.StatusOK
	}
	require.Eventually(t, waits, time.Minute, 10*time.Millisecond)
	status, _ := statusOf(t, http.MethodGet, "http://"+api+"/readyz?exclude=region")
	require.Equal(t, http.StatusServiceUnavailable, status)
	for _, path := range []string{"/v1/charges", "/v1/webhooks/simulator"} {
		status, after := statusOf(t, http.MethodPost, "http://"+api+path)
		require.Equal(t, http.StatusServiceUnavailable, status, path)
		require.NotEmpty(t, after, path)
	}

	select {
	case <-errs.said:
	case <-time.After(time.Minute):
		t.Fatal("it does not say that it waits")
	}
	forward(t, through.Host, own.Host)
	out := bufio.NewReader(r)
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "API http://"+api)
	status, _ = statusOf(t, http.MethodGet, "http://"+api+"/readyz")
	require.Equal(t, http.StatusOK, status)
	stop()
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Contains(t, string(rest), "drained")
	require.Zero(t, <-code)
	require.Equal(t, 1, strings.Count(errs.String(), "waiting for the database"), errs)
	require.Contains(t, errs.String(), "cannot be reached")
}

// A node that waits ends with a signal, at once, and logs that it never served.
func TestAStopWhileItWaitsForItsDatabase(t *testing.T) {
	for name, host := range map[string]string{"down": freePort(t), "not resolvable": "localhost.invalid:5432"} {
		t.Run(name, func(t *testing.T) {
			onlyWith(t, node.DatabaseURL+"=postgresql://me:hunter2@"+host+"/homeward", node.DatabaseUnverified+"=true")
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var out, errs strings.Builder
			code, api := make(chan int, 1), freePort(t)
			settings := settingsFile(t, strings.Replace(freePorts, "api: {listen: '127.0.0.1:0'}", "api: {listen: '"+api+"'}", 1))
			go func() { code <- run(ctx, []string{"serve", "--config", settings}, streams{&out, &errs}) }()
			require.Eventually(t, func() bool {
				status, _ := statusOf(t, http.MethodGet, "http://"+api+"/livez")
				require.Empty(t, code, "it ended")
				return status == http.StatusOK
			}, time.Minute, 10*time.Millisecond)
			stop()
			require.Zero(t, <-code, &errs)
			require.Contains(t, out.String(), "stopped while it waited for its database, before it served: ")
			require.Contains(t, out.String(), "cannot be reached")
			require.NotContains(t, out.String()+errs.String(), "hunter2")
			require.Equal(t, 1, strings.Count(out.String(), "\n"), &out)
		})
	}
}

// A gateway without its database is live and not ready below its own path, refuses all else in its own
// words, and sends nothing to the upstream, also not what it does not guard. Then it starts.
func TestAGatewayWaitsForItsDatabase(t *testing.T) {
	own, err := url.Parse(migrated(t, "us-east1"))
	require.NoError(t, err)
	var sent atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent.Add(1) }))
	defer upstream.Close()
	through, api := *own, freePort(t)
	through.Host = freePort(t)
	onlyWith(t, node.DatabaseURL+"="+through.String(), node.SealKeys+"="+strings.TrimSpace(does(t, "secrets", "key")))
	ca, err := devcerts.NewAuthority(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	require.NoError(t, err)
	cert, key, err := ca.Issue(time.Now().Add(-time.Hour), time.Now().Add(time.Hour), &url.URL{Scheme: "spiffe", Host: "homeward", Path: "/gateway"})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cert.pem"), cert, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key.pem"), key, 0o600))
	settings := settingsFile(t, strings.NewReplacer("api: {listen: '127.0.0.1:0'}", "api: {listen: '"+api+"'}", inClear, "\n").Replace(freePorts)+fmt.Sprintf(`
gateway:
  upstream: %s
  tls: {cert: %q, key: %q}
  routes: [{match: POST /v1/refunds, profile: stripe}]
`, upstream.URL, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	code := make(chan int, 1)
	var errs strings.Builder
	go func() {
		code <- run(ctx, []string{"serve", "--config", settings}, streams{w, &errs})
		_ = w.Close()
	}()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} //nolint:gosec // it names no host, and is ours
	ask := func(method, path string) (status int, body string, header http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), method, "https://"+api+path, strings.NewReader(`{}`))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "k")
		res, err := client.Do(req)
		if err != nil {
			return 0, err.Error(), nil
		}
		defer func() { _ = res.Body.Close() }()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(text), res.Header
	}
	require.Eventually(t, func() bool {
		status, _, _ := ask(http.MethodGet, "/_homeward/livez")
		require.Empty(t, code, "it ended")
		return status == http.StatusOK
	}, time.Minute, 10*time.Millisecond)
	for _, path := range []string{"/_homeward/readyz", "/_homeward/readyz?exclude=region"} {
		status, body, _ := ask(http.MethodGet, path)
		require.Equal(t, http.StatusServiceUnavailable, status, path)
		require.Contains(t, body, "waits for its database")
	}
	for path, says := range map[string]string{
		"GET /orders": `"error":"store_unavailable"`, "POST /orders": `"error":"store_unavailable"`, "GET /livez": `"error":"store_unavailable"`, "POST /v1/charges": `"error":"store_unavailable"`,
		"GET /_homeward/idempotency-keys/k": `"error":"store_unavailable"`, "POST /_homeward/idempotency-keys/k/cancel": `"error":"store_unavailable"`,
		"POST /v1/refunds": `"type":"api_error"`, // Stripe's dialect, as of its route
	} {
		method, at, _ := strings.Cut(path, " ")
		status, body, header := ask(method, at)
		require.Equal(t, http.StatusServiceUnavailable, status, path)
		require.NotEmpty(t, header.Get("Retry-After"), path)
		require.Contains(t, body, says, path)
		require.NotContains(t, body+header.Get("Link"), "/v1", path)
		require.NotContains(t, body, "charge", path)
	}
	require.Zero(t, sent.Load(), "the upstream got a request")

	forward(t, through.Host, own.Host)
	out := bufio.NewReader(r)
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, api)
	status, body, _ := ask(http.MethodGet, "/_homeward/readyz")
	require.Equal(t, http.StatusOK, status, body)
	status, body, _ = ask(http.MethodPost, "/orders")
	require.Equal(t, http.StatusOK, status, body)
	require.EqualValues(t, 1, sent.Load())
	stop()
	_, err = io.Copy(io.Discard, out)
	require.NoError(t, err)
	require.Zero(t, <-code, &errs)
}

// with is a URL with a change.
func with(t *testing.T, rawURL string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	change(u)
	return u.String()
}

// What no wait can mend ends the start: a password, a database, a schema.
func TestServeDoesNotWaitForWhatCannotWork(t *testing.T) {
	empty := emptyDatabase(t)
	file := settingsFile(t, freePorts)
	onlyWith(t, node.DatabaseURL+"="+empty)
	refuses(t, []string{"schema version 0", "homeward migrate up"}, "serve", "--config", file)
	onlyWith(t, node.DatabaseURL+"="+with(t, empty, func(u *url.URL) { u.Path = "/nothing" }))
	refuses(t, []string{`"nothing"`, "does not exist"}, "serve", "--config", file)
	if dbtest.Shared(t).Kind() != localdb.CockroachDB { // which is insecure here, and asks for no password
		onlyWith(t, node.DatabaseURL+"="+with(t, empty, func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "wrong") }))
		refuses(t, []string{"refuses user"}, "serve", "--config", file)
	}
	onlyWith(t, node.DatabaseURL+"="+with(t, empty, func(u *url.URL) { u.RawQuery += "&lock_timeout=soon" }))
	refuses(t, []string{"lock_timeout"}, "serve", "--config", file)
}

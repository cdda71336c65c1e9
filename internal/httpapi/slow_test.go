package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/homeward-io/homeward/claim"
)

func listen(t *testing.T, h http.Handler, l Limits) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := NewServer("", h, l, slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return ln.Addr().String()
}

func TestSlowBodyHoldsNoClaim(t *testing.T) {
	f := newFake()
	limits := DefaultLimits()
	limits.BodyTime = 50 * time.Millisecond
	addr := listen(t, newAPI(t, f, func(c *Config) { c.Limits = limits }), limits)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/charges HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk_acme\r\nIdempotency-Key: k\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(okBody), okBody[:20])
	res, err := http.ReadResponse(bufio.NewReader(conn), nil) // the rest of the body never comes
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != 400 || !res.Close || !strings.Contains(string(body), "did not arrive within 50ms") || !strings.Contains(string(body), `"retry":"same_key"`) {
		t.Errorf("got %d, closing %v, %s", res.StatusCode, res.Close, body)
	}
	if len(f.requests) != 0 {
		t.Error("half a body reached the router")
	}
}

func TestBodyDeadlineEndsWithTheBody(t *testing.T) {
	f := newFake()
	limits := DefaultLimits()
	limits.BodyTime = 50 * time.Millisecond
	answer := f.do
	f.do = func(ctx context.Context, r claim.Request) (claim.Reply, error) {
		// This provider is slower than a body may be: the passing of time is under test.
		select {
		case <-ctx.Done():
			return claim.Reply{}, ctx.Err()
		case <-time.After(4 * limits.BodyTime):
			return answer(ctx, r)
		}
	}
	addr := listen(t, newAPI(t, f, func(c *Config) { c.Limits = limits }), limits)
	for range 2 { // the second on the same connection
		r := charge()
		r.RequestURI = ""
		r.URL.Scheme, r.URL.Host = "http", addr
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 201 || string(body) != objectBody {
			t.Fatalf("got %d %s", res.StatusCode, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// net/http reads a body that no handler reads, before it answers. A client that never sends it
// delays neither the answer nor a graceful stop for longer than a body may take.
func TestUnreadBodyHoldsNoStop(t *testing.T) {
	limits := DefaultLimits()
	limits.BodyTime = 50 * time.Millisecond
	api := newAPI(t, newFake(), func(c *Config) { c.Limits = limits })
	for head, status := range map[string]int{
		"POST /v1/charges HTTP/1.1\r\nContent-Length: 64":                                 401,
		"POST /v1/charges HTTP/1.1\r\nTransfer-Encoding: chunked":                         401,
		"POST /nowhere HTTP/1.1\r\nContent-Length: 64":                                    404,
		"POST /v1//charges HTTP/1.1\r\nContent-Length: 64":                                404,
		"POST /livez HTTP/1.1\r\nContent-Length: 64":                                      405,
		"GET /livez HTTP/1.1\r\nContent-Length: 64":                                       200,
		"PUT /v1/charges HTTP/1.1\r\nAuthorization: Bearer sk_acme\r\nContent-Length: 64": 405,
	} {
		t.Run(head, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			handled := make(chan struct{})
			srv := NewServer("", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(handled)
				api.ServeHTTP(w, r)
			}), limits, slog.New(slog.DiscardHandler))
			served := make(chan error, 1)
			go func() { served <- srv.Serve(ln) }()
			defer srv.Close()
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "%s\r\nHost: x\r\n\r\n", head) // and nothing more
			<-handled
			// Ample if the stop waits for BodyTime; the test fails if it waits for the client.
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := srv.Shutdown(ctx); err != nil {
				t.Fatalf("the stop waits for a client that sends nothing: %v", err)
			}
			<-served
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if _, err := io.ReadAll(res.Body); err != nil || res.StatusCode != status || !res.Close {
				t.Errorf("got %d, closing %v, %v; want %d", res.StatusCode, res.Close, err, status)
			}
		})
	}
}

func TestRequestTimeIsBounded(t *testing.T) {
	f := newFake()
	f.do = func(ctx context.Context, _ claim.Request) (claim.Reply, error) {
		<-ctx.Done()
		return claim.Reply{}, ctx.Err()
	}
	w := serve(newAPI(t, f, func(c *Config) {
		c.Limits = DefaultLimits()
		c.Limits.Request = time.Millisecond
	}), charge())
	if p := problemIn(t, w); w.Code != 503 || p.Error != "outcome_unknown" || p.Retry != "same_key" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestServerIsBounded(t *testing.T) {
	l := DefaultLimits()
	srv := NewServer(":1", http.NotFoundHandler(), l, nil)
	if srv.ReadHeaderTimeout != l.HeaderTime || srv.IdleTimeout != l.Idle || srv.MaxHeaderBytes != l.HeaderBytes ||
		srv.WriteTimeout <= l.Request || srv.ReadTimeout != 0 || srv.Addr != ":1" {
		t.Errorf("got %+v", srv)
	}
}

// TestALoadBalancerClosesFirst: who closes a kept connection second may have sent a request on it, which
// is lost, and AWS's and Google's load balancers then answer 502. Google's keep one for 600 s, whatever
// is set.
func TestALoadBalancerClosesFirst(t *testing.T) {
	keeps := map[string]time.Duration{"Google's": 600 * time.Second}
	for path, pattern := range map[string]string{
		"../../terraform/modules/region/balancers.tf": `idle_timeout = (\d+)`, "../../docs/DEPLOYING.md": `A time-out of (\d+) s or more`,
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s says nothing of a load balancer's time-out", path)
		}
		keeps[path], err = time.ParseDuration(string(found[1]) + "s")
		if err != nil {
			t.Fatal(err)
		}
	}
	for whose, kept := range keeps {
		if idle := DefaultLimits().Idle; idle <= kept {
			t.Errorf("a node closes a kept connection after %v, and a load balancer after %v: %s", idle, kept, whose)
		}
	}
}

// The API answers a request with both Content-Length and Transfer-Encoding, and reads nothing else
// from its connection: a proxy that believed the length takes the rest for its own next answer (RFC
// 9112, section 6.1).
func TestTwoLengthsEndAConnection(t *testing.T) {
	f := newFake()
	addr := listen(t, newAPI(t, f), DefaultLimits())
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := "POST /v1/charges HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk_acme\r\nContent-Type: application/json\r\nIdempotency-Key: k-%d\r\n"
	fmt.Fprintf(conn, head+"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", 1, len(okBody), okBody)
	fmt.Fprintf(conn, head+"Content-Length: %d\r\n\r\n%s", 2, len(okBody), okBody)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	if res.StatusCode != 201 || !res.Close {
		t.Errorf("got %d, closing %v", res.StatusCode, res.Close)
	}
	if more, err := http.ReadResponse(in, nil); err == nil {
		more.Body.Close()
		t.Errorf("the second request of the connection was answered: %d", more.StatusCode)
	}
	if len(f.requests) != 1 {
		t.Errorf("%d requests were executed", len(f.requests))
	}
}

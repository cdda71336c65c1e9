package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/runs"
)

// shadowed makes a gateway one in shadow mode. Its reports are read with shadowFound.
func shadowed(t *testing.T, bucket *string) func(*node.ClusterConfig) {
	at, err := node.LocalRuns(t.TempDir())
	require.NoError(t, err)
	*bucket = at
	return func(c *node.ClusterConfig) { c.Gateway.Settings.Mode, c.Runs = "shadow", at }
}

// shadowFound is the sum of all reports, by figure, and their examples.
func shadowFound(ctx context.Context, t *testing.T, bucket string) (sums map[string]int, examples []string) {
	t.Helper()
	open, err := node.OpenRuns(ctx, bucket)
	require.NoError(t, err)
	all, err := open.Book().List(ctx, runs.Shadow, 100)
	require.NoError(t, err)
	require.NoError(t, open.Close())
	sums = map[string]int{}
	for _, r := range all {
		for _, f := range r.Figures {
			n, err := strconv.Atoi(f.Value)
			require.NoError(t, err)
			sums[f.Name] += n
		}
		examples = append(examples, r.Findings...)
	}
	return sums, examples
}

// TestAGatewaysShadowCountsDoubleCharges: a client sends what it has sent already, in another region,
// at once, changed, or under a key that cannot be one. Nothing is held back, and each is counted.
func TestAGatewaysShadowCountsDoubleCharges(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	var bucket string
	g := startGateway(t, u.URL, shadowed(t, &bucket))
	send := func(region, key, body string) *reply {
		got, err := post(g.ctx, g.bases[region], "/orders", key, body)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, got.status, got.body)
		return got
	}
	settled := func(requests int) (sums map[string]int, examples []string) {
		until(t, "all are compared", func() bool {
			sums, examples = shadowFound(g.ctx, t, bucket)
			all := 0
			for name, n := range sums {
				if name != node.ShadowRequests && name != node.ShadowDoneAgain {
					all += n
				}
			}
			return sums[node.ShadowRequests] == requests && all == requests
		})
		return sums, examples
	}
	order := orderKey()
	first := send(us, order, `{"amount":1}`)
	require.NotEmpty(t, first.header["Set-Cookie"], "it is the API's own answer")
	require.Empty(t, first.header.Get("Homeward-Home-Region"))
	settled(1)
	for i, region := range []string{eu, asia} { // a retry bug
		require.NotEqual(t, first.body, send(region, order, `{ "amount": 1.0 }`).body)
		settled(2 + i)
	}
	send(eu, order, `{"amount":2}`)
	settled(4)

	// Two at once: the second arrives while the first is under way.
	var both sync.WaitGroup
	both.Add(2)
	meet := func() { both.Done(); both.Wait() }
	u.on.Store(&meet)
	twin := orderKey()
	var twins sync.WaitGroup
	for _, region := range []string{us, asia} {
		twins.Go(func() { _, _ = post(g.ctx, g.bases[region], "/orders", twin, "{}") })
	}
	twins.Wait()
	u.on.Store(nil)
	send(us, "a b", "{}")      // no key
	send(us, "", "{}")         // not guarded
	send(us, orderKey(), "{}") // and one that nothing is wrong with
	_, err := post(g.ctx, g.bases[us], "/orders", orderKey(), strings.Repeat("x", 1<<20+1))
	require.NoError(t, err)

	sums, examples := settled(9)
	require.Equal(t, map[string]int{
		node.ShadowRequests: 9, node.ShadowFirst: 3, node.ShadowReplayed: 2, node.ShadowJoined: 1, node.ShadowHeldBack: 0, node.ShadowRefused: 3, node.ShadowDoneAgain: 3, node.ShadowUncompared: 0,
	}, sums, "%q", examples)
	require.EqualValues(t, 10, u.effects.Load(), "each was sent")
	text := strings.Join(examples, "\n")
	require.Regexp(t, `POST /orders, key `+order+`: came again after the first, \S+ later; the API answered 201, and then 201 with another body`, text)
	require.Contains(t, text, "key "+twin+": came again while the first was under way")
	require.Contains(t, text, "key "+order+": would be refused, idempotency_key_fingerprint_mismatch")
	require.Contains(t, text, "would be refused, body_too_large")
}

// awayStore cannot be written.
type awayStore struct{ deployment.Store }

func (awayStore) Begin(context.Context, claim.Arrival) (claim.Begun, error) {
	return claim.Begun{}, claim.ErrUnavailable
}

func (awayStore) Pin(context.Context, claim.Key, string) (claim.Pin, error) {
	return claim.Pin{}, claim.ErrUnavailable
}

// TestAGatewaysShadowNeedsNoStore: without one the traffic is the same, and the report says what it lacks.
func TestAGatewaysShadowNeedsNoStore(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	var bucket string
	g := startGateway(t, u.URL, shadowed(t, &bucket), func(c *node.ClusterConfig) {
		c.WrapStore = func(_ string, s deployment.Store) deployment.Store { return awayStore{s} }
	})
	key := orderKey()
	for _, region := range regions {
		got, err := post(g.ctx, g.bases[region], "/orders", key, "{}")
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, got.status, got.body)
	}
	require.EqualValues(t, 3, u.effects.Load())
	until(t, "the report says so", func() bool {
		sums, _ := shadowFound(g.ctx, t, bucket)
		return sums[node.ShadowUncompared] == 3 && sums[node.ShadowRequests] == 3
	})
}

// TestAGatewaysShadowTouchesNothing compares bytes: what a key's request gets, and what the API gets of
// it, with what passes.
func TestAGatewaysShadowTouchesNothing(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var arrived []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Set("Link", "</a>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("Date", "Thu, 26 Nov 2026 00:00:00 GMT")
		w.WriteHeader(http.StatusConflict)
		body, err := io.ReadAll(r.Body)
		r.Header.Del("X-Forwarded-For")
		mu.Lock()
		arrived = append(arrived, fmt.Sprint(r.Method, r.RequestURI, r.Header, r.ContentLength, r.TransferEncoding, r.Trailer, string(body), err))
		mu.Unlock()
		for part := range strings.SplitSeq("one two three", " ") {
			_, _ = io.WriteString(w, part+string(body))
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("X-Sum", "7")
	}))
	t.Cleanup(api.Close)
	var bucket string
	g := startGateway(t, api.URL, shadowed(t, &bucket))
	send := func(text string) string {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.bases[us], "http://"))
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		_, err = io.WriteString(conn, text)
		require.NoError(t, err)
		var all strings.Builder
		for in := bufio.NewReader(conn); ; {
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				return all.String()
			}
			body, err := io.ReadAll(resp.Body) // where a chunk ends is a matter of time
			require.NoError(t, err)
			_, _ = fmt.Fprintln(&all, resp.Proto, resp.Status, resp.Header, resp.TransferEncoding, resp.ContentLength, resp.Close, string(body), resp.Trailer)
		}
	}
	n := 0
	for name, rest := range map[string]string{
		"a body":            "Content-Length: 3\r\n\r\nabc",
		"chunks, trailers":  "Transfer-Encoding: chunked\r\nTrailer: X-In\r\n\r\n3\r\nabc\r\n4;e=1\r\ndefg\r\n0\r\nX-In: 1\r\n\r\n",
		"asks first":        "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
		"packed":            "Content-Encoding: gzip\r\nAccept-Encoding: br\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x00",
		"nothing":           "Content-Length: 0\r\n\r\n",
		"long":              "Content-Length: 2097152\r\n\r\n" + strings.Repeat("x", 2<<20),
		"an odd connection": "Te: trailers\r\nX-Hop: 1\r\nContent-Length: 3\r\n\r\nabc",
	} {
		key := uuid.NewString()
		head := "POST /a%2Fb//c?x=1;y&%zz HTTP/1.1\r\nHost: shop\r\nCookie: b=2\r\nConnection: close\r\n"
		passed := send(head + "X-Request-Name: " + key + "\r\n" + rest)
		seen := send(head + "Idempotency-Key: " + key + "\r\n" + rest)
		n++
		require.Equal(t, passed, seen, name)
		require.Contains(t, seen, "HTTP/1.1 409 Conflict map[", name)
		mu.Lock()
		last := arrived[len(arrived)-2:]
		require.Equal(t, without(last[0], "X-Request-Name:["+key+"]"), without(last[1], "Idempotency-Key:["+key+"]"), name)
		mu.Unlock()
	}
	until(t, "they are counted", func() bool {
		sums, _ := shadowFound(g.ctx, t, bucket)
		return sums[node.ShadowRequests] == n
	})
}

// without is text without a piece that stands among others.
func without(text, piece string) string {
	return strings.Replace(strings.Replace(text, piece+" ", "", 1), " "+piece, "", 1)
}

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/outbox"
)

// nothing asserts that no region has a row under the key.
func (w *world) nothing(tenant, key string) {
	w.t.Helper()
	for _, region := range regions {
		var status keyStatus
		until(w.t, "the key's home answers", func() (ok bool) {
			var err error
			status, err = w.inspect(w.ctx, region, tenant, key)
			return err == nil
		})
		require.Empty(w.t, status.State, "a row under %s, seen from %s", key, region)
	}
}

// TestWrongInputLeavesNoRow sends whatever the contract refuses, from two
// regions, and finds the key unused afterwards: by asking, by the outbox, and
// by using it.
func TestWrongInputLeavesNoRow(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, nil)
	const good = `{"amount":100,"currency":"usd","payment_method":"pm_card_visa"}`
	header := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	for i, tc := range []struct {
		name   string
		body   string
		change func(*http.Request)
		status int
		code   string
	}{
		{"no amount", `{"currency":"usd","payment_method":"pm_card_visa"}`, nil, 400, "invalid_request"},
		{"amount 0", strings.Replace(good, "100", "0", 1), nil, 400, "invalid_request"},
		{"amount below 0", strings.Replace(good, "100", "-1", 1), nil, 400, "invalid_request"},
		{"amount of half a unit", strings.Replace(good, "100", "100.5", 1), nil, 400, "invalid_request"},
		{"amount as text", strings.Replace(good, "100", `"100"`, 1), nil, 400, "invalid_request"},
		{"amount beyond the cards", strings.Replace(good, "100", "1000000000000", 1), nil, 400, "invalid_request"},
		{"currency in capitals", strings.Replace(good, "usd", "USD", 1), nil, 400, "invalid_request"},
		{"no such currency", strings.Replace(good, "usd", "dollars", 1), nil, 400, "invalid_request"},
		{"no payment method", `{"amount":100,"currency":"usd"}`, nil, 400, "invalid_request"},
		{"card number", strings.Replace(good, "pm_card_visa", "4242424242424242", 1), nil, 400, "invalid_request"},
		{"unknown member", strings.Replace(good, "{", `{"colour":"red",`, 1), nil, 400, "invalid_request"},
		{"member twice", strings.Replace(good, "{", `{"amount":100,`, 1), nil, 400, "invalid_request"},
		{"metadata of numbers", strings.Replace(good, "{", `{"metadata":{"a":1},`, 1), nil, 400, "invalid_request"},
		{"expires_at without zone", strings.Replace(good, "{", `{"expires_at":"2030-01-01T00:00:00",`, 1), nil, 400, "invalid_request"},
		{"half a body", good[:20], nil, 400, "invalid_request"},
		{"no object", `[1]`, nil, 400, "invalid_request"},
		{"nothing", ``, nil, 400, "invalid_request"},
		{"two values", good + good, nil, 400, "invalid_request"},
		{"over 1 MiB", strings.Replace(good, "{", `{"description":"`+strings.Repeat("x", 1<<20)+`",`, 1), nil, 413, "body_too_large"},
		{"text", good, header("Content-Type", "text/plain"), 415, "unsupported_media_type"},
		{"no media type", good, header("Content-Type"), 415, "unsupported_media_type"},
		{"compressed", good, header("Content-Encoding", "gzip"), 415, "unsupported_media_type"},
		{"two keys", good, header("Idempotency-Key", "bad", "bad"), 400, "idempotency_key_invalid"},
		{"no key", good, header("Idempotency-Key"), 400, "idempotency_key_missing"},
		{"long key", good, header("Idempotency-Key", strings.Repeat("k", 256)), 400, "idempotency_key_invalid"},
		{"key with a space", good, header("Idempotency-Key", "a b"), 400, "idempotency_key_invalid"},
		{"no API key", good, header("Authorization"), 401, "unauthorized"},
		{"a stranger", good, header("Authorization", "Bearer sk_none"), 401, "unauthorized"},
		{"DELETE", good, func(r *http.Request) { r.Method = http.MethodDelete }, 405, "method_not_allowed"},
		{"no such path", good, func(r *http.Request) { r.URL.Path = "/v1/charge" }, 404, "not_found"},
	} {
		key := fmt.Sprint("bad-", i)
		if i%2 == 0 {
			key = stamped(t, eu)
		}
		for _, region := range []string{us, eu} {
			req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.base(region)+"/v1/charges", strings.NewReader(tc.body))
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+acme)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Idempotency-Key", key)
			if tc.change != nil {
				tc.change(req)
			}
			r := w.do(req)
			require.NoError(t, r.Err, tc.name)
			require.Equal(t, tc.status, r.Status, "%s: %s", tc.name, r.Body)
			require.Equal(t, tc.code, r.Problem.Error, tc.name)
			require.Equal(t, "never", r.Problem.Retry, tc.name)
			require.Equal(t, "application/problem+json", r.Header.Get("Content-Type"), tc.name)
			require.NotContains(t, string(r.Body), "4242424242424242", "a card number is not repeated")
		}
		w.nothing(acme, key)
		used := charge(key, 100)
		used.body = good
		w.at(us, used, http.StatusCreated)
		w.judge.once(t, i+1)
	}
	for _, region := range regions {
		view, err := w.cluster.DB.Region(region)
		require.NoError(t, err)
		depth, err := view.Queue(outbox.ProviderCalls).Depth(w.ctx, region)
		require.NoError(t, err)
		require.Equal(t, outbox.Depth{}, depth)
	}
}

// TestOtherTenantsKey: what one tenant does under a key is nothing to another.
func TestOtherTenantsKey(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, nil)
	first, second := charge("shared-name", 1), charge("shared-name", 2)
	second.tenant = globex
	w.at(us, first, http.StatusCreated)
	w.nothing(globex, "shared-name")
	w.at(us, second, http.StatusCreated)
	w.judge.once(t, 2)
}

// TestSlowClientHoldsNoClaim: a client that never finishes its body is sent
// away, and meanwhile the key is anybody's.
func TestSlowClientHoldsNoClaim(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, func(c *node.ClusterConfig) { c.Limits.BodyTime = 2 * time.Second })
	q := charge("slow", 1)
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.base(us), "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: homeward\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
		q.path, q.tenant, q.key, len(q.body), q.body[:10])
	require.NoError(t, err)
	w.nothing(acme, q.key)

	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, http.StatusBadRequest, res.StatusCode)
	w.nothing(acme, q.key)
	w.judge.once(t, 0)
	w.at(us, q, http.StatusCreated)
	w.judge.once(t, 1)
}

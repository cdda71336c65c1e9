package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward"
)

func TestAnOrderIsTakenOnce(t *testing.T) {
	dir := t.TempDir()
	ask := func(url, key, body string) (int, string, string) {
		req, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/orders", strings.NewReader(body))
		require.NoError(t, err)
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(got), resp.Header.Get("Idempotent-Replayed")
	}
	var first string
	for start := range 2 { // the second start reads what the first one kept
		h, err := homeward.Open(t.Context(), homeward.Embedded(dir))
		require.NoError(t, err)
		s := httptest.NewServer(api(h))
		status, body, replayed := ask(s.URL, "order-1", `{"item":"book"}`)
		require.Equal(t, 201, status)
		if start == 0 {
			first = body
			require.Empty(t, replayed)
		} else {
			require.Equal(t, first, body)
			require.Equal(t, "true", replayed)
		}
		status, _, _ = ask(s.URL, "order-1", `{"item":"pen"}`)
		require.Equal(t, 422, status)
		status, _, _ = ask(s.URL, "order-2", `{}`)
		require.Equal(t, 400, status)
		status, _, _ = ask(s.URL, "", `{"item":"book"}`)
		require.Equal(t, 400, status)
		s.Close()
		require.NoError(t, h.Close(t.Context()))
	}
}

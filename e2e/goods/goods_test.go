package goods_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/goods"
	"github.com/homeward-io/homeward/e2e/history"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// send sends a request to an API without a server.
func send(h http.Handler, method, path, key, body string, headers ...string) (status int, text string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-Tenant", "acme")
	r.Header.Set("Idempotency-Key", key)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	got, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(got)
}

// TestRepeats: what each resource does with one.
func TestRepeats(t *testing.T) {
	now := time.Unix(0, 0)
	api := goods.New(goods.Config{Remembers: time.Hour, Now: func() time.Time { return now }})
	h, other := api.At("us-east1"), api.At("europe-west1")
	const body = `{"amount":7}`
	for path, effects := range map[string]int{goods.Orders: 2, goods.Payouts: 1, goods.Bookings: 1, goods.Shipments: 2} {
		before := len(api.Effects())
		_, first := send(h, "POST", path, "k"+path, body, "X-Once", "1")
		_, again := send(h, "POST", path, "k"+path, body, "X-Once", "1")
		require.Equal(t, effects == 1, first == again, path)
		require.Len(t, api.Effects(), before+effects, path)
		if effects == 1 { // it knows nothing of others, and forgets
			send(other, "POST", path, "k"+path, body, "X-Once", "1")
			now = now.Add(time.Hour + time.Second)
			send(h, "POST", path, "k"+path, body, "X-Once", "1")
			require.Len(t, api.Effects(), before+3, path)
		}
	}
	send(h, "POST", goods.Shipments, "s", body)
	status, found := send(h, "GET", goods.Shipments+"/s", "", "")
	require.Equal(t, 200, status)
	require.Contains(t, found, `"amount":7`)
	status, _ = send(other, "GET", goods.Shipments+"/s", "", "")
	require.Equal(t, 404, status)
	before := len(api.Effects())
	status, _ = send(h, "POST", goods.Orders, "stolen", `{"amount":7,"payment_method":"pm_card_stolen"}`)
	require.Equal(t, 402, status)
	require.Len(t, api.Effects(), before)
}

// TestBreaks: what no gateway may do is reported.
func TestBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, none := goods.New(goods.Config{Remembers: time.Hour}), &history.History{}
		h := api.At("")
		send(h, "POST", goods.Payouts, "a", `{"amount":1}`)
		send(h, "POST", goods.Payouts, "a", `{"amount":1}`, "X-Once", "2", "X-Forwarded-For", "10.0.0.1")
		require.Empty(t, api.Breaks(none))
		send(h, "POST", goods.Payouts, "a", `{"amount":1} `)
		require.Len(t, api.Breaks(none), 1)
		require.Contains(t, api.Breaks(none)[0], "acme/a was sent as")
		send(h, "POST", goods.Orders, "b", `{"amount":2}`)
		send(h, "POST", goods.Orders, "b", `{"amount":2}`)
		require.Contains(t, api.Breaks(none)[1], "acme/b was sent again")

		// What takes effect late leaves its sender in doubt.
		api = goods.New(goods.Config{Remembers: time.Hour})
		api.SetFaults(simulator.Faults{LateEffect: 1, LateBy: time.Minute})
		status, _ := send(api.At(""), "POST", goods.Orders, "c", `{"amount":3}`)
		require.Equal(t, 504, status)
		require.Empty(t, api.Effects())
		for reply, breaks := range map[string]int{`503|||{}`: 0, `201|||{"id":"order_1"}`: 1, `402|||{}`: 1} {
			h := &history.History{}
			h.Add(1, history.Sent{Key: "acme/c", Path: goods.Orders}, time.Now(), history.Got{Kind: history.Final, Reply: reply})
			require.Len(t, api.Breaks(h), breaks, reply)
		}
		api.Settled()
		require.Len(t, api.Effects(), 1)

		// 429 is a no, so that the request may come again.
		api = goods.New(goods.Config{})
		api.SetFaults(simulator.Faults{ErrorBefore: 1})
		for range 100 {
			if status, _ = send(api.At(""), "POST", goods.Orders, "d", `{"amount":4}`); status != 429 {
				break
			}
			require.Empty(t, api.Breaks(none))
		}
		require.Equal(t, 1, api.Stats().Doubts)
		send(api.At(""), "POST", goods.Orders, "d", `{"amount":4}`)
		require.Len(t, api.Breaks(none), 1)
		require.Empty(t, api.Effects())
	})
}

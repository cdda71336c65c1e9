package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward"
)

// The provider loses the reply to the first call, after it has moved the money.
func TestAPaymentIsMadeOnce(t *testing.T) {
	var mu sync.Mutex
	calls, paid := 0, map[string]string{}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get("Idempotency-Key")
		if paid[key] == "" {
			paid[key] = fmt.Sprintf("payment %d", len(paid)+1)
		}
		if calls++; calls == 1 {
			panic(http.ErrAbortHandler)
		}
		_, _ = fmt.Fprint(w, paid[key])
	}))
	defer provider.Close()
	h, err := homeward.Open(t.Context(), homeward.Embedded(t.TempDir()))
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close(t.Context())) }()
	for range 2 {
		reply, err := pay(t.Context(), h, provider.URL, "order-1", 1999)
		require.NoError(t, err)
		require.Equal(t, homeward.StateDone, reply.State)
		require.Equal(t, "payment 1", string(reply.Body))
	}
	require.Len(t, paid, 1)
	require.Equal(t, 2, calls, "the lost one, and its recovery")
}

// The provider is still at the first call, or refuses the second one for a reason of its own: neither says
// that no money has moved.
func TestARefusalOfARepeatIsNoRefusal(t *testing.T) {
	for _, status := range []int{http.StatusConflict, http.StatusTooEarly, http.StatusRequestTimeout, http.StatusUnauthorized, http.StatusTooManyRequests} {
		calls := 0
		provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			switch calls++; calls {
			case 1:
				panic(http.ErrAbortHandler)
			case 2:
				w.WriteHeader(status)
			default:
				_, _ = fmt.Fprint(w, "payment 1")
			}
		}))
		h, err := homeward.Open(t.Context(), homeward.Embedded(t.TempDir()))
		require.NoError(t, err)
		reply, err := pay(t.Context(), h, provider.URL, "order-1", 1999)
		require.NoError(t, err)
		require.Equal(t, homeward.StateDone, reply.State, status)
		require.NoError(t, h.Close(t.Context()))
		provider.Close()
	}
}

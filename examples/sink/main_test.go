package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

func TestAnEventIsKeptOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	signer, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	var s *sink
	send := func(id, body string, at time.Time) int {
		signature, err := signer.Sign(id, at, []byte(body))
		require.NoError(t, err)
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		req.Header.Set("webhook-id", id)
		req.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
		req.Header.Set("webhook-signature", signature)
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, req)
		return answer.Code
	}
	now := time.Now()
	for range 2 { // the second time after a restart
		s, err = open(path, secret)
		require.NoError(t, err)
		for range 2 {
			require.Equal(t, http.StatusNoContent, send("evt_1", `{"id":"evt_1","type":"charge.succeeded"}`, now))
		}
		require.Equal(t, http.StatusUnauthorized, send("evt_2", `{"id":"evt_2","type":"charge.succeeded"}`, now.Add(-time.Hour)), "an old signature")
		require.NoError(t, s.file.Close())
	}
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(kept), "evt_"), string(kept))

	_, err = open(path, "nonsense")
	require.ErrorContains(t, err, "WEBHOOK_SECRET")
}

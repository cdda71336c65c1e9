package drill

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Which answers every other one must repeat, and which only ask for a retry, also those of a proxy.
func TestWhatIsAnAnswer(t *testing.T) {
	for _, c := range []struct {
		status        int
		body, failure string
		object, code  string
	}{
		{201, `{"id":"ch_1"}`, "", "ch_1", ""},
		{201, `"id":"ch_1"}`, "", "", ""}, // not what a client can read
		{307, ``, "307", "", ""},
		{402, `{"error":"card_declined","retry":"new_key"}`, "", "", "card_declined"},
		{402, `{"error":"card_declined","retry":"same_key"}`, "", "", "card_declined"},
		{409, `{"error":"idempotency_key_in_use","retry":"same_key"}`, "409 idempotency_key_in_use", "", "idempotency_key_in_use"},
		{422, `{"error":"idempotency_key_fingerprint_mismatch","retry":"never"}`, "", "", "idempotency_key_fingerprint_mismatch"},
		{503, `{"error":"outcome_unknown","retry":"new_key"}`, "", "", "outcome_unknown"},
		{404, `<html>`, "", "", ""},
		{408, `<html>`, "408", "", ""},
		{429, `<html>`, "429", "", ""},
		{502, `<html>`, "502", "", ""},
	} {
		w := &watch{
			next: roundTrip(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: c.status, Body: io.NopCloser(strings.NewReader(c.body))}, nil
			}),
			seen: func(int, *exchange) {},
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://here/", http.NoBody)
		require.NoError(t, err)
		res, err := w.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		got := []string{w.last.failure, w.last.object, w.last.code}
		require.Equal(t, []string{c.failure, c.object, c.code}, got, "%d %s", c.status, c.body)
	}
}

// A region that answers nothing is no time-out of the drill's, and the client's question is no request.
func TestSilenceIsAFailureOfItsOwn(t *testing.T) {
	d := &drill{c: Config{APIKeys: []string{"hw_live_a"}}, base: maxPayments}
	seen := map[string][]string{}
	w := &watch{
		entries: map[string]string{"a": "a", "b": "b"},
		next: roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "b" {
				return &http.Response{StatusCode: 201, Body: io.NopCloser(strings.NewReader(`{"id":"ch_1"}`))}, nil
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		}),
		seen: func(_ int, e *exchange) { seen[e.entry] = append(seen[e.entry], e.failure) },
	}
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, d.pay(t.Context(), []string{"http://a", "http://b"}, w, 0, &payment{key: "k"}))
	})
	require.Equal(t, map[string][]string{"a": {"silence"}, "b": {""}}, seen)
	require.Equal(t, 2, w.n)
}

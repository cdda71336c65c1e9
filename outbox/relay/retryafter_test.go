package relay

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReceiversAreLeftAloneAsTheyAsk: Retry-After of 429 and 503, in both of its forms
// and within bounds.
func TestReceiversAreLeftAloneAsTheyAsk(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		status int
		header string
		want   time.Duration
	}{
		{429, "120", 2 * time.Minute},
		{503, " 7 ", 7 * time.Second},
		{503, now.Add(time.Minute).Format(http.TimeFormat), time.Minute},
		{503, now.Add(-time.Minute).Format(http.TimeFormat), 0},
		{429, "86400", maxRetryAfter},
		{429, "99999999999999999999", 0},
		{429, "-5", 0},
		{429, "soon", 0},
		{429, "", 0},
		{500, "120", 0},
		{200, "120", 0},
	} {
		r := &http.Response{StatusCode: c.status, Header: http.Header{"Retry-After": {c.header}}}
		require.Equal(t, c.want, retryAfter(r, now), "%d %q", c.status, c.header)
	}
}

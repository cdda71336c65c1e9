package httpapi

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

// A test key lets time pass for its own tenant, and a live key for none.
func TestTheTestClock(t *testing.T) {
	f := newFake()
	f.tenants["sk_test"] = claim.Tenant{ID: claim.TestTenant("acme")}
	f.tenants["sk_live"] = claim.Tenant{ID: "acme"}
	var failed error
	passed := map[string]time.Duration{}
	h := newAPI(t, f, func(c *Config) {
		c.Elapse = func(_ context.Context, tenant string, by time.Duration) error {
			if failed == nil {
				passed[tenant] += by
			}
			return failed
		}
	})
	ask := func(key, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/v1/test-clock", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		return serve(h, r)
	}
	w := ask("sk_test", `{"advance":3600}`)
	require.Equal(t, 200, w.Code)
	require.JSONEq(t, `{"advanced":3600}`, w.Body.String())
	require.Equal(t, "forbidden", problemIn(t, ask("sk_live", `{"advance":3600}`)).Error)
	for _, wrong := range []string{`{}`, `{"advance":0}`, `{"advance":-1}`, `{"advance":34560001}`, `{"advance":"1h"}`, `{"advance":1,"to":2}`} {
		require.Equal(t, "invalid_request", problemIn(t, ask("sk_test", wrong)).Error, wrong)
	}
	require.Equal(t, map[string]time.Duration{claim.TestTenant("acme"): time.Hour}, passed)

	// A request that failed may have moved the clock in some regions: the answer asks nobody to send it again.
	for _, failed = range []error{claim.ErrHomeUnreachable, claim.ErrUnavailable, context.DeadlineExceeded} {
		w := ask("sk_test", `{"advance":3600}`)
		p := problemIn(t, w)
		require.Equal(t, []any{503, "never", ""}, []any{w.Code, p.Retry, w.Header().Get("Retry-After")}, w.Body)
		require.NotContains(t, p.Detail, "again")
	}
}

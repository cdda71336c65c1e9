package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/router"
)

// ends is an API whose requests end with an error, of the look-up of the tenant or of the router.
type ends struct {
	httpapi.Router
	door, routed error
	answers      []httpapi.Answer
}

func (e *ends) TenantByAPIKey(_ context.Context, key claim.APIKeyHash) (claim.Tenant, bool, error) {
	if key == claim.HashAPIKey("sk_test") {
		return claim.Tenant{ID: "acme~test"}, true, e.door
	}
	return claim.Tenant{ID: "acme"}, true, e.door
}

func (e *ends) Do(context.Context, claim.Request, string) (claim.Reply, error) {
	return claim.Reply{}, e.routed
}

func (e *ends) Object(context.Context, string, string) (claim.State, claim.Response, bool, error) {
	return 0, claim.Response{}, false, e.routed
}

func (e *ends) Expects(string, http.Header) error                          { return notice.ErrUnchecked }
func (e *ends) Receive(context.Context, string, http.Header, []byte) error { return nil }

// sent sends one request, and returns the code of its problem, and what was counted of it: the outcome
// and the code of a refusal without a claim.
func (e *ends) sent(t *testing.T, method, path, apiKey string) (code problem.Code, outcomes, closed map[string]float64) {
	t.Helper()
	reader := sdk.NewManualReader()
	meters, err := meter.New(sdk.NewMeterProvider(sdk.WithReader(reader)))
	require.NoError(t, err)
	defer meters.End()
	api, err := httpapi.New(httpapi.Config{
		Tenants: e, Router: measure(e, meters), Notices: e, Region: here, RegionCode: 1, Meters: meters, Logger: slog.New(slog.DiscardHandler),
		List:     func(context.Context, payment.List) ([]json.RawMessage, bool, error) { return nil, false, nil },
		Answered: func(a httpapi.Answer) { e.answers = append(e.answers, a) },
	})
	require.NoError(t, err)
	req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(`{"amount":1,"currency":"usd","payment_method":"pm_card_visa"}`))
	req.Header.Set("Authorization", "Bearer "+apiKey)
	req.Header.Set("Idempotency-Key", "k")
	req.Header.Set("Content-Type", "application/json")
	res := httptest.NewRecorder()
	api.ServeHTTP(res, req)
	var said struct{ Error problem.Code }
	require.NoError(t, json.Unmarshal(res.Body.Bytes(), &said), "%s", res.Body)
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	counted := map[string]map[string]float64{meter.Requests.Name(): {}, meter.FailClosed.Name(): {}}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if data, ok := m.Data.(metricdata.Sum[float64]); ok && counted[m.Name] != nil {
				for _, p := range data.DataPoints {
					label := meter.Outcome
					if m.Name == meter.FailClosed.Name() {
						label = meter.Code
					}
					value, _ := p.Attributes.Value(label)
					counted[m.Name][value.AsString()] += p.Value
				}
			}
		}
	}
	return said.Error, counted[meter.Requests.Name()], counted[meter.FailClosed.Name()]
}

// outcomeOfCode is the outcome that is counted of a request that is answered with a problem.
var outcomeOfCode = map[problem.Code]string{
	problem.StoreUnavailable: meter.Unavailable, problem.HomeUnavailable: meter.HomeUnavailable, problem.OutcomeUnknown: meter.Unknown,
	problem.FingerprintMismatch: meter.Mismatched, problem.KeyInUse: meter.InUse, problem.KeyExpired: meter.Expired, problem.KeyWithheld: meter.Withheld,
	problem.Forbidden: meter.Refused, problem.Internal: meter.Failed,
}

// TestTheOutcomeThatIsCountedIsTheAnswer: a request counts as what its merchant was told. A store or a
// region that let the time run out counts as unavailable, and not as an unknown outcome.
func TestTheOutcomeThatIsCountedIsTheAnswer(t *testing.T) {
	t.Parallel()
	late := func(err error) error { return fmt.Errorf("%w: %w", err, context.DeadlineExceeded) }
	for _, err := range []error{
		claim.ErrUnavailable, late(claim.ErrUnavailable), fmt.Errorf("%w: %w", claim.ErrUnavailable, context.Canceled), claim.ErrFingerprintVersion,
		router.ErrHomeUnavailable, late(router.ErrHomeUnavailable), fmt.Errorf("%w: %w", router.ErrHomeUnavailable, late(region.ErrNoAnswer)),
		claim.ErrHomeUnreachable, late(claim.ErrHomeUnreachable), claim.ErrNeedPin, late(claim.ErrNeedPin),
		context.DeadlineExceeded, context.Canceled, claim.ErrFenced, &claim.UnknownError{}, late(&claim.UnknownError{}),
		claim.ErrMismatch, &claim.InUseError{}, claim.ErrLeaseHeld, &claim.ExpiredError{}, &claim.WithheldError{}, claim.ErrUnknownTenant, errors.New("a bug"),
	} {
		code, outcomes, closed := (&ends{routed: err}).sent(t, http.MethodPost, "/v1/charges", "sk_acme")
		want := outcomeOfCode[code]
		require.NotEmpty(t, want, "%v was answered with %s", err, code)
		require.Equal(t, map[string]float64{want: 1}, outcomes, "%v was answered with %s", err, code)
		without := map[string]float64{}
		if code == problem.StoreUnavailable || code == problem.HomeUnavailable {
			without[string(code)] = 1
		}
		require.Equal(t, without, closed, "%v was answered with %s", err, code)
	}
}

// TestWhoIsTurnedAwayAtTheDoorIsCounted: while the store answers nothing, API keys cannot be looked up
// soon, and no request gets further. Such a request counts if it moves money, and nothing else does.
func TestWhoIsTurnedAwayAtTheDoorIsCounted(t *testing.T) {
	t.Parallel()
	none := map[string]float64{}
	for _, c := range []struct {
		method, path, apiKey string
		counted              bool
	}{
		{http.MethodPost, "/v1/charges", "sk_acme", true},
		{http.MethodPost, "/v1/refunds", "sk_acme", true},
		{http.MethodPost, "/v1/charges/ch_1/capture", "sk_acme", true},
		{http.MethodPost, "/v1/charges", claim.NewAPIKey("acme"), true},
		{http.MethodPost, "/v1/charges", claim.NewAPIKey("acme~test"), false},
		{http.MethodGet, "/v1/charges/ch_1", "sk_acme", false},
		{http.MethodPost, "/v1/idempotency-keys", "sk_acme", false},
		{http.MethodPost, "/v1/webhooks/simulator", "", false}, // it lacks its provider's secret
	} {
		e := &ends{door: fmt.Errorf("%w: %w", claim.ErrUnavailable, context.DeadlineExceeded)}
		code, outcomes, closed := e.sent(t, c.method, c.path, c.apiKey)
		require.Equal(t, problem.StoreUnavailable, code, c)
		if !c.counted {
			require.Equal(t, none, outcomes, c)
			require.Equal(t, none, closed, c)
			continue
		}
		require.Equal(t, map[string]float64{meter.Unavailable: 1}, outcomes, c)
		require.Equal(t, map[string]float64{string(problem.StoreUnavailable): 1}, closed, c)
		require.Len(t, e.answers, 1, c)
		require.Equal(t, problem.StoreUnavailable, e.answers[0].Code, c)
	}
	for _, path := range []string{"/v1/charges", "/v1/refunds/re_1"} {
		method := map[bool]string{true: http.MethodPost, false: http.MethodGet}[path == "/v1/charges"]
		_, outcomes, closed := (&ends{routed: claim.ErrUnavailable}).sent(t, method, path, "sk_test")
		require.Equal(t, none, outcomes, path)
		require.Equal(t, none, closed, "a test payment counts nowhere: %s", path)
	}
}

package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/seal/sealtest"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/router"
)

// newGated is a gateway in front of upstream, whose claims are f's.
func newGated(t *testing.T, upstream string, f *fake, routes ...gateway.Route) http.Handler {
	t.Helper()
	s := gateway.DefaultSettings()
	s.Upstream, s.Routes = upstream, routes
	g, err := gateway.New(gateway.Config{Settings: s, Region: "us-east1", Seal: sealtest.Ring(1)})
	require.NoError(t, err)
	t.Cleanup(g.Close)
	h, err := NewGateway(Config{
		Router: f, Region: "us-east1", RegionCode: 1, List: noList,
	}, g)
	require.NoError(t, err)
	return h
}

func ask(h http.Handler, method, target, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader("{}"))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return serve(h, r)
}

// TestAGatewaySendsNothingWithoutAClaim, whatever the error: the claim may be there, and done.
func TestAGatewaySendsNothingWithoutAClaim(t *testing.T) {
	sent := 0
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent++ }))
	defer up.Close()
	for name, failed := range map[string]error{
		"the home got it, and its answer was lost":     fmt.Errorf("%w: %w", router.ErrHomeUnavailable, region.ErrNoAnswer),
		"it is done, and its long body cannot be read": fmt.Errorf("%w: response body ab: %w", claim.ErrUnavailable, io.ErrUnexpectedEOF),
		"the commit is ambiguous":                      fmt.Errorf("%w: %w", claim.ErrUnavailable, errors.New("the connection is gone")),
	} {
		f := newFake()
		f.do = func(context.Context, claim.Request) (claim.Reply, error) { return claim.Reply{Home: "us-east1"}, failed }
		w := ask(newGated(t, up.URL, f, gateway.Route{Match: "POST /orders"}), "POST", "/orders", "k")
		require.Equal(t, http.StatusServiceUnavailable, w.Code, name)
		require.Contains(t, w.Body.String(), `"retry":"same_key"`, name)
		require.NotContains(t, w.Body.String(), "not sent", "%s: nobody knows that", name)
		require.Zero(t, sent, name)
	}
}

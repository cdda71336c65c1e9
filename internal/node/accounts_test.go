package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/region"
)

// TestARunningNodeStopsSendingToAnotherAccount: the name was accepted as another account
// while the node runs. A charge is neither sent nor declined, and made once it may be.
func TestARunningNodeStopsSendingToAnotherAccount(t *testing.T) {
	var sent atomic.Int32
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call map[string]any
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&call))
		call["id"], call["status"] = fmt.Sprint("p_", sent.Add(1)), "succeeded"
		assert.NoError(t, json.NewEncoder(w).Encode(call))
	}))
	defer bank.Close()
	provider, err := httpjson.New(httpjson.Config{Name: "bank", Account: "first", BaseURL: bank.URL, Capabilities: psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters}})
	require.NoError(t, err)
	defer func() { require.NoError(t, provider.Close()) }()
	var said lockedLog
	const key = "sk_accounts"
	c, err := StartCluster(t.Context(), ClusterConfig{
		Dir: t.TempDir(), Payments: Payments{Providers: psp.Providers{provider}}, Tuning: DefaultTuning(), Logger: slog.New(slog.NewJSONHandler(&said, nil)),
		Regions: []ClusterRegion{{Region: region.Region{Name: "a", Code: 1}}},
		Tenants: []ClusterTenant{{Tenant: claim.Tenant{ID: "acme", Registrar: "a"}, APIKeys: []string{key}}},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	defer func() { require.NoError(t, c.Stop(ctx)) }()
	node := c.Nodes[0]
	charge := func(order string) int {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+node.APIAddr()+"/v1/charges", strings.NewReader(`{"amount":1,"currency":"usd","payment_method":"pm_1"}`))
		require.NoError(t, err)
		req.Header = http.Header{"Authorization": {"Bearer " + key}, "Idempotency-Key": {order}, "Content-Type": {"application/json"}}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	require.Equal(t, http.StatusCreated, charge("1"))
	for i, is := range []string{"second", "first"} {
		_, err = account.Accept(ctx, c.DB, nil, "bank", is, time.Now())
		require.NoError(t, err)
		node.checkAccounts(ctx)
		if i == 0 {
			require.Equal(t, http.StatusServiceUnavailable, charge("2"))
			require.EqualValues(t, 1, sent.Load())
			node.checkAccounts(ctx)
		}
	}
	require.Equal(t, http.StatusCreated, charge("3"))
	require.Equal(t, 1, strings.Count(strings.Join(said.lines(), "\n"), "page: "))
}

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
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/region"
)

// TestTwoDeploymentsDoNotMerge: production and staging have the same regions, tenants, API
// keys, names and secrets, and staging has the gossip address of production's node among its
// seeds. Each charges at its own provider alone.
func TestTwoDeploymentsDoNotMerge(t *testing.T) {
	const apiKey, a, b = "sk_two", "a", "b"
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	t.Cleanup(cancel) // last: nodes stop within it
	tuning := DefaultTuning()
	tuning.DeputyAfter = time.Millisecond
	start := func(seeds ...string) (d deployment.Deployment, nodes map[string]*Node, secondLog *lockedLog, charges *atomic.Int32) {
		charges, secondLog, nodes = new(atomic.Int32), new(lockedLog), map[string]*Node{}
		bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var call map[string]any
			assert.NoError(t, json.NewDecoder(r.Body).Decode(&call))
			call["id"], call["status"] = fmt.Sprint("p_", charges.Add(1)), "succeeded"
			assert.NoError(t, json.NewEncoder(w).Encode(call))
		}))
		t.Cleanup(bank.Close)
		provider, err := httpjson.New(httpjson.Config{Name: "bank", BaseURL: bank.URL, Capabilities: psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, provider.Close()) })
		regions := []region.Region{{Name: a, Code: 1}, {Name: b, Code: 2}}
		db, err := embedded.Open(embedded.Config{Dir: t.TempDir(), Policy: claim.DefaultPolicy(), Regions: regions})
		require.NoError(t, err)
		d = deployment.Embedded(db)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		require.NoError(t, d.PutTenant(ctx, claim.Tenant{ID: "acme", Registrar: a}, apiKey))
		blobs, err := OpenBlobs(ctx, "file://"+t.TempDir())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, blobs.Close()) })
		for _, home := range []string{a, b} {
			if home == a && len(seeds) > 0 {
				continue // staging has lost its node of a, whose address production's has now
			}
			store, err := d.Region(home)
			require.NoError(t, err)
			topology, err := region.NewTopology(regions)
			require.NoError(t, err)
			n, err := Start(ctx, Config{
				Tuning: tuning, Name: home + "-1", Region: home, APIListen: "127.0.0.1:0", Peering: Peering{RPCListen: "127.0.0.1:0", GossipListen: "127.0.0.1:0", Seeds: seeds, LocalGossip: true, GossipKeys: [][]byte{[]byte("0123456789abcdef")}},
				Topology: topology, Store: store, Blobs: blobs, Payments: Payments{Providers: psp.Providers{provider}},
				Logger: slog.New(slog.NewTextHandler(secondLog, nil)),
			})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, n.Stop(ctx)) })
			nodes[home] = n
			if home == a {
				defer func(was []string) { seeds = was }(seeds)
				seeds = []string{n.GossipAddr()}
			}
		}
		return d, nodes, secondLog, charges
	}
	charge := func(n *Node, key string) string {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.APIAddr()+"/v1/charges", strings.NewReader(`{"amount":1,"currency":"usd","payment_method":"pm_1"}`))
		require.NoError(t, err)
		req.Header = http.Header{"Authorization": {"Bearer " + apiKey}, "Idempotency-Key": {key}, "Content-Type": {"application/json"}}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusCreated, res.StatusCode)
		require.Equal(t, a, res.Header.Get("Homeward-Home-Region"))
		return res.Header.Get("Homeward-Served-By")
	}
	athome := func() string {
		key, err := claim.Stamp(1, nil)
		require.NoError(t, err)
		return key
	}

	production, first, firstLog, made := start()
	staging, second, secondLog, elsewhere := start(first[a].GossipAddr())
	own, err := production.DeploymentID(ctx)
	require.NoError(t, err)
	other, err := staging.DeploymentID(ctx)
	require.NoError(t, err)

	// The nodes of one deployment, which share its rows, see each other as before.
	require.Eventually(t, func() bool { return len(first[b].Membership().Members()) == 2 }, time.Minute, time.Millisecond)
	require.Equal(t, a, charge(first[b], athome()))
	require.EqualValues(t, 1, made.Load())

	// No node of staging's a runs, so b acts on its rows; it has never seen production's a.
	require.Equal(t, b, charge(second[b], athome()))
	require.EqualValues(t, 1, elsewhere.Load())
	require.EqualValues(t, 1, made.Load(), "staging's charge was made at production's provider")
	require.Len(t, second[b].Membership().Members(), 1)
	for _, n := range first {
		require.Len(t, n.Membership().Members(), 2)
	}
	for _, log := range []*lockedLog{firstLog, secondLog} {
		require.Eventually(t, func() bool {
			for _, line := range log.lines() {
				if strings.Contains(line, "another deployment") && strings.Contains(line, own.String()) && strings.Contains(line, other.String()) {
					return true
				}
			}
			return false
		}, time.Minute, time.Millisecond)
	}
}

// TestNodesOfOneDeploymentHaveOneAccount: a row names the account of a provider's name, so a node
// with the key of another account does not start beside the first, in any region.
func TestNodesOfOneDeploymentHaveOneAccount(t *testing.T) {
	regions := []region.Region{{Name: "a", Code: 1}, {Name: "b", Code: 2}}
	db, err := embedded.Open(embedded.Config{Dir: t.TempDir(), Policy: claim.DefaultPolicy(), Regions: regions})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	blobs, err := OpenBlobs(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, blobs.Close()) }()
	start := func(home, is string) (*Node, error) {
		provider, err := httpjson.New(httpjson.Config{Name: "bank", Account: is, BaseURL: "http://127.0.0.1:1", Capabilities: psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, provider.Close()) })
		store, err := deployment.Embedded(db).Region(home)
		require.NoError(t, err)
		topology, err := region.NewTopology(regions)
		require.NoError(t, err)
		return Start(t.Context(), Config{
			Tuning: DefaultTuning(), Name: home + "-1", Region: home, APIListen: "127.0.0.1:0", Peering: Peering{RPCListen: "127.0.0.1:0", GossipListen: "127.0.0.1:0", LocalGossip: true},
			Topology: topology, Store: store, Blobs: blobs, Payments: Payments{Providers: psp.Providers{provider}},
		})
	}
	first, err := start("a", "first")
	require.NoError(t, err)
	defer func() { require.NoError(t, first.Stop(context.WithoutCancel(t.Context()))) }()
	_, err = start("b", "second")
	var other *account.OtherAccountError
	require.ErrorAs(t, err, &other)
	require.ErrorContains(t, err, "first")
	require.ErrorContains(t, err, "second")
	require.Nil(t, first.Membership().Nodes("b"), "it was met before it was refused")
}

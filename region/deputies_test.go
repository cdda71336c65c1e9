package region

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"reflect"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	peerv1 "github.com/homeward-io/homeward/internal/gen/homeward/peer/v1"
)

// TestADeputyIsAskedForAnyHome: whose home a request has does not matter to a deputy, nor what the
// entry has read of its pin.
func TestADeputyIsAskedForAnyHome(t *testing.T) {
	var got []claim.Request
	asked := &fakeLocal{
		execute: func(_ context.Context, _ string, req claim.Request) (claim.Reply, error) {
			got = append(got, req)
			return claim.Reply{Response: claim.Response{Status: 201}, Home: us, State: claim.Completed}, nil
		},
		inspect: func(context.Context, string, claim.Key) (claim.Status, bool, error) {
			return claim.Status{}, true, claim.ErrHomeUnreachable
		},
		object: func(context.Context, string, string, string) (claim.State, claim.Response, bool, error) {
			return claim.InFlight, claim.Response{}, true, nil
		},
	}
	home := failing(errors.New("the home was asked"))
	tenant := *filled[claim.Tenant]()
	tenant.Registrar = as
	tenant.PreviousRegistrar, tenant.RegistrarMovedAt = "", time.Time{} // where pins are is the store's to know
	h, err := NewHandler(HandlerConfig{Local: home, Deputy: asked, Self: eu, Deployment: deploymentID, Topology: threeRegions(t),
		Tenant: func(_ context.Context, hash claim.APIKeyHash) (claim.Tenant, bool, error) {
			return tenant, hash == sha256.Sum256([]byte("hw_live_1")), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	h.Mount(mux)
	addr, _ := serve(t, mux)
	node := Node{Name: "n", Region: eu, RPCAddr: addr}
	p := peersOf(t, nil, node).Deputies()

	stamped, err := claim.Stamp(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	req := *filled[claim.Request]()
	req.Input.Tenant, req.Began = req.Key.Tenant, time.Time{} // as in TestExecuteCarriesEveryByte
	for _, key := range []string{stamped, "order-1"} {
		req.Key.Value = key
		reply, err := p.Execute(t.Context(), eu, req, 1, us)
		if err != nil || reply.Home != us || reply.ServedBy != eu {
			t.Fatalf("%q: %+v, %v", key, reply, err)
		}
	}
	require.Len(t, got, 2)
	require.Equal(t, claim.RegionCode(1), got[0].Stamp)
	req.Stamp = 0                                  // read off the key
	req.PinnedAt, req.PinHere = time.Time{}, false // a deputy finds the home by itself
	got[1].Began = req.Began
	require.Equal(t, req, got[1])
	if _, _, err := p.Inspect(t.Context(), eu, claim.Key{Tenant: "acme", Value: stamped}); !errors.Is(err, claim.ErrHomeUnreachable) {
		t.Error(err)
	}
	id, err := claim.NewObjectID("ch", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, found, err := p.Object(t.Context(), eu, "acme", id); !found || err != nil {
		t.Error(found, err)
	}
	if n := home.calls.Load(); n != 0 {
		t.Errorf("the home was asked %d times", n)
	}

	if got, found, err := p.Tenant(t.Context(), eu, sha256.Sum256([]byte("hw_live_1"))); err != nil || !found || !reflect.DeepEqual(got, tenant) {
		t.Errorf("%+v, %v, %v", got, found, err)
	}
	if _, found, err := p.Tenant(t.Context(), eu, sha256.Sum256([]byte("hw_live_2"))); err != nil || found {
		t.Errorf("no tenant's: %v, %v", found, err)
	}
	if _, err := rawClient(t, node).Tenant(t.Context(), connect.NewRequest(&peerv1.TenantRequest{ApiKeyHash: []byte("short")})); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("no hash: %v", err)
	}
}

package region

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/gen/homeward/peer/v1/peerv1connect"
)

// fakeLocal is a region's executor of which each method can be replaced.
type fakeLocal struct {
	calls   atomic.Int32
	execute func(ctx context.Context, home string, req claim.Request) (claim.Reply, error)
	inspect func(ctx context.Context, home string, key claim.Key) (claim.Status, bool, error)
	object  func(ctx context.Context, tenant, home, id string) (claim.State, claim.Response, bool, error)
}

func (f *fakeLocal) Execute(ctx context.Context, home string, req claim.Request) (claim.Reply, error) {
	f.calls.Add(1)
	return f.execute(ctx, home, req)
}

func (f *fakeLocal) Inspect(ctx context.Context, home string, key claim.Key) (claim.Status, bool, error) {
	f.calls.Add(1)
	return f.inspect(ctx, home, key)
}

func (f *fakeLocal) Object(ctx context.Context, tenant, home, id string) (claim.State, claim.Response, bool, error) {
	f.calls.Add(1)
	return f.object(ctx, tenant, home, id)
}

// answering is an executor that answers every request with body.
func answering(body string) *fakeLocal {
	return &fakeLocal{execute: func(context.Context, string, claim.Request) (claim.Reply, error) {
		return claim.Reply{Response: claim.Response{Status: 201, Body: []byte(body)}, Home: eu, State: claim.Completed}, nil
	}}
}

func failing(err error) *fakeLocal {
	return &fakeLocal{
		execute: func(context.Context, string, claim.Request) (claim.Reply, error) { return claim.Reply{}, err },
		inspect: func(context.Context, string, claim.Key) (claim.Status, bool, error) {
			return claim.Status{}, false, err
		},
		object: func(context.Context, string, string, string) (claim.State, claim.Response, bool, error) {
			return 0, claim.Response{}, false, err
		},
	}
}

// Where no test asks them.
var (
	errDeputy = errors.New("a deputy was asked")
	noTenants = func(context.Context, claim.APIKeyHash) (claim.Tenant, bool, error) { return claim.Tenant{}, false, nil }
)

// pingPath is that of the call that is free for every identity.
const pingPath = peerv1connect.PeerServicePingProcedure

// deploymentID is the deployment of these tests.
var deploymentID = uuid.MustParse("018f0000-0000-4000-8000-00000000000a")

// serve runs handler on loopback until the test ends and returns its address.
func serve(t *testing.T, handler http.Handler) (string, *http.Server) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(handler, nil)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return listener.Addr().String(), server
}

// startNode serves local as a node of eu.
func startNode(t *testing.T, name string, local Local) Node {
	t.Helper()
	h, err := NewHandler(HandlerConfig{Local: local, Deputy: failing(errDeputy), Tenant: noTenants, Self: eu, Deployment: deploymentID, Topology: threeRegions(t)})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	h.Mount(mux)
	addr, _ := serve(t, mux)
	return Node{Name: name, Region: eu, RPCAddr: addr}
}

// deadNode has an address that refuses connections.
func deadNode(t *testing.T, name string) Node {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return Node{Name: name, Region: eu, RPCAddr: addr}
}

type directory map[string][]Node

func (d directory) Nodes(region string) []Node { return d[region] }

func peersOf(t *testing.T, change func(*PeersConfig), nodes ...Node) *Peers {
	t.Helper()
	cfg := PeersConfig{Directory: directory{eu: nodes}, Deployment: deploymentID, TryTimeout: patience}
	if change != nil {
		change(&cfg)
	}
	p, err := NewPeers(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), p.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// requestFor is a request with a key that prefers first among nodes.
func requestFor(first Node, nodes ...Node) claim.Request {
	for i := 0; ; i++ {
		key := claim.Key{Tenant: "acme", Value: fmt.Sprintf("order-%d", i)}
		if Choose(nodes, key)[0] == first {
			return claim.Request{
				Key: key, Operation: "charge", PinnedAt: time.Unix(1700000000, 0),
				Input: claim.FingerprintInput{Method: "POST", Path: "/v1/charges", Tenant: "acme", Canonical: []byte(`{}`)},
			}
		}
	}
}

func fields(namesAndValues ...string) []claim.HeaderField {
	var out []claim.HeaderField
	for pair := range slices.Chunk(namesAndValues, 2) {
		out = append(out, claim.HeaderField{Name: pair[0], Value: pair[1]})
	}
	return out
}

// countingTransport counts the requests that leave.
type countingTransport struct {
	http.RoundTripper
	sent atomic.Int32
}

func (c *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// rawClient sends what Peers would never.
func rawClient(t *testing.T, node Node) peerv1connect.PeerServiceClient {
	t.Helper()
	transport := NewTransport(nil)
	t.Cleanup(transport.CloseIdleConnections)
	return peerv1connect.NewPeerServiceClient(NewClient(transport, deploymentID), "http://"+node.RPCAddr)
}

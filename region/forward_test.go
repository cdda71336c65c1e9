package region

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/wan"
)

func TestForwardGoesToTheNextNodeWhenTheFirst(t *testing.T) {
	for name, first := range map[string]func(t *testing.T) Node{
		"refuses connections": func(t *testing.T) Node { return deadNode(t, "first") },
		"dies while it works": func(t *testing.T) Node {
			var server *http.Server
			ready := make(chan struct{})
			local := &fakeLocal{execute: func(ctx context.Context, _ string, _ claim.Request) (claim.Reply, error) {
				<-ready
				_ = server.Close() // cuts the connection under the request
				<-ctx.Done()
				return claim.Reply{}, ctx.Err()
			}}
			h, err := NewHandler(HandlerConfig{Local: local, Deputy: failing(errDeputy), Tenant: noTenants, Self: eu, Deployment: deploymentID, Topology: threeRegions(t)})
			if err != nil {
				t.Fatal(err)
			}
			mux := http.NewServeMux()
			h.Mount(mux)
			var addr string
			addr, server = serve(t, mux)
			close(ready)
			return Node{Name: "first", Region: eu, RPCAddr: addr}
		},
		"is something else by now": func(t *testing.T) Node {
			addr, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "<html>hello</html>")
			}))
			return Node{Name: "first", Region: eu, RPCAddr: addr}
		},
		"redirects": func(t *testing.T) Node {
			addr, _ := serve(t, http.RedirectHandler("http://127.0.0.1:1/", http.StatusTemporaryRedirect))
			return Node{Name: "first", Region: eu, RPCAddr: addr}
		},
		"is behind a proxy that lost it": func(t *testing.T) Node {
			addr, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "no upstream", http.StatusServiceUnavailable)
			}))
			return Node{Name: "first", Region: eu, RPCAddr: addr}
		},
		"has no such procedure": func(t *testing.T) Node {
			addr, _ := serve(t, http.NotFoundHandler())
			return Node{Name: "first", Region: eu, RPCAddr: addr}
		},
		"is being stopped": func(t *testing.T) Node { return startNode(t, "first", failing(context.Canceled)) },
	} {
		t.Run(name, func(t *testing.T) {
			second := answering("second")
			nodes := []Node{first(t), startNode(t, "second", second)}
			reply, err := peersOf(t, nil, nodes...).Execute(t.Context(), eu, requestFor(nodes[0], nodes...), 1, us)
			if err != nil || string(reply.Response.Body) != "second" || second.calls.Load() != 1 {
				t.Errorf("%s, %v, second node called %d times", reply.Response.Body, err, second.calls.Load())
			}
		})
	}
}

func TestForwardGoesToTheNextNodeWhenTheFirstIsTooSlow(t *testing.T) {
	gaveUp := make(chan struct{})
	slow := &fakeLocal{execute: func(ctx context.Context, _ string, _ claim.Request) (claim.Reply, error) {
		<-ctx.Done() // the try's deadline came along
		close(gaveUp)
		return claim.Reply{}, ctx.Err()
	}}
	nodes := []Node{startNode(t, "slow", slow), startNode(t, "second", answering("second"))}
	p := peersOf(t, func(c *PeersConfig) { c.TryTimeout = 200 * time.Millisecond }, nodes...)
	// The second one has the same time, and needs next to none of it.
	reply, err := p.Execute(t.Context(), eu, requestFor(nodes[0], nodes...), 1, us)
	if err != nil || string(reply.Response.Body) != "second" {
		t.Errorf("%s, %v", reply.Response.Body, err)
	}
	select {
	case <-gaveUp:
	case <-time.After(patience):
		t.Error("the slow node's request was not cancelled")
	}
}

func TestTriesAreBounded(t *testing.T) {
	var nodes []Node
	for i := range MaxTries + 2 { // each takes the request, and answers as no Homeward node does
		addr, _ := serve(t, http.NotFoundHandler())
		nodes = append(nodes, Node{Name: fmt.Sprint("broken-", i), Region: eu, RPCAddr: addr})
	}
	counting := &countingTransport{RoundTripper: NewTransport(nil)}
	p := peersOf(t, func(c *PeersConfig) { c.Transport = counting }, nodes...)
	_, err := p.Execute(t.Context(), eu, requestFor(nodes[0], nodes...), 1, us)
	if !errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrNoNode) {
		t.Errorf("err = %v", err)
	}
	if counting.sent.Load() != MaxTries {
		t.Errorf("%d nodes tried, want %d", counting.sent.Load(), MaxTries)
	}
}

func TestNoNode(t *testing.T) {
	node := startNode(t, "n", answering("ok"))
	_, err := peersOf(t, nil, node).Execute(t.Context(), as, requestFor(node, node), 1, us)
	if !errors.Is(err, ErrNoNode) || errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), as) {
		t.Errorf("err = %v", err)
	}
	own := node
	own.Self = true
	if _, err := peersOf(t, nil, own).Execute(t.Context(), eu, requestFor(own, own), 1, us); !errors.Is(err, ErrNoNode) {
		t.Errorf("a node called itself: err = %v", err)
	}
}

func TestTheCallersDeadlineEndsAForward(t *testing.T) {
	arrived, ended := make(chan struct{}, 1), make(chan time.Time, 1)
	slow := &fakeLocal{execute: func(ctx context.Context, _ string, _ claim.Request) (claim.Reply, error) {
		arrived <- struct{}{}
		deadline, ok := ctx.Deadline()
		if !ok {
			t.Error("the deadline did not come along")
		}
		<-ctx.Done()
		ended <- deadline
		return claim.Reply{}, ctx.Err()
	}}
	second := answering("second")
	nodes := []Node{startNode(t, "slow", slow), startNode(t, "second", second)}
	ctx := t.Context()
	// On a busy machine a deadline may pass before the forward arrives.
	for rest := 200 * time.Millisecond; len(arrived) == 0 && rest < patience; rest *= 2 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(t.Context(), rest)
		defer cancel()
		_, err := peersOf(t, nil, nodes...).Execute(ctx, eu, requestFor(nodes[0], nodes...), 1, us)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrNoAnswer) {
			t.Errorf("err = %v, want both that nobody answered and why", err)
		}
	}
	if second.calls.Load() != 0 {
		t.Error("the second node got a request although no time remained")
	}
	select {
	case deadline := <-ended:
		if want, _ := ctx.Deadline(); deadline.Sub(want).Abs() > time.Second {
			t.Errorf("the peer's deadline is %v, the caller's %v", deadline, want)
		}
	case <-time.After(patience):
		t.Error("the peer's request was not cancelled")
	}
}

func TestACallerThatDisconnectsEndsAForward(t *testing.T) {
	arrived, ended := make(chan struct{}), make(chan struct{})
	local := &fakeLocal{execute: func(ctx context.Context, _ string, _ claim.Request) (claim.Reply, error) {
		close(arrived)
		<-ctx.Done()
		close(ended)
		return claim.Reply{}, ctx.Err()
	}}
	node := startNode(t, "n", local)
	p := peersOf(t, nil, node)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := p.Execute(ctx, eu, requestFor(node, node), 1, us)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, ErrNoAnswer) || local.calls.Load() != 1 {
		t.Errorf("err = %v, %d calls", err, local.calls.Load())
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the peer's request was not cancelled")
	}
}

func TestWrongHome(t *testing.T) {
	local := answering("ok")
	node := startNode(t, "n", local) // of eu, code 2
	p := peersOf(t, func(c *PeersConfig) { c.Directory = directory{us: {node}, eu: {node}} }, node)
	stamp := func(code claim.RegionCode) string {
		key, err := claim.Stamp(code, nil)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	object := func(code claim.RegionCode) string {
		id, err := claim.NewObjectID("ch", code, nil)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for _, tc := range []struct {
		what, home, key, id string
		want                error
	}{
		{"stamped for another, sent as this region's", eu, stamp(3), object(3), &WrongHomeError{Home: as}},
		{"stamped for another, sent as another's", us, stamp(1), object(1), &WrongHomeError{Home: us}},
		{"stamped for a region that is not in the topology", eu, stamp(99), object(99), claim.ErrHomeUnreachable},
		{"opaque, sent as another's", us, "order-1", "unreadable", &WrongHomeError{}},
	} {
		req := requestFor(node, node)
		req.Key.Value = tc.key
		if _, err := p.Execute(t.Context(), tc.home, req, 1, us); !sameError(err, tc.want) {
			t.Errorf("%s: Execute: %v, want %v", tc.what, err, tc.want)
		}
		if _, _, err := p.Inspect(t.Context(), tc.home, req.Key); !sameError(err, tc.want) {
			t.Errorf("%s: Inspect: %v, want %v", tc.what, err, tc.want)
		}
		if _, _, _, err := p.Object(t.Context(), tc.home, "acme", tc.id); !sameError(err, tc.want) {
			t.Errorf("%s: Object: %v, want %v", tc.what, err, tc.want)
		}
	}
	if n := local.calls.Load(); n != 0 {
		t.Errorf("%d of them ran", n)
	}
	// The key decides its home, whatever the sender claims.
	req := requestFor(node, node)
	req.Key.Value = stamp(2)
	if _, err := p.Execute(t.Context(), us, req, 1, us); err != nil {
		t.Errorf("this region's, sent as another's: %v", err)
	}
}

func TestHopLimit(t *testing.T) {
	local := answering("ok")
	node := startNode(t, "n", local)
	p := peersOf(t, nil, node)
	if _, err := p.Execute(t.Context(), eu, requestFor(node, node), MaxHops+1, us); !errors.Is(err, ErrHopLimit) {
		t.Errorf("sender: %v", err)
	}
	req := requestFor(node, node)
	_, err := rawClient(t, node).Execute(t.Context(), connect.NewRequest(toExecuteRequest(eu, &req, MaxHops+1, us)))
	if got, _ := fromConnect(err); !errors.Is(got, ErrHopLimit) {
		t.Errorf("receiver: %v", err)
	}
	if local.calls.Load() != 0 {
		t.Error("it ran")
	}
	if _, err := p.Execute(t.Context(), eu, req, MaxHops, us); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}

func TestForwardsShareOneHTTP2Connection(t *testing.T) {
	h, err := NewHandler(HandlerConfig{Local: answering("ok"), Deputy: failing(errDeputy), Tenant: noTenants, Self: eu, Deployment: deploymentID, Topology: threeRegions(t)})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	h.Mount(mux)
	var mu sync.Mutex
	from := make(map[string]bool)
	addr, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("forwarded over %s", r.Proto)
		}
		mu.Lock()
		from[r.RemoteAddr] = true
		mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	node := Node{Name: "n", Region: eu, RPCAddr: addr}
	p := peersOf(t, nil, node)
	for range 20 {
		if _, err := p.Execute(t.Context(), eu, requestFor(node, node), 1, us); err != nil {
			t.Fatal(err)
		}
	}
	if len(from) != 1 {
		t.Errorf("%d connections for 20 forwards, one after the other", len(from))
	}
}

func TestForwardPaysOneRoundTripAndFeelsAPartition(t *testing.T) {
	local := answering("ok")
	node := startNode(t, "n", local)
	network := wan.New(nil)
	p := peersOf(t, func(c *PeersConfig) {
		c.Transport = network.RoundTripper(NewTransport(nil), us, func(host string) string {
			if host == node.RPCAddr {
				return eu
			}
			return ""
		})
	}, node)
	if _, err := p.Execute(t.Context(), eu, requestFor(node, node), 1, us); err != nil {
		t.Fatal(err)
	}
	if network.Trips(us, eu) != 1 || network.TotalTrips() != 1 {
		t.Errorf("%d trips", network.TotalTrips())
	}
	network.Cut(us, eu)
	_, err := p.Execute(t.Context(), eu, requestFor(node, node), 1, us)
	if !errors.Is(err, ErrNoAnswer) || !errors.Is(err, wan.ErrPartitioned) || local.calls.Load() != 1 {
		t.Errorf("cut: %v, %d calls", err, local.calls.Load())
	}
	network.Heal(us, eu)
	if _, err := p.Execute(t.Context(), eu, requestFor(node, node), 1, us); err != nil {
		t.Errorf("healed: %v", err)
	}
}

package region

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/homeward-io/homeward/claim"
	peerv1 "github.com/homeward-io/homeward/internal/gen/homeward/peer/v1"
	"github.com/homeward-io/homeward/internal/gen/homeward/peer/v1/peerv1connect"
	"github.com/homeward-io/homeward/internal/wan"
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
	h, err := NewHandler(HandlerConfig{Local: local, Self: eu, Topology: threeRegions(t)})
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
	cfg := PeersConfig{Directory: directory{eu: nodes}, TryTimeout: patience}
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

// requestFor is a request whose key prefers first among nodes.
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

func TestExecuteCarriesEveryByte(t *testing.T) {
	random := rand.NewChaCha8([32]byte{7})
	body, canonical := make([]byte, 700_001), make([]byte, 65_537)
	_, _ = random.Read(body)
	_, _ = random.Read(canonical)
	want := claim.Reply{
		Response: claim.Response{
			Status: 402,
			Header: fields("X-B", "2", "Content-Type", "application/problem+json", "X-A", " 1 ", "X-B", "1", "x-b", ""),
			Body:   body, Blob: "b10b",
		},
		Home: eu, State: claim.FailedTerminal, Replayed: true,
		FirstUse: time.Unix(1700000000, 123456789).UTC(), ExpiresAt: time.Unix(1700086400, 123456789).UTC(), ServedBy: eu,
	}
	var got claim.Request
	var gotHome string
	local := &fakeLocal{execute: func(_ context.Context, home string, req claim.Request) (claim.Reply, error) {
		got, gotHome = req, home
		return want, nil
	}}
	node := startNode(t, "n", local)
	req := claim.Request{
		Key:       claim.Key{Tenant: "acme", Value: `visible!"\~`},
		Operation: "charge",
		Input: claim.FingerprintInput{
			Method: "POST", Path: "/v1/charges", Tenant: "acme", ContentType: `application/json; charset="x"`, Canonical: canonical,
		},
		Also:        claim.Fingerprint{Version: 1, Sum: [32]byte{1, 31: 32}},
		CompareOnly: true,
		PinnedAt:    time.Unix(1700000000, 5).UTC(),
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	reply, err := peersOf(t, nil, node).Execute(t.Context(), eu, req, 2, us)
	if err != nil {
		t.Fatal(err)
	}
	want.Hops = 2
	if !reflect.DeepEqual(reply, want) {
		t.Error("the reply changed on the way")
	}
	got.Began = time.Time{} // travels as a duration
	if !reflect.DeepEqual(got, req) || gotHome != eu {
		t.Errorf("the request changed on the way, or its home: %q", gotHome)
	}
}

func TestExecuteNamesTheServingRegionWhereTheExecutorDoesNot(t *testing.T) {
	node := startNode(t, "n", answering("ok"))
	reply, err := peersOf(t, nil, node).Execute(t.Context(), eu, requestFor(node, node), 1, us)
	if err != nil || reply.ServedBy != eu || reply.Hops != 1 || reply.Response.Header != nil {
		t.Errorf("%+v, %v", reply, err)
	}
}

func TestStampedIsReadOffTheKey(t *testing.T) {
	stamped, err := claim.Stamp(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []bool
	local := answering("ok")
	answer := local.execute
	local.execute = func(ctx context.Context, home string, req claim.Request) (claim.Reply, error) {
		got = append(got, req.Stamp != 0)
		return answer(ctx, home, req)
	}
	node := startNode(t, "n", local)
	p := peersOf(t, nil, node)
	for _, tc := range []struct {
		key  string
		says claim.RegionCode
	}{{stamped, 0}, {"order-1", 2}, {claim.OwnKey(stamped), 0}} {
		req := requestFor(node, node)
		req.Key.Value, req.Stamp = tc.key, tc.says
		if _, err := p.Execute(t.Context(), eu, req, 1, us); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, []bool{true, false, true}) {
		t.Errorf("stamped %v, whatever the sender says it is [true false true]", got)
	}
}

func TestInspectCarriesWhatAMerchantMayKnow(t *testing.T) {
	at := time.Unix(1700000000, 42000).UTC()
	key := claim.Key{Tenant: "acme", Value: "order-1"}
	want := claim.Status{
		Record: claim.Record{
			Key: key, Home: eu, Operation: "charge", State: claim.FailedRetry, FirstUse: at, Attempts: 3, Generation: 2,
			Reason: "insufficient_funds", Minted: claim.Minted{ID: "ch_1"},
		},
		Age: claim.Expired, ExpiresAt: at.Add(24 * time.Hour), FreeAt: at.Add(48 * time.Hour),
		Timeline: []claim.AuditEntry{
			{At: at, Event: claim.EventClaimed, Region: eu, Node: "n", Fence: 1},
			{At: at.Add(time.Second), Event: claim.EventReleased, Region: eu, Node: "n", Fence: 1 << 60, Generation: 2, Detail: "insufficient_funds"},
		},
	}
	secretly := want
	secretly.Record.ProviderKey, secretly.Record.Holder, secretly.Record.ProviderRef = "hw_secret", "node-7", "psp_secret"
	secretly.Record.Fingerprint.Version = 1
	found := true
	node := startNode(t, "n", &fakeLocal{inspect: func(_ context.Context, home string, k claim.Key) (claim.Status, bool, error) {
		if home != eu || k != key {
			t.Errorf("asked for %v at %s", k, home)
		}
		return secretly, found, nil
	}})
	p := peersOf(t, nil, node)
	got, ok, err := p.Inspect(t.Context(), eu, key)
	if err != nil || !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
	found = false
	got, ok, err = p.Inspect(t.Context(), eu, key)
	if err != nil || ok || !reflect.DeepEqual(got, claim.Status{}) {
		t.Errorf("not found: %+v, %v, %v", got, ok, err)
	}
}

func TestObject(t *testing.T) {
	id, err := claim.NewObjectID("ch", 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	final := claim.Response{Status: 201, Header: fields("Location", "/v1/charges/"+id), Body: []byte(`{"id":1}`)}
	state, response, found := claim.Completed, final, true
	node := startNode(t, "n", &fakeLocal{object: func(_ context.Context, tenant, home, got string) (claim.State, claim.Response, bool, error) {
		if tenant != "acme" || home != eu || got != id {
			t.Errorf("asked for %s of %s at %s", got, tenant, home)
		}
		return state, response, found, nil
	}})
	p := peersOf(t, nil, node)
	check := func(wantState claim.State, want claim.Response, wantFound bool) {
		t.Helper()
		s, r, ok, err := p.Object(t.Context(), eu, "acme", id)
		if err != nil || s != wantState || ok != wantFound || !reflect.DeepEqual(r, want) {
			t.Errorf("%v %+v %v %v", s, r, ok, err)
		}
	}
	check(claim.Completed, final, true)
	state, response = claim.InFlight, claim.Response{}
	check(claim.InFlight, claim.Response{}, true)
	found = false
	check(0, claim.Response{}, false)
}

func TestWhatThePeerSaidArrivesAndIsNotRetried(t *testing.T) {
	for _, want := range contractErrors {
		a, b := failing(fmt.Errorf("at home: %w", want)), failing(fmt.Errorf("at home: %w", want))
		nodes := []Node{startNode(t, "a", a), startNode(t, "b", b)}
		p := peersOf(t, nil, nodes...)
		_, err := p.Execute(t.Context(), eu, requestFor(nodes[0], nodes...), 1, us)
		if !sameError(err, want) {
			t.Errorf("Execute: %v (%T) arrived as %v (%T)", want, want, err, err)
		}
		if _, _, err := p.Inspect(t.Context(), eu, claim.Key{Tenant: "acme", Value: "k"}); !sameError(err, want) {
			t.Errorf("Inspect: %v arrived as %v", want, err)
		}
		if _, _, _, err := p.Object(t.Context(), eu, "acme", "ch_1"); !sameError(err, want) {
			t.Errorf("Object: %v arrived as %v", want, err)
		}
		if a.calls.Load()+b.calls.Load() != 3 {
			t.Errorf("%v: %d calls for 3 requests", want, a.calls.Load()+b.calls.Load())
		}
	}
}

// Beside an error the home says where the key is at home and until when it answers.
func TestWhatIsKnownOfTheKeyArrivesBesideAnError(t *testing.T) {
	known := claim.Reply{Home: eu, FirstUse: time.UnixMicro(1e15).UTC(), ExpiresAt: time.UnixMicro(2e15).UTC()}
	for _, want := range contractErrors {
		local := &fakeLocal{execute: func(context.Context, string, claim.Request) (claim.Reply, error) { return known, want }}
		node := startNode(t, "a", local)
		got, err := peersOf(t, nil, node).Execute(t.Context(), eu, requestFor(node, node), 1, us)
		if !sameError(err, want) {
			t.Errorf("%v arrived as %v", want, err)
		}
		if !reflect.DeepEqual(got, known) {
			t.Errorf("%v: %+v arrived beside it", want, got)
		}
	}
}

// How long a request has been under way travels as a duration: clocks of two nodes
// are never compared.
func TestHowLongUnderWayTravels(t *testing.T) {
	var under time.Duration
	local := &fakeLocal{execute: func(_ context.Context, _ string, req claim.Request) (claim.Reply, error) {
		under = req.UnderWay()
		return claim.Reply{}, claim.ErrMismatch
	}}
	node := startNode(t, "a", local)
	req := requestFor(node, node)
	req.Began = time.Now().Add(-time.Minute)
	_, err := peersOf(t, nil, node).Execute(t.Context(), eu, req, 1, us)
	if !errors.Is(err, claim.ErrMismatch) || under < time.Minute || under > 2*time.Minute {
		t.Errorf("%v under way, %v", under, err)
	}
}

// What a forward lost at one node counts as time under way at the next: a twin whose
// node died must not pass for a request that began after the decline it is to share.
func TestTimeAtADyingNodeCountsAsUnderWay(t *testing.T) {
	const held = 50 * time.Millisecond
	var asked time.Time
	dying := &fakeLocal{execute: func(context.Context, string, claim.Request) (claim.Reply, error) {
		asked = time.Now()
		for time.Since(asked) < held { // it works, and is stopped
			runtime.Gosched()
		}
		return claim.Reply{}, context.Canceled
	}}
	var began time.Time
	second := &fakeLocal{execute: func(_ context.Context, _ string, req claim.Request) (claim.Reply, error) {
		began = time.Now().Add(-req.UnderWay())
		return claim.Reply{}, claim.ErrMismatch
	}}
	nodes := []Node{startNode(t, "dying", dying), startNode(t, "second", second)}
	req := requestFor(nodes[0], nodes...)
	req.Began = time.Now()
	_, err := peersOf(t, nil, nodes...).Execute(t.Context(), eu, req, 1, us)
	if !errors.Is(err, claim.ErrMismatch) || began.After(asked.Add(held/2)) { // the wire takes some time, too
		t.Errorf("%v; the second node takes it to have begun %v after the first was asked", err, began.Sub(asked))
	}
}

func TestAnUnknownFailureIsNotRetriedAndTellsNothing(t *testing.T) {
	for name, local := range map[string]*fakeLocal{
		"error": failing(errors.New("pq: secret of globex")),
		"panic": {execute: func(context.Context, string, claim.Request) (claim.Reply, error) { panic("secret of globex") }},
	} {
		other := answering("other")
		nodes := []Node{startNode(t, "a", local), startNode(t, "b", other)}
		_, err := peersOf(t, nil, nodes...).Execute(t.Context(), eu, requestFor(nodes[0], nodes...), 1, us)
		if !errors.Is(err, ErrPeerFailed) || strings.Contains(err.Error(), "globex") || other.calls.Load() != 0 {
			t.Errorf("%s: %v, other node called %d times", name, err, other.calls.Load())
		}
	}
}

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
			h, err := NewHandler(HandlerConfig{Local: local, Self: eu, Topology: threeRegions(t)})
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
		"stands behind a proxy that lost it": func(t *testing.T) Node {
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
		t.Error("the slow node was not told to give up")
	}
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

func TestTriesAreBounded(t *testing.T) {
	var nodes []Node
	for i := range MaxTries + 2 {
		nodes = append(nodes, deadNode(t, fmt.Sprint("dead-", i)))
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
}

func TestTheCallersDeadlineEndsAForward(t *testing.T) {
	ended := make(chan time.Time, 1)
	slow := &fakeLocal{execute: func(ctx context.Context, _ string, _ claim.Request) (claim.Reply, error) {
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
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := peersOf(t, nil, nodes...).Execute(ctx, eu, requestFor(nodes[0], nodes...), 1, us)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrNoAnswer) {
		t.Errorf("err = %v, want both that nobody answered and why", err)
	}
	if second.calls.Load() != 0 {
		t.Error("the second node was asked although there was no time left")
	}
	select {
	case deadline := <-ended:
		if want, _ := ctx.Deadline(); deadline.Sub(want).Abs() > time.Second {
			t.Errorf("the peer's deadline is %v, the caller's %v", deadline, want)
		}
	case <-time.After(patience):
		t.Error("the peer was not told to give up")
	}
}

func TestACallerThatGoesAwayEndsAForward(t *testing.T) {
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
		t.Error("the peer was not told to give up")
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
		{"stamped for another, sent as ours", eu, stamp(3), object(3), &WrongHomeError{Home: as}},
		{"stamped for another, sent as another's", us, stamp(1), object(1), &WrongHomeError{Home: us}},
		{"stamped for a region that is not known", eu, stamp(99), object(99), claim.ErrHomeUnreachable},
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
	// What the key says counts, also where the sender says otherwise.
	req := requestFor(node, node)
	req.Key.Value = stamp(2)
	if _, err := p.Execute(t.Context(), us, req, 1, us); err != nil {
		t.Errorf("ours, sent as another's: %v", err)
	}
}

// rawClient sends what Peers would never.
func rawClient(t *testing.T, node Node) peerv1connect.PeerServiceClient {
	t.Helper()
	transport := NewTransport(nil)
	t.Cleanup(transport.CloseIdleConnections)
	return peerv1connect.NewPeerServiceClient(&http.Client{Transport: transport}, "http://"+node.RPCAddr)
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

func TestHandlerRefusesMalformedMessages(t *testing.T) {
	local := answering("ok")
	node := startNode(t, "n", local)
	client := rawClient(t, node)
	long := strings.Repeat("x", 4096)
	for want, change := range map[string]func(*peerv1.ExecuteRequest){
		"tenant is missing":         func(m *peerv1.ExecuteRequest) { m.Tenant = "" },
		"tenant is longer":          func(m *peerv1.ExecuteRequest) { m.Tenant = long },
		"key is missing":            func(m *peerv1.ExecuteRequest) { m.Key = "" },
		"key is longer":             func(m *peerv1.ExecuteRequest) { m.Key = strings.Repeat("k", claim.MaxKeyLength+1) },
		"key is not visible ASCII":  func(m *peerv1.ExecuteRequest) { m.Key = "a b" },
		"operation is missing":      func(m *peerv1.ExecuteRequest) { m.Operation = "" },
		"method is longer":          func(m *peerv1.ExecuteRequest) { m.Method = long },
		"path is missing":           func(m *peerv1.ExecuteRequest) { m.Path = "" },
		"content_type is longer":    func(m *peerv1.ExecuteRequest) { m.ContentType = long },
		"canonical_body is missing": func(m *peerv1.ExecuteRequest) { m.CanonicalBody = nil },
		"entry is not":              func(m *peerv1.ExecuteRequest) { m.Entry = "" },
		"home is not":               func(m *peerv1.ExecuteRequest) { m.Home = "" },
		"hops must":                 func(m *peerv1.ExecuteRequest) { m.Hops = 0 },
		"pinned_at is not":          func(m *peerv1.ExecuteRequest) { m.PinnedAt.Nanos = -1 },
		"also is not a":             func(m *peerv1.ExecuteRequest) { m.Also, m.AlsoVersion = make([]byte, 31), 1 },
		"also is not":               func(m *peerv1.ExecuteRequest) { m.Also = make([]byte, 32) },
	} {
		req := requestFor(node, node)
		m := toExecuteRequest(eu, &req, 1, us)
		change(m)
		_, err := client.Execute(t.Context(), connect.NewRequest(m))
		if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: %v", want, err)
		}
		if got, final := fromConnect(err); !errors.Is(got, ErrRefused) || !final {
			t.Errorf("%q: Peers would return %v", want, got)
		}
	}
	if _, err := client.Inspect(t.Context(), connect.NewRequest(&peerv1.InspectRequest{Tenant: "acme", Home: eu})); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("inspect without a key: %v", err)
	}
	for _, m := range []*peerv1.ObjectRequest{
		{Tenant: "acme", Home: eu}, {Home: eu, Id: "ch_1"}, {Tenant: "acme", Id: "ch_1"}, {Tenant: "acme", Home: eu, Id: long},
	} {
		if _, err := client.Object(t.Context(), connect.NewRequest(m)); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("object %.60v: %v", m, err)
		}
	}
	if local.calls.Load() != 0 {
		t.Error("one of them ran")
	}
}

func TestMessagesAreBounded(t *testing.T) {
	local := answering("ok")
	other := answering("other")
	nodes := []Node{startNode(t, "n", local), startNode(t, "o", other)}
	p := peersOf(t, nil, nodes...)
	req := requestFor(nodes[0], nodes...)
	req.Input.Canonical = make([]byte, MaxMessageBytes)
	if _, err := p.Execute(t.Context(), eu, req, 1, us); !errors.Is(err, ErrRefused) {
		t.Errorf("too large to send: %v", err)
	}
	_, err := rawClient(t, nodes[0]).Execute(t.Context(), connect.NewRequest(toExecuteRequest(eu, &req, 1, us)))
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("too large to receive: %v", err)
	}
	if local.calls.Load() != 0 {
		t.Error("a message over the limit ran")
	}
	local.execute = answering(strings.Repeat("x", MaxMessageBytes)).execute
	req.Input.Canonical = []byte(`{}`)
	if _, err := p.Execute(t.Context(), eu, req, 1, us); !errors.Is(err, ErrPeerFailed) || errors.Is(err, ErrRefused) {
		t.Errorf("a response over the limit: %v; it ran, so it was not refused", err)
	}
	if other.calls.Load() != 0 {
		t.Error("what is too large for one node was sent to another")
	}
	local.execute = answering(strings.Repeat("x", MaxMessageBytes-1024)).execute
	if _, err := p.Execute(t.Context(), eu, req, 1, us); err != nil {
		t.Errorf("just below the limit: %v", err)
	}
}

func TestABrokenPeersAnswerIsNoAnswerToAMerchant(t *testing.T) {
	for name, reply := range map[string]claim.Reply{
		"no status": {State: claim.Completed},
		"no state":  {Response: claim.Response{Status: 201}},
		"new state": {Response: claim.Response{Status: 201}, State: 77},
	} {
		node := startNode(t, "n", &fakeLocal{execute: func(context.Context, string, claim.Request) (claim.Reply, error) { return reply, nil }})
		_, err := peersOf(t, nil, node).Execute(t.Context(), eu, requestFor(node, node), 1, us)
		if !errors.Is(err, ErrPeerFailed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestForwardsShareOneHTTP2Connection(t *testing.T) {
	h, err := NewHandler(HandlerConfig{Local: answering("ok"), Self: eu, Topology: threeRegions(t)})
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

func TestHealth(t *testing.T) {
	h, err := NewHandler(HandlerConfig{Local: answering("ok"), Self: eu, Topology: threeRegions(t)})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	h.Mount(mux)
	addr, _ := serve(t, mux)
	// HTTP/1.1 and JSON, as an operator with curl would ask.
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	ask := func() string {
		resp, err := (&http.Client{Transport: transport}).Post("http://"+addr+"/grpc.health.v1.Health/Check", "application/json",
			strings.NewReader(`{"service":"`+peerv1connect.PeerServiceName+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(bytes.ReplaceAll(body, []byte(" "), nil))
	}
	if got := ask(); got != `{"status":"SERVING_STATUS_SERVING"}` {
		t.Errorf("at first: %s", got)
	}
	h.SetServing(false)
	if got := ask(); got != `{"status":"SERVING_STATUS_NOT_SERVING"}` {
		t.Errorf("after SetServing(false): %s", got)
	}
	h.SetServing(true)
	if got := ask(); got != `{"status":"SERVING_STATUS_SERVING"}` {
		t.Errorf("after SetServing(true): %s", got)
	}
}

func TestConstructorsRefuse(t *testing.T) {
	topology := threeRegions(t)
	for _, cfg := range []HandlerConfig{
		{Self: eu, Topology: topology},
		{Local: answering(""), Self: eu},
		{Local: answering(""), Self: "mars", Topology: topology},
	} {
		if _, err := NewHandler(cfg); err == nil {
			t.Errorf("made a handler of %+v", cfg)
		}
	}
	if _, err := NewPeers(PeersConfig{}); err == nil {
		t.Error("made peers without a directory")
	}
	if _, err := NewPeers(PeersConfig{Directory: directory{}, TryTimeout: -1}); err == nil {
		t.Error("made peers with a negative time-out")
	}
}

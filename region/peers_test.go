package region

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	peerv1 "github.com/homeward-io/homeward/internal/gen/homeward/peer/v1"
)

func TestExecuteCarriesEveryByte(t *testing.T) {
	random := rand.NewChaCha8([32]byte{7})
	body, canonical := make([]byte, 700_001), make([]byte, 65_537)
	_, _ = random.Read(body)
	_, _ = random.Read(canonical)
	var want claim.Reply
	claimtest.Fill(&want)
	want.State, want.Response.Status, want.Response.Body = claim.FailedTerminal, 402, body
	want.Response.Header = fields("X-B", "2", "Content-Type", "application/problem+json", "X-A", " 1 ", "X-B", "1", "x-b", "", "Location", "/\xe9")
	var got claim.Request
	var gotHome string
	local := &fakeLocal{execute: func(_ context.Context, home string, req claim.Request) (claim.Reply, error) {
		got, gotHome = req, home
		return want, nil
	}}
	node := startNode(t, "n", local)
	var req claim.Request
	claimtest.Fill(&req)
	req.Key.Value, req.Input.Canonical = `visible!"\~`, canonical
	req.Input.ContentType = "text/plain; x=\"\xe9\"" // headers need not be UTF-8
	req.Input.Tenant = req.Key.Tenant                // is not sent twice
	req.Began = time.Time{}                          // travels as a duration, see TestHowLongUnderWayTravels
	reply, err := peersOf(t, nil, node).Execute(t.Context(), eu, req, 2, us)
	if err != nil {
		t.Fatal(err)
	}
	want.Hops = 2               // counted by the entry
	want.Way, want.Away = "", 0 // the entry's own view
	require.Equal(t, want, reply)
	require.Equal(t, eu, gotHome)
	req.Stamp = 0                          // read off the key, which is opaque
	req.PreferHome, req.PinHere = 0, false // the entry's choice of a home; the receiver is the home
	got.Began = req.Began
	require.Equal(t, req, got)
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
		t.Errorf("stamped %v, whatever the sender claims, want [true false true]", got)
	}
}

func TestInspectCarriesWhatAMerchantMayRead(t *testing.T) {
	var stored claim.Status
	claimtest.Fill(&stored)
	stored.Record.State, stored.Age = claim.FailedRetry, claim.Expired
	key, want, r := stored.Record.Key, stored, stored.Record
	want.Record = claim.Record{ // the rest stays at home: a merchant does not read it
		Key: key, Home: r.Home, Operation: r.Operation, State: r.State, FirstUse: r.FirstUse, Attempts: r.Attempts,
		Generation: r.Generation, Reason: r.Reason, Minted: claim.Minted{ID: r.Minted.ID},
	}
	found := true
	node := startNode(t, "n", &fakeLocal{inspect: func(_ context.Context, home string, k claim.Key) (claim.Status, bool, error) {
		if home != eu || k != key {
			t.Errorf("requested %v at %s", k, home)
		}
		return stored, found, nil
	}})
	p := peersOf(t, nil, node)
	got, ok, err := p.Inspect(t.Context(), eu, key)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, want, got)
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
	var final claim.Response
	claimtest.Fill(&final)
	final.Status = 201
	state, response, found := claim.Completed, final, true
	node := startNode(t, "n", &fakeLocal{object: func(_ context.Context, tenant, home, got string) (claim.State, claim.Response, bool, error) {
		if tenant != "acme" || home != eu || got != id {
			t.Errorf("requested %s of %s at %s", got, tenant, home)
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

func TestAPeersErrorArrivesAndIsNotRetried(t *testing.T) {
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

// Beside an error the reply has the key's home and the expiry of its answer.
func TestAReplyArrivesBesideAnError(t *testing.T) {
	var known claim.Reply
	claimtest.Fill(&known)
	reply := claim.Reply{Home: known.Home, FirstUse: known.FirstUse, ExpiresAt: known.ExpiresAt} // the rest is of an answer
	for _, want := range contractErrors {
		local := &fakeLocal{execute: func(context.Context, string, claim.Request) (claim.Reply, error) { return known, want }}
		node := startNode(t, "a", local)
		got, err := peersOf(t, nil, node).Execute(t.Context(), eu, requestFor(node, node), 1, us)
		if !sameError(err, want) {
			t.Errorf("%v arrived as %v", want, err)
		}
		if !reflect.DeepEqual(got, reply) {
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
	var sentAt time.Time
	dying := &fakeLocal{execute: func(context.Context, string, claim.Request) (claim.Reply, error) {
		sentAt = time.Now()
		for time.Since(sentAt) < held { // it works, and is stopped
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
	if !errors.Is(err, claim.ErrMismatch) || began.After(sentAt.Add(held/2)) { // the wire takes some time, too
		t.Errorf("%v; at the second node it seems to have begun %v after the first got it", err, began.Sub(sentAt))
	}
}

func TestAnUnknownFailureIsNotRetriedAndItsTextIsNotSent(t *testing.T) {
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
		"a deputy reads the pin":    func(m *peerv1.ExecuteRequest) { m.Deputy = true },
		"prefer_home is a region":   func(m *peerv1.ExecuteRequest) { m.PreferHome = 1 },
		"for a deputy":              func(m *peerv1.ExecuteRequest) { m.Deputy, m.PinnedAt, m.PreferHome = true, nil, 1<<16 },
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

func TestConstructorsRefuse(t *testing.T) {
	topology := threeRegions(t)
	for _, cfg := range []HandlerConfig{
		{Deputy: answering(""), Tenant: noTenants, Self: eu, Deployment: deploymentID, Topology: topology},
		{Local: answering(""), Tenant: noTenants, Self: eu, Deployment: deploymentID, Topology: topology},
		{Local: answering(""), Deputy: answering(""), Self: eu, Deployment: deploymentID, Topology: topology},
		{Local: answering(""), Deputy: answering(""), Tenant: noTenants, Self: eu, Deployment: deploymentID},
		{Local: answering(""), Deputy: answering(""), Tenant: noTenants, Self: eu, Topology: topology},
		{Local: answering(""), Deputy: answering(""), Tenant: noTenants, Self: "mars", Deployment: deploymentID, Topology: topology},
	} {
		if _, err := NewHandler(cfg); err == nil {
			t.Errorf("made a handler of %+v", cfg)
		}
	}
	if _, err := NewPeers(PeersConfig{Directory: directory{}}); err == nil {
		t.Error("made peers of no deployment")
	}
	if _, err := NewPeers(PeersConfig{Deployment: deploymentID}); err == nil {
		t.Error("made peers without a directory")
	}
	if _, err := NewPeers(PeersConfig{Directory: directory{}, Deployment: deploymentID, TryTimeout: -1}); err == nil {
		t.Error("made peers with a negative time-out")
	}
}

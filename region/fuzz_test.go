package region

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/homeward-io/homeward/claim"
	peerv1 "github.com/homeward-io/homeward/internal/gen/homeward/peer/v1"
	"github.com/homeward-io/homeward/internal/gen/homeward/peer/v1/peerv1connect"
)

// procedures are what a node answers, in the order of a fuzzed byte.
var procedures = []string{
	peerv1connect.PeerServiceExecuteProcedure, peerv1connect.PeerServiceInspectProcedure,
	peerv1connect.PeerServiceObjectProcedure, peerv1connect.PeerServiceTenantProcedure, peerv1connect.PeerServicePingProcedure,
}

// encoding is the content type of a fuzzed message.
func encoding(json bool) string {
	if json {
		return "application/json"
	}
	return "application/proto"
}

// marshal is m in the encoding of nodes.
func marshal(f *testing.F, m proto.Message) []byte {
	f.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// FuzzMessages sends a node what another may send. The node answers or refuses, but does not
// panic, and runs only what could be forwarded once more and be the same.
func FuzzMessages(f *testing.F) {
	key := claim.Key{Tenant: "acme", Value: "order-1"}
	request := claim.Request{
		Key: key, Operation: "charge", Provider: "stripe", PinnedAt: time.Unix(1, 0).UTC(),
		Input: claim.FingerprintInput{Method: "POST", Path: "/v1/charges", Tenant: "acme", ContentType: "application/json", Canonical: []byte("{}")},
	}
	f.Add(byte(0), false, marshal(f, toExecuteRequest(eu, &request, 1, us)))
	f.Add(byte(0), true, []byte(`{"tenant":"acme","key":"order-1","home":"europe-west1","operation":"charge","method":"POST","path":"/","canonicalBody":"e30=","hops":1,"entry":"us-east1","pinnedAt":"0001-01-01T00:00:00Z"}`))
	f.Add(byte(1), false, marshal(f, &peerv1.InspectRequest{Tenant: "acme", Key: "order-1", Home: eu}))
	f.Add(byte(2), false, marshal(f, &peerv1.ObjectRequest{Tenant: "acme", Id: "ch_1", Home: eu}))
	f.Add(byte(0), false, marshal(f, toDeputy(eu, &claim.Request{Key: key, Operation: "charge", Input: request.Input, PreferHome: 1}, 1, us)))
	f.Add(byte(3), false, marshal(f, &peerv1.TenantRequest{ApiKeyHash: make([]byte, 32)}))
	f.Add(byte(4), false, marshal(f, &peerv1.PingRequest{Padding: []byte("p")}))

	topology, err := NewTopology([]Region{{Name: us, Code: 1}, {Name: eu, Code: 2}, {Name: as, Code: 3}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, procedure byte, json bool, body []byte) {
		checkKey := func(home string, k claim.Key) {
			if home != eu || k.Tenant == "" || !claim.ValidKey(k.Value) {
				t.Fatalf("%+v ran in %s", k, home)
			}
		}
		local := &fakeLocal{
			execute: func(_ context.Context, home string, req claim.Request) (claim.Reply, error) {
				checkKey(home, req.Key)
				again, err := fromExecuteRequest(toExecuteRequest(home, &req, 1, us))
				under := again.Began.Sub(req.Began).Abs()
				again.Began = req.Began
				if err != nil || !reflect.DeepEqual(req, again) || under > time.Minute {
					t.Fatalf("%+v ran, and forwarded it is %+v, %v", req, again, err)
				}
				return claim.Reply{Response: claim.Response{Status: 201}, State: claim.Completed}, nil
			},
			inspect: func(_ context.Context, home string, k claim.Key) (claim.Status, bool, error) {
				checkKey(home, k)
				return claim.Status{}, false, nil
			},
			object: func(_ context.Context, tenant, home, id string) (claim.State, claim.Response, bool, error) {
				if home != eu || tenant == "" || id == "" {
					t.Fatalf("%q of %q ran in %s", id, tenant, home)
				}
				return 0, claim.Response{}, false, nil
			},
		}
		deputy := &fakeLocal{inspect: local.inspect, object: local.object, execute: func(_ context.Context, home string, req claim.Request) (claim.Reply, error) {
			checkKey(home, req.Key)
			again, err := fromExecuteRequest(toDeputy(home, &req, 1, us))
			again.Began = req.Began
			if err != nil || !reflect.DeepEqual(req, again) || !req.PinnedAt.IsZero() {
				t.Fatalf("a deputy ran %+v, and forwarded it is %+v, %v", req, again, err)
			}
			return claim.Reply{Response: claim.Response{Status: 201}, State: claim.Completed}, nil
		}}
		var log bytes.Buffer
		h, err := NewHandler(HandlerConfig{Local: local, Deputy: deputy, Tenant: noTenants, Self: eu, Deployment: deploymentID, Topology: topology, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		mux := http.NewServeMux()
		h.Mount(mux)
		r := httptest.NewRequest(http.MethodPost, procedures[int(procedure)%len(procedures)], bytes.NewReader(body))
		r.Header.Set("Content-Type", encoding(json))
		r.Header.Set(deploymentHeader, deploymentID.String())
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError || log.Len() > 0 {
			t.Fatalf("%d %s\n%s", w.Code, w.Body, &log)
		}
	})
}

// transported answers each request with one response.
type transported struct {
	status      int
	contentType string
	body        []byte
}

func (a transported) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: a.status, Proto: "HTTP/2.0", ProtoMajor: 2, Request: r, Body: io.NopCloser(bytes.NewReader(a.body)),
		Header: http.Header{"Content-Type": {a.contentType}, deploymentHeader: {deploymentID.String()}},
	}, nil
}

// FuzzAnswers answers a node as another may. What a caller then gets is an answer that could be
// sent, or an error of the contract.
func FuzzAnswers(f *testing.F) {
	at := time.Unix(1, 0).UTC()
	f.Add(byte(0), uint16(200), marshal(f, toExecuteResponse(&claim.Reply{Response: anAnswer(), Home: eu, State: claim.Completed, FirstUse: at, ExpiresAt: at, ServedBy: eu})))
	f.Add(byte(1), uint16(200), marshal(f, toInspectResponse(&claim.Status{
		Record: claim.Record{Home: eu, State: claim.InFlight, FirstUse: at}, ExpiresAt: at, FreeAt: at, Timeline: []claim.AuditEntry{{At: at, Event: claim.EventClaimed}},
	}, true)))
	f.Add(byte(2), uint16(200), marshal(f, &peerv1.ObjectResponse{Found: true, State: 2, Response: toResponse(new(anAnswer()))}))
	f.Add(byte(0), uint16(200), marshal(f, &peerv1.ExecuteResponse{
		Response: toResponse(new(anAnswer())), State: 2, FirstUse: &timestamppb.Timestamp{Seconds: 1 << 50}, ExpiresAt: &timestamppb.Timestamp{Nanos: -1},
	}))
	f.Add(byte(3), uint16(200), marshal(f, &peerv1.TenantResponse{Id: "acme", Registrar: eu, RatePerSecond: 5, Burst: 9}))
	for _, p := range []*peerv1.Problem{
		{Kind: peerv1.Problem_KIND_IN_USE, RetryAfterMs: 1000, Home: eu, FirstUse: toTimestamp(at), ExpiresAt: toTimestamp(at)},
		{Kind: peerv1.Problem_KIND_OUTCOME_UNKNOWN, RetryAfterMs: 1 << 44},
		{Kind: peerv1.Problem_KIND_EXPIRED, OriginalRequestAt: &timestamppb.Timestamp{Seconds: -1 << 50}},
		{Kind: peerv1.Problem_KIND_WITHHELD, RetryAfterMs: -1},
	} {
		wire := connect.NewError(connect.CodeAborted, errors.New("a problem"))
		if detail, err := connect.NewErrorDetail(p); err == nil {
			wire.AddDetail(detail)
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, procedures[0], nil)
		r.Header.Set("Content-Type", encoding(false))
		if err := connect.NewErrorWriter().Write(w, r, wire); err != nil {
			f.Fatal(err)
		}
		f.Add(byte(0), uint16(w.Code), w.Body.Bytes())
	}

	f.Fuzz(func(t *testing.T, procedure byte, status uint16, body []byte) {
		if status < 200 || status > 599 {
			status = http.StatusOK
		}
		p, err := NewPeers(PeersConfig{
			Directory: directory{eu: {{Name: "n", Region: eu, RPCAddr: "n:1"}}}, Deployment: deploymentID, TryTimeout: patience,
			Transport: transported{int(status), encoding(status != http.StatusOK), body},
		})
		if err != nil {
			t.Fatal(err)
		}
		key := claim.Key{Tenant: "acme", Value: "order-1"}
		switch procedures[int(procedure)%4] {
		case peerv1connect.PeerServiceExecuteProcedure:
			req := claim.Request{Key: key, Operation: "charge", Input: claim.FingerprintInput{Method: "POST", Path: "/", Tenant: "acme", Canonical: []byte("{}")}, Began: time.Now()}
			reply, err := p.Execute(t.Context(), eu, req, 1, us)
			checkAnswer(t, err, reply.State, &reply.Response, reply.FirstUse, reply.ExpiresAt)
		case peerv1connect.PeerServiceInspectProcedure:
			s, found, err := p.Inspect(t.Context(), eu, key)
			times := []time.Time{s.Record.FirstUse, s.ExpiresAt, s.FreeAt}
			for _, e := range s.Timeline {
				times = append(times, e.At)
			}
			if found {
				checkAnswer(t, err, s.Record.State, nil, times...)
			}
		case peerv1connect.PeerServiceTenantProcedure:
			tenant, found, err := p.Tenant(t.Context(), eu, claim.APIKeyHash{})
			if err != nil {
				checkAnswer(t, err, 0, nil)
			}
			if found != (tenant.ID != "") || tenant.Burst < 0 || found && !ValidName(tenant.Registrar) {
				t.Fatalf("%+v, %v", tenant, found)
			}
		default:
			state, response, found, err := p.Object(t.Context(), eu, "acme", "ch_1")
			if found && response.Status == 0 {
				checkAnswer(t, err, state, nil)
			} else if found {
				checkAnswer(t, err, state, &response)
			}
		}
	})
}

func anAnswer() claim.Response {
	return claim.Response{Status: 201, Header: []claim.HeaderField{{Name: "Location", Value: "/v1/charges/ch_1"}}, Body: []byte("{}")}
}

// checkAnswer fails for what could not be sent to a caller. r is nil where there may be none.
func checkAnswer(t *testing.T, err error, state claim.State, r *claim.Response, times ...time.Time) {
	t.Helper()
	for _, at := range times {
		if _, bad := at.MarshalJSON(); bad != nil {
			t.Fatalf("a time is %v: %v", at, bad)
		}
	}
	if err == nil {
		if state < claim.InFlight || state > claim.FailedRetry || r != nil && (r.Status < 200 || r.Status > 599) {
			t.Fatalf("state %d, %+v", state, r)
		}
		return
	}
	var (
		inUse     *claim.InUseError
		unknown   *claim.UnknownError
		withheld  *claim.WithheldError
		expired   *claim.ExpiredError
		wrongHome *WrongHomeError
		after     time.Duration
	)
	switch {
	case errors.As(err, &inUse):
		after = inUse.RetryAfter
	case errors.As(err, &unknown):
		after = unknown.RetryAfter
	case errors.As(err, &withheld):
		after = withheld.RetryAfter
	case errors.As(err, &expired):
		if _, bad := expired.FirstUse.MarshalJSON(); bad != nil {
			t.Fatalf("expired at %v: %v", expired.FirstUse, bad)
		}
	case errors.As(err, &wrongHome), errors.Is(err, ErrNoAnswer), errors.Is(err, ErrPeerFailed), errors.Is(err, ErrRefused):
	default:
		if !slices.ContainsFunc(sentinels, func(s struct {
			err  error
			kind peerv1.Problem_Kind
			code connect.Code
		}) bool {
			return errors.Is(err, s.err)
		}) {
			t.Fatalf("%v is no error of the contract", err)
		}
	}
	if after < 0 {
		t.Fatalf("%v: a caller is to retry after %v", err, after)
	}
	if strings.ContainsAny(err.Error(), "\n\r") {
		t.Fatalf("%q is not one line", err)
	}
}

// FuzzGossip tells a view of members with arbitrary metadata, in an arbitrary order, and compares
// it with a list.
func FuzzGossip(f *testing.F) {
	meta := func(n Node) []byte {
		n.Deployment = deploymentID
		b, err := encodeMeta(n)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	one, other := meta(Node{Region: us, RPCAddr: "a:1", Version: "v1"}), meta(Node{Region: eu, RPCAddr: "b:1", Draining: true, Versions: Versions{Epoch: 1, Restore: 2}})
	f.Add([]byte{0, 9, 3, 9, 6, 1, 3}, one, other)
	f.Add([]byte{0, 1, 4, 2, 5}, one, []byte("of another system"))
	f.Add([]byte{0, 64, 64, 9, 64}, one, meta(Node{Region: us, RPCAddr: "a:1", UnreadySince: time.Unix(1, 0)}))

	f.Fuzz(func(t *testing.T, events, metaA, metaB []byte) {
		now := time.Unix(1, 0)
		v := newView(Node{Name: "self", Region: us, Deployment: deploymentID}, func() time.Time { return now }, slog.New(slog.DiscardHandler))
		live, gone := map[string]Node{}, map[string]time.Time{}
		leave := func(name string) {
			n, was := live[name]
			if delete(live, name); was && !slices.ContainsFunc(sorted(live), func(o Node) bool { return o.Region == n.Region }) {
				gone[n.Region] = now
			}
		}
		for _, e := range events {
			now = now.Add(time.Second)
			member := &memberlist.Node{Name: string(rune('a' + e%3)), Addr: net.IPv4(10, 0, 0, e), Port: 1, Meta: metaA}
			if e&64 != 0 {
				member.Meta = metaB
			}
			decoded, err := decodeMeta(member.Name, member.Meta, now)
			switch e / 3 % 4 {
			case 0, 1:
				if v.NotifyAlive(member) != nil {
					if err != nil || decoded.Deployment == deploymentID {
						t.Fatalf("%+v, %v was refused", decoded, err)
					}
					continue
				}
				v.NotifyJoin(member)
				was := live[member.Name]
				if err != nil || was.Region != decoded.Region {
					leave(member.Name)
				}
				if err == nil {
					if !decoded.UnreadySince.IsZero() && !was.UnreadySince.IsZero() {
						decoded.UnreadySince = was.UnreadySince
					}
					live[member.Name] = decoded
					delete(gone, decoded.Region)
				}
			case 2:
				v.NotifyLeave(member)
				leave(member.Name)
			default:
				v.NotifyPingComplete(member, time.Duration(e), nil)
			}
			compareView(t, v, live, gone, now)
		}
		for _, n := range live {
			b, err := encodeMeta(n)
			again, err2 := decodeMeta(n.Name, b, n.UnreadySince)
			if err != nil || err2 != nil || again != n || len(b) > memberlist.MetaMaxSize {
				t.Fatalf("%+v is announced as %+v, %v, %v", n, again, err, err2)
			}
		}
	})
}

func compareView(t *testing.T, v *view, live map[string]Node, gone map[string]time.Time, now time.Time) {
	t.Helper()
	snap := v.load()
	if !slices.Equal(snap.all, sorted(live)) {
		t.Fatalf("the view has %+v, and the list %+v", snap.all, sorted(live))
	}
	for _, n := range live {
		if of := snap.byRegion[n.Region]; !slices.Contains(of, n) || !v.lastSeen(n.Region).Equal(now) {
			t.Fatalf("%s has %+v, seen at %v", n.Region, of, v.lastSeen(n.Region))
		}
	}
	for region, at := range gone {
		_, measured := v.rtt(region)
		if len(snap.byRegion[region]) > 0 || measured || !v.lastSeen(region).Equal(at) {
			t.Fatalf("%s went at %v, and the view has %+v, seen at %v", region, at, snap.byRegion[region], v.lastSeen(region))
		}
	}
}

func sorted(live map[string]Node) []Node {
	all := make([]Node, 0, len(live))
	for _, n := range live {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b Node) int {
		return strings.Compare(a.Region+"\x00"+a.Name, b.Region+"\x00"+b.Name)
	})
	return all
}

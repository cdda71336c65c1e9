package region

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/homeward-io/homeward/claim"
	peerv1 "github.com/homeward-io/homeward/internal/gen/homeward/peer/v1"
	"github.com/homeward-io/homeward/internal/gen/homeward/peer/v1/peerv1connect"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/span"
)

const (
	// MaxTries is how many nodes of the home region one forward asks. Two dead nodes at once are an
	// accident; three are an outage, which another try makes worse. A node that gave no connection
	// got no request, and does not count.
	MaxTries = 3
	// DefaultTryTimeout bounds the wait for one node. It must exceed the longest
	// healthy answer, or a slow provider would look like a dead node: a provider's
	// time-out of up to 80 s, the losing side's wait of 5 s, and some room. A node
	// that is dead rather than slow is noticed by pings, see transport.go.
	DefaultTryTimeout = 90 * time.Second
	// leastTry is the least of the caller's time that is worth another node. The wire
	// carries whole milliseconds, so that a node's clock may end before the caller's.
	leastTry = 10 * time.Millisecond
)

// Directory lists the live nodes of a region. *[Membership] implements it.
type Directory interface {
	// Nodes returns region's live nodes; Peers does not modify the slice.
	Nodes(region string) []Node
}

// PeersConfig configures [Peers].
type PeersConfig struct {
	// Directory is required.
	Directory Directory
	// Deployment is this node's; an answer of any other is none. Required.
	Deployment uuid.UUID
	// Transport sends the requests. Default: [NewTransport] without TLS. Peers closes
	// its idle connections on Close. The context of each request names its target
	// region, see [Towards]. It must report the connections that it got to
	// [httptrace.ClientTrace], as those of net/http do.
	Transport http.RoundTripper
	// TLS: use https. Transport must then be able to.
	TLS bool
	// TryTimeout is how long one node may take. Default DefaultTryTimeout. The
	// caller's deadline counts too.
	TryTimeout time.Duration
	// Outages records how each try ended, and orders the nodes to try last. nil: none.
	Outages *Outages
	// Meters records round trips; nil: nothing is recorded.
	Meters *meter.Set
	// Logger logs failed tries. Default: discard.
	Logger *slog.Logger
}

// Peers sends requests to nodes of a key's home region. It is safe for
// concurrent use.
//
// Every method returns as the error, in the terms of the package documentation,
// either what the peer said (claim's errors and *[WrongHomeError]) or one of
// [ErrNoNode], [ErrNoAnswer], [ErrPeerFailed], [ErrRefused] and [ErrHopLimit].
// When ctx ended, the error wraps both ErrNoAnswer and ctx's error.
type Peers struct {
	PeersConfig
	deputies bool
	// tripTimeout is longer in tests that keep the machine busy.
	tripTimeout time.Duration
	http        *http.Client
	scheme      string
	trips       *meter.Histogram
	misses      *meter.Counter
}

// NewPeers makes a client. It opens no connection. The caller must call Close.
func NewPeers(cfg PeersConfig) (*Peers, error) {
	if cfg.Directory == nil {
		return nil, errors.New("peers: no directory of nodes was given")
	}
	if cfg.Deployment == uuid.Nil {
		return nil, errors.New("peers: the deployment has no id")
	}
	if cfg.TryTimeout < 0 {
		return nil, fmt.Errorf("peers: the time-out of a try must be above 0, is %v", cfg.TryTimeout)
	}
	if cfg.TryTimeout == 0 {
		cfg.TryTimeout = DefaultTryTimeout
	}
	if cfg.Transport == nil {
		cfg.Transport = NewTransport(nil)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Peers{
		PeersConfig: cfg, tripTimeout: tripTimeout, http: NewClient(cfg.Transport, cfg.Deployment), scheme: "http://",
		trips: cfg.Meters.Histogram(meter.ForwardDuration), misses: cfg.Meters.Counter(meter.ForwardMisses),
	}
	if cfg.TLS {
		p.scheme = "https://"
	}
	return p, nil
}

// Deputies returns p for requests whose home the receiver finds by itself, as this node cannot
// reach its store: it acts on the rows of that home, whichever it is, and forwards nothing. The
// region in each call is then the receiver's. It shares the connections of p, which closes them.
func (p *Peers) Deputies() *Peers {
	deputies := *p
	deputies.deputies = true
	return &deputies
}

// Close closes idle connections. A second Close does nothing.
func (p *Peers) Close() error {
	p.http.CloseIdleConnections()
	return nil
}

// Execute runs req at home. hops counts the forwards, this one included; entry is
// the region that req arrived at. The reply's bytes are those of the home; if the
// error is claim's, the reply still holds what the home returned of the key.
func (p *Peers) Execute(ctx context.Context, home string, req claim.Request, hops int, entry string) (_ claim.Reply, err error) {
	began := time.Now()
	ctx, sp := forwarding(ctx, home, hops)
	defer func() { p.forwarded(ctx, sp, home, "execute", began, err) }()
	if hops > MaxHops {
		return claim.Reply{}, ErrHopLimit
	}
	// Built anew for each try: the time that one node took counts as time under way at
	// the next.
	anew := func() *peerv1.ExecuteRequest {
		if p.deputies {
			return toDeputy(home, &req, hops, entry)
		}
		return toExecuteRequest(home, &req, hops, entry)
	}
	msg := anew()
	// Checked here because only here it is certain that nothing ran.
	if size := proto.Size(msg); size > MaxMessageBytes {
		return claim.Reply{}, fmt.Errorf("%w: the request has %d bytes, the limit between nodes is %d", ErrRefused, size, MaxMessageBytes)
	}
	resp, err := ask(ctx, p, home, req.Key, req.TraceParent, anew, peerv1connect.PeerServiceClient.Execute)
	if err != nil {
		return apart(err)
	}
	reply, err := fromExecuteResponse(resp)
	reply.Hops = hops
	return reply, err
}

// Inspect returns what a merchant may read of key, read at home. The status has no fingerprint,
// holder, provider key or response.
func (p *Peers) Inspect(ctx context.Context, home string, key claim.Key) (_ claim.Status, _ bool, err error) {
	began := time.Now()
	ctx, sp := forwarding(ctx, home, 1)
	defer func() { p.forwarded(ctx, sp, home, "inspect", began, err) }()
	msg := &peerv1.InspectRequest{Tenant: key.Tenant, Key: key.Value, Home: home, Deputy: p.deputies}
	resp, err := ask(ctx, p, home, key, "", same(msg), peerv1connect.PeerServiceClient.Inspect)
	if err != nil {
		return claim.Status{}, false, err
	}
	return fromInspectResponse(key, resp)
}

// Object returns the state of the claim that minted id at home, and its
// response if the state is final.
func (p *Peers) Object(ctx context.Context, home, tenant, id string) (_ claim.State, _ claim.Response, _ bool, err error) {
	began := time.Now()
	ctx, sp := forwarding(ctx, home, 1)
	defer func() { p.forwarded(ctx, sp, home, "object", began, err) }()
	msg := &peerv1.ObjectRequest{Tenant: tenant, Home: home, Id: id, Deputy: p.deputies}
	resp, err := ask(ctx, p, home, claim.Key{Tenant: tenant, Value: id}, "", same(msg), peerv1connect.PeerServiceClient.Object)
	if err != nil || !resp.GetFound() {
		return 0, claim.Response{}, false, err
	}
	state, err := fromState(resp.GetState())
	if err != nil {
		return 0, claim.Response{}, false, err
	}
	if resp.GetResponse() == nil {
		return state, claim.Response{}, true, nil
	}
	response, err := fromResponse(resp.GetResponse())
	return state, response, err == nil, err
}

// Tenant returns the tenant with the API key of that hash, as a node of region finds it; false:
// there is none.
func (p *Peers) Tenant(ctx context.Context, region string, hash claim.APIKeyHash) (_ claim.Tenant, found bool, err error) {
	began := time.Now()
	ctx, sp := forwarding(ctx, region, 1)
	defer func() { p.forwarded(ctx, sp, region, "tenant", began, err) }()
	msg := &peerv1.TenantRequest{ApiKeyHash: hash[:]}
	resp, err := ask(ctx, p, region, claim.Key{Value: string(hash[:])}, "", same(msg), peerv1connect.PeerServiceClient.Tenant)
	if err != nil || resp.GetId() == "" {
		return claim.Tenant{}, false, err
	}
	tenant, err := fromTenant(resp)
	return tenant, err == nil, err
}

// method is a method expression of the generated client.
type method[Req, Resp any] func(peerv1connect.PeerServiceClient, context.Context, *connect.Request[Req]) (*connect.Response[Resp], error)

// same returns the same message for each node.
func same[Req any](msg *Req) func() *Req { return func() *Req { return msg } }

// errNoConnection is how a try ends that got no connection in time.
var errNoConnection = errors.New("region: no connection in time")

// What a node that gave no answer failed to do, for the metric and the log.
const (
	missedDial = "dial" // no connection: nothing was sent
	missedCall = "call" // it may have run the request
)

// ask sends msg to the nodes of home but this one, in key's order, until one answers: those that
// are silent last. An answer is what came over a connection. A node that had all the caller's
// time leaves none for another.
func ask[Req, Resp any](ctx context.Context, p *Peers, home string, key claim.Key, traceParent string, msg func() *Req, call method[Req, Resp]) (*Resp, error) {
	nodes := slices.DeleteFunc(Choose(p.Directory.Nodes(home), key), func(n Node) bool { return n.Self })
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%w in %s", ErrNoNode, home)
	}
	p.Outages.putLast(nodes)
	ctx = Towards(ctx, home)
	var last error
	tried, calls := 0, 0
	for _, node := range nodes {
		if calls == MaxTries || outOfTime(ctx) {
			break
		}
		began := time.Now()
		resp, connected, err := try(ctx, p, node, traceParent, msg(), call)
		tried++
		if err == nil {
			p.Outages.Answered(node)
			return resp, nil
		}
		if ctx.Err() != nil {
			p.Outages.Doubted(node, began)
			return nil, fmt.Errorf("%w in %s: %w", ErrNoAnswer, home, ctx.Err())
		}
		if late := connected && connect.CodeOf(err) == connect.CodeDeadlineExceeded; late {
			p.Outages.Doubted(node, began) // it may only be slow
			calls++
			last = fmt.Errorf("%w: %w", ErrNoAnswer, err)
			continue
		}
		err, final := fromConnect(err)
		if final {
			p.Outages.Answered(node)
			return nil, err
		}
		failed := missedDial
		if connected {
			failed = missedCall
			calls++
		}
		p.Logger.LogAttrs(ctx, slog.LevelWarn, "a forward failed on the wire", slog.String("home", home),
			slog.String("node", node.Name), slog.String("addr", node.RPCAddr), slog.String("failed", failed), slog.Any("error", err))
		missed(ctx, node)
		p.misses.Add(1, home, failed)
		p.Outages.Missed(node, began, failed)
		last = err
	}
	if outOfTime(ctx) {
		return nil, fmt.Errorf("%w in %s: %w", ErrNoAnswer, home, context.DeadlineExceeded)
	}
	return nil, fmt.Errorf("%d nodes of %s tried: %w", tried, home, last)
}

// outOfTime reports whether ctx leaves no time for a node.
func outOfTime(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return bounded && time.Until(deadline) < leastTry
}

// pingBytes is what a ping carries each way. It is above any path's MTU, jumbo frames of
// 9,000 bytes included: a way that drops large packets passes an empty ping and no charge.
const pingBytes = 16 << 10

// Ping returns nil if node answered a call that fills packets of full size in both
// directions.
func (p *Peers) Ping(ctx context.Context, node Node) error {
	msg := &peerv1.PingRequest{Padding: make([]byte, pingBytes)}
	_, _ = rand.Read(msg.Padding) // never fails; zeros would shrink in a tunnel that compresses
	resp, err := p.client(node.RPCAddr).Ping(Towards(ctx, node.Region), connect.NewRequest(msg))
	if err == nil && !bytes.Equal(resp.Msg.GetPadding(), msg.GetPadding()) {
		err = errors.New("the answer's padding is not the ping's")
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoAnswer, node.Name, err)
	}
	return nil
}

// try asks one node. connected reports whether it had a connection to it.
func try[Req, Resp any](ctx context.Context, p *Peers, node Node, traceParent string, msg *Req, call method[Req, Resp]) (_ *Resp, connected bool, err error) {
	// Connect sends the deadline along, so that the peer gives up when we do.
	ctx, cancel := context.WithTimeout(ctx, p.TryTimeout)
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	var got atomic.Bool
	dialling := time.AfterFunc(p.tripTimeout, func() {
		if !got.Load() {
			giveUp(errNoConnection)
		}
	})
	defer dialling.Stop()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeStart: func() { // the node has answered the dial; a handshake is another round trip
			if dialling.Stop() {
				dialling.Reset(p.tripTimeout)
			}
		},
		GotConn: func(httptrace.GotConnInfo) {
			got.Store(true)
			dialling.Stop()
		},
	})
	req := connect.NewRequest(msg)
	span.Inject(ctx, req.Header())
	if traceParent != "" && req.Header().Get(traceParentHeader) == "" {
		req.Header().Set(traceParentHeader, traceParent)
	}
	resp, err := call(p.client(node.RPCAddr), ctx, req)
	if err == nil {
		return resp.Msg, true, nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, errNoConnection) {
		return nil, false, cause
	}
	// A connection that broke before anything was sent on it may have been followed by a
	// dial.
	dial, broken := errors.AsType[*net.OpError](err)
	return nil, got.Load() && !(broken && dial.Op == "dial"), err
}

// traceParentHeader is W3C Trace Context's.
const traceParentHeader = "Traceparent"

func (p *Peers) client(addr string) peerv1connect.PeerServiceClient {
	return peerv1connect.NewPeerServiceClient(p.http, p.scheme+addr,
		connect.WithReadMaxBytes(MaxMessageBytes),
		connect.WithSendMaxBytes(MaxMessageBytes),
		// Messages are a few hundred bytes; compressing them costs more than it saves.
		connect.WithAcceptCompression("gzip", nil, nil),
	)
}

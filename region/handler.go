package region

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/fault"
	peerv1 "github.com/homeward-io/homeward/internal/gen/homeward/peer/v1"
	"github.com/homeward-io/homeward/internal/gen/homeward/peer/v1/peerv1connect"
)

// Local acts on this region's own rows and never forwards, so forwards cannot
// loop. Errors are claim's. Methods must be safe for concurrent use and honour
// ctx, which ends when the caller gives up.
type Local interface {
	Execute(ctx context.Context, home string, req claim.Request) (claim.Reply, error)
	Inspect(ctx context.Context, home string, key claim.Key) (claim.Status, bool, error)
	// Object returns a response only in a final state; the zero Response
	// otherwise.
	Object(ctx context.Context, tenant, home, id string) (claim.State, claim.Response, bool, error)
}

// HandlerConfig configures a [Handler]. All but Logger are required.
type HandlerConfig struct {
	Local Local
	// Deputy finds the home of a key by itself, for an entry that cannot reach its store, and acts
	// on the rows of that home. The home in its calls is Self, and says nothing. Nor does it forward.
	Deputy Local
	// Tenant finds a tenant by the hash of its API key, for such an entry.
	Tenant func(ctx context.Context, hash claim.APIKeyHash) (claim.Tenant, bool, error)
	// Self is this node's region.
	Self     string
	Topology *Topology
	// Deployment is this node's; callers of any other are refused.
	Deployment uuid.UUID
	// Logger logs refused callers, and errors that the caller gets without their text. Default:
	// discard.
	Logger *slog.Logger
}

// Handler answers other nodes. It is safe for concurrent use.
type Handler struct {
	c HandlerConfig
}

var _ peerv1connect.PeerServiceHandler = (*Handler)(nil)

// NewHandler returns the peer service of a node in cfg.Self.
func NewHandler(cfg HandlerConfig) (*Handler, error) {
	if cfg.Local == nil || cfg.Deputy == nil || cfg.Tenant == nil || cfg.Topology == nil || cfg.Deployment == uuid.Nil {
		return nil, errors.New("peer handler: both executors, tenants, topology and the deployment's id are required")
	}
	if _, ok := cfg.Topology.ByName(cfg.Self); !ok {
		return nil, fmt.Errorf("peer handler: region %q is not in the topology", cfg.Self)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Handler{cfg}, nil
}

// Mount adds the service to mux. It refuses callers of another deployment before it reads
// what they ask.
func (h *Handler) Mount(mux *http.ServeMux) {
	options := []connect.HandlerOption{
		connect.WithReadMaxBytes(MaxMessageBytes),
		connect.WithSendMaxBytes(MaxMessageBytes),
		connect.WithCompression("gzip", nil, nil), // see Peers.client
		connect.WithRecover(h.recovered),
	}
	// Pings are sent all the time: they are not traced.
	each := func(spec connect.Spec) []connect.HandlerOption {
		if spec.Procedure == peerv1connect.PeerServicePingProcedure {
			return append(options, connect.WithReadMaxBytes(2*pingBytes)) // the padding in JSON, too
		}
		return append([]connect.HandlerOption{connect.WithInterceptors(connect.UnaryInterceptorFunc(h.traced))}, options...)
	}
	path, service := peerv1connect.NewPeerServiceHandler(h, connect.WithConditionalHandlerOptions(each))
	mux.Handle(path, OfDeployment(service, h.c.Deployment, false, h.c.Logger))
}

func (h *Handler) recovered(ctx context.Context, spec connect.Spec, _ http.Header, value any) error {
	h.c.Logger.ErrorContext(ctx, "a peer request panicked", "procedure", spec.Procedure, "fault", &fault.Error{Value: value, Stack: debug.Stack()})
	return connect.NewError(connect.CodeInternal, errors.New("internal error"))
}

// Execute implements the RPC of that name.
func (h *Handler) Execute(ctx context.Context, req *connect.Request[peerv1.ExecuteRequest]) (*connect.Response[peerv1.ExecuteResponse], error) {
	if err := h.admit(ctx, "execute", req.Peer(), req.Msg.GetEntry()); err != nil {
		return nil, err
	}
	r, err := fromExecuteRequest(req.Msg)
	if err == nil {
		err = h.checkHome(req.Msg.GetHome(), r.Stamp, req.Msg.GetDeputy())
	}
	if err != nil {
		return nil, h.fail(ctx, "execute", err)
	}
	if tp := req.Header().Get(traceParentHeader); len(tp) <= maxTraceParent {
		r.TraceParent = tp
	}
	reply, err := h.as(req.Msg.GetDeputy()).Execute(ctx, h.c.Self, r)
	if err != nil {
		return nil, h.failWith(ctx, "execute", err, &reply)
	}
	if reply.ServedBy == "" {
		reply.ServedBy = h.c.Self
	}
	return connect.NewResponse(toExecuteResponse(&reply)), nil
}

// Inspect implements the RPC of that name.
func (h *Handler) Inspect(ctx context.Context, req *connect.Request[peerv1.InspectRequest]) (*connect.Response[peerv1.InspectResponse], error) {
	if err := h.admit(ctx, "inspect", req.Peer(), ""); err != nil {
		return nil, err
	}
	key, err := fromKey(req.Msg.GetTenant(), req.Msg.GetKey())
	if err == nil {
		stamp, _ := claim.ReadStamp(key.Value)
		err = h.checkHome(req.Msg.GetHome(), stamp, req.Msg.GetDeputy())
	}
	if err != nil {
		return nil, h.fail(ctx, "inspect", err)
	}
	status, found, err := h.as(req.Msg.GetDeputy()).Inspect(ctx, h.c.Self, key)
	if err != nil {
		return nil, h.fail(ctx, "inspect", err)
	}
	return connect.NewResponse(toInspectResponse(&status, found)), nil
}

// Object implements the RPC of that name.
func (h *Handler) Object(ctx context.Context, req *connect.Request[peerv1.ObjectRequest]) (*connect.Response[peerv1.ObjectResponse], error) {
	if err := h.admit(ctx, "object", req.Peer(), ""); err != nil {
		return nil, err
	}
	id := req.Msg.GetId()
	err := checkLength("tenant", req.Msg.GetTenant(), maxTenant, true)
	if err == nil {
		err = checkLength("id", id, maxObjectID, true)
	}
	if err == nil {
		_, code, _ := claim.ReadObjectID(id)
		err = h.checkHome(req.Msg.GetHome(), code, req.Msg.GetDeputy())
	}
	if err != nil {
		return nil, h.fail(ctx, "object", err)
	}
	state, response, found, err := h.as(req.Msg.GetDeputy()).Object(ctx, req.Msg.GetTenant(), h.c.Self, id)
	if err != nil {
		return nil, h.fail(ctx, "object", err)
	}
	out := &peerv1.ObjectResponse{Found: found}
	if found {
		out.State = uint32(state)
		if response.Status != 0 {
			out.Response = toResponse(&response)
		}
	}
	return connect.NewResponse(out), nil
}

// Tenant implements the RPC of that name.
func (h *Handler) Tenant(ctx context.Context, req *connect.Request[peerv1.TenantRequest]) (*connect.Response[peerv1.TenantResponse], error) {
	if err := h.admit(ctx, "tenant", req.Peer(), ""); err != nil {
		return nil, err
	}
	var hash claim.APIKeyHash
	if copy(hash[:], req.Msg.GetApiKeyHash()) != len(hash) || len(req.Msg.GetApiKeyHash()) != len(hash) {
		return nil, h.fail(ctx, "tenant", &badRequestError{"api_key_hash is not a SHA-256"})
	}
	tenant, found, err := h.c.Tenant(ctx, hash)
	if err != nil {
		return nil, h.fail(ctx, "tenant", err)
	}
	if !found {
		return connect.NewResponse(&peerv1.TenantResponse{}), nil
	}
	return connect.NewResponse(toTenant(&tenant)), nil
}

// Ping implements the RPC of that name. It is free for every identity.
func (h *Handler) Ping(_ context.Context, req *connect.Request[peerv1.PingRequest]) (*connect.Response[peerv1.PingResponse], error) {
	return connect.NewResponse(&peerv1.PingResponse{Padding: req.Msg.GetPadding()}), nil
}

// admit refuses a caller whose certificate does not let it forward, for entry if the
// message names one, and logs who it was.
func (h *Handler) admit(ctx context.Context, rpc string, peer connect.Peer, entry string) error {
	err := admitNode(ctx, entry)
	if err == nil {
		return nil
	}
	h.c.Logger.WarnContext(ctx, "a peer request was refused", "rpc", rpc, "remote", peer.Addr, "error", err)
	return h.fail(ctx, rpc, err)
}

// as returns the executor: at home, or as a deputy.
func (h *Handler) as(deputy bool) Local {
	if deputy {
		return h.c.Deputy
	}
	return h.c.Local
}

// checkHome refuses a key or an object with its home elsewhere, unless it is asked as a deputy. code,
// read off the key itself, decides, whatever the sender claims; 0 is none.
func (h *Handler) checkHome(home string, code claim.RegionCode, deputy bool) error {
	switch {
	case !ValidName(home):
		return &badRequestError{"home is not a region name"}
	case deputy && home == h.c.Self:
		return nil
	case code != 0:
		return h.checkCode(code)
	case home != h.c.Self:
		// An opaque key's home is in its pin, which is not read here.
		return &WrongHomeError{}
	}
	return nil
}

func (h *Handler) checkCode(code claim.RegionCode) error {
	home, ok := h.c.Topology.ByCode(code)
	if !ok {
		// A region newer than this node's table: the key has a home, but this node
		// cannot reach it.
		return fmt.Errorf("region code %d is not in this node's topology: %w", code, claim.ErrHomeUnreachable)
	}
	if home.Name != h.c.Self {
		return &WrongHomeError{Home: home.Name}
	}
	return nil
}

// fail maps err for the wire, and logs what the wire does not carry.
func (h *Handler) fail(ctx context.Context, rpc string, err error) error {
	return h.failWith(ctx, rpc, err, new(claim.Reply))
}

// failWith is fail for an error that comes with a reply about the key.
func (h *Handler) failWith(ctx context.Context, rpc string, err error, reply *claim.Reply) error {
	failed(ctx, err)
	wire, ok := toConnect(err, reply)
	if !ok {
		h.c.Logger.ErrorContext(ctx, "a peer request failed", "rpc", rpc, "error", err)
	}
	return wire
}

// Package admin is the operators' API of a node, on the RPC listener of package region.
// It reports the state of the deployment and the progress of a drain, and sets a region's
// status. [Client] calls, [Server] answers with an [Overview].
//
// It reports the nodes' views of each other. It has no access to rows or requests: the
// program that assembles the node provides those figures.
package admin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/homeward-io/homeward/internal/fault"
	adminv1 "github.com/homeward-io/homeward/internal/gen/homeward/admin/v1"
	"github.com/homeward-io/homeward/internal/gen/homeward/admin/v1/adminv1connect"
	"github.com/homeward-io/homeward/region"
)

// partTimeout bounds the wait for one node's part of an overview: a dial, and the
// slowest healthy reading of the table of regions.
const partTimeout = 5 * time.Second

// Config configures a [Server]. All but Run, Transport, TLS and Logger are required.
type Config struct {
	// Sight is the node's view of the others. *[region.Membership] implements
	// it.
	Sight interface {
		Members() []region.Node
		RTT(region string) (time.Duration, bool)
		LastSeen(region string) time.Time
	}
	Topology *region.Topology
	// Deployment is this node's. Nodes of any other are refused, and not asked; operators
	// name none.
	Deployment uuid.UUID
	// Node is this node's name.
	Node string
	// Part returns this node's own report, with up to so many arrivals. If its topology
	// is older than epoch, the node reloads it first; a failed reload shows in the
	// Part's Epoch.
	Part func(ctx context.Context, epoch uint64, arrivals int) Part
	// Backlog counts the rows of a region.
	Backlog func(ctx context.Context, region string) (Backlog, error)
	// SetStatus sets a region's status in the store, and returns the version of
	// the topology that has it.
	SetStatus func(ctx context.Context, region string, status region.Status) (epoch uint64, err error)
	// Run runs a command on the node's store and returns its exit code. It refuses a
	// command that needs more than the store, or a role that the caller of its context
	// ([region.CallerOf]) has not, with that command's own error. nil: this node runs none.
	Run Run
	// Transport and TLS are as in [region.PeersConfig].
	Transport http.RoundTripper
	TLS       bool
	// Logger logs changes and refused callers. Default: discard.
	Logger *slog.Logger
}

// Server answers operators. It is safe for concurrent use.
type Server struct {
	c    Config
	http *http.Client
	runs chan struct{} // of what operators run
}

var _ adminv1connect.AdminServiceHandler = (*Server)(nil)

// New returns the admin service of a node.
func New(c Config) *Server {
	if c.Transport == nil {
		c.Transport = region.NewTransport(nil)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{c: c, http: region.NewClient(c.Transport, c.Deployment), runs: make(chan struct{}, maxRuns)}
}

// Mount adds the service to mux.
func (s *Server) Mount(mux *http.ServeMux) {
	path, service := adminv1connect.NewAdminServiceHandler(s,
		connect.WithReadMaxBytes(region.MaxMessageBytes), connect.WithSendMaxBytes(region.MaxMessageBytes),
		connect.WithCompression("gzip", nil, nil))
	mux.Handle(path, region.OfDeployment(service, s.c.Deployment, true, s.c.Logger))
}

// caller returns the identity of the caller.
type caller struct {
	region.Identity
	known  bool   // by certificate; without TLS there is none
	remote string // its address
}

// may returns a check that refuses callers that are not operators of a role. Without TLS
// callers are anonymous, so they must be on this machine, and may do everything.
func may(role region.Role) func(caller) error {
	return func(c caller) error { return c.may(role) }
}

func (c caller) may(role region.Role) error {
	switch {
	case !c.known && onThisMachine(c.remote):
		return nil
	case c.known && c.Operator == "":
		return fmt.Errorf("%v is not an operator; use an operator's certificate", c.Identity)
	case c.known && c.Role < role:
		return fmt.Errorf("%v may only do what the role %v allows, and this needs the role %v; use a certificate of that role", c.Identity, c.Role, role)
	case c.known:
		return nil
	default:
		return fmt.Errorf("%s is another machine, and without TLS only callers on this one count as operators; call from here, or set up TLS", c.remote)
	}
}

// part also admits other nodes.
func (c caller) part() error {
	if c.known && c.Region != "" {
		return nil
	}
	return c.may(region.RoleReader)
}

func onThisMachine(remote string) bool {
	addr, err := netip.ParseAddrPort(remote)
	return err == nil && addr.Addr().Unmap().IsLoopback()
}

func (s *Server) admit(ctx context.Context, req connect.AnyRequest, check func(caller) error) error {
	who, known := region.CallerOf(ctx)
	remote := req.Peer().Addr
	err := check(caller{who, known, remote})
	if err == nil {
		return nil
	}
	s.c.Logger.WarnContext(ctx, "an admin request was refused", "rpc", req.Spec().Procedure, "remote", remote, "error", err)
	return connect.NewError(connect.CodePermissionDenied, err)
}

// Part implements the RPC of that name.
func (s *Server) Part(ctx context.Context, req *connect.Request[adminv1.PartRequest]) (*connect.Response[adminv1.PartResponse], error) {
	if err := s.admit(ctx, req, caller.part); err != nil {
		return nil, err
	}
	return connect.NewResponse(toPart(s.c.Part(ctx, req.Msg.GetEpoch(), int(min(req.Msg.GetArrivals(), MaxArrivals))))), nil
}

// SetRegionStatus implements the RPC of that name.
func (s *Server) SetRegionStatus(ctx context.Context, req *connect.Request[adminv1.SetRegionStatusRequest]) (*connect.Response[adminv1.SetRegionStatusResponse], error) {
	if err := s.admit(ctx, req, may(region.RoleOperator)); err != nil {
		return nil, err
	}
	name := req.Msg.GetRegion()
	if _, known := s.c.Topology.ByName(name); !known {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no region %q; the regions are %s", name, strings.Join(regionNames(s.c.Topology), ", ")))
	}
	if req.Msg.GetStatus() > uint32(region.Down) {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("status %d is not one that this version knows", req.Msg.GetStatus()))
	}
	status := region.Status(req.Msg.GetStatus())
	epoch, err := s.c.SetStatus(ctx, name, status)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("the status of %s may or may not have been set; set it again: %w", name, err))
	}
	s.c.Logger.InfoContext(ctx, "the status of a region was set", "of", name, "status", status.String(), "epoch", epoch, "by", CallerName(ctx))
	s.tell(ctx, epoch)
	return connect.NewResponse(&adminv1.SetRegionStatusResponse{Epoch: epoch}), nil
}

// tell has every node that answers reload the table of regions, which it would
// otherwise do later.
func (s *Server) tell(ctx context.Context, epoch uint64) {
	var told sync.WaitGroup
	for _, n := range s.c.Sight.Members() {
		if !n.Self {
			told.Go(func() { s.askPart(ctx, n, &adminv1.PartRequest{Epoch: epoch}, &adminv1.Member{}) })
		}
	}
	told.Wait()
}

func regionNames(t *region.Topology) (names []string) {
	for _, r := range t.Regions() {
		names = append(names, r.Name)
	}
	return names
}

// MaxArrivals is the most arrivals that a node reports: as many as one page shows.
const MaxArrivals = 50

// Question selects the contents of an [Overview]. The zero value selects this node's own
// view and the backlog of every region.
type Question struct {
	// Gather: every live member is asked for its part.
	Gather bool
	// Epoch is the version of the topology that each node must have; see
	// [Client.Overview].
	Epoch uint64
	// Arrivals is how many of its latest requests each node reports, at most
	// [MaxArrivals].
	Arrivals int
	// WithoutBacklog: no row is counted.
	WithoutBacklog bool
}

// Overview implements the RPC of that name.
func (s *Server) Overview(ctx context.Context, req *connect.Request[adminv1.OverviewRequest]) (*connect.Response[adminv1.OverviewResponse], error) {
	if err := s.admit(ctx, req, may(region.RoleReader)); err != nil {
		return nil, err
	}
	return connect.NewResponse(s.overview(ctx, req.Msg)), nil
}

// Look returns the deployment in this node's view. It is meant for callers in the
// same process that have authenticated the operator.
func (s *Server) Look(ctx context.Context, q Question) *Overview {
	return fromOverview(s.overview(ctx, q.wire()))
}

func (q Question) wire() *adminv1.OverviewRequest {
	return &adminv1.OverviewRequest{
		Gather: q.Gather, Epoch: q.Epoch, Arrivals: uint32(min(max(q.Arrivals, 0), MaxArrivals)), WithoutBacklog: q.WithoutBacklog,
	}
}

// overview asks all nodes concurrently.
func (s *Server) overview(ctx context.Context, q *adminv1.OverviewRequest) *adminv1.OverviewResponse {
	var asked sync.WaitGroup
	part := &adminv1.PartRequest{Epoch: q.GetEpoch(), Arrivals: min(q.GetArrivals(), MaxArrivals)}
	own := s.c.Part(ctx, part.GetEpoch(), int(part.GetArrivals())) // first: it may reload the topology
	out := &adminv1.OverviewResponse{Node: s.c.Node, Epoch: s.c.Topology.Epoch()}
	for _, n := range s.c.Sight.Members() {
		m := &adminv1.Member{Name: n.Name, Region: n.Region, RpcAddr: n.RPCAddr, Version: n.Version, Draining: n.Draining}
		out.Members = append(out.Members, m)
		switch {
		case n.Self:
			m.Part = toPart(own)
		case q.GetGather():
			asked.Go(func() { s.askPart(ctx, n, part, m) })
		}
	}
	for _, r := range s.c.Topology.Regions() {
		state := &adminv1.RegionState{Name: r.Name, Code: uint32(r.Code), Status: uint32(r.Status), LastSeen: toTimestamp(s.c.Sight.LastSeen(r.Name))}
		if rtt, known := s.c.Sight.RTT(r.Name); known {
			state.Rtt = durationpb.New(rtt)
		}
		out.Regions = append(out.Regions, state)
		if !q.GetWithoutBacklog() {
			asked.Go(func() { s.askBacklog(ctx, state) })
		}
	}
	asked.Wait()
	return out
}

func (s *Server) askPart(ctx context.Context, n region.Node, q *adminv1.PartRequest, m *adminv1.Member) {
	ctx, cancel := context.WithTimeout(region.Towards(ctx, n.Region), partTimeout)
	defer cancel()
	part, err := newService(s.http, s.c.TLS, n.RPCAddr).Part(ctx, connect.NewRequest(q))
	if err != nil {
		m.PartError = oneLine(err)
		return
	}
	m.Part = part.Msg
}

func (s *Server) askBacklog(ctx context.Context, of *adminv1.RegionState) {
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	var b Backlog
	var err error
	if caught := fault.Caught(func() { b, err = s.c.Backlog(ctx, of.GetName()) }); caught != nil {
		err = caught // this goroutine is not the request's, so nobody else recovers the panic
	}
	if err != nil {
		of.BacklogError = strings.Join(strings.Fields(err.Error()), " ")
		return
	}
	of.Backlog = &adminv1.Backlog{
		InFlight: uint64(b.InFlight), Pending: uint64(b.Pending), Due: uint64(b.Due), Parked: uint64(b.Parked),
		OldestDue: toTimestamp(b.OldestDue),
	}
	for _, p := range b.ParkedRows {
		of.Backlog.ParkedRows = append(of.Backlog.ParkedRows, &adminv1.ParkedRow{Id: p.ID, Tenant: p.Tenant, Reason: strings.ToValidUTF8(p.Reason, "\uFFFD")})
	}
}

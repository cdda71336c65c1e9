// Package admin is the operators' API of a node, on the RPC listener of package region.
// It reports the state of the deployment and the progress of a drain, and sets a region's
// status. [Client] calls, [Server] answers with an [Overview].
//
// It reports the nodes' views of each other. It has no access to rows or requests: the
// program that assembles the node provides those figures.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"github.com/homeward-io/homeward/internal/fault"
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
	// Deployment is this node's. The server refuses nodes of any other, and sends them nothing;
	// operators name none.
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
	runs atomic.Int64 // what operators run
}

// New returns the admin service of a node.
func New(c Config) *Server {
	if c.Transport == nil {
		c.Transport = region.NewTransport(nil).Patient()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{c: c, http: region.NewClient(c.Transport, c.Deployment)}
}

// Mount adds the service to mux.
func (s *Server) Mount(mux *http.ServeMux) {
	options := connect.WithHandlerOptions(connect.WithCodec(codec{}),
		connect.WithReadMaxBytes(region.MaxMessageBytes), connect.WithSendMaxBytes(region.MaxMessageBytes), connect.WithCompression("gzip", nil, nil))
	for path, procedure := range map[string]http.Handler{
		pathPart:      connect.NewUnaryHandlerSimple(pathPart, s.part, options),
		pathOverview:  connect.NewUnaryHandlerSimple(pathOverview, s.overview, options),
		pathSetStatus: connect.NewUnaryHandlerSimple(pathSetStatus, s.setStatus, options),
		pathRun:       connect.NewServerStreamHandlerSimple(pathRun, s.run, options),
	} {
		mux.Handle(path, region.OfDeployment(procedure, s.c.Deployment, true, s.c.Logger))
	}
}

// caller names the requester: by certificate, if there is one, and by address.
type caller struct {
	region.Identity
	ok     bool
	remote string
}

// refused returns why a caller may not ask: it is no operator of a role, nor a node where
// nodes may ask. Without TLS callers are anonymous, so they must be on this machine, and may
// do everything.
func (c caller) refused(role region.Role, nodes bool) error {
	switch {
	case !c.ok && !onThisMachine(c.remote):
		return fmt.Errorf("%s is another machine, and without TLS only callers on this one count as operators; call from here, or set up TLS", c.remote)
	case !c.ok, nodes && c.Region != "":
		return nil
	case c.Operator == "":
		return fmt.Errorf("%v is not an operator; use an operator's certificate", c.Identity)
	case c.Role < role:
		return fmt.Errorf("%v may only do what the role %v allows, and this needs the role %v; use a certificate of that role", c.Identity, c.Role, role)
	default:
		return nil
	}
}

func (s *Server) admit(ctx context.Context, role region.Role, nodes bool) error {
	who, ok := region.CallerOf(ctx)
	info, _ := connect.CallInfoForHandlerContext(ctx)
	remote := info.Peer().Addr
	err := caller{who, ok, remote}.refused(role, nodes)
	if err == nil {
		return nil
	}
	s.c.Logger.WarnContext(ctx, "an admin request was refused", "rpc", info.Spec().Procedure, "remote", remote, "error", err)
	return connect.NewError(connect.CodePermissionDenied, err)
}

func onThisMachine(remote string) bool {
	addr, err := netip.ParseAddrPort(remote)
	return err == nil && addr.Addr().Unmap().IsLoopback()
}

func (s *Server) part(ctx context.Context, q *partRequest) (*Part, error) {
	if err := s.admit(ctx, region.RoleReader, true); err != nil {
		return nil, err
	}
	return s.ownPart(ctx, *q), nil
}

func (s *Server) ownPart(ctx context.Context, q partRequest) *Part {
	p := s.c.Part(ctx, q.Epoch, min(max(q.Arrivals, 0), MaxArrivals))
	if q.Count {
		var counts sync.WaitGroup
		states := make([]RegionState, len(s.c.Topology.Names()))
		for i, name := range s.c.Topology.Names() {
			states[i].Name = name
			counts.Go(func() { s.askBacklog(ctx, &states[i]) })
		}
		counts.Wait()
		p.Backlog = map[string]Backlog{}
		for _, r := range states {
			if r.Backlog != nil {
				p.Backlog[r.Name] = *r.Backlog
			}
		}
	}
	return &p
}

func (s *Server) setStatus(ctx context.Context, req *statusRequest) (*statusAnswer, error) {
	if err := s.admit(ctx, region.RoleOperator, false); err != nil {
		return nil, err
	}
	if _, ok := s.c.Topology.ByName(req.Region); !ok {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no region %q; the regions are %s", req.Region, strings.Join(s.c.Topology.Names(), ", ")))
	}
	if req.Status == nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("status is missing; send active, draining or down"))
	}
	epoch, err := s.c.SetStatus(ctx, req.Region, *req.Status)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("the status of %s may or may not have been set; set it again: %w", req.Region, err))
	}
	s.c.Logger.InfoContext(ctx, "the status of a region was set", "of", req.Region, "status", req.Status.String(), "epoch", epoch, "by", CallerName(ctx))
	s.reload(ctx, epoch)
	return &statusAnswer{epoch}, nil
}

// reload has every node that answers reload the table of regions, which it would
// otherwise do later.
func (s *Server) reload(ctx context.Context, epoch uint64) {
	var calls sync.WaitGroup
	for _, n := range s.c.Sight.Members() {
		if !n.Self {
			calls.Go(func() { s.askPart(ctx, n, partRequest{Epoch: epoch}, &Member{}) })
		}
	}
	calls.Wait()
}

// MaxArrivals is the most arrivals that a node reports: as many as one page shows.
const MaxArrivals = 50

// Question selects the contents of an [Overview]. The zero value selects this node's own
// view and the backlog of every region.
type Question struct {
	// Gather: the node requests the part of every live member.
	Gather bool `json:"gather,omitempty"`
	// Epoch: each node that gets the request reloads a topology that is older.
	Epoch uint64 `json:"epoch,omitempty"`
	// Arrivals is how many of its latest requests each node reports, at most
	// [MaxArrivals].
	Arrivals int `json:"arrivals,omitempty"`
	// WithoutBacklog: no row is counted.
	WithoutBacklog bool `json:"without_backlog,omitempty"`
}

func (s *Server) overview(ctx context.Context, q *Question) (*Overview, error) {
	if err := s.admit(ctx, region.RoleReader, false); err != nil {
		return nil, err
	}
	return s.Look(ctx, *q), nil
}

// Look returns the deployment in this node's view. It asks all nodes concurrently. It is
// meant for callers in the same process that have authenticated the operator.
func (s *Server) Look(ctx context.Context, q Question) *Overview {
	var calls sync.WaitGroup
	question := partRequest{Epoch: q.Epoch, Arrivals: q.Arrivals}
	own := s.ownPart(ctx, question) // first: it may reload the topology
	seen, regions := s.c.Sight.Members(), s.c.Topology.Regions()
	out := &Overview{Node: s.c.Node, Epoch: s.c.Topology.Epoch(), Members: make([]Member, len(seen)), Regions: make([]RegionState, len(regions))}
	for i, n := range seen {
		m := &out.Members[i]
		*m = Member{Name: n.Name, Region: n.Region, RPCAddr: n.RPCAddr, Version: n.Version, Draining: n.Draining, Unready: !n.UnreadySince.IsZero()}
		switch {
		case n.Self:
			m.Part = own
		case q.Gather:
			calls.Go(func() { s.askPart(ctx, n, question, m) })
		}
	}
	for i, r := range regions {
		state := &out.Regions[i]
		*state = RegionState{Name: r.Name, Code: uint16(r.Code), Status: r.Status, RTT: -1, LastSeen: s.c.Sight.LastSeen(r.Name)}
		if rtt, ok := s.c.Sight.RTT(r.Name); ok {
			state.RTT = rtt
		}
		if !q.WithoutBacklog {
			calls.Go(func() { s.askBacklog(ctx, state) })
		}
	}
	calls.Wait()
	if !q.WithoutBacklog {
		s.countElsewhere(ctx, seen, out.Regions)
	}
	return out
}

// countElsewhere has another node count the rows if this one can count none, as where its way to
// the database is cut: one that said that it can record charges.
func (s *Server) countElsewhere(ctx context.Context, seen []region.Node, states []RegionState) {
	if slices.ContainsFunc(states, func(r RegionState) bool { return r.Backlog != nil }) {
		return
	}
	i := slices.IndexFunc(seen, func(n region.Node) bool { return !n.Self && n.UnreadySince.IsZero() })
	if i < 0 {
		return
	}
	var counter Member
	if s.askPart(ctx, seen[i], partRequest{Count: true}, &counter); counter.Part == nil {
		return
	}
	for j := range states {
		if b, ok := counter.Part.Backlog[states[j].Name]; ok {
			states[j].Backlog, states[j].Unknown = &b, ""
		}
	}
}

func (s *Server) askPart(ctx context.Context, n region.Node, q partRequest, m *Member) {
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	part, err := call[partRequest, Part](ctx, s.http, n.Region, baseOf(n.RPCAddr, s.c.TLS), pathPart, &q)
	if err != nil {
		m.Unknown = oneLine(err)
		return
	}
	m.Part = part
}

func (s *Server) askBacklog(ctx context.Context, of *RegionState) {
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	var b Backlog
	err := func() (err error) {
		defer fault.Recover(&err) // this goroutine is not the request's, so nobody else does
		b, err = s.c.Backlog(ctx, of.Name)
		return err
	}()
	if err != nil {
		of.Unknown = oneLine(err)
		return
	}
	of.Backlog = &b
}

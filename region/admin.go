package region

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/homeward-io/homeward/fault"
	adminv1 "github.com/homeward-io/homeward/internal/gen/homeward/admin/v1"
	"github.com/homeward-io/homeward/internal/gen/homeward/admin/v1/adminv1connect"
)

// partTimeout bounds the wait for one node's part of an overview: a dial, and the
// slowest healthy reading of the table of regions.
const partTimeout = 5 * time.Second

// Part is what a node knows of itself.
type Part struct {
	Node    string `json:"node"`
	Region  string `json:"region"`
	Version string `json:"version"`
	// Epoch is the version of the topology that the node acts on.
	Epoch uint64 `json:"epoch"`
	// NotReady is why the node should get no new traffic, in one line; "": it should.
	NotReady string `json:"not_ready,omitempty"`
	// Requests that the node is working on are those that merchants sent it,
	// Forwards those that other nodes did.
	Requests int `json:"requests"`
	Forwards int `json:"forwards"`
}

// Backlog is what a region still owes, as its rows say.
type Backlog struct {
	// InFlight counts claims whose outcome is to come, but for parked ones.
	InFlight int `json:"in_flight"`
	// Pending outbox rows are neither done nor parked, Due ones could be taken now.
	Pending   int       `json:"pending"`
	Due       int       `json:"due"`
	Parked    int       `json:"parked"`
	OldestDue time.Time `json:"oldest_due,omitzero"`
	// ParkedRows are the first of the parked rows.
	ParkedRows []ParkedRow `json:"parked_rows,omitempty"`
}

// ParkedRow is an outbox row that waits for a person.
type ParkedRow struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	Reason string `json:"reason"`
}

// Member is a live node as another one sees it.
type Member struct {
	Name     string `json:"name"`
	Region   string `json:"region"`
	RPCAddr  string `json:"rpc"`
	Version  string `json:"version"`
	Draining bool   `json:"draining"`
	// Part is nil when the node was not asked, or did not answer: then Unknown says
	// why.
	Part    *Part  `json:"part,omitempty"`
	Unknown string `json:"unknown,omitempty"`
}

// RegionState is a region as a node sees it.
type RegionState struct {
	Name   string `json:"name"`
	Code   uint16 `json:"code"`
	Status Status `json:"status"`
	// RTT is the time to the nearest of its nodes and back; negative while none has
	// been measured.
	RTT time.Duration `json:"rtt_ns"`
	// LastSeen is when it last had a live node, zero: never.
	LastSeen time.Time `json:"last_seen,omitzero"`
	// Backlog is nil when its rows could not be counted: then Unknown says why.
	Backlog *Backlog `json:"backlog,omitempty"`
	Unknown string   `json:"unknown,omitempty"`
}

// Overview is a deployment as one of its nodes sees it.
type Overview struct {
	// Node is the one that answered, Epoch the version of the topology in Regions.
	Node    string        `json:"node"`
	Epoch   uint64        `json:"epoch"`
	Members []Member      `json:"members"` // by region and name
	Regions []RegionState `json:"regions"` // by name
}

// MarshalText writes the status as people do.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// AdminConfig is an [Admin]'s. All but Transport, TLS and Logger are required.
type AdminConfig struct {
	// Sight is what the node sees of the others. *[Membership] is one.
	Sight interface {
		Members() []Node
		RTT(region string) (time.Duration, bool)
		LastSeen(region string) time.Time
	}
	Topology *Topology
	// Node is this node's name.
	Node string
	// Part is this node's own. One whose topology is older than epoch reads it again
	// first; that it cannot shows in the Part's Epoch.
	Part func(ctx context.Context, epoch uint64) Part
	// Backlog counts the rows of a region.
	Backlog func(ctx context.Context, region string) (Backlog, error)
	// SetStatus changes the topology where it is kept, and returns the version in
	// which the region has that status.
	SetStatus func(ctx context.Context, region string, status Status) (epoch uint64, err error)
	// Transport and TLS are as in [PeersConfig].
	Transport http.RoundTripper
	TLS       bool
	// Logger is told of changes, and of callers that were refused. Default: discard.
	Logger *slog.Logger
}

// Admin answers operators. It is safe for concurrent use.
type Admin struct {
	c    AdminConfig
	http *http.Client
}

var _ adminv1connect.AdminServiceHandler = (*Admin)(nil)

// NewAdmin returns the admin service of a node.
func NewAdmin(c AdminConfig) *Admin {
	if c.Transport == nil {
		c.Transport = NewTransport(nil)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Admin{c: c, http: &http.Client{Transport: c.Transport, CheckRedirect: noRedirect}}
}

// Mount adds the service to mux.
func (a *Admin) Mount(mux *http.ServeMux) {
	mux.Handle(adminv1connect.NewAdminServiceHandler(a,
		connect.WithReadMaxBytes(MaxMessageBytes), connect.WithSendMaxBytes(MaxMessageBytes),
		connect.WithCompression("gzip", nil, nil)))
}

// admitOperator refuses callers that are no operators. Without TLS nobody says who
// they are, so they must be on this machine.
func admitOperator(ctx context.Context, remote string) error {
	who, known := CallerOf(ctx)
	switch {
	case known && who.Operator != "" || !known && onThisMachine(remote):
		return nil
	case known:
		return &notAdmittedError{who, "is no operator; use an operator's certificate"}
	default:
		return fmt.Errorf("%s is another machine, and without TLS only callers on this one are believed to be operators; call from here, or set tls up", remote)
	}
}

// admitPart also lets other nodes ask.
func admitPart(ctx context.Context, remote string) error {
	if who, known := CallerOf(ctx); known && who.Region != "" {
		return nil
	}
	return admitOperator(ctx, remote)
}

func onThisMachine(remote string) bool {
	addr, err := netip.ParseAddrPort(remote)
	return err == nil && addr.Addr().Unmap().IsLoopback()
}

func (a *Admin) admit(ctx context.Context, req connect.AnyRequest, check func(ctx context.Context, remote string) error) error {
	remote := req.Peer().Addr
	err := check(ctx, remote)
	if err == nil {
		return nil
	}
	a.c.Logger.WarnContext(ctx, "an admin request was refused", "rpc", req.Spec().Procedure, "remote", remote, "error", err)
	return connect.NewError(connect.CodePermissionDenied, err)
}

// Part is the RPC.
func (a *Admin) Part(ctx context.Context, req *connect.Request[adminv1.PartRequest]) (*connect.Response[adminv1.PartResponse], error) {
	if err := a.admit(ctx, req, admitPart); err != nil {
		return nil, err
	}
	return connect.NewResponse(toPart(a.c.Part(ctx, req.Msg.GetEpoch()))), nil
}

// SetRegionStatus is the RPC.
func (a *Admin) SetRegionStatus(ctx context.Context, req *connect.Request[adminv1.SetRegionStatusRequest]) (*connect.Response[adminv1.SetRegionStatusResponse], error) {
	if err := a.admit(ctx, req, admitOperator); err != nil {
		return nil, err
	}
	name := req.Msg.GetRegion()
	if _, known := a.c.Topology.ByName(name); !known {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no region %q; the regions are %s", name, strings.Join(regionNames(a.c.Topology), ", ")))
	}
	if req.Msg.GetStatus() > uint32(Down) {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("status %d is not one that this version knows", req.Msg.GetStatus()))
	}
	status := Status(req.Msg.GetStatus())
	epoch, err := a.c.SetStatus(ctx, name, status)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("it is not known whether the status of %s was set, say it again: %w", name, err))
	}
	caller := "somebody on this machine"
	if who, known := CallerOf(ctx); known {
		caller = who.String()
	}
	a.c.Logger.InfoContext(ctx, "the status of a region was set", "of", name, "status", status.String(), "epoch", epoch, "by", caller)
	a.tell(ctx, epoch)
	return connect.NewResponse(&adminv1.SetRegionStatusResponse{Epoch: epoch}), nil
}

// tell has every node that answers read the table of regions, which it would not do by
// itself before long.
func (a *Admin) tell(ctx context.Context, epoch uint64) {
	var told sync.WaitGroup
	for _, n := range a.c.Sight.Members() {
		if !n.Self {
			told.Go(func() { a.askPart(ctx, n, epoch, &adminv1.Member{}) })
		}
	}
	told.Wait()
}

func regionNames(t *Topology) (names []string) {
	for _, r := range t.Regions() {
		names = append(names, r.Name)
	}
	return names
}

// Overview is the RPC. It asks everybody at the same time.
func (a *Admin) Overview(ctx context.Context, req *connect.Request[adminv1.OverviewRequest]) (*connect.Response[adminv1.OverviewResponse], error) {
	if err := a.admit(ctx, req, admitOperator); err != nil {
		return nil, err
	}
	var asked sync.WaitGroup
	own := a.c.Part(ctx, req.Msg.GetEpoch()) // first: it may read the topology again
	out := &adminv1.OverviewResponse{Node: a.c.Node, Epoch: a.c.Topology.Epoch()}
	for _, n := range a.c.Sight.Members() {
		m := &adminv1.Member{Name: n.Name, Region: n.Region, RpcAddr: n.RPCAddr, Version: n.Version, Draining: n.Draining}
		out.Members = append(out.Members, m)
		switch {
		case n.Self:
			m.Part = toPart(own)
		case req.Msg.GetGather():
			asked.Go(func() { a.askPart(ctx, n, req.Msg.GetEpoch(), m) })
		}
	}
	for _, r := range a.c.Topology.Regions() {
		s := &adminv1.RegionState{Name: r.Name, Code: uint32(r.Code), Status: uint32(r.Status), LastSeen: toTimestamp(a.c.Sight.LastSeen(r.Name))}
		if rtt, known := a.c.Sight.RTT(r.Name); known {
			s.Rtt = durationpb.New(rtt)
		}
		out.Regions = append(out.Regions, s)
		asked.Go(func() { a.askBacklog(ctx, s) })
	}
	asked.Wait()
	return connect.NewResponse(out), nil
}

func (a *Admin) askPart(ctx context.Context, n Node, epoch uint64, m *adminv1.Member) {
	ctx, cancel := context.WithTimeout(Towards(ctx, n.Region), partTimeout)
	defer cancel()
	part, err := newAdminService(a.http, a.c.TLS, n.RPCAddr).Part(ctx, connect.NewRequest(&adminv1.PartRequest{Epoch: epoch}))
	if err != nil {
		m.PartError = adminError(err)
		return
	}
	m.Part = part.Msg
}

func (a *Admin) askBacklog(ctx context.Context, s *adminv1.RegionState) {
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	var b Backlog
	var err error
	if caught := fault.Caught(func() { b, err = a.c.Backlog(ctx, s.GetName()) }); caught != nil {
		err = caught // nobody else would catch it: this goroutine is not the request's
	}
	if err != nil {
		s.BacklogError = strings.Join(strings.Fields(err.Error()), " ")
		return
	}
	s.Backlog = &adminv1.Backlog{
		InFlight: uint64(b.InFlight), Pending: uint64(b.Pending), Due: uint64(b.Due), Parked: uint64(b.Parked),
		OldestDue: toTimestamp(b.OldestDue),
	}
	for _, p := range b.ParkedRows {
		s.Backlog.ParkedRows = append(s.Backlog.ParkedRows, &adminv1.ParkedRow{Id: p.ID, Tenant: p.Tenant, Reason: strings.ToValidUTF8(p.Reason, "\uFFFD")})
	}
}

func toPart(p Part) *adminv1.PartResponse {
	return &adminv1.PartResponse{
		Node: p.Node, Region: p.Region, Version: p.Version, Epoch: p.Epoch, NotReady: p.NotReady,
		Requests: uint32(p.Requests), Forwards: uint32(p.Forwards),
	}
}

func fromPart(p *adminv1.PartResponse) *Part {
	if p == nil {
		return nil
	}
	return &Part{
		Node: p.GetNode(), Region: p.GetRegion(), Version: p.GetVersion(), Epoch: p.GetEpoch(), NotReady: p.GetNotReady(),
		Requests: int(p.GetRequests()), Forwards: int(p.GetForwards()),
	}
}

func fromOverview(o *adminv1.OverviewResponse) *Overview {
	out := &Overview{Node: o.GetNode(), Epoch: o.GetEpoch()}
	for _, m := range o.GetMembers() {
		one := Member{
			Name: m.GetName(), Region: m.GetRegion(), RPCAddr: m.GetRpcAddr(), Version: m.GetVersion(),
			Draining: m.GetDraining(), Part: fromPart(m.GetPart()), Unknown: m.GetPartError(),
		}
		out.Members = append(out.Members, one)
	}
	for _, r := range o.GetRegions() {
		one := RegionState{
			Name: r.GetName(), Code: uint16(r.GetCode()), Status: Status(min(r.GetStatus(), 255)), RTT: -1,
			LastSeen: fromTimestamp(r.GetLastSeen()), Unknown: r.GetBacklogError(),
		}
		if r.GetRtt() != nil {
			one.RTT = r.GetRtt().AsDuration()
		}
		if b := r.GetBacklog(); b != nil {
			one.Backlog = &Backlog{
				InFlight: int(b.GetInFlight()), Pending: int(b.GetPending()), Due: int(b.GetDue()), Parked: int(b.GetParked()),
				OldestDue: fromTimestamp(b.GetOldestDue()),
			}
			for _, p := range b.GetParkedRows() {
				one.Backlog.ParkedRows = append(one.Backlog.ParkedRows, ParkedRow{p.GetId(), p.GetTenant(), p.GetReason()})
			}
		}
		out.Regions = append(out.Regions, one)
	}
	return out
}

func newAdminService(c *http.Client, tls bool, addr string) adminv1connect.AdminServiceClient {
	scheme := "http://"
	if tls {
		scheme = "https://"
	}
	return adminv1connect.NewAdminServiceClient(c, scheme+addr,
		connect.WithReadMaxBytes(MaxMessageBytes), connect.WithAcceptCompression("gzip", nil, nil))
}

// adminError is err in one line.
func adminError(err error) string {
	text := err.Error()
	if wire, ok := errors.AsType[*connect.Error](err); ok {
		text = wire.Message()
	}
	return strings.Join(strings.Fields(text), " ")
}

// AdminClient asks one node's [Admin]. Its errors are one line, and wrap ErrNoAnswer
// where another node may have to be asked. It is safe for concurrent use.
type AdminClient struct {
	addr    string
	http    *http.Client
	service adminv1connect.AdminServiceClient
}

// NewAdminClient asks the node whose RPC listener is at addr, a host:port, with an
// operator's certificate, or without any where t is nil. Close it in the end.
func NewAdminClient(addr string, t *TLS) (*AdminClient, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("%q is not the address of a node's RPC listener; write HOST:PORT", addr)
	}
	c := &http.Client{Transport: NewTransport(t), CheckRedirect: noRedirect}
	return &AdminClient{addr: addr, http: c, service: newAdminService(c, t != nil, addr)}, nil
}

// Close closes idle connections.
func (c *AdminClient) Close() { c.http.CloseIdleConnections() }

// Overview asks how the deployment looks. With gather the node asks every live
// member for its part, and with an epoch each that is asked reads the topology
// again if its own is older.
func (c *AdminClient) Overview(ctx context.Context, gather bool, epoch uint64) (*Overview, error) {
	resp, err := c.service.Overview(Towards(ctx, ""), connect.NewRequest(&adminv1.OverviewRequest{Gather: gather, Epoch: epoch}))
	if err != nil {
		return nil, c.failed(err)
	}
	return fromOverview(resp.Msg), nil
}

// SetStatus sets a region's status and returns the version of the topology in which
// it has it. Setting the one that it has changes nothing. An error leaves open
// whether it was set; setting it again is safe, at any node.
func (c *AdminClient) SetStatus(ctx context.Context, region string, status Status) (epoch uint64, err error) {
	resp, err := c.service.SetRegionStatus(Towards(ctx, ""), connect.NewRequest(&adminv1.SetRegionStatusRequest{Region: region, Status: uint32(status)}))
	if err != nil {
		return 0, c.failed(err)
	}
	return resp.Msg.GetEpoch(), nil
}

// failed says in one line what the node said, or that it said nothing.
func (c *AdminClient) failed(err error) error {
	if connect.IsWireError(err) && connect.CodeOf(err) != connect.CodeUnimplemented {
		return fmt.Errorf("the node at %s says: %s", c.addr, adminError(err))
	}
	return &silentError{fmt.Sprintf("no node answers at %s: %s", c.addr, adminError(err))}
}

// silentError is ErrNoAnswer with a text for people.
type silentError struct{ text string }

func (e *silentError) Error() string { return e.text }
func (e *silentError) Unwrap() error { return ErrNoAnswer }

// Region finds a region's state; nil when there is none of that name.
func (o *Overview) Region(name string) *RegionState {
	i := slices.IndexFunc(o.Regions, func(r RegionState) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &o.Regions[i]
}

// Of returns the live nodes of a region.
func (o *Overview) Of(region string) (members []Member) {
	for _, m := range o.Members {
		if m.Region == region {
			members = append(members, m)
		}
	}
	return members
}

// DrainStep is one thing that a drained region waits for before it can be taken
// down.
type DrainStep struct {
	// Done is how it reads when it is so: "no claim is in flight".
	Done string
	// Open says what is in the way, "" when nothing is. What is not known is in the
	// way.
	Open string
}

// DrainSteps tells what a region that drains since epoch still waits for. The
// overview must have been gathered. When no step is open it is safe to take the
// region down: no key can get its home there, and nobody waits for it.
func (o *Overview) DrainSteps(region string, epoch uint64) []DrainStep {
	var behind, ready, working []string
	for _, m := range o.Members {
		if m.Part == nil {
			behind = append(behind, m.Name+" does not answer ("+cmp.Or(m.Unknown, "it was not asked")+")")
			continue
		}
		if m.Part.Epoch < epoch {
			behind = append(behind, fmt.Sprintf("%s knows epoch %d", m.Name, m.Part.Epoch))
		}
		if m.Region != region {
			continue
		}
		if m.Part.NotReady == "" {
			ready = append(ready, m.Name)
		}
		if n := m.Part.Requests + m.Part.Forwards; n > 0 {
			working = append(working, fmt.Sprintf("%s has %d", m.Name, n))
		}
	}
	failing := "readiness fails at the nodes of " + region + ", so that geo-DNS sends nobody there"
	idle := "no request is in hand at the nodes of " + region
	if len(o.Of(region)) == 0 { // one may live behind a partition
		failing = "no live node of " + region + " is seen, so none that is ready"
		idle = "nor any that has a request in hand"
	}
	return append([]DrainStep{
		{fmt.Sprintf("every live node knows epoch %d", epoch), strings.Join(behind, ", ")},
		{failing, prefixed("ready: ", ready)},
		{idle, prefixed("requests in hand: ", working)},
	}, o.rowSteps(region)...)
}

func (o *Overview) rowSteps(region string) []DrainStep {
	claims, rows := DrainStep{Done: "no claim is in flight"}, DrainStep{Done: "the outbox is empty"}
	switch r := o.Region(region); {
	case r == nil:
		claims.Open = "there is no such region"
		rows.Open = claims.Open
	case r.Backlog == nil:
		claims.Open = "the rows of " + region + " cannot be counted (" + cmp.Or(r.Unknown, "nobody has tried") + ")"
		rows.Open = claims.Open
	default:
		b := r.Backlog
		if b.InFlight > 0 {
			claims.Open = fmt.Sprintf("claims in flight: %d", b.InFlight)
		}
		if b.Pending > 0 {
			rows.Open = fmt.Sprintf("outbox rows: %d, of which %d are due", b.Pending, b.Due)
		}
		if b.Parked > 0 {
			rows.Done += fmt.Sprintf(" but for %d parked rows, which wait for a person and not for the region", b.Parked)
		}
	}
	return []DrainStep{claims, rows}
}

func prefixed(prefix string, all []string) string {
	if len(all) == 0 {
		return ""
	}
	return prefix + strings.Join(all, ", ")
}

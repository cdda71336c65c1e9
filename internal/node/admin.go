package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/build"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/region/admin"
)

// follower keeps a node's topology up to date with the table, and announces to the
// other nodes whether this one drains. It is a convenience: while it is late, the
// store's own steps refuse what must not happen.
type follower struct {
	table    claim.Regions
	topology *region.Topology
	self     string // the node's region
	// announce announces to the other nodes whether this one drains; nil: not yet possible.
	announce func(ctx context.Context, draining bool) error
	now      func() time.Time
	log      *slog.Logger

	reading   *semaphore.Weighted // one at a time; it waits for others, so who wants to read may give up
	trouble   trouble
	announced bool         // the state that was last announced
	readAt    atomic.Int64 // of the last reading that got an answer, in Unix nanoseconds
}

func newFollower(table claim.Regions, topology *region.Topology, self string, now func() time.Time, log *slog.Logger) *follower {
	return &follower{
		reading: semaphore.NewWeighted(1), table: table, topology: topology, self: self, now: now, log: log,
		trouble: trouble{log: log, began: "the table of regions cannot be read; the one at hand is used", over: "the table of regions can be read again"},
	}
}

// read reads the table, whatever version this node has.
func (f *follower) read(ctx context.Context) error {
	if err := f.reading.Acquire(ctx, 1); err != nil {
		return err
	}
	defer f.reading.Release(1)
	regions, epoch, err := f.table.Regions(ctx)
	changed := false
	if err == nil {
		changed, err = f.topology.Update(epoch, regions)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		f.readAt.Store(f.now().UnixNano())
	}
	f.trouble.note(err)
	if changed {
		f.log.Info("the topology has changed", "epoch", epoch, "regions", fmt.Sprint(f.topology.Regions()))
	}
	f.announceDrain(ctx)
	return err
}

// lastRead is when the table was read last.
func (f *follower) lastRead() time.Time { return time.Unix(0, f.readAt.Load()) }

// meet sets the function that announces, from now on.
func (f *follower) meet(ctx context.Context, announce func(ctx context.Context, draining bool) error) {
	if f.reading.Acquire(ctx, 1) != nil {
		return
	}
	defer f.reading.Release(1)
	f.announce = announce
	f.announceDrain(ctx)
}

// announceDrain announces a changed state. The caller has acquired reading.
func (f *follower) announceDrain(ctx context.Context) {
	draining := f.takes() != nil
	if f.announce == nil || draining == f.announced {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if err := f.announce(ctx, draining); err == nil {
		f.announced = draining
	} else if !errors.Is(err, region.ErrClosed) {
		f.log.Info("gossip of this node's drain state timed out; the node broadcasts it again", "error", err)
	}
}

// upTo reads the table unless this node's version is at least epoch.
func (f *follower) upTo(ctx context.Context, epoch uint64) {
	if f.topology.Epoch() < epoch {
		_ = f.read(ctx) // logged; the old version shows
	}
}

// takes returns an error while the node's region takes no new traffic.
func (f *follower) takes() error {
	if here, _ := f.topology.ByName(f.self); here.Status != region.Active {
		return fmt.Errorf("region %s is %v", f.self, here.Status)
	}
	return nil
}

// inHand counts the requests in progress.
type inHand struct{ requests, forwards atomic.Int64 }

// counting counts requests to the API, not probes. All of a gateway's are the upstream's, but for those
// to its own paths.
func (h *inHand) counting(api http.Handler, gates bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") && !gates || gates && !strings.HasPrefix(r.URL.Path, gateway.Own) {
			h.requests.Add(1)
			defer h.requests.Add(-1)
		}
		api.ServeHTTP(w, r)
	})
}

// parkedShown is how many parked rows of a region an overview shows: an operator looks
// at them one by one.
const parkedShown = 10

// newAdmin makes the node's service for operators.
func (n *Node) newAdmin() *admin.Server {
	return admin.New(admin.Config{
		Sight: sight{n.membership, n}, Topology: n.c.Topology, Deployment: n.deployment, Node: n.c.Name,
		Part: n.part, Backlog: n.backlog, SetStatus: n.setStatus, Run: n.c.Run,
		Transport: n.transport, TLS: n.c.TLS != nil, Logger: n.log,
	})
}

func (n *Node) part(ctx context.Context, epoch uint64, arrivals int) admin.Part {
	n.follower.upTo(ctx, epoch)
	regions := n.c.Topology.Names()
	p := admin.Part{
		Node: n.c.Name, Region: n.c.Region, Version: build.Version(), Epoch: n.c.Topology.Epoch(),
		Requests: int(n.hand.requests.Load()), Forwards: int(n.hand.forwards.Load()),
		Traffic: n.traffic.report(arrivals, regions),
	}
	for _, name := range regions {
		p.Silent = append(p.Silent, n.outages.Silent(name)...)
	}
	if err := n.ready(ctx, true); err != nil {
		p.NotReady = err.Error()
	}
	return p
}

// setStatus is done even if it cannot be audited: where rows cannot be written, a region has
// to be taken down.
func (n *Node) setStatus(ctx context.Context, name string, status region.Status) (uint64, error) {
	by := admin.CallerName(ctx)
	if err := n.c.Store.AppendAudit(ctx, n.c.Region, audit.ActorKey(by), claim.AuditEntry{
		Event: claim.EventActed, Region: n.c.Region, Node: n.c.Name, Detail: fmt.Sprintf("region status %s %v", name, status),
	}); err != nil {
		n.log.ErrorContext(ctx, "an operator's act could not be written to the audit, and is done", "of", name, "status", status.String(), "by", by, "error", err)
	}
	epoch, err := n.c.Store.SetRegionStatus(ctx, name, status)
	if err != nil {
		return 0, plain(err)
	}
	n.follower.upTo(ctx, epoch)
	return epoch, nil
}

func (n *Node) backlog(ctx context.Context, home string) (_ admin.Backlog, err error) {
	defer func() { err = plain(err) }()
	calls := n.c.Store.Queue(outbox.ProviderCalls)
	depth, err := calls.Depth(ctx, home)
	if err != nil {
		return admin.Backlog{}, err
	}
	b := admin.Backlog{Pending: depth.Pending, Due: depth.Due, Parked: depth.Parked, OldestDue: depth.OldestDue}
	if b.InFlight, err = n.c.Store.InFlight(ctx, home); err != nil || depth.Parked == 0 {
		return b, err
	}
	rows, err := calls.Parked(ctx, home, "", parkedShown)
	for _, m := range rows {
		b.ParkedRows = append(b.ParkedRows, admin.ParkedRow{ID: m.ID, Tenant: m.Tenant, Reason: m.LastError})
	}
	return b, err
}

// plainError is an error in the terms of operators, without claims.
type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.err }

// plain returns the database's part of an error.
func plain(err error) error {
	if err == nil {
		return nil
	}
	if text, ok := strings.CutPrefix(err.Error(), claim.ErrUnavailable.Error()+": "); ok {
		return &plainError{text, err}
	}
	return err
}

// sight is the node's view of the others, with the distances of requests: gossip on one
// machine does not see simulated distances.
type sight struct {
	*region.Membership
	n *Node
}

// RTT returns the round-trip time of requests to a region.
func (s sight) RTT(name string) (time.Duration, bool) {
	if simulated := s.n.c.Network.Distance(s.n.c.Region, name); simulated > 0 {
		return simulated, true
	}
	return s.Membership.RTT(name)
}

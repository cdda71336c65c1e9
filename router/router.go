// Package router brings a request to its key's home: here, one hop away, or,
// when the home cannot be reached, nowhere.
//
// It holds no state and decides nothing about money. A stale pin, a wrong hint
// or an old view of the membership costs a hop; the claim's own step at the
// home decides what may happen. In particular a claim under an opaque key is
// only created when the store, by its own clock, finds the pin that was shown
// to it alive (claim.NeedPin otherwise), so a router that routes by memory is
// sent back to look.
//
// The order of looking is by price. A stamped key names its home. For an opaque
// key, where this region is the tenant's registrar the pin is local; elsewhere
// the local claim, the nearest replica of the final answer and the nearest
// replica of the pin cost nothing, a caller's hint saves the look-up, and only
// then is the registrar asked, one round trip away.
package router

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/region"
)

// Local runs requests on the claims that this node can reach itself.
// *claim.Service implements it.
type Local interface {
	Do(ctx context.Context, home string, req *claim.Request) (claim.Reply, error)
	Replica(ctx context.Context, req *claim.Request) (claim.Reply, bool, error)
	Inspect(ctx context.Context, home string, key claim.Key) (claim.Status, bool, error)
	Object(ctx context.Context, tenant, home, id string) (claim.State, claim.Response, bool, error)
	ReplicaObject(ctx context.Context, tenant, home, id string) (claim.State, claim.Response, bool, error)
}

// Peers forwards to a node of another region. *region.Peers implements it.
type Peers interface {
	Execute(ctx context.Context, home string, req claim.Request, hops int, entry string) (claim.Reply, error)
	Inspect(ctx context.Context, home string, key claim.Key) (claim.Status, bool, error)
	Object(ctx context.Context, home, tenant, id string) (claim.State, claim.Response, bool, error)
}

// Pins is the part of claim.Store that finds the home of an opaque key.
type Pins interface {
	Pin(ctx context.Context, key claim.Key, entry string) (claim.Pin, error)
	ReplicaPin(ctx context.Context, key claim.Key) (claim.Pin, bool, error)
	Registrar(ctx context.Context, tenant string) (string, error)
}

// MaxForwards bounds the hops of one request: the first guess and one re-route
// to the home that the guess, or the registrar, named.
const MaxForwards = 2

// replyMargin is kept back from a caller's deadline when forwarding, so that
// the entry can still answer that the home did not. A tenth of a second is more
// than writing a reply takes.
const replyMargin = 100 * time.Millisecond

// Router is safe for concurrent use.
type Router struct {
	self     string
	local    Local
	peers    Peers
	pins     Pins
	topology *region.Topology
}

// New returns the router of a node in region self.
func New(self string, local Local, peers Peers, pins Pins, topology *region.Topology) *Router {
	return &Router{self: self, local: local, peers: peers, pins: pins, topology: topology}
}

// trip is one request's way: it counts forwards.
type trip struct {
	*Router
	req  *claim.Request
	hops int
}

// Do answers req from wherever its key is at home. hint is the region that the
// caller remembers as the home, or "". Errors are claim's typed errors, or wrap
// [ErrHomeUnavailable].
func (r *Router) Do(ctx context.Context, req claim.Request, hint string) (claim.Reply, error) {
	t := &trip{Router: r, req: &req}
	reply, err := t.run(ctx, hint)
	reply.Hops = t.hops
	return reply, unreachable(err)
}

func (t *trip) run(ctx context.Context, hint string) (claim.Reply, error) {
	if code, ok := claim.ReadStamp(t.req.Key.Value); ok {
		home, err := t.coded(code)
		if err != nil {
			return claim.Reply{}, err
		}
		t.req.Stamped = true
		return t.at(ctx, home)
	}
	registrar, err := t.pins.Registrar(ctx, t.req.Key.Tenant)
	if err != nil {
		return claim.Reply{}, err
	}
	if registrar == t.self {
		return t.pinned(ctx)
	}
	return t.searched(ctx, hint)
}

// coded names the region of a stamp. A code that this node does not know is a
// home it has not heard of yet, never an opaque key: treating it as one would
// give the key a second home.
func (r *Router) coded(code claim.RegionCode) (string, error) {
	home, ok := r.topology.ByCode(code)
	if !ok {
		return "", fmt.Errorf("%w: region code %d is not in this node's topology", ErrHomeUnavailable, code)
	}
	return home.Name, nil
}

// pinned asks the registrar, which fixes the home if nobody has.
func (t *trip) pinned(ctx context.Context) (claim.Reply, error) {
	var reply claim.Reply
	var err error
	// Twice: a pin may run out between the look and the claim's own step.
	for range 2 {
		pin, perr := t.pins.Pin(ctx, t.req.Key, t.self)
		if perr != nil {
			return claim.Reply{}, perr
		}
		t.req.PinnedAt = pin.CreatedAt
		reply, err = t.at(ctx, pin.Home)
		if !errors.Is(err, claim.ErrNeedPin) {
			break
		}
	}
	return reply, err
}

// searched tries what costs no round trip, then the hint, then the registrar.
func (t *trip) searched(ctx context.Context, hint string) (claim.Reply, error) {
	// Without a pin this acts on a living claim only, and one that lives here
	// proves that the home is here.
	reply, err := t.local.Do(ctx, t.self, t.req)
	if !errors.Is(err, claim.ErrNeedPin) {
		return reply, err
	}
	if reply, found, err := t.local.Replica(ctx, t.req); found || err != nil {
		return reply, err
	}
	if pin, found, err := t.pins.ReplicaPin(ctx, t.req.Key); err == nil && found {
		t.req.PinnedAt, hint = pin.CreatedAt, pin.Home
	}
	if _, known := t.topology.ByName(hint); known && hint != t.self {
		reply, err := t.forward(ctx, hint)
		if !errors.Is(err, claim.ErrNeedPin) && !errors.Is(unreachable(err), ErrHomeUnavailable) {
			return reply, err
		}
		if !t.req.PinnedAt.IsZero() && !errors.Is(err, claim.ErrNeedPin) {
			return reply, err // the pin is no hint: there is no other home to try
		}
	}
	return t.pinned(ctx)
}

// at runs the request at its home.
func (t *trip) at(ctx context.Context, home string) (claim.Reply, error) {
	if home == t.self {
		return t.local.Do(ctx, home, t.req)
	}
	if reply, found, err := t.local.Replica(ctx, t.req); found || err != nil {
		return reply, err
	}
	return t.forward(ctx, home)
}

// forward sends the request to home and follows one typed correction.
func (t *trip) forward(ctx context.Context, home string) (claim.Reply, error) {
	reply, err := t.send(ctx, home)
	var wrong *region.WrongHomeError
	if !errors.As(err, &wrong) {
		return reply, err
	}
	if wrong.Home == "" || wrong.Home == home || t.hops >= MaxForwards {
		return claim.Reply{}, fmt.Errorf("%w: %s says that it is not the home and names %q", ErrHomeUnavailable, home, wrong.Home)
	}
	if wrong.Home == t.self {
		return t.local.Do(ctx, t.self, t.req)
	}
	return t.send(ctx, wrong.Home)
}

func (t *trip) send(ctx context.Context, home string) (claim.Reply, error) {
	t.hops++
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-replyMargin))
		defer cancel()
	}
	return t.peers.Execute(ctx, home, *t.req, t.hops, t.self)
}

// Inspect tells the state of a key, with its home's authority.
func (r *Router) Inspect(ctx context.Context, key claim.Key, hint string) (claim.Status, bool, error) {
	status, found, err := r.inspect(ctx, key, hint)
	return status, found, unreachable(err)
}

func (r *Router) inspect(ctx context.Context, key claim.Key, hint string) (claim.Status, bool, error) {
	if code, ok := claim.ReadStamp(key.Value); ok {
		home, err := r.coded(code)
		if err != nil {
			return claim.Status{}, false, err
		}
		return r.inspectAt(ctx, home, key)
	}
	status, found, err := r.local.Inspect(ctx, r.self, key)
	if found || err != nil {
		return status, found, err
	}
	if pin, ok, err := r.pins.ReplicaPin(ctx, key); err == nil && ok {
		return r.inspectAt(ctx, pin.Home, key)
	}
	// A pin too young for the replica: ask every region, the hinted one first.
	// Asking must not pin, and this is nobody's hot path.
	regions := r.topology.Regions()
	names := make([]string, 0, len(regions)+1)
	if _, known := r.topology.ByName(hint); known {
		names = append(names, hint)
	}
	for _, one := range regions {
		if one.Name != hint {
			names = append(names, one.Name)
		}
	}
	var missed error
	for _, name := range names {
		if name == r.self {
			continue
		}
		status, found, err := r.peers.Inspect(ctx, name, key)
		if found {
			return status, true, nil
		}
		missed = errors.Join(missed, err)
	}
	return claim.Status{}, false, missed
}

func (r *Router) inspectAt(ctx context.Context, home string, key claim.Key) (claim.Status, bool, error) {
	if home == r.self {
		return r.local.Inspect(ctx, home, key)
	}
	return r.peers.Inspect(ctx, home, key)
}

// Object returns an object by the id that its creation minted. The id names
// the home.
func (r *Router) Object(ctx context.Context, tenant, id string) (claim.State, claim.Response, bool, error) {
	_, code, ok := claim.ReadObjectID(id)
	if !ok {
		return 0, claim.Response{}, false, nil
	}
	home, err := r.coded(code)
	if err != nil {
		return 0, claim.Response{}, false, err
	}
	if home == r.self {
		state, resp, found, err := r.local.Object(ctx, tenant, home, id)
		return state, resp, found, unreachable(err)
	}
	state, resp, found, err := r.local.ReplicaObject(ctx, tenant, home, id)
	if !found && err == nil {
		state, resp, found, err = r.peers.Object(ctx, home, tenant, id)
	}
	return state, resp, found, unreachable(err)
}

// Package router brings a request to its key's home: here, one hop away, or,
// when the home cannot be reached, to the home's rows without it.
//
// It holds no state but hints, and decides nothing about money. A stale pin, a
// wrong hint or an old view of the membership costs a hop; the claim's own step at
// the home decides what may happen. In particular the store creates a claim under
// an opaque key only if the pin that the router presents is alive by the store's
// clock. Otherwise it returns claim.NeedPin, and the router reads the pin again.
//
// The router tries the cheapest source first. A stamped key names its home. For an
// opaque key whose tenant's registrar is this region, the pin is local, and a new
// key gets it with its claim, in one step. Elsewhere the local claim, the nearest
// replica of the final answer and the nearest replica of the pin cost no round
// trip between regions, and a caller's hint saves the look-up. Only then does the
// router ask the registrar, one round trip away.
//
// # New homes
//
// An opaque key gets its home where it arrives, unless an operator drains that
// region or has marked it down. Then its home is the registrar's region or the
// nearest active one, and the router forwards the request there. The topology that
// a node remembers may be old; the pinning step reads the table itself and refuses
// ([claim.ErrNoNewHomes]). This is safe because the status decides nothing but
// where a key without a home gets one: the pin is still one row, which one region
// wins, and a key that has a home keeps it.
//
// A request may prefer a home ([claim.Request.PreferHome]), so that related
// objects, such as a charge and its refunds, have the same home. It costs a hop.
//
// # Deputies
//
// Where a home cannot be reached (see [region.Outages.Unreachable]), or a forward finds
// that no node of it answers or that it cannot reach its store, this region is its deputy,
// in the same request: it acts on the home's rows itself, through the store. Nothing else
// changes; the key keeps its home. This is safe even if the home is alive behind a
// partition, or other regions are deputies too: every step compares the row, which holds
// the lease and the fence. The home may have run the request whose answer was lost: then
// the row has its outcome, or its holder, and the deputy's request is a twin. Where the
// store cannot reach the rows either, the request fails closed.
//
// An entry that cannot reach its store sends the request, with the same right, to another node of
// its region, or else to one of another region, which finds the home and acts as deputy
// ([Router.Deputy]). That one sends it nowhere else. The entry may have begun the claim by a step
// whose answer was lost: then the deputy finds a holder, as above. It need not wait for that step to fail: where the store answers
// nothing at all, the step goes on while a deputy is asked ([OrElsewhere]), and the row decides.
package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/span"
	"github.com/homeward-io/homeward/region"
)

// Local runs requests on the claims that this node can reach itself.
// *claim.Service implements it.
type Local interface {
	Do(ctx context.Context, home string, req *claim.Request) (claim.Reply, error)
	Replica(ctx context.Context, req *claim.Request) (reply claim.Reply, found bool, pin *claim.Pin, err error)
	Inspect(ctx context.Context, home string, key claim.Key) (claim.Status, bool, error)
	Object(ctx context.Context, tenant, home, id string) (claim.State, claim.Response, bool, error)
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
	Replica(ctx context.Context, key claim.Key) (claim.Shown, error)
	Registrar(ctx context.Context, tenant string) (string, error)
}

// MaxForwards bounds the hops of one request: the first guess and one re-route
// to the home that the guess, or the registrar, named.
const MaxForwards = 2

// replyMargin is subtracted from a caller's deadline when forwarding, so that the entry
// can still report that the home did not answer. Writing a reply takes less than a
// tenth of a second.
const replyMargin = 100 * time.Millisecond

// Config configures a [Router]. All but Deputies, Unready, Ready, Silent, Distance and Meters are required.
type Config struct {
	// Self is the region of the node.
	Self  string
	Local Local
	Peers Peers
	// Deputies forwards to a node of the region in its calls, which finds the home by itself; pass
	// [region.Peers.Deputies]. Nil: no request is sent to one.
	Deputies Peers
	Pins     Pins
	Topology *region.Topology
	// Unreachable reports whether a call to a region would be wasted, for Self one to the other nodes
	// there; pass [region.Outages.Unreachable].
	Unreachable func(region string) bool
	// Unready reports whether the nodes of a region said that they cannot record a charge; for Self,
	// whether this node said so. A hint.
	Unready func(region string) bool
	// Ready returns an error if this node cannot record a charge now. It is asked when its store has
	// given no answer, which may also have been for want of room.
	Ready func(ctx context.Context) error
	// Silent reports, within a second, whether this node's store answers nothing at all. It is asked
	// while a request waits. Nil: a store that always answers.
	Silent func(ctx context.Context) bool
	// Distance makes the router prefer near regions while Self takes no new homes; pass
	// [region.Membership.RTT].
	Distance func(region string) (time.Duration, bool)
	// Meters count look-ups of pins by outcome.
	Meters *meter.Set
}

// Router sends requests to their key's home. It is safe for concurrent use.
type Router struct {
	Config
	pinCount *meter.Counter
}

// New returns a router.
func New(c Config) *Router {
	if c.Distance == nil {
		c.Distance = func(string) (time.Duration, bool) { return 0, false }
	}
	if c.Unready == nil {
		c.Unready = func(string) bool { return false }
	}
	if c.Ready == nil {
		c.Ready = func(context.Context) error { return nil }
	}
	return &Router{c, c.Meters.Counter(meter.Pins)}
}

// Deputy returns a router for the requests of entries that cannot reach their store. It acts on the
// rows of every home itself, and forwards nothing.
func (r *Router) Deputy() *Router {
	deputy := *r
	deputy.Deputies = nil
	deputy.Unreachable = func(region string) bool { return region != r.Self }
	return &deputy
}

// deputises reports whether this region acts for home after a forward there ended with
// err; nil: none was tried. A forward that ended with its caller's time says nothing.
func (r *Router) deputises(home string, err error) bool {
	if err == nil {
		return r.wasted(home)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return r.Unreachable(home)
	}
	return errors.Is(err, region.ErrNoNode) || errors.Is(err, region.ErrNoAnswer) || errors.Is(err, claim.ErrUnavailable)
}

// wasted reports whether a forward to region would be.
func (r *Router) wasted(region string) bool { return r.Unreachable(region) || r.Unready(region) }

// OrElsewhere returns what here returns, or, where this node cannot reach its store, what a deputy
// does: another node of this region, or else one of another active region, the nearest that can be
// reached. code is that of the home that a key or an id names, 0 for none. If this node said that it cannot record a charge, it asks
// elsewhere first, which saves the wait for the store. If its store answers nothing while here
// waits, it asks elsewhere, too, and here goes on: its answer counts if no deputy has one, and its
// context ends with OrElsewhere. Each gets what the one before it has returned, or the zero value.
func OrElsewhere[T any](ctx context.Context, r *Router, code claim.RegionCode, here func(ctx context.Context, so T) (T, error), deputy func(region string, so T) (T, error)) (T, error) {
	var none T
	if r.Deputies == nil {
		return Attended(ctx, r, func(ctx context.Context) (T, error) { return here(ctx, none) })
	}
	home, named := r.Topology.ByCode(code)
	if r.Unready(r.Self) && (!named || home.Name == r.Self || r.wasted(home.Name)) {
		so, answered, err := askDeputies(ctx, r, none, deputy)
		if answered {
			return so, err
		}
		return here(ctx, so)
	}
	e, goesOn, cancel := attend(ctx, r, here)
	defer cancel()
	if goesOn == nil && (!errors.Is(e.err, claim.ErrUnavailable) || ctx.Err() != nil || r.Ready(ctx) == nil) {
		return e.got, e.err
	}
	if so, answered, err := askDeputies(ctx, r, e.got, deputy); answered {
		return so, err
	}
	if goesOn != nil {
		e = <-goesOn
	}
	return e.got, e.err
}

// askDeputies asks one deputy after the other, until one has reached its store, and returns what the last
// of them has returned. answered is false if none had.
func askDeputies[T any](ctx context.Context, r *Router, so T, deputy func(region string, so T) (T, error)) (got T, answered bool, err error) {
	for _, at := range r.elsewhere() {
		if ctx.Err() != nil {
			break
		}
		if so, err = deputy(at, so); reached(err) {
			return so, true, err
		}
	}
	return so, false, err
}

// elsewhere returns the regions whose nodes this one asks if it cannot reach its store: first its own.
func (r *Router) elsewhere() []string {
	var names []string
	for _, other := range r.otherHomes("") {
		if len(names) < MaxForwards && !r.wasted(other.Name) {
			names = append(names, other.Name)
		}
	}
	if !r.Unreachable(r.Self) {
		names = slices.Insert(names, 0, r.Self)
	}
	return names
}

// Attended returns what here returns, or [claim.ErrUnavailable] once this node's store answers nothing,
// at once if this node said that it cannot record a charge: the entry that has sent the request here
// then acts on the home's rows itself, or asks another. here goes on, under a context that has ended.
func Attended[T any](ctx context.Context, r *Router, here func(ctx context.Context) (T, error)) (got T, err error) {
	if r.Unready(r.Self) {
		return got, errSilent
	}
	e, goesOn, cancel := attend(ctx, r, func(ctx context.Context, _ T) (T, error) { return here(ctx) })
	defer cancel()
	if goesOn != nil {
		return got, errSilent
	}
	return e.got, e.err
}

// errSilent is how the wait for a store ends that answers nothing.
var errSilent = fmt.Errorf("%w: the store answers nothing", claim.ErrUnavailable)

// listenEvery is how long a request waits before the router asks whether the store answers, and then
// again. A request at home seldom takes longer, beside its provider.
const listenEvery = 200 * time.Millisecond

// end is how a function ended.
type end[T any] struct {
	got T
	err error
}

// attend runs here and returns how it ended, or, once this node's store answers nothing, unless here
// waits for another region, the channel on which that comes. cancel ends the context of a here that
// goes on.
func attend[T any](ctx context.Context, r *Router, here func(ctx context.Context, so T) (T, error)) (e end[T], goesOn <-chan end[T], cancel func()) {
	var none T
	if r.Silent == nil {
		e.got, e.err = here(ctx, none)
		return e, nil, func() {}
	}
	ctx, cancel = context.WithCancel(ctx)
	var away atomic.Bool
	ended := make(chan end[T], 1)
	go func() {
		var e end[T]
		defer func() { ended <- e }()
		defer fault.Recover(&e.err)
		e.got, e.err = here(context.WithValue(ctx, awayKey{}, &away), none)
	}()
	var heard <-chan bool
	listen := time.NewTimer(listenEvery)
	defer listen.Stop()
	for {
		select {
		case e = <-ended:
			return e, nil, cancel
		case <-listen.C:
			asked := make(chan bool, 1)
			go func() { asked <- !r.Silent(ctx) }()
			heard = asked
		case yes := <-heard:
			if !yes && !away.Load() {
				return e, ended, cancel
			}
			listen.Reset(listenEvery)
		}
	}
}

type awayKey struct{}

// leaves marks that what ctx is for waits for another region, until back is called.
func leaves(ctx context.Context) (back func()) {
	away, attended := ctx.Value(awayKey{}).(*atomic.Bool)
	if !attended {
		return func() {}
	}
	away.Store(true)
	return func() { away.Store(false) }
}

// reached reports whether a deputy that answered with err had reached its store, or err is nil.
func reached(err error) bool {
	for _, failed := range []error{claim.ErrUnavailable, region.ErrNoNode, region.ErrNoAnswer, region.ErrPeerFailed, region.ErrRefused, region.ErrHopLimit} {
		if errors.Is(err, failed) {
			return false
		}
	}
	return true
}

// trip is the route of one request: it counts forwards.
type trip struct {
	*Router
	req       claim.Request
	hops      int
	registrar string // the tenant's, "" for a stamped key
	homeName  string // the home, once the key or its pin has named it
	asked     string // the last other region that got a forward, and has had its say
	// For the trace: the registrar returned the pin; a replica had the final answer.
	pinRead, remembered bool
	away                time.Duration // that forwards took
}

// Do runs req at its key's home, here or by a forward, and returns the answer.
// hint is the home that the caller sent, or "". Errors are claim's typed
// errors, or wrap [ErrHomeUnavailable].
func (r *Router) Do(ctx context.Context, req claim.Request, hint string) (claim.Reply, error) {
	ctx, sp := span.Start(ctx, span.Route)
	defer sp.End()
	if req.Began.IsZero() {
		req.Began = time.Now()
	}
	type answer struct {
		*trip
		reply claim.Reply
	}
	// on returns the trip of so, or a new one, with a request of its own: two may be under way.
	on := func(so answer) *trip {
		if so.trip != nil {
			return so.trip
		}
		return &trip{Router: r, req: req}
	}
	got, err := OrElsewhere(ctx, r, req.Stamp, func(ctx context.Context, so answer) (answer, error) {
		t := on(so)
		reply, err := t.run(ctx, hint)
		return answer{t, reply}, err
	}, func(deputy string, so answer) (answer, error) {
		t := on(so)
		if t.hops == MaxForwards && deputy != t.Self || deputy == t.asked {
			return answer{t, claim.Reply{}}, region.ErrHopLimit
		}
		reply, err := t.execute(ctx, r.Deputies, deputy)
		return answer{t, reply}, err
	})
	t, reply := on(got), got.reply
	if req.CompareOnly && errors.Is(err, claim.ErrNeedPin) {
		err = claim.ErrNoClaim
	}
	reply.Hops, err = t.hops, unreachable(err)
	reply.Away += t.away
	if reply.Home == "" {
		reply.Home = t.homeName
	}
	reply.Way = t.way(&reply)
	t.trace(sp, &reply, err)
	return reply, err
}

func (t *trip) run(ctx context.Context, hint string) (claim.Reply, error) {
	if t.req.Stamp != 0 {
		home, err := t.coded(t.req.Stamp)
		if err != nil {
			return claim.Reply{}, err
		}
		return t.at(ctx, home)
	}
	registrar, err := t.Pins.Registrar(ctx, t.req.Key.Tenant)
	if err != nil {
		return claim.Reply{}, err
	}
	t.registrar = registrar
	if registrar == t.Self {
		_, ok := t.Topology.ByName(hint)
		return t.pinned(ctx, ok && hint != t.Self)
	}
	return t.searched(ctx, hint)
}

// coded returns the region of a stamp. A code that is not in this node's topology belongs to a
// region that it has not read yet, never to an opaque key: otherwise the key would get a second
// home.
func (r *Router) coded(code claim.RegionCode) (string, error) {
	home, ok := r.Topology.ByCode(code)
	if !ok {
		return "", fmt.Errorf("%w: region code %d is not in this node's topology", ErrHomeUnavailable, code)
	}
	return home.Name, nil
}

// pinned asks the registrar, which pins the key if it has no home.
//
// Unless elsewhere is true, this is the registrar's region, and a key without a home gets
// it together with its claim, in one step of the store. That costs a look-up if the home is
// elsewhere.
func (t *trip) pinned(ctx context.Context, elsewhere bool) (claim.Reply, error) {
	var reply claim.Reply
	var err error
	if t.req.PinHere = t.req.PinnedAt.IsZero() && !elsewhere && t.pinsHere(); t.req.PinHere {
		reply, err = t.Local.Do(ctx, t.Self, &t.req)
		if !errors.Is(err, claim.ErrNeedPin) {
			t.pinnedHere(err)
			return reply, err
		}
		t.req.PinHere = false
	}
	// Twice: a pin may run out between the look-up and the claim's own step.
	for range 2 {
		pin, perr := t.home(ctx)
		if perr != nil {
			return claim.Reply{}, perr
		}
		t.req.PinnedAt = pin.CreatedAt
		reply, err = t.at(ctx, pin.Home)
		if !errors.Is(err, claim.ErrNeedPin) || t.req.CompareOnly {
			break
		}
	}
	return reply, err
}

// pinsHere reports whether the key, if it has no home, gets this region as its home.
func (t *trip) pinsHere() bool {
	if t.req.CompareOnly {
		return false
	}
	here, _ := t.Topology.ByName(t.Self)
	near, ok := t.Topology.ByCode(t.req.PreferHome)
	return here.Status == region.Active && (!ok || near.Name == t.Self || near.Status != region.Active)
}

// home finds the key's home. A key without one gets the preferred region, or else this one. While
// an operator keeps new homes away from that region, the key gets the registrar's region or the
// nearest active one. What this node remembers of the topology only orders the attempts: the
// pinning step reads the table itself, and refuses.
//
// A compare-only request gives no key a home. Only the registrar can tell whether the key has one,
// so no other region has to answer.
func (t *trip) home(ctx context.Context) (claim.Pin, error) {
	if t.req.CompareOnly {
		pin, err := t.pin(ctx, "")
		if errors.Is(err, claim.ErrNoNewHomes) {
			err = claim.ErrNeedPin
		}
		return pin, err
	}
	// This includes a home that cannot be reached: its rows hold the claim, and this region
	// acts on them as its deputy.
	if near, ok := t.Topology.ByCode(t.req.PreferHome); ok && near.Status == region.Active {
		pin, err := t.pin(ctx, near.Name)
		if !errors.Is(err, claim.ErrNoNewHomes) {
			return pin, err
		}
	}
	if here, _ := t.Topology.ByName(t.Self); here.Status == region.Active {
		pin, err := t.pin(ctx, t.Self)
		if !errors.Is(err, claim.ErrNoNewHomes) {
			return pin, err
		}
	}
	for _, other := range t.otherHomes(t.registrar) {
		pin, err := t.pin(ctx, other.Name)
		if !errors.Is(err, claim.ErrNoNewHomes) {
			return pin, err
		}
	}
	return claim.Pin{}, fmt.Errorf("%w: no region takes new homes", ErrHomeUnavailable)
}

// NewHome returns the region for the stamp of a new key: this one, or, while it takes no new homes or
// this node cannot record a charge, the nearest that does. It returns false if there is none. A key that was stamped before keeps its
// home.
func (r *Router) NewHome() (region.Region, bool) {
	here, ok := r.Topology.ByName(r.Self)
	ok = ok && here.Status == region.Active
	if ok && !r.Unready(r.Self) {
		return here, true
	}
	for _, other := range r.otherHomes("") {
		if !ok || !r.wasted(other.Name) {
			return other, true
		}
	}
	return here, ok
}

// otherHomes are the other regions that take new homes, best first: last those that cannot be
// reached, or cannot record a charge, whose keys this region would have to serve as their deputy.
func (r *Router) otherHomes(first string) []region.Region {
	homes := r.Topology.Homes(r.Self, first, r.Distance)
	return slices.Concat(
		slices.DeleteFunc(slices.Clone(homes), func(h region.Region) bool { return h.Name == r.Self || r.wasted(h.Name) }),
		slices.DeleteFunc(homes, func(h region.Region) bool { return h.Name == r.Self || !r.wasted(h.Name) }))
}

// searched tries the sources that cost no round trip, then the hint, then the
// registrar.
func (t *trip) searched(ctx context.Context, hint string) (claim.Reply, error) {
	// Without a pin this acts on a living claim only, and a claim that lives here
	// proves that the home is here.
	reply, err := t.Local.Do(ctx, t.Self, &t.req)
	if !errors.Is(err, claim.ErrNeedPin) {
		return reply, err
	}
	reply, found, pin, err := t.replica(ctx)
	if found || err != nil {
		return reply, err
	}
	if pin != nil {
		t.req.PinnedAt, hint, t.homeName = pin.CreatedAt, pin.Home, pin.Home
	}
	// A hint at a region that cannot be reached saves nothing.
	_, ok := t.Topology.ByName(hint)
	if ok && hint != t.Self && (!t.req.PinnedAt.IsZero() || !t.wasted(hint)) {
		reply, err := t.forward(ctx, hint)
		if !errors.Is(err, claim.ErrNeedPin) && !errors.Is(err, claim.ErrUnavailable) && !errors.Is(unreachable(err), ErrHomeUnavailable) {
			return reply, err
		}
		if !t.req.PinnedAt.IsZero() && !errors.Is(err, claim.ErrNeedPin) {
			return reply, err // the pin is no hint: there is no other home to try
		}
	}
	return t.pinned(ctx, true)
}

// at runs the request at its home.
func (t *trip) at(ctx context.Context, home string) (claim.Reply, error) {
	t.homeName = home
	if home == t.Self {
		return t.Local.Do(ctx, home, &t.req)
	}
	if reply, found, _, err := t.replica(ctx); found || err != nil {
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
		return claim.Reply{}, fmt.Errorf("%w: %s answered that it is not the home and named %q", ErrHomeUnavailable, home, wrong.Home)
	}
	t.homeName = wrong.Home
	if wrong.Home == t.Self {
		return t.Local.Do(ctx, t.Self, &t.req)
	}
	return t.send(ctx, wrong.Home)
}

func (t *trip) send(ctx context.Context, home string) (claim.Reply, error) {
	if t.deputises(home, nil) {
		return t.Local.Do(ctx, home, &t.req)
	}
	reply, err := t.execute(ctx, t.Peers, home)
	// The home may have executed it; the row decides. What a caller hints is no proof that it is
	// the home.
	proven := t.req.Stamp != 0 || !t.req.PinnedAt.IsZero()
	if err != nil && ctx.Err() == nil && proven && t.deputises(home, err) {
		return t.Local.Do(ctx, home, &t.req)
	}
	return reply, err
}

// abandonPoll is how often a waiting forward checks whether its region can still be reached.
const abandonPoll = 500 * time.Millisecond

// execute forwards to a node of region to and stops once that cannot be reached. Otherwise a silent
// region would hold the request until each of its connections times out, node by node.
func (t *trip) execute(ctx context.Context, by Peers, to string) (claim.Reply, error) {
	defer leaves(ctx)()
	if to != t.Self { // a call within the region is no hop
		t.hops, t.asked = t.hops+1, to
	}
	began := time.Now()
	defer func() { t.away += time.Since(began) }()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	waiting := ctx
	go t.abandon(to, waiting.Done(), func() { giveUp(region.ErrNoNode) })
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-replyMargin))
		defer cancel()
	}
	// The way there counts, too. It is at most a recent round trip.
	req := t.req
	if rtt, measured := t.Distance(to); measured {
		req.Began = req.Began.Add(-rtt)
	}
	reply, err := by.Execute(ctx, to, req, max(t.hops, 1), t.Self)
	if err != nil && errors.Is(context.Cause(waiting), region.ErrNoNode) {
		err = fmt.Errorf("%w: %v", region.ErrNoNode, err) // whether or not it can be reached again by now
	}
	return reply, err
}

// abandon calls giveUp once home cannot be reached, and ends with done.
func (r *Router) abandon(home string, done <-chan struct{}, giveUp func()) {
	tick := time.NewTicker(abandonPoll)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if r.Unreachable(home) {
				giveUp()
				return
			}
		}
	}
}

// Inspect returns the state of a key, read with authority at its home.
func (r *Router) Inspect(ctx context.Context, key claim.Key, hint string) (claim.Status, bool, error) {
	type answer struct {
		status claim.Status
		found  bool
	}
	code, _ := claim.ReadStamp(key.Value)
	got, err := OrElsewhere(ctx, r, code, func(ctx context.Context, _ answer) (a answer, err error) {
		a.status, a.found, err = r.inspect(ctx, key, hint)
		return a, err
	}, func(deputy string, _ answer) (a answer, err error) {
		a.status, a.found, err = r.Deputies.Inspect(ctx, deputy, key)
		return a, err
	})
	return got.status, got.found, unreachable(err)
}

func (r *Router) inspect(ctx context.Context, key claim.Key, hint string) (claim.Status, bool, error) {
	if code, ok := claim.ReadStamp(key.Value); ok {
		home, err := r.coded(code)
		if err != nil {
			return claim.Status{}, false, err
		}
		return r.inspectAt(ctx, home, key)
	}
	status, found, err := r.Local.Inspect(ctx, r.Self, key)
	if found || err != nil {
		return status, found, err
	}
	if shown, err := r.Pins.Replica(ctx, key); err == nil {
		switch { // either proves the home
		case shown.Record != nil:
			return r.inspectAt(ctx, shown.Record.Home, key)
		case shown.Pin != nil:
			return r.inspectAt(ctx, shown.Pin.Home, key)
		}
	}
	// The pin is too young for the replica: ask every region, the hinted one first.
	// Asking must not pin, and this is not a hot path.
	regions := r.Topology.Regions()
	names := make([]string, 0, len(regions)+1)
	if _, exists := r.Topology.ByName(hint); exists {
		names = append(names, hint)
	}
	for _, one := range regions {
		if one.Name != hint {
			names = append(names, one.Name)
		}
	}
	var missed error
	for _, name := range names {
		if name == r.Self {
			continue
		}
		status, found, err := r.inspectAt(ctx, name, key)
		if found {
			return status, true, nil
		}
		missed = errors.Join(missed, err)
	}
	return claim.Status{}, false, missed
}

func (r *Router) inspectAt(ctx context.Context, home string, key claim.Key) (claim.Status, bool, error) {
	if home == r.Self || r.deputises(home, nil) {
		return r.Local.Inspect(ctx, home, key)
	}
	status, found, err := r.Peers.Inspect(ctx, home, key)
	if err != nil && ctx.Err() == nil && r.deputises(home, err) {
		return r.Local.Inspect(ctx, home, key)
	}
	return status, found, err
}

// Object returns an object by its id, which names the home: there it is read with authority, or here
// as its deputy.
func (r *Router) Object(ctx context.Context, tenant, id string) (claim.State, claim.Response, bool, error) {
	_, code, ok := claim.ReadObjectID(id)
	if !ok {
		return 0, claim.Response{}, false, nil
	}
	home, err := r.coded(code)
	if err != nil {
		return 0, claim.Response{}, false, err
	}
	type answer struct {
		state claim.State
		resp  claim.Response
		found bool
	}
	got, err := OrElsewhere(ctx, r, code, func(ctx context.Context, _ answer) (a answer, err error) {
		a.state, a.resp, a.found, err = r.objectAt(ctx, tenant, home, id)
		return a, err
	}, func(deputy string, _ answer) (a answer, err error) {
		a.state, a.resp, a.found, err = r.Deputies.Object(ctx, deputy, tenant, id)
		return a, err
	})
	return got.state, got.resp, got.found, unreachable(err)
}

func (r *Router) objectAt(ctx context.Context, tenant, home, id string) (claim.State, claim.Response, bool, error) {
	if home == r.Self {
		return r.Local.Object(ctx, tenant, home, id)
	}
	if r.deputises(home, nil) {
		return r.Local.Object(ctx, tenant, home, id)
	}
	state, resp, found, err := r.Peers.Object(ctx, home, tenant, id)
	if err != nil && ctx.Err() == nil && r.deputises(home, err) {
		return r.Local.Object(ctx, tenant, home, id)
	}
	return state, resp, found, err
}

package cockroach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// Calls wait for connections in rooms, so that a flood in one of them does not affect
// the others. The rooms are those of
//
//	claims    what ends, keeps or takes over the work of a claim, and books money
//	errands   what else workers and attempts do that were begun
//	arrivals  everything else: requests that arrive, and who asks for operators
//
// each once for rows of the view's own region and once for rows of others, which are
// far and may not answer. A room has calls with a connection and calls that wait for
// one. A free connection goes to the first room in the order above with a waiting call,
// and among arrivals to one tenant after the other. Each room but the first leaves some
// free for those before it, even if nobody is there, so that calls that finish never
// wait for calls that have yet to begin.
//
// A single tenant cannot fill the room of arrivals: a tenant that occupies as many
// places as are free gets no further one. One tenant then has half of it, two have a
// third each, and some is always left for the next. Nor does a tenant with a connection
// get the last free one for that room, so that one tenant's statements, even if all are
// stuck, do not stop another's.
//
// Calls that share their statements (see [group]) occupy a place, and none of them has
// a connection: the statement has one, as a call of no tenant.
//
// A far region may be lost, and each of its calls then keeps its connection until its
// time-out. So regions share the far rooms: one gets a further connection, or place in
// line, only if more are left than it has: one region has half of a far room at most,
// the next half of the rest. So a lost region never has the last one, while fewer than
// three regions are lost in a pool of sixteen.
const (
	claimsNear = iota // in the order in which they are served
	claimsFar
	errandsNear
	errandsFar
	arrivalsNear
	arrivalsFar
	numRooms
)

// rooms share the connections among calls. The zero value has none; see [newRooms].
type rooms struct {
	mu   sync.Mutex
	free int // connections
	all  [numRooms]room
}

// room is one of the rooms; see the constants.
type room struct {
	// most is how many connections its calls have at once, leaves how many they leave
	// free; size bounds the calls that have a connection or wait for one.
	most, leaves, size int
	// apart: no single tenant or region fills it.
	apart bool

	share
	parties map[whose]*party  // those inside
	regions map[string]*share // of those inside that are far, by region
	turn    []*party          // those with waiting calls, in turn
	waits   waits             // so far
}

// waits are the waits for a connection.
type waits struct {
	count int
	took  time.Duration
}

// share counts calls of one room: all of them, or those on rows of one region.
type share struct {
	inside int // they have a connection or wait for one
	placed int // they have one
}

// whose identifies calls: of one tenant, or of none (""), on rows of one region, or of
// the view's own ("").
type whose struct{ tenant, region string }

// party is the calls of one tenant on rows of one region in one room.
type party struct {
	whose
	share
	far     *share // all of its region's, if that is far
	waiting []*ticket
}

// count adds to the counts of calls that are inside and that have a connection.
func (r *room) count(p *party, inside, placed int) {
	for _, s := range []*share{&r.share, &p.share, p.far} {
		if s != nil {
			s.inside += inside
			s.placed += placed
		}
	}
}

// ticket is one call's place in the line.
type ticket struct {
	got   chan struct{} // closed with the connection
	taken bool
}

// newRooms divides conns connections. waiting bounds the waiting calls of each near
// room; a far room has a quarter of that.
//
// Far rooms get few connections, but at least two, so that one lost region does not
// have them all. Arrivals get more of them than calls that finish, because a registrar
// elsewhere makes each new key of a tenant a far arrival even in normal operation.
func newRooms(conns, waiting int) *rooms {
	part := func(oneIn int) int { return max(1, conns/oneIn) }
	distant := func(eighths int) int { return max(2, eighths*conns/8) }
	near, far := conns+waiting, max(1, (conns+waiting)/4)
	// A pool of one or two has none, or one, to spare.
	claims, begun := min(conns-1, part(16)), min(conns-1, max(2, part(4)))
	rs := &rooms{free: conns}
	rs.all = [numRooms]room{
		claimsNear:   {size: near, most: conns},
		claimsFar:    {size: far, most: distant(2), leaves: claims},
		errandsNear:  {size: near, most: part(2), leaves: claims},
		errandsFar:   {size: far, most: distant(2), leaves: claims},
		arrivalsNear: {size: near, most: conns, leaves: begun, apart: true},
		arrivalsFar:  {size: far, most: distant(3), leaves: begun, apart: true},
	}
	for i := range rs.all {
		rs.all[i].parties, rs.all[i].regions = map[whose]*party{}, map[string]*share{}
	}
	return rs
}

// errNoTurn: no connection became free in time. Nothing was sent.
var errNoTurn = errors.New("no connection became free in time; the database is overloaded or does not answer")

// gather admits a call that will share a statement with others, for which one of them
// waits for a connection. It is refused as enter refuses it.
func (rs *rooms) gather(ctx context.Context) (leave func(), err error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r, p, err := rs.admit(ctx, false)
	if err != nil {
		return nil, err
	}
	return func() {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		rs.release(r, p)
	}, nil
}

// enter waits for a connection until turn ends. leave returns it. It is refused at
// once, with [claim.ErrUnavailable], if the room is full.
func (rs *rooms) enter(turn context.Context) (leave func(), err error) {
	return rs.wait(turn, false, func() {})
}

// enterFor is enter for calls that gather admitted: it is not refused because of them. It
// calls waits before it waits.
func (rs *rooms) enterFor(turn context.Context, waits func()) (leave func(), err error) {
	return rs.wait(turn, true, waits)
}

func (rs *rooms) wait(turn context.Context, inside bool, waits func()) (leave func(), err error) {
	rs.mu.Lock()
	r, p, err := rs.admit(turn, inside)
	if err != nil {
		rs.mu.Unlock()
		return nil, err
	}
	mine := &ticket{got: make(chan struct{})}
	if p.waiting = append(p.waiting, mine); len(p.waiting) == 1 {
		r.turn = append(r.turn, p)
	}
	rs.serve()
	rs.mu.Unlock()
	leave = func() { rs.leave(r, p, mine) }
	select {
	case <-mine.got:
		return leave, nil
	default:
	}
	waits()
	began := time.Now()
	defer func() { rs.waited(r, time.Since(began)) }()
	select {
	case <-mine.got:
		return leave, nil
	case <-turn.Done():
		leave()
		return nil, errNoTurn
	}
}

// admit counts a call as inside, if its room has space, or in any case if forced. The
// caller holds the lock.
func (rs *rooms) admit(ctx context.Context, always bool) (*room, *party, error) {
	e := errandOf(ctx)
	r, name := &rs.all[e.room()], whose{e.tenant, e.region}
	p, far := r.parties[name], r.regions[e.region]
	switch {
	case always:
	case r.inside >= r.size:
		return nil, nil, fmt.Errorf("%w: more than %d calls have a connection or wait for one already", claim.ErrUnavailable, r.size)
	case far != nil && far.inside >= r.size-r.inside:
		return nil, nil, fmt.Errorf("%w: too many calls on rows of region %q have a connection or wait for one already; the rest of %d is for other regions", claim.ErrUnavailable, e.region, r.size)
	case r.apart && p != nil && e.tenant != "" && p.inside >= r.size-r.inside:
		return nil, nil, fmt.Errorf("%w: too many calls of tenant %q have a connection or wait for one already; the rest of %d is for others", claim.ErrUnavailable, e.tenant, r.size)
	}
	if e.isAway() && far == nil {
		far = &share{}
		r.regions[e.region] = far
	}
	if p == nil {
		p = &party{whose: name, far: far}
		r.parties[name] = p
	}
	r.count(p, 1, 0)
	return r, p, nil
}

// release undoes admit. The caller holds the lock.
func (rs *rooms) release(r *room, p *party) {
	r.count(p, -1, 0)
	if p.inside == 0 {
		delete(r.parties, p.whose)
	}
	if p.far != nil && p.far.inside == 0 {
		delete(r.regions, p.region)
	}
}

// leave returns the connection of a call, or its place in the line.
func (rs *rooms) leave(r *room, p *party, mine *ticket) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if mine.taken {
		rs.free++
		r.count(p, 0, -1)
	} else {
		p.waiting = slices.DeleteFunc(p.waiting, func(other *ticket) bool { return other == mine })
		if len(p.waiting) == 0 {
			r.turn = slices.DeleteFunc(r.turn, func(other *party) bool { return other == p })
		}
	}
	rs.release(r, p)
	rs.serve()
}

// serve assigns free connections. The caller holds the lock.
func (rs *rooms) serve() {
	for i := range rs.all {
		r := &rs.all[i]
		for {
			at := slices.IndexFunc(r.turn, func(p *party) bool { return rs.may(r, p) })
			if at < 0 {
				break
			}
			p := r.turn[at]
			next := p.waiting[0]
			p.waiting = p.waiting[1:]
			if r.turn = slices.Delete(r.turn, at, at+1); len(p.waiting) > 0 {
				r.turn = append(r.turn, p) // behind the others
			}
			rs.free--
			r.count(p, 0, 1)
			next.taken = true
			close(next.got)
		}
	}
}

// may reports whether p may have one more of the connections that r may have.
func (rs *rooms) may(r *room, p *party) bool {
	spare := min(rs.free-r.leaves, r.most-r.placed)
	switch {
	case spare < 1, p.far != nil && p.far.placed >= spare:
		return false
	case spare == 1 && r.apart && p.tenant != "":
		return p.placed == 0
	}
	return true
}

func (rs *rooms) waited(r *room, d time.Duration) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.waits.count++
	r.waits.took += d
}

// look returns how many calls are in a room, and their waits.
func (rs *rooms) look(i int) (inside int, w waits) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.all[i].inside, rs.all[i].waits
}

// calls returns how many are in all rooms.
func (rs *rooms) calls() (n int) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for i := range rs.all {
		n += rs.all[i].inside
	}
	return n
}

// errand is the purpose of a call, from its ctx.
type errand struct {
	// region is the one whose rows it touches, if that is not the view's, or
	// everywhere; "" for none. claims: it is for their room.
	region        string
	claims, begun bool
	// tenant is the tenant of the request; "" for none.
	tenant string
}

type errandKey struct{}

func errandOf(ctx context.Context) errand {
	e, _ := ctx.Value(errandKey{}).(errand)
	e.begun = outbox.IsBegun(ctx)
	return e
}

// ofTenant marks ctx as that of a tenant's call.
func ofTenant(ctx context.Context, tenant string) context.Context {
	e := errandOf(ctx)
	e.tenant = tenant
	return context.WithValue(ctx, errandKey{}, e)
}

// ofClaims marks ctx as that of a call which ends, renews or takes over a claim.
func ofClaims(ctx context.Context) context.Context {
	e := errandOf(ctx)
	e.claims = true
	return context.WithValue(ctx, errandKey{}, e)
}

// everywhere is the region of calls that need rows of all regions. They hang if any is
// lost, so they share rooms as if they were one more region.
const everywhere = "*"

// away marks ctx for statements on rows of another region, or everywhere.
func away(ctx context.Context, region string) context.Context {
	e := errandOf(ctx)
	e.region = region
	return context.WithValue(ctx, errandKey{}, e)
}

// isAway reports whether ctx is marked for rows elsewhere.
func isAway(ctx context.Context) bool { return errandOf(ctx).isAway() }

func (e errand) isAway() bool { return e.region != "" }

// room returns the room in which such a call waits.
func (e errand) room() int {
	at := arrivalsNear
	switch {
	case e.claims:
		at = claimsNear
	case e.begun:
		at = errandsNear
	}
	if e.isAway() {
		at++
	}
	return at
}

package router

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/region"
)

// world is the three regions as one router in us-east1 sees them: it records the calls in order.
type world struct {
	calls []string
	// local answers Do, by home; nil is a claim that is won.
	local map[string]error
	// peers answers Execute in turn, by region.
	peers     map[string][]error
	replica   bool
	pin       string // the registrar's answer
	replicaAt string // the replica pin's home, "" when there is none
	registrar string
	// needPin: the local claim is absent until a pin is shown.
	needPin bool
	// lost is the region that cannot be reached.
	lost string
	// beside: there is another node here.
	beside bool
	// underWay is the last request's UnderWay.
	underWay time.Duration
}

func (w *world) log(format string, args ...any) {
	w.calls = append(w.calls, fmt.Sprintf(format, args...))
}

func (w *world) Do(_ context.Context, home string, req *claim.Request) (claim.Reply, error) {
	w.underWay = req.UnderWay()
	if req.PinHere {
		w.log("pin and do %s", home)
		if w.pin != home {
			return claim.Reply{}, claim.ErrNeedPin
		}
		return claim.Reply{Home: home}, nil
	}
	w.log("do %s", home)
	if w.needPin && (req.CompareOnly || req.Stamp == 0 && req.PinnedAt.IsZero()) {
		return claim.Reply{}, claim.ErrNeedPin
	}
	if err := w.local[home]; err != nil {
		return claim.Reply{}, err
	}
	return claim.Reply{Home: home}, nil
}

func (w *world) Replica(context.Context, *claim.Request) (claim.Reply, bool, *claim.Pin, error) {
	w.log("replica")
	return claim.Reply{Home: "replica", Replayed: true}, w.replica, w.shownPin(), nil
}

// shownPin is what the replica shows of the pin.
func (w *world) shownPin() *claim.Pin {
	if w.replicaAt == "" {
		return nil
	}
	return &claim.Pin{Home: w.replicaAt, CreatedAt: pinned}
}

func (w *world) Inspect(_ context.Context, home string, _ claim.Key) (claim.Status, bool, error) {
	w.log("inspect %s", home)
	return claim.Status{}, home == w.pin, nil
}

func (w *world) Object(_ context.Context, _, home, _ string) (claim.State, claim.Response, bool, error) {
	w.log("object %s", home)
	return claim.Completed, claim.Response{}, true, nil
}

func (w *world) Pin(context.Context, claim.Key, string) (claim.Pin, error) {
	w.log("pin")
	if w.pin == "" {
		return claim.Pin{}, claim.ErrHomeUnreachable
	}
	return claim.Pin{Home: w.pin, CreatedAt: pinned}, nil
}

func (w *world) Registrar(context.Context, string) (string, error) { return w.registrar, nil }

// rows is the world seen as Pins, which shares a method name with Local.
type rows struct{ *world }

func (r rows) Replica(context.Context, claim.Key) (claim.Shown, error) {
	r.log("replica")
	if r.replica {
		return claim.Shown{Record: &claim.Record{Home: r.pin, State: claim.Completed}}, nil
	}
	return claim.Shown{Pin: r.shownPin()}, nil
}

// far is the world seen as Peers, which shares method names with Local.
type far struct{ *world }

func (f far) Execute(_ context.Context, home string, req claim.Request, hops int, entry string) (claim.Reply, error) {
	f.log("forward %s hop %d pinned %v", home, hops, !req.PinnedAt.IsZero())
	f.underWay = req.UnderWay()
	answers := f.peers[home]
	if len(answers) == 0 {
		return claim.Reply{Home: home}, nil
	}
	f.peers[home] = answers[1:] // a node that is unreachable answers nothing
	return claim.Reply{}, answers[0]
}

func (f far) Inspect(_ context.Context, home string, _ claim.Key) (claim.Status, bool, error) {
	f.log("peer inspect %s", home)
	return claim.Status{}, home == f.pin, nil
}

func (f far) Object(_ context.Context, home, _, _ string) (claim.State, claim.Response, bool, error) {
	f.log("peer object %s", home)
	return claim.Completed, claim.Response{}, true, nil
}

var pinned = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const here, europe, asia = "us-east1", "europe-west1", "asia-northeast1"

func (w *world) router(t *testing.T) *Router {
	t.Helper()
	topology, err := region.NewTopology([]region.Region{{Name: here, Code: 1}, {Name: europe, Code: 2}, {Name: asia, Code: 3}})
	require.NoError(t, err)
	return New(Config{Self: here, Local: w, Peers: far{w}, Pins: rows{w}, Topology: topology, Unreachable: w.unreachable})
}

func (w *world) unreachable(region string) bool {
	return region == w.lost || region == here && !w.beside
}

// request is one under a key, as its entry makes it.
func request(key string) claim.Request {
	stamp, _ := claim.ReadStamp(key)
	return claim.Request{Key: claim.Key{Tenant: "acme", Value: key}, Stamp: stamp}
}

func stamped(t *testing.T, code claim.RegionCode) string {
	t.Helper()
	key, err := claim.Stamp(code, nil)
	require.NoError(t, err)
	return key
}

func TestWays(t *testing.T) {
	wrong := func(home string) error { return &region.WrongHomeError{Home: home} }
	for name, c := range map[string]struct {
		world world
		key   string
		hint  string
		calls []string
		hops  int
		err   error
	}{
		"stamped for here":                       {key: stamped(t, 1), calls: []string{"do us-east1"}},
		"stamped for elsewhere":                  {key: stamped(t, 2), calls: []string{"replica", "forward europe-west1 hop 1 pinned false"}, hops: 1},
		"of our own, for elsewhere":              {key: claim.OwnKey(stamped(t, 2)), calls: []string{"replica", "forward europe-west1 hop 1 pinned false"}, hops: 1},
		"of our own, for here":                   {key: claim.OwnKey(stamped(t, 1)), calls: []string{"do us-east1"}},
		"stamped for elsewhere, finished":        {key: stamped(t, 2), world: world{replica: true}, calls: []string{"replica"}},
		"stamped with a code that no region has": {key: stamped(t, 9), err: ErrHomeUnavailable},
		"opaque, registrar here, first":          {world: world{registrar: here, pin: here}, calls: []string{"pin and do us-east1"}},
		"opaque, registrar here, home elsewhere, hinted": {
			world: world{registrar: here, pin: asia}, hint: asia, calls: []string{"pin", "replica", "forward asia-northeast1 hop 1 pinned true"}, hops: 1},
		"opaque, registrar here, home elsewhere": {world: world{registrar: here, pin: asia}, calls: []string{"pin and do us-east1", "pin", "replica", "forward asia-northeast1 hop 1 pinned true"}, hops: 1},
		"opaque, registrar elsewhere, first":     {world: world{registrar: europe, pin: here, needPin: true}, calls: []string{"do us-east1", "replica", "pin", "do us-east1"}},
		"opaque, registrar elsewhere, retry at home": {
			world: world{registrar: europe}, calls: []string{"do us-east1"}},
		"opaque, finished elsewhere": {world: world{registrar: europe, needPin: true, replica: true}, calls: []string{"do us-east1", "replica"}},
		"opaque, pin on the replica": {
			world: world{registrar: europe, needPin: true, replicaAt: asia},
			calls: []string{"do us-east1", "replica", "forward asia-northeast1 hop 1 pinned true"}, hops: 1},
		"opaque, good hint": {
			world: world{registrar: europe, needPin: true}, hint: asia,
			calls: []string{"do us-east1", "replica", "forward asia-northeast1 hop 1 pinned false"}, hops: 1},
		"opaque, wrong hint costs a hop": {
			world: world{registrar: europe, needPin: true, pin: europe, peers: map[string][]error{asia: {claim.ErrNeedPin}}}, hint: asia,
			calls: []string{"do us-east1", "replica", "forward asia-northeast1 hop 1 pinned false", "pin", "replica", "forward europe-west1 hop 2 pinned true"}, hops: 2},
		"a hint that is down is only a hint": {
			world: world{registrar: europe, needPin: true, pin: here, peers: map[string][]error{asia: {region.ErrNoNode}}}, hint: asia,
			calls: []string{"do us-east1", "replica", "forward asia-northeast1 hop 1 pinned false", "pin", "do us-east1"}, hops: 1},
		"a hint of nowhere is ignored": {
			world: world{registrar: europe, needPin: true, pin: here}, hint: "mars",
			calls: []string{"do us-east1", "replica", "pin", "do us-east1"}},
		"a pinned home that does not answer: its rows without it": {
			world: world{registrar: europe, needPin: true, replicaAt: asia, peers: map[string][]error{asia: {region.ErrNoAnswer}}},
			calls: []string{"do us-east1", "replica", "forward asia-northeast1 hop 1 pinned true", "do asia-northeast1"}, hops: 1},
		"a pinned home without its rows: there is no other to try": {
			world: world{
				registrar: europe, needPin: true, pin: asia, replicaAt: asia, peers: map[string][]error{asia: {region.ErrNoAnswer}},
				local: map[string]error{asia: claim.ErrHomeUnreachable},
			},
			calls: []string{"do us-east1", "replica", "forward asia-northeast1 hop 1 pinned true", "do asia-northeast1"}, hops: 1, err: ErrHomeUnavailable},
		"the typed correction is followed once": {
			key: stamped(t, 2), world: world{peers: map[string][]error{europe: {wrong(asia)}}},
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false", "forward asia-northeast1 hop 2 pinned false"}, hops: 2},
		"and not twice": {
			key: stamped(t, 2), world: world{peers: map[string][]error{europe: {wrong(asia)}, asia: {wrong(europe)}}},
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false", "forward asia-northeast1 hop 2 pinned false"}, hops: 2, err: ErrHomeUnavailable},
		"nor after a hint has cost a hop": {
			world: world{registrar: europe, needPin: true, pin: europe, peers: map[string][]error{asia: {claim.ErrNeedPin}, europe: {wrong(asia)}}}, hint: asia,
			calls: []string{"do us-east1", "replica", "forward asia-northeast1 hop 1 pinned false", "pin", "replica", "forward europe-west1 hop 2 pinned true"}, hops: 2, err: ErrHomeUnavailable},
		"nor to the region that says it": {
			key: stamped(t, 2), world: world{peers: map[string][]error{europe: {wrong(europe)}}},
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false"}, hops: 1, err: ErrHomeUnavailable},
		"a correction to here is run here": {
			key: stamped(t, 2), world: world{peers: map[string][]error{europe: {wrong(here)}}},
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false", "do us-east1"}, hops: 1},
		"registrar unreachable": {
			world: world{registrar: europe, needPin: true},
			calls: []string{"do us-east1", "replica", "pin"}, err: ErrHomeUnavailable},
		"the home's answer passes": {
			key: stamped(t, 2), world: world{peers: map[string][]error{europe: {claim.ErrMismatch}}},
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false"}, hops: 1, err: claim.ErrMismatch},
		"a home that cannot be reached: its rows without it": {
			key: stamped(t, 2), world: world{lost: europe},
			calls: []string{"replica", "do europe-west1"}},
		"a home that does not answer: its rows at once": {
			key: stamped(t, 2), world: world{peers: map[string][]error{europe: {region.ErrNoAnswer}}},
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false", "do europe-west1"}, hops: 1},
		"a home without nodes: its rows at once": {
			key: stamped(t, 2), world: world{peers: map[string][]error{europe: {region.ErrNoNode}}},
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false", "do europe-west1"}, hops: 1},
		"a home that cannot reach its store: its rows at once": {
			key: stamped(t, 2), world: world{peers: map[string][]error{europe: {claim.ErrUnavailable}}},
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false", "do europe-west1"}, hops: 1},
		"neither the home nor this region reaches the store": {
			key: stamped(t, 2), world: world{local: map[string]error{europe: claim.ErrUnavailable}, peers: map[string][]error{europe: {claim.ErrUnavailable}}},
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false", "do europe-west1"}, hops: 1, err: claim.ErrUnavailable},
		"the caller's time ends before a home's answer": {
			key: stamped(t, 2), world: world{peers: map[string][]error{europe: {fmt.Errorf("%w: %w", region.ErrNoAnswer, context.DeadlineExceeded)}}},
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false"}, hops: 1, err: ErrHomeUnavailable},
		"a home that failed can be reached": {
			key: stamped(t, 2), world: world{peers: map[string][]error{europe: {region.ErrPeerFailed}}},
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false"}, hops: 1, err: ErrHomeUnavailable},
		"a home that cannot be reached, and a store that cannot reach its rows": {
			key: stamped(t, 2), world: world{lost: europe, local: map[string]error{europe: claim.ErrUnavailable}},
			calls: []string{"replica", "do europe-west1"}, err: claim.ErrUnavailable},
		"a pinned home that cannot be reached": {
			world: world{registrar: europe, needPin: true, replicaAt: asia, lost: asia},
			calls: []string{"do us-east1", "replica", "do asia-northeast1"}},
		"a hint that cannot be reached is only a hint": {
			world: world{registrar: europe, needPin: true, pin: here, lost: asia}, hint: asia,
			calls: []string{"do us-east1", "replica", "pin", "do us-east1"}},
		"a store that is down here is not a home that is away": {
			key: stamped(t, 1), world: world{local: map[string]error{here: claim.ErrUnavailable}},
			calls: []string{"do us-east1"}, err: claim.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			key := c.key
			if key == "" {
				key = "order-1"
			}
			reply, err := c.world.router(t).Do(t.Context(), request(key), c.hint)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.calls, c.world.calls)
			require.Equal(t, c.hops, reply.Hops)
			if c.err == claim.ErrUnavailable {
				require.NotErrorIs(t, err, ErrHomeUnavailable)
			}
		})
	}
}

// Beside an error the reply names the home of the key or its pin, or the one that the home itself
// answered.
func TestErrorsNameTheHome(t *testing.T) {
	for name, c := range map[string]struct {
		world world
		key   string
		home  string
	}{
		"stamped, failed":         {key: stamped(t, 2), world: world{peers: map[string][]error{europe: {region.ErrPeerFailed}}}, home: europe},
		"stamped, here":           {key: stamped(t, 1), world: world{local: map[string]error{here: claim.ErrMismatch}}, home: here},
		"corrected":               {key: stamped(t, 2), world: world{peers: map[string][]error{europe: {&region.WrongHomeError{Home: asia}}, asia: {region.ErrPeerFailed}}}, home: asia},
		"pinned, failed":          {key: "k", world: world{registrar: here, pin: asia, peers: map[string][]error{asia: {region.ErrPeerFailed}}}, home: asia},
		"pinned by the replica":   {key: "k", world: world{registrar: europe, needPin: true, replicaAt: asia, peers: map[string][]error{asia: {region.ErrPeerFailed}}}, home: asia},
		"opaque, no registrar":    {key: "k", world: world{registrar: europe, needPin: true}, home: ""},
		"a code that is not here": {key: stamped(t, 9), home: ""},
	} {
		reply, err := c.world.router(t).Do(t.Context(), request(c.key), "")
		require.Error(t, err, name)
		require.Equal(t, c.home, reply.Home, name)
	}
}

// The way to the home counts as time under way, or a twin that was held up there
// could pass for a request that began after the decline it is to share.
func TestAForwardCountsItsWay(t *testing.T) {
	w := &world{}
	r := w.router(t)
	r.Distance = func(string) (time.Duration, bool) { return time.Minute, true }
	_, err := r.Do(t.Context(), request(stamped(t, 2)), "")
	require.NoError(t, err)
	require.GreaterOrEqual(t, w.underWay, time.Minute)
	_, err = r.Do(t.Context(), request(stamped(t, 1)), "")
	require.NoError(t, err)
	require.Less(t, w.underWay, time.Minute)
}

// A pin that runs out between the look and the claim's own step is looked at
// again, once.
func TestARouterSentBackLooksAgain(t *testing.T) {
	w := &world{registrar: here, pin: asia, peers: map[string][]error{asia: {claim.ErrNeedPin}}}
	_, err := w.router(t).Do(t.Context(), request("k"), "")
	require.NoError(t, err)
	require.Equal(t, []string{
		"pin and do us-east1", "pin", "replica", "forward asia-northeast1 hop 1 pinned true",
		"pin", "replica", "forward asia-northeast1 hop 2 pinned true",
	}, w.calls)
	w = &world{registrar: here, pin: asia, peers: map[string][]error{asia: {claim.ErrNeedPin, claim.ErrNeedPin}}}
	_, err = w.router(t).Do(t.Context(), request("k"), "")
	require.ErrorIs(t, err, ErrHomeUnavailable)
}

func TestObjectsGoHomeByTheirID(t *testing.T) {
	id, err := claim.NewObjectID("ch", 2, nil)
	require.NoError(t, err)
	w := &world{}
	_, _, found, err := w.router(t).Object(t.Context(), "acme", id)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, []string{"peer object europe-west1"}, w.calls)
	_, _, found, err = w.router(t).Object(t.Context(), "acme", "ch_nonsense")
	require.NoError(t, err)
	require.False(t, found)
}

// A forward that hangs is given up once its region is lost.
func TestAHangingForwardEndsWithTheRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		topology, err := region.NewTopology([]region.Region{{Name: here, Code: 1}, {Name: europe, Code: 2}})
		require.NoError(t, err)
		began := time.Now()
		lost := func(string) bool { return time.Since(began) >= 3*time.Second }
		r := New(Config{Self: here, Local: w, Peers: hanging{far{w}}, Pins: rows{w}, Topology: topology, Unreachable: lost})
		_, err = r.Do(t.Context(), request(stamped(t, 2)), "")
		require.NoError(t, err)
		require.Equal(t, []string{"replica", "do europe-west1"}, w.calls)
		require.Less(t, time.Since(began), 3*time.Second+2*abandonPoll)

		// One that the caller gives up on is no reason to act.
		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = r.Do(ctx, request(stamped(t, 2)), "")
		require.ErrorIs(t, err, ErrHomeUnavailable)
	})
}

// hanging are peers that answer nothing.
type hanging struct{ far }

func (hanging) Execute(ctx context.Context, home string, _ claim.Request, _ int, _ string) (claim.Reply, error) {
	<-ctx.Done()
	return claim.Reply{}, fmt.Errorf("%w in %s: %w", region.ErrNoAnswer, home, ctx.Err())
}

func TestDeputiesLookThemselves(t *testing.T) {
	id, err := claim.NewObjectID("ch", 2, nil)
	require.NoError(t, err)
	w := &world{lost: europe}
	_, _, found, err := w.router(t).Object(t.Context(), "acme", id)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, []string{"object europe-west1"}, w.calls)
	w = &world{lost: europe, pin: europe}
	_, found, err = w.router(t).Inspect(t.Context(), claim.Key{Tenant: "acme", Value: stamped(t, 2)}, "")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, []string{"inspect europe-west1"}, w.calls)
}

// Inspecting an opaque key that nobody pinned must not pin it.
func TestInspectingNeverPins(t *testing.T) {
	w := &world{registrar: europe}
	_, found, err := w.router(t).Inspect(t.Context(), claim.Key{Tenant: "acme", Value: "order-1"}, asia)
	require.NoError(t, err)
	require.False(t, found)
	require.Equal(t, []string{"inspect us-east1", "replica", "peer inspect asia-northeast1", "peer inspect europe-west1"}, w.calls)
}

// A replica's answer or pin of an opaque key names where to inspect it: no other region has to
// answer.
func TestInspectingGoesWhereAReplicaPoints(t *testing.T) {
	for name, w := range map[string]world{
		"the answer": {registrar: europe, pin: asia, replica: true},
		"the pin":    {registrar: europe, pin: asia, replicaAt: asia},
	} {
		t.Run(name, func(t *testing.T) {
			_, found, err := w.router(t).Inspect(t.Context(), claim.Key{Tenant: "acme", Value: "order-1"}, "")
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, []string{"inspect us-east1", "replica", "peer inspect " + asia}, w.calls)
		})
	}
}

// A replica shows a pin of a region that this node has not read yet. The router must not act here:
// it asks the registrar.
func TestAPinOfAnUnknownRegionIsReadAgain(t *testing.T) {
	w := world{registrar: europe, pin: europe, replicaAt: "mars-north1", needPin: true}
	_, err := w.router(t).Do(t.Context(), claim.Request{Key: claim.Key{Tenant: "acme", Value: "k"}}, "")
	require.NoError(t, err)
	require.Equal(t, []string{"do us-east1", "replica", "pin", "replica", "forward europe-west1 hop 1 pinned true"}, w.calls)
}

// A region that answers pings again just after a forward there was given up: the caller has time left, and
// the forward was not ended by it.
func TestAForwardThatWasGivenUpIsServedThoughTheRegionIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		topology, err := region.NewTopology([]region.Region{{Name: here, Code: 1}, {Name: europe, Code: 2}})
		require.NoError(t, err)
		asked := 0
		lost := func(string) bool { asked++; return asked == 3 } // not at first; at the second tick; not after it
		r := New(Config{Self: here, Local: w, Peers: hanging{far{w}}, Pins: rows{w}, Topology: topology, Unreachable: lost})
		began := time.Now()
		_, err = r.Do(t.Context(), request(stamped(t, 2)), "")
		require.NoError(t, err, "after %v, calls %v", time.Since(began), w.calls)
	})
}

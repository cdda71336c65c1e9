package router

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/region"
)

// deputies is the world seen as the deputies in other regions.
type deputies struct {
	*world
	answers map[string]error // by region
}

func (d deputies) Execute(_ context.Context, at string, _ claim.Request, hops int, entry string) (claim.Reply, error) {
	d.log("deputy %s hop %d for %s", at, hops, entry)
	return claim.Reply{Home: here, ServedBy: at}, d.answers[at]
}

func (d deputies) Inspect(_ context.Context, at string, _ claim.Key) (claim.Status, bool, error) {
	d.log("deputy inspects %s", at)
	return claim.Status{}, true, d.answers[at]
}

func (d deputies) Object(_ context.Context, at, _, _ string) (claim.State, claim.Response, bool, error) {
	d.log("deputy's object %s", at)
	return claim.Completed, claim.Response{}, true, d.answers[at]
}

// cut has the registrar's row out of reach, too.
type cut struct{ rows }

func (c cut) Registrar(context.Context, string) (string, error) {
	c.log("registrar")
	return "", claim.ErrUnavailable
}

func europeIsNear(region string) (time.Duration, bool) {
	return map[string]time.Duration{europe: 80 * time.Millisecond, asia: 150 * time.Millisecond}[region], true
}

// An entry that cannot reach its store has a deputy in another region answer, in the same request;
// no request is sent on for ever.
func TestAnEntryThatCannotReachItsStore(t *testing.T) {
	down := map[string]error{here: claim.ErrUnavailable, europe: claim.ErrUnavailable, asia: claim.ErrUnavailable}
	for name, c := range map[string]struct {
		world    world
		key      string
		unready  []string // by gossip; here: as this node said
		recovers bool     // the check finds that this node can record a charge
		answers  map[string]error
		calls    []string
		hops     int
		err      error
	}{
		"its own key": {key: stamped(t, 1), calls: []string{"do us-east1", "deputy europe-west1 hop 1 for us-east1"}, hops: 1},
		"the pin cannot be read": {
			key: "order-1", calls: []string{"registrar", "deputy europe-west1 hop 1 for us-east1"}, hops: 1},
		"it has said so: it does not wait for the store": {
			key: stamped(t, 1), unready: []string{here}, calls: []string{"deputy europe-west1 hop 1 for us-east1"}, hops: 1},
		"another node of its region: no hop": {
			key: stamped(t, 1), world: world{beside: true}, calls: []string{"do us-east1", "deputy us-east1 hop 1 for us-east1"}},
		"that cannot either: another region": {
			key: "order-1", world: world{beside: true}, answers: map[string]error{here: claim.ErrUnavailable, europe: claim.ErrUnavailable},
			calls: []string{"registrar", "deputy us-east1 hop 1 for us-east1", "deputy europe-west1 hop 1 for us-east1", "deputy asia-northeast1 hop 2 for us-east1"}, hops: 2},
		"the home cannot reach its store either: another node, and a third region": {
			key: stamped(t, 2), world: world{beside: true, peers: map[string][]error{europe: {claim.ErrUnavailable}}}, answers: map[string]error{here: region.ErrNoNode},
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false", "do europe-west1", "deputy us-east1 hop 1 for us-east1", "deputy asia-northeast1 hop 2 for us-east1"}, hops: 2},
		"want of room is no lost store": {key: stamped(t, 1), recovers: true, calls: []string{"do us-east1"}, err: claim.ErrUnavailable},
		"a home that can be reached: a forward": {
			key: stamped(t, 2), calls: []string{"replica", "forward europe-west1 hop 1 pinned false"}, hops: 1},
		"the same, and it has said so": {
			key: stamped(t, 2), unready: []string{here}, calls: []string{"forward europe-west1 hop 1 pinned false"}, hops: 1},
		"the home cannot reach its store either: a third": {
			key: stamped(t, 2), world: world{peers: map[string][]error{europe: {claim.ErrUnavailable}}},
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false", "do europe-west1", "deputy asia-northeast1 hop 2 for us-east1"}, hops: 2},
		"the home has said so, too": {
			key: stamped(t, 2), unready: []string{here, europe}, calls: []string{"deputy asia-northeast1 hop 1 for us-east1"}, hops: 1},
		"a deputy that cannot either: the next": {
			key: stamped(t, 1), answers: map[string]error{europe: claim.ErrUnavailable},
			calls: []string{"do us-east1", "deputy europe-west1 hop 1 for us-east1", "deputy asia-northeast1 hop 2 for us-east1"}, hops: 2},
		"a deputy that does not answer: the next": {
			key: stamped(t, 1), answers: map[string]error{europe: region.ErrNoAnswer},
			calls: []string{"do us-east1", "deputy europe-west1 hop 1 for us-east1", "deputy asia-northeast1 hop 2 for us-east1"}, hops: 2},
		"none that said so is asked": {
			key: stamped(t, 1), unready: []string{europe}, calls: []string{"do us-east1", "deputy asia-northeast1 hop 1 for us-east1"}, hops: 1},
		"none that cannot be reached is asked": {
			key: stamped(t, 1), world: world{lost: europe}, calls: []string{"do us-east1", "deputy asia-northeast1 hop 1 for us-east1"}, hops: 1},
		"all have said so: the store is asked": {
			key: stamped(t, 1), unready: []string{here, europe, asia}, calls: []string{"do us-east1"}, err: claim.ErrUnavailable},
		"nobody reaches it": {
			key: stamped(t, 1), answers: down,
			calls: []string{"do us-east1", "deputy europe-west1 hop 1 for us-east1", "deputy asia-northeast1 hop 2 for us-east1"}, hops: 2, err: claim.ErrUnavailable},
		"nobody, and it has said so": {
			key: stamped(t, 1), unready: []string{here}, answers: down,
			calls: []string{"deputy europe-west1 hop 1 for us-east1", "deputy asia-northeast1 hop 2 for us-east1", "do us-east1"}, hops: 2, err: claim.ErrUnavailable},
		"a deputy's answer is the answer": {
			key: stamped(t, 1), answers: map[string]error{europe: claim.ErrMismatch}, calls: []string{"do us-east1", "deputy europe-west1 hop 1 for us-east1"}, hops: 1, err: claim.ErrMismatch},
		"the deputy's store does not reach the rows": {
			key: stamped(t, 1), answers: map[string]error{europe: claim.ErrHomeUnreachable},
			calls: []string{"do us-east1", "deputy europe-west1 hop 1 for us-east1"}, hops: 1, err: ErrHomeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := &c.world
			w.local = down
			says := map[string]bool{}
			for _, r := range c.unready {
				says[r] = true
			}
			r := w.router(t)
			config := r.Config
			config.Pins, config.Deputies = cut{rows{w}}, deputies{w, c.answers}
			config.Unready, config.Distance = func(region string) bool { return says[region] }, europeIsNear
			config.Ready = func(context.Context) error {
				if c.recovers {
					return nil
				}
				return errors.New("the database records no charges")
			}
			reply, err := New(config).Do(t.Context(), request(c.key), "")
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.calls, w.calls)
			require.Equal(t, c.hops, reply.Hops)
		})
	}
}

func TestAnEntryThatCannotReachItsStoreReadsElsewhere(t *testing.T) {
	w := &world{}
	config := w.router(t).Config
	config.Deputies, config.Unready, config.Distance = deputies{w, nil}, func(region string) bool { return region == here }, europeIsNear
	r := New(config)
	_, found, err := r.Inspect(t.Context(), claim.Key{Tenant: "acme", Value: "order-1"}, "")
	require.NoError(t, err)
	require.True(t, found)
	id, err := claim.NewObjectID("ch", 1, nil)
	require.NoError(t, err)
	_, _, found, err = r.Object(t.Context(), "acme", id)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, []string{"deputy inspects europe-west1", "deputy's object europe-west1"}, w.calls)
	home, ok := r.NewHome()
	require.True(t, ok)
	require.Equal(t, europe, home.Name, "a new key's home can record charges")
}

// A deputy acts on the rows of each home itself, whatever it hears of that home.
func TestADeputyForwardsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		world world
		key   string
		calls []string
		err   error
	}{
		"its own key":            {key: stamped(t, 1), calls: []string{"do us-east1"}},
		"another's":              {key: stamped(t, 2), calls: []string{"replica", "do europe-west1"}},
		"a pinned one":           {key: "order-1", world: world{registrar: europe, needPin: true, pin: asia}, calls: []string{"do us-east1", "replica", "pin", "replica", "do asia-northeast1"}},
		"a new one":              {key: "order-1", world: world{registrar: europe, needPin: true, pin: here}, calls: []string{"do us-east1", "replica", "pin", "do us-east1"}},
		"the store is down here": {key: stamped(t, 1), world: world{local: map[string]error{here: claim.ErrUnavailable}}, calls: []string{"do us-east1"}, err: claim.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := &c.world
			config := w.router(t).Config
			config.Deputies, config.Ready = deputies{w, nil}, func(context.Context) error { return errors.New("asked") }
			reply, err := New(config).Deputy().Do(t.Context(), request(c.key), asia)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.calls, w.calls)
			require.Zero(t, reply.Hops)
		})
	}
}

// A deputy, and a home, whose own store answers nothing says so, and at once if it has found out before.
func TestWhoIsAskedLeavesAStoreThatAnswersNothing(t *testing.T) {
	const found = 750 * time.Millisecond
	for name, c := range map[string]struct {
		unready bool
		after   time.Duration
	}{
		"it finds out":     {after: listenEvery + found},
		"it has found out": {unready: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{}
				s := stuck{w, make(chan struct{}), make(chan struct{})}
				config := w.router(t).Config
				config.Local, config.Deputies = s, deputies{w, nil}
				config.Silent = func(context.Context) bool {
					time.Sleep(found)
					return true
				}
				config.Unready = func(region string) bool { return c.unready && region == here }
				r, began := New(config), time.Now()
				_, err := r.Deputy().Do(t.Context(), request(stamped(t, 2)), "")
				require.ErrorIs(t, err, claim.ErrUnavailable)
				require.Equal(t, c.after, time.Since(began))
				_, err = Attended(t.Context(), r, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, nil })
				require.ErrorIs(t, err, claim.ErrUnavailable)
				require.Equal(t, 2*c.after, time.Since(began))
				close(s.letGo)
			})
		})
	}
}

// A hint is none of a region that cannot record a charge: another way is tried.
func TestAHintThatCannotReachItsStoreIsOnlyAHint(t *testing.T) {
	w := &world{registrar: europe, needPin: true, pin: here, peers: map[string][]error{asia: {claim.ErrUnavailable}}}
	_, err := w.router(t).Do(t.Context(), request("order-1"), asia)
	require.NoError(t, err)
	require.Equal(t, []string{"do us-east1", "replica", "forward asia-northeast1 hop 1 pinned false", "pin", "do us-east1"}, w.calls)
}

// stuck is a store of which the first step hangs until it is let go.
type stuck struct {
	*world
	begun, letGo chan struct{}
}

func (s stuck) Do(_ context.Context, home string, _ *claim.Request) (claim.Reply, error) {
	close(s.begun)
	<-s.letGo
	return claim.Reply{Home: home, ServedBy: here}, nil
}

// A request waits for a store that answers nothing for no longer than that takes to find out, and the
// step that it has begun goes on. Its answer counts where no deputy has one.
func TestARequestLeavesAStoreThatAnswersNothing(t *testing.T) {
	const found = 750 * time.Millisecond
	for name, c := range map[string]struct {
		silent   bool
		answered int  // how often the store has answered before it answers nothing
		refused  bool // the home answers at once that none of its nodes takes the forward
		key      string
		answers  map[string]error
		servedBy string
		after    time.Duration
		calls    []string
	}{
		"a deputy answers":         {silent: true, key: stamped(t, 1), servedBy: europe, after: listenEvery + found, calls: []string{"deputy europe-west1 hop 1 for us-east1"}},
		"the store answers others": {key: stamped(t, 1), servedBy: here, after: time.Minute},
		"no deputy reaches the rows": {silent: true, key: stamped(t, 1), servedBy: here, after: time.Minute,
			answers: map[string]error{europe: claim.ErrUnavailable, asia: region.ErrNoAnswer},
			calls:   []string{"deputy europe-west1 hop 1 for us-east1", "deputy asia-northeast1 hop 2 for us-east1"}},
		"the store falls silent later": {
			silent: true, answered: 1, key: stamped(t, 1), servedBy: europe, after: 2 * (listenEvery + found), calls: []string{"deputy europe-west1 hop 1 for us-east1"}},
		"the home refuses, and its rows are silent": {
			silent: true, refused: true, key: stamped(t, 2), servedBy: europe, after: listenEvery + found,
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false", "deputy europe-west1 hop 1 for us-east1"}},
		"it waits for its home": {silent: true, key: stamped(t, 2), servedBy: europe, after: time.Minute, calls: []string{"replica", "forward europe-west1 hop 1 pinned false"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{}
				if c.refused {
					w.peers = map[string][]error{europe: {region.ErrNoNode}}
				}
				s := stuck{w, make(chan struct{}), make(chan struct{})}
				time.AfterFunc(time.Minute, func() { close(s.letGo) })
				config := w.router(t).Config
				config.Local, config.Deputies, config.Distance = s, deputies{w, c.answers}, europeIsNear
				if config.Peers = (slow{far{w}}); c.refused {
					config.Peers = far{w}
				}
				looks := 0
				config.Silent = func(context.Context) bool {
					time.Sleep(found)
					looks++
					return c.silent && looks > c.answered
				}
				began := time.Now()
				reply, err := New(config).Do(t.Context(), request(c.key), "")
				require.NoError(t, err)
				require.Equal(t, c.servedBy, reply.ServedBy)
				require.Equal(t, c.after, time.Since(began))
				require.Equal(t, c.calls, w.calls)
				<-s.letGo
			})
		})
	}
}

// A node that runs a request which another region sent returns as soon as its store answers nothing:
// the entry then acts on the rows itself. The step that it has begun goes on.
func TestAHomeDoesNotWaitForAStoreThatAnswersNothing(t *testing.T) {
	for name, silent := range map[string]bool{"silent": true, "slow": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := (&world{}).router(t).Config
				config.Silent = func(context.Context) bool { return silent }
				went := make(chan error, 1)
				got, err := Attended(t.Context(), New(config), func(ctx context.Context) (string, error) {
					time.Sleep(time.Minute)
					went <- ctx.Err()
					return "answered", nil
				})
				if !silent {
					require.NoError(t, err)
					require.Equal(t, "answered", got)
					require.NoError(t, <-went)
					return
				}
				require.ErrorIs(t, err, claim.ErrUnavailable)
				require.Empty(t, got)
				require.Empty(t, went, "it waited")
				require.ErrorIs(t, <-went, context.Canceled)
			})
		})
	}
}

// slow is a home whose provider takes a minute.
type slow struct{ far }

func (s slow) Execute(ctx context.Context, home string, req claim.Request, hops int, entry string) (claim.Reply, error) {
	select {
	case <-time.After(time.Minute):
	case <-ctx.Done():
		return claim.Reply{}, ctx.Err()
	}
	reply, err := s.far.Execute(ctx, home, req, hops, entry)
	reply.ServedBy = home
	return reply, err
}

package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/router"
)

// verdict is whether this node could record a charge when that was last checked: for a probe of
// /readyz, because its store had given no answer, or, until it can again, every readyFor. The
// node checks nothing while all is well and no request waits.
type verdict struct {
	unready atomic.Bool
	changed chan struct{} // it may have changed since it was announced

	listening singleflight.Group
	answered  atomic.Pointer[time.Time]
}

// set sets the verdict.
func (v *verdict) set(unready bool) {
	if v.unready.Swap(unready) != unready {
		select {
		case v.changed <- struct{}{}:
		default:
		}
	}
}

// records returns why this node cannot record a charge now.
func (n *Node) records(ctx context.Context) error {
	if n.c.Ready == nil {
		return nil
	}
	err := n.c.Ready(ctx)
	if err == nil && n.verdict.unready.Load() && n.silent(ctx) {
		return errNotRecording // that check was before the silence
	}
	if ctx.Err() == nil {
		n.verdict.set(err != nil)
	}
	return err
}

const (
	// silentAfter is how long a store may take for an empty statement: as long as a node may take for a
	// round trip, see package region. It is above any database's round trip (0.3 s) that has become
	// 0.4 s longer at once.
	silentAfter = 750 * time.Millisecond
	// answeredFor is how long an answer is good for all that wait: ten statements a second at most.
	answeredFor = 100 * time.Millisecond
)

// silent is [router.Config].Silent: an empty statement, on a connection that charges do not use, gets
// no answer. Then this node cannot record a charge until a check says so.
func (n *Node) silent(ctx context.Context) bool {
	if n.c.Answers == nil {
		return false
	}
	heard := n.verdict.listening.DoChan("", func() (_ any, err error) {
		if at := n.verdict.answered.Load(); at != nil && time.Since(*at) < answeredFor {
			return nil, nil
		}
		defer fault.Recover(&err)
		// Not the request's ctx: others wait for the answer, too.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), silentAfter)
		defer cancel()
		if err = n.c.Answers(ctx); err != nil {
			n.verdict.set(true)
			return nil, err
		}
		now := time.Now()
		n.verdict.answered.Store(&now)
		return nil, nil
	})
	select {
	case h := <-heard:
		return h.Err != nil
	case <-ctx.Done():
		return false
	}
}

// announceVerdict announces the verdict, and checks one that is bad again and again.
func (n *Node) announceVerdict(context.Context) (parts.Stop, error) {
	n.background.run(func(ctx context.Context) {
		announced := false
		for {
			var again <-chan time.Time
			if n.verdict.unready.Load() {
				again = time.After(readyFor)
			}
			select {
			case <-ctx.Done():
				return
			case <-n.verdict.changed:
			case <-again:
				_ = n.records(ctx)
			}
			if unready := n.verdict.unready.Load(); unready != announced {
				announcing, cancel := context.WithTimeout(ctx, leaveTime)
				if err := n.membership.SetReady(announcing, !unready); err != nil && !errors.Is(err, region.ErrClosed) {
					n.log.Debug("gossip of whether this node can record anything takes longer", "error", err)
				}
				cancel()
				announced = unready // gossip goes on sending it even if that timed out
			}
		}
	})
	return nil, nil
}

// unready is [router.Config].Unready.
func (n *Node) unready(name string) bool {
	if name == n.c.Region {
		return n.verdict.unready.Load()
	}
	return n.outages.Unready(name)
}

// deputises reports whether this node acts on a region's rows itself now.
func (n *Node) deputises(name string) bool {
	return n.outages.Circuit(name) != region.Closed && !n.verdict.unready.Load()
}

// tenants finds tenants in the store, or, where this node cannot reach it, at another node. What that
// one says is not cached, so that a key that was revoked works for no longer.
type tenants struct {
	httpapi.Tenants
	n *Node
}

// TenantByAPIKey implements [httpapi.Tenants]. What the store has in memory needs no attention: it
// counts for as long, whether the database answers or not.
func (t tenants) TenantByAPIKey(ctx context.Context, key claim.APIKeyHash) (claim.Tenant, bool, error) {
	if tenant, found, known := t.n.c.Store.TenantInMemory(key); known {
		return tenant, found, nil
	}
	type answer struct {
		tenant claim.Tenant
		found  bool
	}
	got, err := router.OrElsewhere(ctx, t.n.routes, 0, func(ctx context.Context, _ answer) (a answer, err error) {
		a.tenant, a.found, err = t.Tenants.TenantByAPIKey(ctx, key)
		return a, err
	}, func(region string, _ answer) (a answer, err error) {
		a.tenant, a.found, err = t.n.peers.Tenant(ctx, region, key)
		return a, err
	})
	return got.tenant, got.found, err
}

// deputy is the executor behind the peer handler for entries that cannot reach their store. It
// cannot forward.
type deputy struct {
	routes *router.Router
	inHand *atomic.Int64
	layer  *meter.Histogram
}

// Execute implements [region.Local].
func (d deputy) Execute(ctx context.Context, _ string, req claim.Request) (claim.Reply, error) {
	d.inHand.Add(1)
	defer d.inHand.Add(-1)
	began := time.Now()
	reply, err := d.routes.Do(ctx, req, "")
	tookAtHome(ctx, d.layer, &req, time.Since(began)-reply.Away)
	return reply, asPeer(err)
}

// Inspect implements [region.Local].
func (d deputy) Inspect(ctx context.Context, _ string, key claim.Key) (claim.Status, bool, error) {
	status, found, err := d.routes.Inspect(ctx, key, "")
	return status, found, asPeer(err)
}

// Object implements [region.Local].
func (d deputy) Object(ctx context.Context, tenant, _, id string) (claim.State, claim.Response, bool, error) {
	state, resp, found, err := d.routes.Object(ctx, tenant, id)
	return state, resp, found, asPeer(err)
}

// asPeer returns an error of a router as a peer says it.
func asPeer(err error) error {
	switch {
	case errors.Is(err, claim.ErrNoClaim):
		return claim.ErrNeedPin // the entry says so of a request that is only compared
	case errors.Is(err, router.ErrHomeUnavailable):
		return fmt.Errorf("%w: %w", claim.ErrHomeUnreachable, err)
	}
	return err
}

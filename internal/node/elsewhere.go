package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/router"
)

// verdict is whether this node could record a charge when that was last checked: for a probe of
// /readyz, because its store had given no answer, or, until it can again, every readyFor. Nothing
// is checked while all is well and nobody asks.
type verdict struct {
	unready atomic.Bool
	changed chan struct{} // it may have changed since it was announced
}

// records returns why this node cannot record a charge now.
func (n *Node) records(ctx context.Context) error {
	if n.c.Ready == nil {
		return nil
	}
	err := n.c.Ready(ctx)
	if ctx.Err() == nil && n.verdict.unready.Swap(err != nil) != (err != nil) {
		select {
		case n.verdict.changed <- struct{}{}:
		default:
		}
	}
	return err
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
					n.log.Debug("gossip of whether this node can record a charge takes longer", "error", err)
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

// tenants finds tenants in the store, or, where this node cannot reach it, at a node of another
// region. What that one says is not cached, so that a key that was revoked works for no longer.
type tenants struct {
	httpapi.Tenants
	n *Node
}

// TenantByAPIKey implements [httpapi.Tenants].
func (t tenants) TenantByAPIKey(ctx context.Context, key string) (claim.Tenant, bool, error) {
	type answer struct {
		tenant claim.Tenant
		found  bool
	}
	got, err := router.OrElsewhere(ctx, t.n.routes, 0, func() (a answer, err error) {
		a.tenant, a.found, err = t.Tenants.TenantByAPIKey(ctx, key)
		return a, err
	}, func(region string) (a answer, err error) {
		a.tenant, a.found, err = t.n.peers.Tenant(ctx, region, sha256.Sum256([]byte(key)))
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
	d.layer.Took(ctx, time.Since(began)-reply.Away, meter.PathHome)
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

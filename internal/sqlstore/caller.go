package sqlstore

import (
	"context"

	"github.com/homeward-io/homeward/internal/sqlstore/pool"
	"github.com/homeward-io/homeward/outbox"
)

// callerKey marks a ctx with the [pool.Call] of what runs in it.
type callerKey struct{}

// callerOf returns who calls in ctx.
func callerOf(ctx context.Context) pool.Call {
	c, _ := ctx.Value(callerKey{}).(pool.Call)
	c.Begun = outbox.IsBegun(ctx)
	c.Errand = c.Begun
	if ctx.Value(endsKey{}) != nil {
		c.Begun, c.Errand = true, false
	}
	return c
}

// endsKey marks a ctx as that of a step which ends, renews or takes over a claim, or books
// its money: begun work, and no errand.
type endsKey struct{}

// ends marks ctx so.
func ends(ctx context.Context) context.Context {
	return context.WithValue(ctx, endsKey{}, true)
}

// ofTenant marks ctx as that of a tenant's call.
func ofTenant(ctx context.Context, tenant string) context.Context {
	c := callerOf(ctx)
	c.Tenant = tenant
	return context.WithValue(ctx, callerKey{}, c)
}

// everywhere is the region of calls that need rows of all regions. They hang if any is
// lost, so they have the bounds of one more region.
const everywhere = "*"

// away marks ctx for statements on rows of another region, or everywhere.
func away(ctx context.Context, region string) context.Context {
	c := callerOf(ctx)
	c.Region = region
	return context.WithValue(ctx, callerKey{}, c)
}

// isAway reports whether ctx is marked for rows elsewhere.
func isAway(ctx context.Context) bool { return callerOf(ctx).Region != "" }

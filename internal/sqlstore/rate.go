package sqlstore

import (
	"context"
	"fmt"
	"math"
)

// SetRate bounds a tenant's requests at each node, in requests per second and as a
// burst; both 0 leave it to the nodes' settings. Nodes use a cached rate for up to
// Pool.TenantCache longer. [claim.ErrUnknownTenant] if there is no such tenant.
func (db *DB) SetRate(ctx context.Context, tenant string, perSecond float64, burst int) error {
	if math.IsNaN(perSecond) || math.IsInf(perSecond, 0) || perSecond < 0 || burst < 0 || burst > math.MaxInt32 || (perSecond > 0) != (burst > 0) {
		return fmt.Errorf("tenant %s: rate and burst must both be above 0 or both be 0, are %g and %d", tenant, perSecond, burst)
	}
	most := int32(burst)
	return db.changeTenant(ctx, tenantChangeArgs{TenantID: tenant, RatePerSecond: &perSecond, Burst: &most})
}

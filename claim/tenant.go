package claim

import "time"

// Tenant is one merchant account: who keeps its pins and how much it may ask.
type Tenant struct {
	ID   string
	Name string
	// Registrar is the region that keeps this tenant's pins. It is only changed
	// by a store's MoveRegistrar.
	Registrar string
	// PreviousRegistrar kept them until RegistrarMovedAt; pins there count for as long as
	// there are any. It is empty once there are none, or when it never moved.
	PreviousRegistrar string
	RegistrarMovedAt  time.Time
	// RatePerSecond and Burst bound the tenant's requests; 0 leaves it to the
	// deployment's default.
	RatePerSecond float64
	Burst         int
}

package claim

import "time"

// Tenant is one merchant account: who keeps its pins and how much it may ask.
type Tenant struct {
	ID   string
	Name string
	// Registrar is the region that keeps this tenant's pins. It is only changed
	// by a store's MoveRegistrar.
	Registrar string
	// PreviousRegistrar kept them until RegistrarMovedAt; pins there count for as
	// long as there are any. Empty and zero when it never moved, or none is left.
	PreviousRegistrar string
	RegistrarMovedAt  time.Time
	// RatePerSecond and Burst bound the tenant's requests; 0 leaves it to the
	// deployment's default.
	RatePerSecond float64
	Burst         int
	// CardNumbers is what becomes of a card number in the free text of a request.
	CardNumbers CardNumbers
	// Routes say which provider its payments go to, as payment.Routes reads them; "": the
	// deployment's default.
	Routes string
}

// CardNumbers is what becomes of card numbers in a tenant's free text. The values are
// stored and never change. Whatever is none of them counts as [RefuseCardNumbers].
type CardNumbers string

const (
	// RefuseCardNumbers: the request is refused, and nothing of it is kept. The default.
	RefuseCardNumbers CardNumbers = "refuse"
	// MaskCardNumbers: all digits but the last four are replaced before anything is
	// kept or sent.
	MaskCardNumbers CardNumbers = "mask"
	// AllowCardNumbers: the text is kept and sent as it came.
	AllowCardNumbers CardNumbers = "allow"
)

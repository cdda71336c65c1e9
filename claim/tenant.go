package claim

import "time"

// Tenant is one merchant account: its registrar, its rate and its settings.
type Tenant struct {
	ID   string
	Name string
	// Registrar is the region that keeps this tenant's pins. It is only changed
	// by a store's MoveRegistrar.
	Registrar string
	// PreviousRegistrar kept the pins until RegistrarMovedAt; those that remain
	// there still count. Empty and zero if the registrar never moved, or no pin
	// remains there.
	PreviousRegistrar string
	RegistrarMovedAt  time.Time
	// RatePerSecond and Burst bound the tenant's requests; 0 means the
	// deployment's default.
	RatePerSecond float64
	Burst         int
	// CardNumbers is how a card number in the free text of a request is handled.
	CardNumbers CardNumbers
	// Routes choose the provider of the tenant's payments, in the syntax of
	// payment.Routes; "": the deployment's default.
	Routes string
}

// CardNumbers is how card numbers in a tenant's free text are handled. The values are
// stored and never change. Any other value counts as [RefuseCardNumbers].
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

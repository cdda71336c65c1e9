package claim

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

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

// APIKeyHash is the SHA-256 of an API key: all that a store keeps of it.
type APIKeyHash [sha256.Size]byte

// HashAPIKey hashes an API key.
func HashAPIKey(key string) APIKeyHash { return sha256.Sum256([]byte(key)) }

// Short is the first 12 hexadecimal digits of the hash, enough to tell a tenant's API keys
// apart. It is the beginning of what sha256sum prints for the key.
func (h APIKeyHash) Short() string { return hex.EncodeToString(h[:6]) }

// StoredAPIKey is an API key as a store has it.
type StoredAPIKey struct {
	Hash APIKeyHash
	// CreatedAt is when the tenant got it; zero: the store does not keep that.
	CreatedAt time.Time
	// EndsAt is when it stops working, by the store's clock; zero: it does not end.
	EndsAt time.Time
	// Ended: by the store's clock EndsAt is past.
	Ended bool
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

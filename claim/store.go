package claim

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Errors that a [Store] returns. Test with errors.Is.
var (
	// ErrFenced: the claim is no longer the caller's; abandon the work.
	ErrFenced = errors.New("claim: fenced off, another holder has the claim or it is settled")
	// ErrLeaseHeld: the lease still runs.
	ErrLeaseHeld = errors.New("claim: the lease is held")
	// ErrUnavailable: the store gave no answer; the write may be done or not.
	ErrUnavailable = errors.New("claim: the store is unavailable")
	// ErrUnstorable: the store refuses the step because of what it would write, now and
	// later. Nothing was changed.
	ErrUnstorable = errors.New("claim: the store refuses what the step would write")
	// ErrHomeUnreachable: the store works, but not the rows of that region.
	ErrHomeUnreachable = errors.New("claim: the home region's rows cannot be reached")
	// ErrNoNewHomes: an operator has closed the region to new homes; the key must get
	// its home elsewhere.
	ErrNoNewHomes = errors.New("claim: the region takes no new homes")
	// ErrNoResponse: a verdict that ends a claim, or releases it, has no response.
	// Nothing was changed.
	ErrNoResponse = errors.New("claim: a verdict without a response cannot end a claim")
	// ErrUnknownTenant: there is no such tenant row.
	ErrUnknownTenant = errors.New("claim: no such tenant")
)

// LeaseHeldError is ErrLeaseHeld with the time until the lease can be taken over,
// unless it is renewed.
type LeaseHeldError struct{ For time.Duration }

func (e *LeaseHeldError) Error() string { return ErrLeaseHeld.Error() }

// Is reports whether target is ErrLeaseHeld.
func (e *LeaseHeldError) Is(target error) bool { return target == ErrLeaseHeld }

// Begun is the answer to an arrival.
type Begun struct {
	Decision Decision
	// Record is the row after the call; the zero Record for NeedPin.
	Record Record
	// Now is the store's clock at the decision.
	Now time.Time
}

// Lease names one held claim.
type Lease struct {
	Key   Key
	Home  string
	Fence uint64
}

// Shown is the result of a replica read of a key. Absence proves nothing.
type Shown struct {
	// Record is the key's row if it is final and live.
	Record *Record
	// Pin is the key's pin if it is [Pin.Settled]. It may be nil when Record is set.
	Pin *Pin
}

// Store keeps claims, pins, responses and audit. Each method is one atomic
// step: it loads the row, applies the pure transition of the same name ([*Settlement.On] for Settle) with
// the store's own clock, and makes record and [Effects] durable together before
// it returns. An error that wraps ErrUnavailable or ErrHomeUnreachable may
// leave the step done or not done; a store that cannot tell must read back and
// compare what only this step wrote, its step or verdict id, and never repeat blindly.
//
// home names the partition; any region may act on any home that the store can
// reach. Implementations are safe for concurrent use and honour ctx.
//
// The interface is large because its methods are steps on the same rows: a store that
// implemented only some could not keep the promises of the others.
type Store interface {
	// Begin applies [Begin]. A decision that changes nothing writes nothing.
	//
	// With PinHere a key that has no pin is pinned to a.Home as well, as [Store.Pin]
	// would, and its claim is made under that pin: a pin is never durable later than
	// its claim. This is tried only if the tenant's registrar is a.Home, and is active.
	// Any obstacle, such as another pin, is NeedPin, and [Store.Pin] then returns it. A
	// store may replace a row past its tombstone in a second step: a crash between the two
	// leaves a pin without a living claim. A stamped key is refused unless a.Stamped, see
	// [Pinnable].
	Begin(ctx context.Context, a Arrival) (Begun, error)
	// Reattach applies [Reattach]. It pins no key.
	Reattach(ctx context.Context, a Arrival, w Witness) (Begun, error)
	// Settle applies [Settle] to the claim that held describes, as Begin, TakeOver
	// or an earlier Settle returned it, and returns the row as stored. A store may
	// rely on every field of held: under one fence only the lease changes.
	//
	// A caller that got no answer retries with the same verdict and ID. If the
	// verdict was recorded, Settle returns the row that it left, unless another
	// holder has taken the claim since.
	Settle(ctx context.Context, held Record, v Verdict) (Record, error)
	// Renew applies [Renew] to each lease in one step; the result reports, in
	// the order of leases, which are still held.
	Renew(ctx context.Context, holder string, leases []Lease) ([]bool, error)
	// Cancel applies [Cancel] to the claim of object under key, and returns the row. A caller that
	// got no answer may retry it, with the same step or another.
	Cancel(ctx context.Context, key Key, home, object string, step uuid.UUID, node, region string) (Record, error)
	// TakeOver applies [TakeOver] to the claim of object under key, for a holder with news or without.
	TakeOver(ctx context.Context, key Key, home, object, holder, region string, news News) (Record, error)
	// Get reads one row with authority, and the store's clock at that time.
	// found is false if there is none; a row past its tombstone is returned.
	Get(ctx context.Context, key Key, home string) (rec Record, now time.Time, found bool, err error)
	// Object finds a row by its minted id, with authority.
	Object(ctx context.Context, tenant, home, id string) (rec Record, now time.Time, found bool, err error)
	// ByObject is Object for a caller without the tenant. The response may be missing. A row past
	// its tombstone is returned.
	ByObject(ctx context.Context, home, id string) (rec Record, found bool, err error)
	// Reversing lists with authority what tenant has in flight at home that reverses id, the latest
	// first and at most limit.
	Reversing(ctx context.Context, tenant, home, id string, limit int) ([]Reversing, error)
	// Unpaid reads with authority the [Unpaid] row of an object for which no money moved; it
	// outlives its claim.
	Unpaid(ctx context.Context, home, id string) (u Unpaid, found bool, err error)

	// Replica looks for key in the nearest replica of its home: the one that a stamped key
	// names, or that the pin of an opaque one does. A store may look further.
	Replica(ctx context.Context, key Key) (Shown, error)

	// Pin applies [PinFor] in the partition of the tenant's registrar, read in the same
	// step; for as long as the previous registrar may have pins it looks there too. One
	// round trip if the registrar is elsewhere, none if it is here.
	//
	// entry is the home that the key gets if it has none, usually the region that it
	// arrived at. If entry is not active, by the topology that is read in the same
	// step, a key without a home gets none: ErrNoNewHomes. A key that has one keeps it,
	// whatever that region's status. If entry is "", Pin only reads: a key without a
	// home gets none. Pin refuses a stamped key, see [Pinnable].
	Pin(ctx context.Context, key Key, entry string) (Pin, error)
	// Registrar returns the region that keeps tenant's pins, from the local copy
	// of the tenant row: a routing hint, never a decision.
	Registrar(ctx context.Context, tenant string) (string, error)

	// Note appends an audit entry for something that happened outside any step, at
	// e.At, or now by the store's clock if that is zero. It may wait for the next step
	// to become durable.
	Note(ctx context.Context, key Key, home string, e AuditEntry)
	// Timeline returns the audit of key at home in order, at most limit entries,
	// the latest ones.
	Timeline(ctx context.Context, key Key, home string, limit int) ([]AuditEntry, error)
	// Elapse lets time pass for a test tenant: its claims at home and what waits for their times, and
	// the pins that home keeps, become older by so much ([*Record.Elapsed]), and so does what the
	// provider of test tenants has reported of later. Books and audit keep their times. It is
	// [ErrLive] for a live tenant. After any other error it may be done, in part or wholly.
	Elapse(ctx context.Context, home, tenant string, by time.Duration) error
}

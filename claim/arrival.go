package claim

import (
	"time"

	"github.com/homeward-io/homeward/outbox"
)

// Arrival is the input of [Begin]: a request for its key's claim, the way by which it came
// there, and the node that acts if the claim is won.
type Arrival struct {
	Content
	Route
	Holder
}

// Content is a request as its key's claim sees it.
type Content struct {
	Key       Key
	Operation string
	// Input yields the fingerprint, under whichever version the row was written.
	Input FingerprintInput
	// Payload is [Request.Payload].
	Payload []byte
	// Reverses is [Request.Reverses].
	Reverses string
	// Print is Input's fingerprint under [CurrentFingerprint].
	Print Fingerprint
	// Also is [Request.Also].
	Also Fingerprint
	// CompareOnly is [Request.CompareOnly].
	CompareOnly bool
	// UnderWay is how long the request has been under way when the store call starts.
	UnderWay time.Duration
	// Waited: the request has met the claim in flight before. Whatever released the claim since ended
	// after that, even if it has an earlier time.
	Waited bool
	// Mint holds ID and Receipt for a new claim; Created is set by the transition.
	Mint        Minted
	TraceParent string
}

// payload is what the provider call carries.
func (c *Content) payload() []byte {
	if len(c.Payload) > 0 {
		return c.Payload
	}
	return c.Input.Canonical
}

// Route is how a request came to its claim.
type Route struct {
	Home string
	// Stamped: the key itself names its home. Otherwise PinnedAt is the time of the pin that names
	// it; zero when the caller has read none, which allows everything but creating a claim.
	Stamped  bool
	PinnedAt time.Time
	// PinHere: this step may also pin an opaque key without a home to Home, although no
	// pin was read before. See [Store.Begin].
	PinHere bool
}

// CreateBefore is until when the pin of an opaque key allows a claim to be created under it.
func (r *Route) CreateBefore(p *Policy) time.Time { return r.PinnedAt.Add(p.CreateWithin()) }

// Holder is a node that is to hold a claim.
type Holder struct {
	Node string
	// Region is where Node runs, for the audit.
	Region string
	// Provider names the provider that Node would call for a new generation, "" if the
	// operation finds its provider by itself. Providers names all that Node can call;
	// nil: it does not distinguish providers.
	Provider  string
	Providers []string
}

// PinsHere reports whether the step that begins a is to pin its key as well.
func (a *Arrival) PinsHere() bool { return a.PinHere && !a.Stamped && !a.CompareOnly }

// creates reports whether a may create a claim.
func (a *Arrival) creates(p *Policy, now time.Time) bool {
	return !a.CompareOnly && (a.Stamped || now.Before(a.CreateBefore(p)))
}

// Fresh is a claim that does not exist yet. Its times count from when a store creates it.
type Fresh struct {
	// Record and Call are the claim and its provider call, without times.
	Record Record
	Call   outbox.Message
	// Lease is how long the holder has the claim, and the call waits.
	Lease time.Duration
	// Region is where the holder runs, for the audit.
	Region string
	event  Event
}

// New is the claim that a creates under a key that has none.
func New(a *Arrival, p *Policy) *Fresh {
	f := &Fresh{
		Record: Record{
			Key: a.Key, Home: a.Home, Operation: a.Operation, Reverses: a.Reverses, Fingerprint: a.Print,
			State: InFlight, Fence: 1, Holder: a.Node,
			Minted: a.Mint, Generation: 1, ProviderKey: providerKey(a.Key, a.Mint.ID, 1, a.Provider), Attempts: 1,
		},
		Lease: p.Lease, Region: a.Region, event: EventClaimed,
	}
	f.Call = f.Record.call(&a.Content)
	return f
}

// replacing is f in the place of old, a row past its tombstone; nil: there is none.
func (f *Fresh) replacing(old *Record) *Fresh {
	if old != nil {
		f.Record.Fence, f.event = old.Fence+1, EventReplaced
	}
	return f
}

// At is f as a store creates it at now, with its effects.
func (f *Fresh) At(now time.Time) (*Record, Effects) {
	r := f.Record
	r.FirstUse, r.HeldSince, r.LeaseUntil = now, now, now.Add(f.Lease)
	r.Minted.Created = now.UTC().Truncate(time.Second)
	return &r, Effects{
		Enqueue: dated(f.Call, r.LeaseUntil, now),
		Audit:   []AuditEntry{r.entry(f.event, f.Region, r.Holder, now, r.Operation)},
	}
}

// call is the provider call of r's present generation, without times.
func (r *Record) call(a *Content) outbox.Message {
	return outbox.Message{
		ID: r.Minted.ID, Region: r.Home, Kind: outbox.KindProviderCall,
		Tenant: r.Key.Tenant, Key: r.Key.Value, Operation: r.Operation, Payload: a.payload(),
		TraceParent: a.TraceParent,
		// The step deletes the released claim's outbox row, and the next generation's
		// row has the same id. A worker that was paused meanwhile must not hold a fence
		// that matches the new row.
		Fence: uint64(r.Generation-1) << 32,
	}
}

// dated is call as it is enqueued.
func dated(call outbox.Message, due, now time.Time) *outbox.Message {
	call.Due, call.CreatedAt = due, now
	return &call
}

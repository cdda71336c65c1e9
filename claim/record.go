package claim

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/google/uuid"
)

// State is a claim's place in its life. Expiry is not a state: it is judged
// when the row is read, see [Record.Age].
type State uint8

const (
	// InFlight: a holder may be calling the provider, or the outcome is unknown.
	InFlight State = iota + 1
	// Completed: money moved, the response is final.
	Completed
	// FailedTerminal: a definitive no (or an unknown given up on); final.
	FailedTerminal
	// FailedRetry: a definitive "not now"; the same request may try again.
	FailedRetry
)

func (s State) String() string {
	switch s {
	case InFlight:
		return "IN_FLIGHT"
	case Completed:
		return "COMPLETED"
	case FailedTerminal:
		return "FAILED_TERMINAL"
	case FailedRetry:
		return "FAILED_RETRY"
	default:
		return "NONE"
	}
}

// Final reports whether a claim in this state holds a response to replay.
func (s State) Final() bool { return s == Completed || s == FailedTerminal }

// Minted holds the values of the response that Homeward generates. They are
// minted once, at claim time, so that every attempt renders the same bytes.
type Minted struct {
	// ID is the object's id; it names its home region, see [NewObjectID].
	ID string
	// Created is the store's clock at first use, truncated to seconds.
	Created time.Time
	// Receipt is the number printed for the payer.
	Receipt string
}

// HeaderField is one stored representation header.
type HeaderField struct{ Name, Value string }

// Response is the stored answer that every retry reads. Immutable once stored.
type Response struct {
	Status int
	Header []HeaderField
	Body   []byte
	// Blob is the SHA-256, in hex, under which the object store has the body,
	// when it is too large for the row; Body is then empty in the row.
	Blob string
	// ReplayFor is how long a final answer is replayed, in whole microseconds, if that is shorter than
	// [Policy].ReplayFor; 0: as long as that. It is stored with the answer, so that all nodes agree,
	// whatever made it so; no other answer has one.
	ReplayFor time.Duration
}

// Sendable reports whether r has a final HTTP status, so that it can be sent to
// a caller. The zero Response has none.
func (r *Response) Sendable() bool { return r.Status >= 200 && r.Status <= 599 }

// Field returns the value of a header field, "" if r has none of that name.
func (r *Response) Field(name string) string {
	for _, f := range r.Header {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// row is r as a row has it.
func (r *Response) row() Response {
	stored := *r
	if stored.Blob != "" {
		stored.Body = nil
	}
	stored.ReplayFor = 0
	return stored
}

// Refusal is the answer of the latest generation that was released. It answers the
// requests that waited for that generation, those that had begun when it was released,
// and those that begin within the pause after that.
// It is never replayed to later requests.
type Refusal struct {
	Response Response
	// At is the store's clock at the release.
	At time.Time
	// Pause is the shortest pause that the provider asks for before the next
	// generation; DeclinePause applies if Pause is shorter.
	Pause time.Duration
}

// SharedUntil is the latest begin time of a request that r answers, by the store's
// clock. The clock that wrote the release may be ClockOffset ahead of the one that
// judges it.
func (r *Refusal) SharedUntil(p *Policy) time.Time {
	return r.At.Add(max(p.DeclinePause, r.Pause) + p.ClockOffset)
}

// Interim is the present answer of a claim that waits for the payer to act, for a bank
// that takes days, or for a capture. It answers every request until an attempt learns
// more.
type Interim struct {
	// Response is the answer; its bytes do not change while State stays the
	// same.
	Response Response
	// State is what the claim waits for, as the executor names it.
	State string
	// By is the id of the capture or cancellation that is under way, "" for none of
	// ours. A charge that holds money has one at a time.
	By string
}

// Record is one claim row. Times are the store's clock. The caller may keep a
// Record that a store returned, but must not modify it.
type Record struct {
	Key         Key
	Home        string
	Operation   string
	Fingerprint Fingerprint
	State       State
	// Fence is raised by every change of holder; every transition compares it.
	Fence uint64
	// Holder is the node that may act; empty when the outbox owns the row.
	Holder string
	// LeaseUntil is when any node may take the row over. An answer ends the lease.
	LeaseUntil time.Time
	// HeldSince is when the present holder took the row; LeaseCeiling counts
	// from it.
	HeldSince time.Time
	// FirstUse starts the retention windows, see [Record.ExpiresAt]. It never
	// changes in a row's life.
	FirstUse time.Time
	Minted   Minted
	// Generation is raised only after a definitive no-charge.
	Generation uint32
	// ProviderKey is what the provider dedupes on in this generation.
	ProviderKey string
	// Attempts counts how often a holder got the right to call the provider.
	Attempts uint32
	// Unknowns counts attempts of this generation that ended unknown.
	Unknowns uint32
	// NotFounds counts consecutive look-ups that the provider answered with "not found", since
	// the last attempt that may have called it; a first attempt that sent nothing may count as one
	// ([Unsent].NotFound).
	NotFounds uint32
	// Reason is the decline code, or "outcome_unknown"; empty on success.
	Reason string
	// ProviderRef is the provider's own id of the movement, once a provider has given it. While the
	// claim is released, the next generation may resume this movement.
	ProviderRef string
	// SettledAt is when the final answer was recorded; zero before.
	SettledAt time.Time
	// Verdict is the id of the last recorded verdict; zero while the claim is held. A
	// holder that lost the reply to Settle finds its verdict here.
	Verdict uuid.UUID
	// Response is set in final states, nil otherwise.
	Response *Response
	// Refusal is the latest release, while no answer is final; nil if no
	// generation was released.
	Refusal *Refusal
	// Interim is set while the claim is in flight and waits for the payer, a bank
	// or a capture; nil otherwise.
	Interim *Interim
	// CanceledAt is when the merchant gave the key up while the claim was in flight, see [Cancel];
	// zero: it has not.
	CanceledAt time.Time
	// Reverses is the id of the charge that a merchant's refund gives back, which [Store].Reversing
	// lists by it; "" for all else.
	Reverses string
}

// NeverBegun reports whether r, as its holder has it, shows that no executor was called before: its only
// former holder had no trust left when it got the claim, and said so. A holder that died shows nothing.
func (r *Record) NeverBegun() bool {
	return r.Generation == 1 && r.Attempts == 2 && r.Unknowns == 0 && r.Reason == reasonLease
}

// CancelKey is the operation of a request that gives its key up. A claim of it stands for a key that
// was never used: it answers every other request, whatever that asks for.
const CancelKey = "cancel_key"

// Canceled reports whether the merchant gave the key of r up while r was in flight.
func (r *Record) Canceled() bool { return !r.CanceledAt.IsZero() }

// Waits reports whether r has no holder because it waits for the payer, a bank or a capture. A node
// that receives a notice of the outcome may take it over at once.
func (r *Record) Waits() bool { return r.Interim != nil && r.Holder == "" }

// Age is the retention window that a record is in.
type Age uint8

const (
	// Live: it answers for its key.
	Live Age = iota
	// Expired: a tombstone. A retry gets the time of the original request.
	Expired
	// Gone: the row counts as absent, although it may still be stored.
	Gone
)

// Age judges r against the store's clock. A claim in flight never ages, as its outcome
// is still open: see [Record.ExpiresAt].
func (r *Record) Age(p *Policy, now time.Time) Age {
	if now.Before(r.ExpiresAt(p, now)) {
		return Live
	}
	if now.Before(r.FreeAt(p, now)) {
		return Expired
	}
	return Gone
}

// replayFor is how long r's answer is replayed.
func (r *Record) replayFor(p *Policy) time.Duration {
	if r.Response != nil && r.Response.ReplayFor > 0 {
		return min(r.Response.ReplayFor, p.ReplayFor)
	}
	return p.ReplayFor
}

// Stays is how long the row of r, which has ended, is kept after the later of first use and answer: for both
// windows, and for the grace of its pin, which therefore never ends sooner.
func (r *Record) Stays(p *Policy) time.Duration { return r.replayFor(p) + p.TombstoneFor + p.PinGrace }

// ExpiresAt is the end of the replay window: ReplayFor, of the policy or of the answer, after first
// use or after the answer, whichever is later. So an answer that a long outage delayed is still there for
// the retries that wait for it. The answer of a claim in flight comes after now, so the
// window ends no sooner than ReplayFor from now.
func (r *Record) ExpiresAt(p *Policy, now time.Time) time.Time {
	from := r.FirstUse
	switch {
	case r.State == InFlight:
		from = later(from, now)
	case r.State.Final():
		from = later(from, r.SettledAt)
	case r.Refusal != nil:
		from = later(from, r.Refusal.At)
	}
	return from.Add(r.replayFor(p))
}

// closePart is the part of PinGrace in which a released claim is not closed any more: a
// minute of an hour, longer than a statement takes. A closing that begins in time is over
// when the key is free, and may have another claim, in another region.
const closePart = 60

// CloseUntil is until when a released claim may be closed: some time before its key is
// free. The clock that judges may be ClockOffset behind.
func (r *Record) CloseUntil(p *Policy, now time.Time) time.Time {
	return r.FreeAt(p, now).Add(-p.PinGrace/closePart - p.ClockOffset)
}

// FreeAt is when the key is free again: TombstoneFor after ExpiresAt.
func (r *Record) FreeAt(p *Policy, now time.Time) time.Time {
	return r.ExpiresAt(p, now).Add(p.TombstoneFor)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// LeaseLapsed reports whether any node may take r over at now. ClockOffset is
// added because the clock that wrote the lease may be that much behind ours.
//
// A lease that lies further ahead than any can was written before the store's clock went
// back, and has lapsed: its holder, if it lives, renews it within RenewEvery, and the fence
// stops it otherwise. The bound is LeaseCeiling, which is more than Lease, as nodes with
// another Lease run while the setting is changed.
func (r *Record) LeaseLapsed(p *Policy, now time.Time) bool {
	return !now.Before(r.LeaseUntil.Add(p.ClockOffset)) || r.leaseTooFar(p, now)
}

// leaseTooFar reports whether r has a lease that no clock near now can have written. Without
// a holder LeaseUntil is a pause, which may be longer.
func (r *Record) leaseTooFar(p *Policy, now time.Time) bool {
	return r.Holder != "" && r.LeaseUntil.After(now.Add(p.LeaseCeiling+p.ClockOffset))
}

// providerKey derives the key on which the named provider dedupes. It includes the
// object's id, minted at first use, because a key is free again after 48 h while a
// provider may remember longer: without the id the provider would answer the new
// request with the old charge. It includes the provider's name so that [Record.With]
// can tell which provider was called. The name is "" for operations that find their
// provider through another object, as refunds do.
func providerKey(k Key, object string, generation uint32, provider string) string {
	var key [providerKeyLength]byte
	return string(appendProviderKey(key[:0], k, object, generation, provider))
}

// providerKeyLength is the length of "hw_" and 20 bytes in hexadecimal.
const providerKeyLength = 3 + 2*20

func appendProviderKey(to []byte, k Key, object string, generation uint32, provider string) []byte {
	var stack [512]byte // enough for all but the longest keys
	text := stack[:0]
	for _, s := range [...]string{"homeward/provider-key/v1", k.Tenant, k.Value, object, provider} {
		text = binary.BigEndian.AppendUint64(text, uint64(len(s)))
		text = append(text, s...)
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint32(text, generation))
	return hex.AppendEncode(append(to, "hw_"...), sum[:20])
}

// With returns which of names is the provider of r's present generation. It derives this
// from the provider key, the only thing that a provider receives of the claim. It
// returns "" for a generation that was begun without a name. ok is false if none of
// names matches; pass nil names if the node does not distinguish providers. A name that r's tenant
// may not call ([MayCall]) matches nothing.
func (r *Record) With(names []string) (name string, ok bool) {
	if names == nil {
		return "", true
	}
	var key [providerKeyLength]byte
	for _, name := range names {
		if !MayCall(r.Key.Tenant, name) {
			continue
		}
		if r.ProviderKey == string(appendProviderKey(key[:0], r.Key, r.Minted.ID, r.Generation, name)) {
			return name, true
		}
	}
	return "", r.ProviderKey == string(appendProviderKey(key[:0], r.Key, r.Minted.ID, r.Generation, ""))
}

// Sent reports whether a call to the named provider used key for r, in its present
// generation or an earlier one. The key may name no provider, as a refund's.
func (r *Record) Sent(key, provider string) bool {
	for g := r.Generation; g > 0; g-- {
		if key == providerKey(r.Key, r.Minted.ID, g, provider) || key == providerKey(r.Key, r.Minted.ID, g, "") {
			return true
		}
	}
	return false
}

// Event names an audit entry.
type Event string

// The audit events, in the order of a claim's life.
const (
	EventClaimed   Event = "claimed"
	EventReclaimed Event = "reclaimed"
	EventReplaced  Event = "replaced"
	EventTakenOver Event = "taken_over"
	EventAttempt   Event = "attempt"
	EventDeferred  Event = "deferred"
	EventMoved     Event = "moved"
	EventPending   Event = "pending"
	// EventCanceled: the merchant gave the key up while its claim was in flight.
	EventCanceled Event = "canceled"
	EventReleased Event = "released"
	EventSettled  Event = "settled"
	EventGivenUp  Event = "given_up"
	EventClosed   Event = "closed"
	EventReplied  Event = "replied"
	// EventRestored: the claim was lost with a store that was restored from a backup, and is
	// begun again from its [Witness].
	EventRestored Event = "restored"
	// EventRequeued: a person made a parked row of the key due again.
	EventRequeued Event = "requeued"
	// EventActed: an operator changed something of the deployment. It is of no claim: its key
	// names the operator, and the detail is the command with its ids.
	EventActed Event = "acted"
	// EventRepliesLost reports how many notes of replies a node has lost; it has no
	// key, and the detail is their number.
	EventRepliesLost Event = "replies_lost"
)

// AuditEntry is one line of a claim's history. Append-only.
type AuditEntry struct {
	At         time.Time
	Event      Event
	Region     string
	Node       string
	Fence      uint64
	Generation uint32
	// Detail is a short machine-readable note: an outcome, a decline code.
	Detail string
}

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
	// InFlight: somebody may be calling the provider, or the outcome is unknown.
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

// Minted is every value that the response shows and that we made up. It is
// minted once, at claim time, so that any attempt renders the same bytes.
type Minted struct {
	// ID is the object's id; it names its home region, see [NewObjectID].
	ID string
	// Created is the store's clock at first use, truncated to seconds.
	Created time.Time
	// Receipt is the number printed for the payer.
	Receipt string
}

// HeaderField is one remembered representation header.
type HeaderField struct{ Name, Value string }

// Response is what every retry reads. Immutable once stored.
type Response struct {
	Status int
	Header []HeaderField
	Body   []byte
	// Blob is the SHA-256, in hex, under which the object store has the body,
	// when it is too large for the row; Body is then empty in the row.
	Blob string
}

// Sendable reports whether r is an answer that a caller can be given: a final
// HTTP status. The zero Response is not.
func (r *Response) Sendable() bool { return r.Status >= 200 && r.Status <= 599 }

// Refusal is how the latest generation that was released ended. It answers the
// requests that were under way by then, or began too soon after it, and is never
// replayed to later ones.
type Refusal struct {
	Response Response
	// At is the store's clock at the release.
	At time.Time
	// Pause is the least pause that the provider asks for before the next generation;
	// DeclinePause holds where it is shorter.
	Pause time.Duration
}

// SharedUntil is the latest beginning of a request that r answers, by the store's
// clock. The clock that wrote the release may be ClockOffset ahead of the one that
// judges it.
func (r *Refusal) SharedUntil(p *Policy) time.Time {
	return r.At.Add(max(p.DeclinePause, r.Pause) + p.ClockOffset)
}

// Interim is what is known of a claim whose outcome is not ours to hurry: the payer has
// to act, or a bank takes days. It answers every request until somebody learns more.
type Interim struct {
	// Response answers; its bytes stay as they are for as long as State does.
	Response Response
	// State is what the claim waits for, in the executor's words.
	State string
	// By is the object that brings it about, "" for nobody of ours: a charge that holds
	// money is one order's at a time.
	By string
}

// Record is one claim row. Times are the store's clock. A Record returned by a
// store is the caller's to keep and must not be written to.
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
	// LeaseUntil is when anybody may take the row over.
	LeaseUntil time.Time
	// HeldSince is when the present holder got the row; bounds renewal.
	HeldSince time.Time
	// FirstUse starts the retention windows, see [Record.ExpiresAt]. It never
	// changes in a row's life.
	FirstUse time.Time
	Minted   Minted
	// Generation is raised only after a definitive no-charge.
	Generation uint32
	// ProviderKey is what the provider dedupes on in this generation.
	ProviderKey string
	// Attempts counts the times somebody got the right to call the provider.
	Attempts uint32
	// Unknowns counts attempts of this generation that ended unknown.
	Unknowns uint32
	// NotFounds counts consecutive look-ups in which the provider knew nothing.
	NotFounds uint32
	// Reason is the decline code, or "outcome_unknown"; empty on success.
	Reason string
	// ProviderRef is the provider's own id of the movement, once known. While the claim
	// is released it is what the next generation may go on with.
	ProviderRef string
	// SettledAt is when the final answer was recorded; zero before.
	SettledAt time.Time
	// Verdict names the verdict that left the claim as it is; zero while somebody holds
	// it. Who does not know whether it recorded a verdict finds it here.
	Verdict uuid.UUID
	// Response is set in final states, nil otherwise.
	Response *Response
	// Refusal is the latest release, for as long as no answer is final; nil where
	// no generation was released.
	Refusal *Refusal
	// Interim is set while the claim is in flight and waits for somebody else, nil
	// otherwise.
	Interim *Interim
}

// Waits reports whether r is nobody's because its outcome is somebody else's to bring
// about. Whoever has heard of one may take it over at once.
func (r *Record) Waits() bool { return r.State == InFlight && r.Interim != nil && r.Holder == "" }

// Age is a record's place in its retention windows.
type Age uint8

const (
	// Live: it answers for its key.
	Live Age = iota
	// Expired: a tombstone; retries are told when the original was.
	Expired
	// Gone: the row counts as absent though it may still be stored.
	Gone
)

// Age judges r against the store's clock. A claim in flight never ages: its
// outcome is still owed.
func (r *Record) Age(p *Policy, now time.Time) Age {
	if r.State == InFlight || now.Before(r.ExpiresAt(p, now)) {
		return Live
	}
	if now.Before(r.FreeAt(p, now)) {
		return Expired
	}
	return Gone
}

// ExpiresAt is the end of the replay window: ReplayFor after first use or after
// the answer, whichever is later. An answer that a long outage kept back is thus
// there for the retries that wait for it. The answer of a claim in flight comes
// after now, so the window ends no sooner than ReplayFor from now.
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
	return from.Add(p.ReplayFor)
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

// LeaseLapsed reports whether anybody may take r over at now. ClockOffset is
// added because the clock that wrote the lease may be that much behind ours.
func (r *Record) LeaseLapsed(p *Policy, now time.Time) bool {
	return !now.Before(r.LeaseUntil.Add(p.ClockOffset))
}

// providerKey derives what the named provider dedupes on. The object's id, minted at
// first use, is part of it because a key is free again after 48 h while a
// provider may remember longer: without it the new request would be answered
// with the old charge. The provider's name is part of it so that the row tells which
// one was called; where none is named, as in claims of older builds, it tells nothing.
func providerKey(k Key, object string, generation uint32, provider string) string {
	var key [providerKeyLength]byte
	return string(appendProviderKey(key[:0], k, object, generation, provider))
}

// providerKeyLength is that of "hw_" and 20 bytes in hexadecimal.
const providerKeyLength = 3 + 2*20

func appendProviderKey(to []byte, k Key, object string, generation uint32, provider string) []byte {
	parts := [...]string{"homeward/provider-key/v3", k.Tenant, k.Value, object, provider}
	if provider == "" {
		parts[0] = "homeward/provider-key/v2"
	}
	var stack [512]byte // enough for all but the longest keys
	text := stack[:0]
	for i, s := range parts {
		if i == len(parts)-1 && provider == "" {
			break
		}
		text = binary.BigEndian.AppendUint64(text, uint64(len(s)))
		text = append(text, s...)
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint32(text, generation))
	return hex.AppendEncode(append(to, "hw_"...), sum[:20])
}

// With names the provider that r's present generation is with, among the named ones: the
// provider key, which is all that a provider is ever told, says so. "" where the
// generation was begun without a name. ok is false where it is with none of them; nil
// names are of a caller that tells none apart.
func (r *Record) With(names []string) (name string, ok bool) {
	if names == nil {
		return "", true
	}
	var key [providerKeyLength]byte
	for _, name := range names {
		if r.ProviderKey == string(appendProviderKey(key[:0], r.Key, r.Minted.ID, r.Generation, name)) {
			return name, true
		}
	}
	return "", r.ProviderKey == string(appendProviderKey(key[:0], r.Key, r.Minted.ID, r.Generation, ""))
}

// Sent reports whether key is one under which the named provider was called for r: in its
// present generation, or in one before it.
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
	EventReleased  Event = "released"
	EventSettled   Event = "settled"
	EventGivenUp   Event = "given_up"
	EventClosed    Event = "closed"
	EventReplied   Event = "replied"
	// EventRestored: the claim was lost with a store that was put back to a backup, and is
	// begun again from its [Witness].
	EventRestored Event = "restored"
	// EventRequeued: a person made a parked row of the key due again.
	EventRequeued Event = "requeued"
	// EventRepliesLost, of no key, says how many notes of replies a node has lost; the
	// detail is their number.
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

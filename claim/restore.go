package claim

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// RestorePhase is how much of the lost writes has been read. Stored; values never change.
type RestorePhase string

const (
	// RestoreHolding: a key without a witness may be one of those that are lost.
	RestoreHolding RestorePhase = "holding"
	// RestoreWitnessed: every key that may be, and matters, has a witness.
	RestoreWitnessed RestorePhase = "witnessed"
	// RestoreOver: nothing of that time would be remembered any more.
	RestoreOver RestorePhase = "over"
)

// Restore is the row that records that a store was restored from a backup. There is one
// row, which a later restore overwrites.
type Restore struct {
	// Version counts changes; 0 if there is no row.
	Version uint64       `json:"-"`
	Phase   RestorePhase `json:"phase"`
	// From is when the backup was made. After Until no node can have begun anything
	// that the store lacks. Claims between the two are missing.
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Tag is the prefix of the random bits of keys that are minted while the restore is in effect.
	// It was drawn at random when the row was written, so one older key in 2^32 has it by chance.
	Tag uint32 `json:"tag"`
	// OpenedAt is when the row was first written, by the store's clock. Audit that was
	// exported later holds none of the lost writes.
	OpenedAt time.Time `json:"opened_at"`
	// Exported is where the exported audit of each region ended when the row was first
	// written. Audited is up to when the segments after it hold all lost writes.
	Exported map[string]Segment   `json:"exported,omitempty"`
	Audited  map[string]time.Time `json:"audited,omitempty"`
	// Booking: witnesses may be Booked.
	Booking bool `json:"booking,omitempty"`
	// Settled: every key that was settled in the lost time is free again. Only witnesses of claims
	// that may not have been still count.
	Settled bool `json:"settled,omitempty"`
	// Partial: the restore counts as witnessed although the audit does not have all of the
	// lost time. A witness that is not final may then be of an earlier generation.
	Partial bool `json:"partial,omitempty"`
	// By is who began the restore, and Why the reason given.
	By  string `json:"by"`
	Why string `json:"why"`
	// ReleasedBy decided that no lost key without a witness matters, for the reason
	// ReleasedWhy; "" if no person has.
	ReleasedBy  string `json:"released_by,omitempty"`
	ReleasedWhy string `json:"released_why,omitempty"`
}

// Segment names one segment of the exported audit; the zero Segment is before
// the first. From is up to when it and the ones before it hold everything. It is part of
// the row because the chain in the store moves on as soon as nodes export again.
type Segment struct {
	Number uint64    `json:"number"`
	Digest string    `json:"digest"`
	From   time.Time `json:"from,omitzero"`
}

// NewRestore returns the row, at now, of a store that was restored to its state at from and
// to which no node has written since until. was is the row that the store has, exported its
// last audit segment of each region.
func NewRestore(was Restore, from, until, now time.Time, exported map[string]Segment, by, why string) Restore {
	var tag [4]byte
	_, _ = rand.Read(tag[:]) // never fails
	r := Restore{
		Version: was.Version, Phase: RestoreHolding, From: from.UTC(), Until: until.UTC(), OpenedAt: now.UTC(), Exported: exported,
		Tag: binary.BigEndian.Uint32(tag[:]), By: by, Why: why,
	}
	if was.Withholds() {
		r.Booking = was.Booking
		if !was.witnessedBefore(from) { // what was lost then is lost still, and what is exported since is no witness
			r.OpenedAt, r.Exported = was.OpenedAt, was.Exported
			if was.From.Before(r.From) {
				r.From = was.From
			}
		}
	}
	r.Exported = notAfter(r.Exported, r.From)
	return r
}

// witnessedBefore reports whether a backup of that time was made after r, and r has all witnesses of
// what was lost then: so has the backup.
func (r *Restore) witnessedBefore(from time.Time) bool {
	return r.Phase == RestoreWitnessed && !r.Partial && !from.Before(r.OpenedAt)
}

// notAfter bounds how far the audit is exported by when the backup was made: a chain that is
// further has been moved on since, by nodes that lack the lost writes.
func notAfter(all map[string]Segment, from time.Time) map[string]Segment {
	bounded := make(map[string]Segment, len(all))
	for region, s := range all {
		if s.From.After(from) {
			s.From = from
		}
		bounded[region] = s
	}
	return bounded
}

// Withholds reports whether r still withholds keys.
func (r *Restore) Withholds() bool {
	return r != nil && (r.Phase == RestoreHolding || r.Phase == RestoreWitnessed)
}

// Mark identifies a state of the row: it differs after each change, and between restores; 0 if
// there is no row. Versions alone do not: a backup brings an older one back, from which they are
// counted again.
func (r *Restore) Mark() uint64 {
	if r.Version == 0 {
		return 0
	}
	return uint64(r.Tag)<<32 | r.Version&(1<<32-1)
}

// Unread reports whether the exporter must read the exported audit of a region before it
// exports more: the backup restored the chain's row, and the bucket is ahead of it.
func (r *Restore) Unread(region string) bool {
	if !r.Withholds() {
		return false
	}
	_, read := r.Audited[region]
	return !read
}

// ForgottenAt is when the tombstones of all keys that were settled before Until have
// ended: from then on a retry would be a new request even if the store had lost
// nothing.
func (r *Restore) ForgottenAt(p *Policy) time.Time {
	return r.Until.Add(p.ReplayFor + p.TombstoneFor + p.ClockOffset)
}

// ResolvedAt is when the same holds for keys with claims in flight at Until: a payment method may
// take p.ProcessingFor, a payer p.ActionFor, before they are settled.
func (r *Restore) ResolvedAt(p *Policy) time.Time {
	return r.ForgottenAt(p).Add(max(p.ProcessingFor, p.ActionFor))
}

// Mints is the source of random bits of keys that are minted while r is in effect.
func (r *Restore) Mints(random io.Reader) io.Reader {
	if random == nil {
		random = rand.Reader
	}
	if !r.Withholds() {
		return random
	}
	return &tagged{tag: binary.BigEndian.AppendUint32(nil, r.Tag), random: random}
}

// tagged begins each key's bits with the tag.
type tagged struct {
	tag    []byte
	random io.Reader
}

// Read implements [io.Reader]. A caller must read all bits of a key in one
// call.
func (t *tagged) Read(p []byte) (int, error) {
	n, err := io.ReadFull(t.random, p)
	copy(p, t.tag)
	return n, err
}

// Minted reports whether key was minted since r was written.
func (r *Restore) Minted(key string) bool {
	if _, stamped := ReadStamp(key); !stamped || len(key) < 8 {
		return false
	}
	var tag uint32
	for i := range 8 {
		tag = tag<<4 | uint32(lowerHex(key[i])&0xf)
	}
	return tag == r.Tag
}

// Witness holds what the exported audit shows of a claim that a store has lost.
type Witness struct {
	Key Key `json:"-"`
	// Home is the region that held the claim.
	Home string `json:"home"`
	// Object is the id that the claim minted. If it is "", the audit does not have the id, and the
	// key is withheld while the restore is in effect.
	Object string `json:"object,omitempty"`
	// FirstUse is zero if the audit shows only later generations: the store then has the claim as
	// of an earlier generation.
	FirstUse    time.Time   `json:"first_use,omitzero"`
	Fingerprint Fingerprint `json:"fingerprint"`
	Fence       uint64      `json:"fence"`
	Generation  uint32      `json:"generation"`
	Provider    string      `json:"provider,omitempty"`
	// Operation is the claim's operation. Done: the audit shows that money moved. Answered: it
	// shows the claim's final answer.
	Operation string `json:"operation,omitempty"`
	// Canceled: the merchant gave the key up while the claim was in flight.
	Canceled bool `json:"canceled,omitempty"`
	Done     bool `json:"done,omitempty"`
	Answered bool `json:"answered,omitempty"`
	// ProviderRef is the provider's id of the movement, if the audit has it.
	ProviderRef string `json:"provider_ref,omitempty"`
	// Booked: a person had its money booked from a statement. The claim is not begun again,
	// as what it would book is booked.
	Booked bool `json:"booked,omitempty"`
}

// Final reports whether the claim can have had no later generation, whatever else is lost.
func (w *Witness) Final() bool { return w.Done || w.Answered }

// Restores keeps the row and the witnesses, for the whole deployment. Implementations are
// safe for concurrent use; reads are authoritative.
type Restores interface {
	// Restore reads the row, or returns the zero Restore if there is none, and the
	// store's clock.
	Restore(ctx context.Context) (r Restore, now time.Time, err error)
	// PutRestore writes the row if its version has not changed since it was read.
	// changed is false if it has. After an error the write may be done or not: read again.
	PutRestore(ctx context.Context, r Restore) (changed bool, err error)
	// Witness reads the witness of a key.
	Witness(ctx context.Context, key Key) (w Witness, found bool, err error)
	// PutWitnesses writes all witnesses in one step and replaces those that their keys
	// have.
	PutWitnesses(ctx context.Context, all []Witness) error
	// Witnesses lists up to limit witnesses after a key, in the order of tenant and
	// key.
	Witnesses(ctx context.Context, after Key, limit int) ([]Witness, error)
	// DropWitnesses deletes up to limit witnesses. It deletes none if the row has another version,
	// since the witnesses may be those of a later restore.
	DropWitnesses(ctx context.Context, version uint64, limit int) (dropped int, err error)
}

// errNoFirstUse: a witness of later generations has to find the claim of an earlier one.
var errNoFirstUse = errors.New("claim: the witness has no first use, and the store lacks the claim that it continues")

// Reattach is [Begin] for a key that may have lost its claim in a restore, with its witness w. It
// begins the lost claim again, unless the row has an answer, or is of w's generation.
func Reattach(rec *Record, a *Arrival, w *Witness, sinceSent time.Duration, p *Policy, now time.Time) (*Record, Effects, Decision, error) {
	decision, respelled, err := a.answer(rec, sinceSent, p, now)
	switch {
	case err != nil || decision != 0:
		return nil, Effects{}, decision, err
	case rec.absent(p, now), w.continues(rec) && (rec.State == FailedRetry || rec.LeaseLapsed(p, now)):
		return reattach(rec, a, w, p, now)
	case rec.State == InFlight && w.Object != rec.Minted.ID:
		return nil, Effects{}, Busy, nil // it is over
	}
	next, fx, decision := a.goOn(rec, respelled, p, now)
	return next, fx, decision, nil
}

// reattach makes of a witness the claim that was lost, held by who arrives, with the
// provider key that its last generation had. rec is the row that is there, of an older
// life, of an earlier generation, or nil.
func reattach(rec *Record, a *Arrival, w *Witness, p *Policy, now time.Time) (*Record, Effects, Decision, error) {
	if w.Home != a.Home {
		return nil, Effects{}, 0, fmt.Errorf("claim: the home of %s was %s, but its key is now in %s", w.Object, w.Home, a.Home)
	}
	fingerprint, err := a.print(w.Fingerprint.Version)
	if err != nil {
		return nil, Effects{}, 0, err
	}
	switch {
	case fingerprint == w.Fingerprint:
	case a.Also == w.Fingerprint:
		// The provider got the other spelling under this provider key; see Begin.
		return nil, Effects{}, Busy, nil
	default:
		return nil, Effects{}, Mismatch, nil
	}
	next := &Record{
		Key: a.Key, Home: a.Home, Operation: a.Operation, Reverses: a.Reverses, FirstUse: w.FirstUse, Fence: w.Fence,
		Minted: Minted{ID: w.Object, Created: w.FirstUse.UTC().Truncate(time.Second), Receipt: receipt(w.Object)},
	}
	switch {
	case rec != nil && rec.Minted.ID == w.Object:
		copied := *rec
		next = &copied
		next.Fence = max(rec.Fence, w.Fence)
	case w.FirstUse.IsZero():
		return nil, Effects{}, 0, errNoFirstUse
	case rec != nil:
		next.Fence = max(rec.Fence, w.Fence)
	}
	next.Fence++
	next.Fingerprint, next.State, next.Generation = w.Fingerprint, InFlight, w.Generation
	next.ProviderKey = providerKey(a.Key, w.Object, w.Generation, w.Provider)
	next.Holder, next.HeldSince, next.LeaseUntil = a.Node, now, now.Add(p.Lease)
	next.Attempts++
	next.Unknowns, next.NotFounds, next.Reason, next.ProviderRef = 0, 0, "", ""
	next.SettledAt, next.Response, next.Interim = time.Time{}, nil, nil
	next.Verdict = [16]byte{}
	if w.Canceled && !next.Canceled() {
		next.CanceledAt = now
	}
	return next, Effects{
		Enqueue: dated(next.call(&a.Content), next.LeaseUntil, now),
		Audit:   []AuditEntry{next.entry(EventRestored, a.Region, a.Node, now, a.Operation)},
	}, WonUnknown, nil
}

// ParseRestore decodes a stored row.
func ParseRestore(version uint64, state []byte) (r Restore, err error) {
	if err := json.Unmarshal(state, &r); err != nil {
		return r, fmt.Errorf("claim: cannot decode the restore row: %w", err)
	}
	switch r.Phase {
	case RestoreHolding, RestoreWitnessed, RestoreOver:
	default:
		return r, fmt.Errorf("claim: the restore row has phase %q, which this build does not support", r.Phase)
	}
	r.Version = version
	return r, nil
}

package claim

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// A store that was restored from a backup lacks the claims that were begun after the
// backup. Their merchants' retries look like first requests, and would charge again
// under another provider key. So the row [Restore] records between which times claims
// are missing. While it stands, no node begins anything under a key that may be one of
// the missing ones:
//
//   - A key that has a claim is answered from it, as always, but that no generation is begun,
//     and none in flight is attempted: the next one may have been begun, and paid, in what is
//     lost. A witness says so, and then the claim goes on from there.
//   - A key with a [Witness], which is what the exported audit has of it, gets the claim back
//     that it had: the same object, the same first use, the same provider key. The attempt
//     is a recovery, which asks the provider, or repeats the call that it dedupes.
//     Where a person had its money booked ([Witness].Booked) it is withheld. It is also
//     withheld while a later generation may be lost, see below.
//   - A key that was minted since the restore, as its first bits show
//     ([Restore.Minted]), is new.
//   - Any other key is withheld ([WithheldError]) until the witnesses are known to be
//     complete, or until the missing claim would have expired anyway.
//
// Where the row was forgotten, the exported audit may prove that the store was put back: the
// node that finds it writes the row before it takes a request (audit.Exporter.Compare, and
// docs/adr/0068). What nodes without that proof have begun by then is begun.
//
// # Which generation
//
// Each generation has its own provider key. A provider that was paid under one of them does
// not dedupe a call under another. So an attempt of a generation that was not the last one can
// charge again: its provider may have declined it, and may not keep declines, or not for so
// long. A witness has the last generation of its claim in two cases:
//
//   - It is final: the audit has the settlement, or the payment. No generation follows those
//     while the key is remembered.
//   - The audit has all of the lost time in every region, up to the last write.
//
// In all other cases, which are claims that the audit shows in flight or released while it is
// not complete, [Guard.Recall] withholds the key. A person's word ([Restore].ReleasedBy) is
// about keys of which nothing is known. It does not say how such a claim went on, and neither
// does the time until lost keys are forgotten: a later generation may be a bank debit, which is
// remembered for longer. [Restore].Partial keeps them withheld. A new key, which the merchant
// chooses, is the way around.
//
// The same holds for a claim that the backup has in flight or released: Recall decides before
// any generation of it is begun, taken over or closed.
//
// # Who has to have read it
//
// The row is written while no node runs, and each node reads it before it accepts its
// first request. Afterwards a node may see changes late. This is safe: each change
// (witnesses are complete, the restore is over) allows keys that an older view
// withholds. So requests that need no guard cost no statement, and no clock or message
// has to be trusted.
//
// The exception is a row that is begun while nodes run: an operator has overlooked one
// (--ignore-sessions), or a node has detected a restore that nobody recorded. Until a node
// has read it, that node begins keys as it did before the row was there. So a node that
// reads another row than before announces that, and each node that hears of it reads. A node
// that hears nothing reads once a minute.
//
//	the backup is put back | the row is written | witnesses are written | the row changes |
//	nodes start | a claim is begun from its witness | its attempt | Settle
//
//	before the row is written    no node may run yet; the tool asks the database who does, and
//	                             a node that starts asks the audit's bucket
//	after it                     every first sight is withheld
//	between two witnesses        as before; writing one again writes the same
//	before the row says that     as before: a key without a witness is withheld, and one whose
//	they are complete            witness is not final
//	after a claim was begun      as B and C of every claim: a recovery under the provider
//	from its witness             key that the lost claim had
//
// # Interleavings
//
//	the tool writes a later     Recall reads the row before the witness, and the tool writes them
//	witness between Recall      in the other order. Where Recall saw "complete" the witness was
//	and Begin                   written; a final witness is not replaced by another generation
//	the tool is given a bucket  it writes nothing: an earlier generation would replace the last
//	with less than it has read
//	a node has an older view    it sees the phase before: it withholds more
//	a node has none yet, of a   it begins what it would have begun before the row was written,
//	row begun while it runs     for seconds, or for a minute where it hears nothing

// RestorePhase is how much of the lost writes is known. Stored; values never
// change.
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
	// Tag is the prefix of the random bits of keys that are minted while the row stands.
	// It was drawn at random when the row was written, so one older key in 2^32 has it by
	// chance.
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
	// Settled says that every key of the lost time that was settled in it is free again.
	// Only witnesses of claims that may not have been still count.
	Settled bool `json:"settled,omitempty"`
	// Partial: the restore counts as witnessed although the audit does not have all of the
	// lost time. A witness that is not final may then be of an earlier generation.
	Partial bool `json:"partial,omitempty"`
	// By is who began the restore, and Why the reason given.
	By  string `json:"by"`
	Why string `json:"why"`
	// ReleasedBy decided that no lost key without a witness matters, for the reason
	// ReleasedWhy; "" if nobody has.
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
	if was.Stands() { // what was lost then is lost still, and what is exported since is no witness
		r.OpenedAt, r.Exported, r.Booking = was.OpenedAt, was.Exported, was.Booking
		if was.From.Before(r.From) {
			r.From = was.From
		}
	}
	r.Exported = notAfter(r.Exported, r.From)
	return r
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

// Stands reports whether r still withholds keys.
func (r *Restore) Stands() bool {
	return r != nil && (r.Phase == RestoreHolding || r.Phase == RestoreWitnessed)
}

// Mark tells a changed row from the one before, and the row of another restore from both;
// 0 if there is no row. Versions alone do not: a backup brings an older one back, from which
// they are counted again.
func (r *Restore) Mark() uint64 {
	if r.Version == 0 {
		return 0
	}
	return uint64(r.Tag)<<32 | r.Version&(1<<32-1)
}

// Unread reports whether the exporter must read the exported audit of a region before it
// exports more: the backup restored the chain's row, and the bucket is ahead of it.
func (r *Restore) Unread(region string) bool {
	if !r.Stands() {
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

// ResolvedAt is when the same holds for keys whose claims were in flight at Until: a
// payment method may take p.ProcessingFor, a payer p.ActionFor, before they are settled.
func (r *Restore) ResolvedAt(p *Policy) time.Time {
	return r.ForgottenAt(p).Add(max(p.ProcessingFor, p.ActionFor))
}

// Mints is the source of random bits of keys that are minted while r stands.
func (r *Restore) Mints(random io.Reader) io.Reader {
	if random == nil {
		random = rand.Reader
	}
	if !r.Stands() {
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

// Witness holds the known facts of a claim that a store has lost.
type Witness struct {
	Key Key `json:"-"`
	// Home is the region that held the claim.
	Home string `json:"home"`
	// Object is the id that the claim minted. If it is "", the id is not known, and the
	// key is withheld while the restore stands.
	Object string `json:"object,omitempty"`
	// FirstUse is zero if only later generations are known: the store then has the claim as
	// of an earlier generation.
	FirstUse    time.Time   `json:"first_use,omitzero"`
	Fingerprint Fingerprint `json:"fingerprint"`
	Fence       uint64      `json:"fence"`
	Generation  uint32      `json:"generation"`
	Provider    string      `json:"provider,omitempty"`
	// Operation is the claim's operation. Done: money is known to have moved. Answered: the
	// claim is known to have got its final answer.
	Operation string `json:"operation,omitempty"`
	Done      bool   `json:"done,omitempty"`
	Answered  bool   `json:"answered,omitempty"`
	// ProviderRef is the provider's id of the movement, if it is known.
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
	// changed is false if it has, and may be false if the reply was lost.
	PutRestore(ctx context.Context, r Restore) (changed bool, err error)
	// Witness reads the witness of a key.
	Witness(ctx context.Context, key Key) (w Witness, found bool, err error)
	// PutWitnesses writes all witnesses in one step and replaces those that their keys
	// have.
	PutWitnesses(ctx context.Context, all []Witness) error
	// Witnesses lists up to limit witnesses after a key, in the order of tenant and
	// key.
	Witnesses(ctx context.Context, after Key, limit int) ([]Witness, error)
	// DropWitnesses deletes up to limit witnesses.
	DropWitnesses(ctx context.Context, limit int) (dropped int, err error)
}

// WithheldError: the store was restored from a backup, and the lost writes may include this
// key. Nothing was done.
type WithheldError struct{ RetryAfter time.Duration }

func (e *WithheldError) Error() string {
	return "claim: the key may have been used in what a restore has lost; it is withheld"
}

// withheldPause is when a withheld request is worth another try: people read segments of
// audit meanwhile.
const withheldPause = 30 * time.Second

// Guard is a node's copy of the restore that stands. A nil Guard has none. It is safe for
// concurrent use.
type Guard struct {
	store   Restores
	reading sync.Mutex              // one at a time, so that an older answer never replaces a newer one
	row     atomic.Pointer[Restore] // nil: none stands
	mark    atomic.Uint64
}

// NewGuard reads the row. A node must call it before it accepts a request.
func NewGuard(ctx context.Context, store Restores) (*Guard, error) {
	g := &Guard{store: store}
	return g, g.Read(ctx)
}

// Read reads the row again. After an error the guard stays as strict as before.
func (g *Guard) Read(ctx context.Context) error {
	g.reading.Lock()
	defer g.reading.Unlock()
	r, _, err := g.store.Restore(ctx)
	if err != nil {
		return fmt.Errorf("claim: cannot read the restore row: %w", err)
	}
	if r.Stands() {
		g.row.Store(&r)
	} else {
		g.row.Store(nil)
	}
	g.mark.Store(r.Mark())
	return nil
}

// Mark is [Restore.Mark] of the row as it was last read.
func (g *Guard) Mark() uint64 { return g.mark.Load() }

// Standing returns the restore that stands, nil if none does.
func (g *Guard) Standing() *Restore {
	if g == nil {
		return nil
	}
	return g.row.Load()
}

// Guards reports whether a caller must call Recall before it begins anything under
// key.
func (g *Guard) Guards(key string) bool {
	r := g.Standing()
	return r != nil && !r.Minted(key)
}

// Recall returns the witness of key, which has the last generation of its claim, or nil if the
// lost writes did not use the key. It fails with a *[WithheldError] if it cannot know whether
// they did, or which generation was the last: nothing may be begun, taken over or closed then.
func (g *Guard) Recall(ctx context.Context, key Key) (*Witness, error) {
	r := g.Standing() // before the witness: see Interleavings
	if r == nil || r.Minted(key.Value) {
		return nil, nil
	}
	w, found, err := g.store.Witness(ctx, key)
	complete := r.Phase == RestoreWitnessed
	switch {
	case err != nil:
		return nil, err
	case found && w.Final() && r.Settled:
		return nil, nil
	case found && w.Object != "" && !w.Booked && (w.Final() || complete && !r.Partial):
		return &w, nil
	case found, !complete:
		return nil, &WithheldError{RetryAfter: withheldPause}
	}
	return nil, nil
}

// Undecided reports whether the released claim rec may have been paid in what a restore has
// lost: money that surfaces for it may then be that payment, and not one too many.
func (g *Guard) Undecided(ctx context.Context, rec *Record) (bool, error) {
	if rec.State != FailedRetry || !g.Guards(rec.Key.Value) {
		return false, nil
	}
	w, err := g.Recall(ctx, rec.Key)
	if errors.As(err, new(*WithheldError)) {
		return true, nil
	}
	return w.continues(rec), err
}

// errNoFirstUse: a witness of later generations has to find the claim of an earlier one.
var errNoFirstUse = errors.New("claim: the witness has no first use, and the store lacks the claim that it continues")

// reattach makes of a witness the claim that was lost, held by who arrives, with the
// provider key that its last generation had. rec is the row that is there, of an older
// life, of an earlier generation, or nil.
func reattach(rec *Record, a *Arrival, p *Policy, now time.Time) (*Record, Effects, Decision, error) {
	w := a.Witness
	if w.Home != a.Home {
		return nil, Effects{}, 0, fmt.Errorf("claim: the home of %s was %s, but its key is now in %s", w.Object, w.Home, a.Home)
	}
	fingerprint := a.Print
	if fingerprint.Version != w.Fingerprint.Version {
		var err error
		if fingerprint, err = a.Input.Fingerprint(w.Fingerprint.Version); err != nil {
			return nil, Effects{}, 0, err
		}
	}
	switch {
	case fingerprint == w.Fingerprint:
	case a.Also == w.Fingerprint:
		// The provider was told the other spelling under this provider key; see Begin.
		return nil, Effects{}, Busy, nil
	default:
		return nil, Effects{}, Mismatch, nil
	}
	next := &Record{
		Key: a.Key, Home: a.Home, Operation: a.Operation, FirstUse: w.FirstUse, Fence: w.Fence,
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
	next.Holder, next.HeldSince, next.LeaseUntil = a.Holder, now, now.Add(p.Lease)
	next.Attempts++
	next.Unknowns, next.NotFounds, next.Reason, next.ProviderRef = 0, 0, "", ""
	next.SettledAt, next.Response, next.Interim = time.Time{}, nil, nil
	next.Verdict = [16]byte{}
	return next, Effects{
		Enqueue: providerCall(next, a, now),
		Audit:   []AuditEntry{next.entry(EventRestored, a.Region, a.Holder, now, a.Operation)},
	}, WonUnknown, nil
}

// of is w where it is of the present generation of rec, else nil.
func (w *Witness) of(rec *Record) *Witness {
	if w == nil || w.Object != rec.Minted.ID || w.Generation != rec.Generation {
		return nil
	}
	return w
}

// continues reports whether w is of a later generation of the claim rec.
func (w *Witness) continues(rec *Record) bool {
	return w != nil && w.Object == rec.Minted.ID && w.Generation > rec.Generation
}

// ParseRestore decodes a stored row.
func ParseRestore(version uint64, state []byte) (r Restore, err error) {
	if err := json.Unmarshal(state, &r); err != nil {
		return r, fmt.Errorf("claim: cannot decode the restore row: %w", err)
	}
	switch r.Phase {
	case RestoreHolding, RestoreWitnessed, RestoreOver:
	default:
		return r, fmt.Errorf("claim: the restore row has phase %q, which this build does not know", r.Phase)
	}
	r.Version = version
	return r, nil
}

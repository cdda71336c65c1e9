package claim

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// A store that was put back to a backup has forgotten the claims that were begun after it.
// Their merchants' retries look like first requests, and would charge again under another
// provider key. So the row [Restore] says between which times claims are missing, and while
// it stands no node begins anything under a key that may be one of theirs:
//
//   - A key that has a claim is answered from it, as always, but that no generation is begun:
//     the next one may have been begun, and paid, in what is lost.
//   - A key with a [Witness], which is what the exported audit has of it, gets the claim back
//     that it had: the same object, the same first use, the same provider key. The attempt
//     is a recovery, which asks the provider, or repeats the call that it dedupes.
//   - A key that was minted since, which its first bits say ([Restore.Minted]), is new.
//   - Any other one is withheld ([WithheldError]) until the witnesses are known to be
//     complete, or until a key of that time would be forgotten anyway.
//
// # Who has to have read it
//
// The row is written while no node runs, and each node reads it before it takes its first
// request. From then on a node may see changes late: each of them (witnesses are complete,
// the restore is over) lets keys begin that an older view withholds. So it costs a request
// that needs none of it no statement, and no clock and no message has to be believed.
//
// # Crash points
//
//	the backup is put back | the row is written | witnesses are written | the row changes |
//	nodes start | a claim is begun from its witness | its attempt | Settle
//
//	before the row is written    no node may run yet; the tool asks the database who does
//	after it                     every first sight is withheld
//	between two witnesses        as before; writing one again writes the same
//	before the row says that     as before: a key without a witness is withheld
//	they are complete
//	after a claim was begun      as B and C of every claim: a recovery under the provider
//	from its witness             key that the lost claim had

// RestorePhase says how much is known of what is lost. Stored; values never change.
type RestorePhase string

const (
	// RestoreHolding: a key without a witness may be one of those that are lost.
	RestoreHolding RestorePhase = "holding"
	// RestoreWitnessed: every key that may be, and matters, has a witness.
	RestoreWitnessed RestorePhase = "witnessed"
	// RestoreOver: nothing of that time would be remembered any more.
	RestoreOver RestorePhase = "over"
)

// Restore is the row that says that a store was put back to a backup. There is one, which
// a later restore overwrites.
type Restore struct {
	// Version counts changes; 0 is a row that there is not.
	Version uint64       `json:"-"`
	Phase   RestorePhase `json:"phase"`
	// From is when the backup was made, Until since when nobody can have begun anything
	// that is not in it: claims between the two are missing.
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Tag begins the keys that are minted while the row stands. It was drawn when the row
	// was written, so that a key from before has it once in 2^32.
	Tag uint32 `json:"tag"`
	// OpenedAt is when the row was first written, by the store's clock. What was exported
	// later says nothing of what is lost.
	OpenedAt time.Time `json:"opened_at"`
	// Exported is the last segment of audit that the backup knew of, for each region, and
	// Audited up to when what follows it has all of what is lost.
	Exported map[string]Segment   `json:"exported,omitempty"`
	Audited  map[string]time.Time `json:"audited,omitempty"`
	// By is who has begun it, and Why they, or who ended the holding early, say so.
	By  string `json:"by"`
	Why string `json:"why"`
}

// Segment names one of the exported audit: the zero Segment is before the first.
type Segment struct {
	Number uint64 `json:"number"`
	Digest string `json:"digest"`
}

// NewRestore is the row, at now, of a store that was put back to what it was at from, where
// nobody has written since until; was is the row that the store has, exported what it says
// of the audit.
func NewRestore(was Restore, from, until, now time.Time, exported map[string]Segment, by, why string) Restore {
	var tag [4]byte
	_, _ = rand.Read(tag[:]) // never fails
	r := Restore{
		Version: was.Version, Phase: RestoreHolding, From: from.UTC(), Until: until.UTC(), OpenedAt: now.UTC(), Exported: exported,
		Tag: binary.BigEndian.Uint32(tag[:]), By: by, Why: why,
	}
	if was.Stands() { // what was lost then is lost still, and what is exported since is no witness
		r.OpenedAt, r.Exported = was.OpenedAt, was.Exported
		if was.From.Before(r.From) {
			r.From = was.From
		}
	}
	return r
}

// Stands reports whether r keeps keys from being begun.
func (r *Restore) Stands() bool {
	return r != nil && (r.Phase == RestoreHolding || r.Phase == RestoreWitnessed)
}

// Unread reports whether the exported audit of a region has to be read before more of it is
// exported: the chain's row has come back with the backup, and the bucket is ahead of it.
func (r *Restore) Unread(region string) bool {
	if !r.Stands() {
		return false
	}
	_, read := r.Audited[region]
	return !read
}

// ForgottenAt is when no key that was settled before Until is remembered any more: from
// then on a retry of it would be a new request in a store that has lost nothing, too.
func (r *Restore) ForgottenAt(p *Policy) time.Time {
	return r.Until.Add(p.ReplayFor + p.TombstoneFor + p.ClockOffset)
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

// Read implements [io.Reader]; whoever mints reads all bits of a key at once.
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

// Witness is what is known of a claim that a store has lost.
type Witness struct {
	Key Key `json:"-"`
	// Home is the region that the claim was kept in.
	Home string `json:"home"`
	// Object is what the claim minted; "" where that is not known, and the key is withheld
	// for as long as the restore stands.
	Object string `json:"object,omitempty"`
	// FirstUse is zero where only later generations are known: the store then has the claim
	// of an earlier one.
	FirstUse    time.Time   `json:"first_use,omitzero"`
	Fingerprint Fingerprint `json:"fingerprint"`
	Fence       uint64      `json:"fence"`
	Generation  uint32      `json:"generation"`
	Provider    string      `json:"provider,omitempty"`
	// Operation is what was asked for, and Done that money was known to have moved.
	Operation string `json:"operation,omitempty"`
	Done      bool   `json:"done,omitempty"`
	// ProviderRef is the provider's id of the movement, where it was known.
	ProviderRef string `json:"provider_ref,omitempty"`
}

// Restores keeps the row and the witnesses, for the whole deployment. Implementations are
// safe for concurrent use; reads are authoritative.
type Restores interface {
	// Restore reads the row, the zero Restore where there is none, and the store's clock.
	Restore(ctx context.Context) (r Restore, now time.Time, err error)
	// PutRestore writes the row if its version is still what it was read at. changed is
	// false where it is not, and may be where the reply was lost.
	PutRestore(ctx context.Context, r Restore) (changed bool, err error)
	// Witness reads what is known of a key.
	Witness(ctx context.Context, key Key) (w Witness, found bool, err error)
	// PutWitnesses writes all of them in one step. One of a key that has one replaces it.
	PutWitnesses(ctx context.Context, all []Witness) error
	// Witnesses lists up to limit of them behind a key, in order of tenant and key.
	Witnesses(ctx context.Context, after Key, limit int) ([]Witness, error)
	// DropWitnesses deletes up to limit of them.
	DropWitnesses(ctx context.Context, limit int) (dropped int, err error)
}

// WithheldError: the store was put back to a backup, and the key may have been used in what
// is lost. Nothing was done.
type WithheldError struct{ RetryAfter time.Duration }

func (e *WithheldError) Error() string {
	return "claim: the key may have been used in what a restore has lost; it is withheld"
}

// withheldPause is when a withheld request is worth another try: people read segments of
// audit meanwhile.
const withheldPause = 30 * time.Second

// Guard is what a node knows of the restore that stands. A nil Guard knows of none. It is
// safe for concurrent use.
type Guard struct {
	store Restores
	row   atomic.Pointer[Restore] // nil: none stands
}

// NewGuard reads the row, which a node has to have done before it takes a request.
func NewGuard(ctx context.Context, store Restores) (*Guard, error) {
	g := &Guard{store: store}
	return g, g.Read(ctx)
}

// Read looks at the row again. After an error the guard is as strict as before.
func (g *Guard) Read(ctx context.Context) error {
	r, _, err := g.store.Restore(ctx)
	if err != nil {
		return fmt.Errorf("claim: the row of restores cannot be read: %w", err)
	}
	if r.Stands() {
		g.row.Store(&r)
	} else {
		g.row.Store(nil)
	}
	return nil
}

// Standing is the restore that stands, nil where none does.
func (g *Guard) Standing() *Restore {
	if g == nil {
		return nil
	}
	return g.row.Load()
}

// Guards reports whether Recall has to be asked before anything is begun under key.
func (g *Guard) Guards(key string) bool {
	r := g.Standing()
	return r != nil && !r.Minted(key)
}

// Recall says what a key was used for that has no claim to answer it; nil: for nothing that
// is known. complete: nothing else was begun under it in what is lost. A *[WithheldError]:
// it is not known what the key was used for, if for anything.
func (g *Guard) Recall(ctx context.Context, key Key) (w *Witness, complete bool, err error) {
	r := g.Standing()
	if r == nil || r.Minted(key.Value) {
		return nil, true, nil
	}
	got, found, err := g.store.Witness(ctx, key)
	switch {
	case err != nil:
		return nil, false, err
	case found && got.Object != "":
		return &got, r.Phase == RestoreWitnessed, nil
	case found, r.Phase != RestoreWitnessed:
		return nil, false, &WithheldError{RetryAfter: withheldPause}
	}
	return nil, true, nil
}

// errNoFirstUse: a witness of later generations has to find the claim of an earlier one.
var errNoFirstUse = errors.New("claim: the witness has no first use, and the claim that it continues is not there")

// reattach makes of a witness the claim that was lost, held by who arrives, with the
// provider key that its last generation had. rec is the row that is there, of an older
// life, of an earlier generation, or nil.
func reattach(rec *Record, a *Arrival, p *Policy, now time.Time) (*Record, Effects, Decision, error) {
	w := a.Witness
	if w.Home != a.Home {
		return nil, Effects{}, 0, fmt.Errorf("claim: %s was at home in %s, and its key has come to %s", w.Object, w.Home, a.Home)
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

// continues reports whether w is of a later generation of the released claim rec.
func (w *Witness) continues(rec *Record) bool {
	return w != nil && w.Object == rec.Minted.ID && w.Generation > rec.Generation
}

// ParseRestore reads what a store keeps of a row.
func ParseRestore(version uint64, state []byte) (r Restore, err error) {
	if err := json.Unmarshal(state, &r); err != nil {
		return r, fmt.Errorf("claim: the row of restores is not readable: %w", err)
	}
	switch r.Phase {
	case RestoreHolding, RestoreWitnessed, RestoreOver:
	default:
		return r, fmt.Errorf("claim: the row of restores is in phase %q, which this build does not know", r.Phase)
	}
	r.Version = version
	return r, nil
}

package claim

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/homeward-io/homeward/outbox"
)

// WithheldError: the store was restored from a backup, and the lost writes may include this
// key. Nothing was done.
type WithheldError struct{ RetryAfter time.Duration }

func (e *WithheldError) Error() string {
	return "claim: the key may have been used in what a restore has lost; it is withheld"
}

// withheldPause is when a withheld request is worth another try: people read segments of
// audit meanwhile.
const withheldPause = 30 * time.Second

// Guard keeps work from beginning on what a restore has lost, see "After a restore" in the package
// documentation. [Guard.Claims] and [Guard.Executor] put it in front of a store and of an executor:
// their callers need no code for restores. It holds this process's copy of the row. It is safe for
// concurrent use.
type Guard struct {
	store   Restores
	reading *semaphore.Weighted     // one at a time, so that an older answer never replaces a newer one; who waits may give up
	row     atomic.Pointer[Restore] // nil: none is in effect
	mark    atomic.Uint64
}

// NewGuard reads the row. A node must call it before it accepts a request.
func NewGuard(ctx context.Context, store Restores) (*Guard, error) {
	g := &Guard{store: store, reading: semaphore.NewWeighted(1)}
	return g, g.Read(ctx)
}

// Read reads the row again. After an error the guard stays as strict as before.
func (g *Guard) Read(ctx context.Context) error {
	err := g.reading.Acquire(ctx, 1)
	var r Restore
	if err == nil {
		defer g.reading.Release(1)
		r, _, err = g.store.Restore(ctx)
	}
	if err != nil {
		return fmt.Errorf("claim: cannot read the restore row: %w", err)
	}
	if r.Withholds() {
		g.row.Store(&r)
	} else {
		g.row.Store(nil)
	}
	g.mark.Store(r.Mark())
	return nil
}

// Mark is [Restore.Mark] of the row as it was last read.
func (g *Guard) Mark() uint64 { return g.mark.Load() }

// Standing returns the restore that is in effect, nil if there is none.
func (g *Guard) Standing() *Restore { return g.row.Load() }

// guards reports whether a restore is in effect that key may be older than.
func (g *Guard) guards(key Key) bool {
	r := g.Standing()
	return r != nil && !r.Minted(key.Value)
}

// Recall returns the witness of key, which has the last generation of its claim, or nil if the lost
// writes did not use the key. It fails with a *[WithheldError] if it cannot tell whether they did,
// or which generation was the last: nothing may be begun, taken over or closed then.
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

// recallReleased fails with a *[WithheldError] if the lost writes may have continued the released
// claim rec.
func (g *Guard) recallReleased(ctx context.Context, rec *Record) error {
	w, err := g.Recall(ctx, rec.Key)
	if err == nil && w.continues(rec) {
		err = &WithheldError{RetryAfter: withheldPause}
	}
	return err
}

// Claims returns s behind g: each step that begins work on a key waits until g has read what the
// lost writes did under it, and otherwise fails with a *[WithheldError]. What only reads, and the
// steps of a holder, pass. Without a restore each step costs a look at a pointer. calls is the
// queue of provider calls, and p what the store was opened with.
func (g *Guard) Claims(s Store, calls outbox.Store, p *Policy) *Guarded {
	return &Guarded{s, g, calls, p}
}

// Guarded is a store of claims behind a [Guard].
type Guarded struct {
	Store
	guard  *Guard
	calls  outbox.Store
	policy *Policy
}

// Begin implements [Store]. It looks first: what has an answer is answered. Without a pin the
// claim may be in another region: NeedPin, also with PinHere.
func (s *Guarded) Begin(ctx context.Context, a Arrival) (begun Begun, err error) {
	if !s.guard.guards(a.Key) {
		return s.Store.Begin(ctx, a)
	}
	sentAt := time.Now()
	rec, now, found, err := s.Get(ctx, a.Key, a.Home)
	if err != nil {
		return Begun{}, err
	}
	begun = Begun{Decision: NeedPin, Now: now}
	if found {
		said, _, err := a.answer(&rec, time.Since(sentAt), s.policy, now)
		if err != nil || said != 0 {
			return Begun{Decision: said, Record: rec, Now: now}, err
		}
	}
	if !a.Stamped && a.PinnedAt.IsZero() {
		return begun, nil
	}
	w, err := s.guard.Recall(ctx, a.Key)
	a.UnderWay += time.Since(sentAt)
	switch {
	case err != nil:
		return Begun{}, err
	case w != nil:
		return s.Reattach(ctx, a, *w)
	}
	return s.Store.Begin(ctx, a)
}

// TakeOver implements [Store]. The generation that the backup has in flight may be over, and a
// later one paid. Then the claim goes on with that one, if its witness names it.
func (s *Guarded) TakeOver(ctx context.Context, key Key, home, object, holder, region string, news News) (Record, error) {
	if !s.guard.guards(key) {
		return s.Store.TakeOver(ctx, key, home, object, holder, region, news)
	}
	rec, _, found, err := s.Get(ctx, key, home)
	switch {
	case err != nil:
		return Record{}, err
	case !found || rec.State != InFlight || rec.Minted.ID != object:
		return Record{}, ErrFenced
	}
	w, err := s.guard.Recall(ctx, key)
	switch {
	case err != nil:
		return Record{}, err
	case w != nil && w.Object != object:
		return Record{}, &WithheldError{RetryAfter: withheldPause}
	case !w.continues(&rec):
		return s.Store.TakeOver(ctx, key, home, object, holder, region, news)
	}
	call, found, err := s.calls.Message(ctx, home, object)
	switch {
	case err != nil:
		return Record{}, err
	case !found:
		return Record{}, ErrFenced // settled meanwhile
	}
	begun, err := s.Reattach(ctx, Arrival{
		Content: Content{
			Key: key, Operation: rec.Operation, Print: rec.Fingerprint, Payload: call.Payload,
			CompareOnly: true, TraceParent: call.TraceParent,
		},
		Route:  Route{Home: home},
		Holder: Holder{Node: holder, Region: region},
	}, *w)
	switch {
	case err != nil:
		return Record{}, err
	case begun.Decision != WonUnknown:
		// Another holder has it; or its provider received another spelling than the call has,
		// which the merchant's retry supplies.
		return Record{}, &LeaseHeldError{For: withheldPause}
	}
	return begun.Record, nil
}

// Settle implements [Store]. A verdict on a claim without a holder closes it.
func (s *Guarded) Settle(ctx context.Context, held Record, v Verdict) (Record, error) {
	if held.State == FailedRetry && s.guard.guards(held.Key) {
		if err := s.guard.recallReleased(ctx, &held); err != nil {
			return Record{}, err
		}
	}
	return s.Store.Settle(ctx, held, v)
}

// Pin implements [Store]. A key without a pin may have had one: it gets the home that its
// witness names, and no other.
func (s *Guarded) Pin(ctx context.Context, key Key, entry string) (Pin, error) {
	if !s.guard.guards(key) {
		return s.Store.Pin(ctx, key, entry)
	}
	pin, err := s.Store.Pin(ctx, key, "")
	if !errors.Is(err, ErrNoNewHomes) {
		return pin, err
	}
	w, err := s.guard.Recall(ctx, key)
	switch {
	case err != nil:
		return Pin{}, err
	case w == nil:
		return s.Store.Pin(ctx, key, entry)
	}
	pin, err = s.Store.Pin(ctx, key, w.Home)
	switch {
	case errors.Is(err, ErrNoNewHomes):
		return Pin{}, fmt.Errorf("%w: before the restore the key's home was %s, which takes no new homes", ErrHomeUnreachable, w.Home)
	case err == nil && pin.Home != w.Home:
		return Pin{}, fmt.Errorf("%w: before the restore the key's home was %s, but it is now pinned to %s", ErrHomeUnreachable, w.Home, pin.Home)
	}
	return pin, err
}

// ByObject implements [Store]. It fails with a *[WithheldError] for a released claim that may
// have gone on in what is lost: money that surfaces for it may be its own, and not one too
// many. Once a person has booked that money, what else surfaces is.
func (s *Guarded) ByObject(ctx context.Context, home, id string) (Record, bool, error) {
	rec, found, err := s.Store.ByObject(ctx, home, id)
	if err != nil || !found || rec.State != FailedRetry || !s.guard.guards(rec.Key) {
		return rec, found, err
	}
	if err := s.guard.recallReleased(ctx, &rec); err != nil {
		if w, ok, e := s.guard.store.Witness(ctx, rec.Key); e != nil || !ok || !w.Booked {
			return Record{}, false, err
		}
	}
	return rec, true, nil
}

// Executor returns e behind g: each attempt of a generation that an earlier attempt may have paid
// gets its witness. While that cannot be read, the attempt sends nothing.
func (g *Guard) Executor(e Executor) Executor { return witnessed{e, g} }

type witnessed struct {
	Executor
	guard *Guard
}

// Attempt implements [Executor].
func (e witnessed) Attempt(ctx context.Context, a Attempt) Outcome {
	if a.Recovery {
		w, err := e.guard.Recall(ctx, a.Record.Key)
		if err != nil {
			return &Unsent{Reason: "withheld", RetryIn: withheldPause}
		}
		a.Witness = w.of(&a.Record)
	}
	return e.Executor.Attempt(ctx, a)
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

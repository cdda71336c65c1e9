package claim

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"
)

// lostRows is a row of restores with witnesses.
type lostRows struct {
	Restores
	row       Restore
	witnesses map[Key]Witness
	err       error
	look      func() // at a witness
}

func (l *lostRows) Restore(context.Context) (Restore, time.Time, error) {
	return l.row, time.Now(), l.err
}

func (l *lostRows) Witness(_ context.Context, key Key) (Witness, bool, error) {
	if l.look != nil {
		l.look()
	}
	w, found := l.witnesses[key]
	return w, found, l.err
}

// restored is a service over an empty store that was restored from a backup.
func restored(t *testing.T, e provider) (*Service, *rows, *lostRows) {
	t.Helper()
	now := time.Now()
	lost := &lostRows{row: NewRestore(Restore{}, now.Add(-time.Hour), now, now, nil, "ops", "a lost disk"), witnesses: map[Key]Witness{}}
	lost.row.Version = 1
	store := newRows(DefaultPolicy())
	guard, err := NewGuard(t.Context(), lost)
	require.NoError(t, err)
	s := serve(t, guard.Claims(store, callsOf{rows: store}, &store.policy), bucket{}, store.policy, "n1", e)
	s.c.Executor = guard.Executor(e)
	return s, store, lost
}

// callsOf is the queue of provider calls of rows.
type callsOf struct {
	outbox.Store
	rows *rows
}

func (c callsOf) Message(_ context.Context, _, id string) (outbox.Message, bool, error) {
	c.rows.mu.Lock()
	defer c.rows.mu.Unlock()
	m, found := c.rows.messages[id]
	return m, found, nil
}

// guardOf is that of a service that restored made.
func guardOf(s *Service) *Guard { return s.c.Store.(*Guarded).guard }

// While a restore is in effect, the guard withholds a key that may be lost, stamped or opaque. It
// serves a key that was minted since, or that has a claim.
func TestAKeyThatMayBeLostBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		s, store, lost := restored(t, func(_ context.Context, a Attempt) Outcome {
			calls++
			require.False(t, a.Recovery)
			return charged(a)
		})
		before, err := Stamp(1, nil)
		require.NoError(t, err)
		since, err := Stamp(1, lost.row.Mints(nil))
		require.NoError(t, err)
		require.False(t, lost.row.Minted(before))
		require.True(t, lost.row.Minted(since))
		require.False(t, lost.row.Minted(since[:8]), "a tag alone is no stamp")
		pinned := order("opaque", 100)
		pinned.Stamp, pinned.PinnedAt = 0, time.Now()
		for _, req := range []*Request{order(before, 100), pinned} {
			_, err := s.Do(t.Context(), "us-east1", req)
			require.ErrorAs(t, err, new(*WithheldError))
		}
		unpinned := order("opaque", 100)
		unpinned.Stamp = 0
		_, err = s.Do(t.Context(), "us-east1", unpinned)
		require.ErrorIs(t, err, ErrNeedPin, "the claim may be elsewhere")
		require.Zero(t, calls)
		require.Empty(t, store.claims)

		_, err = s.Do(t.Context(), "us-east1", order(since, 100))
		require.NoError(t, err)
		require.Equal(t, 1, calls)

		// In the store that was put back: it is answered, without a look at the lost ones.
		paid := store.row(order(since, 100).Key)
		paid.Key = order(before, 100).Key
		store.claims[paid.Key] = &paid
		lost.err = errors.New("away")
		reply, err := s.Do(t.Context(), "us-east1", order(before, 100))
		require.NoError(t, err)
		require.True(t, reply.Replayed)
		require.Equal(t, 1, calls)
	})
}

// The guard's answer for a key, by the key's witness.
func TestRecall(t *testing.T) {
	final, answered, flying, blind := Witness{Object: "ch_1", Done: true}, Witness{Object: "ch_1", Answered: true}, Witness{Object: "ch_1"}, Witness{Done: true}
	booked := final
	booked.Booked = true
	for name, c := range map[string]struct {
		row      func(*Restore)
		stored   *Witness
		witness  bool
		withheld bool
	}{
		"no witness":                        {withheld: true},
		"no witness, and all is read":       {row: func(r *Restore) { r.Phase = RestoreWitnessed }},
		"paid":                              {stored: &final, witness: true},
		"answered":                          {stored: &answered, witness: true},
		"in flight":                         {stored: &flying, withheld: true},
		"in flight, and all is read":        {stored: &flying, row: func(r *Restore) { r.Phase = RestoreWitnessed }, witness: true},
		"in flight, released by a person":   {stored: &flying, row: func(r *Restore) { r.Phase, r.Partial = RestoreWitnessed, true }, withheld: true},
		"its object is unknown":             {stored: &blind, row: func(r *Restore) { r.Phase = RestoreWitnessed }, withheld: true},
		"booked by a person":                {stored: &booked, row: func(r *Restore) { r.Phase = RestoreWitnessed }, withheld: true},
		"paid, and free again by now":       {stored: &final, row: func(r *Restore) { r.Settled = true }},
		"in flight, while others are free":  {stored: &flying, row: func(r *Restore) { r.Settled = true }, withheld: true},
		"over":                              {stored: &flying, row: func(r *Restore) { r.Phase = RestoreOver }},
		"over, for a key without a witness": {row: func(r *Restore) { r.Phase = RestoreOver }},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			lost := &lostRows{row: NewRestore(Restore{}, now, now, now, nil, "ops", ""), witnesses: map[Key]Witness{}}
			if c.row != nil {
				c.row(&lost.row)
			}
			key := Key{Tenant: "acme", Value: "k"}
			if c.stored != nil {
				lost.witnesses[key] = *c.stored
			}
			g, err := NewGuard(t.Context(), lost)
			require.NoError(t, err)
			w, err := g.Recall(t.Context(), key)
			require.Equal(t, c.withheld, errors.As(err, new(*WithheldError)), "%v", err)
			require.Equal(t, c.witness, w != nil)
			if !c.withheld {
				require.NoError(t, err)
			}
			over := lost.row.Phase == RestoreOver
			require.Equal(t, !over, g.guards(key))

			released, store := &Record{Key: key, State: FailedRetry, Minted: Minted{ID: "ch_1"}, Generation: 1}, newRows(DefaultPolicy())
			store.claims[key] = released
			claims := g.Claims(store, nil, &store.policy)
			waits := c.withheld && (c.stored == nil || !c.stored.Booked) // no witness is of a later generation
			for _, released.State = range []State{FailedRetry, InFlight, Completed, FailedTerminal} {
				rec, found, err := claims.ByObject(t.Context(), "us-east1", "ch_1")
				if waits && released.State == FailedRetry {
					require.ErrorAs(t, err, new(*WithheldError))
					continue
				}
				require.NoError(t, err)
				require.True(t, found)
				require.Equal(t, *released, rec)
			}
			lost.err = errors.New("away")
			_, err = g.Recall(t.Context(), key)
			require.Equal(t, over, err == nil, "what cannot be read is not nothing")
			require.Error(t, g.Read(t.Context()))
			require.Equal(t, !over, g.guards(key), "as strict as before")
		})
	}
}

// The worker, and a notice of a payment, look for a later generation before they take over the one
// that the backup has in flight.
func TestAClaimInFlightOfTheBackupIsRecalled(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(*Witness, *Restore)
		ok         bool
		generation uint32 // of the attempt; 0: none
		witness    bool   // of that generation
		stale      bool   // the call is one of the key's former life
		withheld   bool   // by the guard, at the take-over
	}{
		"no witness":                  {generation: 0},
		"no witness, and all is read": {change: func(_ *Witness, r *Restore) { r.Phase = RestoreWitnessed }, generation: 1},
		"the same generation":         {ok: true, change: func(w *Witness, _ *Restore) { w.Done = true }, generation: 1, witness: true},
		"a later one":                 {ok: true, change: func(w *Witness, _ *Restore) { w.Generation, w.Done = 2, true }, generation: 2, witness: true},
		"a later one, perhaps":        {ok: true, change: func(w *Witness, _ *Restore) { w.Generation = 2 }},
		"a call of a former life":     {stale: true},
		"another object":              {ok: true, change: func(w *Witness, _ *Restore) { w.Object, w.Done = "ch_2", true }},
		"a later one, spelled otherwise": {ok: true, withheld: true, change: func(w *Witness, _ *Restore) {
			w.Generation, w.Done, w.Fingerprint.Sum = 2, true, [32]byte{1}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var made []Attempt
				s, store, lost := restored(t, func(_ context.Context, a Attempt) Outcome {
					made = append(made, a)
					return charged(a)
				})
				a := *arrivalOf(t, `{"amount":100}`)
				rec, fx, _, err := Begin(nil, &a, 0, &store.policy, time.Now())
				require.NoError(t, err)
				store.keep(rec, fx)
				w := Witness{Key: a.Key, Home: a.Home, Object: rec.Minted.ID, Fingerprint: rec.Fingerprint, Generation: 1, Fence: 7, Operation: "charge"}
				if c.change != nil {
					c.change(&w, &lost.row)
				}
				if c.ok {
					lost.witnesses[a.Key] = w
				}
				require.NoError(t, guardOf(s).Read(t.Context()))
				message := store.messages[rec.Minted.ID]
				require.Contains(t, fmt.Sprint(s.Recover(t.Context(), message)), "Later", "its holder may live")
				time.Sleep(time.Until(message.Due))
				if c.stale {
					message.ID = "ch_former"
				}
				verdict := s.Recover(t.Context(), message)
				if c.generation == 0 {
					want := outbox.Later(store.policy.Lease)
					switch {
					case c.stale:
						want = outbox.Done()
					case c.withheld:
						want = outbox.Later(withheldPause)
					}
					require.Equal(t, want, verdict)
					require.Empty(t, made)
					require.Equal(t, *rec, store.row(a.Key))
					return
				}
				require.Equal(t, outbox.Gone(), verdict)
				require.Len(t, made, 1)
				require.Equal(t, c.generation, made[0].Record.Generation)
				require.True(t, made[0].Recovery)
				require.Equal(t, c.witness, made[0].Witness != nil)
				require.Equal(t, Completed, store.row(a.Key).State)
			})
		})
	}
}

// A row that replaces another still covers what the earlier restore lost.
func TestARestoreOverARestore(t *testing.T) {
	at := newYear
	exported := map[string]Segment{"us-east1": {Number: 7, From: at.Add(2 * time.Hour)}, "europe-west1": {Number: 3, From: at.Add(-time.Hour)}}
	first := NewRestore(Restore{}, at, at.Add(time.Hour), at.Add(2*time.Hour), exported, "ops", "a lost disk")
	require.Equal(t, RestoreHolding, first.Phase)
	require.Equal(t, at, first.Exported["us-east1"].From, "the chain has moved on without the lost writes")
	require.Equal(t, at.Add(-time.Hour), first.Exported["europe-west1"].From)
	require.True(t, first.Withholds())
	first.Version, first.Booking = 4, true

	second := NewRestore(first, at.Add(24*time.Hour), at.Add(25*time.Hour), at.Add(26*time.Hour), nil, "ops", "again")
	require.Equal(t, uint64(4), second.Version)
	require.Equal(t, at, second.From)
	require.Equal(t, first.OpenedAt, second.OpenedAt)
	require.Equal(t, first.Exported, second.Exported)
	require.True(t, second.Booking)
	require.NotEqual(t, first.Mark(), second.Mark(), "of the same version")
	earlier := NewRestore(first, at.Add(-time.Hour), at, at.Add(26*time.Hour), nil, "ops", "an older backup")
	require.Equal(t, at.Add(-time.Hour), earlier.From)
	require.Equal(t, at.Add(-time.Hour), earlier.Exported["us-east1"].From)

	// A later backup has the first row, and with it all witnesses, if the audit had all of what was lost.
	next := func(from time.Time) Restore {
		return NewRestore(first, from, at.Add(25*time.Hour), at.Add(26*time.Hour), nil, "ops", "again")
	}
	for _, first.Partial = range []bool{false, true} {
		first.Phase = RestoreWitnessed
		require.Equal(t, first.Partial, next(first.OpenedAt).OpenedAt.Equal(first.OpenedAt))
		require.Equal(t, at, next(first.OpenedAt.Add(-1)).From, "the same loss")
		require.True(t, next(first.OpenedAt).Booking)
	}
	first.Partial = false

	first.Phase = RestoreOver
	require.False(t, first.Withholds())
	fresh := NewRestore(first, at.Add(24*time.Hour), at.Add(25*time.Hour), at.Add(26*time.Hour), nil, "ops", "again")
	require.Equal(t, at.Add(24*time.Hour), fresh.From)
	require.Equal(t, at.Add(26*time.Hour), fresh.OpenedAt)
	require.False(t, fresh.Booking)
	require.Zero(t, new(Restore).Mark())
	first.Version++
	require.NotEqual(t, first.Mark(), second.Mark())
	require.False(t, (*Restore)(nil).Withholds())

	// The exporter reads a region's audit before it exports more, once.
	require.True(t, second.Unread("us-east1"))
	second.Audited = map[string]time.Time{"us-east1": at}
	require.False(t, second.Unread("us-east1"))
	require.True(t, second.Unread("europe-west1"))
	require.False(t, first.Unread("us-east1"), "it is over")

	p := offsetPolicy()
	require.Equal(t, second.Until.Add(p.ReplayFor+p.TombstoneFor+p.ClockOffset), second.ForgottenAt(p))
	require.Equal(t, second.ForgottenAt(p).Add(p.ProcessingFor), second.ResolvedAt(p))
}

// A claim is closed by its expiry only if no lost payment may be under its key.
func TestAGuardedClaimIsNotClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store, lost := restored(t, func(_ context.Context, a Attempt) Outcome {
			require.True(t, a.Closing, "no provider is called")
			return &Refused{Response: Response{Status: 402}}
		})
		p, a := &store.policy, arrivalOf(t, `{"amount":100}`)
		released := settled(t, begun(t, nil, a, p, time.Now(), Won), Verdict{Outcome: &Released{}}, p, time.Now())
		store.claims[a.Key] = released
		m := outbox.Message{ID: released.Minted.ID, Region: a.Home, Kind: outbox.KindExpiry, Tenant: a.Key.Tenant, Key: a.Key.Value}
		require.Equal(t, outbox.Later(p.Lease), s.Expire(t.Context(), m))
		require.Equal(t, *released, store.row(a.Key))
		lost.witnesses[a.Key] = Witness{Key: a.Key, Home: a.Home, Object: released.Minted.ID, Generation: 2, Done: true}
		require.Equal(t, outbox.Later(p.Lease), s.Expire(t.Context(), m), "a later one was paid")
		require.Equal(t, *released, store.row(a.Key))
		delete(lost.witnesses, a.Key)
		lost.row.Phase = RestoreWitnessed
		require.NoError(t, guardOf(s).Read(t.Context()))
		require.Equal(t, outbox.Done(), s.Expire(t.Context(), m), "nothing of it is lost")
		require.Equal(t, FailedTerminal, store.row(a.Key).State)
	})
}

func reattached(t *testing.T, rec *Record, a *Arrival, w *Witness, p *Policy, now time.Time, want Decision) *Record {
	t.Helper()
	next, _, decision, err := Reattach(rec, a, w, 0, p, now)
	require.NoError(t, err)
	require.Equal(t, want.String(), decision.String())
	return next
}

// A claim that goes on from its witness takes nothing from the backup's generation.
func TestAWitnessedGenerationBeginsAnew(t *testing.T) {
	p, a := offsetPolicy(), arrivalOf(t, "100")
	rec := begun(t, nil, a, p, newYear, Won)
	rec.Unknowns, rec.NotFounds, rec.Reason, rec.ProviderRef = 3, 2, "timeout", "px_1"
	rec.Interim, rec.Verdict, rec.Fence = &Interim{State: "processing"}, uuid.New(), 9
	witness := &Witness{Home: a.Home, Object: "ch_1", Fingerprint: a.Print, Generation: 2, Fence: 4, Provider: "one"}
	next := reattached(t, rec, a, witness, p, rec.LeaseUntil.Add(p.ClockOffset), WonUnknown)
	require.Equal(t, []uint32{0, 0, 2}, []uint32{next.Unknowns, next.NotFounds, next.Generation})
	require.Equal(t, []string{"", ""}, []string{next.Reason, next.ProviderRef})
	require.Nil(t, next.Interim)
	require.Zero(t, next.Verdict)
	require.EqualValues(t, 10, next.Fence, "above both")
	require.Equal(t, rec.LeaseUntil.Add(p.ClockOffset), next.HeldSince, "the ceiling counts from here")

	// One of an older life of the key has a fence to be above, too.
	old := settled(t, begun(t, nil, arrivalOf(t, "200"), p, newYear, Won), Verdict{Outcome: &Done{}}, p, newYear)
	old.Fence, old.Minted.ID = 9, "ch_older"
	witness.FirstUse = newYear
	require.EqualValues(t, 10, reattached(t, old, a, witness, p, old.FreeAt(p, newYear), WonUnknown).Fence)

	// Another object's witness: the claim in flight is over, whoever could take it.
	other := *witness
	other.Object = "ch_2"
	reattached(t, rec, a, &other, p, rec.LeaseUntil.Add(p.ClockOffset), Busy)

	w := &Witness{Object: "ch_1", Generation: 2}
	require.Same(t, w, w.of(&Record{Minted: Minted{ID: "ch_1"}, Generation: 2}))
	require.Nil(t, w.of(&Record{Minted: Minted{ID: "ch_1"}, Generation: 1}))
	require.Nil(t, w.of(&Record{Minted: Minted{ID: "ch_2"}, Generation: 2}))
}

// A request that may begin nothing does not take a claim of the backup over either: a later
// generation may be paid.
func TestACompareOnlyRequestIsGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store, lost := restored(t, func(context.Context, Attempt) Outcome {
			t.Error("attempted")
			return &Unknown{}
		})
		a := *arrivalOf(t, `{"amount":100}`)
		rec, fx, _, err := Begin(nil, &a, 0, &store.policy, time.Now())
		require.NoError(t, err)
		store.keep(rec, fx)
		time.Sleep(time.Until(rec.LeaseUntil.Add(store.policy.ClockOffset)))
		lost.witnesses[a.Key] = Witness{Key: a.Key, Home: a.Home, Object: rec.Minted.ID, Fingerprint: rec.Fingerprint, Generation: 2}
		_, err = s.Do(t.Context(), a.Home, &Request{Key: a.Key, Operation: a.Operation, Input: a.Input, Stamp: 1, CompareOnly: true})
		require.ErrorAs(t, err, new(*WithheldError))
		require.Equal(t, *rec, store.row(a.Key))
	})
}

// pinning is a store with pins from a function.
type pinning struct {
	*rows
	pin func(entry string) (Pin, error)
}

func (p pinning) Pin(_ context.Context, _ Key, entry string) (Pin, error) { return p.pin(entry) }

// A lost key gets no other home than it had, also if that takes no new ones, or if a node that
// has not read the row pins it meanwhile.
func TestALostKeyGetsNoOtherHome(t *testing.T) {
	_, store, lost := restored(t, nil)
	guard, err := NewGuard(t.Context(), lost)
	require.NoError(t, err)
	key := Key{Tenant: "acme", Value: "k"}
	lost.witnesses[key] = Witness{Key: key, Home: "europe-west1", Object: "ch_1", Done: true}
	for name, c := range map[string]struct {
		home string
		err  error
		want error
	}{
		"its home":                {home: "europe-west1"},
		"it takes no new homes":   {err: ErrNoNewHomes, want: ErrHomeUnreachable},
		"pinned elsewhere":        {home: "us-east1", want: ErrHomeUnreachable},
		"the registrar is silent": {err: ErrUnavailable, want: ErrUnavailable},
	} {
		claims := guard.Claims(pinning{store, func(entry string) (Pin, error) {
			if entry == "" {
				return Pin{}, ErrNoNewHomes
			}
			require.Equal(t, "europe-west1", entry)
			return Pin{Key: key, Home: c.home}, c.err
		}}, nil, &store.policy)
		pin, err := claims.Pin(t.Context(), key, "us-east1")
		if c.want == nil {
			require.NoError(t, err)
			require.Equal(t, c.home, pin.Home, name)
			continue
		}
		require.ErrorIs(t, err, c.want, name)
		require.NotErrorIs(t, err, ErrNoNewHomes, "the router would try another home")
	}
}

// An attempt that another may have paid has the witness of its generation. While the witness cannot
// be read, it sends nothing.
func TestAnAttemptHasItsWitnessOrSendsNothing(t *testing.T) {
	_, _, lost := restored(t, nil)
	guard, err := NewGuard(t.Context(), lost)
	require.NoError(t, err)
	var made []Attempt
	e := guard.Executor(provider(func(_ context.Context, a Attempt) Outcome {
		made = append(made, a)
		return charged(a)
	}))
	key := Key{Tenant: "acme", Value: "k"}
	a := Attempt{Record: Record{Key: key, Minted: Minted{ID: "ch_1"}, Generation: 1}, Recovery: true}
	sends := func(want bool) {
		t.Helper()
		made = nil
		unsent, withheld := e.Attempt(t.Context(), a).(*Unsent)
		require.Equal(t, want, len(made) == 1)
		require.Equal(t, !want, withheld && unsent.RetryIn > 0)
	}
	sends(false)
	lost.witnesses[key] = Witness{Key: key, Object: "ch_1", Generation: 1, Done: true}
	sends(true)
	require.NotNil(t, made[0].Witness)
	a.Record.Generation = 2
	sends(true)
	require.Nil(t, made[0].Witness, "of another generation")
	lost.err = errors.New("away")
	sends(false)
	a.Recovery = false // it began its generation itself, behind the guard
	sends(true)
}

// A claim in flight without its call was settled meanwhile: it does not go on without the request's
// content.
func TestAClaimWithoutItsCallIsNotContinued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store, lost := restored(t, func(context.Context, Attempt) Outcome {
			t.Error("attempted")
			return &Unknown{}
		})
		a := *arrivalOf(t, `{"amount":100}`)
		rec, _, _, err := Begin(nil, &a, 0, &store.policy, time.Now())
		require.NoError(t, err)
		store.keep(rec, Effects{})
		lost.witnesses[a.Key] = Witness{Key: a.Key, Home: a.Home, Object: rec.Minted.ID, Fingerprint: rec.Fingerprint, Generation: 2, Done: true}
		time.Sleep(time.Until(rec.LeaseUntil.Add(store.policy.ClockOffset)))
		require.Equal(t, outbox.Done(), s.Recover(t.Context(), outbox.Message{ID: rec.Minted.ID, Region: a.Home, Tenant: a.Key.Tenant, Key: a.Key.Value}))
		require.Equal(t, *rec, store.row(a.Key))
	})
}

// What a guard looks up takes a time, in which the request ages: a twin that came before the
// release shares it, however long that was.
func TestARequestAgesBehindAGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store, lost := restored(t, nil)
		lost.row.Phase = RestoreWitnessed
		require.NoError(t, guardOf(s).Read(t.Context()))
		a := arrivalOf(t, `{"amount":100}`)
		rec, _, _, err := Begin(nil, a, 0, &store.policy, time.Now())
		require.NoError(t, err)
		store.keep(rec, Effects{})
		lost.look = func() {
			released := settled(t, rec, Verdict{Outcome: &Released{Reason: "insufficient_funds"}}, &store.policy, time.Now())
			store.keep(released, Effects{})
			time.Sleep(time.Until(released.Refusal.SharedUntil(&store.policy)) + time.Second)
		}
		begun, err := s.c.Store.Begin(t.Context(), *a)
		require.NoError(t, err)
		require.Equal(t, Shared, begun.Decision)
	})
}

// slowRestores answers when its channel is closed.
type slowRestores struct {
	Restores
	answers chan struct{}
}

func (s *slowRestores) Restore(context.Context) (r Restore, now time.Time, err error) {
	<-s.answers
	return r, time.Now(), nil
}

// Who waits for another's reading of the row may give up.
func TestAReadingOfTheGuardMayGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := &slowRestores{answers: make(chan struct{})}
		close(rows.answers)
		g, err := NewGuard(t.Context(), rows)
		require.NoError(t, err)
		rows.answers = make(chan struct{})
		first := make(chan error)
		go func() { first <- g.Read(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, g.Read(ctx), context.DeadlineExceeded)
		close(rows.answers)
		require.NoError(t, <-first)
	})
}

package claimtest

import (
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// whole is an arrival under a key of w.home with a value of its own in every field that a claim may
// keep, none of which another arrival has.
func (w *world) whole(key claim.Key) (a claim.Arrival) {
	w.minted += 100 // more than there are fields
	fillFrom(w.minted, &a)
	a.Key, a.Input.Tenant, a.Region = key, key.Tenant, w.Regions[1]
	a.Route, a.Providers = claim.Route{Home: w.home, Stamped: true}, []string{a.Provider}
	a.CompareOnly, a.UnderWay, a.Waited = false, 0, false // which begin no claim, or share a refusal
	var err error
	a.Print, err = a.Input.Fingerprint(claim.CurrentFingerprint)
	require.NoError(w, err)
	return a
}

func (w *world) stamped() claim.Key {
	w.Helper()
	value, err := claim.Stamp(1, nil) // of the first region
	require.NoError(w, err)
	return w.key(value)
}

// made is what a transition returns.
func made(r *claim.Record, fx claim.Effects, _ claim.Decision, err error) (*claim.Record, claim.Effects, error) {
	return r, fx, err
}

// keeps checks that the store has all of what a transition made of a claim: the row, whichever way
// it is read, and the effects. rec is what the step returned.
func (w *world) keeps(rec claim.Record, want *claim.Record, fx claim.Effects, err error) {
	w.Helper()
	require.NoError(w, err)
	w.same(*want, rec)
	w.same(*want, w.get(rec))
	got, _, found, err := w.at(w.home).Object(w.ctx, w.tenant, w.home, rec.Minted.ID)
	require.NoError(w, err)
	require.True(w, found)
	w.same(*want, got)
	got, found, err = w.at(w.home).ByObject(w.ctx, w.home, rec.Minted.ID)
	require.NoError(w, err)
	require.True(w, found)
	got.Response = rec.Response // may be missing
	w.same(*want, got)
	if rec.State != claim.InFlight {
		all, err := w.at(w.home).(settledLister).Settled(w.ctx, w.home, claim.Key{Tenant: rec.Key.Tenant}, 1000)
		require.NoError(w, err)
		found = false
		for _, got := range all {
			if got.Key == rec.Key {
				found, got.Response = true, rec.Response // is left out
				w.same(*want, got)
			}
		}
		require.True(w, found)
	}
	if rec.State.Final() {
		w.until(rec.SettledAt.Add(w.ReplicaLag))
		w.shown(*want)
	}

	call, found := w.row(outbox.ProviderCalls, rec.Minted.ID)
	require.Equal(w, !fx.Finish, found)
	if fx.Enqueue != nil {
		w.sameRow(*fx.Enqueue, call)
	}
	if !fx.Reschedule.IsZero() {
		require.True(w, call.Due.Equal(fx.Reschedule), "%v, not %v", call.Due, fx.Reschedule)
	}
	if fx.Post != nil {
		booked, _ := w.booked(fx.Post.ID)
		booked.At, fx.Post.At = booked.At.UTC(), fx.Post.At.UTC()
		require.Equal(w, *fx.Post, booked)
	}
	for _, e := range fx.Events {
		m, _ := w.row(outbox.Events, e.ID)
		w.sameRow(e, m)
	}
	if fx.Expiry != nil {
		m, _ := w.row(outbox.Expiries, fx.Expiry.ID)
		w.sameRow(*fx.Expiry, m)
	}
	if fx.Unpaid != nil {
		u, _, err := w.at(w.home).Unpaid(w.ctx, w.home, rec.Minted.ID)
		require.NoError(w, err)
		u.At, fx.Unpaid.At = u.At.UTC(), fx.Unpaid.At.UTC()
		require.Equal(w, *fx.Unpaid, u)
	}
	line, err := w.at(w.home).Timeline(w.ctx, rec.Key, w.home, len(fx.Audit))
	require.NoError(w, err)
	for _, entries := range [][]claim.AuditEntry{fx.Audit, line} {
		for i := range entries {
			entries[i].At = entries[i].At.UTC()
		}
	}
	require.Equal(w, fx.Audit, line)
}

// ends settles held with an outcome, and checks what the store keeps.
func (w *world) ends(held claim.Record, o claim.Outcome) claim.Record {
	w.Helper()
	w.minted += 100
	var v claim.Verdict
	fillFrom(w.minted, &v.ID)
	v.Outcome, v.Node, v.Region = o, "settler", w.Regions[2]
	rec := w.settle(held, v)
	s, err := claim.Settle(&held, &v, &w.Policy, 0)
	require.NoError(w, err)
	want, fx := s.At(w.settledAt(rec))
	w.keeps(rec, want, fx, nil)
	return rec
}

// outcome fills o. Half of them have their body in the object store.
func outcome[O any, P interface {
	*O
	claim.Outcome
}](w *world, held claim.Record, blob bool) claim.Outcome {
	w.minted += 100
	o := new(O)
	fillFrom(w.minted, o)
	put := w.Policy.BackoffMax // more than any jitter
	switch o := any(o).(type) {
	case *claim.Done:
		o.Response.ReplayFor = w.Policy.ReplayFor - time.Millisecond // replicas lag
		o.Posting = Posting(held, held.Minted.ID)
		o.Posting.Order, o.Posting.Metadata = "order-17", `{"color":"red"}`
	case *claim.Refused:
		o.Response.ReplayFor = w.Policy.ReplayFor - 2*time.Millisecond
		o.Posting = Posting(held, held.Minted.ID)
		o.Posting.Order, o.Posting.Metadata = "order-17", `{"color":"red"}`
		o.Refund.Due = held.FirstUse.Add(time.Minute)
		o.Refund.Fence, o.Refund.Attempts, o.Refund.LastError, o.Refund.Parked = 0, 0, "", false // the worker's
	case *claim.Released:
		o.Expiry.Due = held.FirstUse.Add(w.Policy.ReplayFor)
		o.Expiry.Fence, o.Expiry.Attempts, o.Expiry.LastError, o.Expiry.Parked = 0, 0, "", false // the worker's
	case *claim.Pending:
		o.AskIn = put
	case *claim.Unknown:
		o.RetryIn = put
	case *claim.Unsent:
		o.RetryIn = put
	case *claim.Fault:
		o.RetryIn = put
	}
	response, events := answerOf(P(o))
	if response != nil {
		response.Status = 202
		if !blob {
			response.Blob = ""
		}
	}
	if events != nil {
		*events = Events(held, 2)
	}
	return P(o)
}

// wholeTests compare all that each step writes with what its transition returned. Every field has a
// value, so that a column or a member that one of a store's lists lacks is noticed, also that of a
// field that was added.
var wholeTests = []test{
	{"whole: begin", func(w *world) {
		a := w.whole(w.stamped())
		rec := w.begin(a, claim.Won)
		want, fx := claim.New(&a, &w.Policy).At(rec.FirstUse)
		w.keeps(rec, want, fx, nil)
	}},
	{"whole: begin here", func(w *world) {
		a := w.whole(w.key("order-1"))
		a.Stamped, a.PinHere = false, true
		rec := w.begin(a, claim.Won)
		want, fx := claim.New(&a, &w.Policy).At(rec.FirstUse)
		w.keeps(rec, want, fx, nil)
	}},
	{"whole: take over", func(w *world) {
		rec := w.begin(w.whole(w.stamped()), claim.Won)
		rec = w.ends(rec, outcome[claim.Unknown](w, rec, false))
		w.lapse(rec)
		taken, err := w.at(w.home).TakeOver(w.ctx, rec.Key, w.home, rec.Minted.ID, "heir", w.Regions[1], claim.News{})
		require.NoError(w, err)
		want, fx, err := claim.TakeOver(&rec, rec.Minted.ID, "heir", w.Regions[1], claim.News{}, &w.Policy, taken.HeldSince)
		w.keeps(taken, want, fx, err)
	}},
	{"whole: cancel", func(w *world) {
		cancel := func(rec claim.Record) {
			w.minted += 100
			var step uuid.UUID
			fillFrom(w.minted, &step)
			got, err := w.at(w.Regions[1]).Cancel(w.ctx, rec.Key, w.home, rec.Minted.ID, step, "clerk", w.Regions[2])
			require.NoError(w, err)
			want, fx, err := claim.Cancel(&rec, rec.Minted.ID, step, "clerk", w.Regions[2], got.CanceledAt)
			w.keeps(got, want, fx, err)
			again, err := w.at(w.home).Cancel(w.ctx, rec.Key, w.home, rec.Minted.ID, uuid.New(), "another", w.home)
			require.NoError(w, err)
			w.same(got, again)
			w.keeps(again, want, fx, nil)
		}
		cancel(w.begin(w.whole(w.stamped()), claim.Won))
		rec := w.begin(w.whole(w.stamped()), claim.Won)
		cancel(w.ends(rec, outcome[claim.Unknown](w, rec, false)))
		rec = w.begin(w.whole(w.stamped()), claim.Won)
		cancel(w.ends(rec, outcome[claim.Pending](w, rec, false)))
	}},
	{"whole: begin again", func(w *world) {
		// Of a generation after it was taken over, waited, and was released; in another spelling, as that
		// changes the fingerprint.
		a := w.whole(w.stamped())
		rec := w.begin(a, claim.Won)
		rec = w.ends(rec, outcome[claim.Unknown](w, rec, false))
		w.lapse(rec)
		rec = w.begin(a, claim.WonUnknown)
		rec = w.ends(rec, outcome[claim.Pending](w, rec, false))
		w.lapse(rec)
		rec = w.begin(a, claim.WonUnknown)
		old := w.ends(rec, outcome[claim.Released](w, rec, true))
		again := w.whole(a.Key)
		again.Also, again.Provider = a.Print, a.Provider // which continues the movement
		rec = w.begin(again, claim.Won)
		require.NotEmpty(w, rec.ProviderRef)
		want, fx, err := made(claim.Begin(&old, &again, 0, &w.Policy, rec.HeldSince))
		w.keeps(rec, want, fx, err)
	}},
	{"whole: begin past a tombstone", func(w *world) {
		for _, end := range []func(*world, claim.Record, bool) claim.Outcome{outcome[claim.Done], outcome[claim.Refused], outcome[claim.Released]} {
			rec := w.begin(w.whole(w.stamped()), claim.Won)
			old := w.ends(rec, end(w, rec, false))
			w.free(old)
			next := w.whole(old.Key)
			rec = w.begin(next, claim.Won)
			want, fx, err := made(claim.Begin(&old, &next, 0, &w.Policy, rec.HeldSince))
			w.keeps(rec, want, fx, err)
		}
	}},
	{"whole: reattach", func(w *world) {
		witness := func(a claim.Arrival) (lost claim.Witness) {
			w.minted += 100
			fillFrom(w.minted, &lost)
			lost.Key, lost.Home, lost.Fingerprint, lost.FirstUse = a.Key, a.Home, a.Print, w.now().Add(-time.Minute)
			return lost
		}
		a := w.whole(w.stamped())
		lost := witness(a)
		rec := w.reattach(a, lost, claim.WonUnknown)
		want, fx, err := made(claim.Reattach(nil, &a, &lost, 0, &w.Policy, rec.HeldSince))
		w.keeps(rec, want, fx, err)

		// A generation of the backup is continued.
		a = w.whole(w.stamped())
		rec = w.begin(a, claim.Won)
		old := w.ends(rec, outcome[claim.Released](w, rec, false))
		lost = witness(a)
		lost.Object = old.Minted.ID
		rec = w.reattach(a, lost, claim.WonUnknown)
		want, fx, err = made(claim.Reattach(&old, &a, &lost, 0, &w.Policy, rec.HeldSince))
		w.keeps(rec, want, fx, err)
	}},
	{"whole: settle, and the replica", func(w *world) {
		for _, blob := range []bool{false, true} {
			for _, end := range []func(*world, claim.Record, bool) claim.Outcome{
				outcome[claim.Done], outcome[claim.Refused], outcome[claim.Released], outcome[claim.Pending],
				outcome[claim.Moved], outcome[claim.Unknown], outcome[claim.Unsent], outcome[claim.Fault],
			} {
				held := w.begin(w.whole(w.stamped()), claim.Won)
				w.ends(held, end(w, held, blob))
			}
		}
	}},
}

package claimtest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

// rememberer reads to whom an object belonged, long after its claim was deleted.
type rememberer interface {
	// Unpaid reads the [claim.Unpaid] row of an object with authority.
	Unpaid(ctx context.Context, home, id string) (claim.Unpaid, bool, error)
}

func (w *world) unpaid(home, id string) (claim.Unpaid, bool) {
	w.Helper()
	store, ok := w.at(home).(rememberer)
	require.True(w, ok, "the store remembers what was not paid")
	got, found, err := store.Unpaid(w.ctx, home, id)
	require.NoError(w, err)
	got.At = got.At.UTC()
	return got, found
}

// remembered checks that the store has the [claim.Unpaid] row of rec, settled at a
// time.
func (w *world) remembered(rec claim.Record, at time.Time) {
	w.Helper()
	got, found := w.unpaid(rec.Home, rec.Minted.ID)
	require.True(w, found, "%v (%s) is remembered", rec.State, rec.Reason)
	require.Equal(w, claim.Unpaid{
		Object: rec.Minted.ID, Home: rec.Home, Tenant: rec.Key.Tenant, Operation: rec.Operation,
		State: rec.State, Reason: rec.Reason, At: at.UTC(),
	}, got)
}

func (w *world) notRemembered(rec claim.Record) {
	w.Helper()
	got, found := w.unpaid(rec.Home, rec.Minted.ID)
	require.False(w, found, "%+v", got)
}

// forgotten deletes rec's claim, as housekeeping does.
func (w *world) forgotten(rec claim.Record) {
	w.Helper()
	w.until(w.now().Add(w.Policy.PinLife()))
	w.sweep()
	_, _, found, err := w.at(rec.Home).Get(w.ctx, rec.Key, rec.Home)
	require.NoError(w, err)
	require.False(w, found, "the claim is forgotten")
}

func (w *world) sweep() {
	w.Helper()
	if w.Sweep == nil {
		w.Skip("the database deletes by itself, by the hour")
	}
	w.Sweep(w)
}

// giveUp settles held as unknown until MaxUnknowns ends the claim.
func (w *world) giveUp(held claim.Record) claim.Record {
	w.Helper()
	for range w.Policy.MaxUnknowns {
		held = w.settle(held, unknown(false))
	}
	require.Equal(w, claim.FailedTerminal, held.State)
	return held
}

var unpaidTests = []test{
	{"unpaid: a refusal, a given-up claim and a release each write a row", func(w *world) {
		refused := w.settle(w.begin(w.arrival("refused", "100"), claim.Won), declinedHard("no"))
		w.remembered(refused, refused.SettledAt)
		abandoned := w.giveUp(w.begin(w.arrival("unknown", "100"), claim.Won))
		require.Equal(w, claim.ReasonOutcomeUnknown, abandoned.Reason)
		w.remembered(abandoned, abandoned.SettledAt)
		released := w.settle(w.begin(w.arrival("released", "100"), claim.Won), declinedSoft("no funds"))
		w.remembered(released, w.settledAt(released))
	}},
	{"unpaid: the last verdict counts", func(w *world) {
		first := w.settle(w.begin(w.arrival("k", "100"), claim.Won), declinedSoft("no funds"))
		second := w.settle(w.begin(w.arrival("k", "100"), claim.Won), declinedHard("stolen"))
		require.Equal(w, first.Minted.ID, second.Minted.ID)
		w.remembered(second, second.SettledAt)
		closing := w.settle(w.begin(w.arrival("closes", "100"), claim.Won), declinedSoft("no funds"))
		v := declinedHard("not paid in time")
		v.Outcome.(*claim.Refused).Reason = "expired"
		closed := w.settle(closing, v)
		w.remembered(closed, closed.SettledAt)
	}},
	{"unpaid: a paid or open claim writes no row", func(w *world) {
		w.notRemembered(w.settle(w.begin(w.arrival("paid", "100"), claim.Won), approved("paid")))
		w.notRemembered(w.begin(w.arrival("held", "100"), claim.Won))
		w.notRemembered(w.settle(w.begin(w.arrival("open", "100"), claim.Won), unknown(false)))
	}},
	{"unpaid: a fenced verdict writes no row", func(w *world) {
		held := w.begin(w.arrival("k", "100"), claim.Won)
		paid := w.settle(held, approved("paid"))
		_, err := w.at(w.home).Settle(w.ctx, held, declinedHard("no"))
		require.ErrorIs(w, err, claim.ErrFenced)
		w.notRemembered(paid)
	}},
	{"unpaid: each region has its own rows", func(w *world) {
		far := w.arrival("far", "100")
		far.Home = w.Regions[1]
		rec := w.settle(w.begin(far, claim.Won), declinedHard("no"))
		w.remembered(rec, rec.SettledAt)
		_, found := w.unpaid(w.home, rec.Minted.ID)
		require.False(w, found)
		_, found = w.unpaid(w.home, "ch_none")
		require.False(w, found)
	}},
	{"unpaid: the row outlives the claim, and the key's next life", func(w *world) {
		refused := w.settle(w.begin(w.arrival("k", "100"), claim.Won), declinedHard("no"))
		released := w.settle(w.begin(w.arrival("soft", "100"), claim.Won), declinedSoft("no funds"))
		at := w.settledAt(released)
		again := w.settle(w.begin(w.arrival("again", "100"), claim.Won), declinedHard("no"))
		w.until(w.now().Add(w.Policy.PinLife()))
		next := w.settle(w.begin(w.arrival("again", "200"), claim.Won), approved("another life"))
		require.NotEqual(w, again.Minted.ID, next.Minted.ID)
		w.remembered(again, again.SettledAt)
		w.forgotten(refused)
		w.remembered(refused, refused.SettledAt)
		w.remembered(released, at)
		w.remembered(again, again.SettledAt)
		w.notRemembered(next)
	}},
	{"unpaid: the row is deleted after RememberFor", func(w *world) {
		if w.Advance == nil {
			w.Skip("400 days cannot be watched")
		}
		first := w.settle(w.begin(w.arrival("first", "100"), claim.Won), declinedHard("no"))
		w.Advance(time.Hour)
		second := w.settle(w.begin(w.arrival("second", "100"), claim.Won), declinedHard("no"))
		w.until(first.SettledAt.Add(w.Policy.RememberFor - time.Microsecond))
		w.sweep()
		w.remembered(first, first.SettledAt)
		w.Advance(time.Microsecond)
		w.sweep()
		w.notRemembered(first)
		w.remembered(second, second.SettledAt)
	}},
}

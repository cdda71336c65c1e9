package claimtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// refund is an arrival that reverses of.
func (w *world) refund(key, of string) claim.Arrival {
	a := w.arrival(key, `{"charge":"`+of+`","n":"`+key+`"}`)
	a.Operation, a.Reverses = "refund", of
	return a
}

// undoing reads what is in flight that reverses of, as each region does, and checks it.
func (w *world) undoing(of string, want ...claim.Record) {
	w.Helper()
	slices.SortFunc(want, func(a, b claim.Record) int {
		return cmp.Or(b.Minted.Created.Compare(a.Minted.Created), strings.Compare(b.Minted.ID, a.Minted.ID))
	})
	for _, region := range w.Regions {
		got, err := w.at(region).Reversing(w.ctx, w.tenant, w.home, of, 100)
		require.NoError(w, err)
		require.Len(w, got, len(want), "from %s", region)
		for i, rec := range want {
			call, found := w.row(outbox.ProviderCalls, rec.Minted.ID)
			require.True(w, found)
			require.Equal(w, rec.Minted.ID, got[i].ID)
			require.True(w, rec.Minted.Created.Equal(got[i].Created), "%v, not %v", got[i].Created, rec.Minted.Created)
			require.Equal(w, string(call.Payload), string(got[i].Payload))
		}
	}
}

// What reverses an object is listed by it from the step that begins it until the step that ends it.
var reversingTests = []test{
	{"reversing: from begin to settle", func(w *world) {
		charge := w.begin(w.arrival("charge", "100"), claim.Won)
		w.undoing(charge.Minted.ID)
		w.undoing("")
		first := w.begin(w.refund("first", charge.Minted.ID), claim.Won)
		require.Equal(w, charge.Minted.ID, first.Reverses)
		second := w.begin(w.refund("second", charge.Minted.ID), claim.Won)
		other := w.begin(w.refund("other", "ch_other"), claim.Won)
		w.undoing(charge.Minted.ID, first, second)
		w.undoing("ch_other", other)
		first = w.settle(first, unknown(false))
		w.undoing(charge.Minted.ID, first, second)
		w.settle(second, declinedHard("no"))
		w.undoing(charge.Minted.ID, first)
		w.lapse(first)
		first, err := w.at(w.home).TakeOver(w.ctx, first.Key, w.home, first.Minted.ID, "heir", w.home, claim.News{})
		require.NoError(w, err)
		w.undoing(charge.Minted.ID, first)
		w.settle(first, approved("made"))
		w.undoing(charge.Minted.ID)
		w.undoing("ch_other", other)
	}},
	{"reversing: while it waits, and under a canceled key", func(w *world) {
		rec := w.begin(w.refund("r", "ch_1"), claim.Won)
		rec = w.settle(rec, pending("processing", time.Minute))
		w.undoing("ch_1", rec)
		w.undoing("ch_1", w.cancel(rec))
	}},
	{"reversing: not while it is released, and again afterwards", func(w *world) {
		a := w.refund("r", "ch_1")
		w.settle(w.begin(a, claim.Won), declinedSoft("later"))
		w.undoing("ch_1")
		w.undoing("ch_1", w.begin(a, claim.Won))
	}},
	{"reversing: a key that is used again for another object", func(w *world) {
		w.free(w.settle(w.begin(w.refund("r", "ch_1"), claim.Won), declinedHard("no")))
		rec := w.begin(w.refund("r", "ch_2"), claim.Won)
		w.undoing("ch_1")
		w.undoing("ch_2", rec)
		w.free(w.settle(rec, declinedHard("no")))
		w.begin(w.arrival("r", "100"), claim.Won)
		w.undoing("ch_1")
		w.undoing("ch_2")
	}},
	{"reversing: the latest, of one tenant, at one home", func(w *world) {
		var all []claim.Record
		for i := range 5 {
			all = append(all, w.begin(w.refund(fmt.Sprint("r", i), "ch_1"), claim.Won))
		}
		w.undoing("ch_1", all...)
		whole, err := w.at(w.home).Reversing(w.ctx, w.tenant, w.home, "ch_1", 5)
		require.NoError(w, err)
		two, err := w.at(w.home).Reversing(w.ctx, w.tenant, w.home, "ch_1", 2)
		require.NoError(w, err)
		require.Equal(w, whole[:2], two)
		for tenant, home := range map[string]string{"globex": w.home, w.tenant: w.Regions[1]} {
			none, err := w.at(w.home).Reversing(w.ctx, tenant, home, "ch_1", 5)
			require.NoError(w, err)
			require.Empty(w, none)
		}
	}},
}

package claimtest

import (
	"fmt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
)

// pinHere is a request under an opaque key without a pin that was read.
func (w *world) pinHere(key string) claim.Arrival {
	a := w.arrival(key, "100")
	a.Stamped, a.PinHere = false, true
	return a
}

// homeOf returns where a key is pinned, "" for nowhere.
func (w *world) homeOf(key string) string {
	w.Helper()
	p, err := w.at(w.home).Pin(w.ctx, w.key(key), "")
	if err != nil {
		require.ErrorIs(w, err, claim.ErrNoNewHomes)
		return ""
	}
	return p.Home
}

// Tests of homes that are pinned in the same step as the claim. The registrar is
// w.home.
var pinHereTests = []test{
	{"begin: a key without a home gets it together with its claim", func(w *world) {
		rec := w.begin(w.pinHere("k"), claim.Won)
		require.Equal(w, w.home, rec.Home)
		p := w.pin(w.Regions[1], "k", w.Regions[1])
		require.Equal(w, w.home, p.Home)
		require.False(w, p.CreatedAt.After(rec.FirstUse), "the pin is no younger than the claim: %v, %v", p.CreatedAt, rec.FirstUse)
		require.Equal(w, 1, w.pending(w.home))

		w.begin(w.pinHere("k"), claim.Busy)
		w.settle(rec, approved("paid"))
		w.begin(w.pinHere("k"), claim.Replay)
		other := w.arrival("k", "200")
		other.Stamped, other.PinHere = false, true
		w.begin(other, claim.Mismatch)
	}},
	{"begin: a key with a home keeps it", func(w *world) {
		w.pin(w.Regions[1], "elsewhere", w.Regions[1])
		w.begin(w.pinHere("elsewhere"), claim.NeedPin)
		require.Equal(w, w.Regions[1], w.homeOf("elsewhere"))
		_, _, found, err := w.at(w.home).Get(w.ctx, w.key("elsewhere"), w.home)
		require.NoError(w, err)
		require.False(w, found)
		require.Zero(w, w.pending(w.home))
	}},
	{"begin: only the registrar's region pins a key", func(w *world) {
		a := w.pinHere("k")
		a.Home = w.Regions[1]
		got, err := w.at(w.Regions[1]).Begin(w.ctx, a)
		require.NoError(w, err)
		require.Equal(w, claim.NeedPin, got.Decision)
		require.Empty(w, w.homeOf("k"))
	}},
	{"begin: a draining region or an unknown tenant pins no key", func(w *world) {
		w.status(w.home, claim.RegionDraining)
		w.begin(w.pinHere("k"), claim.NeedPin)
		require.Empty(w, w.homeOf("k"))
		w.status(w.home, claim.RegionActive)
		w.begin(w.pinHere("k"), claim.Won)

		a := w.pinHere("k")
		a.Key.Tenant = "nobody"
		w.begin(a, claim.NeedPin)
	}},
	{"begin: a compare-only request pins no key", func(w *world) {
		a := w.pinHere("k")
		a.CompareOnly = true
		w.begin(a, claim.NeedPin)
		require.Empty(w, w.homeOf("k"))
	}},
	{"begin: a stamped key is not pinned", func(w *world) {
		value, err := claim.Stamp(1, nil)
		require.NoError(w, err)
		a := w.pinHere(value)
		_, err = w.at(w.home).Begin(w.ctx, a)
		require.ErrorContains(w, err, "stamped")
		a.Stamped = true
		w.begin(a, claim.Won)
	}},
	{"begin: a pin at the previous registrar counts", func(w *world) {
		w.MoveRegistrar(w, w.tenant, w.Regions[1])
		w.pin(w.Regions[2], "k", w.Regions[2])
		w.MoveRegistrar(w, w.tenant, w.home)
		w.begin(w.pinHere("k"), claim.NeedPin)
		require.Equal(w, w.Regions[2], w.homeOf("k"))
		w.begin(w.pinHere("new"), claim.NeedPin) // for as long as pins are looked for
	}},
	{"begin: of concurrent claims and remote pins exactly one home wins", func(w *world) {
		const keys = 12
		decided, homes := make([]claim.Decision, keys), make([]string, keys)
		var g errgroup.Group
		start := make(chan struct{})
		for i := range keys {
			key := fmt.Sprint("k", i)
			arrival := w.pinHere(key)
			g.Go(func() error {
				<-start
				got, err := w.at(w.home).Begin(w.ctx, arrival)
				decided[i] = got.Decision
				return err
			})
			g.Go(func() error {
				<-start
				p, err := w.at(w.Regions[1]).Pin(w.ctx, w.key(key), w.Regions[1])
				homes[i] = p.Home
				return err
			})
		}
		close(start)
		require.NoError(w, g.Wait())
		for i := range keys {
			require.Equal(w, homes[i], w.homeOf(fmt.Sprint("k", i)))
			if homes[i] == w.home {
				require.Equal(w, claim.Won, decided[i])
			} else {
				require.Equal(w, claim.NeedPin, decided[i])
			}
		}
	}},
}

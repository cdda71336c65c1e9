package claimtest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
)

func (w *world) pin(from, key, entry string) claim.Pin {
	w.Helper()
	p, err := w.at(from).Pin(w.ctx, w.key(key), entry)
	require.NoError(w, err)
	require.Equal(w, w.key(key), p.Key)
	return p
}

// status sets a region's status until the test ends.
func (w *world) status(region string, status claim.RegionStatus) {
	w.Helper()
	w.SetStatus(w, region, status)
	w.Cleanup(func() { w.SetStatus(w.T, region, claim.RegionActive) })
}

var pinTests = []test{
	{"pin: a stamped key is not pinned", func(w *world) {
		value, err := claim.Stamp(1, nil)
		require.NoError(w, err)
		_, err = w.at(w.Regions[1]).Pin(w.ctx, w.key(value), w.Regions[1])
		require.ErrorContains(w, err, "stamped")
	}},
	{"pin: the first write pins the home", func(w *world) {
		before := w.now()
		p := w.pin(w.Regions[1], "k", w.Regions[1])
		require.Equal(w, w.Regions[1], p.Home)
		require.False(w, p.CreatedAt.Before(before) || p.CreatedAt.After(w.now()))
		for _, r := range w.Regions {
			again := w.pin(r, "k", r)
			require.Equal(w, w.Regions[1], again.Home)
			require.True(w, again.CreatedAt.Equal(p.CreatedAt))
		}
		require.Equal(w, w.Regions[2], w.pin(w.Regions[2], "other", w.Regions[2]).Home)
	}},
	{"pin: of 32 concurrent pins in three regions exactly one wins", func(w *world) {
		homes := make([]string, 32)
		var g errgroup.Group
		for i := range homes {
			g.Go(func() error {
				r := w.Regions[i%3]
				p, err := w.at(r).Pin(w.ctx, w.key("k"), r)
				homes[i] = p.Home
				return err
			})
		}
		require.NoError(w, g.Wait())
		for _, h := range homes {
			require.Equal(w, homes[0], h)
		}
	}},
	{"pin: an unknown tenant's key is not pinned", func(w *world) {
		key := claim.Key{Tenant: "nobody", Value: "k"}
		_, err := w.at(w.home).Pin(w.ctx, key, w.home)
		require.ErrorIs(w, err, claim.ErrUnknownTenant)
		_, err = w.at(w.home).Registrar(w.ctx, "nobody")
		require.ErrorIs(w, err, claim.ErrUnknownTenant)
	}},
	{"pin: it returns the registrar", func(w *world) {
		for _, r := range w.Regions {
			got, err := w.at(r).Registrar(w.ctx, w.tenant)
			require.NoError(w, err)
			require.Equal(w, w.Regions[0], got)
		}
	}},
	{"pin: moving the registrar loses no pin", func(w *world) {
		old := w.pin(w.Regions[1], "k", w.Regions[1])
		w.MoveRegistrar(w, w.tenant, w.Regions[2])
		got, err := w.at(w.home).Registrar(w.ctx, w.tenant)
		require.NoError(w, err)
		require.Equal(w, w.Regions[2], got)
		for _, r := range w.Regions {
			require.Equal(w, old.Home, w.pin(r, "k", r).Home)
		}
		require.Equal(w, w.Regions[0], w.pin(w.Regions[0], "new", w.Regions[0]).Home)
		w.MoveRegistrar(w, w.tenant, w.Regions[0])
		require.Equal(w, old.Home, w.pin(w.home, "k", w.home).Home)
		require.Equal(w, w.Regions[0], w.pin(w.Regions[1], "new", w.Regions[1]).Home)
	}},
	{"pin: the registrar's pin outlasts the one at the registrar before it", func(w *world) {
		old := w.pin(w.Regions[1], "k", w.Regions[1])
		w.MoveRegistrar(w, w.tenant, w.Regions[2])
		w.until(old.CreatedAt.Add(w.Policy.PinLife()))
		taken := w.pin(w.Regions[2], "k", w.Regions[2])
		require.Equal(w, w.Regions[2], taken.Home)
		for _, r := range w.Regions {
			again := w.pin(r, "k", r)
			require.Equal(w, taken.Home, again.Home)
			require.True(w, again.CreatedAt.Equal(taken.CreatedAt))
		}
	}},
	{"pin: one home wins while the registrar moves", func(w *world) {
		const keys = 16
		homes := make([][3]string, keys)
		var g errgroup.Group
		start := make(chan struct{})
		for k := range keys {
			for i, r := range w.Regions[:3] {
				g.Go(func() error {
					<-start
					p, err := w.at(r).Pin(w.ctx, w.key(fmt.Sprint("k", k)), r)
					homes[k][i] = p.Home
					return err
				})
			}
		}
		close(start)
		w.MoveRegistrar(w, w.tenant, w.Regions[1])
		require.NoError(w, g.Wait())
		for k := range keys {
			require.Equal(w, homes[k][0], homes[k][1])
			require.Equal(w, homes[k][0], homes[k][2])
			require.Equal(w, homes[k][0], w.pin(w.home, fmt.Sprint("k", k), w.home).Home)
		}
	}},
	{"pin: an ageing pin is confirmed at its home", func(w *world) {
		p := w.pin(w.Regions[1], "k", w.Regions[1])
		w.until(p.CreatedAt.Add(w.Policy.ReplayFor + w.Policy.TombstoneFor))
		again := w.pin(w.Regions[2], "k", w.Regions[2])
		require.Equal(w, p.Home, again.Home)
		require.True(w, again.CreatedAt.After(p.CreatedAt))
	}},
	{"pin: a pin outlives a late claim", func(w *world) {
		// A crash left the pin alone; its first claim is created near its end.
		p := w.pin(w.Regions[1], "k", w.Regions[1])
		w.until(p.CreatedAt.Add(w.Policy.PinLife() - w.Policy.PinGrace/2))
		fresh := w.pin(w.Regions[1], "k", w.Regions[1])
		a := w.arrival("k", "100")
		a.Home, a.Stamped, a.PinnedAt = p.Home, false, p.CreatedAt
		w.begin(a, claim.NeedPin)
		a.PinnedAt = fresh.CreatedAt
		rec := w.settle(w.begin(a, claim.Won), approved("paid"))
		// The old pin would be over now; the claim must still be found.
		w.until(p.CreatedAt.Add(w.Policy.PinLife()))
		require.Equal(w, claim.Live, rec.Age(&w.Policy, w.now()))
		require.Equal(w, p.Home, w.pin(w.Regions[2], "k", w.Regions[2]).Home)
	}},
	{"pin: the entry takes a pin past its end", func(w *world) {
		p := w.pin(w.Regions[1], "k", w.Regions[1])
		a := w.arrival("k", "100")
		a.Home, a.Stamped, a.PinnedAt = p.Home, false, p.CreatedAt
		w.settle(w.begin(a, claim.Won), approved("paid"))
		w.until(p.CreatedAt.Add(w.Policy.PinLife()))
		taken := w.pin(w.Regions[2], "k", w.Regions[2])
		require.Equal(w, w.Regions[2], taken.Home)
		w.begin(a, claim.NeedPin) // the old home may not use the key any more
		b := w.arrival("k", "200")
		b.Home, b.Stamped, b.PinnedAt = taken.Home, false, taken.CreatedAt
		w.begin(b, claim.Won)
	}},
	{"pin: the entry does not take a pin with a claim in flight", func(w *world) {
		p := w.pin(w.Regions[1], "k", w.Regions[1])
		a := w.arrival("k", "100")
		a.Home, a.Stamped, a.PinnedAt = p.Home, false, p.CreatedAt
		rec := w.begin(a, claim.Won)
		w.until(p.CreatedAt.Add(w.Policy.PinLife()))
		again := w.pin(w.Regions[2], "k", w.Regions[2])
		require.Equal(w, p.Home, again.Home)
		require.True(w, again.CreatedAt.After(p.CreatedAt))
		w.until(again.CreatedAt.Add(w.Policy.PinLife()))
		rec = w.settle(rec, approved("paid"))
		last := w.pin(w.Regions[2], "k", w.Regions[2])
		require.Equal(w, p.Home, last.Home, "nor when it has only just come")
		w.until(last.CreatedAt.Add(w.Policy.PinLife()))
		require.Equal(w, claim.Gone, rec.Age(&w.Policy, w.now()))
		require.Equal(w, w.Regions[2], w.pin(w.Regions[2], "k", w.Regions[2]).Home)
	}},
	{"pin: a region that is not active takes no new homes", func(w *world) {
		from, other := w.Regions[1], w.Regions[2]
		refused := func(key string) {
			w.Helper()
			for _, r := range w.Regions { // whoever asks on its behalf
				_, err := w.at(r).Pin(w.ctx, w.key(key), from)
				require.ErrorIs(w, err, claim.ErrNoNewHomes)
			}
		}
		old := w.pin(from, "old", from)
		for i, status := range []claim.RegionStatus{claim.RegionDraining, claim.RegionDown} {
			w.status(from, status)
			key := fmt.Sprint("new", i)
			refused(key)
			require.Equal(w, from, w.pin(from, "old", from).Home, "a key that has a home keeps it")
			require.Equal(w, from, w.pin(other, "old", other).Home)
			require.Equal(w, other, w.pin(from, key, other).Home)
			require.Equal(w, other, w.pin(from, key, from).Home, "and so does one that has got another")
		}
		// A claim may be created under an earlier pin.
		a := w.arrival("old", "100")
		a.Home, a.Stamped, a.PinnedAt = from, false, old.CreatedAt
		w.settle(w.begin(a, claim.Won), approved("paid"))

		w.status(from, 0)
		require.Equal(w, from, w.pin(from, "again", from).Home)
	}},
	{"pin: a read-only pin gives a key no home", func(w *world) {
		for _, r := range w.Regions {
			_, err := w.at(r).Pin(w.ctx, w.key("new"), "")
			require.ErrorIs(w, err, claim.ErrNoNewHomes)
		}
		p := w.pin(w.Regions[1], "old", w.Regions[1])
		for _, r := range w.Regions {
			require.Equal(w, p.Home, w.pin(r, "old", "").Home)
		}
		require.Equal(w, w.Regions[2], w.pin(w.Regions[2], "new", w.Regions[2]).Home)
		w.until(p.CreatedAt.Add(w.Policy.PinLife()))
		_, err := w.at(w.home).Pin(w.ctx, w.key("old"), "")
		require.ErrorIs(w, err, claim.ErrNoNewHomes, "a pin past its end holds no more")
	}},
	{"pin: an inactive region takes no pin past its end", func(w *world) {
		from, other := w.Regions[1], w.Regions[2]
		p := w.pin(from, "k", from)
		w.until(p.CreatedAt.Add(w.Policy.ReplayFor + w.Policy.TombstoneFor))
		w.status(from, 1)
		confirmed := w.pin(from, "k", from)
		require.Equal(w, from, confirmed.Home, "an ageing pin is confirmed where it is")
		w.until(confirmed.CreatedAt.Add(w.Policy.PinLife()))
		_, err := w.at(from).Pin(w.ctx, w.key("k"), from)
		require.ErrorIs(w, err, claim.ErrNoNewHomes)
		require.Equal(w, other, w.pin(from, "k", other).Home)
	}},
	{"pin: an inactive region gets no new home after the registrar has moved", func(w *world) {
		from := w.Regions[1]
		p := w.pin(from, "old", from)
		w.MoveRegistrar(w, w.tenant, w.Regions[2])
		w.status(from, 1)
		require.Equal(w, p.Home, w.pin(from, "old", from).Home)
		_, err := w.at(from).Pin(w.ctx, w.key("new"), from)
		require.ErrorIs(w, err, claim.ErrNoNewHomes)
		require.Equal(w, w.home, w.pin(from, "new", w.home).Home)
	}},
	{"pin: no new home is pinned after a region's status is set", func(w *world) {
		from := w.Regions[1]
		const writers = 4
		g, ctx := errgroup.WithContext(w.ctx)
		fixed := make(chan struct{}, writers) // each pinned a key
		var set atomic.Bool
		for i := range writers {
			g.Go(func() error {
				for n := 0; ; n++ {
					after := set.Load()
					_, err := w.at(from).Pin(ctx, w.key(fmt.Sprint(i, "-", n)), from)
					switch {
					case errors.Is(err, claim.ErrNoNewHomes):
						return nil
					case err != nil:
						return err
					case after:
						return fmt.Errorf("pin %d-%d was fixed after the status was set", i, n)
					}
					if n == 0 {
						fixed <- struct{}{}
					}
				}
			})
		}
		for range writers {
			select {
			case <-fixed:
			case <-ctx.Done():
				require.NoError(w, g.Wait())
			}
		}
		w.status(from, 1)
		set.Store(true)
		require.NoError(w, g.Wait())
	}},
}

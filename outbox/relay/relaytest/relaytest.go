// Package relaytest is the conformance suite of relay.Endpoints. It runs unchanged on
// each backend.
package relaytest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/internal/seal/sealtest"
	"github.com/homeward-io/homeward/outbox/relay"
)

// Harness is one backend under test, initially without endpoints.
type Harness struct {
	// Regions has at least two.
	Regions []string
	// Endpoints is the view of a node in a region.
	Endpoints func(region string) relay.Endpoints
	// Tenants are two that exist.
	Tenants [2]string
	// Pass advances the store's clock by at least d.
	Pass func(t testing.TB, d time.Duration)
	// Now reads the store's clock.
	Now func(t testing.TB) time.Time
	// Patience is how long a tenant's endpoint may fail in the tests: longer than
	// the steps between take, however slow the backend.
	Patience time.Duration
	// Raw returns all that the store keeps, as a thief of its disk would find it.
	Raw func(t testing.TB) []byte
}

// Exercise checks every promise of the contract: with plain secrets, with sealed ones,
// and while secrets become sealed. newHarness opens a backend for each subtest.
func Exercise(t *testing.T, newHarness func(t *testing.T) Harness) {
	exercise(t, newHarness, slices.Concat(tests, sealedTests))
	t.Run("sealed", func(t *testing.T) {
		exercise(t, func(t *testing.T) Harness {
			h, r := newHarness(t), sealtest.Ring(7)
			bare := h.Endpoints
			h.Endpoints = func(region string) relay.Endpoints { return relay.Sealed(bare(region), r) }
			return h
		}, tests)
	})
}

type test struct {
	name string
	run  func(w *world)
}

func exercise(t *testing.T, newHarness func(t *testing.T) Harness, tests []test) {
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(t)
			require.GreaterOrEqual(t, len(h.Regions), 2)
			tc.run(&world{Harness: h, T: t, ctx: t.Context(), tenant: h.Tenants[0], url: "https://shop.example/hooks"})
		})
	}
}

type world struct {
	Harness
	*testing.T
	ctx         context.Context
	tenant, url string
}

func (w *world) at() relay.Endpoints { return w.Endpoints(w.Regions[0]) }

func (w *world) put(url string, secrets ...string) {
	w.Helper()
	was, _, err := w.at().Endpoint(w.ctx, w.tenant)
	require.NoError(w, err)
	require.NoError(w, w.at().PutEndpoint(w.ctx, was, relay.Endpoint{Tenant: w.tenant, URL: url, Secrets: secrets}))
}

func (w *world) get() relay.Endpoint {
	w.Helper()
	e, found, err := w.at().Endpoint(w.ctx, w.tenant)
	require.NoError(w, err)
	require.True(w, found)
	return e
}

// note reports a delivery to the endpoint of put, and checks that the returned row is
// the stored one.
func (w *world) note(ok bool) relay.Endpoint {
	w.Helper()
	e, err := w.at().NoteDelivery(w.ctx, w.tenant, w.url, ok, w.Patience)
	require.NoError(w, err)
	require.Equal(w, normal(w.get()), normal(e))
	return e
}

// fail reports a failure and checks since when the endpoint has been failing.
func (w *world) fail() relay.Endpoint {
	w.Helper()
	e := w.note(false)
	require.False(w, e.FailingSince.IsZero())
	return e
}

func normal(e relay.Endpoint) relay.Endpoint {
	e.FailingSince, e.DisabledAt = e.FailingSince.UTC().Round(0), e.DisabledAt.UTC().Round(0)
	return e
}

var tests = []test{
	{"endpoint: none initially", func(w *world) {
		_, found, err := w.at().Endpoint(w.ctx, w.tenant)
		require.NoError(w, err)
		require.False(w, found)
		removed, err := w.at().RemoveEndpoint(w.ctx, w.tenant)
		require.NoError(w, err)
		require.False(w, removed)
		_, err = w.at().NoteDelivery(w.ctx, w.tenant, w.url, false, w.Patience)
		require.ErrorIs(w, err, relay.ErrNoEndpoint)
	}},
	{"endpoint: one for each tenant, the same in all regions", func(w *world) {
		w.put(w.url, "whsec_b", "whsec_a")
		want := relay.Endpoint{Tenant: w.tenant, URL: w.url, Secrets: []string{"whsec_b", "whsec_a"}}
		for _, region := range w.Regions {
			got, found, err := w.Endpoints(region).Endpoint(w.ctx, w.tenant)
			require.NoError(w, err)
			require.True(w, found)
			require.Equal(w, want, normal(got), "secrets stay in their order")
		}
		_, found, err := w.at().Endpoint(w.ctx, w.Tenants[1])
		require.NoError(w, err)
		require.False(w, found)

		w.put(w.url, "whsec_c")
		require.Equal(w, []string{"whsec_c"}, w.get().Secrets, "it is set, not added to")
	}},
	{"endpoint: it is removed once, and only one tenant's", func(w *world) {
		w.put(w.url, "whsec_a")
		require.NoError(w, w.at().PutEndpoint(w.ctx, relay.Endpoint{}, relay.Endpoint{Tenant: w.Tenants[1], URL: w.url, Secrets: []string{"whsec_b"}}))
		for _, want := range []bool{true, false} {
			removed, err := w.Endpoints(w.Regions[1]).RemoveEndpoint(w.ctx, w.tenant)
			require.NoError(w, err)
			require.Equal(w, want, removed)
		}
		_, found, err := w.at().Endpoint(w.ctx, w.tenant)
		require.NoError(w, err)
		require.False(w, found)
		_, found, err = w.at().Endpoint(w.ctx, w.Tenants[1])
		require.NoError(w, err)
		require.True(w, found)
	}},
	{"endpoint: no tenant has another's", func(w *world) {
		for i, other := range w.Tenants {
			tenant := w.Tenants[1-i]
			require.NoError(w, w.at().PutEndpoint(w.ctx, relay.Endpoint{}, relay.Endpoint{Tenant: other, URL: w.url, Secrets: []string{"whsec_a"}}))
			_, found, err := w.at().Endpoint(w.ctx, tenant)
			require.NoError(w, err)
			require.False(w, found)
			_, err = w.at().NoteDelivery(w.ctx, tenant, w.url, false, 0)
			require.ErrorIs(w, err, relay.ErrNoEndpoint)
			removed, err := w.at().RemoveEndpoint(w.ctx, tenant)
			require.NoError(w, err)
			require.False(w, removed)
			removed, err = w.at().RemoveEndpoint(w.ctx, other)
			require.NoError(w, err)
			require.True(w, removed)
		}
	}},
	{"endpoint: one that is set again after its removal knows nothing of the former", func(w *world) {
		w.put(w.url, "whsec_a")
		w.fail()
		_, err := w.at().RemoveEndpoint(w.ctx, w.tenant)
		require.NoError(w, err)
		for _, url := range []string{w.url, ""} {
			_, err = w.at().NoteDelivery(w.ctx, w.tenant, url, false, 0)
			require.ErrorIs(w, err, relay.ErrNoEndpoint)
		}
		w.put("https://new.example/hooks", "whsec_b")
		require.Equal(w, relay.Endpoint{Tenant: w.tenant, URL: "https://new.example/hooks", Secrets: []string{"whsec_b"}}, normal(w.get()))
	}},
	{"failing: since the first failure, by the store's clock", func(w *world) {
		w.put(w.url, "whsec_a")
		require.Zero(w, w.note(true).FailingSince)
		before := w.Now(w)
		first := w.fail()
		require.False(w, first.FailingSince.Before(before) || first.FailingSince.After(w.Now(w)))
		require.Zero(w, first.DisabledAt)
		w.Pass(w, w.Patience/4)
		require.True(w, w.fail().FailingSince.Equal(first.FailingSince))
	}},
	{"failing: a success ends it", func(w *world) {
		w.put(w.url, "whsec_a")
		first := w.fail()
		require.Zero(w, w.note(true).FailingSince)
		w.Pass(w, w.Patience)
		second := w.fail()
		require.True(w, second.FailingSince.After(first.FailingSince))
		require.Zero(w, second.DisabledAt, "the time before the success does not count")
	}},
	{"failing: an endpoint that fails for too long is disabled", func(w *world) {
		w.put(w.url, "whsec_a")
		since := w.fail().FailingSince
		w.Pass(w, w.Patience)
		e := w.note(false)
		require.False(w, e.DisabledAt.Before(since.Add(w.Patience)))
		require.False(w, e.DisabledAt.After(w.Now(w)))
		w.Pass(w, time.Millisecond)
		require.True(w, w.note(false).DisabledAt.Equal(e.DisabledAt), "once")
		require.True(w, w.note(true).DisabledAt.Equal(e.DisabledAt), "only its tenant enables it again")

		w.put(w.url, "whsec_a")
		e = w.get()
		require.Zero(w, e.DisabledAt)
		require.Zero(w, e.FailingSince)
		require.Zero(w, w.note(false).DisabledAt)
	}},
	{"put: an endpoint that was changed since it was read is left", func(w *world) {
		for _, keys := range []*seal.Ring{sealtest.Ring(1), sealtest.Ring(2, 1), sealtest.Ring(3)} { // the last opens nothing
			all, tenant := w.through(keys), w.Tenants[1]
			read, _, err := all.Endpoint(w.ctx, tenant)
			if err != nil {
				require.ErrorIs(w, err, seal.ErrLost)
			}
			made := func(secret string) relay.Endpoint {
				return relay.Endpoint{Tenant: tenant, URL: w.url, Secrets: []string{secret}}
			}
			require.NoError(w, all.PutEndpoint(w.ctx, read, made("whsec_a")))
			require.ErrorIs(w, all.PutEndpoint(w.ctx, read, made("whsec_b")), relay.ErrChanged)
			_, err = w.at().NoteDelivery(w.ctx, tenant, w.url, false, w.Patience)
			require.NoError(w, err)
			is, _, err := all.Endpoint(w.ctx, tenant)
			require.NoError(w, err)
			require.Equal(w, []string{"whsec_a"}, is.Secrets)
			require.NoError(w, all.PutEndpoint(w.ctx, made("whsec_a"), made("whsec_c")), "a delivery changes nothing of it")
			require.ErrorIs(w, w.at().PutEndpoint(w.ctx, read, made("whsec_d")), relay.ErrChanged, "the store compares what it has")
		}
	}},
	{"put: the caller's record of failures is not stored", func(w *world) {
		now := w.Now(w)
		require.NoError(w, w.at().PutEndpoint(w.ctx, relay.Endpoint{}, relay.Endpoint{Tenant: w.tenant, URL: w.url, Secrets: []string{"whsec_a"}, FailingSince: now, DisabledAt: now}))
		require.Equal(w, relay.Endpoint{Tenant: w.tenant, URL: w.url, Secrets: []string{"whsec_a"}}, normal(w.get()))
	}},
	{"put: an endpoint without a secret, or with too many, is refused", func(w *world) {
		for _, secrets := range [][]string{nil, make([]string, relay.MaxSecrets+1)} {
			require.Error(w, w.at().PutEndpoint(w.ctx, relay.Endpoint{}, relay.Endpoint{Tenant: w.tenant, URL: w.url, Secrets: secrets}))
		}
		require.Error(w, w.at().PutEndpoint(w.ctx, relay.Endpoint{}, relay.Endpoint{Tenant: w.tenant, URL: "https://shop.example/\xff", Secrets: []string{"whsec_a"}}))
		_, found, err := w.at().Endpoint(w.ctx, w.tenant)
		require.NoError(w, err)
		require.False(w, found)
	}},
	{"note: a delivery to a former URL is not recorded", func(w *world) {
		w.put(w.url, "whsec_a")
		since := w.fail()
		for _, ok := range []bool{true, false} {
			_, err := w.at().NoteDelivery(w.ctx, w.tenant, "https://old.example/hooks", ok, 0)
			require.ErrorIs(w, err, relay.ErrNoEndpoint)
		}
		require.Equal(w, normal(since), normal(w.get()))
		w.put("https://new.example/hooks", "whsec_a")
		for _, ok := range []bool{true, false} {
			_, err := w.at().NoteDelivery(w.ctx, w.tenant, w.url, ok, 0)
			require.ErrorIs(w, err, relay.ErrNoEndpoint)
		}
		require.Zero(w, w.get().FailingSince)
	}},
	{"note: concurrent notes agree", func(w *world) {
		w.put(w.url, "whsec_a")
		since := make([]time.Time, 16)
		var g errgroup.Group
		for i := range since {
			g.Go(func() error {
				e, err := w.Endpoints(w.Regions[i%2]).NoteDelivery(w.ctx, w.tenant, w.url, false, time.Hour)
				since[i] = e.FailingSince
				return err
			})
		}
		require.NoError(w, g.Wait())
		for _, at := range since {
			require.True(w, at.Equal(w.get().FailingSince))
		}
	}},
}

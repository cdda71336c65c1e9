package relaytest

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/internal/seal/sealtest"
	"github.com/homeward-io/homeward/outbox/relay"
)

// through is the store as a node with these keys uses it.
func (w *world) through(r *seal.Ring) relay.Endpoints { return relay.Sealed(w.at(), r) }

func (w *world) secrets(r *seal.Ring) ([]string, error) {
	w.Helper()
	e, found, err := w.through(r).Endpoint(w.ctx, w.tenant)
	require.True(w, found)
	require.Equal(w, w.url, e.URL)
	return e.Secrets, err
}

var sealedTests = []test{
	{"sealed: the stored bytes do not reveal the secret", func(w *world) {
		keys, secrets := sealtest.Ring(7), []string{"whsec_c2VhbGVk", "whsec_dG9v"}
		require.NoError(w, w.through(keys).PutEndpoint(w.ctx, relay.Endpoint{}, relay.Endpoint{Tenant: w.tenant, URL: w.url, Secrets: secrets}))
		raw := string(w.Raw(w))
		require.Contains(w, raw, w.url, "it has been looked for where it is")
		for _, s := range secrets {
			require.NotContains(w, raw, s)
		}
		got, err := w.secrets(keys)
		require.NoError(w, err)
		require.Equal(w, secrets, got)

		// The row of one tenant cannot be opened as that of another.
		stored, _, err := w.at().Endpoint(w.ctx, w.tenant)
		require.NoError(w, err)
		stored.Tenant = w.Tenants[1]
		require.NoError(w, w.at().PutEndpoint(w.ctx, relay.Endpoint{}, stored))
		e, found, err := w.through(keys).Endpoint(w.ctx, w.Tenants[1])
		require.ErrorIs(w, err, seal.ErrLost)
		require.True(w, found)
		require.Empty(w, e.Secrets)

		w.put(w.url, "whsec_cGxhaW4")
		require.Contains(w, string(w.Raw(w)), "whsec_cGxhaW4", "without a key it is there to be found")
	}},
	{"sealed: without its key a secret is lost, but not its endpoint", func(w *world) {
		require.NoError(w, w.through(sealtest.Ring(1)).PutEndpoint(w.ctx, relay.Endpoint{}, relay.Endpoint{Tenant: w.tenant, URL: w.url, Secrets: []string{"whsec_a"}}))
		for _, without := range []*seal.Ring{nil, sealtest.Ring(2)} {
			got, err := w.secrets(without)
			require.ErrorIs(w, err, seal.ErrLost)
			require.ErrorContains(w, err, sealtest.Ring(1).Names()[0].String(), "it says which key is missing")
			require.Empty(w, got)
			e, err := w.through(without).NoteDelivery(w.ctx, w.tenant, w.url, false, w.Patience)
			require.NoError(w, err)
			require.False(w, e.FailingSince.IsZero())
		}
		lost, _, err := w.through(sealtest.Ring(2)).Endpoint(w.ctx, w.tenant)
		require.ErrorIs(w, err, seal.ErrLost)
		require.NoError(w, w.through(sealtest.Ring(2)).PutEndpoint(w.ctx, lost, relay.Endpoint{Tenant: w.tenant, URL: w.url, Secrets: []string{"whsec_b"}}))
		got, err := w.secrets(sealtest.Ring(2))
		require.NoError(w, err)
		require.Equal(w, []string{"whsec_b"}, got, "a new secret mends it")
	}},
	{"sealed: secrets are resealed from no key to one, and from key to key", func(w *world) {
		w.put(w.url, "whsec_a", "whsec_b")
		since := w.fail().FailingSince
		require.NoError(w, w.through(sealtest.Ring(1)).PutEndpoint(w.ctx, relay.Endpoint{}, relay.Endpoint{Tenant: w.Tenants[1], URL: w.url, Secrets: []string{"whsec_c"}}))
		all := w.at().(relay.Secrets)
		c := seal.Census{Ring: sealtest.Ring(2, 1)}
		require.NoError(w, relay.Reseal(w.ctx, all, &c))
		require.Equal(w, map[string]int{"": 2, sealtest.Ring(1).Names()[0].String(): 1}, c.Under)
		require.Equal(w, []int{3, 0}, []int{c.Again, c.Lost})
		got, err := w.secrets(sealtest.Ring(2))
		require.NoError(w, err)
		require.Equal(w, []string{"whsec_a", "whsec_b"}, got)
		require.True(w, w.get().FailingSince.Equal(since), "nothing else of the endpoint has changed")
		c = seal.Census{Ring: sealtest.Ring(2, 1)}
		require.NoError(w, relay.Reseal(w.ctx, all, &c))
		require.Zero(w, c.Again)
	}},
	{"sealed: it pages, and leaves secrets alone that changed meanwhile", func(w *world) {
		w.put(w.url, "whsec_a")
		require.NoError(w, w.at().PutEndpoint(w.ctx, relay.Endpoint{}, relay.Endpoint{Tenant: w.Tenants[1], URL: w.url, Secrets: []string{"whsec_b"}}))
		all := w.at().(relay.Secrets)
		var seen []string
		for after := ""; ; {
			last, err := all.RewriteSecrets(w.ctx, after, 1, func(tenant string, secrets []string) ([]string, error) {
				seen = append(seen, fmt.Sprint(tenant, secrets))
				if tenant == w.tenant {
					w.put(w.url, "whsec_new")
				}
				return []string{"late"}, nil
			})
			require.NoError(w, err)
			if after = last; last == "" {
				break
			}
		}
		want := []string{fmt.Sprint(w.Tenants[0], []string{"whsec_a"}), fmt.Sprint(w.Tenants[1], []string{"whsec_b"})}
		slices.Sort(want)
		require.Equal(w, want, seen)
		require.Equal(w, []string{"whsec_new"}, w.get().Secrets)
	}},
	{"sealed: it loses no delivery that is noted meanwhile, and passes by what was removed", func(w *world) {
		require.NoError(w, w.at().PutEndpoint(w.ctx, relay.Endpoint{}, relay.Endpoint{Tenant: w.Tenants[1], URL: w.url, Secrets: []string{"whsec_b"}}))
		_, err := w.at().RemoveEndpoint(w.ctx, w.Tenants[1])
		require.NoError(w, err)
		w.put(w.url, "whsec_a")
		var seen []string
		var since relay.Endpoint
		for after := ""; ; {
			last, err := w.at().(relay.Secrets).RewriteSecrets(w.ctx, after, 1, func(tenant string, _ []string) ([]string, error) {
				seen = append(seen, tenant)
				since = w.fail()
				return []string{"whsec_again"}, nil
			})
			require.NoError(w, err)
			if after = last; last == "" {
				break
			}
		}
		require.Equal(w, []string{w.tenant}, seen)
		since.Secrets = []string{"whsec_again"}
		require.Equal(w, normal(since), normal(w.get()))
	}},
}

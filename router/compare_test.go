package router

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/region"
)

// noPins is a registrar with the pins of homes, by key, that records its calls.
type noPins struct {
	rows
	homes map[string]string
}

func (p noPins) Pin(_ context.Context, key claim.Key, entry string) (claim.Pin, error) {
	p.log("pin for %q", entry)
	if home, has := p.homes[key.Value]; has {
		return claim.Pin{Home: home, CreatedAt: pinned}, nil
	}
	if entry == "" {
		return claim.Pin{}, claim.ErrNoNewHomes
	}
	return claim.Pin{Home: entry, CreatedAt: pinned}, nil
}

// A request that is to be compared only gives its key no home, and finds out that there is no claim
// while other regions are away. Where its key has a claim it reads that one. While the key's home
// is unreachable it cannot find that there is none.
func TestComparedOnly(t *testing.T) {
	away := []error{region.ErrNoNode, region.ErrNoNode}
	key, far2 := "k", stamped(t, 2)
	for name, c := range map[string]struct {
		world  world
		homes  map[string]string
		key    string
		prefer claim.RegionCode
		calls  []string
		err    error
	}{
		"a new key, while the others are away": {
			world: world{registrar: here, needPin: true, peers: map[string][]error{europe: away, asia: away}}, key: key,
			calls: []string{`pin for ""`}, err: claim.ErrNoClaim,
		},
		"a new key that would have its home elsewhere": {
			world: world{registrar: here, needPin: true}, key: key, prefer: 2,
			calls: []string{`pin for ""`}, err: claim.ErrNoClaim,
		},
		"a new key of another region's tenant": {
			world: world{registrar: europe, needPin: true}, key: key,
			calls: []string{"do us-east1", "replica", `pin for ""`}, err: claim.ErrNoClaim,
		},
		"a pin and no claim": {
			world: world{registrar: here, needPin: true}, key: key, homes: map[string]string{key: here},
			calls: []string{`pin for ""`, "do us-east1"}, err: claim.ErrNoClaim,
		},
		"a claim here": {
			world: world{registrar: here}, key: key, homes: map[string]string{key: here},
			calls: []string{`pin for ""`, "do us-east1"},
		},
		"a claim elsewhere": {
			world: world{registrar: here, pin: europe}, key: key, homes: map[string]string{key: europe},
			calls: []string{`pin for ""`, "replica", "forward europe-west1 hop 1 pinned true"},
		},
		"a stamped key of elsewhere with a claim": {
			world: world{pin: europe}, key: far2,
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false"},
		},
		"a stamped key of elsewhere without": {
			world: world{peers: map[string][]error{europe: {claim.ErrNeedPin}}}, key: far2,
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false"}, err: claim.ErrNoClaim,
		},
		"its home is away": {
			world: world{registrar: here, pin: europe, peers: map[string][]error{europe: away}}, key: key, homes: map[string]string{key: europe},
			calls: []string{`pin for ""`, "replica", "forward europe-west1 hop 1 pinned true", "do europe-west1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := c.world
			r := w.router(t)
			r.Pins = noPins{rows{&w}, c.homes}
			req := request(c.key)
			req.PreferHome, req.CompareOnly = c.prefer, true
			_, err := r.Do(t.Context(), req, "")
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.calls, w.calls)
		})
	}
}

package router

import (
	"cmp"
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/region"
)

// table is the registrar that looks at the table of regions itself, and keeps what
// it fixed.
type table struct {
	rows
	active map[string]bool
	homes  map[string]string
}

func (t *table) Pin(_ context.Context, key claim.Key, entry string) (claim.Pin, error) {
	home, has := t.homes[key.Value]
	switch {
	case !has && !t.active[entry]:
		t.log("pin for %s: refused", entry)
		return claim.Pin{}, claim.ErrNoNewHomes
	case !has:
		home, t.homes[key.Value] = entry, entry
	}
	t.log("pin for %s: %s", entry, home)
	return claim.Pin{Key: key, Home: home, CreatedAt: pinned}, nil
}

// A request that prefers a home gets it where that region takes new ones; a key that
// has a home keeps it, and a stamped key needs none.
func TestPreferredHomes(t *testing.T) {
	const draining = region.Draining
	for name, c := range map[string]struct {
		key        string
		prefer     claim.RegionCode
		remembered [3]region.Status
		takes      []string
		lost       string
		homes      map[string]string
		calls      []string
	}{
		"elsewhere": {prefer: 3, takes: []string{here, europe, asia},
			calls: []string{"pin for asia-northeast1: asia-northeast1", "replica", "forward asia-northeast1 hop 1 pinned true"}},
		"here": {prefer: 1, takes: []string{here, europe, asia},
			calls: []string{"pin and do us-east1", "pin for us-east1: us-east1", "do us-east1"}},
		"drained": {prefer: 3, remembered: [3]region.Status{0, 0, draining}, takes: []string{here, europe},
			calls: []string{"pin and do us-east1", "pin for us-east1: us-east1", "do us-east1"}},
		"drained, not yet read here": {prefer: 3, takes: []string{here, europe},
			calls: []string{"pin for asia-northeast1: refused", "pin for us-east1: us-east1", "do us-east1"}},
		"lost: its rows without it": {prefer: 3, takes: []string{here, europe, asia}, lost: asia,
			calls: []string{"pin for asia-northeast1: asia-northeast1", "replica", "do asia-northeast1"}},
		"of a code that no region has": {prefer: 9, takes: []string{here, europe, asia},
			calls: []string{"pin and do us-east1", "pin for us-east1: us-east1", "do us-east1"}},
		"a key with a home keeps it": {prefer: 3, takes: []string{here, europe, asia}, homes: map[string]string{"order-1": here},
			calls: []string{"pin for asia-northeast1: us-east1", "do us-east1"}},
		"a stamped key names its home": {key: stamped(t, 2), prefer: 3, takes: []string{here, europe, asia},
			calls: []string{"replica", "forward europe-west1 hop 1 pinned false"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{registrar: here}
			pins := &table{rows: rows{w}, active: map[string]bool{}, homes: map[string]string{}}
			for _, r := range c.takes {
				pins.active[r] = true
			}
			maps.Copy(pins.homes, c.homes)
			var rows []region.Region
			for i, r := range []string{here, europe, asia} {
				rows = append(rows, region.Region{Name: r, Code: claim.RegionCode(i + 1), Status: c.remembered[i]})
			}
			topology, err := region.NewTopology(rows)
			require.NoError(t, err)
			r := New(Config{Self: here, Local: w, Peers: far{w}, Pins: pins, Topology: topology, Unreachable: func(region string) bool { return region == c.lost }})
			req := request(cmp.Or(c.key, "order-1"))
			req.PreferHome = c.prefer
			_, err = r.Do(t.Context(), req, "")
			require.NoError(t, err)
			require.Equal(t, c.calls, w.calls)
		})
	}
}

// TestNewHomes: a key that arrives where no new homes are taken gets another one;
// what the node remembers of the table may be old, both ways.
func TestNewHomes(t *testing.T) {
	const active, draining, down = region.Active, region.Draining, region.Down
	all := []string{here, europe, asia}
	for name, c := range map[string]struct {
		remembered [3]region.Status // of here, europe, asia
		takes      []string         // by the table
		registrar  string
		lost       string
		homes      map[string]string
		calls      []string
		err        error
	}{
		"active": {takes: all, registrar: europe,
			calls: []string{"pin for us-east1: us-east1", "do us-east1"}},
		"draining: the registrar's region": {remembered: [3]region.Status{draining}, takes: []string{europe, asia}, registrar: europe,
			calls: []string{"pin for europe-west1: europe-west1", "replica", "forward europe-west1 hop 1 pinned true"}},
		"draining, and it is the registrar: the nearest": {remembered: [3]region.Status{draining}, takes: []string{europe, asia}, registrar: here,
			calls: []string{"pin for asia-northeast1: asia-northeast1", "replica", "forward asia-northeast1 hop 1 pinned true"}},
		"down: likewise": {remembered: [3]region.Status{down}, takes: []string{europe, asia}, registrar: europe,
			calls: []string{"pin for europe-west1: europe-west1", "replica", "forward europe-west1 hop 1 pinned true"}},
		"the registrar's drains as well": {remembered: [3]region.Status{draining, draining}, takes: []string{asia}, registrar: europe,
			calls: []string{"pin for asia-northeast1: asia-northeast1", "replica", "forward asia-northeast1 hop 1 pinned true"}},
		"the registrar's is lost": {remembered: [3]region.Status{draining}, takes: []string{europe, asia}, registrar: europe, lost: europe,
			calls: []string{"pin for asia-northeast1: asia-northeast1", "replica", "forward asia-northeast1 hop 1 pinned true"}},
		"better a lost one than none": {remembered: [3]region.Status{draining, active, draining}, takes: []string{europe}, registrar: here, lost: europe,
			calls: []string{"pin for europe-west1: europe-west1", "replica", "do europe-west1"}},
		"drain not yet read here: refused": {takes: []string{europe, asia}, registrar: europe,
			calls: []string{"pin for us-east1: refused", "pin for europe-west1: europe-west1", "replica", "forward europe-west1 hop 1 pinned true"}},
		"two drains not yet read here": {takes: []string{europe}, registrar: here,
			calls: []string{"pin and do us-east1", "pin for us-east1: refused", "pin for asia-northeast1: refused", "pin for europe-west1: europe-west1", "replica", "forward europe-west1 hop 1 pinned true"}},
		"end of the drain not yet read here": {remembered: [3]region.Status{draining}, takes: all, registrar: europe,
			calls: []string{"pin for europe-west1: europe-west1", "replica", "forward europe-west1 hop 1 pinned true"}},
		"a key with a home keeps it": {remembered: [3]region.Status{draining}, takes: []string{europe, asia}, registrar: europe, homes: map[string]string{"order-1": here},
			calls: []string{"pin for europe-west1: us-east1", "do us-east1"}},
		"nobody takes any": {remembered: [3]region.Status{draining, draining, down}, registrar: europe, err: ErrHomeUnavailable},
		"none takes new homes, not yet read here": {registrar: europe, err: ErrHomeUnavailable,
			calls: []string{"pin for us-east1: refused", "pin for europe-west1: refused", "pin for asia-northeast1: refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{registrar: c.registrar, needPin: true}
			pins := &table{rows: rows{w}, active: map[string]bool{}, homes: map[string]string{}}
			for _, r := range c.takes {
				pins.active[r] = true
			}
			maps.Copy(pins.homes, c.homes)
			var rows []region.Region
			for i, r := range all {
				rows = append(rows, region.Region{Name: r, Code: claim.RegionCode(i + 1), Status: c.remembered[i]})
			}
			topology, err := region.NewTopology(rows)
			require.NoError(t, err)
			r := New(Config{
				Self: here, Local: w, Peers: far{w}, Pins: pins, Topology: topology, Unreachable: func(region string) bool { return region == c.lost },
				Distance: func(region string) (time.Duration, bool) {
					return map[string]time.Duration{europe: 80 * time.Millisecond, asia: 70 * time.Millisecond}[region], true
				},
			})
			_, err = r.Do(t.Context(), request("order-1"), "")
			require.ErrorIs(t, err, c.err)
			calls := w.calls
			if c.registrar != here { // what costs nothing was tried first
				require.Equal(t, []string{"do us-east1", "replica"}, calls[:2])
				calls = calls[2:]
			}
			require.Equal(t, c.calls, append([]string(nil), calls...))

			home, ok := r.NewHome()
			switch {
			case c.remembered[0] == active:
				require.Equal(t, here, home.Name)
			case c.remembered[1] == active && c.remembered[2] != active:
				require.Equal(t, europe, home.Name)
			case c.remembered[2] == active:
				require.Equal(t, asia, home.Name)
			default:
				require.False(t, ok)
			}
		})
	}
}

package router

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

// answering is a Local whose claims are final, once a pin has let them be made.
type answering struct {
	*world
	final map[string]bool
	state claim.State
}

func (a answering) Do(ctx context.Context, home string, req *claim.Request) (claim.Reply, error) {
	if a.needPin = !a.final[req.Key.Value]; !a.needPin {
		what := "do"
		if req.PinHere {
			what = "pin and do"
		}
		a.log("%s %s", what, home)
		return claim.Reply{Home: home, State: a.state, Replayed: true}, nil
	}
	reply, err := a.world.Do(ctx, home, req)
	if err == nil {
		a.final[req.Key.Value] = true
		reply.State = a.state
	}
	return reply, err
}

// A key that has just been answered here is looked for here first. That it is remembered
// decides nothing: where its claim is gone, the registrar is asked as ever.
func TestLately(t *testing.T) {
	for name, c := range map[string]struct {
		state       claim.State
		pin         string
		gone        bool
		first, then []string
	}{
		"answered":         {claim.Completed, here, false, []string{"pin and do us-east1"}, []string{"do us-east1"}},
		"refused for good": {claim.FailedTerminal, here, false, []string{"pin and do us-east1"}, []string{"do us-east1"}},
		"not settled":      {claim.InFlight, here, false, []string{"pin and do us-east1"}, []string{"pin and do us-east1"}},
		"released":         {claim.FailedRetry, here, false, []string{"pin and do us-east1"}, []string{"pin and do us-east1"}},
		"elsewhere": {claim.Completed, europe, false, []string{"pin and do us-east1", "pin", "replica", "forward europe-west1 hop 1 pinned true"},
			[]string{"pin and do us-east1", "pin", "replica", "forward europe-west1 hop 1 pinned true"}},
		"gone": {claim.Completed, here, true, []string{"pin and do us-east1"}, []string{"do us-east1", "pin", "do us-east1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := world{registrar: here, pin: c.pin}
			r := w.router(t)
			a := answering{&w, map[string]bool{}, c.state}
			r.local = a
			req := request("k")
			_, err := r.Do(t.Context(), req, "")
			require.NoError(t, err)
			require.Equal(t, c.first, w.asked)
			w.asked = nil
			if c.gone {
				clear(a.final)
			}
			reply, err := r.Do(t.Context(), req, "")
			require.NoError(t, err)
			require.Equal(t, c.pin, reply.Home)
			require.Equal(t, c.then, w.asked)
			require.False(t, r.lately.Knows(claim.Key{Tenant: "globex", Value: "k"}), "of another tenant")
		})
	}
}

// TestLatelyIsNoPin: a replica shows a pin that names a region which this node does not
// know yet. What was answered here once is no reason to act under that pin here.
func TestLatelyIsNoPin(t *testing.T) {
	w := world{registrar: europe, pin: europe, replicaAt: "mars-north1", needPin: true}
	r := w.router(t)
	key := claim.Key{Tenant: "acme", Value: "k"}
	r.lately.Add(key)
	_, err := r.Do(t.Context(), claim.Request{Key: key}, "")
	require.NoError(t, err)
	require.Equal(t, []string{"do us-east1", "replica", "pin", "replica", "forward europe-west1 hop 1 pinned true"}, w.asked)
}

package notice

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

// putBack is a store that was restored from a backup.
type putBack struct {
	claim.Restores
	row     claim.Restore
	witness *claim.Witness
}

func (p *putBack) Restore(context.Context) (claim.Restore, time.Time, error) {
	return p.row, time.Now(), nil
}

func (p *putBack) Witness(context.Context, claim.Key) (w claim.Witness, found bool, err error) {
	if p.witness != nil {
		return *p.witness, true, nil
	}
	return w, false, nil
}

// behind is w behind the guard of a restore, if there is one.
func (w *world) behind() Claims {
	if w.guard == nil {
		return w
	}
	return w.guard.Claims(claimsOf{w: w}, nil, nil)
}

type claimsOf struct {
	claim.Store
	w *world
}

func (c claimsOf) ByObject(ctx context.Context, home, id string) (claim.Record, bool, error) {
	return c.w.ByObject(ctx, home, id)
}

func (c claimsOf) Unpaid(ctx context.Context, home, id string) (claim.Unpaid, bool, error) {
	return c.w.Unpaid(ctx, home, id)
}

// The backup has a charge as declined for now. In what is lost it was paid, and the provider
// reports it late. A ghost would refund a paid charge.
func TestWhatMayBePaidInALostGenerationIsNoGhost(t *testing.T) {
	id := objectID(t, "ch", 1)
	now := time.Now()
	for name, c := range map[string]struct {
		witness *claim.Witness
		phase   claim.RestorePhase
		ghost   bool
	}{
		"no witness":                     {nil, claim.RestoreHolding, false},
		"its last generation is unknown": {&claim.Witness{Object: id, Generation: 2}, claim.RestoreHolding, false},
		"a later generation was paid":    {&claim.Witness{Object: id, Generation: 2, Done: true}, claim.RestoreHolding, false},
		"nothing of it is lost":          {nil, claim.RestoreWitnessed, true},
		"it is over":                     {nil, claim.RestoreOver, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &putBack{row: claim.NewRestore(claim.Restore{}, now.Add(-time.Hour), now, now, nil, "ops", "a test"), witness: c.witness}
			p.row.Phase = c.phase
			w := newWorld(t)
			var err error
			w.guard, err = claim.NewGuard(t.Context(), p)
			require.NoError(t, err)
			w.have(id, claim.FailedRetry, "")
			_, later := w.deliver(charged(id, "p1")).Delay()
			require.Equal(t, c.ghost, !later)
			require.Equal(t, c.ghost, w.closed["sim:e"] == ProcessedCompensated)
			require.Equal(t, c.ghost, len(w.books) > 0)
		})
	}
}

package e2e

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// poison is the amount that the adapter of these tests cannot bear.
const poison = 666

// panicking is an adapter that moves the money and then panics over some answers.
type panicking struct {
	psp.Provider
	mended atomic.Bool
}

func (p *panicking) Charge(ctx context.Context, call psp.Call) psp.Result {
	r := p.Provider.Charge(ctx, call)
	if call.Amount == poison && !p.mended.Load() {
		panic("no answer is like this")
	}
	return r
}

func (p *panicking) Lookup(ctx context.Context, call psp.Call) (psp.Found, psp.Result) {
	found, r := p.Provider.Lookup(ctx, call)
	if !p.mended.Load() {
		panic("no look-up is like this")
	}
	return found, r
}

// hasty is a store that makes provider calls due again at once.
type hasty struct{ deployment.Store }

func (s hasty) Queue(q outbox.Queue) outbox.Store {
	if q != outbox.ProviderCalls {
		return s.Store.Queue(q)
	}
	return hastyQueue{s.Store.Queue(q)}
}

type hastyQueue struct{ outbox.Store }

func (s hastyQueue) Retry(ctx context.Context, region string, row outbox.Hold, after time.Duration, reason string) error {
	return s.Store.Retry(ctx, region, row, min(after, time.Millisecond), reason)
}

func (s hastyQueue) RetryAll(ctx context.Context, region string, rows []outbox.Delay) error {
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i].After = min(rows[i].After, time.Millisecond)
	}
	return s.Store.RetryAll(ctx, region, rows)
}

// A charge that our code panics over after the money has moved takes no node down, and
// no other charge with it, and is never failed: its merchant reads that the outcome is
// unknown, the row is parked with a page, and once the code is mended and the row
// retried, every retry reads the one charge.
func TestAPanicUnderAChargeIsParkedAndNeverFailed(t *testing.T) {
	adapter := &panicking{}
	w := startWorld(t, nil, func(c *node.ClusterConfig) {
		adapter.Provider = c.Providers[0]
		c.Providers = psp.Providers{adapter}
		c.WrapStore = func(_ string, s deployment.Store) deployment.Store { return hasty{s} }
	})
	rows, err := w.cluster.DB.Region(us)
	require.NoError(t, err)
	store := rows.Queue(outbox.ProviderCalls)
	bad := charge(stamped(t, us), poison)
	require.Equal(t, "outcome_unknown", w.at(us, bad, http.StatusServiceUnavailable).Problem.Error)

	until(t, "the row is parked", func() bool {
		w.at(us, charge(stamped(t, us), 100), http.StatusCreated) // the others go on
		parked, err := store.Parked(w.ctx, us, "", 10)
		require.NoError(t, err)
		return len(parked) == 1 && strings.Contains(parked[0].LastError, "our code panicked: no answer is like this")
	})
	require.Contains(t, w.log.String(), "page: our code panics on a row")
	require.Contains(t, w.log.String(), "panicking).Charge", "the stack names the place")

	// Retries of the merchant, at home and elsewhere, change nothing of that.
	for _, region := range []string{us, eu} {
		r := w.send(w.ctx, region, bad)
		require.NoError(t, r.Err)
		require.Contains(t, []string{"outcome_unknown", "idempotency_key_in_use"}, r.Problem.Error, "%s", r.Body)
		require.Equal(t, "same_key", r.Problem.Retry)
	}
	is, err := w.inspect(w.ctx, us, acme, bad.key)
	require.NoError(t, err)
	require.Equal(t, "in_flight", strings.ToLower(is.State))

	adapter.mended.Store(true)
	parked, err := store.Parked(w.ctx, us, "", 10)
	require.NoError(t, err)
	require.Len(t, parked, 1, "it waits for a person")
	unparked, err := store.Unpark(w.ctx, us, parked[0].ID)
	require.NoError(t, err)
	require.True(t, unparked)
	until(t, "it is settled", func() bool { return w.send(w.ctx, us, bad).Status == http.StatusCreated })
	require.Equal(t, w.at(us, bad, http.StatusCreated).Remembered(), w.at(eu, bad, http.StatusCreated).Remembered())
	require.Equal(t, 1, w.judge.moved(parked[0].ID))
	depth, err := store.Depth(w.ctx, us)
	require.NoError(t, err)
	require.Zero(t, depth.Parked)
}

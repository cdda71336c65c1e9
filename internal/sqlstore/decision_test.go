package sqlstore_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab/wireproxy"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// TestAnOldDecisionIsMadeAnew: a statement whose first try was cut off is repeated as it was.
// If that takes longer than a decision is good for, its lease would be over, and its windows
// would end before the pin's do, when it is written. So nothing is, and Begin decides anew.
func TestAnOldDecisionIsMadeAnew(t *testing.T) {
	d := newDatabase(t)
	if d.clock == nil {
		t.Skip("the store's clock has to move while the statement waits")
	}
	u, err := url.Parse(d.url)
	require.NoError(t, err)
	proxy, err := wireproxy.Start(u.Host)
	require.NoError(t, err)
	db := open(t, sqlstore.Config{URL: proxy.URL(d.url)})
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	db.StopWaiting()
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: here}))
	v := view(t, db, here)
	now := func() time.Time {
		_, now, _, err := v.Get(t.Context(), claim.Key{Tenant: "acme", Value: "clock"}, here)
		require.NoError(t, err)
		return now
	}
	type step func(context.Context) (claim.Begun, error)
	for statement, prepare := range map[string]func(key claim.Key) (step, claim.Decision){
		"begin_again": func(key claim.Key) (step, claim.Decision) {
			got, err := v.Begin(t.Context(), claimtest.NewArrival(key, here, "100", "a", "ch_first"))
			require.NoError(t, err)
			_, err = v.Settle(t.Context(), got.Record, claim.Verdict{Outcome: &claim.Released{Response: claim.Response{Status: 402}}})
			require.NoError(t, err)
			d.clock.advance(t, time.Minute)
			second := claimtest.NewArrival(key, here, "100", "b", "ch_second")
			return func(ctx context.Context) (claim.Begun, error) { return v.Begin(ctx, second) }, claim.Won
		},
		"reattach": func(key claim.Key) (step, claim.Decision) {
			a := claimtest.NewArrival(key, here, "100", "a", "ch_lost")
			w := claim.Witness{Home: here, Object: "ch_lost", FirstUse: now().Add(-time.Minute), Fingerprint: a.Print, Fence: 1, Generation: 1}
			return func(ctx context.Context) (claim.Begun, error) { return v.Reattach(ctx, a, w) }, claim.WonUnknown
		},
	} {
		t.Run(statement, func(t *testing.T) {
			begin, want := prepare(claim.Key{Tenant: "acme", Value: statement})
			shot := proxy.Arm(statement, wireproxy.StallBefore, 1)
			type answer struct {
				begun claim.Begun
				err   error
			}
			answered := make(chan answer, 1)
			go func() {
				begun, err := begin(t.Context())
				answered <- answer{begun, err}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.NoError(t, shot.Wait(ctx))
			d.clock.advance(t, testPolicy().Lease)
			shot.Release()
			got := <-answered
			require.NoError(t, got.err)
			require.Equal(t, want.String(), got.begun.Decision.String())
			require.WithinDuration(t, now().Add(testPolicy().Lease), got.begun.Record.LeaseUntil, 0, "the lease begins now")
		})
	}
}

package restore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/restore"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment"
)

// books die at their nth write, counted with those of the rows.
type books struct {
	*dying
	store deployment.Store
}

func (b books) Post(ctx context.Context, t ledger.Transaction) (posted bool, err error) {
	err = b.write(func() (err error) { posted, err = b.store.Post(ctx, t); return err })
	return posted, err
}

func (b books) ByObject(ctx context.Context, region, object string) (claim.Record, bool, error) {
	return b.store.ByObject(ctx, region, object)
}

// TestBookDiesAnywhere: at whichever write the tool dies, a repeat books each movement once, and at
// no moment the guard releases a key before its claim is booked.
func TestBookDiesAnywhere(t *testing.T) {
	movement := restore.Movement{Object: "ch_1", Ref: "p_1", Operation: payment.Charge, Amount: 700, Currency: "usd"}
	for _, after := range []bool{false, true} {
		for step := 1; ; step++ {
			d := open(t)
			v := rows(t, d)
			now := time.Now()
			_, err := restore.Begin(t.Context(), d, v, restore.Lost{From: now.Add(-100 * time.Hour), Until: now.Add(-50 * time.Hour), By: "ops", Why: "a test"})
			require.NoError(t, err)
			w := claim.Witness{
				Key: claim.Key{Tenant: "acme", Value: "k"}, Home: home, Object: "ch_1", FirstUse: now, Generation: 1,
				Provider: "simulator", Operation: "charge", Done: true, ProviderRef: "p_1",
			}
			require.NoError(t, d.PutWitnesses(t.Context(), []claim.Witness{w}))
			guard, err := claim.NewGuard(t.Context(), d)
			require.NoError(t, err)

			dies := &dying{Deployment: d, Store: v, remaining: step, after: after}
			err = restore.Book(t.Context(), only{dies}, books{dies, v}, []restore.Movement{movement}, func(restore.Booking) {})
			_, booked, found := v.Transaction(t.Context(), home, "ch_1")
			require.NoError(t, found)
			if booked {
				_, withheld := guard.Recall(t.Context(), w.Key)
				require.ErrorAs(t, withheld, new(*claim.WithheldError))
			}
			if err == nil {
				require.Equal(t, 4, step, "the row, the witness and the transaction are written")
				break
			}
			require.ErrorIs(t, err, errDied)
			for range 2 {
				require.NoError(t, restore.Book(t.Context(), d, v, []restore.Movement{movement}, func(b restore.Booking) { require.Empty(t, b.Why) }))
			}
			_, booked, err = v.Transaction(t.Context(), home, "ch_1")
			require.NoError(t, err)
			require.True(t, booked)
		}
	}
}

// TestTheAuditIsReadAgain: what was booked before stays so, in the same restore and in one that
// follows while it is in effect.
func TestTheAuditIsReadAgain(t *testing.T) {
	w := newWorld(t)
	d := open(t)
	v := rows(t, d)
	long := time.Now().Add(-50 * time.Hour)
	again := func() error { return w.restore(d, v, long) }
	require.NoError(t, again())
	got, found, err := d.Witness(t.Context(), w.lost[0].Key)
	require.NoError(t, err)
	require.True(t, found)
	require.False(t, got.Booked)
	got.Done, got.ProviderRef, got.Provider = true, "p_1", "simulator"
	require.NoError(t, d.PutWitnesses(t.Context(), []claim.Witness{got}))
	movement := restore.Movement{Object: got.Object, Ref: "p_1", Operation: payment.Charge, Amount: 700, Currency: "usd"}
	require.NoError(t, restore.Book(t.Context(), d, v, []restore.Movement{movement}, func(b restore.Booking) { require.Empty(t, b.Why) }))
	require.NoError(t, again())
	got, _, err = d.Witness(t.Context(), w.lost[0].Key)
	require.NoError(t, err)
	require.True(t, got.Booked)
	other, _, err := d.Witness(t.Context(), w.lost[1].Key)
	require.NoError(t, err)
	require.False(t, other.Booked)
}

package embedded_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/audit/audittest"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/ledger"
)

// TestExportCrash cuts the power after each step of an export, and of the sweep that follows days
// later, in many ways. The export continues from what survived, and no entry is missing.
func TestExportCrash(t *testing.T) {
	text, err := audit.NewKey()
	require.NoError(t, err)
	keys, err := audit.ParseKeys(text)
	require.NoError(t, err)
	stride := 1
	if testing.Short() {
		stride = 4
	}
	for steps, alive := 0, false; !alive; steps += stride {
		w, bucket := newCrashWorld(t), audittest.NewBucket()
		for i := range 3 {
			rec := w.begin(claimtest.NewArrival(claim.Key{Tenant: "acme", Value: fmt.Sprint("k", i)}, "us-east1", "100", "n", fmt.Sprint("ch_", i)))
			w.settle(rec, claim.OutcomeDone)
		}
		w.clock.advance(25 * time.Hour)
		alive = w.export(bucket, keys, steps)
		w = w.crash(uint64(steps % crashes))
		w.export(bucket, keys, -1)
		w.exported(bucket, keys)

		w.clock.advance(5 * 24 * time.Hour)
		_, err := w.db.Sweep(w.ctx, 100)
		require.NoError(t, err)
		alive = w.export(bucket, keys, steps) && alive
		w = w.crash(uint64(steps % crashes))
		_, err = w.db.Sweep(w.ctx, 100)
		require.NoError(t, err)
		w.export(bucket, keys, -1)
		w.clock.advance(24 * time.Hour)
		w.export(bucket, keys, -1)
		w.exported(bucket, keys)
		page, err := w.home.AuditPage(w.ctx, "us-east1", time.Time{}, time.Time{}, audit.Position{}, 100)
		require.NoError(t, err)
		require.Empty(t, page.Entries, "a row that is in a segment was not deleted")
	}
}

// export runs a round. It dies after steps, unless they are negative.
func (w *crashWorld) export(bucket *audittest.Bucket, keys *audit.Keys, steps int) (alive bool) {
	c := audit.Config{
		Store: w.home, Objects: bucket, Keys: keys, Deployment: uuid.NameSpaceOID, Home: "us-east1", Node: "n", Entries: 4, Page: 4,
		Policy: audit.Policy{Window: 24 * time.Hour, Settle: time.Minute, KeepRows: audit.MinKeepRows},
	}
	if steps >= 0 {
		dying := audittest.Dying(w.home, bucket, steps)
		c.Store, c.Objects = dying, dying
	}
	x, err := audit.NewExporter(c)
	require.NoError(w.t, err)
	_, err = x.Round(w.ctx)
	if steps < 0 || err == nil {
		require.NoError(w.t, err)
		return true
	}
	require.ErrorIs(w.t, err, audittest.ErrDead)
	return false
}

// exported checks that the chain holds and has every entry.
func (w *crashWorld) exported(bucket *audittest.Bucket, keys *audit.Keys) {
	r, err := audit.Verify(w.ctx, audit.VerifyConfig{Objects: bucket, Trust: keys.Trust(), Regions: []string{"us-east1"}})
	require.NoError(w.t, err)
	require.Empty(w.t, r.Failures)
	for i := range 3 {
		found, doubts, err := (&audit.Archive{Objects: bucket, Trust: keys.Trust()}).Find(w.ctx, audit.Wanted{Tenant: "acme", Key: fmt.Sprint("k", i)})
		require.NoError(w.t, err)
		require.Empty(w.t, doubts)
		require.Len(w.t, found, 3)
	}
}

// TestForgetBooksCrash cuts the power after old books have left, in many ways, and while they
// leave: they are rows, or they are carried forward with the chain, and never both.
func TestForgetBooksCrash(t *testing.T) {
	for seed := range uint64(2 * crashes) {
		w := newCrashWorld(t)
		var ids []string
		for i := range 3 {
			id := fmt.Sprint("ch_", i)
			ids = append(ids, id)
			_, err := w.home.Post(w.ctx, ledger.Transaction{
				ID: id, Region: "us-east1", Tenant: "acme", Kind: ledger.Charge, Debit: ledger.Provider("sim"), Credit: ledger.Merchant("acme"),
				Amount: 5, Currency: "usd", Object: id, Provider: "sim", ProviderRef: "psp_" + id,
			})
			require.NoError(t, err)
		}
		w.clock.advance(audit.MinKeepBooks + time.Hour)
		_, err := w.home.AdvanceAudit(w.ctx, "us-east1", 0, audit.Chain{From: w.clock.now()})
		require.NoError(t, err)
		balances, err := w.home.Balances(w.ctx, "us-east1", ledger.AccountKey{}, 10)
		require.NoError(t, err)
		if seed < crashes {
			moved, err := w.home.ForgetBooks(w.ctx, "us-east1", 1, audit.Chain{Number: 1, Digest: "d"}, ids)
			require.NoError(t, err)
			require.True(t, moved)
			w = w.crash(seed)
		} else { // at any moment of the step
			before, done := w, make(chan error)
			go func() {
				_, err := before.home.ForgetBooks(before.ctx, "us-east1", 1, audit.Chain{Number: 1, Digest: "d"}, ids)
				done <- err
			}()
			w = w.crash(seed - crashes)
			<-done // that store is lost, with its answer
		}
		c, _, _, err := w.home.AuditChain(w.ctx, "us-east1")
		require.NoError(t, err)
		carried, err := w.home.Carried(w.ctx, "us-east1", ledger.AccountKey{}, 10)
		require.NoError(t, err)
		if seed < crashes {
			require.EqualValues(t, 2, c.Version)
		}
		if c.Version == 2 {
			require.Empty(t, w.books())
			require.Equal(t, balances, carried)
		} else {
			require.Len(t, w.books(), 3)
			require.Empty(t, carried)
		}
		is, err := w.home.Balances(w.ctx, "us-east1", ledger.AccountKey{}, 10)
		require.NoError(t, err)
		require.Equal(t, balances, is)
		for _, id := range ids {
			all, err := w.home.Incoming(w.ctx, "sim", "psp_"+id)
			require.NoError(t, err)
			require.Len(t, all, len(w.books())/3)
		}
	}
}

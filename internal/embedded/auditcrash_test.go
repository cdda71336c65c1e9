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
)

// TestExportCrash takes the power away after each step of an export, and of the sweep that
// follows days later, in many ways: what is left goes on, and no entry is missing.
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
		require.Empty(t, page.Entries, "rows that are in segments go in the end")
	}
}

// export runs a round, which ends after some steps, or goes through where steps is below 0.
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

package restore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/audit/audittest"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/restore"
)

// forgetful is a store. The test moves its clock, and puts its directory back.
type forgetful struct {
	*testing.T
	keys   *audit.Keys
	bucket *audittest.Bucket
	now    time.Time
}

func (f *forgetful) open() deployment.Store {
	f.Helper()
	v, _ := f.openBoth()
	return v
}

func (f *forgetful) openBoth() (deployment.Store, deployment.Deployment) {
	f.Helper()
	db, err := embedded.Open(embedded.Config{
		Dir: f.TempDir(), Policy: claim.DefaultPolicy(), Regions: []claim.Region{{Name: home, Code: 1}, {Name: away, Code: 2}},
		Clock: func() time.Time { return f.now },
	})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, db.Close()) })
	d := restored{deployment.Embedded(db)}
	require.NoError(f, d.PutTenant(f.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: home}))
	return rows(f.T, d), d
}

func (f *forgetful) begin(v deployment.Store, key string) {
	f.Helper()
	a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: key}, home, "100", "node-1", "ch_"+key)
	a.PinnedAt = f.now
	begun, err := v.Begin(f.Context(), a)
	require.NoError(f, err)
	require.Equal(f, claim.Won, begun.Decision)
}

func (f *forgetful) exporter(v audit.Store, bucket audit.Objects) *audit.Exporter {
	f.Helper()
	p := audit.DefaultPolicy()
	p.Window, p.Settle = time.Minute, 0
	x, err := audit.NewExporter(audit.Config{Store: v, Objects: bucket, Keys: f.keys, Deployment: deploymentID, Policy: p, Home: home, Node: "n", Providers: []string{"simulator"}})
	require.NoError(f, err)
	return x
}

// export moves the clock on by windows, and exports those.
func (f *forgetful) export(v deployment.Store, windows int) {
	f.Helper()
	f.now = f.now.Add(time.Duration(windows) * time.Minute)
	_, err := f.exporter(v, f.bucket).Round(f.Context())
	require.NoError(f, err)
}

// mute is a store whose exporter dies between the bucket and the row.
type mute struct{ audit.Store }

func (mute) AdvanceAudit(context.Context, string, uint64, audit.Chain) (bool, error) {
	return false, errDied
}

// TestTheBucketShowsAForgottenBegin: what the rows have never exported proves that they were put
// back; what a crash leaves does not.
func TestTheBucketShowsAForgottenBegin(t *testing.T) {
	text, err := audit.NewKey()
	require.NoError(t, err)
	keys, err := audit.ParseKeys(text)
	require.NoError(t, err)
	f := &forgetful{T: t, keys: keys, bucket: audittest.NewBucket(), now: time.Now().Truncate(time.Minute).Add(10 * time.Second)}
	v := f.open()
	compare := func(v deployment.Store, since time.Time) error {
		return f.exporter(v, f.bucket).Compare(t.Context(), since)
	}
	require.NoError(t, compare(v, time.Time{}), "an empty bucket")
	f.begin(v, "first")
	f.export(v, 2)
	require.NoError(t, compare(v, time.Time{}))

	// An exporter dies between the bucket and the row: one segment ahead, of rows that are there.
	f.begin(v, "second")
	f.now = f.now.Add(time.Minute)
	before := len(f.bucket.Names())
	_, err = f.exporter(mute{v}, f.bucket).Round(t.Context())
	require.ErrorIs(t, err, errDied)
	require.Len(t, f.bucket.Names(), before+1)
	f.now = f.now.Add(time.Minute)
	require.NoError(t, compare(v, time.Time{}))

	// Another store takes this one's place, as a backup does, at the same segment: one claim is
	// in the bucket's next segment alone.
	back := f.open()
	chain, now, _, err := v.AuditChain(t.Context(), home)
	require.NoError(t, err)
	moved, err := back.AdvanceAudit(t.Context(), home, 0, chain)
	require.NoError(t, err)
	require.True(t, moved)
	var ahead *audit.AheadError
	f.hasClaims(chain)
	require.ErrorAs(t, compare(back, time.Time{}), &ahead)
	require.Equal(t, chain.Number, ahead.Stored)
	require.NoError(t, compare(back, now.Add(time.Minute)), "written before a restore that is over")

	// Two segments ahead prove it without a look at rows.
	f.export(v, 2)
	require.ErrorAs(t, compare(back, time.Time{}), &ahead)
	require.Equal(t, chain.From, ahead.From)
	wiped := f.open()
	require.ErrorAs(t, compare(wiped, time.Time{}), &ahead, "a store that has exported nothing")
	// Segments that others have signed prove nothing.
	other, err := audit.NewKey()
	require.NoError(t, err)
	f.keys, err = audit.ParseKeys(other)
	require.NoError(t, err)
	require.NoError(t, compare(back, time.Time{}))
}

// TestTheBucketShowsBooksThatHadLeft: between the backup and the loss no window was exported, but two
// segments of books, which are in the folders of their own days.
func TestTheBucketShowsBooksThatHadLeft(t *testing.T) {
	text, err := audit.NewKey()
	require.NoError(t, err)
	keys, err := audit.ParseKeys(text)
	require.NoError(t, err)
	bucket, lost := audittest.NewBucket(), rows(t, open(t))
	exporter := func(v deployment.Store, keep time.Duration) *audit.Exporter {
		p := audit.DefaultPolicy()
		p.KeepBooks = keep
		x, err := audit.NewExporter(audit.Config{Store: v, Objects: bucket, Keys: keys, Deployment: deploymentID, Policy: p, Home: home, Node: "n", Entries: 1, Page: 1})
		require.NoError(t, err)
		return x
	}
	_, err = exporter(lost, 0).Finish(t.Context())
	require.NoError(t, err)
	chain, _, _, err := lost.AuditChain(t.Context(), home)
	require.NoError(t, err)
	for _, begun := range []bool{false, true} { // nothing, or something, had left before the backup
		if begun {
			chain.Books.At = time.Now().Add(-audit.MinKeepBooks - 48*time.Hour).UTC().Truncate(24 * time.Hour)
			chain.SweptUntil = chain.From
		}
		back := rows(t, open(t))
		moved, err := back.AdvanceAudit(t.Context(), home, 0, chain)
		require.NoError(t, err)
		require.True(t, moved)
		if !begun {
			require.NoError(t, exporter(back, audit.MinKeepBooks).Compare(t.Context(), time.Time{}))
			done, err := exporter(lost, audit.MinKeepBooks).Round(t.Context())
			require.NoError(t, err)
			require.Equal(t, 2, done.Left)
		}
		var ahead *audit.AheadError
		require.ErrorAs(t, exporter(back, audit.MinKeepBooks).Compare(t.Context(), time.Time{}), &ahead)
		require.Equal(t, chain.Number, ahead.Stored)
	}
}

// hasClaims asserts that one segment follows c in the bucket, and that it has claims.
func (f *forgetful) hasClaims(c audit.Chain) {
	f.Helper()
	found, err := (&audit.Lost{Objects: f.bucket, Trust: f.keys.Trust(), Home: home, Before: f.now}).Follow(f.Context(), c)
	require.NoError(f, err)
	require.Equal(f, 1, found.Segments)
	require.NotEmpty(f, found.Witnesses)
}

// TestDetected: the row is written once, whoever detects it, and has what a person needs; the brake
// is set before it. The audit is then read as after begin.
func TestDetected(t *testing.T) {
	w := newWorld(t)
	for step := 1; ; step++ {
		d := open(t)
		v := rows(t, d)
		found := []*audit.AheadError{{Home: home, Segment: "s-2", Stored: 1, From: time.Now().Add(-time.Hour)}, {Home: away, Segment: "s-3", From: time.Now().Add(-2 * time.Hour)}}
		mortal := only{&dying{Deployment: d, Store: v, remaining: step}}
		_, err := restore.Detected(t.Context(), mortal, v, found, "node-1")
		if err == nil {
			require.Equal(t, 4, step, "the brake, the row and the brake are written")
			break
		}
		require.ErrorIs(t, err, errDied)
		first, err := restore.Detected(t.Context(), d, v, found, "node-1")
		require.NoError(t, err)
		require.Equal(t, claim.RestoreHolding, first.Phase)
		require.Contains(t, first.Why, "s-2")
		require.Equal(t, "node-1", first.By)
		require.True(t, first.From.Equal(found[1].From), "the earlier one")
		again, err := restore.Detected(t.Context(), d, v, found, "node-2")
		require.NoError(t, err)
		require.Equal(t, first.Version+1, again.Version, "whoever has written it, and takes it back, finds it changed")
		again.Version = first.Version
		require.Equal(t, first, again)
		guard, err := claim.NewGuard(t.Context(), d)
		require.NoError(t, err)
		require.NotNil(t, guard.Standing())
		held, _, err := d.Brakes(t.Context())
		require.NoError(t, err)
		require.NotNil(t, held[0].Held)

		// A person enters what is lost, and reads the audit.
		require.NoError(t, w.restore(d, v, w.exportedUntil(time.Now().Add(-time.Millisecond))))
		w.requireRestored(d)
	}
}

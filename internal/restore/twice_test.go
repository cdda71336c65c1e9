package restore_test

import (
	"os"
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

// twice is a deployment that is put back while the restore of an earlier loss is in effect.
type twice struct {
	*testing.T
	keys   *audit.Keys
	bucket *audittest.Bucket
	now    time.Time
	ended  time.Time // of the last export
	db     *embedded.DB
	d      deployment.Deployment
	v      deployment.Store
}

// open opens the store in dir, in the place of the one that is open.
func (w *twice) open(dir string) {
	w.Helper()
	if w.db != nil {
		require.NoError(w, w.db.Close())
	}
	db, err := embedded.Open(embedded.Config{
		Dir: dir, Policy: claim.DefaultPolicy(), Regions: []claim.Region{{Name: home, Code: 1}, {Name: away, Code: 2}},
		Clock: func() time.Time { return w.now },
	})
	require.NoError(w, err)
	w.db, w.d = db, restored{deployment.Embedded(db)}
	w.v = rows(w.T, w.d)
}

// backUp copies the store in dir.
func (w *twice) backUp(dir string) (backup string) {
	w.Helper()
	require.NoError(w, w.db.Close())
	w.db = nil
	backup = w.TempDir()
	require.NoError(w, os.CopyFS(backup, os.DirFS(dir)))
	w.open(dir)
	return backup
}

func (w *twice) key(value string) claim.Key { return claim.Key{Tenant: "acme", Value: value} }

func (w *twice) begin(value string) { w.beginAt(home, value, "ch_"+value) }

func (w *twice) beginAt(region, value, object string) {
	w.Helper()
	a := claimtest.NewArrival(w.key(value), region, "100", "node-1", object)
	a.PinnedAt, a.Provider, a.Providers = w.now, "simulator", []string{"simulator"}
	begun, err := w.v.Begin(w.Context(), a)
	require.NoError(w, err)
	require.Equal(w, claim.Won, begun.Decision)
}

func (w *twice) exporter(region string) *audit.Exporter {
	w.Helper()
	x, err := audit.NewExporter(audit.Config{
		Store: w.v, Objects: w.bucket, Keys: w.keys, Deployment: deploymentID, Policy: audit.DefaultPolicy(), Home: region, Node: "n", Providers: []string{"simulator"},
	})
	require.NoError(w, err)
	return x
}

// export moves the clock on, and exports what there is.
func (w *twice) export() {
	w.Helper()
	w.now = w.now.Add(10 * time.Minute)
	for _, region := range []string{home, away} {
		_, err := w.exporter(region).Finish(w.Context())
		require.NoError(w, err)
	}
	w.ended = w.now
	w.now = w.now.Add(time.Minute)
}

// restore records that the store lacks what was written between two times, and reads the audit.
func (w *twice) restore(from, until time.Time) claim.Restore {
	w.Helper()
	_, err := restore.Begin(w.Context(), w.d, w.v, restore.Lost{From: from, Until: until, By: "ops", Why: "a lost disk"})
	require.NoError(w, err)
	r, err := restore.Audit(w.Context(), w.d, w.v, w.bucket, w.keys.Trust(), func(restore.Witnessed) {})
	require.NoError(w, err)
	return r
}

// aheads compares the bucket with the rows, as a node does before its first request and its exports.
func (w *twice) aheads() (all []*audit.AheadError) {
	w.Helper()
	r, _, err := w.d.Restore(w.Context())
	require.NoError(w, err)
	for _, region := range []string{home, away} {
		if err := w.exporter(region).Compare(w.Context(), r.OpenedAt); err != nil {
			ahead := new(audit.AheadError)
			require.ErrorAs(w, err, &ahead)
			all = append(all, ahead)
		}
	}
	return all
}

// losses are the ways in which the first loss ends: its audit is read, or a person releases what it lacks.
var losses = map[string]func(w *twice, made time.Time){
	"witnessed": func(w *twice, made time.Time) {
		require.Equal(w, claim.RestoreWitnessed, w.restore(made, w.ended).Phase)
	},
	"released": func(w *twice, made time.Time) {
		require.Equal(w, claim.RestoreHolding, w.restore(made, w.now).Phase)
		r, err := restore.Release(w.Context(), w.d, "ops", "every merchant was asked")
		require.NoError(w, err)
		require.True(w, r.Partial)
	},
}

// newTwice returns a deployment with its first store, in dir.
func newTwice(t *testing.T, dir string) *twice {
	text, err := audit.NewKey()
	require.NoError(t, err)
	w := &twice{T: t, bucket: audittest.NewBucket(), now: time.Now().UTC().Truncate(24 * time.Hour).Add(time.Hour)}
	w.keys, err = audit.ParseKeys(text)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.db.Close()) })
	w.open(dir)
	require.NoError(t, w.d.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: home}))
	w.export()
	return w
}

// TestAKeyThatHadTwoHomes: more is lost than a key is remembered for, and one was used again after that, in
// another region. What it was used for last is what its retry asks for.
func TestAKeyThatHadTwoHomes(t *testing.T) {
	for first, last := range map[string]string{home: away, away: home} {
		dir := t.TempDir()
		w := newTwice(t, dir)
		made, backup := w.now, w.backUp(dir)
		w.beginAt(first, "again", "ch_first")
		w.now = w.now.Add(50 * time.Hour)
		w.beginAt(last, "again", "ch_last")
		w.export()
		w.open(backup)
		require.Equal(t, claim.RestoreWitnessed, w.restore(made, w.ended).Phase)
		found, _, err := w.d.Witness(t.Context(), w.key("again"))
		require.NoError(t, err)
		require.Equal(t, "ch_last", found.Object, "a retry reads the answer of an earlier request")
	}
}

// putBackTwice returns a deployment that was put back, went on, and was put back again, to a backup of made.
func putBackTwice(t *testing.T, first func(w *twice, made time.Time)) (w *twice, made time.Time) {
	dir := t.TempDir()
	w = newTwice(t, dir)
	made = w.now
	backup := w.backUp(dir)
	w.begin("lost-first")
	w.export()
	w.open(backup) // the first loss
	first(w, made)
	require.Empty(t, w.aheads())
	w.begin("kept")
	w.export()
	made = w.now
	second := w.backUp(backup)
	w.begin("lost-second")
	w.export()
	w.begin("lost-third")
	w.export()
	w.open(second) // the second loss
	return w, made
}

// withholds asserts that nothing is begun under a key that the lost writes may have used.
func (w *twice) withholds(keys ...string) {
	w.Helper()
	guard, err := claim.NewGuard(w.Context(), w.d)
	require.NoError(w, err)
	for _, key := range keys {
		_, err := guard.Recall(w.Context(), w.key(key))
		require.ErrorAs(w, err, new(*claim.WithheldError), "%s is charged again", key)
	}
}

// TestASecondLossIsDetected: a restore is in effect, and withholds no new keys, when the store is put back
// again, and nobody records it. A node finds it, and withholds what is lost, until a person has read it.
func TestASecondLossIsDetected(t *testing.T) {
	for name, first := range losses {
		t.Run(name, func(t *testing.T) {
			w, made := putBackTwice(t, first)
			ahead := w.aheads()
			require.NotEmpty(t, ahead)
			was, _, err := w.d.Restore(t.Context())
			require.NoError(t, err)
			found, err := restore.Detected(t.Context(), w.d, w.v, ahead, "node-1")
			require.NoError(t, err)
			require.Equal(t, claim.RestoreHolding, found.Phase)
			require.Equal(t, name == "released", found.From.Before(was.OpenedAt), "what was lost before, and has no witness, is lost still")
			w.withholds("lost-second", "lost-third", "never-seen")
			again, err := restore.Detected(t.Context(), w.d, w.v, ahead, "node-2")
			require.NoError(t, err)
			found.Version = again.Version
			require.Equal(t, found, again, "of two nodes that find it, one replaces the row")
			w.restored(name, made)
		})
	}
}

// TestASecondLossIsRestored: while a restore is in effect, the store is put back again, and a person records
// it.
func TestASecondLossIsRestored(t *testing.T) {
	for name, first := range losses {
		t.Run(name, func(t *testing.T) {
			w, made := putBackTwice(t, first)
			w.restored(name, made)
		})
	}
}

// restored asserts that once the audit is read, the export goes on from the end of the bucket, and each lost
// claim is found again; unless a part of what was lost first has no witness, and so no end.
func (w *twice) restored(first string, made time.Time) {
	w.Helper()
	r := w.restore(made, w.ended)
	require.Empty(w, w.aheads(), "the export stops for good")
	number := func() uint64 {
		c, _, _, err := w.v.AuditChain(w.Context(), home)
		require.NoError(w, err)
		return c.Number
	}
	last := number()
	w.export()
	require.Equal(w, last+1, number())
	report, err := audit.Verify(w.Context(), audit.VerifyConfig{Objects: w.bucket, Trust: w.keys.Trust()})
	require.NoError(w, err)
	require.Empty(w, report.Failures)
	if first == "released" {
		require.Equal(w, claim.RestoreHolding, r.Phase)
		w.withholds("lost-second", "lost-third", "never-seen")
		return
	}
	require.Equal(w, claim.RestoreWitnessed, r.Phase)
	guard, err := claim.NewGuard(w.Context(), w.d)
	require.NoError(w, err)
	for _, key := range []string{"lost-first", "lost-second", "lost-third"} {
		found, err := guard.Recall(w.Context(), w.key(key))
		require.NoError(w, err)
		require.NotNil(w, found, key)
	}
	none, err := guard.Recall(w.Context(), w.key("never-seen"))
	require.NoError(w, err)
	require.Nil(w, none)
}

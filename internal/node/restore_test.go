package node

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/audit/audittest"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/region"
)

// laterRestore has a row once somebody has begun a restore.
type laterRestore struct {
	claim.Restores
	row atomic.Pointer[claim.Restore]
}

func (l *laterRestore) Restore(context.Context) (r claim.Restore, now time.Time, err error) {
	if at := l.row.Load(); at != nil {
		r = *at
	}
	return r, time.Now(), nil
}

// A node that read no row gets one that was written since, and its end.
func TestANodeFollowsARestoreThatBeginsWhileItRuns(t *testing.T) {
	rows := &laterRestore{}
	table := &sharedTable{}
	table.set(1, region.Region{Name: here, Code: 1})
	n := newWatchers(t, 1, time.Millisecond, rows, table)[0]
	require.Nil(t, n.guard.Standing())
	now := time.Now()
	r := claim.NewRestore(claim.Restore{}, now.Add(-time.Hour), now, now, nil, "ops", "a lost disk")
	rows.row.Store(&r)
	require.Eventually(t, func() bool { return n.guard.Standing() != nil }, time.Minute, time.Millisecond)
	over := r
	over.Phase = claim.RestoreOver
	rows.row.Store(&over)
	require.Eventually(t, func() bool { return n.guard.Standing() == nil }, time.Minute, time.Millisecond)
}

// TestWhatIsInEffectIsComparedAfterAll: a node compares where the row that it started with cannot speak for
// what the store lacks. Else it would begin again what a backup has lost until it exports.
func TestWhatIsInEffectIsComparedAfterAll(t *testing.T) {
	text, err := audit.NewKey()
	require.NoError(t, err)
	keys, err := audit.ParseKeys(text)
	require.NoError(t, err)
	open := func(t *testing.T) (deployment.Deployment, deployment.Store) {
		db, err := embedded.Open(embedded.Config{Dir: t.TempDir(), Policy: claim.DefaultPolicy(), Regions: []claim.Region{{Name: here, Code: 1}}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		d := deployment.Embedded(db)
		v, err := d.Region(here)
		require.NoError(t, err)
		return d, v
	}
	began := time.Now()
	bucket := audittest.NewBucket()
	_, lost := open(t)
	exporter, err := audit.NewExporter(audit.Config{Store: lost, Objects: bucket, Keys: keys, Deployment: deployed, Policy: audit.DefaultPolicy(), Home: here, Node: "n"})
	require.NoError(t, err)
	for range 2 {
		_, err = exporter.Finish(t.Context())
		require.NoError(t, err)
	}
	putBack := func(t *testing.T, r claim.Restore) (n *Node, put func(claim.Restore)) {
		d, v := open(t)
		put = func(r claim.Restore) {
			changed, err := d.PutRestore(t.Context(), r)
			require.NoError(t, err)
			require.True(t, changed)
		}
		put(r)
		table := &sharedTable{}
		table.set(1, region.Region{Name: here, Code: 1})
		n = newWatchers(t, 1, time.Hour, d, table)[0]
		n.deployment, n.c.Store, n.c.AuditObjects, n.c.AuditKeys, n.c.Audit = deployed, v, bucket, keys, DefaultAudit()
		require.NoError(t, n.compareAudit(t.Context()))
		return n, put
	}
	now := time.Now()
	t.Run("who wrote the row takes it back", func(t *testing.T) {
		r := claim.NewRestore(claim.Restore{}, now.Add(-time.Hour), now, now, nil, "ops", "a lost disk")
		n, put := putBack(t, r)
		require.NotNil(t, n.guard.Standing())
		put(claim.Restore{Version: 1, Phase: claim.RestoreOver, Tag: r.Tag})
		require.NoError(t, n.rereadRestore(t.Context(), &trouble{log: n.log}))
		require.NotNil(t, n.guard.Standing(), "keys that are lost are begun again")
	})
	t.Run("the store was put back since the row was written", func(t *testing.T) {
		r := claim.NewRestore(claim.Restore{}, began.Add(-time.Hour), began, began, nil, "ops", "a lost disk")
		r.Phase, r.Audited = claim.RestoreWitnessed, map[string]time.Time{here: began}
		n, _ := putBack(t, r)
		require.Equal(t, claim.RestoreHolding, n.guard.Standing().Phase, "keys that are lost are begun again")
	})
}

// A node that starts asks a store that does not answer until it does, and no bucket twice.
func TestAStartComparesUntilTheStoreAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []error
		want    error
	}{
		"the bucket is ahead":          {[]error{claim.ErrUnavailable, claim.ErrUnavailable, &audit.AheadError{Home: "a"}}, &audit.AheadError{Home: "a"}},
		"the bucket is not ahead":      {[]error{claim.ErrUnavailable, nil}, nil},
		"the bucket is out of reach":   {[]error{io.ErrUnexpectedEOF}, io.ErrUnexpectedEOF},
		"the store does not come back": {nil, claim.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), compareTime)
				defer cancel()
				asked := 0
				err := untilAnswered(ctx, func() error {
					asked++
					if c.answers == nil {
						return claim.ErrUnavailable
					}
					return c.answers[asked-1]
				})
				require.Equal(t, c.want, err)
				if c.answers != nil {
					require.Equal(t, len(c.answers), asked)
				}
			})
		})
	}
}

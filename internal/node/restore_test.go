package node

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
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

package node

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
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

// A node that read no row hears of one that was begun since, and when it is over.
func TestANodeHearsOfARestoreThatIsBegunWhileItRuns(t *testing.T) {
	rows := &laterRestore{}
	n := &Node{log: slog.New(slog.DiscardHandler)}
	n.c.TopologyEvery = time.Millisecond
	var err error
	n.guard, err = claim.NewGuard(t.Context(), rows)
	require.NoError(t, err)
	stop, err := n.background.start(t.Context())
	require.NoError(t, err)
	_, err = n.watchRestore(t.Context())
	require.NoError(t, err)
	require.False(t, n.guard.Guards("k"))
	now := time.Now()
	r := claim.NewRestore(claim.Restore{}, now.Add(-time.Hour), now, now, nil, "ops", "a lost disk")
	rows.row.Store(&r)
	require.Eventually(t, func() bool { return n.guard.Guards("k") }, time.Minute, time.Millisecond)
	over := r
	over.Phase = claim.RestoreOver
	rows.row.Store(&over)
	require.Eventually(t, func() bool { return !n.guard.Guards("k") }, time.Minute, time.Millisecond)
	require.NoError(t, stop(t.Context()))
}

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

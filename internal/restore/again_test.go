package restore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/audit/audittest"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/restore"
)

// TestWhatNodesExportIsNoWitness: nothing of what is lost was exported. Nodes run on the store and
// export what they write, and what was read is read again, for the same restore, for one that is
// begun again, and for one that is begun late. The bucket has no more of what is lost than before.
func TestWhatNodesExportIsNoWitness(t *testing.T) {
	text, err := audit.NewKey()
	require.NoError(t, err)
	keys, err := audit.ParseKeys(text)
	require.NoError(t, err)
	stopped := time.Now()
	lost := restore.Lost{From: stopped.Add(-time.Hour), Until: stopped.Add(-time.Minute), By: "a", Why: "b"}
	for name, how := range map[string]struct {
		begun time.Time // Until of the restore before the nodes run; zero: none is begun
		again bool
	}{
		"audit again":           {begun: lost.Until},
		"begin and audit again": {begun: stopped, again: true},
		"begin too late":        {again: true},
	} {
		t.Run(name, func(t *testing.T) {
			bucket, d := audittest.NewBucket(), open(t)
			v := rows(t, d)
			begin := func(until time.Time) {
				said := lost
				said.Until = until
				_, err := restore.Begin(t.Context(), d, v, said)
				require.NoError(t, err)
			}
			holds := func() {
				r, err := restore.Audit(t.Context(), d, v, bucket, keys.Trust(), func(w restore.Witnessed) {
					require.False(t, w.Covered.After(lost.From), "%s is shown as read until %s", w.Region, w.Covered)
				})
				require.NoError(t, err)
				require.Equal(t, claim.RestoreHolding, r.Phase, "keys without a witness are released")
			}
			if !how.begun.IsZero() {
				begin(how.begun)
				holds()
			}
			var ends []audit.Chain
			for _, region := range []string{home, away} { // nodes run, and export
				x, err := audit.NewExporter(audit.Config{
					Store: v, Objects: bucket, Keys: keys, Deployment: deploymentID, Policy: audit.DefaultPolicy(), Home: region, Node: "n", Providers: []string{"simulator"},
				})
				require.NoError(t, err)
				_, err = x.Finish(t.Context())
				require.NoError(t, err)
				end, _, _, err := v.AuditChain(t.Context(), region)
				require.NoError(t, err)
				require.True(t, end.From.After(lost.Until))
				ends = append(ends, end)
			}
			if how.again {
				begin(lost.Until)
			}
			holds()
			for i, region := range []string{home, away} {
				end, _, _, err := v.AuditChain(t.Context(), region)
				require.NoError(t, err)
				require.Equal(t, ends[i], end, "the export goes on where it was")
			}
		})
	}
}

// late has a node that starts behind the first look at the sessions.
type late struct {
	deployment.Deployment
	start func()
	then  func() // before the second look
	open  []string
}

func (l *late) Sessions(context.Context) ([]string, error) {
	if l.start == nil {
		if l.then != nil {
			l.then()
		}
		return l.open, nil
	}
	start := l.start
	l.start = nil
	start()
	return nil, nil
}

// TestANodeStartsBehindTheLook: the node has read no row, so begin must not report that all is
// withheld. The row of before is back in effect.
func TestANodeStartsBehindTheLook(t *testing.T) {
	now := time.Now()
	lost := restore.Lost{From: now.Add(-time.Hour), By: "a", Why: "b"}
	for _, stood := range []bool{false, true} {
		d := open(t)
		v := rows(t, d)
		var before claim.Restore
		if stood {
			var err error
			before, err = restore.Begin(t.Context(), d, v, lost)
			require.NoError(t, err)
		}
		l := &late{Deployment: d}
		l.start = func() {
			guard, err := claim.NewGuard(t.Context(), d)
			require.NoError(t, err)
			require.Equal(t, stood, guard.Standing() != nil)
			l.open = []string{"homeward"}
		}
		_, err := restore.Begin(t.Context(), l, v, lost)
		require.ErrorIs(t, err, restore.ErrSessions)
		r, _, err := d.Restore(t.Context())
		require.NoError(t, err)
		require.Equal(t, stood, r.Withholds())
		if stood {
			r.Version = before.Version
			require.Equal(t, before, r)
		}
		l.open = nil // it was stopped
		_, err = restore.Begin(t.Context(), l, v, lost)
		require.NoError(t, err)
		guard, err := claim.NewGuard(t.Context(), d)
		require.NoError(t, err)
		require.NotNil(t, guard.Standing())
	}
}

// TestABeginThatIsTakenBackHidesNothing: a node started behind the look, so Begin takes its row back.
// The bucket still proves that the store was put back, to the exports of that node, and the row of a
// node that has proved it meanwhile stays.
func TestABeginThatIsTakenBackHidesNothing(t *testing.T) {
	text, err := audit.NewKey()
	require.NoError(t, err)
	keys, err := audit.ParseKeys(text)
	require.NoError(t, err)
	for _, meanwhile := range []bool{false, true} {
		f := &forgetful{T: t, keys: keys, bucket: audittest.NewBucket(), now: time.Now().Truncate(time.Minute).Add(10 * time.Second)}
		v := f.open()
		f.begin(v, "first")
		f.export(v, 2)
		chain, _, _, err := v.AuditChain(t.Context(), home)
		require.NoError(t, err)
		f.begin(v, "second")
		f.export(v, 2)
		back, d := f.openBoth() // a backup takes its place
		moved, err := back.AdvanceAudit(t.Context(), home, 0, chain)
		require.NoError(t, err)
		require.True(t, moved)
		compare := func() *audit.AheadError {
			r, _, err := d.Restore(t.Context())
			require.NoError(t, err)
			ahead, _ := errors.AsType[*audit.AheadError](f.exporter(back, f.bucket).Compare(t.Context(), r.OpenedAt))
			return ahead
		}
		l := &late{Deployment: d}
		l.start = func() {
			l.open = []string{"homeward"}
			found := compare() // before its first request
			require.NotNil(t, found)
			l.then = func() {
				if meanwhile {
					_, err := restore.Detected(t.Context(), d, back, []*audit.AheadError{found}, "node-1")
					require.NoError(t, err)
				}
			}
		}
		f.now = f.now.Add(time.Hour)
		_, err = restore.Begin(t.Context(), l, back, restore.Lost{From: f.now.Add(-time.Hour), By: "ops", Why: "a lost disk"})
		require.ErrorIs(t, err, restore.ErrSessions)
		r, _, err := d.Restore(t.Context())
		require.NoError(t, err)
		require.Equal(t, meanwhile, r.Withholds())
		if !meanwhile {
			require.NotNil(t, compare(), "the row that was taken back hides that the store was put back")
		}
	}
}

// TestWhatIsInFlightOutlivesEnd: a debit that waited for a bank when the store was lost would be
// remembered until the bank answers. So two days later its key, and one with an incomplete witness,
// are still withheld, and all others are new.
func TestWhatIsInFlightOutlivesEnd(t *testing.T) {
	now := time.Now()
	windows := claim.DefaultPolicy()
	for _, long := range []bool{false, true} {
		d := open(t)
		lost := restore.Lost{From: now.Add(-100 * time.Hour), Until: now.Add(-49 * time.Hour), By: "a", Why: "b"}
		if long {
			lost.From, lost.Until = lost.From.Add(-windows.ProcessingFor), lost.Until.Add(-windows.ProcessingFor)
		}
		_, err := restore.Begin(t.Context(), d, rows(t, d), lost)
		require.NoError(t, err)
		key := func(value string) claim.Key { return claim.Key{Tenant: "acme", Value: value} }
		require.NoError(t, d.PutWitnesses(t.Context(), []claim.Witness{
			{Key: key("pending"), Home: home, Object: "ch_lost", Generation: 1}, {Key: key("blind"), Home: home},
			{Key: key("refused"), Home: home, Object: "ch_refused", Generation: 1, Answered: true},
			{Key: key("paid"), Home: home, Object: "ch_paid", Generation: 1, Done: true},
		}))
		r, kept, err := restore.End(t.Context(), d, &windows)
		require.NoError(t, err)
		guard, err := claim.NewGuard(t.Context(), d)
		require.NoError(t, err)
		if long {
			require.Equal(t, claim.RestoreOver, r.Phase)
			require.Nil(t, guard.Standing())
			continue
		}
		require.Equal(t, 2, kept)
		require.NotNil(t, guard.Standing())
		for _, open := range []string{"pending", "blind"} { // the audit does not say how they went on
			_, err := guard.Recall(t.Context(), key(open))
			require.ErrorAs(t, err, new(*claim.WithheldError), open)
		}
		for _, free := range []string{"paid", "refused", "unheard"} {
			w, err := guard.Recall(t.Context(), key(free))
			require.NoError(t, err)
			require.Nil(t, w, free)
		}
	}
}

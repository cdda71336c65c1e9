package sqlstore_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/wireproxy"
)

// TestAVerdictMeetsItself: the database has recorded a verdict, or does so later, and
// whoever said it had no answer until its call was over. Said again, in a call of its
// own, it is answered with what it left: the caller is not told that it was fenced off
// by itself.
func TestAVerdictMeetsItself(t *testing.T) {
	d := newDatabase(t)
	for name, verdict := range map[string]claim.Verdict{
		"settle": paid("k"),
		"defer":  {Outcome: &claim.Unknown{Reason: "timeout", GiveUp: &claim.GivenUp{Response: claim.Response{Status: 502}}}},
	} {
		for _, fault := range []wireproxy.Fault{wireproxy.StallBefore, wireproxy.StallAfter} {
			t.Run(name+"/"+fault.String(), func(t *testing.T) {
				c := newWire(t, d.own(t), "acme", testPool()).cell(t)
				got, err := c.others.Begin(t.Context(), c.arrival("node"))
				require.NoError(t, err)
				verdict := verdict
				verdict.ID = uuid.New()
				shot := c.proxy.Arm(name, fault, 1)
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				answered := make(chan error, 1)
				go func() {
					_, err := c.ours.Settle(ctx, got.Record, verdict)
					answered <- err
				}()
				c.await(shot)
				giveUp()
				require.ErrorIs(t, <-answered, claim.ErrUnavailable)
				again, err := c.ours.Settle(t.Context(), got.Record, verdict)
				require.NoError(t, err)
				require.Equal(t, verdict.ID, again.Verdict)
				is, _, _, err := c.others.Get(t.Context(), c.key, here)
				require.NoError(t, err)
				require.Equal(t, is.SettledAt, again.SettledAt)
				require.Equal(t, is.State, again.State)
				require.Equal(t, 1, c.count(t, "SELECT count(*) FROM "+auditLines+" WHERE event = 'attempt' AND idem_key = $1", c.key.Value))
			})
		}
	}
}

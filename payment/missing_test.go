package payment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/psp"
)

// A store that was restored from a backup lacks the charge, but not the refund's first attempt,
// which found it and gave the money back: released, the next generation would do so again.
func TestARecoveryIsNotRefusedForWantOfItsCharge(t *testing.T) {
	for _, caps := range []psp.Capabilities{both, {Timeout: time.Second}} {
		for _, charge := range []string{unbooked, foreign} {
			for _, last := range []bool{false, true} {
				p, a := &fake{caps: caps, result: approved}, refundOf(`{"amount":500,"charge":"`+charge+`"}`)
				a.Recovery, a.Last = true, last
				v := executorOf(p, someBooks(), nil).Attempt(t.Context(), a)
				require.Equal(t, claim.OutcomeUnknown, v.Outcome)
				require.Equal(t, reasonMissing, v.Reason)
				require.True(t, v.Unsent, "it may wait for days, and nothing counts")
				require.GreaterOrEqual(t, v.RetryIn, elsewhereWait)
				require.Empty(t, p.calls)

				a.Now = firstUse.Add(missingFor)
				v = executorOf(p, someBooks(), nil).Attempt(t.Context(), a)
				require.Equal(t, claim.OutcomeUnknown, v.Outcome)
				require.False(t, v.Unsent || v.KeepAsking, "asking ends")
				require.Contains(t, string(v.Response.Body), "Have a person find out")
			}
		}
	}
}

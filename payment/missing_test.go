package payment

import (
	"cmp"
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
				v := See(executorOf(p, someBooks(), nil).Attempt(t.Context(), a))
				require.Equal(t, claim.OutcomeUnknown, v.Outcome)
				require.Equal(t, reasonMissing, v.Reason)
				require.True(t, v.Unsent, "it may wait for days, and nothing counts")
				require.GreaterOrEqual(t, v.RetryIn, elsewhereWait)
				require.Empty(t, p.calls)

				a.Now = firstUse.Add(missingFor)
				v = See(executorOf(p, someBooks(), nil).Attempt(t.Context(), a))
				require.Equal(t, claim.OutcomeUnknown, v.Outcome)
				require.False(t, v.Unsent || v.KeepAsking, "asking ends")
				require.Contains(t, string(v.Response.Body), "Have a person find out")
			}
		}
	}
}

// A charge that a restore brought back may have been answered as paid: past its time it is no
// definite no at a provider without look-ups.
func TestARestoredChargePastItsTimeIsNotRefused(t *testing.T) {
	blind := psp.Capabilities{Dedupe: psp.DedupeKey, KeyLife: 7 * 24 * time.Hour, Blind: true, Asynchronous: true, Timeout: time.Second}
	asks := psp.Capabilities{Dedupe: psp.DedupeKey, Lookup: true, Timeout: time.Second}
	for name, c := range map[string]struct {
		witness *claim.Witness
		caps    psp.Capabilities
		after   time.Duration
		want    string
		ref     string
		calls   int
	}{
		"paid, and the key has a witness": {&claim.Witness{Done: true}, blind, 2 * time.Hour, claim.OutcomeDone, "px_1", 1},
		"paid, and the key is over":       {&claim.Witness{Done: true}, blind, 8 * 24 * time.Hour, claim.OutcomeUnknown, "", 0},
		"paid, under a reference":         {&claim.Witness{Done: true, ProviderRef: "px_9"}, blind, 8 * 24 * time.Hour, claim.OutcomeDone, "px_9", 0},
		"paid, and no look-up answers":    {&claim.Witness{Done: true, ProviderRef: "px_9"}, asks, 2 * time.Hour, claim.OutcomeDone, "px_9", 0},
		"perhaps":                         {&claim.Witness{}, blind, 2 * time.Hour, claim.OutcomeUnknown, "", 0},
		"perhaps, and no look-up answers": {&claim.Witness{}, asks, 2 * time.Hour, claim.OutcomeUnknown, "", 0},
		"no restore":                      {nil, blind, 2 * time.Hour, claim.OutcomeRefused, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{caps: c.caps, result: approved, shown: lost}
			a := attemptOf(Charge)
			a.Recovery, a.Witness, a.Now = true, c.witness, firstUse.Add(c.after)
			a.Payload = []byte(`{"amount":1999,"currency":"usd","expires_at":"2030-01-01T01:00:00Z","payment_method":"pm_1"}`)
			v := See(executorOf(f, nil, nil).Attempt(t.Context(), a))
			require.Equal(t, cmp.Or(c.want, claim.OutcomeUnknown), v.Outcome, "%s", v.Response.Body)
			require.Equal(t, c.ref, v.ProviderRef)
			require.Len(t, f.calls, c.calls)
			if v.Outcome == claim.OutcomeUnknown {
				require.Equal(t, c.witness.Done, v.KeepAsking)
			}
		})
	}
}

// A provider without look-ups repeats its first answer: the payment waits, or its money is held.
// The audit shows that the money moved since. A merchant that read that the money is still held
// would capture it once more.
func TestAFirstAnswerIsOlderThanTheWitness(t *testing.T) {
	const later, held = `{"amount":1999,"currency":"usd","payment_method":"pm_1"}`, `{"amount":1999,"capture_method":"manual","currency":"usd","payment_method":"pm_1"}`
	done, unknown := &claim.Witness{Done: true, ProviderRef: "px_9"}, &claim.Witness{}
	for name, c := range map[string]struct {
		payload string
		witness *claim.Witness
		blind   bool
		want    string
	}{
		"a debit was paid":             {later, done, true, claim.OutcomeDone},
		"a debit without a witness":    {later, unknown, true, claim.OutcomePending},
		"no restore":                   {later, nil, true, claim.OutcomePending},
		"held money was captured":      {held, done, true, claim.OutcomeUnknown},
		"held money without a witness": {held, unknown, true, claim.OutcomePending},
		"its provider has look-ups":    {later, done, false, claim.OutcomePending},
	} {
		t.Run(name, func(t *testing.T) {
			caps := psp.Capabilities{Dedupe: psp.DedupeKey, KeyLife: 7 * 24 * time.Hour, Blind: c.blind, Asynchronous: true, Captures: true, Timeout: time.Second}
			f := &fake{caps: caps, shown: lost, result: psp.Result{Outcome: psp.Pending, ProviderRef: "px_9", Wait: &psp.Wait{State: psp.Processing}}}
			if c.payload == held {
				f.result.Outcome, f.result.Wait = psp.Authorized, nil
			}
			a := attemptOf(Charge)
			a.Recovery, a.Witness, a.Now, a.Payload = true, c.witness, firstUse.Add(time.Hour), []byte(c.payload)
			v := See(executorOf(f, nil, nil).Attempt(t.Context(), a))
			require.Equal(t, cmp.Or(c.want, claim.OutcomeUnknown), v.Outcome, "%s: %s", v.Reason, v.Response.Body)
			require.Len(t, f.calls, 1)
			require.Equal(t, c.want == claim.OutcomeUnknown, v.KeepAsking)
		})
	}
}

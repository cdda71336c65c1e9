package payment

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

func compensationOf() claim.Attempt {
	a := refundOf(`{"amount":1999,"charge":"` + paid + `","currency":"usd","provider_ref":"px_ghost","reason":"late_success"}`)
	a.Record.Operation = string(Compensation)
	return a
}

func TestCompensation(t *testing.T) {
	p := &fake{caps: both, result: approved}
	v := See(executorOf(p, nil, nil, outbox.KindLog).Attempt(t.Context(), compensationOf()))
	require.Equal(t, []psp.Call{{Kind: psp.KindRefund, Key: "hw_key", Reference: "re_1", Amount: 1999, Currency: "usd", Source: "px_ghost"}}, p.calls)
	require.Equal(t, claim.OutcomeDone, v.Outcome)
	require.Equal(t, `{"id":"re_1","object":"refund","amount":1999,"currency":"usd","status":"succeeded","created":1893456000,"livemode":true,"charge":"`+paid+
		`","reason":"late_success","receipt_number":"R-1","provider":{"name":"fake","reference":"px_1"}}`, string(v.Response.Body))
	require.Equal(t, "/v1/refunds/re_1", v.Response.Header[1].Value)
	require.Equal(t, &ledger.Transaction{
		ID: ledger.GhostRefundID("fake", "px_ghost"), Tenant: "acme", Kind: ledger.GhostRefund, Debit: "suspense:acme", Credit: "provider:fake",
		Amount: 1999, Currency: "usd", Object: "re_1", Reverses: ledger.GhostID("fake", "px_ghost"), Provider: "fake", ProviderRef: "px_1",
	}, v.Posting)
	require.Contains(t, string(v.Events[0].Payload), `"type":"refund.succeeded"`)
}

// A ghost of another provider's waits until that one is in use again: this one may
// have its reference for another payer's money.
func TestCompensationStaysWithItsProvider(t *testing.T) {
	ghost := ledger.GhostID("old", "px_ghost")
	for name, c := range map[string]struct {
		b      *books
		reason string
	}{
		"another provider":  {&books{all: map[string]ledger.Transaction{"europe/" + ghost: {ID: ghost}}}, reasonElsewhere},
		"books unreachable": {&books{err: claim.ErrUnavailable}, reasonNoFacts},
	} {
		for _, recovery := range []bool{false, true} {
			p := &fake{caps: both, result: approved}
			a := compensationOf()
			a.Recovery = recovery
			v := See(executorOf(p, c.b, nil).Attempt(t.Context(), a))
			require.Empty(t, p.calls, name)
			require.Equal(t, claim.OutcomeUnknown, v.Outcome, name)
			require.Equal(t, c.reason, v.Reason)
			require.True(t, v.Unsent && v.KeepAsking, name)
			require.Equal(t, c.reason == reasonElsewhere, v.RetryIn == elsewhereWait, name)
		}
	}
	ghost = ledger.GhostID("fake", "px_ghost")
	p := &fake{caps: both, result: approved}
	v := See(executorOf(p, &books{all: map[string]ledger.Transaction{"europe/" + ghost: {ID: ghost, Region: "europe", Amount: 1999}}}, nil).Attempt(t.Context(), compensationOf()))
	require.Len(t, p.calls, 1)
	require.Equal(t, claim.OutcomeDone, v.Outcome)
}

// While automatic refunds are stopped, or whether they are cannot be read, a compensation that has
// begun is not sent, neither first nor again, for however long. A notice of it settles it. Nothing
// else is stopped.
func TestCompensationIsHeld(t *testing.T) {
	for name, held := range map[string]func(context.Context, string) (string, error){
		"stopped":    func(context.Context, string) (string, error) { return "a drill", nil },
		"unreadable": func(context.Context, string) (string, error) { return "", claim.ErrUnavailable },
	} {
		for _, recovery := range []bool{false, true} {
			var said []string
			p := &fake{caps: both, result: approved, found: psp.FoundYes, shown: approved}
			a := compensationOf()
			a.Recovery, a.Now = recovery, firstUse.Add(48*time.Hour)
			e := executorOf(p, nil, &said)
			e.o.Held = held
			v := See(e.Attempt(t.Context(), a))
			require.Empty(t, p.calls, name)
			require.Zero(t, p.lookups, name)
			require.Equal(t, claim.OutcomeUnknown, v.Outcome, name)
			require.True(t, v.Unsent && v.KeepAsking, name)
			require.Empty(t, said, name)
			a.Recovery, a.ReportedRef, a.ReportedBy = true, "px_9", "fake"
			require.Equal(t, claim.OutcomeDone, See(e.Attempt(t.Context(), a)).Outcome)
			require.Equal(t, claim.OutcomeDone, See(e.Attempt(t.Context(), attemptOf(Charge))).Outcome)
		}
	}
}

// The second refund of a ghost is booked beside the first, which has failed.
func TestCompensationAfterAFailure(t *testing.T) {
	a := compensationOf()
	a.Payload = []byte(strings.Replace(string(a.Payload), `"provider_ref"`, `"failed_before":2,"provider_ref"`, 1))
	v := See(executorOf(&fake{caps: both, result: approved}, nil, nil).Attempt(t.Context(), a))
	require.Equal(t, claim.OutcomeDone, v.Outcome)
	require.Equal(t, ledger.GhostRefundTryID("fake", "px_ghost", 3), v.Posting.ID)
	require.Equal(t, ledger.GhostID("fake", "px_ghost"), v.Posting.Reverses)
	for _, bad := range []string{"0", "3", "-1", "1.5", "999", `"1"`} {
		_, err := Parse(Compensation, []byte(strings.Replace(string(a.Payload), `"failed_before":2`, `"failed_before":`+bad, 1)))
		require.Error(t, err, bad)
	}
	_, err := Parse(Refund, []byte(`{"charge":"`+paid+`","failed_before":1}`))
	require.Error(t, err, "a merchant's refund with failed_before")
}

// A compensation with an unknown outcome is retried until the outcome is known, at growing
// intervals. After a day each retry pages.
func TestCompensationIsNeverGivenUp(t *testing.T) {
	for n, want := range map[uint32]time.Duration{0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 11: 2048 * time.Second, 12: time.Hour, 4e9: time.Hour} {
		for name, p := range map[string]*fake{
			"lost":       {caps: both, result: lost},
			"cannot ask": {caps: psp.Capabilities{Timeout: time.Second}},
			"not sent":   {caps: both, result: psp.Result{Err: &psp.NotSentError{RetryIn: time.Millisecond}}},
		} {
			for _, age := range []time.Duration{0, 24*time.Hour - 1, 24 * time.Hour} {
				var said []string
				a := compensationOf()
				a.Recovery, a.Record.Unknowns, a.Now = true, n, firstUse.Add(age)
				v := See(executorOf(p, nil, &said, outbox.KindLog).Attempt(t.Context(), a))
				require.Equal(t, claim.OutcomeUnknown, v.Outcome, name)
				require.True(t, v.KeepAsking, name)
				require.Equal(t, want, v.RetryIn, name)
				require.Empty(t, v.Events)
				require.Equal(t, age == 24*time.Hour, len(said) == 1 && said[0] == pageUnknown, "%s: %v", name, said)
			}
		}
	}
	// A provider that must be given time is given it.
	p := &fake{caps: psp.Capabilities{Lookup: true, SettleWindow: time.Minute, Timeout: time.Second}, found: psp.FoundNo}
	a := compensationOf()
	a.Recovery = true
	v := See(executorOf(p, nil, nil).Attempt(t.Context(), a))
	require.True(t, v.NotFound && v.KeepAsking)
	require.Equal(t, time.Minute, v.RetryIn)
}

func TestRefusedCompensationIsLimbo(t *testing.T) {
	for name, c := range map[string]struct {
		class   psp.Class
		last    bool
		outcome string
		pages   int
	}{
		"hard":             {class: psp.Hard, outcome: claim.OutcomeRefused, pages: 1},
		"invalid":          {class: psp.Invalid, outcome: claim.OutcomeRefused, pages: 1},
		"not now":          {class: psp.Soft, outcome: claim.OutcomeReleased},
		"not now, at last": {class: psp.Soft, last: true, outcome: claim.OutcomeRefused, pages: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			a := compensationOf()
			a.Last = c.last
			v := See(executorOf(&fake{caps: both, result: decline(c.class, "x", "")}, nil, &said).Attempt(t.Context(), a))
			require.Equal(t, cmp.Or(c.outcome, claim.OutcomeUnknown), v.Outcome)
			require.Len(t, said, c.pages)
			require.Nil(t, v.Posting)
			if c.pages > 0 {
				require.Equal(t, pageLimbo, said[0])
			}
		})
	}
}

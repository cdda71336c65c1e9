package payment

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// A canceled key's attempt sends nothing that may not have been sent, and takes back what it can.
func TestACanceledKeyIsWithdrawn(t *testing.T) {
	asks := psp.Capabilities{Timeout: time.Second, SettleWindow: time.Second, Dedupe: psp.DedupeKey, Lookup: true}
	blind := psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey, Blind: true}
	const refused, moved, done, unknown, pending = "refused", "moved", "done", "unknown", "pending"
	for _, c := range []struct {
		name  string
		op    Operation
		caps  psp.Capabilities
		first bool
		looks int
		found psp.Found
		shows psp.Result
		call  psp.Result
		given claim.Outcome // what an attempt found out before it saw the mark
		want  string
		calls int
	}{
		{name: "a first attempt sends nothing", op: Charge, caps: asks, first: true, want: refused},
		{name: "nor does one of a transfer", op: Transfer, caps: asks, first: true, want: refused},
		{name: "a charge that moved is a ghost", op: Charge, caps: asks, found: psp.FoundYes, shows: approved, want: moved},
		{name: "a transfer that moved is made", op: Transfer, caps: asks, found: psp.FoundYes, shows: approved, want: done},
		{name: "a decline moved nothing", op: Charge, caps: asks, found: psp.FoundYes, shows: decline(psp.Soft, "no", "No."), want: refused},
		{name: "one look-up that finds nothing proves nothing", op: Charge, caps: asks, found: psp.FoundNo, want: unknown},
		{name: "the third does, and nothing is called", op: Charge, caps: asks, looks: askBeforeCall, found: psp.FoundNo, want: refused},
		{name: "nor for a transfer", op: Transfer, caps: asks, looks: askBeforeCall, found: psp.FoundNo, want: refused},
		{name: "no answer is no answer", op: Charge, caps: asks, want: unknown},
		{name: "a charge that cannot be looked up is repeated under its key", op: Charge, caps: blind, call: approved, want: moved, calls: 1},
		{name: "unless no attempt has sent it", op: Charge, caps: blind, looks: 1, call: approved, want: refused},
		{name: "nor has the one that saw the mark", op: Charge, caps: blind, looks: 1, given: &claim.Unsent{}, want: refused},
		{name: "which may have sent it", op: Charge, caps: blind, looks: 1, given: &claim.Unknown{}, want: unknown},
		{name: "an earlier attempt may have sent it", op: Charge, caps: blind, given: &claim.Unsent{}, want: unknown},
		{name: "a transfer is not", op: Transfer, caps: blind, call: approved, want: unknown},
		{name: "an answer that came before the mark was seen", op: Charge, caps: asks, given: &claim.Done{ProviderRef: "px_1", Posting: &ledger.Transaction{
			ID: "xx_1", Tenant: "acme", Kind: ledger.Charge, Debit: ledger.Provider("fake"), Credit: ledger.Merchant("acme"), Amount: 1999, Currency: "usd", Object: "xx_1", Provider: "fake", ProviderRef: "px_1",
		}}, want: moved},
		{name: "such a transfer", op: Transfer, caps: asks, given: &claim.Done{ProviderRef: "px_1"}, want: done},
		{name: "such a decline", op: Charge, caps: asks, given: &claim.Released{}, want: refused},
		{name: "such a move to another provider", op: Charge, caps: asks, given: &claim.Moved{}, want: refused},
		{name: "such an unknown", op: Charge, caps: asks, given: &claim.Unknown{}, want: unknown},
		{name: "a recovery that sent nothing", op: Charge, caps: asks, given: &claim.Unsent{}, want: unknown},
		{name: "a first attempt that sent nothing", op: Charge, caps: asks, first: true, given: &claim.Unsent{}, want: refused},
		{name: "such a wait", op: Charge, caps: asks, given: &claim.Pending{AskIn: time.Hour}, want: pending},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &fake{caps: c.caps, result: c.call, found: c.found, shown: c.shows}
			e := NewExecutor(psp.Providers{p}, Options{Logger: slog.New(slog.DiscardHandler), Sinks: []outbox.Kind{outbox.KindLog}})
			a := attemptOf(c.op)
			a.Canceled, a.Recovery, a.Found = true, !c.first, c.given
			a.Record.Key.Tenant, a.Record.NotFounds = "acme", uint32(c.looks)
			o := e.Attempt(t.Context(), a)
			require.Len(t, p.calls, c.calls)
			switch o := o.(type) {
			case *claim.Refused:
				require.Equal(t, 410, o.Response.Status)
				require.Contains(t, string(o.Response.Body), `"error":"idempotency_key_canceled"`)
				require.Equal(t, ReasonKeyCanceled, o.Reason)
				require.Contains(t, string(o.Events[0].Payload), `"type":"`+string(c.op)+`.canceled"`)
				if c.want == refused {
					require.Nil(t, o.Posting)
					require.Nil(t, o.Refund)
					return
				}
				require.Equal(t, moved, c.want)
				require.Equal(t, &ledger.Transaction{
					ID: ledger.GhostID("fake", "px_1"), Tenant: "acme", Kind: ledger.Ghost, Debit: ledger.Provider("fake"), Credit: ledger.Suspense("acme"),
					Amount: 1999, Currency: "usd", Object: "xx_1", Provider: "fake", ProviderRef: "px_1",
				}, o.Posting)
				var w Withdrawn
				require.NoError(t, json.Unmarshal(o.Refund.Payload, &w))
				require.Equal(t, Withdrawn{"xx_1", "fake", "px_1", 1999, "usd"}, w)
			case *claim.Done:
				require.Equal(t, done, c.want)
			case *claim.Pending:
				require.Equal(t, pending, c.want)
				require.Zero(t, o.AskIn, "it is called off at once")
			default:
				require.Equal(t, unknown, c.want, "%v", o)
			}
		})
	}
}

// A charge that waits, or holds money, is called off at its provider.
func TestACanceledKeyCallsItsChargeOff(t *testing.T) {
	for _, c := range []struct {
		name   string
		shows  psp.Movement
		cancel psp.Result
		want   string
	}{
		{"waits for the payer", movement(psp.Pending, payer, nil), psp.Result{Outcome: psp.Approved}, claim.OutcomeRefused},
		{"was paid meanwhile", movement(psp.Pending, payer, nil), decline(psp.Invalid, "paid", "It is paid."), claim.OutcomePending},
		{"is with a bank that can stop it", movement(psp.Pending, bank, nil), psp.Result{Outcome: psp.Approved}, claim.OutcomeRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &patientProvider{fake: fake{caps: psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey, Lookup: true}}, shows: c.shows, found: psp.FoundYes, cancel: c.cancel}
			e := NewExecutor(psp.Providers{p}, Options{Logger: slog.New(slog.DiscardHandler)})
			a := waiting(psp.RequiresAction, time.Minute, false)
			require.Equal(t, claim.OutcomePending, e.Attempt(t.Context(), a).String())
			require.Empty(t, p.cancels)
			a.Canceled = true
			require.Equal(t, c.want, e.Attempt(t.Context(), a).String())
			require.Len(t, p.cancels, 1)
			require.Empty(t, p.calls)
		})
	}
}

// A key that was given up before it was used, and a released claim that is closed, have no request to
// read.
func TestACanceledKeyWithoutARequest(t *testing.T) {
	p := &fake{}
	e := NewExecutor(psp.Providers{p}, Options{Logger: slog.New(slog.DiscardHandler), Sinks: []outbox.Kind{outbox.KindLog}})
	for _, recovery := range []bool{false, true} {
		a := attemptOf(Charge)
		a.Record.Operation, a.Payload, a.Recovery = string(CancelKey), []byte("{}"), recovery
		o, ok := e.Attempt(t.Context(), a).(*claim.Refused)
		require.True(t, ok)
		require.Contains(t, string(o.Response.Body), "before it was used")
		require.Empty(t, o.Events)
	}
	a := attemptOf(Charge)
	a.Payload, a.Closing, a.Canceled = nil, true, true
	o, ok := e.Attempt(t.Context(), a).(*claim.Refused)
	require.True(t, ok)
	require.Equal(t, ReasonKeyCanceled, o.Reason)
	require.Empty(t, o.Events)
	require.Empty(t, p.calls)
}

// A first attempt that sent nothing says so where no look-up can, and no later one does.
func TestAFirstAttemptSaysThatItSentNothing(t *testing.T) {
	for _, lookup := range []bool{false, true} {
		for _, recovery := range []bool{false, true} {
			p := &fake{caps: psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey, Lookup: lookup}, result: psp.Result{Err: &psp.NotSentError{}}}
			a := attemptOf(Charge)
			a.Recovery = recovery
			o, ok := NewExecutor(psp.Providers{p}, Options{Logger: slog.New(slog.DiscardHandler)}).Attempt(t.Context(), a).(*claim.Unsent)
			require.True(t, ok)
			require.Equal(t, !lookup && !recovery, o.NotFound)
		}
	}
}

package psptest

import (
	"context"
	"testing"

	"github.com/homeward-io/homeward/payment/psp"
)

// A provider that declares no dedupe must not dedupe: the executor relies on the
// declaration.
func eachCallMoves(t *testing.T, h Harness) {
	call := h.charge("1")
	first := wantApproved(t, h.Provider.Charge(t.Context(), call))
	if second := wantApproved(t, h.Provider.Charge(t.Context(), call)); second == first {
		t.Errorf("two movements share the reference %q", first)
	}
	h.wantEffects(t, psp.KindCharge, call.Reference, 2)
}

// Money that moves after the caller has given up becomes a ghost.
func lateCall(t *testing.T, h Harness) {
	call := h.charge("1")
	release := h.Late()
	wantUnknown(t, h.Provider.Charge(t.Context(), call))
	h.wantEffects(t, psp.KindCharge, call.Reference, 0)
	if h.Provider.Capabilities().Lookup {
		if found, r := h.Provider.Lookup(t.Context(), psp.Call{Kind: psp.KindCharge, Reference: call.Reference}); found != psp.FoundNo {
			t.Errorf("before it arrived: found %d, %s; want FoundNo", found, describe(r))
		}
	}
	release()
	h.wantEffects(t, psp.KindCharge, call.Reference, 1)
	h.wantResolved(t, call)
}

func (h Harness) refund(n, charge string, amount int64) psp.Call {
	call := h.charge(n)
	call.Kind, call.Reference, call.Source, call.Amount, call.Description, call.Terms = psp.KindRefund, "re_"+n, charge, amount, "", nil
	return call
}

func refundsInParts(t *testing.T, h Harness) {
	charge := wantApproved(t, h.Provider.Charge(t.Context(), h.charge("1")))
	first := h.wantRefund(t, h.refund("2", charge, 1000))
	second := h.wantRefund(t, h.refund("3", charge, 250))
	if first == second {
		t.Errorf("two refunds share the reference %q", first)
	}
	h.wantEffects(t, psp.KindRefund, "re_2", 1)
	h.wantEffects(t, psp.KindRefund, "re_3", 1)
}

func refundOver(t *testing.T, h Harness) {
	charge := wantApproved(t, h.Provider.Charge(t.Context(), h.charge("1")))
	h.wantNoRefund(t, h.refund("2", charge, 1251))
	h.wantRefund(t, h.refund("3", charge, 1250))
	h.wantNoRefund(t, h.refund("4", charge, 1))
	for ref, want := range map[string]int{"re_2": 0, "re_3": 1, "re_4": 0} {
		h.wantEffects(t, psp.KindRefund, ref, want)
	}
}

func refundOfNothing(t *testing.T, h Harness) {
	transfer := "nothing"
	if !h.Provider.Capabilities().NoTransfers {
		transfer = wantApproved(t, h.Provider.Transfer(t.Context(), h.transfer("1")))
	}
	wantDeclined(t, h.Provider.Refund(t.Context(), h.refund("2", transfer, 1)), psp.Invalid)
	h.wantEffects(t, psp.KindRefund, "re_2", 0)
}

func sameKeySameRefund(t *testing.T, h Harness) {
	charge := wantApproved(t, h.Provider.Charge(t.Context(), h.charge("1")))
	// Its repeat would exceed the charge, were it not the same refund.
	call := h.refund("2", charge, 1000)
	first := h.wantRefund(t, call)
	h.DropReplies(true)
	wantUnknown(t, h.Provider.Refund(t.Context(), call))
	h.DropReplies(false)
	if again := h.wantRefund(t, call); again != first {
		t.Errorf("the same key was answered with %q, then %q", first, again)
	}
	h.wantEffects(t, psp.KindRefund, call.Reference, 1)
}

func lookupKnowsRefunds(t *testing.T, h Harness) {
	charge := wantApproved(t, h.Provider.Charge(t.Context(), h.charge("1")))
	call := h.refund("2", charge, 1000)
	if found, r := h.Provider.Lookup(t.Context(), call); found != psp.FoundNo {
		t.Fatalf("before any refund: found %d, %s; want FoundNo", found, describe(r))
	}
	h.DropReplies(true)
	wantUnknown(t, h.Provider.Refund(t.Context(), call))
	h.DropReplies(false)
	found, r := h.Provider.Lookup(t.Context(), call)
	if found != psp.FoundYes {
		t.Fatalf("found %d, %s; want FoundYes", found, describe(r))
	}
	wantApproved(t, r)
	h.wantEffects(t, psp.KindRefund, call.Reference, 1)
}

func lookupKnowsTransfers(t *testing.T, h Harness) {
	call := h.transfer("1")
	if found, r := h.Provider.Lookup(t.Context(), call); found != psp.FoundNo {
		t.Fatalf("before any transfer: found %d, %s; want FoundNo", found, describe(r))
	}
	ref := wantApproved(t, h.Provider.Transfer(t.Context(), call))
	found, r := h.Provider.Lookup(t.Context(), call)
	if found != psp.FoundYes || wantApproved(t, r) != ref {
		t.Errorf("after approval %q: found %d, %s", ref, found, describe(r))
	}
}

// wantShown asks for a movement by the provider's own id.
func (h Harness) wantShown(t *testing.T, call psp.Call, ref string, want psp.Outcome) {
	t.Helper()
	found, m, err := h.Provider.Show(t.Context(), call.Kind, call.Reference, ref)
	if err != nil || found != psp.FoundYes {
		t.Fatalf("%s is not shown: found %d, %v", ref, found, err)
	}
	m.Decline = nil // the provider chooses the cause of the failure
	if want := (psp.Movement{ProviderRef: ref, Reference: call.Reference, Amount: call.Amount, Currency: call.Currency, Outcome: want}); m != want {
		t.Errorf("got  %+v\nwant %+v", m, want)
	}
}

// Two movements under one reference are shown as two, each by its own id: that proves
// that there are two.
func showsEach(t *testing.T, h Harness) {
	first, second := h.charge("1"), h.charge("2")
	second.Reference, second.Amount = first.Reference, 777
	one, two := wantApproved(t, h.Provider.Charge(t.Context(), first)), wantApproved(t, h.Provider.Charge(t.Context(), second))
	h.wantShown(t, first, one, psp.Approved)
	h.wantShown(t, second, two, psp.Approved)
	transfer := h.transfer("3")
	h.wantShown(t, transfer, wantApproved(t, h.Provider.Transfer(t.Context(), transfer)), psp.Approved)
	refund := h.refund("4", one, 1000)
	h.wantShown(t, refund, wantApproved(t, h.Provider.Refund(t.Context(), refund)), psp.Approved)
}

func showsNoOther(t *testing.T, h Harness) {
	call := h.charge("1")
	ref := wantApproved(t, h.Provider.Charge(t.Context(), call))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if found, m, err := h.Provider.Show(ended, call.Kind, call.Reference, ref); found != psp.FoundUnknown || err == nil {
		t.Errorf("with an ended context: found %d, %+v, %v; want FoundUnknown with a reason", found, m, err)
	}
	// An id that the provider's notices might use for it, and another kind.
	for _, other := range []string{"tx_" + ref, ref + "0", call.Reference} {
		if found, m, err := h.Provider.Show(t.Context(), call.Kind, call.Reference, other); found != psp.FoundNo || err != nil {
			t.Errorf("%q: found %d, %+v, %v; want FoundNo", other, found, m, err)
		}
	}
	if found, m, err := h.Provider.Show(t.Context(), psp.KindRefund, call.Reference, ref); found == psp.FoundYes || err == nil && found != psp.FoundNo {
		t.Errorf("a charge is shown as a refund: found %d, %+v, %v", found, m, err)
	}
}

// A movement that succeeded may fail. It is shown as failed and no longer found as an
// approval, and its money can be refunded, or charged, anew.
func failsAfterSuccess(t *testing.T, h Harness) {
	ctx, charge := t.Context(), h.charge("1")
	chargeRef := wantApproved(t, h.Provider.Charge(ctx, charge))
	refund := h.refund("2", chargeRef, charge.Amount)
	refundRef := wantApproved(t, h.Provider.Refund(ctx, refund))
	wantDeclined(t, h.Provider.Refund(ctx, h.refund("3", chargeRef, 1)), psp.Invalid)
	h.Fail(refundRef)
	h.wantShown(t, refund, refundRef, psp.Declined)
	again := h.refund("4", chargeRef, charge.Amount)
	againRef := wantApproved(t, h.Provider.Refund(ctx, again))
	h.wantShown(t, again, againRef, psp.Approved)
	h.Fail(againRef)
	h.Fail(chargeRef)
	h.wantShown(t, charge, chargeRef, psp.Declined)
	if h.Provider.Capabilities().Lookup {
		for _, call := range []psp.Call{charge, refund, again} {
			if found, r := h.Provider.Lookup(ctx, call); found == psp.FoundYes && r.Outcome == psp.Approved {
				t.Errorf("%s is found as %s", call.Reference, describe(r))
			}
		}
	}
}

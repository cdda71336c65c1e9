package psptest

import (
	"testing"

	"github.com/homeward-io/homeward/payment/psp"
)

// A provider that says it does not dedupe does not: everything above relies on
// it being taken at its word.
func eachCallMoves(t *testing.T, h Harness) {
	call := h.charge("1")
	first := wantApproved(t, h.Provider.Charge(t.Context(), call))
	if second := wantApproved(t, h.Provider.Charge(t.Context(), call)); second == first {
		t.Errorf("two movements share the reference %q", first)
	}
	h.wantEffects(t, psp.KindCharge, call.Reference, 2)
}

// Money that moves after the caller has given up is what ghosts are made of.
func lateCall(t *testing.T, h Harness) {
	call := h.charge("1")
	release := h.Late()
	wantUnknown(t, h.Provider.Charge(t.Context(), call))
	h.wantEffects(t, psp.KindCharge, call.Reference, 0)
	if h.Provider.Capabilities().Lookup {
		if found, r := h.Provider.Lookup(t.Context(), psp.KindCharge, call.Reference); found != psp.FoundNo {
			t.Errorf("before it arrived: found %d, %s; want FoundNo", found, describe(r))
		}
	}
	release()
	h.wantEffects(t, psp.KindCharge, call.Reference, 1)
	h.wantResolved(t, call)
}

func (h Harness) refund(n, charge string, amount int64) psp.Call {
	call := h.charge(n)
	call.Kind, call.Reference, call.Source, call.Amount, call.Description = psp.KindRefund, "re_"+n, charge, amount, ""
	return call
}

func refundsInParts(t *testing.T, h Harness) {
	charge := wantApproved(t, h.Provider.Charge(t.Context(), h.charge("1")))
	first := wantApproved(t, h.Provider.Refund(t.Context(), h.refund("2", charge, 1000)))
	second := wantApproved(t, h.Provider.Refund(t.Context(), h.refund("3", charge, 250)))
	if first == second {
		t.Errorf("two refunds share the reference %q", first)
	}
	h.wantEffects(t, psp.KindRefund, "re_2", 1)
	h.wantEffects(t, psp.KindRefund, "re_3", 1)
}

func refundOver(t *testing.T, h Harness) {
	charge := wantApproved(t, h.Provider.Charge(t.Context(), h.charge("1")))
	wantDeclined(t, h.Provider.Refund(t.Context(), h.refund("2", charge, 1251)), psp.Invalid)
	wantApproved(t, h.Provider.Refund(t.Context(), h.refund("3", charge, 1250)))
	wantDeclined(t, h.Provider.Refund(t.Context(), h.refund("4", charge, 1)), psp.Invalid)
	for ref, want := range map[string]int{"re_2": 0, "re_3": 1, "re_4": 0} {
		h.wantEffects(t, psp.KindRefund, ref, want)
	}
}

func refundOfNothing(t *testing.T, h Harness) {
	transfer := wantApproved(t, h.Provider.Transfer(t.Context(), h.transfer("1")))
	wantDeclined(t, h.Provider.Refund(t.Context(), h.refund("2", transfer, 1)), psp.Invalid)
	h.wantEffects(t, psp.KindRefund, "re_2", 0)
}

func sameKeySameRefund(t *testing.T, h Harness) {
	charge := wantApproved(t, h.Provider.Charge(t.Context(), h.charge("1")))
	// Its repeat would exceed the charge, were it not the same refund.
	call := h.refund("2", charge, 1000)
	first := wantApproved(t, h.Provider.Refund(t.Context(), call))
	h.DropReplies(true)
	wantUnknown(t, h.Provider.Refund(t.Context(), call))
	h.DropReplies(false)
	if again := wantApproved(t, h.Provider.Refund(t.Context(), call)); again != first {
		t.Errorf("the same key was answered with %q, then %q", first, again)
	}
	h.wantEffects(t, psp.KindRefund, call.Reference, 1)
}

func lookupKnowsRefunds(t *testing.T, h Harness) {
	charge := wantApproved(t, h.Provider.Charge(t.Context(), h.charge("1")))
	call := h.refund("2", charge, 1000)
	if found, r := h.Provider.Lookup(t.Context(), psp.KindRefund, call.Reference); found != psp.FoundNo {
		t.Fatalf("before any refund: found %d, %s; want FoundNo", found, describe(r))
	}
	h.DropReplies(true)
	wantUnknown(t, h.Provider.Refund(t.Context(), call))
	h.DropReplies(false)
	found, r := h.Provider.Lookup(t.Context(), psp.KindRefund, call.Reference)
	if found != psp.FoundYes {
		t.Fatalf("found %d, %s; want FoundYes", found, describe(r))
	}
	wantApproved(t, r)
	h.wantEffects(t, psp.KindRefund, call.Reference, 1)
}

func lookupKnowsTransfers(t *testing.T, h Harness) {
	call := h.transfer("1")
	if found, r := h.Provider.Lookup(t.Context(), psp.KindTransfer, call.Reference); found != psp.FoundNo {
		t.Fatalf("before any transfer: found %d, %s; want FoundNo", found, describe(r))
	}
	ref := wantApproved(t, h.Provider.Transfer(t.Context(), call))
	found, r := h.Provider.Lookup(t.Context(), psp.KindTransfer, call.Reference)
	if found != psp.FoundYes || wantApproved(t, r) != ref {
		t.Errorf("after approval %q: found %d, %s", ref, found, describe(r))
	}
}

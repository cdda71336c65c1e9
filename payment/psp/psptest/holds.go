package psptest

import (
	"testing"

	"github.com/homeward-io/homeward/payment/psp"
)

// Held money moves when it is captured, as much as is requested, and not after its
// release; whatever is repeated, it moves once.
func holdsMoney(t *testing.T, h Harness) {
	held := func(n string) (psp.Call, string) {
		t.Helper()
		call := h.charge(n)
		var terms psp.Terms
		if call.Terms != nil {
			terms = *call.Terms
		}
		terms.Manual = true
		call.Terms = &terms
		first := wantAuthorized(t, h.Provider.Charge(t.Context(), call))
		if again := wantAuthorized(t, h.Provider.Charge(t.Context(), call)); again != first {
			t.Errorf("the same key was answered with %q, then %q", first, again)
		}
		h.wantEffects(t, psp.KindCharge, call.Reference, 0)
		return call, first
	}
	charge, ref := held("1")
	take := psp.Call{Kind: psp.KindCapture, Key: "key-take", Reference: "cap_1", Of: charge.Reference, Amount: charge.Amount - 250, Currency: charge.Currency, Source: ref}
	for range 2 {
		h.wantOrder(t, take, h.Provider.Capture(t.Context(), take), psp.Approved)
	}
	h.wantEffects(t, psp.KindCharge, charge.Reference, 1)
	again := take
	again.Key, again.Reference = "key-again", "cap_2"
	h.wantNoOrder(t, again, h.Provider.Capture(t.Context(), again))
	h.wantEffects(t, psp.KindCharge, charge.Reference, 1)

	charge, ref = held("2")
	off := psp.Call{Kind: psp.KindCancel, Key: "key-off", Reference: "can_1", Of: charge.Reference, Amount: charge.Amount, Currency: charge.Currency, Source: ref}
	for range 2 {
		h.wantOrder(t, off, h.Provider.Cancel(t.Context(), off), psp.Declined)
	}
	late := off
	late.Kind, late.Key, late.Reference = psp.KindCapture, "key-late", "cap_3"
	h.wantNoOrder(t, late, h.Provider.Capture(t.Context(), late))
	h.wantEffects(t, psp.KindCharge, charge.Reference, 0)
}

func wantAuthorized(t *testing.T, r psp.Result) (providerRef string) {
	t.Helper()
	if r.Outcome != psp.Authorized || r.ProviderRef == "" || r.Decline != nil {
		t.Fatalf("got %s; want it authorized, with a provider reference", describe(r))
	}
	return r.ProviderRef
}

// wantOrder asserts that a capture or cancellation is done: at once, with the charge's
// reference, or, if it is reported later, by a notice about the charge that names it.
func (h Harness) wantOrder(t *testing.T, call psp.Call, r psp.Result, want psp.Outcome) {
	t.Helper()
	if !h.Provider.Capabilities().Asynchronous {
		if ref := wantApproved(t, r); ref != call.Source {
			t.Errorf("the provider reference is %q, want the charge's, %q", ref, call.Source)
		}
		return
	}
	if ref := wantPending(t, r); ref != call.Source {
		t.Errorf("the provider reference is %q, want the charge's, %q", ref, call.Source)
	}
	n := h.noticeOfOrder(t, call)
	if n.Outcome != want || want == psp.Approved && n.Amount != call.Amount || want == psp.Declined && n.Decline.Code != "canceled" {
		t.Errorf("%s is reported as %+v", call.Reference, n)
	}
}

// wantNoOrder asserts that it is refused, at once or later.
func (h Harness) wantNoOrder(t *testing.T, call psp.Call, r psp.Result) {
	t.Helper()
	if !h.Provider.Capabilities().Asynchronous {
		wantDeclined(t, r, psp.Invalid)
		return
	}
	wantPending(t, r)
	if n := h.noticeOfOrder(t, call); n.Outcome != psp.Authorized || n.Never {
		t.Errorf("%s is reported as %+v; want the charge as it was", call.Reference, n)
	}
}

// noticeOfOrder waits for the notice about the charge that answers call.
func (h Harness) noticeOfOrder(t *testing.T, call psp.Call) psp.Notice {
	t.Helper()
	named := call
	named.Reference = call.Of + " " + call.Reference
	n := h.waitNotice(t, named)
	if !n.Movement || !n.Held || n.Kind != psp.KindCharge || n.Reference != call.Of || n.ProviderRef != call.Source || n.Order != call.Reference || n.Currency != call.Currency {
		t.Errorf("%s is reported as %+v", call.Reference, n)
	}
	return n
}

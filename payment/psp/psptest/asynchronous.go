package psptest

import (
	"testing"

	"github.com/homeward-io/homeward/payment/psp"
)

// inbox collects notices by our reference.
type inbox struct {
	in    <-chan Delivery
	about map[string]psp.Notice
}

// listening makes an Asynchronous provider send its notices from the beginning.
func (h Harness) listening() Harness {
	if h.Provider.Capabilities().Asynchronous {
		h.notices = &inbox{h.Notices(), map[string]psp.Notice{}}
	}
	return h
}

// waitNotice waits for the notice that reports the outcome of call.
func (h Harness) waitNotice(t *testing.T, call psp.Call) psp.Notice {
	t.Helper()
	n, ok := h.Provider.(psp.Notifier)
	if !ok {
		t.Fatalf("%T is asynchronous and no psp.Notifier", h.Provider)
	}
	for {
		if got, ok := h.notices.about[call.Reference]; ok {
			return got
		}
		d := <-h.notices.in
		if _, err := n.Verify(d.Header, d.Body, d.At); err != nil {
			t.Fatalf("%s does not verify: %v", d.Body, err)
		}
		got, err := n.Read(d.Body)
		if err != nil {
			t.Fatalf("%s does not read: %v", d.Body, err)
		}
		about := got.Reference
		if got.Order != "" {
			about += " " + got.Order // a notice about a charge that answers an order
		}
		h.notices.about[about] = got
	}
}

// wantRefund makes a refund that succeeds, at once or by a notice.
func (h Harness) wantRefund(t *testing.T, call psp.Call) (providerRef string) {
	t.Helper()
	r := h.Provider.Refund(t.Context(), call)
	if !h.Provider.Capabilities().Asynchronous {
		return wantApproved(t, r)
	}
	ref := wantPending(t, r)
	if n := h.waitNotice(t, call); n.Kind != psp.KindRefund || n.Outcome != psp.Approved || n.ProviderRef != ref ||
		n.Amount != call.Amount || n.Currency != call.Currency {
		t.Fatalf("the refund %s is reported as %+v", ref, n)
	}
	return ref
}

// wantNoRefund makes a refund that the provider refuses as Invalid, or, if asynchronous,
// declines in a notice.
func (h Harness) wantNoRefund(t *testing.T, call psp.Call) {
	t.Helper()
	r := h.Provider.Refund(t.Context(), call)
	if !h.Provider.Capabilities().Asynchronous {
		wantDeclined(t, r, psp.Invalid)
		return
	}
	ref := wantPending(t, r)
	if n := h.waitNotice(t, call); n.Kind != psp.KindRefund || n.Outcome != psp.Declined || !n.Never || n.Decline == nil || n.ProviderRef != ref {
		t.Fatalf("the refund %s is reported as %+v; want a decline", ref, n)
	}
}

// A refund under way is neither a success nor a failure, however often it is requested,
// and is made once.
func refundsPend(t *testing.T, h Harness) {
	charge := wantApproved(t, h.Provider.Charge(t.Context(), h.charge("1")))
	call := h.refund("2", charge, 1000)
	first := wantPending(t, h.Provider.Refund(t.Context(), call))
	h.wantRefund(t, call)
	if again := wantPending(t, h.Provider.Refund(t.Context(), call)); again != first {
		t.Errorf("the same key was answered with %q, then %q", first, again)
	}
	h.wantEffects(t, psp.KindRefund, call.Reference, 1)
}

func refusesTransfers(t *testing.T, h Harness) {
	call := h.transfer("1")
	wantDeclined(t, h.Provider.Transfer(t.Context(), call), psp.Invalid)
	h.FailBefore(true) // if it were sent, it would be unknown now
	wantDeclined(t, h.Provider.Transfer(t.Context(), call), psp.Invalid)
	h.wantEffects(t, psp.KindTransfer, call.Reference, 0)
}

func wantPending(t *testing.T, r psp.Result) (providerRef string) {
	t.Helper()
	if r.Outcome != psp.Pending || r.ProviderRef == "" || r.Wait == nil || r.Wait.State != psp.Processing || r.Decline != nil {
		t.Fatalf("got %s; want pending, with a provider reference", describe(r))
	}
	return r.ProviderRef
}

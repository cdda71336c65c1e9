// Package psptest is the conformance suite of [psp.Provider]. An adapter's test passes [Exercise]
// the adapter and a provider with readable books; the books, not the adapter, count how many times
// money moved.
package psptest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// Harness is an adapter and the provider behind it. All functions are called from the
// test's goroutine and must be set, except Unasked, Notices and Stranger, and Terms.
type Harness struct {
	Provider psp.Provider

	// Sources of a charge and the destination of a transfer, by what happens.
	Approves, DeclinesSoftly, DeclinesHard, Invalid, Destination string

	// Effects counts in the provider's books how many times money moved.
	Effects func(kind psp.Kind, reference string) int
	// DropReplies makes the provider move money and then drop the reply.
	DropReplies func(on bool)
	// FailBefore makes the provider answer 5xx and move nothing.
	FailBefore func(on bool)
	// Hold makes calls wait inside the provider, before money moves. arrived receives
	// once per call that has arrived; release lets all continue, and later ones
	// through.
	Hold func() (arrived <-chan struct{}, release func())
	// Late makes calls lose their reply and move no money before release.
	Late func() (release func())
	// Fail makes a charge or refund that succeeded fail, by the provider's id of it.
	Fail func(providerRef string)
	// Unasked makes the provider act without a request, and returns its id of the
	// movement: a refund or a dispute of the charge of, a reversal of the transfer of,
	// a payout of amount usd, or the next step of the dispute or payout of. Nil, or "":
	// it does not report such movements.
	Unasked func(kind psp.Kind, of string, amount int64) (id string)
	// Notices makes the provider send its notices from now on, and returns those
	// received. Nil for a provider that sends none. Stranger is the same adapter with
	// another signing secret.
	Notices  func() <-chan Delivery
	Stranger psp.Notifier
	// SignsValues: a notice's signature is in its body, and covers the members that
	// decide anything, but neither the other bytes nor the time of sending.
	SignsValues bool
	// RefundsDisputed: the provider refunds disputed money, and so its Show has Disputed.
	RefundsDisputed bool
	// Terms come with each charge.
	Terms *psp.Terms

	// notices collects the notices of an Asynchronous provider.
	notices *inbox
}

// Delivery is a notice as received.
type Delivery struct {
	Header http.Header
	Body   []byte
	// At is when it was received.
	At time.Time
}

// Receiver returns a handler that receives notices, and the channel it puts them on,
// which holds the first 64.
func Receiver() (http.Handler, <-chan Delivery) {
	in := make(chan Delivery, 64)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, psp.MaxNotice))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		in <- Delivery{r.Header.Clone(), body, time.Now()}
	}), in
}

// sameKeyCalls at once is more than any claim would ever cause.
const sameKeyCalls = 32

// Exercise runs the conformance suite. open is called once per case, for a healthy
// provider with empty books; it cleans up with t.Cleanup. Cases that need dedupe or
// look-up are skipped if Capabilities has none.
func Exercise(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	for _, c := range []struct {
		name  string
		needs func(psp.Capabilities) bool
		run   func(t *testing.T, h Harness)
	}{
		{"Describes", always, describes},
		{"Approves", always, approves},
		{"MethodNamesKind", always, methodNamesKind},
		{"Declines", always, declines},
		{"SameKeySameResult", dedupes, sameKeySameResult},
		{"SameKeySameDecline", dedupes, sameKeySameDecline},
		{"ChangedParametersAreNeverApproved", dedupes, changedParameters},
		{"SameKeyAtOnce", dedupes, sameKeyAtOnce},
		{"LookupKnowsOutcomes", looksUp, lookupKnows},
		{"LookupPrefersApproval", looksUp, lookupPrefersApproval},
		{"FailureBeforeIsUnknown", always, failureBefore},
		{"DroppedReplyIsUnknown", always, droppedReply},
		{"HungUpIsUnknown", always, hungUp},
		{"EndedContextIsUnknown", always, endedContext},
		{"WithoutDedupeEachCallMoves", dedupesNot, eachCallMoves},
		{"LateCallIsUnknown", always, lateCall},
		{"RefundsInParts", always, refundsInParts},
		{"RefundOverTheChargeIsDeclined", always, refundOver},
		{"RefundOfNothingIsInvalid", always, refundOfNothing},
		{"SameKeySameRefund", dedupes, sameKeySameRefund},
		{"LookupKnowsRefunds", looksUp, lookupKnowsRefunds},
		{"LookupKnowsTransfers", func(c psp.Capabilities) bool { return c.Lookup && !c.NoTransfers }, lookupKnowsTransfers},
		{"WithoutTransfersNothingIsSent", func(c psp.Capabilities) bool { return c.NoTransfers }, refusesTransfers},
		{"AsynchronousRefundsArePending", func(c psp.Capabilities) bool { return c.Asynchronous }, refundsPend},
		{"HoldsMoney", func(c psp.Capabilities) bool { return c.Captures }, holdsMoney},
		{"ShowsEachMovement", shows, showsEach},
		{"ShowsNoOtherMovement", shows, showsNoOther},
		{"FailsAfterSuccess", shows, failsAfterSuccess},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open(t)
			if caps := h.Provider.Capabilities(); !c.needs(caps) {
				t.Skipf("not claimed by this provider: %+v", caps)
			}
			c.run(t, h.listening())
		})
	}
	t.Run("Notices", func(t *testing.T) {
		h := open(t)
		if h.Notices == nil {
			t.Skip("this provider sends no webhooks")
		}
		notices(t, h)
	})
}

func always(psp.Capabilities) bool    { return true }
func dedupes(c psp.Capabilities) bool { return c.Dedupe != psp.DedupeNone }
func dedupesNot(c psp.Capabilities) bool {
	return c.Dedupe == psp.DedupeNone
}
func looksUp(c psp.Capabilities) bool { return c.Lookup }
func shows(c psp.Capabilities) bool   { return !c.Blind }

func describes(t *testing.T, h Harness) {
	if h.Provider.Name() == "" {
		t.Error("Name is empty")
	}
	if caps := h.Provider.Capabilities(); caps.Timeout <= 0 {
		t.Errorf("Timeout is %s: every call needs a bound", caps.Timeout)
	} else if caps.Dedupe == psp.DedupeNone && caps.SettleWindow <= 0 {
		t.Errorf("SettleWindow is %s: without dedupe nothing else bounds when a call is past", caps.SettleWindow)
	}
}

func approves(t *testing.T, h Harness) {
	ctx := t.Context()
	charge := wantApproved(t, h.Provider.Charge(ctx, h.charge("1")))
	refund := h.wantRefund(t, h.refund("3", charge, 1250))
	if charge == refund {
		t.Errorf("different movements share a provider reference: %q, %q", charge, refund)
	}
	h.wantEffects(t, psp.KindCharge, "ch_1", 1)
	h.wantEffects(t, psp.KindRefund, "re_3", 1)
	if h.Provider.Capabilities().NoTransfers {
		return
	}
	transfer := wantApproved(t, h.Provider.Transfer(ctx, h.transfer("2")))
	if charge == transfer || transfer == refund {
		t.Errorf("different movements share a provider reference: %q, %q, %q", charge, transfer, refund)
	}
	h.wantEffects(t, psp.KindTransfer, "tr_2", 1)
}

func methodNamesKind(t *testing.T, h Harness) {
	call := h.charge("1")
	call.Kind = psp.KindTransfer
	wantApproved(t, h.Provider.Charge(t.Context(), call))
	h.wantEffects(t, psp.KindCharge, call.Reference, 1)
	h.wantEffects(t, psp.KindTransfer, call.Reference, 0)
}

func declines(t *testing.T, h Harness) {
	for class, source := range map[psp.Class]string{
		psp.Soft: h.DeclinesSoftly, psp.Hard: h.DeclinesHard, psp.Invalid: h.Invalid,
	} {
		call := h.charge(class.String())
		call.Source = source
		wantDeclined(t, h.Provider.Charge(t.Context(), call), class)
		h.wantEffects(t, psp.KindCharge, call.Reference, 0)
	}
}

func sameKeySameResult(t *testing.T, h Harness) {
	for range 2 {
		call := h.charge("1")
		first := wantApproved(t, h.Provider.Charge(t.Context(), call))
		if again := wantApproved(t, h.Provider.Charge(t.Context(), call)); again != first {
			t.Errorf("the same key was answered with %q, then %q", first, again)
		}
		h.wantEffects(t, psp.KindCharge, call.Reference, 1)
	}
}

func sameKeySameDecline(t *testing.T, h Harness) {
	call := h.charge("1")
	call.Source = h.DeclinesSoftly
	first := wantDeclined(t, h.Provider.Charge(t.Context(), call), psp.Soft)
	if again := wantDeclined(t, h.Provider.Charge(t.Context(), call), psp.Soft); again != first {
		t.Errorf("the same key was declined with %+v, then %+v", first, again)
	}
	h.wantEffects(t, psp.KindCharge, call.Reference, 0)
}

func changedParameters(t *testing.T, h Harness) {
	call := h.charge("1")
	wantApproved(t, h.Provider.Charge(t.Context(), call))
	changed := call
	changed.Amount++
	// Nor declined: the money of the first call has moved.
	wantUnknown(t, h.Provider.Charge(t.Context(), changed))
	h.wantEffects(t, psp.KindCharge, call.Reference, 1)
}

func sameKeyAtOnce(t *testing.T, h Harness) {
	call := h.charge("1")
	results := make([]psp.Result, sameKeyCalls)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			<-start
			results[i] = h.Provider.Charge(t.Context(), call)
		})
	}
	close(start)
	wg.Wait()
	first := wantApproved(t, results[0])
	for _, r := range results[1:] {
		if ref := wantApproved(t, r); ref != first {
			t.Errorf("the same key was answered with %q and %q", first, ref)
		}
	}
	h.wantEffects(t, psp.KindCharge, call.Reference, 1)
}

func lookupKnows(t *testing.T, h Harness) {
	ctx := t.Context()
	if found, r := h.Provider.Lookup(ctx, psp.Call{Kind: psp.KindCharge, Reference: "ch_1"}); found != psp.FoundNo {
		t.Fatalf("before any call: found %d, %+v; want FoundNo", found, r)
	}
	ref := wantApproved(t, h.Provider.Charge(ctx, h.charge("1")))
	found, r := h.Provider.Lookup(ctx, psp.Call{Kind: psp.KindCharge, Reference: "ch_1"})
	if found != psp.FoundYes || wantApproved(t, r) != ref {
		t.Errorf("after approval %q: found %d, %+v", ref, found, r)
	}
	declined := h.charge("2")
	declined.Source = h.DeclinesHard
	wantDeclined(t, h.Provider.Charge(ctx, declined), psp.Hard)
	found, r = h.Provider.Lookup(ctx, psp.Call{Kind: psp.KindCharge, Reference: "ch_2"})
	if found != psp.FoundYes {
		t.Errorf("after a decline: found %d, %+v; want FoundYes", found, r)
	}
	wantDeclined(t, r, psp.Hard)
	if found, r := h.Provider.Lookup(ctx, psp.Call{Kind: psp.KindTransfer, Reference: "ch_1"}); found != psp.FoundNo {
		t.Errorf("a charge was found as a transfer: found %d, %+v", found, r)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if found, r := h.Provider.Lookup(ended, psp.Call{Kind: psp.KindCharge, Reference: "ch_1"}); found != psp.FoundUnknown || r.Err == nil {
		t.Errorf("with an ended context: found %d, %+v; want FoundUnknown with a reason", found, r)
	}
}

// Declines before and after it, under keys of their own, do not hide an approval.
func lookupPrefersApproval(t *testing.T, h Harness) {
	ctx, call := t.Context(), h.charge("1")
	decline := func(key, source string, class psp.Class) {
		declined := call
		declined.Key, declined.Source = key, source
		wantDeclined(t, h.Provider.Charge(ctx, declined), class)
	}
	decline("key-before", h.DeclinesSoftly, psp.Soft)
	ref := wantApproved(t, h.Provider.Charge(ctx, call))
	decline("key-after", h.DeclinesHard, psp.Hard)
	if found, r := h.Provider.Lookup(ctx, call); found != psp.FoundYes || wantApproved(t, r) != ref {
		t.Errorf("approval %q between two declines: found %d, %+v", ref, found, r)
	}
	h.wantEffects(t, call.Kind, call.Reference, 1)
}

func failureBefore(t *testing.T, h Harness) {
	call := h.charge("1")
	h.FailBefore(true)
	wantUnknown(t, h.Provider.Charge(t.Context(), call))
	h.wantEffects(t, psp.KindCharge, call.Reference, 0)
	h.FailBefore(false)
	wantApproved(t, h.Provider.Charge(t.Context(), call))
	h.wantEffects(t, psp.KindCharge, call.Reference, 1)
}

func droppedReply(t *testing.T, h Harness) {
	call := h.charge("1")
	// net/http would retry on a connection that has served before.
	wantApproved(t, h.Provider.Charge(t.Context(), h.charge("0")))
	h.DropReplies(true)
	wantUnknown(t, h.Provider.Charge(t.Context(), call))
	h.wantEffects(t, psp.KindCharge, call.Reference, 1)
	h.DropReplies(false)
	h.wantResolved(t, call)
}

func hungUp(t *testing.T, h Harness) {
	call := h.charge("1")
	arrived, release := h.Hold()
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan psp.Result, 1)
	go func() { result <- h.Provider.Charge(ctx, call) }()
	<-arrived
	cancel()
	wantUnknown(t, <-result) // hangs, and fails by time-out, if ctx is ignored
	h.wantEffects(t, psp.KindCharge, call.Reference, 0)
	release()
	if dedupes(h.Provider.Capabilities()) {
		h.wantResolved(t, call)
	}
}

func endedContext(t *testing.T, h Harness) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, do := range map[string]func(context.Context, psp.Call) psp.Result{
		"Charge": h.Provider.Charge, "Transfer": h.Provider.Transfer, "Refund": h.Provider.Refund,
	} {
		if name == "Transfer" && h.Provider.Capabilities().NoTransfers {
			continue // it is refused without being sent
		}
		t.Run(name, func(t *testing.T) { wantUnknown(t, do(ctx, h.charge("1"))) })
	}
}

// wantResolved finds the outcome of an unknown call that did move money, or moves it on
// a retry, in each way the provider offers.
func (h Harness) wantResolved(t *testing.T, call psp.Call) {
	t.Helper()
	caps := h.Provider.Capabilities()
	var ref string
	if dedupes(caps) {
		ref = wantApproved(t, h.Provider.Charge(t.Context(), call))
	}
	if looksUp(caps) {
		found, r := h.Provider.Lookup(t.Context(), call)
		if found != psp.FoundYes {
			t.Fatalf("look-up: found %d, %+v; want FoundYes", found, r)
		}
		if got := wantApproved(t, r); ref != "" && got != ref {
			t.Errorf("look-up answers %q, the same key %q", got, ref)
		}
	}
	h.wantEffects(t, call.Kind, call.Reference, 1)
}

func (h Harness) charge(n string) psp.Call {
	return psp.Call{Kind: psp.KindCharge, Key: "key-" + n, Reference: "ch_" + n,
		Amount: 1250, Currency: "usd", Source: h.Approves, Description: "order " + n, Terms: h.Terms}
}

func (h Harness) transfer(n string) psp.Call {
	call := h.charge(n)
	call.Kind, call.Reference, call.Source, call.Terms = psp.KindTransfer, "tr_"+n, h.Destination, nil
	return call
}

func (h Harness) wantEffects(t *testing.T, kind psp.Kind, reference string, want int) {
	t.Helper()
	if got := h.Effects(kind, reference); got != want {
		t.Errorf("money moved %d times for %s %s, want %d", got, kind, reference, want)
	}
}

func wantApproved(t *testing.T, r psp.Result) (providerRef string) {
	t.Helper()
	if r.Outcome != psp.Approved || r.ProviderRef == "" || r.Decline != nil {
		t.Fatalf("got %s; want an approval with a provider reference", describe(r))
	}
	return r.ProviderRef
}

func wantDeclined(t *testing.T, r psp.Result, class psp.Class) psp.Decline {
	t.Helper()
	if r.Outcome != psp.Declined || r.Decline == nil || r.Decline.Class != class || r.Decline.Code == "" || (r.ProviderRef != "" && class != psp.Soft) {
		t.Fatalf("got %s; want a %s decline with a code", describe(r), class)
	}
	return *r.Decline
}

func wantUnknown(t *testing.T, r psp.Result) {
	t.Helper()
	if r.Outcome != psp.Unknown || r.Err == nil || r.Decline != nil || r.ProviderRef != "" {
		t.Fatalf("got %s; want unknown with a reason", describe(r))
	}
}

func describe(r psp.Result) string {
	if r.Decline != nil {
		return fmt.Sprintf("%s %+v (err %v)", r.Outcome, *r.Decline, r.Err)
	}
	return fmt.Sprintf("%s %q %+v (err %v)", r.Outcome, r.ProviderRef, r.Wait, r.Err)
}

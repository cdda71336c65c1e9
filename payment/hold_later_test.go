package payment

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/psp"
)

// newLater is a charge held at a provider that reports later, and has no look-ups.
func newLater(state psp.State, by string) *holding {
	h := newHolding(state)
	h.caps = psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey, KeyLife: 7 * 24 * time.Hour, Captures: true, Blind: true, Asynchronous: true}
	if h.rec.Interim != nil {
		h.rec.Interim.By = by
		h.rec.Interim.Response = claim.Response{Status: 202, Body: []byte(`{"amount":1000,"currency":"usd","status":"` + string(state) + `"}`)}
	}
	return h
}

// An order takes its charge before it calls, and waits; one that finds the charge in another's
// hands makes no call.
func TestOrdersThatANoticeConfirms(t *testing.T) {
	received := psp.Result{Outcome: psp.Pending, ProviderRef: "px_1", Wait: bank}
	refused := psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Invalid, Code: "adyen_137", Message: "No."}}
	const id = "xx_1" // attemptOf's
	for name, c := range map[string]struct {
		op       Operation
		state    psp.State
		by       string
		recovery bool
		after    time.Duration
		provider psp.Result
		becomes  func(*holding)
		want     string
		reason   string
		calls    int
		then     string // the order that has the charge
		charge   psp.State
	}{
		"a capture is received":      {Capture, RequiresCapture, "", false, 0, received, nil, claim.OutcomePending, "processing", 1, id, psp.Processing},
		"a cancellation is received": {Cancel, RequiresCapture, "", false, 0, received, nil, claim.OutcomePending, "processing", 1, id, psp.Processing},
		"after the charge was taken": {Capture, psp.Processing, id, true, 0, received, nil, claim.OutcomePending, "processing", 1, id, psp.Processing},
		"no answer":                  {Capture, RequiresCapture, "", false, 0, psp.Result{}, nil, claim.OutcomeUnknown, reasonNoAnswer, 1, id, psp.Processing},
		"refused at once":            {Capture, RequiresCapture, "", false, 0, refused, nil, claim.OutcomeReleased, "adyen_137", 1, "", RequiresCapture},
		"refused when repeated":      {Capture, psp.Processing, id, true, 0, refused, nil, claim.OutcomeUnknown, reasonRepeat, 1, id, psp.Processing},
		"after its key is forgotten": {Capture, psp.Processing, id, true, 8 * 24 * time.Hour, received, nil, claim.OutcomeUnknown, reasonCannotAsk, 0, id, psp.Processing},
		"another is under way":       {Capture, psp.Processing, "cap_other", false, 0, received, nil, claim.OutcomeReleased, codeOrdered, 0, "cap_other", psp.Processing},
		"so is a cancellation":       {Cancel, psp.Processing, "cap_other", false, 0, received, nil, claim.OutcomeReleased, codeOrdered, 0, "cap_other", psp.Processing},
		"it waits for its payer":     {Cancel, psp.RequiresAction, "", false, 0, received, nil, claim.OutcomeReleased, codeNotWaiting, 0, "", psp.RequiresAction},
		"another is, recovery":       {Capture, psp.Processing, "cap_other", true, 0, received, nil, claim.OutcomeUnknown, reasonMissing, 0, "cap_other", psp.Processing},
		"its payer, recovery":        {Cancel, psp.RequiresAction, "", true, 0, received, nil, claim.OutcomeUnknown, reasonMissing, 0, "", psp.RequiresAction},
		"captured meanwhile":         {Capture, "", "", true, 0, received, becomes(1000, ""), claim.OutcomeDone, "", 0, "", ""},
		"canceled, as reported": {Cancel, "", "", true, 0, received, func(h *holding) {
			becomes(0, codeCanceled)(h)
			h.word = &claim.Held{By: "fake", Ref: "px_1", Word: claim.HeldReleased, Amount: 1000, Currency: "usd"}
		}, claim.OutcomeDone, "", 0, "", ""},
		"canceled, not yet reported": {Cancel, "", "", true, 0, received, becomes(0, codeCanceled), claim.OutcomeUnknown, reasonUnsettled, 0, "", ""},
		"canceled elsewhere":         {Cancel, "", "", true, time.Hour, received, becomes(0, codeCanceled), claim.OutcomeReleased, codeNotWaiting, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newLater(c.state, c.by)
			if c.becomes != nil {
				c.becomes(h)
			}
			h.result, h.cancel = c.provider, c.provider
			h.now = firstUse.Add(c.after)
			v := h.order(t, c.op, `{}`, c.recovery)
			require.Equal(t, cmp.Or(c.want, claim.OutcomeUnknown), v.Outcome, "%s %s", v.Reason, v.Response.Body)
			require.Equal(t, c.reason, v.Reason)
			require.Nil(t, v.Posting)
			require.Empty(t, v.Events)
			calls := append(h.calls, h.cancels...)
			require.Len(t, calls, c.calls)
			if c.calls > 0 {
				require.Equal(t, [3]string{paid, id, "px_1"}, [3]string{calls[0].Of, calls[0].Reference, calls[0].Source})
			}
			if h.rec.Interim != nil {
				require.Equal(t, c.then, h.rec.Interim.By)
				require.Equal(t, string(c.charge), h.rec.Interim.State)
			}
			switch v.Outcome {
			case claim.OutcomePending:
				require.Equal(t, h.rec.Interim.Response, v.Response, "the charge, as it is")
				require.Contains(t, string(v.Response.Body), `"status":"processing"`)
			case claim.OutcomeUnknown:
				require.True(t, v.KeepAsking)
			}
		})
	}
}

// Another holder has the charge's claim for a moment: the order waits, and then takes it.
func TestAnOrderWaitsForItsCharge(t *testing.T) {
	h := newLater(RequiresCapture, "")
	h.result, h.busy = psp.Result{Outcome: psp.Pending, ProviderRef: "px_1", Wait: bank}, 2
	require.Equal(t, claim.OutcomePending, h.order(t, Capture, `{}`, false).Outcome)
	require.Len(t, h.words, 1)
	require.Equal(t, claim.HeldOrdered, h.words[0].Word)
}

// What each notice makes of a charge, in each state of the charge.
func TestWordsAboutHeldMoney(t *testing.T) {
	const self = "xx_1"
	of := func(word claim.HeldWord, order string) claim.Held {
		return claim.Held{By: "fake", Ref: "px_1", Order: order, Word: word, Amount: 600}
	}
	type state struct {
		is psp.State
		by string
	}
	held, ordered, called, unknown, payer := state{RequiresCapture, ""}, state{psp.Processing, "cap_1"}, state{psp.Processing, self}, state{"", ""}, state{psp.RequiresAction, ""}
	for name, c := range map[string]struct {
		from   state
		word   claim.Held
		want   string
		reason string
		by     string
		again  bool // a later generation
	}{
		"taken":                            {held, of(claim.HeldOrdered, "cap_1"), claim.OutcomePending, "processing", "cap_1", false},
		"taken by another":                 {ordered, of(claim.HeldOrdered, "cap_2"), claim.OutcomePending, "processing", "cap_1", false},
		"taken before its payer has acted": {payer, of(claim.HeldOrdered, "cap_1"), claim.OutcomePending, "requires_action", "", false},
		"held":                             {unknown, of(claim.HeldStill, ""), claim.OutcomePending, "requires_capture", "", false},
		"held, once its payer has acted":   {payer, of(claim.HeldStill, ""), claim.OutcomePending, "requires_capture", "", false},
		"held, reported late":              {ordered, of(claim.HeldStill, ""), claim.OutcomePending, "processing", "cap_1", false},
		"its order failed":                 {ordered, of(claim.HeldStill, "cap_1"), claim.OutcomePending, "requires_capture", "", false},
		"another's order failed":           {ordered, of(claim.HeldStill, "cap_2"), claim.OutcomePending, "processing", "cap_1", false},
		"it could not be called off":       {called, of(claim.HeldStill, ""), claim.OutcomePending, "requires_capture", "", false},
		"captured":                         {ordered, of(claim.HeldCaptured, "cap_1"), claim.OutcomeDone, "", "", false},
		"captured by hand":                 {ordered, of(claim.HeldCaptured, ""), claim.OutcomeDone, "", "", false},
		"captured before its answer":       {unknown, of(claim.HeldCaptured, "cap_1"), claim.OutcomeDone, "", "", false},
		"captured of more than is held":    {ordered, claim.Held{By: "fake", Ref: "px_1", Word: claim.HeldCaptured, Amount: 1001}, claim.OutcomePending, "processing", "cap_1", false},
		"let go":                           {ordered, of(claim.HeldReleased, "can_1"), claim.OutcomeRefused, codeCanceled, "", false},
		"let go, as we have called it off": {called, of(claim.HeldReleased, ""), claim.OutcomeRefused, codeExpired, "", false},
		"let go by hand":                   {held, of(claim.HeldReleased, ""), claim.OutcomeRefused, codeCanceled, "", false},
		"of another movement":              {held, claim.Held{By: "fake", Ref: "px_2", Word: claim.HeldCaptured, Amount: 600}, claim.OutcomePending, "requires_capture", "", false},
		"of another provider":              {held, claim.Held{By: "other", Ref: "px_1", Word: claim.HeldCaptured, Amount: 600}, claim.OutcomePending, "requires_capture", "", false},
		"let go, of an unknown movement":   {unknown, of(claim.HeldReleased, ""), claim.OutcomeRefused, codeCanceled, "", false},
		"let go, perhaps one before it":    {unknown, of(claim.HeldReleased, ""), claim.OutcomeUnknown, reasonNoAnswer, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newLater(c.from.is, c.from.by)
			a := waiting(c.from.is, time.Minute, false)
			a.Payload = []byte(h.payload)
			a.Record.Interim.By = c.from.by
			a.Record.Interim.Response = claim.Response{Status: 202, Body: []byte("as it was")}
			if c.from.is == "" {
				a.Record.Interim, a.Record.ProviderRef = nil, ""
			}
			a.Held, a.ReportedBy = &c.word, c.word.By
			if c.again {
				a.Record.Generation = 2
			}
			v := See(NewExecutor(psp.Providers{h}, Options{}).Attempt(t.Context(), a))
			require.Equal(t, cmp.Or(c.want, claim.OutcomeUnknown), v.Outcome, "%s %s", v.Reason, v.Response.Body)
			require.Equal(t, c.reason, v.Reason)
			require.Equal(t, c.by, v.By)
			require.Empty(t, h.calls, "a provider was called")
			require.Empty(t, h.cancels)
			if v.Outcome == claim.OutcomeDone {
				require.EqualValues(t, 600, v.Posting.Amount)
				require.Contains(t, string(v.Response.Body), `"amount":1000,"amount_captured":600,`)
			}
			if v.Outcome == claim.OutcomePending && v.Reason == string(c.from.is) && v.By == c.from.by {
				require.Equal(t, "as it was", string(v.Response.Body))
			}
		})
	}
}

// The executor cancels a hold past its time at the provider, and closes it by the provider's notice
// alone. It does not touch a hold that an order has.
func TestHeldPastItsTimeIsCalledOff(t *testing.T) {
	for name, c := range map[string]struct {
		state  psp.State
		by     string
		cancel psp.Result
		want   string
		then   string
		calls  int
	}{
		"held":           {RequiresCapture, "", psp.Result{Outcome: psp.Pending, ProviderRef: "px_1", Wait: bank}, claim.OutcomePending, "xx_1", 1},
		"once more":      {psp.Processing, "xx_1", psp.Result{Outcome: psp.Pending, ProviderRef: "px_1", Wait: bank}, claim.OutcomePending, "xx_1", 1},
		"without answer": {RequiresCapture, "", psp.Result{}, claim.OutcomePending, "", 1},
		"being captured": {psp.Processing, "cap_1", psp.Result{}, claim.OutcomePending, "cap_1", 0},
		"let go at once": {RequiresCapture, "", psp.Result{Outcome: psp.Approved}, claim.OutcomeRefused, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newLater(c.state, c.by)
			h.cancel = c.cancel
			a := waiting(c.state, 2*time.Hour, false)
			a.Payload = []byte(`{"amount":1000,"capture_method":"manual","currency":"usd","expires_at":"` + firstUse.Add(time.Hour).Format(time.RFC3339) + `","payment_method":"pm_1"}`)
			a.Record.Interim.By = c.by
			v := See(NewExecutor(psp.Providers{h}, Options{}).Attempt(t.Context(), a))
			require.Equal(t, cmp.Or(c.want, claim.OutcomeUnknown), v.Outcome, "%s", v.Reason)
			require.Equal(t, c.then, v.By)
			require.Len(t, h.cancels, c.calls)
			for _, call := range h.cancels {
				require.Equal(t, "xx_1", call.Of, "of the charge itself")
			}

			// Whatever became of the call, the provider reports the cancellation. Only the row from
			// before the call may exist.
			a.Held, a.ReportedBy = &claim.Held{By: "fake", Ref: "px_1", Word: claim.HeldReleased, Amount: 1000}, "fake"
			v = See(NewExecutor(psp.Providers{h}, Options{}).Attempt(t.Context(), a))
			require.Equal(t, claim.OutcomeRefused, v.Outcome, "%s", v.Reason)
			require.Equal(t, map[bool]string{true: codeCanceled, false: codeExpired}[c.by == "cap_1"], v.Reason)
			require.Len(t, h.cancels, c.calls)
		})
	}
}

// An order that comes when the hold is to end finds it called off, and takes nothing.
func TestAHoldThatEndsTakesNoOrder(t *testing.T) {
	for name, ends := range map[string]func(*claim.Attempt){
		"its key was canceled": func(a *claim.Attempt) { a.Canceled = true },
		"it has expired": func(a *claim.Attempt) {
			a.Payload = []byte(`{"amount":1000,"capture_method":"manual","currency":"usd","expires_at":"` + firstUse.Add(time.Minute).Format(time.RFC3339) + `","payment_method":"pm_1"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newLater(RequiresCapture, "")
			h.cancel = psp.Result{Outcome: psp.Pending, ProviderRef: "px_1", Wait: bank}
			a := waiting(RequiresCapture, time.Minute, false)
			a.Payload = []byte(h.payload)
			a.Held = &claim.Held{Order: "cap_1", Word: claim.HeldOrdered}
			ends(&a)
			v := See(NewExecutor(psp.Providers{h}, Options{}).Attempt(t.Context(), a))
			require.Equal(t, claim.OutcomePending, v.Outcome)
			require.Equal(t, "xx_1", v.By, "the charge itself ends it")
			require.Len(t, h.cancels, 1)
		})
	}
}

// An order that the provider took and that came to nothing is final.
func TestAnOrderThatFailed(t *testing.T) {
	h := newLater(psp.Processing, "xx_1")
	h.refused, h.reportedBy = "order_failed", "fake"
	v := h.order(t, Capture, `{}`, true)
	require.Equal(t, claim.OutcomeRefused, v.Outcome)
	require.Equal(t, "order_failed", v.Reason)
	require.Empty(t, h.calls)
	h.reportedBy, h.result = "another", psp.Result{}
	require.Equal(t, claim.OutcomeUnknown, h.order(t, Capture, `{}`, true).Outcome, "another provider's notice")
}

func FuzzOrder(f *testing.F) {
	f.Add(true, []byte(`{"amount":500}`))
	f.Add(false, []byte(`{}`))
	f.Add(false, []byte(`{"charge":"ch_1"}`))
	f.Add(true, []byte(`["}`))
	f.Fuzz(func(t *testing.T, capture bool, body []byte) {
		op := Cancel
		if capture {
			op = Capture
		}
		// A damaged row is not canonical; it must not panic either.
		if _, err := Parse(op, body); err != nil {
			checkInvalid(t, err)
		}
		canonical, err := claim.Canonical(body, claim.CanonicalOptions{})
		if err != nil {
			return
		}
		in, err := Parse(op, OrderOf(canonical, paid))
		if err != nil {
			checkInvalid(t, err)
			return
		}
		if in.Charge != paid || in.Amount < 0 || !capture && in.Amount != 0 {
			t.Fatalf("%q was accepted as %+v", body, in)
		}
	})
}

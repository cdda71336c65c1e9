package payment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// holding is the claim of a charge, and the provider that holds its money.
type holding struct {
	patientProvider
	rec     claim.Record
	payload string
	resp    claim.Response
	unread  error
	// learns changes the charge's claim when the look-up answers; busy is how many look-ups before
	// that find another holder.
	learns  func(*holding)
	busy    int
	lookups int
	words   []claim.Held
	// now is when the order is attempted; zero: at attemptOf's time. refused is the decline code
	// that reportedBy reported.
	now                 time.Time
	refused, reportedBy string
	word                *claim.Held
}

func (h *holding) ByObject(context.Context, string, string) (claim.Record, bool, error) {
	return h.rec, h.rec.State != 0, h.unread
}

func (h *holding) Message(_ context.Context, region, id string) (outbox.Message, bool, error) {
	return outbox.Message{ID: id, Region: region, Payload: []byte(h.payload)}, true, nil
}

func (h *holding) Object(context.Context, string, string, string) (claim.Object, bool, error) {
	return claim.Object{State: h.rec.State, Response: h.resp}, true, nil
}

func (h *holding) Learn(context.Context, outbox.Message, string, string) outbox.Disposition {
	if h.lookups++; h.lookups <= h.busy {
		return outbox.Later(time.Second)
	}
	if h.learns != nil {
		h.learns(h)
	}
	return outbox.Gone()
}

// LearnHeld has the charge's claim follow a notice as its own attempt would.
func (h *holding) LearnHeld(_ context.Context, m outbox.Message, word claim.Held) outbox.Disposition {
	if h.lookups++; h.lookups <= h.busy {
		return outbox.Later(time.Second)
	}
	h.words = append(h.words, word)
	e := NewExecutor(psp.Providers{h}, Options{Logger: slog.New(slog.DiscardHandler)})
	v := See(e.Attempt(context.Background(), claim.Attempt{Record: h.rec, Payload: m.Payload, Recovery: true, Held: &word, ReportedBy: word.By, Now: firstUse}))
	if v.Outcome == claim.OutcomePending {
		h.rec.Fence, h.rec.Interim = h.rec.Fence+2, &claim.Interim{State: v.State, By: v.By, Response: v.Response}
	}
	return outbox.Gone()
}

// becomes is what the charge's claim has become: completed with so much captured, or refused.
func becomes(captured int64, reason string) func(*holding) {
	return func(h *holding) {
		h.rec.Interim, h.rec.Reason, h.rec.State = nil, reason, claim.FailedTerminal
		if captured > 0 {
			h.rec.State = claim.Completed
			h.resp = claim.Response{Status: 201, Body: fmt.Appendf(nil, `{"id":"ch_1","object":"charge","amount":1000,"amount_captured":%d}`, captured)}
		}
	}
}

// nextFence: the provider shows the charge unchanged.
func nextFence(h *holding) { h.rec.Fence++ }

func newHolding(state psp.State) *holding { return newHoldingAt("fake", state) }

func newHoldingAt(provider string, state psp.State) *holding {
	h := &holding{payload: `{"amount":1000,"capture_method":"manual","currency":"usd","payment_method":"pm_1"}`}
	h.caps = psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey, Lookup: true, Captures: true}
	policy := claim.DefaultPolicy()
	begun, _, _, err := claim.Begin(nil, &claim.Arrival{
		Content: claim.Content{Key: claim.Key{Tenant: "acme", Value: "order"}, Operation: string(Charge), Mint: claim.Minted{ID: paid}},
		Route:   claim.Route{Home: "eu", Stamped: true},
		Holder:  claim.Holder{Provider: provider},
	}, 0, &policy, firstUse)
	if err != nil {
		panic(err) // of arguments that are always the same
	}
	h.rec = *begun
	h.rec.Fence, h.rec.Holder, h.rec.ProviderRef, h.rec.Reason = 3, "", "px_1", string(state)
	if state != "" {
		h.rec.Interim = &claim.Interim{State: string(state)}
	}
	return h
}

// order is an attempt at a capture or cancellation of h's charge.
func (h *holding) order(t *testing.T, op Operation, body string, recovery bool) Seen {
	t.Helper()
	e := NewExecutor(psp.Providers{h}, Options{
		Logger: slog.New(slog.DiscardHandler), Sinks: []outbox.Kind{outbox.KindLog}, Charges: h,
		Home: func(claim.RegionCode) (string, bool) { return "eu", true },
	})
	a := attemptOf(Charge)
	a.Record.Operation, a.Record.Key.Tenant, a.Recovery = string(op), "acme", recovery
	a.Payload = OrderOf([]byte(body), paid)
	h.patientProvider.cancels = nil
	a.Refused, a.ReportedBy, a.Held = h.refused, h.reportedBy, h.word
	if !h.now.IsZero() {
		a.Now = h.now
	}
	return See(e.Attempt(t.Context(), a))
}

// A capture goes to the provider that holds the money, which the charge's claim names. A node
// without that provider sends it nowhere yet.
func TestOrdersGoToWhereTheMoneyIs(t *testing.T) {
	for was, here := range map[string]bool{"fake": true, "other": false} {
		for _, recovery := range []bool{false, true} {
			h := newHoldingAt(was, RequiresCapture)
			h.result, h.learns = psp.Result{Outcome: psp.Approved, ProviderRef: "px_1"}, becomes(1000, "")
			e := NewExecutor(psp.Providers{&renamed{Provider: h, name: "default"}, h}, Options{
				Logger: slog.New(slog.DiscardHandler), Charges: h, Home: func(claim.RegionCode) (string, bool) { return "eu", true },
			})
			a := attemptOf(Charge)
			a.Record.Operation, a.Record.Key.Tenant, a.Recovery, a.Payload = string(Capture), "acme", recovery, OrderOf([]byte("{}"), paid)
			v := See(e.Attempt(t.Context(), a))
			require.Equal(t, here, v.Outcome == claim.OutcomeDone, was)
			require.Equal(t, !here, v.Unsent, was)
			require.Equal(t, here, len(h.calls) == 1)
		}
	}
}

type renamed struct {
	psp.Provider
	name string
}

func (r *renamed) Name() string { return r.name }

func TestOrders(t *testing.T) {
	approved := psp.Result{Outcome: psp.Approved, ProviderRef: "px_1"}
	refused := psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Invalid, Code: "payment_intent_unexpected_state", Message: "No."}}
	unsettled := map[string]bool{"waits for the payer": true, "unknown so far": true, "another's charge": true, "declined for now": true}
	for name, c := range map[string]struct {
		op       Operation
		body     string
		state    psp.State // "": becomes decides
		becomes  func(*holding)
		provider psp.Result
		learns   func(*holding)
		want     string
		reason   string
		calls    int
		amount   int64 // that is sent
	}{
		"all of it":               {Capture, `{}`, RequiresCapture, nil, approved, becomes(1000, ""), claim.OutcomeDone, "", 1, 1000},
		"a part":                  {Capture, `{"amount":600}`, RequiresCapture, nil, approved, becomes(600, ""), claim.OutcomeDone, "", 1, 600},
		"too much":                {Capture, `{"amount":1001}`, RequiresCapture, nil, approved, nil, claim.OutcomeReleased, codeTooMuch, 0, 0},
		"no answer":               {Capture, `{}`, RequiresCapture, nil, psp.Result{}, nil, claim.OutcomeUnknown, reasonNoAnswer, 1, 1000},
		"another was faster":      {Capture, `{}`, RequiresCapture, nil, refused, becomes(600, ""), claim.OutcomeReleased, codeCaptured, 1, 1000},
		"one like it was faster":  {Capture, `{}`, RequiresCapture, nil, refused, becomes(1000, ""), claim.OutcomeDone, "", 1, 1000},
		"canceled meanwhile":      {Capture, `{}`, RequiresCapture, nil, refused, becomes(0, codeCanceled), claim.OutcomeReleased, codeNotHeld, 1, 1000},
		"refused, and unchanged":  {Capture, `{}`, RequiresCapture, nil, refused, nextFence, claim.OutcomeReleased, "payment_intent_unexpected_state", 1, 1000},
		"refused, and unknown":    {Capture, `{}`, RequiresCapture, nil, refused, nil, claim.OutcomeUnknown, reasonUnsettled, 1, 1000},
		"captured, not yet shown": {Capture, `{}`, RequiresCapture, nil, approved, nextFence, claim.OutcomeUnknown, reasonUnsettled, 1, 1000},
		"captured before":         {Capture, `{"amount":600}`, "", becomes(600, ""), approved, nil, claim.OutcomeDone, "", 0, 0},
		"canceled before":         {Capture, `{}`, "", becomes(0, codeCanceled), approved, nil, claim.OutcomeReleased, codeNotHeld, 0, 0},
		"made at once": {Capture, `{}`, "", func(h *holding) {
			becomes(1, "")(h)
			h.resp.Body = []byte(`{"amount":1000}`)
		}, approved, nil, claim.OutcomeReleased, codeNotHeld, 0, 0},
		"waits for the payer": {Capture, `{}`, psp.RequiresAction, nil, approved, nil, claim.OutcomeReleased, codeNotHeld, 0, 0},
		"unknown so far":      {Capture, `{}`, "", nil, approved, nil, claim.OutcomeReleased, codeNotHeld, 0, 0},
		"another's charge":    {Capture, `{}`, RequiresCapture, func(h *holding) { h.rec.Key.Tenant = "globex" }, approved, nil, claim.OutcomeReleased, codeNoCharge, 0, 0},
		"unread":              {Capture, `{}`, RequiresCapture, func(h *holding) { h.unread = errors.New("away") }, approved, nil, claim.OutcomeUnknown, reasonNoFacts, 0, 0},
		"declined for now":    {Capture, `{}`, "", func(h *holding) { becomes(0, "insufficient_funds")(h); h.rec.State = claim.FailedRetry }, approved, nil, claim.OutcomeReleased, codeNotHeld, 0, 0},
		"let go":              {Cancel, `{}`, RequiresCapture, nil, approved, becomes(0, codeCanceled), claim.OutcomeDone, "", 1, 1000},
		"let go by its time":  {Cancel, `{}`, RequiresCapture, nil, approved, becomes(0, codeExpired), claim.OutcomeDone, "", 1, 1000},
		"called back":         {Cancel, `{}`, psp.RequiresAction, nil, approved, becomes(0, codeCanceled), claim.OutcomeDone, "", 1, 1000},
		"too late to cancel":  {Cancel, `{}`, RequiresCapture, nil, refused, becomes(1000, ""), claim.OutcomeReleased, codeCaptured, 1, 1000},
		"declined before":     {Cancel, `{}`, "", becomes(0, "stolen_card"), approved, nil, claim.OutcomeReleased, codeNotWaiting, 0, 0},
		"let go before, and its request forgotten": {Cancel, `{}`, "", func(h *holding) {
			becomes(0, codeCanceled)(h)
			h.found, h.shows = psp.FoundYes, psp.Movement{Reference: paid, Amount: 1000, Currency: "usd", Outcome: psp.Declined}
		}, approved, nil, claim.OutcomeDone, "", 0, 0},
	} {
		for _, recovery := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", recovery), func(t *testing.T) {
				h := newHolding(c.state)
				if c.becomes != nil {
					c.becomes(h)
				}
				h.result, h.cancel, h.learns = c.provider, c.provider, c.learns
				v := h.order(t, c.op, c.body, recovery)
				if recovery && unsettled[name] {
					// The store may have been restored, and have the charge as it was before
					// an attempt found it ready and called.
					c.want, c.reason = claim.OutcomeUnknown, reasonMissing
					require.True(t, v.Unsent)
				}
				require.Equal(t, cmp.Or(c.want, claim.OutcomeUnknown), v.Outcome, "%s %s", v.Reason, v.Response.Body)
				require.Equal(t, c.reason, v.Reason)
				require.Nil(t, v.Posting, "what moves is booked as the charge")
				require.Empty(t, v.Events, "and reported")
				calls := append(h.calls, h.cancels...)
				require.Len(t, calls, c.calls)
				if c.calls > 0 {
					require.Equal(t, c.amount, calls[0].Amount)
					require.Equal(t, "px_1", calls[0].Source)
				}
				if v.Outcome == claim.OutcomeDone {
					require.Equal(t, 200, v.Response.Status)
				}
				if v.Outcome == claim.OutcomeUnknown {
					require.True(t, v.KeepAsking, "the charge decides in the end")
				}
			})
		}
	}
}

// A charge is no longer captured once its key was canceled or its expires_at has passed, even if its own
// claim has not canceled it yet. A capture that had begun goes on, and a cancellation still starts.
func TestAChargeThatIsCalledOffIsNotCaptured(t *testing.T) {
	const expiring = `{"amount":1000,"capture_method":"manual","currency":"usd","expires_at":"2030-01-01T01:00:00Z","payment_method":"pm_1"}`
	for name, ends := range map[string]func(*holding){
		"its key was canceled": func(h *holding) { h.rec.CanceledAt = firstUse },
		"it has expired":       func(h *holding) { h.payload, h.now = expiring, firstUse.Add(time.Hour) },
	} {
		for provider, held := range map[string]func() *holding{
			"at once": func() *holding { return newHolding(RequiresCapture) },
			"later":   func() *holding { return newLater(RequiresCapture, "") },
		} {
			t.Run(name+", "+provider, func(t *testing.T) {
				h := held()
				h.result = psp.Result{Outcome: psp.Approved, ProviderRef: "px_1"}
				ends(h)
				v := h.order(t, Capture, `{}`, false)
				require.Equal(t, claim.OutcomeReleased, v.Outcome)
				require.Equal(t, codeNotHeld, v.Reason)
				v = h.order(t, Capture, `{}`, true)
				require.True(t, v.Unsent, "the charge decides")
				require.Empty(t, h.calls)
				require.Empty(t, h.words, "it is not taken")
				h.order(t, Cancel, `{}`, false)
				require.NotEmpty(t, append(h.cancels, h.calls...))
			})
		}
		t.Run(name+", taken before", func(t *testing.T) {
			h := newLater(psp.Processing, "xx_1")
			h.result = psp.Result{Outcome: psp.Pending, ProviderRef: "px_1", Wait: bank}
			ends(h)
			require.Equal(t, claim.OutcomePending, h.order(t, Capture, `{}`, true).Outcome)
			require.Len(t, h.calls, 1)
		})
	}
}

// While another attempt looks the charge up the capture waits for its result.
func TestAnOrderWaitsForAnotherLookup(t *testing.T) {
	h := newHolding(RequiresCapture)
	h.result, h.busy, h.learns = psp.Result{Outcome: psp.Approved}, 2, becomes(1000, "")
	require.Equal(t, claim.OutcomeDone, h.order(t, Capture, `{}`, false).Outcome)
	require.Equal(t, 3, h.lookups)
}

// TestHeldOverTime tests the end of a charge without a capture, and of one with a capture.
func TestHeldOverTime(t *testing.T) {
	canceled := &psp.Decline{Class: psp.Soft, Code: codeCanceled}
	yes, no := psp.Result{Outcome: psp.Approved}, psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Invalid, Code: "captured"}}
	shows := func(o psp.Outcome, amount int64, d *psp.Decline) psp.Movement {
		return psp.Movement{ProviderRef: "px_1", Reference: "xx_1", Amount: amount, Currency: "usd", Outcome: o, Decline: d}
	}
	for name, c := range map[string]struct {
		after    time.Duration
		expires  bool // after an hour
		ref      string
		shows    psp.Movement
		cancel   psp.Result
		want     string
		reason   string
		captured int64
		cancels  int
		askIn    time.Duration
	}{
		"held for a minute":        {time.Minute, false, "", shows(psp.Authorized, 1000, nil), yes, claim.OutcomePending, "requires_capture", 0, 0, time.Minute},
		"held for six days":        {6 * 24 * time.Hour, false, "", shows(psp.Authorized, 1000, nil), yes, claim.OutcomePending, "requires_capture", 0, 0, time.Hour},
		"lapsed after a week":      {7 * 24 * time.Hour, false, "", shows(psp.Declined, 1000, canceled), yes, claim.OutcomeRefused, codeCanceled, 0, 0, 0},
		"captured":                 {time.Hour / 2, true, "", shows(psp.Approved, 1000, nil), yes, claim.OutcomeDone, "", 1000, 0, 0},
		"captured in part":         {time.Hour / 2, true, "", shows(psp.Approved, 600, nil), yes, claim.OutcomeDone, "", 600, 0, 0},
		"reported, and in part":    {time.Hour / 2, true, "px_1", shows(psp.Approved, 600, nil), yes, claim.OutcomeDone, "", 600, 0, 0},
		"captured of more":         {time.Hour / 2, true, "", shows(psp.Approved, 1001, nil), yes, claim.OutcomeUnknown, reasonNotAsked, 0, 0, 0},
		"past its time":            {time.Hour, true, "", shows(psp.Authorized, 1000, nil), yes, claim.OutcomeRefused, codeExpired, 0, 1, 0},
		"past its time, but taken": {time.Hour, true, "", shows(psp.Authorized, 1000, nil), no, claim.OutcomePending, "requires_capture", 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := &patientProvider{fake: fake{caps: psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey, Lookup: true, Captures: true}}, found: psp.FoundYes, shows: c.shows, cancel: c.cancel}
			e := NewExecutor(psp.Providers{p}, Options{Logger: slog.New(slog.DiscardHandler), Sinks: []outbox.Kind{outbox.KindLog}})
			a := waiting(RequiresCapture, c.after, false)
			a.ReportedRef, a.ReportedBy = c.ref, p.Name()
			a.Payload = []byte(`{"amount":1000,"capture_method":"manual","currency":"usd","payment_method":"pm_1"}`)
			if c.expires {
				a.Payload = fmt.Appendf(nil, `{"amount":1000,"capture_method":"manual","currency":"usd","expires_at":%q,"payment_method":"pm_1"}`, firstUse.Add(time.Hour).Format(time.RFC3339))
			}
			v := See(e.Attempt(t.Context(), a))
			require.Equal(t, cmp.Or(c.want, claim.OutcomeUnknown), v.Outcome, "%+v", v)
			require.Equal(t, c.reason, v.Reason)
			require.Empty(t, p.calls)
			require.Len(t, p.cancels, c.cancels)
			if c.askIn > 0 {
				require.Equal(t, c.askIn, v.RetryIn)
			}
			if c.captured > 0 {
				require.Equal(t, c.captured, v.Posting.Amount)
				require.Contains(t, string(v.Response.Body), fmt.Sprintf(`"amount":1000,"amount_captured":%d,`, c.captured))
			}
			if c.reason == codeCanceled {
				require.Contains(t, string(v.Events[0].Payload), `"type":"charge.canceled"`)
			}
		})
	}
}

// Money is held first where the provider can hold it, and Manual is sent.
func TestHoldIsAnswered(t *testing.T) {
	p := &patientProvider{fake: fake{caps: psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey, Lookup: true, Captures: true},
		result: psp.Result{Outcome: psp.Authorized, ProviderRef: "px_1"}}}
	e := NewExecutor(psp.Providers{p}, Options{Logger: slog.New(slog.DiscardHandler), Sinks: []outbox.Kind{outbox.KindLog}})
	a := attemptOf(Charge)
	a.Payload = []byte(`{"amount":1000,"capture_method":"manual","currency":"usd","payment_method":"pm_1"}`)
	v := See(e.Attempt(t.Context(), a))
	require.Equal(t, claim.OutcomePending, v.Outcome)
	require.True(t, p.calls[0].Terms.Manual)
	require.Equal(t, 202, v.Response.Status)
	require.JSONEq(t, `{"id":"xx_1","object":"charge","amount":1000,"currency":"usd","status":"requires_capture","created":1893456000,"livemode":true,"payment_method":"pm_1",
		"capture_method":"manual","receipt_number":"R-1","amount_capturable":1000,"provider":{"name":"fake","reference":"px_1"}}`, string(v.Response.Body))
	require.Contains(t, string(v.Events[0].Payload), `"type":"charge.requires_capture"`)

	p.caps.Asynchronous = true // and has look-ups: no provider is like that
	v = See(NewExecutor(psp.Providers{p}, Options{Logger: slog.New(slog.DiscardHandler)}).Attempt(t.Context(), a))
	require.Equal(t, claim.OutcomeReleased, v.Outcome)
	require.Equal(t, codeCannotHold, v.Reason)
	require.Len(t, p.calls, 1, "nothing was sent")
}

func TestOrdersAreParsed(t *testing.T) {
	for body, member := range map[string]string{
		`{}`: "", `{"amount":5}`: "", `{"amount":0}`: "amount", `{"charge":"` + paid + `"}`: "charge", `{"amount":5,"metadata":{}}`: "metadata", `{"z":1}`: "z",
	} {
		in, err := Parse(Capture, OrderOf([]byte(body), paid))
		if member == "" {
			require.NoError(t, err, body)
			require.Equal(t, paid, in.Charge)
			continue
		}
		var bad *InvalidError
		require.ErrorAs(t, err, &bad, body)
		require.Equal(t, member, bad.Member)
	}
	_, err := Parse(Cancel, OrderOf([]byte(`{"amount":5}`), paid))
	require.Error(t, err, "a cancellation has no amount")
	_, err = Parse(Capture, []byte(`{}`))
	require.Error(t, err)
}

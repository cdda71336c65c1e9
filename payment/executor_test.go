package payment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/psp"
)

var firstUse = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// fake is a provider that gives fixed answers and counts its calls.
type fake struct {
	caps   psp.Capabilities
	result psp.Result
	found  psp.Found
	shown  psp.Result
	panics bool
	// movement is what it shows by its own ids; nil: nothing, empty: no answer.
	movement *psp.Movement

	calls    []psp.Call
	lookups  int
	lookedUp psp.Kind // by the last look-up
	hadTime  bool
}

func (f *fake) Name() string                   { return "fake" }
func (f *fake) Capabilities() psp.Capabilities { return f.caps }
func (f *fake) move(ctx context.Context, kind psp.Kind, c psp.Call) psp.Result {
	c.Kind = kind
	f.calls = append(f.calls, c)
	_, f.hadTime = ctx.Deadline()
	if f.panics {
		panic("adapter")
	}
	return f.result
}

func (f *fake) Charge(ctx context.Context, c psp.Call) psp.Result {
	return f.move(ctx, psp.KindCharge, c)
}

func (f *fake) Transfer(ctx context.Context, c psp.Call) psp.Result {
	return f.move(ctx, psp.KindTransfer, c)
}

func (f *fake) Refund(ctx context.Context, c psp.Call) psp.Result {
	return f.move(ctx, psp.KindRefund, c)
}

func (f *fake) Capture(ctx context.Context, c psp.Call) psp.Result {
	return f.move(ctx, psp.KindCapture, c)
}

func (f *fake) Cancel(ctx context.Context, c psp.Call) psp.Result {
	return f.move(ctx, psp.KindCancel, c)
}

func (f *fake) Lookup(_ context.Context, call psp.Call) (psp.Found, psp.Result) {
	f.lookups++
	f.lookedUp = call.Kind
	return f.found, f.shown
}

func (f *fake) Show(context.Context, psp.Kind, string, string) (psp.Found, psp.Movement, error) {
	if f.movement == nil {
		return psp.FoundNo, psp.Movement{}, nil
	}
	if f.movement.ProviderRef == "" {
		return psp.FoundUnknown, psp.Movement{}, errors.New("no answer")
	}
	return psp.FoundYes, *f.movement, nil
}

var (
	approved = psp.Result{Outcome: psp.Approved, ProviderRef: "px_1"}
	lost     = psp.Result{Err: errors.New("secret detail of the wire")}

	keyReused    = psp.Result{Err: fmt.Errorf("fake: %w", psp.ErrKeyReused)}
	invalidToken = decline(psp.Invalid, "no_such_token", "No such payment method.")
)

func decline(class psp.Class, code, message string) psp.Result {
	return psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: class, Code: code, Message: message}}
}

func TestAttempt(t *testing.T) {
	type want struct {
		outcome  string
		reason   string
		status   int
		body     string // part of it
		calls    int
		lookups  int
		notFound bool
		retryIn  time.Duration
	}
	const (
		none    = psp.DedupeNone
		dedupes = psp.DedupeKey
		window  = 7 * time.Second
		expired = `"error":"card_declined","retry":"new_key","code":"expired"`
	)
	ask := psp.Capabilities{Lookup: true, SettleWindow: window}
	both := psp.Capabilities{Dedupe: dedupes, Lookup: true}
	for _, c := range []struct {
		name       string
		caps       psp.Capabilities
		provider   fake
		recovery   bool
		late       bool // past expires_at
		old        bool // past the provider's memory
		last       bool
		notFounds  uint32
		generation uint32
		want       want
	}{
		{name: "approved", provider: fake{result: approved}, caps: both,
			want: want{outcome: claim.OutcomeDone, status: 201, body: `"reference":"px_1"`, calls: 1}},
		{name: "hard", provider: fake{result: decline(psp.Hard, "stolen_card", "The card was reported stolen.")}, caps: both,
			want: want{outcome: claim.OutcomeRefused, reason: "stolen_card", status: 402, calls: 1,
				body: `"detail":"The card was reported stolen.","error":"card_declined","retry":"new_key","code":"stolen_card"`}},
		{name: "soft", provider: fake{result: decline(psp.Soft, "insufficient_funds", "")}, caps: both,
			want: want{outcome: claim.OutcomeReleased, reason: "insufficient_funds", status: 402, calls: 1,
				body: `"error":"card_declined","retry":"same_key","code":"insufficient_funds"`}},
		{name: "soft, last", provider: fake{result: decline(psp.Soft, "insufficient_funds", "")}, caps: both, last: true,
			want: want{outcome: claim.OutcomeReleased, reason: "insufficient_funds", status: 402, calls: 1,
				body: `"retry":"new_key"`}},
		{name: "invalid", provider: fake{result: decline(psp.Invalid, "no_such_token", "No such payment method.")}, caps: both,
			want: want{outcome: claim.OutcomeReleased, reason: "no_such_token", status: 400, calls: 1,
				body: `"detail":"The provider refused the request: No such payment method.","error":"invalid_request","retry":"never","code":"no_such_token"`}},
		{name: "unknown", provider: fake{result: lost}, caps: both,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNoAnswer, status: 503, calls: 1,
				body: `"error":"outcome_unknown","retry":"`}},
		{name: "class of the future", provider: fake{result: decline(9, "x", "")}, caps: both,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNoAnswer, status: 503, calls: 1}},
		{name: "decline without a decline", provider: fake{result: psp.Result{Outcome: psp.Declined}}, caps: both,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNoAnswer, status: 503, calls: 1}},

		{name: "dedupes: repeat the call", provider: fake{result: approved}, caps: both, recovery: true, generation: 3,
			want: want{outcome: claim.OutcomeDone, status: 201, calls: 1}},
		{name: "dedupes, forgotten: ask", provider: fake{found: psp.FoundYes, shown: approved, result: approved}, caps: both, recovery: true, old: true,
			want: want{outcome: claim.OutcomeDone, status: 201, lookups: 1}},
		{name: "dedupes, forgotten, no look-ups", provider: fake{result: approved}, caps: psp.Capabilities{Dedupe: dedupes}, recovery: true, old: true,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonCannotAsk, status: 503}},
		{name: "dedupes, old but fresh", provider: fake{result: approved}, caps: both, old: true,
			want: want{outcome: claim.OutcomeDone, status: 201, calls: 1}},

		{name: "none: fresh", provider: fake{result: approved}, caps: ask,
			want: want{outcome: claim.OutcomeDone, status: 201, calls: 1}},
		{name: "none: found", provider: fake{found: psp.FoundYes, shown: approved, result: approved}, caps: ask, recovery: true,
			want: want{outcome: claim.OutcomeDone, status: 201, lookups: 1}},
		{name: "none: found declined", provider: fake{found: psp.FoundYes, shown: decline(psp.Hard, "stolen_card", ""), result: approved}, caps: ask, recovery: true, generation: 1,
			want: want{outcome: claim.OutcomeRefused, reason: "stolen_card", status: 402, lookups: 1}},
		{name: "none: found, outcome unknown", provider: fake{found: psp.FoundYes, shown: lost, result: approved}, caps: ask, recovery: true,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNoAnswer, status: 503, lookups: 1}},
		{name: "none: an earlier generation's decline", provider: fake{found: psp.FoundYes, shown: decline(psp.Soft, "insufficient_funds", ""), result: approved}, caps: ask, recovery: true, generation: 2,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNotFound, status: 503, lookups: 1, notFound: true, retryIn: window}},
		{name: "none: not found once", provider: fake{found: psp.FoundNo, result: approved}, caps: ask, recovery: true,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNotFound, status: 503, lookups: 1, notFound: true, retryIn: window}},
		{name: "none: not found twice", provider: fake{found: psp.FoundNo, result: approved}, caps: ask, recovery: true, notFounds: 1,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNotFound, status: 503, lookups: 1, notFound: true, retryIn: window}},
		{name: "none: not found again", provider: fake{found: psp.FoundNo, result: approved}, caps: ask, recovery: true, notFounds: 2,
			want: want{outcome: claim.OutcomeDone, status: 201, lookups: 1, calls: 1}},
		{name: "none: not answered", provider: fake{found: psp.FoundUnknown, shown: lost, result: approved}, caps: ask, recovery: true, notFounds: 2,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNotAsked, status: 503, lookups: 1}},
		{name: "none: no look-ups", provider: fake{result: approved}, caps: psp.Capabilities{Dedupe: none}, recovery: true, notFounds: 9,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonCannotAsk, status: 503}},

		{name: "repeat refused: found", provider: fake{found: psp.FoundYes, shown: approved, result: invalidToken}, caps: both, recovery: true,
			want: want{outcome: claim.OutcomeDone, status: 201, calls: 1, lookups: 1}},
		{name: "repeat refused: found declined", provider: fake{found: psp.FoundYes, shown: decline(psp.Hard, "stolen_card", ""), result: invalidToken}, caps: both, recovery: true,
			want: want{outcome: claim.OutcomeRefused, reason: "stolen_card", status: 402, calls: 1, lookups: 1}},
		{name: "repeat refused: only itself found", provider: fake{found: psp.FoundYes, shown: invalidToken, result: invalidToken}, caps: both, recovery: true,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNotFound, status: 503, calls: 1, lookups: 1, notFound: true, retryIn: time.Second}},
		{name: "repeat refused: not found once", provider: fake{found: psp.FoundNo, result: invalidToken}, caps: both, recovery: true,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNotFound, status: 503, calls: 1, lookups: 1, notFound: true, retryIn: time.Second}},
		{name: "repeat refused: not found twice", provider: fake{found: psp.FoundNo, result: invalidToken}, caps: both, recovery: true, notFounds: 1,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNotFound, status: 503, lookups: 1, notFound: true, retryIn: time.Second}},
		{name: "repeat refused: not found again", provider: fake{found: psp.FoundNo, result: invalidToken}, caps: both, recovery: true, notFounds: 2,
			want: want{outcome: claim.OutcomeReleased, reason: "no_such_token", status: 400, calls: 1, lookups: 1, body: `"error":"invalid_request"`}},
		{name: "repeat refused: taken in the end", provider: fake{found: psp.FoundNo, result: approved}, caps: both, recovery: true, notFounds: 2,
			want: want{outcome: claim.OutcomeDone, status: 201, calls: 1, lookups: 1}},
		{name: "repeat refused: not answered", provider: fake{found: psp.FoundUnknown, shown: lost, result: invalidToken}, caps: both, recovery: true,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNotAsked, status: 503, calls: 1, lookups: 1}},
		{name: "repeat refused: no look-ups", provider: fake{result: invalidToken}, caps: psp.Capabilities{Dedupe: dedupes}, recovery: true, notFounds: 9,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonRepeat, status: 503, calls: 1}},
		{name: "key reused: found", provider: fake{found: psp.FoundYes, shown: approved, result: keyReused}, caps: both, recovery: true,
			want: want{outcome: claim.OutcomeDone, status: 201, calls: 1, lookups: 1}},
		{name: "key reused: found declined", provider: fake{found: psp.FoundYes, shown: decline(psp.Hard, "stolen_card", ""), result: keyReused}, caps: both, recovery: true,
			want: want{outcome: claim.OutcomeRefused, reason: "stolen_card", status: 402, calls: 1, lookups: 1}},
		{name: "key reused: not found once", provider: fake{found: psp.FoundNo, result: keyReused}, caps: both, recovery: true,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNotFound, status: 503, calls: 1, lookups: 1, notFound: true, retryIn: time.Second}},
		{name: "key reused: not found again", provider: fake{found: psp.FoundNo, result: keyReused}, caps: both, recovery: true, notFounds: 2,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNoAnswer, status: 503, calls: 1, lookups: 1}},
		{name: "key reused: not answered", provider: fake{found: psp.FoundUnknown, shown: lost, result: keyReused}, caps: both, recovery: true,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNotAsked, status: 503, calls: 1, lookups: 1}},
		{name: "key reused: no look-ups", provider: fake{result: keyReused}, caps: psp.Capabilities{Dedupe: dedupes}, recovery: true,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNoAnswer, status: 503, calls: 1}},
		{name: "none: refused after not found", provider: fake{found: psp.FoundNo, result: invalidToken}, caps: ask, recovery: true, notFounds: 2,
			want: want{outcome: claim.OutcomeReleased, reason: "no_such_token", status: 400, calls: 1, lookups: 1}},

		{name: "late", provider: fake{result: approved}, caps: both, late: true,
			want: want{outcome: claim.OutcomeRefused, reason: codeExpired, status: 402, body: expired}},
		{name: "late, found", provider: fake{found: psp.FoundYes, shown: approved}, caps: both, late: true, recovery: true,
			want: want{outcome: claim.OutcomeDone, status: 201, lookups: 1}},
		{name: "late, not found once", provider: fake{found: psp.FoundNo}, caps: both, late: true, recovery: true,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonNotFound, status: 503, lookups: 1, notFound: true, retryIn: time.Second}},
		{name: "late, not found again", provider: fake{found: psp.FoundNo, result: approved}, caps: ask, late: true, recovery: true, notFounds: 2,
			want: want{outcome: claim.OutcomeRefused, reason: codeExpired, status: 402, body: expired, lookups: 1}},
		{name: "late, dedupes, no look-ups", provider: fake{result: approved}, caps: psp.Capabilities{Dedupe: dedupes}, late: true, recovery: true,
			want: want{outcome: claim.OutcomeDone, status: 201, calls: 1}},
		{name: "late, none, no look-ups", provider: fake{result: approved}, caps: psp.Capabilities{}, late: true, recovery: true,
			want: want{outcome: claim.OutcomeUnknown, reason: reasonCannotAsk, status: 503}},
	} {
		for _, op := range []Operation{Charge, Transfer} {
			t.Run(c.name+"/"+string(op), func(t *testing.T) {
				p := c.provider
				p.caps = c.caps
				p.caps.Timeout = time.Second
				a := attemptOf(op)
				a.Recovery, a.Last = c.recovery, c.last
				a.Record.NotFounds = c.notFounds
				a.Record.Generation = max(c.generation, 1)
				if c.late {
					a.Now = firstUse.Add(time.Hour) // expires_at itself
				}
				if c.old {
					a.Now = firstUse.Add(dedupeTrust)
					a.Payload = []byte(strings.Replace(string(a.Payload), "2030-01-01T01", "2031-01-01T01", 1))
				}
				v := See(NewExecutor(psp.Providers{&p}, Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}).Attempt(t.Context(), a))
				got := want{
					outcome: v.Outcome, reason: v.Reason, status: v.Response.Status, body: c.want.body,
					calls: len(p.calls), lookups: p.lookups, notFound: v.NotFound, retryIn: v.RetryIn,
				}
				c.want.outcome = cmp.Or(c.want.outcome, claim.OutcomeUnknown)
				if got != c.want {
					t.Errorf("got  %+v\nwant %+v", got, c.want)
				}
				if !strings.Contains(string(v.Response.Body), c.want.body) || strings.Contains(string(v.Response.Body), "secret") {
					t.Errorf("body %s", v.Response.Body)
				}
				if v.Outcome == claim.OutcomeDone && v.ProviderRef != "px_1" {
					t.Errorf("provider reference %q", v.ProviderRef)
				}
				for _, call := range p.calls {
					wantCall := psp.Call{Kind: psp.Kind(op), Key: "hw_key", Reference: "xx_1", Amount: 1999, Currency: "usd",
						Source: source(op), Description: "a"}
					if call != wantCall || !p.hadTime {
						t.Errorf("call %+v, with a deadline: %v", call, p.hadTime)
					}
				}
			})
		}
	}
}

// A body may say that no money moved only if every call had an answer, or none was sent.
func TestAnExpiryPromisesNoMoreThanTheProviderConfirms(t *testing.T) {
	const certain, succeeded = "had passed before any money moved.", "had passed before an attempt succeeded."
	for name, c := range map[string]struct {
		change           func(*claim.Attempt)
		charge, transfer string
	}{
		"nothing was sent":       {func(*claim.Attempt) {}, certain, certain},
		"it was declined before": {func(a *claim.Attempt) { a.Record.Generation = 2 }, succeeded, succeeded},
		"its decline is closed":  {func(a *claim.Attempt) { a.Closing = true }, succeeded, succeeded},
		"calls had no answer": {func(a *claim.Attempt) { a.Recovery, a.Record.NotFounds = true, askBeforeCall },
			"Should it turn out to have been made, the payer gets the money back.", "Should it turn out to have been made, it is not reversed"},
	} {
		for op, says := range map[Operation]string{Charge: c.charge, Transfer: c.transfer} {
			t.Run(name+"/"+string(op), func(t *testing.T) {
				a := attemptOf(op)
				a.Now, a.Record.Generation = firstUse.Add(time.Hour), 1
				c.change(&a)
				p := &fake{caps: psp.Capabilities{Lookup: true, Timeout: time.Second}, found: psp.FoundNo}
				v := See(executorOf(p, nil, nil).Attempt(t.Context(), a))
				require.Equal(t, codeExpired, v.Reason)
				require.Contains(t, string(v.Response.Body), says)
				require.Equal(t, says == certain, strings.Contains(string(v.Response.Body), "any money moved"))
				require.Empty(t, p.calls)
			})
		}
	}
}

func source(op Operation) string {
	if op == Transfer {
		return "acct_1"
	}
	return "pm_1"
}

func attemptOf(op Operation) claim.Attempt {
	body := `{"amount":1999,"currency":"usd","description":"a","expires_at":"2030-01-01T01:00:00Z","payment_method":"pm_1"}`
	if op == Transfer {
		body = `{"amount":1999,"currency":"usd","description":"a","destination":"acct_1","expires_at":"2030-01-01T01:00:00Z"}`
	}
	return claim.Attempt{
		Record: claim.Record{
			Operation: string(op), ProviderKey: "hw_key", Generation: 1, FirstUse: firstUse,
			Minted: claim.Minted{ID: "xx_1", Created: firstUse, Receipt: "R-1"},
		},
		Payload: []byte(body), Now: firstUse,
	}
}

func TestUnreadablePayloadIsNeverSent(t *testing.T) {
	p := &fake{result: approved, caps: psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey}}
	e := NewExecutor(psp.Providers{p}, Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	a := attemptOf(Charge)
	a.Payload = a.Payload[:10]
	if v := See(e.Attempt(t.Context(), a)); v.Outcome != claim.OutcomeUnknown || v.Reason != reasonUnreadable || len(p.calls) != 0 {
		t.Errorf("got %+v after %d calls", v, len(p.calls))
	}
	a = attemptOf(Charge)
	a.Record.Operation = "refund"
	if v := See(e.Attempt(t.Context(), a)); v.Outcome != claim.OutcomeUnknown || !v.KeepAsking || len(p.calls) != 0 {
		t.Errorf("got %+v after %d calls", v, len(p.calls))
	}
}

// Golden bytes: a change here makes replays differ between two releases.
func TestRenderedBytes(t *testing.T) {
	minted := claim.Minted{ID: "ch_1", Created: firstUse, Receipt: "HW-7"}
	in, err := parse(t, Charge, `{"amount":1999,"currency":"usd","payment_method":"pm_1","order_id":"o\"1","description":"d",
		"metadata":{"b":"\u00e9","a":"1"},"expires_at":"2030-01-01T02:00:00+01:00"}`)
	if err != nil {
		t.Fatal(err)
	}
	got := Rendered(minted, &in, "sim", `px_"1`)
	want := `{"id":"ch_1","object":"charge","amount":1999,"currency":"usd","status":"succeeded","created":1893456000,"livemode":true,` +
		`"payment_method":"pm_1","description":"d","order_id":"o\"1","metadata":{"a":"1","b":"é"},"expires_at":"2030-01-01T02:00:00+01:00",` +
		`"receipt_number":"HW-7","provider":{"name":"sim","reference":"px_\"1"}}`
	if string(got.Body) != want || got.Status != 201 {
		t.Errorf("got  %s\nwant %s", got.Body, want)
	}
	if len(got.Header) != 2 || got.Header[0] != (claim.HeaderField{Name: "Content-Type", Value: "application/json"}) ||
		got.Header[1] != (claim.HeaderField{Name: "Location", Value: "/v1/charges/ch_1"}) {
		t.Errorf("header %v", got.Header)
	}
	minted.ID = "tr_1"
	in, err = parse(t, Transfer, `{"amount":1,"currency":"eur","destination":"acct_1"}`)
	if err != nil {
		t.Fatal(err)
	}
	want = `{"id":"tr_1","object":"transfer","amount":1,"currency":"eur","status":"succeeded","created":1893456000,"livemode":true,` +
		`"destination":"acct_1","receipt_number":"HW-7","provider":{"name":"sim","reference":"x"}}`
	if got := Rendered(minted, &in, "sim", "x"); string(got.Body) != want || got.Header[1].Value != "/v1/transfers/tr_1" {
		t.Errorf("got  %s %v\nwant %s", got.Body, got.Header, want)
	}
}

// A generation that began a day after its claim has a provider key that is young: it
// is repeated, where the provider dedupes, and not left to a person.
func TestAYoungGenerationOfAnOldKeyIsRepeated(t *testing.T) {
	p := &fake{caps: psp.Capabilities{Dedupe: psp.DedupeKey, Timeout: time.Second}, result: approved}
	a := attemptOf(Charge)
	a.Recovery, a.Record.Generation = true, 2
	a.Record.FirstUse = a.Now.Add(-30 * time.Hour)
	a.Record.Refusal = &claim.Refusal{Response: claim.Response{Status: 402}, At: a.Now.Add(-2 * time.Minute)}
	require.Equal(t, claim.OutcomeDone, See(executorOf(p, nil, nil).Attempt(t.Context(), a)).Outcome)
	a.Record.Refusal.At = a.Now.Add(-dedupeTrust)
	require.Equal(t, claim.OutcomeUnknown, See(executorOf(p, nil, nil).Attempt(t.Context(), a)).Outcome)
}

// A key is repeated for as long as the provider promises to remember it, less the margin,
// and at the home of its claim, whichever node makes the attempt.
func TestKeysAreTrustedForTheirLife(t *testing.T) {
	const life = 7 * 24 * time.Hour
	for age, want := range map[time.Duration]string{
		dedupeTrust: claim.OutcomeDone, life - dedupeMargin - 1: claim.OutcomeDone, life - dedupeMargin: claim.OutcomeUnknown,
	} {
		p := &fake{caps: psp.Capabilities{Dedupe: psp.DedupeKey, KeyLife: life, Timeout: time.Second}, result: approved}
		a := attemptOf(Charge)
		a.Recovery, a.Record.FirstUse, a.Record.Home = true, a.Now.Add(-age), "eu"
		a.Payload = []byte(strings.Replace(string(a.Payload), "2030-01-01T01", "2031-01-01T01", 1))
		if v := See(executorOf(p, nil, nil).Attempt(t.Context(), a)); v.Outcome != want {
			t.Errorf("after %s: %+v, want %v", age, v, want)
		}
		for _, call := range p.calls {
			if call.Home != "eu" {
				t.Errorf("a call of a claim at home in eu is made for %q", call.Home)
			}
		}
	}
}

// A provider without transfers refuses each before it sends anything, so that the refusal of a
// repeat decides the first attempt, too.
func TestTransfersThatAProviderDoesNotMakeAreRefused(t *testing.T) {
	p := &fake{
		caps:   psp.Capabilities{Dedupe: psp.DedupeKey, NoTransfers: true, Timeout: time.Second},
		result: psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Invalid, Code: "transfers_unsupported"}},
	}
	for _, recovery := range []bool{false, true} {
		a := attemptOf(Transfer)
		a.Recovery = recovery
		if v := See(executorOf(p, nil, nil).Attempt(t.Context(), a)); v.Outcome != claim.OutcomeReleased || v.Reason != "transfers_unsupported" {
			t.Errorf("recovery %t: %+v", recovery, v)
		}
	}
	p.caps.NoTransfers = false
	a := attemptOf(Transfer)
	a.Recovery = true
	if v := See(executorOf(p, nil, nil).Attempt(t.Context(), a)); v.Outcome != claim.OutcomeUnknown {
		t.Errorf("of a provider that makes transfers: %+v", v)
	}
}

// A charge that was accepted and begun is recovered, also where a new one would be refused for its
// look: money may have moved before the rule.
func TestWhatWasAcceptedOnceIsStillRead(t *testing.T) {
	p := &fake{caps: both, result: approved}
	a := attemptOf(Charge)
	a.Recovery = true
	a.Payload = []byte(`{"amount":1999,"currency":"usd","payment_method":"pm_4242424242424242"}`)
	if found := Screen(a.Payload); !found.Token || found.Refusal() == nil {
		t.Fatalf("a new one is let in: %+v", found)
	}
	v := See(executorOf(p, someBooks(), nil).Attempt(t.Context(), a))
	if v.Outcome != claim.OutcomeDone {
		t.Fatalf("got %v, %s", v.Outcome, v.Reason)
	}
}

// A pending payment at a provider without look-ups waits for a notice. The wait counts as no
// unknown and logs no page. Past its time the attempt does not wait for a charge.
func TestPendingAtAProviderWithoutLookups(t *testing.T) {
	p := &fake{caps: psp.Capabilities{Dedupe: psp.DedupeKey, Blind: true, Timeout: time.Second}, result: approved}
	for name, c := range map[string]struct {
		change  func(*claim.Attempt)
		outcome string
		reason  string
	}{
		"no notice":           {func(*claim.Attempt) {}, claim.OutcomePending, "processing"},
		"it was made":         {func(a *claim.Attempt) { a.ReportedRef, a.ReportedBy = "px_1", "fake" }, claim.OutcomeDone, ""},
		"it was not":          {func(a *claim.Attempt) { a.Refused, a.ReportedBy = "generic_decline", "fake" }, claim.OutcomeReleased, "generic_decline"},
		"by another provider": {func(a *claim.Attempt) { a.Refused, a.ReportedBy = "generic_decline", "another" }, claim.OutcomePending, "processing"},
		"it is past its time": {func(a *claim.Attempt) { a.Now = a.Now.Add(365 * 24 * time.Hour) }, claim.OutcomeRefused, codeExpired},
	} {
		a := attemptOf(Charge)
		a.Recovery, a.Record.ProviderRef = true, "px_1"
		a.Record.Interim = &claim.Interim{State: string(psp.Processing), Response: claim.Response{Status: 202}}
		c.change(&a)
		v := See(executorOf(p, nil, nil).Attempt(t.Context(), a))
		if v.Outcome != c.outcome || v.Reason != c.reason || len(p.calls)+p.lookups != 0 {
			t.Errorf("%s: got %v %q after %d calls, want %v %q", name, v.Outcome, v.Reason, len(p.calls), c.outcome, c.reason)
		}
		if v.Outcome == claim.OutcomePending && (v.State != "processing" || v.Response.Status != 202 || v.ProviderRef != "px_1" || v.RetryIn <= 0) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

package payment

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// patient is a provider with charges that wait; shows is what it shows.
type patientProvider struct {
	fake
	shows   psp.Movement
	found   psp.Found
	cancels []psp.Call
	cancel  psp.Result
}

func (p *patientProvider) Show(context.Context, psp.Kind, string, string) (psp.Found, psp.Movement, error) {
	return p.found, p.shows, nil
}

func (p *patientProvider) Cancel(_ context.Context, call psp.Call) psp.Result {
	p.cancels = append(p.cancels, call)
	return p.cancel
}

var (
	payer = &psp.Wait{State: psp.RequiresAction, ClientSecret: "pi_secret", NextAction: []byte(`{ "type": "redirect_to_url" }`)}
	bank  = &psp.Wait{State: psp.Processing}
)

// waiting is an attempt at a charge that waits, so long after it began.
func waiting(state psp.State, after time.Duration, expires bool) claim.Attempt {
	a := attemptOf(Charge)
	if !expires {
		a.Payload = []byte(`{"amount":1999,"currency":"usd","off_session":false,"payment_method":"pm_1"}`)
	}
	a.Recovery, a.Now = true, firstUse.Add(after)
	a.Record.ProviderRef, a.Record.Interim = "px_1", &claim.Interim{State: string(state)}
	return a
}

func movement(o psp.Outcome, w *psp.Wait, d *psp.Decline) psp.Movement {
	return psp.Movement{ProviderRef: "px_1", Reference: "xx_1", Amount: 1999, Currency: "usd", Outcome: o, Wait: w, Decline: d}
}

func TestPendingIsAnswered(t *testing.T) {
	p := &patientProvider{fake: fake{caps: psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey, Lookup: true},
		result: psp.Result{Outcome: psp.Pending, ProviderRef: "px_1", Wait: payer}}}
	e := NewExecutor(psp.Providers{p}, Options{Logger: slog.New(slog.DiscardHandler), Sinks: []outbox.Kind{outbox.KindLog}})
	a := waiting(psp.RequiresAction, 0, false)
	a.Recovery, a.Record.Interim, a.Record.ProviderRef = false, nil, ""
	v := See(e.Attempt(t.Context(), a))
	require.Equal(t, claim.OutcomePending, v.Outcome)
	require.Equal(t, "requires_action", v.State)
	require.Equal(t, "px_1", v.ProviderRef)
	require.Equal(t, 202, v.Response.Status)
	require.JSONEq(t, `{"id":"xx_1","object":"charge","amount":1999,"currency":"usd","status":"requires_action","created":1893456000,"livemode":true,"payment_method":"pm_1",
		"off_session":false,"receipt_number":"R-1","client_secret":"pi_secret","next_action":{"type":"redirect_to_url"},"provider":{"name":"fake","reference":"px_1"}}`, string(v.Response.Body))
	require.Len(t, v.Events, 1)
	require.Contains(t, string(v.Events[0].Payload), `"type":"charge.requires_action"`)
	require.NotContains(t, string(v.Events[0].Payload), "pi_secret", "an event reaches more readers than the payer's page")
	require.True(t, p.calls[0].Terms.OnSession)
	require.Equal(t, askActionMin, v.RetryIn)
}

// TestPendingOverTime: two weeks of a fake clock.
func TestPendingOverTime(t *testing.T) {
	no := &psp.Decline{Class: psp.Soft, Code: "payment_intent_authentication_failure"}
	canceled := &psp.Decline{Class: psp.Soft, Code: codeCanceled}
	yes, cannot := psp.Result{Outcome: psp.Approved}, psp.Result{Outcome: psp.Declined, Decline: no}
	for name, c := range map[string]struct {
		state   psp.State
		after   time.Duration
		expires bool // after an hour
		found   psp.Found
		shows   psp.Movement
		cancel  psp.Result
		want    string
		reason  string
		cancels int
		askIn   time.Duration // 0: not looked at
		pages   bool
	}{
		"authenticated after four minutes":   {psp.RequiresAction, 4 * time.Minute, true, psp.FoundYes, movement(psp.Approved, nil, nil), yes, claim.OutcomeDone, "", 0, 0, false},
		"not yet after four minutes":         {psp.RequiresAction, 4 * time.Minute, true, psp.FoundYes, movement(psp.Pending, payer, nil), yes, claim.OutcomePending, "requires_action", 0, 30 * time.Second, false},
		"not yet a minute before the end":    {psp.RequiresAction, 59 * time.Minute, true, psp.FoundYes, movement(psp.Pending, payer, nil), yes, claim.OutcomePending, "requires_action", 0, time.Minute, false},
		"never, and the hour is over":        {psp.RequiresAction, time.Hour, true, psp.FoundYes, movement(psp.Pending, payer, nil), yes, claim.OutcomeRefused, codeExpired, 1, 0, false},
		"never, and a day is over":           {psp.RequiresAction, 24 * time.Hour, false, psp.FoundYes, movement(psp.Pending, payer, nil), yes, claim.OutcomeRefused, codeExpired, 1, 0, false},
		"paid while it was called off":       {psp.RequiresAction, time.Hour, true, psp.FoundYes, movement(psp.Pending, payer, nil), cannot, claim.OutcomePending, "requires_action", 1, 0, false},
		"called off by one that died":        {psp.RequiresAction, time.Hour, true, psp.FoundYes, movement(psp.Declined, nil, canceled), yes, claim.OutcomeRefused, codeExpired, 0, 0, false},
		"paid at the last moment":            {psp.RequiresAction, 2 * time.Hour, true, psp.FoundYes, movement(psp.Approved, nil, nil), yes, claim.OutcomeDone, "", 0, 0, false},
		"not authenticated":                  {psp.RequiresAction, time.Minute, true, psp.FoundYes, movement(psp.Declined, nil, no), yes, claim.OutcomeReleased, no.Code, 0, 0, false},
		"canceled by a person":               {psp.RequiresAction, time.Minute, true, psp.FoundYes, movement(psp.Declined, nil, canceled), yes, claim.OutcomeRefused, codeCanceled, 0, 0, false},
		"a bank after two hours":             {psp.Processing, 2 * time.Hour, false, psp.FoundYes, movement(psp.Pending, bank, nil), yes, claim.OutcomePending, "processing", 0, 15 * time.Minute, false},
		"a bank after two days":              {psp.Processing, 48 * time.Hour, false, psp.FoundYes, movement(psp.Pending, bank, nil), yes, claim.OutcomePending, "processing", 0, time.Hour, false},
		"a bank that settles then":           {psp.Processing, 48 * time.Hour, false, psp.FoundYes, movement(psp.Approved, nil, nil), yes, claim.OutcomeDone, "", 0, 0, false},
		"a bank that does not":               {psp.Processing, 48 * time.Hour, false, psp.FoundYes, movement(psp.Declined, nil, no), yes, claim.OutcomeReleased, no.Code, 0, 0, false},
		"a bank after fifteen days":          {psp.Processing, 15 * 24 * time.Hour, false, psp.FoundYes, movement(psp.Pending, bank, nil), yes, claim.OutcomePending, "processing", 0, time.Hour, true},
		"a bank, past expires_at":            {psp.Processing, 2 * time.Hour, true, psp.FoundYes, movement(psp.Pending, bank, nil), cannot, claim.OutcomePending, "processing", 1, 0, false},
		"authenticated late, now the bank's": {psp.RequiresAction, 25 * time.Hour, false, psp.FoundYes, movement(psp.Pending, bank, nil), yes, claim.OutcomePending, "processing", 0, time.Hour, false},
		"no answer":                          {psp.RequiresAction, 4 * time.Minute, true, psp.FoundUnknown, psp.Movement{}, yes, claim.OutcomeUnknown, reasonNotAsked, 0, 30 * time.Second, false},
		"no answer for fifteen days":         {psp.Processing, 15 * 24 * time.Hour, false, psp.FoundUnknown, psp.Movement{}, yes, claim.OutcomeUnknown, reasonNotAsked, 0, time.Hour, false},
		"another's":                          {psp.RequiresAction, time.Minute, true, psp.FoundYes, psp.Movement{ProviderRef: "px_1", Reference: "xx_2", Outcome: psp.Approved}, yes, claim.OutcomeUnknown, reasonNotAsked, 0, 0, false},
		"another amount":                     {psp.RequiresAction, time.Minute, true, psp.FoundYes, psp.Movement{ProviderRef: "px_1", Reference: "xx_1", Amount: 1, Currency: "usd", Outcome: psp.Approved}, yes, claim.OutcomeUnknown, reasonNotAsked, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &patientProvider{fake: fake{caps: psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey, Lookup: true}}, found: c.found, shows: c.shows, cancel: c.cancel}
			var log bytes.Buffer
			e := NewExecutor(psp.Providers{p}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			v := See(e.Attempt(t.Context(), waiting(c.state, c.after, c.expires)))
			require.Equal(t, cmp.Or(c.want, claim.OutcomeUnknown), v.Outcome, "%+v", v)
			require.Equal(t, c.reason, v.Reason)
			require.Empty(t, p.calls, "the call is never sent anew")
			require.Len(t, p.cancels, c.cancels)
			if c.askIn > 0 {
				require.Equal(t, c.askIn, v.RetryIn)
			}
			if c.want == claim.OutcomeUnknown {
				require.True(t, v.KeepAsking, "it is never given up on")
			}
			require.Equal(t, c.pages, strings.Contains(log.String(), pageProcessing), log.String())
		})
	}
}

// The generation after a soft decline resumes the same payment at the provider.
func TestSoftDeclineResumesThePayment(t *testing.T) {
	p := &fake{caps: psp.Capabilities{Timeout: time.Second, Dedupe: psp.DedupeKey, Lookup: true}, result: psp.Result{
		Outcome: psp.Declined, ProviderRef: "px_1", Decline: &psp.Decline{Class: psp.Soft, Code: "try_again_later", RetryIn: time.Hour},
	}}
	e := NewExecutor(psp.Providers{p}, Options{Logger: slog.New(slog.DiscardHandler), DeclinePause: time.Second})
	a := attemptOf(Charge)
	v := See(e.Attempt(t.Context(), a))
	require.Equal(t, claim.OutcomeReleased, v.Outcome)
	require.Equal(t, "px_1", v.ProviderRef)
	require.Equal(t, time.Hour, v.RetryIn)
	require.Contains(t, v.Response.Header, claim.HeaderField{Name: "Retry-After", Value: "3600"})
	require.Empty(t, p.calls[0].Again)
	a.Record.Generation, a.Record.ProviderRef = 2, "px_1"
	See(e.Attempt(t.Context(), a))
	require.Equal(t, "px_1", p.calls[1].Again)

	p.result.Decline.RetryIn = 10 * 24 * time.Hour
	v = See(e.Attempt(t.Context(), attemptOf(Charge)))
	require.Equal(t, claim.OutcomeRefused, v.Outcome, "the key is forgotten before")
	require.Contains(t, string(v.Response.Body), `"retry":"new_key"`)
	require.Contains(t, v.Response.Header, claim.HeaderField{Name: "Retry-After", Value: "864000"})
}

func TestTermsAreParsed(t *testing.T) {
	in, err := parse(t, Charge, `{"amount":1999,"currency":"usd","payment_method":"pm_1","customer":"cus_1","off_session":false,"setup_future_usage":"off_session",
		"statement_descriptor_suffix":"ORDER 7","return_url":"https://shop.example/back","account":"acct_1","on_behalf_of":"acct_2","order_id":"7",
		"transfer_data":{"destination":"acct_3","amount":500},"metadata":{"color":"r\u00e9d"}}`)
	require.NoError(t, err)
	require.Equal(t, &psp.Terms{
		Customer: "cus_1", OnSession: true, SetupFutureUsage: "off_session", StatementSuffix: "ORDER 7", ReturnURL: "https://shop.example/back",
		Account: "acct_1", OnBehalfOf: "acct_2", TransferTo: "acct_3", TransferAmount: 500, OrderID: []byte(`"7"`), Metadata: []byte(`{"color":"réd"}`),
	}, in.agreement())
	body := string(Rendered(claim.Minted{ID: "ch_1", Receipt: "R"}, &in, "sim", "px_1").Body)
	require.Contains(t, body, `"transfer_data":{"amount":500,"destination":"acct_3"}`, "what was sent is shown")
	in, err = parse(t, Charge, `{"amount":1999,"currency":"usd","payment_method":"pm_1","description":"d"}`)
	require.NoError(t, err)
	require.Nil(t, in.agreement(), "a charge without any is called for as before")
	for member, more := range map[string]string{
		"off_session": `"off_session":"no"`, "customer": `"customer":"a b"`, "setup_future_usage": `"setup_future_usage":"always"`,
		"statement_descriptor_suffix": `"statement_descriptor_suffix":"01234567890123456789012"`, "return_url": `"return_url":"https://shop.example"`,
		"account": `"account":"cus_1"`, "on_behalf_of": `"on_behalf_of":""`, "transfer_data": `"transfer_data":"acct_1"`,
		"transfer_data.destination": `"transfer_data":{"amount":5}`, "transfer_data.amount": `"transfer_data":{"destination":"acct_1","amount":2000}`,
		"transfer_data.who": `"transfer_data":{"destination":"acct_1","who":1}`, "application_fee_amount": `"application_fee_amount":5`,
	} {
		_, err := parse(t, Charge, `{"amount":1999,"currency":"usd","payment_method":"pm_1",`+more+`}`)
		var bad *InvalidError
		require.ErrorAs(t, err, &bad, member)
		require.Equal(t, member, bad.Member)
	}
	_, err = parse(t, Transfer, `{"amount":1999,"currency":"usd","destination":"acct_1","customer":"cus_1"}`)
	require.Error(t, err)
}

// TestEachTermIsWhole: a term without its check or its way to the provider would panic in a request.
func TestEachTermIsWhole(t *testing.T) {
	for i, of := range termsOf {
		if of.name == "" || of.check == nil || of.give == nil {
			t.Errorf("term %d (%q) lacks a part", i, of.name)
		}
	}
}

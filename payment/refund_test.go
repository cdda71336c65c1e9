package payment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// books are transactions by region and id.
type books struct {
	all map[string]ledger.Transaction
	err error
	// far is the error of a read of all regions, lost the region of which no list can be read.
	far  error
	lost string
}

func (b *books) Transaction(_ context.Context, region, id string) (ledger.Transaction, bool, error) {
	t, found := b.all[region+"/"+id]
	return t, found, b.err
}

func (b *books) ReversalsAt(_ context.Context, region, id string) (all []ledger.Transaction, _ error) {
	for _, t := range b.all {
		if t.Region == region && t.Reverses == id {
			all = append(all, t)
		}
	}
	return all, b.err
}

// Charges at home in europe, and the books of each.
var (
	paid, elsewhere, unbooked, foreign = chargeOf(2), chargeOf(2), chargeOf(2), chargeOf(2)
	farAway                            = chargeOf(9)
)

func chargeOf(code claim.RegionCode) string {
	id, err := claim.NewObjectID("ch", code, nil)
	if err != nil {
		panic(err)
	}
	return id
}

func booked(id, tenant, provider string) ledger.Transaction {
	return ledger.Transaction{
		ID: id, Region: "europe", Tenant: tenant, Kind: ledger.Charge, Debit: ledger.Provider(provider), Credit: ledger.Merchant(tenant),
		Amount: 1999, Currency: "usd", Object: id, Provider: provider, ProviderRef: "px_charge",
	}
}

func someBooks() *books {
	return &books{all: map[string]ledger.Transaction{
		"europe/" + paid: booked(paid, "acme", "fake"), "europe/" + foreign: booked(foreign, "globex", "fake"),
		"europe/" + elsewhere: booked(elsewhere, "acme", "old"),
	}}
}

// unasked books a movement of the paid charge that the provider made without a request.
func (b *books) unasked(kind ledger.Kind, amount int64) ledger.Transaction {
	t := ledger.UnaskedOf(b.all["europe/"+paid], kind, "px_unasked", amount)
	b.all["europe/"+t.ID] = t
	return t
}

// lines collects the messages of one level.
type lines struct {
	slog.Handler
	level slog.Level
	said  *[]string
}

func (l lines) Enabled(_ context.Context, at slog.Level) bool { return at == l.level }
func (l lines) Handle(_ context.Context, r slog.Record) error {
	*l.said = append(*l.said, r.Message)
	return nil
}

func executorOf(p psp.Provider, b Books, said *[]string, sinks ...outbox.Kind) *Executor {
	log := slog.New(slog.DiscardHandler)
	if said != nil {
		log = slog.New(lines{slog.DiscardHandler, slog.LevelError, said})
	}
	return NewExecutor(psp.Providers{p}, Options{
		Logger: log, Books: b, Sinks: sinks,
		Home: func(code claim.RegionCode) (string, bool) { return "europe", code == 2 },
	})
}

func refundOf(body string) claim.Attempt {
	a := attemptOf(Refund)
	a.Payload = []byte(body)
	a.Record.Key = claim.Key{Tenant: "acme", Value: "k"}
	a.Record.Minted.ID = "re_1"
	return a
}

var both = psp.Capabilities{Dedupe: psp.DedupeKey, Lookup: true, Timeout: time.Second}

func TestRefund(t *testing.T) {
	whole, part := `{"charge":"`+paid+`"}`, `{"amount":500,"charge":"`+paid+`","reason":"Too \"big\""}`
	for _, c := range []struct {
		name, body  string
		change      func(*claim.Attempt, *fake, *books)
		amount      int64 // sent; 0: nothing is
		outcome     string
		reason      string
		unsent      bool
		status      int
		says        string
		lookups     int
		withoutBook bool
	}{
		{name: "whole", body: whole, amount: 1999, outcome: claim.OutcomeDone, status: 201, says: `"amount":1999,"currency":"usd"`},
		{name: "part", body: part, amount: 500, outcome: claim.OutcomeDone, status: 201, says: `"amount":500,"currency":"usd"`},
		{name: "all of it", body: strings.Replace(part, "500", "1999", 1), amount: 1999, outcome: claim.OutcomeDone, status: 201},
		{name: "too much", body: strings.Replace(part, "500", "2000", 1), outcome: claim.OutcomeReleased, reason: codeTooMuch, status: 400, says: `"member":"amount","code":"amount_too_large"`},
		{name: "part, as Stripe counts", body: strings.Replace(part, "500,", `500,"amount_units":"stripe",`, 1), amount: 500, outcome: claim.OutcomeDone, status: 201},
		{name: "part, as Stripe counts another currency", body: strings.Replace(part, "500,", `500,"amount_units":"stripe",`, 1), outcome: claim.OutcomeReleased, reason: codeUnits, status: 400, says: `"member":"amount"`,
			change: func(_ *claim.Attempt, _ *fake, b *books) {
				isk := b.all["europe/"+paid]
				isk.Currency = "isk"
				b.all["europe/"+paid] = isk
			}},
		{name: "no such charge", body: strings.Replace(whole, paid, unbooked, 1), outcome: claim.OutcomeReleased, reason: codeNoCharge, status: 400, says: `"retry":"never","member":"charge","code":"no_such_charge"`},
		{name: "another tenant's", body: strings.Replace(whole, paid, foreign, 1), outcome: claim.OutcomeReleased, reason: codeNoCharge, status: 400},
		{name: "of another kind", body: whole, outcome: claim.OutcomeReleased, reason: codeNoCharge, status: 400,
			change: func(_ *claim.Attempt, _ *fake, b *books) {
				other := b.all["europe/"+paid]
				other.Kind = ledger.Ghost
				b.all["europe/"+paid] = other
			}},
		{name: "of another provider", body: strings.Replace(whole, paid, elsewhere, 1), outcome: claim.OutcomeReleased, reason: codeElsewhere, status: 503, says: `"retry":"same_key"`},
		{name: "of another provider, for the last time", body: strings.Replace(whole, paid, elsewhere, 1), outcome: claim.OutcomeRefused, reason: codeElsewhere, status: 503, says: `"retry":"new_key"`,
			change: func(a *claim.Attempt, _ *fake, _ *books) { a.Last = true }},
		{name: "of another provider, recovery", body: strings.Replace(whole, paid, elsewhere, 1), outcome: claim.OutcomeUnknown, reason: reasonElsewhere, unsent: true,
			change: func(a *claim.Attempt, _ *fake, _ *books) { a.Recovery = true }},
		{name: "unreadable", body: whole, outcome: claim.OutcomeUnknown, reason: reasonNoFacts, unsent: true,
			change: func(_ *claim.Attempt, _ *fake, b *books) { b.err = claim.ErrUnavailable }},
		{name: "of a region that this node has not read", body: strings.Replace(whole, paid, farAway, 1), outcome: claim.OutcomeUnknown, reason: reasonNoFacts, unsent: true},
		{name: "without books", body: whole, withoutBook: true, outcome: claim.OutcomeUnknown, reason: reasonNoFacts, unsent: true},
		{name: "unreadable, and no look-up could tell later", body: whole, outcome: claim.OutcomeReleased, reason: reasonNoFacts, status: 503, says: `"retry":"same_key"`,
			change: func(_ *claim.Attempt, p *fake, b *books) {
				b.err, p.caps = claim.ErrUnavailable, psp.Capabilities{Timeout: time.Second}
			}},
		{name: "declined", body: whole, amount: 1999, outcome: claim.OutcomeRefused, reason: "x", status: 402, says: "declined the refund for good",
			change: func(_ *claim.Attempt, p *fake, _ *books) { p.result = decline(psp.Hard, "x", "") }},
		{name: "nothing left", body: whole, amount: 1999, outcome: claim.OutcomeReleased, reason: "too_much", status: 400, says: "Nothing is left.",
			change: func(_ *claim.Attempt, p *fake, _ *books) {
				p.result = decline(psp.Invalid, "too_much", "Nothing is left.")
			}},
		{name: "recovery: repeated", body: part, amount: 500, outcome: claim.OutcomeDone, status: 201,
			change: func(a *claim.Attempt, _ *fake, _ *books) { a.Recovery = true }},
		{name: "recovery: asked", body: part, outcome: claim.OutcomeDone, status: 201, lookups: 1,
			change: func(a *claim.Attempt, p *fake, _ *books) {
				a.Recovery, p.caps.Dedupe = true, psp.DedupeNone
				p.found, p.shown = psp.FoundYes, approved
			}},
		{name: "a refund at the provider before", body: whole, outcome: claim.OutcomeReleased, reason: codeTooMuch, status: 400, says: "500 of this charge has been refunded at the provider; at most 1499 is left",
			change: func(_ *claim.Attempt, _ *fake, b *books) { b.unasked(ledger.ProviderRefund, 500) }},
		{name: "enough is left", body: part, amount: 500, outcome: claim.OutcomeDone, status: 201,
			change: func(_ *claim.Attempt, _ *fake, b *books) { b.unasked(ledger.ProviderRefund, 1499) }},
		{name: "what was refunded at the provider failed", body: whole, amount: 1999, outcome: claim.OutcomeDone, status: 201,
			change: func(_ *claim.Attempt, _ *fake, b *books) {
				failed := ledger.FailureOf(b.unasked(ledger.ProviderRefund, 500))
				b.all["europe/"+failed.ID] = failed
			}},
		{name: "disputed", body: part, outcome: claim.OutcomeReleased, reason: codeDisputed, status: 400, says: `"code":"charge_disputed"`,
			change: func(_ *claim.Attempt, _ *fake, b *books) { b.unasked(ledger.DisputeOpened, 1999) }},
		{name: "disputed, and won", body: whole, amount: 1999, outcome: claim.OutcomeDone, status: 201,
			change: func(_ *claim.Attempt, _ *fake, b *books) {
				b.unasked(ledger.DisputeOpened, 1999)
				b.unasked(ledger.DisputeWon, 1999)
			}},
		{name: "disputed in part since, recovery", body: part, amount: 500, outcome: claim.OutcomeDone, status: 201,
			change: func(a *claim.Attempt, _ *fake, b *books) { a.Recovery = true; b.unasked(ledger.DisputeOpened, 1499) }},
		{name: "recovery: unreadable", body: part, outcome: claim.OutcomeUnknown, reason: reasonNoFacts, unsent: true,
			change: func(a *claim.Attempt, _ *fake, b *books) { a.Recovery, b.err = true, claim.ErrHomeUnreachable }},
		{name: "reported by the provider", body: part, outcome: claim.OutcomeDone, status: 201, says: `"reference":"px_1"`,
			change: func(a *claim.Attempt, _ *fake, _ *books) {
				a.Recovery, a.ReportedRef, a.ReportedBy = true, "px_1", "fake"
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, b, a := &fake{caps: both, result: approved}, someBooks(), refundOf(c.body)
			if c.change != nil {
				c.change(&a, p, b)
			}
			e := executorOf(p, b, nil)
			if c.withoutBook {
				e.o.Books = nil
			}
			v := See(e.Attempt(t.Context(), a))
			require.Equal(t, cmp.Or(c.outcome, claim.OutcomeUnknown), v.Outcome)
			require.Equal(t, c.reason, v.Reason)
			require.Equal(t, c.unsent, v.Unsent)
			require.Equal(t, c.status, v.Response.Status)
			require.Contains(t, string(v.Response.Body), c.says)
			require.Equal(t, c.lookups, p.lookups)
			if c.lookups > 0 {
				require.Equal(t, psp.KindRefund, p.lookedUp)
			}
			if c.amount == 0 {
				require.Empty(t, p.calls)
				return
			}
			require.Equal(t, []psp.Call{{Kind: psp.KindRefund, Key: "hw_key", Reference: "re_1", Amount: c.amount, Currency: "usd", Source: "px_charge"}}, p.calls)
			if v.Outcome == claim.OutcomeDone {
				require.Equal(t, &ledger.Transaction{
					ID: "re_1", Tenant: "acme", Kind: ledger.Refund, Debit: "merchant:acme", Credit: "provider:fake",
					Amount: c.amount, Currency: "usd", Object: "re_1", Reverses: paid, Provider: "fake", ProviderRef: "px_1",
				}, v.Posting)
			} else {
				require.Nil(t, v.Posting)
			}
		})
	}
}

// A refund begins only of a charge with a booking that stays until it ends. One that has begun goes
// on.
func TestARefundOfAnOldCharge(t *testing.T) {
	b := someBooks()
	old := b.all["europe/"+paid]
	old.At = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b.all["europe/"+paid] = old
	for _, c := range []struct {
		age, refundFor time.Duration
		recovery       bool
		want           string
	}{
		{time.Hour, time.Hour, false, claim.OutcomeDone},
		{time.Hour + 1, time.Hour, false, claim.OutcomeReleased},
		{time.Hour + 1, time.Hour, true, claim.OutcomeDone},
		{time.Hour + 1, 0, false, claim.OutcomeDone},
	} {
		p := &fake{caps: both, result: approved}
		e := executorOf(p, b, nil)
		e.o.RefundFor = c.refundFor
		a := refundOf(`{"charge":"` + paid + `"}`)
		a.Now, a.Recovery = old.At.Add(c.age), c.recovery
		v := See(e.Attempt(t.Context(), a))
		require.Equal(t, c.want, v.Outcome, "%+v", c)
		if c.want == claim.OutcomeReleased {
			require.Equal(t, codeNoCharge, v.Reason)
			require.Contains(t, string(v.Response.Body), "too old to be refunded", "its merchant reads the charge, and lists it")
			require.Empty(t, p.calls)
		}
	}
}

// One tenant cannot learn that another has a charge.
func TestAnotherTenantsChargeIsAMissingCharge(t *testing.T) {
	e := executorOf(&fake{caps: both}, someBooks(), nil)
	missing := See(e.Attempt(t.Context(), refundOf(`{"charge":"`+unbooked+`"}`)))
	others := See(e.Attempt(t.Context(), refundOf(`{"charge":"`+foreign+`"}`)))
	tooMuch := See(e.Attempt(t.Context(), refundOf(`{"amount":999999,"charge":"`+foreign+`"}`)))
	require.Equal(t, missing, others)
	require.Equal(t, missing.Response, tooMuch.Response)
}

// Golden bytes, as in TestRenderedBytes.
func TestRenderedRefund(t *testing.T) {
	a := refundOf(`{"amount":500,"charge":"` + paid + `","reason":"a\nb"}`)
	e := executorOf(&fake{caps: both, result: approved}, someBooks(), nil)
	v := See(e.Attempt(t.Context(), a))
	require.Equal(t, `{"id":"re_1","object":"refund","amount":500,"currency":"usd","status":"succeeded","created":1893456000,"livemode":true,"charge":"`+paid+
		`","reason":"a\nb","receipt_number":"R-1","provider":{"name":"fake","reference":"px_1"}}`, string(v.Response.Body))
	require.Equal(t, "/v1/refunds/re_1", v.Response.Header[1].Value)
	require.Equal(t, v, See(e.Attempt(t.Context(), a)))
}

// A call that certainly was not sent uses up no attempt, and is retried after the pause of its
// error.
func TestNotSent(t *testing.T) {
	held := psp.Result{Err: fmt.Errorf("open: %w", &psp.NotSentError{RetryIn: 7 * time.Second, Reason: "circuit"})}
	for name, c := range map[string]struct {
		p        fake
		recovery bool
		last     bool
		outcome  string
	}{
		"first call":                    {p: fake{caps: both, result: held}},
		"repeat":                        {p: fake{caps: both, result: held}, recovery: true},
		"look-up":                       {p: fake{caps: psp.Capabilities{Lookup: true, Timeout: 1}, shown: held}, recovery: true},
		"first call without look-ups":   {p: fake{caps: psp.Capabilities{Timeout: 1}, result: held}, outcome: claim.OutcomeReleased},
		"the last one without look-ups": {p: fake{caps: psp.Capabilities{Timeout: 1}, result: held}, last: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOf(Charge)
			a.Recovery, a.Last = c.recovery, c.last
			v := See(executorOf(&c.p, nil, nil, outbox.KindLog).Attempt(t.Context(), a))
			require.Equal(t, cmp.Or(c.outcome, claim.OutcomeUnknown), v.Outcome)
			require.Equal(t, reasonNotSent, v.Reason)
			require.Empty(t, v.Events)
			if c.outcome == claim.OutcomeReleased {
				require.Contains(t, string(v.Response.Body), `"error":"outcome_unknown","retry":"same_key","retry_after_ms":7000`)
				require.NotNil(t, v.Expiry)
				return
			}
			require.True(t, v.Unsent)
			require.Equal(t, 7*time.Second, v.RetryIn)
		})
	}
}

// Money that moves is booked as package ledger says, however the outcome is learned.
func TestPostings(t *testing.T) {
	for op, want := range map[Operation]ledger.Transaction{
		Charge:   {Kind: ledger.Charge, Debit: "provider:fake", Credit: "merchant:acme", Created: firstUse},
		Transfer: {Kind: ledger.Transfer, Debit: "merchant:acme", Credit: "provider:fake"},
	} {
		want.ID, want.Object, want.Tenant, want.Amount, want.Currency, want.Provider, want.ProviderRef = "xx_1", "xx_1", "acme", 1999, "usd", "fake", "px_1"
		for _, p := range []*fake{
			{caps: both, result: approved},
			{caps: psp.Capabilities{Lookup: true, Timeout: time.Second}, found: psp.FoundYes, shown: approved},
		} {
			a := attemptOf(op)
			a.Record.Key.Tenant = "acme"
			a.Recovery = p.found == psp.FoundYes
			v := See(executorOf(p, nil, nil).Attempt(t.Context(), a))
			require.Equal(t, &want, v.Posting)
			require.NoError(t, v.Posting.Validate())
		}
	}
	for _, v := range []Seen{
		See(executorOf(&fake{caps: both, result: approved}, someBooks(), nil).Attempt(t.Context(), refundOf(`{"charge":"`+paid+`"}`))),
		See(executorOf(&fake{caps: both, result: approved}, nil, nil).Attempt(t.Context(), compensationOf())),
	} {
		require.NoError(t, v.Posting.Validate())
	}
}

// A charge that no look-up finds some time after its expires_at has expired. Before that, and for
// movements that cannot be refunded, the claim waits.
func TestUnconfirmedChargeExpires(t *testing.T) {
	expiry := firstUse.Add(time.Hour)
	// As slow as a provider may be: a call that left in time is answered until then.
	const grace = 75 * time.Second
	mute := psp.Capabilities{Lookup: true, Dedupe: psp.DedupeKey, Timeout: grace}
	late := psp.Capabilities{Lookup: true, Timeout: time.Second, SettleWindow: grace}
	for name, c := range map[string]struct {
		op      Operation
		p       fake
		now     time.Time
		expires bool
	}{
		"cannot ask":                 {op: Charge, p: fake{caps: psp.Capabilities{Timeout: grace}}, now: expiry.Add(grace), expires: true},
		"cannot ask, dedupes":        {op: Charge, p: fake{caps: psp.Capabilities{Dedupe: psp.DedupeKey, Timeout: grace}, result: lost}, now: expiry.Add(grace), expires: true},
		"cannot ask, within grace":   {op: Charge, p: fake{caps: psp.Capabilities{Timeout: grace}}, now: expiry.Add(grace - 1)},
		"not answered":               {op: Charge, p: fake{caps: mute, shown: lost}, now: expiry.Add(grace), expires: true},
		"not answered, in time":      {op: Charge, p: fake{caps: mute, shown: lost}, now: expiry.Add(grace - 1)},
		"on its way still":           {op: Charge, p: fake{caps: late, shown: lost}, now: expiry.Add(grace - 1)},
		"not on its way any more":    {op: Charge, p: fake{caps: late, shown: lost}, now: expiry.Add(grace), expires: true},
		"not asked":                  {op: Charge, p: fake{caps: mute, shown: psp.Result{Err: &psp.NotSentError{}}}, now: expiry.Add(grace)},
		"nothing found once":         {op: Charge, p: fake{caps: mute, found: psp.FoundNo}, now: expiry.Add(grace)},
		"found, and not yet decided": {op: Charge, p: fake{caps: mute, found: psp.FoundYes, shown: lost}, now: expiry.Add(grace)},
		"transfer":                   {op: Transfer, p: fake{caps: mute, shown: lost}, now: expiry.Add(24 * time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOf(c.op)
			a.Recovery, a.Now = true, c.now
			v := See(executorOf(&c.p, nil, nil, outbox.KindLog).Attempt(t.Context(), a))
			require.Empty(t, c.p.calls)
			if !c.expires {
				require.Equal(t, claim.OutcomeUnknown, v.Outcome)
				return
			}
			require.Equal(t, claim.OutcomeRefused, v.Outcome)
			require.Equal(t, codeExpired, v.Reason)
			require.Contains(t, string(v.Response.Body), `gets the money back`)
			require.Contains(t, string(v.Events[0].Payload), `"type":"charge.expired"`)
		})
	}
}

// A claim that is released closes when its request stops being payable, without a
// call and with an event of its own.
func TestReleasedRequestsCloseInTime(t *testing.T) {
	p := &fake{caps: both, result: decline(psp.Soft, "insufficient_funds", "")}
	e := executorOf(p, nil, nil, outbox.KindNATS)
	for _, op := range []Operation{Charge, Transfer} {
		p.calls = nil
		a := attemptOf(op)
		a.Record.Fence = 3
		declined := See(e.Attempt(t.Context(), a))
		require.Equal(t, claim.OutcomeReleased, declined.Outcome)
		require.Equal(t, &outbox.Message{Operation: string(op), Payload: a.Payload, Due: firstUse.Add(time.Hour)}, declined.Expiry)

		p.panics = true
		a.Payload, a.Closing, a.Now = declined.Expiry.Payload, true, declined.Expiry.Due
		closed := See(e.Attempt(t.Context(), a))
		require.Equal(t, claim.OutcomeRefused, closed.Outcome)
		require.Equal(t, codeExpired, closed.Reason)
		require.Nil(t, closed.Expiry)
		require.Equal(t, "evt_xx_1_3/nats", declined.Events[0].ID)
		require.Equal(t, "evt_xx_1_4/nats", closed.Events[0].ID)
		require.Contains(t, string(closed.Events[0].Payload), `"type":"`+string(op)+`.expired"`)
		require.Len(t, p.calls, 1)
		p.panics = false
	}
	a := attemptOf(Charge)
	a.Payload = []byte(`{"amount":1999,"currency":"usd","payment_method":"pm_1"}`)
	require.Nil(t, See(e.Attempt(t.Context(), a)).Expiry, "nothing closes what never expires")
}

// Golden bytes: consumers parse and sign these.
func TestEvents(t *testing.T) {
	const head = `{"id":"evt_xx_1_5","type":"charge.%s","created":1893456000,"livemode":true,"data":{"id":"xx_1","object":"charge","amount":1999,"currency":"usd","status":"%s",` +
		`"created":1893456000,"livemode":true,"payment_method":"pm_1","description":"a","expires_at":"2030-01-01T01:00:00Z","receipt_number":"R-1",`
	for name, c := range map[string]struct {
		result psp.Result
		last   bool
		kind   string
		tail   string
	}{
		"succeeded":      {result: approved, kind: "succeeded", tail: `"provider":{"name":"fake","reference":"px_1"}}}`},
		"soft":           {result: decline(psp.Soft, "insufficient_funds", ""), kind: "declined", tail: `"code":"insufficient_funds"}}`},
		"soft, the last": {result: decline(psp.Soft, "insufficient_funds", ""), last: true, kind: "failed", tail: `"code":"insufficient_funds"}}`},
		"hard":           {result: decline(psp.Hard, "stolen_card", ""), kind: "failed", tail: `"code":"stolen_card"}}`},
		"given up":       {result: lost, kind: "failed", tail: `"code":"outcome_unknown"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOf(Charge)
			a.Record.Fence, a.Last = 5, c.last
			e := executorOf(&fake{caps: both, result: c.result}, nil, nil, outbox.KindNATS, outbox.KindWebhook, outbox.KindLog)
			v := See(e.Attempt(t.Context(), a))
			payload := []byte(fmt.Sprintf(head, c.kind, c.kind) + c.tail)
			require.Equal(t, []outbox.Message{
				{ID: "evt_xx_1_5/nats", Kind: outbox.KindNATS, Payload: payload},
				{ID: "evt_xx_1_5/webhook", Kind: outbox.KindWebhook, Payload: payload},
				{ID: "evt_xx_1_5/log", Kind: outbox.KindLog, Payload: payload},
			}, v.Events, "%s", v.Events[0].Payload)
			require.Equal(t, v.Events, See(e.Attempt(t.Context(), a)).Events)
			require.Empty(t, See(executorOf(&fake{caps: both, result: c.result}, nil, nil).Attempt(t.Context(), a)).Events)
		})
	}
	// The answer to a refund that the books refuse has only what was requested.
	v := See(executorOf(&fake{caps: both}, someBooks(), nil, outbox.KindLog).Attempt(t.Context(), refundOf(`{"charge":"`+foreign+`"}`)))
	require.Equal(t, `{"id":"evt_re_1_0","type":"refund.declined","created":1893456000,"livemode":true,"data":{"id":"re_1","object":"refund","status":"declined",`+
		`"created":1893456000,"livemode":true,"charge":"`+foreign+`","receipt_number":"R-1","code":"no_such_charge"}}`, string(v.Events[0].Payload))
}

// The verdict of a given-up, a closed and a booked claim come through the claim's
// own step as they should.
func TestVerdictsSettle(t *testing.T) {
	policy := claim.DefaultPolicy()
	rec := claim.Record{
		Key: claim.Key{Tenant: "acme", Value: "k"}, Home: "europe", Operation: string(Charge), State: claim.InFlight, Fence: 2, Holder: "n",
		Generation: 1, FirstUse: firstUse, HeldSince: firstUse, Minted: claim.Minted{ID: "ch_1", Created: firstUse, Receipt: "R-1"}, ProviderKey: "hw_key",
	}
	attempt := func(rec claim.Record, r psp.Result, closing bool) (*claim.Record, claim.Effects) {
		v := claim.Verdict{Outcome: executorOf(&fake{caps: both, result: r}, nil, nil, outbox.KindLog).Attempt(t.Context(),
			claim.Attempt{Record: rec, Payload: attemptOf(Charge).Payload, Now: firstUse, Closing: closing})}
		settled, err := claim.Settle(&rec, &v, &policy, 0)
		require.NoError(t, err)
		return settled.At(firstUse)
	}
	done, fx := attempt(rec, approved, false)
	require.Equal(t, claim.Completed, done.State)
	require.Equal(t, "europe", fx.Post.Region)
	require.Len(t, fx.Events, 1)

	released, fx := attempt(rec, decline(psp.Soft, "x", ""), false)
	require.Equal(t, claim.FailedRetry, released.State)
	require.NotNil(t, fx.Expiry)
	closed, fx := attempt(*released, lost, true)
	require.Equal(t, claim.FailedTerminal, closed.State)
	require.Equal(t, "evt_ch_1_3/log", fx.Events[0].ID)

	open, fx := attempt(rec, lost, false)
	require.Equal(t, claim.InFlight, open.State)
	require.Empty(t, fx.Events)
	rec.Unknowns = policy.MaxUnknowns
	settled, fx := attempt(rec, lost, false)
	require.Equal(t, claim.FailedTerminal, settled.State)
	require.Len(t, fx.Events, 1)
	held, _ := attempt(rec, psp.Result{Err: &psp.NotSentError{}}, false)
	require.Equal(t, claim.InFlight, held.State)
}

func TestParseRefund(t *testing.T) {
	in, err := parse(t, Refund, `{"charge":"`+paid+`"}`)
	require.NoError(t, err)
	require.Equal(t, Intent{Operation: Refund, Charge: paid}, in)
	in, err = parse(t, Refund, `{"charge":"`+paid+`","amount":5e2,"reason":"r"}`)
	require.NoError(t, err)
	require.Equal(t, Intent{Operation: Refund, Charge: paid, Amount: 500, reason: []byte(`"r"`)}, in)
	in, err = parse(t, Compensation, string(compensationOf().Payload))
	require.NoError(t, err)
	require.Equal(t, Intent{Operation: Compensation, Charge: paid, Amount: 1999, Currency: "usd", Source: "px_ghost", reason: []byte(`"late_success"`)}, in)

	transfer, err := claim.NewObjectID("tr", 2, nil)
	require.NoError(t, err)
	for _, c := range []struct {
		op           Operation
		body, member string
	}{
		{Refund, `{}`, "charge"},
		{Refund, `{"charge":1}`, "charge"},
		{Refund, `{"charge":""}`, "charge"},
		{Refund, `{"charge":"ch_1"}`, "charge"},
		{Refund, `{"charge":"` + transfer + `"}`, "charge"},
		{Refund, `{"charge":"` + strings.ToUpper(paid) + `"}`, "charge"},
		{Refund, `{"charge":"` + paid + `","amount":0}`, "amount"},
		{Refund, `{"charge":"` + paid + `","amount":1.5}`, "amount"},
		{Refund, `{"charge":"` + paid + `","amount":null}`, "amount"},
		{Refund, `{"charge":"` + paid + `","reason":1}`, "reason"},
		{Refund, `{"charge":"` + paid + `","reason":"` + strings.Repeat("é", MaxReason+1) + `"}`, "reason"},
		// A merchant cannot send the members of a compensation.
		{Refund, `{"charge":"` + paid + `","provider_ref":"px_1"}`, "provider_ref"},
		{Refund, `{"charge":"` + paid + `","currency":"usd"}`, "currency"},
		{Refund, `{"charge":"` + paid + `","metadata":{"a":1}}`, "metadata.a"},
		{Compensation, `{"charge":"` + paid + `"}`, "amount"},
		{Compensation, `{"amount":1,"charge":"` + paid + `"}`, "currency"},
		{Compensation, `{"amount":1,"charge":"` + paid + `","currency":"usd"}`, "provider_ref"},
		{Compensation, `{"amount":1,"charge":"` + paid + `","currency":"usd","provider_ref":""}`, "provider_ref"},
		{Compensation, `{"amount":1,"charge":"` + paid + `","currency":"usd","provider_ref":"` + strings.Repeat("r", MaxProviderRef+1) + `"}`, "provider_ref"},
		{Charge, with("charge", `"`+paid+`"`), "charge"},
	} {
		_, err := parse(t, c.op, c.body)
		var bad *InvalidError
		if !errors.As(err, &bad) || bad.Member != c.member {
			t.Errorf("%s %s: got %v", c.op, c.body, err)
		}
	}
}

func TestNames(t *testing.T) {
	require.Equal(t, claim.Operations{"charge": "ch", "transfer": "tr", "refund": "re", "compensation": "re", "capture": "cap", "cancel": "can", "cancel_key": "key"}, Operations())
	require.Equal(t, []Operation{Charge, Transfer, Refund}, Public())
	require.Equal(t, "/v1/refunds", Path(Refund))
	require.Equal(t, "refund", Object(Compensation))
}

func FuzzParseRefund(f *testing.F) {
	f.Add(false, []byte(`{"amount":500,"charge":"`+paid+`","reason":"r"}`))
	f.Add(true, compensationOf().Payload)
	f.Fuzz(func(t *testing.T, compensation bool, body []byte) {
		op := Refund
		if compensation {
			op = Compensation
		}
		in, err := Parse(op, body)
		if err != nil {
			checkInvalid(t, err)
			return
		}
		if in.Charge == "" || in.Amount < 0 || compensation && (in.Amount == 0 || in.Source == "" || in.Currency == "") {
			t.Fatalf("%q was accepted as %+v", body, in)
		}
	})
}

// A movement that has been given back is not what a later generation may settle on.
func TestAGhostIsNoAnswerToARefund(t *testing.T) {
	for name, c := range map[string]struct {
		generation uint32
		dedupe     psp.Dedupe
		unreadable bool
		outcome    string
		reason     string
		notFound   bool
	}{
		"the first generation has no ghost": {generation: 1, dedupe: psp.DedupeKey, outcome: claim.OutcomeDone},
		"a ghost is nothing found":          {generation: 2, dedupe: psp.DedupeKey, outcome: claim.OutcomeUnknown, reason: reasonNotFound, notFound: true},
		"or hides what else there is":       {generation: 2, dedupe: psp.DedupeNone, outcome: claim.OutcomeUnknown, reason: reasonGhost},
		"unreadable books give no amount":   {generation: 2, dedupe: psp.DedupeKey, unreadable: true, outcome: claim.OutcomeUnknown, reason: reasonNotAsked},
	} {
		t.Run(name, func(t *testing.T) {
			b := &books{all: map[string]ledger.Transaction{"europe/" + ledger.GhostID("fake", approved.ProviderRef): {}}}
			if c.unreadable {
				b.err = claim.ErrUnavailable
			}
			p := &fake{caps: psp.Capabilities{Dedupe: c.dedupe, Lookup: true, Timeout: time.Second, SettleWindow: time.Second}, found: psp.FoundYes, shown: approved}
			a := attemptOf(Charge)
			a.Recovery, a.Record.Generation, a.Record.Home = true, c.generation, "europe"
			a.Record.NotFounds = 1 // looked up before, so that the retry looks up and does not call
			v := See(executorOf(p, b, nil).Attempt(t.Context(), a))
			require.Equal(t, cmp.Or(c.outcome, claim.OutcomeUnknown), v.Outcome)
			require.Equal(t, c.reason, v.Reason)
			require.Equal(t, c.notFound, v.NotFound)
		})
	}
}

// A refund that was given up and made all the same could not be booked. So the executor asks while
// the provider has the refund.
func TestARefundIsLookedUpWhileTheProviderAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		caps psp.Capabilities
		age  time.Duration
		keep bool
	}{
		"it has look-ups":             {caps: psp.Capabilities{Lookup: true, Timeout: time.Second}, keep: true},
		"it dedupes":                  {caps: psp.Capabilities{Dedupe: psp.DedupeKey, Timeout: time.Second}, keep: true},
		"it may have forgotten":       {caps: psp.Capabilities{Dedupe: psp.DedupeKey, Timeout: time.Second}, age: dedupeTrust},
		"it can do neither":           {caps: psp.Capabilities{Timeout: time.Second}},
		"it forgot, but has look-ups": {caps: both, age: dedupeTrust, keep: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := refundOf(`{"charge":"` + paid + `"}`)
			a.Recovery, a.Record.FirstUse = true, a.Now.Add(-c.age)
			v := See(executorOf(&fake{caps: c.caps}, someBooks(), nil).Attempt(t.Context(), a))
			require.Equal(t, claim.OutcomeUnknown, v.Outcome)
			require.Equal(t, c.keep, v.KeepAsking, v.Reason)
		})
	}
}

// What a caller may do once asking has ended follows from who could take a late
// movement back.
func TestAdviceAfterGivingUp(t *testing.T) {
	for op, want := range map[Operation][]string{
		Charge:   {`"retry":"new_key"`, "gets the money back"},
		Transfer: {`"retry":"never"`, "whether this transfer was made", "cannot be taken back"},
		Refund:   {`"retry":"never"`, "whether this refund was made", "cannot be taken back"},
	} {
		p := fake{caps: psp.Capabilities{Timeout: time.Second}, result: lost} // a refund is looked up for as long as it can be
		v := See(executorOf(&p, nil, nil, outbox.KindLog).Attempt(t.Context(), attemptOf(op)))
		require.Equal(t, claim.OutcomeUnknown, v.Outcome, op)
		require.Equal(t, 503, v.Response.Status)
		for _, part := range want {
			require.Contains(t, string(v.Response.Body), part, op)
		}
		require.Contains(t, string(v.Response.Body), `"error":"outcome_unknown"`)
	}
}

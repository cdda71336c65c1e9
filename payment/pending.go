package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/psp"
)

// The worker asks about a pending payment at intervals of an eighth of its age, within
// these bounds: a payer who was just redirected to a bank is back within minutes, and a
// payment that has taken a bank a day takes another. Webhooks are faster than either.
const (
	askActionMin     = 5 * time.Second
	askActionMax     = 15 * time.Minute
	askProcessingMin = time.Minute
	askProcessingMax = time.Hour
	askPart          = 8
)

const (
	// defaultActionFor is the default of Options.ActionFor: Stripe, too, gives a
	// Checkout page a day ("Expire a Checkout Session").
	defaultActionFor = 24 * time.Hour
	// defaultProcessingFor is the default of Options.ProcessingFor. Bank debits are the
	// slowest of Stripe's methods: up to 14 business days for Bacs ("Bank debits").
	defaultProcessingFor = 14 * 24 * time.Hour
)

const pageProcessing = "page: a payment has been processing for longer than its method takes; ask the provider"

// codeCanceled is the decline code of a charge that was canceled at the provider.
const codeCanceled = "canceled"

// pending is the verdict of a payment that waits for the payer or for a bank.
func (t *attempt) pending(ctx context.Context, r psp.Result) claim.Outcome {
	state := string(r.Wait.State)
	t.pageProcessing(ctx, r.Wait.State, r.ProviderRef)
	v := &claim.Pending{
		Response: Interim(t.Record.Minted, &t.intent, t.name, r.ProviderRef, r.Wait),
		State:    state, ProviderRef: r.ProviderRef, AskIn: t.pace(r.Wait.State),
	}
	if len(t.o.Sinks) > 0 {
		// Without the secret: an event reaches more places than the payer's page.
		v.Events = t.events(state, rendered(t.Record.Minted, &t.intent, t.name, r.ProviderRef, state).Body)
	}
	return v
}

// pageProcessing pages an operator about a payment that takes longer than its method
// does.
func (t *attempt) pageProcessing(ctx context.Context, state psp.State, ref string) {
	if waited := t.age(); state == psp.Processing && waited >= orDefault(t.o.ProcessingFor, defaultProcessingFor) {
		t.log.ErrorContext(ctx, pageProcessing, "object", t.Record.Minted.ID, "tenant", t.Record.Key.Tenant,
			"home", t.Record.Home, "provider", t.name, "provider_ref", ref, "waited", waited)
	}
}

// resume finds out the state of a payment that was pending.
func (t *attempt) resume(ctx context.Context) claim.Outcome {
	if t.caps.Blind {
		return t.await(ctx)
	}
	return t.show(ctx, t.Record.ProviderRef)
}

// show is the verdict of what the provider shows under its own id.
func (t *attempt) show(ctx context.Context, ref string) claim.Outcome {
	showCtx, cancel := context.WithTimeout(ctx, t.caps.Timeout)
	defer cancel()
	found, m, err := t.provider.Show(showCtx, kind(t.op), t.Record.Minted.ID, ref)
	if found != psp.FoundYes || m.Reference != t.Record.Minted.ID {
		t.log.WarnContext(ctx, "provider does not report the outcome of a pending payment", "object", t.Record.Minted.ID,
			"provider", t.name, "provider_ref", ref, "error", err)
		return t.stillPending(ctx)
	}
	t.cleared = true // the answer is about this very payment
	r := psp.Result{Outcome: m.Outcome, ProviderRef: m.ProviderRef, Decline: m.Decline, Wait: m.Wait}
	switch {
	case m.Outcome == psp.Approved && !t.asAsked(&m):
		t.log.ErrorContext(ctx, "provider reports another amount than was requested", "object", t.Record.Minted.ID, "provider", t.name,
			"provider_ref", m.ProviderRef, "amount", m.Amount, "currency", m.Currency)
		return t.stillPending(ctx)
	case m.Outcome == psp.Unknown, m.Outcome == psp.Declined && m.Decline == nil:
		return t.stillPending(ctx)
	case m.Outcome == psp.Declined && m.Decline.Code == codeCanceled && t.overdue():
		return t.unanswered() // by an attempt of ours that got no further
	case m.Outcome == psp.Declined && m.Decline.Code == codeCanceled && t.Record.Interim != nil:
		return t.canceled(ref)
	case m.Outcome == psp.Pending && t.endsNow(m.Wait.State), m.Outcome == psp.Authorized && t.endsNow(RequiresCapture):
		return t.callOff(ctx, r)
	}
	if m.Outcome == psp.Approved && t.intent.Holds() {
		t.intent.captured = m.Amount
	}
	return t.verdict(ctx, r)
}

// asAsked reports whether the paid amount is as requested: for a charge that held its
// money, no more than that.
func (t *attempt) asAsked(m *psp.Movement) bool {
	part := t.intent.Holds() && m.Amount > 0 && m.Amount < t.intent.Amount
	return m.Currency == t.intent.Currency && (m.Amount == t.intent.Amount || part)
}

// await is the verdict of a pending payment at a provider without look-ups: a notice reports its
// outcome. The wait never counts as unknown, however long it takes. A charge past its time is not
// waited for; if it is paid all the same, it is a ghost.
func (t *attempt) await(ctx context.Context) claim.Outcome {
	if i := t.Record.Interim; i.State == string(RequiresCapture) || i.By != "" {
		return t.awaitHeld(ctx)
	}
	if t.overdue() {
		return t.unconfirmed(ctx)
	}
	t.pageProcessing(ctx, psp.State(t.Record.Interim.State), t.Record.ProviderRef)
	return t.asItWas(ctx)
}

// stillPending is the verdict of an attempt that learned nothing new.
func (t *attempt) stillPending(ctx context.Context) claim.Outcome {
	v := t.unknown(ctx, reasonNotAsked)
	if t.Record.Interim != nil {
		v.RetryIn = t.pace(psp.State(t.Record.Interim.State))
	}
	return v
}

// callOff cancels a payment that is not payable any more, or whose key was canceled. A charge that was paid
// meanwhile cannot be canceled; the next look-up finds it.
func (t *attempt) callOff(ctx context.Context, was psp.Result) claim.Outcome {
	r := t.sendCancel(ctx)
	if r.Outcome == psp.Approved {
		return t.unanswered()
	}
	t.log.InfoContext(ctx, "a pending payment that is to end could not be canceled", "object", t.Record.Minted.ID,
		"provider", t.name, "provider_ref", was.ProviderRef, "error", r.Err)
	return t.verdict(ctx, was)
}

// unanswered: the payer did not act in time, and cannot any more.
func (t *attempt) unanswered() claim.Outcome {
	if !t.intent.ExpiresAt.IsZero() {
		return t.expired()
	}
	return t.late("The payer did not act in time, and the " + string(t.op) + " was called off. No money has moved.")
}

// age is how long the present generation has been under way.
func (t *attempt) age() time.Duration { return t.Now.Sub(t.since()) }

// since is when the present generation, and with it its provider key, began, or
// earlier.
func (t *attempt) since() time.Time {
	if r := t.Record.Refusal; r != nil && r.At.After(t.Record.FirstUse) {
		return r.At
	}
	return t.Record.FirstUse
}

// deadline is when a waiting charge is canceled; zero for never. Only expires_at
// cancels a payment that a bank has accepted.
func (t *attempt) deadline() time.Time {
	state := psp.RequiresAction
	if t.Record.Interim != nil {
		state = psp.State(t.Record.Interim.State)
	}
	return t.deadlineIn(state)
}

// deadlineIn is the deadline of a charge that waits in state.
func (t *attempt) deadlineIn(state psp.State) time.Time {
	switch {
	case t.op != Charge:
		return time.Time{}
	case !t.intent.ExpiresAt.IsZero():
		return t.intent.ExpiresAt
	case state == psp.RequiresAction:
		return t.since().Add(orDefault(t.o.ActionFor, defaultActionFor))
	default:
		return time.Time{}
	}
}

// endsNow reports whether a charge that waits in state is to be called off.
func (t *attempt) endsNow(state psp.State) bool {
	return t.Canceled && t.op == Charge || t.past(t.deadlineIn(state))
}

func (t *attempt) overdue() bool { return t.past(t.deadline()) }

func (t *attempt) past(at time.Time) bool { return !at.IsZero() && !t.Now.Before(at) }

// pace is when to ask next about a payment in state: no later than its deadline.
func (t *attempt) pace(state psp.State) time.Duration {
	least, most := askActionMin, askActionMax
	if state == psp.Processing || state == RequiresCapture {
		least, most = askProcessingMin, askProcessingMax
	}
	next := min(max(t.age()/askPart, least), most)
	if at := t.deadline(); !at.IsZero() && t.Now.Before(at) {
		next = min(next, at.Sub(t.Now))
	}
	return next
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Interim returns the answer to a payment that waits: 202, the object, and what the
// merchant's page needs for the payer to continue. Its bytes follow from the arguments.
func Interim(m claim.Minted, in *Intent, provider, reference string, w *psp.Wait) claim.Response {
	b := make([]byte, 0, renderRoom+in.sent()+len(w.ClientSecret)+len(w.NextAction))
	b = appendObject(b, m, in, string(w.State))
	if w.State == RequiresCapture {
		b = append(b, `,"amount_capturable":`...)
		b = strconv.AppendInt(b, in.Amount, 10)
	}
	if w.ClientSecret != "" {
		b = append(b, `,"client_secret":`...)
		b = appendString(b, w.ClientSecret)
	}
	var next bytes.Buffer
	if len(w.NextAction) > 0 && json.Compact(&next, w.NextAction) == nil {
		b = append(b, `,"next_action":`...)
		b = append(b, next.Bytes()...)
	}
	b = appendProvider(b, provider, reference)
	return response(http.StatusAccepted, m, in, append(b, '}'))
}

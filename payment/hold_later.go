package payment

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/psp"
)

// Captures and cancellations at a provider that says later what comes of them, and that
// cannot be asked (Adyen). Of several under way at once more than one could succeed. So an
// order takes its charge before it calls: the charge's row says whose it is, and another
// order is refused until the provider's word frees it. The charge follows that word
// ([claim.Held]) and never the order, whoever gave it.
//
// # Crash points
//
//	take the charge | call | wait | the word settles the charge | the order reads it
//
//	before the charge is    nothing has happened
//	taken
//	after that              the charge is processing, by the order: its next attempt calls
//	during the call, after  the order repeats it under its key, for as long as that is known;
//	the provider has it     after that it waits for the word
//	before the word         both wait; their answers stand
//	a word of success:      the notice is told again, finds the charge settled, and has the
//	after the charge's      order read it
//	a word of failure:      the notice is told again and frees the charge, which until then is
//	after the order's       nobody's to order

// codeOrdered is the refusal of an order while another one is under way.
const codeOrdered = "order_in_progress"

// reasonTaken is why an order that has sent nothing tries again: somebody else has the
// charge's claim for now.
const reasonTaken = "charge_busy"

// later reports whether the provider tells what comes of orders, and cannot be asked.
func (c *callee) later() bool { return c.caps.Asynchronous && c.caps.Blind }

// canHold reports whether a charge's money can be held: what becomes of it must be told at
// once or later, and shown or told.
func (c *callee) canHold() bool { return c.caps.Captures && c.caps.Asynchronous == c.caps.Blind }

// heldWord is the verdict of a charge of which a word was said.
func (t *attempt) heldWord(ctx context.Context) claim.Verdict {
	h, rec := t.Held, &t.Record
	if h.Word != claim.HeldOrdered && (h.By != t.name || rec.ProviderRef != "" && rec.ProviderRef != h.Ref) {
		return t.asItWas(ctx) // of another movement
	}
	state, by := "", ""
	if rec.Interim != nil {
		state, by = rec.Interim.State, rec.Interim.By
	}
	switch h.Word {
	case claim.HeldOrdered:
		if state == string(RequiresCapture) {
			return t.orderedBy(h.Order)
		}
	case claim.HeldStill:
		if state != string(RequiresCapture) && (by == "" || by == cmp.Or(h.Order, rec.Minted.ID)) {
			t.cleared = true
			return t.verdict(ctx, psp.Result{Outcome: psp.Authorized, ProviderRef: h.Ref})
		}
	case claim.HeldCaptured:
		if t.intent.captured = h.Amount; h.Amount > 0 && h.Amount <= t.intent.Amount {
			t.cleared = true
			return t.paid(ctx, h.Ref)
		}
		t.log.ErrorContext(ctx, "provider reports another amount than was requested", "object", rec.Minted.ID, "provider", t.name, "provider_ref", h.Ref, "amount", h.Amount)
	case claim.HeldReleased:
		if by == rec.Minted.ID {
			return t.unanswered() // we have called it off
		}
		return t.canceled(h.Ref)
	}
	return t.asItWas(ctx)
}

// asItWas is the verdict of an attempt that changes nothing.
func (t *attempt) asItWas(ctx context.Context) claim.Verdict {
	rec := &t.Record
	if rec.Interim == nil {
		return t.unknown(ctx, reasonNoAnswer)
	}
	return claim.Verdict{
		Outcome: claim.OutcomePending, State: rec.Interim.State, By: rec.Interim.By, Reason: rec.Interim.State, ProviderRef: rec.ProviderRef,
		Response: rec.Interim.Response, RetryIn: t.pace(psp.State(rec.Interim.State)),
	}
}

// orderedBy is the verdict of a charge that order is to capture or to cancel; the charge
// itself, where it is called off.
func (t *attempt) orderedBy(order string) claim.Verdict {
	rec, state := &t.Record, psp.Processing
	v := claim.Verdict{
		Outcome: claim.OutcomePending, State: string(state), By: order, Reason: string(state), ProviderRef: rec.ProviderRef,
		Response: Interim(rec.Minted, &t.intent, t.name, rec.ProviderRef, &psp.Wait{State: state}), RetryIn: t.pace(state),
	}
	if len(t.o.Sinks) > 0 {
		v.Events = t.events(string(state), rendered(rec.Minted, &t.intent, t.name, rec.ProviderRef, string(state)).Body)
	}
	return v
}

// awaitHeld is await for a charge that holds its money. One that is past its time is called
// off, and is closed by the provider's word alone: a capture that is under way may win.
func (t *attempt) awaitHeld(ctx context.Context) claim.Verdict {
	rec := &t.Record
	ours := rec.Interim.State == string(RequiresCapture) || rec.Interim.By == rec.Minted.ID
	if !ours || !t.past(t.deadlineIn(RequiresCapture)) {
		return t.asItWas(ctx) // an order that takes too long pages by itself
	}
	r := t.sendCancel(ctx)
	if r.Outcome == psp.Approved {
		return t.unanswered()
	}
	if r.Outcome == psp.Pending {
		return t.orderedBy(rec.Minted.ID)
	}
	t.log.InfoContext(ctx, "a held charge has expired and could not be canceled", "object", rec.Minted.ID, "provider", t.name,
		"provider_ref", rec.ProviderRef, "error", r.Err)
	return t.asItWas(ctx)
}

// orderLater is an order's attempt at such a provider.
func (t *attempt) orderLater(ctx context.Context) claim.Verdict {
	if t.Record.Interim != nil {
		t.pageProcessing(ctx, psp.Processing, t.of.rec.ProviderRef)
		return t.asItWas(ctx) // the provider has it
	}
	if v, taken := t.take(ctx); !taken {
		return v
	}
	t.pageProcessing(ctx, psp.Processing, t.of.rec.ProviderRef)
	if t.Recovery && !t.dedupes() {
		return t.unknown(ctx, reasonCannotAsk)
	}
	r := t.call(ctx)
	switch {
	case r.Outcome == psp.Pending:
		return claim.Verdict{
			Outcome: claim.OutcomePending, State: string(psp.Processing), Reason: string(psp.Processing), ProviderRef: t.of.rec.ProviderRef,
			Response: t.of.rec.Interim.Response, RetryIn: t.pace(psp.Processing),
		}
	case r.Outcome == psp.Declined && r.Decline != nil && !t.Recovery:
		// The provider does not have it: the charge is free again, if need be by the next one
		// that looks.
		t.o.Charges.LearnHeld(ctx, t.of.call, claim.Held{By: t.name, Ref: t.of.rec.ProviderRef, Order: t.Record.Minted.ID, Word: claim.HeldStill})
		if err := t.readCharge(ctx); err != nil || t.of.rec.Interim != nil && t.of.rec.Interim.By == t.Record.Minted.ID {
			v := t.unknown(ctx, reasonUnsettled)
			v.RetryIn = settleLater
			return v
		}
		return t.declined(ctx, r)
	case r.Outcome == psp.Declined:
		// Said of the repeat, and not of the attempt that may have gone through.
		return t.unknown(ctx, reasonRepeat)
	}
	t.log.WarnContext(ctx, "provider outcome is unknown", "object", t.Record.Minted.ID, "charge", t.intent.Charge, "provider", t.name, "error", r.Err)
	if v, held := t.notSent(ctx, r); held {
		return v
	}
	return t.unknown(ctx, reasonNoAnswer)
}

// take has the charge's row say that it is this order's.
func (t *attempt) take(ctx context.Context) (v claim.Verdict, taken bool) {
	mine := t.Record.Minted.ID
	for deadline := time.Now().Add(settleFor); ; {
		if i := t.of.rec.Interim; i != nil && i.By == mine {
			return v, true
		}
		asked := t.o.Charges.LearnHeld(ctx, t.of.call, claim.Held{Order: mine, Word: claim.HeldOrdered})
		if err := t.readCharge(ctx); err != nil {
			t.log.WarnContext(ctx, "a charge to capture or cancel cannot be read", "object", t.Record.Minted.ID, "charge", t.intent.Charge, "error", err)
			return t.unsent(ctx, reasonNoFacts, 0), false
		}
		if v, over := t.over(ctx); over {
			return v, false
		}
		if v, refused := t.notOpen(ctx); refused {
			return v, false
		}
		_, busy := asked.Delay()
		if i := t.of.rec.Interim; (i == nil || i.By != mine) && (!busy || time.Now().After(deadline) || ctx.Err() != nil) {
			return t.unsent(ctx, reasonTaken, settleLater), false
		}
		if busy {
			select { // somebody else has it for a moment
			case <-ctx.Done():
			case <-time.After(settleEvery):
			}
		}
	}
}

// orderFailed is the verdict of an order that the provider took and that came to nothing. It
// is final: should it have been the wrong thing to ask for, another key asks for the right one.
func (t *attempt) orderFailed(ctx context.Context) claim.Verdict {
	message := "The provider could not capture this charge. Its money is held as before; another capture needs a new key."
	if t.op == Cancel {
		message = "The provider could not cancel this charge. Its money is held as before, or was captured; another cancellation needs a new key."
	}
	return t.declined(ctx, psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Hard, Code: t.Refused, Message: message}})
}

// tellsLater is for how long an order whose charge is over waits for the word that says so.
const tellsLater = time.Hour

// remembered is what a cancellation has of its charge, whose request is gone and which cannot
// be asked for: its amount and currency, as the order was answered for now, or as the
// provider's word has them. ok is false where it has neither.
func (t *attempt) remembered() (in Intent, ok bool) {
	in.Operation = Charge
	var was struct {
		Amount   int64  `json:"amount"`
		Currency string `json:"currency"`
	}
	if i := t.Record.Interim; i != nil && json.Unmarshal(i.Response.Body, &was) == nil {
		in.Amount, in.Currency = was.Amount, was.Currency
	} else if t.Held != nil && t.Held.By == t.name {
		in.Amount, in.Currency = t.Held.Amount, t.Held.Currency
	}
	return in, in.Amount > 0 && in.Currency != ""
}

// forgotten is the verdict of a cancellation that does not know what was canceled: the word
// that it waits for is on its way, or was about somebody else's doing.
func (t *attempt) forgotten(ctx context.Context) claim.Verdict {
	if t.age() >= tellsLater {
		return t.notHeld()
	}
	v := t.unknown(ctx, reasonUnsettled)
	v.RetryIn = settleLater
	return v
}

// sendCancel asks the provider to call the charge off. Nothing moves by it, so each attempt
// may have a key of its own: a kept reply would tell what was, and not what is.
func (t *attempt) sendCancel(ctx context.Context) psp.Result {
	ctx, cancel := context.WithTimeout(ctx, t.caps.Timeout)
	defer cancel()
	id := t.Record.Minted.ID
	return t.provider.Cancel(ctx, psp.Call{
		Kind: psp.KindCancel, Key: t.Record.ProviderKey + ":cancel:" + strconv.FormatUint(uint64(t.Record.Attempts), 10),
		Reference: id, Of: id, Amount: t.intent.Amount, Currency: t.intent.Currency, Source: t.Record.ProviderRef, Home: t.Record.Home,
	})
}

// gone is the answer to a cancellation.
func (t *attempt) gone(in *Intent, ref string) claim.Verdict {
	r := rendered(t.of.rec.Minted, in, t.name, ref, statusCanceled)
	r.Status = http.StatusOK
	return claim.Verdict{Outcome: claim.OutcomeDone, ProviderRef: ref, Response: r}
}

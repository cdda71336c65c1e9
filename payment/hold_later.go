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

// Captures and cancellations at a provider that reports their result later and has no look-ups
// (Adyen). Of several concurrent orders more than one could succeed. So an order takes its charge
// before it calls: the charge's row names the order, and the charge refuses another one until the
// provider's notice frees it. The charge follows that notice ([claim.Held]) and never the order.
//
// # Crash points
//
//	take the charge | call | wait | the notice settles the charge | the order reads it
//
//	before the charge is    nothing has happened
//	taken
//	after that              the charge is processing, by the order: its next attempt calls
//	during the call, after  the order repeats it under its key, for as long as the provider
//	the provider has it     keeps that; after that it waits for the notice
//	before the notice       both wait; their answers stand
//	a notice of success:    the notice is processed again, finds the charge settled, and has
//	after the charge's      the order read it
//	a notice of failure:    the notice is processed again and frees the charge, which until
//	after the order's       then refuses every order
//
// A charge calls off a hold past its time before its row has that. Only the notice has the
// result of a call with a lost answer, or of two calls at once. If no order has the charge by
// then, the charge has expired.

// codeOrdered is the refusal of an order while another one is under way.
const codeOrdered = "order_in_progress"

// reasonTaken is why an order that has sent nothing is retried: another attempt holds
// the charge's claim for now.
const reasonTaken = "charge_busy"

// later reports whether the provider reports the result of orders later, and has no look-ups.
func (c *callee) later() bool { return c.caps.Asynchronous && c.caps.Blind }

// canHold reports whether a charge's money can be held: the provider must report the
// result of an order, in its answer, in a look-up or in a notice.
func (c *callee) canHold() bool { return c.caps.Captures && c.caps.Asynchronous == c.caps.Blind }

// heldWord is the verdict of a charge after a notice about it.
func (t *attempt) heldWord(ctx context.Context) claim.Outcome {
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
		switch {
		case state == string(RequiresCapture) && t.endsNow(RequiresCapture):
			return t.awaitHeld(ctx) // it is too late for an order
		case state == string(RequiresCapture):
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
		if rec.ProviderRef == "" && rec.Generation > 1 {
			break // perhaps of an earlier generation: its own hold names itself first
		}
		if by == rec.Minted.ID || by == "" && t.endsNow(RequiresCapture) {
			return t.unanswered() // we have canceled it
		}
		return t.canceled(h.Ref)
	}
	return t.asItWas(ctx)
}

// asItWas is the verdict of an attempt that changes nothing.
func (t *attempt) asItWas(ctx context.Context) claim.Outcome {
	rec := &t.Record
	if rec.Interim == nil {
		return t.unknown(ctx, reasonNoAnswer)
	}
	return &claim.Pending{
		Response: rec.Interim.Response, State: rec.Interim.State, By: rec.Interim.By, ProviderRef: rec.ProviderRef,
		AskIn: t.pace(psp.State(rec.Interim.State)),
	}
}

// orderedBy is the verdict of a charge that order is about to capture or cancel; for an
// expired hold order is the charge itself.
func (t *attempt) orderedBy(order string) claim.Outcome {
	rec, state := &t.Record, psp.Processing
	v := &claim.Pending{
		Response: Interim(rec.Minted, &t.intent, t.name, rec.ProviderRef, &psp.Wait{State: state}),
		State:    string(state), By: order, ProviderRef: rec.ProviderRef, AskIn: t.pace(state),
	}
	if len(t.o.Sinks) > 0 {
		v.Events = t.events(string(state), rendered(rec.Minted, &t.intent, t.name, rec.ProviderRef, string(state)).Body)
	}
	return v
}

// awaitHeld is await for a charge that holds its money. The charge cancels a hold past
// its time, and only the provider's notice closes it: a capture that is under way may
// win.
func (t *attempt) awaitHeld(ctx context.Context) claim.Outcome {
	rec := &t.Record
	own := rec.Interim.State == string(RequiresCapture) || rec.Interim.By == rec.Minted.ID
	if !own || !t.endsNow(RequiresCapture) {
		return t.asItWas(ctx) // an order that takes too long pages by itself
	}
	r := t.sendCancel(ctx)
	if r.Outcome == psp.Approved {
		return t.unanswered()
	}
	if r.Outcome == psp.Pending {
		return t.orderedBy(rec.Minted.ID)
	}
	t.log.InfoContext(ctx, "a held charge that is to end could not be canceled", "object", rec.Minted.ID, "provider", t.name,
		"provider_ref", rec.ProviderRef, "error", r.Err)
	return t.asItWas(ctx)
}

// orderLater is an order's attempt at such a provider.
func (t *attempt) orderLater(ctx context.Context) claim.Outcome {
	if t.Record.Interim != nil {
		t.pageProcessing(ctx, psp.Processing, t.of.rec.ProviderRef)
		return t.asItWas(ctx) // the provider has the order
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
		return &claim.Pending{
			Response: t.of.rec.Interim.Response, State: string(psp.Processing), ProviderRef: t.of.rec.ProviderRef, AskIn: t.pace(psp.Processing),
		}
	case r.Outcome == psp.Declined && r.Decline != nil && !t.Recovery:
		// The provider does not have it: the charge is free again; the next attempt
		// that looks frees it if need be.
		t.o.Charges.LearnHeld(ctx, t.of.call, claim.Held{By: t.name, Ref: t.of.rec.ProviderRef, Order: t.Record.Minted.ID, Word: claim.HeldStill})
		if err := t.readCharge(ctx); err != nil || t.of.rec.Interim != nil && t.of.rec.Interim.By == t.Record.Minted.ID {
			v := t.unknown(ctx, reasonUnsettled)
			v.RetryIn = settleLater
			return v
		}
		return t.declined(ctx, r)
	case r.Outcome == psp.Declined:
		// The refusal is about the repeat, not about the attempt that may have
		// succeeded.
		return t.unknown(ctx, reasonRepeat)
	}
	t.log.WarnContext(ctx, "provider outcome is unknown", "object", t.Record.Minted.ID, "charge", t.intent.Charge, "provider", t.name, "error", r.Err)
	if v, held := t.notSent(ctx, r); held {
		return v
	}
	return t.unknown(ctx, reasonNoAnswer)
}

// take records this order in the charge's row.
func (t *attempt) take(ctx context.Context) (v claim.Outcome, taken bool) {
	id := t.Record.Minted.ID
	for deadline := time.Now().Add(settleFor); ; {
		if i := t.of.rec.Interim; i != nil && i.By == id {
			return v, true
		}
		learned := t.o.Charges.LearnHeld(ctx, t.of.call, claim.Held{Order: id, Word: claim.HeldOrdered})
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
		_, busy := learned.Delay()
		if i := t.of.rec.Interim; (i == nil || i.By != id) && (!busy || time.Now().After(deadline) || ctx.Err() != nil) {
			return t.unsent(ctx, reasonTaken, settleLater), false
		}
		if busy {
			select { // another attempt holds it for a moment
			case <-ctx.Done():
			case <-time.After(settleEvery):
			}
		}
	}
}

// orderFailed is the verdict of an order that the provider accepted and that had no
// effect. It is final: if it was the wrong order, the merchant sends the right one
// under another key.
func (t *attempt) orderFailed(ctx context.Context) claim.Outcome {
	message := "The provider could not capture this charge. Its money is held as before; another capture needs a new key."
	if t.op == Cancel {
		message = "The provider could not cancel this charge. Its money is held as before, or was captured; another cancellation needs a new key."
	}
	return t.declined(ctx, psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Hard, Code: t.Refused, Message: message}})
}

// tellsLater is how long an order waits for its own notice after its charge is over.
const tellsLater = time.Hour

// remembered returns the amount of a canceled charge after its request was deleted, as it cannot be
// looked up: the amount and currency of the order's interim answer, or of the provider's notice. ok
// is false if neither has them.
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

// forgotten is the verdict of a cancellation without the amount of its charge: its notice is still
// on the way, or was about another party's order.
func (t *attempt) forgotten(ctx context.Context) claim.Outcome {
	if t.age() >= tellsLater {
		return t.notHeld()
	}
	v := t.unknown(ctx, reasonUnsettled)
	v.RetryIn = settleLater
	return v
}

// sendCancel asks the provider to cancel the charge. No money moves by it, so each
// attempt may use a new key: a cached reply would return the former state.
func (t *attempt) sendCancel(ctx context.Context) psp.Result {
	ctx, cancel := context.WithTimeout(ctx, t.caps.Timeout)
	defer cancel()
	id := t.Record.Minted.ID
	return t.provider.Cancel(ctx, psp.Call{
		Tenant: ShownTenant(t.Record.Key.Tenant),
		Kind:   psp.KindCancel, Key: t.Record.ProviderKey + ":cancel:" + strconv.FormatUint(uint64(t.Record.Attempts), 10),
		Reference: id, Of: id, Amount: t.intent.Amount, Currency: t.intent.Currency, Source: t.Record.ProviderRef, Home: t.Record.Home,
	})
}

// gone is the answer to a cancellation.
func (t *attempt) gone(in *Intent, ref string) claim.Outcome {
	in.test = t.intent.test
	r := rendered(t.of.rec.Minted, in, t.name, ref, statusCanceled)
	r.Status = http.StatusOK
	return &claim.Done{Response: r, ProviderRef: ref}
}

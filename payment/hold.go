package payment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// RequiresCapture is the state of a charge while the provider holds its money. It is Stripe's term
// ("The PaymentIntent object", status).
const RequiresCapture psp.State = "requires_capture"

// captureManual is the capture_method of a charge that holds its money first.
const captureManual = "manual"

// Codes of refused captures and cancellations, and of charges that cannot be held.
const (
	codeNotHeld     = "charge_not_capturable"
	codeNotWaiting  = "charge_not_cancelable"
	codeCaptured    = "already_captured"
	codeCannotHold  = "capture_unsupported"
	reasonUnsettled = "charge_not_settled" // the provider has answered, and the charge's claim has not recorded it
)

const (
	// settleFor is how long a capture waits for its charge's claim to record it, polling every
	// settleEvery; then it retries after settleLater.
	settleFor   = 5 * time.Second
	settleEvery = 50 * time.Millisecond
	settleLater = time.Second
)

// Charges are claims of charges, wherever their home is.
type Charges interface {
	// ByObject reads the claim of an object of any tenant with authority.
	ByObject(ctx context.Context, home, id string) (rec claim.Record, found bool, err error)
	// Message reads the provider call of a claim in flight; found is false for others.
	Message(ctx context.Context, home, id string) (m outbox.Message, found bool, err error)
	// Object is claim.Service.Object.
	Object(ctx context.Context, tenant, home, id string) (o claim.Object, found bool, err error)
	// Learn is claim.Service.Learn. Without a result it looks the claim up at the provider.
	Learn(ctx context.Context, call outbox.Message, provider, ref string) outbox.Disposition
	// LearnHeld is claim.Service.LearnHeld.
	LearnHeld(ctx context.Context, call outbox.Message, h claim.Held) outbox.Disposition
}

// charged is the charge that an order is about.
type charged struct {
	home string
	rec  claim.Record
	// call is its provider call and intent its request; zero once it is not in flight.
	call   outbox.Message
	intent Intent
}

// Holds reports whether the money of a charge is held first; a capture then decides how
// much of it moves.
func (in *Intent) Holds() bool { return manual(in.terms[captureMethod]) }

func (in *Intent) setOrder(name, raw []byte) (err error) {
	switch {
	case string(name) == "charge" && in.Charge != "":
		err = invalid("charge", "is named by the path; leave it out")
	case string(name) == "charge":
		in.Charge, err = chargeID(raw)
	case string(name) == "amount" && in.Operation == Capture:
		in.Amount, err = amount(raw)
	case string(name) == amountUnits && in.Operation == Capture:
		err = in.setUnits(raw)
	default:
		err = unknownMember(name)
	}
	return err
}

// OrderOf returns the request of a capture or cancellation of charge: body, canonical,
// is what the merchant sent.
func OrderOf(body []byte, charge string) []byte {
	const open, end = "{", "}"
	b := append([]byte(nil), body[:max(0, len(body)-len(end))]...)
	if len(b) > len(open) {
		b = append(b, ',')
	}
	b = append(b, `"charge":`...)
	return append(appendString(b, charge), end...)
}

// cannotHold refuses, before anything is sent, to hold money at a provider that cannot
// hold it, or that could not report the result of a capture.
func (t *attempt) cannotHold() (v claim.Outcome, refused bool) {
	if !t.intent.Holds() || t.canHold() {
		return v, false
	}
	return t.wrong(codeCannotHold, "capture_method", "The provider "+t.name+" cannot hold a charge for a capture through this API; leave capture_method out."), true
}

// order is an attempt to capture or to cancel a charge. It calls the provider, has the
// charge's own claim find out the result, and is done once that claim is: whoever reads
// that a charge is captured finds it booked.
func (t *attempt) order(ctx context.Context) claim.Outcome {
	if err := t.readCharge(ctx); err != nil {
		t.log.WarnContext(ctx, "the charge to capture or cancel cannot be read; nothing was sent to the provider",
			"object", t.Record.Minted.ID, "charge", t.intent.Charge, "error", err)
		return t.unsent(ctx, reasonNoFacts, 0)
	}
	if t.intent.ofStripe && OtherUnits(t.intent.Currency) {
		return t.wrong(codeUnits, "amount", otherUnitsDetail)
	}
	if v, over := t.over(ctx); over {
		return v
	}
	if t.Refused != "" && t.chargedAt(&t.of.rec) && t.name == t.ReportedBy {
		return t.orderFailed(ctx)
	}
	if v, refused := t.notOpen(ctx); refused {
		return v
	}
	if t.later() {
		return t.orderLater(ctx)
	}
	r := t.call(ctx)
	if r.Outcome != psp.Approved && (r.Outcome != psp.Declined || r.Decline == nil) {
		t.log.WarnContext(ctx, "provider outcome is unknown", "object", t.Record.Minted.ID, "charge", t.intent.Charge, "provider", t.name, "error", r.Err)
		if v, held := t.notSent(ctx, r); held {
			return v
		}
		return t.unknown(ctx, reasonNoAnswer)
	}
	// Either answer may be about another capture than this one. The charge's own claim
	// finds out the state of the charge.
	v, over, unchanged := t.learned(ctx)
	switch {
	case over:
		return v
	case unchanged && r.Outcome == psp.Declined:
		t.cleared = true // the provider reports the charge unchanged
		return t.declined(ctx, r)
	default:
		v := t.unknown(ctx, reasonUnsettled)
		v.RetryIn = settleLater
		return v
	}
}

// readCharge reads the charge's claim and, while that is in flight, its request.
func (t *attempt) readCharge(ctx context.Context) error {
	if t.o.Charges == nil || t.o.Home == nil {
		return errors.New("payment: the executor cannot read charges; set Options.Charges and Options.Home")
	}
	_, code, _ := claim.ReadObjectID(t.intent.Charge) // Parse accepts nothing else
	home, ok := t.o.Home(code)
	if !ok {
		return fmt.Errorf("payment: region code %d is not in this node's topology", code)
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	of := &t.of
	of.home = home
	rec, found, err := t.o.Charges.ByObject(ctx, home, t.intent.Charge)
	if err != nil {
		return err
	}
	if !found || rec.Key.Tenant != t.Record.Key.Tenant || rec.Operation != string(Charge) {
		rec = claim.Record{} // the same answer for an unknown charge and for another tenant's
	}
	of.rec = rec
	if rec.State != claim.InFlight || of.call.ID != "" {
		return nil
	}
	m, found, err := t.o.Charges.Message(ctx, home, t.intent.Charge)
	if err != nil {
		return err
	}
	if !found { // it was settled in between
		return fmt.Errorf("payment: the charge %s has no provider call", t.intent.Charge)
	}
	of.call = m
	of.intent, err = Parse(Charge, m.Payload)
	return err
}

// over returns the verdict if the state of the charge's claim, being final, already
// decides the order.
func (t *attempt) over(ctx context.Context) (v claim.Outcome, over bool) {
	switch rec := &t.of.rec; {
	case rec.State == 0:
		return t.missing(ctx, codeNoCharge, "This account has no charge of this id that could be captured or canceled."), true
	case rec.State == claim.Completed && t.op == Cancel:
		return t.wrong(codeCaptured, "charge", "The money of this charge has moved; refund it instead."), true
	case rec.State == claim.Completed:
		return t.captured(ctx), true
	case rec.State == claim.FailedTerminal && t.op == Cancel && (rec.Reason == codeCanceled || rec.Reason == codeExpired && t.of.call.ID != ""):
		return t.letGo(ctx), true
	case rec.State == claim.InFlight:
		return v, false
	case rec.State == claim.FailedRetry:
		// A later generation may have held the money, in the writes that a restore
		// lost.
		code, detail := t.notHeldWhy()
		return t.missing(ctx, code, detail), true
	default:
		return t.notHeld(), true
	}
}

func (t *attempt) notHeld() claim.Outcome {
	code, detail := t.notHeldWhy()
	return t.wrong(code, "charge", detail)
}

func (t *attempt) notHeldWhy() (code, detail string) {
	if t.op == Cancel {
		return codeNotWaiting, "This charge does not wait for anything, so there is nothing to cancel: it was refused, or has expired."
	}
	return codeNotHeld, "This charge holds no money any more: it was refused, was canceled, or has expired. Make another one."
}

// notOpen refuses an order for which the charge is not ready, and finds the provider. A
// recovery waits instead: the charge may have been ready, and only the restored store
// shows it as it was before.
func (t *attempt) notOpen(ctx context.Context) (v claim.Outcome, refused bool) {
	rec, in := &t.of.rec, &t.of.intent
	state, by := psp.State(""), ""
	if rec.Interim != nil {
		state, by = psp.State(rec.Interim.State), rec.Interim.By
	}
	begun := by == t.Record.Minted.ID || t.Record.Interim != nil
	if begun {
		state, by = RequiresCapture, "" // as this order found it
	}
	switch {
	case state == "":
		return t.missing(ctx, codeNotHeld, "It is unknown so far whether this charge is authorized. Ask for it, and try again when its status says so."), true
	case by != "":
		return t.missing(ctx, codeOrdered, "Another capture or cancellation of this charge is under way, and the provider has not reported its result yet. Ask for the charge, and try again when its status says so."), true
	case t.op == Capture && state != RequiresCapture:
		return t.missing(ctx, codeNotHeld, "This charge holds no money: its status is "+string(state)+", and only one that is requires_capture can be captured."), true
	case t.op == Capture && !begun && (rec.Canceled() || in.Expired(t.Now.Add(rec.Ahead()))):
		return t.missing(ctx, codeNotHeld, "This charge is being called off: its key was canceled, or its expires_at has passed. Make another one."), true
	case t.intent.Amount > in.Amount:
		return t.wrong(codeTooMuch, "amount", fmt.Sprintf("The charge holds %d, and a capture cannot be more. Lower the amount, or leave it out to capture all.", in.Amount)), true
	case !t.chargedAt(rec):
		return t.unsent(ctx, reasonElsewhere, elsewhereWait), true
	case t.caps.Asynchronous && state != RequiresCapture:
		return t.missing(ctx, codeNotWaiting, "The provider "+t.name+" does not say at once what becomes of a cancellation; cancel the charge there."), true
	}
	if t.intent.Amount == 0 {
		t.intent.Amount = in.Amount
	}
	t.intent.Currency, t.intent.Source = in.Currency, rec.ProviderRef
	return v, false
}

// learned has the charge's claim look up the provider's state, and is over once that claim is
// final. unchanged reports that the provider, asked since, still shows the charge unchanged.
func (t *attempt) learned(ctx context.Context) (v claim.Outcome, over, unchanged bool) {
	before := t.of.rec.Fence
	for deadline := time.Now().Add(settleFor); ; {
		learned := t.o.Charges.Learn(ctx, t.of.call, "", "")
		if err := t.readCharge(ctx); err != nil {
			t.log.WarnContext(ctx, "a charge that was captured or canceled cannot be read", "object", t.Record.Minted.ID, "charge", t.intent.Charge, "error", err)
		} else if v, over := t.over(ctx); over {
			return v, true, false
		}
		if rec := &t.of.rec; rec.Waits() && rec.Fence > before && rec.Reason == rec.Interim.State {
			return v, false, true
		}
		if _, busy := learned.Delay(); !busy || time.Now().After(deadline) || ctx.Err() != nil {
			return v, false, false
		}
		select { // another attempt is asking
		case <-ctx.Done():
		case <-time.After(settleEvery):
		}
	}
}

// captured is the verdict of a capture after its charge has succeeded: the charge as stored, if it
// was made for the requested amount.
func (t *attempt) captured(ctx context.Context) claim.Outcome {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	charge, found, err := t.o.Charges.Object(ctx, t.Record.Key.Tenant, t.of.home, t.intent.Charge)
	var is struct {
		Amount   int64 `json:"amount"`
		Captured int64 `json:"amount_captured"`
	}
	if err == nil && found {
		err = json.Unmarshal(charge.Response.Body, &is)
	}
	if err != nil || !found || charge.State != claim.Completed {
		t.log.WarnContext(ctx, "a captured charge cannot be read", "object", t.Record.Minted.ID, "charge", t.intent.Charge, "error", err)
		v := t.unknown(ctx, reasonUnsettled)
		v.RetryIn = settleLater
		return v
	}
	want := t.intent.Amount
	if want == 0 {
		want = is.Amount
	}
	switch {
	case is.Captured == 0:
		return t.wrong(codeNotHeld, "charge", "This charge was made at once: its money has moved, and there is nothing to capture.")
	case want != is.Captured:
		return t.wrong(codeCaptured, "charge", fmt.Sprintf("This charge is captured already, %d of it. A charge is captured once.", is.Captured))
	}
	charge.Response.Status = http.StatusOK
	return &claim.Done{Response: charge.Response, ProviderRef: t.of.rec.ProviderRef}
}

// letGo is the verdict of a cancellation after its charge is canceled. The charge's request has its
// amount; after a crash the provider still has it.
func (t *attempt) letGo(ctx context.Context) claim.Outcome {
	of := &t.of
	if !t.chargedAt(&of.rec) {
		return t.unsent(ctx, reasonElsewhere, elsewhereWait)
	}
	in, ref := of.intent, of.rec.ProviderRef
	if of.call.ID == "" && t.caps.Blind {
		was, ok := t.remembered()
		if !ok {
			return t.forgotten(ctx)
		}
		in, ref = was, cmp.Or(ref, t.Record.ProviderRef)
	} else if of.call.ID == "" {
		showCtx, cancel := context.WithTimeout(ctx, t.caps.Timeout)
		defer cancel()
		found, m, err := t.provider.Show(showCtx, psp.KindCharge, t.intent.Charge, ref)
		if found != psp.FoundYes || m.Reference != t.intent.Charge {
			t.log.WarnContext(ctx, "provider does not show a canceled charge", "object", t.Record.Minted.ID, "charge", t.intent.Charge, "provider", t.name, "error", err)
			v := t.unknown(ctx, reasonNotAsked)
			v.RetryIn = settleLater
			return v
		}
		in = Intent{Operation: Charge, Amount: m.Amount, Currency: m.Currency}
	} else if ref == "" {
		ref = t.intent.Source
	}
	return t.gone(&in, ref)
}

// canceled is the verdict of a charge that was canceled before any money moved: by its
// merchant, by an operator, or because the hold lapsed. It is final: a retry of the
// charge must not take the money after all.
func (t *attempt) canceled(ref string) claim.Outcome {
	p := problem.New(problem.CardDeclined, "The "+string(t.op)+" was canceled at the provider before any money moved.")
	p.DeclineCode = codeCanceled
	return t.refused(p, ref)
}

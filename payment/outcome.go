package payment

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// longestPause is the longest pause that a provider may ask for before the same key is
// retried: half of the least time that a key is kept. After a longer one a new key is
// needed.
const longestPause = 12 * time.Hour

// codeExpired is the decline code of an operation past its expires_at.
const codeExpired = "expired"

// Messages of log lines that page an operator. Alerts match them.
const (
	pageLimbo   = "page: LIMBO, the provider rejects the refund of a ghost payment; decide by hand"
	pageUnknown = "page: the outcome of a compensation has been unknown for a day; the payer still waits"
	// PageUndone: a refund and the payer's money otherwise, by a failure or, of a refund in doubt, a
	// dispute or another refund, were both booked; the later of the two logs it.
	PageUndone = "page: a payer has the money of a charge back twice; decide by hand"
)

// A compensation is retried until its outcome is known, compensateMin to compensateMax
// apart: a payer waits for it, and a provider that is down for hours need not be called
// every minute. After [PageAfter] each retry pages an operator.
const (
	compensateMin = time.Second
	compensateMax = time.Hour
)

// PageAfter is how long a payer may wait for a refund before an operator is paged: a
// chargeback can follow.
const PageAfter = 24 * time.Hour

// codeGivenBack is the decline of a generation whose payment was made for an earlier,
// declined generation and has been refunded.
const codeGivenBack = "payment_given_back"

// paid is the verdict of a payment that was made. If an earlier generation was declined
// for it, and its payer paid after all, it is a ghost: it is refunded, and the next
// generation makes a payment of its own.
func (t *attempt) paid(ctx context.Context, ref string) claim.Outcome {
	ghost, err := t.ghost(ctx, ref)
	switch {
	case err != nil:
		t.log.WarnContext(ctx, "the ledger cannot be read: the payment may have been refunded", "object", t.Record.Minted.ID, "error", err)
		return t.unknown(ctx, reasonNotAsked)
	case ghost:
		return t.declined(ctx, psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{
			Class: psp.Soft, Code: codeGivenBack, Message: "The payment was made after it had been declined, and has been given back.",
		}})
	}
	return t.succeeded(ref)
}

// verdict maps a provider's answer to the claim's outcome.
func (t *attempt) verdict(ctx context.Context, r psp.Result) claim.Outcome {
	if t.intent.Holds() {
		switch {
		case r.Outcome == psp.Authorized:
			r.Outcome, r.Wait = psp.Pending, &psp.Wait{State: RequiresCapture}
		case r.Outcome == psp.Approved && t.intent.captured == 0:
			return t.show(ctx, r.ProviderRef) // an answer does not contain the captured amount
		}
	}
	switch {
	case r.Outcome == psp.Pending && t.caps.Blind && t.Witness != nil && t.Witness.Done:
		return t.repeated(ctx, r)
	case r.Outcome == psp.Approved:
		return t.paid(ctx, r.ProviderRef)
	case r.Outcome == psp.Declined && r.Decline != nil:
		return t.elseMoved(ctx, r, t.declined(ctx, r))
	case r.Outcome == psp.Pending && r.Wait != nil && (r.ProviderRef != "" || t.caps.Blind): // by which it is looked up, where it can be
		return t.pending(ctx, r)
	}
	t.log.WarnContext(ctx, "provider outcome is unknown", "object", t.Record.Minted.ID, "provider", t.name, "error", r.Err)
	if v, held := t.notSent(ctx, r); held {
		return t.elseMoved(ctx, r, v)
	}
	return t.unknown(ctx, reasonNoAnswer)
}

func (t *attempt) succeeded(ref string) claim.Outcome {
	t.twice(ref)
	response := Rendered(t.Record.Minted, &t.intent, t.name, ref)
	return &claim.Done{
		Response: response, ProviderRef: ref, Posting: t.posting(ref), Events: t.events(statusSucceeded, response.Body),
	}
}

// posting books the money that moved. See the table of package ledger.
func (t *attempt) posting(ref string) *ledger.Transaction {
	in, id, tenant := &t.intent, t.Record.Minted.ID, t.Record.Key.Tenant
	held := t.back.Held()
	if held == "" {
		held = ledger.Provider(ledger.Where(t.name, ref))
	}
	p := &ledger.Transaction{
		ID: id, Tenant: tenant, Kind: ledger.Charge, Debit: held, Credit: ledger.Merchant(tenant),
		Amount: in.Amount, Currency: in.Currency, Object: id, Provider: t.name, ProviderRef: ref,
	}
	p.Order, p.Metadata = t.named()
	switch t.op {
	case Charge:
		p.Created = t.Record.Minted.Created
		if in.captured > 0 {
			p.Amount = in.captured
		}
	case Capture, Cancel:
		return nil // the movement is booked as the charge
	case CancelKey:
		return nil // it moves nothing
	case Transfer:
		p.Kind, p.Debit, p.Credit = ledger.Transfer, p.Credit, p.Debit
	case Refund:
		p.Kind, p.Debit, p.Credit = ledger.Refund, p.Credit, p.Debit
		p.Reverses = in.Charge
	case Compensation:
		// Named after the movement that it refunds. A movement can be refunded once,
		// and once more after each refund that failed.
		p.ID, p.Reverses = ledger.GhostRefundTryID(t.name, in.Source, in.FailedBefore+1), ledger.GhostID(t.name, in.Source)
		p.Kind, p.Debit, p.Credit = ledger.GhostRefund, ledger.Suspense(tenant), held
	}
	return p
}

// named returns what its merchant finds the order of a movement by, "" for what they did not send: of a
// refund, the order_id of its charge, and its metadata unless the refund has its own.
func (t *attempt) named() (order, metadata string) {
	return cmp.Or(t.back.Order, t.intent.OrderID()), cmp.Or(string(t.intent.metadata), t.back.Metadata)
}

func (t *attempt) declined(ctx context.Context, r psp.Result) claim.Outcome {
	what := "payment"
	switch {
	case t.op.GivesBack():
		what = string(Refund)
	case t.op.Orders():
		what = map[Operation]string{Capture: "capture", Cancel: "cancellation"}[t.op]
	}
	final := false
	var p problem.Problem
	switch r.Decline.Class {
	case psp.Hard:
		final = true
		p = problem.New(problem.CardDeclined, orElse(r.Decline.Message, "The provider declined the "+what+" for good."))
	case psp.Soft:
		p = problem.New(problem.CardDeclined, orElse(r.Decline.Message, "The provider declined the "+what+" for now."))
		p.RetryAfter = max(t.o.DeclinePause, r.Decline.RetryIn)
		switch {
		case r.Decline.RetryIn > longestPause:
			final = true // the key would expire before the retry is allowed
		case t.Last: // the last one allowed is remembered, and the key with it
			p.RetryAfter = 0
		default:
			p.Retry = problem.SameKey
		}
	case psp.Invalid:
		if t.Recovery && !t.cleared {
			// The provider may have refused the repeat before it looked up the key, so
			// the refusal does not prove anything about the attempt that may have moved
			// money: a release would let the next generation charge again.
			return t.unknown(ctx, reasonRepeat)
		}
		p = problem.New(problem.InvalidRequest, "The provider refused the request: "+orElse(r.Decline.Message, "it gave no reason."))
	default:
		// A class that this build does not have may mean anything.
		t.log.ErrorContext(ctx, "provider declined with an unknown decline class", "object", t.Record.Minted.ID, "provider", t.name, "class", r.Decline.Class)
		return t.unknown(ctx, reasonNoAnswer)
	}
	p.DeclineCode, p.Member = r.Decline.Code, r.Decline.Member
	if t.op == Compensation && (r.Decline.Class != psp.Soft || t.Last) {
		final = true
	}
	if t.op == Compensation && final && t.needless == nil { // otherwise no payer waits for it
		t.log.ErrorContext(ctx, pageLimbo, "object", t.Record.Minted.ID, "charge", t.intent.Charge, "tenant", t.Record.Key.Tenant,
			"home", t.Record.Home, "provider", t.name, "provider_ref", t.intent.Source, "code", r.Decline.Code)
	}
	if final {
		return t.refused(p, r.ProviderRef)
	}
	v := t.released(p)
	v.ProviderRef, v.Pause = r.ProviderRef, r.Decline.RetryIn
	return v
}

// expired: not paid in time. That no money has moved is certain of the first attempt and
// of a payment that the provider canceled. A request that was declined before may have
// calls without an answer from before its decline.
func (t *attempt) expired() claim.Outcome {
	before := "any money moved"
	if t.Closing || t.Record.Generation > 1 {
		before = "an attempt succeeded"
	}
	return t.late("The " + string(t.op) + " was not payable any more: its expires_at had passed before " + before + ".")
}

// untraced is expired for a request that the provider does not find although calls had no
// answer: one of them may still arrive, and a transfer that does cannot be reversed.
func (t *attempt) untraced(ctx context.Context) claim.Outcome {
	switch {
	case t.cleared:
		return t.expired()
	case t.op == Transfer:
		return t.late("The provider does not find the transfer, and its expires_at has passed. Should it turn out to have been made, it is not reversed: compare with the provider before you send another.")
	default:
		return t.overtaken(ctx)
	}
}

// unconfirmed: it may or may not be paid in time, and nothing can confirm it. A success that
// surfaces later is a ghost.
func (t *attempt) unconfirmed(ctx context.Context) claim.Outcome {
	if t.Witness != nil {
		return t.restored(ctx)
	}
	return t.overtaken(ctx)
}

// overtaken is the answer to a charge that is past its time with its outcome unknown.
func (t *attempt) overtaken(ctx context.Context) claim.Outcome {
	t.log.WarnContext(ctx, "charge expired with its outcome unknown; a success that surfaces later must be refunded",
		"object", t.Record.Minted.ID, "provider", t.name)
	return t.late("The " + string(t.op) + " could not be confirmed in time. Should it turn out to have been made, the payer gets the money back.")
}

// restored is unconfirmed for a charge that was reattached after a restore: its merchant may have
// been sent a success, so this is not a definite no. If the charge is paid, its witness shows it,
// or the provider does when the same call is repeated. Any other charge's call may or may not have
// been sent, and a call now would be past its time.
func (t *attempt) restored(ctx context.Context) claim.Outcome {
	w := t.Witness
	switch {
	case w.Done && w.ProviderRef != "" && !t.intent.Holds():
		return t.paid(ctx, w.ProviderRef)
	case w.Done && t.Record.Interim == nil && t.dedupes():
		return t.verdict(ctx, t.call(ctx))
	}
	v := t.unknown(ctx, reasonCannotAsk)
	if w.Done {
		v.GiveUp = nil
	}
	return v
}

// repeated is the verdict of a payment that is known to have been made before a restore, if its
// provider has no look-ups and repeats its first answer, which is older. The captured amount of
// held money is then unknown: an answer that it is still held would invite a second capture.
func (t *attempt) repeated(ctx context.Context, r psp.Result) claim.Outcome {
	if ref := cmp.Or(t.Witness.ProviderRef, r.ProviderRef); ref != "" && !t.intent.Holds() {
		return t.paid(ctx, ref)
	}
	v := t.unknown(ctx, reasonCannotAsk)
	v.GiveUp = nil
	return v
}

func (t *attempt) late(detail string) claim.Outcome {
	p := problem.New(problem.CardDeclined, detail)
	p.DeclineCode = codeExpired
	return t.refused(p, "")
}

// refused is a definitive no with the answer p.
func (t *attempt) refused(p problem.Problem, ref string) claim.Outcome {
	v := &claim.Refused{Response: t.refusal(p), Reason: p.DeclineCode, ProviderRef: ref}
	switch p.DeclineCode {
	case codeExpired:
		v.Events = t.failure(statusExpired, codeExpired)
	case codeCanceled:
		v.Events = t.failure(statusCanceled, codeCanceled)
	default:
		v.Events = t.failure(statusFailed, p.DeclineCode)
	}
	return v
}

// released is a no for now with the answer p; the last one allowed is final.
func (t *attempt) released(p problem.Problem) *claim.Released {
	status := statusDeclined
	if t.Last {
		status = statusFailed
	}
	return &claim.Released{Response: t.refusal(p), Reason: p.DeclineCode, Events: t.failure(status, p.DeclineCode), Expiry: t.expiry()}
}

// expiry closes a claim that is released when its request stops being payable.
func (t *attempt) expiry() *outbox.Message {
	if t.intent.ExpiresAt.IsZero() {
		return nil
	}
	return &outbox.Message{Operation: string(t.op), Payload: t.Payload, Due: t.intent.ExpiresAt}
}

// notSent returns the verdict if r proves that nothing was sent.
func (t *attempt) notSent(ctx context.Context, r psp.Result) (v claim.Outcome, held bool) {
	var unsent *psp.NotSentError
	if r.Outcome != psp.Unknown || !errors.As(r.Err, &unsent) {
		return nil, false
	}
	return t.unsent(ctx, reasonNotSent, unsent.RetryIn), true
}

// unsent is the outcome of an attempt that sent nothing. That of earlier attempts stays
// unknown.
func (t *attempt) unsent(ctx context.Context, reason string, retryIn time.Duration) claim.Outcome {
	if !t.Recovery && !t.Last && t.blind() {
		// The claim would count as one that may have charged, which nothing could ever
		// resolve at such a provider. But nothing was sent at all.
		p := problem.New(problem.StoreUnavailable, "The charge could not be read, and nothing was sent to the provider. Send the same request again later.")
		if reason == reasonNotSent {
			p = problem.New(problem.OutcomeUnknown, "The provider could not be reached, and nothing was sent to it. Send the same request again later.")
			p.Title, p.RetryAfter = "The provider cannot be reached", retryIn
		}
		return &claim.Released{Response: t.refusal(p), Reason: reason, Expiry: t.expiry()}
	}
	if t.op == Compensation {
		retryIn = max(retryIn, t.payerWaits(ctx, reason))
	}
	// Where look-ups count, one that was not made does not.
	return &claim.Unsent{Reason: reason, NotFound: !t.Recovery && !t.caps.Lookup, RetryIn: retryIn}
}

// blind reports whether nothing could resolve the outcome of a call: the provider
// neither dedupes nor answers look-ups. While a refund's provider is unknown, it may be
// any.
func (t *attempt) blind() bool {
	if t.op != Refund || t.intent.Source != "" {
		return t.callee.blind()
	}
	for _, c := range t.callees {
		if c.blind() {
			return true
		}
	}
	return false
}

func (c *callee) blind() bool { return c.caps.Dedupe == psp.DedupeNone && !c.caps.Lookup }

// unknown carries the answer that is stored if this attempt is the last; until then the caller gets
// retry: same_key.
func (t *attempt) unknown(ctx context.Context, reason string) *claim.Unknown {
	v := &claim.Unknown{Reason: reason}
	switch {
	case t.op == Compensation:
		v.RetryIn = t.payerWaits(ctx, reason)
	case t.op == Refund && (t.caps.Lookup || t.dedupes()), t.Record.Interim != nil, t.op.Orders():
		// A refund that was given up and made all the same could be neither reversed
		// nor booked, as its request alone names the charge. So asking continues as
		// long as the provider answers look-ups.
	default:
		v.GiveUp = t.givesUp()
	}
	return v
}

// givesUp is the end of a claim whose outcome stays unknown.
func (t *attempt) givesUp() *claim.GivenUp {
	resp, ok := t.gaveUp[t.op]
	if !ok {
		resp = t.givenUp(t.op)
	}
	return &claim.GivenUp{Response: resp, Events: t.failure(statusFailed, claim.ReasonOutcomeUnknown)}
}

// payerWaits is the pause before a compensation is tried again. It pages an operator once
// the payer has waited for long.
func (t *attempt) payerWaits(ctx context.Context, reason string) time.Duration {
	if waited := t.Now.Sub(t.Record.FirstUse); waited >= PageAfter && reason != reasonHeld {
		t.log.ErrorContext(ctx, pageUnknown, "object", t.Record.Minted.ID, "charge", t.intent.Charge, "tenant", t.Record.Key.Tenant,
			"home", t.Record.Home, "provider", t.name, "provider_ref", t.intent.Source, "waited", waited, "reason", reason)
	}
	return compensateBackoff(t.Record.Unknowns)
}

// compensateBackoff is the pause after n unknown outcomes.
func compensateBackoff(n uint32) time.Duration {
	const doublings = 12 // 1 s doubled as often is over an hour
	return min(compensateMin<<min(n, doublings), compensateMax)
}

// givenUp is the answer that is stored when asking ends without an outcome. A charge
// may be retried under a new key, since a late success is refunded. A late transfer or refund
// cannot be reversed: a second one could be a second payment.
func (e *Executor) givenUp(op Operation) claim.Response {
	p := problem.New(problem.OutcomeUnknown, "The provider never reported the result of this charge, and Homeward has stopped asking. "+
		"Should it turn out to have been made, the payer gets the money back. A new attempt needs a new key.")
	p.Title, p.Retry = "The outcome stayed unknown", problem.NewKey
	if op != Charge {
		what := Object(op)
		p.Detail = "The provider never reported the result of this " + what + ", and asking has been given up. It may have been made, and cannot be taken back. " +
			"Have a person find out at the provider whether this " + what + " was made, by its id; only if it certainly was not, make another one with a new key."
		p.Retry = problem.Never
	}
	return e.refusal(p)
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

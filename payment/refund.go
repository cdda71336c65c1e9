package payment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
)

// Books is the part of ledger.Store that returns the transactions of a charge. It reads
// with authority: what it does not find has not been booked.
type Books interface {
	ledger.Reader
	// ReversalsAt lists the reversals of a transaction in the books of region.
	ReversalsAt(ctx context.Context, region, id string) ([]ledger.Transaction, error)
}

// readTime bounds the reading of one transaction: the longest round trip between
// regions is a third of a second.
const readTime = 5 * time.Second

// elsewhereWait is the pause between checks whether the provider is configured again:
// that takes a restart.
const elsewhereWait = time.Minute

// missingFor is how long a recovery waits for a charge that is missing, or not in the
// state that the request needs. A restored store recovers a lost charge when its
// merchant retries, or when an operator books it. After that asking ends as for any
// unknown outcome, and never with a no.
const missingFor = 7 * 24 * time.Hour

// heldWait is the pause between checks whether automatic refunds were released: a payer
// waits, and each check takes the claim over.
const heldWait = 15 * time.Second

// Codes of refunds that are refused before any call.
const (
	codeNoCharge  = "no_such_charge"
	codeTooMuch   = "amount_too_large"
	codeElsewhere = "provider_not_available"
	codeUndone    = "charge_failed"
	codeDisputed  = "charge_disputed"
)

// read completes the refund's intent from its charge's transaction, which never
// changes, so that every attempt sends the same call. refused reports that there is
// nothing to call for, and v gives the reason. Whether the charge has failed since is a
// second read: a refund waits for it, a charge does not.
func (t *attempt) read(ctx context.Context) (v claim.Outcome, refused bool) {
	in := &t.intent
	charge, found, err := t.charge(ctx)
	switch {
	case err != nil:
		t.log.WarnContext(ctx, "the charge of a refund cannot be read; nothing was sent to the provider",
			"object", t.Record.Minted.ID, "charge", in.Charge, "error", err)
		return t.unsent(ctx, reasonNoFacts, 0), true
	case !found || charge.Tenant != t.Record.Key.Tenant || charge.Kind != ledger.Charge || t.tooOld(&charge):
		// The same answer for an unknown charge, for another tenant's and for one with leaving books.
		return t.missing(ctx, codeNoCharge, "This account has no such charge, no money has moved for it, or it is too old to be refunded here. One that is not captured yet is not refunded: cancel it."), true
	}
	t.back = charge
	switch {
	case !t.goTo(charge.Provider):
		return t.absent(ctx, charge.Provider), true
	case in.ofStripe && OtherUnits(charge.Currency):
		return t.wrong(codeUnits, "amount", otherUnitsDetail), true
	case in.Amount > charge.Amount:
		in.Currency = charge.Currency
		return t.wrong(codeTooMuch, "amount", fmt.Sprintf("The charge was of %d; a refund cannot be more. Lower the amount, or leave it out to refund the whole charge.", charge.Amount)), true
	}
	if in.Amount == 0 {
		in.Amount = charge.Amount
	}
	in.Currency, in.Source = charge.Currency, charge.ProviderRef
	return t.refundable(ctx, &charge)
}

// tooOld reports whether the booking of a charge may leave before a refund that begins now ends.
func (t *attempt) tooOld(charge *ledger.Transaction) bool {
	return t.o.RefundFor > 0 && !t.Recovery && t.Now.Sub(charge.At) > t.o.RefundFor
}

// missing is the verdict if the charge is missing, or not in the state that the request
// needs. That is a no to a first attempt alone. An earlier attempt of a recovery may
// have found the charge and called: a store that was restored from a backup has lost
// that charge, or has it in a former state.
func (t *attempt) missing(ctx context.Context, code, detail string) claim.Outcome {
	if !t.Recovery {
		return t.wrong(code, "charge", detail)
	}
	pause := min(max(t.age()/askPart, elsewhereWait), askProcessingMax)
	if t.age() < missingFor {
		return t.unsent(ctx, reasonMissing, pause)
	}
	return &claim.Unknown{Reason: reasonMissing, RetryIn: pause, GiveUp: t.givesUp()}
}

// absent is the verdict if this node does not have the provider of the payment to
// refund. That decides nothing about the refund: another node may have it, or this one
// later. A first attempt releases its key, as nothing was sent under it, and the
// merchant may retry. A later attempt leaves the claim open, as an earlier one may have
// called.
func (t *attempt) absent(ctx context.Context, provider string) claim.Outcome {
	if t.Recovery {
		return t.unsent(ctx, reasonElsewhere, elsewhereWait)
	}
	t.log.WarnContext(ctx, "a refund names a provider that this node does not have; nothing was sent", "object", t.Record.Minted.ID, "charge", t.intent.Charge, "tenant", t.Record.Key.Tenant,
		"home", t.Record.Home, "provider", provider, "providers", t.names)
	p := problem.New(problem.OutcomeUnknown, "This charge was made at the provider "+provider+", which is not available here now, and nothing was sent to it. Send the same request again later.")
	p.Title, p.DeclineCode, p.Member, p.RetryAfter = "The provider is not available", codeElsewhere, "charge", elsewhereWait
	if t.Last { // the answer is remembered, and the key with it
		p.Detail = "This charge was made at the provider " + provider + ", which is not available, and nothing was sent to it. Ask for the refund again later, with a new key."
		p.Retry, p.RetryAfter = problem.NewKey, 0
		return t.refused(p, "")
	}
	return &claim.Released{Response: t.refusal(p), Reason: codeElsewhere, Pause: elsewhereWait}
}

// refundable computes how much of a charge or ghost is left, from what its own books record since: a
// failure, and reversals that we did not order. It refuses a first attempt at more than
// is left. A later attempt only asks, as an earlier one may have called, or not: see onlyAsk. Refunds
// that merchants requested may be in other books; the provider accounts for those.
func (t *attempt) refundable(ctx context.Context, of *ledger.Transaction) (v claim.Outcome, stop bool) {
	reading, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	since, err := t.o.Books.ReversalsAt(reading, of.Region, of.ID)
	refunds, disputes, shown := int64(0), int64(0), int64(0)
	if err == nil {
		refunds, err = sumOf(reading, t.o.Books, since, ledger.ProviderRefund)
	}
	if err == nil {
		disputes, err = sumOf(reading, t.o.Books, since, ledger.DisputeOpened)
	}
	if err == nil {
		shown, err = t.disputed(ctx, of)
	}
	disputes = max(disputes, shown)
	rest := of.Amount - refunds - disputes
	switch {
	case err != nil:
		t.log.WarnContext(ctx, "the refundable amount of a charge cannot be read; nothing was sent to the provider",
			"object", t.Record.Minted.ID, "charge", t.intent.Charge, "error", err)
		return t.unsent(ctx, reasonNoFacts, 0), true
	case ledger.FailedSince(since, of):
		v = t.wrong(codeUndone, "charge", "The provider has reported this charge as failed since it was made, so its money is back with the payer. There is nothing left to refund.")
	case t.intent.Amount <= rest:
		return nil, false
	case disputes > 0:
		v = t.wrong(codeDisputed, "charge", fmt.Sprintf("The payer disputes %d of this charge, and at most %d of it is left to refund. Answer the dispute at the provider instead.", disputes, max(rest, 0)))
	default:
		v = t.wrong(codeTooMuch, "amount", fmt.Sprintf("%d of this charge has been refunded at the provider; at most %d is left. Lower the amount.", refunds, max(rest, 0)))
	}
	if t.Recovery {
		t.needless = v
		return nil, false
	}
	return v, true
}

// disputed is how much of a ghost its payer disputes by what the provider shows, whose report may not
// be booked yet. Only a later attempt asks: the code that begins a compensation has asked before the
// first.
func (t *attempt) disputed(ctx context.Context, ghost *ledger.Transaction) (int64, error) {
	if t.op != Compensation || !t.Recovery || t.caps.Blind || t.reported() || t.Record.Interim != nil {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.caps.Timeout)
	defer cancel()
	found, m, err := t.provider.Show(ctx, psp.KindCharge, ghost.Object, ghost.ProviderRef)
	if found == psp.FoundUnknown {
		return 0, fmt.Errorf("payment: the provider does not show %s: %v", ghost.ProviderRef, err)
	}
	return m.Disputed, nil
}

// sumOf sums the reversals of one kind.
func sumOf(ctx context.Context, books Books, all []ledger.Transaction, kind ledger.Kind) (int64, error) {
	return ledger.Returned(ctx, books, slices.DeleteFunc(slices.Clone(all), func(t ledger.Transaction) bool { return t.Kind != kind }))
}

// onlyAsk looks up earlier attempts to refund money that the payer has back since. It never
// calls: a provider that dedupes would execute a call that had not reached it before.
func (t *attempt) onlyAsk(ctx context.Context) claim.Outcome {
	if !t.caps.Lookup {
		return t.unknown(ctx, reasonCannotAsk)
	}
	return t.ask(ctx, false)
}

// twice pages an operator about money that was given back twice: a call had been made
// before the books showed that the payer has it back.
func (t *attempt) twice(ref string) {
	if t.needless != nil {
		t.log.Error(PageUndone, "object", t.Record.Minted.ID, "charge", t.intent.Charge, "tenant", t.Record.Key.Tenant,
			"home", t.Record.Home, "provider", t.name, "provider_ref", t.intent.Source, "refund_ref", ref)
	}
}

// elsewhere reports whether a compensation must wait, because its payment may not have moved at the
// provider of its claim: another provider might have the same reference for another payer's money.
// The ghost was booked before the claim was begun, under the name of its provider. It also stops if
// the payer has the money of the ghost back.
func (t *attempt) elsewhere(ctx context.Context) (v claim.Outcome, stop bool) {
	if t.o.Books == nil {
		return v, false
	}
	reason, retryIn := reasonElsewhere, elsewhereWait
	ghost, found, err := t.booked(ctx, ledger.GhostID(t.name, t.intent.Source))
	switch {
	case found && err == nil:
		t.back = ghost
		return t.refundable(ctx, &ghost)
	case err != nil:
		reason, retryIn = reasonNoFacts, 0
	}
	t.log.WarnContext(ctx, "the movement that a compensation refunds is not booked at this provider, or the ledger cannot be read; nothing was sent",
		"object", t.Record.Minted.ID, "charge", t.intent.Charge, "provider", t.name, "provider_ref", t.intent.Source, "error", err)
	return t.unsent(ctx, reason, retryIn), true
}

// held reports whether a compensation must wait because automatic refunds are held. The
// code that begins one has checked, too; this covers those that had begun before the
// hold. A notice needs no call.
func (t *attempt) held(ctx context.Context) (v claim.Outcome, waits bool) {
	if t.o.Held == nil || t.reported() {
		return v, false
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	reason, err := t.o.Held(ctx, t.name)
	if err == nil && reason == "" {
		return v, false
	}
	t.log.WarnContext(ctx, "a compensation is postponed: automatic refunds are stopped, or the brakes cannot be read",
		"object", t.Record.Minted.ID, "charge", t.intent.Charge, "reason", reason, "error", err)
	return t.unsent(ctx, reasonHeld, heldWait), true
}

func (t *attempt) charge(ctx context.Context) (ledger.Transaction, bool, error) {
	return t.booked(ctx, t.intent.Charge)
}

// booked reads a transaction in the home of the charge that t refunds.
func (t *attempt) booked(ctx context.Context, id string) (ledger.Transaction, bool, error) {
	if t.o.Books == nil || t.o.Home == nil {
		return ledger.Transaction{}, false, errors.New("payment: the executor cannot read the ledger; set Options.Books and Options.Home")
	}
	_, code, _ := claim.ReadObjectID(t.intent.Charge) // Parse accepts nothing else
	home, ok := t.o.Home(code)
	if !ok {
		// The region may be one that this node has not read yet: this proves nothing.
		return ledger.Transaction{}, false, fmt.Errorf("payment: region code %d is not in this node's topology", code)
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	return t.o.Books.Transaction(ctx, home, id)
}

// wrong refuses a refund without a call and releases its key. If the charge's own
// transaction is the reason, that is safe after any attempt: it never changes, so none
// has called. A missing transaction proves nothing about earlier attempts, see missing.
func (t *attempt) wrong(code, member, detail string) claim.Outcome {
	p := problem.New(problem.InvalidRequest, detail)
	p.Member, p.DeclineCode = member, code
	return t.released(p)
}

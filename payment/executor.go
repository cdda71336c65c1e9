package payment

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/internal/span"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

const (
	// askBeforeCall is how many consecutive attempts must find nothing at a provider
	// that may not dedupe before an attempt may look up once more and then call.
	askBeforeCall = 2
	// dedupeMargin is how long before a provider may forget a key the executor stops
	// relying on it: an hour for clock differences and for a call in transit.
	dedupeMargin = time.Hour
	// dedupeTrust is how long after a key's first use the executor relies on a provider
	// that does not declare how long it remembers keys.
	dedupeTrust = psp.DefaultKeyLife - dedupeMargin
)

// Reasons of unknown outcomes, for the audit; merchants can read them.
const (
	reasonNoAnswer   = "no_answer"          // a call that may have moved money got no answer
	reasonRepeat     = "repeat_refused"     // the repeat was refused as invalid, which proves nothing about the first call
	reasonNotFound   = "not_found"          // the look-up found nothing
	reasonNotAsked   = "lookup_unanswered"  // the look-up got no answer
	reasonCannotAsk  = "cannot_ask"         // neither dedupe nor look-up: only an operator can resolve it
	reasonUnreadable = "payload_unreadable" // the stored request does not parse
	reasonNotSent    = "not_sent"           // nothing was sent to the provider
	reasonGhost      = "found_a_ghost"      // the look-up found a movement that had been refunded
	reasonNoFacts    = "charge_unreadable"  // the books of the movement to refund cannot be read now
	reasonMissing    = "charge_missing"     // the store lacks what earlier attempts may have found
	reasonHeld       = "refunds_held"       // automatic refunds are held
	reasonElsewhere  = "provider_changed"   // this node does not have the provider of the movement to refund
)

// Options are the optional dependencies of an [Executor]. The zero value serves
// everything but refunds, and emits no events.
type Options struct {
	// Logger; nil means slog.Default.
	Logger *slog.Logger
	// Books and Home find the charge of a refund: its transaction in the region of the code
	// in its id. Without both a refund stays unknown.
	Books Books
	Home  func(code claim.RegionCode) (region string, ok bool)
	// Charges are the claims that captures and cancellations are about. Without them both
	// stay unknown.
	Charges Charges
	// DeclinePause is the least pause after a soft decline that Retry-After gives callers:
	// claim.Policy.TryAgainAfter. 0: none.
	DeclinePause time.Duration
	// ActionFor is how long a payer may take to authenticate if the request has no
	// expires_at, and ProcessingFor how long a payment method may take to settle before
	// a page; 0 means a day, and 14.
	ActionFor, ProcessingFor time.Duration
	// RefundFor is how old a charge may be when its refund begins: its booking must not leave
	// while the refund is under way. 0: any age.
	RefundFor time.Duration
	// Held returns why no compensation may proceed at a provider, "" if one may; nil:
	// none is ever held.
	Held func(ctx context.Context, provider string) (reason string, err error)
	// Failover maps a provider to the one that tries a payment next if the first
	// certainly moved no money, and the declines, beside unsent calls, after which it
	// does.
	Failover map[string]Failover
	// Sinks get one message each for every event, in this order: kinds of
	// outbox.Events. None: no events.
	Sinks []outbox.Kind
	// ErrorPages is the base URL of the types of problems.
	ErrorPages problem.Pages
}

// Failover names the provider that tries a payment which another provider certainly has
// not made.
type Failover struct {
	To string
	// Codes are the decline codes that count, see psp.Decline; hard declines never do.
	Codes []string
}

// Executor makes attempts, each against one of its providers. It holds no state of its
// own and is safe for concurrent use.
type Executor struct {
	callees map[string]*callee
	names   []string
	first   *callee
	o       Options
	log     *slog.Logger
	gaveUp  map[Operation]claim.Response
}

// callee is a provider with its capabilities.
type callee struct {
	provider psp.Provider
	name     string
	caps     psp.Capabilities
}

// NewExecutor returns an Executor for providers, of which there is at least one. That of test
// tenants is not the first.
func NewExecutor(providers psp.Providers, o Options) *Executor {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Sinks = slices.Clone(o.Sinks)
	e := &Executor{callees: map[string]*callee{}, o: o, log: o.Logger, gaveUp: map[Operation]claim.Response{}}
	for _, p := range providers {
		e.names = append(e.names, p.Name())
		e.callees[p.Name()] = &callee{provider: psp.Clean(p), name: p.Name(), caps: p.Capabilities()}
	}
	e.first = e.callees[providers[0].Name()]
	for op := range Operations() {
		e.gaveUp[Operation(op)] = e.givenUp(Operation(op))
	}
	return e
}

// attempt is one run of [Executor.Attempt].
type attempt struct {
	*Executor
	claim.Attempt
	// callee is the provider to call: a refund takes it from its charge.
	*callee
	op     Operation
	intent Intent
	// cleared: earlier attempts have moved no money, as [attempt.ask] found out.
	cleared bool
	// of is the charge that a capture or a cancellation is about.
	of charged
	// needless refuses to give back what the payer has back since, if no earlier attempt has called;
	// nil: it is owed.
	needless claim.Outcome
	// back is the booking of the payment to refund, once it is read.
	back ledger.Transaction
}

// Attempt makes at most one call that can move money and returns the verdict. It returns once the
// provider has answered, its time-out has passed or ctx is done; the latter two are unknown
// outcomes. See the package comment for when it calls, when it looks up, and when it does neither.
func (e *Executor) Attempt(ctx context.Context, a claim.Attempt) claim.Outcome {
	t := &attempt{Executor: e, Attempt: a, callee: e.first, op: Operation(a.Record.Operation)}
	standard := e.first.name
	if !claim.Livemode(a.Record.Key.Tenant) {
		standard = claim.TestProvider
	}
	if !t.goTo(cmp.Or(a.Provider, standard)) {
		return t.unsent(ctx, reasonElsewhere, elsewhereWait)
	}
	if sp := span.Current(ctx); sp.IsRecording() {
		sp.SetAttributes(span.Provider.String(t.name), span.Operation.String(a.Record.Operation), span.Object.String(a.Record.Minted.ID))
	}
	if a.Canceled || t.op == CancelKey {
		return t.withdraw(ctx)
	}
	return t.run(ctx)
}

// run is Attempt with the provider of the claim selected.
func (t *attempt) run(ctx context.Context) claim.Outcome {
	e, a := t.Executor, &t.Attempt
	if err := t.parse(); err != nil {
		e.log.ErrorContext(ctx, "stored request does not parse; nothing was sent to the provider",
			"object", a.Record.Minted.ID, "error", err)
		return t.unknown(ctx, reasonUnreadable)
	}
	intent := &t.intent
	if a.Closing {
		return t.expired()
	}
	switch t.op {
	case Charge:
		if v, refused := t.cannotHold(); refused {
			return v
		}
		if a.Held != nil && intent.Holds() {
			return t.heldWord(ctx)
		}
	case Capture, Cancel:
		return t.order(ctx)
	case CancelKey: // withdraw ends it
	case Transfer:
		t.cleared = t.caps.NoTransfers // no attempt has sent anything
	case Refund:
		if v, refused := t.read(ctx); refused {
			return v
		}
	case Compensation:
		if v, elsewhere := t.elsewhere(ctx); elsewhere {
			return v
		}
		if v, held := t.held(ctx); held {
			return v
		}
	}
	reported := psp.FoundNo
	if t.reported() {
		reported = t.stillCounts(ctx, a.ReportedRef)
	}
	switch expired := t.intent.Expired(a.Now) || a.Canceled; {
	case reported == psp.FoundUnknown:
		return t.unknown(ctx, reasonNotAsked)
	case reported == psp.FoundYes && intent.Holds() && t.caps.Blind:
		return t.asItWas(ctx) // nor can it be looked up
	case reported == psp.FoundYes && intent.Holds():
		return t.show(ctx, a.ReportedRef) // the notice does not contain the amount
	case reported == psp.FoundYes:
		return t.succeeded(a.ReportedRef)
	case a.Refused != "" && a.ReportedBy == t.name:
		return t.reportedRefused(ctx)
	case a.Record.Interim != nil:
		return t.resume(ctx)
	case t.needless != nil:
		return t.onlyAsk(ctx)
	case !a.Recovery && expired:
		return t.expired()
	case !a.Recovery:
		return t.verdict(ctx, t.call(ctx))
	case !t.caps.Lookup && t.lapsed():
		return t.unconfirmed(ctx)
	case !t.caps.Lookup && t.dedupes() && (!a.Canceled || t.op == Charge): // what else a repeat moves cannot be called back
		return t.verdict(ctx, t.call(ctx))
	case !t.caps.Lookup:
		return t.unknown(ctx, reasonCannotAsk)
	case t.dedupes() && !expired && a.Record.NotFounds == 0:
		return t.repeat(ctx)
	default:
		return t.ask(ctx, expired)
	}
}

// parse reads the request, for the tenant's side and by the time that has passed for it.
func (t *attempt) parse() error {
	in, err := Parse(t.op, t.Payload)
	if err != nil {
		return err
	}
	in.test = !claim.Livemode(t.Record.Key.Tenant)
	if ahead := t.Record.Ahead(); ahead > 0 && !in.ExpiresAt.IsZero() {
		in.ExpiresAt = in.ExpiresAt.Add(-ahead)
	}
	t.intent = in
	return nil
}

// reported reports whether the provider to call has notified us of the requested movement,
// in the account that was called. The owner of another account can make the provider
// report anything about it.
func (t *attempt) reported() bool {
	if t.ReportedRef == "" || t.ReportedBy != t.name {
		return false
	}
	in := t.intent.Account()
	if t.op.GivesBack() {
		in = psp.AccountOf(t.intent.Source) // the account of its charge
	}
	return psp.AccountOf(t.ReportedRef) == in
}

// stillCounts reports whether the movement of which the provider has notified us still counts. A
// claim of one generation has no other. A later generation may get the late notice of an earlier
// one's movement: the merchant was sent a decline for it, and it may have been reversed or refunded
// since. If it counts, it is the money that the claim asks for, and settles it: another movement of
// the claim that surfaces is refunded as a second one.
func (t *attempt) stillCounts(ctx context.Context, ref string) psp.Found {
	if t.Record.Generation == 1 {
		return psp.FoundYes
	}
	if w := t.Witness; w != nil && w.Done && w.ProviderRef != ref {
		return psp.FoundNo // the lost writes may have refunded it
	}
	switch ghost, err := t.ghost(ctx, ref); {
	case err != nil:
		t.log.WarnContext(ctx, "the ledger cannot be read: the movement that the provider reports may have been refunded", "object", t.Record.Minted.ID, "error", err)
		return psp.FoundUnknown
	case ghost:
		return psp.FoundNo
	case t.caps.Blind:
		return psp.FoundYes // it reports nothing but its notice
	}
	ctx, cancel := context.WithTimeout(ctx, t.caps.Timeout)
	defer cancel()
	found, m, err := t.provider.Show(ctx, kind(t.op), t.Record.Minted.ID, ref)
	switch {
	case found == psp.FoundYes && m.Reference != t.Record.Minted.ID:
		return psp.FoundNo
	case found == psp.FoundYes && m.Outcome == psp.Approved:
		return psp.FoundYes
	case found == psp.FoundNo, found == psp.FoundYes && m.Outcome == psp.Declined:
		return psp.FoundNo
	}
	t.log.WarnContext(ctx, "provider does not show the movement that it reports", "object", t.Record.Minted.ID, "provider", t.name, "provider_ref", ref, "error", err)
	return psp.FoundUnknown
}

// reportedRefused is the verdict of a notice that the movement was refused. The request may
// be retried: the notice does not say how long the reason holds.
func (t *attempt) reportedRefused(ctx context.Context) claim.Outcome {
	return t.declined(ctx, psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Soft, Code: t.Refused}})
}

// chargedAt selects the provider of a charge's claim; false if this node does not have it.
func (t *attempt) chargedAt(rec *claim.Record) bool {
	name, ok := rec.With(t.names)
	return ok && t.goTo(name)
}

// goTo selects the named provider; false if there is none, or if it is not for t's tenant. It is the
// one place in which an attempt gets its provider: no test payment moves money, and no live one is
// only simulated, whatever names its provider.
func (t *attempt) goTo(name string) bool {
	to, ok := t.callees[name]
	ok = ok && claim.MayCall(t.Record.Key.Tenant, name)
	if ok {
		t.callee = to
	}
	return ok
}

// dedupes reports whether repeating the call cannot move money twice.
func (t *attempt) dedupes() bool {
	trust := dedupeTrust
	if t.caps.KeyLife > 0 {
		trust = t.caps.KeyLife - dedupeMargin
	}
	return t.caps.Dedupe != psp.DedupeNone && t.age() < trust
}

// lapsed reports whether to stop waiting for a charge with an unknown outcome. The claim always
// waits for a transfer, which could not be reversed if it surfaced later.
func (t *attempt) lapsed() bool {
	return t.op == Charge && !t.intent.ExpiresAt.IsZero() && !t.Now.Before(t.intent.ExpiresAt.Add(t.expiryGrace()))
}

// expiryGrace is how long after its expires_at a charge may still be unknown before it
// counts as expired: by then a call that was sent in time has been answered or has
// timed out.
func (t *attempt) expiryGrace() time.Duration { return max(t.caps.Timeout, t.settleWindow()) }

// call is the one place from which money moves.
func (t *attempt) call(ctx context.Context) psp.Result {
	ctx, cancel := context.WithTimeout(ctx, t.caps.Timeout)
	defer cancel()
	c := t.described()
	switch c.Kind {
	case psp.KindRefund:
		return t.provider.Refund(ctx, c)
	case psp.KindTransfer:
		return t.provider.Transfer(ctx, c)
	case psp.KindCapture:
		return t.provider.Capture(ctx, c)
	case psp.KindCancel:
		return t.provider.Cancel(ctx, c)
	default:
		return t.provider.Charge(ctx, c)
	}
}

// described is the request that the provider receives in a call or a look-up.
func (t *attempt) described() psp.Call {
	c := psp.Call{
		Kind: kind(t.op), Key: t.Record.ProviderKey, Reference: t.Record.Minted.ID,
		Amount: t.intent.Amount, Currency: t.intent.Currency, Tenant: ShownTenant(t.Record.Key.Tenant), Home: t.Record.Home,
		// A refund's reason is for the merchant, not for the payer.
		Source: t.intent.Source, Description: t.intent.Description(), Terms: t.intent.agreement(),
	}
	switch {
	case t.op.Orders():
		c.Of = t.intent.Charge
	case t.op == Refund:
		c.Of = t.Record.Reverses
	}
	if t.op == Charge && t.Record.Generation > 1 {
		c.Again = t.Record.ProviderRef // of the generation that was declined for now
	}
	return c
}

// ShownTenant is the [psp.Call].Tenant of a tenant's calls.
func ShownTenant(tenant string) string {
	if claim.Livemode(tenant) {
		return ""
	}
	return tenant
}

func kind(op Operation) psp.Kind {
	switch op {
	case Refund, Compensation:
		return psp.KindRefund
	case Transfer:
		return psp.KindTransfer
	case Capture:
		return psp.KindCapture
	case Cancel:
		return psp.KindCancel
	default:
		return psp.KindCharge
	}
}

// repeat makes the call again; a provider that dedupes answers with the first call's
// result. If the provider refuses the repeat, as invalid or as another call under the
// same key, repeat looks up at once: the same call would be refused again and again.
func (t *attempt) repeat(ctx context.Context) claim.Outcome {
	r := t.call(ctx)
	why := r.Err
	switch {
	case saidInvalid(r):
		why = errors.New(r.Decline.Code)
	case r.Outcome != psp.Unknown || !errors.Is(r.Err, psp.ErrKeyReused):
		return t.verdict(ctx, r)
	}
	t.log.WarnContext(ctx, "provider rejected a repeated key; looking up the first call",
		"object", t.Record.Minted.ID, "provider", t.name, "error", why)
	// No look-up has counted yet, so this asks and cannot call.
	return t.ask(ctx, false)
}

func saidInvalid(r psp.Result) bool {
	return r.Outcome == psp.Declined && r.Decline != nil && r.Decline.Class == psp.Invalid
}

// ask looks up the outcome of earlier attempts, and calls again only if that is safe and the
// request has not expired.
func (t *attempt) ask(ctx context.Context, expired bool) claim.Outcome {
	found, res := t.lookup(ctx)
	if found == psp.FoundYes && res.Outcome == psp.Approved {
		switch ghost, err := t.ghost(ctx, res.ProviderRef); {
		case err != nil:
			t.log.WarnContext(ctx, "the ledger cannot be read: the movement that the provider found may have been refunded", "object", t.Record.Minted.ID, "error", err)
			return t.unknown(ctx, reasonNotAsked)
		case ghost && !t.dedupes():
			// The provider chooses which of several movements the look-up finds; that
			// there is no other cannot be proved.
			return t.unknown(ctx, reasonGhost)
		case ghost:
			found = psp.FoundNo // refunded: this generation must not settle on it
		}
	}
	if found == psp.FoundYes && res.Outcome == psp.Declined && (t.Record.Generation > 1 || saidInvalid(res)) {
		// It may be an earlier generation's, or a refused repeat's own: it proves no
		// more than that no money has moved yet.
		found = psp.FoundNo
	}
	switch {
	case found == psp.FoundYes:
		return t.verdict(ctx, res)
	case found != psp.FoundNo:
		if res.Err != nil {
			t.log.WarnContext(ctx, "provider did not answer a look-up", "object", t.Record.Minted.ID, "provider", t.name, "error", res.Err)
		}
		if v, held := t.notSent(ctx, res); held {
			return v
		}
		if t.lapsed() {
			return t.unconfirmed(ctx)
		}
		return t.unknown(ctx, reasonNotAsked)
	case t.Record.NotFounds < askBeforeCall:
		v := t.unknown(ctx, reasonNotFound)
		v.NotFound, v.RetryIn = true, max(v.RetryIn, t.settleWindow())
		return v
	case expired:
		return t.untraced(ctx)
	case t.needless != nil:
		return t.needless
	default:
		t.cleared = true
		return t.verdict(ctx, t.call(ctx))
	}
}

// ghost reports whether the found movement is booked as a ghost: it belongs to an
// earlier generation, which was answered with a decline. If it is booked only after
// this look, the books refuse one of the two (ledger.Transaction.Incoming).
func (t *attempt) ghost(ctx context.Context, ref string) (bool, error) {
	if t.op != Charge || t.Record.Generation == 1 || t.o.Books == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	_, found, err := t.o.Books.Transaction(ctx, t.Record.Home, ledger.GhostID(t.name, ref))
	return found, err
}

func (t *attempt) lookup(ctx context.Context) (psp.Found, psp.Result) {
	ctx, cancel := context.WithTimeout(ctx, t.caps.Timeout)
	defer cancel()
	return t.provider.Lookup(ctx, t.described())
}

// settleWindow is how long a call may still be in transit. A provider that dedupes need
// not declare one; then it is the longest duration of a call.
func (t *attempt) settleWindow() time.Duration {
	if t.caps.SettleWindow > 0 {
		return t.caps.SettleWindow
	}
	return t.caps.Timeout
}

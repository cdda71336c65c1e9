package payment

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/span"
)

const (
	// askBeforeCall is how many attempts in a row must have found nothing at a
	// provider that may not dedupe before one may ask again and then call.
	askBeforeCall = 2
	// dedupeTrust is how long after first use a provider is trusted to remember
	// a key. The shortest promise among providers in use is 24 h (Stripe); an
	// hour is left for clocks and for a call on its way.
	dedupeTrust = 23 * time.Hour
)

// Reasons of unknown outcomes, for the audit; merchants can read them.
const (
	reasonNoAnswer   = "no_answer"          // a call that may have moved money went unanswered
	reasonRepeat     = "repeat_refused"     // the repeat was refused as invalid, which tells nothing of the first call
	reasonNotFound   = "not_found"          // asked, and the provider knew nothing
	reasonNotAsked   = "lookup_unanswered"  // asked, without an answer
	reasonCannotAsk  = "cannot_ask"         // neither dedupe nor look-up: only a person can tell
	reasonUnreadable = "payload_unreadable" // the stored request does not parse
	reasonPanic      = "adapter_fault"      // our own code failed in mid-call
)

// codeExpired is the decline code of an operation past its expires_at.
const codeExpired = "expired"

// Executor makes attempts against one provider. It holds no state of its own
// and is safe for concurrent use.
type Executor struct {
	provider psp.Provider
	name     string
	caps     psp.Capabilities
	log      *slog.Logger
	gaveUp   map[Operation]claim.Response
}

// NewExecutor returns an Executor for p. A nil logger means slog.Default.
func NewExecutor(p psp.Provider, log *slog.Logger) *Executor {
	if log == nil {
		log = slog.Default()
	}
	return &Executor{
		provider: p, name: p.Name(), caps: p.Capabilities(), log: log,
		gaveUp: map[Operation]claim.Response{Charge: givenUp(Charge), Transfer: givenUp(Transfer)},
	}
}

// attempt is one run of [Executor.Attempt].
type attempt struct {
	*Executor
	claim.Attempt
	op     Operation
	intent Intent
	// cleared: earlier attempts have moved no money, as [attempt.ask] found out.
	cleared bool
}

// Attempt makes at most one call that can move money and says what is known
// afterwards. It returns once the provider has answered, its time-out has
// passed or ctx is done; the latter two are unknown outcomes. See the package
// comment for when it calls, when it asks, and when it does neither.
func (e *Executor) Attempt(ctx context.Context, a claim.Attempt) (v claim.Verdict) {
	t := &attempt{Executor: e, Attempt: a, op: Operation(a.Record.Operation)}
	if sp := span.Current(ctx); sp.IsRecording() {
		sp.SetAttributes(span.Provider.String(e.name), span.Operation.String(a.Record.Operation), span.Object.String(a.Record.Minted.ID))
	}
	defer func() {
		if p := recover(); p != nil {
			e.log.ErrorContext(ctx, "payment attempt panicked; the outcome is unknown",
				"object", a.Record.Minted.ID, "provider", e.name, "panic", p, "stack", string(debug.Stack()))
			v = t.unknown(reasonPanic)
		}
	}()
	intent, err := Parse(t.op, a.Payload)
	if err != nil {
		e.log.ErrorContext(ctx, "stored request does not parse; nothing was sent to the provider",
			"object", a.Record.Minted.ID, "error", err)
		return t.unknown(reasonUnreadable)
	}
	t.intent = intent
	switch expired := intent.Expired(a.Now); {
	case !a.Recovery && expired:
		return t.expired()
	case !a.Recovery:
		return t.verdict(ctx, t.call(ctx))
	case !e.caps.Lookup && t.dedupes():
		return t.verdict(ctx, t.call(ctx))
	case !e.caps.Lookup:
		return t.unknown(reasonCannotAsk)
	case t.dedupes() && !expired && a.Record.NotFounds == 0:
		return t.repeat(ctx)
	default:
		return t.ask(ctx, expired)
	}
}

// dedupes reports whether repeating the call cannot move money twice.
func (t *attempt) dedupes() bool {
	return t.caps.Dedupe != psp.DedupeNone && t.Now.Sub(t.Record.FirstUse) < dedupeTrust
}

// call is the one place from which money moves.
func (t *attempt) call(ctx context.Context) psp.Result {
	ctx, cancel := context.WithTimeout(ctx, t.caps.Timeout)
	defer cancel()
	c := psp.Call{
		Kind: psp.KindCharge, Key: t.Record.ProviderKey, Reference: t.Record.Minted.ID,
		Amount: t.intent.Amount, Currency: t.intent.Currency,
		Source: t.intent.Source, Description: t.intent.Description,
	}
	if t.op == Transfer {
		c.Kind = psp.KindTransfer
		return t.provider.Transfer(ctx, c)
	}
	return t.provider.Charge(ctx, c)
}

// repeat makes the call again, which a provider that dedupes answers with the
// first call's result. One that refuses the repeat as invalid is asked at once:
// the same call would be refused again and again.
func (t *attempt) repeat(ctx context.Context) claim.Verdict {
	r := t.call(ctx)
	if !saidInvalid(r) {
		return t.verdict(ctx, r)
	}
	t.log.WarnContext(ctx, "provider refused the repeat of a call as invalid; asking what became of the first",
		"object", t.Record.Minted.ID, "provider", t.name, "code", r.Decline.Code)
	// No look-up has counted yet, so this asks and cannot call.
	return t.ask(ctx, false)
}

func saidInvalid(r psp.Result) bool {
	return r.Outcome == psp.Declined && r.Decline != nil && r.Decline.Class == psp.Invalid
}

// ask finds out what became of earlier attempts, and calls again only where
// that is both safe and still wanted.
func (t *attempt) ask(ctx context.Context, expired bool) claim.Verdict {
	found, res := t.lookup(ctx)
	if found == psp.FoundYes && res.Outcome == psp.Declined && (t.Record.Generation > 1 || saidInvalid(res)) {
		// Perhaps an earlier generation's, or a refused repeat's own: no money yet,
		// and no more than that.
		found = psp.FoundNo
	}
	switch {
	case found == psp.FoundYes:
		return t.verdict(ctx, res)
	case found != psp.FoundNo:
		if res.Err != nil {
			t.log.WarnContext(ctx, "provider did not answer a look-up", "object", t.Record.Minted.ID, "provider", t.name, "error", res.Err)
		}
		return t.unknown(reasonNotAsked)
	case t.Record.NotFounds < askBeforeCall:
		v := t.unknown(reasonNotFound)
		v.NotFound, v.RetryIn = true, t.settleWindow()
		return v
	case expired:
		return t.expired()
	default:
		t.cleared = true
		return t.verdict(ctx, t.call(ctx))
	}
}

func (t *attempt) lookup(ctx context.Context) (psp.Found, psp.Result) {
	ctx, cancel := context.WithTimeout(ctx, t.caps.Timeout)
	defer cancel()
	kind := psp.KindCharge
	if t.op == Transfer {
		kind = psp.KindTransfer
	}
	return t.provider.Lookup(ctx, kind, t.Record.Minted.ID)
}

// settleWindow is how long a call may still be on its way. A provider that
// dedupes need not declare one; then it is the longest a call may take.
func (t *attempt) settleWindow() time.Duration {
	if t.caps.SettleWindow > 0 {
		return t.caps.SettleWindow
	}
	return t.caps.Timeout
}

func (t *attempt) verdict(ctx context.Context, r psp.Result) claim.Verdict {
	switch {
	case r.Outcome == psp.Approved:
		return claim.Verdict{
			Outcome: claim.OutcomeDone, ProviderRef: r.ProviderRef,
			Response: Rendered(t.Record.Minted, &t.intent, t.name, r.ProviderRef),
		}
	case r.Outcome == psp.Declined && r.Decline != nil:
		return t.declined(r)
	}
	t.log.WarnContext(ctx, "provider outcome is unknown", "object", t.Record.Minted.ID, "provider", t.name, "error", r.Err)
	return t.unknown(reasonNoAnswer)
}

func (t *attempt) declined(r psp.Result) claim.Verdict {
	v := claim.Verdict{Outcome: claim.OutcomeReleased, Reason: r.Decline.Code, ProviderRef: r.ProviderRef}
	var p problem.Problem
	switch r.Decline.Class {
	case psp.Hard:
		v.Outcome = claim.OutcomeRefused
		p = problem.New(problem.CardDeclined, orElse(r.Decline.Message, "The provider declined the payment for good."))
	case psp.Soft:
		p = problem.New(problem.CardDeclined, orElse(r.Decline.Message, "The provider declined the payment for now."))
		if !t.Last { // the last one allowed is remembered, and the key with it
			p.Retry = problem.SameKey
		}
	case psp.Invalid:
		if t.Recovery && !t.cleared {
			// Said before the provider looked the key up, this speaks of the repeat
			// and not of the attempt that may have moved money: a release would let
			// the next generation charge again.
			return t.unknown(reasonRepeat)
		}
		p = problem.New(problem.InvalidRequest, "The provider refused the request: "+orElse(r.Decline.Message, "it gave no reason."))
	default:
		// A class that this build does not know may mean anything.
		t.log.Error("provider declined in an unknown class", "object", t.Record.Minted.ID, "provider", t.name, "class", r.Decline.Class)
		return t.unknown(reasonNoAnswer)
	}
	p.DeclineCode = r.Decline.Code
	v.Response = refusal(p)
	return v
}

func (t *attempt) expired() claim.Verdict {
	p := problem.New(problem.CardDeclined, "The "+string(t.op)+" was not payable any more: its expires_at had passed before any money moved.")
	p.DeclineCode = codeExpired
	return claim.Verdict{Outcome: claim.OutcomeRefused, Reason: codeExpired, Response: refusal(p)}
}

// unknown carries the answer that is remembered should this be the last
// attempt; until then the caller is told to come back.
func (t *attempt) unknown(reason string) claim.Verdict {
	resp, ok := t.gaveUp[t.op]
	if !ok {
		resp = givenUp(t.op)
	}
	return claim.Verdict{Outcome: claim.OutcomeUnknown, Reason: reason, Response: resp}
}

func givenUp(op Operation) claim.Response {
	p := problem.New(problem.OutcomeUnknown, "The provider never said what became of this "+string(op)+
		", and asking has been given up. Ask support to check with the provider before you try again with a new key.")
	p.Title, p.Retry = "The outcome stayed unknown", problem.NewKey
	return refusal(p)
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

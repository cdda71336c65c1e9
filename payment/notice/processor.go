package notice

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// Claims finds claims by an object's id.
type Claims interface {
	// ByObject reads the claim of an object of any tenant with authority.
	ByObject(ctx context.Context, home, id string) (rec claim.Record, found bool, err error)
	// Unpaid reads with authority the [claim.Unpaid] row of an object for which no
	// money moved; it outlives its claim.
	Unpaid(ctx context.Context, home, id string) (u claim.Unpaid, found bool, err error)
}

// ProcessorConfig assembles a [Processor]; all but Seal, Logger and Now is required.
type ProcessorConfig struct {
	Store     Store
	Notifiers map[string]psp.Notifier
	Claims    Claims
	// Calls is the queue of provider calls.
	Calls outbox.Store
	Books ledger.Store
	// Learn settles a claim in flight; claim.Service.Learn does. Without a result it looks
	// the claim up at the provider.
	Learn func(ctx context.Context, call outbox.Message, provider, ref string, generation uint32) outbox.Disposition
	// LearnRefusal is Learn for a notice that the movement of a claim's generation was not made,
	// from a provider without look-ups.
	LearnRefusal func(ctx context.Context, call outbox.Message, provider, code string, generation uint32) outbox.Disposition
	// LearnHeld is Learn for a notice about held money from such a provider.
	LearnHeld func(ctx context.Context, call outbox.Message, h claim.Held) outbox.Disposition
	// Home names the region of a code.
	Home func(claim.RegionCode) (string, bool)
	// Homes are all regions, at least one, in the order of their codes. Transactions
	// that belong to no tenant, such as payouts, are booked in the first.
	Homes       func() []string
	Compensator *Compensator
	// Seal opens bodies; nil opens those that are not sealed.
	Seal *seal.Ring
	// Sinks get one message each for every event, as of payment.Options.
	Sinks []outbox.Kind
	// Meters count what the processor does. Nil: nothing is counted.
	Meters *meter.Set
	Logger *slog.Logger
	// Now is the clock that wrote the rows, as nearly as this process knows it: the age of a notice
	// decides what becomes of it. Nil means time.Now.
	Now func() time.Time
}

// Processor processes stored notices. It is safe for concurrent use.
//
// A notice is a hint that money moved. Rows that no longer change decide what follows:
// a final claim, a transaction in the books, the [claim.Unpaid] row of an object. While
// the claim is in flight the notice waits, or settles it. So notices may come late,
// twice, out of order and in several regions: the result is the same.
//
// # Crash points
//
// The row of a notice is due again when its lease ends. Every step before the last,
// which closes notice and row together, finds what it did before: see [Compensator],
// [Processor.failed], [Processor.unasked], and claim.Service.Learn, which takes a claim
// over like a recovery.
type Processor struct {
	c ProcessorConfig
	// silent are homes whose books did not answer when they were read for many notices.
	// Until they do for one, each notice is processed alone.
	silent sync.Map
}

// NewProcessor returns a Processor, or an error if the configuration is invalid.
func NewProcessor(c ProcessorConfig) (*Processor, error) {
	if c.Store == nil || c.Claims == nil || c.Calls == nil || c.Books == nil || c.Learn == nil || c.LearnRefusal == nil || c.LearnHeld == nil || c.Home == nil || c.Homes == nil || c.Compensator == nil {
		return nil, errors.New("webhook: processor needs Store, Claims, Calls, Books, Learn, LearnRefusal, LearnHeld, Home, Homes and Compensator")
	}
	if c.Compensator.Providers == nil || c.Compensator.Brakes == nil {
		return nil, errors.New("webhook: compensator needs Providers and Brakes")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Processor{c: c}, nil
}

// Operators watch for these lines.
const (
	pageLimbo   = "page: a ghost payment cannot be refunded; decide by hand"
	pageWaiting = "page: a payer has waited a day for a refund; a chargeback may follow"
	pageUndone  = payment.PageUndone
	pageLate    = "page: money moved after the merchant got a failure; it is booked"
)

const (
	// lookAgain is the longest pause while a claim is in flight, as its own recovery is
	// at work.
	lookAgain = 5 * time.Second
	// unreachable is the pause if rows cannot be read, because a region may be lost.
	unreachable = 30 * time.Second
	// heldPause is the longest pause until a ghost continues after a release.
	heldPause = time.Minute
)

// Handle processes one notice. It implements the handler of [outbox.KindNotice].
func (p *Processor) Handle(ctx context.Context, m outbox.Message) outbox.Disposition {
	notifier, ok := p.c.Notifiers[m.Operation]
	if !ok {
		return outbox.Failed("no provider " + m.Operation + " is configured to read this notice")
	}
	body, err := p.c.Seal.Open(ctx, rowOf(m.Region, m.ID), m.Payload)
	if err != nil {
		return p.unopened(m, err)
	}
	n, err := psp.ReadNotice(notifier, body)
	switch {
	case err != nil:
		return outbox.Parked("the notice cannot be read: " + err.Error())
	case n.After > 0: // as long as its row has waited
		n.At = m.CreatedAt.Add(n.After)
		m.CreatedAt = n.At // from then on somebody waits
	}
	if p.idle(&n) {
		return p.close(ctx, m, Ignored, noMoney)
	}
	if n.Movement {
		if disposition, done := p.held(ctx, m, &n); done {
			return disposition
		}
	}
	if n.Movement && n.Outcome != psp.Approved {
		if disposition, waits := p.stirred(ctx, m, &n); waits {
			return disposition
		}
	}
	switch {
	case len(n.Unasked) > 0:
		return p.unasked(ctx, m, &n)
	case n.Outcome == psp.Declined && n.ProviderRef != "":
		return p.failed(ctx, m, &n)
	case n.Outcome == psp.Authorized:
		return p.inVain(ctx, m, &n)
	case n.Outcome != psp.Approved:
		// For a decline the claim's recovery asks the provider.
		return p.close(ctx, m, Ignored, noMoney)
	case n.Reference == "" || n.ProviderRef == "" || n.Amount <= 0:
		return p.stranger(ctx, m, &n, "unknown charge: the notice names no movement of ours")
	}
	prefix, code, ok := claim.ReadObjectID(n.Reference)
	switch {
	case !ok:
		return p.stranger(ctx, m, &n, "unknown charge: "+n.Reference+" is not an id of this deployment")
	case prefix != payment.Prefix(payment.Operation(n.Kind)):
		return p.stranger(ctx, m, &n, fmt.Sprintf("the provider reports a %s under %s, which names none", n.Kind, n.Reference))
	}
	home, ok := p.c.Home(code)
	switch {
	case !ok && psp.AccountOf(n.ProviderRef) != "" && p.c.Now().Sub(m.CreatedAt) >= appearWithin:
		return p.close(ctx, m, Ignored, foreign)
	case !ok:
		return outbox.Failed(fmt.Sprintf("unknown charge: %s is at home in a region of code %d, which is not in the topology", n.Reference, code))
	}
	// Most notices are about booked movements: one read, and the books never change.
	booked, isBooked, err := p.c.Books.Transaction(ctx, home, n.Reference)
	if err != nil {
		return p.later(m, "books", err)
	}
	p.silent.Delete(home)
	if isBooked && booked.Provider == m.Operation && booked.ProviderRef == n.ProviderRef {
		return p.judge(ctx, m, &n, home, claim.Record{}, false, booked, true)
	}
	rec, found, err := p.c.Claims.ByObject(ctx, home, n.Reference)
	if err != nil {
		return p.later(m, "claim", err)
	}
	if found && rec.State == claim.InFlight {
		switch ghost, isGhost, err := p.c.Books.Transaction(ctx, home, ledger.GhostID(m.Operation, n.ProviderRef)); {
		case err != nil:
			return p.later(m, "books", err)
		case isGhost && ghost.Object == n.Reference:
			// A movement of an earlier generation, which is being refunded: it cannot
			// settle this one, so there is no need to wait for this one.
			return p.compensate(ctx, m, p.ghost(m, &n, home, rec.Key.Tenant, false))
		}
		var pause time.Duration
		switch rec, found, pause, err = p.learn(ctx, m.Operation, &rec, &n); {
		case errors.Is(err, errForeign):
			return p.close(ctx, m, Ignored, foreign)
		case err != nil:
			return p.later(m, "claim", err)
		}
		if found && rec.State == claim.InFlight {
			return outbox.Later(pause)
		}
	}
	// Read after the claim: the step that completed it has booked it.
	if booked, isBooked, err = p.c.Books.Transaction(ctx, home, n.Reference); err != nil {
		return p.later(m, "books", err)
	}
	if !found && !isBooked && n.Kind == psp.KindRefund {
		// A ghost's refund is booked under the ghost's name, and outlives its claim: a
		// bank gives it a number days later.
		if booked, isBooked, err = p.c.Books.GhostRefund(ctx, home, n.Reference); err != nil {
			return p.later(m, "books", err)
		}
	}
	if !found && !isBooked {
		if rec, found, err = p.forgotten(ctx, home, n.Reference); err != nil {
			return p.later(m, "unpaid", err)
		}
	}
	return p.judge(ctx, m, &n, home, rec, found, booked, isBooked)
}

// stirred asks about a waiting claim of which the provider reports something other than success.
// The provider's own answer, and not the notice, which may be out of date, settles the claim. The
// notice of a provider without look-ups settles it if it names the very movement that the claim
// waits for and reports that it was never made. waits reports that the notice is done, or has to
// wait.
func (p *Processor) stirred(ctx context.Context, m outbox.Message, n *psp.Notice) (_ outbox.Disposition, waits bool) {
	_, code, ok := claim.ReadObjectID(n.Reference)
	home, exists := p.c.Home(code)
	if !ok || !exists {
		return outbox.Disposition{}, false
	}
	rec, found, err := p.c.Claims.ByObject(ctx, home, n.Reference)
	switch {
	case err != nil:
		return p.later(m, "claim", err), true
	case !found || rec.Interim == nil || rec.Minted.ID != n.Reference:
		return outbox.Disposition{}, false
	case n.ProviderRef != "" && apart(rec.ProviderRef, n.ProviderRef):
		return p.close(ctx, m, Ignored, foreign), true
	case !rec.Waits():
		return outbox.Later(lookAgain), true // an attempt is asking, perhaps since before this notice
	}
	call, found, err := p.c.Calls.Message(ctx, rec.Home, n.Reference)
	switch {
	case err != nil:
		return p.later(m, "claim", err), true
	case !found:
		return outbox.Later(lookAgain), true
	}
	var disposition outbox.Disposition
	switch provider, here := p.c.Compensator.Providers.Named(m.Operation); {
	case !here || !provider.Capabilities().Blind:
		disposition = p.c.Learn(ctx, call, "", "", 0)
	case refuses(n, &rec):
		disposition = p.c.LearnRefusal(ctx, call, m.Operation, n.Decline.Code, rec.Generation)
	case n.Outcome == psp.Declined && !n.Never:
		return outbox.Disposition{}, false // of a success that must be recorded first
	default:
		return p.close(ctx, m, Ignored, noMoney), true
	}
	if caught := disposition.Fault(); caught != nil {
		return outbox.Faulted(caught), true
	}
	if d, later := disposition.Delay(); later {
		return outbox.Later(min(lookAgain, d)), true
	}
	return p.close(ctx, m, ProcessedOK, "asked about"), true
}

// refuses reports whether n reports that the movement that rec waits for was not made. The notice
// may be late, about an earlier generation with a movement of another id. If the expected movement
// has no id yet, there must have been no other.
func refuses(n *psp.Notice, rec *claim.Record) bool {
	return n.Outcome == psp.Declined && n.Never && n.Decline != nil &&
		(rec.ProviderRef == n.ProviderRef || rec.ProviderRef == "" && rec.Generation == 1)
}

// forgotten returns the claim of an unpaid object after its row was deleted. Whatever answer its
// merchant got, it cannot be retried.
func (p *Processor) forgotten(ctx context.Context, home, id string) (claim.Record, bool, error) {
	u, found, err := p.c.Claims.Unpaid(ctx, home, id)
	if err != nil || !found {
		return claim.Record{}, false, err
	}
	return claim.Record{
		Key: claim.Key{Tenant: u.Tenant}, Home: home, Operation: u.Operation, State: claim.FailedTerminal,
		Reason: u.Reason, Minted: claim.Minted{ID: id}, SettledAt: u.At,
	}, true, nil
}

// judge processes a movement whose claim is final, released or deleted.
func (p *Processor) judge(ctx context.Context, m outbox.Message, n *psp.Notice, home string, rec claim.Record, found bool, booked ledger.Transaction, isBooked bool) outbox.Disposition {
	tenant, same := rec.Key.Tenant, rec.ProviderRef == n.ProviderRef
	if isBooked {
		tenant, same = booked.Tenant, booked.Provider == m.Operation && booked.ProviderRef == n.ProviderRef
	}
	if (found || isBooked) && !claim.MayCall(tenant, m.Operation) {
		return p.stranger(ctx, m, n, "unknown charge: "+n.Reference+" is of the tenant "+tenant+", which has nothing at "+m.Operation)
	}
	ok := isBooked || found && rec.State == claim.Completed
	switch own := cmp.Or(booked.ProviderRef, rec.ProviderRef); {
	case apart(own, n.ProviderRef):
		return p.close(ctx, m, Ignored, foreign)
	case same || psp.AccountOf(n.ProviderRef) == "" || !found && !isBooked:
	case own == "" && rec.ProviderKey == "": // what is left of it names no account
		return outbox.Parked(fmt.Sprintf("the provider reports that %s was paid in the account %s, and its claim, which names the requested account, was deleted; refund %s by hand if it was that one", n.Reference, psp.AccountOf(n.ProviderRef), n.ProviderRef))
	case !rec.Sent(n.Key, m.Operation), isBooked && (booked.Amount != n.Amount || booked.Currency != n.Currency):
		return p.close(ctx, m, Ignored, foreign)
	}
	switch {
	case ok && same:
		if isBooked && (booked.Amount != n.Amount || booked.Currency != n.Currency) {
			return outbox.Parked(fmt.Sprintf("the provider reports %d %s where %d %s are booked for %s", n.Amount, n.Currency, booked.Amount, booked.Currency, n.Reference))
		}
		return p.close(ctx, m, ProcessedOK, detailBooked)
	case !found && !isBooked:
		return p.stranger(ctx, m, n, "unknown charge: there is no record of "+n.Reference)
	}
	if n.Kind != psp.KindCharge {
		return p.late(ctx, m, n, home, tenant, ok, found && !rec.State.Final())
	}
	g := p.ghost(m, n, home, tenant, ok)
	if !ok && (rec.Canceled() || rec.Reason == payment.ReasonKeyCanceled) { // or it was released before
		g.Reason = payment.ReasonKeyCanceled
	}
	return p.compensate(ctx, m, g)
}

func (p *Processor) ghost(m outbox.Message, n *psp.Notice, home, tenant string, second bool) Ghost {
	g := Ghost{
		Tenant: tenant, Object: n.Reference, Home: home, Provider: m.Operation, ProviderRef: n.ProviderRef,
		Amount: n.Amount, Currency: n.Currency, Reason: "late_success",
	}
	if second {
		g.Reason = "second_movement"
	}
	return g
}

// The owner of an account at the provider can write our ids on their own objects, and the provider
// notifies us of them. So a notice about an account counts only if it names a recorded movement, or
// carries a provider key of the claim. Beside a booked movement it must also have the same amount
// and currency, as each generation asks for the same. That an object of ours lies in the account
// proves nothing: its owner has our id from it. Any other notice is ignored, without a page.
const foreign = "of another account"

// detailBooked is the detail of a notice of a movement that is booked.
const detailBooked = "known"

var errForeign = errors.New("webhook: the notice is of another account than the claim")

// apart reports whether two movements lie in different accounts. own is "" if our movement has no
// reference yet.
func apart(own, reported string) bool {
	return own != "" && psp.AccountOf(own) != psp.AccountOf(reported)
}

// copied reports whether n is about a movement in a connected account that we have not
// made, though it has our id on it: it lacks our key, or the claim waits for another
// one.
func (p *Processor) copied(provider string, rec *claim.Record, n *psp.Notice) bool {
	if psp.AccountOf(n.ProviderRef) == "" || rec.ProviderKey == "" {
		return false
	}
	return !rec.Sent(n.Key, provider) || rec.Interim != nil && rec.ProviderRef != "" && rec.ProviderRef != n.ProviderRef
}

// stranger is the result for a notice that fits nothing: an operator looks, unless it
// is only about another's account.
func (p *Processor) stranger(ctx context.Context, m outbox.Message, n *psp.Notice, detail string) outbox.Disposition {
	if psp.AccountOf(n.ProviderRef) != "" {
		return p.close(ctx, m, Ignored, foreign)
	}
	return outbox.Parked(detail)
}

// learn settles the claim by the notice, unless somebody holds it, or the notice alone does not settle
// it and the next attempt is not due. pause is when to retry then: as soon as the lease lapses, as the
// recovery of a claim whose provider has no look-ups takes the lease again and again, without a result.
func (p *Processor) learn(ctx context.Context, provider string, rec *claim.Record, n *psp.Notice) (_ claim.Record, _ bool, pause time.Duration, err error) {
	pause = lookAgain
	call, found, err := p.c.Calls.Message(ctx, rec.Home, n.Reference)
	if err != nil {
		return claim.Record{}, false, 0, err
	}
	if found {
		// A notice about another amount than requested settles nothing. A refund need
		// not have the amount, and never has the currency: its charge does.
		in, err := payment.Parse(payment.Operation(rec.Operation), call.Payload)
		if err == nil && !in.Operation.GivesBack() && in.Account() != psp.AccountOf(n.ProviderRef) || p.copied(provider, rec, n) {
			return claim.Record{}, false, 0, errForeign
		}
		says, ref := provider, n.ProviderRef
		if in.Holds() {
			says, ref = "", "" // it may be captured in part: ask the provider for the amount
		}
		if err == nil && (in.Holds() || (in.Amount == 0 || in.Amount == n.Amount) && (in.Currency == "" || in.Currency == n.Currency)) {
			result := p.c.Learn(ctx, call, says, ref, p.ends(says, rec))
			if caught := result.Fault(); caught != nil {
				return claim.Record{}, false, 0, caught
			}
			if d, later := result.Delay(); later {
				pause = min(pause, d)
			}
		}
	}
	learned, found, err := p.c.Claims.ByObject(ctx, rec.Home, n.Reference)
	return learned, found, pause, err
}

// ends is the generation of rec that the named provider's notice of a success ends without a question
// to it, 0 for none: the success may be an earlier generation's, of which only a provider without
// look-ups cannot be asked.
func (p *Processor) ends(provider string, rec *claim.Record) uint32 {
	at, here := p.c.Compensator.Providers.Named(provider)
	if provider == "" || !here || rec.Generation > 1 && !at.Capabilities().Blind {
		return 0
	}
	return rec.Generation
}

func (p *Processor) compensate(ctx context.Context, m outbox.Message, g Ghost) outbox.Disposition {
	return p.giveBack(ctx, m, g, func() outbox.Disposition { return p.close(ctx, m, ProcessedCompensated, g.Reason) }, outbox.Failed)
}

// Refund gives back the money of a charge whose key was canceled before its success was recorded, see
// [payment.Withdrawn]. It is the handler of [outbox.KindRefund], and tries until the money is back.
func (p *Processor) Refund(ctx context.Context, m outbox.Message) outbox.Disposition {
	var w payment.Withdrawn
	if err := json.Unmarshal(m.Payload, &w); err != nil {
		return outbox.Parked("the refund of a canceled charge cannot be read: " + err.Error())
	}
	g := Ghost{
		Tenant: m.Tenant, Object: w.Object, Home: m.Region, Provider: w.Provider, ProviderRef: w.ProviderRef,
		Amount: w.Amount, Currency: w.Currency, Reason: payment.ReasonKeyCanceled,
	}
	return p.giveBack(ctx, m, g, outbox.Done, func(detail string) outbox.Disposition {
		pause := min(max(p.c.Now().Sub(m.CreatedAt)/refundPart, refundSoonest), refundLatest)
		p.c.Logger.Warn("a canceled charge is not refunded yet", "object", g.Object, "tenant", g.Tenant, "home", g.Home, "detail", detail, "again_in", pause)
		return outbox.Later(pause)
	})
}

// The pauses of such a refund are a part of its age, within these bounds.
const (
	refundPart    = 8
	refundSoonest = time.Second
	refundLatest  = time.Hour
)

// giveBack has a ghost refunded for a row: done is its end, and again what is made of a failure.
func (p *Processor) giveBack(ctx context.Context, m outbox.Message, g Ghost, done func() outbox.Disposition, again func(detail string) outbox.Disposition) outbox.Disposition {
	log := p.c.Logger.With("row", m.ID, "object", g.Object, "tenant", g.Tenant, "home", g.Home, "provider", g.Provider, "provider_ref", g.ProviderRef)
	progress, detail, err := p.c.Compensator.Compensate(ctx, g)
	waited := p.c.Now().Sub(m.CreatedAt)
	switch {
	case progress == Compensated:
		metersOf(p.c.Meters, g.Provider).Histogram(meter.CompensationDuration).Took(ctx, waited, g.Provider)
		log.Info("ghost payment refunded", "reason", g.Reason, "time_to_compensate", waited)
		return done()
	case progress == Limbo:
		log.Error(pageLimbo, "reason", g.Reason, "detail", detail)
		return outbox.Parked("LIMBO: " + detail)
	case progress == Doubtful: // the operator was paged already
		log.Warn("ghost payment is not refunded: the provider does not show it", "reason", g.Reason, "detail", detail)
		return outbox.Parked("not given back: " + detail)
	case progress == Held: // the operator was paged for the stop, not for its cost
		if waited >= payment.PageAfter {
			if err := p.c.Compensator.Brakes.Waits(ctx, g.Provider, detail); err != nil {
				log.Warn("a payer has waited a day, and the page could not be recorded", "error", err)
			}
		}
		return outbox.Later(heldPause)
	case err != nil:
		detail = err.Error()
	}
	if waited >= payment.PageAfter {
		log.Error(pageWaiting, "waited", waited, "detail", detail)
	}
	return again(detail)
}

// late processes a refund or transfer that was made although its claim was refused, or
// that was made twice. It cannot be reversed. A transfer is booked: the books follow
// the money. A refund is left to an operator, as the notice does not name its charge.
// So is a transfer that its merchant may retry: a booking under its id would keep the
// retry from being settled.
func (p *Processor) late(ctx context.Context, m outbox.Message, n *psp.Notice, home, tenant string, second, released bool) outbox.Disposition {
	log := p.c.Logger.With("notice", m.ID, "kind", n.Kind, "object", n.Reference, "tenant", tenant, "home", home, "provider_ref", n.ProviderRef)
	if second || released || n.Kind != psp.KindTransfer {
		why := "though the merchant was sent a refusal"
		if second {
			why = "a second time"
		}
		log.Error(pageLimbo, "detail", why)
		return outbox.Parked(fmt.Sprintf("LIMBO: the provider made the %s %s %s, as %s; it cannot be taken back", n.Kind, n.Reference, why, n.ProviderRef))
	}
	switch _, err := p.c.Books.Post(ctx, ledger.Transaction{
		ID: n.Reference, Region: home, Tenant: tenant, Kind: ledger.Transfer,
		Debit: ledger.Merchant(tenant), Credit: ledger.Provider(ledger.Where(m.Operation, n.ProviderRef)), Amount: n.Amount, Currency: n.Currency,
		Object: n.Reference, Provider: m.Operation, ProviderRef: n.ProviderRef,
	}); {
	case errors.Is(err, ledger.ErrConflict):
		return outbox.Parked("the books have another transaction under " + n.Reference)
	case err != nil:
		return p.later(m, "books", err)
	}
	log.Error(pageLate)
	return p.close(ctx, m, ProcessedOK, "booked late")
}

func (p *Processor) later(m outbox.Message, what string, err error) outbox.Disposition {
	if caught := (*fault.Error)(nil); errors.As(err, &caught) {
		return outbox.Faulted(caught) // counted, so that the retries end
	}
	if errors.Is(err, claim.ErrUnstorable) { // it would be retried for ever
		return outbox.Parked("the store refuses what follows from the notice: " + err.Error())
	}
	p.c.Logger.Warn("a notice is retried: rows that it concerns cannot be read", "notice", m.ID, "rows", what, "error", err)
	return outbox.Later(unreachable)
}

// metersOf returns the metrics of a provider. What the provider of test tenants does is not counted.
func metersOf(s *meter.Set, provider string) *meter.Set {
	if provider == claim.TestProvider {
		return nil
	}
	return s
}

// closed counts n notices of a provider.
func (p *Processor) closed(n int, provider string, s Status) {
	metersOf(p.c.Meters, provider).Counter(meter.NoticesClosed).Add(int64(n), provider, strings.ToLower(string(s)))
}

func (p *Processor) close(ctx context.Context, m outbox.Message, s Status, detail string) outbox.Disposition {
	switch err := p.c.Store.Close(ctx, m.Region, m.ID, m.Fence, s, detail); {
	case err == nil:
		p.closed(1, m.Operation, s)
	case !errors.Is(err, outbox.ErrFenced):
		p.c.Logger.Warn("a notice is processed again: it could not be closed", "notice", m.ID, "error", err)
	}
	return outbox.Gone()
}

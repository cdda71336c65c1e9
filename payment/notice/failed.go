package notice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// noMoney closes a notice about a movement that never succeeded.
const noMoney = "no money moved"

// appearWithin is how long a notice waits for its region or dispute to appear in the topology: longer
// than a new one takes to reach all nodes. After that the notice belongs to another
// deployment.
const appearWithin = time.Hour

// failed processes a movement that the provider reports as failed. If it is not booked, nothing
// follows, as no merchant was sent a success; without any record of its object, a person decides. If
// it is booked, its money is back: the books reverse it, and events notify the merchant. A ghost with
// a failed refund is refunded once more.
//
// # Crash points
//
//	ask the provider | book the failure with its events | refund the ghost again | close
//
//	before the booking      nothing has happened
//	after it                the failure is there once, and with it its events; what
//	                        follows is done again
//	during the refund       see [Compensator]
//	before the close        all of it is found done
func (p *Processor) failed(ctx context.Context, m outbox.Message, n *psp.Notice) outbox.Disposition {
	prefix, code, ok := claim.ReadObjectID(n.Reference)
	if !ok || prefix != payment.Prefix(payment.Operation(n.Kind)) {
		return p.close(ctx, m, Ignored, noMoney)
	}
	home, ok := p.c.Home(code)
	switch {
	case !ok && p.c.Now().Sub(m.CreatedAt) >= appearWithin:
		return p.close(ctx, m, Ignored, "of a region that is not in the topology")
	case !ok:
		return outbox.Failed(fmt.Sprintf("%s is at home in a region of code %d, which is not in the topology", n.Reference, code))
	}
	of, booked, named, err := p.booked(ctx, m.Operation, home, n)
	if err != nil {
		return p.later(m, "books", err)
	}
	rec, found, err := p.c.Claims.ByObject(ctx, home, n.Reference)
	switch {
	case err != nil:
		return p.later(m, "claim", err)
	case !named && found && rec.State == claim.InFlight:
		// The success may be recorded after the failure: the answer to the call was lost, and the
		// provider repeats it under the same key.
		return outbox.Later(unreachable)
	case !named:
		// Read after the claim: the step that completed it has booked it.
		if of, booked, named, err = p.booked(ctx, m.Operation, home, n); err != nil {
			return p.later(m, "books", err)
		}
	}
	if booked && !named && (apart(of.ProviderRef, n.ProviderRef) || psp.AccountOf(n.ProviderRef) != "" && !rec.Sent(n.Key, m.Operation)) {
		return p.close(ctx, m, Ignored, foreign)
	}
	if booked && !named {
		if disposition, same := p.otherwise(ctx, m, n, &of, rec.Generation > 1); !same {
			return disposition
		}
	}
	if !booked && !found && of.ID == "" {
		switch _, found, err = p.forgotten(ctx, home, n.Reference); {
		case err != nil:
			return p.later(m, "unpaid", err)
		case !found: // a restore may have lost that its merchant was sent a success
			return p.stranger(ctx, m, n, "unknown charge: there is no record of "+n.Reference+", which the provider reports as failed")
		}
	}
	switch {
	case !booked:
		return p.close(ctx, m, Ignored, noMoney)
	case of.Amount != n.Amount || of.Currency != n.Currency:
		return outbox.Parked(fmt.Sprintf("the provider reports the failure of %d %s where %d %s are booked for %s", n.Amount, n.Currency, of.Amount, of.Currency, n.Reference))
	}
	_, exists, err := p.c.Books.Transaction(ctx, home, ledger.FailureID(of.ID))
	if err != nil {
		return p.later(m, "books", err)
	}
	if !exists {
		if disposition, contradicted := p.confirm(ctx, m, n, &of, rec.Generation > 1); contradicted {
			return disposition
		}
		ghost, disposition, err := p.ghostOf(ctx, &of)
		if err != nil {
			return p.later(m, "books", err)
		} else if disposition != nil {
			return *disposition
		}
		key, err := p.line(ctx, &rec, home, of.Tenant, n.Reference)
		if err != nil {
			return p.later(m, "events", err)
		}
		code := ""
		if n.Decline != nil {
			code = n.Decline.Code
		}
		posted, err := p.c.Store.Book(ctx, ledger.FailureOf(of), payment.FailedLater(payment.Fallen{
			Transaction: of, Charge: ghost.Object, Key: key, Code: code, At: n.At,
		}, p.c.Sinks))
		switch {
		case errors.Is(err, ledger.ErrConflict):
			return outbox.Parked("the books have another transaction under " + ledger.FailureID(of.ID))
		case err != nil:
			return p.later(m, "books", err)
		case posted:
			metersOf(p.c.Meters, of.Provider).Counter(meter.Fallen).Add(1, of.Provider, string(of.Kind))
			p.c.Logger.Warn("a movement failed after it was booked; its posting is reversed", "notice", m.ID, "kind", of.Kind, "object", of.Object,
				"tenant", of.Tenant, "home", home, "provider", of.Provider, "provider_ref", of.ProviderRef, "code", code)
		}
	}
	return p.afterFailure(ctx, m, home, &of)
}

// line is the key for the events of an object: its claim's. Without a claim, when rec is zero, they come
// behind those of it that still wait, as where a sink was down for longer than a claim is kept. If none
// waits it is the object's id.
func (p *Processor) line(ctx context.Context, rec *claim.Record, home, tenant, object string) (string, error) {
	if rec.Key.Value != "" || len(p.c.Sinks) == 0 {
		return cmp.Or(rec.Key.Value, object), nil
	}
	key, err := p.c.Store.Waits(ctx, home, tenant, payment.EventsOf(object))
	return cmp.Or(key, object), err
}

// booked finds the booking of n's movement. If that is not booked, of is the booking
// for n's reference under another id.
func (p *Processor) booked(ctx context.Context, provider, home string, n *psp.Notice) (of ledger.Transaction, found, named bool, err error) {
	of, found, err = p.c.Books.Transaction(ctx, home, n.Reference)
	switch {
	case err != nil:
		return of, false, false, err
	case !found && n.Kind == psp.KindRefund:
		if of, found, err = p.c.Books.GhostRefund(ctx, home, n.Reference); err != nil {
			return of, false, false, err
		}
	case n.Kind == psp.KindCharge && (!found || of.ProviderRef != n.ProviderRef):
		ghost, isGhost, err := p.c.Books.Transaction(ctx, home, ledger.GhostID(provider, n.ProviderRef))
		if err != nil || isGhost && ghost.Object == n.Reference {
			return ghost, err == nil, err == nil, err
		}
	}
	found = found && of.Provider == provider
	return of, found, found && of.ProviderRef == n.ProviderRef, nil
}

// otherwise decides what has failed if the movement that n names is not booked, and of
// is booked for the same reference. Either n is about another movement, which never
// succeeded: a charge may be retried. Or the provider uses another id in its notices,
// and it is the same movement. The provider, asked for each by its own id, decides.
// same reports that of has failed. A claim of several generations was declined before,
// so if the provider shows nothing to the contrary, n is about that decline.
func (p *Processor) otherwise(ctx context.Context, m outbox.Message, n *psp.Notice, of *ledger.Transaction, several bool) (v outbox.Disposition, same bool) {
	detail := fmt.Sprintf("the provider reports that %s failed, and %s is booked as %s", n.ProviderRef, n.Reference, of.ProviderRef)
	if provider, here := p.c.Compensator.Providers.Named(of.Provider); here && !provider.Capabilities().Blind {
		for _, ref := range []string{n.ProviderRef, of.ProviderRef} {
			found, shown, err := provider.Show(ctx, n.Kind, n.Reference, ref)
			ours := found == psp.FoundYes && shown.Reference == n.Reference
			switch {
			case found == psp.FoundUnknown, ours && shown.Outcome == psp.Unknown:
				return outbox.Failed(fmt.Sprintf("%s; it does not say what became of %s: %v", detail, ref, err)), false
			case found == psp.FoundNo && ref == n.ProviderRef: // its API may use another id
			case found == psp.FoundNo:
				return p.doubt(ctx, of.Provider, fmt.Sprintf("%s; it does not show %s", detail, ref)), false
			case ours && shown.ProviderRef == of.ProviderRef && shown.Outcome == psp.Declined:
				return v, true
			case ours && shown.ProviderRef == n.ProviderRef && shown.Outcome == psp.Declined:
				return p.close(ctx, m, Ignored, noMoney), false
			case ours && shown.ProviderRef == of.ProviderRef && ref == of.ProviderRef: // it counts
			default:
				return p.doubt(ctx, of.Provider, fmt.Sprintf("%s; for %s it shows %s", detail, ref, line(&shown))), false
			}
		}
	}
	if several {
		return p.close(ctx, m, Ignored, noMoney), false
	}
	return p.doubt(ctx, of.Provider, detail+"; it does not show that movement"), false
}

// doubt pages an operator, once for all doubtful movements, and leaves the notice to
// them.
func (p *Processor) doubt(ctx context.Context, provider, detail string) outbox.Disposition {
	if err := p.c.Compensator.Brakes.Doubts(ctx, provider, detail); err != nil {
		return outbox.Failed(err.Error())
	}
	return outbox.Parked(detail)
}

// confirm has the provider confirm that a movement has failed, if it answers look-ups: a
// notice may be out of date, and a refund follows from it. A declined payment is
// retried under the same reference, so for a claim of several generations the notice
// may be about an earlier try.
func (p *Processor) confirm(ctx context.Context, m outbox.Message, n *psp.Notice, of *ledger.Transaction, several bool) (v outbox.Disposition, contradicted bool) {
	provider, here := p.c.Compensator.Providers.Named(of.Provider)
	if !here || provider.Capabilities().Blind {
		return v, false
	}
	found, shown, err := provider.Show(ctx, n.Kind, n.Reference, of.ProviderRef)
	same := shown.ProviderRef == of.ProviderRef && shown.Reference == n.Reference
	switch {
	case found == psp.FoundUnknown, found == psp.FoundYes && same && shown.Outcome == psp.Unknown:
		return outbox.Failed(fmt.Sprintf("the provider does not show what became of %s, which it reports as failed: %v", of.ProviderRef, err)), true
	case found == psp.FoundYes && same && shown.Outcome == psp.Declined:
		return v, false
	case found == psp.FoundYes && same && shown.Outcome == psp.Approved && several:
		return p.close(ctx, m, Ignored, noMoney), true
	}
	detail := fmt.Sprintf("the provider reports that %s failed, and does not show it", of.ProviderRef)
	if found == psp.FoundYes {
		detail = fmt.Sprintf("the provider reports that %s failed, and shows %s", of.ProviderRef, line(&shown))
	}
	return p.doubt(ctx, of.Provider, detail), true
}

// ghostOf returns the ghost that a ghost's refund has refunded; the zero value for any
// other transaction.
func (p *Processor) ghostOf(ctx context.Context, of *ledger.Transaction) (ghost ledger.Transaction, v *outbox.Disposition, err error) {
	if of.Kind != ledger.GhostRefund {
		return ghost, nil, nil
	}
	ghost, found, err := p.c.Books.Transaction(ctx, of.Region, of.Reverses)
	if err == nil && !found {
		parked := outbox.Parked("the books have a refund of " + of.Reverses + " and not that ghost; run homeward ledger verify")
		return ghost, &parked, nil
	}
	return ghost, nil, err
}

// afterFailure processes what follows from a booked failure.
func (p *Processor) afterFailure(ctx context.Context, m outbox.Message, home string, of *ledger.Transaction) outbox.Disposition {
	switch of.Kind {
	case ledger.GhostRefund:
		ghost, disposition, err := p.ghostOf(ctx, of)
		if err != nil {
			return p.later(m, "books", err)
		} else if disposition != nil {
			return *disposition
		}
		return p.compensate(ctx, m, Ghost{
			Tenant: ghost.Tenant, Object: ghost.Object, Home: home, Provider: ghost.Provider, ProviderRef: ghost.ProviderRef,
			Amount: ghost.Amount, Currency: ghost.Currency, Reason: "refund_failed",
		})
	case ledger.Charge, ledger.Ghost:
		refunded, err := p.refunded(ctx, of)
		if err != nil {
			return p.later(m, "books", err)
		}
		if refunded {
			p.c.Logger.Error(pageUndone, "notice", m.ID, "object", of.Object, "tenant", of.Tenant, "home", home, "provider", of.Provider, "provider_ref", of.ProviderRef)
			return outbox.Parked(fmt.Sprintf("LIMBO: %s failed after it was booked, and money had been given back for it", of.ProviderRef))
		}
	default: // nothing follows
	}
	return p.close(ctx, m, ProcessedOK, "failed after it was booked")
}

// refunded reports whether a charge or ghost was refunded, and the refund has not failed.
func (p *Processor) refunded(ctx context.Context, of *ledger.Transaction) (bool, error) {
	all, err := p.c.Books.Reversals(ctx, of.ID)
	if err != nil {
		return false, err
	}
	sum, err := ledger.Returned(ctx, p.c.Books, all)
	return sum > 0, err
}

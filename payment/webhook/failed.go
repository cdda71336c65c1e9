package webhook

import (
	"context"
	"errors"
	"fmt"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/ledger"
	"github.com/homeward-io/homeward/payment/psp"
)

// noMoney closes a notice of what never moved any.
const noMoney = "no money moved"

// failed acts on a movement that the provider says has failed. Where it is not booked
// nothing follows, as nobody was told that it had succeeded. Where it is, it had: what
// it moved is back, so the books take it back, and whoever was told of it is told. A
// ghost whose refund has failed is refunded once more.
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
func (p *Processor) failed(ctx context.Context, m outbox.Message, n *psp.Notice) outbox.Verdict {
	prefix, code, ok := claim.ReadObjectID(n.Reference)
	if !ok || prefix != payment.Prefix(payment.Operation(n.Kind)) {
		return p.close(ctx, m, Ignored, noMoney)
	}
	home, ok := p.c.Home(code)
	if !ok {
		return outbox.Failed(fmt.Sprintf("%s is at home in a region of code %d, which is not in the topology", n.Reference, code))
	}
	of, booked, err := p.booked(ctx, m.Operation, home, n)
	if err != nil {
		return p.later(m, "books", err)
	}
	rec, found, err := p.c.Claims.ByObject(ctx, home, n.Reference)
	switch {
	case err != nil:
		return p.later(m, "claim", err)
	case !booked && found && rec.State == claim.InFlight:
		// The success may be learnt of after the failure: the answer to the call was lost,
		// and the provider repeats it under the same key.
		return outbox.Later(unreachable)
	case !booked:
		// Read after the claim: whoever completed it has booked it in the same step.
		if of, booked, err = p.booked(ctx, m.Operation, home, n); err != nil {
			return p.later(m, "books", err)
		}
	}
	switch {
	case !booked:
		return p.close(ctx, m, Ignored, noMoney)
	case of.Amount != n.Amount || of.Currency != n.Currency:
		return outbox.Parked(fmt.Sprintf("the provider tells of the failure of %d %s where %d %s are booked for %s", n.Amount, n.Currency, of.Amount, of.Currency, n.Reference))
	}
	_, known, err := p.c.Books.Transaction(ctx, home, ledger.FailureID(of.ID))
	if err != nil {
		return p.later(m, "books", err)
	}
	if !known {
		if verdict, contradicted := p.asked(ctx, n, &of); contradicted {
			return verdict
		}
		ghost, verdict, err := p.ghostOf(ctx, &of)
		if err != nil {
			return p.later(m, "books", err)
		} else if verdict != nil {
			return *verdict
		}
		key := n.Reference // whose events there are none left of to come before
		if found {
			key = rec.Key.Value
		}
		code := ""
		if n.Decline != nil {
			code = n.Decline.Code
		}
		posted, err := p.c.Store.Fail(ctx, ledger.FailureOf(of), payment.FailedLater(payment.Fallen{
			Transaction: of, Charge: ghost.Object, Key: key, Code: code, At: n.At,
		}, p.c.Sinks))
		switch {
		case errors.Is(err, ledger.ErrConflict):
			return outbox.Parked("the books have another transaction under " + ledger.FailureID(of.ID))
		case err != nil:
			return p.later(m, "books", err)
		case posted:
			p.c.Logger.Warn("a movement failed after it was booked; it is taken back", "notice", m.ID, "kind", of.Kind, "object", of.Object,
				"tenant", of.Tenant, "home", home, "provider", of.Provider, "provider_ref", of.ProviderRef, "code", code)
		}
	}
	return p.afterFailure(ctx, m, home, &of)
}

// booked finds what the movement of n is booked as.
func (p *Processor) booked(ctx context.Context, provider, home string, n *psp.Notice) (of ledger.Transaction, found bool, err error) {
	is := func(t *ledger.Transaction) bool { return t.Provider == provider && t.ProviderRef == n.ProviderRef }
	of, found, err = p.c.Books.Transaction(ctx, home, n.Reference)
	if err != nil || found && is(&of) {
		return of, found, err
	}
	switch n.Kind {
	case psp.KindRefund:
		of, found, err = p.c.Books.GhostRefund(ctx, home, n.Reference)
	case psp.KindCharge:
		of, found, err = p.c.Books.Transaction(ctx, home, ledger.GhostID(provider, n.ProviderRef))
		found = found && of.Object == n.Reference
	default:
		found = false
	}
	return of, found && err == nil && is(&of), err
}

// asked has the provider confirm that a movement has failed, where it can be asked: a
// notice may be older than what it tells of, and a refund is made on its word.
func (p *Processor) asked(ctx context.Context, n *psp.Notice, of *ledger.Transaction) (v outbox.Verdict, contradicted bool) {
	provider := p.c.Compensator.Provider
	if provider.Capabilities().Blind || provider.Name() != of.Provider {
		return v, false
	}
	found, shown, err := provider.Show(ctx, n.Kind, n.Reference, n.ProviderRef)
	same := shown.ProviderRef == n.ProviderRef && shown.Reference == n.Reference
	switch {
	case found == psp.FoundUnknown, found == psp.FoundYes && same && shown.Outcome == psp.Unknown:
		return outbox.Failed(fmt.Sprintf("the provider does not say what became of %s, which it says has failed: %v", n.ProviderRef, err)), true
	case found == psp.FoundYes && same && shown.Outcome == psp.Declined:
		return v, false
	}
	detail := fmt.Sprintf("the provider tells that %s has failed, and asked for it shows nothing of the name", n.ProviderRef)
	if found == psp.FoundYes {
		detail = fmt.Sprintf("the provider tells that %s has failed, and asked for it shows %s", n.ProviderRef, line(&shown))
	}
	if err := p.c.Compensator.Brakes.Doubts(ctx, of.Provider, detail); err != nil {
		return outbox.Failed(err.Error()), true
	}
	return outbox.Parked(detail), true
}

// ghostOf is the ghost that a ghost's refund gave back; the zero value for all else.
func (p *Processor) ghostOf(ctx context.Context, of *ledger.Transaction) (ghost ledger.Transaction, v *outbox.Verdict, err error) {
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

// afterFailure does what follows from a failure that is booked.
func (p *Processor) afterFailure(ctx context.Context, m outbox.Message, home string, of *ledger.Transaction) outbox.Verdict {
	switch of.Kind {
	case ledger.GhostRefund:
		ghost, verdict, err := p.ghostOf(ctx, of)
		if err != nil {
			return p.later(m, "books", err)
		} else if verdict != nil {
			return *verdict
		}
		return p.compensate(ctx, m, Ghost{
			Tenant: ghost.Tenant, Object: ghost.Object, Home: home, Provider: ghost.Provider, ProviderRef: ghost.ProviderRef,
			Amount: ghost.Amount, Currency: ghost.Currency, Reason: "refund_failed",
		})
	case ledger.Charge, ledger.Ghost:
		given, err := p.given(ctx, of)
		if err != nil {
			return p.later(m, "books", err)
		}
		if given {
			p.c.Logger.Error(pageUndone, "notice", m.ID, "object", of.Object, "tenant", of.Tenant, "home", home, "provider", of.Provider, "provider_ref", of.ProviderRef)
			return outbox.Parked(fmt.Sprintf("LIMBO: %s failed after it was booked, and money had been given back for it", of.ProviderRef))
		}
	}
	return p.close(ctx, m, ProcessedOK, "failed after it was booked")
}

// given reports whether money was given back for a charge or ghost, and stands.
func (p *Processor) given(ctx context.Context, of *ledger.Transaction) (bool, error) {
	all, err := p.c.Books.Reversals(ctx, of.ID)
	if err != nil {
		return false, err
	}
	for i := range all {
		if _, failure := all[i].Kind.Failed(); failure {
			continue
		}
		if _, failed, err := p.c.Books.Transaction(ctx, all[i].Region, ledger.FailureID(all[i].ID)); err != nil || !failed {
			return err == nil, err
		}
	}
	return false, nil
}

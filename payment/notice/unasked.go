package notice

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// booksAs maps kinds of movements to the transactions that book them.
var booksAs = map[psp.Kind]ledger.Kind{
	psp.KindDisputeOpened: ledger.DisputeOpened, psp.KindDispute: ledger.Dispute, psp.KindDisputeReversal: ledger.DisputeReversal,
	psp.KindDisputeWon: ledger.DisputeWon, psp.KindDisputeLost: ledger.DisputeLost,
	psp.KindRefund: ledger.ProviderRefund, psp.KindTransferReversal: ledger.TransferReversal,
}

// decisions of a dispute exclude each other: the disputed money is owed to the merchant, or is the payer's.
var decisions = map[ledger.Kind]ledger.Kind{ledger.DisputeWon: ledger.DisputeLost, ledger.DisputeLost: ledger.DisputeWon}

// unasked books a movement that the provider made without a request of ours, each once,
// by the provider's own reference of it, in the books of its charge or transfer, and
// emits events to the merchant.
//
// The steps of a dispute may be reported in any order, and some never: each books the
// opening of the dispute if that is not booked. A dispute is decided once; another decision is left to
// a person. A refund that has failed is booked as made and failed if it was not booked before.
//
// # Crash points
//
//	find what it is about | book the opening with its event | book the step with its event |
//	book a failure with its event | give a ghost back | close
//
//	before a booking        nothing has happened
//	after one               it is there once, and with it its events; a dispute without its
//	                        step is one that was opened, as it was; what follows is done again
//	while a ghost is        see [Compensator]
//	given back
//	before the close        all of it is found done
func (p *Processor) unasked(ctx context.Context, m outbox.Message, n *psp.Notice) outbox.Disposition {
	status, detail := Ignored, "nothing of ours"
	for i := range n.Unasked {
		ours, v := p.happened(ctx, m, n, &n.Unasked[i])
		if v != nil {
			return *v
		}
		if ours {
			status, detail = ProcessedOK, "booked"
		}
	}
	return p.close(ctx, m, status, detail)
}

// happened books one movement. v is the disposition of the notice, nil if it continues.
func (p *Processor) happened(ctx context.Context, m outbox.Message, n *psp.Notice, u *psp.Unasked) (ours bool, v *outbox.Disposition) {
	is := func(d outbox.Disposition) (bool, *outbox.Disposition) { return false, &d }
	if u.Kind == psp.KindPayout || u.Kind == psp.KindPayoutReversal {
		return p.payout(ctx, m, u)
	}
	kind, ok := booksAs[u.Kind]
	if !ok {
		return is(outbox.Parked(fmt.Sprintf("the provider reports a %s, a kind that this version does not have", u.Kind)))
	}
	of, found, v := p.about(ctx, m, u)
	switch {
	case v != nil || !found:
		return false, v
	case of.Currency != u.Currency || u.Amount > of.Amount:
		return is(outbox.Parked(fmt.Sprintf("the provider reports a %s of %d %s where %d %s are booked for %s; book with homeward ledger adjust what is right",
			u.Kind, u.Amount, u.Currency, of.Amount, of.Currency, of.Object)))
	}
	opened := ledger.UnaskedOf(of, ledger.DisputeOpened, cmp.Or(u.Dispute, u.ProviderRef), u.Amount)
	if u.IfOpened {
		if ok, v := p.isOpened(ctx, m, u, &opened); v != nil || !ok {
			return false, v
		}
	}
	if other, decides := decisions[kind]; decides {
		_, decided, err := p.c.Books.Transaction(ctx, of.Region, ledger.UnaskedID(other, of.Provider, u.ProviderRef))
		switch {
		case err != nil:
			return is(p.later(m, "books", err))
		case decided: // what became of its money since, no event says
			return is(outbox.Parked(fmt.Sprintf("the provider reports a %s of %s for %s, which is booked as %s; book with homeward ledger adjust what is right", kind, u.ProviderRef, of.Object, other)))
		}
	}
	steps := []ledger.Transaction{ledger.UnaskedOf(of, kind, u.ProviderRef, u.Amount)}
	switch {
	case kind == ledger.ProviderRefund && u.Failed:
		steps = append(steps, ledger.FailureOf(steps[0]))
	case kind != ledger.ProviderRefund && kind != ledger.TransferReversal && kind != ledger.DisputeOpened:
		steps = append([]ledger.Transaction{opened}, steps...)
	}
	if v := p.bookAll(ctx, m, n, u, &of, steps); v != nil {
		return false, v
	}
	if of.Kind == ledger.Ghost && (u.Failed || u.Kind == psp.KindDisputeWon) {
		// The payer had the money back, and has not any more.
		d := p.compensate(ctx, m, Ghost{
			Tenant: of.Tenant, Object: of.Object, Home: of.Region, Provider: of.Provider, ProviderRef: of.ProviderRef,
			Amount: of.Amount, Currency: of.Currency, Reason: "refund_failed",
		})
		return true, &d
	}
	return true, nil
}

// isOpened reports whether a dispute is booked as opened. Its opening may be reported
// later.
func (p *Processor) isOpened(ctx context.Context, m outbox.Message, u *psp.Unasked, opened *ledger.Transaction) (ok bool, v *outbox.Disposition) {
	_, ok, err := p.c.Books.Transaction(ctx, opened.Region, opened.ID)
	switch {
	case err != nil:
		d := p.later(m, "books", err)
		return false, &d
	case !ok && p.c.Now().Sub(m.CreatedAt) < appearWithin:
		d := outbox.Failed(fmt.Sprintf("the provider reports a %s of %s, which has no dispute in the books", u.Kind, u.Of))
		return false, &d
	}
	return ok, nil
}

// bookAll books steps, each with its events.
func (p *Processor) bookAll(ctx context.Context, m outbox.Message, n *psp.Notice, u *psp.Unasked, of *ledger.Transaction, steps []ledger.Transaction) *outbox.Disposition {
	notified := of.Kind != ledger.Ghost // no merchant was notified of a ghost
	var key string
	if notified {
		rec, _, err := p.c.Claims.ByObject(ctx, of.Region, of.Object)
		if err != nil {
			d := p.later(m, "claim", err)
			return &d
		}
		if key, err = p.line(ctx, &rec, of.Region, of.Tenant, of.Object); err != nil {
			d := p.later(m, "events", err)
			return &d
		}
	}
	for _, t := range steps {
		var events []outbox.Message
		if notified {
			events = payment.HappenedUnasked(payment.Happened{
				Transaction: t, Of: *of, Dispute: cmp.Or(u.Dispute, u.ProviderRef), Key: key, Reason: u.Reason, Status: u.Status, DueBy: u.DueBy, At: n.At,
			}, p.c.Sinks)
		}
		posted, err := p.c.Store.Book(ctx, t, events)
		switch {
		case errors.Is(err, ledger.ErrConflict):
			d := outbox.Parked(fmt.Sprintf("the books have another %s of %s than of %d %s; book with homeward ledger adjust what is right", t.Kind, u.ProviderRef, u.Amount, u.Currency))
			return &d
		case err != nil:
			d := p.later(m, "books", err)
			return &d
		case posted:
			p.c.Logger.Info("the provider moved money that we did not request", "notice", m.ID, "kind", t.Kind, "object", t.Object, "tenant", t.Tenant,
				"home", t.Region, "provider", t.Provider, "provider_ref", t.ProviderRef, "amount", t.Amount, "currency", t.Currency)
		}
	}
	return nil
}

// about finds the charge, ghost or transfer that u is about. If it is not booked, about asks the
// provider whether it is one of ours.
func (p *Processor) about(ctx context.Context, m outbox.Message, u *psp.Unasked) (of ledger.Transaction, found bool, v *outbox.Disposition) {
	is := func(d outbox.Disposition) (ledger.Transaction, bool, *outbox.Disposition) { return of, false, &d }
	if u.Reference != "" {
		prefix, home, ok := p.homeOf(u.Reference)
		if ok && (u.Kind != psp.KindTransferReversal || prefix == payment.Prefix(payment.Transfer)) {
			t, booked, err := p.c.Books.Transaction(ctx, home, u.Reference)
			switch {
			case err != nil:
				return is(p.later(m, "books", err))
			case booked && t.Provider == m.Operation && t.ProviderRef == u.Of:
				return t, true, nil
			}
		}
	}
	if u.Kind != psp.KindTransferReversal {
		all, err := p.c.Books.Incoming(ctx, m.Operation, u.Of)
		switch {
		case err != nil:
			return is(p.later(m, "books", err))
		case len(all) == 1:
			return all[0], true, nil
		case len(all) > 1:
			return is(outbox.Parked(fmt.Sprintf("the provider reports a %s of %s, which is booked in %s and in %s", u.Kind, u.Of, all[0].Region, all[1].Region)))
		}
	}
	return p.unbooked(ctx, m, u)
}

func (p *Processor) homeOf(reference string) (prefix, home string, found bool) {
	prefix, code, ok := claim.ReadObjectID(reference)
	if ok {
		home, ok = p.c.Home(code)
	}
	return prefix, home, ok
}

// unbooked decides about a movement that is not booked: it may be booked later, may
// never have been ours, or cannot be decided. If it is a ghost that is disputed, it is booked and
// not refunded meanwhile, see [Compensator].
func (p *Processor) unbooked(ctx context.Context, m outbox.Message, u *psp.Unasked) (of ledger.Transaction, found bool, v *outbox.Disposition) {
	is := func(d outbox.Disposition) (ledger.Transaction, bool, *outbox.Disposition) { return of, false, &d }
	kind := psp.KindCharge
	if u.Kind == psp.KindTransferReversal {
		kind = psp.KindTransfer
	}
	detail := fmt.Sprintf("the provider reports a %s of %s, which is not booked", u.Kind, u.Of)
	provider, named := p.c.Compensator.Providers.Named(m.Operation)
	if named && !provider.Capabilities().Blind {
		switch known, shown, err := provider.Show(ctx, kind, u.Reference, u.Of); {
		case known == psp.FoundUnknown:
			return is(outbox.Failed(fmt.Sprintf("%s; it does not say what that is: %v", detail, err)))
		case known == psp.FoundYes:
			_, home, ours := p.homeOf(shown.Reference)
			if !ours {
				return of, false, nil // another party's, who uses the same account
			}
			booked, _, err := p.c.Books.Transaction(ctx, home, shown.Reference)
			switch {
			case err != nil:
				return is(p.later(m, "books", err))
			case apart(booked.ProviderRef, u.Of):
				return of, false, nil // with our id on it
			case psp.AccountOf(u.Of) == "":
				switch rec, claimed, err := p.c.Claims.ByObject(ctx, home, shown.Reference); {
				case err != nil:
					return is(p.later(m, "claim", err))
				case claimed && rec.State == claim.InFlight:
					return is(outbox.Later(lookAgain)) // once it is booked, its merchant may refund it
				}
			}
		}
	}
	switch old := p.c.Now().Sub(m.CreatedAt) >= appearWithin; {
	case old && psp.AccountOf(u.Of) != "":
		return of, false, nil // possibly as above: the statement of that account has it
	case old:
		return is(outbox.Parked("unknown charge: " + detail))
	}
	return is(outbox.Failed(detail))
}

// payout books a payout, or its return, in the books of the whole deployment. It
// belongs to no merchant, so no event is emitted.
func (p *Processor) payout(ctx context.Context, m outbox.Message, u *psp.Unasked) (ours bool, v *outbox.Disposition) {
	is := func(d outbox.Disposition) (bool, *outbox.Disposition) { return false, &d }
	ref := u.ProviderRef
	if u.Kind == psp.KindPayoutReversal {
		ref = u.Of
	}
	homes := p.c.Homes()
	out := ledger.PayoutOf(homes[0], m.Operation, ref, u.Amount, u.Currency)
	for _, home := range homes[1:] { // which may have been the first when it was booked
		switch there, booked, err := p.c.Books.Transaction(ctx, home, out.ID); {
		case err != nil:
			return is(p.later(m, "books", err))
		case booked:
			out.Region = there.Region
		}
	}
	steps := []ledger.Transaction{out}
	if u.Kind == psp.KindPayoutReversal {
		steps = append(steps, ledger.PayoutBackOf(out, u.ProviderRef))
	}
	for _, t := range steps {
		switch _, err := p.c.Books.Post(ctx, t); {
		case errors.Is(err, ledger.ErrConflict):
			return is(outbox.Parked(fmt.Sprintf("the books have another %s %s than of %d %s; book with homeward ledger adjust what is right", t.Kind, ref, u.Amount, u.Currency)))
		case err != nil:
			return is(p.later(m, "books", err))
		}
	}
	return true, nil
}

package notice

import (
	"context"
	"fmt"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// codeOrderFailed is the decline of a capture or cancellation that had no effect.
const codeOrderFailed = "order_failed"

// wordOf returns what n reports about a charge whose money is held; 0 for nothing.
func wordOf(n *psp.Notice) claim.HeldWord {
	switch {
	case !n.Held:
		return 0
	case n.Outcome == psp.Authorized:
		return claim.HeldStill
	case n.Outcome == psp.Approved:
		return claim.HeldCaptured
	case n.Outcome == psp.Declined && !n.Never:
		return claim.HeldReleased
	default:
		return 0
	}
}

// held processes a notice about held money from a provider without look-ups. The charge follows it,
// and then the order that it answers, if any. An order that failed is closed first, as another
// order may take the charge from then on. done is false if the notice is to be processed like any
// other, about a charge that is settled by now.
//
// # Crash points
//
//	close the order that failed | the charge follows | the order that succeeded reads it | close
//
// Each step finds what it did before: the notice is processed again until the last
// step.
func (p *Processor) held(ctx context.Context, m outbox.Message, n *psp.Notice) (v outbox.Disposition, done bool) {
	provider, here := p.c.Compensator.Providers.Named(m.Operation)
	word := wordOf(n)
	_, home, ok := p.homeOf(n.Reference)
	if word == 0 || !ok || !here || !provider.Capabilities().Blind {
		return v, false
	}
	if word == claim.HeldStill {
		if v, waits := p.ordered(ctx, m, n, word); waits {
			return v, true
		}
	}
	rec, found, err := p.c.Claims.ByObject(ctx, home, n.Reference)
	if err != nil {
		return p.later(m, "claim", err), true
	}
	if found && rec.State == claim.InFlight && word == claim.HeldReleased && (lapsed(n) || len(n.Unasked) > 0) && underOrder(&rec) {
		return outbox.Later(unreachable), true // what was captured has not lapsed: the capture's notice says
	}
	if found && rec.State == claim.InFlight {
		if v, waits := p.learnHeld(ctx, m, n, &rec, word); waits {
			return v, true
		}
	}
	switch {
	case word == claim.HeldStill && n.Order == "" && found && rec.State == claim.FailedTerminal:
		return p.letGo(ctx, m, n, provider, &rec), true
	case word == claim.HeldStill:
		return p.close(ctx, m, ProcessedOK, "held"), true
	}
	if v, waits := p.ordered(ctx, m, n, word); waits {
		return v, true
	}
	if word == claim.HeldReleased && len(n.Unasked) > 0 {
		switch booked, err := p.c.Books.Incoming(ctx, m.Operation, n.ProviderRef); {
		case err != nil:
			return p.later(m, "books", err), true
		case len(booked) > 0: // it was captured, and is refunded
			return p.unasked(ctx, m, n), true
		}
	}
	if word == claim.HeldReleased {
		// For a captured charge this is the rest; the captured money has moved.
		return p.close(ctx, m, ProcessedOK, "let go"), true
	}
	return v, false
}

func lapsed(n *psp.Notice) bool { return n.Decline != nil && n.Decline.Code == psp.CodeLapsed }

// underOrder reports whether a capture or cancellation of a charge is under way.
func underOrder(rec *claim.Record) bool {
	return rec.Interim != nil && rec.Interim.By != "" && rec.Interim.By != rec.Minted.ID
}

// learnHeld has a charge in flight follow the notice. waits reports that the notice has to wait.
func (p *Processor) learnHeld(ctx context.Context, m outbox.Message, n *psp.Notice, rec *claim.Record, word claim.HeldWord) (v outbox.Disposition, waits bool) {
	call, found, err := p.c.Calls.Message(ctx, rec.Home, n.Reference)
	switch {
	case err != nil:
		return p.later(m, "claim", err), true
	case !found:
		return outbox.Later(lookAgain), true
	}
	in, err := payment.Parse(payment.Charge, call.Payload)
	switch {
	case err != nil || !in.Holds():
		return outbox.Parked("the provider reports money that " + n.Reference + " holds, which was not to hold any"), true
	case word == claim.HeldCaptured && (n.Currency != in.Currency || n.Amount > in.Amount):
		return outbox.Parked(fmt.Sprintf("the provider reports a capture of %d %s where %s holds %d %s", n.Amount, n.Currency, n.Reference, in.Amount, in.Currency)), true
	}
	learned := p.c.LearnHeld(ctx, call, claim.Held{By: m.Operation, Ref: n.ProviderRef, Order: n.Order, Word: word, Amount: n.Amount, Currency: n.Currency})
	if caught := learned.Fault(); caught != nil {
		return outbox.Faulted(caught), true
	}
	if d, later := learned.Delay(); later {
		return outbox.Later(min(lookAgain, d)), true
	}
	now, found, err := p.c.Claims.ByObject(ctx, rec.Home, n.Reference)
	switch {
	case err != nil:
		return p.later(m, "claim", err), true
	case found && now.State == claim.InFlight && word != claim.HeldStill:
		return outbox.Later(lookAgain), true
	}
	return v, false
}

// ordered has the capture or cancellation that n answers follow, if it is in flight.
func (p *Processor) ordered(ctx context.Context, m outbox.Message, n *psp.Notice, word claim.HeldWord) (v outbox.Disposition, waits bool) {
	prefix, home, ok := p.homeOf(n.Order)
	if !ok || prefix != payment.Prefix(payment.Capture) && prefix != payment.Prefix(payment.Cancel) {
		return v, false
	}
	rec, found, err := p.c.Claims.ByObject(ctx, home, n.Order)
	switch {
	case err != nil:
		return p.later(m, "claim", err), true
	case !found || rec.State != claim.InFlight || rec.Minted.ID != n.Order:
		return v, false
	}
	call, found, err := p.c.Calls.Message(ctx, home, n.Order)
	switch {
	case err != nil:
		return p.later(m, "claim", err), true
	case !found:
		return outbox.Later(lookAgain), true
	}
	var disposition outbox.Disposition
	if word == claim.HeldStill {
		disposition = p.c.LearnRefusal(ctx, call, m.Operation, codeOrderFailed, rec.Generation)
	} else {
		disposition = p.c.LearnHeld(ctx, call, claim.Held{By: m.Operation, Ref: n.ProviderRef, Order: n.Order, Word: word, Amount: n.Amount, Currency: n.Currency})
	}
	if caught := disposition.Fault(); caught != nil {
		return outbox.Faulted(caught), true
	}
	if d, later := disposition.Delay(); later {
		return outbox.Later(min(lookAgain, d)), true
	}
	if rec, found, err = p.c.Claims.ByObject(ctx, home, n.Order); err != nil {
		return p.later(m, "claim", err), true
	}
	return outbox.Later(lookAgain), found && rec.State == claim.InFlight
}

// inVain lets go of money that a provider with look-ups holds, and that its claim has not found before
// it ended. A claim in flight may find it yet.
func (p *Processor) inVain(ctx context.Context, m outbox.Message, n *psp.Notice) outbox.Disposition {
	provider, here := p.c.Compensator.Providers.Named(m.Operation)
	_, home, ok := p.homeOf(n.Reference)
	if !ok || !here || n.ProviderRef == "" {
		return p.close(ctx, m, Ignored, noMoney)
	}
	rec, found, err := p.c.Claims.ByObject(ctx, home, n.Reference)
	switch {
	case err != nil:
		return p.later(m, "claim", err)
	case found && rec.State == claim.InFlight && rec.Interim == nil:
		return outbox.Later(lookAgain)
	case !found, rec.State == claim.InFlight, rec.State != claim.FailedTerminal && rec.ProviderRef == n.ProviderRef,
		!claim.MayCall(rec.Key.Tenant, m.Operation), psp.AccountOf(n.ProviderRef) != "" && !rec.Sent(n.Key, m.Operation):
		return p.close(ctx, m, Ignored, noMoney)
	}
	switch found, shown, err := provider.Show(ctx, n.Kind, n.Reference, n.ProviderRef); {
	case found == psp.FoundUnknown:
		return outbox.Failed(fmt.Sprintf("the provider reports that it holds %s for %s, for which no merchant waits, and does not show it: %v", n.ProviderRef, n.Reference, err))
	case found == psp.FoundNo, shown.Reference != n.Reference, shown.Outcome != psp.Authorized:
		return p.close(ctx, m, Ignored, noMoney)
	}
	return p.letGo(ctx, m, n, provider, &rec)
}

// letGo cancels a hold for a charge whose merchant was sent a refusal: no one will
// capture it, and the payer has the money back before the hold lapses.
func (p *Processor) letGo(ctx context.Context, m outbox.Message, n *psp.Notice, provider psp.Provider, rec *claim.Record) outbox.Disposition {
	r := provider.Cancel(ctx, psp.Call{
		Kind: psp.KindCancel, Key: n.Reference + ":let-go", Reference: n.Reference, Of: n.Reference, Amount: n.Amount, Currency: n.Currency,
		Source: n.ProviderRef, Tenant: payment.ShownTenant(rec.Key.Tenant), Home: rec.Home,
	})
	if r.Outcome == psp.Unknown {
		return outbox.Failed(fmt.Sprintf("money is held for %s, for which no merchant waits, and could not be released: %v", n.Reference, r.Err))
	}
	return p.close(ctx, m, ProcessedOK, "let go")
}

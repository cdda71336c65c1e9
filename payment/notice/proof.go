package notice

import (
	"context"
	"fmt"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
)

// again makes the key of each refund of a ghost another one.
func (g *Ghost) again() string {
	if g.failed == 0 {
		return ""
	}
	return fmt.Sprintf("\x00%d", g.failed)
}

// returned reports whether the payer got g back without us, by a manual refund at the
// provider or by a dispute: Pending if not.
func (c *Compensator) returned(ctx context.Context, g *Ghost) (p Progress, detail string, err error) {
	sum, err := ledger.ReturnedWithout(ctx, c.Books, g.Home, ledger.GhostID(g.Provider, g.ProviderRef))
	switch {
	case err != nil:
		return Pending, "", fmt.Errorf("webhook: the books could not be read: %w", err)
	case sum >= g.Amount:
		return Compensated, "the payer has it back by the provider", nil
	case sum > 0:
		return Limbo, fmt.Sprintf("the payer has %d of %d %s back by the provider; decide by hand about the rest", sum, g.Amount, g.Currency), nil
	default:
		return Pending, "", nil
	}
}

// wanted reports whether g is to be refunded now: Pending without detail if so.
//
// It asks a provider with look-ups for the movement by the provider's id: a notice may be
// out of date, and the notice of the movement's failure is closed if it comes first. If
// another movement is booked for the same object, the refund needs proof that there are
// two: a provider that uses another id in its notices than in its answers would
// otherwise have every good charge refunded. The proof is that the provider, asked for
// each by its own id, shows both, for our reference, with the known data.
func (c *Compensator) wanted(ctx context.Context, g *Ghost) (p Progress, detail string, err error) {
	unread := func(err error) (Progress, string, error) {
		return Pending, "", fmt.Errorf("webhook: the books could not be read: %w", err)
	}
	ghost, isBooked, err := c.Books.Transaction(ctx, g.Home, ledger.GhostID(g.Provider, g.ProviderRef))
	switch {
	case err != nil:
		return unread(err)
	case isBooked:
		if _, failed, err := c.Books.Transaction(ctx, g.Home, ledger.FailureID(ghost.ID)); err != nil {
			return unread(err)
		} else if failed {
			return Compensated, takenBack, nil
		}
		// A ghost that waits for a release asks no provider.
		if reason, err := c.Brakes.Held(ctx, g.Provider); err != nil || reason != "" {
			if err != nil {
				return Pending, "", err
			}
			return Held, reason, nil
		}
	}
	own, paid, err := c.Books.Transaction(ctx, g.Home, g.Object)
	provider, here := c.Providers.Named(g.Provider)
	asks := here && !provider.Capabilities().Blind
	is := psp.Movement{ProviderRef: g.ProviderRef, Reference: g.Object, Amount: g.Amount, Currency: g.Currency, Outcome: psp.Approved}
	switch {
	case err != nil:
		return unread(err)
	case !paid && !here:
		return Pending, notHere(g.Provider), nil
	case !paid && !asks:
		return Pending, "", nil
	case !paid:
		return c.refundIfPaid(ctx, g, provider, is, ghost, isBooked)
	case own.Provider == g.Provider && own.ProviderRef == g.ProviderRef:
		return Pending, "the movement has been booked as a charge meanwhile", nil
	case !here:
		return Pending, notHere(g.Provider), nil
	}
	payer, here := c.Providers.Named(own.Provider)
	switch {
	case !here:
		return Pending, notHere(own.Provider), nil
	case !asks || payer.Capabilities().Blind:
		return c.doubt(ctx, g, fmt.Sprintf("%s is booked as %s, and the provider has no look-ups to show whether %s is another movement", g.Object, own.ProviderRef, g.ProviderRef))
	}
	first := psp.Movement{ProviderRef: own.ProviderRef, Reference: g.Object, Amount: own.Amount, Currency: own.Currency, Outcome: psp.Approved}
	for _, at := range []struct {
		provider psp.Provider
		is       psp.Movement
	}{{payer, first}, {provider, is}} {
		switch shows, p, detail, err := c.shown(ctx, g, at.provider, at.is); shows {
		case psp.Approved:
		case psp.Declined:
			return c.doubt(ctx, g, detail)
		default:
			return p, detail, err
		}
	}
	return Pending, "", nil
}

// notHere is why a movement cannot be verified: only a node with its provider can.
func notHere(provider string) string {
	return "this node does not have the provider " + provider + ", and cannot ask it for what it shows"
}

const takenBack = "the provider has taken the movement back itself"

// refundIfPaid is wanted for a ghost of an object without another paid movement. A movement that
// the provider shows as failed needs no refund. If it is booked, its failure is booked, too: the
// notice of it may have been closed before the ghost was booked. Posting it twice changes nothing,
// and no event is emitted for a ghost. While the provider does not answer, the ghost is booked, as
// the payer may be waiting, and is not refunded.
func (c *Compensator) refundIfPaid(ctx context.Context, g *Ghost, provider psp.Provider, is psp.Movement, ghost ledger.Transaction, isBooked bool) (Progress, string, error) {
	shows, p, detail, err := c.shown(ctx, g, provider, is)
	if waits := shows == psp.Unknown && p == Pending && err == nil; waits && !isBooked {
		if p, conflict, err := c.book(ctx, g); p != Pending || conflict != "" || err != nil {
			return p, conflict, err
		}
	}
	if shows != psp.Declined {
		return p, detail, err
	}
	if isBooked {
		if _, err := c.Books.Post(ctx, ledger.FailureOf(ghost)); err != nil {
			return Pending, "", fmt.Errorf("webhook: the failure of a ghost could not be booked: %w", err)
		}
	}
	return Compensated, takenBack, nil
}

// shown has a provider show a movement: Approved if it counts, Declined if the provider shows it as
// failed, with detail. Otherwise p, detail and err are the result.
func (c *Compensator) shown(ctx context.Context, g *Ghost, provider psp.Provider, is psp.Movement) (shows psp.Outcome, p Progress, detail string, err error) {
	found, shown, err := provider.Show(ctx, psp.KindCharge, g.Object, is.ProviderRef)
	g.disputed, shown.Disputed = shown.Disputed, 0 // of a ghost beside a payment, that of the ghost comes last
	same := shown.ProviderRef == is.ProviderRef && shown.Reference == is.Reference
	switch {
	case found == psp.FoundNo:
		p, detail, err = c.doubt(ctx, g, fmt.Sprintf("the provider has no movement %s, which it reports for %s", is.ProviderRef, g.Object))
		return psp.Unknown, p, detail, err
	case found != psp.FoundYes, same && shown.Outcome == psp.Unknown:
		return psp.Unknown, Pending, fmt.Sprintf("the provider does not say what became of the movement %s: %v", is.ProviderRef, err), nil
	case shown == is:
		return psp.Approved, Pending, "", nil
	}
	detail = fmt.Sprintf("for %s the provider shows %s", line(&is), line(&shown))
	if same && shown.Outcome == psp.Declined {
		return psp.Declined, Pending, detail, nil
	}
	p, detail, err = c.doubt(ctx, g, detail)
	return psp.Unknown, p, detail, err
}

func line(m *psp.Movement) string {
	return fmt.Sprintf("%s of %d %s for %q, %s", m.ProviderRef, m.Amount, m.Currency, m.Reference, m.Outcome)
}

// doubt pages an operator, once for all doubtful movements, and leaves g alone.
func (c *Compensator) doubt(ctx context.Context, g *Ghost, detail string) (Progress, string, error) {
	if err := c.Brakes.Doubts(ctx, g.Provider, detail); err != nil {
		return Pending, "", err
	}
	return Doubtful, detail, nil
}

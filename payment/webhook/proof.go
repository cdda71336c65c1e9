package webhook

import (
	"context"
	"fmt"

	"github.com/homeward-io/homeward/payment/ledger"
	"github.com/homeward-io/homeward/payment/psp"
)

// again makes the key of each refund of a ghost another one.
func (g *Ghost) again() string {
	if g.failed == 0 {
		return ""
	}
	return fmt.Sprintf("\x00%d", g.failed)
}

// wanted says whether g is to be given back now: Pending without detail where it is.
//
// Beside a movement that is booked for the same object, it takes proof that there are
// two: a provider that calls one movement by another name in its webhooks than in its
// answers would have every good charge refunded. The proof is that the provider, asked
// for each by its own id, shows each, for our reference, with what we know of it.
func (c *Compensator) wanted(ctx context.Context, g *Ghost) (p Progress, detail string, err error) {
	unread := func(err error) (Progress, string, error) {
		return Pending, "", fmt.Errorf("webhook: the books could not be read: %w", err)
	}
	switch ghost, booked, err := c.Books.Transaction(ctx, g.Home, ledger.GhostID(g.Provider, g.ProviderRef)); {
	case err != nil:
		return unread(err)
	case booked:
		if _, failed, err := c.Books.Transaction(ctx, g.Home, ledger.FailureID(ghost.ID)); err != nil {
			return unread(err)
		} else if failed {
			return Compensated, "the provider has taken the movement back itself", nil
		}
		// What waits for a release asks no provider meanwhile.
		if reason, err := c.Brakes.Held(ctx, g.Provider); err != nil || reason != "" {
			if err != nil {
				return Pending, "", err
			}
			return Held, reason, nil
		}
	}
	own, paid, err := c.Books.Transaction(ctx, g.Home, g.Object)
	switch {
	case err != nil:
		return unread(err)
	case !paid:
		return Pending, "", nil
	case own.Provider != g.Provider:
		return c.doubt(ctx, g, fmt.Sprintf("%s is booked at the provider %s, as %s", g.Object, own.Provider, own.ProviderRef))
	case own.ProviderRef == g.ProviderRef:
		return Pending, "the movement has been booked as a charge meanwhile", nil
	case c.Provider.Name() != g.Provider:
		return Pending, "the provider " + g.Provider + " is not the one in use, and cannot be asked for what it shows", nil
	case c.Provider.Capabilities().Blind:
		return c.doubt(ctx, g, fmt.Sprintf("%s is booked as %s, and the provider cannot be asked whether %s is another movement", g.Object, own.ProviderRef, g.ProviderRef))
	}
	for _, is := range []psp.Movement{
		{ProviderRef: own.ProviderRef, Reference: g.Object, Amount: own.Amount, Currency: own.Currency, Outcome: psp.Approved},
		{ProviderRef: g.ProviderRef, Reference: g.Object, Amount: g.Amount, Currency: g.Currency, Outcome: psp.Approved},
	} {
		found, shown, err := c.Provider.Show(ctx, psp.KindCharge, g.Object, is.ProviderRef)
		switch {
		case found == psp.FoundNo:
			return c.doubt(ctx, g, fmt.Sprintf("the provider has no movement %s, which it tells of for %s beside %s", is.ProviderRef, g.Object, own.ProviderRef))
		case found != psp.FoundYes:
			return Pending, fmt.Sprintf("the provider does not say whether there is a movement %s: %v", is.ProviderRef, err), nil
		case shown != is:
			return c.doubt(ctx, g, fmt.Sprintf("asked for %s, the provider shows %s", line(&is), line(&shown)))
		}
	}
	return Pending, "", nil
}

func line(m *psp.Movement) string {
	return fmt.Sprintf("%s of %d %s for %q, %s", m.ProviderRef, m.Amount, m.Currency, m.Reference, m.Outcome)
}

// doubt calls somebody, once for all that is doubtful, and leaves g alone.
func (c *Compensator) doubt(ctx context.Context, g *Ghost, detail string) (Progress, string, error) {
	if err := c.Brakes.Doubts(ctx, g.Provider, detail); err != nil {
		return Pending, "", err
	}
	return Doubtful, detail, nil
}

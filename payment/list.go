package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

// List is which charges of a tenant [Present.Charges] lists.
type List struct {
	Tenant string
	// Charge is the id of one, which is listed alone, if it is there; "" for any.
	Charge string
	// OrderID is theirs; "" for any.
	OrderID string
	// From and Until are when they were created: From is included, Until is not. Zero is no bound.
	From, Until time.Time
	// After or Before is the id of a charge: those are listed that come behind it, or just before it.
	// One of them is "".
	After, Before string
	// Limit is how many are listed at most.
	Limit int
}

// CursorError: a list was asked for from a charge that the tenant does not have.
type CursorError struct{ ID string }

func (e *CursorError) Error() string { return "payment: there is no charge " + e.ID + " to list from" }

// Charges lists charges for which money moved, as the books have them, the latest first. more reports
// whether there are more in the direction that was asked for.
//
// It reads the books of every region, and fails with an error of package claim where it cannot reach
// those of one: a list without them would look whole.
func (p *Present) Charges(ctx context.Context, l List) (page []json.RawMessage, more bool, err error) {
	if l.Charge != "" {
		one, err := p.listed(ctx, l.Tenant, l.Charge)
		if err == nil {
			page, err = p.items(ctx, one)
		}
		return page, false, err
	}
	c := ledger.Charges{
		Tenant: l.Tenant, Order: l.OrderID, After: ledger.Position{At: l.From}, Before: ledger.Position{At: l.Until}, Latest: l.Before == "", Limit: l.Limit + 1,
	}
	for id, bound := range map[string]*ledger.Position{l.After: &c.Before, l.Before: &c.After} {
		if id == "" {
			continue
		}
		at, err := p.place(ctx, l.Tenant, id)
		if err != nil {
			return nil, false, err
		}
		if bound.At.IsZero() || at.Before(*bound) == c.Latest {
			*bound = at
		}
	}
	all, err := everywhere(ctx, p.Homes(), func(ctx context.Context, home string) ([]ledger.Transaction, error) {
		return p.Books.Charges(ctx, home, c)
	})
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(all, func(a, b ledger.Transaction) int { return c.Compare(&a, &b) })
	if more = len(all) > l.Limit; more {
		all = all[:l.Limit]
	}
	if !c.Latest {
		slices.Reverse(all)
	}
	page, err = p.items(ctx, all)
	return page, more, err
}

// place returns the position of a tenant's charge.
func (p *Present) place(ctx context.Context, tenant, id string) (ledger.Position, error) {
	found, err := p.listed(ctx, tenant, id)
	if err == nil && len(found) == 0 {
		err = &CursorError{id}
	}
	if err != nil {
		return ledger.Position{}, err
	}
	return ledger.Position{At: found[0].Created, ID: id}, nil
}

// listed reads a tenant's charge as the lists have it: none if it is in no list.
func (p *Present) listed(ctx context.Context, tenant, id string) ([]ledger.Transaction, error) {
	prefix, code, ok := claim.ReadObjectID(id)
	if !ok || prefix != Prefix(Charge) {
		return nil, nil
	}
	home, ok := p.Home(code)
	if !ok {
		return nil, fmt.Errorf("%w: region code %d is not in this node's topology", claim.ErrHomeUnreachable, code)
	}
	found, err := p.Books.Named(ctx, home, []string{id})
	return slices.DeleteFunc(found, func(t ledger.Transaction) bool { return t.Tenant != tenant || t.Kind != ledger.Charge }), err
}

// everywhere lists what read returns of all regions.
func everywhere[T any](ctx context.Context, homes []string, read func(ctx context.Context, home string) ([]T, error)) ([]T, error) {
	of := make([][]T, len(homes))
	g, ctx := errgroup.WithContext(ctx)
	for i, home := range homes {
		g.Go(func() (err error) {
			of[i], err = read(ctx, home)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(of...), nil
}

// items renders charges with what the books have about them since.
func (p *Present) items(ctx context.Context, charges []ledger.Transaction) ([]json.RawMessage, error) {
	page := make([]json.RawMessage, 0, len(charges))
	if len(charges) == 0 {
		return page, nil
	}
	of := map[string]*facts{}
	var homes, ids []string
	for i := range charges {
		t := &charges[i]
		of[t.ID] = &facts{id: t.ID}
		ids = append(ids, t.ID)
		if !slices.Contains(homes, t.Region) {
			homes = append(homes, t.Region)
		}
	}
	all, missing := ledger.Everything(ctx, p.Books, homes, ids...)
	if len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	byID := map[string]*ledger.Transaction{}
	for i := range all {
		byID[all[i].ID] = &all[i]
	}
	for i := range all {
		t := &all[i]
		for t != nil && of[t.Object] == nil { // a refund, or what has become of it
			t = byID[t.Reverses]
		}
		if t != nil {
			of[t.Object].all = append(of[t.Object].all, all[i])
		}
	}
	for i := range charges {
		f := of[charges[i].ID]
		f.sort(charges[i].Tenant)
		if f.own == nil {
			return nil, fmt.Errorf("%w: %s has left the books since it was listed", claim.ErrUnavailable, f.id)
		}
		page = append(page, append(f.alone(f.own, statusSucceeded), '}'))
	}
	return page, nil
}

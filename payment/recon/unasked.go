package recon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// KindConversion is the exchange of a line's money into the currency that it settles in.
const KindConversion psp.Kind = "conversion"

// unaskedKinds are the kinds of transactions that a statement has beside charges, transfers and
// refunds.
var unaskedKinds = map[ledger.Kind]psp.Kind{
	ledger.Dispute: psp.KindDispute, ledger.DisputeReversal: psp.KindDisputeReversal, ledger.TransferReversal: psp.KindTransferReversal,
	ledger.Payout: psp.KindPayout, ledger.PayoutReversal: psp.KindPayoutReversal, ledger.TopUp: psp.KindTopUp,
	ledger.Fee: psp.KindFee, ledger.FeeRefund: psp.KindFeeRefund, ledger.Conversion: KindConversion,
}

// bookedAs is the inverse of unaskedKinds, for the kinds that notices report.
var bookedAs = map[psp.Kind]ledger.Kind{
	psp.KindDispute: ledger.Dispute, psp.KindDisputeReversal: ledger.DisputeReversal, psp.KindTransferReversal: ledger.TransferReversal,
	psp.KindRefund: ledger.ProviderRefund,
}

// unstated reports whether a kind moves no money at a provider, so that no statement has it.
func unstated(k ledger.Kind) bool {
	return k == ledger.DisputeOpened || k == ledger.DisputeWon || k == ledger.DisputeLost || k == ledger.Adjustment
}

// byItself reports whether a line is money that belongs to no movement.
func byItself(k psp.Kind) bool {
	return k == psp.KindPayout || k == psp.KindPayoutReversal || k == psp.KindTopUp || k == psp.KindFee || k == psp.KindFeeRefund
}

// states reports whether the statement has lines of a kind. Reports without payouts, or
// without fees, are common.
func (r *run) states(kind psp.Kind) bool {
	if r.has[kind] || requestable(kind) {
		return true
	}
	if r.c.Mapping == nil || byItself(kind) || kind == KindConversion {
		return false
	}
	for _, k := range r.c.Mapping.Kinds {
		if mapped, _, ok := kindIn(k.Kind); ok && mapped == kind {
			return true
		}
	}
	return false
}

// fromStatements reports whether a kind may be booked from a statement, at the time at which that was
// compared. So it may have been stated long before.
func (r *run) fromStatements(kind psp.Kind) bool {
	switch kind {
	case psp.KindFee, psp.KindFeeRefund, psp.KindTopUp, KindConversion:
		return true // nothing else reports it
	case psp.KindPayout, psp.KindPayoutReversal:
		return r.c.Book != nil
	default:
		return false
	}
}

// ref is the object that is booked by a provider's reference.
type ref struct{ Ref, Object string }

// isNameless reports whether a line must be joined by the provider's references: it has none
// of ours, or repeats that of the charge that it is about.
func (r *run) isNameless(l *line) bool {
	return !byItself(l.Kind) && (l.Reference == "" || r.about(l))
}

// about reports whether a line's reference is that of the movement that it is about.
func (r *run) about(l *line) bool {
	prefix, _, ok := claim.ReadObjectID(l.Reference)
	return ok && (!requestable(l.Kind) || l.Kind == psp.KindRefund && l.Of != "" && prefix == payment.Prefix(payment.Charge))
}

// name joins nameless lines by the provider's references: with the bookings of the
// period, and, for the few that are left, with those of any time. What gives back a payment that is
// not booked is joined with that on the statement.
func (r *run) name(ctx context.Context) error {
	if r.names == 0 {
		return nil
	}
	for i := range r.nameless.Len() {
		objects := map[string]string{}
		if err := r.refs.Each(i, func(b ref) { objects[b.Ref] = b.Object }); err != nil {
			return fmt.Errorf("recon: %w", err)
		}
		var failed error
		if err := r.nameless.Each(i, func(l line) {
			if failed != nil {
				return
			}
			if object, booked := objects[l.ID]; booked {
				l.Reference = object
			} else if failed = r.lookUp(ctx, &l); failed != nil {
				return
			}
			if l.Reference == "" && givesBack(l.Kind) {
				failed = r.unjoined.Put(l.Of, l)
				return
			}
			failed = r.lines.Put(l.key(), l)
		}); err != nil || failed != nil {
			return fmt.Errorf("recon: %w", orError(err, failed))
		}
	}
	for i := range r.unjoined.Len() {
		stated := map[string]string{}
		if err := r.charges.Each(i, func(c ref) { stated[c.Ref] = c.Object }); err != nil {
			return fmt.Errorf("recon: %w", err)
		}
		var failed error
		if err := r.unjoined.Each(i, func(l line) {
			if failed == nil {
				l.Reference = stated[l.Of]
				failed = r.lines.Put(l.key(), l)
			}
		}); err != nil || failed != nil {
			return fmt.Errorf("recon: %w", orError(err, failed))
		}
	}
	return nil
}

// givesBack reports whether a line of a kind may be how a payer has a payment back without us.
func givesBack(k psp.Kind) bool { return k == psp.KindRefund || k == psp.KindDispute }

// back returns the line by which the payer has, or may get, the money of a movement back without us, if
// the books do not have it; nil if there is none.
func (r *run) back(ctx context.Context, o *object, home, ref string) (*line, error) {
	for i := range o.lines {
		l := &o.lines[i]
		if !givesBack(l.Kind) || l.Failed || l.Of != "" && l.Of != ref {
			continue
		}
		_, booked, err := r.transaction(ctx, home, ledger.UnaskedID(bookedAs[l.Kind], r.c.Provider, l.ID))
		if err == nil && !booked && l.Kind == psp.KindRefund {
			_, booked, err = r.ownRefund(ctx, l)
		}
		if err != nil || !booked {
			return l, err
		}
	}
	return nil, nil
}

func orError(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// lookUp finds the charge that a line is, or is about.
func (r *run) lookUp(ctx context.Context, l *line) error {
	of := l.Of
	if l.Kind == psp.KindCharge || l.Kind == psp.KindCaptureReversal {
		of = l.ID
	}
	if l.Reference != "" || of == "" || l.Kind == psp.KindTransfer || r.outside(l) {
		return ctx.Err()
	}
	all, err := r.c.Books.Incoming(ctx, r.c.Provider, of)
	if err != nil {
		return fmt.Errorf("the books cannot be read: %w", err)
	}
	if len(all) > 0 {
		l.Reference = all[0].Object
	}
	return nil
}

func (r *run) outside(l *line) bool {
	at := time.Unix(0, l.At)
	return !r.c.From.IsZero() && at.Before(r.c.From) || !r.c.To.IsZero() && !at.Before(r.c.To)
}

// reduce subtracts the uncaptured part from a charge that a statement lists whole. The rest
// of a charge that the statement does not list stays.
func (o *object) reduce() {
	var kept, rests []line
	for _, l := range o.lines {
		if l.Kind == psp.KindCaptureReversal {
			rests = append(rests, l)
		} else {
			kept = append(kept, l)
		}
	}
	for _, l := range rests {
		listed := false
		for i := range kept {
			if c := &kept[i]; c.Kind == psp.KindCharge && c.ID == l.ID && !c.Failed {
				c.Amount, c.Gross, c.Fee, listed = c.Amount-l.Amount, c.Gross-l.Gross, c.Fee+l.Fee, true
			}
		}
		if !listed {
			kept = append(kept, l)
		}
	}
	o.lines = kept
}

// unbookedAside judges a movement that the provider made without us and that is not
// among the bookings of the period.
func (r *run) unbookedAside(ctx context.Context, l line) (*booking, error) {
	if r.theirs(&l) {
		return nil, nil
	}
	m := Mismatch{
		Class: UnaskedNotBooked, Reference: l.Reference, ProviderRef: l.ID, Kind: l.Kind, Stated: l.Amount, StatedCurrency: l.Currency,
		Detail: fmt.Sprintf("the provider states a %s of %s, of which no notice has come: send the notice again", l.Kind, l.Of),
	}
	_, code, ok := claim.ReadObjectID(l.Reference)
	if ok {
		m.Home, _ = r.c.Home(code)
	}
	homes := []string{m.Home}
	if m.Home == "" {
		homes = r.c.Regions
		m.Detail = fmt.Sprintf("the provider states a %s of %s, which is not in the books", l.Kind, cmp.Or(l.Of, "a payment that it does not name"))
	}
	if l.Kind == psp.KindCaptureReversal {
		m.Detail = "the provider states what was not captured of a charge that this statement does not have"
		return nil, r.found(ctx, m)
	}
	t, found, err := r.among(ctx, homes, ledger.UnaskedID(bookedAs[l.Kind], r.c.Provider, l.ID))
	if err == nil && !found && l.Kind == psp.KindRefund {
		t, found, err = r.ownRefund(ctx, &l)
	}
	if err != nil {
		return nil, err
	}
	if found && l.Failed {
		t, found, err = r.transaction(ctx, t.Region, ledger.FailureID(t.ID))
		if err != nil {
			return nil, err
		}
	}
	if found {
		b := r.booking(&t)
		return &b, nil
	}
	return nil, r.found(ctx, m)
}

// ownRefund finds a refund that we requested by the provider's id of it, among the
// refunds of its charge.
func (r *run) ownRefund(ctx context.Context, l *line) (t ledger.Transaction, found bool, err error) {
	charges, err := r.c.Books.Incoming(ctx, r.c.Provider, l.Of)
	for i := 0; i < len(charges) && err == nil; i++ {
		var all []ledger.Transaction
		all, err = r.c.Books.Reversals(ctx, charges[i].ID)
		for _, t := range all {
			if t.Provider == r.c.Provider && t.ProviderRef == l.ID {
				return t, true, nil
			}
		}
	}
	if err != nil {
		return t, false, fmt.Errorf("recon: the books cannot be read: %w", err)
	}
	return t, false, nil
}

// besides judges the fee and the conversion of a line with a movement that is booked as b.
func (r *run) besides(ctx context.Context, o *object, l *line, b *booking) error {
	if l.Fee != 0 {
		fee := ledger.FeeOf(b.Home, b.Tenant, b.Object, r.c.Provider, l.Entry, l.Fee, l.Settled)
		if err := r.onlyStated(ctx, o, l, unaskedKinds[fee.Kind], fee); err != nil {
			return err
		}
	}
	if !l.converted() {
		return nil
	}
	amount, gross := b.Amount, l.Gross
	if way(l) == went {
		amount, gross = -amount, -gross
	}
	halves := ledger.ConversionOf(b.Home, b.Tenant, b.Object, r.c.Provider, l.Entry, amount, b.Currency, gross, l.Settled)
	return r.onlyStated(ctx, o, l, KindConversion, halves[:]...)
}

func way(l *line) direction {
	if l.Failed {
		return -kinds[l.Kind]
	}
	return kinds[l.Kind]
}

// converted reports whether a line settles in another currency.
func (l *line) converted() bool { return l.Settled != "" && l.Settled != l.Currency && l.Gross > 0 }

// alone judges a line of money that belongs to no movement.
func (r *run) alone(ctx context.Context, o *object, l *line) error {
	switch l.Kind {
	case psp.KindPayout:
		return r.onlyStated(ctx, o, l, l.Kind, ledger.PayoutOf(r.c.Common, r.c.Provider, l.ID, l.Amount, l.Currency))
	case psp.KindPayoutReversal:
		out := ledger.PayoutOf(r.c.Common, r.c.Provider, l.ID, l.Amount, l.Currency)
		return r.onlyStated(ctx, o, l, l.Kind, out, ledger.PayoutBackOf(out, l.ID))
	case psp.KindTopUp:
		return r.onlyStated(ctx, o, l, l.Kind, ledger.TopUpOf(r.c.Common, r.c.Provider, l.ID, l.Amount, l.Currency))
	case psp.KindFeeRefund:
		return r.onlyStated(ctx, o, l, l.Kind, ledger.FeeOf(r.c.Common, "", "", r.c.Provider, l.Entry, -l.Amount, l.Currency))
	default:
		return r.onlyStated(ctx, o, l, l.Kind, ledger.FeeOf(r.c.Common, "", "", r.c.Provider, l.Entry, l.Amount, l.Currency))
	}
}

// onlyStated compares a line that only the statement has with its booking, or books it
// as ts, the last of which is the line itself.
func (r *run) onlyStated(ctx context.Context, o *object, l *line, kind psp.Kind, ts ...ledger.Transaction) error {
	want := &ts[len(ts)-1]
	for i := range o.bookings {
		b := &o.bookings[i]
		if b.Elsewhere || b.side() != (side{ID: want.ProviderRef, Unasked: kind}) || kind == KindConversion && b.Currency != want.Currency {
			continue
		}
		if b.Amount == want.Amount && b.Currency == want.Currency {
			r.report.Agree++
			return nil
		}
		m := b.mismatch(AmountDiffers)
		m.Kind, m.Stated, m.StatedCurrency = kind, want.Amount, want.Currency
		m.Detail = fmt.Sprintf("a %s of the line %s is stated and booked otherwise", kind, l.Entry)
		return r.found(ctx, m)
	}
	if r.c.Book == nil {
		r.report.NotBooked = count(r.report.NotBooked, kind)
		return nil
	}
	region, err := r.regionOf(ctx, &ts[0])
	if err != nil {
		return err
	}
	fresh := false
	for _, t := range ts {
		t.Region = region
		posted, err := r.c.Book(ctx, t)
		switch {
		case errors.Is(err, ledger.ErrConflict):
			return r.found(ctx, Mismatch{
				Class: AmountDiffers, Reference: l.Reference, Home: t.Region, Tenant: t.Tenant, ProviderRef: t.ProviderRef, Kind: kind,
				Stated: t.Amount, StatedCurrency: t.Currency,
				Detail: fmt.Sprintf("the books have another %s of the line %s; book with homeward ledger adjust what is right", kind, l.Entry),
			})
		case err != nil:
			return fmt.Errorf("recon: the %s of the line %s cannot be booked: %w", kind, l.Entry, err)
		}
		fresh = fresh || posted
	}
	if !fresh {
		r.report.Agree++ // booked before the period
		return nil
	}
	r.report.Posted = count(r.report.Posted, kind)
	return nil
}

// regionOf is the region in which t is booked, or is to be. What belongs to no tenant is in the books of
// the region that came first when it was booked.
func (r *run) regionOf(ctx context.Context, t *ledger.Transaction) (string, error) {
	if t.Tenant != "" {
		return t.Region, nil
	}
	there, booked, err := r.among(ctx, r.c.Regions, t.ID)
	if booked {
		return there.Region, err
	}
	return t.Region, err
}

// among finds a transaction in the books of one of some regions.
func (r *run) among(ctx context.Context, homes []string, id string) (t ledger.Transaction, found bool, err error) {
	for i := 0; i < len(homes) && err == nil && !found; i++ {
		t, found, err = r.transaction(ctx, homes[i], id)
	}
	return t, found, err
}

func count(counts map[psp.Kind]int, kind psp.Kind) map[psp.Kind]int {
	if counts == nil {
		counts = map[psp.Kind]int{}
	}
	counts[kind]++
	return counts
}

package recon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// object collects everything under one reference.
type object struct {
	lines    []line
	bookings []booking
	claim    *settled
	// stated are the movements and failures of lines.
	stated map[side]bool
}

// own is the booking of the object itself, not of ghosts or failures; nil if there is
// none.
func (o *object) own() *booking {
	for i := range o.bookings {
		switch b := &o.bookings[i]; b.Kind {
		case ledger.Charge, ledger.Transfer, ledger.Refund, ledger.GhostRefund:
			return b
		default: // about it
		}
	}
	return nil
}

func (r *run) compare(ctx context.Context) error {
	for _, e := range r.unreadable {
		if err := r.found(ctx, Mismatch{Class: UnreadableLine, Detail: fmt.Sprintf("line %d: %s", e.Line, e.Reason)}); err != nil {
			return err
		}
	}
	for i := range r.lines.Len() {
		objects := map[string]*object{}
		of := func(key string) *object {
			o := objects[key]
			if o == nil {
				o = &object{}
				objects[key] = o
			}
			return o
		}
		if err := errors.Join(
			r.lines.Each(i, func(l line) { o := of(l.key()); o.lines = append(o.lines, l) }),
			r.bookings.Each(i, func(b booking) { o := of(b.Object); o.bookings = append(o.bookings, b) }),
			r.claims.Each(i, func(s settled) { of(s.Object).claim = &s }),
		); err != nil {
			return fmt.Errorf("recon: %w", err)
		}
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := r.judge(ctx, objects[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) found(ctx context.Context, m Mismatch) error {
	r.report.Mismatches[m.Class]++
	return r.c.Found(ctx, m)
}

// judge compares the lines, bookings and claim of one reference.
func (r *run) judge(ctx context.Context, o *object) error {
	o.reduce()
	booked := make(map[side]*booking, len(o.bookings))
	var again []*booking
	for i := range o.bookings {
		switch b := &o.bookings[i]; {
		case b.Elsewhere:
		case b.Kind == ledger.Conversion: // two halves
		case booked[b.side()] != nil:
			again = append(again, b)
		default:
			booked[b.side()] = b
		}
	}
	o.stated = make(map[side]bool, len(o.lines))
	for _, l := range o.lines {
		o.stated[l.side()] = true
		switch {
		case byItself(l.Kind):
		case l.Fee > 0:
			o.stated[side{ID: l.Entry, Unasked: psp.KindFee}] = true
		case l.Fee < 0:
			o.stated[side{ID: l.Entry, Unasked: psp.KindFeeRefund}] = true
		}
		if !byItself(l.Kind) {
			o.stated[side{ID: l.Entry, Unasked: KindConversion}] = true // for a dispute it is unknown
		}
	}
	seen := make(map[side]bool, len(o.lines))
	for _, l := range o.lines {
		if seen[l.side()] {
			if err := r.found(ctx, Mismatch{
				Class: RepeatedLine, Reference: l.Reference, ProviderRef: l.ID, Kind: l.Kind, Stated: l.Amount, StatedCurrency: l.Currency,
				Detail: "the statement has this movement more than once",
			}); err != nil {
				return err
			}
			continue
		}
		seen[l.side()] = true
		if err := r.stated(ctx, o, l, booked[l.side()]); err != nil {
			return err
		}
	}
	for i := range o.bookings {
		b := &o.bookings[i]
		if b.Elsewhere || slices.Contains(again, b) {
			continue
		}
		if err := r.booked(ctx, o, b, o.stated[b.side()]); err != nil {
			return err
		}
	}
	for _, b := range again {
		m := b.mismatch(NotOnStatement)
		m.Detail = "one movement is booked a second time"
		if err := r.found(ctx, m); err != nil {
			return err
		}
	}
	return r.claimed(ctx, o)
}

// mismatch is one without a line of the statement.
func (b *booking) mismatch(c Class) Mismatch {
	return Mismatch{
		Class: c, Reference: b.Object, Home: b.Home, Tenant: b.Tenant, ProviderRef: b.Ref, Kind: kindOf(b.Kind),
		Booked: b.Amount, BookedCurrency: b.Currency,
	}
}

// stated judges a line; b is its booking among those of the period, or nil.
func (r *run) stated(ctx context.Context, o *object, l line, b *booking) error {
	if b == nil && r.outside(&l) {
		r.report.Outside++
		return nil
	}
	if byItself(l.Kind) {
		return r.alone(ctx, o, &l)
	}
	if b == nil {
		var err error
		look := r.unbooked
		switch {
		case r.about(&l), !requestable(l.Kind):
			look = func(ctx context.Context, _ *object, l line) (*booking, error) { return r.unbookedAside(ctx, l) }
		case l.Failed:
			look = r.unbookedFailure
		}
		if b, err = look(ctx, o, l); b == nil || err != nil {
			return err
		}
	}
	if !requestable(l.Kind) && l.Currency != b.Currency && l.Currency == l.Settled {
		// For a movement that no payer paid the statement may have the settled amount
		// alone.
		l.Amount, l.Currency = b.Amount, b.Currency
	}
	m := b.mismatch("")
	m.Kind, m.Stated, m.StatedCurrency = l.Kind, l.Amount, l.Currency
	switch {
	case l.Currency != b.Currency:
		m.Class, m.Detail = CurrencyDiffers, "stated in one currency and booked in another"
	case l.Kind != kindOf(b.Kind):
		m.Class, m.Detail = AmountDiffers, fmt.Sprintf("stated as a %s and booked as a %s", l.Kind, kindOf(b.Kind))
	case l.Amount != b.Amount:
		m.Class, m.Detail = AmountDiffers, fmt.Sprintf("stated and booked amounts differ by %d", l.Amount-b.Amount)
	default:
		r.report.Agree++
		return r.besides(ctx, o, &l, b)
	}
	return r.found(ctx, m)
}

// unbooked judges a movement that is not among the bookings of the period. It returns
// the booking if there is one outside of the period, or a new one.
func (r *run) unbooked(ctx context.Context, o *object, l line) (*booking, error) {
	m := Mismatch{
		Class: ChargedButUnknown, Reference: l.Reference, ProviderRef: l.ID, Kind: l.Kind, Stated: l.Amount, StatedCurrency: l.Currency,
		Detail: "this movement has no record here",
	}
	if r.theirs(&l) {
		return nil, nil
	}
	if l.Reference == "" {
		m.Detail = "the movement carries no reference of this deployment"
		return nil, r.found(ctx, m)
	}
	prefix, code, ok := claim.ReadObjectID(l.Reference)
	if ok {
		m.Home, _ = r.c.Home(code)
	}
	if m.Home == "" {
		m.Detail = "the reference is not an id of this deployment"
		return nil, r.found(ctx, m)
	}
	// With authority, and the claim first: the step that completes it books it in the same step, so
	// the books read afterwards have everything that the claim could explain.
	rec, found, err := r.c.Claims.ByObject(ctx, m.Home, l.Reference)
	if err != nil {
		return nil, fmt.Errorf("recon: the claims of %s cannot be read: %w", m.Home, err)
	}
	own, booked, err := r.transaction(ctx, m.Home, l.Reference)
	if err != nil {
		return nil, err
	}
	if booked && own.Provider == r.c.Provider && own.ProviderRef == l.ID {
		b := r.booking(&own)
		return &b, nil
	}
	ghost, isGhost, err := r.transaction(ctx, m.Home, ledger.GhostID(r.c.Provider, l.ID))
	if err != nil {
		return nil, err
	}
	if isGhost && ghost.Object == l.Reference {
		b := r.booking(&ghost)
		return &b, nil
	}
	var unpaid claim.Unpaid
	var remembered bool
	if !found && !booked {
		if unpaid, remembered, err = r.c.Claims.Unpaid(ctx, m.Home, l.Reference); err != nil {
			return nil, fmt.Errorf("recon: the refused and released objects of %s cannot be read: %w", m.Home, err)
		}
	}
	proved := true
	switch {
	case remembered:
		m.Tenant = unpaid.Tenant
		m.Detail = fmt.Sprintf("the claim was %v (%s) and was deleted: its answer on %s was that no money moved", unpaid.State, unpaid.Reason, unpaid.At.Format(time.DateOnly))
	case booked && own.Provider != r.c.Provider:
		// The provider's name in the settings may have changed since, or another was in use:
		// nothing here shows which of them is the charge that the merchant is owed.
		m.Class, m.Tenant, m.second, proved = Duplicate, own.Tenant, true, false
		m.Detail = fmt.Sprintf("booked at the provider %s, as %s: decide by hand which of them is to be given back, if they are two", own.Provider, own.ProviderRef)
	case booked:
		m.Class, m.Tenant, m.second = Duplicate, own.Tenant, true
		m.Detail, proved = o.beside(own.ProviderRef)
	case found && rec.State == claim.InFlight:
		r.report.Undecided++ // its outcome is being looked up
		return nil, nil
	case found && rec.State == claim.Completed && rec.ProviderRef == l.ID && payment.Operation(rec.Operation) == payment.Compensation:
		r.report.Undecided++ // booked in the same step, under the name of its payment
		return nil, nil
	case found && rec.State == claim.Completed && rec.ProviderRef == l.ID:
		// The merchant was sent a success for this money, and is owed it: never refund it.
		if o.claim != nil && o.claim.State == claim.Completed {
			return nil, nil // reported once, with the claim
		}
		m.Class, m.Tenant, m.Detail = ClaimWithoutBooking, rec.Key.Tenant, withoutBooking
		return nil, r.found(ctx, m)
	case found && rec.State == claim.Completed:
		m.Class, m.Tenant, m.second = Duplicate, rec.Key.Tenant, true
		m.Detail, proved = o.beside(rec.ProviderRef)
	case found:
		m.Tenant = rec.Key.Tenant
		m.Detail = fmt.Sprintf("the claim is %v (%s): its answer was that no money moved", rec.State, rec.Reason)
	}
	if o.stated[side{ID: l.ID, Failed: true}] {
		proved = false
		m.Detail += "; it has failed since, so that nothing is to be given back"
	}
	if r.c.Account != "" && m.Tenant != "" {
		proved = false
		m.Detail += "; whoever owns the account may have written our id on a payment of their own: decide by hand"
	}
	if len(r.unreadable) > 0 && m.Tenant != "" {
		proved = false // that may say that it failed
		m.Detail += "; the statement has a line that cannot be read, so that nothing is given back"
	}
	m.Refundable = proved && m.Tenant != "" && l.Kind == psp.KindCharge && prefix == payment.Prefix(payment.Charge)
	return nil, r.refundable(ctx, o, m)
}

// refundable reports m. Money that the statement shows to be with the payer is not given back again.
func (r *run) refundable(ctx context.Context, o *object, m Mismatch) error {
	if !m.Refundable {
		return r.found(ctx, m)
	}
	l, err := r.back(ctx, o, m.Home, m.ProviderRef)
	if err != nil {
		return err
	}
	if l != nil {
		m.Refundable = false
		m.Detail += fmt.Sprintf("; the statement has the %s %s of it, which is not booked: decide by hand", l.Kind, l.ID)
	}
	return r.found(ctx, m)
}

// theirs reports whether a line without a booking is a connected account's own business, and counts
// it: it has no reference of ours.
func (r *run) theirs(l *line) bool {
	theirs := r.c.Account != "" && l.Reference == ""
	if theirs {
		r.report.OtherAccount++
	}
	return theirs
}

// unbookedFailure is unbooked for the failure of a movement. Where the statement has the
// movement, too, and that is not booked either, they are judged as one.
func (r *run) unbookedFailure(ctx context.Context, o *object, l line) (*booking, error) {
	if r.theirs(&l) {
		return nil, nil
	}
	m := Mismatch{
		Class: UnaskedNotBooked, Reference: l.Reference, ProviderRef: l.ID, Kind: l.Kind, Stated: l.Amount, StatedCurrency: l.Currency,
		Detail: fmt.Sprintf("the provider states that a %s failed which is not in the books", l.Kind),
	}
	_, code, ok := claim.ReadObjectID(l.Reference)
	if ok {
		m.Home, _ = r.c.Home(code)
	}
	if m.Home == "" {
		return nil, r.alike(ctx, o, &l, m)
	}
	home := m.Home
	// The claim first, as in unbooked.
	rec, claimed, err := r.c.Claims.ByObject(ctx, home, l.Reference)
	if err != nil {
		return nil, fmt.Errorf("recon: the claims of %s cannot be read: %w", home, err)
	}
	of, found, err := r.transaction(ctx, home, l.Reference)
	is := func() bool { return found && of.Provider == r.c.Provider && of.ProviderRef == l.ID }
	if err == nil && !is() && l.Kind == psp.KindCharge {
		of, found, err = r.transaction(ctx, home, ledger.GhostID(r.c.Provider, l.ID))
	}
	if err == nil && !is() && l.Kind == psp.KindRefund {
		if of, found, err = r.c.Books.GhostRefund(ctx, home, l.Reference); err != nil {
			err = fmt.Errorf("recon: the books of %s cannot be read: %w", home, err)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case !is() && claimed && rec.State == claim.InFlight:
		r.report.Undecided++ // its outcome is being looked up
		return nil, nil
	case !is():
		if claimed {
			m.Tenant = rec.Key.Tenant
			m.Detail += fmt.Sprintf("; its claim is %v (%s)", rec.State, rec.Reason)
		}
		return nil, r.alike(ctx, o, &l, m)
	}
	failed, exists, err := r.transaction(ctx, home, ledger.FailureID(of.ID))
	if err != nil {
		return nil, err
	}
	if exists {
		b := r.booking(&failed)
		return &b, nil
	}
	b := r.booking(&of)
	m = b.mismatch(FailedButBooked)
	m.Stated, m.StatedCurrency = l.Amount, l.Currency
	m.Detail = "the provider states that it has failed since, of which no notice has come; send the notice again"
	return nil, r.found(ctx, m)
}

// alike reports m, about a failure, unless the report has its movement already.
func (r *run) alike(ctx context.Context, o *object, failure *line, m Mismatch) error {
	for i := range o.lines {
		l := &o.lines[i]
		if l.side() == (side{ID: failure.ID}) && l.Kind == failure.Kind && !r.outside(l) {
			return nil
		}
	}
	return r.found(ctx, m)
}

// beside reports that a movement is one more than ref, which was paid, and whether that
// is proved: the statement has both. Otherwise its ids may differ from those of the
// provider's answers, and the two may be one.
func (o *object) beside(ref string) (detail string, proved bool) {
	if o.stated[side{ID: ref}] {
		return "a second movement beside " + ref, true
	}
	return "booked as " + ref + ", which this statement does not have: a second movement, or the same under another id; decide by hand", false
}

const withoutBooking = "the claim is COMPLETED and its money is not booked"

// transaction reads a transaction with authority.
func (r *run) transaction(ctx context.Context, home, id string) (ledger.Transaction, bool, error) {
	t, found, err := r.c.Books.Transaction(ctx, home, id)
	if err != nil {
		return t, false, fmt.Errorf("recon: the books of %s cannot be read: %w", home, err)
	}
	return t, found, nil
}

// booked judges one transaction.
func (r *run) booked(ctx context.Context, o *object, b *booking, stated bool) error {
	if b.Kind == ledger.Ghost {
		owed, err := r.owed(ctx, b)
		if err != nil {
			return err
		}
		if owed {
			m := b.mismatch(RefundMissing)
			m.Refundable, m.Detail = true, "the payer has not got this money back yet"
			if m.second, err = r.paid(ctx, o, b); err != nil {
				return err
			}
			if err := r.refundable(ctx, o, m); err != nil {
				return err
			}
		}
	}
	if stated {
		return nil
	}
	if kind := b.side().Unasked; kind != "" && (!r.states(kind) || r.fromStatements(kind)) {
		r.report.Undecided++ // another report of the provider has it, or an earlier statement
		return nil
	}
	at := time.Unix(0, b.At)
	moved := at
	if b.Kind == ledger.Ghost { // it was booked when it surfaced, and stated when it moved
		moved = time.Time{}
		if o.claim != nil {
			moved = time.Unix(0, o.claim.At)
		}
	}
	// It may have been stated before the period, or have come after it.
	if !r.c.From.IsZero() && moved.Before(r.c.From.Add(r.c.Slack)) || !at.Before(r.end()) {
		r.report.Undecided++
		return nil
	}
	m := b.mismatch(NotOnStatement)
	m.Detail = "booked, and the provider does not state it"
	if b.side().Failed {
		m.Detail = "booked as failed after it had succeeded, and the provider does not state that it failed"
	}
	if b.Kind == ledger.Refund || b.Kind == ledger.GhostRefund || b.Kind == ledger.ProviderRefund {
		m.Class, m.Detail = RefundMissing, "booked as refunded, and the provider does not state the refund"
	}
	return r.found(ctx, m)
}

// owed reports whether the payer of a ghost has not got the money back: no refund of it counts, and
// it has not failed itself.
func (r *run) owed(ctx context.Context, b *booking) (bool, error) {
	_, refunded, err := ledger.GhostRefunds(ctx, r.c.Books, b.Home, r.c.Provider, b.Ref, ledger.MaxGhostRefunds)
	if err != nil {
		return false, fmt.Errorf("recon: the books of %s cannot be read: %w", b.Home, err)
	}
	if refunded {
		return false, nil
	}
	sum, err := ledger.ReturnedWithout(ctx, r.c.Books, b.Home, ledger.GhostID(r.c.Provider, b.Ref))
	if err != nil {
		return false, fmt.Errorf("recon: the books of %s cannot be read: %w", b.Home, err)
	}
	if sum >= b.Amount {
		return false, nil
	}
	_, failed, err := r.transaction(ctx, b.Home, ledger.FailureID(ledger.GhostID(r.c.Provider, b.Ref)))
	return !failed, err
}

// end is since when bookings may be stated after the period.
func (r *run) end() time.Time {
	if r.c.To.IsZero() && r.c.Lag == DefaultLag {
		return r.upTo
	}
	return r.upTo.Add(-r.c.Lag)
}

// paid reports whether the object of a ghost has been paid by another movement.
func (r *run) paid(ctx context.Context, o *object, b *booking) (bool, error) {
	if o.own() != nil {
		return true, nil
	}
	_, found, err := r.transaction(ctx, b.Home, b.Object)
	return found, err
}

// claimed compares the claim with the books.
func (r *run) claimed(ctx context.Context, o *object) error {
	s := o.claim
	if s == nil {
		return nil // claims are deleted after two days, the books never
	}
	own := o.own()
	m := Mismatch{Reference: s.Object, Home: s.Home, Tenant: s.Tenant, ProviderRef: s.Ref}
	switch {
	case s.State == claim.Completed && own == nil:
		// Its books are read from the period alone.
		at := time.Unix(0, s.At)
		if !r.c.From.IsZero() && at.Before(r.c.From) || !r.c.To.IsZero() && !at.Before(r.c.To) {
			return nil
		}
		m.Class, m.Detail = ClaimWithoutBooking, withoutBooking
	case s.State == claim.Completed && own.Ref != s.Ref:
		m.Class, m.Kind, m.Booked, m.BookedCurrency = ClaimWithoutBooking, kindOf(own.Kind), own.Amount, own.Currency
		m.Detail = "the claim is COMPLETED by another movement than is booked, which is " + own.Ref
	case s.State != claim.Completed && own != nil && s.Reason != claim.ReasonOutcomeUnknown:
		// It may have been released when it was read, and paid since.
		rec, found, err := r.c.Claims.ByObject(ctx, s.Home, s.Object)
		if err != nil {
			return fmt.Errorf("recon: the claims of %s cannot be read: %w", s.Home, err)
		}
		if !found || rec.State == claim.Completed || rec.State == claim.InFlight {
			return nil
		}
		m.Class, m.Kind, m.ProviderRef, m.Booked, m.BookedCurrency = BookingWithoutClaim, kindOf(own.Kind), own.Ref, own.Amount, own.Currency
		m.Detail = fmt.Sprintf("the claim is %v (%s), and money is booked", rec.State, rec.Reason)
	default:
		return nil
	}
	return r.found(ctx, m)
}

func kindOf(k ledger.Kind) psp.Kind {
	if of, failed := k.Failed(); failed {
		k = of
	}
	if unasked, is := unaskedKinds[k]; is {
		return unasked
	}
	switch k {
	case ledger.Transfer:
		return psp.KindTransfer
	case ledger.Refund, ledger.GhostRefund, ledger.ProviderRefund:
		return psp.KindRefund
	default:
		return psp.KindCharge
	}
}

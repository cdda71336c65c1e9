package payment

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
)

// Present reads objects as they are now: what their merchants were answered, and what the books have
// since. An answer that is repeated for its key is never changed by it.
type Present struct {
	Claims interface {
		// Object is claim.Service.Object.
		Object(ctx context.Context, tenant, home, id string) (o claim.Object, found bool, err error)
		// Reversing is claim.Service.Reversing.
		Reversing(ctx context.Context, tenant, home, id string, limit int) ([]claim.Reversing, error)
	}
	// Books is the part of ledger.Store that reads need.
	Books PresentBooks
	// Home is the region of a code, which lists alone need, and Homes are all regions.
	Home  func(claim.RegionCode) (region string, ok bool)
	Homes func() []string
}

// PresentBooks are books that [Present] reads.
type PresentBooks interface {
	Named(ctx context.Context, region string, ids []string) ([]ledger.Transaction, error)
	About(ctx context.Context, region string, objects ...string) ([]ledger.Transaction, error)
	Reversals(ctx context.Context, ids ...string) ([]ledger.Transaction, error)
	ReversalsAt(ctx context.Context, region, id string) ([]ledger.Transaction, error)
	Charges(ctx context.Context, region string, c ledger.Charges) ([]ledger.Transaction, error)
}

// Object returns the state of an object and its present answer, which is the stored one if that is a
// problem. The object of a claim that was deleted is made from the books.
//
// It reads with authority. A refund may be in flight and booked in any region, so the read of a charge
// fails, with an error of package claim, where it cannot reach the rows of each: an amount without them
// would be too low. The claims are read before the books: these are no older than as_of, and a refund
// that ends meanwhile is in both, and not in neither.
func (p *Present) Object(ctx context.Context, tenant, home, id string) (claim.State, claim.Response, bool, error) {
	o, found, err := p.Claims.Object(ctx, tenant, home, id)
	if err != nil || o.State == claim.InFlight && !o.Response.Sendable() {
		return o.State, o.Response, found, err // nothing else can be said of it yet
	}
	read := p.facts
	if o.State == claim.InFlight {
		read = p.before
	}
	f, err := read(ctx, tenant, home, id)
	if err != nil {
		return 0, claim.Response{}, false, err
	}
	state := claim.Completed
	if o.State == claim.InFlight && f.own == nil { // else it has ended since it was read
		state = claim.InFlight
	}
	var body []byte
	switch {
	case found && o.State == state:
		body, err = f.since(o.Response.Body)
	case f.own != nil && f.own.Kind == ledger.GhostRefund:
		body, err = p.compensation(ctx, f)
	case f.own != nil:
		body = f.alone(f.own, statusSucceeded)
	case len(f.ghosts) > 0: // refused, or given up, and its money moved all the same
		body = f.alone(f.ghosts[0], statusFailed)
	default:
		return o.State, o.Response, found, nil
	}
	return state, asOf(body, o.At), err == nil, err
}

// before is facts of an object in flight: nothing is booked but ghosts of earlier generations. Where there
// is none, as nearly always, a read of what waits needs its home alone.
func (p *Present) before(ctx context.Context, tenant, home, id string) (*facts, error) {
	about, err := p.Books.About(ctx, home, id)
	if err != nil || len(about) == 0 {
		return &facts{id: id}, err
	}
	return p.facts(ctx, tenant, home, id)
}

// compensation returns the refund of a ghost by what the books have of it. They name its charge in the
// ghost alone.
func (p *Present) compensation(ctx context.Context, f *facts) ([]byte, error) {
	own := *f.own
	ghost, err := p.Books.Named(ctx, own.Region, []string{own.Reverses})
	if err == nil && len(ghost) == 0 {
		err = fmt.Errorf("%w: the ghost that %s refunds is not in the books", claim.ErrUnavailable, f.id)
	}
	if err != nil {
		return nil, err
	}
	own.Reverses = ghost[0].Object
	return f.alone(&own, statusSucceeded), nil
}

// facts reads what the books have about an object.
func (p *Present) facts(ctx context.Context, tenant, home, id string) (*facts, error) {
	f := &facts{id: id, listed: maxRefunds}
	books := p.Books
	var open []claim.Reversing
	if prefix, _, _ := claim.ReadObjectID(id); prefix != Prefix(Charge) {
		books = atHome{p.Books, home}
	} else {
		var err error
		open, err = everywhere(ctx, p.Homes(), func(ctx context.Context, home string) ([]claim.Reversing, error) {
			return p.Claims.Reversing(ctx, tenant, home, id, maxInFlight)
		})
		if err != nil {
			return nil, err
		}
	}
	var missing []error
	if f.all, missing = ledger.Everything(ctx, books, []string{home}, id); len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	f.sort(tenant)
	return f, f.inFlight(open)
}

// Left is what of a charge has not gone back, by its refunds or by its failure, and is not on its way
// by a refund in flight other than but; open is one of those. If all has gone back, what is in flight
// will be refused: open is "". found is false if the charge is not booked.
func (p *Present) Left(ctx context.Context, tenant, charge, but string) (left int64, open string, found bool, err error) {
	_, code, _ := claim.ReadObjectID(charge)
	home, ok := p.Home(code)
	if !ok {
		return 0, "", false, nil
	}
	f, err := p.facts(ctx, tenant, home, charge)
	if err != nil || f.own == nil || f.own.Kind != ledger.Charge {
		return 0, "", false, err
	}
	left = f.own.Amount - f.returned(f.of(f.own, ledger.Refund, ledger.ProviderRefund))
	if left <= 0 || ledger.FailedSince(f.all, f.own) {
		return 0, "", true, nil
	}
	for _, t := range f.open {
		if t.ID != but {
			left, open = left-t.Amount, t.ID
		}
	}
	return left, open, true, nil
}

// inFlight keeps the refunds of the charge that are in flight, the latest first. One that is booked has
// ended since it was listed.
func (f *facts) inFlight(open []claim.Reversing) error {
	if f.own == nil || f.own.Kind != ledger.Charge {
		return nil // it refuses them
	}
	slices.SortFunc(open, func(a, b claim.Reversing) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID)) })
	for _, r := range open {
		if slices.ContainsFunc(f.all, func(t ledger.Transaction) bool { return t.ID == r.ID }) {
			continue
		}
		in, err := Parse(Refund, r.Payload)
		if err != nil {
			return fmt.Errorf("payment: the stored request of %s: %w", r.ID, err)
		}
		f.open = append(f.open, &ledger.Transaction{
			ID: r.ID, Tenant: f.own.Tenant, Kind: ledger.Refund, Amount: cmp.Or(in.Amount, f.own.Amount), Currency: f.own.Currency, Created: r.Created,
		})
	}
	return nil
}

// sort keeps what is of tenant, and finds the booking and the ghosts among it.
func (f *facts) sort(tenant string) {
	f.all = slices.DeleteFunc(f.all, func(t ledger.Transaction) bool { return t.Tenant != tenant })
	for i := range f.all {
		switch t := &f.all[i]; {
		case t.ID == f.id && (t.Kind == ledger.Charge || t.Kind == ledger.Transfer || t.Kind == ledger.Refund), t.Object == f.id && t.Kind == ledger.GhostRefund:
			f.own = t
		case t.Object == f.id && t.Kind == ledger.Ghost:
			f.ghosts = append(f.ghosts, t)
		}
	}
}

// atHome are the books of one region: what follows from a transfer or a refund is booked where that is.
type atHome struct {
	PresentBooks
	home string
}

func (b atHome) Reversals(ctx context.Context, ids ...string) (all []ledger.Transaction, err error) {
	for _, id := range ids {
		some, err := b.ReversalsAt(ctx, b.home, id)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// asOf completes the body of an answer. The tag is that of all but the time.
func asOf(body []byte, at time.Time) claim.Response {
	sum := sha256.Sum256(body)
	return claim.Response{
		Status: http.StatusOK,
		Header: []claim.HeaderField{
			{Name: "Content-Type", Value: "application/json"},
			{Name: "Etag", Value: `W/"` + hex.EncodeToString(sum[:16]) + `"`},
		},
		Body: fmt.Appendf(body, `,"as_of":%d}`, at.Unix()),
	}
}

// maxRefunds is how many refunds a read lists, the latest: some 250 KB, of the 4 MiB that the answer of
// a peer may have. All are summed.
const maxRefunds = 1000

// maxInFlight is how many refunds in flight a read lists in front of them, from each region: the request
// of one may have some 30 KB, and few charges have two at once.
const maxInFlight = 100

// facts are what the books have about one object of a tenant, in the order of their time.
type facts struct {
	id  string
	all []ledger.Transaction
	// own is its booking, nil for none; ghosts are the movements that nobody asked for.
	own    *ledger.Transaction
	ghosts []*ledger.Transaction
	// open are refunds in flight, as they would be booked, without what is not known yet.
	open []*ledger.Transaction
	// listed is how many refunds are listed, and not only summed.
	listed int
}

// of returns the reversals of a transaction that are of one of kinds, the latest first.
func (f *facts) of(t *ledger.Transaction, kinds ...ledger.Kind) (some []*ledger.Transaction) {
	for i := len(f.all) - 1; i >= 0; i-- {
		if r := &f.all[i]; r.Reverses == t.ID && slices.Contains(kinds, r.Kind) {
			some = append(some, r)
		}
	}
	return some
}

// returned sums those that have not failed.
func (f *facts) returned(some []*ledger.Transaction) (sum int64) {
	for _, t := range some {
		if !ledger.FailedSince(f.all, t) {
			sum += t.Amount
		}
	}
	return sum
}

// since returns a stored object with what happened to it since, without its closing brace.
func (f *facts) since(stored []byte) ([]byte, error) {
	read := json.NewDecoder(bytes.NewReader(stored))
	if brace, err := read.Token(); err != nil || brace != json.Delim('{') {
		return nil, fmt.Errorf("payment: the stored answer of %s is no object: %w", f.id, err)
	}
	b := append(make([]byte, 0, len(stored)+renderRoom), '{')
	for read.More() {
		name, err := read.Token()
		var value json.RawMessage
		if err == nil {
			err = read.Decode(&value)
		}
		if err != nil {
			return nil, fmt.Errorf("payment: the stored answer of %s: %w", f.id, err)
		}
		switch {
		case name == "amount_captured" && f.own != nil:
			continue // appendSince has it
		case name == "status" && f.own != nil && ledger.FailedSince(f.all, f.own):
			value = json.RawMessage(`"` + statusFailed + `"`)
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(appendString(b, name.(string)), ':') // a member's name is one
		b = append(b, value...)
	}
	return f.appendSince(b), nil
}

// alone returns the object of a booking by what the books have of it.
func (f *facts) alone(t *ledger.Transaction, status string) []byte {
	if ledger.FailedSince(f.all, t) {
		status = statusFailed
	}
	object := Charge
	if t.Kind == ledger.Transfer {
		object = Transfer
	} else if t.Kind == ledger.Refund || t.Kind == ledger.GhostRefund {
		object = Refund
	}
	b := appendBooked(nil, f.id, string(object), t, status)
	if object == Refund {
		b = append(b, `,"charge":`...)
		b = appendString(b, t.Reverses)
	} else {
		b = appendNamed(b, t.Order, t.Metadata)
	}
	return f.appendSince(appendProvider(b, t.Provider, t.ProviderRef))
}

// appendBooked begins an object that is made from a booking.
func appendBooked(b []byte, id, object string, t *ledger.Transaction, status string) []byte {
	created := t.Created
	if created.IsZero() {
		created = t.At
	}
	return fmt.Appendf(b, `{"id":%q,"object":%q,"amount":%d,"currency":%q,"status":%q,"created":%d,"livemode":%t`, id, object, t.Amount, t.Currency, status, created.Unix(), claim.Livemode(t.Tenant))
}

// appendSince appends the members that say what happened to an object since.
func (f *facts) appendSince(b []byte) []byte {
	switch {
	case f.own != nil && f.own.Kind == ledger.Charge:
		captured, refunds := f.own.Amount, f.of(f.own, ledger.Refund, ledger.ProviderRefund)
		if ledger.FailedSince(f.all, f.own) {
			captured = 0
		}
		b = fmt.Appendf(b, `,"amount_captured":%d,"amount_refunded":%d`, captured, f.returned(refunds))
		b = appendList(b, "refunds", slices.Concat(f.open, refunds[:min(len(refunds), f.listed)]), f.appendRefund)
		b = f.appendDisputes(b)
	case f.own != nil && f.own.Kind == ledger.Transfer:
		back := f.of(f.own, ledger.TransferReversal)
		b = fmt.Appendf(b, `,"amount_reversed":%d`, f.returned(back))
		b = appendList(b, "reversals", back, func(b []byte, t *ledger.Transaction) []byte {
			return append(appendBooked(b, nameOf("trr", t.ID), "transfer_reversal", t, statusSucceeded), '}')
		})
	}
	return appendList(b, "compensations", f.ghosts, f.appendCompensation)
}

// appendList appends a list, unless it is empty.
func appendList[T any](b []byte, name string, all []T, one func(b []byte, t T) []byte) []byte {
	for i, t := range all {
		if i == 0 {
			b = append(appendString(append(b, ','), name), `:[`...)
		} else {
			b = append(b, ',')
		}
		b = one(b, t)
	}
	if len(all) > 0 {
		b = append(b, ']')
	}
	return b
}

// appendRefund appends a refund, by its merchant or at the provider, in flight or as the books have it.
func (f *facts) appendRefund(b []byte, t *ledger.Transaction) []byte {
	id, status := t.ID, statusSucceeded
	if t.Kind == ledger.ProviderRefund {
		id = nameOf("re", t.ID)
	}
	switch {
	case t.At.IsZero():
		status = string(psp.Processing)
	case ledger.FailedSince(f.all, t):
		status = statusFailed
	}
	b = appendBooked(b, id, string(Refund), t, status)
	b = append(b, `,"charge":`...)
	b = appendString(b, f.id)
	if t.At.IsZero() {
		return append(b, '}')
	}
	if t.Kind == ledger.ProviderRefund {
		b = append(b, `,"reason":"`+MadeAtProvider+`"`...)
	}
	return append(appendProvider(b, t.Provider, t.ProviderRef), '}')
}

// The states of a dispute in its charge, as far as the books have decided it, and of a compensation.
const (
	disputeOpen, disputeWon, disputeLost = "open", "won", "lost"

	compensationPending, compensationRefunded = "pending", "refunded"
)

// appendDisputes appends the disputes of the charge, the latest first. A provider may decide one under
// another id than it was opened: then the decision is that of a dispute of its amount, one that is
// open if there is one.
func (f *facts) appendDisputes(b []byte) []byte {
	type dispute struct {
		*ledger.Transaction
		status string
	}
	var all []*dispute
	for _, t := range f.of(f.own, ledger.DisputeOpened) {
		d := &dispute{t, disputeOpen}
		if len(f.of(t, ledger.DisputeWon)) > 0 {
			d.status = disputeWon
		}
		all = append(all, d)
	}
	for i := range f.all {
		lost := &f.all[i]
		if lost.Kind != ledger.DisputeLost || lost.Object != f.id {
			continue
		}
		for _, fits := range []func(*dispute) bool{
			func(d *dispute) bool { return d.ProviderRef == lost.ProviderRef },
			func(d *dispute) bool { return d.status == disputeOpen && d.Amount == lost.Amount },
			func(d *dispute) bool { return d.status == disputeWon && d.Amount == lost.Amount },
		} {
			if i := slices.IndexFunc(all, fits); i >= 0 {
				all[i].status = disputeLost
				break
			}
		}
	}
	return appendList(b, "disputes", all, func(b []byte, d *dispute) []byte {
		b = appendBooked(b, nameOf("dp", d.ID), "dispute", d.Transaction, d.status)
		return append(appendProvider(b, d.Provider, d.ProviderRef), '}')
	})
}

// appendCompensation appends a movement that nobody asked for.
func (f *facts) appendCompensation(b []byte, ghost *ledger.Transaction) []byte {
	status := compensationPending
	back := f.of(ghost, ledger.GhostRefund, ledger.ProviderRefund)
	for _, dispute := range f.of(ghost, ledger.DisputeOpened) { // the payer has that without a refund
		if len(f.of(dispute, ledger.DisputeWon)) == 0 {
			back = append(back, dispute)
		}
	}
	switch {
	case ledger.FailedSince(f.all, ghost):
		status = statusFailed
	case f.returned(back) >= ghost.Amount:
		status = compensationRefunded
	}
	b = fmt.Appendf(b, `{"object":"compensation","amount":%d,"currency":%q,"status":%q,"created":%d,"livemode":%t`, ghost.Amount, ghost.Currency, status, ghost.At.Unix(), claim.Livemode(ghost.Tenant))
	return append(appendProvider(b, ghost.Provider, ghost.ProviderRef), '}')
}

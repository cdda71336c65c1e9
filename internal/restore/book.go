package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment"
)

// Movement is money that a provider's statement has and that none of our records has.
type Movement struct {
	// Object is our id of it, Ref the provider's.
	Object, Ref string
	// Operation is what moved it.
	Operation payment.Operation
	// Amount is in minor units of Currency.
	Amount   int64
	Currency string
}

// Booking is the result for one movement.
type Booking struct {
	Movement
	Tenant string
	// Why it is not booked; "" if it is.
	Why string
}

// Books are those of the regions, and the claims whose money they have.
type Books interface {
	Post(ctx context.Context, t ledger.Transaction) (posted bool, err error)
	ByObject(ctx context.Context, home, object string) (claim.Record, bool, error)
}

// Book books charges and transfers that a restore has lost and that were not requested again, as
// their claims had booked them: under the object's own id, so that refunds find them. A witness
// shows their merchants, and that those were sent a success, a statement how much moved. It calls
// each with the result of each. It may be repeated.
//
// It is refused until nothing of what is lost would be remembered any more. Until then
// a retry settles the claim again, with the answer that it had, which is better.
//
//	the row | for each: the witness | look for the claim | the transaction
//
//	before the witness is Booked  a retry begins the claim again, and its settlement books
//	before the transaction        the key is withheld; booking again books it
//	after it                      the key is withheld; booking again changes nothing
//
// Refunds are not booked: the audit does not say of which charge one was, and a refund is booked
// against its charge. A person books them (docs/RUNBOOK.md).
//
// Whoever has read the witness before, and begins after the look, has its settlement refused,
// as what it would book is booked. Money was moved, and is booked, once; its claim stays in
// flight, and the row of its call is parked for a person.
func Book(ctx context.Context, rows Rows, books Books, all []Movement, each func(Booking)) error {
	windows, err := rows.Windows(ctx)
	if err != nil {
		return err
	}
	r, now, err := rows.Restore(ctx)
	if err == nil {
		err = requireOpen(&r)
	}
	if err != nil {
		return err
	}
	if free := r.ForgottenAt(&windows); now.Before(free) {
		return fmt.Errorf("%w until %s: who sends such a request again until then gets its answer, and the charge is booked with it; book the rest afterwards, and before homeward restore end", ErrRemembered, stamp(free))
	}
	if _, err := change(ctx, rows, func(r claim.Restore) (claim.Restore, error) {
		r.Booking = true
		return r, requireOpen(&r)
	}); err != nil {
		return err
	}
	stated := map[string][]Movement{}
	for _, m := range all {
		stated[m.Object] = append(stated[m.Object], m)
	}
	for after := (claim.Key{}); len(stated) > 0; {
		some, err := rows.Witnesses(ctx, after, batch)
		if err != nil {
			return err
		}
		if len(some) == 0 {
			break
		}
		after = some[len(some)-1].Key
		for i := range some {
			w := &some[i]
			for _, m := range stated[w.Object] {
				why, err := book(ctx, rows, books, w, &m, len(stated[w.Object]) > 1)
				if err != nil {
					return err
				}
				each(Booking{m, w.Key.Tenant, why})
			}
			delete(stated, w.Object)
		}
	}
	for _, m := range all {
		if _, isLeft := stated[m.Object]; isLeft {
			each(Booking{m, "", "the audit does not have its owner"})
		}
	}
	return nil
}

// book books one movement, or returns why not.
func book(ctx context.Context, rows Rows, books Books, w *claim.Witness, m *Movement, several bool) (why string, err error) {
	switch {
	case several:
		return "the statement has several movements of it: decide by hand", nil
	case !w.Done:
		return "its merchant was not sent a success: decide by hand", nil
	case w.ProviderRef != m.Ref:
		return fmt.Sprintf("the audit has it as %q: decide by hand", w.ProviderRef), nil
	case w.Provider == "":
		return "the audit does not name its provider: decide by hand", nil
	case payment.Operation(w.Operation) != m.Operation || m.Operation != payment.Charge && m.Operation != payment.Transfer:
		return fmt.Sprintf("it was requested as a %s; charges and transfers are booked, each as what it was", w.Operation), nil
	}
	booked := *w
	booked.Booked = true
	if err := rows.PutWitnesses(ctx, []claim.Witness{booked}); err != nil {
		return "", err
	}
	rec, ok, err := books.ByObject(ctx, w.Home, w.Object)
	switch {
	case err != nil:
		return "", err
	case ok && (rec.State == claim.InFlight || rec.State == claim.Completed):
		return "its request was sent again meanwhile, and its claim books it", nil
	}
	_, err = books.Post(ctx, m.posting(w))
	if errors.Is(err, ledger.ErrConflict) {
		return "it is booked otherwise already; see homeward ledger entries", nil
	}
	return "", err
}

// posting is what the claim had booked.
func (m *Movement) posting(w *claim.Witness) ledger.Transaction {
	tenant := w.Key.Tenant
	t := ledger.Transaction{
		ID: w.Object, Region: w.Home, Tenant: tenant, Kind: ledger.Charge,
		Debit: ledger.Provider(ledger.Where(w.Provider, m.Ref)), Credit: ledger.Merchant(tenant),
		Amount: m.Amount, Currency: m.Currency, Object: w.Object, Provider: w.Provider, ProviderRef: m.Ref,
	}
	if m.Operation == payment.Transfer {
		t.Kind, t.Debit, t.Credit = ledger.Transfer, t.Credit, t.Debit
	}
	return t
}

// keepBooked marks those of fresh whose money was booked before: the audit may be read again.
func keepBooked(ctx context.Context, rows claim.Restores, r *claim.Restore, fresh []claim.Witness) error {
	if !r.Booking {
		return nil
	}
	for i := range fresh {
		was, found, err := rows.Witness(ctx, fresh[i].Key)
		if err != nil {
			return err
		}
		fresh[i].Booked = found && was.Booked
	}
	return nil
}

package simulate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// reversal is money that goes back without a request of ours: a bank returns a charge or a refund, or a person refunds
// a charge at the provider.
type reversal struct {
	at     *judge
	kind   ledger.Kind // as it is booked
	id     string      // the provider's: of what the bank returns, or of the refund
	object string      // ours, that it is about
	amount int64
}

// reversed has a bank return a charge, or a person refund some of it, or all, at the provider.
func (l *load) reversed(at *judge, made *simulator.StatementLine, rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		l.returned(at, made)
		return
	}
	r := reversal{at: at, kind: ledger.ProviderRefund, object: made.Reference, amount: made.Amount}
	if rng.IntN(2) == 0 {
		r.amount = 1 + rng.Int64N(made.Amount)
	}
	r.id = l.w.happens(at, simulator.Unasked{Kind: psp.KindRefund, Of: made.ID, Amount: r.amount})
	l.w.reverses(r)
}

// refundReturned has a bank return the refund that a merchant was answered with.
func (l *load) refundReturned(got *answer.Answer) {
	var made struct{ ID string }
	if got == nil || got.Status != http.StatusCreated || json.Unmarshal(got.Body, &made) != nil {
		return // the judge says so
	}
	for _, j := range l.w.judges {
		for _, line := range l.w.statement(j) {
			if line.Kind == psp.KindRefund && line.Reference == made.ID {
				l.returned(j, &line)
				return
			}
		}
	}
}

// returned has a bank return a charge or a refund.
func (l *load) returned(at *judge, made *simulator.StatementLine) {
	l.w.must(at.Fail(made.ID))
	kind := map[psp.Kind]ledger.Kind{psp.KindCharge: ledger.ChargeFailed, psp.KindRefund: ledger.RefundFailed}[made.Kind]
	l.w.reverses(reversal{at, kind, made.ID, made.Reference, made.Amount})
}

func (w *world) reverses(r reversal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reversals = append(w.reversals, r)
}

// counts reports whether somebody reads that the movement was made: a charge that was returned before anybody was
// answered has not been, and its key may be charged again.
func (w *world) counts(r *reversal) bool {
	if r.kind != ledger.ChargeFailed {
		return true
	}
	t, booked := w.booked(r.object, r.object)
	return booked && t.ProviderRef == r.id
}

// booked reads a transaction from the books of an object's home.
func (w *world) booked(object, id string) (t ledger.Transaction, found bool) {
	rows, err := deployment.Embedded(w.database()).Region(regions[0])
	w.must(err)
	_, code, _ := claim.ReadObjectID(object)
	t, found, err = rows.Transaction(w.ctx, w.regions()[code-1], id)
	w.must(err)
	return t, found
}

// bookedAs is the id of the transaction.
func (r *reversal) bookedAs() string {
	if r.kind == ledger.ProviderRefund {
		return ledger.UnaskedID(r.kind, r.at.name, r.id)
	}
	return ledger.FailureID(r.object)
}

// event is the one that its merchant gets.
func (r *reversal) event() string {
	switch r.kind {
	case ledger.ChargeFailed:
		return "charge.failed " + r.object
	case ledger.RefundFailed:
		return "refund.failed " + r.object
	default:
		return "refund.created " + nameOf("re", r.bookedAs())
	}
}

// withoutReturned leaves out the charges that were returned before anybody was answered.
func (w *world) withoutReturned(all []any) []any {
	for i := range w.reversals {
		r := &w.reversals[i]
		if w.counts(r) {
			continue
		}
		at := slices.IndexFunc(all, func(e any) bool {
			effect, ok := e.(simulator.Effect)
			return ok && effect.Kind == psp.KindCharge && effect.Reference == r.object && effect.Amount == r.amount
		})
		all = slices.Delete(all, at, at+1)
	}
	return all
}

// unbooked are the steps of disputes and the reversals that the books do not have as the provider has them.
func (w *world) unbooked() (wrong []string) {
	for _, d := range w.disputes {
		for _, kind := range d.steps() {
			if t, booked := w.booked(d.charge, ledger.UnaskedID(kind, d.at.name, d.id)); !booked || t.Object != d.charge || t.Amount != d.amount {
				wrong = append(wrong, fmt.Sprintf("the dispute %s of %s is %s, and the books have %s as %+v", d.id, d.charge, d.status(), kind, t))
			}
		}
	}
	for i := range w.reversals {
		r := &w.reversals[i]
		if !w.counts(r) {
			continue
		}
		if t, booked := w.booked(r.object, r.bookedAs()); !booked || t.Kind != r.kind || t.Object != r.object || t.Amount != r.amount {
			wrong = append(wrong, fmt.Sprintf("%s has reversed %d of %s by %s, and the books have %s as %+v", r.at.name, r.amount, r.object, r.id, r.kind, t))
		}
	}
	return wrong
}

package simulator

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/homeward-io/homeward/payment/psp"
)

// A movement that has succeeded can fail later: a bank returns a refund, a debit is not
// honoured. The failure is a record of its own, with its own event and its own line in
// the statement, under the id of the movement. The key keeps its answer.

// isSettled reports whether record i is a movement that has not failed since.
func (b *book) isSettled(i int) bool {
	_, failed := b.failed[uint32(i)]
	_, act := b.actOf[uint32(i)] // which is no movement of its own
	o, _ := b.state(i)
	return o == approved && !failed && !act
}

// fail records in record i that the movement of call.Source has failed.
func (b *book) fail(call psp.Call, i uint32, refText string) {
	n, _ := parseID(call.Kind, call.Source) // the code that adds it has checked
	b.failed[uint32(n)], b.failure[i] = i, uint32(n)
	if charge, ok := b.refundOf[uint32(n)]; ok {
		b.refunded[charge] -= call.Amount
	}
	ref := b.byRef[refText]
	ref.last = uint32(n) + 1
	if ref.approved == ref.last {
		ref.approved = 0
		for k := range int(i) { // another that was made under the reference, if there is one
			if r := b.at(k); r.text[r.keyLen:] == refText && b.isSettled(k) {
				ref.approved = uint32(k) + 1
				break
			}
		}
	}
	b.byRef[refText] = ref
}

// Kinds that can fail later.
var failing = []psp.Kind{psp.KindCharge, psp.KindRefund}

// errNoMovement is the answer for a record that cannot fail.
var errNoMovement = errors.New("simulator: there is no such charge or refund that has succeeded and has not failed: name one by the provider's id")

// Fail makes a charge or refund that succeeded fail, by the provider's own id of it in
// any spelling: its money is back. It returns once that is durable.
func (s *Simulator) Fail(id string) error {
	s.mu.Lock()
	if err := s.refusal(); err != nil {
		s.mu.Unlock()
		return err
	}
	call, found := psp.Call{}, false
	for _, kind := range failing {
		id := id
		if own, ok := fromStripeID(kind, id); ok {
			id = own
		} else if own, ok := fromAdyenID(kind, id); ok {
			id = own
		}
		if i, ok := parseID(kind, id); ok && i < s.book.len() && s.book.at(i).kind() == kind && s.book.isSettled(i) {
			r := s.book.at(i)
			call, found = psp.Call{Kind: kind, Reference: r.reference(), Amount: s.book.amount(i), Currency: string(r.currency[:]), Source: id}, true
		}
	}
	if !found {
		s.mu.Unlock()
		return errNoMovement
	}
	i := s.addLocked(call, fingerprint(call), failedSince)
	waiting := s.batchOf(i)
	s.mu.Unlock()
	if waiting != nil {
		s.kick()
	}
	return waiting.wait()
}

// reported is a record as an event or a statement names it: for a failure, the movement
// that has failed, with its number. The caller holds mu.
func (s *Simulator) reported(i int) (rec record, id int, failed bool) {
	rec = *s.book.at(i)
	if n, ok := s.book.failure[uint32(i)]; ok {
		return rec, int(n), true
	}
	if n, ok := s.book.actOf[uint32(i)]; ok {
		return rec, int(n), false
	}
	return rec, i, false
}

// standing is a record in its present state, as opposed to its first answer: see
// [Simulator.Fail].
func (s *Simulator) standing(rec record, i int) outcomeBody {
	s.mu.Lock()
	if a, ok := s.book.acts[uint32(i)]; ok {
		rec.outcome, rec.amount = a.outcome, a.amount
	}
	s.mu.Unlock()
	out := describe(rec, i)
	s.mu.Lock()
	_, failed := s.book.failed[uint32(i)]
	out.Disputed = s.book.disputed(uint32(i))
	s.mu.Unlock()
	if failed {
		out.failed()
	}
	return out
}

func (o *outcomeBody) failed() {
	d := outcomes[failedSince]
	o.Status, o.Error = "failed", &errorValue{Class: d.Class.String(), Code: d.Code, Message: d.Message}
}

// serveMovement shows one movement by the provider's own id, in its present state. A provider
// without look-ups by our reference answers this, too: it has its own ids.
func (s *Simulator) serveMovement(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	kind := psp.Kind(q.Get("kind"))
	if (fate{delay: s.Faults().Latency}).pause(r.Context()) != nil {
		return
	}
	if i, ok := parseID(kind, q.Get("id")); ok {
		if rec, _, ok := s.record(i); ok && rec.kind() == kind && s.everMoved(i) {
			write(w, http.StatusOK, s.standing(rec, i))
			return
		}
	}
	refuse(w, http.StatusNotFound, "not_found", "not_found", "No movement has this id.")
}

func (s *Simulator) serveFail(w http.ResponseWriter, r *http.Request) {
	var body struct {
		ID string `json:"id"`
	}
	if status, err := readJSON(w, r, &body); err != nil {
		refuse(w, status, "invalid", "invalid_request", fmt.Sprintf("body: %v", err))
		return
	}
	switch err := s.Fail(body.ID); {
	case errors.Is(err, errNoMovement):
		refuse(w, http.StatusNotFound, "not_found", "not_found", err.Error())
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, "server", "storage", err.Error())
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// everMoved reports whether record i is a movement that has succeeded, even if it has
// failed since.
func (s *Simulator) everMoved(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, _ := s.book.state(i)
	_, act := s.book.actOf[uint32(i)]
	return o == approved && !act
}

// amount is how much record i moved.
func (b *book) amount(i int) int64 {
	_, amount := b.state(i)
	return amount
}

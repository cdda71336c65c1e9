package simulator

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// Captures and cancellations of held charges as Adyen has them ("Capture", "Cancel"):
// each is received, and an event reports its result, including a failure.

// adyenHeld marks a merchant's reference of a charge that holds its money. The books have what is
// before it, which is the same for all orders about one charge; events repeat the whole reference.
const adyenHeld = "-held"

// adyenOrder holds what the books lack of a capture or cancellation, for as long as
// this process lives.
type adyenOrder struct {
	reference string // the merchant's
	cancel    bool
}

// adyenOrders handles the POSTs of captures (approved) and cancellations (canceledCharge).
func (s *Simulator) adyenOrders(asks outcome) http.HandlerFunc {
	read := func(w http.ResponseWriter, r *http.Request, _ psp.Kind) (psp.Call, int, error) {
		var m adyenModification
		if status, err := readJSON(w, r, &m); err != nil {
			return psp.Call{}, status, err
		}
		id, _ := fromAdyenID(psp.KindCharge, r.PathValue("payment"))
		call := psp.Call{Kind: psp.KindCharge, Key: r.Header.Get("Idempotency-Key"), Source: id, Description: m.Reference}
		if m.MerchantAccount != adyenAccount {
			return call, http.StatusForbidden, errors.New("Invalid Merchant Account")
		}
		var err error
		if asks == approved {
			call.Amount, call.Currency, err = m.Amount.books()
		}
		return call, http.StatusUnprocessableEntity, err
	}
	received := func(w http.ResponseWriter, rec record, i int) {
		s.mu.Lock()
		o, n := s.orders[i], s.book.actOf[uint32(i)]
		s.mu.Unlock()
		answer := adyenReceived{
			MerchantAccount: adyenAccount, PaymentPSPReference: adyenID(psp.KindCharge, int(n)), PSPReference: adyenOrderID(i), Reference: o.reference, Status: "received",
		}
		if !o.cancel {
			money := toAdyenAmount(rec.amount, string(rec.currency[:]))
			answer.Amount = &money
		}
		write(w, http.StatusCreated, answer)
	}
	d := dialect{read: read, outcome: received, refuse: refuseAdyen, firstAnswer: true}
	return s.moveBy(psp.KindCharge, d, func(call psp.Call) (record, int, error) { return s.receive(call, asks) })
}

// receive is take for a provider that reports the result later.
func (s *Simulator) receive(call psp.Call, asks outcome) (record, int, error) {
	s.mu.Lock()
	if err := s.refusal(); err != nil {
		s.mu.Unlock()
		return record{}, 0, err
	}
	i, seen := s.book.find(call.Key)
	if !seen {
		n, ok := s.book.about(call)
		if !ok {
			s.mu.Unlock()
			return record{}, 0, errNoMovement
		}
		if call.Amount == 0 {
			call.Amount = s.book.at(n).amount
		}
		v := asks
		if _, err := s.book.judgeAct(n, asks, call); err != nil {
			v = orderRefused
		}
		o := adyenOrder{call.Description, asks == canceledCharge}
		call.Reference, call.Currency = s.book.at(n).reference(), string(s.book.at(n).currency[:])
		i = s.addLocked(call, fingerprint(call), v)
		s.orders[i] = o
	}
	rec, waiting := *s.book.at(i), s.batchOf(i)
	s.mu.Unlock()
	if waiting != nil {
		s.kick()
	}
	return rec, i, waiting.wait()
}

// adyenOrderID is Adyen's reference of the order of record i.
func adyenOrderID(i int) string { return fmt.Sprintf("HWA0%012X", i+1) }

// adyenReference is the merchant's reference of charge n. The caller holds the lock.
func (s *Simulator) adyenReference(n int) string {
	ref := s.book.at(n).reference()
	if s.book.manual[uint32(n)] {
		ref += adyenHeld
	}
	return ref
}

// adyenActEvent is the event of record i, an act on charge n; ok is false if Adyen
// reports it as it reports a payment. The caller holds the lock.
func (s *Simulator) adyenActEvent(rec record, i, n int) (item adyenItem, ok bool) {
	o, ordered := s.orders[i]
	item = adyenItem{
		Amount: toAdyenAmount(rec.amount, string(rec.currency[:])), EventDate: time.Unix(0, rec.at).UTC().Format(time.RFC3339), MerchantAccountCode: adyenAccount,
		MerchantReference: o.reference, OriginalReference: adyenID(psp.KindCharge, n), PaymentMethod: "visa", PSPReference: adyenOrderID(i), Success: "true",
	}
	if !ordered { // by an operator, or before this process began
		item.MerchantReference = s.adyenReference(n)
	}
	switch {
	case rec.outcome == canceledCharge, rec.outcome == orderRefused && o.cancel:
		item.EventCode = "CANCELLATION"
	case rec.outcome == orderRefused, rec.outcome == approved && s.book.manual[uint32(n)]:
		item.EventCode = "CAPTURE"
	default:
		return item, false
	}
	if rec.outcome == orderRefused {
		item.Success, item.Reason = "false", "Transaction not found in the right status"
	}
	return item, true
}

// bookedReference is the part of a merchant's reference that the books have.
func bookedReference(reference string) string {
	ref, _, _ := strings.Cut(reference, adyenHeld)
	return ref
}

package simulator

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// Money moves at a provider without a request: payers dispute charges, people make
// refunds by hand, transfers are returned, balances are paid out. Each such movement is
// a record of its own, with its own event, and a line in the statement if it moves
// money.

// Unasked is a movement that the provider makes by itself, see [Simulator.Do].
type Unasked struct {
	// Kind is psp.KindRefund, by hand, or one of psp.Unasked's others.
	Kind psp.Kind `json:"kind"`
	// Of is the provider's id, in either spelling: of the charge that is refunded or
	// disputed; of the transfer that is returned; of the dispute, or the payout, that
	// the next step is about.
	Of string `json:"of"`
	// Amount is in minor units; 0: all of it. A later step has the amount of the first.
	Amount int64 `json:"amount"`
	// Currency applies to a payout alone.
	Currency string `json:"currency"`
	// Reason applies to a dispute's opening: Stripe's code for it.
	Reason string `json:"reason"`
}

// occurrence holds what such a record does not.
type occurrence struct {
	kind psp.Kind
	// about is the record that it is about: a charge, a transfer, the opening of a
	// dispute, a payout; of a payout itself that payout.
	about  uint32
	reason string
	// second: a dispute's money is withdrawn a second time.
	second bool
}

// happening is a record of a movement without a request, and what it is about.
type happening struct {
	occurrence
	n        int // its own record
	rec      record
	movement int // the charge or transfer at its origin; -1 for payouts
	ref      string
}

// happening returns the happening of record i, if it is one. The caller holds the lock.
func (b *book) happening(i int) (h happening, ok bool) {
	o, ok := b.unasked[uint32(i)]
	if !ok {
		return h, false
	}
	h = happening{occurrence: o, n: i, rec: *b.at(i), movement: int(o.about)}
	if above, goesOn := b.unasked[o.about]; goesOn {
		if h.movement = int(above.about); above.kind == psp.KindPayout {
			h.movement = -1
		}
	}
	if h.movement >= 0 {
		h.ref = b.at(h.movement).reference()
	}
	return h, true
}

// begins maps a kind to the kind that it follows; "" if it follows none.
var begins = map[psp.Kind]psp.Kind{
	psp.KindDispute: psp.KindDisputeOpened, psp.KindDisputeReversal: psp.KindDisputeOpened,
	psp.KindDisputeWon: psp.KindDisputeOpened, psp.KindDisputeLost: psp.KindDisputeOpened,
	psp.KindPayoutReversal: psp.KindPayout,
	psp.KindRefund:         "", psp.KindDisputeOpened: "", psp.KindTransferReversal: "", psp.KindPayout: "",
}

// prefixes of ids: the provider's own, and Stripe's.
var prefixes = map[psp.Kind][2]string{
	psp.KindDisputeOpened: {"psp_dp_", "du_"}, psp.KindRefund: {"psp_re_", "re_"},
	psp.KindTransferReversal: {"psp_trr_", "trr_"}, psp.KindPayout: {"psp_po_", "po_"},
}

func spelling(stripe bool) int {
	if stripe {
		return 1
	}
	return 0
}

// id is that of the movement: for a dispute or payout, the same in all steps.
func (h *happening) id(stripe bool) string {
	kind, n := h.kind, h.n
	if from := begins[kind]; from != "" {
		kind, n = from, int(h.about)
	}
	id := fmt.Sprintf("%s%012x", prefixes[kind][spelling(stripe)], n+1)
	if h.second {
		id += secondMark
	}
	return id
}

// secondMark follows the id of a dispute that withdraws money a second time.
const secondMark = "/second"

// of is the id of what it is about.
func (h *happening) of(stripe bool) string {
	switch {
	case h.kind == psp.KindPayout:
		return ""
	case h.kind == psp.KindPayoutReversal:
		return h.id(stripe)
	case h.kind == psp.KindTransferReversal && stripe:
		return stripeID(psp.KindTransfer, h.movement)
	case h.kind == psp.KindTransferReversal:
		return formatID(psp.KindTransfer, h.movement)
	case stripe:
		return stripeID(psp.KindCharge, h.movement)
	default:
		return formatID(psp.KindCharge, h.movement)
	}
}

// moves reports whether it moves money.
func (h *happening) moves() bool {
	return h.kind != psp.KindDisputeOpened && h.kind != psp.KindDisputeWon && h.kind != psp.KindDisputeLost
}

// occurred parses the id of a movement in either spelling. The caller holds the lock.
func (b *book) occurred(kind psp.Kind, id string) (n int, ok bool) {
	if digits, has := strings.CutPrefix(id, adyenHappenings[kind]); has && adyenHappenings[kind] != "" {
		id = prefixes[kind][0] + strings.ToLower(digits)
	}
	for _, prefix := range prefixes[kind] {
		if digits, has := strings.CutPrefix(id, prefix); has {
			if _, err := fmt.Sscanf(digits, "%x", &n); err != nil || fmt.Sprintf("%s%012x", prefix, n) != id {
				return 0, false
			}
			o, is := b.unasked[uint32(n-1)]
			return n - 1, is && o.kind == kind
		}
	}
	return 0, false
}

// separator is between a kind, its subject and its reason in the journal.
const separator = "|"

// couldHappen returns what is wrong with a call as it is in the journal. The caller
// holds the lock.
func (b *book) couldHappen(call psp.Call) error {
	_, _, err := b.readHappening(call)
	return err
}

func (b *book) readHappening(call psp.Call) (o occurrence, amount int64, err error) {
	parts := strings.SplitN(call.Source, separator, 3)
	if len(parts) != 3 {
		return o, 0, errNothingLikeIt
	}
	o.kind, o.reason = psp.Kind(parts[0]), parts[2]
	from, found := begins[o.kind]
	switch {
	case !found:
		return o, 0, fmt.Errorf("%w %q; name one of %s", errNoKind, o.kind, kindsUnasked())
	case o.kind == psp.KindPayout:
		return o, call.Amount, nil
	case from != "":
		n, ok := b.occurred(from, parts[1])
		if !ok {
			return o, 0, errNothingLikeIt
		}
		o.about, amount = uint32(n), b.at(n).amount
	default:
		kind := psp.KindCharge
		if o.kind == psp.KindTransferReversal {
			kind = psp.KindTransfer
		}
		id := parts[1]
		if own, ok := fromStripeID(kind, id); ok {
			id = own
		}
		if own, ok := fromAdyenID(kind, id); ok {
			id = own
		}
		n, ok := parseID(kind, id)
		if !ok || n >= b.len() || b.at(n).kind() != kind || !b.isSettled(n) {
			return o, 0, errNothingLikeIt
		}
		o.about, amount = uint32(n), b.at(n).amount-b.refunded[uint32(n)]
	}
	return o, amount, nil
}

// happen records what record i is. The code that adds it has checked.
func (b *book) happen(call psp.Call, i uint32) {
	o, _, _ := b.readHappening(call)
	switch o.kind {
	case psp.KindPayout:
		o.about = i
	case psp.KindRefund, psp.KindTransferReversal:
		b.refunded[o.about] += call.Amount
	case psp.KindDispute:
		for _, other := range b.unasked {
			o.second = o.second || other.kind == psp.KindDispute && other.about == o.about
		}
	default: // a later step takes nothing more
	}
	b.unasked[i] = o
}

// disputed is how much of a charge is disputed, or went back by a dispute that was lost. The caller
// holds the lock.
func (b *book) disputed(charge uint32) (sum int64) {
	for n, o := range b.unasked {
		switch {
		case o.kind == psp.KindDisputeOpened && o.about == charge:
			sum += b.at(int(n)).amount
		case o.kind == psp.KindDisputeWon && b.unasked[o.about].about == charge:
			sum -= b.at(int(n)).amount
		}
	}
	return sum
}

// errNothingLikeIt is the answer for an impossible movement.
var errNothingLikeIt = errors.New("simulator: that cannot happen: name a charge or transfer that has not failed, a dispute or a payout, by the provider's id, and at most its rest; a new payout has an amount and a currency")

// errNoKind is the answer for a kind of movement that there is not.
var errNoKind = errors.New("simulator: there is no kind")

// kindsUnasked lists the kinds of [Simulator.Do].
func kindsUnasked() string {
	var names []string
	for kind := range begins {
		names = append(names, string(kind))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Do makes the provider move money without a request, and returns the id once that is
// durable.
func (s *Simulator) Do(u Unasked) (id string, err error) {
	s.mu.Lock()
	if err := s.refusal(); err != nil {
		s.mu.Unlock()
		return "", err
	}
	call := psp.Call{
		Kind: psp.KindTransfer, Reference: "unasked", Amount: u.Amount, Currency: u.Currency,
		Source: strings.Join([]string{string(u.Kind), u.Of, u.Reason}, separator),
	}
	o, most, err := s.book.readHappening(call)
	if err == nil && u.Kind != psp.KindPayout {
		rec := s.book.at(int(o.about))
		call.Reference, call.Currency = rec.reference(), string(rec.currency[:])
		if begins[u.Kind] != "" || call.Amount == 0 {
			call.Amount = most
		}
		if rec.kind() == psp.KindCharge {
			call.Kind = psp.KindCharge
		}
	}
	if err == nil && (call.Amount <= 0 || call.Amount > most || validate(call) != nil) {
		err = errNothingLikeIt
	}
	if err != nil {
		s.mu.Unlock()
		return "", err
	}
	i := s.book.add(call, fingerprint(call), happened, s.now().UnixNano())
	if s.journal == nil {
		s.count(s.book.len())
	} else {
		s.open.lines = appendEntry(s.open.lines, i+1, *s.book.at(i), call.Source)
		s.open.end = s.book.len()
	}
	h, _ := s.book.happening(i)
	waiting := s.batchOf(i)
	s.mu.Unlock()
	if waiting != nil {
		s.kick()
	}
	return h.id(false), waiting.wait()
}

func (s *Simulator) serveUnasked(w http.ResponseWriter, r *http.Request) {
	var u Unasked
	if status, err := readJSON(w, r, &u); err != nil {
		refuse(w, status, "invalid", "invalid_request", fmt.Sprintf("body: %v", err))
		return
	}
	switch id, err := s.Do(u); {
	case errors.Is(err, errNoKind):
		refuse(w, http.StatusBadRequest, "invalid", "invalid_request", err.Error())
	case errors.Is(err, errNothingLikeIt):
		refuse(w, http.StatusNotFound, "not_found", "not_found", err.Error())
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, "server", "storage", err.Error())
	default:
		write(w, http.StatusOK, struct {
			ID string `json:"id"`
		}{id})
	}
}

// unaskedBody is the data of an event of the provider's own.
type unaskedBody struct {
	ID        string `json:"id"`
	Of        string `json:"of,omitempty"`
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
	Reason    string `json:"reason,omitempty"`
	Status    string `json:"status,omitempty"`
	DueBy     int64  `json:"due_by,omitempty"`
	Created   int64  `json:"created"`
}

// unaskedEvent is an event of the provider's own.
type unaskedEvent struct {
	ID      string      `json:"id"`
	Type    string      `json:"type"`
	Created int64       `json:"created"`
	Data    unaskedBody `json:"data"`
}

// event is the provider's event about it. It repeats the reference only of a transfer.
func (h *happening) event() unaskedEvent {
	data := unaskedBody{
		ID: h.id(false), Of: h.of(false), Amount: h.rec.amount, Currency: string(h.rec.currency[:]), Reason: h.reason,
		Status: disputeStatus[h.kind], Created: time.Unix(0, h.rec.at).Unix(),
	}
	if h.kind == psp.KindTransferReversal {
		data.Reference = h.ref
	}
	if h.kind == psp.KindDisputeOpened {
		data.DueBy = h.dueBy()
	}
	return unaskedEvent{eventID(h.n), map[psp.Kind]string{
		psp.KindDisputeOpened: "dispute.opened", psp.KindDispute: "dispute.withdrawn", psp.KindDisputeReversal: "dispute.reinstated",
		psp.KindDisputeWon: "dispute.won", psp.KindDisputeLost: "dispute.lost", psp.KindRefund: "refund.succeeded",
		psp.KindTransferReversal: "transfer.reversed", psp.KindPayout: "payout.paid", psp.KindPayoutReversal: "payout.returned",
	}[h.kind], data.Created, data}
}

// disputeStatus is the status of a dispute after a step, in Stripe's terms.
var disputeStatus = map[psp.Kind]string{
	psp.KindDisputeOpened: "needs_response", psp.KindDispute: "needs_response", psp.KindDisputeReversal: "won",
	psp.KindDisputeWon: "won", psp.KindDisputeLost: "lost",
}

// answerIn is how long a payer's bank gives to answer.
const answerIn = 10 * 24 * time.Hour

func (h *happening) dueBy() int64 { return time.Unix(0, h.rec.at).Add(answerIn).Unix() }

// stripeEvent is Stripe's event about it (its API reference, "Types of events").
func (h *happening) stripeEvent(i int) any {
	amount, currency := toStripeAmount(h.rec.amount, string(h.rec.currency[:])), string(h.rec.currency[:])
	created := time.Unix(0, h.rec.at).Unix()
	o := map[string]any{"id": h.id(true), "amount": amount, "currency": currency, "created": created, "livemode": false, "metadata": map[string]string{}}
	var kind string
	switch h.kind {
	case psp.KindRefund:
		kind = "refund.created"
		o["object"], o["status"], o["payment_intent"], o["reason"] = "refund", "succeeded", h.of(true), "requested_by_customer"
	case psp.KindTransferReversal:
		kind = "transfer.reversed"
		reversal := map[string]any{"id": h.id(true), "object": "transfer_reversal", "amount": amount, "currency": currency, "created": created, "transfer": h.of(true), "metadata": map[string]string{}}
		o["object"], o["id"], o["transfer_group"], o["amount_reversed"] = "transfer", h.of(true), h.ref, amount
		o["metadata"] = map[string]string{referenceMember: h.ref}
		o["reversals"] = map[string]any{"object": "list", "has_more": false, "url": "/v1/transfers/" + h.of(true) + "/reversals", "data": []any{reversal}}
	case psp.KindPayout, psp.KindPayoutReversal:
		kind = "payout.paid"
		o["object"], o["status"] = "payout", "paid"
		if h.kind == psp.KindPayoutReversal {
			kind = "payout.failed"
			o["status"], o["failure_code"] = "failed", "account_closed"
		}
	default:
		kind = map[psp.Kind]string{
			psp.KindDisputeOpened: "charge.dispute.created", psp.KindDispute: "charge.dispute.funds_withdrawn", psp.KindDisputeReversal: "charge.dispute.funds_reinstated",
			psp.KindDisputeWon: "charge.dispute.closed", psp.KindDisputeLost: "charge.dispute.closed",
		}[h.kind]
		o["object"], o["status"], o["payment_intent"], o["reason"] = "dispute", disputeStatus[h.kind], h.of(true), h.reason
		o["charge"] = "ch_" + strings.TrimPrefix(h.of(true), "pi_")
		o["evidence_details"] = map[string]any{"due_by": h.dueBy(), "has_evidence": false, "past_due": false, "submission_count": 0}
	}
	return map[string]any{
		"id": eventID(i), "object": "event", "api_version": StripeAPIVersion, "created": created, "livemode": false, "type": kind,
		"data": map[string]any{"object": o},
	}
}

package simulator

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// An act changes a charge that is undecided, or holds money: the payer authenticates, a
// bank settles, the merchant confirms it again, captures or cancels it. It is a record
// of its own, with its own event, and its outcome becomes the charge's. Its source is
// the charge's id, while a charge's own is a payment method.

// acted is the state of a charge after its last act.
type acted struct {
	outcome outcome
	amount  int64 // captured, or requested
	record  int   // the act
}

// about is the number of the charge that a call acts on.
func (b *book) about(call psp.Call) (int, bool) {
	if call.Kind != psp.KindCharge {
		return 0, false
	}
	n, ok := parseID(psp.KindCharge, call.Source)
	return n, ok && n < b.len() && b.at(n).kind() == psp.KindCharge
}

// state is the state of record i, a movement: its last act's, ignoring failures.
func (b *book) state(i int) (o outcome, amount int64) {
	if a, ok := b.acts[uint32(i)]; ok {
		return a.outcome, a.amount
	}
	return b.at(i).outcome, b.at(i).amount
}

// act records in record i the new state of record n.
func (b *book) act(i, n int, refText string) {
	r := b.at(i)
	b.actOf[uint32(i)] = uint32(n)
	if r.outcome == orderRefused {
		return
	}
	b.acts[uint32(n)] = acted{r.outcome, r.amount, i}
	ref := b.byRef[refText]
	ref.last = uint32(n) + 1
	if r.outcome == approved {
		r.duplicate = ref.approved != 0
		if ref.approved == 0 {
			ref.approved = ref.last
		}
	}
	b.byRef[refText] = ref
}

// judgeAct decides whether an act on charge n is allowed, and its outcome.
func (b *book) judgeAct(n int, asks outcome, call psp.Call) (outcome, error) {
	is, _ := b.state(n)
	if _, failed := b.failed[uint32(n)]; failed {
		return 0, errUnexpected
	}
	switch asks {
	case approved: // a capture
		if is != authorized || call.Amount > b.at(n).amount {
			return 0, errUnexpected
		}
	case canceledCharge:
		if is != authorized && is != needsAction {
			return 0, errUnexpected
		}
	case confirmedAgain:
		if is == approved || is.open() || is == canceledCharge {
			return 0, errUnexpected
		}
		call.Source = call.Again
		return b.judgeCharge(call), nil
	case settledLater, unsettledLater: // by the payer or the bank
		if is != needsAction && is != processing {
			return 0, errUnexpected
		}
		if asks == unsettledLater {
			return authenticationFailed, nil
		}
		if b.manual[uint32(n)] {
			return authorized, nil
		}
		return approved, nil
	default: // there is no other act
	}
	return asks, nil
}

// errUnexpected is the refusal of an act that the charge's state does not allow.
var errUnexpected = errors.New("simulator: the charge is not in a state that allows this")

// take is decide for an act on the charge that call.Source names.
func (s *Simulator) take(call psp.Call, asks outcome) (record, int, error) {
	sum := fingerprint(call)
	sum[0] ^= byte(asks) + 1 // a key is bound to the amount, too
	s.mu.Lock()
	if err := s.refusal(); err != nil {
		s.mu.Unlock()
		return record{}, 0, err
	}
	i, seen := s.book.find(call.Key)
	switch {
	case seen && s.book.at(i).sum != sum:
		s.keyReuses++
		s.mu.Unlock()
		return record{}, 0, errKeyReuse
	case !seen:
		n, ok := s.book.about(call)
		if !ok {
			s.mu.Unlock()
			return record{}, 0, errNoMovement
		}
		if call.Amount == 0 {
			call.Amount = s.book.at(n).amount
		}
		call.Reference, call.Currency = s.book.at(n).reference(), string(s.book.at(n).currency[:])
		v, err := s.book.judgeAct(n, asks, call)
		if err != nil {
			s.mu.Unlock()
			return record{}, 0, err
		}
		i = s.addLocked(call, sum, v)
		s.arm(i, n, call.Again)
	}
	rec, waiting := *s.book.at(i), s.batchOf(i)
	s.mu.Unlock()
	if waiting != nil {
		s.kick()
	}
	return rec, i, waiting.wait()
}

// addLocked adds an outcome and schedules its sync. The caller holds mu.
func (s *Simulator) addLocked(call psp.Call, sum [16]byte, v outcome) int {
	i := s.book.add(call, sum, v, s.now().UnixNano())
	if s.journal == nil {
		s.count(s.book.len())
	} else {
		s.open.lines = appendEntry(s.open.lines, i+1, *s.book.at(i), call.Source)
		s.open.end = s.book.len()
	}
	s.arm(i, i, call.Source)
	return i
}

// What a test makes the payer or the bank do.
const (
	ActSucceed = "succeed" // the payer authenticates, the bank settles
	ActFail    = "fail"    // it fails; the charge may be confirmed again
)

// Act makes a waiting charge succeed or fail, by the provider's id of it in either
// spelling. It returns once that is durable.
func (s *Simulator) Act(id, what string) error {
	asks, ok := map[string]outcome{ActSucceed: settledLater, ActFail: unsettledLater}[what]
	if !ok {
		return fmt.Errorf("simulator: act %q: use %s or %s", what, ActSucceed, ActFail)
	}
	if own, ok := fromStripeID(psp.KindCharge, id); ok {
		id = own
	}
	_, _, err := s.take(psp.Call{Kind: psp.KindCharge, Source: id}, asks)
	return err
}

// Waiting lists the provider's ids, in Stripe's spelling, of the charges that wait for
// their payer or for a bank, oldest first.
func (s *Simulator) Waiting() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.durable {
		if _, act := s.book.actOf[uint32(i)]; act {
			continue
		}
		if o, _ := s.book.state(i); o == needsAction || o == processing {
			ids = append(ids, stripeID(psp.KindCharge, i))
		}
	}
	return ids
}

// actsAfter reads from a payment method when its payer, or its bank, acts:
// pm_card_3ds_240s authenticates after four minutes, pm_bank_debit_172800s settles
// after two days; with _fails behind it, either fails then.
func actsAfter(source string) (after time.Duration, what outcome, ok bool) {
	what = settledLater
	if rest, fails := strings.CutSuffix(source, "_fails"); fails {
		source, what = rest, unsettledLater
	}
	for _, prefix := range []string{tokenAction + "_", tokenDebit + "_"} {
		if rest, is := strings.CutPrefix(source, prefix); is {
			seconds, err := strconv.ParseUint(strings.TrimSuffix(rest, "s"), 10, 31)
			return time.Duration(seconds) * time.Second, what, err == nil && strings.HasSuffix(rest, "s")
		}
	}
	return 0, 0, false
}

// arm schedules the act of charge n, which record i has confirmed with a payment method, if that has
// one. The caller holds mu, or it is not needed yet. The journal has no payment method of a charge that
// was confirmed again: its act is gone with the process.
func (s *Simulator) arm(i, n int, method string) {
	after, what, ok := actsAfter(method)
	if o := s.book.at(i).outcome; !ok || o != needsAction && o != processing {
		return
	}
	if s.journal != nil && method != "" {
		after -= s.now().Sub(time.Unix(0, s.book.at(i).at)) // of a record read from the journal
	}
	d := &dueAct{at: s.now().Add(max(after, 0)), id: formatID(psp.KindCharge, n), what: what}
	d.timer = time.AfterFunc(max(after, 0), func() { s.actNow(d) })
	s.due = append(s.due, d)
}

// dueAct is a scheduled act of a payer or a bank.
type dueAct struct {
	at    time.Time // by the provider's clock
	id    string
	what  outcome
	timer *time.Timer
}

// actNow performs the due acts. It skips those that were done before, or are no longer
// possible.
func (s *Simulator) actNow(d *dueAct) {
	_, _, err := s.take(psp.Call{Kind: psp.KindCharge, Source: d.id}, d.what)
	if err != nil && !errors.Is(err, errUnexpected) && !errors.Is(err, errClosed) {
		s.logger.Warn("a scheduled act of a payer failed", "id", d.id, "error", err)
	}
}

// Elapse performs the acts that are due by the provider's clock, which a test has
// advanced. It returns once they are durable.
func (s *Simulator) Elapse() {
	s.mu.Lock()
	var due []*dueAct
	for _, d := range s.due {
		if !d.at.After(s.now()) {
			due = append(due, d)
		}
	}
	s.mu.Unlock()
	for _, d := range due {
		if d.timer.Stop() {
			s.actNow(d)
		}
	}
}

func (s *Simulator) serveAct(w http.ResponseWriter, r *http.Request) {
	var body struct {
		ID  string `json:"id"`
		Act string `json:"act"`
	}
	if status, err := readJSON(w, r, &body); err != nil {
		refuse(w, status, "invalid", "invalid_request", fmt.Sprintf("body: %v", err))
		return
	}
	switch err := s.Act(body.ID, body.Act); {
	case errors.Is(err, errNoMovement), errors.Is(err, errUnexpected):
		refuse(w, http.StatusNotFound, "not_found", "not_found", err.Error())
	case errors.Is(err, errClosed), err != nil && s.failed != nil:
		refuse(w, http.StatusServiceUnavailable, "server", "storage", err.Error())
	case err != nil:
		refuse(w, http.StatusBadRequest, "invalid", "invalid_request", err.Error())
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// acted reports whether record i is an act.
func (b *book) acted(i int) bool {
	_, ok := b.actOf[uint32(i)]
	return ok
}

func (s *Simulator) isAct(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.acted(i)
}

package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Movement is one movement of money in the provider's book.
type Movement struct {
	Kind      string `json:"kind"` // charge, transfer, refund; dispute, of a charge that its payer has back by one
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
}

// Verdict is what [Judge] finds.
type Verdict struct {
	Requests int `json:"requests"`
	Faults   int `json:"faults"`
	// Keys have been Completed, Declined for a reason that the request gives, Canceled before they were
	// answered, or left Open, if all is well.
	Keys      int `json:"keys"`
	Completed int `json:"completed"`
	Declined  int `json:"declined"`
	Canceled  int `json:"canceled"`
	Movements int `json:"movements"`
	// Open are keys whose answer is that their outcome never became known: of a gateway's, or of requests that are
	// [MayStayOpen]. Ghosts counts those of them whose charge had moved: its money has to be refunded.
	Open   int `json:"open"`
	Ghosts int `json:"ghosts,omitempty"`

	// Duplicates are movements beyond the one that a key's answer names.
	Duplicates int `json:"duplicates"`
	// Differing are final answers other than the first under their key, also to its cancellation.
	Differing int `json:"differing"`
	// Lost are requests that never got a final answer, keys that were refused without a reason,
	// payments for which no money moved, and payments that were given up and not refunded.
	Lost int `json:"lost"`
	// Disordered are keys whose answers fit no order of events in [Model].
	Disordered int `json:"disordered"`
	// Breaks are the first of these.
	Breaks []Break `json:"breaks,omitempty"`
}

// Break is one broken promise. Key is "" for money that moved without a request.
type Break struct{ Key, What string }

// maxBreaks is how many a verdict names: enough to look one up.
const maxBreaks = 10

// OK reports whether every promise was kept.
func (v *Verdict) OK() bool { return v.Duplicates+v.Differing+v.Lost+v.Disordered == 0 }

func (v *Verdict) breaks(count *int, key, format string, args ...any) {
	*count++
	if len(v.Breaks) < maxBreaks {
		v.Breaks = append(v.Breaks, Break{key, fmt.Sprintf(format, args...)})
	}
}

// Judge compares the callers' answers with each other, with the model, and with all that the
// provider moved. Every request must have a path, and an amount that no other key has for its kind
// of movement.
func Judge(h *History, moved []Movement) Verdict {
	ops := h.Operations()
	v := Verdict{Requests: len(ops), Faults: len(h.faults), Movements: len(moved)}
	byKey := map[string][]porcupine.Operation{}
	for _, o := range ops {
		key := o.Input.(Sent).Key
		byKey[key] = append(byKey[key], o)
	}
	v.Keys = len(byKey)
	left := map[Movement]int{}
	for _, m := range moved {
		left[m]++
	}
	askedBy, namedBy := map[Movement]string{}, map[string]string{}
	back := returned(ops)
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		v.judge(key, byKey[key], left, back)
		for _, o := range byKey[key] {
			in := o.Input.(Sent)
			if amount, err := in.amount(); err == nil {
				askedBy[Movement{Kind: in.kind(), Amount: amount}] = key
			}
			switch out := o.Output.(Got); {
			case in.order():
				if of := strings.Split(in.Path, "/")[3]; namedBy[of] == "" {
					namedBy[of] = key
				}
			default:
				namedBy[out.made().ID], namedBy[out.became().Charge] = key, key
			}
		}
	}
	delete(namedBy, "")
	for m, n := range left {
		if m.Kind == "dispute" {
			continue // which no key asks for
		}
		for range n {
			v.breaks(&v.Duplicates, cmp.Or(namedBy[m.Reference], askedBy[Movement{Kind: m.Kind, Amount: m.Amount}]), "a %s of %d moved under %s, beyond what the key is answered with", m.Kind, m.Amount, m.Reference)
		}
	}
	return v
}

// back is what merchants were answered as refunded, by charge, for the charges whose keys were given up.
type back map[string]int64

func returned(ops []porcupine.Operation) back {
	all, seen := back{}, map[Sent]bool{}
	for _, o := range ops {
		if of := o.Output.(Got).became().Charge; of != "" {
			all[of] += 0
		}
	}
	for _, o := range ops {
		in := o.Input.(Sent)
		amount, _ := in.amount()
		if _, givenUp := all[in.refunds()]; givenUp && !seen[in] && strings.HasPrefix(o.Output.(Got).Reply, "201|") {
			seen[in] = true
			all[in.refunds()] += amount
		}
	}
	return all
}

// refunds is the charge that the request refunds.
func (s Sent) refunds() string {
	var asked struct{ Charge string }
	_ = json.Unmarshal([]byte(s.Body), &asked) // else it refunds none
	return asked.Charge
}

// kind is that of the movement that the request asks for.
func (s Sent) kind() string { return strings.TrimSuffix(strings.TrimPrefix(s.Path, "/v1/"), "s") }

func (s Sent) amount() (int64, error) {
	var asked struct{ Amount int64 }
	err := json.Unmarshal([]byte(s.Body), &asked)
	return asked.Amount, err
}

// order reports whether the request captures a charge, or cancels one. Whether it does, or is refused,
// depends on what others have ordered.
func (s Sent) order() bool {
	return strings.HasPrefix(s.Path, "/v1/charges/")
}

// foreign reports whether the request is to an API behind a gateway. That may answer 200, and its outcome may
// stay unknown for good.
func (s Sent) foreign() bool {
	return !s.order() && !slices.Contains([]string{"charge", "transfer", "refund"}, s.kind())
}

// MayStayOpen is a member of requests to a provider that may never tell what a call of it came to.
const MayStayOpen = `"metadata":{"outcome":"may stay open"}`

func (s Sent) mayStayOpen() bool { return s.foreign() || strings.Contains(s.Body, MayStayOpen) }

// mayFail reports whether a charge may be declined for good: as its card is stolen, or as its payer, a
// bank, or who was to capture it let it go.
func (s Sent) mayFail() bool {
	return strings.Contains(s.Body, "pm_card_stolen") || strings.Contains(s.Body, `_fails"`) || strings.Contains(s.Body, `"capture_method":"manual"`)
}

// judge takes the movements of the key's answers out of left.
func (v *Verdict) judge(key string, ops []porcupine.Operation, left map[Movement]int, back back) {
	open := map[Sent]bool{}
	var first, became *porcupine.Operation
	for _, o := range ops {
		in, out := o.Input.(Sent), o.Output.(Got)
		if _, seen := open[in]; !seen {
			open[in] = true
		}
		switch {
		case out.Kind == Mismatch:
			open[in] = false
		case out.Kind == Final:
			open[in] = false
			if first == nil || o.Return < first.Return {
				first = &o
			}
		case out.Kind == Became && !out.forNow():
			open[in] = false
			if became == nil || o.Return < became.Return {
				became = &o
			}
		}
	}
	for in, unanswered := range open {
		if _, mayBeRefused := back[in.refunds()]; unanswered && !in.order() && !mayBeRefused {
			v.breaks(&v.Lost, key, "no final answer to %s %s", in.Path, in.Body)
		}
	}
	for _, o := range ops {
		switch out := o.Output.(Got); {
		case out.Kind == Final && out.Reply != first.Output.(Got).Reply:
			v.breaks(&v.Differing, key, "first answered %s, then %s", first.Output.(Got).Reply, out.Reply)
		case out.Kind == Became && !out.forNow() && out.Reply != became.Output.(Got).Reply:
			v.breaks(&v.Differing, key, "its cancellation was first answered %s, then %s", became.Output.(Got).Reply, out.Reply)
		}
	}
	var end string
	if became != nil {
		end = became.Output.(Got).Reply
	}
	if first != nil {
		v.paid(key, first, became != nil, left)
	}
	if became != nil {
		v.gaveUp(key, first, became.Output.(Got), left, back)
	}
	if result := check(slices.Clone(ops), perKey); result != porcupine.Ok {
		v.breaks(&v.Disordered, key, "its answers fit no order of events (%s); its cancellation: %s", result, end)
	}
}

// made is the object of an answer.
type made struct {
	ID       string
	Captured *int64 `json:"amount_captured"` // of what was held
}

func (g Got) made() (is made) {
	if parts := strings.SplitN(g.Reply, "|", 4); len(parts) == 4 {
		_ = json.Unmarshal([]byte(parts[3]), &is) // else there is none
	}
	return is
}

// paid compares the answer of a key with what the provider moved.
func (v *Verdict) paid(key string, first *porcupine.Operation, canceled bool, left map[Movement]int) {
	in, out := first.Input.(Sent), first.Output.(Got)
	reply := out.Reply
	parts := strings.SplitN(reply, "|", 4)
	switch {
	case in.order():
		if parts[0] != "200" {
			v.breaks(&v.Lost, key, "remembered as refused: %s", reply)
		}
		return // the charge has what moved
	case parts[0] == "402" && in.mayFail():
		v.Declined++ // what moved is left, and a duplicate
		return
	case parts[0] == "410" && canceled:
		v.Canceled++
		return
	case parts[0] == "503" && in.mayStayOpen():
		v.Open++
		amount, _ := in.amount()
		for m := range left {
			if m.Kind == in.kind() && m.Amount == amount && left[m] > 0 { // it was done, once
				left[m]--
				v.ghost(key, m, left)
				break
			}
		}
		return
	case parts[0] != "201" && (parts[0] != "200" || !in.foreign()) || len(parts) != 4:
		v.breaks(&v.Lost, key, "refused without a reason: %s", reply)
		return
	}
	made := out.made()
	amount, err := in.amount()
	if err != nil || made.ID == "" {
		v.breaks(&v.Lost, key, "unreadable: %v: %s", err, reply)
		return
	}
	v.Completed++
	if strings.Contains(in.Body, `"capture_method":"manual"`) && made.Captured != nil {
		amount = *made.Captured
	}
	m := Movement{in.kind(), made.ID, amount}
	if left[m] == 0 {
		v.breaks(&v.Lost, key, "answered with %s, for which no %s of %d moved", made.ID, m.Kind, m.Amount)
		return
	}
	left[m]--
}

// ghost is a movement of a key whose outcome never became known: a charge has to be refunded.
func (v *Verdict) ghost(key string, of Movement, left map[Movement]int) {
	if of.Kind != "charge" {
		return
	}
	v.Ghosts++
	for m := range left {
		if m.Kind == "refund" && m.Amount == of.Amount && left[m] > 0 {
			left[m]--
			return
		}
	}
	v.breaks(&v.Lost, key, "its outcome never became known, and the charge %s of %d that moved was not refunded", of.Reference, of.Amount)
}

// gaveUp compares what a cancellation came to with what the provider moved, and with the key's answer.
func (v *Verdict) gaveUp(key string, first *porcupine.Operation, end Got, left map[Movement]int, back back) {
	is, reply := end.became(), ""
	if first != nil {
		reply = first.Output.(Got).Reply
	}
	paid := strings.HasPrefix(reply, "201|") || strings.HasPrefix(reply, "200|")
	switch {
	case paid != (is.Outcome == "already_made") && is.Outcome != "refunded", strings.HasPrefix(reply, "503|") != strings.HasPrefix(end.Reply, "503|"):
		v.breaks(&v.Lost, key, "answered %s, and its cancellation %s", reply, end.Reply)
		return
	case is.Outcome != "refunded":
		return // what moved is left, and a duplicate
	}
	var charge Movement
	for m := range left {
		if m.Kind == "charge" && m.Reference == is.Charge && (charge.Kind == "" || left[m] > left[charge]) {
			charge = m
		}
	}
	refund := Movement{"refund", is.Refund, charge.Amount - back[is.Charge]}
	disputed := left[Movement{"dispute", is.Charge, charge.Amount}] > 0
	switch {
	case charge.Kind == "" || !paid && left[charge] == 0:
		v.breaks(&v.Lost, key, "given up as %s, for which no charge moved", is.Charge)
	case disputed && is.Refund == "" && !paid:
		left[charge]--
	case refund.Amount == 0 && is.Refund == "":
	case left[refund] == 0:
		v.breaks(&v.Lost, key, "given up, and no refund %s of %d moved", is.Refund, refund.Amount)
	default:
		left[refund]--
		if !paid {
			left[charge]--
		}
		if disputed && !paid {
			v.breaks(&v.Duplicates, key, "given up, and refunded by %s although its payer has the money by a dispute", is.Refund)
		}
	}
}

// The files of a run.
const (
	File      = "history.ndjson" // as [History.Write] writes it
	Movements = "effects.ndjson" // the provider's, as GET /_sim/effects has them
)

// JudgeFiles judges a run by its files in dir.
func JudgeFiles(dir string) (Verdict, *History, error) {
	text, err := os.Open(filepath.Join(dir, File))
	if err != nil {
		return Verdict{}, nil, err
	}
	defer func() { _ = text.Close() }()
	h, err := Read(text)
	if err != nil {
		return Verdict{}, nil, fmt.Errorf("%s: %w", text.Name(), err)
	}
	book, err := os.Open(filepath.Join(dir, Movements))
	if err != nil {
		return Verdict{}, nil, err
	}
	defer func() { _ = book.Close() }()
	var moved []Movement
	for dec := json.NewDecoder(book); ; {
		var m Movement
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return Judge(h, moved), h, nil
		} else if err != nil {
			return Verdict{}, nil, fmt.Errorf("%s: %w", book.Name(), err)
		}
		moved = append(moved, m)
	}
}

// Package history checks the answers of concurrent clients against a naive model: a key
// belongs to the first request that reached it, and once that request has its final
// answer everybody reads that answer. From when a key was given up before its charge was
// answered, nobody reads that the charge was made. The check is porcupine's, a
// linearizability checker; the model is below.
package history

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Sent is one request: its key, unique in the history, its body, and, for [Judge], the path that it
// was sent to.
type Sent struct {
	Key, Body string
	Path      string `json:",omitempty"`
}

// Got is the answer of the client's request.
type Got struct {
	Kind  Kind
	Reply string // for Final: all that every retry must repeat
}

// Kind is the meaning of an answer for its key.
type Kind string

const (
	Final    Kind = "final"    // 201, or a decline for good
	Mismatch Kind = "mismatch" // 422
	Soft     Kind = "soft"     // declined for now: no request may have a final answer yet
	InUse    Kind = "in use"   // 409: the key belongs to this request
	None     Kind = "none"     // 503 or no answer at all: it may have reached the key or not, now or later
	Became   Kind = "became"   // of a cancellation: what the key has come to, for now or for good
)

// CancelPath is the path of requests that give their key up.
const CancelPath = "/v1/idempotency-keys/cancel"

// became is what a cancellation says: an outcome, or the code of its refusal.
type became struct {
	Outcome, Code, Charge, Refund string
}

func (g Got) became() (is became) {
	if parts := strings.SplitN(g.Reply, "|", 4); len(parts) == 4 {
		_ = json.Unmarshal([]byte(parts[3]), &is) // else it says nothing that is allowed
	}
	if is.Outcome == "" {
		is.Outcome = is.Code
	}
	return is
}

// forNow reports whether a cancellation is to be asked about again: also one whose refund was refused
// beside another refund of the same charge.
func (g Got) forNow() bool {
	return strings.HasPrefix(g.Reply, "202|") || g.became().Outcome == "not_refundable"
}

// keyState is a key as the model sees it.
type keyState struct {
	body     string // the request it belongs to, "" while it is free
	reply    string // the final answer, "" until a client has read it
	canceled bool   // it was given up before it was answered; if body is "", before it was used
	became   string // what its cancellation came to for good, "" until a client has read it
}

// bind is a request's effect on the key: whether it is the one that the key belongs to.
func (s keyState) bind(in Sent) (keyState, bool) {
	switch {
	case s.body == in.Body, s.body == "" && s.canceled:
		return s, true
	case s.body == "":
		s.body = in.Body
		return s, true
	}
	return s, false
}

// final are the states in which a request is answered so for good.
func (s keyState) final(in Sent, reply string) []any {
	status, _, _ := strings.Cut(reply, "|")
	gone := status == "410"
	switch {
	case s.reply != "" && s.reply != reply, gone && !s.canceled, s.canceled && s.body == "" && !gone:
		return nil
	case s.canceled && in.Path == "/v1/charges" && !gone:
		return nil // the money that moved goes back
	}
	s.reply = reply
	return []any{s}
}

// cancel are the states after a cancellation that says so.
func (s keyState) cancel(out Got) (next []any) {
	if out.Kind == None {
		next = []any{s}
		if s.reply == "" {
			s.canceled = true
			next = append(next, s)
		}
		return next
	}
	status, _, _ := strings.Cut(s.reply, "|")
	if out.Kind != Became || s.became != "" && s.became != out.Reply {
		return nil
	}
	if !out.forNow() {
		s.became = out.Reply
	}
	given := s
	given.canceled = true
	switch is := out.became().Outcome; {
	case is == "unused":
		if s.body == "" {
			return []any{given}
		}
	case s.body == "":
	case is == "unknown":
		if s.reply == "" {
			return []any{given}
		}
	case is == "not_made" && s.reply == "":
		return []any{given, s} // s: it was declined, and nobody has read that
	case is == "not_made":
		if status == "402" || status == "410" {
			return []any{s}
		}
	case (is == "refunded" || is == "refund_pending") && s.reply == "":
		return []any{given, s} // s: it was paid, and nobody has read that
	case is == "refunded", is == "refund_pending":
		if status == "201" || status == "410" {
			return []any{s}
		}
	case is == "already_made", is == "not_refundable":
		if s.reply == "" || status == "201" || status == "200" {
			return []any{s}
		}
	case is == "" && strings.HasPrefix(out.Reply, "503|"): // it never became known, which only a gateway says
		if s.reply == "" || status == "503" {
			return []any{s}
		}
	}
	return nil
}

// Model decides which answers one key may give to which requests in which order. Its
// operations take a [Sent] and give a [Got].
var Model = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(Sent).Key
			byKey[key] = append(byKey[key], o)
		}
		parts := make([][]porcupine.Operation, 0, len(byKey))
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() []any { return []any{keyState{}} },
	Step: func(state, input, output any) []any {
		s, in, out := state.(keyState), input.(Sent), output.(Got)
		if in.Path == CancelPath {
			return s.cancel(out)
		}
		bound, matches := s.bind(in)
		switch out.Kind {
		case Final:
			if matches {
				return bound.final(in, out.Reply)
			}
		case Mismatch:
			if !matches {
				return []any{s}
			}
		case Soft:
			if matches && s.reply == "" && !s.canceled {
				return []any{bound}
			}
		case InUse:
			if matches && s.reply == "" {
				return []any{bound}
			}
		case None:
			if matches {
				return []any{s, bound}
			}
			return []any{s}
		case Became: // no request reads that
		}
		return nil
	},
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%v → %v", input, output)
	},
}).ToModel()

// History collects operations. The zero value is empty. It is safe for
// concurrent use.
type History struct {
	mu     sync.Mutex
	ops    []porcupine.Operation
	faults []Fault
}

// began is the origin of the model's times.
var began = time.Now()

// at is a time in the model, which has integers only: Unix time in nanoseconds, by one monotonic
// clock.
func at(t time.Time) int64 { return began.UnixNano() + int64(t.Sub(began)) }

// Add adds one operation that was sent at start and answered just now. client is for
// people who read a failing history.
func (h *History) Add(client int, in Sent, start time.Time, out Got) {
	h.AddAt(client, "", in, start, out)
}

// AddAt is Add with the node that it was sent to, and more, for people, too.
func (h *History) AddAt(client int, node string, in Sent, start time.Time, out Got) {
	o := porcupine.Operation{
		ClientId: client, Input: in, Call: at(start),
		Output: out, Return: at(time.Now()),
	}
	if node != "" {
		o.Metadata = node
	}
	if out.Kind == None {
		// It may still be in transit and take effect at any later time.
		o.Return = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
}

// Operations returns a copy of the operations.
func (h *History) Operations() []porcupine.Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]porcupine.Operation(nil), h.ops...)
}

// Check reports whether the model allows every key's history: porcupine.Ok, Illegal, or
// Unknown if timeout was too short.
func (h *History) Check(timeout time.Duration) porcupine.CheckResult {
	return check(h.Operations(), timeout)
}

// check changes ops.
//
// A request takes its key before it is answered, and others may read that in between: so the first
// of each request is there twice, once as one without an answer. That stands for all of them without
// one: it may take effect whenever a later one may, and a second effect changes nothing. An outage
// leaves hundreds, and the checker would try each subset of them.
func check(ops []porcupine.Operation, timeout time.Duration) porcupine.CheckResult {
	first := map[Sent]porcupine.Operation{}
	for _, o := range ops {
		if f, seen := first[o.Input.(Sent)]; o.Output.(Got).Kind != Mismatch && (!seen || o.Call < f.Call) {
			first[o.Input.(Sent)] = o
		}
	}
	ops = slices.DeleteFunc(ops, func(o porcupine.Operation) bool { return o.Output.(Got).Kind == None })
	for _, o := range first {
		o.Output, o.Return = Got{Kind: None}, math.MaxInt64
		ops = append(ops, o)
	}
	return porcupine.CheckOperationsTimeout(Model, ops, timeout)
}

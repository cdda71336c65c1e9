package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// derive adds the derived members.
func (g *gathering) derive() {
	g.attempts()
	for _, e := range g.h.Timeline {
		switch {
		case e.Event == claim.EventReplied && e.Detail == "mismatch":
			g.h.Mismatches++
		case e.Event == claim.EventReplied:
			if e.Detail != "shared" { // a twin that read the same refusal is no retry
				g.h.Replays++
			}
		case holds[e.Event] && e.Region != e.Home && !slices.Contains(g.h.Deputies, e.Region):
			g.h.Deputies = append(g.h.Deputies, e.Region)
		}
	}
	what, next := g.outcome()
	g.h.Verdict, g.h.Next = g.sentence(what), next
}

// holds are the events by which a holder gets the claim.
var holds = map[claim.Event]bool{claim.EventClaimed: true, claim.EventReclaimed: true, claim.EventReplaced: true, claim.EventTakenOver: true}

// ends are the events that explain why an attempt ended.
var ends = map[claim.Event]bool{
	claim.EventSettled: true, claim.EventReleased: true, claim.EventDeferred: true, claim.EventGivenUp: true, claim.EventPending: true,
}

// attempts lists the holders, and the result of each.
func (g *gathering) attempts() {
	for _, e := range g.h.Timeline {
		switch {
		case holds[e.Event]:
			g.h.Attempts = append(g.h.Attempts, Attempt{Generation: e.Generation, Fence: e.Fence, Region: e.Region, Node: e.Node, Began: e.At})
		case e.Event == claim.EventCanceled:
			if a := g.attempt(e.Fence - 1); a != nil && a.Outcome == "" {
				a.Fence = e.Fence // the holder goes on under it
			}
		case e.Event == claim.EventAttempt:
			if a := g.attempt(e.Fence); a != nil {
				a.Ended, a.Outcome = e.At, e.Detail
			}
		case ends[e.Event]:
			a := g.attempt(e.Fence)
			if a == nil && e.Event == claim.EventDeferred {
				a = g.attempt(e.Fence - 1) // an attempt that sent nothing raises the fence
			}
			if a != nil {
				a.Reason = e.Detail
			}
		}
	}
	if b := g.booking(); b != nil {
		for i := range g.h.Attempts {
			if a := &g.h.Attempts[i]; a.Outcome == claim.OutcomeDone {
				a.Provider, a.ProviderRef = b.Provider, b.ProviderRef
			}
		}
	}
}

// attempt returns the latest attempt under a fence.
func (g *gathering) attempt(fence uint64) *Attempt {
	for i := len(g.h.Attempts) - 1; i >= 0; i-- {
		if g.h.Attempts[i].Fence == fence {
			return &g.h.Attempts[i]
		}
	}
	return nil
}

// booking returns the booking with the object's id.
func (g *gathering) booking() *Booking {
	for i := range g.h.Bookings {
		if g.h.Bookings[i].ID == g.h.Object {
			return &g.h.Bookings[i]
		}
	}
	return nil
}

// Past participles, by operation, and by the kind of a booking.
var done = map[string]string{
	"charge": "charged", "transfer": "transferred", "refund": "refunded", "compensation": "given back",
	"capture": "captured", "cancel": "canceled",
	string(ledger.GhostRefund): "given back",
}

func verb(operation string) string {
	if v, ok := done[operation]; ok {
		return v
	}
	return "done"
}

// keyCanceled is payment.ReasonKeyCanceled, as it is stored.
const keyCanceled = "key_canceled"

// waitsForCapture is payment.RequiresCapture, as it is stored.
const waitsForCapture = "requires_capture"

const (
	nextWait    = "wait: the outbox asks the provider by itself"
	nextRetry   = "nothing: the merchant may send the same request again"
	nextRead    = "inspect it again once everything can be read"
	nextNothing = ""
)

// outcome returns the result of the key, and the next action.
func (g *gathering) outcome() (what, next string) {
	for _, w := range g.h.Waiting {
		if w.Parked {
			return g.parked(&w)
		}
	}
	switch c := g.h.Claim; {
	case c == nil:
		return g.without()
	case c.state == claim.InFlight:
		return g.open(c)
	case c.state == claim.Completed:
		return verb(c.Operation) + " once" + g.takenBack(), nextNothing
	case c.state == claim.FailedRetry:
		return "declined " + times(int(c.Generation)) + reason(c.Reason) + ", may be tried again" + g.notMoved(), nextRetry
	case c.Reason == claim.ReasonOutcomeUnknown:
		return fmt.Sprintf("given up on after %s with the outcome unknown", count(int(c.Attempts), "attempt")) + g.takenBack(),
			"compare with the provider's statement: homeward reconcile; a charge that surfaces is refunded"
	case c.Reason == keyCanceled:
		return "canceled by its merchant" + g.notMoved(), nextNothing
	default:
		return "declined for good" + reason(c.Reason) + g.notMoved(), nextNothing
	}
}

// parked is a key with a row that waits for an operator.
func (g *gathering) parked(w *Waiting) (what, next string) {
	next = fmt.Sprintf("find out why, then homeward outbox retry --queue %s %s", w.Queue, w.ID)
	switch {
	case w.Queue == outbox.ProviderCalls:
		return "outcome unknown and parked for a person" + reason(w.LastError), next
	case g.h.Claim == nil:
		what, _ = g.without()
	default:
		state := *g
		state.h.Waiting = nil
		what, _ = state.outcome()
	}
	return what + fmt.Sprintf(", and a row of %s is parked for a person", w.Queue), next
}

// open is a claim in flight.
func (g *gathering) open(c *Claim) (what, next string) {
	switch {
	case c.WaitsFor != "":
		if c.WaitsFor == waitsForCapture {
			return "the provider holds the money, and none has moved: " + c.WaitsFor, "the merchant captures or cancels it; it ends by itself at expires_at, or once the provider lets it go"
		}
		return "the provider has it and waits: " + c.WaitsFor, "wait: for the payer or a bank; the provider notifies, and the worker asks it now and then"
	case c.Holder != "" && g.now.Before(c.LeaseUntil):
		return "in flight: " + c.Holder + " has it and may be calling the provider", "wait: its lease ends at " + c.LeaseUntil.UTC().Format("15:04:05Z")
	case c.Holder != "":
		return "in flight: " + c.Holder + " had it and has not settled it, and its lease is over", nextWait
	default:
		return fmt.Sprintf("outcome unknown after %s%s", count(int(c.Attempts), "attempt"), reason(c.Reason)), nextWait
	}
}

// without is a key without a stored claim.
func (g *gathering) without() (what, next string) {
	switch b := g.booking(); {
	case b != nil:
		return verb(string(b.Kind)) + " once" + g.free() + g.takenBack(), nextNothing
	case g.unpaid != nil && g.unpaid.Reason == claim.ReasonOutcomeUnknown:
		return "given up on with the outcome unknown" + g.free() + g.takenBack(), "compare with the provider's statement: homeward reconcile"
	case g.unpaid != nil:
		return "declined" + reason(g.unpaid.Reason) + g.free() + g.notMoved(), nextNothing
	}
	for i := len(g.h.Timeline) - 1; i >= 0; i-- {
		switch e := &g.h.Timeline[i]; {
		case e.Event == claim.EventSettled && slices.ContainsFunc(g.h.Timeline[:i], func(a Entry) bool { // in one step, at one time
			return a.Event == claim.EventAttempt && a.Detail == claim.OutcomeDone && a.Fence == e.Fence && a.At.Equal(e.At)
		}):
			return verb(g.operation()) + " once" + g.free(), nextNothing
		case e.Event == claim.EventGivenUp:
			return "given up on with the outcome unknown" + g.free(), nextNothing
		case e.Event == claim.EventSettled, e.Event == claim.EventReleased:
			return "declined" + reason(e.Detail) + g.free(), nextNothing
		}
	}
	if len(g.h.Timeline) > 0 {
		return "begun, and what came of it is not in what was read", nextNothing
	}
	if len(g.h.Missing) > 0 {
		return "pinned, and whether it was claimed could not be read", nextRead
	}
	return "pinned and never claimed: nothing was sent to the provider", nextRetry
}

// free states that the key has no claim, unless that was not read.
func (g *gathering) free() string {
	if g.claimUnread {
		return ", and its claim could not be read"
	}
	return ", its key is free again"
}

// notMoved states that no money moved, or what moved all the same. A ghost may be in the books of any
// region.
func (g *gathering) notMoved() string {
	switch back := g.takenBack(); {
	case back != "":
		return back
	case g.booksUnread:
		return ", and what moved could not be read"
	}
	return ", no money moved"
}

// takenBack describes the bookings besides the object's own.
func (g *gathering) takenBack() string {
	return (&money{g.h.Object, g.booked, g.r.Digits}).since()
}

// sentence is the outcome with the answers to the next questions.
func (g *gathering) sentence(what string) string {
	var b strings.Builder
	b.WriteString(what)
	next := ", "
	if strings.Contains(what, "; ") {
		next = "; "
	}
	if g.h.Replays > 0 {
		b.WriteString(next + "replayed " + times(g.h.Replays))
	}
	if n := g.takeOvers(); n > 0 {
		b.WriteString(next + "taken over " + times(n))
	}
	if g.h.Mismatches > 0 {
		b.WriteString(next + "another request under its key refused " + times(g.h.Mismatches))
	}
	if g.h.Home != "" {
		b.WriteString("; home " + g.h.Home)
	}
	if len(g.h.Deputies) > 0 {
		b.WriteString(", with " + strings.Join(g.h.Deputies, " and ") + " as deputy")
	}
	if len(g.h.Missing) > 0 {
		b.WriteString("; not everything could be read")
	}
	return b.String()
}

func (g *gathering) takeOvers() (n int) {
	for i := range g.h.Timeline {
		if g.h.Timeline[i].Event == claim.EventTakenOver {
			n++
		}
	}
	return n
}

func reason(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// times formats a count for people.
func times(n int) string {
	words := [...]string{"never", "once", "twice", "three times", "four times", "five times", "six times", "seven times", "eight times", "nine times", "ten times"}
	if n >= 0 && n < len(words) {
		return words[n]
	}
	return fmt.Sprintf("%d times", n)
}

func count(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

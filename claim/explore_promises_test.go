package claim_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
)

// promise is a predicate on one event: it returns what is wrong after it, "" for nothing.
type promise struct {
	name  string
	check func(before, after *world) string
}

// promises are those of package claim that a small world can break. A test of the explorer
// sees each of them broken.
var promises = []promise{
	{"a key is charged at most once", chargedOnce},
	{"every reader of a final answer reads the same bytes", sameBytes},
	{"a changed body is refused", changedBodyRefused},
	{"unknown never becomes failure", unknownIsNoFailure},
	{"a final claim never changes", finalStands},
	{"a key has at most one home", oneHome},
	{"no node takes over a lease that runs", leaseRespected},
	{"no call without a durable claim", claimBeforeCall},
	{"money that moved is booked, asked about, or refunded", moneyAccounted},
	{"a recorded verdict answers its caller", verdictAnswers},
	{"a request that waited for a refusal gets it", refusalShared},
	{"a claim in flight has a queued call", inFlightQueued},
	{"an answer says what the provider did", answersTrue},
	{"money is given back once, and only what no merchant is owed", givenBackOnce},
	{"a canceled key moves no money that is not returned", canceledReturned},
}

// chargedOnce: two movements of a key are as far apart as the key's life is long.
func chargedOnce(_, w *world) string {
	p := &w.store.policy
	for i, a := range w.moves {
		for _, b := range w.moves[:i] {
			apart := time.Duration(max(a.at-b.at, b.at-a.at)) * time.Second
			if a.state == "paid" && b.state == "paid" && !a.betrayed && !b.betrayed && a.idk == b.idk && apart < p.ReplayFor+p.TombstoneFor-p.ClockOffset {
				return fmt.Sprintf("the provider moved money for %s and for %s, %v apart", b.object, a.object, apart)
			}
		}
	}
	return ""
}

// sameBytes: two final answers of a key were recorded as far apart as its life is long.
func sameBytes(_, w *world) string {
	p := &w.store.policy
	for i, a := range w.said {
		for _, b := range w.said[:i] {
			final := !a.final.IsZero() && !b.final.IsZero() && a.key == b.key
			if final && a.answer != b.answer && a.final.Sub(b.final).Abs() < p.ReplayFor+p.TombstoneFor-p.ClockOffset {
				return fmt.Sprintf("one caller read %q and another %q", b.answer, a.answer)
			}
		}
	}
	return ""
}

// changedBodyRefused: each answer, and each movement, is of the body that its caller sent.
func changedBodyRefused(_, w *world) string {
	for _, s := range w.said {
		if len(w.banks) > 0 {
			break // a real answer does not name the body
		}
		if _, of, _ := strings.Cut(s.answer, " "); !strings.HasPrefix(of, s.body+": ") {
			return fmt.Sprintf("a request for %s read %q", s.body, s.answer)
		}
	}
	for i, a := range w.moves {
		for _, b := range w.moves[:i] {
			if a.object == b.object && a.body != b.body {
				return fmt.Sprintf("the provider received %s with %s and with %s", a.object, b.body, a.body)
			}
		}
	}
	return ""
}

// unknownIsNoFailure: no money moves under a generation that was refused. An outcome that
// stayed unknown is named as such.
func unknownIsNoFailure(_, w *world) string {
	for _, m := range w.moves {
		r := w.claimOf(&m.call)
		if m.state != "paid" || m.betrayed || r == nil {
			continue
		}
		if w.restored && m.generation > r.Generation {
			continue // the store has lost that generation, and withholds the key
		}
		no := r.State == claim.FailedRetry || r.State == claim.FailedTerminal && r.Reason != claim.ReasonOutcomeUnknown && r.Reason != payment.ReasonKeyCanceled
		if no || m.generation < r.Generation {
			return fmt.Sprintf("%s is %s in generation %d, and the provider moved money for its generation %d", m.object, r.State, r.Generation, m.generation)
		}
	}
	return ""
}

func finalStands(before, after *world) string {
	if before.restored != after.restored {
		return "" // a key that a restore lost begins again
	}
	for at, old := range before.store.rows {
		now := after.store.rows[at]
		if !old.State.Final() || now == old || old.Age(&after.store.policy, after.by(asia).now) == claim.Gone {
			continue
		}
		if now == nil || now.State != old.State || now.Minted.ID != old.Minted.ID || !now.SettledAt.Equal(old.SettledAt) || !bytes.Equal(now.Response.Body, old.Response.Body) {
			return old.Minted.ID + " was final, and has changed"
		}
	}
	return ""
}

// oneHome: the claims that own one key, live or as a tombstone, are in one region. Each is
// judged by the clock that lets it go first.
func oneHome(_, w *world) string {
	for _, key := range w.keys() {
		homes := 0
		for _, home := range regions {
			if r := w.store.rows[claimtest.Place{Home: home, Key: key}]; r != nil && r.Age(&w.store.policy, w.by(asia).now) != claim.Gone {
				homes++
			}
		}
		if homes > 1 {
			return "key " + key.Value + " has a claim in two regions"
		}
	}
	return ""
}

// leaseRespected: while a holder that was not heard yet has its lease by the true clock, no
// other holder has the row.
func leaseRespected(_, w *world) string {
	for i := range w.tasks {
		t := &w.tasks[i]
		if t.phase != holding && t.phase != calling && (t.phase != settling || t.recorded != nil || t.held.State != claim.InFlight) || w.time >= t.until {
			continue
		}
		if r := w.row(&t.held); r != nil && r.State == claim.InFlight && r.Fence != t.held.Fence && r.Holder != "" && r.Holder != t.node {
			return fmt.Sprintf("%s has the lease of %s for %d s more, and %s took it", w.who(i), r.Minted.ID, t.until-w.time, r.Holder)
		}
	}
	return ""
}

// claimBeforeCall: what is on its way to the provider has a row.
func claimBeforeCall(before, w *world) string {
	for i := range w.calls {
		if i >= len(before.calls) && w.claimOf(&w.calls[i]) == nil {
			return "a call for " + w.calls[i].object + " was sent, and no row has it"
		}
	}
	return ""
}

// moneyAccounted: a row of the store leads to every movement.
func moneyAccounted(_, w *world) string {
	for _, m := range w.moves {
		r := w.claimOf(&m.call)
		if m.state != "paid" || r == nil {
			continue // swept: its time is over
		}
		own := claimtest.Ref{Home: r.Home, ID: m.object}
		_, booked := w.store.books[own]
		_, unpaid := w.store.unpaid[own]
		if r.State == claim.Completed != booked || r.State == claim.FailedTerminal && !unpaid {
			return fmt.Sprintf("%s is %s, booked %v, unpaid row %v", m.object, r.State, booked, unpaid)
		}
	}
	return ""
}

func verdictAnswers(_, w *world) string {
	for i := range w.tasks {
		if w.tasks[i].fenced {
			return w.who(i) + "'s verdict was recorded, and its retry was refused"
		}
	}
	return ""
}

func refusalShared(_, w *world) string {
	for i := range w.tasks {
		if w.tasks[i].early {
			return w.who(i) + " began before the refusal, and began the next generation"
		}
	}
	return ""
}

func inFlightQueued(_, w *world) string {
	for _, r := range w.store.rows {
		if _, ok := w.store.queued[outbox.ProviderCalls][claimtest.Ref{Home: r.Home, ID: r.Minted.ID}]; !ok && r.State == claim.InFlight {
			return r.Minted.ID + " is in flight, and no worker will ask about it"
		}
	}
	return ""
}

// claimOf is the row of the object that c is for, nil if there is none.
func (w *world) claimOf(c *call) *claim.Record {
	for at, r := range w.store.rows {
		if at.Key.Value == c.idk && r.Minted.ID == c.object {
			return r
		}
	}
	return nil
}

// answersTrue: the movement of a charge that was made, captured or canceled is as the answer says,
// and so it is booked.
func answersTrue(_, w *world) string {
	if len(w.banks) == 0 {
		return ""
	}
	for _, r := range w.store.rows {
		if r.State != claim.Completed || payment.Operation(r.Operation).GivesBack() {
			continue
		}
		var says struct {
			ID, Status string
			Amount     int64
			Captured   int64 `json:"amount_captured"`
		}
		if err := json.Unmarshal(r.Response.Body, &says); err != nil {
			return err.Error()
		}
		amount, paid := cmp.Or(says.Captured, says.Amount), false
		for _, m := range w.moves {
			if m.object == says.ID && m.state == "paid" {
				paid = paid || m.captured == amount && says.Status == "succeeded"
				if says.Status == "canceled" {
					return fmt.Sprintf("%s is answered with %s, and %s has moved", r.Key.Value, r.Response.Body, m.ref)
				}
			}
		}
		booked := w.store.books[claimtest.Ref{Home: r.Home, ID: says.ID}]
		if says.Status == "succeeded" && (!paid || booked.Amount != amount) {
			return fmt.Sprintf("%s is answered with %s; moved: %v, booked: %d", r.Key.Value, r.Response.Body, paid, booked.Amount)
		}
	}
	return ""
}

// givenBackOnce: no movement is given back twice, and none that is booked as a charge.
func givenBackOnce(_, w *world) string {
	for _, m := range w.moves {
		if n := strings.Count(m.refunds, " "); n > 1 {
			return fmt.Sprintf("%s was given back %d times", m.ref, n)
		}
		for _, t := range w.store.books {
			if m.refunds != "" && t.Kind == ledger.Charge && t.ProviderRef == m.ref && !slices.Contains(w.gaveUp, t.Object) {
				return m.ref + " was given back, and is booked as a charge"
			}
		}
	}
	return ""
}

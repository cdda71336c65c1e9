package notice

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// happens is the notice that the provider did something by itself.
func happens(kind psp.Kind, ref, of string) psp.Notice {
	u := psp.Unasked{Kind: kind, ProviderRef: ref, Of: of, Amount: 60, Currency: "usd", Reason: "fraudulent", Status: "needs_response"}
	switch kind {
	case psp.KindDisputeWon, psp.KindDisputeLost:
		u.Status = ""
	case psp.KindDisputeOpened:
		u.DueBy = time.Unix(1772366400, 0).UTC()
	}
	return psp.Notice{ID: fmt.Sprint(kind, " ", ref), Unasked: []psp.Unasked{u}, At: time.Unix(1771000000, 0).UTC()}
}

// balances are the accounts' balances that are not zero.
func (w *world) balances() map[ledger.Account]int64 {
	sums := map[ledger.Account]int64{}
	for _, t := range w.books {
		sums[t.Debit] += t.Amount
		sums[t.Credit] -= t.Amount
	}
	for a, sum := range sums {
		if sum == 0 {
			delete(sums, a)
		}
	}
	return sums
}

var provider60, merchant60 = map[ledger.Account]int64{"provider:sim": 40, "merchant:acme": -40}, map[ledger.Account]int64{"provider:sim": 100, "merchant:acme": -100}

// What the books and the merchant get from each kind, reported twice and in any order.
func TestWhatHappensUnasked(t *testing.T) {
	charge := objectID(t, "ch", 1)
	dispute := func(kinds ...psp.Kind) (all []psp.Notice) {
		for _, kind := range kinds {
			all = append(all, happens(kind, "du_1", "p1"))
		}
		return all
	}
	failed := happens(psp.KindRefund, "r1", "p1")
	failed.ID, failed.Unasked[0].Failed, failed.Unasked[0].Reason = "refund failed", true, "lost_or_stolen_card"
	const data = `"amount":60,"currency":"usd","livemode":true,"charge":"%s","reason":"fraudulent","status":"%s"`
	for name, c := range map[string]struct {
		notices  []psp.Notice
		balances map[ledger.Account]int64
		events   map[string]string
	}{
		"a dispute is opened": {dispute(psp.KindDisputeOpened), map[ledger.Account]int64{"provider:sim": 100, "merchant:acme": -40, "disputed:acme": -60},
			map[string]string{"charge.dispute.created": fmt.Sprintf(data, charge, "needs_response") + `,"evidence_details":{"due_by":1772366400}`}},
		"its money is withdrawn": {dispute(psp.KindDisputeOpened, psp.KindDispute), map[ledger.Account]int64{"provider:sim": 40, "withheld:sim": 60, "merchant:acme": -40, "disputed:acme": -60},
			map[string]string{"charge.dispute.created": "", "charge.dispute.funds_withdrawn": fmt.Sprintf(data, charge, "needs_response")}},
		"it is won": {dispute(psp.KindDisputeOpened, psp.KindDispute, psp.KindDisputeReversal, psp.KindDisputeWon), merchant60,
			map[string]string{"charge.dispute.created": "", "charge.dispute.funds_withdrawn": "", "charge.dispute.funds_reinstated": "", "charge.dispute.closed": fmt.Sprintf(data, charge, "won")}},
		"it is lost": {dispute(psp.KindDisputeOpened, psp.KindDispute, psp.KindDisputeLost), provider60,
			map[string]string{"charge.dispute.created": "", "charge.dispute.funds_withdrawn": "", "charge.dispute.closed": fmt.Sprintf(data, charge, "lost")}},
		"it is lost after it was defended, and its money withdrawn once more": {secondTime(dispute(psp.KindDisputeOpened, psp.KindDispute, psp.KindDisputeReversal)), provider60,
			map[string]string{"charge.dispute.created": "", "charge.dispute.funds_withdrawn": fmt.Sprintf(data, charge, "needs_response") + `,"provider":{"name":"sim","reference":"du_1"}`,
				"charge.dispute.funds_reinstated": "", "charge.dispute.closed": fmt.Sprintf(data, charge, "lost")}},
		"an inquiry is closed, of which no money was withdrawn": {dispute(psp.KindDisputeOpened, psp.KindDisputeWon), merchant60,
			map[string]string{"charge.dispute.created": "", "charge.dispute.closed": ""}},
		"a refund by hand": {[]psp.Notice{happens(psp.KindRefund, "r1", "p1")}, provider60,
			map[string]string{"refund.created": `"object":"refund","amount":60,"currency":"usd","livemode":true,"status":"succeeded","charge":"` + charge + `","reason":"made_at_provider"`}},
		"a refund by hand that fails": {[]psp.Notice{happens(psp.KindRefund, "r1", "p1"), failed}, merchant60,
			map[string]string{"refund.created": "", "refund.failed": `"status":"failed","charge":"` + charge + `","reason":"made_at_provider","provider":{"name":"sim","reference":"r1"},"code":"lost_or_stolen_card"`}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range permutations(c.notices) {
				w := newWorld(t)
				w.have(charge, claim.Completed, "p1")
				for range 2 {
					for _, n := range order {
						w.deliver(n)
						require.Equal(t, ProcessedOK, w.closed["sim:"+n.ID])
					}
				}
				require.Equal(t, c.balances, w.balances())
				require.Empty(t, w.moved)
				withdrawn := 0
				for _, said := range w.emitted() {
					withdrawn += strings.Count(said, "charge.dispute.funds_withdrawn")
				}
				require.Len(t, w.events, 2*(len(c.events)+max(0, withdrawn/2-1)), "each sink gets each event once")
				types := map[string]string{}
				for _, said := range w.emitted() {
					for kind := range c.events {
						if len(said) > len(kind) && said[:len(kind)] == kind {
							types[kind] = said
						}
					}
				}
				for kind, want := range c.events {
					require.Contains(t, types[kind], want, kind)
				}
			}
		})
	}
}

// secondTime has a dispute end with money that is withdrawn once more, in one event.
func secondTime(all []psp.Notice) []psp.Notice {
	n := happens(psp.KindDispute, "du_1/second", "p1")
	n.Unasked[0].Dispute = "du_1"
	n.Unasked = append(n.Unasked, happens(psp.KindDisputeLost, "du_1", "p1").Unasked...)
	return append(all, n)
}

// A period to defend a dispute ends, and so does one to answer an inquiry, which has no dispute.
// The books follow only where a dispute is booked, now or later.
func TestALossIsOfADisputeThatIsOpen(t *testing.T) {
	charge := objectID(t, "ch", 1)
	w := newWorld(t)
	w.have(charge, claim.Completed, "p1")
	lost := happens(psp.KindDisputeLost, "du_1", "p1")
	lost.Unasked[0].IfOpened = true
	w.deliver(lost)
	require.Empty(t, w.closed["sim:"+lost.ID], "the dispute may be reported later")
	require.Equal(t, map[ledger.Account]int64{"provider:sim": 100, "merchant:acme": -100}, w.balances())
	w.deliver(happens(psp.KindDispute, "du_1", "p1"))
	w.deliver(lost)
	require.Equal(t, ProcessedOK, w.closed["sim:"+lost.ID])
	require.Equal(t, provider60, w.balances())

	w = newWorld(t)
	w.have(charge, claim.Completed, "p1")
	w.waited = appearWithin
	w.deliver(lost)
	require.Equal(t, Ignored, w.closed["sim:"+lost.ID], "there was no dispute for an hour")
	require.Equal(t, map[ledger.Account]int64{"provider:sim": 100, "merchant:acme": -100}, w.balances())
}

// A dispute that is booked as lost may be won after all, as by a pre-arbitration after a second
// chargeback, and one that was won may be lost. No event says what became of its money, so a person books
// it. Both decisions in the books would pay the merchant money that is withheld.
func TestADisputeIsDecidedOnce(t *testing.T) {
	charge := objectID(t, "ch", 1)
	opened, withdrawn, back := happens(psp.KindDisputeOpened, "du_1", "p1"), happens(psp.KindDispute, "du_1", "p1"), happens(psp.KindDisputeReversal, "du_1", "p1")
	won := happens(psp.KindDisputeWon, "du_1", "p1")
	lost := secondTime(nil)[0]
	for name, c := range map[string]struct {
		decisions []psp.Notice
		balances  map[ledger.Account]int64
	}{
		"lost, and won": {[]psp.Notice{lost, won}, provider60},
		// The money that was withdrawn once more is withheld until a person decides.
		"won, and lost": {[]psp.Notice{won, lost}, map[ledger.Account]int64{"provider:sim": 40, "withheld:sim": 60, "merchant:acme": -100}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.have(charge, claim.Completed, "p1")
			for _, n := range append([]psp.Notice{opened, withdrawn, back}, c.decisions...) {
				w.deliver(n)
				w.deliver(n)
			}
			require.Equal(t, c.balances, w.balances())
			require.Equal(t, ProcessedOK, w.closed["sim:"+c.decisions[0].ID])
			require.Empty(t, w.closed["sim:"+c.decisions[1].ID], "it waits for a person")
			closed := 0
			for _, said := range w.emitted() {
				closed += strings.Count(said, "charge.dispute.closed")
			}
			require.Equal(t, 2, closed, "each sink reads one decision")
		})
	}
}

func permutations(all []psp.Notice) (orders [][]psp.Notice) {
	if len(all) < 2 {
		return [][]psp.Notice{all}
	}
	for i := range all {
		rest := append(append([]psp.Notice{}, all[:i]...), all[i+1:]...)
		for _, p := range permutations(rest) {
			orders = append(orders, append([]psp.Notice{all[i]}, p...))
		}
	}
	return orders
}

func TestATransferComesBackAndBalancesArePaidOut(t *testing.T) {
	transfer := objectID(t, "tr", 1)
	w := newWorld(t)
	w.have(transfer, claim.Completed, "t1")
	of := w.books[transfer]
	of.Kind, of.Debit, of.Credit = ledger.Transfer, of.Credit, of.Debit
	w.books[transfer] = of
	back := happens(psp.KindTransferReversal, "trr_1", "t1")
	back.Unasked[0].Reference = transfer
	second := back.Unasked[0]
	second.ProviderRef, second.Amount = "trr_2", 10
	back.Unasked = append(back.Unasked, second) // the event of the first was lost
	out, returned := happens(psp.KindPayout, "po_1", ""), happens(psp.KindPayoutReversal, "po_1", "po_1")
	for range 2 {
		for _, n := range []psp.Notice{back, returned, out, happens(psp.KindPayout, "po_2", "")} {
			w.deliver(n)
			require.Equal(t, ProcessedOK, w.closed["sim:"+n.ID])
		}
	}
	require.Equal(t, map[ledger.Account]int64{"provider:sim": -30 - 60, "merchant:acme": 30, "bank:sim": 60}, w.balances())
	require.Len(t, w.events, 4, "of the two reversals, and not of payouts")
	for _, said := range w.emitted() {
		require.Contains(t, said, `transfer.reversed {"id":"`+transfer+`","object":"transfer","amount":100,"currency":"usd","livemode":true,"status":"succeeded","reversal":{"id":"trr_`)
	}
}

// Money that payers have got back by the provider is not given back again: the ghost's
// suspense is cleared. Once a refund fails, or the dispute is won, it is owed again.
func TestAGhostThatThePayerHasBackAlready(t *testing.T) {
	id := objectID(t, "ch", 1)
	for _, c := range []struct {
		back, undone psp.Kind
		ref          string
	}{{psp.KindRefund, psp.KindRefund, "r1"}, {psp.KindDispute, psp.KindDisputeWon, "du_1"}} {
		w := newWorld(t)
		w.have(id, claim.FailedTerminal, "")
		w.refuse = "unknown"
		w.deliver(charged(id, "p1"))
		whole := happens(c.back, c.ref, "p1")
		whole.Unasked[0].Amount = 100
		w.deliver(whole)
		require.Zero(t, w.balances()[ledger.Suspense(tenant)])
		w.refuse = ""
		w.deliver(charged(id, "p1"))
		require.Equal(t, ProcessedCompensated, w.closed["sim:e"])
		require.Empty(t, w.moved)
		require.Empty(t, w.events, "no merchant got an event of the ghost")

		undone := happens(c.undone, c.ref, "p1")
		undone.ID, undone.Unasked[0].Amount, undone.Unasked[0].Failed = "undone", 100, c.undone == psp.KindRefund
		w.refuse, w.waited = "unknown", payment.PageAfter
		w.deliver(undone)
		require.Empty(t, w.closed["sim:undone"], "nobody knows whether the payer has it")
		require.Equal(t, []string{pageWaiting}, w.pages, "a person hears of it")
		w.refuse = ""
		w.deliver(undone)
		require.Len(t, w.moved, 1, "the payer is owed it again")
		require.Zero(t, w.balances()[ledger.Suspense(tenant)])
		require.Equal(t, ProcessedCompensated, w.closed["sim:undone"])
	}

	w := newWorld(t)
	w.have(id, claim.FailedTerminal, "")
	w.refuse = "unknown"
	w.deliver(charged(id, "p1"))
	w.deliver(happens(psp.KindRefund, "r1", "p1"))
	w.refuse = ""
	require.Contains(t, fmt.Sprint(w.deliver(charged(id, "p1"))), "LIMBO", "of a part a person decides")
	require.Empty(t, w.moved)
}

// A notice of a movement that is not booked waits if it is ours, and is closed if it is another
// party's in the same account.
func TestWhatHappensToWhatIsNotBooked(t *testing.T) {
	n := happens(psp.KindDispute, "du_1", "p1")
	for name, c := range map[string]struct {
		have   func(w *world)
		status Status
		says   string
	}{
		"of another":               {func(w *world) { w.shows["p1"] = psp.Movement{ProviderRef: "p1", Outcome: psp.Approved} }, Ignored, ""},
		"ours, and not booked yet": {func(w *world) { w.shows["p1"] = psp.Movement{ProviderRef: "p1", Reference: objectID(t, "ch", 1)} }, "", "which is not booked"},
		"ours, and in flight": {func(w *world) {
			w.have(objectID(t, "ch", 1), claim.InFlight, "")
			w.shows["p1"], w.waited = psp.Movement{ProviderRef: "p1", Reference: objectID(t, "ch", 1)}, 2*time.Hour
		}, "", fmt.Sprint(outbox.Later(lookAgain))},
		"of another account, with our id": {func(w *world) {
			w.have(objectID(t, "ch", 1), claim.InFlight, "")
			n.Unasked[0].Of = "p1@acct_2"
			w.shows["p1@acct_2"], w.waited = psp.Movement{ProviderRef: "p1@acct_2", Reference: objectID(t, "ch", 1)}, 2*time.Hour
		}, Ignored, ""},
		"unknown to the provider":  {func(w *world) { w.aliases = true }, "", "which is not booked"},
		"without a look-up":        {func(w *world) { w.blind = true }, "", "which is not booked"},
		"while it does not answer": {func(w *world) { w.silent = true }, "", "does not say what that is"},
		"for an hour":              {func(w *world) { w.blind, w.waited = true, 2*time.Hour }, "", "unknown charge"},
		"of more than was paid":    {func(w *world) { w.have(objectID(t, "ch", 1), claim.Completed, "p1"); n.Unasked[0].Amount = 101 }, "", "homeward ledger adjust"},
		"of another amount than reported": {func(w *world) {
			w.have(objectID(t, "ch", 1), claim.Completed, "p1")
			w.deliver(happens(psp.KindDisputeOpened, "du_1", "p1"))
			n.Unasked[0].Amount = 70
		}, "", "homeward ledger adjust"},
	} {
		w := newWorld(t)
		n = happens(psp.KindDispute, "du_1", "p1")
		w.aliases = true
		c.have(w)
		verdict := fmt.Sprint(w.deliver(n))
		require.Equal(t, c.status, w.closed["sim:"+n.ID], "%s: %s", name, verdict)
		require.Contains(t, verdict, c.says, name)
		require.NotContains(t, w.balances(), ledger.Withheld("sim"), name)
	}
}

// The process dies at every point of a notice that a ghost's dispute is won: the books and the
// refund end the same.
func TestWhatHappensUnaskedDiesAnywhere(t *testing.T) {
	id := objectID(t, "ch", 1)
	points := 0
	for die := 1; ; die++ {
		w := newWorld(t)
		w.have(id, claim.FailedTerminal, "")
		w.refuse = "unknown"
		w.deliver(charged(id, "p1"))
		w.refuse = ""
		all := []psp.Notice{happens(psp.KindDispute, "du_1", "p1"), happens(psp.KindDisputeReversal, "du_1", "p1"), happens(psp.KindDisputeWon, "du_1", "p1")}
		w.steps, w.dieAt = 0, die
		for _, n := range all {
			w.deliver(n)
		}
		died := w.steps >= die
		w.dieAt = 0
		for _, n := range all {
			w.deliver(n)
		}
		w.deliver(charged(id, "p1"))
		require.Empty(t, w.balances(), "death at point %d", die)
		require.Len(t, w.moved, 1, "death at point %d", die)
		require.Equal(t, ProcessedCompensated, w.closed["sim:"+all[2].ID], "death at point %d", die)
		if !died {
			break
		}
		points++
	}
	require.Greater(t, points, 30, "a run has that many points at which it can die")

	for die := 1; ; die++ {
		w := newWorld(t)
		w.have(id, claim.Completed, "p1")
		w.steps, w.dieAt = 0, die
		lost := happens(psp.KindDisputeLost, "du_1", "p1")
		w.deliver(lost)
		died := w.steps >= die
		w.dieAt = 0
		w.deliver(lost)
		require.Len(t, w.events, 4, "death at point %d: each sink gets each step once", die)
		require.Equal(t, ProcessedOK, w.closed["sim:"+lost.ID])
		if !died {
			break
		}
	}
}

// A ghost is reported after its dispute, of which nothing could be booked: the ghost is booked and not
// refunded, as the provider shows the dispute. Then the dispute is booked. If it is lost, the payer
// has the money; if it is won, the refund is made. The process dies at every point.
func TestADisputeComesBeforeItsGhost(t *testing.T) {
	id := objectID(t, "ch", 1)
	canceled, err := json.Marshal(payment.Withdrawn{Object: id, Provider: "sim", ProviderRef: "p1", Amount: 100, Currency: "usd"})
	require.NoError(t, err)
	report := func(w *world) outbox.Disposition { return w.deliver(charged(id, "p1")) }
	for name, c := range map[string]struct {
		have func(w *world)
		find func(w *world) outbox.Disposition
		// balance is that of the account of what merchants are owed, without the ghost.
		balance int64
	}{
		"refused":   {func(w *world) { w.have(id, claim.FailedTerminal, "") }, report, 0},
		"released":  {func(w *world) { w.have(id, claim.FailedRetry, "") }, report, 0},
		"forgotten": {func(w *world) { w.have(id, claim.FailedTerminal, ""); w.forget(id) }, report, 0},
		"paid":      {func(w *world) { w.have(id, claim.Completed, "p0") }, report, -100},
		"canceled": {func(w *world) { w.have(id, claim.FailedTerminal, "") }, func(w *world) outbox.Disposition {
			return w.processor().Refund(w.Context(), outbox.Message{ID: "canceled", Region: home, Tenant: tenant, Payload: canceled, CreatedAt: w.now})
		}, 0},
	} {
		for _, won := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, won %v", name, won), func(t *testing.T) {
				for die := 1; ; die++ {
					w := newWorld(t)
					c.have(w)
					shown := psp.Movement{ProviderRef: "p1", Reference: id, Amount: 100, Currency: "usd", Outcome: psp.Approved, Disputed: 100}
					w.shows["p1"] = shown
					steps := []psp.Notice{happens(psp.KindDisputeOpened, "du_1", "p1"), happens(psp.KindDispute, "du_1", "p1"), happens(psp.KindDisputeLost, "du_1", "p1")}
					if won {
						steps = append(steps[:2], happens(psp.KindDisputeReversal, "du_1", "p1"), happens(psp.KindDisputeWon, "du_1", "p1"))
					}
					for i := range steps {
						steps[i].Unasked[0].Amount = 100
					}
					w.deliver(steps[0])
					require.NotContains(t, w.closed, "sim:"+steps[0].ID)
					w.steps, w.dieAt = 0, die
					first := c.find(w)
					died := w.steps >= die
					if !died {
						require.NotEqual(t, outbox.Gone(), first)
						require.NotEqual(t, outbox.Done(), first)
					}
					c.find(w)
					require.Contains(t, w.books, ledger.GhostID("sim", "p1"), "death at point %d", die)
					require.Empty(t, w.keys, "a refund was begun; death at point %d", die)
					for i, n := range steps {
						if won && i == len(steps)-1 {
							shown.Disputed = 0
							w.shows["p1"] = shown
						}
						w.deliver(n)
						require.Contains(t, w.closed, "sim:"+n.ID, "death at point %d", die)
					}
					c.find(w)
					require.Equal(t, won, len(w.moved) == 1, "death at point %d", die)
					want := map[ledger.Account]int64{}
					if c.balance != 0 {
						want[ledger.Merchant(tenant)], want[ledger.Provider("sim")] = c.balance, -c.balance
					}
					require.Equal(t, want, w.balances(), "death at point %d", die)
					if !died {
						require.Greater(t, die, 5, "a run has that many points at which it can die")
						break
					}
				}
			})
		}
	}
}

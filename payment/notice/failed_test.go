package notice

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
)

// fallen is the notice that a movement has failed, and the provider shows it so.
func (w *world) fallen(kind psp.Kind, reference, ref string) psp.Notice {
	m := w.shows[ref]
	if m.ProviderRef != "" {
		m.Outcome = psp.Declined
		w.shows[ref] = m
	}
	return psp.Notice{
		ID: "failed " + ref, Movement: true, Kind: kind, Reference: reference, ProviderRef: ref, Outcome: psp.Declined,
		Decline: &psp.Decline{Class: psp.Soft, Code: "expired_or_canceled_card"}, Amount: 100, Currency: "usd",
	}
}

// refunded is a refund of a charge, booked and completed.
func (w *world) refunded(charge, refund, ref string) {
	w.have(charge, claim.Completed, "p1")
	w.have(refund, claim.Completed, ref)
	w.books[refund] = ledger.Transaction{
		ID: refund, Region: home, Tenant: tenant, Kind: ledger.Refund, Debit: ledger.Merchant(tenant), Credit: ledger.Provider("sim"),
		Amount: 100, Currency: "usd", Object: refund, Reverses: charge, Provider: "sim", ProviderRef: ref,
	}
}

func (w *world) emitted() map[string]string {
	types := map[string]string{}
	for _, m := range w.events {
		var e struct {
			Type string
			Data json.RawMessage
		}
		require.NoError(w, json.Unmarshal(m.Payload, &e))
		types[m.ID] = e.Type + " " + string(e.Data)
	}
	return types
}

// A refund, and a charge, that fail after they succeeded: the books reverse them and every sink
// gets one event. A movement that never succeeded has no effect.
func TestAMovementThatFailsAfterItSucceeded(t *testing.T) {
	charge, refund, transfer := objectID(t, "ch", 1), objectID(t, "re", 1), objectID(t, "tr", 1)
	for name, c := range map[string]struct {
		have   func(w *world)
		kind   psp.Kind
		id     string
		status Status
		parked string
		types  string
	}{
		"a refund": {func(w *world) { w.refunded(charge, refund, "r1") }, psp.KindRefund, refund, ProcessedOK, "",
			`refund.failed {"id":"` + refund + `","object":"refund","amount":100,"currency":"usd","status":"failed","livemode":true,"charge":"` + charge + `","provider":{"name":"sim","reference":"r1"},"code":"expired_or_canceled_card"}`},
		"a charge": {func(w *world) { w.have(charge, claim.Completed, "r1") }, psp.KindCharge, charge, ProcessedOK, "",
			`charge.failed {"id":"` + charge + `","object":"charge","amount":100,"currency":"usd","status":"failed","livemode":true,"provider":{"name":"sim","reference":"r1"},"code":"expired_or_canceled_card"}`},
		"a refund whose claim was deleted": {func(w *world) { w.refunded(charge, refund, "r1"); clear(w.claims) }, psp.KindRefund, refund, ProcessedOK, "", "refund.failed"},
		"a charge that has been refunded": {func(w *world) {
			w.refunded(charge, refund, "r9")
			of := w.books[charge]
			of.ProviderRef = "r1"
			w.books[charge], w.shows["r1"] = of, psp.Movement{ProviderRef: "r1", Reference: charge}
		}, psp.KindCharge, charge, "", "money had been given back", "charge.failed"},
		"a transfer": {func(w *world) {
			w.have(transfer, claim.Completed, "r1")
			of := w.books[transfer]
			of.Kind, of.Debit, of.Credit = ledger.Transfer, of.Credit, of.Debit
			w.books[transfer] = of
		}, psp.KindTransfer, transfer, ProcessedOK, "", "transfer.failed"},
		"a charge that never succeeded": {func(w *world) { w.have(charge, claim.FailedTerminal, "") }, psp.KindCharge, charge, Ignored, "", ""},
		"a charge that never succeeded, and whose claim was deleted": {func(w *world) {
			w.have(charge, claim.FailedTerminal, "")
			w.forget(charge)
		}, psp.KindCharge, charge, Ignored, "", ""},
		"of which there is no record": {func(*world) {}, psp.KindCharge, charge, "", "there is no record of " + charge, ""},
		"another provider's, which was certain": {func(w *world) {
			w.have(charge, claim.Completed, "p1")
			of := w.books[charge]
			of.Provider = "other"
			w.books[charge] = of
			clear(w.claims)
		}, psp.KindCharge, charge, Ignored, "", ""},
		"another movement than is booked": {func(w *world) { w.have(charge, claim.Completed, "p1") }, psp.KindCharge, charge, Ignored, "", ""},
		"of an unreadable id":             {func(*world) {}, psp.KindCharge, "order-7", Ignored, "", ""},
		"of a claim in flight":            {func(w *world) { w.have(refund, claim.InFlight, "") }, psp.KindRefund, refund, "", "", ""},
		"that the provider shows as done": {func(w *world) { w.refunded(charge, refund, "r1"); w.aliases = true }, psp.KindRefund, refund, "", "shows r1 of 100 usd", ""},
		"that the provider does not show": {func(w *world) { w.refunded(charge, refund, "r1"); delete(w.shows, "r1"); w.aliases = true }, psp.KindRefund, refund, "", "does not show it", ""},
		"of another amount than booked": {func(w *world) {
			w.refunded(charge, refund, "r1")
			of := w.books[refund]
			of.Amount = 99
			w.books[refund] = of
		}, psp.KindRefund, refund, "", "99 usd are booked", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.have(w)
			booked := w.books[c.id]
			n := w.fallen(c.kind, c.id, "r1")
			if c.parked != "" && w.aliases && w.shows["r1"].ProviderRef != "" {
				m := w.shows["r1"]
				m.Outcome = psp.Approved // whatever the notice's amount
				w.shows["r1"] = m
			}
			for range 2 { // the provider repeats itself, with another event
				verdict := fmt.Sprint(w.deliver(n))
				require.Contains(t, verdict, c.parked)
				require.Equal(t, c.status, w.closed["sim:failed r1"], verdict)
			}
			require.Equal(t, booked, w.books[c.id], "what is booked stays")
			require.Empty(t, w.moved)
			if c.types == "" {
				require.Empty(t, w.events)
				require.NotContains(t, w.books, ledger.FailureID(c.id))
				return
			}
			failed := w.books[ledger.FailureID(c.id)]
			require.True(t, failed.Same(ledger.FailureOf(booked)))
			types := w.emitted()
			require.Len(t, types, 2, "one for each sink")
			for id, said := range types {
				require.Contains(t, id, "evt_"+c.id+"_failed/")
				require.Contains(t, said, c.types)
			}
		})
	}
}

// The success is learnt of after the failure: the failure waits for the claim.
func TestAFailureWaitsForItsClaim(t *testing.T) {
	charge, refund := objectID(t, "ch", 1), objectID(t, "re", 1)
	w := newWorld(t)
	w.have(refund, claim.InFlight, "")
	n := w.fallen(psp.KindRefund, refund, "r1")
	require.Contains(t, fmt.Sprint(w.deliver(n)), "Later")
	w.refunded(charge, refund, "r1")
	w.fallen(psp.KindRefund, refund, "r1")
	w.deliver(n)
	require.Equal(t, ProcessedOK, w.closed["sim:failed r1"])
	require.Contains(t, w.books, ledger.FailureID(refund))
}

// The refund of a ghost fails: the next one has another key, and after the last a
// person is called. The process dies before and after each step on the way.
func TestAGhostIsRefundedAgainWhenItsRefundFails(t *testing.T) {
	id := objectID(t, "ch", 1)
	points := 0
	for die := 1; ; die++ {
		w := newWorld(t)
		w.have(id, claim.FailedTerminal, "")
		w.deliver(charged(id, "p1"))
		require.Len(t, w.moved, 1)
		back := w.books[ledger.GhostRefundID("sim", "p1")]
		n := w.fallen(psp.KindRefund, back.Object, back.ProviderRef)
		w.steps, w.dieAt = 0, die
		w.deliver(n)
		died := w.steps >= die
		w.dieAt = 0
		w.deliver(n)
		require.Equal(t, ProcessedCompensated, w.closed["sim:"+n.ID], "death at point %d", die)
		require.Len(t, w.moved, 2, "death at point %d: one more, under a key of its own", die)
		require.Len(t, w.events, 2, "death at point %d: each sink gets one event", die)
		require.Contains(t, w.books, ledger.FailureID(back.ID))
		require.Contains(t, w.books, ledger.GhostRefundTryID("sim", "p1", 2))
		// The first notice, repeated, finds the bookings.
		w.deliver(charged(id, "p1"))
		require.Len(t, w.moved, 2)
		if !died {
			break
		}
		points++
	}
	require.Greater(t, points, 15, "a run has that many points at which it can die")
}

func TestAGhostWithFailedRefundsIsInLimbo(t *testing.T) {
	id := objectID(t, "ch", 1)
	w := newWorld(t)
	w.have(id, claim.FailedTerminal, "")
	w.deliver(charged(id, "p1"))
	for try := 1; try <= ledger.MaxGhostRefunds; try++ {
		require.Len(t, w.moved, try)
		back := w.books[ledger.GhostRefundTryID("sim", "p1", try)]
		require.Empty(t, w.pages)
		verdict := fmt.Sprint(w.deliver(w.fallen(psp.KindRefund, back.Object, back.ProviderRef)))
		if try == ledger.MaxGhostRefunds {
			require.Contains(t, verdict, "LIMBO: the provider has accepted 3 refunds, and each has failed since")
		}
	}
	require.Len(t, w.moved, ledger.MaxGhostRefunds)
	require.Len(t, w.brakes["sim"].Admitted, ledger.MaxGhostRefunds, "the brake counts each")
	require.Equal(t, []string{pageLimbo}, w.pages)
}

// The ghost itself fails before it is refunded: the payer has the money already.
func TestAGhostThatFailsIsNotRefunded(t *testing.T) {
	id := objectID(t, "ch", 1)
	w := newWorld(t)
	w.have(id, claim.FailedTerminal, "")
	w.refuse = "unknown"
	w.deliver(charged(id, "p1"))
	w.deliver(w.fallen(psp.KindCharge, id, "p1"))
	require.Equal(t, ProcessedOK, w.closed["sim:failed p1"])
	w.refuse = ""
	w.deliver(charged(id, "p1"))
	require.Empty(t, w.moved)
	require.Empty(t, w.events, "no event of the ghost")
	require.Equal(t, ProcessedCompensated, w.closed["sim:e"])
}

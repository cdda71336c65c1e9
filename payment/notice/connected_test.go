package notice

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

const payloadThere = `{"account":"acct_1","amount":100,"currency":"usd","payment_method":"pm_card_visa"}`

// A notice of a connected account completes a charge that was requested in that account, and
// nothing else: the owner of another account can write our ids on their own objects. The processor
// ignores those, and neither pages nor stops refunds.
func TestNoticesOfConnectedAccounts(t *testing.T) {
	id, refund := objectID(t, "ch", 1), objectID(t, "re", 1)
	refunded := charged(refund, "r2@acct_1")
	refunded.Kind = psp.KindRefund
	sent := func(w *world, state claim.State, ref string) (key string) {
		w.have(id, state, ref)
		rec := w.claims[id]
		policy := claim.DefaultPolicy()
		began, _, _, err := claim.Begin(nil, &claim.Arrival{
			Content: claim.Content{Key: rec.Key, Operation: rec.Operation, Mint: rec.Minted},
			Route:   claim.Route{Home: home, Stamped: true},
			Holder:  claim.Holder{Provider: "sim"},
		}, 0, &policy, w.now)
		require.NoError(w, err)
		rec.Generation, rec.ProviderKey = 3, began.ProviderKey
		w.claims[id] = rec
		return began.ProviderKey // of the generation that paid
	}
	failed := func(n psp.Notice) psp.Notice {
		n.Outcome, n.Decline = psp.Declined, &psp.Decline{Class: psp.Soft, Code: "x"}
		return n
	}
	for name, c := range map[string]struct {
		have     func(w *world, n *psp.Notice)
		reported psp.Notice
		learnt   string
		ghost    bool
		parked   bool
		status   Status
	}{
		"its own":                {func(w *world, _ *psp.Notice) { w.have(id, claim.InFlight, "") }, charged(id, "p1@acct_1"), "p1@acct_1", false, false, ProcessedOK},
		"another's":              {func(w *world, _ *psp.Notice) { w.have(id, claim.InFlight, "") }, charged(id, "p1@acct_2"), "", false, false, Ignored},
		"ours":                   {func(w *world, _ *psp.Notice) { w.have(id, claim.InFlight, "") }, charged(id, "p1"), "", false, false, Ignored},
		"its own, under our key": {func(w *world, n *psp.Notice) { n.Key = sent(w, claim.InFlight, "") }, charged(id, "p1@acct_1"), "p1@acct_1", false, false, ProcessedOK},
		"its owner's":            {func(w *world, n *psp.Notice) { sent(w, claim.InFlight, ""); n.Key = "hw_made_up" }, charged(id, "p1@acct_1"), "", false, false, Ignored},
		"its owner's, copied from one that waits": {func(w *world, n *psp.Notice) {
			n.Key = sent(w, claim.InFlight, "p1@acct_1")
			rec := w.claims[id]
			rec.Interim = &claim.Interim{State: string(psp.RequiresAction)}
			w.claims[id] = rec
		}, charged(id, "p9@acct_1"), "", false, false, Ignored},
		"another's, of a waiting one": {func(w *world, _ *psp.Notice) {
			w.have(id, claim.InFlight, "p1@acct_1")
			rec := w.claims[id]
			rec.Interim = &claim.Interim{State: string(psp.RequiresAction)}
			w.claims[id] = rec
		}, failed(charged(id, "p9@acct_2")), "", false, false, Ignored},
		"late, under our key": {func(w *world, n *psp.Notice) { n.Key = sent(w, claim.FailedTerminal, "") }, charged(id, "p1@acct_1"), "", true, false, ProcessedCompensated},
		"late, under no key":  {func(w *world, _ *psp.Notice) { sent(w, claim.FailedTerminal, "") }, charged(id, "p1@acct_2"), "", false, false, Ignored},
		"late, under a made-up key": {func(w *world, n *psp.Notice) { sent(w, claim.FailedRetry, ""); n.Key = "hw_made_up" },
			charged(id, "p1@acct_2"), "", false, false, Ignored},
		"late, and all is forgotten": {func(w *world, _ *psp.Notice) { w.have(id, claim.FailedTerminal, ""); w.forget(id) }, charged(id, "p1@acct_1"), "", false, true, ""},
		"of no recorded movement":    {func(*world, *psp.Notice) {}, charged(id, "p1@acct_2"), "", false, false, Ignored},
		"of an unreadable id":        {func(*world, *psp.Notice) {}, charged("order-7", "p1@acct_2"), "", false, false, Ignored},
		"beside one that is paid":    {func(w *world, _ *psp.Notice) { w.have(id, claim.Completed, "p1@acct_1") }, charged(id, "p2@acct_2"), "", false, false, Ignored},
		"a second one in the account, under our key": {func(w *world, n *psp.Notice) { n.Key = sent(w, claim.Completed, "p1@acct_1") },
			charged(id, "p2@acct_1"), "", true, false, ProcessedCompensated},
		"a second one in the account, under no key": {func(w *world, _ *psp.Notice) { sent(w, claim.Completed, "p1@acct_1") },
			charged(id, "p2@acct_1"), "", false, false, Ignored},
		"a second one in the account, under our key and of other money": {func(w *world, n *psp.Notice) { n.Key, n.Amount = sent(w, claim.Completed, "p1@acct_1"), 1 },
			charged(id, "p2@acct_1"), "", false, false, Ignored},
		"a second one in the account, and the claim is forgotten": {func(w *world, n *psp.Notice) { n.Key = sent(w, claim.Completed, "p1@acct_1"); delete(w.claims, id) },
			charged(id, "p2@acct_1"), "", false, false, Ignored},
		"late, of the very movement": {func(w *world, _ *psp.Notice) { sent(w, claim.FailedTerminal, "p1@acct_1") },
			charged(id, "p1@acct_1"), "", true, false, ProcessedCompensated},
		"late, beside the one that was declined": {func(w *world, _ *psp.Notice) { sent(w, claim.FailedTerminal, "p1@acct_1") },
			charged(id, "p2@acct_1"), "", false, false, Ignored},
		"a refund by hand, with our id": {func(w *world, _ *psp.Notice) { w.refunded(id, refund, "r1@acct_1") }, refunded, "", false, false, Ignored},
		"a try by hand, with our id, that was declined first": {func(w *world, _ *psp.Notice) {
			sent(w, claim.Completed, "p1@acct_1")
			w.shows["p2@acct_1"] = psp.Movement{ProviderRef: "p2@acct_1", Reference: id, Amount: 100, Currency: "usd", Outcome: psp.Approved}
		}, failed(charged(id, "p2@acct_1")), "", false, false, Ignored},
		"that one beside it has failed": {func(w *world, _ *psp.Notice) {
			w.have(id, claim.Completed, "p1")
			w.shows["p2@acct_2"] = psp.Movement{ProviderRef: "p2@acct_2", Reference: id, Amount: 100, Currency: "usd", Outcome: psp.Approved}
		}, failed(charged(id, "p2@acct_2")), "", false, false, Ignored},
		"a dispute of one beside it": {func(w *world, _ *psp.Notice) {
			w.have(id, claim.Completed, "p1")
			w.shows["p2@acct_2"] = psp.Movement{ProviderRef: "p2@acct_2", Reference: id, Amount: 100, Currency: "usd", Outcome: psp.Approved}
		}, psp.Notice{ID: "e", Unasked: []psp.Unasked{{Kind: psp.KindDispute, ProviderRef: "du_1@acct_2", Of: "p2@acct_2", Amount: 100, Currency: "usd"}}}, "", false, false, Ignored},
	} {
		t.Run(name, func(t *testing.T) {
			w, n := newWorld(t), c.reported
			w.calls[id] = outbox.Message{ID: id, Region: home, Payload: []byte(payloadThere)}
			c.have(w, &n)
			verdict := w.deliver(n)
			require.Equal(t, c.status, w.closed["sim:e"], "%v", verdict)
			require.Equal(t, c.learnt, w.learnt)
			require.Equal(t, c.parked, strings.Contains(fmt.Sprint(verdict), "Parked"), "%v", verdict)
			require.Empty(t, w.pages)
			if !c.ghost {
				require.Empty(t, w.moved)
				return
			}
			require.Len(t, w.moved, 1)
			booked := w.books[ledger.GhostID("sim", n.ProviderRef)]
			require.Equal(t, ledger.Account("provider:sim:acct_1"), booked.Debit)
		})
	}
}

// The owner of an account in which we have charged writes the id of that charge on payments of
// a cent. Homeward refunds none of them, so they stop the refunds of no other payer.
func TestAnOwnerOfAnAccountStopsNoRefunds(t *testing.T) {
	id := objectID(t, "ch", 1)
	w := newWorld(t)
	w.calls[id] = outbox.Message{ID: id, Region: home, Payload: []byte(payloadThere)}
	w.have(id, claim.Completed, "p1@acct_1")
	for i := range DefaultLimits().Count + 2 {
		n := charged(id, fmt.Sprintf("p%d@acct_1", i+2))
		n.ID, n.Amount = fmt.Sprintf("e%d", i), 1
		w.deliver(n)
		require.Equal(t, Ignored, w.closed["sim:"+n.ID])
	}
	require.Empty(t, w.moved)
	require.Empty(t, w.brakes)
	require.Empty(t, w.pages)
}

// A notice names a movement as the answer to the call did, whatever characters the name has. A
// booked movement is matched, and another one is booked and refunded under one name.
func TestNoticesWithNamesThatNoStoreKeeps(t *testing.T) {
	id := objectID(t, "ch", 1)
	for _, raw := range []string{"p\x001", strings.Repeat("p", 600)} {
		notice := charged(id, raw)
		w := newWorld(t)
		w.have(id, claim.Completed, psp.Ref(raw))
		w.deliver(notice)
		require.Equal(t, ProcessedOK, w.closed[ID("sim", notice.ID)], "%q is booked", raw)
		require.Len(t, w.books, 1)

		w = newWorld(t)
		w.have(id, claim.FailedTerminal, "")
		w.shows[psp.Ref(raw)] = psp.Movement{ProviderRef: raw, Reference: id, Amount: notice.Amount, Currency: notice.Currency, Outcome: psp.Approved}
		w.deliver(notice)
		ghost, booked := w.books[ledger.GhostID("sim", psp.Ref(raw))]
		require.True(t, booked, "%q is booked as a ghost", raw)
		require.Equal(t, psp.Ref(raw), ghost.ProviderRef)
		require.NoError(t, ghost.Validate())
		require.Equal(t, ProcessedCompensated, w.closed[ID("sim", notice.ID)])
	}
}

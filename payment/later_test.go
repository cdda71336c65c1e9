package payment

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// named is what an event has by which its merchant finds the order.
type named struct {
	Order    string            `json:"order_id"`
	Metadata map[string]string `json:"metadata"`
	Object   string            `json:"object"`
	Status   string            `json:"status"`
}

func eventData(t *testing.T, all []outbox.Message) (is named) {
	t.Helper()
	require.Len(t, all, 1)
	var e struct{ Data named }
	require.NoError(t, json.Unmarshal(all[0].Payload, &e), string(all[0].Payload))
	return e.Data
}

// A charge and a transfer are booked with what finds their order, and a charge with its creation.
func TestABookingKeepsItsOrder(t *testing.T) {
	e := executorOf(&fake{caps: both, result: psp.Result{Outcome: psp.Approved, ProviderRef: "px_1"}}, someBooks(), nil)
	for op, source := range map[Operation]string{Charge: `"payment_method":"pm_1"`, Transfer: `"destination":"acct_1"`} {
		for sent, want := range map[string]ledger.Transaction{
			`"metadata":{"color":"red \"17\""},"order_id":"order-17 \"é\"",`: {Order: `order-17 "é"`, Metadata: `{"color":"red \"17\""}`},
			"": {},
		} {
			a := attemptOf(op)
			a.Payload = []byte(`{"amount":1999,"currency":"usd",` + sent + source + `}`)
			done, ok := e.Attempt(t.Context(), a).(*claim.Done)
			require.True(t, ok)
			require.Equal(t, want.Order, done.Posting.Order, "%s %s", op, sent)
			require.Equal(t, want.Metadata, done.Posting.Metadata)
			require.Equal(t, op == Charge, a.Record.Minted.Created.Equal(done.Posting.Created))
		}
	}
}

// An event about money that moved after its charge names the order of the charge, and has its metadata.
func TestEventsOfLaterMoneyNameTheOrder(t *testing.T) {
	b := someBooks()
	charge := b.all["europe/"+paid]
	charge.Order, charge.Metadata = "order-17", `{"color":"red"}`
	b.all["europe/"+paid] = charge
	ghost := charge
	ghost.ID, ghost.Kind, ghost.Credit, ghost.ProviderRef = ledger.GhostID("fake", "px_second"), ledger.Ghost, ledger.Suspense("acme"), "px_second"
	b.all["europe/"+ghost.ID] = ghost
	sinks := []outbox.Kind{outbox.KindLog}
	of := named{Order: "order-17", Metadata: map[string]string{"color": "red"}}
	is := func(object, status string) named {
		is := of
		is.Object, is.Status = object, status
		return is
	}

	for kind, want := range map[ledger.Kind]named{
		ledger.ProviderRefund: is("refund", "succeeded"), ledger.ProviderRefundFailed: is("refund", "failed"),
		ledger.DisputeOpened: is("dispute", "needs_response"), ledger.DisputeLost: is("dispute", "lost"), ledger.TransferReversal: is("transfer", "succeeded"),
	} {
		h := Happened{Transaction: ledger.UnaskedOf(charge, kind, "px_later", 100), Of: charge}
		require.Equal(t, want, eventData(t, HappenedUnasked(h, sinks)), kind)
	}

	refund := func(answer psp.Result, body string) (named, *ledger.Transaction) {
		e := executorOf(&fake{caps: both, result: answer}, b, nil, sinks...)
		switch v := e.Attempt(t.Context(), refundOf(body)).(type) {
		case *claim.Done:
			return eventData(t, v.Events), v.Posting
		case *claim.Refused:
			return eventData(t, v.Events), nil
		default:
			require.Fail(t, "it ended otherwise", "%#v", v)
			return named{}, nil
		}
	}
	yes := psp.Result{Outcome: psp.Approved, ProviderRef: "px_back"}
	no := psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Hard, Code: "no"}}
	got, posting := refund(yes, `{"charge":"`+paid+`"}`)
	require.Equal(t, is("refund", "succeeded"), got)
	posting.Region = "europe"
	require.Equal(t, is("refund", "failed"), eventData(t, FailedLater(Fallen{Transaction: *posting}, sinks)))
	got, _ = refund(no, `{"charge":"`+paid+`"}`)
	require.Equal(t, is("refund", "failed"), got)

	// A refund has its own metadata, where it was sent some.
	own := func(status string) named {
		own := is("refund", status)
		own.Metadata = map[string]string{"by": "desk"}
		return own
	}
	got, posting = refund(yes, `{"charge":"`+paid+`","metadata":{"by":"desk"}}`)
	require.Equal(t, own("succeeded"), got)
	require.Equal(t, own("failed"), eventData(t, FailedLater(Fallen{Transaction: *posting}, sinks)))

	require.Equal(t, is("charge", "failed"), eventData(t, FailedLater(Fallen{Transaction: charge}, sinks)))

	// A compensation has that of the ghost.
	a := attemptOf(Compensation)
	a.Record.Key.Tenant = "acme"
	a.Payload = []byte(`{"amount":1999,"charge":"` + paid + `","currency":"usd","provider_ref":"px_second","reason":"ghost_payment"}`)
	e := executorOf(&fake{caps: both, result: yes}, b, nil, sinks...)
	done, ok := e.Attempt(t.Context(), a).(*claim.Done)
	require.True(t, ok)
	require.Equal(t, is("refund", "succeeded"), eventData(t, done.Events))
	require.Equal(t, is("refund", "failed"), eventData(t, FailedLater(Fallen{Transaction: *done.Posting, Charge: paid}, sinks)))

	// Of a charge that named none, an event has neither.
	charge.Order, charge.Metadata = "", ""
	payload := HappenedUnasked(Happened{Transaction: ledger.UnaskedOf(charge, ledger.ProviderRefund, "px_later", 100), Of: charge}, sinks)[0].Payload
	require.False(t, strings.Contains(string(payload), "order_id") || strings.Contains(string(payload), "metadata"), "%s", payload)
}

package stripe

import (
	"encoding/json"
	"time"

	sdk "github.com/stripe/stripe-go/v85"

	"github.com/homeward-io/homeward/payment/psp"
)

// Events of movements that we did not request (Stripe's API reference, "Types of
// events", and "How disputes work"): a charge.dispute.created withdraws nothing by
// itself. An inquiry, with a status that begins with warning_, is a dispute that withdraws
// no money unless it escalates.
var disputeEvents = map[string]psp.Kind{
	"charge.dispute.created": psp.KindDisputeOpened, "charge.dispute.funds_withdrawn": psp.KindDispute,
	"charge.dispute.funds_reinstated": psp.KindDisputeReversal, "charge.dispute.closed": "",
}

var payoutEvents = map[string]psp.Kind{
	"payout.created": psp.KindPayout, "payout.paid": psp.KindPayout,
	"payout.failed": psp.KindPayoutReversal, "payout.canceled": psp.KindPayoutReversal,
}

// unasked reads an event that may be about such a movement; it returns nil for others.
// account is the connected account of the object, "" for our own.
func unasked(event, account string, raw json.RawMessage) ([]psp.Unasked, error) {
	if kind, ok := disputeEvents[event]; ok {
		return dispute(kind, account, raw)
	}
	if kind, ok := payoutEvents[event]; ok {
		if account != "" {
			return nil, nil // to the merchant's bank, not to ours
		}
		return payout(kind, raw)
	}
	if event == "transfer.reversed" {
		return reversals(account, raw)
	}
	return nil, nil
}

func dispute(kind psp.Kind, account string, raw json.RawMessage) ([]psp.Unasked, error) {
	var d sdk.Dispute
	if json.Unmarshal(raw, &d) != nil {
		return nil, malformed("its object is not a dispute")
	}
	u := psp.Unasked{Kind: kind, ProviderRef: ref(d.ID, account), Reason: string(d.Reason), Status: string(d.Status)}
	if d.PaymentIntent != nil {
		u.Of = ref(d.PaymentIntent.ID, account)
	}
	if d.EvidenceDetails != nil && d.EvidenceDetails.DueBy > 0 {
		u.DueBy = time.Unix(d.EvidenceDetails.DueBy, 0).UTC()
	}
	if kind == "" { // closed
		switch d.Status {
		case sdk.DisputeStatusLost:
			u.Kind = psp.KindDisputeLost
		case sdk.DisputeStatusWon, sdk.DisputeStatusWarningClosed, sdk.DisputeStatusPrevented:
			u.Kind = psp.KindDisputeWon
		default:
			return nil, malformed("a dispute that is closed has the status %.40q", string(d.Status))
		}
	}
	return whole(u, d.Amount, string(d.Currency))
}

// whole adds the amount, and checks the members that every event has. An event about a
// payment without a PaymentIntent, or that moves nothing, is ignored.
func whole(u psp.Unasked, amount int64, currency string) (all []psp.Unasked, err error) {
	if u.Of == "" && u.Kind != psp.KindPayout || amount <= 0 {
		return nil, nil
	}
	if !readable(u.ProviderRef) || u.Of != "" && !readable(u.Of) || len(currency) != len("usd") || !readable(currency) {
		return nil, malformed("its object lacks an id or a currency")
	}
	if u.Amount, err = FromStripe(amount, currency); err != nil {
		return nil, malformed("%v", err)
	}
	u.Currency = currency
	return []psp.Unasked{u}, nil
}

// refundByHand reads a refund without our reference. While it is pending it may succeed
// or fail.
func refundByHand(account string, raw json.RawMessage) ([]psp.Unasked, error) {
	var r sdk.Refund
	if json.Unmarshal(raw, &r) != nil {
		return nil, malformed("its object is not a refund")
	}
	m := ofRefund(&r)
	if m.status != psp.Approved && m.status != psp.Declined || r.PaymentIntent == nil {
		return nil, nil
	}
	u := psp.Unasked{Kind: psp.KindRefund, ProviderRef: ref(r.ID, account), Of: ref(r.PaymentIntent.ID, account), Reason: string(r.Reason), Status: string(r.Status)}
	if m.status == psp.Declined {
		u.Failed, u.Reason = true, m.decline.Code
	}
	return whole(u, r.Amount, string(r.Currency))
}

func payout(kind psp.Kind, raw json.RawMessage) ([]psp.Unasked, error) {
	var p sdk.Payout
	if json.Unmarshal(raw, &p) != nil {
		return nil, malformed("its object is not a payout")
	}
	u := psp.Unasked{Kind: kind, ProviderRef: p.ID, Reason: string(p.FailureCode), Status: string(p.Status)}
	if kind == psp.KindPayoutReversal {
		u.Of = p.ID
	}
	return whole(u, p.Amount, string(p.Currency))
}

// reversals reads every reversal that the transfer lists, which are the newest ten: an
// earlier event may have been lost.
func reversals(account string, raw json.RawMessage) (all []psp.Unasked, err error) {
	var t sdk.Transfer
	if json.Unmarshal(raw, &t) != nil {
		return nil, malformed("its object is not a transfer")
	}
	m := ofTransfer(&t)
	if m.reference == "" || t.Reversals == nil {
		return nil, nil
	}
	for _, r := range t.Reversals.Data {
		one, err := whole(psp.Unasked{Kind: psp.KindTransferReversal, ProviderRef: ref(r.ID, account), Of: ref(t.ID, account), Reference: m.reference}, r.Amount, string(r.Currency))
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

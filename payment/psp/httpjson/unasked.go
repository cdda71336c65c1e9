package httpjson

import (
	"encoding/json"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// unaskedEvents are the types of events about movements that we did not request. A
// refund with the reference "" is one, as we always send one.
var unaskedEvents = map[string]psp.Kind{
	"dispute.opened": psp.KindDisputeOpened, "dispute.withdrawn": psp.KindDispute, "dispute.reinstated": psp.KindDisputeReversal,
	"dispute.won": psp.KindDisputeWon, "dispute.lost": psp.KindDisputeLost,
	"refund.succeeded": psp.KindRefund, "refund.failed": psp.KindRefund,
	"transfer.reversed": psp.KindTransferReversal, "payout.paid": psp.KindPayout, "payout.returned": psp.KindPayoutReversal,
}

// unasked reads such an event; it returns nil for any other.
func unasked(event string, raw json.RawMessage) ([]psp.Unasked, error) {
	kind, ok := unaskedEvents[event]
	if !ok {
		return nil, nil
	}
	var data struct {
		ID        string `json:"id"`
		Of        string `json:"of"`
		Reference string `json:"reference"`
		Amount    int64  `json:"amount"`
		Currency  string `json:"currency"`
		Reason    string `json:"reason"`
		Status    string `json:"status"`
		DueBy     int64  `json:"due_by"`
	}
	if json.Unmarshal(raw, &data) != nil {
		return nil, malformed("data is not that of %s", event)
	}
	if kind == psp.KindRefund && data.Reference != "" {
		return nil, nil // one of ours
	}
	u := psp.Unasked{
		Kind: kind, ProviderRef: data.ID, Of: data.Of, Reference: data.Reference, Amount: data.Amount, Currency: data.Currency,
		Failed: event == "refund.failed", Reason: data.Reason, Status: data.Status,
	}
	if data.DueBy > 0 {
		u.DueBy = time.Unix(data.DueBy, 0).UTC()
	}
	switch {
	case !readable(u.ProviderRef, maxEventID) || kind != psp.KindPayout && !readable(u.Of, maxEventID):
		return nil, malformed("data.id and data.of must be 1 to %d visible ASCII characters", maxEventID)
	case u.Amount <= 0 || len(u.Currency) != len("usd") || !readable(u.Currency, len("usd")):
		return nil, malformed("data lacks an amount above 0 or a currency")
	case u.Reference != "" && !readable(u.Reference, maxEventID):
		return nil, malformed("data.reference must be at most %d visible ASCII characters", maxEventID)
	}
	return []psp.Unasked{u}, nil
}

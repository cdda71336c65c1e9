package simulator

import (
	"fmt"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// adyenDisputes are the events of a dispute ("Dispute webhooks"). The money of a
// dispute that is lost a second time is withdrawn again.
var adyenDisputes = map[psp.Kind]string{
	psp.KindDisputeOpened: "NOTIFICATION_OF_CHARGEBACK", psp.KindDispute: "CHARGEBACK", psp.KindDisputeReversal: "CHARGEBACK_REVERSED",
	psp.KindDisputeWon: "ISSUER_RESPONSE_TIMEFRAME_EXPIRED", psp.KindDisputeLost: "DISPUTE_DEFENSE_PERIOD_ENDED",
}

// adyenHappenings prefix Adyen's references of movements without a request.
var adyenHappenings = map[psp.Kind]string{psp.KindDisputeOpened: "HWD0", psp.KindRefund: "HWB0"}

// adyenID is the reference of the movement, for a dispute the same in all steps; "" if
// Adyen's standard webhooks do not report it.
func (h *happening) adyenID() string {
	kind, n := h.kind, h.n
	if from := begins[kind]; from != "" {
		kind, n = from, int(h.about)
	}
	prefix, ok := adyenHappenings[kind]
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s%012X", prefix, n+1)
}

// adyenEvent is Adyen's event about it; nil if there is none.
func (h *happening) adyenEvent(key []byte) ([]byte, error) {
	id := h.adyenID()
	if id == "" {
		return nil, nil
	}
	code := adyenDisputes[h.kind]
	switch {
	case h.kind == psp.KindRefund:
		code = "REFUND"
	case h.second:
		code = "SECOND_CHARGEBACK"
	}
	return adyenItem{
		Amount: toAdyenAmount(h.rec.amount, string(h.rec.currency[:])), EventCode: code,
		EventDate: time.Unix(0, h.rec.at).UTC().Format(time.RFC3339), MerchantAccountCode: adyenAccount, MerchantReference: h.ref,
		OriginalReference: adyenID(psp.KindCharge, h.movement), PaymentMethod: "visa", PSPReference: id, Reason: h.reason, Success: "true",
	}.signed(key)
}

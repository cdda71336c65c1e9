package adyen

import (
	"strings"

	"github.com/homeward-io/homeward/payment/psp"
)

// secondMark follows the reference of a dispute that withdrew money a second time: Adyen has one
// reference for all events of a dispute, and the money moves twice. The mapping of Adyen's
// statement has the same.
const secondMark = "/second"

// disputes maps the events of a dispute to movements ("Dispute webhooks", dispute
// events; the descriptions of each in Adyen's Webhooks-v1.json). Money moves by
// CHARGEBACK, CHARGEBACK_REVERSED and SECOND_CHARGEBACK alone.
//
// Nothing follows from a request for information or a notification of fraud, as no
// event reports that it was dropped; nor from uploads and comments; nor from a
// pre-arbitration that is opened, accepted, declined or escalated, which is not
// decided.
var disputes = map[string][]step{
	"NOTIFICATION_OF_CHARGEBACK": {{kind: psp.KindDisputeOpened}},
	"CHARGEBACK":                 {{kind: psp.KindDispute}},
	"CHARGEBACK_REVERSED":        {{kind: psp.KindDisputeReversal}}, // "This stage is not final."
	// The issuer has declined the defence, and has the money again.
	"SECOND_CHARGEBACK": {{kind: psp.KindDispute, second: true}, {kind: psp.KindDisputeLost}},
	// It was not defended, or liability was accepted. A request for information ends so, too.
	"DISPUTE_DEFENSE_PERIOD_ENDED":      {{kind: psp.KindDisputeLost, ifOpened: true}},
	"PREARBITRATION_LOST":               {{kind: psp.KindDisputeLost}},
	"SCHEME_ARBITRATION_LOST":           {{kind: psp.KindDisputeLost}},
	"ISSUER_RESPONSE_TIMEFRAME_EXPIRED": {{kind: psp.KindDisputeWon}},
	"PREARBITRATION_WON":                {{kind: psp.KindDisputeWon}},
	"PREARBITRATION_ISSUER_WITHDRAWN":   {{kind: psp.KindDisputeWon}},
	"SCHEME_ARBITRATION_WON":            {{kind: psp.KindDisputeWon}},
}

type step struct {
	kind             psp.Kind
	second, ifOpened bool
}

// words maps a step to the status of a dispute, as the API's other providers spell it.
var words = map[psp.Kind]string{
	psp.KindDisputeOpened: "needs_response", psp.KindDispute: "needs_response", psp.KindDisputeReversal: "under_review",
	psp.KindDisputeWon: "won", psp.KindDisputeLost: "lost",
}

// unasked reads an event about a movement that we did not request: a step of a dispute, or the
// result of a refund that a person made in the Customer Area, or by whoever reviews payments there,
// which has the reference of its payment. ok is false for all else. Neither reason nor time to answer
// is signed.
func (i *item) unasked() (all []psp.Unasked, ok bool, err error) {
	steps, disputed := disputes[i.EventCode]
	made := i.EventCode == eventRefund || i.EventCode == eventCancelOrRefund
	refund := made || i.EventCode == eventRefundFailed || i.EventCode == eventRefundedReversed
	payment, _, _ := strings.Cut(i.MerchantReference, heldMark)
	if !disputed && !(refund && strings.HasPrefix(payment, chargePrefix)) {
		return nil, false, nil
	}
	if made && i.Success != "true" {
		return nil, true, nil // no money moved
	}
	u := psp.Unasked{Kind: psp.KindRefund, ProviderRef: i.PSPReference, Of: i.OriginalReference, Reference: payment, Failed: !made}
	if u.Amount, u.Currency, ok = i.Amount.minor(); !ok || u.Amount <= 0 {
		return nil, true, malformed("its event has no amount above 0 of a currency")
	}
	if u.Of == "" {
		return nil, true, malformed("its event %s does not name the payment: have the Customer Area include the originalReference in it", i.EventCode)
	}
	if refund {
		return []psp.Unasked{u}, true, nil
	}
	for _, s := range steps {
		u.Kind, u.Failed, u.IfOpened, u.Status = s.kind, false, s.ifOpened, words[s.kind]
		if u.ProviderRef, u.Dispute = i.PSPReference, ""; s.second {
			u.ProviderRef, u.Dispute = i.PSPReference+secondMark, i.PSPReference
		}
		all = append(all, u)
	}
	return all, true, nil
}

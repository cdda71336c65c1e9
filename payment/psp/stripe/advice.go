package stripe

import (
	"encoding/json"
	"time"

	sdk "github.com/stripe/stripe-go/v85"

	"github.com/homeward-io/homeward/payment/psp"
)

// advice is what the network and Stripe recommend after a decline, beside its code (API
// changelog, "Adds network advice and decline codes"; the attributes of errors). The
// SDK's type for errors does not have it.
type advice struct {
	Stripe  string `json:"advice_code"`
	Network string `json:"network_advice_code"`
}

// extras are the members of a PaymentIntent that the SDK's type lacks.
type extras struct {
	NextAction       json.RawMessage `json:"next_action"`
	LastPaymentError advice          `json:"last_payment_error"`
}

func extrasOf(raw []byte) (e extras) {
	_ = json.Unmarshal(raw, &e) // the SDK has read it before
	if string(e.NextAction) == "null" {
		e.NextAction = nil
	}
	return e
}

// adviceOf reads the reply that an error of the SDK came with.
func adviceOf(e *sdk.Error) advice {
	var body struct {
		Error advice `json:"error"`
	}
	if e.LastResponse != nil {
		_ = json.Unmarshal(e.LastResponse.RawJSON, &body) // as above
	}
	return body.Error
}

// networkPauses are Mastercard's merchant advice codes with a pause; the others are in
// [advice.apply].
var networkPauses = map[string]time.Duration{
	"02": time.Hour, // "cannot approve at this time, try again later"
	"24": time.Hour, "25": 24 * time.Hour, "26": 2 * 24 * time.Hour, "27": 4 * 24 * time.Hour,
	"28": 6 * 24 * time.Hour, "29": 8 * 24 * time.Hour, "30": 10 * 24 * time.Hour,
}

// tryLater is the pause after "try_again_later", which names none.
const tryLater = time.Hour

// apply changes d by the advice. Advice makes a decline hard or a pause longer; it
// makes no hard decline soft.
func (a advice) apply(d *psp.Decline) *psp.Decline {
	if d.Class != psp.Soft {
		return d
	}
	switch a.Network {
	case "03", "21", // do not try again; payment cancelled
		"01", "04", "40", "41", "42", "43": // another card, or other data of it, is needed
		d.Class = psp.Hard
		return d
	}
	switch sdk.ChargeOutcomeAdviceCode(a.Stripe) {
	case sdk.ChargeOutcomeAdviceCodeDoNotTryAgain:
		d.Class = psp.Hard
		return d
	case sdk.ChargeOutcomeAdviceCodeTryAgainLater:
		d.RetryIn = tryLater
	}
	d.RetryIn = max(d.RetryIn, networkPauses[a.Network])
	return d
}

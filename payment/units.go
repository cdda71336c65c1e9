package payment

import "bytes"

// amountUnits marks a refund or capture with its amount in Stripe's units. Such a request names no
// currency, so the amount can be converted only once its charge has been read.
const amountUnits = "amount_units"

// codeUnits refuses such an amount in a currency that Stripe counts in other units.
const codeUnits = "amount_units"

const otherUnitsDetail = "Stripe counts this charge's currency in other units than ISO 4217, in which the charge was made. Leave the amount out for all of it, or send the request as this API has it: as application/json, without Stripe-Version."

// OtherUnits reports whether Stripe writes amounts of the currency, an ISO 4217 code in
// lower case, in other units ("Supported currencies", special cases).
func OtherUnits(currency string) bool {
	return currency == "isk" || currency == "ugx" || currency == "mga"
}

// InStripesUnits returns the canonical body of a refund or capture with a mark that its
// amount is in Stripe's units. It returns a body without an amount unchanged.
func InStripesUnits(body []byte) []byte {
	const amount = `{"amount":` // no member of these sorts before it
	if !bytes.HasPrefix(body, []byte(amount)) {
		return body
	}
	end := bytes.IndexAny(body, ",}")
	noted := append([]byte(nil), body[:end]...)
	noted = append(noted, `,"`+amountUnits+`":"stripe"`...)
	return append(noted, body[end:]...)
}

func (in *Intent) setUnits(raw []byte) error {
	if s, _ := text(raw); s != "stripe" {
		return invalid(amountUnits, "must be stripe, or be left out")
	}
	in.ofStripe = true
	return nil
}

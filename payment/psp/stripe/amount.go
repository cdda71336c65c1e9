package stripe

import (
	"fmt"
	"math"
	"strings"

	"github.com/homeward-io/homeward/payment/psp"
)

// scale is how Stripe writes amounts of a currency (docs.stripe.com/currencies,
// "Supported currencies").
type scale struct {
	// digits are the decimals of Stripe's unit.
	digits int
	// whole is what an amount in Stripe's unit must be a multiple of.
	whole int64
}

// scaleOf returns how Stripe writes amounts of currency, false if its documentation
// leaves that open.
func scaleOf(currency string) (scale, bool) {
	switch currency {
	// "Zero-decimal currencies". The list has UGX, too, but its special case below is more
	// specific.
	case "bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf":
		return scale{0, 1}, true
	// "Special cases": "represent it as a two-decimal value, where the decimal amount is
	// always 00". HUF and TWD are special in payouts alone.
	case "isk", "ugx":
		return scale{2, 100}, true
	// "Three-decimal currencies": "the least-significant (last) digit to be 0".
	case "bhd", "jod", "kwd", "omr", "tnd":
		return scale{3, 10}, true
	}
	// All others have two, says Stripe. If ISO 4217 differs, Stripe does not list the
	// currency, and its unit is unknown.
	return scale{2, 1}, psp.MinorDigits(currency) == 2
}

// ToStripe converts amount, in the minor units of ISO 4217, to Stripe's unit. The error
// is one line for the merchant: Stripe does not accept this amount.
func ToStripe(amount int64, currency string) (int64, error) {
	s, ok := scaleOf(currency)
	if !ok {
		return 0, fmt.Errorf("stripe takes no payments in %s", strings.ToUpper(currency))
	}
	converted, exact := shift(amount, s.digits-psp.MinorDigits(currency))
	if !exact || converted%s.whole != 0 {
		unit := s.whole
		for range psp.MinorDigits(currency) - s.digits {
			unit *= 10
		}
		return 0, fmt.Errorf("stripe takes amounts of %s only in multiples of %d minor units", strings.ToUpper(currency), unit)
	}
	return converted, nil
}

// FromStripe is the inverse of [ToStripe]. It fails for an amount that Stripe's
// documentation rules out, and for an amount that minor units cannot express.
func FromStripe(amount int64, currency string) (int64, error) {
	s, ok := scaleOf(currency)
	converted, exact := shift(amount, psp.MinorDigits(currency)-s.digits)
	if !ok || !exact {
		return 0, fmt.Errorf("stripe: %d is not an amount of %s", amount, currency)
	}
	return converted, nil
}

// shift moves the decimal point by digits; exact reports whether nothing was lost.
func shift(amount int64, digits int) (_ int64, exact bool) {
	for ; digits > 0; digits-- {
		if amount > math.MaxInt64/10 || amount < math.MinInt64/10 {
			return 0, false
		}
		amount *= 10
	}
	for ; digits < 0; digits++ {
		if amount%10 != 0 {
			return 0, false
		}
		amount /= 10
	}
	return amount, true
}

// refuseAmount is the answer to a call with an amount that Stripe does not accept. Nothing is sent.
func refuseAmount(member string, err error) psp.Result {
	return psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{
		Class: psp.Invalid, Code: "invalid_amount", Member: member, Message: err.Error() + "; nothing was sent.",
	}}
}

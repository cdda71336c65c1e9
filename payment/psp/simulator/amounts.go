package simulator

import (
	"fmt"
	"slices"
)

// Stripe's own decimals, as its page "Supported currencies" lists them, where they are not
// those of ISO 4217, in whose minor units the books are. The lists are spelled out here, and not taken from the
// adapter that is tested against them.
var (
	stripeWholeOnly    = []string{"isk", "ugx"}
	stripeThreeDecimal = []string{"bhd", "jod", "kwd", "omr", "tnd"}
)

// fromStripeAmount is amount as the books have it. The error says what Stripe would refuse.
func fromStripeAmount(amount int64, currency string) (int64, error) {
	switch {
	case slices.Contains(stripeWholeOnly, currency) && amount%100 != 0:
		return 0, fmt.Errorf("amount: %s has no decimals, so the last two digits must be 00", currency)
	case slices.Contains(stripeThreeDecimal, currency) && amount%10 != 0:
		return 0, fmt.Errorf("amount: the last digit of an amount of %s must be 0", currency)
	case slices.Contains(stripeWholeOnly, currency):
		return amount / 100, nil
	case currency == "mga": // of which ISO 4217 has two decimals
		return amount * 100, nil
	default:
		return amount, nil
	}
}

// toStripeAmount is amount, as the books have it, in Stripe's unit.
func toStripeAmount(amount int64, currency string) int64 {
	switch {
	case slices.Contains(stripeWholeOnly, currency):
		return amount * 100
	case currency == "mga":
		return amount / 100
	default:
		return amount
	}
}

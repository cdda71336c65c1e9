package simulator

import (
	"fmt"
	"slices"
)

// Stripe's own decimals, from its page "Supported currencies", if they differ from ISO
// 4217. The books are in minor units of ISO 4217. The lists are copies, so that the adapter
// is tested against an independent one.
var (
	stripeWholeOnly    = []string{"isk", "ugx"}
	stripeThreeDecimal = []string{"bhd", "jod", "kwd", "omr", "tnd"}
)

// fromStripeAmount converts amount to the books' units. The error is what Stripe would
// refuse.
func fromStripeAmount(amount int64, currency string) (int64, error) {
	switch {
	case slices.Contains(stripeWholeOnly, currency) && amount%100 != 0:
		return 0, fmt.Errorf("amount: %s has no decimals, so the last two digits must be 00", currency)
	case slices.Contains(stripeThreeDecimal, currency) && amount%10 != 0:
		return 0, fmt.Errorf("amount: the last digit of an amount of %s must be 0", currency)
	case slices.Contains(stripeWholeOnly, currency):
		return amount / 100, nil
	case currency == "mga": // which have two decimals in ISO 4217
		return amount * 100, nil
	default:
		return amount, nil
	}
}

// toStripeAmount converts amount from the books' units to Stripe's.
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

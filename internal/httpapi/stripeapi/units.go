package stripeapi

// Stripe counts money in units of its own ("Supported currencies", special cases):
// the króna and the shilling as if they had two decimals, the ariary as if it had none.
// The merchant's API counts as ISO 4217 does.
const (
	krona    = "isk"
	shilling = "ugx"
	ariary   = "mga"
)

// hundredths is how many of one unit are one of the other.
const hundredths = 100

// stripeUnits is an amount in ISO 4217's minor units as Stripe shows it. Fractions of an
// ariary, which nobody can pay, are cut off.
func stripeUnits(amount int64, currency string) int64 {
	switch currency {
	case krona, shilling:
		return amount * hundredths
	case ariary:
		return amount / hundredths
	default:
		return amount
	}
}

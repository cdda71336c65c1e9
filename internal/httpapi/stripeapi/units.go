package stripeapi

// Stripe counts some currencies in units of its own ("Supported currencies", special
// cases): the króna and the shilling with two decimals, the ariary with none. The
// merchant's API follows ISO 4217.
const (
	krona    = "isk"
	shilling = "ugx"
	ariary   = "mga"
)

// hundredths is the factor between the two units.
const hundredths = 100

// stripeUnits converts an amount in ISO 4217's minor units to Stripe's. Fractions of an
// ariary, which no one can pay, are cut off.
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

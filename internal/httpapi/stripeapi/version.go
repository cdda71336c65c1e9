package stripeapi

// Version is the version of Stripe's API whose documents this package follows.
const Version = "2026-08-26.dahlia"

// OldestIntents is the version from which on a payment intent has latest_charge in
// place of a list of charges ("Changelog", 2022-11-15). A charge, a refund and a
// transfer have not changed in what is served here.
const OldestIntents = "2022-11-15"

// maxVersion is the longest Stripe-Version, in characters.
const maxVersion = 64

// IsVersion reports whether v could be a version: a date, and behind it a name.
func IsVersion(v string) bool {
	const date = "0000-00-00"
	if len(v) < len(date) || len(v) > maxVersion {
		return false
	}
	for i := range len(v) {
		digit := v[i] >= '0' && v[i] <= '9'
		switch {
		case i >= len(date):
			if v[i] < ' ' || v[i] > '~' || i == len(date) && v[i] != '.' && v[i] != ';' {
				return false
			}
		case date[i] == '-' && v[i] != '-', date[i] != '-' && !digit:
			return false
		}
	}
	return true
}

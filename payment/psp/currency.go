package psp

// MinorDigits returns how many decimals ISO 4217 ("List one: currency, fund and
// precious metal codes") gives the minor unit of currency, a code in lower case: 2 for
// most, and for codes without an exception. A [Call]'s Amount is in that unit; a
// provider may use another one, and its adapter converts.
func MinorDigits(currency string) int {
	switch currency {
	case "bif", "clp", "djf", "gnf", "isk", "jpy", "kmf", "krw", "pyg", "rwf", "ugx", "uyi", "vnd", "vuv", "xaf", "xof", "xpf":
		return 0
	case "bhd", "iqd", "jod", "kwd", "lyd", "omr", "tnd":
		return 3
	case "clf", "uyw":
		return 4
	default:
		return 2
	}
}

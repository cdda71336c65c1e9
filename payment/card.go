package payment

// The lengths of a primary account number (ISO/IEC 7812-1), in digits. Shorter
// ones exist on paper; no network issues below 13.
const (
	minCardDigits = 13
	maxCardDigits = 19
)

// HasCardNumber reports whether s holds what looks like a card number: a run of
// 13 to 19 digits, perhaps grouped by single spaces or dashes, whose last digit
// is the Luhn check of the others.
func HasCardNumber(s string) bool {
	if len(s) < minCardDigits {
		return false
	}
	var digits [maxCardDigits]byte
	n, gap := 0, false
	for i := 0; i <= len(s); i++ {
		var c byte
		if i < len(s) {
			c = s[i]
		}
		switch {
		case c >= '0' && c <= '9':
			if n < maxCardDigits {
				digits[n] = c - '0'
			}
			n++ // a longer run is counted on, and is no card number
			gap = false
		case (c == ' ' || c == '-') && n > 0 && !gap:
			gap = true
		default:
			if n >= minCardDigits && n <= maxCardDigits && luhn(digits[:n]) {
				return true
			}
			n, gap = 0, false
		}
	}
	return false
}

func luhn(digits []byte) bool {
	sum := 0
	for i, d := range digits {
		v := int(d)
		if (len(digits)-i)%2 == 0 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}

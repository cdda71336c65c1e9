package adyen

import "strings"

// decimals are how many more decimals Adyen's amounts have than those of ISO 4217, if
// they differ ("Currency codes and minor units", where each is marked "differs from
// standard").
var decimals = map[string]int{"clp": 2, "isk": 2, "cve": -2, "idr": -2}

// centum is the factor of two decimals.
const centum = 100

// maxAmount keeps amounts, with two more decimals, inside 64 bits.
const maxAmount = 1 << 56

// amount is Adyen's Amount: minor units by Adyen's own decimals.
type amount struct {
	Currency string `json:"currency"`
	Value    int64  `json:"value"`
}

// amountOf converts minor units of ISO 4217 to Adyen's. ok is false for an amount that
// Adyen cannot express, as 10.50 CVE.
func amountOf(minor int64, currency string) (a amount, ok bool) {
	a = amount{strings.ToUpper(currency), minor}
	if minor < 0 || minor > maxAmount {
		return amount{}, false
	}
	switch decimals[currency] {
	case 2:
		a.Value *= centum
	case -2:
		if minor%centum != 0 {
			return amount{}, false
		}
		a.Value /= centum
	}
	return a, true
}

// minor is the inverse of amountOf. ok is false for an amount that minor units cannot
// express.
func (a amount) minor() (minor int64, currency string, ok bool) {
	currency = strings.ToLower(a.Currency)
	if len(currency) != len("usd") || strings.Trim(currency, "abcdefghijklmnopqrstuvwxyz") != "" || a.Value < 0 || a.Value > maxAmount {
		return 0, "", false
	}
	switch decimals[currency] {
	case 2:
		return a.Value / centum, currency, a.Value%centum == 0
	case -2:
		return a.Value * centum, currency, true
	}
	return a.Value, currency, true
}

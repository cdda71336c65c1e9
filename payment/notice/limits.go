package notice

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits bound the automatic refunds of a provider in an hour. A refund beyond them
// sets the brake until an operator releases it.
type Limits struct {
	// Count is the greatest number.
	Count int
	// Sum is the greatest sum for each currency, in minor units of usd. It is
	// multiplied by ten, a hundred or more for currencies with minor units of far less
	// worth.
	Sum int64
	// Sums sets the sum for single currencies, in their own minor units.
	Sums map[string]int64
}

// window is the period that limits apply to.
const window = time.Hour

const (
	// MaxCount bounds Limits.Count: the row holds an entry of some 120 bytes for each
	// refund.
	MaxCount = 1000
	// maxLet bounds Brake.Let: no person can check that many releases within a short time.
	maxLet = 100
)

// DefaultLimits admit the refunds that follow an outage of a provider, and bound the
// cost if a provider's answers are wrong.
func DefaultLimits() Limits { return Limits{Count: 100, Sum: 5_000_000} }

// cheap are the currencies whose minor unit, by ISO 4217, is worth far less than a cent
// of the US dollar. The keys are roughly how many of them make one. That is an order of
// magnitude and no rate: a third of a limit and three times a limit serve the same
// purpose. A currency that is not listed counts as a cent, which sets the brake too
// early rather than too late.
var cheap = map[int64]string{
	10:      "aed bhd bif bob brl bwp clp cny czk dkk ghs gtq hkd hnl ils jod kmf krw mad mdl mop mvr mxn myr nad nok omr pen pln qar ron rwf sar scr sek stn szl tjs tnd ttd twd xaf xof zar zmw",
	100:     "afn all bdt dop dzd egp etb gmd gnf htg inr jmd kes kgs lkr lrd lyd mkd mru mur mzn nio npr php pkr pyg rsd rub srd thb try uah ugx uyu vnd yer",
	1000:    "amd aoa ars crc huf kzt mmk mwk ngn tzs",
	10_000:  "cop idr iqd khr lak mga mnt uzs",
	100_000: "irr lbp",
}

// perCent is cheap by currency.
var perCent = func() map[string]int64 {
	all := map[string]int64{}
	for n, currencies := range cheap {
		for c := range strings.FieldsSeq(currencies) {
			all[c] = n
		}
	}
	return all
}()

// sum returns the greatest sum of a currency, in its minor units.
func (l Limits) sum(currency string) int64 {
	if s, ok := l.Sums[currency]; ok {
		return s
	}
	n := max(1, perCent[currency])
	return min(l.Sum, math.MaxInt64/n) * n
}

// admit is the rule: whether one more refund may be made at now. b is the provider's
// row and next its new content.
func (l Limits) admit(b Brake, a Admission, now time.Time) (next Brake, admitted bool) {
	next = b
	if b.Held != nil {
		return next, false
	}
	if slices.Contains(b.Let, a.ID) {
		return next, true // a person has
	}
	if slices.ContainsFunc(b.Admitted, func(old Admission) bool { return old.ID == a.ID }) {
		return next, true // it was counted at its first try
	}
	next.Admitted = nil
	count, sum := 1, a.Amount
	for _, old := range b.Admitted {
		if now.Sub(old.At) >= window || old.At.Before(b.ReleasedAt) {
			continue
		}
		next.Admitted = append(next.Admitted, old)
		count++
		if old.Currency == a.Currency {
			sum += old.Amount // an hour's sum fits 64 bits: MaxCount times payment.MaxAmount
		}
	}
	switch most := l.sum(a.Currency); {
	case a.Amount > most:
		next.Held = &Hold{At: now, Of: a.ID, Reason: fmt.Sprintf("%s alone is an automatic refund of %d %s, and within an hour there may be %d", a.ID, a.Amount, a.Currency, most)}
	case count > l.Count:
		next.Held = &Hold{At: now, Of: a.ID, Reason: fmt.Sprintf("there would be more than %d automatic refunds within an hour", l.Count)}
	case sum > most:
		next.Held = &Hold{At: now, Of: a.ID, Reason: fmt.Sprintf("there would be automatic refunds of more than %d %s within an hour", most, a.Currency)}
	default:
		a.At = now
		next.Admitted = append(next.Admitted, a)
	}
	return next, next.Held == nil
}

// ParseSums parses limits of single currencies: "jpy=5000000".
func ParseSums(list []string) (map[string]int64, error) {
	sums := make(map[string]int64, len(list))
	for _, text := range list {
		currency, amount, _ := strings.Cut(text, "=")
		n, err := strconv.ParseInt(amount, 10, 64)
		if err != nil || n < 1 || len(currency) != len("usd") || strings.Trim(currency, "abcdefghijklmnopqrstuvwxyz") != "" {
			return nil, fmt.Errorf("%q is not a limit of a currency; write one as jpy=5000000, in minor units", text)
		}
		if _, twice := sums[currency]; twice {
			return nil, fmt.Errorf("%s has two limits; leave one", currency)
		}
		sums[currency] = n
	}
	return sums, nil
}

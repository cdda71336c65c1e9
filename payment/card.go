package payment

import (
	"math/bits"
	"unicode"
	"unicode/utf8"
)

// Lengths of a primary account number, in digits (ISO/IEC 7812-1). Shorter ones
// exist on paper; no network issues below 13.
const (
	minCardDigits = 13
	maxCardDigits = 19
)

const (
	// prefixDigits is how many digits the table of issuers compares.
	prefixDigits = 6
	// shownDigits is how many digits a mask leaves: the last four, which receipts may
	// show (PCI DSS 4.0, requirement 3.4.1).
	shownDigits = 4
	// maxGap is how many separators may stand between two groups of one number, as
	// in "4242 - 4242".
	maxGap = 3
	// maxPhoneDigits: a number with a plus sign and no more digits is a telephone
	// number (ITU-T E.164).
	maxPhoneDigits = 15
)

// issuer is a range of six leading digits, and the lengths of its numbers: bit n for n
// digits.
type issuer struct {
	first, last uint32
	lengths     uint32
}

func lengths(of ...int) (set uint32) {
	for _, n := range of {
		set |= 1 << n
	}
	return set
}

// issuers lists the ranges of the networks. The register of ISO/IEC 7812 is not
// published, so the table merges two public lists: "Payment card number" of Wikipedia,
// and card-types.ts of github.com/braintree/credit-card-type. It leaves out UATP (1…,
// 15 digits, used at airlines alone) and defunct networks. Ranges may overlap.
var issuers = func() []issuer {
	var (
		sixteen  = lengths(16)
		upward   = lengths(16, 17, 18, 19)
		anything = lengths(13, 14, 15, 16, 17, 18, 19)
	)
	return []issuer{
		{220000, 220599, upward},                  // Mir, BORICA
		{222100, 272099, sixteen},                 // Mastercard, the second series
		{300000, 305999, lengths(14, 16, 19)},     // Diners Club
		{309500, 309599, lengths(14, 16, 19)},     // Diners Club
		{340000, 349999, lengths(15)},             // American Express
		{352800, 358999, upward},                  // JCB
		{360000, 369999, lengths(14, 16, 19)},     // Diners Club
		{370000, 379999, lengths(15)},             // American Express
		{380000, 399999, lengths(14, 16, 19)},     // Diners Club
		{400000, 499999, lengths(13, 16, 18, 19)}, // Visa
		{500000, 509999, anything},                // Maestro, Elo, Verve, RuPay, Dankort
		{510000, 559999, sixteen},                 // Mastercard
		{560000, 589999, anything},                // Maestro
		{600000, 609999, upward},                  // Discover, RuPay, Hipercard, UkrCard
		{620000, 629999, upward},                  // UnionPay
		{630000, 639999, anything},                // Maestro, InterPayment, InstaPayment
		{644000, 659999, upward},                  // Discover, RuPay, Elo, Troy
		{670000, 679999, anything},                // Maestro
		{810000, 829999, upward},                  // UnionPay, RuPay
		{860000, 860099, sixteen},                 // Uzcard
		{970400, 970499, lengths(16, 19)},         // NAPAS
		{979200, 979299, sixteen},                 // Troy
		{986000, 986099, sixteen},                 // Humo
	}
}()

// lengthsOf returns the lengths that numbers of this prefix have.
func lengthsOf(prefix uint32) (set uint32) {
	for i := range issuers {
		if issuers[i].first <= prefix && prefix <= issuers[i].last {
			set |= issuers[i].lengths
		}
	}
	return set
}

// HasCardNumber reports whether s holds what looks like a card number: 13 to 19
// digits, alone or in the groups that cards have, that begin as a network's numbers do,
// have one of its lengths, and end in the check digit of the others. One in ten numbers
// that begin so does by chance. A number that is part of an identifier is none: one with
// a letter, or behind a dash, a dot, a slash or an underscore another letter or digit,
// right before or after it.
func HasCardNumber(s string) (has bool) {
	findCards([]byte(s), utf8.DecodeRune, func([]digit) bool {
		has = true
		return false
	})
	return has
}

// digit is one digit of a text: its value and its position.
type digit struct {
	value        uint8
	begins, ends bool // a group of digits
	before       bool // the group begins inside of a token
	behind       bool // the group ends inside of a token
	plus         bool // preceded by a plus sign
	start, end   int
}

// digitsInView is how many digits of a run are searched together: enough that moving
// the view is rare.
const digitsInView = 4 * maxCardDigits

// cardSearch is a view of a run: digits with nothing but separators in between. It
// moves along the run, so that a text of a million digits takes no memory.
type cardSearch struct {
	run   [digitsInView]digit
	n     int
	found func(number []digit) (more bool)
}

// findCards passes every card number of text to found, from left to right, until found
// returns false. read returns the first character of its argument, and how many bytes
// it takes.
func findCards(text []byte, read func([]byte) (rune, int), found func([]digit) bool) {
	if !manyDigits(text) {
		return
	}
	s := cardSearch{found: found}
	// token: a letter or digit precedes this position, with at most joints between.
	gap, plus, token := 0, false, false
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf || r == '\\' {
			r, size = read(text[i:])
		}
		switch value := digitValue(r); {
		case value >= 0:
			if s.n == len(s.run) && !s.look(false) {
				return
			}
			begins := s.n == 0 || gap > 0
			if begins && s.n > 0 {
				s.run[s.n-1].ends, s.run[s.n-1].behind = true, token
			}
			s.run[s.n] = digit{value: uint8(value), begins: begins, before: begins && token, plus: plus, start: i, end: i + size}
			s.n++
			gap, token = 0, true
		case s.n > 0 && gap < maxGap && separates(r):
			gap++
			token = token && joins(r)
		default:
			letter := unicode.IsLetter(r)
			if s.n > 0 {
				s.run[s.n-1].behind = letter && token
				if !s.look(true) {
					return
				}
			}
			gap, token = 0, letter || token && joins(r)
		}
		plus = r == '+'
		i += size
	}
	s.look(true)
}

// manyDigits reports whether text may hold a whole number. Most texts do not, and the
// check is cheap.
func manyDigits[T []byte | string](text T) bool {
	if len(text) < minCardDigits {
		return false
	}
	n := 0
	for i := range len(text) {
		if c := text[i]; c >= '0' && c <= '9' || c >= utf8.RuneSelf {
			if n++; n == minCardDigits {
				return true
			}
		}
	}
	return false
}

// look tries every stretch of whole groups, and moves the view on. Unless the run is
// over, it keeps the groups with a number that may continue behind the view. After a card
// number the search continues at its last four digits: the part that a mask leaves must
// not begin another number.
func (s *cardSearch) look(over bool) (more bool) {
	from := 0
	if over && s.n > 0 {
		s.run[s.n-1].ends = true
	}
	for from+minCardDigits <= s.n && (over || from+maxCardDigits < s.n) {
		n := 0
		if s.run[from].begins {
			n = cardAt(s.run[from:s.n])
		}
		if n == 0 {
			from++
			continue
		}
		if !s.found(s.run[from : from+n]) {
			return false
		}
		from += n - shownDigits
		s.run[from].begins, s.run[from].before, s.run[from].plus = true, false, false
	}
	if over {
		from = s.n
	}
	s.n = copy(s.run[:], s.run[from:s.n])
	return true
}

// cardAt returns the length of the longest card number that run begins with, or 0.
func cardAt(run []digit) int {
	if run[0].before {
		return 0
	}
	var prefix uint32
	for _, d := range run[:prefixDigits] {
		prefix = 10*prefix + uint32(d.value)
	}
	for set := lengthsOf(prefix); set != 0; {
		n := bits.Len32(set) - 1
		set &^= 1 << n
		if n <= len(run) && run[n-1].ends && !run[n-1].behind && !(run[0].plus && n <= maxPhoneDigits) && luhn(run[:n]) && printed(run[:n]) {
			return n
		}
	}
	return 0
}

// printed reports whether the groups of a number are those that cards have, as printed or
// as forms write them: none; fours, with what is left of the others in the last (4-4-4-4,
// 4-4-4-4-3, 4-4-5); 4-6-5 of American Express, 4-6-4 of Diners Club, 6-13 of UnionPay.
func printed(number []digit) bool {
	var sizes [maxCardDigits]int
	last := -1
	for i, d := range number {
		if i == 0 || d.begins {
			last++
		}
		sizes[last]++
	}
	switch {
	case last == 0:
		return true
	case last == 1:
		return sizes[0] == 6 && sizes[1] == 13
	case last == 2 && sizes[0] == 4 && sizes[1] == 6:
		return sizes[2] == 4 || sizes[2] == 5
	}
	for _, size := range sizes[:last] {
		if size != 4 {
			return false
		}
	}
	return sizes[last] <= 5
}

// luhn checks the last digit of a number (ISO/IEC 7812-1, annex B).
func luhn(number []digit) bool {
	sum := 0
	for i, d := range number {
		v := int(d.value)
		if (len(number)-i)%2 == 0 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}

// digitValue returns what r counts as a digit, in any script, or -1.
func digitValue(r rune) int {
	if r < utf8.RuneSelf {
		if r >= '0' && r <= '9' {
			return int(r - '0')
		}
		return -1
	}
	if !unicode.IsDigit(r) {
		return -1
	}
	// The digits of a script are consecutive from zero, and so are the scripts that
	// share a range.
	for _, in := range unicode.Nd.R16 {
		if r <= rune(in.Hi) && r >= rune(in.Lo) {
			return int(r-rune(in.Lo)) % 10
		}
	}
	for _, in := range unicode.Nd.R32 {
		if r <= rune(in.Hi) && r >= rune(in.Lo) {
			return int(r-rune(in.Lo)) % 10
		}
	}
	return -1
}

// separates reports whether r may stand between the groups of a number: white space,
// dashes, dots, invisible characters, and the marks of lists.
func separates(r rune) bool {
	switch r {
	case '\u00b7', '\u2022', ',', ';', ':', '|', '(', ')': // middle dot, bullet
		return true
	}
	return joins(r) || unicode.IsSpace(r) || r >= utf8.RuneSelf && unicode.Is(unicode.Cf, r)
}

// joins reports whether r holds the parts of one identifier together, as in a UUID, a
// path or the name of a file.
func joins(r rune) bool {
	switch r {
	case '-', '_', '.', '/', '\\', '\u2212': // minus sign
		return true
	}
	return r >= utf8.RuneSelf && unicode.Is(unicode.Pd, r)
}

package payment

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Screened is what [Screen] found in the free text of a request.
type Screened struct {
	// Member is the path of the first member with a card number; "" when there is none.
	Member string
	// Masked is the request with every digit of each such number but the last four
	// replaced by '*'. It is canonical, has as many characters, and follows from the
	// request alone. It is nil when there is none, and when a name in metadata holds
	// one: two names could become the same.
	Masked []byte
	// Token: payment_method holds a card number, and is what Member names. No tenant
	// may send that, and no mask helps.
	Token bool
}

// Refusal returns the error for a text that may not contain card numbers.
func (s *Screened) Refusal() error {
	if s.Token {
		return cardAsToken()
	}
	return invalid(s.Member, "holds what looks like a card number; take it out: card numbers have no place here")
}

// Screen looks for card numbers in the free text of canonical, a request that [Parse]
// has accepted: in description, reason, statement_descriptor_suffix, in names and values
// of metadata, and in payment_method. A text without white space that has letters is an
// identifier, and so are digits alone in metadata, unless the name says that a card
// number is there: one in ten numbers has a right check digit, and an identifier is never
// refused for its look. Screen copies nothing unless it finds one, and is safe for
// concurrent use.
func Screen(canonical []byte) Screened {
	if !manyDigits(canonical) {
		return Screened{}
	}
	m := masker{in: canonical}
	token := false
	for top := membersAt(canonical, 0); top.next(); {
		switch string(top.name) {
		case `"payment_method"`:
			token = manyDigits(top.raw) && HasCardNumber(strings.TrimPrefix(strings.Trim(string(top.raw), `"`), "pm_"))
		case `"description"`, `"reason"`, `"statement_descriptor_suffix"`:
			m = m.text(top.raw, top.at, "", top.name)
		case `"metadata"`:
			for inner := membersAt(canonical, top.at); inner.next(); {
				if !digitsAlone(inner.name) && !identifies(inner.name) && hasCard(inner.name) {
					m.found(inner.name, "metadata.")
					m.fixed = true
				}
				if !digitsAlone(inner.raw) || namesCard(inner.name) {
					m = m.text(inner.raw, inner.at, "metadata.", inner.name)
				}
			}
		}
	}
	found := Screened{Member: m.member}
	if m.member != "" && !m.fixed {
		found.Masked = append(m.out, canonical[m.copied:]...)
	}
	if token {
		found.Member, found.Token = "payment_method", true
	}
	return found
}

// Screen is [Screen] of canonical, from which in was parsed. It does not walk a request again
// if its texts have too few digits for a card number, as in most.
func (in *Intent) Screen(canonical []byte) Screened {
	if manyDigits(in.description) || manyDigits(in.reason) || manyDigits(in.metadata) || manyDigits(in.Source) || manyDigits(in.terms[statementSuffix]) {
		return Screen(canonical)
	}
	return Screened{}
}

// masker rewrites a request while walking it.
type masker struct {
	in, out []byte
	copied  int // how much of in was copied to out
	member  string
	fixed   bool // there is one that cannot be masked
}

// members walks the members of an object. Any other value has none.
type members struct {
	scanner
	before byte // the comma before the next member
	// The member: its quoted name, its value, and the position of the value in the
	// request.
	name, raw []byte
	at        int
}

func membersAt(canonical []byte, at int) members {
	return members{scanner: scanner{in: canonical, pos: at}, before: '{'}
}

func (m *members) next() (ok bool) {
	if !m.accept(m.before) {
		return false
	}
	m.before = ','
	if m.name, ok = m.str(); !ok || !m.accept(':') {
		return false
	}
	m.raw, ok = m.value(1)
	m.at = m.pos - len(m.raw)
	return ok
}

func (m *masker) found(name []byte, path string) {
	if m.member == "" {
		m.member = path + MemberName(string(name[1:len(name)-1]))
	}
}

// text is m after the string raw, the value of a member, which begins at start. It and
// its closure are separate functions because few requests need them.
func (m masker) text(raw []byte, start int, path string, name []byte) masker {
	if !manyDigits(raw) || identifies(raw) {
		return m
	}
	return m.mask(raw, start, path, name)
}

func (m masker) mask(raw []byte, start int, path string, name []byte) masker {
	findCards(raw, escapedRune, func(card []digit) bool {
		m.found(name, path)
		for _, d := range card[:len(card)-shownDigits] {
			m.out = append(append(m.out, m.in[m.copied:start+d.start]...), '*')
			m.copied = start + d.end
		}
		return true
	})
	return m
}

func hasCard(raw []byte) bool { return manyDigits(raw) && findsCard(raw) }

func findsCard(raw []byte) (found bool) {
	findCards(raw, escapedRune, func([]digit) bool {
		found = true
		return false
	})
	return found
}

// digitsAlone reports whether a quoted string consists of digits.
func digitsAlone(raw []byte) bool {
	for _, c := range raw[1 : len(raw)-1] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// identifies reports whether a quoted string with digits is an identifier: it has letters
// and no white space.
func identifies(raw []byte) (letters bool) {
	for i := 1; i < len(raw)-1; {
		r, size := escapedRune(raw[i:])
		if unicode.IsSpace(r) {
			return false
		}
		letters = letters || unicode.IsLetter(r)
		i += size
	}
	return letters
}

// namesCard reports whether a name in metadata says that its value is a card number.
func namesCard(quoted []byte) bool {
	name := strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, string(quoted))
	switch strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "number"), "num"), "no") {
	case "card", "creditcard", "debitcard", "paymentcard", "bankcard", "cc", "pan", "primaryaccount":
		return true
	}
	return false
}

// escapedRune reads a character of a string in canonical escapes.
func escapedRune(b []byte) (rune, int) {
	if b[0] != '\\' || len(b) < 2 {
		return utf8.DecodeRune(b)
	}
	switch b[1] {
	case 'u':
		const size = len(`\u0000`)
		if len(b) >= size {
			if n, err := strconv.ParseUint(string(b[2:size]), 16, 16); err == nil {
				return rune(n), size
			}
		}
		return utf8.RuneError, len(b)
	case 'n', 't', 'r', 'f', 'b':
		return ' ', 2
	default:
		return rune(b[1]), 2
	}
}

package claim

import (
	"bytes"
	"cmp"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// compareNames orders two members by the UTF-16 code units of their names.
func compareNames(out []byte, a, b canonMember) int {
	x, y := a.name(out), b.name(out)
	if a.plain && b.plain {
		return bytes.Compare(x, y) // one byte, one code unit
	}
	for len(x) > 0 && len(y) > 0 {
		r, n := canonicalRune(x)
		s, m := canonicalRune(y)
		if r != s {
			// A code point beyond the basic plane sorts as its leading surrogate, which
			// is below U+E000.
			return cmp.Or(cmp.Compare(firstUnit(r), firstUnit(s)), cmp.Compare(r, s))
		}
		x, y = x[n:], y[m:]
	}
	return cmp.Compare(len(x), len(y))
}

func firstUnit(r rune) rune {
	if high, _ := utf16.EncodeRune(r); high != utf8.RuneError {
		return high
	}
	return r
}

// canonicalRune decodes the first character of a non-empty string in canonical
// escapes and returns how many bytes it takes.
func canonicalRune(s []byte) (rune, int) {
	if s[0] != '\\' {
		return utf8.DecodeRune(s)
	}
	switch s[1] {
	case 'b':
		return '\b', 2
	case 't':
		return '\t', 2
	case 'n':
		return '\n', 2
	case 'f':
		return '\f', 2
	case 'r':
		return '\r', 2
	case 'u':
		return hex4(s[2:]), 6
	default: // a quote or a backslash
		return rune(s[1]), 2
	}
}

// str reads the string with its opening quote at pos. plain reports that it is ASCII without
// escapes.
func (c *canonicaliser) str() (plain bool, err *JSONError) {
	start := c.pos
	high := byte(0) // all bytes or-ed: at least 0x80 if any is not ASCII
	for i := start + 1; i < len(c.in); i++ {
		b := c.in[i]
		high |= b
		switch {
		case b == '"':
			text := c.in[start : i+1]
			if high >= utf8.RuneSelf && !utf8.Valid(text) {
				c.pos = i
				return false, c.refuse("invalid UTF-8 in a string")
			}
			c.out = append(c.out, text...)
			c.pos = i + 1
			return high < utf8.RuneSelf, nil
		case b == '\\':
			return false, c.escapedStr(i)
		case b < 0x20:
			c.pos = i
			return false, c.refuse(fmt.Sprintf("control character 0x%02x in a string; escape it", b))
		}
	}
	c.pos = len(c.in)
	return false, c.fail("")
}

// escapedStr is str for a string with escapes; escape is the offset of the first one.
func (c *canonicaliser) escapedStr(escape int) *JSONError {
	run := c.pos // start of the text not yet copied
	c.pos = escape
	for c.pos < len(c.in) {
		b := c.in[c.pos]
		if b >= 0x20 && b != '"' && b != '\\' {
			c.pos++
			continue
		}
		if !utf8.Valid(c.in[run:c.pos]) {
			return c.refuse("invalid UTF-8 in a string")
		}
		c.out = append(c.out, c.in[run:c.pos]...)
		switch b {
		case '"':
			c.pos++
			c.out = append(c.out, '"')
			return nil
		case '\\':
			r, err := c.escape()
			if err != nil {
				return err
			}
			c.out = appendCanonicalRune(c.out, r)
			run = c.pos
		default:
			return c.refuse(fmt.Sprintf("control character 0x%02x in a string; escape it", b))
		}
	}
	return c.fail("")
}

// escape reads the escape with its backslash at pos.
func (c *canonicaliser) escape() (rune, *JSONError) {
	rest := c.in[c.pos:]
	if len(rest) < 2 {
		c.pos = len(c.in)
		return 0, c.fail("")
	}
	var r rune
	switch rest[1] {
	case '"', '\\', '/':
		r = rune(rest[1])
	case 'b':
		r = '\b'
	case 't':
		r = '\t'
	case 'n':
		r = '\n'
	case 'f':
		r = '\f'
	case 'r':
		r = '\r'
	case 'u':
		return c.unicodeEscape(rest)
	default:
		return 0, c.refuse("unknown escape in a string")
	}
	c.pos += 2
	return r, nil
}

// unicodeEscape reads the \uXXXX at the start of rest, which begins at pos, and the
// second half of a surrogate pair after it.
func (c *canonicaliser) unicodeEscape(rest []byte) (rune, *JSONError) {
	r := hex4(rest[2:])
	if r < 0 {
		return 0, c.refuse(`\u must be followed by four hexadecimal digits`)
	}
	if !utf16.IsSurrogate(r) {
		c.pos += 6
		return r, nil
	}
	if len(rest) >= 12 && rest[6] == '\\' && rest[7] == 'u' {
		// DecodeRune expects a high and then a low surrogate.
		if pair := utf16.DecodeRune(r, hex4(rest[8:])); pair != utf8.RuneError {
			c.pos += 12
			return pair, nil
		}
	}
	return 0, c.refuse(`lone surrogate in a string; send both halves or neither`)
}

// hex4 reads four hexadecimal digits of either case. It returns -1 if there are none.
func hex4(s []byte) rune {
	if len(s) < 4 {
		return -1
	}
	var r rune
	for _, b := range s[:4] {
		if b >= 'A' && b <= 'F' {
			b += 'a' - 'A'
		}
		d := lowerHex(b)
		if d > 0xf {
			return -1
		}
		r = r<<4 | rune(d)
	}
	return r
}

func appendCanonicalRune(out []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(out, '\\', byte(r))
	case '\b':
		return append(out, '\\', 'b')
	case '\t':
		return append(out, '\\', 't')
	case '\n':
		return append(out, '\\', 'n')
	case '\f':
		return append(out, '\\', 'f')
	case '\r':
		return append(out, '\\', 'r')
	}
	if r < 0x20 {
		const digits = "0123456789abcdef"
		return append(out, '\\', 'u', '0', '0', digits[r>>4], digits[r&0xf])
	}
	return utf8.AppendRune(out, r)
}

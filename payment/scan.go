package payment

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// maxScanDepth bounds nesting in skipped values; the canonicaliser admits no more.
const maxScanDepth = 32

// scanner walks canonical JSON: no white space, strings minimally escaped. It copies
// nothing. It reports failure for any other text rather than panicking, as the payload
// may come from a damaged row.
type scanner struct {
	in  []byte
	pos int
}

func (s *scanner) accept(b byte) bool {
	if s.pos < len(s.in) && s.in[s.pos] == b {
		s.pos++
		return true
	}
	return false
}

// str returns the next string with its quotes.
func (s *scanner) str() ([]byte, bool) {
	start := s.pos
	if !s.accept('"') {
		return nil, false
	}
	for s.pos < len(s.in) {
		next := bytes.IndexByte(s.in[s.pos:], '"')
		if next < 0 {
			return nil, false
		}
		// A quote is escaped after an odd number of backslashes.
		slashes := 0
		for i := s.pos + next - 1; i > start && s.in[i] == '\\'; i-- {
			slashes++
		}
		s.pos += next + 1
		if slashes%2 == 0 {
			return s.in[start:s.pos], true
		}
	}
	return nil, false
}

// value returns the bytes of the next value, whatever it is.
func (s *scanner) value(depth int) ([]byte, bool) {
	start := s.pos
	if s.pos >= len(s.in) || depth > maxScanDepth {
		return nil, false
	}
	switch s.in[s.pos] {
	case '"':
		return s.str()
	case '{':
		s.pos++
		if s.accept('}') {
			return s.in[start:s.pos], true
		}
		for {
			if _, ok := s.str(); !ok || !s.accept(':') {
				return nil, false
			}
			if _, ok := s.value(depth + 1); !ok {
				return nil, false
			}
			if s.accept('}') {
				return s.in[start:s.pos], true
			}
			if !s.accept(',') {
				return nil, false
			}
		}
	case '[':
		s.pos++
		if s.accept(']') {
			return s.in[start:s.pos], true
		}
		for {
			if _, ok := s.value(depth + 1); !ok {
				return nil, false
			}
			if s.accept(']') {
				return s.in[start:s.pos], true
			}
			if !s.accept(',') {
				return nil, false
			}
		}
	default:
		// A number or a literal ends where its container continues.
		for s.pos < len(s.in) {
			switch s.in[s.pos] {
			case ',', '}', ']', ':', '"', '{', '[':
				return s.in[start:s.pos], s.pos > start
			}
			s.pos++
		}
		return s.in[start:], true
	}
}

// text decodes a string in canonical escapes. ok is false for anything else.
func text(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), utf8.Valid(inner)
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", false
	}
	return s, true
}

// isText reports whether [text] can read raw, mostly without allocating.
func isText(raw []byte) bool {
	if len(raw) < 2 || raw[0] != '"' || bytes.IndexByte(raw, '\\') >= 0 {
		_, ok := text(raw)
		return ok
	}
	return utf8.Valid(raw)
}

// characters counts the code points of a string in canonical escapes, given
// with its quotes.
func characters(raw []byte) int {
	n := 0
	for i := 1; i < len(raw)-1; n++ {
		switch {
		case raw[i] != '\\':
			_, size := utf8.DecodeRune(raw[i:])
			i += size
		case raw[i+1] == 'u':
			i += len(`\u0000`)
		default:
			i += len(`\n`)
		}
	}
	return n
}

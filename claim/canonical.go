package claim

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Limits of what [Canonical] reads.
const (
	// MaxJSONDepth is how many objects and arrays may be open at once. Payment
	// requests nest three deep; 32 bounds the recursion.
	MaxJSONDepth = 32

	// MaxNumberDigits is how many significant digits a number may have. IEEE 754
	// decimal128 keeps 34 and a 128-bit integer needs 39; beyond 64 it is noise.
	MaxNumberDigits = 64

	// MaxNumberExponent and MinNumberExponent bound x in d.ddd × 10^x. They span the
	// range of a double: every number that a client can hold is accepted, and no number
	// can exhaust memory when it is expanded.
	MaxNumberExponent = 308
	MinNumberExponent = -324

	// MaxCanonicalBody is the longest text, in bytes. It is far above the limit of the
	// API, and keeps offsets within 32 bits even where canonical numbers are longer
	// than the input.
	MaxCanonicalBody = 64 << 20

	// maxPathName is how many bytes of one member name an error repeats.
	maxPathName = 64

	// A number is written without an exponent if it has at most plainDigits digits
	// before the decimal point and at most -plainZeros zeros after it. ECMAScript's
	// Number::toString sets both, and RFC 8785 prescribes it.
	plainDigits = 21
	plainZeros  = -6
)

// CanonicalOptions selects the members that [Canonical] keeps. The zero value
// keeps all.
type CanonicalOptions struct {
	// Drop names the members of the top-level object that are left out because
	// they change between retries of one request (client_ts, trace_id). Names
	// are compared unescaped. Canonical still checks the members that it drops.
	// It does not modify Drop.
	Drop map[string]struct{}
}

// JSONError describes why a text has no canonical form, and where.
type JSONError struct {
	// Path names the member, as in metadata.color or items[3].sku; empty at the
	// top level. Names are in canonical escapes and cut at 64 bytes.
	Path string
	// Reason is one line, without the path.
	Reason string
	// Offset is the position of the fault, in bytes from the start of the text.
	Offset int
}

func (e *JSONError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("JSON body: %s (at byte %d)", e.Reason, e.Offset)
	}
	return fmt.Sprintf("JSON body: member %s: %s (at byte %d)", e.Path, e.Reason, e.Offset)
}

// Canonical returns the one spelling that all JSON texts (RFC 8259) of the same meaning
// share. It follows RFC 8785, except that numbers are exact:
//
//   - Object members are sorted by the UTF-16 code units of their names. A name
//     given twice, in whatever escapes, is refused.
//   - There is no white space.
//   - Strings have only the escapes they must: \" \\ \b \t \n \f \r, and \u00xx
//     for the other control characters. Invalid UTF-8 and lone surrogates are
//     refused.
//   - Numbers are exact decimals. Without leading and trailing zeros, the digits are
//     formatted as in ECMAScript: plainly if the value is at least 10^-6 and below
//     10^21, else as d.ddde±x. So 100, 100.0 and 1e2 are 100, -0 is 0, and 2^53+1 stays
//     apart from 2^53. The shortest text of a double is formatted as in RFC 8785.
//
// Canonical accepts any JSON value; the caller checks what else a body must be.
// The error is a *[JSONError]. The result is a new slice that the caller owns,
// less than 6 times as long as body, as 1e20 is written in full. Canonical does
// not modify body. Time is O(n log n). It is safe for concurrent use.
//
// Libraries that implement RFC 8785 as published do not work here: they convert
// numbers to float64, where 2^53 and 2^53+1 are equal.
func Canonical(body []byte, opt CanonicalOptions) ([]byte, error) {
	if len(body) > MaxCanonicalBody {
		return nil, &JSONError{Reason: fmt.Sprintf("longer than %d bytes", MaxCanonicalBody)}
	}
	c := canonicalisers.Get().(*canonicaliser)
	defer c.release()
	c.in, c.out, c.drop = body, make([]byte, 0, len(body)+plainDigits), opt.Drop
	c.skipSpace()
	if err := c.value(0); err != nil {
		return nil, err
	}
	c.skipSpace()
	if c.pos < len(c.in) {
		return nil, c.fail("unexpected data after the JSON value; send one value only")
	}
	return c.out, nil
}

// canonicalisers pools canonicalisers to reuse their buffers.
var canonicalisers = sync.Pool{New: func() any {
	return &canonicaliser{members: make([]canonMember, 0, 16)} // enough for most bodies
}}

// maxPooledScratch is the largest canonicaliser that the pool keeps, in bytes and in
// members. Large bodies are rare, and the pool would hold their buffers for ever.
const maxPooledScratch = 16 << 10

// release returns c to the pool. The caller keeps the input and the output.
func (c *canonicaliser) release() {
	members, scratch := c.members[:0], c.scratch[:0]
	if cap(members) > maxPooledScratch/16 || cap(scratch) > maxPooledScratch {
		return
	}
	*c = canonicaliser{members: members, scratch: scratch}
	canonicalisers.Put(c)
}

// canonicaliser reads in once and writes out as it reads. It writes an object's members
// in the order of the input and reorders them when the object closes, if they are not
// in canonical order.
type canonicaliser struct {
	in      []byte
	pos     int
	out     []byte
	members []canonMember // stack: the members so far of every open object
	scratch []byte        // scratch for reordering an object's members
	drop    map[string]struct{}
}

// canonMember locates a member in out: the quoted name from start to nameEnd, then the
// colon and the value up to end.
type canonMember struct {
	start, nameEnd, end uint32
	plain               bool // the name is ASCII without escapes
	dropped             bool
}

func (m canonMember) name(out []byte) []byte { return out[m.start+1 : m.nameEnd-1] }

func (c *canonicaliser) fail(reason string) *JSONError {
	if c.pos >= len(c.in) {
		reason = "unexpected end; send the whole JSON text"
	}
	return c.refuse(reason)
}

// refuse is fail for a reason that does not depend on where the text ends.
func (c *canonicaliser) refuse(reason string) *JSONError {
	return &JSONError{Reason: reason, Offset: c.pos}
}

func (c *canonicaliser) skipSpace() {
	for c.pos < len(c.in) {
		switch c.in[c.pos] {
		case ' ', '\t', '\n', '\r':
			c.pos++
		default:
			return
		}
	}
}

// accept skips white space and consumes b if it is next.
func (c *canonicaliser) accept(b byte) bool {
	c.skipSpace()
	if c.pos < len(c.in) && c.in[c.pos] == b {
		c.pos++
		return true
	}
	return false
}

// value reads the value that starts at pos, inside depth open containers.
func (c *canonicaliser) value(depth int) *JSONError {
	if c.pos >= len(c.in) {
		return c.fail("")
	}
	switch b := c.in[c.pos]; {
	case b == '"':
		_, err := c.str()
		return err
	case b == '-' || b >= '0' && b <= '9':
		return c.number()
	case b == '{' || b == '[':
		if depth == MaxJSONDepth {
			return c.refuse(fmt.Sprintf("nested deeper than %d levels; flatten it", MaxJSONDepth))
		}
		c.pos++
		c.out = append(c.out, b)
		if b == '{' {
			return c.object(depth + 1)
		}
		return c.array(depth + 1)
	case b == 't':
		return c.literal("true")
	case b == 'f':
		return c.literal("false")
	case b == 'n':
		return c.literal("null")
	default:
		return c.fail("a JSON value was expected here")
	}
}

func (c *canonicaliser) literal(word string) *JSONError {
	if !bytes.HasPrefix(c.in[c.pos:], []byte(word)) {
		return c.refuse("a JSON value was expected here")
	}
	c.pos += len(word)
	c.out = append(c.out, word...)
	return nil
}

func (c *canonicaliser) array(depth int) *JSONError {
	if c.accept(']') {
		c.out = append(c.out, ']')
		return nil
	}
	for i := 0; ; i++ {
		c.skipSpace()
		if err := c.value(depth); err != nil {
			return err.within(fmt.Sprintf("[%d]", i))
		}
		switch {
		case c.accept(','):
			c.out = append(c.out, ',')
		case c.accept(']'):
			c.out = append(c.out, ']')
			return nil
		default:
			return c.fail("a comma or ] was expected here")
		}
	}
}

func (c *canonicaliser) object(depth int) *JSONError {
	if c.accept('}') {
		c.out = append(c.out, '}')
		return nil
	}
	var (
		base   = len(c.members)
		first  = len(c.out)
		inPlan = true // members lie in out in canonical form
	)
	for {
		c.skipSpace()
		if c.pos >= len(c.in) || c.in[c.pos] != '"' {
			return c.fail("a member name in double quotes was expected here")
		}
		m := canonMember{start: uint32(len(c.out))}
		var err *JSONError
		if m.plain, err = c.str(); err != nil {
			return err
		}
		m.nameEnd = uint32(len(c.out))
		if depth == 1 && len(c.drop) > 0 && c.isDropped(m) {
			m.dropped, inPlan = true, false
		}
		if !c.accept(':') {
			return c.fail("a colon was expected here").within(pathName(m.name(c.out)))
		}
		c.out = append(c.out, ':')
		c.skipSpace()
		if err := c.value(depth); err != nil {
			return err.within(pathName(m.name(c.out)))
		}
		m.end = uint32(len(c.out))
		if inPlan && len(c.members) > base {
			inPlan = compareNames(c.out, c.members[len(c.members)-1], m) < 0
		}
		c.members = append(c.members, m)
		if c.accept(',') {
			c.out = append(c.out, ',')
			continue
		}
		if !c.accept('}') {
			return c.fail("a comma or } was expected here")
		}
		break
	}
	if !inPlan {
		if err := c.arrange(c.members[base:], first); err != nil {
			return err
		}
	}
	c.members = c.members[:base]
	c.out = append(c.out, '}')
	return nil
}

// arrange puts members, which occupy out from first on, in canonical order and removes
// the dropped ones. Names in strictly ascending order never get here, so no other place
// needs to check for duplicate names.
func (c *canonicaliser) arrange(members []canonMember, first int) *JSONError {
	out := c.out
	slices.SortFunc(members, func(a, b canonMember) int { return compareNames(out, a, b) })
	for i := 1; i < len(members); i++ {
		if bytes.Equal(members[i-1].name(out), members[i].name(out)) {
			return c.refuse("duplicate member name; send it once").within(pathName(members[i].name(out)))
		}
	}
	c.scratch = append(c.scratch[:0], out[first:]...)
	c.out = out[:first]
	for _, m := range members {
		if m.dropped {
			continue
		}
		if len(c.out) > first {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, c.scratch[int(m.start)-first:int(m.end)-first]...)
	}
	return nil
}

func (c *canonicaliser) isDropped(m canonMember) bool {
	name := m.name(c.out)
	if !m.plain && bytes.IndexByte(name, '\\') >= 0 {
		var plain []byte
		for len(name) > 0 {
			r, n := canonicalRune(name)
			plain, name = utf8.AppendRune(plain, r), name[n:]
		}
		name = plain
	}
	_, ok := c.drop[string(name)]
	return ok
}

// within prepends the name of the enclosing member or element to the path.
func (e *JSONError) within(name string) *JSONError {
	if e.Path != "" && e.Path[0] != '[' {
		name += "."
	}
	e.Path = name + e.Path
	return e
}

// pathName returns a member's name as errors show it.
func pathName(name []byte) string {
	switch {
	case len(name) == 0:
		return `""` // otherwise it would read as the level above
	case len(name) <= maxPathName:
		return string(name)
	}
	return strings.ToValidUTF8(string(name[:maxPathName]), "") + "…"
}

package claim

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/dunglas/httpsfv"
	"github.com/google/uuid"
)

// MaxKeyLength is the longest idempotency key, in characters of the unescaped
// value. 255 is the public contract and what the large payment APIs accept; it
// also keeps a key inside one index entry in every store.
const MaxKeyLength = 255

// Sentinels for errors.Is on what [ParseKey] returns.
var (
	// ErrKeyMissing: no key was sent, or an empty one, or only white space.
	ErrKeyMissing = errors.New("idempotency key missing")
	// ErrKeyInvalid: the key that was sent is malformed.
	ErrKeyInvalid = errors.New("idempotency key invalid")
)

// Key names one claim: a merchant's idempotency key within its tenant. It is
// comparable, so it can be a map key. Value is the normal form that [ParseKey]
// returns.
type Key struct {
	Tenant, Value string
}

// Compare orders keys by tenant, then by value, byte for byte.
func (k Key) Compare(other Key) int {
	return cmp.Or(strings.Compare(k.Tenant, other.Tenant), strings.Compare(k.Value, other.Value))
}

// KeyError describes why a header value is not a key. Reason is one line that can be
// sent to the caller: it never repeats the header.
type KeyError struct {
	Reason string
	kind   error // ErrKeyMissing or ErrKeyInvalid
}

func (e *KeyError) Error() string {
	if e.kind == nil {
		return "idempotency key: " + e.Reason
	}
	return e.kind.Error() + ": " + e.Reason
}

// Unwrap returns [ErrKeyMissing] or [ErrKeyInvalid].
func (e *KeyError) Unwrap() error { return e.kind }

// InvalidKey is the error of a key that is malformed for another reason, one line for the caller;
// MissingKey of one that is not where it is expected.
func InvalidKey(reason string) error { return &KeyError{Reason: reason, kind: ErrKeyInvalid} }

// MissingKey is described at [InvalidKey].
func MissingKey(reason string) error { return &KeyError{Reason: reason, kind: ErrKeyMissing} }

func invalidKey(format string, args ...any) error {
	return &KeyError{Reason: fmt.Sprintf(format, args...), kind: ErrKeyInvalid}
}

// ParseKey reads the value of one Idempotency-Key header field and returns the
// key's normal form: 1 to [MaxKeyLength] visible ASCII characters, unescaped.
//
// The first character alone decides how the value is spelled, so no value can
// be read in two ways:
//
//   - A value that starts with a double quote is an Item of RFC 9651 that is a
//     String, which is what section 2.1 of the expired
//     draft-ietf-httpapi-idempotency-key-header-07 requires: \" and \\ are its only escapes. Parameters may follow; they
//     have to be well formed, and are ignored, as the draft defines none.
//     Nothing else may follow. Spaces, which RFC 9651 allows inside, are refused:
//     a key is visible ASCII however it is spelled.
//   - Anything else is bare and taken literally, to its last character. Commas,
//     semicolons, quotes and backslashes are part of the key, and so is a first
//     character with which RFC 9651 begins another type: ?1, 17, :aGk=:, @17 and
//     %"x" are keys of two, two, six, three and four characters. The bare a"b
//     and the quoted "a\"b" are the same key, the bare a\"b is another one, and
//     a;v=1 has no parameter. A key that itself starts with a quote can only be
//     spelled as a string.
//
// White space (space, tab) around the value is not part of it. A UUID in its text form
// of 36 characters is one key in either case, and its normal form is in lower case: RFC
// 9562 reads both, and stacks differ in which one they print. Any other key is compared
// byte for byte. The error is a
// *[KeyError] that is either [ErrKeyMissing] or [ErrKeyInvalid]. A request with
// several Idempotency-Key fields must be refused by the caller: joined by a
// comma they could read as one bare key.
func ParseKey(header string) (string, error) {
	value, err := readKey(header)
	return oneCase(value), err
}

// oneCase returns the normal form of a key that has been read.
func oneCase(key string) string {
	if len(key) != uuidLength || !strings.ContainsAny(key, "ABCDEF") || uuid.Validate(key) != nil {
		return key
	}
	return strings.ToLower(key)
}

// uuidLength is that of a UUID's text form, in characters.
const uuidLength = len("f47ac10b-58cc-4372-a567-0e02b2c3d479")

func readKey(header string) (string, error) {
	v := strings.Trim(header, " \t")
	switch {
	case v == "":
		return "", &KeyError{
			Reason: fmt.Sprintf("send an Idempotency-Key header of 1 to %d visible ASCII characters", MaxKeyLength),
			kind:   ErrKeyMissing,
		}
	case v[0] == '"':
		return parseQuotedKey(v)
	case len(v) > MaxKeyLength:
		return "", keyTooLong()
	}
	for i := range len(v) {
		if !visibleASCII(v[i]) {
			return "", notVisible(v[i], i)
		}
	}
	return v, nil
}

// FormatKey formats a key's normal form as an RFC 9651 String. [ParseKey] parses it
// back to the same value.
func FormatKey(value string) string {
	var b strings.Builder
	b.Grow(len(value) + 2)
	b.WriteByte('"')
	for i := range len(value) {
		if c := value[i]; c == '"' || c == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(value[i])
	}
	b.WriteByte('"')
	return b.String()
}

// parseQuotedKey reads v, which starts with a double quote.
func parseQuotedKey(v string) (string, error) {
	var (
		unescaped []byte // nil until the first escape: most keys are a substring of v
		length    int
	)
	for i := 1; i < len(v); i++ {
		c := v[i]
		if c == '"' {
			if err := ignored(v, i+1); err != nil {
				return "", err
			}
			switch {
			case length == 0:
				return "", invalidKey("the quoted key is empty; send 1 to %d visible ASCII characters", MaxKeyLength)
			case unescaped != nil:
				return string(unescaped), nil
			default:
				return v[1:i], nil
			}
		}
		if length++; length > MaxKeyLength {
			return "", keyTooLong()
		}
		if c == '\\' {
			if i+1 == len(v) {
				break
			}
			if next := v[i+1]; next != '"' && next != '\\' {
				return "", invalidKey(`the backslash at position %d of the quoted key escapes neither " nor \; write \\ for a backslash`, i)
			}
			if unescaped == nil {
				unescaped = append(make([]byte, 0, MaxKeyLength), v[1:i]...)
			}
			i++
			c = v[i]
		} else if !visibleASCII(c) {
			return "", notVisible(c, i)
		}
		if unescaped != nil {
			unescaped = append(unescaped, c)
		}
	}
	return "", invalidKey("the closing double quote is missing")
}

func visibleASCII(c byte) bool { return c >= 0x21 && c <= 0x7e }

func keyTooLong() error {
	return invalidKey("the key is longer than %d characters; send a shorter one", MaxKeyLength)
}

func notVisible(c byte, at int) error {
	return invalidKey("byte 0x%02x at position %d is not visible ASCII (0x21 to 0x7e); remove or encode it", c, at)
}

// ignored refuses whatever follows the closing quote, at v[end:], unless it is
// parameters. v is trimmed.
func ignored(v string, end int) error {
	rest := v[end:]
	if rest == "" {
		return nil
	}
	if rest[0] == ';' {
		_, err := httpsfv.UnmarshalItem([]string{v})
		if err == nil {
			return nil
		}
		if !strings.Contains(rest, ",") {
			return invalidKey("the parameters after the closing quote are malformed (RFC 9651, section 3.1.2); remove them")
		}
	}
	switch next := strings.TrimLeft(rest, " \t")[0]; next {
	case ',', ';':
		if strings.Contains(rest, ",") {
			return invalidKey("more than one key; send exactly one")
		}
		return invalidKey("white space before the parameters; remove it")
	default:
		return invalidKey("unexpected text after the closing quote; remove it")
	}
}

package claim

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
)

// RegionCode is a region's number in stamped keys and object ids. A code is
// given to one region for ever and never reused; 0 is reserved and names none.
type RegionCode uint16

// MaxPrefixLength is the longest object id prefix, in characters. The longest
// in use has two; eight leaves room and keeps an id within 35 characters.
const MaxPrefixLength = 8

// Sentinels for errors.Is on what [Stamp] and [NewObjectID] return.
var (
	// ErrRegionCode is returned for the reserved region code 0.
	ErrRegionCode = errors.New("region code 0 is reserved; give the region a code from 1 to 65535")
	// ErrPrefix is returned for an object id prefix that is not 1 to 8 lower-case
	// letters.
	ErrPrefix = errors.New("object id prefix must be 1 to 8 lower-case letters a to z")
)

// A stamp is a UUIDv8 (RFC 9562, section 5.8):
//
//	xxxxxxxx-xxxx-8xxx-yxxx-RRRRCCCCCCCC
//	│                   │   │   └ check value, 32 bits
//	│                   │   └ region code, 16 bits, big-endian
//	└ 74 random bits ───┘   (8 is the version, y holds the two variant bits)
//
// The random bits come first so that keys of one region spread over an index.
const (
	stampRandom = 10 // leading bytes that are random except for version and variant
	stampCode   = 10 // offset of the region code
	stampCheck  = 12 // offset of the check value

	// stampLabel separates this use of SHA-256 from every other one. Changing it,
	// or anything the check covers, would turn every key in use opaque.
	stampLabel = "homeward/stamp/v1"
)

// Stamp mints a key with its home at the region of this code, in the canonical lower-case text of a
// UUID. 74 bits are read from random; nil means crypto/rand. It fails with [ErrRegionCode] for code
// 0, or when random does. It is safe for concurrent use if random is.
func Stamp(code RegionCode, random io.Reader) (string, error) {
	id, err := newStamp(code, random)
	if err != nil {
		return "", err
	}
	return id.String(), nil
}

// ownKeys begins the keys of claims that Homeward makes for itself. It holds a space,
// and no public spelling of a key does.
const ownKeys = "homeward "

// OwnKey derives from a stamped key the key of a claim of our own, at the same home. A
// merchant cannot send it: [ParseKey] refuses it in every spelling. Stored; it never
// changes.
func OwnKey(stamped string) string { return ownKeys + stamped }

// ValidKey reports whether value is the normal form of a key: either [ParseKey] returns
// it, or [OwnKey] does.
func ValidKey(value string) bool {
	if stamped, own := strings.CutPrefix(value, ownKeys); own {
		_, ok := readStampText(stamped)
		return ok
	}
	for i := range len(value) {
		if !visibleASCII(value[i]) {
			return false
		}
	}
	return len(value) > 0 && len(value) <= MaxKeyLength && value == oneCase(value)
}

// ReadStamp returns the region code in a stamped key or in one of our own (see [OwnKey]). ok is
// false for every other key, which is then opaque. The answer depends on the key alone, never on
// which regions exist, so it is the same everywhere and for ever. A caller without a region of that
// code must fail, not treat the key as opaque.
//
// Only the canonical lower-case text is a stamp: key is a normal form, to which [ParseKey]
// brings the other spellings.
//
// The check value keeps a foreign UUIDv8 from being taken for a stamp (one in
// 2^32 is). It is no security feature: it is not secret, and a merchant who
// forges a stamp merely picks the home of a key of his own.
//
// ReadStamp does not allocate and is safe for concurrent use.
func ReadStamp(key string) (code RegionCode, ok bool) {
	return readStampText(strings.TrimPrefix(key, ownKeys))
}

// readStampText reads the canonical text of a stamp.
func readStampText(key string) (code RegionCode, ok bool) {
	// Most opaque keys return here, before any decoding.
	if len(key) != uuidLength || key[8] != '-' || key[13] != '-' || key[14] != '8' || key[18] != '-' || key[23] != '-' {
		return 0, false
	}
	var id uuid.UUID
	at := 0
	for i := range id {
		if at == 8 || at == 13 || at == 18 || at == 23 {
			at++
		}
		high, low := lowerHex(key[at]), lowerHex(key[at+1])
		if high|low > 0xf {
			return 0, false
		}
		id[i] = high<<4 | low
		at += 2
	}
	return readStamp(&id)
}

// objectIDEncoding is base32hex (RFC 4648, section 7) in lower case without
// padding: 26 characters for 128 bits, and double-clicking selects all of it.
var objectIDEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// objectIDLength is the length of 16 bytes in objectIDEncoding.
const objectIDLength = 26

// NewObjectID mints the id of an object homed in the region with this code:
// prefix, an underscore, and 26 characters that hold a stamp, as in
// "ch_04hkaps9le6uv093vvvo1md9b8". A reader needs no look-up to find its home.
// 74 bits are read from random; nil means crypto/rand. It fails with
// [ErrPrefix], with [ErrRegionCode], or when random does.
func NewObjectID(prefix string, code RegionCode, random io.Reader) (string, error) {
	if !validPrefix(prefix) {
		return "", fmt.Errorf("%w: %q", ErrPrefix, prefix)
	}
	id, err := newStamp(code, random)
	if err != nil {
		return "", err
	}
	buf := make([]byte, 0, MaxPrefixLength+1+objectIDLength)
	buf = append(append(buf, prefix...), '_')
	return string(objectIDEncoding.AppendEncode(buf, id[:])), nil
}

// ReadObjectID splits an id that [NewObjectID] made. ok is false for any other
// text, including another spelling of the same bits: there is no such object.
// It does not allocate and is safe for concurrent use.
func ReadObjectID(id string) (prefix string, code RegionCode, ok bool) {
	sep := len(id) - objectIDLength - 1
	if sep < 1 || id[sep] != '_' || !validPrefix(id[:sep]) {
		return "", 0, false
	}
	var (
		text, again [objectIDLength]byte
		bits        uuid.UUID
	)
	copy(text[:], id[sep+1:])
	if n, err := objectIDEncoding.Decode(bits[:], text[:]); err != nil || n != len(bits) {
		return "", 0, false
	}
	// The decoder skips line breaks and ignores the last two bits; encoding again
	// leaves one spelling per id.
	objectIDEncoding.Encode(again[:], bits[:])
	if again != text {
		return "", 0, false
	}
	code, ok = readStamp(&bits)
	if !ok {
		return "", 0, false
	}
	return id[:sep], code, true
}

func newStamp(code RegionCode, random io.Reader) (uuid.UUID, error) {
	var id uuid.UUID
	if code == 0 {
		return id, ErrRegionCode
	}
	if random == nil {
		_, _ = rand.Read(id[:stampRandom]) // never fails
	} else if err := readRandom(random, &id); err != nil {
		return uuid.Nil, err
	}
	id[6] = id[6]&0x0f | 0x80 // version 8
	id[8] = id[8]&0x3f | 0x80 // variant 10
	binary.BigEndian.PutUint16(id[stampCode:], uint16(code))
	binary.BigEndian.PutUint32(id[stampCheck:], stampCheckValue(&id))
	return id, nil
}

// readRandom is a function of its own so that reading from crypto/rand does not
// allocate.
func readRandom(random io.Reader, id *uuid.UUID) error {
	var bits [stampRandom]byte
	if _, err := io.ReadFull(random, bits[:]); err != nil {
		return fmt.Errorf("read random bits for a stamp: %w", err)
	}
	copy(id[:], bits[:])
	return nil
}

func readStamp(id *uuid.UUID) (RegionCode, bool) {
	code := RegionCode(binary.BigEndian.Uint16(id[stampCode:]))
	if code == 0 || id[6]>>4 != 8 || id[8]>>6 != 0b10 {
		return 0, false
	}
	if binary.BigEndian.Uint32(id[stampCheck:]) != stampCheckValue(id) {
		return 0, false
	}
	return code, true
}

// stampCheckValue is the first 32 bits of SHA-256 over the label and everything before
// the check value: random bits, version, variant, region code.
func stampCheckValue(id *uuid.UUID) uint32 {
	var in [len(stampLabel) + stampCheck]byte
	copy(in[:], stampLabel)
	copy(in[len(stampLabel):], id[:stampCheck])
	sum := sha256.Sum256(in[:])
	return binary.BigEndian.Uint32(sum[:])
}

func validPrefix(s string) bool {
	if len(s) == 0 || len(s) > MaxPrefixLength {
		return false
	}
	for i := range len(s) {
		if s[i] < 'a' || s[i] > 'z' {
			return false
		}
	}
	return true
}

// lowerHex returns the value of a lower-case hexadecimal digit, 0xff for any
// other byte.
func lowerHex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	default:
		return 0xff
	}
}

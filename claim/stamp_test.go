package claim_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/homeward-io/homeward/claim"
)

// randomBytes yields a repeatable stream for a seed.
func randomBytes(seed byte) io.Reader {
	return rand.NewChaCha8([32]byte{seed})
}

// Keys like these are in merchants' databases. If this test fails, the change
// would make them opaque and give them a second home. Clients in every language make and read the
// same ones.
func TestStampGolden(t *testing.T) {
	raw, err := os.ReadFile("../sdk/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Stamps []struct {
			Home                claim.RegionCode
			Random, Key, Object string
		}
		Homeless []struct{ Name, Text string }
	}
	if err := json.Unmarshal(raw, &vectors); err != nil || len(vectors.Stamps) < 3 || len(vectors.Homeless) < 20 {
		t.Fatalf("%d stamps, %d without a home, %v", len(vectors.Stamps), len(vectors.Homeless), err)
	}
	for _, v := range vectors.Stamps {
		random, err := hex.DecodeString(v.Random)
		if err != nil {
			t.Fatal(err)
		}
		stamp, err := claim.Stamp(v.Home, bytes.NewReader(random))
		if err != nil || stamp != v.Key {
			t.Errorf("Stamp(%d) = %q, %v; want %q", v.Home, stamp, err, v.Key)
		}
		object, err := claim.NewObjectID("ch", v.Home, bytes.NewReader(random))
		if err != nil || object != v.Object {
			t.Errorf("NewObjectID(%d) = %q, %v; want %q", v.Home, object, err, v.Object)
		}
		if code, ok := claim.ReadStamp(v.Key); !ok || code != v.Home {
			t.Errorf("ReadStamp(%q) = %d, %t", v.Key, code, ok)
		}
		if prefix, code, ok := claim.ReadObjectID(v.Object); !ok || prefix != "ch" || code != v.Home {
			t.Errorf("ReadObjectID(%q) = %q, %d, %t", v.Object, prefix, code, ok)
		}
	}
	for _, v := range vectors.Homeless {
		if code, ok := claim.ReadStamp(v.Text); ok {
			t.Errorf("%s: ReadStamp(%q) = %d", v.Name, v.Text, code)
		}
		if _, code, ok := claim.ReadObjectID(v.Text); ok {
			t.Errorf("%s: ReadObjectID(%q) = %d", v.Name, v.Text, code)
		}
	}
}

func TestStampRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		code := claim.RegionCode(rapid.Uint16Min(1).Draw(t, "code"))
		random := rapid.SliceOfN(rapid.Byte(), 10, 10).Draw(t, "random")
		prefix := rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "prefix")

		stamp, err := claim.Stamp(code, bytes.NewReader(random))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := claim.ReadStamp(stamp); !ok || got != code {
			t.Fatalf("ReadStamp(%q) = %d, %t; want %d", stamp, got, ok, code)
		}
		id, err := uuid.Parse(stamp)
		if err != nil || id.Version() != 8 || id.Variant() != uuid.RFC4122 || id.String() != stamp {
			t.Fatalf("%q is not the canonical text of a UUIDv8: %v", stamp, err)
		}
		if key, err := claim.ParseKey(stamp); err != nil || key != stamp {
			t.Fatalf("ParseKey(%q) = %q, %v", stamp, key, err)
		}

		object, err := claim.NewObjectID(prefix, code, bytes.NewReader(random))
		if err != nil {
			t.Fatal(err)
		}
		if p, got, ok := claim.ReadObjectID(object); !ok || p != prefix || got != code {
			t.Fatalf("ReadObjectID(%q) = %q, %d, %t; want %q, %d", object, p, got, ok, prefix, code)
		}
		if len(object) != len(prefix)+27 {
			t.Fatalf("%q has %d characters", object, len(object))
		}
	})
}

func TestEveryRegionCodeIsReadBack(t *testing.T) {
	random := randomBytes(1)
	for code := 1; code <= 0xffff; code++ {
		stamp, err := claim.Stamp(claim.RegionCode(code), random)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := claim.ReadStamp(stamp); !ok || int(got) != code {
			t.Fatalf("ReadStamp(%q) = %d, %t; want %d", stamp, got, ok, code)
		}
	}
}

// The seeds are fixed: by chance one flip in 2^32 would go unnoticed.
func TestAFlippedBitMakesAStampOpaque(t *testing.T) {
	random := randomBytes(2)
	for range 200 {
		stamp, err := claim.Stamp(7, random)
		if err != nil {
			t.Fatal(err)
		}
		id := uuid.MustParse(stamp)
		for bit := range 128 {
			flipped := id
			flipped[bit/8] ^= 0x80 >> (bit % 8)
			if code, ok := claim.ReadStamp(flipped.String()); ok {
				t.Fatalf("%s with bit %d flipped is a stamp for region %d", stamp, bit, code)
			}
			if _, code, ok := claim.ReadObjectID("ch_" + base32hex(flipped)); ok {
				t.Fatalf("object id of %s with bit %d flipped has region %d", stamp, bit, code)
			}
		}
	}
}

// TestStampBits pins the layout independently of the implementation's helpers.
func TestStampBits(t *testing.T) {
	stamp, err := claim.Stamp(0x1234, randomBytes(3))
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.MustParse(stamp)
	if code := binary.BigEndian.Uint16(id[10:]); code != 0x1234 {
		t.Errorf("region bits %04x", code)
	}
	sum := sha256.Sum256(append([]byte("homeward/stamp/v1"), id[:12]...))
	if !bytes.Equal(sum[:4], id[12:]) {
		t.Errorf("check bits %x, want %x", id[12:], sum[:4])
	}
	if stamp[24:28] != "1234" {
		t.Errorf("region not legible in %s", stamp)
	}
}

func TestAllRandomBitsAreUsed(t *testing.T) {
	var ever, always [16]byte
	for i := range always {
		always[i] = 0xff
	}
	random := randomBytes(4)
	for range 200 {
		stamp, err := claim.Stamp(7, random)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range uuid.MustParse(stamp) {
			ever[i] |= b
			always[i] &= b
		}
	}
	varying := 0
	for i := range 10 {
		for bit := range 8 {
			if (ever[i]^always[i])>>bit&1 == 1 {
				varying++
			}
		}
	}
	if varying != 74 {
		t.Errorf("%d bits vary, want 74", varying)
	}
}

func TestOtherKeysAreOpaque(t *testing.T) {
	stamp, err := claim.Stamp(7, randomBytes(5))
	if err != nil {
		t.Fatal(err)
	}
	zeroCode := uuid.MustParse(stamp)
	zeroCode[10], zeroCode[11] = 0, 0
	sum := sha256.Sum256(append([]byte("homeward/stamp/v1"), zeroCode[:12]...))
	copy(zeroCode[12:], sum[:4])

	letter := strings.IndexAny(stamp, "abcdef")
	oneUpper := stamp[:letter] + strings.ToUpper(stamp[letter:letter+1]) + stamp[letter+1:]

	for name, key := range map[string]string{
		"empty":                     "",
		"order number":              "order-1234",
		"upper case":                strings.ToUpper(stamp),
		"one upper-case digit":      oneUpper,
		"no dashes":                 strings.ReplaceAll(stamp, "-", ""),
		"braces":                    "{" + stamp + "}",
		"URN":                       "urn:uuid:" + stamp,
		"cut":                       stamp[:35],
		"longer":                    stamp + "0",
		"dash moved":                stamp[:7] + "-" + stamp[7:8] + stamp[9:],
		"reserved code, good check": zeroCode.String(),
		"nil UUID":                  uuid.Nil.String(),
		"max UUID":                  uuid.Max.String(),
	} {
		if code, ok := claim.ReadStamp(key); ok || code != 0 {
			t.Errorf("%s: ReadStamp(%q) = %d, %t", name, key, code, ok)
		}
	}

	random := randomBytes(6)
	for range 10_000 {
		v4, err := uuid.NewRandomFromReader(random)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := claim.ReadStamp(v4.String()); ok {
			t.Fatalf("version 4 %s is a stamp", v4)
		}
		v7, err := uuid.NewV7FromReader(random)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := claim.ReadStamp(v7.String()); ok {
			t.Fatalf("version 7 %s is a stamp", v7)
		}
		foreign := v4
		foreign[6] = foreign[6]&0x0f | 0x80
		if _, ok := claim.ReadStamp(foreign.String()); ok {
			t.Fatalf("foreign version 8 %s is a stamp", foreign)
		}
	}
}

func TestStampRefuses(t *testing.T) {
	if stamp, err := claim.Stamp(0, nil); stamp != "" || !errors.Is(err, claim.ErrRegionCode) {
		t.Errorf("code 0: %q, %v", stamp, err)
	}
	if id, err := claim.NewObjectID("ch", 0, nil); id != "" || !errors.Is(err, claim.ErrRegionCode) {
		t.Errorf("code 0: %q, %v", id, err)
	}
	if stamp, err := claim.Stamp(1, bytes.NewReader(make([]byte, 9))); stamp != "" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("short random: %q, %v", stamp, err)
	}
	if id, err := claim.NewObjectID("ch", 1, bytes.NewReader(nil)); id != "" || !errors.Is(err, io.EOF) {
		t.Errorf("no random: %q, %v", id, err)
	}
	for _, prefix := range []string{"", "Ch", "c_h", "c1", "chargesss", "é"} {
		if id, err := claim.NewObjectID(prefix, 1, nil); id != "" || !errors.Is(err, claim.ErrPrefix) {
			t.Errorf("prefix %q: %q, %v", prefix, id, err)
		}
	}
}

func TestStampsFromTheSystemDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		stamp, err := claim.Stamp(1, nil)
		if err != nil || seen[stamp] {
			t.Fatalf("Stamp = %q, %v; seen: %t", stamp, err, seen[stamp])
		}
		seen[stamp] = true
	}
}

func base32hex(id uuid.UUID) string {
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(id[:]))
}

func TestReadObjectIDRefusesOtherSpellings(t *testing.T) {
	object, err := claim.NewObjectID("ch", 7, randomBytes(7))
	if err != nil {
		t.Fatal(err)
	}
	last := object[len(object)-1]
	// The last character holds three bits of the id and two that must be zero.
	otherLast := "0123456789abcdefghijklmnopqrstuv"[strings.IndexByte("0123456789abcdefghijklmnopqrstuv", last)|1]
	if otherLast == last {
		t.Fatalf("%q has spare bits set", object)
	}
	for name, id := range map[string]string{
		"empty":              "",
		"no prefix":          object[2:],
		"no separator":       "ch" + object[3:],
		"bad prefix":         "cH" + object[2:],
		"long prefix":        "chargesss" + object[2:],
		"two separators":     "c_h" + object[2:],
		"upper case":         "ch_" + strings.ToUpper(object[3:]),
		"cut":                object[:len(object)-1],
		"longer":             object + "0",
		"spare bits":         object[:len(object)-1] + string(otherLast),
		"line break inside":  object[:10] + "\n" + object[11:],
		"padding":            object[:len(object)-1] + "=",
		"outside the digits": object[:len(object)-1] + "z",
		"a foreign id":       "ch_" + base32hex(uuid.MustParse("0190163d-8694-739b-aea5-966c26f8ad91")),
	} {
		if prefix, code, ok := claim.ReadObjectID(id); ok || prefix != "" || code != 0 {
			t.Errorf("%s: ReadObjectID(%q) = %q, %d, %t", name, id, prefix, code, ok)
		}
	}
}

// No merchant can spell a key of our own, however it is written, and it is at home
// where the stamped key is that it is made of.
func TestKeysOfOurOwn(t *testing.T) {
	stamped, err := claim.Stamp(7, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := claim.OwnKey(stamped)
	if code, ok := claim.ReadStamp(own); !ok || code != 7 {
		t.Errorf("ReadStamp(%q) = %d, %v", own, code, ok)
	}
	if !claim.ValidKey(own) || !claim.ValidKey(stamped) || !claim.ValidKey("order-1") {
		t.Error("all of these are keys")
	}
	escaped := strings.ReplaceAll(own, " ", `\\ `)
	for _, header := range []string{own, " " + own + "\t", claim.FormatKey(own), `"` + escaped + `"`, escaped} {
		if value, err := claim.ParseKey(header); err == nil && value == own || !errors.Is(err, claim.ErrKeyInvalid) {
			t.Errorf("ParseKey(%q) = %q, %v", header, value, err)
		}
	}
	for _, none := range []string{
		claim.OwnKey(own), claim.OwnKey("order-1"), claim.OwnKey(strings.ToUpper(stamped)), claim.OwnKey(""), own + " ", " " + own,
		"homeward  " + stamped, "Homeward " + stamped, "compense " + stamped, "", "a b", strings.Repeat("k", claim.MaxKeyLength+1),
	} {
		if claim.ValidKey(none) {
			t.Errorf("%q is no key", none)
		}
		if _, ok := claim.ReadStamp(none); ok {
			t.Errorf("%q has no home", none)
		}
	}
}

// FuzzReadStamp checks that reading is sound for any text: a text that is read as a stamp is the
// canonical text of a UUIDv8 with a non-zero code, and an independent computation confirms its
// check value.
func FuzzReadStamp(f *testing.F) {
	f.Fuzz(func(t *testing.T, key string) {
		code, ok := claim.ReadStamp(key)
		if want, wantOK := naiveStamp(strings.TrimPrefix(key, "homeward ")); ok != wantOK || code != want {
			t.Fatalf("ReadStamp(%q) = %d, %t; want %d, %t", key, code, ok, want, wantOK)
		}
		prefix, code, ok := claim.ReadObjectID(key)
		if !ok {
			return
		}
		if len(key) != len(prefix)+27 || !strings.HasPrefix(key, prefix+"_") {
			t.Fatalf("ReadObjectID(%q) has prefix %q", key, prefix)
		}
		raw, err := base32.HexEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(key[len(prefix)+1:]))
		if err != nil {
			t.Fatalf("ReadObjectID(%q): %v", key, err)
		}
		id := uuid.UUID(raw)
		if want, wantOK := naiveStamp(id.String()); !wantOK || code != want || key != prefix+"_"+base32hex(id) {
			t.Fatalf("ReadObjectID(%q) = %d; want %d, %t", key, code, want, wantOK)
		}
	})
}

func naiveStamp(key string) (claim.RegionCode, bool) {
	id, err := uuid.Parse(key)
	if err != nil || id.String() != key || id.Version() != 8 || id.Variant() != uuid.RFC4122 {
		return 0, false
	}
	sum := sha256.Sum256([]byte("homeward/stamp/v1" + string(id[:12])))
	code := claim.RegionCode(id[10])<<8 | claim.RegionCode(id[11])
	if code == 0 || string(sum[:4]) != string(id[12:]) {
		return 0, false
	}
	return code, true
}

package claim_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/homeward-io/homeward/claim"
)

func TestParseKey(t *testing.T) {
	longest := strings.Repeat("k", claim.MaxKeyLength)
	for _, tc := range []struct {
		name, header, want string
	}{
		{"bare", "order-1234", "order-1234"},
		{"quoted", `"order-1234"`, "order-1234"},
		{"white space around bare", " \torder-1234\t ", "order-1234"},
		{"white space around quoted", "\t \"order-1234\" \t", "order-1234"},
		{"shortest", "~", "~"},
		{"first visible character", "!", "!"},
		{"longest bare", longest, longest},
		{"longest quoted", `"` + longest + `"`, longest},
		{"length is of the unescaped value", `"` + strings.Repeat(`\\`, claim.MaxKeyLength) + `"`, strings.Repeat(`\`, claim.MaxKeyLength)},
		{"escaped quote", `"a\"b"`, `a"b`},
		{"escaped backslash", `"a\\b"`, `a\b`},
		{"escape first and last", `"\"a\\"`, `"a\`},
		{"bare quote is literal", `a"b`, `a"b`},
		{"bare backslash is literal", `a\b`, `a\b`},
		{"bare escape is two characters", `a\"b`, `a\"b`},
		{"bare that ends in a quote", `ab"`, `ab"`},
		// What RFC 9651 would read as something else is a key all the same.
		{"bare with the characters of other header syntax", `a;b=c,d:?1*`, `a;b=c,d:?1*`},
		{"bare comma", "order-1,2", "order-1,2"},
		{"bare that begins with a comma", ",a", ",a"},
		{"bare that looks like a boolean", "?1", "?1"},
		{"bare that begins like a boolean", "?order", "?order"},
		{"bare that looks like an integer", "17", "17"},
		{"bare that looks like a decimal", "-1.50", "-1.50"},
		{"bare that looks like bytes", ":aGk=:", ":aGk=:"},
		{"bare that looks like a date", "@1659578233", "@1659578233"},
		{"bare that looks like a display string", `%"x"`, `%"x"`},
		{"bare that looks like an inner list", "(a)", "(a)"},
		{"bare that looks like a token with parameters", "a;v=1", "a;v=1"},
		{"bare semicolon", ";", ";"},
		// Parameters of a String are ignored.
		{"flag", `"abc";v`, "abc"},
		{"parameter", `"abc";v=1`, "abc"},
		{"parameters of every type", `"abc";a=1;b=-1.5;c="x, y";d=tok/en;e=:aGk=:;f=?0;g=@17;h=%"f%c3%bc"`, "abc"},
		{"space before a parameter's name", `"abc";  v=1`, "abc"},
		{"parameter named twice", `"abc";v=1;v=2`, "abc"},
		{"white space behind parameters", "\"abc\";v=1 \t", "abc"},
		{"semicolon inside the quotes", `"abc;v=1"`, "abc;v=1"},
		{"escapes and parameters", `"a\"b";v="\""`, `a"b`},
		{"case is kept", "AbC", "AbC"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := claim.ParseKey(tc.header)
			if err != nil || got != tc.want {
				t.Fatalf("ParseKey(%q) = %q, %v; want %q", tc.header, got, err, tc.want)
			}
		})
	}
}

// A UUID is one key in either case: stacks disagree about how they print one (SQL Server
// and Swift in upper case, most others in lower case), and a retry must not be another
// request. So a stamped key has one home and one claim however it is written.
func TestAUUIDIsOneKeyInEitherCase(t *testing.T) {
	stamped, err := claim.Stamp(7, nil)
	if err != nil {
		t.Fatal(err)
	}
	mixed := strings.ToUpper(stamped[:18]) + stamped[18:]
	for want, spellings := range map[string][]string{
		stamped:                                {stamped, strings.ToUpper(stamped), mixed, `"` + strings.ToUpper(stamped) + `"`, `"` + mixed + `";v=1`, " " + mixed},
		"f47ac10b-58cc-4372-a567-0e02b2c3d479": {"F47AC10B-58CC-4372-A567-0E02B2C3D479", "f47AC10b-58cc-4372-a567-0e02b2c3d479"},
		"ffffffff-ffff-ffff-ffff-ffffffffffff": {"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"},
	} {
		for _, spelling := range spellings {
			got, err := claim.ParseKey(spelling)
			if err != nil || got != want {
				t.Errorf("ParseKey(%q) = %q, %v; want %q", spelling, got, err, want)
			}
			if bare := strings.Trim(spelling, ` "`); bare != want && len(bare) == len(want) && claim.ValidKey(bare) {
				t.Errorf("%q is no normal form: a row under it would be a second claim", bare)
			}
		}
		if code, ok := claim.ReadStamp(want); want == stamped && (!ok || code != 7) {
			t.Errorf("ReadStamp(%q) = %d, %v", want, code, ok)
		}
	}
	// Everything else is compared byte for byte: two base64 keys may differ in case alone.
	for _, key := range []string{
		"ORDER-17", "AbC", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "F47AC10B58CC4372A5670E02B2C3D479", "{F47AC10B-58CC-4372-A567-0E02B2C3D479}",
		"G47AC10B-58CC-4372-A567-0E02B2C3D479", "F47AC10B-58CC-4372-A5670-E02B2C3D479", "F47AC10B-58CC-4372-A567-0E02B2C3D479A",
	} {
		if got, err := claim.ParseKey(key); err != nil || got != key || !claim.ValidKey(key) {
			t.Errorf("ParseKey(%q) = %q, %v", key, got, err)
		}
	}
}

func TestParseKeyRefuses(t *testing.T) {
	tooLong := strings.Repeat("k", claim.MaxKeyLength+1)
	for _, tc := range []struct {
		name, header string
		is           error
		says         string
	}{
		{"absent", "", claim.ErrKeyMissing, "send an Idempotency-Key"},
		{"white space only", " \t ", claim.ErrKeyMissing, "send an Idempotency-Key"},
		{"empty string", `""`, claim.ErrKeyInvalid, "empty"},
		{"too long", tooLong, claim.ErrKeyInvalid, "longer than 255"},
		{"too long quoted", `"` + tooLong + `"`, claim.ErrKeyInvalid, "longer than 255"},
		{"too long and unclosed", `"` + tooLong, claim.ErrKeyInvalid, "longer than 255"},
		{"space", "a b", claim.ErrKeyInvalid, "0x20 at position 1"},
		{"space in quotes", `"a b"`, claim.ErrKeyInvalid, "0x20 at position 2"},
		{"delete", "a\x7f", claim.ErrKeyInvalid, "0x7f"},
		{"not ASCII", "clé", claim.ErrKeyInvalid, "0xc3"},
		{"not ASCII in quotes", `"clé"`, claim.ErrKeyInvalid, "0xc3"},
		{"line break is not white space around", "a\n", claim.ErrKeyInvalid, "0x0a"},
		{"NUL", "\x00", claim.ErrKeyInvalid, "0x00"},
		{"lone quote", `"`, claim.ErrKeyInvalid, "closing double quote"},
		{"unclosed", `"abc`, claim.ErrKeyInvalid, "closing double quote"},
		{"closing quote escaped", `"abc\"`, claim.ErrKeyInvalid, "closing double quote"},
		{"ends in a backslash", `"abc\`, claim.ErrKeyInvalid, "closing double quote"},
		{"unknown escape", `"a\nb"`, claim.ErrKeyInvalid, "backslash at position 2"},
		{"parameter without a name", `"abc";`, claim.ErrKeyInvalid, "parameters"},
		{"parameter without a value", `"abc";v=`, claim.ErrKeyInvalid, "parameters"},
		{"parameter in capitals", `"abc";V=1`, claim.ErrKeyInvalid, "parameters"},
		{"unclosed parameter", `"abc";v="x`, claim.ErrKeyInvalid, "parameters"},
		{"space around a parameter's value", `"abc";v= 1`, claim.ErrKeyInvalid, "parameters"},
		{"parameters after white space", `"abc" ;v=1`, claim.ErrKeyInvalid, "white space"},
		{"two keys", `"abc", "def"`, claim.ErrKeyInvalid, "more than one"},
		{"two keys, one with parameters", `"abc";v=1, "def"`, claim.ErrKeyInvalid, "more than one"},
		{"two keys after white space", `"abc" , "def"`, claim.ErrKeyInvalid, "more than one"},
		{"list that ends", `"abc",`, claim.ErrKeyInvalid, "more than one"},
		{"text after the quote", `"abc"def`, claim.ErrKeyInvalid, "after the closing quote"},
		{"quote after the quote", `"abc""`, claim.ErrKeyInvalid, "after the closing quote"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := claim.ParseKey(tc.header)
			var keyErr *claim.KeyError
			if got != "" || !errors.Is(err, tc.is) || !errors.As(err, &keyErr) {
				t.Fatalf("ParseKey(%q) = %q, %v; want %v", tc.header, got, err, tc.is)
			}
			other := claim.ErrKeyMissing
			if tc.is == other {
				other = claim.ErrKeyInvalid
			}
			if errors.Is(err, other) {
				t.Errorf("error is also %v", other)
			}
			if !strings.Contains(keyErr.Reason, tc.says) || strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("message %q; want one line with %q", err, tc.says)
			}
			if !strings.HasPrefix(err.Error(), tc.is.Error()) {
				t.Errorf("message %q does not start with %q", err, tc.is)
			}
		})
	}
}

func TestEveryKeyHasAQuotedSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := string(rapid.SliceOfN(rapid.ByteRange(0x21, 0x7e), 1, claim.MaxKeyLength).Draw(t, "value"))
		got, err := claim.ParseKey(claim.FormatKey(value))
		if err != nil || got != value {
			t.Fatalf("ParseKey(FormatKey(%q)) = %q, %v", value, got, err)
		}
		if value[0] == '"' {
			return // has no bare spelling
		}
		if got, err := claim.ParseKey(value); err != nil || got != value {
			t.Fatalf("ParseKey(%q) = %q, %v", value, got, err)
		}
	})
}

// respelt reports whether sent is a UUID in another case than its key.
func respelt(sent, key string) bool {
	return strings.EqualFold(sent, key) && uuid.Validate(sent) == nil && !claim.ValidKey(sent)
}

// FuzzParseKey checks that what is accepted is a key, that spelling it again names the
// same one, and that a quoted value is read as RFC 9651 reads it.
func FuzzParseKey(f *testing.F) {
	for _, header := range []string{`"abc";v=1;w="x, y"`, `"a\"b";f`, `"abc" ;v`, `"abc";v, "def"`, "?1", "a,b", `a"b`, `%"x"`} {
		f.Add(header)
	}
	f.Add("F47AC10B-58CC-4372-A567-0E02B2C3D479")
	f.Fuzz(func(t *testing.T, header string) {
		value, err := claim.ParseKey(header)
		trimmed := strings.Trim(header, " \t")
		if strings.HasPrefix(trimmed, `"`) {
			item, syntax := httpsfv.UnmarshalItem([]string{trimmed})
			text, _ := item.Value.(string)
			key := syntax == nil && text != "" && len(text) <= claim.MaxKeyLength && !strings.Contains(text, " ")
			if key != (err == nil) || key && text != value && !respelt(text, value) {
				t.Fatalf("ParseKey(%q) = %q, %v; RFC 9651 reads %q, %v", header, value, err, text, syntax)
			}
		}
		if err != nil {
			if value != "" || errors.Is(err, claim.ErrKeyMissing) == errors.Is(err, claim.ErrKeyInvalid) {
				t.Fatalf("ParseKey(%q) = %q, %v", header, value, err)
			}
			if missing := trimmed == ""; missing != errors.Is(err, claim.ErrKeyMissing) {
				t.Fatalf("ParseKey(%q): %v", header, err)
			}
			return
		}
		if len(value) < 1 || len(value) > claim.MaxKeyLength {
			t.Fatalf("ParseKey(%q): %d characters", header, len(value))
		}
		for i := range len(value) {
			if value[i] < 0x21 || value[i] > 0x7e {
				t.Fatalf("ParseKey(%q) = %q", header, value)
			}
		}
		if again, err := claim.ParseKey(claim.FormatKey(value)); err != nil || again != value {
			t.Fatalf("ParseKey(%q) = %q, but its quoted spelling gives %q, %v", header, value, again, err)
		}
		if trimmed[0] != '"' && trimmed != value && !respelt(trimmed, value) {
			t.Fatalf("bare %q was changed to %q", header, value)
		}
	})
}

package claim_test

import (
	"errors"
	"strings"
	"testing"

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
		{"bare with the characters of other header syntax", `a;b=c,d:?1*`, `a;b=c,d:?1*`},
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
		{"parameters", `"abc";v=1`, claim.ErrKeyInvalid, "parameters"},
		{"parameters after white space", `"abc" ;v=1`, claim.ErrKeyInvalid, "parameters"},
		{"two keys", `"abc", "def"`, claim.ErrKeyInvalid, "more than one"},
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
				t.Errorf("message %q; want one line that says %q", err, tc.says)
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

func TestParseKeyDoesNotAllocateForUsualKeys(t *testing.T) {
	for _, header := range []string{"order-1234", `"order-1234"`} {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := claim.ParseKey(header); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("ParseKey(%q): %v allocations", header, n)
		}
	}
}

// FuzzParseKey checks that what is accepted is a key, and that spelling it
// again names the same one.
func FuzzParseKey(f *testing.F) {
	f.Fuzz(func(t *testing.T, header string) {
		value, err := claim.ParseKey(header)
		if err != nil {
			if value != "" || errors.Is(err, claim.ErrKeyMissing) == errors.Is(err, claim.ErrKeyInvalid) {
				t.Fatalf("ParseKey(%q) = %q, %v", header, value, err)
			}
			if missing := strings.Trim(header, " \t") == ""; missing != errors.Is(err, claim.ErrKeyMissing) {
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
		if trimmed := strings.Trim(header, " \t"); trimmed[0] != '"' && trimmed != value {
			t.Fatalf("bare %q was changed to %q", header, value)
		}
	})
}

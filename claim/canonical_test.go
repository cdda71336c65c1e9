package claim_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/homeward-io/homeward/claim"
)

func TestCanonical(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"a charge", "{\n  \"currency\": \"usd\",\n  \"amount\": 1500\n}", `{"amount":1500,"currency":"usd"}`},
		{"sorted and compact already", `{"amount":1500,"currency":"usd"}`, `{"amount":1500,"currency":"usd"}`},
		{"nested objects", `{"b":{"z":1,"a":[{"y":1,"x":2}]},"a":1}`, `{"a":1,"b":{"a":[{"x":2,"y":1}],"z":1}}`},
		{"array order is meaning", `[3,1,2]`, `[3,1,2]`},
		{"empty containers", " { \"a\" : [ ] , \"b\" : { } } ", `{"a":[],"b":{}}`},
		{"a name that begins another", `{"ab":1,"a":2,"":3}`, `{"":3,"a":2,"ab":1}`},
		{"literals", "[ true,false ,null\t]\r\n", `[true,false,null]`},
		{"scalar at the top", ` "x" `, `"x"`},

		{"escapes that need not be", `"\u0061\/\u00e9\u20ac"`, `"a/é€"`},
		{"escapes that must be", `"\u0022\u005c\u0008\u0009\u000a\u000C\u000d\u0000\u001F"`, `"\"\\\b\t\n\f\r\u0000\u001f"`},
		{"surrogate pair", `"\ud83D\uDE00!"`, `"😀!"`},
		{"delete and line separators stay", "\"\x7f\u2028\\u2029\"", "\"\x7f\u2028\u2029\""},
		{"no Unicode normalisation", `"e\u0301é"`, "\"e\u0301\u00e9\""},
		{"escaped name", `{"\u0062":1,"a":2}`, `{"a":2,"b":1}`},
		// RFC 8785, section 3.2.3.
		{"UTF-16 order", `{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"},
		{"an escape sorts as the character that it encodes", `{"\\":1,"[":2,"\"":3,"!":4,"\n":5,"]":6}`, `{"\n":5,"!":4,"\"":3,"[":2,"\\":1,"]":6}`},

		{"every short escape in names", `{"\r":1,"\f":2,"\u000b":3,"\n":4,"\t":5,"\b":6,"\u0007":7}`, `{"\u0007":7,"\b":6,"\t":5,"\n":4,"\u000b":3,"\f":2,"\r":1}`},

		{"one number, many spellings", `[100,100.0,1e2,1E+2,1000e-1,0.1e3,100.000e00]`, `[100,100,100,100,100,100,100]`},
		{"all zeros are one", `[0,-0,0.0,-0.0e9,0e999999999999999999,0E-5]`, `[0,0,0,0,0,0]`},
		{"past what a double holds", `[9007199254740992,9007199254740993]`, `[9007199254740992,9007199254740993]`},
		{"decimals", `[100.5,-0.50,0.1,12.340e1,1.5e-1]`, `[100.5,-0.5,0.1,123.4,0.15]`},
		{"largest plain integer", `[999999999999999999999,1e20]`, `[999999999999999999999,100000000000000000000]`},
		{"one more takes an exponent", `[1000000000000000000000,-1234567890123456789012]`, `[1e+21,-1.234567890123456789012e+21]`},
		{"small", `[0.000001,0.0000012,0.0000001,-12e-8]`, `[0.000001,0.0000012,1e-7,-1.2e-7]`},
		{"point inside long digits", `[123456789012345678901.5]`, `[123456789012345678901.5]`},
		{"ends of the range", `[1e308,5e-324,0.001e311,500e-326]`, `[1e+308,5e-324,1e+308,5e-324]`},
		{"zeros that cancel the exponent", "[" + strings.Repeat("0", 1) + "." + strings.Repeat("0", 4999) + "1e5000]", `[1]`},
		{"zeros are not significant", "1" + strings.Repeat("0", 100) + "." + strings.Repeat("0", 100), "1e+100"},
		{"most digits", "0." + strings.Repeat("7", claim.MaxNumberDigits), "0." + strings.Repeat("7", claim.MaxNumberDigits)},
		{"deepest", strings.Repeat("[", claim.MaxJSONDepth) + strings.Repeat("]", claim.MaxJSONDepth), strings.Repeat("[", claim.MaxJSONDepth) + strings.Repeat("]", claim.MaxJSONDepth)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := claim.Canonical([]byte(tc.in), claim.CanonicalOptions{})
			if err != nil || string(got) != tc.want {
				t.Fatalf("Canonical(%s)\n got %s, %v\nwant %s", tc.in, got, err, tc.want)
			}
		})
	}
}

func TestCanonicalRefuses(t *testing.T) {
	deep := strings.Repeat("[", claim.MaxJSONDepth+1)
	for _, tc := range []struct{ name, in, path, says string }{
		{"empty", "", "", "unexpected end"},
		{"white space only", " \n", "", "unexpected end"},
		{"byte order mark", "\ufeff{}", "", "value was expected"},
		{"second value", `{} {}`, "", "unexpected data"},
		{"data after a number", `1x`, "", "unexpected data"},
		{"wrong case", `True`, "", "value was expected"},
		{"cut literal", `[tru`, "[0]", "value was expected"},
		{"not a number", `[NaN]`, "[0]", "value was expected"},
		{"comment", `{} // x`, "", "unexpected data"},
		{"single quotes", `{'a':1}`, "", "member name"},
		{"bare name", `{a:1}`, "", "member name"},
		{"comma at the end of an object", `{"a":1,}`, "", "member name"},
		{"comma at the end of an array", `[1,]`, "[1]", "value was expected"},
		{"no colon", `{"a" 1}`, "a", "colon"},
		{"no value", `{"a":}`, "a", "value was expected"},
		{"no comma", `{"a":1 "b":2}`, "", "comma or }"},
		{"no comma in an array", `[1 2]`, "", "comma or ]"},
		{"wrong bracket", `{"a":[1}}`, "a", "comma or ]"},
		{"cut object", `{"a":{"b":1`, "a", "unexpected end"},
		{"cut name", `{"amou`, "", "unexpected end"},
		{"cut string", `{"a":"x`, "a", "unexpected end"},
		{"cut escape", `["\`, "[0]", "unexpected end"},
		{"cut after an escape", `["\n`, "[0]", "unexpected end"},

		{"duplicate", `{"amount":1,"amount":1}`, "amount", "duplicate"},
		{"duplicate apart", `{"amount":1,"currency":"usd","amount":2}`, "amount", "duplicate"},
		{"duplicate in escapes", `{"amount":1,"\u0061mount":2}`, "amount", "duplicate"},
		{"duplicate astral name", `{"😀":1,"\ud83d\ude00":2}`, "😀", "duplicate"},
		{"duplicate inside", `{"metadata":{"color":"red","size":1,"color":"blue"}}`, "metadata.color", "duplicate"},
		{"duplicate in an element", `{"items":[{"sku":1},{"sku":1,"sku":1}]}`, "items[1].sku", "duplicate"},
		{"duplicate empty name", `{"a":{"":1,"":2}}`, `a.""`, "duplicate"},
		{"duplicate of a dropped member", `{"trace_id":1,"a":2,"trace_id":3}`, "trace_id", "duplicate"},

		{"control character", "{\"a\":\"x\ny\"}", "a", "0x0a"},
		{"control character after an escape", "[\"\\n\x00\"]", "[0]", "0x00"},
		{"unknown escape", `["\x41"]`, "[0]", "unknown escape"},
		{"short unicode escape", `["\u12"]`, "[0]", "four hexadecimal digits"},
		{"bad unicode escape", `["\u12g4"]`, "[0]", "four hexadecimal digits"},
		{"high surrogate alone", `["\ud83d"]`, "[0]", "lone surrogate"},
		{"high surrogate before text", `["\ud83dxxxxxx"]`, "[0]", "lone surrogate"},
		{"high surrogate before another escape", `["\ud83d\n12345"]`, "[0]", "lone surrogate"},
		{"two high surrogates", `["\ud83d\ud83d"]`, "[0]", "lone surrogate"},
		{"low surrogate first", `["\ude00\ud83d"]`, "[0]", "lone surrogate"},
		{"surrogate before broken escape", `["\ud83d\uzzzz"]`, "[0]", "lone surrogate"},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", "a", "invalid UTF-8"},
		{"overlong UTF-8", "[\"\xc0\xaf\"]", "[0]", "invalid UTF-8"},
		{"surrogate in UTF-8", "[\"\xed\xa0\xbd\"]", "[0]", "invalid UTF-8"},
		{"invalid UTF-8 before an escape", "[\"\xff\\n\"]", "[0]", "invalid UTF-8"},
		{"invalid UTF-8 after an escape", "[\"\\n\xff\"]", "[0]", "invalid UTF-8"},
		{"character split by an escape", "[\"\xc3\\n\xa9\"]", "[0]", "invalid UTF-8"},
		{"invalid UTF-8 in a name", "{\"\xff\":1}", "", "invalid UTF-8"},

		{"leading zero", `{"amount":0100}`, "amount", "leading zero"},
		{"negative leading zero", `[-01]`, "[0]", "leading zero"},
		{"plus", `[+1]`, "[0]", "value was expected"},
		{"minus only", `[-]`, "[0]", "digit"},
		{"no digit before the point", `[.5]`, "[0]", "value was expected"},
		{"no digit after the point", `[1.]`, "[0]", "after the decimal point"},
		{"no digit in the exponent", `[1e+]`, "[0]", "exponent"},
		{"cut exponent", `1e`, "", "unexpected end"},
		{"hexadecimal", `[0x10]`, "", "comma or ]"},
		{"too many digits", `{"amount":` + strings.Repeat("7", claim.MaxNumberDigits+1) + `}`, "amount", "64 significant digits"},
		{"too many digits apart", `[1` + strings.Repeat("0", 100000) + `1]`, "[0]", "64 significant digits"},
		{"too large", `{"amount":1e309}`, "amount", "out of range"},
		{"far too large", `{"amount":1e1000000}`, "amount", "out of range"},
		{"beyond any integer type", `{"amount":-1e99999999999999999999999}`, "amount", "out of range"},
		{"too small", `{"amount":1e-325}`, "amount", "out of range"},
		{"too deep", deep + strings.Repeat("]", claim.MaxJSONDepth+1), strings.Repeat("[0]", claim.MaxJSONDepth), "deeper than 32"},
		{"hostile depth", strings.Repeat(`{"a":`, 100000), strings.Repeat("a.", claim.MaxJSONDepth-1) + "a", "deeper than 32"},
		{"long name is cut", `{"` + strings.Repeat("é", 100) + `":x}`, strings.Repeat("é", 32) + "…", "value was expected"},
		{"long name is cut between characters", `{"x` + strings.Repeat("é", 100) + `":x}`, "x" + strings.Repeat("é", 31) + "…", "value was expected"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := claim.Canonical([]byte(tc.in), claim.CanonicalOptions{Drop: dropSet("trace_id")})
			var jsonErr *claim.JSONError
			if got != nil || !errors.As(err, &jsonErr) {
				t.Fatalf("Canonical = %q, %v", got, err)
			}
			if jsonErr.Path != tc.path || !strings.Contains(jsonErr.Reason, tc.says) {
				t.Errorf("path %q, reason %q; want %q, %q", jsonErr.Path, jsonErr.Reason, tc.path, tc.says)
			}
			if jsonErr.Offset < 0 || jsonErr.Offset > len(tc.in) {
				t.Errorf("offset %d in %d bytes", jsonErr.Offset, len(tc.in))
			}
			if msg := err.Error(); strings.ContainsAny(msg, "\r\n") || !strings.Contains(msg, tc.path) {
				t.Errorf("message %q; want one line that names %q", msg, tc.path)
			}
		})
	}
}

func TestCanonicalRefusesAGiantBody(t *testing.T) {
	body := bytes.Repeat([]byte{' '}, claim.MaxCanonicalBody+1)
	var jsonErr *claim.JSONError
	if _, err := claim.Canonical(body, claim.CanonicalOptions{}); !errors.As(err, &jsonErr) || !strings.Contains(jsonErr.Reason, "longer than") {
		t.Fatal(err)
	}
}

func dropSet(names ...string) map[string]struct{} {
	set := map[string]struct{}{}
	for _, n := range names {
		set[n] = struct{}{}
	}
	return set
}

func TestCanonicalDrops(t *testing.T) {
	opt := claim.CanonicalOptions{Drop: dropSet("client_ts", "trace_id", "a\nb", "é")}
	for _, tc := range []struct{ name, in, want string }{
		{"first", `{"client_ts":1,"x":2}`, `{"x":2}`},
		{"middle", `{"a":1,"client_ts":1,"x":2}`, `{"a":1,"x":2}`},
		{"last", `{"a":1,"trace_id":{"deep":[1,{"b":1,"a":2}]}}`, `{"a":1}`},
		{"all", `{"trace_id":1,"client_ts":1}`, `{}`},
		{"in escapes", `{"a":1,"\u0074race_id":1}`, `{"a":1}`},
		{"names that need escapes", `{"a\u000ab":1,"\u00e9":2,"z":3}`, `{"z":3}`},
		{"only whole names", `{"trace":1,"trace_ids":2}`, `{"trace":1,"trace_ids":2}`},
		{"an escape's spelling is not a name", `{"a\\nb":1}`, `{"a\\nb":1}`},
		{"not below the top", `{"a":{"trace_id":1}}`, `{"a":{"trace_id":1}}`},
		{"not in an array at the top", `[{"trace_id":1}]`, `[{"trace_id":1}]`},
		{"unsorted rest", `{"b":1,"trace_id":0,"a":2}`, `{"a":2,"b":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := claim.Canonical([]byte(tc.in), opt)
			if err != nil || string(got) != tc.want {
				t.Fatalf("Canonical(%s) = %s, %v; want %s", tc.in, got, err, tc.want)
			}
		})
	}
	if _, err := claim.Canonical([]byte(`{"trace_id":01}`), opt); err == nil {
		t.Error("a malformed value was accepted because its member is dropped")
	}
}

// Where a double is exact enough, the form must be RFC 8785's. encoding/json
// writes a float64 by the same ECMAScript rules.
func TestNumbersAgreeWithRFC8785(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		f := math.Float64frombits(random.Uint64())
		if random.IntN(2) == 0 { // the range where the layout changes
			f = math.Ldexp(random.Float64()-0.5, random.IntN(120)-40)
		}
		if math.IsNaN(f) || math.IsInf(f, 0) || f == 0 {
			continue
		}
		want, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, spelling := range []string{
			strconv.FormatFloat(f, 'e', -1, 64),
			strconv.FormatFloat(f, 'f', -1, 64),
			string(want),
		} {
			got, err := claim.Canonical([]byte(spelling), claim.CanonicalOptions{})
			if err != nil || string(got) != string(want) {
				t.Fatalf("Canonical(%s) = %s, %v; want %s", spelling, got, err, want)
			}
		}
	}
}

func TestCanonicalLeavesTheBodyAlone(t *testing.T) {
	body := []byte(`{"b": [2, {"d": 1, "c": 2}], "a": "\u0041"}`)
	before := bytes.Clone(body)
	got, err := claim.Canonical(body, claim.CanonicalOptions{})
	if err != nil || !bytes.Equal(body, before) {
		t.Fatalf("body is now %s, %v", body, err)
	}
	for i := range body {
		body[i] = 'x'
	}
	if string(got) != `{"a":"A","b":[2,{"c":2,"d":1}]}` {
		t.Fatalf("the result shares memory with the body: %s", got)
	}
}

func TestAnObjectOfManyMembers(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const n = 20_000
	var in, want strings.Builder
	for i, j := range random.Perm(n) {
		fmt.Fprintf(&in, "%c\"m%05d\":{\"y\":%d,\"x\":0}", "{,"[min(i, 1)], j, j)
		fmt.Fprintf(&want, "%c\"m%05d\":{\"x\":0,\"y\":%d}", "{,"[min(i, 1)], i, i)
	}
	got, err := claim.Canonical([]byte(in.String()+"}"), claim.CanonicalOptions{})
	if err != nil || string(got) != want.String()+"}" {
		t.Fatalf("wrong order: %.200s, %v", got, err)
	}
}

// The stated bound on how much longer a canonical text can be.
func TestCanonicalGrowthIsBounded(t *testing.T) {
	for _, element := range []string{"1e20", "-1e20", "1e-6", "\"\\u0001\"", "1e308"} {
		body := []byte("[" + strings.Repeat(element+",", 1000) + element + "]")
		got, err := claim.Canonical(body, claim.CanonicalOptions{})
		if err != nil || len(got) >= 6*len(body) {
			t.Errorf("%s: %d bytes became %d, %v", element, len(body), len(got), err)
		}
	}
}

// TestSpellingsOfOneValue writes a random value down twice, each time choosing
// order, white space, escapes and number forms anew.
func TestSpellingsOfOneValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := drawJSON(t, 3)
		a, b := respell(t, value), respell(t, value)
		x, errX := claim.Canonical([]byte(a), claim.CanonicalOptions{})
		y, errY := claim.Canonical([]byte(b), claim.CanonicalOptions{})
		if errX != nil || errY != nil || !bytes.Equal(x, y) {
			t.Fatalf("%s -> %s, %v\n%s -> %s, %v", a, x, errX, b, y, errY)
		}
		if !json.Valid(x) {
			t.Fatalf("%s is not JSON", x)
		}
		other := drawJSON(t, 3)
		z, err := claim.Canonical([]byte(respell(t, other)), claim.CanonicalOptions{})
		if err != nil || bytes.Equal(x, z) != (naiveForm(value) == naiveForm(other)) {
			t.Fatalf("%s and %s: %v", x, z, err)
		}
	})
}

var (
	errNaive     = errors.New("refused by the reference")
	numberSyntax = regexp.MustCompile(`^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$`)
	surrogate    = regexp.MustCompile(`(?i)^\\u(d[89a-f][0-9a-f]{2})`)
)

// FuzzCanonical compares with the reference above: the same texts are accepted,
// and two texts have one canonical form if and only if they mean the same.
func FuzzCanonical(f *testing.F) {
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if len(a)+len(b) > 1<<16 {
			t.Skip("the reference is slow")
		}
		x, valueX, okX := checkCanonical(t, a)
		y, valueY, okY := checkCanonical(t, b)
		if okX && okY && bytes.Equal(x, y) != (naiveForm(valueX) == naiveForm(valueY)) {
			t.Fatalf("%s -> %s\n%s -> %s", a, x, b, y)
		}
	})
}

func checkCanonical(t *testing.T, in []byte) (form []byte, value any, ok bool) {
	t.Helper()
	value, naiveErr := naiveRead(in)
	form, err := claim.Canonical(in, claim.CanonicalOptions{})
	if (err == nil) != (naiveErr == nil) {
		t.Fatalf("Canonical(%q): %v; reference: %v", in, err, naiveErr)
	}
	if err != nil {
		var jsonErr *claim.JSONError
		if form != nil || !errors.As(err, &jsonErr) || jsonErr.Reason == "" || jsonErr.Offset < 0 || jsonErr.Offset > len(in) {
			t.Fatalf("Canonical(%q) = %q, %#v", in, form, err)
		}
		return nil, nil, false
	}
	if len(form) >= 6*len(in) {
		t.Fatalf("Canonical(%q) grew to %q", in, form)
	}
	again, err := claim.Canonical(form, claim.CanonicalOptions{})
	if err != nil || !bytes.Equal(again, form) {
		t.Fatalf("%q -> %q -> %q, %v", in, form, again, err)
	}
	back, err := naiveRead(form)
	if err != nil || naiveForm(back) != naiveForm(value) {
		t.Fatalf("%q -> %q means something else: %v", in, form, err)
	}
	return form, value, true
}

// A charge as clients send it: compact, in an order of their own.
const typicalCharge = `{"amount":1500,"currency":"usd","payment_method":"pm_card_visa","description":"Order 1042","order_id":"ord_1042","metadata":{"cart":"c_81f","color":"red"}}`

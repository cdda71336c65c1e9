package claim_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/homeward-io/homeward/claim"
)

// drawJSON draws a value as the naive reference holds it: nil, bool, string,
// *big.Rat, []any or map[string]any.
func drawJSON(t *rapid.T, depth int) any {
	kinds := 5
	if depth == 0 {
		kinds = 3
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]any{nil, true, false}).Draw(t, "literal")
	case 1:
		return drawText(t)
	case 2:
		digits := rapid.Int64().Draw(t, "digits")
		r := new(big.Rat).SetInt64(digits)
		return r.Mul(r, pow10(rapid.IntRange(-30, 30).Draw(t, "exponent")))
	case 3:
		list := make([]any, rapid.IntRange(0, 4).Draw(t, "elements"))
		for i := range list {
			list[i] = drawJSON(t, depth-1)
		}
		return list
	default:
		object := map[string]any{}
		for range rapid.IntRange(0, 6).Draw(t, "members") {
			object[drawText(t)] = drawJSON(t, depth-1)
		}
		return object
	}
}

func drawText(t *rapid.T) string {
	return string(rapid.SliceOfN(rapid.SampledFrom([]rune("ab\"\\/\n\x00\x1f\x7fé\u20ac\ue000\ufffd\uffff😀\U0010ffff")), 0, 4).Draw(t, "text"))
}

func pow10(n int) *big.Rat {
	p := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(n, -n))), nil))
	if n < 0 {
		p.Inv(p)
	}
	return p
}

// respell writes a value in a spelling of the draw's choice.
func respell(t *rapid.T, value any) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t", "\r\n"}).Draw(t, "space") }
	text := func(s string) string {
		var b strings.Builder
		b.WriteByte('"')
		for _, r := range s {
			switch must := r < 0x20 || r == '"' || r == '\\'; {
			case must && r >= 0x20 && rapid.Bool().Draw(t, "short"):
				fmt.Fprintf(&b, `\%c`, r)
			case must || rapid.Bool().Draw(t, "escape"):
				format := rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "case")
				for _, unit := range utf16.Encode([]rune{r}) {
					fmt.Fprintf(&b, format, unit)
				}
			default:
				b.WriteRune(r)
			}
		}
		b.WriteByte('"')
		return b.String()
	}
	var body string
	switch v := value.(type) {
	case nil:
		body = "null"
	case bool:
		body = strconv.FormatBool(v)
	case string:
		body = text(v)
	case *big.Rat:
		shift := rapid.IntRange(-25, 25).Draw(t, "shift")
		body = new(big.Rat).Mul(v, pow10(shift)).FloatString(80)
		if rapid.Bool().Draw(t, "trim") {
			body = strings.TrimSuffix(strings.TrimRight(body, "0"), ".")
		}
		body += rapid.SampledFrom([]string{"e", "E"}).Draw(t, "e") + strconv.Itoa(-shift)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = respell(t, v[i])
		}
		body = "[" + space() + strings.Join(parts, ",") + "]"
	case map[string]any:
		names := rapid.Permutation(slices.Sorted(maps.Keys(v))).Draw(t, "order")
		parts := make([]string, len(names))
		for i, name := range names {
			parts[i] = space() + text(name) + space() + ":" + respell(t, v[name])
		}
		body = "{" + space() + strings.Join(parts, ",") + "}"
	}
	return space() + body + space()
}

// naiveForm is a slow but plain rendering of a value: equal for equal values
// only. It has nothing in common with the canonical form.
func naiveForm(value any) string {
	switch v := value.(type) {
	case *big.Rat:
		return "n:" + v.RatString()
	case string:
		return fmt.Sprintf("s:%x", v)
	case []any:
		var b strings.Builder
		for _, e := range v {
			b.WriteString(naiveForm(e) + ";")
		}
		return "a(" + b.String() + ")"
	case map[string]any:
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(&b, "%x=%s;", name, naiveForm(v[name]))
		}
		return "o(" + b.String() + ")"
	default:
		return fmt.Sprintf("l:%v", v)
	}
}

// naiveRead reads a text by way of encoding/json and applies the extra rules
// one by one. A text it reads is one that Canonical must accept, and no other.
func naiveRead(text []byte) (any, error) {
	if !json.Valid(text) || !utf8.Valid(text) || loneSurrogate(string(text)) {
		return nil, errNaive
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	value, err := naiveValue(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errNaive
	}
	return value, nil
}

func naiveValue(dec *json.Decoder, depth int) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Number:
		return naiveNumber(v.String())
	case json.Delim:
		if depth == claim.MaxJSONDepth {
			return nil, errNaive
		}
		list, object := []any{}, map[string]any{}
		for dec.More() {
			name := ""
			if v == '{' {
				token, err := dec.Token()
				if err != nil {
					return nil, err
				}
				name = token.(string)
				if _, twice := object[name]; twice {
					return nil, errNaive
				}
			}
			element, err := naiveValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
			object[name] = element
		}
		if _, err := dec.Token(); err != nil {
			return nil, err
		}
		if v == '{' {
			return object, nil
		}
		return list, nil
	default:
		return v, nil
	}
}

func naiveNumber(s string) (any, error) {
	parts := numberSyntax.FindStringSubmatch(s)
	digits := strings.Trim(parts[1]+parts[2], "0")
	if digits == "" {
		return new(big.Rat), nil
	}
	if len(digits) > claim.MaxNumberDigits {
		return nil, errNaive
	}
	exponent := new(big.Int)
	if parts[3] != "" {
		exponent.SetString(parts[3], 10)
	}
	// Where the first significant digit stands, as the power of ten it counts.
	all := parts[1] + parts[2]
	first := len(parts[1]) - 1 - (len(all) - len(strings.TrimLeft(all, "0")))
	exponent.Add(exponent, big.NewInt(int64(first)))
	if exponent.Cmp(big.NewInt(claim.MaxNumberExponent)) > 0 || exponent.Cmp(big.NewInt(claim.MinNumberExponent)) < 0 {
		return nil, errNaive
	}
	r, ok := new(big.Rat).SetString(digits)
	if !ok {
		return nil, errNaive
	}
	r.Mul(r, pow10(int(exponent.Int64())-len(digits)+1))
	if s[0] == '-' {
		r.Neg(r)
	}
	return r, nil
}

// loneSurrogate looks for half a surrogate pair in a valid JSON text.
func loneSurrogate(text string) bool {
	for i := 0; i < len(text); {
		if text[i] != '\\' {
			i++
			continue
		}
		first := surrogate.FindStringSubmatch(text[i:])
		if first == nil {
			i += 2 // an escape is at least this long, and \uXXXX hides no backslash
			continue
		}
		second := surrogate.FindStringSubmatch(text[i+6:])
		if second == nil || strings.ToLower(first[1]) >= "dc" || strings.ToLower(second[1]) < "dc" {
			return true
		}
		i += 12
	}
	return false
}

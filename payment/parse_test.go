package payment

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	isocurrency "golang.org/x/text/currency"

	"github.com/homeward-io/homeward/claim"
)

const okCharge = `{"amount":1999,"currency":"usd","payment_method":"pm_card_visa"}`

// with returns okCharge with members replaced or added; "" removes one.
func with(members ...string) string {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(okCharge), &all); err != nil {
		panic(err)
	}
	for i := 0; i < len(members); i += 2 {
		if members[i+1] == "" {
			delete(all, members[i])
		} else {
			all[members[i]] = json.RawMessage(members[i+1])
		}
	}
	// Written by hand: Marshal would refuse the broken texts.
	parts := make([]string, 0, len(all))
	for name, value := range all {
		quoted, _ := json.Marshal(name)
		parts = append(parts, string(quoted)+":"+string(value))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func parse(t testing.TB, op Operation, body string) (Intent, error) {
	t.Helper()
	canonical, err := claim.Canonical([]byte(body), claim.CanonicalOptions{})
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return Parse(op, canonical)
}

func TestParse(t *testing.T) {
	in, err := parse(t, Charge, `{"payment_method":"pm_card_visa", "amount":19.99e2, "currency":"jpy",
		"description":"caf\u00e9 \"x\"", "order_id":"o-1", "metadata":{"b":"2","a":"line\n"}, "expires_at":"2030-01-31T13:00:00.5+01:00"}`)
	if err != nil {
		t.Fatal(err)
	}
	if in.Operation != Charge || in.Amount != 1999 || in.Currency != "jpy" || in.Source != "pm_card_visa" ||
		in.Description() != `café "x"` || in.OrderID() != "o-1" ||
		!in.ExpiresAt.Equal(time.Date(2030, 1, 31, 12, 0, 0, 5e8, time.UTC)) ||
		string(in.metadata) != `{"a":"line\n","b":"2"}` {
		t.Errorf("got %+v", in)
	}
	in, err = parse(t, Transfer, `{"amount":999999999999,"currency":"eur","destination":"acct_9-A_z"}`)
	if err != nil || in.Amount != MaxAmount || in.Source != "acct_9-A_z" || in.Operation != Transfer {
		t.Errorf("got %+v, %v", in, err)
	}
}

func TestParseRefuses(t *testing.T) {
	long := func(n int) string { return `"` + strings.Repeat("é", n) + `"` }
	entries := func(n int) string {
		var parts []string
		for i := range n {
			parts = append(parts, fmt.Sprintf(`"k%d":"v"`, i))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	const whole, above, tooMuch = "must be whole minor units", "must be above 0", "must be at most 999999999999"
	for _, c := range []struct{ name, body, member, reason string }{
		{"array", `[]`, "", "must be a JSON object"},
		{"string", `"x"`, "", "must be a JSON object"},
		{"null", `null`, "", "must be a JSON object"},
		{"empty", `{}`, "amount", "is required"},
		{"no currency", with("currency", ""), "currency", "is required"},
		{"no method", with("payment_method", ""), "payment_method", "is required"},
		{"unknown", with("color", `"red"`), "color", "remove it"},
		{"unknown long", with(strings.Repeat("x", 100), `1`), strings.Repeat("x", 64) + "…", "remove it"},
		{"unknown card", with("4242424242424242", `1`), "(digits)", "remove it"},
		{"destination on a charge", with("destination", `"acct_1"`), "destination", "remove it"},

		{"half", with("amount", `100.5`), "amount", whole},
		{"tiny", with("amount", `1e-300`), "amount", whole},
		{"tiny digits", with("amount", `1.5e-7`), "amount", whole},
		{"below one", with("amount", `0.5`), "amount", whole},
		{"zero", with("amount", `0`), "amount", above},
		{"minus zero", with("amount", `-0.0`), "amount", above},
		{"negative", with("amount", `-1`), "amount", above},
		{"negative half", with("amount", `-0.5`), "amount", above},
		{"too much", with("amount", `1000000000000`), "amount", tooMuch},
		{"2^63", with("amount", `9223372036854775808`), "amount", tooMuch},
		{"1e300", with("amount", `1e300`), "amount", tooMuch},
		{"1.5e300", with("amount", `1.5e300`), "amount", tooMuch},
		{"text", with("amount", `"1999"`), "amount", "must be a number"},
		{"null amount", with("amount", `null`), "amount", "must be a number"},
		{"object amount", with("amount", `{"value":1}`), "amount", "must be a number"},

		{"upper case", with("currency", `"USD"`), "currency", "ISO 4217"},
		{"no such", with("currency", `"usx"`), "currency", "ISO 4217"},
		{"testing", with("currency", `"xts"`), "currency", "ISO 4217"},
		{"number", with("currency", `840`), "currency", "ISO 4217"},
		{"three bytes, no string", with("currency", `[1,2]`), "currency", "ISO 4217"},
		{"escaped", with("currency", `"u\n"`), "currency", "ISO 4217"},

		{"card", with("payment_method", `"4242424242424242"`), "payment_method", "card number"},
		{"card grouped", with("payment_method", `"3782 822463 10005"`), "payment_method", "card number"},
		{"card as number", with("payment_method", `4242424242424242`), "payment_method", "must be a string"},
		{"prefix", with("payment_method", `"card_visa"`), "payment_method", "starts with pm_"},
		{"prefix only", with("payment_method", `"pm_"`), "payment_method", "starts with pm_"},
		{"token with space", with("payment_method", `"pm_a b"`), "payment_method", "only letters"},
		{"token with escape", with("payment_method", `"pm_a\n"`), "payment_method", "only letters"},
		{"token too long", with("payment_method", `"pm_`+strings.Repeat("a", 253)+`"`), "payment_method", "at most 255"},

		{"description type", with("description", `1`), "description", "must be a string"},
		{"description null", with("description", `null`), "description", "must be a string"},
		{"description long", with("description", long(1001)), "description", "at most 1000"},
		{"order_id empty", with("order_id", `""`), "order_id", "leave it out"},
		{"order_id long", with("order_id", long(201)), "order_id", "at most 200"},
		{"order_id zero", with("order_id", `"7\u0000"`), "order_id", "zero byte"},
		{"order_id type", with("order_id", `{}`), "order_id", "must be a string"},

		{"metadata type", with("metadata", `"x"`), "metadata", "object of strings"},
		{"metadata value", with("metadata", `{"color":1}`), "metadata.color", "must be a string"},
		{"metadata nested", with("metadata", `{"a":{"b":[{}]}}`), "metadata.a", "must be a string"},
		{"metadata empty name", with("metadata", `{"":"x"}`), "metadata", "empty name"},
		{"metadata long name", with("metadata", `{`+long(41)+`:"x"}`), "metadata." + strings.Repeat("é", 32) + "…", "at most 40"},
		{"metadata long value", with("metadata", `{"color":`+long(501)+`}`), "metadata.color", "at most 500"},
		{"metadata entries", with("metadata", entries(51)), "metadata", "at most 50"},

		{"expires date", with("expires_at", `"2030-01-31"`), "expires_at", "RFC 3339"},
		{"expires lenient", with("expires_at", `"2030-01-31T1:00:00Z"`), "expires_at", "RFC 3339"},
		{"expires comma", with("expires_at", `"2030-01-31T01:00:00,5Z"`), "expires_at", "RFC 3339"},
		{"expires offset", with("expires_at", `"2030-01-31T01:00:00+24:00"`), "expires_at", "RFC 3339"},
		{"expires empty", with("expires_at", `""`), "expires_at", "RFC 3339"},
		{"expires unix", with("expires_at", `1700000000`), "expires_at", "RFC 3339"},
		{"expires zero", with("expires_at", `"0001-01-01T00:00:00Z"`), "expires_at", "RFC 3339"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(t, Charge, c.body)
			var bad *InvalidError
			if !errors.As(err, &bad) {
				t.Fatalf("got %v", err)
			}
			if bad.Member != c.member || !strings.Contains(bad.Reason, c.reason) {
				t.Errorf("got %q: %q", bad.Member, bad.Reason)
			}
			if strings.Contains(err.Error(), "4242") || strings.Contains(err.Error(), "3782") {
				t.Errorf("repeats a card number: %v", err)
			}
		})
	}
	if _, err := Parse("refund", []byte(okCharge)); err == nil {
		t.Error("an unknown operation was accepted")
	}
}

func TestParseAccepts(t *testing.T) {
	fifty := map[string]string{}
	for i := range MaxMetadataEntries {
		fifty[fmt.Sprintf("%040d", i)] = strings.Repeat("\"é", MaxMetadataValue/2)
	}
	big, _ := json.Marshal(fifty)
	for name, body := range map[string]string{
		"plain":              okCharge,
		"as decimal":         with("amount", "1999.00"),
		"as exponent":        with("amount", "1.999e3"),
		"longest texts":      with("description", `"`+strings.Repeat("é", 1000)+`"`, "order_id", `"`+strings.Repeat("\\n", 200)+`"`),
		"empty description":  with("description", `""`),
		"longest token":      with("payment_method", `"pm_`+strings.Repeat("a", 252)+`"`),
		"digits, not a card": with("payment_method", `"pm_4242424242424241"`),
		"longest metadata":   with("metadata", string(big)),
		"empty metadata":     with("metadata", `{}`),
		"card in free text":  with("description", `"4242424242424242"`),
		"quotes":             with("description", `"\\\"\\"`),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(t, Charge, body); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCurrencies(t *testing.T) {
	// Younger than the CLDR data that the library carries.
	young := map[string]bool{"mru": true, "sle": true, "ves": true, "ved": true, "xcg": true, "zwg": true}
	for code := range currencies {
		if _, err := isocurrency.ParseISO(code); err != nil && !young[code] {
			t.Errorf("%s: %v", code, err)
		}
		if len(code) != currencyLength || strings.ToLower(code) != code {
			t.Errorf("%q is misspelled", code)
		}
	}
	for _, code := range []string{"usd", "eur", "jpy", "gbp", "bhd", "zwg"} {
		if currencies[code] != code {
			t.Errorf("%s is missing", code)
		}
	}
	if len(currencies) != 157 {
		t.Errorf("%d codes; a change of this number is a change of the public contract", len(currencies))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(true, []byte(okCharge))
	f.Fuzz(func(t *testing.T, transfer bool, body []byte) {
		op := Charge
		if transfer {
			op = Transfer
		}
		// A damaged row is not canonical; it must not panic either.
		if _, err := Parse(op, body); err != nil {
			checkInvalid(t, err)
		}
		canonical, err := claim.Canonical(body, claim.CanonicalOptions{})
		if err != nil {
			return
		}
		in, err := Parse(op, canonical)
		if err != nil {
			checkInvalid(t, err)
			return
		}
		if in.Amount < 1 || in.Amount > MaxAmount || in.Currency == "" || in.Source == "" {
			t.Fatalf("%q was accepted as %+v", canonical, in)
		}
		got := Rendered(claim.Minted{ID: "ch_1"}, &in, "p", "r\"")
		var object map[string]any
		if err := json.Unmarshal(got.Body, &object); err != nil {
			t.Fatalf("rendered %q: %v", got.Body, err)
		}
		var sent map[string]any
		if err := json.Unmarshal(canonical, &sent); err != nil {
			t.Fatal(err)
		}
		for name, value := range sent {
			if fmt.Sprint(object[name]) != fmt.Sprint(value) {
				t.Fatalf("member %s was sent as %v and shown as %v", name, value, object[name])
			}
		}
	})
}

func checkInvalid(t *testing.T, err error) {
	var bad *InvalidError
	if !errors.As(err, &bad) || bad.Reason == "" || strings.ContainsAny(bad.Reason, "\n\r") {
		t.Fatalf("not a usable InvalidError: %v", err)
	}
}

package payment

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/homeward-io/homeward/claim"
)

// cards are numbers that networks publish for tests, one for each length and range
// that is issued.
var cards = []string{
	"4242424242424242", "4000056655665556", "4222222222222", "4988438843884305", // Visa, also of 13 digits
	"5555555555554444", "2223003122003222", "2720990000000007", "5105105105105100", // Mastercard, both series
	"378282246310005", "341111111111111", // American Express
	"6011111111111117", "6011000990139424", "6445644564456445", // Discover
	"3530111333300000", "3566002020360505", // JCB
	"30569309025904", "38520000023237", "36227206271667", // Diners Club
	"6205500000000000004", "6250941006528599", // UnionPay, of 19 digits, too
	"6304000000000000000", "5018000000000009", "6759649826438453", "6771798021000008", // Maestro
	"2200000000000004", "6062826786276634", "5066991111111118", // Mir, Hipercard, Elo
}

// grouped writes digits in groups of n.
func grouped(digits string, n int, between string) string {
	var parts []string
	for len(digits) > n {
		parts, digits = append(parts, digits[:n]), digits[n:]
	}
	return strings.Join(append(parts, digits), between)
}

// TestCardNumbersAreFound: card numbers stay out, alone or in the groups that cards have,
// among other words and numbers.
func TestCardNumbersAreFound(t *testing.T) {
	for _, card := range cards {
		for _, text := range []string{
			card, "paid with " + card + ".", "+" + card, "ref 12 " + card + " 12/27 123", "card:" + card, "PAN=" + card + ",exp=12/27", "#" + card,
			grouped(card, 4, " "), grouped(card, 4, "-"), grouped(card, 4, "."), grouped(card, 4, " - "), grouped(card, 4, "\u00a0"),
			grouped(card, 4, "\u2013"), grouped(card, 4, "\u200b"),
			"ref 2024-11-22 " + grouped(card, 4, " ") + " 0815", "a " + grouped(card, 4, "\n") + " b", "\u202a" + card,
			grouped(card, 4, "/"), grouped(card, 4, "\\"), grouped(card, 4, "_"), grouped(card, 4, ","), grouped(card, 4, ";"), grouped(card, 4, ":"),
			grouped(card, 4, "|"), grouped(card, 4, ", "), grouped(card, 4, " / "), "(" + grouped(card, 4, ")(") + ")",
			"2024/11/22, " + grouped(card, 4, "/") + ", 12:30",
		} {
			if !HasCardNumber(text) {
				if text[0] == '+' && len(card) <= maxPhoneDigits {
					continue // it reads as a telephone number
				}
				t.Errorf("%q was not found", text)
			}
		}
	}
	for _, text := range []string{ // other groups than fours
		"3782 822463 10005", "3056-930902-5904", "620550 0000000000004", "4222 2222 22222",
	} {
		if !HasCardNumber("my card is " + text + " thanks") {
			t.Errorf("%q was not found", text)
		}
	}
	wide := strings.Map(func(r rune) rune { return r - '0' + '０' }, "4242424242424242")
	if !HasCardNumber(wide) || !HasCardNumber("٤٢٤٢٤٢٤٢٤٢٤٢٤٢٤٢") {
		t.Error("digits of another script were not read")
	}
	for _, text := range []string{
		"", "4242424242424241", "424242424242", "0000000000000000", "1234567890123452", "9999999999999995",
		"42424242424242424242", // 20 digits without a gap are no card number
		"4242 4242 4242 424x2", "4242#4242#4242#4242", "424,242,424,242,424,2", "42:42:42:42:42:42:42:42", "4242    4242 4242 4242",
		"+4242424242428", "+49 1512 3456784", // telephone numbers
		"1732233600000", "20241122123456789", "2024-11-22T12:34:56.123456789Z", "1860000000000000005",
		"4242424242424242"[:15], "************4242",
		// Part of an identifier, or in groups that no card has.
		"x4242424242424242", "4242424242424242y", "card_4242424242424242", "order-4242424242424242", "4242424242424242.pdf", "12-4242424242424242",
		"orders/4242424242424242", "4242424242424242-01", "4242-4242-4242-4242-4242", "a4242 4242 4242 4242", "4242 4242 4242 4242-b",
		"42 42 42 42 42 42 42 42", "4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2", "424242 424242 4242", "42424 24242 42424 2", "4242 4242 42424242", "42424242/42424242",
	} {
		if HasCardNumber(text) {
			t.Errorf("%q was taken for a card number", text)
		}
	}
	long := strings.Repeat("12 ", 1000)
	if !HasCardNumber(long+"4242 4242 4242 4242 "+long) || HasCardNumber(long) {
		t.Error("a number in a long run of digits")
	}
}

// TestScreen: free text is what a card number is looked for in; identifiers are not
// refused for their look; a mask keeps the last four digits and nothing else changes.
func TestScreen(t *testing.T) {
	const card = "4242424242424242"
	id, err := claim.NewObjectID("ch", 7, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, body, member, masked string }{
		{"nothing", with("description", `"Order 7"`), "", ""},
		{"description", with("description", `"`+card+`"`), "description", with("description", `"************4242"`)},
		{"in groups, twice", with("description", `"a 4242-4242-4242-4242, 3782 822463 10005 \" b"`), "description",
			with("description", `"a ****-****-****-4242, **** ****** *0005 \" b"`)},
		{"across a line", with("description", `"4242\n4242\n4242\n4242"`), "description", with("description", `"****\n****\n****\n4242"`)},
		{"behind an escape", with("description", `"\u0001`+card+`\\"`), "description", with("description", `"\u0001************4242\\"`)},
		{"what a mask leaves", with("description", `"`+card+` 4242 4242 4242"`), "description", with("description", `"**************** **** **** 4242"`)},
		{"another script", with("description", `"４２４２４２４２４２４２４２４２"`), "description", with("description", `"************４２４２"`)},
		{"metadata", with("metadata", `{"a":"x","note":"card `+card+`"}`), "metadata.note", with("metadata", `{"a":"x","note":"card ************4242"}`)},
		{"metadata in groups", with("metadata", `{"n":"4242 4242 4242 4242"}`), "metadata.n", with("metadata", `{"n":"**** **** **** 4242"}`)},
		{"metadata, a name", with("metadata", `{"c `+card+`":"x"}`), "metadata.(digits)", "none"},
		{"two members", with("description", `"`+card+`"`, "metadata", `{"n":"c `+card+`"}`), "description",
			with("description", `"************4242"`, "metadata", `{"n":"c ************4242"}`)},

		{"payment_method", `{"amount":1,"currency":"usd","payment_method":"pm_` + card + `"}`, "payment_method", "none"},
		{"payment_method, and text", `{"amount":1,"currency":"usd","description":"c ` + card + `","payment_method":"pm_` + card + `"}`, "payment_method",
			`{"amount":1,"currency":"usd","description":"c ************4242","payment_method":"pm_` + card + `"}`},
		{"payment_method, a token", `{"amount":1,"currency":"usd","payment_method":"pm_1-` + card + `"}`, "", ""},

		{"metadata, named as cards are", with("metadata", `{"card":"`+card+`"}`), "metadata.card", with("metadata", `{"card":"************4242"}`)},
		{"metadata, a pan", with("metadata", `{"PAN":"`+card+`"}`), "metadata.PAN", with("metadata", `{"PAN":"************4242"}`)},
		{"metadata, a card number", with("metadata", `{"card_number":"`+card+`"}`), "metadata.card_number", with("metadata", `{"card_number":"************4242"}`)},
		{"metadata, a cardNo", with("metadata", `{"creditCardNo":"`+card+`"}`), "metadata.creditCardNo", with("metadata", `{"creditCardNo":"************4242"}`)},
		{"metadata, a card's id", with("metadata", `{"card_id":"`+card+`","pan_token":"`+card+`"}`), "", ""},
		{"identifiers", with("description", `"card-`+card+`"`, "metadata", `{"n":"x`+card+`","card":"tok_`+card+`","c`+card+`":"`+card+`#a"}`), "", ""},
		{"an identifier in a text", with("description", `"order ORD-`+card+` of 8610-4861559991d2"`), "", ""},

		{"metadata of digits alone", with("metadata", `{"n":"`+card+`","`+card+`":"5555555555554444"}`), "", ""},
		{"order_id", with("order_id", `"`+card+`"`), "", ""},
		{"order_id in groups", with("order_id", `"4242 4242 4242 4242"`), "", ""},
		{"destination", `{"amount":1,"currency":"usd","destination":"acct_` + card + `"}`, "", ""},
		{"reason", `{"charge":"` + id + `","reason":"wrong card ` + card + `"}`, "reason", `{"charge":"` + id + `","reason":"wrong card ************4242"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			canonical, err := claim.Canonical([]byte(c.body), claim.CanonicalOptions{})
			if err != nil {
				t.Fatal(err)
			}
			op := Charge
			switch {
			case strings.Contains(c.body, "destination"):
				op = Transfer
			case strings.Contains(c.body, "reason"):
				op = Refund
			}
			in, err := Parse(op, canonical)
			if err != nil {
				t.Fatal(err)
			}
			before := string(canonical)
			got := Screen(canonical)
			if again := in.Screen(canonical); !reflect.DeepEqual(again, got) {
				t.Errorf("parsed, it is %+v instead of %+v", again, got)
			}
			want := c.masked
			if want == "none" {
				want = ""
			} else if want != "" {
				b, err := claim.Canonical([]byte(want), claim.CanonicalOptions{})
				if err != nil {
					t.Fatal(err)
				}
				want = string(b)
			}
			if got.Member != c.member || string(got.Masked) != want || string(canonical) != before {
				t.Errorf("got %q\n%s\nwant %q\n%s", got.Member, got.Masked, c.member, want)
			}
			if got.Member != "" && strings.Contains(got.Refusal().Error(), "4242") {
				t.Errorf("the refusal repeats it: %v", got.Refusal())
			}
		})
	}
}

// identifiers are the kinds that systems write, but for those that are digits alone.
func identifiers(rnd *rand.Rand) map[string]func() string {
	const base32, base62 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	of := func(alphabet string, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		return string(b)
	}
	hex := func(n int) string { return of("0123456789abcdef", n) }
	digits := func(n int) string { return of("0123456789", n) }
	uuid := func(version, first string) string {
		return first + hex(8-len(first)) + "-" + hex(4) + "-" + version + hex(3) + "-" + of("89ab", 1) + hex(3) + "-" + hex(12)
	}
	bytes := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
	return map[string]func() string{
		"UUIDv4":                  func() string { return uuid("4", "") },
		"UUIDv7":                  func() string { return uuid("7", "019") },
		"UUIDv4 in upper case":    func() string { return strings.ToUpper(uuid("4", "")) },
		"two UUIDs":               func() string { return uuid("4", "") + " " + uuid("4", "") },
		"ULID":                    func() string { return "01" + of(base32, 24) },
		"hex, 16":                 func() string { return hex(16) },
		"hex, 24":                 func() string { return hex(24) },
		"hex, 32":                 func() string { return hex(32) },
		"hex, 64":                 func() string { return hex(64) },
		"hex in groups":           func() string { return hex(4) + "-" + hex(4) + "-" + hex(4) + "-" + hex(4) + "-x" },
		"traceparent":             func() string { return "00-" + hex(32) + "-" + hex(16) + "-01" },
		"base64":                  func() string { return base64.StdEncoding.EncodeToString(bytes(18)) },
		"base64url":               func() string { return base64.RawURLEncoding.EncodeToString(bytes(16)) },
		"base62, with a prefix":   func() string { return "pi_3" + of(base62, 23) },
		"snowflake with a prefix": func() string { return "ord_" + fmt.Sprint(1<<60+rnd.Int64N(1<<61)) },
		"order number of a date":  func() string { return "ORD-20" + digits(6) + "-" + digits(8) },
		"order number, prefix":    func() string { return "ORD-" + digits(16) },
		"order number, suffix":    func() string { return digits(16) + "-EU" },
		"order number, 3-7-7":     func() string { return digits(3) + "-" + digits(7) + "-" + digits(7) },
		"order number, 16-2":      func() string { return digits(16) + "-" + digits(2) },
		"order number, a path":    func() string { return "gid://shop/Order/5" + digits(12) },
	}
}

// TestIdentifiersAreNoCards: an identifier in any member is not refused for its look: its merchant
// could never pay under it. One in a million may be taken for a card number.
func TestIdentifiersAreNoCards(t *testing.T) {
	tries, enough := 50_000, 1_000_000 // of each kind, and in all
	if testing.Short() {
		tries, enough = tries/10, enough/10
	}
	total, taken := 0, map[string]int{}
	for name, write := range identifiers(rand.New(rand.NewPCG(1, 2))) {
		for range tries {
			id := write()
			if strings.Trim(id, "0123456789") == "" {
				continue
			}
			total++
			found := Screen([]byte(`{"description":"ref ` + id + ` ok","metadata":{"card":"` + id + `","id":"` + id + `"},"reason":"` + id + `"}`))
			if found.Member != "" {
				if taken[name]++; taken[name] == 1 {
					t.Logf("%s: %s of %s", name, found.Member, id)
				}
			}
		}
	}
	sum := 0
	for _, n := range taken {
		sum += n
	}
	if sum*1_000_000 > total {
		t.Errorf("%d of %d identifiers were taken for card numbers: %v", sum, total, taken)
	}
	if total < enough {
		t.Errorf("only %d identifiers were tried", total)
	}
}

func FuzzScreen(f *testing.F) {
	for _, c := range cards {
		f.Add("x "+c, c, grouped(c, 4, " ")+"\n"+c)
	}
	f.Fuzz(func(t *testing.T, description, name, value string) {
		if name == "" {
			name = "n"
		}
		raw, err := json.Marshal(map[string]any{
			"amount": 1, "currency": "usd", "payment_method": "pm_1", "description": description, "metadata": map[string]string{name: value},
		})
		if err != nil {
			return
		}
		canonical, err := claim.Canonical(raw, claim.CanonicalOptions{})
		if err != nil {
			return
		}
		in, err := Parse(Charge, canonical)
		if err != nil {
			return
		}
		got := Screen(canonical)
		if again := in.Screen(canonical); !reflect.DeepEqual(again, got) {
			t.Fatalf("%s is %+v, and parsed %+v", canonical, got, again)
		}
		if (got.Member == "") && got.Masked != nil {
			t.Fatalf("%s was masked for nothing", canonical)
		}
		if got.Masked == nil {
			return
		}
		again, err := claim.Canonical(got.Masked, claim.CanonicalOptions{})
		if err != nil || string(again) != string(got.Masked) {
			t.Fatalf("%s became %s: %v", canonical, got.Masked, err)
		}
		if _, err := Parse(Charge, got.Masked); err != nil {
			t.Fatalf("%s became %s: %v", canonical, got.Masked, err)
		}
		if rest := Screen(got.Masked); rest.Member != "" {
			t.Fatalf("%s became %s, which still has one in %s", canonical, got.Masked, rest.Member)
		}
	})
}

// TestNumbersThatAreNoCards measures how many numbers that merchants write into free
// text are taken for a card number, and bounds it. The figures stand in docs/CARDS.md;
// go test -v prints them. One in ten numbers has a right check digit, so what counts is
// how many begin as a network's do and have its length.
func TestNumbersThatAreNoCards(t *testing.T) {
	const tries = 20_000
	rnd := rand.New(rand.NewPCG(1, 2))
	at := func() time.Time { // 2020 to 2030
		return time.Unix(1_577_836_800+rnd.Int64N(315_532_800), rnd.Int64N(1e9)).UTC()
	}
	digits := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('0' + rnd.IntN(10))
		}
		return string(b)
	}
	snowflake := func(epoch int64) string {
		return fmt.Sprint((at().UnixMilli()-epoch)<<22 | rnd.Int64N(1<<22))
	}
	for _, c := range []struct {
		name  string
		most  float64 // percent
		write func() string
	}{
		{"snowflake id of 2020 to 2030 (X)", 0.1, func() string { return snowflake(1_288_834_974_657) }},
		{"snowflake id of 2020 to 2030 (Discord)", 0.3, func() string { return snowflake(1_420_070_400_000) }},
		{"order number, 10 digits", 0, func() string { return digits(10) }},
		{"order number, 13 digits", 1.8, func() string { return digits(13) }},
		{"order number, 16 digits", 3.8, func() string { return digits(16) }},
		{"order number, 19 digits", 2.8, func() string { return digits(19) }},
		{"order number 112-1234567-1234567", 0, func() string { return "11" + digits(1) + "-" + digits(7) + "-" + digits(7) }},
		{"date and counter, 14 digits", 0, func() string { return at().Format("20060102") + digits(6) }},
		{"date-counter-counter", 0, func() string { return at().Format("2006-01-02") + "-" + digits(4) + "-" + digits(4) }},
		{"time stamp, seconds", 0, func() string { return fmt.Sprint(at().Unix()) }},
		{"time stamp, milliseconds", 0, func() string { return fmt.Sprint(at().UnixMilli()) }},
		{"time stamp, microseconds", 0, func() string { return fmt.Sprint(at().UnixMicro()) }},
		{"time stamp, nanoseconds", 0, func() string { return fmt.Sprint(at().UnixNano()) }},
		{"time stamp, RFC 3339", 0, func() string { return at().Format(time.RFC3339Nano) }},
		{"telephone, +44 7700 900123", 0, func() string { return "+44 7" + digits(3) + " " + digits(6) }},
		{"telephone, +49 1512 3456789", 0, func() string { return "+49 15" + digits(2) + " " + digits(7) }},
		{"telephone, 0049 1512 3456789", 0, func() string { return "0049 15" + digits(2) + " " + digits(7) }},
		{"telephone, (415) 555-2671", 0, func() string { return "(" + digits(3) + ") " + digits(3) + "-" + digits(4) }},
		{"two telephones, 415-555-2671 415-555-2672", 0, func() string {
			return digits(3) + "-" + digits(3) + "-" + digits(4) + " " + digits(3) + "-" + digits(3) + "-" + digits(4)
		}},
		{"article, EAN-13", 1.8, func() string { return digits(13) }},
		{"article, EAN-13 of Germany", 11, func() string { return "40" + digits(11) }},
		{"account, IBAN DE in groups", 4.1, func() string { return "DE" + grouped(digits(20), 4, " ") }},
		{"date and time, 2024/11/22 12:34:56.789", 0, func() string { return at().Format("2006/01/02 15:04:05.000000") }},
		{"log line, 20241122_123456_0001", 0, func() string { return at().Format("20060102_150405_") + digits(4) }},
		{"amount, 1,234,567,890,123.45", 0, func() string {
			return digits(1) + "," + digits(3) + "," + digits(3) + "," + digits(3) + "," + digits(3) + "." + digits(2)
		}},
		{"telephone, 0151/23456789, twice", 0, func() string { return "0151/" + digits(8) + ", 0171/" + digits(8) }},
		{"years, 2019, 2020, 2021, 2022", 0, func() string { y := at().Year(); return fmt.Sprintf("%d, %d, %d, %d", y, y+1, y+2, y+3) }},
		{"four numbers of 4 digits, 1234, 5678, …", 3.8, func() string { return grouped(digits(16), 4, ", ") }},
		{"three postcodes, 10115, 20095, 50667", 0, func() string { return grouped(digits(15), 5, ", ") }},
		{"two numbers of 7 digits, 1234567/1234567", 0, func() string { return grouped(digits(14), 7, "/") }},
	} {
		taken := 0
		for range tries {
			if HasCardNumber("ref " + c.write() + " ok") {
				taken++
			}
		}
		percent := 100 * float64(taken) / tries
		t.Logf("%-45s %6.3f %% taken for a card number (bound %g %%)", c.name, percent, c.most)
		if percent > c.most {
			t.Errorf("%s: %.3f %% are taken for a card number, more than %g %%", c.name, percent, c.most)
		}
	}
}

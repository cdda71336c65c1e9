package recon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// mapped reads testdata as a mapping that is built in describes it.
func mapped(t *testing.T, name string) (lines []Line, unknown map[string]int) {
	t.Helper()
	m, err := MappingOf(name)
	require.NoError(t, err)
	f, err := os.Open(filepath.Join("testdata", name+".csv"))
	require.NoError(t, err)
	defer f.Close()
	unknown = map[string]int{}
	n, err := m.Read(f, func(l Line) error { lines = append(lines, l); return nil }, func(kind string) { unknown[kind]++ })
	require.NoError(t, err)
	require.Len(t, lines, n)
	return lines, unknown
}

func utc(text string) time.Time {
	at, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		panic(err)
	}
	return at
}

func TestStripesBalanceReport(t *testing.T) {
	lines, unknown := mapped(t, "stripe")
	require.Equal(t, map[string]int{"risk_reserved_funds": 1, "climate_order_purchase": 1}, unknown)
	require.Equal(t, []Line{
		{"pi_a", psp.KindCharge, "ch_1", 2000, "usd", utc("2026-03-01 22:59:58"), false, "txn_1", "pi_a", "usd", 2000, 88},
		{"pi_b", psp.KindCharge, "", 1000, "eur", utc("2026-03-02 08:00:00"), false, "txn_2", "pi_b", "usd", 1084, 61},
		{"re_a", psp.KindRefund, "re_1", 500, "usd", utc("2026-03-02 09:00:00"), false, "txn_3", "pi_a", "usd", 500, 0},
		{"re_a", psp.KindRefund, "re_1", 500, "usd", utc("2026-03-02 09:30:00"), true, "txn_4", "pi_a", "usd", 500, 0},
		{"du_a", psp.KindDispute, "", 2000, "usd", utc("2026-03-02 10:00:00"), false, "txn_5", "pi_a", "usd", 2000, 1500},
		{"du_a", psp.KindDisputeReversal, "", 2000, "usd", utc("2026-03-02 11:00:00"), false, "txn_6", "pi_a", "usd", 2000, -1500},
		{"tr_a", psp.KindTransfer, "tr_1", 700, "usd", utc("2026-03-02 12:00:00"), false, "txn_7", "", "usd", 700, 0},
		{"fee_a", psp.KindFee, "", 30, "usd", utc("2026-03-02 12:30:00"), false, "txn_8", "", "usd", 30, 0},
		{"pi_c", psp.KindCharge, "ch_3", 1500, "jpy", utc("2026-03-02 12:40:00"), false, "txn_9", "pi_c", "jpy", 1500, 54},
		{"po_a", psp.KindPayout, "", 1234, "kwd", utc("2026-03-02 12:52:00"), false, "txn_12", "", "kwd", 1234, 0},
		{"fee_b", psp.KindFeeRefund, "", 20, "usd", utc("2026-03-02 12:53:00"), false, "txn_13", "", "usd", 20, 0},
	}, lines)
}

// The mapping has only categories of Stripe's OpenAPI document, and so has the example.
func TestCategoriesAreStripes(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "stripe_categories.json"))
	require.NoError(t, err)
	var document struct {
		Categories []string `json:"reporting_category"`
	}
	require.NoError(t, json.Unmarshal(raw, &document))
	m, err := MappingOf("stripe")
	require.NoError(t, err)
	require.NotEmpty(t, m.Kinds)
	for name := range m.Kinds {
		require.Contains(t, document.Categories, name)
	}
	_, unknown := mapped(t, "stripe")
	for name := range unknown {
		require.Contains(t, document.Categories, name)
	}
}

func TestAdyensSettlementDetails(t *testing.T) {
	lines, unknown := mapped(t, "adyen")
	require.Equal(t, map[string]int{"DepositCorrection": 1}, unknown)
	require.Equal(t, []Line{
		{"1813702551707653", psp.KindCharge, "ch_1", 500, "gbp", utc("2013-06-03 09:26:49"), false, "1713702551795048/Settled", "1813702551707653", "gbp", 500, 12},
		{"2313642467170922", psp.KindDispute, "ch_2", 34999, "eur", utc("2013-03-26 21:37:26"), false, "2313642467170922/Chargeback", "1313642467023511", "eur", 34999, 750},
		{"2313642467170923", psp.KindRefund, "re_2", 4999, "eur", utc("2013-03-27 21:37:26"), false, "2313642467170923/Refunded", "1313642467023511", "eur", 4999, 10},
		{"2313642467170922", psp.KindDisputeReversal, "ch_2", 34999, "eur", utc("2013-04-26 20:37:26"), false, "2313642467170922/ChargebackReversed", "1313642467023511", "eur", 34999, 0},
		{"2313642467170922/second", psp.KindDispute, "ch_2", 34999, "eur", utc("2013-05-26 20:37:26"), false, "2313642467170922/SecondChargeback", "1313642467023511", "eur", 34999, 0},
		{"Transaction Fees June 2013", psp.KindFee, "", 44, "gbp", utc("2013-06-11 03:55:40"), false, "Transaction Fees June 2013/Fee", "", "gbp", 44, 0},
		{"TX1234567XT", psp.KindPayout, "", 444, "gbp", utc("2013-06-11 03:55:42"), false, "TX1234567XT/MerchantPayout", "", "gbp", 444, 0},
	}, lines)
}

func TestPayPalsSettlementReport(t *testing.T) {
	lines, unknown := mapped(t, "paypal")
	require.Equal(t, map[string]int{"T0200": 1}, unknown)
	require.Equal(t, []Line{
		{"1AB23456CD789012E", psp.KindCharge, "ch_1", 10000, "usd", utc("2026-03-01 13:50:24"), false, "1AB23456CD789012E/T0006", "", "usd", 10000, 320},
		{"2AB23456CD789012E", psp.KindRefund, "", 2500, "usd", utc("2026-03-01 14:50:24"), false, "2AB23456CD789012E/T1107", "1AB23456CD789012E", "usd", 2500, -80},
	}, lines)
}

// good is the least that a mapping needs.
const good = `
columns: {id: Ref, kind: What, created: When, amount: {value: Sum, currency: Cur}}
numbers: {unit: major, decimal: ",", group: "."}
time: {format: "02.01.2006 15:04", zone: Europe/Berlin}
delimiter: ";"
kinds: {Zahlung: charge, Erstattung: refund, Saldo: skip}
`

// A bank's spelling: semicolons, commas, local times, also when the clocks change.
func TestAMappingOfOnesOwn(t *testing.T) {
	m, err := ReadMapping(strings.NewReader(good))
	require.NoError(t, err)
	var lines []Line
	_, err = m.Read(strings.NewReader("ref;WHAT;When;Sum;Cur\na;Zahlung;29.03.2026 01:30;1.234,50;EUR\nb;Erstattung;29.03.2026 03:30;-0,5;eur\nc;Saldo;;;\n"),
		func(l Line) error { lines = append(lines, l); return nil }, func(kind string) { t.Errorf("%s is no kind", kind) })
	require.NoError(t, err)
	require.Equal(t, []Line{
		{"a", psp.KindCharge, "", 123450, "eur", utc("2026-03-29 00:30:00"), false, "a/Zahlung", "", "eur", 123450, 0},
		{"b", psp.KindRefund, "", 50, "eur", utc("2026-03-29 01:30:00"), false, "b/Erstattung", "", "eur", 50, 0},
	}, lines)
}

// A line with money that moved the wrong way is counted, and the others are read.
func TestMoneyThatMovedTheOtherWay(t *testing.T) {
	m, err := ReadMapping(strings.NewReader(strings.Replace(good, "Saldo: skip", "Auszahlung: payout, Eingang: payout_reversal", 1)))
	require.NoError(t, err)
	var lines []Line
	counted := map[string]int{}
	_, err = m.Read(strings.NewReader("Ref;What;When;Sum;Cur\na;Zahlung;01.03.2026 01:30;-1;EUR\nb;Erstattung;01.03.2026 01:30;1;EUR\nc;Auszahlung;01.03.2026 01:30;2;EUR\nd;Auszahlung;01.03.2026 01:30;-3;EUR\ne;Eingang;01.03.2026 01:30;-4;EUR\n"),
		func(l Line) error { lines = append(lines, l); return nil }, func(kind string) { counted[kind]++ })
	require.NoError(t, err)
	require.Equal(t, map[string]int{"Zahlung (money went)": 1, "Erstattung (money came)": 1, "Eingang (money went)": 1}, counted)
	require.Equal(t, []Line{
		{"c", psp.KindTopUp, "", 200, "eur", utc("2026-03-01 00:30:00"), false, "c/Auszahlung", "", "eur", 200, 0},
		{"d", psp.KindPayout, "", 300, "eur", utc("2026-03-01 00:30:00"), false, "d/Auszahlung", "", "eur", 300, 0},
	}, lines)
}

func TestWhatIsWrongWithAMapping(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"delimiter: \";\"", "delimiter: \";;\"", "delimiter must be one character"},
		{"unit: major", "unit: cents", "numbers.unit must be major"},
		{`group: "."`, `group: ","`, "must be two characters"},
		{"kind: What, ", "", "columns.kind is missing"},
		{"created: When, ", "", "columns.created is missing"},
		{"amount: {value: Sum, currency: Cur}", "amount: {currency: Cur}", "columns.amount is missing"},
		{"value: Sum, ", "value: Sum, debit: D, ", "both value and credit or debit"},
		{"value: Sum, ", "debit: D, ", "needs both credit and debit"},
		{"value: Sum, ", "value: Sum, side: S, ", "and debits, its value"},
		{", currency: Cur", "", "columns.amount.currency is missing"},
		{"02.01.2006 15:04", "02.01. 15:04", "does not write a whole date"},
		{"Europe/Berlin", "Middle/Earth", `there is no time zone "Middle/Earth"`},
		{"Europe/Berlin", "Local", `there is no time zone "Local"`},
		{"Zahlung: charge", "Zahlung: payment", `kinds.Zahlung: there is no kind "payment"; use charge`},
		{"Zahlung: charge", "Zahlung: dispute_failed", `there is no kind "dispute_failed"`},
		{"Zahlung: charge", "Zahlung: {kind: charge, idd: X}", "there is no member idd"},
		{"id: Ref, ", "", "kinds.Zahlung: columns.id is missing"},
		{"delimiter:", "delimeter:", "line 5: there is no member delimeter"},
		{"delimiter:", "lag: soon\ndelimiter:", "line 5: cannot unmarshal"},
		{"kinds:", "kinds: {}\nx:", "there is no member x"},
	} {
		require.Contains(t, good, c.from)
		_, err := ReadMapping(strings.NewReader(strings.Replace(good, c.from, c.to, 1)))
		require.ErrorContains(t, err, c.want, c.to)
	}
	_, err := ReadMapping(strings.NewReader("name: x\n"))
	require.ErrorContains(t, err, "kinds is missing")
	_, err = MappingOf("xml")
	require.ErrorContains(t, err, "use csv, jsonl, adyen, paypal, stripe, or describe it")
}

func TestWhatIsWrongInAMappedStatement(t *testing.T) {
	m, err := ReadMapping(strings.NewReader(good))
	require.NoError(t, err)
	const head = "Ref;What;When;Sum;Cur\n"
	for _, c := range []struct{ text, want string }{
		{"", "line 1: has no line with the names"},
		{"Ref;What;When;Sum\n", "line 1: has no column Cur"},
		{head + "a;Zahlung;01.03.2026 01:30;1,234;EUR\n", "line 2: amount must be a number of major units of eur"},
		{head + "a;Zahlung;01.03.2026 01:30;x;EUR\n", "line 2: amount"},
		{head + "a;Zahlung;01.03.2026 01:30;0;EUR\n", "line 2: a charge without an amount"},
		{head + "a;Zahlung;01.03.2026 01:30;;EUR\n", "line 2: has no amount"},
		{head + "a;Zahlung;01.03.2026 01:30;9999999999999;EUR\n", "line 2: amount must be at most"},
		{head + "a;Zahlung;01.03.2026 01:30;99999999999999999999;EUR\n", "line 2: amount"},
		{head + "a;Zahlung;2026-03-01;1;EUR\n", "line 2: created must be a time as 02.01.2006 15:04"},
		{head + "a;Zahlung;01.03.2026 01:30;1;EURO\n", "line 2: currency must be"},
		{head + ";Zahlung;01.03.2026 01:30;1;EUR\n", "line 2: has no id; the mapping looks for it in Ref"},
		{head + strings.Repeat("x", maxText+1) + ";Zahlung;01.03.2026 01:30;1;EUR\n", "line 2: an id must have at most"},
	} {
		_, err := m.Read(strings.NewReader(c.text), func(Line) error { return nil }, func(string) {})
		require.ErrorContains(t, err, c.want, "%.60q", c.text)
	}
}

func FuzzMappedStatement(f *testing.F) {
	for _, name := range Mappings() {
		text, err := os.ReadFile(filepath.Join("testdata", name+".csv"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, name)
	}
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		m, err := MappingOf(name)
		if err != nil {
			t.Skip()
		}
		_, err = m.Read(strings.NewReader(string(text)), func(l Line) error {
			if l.ID == "" || l.Entry == "" || l.Amount <= 0 || l.Gross < 0 || len(l.Currency) != 3 || len(l.Settled) != 3 {
				t.Fatalf("handed out %+v", l)
			}
			return nil
		}, func(kind string) {
			if kind == "" || len(kind) > maxWord {
				t.Fatalf("an unknown kind %q", kind)
			}
		})
		if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Fatalf("more than one line: %q", err)
		}
	})
}

// A day's payments are paid out at once: a payout is not bounded by what one payment can be. Ten billion
// rupiahs are some 600,000 dollars.
func TestAPayoutIsMoreThanAPayment(t *testing.T) {
	m, err := ReadMapping(strings.NewReader(strings.Replace(good, "Saldo: skip", "Auszahlung: payout, Saldo: fee", 1)))
	require.NoError(t, err)
	for line, want := range map[string]int64{
		"a;Auszahlung;01.03.2026 01:30;-25.000.000.000,00;IDR":         2_500_000_000_000,
		"a;Saldo;01.03.2026 01:30;-25.000.000.000,00;IDR":              2_500_000_000_000,
		"a;Auszahlung;01.03.2026 01:30;-90.071.992.547.409,92;EUR":     1 << 53,
		"a;Auszahlung;01.03.2026 01:30;-90.071.992.547.409,93;EUR":     0,
		"a;Zahlung;01.03.2026 01:30;9.999.999.999,99;EUR":              payment.MaxAmount,
		"a;Zahlung;01.03.2026 01:30;10.000.000.000,00;EUR":             0,
		"a;Auszahlung;01.03.2026 01:30;-9.999.999.999.999.999.999;EUR": 0,
	} {
		var lines []Line
		_, err := m.Read(strings.NewReader("Ref;What;When;Sum;Cur\n"+line+"\n"), func(l Line) error { lines = append(lines, l); return nil }, func(string) {})
		if want == 0 {
			require.Error(t, err, line)
			continue
		}
		require.NoError(t, err, line)
		require.Equal(t, want, lines[0].Amount, line)
	}
	for line, ok := range map[string]bool{"po_1,payout,,2500000000000,idr,1": true, "p,charge,,2500000000000,idr,1": false, "po_1,payout,,9007199254740993,idr,1": false} {
		_, err := Read(strings.NewReader("id,kind,reference,amount,currency,created\n"+line+"\n"), CSV, func(Line) error { return nil })
		require.Equal(t, ok, err == nil, "%s: %v", line, err)
	}
}
